"""log Gamma and its derivatives at any size, without differences of large numbers. numba compiles this arithmetic of numbers and arrays.

At x >= 10 they are series, and the first term that is left out is below 1e-15: log Gamma(x) = (x - 1/2) log x - x + log(2 pi) / 2 + 1/(12 x) -
1/(360 x^3) + ..., DLMF 5.11.1, and its derivatives 5.11.2. Every number first takes ten steps, Gamma(a + 10) = a (a + 1) ... (a + 9) Gamma(a).
"""

from typing import Any

import numpy as np
from numpy import log, log1p, sqrt  # of numbers and arrays

from probreg.special import LOG_2PI

Array = np.ndarray


def stirling_series(x: Any) -> Any:
    """1/(12 x) - 1/(360 x^3) + 1/(1260 x^5) - 1/(1680 x^7) + 1/(1188 x^9) - 691/(360360 x^11)."""
    s = 1.0 / (x * x)
    return (
        1 / 12
        - s
        * (
            1 / 360
            - s * (1 / 1260 - s * (1 / 1680 - s * (1 / 1188 - s * (691 / 360360))))
        )
    ) / x


def digamma_rest(x: Any) -> Any:
    """1/(12 x^2) - 1/(120 x^4) + 1/(252 x^6) - 1/(240 x^8) + 1/(132 x^10) - 691/(32760 x^12)."""
    s = 1.0 / (x * x)
    return s * (
        1 / 12
        - s
        * (1 / 120 - s * (1 / 252 - s * (1 / 240 - s * (1 / 132 - s * (691 / 32760)))))
    )


def trigamma_rest(x: Any) -> Any:
    """1/(6 x^3) - 1/(30 x^5) + 1/(42 x^7) - 1/(30 x^9) + 5/(66 x^11) - 691/(2730 x^13)."""
    s = 1.0 / (x * x)
    return (
        s
        * (
            1 / 6
            - s
            * (1 / 30 - s * (1 / 42 - s * (1 / 30 - s * (5 / 66 - s * (691 / 2730)))))
        )
        / x
    )


def rising_product(a: Any) -> tuple[Any, Any]:
    """The product of (a + k) / (a + 10) and the sum of 1 / (a + k), over k < 10."""
    # by pairs, (a + k) (a + 9 - k) = a (a + 9) + k (9 - k), each divided by (a + 10)^2
    w = 1.0 / (a + 10.0)
    first = (a * w) * ((a + 9.0) * w)
    p = first
    q = 1.0
    for k in range(1, 5):
        u = first + k * (9 - k) * w * w
        q = q * u + p
        p = p * u
    return p, (a * w + (a + 9.0) * w) * w * q / p


def shifted_log_gamma(a: Any) -> tuple[Any, Any, Any]:
    """z = a + 10, log Gamma(a) + a - a log z and digamma(a) - log z."""
    z = a + 10.0
    p, ones = rising_product(a)
    value = 0.5 * LOG_2PI - 10.0 + stirling_series(z) - log(p * sqrt(z))
    return z, value, -0.5 / z - digamma_rest(z) - ones


def log_gamma_terms(a: Any) -> tuple[Any, Any]:
    """a log a - a - log Gamma(a) and log a - digamma(a)."""
    _, value, slope = shifted_log_gamma(a)
    over = log1p(10.0 / a)
    return -a * over - value, -over - slope


def rising_sums(y: Any, r: Any) -> tuple[Any, Any]:
    """The sums over j = 0, ..., y - 1 of log(1 + j/r) and r/(r + j): log Gamma(y + r) - log Gamma(r) - y log r and r (psi(y + r) - psi(r))."""
    x = r + 10.0
    z = x + y
    p, ones = rising_product(r)
    p_y, ones_y = rising_product(r + y)
    long = log1p(y / x)
    logs = (
        (r - 0.5) * long
        + y * log1p((y + 10.0) / r)
        - y
        + stirling_series(z)
        - stirling_series(x)
        + log(p / p_y)
    )
    rest = y / (2.0 * x * z) + digamma_rest(x) - digamma_rest(z)
    return logs, r * (long + rest + (ones - ones_y))


def rising_squares(y: Array, r: Any) -> Array:
    """The sum over j = 0, ..., y - 1 of (r/(r + j))^2, r^2 (psi'(r) - psi'(y + r)), in the same way."""
    x = r + 10.0
    z = x + y
    squares = r * (r / x) * (y / z) * (1.0 + 0.5 / x + 0.5 / z) + (r * r) * (
        trigamma_rest(x) - trigamma_rest(z)
    )
    for k in range(10):
        squares = squares + (r / (r + k)) ** 2 - (r / (r + (y + k))) ** 2
    return squares
