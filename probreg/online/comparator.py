"""The best fixed weights in hindsight, and the best for a theorem's bound: small convex programmes on arrays."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from probreg.errors import Incompatible
from probreg.numerics.linalg import merge
from probreg.online.losses import Loss
from probreg.online.parts import Array, project


@dataclass(frozen=True)
class Constraint:
    """Where fixed weights may lie: the "l1" or "l2" ball of a radius, the "simplex", or the "positive" orthant."""

    kind: str = "l2"
    radius: float = np.inf

    @property
    def free(self) -> bool:
        return self.kind in ("l1", "l2") and self.radius == np.inf

    def nearest(self, u: Array) -> Array:
        """The point of the set nearest to u."""
        if self.kind == "positive":
            return np.maximum(u, 0.0)
        if self.kind == "simplex":
            # (u - c)_+ with the c at which its entries add up to 1   (Duchi, Shalev-Shwartz, Singer & Chandra 2008).
            v = np.sort(u)[::-1]
            excess = (np.cumsum(v) - 1.0) / np.arange(1, len(v) + 1)
            return np.maximum(u - excess[v > excess][-1], 0.0)
        return project(u, self.radius, "l1" if self.kind == "l1" else "l2")


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


def least_squares(F: Array, held: Constraint) -> Array:
    """The u of a constraint set with the least squared loss; the smallest of several when it is free."""
    if held.free:
        return ridge_comparator(F, 0.0, np.zeros(len(F) - 1))
    R = F[:, :-1]
    z = F[:, -1]
    # L_u = u'Gu - 2 c'u + |z|^2: gradient 2 (Gu - c), curvature at most 2 |G|.
    G = R.T @ R
    c = R.T @ z
    return _descend(
        lambda u: (float(u @ G @ u - 2 * c @ u), 2 * (G @ u - c)),
        held,
        len(c),
        2 * np.linalg.norm(G, 2),
    )


def _descend(
    f: Callable[[Array], tuple[float, Array]],
    held: Constraint,
    p: int,
    curvature: float,
    rounds: int = 20_000,
) -> Array:
    """The minimiser on a convex set by accelerated projected gradient with restarts (Beck & Teboulle 2009)."""
    u = v = held.nearest(np.zeros(p))
    momentum = 1.0
    least = np.inf
    for _ in range(rounds):
        new = held.nearest(v - f(v)[1] / curvature)
        value = f(new)[0]
        if value > least:
            v = u
            momentum = 1.0
            least = np.inf
            continue
        if np.abs(new - u).max() <= 1e-13 * (1 + np.abs(u).max()) and momentum > 1:
            return new
        # t_(k+1) = (1 + (1 + 4 t_k^2)^(1/2)) / 2, v = u_(k+1) + (t_k - 1) / t_(k+1) (u_(k+1) - u_k).
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        v = new + (momentum - 1) / after * (new - u)
        u = new
        momentum = after
        least = value
    return u


def least_loss(X: Array, y: Array, loss: Loss, held: Constraint) -> Array:
    """The u with the least sum of a loss over rows: L-BFGS for a smooth loss, else a linear programme."""
    if loss.name in ("logistic", "binomial", "poisson"):
        return _minimise_smooth(X, y, loss, held)
    return _programme(X, y, loss, held)


def _minimise_smooth(X: Array, y: Array, loss: Loss, held: Constraint) -> Array:
    from scipy.optimize import minimize

    # L_u = sum_i n_i A(eta_i) - k_i eta_i, A = log(1 + exp) or exp; its gradient is X'(n A' - k).
    if y.ndim == 2:
        k = y[:, 0]
        n = y[:, 1]
    else:
        k = y
        n = np.ones(len(y))

    def f(u: Array) -> tuple[float, Array]:
        eta = X @ u
        mean = loss.mean(eta)
        if loss.name == "poisson":
            value = mean
        else:
            value = np.logaddexp(0, eta)
        return float(np.sum(n * value - k * eta)), X.T @ (n * mean - k)

    if held.free:
        return np.asarray(
            minimize(
                f,
                np.zeros(X.shape[1]),
                jac=True,
                method="L-BFGS-B",
                options={"gtol": 1e-9},
            ).x
        )
    if loss.name == "poisson":
        raise Incompatible(
            "no best fixed weights are worked out for the Poisson loss on a bounded set"
        )
    # A'' <= 1/4 for A = log(1 + exp): the curvature X'diag(n A'')X is at most |n^(1/2) X|^2 / 4.
    return _descend(
        f, held, X.shape[1], np.linalg.norm(np.sqrt(n)[:, None] * X, 2) ** 2 / 4
    )


def _programme(X: Array, y: Array, loss: Loss, held: Constraint) -> Array:
    """min sum(s) over u = a - b, a, b >= 0, s >= 0, with s at least each affine piece of the loss."""
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, vstack

    if held.kind == "l2" and not held.free:
        raise Incompatible(
            f"no best fixed weights are worked out for the {loss.name} loss in an l2 ball"
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
    bounds = (
        [(0, None)] * p
        + [(0, 0) if held.kind in ("simplex", "positive") else (0, None)] * p
        + [(0, None)] * n
    )
    if held.kind == "simplex":
        exact = {"A_eq": total, "b_eq": [1.0]}
    else:
        exact = {}
    if held.kind == "l1" and not held.free:
        A = vstack([A, csr_array(total)])
        b = np.r_[b, held.radius]
    found = linprog(
        np.r_[np.zeros(2 * p), np.ones(n)], A_ub=A, b_ub=b, bounds=bounds, **exact
    )
    return np.asarray(found.x[:p] - found.x[p : 2 * p])


def penalised_comparator(
    X: Array, y: Array, loss: Loss, weight: float, centre: Array
) -> Array:
    """The u that minimises L_u + weight ||u - centre||^2, weight > 0, to a solver's tolerance: any u serves a bound.

    >>> from probreg.online.losses import ABSOLUTE
    >>> penalised_comparator(np.eye(2), np.array([3.0, 0.1]), ABSOLUTE, 0.5, np.zeros(2)).round(6)
    array([1. , 0.1])
    """
    from scipy.optimize import minimize

    start = X @ centre
    if loss.name in ("squared", "logistic", "binomial", "poisson"):
        k = y[:, 0] if y.ndim == 2 else y
        n = y[:, 1] if y.ndim == 2 else np.ones(len(y))
        squared = loss.name == "squared"

        def f(v: Array) -> tuple[float, Array]:
            eta = start + X @ v
            if squared:
                slope = 2 * (eta - k)
            else:
                slope = n * loss.mean(eta) - k
            if loss.name in ("logistic", "binomial"):
                value = np.logaddexp(0, eta)
            else:
                value = loss.mean(eta)
            if squared:
                lost = np.sum((eta - k) ** 2)
            else:
                lost = np.sum(n * value - k * eta)
            return float(lost + weight * v @ v), X.T @ slope + 2 * weight * v

        return (
            centre
            + minimize(
                f,
                np.zeros(X.shape[1]),
                jac=True,
                method="L-BFGS-B",
                options={"gtol": 1e-9},
            ).x
        )
    # max over a in [0, 1/(2 weight)] of b'a - |Z'a|^2 / 2, each a of an affine piece l = (b_i - z_i'v)_+; v = Z'a.
    if loss.name == "hinge":
        Z = y[:, None] * X
        b = loss.c - y * start
    else:
        c = loss.c if loss.name == "insensitive" else 0.0
        Z = np.vstack([X, -X])
        b = np.r_[y - start - c, start - y - c]

    def dual(a: Array) -> tuple[float, Array]:
        v = Z.T @ a
        return float(v @ v / 2 - b @ a), Z @ v - b

    box = [(0.0, 1 / (2 * weight))] * len(b)
    with np.errstate(
        divide="ignore"
    ):  # of rows that are all alike, in a matrix of the solver's that is not used
        return (
            centre
            + Z.T
            @ minimize(
                dual, np.zeros(len(b)), jac=True, method="L-BFGS-B", bounds=box
            ).x
        )


def widest_margin(X: Array, y: Array) -> Array | None:
    """The shortest u with y_i u'x_i >= 1 for all i, of margin 1/||u||; None when no u separates (y = -1, +1).

    The least distance programme of Lawson & Hanson (1974, ch. 23), by non-negative least squares on the rows that bind:
    rows that the answer violates join until none does.

    >>> widest_margin(np.array([[2.0, 0.0], [0.0, 1.0]]), np.array([1.0, -1.0]))
    array([ 0.5, -1. ])
    """
    Z = y[:, None] * X
    size = float(np.sqrt((Z**2).sum(axis=1).max(initial=0)))
    if size == 0:
        return None
    Z = Z / size
    held = np.unique(
        np.linspace(0, len(Z) - 1, min(len(Z), 4 * X.shape[1] + 20)).astype(int)
    )
    while True:
        u = _shortest(Z[held])
        if u is None:
            return None
        margins = Z @ u
        worst = np.setdiff1d(np.argsort(margins)[:50], held)
        worst = worst[margins[worst] < 1 - 1e-9]
        if not worst.size:
            return u / size if margins.min() > 0 else None
        held = np.concatenate([held, worst])


def _shortest(Z: Array) -> Array | None:
    from scipy.optimize import nnls

    E = np.vstack([Z.T, np.ones(len(Z))])
    f = np.r_[np.zeros(Z.shape[1]), 1.0]
    # min |u| with Zu >= 1 from min |Ez - f| over z >= 0: u = -r_(1..p) / r_(p+1), r = f - Ez, and r_(p+1) = |r|^2 at the minimum.
    z, norm = nnls(E, f, maxiter=100 * len(Z))
    r = f - E @ z
    return None if norm < 1e-8 else -r[:-1] / (r @ r)


def entropic(
    F: Array, weight: float, pull: float, start: Array, scale: float = 1.0
) -> Array:
    """The u = (v+ - v-) scale or v, v on the simplex, with the least weight L_u + pull d(v, start), d relative entropy.

    start (p,) holds v, or (2p,) the two halves. Whatever is returned is on the simplex, so a bound computed from it holds.
    """
    from scipy.optimize import minimize

    p = len(F) - 1
    if len(start) == p:
        fold = np.eye(p)
    else:
        fold = scale * np.hstack([np.eye(p), -np.eye(p)])
    R = F[:, :-1] @ fold
    z = F[:, -1]
    unit = max(float(z @ z) * weight, pull, 1e-300)

    def f(theta: Array) -> tuple[float, Array]:
        v = np.exp(theta - theta.max())
        v /= v.sum()
        e = R @ v - z
        d = np.log(np.maximum(v, 1e-300) / start)
        # dv/d theta = diag(v) - vv': over theta the slope is v (g - v'g), in which the 1 of d(v log v)/dv cancels.
        g = weight * 2 * (R.T @ e) + pull * d
        return float(weight * e @ e + pull * v @ d) / unit, v * (g - v @ g) / unit

    theta = np.asarray(
        minimize(
            f, np.log(start), jac=True, method="L-BFGS-B", options={"gtol": 1e-12}
        ).x
    )
    v = np.exp(theta - theta.max())
    return np.asarray(v / v.sum())


def relative_entropy(v: Array, start: Array) -> float:
    """sum v log(v / start), with 0 log 0 = 0."""
    held = v > 0
    return float(np.sum(v[held] * np.log(v[held] / start[held])))


def widest_simplex(X: Array, y: Array, positive: bool, norm: float) -> Array:
    """The u on the simplex (positive), or with ||u||_1 <= norm, of the widest margin min y u'x: a linear programme."""
    from scipy.optimize import linprog

    n, p = X.shape
    Z = y[:, None] * X
    A = np.column_stack([-Z, Z, np.ones(n)])
    b = np.zeros(n)
    total = np.r_[np.ones(2 * p), 0.0][None]
    bounds = [(0, None)] * p + [(0, 0) if positive else (0, None)] * p + [(None, None)]
    # max t over (a, b, t): t <= y_i (a - b)'x_i, a, b >= 0, sum (a + b) = norm.
    found = linprog(
        np.r_[np.zeros(2 * p), -1.0],
        A_ub=A,
        b_ub=b,
        A_eq=total,
        b_eq=[norm],
        bounds=bounds,
    )
    return np.asarray(found.x[:p] - found.x[p : 2 * p])
