"""The panel: every interval of one quantity, side by side."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Probability, check_arguments
from probreg.arguments.types import DataFrame, RowsLike
from probreg.comparison.interval_panel.kinds import Interval, parse_kinds
from probreg.comparison.interval_panel.quantity import (
    Estimand,
    at_row,
    coefficient,
    interval_ends_or_reason,
)
from probreg.comparison.same_question import named_as_text
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit
from probreg.tables import PrintsTable, Table

NEW = "new observation"
SHOWN = ["estimate", "lower", "upper", "width"]


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPanel(PrintsTable):
    """Intervals of one quantity; the result of `interval_panel`.

    `table` has a row per (fit, kind) with estimate, lower, upper, width and `reason`, which
    explains why an interval is missing and is empty otherwise."""

    quantity: str
    unit: str
    prob: float
    table: DataFrame

    @property
    def held(self) -> Any:
        """The rows that have an interval."""
        return self.table[self.table["reason"] == ""]

    @property
    def missing_reasons(self) -> tuple[str, ...]:
        """The reasons for missing intervals, one sentence for each reason."""
        kinds_by_reason: dict[str, dict[str, list[str]]] = {}
        for (fit, kind), reason in self.table["reason"].items():
            if reason:
                kinds_by_reason.setdefault(reason, {}).setdefault(fit, []).append(kind)
        return tuple(
            "; ".join(f"{fit} {', '.join(kinds)}" for fit, kinds in fit_kinds.items())
            + f": {reason}"
            for reason, fit_kinds in kinds_by_reason.items()
        )

    @property
    def _display_table(self) -> Table:
        head = f"{100 * self.prob:g} % intervals of {self.quantity}"
        notes = tuple(f"no interval: {reason}" for reason in self.missing_reasons)
        return Table.from_pandas(self.held[SHOWN], head=(head,), notes=notes)


@check_arguments
def interval_panel(
    fits: Fit | Mapping[str, Fit],
    coef: str | None = None,
    *,
    at: RowsLike | None = None,
    prob: Probability = 0.95,
    kinds: Iterable[str] | Mapping[str, Interval] | None = None,
) -> IntervalPanel:
    """Return every available interval of each fit for one coefficient, or for the mean at one row `at`.

    Kinds that a fit does not have are in the table with the reason.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    coef : str, optional
        A name of `fit.parameter_names` ("x", or "x: b" for class b).
    at : table or array, optional
        One row of data as for `predict`, with the interval of a new observation next to the intervals of the mean.
    prob : float
        Probability of every interval, between 0 and 1.
    kinds : iterable of str, or mapping, optional
        Names of `INTERVALS` (all of them by default) or a mapping of names to `Interval(kind, covariance)`.

    Returns
    -------
    IntervalPanel
        `table` with the ends and widths.

    Raises
    ------
    DataError
        For an unknown coefficient or kind, or not exactly one of coef and at.
    Incompatible
        For unordered classes.

    Examples
    --------
    >>> import probreg as pr
    >>> found = interval_panel(pr.ols([[0.0], [1.0], [2.0], [4.0]], [1.0, 3.0, 6.0, 8.0], columns=["x"]), "x", kinds=["t", "wald", "eti"])
    >>> found.table["width"].round(3).tolist()
    [2.555, 1.164, nan]
    """
    several = _fits_by_name(fits)
    if (coef is None) == (at is None):
        raise DataError(
            "interval_panel is of one quantity: give the name of a coefficient, or one row at="
        )
    if coef is not None and not isinstance(coef, str):
        raise DataError(
            f"coef is the name of a coefficient, got {type(coef).__name__}; a row of data is given as at="
        )
    intervals = parse_kinds(kinds)
    quantities = {
        n: at_row(f, at) if coef is None else coefficient(f, coef)
        for n, f in several.items()
    }
    rows = []
    for name, q in quantities.items():
        if coef is not None:
            new = []
        else:
            new = [_new(name, several[name], at, prob)]
        estimate = new[0][2] if new else q.estimate
        for kind, interval in intervals.items():
            lower, upper, reason = interval_ends_or_reason(q, interval, prob)
            rows.append(
                (
                    name,
                    kind,
                    estimate,
                    q.to_reported_scale(lower),
                    q.to_reported_scale(upper),
                    reason,
                )
            )
        rows += new
    description, unit = _describe_estimand(next(iter(quantities.values())), coef)
    return IntervalPanel(description, unit, prob, _interval_table(rows))


def _describe_estimand(q: Estimand, coef: str | None) -> tuple[str, str]:
    """Return the name of the quantity and its unit."""
    model = q.origin.model
    link = q.origin.model.likelihood.link.name
    y = model.design.response
    if coef is None:
        return (
            f"the mean of {y} at the row",
            f"units of {y}" if link == "identity" else f"mean of {y}",
        )
    if link == "identity":
        scale = f"units of {y}"
    else:
        scale = f"{link} of the mean of {y}"
    return coef, f"{scale} per unit of {model.design.columns[q.column]}"


def _fits_by_name(fits: Fit | Mapping[str, Fit]) -> dict[str, Fit]:
    if isinstance(fits, Fit):
        several = {fits.method.name: fits}
    else:
        several = {named_as_text(n): fit for n, fit in dict(fits).items()}
    if not several:
        raise DataError("interval_panel needs at least one fit")
    wrong = [n for n, f in several.items() if not isinstance(f, Fit)]
    if wrong:
        raise Incompatible(
            f"interval_panel takes a Fit or a mapping of names to Fits, and {wrong[0]!r} is a {type(several[wrong[0]]).__name__}"
        )
    return several


def _new(
    name: str, fit: Fit, at: Any, prob: float
) -> tuple[str, str, float, float, float, str]:
    try:
        prediction = fit.predict(at, prob)
    except NotConverged as why:
        return name, NEW, np.nan, np.nan, np.nan, str(why)
    if "new_lower" not in prediction:
        return (
            name,
            NEW,
            float(prediction["mean"].values[0]),
            np.nan,
            np.nan,
            str(prediction.attrs["kind"]),
        )
    mean, lower, upper = (
        float(prediction[v].values[0]) for v in ("mean", "new_lower", "new_upper")
    )
    return name, NEW, mean, lower, upper, ""


def _interval_table(rows: list[tuple[Any, ...]]) -> Any:
    import pandas as pd

    table = pd.DataFrame(
        rows, columns=["fit", "kind", "estimate", "lower", "upper", "reason"]
    ).set_index(["fit", "kind"])
    with np.errstate(invalid="ignore"):
        table.insert(3, "width", table["upper"] - table["lower"])
    return table
