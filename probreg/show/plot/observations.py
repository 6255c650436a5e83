"""Numbers of the pictures: fitted values and predictive distributions at the rows of a fit, and rows where some variables vary.

Rows with whole-number weights are repeated. Pictures show at most 2,000 observations and use at most 500 draws, both evenly
spaced.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import betaincinv, ndtri

from probreg.data.checked_arrays import full_weights
from probreg.data.formula.functions import categories, variables
from probreg.data.formula.layout import plain_level
from probreg.data.formula.transforms import weighted_quantiles
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.fits.inference_data import observation_rows
from probreg.fits.prediction import predictive
from probreg.likelihoods import OfClasses
from probreg.model.group_effects import Groups
from probreg.model.predictive import Predictive
from probreg.show.plot.style import shorten

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Observations:
    """The row of the design of each observation (n,), the response (n,) or (n, K), its fitted mean (n,) or class probabilities
    (n, K), weights, the predictive distribution, and counts of each class (n, K), None for a numeric response."""

    rows: Array
    y: Array
    mean: Array
    weights: Array
    predictive: Predictive
    note: str
    tally: Array | None = None


def observations(fit: Fit) -> Observations:
    """Return the observations. DataError for a fit without rows, NotConverged for a fit without an estimate."""
    most_draws = 500
    most_rows = 2000
    model = fit.model
    model.design.need_rows("a picture of the data")
    require_predictive(fit)
    model.design.refuse_sampling("a picture of the predictive distribution")
    every_row, weights = observation_rows(model)
    shown = min(len(every_row), most_rows)
    part = np.linspace(0, len(every_row) - 1, shown).round().astype(int)
    rows = every_row[part]
    distribution = predictive(fit, model.design.take(rows), at_most=most_draws)
    note = ""
    if shown < len(every_row):
        note = f"{shown:,} of {len(every_row):,} observations are shown"
    w = full_weights(weights, len(every_row))[part]
    y = model.design.observed[rows]
    likelihood = model.likelihood
    tally = likelihood.tally(y) if isinstance(likelihood, OfClasses) else None
    drawn = likelihood.drawn(y)
    return Observations(rows, drawn, distribution.mean(), w, distribution, note, tally)


def count_censored(fit: Fit, words: str) -> str:
    """Return the number of censored rows followed by `words`; "" for none."""
    count = int(fit.model.likelihood.is_censored(fit.model.design.observed).sum())
    return f"{count:,} censored rows {words}" if count else ""


def beyond(z: Array) -> str:
    """Count the quantile residuals beyond double precision; "" for none."""
    smallest_prob = 1e-15  # of probability: a quantile residual is at most 7.9 in size
    edge = ndtri(1.0 - smallest_prob)
    count = np.count_nonzero(np.abs(z) >= edge - 1e-6)
    return f"{count} beyond ±{edge:.1f} drawn there" if count else ""


def normal_order(n: int, prob: float) -> Array:
    """Medians and pointwise band of the n order statistics of a standard normal sample.

    >>> [v.round(3).tolist() for v in normal_order(1, 0.95)]
    [[0.0], [-1.96], [1.96]]
    """
    k = np.arange(1, n + 1)
    levels = np.array([[0.5], [(1 - prob) / 2], [(1 + prob) / 2]])
    return ndtri(betaincinv(k, n + 1 - k, levels))


def bin_means(
    x: Array, y: Array, weights: Array | None = None, bins: int = 10
) -> Array:
    """Return the means of x and y in bins of about equal size along x, at least eight rows each.

    >>> [v.tolist() for v in bin_means(np.arange(16.0), np.arange(16.0) ** 2)]
    [[3.5, 11.5], [17.5, 137.5]]
    """
    w = full_weights(weights, len(x))
    parts = np.array_split(np.argsort(x, kind="stable"), np.clip(len(x) // 8, 1, bins))
    means = [
        np.average([x[g], y[g]], axis=1, weights=w[g]) for g in parts if w[g].any()
    ]
    return np.transpose(means)


N_POINTS = 61  # of a curve
FEW_VALUES = 5  # values of a variable, which are drawn one by one


@dataclass(frozen=True, eq=False)
class ReferenceGrid:
    """The variables of a fit (`table`, each (n,)) with one typical value of each.

    Numbers with more than two values are at their mean (`means`); variables with two values and categories, including C(x), are
    at their most frequent value. `numbers` are the numeric variables with several values.
    """

    fit: Fit
    table: Mapping[str, Any]
    typical: Mapping[str, Any]
    means: set[str]
    numbers: list[str]
    groups: Mapping[str, Groups]

    @classmethod
    def of(cls, fit: Fit, data: Any, names: Collection[str] = ()) -> "ReferenceGrid":
        """Return the grid, with the grouping factors among `names`; DataError if the variables cannot be read back and `data` is None."""
        design = fit.model.design
        alone = set(design.recipe.of_groups_alone)
        groups = _groups_by_term(fit, names)
        terms = [design.recipe.grouped[k] for k, v in groups.items() if v == "known"]
        absent = alone.difference(*(term.factors for term in terms))
        table = {k: v for k, v in variables(design, data).items() if k not in absent}
        by_level = categories(design)
        sizes = {
            name: len(np.unique(v))
            for name, v in table.items()
            if isinstance(v, np.ndarray) and v.dtype.kind in "iuf" and name not in alone
        }
        means = {name for name, k in sizes.items() if k > 2 and name not in by_level}
        typical = {
            name: _typical_value(values, design.weights, mean=name in means)
            for name, values in table.items()
        }
        numbers = [name for name, k in sizes.items() if k > 1 and name not in by_level]
        return cls(fit, table, typical, means, numbers, groups)

    def rows(
        self, values: Mapping[str, Sequence[Any] | Array]
    ) -> tuple[dict[str, Array], Array | None]:
        """Return a table with these values (m,), the other variables at typical values, and the offset (m, 1) at its mean.

        The offset is None if one of its variables varies, because it is computed from the table then.
        """
        m = len(next(iter(values.values())))
        columns = {k: [v] * m for k, v in self.typical.items()} | dict(values)
        rows = {
            k: np.array(v, dtype=object if isinstance(v[0], str) else None)
            for k, v in columns.items()
        }
        offset = self.fit.model.design.offset
        if offset is None or not self._offset_variables.isdisjoint(values):
            return rows, None
        return rows, np.tile(offset.mean(0), (m, 1))

    @property
    def _offset_variables(self) -> set[str]:
        return set(getattr(self.fit.model.design.recipe, "offset_variables", ()))

    def values(self, name: str, *, curve: bool) -> list[Any]:
        """Return the levels of a category or the values of a number; if there are many, N_POINTS for a `curve` and otherwise the quartiles."""
        if name not in self.table:
            raise DataError(
                f"condition: {name!r} is not a variable of this model; those are: {', '.join(self.table)}"
            )
        levels = categories(self.fit.model.design).get(name)
        if levels is None:
            levels = np.unique(np.asarray(self.table[name])).tolist()
        if name not in self.numbers or len(levels) <= FEW_VALUES:
            return levels
        x = np.asarray(self.table[name], dtype=float)
        if curve:
            return np.linspace(x.min(), x.max(), N_POINTS).tolist()
        w = full_weights(self.fit.model.design.weights, len(x))
        return weighted_quantiles(x, w, np.array([0.25, 0.5, 0.75])).tolist()

    def nearest(self, name: str, values: Sequence[Any]) -> Array:
        """Return the place (n,) in `values` of each row's value: the nearest number, or the same level, -1 if it is not among them."""
        if name in self.numbers:
            x = np.asarray(self.table[name], dtype=float)[:, None]
            return np.abs(x - np.asarray(values, dtype=float)).argmin(1)
        place = {plain_level(value): i for i, value in enumerate(values)}
        observed = map(plain_level, np.asarray(self.table[name]))
        return np.array([place.get(value, -1) for value in observed])

    @property
    def typical_groups(self) -> list[str]:
        """The grouping factors of effects that are zero."""
        terms = self.fit.model.design.recipe.grouped
        at_zero = [terms[key].group for key, v in self.groups.items() if v == "typical"]
        return list(dict.fromkeys(at_zero))

    def describe(self, varying: Sequence[str], groups: Sequence[str]) -> str:
        """Describe the values of the variables that do not vary."""
        design: Any = self.fit.model.design
        omitted = set(varying)
        fixed_offset = self._offset_variables.isdisjoint(varying)
        if fixed_offset and self._offset_variables:
            omitted |= self._offset_variables - set(design.recipe.variables)
        values = [
            f"{shorten(k, 24)} = {shorten(format_value(v), 24)}"
            for k, v in self.typical.items()
            if k not in omitted
        ]
        if len(values) > FEW_VALUES:
            values = [f"{len(values)} others at their mean or most frequent value"]
        if groups:
            values.append(f"effects of {', '.join(groups)} at zero")
        if fixed_offset and design.offset is not None:
            values.append("offset at its mean")
        return f"Fixed: {', '.join(values)}" if values else ""


def _groups_by_term(fit: Fit, names: Collection[str]) -> dict[str, Groups]:
    """Return "known" for the terms with grouping factors among `names`, and "typical", with effects of zero, for the others.

    A variable of the mean is not only a grouping factor: it may vary beyond its known groups.
    """
    recipe = fit.model.design.recipe
    groups: dict[str, Groups] = dict.fromkeys(recipe.grouped, "typical")
    for key, term in recipe.grouped.items():
        factors = set(term.factors)
        if factors <= set(names) and factors & set(recipe.of_groups_alone):
            groups[key] = "known"
    return groups


def _typical_value(values: Any, weights: Array | None, *, mean: bool) -> Any:
    """Return the mean of a number, or the most frequent value."""
    if mean:
        return float(np.average(values, weights=weights))
    plain = np.asarray(values)
    # keeps dates, which tolist would turn into integers
    seen = list(dict.fromkeys(plain if plain.dtype.kind in "mM" else plain.tolist()))
    w = full_weights(weights, len(plain))
    return max(seen, key=lambda v: w[plain == v].sum())


def format_value(value: Any) -> str:
    """Format a value of a variable: a number to four digits."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(plain_level(value))
