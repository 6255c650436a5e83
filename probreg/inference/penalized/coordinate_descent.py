"""The lasso, the elastic net and the group lasso as posterior modes: Gaussian noise with Laplace, elastic-net and group priors.

Given sigma the negative log posterior times sigma^2 is ||y - X beta||^2 / 2 + sum_j w_j |beta_j - center_j| + a ridge, or has
norms of groups instead of absolute values. It is convex, and solved on a working set of coefficients that grows until the certificate is true for all of them. Over (beta, log sigma)
the joint mode solves N sigma^2 - B sigma - A = 0 (under p(sigma) ∝ 1/sigma), with N the number of observations
plus the number of coefficients in units of sigma, A the residual and ridge sums of squares, B the l1 sum of those coefficients.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import Positive
from probreg.errors import NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
)
from probreg.inference.modes.wide import (
    ReducedSquares,
    WholeGram,
    partial_out,
)
from probreg.inference.penalized.nonsmooth import NonsmoothTerms
from probreg.inference.penalized.penalty import KinkedPenalty, minimise
from probreg.inference.penalized.proximal_newton import (
    kinked_solution,
    without_kinks,
)
from probreg.inference.status import Note, Topic, important_note
from probreg.likelihoods import Gaussian
from probreg.model.model import Model
from probreg.priors import (
    ElasticNet,
    GroupLaplace,
    Laplace,
    Normal,
    ProximalPrior,
)


class ModeGivenSigma(NamedTuple):
    """The mode given sigma."""

    r: Array  # (k,) beta - center, times norm
    gradient: Array  # (k,), minus the gradient of RSS / 2 over r: the correlations with the residuals
    rss: float
    kkt: float  # in conditional standard errors
    rounds: int


@dataclass(frozen=True, eq=False)
class Lasso:
    """A Gaussian model under Laplace, elastic-net, group and normal priors, ready to be solved at any sigma and scale."""

    parts: ReducedSquares
    center: Array  # (k,), of beta
    penalty: KinkedPenalty  # -log prior at unit sigma as a function of r = norm (beta - center)
    units: Array  # (k,) bool: in units of an unknown sigma
    c: Array  # (k,), at beta = center
    yy: float

    @classmethod
    def of(cls, model: Model) -> "Lasso":
        parts = partial_out(model)
        terms = NonsmoothTerms.of(model)
        normals = model.joint.normal_columns(ProximalPrior)
        assert normals is not None  # checked in `obstacle`
        all_columns = replace(
            terms.penalty,
            ridge=terms.penalty.ridge + normals.at(model.noise()),
            center=np.zeros(len(normals.sd)),
        )
        center = (terms.penalty.center + normals.center)[parts.columns]
        units = terms.in_sigma_units | (normals.relative & model.noise_unknown)
        penalty = all_columns.among(parts.columns).on_scaled(parts.norm)
        # About the center a: c - G a in place of X'y, and |y - X a|^2 = y'y - 2 c'a + a'G a.
        a = center * parts.norm
        Ga = parts.gram.times(a)
        yy = float(parts.yy - 2 * parts.c @ a + a @ Ga)
        return cls(parts, center, penalty, units[parts.columns], parts.c - Ga, yy)

    def at_scale(self, s: float) -> "Lasso":
        """Return the problem with every scale of the prior times s."""
        penalty = replace(
            self.penalty,
            metric=self.penalty.metric / s,
            ridge=self.penalty.ridge / s**2,
        )
        return replace(self, penalty=penalty)

    def penalty_at(self, sigma: float) -> KinkedPenalty:
        """sigma^2 times -log prior."""
        # With r / sigma for r, sigma^2 (a |r| + l r^2 / 2) is sigma a |r| + l r^2 / 2.
        return replace(
            self.penalty,
            metric=np.where(self.units, sigma, sigma**2) * self.penalty.metric,
            ridge=np.where(self.units, 1.0, sigma**2) * self.penalty.ridge,
        )

    def beta(self, r: Array) -> Array:
        """(p, 1)"""
        b = np.where(r == 0.0, self.center, self.center + r / self.parts.norm)
        return self.parts.beta(b)[:, None]

    def start(self) -> ModeGivenSigma:
        """The start of a search, beta = center."""
        return ModeGivenSigma(np.zeros(len(self.c)), self.c, self.yy, np.inf, 0)

    def mode_given_sigma(
        self, sigma: float, start: ModeGivenSigma, tol: float
    ) -> ModeGivenSigma:
        """Return the mode at this sigma, starting from another mode."""
        r = start.r
        penalty = self.penalty_at(sigma)
        gram = self.parts.gram
        curvature = np.sqrt(1.0 + penalty.ridge) * sigma
        # the effect of rounding of the residuals
        tol = max(tol, 1e-13 * float(np.sqrt(self.yy)) / sigma)
        # If all of G is available, no column has to wait for its correlation with the residuals.
        if isinstance(gram, WholeGram):
            work = np.ones(len(r), bool)
        else:
            work = ~penalty.at_kink(r)
        best: ModeGivenSigma | None = None
        for rounds in range(1, 101):
            J = np.flatnonzero(work)
            r = r.copy()
            if len(J):
                r[J] = minimise(
                    gram.among(J),
                    self.c[J],
                    penalty.among(J),
                    r[J],
                    tol=0.5 * tol * sigma,
                )[0]
            # g = X'(y - X r), the correlations with the residuals: at the mode g_j lies in the subdifferential of the
            # penalty.
            g = self.c - gram.times(r)
            distance = penalty.distance(-g, r) / curvature
            kkt = float(distance.max(initial=0.0))
            if best is None or kkt < best.kkt:
                # |y - X r|^2 = y'y - r'(2 c - G r) = y'y - r'(c + g).
                rss = max(float(self.yy - r @ (self.c + g)), 0.0)
                best = ModeGivenSigma(r, g, rss, kkt, rounds)
            fresh = (distance > tol) & ~work
            if kkt <= tol or not fresh.any():
                break
            limit = max(100, len(J))  # the working set at most doubles
            if fresh.sum() > limit:
                fresh &= distance >= np.partition(distance[fresh], -limit)[-limit]
            work = work | penalty.whole(fresh)
        assert best is not None
        return best

    def sigma_equation(self, mode: ModeGivenSigma) -> tuple[float, float, float]:
        """Return N, A and B: over u = log sigma the negative log posterior is N u + A
        e^-2u / 2 + B e^-u - log p(sigma) - u."""
        penalty = self.penalty.among(np.flatnonzero(self.units))
        r = mode.r[self.units]
        squares = float(penalty.ridge @ (r * r))
        return (
            self.parts.weight + len(r),
            mode.rss + squares,
            penalty.value(r) - 0.5 * squares,
        )


class Joint(NamedTuple):
    """A mode over (beta, log sigma), or over beta with fixed sigma."""

    given: ModeGivenSigma
    sigma: float
    kkt: float


def solve_joint(
    lasso: Lasso,
    model: Model,
    start: ModeGivenSigma,
    *,
    sigma: float | None,
    tol: float,
) -> Joint:
    """Find the mode from another mode and sigma (None: the scale of y)."""
    if model.noise_held is not None:
        mode = lasso.mode_given_sigma(model.noise_held, start, tol)
        return Joint(mode, model.noise_held, mode.kkt)
    if lasso.yy == 0.0:
        raise NotConverged(_COLLAPSE)
    slopes = model.noise_prior.slopes
    top = float(np.sqrt(lasso.yy / lasso.parts.weight))
    modes: list[ModeGivenSigma] = [start]
    miss = 0.0

    def step(u: float) -> float:
        """Return log sigma given the coefficients at u, minus u."""
        nonlocal miss
        modes[0] = lasso.mode_given_sigma(float(np.exp(u)), modes[0], tol)
        new, miss = _sigma_step(lasso.sigma_equation(modes[0]), slopes, u)
        if new < np.log(top) - 16.0:
            raise NotConverged(_COLLAPSE)
        return new - u

    if sigma is None:
        sigma = top
    u = _fixed_point(step, np.log(sigma), lambda: miss <= tol)
    return Joint(modes[0], float(np.exp(u)), max(modes[0].kkt, miss))


_COLLAPSE = (
    "coordinate_descent: the columns reproduce the response exactly, so sigma runs to 0 and the density has no "
    "mode. Fix sigma (aux={'sigma': ...}), or give the prior in units of sigma (sigma_units=True)"
)


def _sigma_step(
    equation: tuple[float, float, float], slopes: Any, u: float
) -> tuple[float, float]:
    """Return the root over log sigma of N - A e^-2u - B e^-u = d log p / du, and the
    distance of u in standard errors."""
    N, A, B = equation

    def at(v: float) -> tuple[float, float]:
        # f(v) = N - A e^(-2v) - B e^(-v) - d log p / dv, and f'(v).
        first, second = slopes(float(np.exp(v)))
        a = A * np.exp(-2 * v)
        b = B * np.exp(-v)
        return N - a - b - first, 2 * a + b - second

    slope, hessian = at(u)
    miss = abs(slope) / np.sqrt(max(hessian, 1.0))
    # Without a prior of sigma: N sigma^2 - B sigma - A = 0 has one positive root.
    if A + B > 0:
        v = np.log((B + np.sqrt(B * B + 4 * N * A)) / (2 * N))
    else:
        v = -np.inf
    for _ in range(50 if np.isfinite(v) else 0):
        f, d = at(float(v))
        move = np.clip(f / max(d, 1e-3 * N), -1.0, 1.0)
        v -= move
        if abs(move) <= 1e-15:
            break
    return float(v), float(miss)


def _fixed_point(
    step: Callable[[float], float], u: float, good: Callable[[], bool]
) -> float:
    """Find the zero of a decreasing step: secants between points of opposite sign,
    plain steps until two are known."""
    # the highest u with a positive step, and the lowest with a negative one
    low, high = -np.inf, np.inf
    before: tuple[float, float] | None = None
    # maximal number of values of sigma
    for _ in range(60):
        f = step(u)
        if good():
            return u
        if f < 0:
            high = u
        else:
            low = u
        new = u + f
        if before is not None and f != before[1]:
            new = u - f * (u - before[0]) / (f - before[1])
        if not (low < new < high and abs(new - u) <= 2.0):
            new = 0.5 * (low + high) if np.isfinite(high - low) else u + f
        before = (u, f)
        u = float(new)
    step(u)
    return u


@METHODS.register
@dataclass(frozen=True)
class CoordinateDescent(Method):
    """The mode argmin ||y - X beta||^2 / (2 sigma^2) - log p(beta): lasso, elastic net and group lasso.

    It needs a Gaussian likelihood with Laplace, elastic-net, group Laplace, diagonal normal and flat priors, and uses rows
    or moments; flat columns are unpenalised. Given sigma the problem is convex. `stats` contains the distance of zero from the
    subdifferential in conditional standard errors ("kkt"), at most `tol`. Zeros are exactly zero. An unknown sigma is estimated
    jointly on its log scale. A mode at a kink has no curvature: the covariance is nan.

    Parameters
    ----------
    tol : float
        The largest "kkt", in conditional standard errors.

    References
    ----------
    Friedman, Hastie & Tibshirani 2010; Yuan & Lin 2006.

    Examples
    --------
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1 / 1.5), aux={"sigma": 1.0})
    >>> CoordinateDescent().solve(model, np.random.default_rng(0)).beta[:, 0].round(9)
    array([0.  , 0.25])
    """

    tol: Positive = 1e-9

    name = "coordinate_descent"
    pseudo = True
    likelihood = Gaussian
    prior = (Laplace, ElasticNet, GroupLaplace, Normal)

    def obstacle(self, model: Model) -> str | None:
        reason = without_kinks(self, model)
        if reason:
            return reason
        if model.joint.normal_columns(ProximalPrior) is None:
            return f"{self.name} needs normal priors of independent coefficients; with a precision matrix use proximal_newton"
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        lasso = Lasso.of(model)
        joint = solve_joint(lasso, model, lasso.start(), sigma=None, tol=self.tol)
        notes: tuple[Note, ...] = ()
        if model.unknown and not lasso.units[lasso.penalty.has_kink].all():
            notes = _local_mode_notes(model)
        return kinked_solution(
            model,
            lasso.beta(joint.given.r),
            dict.fromkeys(model.unknown, joint.sigma),
            status_of(lasso, joint, max(self.tol, 1e-8)),
            kkt=joint.kkt,
            steps=joint.given.rounds,
            notes=notes,
        )


def status_of(lasso: Lasso, joint: Joint, tol: float) -> Status:
    """Return whether the mode fulfils its certificate, up to rounding of the residuals."""
    rounding = 1e-12 * float(np.sqrt(lasso.yy)) / joint.sigma
    if joint.kkt <= max(tol, rounding):
        return Status.CONVERGED
    return Status.STEP_LIMIT


def _local_mode_notes(model: Model) -> tuple[Note, ...]:
    """Return the note that a prior in raw units with sigma unknown can have several modes."""
    wide = 0 < model.design.count <= model.shape[0]
    rises = ""
    if wide:
        rises = " With as many columns as rows the density increases without bound as sigma goes to 0."
    note = important_note(
        Topic.MODES,
        "with sigma unknown and a prior in raw units -log p is not convex. This joint mode, found from sd(y) down, may be "
        f"one of several.{rises} With sigma_units=True there is only one",
    )
    return (note,)
