"""The comparison as one table: a row per parameter and fit, numbers rounded by the smallest standard error of the parameter."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from probreg.comparison.numbers import FitTable
from probreg.comparison.prior_terms import kinked_columns, rowless
from probreg.fits.fit import Fit
from probreg.system.terminal import percent
from probreg.tables import Column, Table
from probreg.tables.formats import decimals, format_rounded

Array = np.ndarray
LONG = 60  # parameters that are all printed
LARGEST = 20  # of more parameters, those with the largest differences
COLUMNS = {
    "": "text", "fit": "text", "estimate": "estimate", "SE | SD": "error", "lower": "interval", "upper": "interval",
    "diff / SE": "estimate", "SE ratio": "estimate", "prior": "text", "prior weight": "estimate",
}  # fmt: skip
PRIOR_COLUMNS = ("prior", "prior weight")
_DIFFERENCES = ("fit", "diff / SE", "SE ratio")  # columns without a use for one fit


def parameter_table(
    fit_table: FitTable, params: Sequence[int], without: Sequence[str] = ()
) -> Table:
    """Return the rows of these parameters, without empty columns and the columns in `without`."""
    rows = [row for j in params for row in _parameter_rows(fit_table, j)]
    omitted = list(without)
    if not fit_table.data["prior_weight"].fillna(1.0).any():
        omitted += PRIOR_COLUMNS
    if len(fit_table.fits) == 1:
        omitted += _DIFFERENCES
    columns = []
    for name, kind in COLUMNS.items():
        cells = [row[name] for row in rows]
        if name not in omitted and (any(cells) or not name):
            columns.append(Column(name, cells, kind))  # type: ignore[arg-type]
    labels = 2 if len(fit_table.fits) > 1 else 1
    return Table(tuple(columns), labels, source=".to_pandas()")


def differences(fit_table: FitTable) -> Array:
    """(fit, param): distance from the baseline, max(|difference| / SE, |log SE ratio|).

    It is inf if exactly one of the two has no estimate or an estimate of 0, and 0 if it is not defined.
    """
    ratio = fit_table.data["se_ratio"].values
    estimate = fit_table.data["estimate"].values
    size = np.fmax(
        np.abs(fit_table.data["difference"].values),
        np.abs(np.log(np.where(ratio > 0, ratio, 1.0))),
    )
    base = estimate[list(fit_table.fits).index(fit_table.baseline)]
    unlike = (np.isnan(estimate) != np.isnan(base)) | ((estimate == 0.0) != (base == 0))
    return np.where(
        unlike & (fit_table.data["kind"].values != ""),
        np.inf,
        np.nan_to_num(size, posinf=0.0),
    )


def parameters_printed(
    fit_table: FitTable, long: int = LONG, limit: int = LARGEST
) -> list[int]:
    """Numbers of the printed parameters in their order, without the columns of smooth functions and processes.

    If there are more than `long`, these are the `most` coefficients with the largest differences, and all auxiliary parameters.
    """
    coefficient = fit_table.data["role"].values == "coefficient"
    shown = ~columns_of_terms(fit_table)
    if shown.sum() <= long:
        return [int(i) for i in np.flatnonzero(shown)]
    difference = np.abs(fit_table.data["difference"].values)
    size = np.where(np.isnan(difference), np.inf, difference).max(0)
    size[~coefficient | ~shown] = -1.0
    n = min(limit, int((coefficient & shown).sum()))
    largest = np.argsort(-size, kind="stable")[:n]
    return sorted([*map(int, largest), *map(int, np.flatnonzero(~coefficient))])


def columns_of_terms(fit_table: FitTable) -> Array:
    """(param,) bool: coefficients of smooth functions and processes in any of the fits."""
    designs = [fit.model.design for fit in fit_table.fits.values()]
    columns = {c for d in designs for c, term in zip(d.columns, d.of_terms) if term}
    coefs = fit_table.data["coef"].values
    return np.array([str(c) in columns for c in coefs]) & (
        fit_table.data["role"].values == "coefficient"
    )


def _parameter_rows(fit_table: FitTable, j: int) -> list[dict[str, str]]:
    values = {str(k): v.values[:, j] for k, v in fit_table.data.data_vars.items()}
    label = str(fit_table.data["param"].values[j])
    column = str(fit_table.data["coef"].values[j])
    places = decimals(values["error"])
    rows = []
    for i, (name, fit) in enumerate(fit_table.fits.items()):
        cells = {k: v[i] for k, v in values.items()}
        rows.append(
            dict.fromkeys(COLUMNS, "")
            | _number_cells(cells, places, fit, baseline=name == fit_table.baseline)
            | {
                "": label,
                "fit": name if fit.solution.status.good else f"{name} (!)",
                "prior": str(cells["prior"]),
                "prior weight": _weight_cell(cells, fit, column),
            }
        )
    return rows


def _number_cells(
    entry: Mapping[str, Any], places: int, fit: Fit, *, baseline: bool
) -> dict[str, str]:
    if entry["kind"] == "held":
        return {"estimate": f"{entry['estimate']:g}", "SE | SD": "held"}
    if entry["kind"] == "":
        return {"estimate": "not in it"}
    if np.isnan(entry["estimate"]):
        return {"estimate": "does not exist"}
    cells = {
        q: format_rounded(entry[q], places) for q in ("estimate", "lower", "upper")
    }
    cells["SE | SD"] = "none"
    if np.isfinite(entry["error"]):
        name = "SD" if fit.target == "posterior" else "SE"
        cells["SE | SD"] = f"{format_rounded(entry['error'], places)} {name}"
    if not baseline and np.isfinite(entry["difference"]):
        cells["diff / SE"] = f"{round(entry['difference'], 2) + 0.0:+.2f}"
    if not baseline and entry["se_ratio"] > 0:
        cells["SE ratio"] = f"{entry['se_ratio']:.3f}"
    return cells


def _weight_cell(cells: Mapping[str, Any], fit: Fit, column: str) -> str:
    if cells["kind"] in ("held", ""):
        return ""
    if cells["prior"] == "flat":
        return "flat"
    if not np.isnan(cells["prior_weight"]):
        return percent(cells["prior_weight"])
    if column in kinked_columns(fit.model):
        return "kinked"
    return "not known" if rowless(fit) else "not defined"
