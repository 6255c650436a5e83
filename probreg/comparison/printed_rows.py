"""The rows of a printed comparison: which parameters, whole or all fits in one row, and their numbers as texts."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison.numbers import FitTable
from probreg.comparison.prior_terms import kinked_columns, rowless
from probreg.fits.fit import Fit
from probreg.system.terminal import percent

Array = np.ndarray
LONG, LARGEST = (
    60,
    20,
)  # with more parameters than this only so many are printed, those with the largest differences
COLUMNS = (
    "",
    "fit",
    "estimate",
    "SE | SD",
    "lower",
    "upper",
    "diff / SE",
    "SE ratio",
    "prior",
    "prior weight",
)
_PRIOR = {"prior", "prior weight"}
_BESIDE = {"fit", "diff / SE", "SE ratio"}  # empty of a fit alone


class PrintedRows(NamedTuple):
    """Columns by name, rows as texts with the parameter in the first, and how many parameters have one row for all fits."""

    columns: list[str]
    rows: list[dict[str, str]]
    folded: int


def printed_rows(of: FitTable, where: Sequence[int], most: int) -> PrintedRows:
    """The rows of the parameters `where`, at most so many: those on which the fits agree best have one row for all of them."""
    informed = bool(of.data["prior_weight"].fillna(1.0).any())
    columns = [
        c
        for c in COLUMNS
        if (informed or c not in _PRIOR) and (len(of.fits) > 1 or c not in _BESIDE)
    ]
    k = len(of.fits)
    size = np.maximum(differences(of).max(0), _widths_apart(of))
    # k w + (P - w) rows, w of P parameters whole, and a line that says so
    if k * len(where) <= most:
        whole = len(where)
    elif k > 1:
        whole = max(0, (most - 1 - len(where)) // (k - 1))
    else:
        whole = len(where)
    kept = set(sorted(where, key=lambda j: -size[j])[:whole])
    rows: list[dict[str, str]] = []
    for j in where:
        rows += _rows_of(of, j) if j in kept else [_row_of_all(of, j)]
    columns = [
        c
        for c in columns
        if c not in ("SE | SD", "lower", "upper") or any(row[c] for row in rows)
    ]
    return PrintedRows(columns, rows, len(where) - len(kept))


def differences(of: FitTable) -> Array:
    """(fit, param): how far each fit is from the baseline, max(|difference| / SE, |log SE ratio|); inf where one of the two has no
    estimate, or is exactly 0, 0 where nothing can be said."""
    ratio = of.data["se_ratio"].values
    estimate = of.data["estimate"].values
    size = np.fmax(
        np.abs(of.data["difference"].values),
        np.abs(np.log(np.where(ratio > 0, ratio, 1.0))),
    )
    base = list(of.fits).index(of.baseline)
    lost = (np.isnan(estimate) != np.isnan(estimate[base])) | (
        (estimate == 0.0) != (estimate[base] == 0.0)
    )
    return np.where(
        lost & (of.data["kind"].values != ""), np.inf, np.nan_to_num(size, posinf=0.0)
    )


def _widths_apart(of: FitTable) -> Array:
    """(param,) how far interval ends are from the baseline's, in SE of it: what a row of all fits would hide."""
    base = list(of.fits).index(of.baseline)
    error = of.data["error"].values
    with np.errstate(invalid="ignore", divide="ignore"):
        ends = [
            np.abs(of.data[q].values - of.data[q].values[base]) / error[base]
            for q in ("lower", "upper")
        ]
    return np.asarray(np.nan_to_num(np.maximum(*ends), nan=0.0, posinf=0.0).max(0))


def _rows_of(of: FitTable, j: int) -> list[dict[str, str]]:
    """One row per fit; digits follow the smallest SE of the parameter."""
    values = {str(k): v.values[:, j] for k, v in of.data.data_vars.items()}
    label = str(of.data["param"].values[j])
    column = str(of.data["coef"].values[j])
    places = decimals(values["error"])
    rows = []
    for i, (name, fit) in enumerate(of.fits.items()):
        one = {k: v[i] for k, v in values.items()}
        said = _format_numbers(one, places, fit, name == of.baseline)
        said |= {"": label, "fit": name if fit.solution.status.good else f"{name} (!)"}
        rows.append(
            said
            | {"prior": str(one["prior"]), "prior weight": _weight(one, fit, column)}
        )
    return rows


def _row_of_all(of: FitTable, j: int) -> dict[str, str]:
    """The baseline's row, or that of the first fit with an estimate, with the largest difference, the SE ratio furthest from 1 and
    the largest prior weight of all fits."""
    rows = _rows_of(of, j)
    here = of.data.isel(param=j)
    names = list(of.fits)
    known = [
        name
        for name in (of.baseline, *names)
        if np.isfinite(here["estimate"].sel(fit=name).item())
    ]
    name = known[0] if known else of.baseline
    first = dict(rows[names.index(name)])
    difference, ratio, weight = (
        np.nan_to_num(here[q].values, nan=v)
        for q, v in (("difference", 0.0), ("se_ratio", 1.0), ("prior_weight", -1.0))
    )
    far = int(np.argmax(np.abs(difference)))
    wide = int(np.argmax(np.abs(np.log(np.where(ratio > 0, ratio, 1.0)))))
    first |= {"fit": f"{name} +{len(of.fits) - 1}", "prior": ""}
    return first | {
        "diff / SE": rows[far]["diff / SE"],
        "SE ratio": rows[wide]["SE ratio"],
        "prior weight": rows[int(np.argmax(weight))]["prior weight"],
    }


def parameters_printed(
    of: FitTable, long: int = LONG, most: int = LARGEST
) -> list[int]:
    """The numbers of the parameters that are printed, in their order: all up to `long` but the columns of smooth functions and
    processes, which say nothing one by one; of more the `most` with the largest differences, one without a difference before them,
    and what is no coefficient."""
    difference = np.abs(of.data["difference"].values)
    coefficient = of.data["role"].values == "coefficient"
    alone = ~of_terms(of)
    if alone.sum() <= long:
        return [int(i) for i in np.flatnonzero(alone)]
    size = np.where(np.isnan(difference), np.inf, difference).max(0)
    size[~coefficient | ~alone] = -1.0
    largest = np.argsort(-size, kind="stable")[
        : min(most, int((coefficient & alone).sum()))
    ]
    return sorted([*map(int, largest), *map(int, np.flatnonzero(~coefficient))])


def of_terms(of: FitTable) -> np.ndarray:
    """(params,) bool: coefficients of the columns of smooth functions and processes, in any of the fits."""
    designs = [fit.model.design for fit in of.fits.values()]
    columns = tuple(
        {c for d in designs for c, term in zip(d.columns, d.of_terms) if term}
    )
    # a coefficient is called by its column, with its outcome behind a colon where there are several
    coefficient = of.data["role"].values == "coefficient"
    named = [
        str(p) in columns or str(p).startswith(tuple(f"{c}: " for c in columns))
        for p in of.data["param"].values
    ]
    return np.asarray(coefficient & np.array(named, dtype=bool))


def _format_numbers(
    one: Mapping[str, Any], places: int, fit: Fit, baseline: bool
) -> dict[str, str]:
    none = dict.fromkeys(COLUMNS, "")
    if one["kind"] == "held":
        return none | {"estimate": f"{one['estimate']:g}", "SE | SD": "held"}
    if one["kind"] == "" or np.isnan(one["estimate"]):
        return none | {"estimate": "does not exist" if one["kind"] else "not in it"}
    word = "SD" if fit.target == "posterior" else "SE"
    said = {
        "SE | SD": f"{format_rounded(one['error'], places)} {word}"
        if np.isfinite(one["error"])
        else "none"
    }
    said |= {q: format_rounded(one[q], places) for q in ("estimate", "lower", "upper")}
    if not baseline and np.isfinite(one["difference"]):
        said["diff / SE"] = f"{round(one['difference'], 2) + 0.0:+.2f}"
    if not baseline and one["se_ratio"] > 0:
        said["SE ratio"] = f"{one['se_ratio']:.3f}"
    return none | said


def _weight(one: Mapping[str, Any], fit: Fit, column: str) -> str:
    if one["kind"] in ("held", ""):
        return ""
    if one["prior"] == "flat":
        return "flat"
    if column in kinked_columns(fit.model):
        lost = "kinked"
    elif rowless(fit):
        lost = "not known"
    else:
        lost = "not defined"
    if np.isnan(one["prior_weight"]):
        return lost
    return percent(one["prior_weight"])


def decimals(errors: Array) -> int:
    """Places after the point that show the smallest error to three significant digits; below 0 of those before it.

    >>> decimals(np.array([7.38, 0.108])), decimals(np.array([1234.5])), decimals(np.array([np.nan]))
    (3, -1, 4)
    """
    known = errors[np.isfinite(errors) & (errors > 0)]
    if len(known):
        return 2 - int(np.floor(np.log10(known.min())))
    return 4


def format_rounded(value: float, places: int) -> str:
    """Format a number to so many decimal places, with an exponent where that would be long, of at most the digits that a number has.

    >>> format_rounded(-0.232163, 4), format_rounded(1.2345e-12, 14), format_rounded(float("nan"), 2), format_rounded(1234.5, -1), format_rounded(1.2345e33, -30)
    ('-0.2322', '1.23e-12', '', '1234', '1.234e+33')
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else f"{value:g}"
    if places <= 8 and abs(value) < 1e10:
        return f"{value:.{max(places, 0)}f}"
    if value:
        digits = int(np.floor(np.log10(abs(value)))) + places
    else:
        digits = 0
    return f"{value:.{min(max(digits, 0), 15)}e}"
