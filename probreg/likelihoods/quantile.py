"""A quantile of the response as its linear predictor: the check loss as maximum likelihood."""

from dataclasses import dataclass
from typing import Any

from probreg.arguments.scalars import Fraction
from probreg.likelihoods.base import LIKELIHOODS
from probreg.likelihoods.piecewise_linear import PiecewiseLinearLikelihood, Slopes


@LIKELIHOODS.register
@dataclass(frozen=True)
class Quantile(PiecewiseLinearLikelihood):
    """Asymmetric Laplace noise, under which eta is the tau quantile of y: log p = log(tau (1 - tau) / sigma) - rho(r) / sigma.

    rho(r) = r (tau - 1[r < 0]) with r = y - eta, so that maximum likelihood is quantile regression. `predict` gives the quantile
    eta. The density is a working model, so its standard errors and its posterior are not calibrated for a quantile.
    `covariance("HC0")` uses the density of the data at the quantile.

    Parameters
    ----------
    tau : float
        The probability below eta, between 0 and 1.

    References
    ----------
    Koenker & Bassett 1978; Yu & Moyeed 2001; Yang, Wang & He 2016 (on its posterior).

    Examples
    --------
    >>> import numpy as np
    >>> float(Quantile(0.9).log_prob(np.array(1.0), np.array([0.0]), sigma=2.0).round(6))
    -3.551093
    """

    tau: Fraction = 0.5

    name = "quantile"
    nuisance = ("sigma",)
    noise_scale = "sigma"
    wider = "the density is a working one, for whose errors see covariance('HC0')"
    working = "standard errors are those of the asymmetric Laplace density, no calibrated statement about a quantile; covariance('HC0') is one"

    @property
    def centre(self) -> str:
        return f"{self.tau:g} quantile"

    @property
    def mirror(self) -> "Quantile":
        return Quantile(1.0 - self.tau)

    def slopes(self, **aux: Any) -> Slopes:
        return Slopes(self.tau / aux["sigma"], (1.0 - self.tau) / aux["sigma"], 0.0)

    def describe(self, response: str) -> str:
        return f"the {self.tau:g} quantile of {response}, with asymmetric Laplace noise of scale sigma"

    def mean_name(self, response: str) -> str:
        return f"the {self.tau:g} quantile of {response}"

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        # b kappa = up and b / kappa = down
        slopes = self.slopes(**aux)
        return pm.AsymmetricLaplace, {
            "mu": eta[:, 0],
            "b": (slopes.up * slopes.down) ** 0.5,
            "kappa": (slopes.up / slopes.down) ** 0.5,
        }
