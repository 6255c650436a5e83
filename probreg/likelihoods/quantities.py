"""Quantities of a row other than the mean: a parameter or its linear predictor, the median, a probability up to a value.

`Quantity` has the part of a likelihood's interface that predictions and effects use, so that they work for both.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.errors import Incompatible
from probreg.likelihoods.base import (
    Array,
    Likelihood,
    LineAndSlopes,
    OfTrials,
    line_and_slopes,
)
from probreg.likelihoods.links import CLOGLOG, Link


@dataclass(frozen=True)
class RowQuantity(ABC):
    """One number for each row, link^-1(line(eta, aux)); intervals are symmetric on the scale of `line`."""

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

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        """As in `Likelihood`, by five-point differences."""
        return line_and_slopes(self.line, eta, aux, self.likelihood.nuisance)


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
        with np.errstate(divide="ignore"):  # -inf at the limit of 0
            line = np.log(value)
        return np.broadcast_to(
            line, np.broadcast_shapes(np.shape(value), eta.shape[:-1])
        )


def depends_on_predictors(quantity: Quantity) -> bool:
    """Return whether a quantity depends on the linear predictors; only a nuisance parameter without a formula does not."""
    if not isinstance(quantity, Parameter):
        return True
    return quantity.position < quantity.likelihood.width


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
            f"survival probabilities need a numeric response, and {likelihood.named} response has classes: use predict"
        )
    return UpTo(likelihood, f"P(Y <= {y:g})", CLOGLOG, y)
