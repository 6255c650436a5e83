"""The best fixed weights in hindsight, and those with the least bound of a theorem: small convex programmes."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import rel_entr, softmax

from probreg.errors import Incompatible
from probreg.numerics.linalg import merge
from probreg.online.losses import Loss
from probreg.online.updates import Array, project


@dataclass(frozen=True)
class Constraint:
    """A set of fixed weights: the "l1" or "l2" ball of a radius, or the "simplex"."""

    kind: str = "l2"
    radius: float = np.inf

    @property
    def free(self) -> bool:
        return self.radius == np.inf

    def nearest(self, u: Array) -> Array:
        """Return the point of the set nearest to u."""
        if self.kind == "l2":
            return project(u, self.radius)
        if self.kind == "simplex":
            return _project_simplex(u, 1.0)
        if np.abs(u).sum() <= self.radius:
            return u
        return np.sign(u) * _project_simplex(np.abs(u), self.radius)


def _project_simplex(u: Array, total: float) -> Array:
    """Return the nearest point with entries >= 0 and the sum `total` (Duchi, Shalev-Shwartz, Singer & Chandra 2008)."""
    # (u - c)_+ with the c at which its entries add up to the total
    v = np.sort(u)[::-1]
    excess = (np.cumsum(v) - total) / np.arange(1, len(v) + 1)
    return np.maximum(u - excess[v > excess][-1], 0.0)


def ridge_comparator(F: Array, penalty: float, centre: Array) -> Array:
    """Return the u that minimises L_u + penalty ||u - centre||^2, with L_u = ||F (u, -1)||^2 the squared loss of a stream.

    >>> ridge_comparator(np.array([[2.0, 4.0], [0.0, 1.0]]), 4.0, np.zeros(1))
    array([1.])
    """
    d = np.diagonal(F)[:-1]
    if penalty > 0 and np.array_equal(F[:-1, :-1], np.diag(d)):
        # (d_j^2 + penalty) u_j = d_j z_j + penalty centre_j
        return (d * F[:-1, -1] + penalty * centre) / (d * d + penalty)
    if penalty > 0:
        # L_u + penalty |u - centre|^2 = |F (u, -1)|^2 + |penalty^(1/2) [I centre] (u, -1)|^2.
        root = np.sqrt(penalty)
        F = merge(
            F, np.column_stack([root * np.eye(len(centre)), root * centre])
        ).astype(float)
    return np.asarray(np.linalg.lstsq(F[:-1, :-1], F[:-1, -1], rcond=None)[0])


def least_squares(F: Array, constraint: Constraint) -> Array:
    """Return the u of a set with the least squared loss, and the least norm if the set is free."""
    if constraint.free:
        return ridge_comparator(F, 0.0, np.zeros(len(F) - 1))
    R = F[:, :-1]
    z = F[:, -1]
    # L_u = u'Gu - 2 c'u + |z|^2: gradient 2 (Gu - c), curvature at most 2 |G|.
    G = R.T @ R
    c = R.T @ z
    return _descend(
        lambda u: (float(u @ G @ u - 2 * c @ u), 2 * (G @ u - c)),
        constraint,
        len(c),
        2 * np.linalg.norm(G, 2),
    )


def _descend(
    f: Callable[[Array], tuple[float, Array]],
    constraint: Constraint,
    p: int,
    curvature: float,
    rounds: int = 20_000,
) -> Array:
    """Return the minimiser on a convex set by accelerated projected gradient with restarts (Beck & Teboulle 2009)."""
    u = v = constraint.nearest(np.zeros(p))
    momentum = 1.0
    smallest = np.inf
    for _ in range(rounds):
        new = constraint.nearest(v - f(v)[1] / curvature)
        value = f(new)[0]
        if value > smallest:
            v = u
            momentum = 1.0
            smallest = np.inf
            continue
        if np.abs(new - u).max() <= 1e-13 * (1 + np.abs(u).max()) and momentum > 1:
            return new
        # t_(k+1) = (1 + (1 + 4 t_k^2)^(1/2)) / 2, v = u_(k+1) + (t_k - 1) / t_(k+1) (u_(k+1) - u_k).
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        v = new + (momentum - 1) / after * (new - u)
        u = new
        momentum = after
        smallest = value
    return u


def least_loss(X: Array, y: Array, loss: Loss, constraint: Constraint) -> Array:
    """Return the u with the least sum of a loss over rows: a linear programme if the loss is not smooth."""
    if loss.name != "logistic":
        return _solve_linear_programme(X, y, loss, constraint)

    def objective(u: Array) -> tuple[float, Array]:
        # L_u = sum_i log(1 + exp eta_i) - y_i eta_i; its gradient is X'(mean - y).
        eta = X @ u
        value = float(np.sum(np.logaddexp(0, eta) - y * eta))
        return value, X.T @ (loss.mean(eta) - y)

    if constraint.free:
        return _minimise(objective, X.shape[1])
    # the second derivative of log(1 + exp) is at most 1/4
    return _descend(objective, constraint, X.shape[1], np.linalg.norm(X, 2) ** 2 / 4)


def _minimise(f: Callable[[Array], tuple[float, Array]], p: int) -> Array:
    from scipy.optimize import minimize

    options = {"gtol": 1e-9}
    return np.asarray(
        minimize(f, np.zeros(p), jac=True, method="L-BFGS-B", options=options).x
    )


def _solve_linear_programme(
    X: Array, y: Array, loss: Loss, constraint: Constraint
) -> Array:
    """Return u of min sum(s) over u = a - b, a, b >= 0, s >= 0, with s at least each affine piece of the loss."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    if constraint.kind == "l2" and not constraint.free:
        raise Incompatible(
            f"the best fixed weights are not available for the {loss.name} loss in an l2 ball: pass a comparator"
        )
    n, p = X.shape
    if loss.name == "hinge":  # s >= c - y u'x
        pieces = [-y[:, None] * X]
        limit = [np.full(n, -loss.c)]
    else:  # s >= +-(u'x - y) - c
        pieces = [X, -X]
        limit = [y + loss.c, -y + loss.c]
    A = vstack(
        [hstack([csr_array(M), csr_array(-M), -eye_array(n)]) for M in pieces]
    ).tocsr()
    b = np.concatenate(limit)
    total = np.r_[np.ones(2 * p), np.zeros(n)][None]
    simplex = constraint.kind == "simplex"
    negative = (0, 0) if simplex else (0, None)
    bounds = [(0, None)] * p + [negative] * p + [(0, None)] * n
    equalities = {"A_eq": total, "b_eq": [1.0]} if simplex else {}
    if constraint.kind == "l1":
        A = vstack([A, csr_array(total)])
        b = np.r_[b, constraint.radius]
    cost = np.r_[np.zeros(2 * p), np.ones(n)]
    solution = linprog(cost, A_ub=A, b_ub=b, bounds=bounds, **equalities)
    return np.asarray(solution.x[:p] - solution.x[p : 2 * p])


def penalised_comparator(
    X: Array, y: Array, loss: Loss, weight: float, centre: Array
) -> Array:
    """Return the u that minimises L_u + weight ||u - centre||^2, weight > 0, to the tolerance of a solver.

    >>> from probreg.online.losses import ABSOLUTE
    >>> penalised_comparator(np.eye(2), np.array([3.0, 0.1]), ABSOLUTE, 0.5, np.zeros(2)).round(6)
    array([1. , 0.1])
    """
    from scipy.optimize import minimize

    start = X @ centre
    if loss.name in ("squared", "logistic"):

        def objective(v: Array) -> tuple[float, Array]:
            eta = start + X @ v
            if loss.name == "squared":
                value = float(np.sum((eta - y) ** 2))
                slope = 2 * (eta - y)
            else:
                value = float(np.sum(np.logaddexp(0, eta) - y * eta))
                slope = loss.mean(eta) - y
            return value + weight * float(v @ v), X.T @ slope + 2 * weight * v

        return centre + _minimise(objective, X.shape[1])
    # max over a in [0, 1/(2 weight)] of b'a - |Z'a|^2 / 2, each a of an affine piece l = (b_i - z_i'v)_+; v = Z'a.
    if loss.name == "hinge":
        Z = y[:, None] * X
        b = loss.c - y * start
    else:
        Z = np.vstack([X, -X])
        b = np.r_[y - start - loss.c, start - y - loss.c]

    def dual(a: Array) -> tuple[float, Array]:
        v = Z.T @ a
        return float(v @ v / 2 - b @ a), Z @ v - b

    box = [(0.0, 1 / (2 * weight))] * len(b)
    # Rows that are all alike give a division by zero in a matrix that the solver does not use.
    with np.errstate(divide="ignore"):
        solution = minimize(
            dual, np.zeros(len(b)), jac=True, method="L-BFGS-B", bounds=box
        )
    return centre + Z.T @ solution.x


def widest_margin(X: Array, y: Array) -> Array | None:
    """Return the shortest u with y_i u'x_i >= 1 for all i, with margin 1/||u||; None if no u separates (y = -1, +1).

    The least distance programme of Lawson & Hanson (1974, ch. 23), by non-negative least squares on a set of rows;
    rows with a violated constraint join until there is none.

    >>> widest_margin(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]))
    array([ 0.5, -1. ])
    """
    Z = y[:, None] * X
    size = float(np.sqrt((Z**2).sum(axis=1).max(initial=0)))
    if size == 0:
        return None
    Z = Z / size
    active = np.unique(
        np.linspace(0, len(Z) - 1, min(len(Z), 4 * X.shape[1] + 20)).astype(int)
    )
    while True:
        u = _shortest(Z[active])
        if u is None:
            return None
        margins = Z @ u
        violated = np.setdiff1d(np.argsort(margins)[:50], active)
        violated = violated[margins[violated] < 1 - 1e-9]
        if not violated.size:
            return u / size if margins.min() > 0 else None
        active = np.concatenate([active, violated])


def _shortest(Z: Array) -> Array | None:
    from scipy.optimize import nnls

    E = np.vstack([Z.T, np.ones(len(Z))])
    f = np.r_[np.zeros(Z.shape[1]), 1.0]
    # min |u| with Zu >= 1 from min |Ez - f| over z >= 0: u = -r_(1..p) / r_(p+1), r = f - Ez, and r_(p+1) = |r|^2 at the minimum.
    z, norm = nnls(E, f, maxiter=100 * len(Z))
    r = f - E @ z
    return None if norm < 1e-8 else -r[:-1] / (r @ r)


def entropic_comparator(
    F: Array, weight: float, penalty: float, start: Array, scale: float = 1.0
) -> Array:
    """Return the v on the simplex with the least weight L_u + penalty d(v, start), d the relative entropy.

    u is v, or (v+ - v-) scale of its two halves if start has 2p entries. The result is on the simplex, so a bound for it holds.
    """
    from scipy.optimize import minimize

    p = len(F) - 1
    if len(start) == p:
        fold = np.eye(p)
    else:
        fold = scale * np.hstack([np.eye(p), -np.eye(p)])
    R = F[:, :-1] @ fold
    z = F[:, -1]
    unit = max(float(z @ z) * weight, penalty, 1e-300)

    def objective(theta: Array) -> tuple[float, Array]:
        v = softmax(theta)
        e = R @ v - z
        d = np.log(np.maximum(v, 1e-300) / start)
        # dv/d theta = diag(v) - vv': over theta the slope is v (g - v'g), in which the 1 of d(v log v)/dv cancels.
        g = weight * 2 * (R.T @ e) + penalty * d
        value = float(weight * e @ e + penalty * v @ d)
        return value / unit, v * (g - v @ g) / unit

    options = {"gtol": 1e-12}
    theta = minimize(
        objective, np.log(start), jac=True, method="L-BFGS-B", options=options
    ).x
    return np.asarray(softmax(theta))


def relative_entropy(v: Array, start: Array) -> float:
    """Return sum v log(v / start), with 0 log 0 = 0."""
    return float(rel_entr(v, start).sum())


def widest_simplex(X: Array, y: Array, positive: bool, norm: float) -> Array:
    """Return the u on the simplex (positive), or with ||u||_1 <= norm, with the widest margin min y u'x."""
    from scipy.optimize import linprog

    n, p = X.shape
    Z = y[:, None] * X
    A = np.column_stack([-Z, Z, np.ones(n)])
    b = np.zeros(n)
    total = np.r_[np.ones(2 * p), 0.0][None]
    bounds = [(0, None)] * p + [(0, 0) if positive else (0, None)] * p + [(None, None)]
    # max t over (a, b, t): t <= y_i (a - b)'x_i, a, b >= 0, sum (a + b) = norm.
    solution = linprog(
        np.r_[np.zeros(2 * p), -1.0],
        A_ub=A,
        b_ub=b,
        A_eq=total,
        b_eq=[norm],
        bounds=bounds,
    )
    return np.asarray(solution.x[:p] - solution.x[p : 2 * p])
