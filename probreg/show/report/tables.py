"""The tables of a report: estimates of every fit, their comparison, predictions of rows that were named.

Numbers are texts that stand under one another on their decimal point: the only place where a report rounds.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from probreg.comparison import Comparison
from probreg.data.formula.variables import read_by, variables
from probreg.errors import DataError, NotConverged
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.likelihoods import Likelihood, OfClasses, OfTrials
from probreg.system.terminal import format_probability, percent
from probreg.tables.formats import decimals, format_rounded

_FIGURE, _POINT = "\u2007", "\u2008"  # spaces as wide as a digit and as a full stop


_ROWS = 100  # of a table


class TextTable(NamedTuple):
    """Heads and rows of texts; `numeric` says which columns hold numbers."""

    heads: list[str]
    numeric: list[bool]
    rows: list[list[str]]


class WideTable(NamedTuple):
    """A row per label, and the columns of each part (a fit) under its name; of very many labels the first."""

    parts: list[tuple[str, list[str]]]
    labels: list[str]
    rows: list[list[str]]

    @property
    def shown(self) -> list[tuple[str, list[str]]]:
        """Labels with their rows."""
        return list(zip(self.labels, self.rows))[:_ROWS]

    @property
    def left_out(self) -> int:
        """How many rows are not shown."""
        return max(len(self.rows) - _ROWS, 0)


def align_decimals(cells: Sequence[str]) -> list[str]:
    """Right-aligned cells padded behind, so that their decimal points meet.

    >>> [c.replace(chr(0x2007), "_").replace(chr(0x2008), ".") for c in align_decimals(["-1.25", "3", ""])]
    ['-1.25', '3.__', '']
    """
    tails = [len(c.partition(".")[2]) for c in cells]
    longest = max(tails, default=0)

    def padded(cell: str, tail: int) -> str:
        return (
            cell
            + ("" if "." in cell or not longest else _POINT)
            + _FIGURE * (longest - tail)
        )

    return [padded(c, t) if c[-1:].isdigit() else c for c, t in zip(cells, tails)]


def _shown_parameters(of: Comparison) -> list[str]:
    """The parameters but the columns of smooth functions and processes, which say nothing one by one."""
    hidden = {
        c
        for f in of.fits.values()
        for c, term in zip(f.model.design.columns, f.model.design.of_terms)
        if term
    }
    names = zip(of.data["param"].values, of.data["role"].values)
    return [
        str(p)
        for p, role in names
        if role != "coefficient" or str(p).partition(": ")[0] not in hidden
    ]


def estimates_table(of: Comparison, params: Sequence[str] | None = None) -> WideTable:
    """A row per parameter, or those of `params`: estimate, SE and interval of each fit, digits by the smallest standard error of it.

    Of one fit the prior weight stands beside them, where some prior has one.
    """
    if params is None:
        shown = _shown_parameters(of)
    else:
        shown = list(params)
    alone = len(of.fits) == 1
    weighed = alone and bool((of.data["prior_weight"].sel(param=shown) > 0).any())
    parts, columns = [], []
    for name, fit in of.fits.items():
        error = "SD" if fit.target == "posterior" else "SE"
        each = [_estimate_cells(of, p, name) for p in shown]
        heads = [
            "estimate",
            error,
            "interval",
            *(["prior weight, %"] if weighed else []),
        ]
        keep = [i for i in range(len(heads)) if any(row[i] for row in each)]
        parts.append((name, [heads[i] for i in keep]))
        columns += [
            [row[i] for row in each] for i in keep
        ]  # units differ from row to row: no common decimal point
    return WideTable(parts, shown, [list(row) for row in zip(*columns)])


def _estimate_cells(of: Comparison, param: str, name: str) -> list[str]:
    errors = of.data["error"].sel(param=param).values
    one = {
        str(k): v.item()
        for k, v in of.data.sel(param=param, fit=name).data_vars.items()
    }
    places = decimals(errors)
    weight = one["prior_weight"]
    if one["kind"] == "":
        return ["not in it", "", "", ""]
    if one["kind"] == "held":
        return [f"{one['estimate']:g}", "", "held", ""]
    if np.isnan(one["estimate"]):
        return ["none exists", "", "", ""]
    if (
        one["estimate"] == 0.0 and not np.isfinite(errors).any()
    ):  # a standard deviation that vanishes
        return ["0", "", "", ""]
    lower, upper = (minus(format_rounded(one[k], places)) for k in ("lower", "upper"))
    interval = f"{lower} to {upper}" if lower and upper else ""
    if np.isfinite(weight):
        share = percent(weight).removesuffix(" %")
    else:
        share = ""
    return [
        minus(format_rounded(one["estimate"], places)),
        format_rounded(one["error"], places),
        interval,
        share,
    ]


def comparison_table(of: Comparison) -> WideTable:
    """A row per parameter: of each fit but the baseline the difference in SE, the ratio of SE and the prior weight."""
    shown = _shown_parameters(of)
    parts, columns = [], []
    for name in of.fits:
        if name == of.baseline:
            continue
        here = of.data.sel(fit=name, param=shown)
        weights = [
            "" if not np.isfinite(v) else percent(v).removesuffix(" %")
            for v in here["prior_weight"].values
        ]
        each = {
            "difference / SE": [
                minus(_blank_nonfinite(f"{v:+.2f}")) for v in here["difference"].values
            ],
            "SE ratio": [_blank_nonfinite(f"{v:.3f}") for v in here["se_ratio"].values],
            "prior weight, %": weights
            if any(float(v > 0) for v in here["prior_weight"].values)
            else [],
        }
        each = {head: cells for head, cells in each.items() if any(cells)}
        parts.append((name, list(each)))
        columns += [align_decimals(cells) for cells in each.values()]
    return WideTable(
        parts, shown, [list(row) for row in zip(*columns)] if columns else []
    )


def kinds_said(of: Comparison, params: Sequence[str] | None = None) -> str:
    """The kinds of the intervals, or those of `params`, fit by fit, in a sentence."""
    said = []
    for name in of.fits:
        if params is None:
            here = of.data.sel(fit=name)
        else:
            here = of.data.sel(fit=name, param=list(params))
        here = here.isel(
            param=np.isfinite(here["lower"].values) | np.isfinite(here["upper"].values)
        )
        each = dict.fromkeys(
            zip(here["role"].values, here["kind"].values, here["param"].values)
        )
        first = next((k for _, k, _ in each if k in KIND_WORDS), "")
        rest = [
            f"{p}: {KIND_WORDS[k]}"
            for _, k, p in each
            if k in KIND_WORDS and k != first
        ]
        told = KIND_WORDS.get(first, "no intervals") + (
            f" ({', '.join(rest)})" if rest else ""
        )
        said.append(told if len(of.fits) == 1 else f"{name}: {told}")
    return "; ".join(said)


def _align(rows: list[list[str]], numeric: Sequence[bool]) -> list[list[str]]:
    columns = [
        align_decimals(c) if number else list(c)
        for c, number in zip(zip(*rows), numeric)
    ]
    return [list(row) for row in zip(*columns)]


def _blank_nonfinite(text: str) -> str:
    return "" if text.endswith(("nan", "inf")) else text


def minus(text: str) -> str:
    """A number with a true minus sign.

    >>> minus("-0.5")
    '−0.5'
    """
    if text.startswith("-"):
        return text.replace("-", "−")
    return text


def plain_table(heads: list[str], rows: list[list[str]]) -> TextTable:
    """A table whose first column is text and whose others are numbers."""
    numeric = [False] + [True] * (len(heads) - 1)
    return TextTable(heads, numeric, _align(rows, numeric) if rows else [])


class Predicted(NamedTuple):
    """Predictions of rows that were named, and what to know of them."""

    table: TextTable
    rows: list[tuple[str, str]]  # the name of each row and its values
    remarks: list[str]


def predictions_table(fits: Mapping[str, Fit], rows: Any, prob: float) -> Predicted:
    """The mean at each row with its interval, and the interval of a new observation where there is one.

    `rows` is a mapping from names to rows, each a mapping from variables to values, or a table whose labels are the names.
    """
    given, names = named_rows(rows)
    cells: list[list[str]] = []
    for name, fit in fits.items():
        try:
            found = fit.predict(given, prob)
        except NotConverged:
            cells += [[row, name, "", "none exists", "", ""] for row in names]
            continue
        if "level" in found.dims:
            levels = [str(v) for v in found["level"].values]
        else:
            levels = [""]
        for i, row in enumerate(names):
            for k, level in enumerate(levels):
                one = {
                    str(q): np.atleast_1d(v.values[i])[min(k, np.size(v.values[i]) - 1)]
                    for q, v in found.data_vars.items()
                }
                cells.append(
                    [row, name, level, *_predicted_cells(fit.model.likelihood, one)]
                )
    order = {row: i for i, row in enumerate(names)}
    cells.sort(key=lambda row: order[row[0]])
    heads = [
        "row",
        "fit",
        "level",
        "mean",
        "interval of the mean",
        "interval of a new observation",
    ]
    numeric = [False, False, False, True, True, True]
    keep = [
        i
        for i in range(6)
        if any(row[i] for row in cells) and not (i == 1 and len(fits) == 1)
    ]
    shown = [[row[i] for i in keep] for row in cells]
    first = next(iter(fits.values()))
    values = [
        (name, ", ".join(f"{k} = {_format_value(v[i])}" for k, v in given.items()))
        for i, name in enumerate(names)
    ]
    table = TextTable([heads[i] for i in keep], [numeric[i] for i in keep], shown)
    return Predicted(table, values, _rows_outside(first, given, names))


def named_rows(rows: Any) -> tuple[dict[str, list[Any]], list[str]]:
    """The columns of the rows, and the names of these."""
    if (
        isinstance(rows, Mapping)
        and rows
        and all(isinstance(v, Mapping) for v in rows.values())
    ):
        keys = list(dict.fromkeys(k for row in rows.values() for k in row))
        for name, row in rows.items():
            absent = [k for k in keys if k not in row]
            if absent:
                raise DataError(
                    f"predict: row {name!r} has no value of {absent[0]!r}, which other rows have; give it"
                )
        return {k: [row[k] for row in rows.values()] for k in keys}, [
            str(name) for name in rows
        ]
    from probreg.data.formula.columns import read_table

    table = read_table(rows)
    given = {str(k): list(np.asarray(table.columns[k]).tolist()) for k in table.columns}
    plain = np.array_equal(np.asarray(table.rows), np.arange(len(table.rows)))
    return given, [
        f"row {i + 1}" if plain else str(label) for i, label in enumerate(table.rows)
    ]


def _format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def _predicted_cells(likelihood: Likelihood, one: Mapping[str, Any]) -> list[str]:
    mean, lower, upper = (float(one[k]) for k in ("mean", "mean_lower", "mean_upper"))
    places = decimals(np.array([(upper - lower) / 4.0]))
    if isinstance(likelihood, OfClasses):
        a, b, c = map(format_probability, (mean, lower, upper))
        out = [a, f"{b} to {c}" if b and c else ""]
    else:
        out = [minus(format_rounded(mean, places)), _from_to(lower, upper, places)]
    # A new observation of classes is one of them, which is no interval.
    if "new_lower" not in one or (
        isinstance(likelihood, OfClasses) and not isinstance(likelihood, OfTrials)
    ):
        return [*out, ""]
    new = float(one["new_lower"]), float(one["new_upper"])
    whole = all(v == round(v) for v in new if np.isfinite(v))
    return [*out, _from_to(*new, 0 if whole else max(places - 1, 0))]


def _from_to(lower: float, upper: float, places: int) -> str:
    a, b = (minus(format_rounded(v, places)) for v in (lower, upper))
    return f"{a} to {b}" if a and b else ""


def _rows_outside(
    fit: Fit, given: Mapping[str, list[Any]], names: Sequence[str]
) -> list[str]:
    """Which rows lie outside what the fit has seen, variable by variable."""
    design = fit.model.design
    if not design.n:
        return []
    try:
        seen = variables(design)
    except DataError:
        return []
    said = []
    for name in (v for v in read_by(design) if v in seen and v in given):
        x = np.asarray(seen[name])
        if x.dtype.kind not in "iuf" or not all(
            isinstance(v, int | float) for v in given[name]
        ):
            continue
        low = float(x.min())
        high = float(x.max())
        out = [row for row, v in zip(names, given[name]) if not low <= v <= high]
        if out:
            said.append(
                f"{', '.join(out)}: {name} lies outside the data ({low:g} to {high:g}); there only the model speaks."
            )
    return said
