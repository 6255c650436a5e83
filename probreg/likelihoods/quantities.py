"""Quantities of a row beside the mean: a parameter or its linear predictor, the median, a probability up to a value.

`Quantity` has the interface of a likelihood that predictions and effects use, so that they serve the mean and these alike.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.errors import Incompatible
from probreg.likelihoods.base import Array, Likelihood, OfTrials
from probreg.likelihoods.links import CLOGLOG, Link
from probreg.special import five_point_slope


@dataclass(frozen=True)
class RowQuantity(ABC):
    """One number of each row, link^-1(line(eta, aux)); intervals are symmetric on the scale of `line`."""

    likelihood: Likelihood
    name: str
    link: Link

    has_scalar_mean = True
    least_squares = False
    levels = ()

    @abstractmethod
    def line(self, eta: Array, **aux: Any) -> Array:
        """The quantity on the scale of its link, (..., n)."""

    def mean(self, eta: Array, **aux: Any) -> Array:
        """Return the quantity (..., n)."""
        return self.link.inverse(self.line(eta, **aux))

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> tuple[Array, Array, Array]:
        """As in `Likelihood`, by five-point differences over eta and the log of each nuisance parameter; 0 where `line` is infinite."""
        step = 2e-3  # the error, step^4 / 30, and rounding are both near 1e-13

        def slope(direction: Array, name: str | None) -> Array:
            def line_at(t: float) -> Array:
                values = aux
                if name is not None:
                    values = {**aux, name: aux[name] * np.exp(t)}
                return self.line(eta + t * direction, **values)

            with np.errstate(invalid="ignore"):
                change = five_point_slope(line_at, step)
            return np.where(np.isfinite(change), change, 0.0)

        line = self.line(eta, **aux)
        still = np.zeros(eta.shape[-1])
        J = [slope(direction, None) for direction in np.eye(eta.shape[-1])]
        A = [slope(still, name) for name in self.likelihood.nuisance]
        over_aux = np.stack(A, -1) if A else np.zeros((*line.shape, 0))
        return line[..., None], np.stack(J, -1)[..., None, :], over_aux[..., None, :]


Quantity = Likelihood | RowQuantity


@dataclass(frozen=True)
class Parameter(RowQuantity):
    """The linear predictor at `position` of `likelihood.parameters`, or the parameter that the inverse link gives."""

    position: int

    def line(self, eta: Array, **aux: Any) -> Array:
        width = self.likelihood.width
        if self.position < width:
            return eta[..., self.position]
        value = aux[self.likelihood.nuisance[self.position - width]]
        return np.broadcast_to(
            np.log(value), np.broadcast_shapes(np.shape(value), eta.shape[:-1])
        )


@dataclass(frozen=True)
class UpTo(RowQuantity):
    """P(Y <= y) at one value y, on the complementary log-log scale: log(-log P(Y > y))."""

    y: float

    def line(self, eta: Array, **aux: Any) -> Array:
        y = self.likelihood.join(np.full(eta.shape[-2], self.y))
        p = self.likelihood.cdf(y, eta, **aux)
        with np.errstate(divide="ignore"):
            return self.link.forward(p)


def probability_up_to(likelihood: Likelihood, y: float) -> UpTo:
    """Return P(Y <= y) of a response that is a number.

    Raises
    ------
    Incompatible
        For classes and trials.
    """
    ordered = likelihood.has_cdf and likelihood.has_scalar_mean
    if not ordered or likelihood.binary or isinstance(likelihood, OfTrials):
        raise Incompatible(
            f"survival probabilities are of numbers, and {likelihood.named} response has classes; use predict"
        )
    return UpTo(likelihood, f"P(Y <= {y:g})", CLOGLOG, y)
