"""Poisson counts: the variance equals the mean."""

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    PymcVariable,
)
from probreg.likelihoods.counts import CountLikelihood, CountLinkName
from probreg.likelihoods.links import LOG
from probreg.likelihoods.mixtures import of_poissons
from probreg.special import gammaln, pdtr


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    # log p + log y! = y eta - mu, d/d eta = y - mu; there is no nuisance parameter.
    mu = exp(eta)
    return y * eta - mu, y - mu, 0.0


def _row_hessian(y: float, eta: float, t: Array) -> float:
    return exp(eta)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Poisson(CountLikelihood):
    """Counts y in {0, 1, 2, ...} with mean mu, exp(eta) by the log link: log p = y log(mu) - mu - log(y!).

    Parameters
    ----------
    link : {"log", "sqrt", "identity"}
        eta = log(mu), sqrt(mu) or mu; eta > 0 for the last two.

    Examples
    --------
    >>> float(Poisson().log_prob(np.array(2.0), np.array([0.0])).round(6))
    -1.693147
    """

    link: CountLinkName = LOG  # type: ignore[assignment]

    name = "poisson"
    support = np.arange(500.0)
    wider = "fit a NegativeBinomial likelihood, whose variance is mean + alpha mean^2"
    concave = True
    compiled_density = CompiledDensity(_evaluate_row, hessian=_row_hessian)
    compiled_quantile = staticmethod(of_poissons)

    @property
    def canonical(self) -> bool:  # type: ignore[override]
        return self.link is LOG

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        value = self.y_log_mean(y, eta) - self.mean(eta) + self.base_measure(y)
        return self.within_domain(eta, value)

    def base_measure(self, y: Array) -> Array:
        return -gammaln(np.asarray(y) + 1.0)

    def up_to(self, k: Array, mu: Array, **aux: Any) -> Array:
        return pdtr(k, mu)

    def variance(self, mu: Array, **aux: Any) -> Array:
        return mu

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return np.ones_like(mu)

    def excess_kurtosis(self, mu: Array, **aux: Any) -> Array:
        # Every cumulant is mu: kappa_4 / V^2 = mu / mu^2.
        return 1.0 / mu

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        return rng.poisson(self.mean(eta)).astype(float)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        import pymc as pm

        return pm.Poisson, {"mu": self.link_function.symbolic_inverse(eta[:, 0])}
