"""Laplace noise: least absolute deviations as maximum likelihood."""

from dataclasses import dataclass
from typing import Any

from probreg.likelihoods.base import LIKELIHOODS
from probreg.likelihoods.piecewise_linear import PiecewiseLinearLikelihood, Slopes


@LIKELIHOODS.register
@dataclass(frozen=True)
class AbsoluteLoss(PiecewiseLinearLikelihood):
    """Laplace noise: log p = -|y - eta| / sigma - log(2 sigma), so that its maximum is the median regression.

    sigma is the mean absolute deviation, in units of y; the standard deviation is sqrt(2) sigma.

    References
    ----------
    Koenker & Bassett 1978.

    Examples
    --------
    >>> import numpy as np
    >>> float(AbsoluteLoss().log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -1.886294
    """

    name = "absolute"
    nuisance = ("sigma",)
    noise_scale = "sigma"
    centre = "median"
    insensitive = 0.0
    in_pymc = "Laplace", "b"
    wider = "fit a StudentT likelihood, which allows far responses"

    def slopes(self, **aux: Any) -> Slopes:
        return Slopes(1.0 / aux["sigma"], 1.0 / aux["sigma"], 0.0)

    def describe(self, response: str) -> str:
        return f"the median of {response}, with Laplace noise of scale sigma"
