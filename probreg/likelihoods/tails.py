"""Standard distribution functions F that are accurate in both tails, for binary, ordered and censored responses.

F is the inverse of a link. `TAILS` has functions of arrays. In compiled code `tails(r)` returns log F, f / F, log(1 - F) and f / (1 - F),
and `interval` is written for any of them.
"""

from collections.abc import Callable
from functools import cache
from math import atan2, erfc, exp, expm1, inf, log, log1p, nan, pi, sqrt
from typing import Any, NamedTuple

import numpy as np

from probreg.compiled.density import with_functions
from probreg.likelihoods.links import (
    CAUCHIT,
    CLOGLOG,
    IDENTITY,
    LOG,
    LOGIT,
    PROBIT,
    Elementwise,
)
from probreg.special import LOG_2PI, erfcx, expit, log1mexp, log_ndtr

Array = np.ndarray

Four = tuple[float, float, float, float]

_LARGEST_EXPONENT = 700.0  # exp of it is finite

# replaced by the function of a family: `probreg.compiled.density.with_functions`
tails: Any = None
upper_tail: Any = None


def logistic_tails(r: float) -> Four:
    """The logistic distribution."""
    e = exp(-abs(r))
    larger = 1.0 / (1.0 + e)
    smaller = e / (1.0 + e)
    below = larger if r > 0.0 else smaller
    above = smaller if r > 0.0 else larger
    soft = log1p(e)
    return min(r, 0.0) - soft, above, -max(r, 0.0) - soft, below


def extreme_value_tails(r: float) -> Four:
    """F = 1 - exp(-e^r)."""
    u = exp(min(r, 700.0))
    if r < -40.0:
        return r, 1.0, -u, u
    return log(-expm1(-u)), u / expm1(u) if u < 700.0 else 0.0, -u, u


def normal_tails(r: float) -> Four:
    """The normal distribution."""
    x = abs(r)
    log_density = -0.5 * (x * x + LOG_2PI)
    if x < 30.0:
        tail = 0.5 * erfc(x / sqrt(2.0))
        log_tail = log(tail)
        rate = exp(log_density) / tail
    else:
        # the asymptotic series of the tail, DLMF 7.12.1
        tail = 0.0
        s = 1.0 / (x * x)
        m = 1.0 - s * (1.0 - 3.0 * s * (1.0 - 5.0 * s * (1.0 - 7.0 * s)))
        log_tail = log_density - log(x) + log(m)
        rate = x / m
    log_other = log1p(-tail)
    other_rate = exp(log_density) / (1.0 - tail)
    if r < 0.0:
        return log_tail, rate, log_other, other_rate
    return log_other, other_rate, log_tail, rate


def cauchy_tails(r: float) -> Four:
    """The Cauchy distribution."""
    below = atan2(1.0, -r) / pi
    above = atan2(1.0, r) / pi
    density = 1.0 / (pi * (1.0 + r * r))
    log_below = log1p(-above) if r > 0.0 else log(below)
    log_above = log(above) if r > 0.0 else log1p(-below)
    return log_below, density / below, log_above, density / above


def exponential_tails(r: float) -> Four:
    """F = e^r, r < 0."""
    if r < 0.0:
        log_above = log(-expm1(r)) if r > -0.7 else log1p(-exp(r))
        return r, 1.0, log_above, 1.0 / expm1(-r)
    return -inf, nan, -inf, nan


def uniform_tails(r: float) -> Four:
    """F = r, 0 < r < 1."""
    if r > 0.0 and r < 1.0:
        return log(r), 1.0 / r, log1p(-r), 1.0 / (1.0 - r)
    return -inf, nan, -inf, nan


def _symmetric_tails(r: float) -> Four:
    """A distribution that is symmetric about 0, from log P(Y > x) and f(x) / P(Y > x), x >= 0."""
    log_tail, rate = upper_tail(abs(r))
    tail = exp(log_tail)
    log_other = log1p(-tail)
    other_rate = rate * tail / (1.0 - tail)
    if r < 0.0:
        return log_tail, rate, log_other, other_rate
    return log_other, other_rate, log_tail, rate


def interval(a: float, b: float) -> tuple[float, float, float]:
    """Return log(F(b) - F(a)), f(a) and f(b) over this difference; the ends may be infinite."""
    if b == inf:
        _, _, above, hazard = tails(a)
        return above, hazard, 0.0
    if a == -inf:
        below, rate, _, _ = tails(b)
        return below, 0.0, rate
    below_a, _, above_a, hazard_a = tails(a)
    below_b, _, above_b, hazard_b = tails(b)
    # computed in the tail with the smaller probabilities
    if above_a < below_b:
        log_p = above_a + log(-expm1(above_b - above_a))
    else:
        log_p = below_b + log(-expm1(below_a - below_b))
    return (
        log_p,
        hazard_a * exp(above_a - log_p),
        hazard_b * exp(above_b - log_p),
    )


@cache
def _interval_of(tails: Callable[[float], Four]) -> Callable[..., Any]:
    return with_functions(interval, {"tails": tails})


@cache
def symmetric_interval(
    upper_tail: Callable[[float], tuple[float, float]], **constants: float
) -> Callable[..., Any]:
    """Return `interval` of a distribution that is symmetric about 0, from its upper tail with these constants."""
    parts = {"upper_tail": with_functions(upper_tail, constants)}
    return _interval_of(with_functions(_symmetric_tails, parts))


def logistic_interval(a: float, b: float) -> tuple[float, float, float]:
    """`interval` of the logistic distribution, with one logarithm: F(b) - F(a) = F(b) (1 - F(a)) (1 - exp(a - b))."""
    below = exp(-abs(a))
    above = exp(-abs(b))
    gap = -expm1(a - b)
    # min and max of a number and 0
    lower_b = b if b < 0.0 else 0.0
    upper_a = a if a > 0.0 else 0.0
    log_p = lower_b - upper_a + log(gap / ((1.0 + below) * (1.0 + above)))
    share = (1.0 + above) / (1.0 + below)
    # exp(min(a, 0) - min(b, 0)), which is exp(a - b) below 0, exp(a) if 0 is inside, and 1 above; the same of the maxima
    ratio = 1.0 - gap
    over_a = ratio if b < 0.0 else below
    over_b = ratio if a > 0.0 else above
    over_a = over_a if a < 0.0 else 1.0
    over_b = over_b if b > 0.0 else 1.0
    return log_p, over_a * share / gap, over_b / (share * gap)


def log_change(
    log_p: Elementwise, log_q: Elementwise, upper: Array, lower: Array
) -> Array:
    """log(p(upper) - p(lower)) from log p or log(1 - p), whichever is smaller; the ends may be infinite."""
    with np.errstate(all="ignore"):
        p, q = log_p(upper), log_q(lower)
        by_p = p < q
        larger = np.where(by_p, p, q)
        smaller = np.where(by_p, log_p(lower), log_q(upper))
        gap = np.where(smaller == -np.inf, np.inf, larger - smaller)
        return larger + log1mexp(gap)


class Tails(NamedTuple):
    """Functions of eta that are accurate if the probability p is near 0 or 1."""

    log_p: Elementwise
    log_q: Elementwise  # q = 1 - p
    rate_p: Elementwise  # p' / p
    rate_q: Elementwise  # p' / q
    bend: Elementwise  # p'' / p'
    steepest: Elementwise  # the e that maximises p(e + d) - p(e), d > 0

    # log p, p' / p, log q and p' / q of a number, for compiled code
    compiled: Callable[[float], Four]
    # `interval` in closed form, if there is one
    interval: Callable[[float, float], tuple[float, float, float]] | None = None

    @property
    def compiled_interval(self) -> Callable[..., Any]:
        """The function `interval` of this distribution, for compiled code."""
        return self.interval or _interval_of(self.compiled)

    def q(self, e: Array) -> Array:
        """1 - p."""
        with np.errstate(divide="ignore"):  # at ends of the domain
            return np.exp(self.log_q(e))

    def rates(self, e: Array) -> tuple[Array, Array, Array]:
        """p' / p, p' / q and p'' / p'."""
        with np.errstate(divide="ignore", invalid="ignore"):  # at ends of the domain
            return self.rate_p(e), self.rate_q(e), self.bend(e)

    def log_change(self, upper: Array, lower: Array) -> Array:
        """log(p(upper) - p(lower)); the ends may be infinite."""
        return log_change(self.log_p, self.log_q, upper, lower)

    def slopes_of_change(self, upper: Array, lower: Array) -> tuple[Array, Array]:
        """The slope of `log_change` over `upper`, and minus the slope over `lower`; 0 at an infinite end."""
        with np.errstate(all="ignore"):
            p, q = self.log_p(upper), self.log_q(lower)
            by_p = p < q
            # the ratio p(lower) / p(upper), or q(upper) / q(lower)
            log_ratio = np.where(by_p, self.log_p(lower) - p, self.log_q(upper) - q)
            ratio, one_minus_ratio = np.exp(log_ratio), -np.expm1(log_ratio)
            over_upper = np.where(by_p, self.rate_p(upper), self.rate_q(upper) * ratio)
            over_lower = np.where(by_p, self.rate_p(lower) * ratio, self.rate_q(lower))
            return (
                np.where(np.isinf(upper), 0.0, over_upper / one_minus_ratio),
                np.where(np.isinf(lower), 0.0, over_lower / one_minus_ratio),
            )

    def largest_change(self, d: Array) -> Array:
        """The largest p(e + d) - p(e) over e, d >= 0."""
        d = np.clip(d, 1e-300, _LARGEST_EXPONENT)
        e = self.steepest(d)
        return np.exp(self.log_change(e + d, e))


def _log_expit(e: Array) -> Array:
    return np.minimum(e, 0.0) - np.log1p(np.exp(-np.abs(e)))


def _normal_rate(e: Array) -> Array:
    """phi(e) / Phi(e)."""
    return np.sqrt(2.0 / np.pi) / erfcx(-np.maximum(e, -1e100) / np.sqrt(2.0))


def _exp(e: Array) -> Array:
    return np.exp(np.minimum(e, _LARGEST_EXPONENT))


def _cloglog_log_p(e: Array) -> Array:
    # log(1 - exp(-u)) with u = exp(e) is log u where u is below half the machine precision
    small = e < -40.0
    return np.where(small, e, np.log(-np.expm1(-_exp(np.where(small, 0.0, e)))))


def _cloglog_rate_p(e: Array) -> Array:
    # p' / p = u exp(-u) / (1 - exp(-u)) = u / (exp(u) - 1), u = exp(e), 1 at u = 0
    u = np.clip(_exp(e), 1e-300, _LARGEST_EXPONENT)
    return u / np.expm1(u)


def _cauchit_log_p(e: Array) -> Array:
    p, q = CAUCHIT.inverse(e), CAUCHIT.inverse(-e)
    return np.where(p > 0.5, np.log1p(-np.minimum(q, 0.5)), np.log(p))


TAILS: dict[str, Tails] = {
    LOGIT: Tails(
        _log_expit,
        lambda e: _log_expit(-e),
        lambda e: expit(-e),
        expit,
        lambda e: -np.tanh(e / 2.0),
        lambda d: -d / 2.0,
        logistic_tails,
        logistic_interval,
    ),
    PROBIT: Tails(
        log_ndtr,
        lambda e: log_ndtr(-e),
        _normal_rate,
        lambda e: _normal_rate(-e),
        lambda e: -e,
        lambda d: -d / 2.0,
        normal_tails,
    ),
    CLOGLOG: Tails(
        _cloglog_log_p,
        lambda e: -_exp(e),
        _cloglog_rate_p,
        _exp,
        lambda e: 1.0 - _exp(e),
        # exp(-u) - exp(-u exp(d)) is largest at u = d / (exp(d) - 1)
        lambda d: np.log(d / np.expm1(d)),
        extreme_value_tails,
    ),
    CAUCHIT: Tails(
        _cauchit_log_p,
        lambda e: _cauchit_log_p(-e),
        lambda e: CAUCHIT.slope(e) / CAUCHIT.inverse(e),
        lambda e: CAUCHIT.slope(e) / CAUCHIT.inverse(-e),
        lambda e: -2.0 * e / (1.0 + e * e),
        lambda d: -d / 2.0,
        cauchy_tails,
    ),
    # of eta < 0
    LOG: Tails(
        lambda e: e,
        lambda e: log1mexp(-np.minimum(e, 0.0)),
        np.ones_like,
        lambda e: 1.0 / np.expm1(-e),
        np.ones_like,
        lambda d: -d,
        exponential_tails,
    ),
    # of 0 < eta < 1
    IDENTITY: Tails(
        lambda e: np.log(np.clip(e, 0.0, 1.0)),
        lambda e: np.log1p(-np.clip(e, 0.0, 1.0)),
        lambda e: 1.0 / e,
        lambda e: 1.0 / (1.0 - e),
        np.zeros_like,
        np.zeros_like,
        uniform_tails,
    ),
}


def symbolic_log_p(link: str, r: Any) -> Any:
    """`Tails.log_p` of a symbol, by the logit, probit or cloglog link."""
    import pytensor.tensor as pt

    if link == LOGIT:
        return -pt.softplus(-r)
    if link == CLOGLOG:
        return pt.log(-pt.expm1(-pt.exp(r)))
    return _symbolic_log_ndtr(r)


def symbolic_log_q(link: str, r: Any) -> Any:
    """`Tails.log_q` of a symbol."""
    import pytensor.tensor as pt

    return -pt.exp(r) if link == CLOGLOG else symbolic_log_p(link, -r)


def _symbolic_log_ndtr(z: Any) -> Any:
    """log Phi(z), by erfc if this does not underflow."""
    import pytensor.tensor as pt
    from pymc.distributions.dist_math import normal_lcdf

    low = -35.0
    root = np.sqrt(2.0)
    near = pt.maximum(z, low)
    left = pt.log(0.5 * pt.erfc(-near / root))
    right = pt.log1p(-0.5 * pt.erfc(pt.maximum(z, 0.0) / root))
    return pt.switch(z > 0.0, right, pt.switch(z > low, left, normal_lcdf(0.0, 1.0, z)))
