"""From a scale or from draws to two ends. Arrays in, arrays out."""

import numpy as np
from scipy.special import gammainccinv, ndtri, stdtrit

from probreg.arguments.scalars import check_prob

Array = np.ndarray


def quantile(prob: float, df: float | None) -> float:
    """The half-width of a central interval in standard units: Student-t on df degrees of freedom, normal without.

    >>> round(quantile(0.95, None), 6), round(quantile(0.95, 10), 6)
    (1.959964, 2.228139)
    """
    upper = 0.5 + check_prob(prob) / 2
    return float(ndtri(upper) if df is None else stdtrit(df, upper))


def equal_tail(draws: Array, prob: float) -> tuple[Array, Array]:
    """The (1 - prob)/2 and (1 + prob)/2 quantiles over the first axis."""
    tail = (1 - check_prob(prob)) / 2
    lower, upper = np.quantile(draws, [tail, 1 - tail], axis=0)
    return lower, upper


def highest_density(draws: Array, prob: float) -> tuple[Array, Array]:
    """The shortest interval that holds a share `prob` of the draws, over the first axis (unimodal densities).

    >>> highest_density(np.array([0.0, 1.0, 1.1, 1.2, 9.0]), 0.6)
    (np.float64(1.0), np.float64(1.2))
    """
    s = np.sort(draws, axis=0)
    inside = int(np.ceil(check_prob(prob) * len(s))) - 1
    width = s[inside:] - s[: len(s) - inside]
    first = np.argmin(width, axis=0)[None]
    return np.take_along_axis(s, first, 0)[0], np.take_along_axis(s, first + inside, 0)[0]


def sigma_from_rss(rss: float, df: float, prob: float) -> tuple[float, float]:
    """Classical interval of a noise scale from RSS / sigma^2 ~ chi^2(df).

    >>> [round(v, 4) for v in sigma_from_rss(10.0, 10.0, 0.95)]
    [0.6987, 1.7549]
    """
    tail = (1 - check_prob(prob)) / 2
    return tuple(float(np.sqrt(rss / (2 * gammainccinv(df / 2, t)))) for t in (tail, 1 - tail))  # type: ignore[return-value]


def positive_interval(value: float, sd: float, prob: float) -> tuple[float, float]:
    """Wald interval on the log scale for a positive parameter: value exp(-+ z sd / value)."""
    reach = quantile(prob, None) * sd / value
    return value * float(np.exp(-reach)), value * float(np.exp(reach))
