"""The bound of a theorem for one run, with its assumptions; the best fixed weights in hindsight, and the steps that minimise bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.special import expit, softmax

from probreg.arguments.scalars import (
    NonNegative,
    Positive,
    Probability,
    check_arguments,
)
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.linalg import evenly_spaced, merge
from probreg.online.updates import Array, Euclid, Geometry
from probreg.scores.assumptions import Assumption
from probreg.system.terminal import clean_lines

CONVEX = Assumption("the loss is convex in the weights", None, True)
OF_LOSS = Assumption("the bounded quantity is the learner's loss", None, True)
NOT_OF_LOSS = Assumption(OF_LOSS.statement, None, False)


@dataclass(frozen=True, eq=False)
class Guarantee:
    """A theorem's bound for the rounds of one run: `cumulative_loss` <= `bound` if it `applies`.

    A bound on new rows (online to batch) also needs the assumptions in `sampling`: rows that are seen once and drawn independently,
    and constants that are fixed before the rows. `convex` is whether the loss is convex in the weights, which the averaged weights need; for
    mistakes, which are not convex, there are bounds for the vote and for random weights. `of_loss` is whether the theorem
    bounds the loss that the learner reports; other quantities give no bound of the risk.
    """

    theorem: str
    source: str
    quantity: str
    cumulative_loss: float
    bound: float
    rounds: int
    assumptions: tuple[Assumption, ...]
    comparator: Array | None = None
    comparator_loss: float = np.nan
    sampling: tuple[Assumption, ...] = ()
    convex: Assumption = CONVEX
    of_loss: Assumption = OF_LOSS

    def __post_init__(self) -> None:
        if not self.applies:
            object.__setattr__(self, "bound", np.inf)

    @property
    def applies(self) -> bool:
        """Whether no assumption failed so far; see `assumptions` for assumptions that cannot be checked."""
        return all(a.holds is not False for a in self.assumptions)

    @property
    def holds(self) -> bool:
        """Whether the cumulative loss is within the bound, up to rounding."""
        return self.cumulative_loss <= self.bound * (1 + 1e-9) + 1e-9

    @property
    def risk(self) -> float:
        """bound / rounds. Its mean over samples bounds the mean loss of `Run.average()` on a new row.

        Source: Cesa-Bianchi, Conconi & Gentile 2004, by Jensen's inequality. Raises Incompatible if
        an assumption fails, for example for rows seen twice, or for mistakes (see `random_risk`, `vote_risk`).
        """
        return self._risk_of("the averaged weights", 1.0, self.convex)

    @property
    def random_risk(self) -> float:
        """bound / rounds. Its mean bounds the mean loss on a new row of `Run.draw()`, the weights of a random round.

        The loss need not be convex. Raises Incompatible if an assumption fails.
        """
        return self._risk_of("weights drawn at random", 1.0)

    @property
    def vote_risk(self) -> float:
        """2 bound / rounds. Its mean bounds the probability of an error of `Run.vote` on a new row.

        The vote is wrong only if half of the weight vectors are (Freund & Schapire 1999). Raises Incompatible for
        quantities other than mistakes, and if an assumption fails.
        """
        if self.quantity != "mistakes":
            raise Incompatible(
                f"vote_risk needs a bound on mistakes, and this one is on the {self.quantity}: see `risk`"
            )
        return self._risk_of("the vote", 2.0)

    @check_arguments
    def random_risk_limit(self, delta: Probability = 0.05) -> float:
        """Return a bound on the mean error rate of `Run.draw()`, valid with probability 1 - delta over samples.

        It is cumulative_loss / rounds + sqrt(log(1/delta) / (2 rounds)); twice it bounds the error rate of the vote.
        It uses the rows only, not the theorem: Hoeffding-Azuma for losses in [0, 1] (Cesa-Bianchi, Conconi & Gentile 2004).
        Raises Incompatible for quantities other than mistakes, and for rows seen more than once.
        """
        if self.quantity != "mistakes":
            raise Incompatible(
                f"random_risk_limit needs a bound on mistakes, and this one is on the {self.quantity}"
            )
        self._require_assumptions("weights drawn at random", self.sampling)
        # Hoeffding-Azuma: P(mean risk - mean loss >= t) <= exp(-2 T t^2) for losses in [0, 1], solved for t at delta.
        return self.cumulative_loss / self.rounds + float(
            np.sqrt(np.log(1 / delta) / (2 * self.rounds))
        )

    def _risk_of(self, estimate: str, factor: float, *extra: Assumption) -> float:
        self._require_assumptions(
            estimate, (*self.assumptions, *self.sampling, self.of_loss, *extra)
        )
        return factor * self.bound / self.rounds

    def _require_assumptions(
        self, estimate: str, needed: tuple[Assumption, ...]
    ) -> None:
        if not self.sampling:
            raise Incompatible(
                f"no bound for {estimate} on a new row: these are the passes of a fit, not one run"
            )
        failed = [str(a) for a in needed if a.holds is False]
        if failed:
            raise Incompatible(
                f"no bound for {estimate} on a new row: {'; '.join(failed)}"
            )

    def __str__(self) -> str:
        head = (
            f"{self.theorem} ({self.source}): {self.quantity} {self.cumulative_loss:.6g}, "
            f"bound {self.bound:.6g}"
        )
        verdict = "  the bound does not apply"
        if self.applies:
            verdict = "  the bound applies"
            if any(a.holds is None for a in self.assumptions):
                verdict += " if the assumptions that cannot be checked hold"
        lines = [head, *(f"  {a}" for a in self.assumptions), verdict]
        return clean_lines(*lines, *self._risk_lines())

    def _risk_lines(self) -> list[str]:
        """Return the printed lines about a new row."""
        if not self.sampling:
            return []
        try:
            if self.quantity == "mistakes":
                rate = min(self.random_risk, 1.0)
                vote = min(self.vote_risk, 1.0)
                bound = f"error rate of random weights at most {rate:.4g}, of their vote at most {vote:.4g}"
            else:
                quantity = self.quantity.removeprefix("cumulative ")
                bound = (
                    f"mean {quantity} of the averaged weights at most {self.risk:.4g}"
                )
        except Incompatible as error:
            return [f"  {error}"]
        unchecked = [
            f"    {a}" for a in (*self.sampling, self.convex) if a.holds is None
        ]
        return [f"  on a new row, in the mean over samples: {bound}", *unchecked]


@check_arguments
def additive_step(
    x_norm: Positive,
    u_norm: Positive | None = None,
    u_loss: NonNegative | None = None,
) -> float:
    """Return the step that minimises Widrow-Hoff's bound L_u / (1 - step r^2) + ||u||^2 / step.

    Its least value is (sqrt(L_u) + ||u|| r)^2. Without a comparator, step = 1 / (2 r^2).

    Parameters
    ----------
    x_norm : float
        A bound r on ||x|| of every row.
    u_norm : float, optional
        The norm of the comparator u; positive.
    u_loss : float, optional
        The loss L_u of the comparator over the rounds.

    Returns
    -------
    float
        The step.

    Examples
    --------
    >>> additive_step(1.0, 2.0, 4.0)
    0.5
    """
    # z = step r^2: the bound is L_u / (1 - z) + (|u| r)^2 / z.
    _require_both("u_norm", u_norm, u_loss)
    return _best_split((u_norm or 0.0) * x_norm, u_loss) / x_norm**2


@check_arguments
def multiplicative_step(
    spread: Positive,
    entropy: Positive | None = None,
    u_loss: NonNegative | None = None,
) -> float:
    """Return the step that minimises L_u / (1 - step R^2 / 4) + 2 d / step, the bound of exponentiated gradient.

    Without a comparator, step = 2 / R^2.

    Parameters
    ----------
    spread : float
        R, the largest range of the values within a row.
    entropy : float, optional
        d, the relative entropy of the comparator to the start; positive.
    u_loss : float, optional
        The loss L_u of the comparator over the rounds.

    Returns
    -------
    float
        The step.

    Examples
    --------
    >>> multiplicative_step(2.0, 2.0, 4.0)
    0.5
    """
    # z = step R^2 / 4: the bound is L_u / (1 - z) + (R^2 d / 2) / z.
    _require_both("entropy", entropy, u_loss)
    return 4 * _best_split(spread * np.sqrt((entropy or 0.0) / 2), u_loss) / spread**2


def _require_both(name: str, size: float | None, u_loss: float | None) -> None:
    """Raise DataError if only one of two values of the comparator is given, because one alone has no effect."""
    if (size is None) != (u_loss is None):
        raise DataError(f"{name}= and u_loss= go together: give both or neither")


def _best_split(b: float, u_loss: float | None) -> float:
    """Return the z that minimises L_u / (1 - z) + b^2 / z, kept below 1."""
    # d/dz [L / (1 - z) + b^2 / z] = 0 at z = b / (L^(1/2) + b).
    if u_loss is None:
        return 0.5
    return float(min(b / (np.sqrt(u_loss) + b), 1 - 1e-6))


def ridge_comparator(F: Array, penalty: float, centre: Array) -> Array:
    """Return the u that minimises L_u + penalty ||u - centre||^2, with L_u = ||F (u, -1)||^2 the squared loss of a stream.

    >>> ridge_comparator(np.array([[2.0, 4.0], [0.0, 1.0]]), 4.0, np.zeros(1))
    array([1.])
    """
    # L_u + penalty |u - centre|^2 = |F (u, -1)|^2 + |penalty^(1/2) [I centre] (u, -1)|^2.
    added = np.sqrt(penalty) * np.column_stack([np.eye(len(centre)), centre])
    F = merge(F, added).astype(float)
    return np.linalg.lstsq(F[:-1, :-1], F[:-1, -1], rcond=None)[0]


def least_squares(F: Array, geometry: Geometry) -> Array:
    """Return the u of a set with the least squared loss, and the least norm if the set is free."""
    free = ridge_comparator(F, 0.0, np.zeros(len(F) - 1))
    if np.array_equal(geometry.nearest(free), free):
        return free
    R = F[:, :-1]
    z = F[:, -1]
    if isinstance(geometry, Euclid):
        return geometry.nearest(_least_in_ball(R, z, geometry.radius))
    # L_u = u'Gu - 2 c'u + |z|^2: gradient 2 (Gu - c), curvature at most 2 |G|.
    G = R.T @ R
    c = R.T @ z
    return _descend(
        lambda u: (float(u @ G @ u - 2 * c @ u), 2 * (G @ u - c)),
        geometry,
        len(c),
        2 * np.linalg.norm(G, 2),
    )


def _least_in_ball(R: Array, z: Array, radius: float) -> Array:
    """Return the u in a ball with the least ||R u - z||, where the free minimiser is outside it."""
    from scipy.optimize import brentq

    # u(lam) = (R'R + lam I)^-1 R'z with R = U diag(s) V, and ||u(lam)|| = radius, which falls with lam and is at most ||R'z|| / lam
    U, s, V = np.linalg.svd(R, full_matrices=False)
    kept = s > s.max() * max(R.shape) * np.finfo(float).eps
    s, V = s[kept], V[kept]
    c = s * (U.T @ z)[kept]
    excess = lambda lam: np.linalg.norm(c / (s**2 + lam)) - radius
    lam = 0.0
    if excess(0.0) > 0.0:
        lam = brentq(excess, 0.0, np.linalg.norm(c) / radius, xtol=1e-300, maxiter=2000)
    return V.T @ (c / (s**2 + lam))


def _descend(
    f: Callable[[Array], tuple[float, Array]],
    geometry: Geometry,
    p: int,
    curvature: float,
) -> Array:
    """Return the minimiser on a convex set by accelerated projected gradient with restarts (Beck & Teboulle 2009).

    NotConverged if 20,000 steps do not reach it, because the curvature differs too much between directions.
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
    v = minimize(
        _logistic_loss, start, (U[:, kept], y), "L-BFGS-B", jac=True, options=options
    ).x
    u = V[kept].T @ (v / d[kept]) / size
    if np.array_equal(geometry.nearest(u), u):
        return u
    # the second derivative of log(1 + exp) is at most 1/4
    curvature = np.linalg.norm(X, 2) ** 2 / 4
    loss = partial(_logistic_loss, X=X, y=y)
    return _descend(loss, geometry, X.shape[1], curvature)


def _logistic_loss(u: Array, X: Array, y: Array) -> tuple[float, Array]:
    """Return L_u = sum_i log(1 + exp eta_i) - y_i eta_i and its gradient X'(mean - y)."""
    eta = X @ u
    value = np.sum(np.logaddexp(0, eta) - y * eta)
    return value, X.T @ (expit(eta) - y)


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

    u is v, or (v+ - v-) scale of its two halves if start has 2p entries. The result is on the simplex, so a bound for it is valid.
    """
    from scipy.optimize import minimize

    p = len(F) - 1
    if len(start) == p:
        fold = np.eye(p)
    else:
        fold = scale * np.hstack([np.eye(p), -np.eye(p)])
    R = F[:, :-1] @ fold
    z = F[:, -1]
    unit = max(z @ z * weight, penalty, 1e-300)

    def objective(theta: Array) -> tuple[float, Array]:
        v = softmax(theta)
        e = R @ v - z
        d = np.log(np.maximum(v, 1e-300) / start)
        # dv/d theta = diag(v) - vv': over theta the slope is v (g - v'g); the 1 of d(v log v)/dv = log v + 1 cancels.
        g = weight * 2 * (R.T @ e) + penalty * d
        value = weight * e @ e + penalty * v @ d
        return value / unit, v * (g - v @ g) / unit

    options = {"gtol": 1e-12}
    theta = minimize(
        objective, np.log(start), jac=True, method="L-BFGS-B", options=options
    ).x
    return softmax(theta)
