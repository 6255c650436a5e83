"""Quantities of a row by name: the mean, a parameter or its linear predictor, the median."""

from dataclasses import dataclass
from typing import Any

from probreg.errors import DataError
from probreg.likelihoods.base import Array, Likelihood, flatten_rows
from probreg.likelihoods.links import IDENTITY, LINKS, LOG
from probreg.likelihoods.quantities import Parameter, Quantity, RowQuantity
from probreg.model.predictive import Predictive


@dataclass(frozen=True)
class Median(RowQuantity):
    """The value y with P(Y <= y) = 1/2 of a continuous response."""

    def line(self, eta: Array, **aux: Any) -> Array:
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
    >>> import numpy as np
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
