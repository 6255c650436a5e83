"""Noise with a flat density within a tube: support vector regression as a likelihood."""

from dataclasses import dataclass
from typing import Any

from probreg.arguments.scalars import NonNegative
from probreg.likelihoods.base import LIKELIHOODS
from probreg.likelihoods.piecewise_linear import PiecewiseLinearLikelihood, Slopes


@LIKELIHOODS.register
@dataclass(frozen=True)
class EpsilonInsensitive(PiecewiseLinearLikelihood):
    """Noise that is uniform within epsilon and exponential beyond: p(r) = exp(-max(0, |r| - epsilon) / c) / (2 (epsilon + c)).

    r = y - eta, c is the nuisance parameter `scale`, and both are in units of y. Its mode under a normal prior of standard
    deviation t is support vector regression with C = t^2 / c. A share c / (epsilon + c) of the responses lies outside the tube.

    Parameters
    ----------
    epsilon : float
        Half the width of the tube, at least 0.

    References
    ----------
    Vapnik 1995.

    Examples
    --------
    >>> import numpy as np
    >>> float(EpsilonInsensitive(0.3).log_prob(np.array(1.0), np.array([0.0]), scale=0.7).round(6))
    -1.693147
    """

    epsilon: NonNegative = 0.1

    name = "epsilon_insensitive"
    centre = "centre"
    nuisance = ("scale",)
    working = "standard errors are those of a density that is uniform within epsilon; covariance('HC0') takes that of the residuals in its place"
    wider = "fit a StudentT likelihood, which allows far responses"

    @property
    def insensitive(self) -> float:  # type: ignore[override]
        return self.epsilon

    def slopes(self, **aux: Any) -> Slopes:
        return Slopes(1.0 / aux["scale"], 1.0 / aux["scale"], self.epsilon)

    def describe(self, response: str) -> str:
        return f"the centre of {response}, with noise that does not count within {self.epsilon:g}, and of this scale beyond"
