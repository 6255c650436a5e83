"""Sums and products with twice the digits of double precision, and the refinement of least squares by them.

A number is a pair of doubles, high + low. The rounding errors of all additions and products of doubles here are doubles
themselves (error-free transformations), so that the digits are the same on every machine. Sources: Dekker 1971; Ogita,
Rump & Oishi 2005; Bjorck 1967 for the refinement.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probreg.linalg.blocks import row_blocks
from probreg.linalg.factors import solve_upper

Array = NDArray[np.float64]


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """s = fl(a + b) and e with s + e = a + b exactly (Knuth).

    >>> two_sum(np.float64(1.0), np.float64(2.0**-60))
    (np.float64(1.0), np.float64(8.673617379884035e-19))
    """
    # Knuth: e = (a - (s - t)) + (b - t) with t = s - a is exact for any sizes of a and b.
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array) -> tuple[Array, Array]:
    """p = fl(a b) and e with p + e = a b exactly, for factors of moderate size (Dekker and Veltkamp).

    >>> two_product(np.float64(1 + 2.0**-30), np.float64(1 + 2.0**-30))[1] == 2.0**-60
    np.True_
    """
    # Dekker: with a = a1 + a2 and b = b1 + b2 of half the digits, a1 b1, a1 b2, a2 b1 and a2 b2 are exact.
    p = a * b
    (a1, a2), (b1, b2) = _halves(a), _halves(b)
    return p, a2 * b2 - (((p - a1 * b1) - a2 * b1) - a1 * b2)


def _halves(a: Array) -> tuple[Array, Array]:
    # Veltkamp: with c = (2^27 + 1) a, c - (c - a) is a rounded to its upper 26 bits.
    split = 2.0**27 + 1
    c = split * a
    high = c - (c - a)
    return high, a - high


def add_up(high: Array, low: Array) -> tuple[Array, Array]:
    """The sum over the first axis of high + low, by halves."""
    while len(high) > 1:
        half = len(high) // 2
        s, e = two_sum(high[:half], high[half : 2 * half])
        s, e = two_sum(s, e + (low[:half] + low[half : 2 * half]))
        high = np.concatenate([s, high[2 * half :]])
        low = np.concatenate([e, low[2 * half :]])
    return high[0], low[0]


class ResidualProducts(NamedTuple):
    """X'W r (p,) and r'W r of the residuals r = y - X b, each computed in doubled precision and rounded once."""

    slope: Array
    square: float


def residual_sums(
    X: Array, y: Array, w: Array | None, b: tuple[Array, Array]
) -> ResidualProducts:
    """The sums at b = high + low over rows X (n, p), y (n,), of moderate size, with weights w (n,).

    >>> residual_sums(np.array([[1.0], [1.0]]), np.array([1.0, 1.0 + 2.0**-52]), None, (np.ones(1), np.zeros(1))).square
    4.930380657631324e-32
    """
    parts = [
        _of_block(X[rows], y[rows], None if w is None else w[rows], b)
        for rows in row_blocks(*X.shape)
    ]
    total, low_part = add_up(*(np.array(side) for side in zip(*parts)))
    return ResidualProducts((total + low_part)[:-1], float((total + low_part)[-1]))


def _of_block(
    X: Array, y: Array, w: Array | None, b: tuple[Array, Array]
) -> tuple[Array, Array]:
    r = y
    low = np.zeros_like(y)
    for x, high, low_part in zip(X.T, *b):  # r -= x b
        p, e = two_product(x, high)
        r, t = two_sum(r, -p)
        low = low + (t - (e + x * low_part))
    r, low = two_sum(r, low)
    v, v_low = r, low
    if w is not None:
        v, e = two_product(w, r)
        v_low = e + w * low
    A = np.column_stack([X, r])
    A_low = np.column_stack([np.zeros_like(X), low])
    p, e = two_product(A, v[:, None])
    return add_up(p, e + A * v_low[:, None] + A_low * v[:, None])


def doubled_product(X: Array, high: Array, low: Array) -> Array:
    """X (high + low) for X (n, q) and matrices (q, k), computed in doubled precision and rounded once.

    >>> doubled_product(np.array([[1.0, 1.0]]), np.array([[1.0], [-1.0]]), np.array([[2.0**-60], [0.0]])) == 2.0**-60
    array([[ True]])
    """
    total = np.zeros((len(X), high.shape[1]))
    rest = np.zeros_like(total)
    for x, a, b in zip(X.T[:, :, None], high, low):
        p, e = two_product(x, a)
        total, f = two_sum(total, p)
        rest += e + f + x * b
    return total + rest


def refine(
    sums: Callable[[tuple[Array, Array]], ResidualProducts],
    R: Array,
    b: Array,
    c: Array | float = 0.0,
) -> tuple[Array, float] | None:
    """The solution of X'W(y - X b) + c = 0, that is least squares for c = 0, and r'W r, from b and sums(high, low).

    Corrections d solve R'R d = X'W r + c with R'R = X'WX and residuals r in doubled precision. Each correction divides the error by
    about 1 / (eps cond(R)), down to the last digit of each coefficient if R has any right digit. None if they do not shrink.
    """
    passes = 8
    last_digit = 2.0**-56  # of a coefficient: smaller corrections do not change it
    floor = 2.0**-96  # of ||R b||^2: corrections that are rounding
    high = b
    low = np.zeros_like(b)
    last = np.inf
    for _ in range(passes):
        solution = sums((high, low))
        # R'R d = X'W r + c in two triangular solves; |R d| = |half| measures the correction in the norm of the fit.
        half = solve_upper(R, solution.slope + c, transpose=True)
        d = np.asarray(solve_upper(R, half), dtype=float)
        size = float(half @ half)
        # the corrections are as small as possible, or do not help
        if last < np.inf and not size <= last / 4:
            fitted = np.asarray(R @ high, dtype=float)
            if last <= floor * float(fitted @ fitted):
                return (high, solution.square)
            return None
        high, e = two_sum(high, d)
        high, low = two_sum(high, low + e)
        if np.all(np.abs(d) <= last_digit * np.abs(high)) or size == 0.0:
            break
        last = size
    # |W^(1/2)(r - X d)|^2 = r'W r - |R d|^2 at the solution of least squares.
    return high, max(solution.square - size, 0.0)
