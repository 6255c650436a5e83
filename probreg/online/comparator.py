"""The best fixed weights in hindsight, and those with the least bound of a theorem: small convex programmes."""

from collections.abc import Callable

import numpy as np
from scipy.special import expit, softmax

from probreg.errors import NotConverged
from probreg.linalg import evenly_spaced, merge
from probreg.online.updates import Array, Geometry


def ridge_comparator(F: Array, penalty: float, centre: Array) -> Array:
    """Return the u that minimises L_u + penalty ||u - centre||^2, with L_u = ||F (u, -1)||^2 the squared loss of a stream.

    >>> ridge_comparator(np.array([[2.0, 4.0], [0.0, 1.0]]), 4.0, np.zeros(1))
    array([1.])
    """
    # L_u + penalty |u - centre|^2 = |F (u, -1)|^2 + |penalty^(1/2) [I centre] (u, -1)|^2.
    added = np.sqrt(penalty) * np.column_stack([np.eye(len(centre)), centre])
    F = merge(F, added).astype(float)
    return np.asarray(np.linalg.lstsq(F[:-1, :-1], F[:-1, -1], rcond=None)[0])


def least_squares(F: Array, geometry: Geometry) -> Array:
    """Return the u of a set with the least squared loss, and the least norm if the set is free."""
    free = ridge_comparator(F, 0.0, np.zeros(len(F) - 1))
    if np.array_equal(geometry.nearest(free), free):
        return free
    R = F[:, :-1]
    z = F[:, -1]
    # L_u = u'Gu - 2 c'u + |z|^2: gradient 2 (Gu - c), curvature at most 2 |G|.
    G = R.T @ R
    c = R.T @ z
    return _descend(
        lambda u: (float(u @ G @ u - 2 * c @ u), 2 * (G @ u - c)),
        geometry,
        len(c),
        2 * np.linalg.norm(G, 2),
    )


def _descend(
    f: Callable[[Array], tuple[float, Array]],
    geometry: Geometry,
    p: int,
    curvature: float,
) -> Array:
    """Return the minimiser on a convex set by accelerated projected gradient with restarts (Beck & Teboulle 2009).

    NotConverged where the curvature differs so much between directions that 20,000 steps do not reach it.
    """
    u = v = geometry.nearest(np.zeros(p))
    momentum = 1.0
    smallest = np.inf
    for _ in range(20_000):
        new = geometry.nearest(v - f(v)[1] / curvature)
        value = f(new)[0]
        is_last = momentum > 1 and np.abs(new - u).max() <= 1e-13 * (
            1 + np.abs(u).max()
        )
        if is_last:
            return new
        if value > smallest:
            v = u
            momentum = 1.0
            smallest = np.inf
            continue
        # t_(k+1) = (1 + (1 + 4 t_k^2)^(1/2)) / 2, v = u_(k+1) + (t_k - 1) / t_(k+1) (u_(k+1) - u_k).
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        v = new + (momentum - 1) / after * (new - u)
        u = new
        momentum = after
        smallest = value
    raise NotConverged(
        "the best fixed weights were not found, because the columns differ too much in size: pass a comparator, or divide each "
        "column by its standard deviation"
    )


def least_logistic(X: Array, y: Array, geometry: Geometry) -> Array:
    """Return the u with the least logistic loss over rows."""
    from scipy.optimize import minimize

    size = np.linalg.norm(X, axis=0)
    size = np.where(size > 0, size, 1.0)
    U, d, V = np.linalg.svd(X / size, full_matrices=False)
    kept = d > d.max(initial=0.0) * max(X.shape) * np.finfo(float).eps
    # eta = U v of orthonormal columns, so that the scales and correlations of the columns do not slow the search
    start = np.zeros(int(kept.sum()))
    options = {"gtol": 1e-9, "ftol": 0.0}
    loss = _logistic_loss(U[:, kept], y)
    v = minimize(loss, start, jac=True, method="L-BFGS-B", options=options).x
    u = V[kept].T @ (v / d[kept]) / size
    if np.array_equal(geometry.nearest(u), u):
        return u
    # the second derivative of log(1 + exp) is at most 1/4
    curvature = np.linalg.norm(X, 2) ** 2 / 4
    return _descend(_logistic_loss(X, y), geometry, X.shape[1], curvature)


def _logistic_loss(X: Array, y: Array) -> Callable[[Array], tuple[float, Array]]:
    def loss_and_gradient(u: Array) -> tuple[float, Array]:
        # L_u = sum_i log(1 + exp eta_i) - y_i eta_i; its gradient is X'(mean - y).
        eta = X @ u
        value = float(np.sum(np.logaddexp(0, eta) - y * eta))
        return value, X.T @ (expit(eta) - y)

    return loss_and_gradient


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
    active = evenly_spaced(len(Z), 4 * X.shape[1] + 20)
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
    F: Array, weight: float, penalty: float, start: Array, scale: float
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
