"""Checks that fits have the same data, for a common table (response, levels, link and rows) or for comparable log densities."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from probreg.data import Block, Design
from probreg.data.checked_arrays import full_weights, plus_offset
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.goodness import number_of_observations
from probreg.inference.uncertainty.intervals.kinds import KINDS
from probreg.likelihoods import Censored, Likelihood, OfTrials
from probreg.system.terminal import shorten_names

Array = np.ndarray


def fits_by_name(fits: Any, verb: str) -> dict[str, Fit]:
    """The fits by name, for the function `verb`. DataError for other values than a fit, a mapping or a list of fits, and for an empty one."""
    if isinstance(fits, Fit):
        fits = [fits]
    if not isinstance(fits, Mapping | list | tuple):
        raise DataError(
            f"{verb} takes a mapping from names to fits, such as {{'ML': ml, 'posterior': post}}, or a list of fits, got {type(fits).__name__}"
        )
    named = dict(fits if isinstance(fits, Mapping) else enumerate(fits))
    if not named:
        raise DataError(f"{verb}: there is no fit; give one or more")
    for name, fit in named.items():
        if not isinstance(fit, Fit):
            raise DataError(
                f"{verb} takes fits, and {name!r} is of type {type(fit).__name__}; make one with fit(model)"
            )
    if not isinstance(fits, Mapping):
        return by_method(fits)
    by_name = {str(name): fit for name, fit in named.items()}
    if len(by_name) < len(named):
        raise DataError(
            f"{verb}: two fits have the same name as texts: {', '.join(map(repr, fits))}"
        )
    return by_name


def method_name(fit: Fit) -> str:
    """Return the method's name, or the criterion that the standard deviations by group maximise: newton, REML."""
    if fit.solution.effect_scales is None:
        return fit.method.name
    return fit.solution.effect_scales.criterion


def by_method(fits: Iterable[Fit]) -> dict[str, Fit]:
    """Return fits by the names of their methods, numbered from the second on: newton, newton 2."""
    fits_by_method = {}
    counts: Counter[str] = Counter()
    for fit in fits:
        name = method_name(fit)
        counts[name] += 1
        fits_by_method[name if counts[name] == 1 else f"{name} {counts[name]}"] = fit
    return fits_by_method


def differing_terms(fits: Iterable[Fit]) -> frozenset[str]:
    """The columns of smooth functions and processes that are not the same in all fits. They represent a function that may have
    other columns in each fit, so their coefficients are not compared."""
    designs = [fit.model.design for fit in fits]
    terms = [
        {t.name: t.columns for t in d.recipe.terms if set(t.columns) <= set(d.columns)}
        for d in designs
    ]
    differing = set[str]()
    for name in {name for by_name in terms for name in by_name}:
        columns = [by_name.get(name, ()) for by_name in terms]
        for own, design in zip(columns, designs):
            if own != columns[0] or not _same_columns(designs[0], design, own):
                differing.update(*columns)
    return frozenset(differing)


def _same_columns(first: Any, second: Any, columns: tuple[str, ...]) -> bool:
    """Whether two designs have equal values in these columns; without rows, whether all their columns have the same names."""
    if first is second or not (first.n and second.n and first.n == second.n):
        return bool(first.columns == second.columns)
    columns_first, right = (
        d.X[:, [d.columns.index(c) for c in columns]] for d in (first, second)
    )
    return bool(np.array_equal(columns_first, right))


def refuse_unlike(
    base: str, first: Fit, name: str, second: Fit, omitted: frozenset[str]
) -> None:
    """Raise DataError if two fits have another response, link, rows or values of a column that both have.

    Columns in `omitted` are not compared. Columns of one fit only, and weights of rows in memory, may differ.
    """
    d = first.model.design
    e = second.model.design
    facts: dict[str, list[Any]] = {
        "response": [d.response, e.response],
        "levels": [fit.model.likelihood.levels for fit in (first, second)],
        "levels with coefficients": [
            fit.model.likelihood.outcomes for fit in (first, second)
        ],
        "link": [fit.model.likelihood.link for fit in (first, second)],
    }
    if d is not e and d.n and e.n:
        X = [d.X, e.X]
        if omitted or d.columns != e.columns:
            common = [c for c in d.columns if c in set(e.columns) - omitted]
            X = [g.X[:, [g.columns.index(c) for c in common]] for g in (d, e)]
        facts |= {
            "number of rows": [d.n, e.n],
            "values of the response": [d.y, e.y],
            "columns": X,
        }
        if d.offset is not None or e.offset is not None:
            facts["offset"] = [
                plus_offset(np.zeros((g.n, 1)), g.offset) for g in (d, e)
            ]
    elif d is not e:
        # equal weights are part of the evidence that the rows are the same
        facts |= {
            "kinds of weights": [d.weight_kind, e.weight_kind],
            "number of observations": [
                number_of_observations(first),
                number_of_observations(second),
            ],
        }
    refuse_difference((base, name), facts, d)


def refuse_difference(
    names: tuple[str, str], facts: Mapping[str, Sequence[Any]], design: Design
) -> None:
    """Raise DataError with the first difference between two fits; None is unknown, an array has an entry for each row of `design`."""
    for fact, (a, b) in facts.items():
        if a is None or b is None:
            continue
        difference = ""
        if hasattr(a, "shape"):
            if a is not b and not np.array_equal(a, b):
                row = 0
                if a.shape == b.shape:
                    row = int(np.argmax((a != b).reshape(len(a), -1).any(1)))
                difference = f"row {design.row_name(row)}"
                if len(a.shape) == 1:
                    difference += f" has {a[row]} against {b[row]}"
        elif isinstance(a, float) and isinstance(b, float):
            if not np.isclose(a, b, rtol=1e-9, atol=0.0):
                difference = f"{a:.12g} against {b:.12g}"
        elif a != b:
            difference = f"{_format_value(a, b)} against {_format_value(b, a)}"
        if difference:
            raise DataError(
                f"cannot compare {names[0]!r} and {names[1]!r}: they differ in their {fact}: {difference}. Fit both to the same rows "
                "with the same weights; missing='drop' leaves out other rows where other columns are used"
            )


def _format_value(value: Any, second: Any) -> str:
    """Format a value for a sentence; of many names, their number and those that the other fit does not have."""
    if not isinstance(value, tuple):
        return str(value)
    if len(value) <= 8:
        return shorten_names(map(str, value))
    differing = shorten_names([str(name) for name in value if name not in second])
    return f"{len(value)} values" + (f" with {differing}" if differing else "")


def check_kind(fits: Mapping[str, Fit], kind: str) -> None:
    """Raise Incompatible for a kind of interval that no fit has."""
    able = {k for f in fits.values() for k in KINDS[f.target]}
    if kind not in able:
        raise Incompatible(
            f"none of these fits has intervals of kind {kind!r}; they have: {', '.join(sorted(able))}"
        )


# ---- checks that fits have the same observations, so that their log densities are comparable ------------------------


def refuse_other_data(base: str, first: Fit, name: str, second: Fit) -> None:
    """Raise DataError with the first difference between the observations of two fits; Incompatible for a density compared with
    probabilities. Columns, priors, offsets and methods may differ, because the comparison is about them."""
    for fit_name, fit in ((base, first), (name, second)):
        if not fit.model.design.has_rows:
            fit.model.design.need_rows(
                f"a comparison of {fit_name!r} with other models"
            )
    d = first.model.design
    e = second.model.design
    facts = {
        "response": (d.response, e.response),
        "number of rows": (d.count, e.count),
        "total weight": (float(d.total), float(e.total)),
        "kinds of weights": (d.weight_kind, e.weight_kind),
    }
    refuse_difference((base, name), facts, d)
    if d.n and e.n:
        facts = {
            "values of the response": (
                _response_levels(first),
                _response_levels(second),
            ),
            "weights": (d.row_weights, e.row_weights),
            "precisions": (
                full_weights(d.precision, d.n),
                full_weights(e.precision, e.n),
            ),
        }
    else:
        # of rows that are read in blocks sums are compared: another order of the rows is no difference
        x, y = _totals(first), _totals(second)
        facts = {key: (x.get(key, 0.0), y.get(key, 0.0)) for key in sorted({*x, *y})}
    refuse_difference((base, name), facts, d)
    likelihoods = [fit.model.likelihood for fit in (first, second)]
    if likelihoods[0].is_discrete != likelihoods[1].is_discrete:
        raise Incompatible(
            f"cannot compare {base!r} and {name!r}: {likelihoods[0].named} and {likelihoods[1].named} likelihood. One gives densities, "
            "the other probabilities of single values, and their logarithms differ by the unit of the response"
        )


def _totals(fit: Fit) -> dict[str, float]:
    """Return the weight of each level, or sums of powers of the response, by description."""
    likelihood = fit.model.likelihood
    (sums,) = fit.model.design.sum_over_rows(
        partial(_block_totals, likelihood=likelihood)
    )
    levels = likelihood.levels
    if isinstance(likelihood, OfTrials):
        levels = likelihood.classes
    words = [f"weight of {str(level)!r}" for level in levels]
    if not words:
        censored = isinstance(likelihood, Censored)
        ends = ["lower ends", "upper ends"] if censored else ["y"]
        words = [f"sum of {end}{power}" for power in ("", "^2") for end in ends]
        words.append("sum of precisions")
    return dict(zip(words, sums.tolist()))


def _block_totals(block: Block, *, likelihood: Likelihood) -> tuple[Array]:
    w = full_weights(block.weights, block.rows)
    if isinstance(likelihood, OfTrials):
        return (w @ likelihood.tally(block.y),)
    if likelihood.levels:
        return (np.bincount(block.y.astype(int), w, len(likelihood.levels)),)
    precision = full_weights(block.precision, block.rows).sum()
    # one column, or the ends of censored rows: some ends are infinite
    y = np.nan_to_num(block.y.reshape(block.rows, -1), posinf=0.0, neginf=0.0)
    return (np.array([*(w @ y), *(w @ y**2), precision]),)


def _response_levels(fit: Fit) -> Array:
    """Return the response in its own levels, whatever the event or the reference level."""
    y = fit.model.design.observed
    levels = fit.model.likelihood.levels
    if not levels or isinstance(fit.model.likelihood, OfTrials):
        return y
    return np.array([str(v) for v in levels], object)[y.astype(int)]
