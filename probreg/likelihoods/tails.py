"""Standard distribution functions F as plain arithmetic: rows of censored, ordered and binary responses in compiled code use them.

`tails(r)` returns log F, f / F, log(1 - F) and f / (1 - F), with their digits in both tails. `interval` is written for any of them.
"""

from math import erfc, exp, expm1, inf, log, log1p, sqrt
from typing import Any

from probreg.special import LOG_2PI

Four = tuple[float, float, float, float]

# replaced by the function of a family: `probreg.compiled.density.with_functions`
tails: Any = None


def logistic_tails(r: float) -> Four:
    """The logistic distribution."""
    e = exp(-abs(r))
    near = 1.0 / (1.0 + e)
    far = e / (1.0 + e)
    below = near if r > 0.0 else far
    above = far if r > 0.0 else near
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
    other = exp(log_density) / (1.0 - tail)
    if r < 0.0:
        return log_tail, rate, log_other, other
    return log_other, other, log_tail, rate


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
    # from the tail with the smaller probabilities
    if above_a < below_b:
        log_p = above_a + log(-expm1(above_b - above_a))
    else:
        log_p = below_b + log(-expm1(below_a - below_b))
    return (
        log_p,
        hazard_a * exp(above_a - log_p),
        hazard_b * exp(above_b - log_p),
    )
