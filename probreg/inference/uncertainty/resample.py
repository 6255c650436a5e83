"""Resampled data: from a model and its estimate to a model on resampled rows or
responses.

A frequency weight of w is w observations, which are resampled and get their noise
individually.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.unwritten import LazyColumns, beside_groups
from probreg.inference.base import Array, Solution
from probreg.inference.uncertainty.information import estimate_of
from probreg.model.model import Model


@dataclass(frozen=True, eq=False)
class Source:
    """A model with its estimate, the source of replicates."""

    model: Model
    solution: Solution

    @cached_property
    def row_of(self) -> Array:
        """The row of each observation, (total,)."""
        d = self.model.design
        return np.repeat(
            np.arange(d.n), 1 if d.weights is None else d.weights.astype(int)
        )

    @cached_property
    def apart(self) -> Design:
        """One row per observation."""
        d = self.model.design
        if d.weights is None:
            return d
        return replace(d.take(self.row_of), weights=None)

    @cached_property
    def fitted(self) -> Array:
        """eta of each observation, (total, m)."""
        return self.model.eta(self.solution.beta)[self.row_of]

    @cached_property
    def residuals(self) -> Array:
        """sqrt(w) (y - fitted) / sqrt(1 - leverage) of each observation with precision w, of variance sigma^2."""
        # Var(w_i^(1/2) e_i) = sigma^2 (1 - h_i)
        complement = (
            1.0
            - estimate_of(
                self.model, self.solution, "a residual bootstrap", in_memory=True
            ).leverage[self.row_of]
        )
        e = (self.apart.observed - self.fitted[:, 0]) * self.root
        return e / np.sqrt(np.where(complement > 1e-10, complement, 1.0))

    @cached_property
    def root(self) -> Array:
        """(total,), the roots of the precisions of the observations."""
        w = self.apart.precision
        if w is None:
            return np.ones(len(self.row_of))
        return np.sqrt(w)

    def with_response(self, y: Array) -> Model:
        return replace(self.model, design=replace(self.apart, y=y))


def resample_pairs(source: Source, rng: np.random.Generator) -> Model:
    """Draw observations (x, y) with replacement, as frequencies of the rows."""
    row_of = source.row_of
    d = source.model.design
    if d.recipe.grouped:
        return resample_groups(source, rng)
    counts = np.bincount(
        row_of[rng.integers(0, len(row_of), len(row_of))], minlength=d.n
    )
    keep = counts > 0
    return replace(
        source.model, design=replace(d.take(keep), weights=counts[keep].astype(float))
    )


def resample_groups(source: Source, rng: np.random.Generator) -> Model:
    """Draw whole groups with replacement; a group drawn twice becomes two groups with
    separate effects."""
    d = source.apart
    terms = d.recipe.grouped
    codes = np.asarray(d.inputs[next(iter(terms))])[:, 0].astype(int)
    G = len(next(iter(terms.values())).levels)
    members = [np.flatnonzero(codes == g) for g in range(G)]
    groups = [members[g] for g in rng.integers(0, G, G)]
    rows = np.concatenate(groups)
    slot = np.repeat(np.arange(G, dtype=float), [len(r) for r in groups])
    design = d.take(rows)
    inputs = dict(design.inputs)
    place = {c: j for j, c in enumerate(d.columns)}
    for key in terms:
        inputs[key] = np.column_stack([slot, inputs[key][:, 1:]])
    if isinstance(design.X, LazyColumns):
        X: Any = beside_groups(
            design.X.head, [(term, inputs[key]) for key, term in terms.items()]
        )
    else:
        X = design.X.copy()
        for key, term in terms.items():
            X[:, [place[c] for c in term.columns]] = term.columns_at(inputs[key])
    return replace(source.model, design=replace(design, X=X, inputs=inputs, read={}))


def resample_residuals(source: Source, rng: np.random.Generator) -> Model:
    """y* = fitted + e*, e* drawn with replacement from the centred residuals over
    sqrt(1 - leverage)."""
    # Centred, because residuals of a fit without an intercept, or over (1 - h)^(1/2),
    # need not sum to 0.
    e = source.residuals - source.residuals.mean()
    return source.with_response(
        source.fitted[:, 0] + e[rng.integers(0, len(e), len(e))] / source.root
    )


def draw_responses(source: Source, rng: np.random.Generator) -> Model:
    """Draw y* from the likelihood at the estimate; effects that vary by a group are
    drawn from their prior."""
    likelihood = source.model.likelihood
    design = source.apart
    values = likelihood.at_rows(
        {**source.model.fixed, **source.solution.aux}, design.precision
    )
    eta = source.fitted + _effect_changes(source, rng)
    return source.with_response(
        likelihood.sample(rng, eta, **values, **source.model.given(design))
    )


def _effect_changes(source: Source, rng: np.random.Generator) -> Array | float:
    """Return the change in eta (total, m) from new draws of effects that vary by a
    group."""
    model = source.model
    estimate = source.solution
    noise = model.noise({**model.fixed, **estimate.aux})
    difference = np.zeros_like(estimate.beta)
    for b in model.joint.blocks:
        if model.design.grouped_of(b.columns) is not None:
            shape = (1, len(b.columns), b.width(estimate.beta.shape[1]))
            effects = b.prior.sample(rng, shape, noise if b.prior.sigma_units else 1.0)[
                0
            ]
            b.put(difference, effects - b.take(estimate.beta))
    return source.apart.X @ difference if difference.any() else 0.0


SAMPLERS: dict[str, Callable[[Source, np.random.Generator], Model]] = {
    "pairs": resample_pairs,
    "residual": resample_residuals,
    "parametric": draw_responses,
}
