"""The horseshoe: it shrinks most coefficients to zero, and a few hardly at all."""

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Positive
from probreg.priors.base import (
    PRIORS,
    Array,
    Generator,
    HierarchicalPrior,
    Hyper,
    PositivePerColumn,
    Prior,
    Shape,
)
from probreg.priors.location_scale import AffinePrior
from probreg.priors.normal import Normal
from probreg.priors.positive import HalfCauchy
from probreg.special import LOG_2PI, logsumexp


@PRIORS.register
@dataclass(frozen=True)
class Horseshoe(HierarchicalPrior, AffinePrior):
    """The regularised horseshoe beta_j = scale_j b_j, b_j ~ N(0, c^2 s_j^2 / (c^2 + s_j^2)), s_j = tau lambda_j.

    lambda_j ~ HalfCauchy(1) and tau ~ HalfCauchy(tau0). tau shrinks small coefficients to zero. A large coefficient has a
    large lambda_j, so that only the normal slab of standard deviation c shrinks it. If about p0 of q standardised columns
    have an effect, use tau0 = p0 / (q - p0) / sqrt(n) in units of sigma.

    The density of the coefficients is a double integral by trapezoidal rules over log s and log tau, accurate to
    about 1e-10; it is infinite if a coefficient is 0. Only a sampler gives the posterior.

    Parameters
    ----------
    scale : float or tuple of float
        The unit of tau and c, positive: one number or one per column.
    tau : float
        tau0, positive.
    slab : float
        c, positive, given.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether `scale` is stated for standardised columns and response.

    References
    ----------
    Piironen & Vehtari 2017.

    Examples
    --------
    >>> two = Horseshoe(tau=0.5).log_prob(np.array([[0.3], [-1.0]]))
    >>> float(two.round(6))
    -3.292936
    """

    scale: PositivePerColumn = 1.0
    _: KW_ONLY
    tau: Positive = 1.0
    slab: Positive = 2.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "horseshoe"
    location = 0.0
    penalty_weight = Prior.penalty_weight

    @property
    def base(self) -> Prior:  # type: ignore[override]
        return Normal(self.scale, sigma_units=self.sigma_units)

    @property
    def hyper(self) -> Mapping[str, Hyper]:
        return {
            "tau": Hyper(HalfCauchy(self.tau)),
            "lambda": Hyper(HalfCauchy(1.0), each=True),
        }

    def spread(self, **values: Any) -> Any:
        # sd = c s / (c^2 + s^2)^(1/2), s = tau lambda: s if s is small, c if s is large (Piironen & Vehtari
        # 2017).
        s = values["tau"] * values["lambda"]
        return self.slab * s / (self.slab**2 + s**2) ** 0.5

    def given(self, **values: Any) -> Prior:
        factor: Any = self.spread(
            tau=float(values["tau"]),
            **{"lambda": np.asarray(values["lambda"], dtype=float)},
        )
        return self.base.times(factor)

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        tau = self.tau * np.abs(rng.standard_cauchy((*shape[:-2], 1, 1)))
        local = np.abs(rng.standard_cauchy(shape))
        spread = self.spread(tau=tau, **{"lambda": local})
        return np.asarray(spread * rng.standard_normal(shape))

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        r, log_s = self.standardise(beta, unit)
        size = np.abs(r).reshape(-1, r.shape[-2] * r.shape[-1])
        log_probs = _log_prob_of_sizes(size, self.tau, self.slab)
        log_scale = np.broadcast_to(log_s, r.shape).sum((-1, -2))
        return log_probs.reshape(r.shape[:-2]) - log_scale


def _log_prob_of_sizes(size: Array, tau: float, slab: float) -> Array:
    """Return log of the integral over log tau of prod_j f(b_j; tau) (N,) for |b| (N, q), f(b; tau) = sum over s of N(b; 0, sd(s)^2) p(s | tau).

    The nodes start below the smallest coefficient, where the integrand falls as tau^(q + 1), and end where the remaining
    Cauchy tails have mass 1e-11.
    """
    max_numbers = 2_000_000  # in memory at once
    h = 0.2  # of the trapezoidal rule over log s: analytic for |Im| < pi/4, so that the error is exp(-pi^2 / 0.4) = 2e-11
    q = size.shape[1]
    smallest = float(np.log(max(size[size > 0].min(initial=1.0), 1e-60)))
    top = np.log(tau)
    log_s = np.arange(min(smallest, np.log(slab), top) - 4.0, top + 28.0, h)
    step = min(h, 0.35 / np.sqrt(q))
    log_tau = np.arange(min(smallest, top) - 25.0 / (1.0 + q), top + 25.0, step)
    s = np.exp(log_s)
    sd = slab * s / np.hypot(slab, s)
    # p(s | tau) s = 2/pi tau s / (tau^2 + s^2), and p(tau) tau, times the steps
    given_tau = h / np.pi / np.cosh(log_s[:, None] - log_tau)
    log_weight = np.log(2.0 * step / np.pi) - np.logaddexp(log_tau - top, top - log_tau)
    log_probs = []
    k = max(1, int(max_numbers / ((len(s) + len(log_tau)) * q)))
    for i in range(0, len(size), k):
        part = size[i : i + k]
        with np.errstate(over="ignore"):
            # p(b) = int p(tau) prod_j [int N(b_j; 0, sd(s)^2) p(s | tau) ds] dtau, each by a sum over nodes; the
            # largest term of the inner sum is taken out before it is exponentiated.
            log_n = -0.5 * np.square(part[..., None] / sd) - np.log(sd) - 0.5 * LOG_2PI
        highest = log_n.max(-1, keepdims=True)
        inner = np.exp(log_n - highest) @ given_tau
        with np.errstate(divide="ignore"):
            total = logsumexp((np.log(inner) + highest).sum(-2) + log_weight, axis=-1)
        log_probs.append(np.where((part == 0).any(-1), np.inf, total))
    return np.concatenate(log_probs)
