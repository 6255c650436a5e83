"""Theorems on regret and mistakes: each is a function from a run to its Guarantee.

Each bound is valid for every comparator u; the default u has the smallest bound, if it is easy to compute. The proofs are
one line each: in every round the potential d(u, w_t) falls by the learner's loss minus the comparator's, and in total it falls
by at most d(u, w_1). q is ||x||^2, r^2 its largest value, L_u the loss of u.

Guarantees of learners of functions.

A run on rows x with the kernel k is equivalent to a run on columns: with Phi Phi' = K over the rows of the run and u = Phi'b,
u'phi(x) is f = sum_i b_i k(x_i, .), and ||f|| = ||u||. So the theorems of Euclidean learners apply to phi(x), with k(x, x) for ||x||^2.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import rel_entr, softmax

import probreg.online.guarantee as best
from probreg.arguments import scalars
from probreg.errors import Incompatible
from probreg.kernels.base import RowPairs
from probreg.linalg import triangular
from probreg.online.guarantee import NOT_OF_LOSS, Assumption, Guarantee
from probreg.online.learner import RLS, Gradient, Learner
from probreg.online.recipes import KernelLearner
from probreg.online.rounds import Rounds
from probreg.online.updates import (
    IMPLICIT,
    LOSSES,
    NORMALISED,
    PERCEPTRON,
    PLAIN,
    SQUARED,
    Array,
    Euclid,
    Signed,
    Simplex,
    State,
)

Theorem = Callable[[Rounds, Array | None], Guarantee]
NOT_CONVEX = Assumption("the loss is convex in the weights", None, False)


def theorem_guarantee(path: Rounds, u: Array | None) -> Guarantee:
    """Return the guarantee of the first theorem for this learner; raise Incompatible if there is none."""
    theorem = theorem_of(path.learner)
    if theorem is None:
        raise Incompatible(
            f"there is no theorem for {path.learner!r}; path.regret() needs none"
        )
    return replace(theorem(path, u), sampling=sampling_assumptions(path))


def theorem_of(learner: Learner) -> Theorem | None:
    """Return the theorem for this learner, None if there is none."""
    if isinstance(learner, RLS):
        return squared_loss_theorem
    if not isinstance(learner, Gradient):
        return None
    loss = learner.loss.function
    is_plain = learner.rate.kind == PLAIN
    if learner.rate.power == 0:
        if learner.bare and loss is SQUARED.function:
            return squared_loss_theorem
        if learner.bare and is_plain and loss is PERCEPTRON.function:
            return perceptron_theorem
        is_exponentiated = isinstance(learner.geometry, Simplex | Signed)
        if is_exponentiated and is_plain and loss is SQUARED.function:
            return exponentiated_gradient_theorem
    # The perceptron's slope at the kink of its loss is the slope of a mistake; there is no theorem on the loss for it.
    is_descent = isinstance(learner.geometry, Euclid) and is_plain
    if is_descent and not learner.conservative:
        return descent_theorem
    return None


def sampling_assumptions(path: Rounds) -> tuple[Assumption, ...]:
    """Return the assumptions of online to batch: E[l_t(w_t) | the rows before t] is the risk of w_t."""
    before = Assumption("the rows of the earlier run are not among these", None, None)
    return (
        Assumption(
            "every row is seen once (passes = 1)", path.passes, path.passes == 1
        ),
        *((before,) if path.start.t else ()),
        Assumption("rows are independent draws of one distribution", None, None),
        Assumption(
            "the learner and its constants were fixed before the rows were seen",
            None,
            None,
        ),
    )


# ------------------------------------------------------------------------------- squared loss, Euclidean potential
def _linear_bound(
    path: Rounds,
    u: Array | None,
    theorem: str,
    source: str,
    A: float,
    B: float,
    assumptions: tuple[Assumption, ...] = (),
    *,
    C: float = 0.0,
    moments: Array | None = None,
) -> Guarantee:
    """Return the guarantee loss <= A L_u + B ||u - w_1||^2 + C.

    L_u is the loss of u on the rows with these `moments`, by default the rows of the path.
    """
    F = path.moments if moments is None else moments
    start = path.start.w
    if u is None:
        holds = all(a.holds for a in assumptions)
        u = best.ridge_comparator(F, B / A if holds else 0.0, start)
    # L_u = sum_t (y_t - u'x_t)^2 = |F (u, -1)|^2 with F'F the moments of [X y].
    comparator_loss = float(np.sum((F @ np.r_[u, -1.0]) ** 2))
    return Guarantee(
        theorem,
        source,
        quantity="cumulative squared loss",
        cumulative_loss=path.loss,
        bound=A * comparator_loss + B * float(np.sum((u - start) ** 2)) + C,
        rounds=path.totals.rounds,
        assumptions=assumptions,
        comparator=u,
        comparator_loss=comparator_loss,
    )


def squared_loss_theorem(path: Rounds, u: Array | None) -> Guarantee:
    learner = path.learner
    r2 = path.totals.largest
    if isinstance(learner, RLS):
        return _ridge_forecaster(path, u, learner)
    assert isinstance(learner, Gradient)
    s = learner.rate.step
    if learner.rate.kind == IMPLICIT:
        # d falls by step e^2/(1 + step q) - step L_u: no condition on the step
        A = 1 + s * r2
        return _linear_bound(path, u, "implicit step", "potential argument", A, A / s)
    if learner.rate.kind == NORMALISED:
        # d falls by step [e^2 - g^2/(1 - step)]/(eps + q), g the residual of u
        if path.data is None or len(path.losses) != path.totals.rounds:
            raise Incompatible(
                "the bound of a normalised step needs the rows and the loss of each round: pass arrays X and y, and leave "
                "out Record(rows=False)"
            )
        X, y = path.data
        size = np.sqrt(learner.rate.eps + np.einsum("ij,ij->i", X, X))
        scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
        one_pass = triangular(X * scale[:, None], y * scale).astype(float)
        bound = _linear_bound(
            path,
            u,
            "normalised least mean squares",
            "potential argument",
            1 / (1 - s) if s < 1 else np.inf,
            1 / s,
            (Assumption("step < 1", s, s < 1),),
            moments=one_pass * np.sqrt(path.passes),
        )
        return replace(
            bound,
            quantity="cumulative squared loss over eps + ||x||^2",
            cumulative_loss=float(np.square(scale[path.order]) @ path.losses),
            of_loss=NOT_OF_LOSS,
        )
    return _linear_bound(
        path,
        u,
        "Widrow-Hoff",
        "Cesa-Bianchi, Long & Warmuth 1996",
        1 / (1 - s * r2) if s * r2 < 1 else np.inf,
        1 / s,
        (Assumption("step ||x||^2 < 1", s * r2, s * r2 < 1),),
    )


def _ridge_forecaster(path: Rounds, u: Array | None, learner: RLS) -> Guarantee:
    """L <= L_u + precision ||u||^2 + max e^2 log det(I + X'X / precision), e the errors met.

    sum e^2 / (1 + h) = min_u [L_u + precision ||u||^2] exactly, h = x'A^-1 x with A before the row, and
    e^2 h / (1 + h) <= max e^2 log(1 + h), where the logs add up to the log determinant.
    """
    lam = learner.precision
    first = learner.init(len(path.start.w))
    same = np.array_equal(path.start.w, first.w) and np.array_equal(
        path.start.memory["factor"], first.memory["factor"]
    )
    assumptions = (
        Assumption("precision > 0", lam, lam > 0),
        Assumption("forgetting = 1", learner.forgetting, learner.forgetting == 1),
        Assumption(
            "the run starts at round 1, from no weights",
            path.start.t + 1,
            path.start.t == 0 and same,
        ),
    )
    # log det(1 + X'X / lambda) = sum_j log(1 + d_j^2 / lambda), d_j the singular values of X.
    squares = np.linalg.svd(path.moments[:-1, :-1], compute_uv=False) ** 2
    if lam > 0:
        C = path.totals.worst * float(np.log1p(squares / lam).sum())
    else:
        C = np.inf
    source = "Azoury & Warmuth 2001; Cesa-Bianchi & Lugosi 2006, theorem 11.7"
    return _linear_bound(
        path, u, "ridge forecaster", source, 1.0, lam, assumptions, C=C
    )


@scalars.check_arguments
def widrow_hoff_pass(
    comparator_loss: scalars.NonNegative,
    distance: scalars.NonNegative,
    step: scalars.Positive,
    largest: scalars.NonNegative,
) -> float:
    """Return the largest squared loss of least mean squares over a pass from w_1: ((sqrt(L_u) + sqrt(L_u + k D)) / k)^2.

    D = ||u - w_1||^2 / step and k = 2 - step max ||x||^2 > 0. The potential falls by step (k e^2 - 2 e g) at least, g
    the residual of u, so that k L <= 2 sqrt(L L_u) + D.

    Parameters
    ----------
    comparator_loss : float
        L_u, the loss of the comparator.
    distance : float
        ||u - w_1||^2.
    step : float
        Positive.
    largest : float
        max ||x||^2.

    Returns
    -------
    float
        The bound; inf if k <= 0.

    Examples
    --------
    >>> widrow_hoff_pass(0.0, 1.0, 1.0, 1.0)
    1.0
    """
    # k L - 2 (L L_u)^(1/2) <= D, a quadratic in L^(1/2).
    k = 2 - step * largest
    D = distance / step
    if k > 0:
        roots = np.sqrt(comparator_loss) + np.sqrt(comparator_loss + k * D)
        return float(roots / k) ** 2
    return np.inf


# ----------------------------------------------------------------------------------- squared loss, relative entropy
def exponentiated_gradient_theorem(path: Rounds, u: Array | None) -> Guarantee:
    """L <= L_u / (1 - step R^2/4) + 2 d(u, w_1) / step, R the range of the values within a row (signed: of (x, -x) norm).

    Kivinen & Warmuth's eta is step / 2, and Hoeffding's lemma gives the fall step (e^2 - e g) - step^2 e^2 R^2 / 8.
    """
    learner = path.learner
    assert isinstance(learner, Gradient)
    step = learner.rate.step
    norm = learner.geometry.size
    R = path.totals.spread
    if isinstance(learner.geometry, Signed):
        R = 2 * norm * R
    start = softmax(path.start.memory["theta"])
    rate = step * R**2 / 4
    small = Assumption(
        "step R^2 / 4 < 1, R the range of a row's values", rate, rate < 1
    )
    A = 1 / (1 - rate) if rate < 1 else 1.0
    # The comparator of the least bound: argmin_v A L_v + (2 / step) d(v, w_1), d the relative entropy.
    if u is None:
        v = best.entropic_comparator(path.moments, A, 2 / step, start, norm)
    else:
        v = _unfold_simplex(u, start, norm)
    w = v
    if len(v) > len(path.start.w):
        w = norm * (v[: len(v) // 2] - v[len(v) // 2 :])
    comparator_loss = path.loss_of(w)
    inside = bool(v.min() >= 0 and abs(v.sum() - 1) < 1e-9)
    if isinstance(learner.geometry, Signed):
        size = float(np.abs(w).sum())
        reachable = Assumption(f"||u||_1 <= norm = {norm:g}", size, inside)
    else:
        advice = "" if inside else "; eg_pm takes other weights"
        reachable = Assumption(f"u >= 0 with sum 1{advice}", float(v.sum()), inside)
    first = learner.geometry.weights(path.start.memory["theta"])
    distance = float(np.abs(first - path.start.w).max())
    start_of_exponents = Assumption(
        "the first weights are those of their exponents",
        distance,
        distance < 1e-9 and start.min() > 0,
    )
    entropy = float(rel_entr(v, start).sum())
    return Guarantee(
        "exponentiated gradient",
        "Kivinen & Warmuth 1997",
        "cumulative squared loss",
        path.loss,
        A * comparator_loss + 2 / step * entropy,
        path.totals.rounds,
        (small, reachable, start_of_exponents),
        w,
        comparator_loss,
    )


def _unfold_simplex(u: Array, start: Array, norm: float) -> Array:
    """Return the point of the simplex for weights u: u itself, or its positive and negative parts with the rest shared."""
    if len(start) == len(u):
        return u
    v = np.concatenate([np.maximum(u, 0), np.maximum(-u, 0)]) / norm
    return v + (1 - v.sum()) / len(v) if v.sum() <= 1 else v


# ------------------------------------------------------------------------------------------------------- mistakes
def perceptron_theorem(path: Rounds, u: Array | None) -> Guarantee:
    X, y = path.rows()
    largest = float(np.abs(path.start.w).max())
    starts_at_zero = Assumption("the weights start at zero", largest, largest == 0)
    return novikoff(
        X,
        y,
        mistakes=path.mistakes,
        rounds=path.totals.rounds,
        largest=path.totals.largest,
        assumptions=[starts_at_zero],
        u=u,
    )


def novikoff(
    X: Array,
    y: Array,
    *,
    mistakes: float,
    rounds: int,
    largest: float,
    assumptions: Sequence[Assumption] = (),
    u: Array | None = None,
) -> Guarantee:
    """M <= (||u|| r + sqrt(||u||^2 r^2 + 4 H))^2 / 4, H = sum max(0, 1 - y u'x), r^2 the `largest` ||x||^2.

    M - H <= u'w_T / step <= ||u|| ||w_T|| / step, and a mistake adds at most r^2 step^2 to ||w||^2: M - H <= ||u|| r sqrt(M).
    H = 0 gives ||u||^2 r^2, that is (r / margin)^2 (Novikoff 1962); Freund & Schapire (1999) for H > 0. X, y are the rows of
    one pass.
    """
    default = u is None
    if u is None:
        u = best.widest_margin(X, y)
    bound = np.inf
    lack = np.nan
    if u is None:
        condition = Assumption("some u separates the classes (margin > 0)", 0.0, False)
        assumptions = [*assumptions, condition]
    else:
        margins = y * (X @ u)
        # u is scaled to margin 1, where the hinge losses H vanish and ||u|| = 1 / margin.
        if margins.min() > 0:
            u = u / margins.min()
            margins = margins / margins.min()
        lack = float(np.maximum(0.0, 1.0 - margins).sum()) * rounds / len(margins)
        # M - H <= (q M)^(1/2) with q = ||u||^2 r^2, a quadratic in M^(1/2).
        q = float(u @ u) * largest
        bound = (np.sqrt(q) + np.sqrt(q + 4 * lack)) ** 2 / 4 if lack >= 1e-9 else q
        if default or lack == 0:
            margin = float(margins.min() / np.sqrt(u @ u))
            condition = Assumption("margin of u / ||u|| > 0", margin, margin > 0)
            assumptions = [*assumptions, condition]
    return Guarantee(
        "Novikoff",
        "Novikoff 1962; Freund & Schapire 1999",
        "mistakes",
        float(mistakes),
        bound,
        rounds,
        tuple(assumptions),
        u,
        lack,
        convex=NOT_CONVEX,
    )


# -------------------------------------------------------------------------------------------- any convex loss
def descent_theorem(path: Rounds, u: Array | None) -> Guarantee:
    """L <= L_u + d (D^2 / (2 step_T) + sum_t step_t slope_t^2 q_t / 2), d slope = dl/df, D >= ||w_t - u|| in each round.

    With a constant step D is ||w_1 - u||; with a falling one it is the diameter of the ball.
    """
    learner = path.learner
    assert isinstance(learner, Gradient)
    if u is None:
        u = path.best()
    radius = learner.geometry.size
    start = path.start.w
    norms = (math.sqrt(u @ u), math.sqrt(start @ start))
    statements = ("u in the ball", "the weights start in the ball")
    assumptions = [
        Assumption(statement, norm, norm <= radius * (1 + 1e-9))
        for statement, norm in zip(statements, norms, strict=True)
    ]
    convex = _convex_assumptions(path, u)
    assumptions += convex
    D = math.sqrt(np.sum((u - start) ** 2))
    if learner.rate.power:
        bounded = bool(np.isfinite(radius))
        assumptions.append(
            Assumption("a ball bounds the weights, as the step falls", radius, bounded)
        )
        D = 2 * radius
    last_step = learner.rate.at(path.state.t, 0.0)
    comparator_loss = path.loss_of(u)
    # sum_t g_t'(w_t - u) <= D^2 / (2 step_T) + sum_t step_t |g_t|^2 / 2 (Zinkevich 2003); by convexity this bounds the regret.
    regret = D**2 / (2 * last_step) + path.totals.gradient_cost / 2
    return Guarantee(
        "online gradient descent",
        "Zinkevich 2003",
        f"cumulative {learner.loss.name} loss",
        path.loss,
        comparator_loss + learner.loss.derivative * regret,
        path.totals.rounds,
        tuple(assumptions),
        u,
        comparator_loss,
        convex=Assumption(NOT_CONVEX.statement, None, None if convex else True),
    )


def _convex_assumptions(path: Rounds, u: Array) -> list[Assumption]:
    """Return nothing for a built-in loss; else check l(u'x) >= l(f) + l'(f) (u'x - f), which the proofs use, in each round."""
    loss = path.learner.loss
    if any(
        loss.function is builtin.function and loss.derivative == builtin.derivative
        for builtin in LOSSES.values()
    ):
        return []
    statement = "l(u'x) >= l(f) + l'(f) (u'x - f) in every round, as for a convex loss"
    if path.data is None or len(path.predictions) != path.totals.rounds:
        return [Assumption(statement, None, None)]
    X, y = path.data
    order = path.order
    smallest = np.inf
    for f, g, b in zip(path.predictions, (X @ u)[order], y[order]):
        value, slope = loss.at(f, b)
        tangent = value + loss.derivative * slope * (g - f)
        smallest = min(smallest, loss.at(g, b)[0] - tangent)
    tolerance = 1e-9 * (1 + path.totals.worst)
    return [Assumption(statement, smallest, smallest >= -tolerance)]


def guarantee_of(path: Rounds, comparator: Array | None) -> Guarantee:
    """Return the guarantee of any learner.

    For a learner of functions `comparator` has the b_i of f = sum_i b_i k(x_i, .) with the rows x_i. The comparator of a run
    that continues another is None, because its f may need other rows.
    """
    if not isinstance(path.learner, KernelLearner):
        return theorem_guarantee(path, comparator)
    flat, Phi = on_columns(path)
    u = None
    if comparator is not None:
        u = Phi.T @ comparator
    elif theorem_of(flat.learner) is descent_theorem:
        raise Incompatible(
            f"no best function for the {flat.learner.loss.name} loss: without a bound on its norm, a function fits every row; pass a comparator"
        )
    guarantee = theorem_guarantee(flat, u)
    assumptions = tuple(
        replace(a, statement=a.statement.replace("||x||^2", "k(x, x)"))
        for a in guarantee.assumptions
    )
    u = guarantee.comparator
    b = None
    if u is not None and not len(path.start.w):
        # u = Phi'b has the b = Phi (Phi'Phi)^-1 u of least norm, and the columns of Phi are orthogonal
        squares = np.square(Phi).sum(axis=0)
        b = Phi @ np.divide(u, squares, out=np.zeros_like(u), where=squares > 0)
    quantity = guarantee.quantity.replace("||x||^2", "k(x, x)")
    return replace(guarantee, assumptions=assumptions, comparator=b, quantity=quantity)


def on_columns(path: Rounds) -> tuple[Rounds, Array]:
    """Return the rounds of a learner of functions as rounds of a learner of columns, and its columns Phi (n, q).

    K = Phi Phi' comes from an eigendecomposition; its time grows with the cube of the number of rows.
    """
    learner = path.learner
    assert isinstance(learner, KernelLearner)
    X, y = path.rows()
    anchors = path.start.memory["anchors"]
    n = len(y)
    rows = np.vstack([X, anchors])
    w, U = np.linalg.eigh(learner.kernel.finite(RowPairs(rows, rows)))
    positive = w > len(rows) * np.finfo(float).eps * w[-1]
    Phi = np.zeros((len(rows), 1))
    if positive.any():
        Phi = U[:, positive] * np.sqrt(w[positive])
    at_anchors = Phi[n:]
    Phi = np.ascontiguousarray(Phi[:n])
    first = learner.flat.init(Phi.shape[1])
    start = State(at_anchors.T @ path.start.w, path.start.t, first.memory)
    flat = replace(
        path,
        learner=learner.flat,
        start=start,
        weights=np.zeros((1, Phi.shape[1])),
        data=(Phi, y),
    )
    return flat, Phi
