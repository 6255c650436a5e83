"""The base class of two classes: the probability of an event, by the tails of a link.

Ordered classes use the same functions of a link.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np

from probreg.compiled.density import CompiledDensity, with_functions
from probreg.likelihoods.base import (
    Array,
    ExponentialFamily,
    MayDiverge,
    OfClasses,
    Recession,
    ValueGradHessian,
)
from probreg.likelihoods.links import (
    CAUCHIT,
    CLOGLOG,
    IDENTITY,
    LINKS,
    LOG,
    LOGIT,
    PROBIT,
    Link,
)
from probreg.likelihoods.tails import extreme_value_tails, normal_tails
from probreg.special import erfcx, expit, log1mexp, log_ndtr, ndtr

OrderedLinkName = Literal["logit", "probit", "cloglog"]
BinaryLinkName = Literal["logit", "probit", "cloglog", "cauchit", "log", "identity"]
_LARGEST = 700.0  # exp of it is finite


class Tails(NamedTuple):
    """Functions of eta that keep their digits where the probability p is near 0 or 1."""

    log_p: Callable[[Array], Array]
    log_q: Callable[[Array], Array]  # q = 1 - p
    q: Callable[[Array], Array]
    rate_p: Callable[[Array], Array]  # p' / p
    rate_q: Callable[[Array], Array]  # p' / q
    bend: Callable[[Array], Array]  # p'' / p'
    steepest: Callable[[Array], Array]  # the e of the largest p(e + d) - p(e), d > 0

    def log_change(self, upper: Array, lower: Array) -> Array:
        """log(p(upper) - p(lower)), from the tail in which the logs are smaller; the ends may be infinite."""
        with np.errstate(all="ignore"):
            p, q = self.log_p(upper), self.log_q(lower)
            by_p = p + np.log(-np.expm1(self.log_p(lower) - p))
            by_q = q + np.log(-np.expm1(self.log_q(upper) - q))
            by_q = np.where(np.isneginf(q), -np.inf, by_q)
        return np.where(p < q, by_p, by_q)

    def slopes_of_change(self, upper: Array, lower: Array) -> tuple[Array, Array]:
        """The slopes of `log_change` over `upper`, and minus that over `lower`; 0 at an infinite end."""
        with np.errstate(all="ignore"):
            p, q = self.log_p(upper), self.log_q(lower)
            by_p = p < q
            # the ratio p(lower) / p(upper), or q(upper) / q(lower)
            log_ratio = np.where(by_p, self.log_p(lower) - p, self.log_q(upper) - q)
            ratio, rest = np.exp(log_ratio), -np.expm1(log_ratio)
            over_upper = np.where(by_p, self.rate_p(upper), self.rate_q(upper) * ratio)
            over_lower = np.where(by_p, self.rate_p(lower) * ratio, self.rate_q(lower))
            return (
                np.where(np.isinf(upper), 0.0, over_upper / rest),
                np.where(np.isinf(lower), 0.0, over_lower / rest),
            )

    def largest_change(self, d: Array) -> Array:
        """The largest p(e + d) - p(e) over e, d >= 0."""
        d = np.clip(d, 1e-300, _LARGEST)
        e = self.steepest(d)
        return np.exp(self.log_change(e + d, e))


def _log_expit(e: Array) -> Array:
    return np.minimum(e, 0.0) - np.log1p(np.exp(-np.abs(e)))


def _normal_rate(e: Array) -> Array:
    """phi(e) / Phi(e)."""
    return np.sqrt(2.0 / np.pi) / erfcx(-np.maximum(e, -1e100) / np.sqrt(2.0))


def _exp(e: Array) -> Array:
    return np.exp(np.minimum(e, _LARGEST))


def _cloglog_log_p(e: Array) -> Array:
    # log(1 - exp(-u)) with u = exp(e) is log u where u is below half the machine precision
    small = e < -40.0
    return np.where(small, e, np.log(-np.expm1(-_exp(np.where(small, 0.0, e)))))


def _cloglog_rate_p(e: Array) -> Array:
    # p' / p = u exp(-u) / (1 - exp(-u)) = u / (exp(u) - 1), u = exp(e), 1 at u = 0
    u = np.clip(_exp(e), 1e-300, _LARGEST)
    return u / np.expm1(u)


def _cauchit_log_p(e: Array) -> Array:
    p, q = CAUCHIT.inverse(e), CAUCHIT.inverse(-e)
    return np.where(p > 0.5, np.log1p(-np.minimum(q, 0.5)), np.log(p))


TAILS: dict[str, Tails] = {
    LOGIT: Tails(
        _log_expit,
        lambda e: _log_expit(-e),
        lambda e: expit(-e),
        lambda e: expit(-e),
        expit,
        lambda e: -np.tanh(e / 2.0),
        lambda d: -d / 2.0,
    ),
    PROBIT: Tails(
        log_ndtr,
        lambda e: log_ndtr(-e),
        lambda e: ndtr(-e),
        _normal_rate,
        lambda e: _normal_rate(-e),
        lambda e: -e,
        lambda d: -d / 2.0,
    ),
    CLOGLOG: Tails(
        _cloglog_log_p,
        lambda e: -_exp(e),
        lambda e: np.exp(-_exp(e)),
        _cloglog_rate_p,
        _exp,
        lambda e: 1.0 - _exp(e),
        # exp(-u) - exp(-u exp(d)) is largest at u = d / (exp(d) - 1)
        lambda d: np.log(d / np.expm1(d)),
    ),
    CAUCHIT: Tails(
        _cauchit_log_p,
        lambda e: _cauchit_log_p(-e),
        lambda e: CAUCHIT.inverse(-e),
        lambda e: CAUCHIT.slope(e) / CAUCHIT.inverse(e),
        lambda e: CAUCHIT.slope(e) / CAUCHIT.inverse(-e),
        lambda e: -2.0 * e / (1.0 + e * e),
        lambda d: -d / 2.0,
    ),
    # of eta < 0
    LOG: Tails(
        lambda e: e,
        lambda e: log1mexp(-np.minimum(e, 0.0)),
        lambda e: -np.expm1(np.minimum(e, 0.0)),
        np.ones_like,
        lambda e: 1.0 / np.expm1(-e),
        np.ones_like,
        lambda d: -d,
    ),
    # of 0 < eta < 1
    IDENTITY: Tails(
        lambda e: np.log(np.clip(e, 0.0, 1.0)),
        lambda e: np.log1p(-np.clip(e, 0.0, 1.0)),
        lambda e: 1.0 - e,
        lambda e: 1.0 / e,
        lambda e: 1.0 / (1.0 - e),
        np.zeros_like,
        np.zeros_like,
    ),
}


def densities_of_links(row: Callable[..., Any]) -> dict[str, CompiledDensity]:
    """The compiled densities of the links without one of their own, of a row that calls `tails`."""
    return {
        link: CompiledDensity(with_functions(row, {"tails": tails}))
        for link, tails in ((PROBIT, normal_tails), (CLOGLOG, extreme_value_tails))
    }


class BinaryLikelihood(ExponentialFamily, OfClasses, MayDiverge):
    """Two classes, P(event) = p(eta), once in a row or in each of its trials: k events of n.

    With h = p' / p, g = p' / (1 - p) and r = p'' / p' the slope of log p(k) is k h - (n - k) g, and minus its second
    derivative is k h (h - r) + (n - k) g (g + r), of expectation n h g.
    """

    link: Link = LOGIT
    mean_range = 0.0, 1.0

    @property
    def concave(self) -> bool:  # type: ignore[override]
        return self.link is not CAUCHIT

    @property
    def canonical(self) -> bool:  # type: ignore[override]
        return self.link is LOGIT

    @property
    def tails(self) -> Tails:
        """The functions of the link that keep their digits."""
        return TAILS[self.link]

    def variance(self, mu: Array, **aux: Any) -> Array:
        return mu * (1.0 - mu)

    def variance_slope(self, mu: Array, **aux: Any) -> Array:
        return 1.0 - 2.0 * mu

    def _rates(self, eta: Array) -> tuple[Array, Array, Array]:
        e = eta[..., 0]
        with np.errstate(divide="ignore", invalid="ignore"):  # at ends of the domain
            return self.tails.rate_p(e), self.tails.rate_q(e), self.tails.bend(e)

    def log_power(self, y: Array, eta: Array) -> Array:
        """k log p + (n - k) log(1 - p), with 0 log 0 = 0."""
        k, others = self._events_and_others(y)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_p, log_q = self.tails.log_p(eta[..., 0]), self.tails.log_q(eta[..., 0])
            value = np.where(k > 0, k * log_p, 0.0) + np.where(
                others > 0, others * log_q, 0.0
            )
        return self.within_domain(eta, value)

    def _events_and_others(self, y: Array) -> tuple[Array, Array]:
        """k and n - k."""
        counts = self.tally(y)
        return counts[..., 1], counts[..., 0]

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        if self.canonical:
            return super().score(y, eta, **aux)
        k, others = self._events_and_others(y)
        h, g, _ = self._rates(eta)
        return (k * h - others * g)[..., None]

    def information(self, eta: Array, **known: Any) -> Array:
        if self.canonical:
            return super().information(eta, **known)
        h, g, _ = self._rates(eta)
        return (self.size(**known) * h * g)[..., None, None]

    def information_slope(self, eta: Array, **known: Any) -> Array:
        if self.canonical:
            return super().information_slope(eta, **known)
        h, g, r = self._rates(eta)
        # h' = h (r - h), g' = g (r + g)
        slope = h * g * (2.0 * r - h + g)
        return (self.size(**known) * slope)[..., None, None, None]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        if self.canonical:
            return super().value_grad_hessian(y, eta, **aux)
        k, others = self._events_and_others(y)
        h, g, r = self._rates(eta)
        curvature = k * h * (h - r) + others * g * (g + r)
        return ValueGradHessian(
            self.log_prob(y, eta, **aux),
            (k * h - others * g)[..., None],
            curvature[..., None, None],
        )

    def recession(self, y: Array) -> Recession:
        other, k = self.tally(y).T
        n = other + k
        rows = np.flatnonzero(n > 0)
        # k = n requires x d >= 0 and k = 0 requires x d <= 0; in between the likelihood falls on both sides, so x d = 0.
        inner = (k > 0) & (k < n)
        # eta has an end where p is 1 by a log link, and both ends by an identity link
        low, high = self.domain
        inner |= (k > 0) & (high < np.inf) | (k == 0) & (low > -np.inf)
        inner = inner[rows]
        return Recession(rows, np.where(k > 0, 1.0, -1.0)[rows, None], inner)


def symbolic_probability(link: str, eta: Any) -> dict[str, Any]:
    """p at a symbolic eta (n,) as a parameter of PyMC's distributions, log p - log(1 - p) where it has more digits near 0 and 1."""
    if link in (CAUCHIT, IDENTITY, LOG):
        return {"p": LINKS[link].symbolic_inverse(eta)}
    return {"logit_p": _symbolic_logit(link, eta)}


def _symbolic_logit(link: str, eta: Any) -> Any:
    import pytensor.tensor as pt

    if link == PROBIT:
        return _symbolic_log_ndtr(eta) - _symbolic_log_ndtr(-eta)
    if link == CLOGLOG:
        u = pt.exp(eta)
        return pt.log(-pt.expm1(-u)) + u
    return eta


def _symbolic_log_ndtr(z: Any) -> Any:
    """log Phi(z), by erfc where it is larger than the smallest numbers."""
    import pytensor.tensor as pt
    from pymc.distributions.dist_math import normal_lcdf

    low = -35.0
    root = np.sqrt(2.0)
    near = pt.maximum(z, low)
    left = pt.log(0.5 * pt.erfc(-near / root))
    right = pt.log1p(-0.5 * pt.erfc(pt.maximum(z, 0.0) / root))
    return pt.switch(z > 0.0, right, pt.switch(z > low, left, normal_lcdf(0.0, 1.0, z)))
