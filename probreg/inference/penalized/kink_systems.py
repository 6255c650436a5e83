"""Newton's equations of a piecewise linear loss with a normal prior, in the coefficients or in the rows.

`factor` takes D, and `solve` returns db and dr; in `active` D is infinite on some rows and zero elsewhere, and it returns
the function (slack, error) -> (db, da).

With dual weights a that follow the residuals as da = D dr + w, D diagonal and >= 0, and
dr = -X db,

    X'da - P db = -slack   is   (X'DX + P) db = X'w + slack,

one weighted Gram matrix (p, p); or, for many columns with a proper prior, a matrix over
rows (n, n) by K = X P^-1 X'. With infinite D on some rows and zero elsewhere they
become X db = error there, the equations of an active set. `active_set` returns the state of each row near the solution, and
`polish` solves for the minimum given these states.

The primal-dual interior point method for piecewise linear losses with a normal prior (Mehrotra's predictor and corrector).

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

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import (
    LinAlgError,
    cho_factor,
    cho_solve,
    cholesky,
    lstsq,
    solve_triangular,
)
from scipy.linalg.lapack import dsycon, dsytrf, dsytrs

from probreg.errors import Incompatible
from probreg.inference.penalized.kinks import (
    EPS,
    ROUNDING_OF_SUMS,
    Certificate,
    KinkProblem,
    PiecewiseLinear,
)
from probreg.linalg import (
    inverse_upper,
    merge,
    rank_of,
    root_of_square,
    triangular,
    weighted_gram,
)

Array = NDArray[np.float64]


@dataclass(eq=False)
class ByColumns:
    """Newton's equations in the coefficients: (X'DX + P) db = X'w + slack, in coordinates that make X'X d + P the identity."""

    problem: KinkProblem
    weight: float  # d, a typical D

    @cached_property
    def T(self) -> Array:
        """b = T theta, T = F^-1 with F'F = d X'X + P: theta is invariant to the units
        and the correlation of columns."""
        X = self.problem.X
        P = self.problem.P
        if not self.problem.weighted.all():
            X = X[self.problem.weighted]
        F = triangular(X).astype(float) * np.sqrt(self.weight)
        if P.any():
            F = merge(F, root_of_square(P).T)
        if not F.any():
            raise Incompatible(
                "no row has a weight, and all columns have flat priors: there is nothing to fit"
            )
        rank = rank_of(F)
        if rank.dropped:
            j = rank.dropped[0]
            raise Incompatible(
                f"column {j} of X is a combination of the others, and its prior is flat: drop it, or give it a prior"
            )
        return inverse_upper(F)

    @cached_property
    def Z(self) -> Array:
        return self.problem.X @ self.T

    @cached_property
    def Q(self) -> Array:
        return self.T.T @ self.problem.P @ self.T

    def start(self) -> Array:
        """The minimum with squared residuals d r^2/2 instead of the loss: T T' = (d X'X
        + P)^-1."""
        problem = self.problem
        r = problem.y - problem.X @ problem.centre
        return problem.centre + self.T @ (
            self.weight * (r @ self.Z) + problem.pull @ self.T
        )

    def factor(self, D: Array) -> None:
        self.L = cho_factor(
            weighted_gram(self.Z, D) + self.Q, lower=True, check_finite=False
        )

    def solve(self, w: Array, slack: Array) -> tuple[Array, Array]:
        theta = cho_solve(self.L, w @ self.Z + slack @ self.T, check_finite=False)
        return self.T @ theta, -(self.Z @ theta)

    def active(
        self, rows: NDArray[np.intp]
    ) -> Callable[[Array, Array], tuple[Array, Array]]:
        # [[Q, Z_F'], [Z_F, 0]] [theta; -da_F] = [T'slack; error], the smallest change
        # if it is not unique.
        Z = self.Z[rows]
        p = len(self.T)
        # More rows than columns: da_F = U v within their span. Adding Z'Z to Q does not
        # change the solution, and makes Q regular.
        U = None
        if len(rows) > p:
            U, Z = np.linalg.qr(Z)
        solve = saddle_solver(self.Q + Z.T @ Z, Z.T)

        def change(slack: Array, error: Array) -> tuple[Array, Array]:
            if U is not None:
                error = U.T @ error
            theta, v = solve(slack @ self.T + error @ Z, error)
            if U is not None:
                v = U @ v
            return self.T @ theta, -v

        return change


def saddle_solver(A: Array, F: Array) -> Callable[[Array, Array], tuple[Array, Array]]:
    """(h, k) -> x, z of A x + F z = h, F'x = k, for A (m, m) positive semidefinite, F (m, f), and h, k in the range.

    By symmetric elimination if it is accurate, else the least-norm least-squares solution."""
    # reciprocal condition number below which the least-norm solution is used
    singular = 1e-14
    m, f = F.shape
    W = np.block([[A, F], [F.T, np.zeros((f, f))]])
    norm = np.abs(W).sum(axis=1).max(initial=0.0)
    factor, pivots, info = dsytrf(W, lower=1, lwork=64 * max(len(W), 1))
    regular = info == 0 and dsycon(factor, pivots, norm, lower=1)[0] > singular

    def solve(h: Array, k: Array) -> tuple[Array, Array]:
        nonlocal regular
        right = np.concatenate([h, k])
        if regular:
            x = dsytrs(factor, pivots, right, lower=1)[0]
            scale = np.abs(x).max() * norm + np.abs(right).max()
            regular = bool(np.abs(W @ x - right).max() <= ROUNDING_OF_SUMS * scale)
        if not regular:
            x = lstsq(W, right, cond=singular, lapack_driver="gelsy")[0]
        return x[:m], x[m:]

    return solve


@dataclass(eq=False)
class ByRows:
    """Newton's equations over rows, for as many columns as rows or more and a diagonal
    P: with b = c + P^-1 X'a of the penalised columns,

    (D^-1 + K) da + X_f db_f = D^-1 w,   X_f'da = -slack_f,   K = X_p P_p^-1 X_p'."""

    problem: KinkProblem

    @cached_property
    def flat(self) -> NDArray[np.bool_]:
        return self.problem.flat

    @property
    def offset_alone(self) -> bool:
        """Whether there is one flat column, a nonzero constant."""
        X = self.problem.X[:, self.flat]
        return X.shape[1] == 1 and bool(np.ptp(X) == 0 != X[0, 0])

    @cached_property
    def K(self) -> Array:
        if self.problem.K is not None:
            return self.problem.K
        # K = Z Z' with Z = X_p P_p^(-1/2)
        penalized = ~self.flat
        Z = self.problem.X[:, penalized] / np.sqrt(self._precision[penalized])
        return Z @ Z.T

    @property
    def _precision(self) -> Array:
        """The diagonal of P."""
        return np.diagonal(self.problem.P)

    def inverse(self, force: Array) -> Array:
        """P_p^-1 force_p among zeros (p,)."""
        precision = self._precision
        return np.divide(
            force, precision, out=np.zeros(len(force)), where=precision > 0
        )

    def start(self) -> Array:
        b = self.problem.centre.copy()
        b[self.flat] += (
            self.unit * np.linalg.lstsq(self.F, self.problem.y - self.problem.X @ b)[0]
        )
        return b

    @cached_property
    def unit(self) -> Array:
        """Multipliers of the flat columns that give them the size of K in any units."""
        X = self.problem.X[:, self.flat]
        if X.shape[1]:
            weighted = self.problem.weighted
            if not weighted.any():
                raise Incompatible(
                    "no row has a weight, and some column has a flat prior: there is nothing to fit"
                )
            rank = rank_of(triangular(X[weighted]).astype(float))
            if rank.dropped:
                j = np.flatnonzero(self.flat)[rank.dropped[0]]
                raise Incompatible(
                    f"column {j} of X is a combination of others with flat priors: drop it, or give it a prior"
                )
        return np.trace(self.K) / len(X) / np.sqrt(np.square(X).mean(axis=0))

    @cached_property
    def F(self) -> Array:
        return self.problem.X[:, self.flat] * self.unit

    def factor(self, D: Array) -> None:
        # I + S K S with S = D^(1/2) has eigenvalues of at least 1 for any D.
        self.S = np.sqrt(D)
        B = self.S[:, None] * self.K * self.S
        B.flat[:: len(B) + 1] += 1.0
        self.L = cholesky(B, lower=True, overwrite_a=True, check_finite=False)
        self.G = solve_triangular(
            self.L, self.S[:, None] * self.F, lower=True, check_finite=False
        )

    def solve(self, w: Array, slack: Array) -> tuple[Array, Array]:
        # With slack_p = 0 restored by P_p^-1 slack_p:   da = S L'^-1 (g - G db_f), g = L^-1 (S^-1 w - S X_p P_p^-1 slack_p),
        # G'G db_f = G'g + slack_f.
        X = self.problem.X
        prior_part = X @ self.inverse(slack)
        flat = np.zeros(0)
        # w is zero for D = 0: a row without weight
        root = np.where(self.S > 0, self.S, 1.0)
        g = solve_triangular(
            self.L, w / root - self.S * prior_part, lower=True, check_finite=False
        )
        if self.F.shape[1]:
            flat = np.linalg.solve(
                self.G.T @ self.G, self.G.T @ g + self.unit * slack[self.flat]
            )
            g = g - self.G @ flat
        da = self.S * solve_triangular(
            self.L, g, lower=True, trans="T", check_finite=False
        )
        db = self.inverse(da @ X + slack)
        db[self.flat] = self.unit * flat
        return db, -(self.K @ da + prior_part + self.F @ flat)

    def active(
        self, rows: NDArray[np.intp]
    ) -> Callable[[Array, Array], tuple[Array, Array]]:
        # K_FF da_F + X_fF db_f = error - X_pF P_p^-1 slack_p,   X_fF'da_F = -slack_f
        X = self.problem.X[rows]
        F = self.F[rows]
        solve = saddle_solver(self.K[np.ix_(rows, rows)], F)

        def change(slack: Array, error: Array) -> tuple[Array, Array]:
            da, flat = solve(
                error - X @ self.inverse(slack), -self.unit * slack[self.flat]
            )
            db = self.inverse(da @ X + slack)
            db[self.flat] = self.unit * flat
            return db, da

        return change


NewtonSystem = ByColumns | ByRows


# of each row, -2: a = -down, -1: r = -eps, 0: a = 0, 1: r = eps, 2: a = up
States = NDArray[np.int8]

# relative to the width of the box for a, and to the data for r: a row keeps its state if it is beyond it by less
SLIGHT = 1e-12


class Solved(NamedTuple):
    """A solution: b (p,), dual weights a (n,), the number of steps, whether it was
    polished, and its certificate."""

    b: Array
    a: Array
    steps: int
    polished: bool
    certificate: Certificate


def active_set(problem: KinkProblem, b: Array, a: Array) -> States:
    """Return the state of each row near the solution: of two factors with a vanishing
    product, the relatively smaller one is zero."""
    up, down, eps = problem.loss
    r = problem.y - problem.X @ b
    width = up + down
    kinks = problem.loss.from_kink(r)
    # Residuals are relative to their mean; if all are zero up to rounding, every row is
    # on its kink.
    unit = float(kinks.mean()) + SLIGHT * problem.size or 1.0
    state = np.where(r >= 0, 1, -1)
    tube = (a * unit < (eps - r) * width) & (-a * unit < (eps + r) * width)
    state = np.where(tube & (eps > 0), 0, state)
    state = np.where((up - a) * unit < (r - eps) * width, 2, state)
    state = np.where((down + a) * unit < (-r - eps) * width, -2, state)
    return np.where(problem.weighted, state, 0).astype(np.int8)


def polish(
    problem: KinkProblem, system: NewtonSystem, b: Array, a: Array, state: States
) -> tuple[Array, Array, bool]:
    """Return b and a of the minimum to rounding, and whether their states are consistent, by an active set method
    from (b, a).

    Given the states the minimum solves linear equations, F the rows on a kink, B the rows beyond one and c the center:

        X_F b = y_F - kink_F,   X_F'a_F + X_B'a_B + pull = P (b - c),

    for quantile regression the p rows that a vertex interpolates. Rows with a or r that contradict their state change
    it, and the equations are solved again.
    """
    up, down, eps = problem.loss
    single = eps == 0  # both kinks are one
    # relative to the data, and to the bound of X'a: with smaller errors equations are not refined further
    fine = 4 * EPS
    tolerance = SLIGHT * problem.units(b)
    state = state.copy()
    visited = set[bytes]()
    for _ in range(40):
        visited.add(state.tobytes())
        rows = np.flatnonzero(np.abs(state) == 1)
        # Dual weights beyond the kinks are known; free ones start from their values and
        # change as little as possible.
        a = np.where(
            np.abs(state) == 1,
            a,
            np.where(state == 2, up, np.where(state == -2, -down, 0.0)),
        )
        solve = system.active(rows)
        r = problem.y - problem.X @ b
        slack = problem.slack(b, a)
        # maximal number of refinements of the solution of one system
        for _ in range(4):
            db, da = solve(slack, (r - state * eps)[rows])
            b = b + db
            a[rows] += da
            r = problem.y - problem.X @ b
            slack = problem.slack(b, a)
            error = np.abs(r - state * eps)[rows] / tolerance[rows]
            if np.all(error <= fine / SLIGHT) and np.all(
                np.abs(slack) <= fine * problem.reach[0]
            ):
                break
        if np.any(error > 1.0):
            # More rows than a point can interpolate: those with the largest errors move
            # to their side.
            missed = rows[error > 0.5 * error.max()]
            inside = np.where(single[missed], np.where(r[missed] > 0, 2, -2), 0)
            state[missed] = np.where(
                r[missed] > eps[missed],
                2,
                np.where(r[missed] < -eps[missed], -2, inside),
            )
            continue
        low = np.where(single | (state == -1), -down, 0.0)
        high = np.where(single | (state == 1), up, 0.0)
        slight = SLIGHT * (up + down)
        on_kink = np.abs(state) == 1
        new = state.copy()
        # On a kink with a past the end of its range: the row moves to that side. Off it
        # with r past a kink: it moves onto the kink.
        past_end = on_kink & (a > high + slight)
        before_start = on_kink & (a < low - slight)
        new[past_end] = np.where(single | (state == 1), 2, 0)[past_end]
        new[before_start] = np.where(single | (state == -1), -2, 0)[before_start]
        new[(state == 2) & (r < eps - tolerance) & problem.weighted] = 1
        new[(state == -2) & (r > tolerance - eps) & problem.weighted] = -1
        new[(state == 0) & (r > eps + tolerance) & (up > 0)] = 1
        new[(state == 0) & (r < -eps - tolerance) & (down > 0)] = -1
        if np.array_equal(new, state):
            return (
                b,
                np.clip(a, -down, up),
                True,
            )  # from at most SLIGHT beyond the box; the certificate uses this point
        if new.tobytes() in visited:
            break
        state = new
    return b, a, False


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
)  # in a problem without a minimum b goes to infinity
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
            feasible and gap <= tol * abs(loss) + ROUNDING_OF_SUMS * size
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
    """Return the maximal step lengths (4, 1), at most 1, that keep positive numbers positive. All dual numbers have one length, and all
    primal numbers; in a linear programme these two may differ."""
    # x + t dx >= 0 if and only if t max(-dx/x) <= 1.
    worst = np.max(-moves / points, axis=1, initial=1e-300).reshape(2, 2).max(axis=1)
    if problem.P.any():
        worst[:] = worst.max()
    # step length relative to the distance to the nearest bound
    return np.repeat(np.minimum(1.0, 0.9995 / worst), 2)[:, None]
