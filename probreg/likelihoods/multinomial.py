"""Counts by class: softmax regression in which a row counts."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity
from probreg.errors import DataError
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Level,
    Levels,
    OfTrials,
    PymcVariable,
)
from probreg.likelihoods.response import whole_counts
from probreg.likelihoods.softmax import SoftmaxLikelihood, curve_of, tile_of_counts
from probreg.special import gammaln


def _tile(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
    """log p = sum_k y_k f_k - n log sum exp f with f = C eta, its slope over eta C' (y - n p)."""
    tile_of_counts(y.T, _trials(y), eta, t, log_p, slope)


def _trials(y: Array) -> Array:
    n = np.zeros(y.shape[0])
    for k in range(y.shape[1]):
        for i in range(n.size):
            n[i] += y[i, k]
    return n


def _row_hessian(y: Array, eta: Array, t: Array, curve: Array) -> None:
    curve_of(eta, t, _trials(y), curve)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Multinomial(SoftmaxLikelihood, OfTrials):
    """Counts y_1, ..., y_K of K classes in n trials: log p = log (n! / (y_1! ... y_K!)) + sum_k y_k log p_k.

    n = sum y; a row is one observation, and p are the probabilities of a softmax (see `Softmax` for C, `reference` and
    `symmetric`). Its mean is p, per trial; Categorical is the case n = 1.

    Parameters
    ----------
    levels : tuple
        The classes, in the order of the columns of counts; without them the names of the columns.
    reference : level, optional
        The base class of the log odds; without it the first.
    symmetric : bool
        Whether every class has its own coefficients, none being the base.

    Examples
    --------
    >>> three = Multinomial(levels=("a", "b", "c"))
    >>> float(np.exp(three.log_prob(np.array([1.0, 0.0, 1.0]), np.array([0.0, 0.0]))).round(6))
    0.222222
    """

    name, single = "multinomial", "categorical"
    support = np.arange(500.0)
    compiled_density = CompiledDensity(tile=_tile, hessian=_row_hessian)

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        y = _counts(values)
        if y.shape[1] < 2:
            raise DataError(
                "a Multinomial response counts two or more classes; this one has a single column"
            )
        stated = self.stated_levels()
        if stated and levels and stated != tuple(levels):
            raise DataError(
                f"levels={stated!r} of Multinomial are not the columns of counts, {', '.join(map(str, levels))}, in their order"
            )
        names = stated or levels or tuple(range(y.shape[1]))
        if len(set(names)) != y.shape[1]:
            raise DataError(
                f"a Multinomial response of {y.shape[1]} columns has as many classes with different names; got {', '.join(map(str, names))}"
            )
        return self._of_levels(names, chosen)

    def encode(self, values: Array) -> Array:
        y = _counts(values)
        if y.shape[1] != len(self.levels):
            raise DataError(
                f"expected counts of {len(self.levels)} classes ({', '.join(map(str, self.levels))}), got {y.shape[1]}"
            )
        return y

    def of_counts(self) -> "Multinomial":
        return self

    def given(self, y: Array) -> dict[str, Array]:
        return {"trials": np.asarray(y).sum(-1)}

    def single_trials(self) -> Array:
        return np.eye(len(self.levels))

    def tally(self, y: Array) -> Array:
        return np.asarray(y)

    def response(self, y: Array) -> Array:
        with np.errstate(invalid="ignore"):  # no share of no trials
            return np.asarray(y) / np.asarray(y).sum(-1, keepdims=True)

    def mean_name(self, response: str) -> str:
        return f"P(class), {response}"

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        return super().log_prob(y, eta) + self.base_measure(y)

    def base_measure(self, y: Array) -> Array:
        """log (n! / (y_1! ... y_K!))."""
        y = np.asarray(y)
        return gammaln(y.sum(-1) + 1.0) - gammaln(y + 1.0).sum(-1)

    def sample(self, rng: Generator, eta: Array, **known: Any) -> Array:
        n = np.broadcast_to(self.size(**known), eta.shape[:-1])
        return rng.multinomial(n.astype(np.int64), self.mean(eta)).astype(float)

    def pymc(self, eta: Any, **known: Any) -> PymcVariable:
        import pymc as pm

        p = pm.math.softmax(eta @ self.contrast.T, axis=-1)
        return pm.Multinomial, {"n": self.size(**known).astype(int), "p": p}


def _counts(values: Array) -> Array:
    y = whole_counts(values, "Multinomial")
    if y.ndim != 2:
        raise DataError(
            f"a Multinomial response is a table of counts, a row each and a column for each class; got an array of shape {y.shape}. "
            "For one class per row use Categorical"
        )
    return y
