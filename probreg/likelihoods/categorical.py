"""A response with K unordered classes: softmax regression."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from probreg.compiled.density import CompiledDensity
from probreg.errors import DataError
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    Level,
    Levels,
    Likelihood,
    OneOfClasses,
    PymcVariable,
)
from probreg.likelihoods.multinomial import Multinomial
from probreg.likelihoods.response import refuse_fractions, response_levels
from probreg.likelihoods.softmax import SoftmaxLikelihood, curve_of, tile_of_counts


def _tile(y: Array, eta: Array, t: Array, log_p: Array, slope: Array) -> None:
    """f = C eta with C (K, m) in t, row by row; log p = f_y - log sum exp f, its slope over eta C' (e_y - p)."""
    b = y.shape[0]
    counts = np.zeros((t.size // eta.shape[0], b))
    for k in range(counts.shape[0]):
        for i in range(b):
            counts[k, i] = 1.0 if y[i] == k else 0.0
    tile_of_counts(counts, np.ones(b), eta, t, log_p, slope)


def _row_hessian(y: Array, eta: Array, t: Array, curve: Array) -> None:
    curve_of(eta, t, np.ones(y.shape[0]), curve)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Categorical(OneOfClasses, SoftmaxLikelihood):
    """One of K classes, with the probabilities of a softmax: log p = log p_y, p = softmax(C eta).

    See `Softmax` for C, `reference` and `symmetric`.

    Parameters
    ----------
    levels : tuple
        The classes, in order; classes that no row has are left out. Without them the declared or sorted levels of the response.
    reference : level, optional
        The base class of the log odds; without it the first.
    symmetric : bool
        Whether every class has its own coefficients, none being the base.

    Examples
    --------
    >>> three = Categorical(levels=("a", "b", "c"))
    >>> three.mean(np.array([[0.0, np.log(2.0)]])).tolist()
    [[0.25, 0.25, 0.5]]
    >>> three.outcomes
    ('b', 'c')
    """

    name = "categorical"
    compiled_density = CompiledDensity(tile=_tile, hessian=_row_hessian)

    def bind(self, values: Array, levels: Levels | None, chosen: Level | None) -> Self:
        refuse_fractions(
            values,
            "a categorical response holds class labels; ",
            "For real numbers use Gaussian.",
        )
        present = response_levels(values, self.stated_levels() or levels, chosen)
        if len(present) < 2:
            raise DataError(
                f"a categorical response has two or more classes; this one is constant ({present[0]!r}), and its other classes are not "
                "known: declare the levels of a categorical column"
            )
        if len(present) > 20 and len(present) > len(values) / 2:
            raise DataError(
                f"a categorical response with {len(present)} classes in {len(values)} rows: are these identifiers or numbers?"
            )
        return self._of_levels(present, chosen)

    def of_counts(self) -> Likelihood:
        return Multinomial(reference=self.reference, symmetric=self.symmetric)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Categorical, {"logit_p": eta @ self.contrast.T}
