"""Bounds for every member of a class at once, also for a member that was chosen on the same rows; empirical Rademacher complexities."""

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from probreg.arguments.scalars import (
    ArrayLike,
    Count,
    Flag,
    Fraction,
    NonNegative,
    Positive,
    Seed,
    check_arguments,
)
from probreg.errors import DataError
from probreg.scores.assumptions import Assumption
from probreg.scores.bounds.result import Array, Bound, bound_of, spread_of_mean
from probreg.scores.reading import finite_numbers

Of = Literal["predictions", "loss"]
Form = Literal["tight", "textbook"]


@check_arguments
def finite(
    *,
    risk: NonNegative,
    n: Count,
    classes: Count,
    delta: Fraction = 0.05,
    most: Positive = 1.0,
    two_sided: Flag = False,
) -> Bound:
    """A finite class: R <= R^ + M sqrt(log(|H| / delta) / 2m) for each of its |H| members.

    Parameters
    ----------
    risk : float
        R^, the mean loss on the rows.
    n : int
        m, the number of rows.
    classes : int
        |H|, the number of predictors that were compared.
    delta : float
        The largest probability that the bound fails.
    most : float
        M, the largest possible loss.
    two_sided : bool
        Whether |R - R^| is bounded, which takes 2 |H| in place of |H|.

    Returns
    -------
    Bound
        The bound; its complexity is the cost of |H| predictors relative to one.

    Raises
    ------
    DataError
        For a risk above the largest loss.

    References
    ----------
    Hoeffding 1963.

    Examples
    --------
    >>> round(finite(risk=0.0, n=1000, classes=100, delta=0.05).value, 12)
    0.061647799878
    """
    alone = most * spread_of_mean(n, delta)
    # P(some member misses by t) <= |H| exp(-2 m t^2 / M^2), twice that for misses on both sides.
    loss_bound = most * spread_of_mean(n, delta / (classes * (1 + two_sided)))
    return bound_of(
        "finite class",
        "Hoeffding 1963",
        risk=risk,
        complexity=loss_bound - alone,
        deviation=alone,
        most=most,
        delta=delta,
    )


@check_arguments
def rademacher(
    *,
    risk: NonNegative,
    n: Count,
    complexity: NonNegative,
    delta: Fraction = 0.05,
    most: Positive = 1.0,
    lipschitz: Positive = 1.0,
    empirical: Flag = True,
) -> Bound:
    """Rademacher complexity: R <= R^ + 2 mu Rad + M sqrt(log(1 / delta) / 2m), 3 M and log(2 / delta) if Rad is computed from the rows.

    Parameters
    ----------
    risk : float
        R^, the mean loss on the rows.
    n : int
        m, the number of rows.
    complexity : float
        Rad of the class of predictors: E sup_h (1/m) sum_i s_i h(x_i), signs s_i at random.
    delta : float
        The largest probability that the bound fails.
    most : float
        M, the largest possible loss.
    lipschitz : float
        mu, the largest change of the loss per unit of the prediction: 2 M for the squared loss if |h - y| <= M.
    empirical : bool
        Whether Rad is given these rows, and not its mean over rows.

    Returns
    -------
    Bound
        For every member of the class at once.

    Raises
    ------
    DataError
        For a risk above the largest loss.

    References
    ----------
    Bartlett & Mendelson 2002.

    Examples
    --------
    >>> round(rademacher(risk=0.2, n=1000, complexity=0.01).value, 4)
    0.3488
    """
    # With Rad of the rows there are two deviations, each with delta / 2: M for the risk, 2 M for Rad (McDiarmid).
    if empirical:
        deviation = 3 * most * spread_of_mean(n, delta / 2)
    else:
        deviation = most * spread_of_mean(n, delta)
    return bound_of(
        "Rademacher complexity", "Bartlett & Mendelson 2002", risk=risk, complexity=2 * lipschitz * complexity,
        deviation=deviation, most=most, delta=delta,
    )  # fmt: skip


@check_arguments
def pseudo_dimension(
    *,
    risk: NonNegative,
    n: Count,
    dimension: Count,
    delta: Fraction = 0.05,
    most: Positive = 1.0,
    of: Of = "predictions",
    form: Form = "tight",
) -> Bound:
    """Pseudo-dimension d of predictions: R <= R^ + M sqrt(2 d log(2em / d) / m) + M sqrt(log(1 / delta) / 2m).

    The loss grows with |h - y|. In its level sets h is above y + s or below y - s, which are two thresholds for each row: the
    class divides the rows in at most (2em/d)^d ways. The textbook counts each threshold separately, (em/d)^(2d), and has
    M sqrt(4 d log(em/d) / m). With d of the class of losses itself it is M sqrt(2 d log(em/d) / m).

    Parameters
    ----------
    risk : float
        R^, the mean loss on the rows.
    n : int
        m, the number of rows, at least d.
    dimension : int
        d: the number of columns of a linear model, the intercept counted.
    delta : float
        The largest probability that the bound fails.
    most : float
        M, the largest possible loss.
    of : {"predictions", "loss"}
        Whether d is the dimension of the predictions or of their losses. These differ: constants have 1 and 2.
    form : {"tight", "textbook"}
        The form of the bound for d of the predictions; for d of the losses there is one.

    Returns
    -------
    Bound
        For every member of the class at once.

    Raises
    ------
    DataError
        For fewer rows than d.

    References
    ----------
    Pollard 1984; Mohri, Rostamizadeh & Talwalkar 2018, theorem 11.8.

    Examples
    --------
    >>> round(pseudo_dimension(risk=0.0, n=10_000, dimension=11, form="textbook").value, 12)
    0.197643044881
    """
    if n < dimension:
        raise DataError(
            f"a pseudo-dimension of {dimension} needs as many rows, got n = {n}"
        )
    d = dimension
    # log of the number of ways that level sets divide m rows, by Sauer's lemma
    if of == "loss":
        ways = d * np.log(math.e * n / d)
    elif form == "tight":
        ways = d * np.log(2 * math.e * n / d)
    else:
        ways = 2 * d * np.log(math.e * n / d)
    # R - R^ <= M sup_t [P(L > t) - P^(L > t)] <= M ((2 log ways / m)^(1/2) + (log(1/delta) / 2m)^(1/2))
    return bound_of(
        f"pseudo-dimension {d}" + " of the losses" * (of == "loss"), "Pollard 1984; Mohri, Rostamizadeh & Talwalkar 2018",
        risk=risk, complexity=most * math.sqrt(2 * ways / n), deviation=most * spread_of_mean(n, delta),
        most=most, delta=delta,
    )  # fmt: skip


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
        The largest probability that the limit fails; it adds to the delta of the bound on the risk.

    Returns
    -------
    Bound
        `empirical` is the mean of the draws, `value` its upper limit; vacuous if this is not below the closed form.

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
    trace = np.trace(A)

    def size(s: Array) -> Array:
        squares = np.einsum("ij,ij->i", s @ A, s)
        low = squares.min()
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
        The largest probability that the limit fails; it adds to the delta of the bound on the risk.

    Returns
    -------
    Bound
        `empirical` is the mean of the draws, `value` its upper limit; vacuous if this is not below the closed form.

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
    closed = norm * math.sqrt(np.square(rows).sum(0).max() * 2 * np.log(2 * d)) / m
    proxy = np.square(np.abs(rows).max(1)).sum()
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
    most_numbers = 4_000_000  # signs in memory at once
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
    above = norm * math.sqrt(2 * proxy * np.log(1 / delta) / draws) / m
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
