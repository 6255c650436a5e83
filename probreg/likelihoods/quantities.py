"""Quantities of a row beside the mean: a parameter or its linear predictor, the median, a probability up to a value.

`Quantity` has the interface of a likelihood that predictions and effects use, so that they serve the mean and these alike.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.likelihoods.base import Array, Likelihood, OfTrials, flatten_rows
from probreg.likelihoods.links import CLOGLOG, IDENTITY, LINKS, LOG, Link


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

        def slope(along: Array, name: str | None) -> Array:
            def at(k: int) -> Array:
                moved = aux
                if name is not None:
                    moved = {**aux, name: aux[name] * np.exp(k * step)}
                return self.line(eta + k * step * along, **moved)

            with np.errstate(invalid="ignore"):
                # f'(0) = [8 (f(h) - f(-h)) - (f(2h) - f(-2h))] / (12 h) + O(h^4)
                change = 8.0 * (at(1) - at(-1)) - (at(2) - at(-2))
            return np.where(np.isfinite(change), change, 0.0) / (12.0 * step)

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


@dataclass(frozen=True)
class Median(RowQuantity):
    """The value y with P(Y <= y) = 1/2 of a continuous response."""

    def line(self, eta: Array, **aux: Any) -> Array:
        from probreg.model.predictive import Predictive

        # each pair of an atom and a row is a row of one atom
        shape, rows, aux = flatten_rows(eta, aux)
        values = {a: v[None] for a, v in aux.items()}
        alone = Predictive(self.likelihood, rows[None], values)
        return self.link.forward(alone.quantile(0.5)).reshape(shape)


def quantity_called(likelihood: Likelihood, what: str) -> Quantity:
    """Return the quantity of this name.

    Parameters
    ----------
    likelihood : Likelihood
        The likelihood of a model.
    what : str
        "mean"; "link", the linear predictor of the mean; the name of another linear predictor, such as "log sigma"; the name of
        the parameter itself, such as "sigma"; or "median".

    Returns
    -------
    Likelihood or RowQuantity
        The likelihood for its mean.

    Raises
    ------
    DataError
        For a name that the likelihood does not have.

    Examples
    --------
    >>> from probreg.likelihoods import Gaussian
    >>> quantity_called(Gaussian(), "sigma").mean(np.zeros((2, 1)), sigma=3.0).round(6).tolist()
    [3.0, 3.0]
    """
    if what == "mean" or (what == "link" and likelihood.least_squares):
        return likelihood
    quantities: dict[str, RowQuantity] = {}
    parameters = likelihood.parameters
    if likelihood.width + len(likelihood.nuisance) == len(parameters):
        quantities["link"] = Parameter(likelihood, "the linear predictor", IDENTITY, 0)
        for i, name in enumerate(parameters[1:], 1):
            link, parameter = name.split(" ", 1)
            quantities[name] = Parameter(likelihood, name, IDENTITY, i)
            quantities[parameter] = Parameter(likelihood, parameter, LINKS[link], i)
    if likelihood.has_cdf and not likelihood.is_discrete:
        positive = likelihood.support == "positive"
        quantities["median"] = Median(
            likelihood, "the median", LOG if positive else IDENTITY
        )
    if what not in quantities:
        available = ", ".join(map(repr, ("mean", *quantities)))
        raise DataError(f"what={what!r}: {likelihood.named} likelihood has {available}")
    return quantities[what]


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
