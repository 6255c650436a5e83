"""Counts with a log link."""

from dataclasses import dataclass
from math import exp
from typing import Any, Self

import numpy as np
from scipy.special import gammaln, pdtr

from probreg.errors import DataError
from probreg.likelihoods.base import LIKELIHOODS, Array, ExponentialFamily, Level, MayDiverge, Recession
from probreg.likelihoods.links import LOG
from probreg.likelihoods.response import exact_counts, finite_response, refuse
from probreg.numerics.compiled.density import CompiledDensity


def _row(y: float, eta: float, t: Array) -> tuple[float, float, float]:
    mu = exp(eta)
    return y * eta - mu, y - mu, 0.0


def _hessian(y: float, eta: float, t: Array) -> float:
    return exp(eta)


@LIKELIHOODS.register
@dataclass(frozen=True)
class Poisson(ExponentialFamily, MayDiverge):
    """Counts y in {0, 1, 2, ...} with mean exp(eta): log p = y eta - exp(eta) - log(y!).

    Examples
    --------
    >>> float(Poisson().log_prob(np.array(2.0), np.array([0.0])).round(6))
    -1.693147
    """

    name = "poisson"
    levels = ()
    support = np.arange(500.0)
    link = LOG
    compiled_density = CompiledDensity(_row, hessian=_hessian)

    def prepare(
        self, values: Array, *, levels: tuple[Level, ...] | None, event: Level | None, reference: Level | None
    ) -> Self:
        refuse("Poisson", event=event, reference=reference)
        if not self.encode(values).any():
            raise DataError(
                f"the response is 0 in every one of {len(values)} rows: the Poisson mean is estimated as 0, at infinity on the log scale"
            )
        return self

    def encode(self, values: Array) -> Array:
        y = finite_response(values, "Poisson")
        if len(bad := np.flatnonzero((y < 0) | (y % 1 != 0))):
            raise DataError(
                f"a Poisson response is a count 0, 1, 2, ...; row {bad[0]} holds {y[bad[0]]:g} ({len(bad)} such rows)"
            )
        return exact_counts(y, "Poisson")

    def describe(self, response: str) -> str:
        return f"the mean count of {response} on the log scale"

    def initial_eta(self, y: Array) -> tuple[Array, dict[str, float]]:
        return np.log(y + 0.5)[:, None], {}

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        e = eta[..., 0]
        with np.errstate(over="ignore"):  # exp(eta) = inf is the right limit: log p = -inf
            return y * e - np.exp(e) - gammaln(y + 1.0)

    def base_measure(self, y: Array) -> Array:
        return -gammaln(np.asarray(y) + 1.0)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return np.where(y < 0, 0.0, pdtr(np.maximum(np.floor(y), 0.0), self.mean(eta)))

    def variance(self, mu: Array) -> Array:
        return mu

    def information_slope(self, eta: Array, **aux: Any) -> Array:
        return self.mean(eta)[..., None, None, None]

    def sample(self, rng: np.random.Generator, eta: Array, **aux: Any) -> Array:
        return rng.poisson(self.mean(eta)).astype(float)

    def recession(self, y: Array) -> Recession:
        return Recession(np.arange(len(y)), -np.ones((len(y), 1)), y > 0)

    def pymc(self, eta: Any, **aux: Any) -> tuple[Any, dict[str, Any]]:
        import pymc as pm

        return pm.Poisson, {"mu": pm.math.exp(eta[:, 0])}
