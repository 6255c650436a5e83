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
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from probreg.inference.penalized.kink_systems import NewtonSystem
from probreg.inference.penalized.kinks import KinkProblem, PiecewiseLinear

Array = NDArray[np.float64]

TO_THE_WALL = 0.9995  # step length relative to the distance to the nearest bound
PERFECT = 1e-6  # smallest unit of residuals relative to max |y|, if the fit is perfect
ROUNDING = 64 * float(np.finfo(float).eps)


@dataclass(frozen=True, eq=False)
class Hinges:
    """Losses of rows as hinges of positive slope, one for each side; `whole` if one
    hinge covers both sides of a row."""

    rows: NDArray[np.intp]
    sign: Array
    slope: Array
    shift: Array
    base: Array
    whole: bool

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
                len(rows) == len(up),
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
            False,
        )

    def of_rows(self, v: Array) -> Array:
        return v if self.whole else self.sign * v[self.rows]

    def to_rows(self, h: Array) -> Array:
        if self.whole:
            return h
        return np.bincount(self.rows, self.sign * h, minlength=len(self.base))

    def states(
        self,
        alpha: Array,
        complement: Array,
        u: Array,
        z: Array,
        dalpha: Array,
        du: Array,
        dz: Array,
    ) -> NDArray[np.int8]:
        """Return the state of each row (see `polish`) from one step: of two factors
        with a vanishing product, the one that decreased more.

        The ratio of a number to its previous value tends to 0 or 1, in any units
        (El-Bakry, Tapia & Zhang 1994)."""
        states = np.zeros(len(self.base), dtype=np.int8)
        full = -dalpha / complement < du / u
        is_off = dalpha / alpha < dz / z
        if not self.shift.any():
            states[self.rows] = np.where(full, 2, np.where(is_off, -2, 1))
            return states
        # A hinge above its kink puts the row beyond it, a hinge at its kink puts the
        # row on it; otherwise the row is in the tube.
        sign = self.sign.astype(np.int8)
        kink = ~full & ~is_off
        states[self.rows[kink]] = sign[kink]
        states[self.rows[full & ~is_off]] = 2 * sign[full & ~is_off]
        return states

    def weights(self, D: Array) -> Array:
        if self.whole:
            return D
        return np.bincount(self.rows, D, minlength=len(self.base))


class Inside(NamedTuple):
    """The state of a method: b (p,), a (n,) within its box, the number of steps, and
    (alpha, s - alpha, u, z) of the hinges to continue.

    states (n,) is a guess of the states at the start of `polish`."""

    b: Array
    a: Array
    steps: int
    hinges: tuple[Array, Array, Array, Array] | None = None
    states: NDArray[np.int8] | None = None


def interior_point(
    problem: KinkProblem,
    system: NewtonSystem,
    start: Inside,
    *,
    tol: float,
    max_steps: int,
) -> Inside:
    """Minimise a `KinkProblem` to a relative gap `tol`, from start.b; the caller
    certifies the result.

    At the start every hinge has the same relative position, and u, z exceed their kinks
    by the mean size of residuals.
    """
    hinges = Hinges.of(problem.loss)
    slope = hinges.slope
    shift = hinges.shift
    b = start.b
    steps = start.steps
    r = problem.y - problem.X @ b
    t = hinges.of_rows(r) - shift
    spread = float(np.abs(t).mean()) if len(t) else 0.0
    floor = max(spread, PERFECT * float(np.abs(problem.y).max(initial=0.0))) or 1.0
    alpha, complement, u, z = start.hinges or _initial_hinges(hinges, t, floor)
    a = hinges.base + hinges.to_rows(alpha)
    largest = np.maximum(problem.loss.up, problem.loss.down)
    size = float(largest @ (np.abs(problem.y) + floor))
    separate_steps = (
        not problem.P.any()
    )  # a linear programme: primal and dual steps may have different lengths
    states = None
    for steps in range(start.steps, max_steps + 1):
        slack = problem.slack(b, a)
        gap = float(complement @ u + alpha @ z)
        loss = float(slope @ u) + float(hinges.base @ r)
        feasible = np.all(np.abs(u - z - t) <= 1e-3 * floor)
        if (
            feasible and gap <= tol * abs(loss) + ROUNDING * size
        ) or steps == max_steps:
            break
        D = 1.0 / (u / complement + z / alpha)
        try:
            system.factor(hinges.weights(D))
        except LinAlgError:
            break
        # Predictor: target products of zero.
        move = system.solve(hinges.to_rows(D * t), slack)
        dalpha = D * (hinges.of_rows(move.r) + t)
        c1, c2 = _corrected_products(
            alpha, complement, u, z, dalpha, gap, separate_steps
        )
        h = t + c1 / alpha - c2 / complement
        move = system.solve(hinges.to_rows(D * h), slack)
        dalpha = D * (hinges.of_rows(move.r) + h)
        du = c2 / complement - u + u / complement * dalpha
        dz = c1 / alpha - z - z / alpha * dalpha
        primal_step, dual_step = lengths(
            alpha, complement, u, z, dalpha, du, dz, separate_steps
        )
        if not np.isfinite(primal_step + dual_step) or not np.all(np.isfinite(move.b)):
            break
        states = hinges.states(
            alpha,
            complement,
            u,
            z,
            dual_step * dalpha,
            primal_step * du,
            primal_step * dz,
        )
        b = b + primal_step * move.b
        alpha = alpha + dual_step * dalpha
        complement = complement - dual_step * dalpha
        u = u + primal_step * du
        z = z + primal_step * dz
        a = hinges.base + hinges.to_rows(alpha)
        r = problem.y - problem.X @ b
        t = hinges.of_rows(r) - shift
    return Inside(b, a, steps, (alpha, complement, u, z), states)


def _initial_hinges(
    hinges: Hinges, t: Array, floor: float
) -> tuple[Array, Array, Array, Array]:
    """Return alpha, s - alpha, u and z at the start."""
    slope = hinges.slope
    # alpha = s/2 if a row has two hinges; if it has one, a = 0 unless that is close to
    # an end of its box.
    if hinges.shift.any():
        share = np.full(len(slope), 0.5)
    else:
        share = np.clip(-hinges.base[hinges.rows] / slope, 0.1, 0.9)
    return (
        share * slope,
        (1 - share) * slope,
        np.maximum(t, 0) + floor,
        np.maximum(-t, 0) + floor,
    )


def _corrected_products(
    alpha: Array,
    complement: Array,
    u: Array,
    z: Array,
    dalpha: Array,
    gap: float,
    separate_steps: bool,
) -> tuple[Array, Array]:
    """Return c1 and c2, the products of the corrector, from the step dalpha of the predictor."""
    du = u * (dalpha / complement - 1.0)
    dz = -z * (1.0 + dalpha / alpha)
    primal_step, dual_step = lengths(
        alpha, complement, u, z, dalpha, du, dz, separate_steps
    )
    remaining = float(
        (complement - dual_step * dalpha) @ (u + primal_step * du)
        + (alpha + dual_step * dalpha) @ (z + primal_step * dz)
    )
    # Mehrotra: centre by the cube of the predictor's remaining gap, and correct for
    # the products of its steps.
    if gap > 0:
        target = (remaining / gap) ** 3 * gap / (2 * len(alpha))
    else:
        target = 0.0
    return target - dalpha * dz, target + dalpha * du


def lengths(
    alpha: Array,
    complement: Array,
    u: Array,
    z: Array,
    dalpha: Array,
    du: Array,
    dz: Array,
    separate_steps: bool,
) -> tuple[float, float]:
    """Return the maximal (primal, dual) step lengths, at most 1, that keep positive
    numbers positive."""
    # x + t dx >= 0 if and only if t max(-dx/x) <= 1.
    primal = max(
        float(np.max(-du / u, initial=0.0)), float(np.max(-dz / z, initial=0.0))
    )
    dual = max(
        float(np.max(-dalpha / alpha, initial=0.0)),
        float(np.max(dalpha / complement, initial=0.0)),
    )
    primal_step, dual_step = (
        min(1.0, TO_THE_WALL / max(v, 1e-300)) for v in (primal, dual)
    )
    if separate_steps:
        return (primal_step, dual_step)
    return (min(primal_step, dual_step), min(primal_step, dual_step))
