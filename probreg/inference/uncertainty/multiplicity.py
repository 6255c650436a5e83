"""p-values and intervals of several estimates, controlling the family-wise error rate.

The input is arrays: estimates with normal or Student-t errors and one covariance, known
up to one scale.
"""

from typing import Any, NamedTuple

import numpy as np
import scipy

from probreg.errors import DataError, Incompatible
from probreg.linalg import unit_diagonal

Array = np.ndarray
ADJUSTMENTS = ("bonferroni", "holm", "single-step", "tukey")
# points of a Sobol sequence: p-values near 0.05 are accurate to 2e-4
_SOBOL_POINTS = 2**16


NO_TESTS = (
    "adjust= is for tests, whose error rate increases with their number: a posterior has none. Its prior describes "
    "all of them together"
)


class AdjustedTests(NamedTuple):
    """Adjusted p-values (R,), the half-width of simultaneous intervals in standard
    errors (a number, or (R,)), a description of the adjustment, and the unadjusted
    p-values (R,)."""

    p: Array
    critical: float | Array
    words: str
    alone: Array


def check_adjust(adjust: Any) -> None:
    """Raise DataError for an unknown adjustment."""
    if adjust is not None and adjust not in ADJUSTMENTS:
        raise DataError(
            f"adjust= must be None or one of {', '.join(map(repr, ADJUSTMENTS))}, got {adjust!r}"
        )


def require_tests(tested: bool, se: Array) -> None:
    """Raise Incompatible if there are no tests to adjust: under an informative prior,
    or without standard errors (R,)."""
    if not tested:
        raise Incompatible(
            "adjust= is for tests, and the mode under a prior has no p-values: fit with flat priors"
        )
    if not (se > 0).all():
        raise Incompatible(
            "adjust= needs the standard error of every estimate, and some are missing"
        )


def adjust_tests(
    t: Array,
    covariance: Array,
    df: float | Array | None,
    *,
    prob: float,
    adjust: str,
    pairs_of: int | None = None,
) -> AdjustedTests:
    """Adjust R two-sided tests t_j = estimate_j / se_j.

    `pairs_of` is k if they are all k (k - 1) / 2 pairs of k means, once or in several
    groups.

    Bonferroni p_j = R p; Holm max_(i <= j) (R - i + 1) p_(i) in the order of p; single-step P(max_i |T_i| >= |t_j|) under the
    joint distribution (Hothorn, Bretz & Westfall 2008); Tukey P(range of k means >=
    sqrt(2) |t_j|), exact if all pairs have the same standard error and conservative for
    independent means with unequal variances (Tukey-Kramer; Hayter 1984); for pairs in
    several groups it is single-step. Each test uses its own degrees of freedom (R,);
    the joint distribution uses the smallest. Incompatible for Tukey if the contrasts are not
    all pairs.

    >>> found = adjust_tests(np.array([3.0, 1.0]), np.eye(2), 10.0, prob=0.95, adjust="holm")
    >>> found.p.round(4)
    array([0.0267, 0.3409])
    """
    # relative difference of standard errors that are equal up to rounding
    smallest = 1e-6
    law: Any = scipy.stats.norm if df is None else scipy.stats.t(df)
    size = np.abs(t)
    p_alone = 2.0 * law.sf(size)
    R = len(t)
    alpha = 1.0 - prob
    pairs = 0 if pairs_of is None else pairs_of * (pairs_of - 1) // 2
    critical = bonferroni = _plain(law.isf(alpha / (2 * R)))
    if adjust == "tukey" and not pairs:
        raise Incompatible(
            "adjust='tukey' needs all pairs of levels of one variable, and these are other contrasts: use "
            "adjust='single-step'"
        )
    if adjust == "bonferroni":
        p = np.minimum(R * p_alone, 1.0)
        words = f"Bonferroni over {R}"
    elif adjust == "holm":
        order = np.argsort(p_alone, kind="stable")
        steps = np.minimum((R - np.arange(R)) * p_alone[order], 1.0)
        # a stepwise test has no intervals: Bonferroni's intervals are valid
        p = np.maximum.accumulate(steps)[np.argsort(order)]
        words = f"Holm's p-values over {R}, Bonferroni's intervals"
    elif adjust == "tukey" and pairs == R:
        range_df = np.inf if df is None else df
        q = scipy.stats.studentized_range
        p = q.sf(np.sqrt(2.0) * size, pairs_of, range_df)
        critical = _plain(q.ppf(prob, pairs_of, range_df)) / np.sqrt(2.0)
        se = np.sqrt(np.diagonal(covariance))
        name = "Tukey-Kramer" if np.ptp(se) > smallest * se.max() else "Tukey"
        words = f"{name} over {pairs_of} means"
    else:
        smallest_df = None
        note = ""
        if df is not None:
            smallest_df = float(np.min(df))
            if np.ptp(df) > 0:
                note = f" at {smallest_df:.4g} degrees of freedom, the smallest"
        M = largest_of_family(covariance, smallest_df)
        # P(|T_j| >= t) <= P(max >= t) <= R P(|T_j| >= t): clip the integral over points to these bounds
        p = np.array([np.mean(s <= M) for s in size])
        p = np.clip(p, p_alone, np.minimum(R * p_alone, 1.0))
        critical = _plain(np.clip(np.quantile(M, prob), law.isf(alpha / 2), bonferroni))
        family = str(R)
        if adjust == "tukey":
            family += " pairs"
        words = f"single-step over {family}, the joint distribution by {_SOBOL_POINTS:,} points{note}"
    return AdjustedTests(p, critical, words, p_alone)


def _plain(x: Any) -> float | Array:
    """Return a number as a float, an array unchanged."""
    return float(x) if np.ndim(x) == 0 else np.asarray(x)


def largest_of_family(covariance: Array, df: float | None) -> Array:
    """Return max_j |T_j| at evenly spread points of the joint distribution, T = D^-1
    C^(1/2) z sqrt(df / chi^2) with D the standard errors.

    >>> bool(abs(np.quantile(largest_of_family(np.eye(1), None), 0.95) - 1.96) < 0.001)
    True
    """
    at_once = 2**23  # numbers in memory at once
    scaled, se = unit_diagonal(covariance)
    values, axes = np.linalg.eigh(scaled)
    # contrasts of few means are linearly dependent
    keep = values > 1e-10 * values.max()
    root = axes[:, keep] * np.sqrt(values[keep])
    u = scipy.stats.qmc.Sobol(
        root.shape[1] + (df is not None), rng=np.random.default_rng(0)
    ).random(_SOBOL_POINTS)
    z = scipy.stats.norm.ppf(np.clip(u[:, : root.shape[1]], 1e-16, 1.0 - 1e-16))
    if df is None:
        scale = 1.0
    else:
        scale = np.sqrt(df / scipy.stats.chi2.ppf(np.maximum(u[:, -1], 1e-16), df))
    rows = max(1, at_once // len(se))
    parts = [
        np.abs(z[i : i + rows] @ root.T).max(axis=1)
        for i in range(0, _SOBOL_POINTS, rows)
    ]
    return np.concatenate(parts) * scale
