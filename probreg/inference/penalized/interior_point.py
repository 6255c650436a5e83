"""The primal-dual interior point method for piecewise linear losses with a normal prior (Mehrotra's predictor and corrector).

The loss of a row is a sum of hinges s max(t, 0), t = sign r - shift, plus a linear
term: two hinges if the row has a tube, or one of slope up + down and the term -down r
if epsilon = 0. For each hinge, with u - z = t,

    0 <= alpha <= s,   u >= 0,   z >= 0,   (s - alpha) u = 0,   alpha z = 0,

and the slope of the loss of a row is a = base + sum over its hinges of sign alpha.
Newton's method for products c1, c2 instead of zero eliminates u and z,

    d alpha = D_h (sign dr + h),   D_h = 1/(u/(s - alpha) + z/alpha),   h = t + c1/alpha - c2/(s - alpha),

so a step is da = D dr + w with D_i = sum_h D_h, w_i = sum_h sign D_h h, and dr = -X db: one weighted Gram matrix X'DX + P,
or, with many columns and a proper prior, the matrix K + D^-1 of rows, K = X P^-1 X', bordered by the flat columns.
Sources: Mehrotra 1992; Portnoy & Koenker 1997 for quantile regression.
"""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from probreg.inference.penalized.kink_systems import NewtonSystem
from probreg.inference.penalized.kinks import ROUNDING, KinkProblem, PiecewiseLinear

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Hinges:
    """Losses of rows as hinges of positive slope: one for each side, or one for both
    sides without a tube."""

    rows: NDArray[np.intp]
    sign: Array
    slope: Array
    shift: Array
    base: Array

    @classmethod
    def of(cls, loss: PiecewiseLinear) -> "Hinges":
        up, down, epsilon = loss
        if not epsilon.any():
            # up r+ + down r- = (up + down) r+ - down r
            rows = np.flatnonzero(up + down > 0)
            return cls(
                rows,
                np.ones(len(rows)),
                (up + down)[rows],
                np.zeros(len(rows)),
                -down,
            )
        above = np.flatnonzero(up > 0)
        below = np.flatnonzero(down > 0)
        rows = np.concatenate([above, below])
        sign = np.repeat([1.0, -1.0], [len(above), len(below)])
        return cls(
            rows,
            sign,
            np.concatenate([up[above], down[below]]),
            epsilon[rows],
            np.zeros(len(up)),
        )

    def of_rows(self, v: Array) -> Array:
        return self.sign * v[self.rows]

    def to_rows(self, h: Array) -> Array:
        return np.bincount(self.rows, self.sign * h, minlength=len(self.base))

    def start(self, t: Array, floor: float) -> Array:
        """alpha, s - alpha, u and z at the start (4, hinges): every hinge has the same relative position, and u, z exceed
        their kinks by `floor`."""
        # alpha = s/2 if a row has two hinges; if it has one, a = 0 unless that is close to
        # an end of its box.
        share = np.full(len(t), 0.5)
        if not self.shift.any():
            share = np.clip(-self.base[self.rows] / self.slope, 0.1, 0.9)
        above = np.maximum(t, 0) + floor
        below = np.maximum(-t, 0) + floor
        return np.stack([share * self.slope, (1 - share) * self.slope, above, below])


class Inside(NamedTuple):
    """The state of a method: b (p,), a (n,) within its box, the number of steps, and
    alpha, s - alpha, u, z of the hinges (4, hinges) to continue."""

    b: Array
    a: Array
    steps: int
    hinges: Array | None = None


@np.errstate(
    over="ignore", invalid="ignore"
)  # in a problem without a minimum b runs to infinity
def interior_point(
    problem: KinkProblem,
    system: NewtonSystem,
    start: Inside,
    *,
    tol: float,
    max_steps: int,
) -> Inside:
    """Minimise a `KinkProblem` to a relative gap `tol`, from start.b; the caller
    certifies the result."""
    hinges = Hinges.of(problem.loss)
    b = start.b
    steps = start.steps
    r = problem.y - problem.X @ b
    t = hinges.of_rows(r) - hinges.shift
    spread = float(np.abs(t).mean()) if len(t) else 0.0
    # smallest unit of residuals relative to max |y|, if the fit is perfect
    floor = max(spread, 1e-6 * float(np.abs(problem.y).max(initial=0.0))) or 1.0
    points = start.hinges
    if points is None:
        points = hinges.start(t, floor)
    a = hinges.base + hinges.to_rows(points[0])
    largest = np.maximum(problem.loss.up, problem.loss.down)
    size = float(largest @ (np.abs(problem.y) + floor))
    for steps in range(start.steps, max_steps + 1):
        alpha, complement, u, z = points
        gap = float(complement @ u + alpha @ z)
        loss = float(hinges.slope @ u) + float(hinges.base @ r)
        feasible = np.all(np.abs(u - z - t) <= 1e-3 * floor)
        if (
            feasible and gap <= tol * abs(loss) + ROUNDING * size
        ) or steps == max_steps:
            break
        D = 1.0 / (u / complement + z / alpha)
        try:
            system.factor(hinges.to_rows(hinges.sign * D))
        except LinAlgError:
            break
        slack = problem.slack(b, a)
        direction = partial(_direction, system, hinges, points, D, t, slack)
        _, moves = direction(0.0, 0.0)
        # Mehrotra: center by the cube of the predictor's remaining gap, and correct for
        # the products of its steps.
        after = points + step_lengths(problem, points, moves) * moves
        remaining = float(after[1] @ after[2] + after[0] @ after[3])
        target = (remaining / gap) ** 3 * gap / (2 * len(t)) if gap > 0 else 0.0
        db, moves = direction(
            target - moves[0] * moves[3], target - moves[1] * moves[2]
        )
        lengths = step_lengths(problem, points, moves)
        if not (np.isfinite(lengths).all() and np.isfinite(db).all()):
            break
        moves = lengths * moves
        b = b + lengths[2] * db
        points = points + moves
        a = hinges.base + hinges.to_rows(points[0])
        r = problem.y - problem.X @ b
        t = hinges.of_rows(r) - hinges.shift
    return Inside(b, a, steps, points)


def _direction(
    system: NewtonSystem,
    hinges: Hinges,
    points: Array,
    D: Array,
    t: Array,
    slack: Array,
    c1: Array | float,
    c2: Array | float,
) -> tuple[Array, Array]:
    """Return the Newton step of b, and of alpha, s - alpha, u and z (4, hinges), to the products c1 = alpha z and
    c2 = (s - alpha) u."""
    alpha, complement, u, z = points
    h = t + c1 / alpha - c2 / complement
    db, dr = system.solve(hinges.to_rows(D * h), slack)
    dalpha = D * (hinges.of_rows(dr) + h)
    du = c2 / complement - u + u / complement * dalpha
    dz = c1 / alpha - z - z / alpha * dalpha
    return db, np.stack([dalpha, -dalpha, du, dz])


def step_lengths(problem: KinkProblem, points: Array, moves: Array) -> Array:
    """Return the maximal step lengths (4, 1), at most 1, that keep positive numbers positive: alike for the dual ones and for the
    primal ones, and in a linear programme these two may differ."""
    # x + t dx >= 0 if and only if t max(-dx/x) <= 1.
    worst = np.max(-moves / points, axis=1, initial=1e-300).reshape(2, 2).max(axis=1)
    if problem.P.any():
        worst[:] = worst.max()
    # step length relative to the distance to the nearest bound
    return np.repeat(np.minimum(1.0, 0.9995 / worst), 2)[:, None]
