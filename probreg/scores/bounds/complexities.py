"""Empirical Rademacher complexities by random signs, each with the upper limit that its draws allow."""

from collections.abc import Callable

import numpy as np

from probreg.arguments.scalars import Count, Fraction, Positive, Seed, check_arguments
from probreg.arguments.types import ArrayLike
from probreg.errors import DataError
from probreg.scores.assumptions import Assumption
from probreg.scores.bounds.result import Array, Bound
from probreg.scores.reading import finite_numbers


@check_arguments
def kernel_complexity(
    K: ArrayLike,
    *,
    norm: Positive = 1.0,
    draws: Count = 10_000,
    seed: Seed = 0,
    delta: Fraction = 0.01,
) -> Bound:
    """The empirical Rademacher complexity of a kernel ball, (Lam / m) E sqrt(s'Ks), by random signs s, and its upper limit.

    ||sum_i s_i k(x_i, .)|| changes by at most 2 sqrt(k(x_i, x_i)) with one sign, so that the mean of N draws is below its
    expectation by at most Lam sqrt(2 tr K log(1 / delta) / N) / m with probability 1 - delta over the draws.

    Parameters
    ----------
    K : array (m, m)
        k(x_i, x_j), symmetric; XX' for ||w||_2 <= Lam.
    norm : float
        Lam.
    draws : int
        N.
    seed : int
        Seed of the signs.
    delta : float
        The probability with which the limit may fail; it adds to the probability of the bound on the risk.

    Returns
    -------
    Bound
        `empirical` is the mean of the draws, `value` its upper limit; vacuous where that is not below the closed form.

    Raises
    ------
    DataError
        For a matrix that is not square or not symmetric, or gives a negative square.

    References
    ----------
    Bartlett & Mendelson 2002; McDiarmid 1989.

    Examples
    --------
    >>> found = kernel_complexity(np.eye(4), norm=2.0)
    >>> found.empirical, found.most  # of orthogonal rows every draw has the norm of the closed form
    (1.0, 1.0)
    """
    A = finite_numbers(K, "K")
    if A.ndim != 2 or A.shape[0] != A.shape[1] or not len(A):
        raise DataError(f"K is a square matrix of k(x_i, x_j), got shape {A.shape}")
    i, j = np.unravel_index(np.abs(A - A.T).argmax(), A.shape)
    if abs(A[i, j] - A[j, i]) > 1e-9 * np.abs(A).max():
        raise DataError(
            f"K is symmetric, and it holds {A[i, j]:.6g} in row {i}, column {j} and {A[j, i]:.6g} across"
        )
    trace = float(np.trace(A))

    def size(s: Array) -> Array:
        squares = np.einsum("ij,ij->i", s @ A, s)
        low = float(squares.min())
        if low < -1e-9 * trace * len(A):
            raise DataError(
                f"K is no matrix of a kernel: s'Ks is {low:.3g} for some signs s, and is not negative"
            )
        return np.sqrt(np.maximum(squares, 0.0))

    return _simulate_complexity(
        "kernel ball",
        size,
        len(A),
        norm,
        trace,
        norm * np.sqrt(trace) / len(A),
        (draws, seed, delta),
    )


@check_arguments
def l1_complexity(
    X: ArrayLike,
    *,
    norm: Positive = 1.0,
    draws: Count = 10_000,
    seed: Seed = 0,
    delta: Fraction = 0.01,
) -> Bound:
    """The empirical Rademacher complexity of ||w||_1 <= Lam, (Lam / m) E max_j |sum_i s_i x_ij|, and its upper limit.

    One sign changes the maximum by at most 2 max_j |x_ij|: the limit adds Lam sqrt(2 sum_i max_j x_ij^2 log(1 / delta) / N) / m.

    Parameters
    ----------
    X : array (m, d)
        The rows.
    norm : float
        Lam.
    draws : int
        N.
    seed : int
        Seed of the signs.
    delta : float
        The probability with which the limit may fail; it adds to the probability of the bound on the risk.

    Returns
    -------
    Bound
        `empirical` is the mean of the draws, `value` its upper limit; vacuous where that is not below the closed form.

    Raises
    ------
    DataError
        For an input that is not a table of numbers.

    References
    ----------
    Kakade, Sridharan & Tewari 2008; McDiarmid 1989.

    Examples
    --------
    >>> l1_complexity([[1.0], [0.0]]).empirical
    0.5
    """
    rows = finite_numbers(X, "X")
    if rows.ndim != 2 or not rows.size:
        raise DataError(f"X is a table of rows and columns, got shape {rows.shape}")
    m, d = rows.shape
    closed = norm * float(np.sqrt(np.square(rows).sum(0).max() * 2 * np.log(2 * d))) / m
    proxy = float(np.square(np.abs(rows).max(1)).sum())
    return _simulate_complexity(
        "l1 ball",
        lambda s: np.abs(s @ rows).max(1),
        m,
        norm,
        proxy,
        closed,
        (draws, seed, delta),
    )


def _simulate_complexity(
    ball: str, size: Callable[[Array], Array], m: int, norm: float, proxy: float, closed: float,
    how: tuple[int, int, float],
) -> Bound:  # fmt: skip
    """Return the mean of `size` over random signs, in units of m / Lam, with its limit; `proxy` is sum_i (change by sign i / 2)^2."""
    most_numbers = 4_000_000  # signs held at once
    draws, seed, delta = how
    rng = np.random.default_rng(seed)
    total = 0.0
    remaining = draws
    while remaining:
        batch = min(remaining, max(1, most_numbers // m))
        total += float(size(2.0 * rng.integers(0, 2, (batch, m)) - 1.0).sum())
        remaining -= batch
    # P(E - mean >= t) <= exp(-N t^2 / (2 proxy)) for bounded differences (McDiarmid).
    mean = norm * total / draws / m
    above = norm * float(np.sqrt(2 * proxy * np.log(1 / delta) / draws)) / m
    assumptions = (
        Assumption(f"{draws} draws of signs are independent of the rows", None, True),
    )
    title = f"{ball}, simulated"
    value = mean + above
    closed = float(closed)
    return Bound(
        value,
        mean,
        0.0,
        above,
        assumptions,
        "McDiarmid 1989",
        value >= closed,
        title,
        delta,
        closed,
        "complexity",
    )
