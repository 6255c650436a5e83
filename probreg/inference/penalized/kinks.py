"""Regression with a piecewise linear convex loss and a normal prior: the problem, its
dual and its certificate.

minimise over b   sum_i l_i(r_i) + (b - c)'P(b - c)/2,   r = y - X b,
    l_i(r) = up_i max(r - eps_i, 0) + down_i max(-r - eps_i, 0).

Quantile regression is eps = 0, up = q, down = 1 - q, P = 0; support vector regression is up = down = C and P = I with a zero
for the offset. The conjugate of l_i is eps_i |a| on [-down_i, up_i], so the dual is

maximise over a   a'(y - X c) - eps'|a| - (b - c)'P(b - c)/2,   X'a = P(b - c),  -down <= a <= up.

With X'a = P(b - c) the difference of the two is a sum of nonnegative terms (Fenchel and
Young), zero at the solution:

gap = sum_i l_i(r_i) + eps_i |a_i| - a_i r_i.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from probreg.linalg import sum_over_blocks

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

EPS = float(np.finfo(float).eps)
# A sum below this, relative to its terms, counts as rounding. So does the distance of a dual weight from the end of its box.
ROUNDING_OF_SUMS = 64 * EPS


class PiecewiseLinear(NamedTuple):
    """The loss up max(r - epsilon, 0) + down max(-r - epsilon, 0), with slopes >= 0 and
    epsilon >= 0 for each row."""

    up: Array
    down: Array
    epsilon: Array

    def value(self, r: Array) -> Array:
        """The loss of each residual, (n,).

        >>> PiecewiseLinear(np.array([0.9]), np.array([0.1]), np.array([0.0])).value(np.array([-2.0]))
        array([0.2])
        """
        # One of the two hinges is zero because epsilon >= 0.
        excess = np.maximum(np.abs(r) - self.epsilon, 0.0)
        return np.where(r > 0, self.up, self.down) * excess

    def from_kink(self, r: Array) -> Array:
        """The distance of each residual from the nearest kink."""
        return np.minimum(np.abs(r - self.epsilon), np.abs(r + self.epsilon))

    def slopes(self, r: Array) -> Array:
        """The slope of the loss at each residual; 0 within the tube."""
        below = np.where(r < -self.epsilon, -self.down, 0.0)
        return np.where(r > self.epsilon, self.up, below)

    def gaps(self, r: Array, a: Array) -> Array:
        """l_i(r_i) + eps_i |a_i| - a_i r_i (n,), zero if a_i is a slope of the loss at
        r_i and positive otherwise."""
        # For a > 0, up (r - eps)+ - a (r - eps) = (up - a)(r - eps)+ + a (r - eps)-
        # avoids a difference of large numbers.
        above = r - self.epsilon
        below = -r - self.epsilon
        forward = np.maximum(self.up - np.maximum(a, 0), 0) * np.maximum(
            above, 0
        ) + np.maximum(a, 0) * np.maximum(-above, 0)
        backward = np.maximum(self.down - np.maximum(-a, 0), 0) * np.maximum(
            below, 0
        ) + np.maximum(-a, 0) * np.maximum(-below, 0)
        # With eps = 0 both kinks are the same.
        return forward + backward

    def ends(self, a: Array) -> tuple[Array, Array]:
        """The residuals (lowest, highest) where a_i is a slope of the loss; a row
        there adds nothing to the gap."""
        tolerance = ROUNDING_OF_SUMS * (self.up + self.down)
        full = a >= self.up - tolerance
        empty = a <= tolerance - self.down
        zero = np.abs(a) <= tolerance
        kink = np.where(a > 0, self.epsilon, -self.epsilon)
        # a = up: r >= eps; a = -down: r <= -eps; a = 0: the tube; in between: the kink of the sign of a.
        high = np.where(full, np.inf, np.where(zero & ~full, self.epsilon, kink))
        low = np.where(empty, -np.inf, np.where(zero & ~empty, -self.epsilon, kink))
        return low, high


@dataclass(frozen=True, eq=False)
class PiecewiseLinearSolution:
    """The minimum with its certificate: `primal` >= optimum >= `dual_value`, up to the
    `violation` of stationarity.

    beta (p,); dual (n,), the slope a_i of the loss at the residual of each row, with X'a =
    P(beta - c); gap = primal - dual_value as a sum of nonnegative terms. violation is the
    largest of three relative errors: |X'a - P(beta - c)|_j in units of its terms; the
    distance of a_i from its box in units of up + down; and the smaller of |a_i - slope of
    the loss at r_i| in the same units and the distance of r_i from its nearest kink in
    units of the terms of r_i. unique: whether beta is the only solution.
    offset_interval: the interval of a coefficient if the solutions differ only in it;
    beta is its midpoint unless a side is infinite.
    """

    beta: Array
    dual: Array
    primal: float
    gap: float
    violation: float
    steps: int
    polished: bool
    converged: bool
    unique: bool = True
    offset_interval: tuple[float, float] | None = None

    @property
    def dual_value(self) -> float:
        return self.primal - self.gap

    def scaled(self, factor: float) -> "PiecewiseLinearSolution":
        """Return the solution for this multiple of the loss and the precision."""
        return replace(
            self,
            dual=self.dual * factor,
            primal=self.primal * factor,
            gap=self.gap * factor,
        )


class Certificate(NamedTuple):
    """The distance of (b, a) from optimality, see `PiecewiseLinearSolution`, and a
    rounding error of each term of its sums."""

    primal: float
    gap: float
    violation: float
    rounding: float


@dataclass(frozen=True, eq=False)
class KinkProblem:
    """Rows X (n, p), y (n,), their losses, and the normal prior of precision P (p, p) about c (p,).

    pull (p,) is the slope of a term -pull'b: rows fixed on one side of their kinks. K
    (n, n) is X_p P_p^-1 X_p' of the columns that are not flat, if it is known."""

    X: Array
    y: Array
    loss: PiecewiseLinear
    P: Array
    centre: Array
    pull: Array
    K: Array | None = None

    @cached_property
    def diagonal(self) -> Array | None:
        """The diagonal of P, or None if P is not diagonal."""
        d = np.diagonal(self.P)
        if np.count_nonzero(self.P) == np.count_nonzero(d):
            return d
        return None

    @cached_property
    def flat(self) -> Mask:
        """Columns with rows of zeros in P."""
        return self.diagonal == 0 if self.diagonal is not None else ~self.P.any(axis=1)

    @cached_property
    def weighted(self) -> Mask:
        """Rows with a loss."""
        return self.loss.up + self.loss.down > 0

    @cached_property
    def size(self) -> float:
        """max |y| + max epsilon, or 1 where both are zero: the unit of residuals."""
        return (
            float(np.abs(self.y).max(initial=0.0) + self.loss.epsilon.max(initial=0.0))
            or 1.0
        )

    def units(self, b: Array) -> Array:
        """|y_i| + sum_j |x_ij b_j| + eps_i (n,), plus their median: the size of the
        terms in residuals and kinks."""
        sizes = np.abs(self.y) + self.loss.epsilon
        absolute = np.abs(b)

        def add(rows: slice, block: Array) -> tuple[Array, ...]:
            sizes[rows] += np.dot(np.abs(block), absolute)
            return (np.zeros(0),)

        sum_over_blocks(self.X, add)
        size = self.size
        if self.y.any() or self.loss.epsilon.any():
            size = EPS * size
        return sizes + np.median(sizes) + size

    @cached_property
    def reach(self) -> Array:
        """Two rows (2, p): sum_i |x_ij| max(up, down)_i, an upper bound of |X'a|, and
        the means of |x_ij| over rows."""
        w = np.stack(
            [
                np.maximum(self.loss.up, self.loss.down),
                np.full(len(self.y), 1 / len(self.y)),
            ]
        )
        return sum_over_blocks(
            self.X, lambda rows, block: (w[:, rows] @ np.abs(block),)
        )[0]

    def force(self, b: Array) -> Array:
        """P(b - c), the slope of the prior."""
        d = b - self.centre
        return self.P @ d if self.diagonal is None else self.diagonal * d

    def slack(self, b: Array, a: Array) -> Array:
        """X'a + pull - P(b - c) (p,), zero at the solution."""
        return a @ self.X + self.pull - self.force(b)

    def certify(self, b: Array, a: Array) -> Certificate:
        """Return primal value, gap and largest violation, computed from the data
        alone."""
        r = self.y - self.X @ b
        loss = self.loss
        unit = self.units(b)
        steepest = np.maximum(loss.up, loss.down)
        d = b - self.centre
        gap = float(loss.gaps(r, a).sum())
        primal = float(loss.value(r).sum() + d @ self.force(b) / 2)
        # `size` / mean is a coefficient that moves the fit by `size`. Coefficients
        # below its rounding error count as zero.
        reach, mean = self.reach
        length = np.abs(d) + EPS * self.size / np.where(mean > 0, mean, 1.0)
        if self.diagonal is None:
            stiff = np.abs(self.P) @ length
        else:
            stiff = self.diagonal * length
        scale = reach + stiff + np.abs(self.pull)
        stationary = np.abs(self.slack(b, a)) / np.where(scale > 0, scale, 1.0)
        width = np.where(steepest > 0, loss.up + loss.down, 1.0)
        outside = np.maximum(np.maximum(a - loss.up, -loss.down - a), 0.0) / width
        # The smaller of two relative distances: from a to the slope at r, and from r
        # to its kink.
        misplaced = np.minimum(
            np.abs(a - loss.slopes(r)) / width, loss.from_kink(r) / unit
        )
        worst = max(float(v.max(initial=0.0)) for v in (stationary, outside, misplaced))
        return Certificate(
            primal, gap, worst, EPS * float(steepest @ unit + length @ stiff)
        )


def flat_interval(
    X: Array,
    y: Array,
    loss: PiecewiseLinear,
    b: Array,
    a: Array,
    direction: Array,
) -> tuple[float, float]:
    """Return the interval of t where b + t direction has the same objective as the solution (b, a),
    for a direction with a flat prior.

    A point is optimal if and only if, for some optimal dual, each dual weight is a
    slope of the loss at its residual. (0, 0) if the solution is unique along the
    direction; an unbounded side is infinite.

    >>> y, one = np.array([0.0, 1.0, 4.0, 9.0]), np.ones(4)
    >>> half = PiecewiseLinear(one / 2, one / 2, 0 * one)
    >>> flat_interval(one[:, None], y, half, np.array([2.5]), np.array([-0.5, -0.5, 0.5, 0.5]), np.ones(1))
    (-1.5, 1.5)
    """
    r = y - X @ b
    s = X @ direction
    low, high = loss.ends(a)
    moves = np.abs(s) > 1e-11 * np.abs(X).max(axis=0) @ np.abs(direction)
    # r - t s within [low, high], row by row.
    with np.errstate(invalid="ignore"):
        to_high = (r[moves] - high[moves]) / s[moves]
        to_low = (r[moves] - low[moves]) / s[moves]
    start = np.minimum(to_high, to_low).max(initial=-np.inf)
    stop = np.maximum(to_high, to_low).min(initial=np.inf)
    return float(min(start, 0.0)), float(max(stop, 0.0))
