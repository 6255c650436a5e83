"""Likelihood ratio tests of nested models, each against the next smaller one.

Twice the difference of the log likelihoods is chi-square(d) for d parameters that are zero in the smaller model. If one of them is a
standard deviation, zero is on the boundary: the distribution is an equal mixture of chi2(d - 1) and chi2(d) (Self & Liang 1987; Stram & Lee 1994).
For several standard deviations the mixture depends on the data, and chi-square(d) bounds the p-value from above.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from probreg.arguments.scalars import DataFrame
from probreg.comparison.hypotheses.dispatch import mixture_p
from probreg.comparison.hypotheses.restricted import likelihood_limit
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.goodness import (
    estimated_coefficients,
    has_tests_at_found_scales,
    is_maximum_likelihood,
)
from probreg.inference.uncertainty.found_scales import FoundScales
from probreg.model.model import Model
from probreg.system.terminal import format_number

Array = np.ndarray
_EDGE = "p counts that a standard deviation of zero is at the edge: half chi-square(df - 1) and half chi-square(df)"
_BOUND = "several standard deviations of zero are tested together: p is that of chi-square(df), which is an upper bound"


class _Candidate(NamedTuple):
    """The parts of a fit that a test uses."""

    name: str
    model: Model  # as stated, with unknown scales
    found: FoundScales | None
    parameters: int
    log_likelihood: float

    @property
    def flat(self) -> tuple[str, ...]:
        """The names of the flat columns; an unknown nuisance parameter is the intercept of its linear predictor."""
        design, likelihood = self.model.design, self.model.likelihood
        columns = np.array(design.columns)[design.ungrouped].tolist()
        further = zip(likelihood.parameters[likelihood.width :], likelihood.nuisance)
        intercepts = [
            f"{parameter}: Intercept"
            for parameter, name in further
            if name in self.model.unknown
        ]
        return (*columns, *intercepts)

    def flat_values(self, columns: Sequence[str]) -> Array:
        """The values (n, k) of some flat columns."""
        design = self.model.design
        values = np.asarray(design.X[:, design.ungrouped])
        intercepts = np.ones((len(values), len(self.flat) - values.shape[1]))
        places = [self.flat.index(name) for name in columns]
        return np.hstack([values, intercepts])[:, places]

    @property
    def criterion(self) -> str:
        if self.found is None:
            return "ML"
        return self.found.criterion

    @property
    def effects(self) -> dict[str, list[frozenset[str]]]:
        """The effects of each grouping; correlated effects are in one set."""
        effects_by_group: dict[str, list[frozenset[str]]] = {}
        for t in self.model.design.recipe.grouped.values():
            sets = [frozenset([c]) for c in t.coefficients]
            if t.correlated:
                sets = [frozenset(t.coefficients)]
            effects_by_group.setdefault(t.group, []).extend(sets)
        return effects_by_group


def likelihood_ratios(fits: Mapping[str, Fit]) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the tests, a row for each fit except the smallest, and notes. Incompatible if two neighbours are not nested."""
    import pandas as pd

    if len(fits) < 2:
        raise Incompatible("a likelihood ratio is of two fits or more")
    several = sorted(
        (_candidate(name, fit) for name, fit in fits.items()),
        key=lambda c: c.parameters,
    )
    rows = []
    notes = []
    for small, large in pairwise(several):
        _require_alike(small, large)
        _require_nested(small, large)
        df = large.parameters - small.parameters
        statistic = max(2.0 * (large.log_likelihood - small.log_likelihood), 0.0)
        plain = float(chdtrc(df, statistic))
        new = _number_of_scales(large) - _number_of_scales(small)
        p = mixture_p(statistic, df - 1) if new == 1 else plain
        if new:
            notes.append(_EDGE if new == 1 else _BOUND)
        if small.found is not None and small.found.vanished.any():
            notes.append(
                f"{small.name} has a standard deviation estimated as zero: p of the ratio against it is approximate"
            )
        rows.append((large.name, small.name, statistic, df, p, plain))
    if several[0].criterion == "REML":
        notes.append(
            "the ratios are of restricted likelihoods (REML) of the same flat columns"
        )
    points = [c.found.points for c in several if c.found is not None]
    if points and not several[0].model.likelihood.least_squares:
        how = f"{max(points)} points" if max(points) > 1 else "Laplace's method"
        notes.append(f"the likelihoods are by {how}")
    columns = ["fit", "against", "statistic", "df", "p", "p_chi2"]
    return pd.DataFrame(rows, columns=columns), tuple(dict.fromkeys(notes))


def _candidate(name: str, fit: Fit) -> _Candidate:
    """Raise Incompatible for a fit that is not at a maximum of its likelihood."""
    scales = fit.solution.effect_scales
    if scales is None and is_maximum_likelihood(fit):
        k = estimated_coefficients(fit) + len(fit.model.unknown)
        return _Candidate(name, fit.model, None, k, likelihood_limit(fit))
    if scales is None or not has_tests_at_found_scales(fit):
        raise Incompatible(
            f"{name!r} has no likelihood ratio: it is no maximum likelihood fit of flat columns and effects by group. "
            "Fit with Evidence(criterion='ML') and without priors"
        )
    terms = scales.stated.design.recipe.grouped.values()
    sizes = [
        len(t.effects) * (len(t.effects) + 1) // 2 if t.correlated else len(t.effects)
        for t in terms
    ]
    if scales.stated.likelihood.least_squares:
        noise = 1
    else:
        noise = len(scales.stated.unknown)
    if sum(sizes) + noise != scales.count:
        raise Incompatible(
            f"{name!r} has no likelihood ratio: standard deviations, correlations or sigma were stated"
        )
    k = estimated_coefficients(fit) + len(fit.model.unknown) + scales.count
    return _Candidate(name, scales.stated, scales, k, scales.value)


def _require_alike(small: _Candidate, large: _Candidate) -> None:
    """Raise Incompatible unless both have the same likelihood, up to formulas of its parameters, offset and criterion."""
    pair = f"no likelihood ratio of {large.name!r} against {small.name!r}"
    models = small.model, large.model
    # of the same rows, or None
    offsets = [model.design.offset for model in models]
    without_offset = np.zeros(1)
    first, second = [without_offset if v is None else v for v in offsets]
    facts: dict[str, list[Any]] = {
        "criterion": [small.criterion, large.criterion],
        "likelihood": [model.likelihood.without_formulas for model in models],
        "fixed parameters": [model.fixed for model in models],
        "offset": [False, bool(np.any(first != second))],
    }
    if small.found and large.found:
        facts["points of quadrature"] = [small.found.points, large.found.points]
    for fact, (a, b) in facts.items():
        if a != b:
            values = "" if fact == "offset" else f", {a!r} and {b!r}"
            raise Incompatible(
                f"{pair}: they differ in their {fact}{values}. Fit both alike, effects by group with Evidence(criterion='ML')"
            )
    if small.criterion == "REML" and set(small.flat) != set(large.flat):
        raise Incompatible(
            f"{pair}: restricted likelihoods (REML) of other flat columns are of other data. Fit both with Evidence(criterion='ML')"
        )


def _require_nested(small: _Candidate, large: _Candidate) -> None:
    """Raise Incompatible unless the smaller model is the larger one with some parameters at zero."""
    pair = f"{small.name!r} is not nested in {large.name!r}"
    if small.parameters == large.parameters:
        raise Incompatible(f"{pair}: both have {small.parameters} parameters")
    column = _column_outside(small, large)
    if column is not None:
        raise Incompatible(
            f"{pair}: it has {column} among its columns, which is no combination of the other's"
        )
    for group, sets in small.effects.items():
        for effect_set in sets:
            if not any(effect_set <= larger for larger in large.effects.get(group, [])):
                names = ", ".join(sorted(effect_set))
                raise Incompatible(
                    f"{pair}: {names} of {group}, correlated as there, is not among the other's effects"
                )


def _column_outside(small: _Candidate, large: _Candidate) -> str | None:
    """Return a flat column of the smaller model outside the column space of the larger, or None."""
    extra = [c for c in small.flat if c not in large.flat]
    if not extra or not (small.model.design.n and large.model.design.n):
        return extra[0] if extra else None
    tolerance = 1e-8  # largest share of a column outside the span of others
    for name in extra:
        parameter = _parameter_of(name, small)
        X = large.flat_values(
            [c for c in large.flat if _parameter_of(c, large) == parameter]
        )
        y = small.flat_values([name])
        rest = y - X @ np.linalg.lstsq(X, y)[0] if X.size else y
        if np.linalg.norm(rest) > tolerance * np.linalg.norm(y):
            return name
    return None


def _parameter_of(column: str, candidate: _Candidate) -> str:
    """Return the parameter that has this column in its linear predictor."""
    mean, *further = candidate.model.likelihood.parameters
    return next((p for p in further if column.startswith(f"{p}: ")), mean)


def _number_of_scales(candidate: _Candidate) -> int:
    """Return the number of standard deviations of effects."""
    terms = candidate.model.design.recipe.grouped.values()
    return sum([len(term.effects) for term in terms])


def ratio_lines(tests: Any) -> list[str]:
    """Return the printed lines of the tests."""
    return [
        f"likelihood ratio of {t.fit} against {t.against}: {format_number(t.statistic)}, df {t.df}, p = {t.p:.4g}"
        for t in tests.itertuples()
    ]
