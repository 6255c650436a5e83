"""The two ends of an interval from a scale, from draws or from replicates of an estimate, on plain arrays."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.arguments.scalars import check_prob
from probreg.errors import Incompatible
from probreg.special import ndtr, ndtri, stdtr, stdtrit

Array = np.ndarray
FEW_NUMBERS = 2**15  # numbers that NumPy sorts before compiled code is loaded


def quantile(prob: float, df: Array | float | None) -> Any:
    """Return the half-width of a central interval in standard units: Student-t on df
    degrees of freedom, normal without.

    >>> round(quantile(0.95, None), 6), round(quantile(0.95, 10), 6)
    (1.959964, 2.228139)
    """
    tail = (
        1.0 - check_prob(prob)
    ) / 2  # of the lower tail, because 1 - tail rounds to 1 near prob = 1
    if isinstance(df, np.ndarray):
        return -stdtrit(df, tail)
    return -float(ndtri(tail) if df is None else stdtrit(df, tail))


def student_cdf(t: Array, df: Array | float | None) -> Array:
    """Return P(T <= t), T Student-t on df degrees of freedom, or normal.

    >>> student_cdf(np.zeros(1), 3.0).tolist()
    [0.5]
    """
    return np.asarray(ndtr(t) if df is None else stdtr(df, t))


def two_sided(t: Array, df: Array | float | None) -> Array:
    """Return p = 2 P(T > |t|), T Student-t on df degrees of freedom, or normal.

    >>> two_sided(np.array([1.959963984540054]), None).round(6).tolist()
    [0.05]
    """
    return 2.0 * student_cdf(-np.abs(t), df)


def equal_tail(draws: Array, prob: float) -> tuple[Array, Array]:
    """The (1 - prob)/2 and (1 + prob)/2 quantiles over the first axis.

    >>> equal_tail(np.arange(5.0), 0.5)
    (np.float64(1.0), np.float64(3.0))
    """
    tail = (1 - check_prob(prob)) / 2
    return quantile_pair(draws, tail, 1 - tail)


def sample_covariance(draws: Array) -> Array:
    """Return the covariance (k, k) of draws (S, k); nan for one draw."""
    if len(draws) < 2:
        return np.full((draws.shape[1],) * 2, np.nan)
    return np.atleast_2d(np.cov(draws.T))


def quantile_pair(draws: Array, low: float, high: float) -> tuple[Array, Array]:
    """Return two quantiles over the first axis with linear interpolation, as NumPy's;
    compiled code for many numbers.

    >>> quantile_pair(np.arange(5.0), 0.25, 0.5)
    (np.float64(1.0), np.float64(2.0))
    """
    if draws.size < FEW_NUMBERS or len(draws) < 2:
        lower, upper = np.quantile(draws, [low, high], axis=0)
        return lower, upper
    from probreg.compiled.quantiles import quantiles_of_rows

    S = len(draws)
    shape = draws.shape[1:]
    rows = np.ascontiguousarray(np.moveaxis(draws, 0, -1), dtype=float).reshape(-1, S)
    place = (S - 1) * np.array([low, high])
    quantiles = np.empty((2, len(rows)))
    quantiles_of_rows(rows, place, ndtri((place + 1.0) / (S + 1.0)), quantiles.T)
    return quantiles[0].reshape(shape), quantiles[1].reshape(shape)


def mean_and_sd(draws: Array) -> tuple[Array, Array]:
    """Return mean and standard deviation over the first axis, with divisor S - 1 and
    nan for one draw.

    >>> [v.round(6).tolist() for v in mean_and_sd(np.array([[1.0], [2.0], [6.0]]))]
    [[3.0], [2.645751]]
    """
    mean = draws.mean(0)
    if len(draws) < 2:
        return mean, np.full_like(mean, np.nan)
    with np.errstate(invalid="ignore"):  # infinite draws have no standard deviation
        return mean, draws.std(0, ddof=1)


def highest_density(draws: Array, prob: float) -> tuple[Array, Array]:
    """Return the shortest interval with a share `prob` of the draws, over the first
    axis (unimodal densities).

    >>> highest_density(np.array([0.0, 1.0, 1.1, 1.2, 9.0]), 0.6)
    (np.float64(1.0), np.float64(1.2))
    """
    s = np.sort(draws, axis=0)
    inside = int(np.ceil(check_prob(prob) * len(s))) - 1
    width = s[inside:] - s[: len(s) - inside]
    first = np.argmin(width, axis=0)[None]
    return np.take_along_axis(s, first, 0)[0], np.take_along_axis(s, first + inside, 0)[
        0
    ]


def positive_interval(value: float, sd: float, prob: float) -> tuple[float, float]:
    """Wald interval on the log scale for a positive parameter: value exp(-+ z sd / value)."""
    reach = quantile(prob, None) * sd / value
    return value * float(np.exp(-reach)), value * float(np.exp(reach))


# ---- replicates --------------------------------------------------------------------------------------------------------


def order_quantile(values: Array, share: float) -> float:
    """Return the (R + 1) share-th smallest of R values, with interpolation; the smallest or
    largest value if R is too small.

    Nan values are omitted; infinite ones count. nan if there are none.

    >>> order_quantile(np.arange(1.0, 1000.0), 0.025), order_quantile(np.array([1.0, 2.0, np.inf]), 0.9)
    (25.0, inf)
    """
    s = np.sort(values[~np.isnan(values)])
    if not len(s):
        return np.nan
    place = min(max((len(s) + 1) * share, 1.0), float(len(s)))
    if abs(place - round(place)) < 1e-9:
        place = round(place)
    low = int(place)
    part = place % 1
    value = s[low - 1]
    if part and value != s[low]:
        value = value * (1 - part) + s[low] * part
    return float(value)


def percentile(replicates: Array, prob: float) -> tuple[float, float]:
    """Return the (1 -+ prob)/2 quantiles of the replicates (R,) of an estimate (Efron 1979)."""
    tail = (1 - check_prob(prob)) / 2
    return order_quantile(replicates, tail), order_quantile(replicates, 1 - tail)


def bca(
    replicates: Array, estimate: float, acceleration: float, prob: float
) -> tuple[float, float]:
    """Return percentiles corrected for median bias z0 and acceleration a (Efron 1987).

    They are Phi(z0 + (z0 + z) / (1 - a (z0 + z))), z = Phi^-1((1 -+ prob)/2), and
    `percentile` without bias and acceleration.

    >>> bca(np.arange(1.0, 1000.0), 500.0, 0.0, 0.95)
    (25.0, 975.0)
    """
    finite = replicates[~np.isnan(replicates)]
    below = (np.sum(finite < estimate) + 0.5 * np.sum(finite == estimate)) / max(
        len(finite), 1
    )
    if not 0 < below < 1:
        return np.nan, np.nan
    z0 = float(ndtri(below))
    z = quantile(prob, None)
    ends = []
    for z_shifted in (z0 - z, z0 + z):
        denominator = 1.0 - acceleration * z_shifted
        if denominator > 0:
            share = ndtr(z0 + z_shifted / denominator)
        else:
            share = float(z_shifted > 0)
        ends.append(order_quantile(replicates, float(share)))
    return ends[0], ends[1]


def ends_of_replicates(
    kind: str, values: Array, estimate: float, prob: float, acceleration: Array | None
) -> tuple[float, float]:
    """Return ends of one kind from replicates (R,) of an estimate.

    Incompatible if bca has no acceleration.
    """
    if kind != "bca":
        return percentile(values, prob)
    if acceleration is None:
        raise Incompatible(
            "a bca interval needs a model with two derivatives of the log posterior: use 'percentile'"
        )
    return bca(values, estimate, float(acceleration), prob)


def of_replicates(
    replicates: Mapping[str, Array], kind: str, estimate: Array, prob: float
) -> tuple[Array, Array]:
    """Return ends of one kind for each coefficient (p, D)."""
    ends = np.empty((2, *estimate.shape))
    accelerations = replicates.get("acceleration")
    for entry in np.ndindex(estimate.shape):
        every = (slice(None), *entry)
        ends[every] = ends_of_replicates(
            kind,
            replicates["coef"][every],
            float(estimate[entry]),
            prob,
            None if accelerations is None else accelerations[entry],
        )
    return ends[0], ends[1]


def of_positive_replicates(
    replicates: Mapping[str, Array], kind: str, name: str, estimate: float, prob: float
) -> tuple[float, float]:
    """Return ends of one kind for a positive parameter, computed on its log scale."""
    with np.errstate(divide="ignore"):
        ends = ends_of_replicates(
            kind,
            np.log(replicates[name]),
            float(np.log(estimate)),
            prob,
            replicates.get(f"{name}_acceleration"),
        )
    return float(np.exp(ends[0])), float(np.exp(ends[1]))
