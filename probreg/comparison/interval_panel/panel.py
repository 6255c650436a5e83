"""The panel: every interval of one coefficient, side by side."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from probreg.arguments.keywords import with_article
from probreg.arguments.scalars import Probability, check_arguments, shown_value
from probreg.arguments.types import DataFrame
from probreg.comparison.same_question import fits_by_name
from probreg.errors import DataError, ProbregError
from probreg.fits.fit import Fit
from probreg.inference import Bootstrap, Method
from probreg.model.model import Model
from probreg.tables import PrintsTable, Table

Array = np.ndarray
# kinds of `Fit.interval`, and HC3, the default kind with that covariance
INTERVALS = ("t", "wald", "HC3", "profile", "score", "bootstrap", "eti", "hdi")


@dataclass(frozen=True, eq=False, repr=False)
class IntervalPanel(PrintsTable):
    """Intervals of one coefficient; the result of `interval_panel`.

    `table` has a row per (fit, kind) with estimate, lower, upper, width and `reason`, which
    explains why an interval is missing and is empty otherwise."""

    quantity: str
    prob: float
    table: DataFrame

    @property
    def _display_table(self) -> Table:
        head = f"{100 * self.prob:g} % intervals of {self.quantity}"
        is_missing = self.table["reason"] != ""
        missing = self.table[is_missing]
        notes = []
        for reason, rows in missing.groupby("reason", sort=False).groups.items():
            names = ", ".join([" ".join(row) for row in rows])
            notes.append(f"no interval: {names}: {reason}")
        columns = ["estimate", "lower", "upper", "width"]
        shown = self.table.loc[~is_missing, columns]
        return Table.from_pandas(shown, head=(head,), notes=tuple(notes))


@check_arguments
def interval_panel(
    fits: Fit | Mapping[str, Fit],
    coef: str,
    *,
    prob: Probability = 0.95,
    kinds: Iterable[str] = INTERVALS,
) -> IntervalPanel:
    """Return every available interval of each fit for one coefficient.

    Kinds that a fit does not have are in the table with the reason. `fit.predict` has the intervals of the mean at a row.

    Parameters
    ----------
    fits : Fit or mapping from str to Fit
        One fit, or several by name.
    coef : str
        A name of `fit.parameter_names` ("x", or "x: b" for class b).
    prob : float
        Probability of every interval, between 0 and 1.
    kinds : iterable of str
        Names of `INTERVALS`.

    Returns
    -------
    IntervalPanel
        `table` with the ends and widths.

    Raises
    ------
    DataError
        For an unknown coefficient or kind.

    Examples
    --------
    >>> import probreg as pr
    >>> found = interval_panel(pr.ols([[0.0], [1.0], [2.0], [4.0]], [1.0, 3.0, 6.0, 8.0], columns=["x"]), "x", kinds=["t", "wald", "eti"])
    >>> found.table["width"].round(3).tolist()
    [2.555, 1.164, nan]
    """
    import pandas as pd

    if not isinstance(coef, str):
        raise DataError(
            f"interval_panel: coef is the name of a coefficient, not {with_article(type(coef).__name__)}"
        )
    several = fits_by_name([fits] if isinstance(fits, Fit) else fits, "interval_panel")
    names_of_kinds = check_kinds(kinds)
    rows = {}
    for name, fit in several.items():
        names = fit.parameter_names
        if coef not in names:
            raise DataError(
                f"no coefficient is called {coef!r}; there are: {', '.join(names[:20])}"
            )
        j = names.index(coef)
        estimate = float(fit.coef.values.ravel()[j])
        for kind in names_of_kinds:
            lower = upper = np.nan
            reason = ""
            try:
                lower, upper = interval_ends(fit, kind, prob)[:, j]
            except ProbregError as error:
                reason = str(error)
            if not reason and np.isnan(lower + upper):
                reason = "no estimate of it exists"
            rows[name, kind] = estimate, lower, upper, upper - lower, reason
    table = pd.DataFrame.from_dict(
        rows, orient="index", columns=["estimate", "lower", "upper", "width", "reason"]
    )
    table.index = pd.MultiIndex.from_tuples(list(rows), names=["fit", "kind"])
    return IntervalPanel(coef, prob, table)


# ---- the kinds of intervals ------------------------------------------------------------------------------------------


def check_kinds(kinds: Iterable[str]) -> list[str]:
    """Return the names as a list, each once. DataError for an unknown name."""
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise DataError(
            f"kinds is a list of names, such as ['t'], got {shown_value(kinds)}"
        )
    names = list(kinds)
    wrong = [name for name in names if name not in INTERVALS]
    if wrong or not names:
        problem = f"no interval is called {wrong[0]!r}" if wrong else "kinds is empty"
        raise DataError(f"{problem}; there are: {', '.join(INTERVALS)}")
    return list(dict.fromkeys(names))


def interval_ends(fit: Fit, kind: str, prob: float) -> Array:
    """Return the lower and the upper ends of all coefficients, (2, k); errors as in `Fit.interval`."""
    if kind == "HC3":
        interval = fit.interval(prob, covariance=kind)
    else:
        interval = fit.interval(prob, kind=kind)
    return np.array([interval[end].values.ravel() for end in ("lower", "upper")])


def method_of(kind: str, model: Model) -> str | Method:
    """Return the method of the fits in a simulation of this interval."""
    if kind == "bootstrap":
        return Bootstrap(reps=199)
    if kind not in ("eti", "hdi"):
        return "auto"
    return "posterior"
