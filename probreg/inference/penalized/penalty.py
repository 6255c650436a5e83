"""A penalty R(x) with kinks: value, subdifferential, curvature off the kinks, and the minimum of R plus a quadratic.

R(x) = sum over groups |D (x - center)|^exponent + sum_j ridge_j (x_j - center_j)^2 / 2,

with D the diagonal `metric` and groups of one or several coordinates. Absolute values and bridge penalties are
groups of one. In a group of several, in the units z = D (x - center), the quadratic is z'Hz/2 - b'z, and in the
eigenvectors of H the minimiser of this plus |z| is the root of one equation in |z| (`least_with_norm`).

To minimise x'Gx/2 - c'x + R(x), coordinate descent finds the coordinates at their kinks. On the others the problem is
smooth, and Newton steps (one linear system for absolute values) replace descent, which is slow for correlated columns. A
step ends at the first kink on its way, so the objective never increases (Lee, Battle, Raina & Ng 2006). A norm of a group
is curved off its kink, and a line rarely meets the kink: there a step is halved until the objective decreases. The
certificate is the distance of zero from the subdifferential in each coordinate, divided by the root of its curvature.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from probreg.inference.base import Array
from probreg.linalg import unit_diagonal
from probreg.priors.group_laplace import least_with_norm


@dataclass(frozen=True, eq=False)
class KinkedPenalty:
    """R(x) over a vector x (k,); coordinates with the same label are a group, and share one kink at their center."""

    metric: Array  # 0 for coordinates without a kink
    exponent: Array  # 1 in groups of several coordinates
    ridge: Array
    center: Array
    label: Array  # (k,) integers

    @classmethod
    def zero(cls, k: int) -> "KinkedPenalty":
        """Return R = 0."""
        return cls(np.zeros(k), np.ones(k), np.zeros(k), np.zeros(k), np.arange(k))

    def on_scaled(self, scale: Array) -> "KinkedPenalty":
        """Return the same penalty as a function of scale x."""
        return replace(
            self,
            metric=self.metric / scale,
            ridge=self.ridge / scale**2,
            center=self.center * scale,
        )

    def repeated(self, m: int, extra: int = 0) -> "KinkedPenalty":
        """Return the sum over the m columns of X (k, m), as a function of vec(X) and `extra` coordinates without penalty."""
        size = m * len(self.label)
        whole = KinkedPenalty.zero(size + extra)
        for field in ("metric", "exponent", "ridge", "center"):
            getattr(whole, field)[:size] = np.repeat(getattr(self, field), m)
        whole.label[:size] = (self.label[:, None] * m + np.arange(m)).ravel()
        return whole

    def among(self, J: Array) -> "KinkedPenalty":
        """Restrict to some coordinates, with all or none of each group."""
        parts = (self.metric, self.exponent, self.ridge, self.center, self.label)
        return KinkedPenalty(*(v[J] for v in parts))

    @cached_property
    def has_kink(self) -> Array:
        """(k,) bool."""
        return self.metric > 0

    @cached_property
    def corners(self) -> Array:
        """(k,) bool: coordinates with a separate kink; a line rarely meets the kink of a larger group."""
        return self.has_kink & (np.bincount(self.label)[self.label] == 1)

    @cached_property
    def groups(self) -> list[Array]:
        """The coordinates of each group of several."""
        shared = np.flatnonzero(self.has_kink & ~self.corners)
        labels = self.label[shared]
        return [shared[labels == g] for g in sorted(set(labels.tolist()))]

    def norm(self, v: Array) -> Array:
        """(k,) |v_g| of the group g of each coordinate."""
        return np.sqrt(np.bincount(self.label, v * v))[self.label]

    def whole(self, marked: Array) -> Array:
        """Marked coordinates (k,) bool, and all coordinates of their groups."""
        return np.bincount(self.label, marked)[self.label] > 0

    def in_metric(self, g: Array) -> Array:
        """D^-1 g, zero for coordinates without a kink."""
        return np.divide(g, self.metric, out=np.zeros(len(g)), where=self.has_kink)

    def value(self, x: Array) -> float:
        length, t = self._direction(x)
        # t = u / |u| has the squares of one in each group, so that sum t^2 |u|^e = |u|^e
        r = x - self.center
        return float((t * t) @ length**self.exponent + 0.5 * self.ridge @ (r * r))

    def at_kink(self, x: Array) -> Array:
        """Coordinates of groups that are at their center."""
        return self.has_kink & ~self.whole(x != self.center)

    def _direction(self, x: Array) -> tuple[Array, Array]:
        """Length of u = D (x - center) by group, and u / |u|; 1 and 0 at a center."""
        u = self.metric * (x - self.center)
        length = self.norm(u)
        length = np.where(length > 0, length, 1.0)
        return length, u / length

    def slope(self, x: Array) -> Array:
        """R'; at a kink, the subgradient nearest to zero."""
        length, t = self._direction(x)
        # d|u|^e / dx = e |u|^(e - 1) D u / |u|
        power = self.exponent * length ** (self.exponent - 1.0)
        return self.ridge * (x - self.center) + power * self.metric * t

    def hessian(self, x: Array) -> Array:
        """The diagonal of R'' (k,) off the kinks."""
        length, t = self._direction(x)
        # d^2|u|^e / dx_j^2 = e D_j^2 |u|^(e - 2) (1 + (e - 2) t_j^2), t = u / |u|
        bend = (1.0 - t * t) + (self.exponent - 1.0) * t * t
        curvature = self.exponent * self.metric**2 * length ** (self.exponent - 2.0)
        return self.ridge + np.where(self.at_kink(x), 0.0, curvature * bend)

    def curvature_among(self, x: Array, free: Array) -> Array | None:
        """R'' over some coordinates off their kinks (f, f); None if it is zero."""
        R = np.diag(self.hessian(x)[free])
        place = np.full(len(x), -1)
        place[free] = np.arange(len(free))
        length, t = self._direction(x)
        for g in self.groups:
            if (place[g] >= 0).all():
                # D (I - t t') D / |u|
                Dt = self.metric[g] * t[g]
                R[np.ix_(place[g], place[g])] += (
                    np.diag(Dt**2) - np.outer(Dt, Dt)
                ) / length[g[0]]
        return R if R.any() else None

    def distance(self, gradient: Array, x: Array) -> Array:
        """The distance of zero from gradient + subdifferential in each coordinate.

        For a group at its kink, it uses the subgradient that minimises the norm of D^-1 gradient. Close to the center, the
        slope of a power changes within a rounding error of x; this change counts as zero.
        """
        at_kink = self.at_kink(x)
        low = high = self.slope(x)
        is_power = self.exponent != 1
        if is_power.any():
            rounding = 8 * np.finfo(float).eps * (np.abs(x) + np.abs(self.center))
            shift = np.where(is_power, rounding, 0.0)
            slopes = [low, self.slope(x - shift), self.slope(x + shift)]
            low, high = np.min(slopes, 0), np.max(slopes, 0)
        g = np.maximum(np.maximum(gradient + low, -gradient - high), 0.0)
        if not at_kink.any():
            return g
        # At the kink of |u| the subdifferential is D times the unit ball: (1 - 1/|b|)_+ b remains of b = D^-1 gradient.
        # At the cusp of a power below 1 it contains every number.
        length = self.norm(np.where(at_kink, self.in_metric(g), 0.0))
        remainder = 1.0 - 1.0 / np.maximum(length, 1.0)
        remainder = np.where(self.exponent == 1, remainder, self.exponent > 1)
        return np.where(at_kink, remainder * g, g)

    def kkt(self, gradient: Array, x: Array, curvature: Array) -> float:
        """The largest distance of zero from gradient + subdifferential, in units of the root of curvature + R''."""
        total = np.abs(curvature) + np.maximum(self.hessian(x), 0.0)
        root = np.sqrt(np.maximum(total, np.finfo(float).tiny))
        return float((self.distance(gradient, x) / root).max(initial=0.0))

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Block coordinate descent on x'Gx/2 - c'x + R(x): each coordinate and each group in turn."""
        from probreg.inference.penalized.coordinate_loops import descend

        G = np.ascontiguousarray(G)
        r = x - self.center
        q = c - G @ x
        single = np.flatnonzero(self.corners | ~self.has_kink)
        weight = self.metric**self.exponent
        rest = (weight, self.exponent, self.ridge, single)
        blocks = [(g, *self._block(G, g)) for g in self.groups]
        if not blocks:
            # up to 100 passes, or as many as take the time of one linear system: it takes k^3 operations in BLAS, and a pass
            # takes k^2 in a plain loop
            descend(G, q, r, *rest, max(100, len(single) // 30), tol)
        else:
            for _ in range(20):
                start = r.copy()
                descend(G, q, r, *rest, 1, tol)
                for g, D, h, V in blocks:
                    # b = D^-1 (q - ridge r) + H D r, H = D^-1 (G_gg + ridge) D^-1 = V h V'.
                    b = V.T @ ((q[g] - self.ridge[g] * r[g]) / D) + h * (
                        V.T @ (D * r[g])
                    )
                    z = least_with_norm(b, h)
                    new = V @ z / D
                    q -= G[:, g] @ (new - r[g])
                    r[g] = new
                moves = np.abs(r - start) * np.sqrt(np.diagonal(G) + self.ridge)
                if moves.max() <= tol:
                    break
        return np.where(r == 0.0, self.center, self.center + r)

    def _block(self, G: Array, g: Array) -> tuple[Array, Array, Array]:
        """D of a group, and eigenvalues and eigenvectors of its part of the quadratic in units of the group."""
        D = self.metric[g]
        H = (G[np.ix_(g, g)] + np.diag(self.ridge[g])) / np.outer(D, D)
        h, V = np.linalg.eigh(H)
        return D, np.maximum(h, np.finfo(float).tiny), V


def minimise(
    G: Array,
    c: Array,
    penalty: KinkedPenalty,
    x: Array,
    *,
    tol: float,
    rounds: int = 60,
) -> tuple[Array, float]:
    """Return argmin x'Gx/2 - c'x + R(x) from x, G positive semidefinite, and the
    distance of zero from the subdifferential."""
    best = x
    smallest = np.inf
    for _ in range(rounds):
        x = penalty.sweep(G, c, x, 0.1 * tol)
        distance = penalty.kkt(G @ x - c, x, np.diagonal(G))
        if distance > tol:
            x = _polish(G, c, penalty, x)
            distance = penalty.kkt(G @ x - c, x, np.diagonal(G))
        if distance < smallest:
            best, smallest = x, distance
        if distance <= tol:
            break
    return best, smallest


def _polish(G: Array, c: Array, penalty: KinkedPenalty, x: Array) -> Array:
    """Make Newton steps over the coordinates off their kinks; each step ends at the
    first kink on its way."""
    center = penalty.center
    corners = penalty.corners
    for _ in range(30):
        # Off the kinks the objective is smooth: (G + R'') step = -(G x - c + R').
        free = np.flatnonzero(~penalty.at_kink(x))
        gradient = (G @ x - c + penalty.slope(x))[free]
        H = G.take(free, 0).take(free, 1)
        curvature = penalty.curvature_among(x, free)
        if curvature is not None:
            H = H + curvature
        if not np.isfinite(H).all():  # close to a cusp
            return x
        step = _solve_scaled(H, -gradient)
        reach = 1.0
        if step is None:
            step, reach = _degenerate(H, -gradient)
        if step is None:
            return x
        room = np.where(corners[free], (center - x)[free], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            # x_j + t step_j meets its kink at t = (center_j - x_j) / step_j.
            until = np.where(room * step > 0, room / step, np.inf)
        longest = min(reach, float(until.min(initial=np.inf)))
        if not np.isfinite(longest):
            return x
        # a step to the first corner always decreases the objective, except under norms of groups
        halvings = 20 if penalty.groups else 1
        for t in longest * 0.5 ** np.arange(halvings):
            new = x.copy()
            new[free] = np.where(until <= t, center[free], x[free] + t * step)
            lower = _lower(G, c, penalty, x, new)
            if lower:
                break
        if not lower:
            return x
        small = np.abs(step) <= 1e-15 * np.abs(new[free])
        x = new
        if t == 1.0 and (curvature is None or small.all()):
            return x
    return x


def _lower(G: Array, c: Array, penalty: KinkedPenalty, x: Array, new: Array) -> bool:
    """Whether the objective at `new` is not higher, up to rounding."""
    step = new - x
    # q(x + s) - q(x) = s'(G (x + s/2) - c) for q(x) = x'G x / 2 - c'x avoids a
    # difference of large numbers.
    rise = step @ (G @ (x + 0.5 * step) - c) + penalty.value(new) - penalty.value(x)
    return bool(rise <= 1e-12 * (1.0 + abs(penalty.value(x)) + abs(c @ x)))


def _solve_scaled(H: Array, b: Array) -> Array | None:
    """Return H^-1 b with rows scaled to unit diagonal, or None if H is not safely
    positive definite."""
    if not len(H):
        return None
    scaled, d = unit_diagonal(H)
    try:
        factor = cho_factor(scaled, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    if np.diagonal(factor[0]).min() < 1e-7:
        return None
    return cho_solve(factor, b / d, check_finite=False) / d


def _degenerate(H: Array, b: Array) -> tuple[Array | None, float]:
    """Return a step for a singular H, and its maximal length.

    The step is a direction in the null space of H along which the objective decreases
    up to the next kink, or leads to the nearest minimiser. None for an indefinite H.
    """
    # eigenvectors of more than 600 coordinates take longer than descent
    if not 0 < len(H) <= 600 or not (np.diagonal(H) > 0).all():
        return None, 0.0
    scaled, d = unit_diagonal(H)
    value, vector = np.linalg.eigh(scaled)
    if value[0] < -1e-10 * value[-1]:
        return None, 0.0
    resolved = value > 1e-11 * value[-1]
    components = vector.T @ (b / d)
    if np.abs(components[~resolved]).max(initial=0.0) > 1e-9 * np.abs(b / d).max():
        return vector[:, ~resolved] @ components[~resolved] / d, np.inf
    return vector[:, resolved] @ (components[resolved] / value[resolved]) / d, 1.0
