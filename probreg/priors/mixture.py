"""A prior with an unknown scale; quadrature over the scale gives the density of the coefficients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag
from probreg.priors.base import Array, Generator, Hyper, LatentPrior, Prior, Shape
from probreg.priors.positive import AuxPrior
from probreg.special import logsumexp

_FAR, _GONE = (
    46.0,
    -800.0,
)  # scales are between exp(-46) and exp(46), and log weights above -800


@dataclass(frozen=True)
class ScaleMixture(LatentPrior):
    """A prior with an unknown scale: beta ~ base with every scale multiplied by tau, and tau has its own prior.

    Parameters
    ----------
    base : Prior
        The prior at tau = 1.
    tau : AuxPrior
        The prior of the scale.
    shared : bool
        Whether several linear predictors have one scale.

    Examples
    --------
    >>> from probreg.priors import Normal, InverseGamma
    >>> t = ScaleMixture(Normal(1.0), InverseGamma(2.0, 2.0))  # a Student-t with 4 degrees of freedom
    >>> float(t.log_prob(np.array([[0.0]])).round(9)) == round(float(np.log(0.375)), 9)
    True
    """

    base: Prior
    tau: AuxPrior
    shared: Flag = False

    scalar = True
    scales = (True,)

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.base.name

    @property
    def sigma_units(self) -> bool:  # type: ignore[override]
        return self.base.sigma_units

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return self.tau.proper

    @property
    def size(self) -> int | None:
        return self.base.size

    @property
    def hyper(self) -> Mapping[str, Hyper]:
        return {"tau": Hyper(self.tau)}

    def spread(self, **values: Any) -> Any:
        return values["tau"]

    def given(self, **values: Any) -> Prior:
        return self.base.times(float(values["tau"]))

    def log_scales(self, logs: Array, q: int) -> Array:
        return np.repeat(logs, q, axis=1)

    def log_scale_slopes(self, logs: Array, q: int) -> Array:
        return np.ones((q, 1))

    def times(self, factor: float) -> Prior:
        return ScaleMixture(self.base.times(factor), self.tau, self.shared)

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        """The log density by quadrature over log tau, with an error near rounding."""
        max_numbers = 2e6  # in memory at once
        # log p(beta) = log int p(beta | tau = v) p(v) dv, dv = v d log v: log sum_k exp(log p(beta | v_k) + log
        # weight_k).
        v, weight = log_rule(self.tau, beta.shape[-2] * beta.shape[-1])
        with np.errstate(
            over="ignore", under="ignore", divide="ignore", invalid="ignore"
        ):
            unit = np.asarray(unit, dtype=float)
            lead = np.broadcast_shapes(beta.shape[:-2], unit.shape)
            total = np.full(lead, -np.inf)
            k = max(1, int(max_numbers / max(1, beta.size)))
            for i in range(0, len(v), k):
                part = self.base.log_prob(
                    beta[None], v[i : i + k].reshape(-1, *[1] * len(lead)) * unit
                )
                part = np.where(np.isnan(part), -np.inf, part) + weight[
                    i : i + k
                ].reshape(-1, *[1] * len(lead))
                total = np.logaddexp(total, logsumexp(part, axis=0))
        return total

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        # tau ~ p(tau), beta | tau ~ base with every scale times tau.
        tau = self.draw_hyper(rng, int(np.prod(shape[:-2])))["tau"]
        return self.base.sample(rng, shape, unit * tau.reshape(*shape[:-2], 1, 1))


def log_rule(prior: AuxPrior, size: int) -> tuple[Array, Array]:
    """Return nodes v and the logs of their weights, which include p(v), for integrals over log v of `size` normal densities of scale v.

    For analytic integrands it is the trapezoidal rule, with steps smaller than the widths of p and of the densities. If p has bounded
    support, it has sixteen Gauss-Legendre nodes in each of many panels.
    """
    low, high = np.clip(np.log(np.maximum(prior.support, np.exp(-_FAR))), -_FAR, _FAR)
    # over log v, q normal densities of scale v have the curvature 2 q at their peak: steps are half of (2 q)^(-1/2).
    step = min(0.1, 0.35 / np.sqrt(size))
    if prior.has_bounded_support:
        edges = np.linspace(low, high, 2 + int((high - low) / (8.0 * step)))
        nodes, share = np.polynomial.legendre.leggauss(16)
        half = np.diff(edges)[:, None] / 2.0
        u = (edges[:-1, None] + half * (1.0 + nodes)).ravel()
        widths = (half * share).ravel()
    else:
        top = _top(prior)
        coarse = np.linspace(low, high, 921)
        likely = np.append(coarse[_log_density(prior, coarse) > _GONE], top)
        step = min(step, 0.5 / np.sqrt(max(-prior.slopes(float(np.exp(top)))[1], 1.0)))
        u = np.arange(likely.min() - 0.1, likely.max() + 0.1, step)
        widths = np.full(len(u), step)
    # log weight_k = log p(v_k) + log v_k + log step, as dv = v d log v.
    weight = _log_density(prior, u) + np.log(widths)
    live = weight > _GONE
    return np.exp(u[live]), weight[live]


def _log_density(prior: AuxPrior, u: Array) -> Array:
    """log p(v) + log v at v = exp(u)."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        return prior.log_prob(np.exp(u)) + u


def _top(prior: AuxPrior) -> float:
    """Return the maximum of the density of log v, on finer and finer grids, because the density can be narrow."""
    u = np.linspace(-_FAR, _FAR, 921)
    for _ in range(8):
        k = int(np.argmax(_log_density(prior, u)))
        gap = u[1] - u[0]
        u = np.linspace(u[k] - gap, u[k] + gap, 33)
    return float(u[16])
