"""Theorems on regret and mistakes, each a function from the path of a run to its Guarantee.

Each bound holds for every comparator u; the one shown is for the u that makes it smallest (where that is a small
programme) or for the u given. Proofs are one line each: the potential d(u, w_t) falls by what is suffered, up to what u
suffers, and adds up to at most d(u, w_1). q stands for ||x||^2, r^2 for its largest value, L_u for the loss of u.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import softmax

import probreg.online.comparator as best
from probreg.errors import Incompatible
from probreg.online.guarantee import Assumption, Guarantee
from probreg.online.learner import Gradient, Learner
from probreg.online.parts import IMPLICIT, NORMALISED, PASSIVE, PLAIN, Array, Euclid, Signed, Simplex
from probreg.online.path import Path
from probreg.online.second_order import RLS

Theorem = Callable[[Path, Array | None], Guarantee]


def guarantee(path: Path, u: Array | None) -> Guarantee:
    """The guarantee of the first theorem that speaks of this learner; Incompatible when none here does."""
    for fits, theorem in THEOREMS:
        if fits(path.learner):
            return theorem(path, u)
    raise Incompatible(f"no theorem is written down for {path.learner!r}; path.regret() works without one")


def _gradient(learner: Learner, loss: str, geometry: type, *kinds: int) -> bool:
    if not isinstance(learner, Gradient):
        return False
    fits = learner.loss.name == loss and isinstance(learner.geometry, geometry) and learner.rate.kind in kinds
    return fits and learner.rate.power == 0 and (learner.bare or not isinstance(learner.geometry, Euclid))


# ------------------------------------------------------------------------------- squared loss, Euclidean potential
@dataclass(frozen=True)
class Linear:
    """L <= A L_u + B ||u - w_1||^2 under some assumptions."""

    theorem: str
    source: str
    A: float
    B: float
    assumptions: tuple[Assumption, ...] = ()


def _of_squared_loss(path: Path, u: Array | None) -> Guarantee:
    claim = _linear(path)
    holds = all(a.holds for a in claim.assumptions)
    if u is None:
        u = best.ridge(path.moments, claim.B / claim.A if holds else 0.0, path.start.w)
    theirs = float(np.sum((path.moments @ np.r_[u, -1.0]) ** 2))
    bound = claim.A * theirs + claim.B * float(np.sum((u - path.start.w) ** 2)) if holds else np.inf
    rest = path.loss, bound, path.totals.rounds, claim.assumptions, u, theirs
    return Guarantee(claim.theorem, claim.source, "cumulative squared loss", *rest)


def _linear(path: Path) -> Linear:
    learner, r2, low = path.learner, path.totals.largest, path.totals.smallest
    if isinstance(learner, RLS):
        return _ridge_forecaster(path, learner, r2)
    assert isinstance(learner, Gradient)
    s, eps = learner.rate.step, learner.rate.eps
    if learner.rate.kind == IMPLICIT:  # d falls by step e^2/(1 + step q) - step L_u: no condition on the step
        return Linear("implicit step", "potential argument", 1 + s * r2, (1 + s * r2) / s)
    if learner.rate.kind == NORMALISED:  # d falls by step [e^2 - g^2/(1 - step)]/(eps + q), g the residual of u
        small = Assumption("step < 1", s, s < 1)
        top, bottom = eps + r2, eps + low
        A = top / (max(1 - s, 1e-300) * bottom) if bottom > 0 else np.inf
        return Linear("normalised least mean squares", "potential argument", A, top / s, (small,))
    small = Assumption("step ||x||^2 < 1", s * r2, s * r2 < 1)
    A = 1 / (1 - s * r2) if s * r2 < 1 else np.inf
    return Linear("Widrow-Hoff", "Cesa-Bianchi, Long & Warmuth 1996", A, 1 / s, (small,))


def _ridge_forecaster(path: Path, learner: RLS, r2: float) -> Linear:
    """sum_t (f_t - y_t)^2 / (1 + x_t'P x_t) = min_u [L_u + precision ||u||^2] exactly, and x'Px <= q / precision."""
    lam = learner.precision
    known = (
        Assumption("precision > 0", lam, lam > 0),
        Assumption("forgetting = 1", learner.forgetting, learner.forgetting == 1),
        Assumption("the run starts at round 1", path.start.t + 1, path.start.t == 0),
    )
    A = 1 + r2 / lam if lam > 0 else np.inf
    return Linear("ridge forecaster", "Azoury & Warmuth 2001", A, A * lam, known)


# ----------------------------------------------------------------------------------- squared loss, relative entropy
def _of_exponentiated(path: Path, u: Array | None) -> Guarantee:
    """L <= L_u / (1 - step R^2/4) + 2 d(u, w_1) / step, R the range of the values within a row (signed: of (x, -x) norm).

    Kivinen & Warmuth's eta is step / 2, and Hoeffding's lemma gives the fall step (e^2 - e g) - step^2 e^2 R^2 / 8.
    """
    s, norm, R, start = _mirror(path)
    rate = s * R**2 / 4
    small = Assumption("step R^2 / 4 < 1, R the range of a row's values", rate, rate < 1)
    A = 1 / (1 - rate) if rate < 1 else 1.0
    v = best.entropic(path.moments, A, 2 / s, start, norm) if u is None else _unfolded(u, start, norm)
    w = v if len(v) == len(path.start.w) else norm * (v[: len(v) // 2] - v[len(v) // 2 :])
    theirs = float(np.sum((path.moments @ np.r_[w, -1.0]) ** 2))
    inside = Assumption("u in the set the learner can reach", float(v.sum()), bool(v.min() >= 0 and _is_one(v.sum())))
    bound = A * theirs + 2 / s * best.relative_entropy(v, start) if small.holds and inside.holds else np.inf
    rest = path.loss, bound, path.totals.rounds, (small, inside), w, theirs
    return Guarantee("exponentiated gradient", "Kivinen & Warmuth 1997", "cumulative squared loss", *rest)


def _mirror(path: Path) -> tuple[float, float, float, Array]:
    """step, norm, range R of the values of a row as the simplex sees it, and where on the simplex the run started."""
    learner = path.learner
    assert isinstance(learner, Gradient)
    g, start = learner.geometry, np.asarray(softmax(path.start.memory["theta"]))
    R = path.totals.spread if isinstance(g, Simplex) else 2 * g.size * path.totals.spread
    return learner.rate.step, g.size, R, start


def _is_one(total: float) -> bool:
    return abs(total - 1) < 1e-9


def _unfolded(u: Array, start: Array, norm: float) -> Array:
    """The point of the simplex behind weights u: u itself, or its positive and negative parts with the rest shared."""
    if len(start) == len(u):
        return u
    v = np.concatenate([np.maximum(u, 0), np.maximum(-u, 0)]) / norm
    return v + (1 - v.sum()) / len(v) if v.sum() <= 1 else v


# ------------------------------------------------------------------------------------------------------- mistakes
def _of_perceptron(path: Path, u: Array | None) -> Guarantee:
    """M <= (||u|| r + sqrt(||u||^2 r^2 + 4 H))^2 / 4 with H = sum max(0, 1 - y u'x); H = 0 gives ||u||^2 r^2 / margin^2.

    From M - H <= u'w_T / step <= ||u|| r sqrt(M). Novikoff (1962); Freund & Schapire (1999) for H > 0.
    """
    r2, given = path.totals.largest, u is not None
    u = best.widest_margin(*path.rows()) if u is None else u
    zero = Assumption("the weights start at zero", float(np.abs(path.start.w).max()), not np.any(path.start.w))
    if u is None:
        none = Assumption("some u separates the classes (margin > 0)", 0.0, False)
        return _mistakes(path, "Novikoff", np.inf, (zero, none), None, np.nan)
    margins = _margins(path, u)
    if margins.min() > 0:
        u, margins = u / margins.min(), margins / margins.min()
    lack = float(np.maximum(0.0, 1.0 - margins).sum()) * path.totals.rounds / len(margins)
    q = float(u @ u) * r2
    bound = q if lack < 1e-9 else (np.sqrt(q) + np.sqrt(q + 4 * lack)) ** 2 / 4
    wide = Assumption("margin of u / ||u|| > 0", float(margins.min() / np.sqrt(u @ u)), bool(margins.min() > 0))
    return _mistakes(path, "Novikoff", bound, (zero,) if given and lack > 0 else (zero, wide), u, lack)


def _margins(path: Path, u: Array) -> Array:
    X, y = path.rows()
    return y * (X @ u)


def _mistakes(
    path: Path, name: str, bound: float, known: tuple[Assumption, ...], u: Array | None, lack: float
) -> Guarantee:
    sources = {"Novikoff": "Novikoff 1962; Freund & Schapire 1999", "Winnow": "Littlestone 1988; Mohri et al. 2018"}
    return Guarantee(name, sources[name], "mistakes", float(path.mistakes), bound, path.totals.rounds, known, u, lack)


def _of_winnow(path: Path, u: Array | None) -> Guarantee:
    """M (step g - step^2 R^2 / 8) <= d(u, w_1) with g the margin min y u'x of a u the learner can reach."""
    s, norm, R, start = _mirror(path)
    positive = len(start) == len(path.start.w)
    u = best.widest_simplex(*path.rows(), positive, norm) if u is None else u
    v, margin = _unfolded(u, start, norm), float(_margins(path, u).min())
    gain = s * margin - s**2 * R**2 / 8
    inside = Assumption("u in the set the learner can reach", float(v.sum()), bool(v.min() >= 0 and _is_one(v.sum())))
    wide = Assumption("margin - step R^2 / 8 > 0", margin - s * R**2 / 8, gain > 0)
    bound = best.relative_entropy(v, start) / gain if gain > 0 and inside.holds else np.inf
    return _mistakes(path, "Winnow", bound, (inside, wide), u, 0.0)


def _of_passive_aggressive(path: Path, u: Array | None) -> Guarantee:
    """PA, PA-II: sum l^2 <= (r^2 + eps) (||u||^2 + sum l_u^2 / eps), eps = 1/(2C), for PA with a u of no loss; PA-I:
    M <= max(r^2, 1/C) (||u||^2 + 2 C sum l_u)."""
    assert isinstance(path.learner, Gradient)
    rate, r2 = path.learner.rate, path.totals.largest
    u = best.widest_margin(*path.rows()) if u is None else u
    zero = Assumption("the weights start at zero", float(np.abs(path.start.w).max()), not np.any(path.start.w))
    source, name, known = "Crammer et al. 2006", "passive-aggressive", [zero]
    quantity = "mistakes" if np.isfinite(rate.step) else "cumulative squared hinge loss"
    suffered = float(path.mistakes) if np.isfinite(rate.step) else path.totals.loss_square
    lacks = np.maximum(0.0, 1.0 - _margins(path, u)) if u is not None else np.array([np.inf])
    lack = float(lacks.sum()) * path.totals.rounds / len(lacks)
    squares = float(lacks @ lacks) * path.totals.rounds / len(lacks)
    size = float(u @ u) if u is not None else np.inf
    if np.isfinite(rate.step):
        bound = max(r2, 1 / rate.step) * (size + 2 * rate.step * lack)
    elif rate.eps > 0:
        bound = (r2 + rate.eps) * (size + squares / rate.eps)
    else:
        none = Assumption("u has margin 1 everywhere: the sum of its losses is 0", lack, lack < 1e-6)
        bound, known = (size * r2 if none.holds else np.inf), [zero, none]
    return Guarantee(name, source, quantity, suffered, bound, path.totals.rounds, tuple(known), u, lack)


# -------------------------------------------------------------------------------------------- any convex loss
def _of_descent(path: Path, u: Array | None) -> Guarantee:
    """L <= L_u + d (D^2 / (2 step_T) + sum_t step_t slope_t^2 q_t / 2), d slope = dl/df, D >= ||w_t - u|| in each round.

    With a constant step D is ||w_1 - u||; with a falling one it is the diameter of the ball.
    """
    learner = path.learner
    assert isinstance(learner, Gradient)
    assert isinstance(learner.geometry, Euclid)
    u = path.best() if u is None else u
    radius, last = learner.geometry.radius, learner.rate.at(path.state.t, 0.0, 0.0)
    norm = float(np.abs(u).sum() if learner.geometry.ball == "l1" else np.sqrt(u @ u))
    known = [Assumption("u in the ball", norm, norm <= radius * (1 + 1e-9))]
    D = float(np.sqrt(np.sum((u - path.start.w) ** 2)))
    if learner.rate.power:
        known.append(Assumption("weights held in a ball, as the step falls", radius, bool(np.isfinite(radius))))
        D = 2 * radius
    theirs = path.loss_of(u)
    bound = theirs + learner.loss.derivative * (D**2 / (2 * last) + path.totals.gradient_cost / 2)
    rest = path.loss, bound, path.totals.rounds, tuple(known), u, theirs
    return Guarantee("online gradient descent", "Zinkevich 2003", f"cumulative {learner.loss.name} loss", *rest)


def _descends(learner: Learner) -> bool:
    if not (isinstance(learner, Gradient) and isinstance(learner.geometry, Euclid)):
        return False
    simple = learner.ridge == 0 and learner.batch == 1 and learner.loss.name != "perceptron"
    return simple and learner.rate.kind == PLAIN


THEOREMS: list[tuple[Callable[[Learner], bool], Theorem]] = [
    (lambda a: isinstance(a, RLS), _of_squared_loss),
    (lambda a: _gradient(a, "squared", Euclid, PLAIN, IMPLICIT, NORMALISED), _of_squared_loss),
    (lambda a: _gradient(a, "squared", Simplex, PLAIN), _of_exponentiated),
    (lambda a: _gradient(a, "squared", Signed, PLAIN), _of_exponentiated),
    (lambda a: _gradient(a, "perceptron", Euclid, PLAIN) and a.loss.c == 0, _of_perceptron),
    (lambda a: _gradient(a, "perceptron", Simplex, PLAIN) and a.loss.c == 0, _of_winnow),
    (lambda a: _gradient(a, "perceptron", Signed, PLAIN) and a.loss.c == 0, _of_winnow),
    (lambda a: _gradient(a, "hinge", Euclid, PASSIVE) and a.loss.c == 1, _of_passive_aggressive),
    (_descends, _of_descent),
]
