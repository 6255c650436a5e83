"""Theorems on regret and mistakes, each a function from a run to its Guarantee.

Each bound holds for every comparator u; the one shown is for the u that makes it smallest (where that is a small
programme) or for the u given. Proofs are one line each: the potential d(u, w_t) falls by what is suffered, up to what u
suffers, and adds up to at most d(u, w_1). q stands for ||x||^2, r^2 for its largest value, L_u for the loss of u.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

import probreg.online.comparator as best
from probreg.errors import Incompatible
from probreg.online.guarantee import NOT_OF_LOSS, OF_LOSS, Assumption, Guarantee
from probreg.online.learner import Gradient, Learner
from probreg.online.losses import HINGE, LOSSES, PERCEPTRON, SQUARED, Loss
from probreg.online.parts import (
    IMPLICIT,
    NORMALISED,
    PASSIVE,
    PLAIN,
    Array,
    Euclid,
    Signed,
    Simplex,
)
from probreg.online.rounds import Rounds
from probreg.online.second_order import RLS

Theorem = Callable[[Rounds, Array | None], Guarantee]
NOT_CONVEX = Assumption("the loss is convex in the weights", None, False)


def guarantee_of(path: Rounds, u: Array | None) -> Guarantee:
    """The guarantee of the first theorem that speaks of this learner; Incompatible when none here does."""
    for fits, theorem in THEOREMS:
        if fits(path.learner):
            return replace(theorem(path, u), sampling=sampling_of(path))
    raise Incompatible(
        f"no theorem is written down for {path.learner!r}; path.regret() works without one"
    )


def sampling_of(path: Rounds) -> tuple[Assumption, ...]:
    """What online to batch assumes beside the theorem: E[l_t(w_t) | the rows before t] is the risk of w_t."""
    before = Assumption(
        "the run goes on from rows that are not among these", None, None
    )
    return (
        Assumption(
            "every row is seen once (passes = 1)", path.passes, path.passes == 1
        ),
        *((before,) if path.start.t else ()),
        Assumption("rows are independent draws of one law", None, None),
        Assumption(
            "the learner and its constants were fixed before the rows were seen",
            None,
            None,
        ),
    )


def _gradient(learner: Learner, loss: Loss, geometry: type, *kinds: int) -> bool:
    if not isinstance(learner, Gradient):
        return False
    fits = learner.loss.function is loss.function and isinstance(
        learner.geometry, geometry
    )
    fits = fits and learner.rate.kind in kinds and learner.rate.power == 0
    return fits and (learner.bare or not isinstance(learner.geometry, Euclid))


def starts_at_zero(path: Rounds) -> Assumption:
    return Assumption(
        "the weights start at zero",
        float(np.abs(path.start.w).max()),
        not np.any(path.start.w),
    )


# ------------------------------------------------------------------------------- squared loss, Euclidean potential
@dataclass(frozen=True)
class LinearBound:
    """suffered <= A L_u + B ||u - w_1||^2 + C under some assumptions, both losses of rows with the moments given."""

    theorem: str
    source: str
    A: float
    B: float
    suffered: float
    moments: Array
    assumptions: tuple[Assumption, ...] = ()
    C: float = 0.0
    quantity: str = "cumulative squared loss"
    of_loss: Assumption = OF_LOSS


def _of_squared_loss(path: Rounds, u: Array | None) -> Guarantee:
    claim = _linear_bound(path)
    holds = all(a.holds for a in claim.assumptions)
    if u is None:
        u = best.ridge_comparator(
            claim.moments, claim.B / claim.A if holds else 0.0, path.start.w
        )
    # L_u = sum_t (y_t - u'x_t)^2 = |F (u, -1)|^2 with F'F the moments of [X y].
    theirs = float(np.sum((claim.moments @ np.r_[u, -1.0]) ** 2))
    if holds:
        bound = (
            claim.A * theirs
            + claim.B * float(np.sum((u - path.start.w) ** 2))
            + claim.C
        )
    else:
        bound = np.inf
    rest = claim.suffered, bound, path.totals.rounds, claim.assumptions, u, theirs
    return Guarantee(
        claim.theorem, claim.source, claim.quantity, *rest, of_loss=claim.of_loss
    )


def _linear_bound(path: Rounds) -> LinearBound:
    learner = path.learner
    r2 = path.totals.largest
    if isinstance(learner, RLS):
        return _ridge_forecaster(path, learner)
    assert isinstance(learner, Gradient)
    s = learner.rate.step
    own = (path.loss, path.moments)
    if (
        learner.rate.kind == IMPLICIT
    ):  # d falls by step e^2/(1 + step q) - step L_u: no condition on the step
        return LinearBound(
            "implicit step", "potential argument", 1 + s * r2, (1 + s * r2) / s, *own
        )
    if (
        learner.rate.kind == NORMALISED
    ):  # d falls by step [e^2 - g^2/(1 - step)]/(eps + q), g the residual of u
        small = Assumption("step < 1", s, s < 1)
        A = 1 / (1 - s) if s < 1 else np.inf
        of = "cumulative squared loss over eps + ||x||^2"
        scaled = path.totals.normalised, path.normalised_moments
        return LinearBound(
            "normalised least mean squares", "potential argument", A, 1 / s, *scaled, (small,), quantity=of,
            of_loss=NOT_OF_LOSS,
        )  # fmt: skip
    small = Assumption("step ||x||^2 < 1", s * r2, s * r2 < 1)
    A = 1 / (1 - s * r2) if s * r2 < 1 else np.inf
    return LinearBound(
        "Widrow-Hoff", "Cesa-Bianchi, Long & Warmuth 1996", A, 1 / s, *own, (small,)
    )


def _ridge_forecaster(path: Rounds, learner: RLS) -> LinearBound:
    """L <= L_u + precision ||u||^2 + max e^2 log det(I + X'X / precision), e the errors met.

    sum e^2 / (1 + h) = min_u [L_u + precision ||u||^2] exactly, h = x'A^-1 x with A before the row, and
    e^2 h / (1 + h) <= max e^2 log(1 + h), where the logs add up to the log determinant.
    """
    lam = learner.precision
    F = path.moments
    first = learner.init(len(path.start.w))
    same = np.array_equal(path.start.w, first.w) and np.array_equal(
        path.start.memory["factor"], first.memory["factor"]
    )
    known = (
        Assumption("precision > 0", lam, lam > 0),
        Assumption("forgetting = 1", learner.forgetting, learner.forgetting == 1),
        Assumption(
            "the run starts at round 1, from no weights",
            path.start.t + 1,
            path.start.t == 0 and same,
        ),
    )
    # log det(1 + X'X / lambda) = sum_j log(1 + d_j^2 / lambda), d_j the singular values of X.
    squares = np.linalg.svd(F[:-1, :-1], compute_uv=False) ** 2
    if lam > 0:
        C = path.totals.worst * float(np.log1p(squares / lam).sum())
    else:
        C = np.inf
    source = "Azoury & Warmuth 2001; Cesa-Bianchi & Lugosi 2006, theorem 11.7"
    return LinearBound(
        "ridge forecaster", source, 1.0, max(lam, 0.0), path.loss, F, known, C
    )


def widrow_hoff_pass(theirs: float, apart: float, step: float, largest: float) -> float:
    """The largest squared loss of least mean squares over a pass from w_1: ((sqrt(L_u) + sqrt(L_u + k D)) / k)^2.

    D = ||u - w_1||^2 / step and k = 2 - step max ||x||^2 > 0. The potential falls by step (k e^2 - 2 e g) at least, g
    the residual of u, so that k L <= 2 sqrt(L L_u) + D.

    Parameters
    ----------
    theirs : float
        L_u, the loss of the comparator.
    apart : float
        ||u - w_1||^2.
    step : float
        Positive.
    largest : float
        max ||x||^2.

    Returns
    -------
    float
        The bound; inf where k <= 0.

    Examples
    --------
    >>> widrow_hoff_pass(0.0, 1.0, 1.0, 1.0)
    1.0
    """
    # k L - 2 (L L_u)^(1/2) <= D, a quadratic in L^(1/2).
    k = 2 - step * largest
    D = apart / step
    if k > 0:
        return float((np.sqrt(theirs) + np.sqrt(theirs + k * D)) / k) ** 2
    return np.inf


# ----------------------------------------------------------------------------------- squared loss, relative entropy
def _of_exponentiated(path: Rounds, u: Array | None) -> Guarantee:
    """L <= L_u / (1 - step R^2/4) + 2 d(u, w_1) / step, R the range of the values within a row (signed: of (x, -x) norm).

    Kivinen & Warmuth's eta is step / 2, and Hoeffding's lemma gives the fall step (e^2 - e g) - step^2 e^2 R^2 / 8.
    """
    s, norm, R, start = _mirror(path)
    rate = s * R**2 / 4
    small = Assumption(
        "step R^2 / 4 < 1, R the range of a row's values", rate, rate < 1
    )
    A = 1 / (1 - rate) if rate < 1 else 1.0
    # The comparator of the least bound: argmin_v A L_v + (2 / step) d(v, w_1), d the relative entropy.
    if u is None:
        v = best.entropic(path.moments, A, 2 / s, start, norm)
    else:
        v = _unfold_simplex(u, start, norm)
    if len(v) == len(path.start.w):
        w = v
    else:
        w = norm * (v[: len(v) // 2] - v[len(v) // 2 :])
    theirs = float(np.sum((path.moments @ np.r_[w, -1.0]) ** 2))
    known = (small, reachable_assumption(v), _on_the_simplex(path, start))
    if all(a.holds for a in known):
        bound = A * theirs + 2 / s * best.relative_entropy(v, start)
    else:
        bound = np.inf
    rest = path.loss, bound, path.totals.rounds, known, w, theirs
    return Guarantee(
        "exponentiated gradient",
        "Kivinen & Warmuth 1997",
        "cumulative squared loss",
        *rest,
    )


def _mirror(path: Rounds) -> tuple[float, float, float, Array]:
    """step, norm, range R of the values of a row as the simplex sees it, and where on the simplex the run started."""
    learner = path.learner
    assert isinstance(learner, Gradient)
    g = learner.geometry
    start = np.asarray(softmax(path.start.memory["theta"]))
    if isinstance(g, Simplex):
        R = path.totals.spread
    else:
        R = 2 * g.size * path.totals.spread
    return learner.rate.step, g.size, R, start


def reachable_assumption(v: Array) -> Assumption:
    inside = bool(v.min() >= 0 and abs(v.sum() - 1) < 1e-9)
    return Assumption("u in the set the learner can reach", float(v.sum()), inside)


def _on_the_simplex(path: Rounds, start: Array) -> Assumption:
    """The weights of a state given by hand may not be those of its theta."""
    learner = path.learner
    assert isinstance(learner, Gradient)
    away = float(
        np.abs(
            learner.geometry.weights(path.start.memory["theta"]) - path.start.w
        ).max()
    )
    return Assumption(
        "the weights start where their exponents put them",
        away,
        away < 1e-9 and bool(start.min() > 0),
    )


def _unfold_simplex(u: Array, start: Array, norm: float) -> Array:
    """Return the point of the simplex for weights u: u itself, or its positive and negative parts with the rest shared."""
    if len(start) == len(u):
        return u
    v = np.concatenate([np.maximum(u, 0), np.maximum(-u, 0)]) / norm
    return v + (1 - v.sum()) / len(v) if v.sum() <= 1 else v


# ------------------------------------------------------------------------------------------------------- mistakes
def _of_perceptron(path: Rounds, u: Array | None) -> Guarantee:
    learner, X, y = path.learner, *path.rows()
    assert isinstance(learner, Gradient)
    known = [starts_at_zero(path)]
    if learner.batch > 1:
        away = float(np.abs(path.start.memory["pending"]).max())
        known.append(
            Assumption("no correction of an earlier batch is pending", away, away == 0)
        )
    run = Corrections(
        path.mistakes, path.totals.rounds, path.totals.largest, learner.batch
    )
    return novikoff(X, y, run, tuple(known), u)


@dataclass(frozen=True)
class Corrections:
    """What a perceptron did: mistakes in so many rounds, the largest ||x||^2 met, and rounds that share a step."""

    mistakes: float
    rounds: int
    largest: float
    batch: int = 1


def novikoff(
    X: Array,
    y: Array,
    run: Corrections,
    known: tuple[Assumption, ...] = (),
    u: Array | None = None,
) -> Guarantee:
    """M <= (||u|| r sqrt(B) + sqrt(||u||^2 r^2 B + 4 H))^2 / 4, H = sum max(0, 1 - y u'x), steps shared by B rounds.

    M - H <= u'w_T / step <= ||u|| ||w_T|| / step, and a batch of m mistakes adds at most m^2 r^2 step^2 <= m B r^2 step^2 to
    ||w||^2: M - H <= ||u|| r sqrt(B M). H = 0 gives B ||u||^2 r^2, that is B (r / margin)^2; for B rows that are all alike
    it is attained. B = 1: Novikoff (1962); Freund & Schapire (1999) for H > 0. X, y are the rows of one pass.
    """
    given = u is not None
    u = best.widest_margin(X, y) if u is None else u
    if u is None:
        none = Assumption("some u separates the classes (margin > 0)", 0.0, False)
        return _mistakes("Novikoff", run, np.inf, (*known, none), None, np.nan)
    margins = y * (X @ u)
    # u is scaled to margin 1, where the hinge losses H vanish and ||u|| = 1 / margin.
    if margins.min() > 0:
        u = u / margins.min()
        margins = margins / margins.min()
    lack = float(np.maximum(0.0, 1.0 - margins).sum()) * run.rounds / len(margins)
    # M - H <= (q M)^(1/2) with q = ||u||^2 r^2 B, a quadratic in M^(1/2).
    q = float(u @ u) * run.largest * run.batch
    if lack < 1e-9:
        bound = q
    else:
        bound = (np.sqrt(q) + np.sqrt(q + 4 * lack)) ** 2 / 4
    wide = Assumption(
        "margin of u / ||u|| > 0",
        float(margins.min() / np.sqrt(u @ u)),
        bool(margins.min() > 0),
    )
    known = known if given and lack > 0 else (*known, wide)
    return _mistakes(
        "Novikoff",
        run,
        bound if all(a.holds for a in known) else np.inf,
        known,
        u,
        lack,
    )


def _margins(path: Rounds, u: Array) -> Array:
    X, y = path.rows()
    return y * (X @ u)


def _mistakes(
    name: str,
    run: Corrections,
    bound: float,
    known: tuple[Assumption, ...],
    u: Array | None,
    lack: float,
) -> Guarantee:
    sources = {
        "Novikoff": "Novikoff 1962; Freund & Schapire 1999",
        "Winnow": "Littlestone 1988; Mohri et al. 2018",
    }
    rest = float(run.mistakes), bound, run.rounds, known, u, lack
    return Guarantee(name, sources[name], "mistakes", *rest, convex=NOT_CONVEX)


def _of_winnow(path: Rounds, u: Array | None) -> Guarantee:
    """M (step g - step^2 R^2 / 8) <= d(u, w_1) with g the margin min y u'x of a u the learner can reach."""
    s, norm, R, start = _mirror(path)
    positive = len(start) == len(path.start.w)
    if u is None:
        u = best.widest_simplex(*path.rows(), positive, norm)
    v = _unfold_simplex(u, start, norm)
    margin = float(_margins(path, u).min())
    # Each mistake lowers d(u, w_t) by at least step g - step^2 R^2 / 8, and d(u, w_1) is all there is to lose.
    gain = s * margin - s**2 * R**2 / 8
    wide = Assumption("margin - step R^2 / 8 > 0", margin - s * R**2 / 8, gain > 0)
    known = (reachable_assumption(v), wide, _on_the_simplex(path, start))
    if all(a.holds for a in known):
        bound = best.relative_entropy(v, start) / gain
    else:
        bound = np.inf
    run = Corrections(path.mistakes, path.totals.rounds, path.totals.largest)
    return _mistakes("Winnow", run, bound, known, u, 0.0)


def _of_passive_aggressive(path: Rounds, u: Array | None) -> Guarantee:
    """PA, PA-II: sum l^2 <= (r^2 + eps) (||u||^2 + sum l_u^2 / eps), eps = 1/(2C), for PA with a u of no loss; PA-I:
    M <= max(r^2, 1/C) (||u||^2 + 2 C sum l_u)."""
    assert isinstance(path.learner, Gradient)
    rate = path.learner.rate
    r2 = path.totals.largest
    u = best.widest_margin(*path.rows()) if u is None else u
    source = "Crammer et al. 2006"
    name = "passive-aggressive"
    known = [starts_at_zero(path)]
    if np.isfinite(rate.step):
        quantity = "mistakes"
    else:
        quantity = "cumulative squared hinge loss"
    if np.isfinite(rate.step):
        suffered = float(path.mistakes)
    else:
        suffered = path.totals.loss_square
    if u is not None:
        lacks = np.maximum(0.0, 1.0 - _margins(path, u))
    else:
        lacks = np.array([np.inf])
    lack = float(lacks.sum()) * path.totals.rounds / len(lacks)
    squares = float(lacks @ lacks) * path.totals.rounds / len(lacks)
    size = float(u @ u) if u is not None else np.inf
    if np.isfinite(rate.step):
        bound = max(r2, 1 / rate.step) * (size + 2 * rate.step * lack)
    elif rate.eps > 0:
        bound = (r2 + rate.eps) * (size + squares / rate.eps)
    else:
        none = Assumption(
            "u has margin 1 everywhere: the sum of its losses is 0", lack, lack < 1e-6
        )
        bound = size * r2
        known = [*known, none]
    rest = (
        suffered,
        bound if all(a.holds for a in known) else np.inf,
        path.totals.rounds,
        tuple(known),
        u,
        lack,
    )
    convex = Assumption(NOT_CONVEX.statement, None, quantity != "mistakes")
    of_loss = (
        OF_LOSS if quantity == "mistakes" else NOT_OF_LOSS
    )  # the learner reports the hinge loss, not its square
    return Guarantee(name, source, quantity, *rest, convex=convex, of_loss=of_loss)


# -------------------------------------------------------------------------------------------- any convex loss
def _of_descent(path: Rounds, u: Array | None) -> Guarantee:
    """L <= L_u + d (D^2 / (2 step_T) + sum_t step_t slope_t^2 q_t / 2), d slope = dl/df, D >= ||w_t - u|| in each round.

    With a constant step D is ||w_1 - u||; with a falling one it is the diameter of the ball.
    """
    learner = path.learner
    assert isinstance(learner, Gradient)
    assert isinstance(learner.geometry, Euclid)
    u = path.best() if u is None else u
    radius = learner.geometry.radius
    last = learner.rate.at(path.state.t, 0.0, 0.0)
    norm = float(np.abs(u).sum() if learner.geometry.ball == "l1" else np.sqrt(u @ u))
    if learner.geometry.ball == "l2":
        start = path.start.w
    else:
        start = np.array([np.abs(path.start.w).sum()])
    begun = float(np.sqrt(start @ start))
    known = [
        Assumption("u in the ball", norm, norm <= radius * (1 + 1e-9)),
        Assumption(
            "the weights start in the ball", begun, begun <= radius * (1 + 1e-9)
        ),
    ]
    ours = _known_convex(learner.loss)
    known += [] if ours else [_convex_for(path, u)]
    D = float(np.sqrt(np.sum((u - path.start.w) ** 2)))
    if learner.rate.power:
        known.append(
            Assumption(
                "weights held in a ball, as the step falls",
                radius,
                bool(np.isfinite(radius)),
            )
        )
        D = 2 * radius
    theirs = path.loss_of(u)
    # sum_t g_t'(w_t - u) <= D^2 / (2 step_T) + sum_t step_t |g_t|^2 / 2 (Zinkevich 2003), and convexity makes regret of
    # it.
    bound = theirs + learner.loss.derivative * (
        D**2 / (2 * last) + path.totals.gradient_cost / 2
    )
    holds = all(a.holds is not False for a in known)
    rest = (
        path.loss,
        bound if holds else np.inf,
        path.totals.rounds,
        tuple(known),
        u,
        theirs,
    )
    quantity = f"cumulative {learner.loss.name} loss"
    convex = Assumption(NOT_CONVEX.statement, None, ours or None)
    return Guarantee(
        "online gradient descent", "Zinkevich 2003", quantity, *rest, convex=convex
    )


def _known_convex(loss: Loss) -> bool:
    """Whether a law of the tests says that it is convex, and that its slope is its derivative."""
    return any(
        loss.function is known.function and loss.derivative == known.derivative
        for known in LOSSES.values()
    )


def _of_decay(path: Rounds, u: Array | None) -> Guarantee:
    """L <= L_u + d ((ridge T + 1/step) ||u||^2 / 2 + step sum_t (slope_t^2 q_t + 2 ridge slope_t f_t) / 2), w_1 = 0.

    Zinkevich's argument for l_t / d + ridge ||w||^2 / 2: the gradient slope x + ridge w has the squared length
    slope^2 q + 2 ridge slope f + ridge^2 ||w||^2, whose last term times step / 2 is within ridge ||w||^2 / 2 if step ridge <= 1.
    """
    learner = path.learner
    assert isinstance(learner, Gradient)
    s = learner.rate.step
    ridge = learner.ridge
    d = learner.loss.derivative
    T = path.totals.rounds
    pull = d * (ridge * T + 1 / s) / 2
    if u is None:
        X, y = path.rows()
        u = best.penalised_comparator(
            X, y, learner.loss, pull * len(y) / T, np.zeros(len(path.start.w))
        )
    if len(path.predictions) != T:
        raise Incompatible(
            "the bound of a learner that decays needs every prediction: run with record=Record(rows=True)"
        )
    slopes = np.array(
        [learner.loss.at(f, b)[1] for f, b in zip(path.predictions, path.rounds()[1])]
    )
    known = (
        starts_at_zero(path),
        Assumption("step ridge <= 1", s * ridge, s * ridge <= 1),
        *([] if _known_convex(learner.loss) else [_convex_for(path, u)]),
    )
    cost = path.totals.gradient_cost + 2 * s * ridge * float(slopes @ path.predictions)
    theirs = path.loss_of(u)
    if all(a.holds is not False for a in known):
        bound = theirs + pull * float(u @ u) + d * cost / 2
    else:
        bound = np.inf
    rest = f"cumulative {learner.loss.name} loss", path.loss, bound, T, known, u, theirs
    convex = Assumption(NOT_CONVEX.statement, None, _known_convex(learner.loss) or None)
    return Guarantee("descent with decay", "Zinkevich 2003", *rest, convex=convex)


def _convex_for(path: Rounds, u: Array) -> Assumption:
    """l(u'x) >= l(f) + l'(f) (u'x - f), all that the proof takes from convexity, looked at round by round."""
    said = "l(u'x) >= l(f) + l'(f) (u'x - f) in every round, as for a convex loss"
    if path.data is None or len(path.predictions) != path.totals.rounds:
        return Assumption(said, None, None)
    (X, y), loss, least = path.rounds(), path.learner.loss, np.inf
    for f, g, b in zip(path.predictions, X @ u, y):
        value, slope = loss.at(f, b)
        least = min(least, loss.at(g, b)[0] - value - loss.derivative * slope * (g - f))
    return Assumption(said, least, least >= -1e-9 * (1 + path.totals.worst))


def descends(learner: Learner) -> bool:
    if not (isinstance(learner, Gradient) and isinstance(learner.geometry, Euclid)):
        return False
    # the slope that the perceptron's loss has at its kink is that of a mistake, and no theorem here is about that loss
    simple = (
        learner.ridge == 0
        and learner.batch == 1
        and learner.loss.function is not PERCEPTRON.function
    )
    return simple and learner.rate.kind == PLAIN


def _decays(learner: Learner) -> bool:
    """Gradient descent with a constant step on a loss and ridge ||w||^2 / 2."""
    if not (
        isinstance(learner, Gradient) and learner.ridge > 0 and learner.rate.power == 0
    ):
        return False
    free = isinstance(learner.geometry, Euclid) and learner.geometry.radius == np.inf
    return free and descends(replace(learner, ridge=0.0))


def _corrects(learner: Learner) -> bool:
    """A perceptron, of which any number of rounds may share a step."""
    return isinstance(learner, Gradient) and _gradient(
        replace(learner, batch=1), PERCEPTRON, Euclid, PLAIN
    )


THEOREMS: list[tuple[Callable[[Learner], bool], Theorem]] = [
    (lambda a: isinstance(a, RLS), _of_squared_loss),
    (
        lambda a: _gradient(a, SQUARED, Euclid, PLAIN, IMPLICIT, NORMALISED),
        _of_squared_loss,
    ),
    (lambda a: _gradient(a, SQUARED, Simplex, PLAIN), _of_exponentiated),
    (lambda a: _gradient(a, SQUARED, Signed, PLAIN), _of_exponentiated),
    (lambda a: _corrects(a) and a.loss.c == 0, _of_perceptron),
    (lambda a: _gradient(a, PERCEPTRON, Simplex, PLAIN) and a.loss.c == 0, _of_winnow),
    (lambda a: _gradient(a, PERCEPTRON, Signed, PLAIN) and a.loss.c == 0, _of_winnow),
    (
        lambda a: _gradient(a, HINGE, Euclid, PASSIVE) and a.loss.c == 1,
        _of_passive_aggressive,
    ),
    (descends, _of_descent),
    (_decays, _of_decay),
]
