"""Posterior modes of likelihoods that are piecewise linear in the residual: quantile, absolute and tube losses by an interior point.

Given the nuisance parameters the mode over beta is a convex quadratic programme with a certificate. The nuisance parameters, on
their log scale, are at the maximum of what is left: f(log aux) = max over beta of the log posterior, whose slope is that of the
log posterior at the maximising beta (the envelope theorem).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy

from probreg.arguments.scalars import Count, Positive, check_fields
from probreg.data.rows import full_weights, minus_offset
from probreg.errors import NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    edges,
    kinds,
    sigma_note,
)
from probreg.inference.modes.newton import Mode, find_mode, solution_at
from probreg.inference.notes import (
    JOINT_SIGMA,
    Note,
    Topic,
    important_note,
    routine_note,
)
from probreg.inference.penalized.kink_mode import (
    PiecewiseLinear,
    PiecewiseLinearSolution,
    solve_piecewise_linear,
)
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.model.model import LocalModel, Model
from probreg.numerics.linalg import rank_of, triangular
from probreg.priors import GaussianPrior, Reference

_NOTHING = 1e-12  # of the size of a response: a scale below it is rounding
_TUBE = "epsilon"  # the nuisance parameter that is the half-width of a tube
_NARROW = -60.0  # the log of a tube without width
_GRID = np.linspace(np.log(1e-3), np.log(10.0), 37)
# of a log: a nuisance parameter this far below where it began runs to 0
_RUN_OUT = 30.0
_STEP = 1.0  # of a log, while the maximum is being bracketed


@METHODS.register
@dataclass(frozen=True)
class InteriorPoint(Method):
    """The mode argmax log p(y | X beta, aux) + log p(beta, aux) where -log p is piecewise linear in the residual: an interior point.

    Quantile regression, least absolute deviations and support vector regression under flat or normal priors. Given the
    nuisance parameters it is a convex quadratic programme, solved to the relative gap `tol` and then exactly on the active set
    found. Its statistics are the certificate: `primal`, `dual`, their `gap`, and `kkt`, the largest violation of the conditions
    of a minimum. Nuisance parameters are at their joint mode over their logs. A mode on kinks has no second derivatives:
    standard errors are those of the expected information under the likelihood.

    Parameters
    ----------
    tol : float
        The relative gap between primal and dual.
    max_steps : int
        The most steps of the interior point.

    References
    ----------
    Mehrotra 1992; Portnoy & Koenker 1997.

    Examples
    --------
    >>> from probreg.likelihoods import AbsoluteLoss
    >>> model = Model.from_arrays([0.0, 1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 2.0, 3.0, 9.0], likelihood=AbsoluteLoss())
    >>> found = InteriorPoint().solve(model, np.random.default_rng(0))
    >>> found.beta[:, 0].round(9) + 0.0, round(found.aux["sigma"], 9)
    (array([0., 1.]), 1.0)
    """

    tol: Positive = 1e-10
    max_steps: Count = 100

    name = "interior_point"
    pseudo = True
    in_memory = True
    likelihood = PiecewiseLinearLikelihood
    prior = GaussianPrior

    def __post_init__(self) -> None:
        check_fields(self)

    def obstacle(self, model: Model) -> str | None:
        if model.design.n:
            absent = None
        else:
            absent = (
                f"interior_point takes rows in memory, and {model.design.rows_needed}"
            )
        return kinds(self, model) or edges(self, model) or absent

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        return certified(
            model, *kinked_mode(model, tol=self.tol, max_steps=self.max_steps)
        )


def certified(model: Model, mode: Mode, at: PiecewiseLinearSolution) -> Solution:
    """The solution at a mode over standardised columns, with the certificate over beta and what it says."""
    i = model.design.intercept
    beta = model.design.frame.to_raw(mode.gamma)
    if i is None:
        moved = 0.0
    else:
        moved = float(beta[i, 0] - mode.gamma[i, 0])
    return with_certificate(
        model, solution_at(model, mode), at, steps=mode.steps, moved=moved
    )


def with_certificate(
    model: Model,
    found: Solution,
    at: PiecewiseLinearSolution,
    *,
    steps: int,
    moved: float = 0.0,
) -> Solution:
    """The solution with its certificate in numbers and words; an interval of the intercept is `moved` to the raw columns."""
    assert isinstance(model.likelihood, PiecewiseLinearLikelihood)
    stats = {
        "n": model.design.total,
        "primal": at.primal,
        "dual": at.dual_value,
        "gap": at.gap,
        "kkt": at.violation,
        "steps": float(steps),
    }
    notes = (
        *sigma_note(model, JOINT_SIGMA),
        routine_note(
            Topic.CONVERGENCE,
            "minimum {minimum:.8g} of loss over scale plus penalty, gap {gap:.1e}, largest violation of its conditions {violation:.1e}",
            minimum=at.primal,
            gap=at.gap,
            violation=at.violation,
        ),
        *_not_unique(model, at, moved),
    )
    return replace(found, stats=stats, notes=notes, multipliers=at.dual)


def _not_unique(
    model: Model, at: PiecewiseLinearSolution, moved: float
) -> tuple[Note, ...]:
    """Return a note if other coefficients have the same loss, with the interval of the intercept on the raw columns."""
    if at.unique:
        return ()
    if at.offset_interval is None or model.design.intercept is None:
        return (
            important_note(
                Topic.MODES,
                "the minimum is not unique: other coefficients have the same loss",
            ),
        )
    low, high = (v + moved for v in at.offset_interval)
    return (
        important_note(
            Topic.MODES,
            "the intercept is not unique: from {low:.12g} to {high:.12g} the loss is the same, and the middle is taken",
            low=low,
            high=high,
        ),
    )


class Programme:
    """The mode over gamma, the coefficients of standardised columns, given the nuisance parameters."""

    def __init__(self, model: Model, tol: float, max_steps: int) -> None:
        design = model.design
        likelihood = model.likelihood
        assert isinstance(likelihood, PiecewiseLinearLikelihood)  # `obstacle` asks
        self.model, self.likelihood, self.tol, self.max_steps = (
            model,
            likelihood,
            tol,
            max_steps,
        )
        U = design.frame.rows(design.X)
        self.kept = _without_combinations(model, U)
        self.U, self.y = U[:, self.kept], minus_offset(design.observed, design.offset)
        self.w, self.centre = (
            full_weights(design.weights, design.n),
            design.frame.T_inverse @ model.joint.center,
        )
        self.flat, self.steps = not model.joint.informative.any(), 0
        self._solved: dict[bytes, PiecewiseLinearSolution] = {}

    def __call__(self, log_aux: Array) -> tuple[PiecewiseLinearSolution, LocalModel]:
        """The mode, and the log posterior about it over (gamma, log aux)."""
        at = self.mode(log_aux)
        aux = dict(zip(self.model.unknown, np.exp(log_aux).tolist()))
        return at, self.model.value_grad_hessian_standardised(at.beta[:, None], **aux)

    def mode(self, log_aux: Array) -> PiecewiseLinearSolution:
        """The mode over gamma."""
        model = self.model
        known = {
            **self.model.fixed,
            **dict(zip(self.model.unknown, np.exp(log_aux).tolist())),
        }
        up, down, tube = loss_of_rows(model, known)
        # of flat priors the minimum is that of any multiple of the loss: in units of its slopes it is solved once for each tube
        unit = float(np.max(up)) if self.flat else 1.0
        if self.flat:
            key = tube.tobytes()
        else:
            key = log_aux.tobytes()
        if key not in self._solved:
            T = model.design.frame.T
            P = T.T @ model.joint.precision(model.noise(known)) @ T
            k = self.kept
            loss = PiecewiseLinear(up / unit, down / unit, tube)
            found = solve_piecewise_linear(
                self.U,
                self.y,
                loss,
                P[np.ix_(k, k)],
                self.centre[k],
                tol=self.tol,
                max_steps=self.max_steps,
            )
            beta = np.zeros(len(P))
            beta[k] = found.beta
            self._solved[key], self.steps = (
                replace(found, beta=beta),
                self.steps + found.steps,
            )
        at = self._solved[key]
        return replace(
            at,
            dual=at.dual * unit,
            primal=at.primal * unit,
            dual_value=at.dual_value * unit,
            gap=at.gap * unit,
        )

    def slope(self, log_aux: Array) -> Array:
        """d f / d log aux of f = max over gamma of the log posterior, by the envelope theorem that at the mode."""
        at = self.mode(log_aux)
        names = self.model.unknown
        aux = dict(zip(names, np.exp(log_aux).tolist()))
        found = (
            self.model.gradient_standardised(at.beta[:, None], **aux)
            .gradient[len(at.beta) :]
            .copy()
        )
        if _TUBE in names:
            # rows on an edge of the tube pull by their multipliers, not by a slope of the loss: sum |a_i| for sum w_i |score_i|
            known = {**self.model.fixed, **aux}
            score = self.likelihood.score(
                self.y, (self.U @ at.beta[self.kept])[:, None], **known
            )[:, 0]
            found[names.index(_TUBE)] += aux[_TUBE] * (
                np.abs(at.dual).sum() - self.w @ np.abs(score)
            )
        return found

    def most_likely_scale(self, log_aux: Array) -> Array | None:
        """The log of the one scale that is unknown, under flat priors, where it has a formula; None elsewhere or without residuals."""
        model = self.model
        if (
            not self.flat
            or len(log_aux) > 1
            or _TUBE in model.unknown
            or not isinstance(model.aux_prior(model.unknown[0]), Reference)
        ):
            return None
        unit = {**model.fixed, model.unknown[0]: 1.0}
        r = self.y - self.U @ self.mode(log_aux).beta[self.kept]
        up, down, tube = self.likelihood.slopes(
            **self.likelihood.at_rows(unit, model.design.precision)
        )
        S = float(
            self.w
            @ (up * np.maximum(r - tube, 0.0) + down * np.maximum(-r - tube, 0.0))
        )
        n = float(self.w.sum())
        of = self.likelihood.slopes(**unit)
        k = 1.0 / of.up + 1.0 / of.down
        e = float(of.tube)
        # n s k / (2 e + s k) = S / s: s = (S + (S^2 + 8 n e S / k)^(1/2)) / (2 n)
        s = (S + float(np.sqrt(S * S + 8.0 * n * e * S / k))) / (2.0 * n)
        if s > _NOTHING * float(np.abs(self.y).max()):
            return np.array([np.log(s)])
        return None


def loss_of_rows(model: Model, known: Mapping[str, float]) -> PiecewiseLinear:
    """-log p of each row but for what does not depend on its residual, times its weight."""
    likelihood = model.likelihood
    design = model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)
    w = full_weights(design.weights, design.n)
    up, down, tube = likelihood.slopes(
        **likelihood.at_rows(dict(known), design.precision)
    )
    return PiecewiseLinear(w * up, w * down, np.zeros(design.n) + tube)


def _without_combinations(model: Model, U: Array) -> Array:
    """The columns without flat ones that are combinations of flat ones before them: of those one member is found, with 0 for them."""
    flat = np.flatnonzero(~model.joint.informative)
    p = model.shape[0]
    if len(flat) < 2:  # the moments of thousands of columns are not made for one
        return np.arange(p)
    moments = model.design.moments
    dropped = (
        moments.rank if len(flat) == p else rank_of(triangular(moments.R[:, flat]))
    ).dropped
    if dropped:  # a column far from zero is a combination of the intercept and rounding, and its deviations U are not
        dropped = rank_of(triangular(U[:, flat])).dropped
    return np.setdiff1d(np.arange(p), flat[list(dropped)])


def kinked_mode(
    model: Model, *, tol: float = 1e-10, max_steps: int = 100
) -> tuple[Mode, PiecewiseLinearSolution]:
    """The joint mode over (beta, log aux) with the expected curvature there, and the certificate over beta."""
    model.design.need_rows("the mode of a likelihood with kinks")
    programme = Programme(model, tol, max_steps)
    assert isinstance(model.likelihood, PiecewiseLinearLikelihood)
    spread = model.likelihood.initial_eta(programme.y)[1]
    log_aux = np.log([spread[a] for a in model.unknown])
    if _TUBE in model.unknown:
        log_aux = _with_tube(programme, log_aux)
    elif (
        model.unknown
        and (found_scale := programme.most_likely_scale(log_aux)) is not None
    ):
        log_aux = found_scale
    elif model.unknown:
        within = bool(model.likelihood.insensitive)
        log_aux = _one(programme.slope, log_aux, 0, model.unknown[0], within=within)
    found, local = programme(log_aux)
    if found.converged:
        status = Status.CONVERGED
    else:
        status = Status.STALLED
    return Mode(
        found.beta[:, None], log_aux, local, found.violation, programme.steps, status
    ), found


def any_mode(model: Model, *, tol: float, max_steps: int = 100) -> Mode:
    """The mode over (beta, log aux), by Newton's method, or with kinks by an interior point and the expected curvature there."""
    if isinstance(model.likelihood, PiecewiseLinearLikelihood):
        return kinked_mode(model)[0]
    return find_mode(model, tol=tol, max_steps=max_steps)


def _one(
    slope: Callable[[Array], Array],
    start: Array,
    i: int,
    name: str,
    *,
    within: bool = False,
) -> Array:
    """The point at which the slope over entry i is 0, from `start` outwards, the other entries as they are; `within` a tube that
    is held a scale may run to 0 since no residual leaves it."""

    def along(u: float) -> Array:
        return np.where(np.arange(len(start)) == i, u, start)

    def of(u: float) -> float:
        return float(slope(along(u))[i])

    low = high = float(start[i])
    while of(high) > 0:
        low = high
        high = high + _STEP
    while of(low) < 0:
        low, high = low - _STEP, low
        if start[i] - low > _RUN_OUT:
            raise NotConverged((_WITHIN if within else _EXACT).format(name))
    return along(
        scipy.optimize.brentq(of, low, high, xtol=1e-13, rtol=1e-14)
        if low < high
        else low
    )


def _with_tube(programme: Programme, start: Array) -> Array:
    """The half-width of the tube on a grid of its log, the scale at its best for each: f has several maxima. Then the root of the
    slope about the best. The grid is in units of the absolute deviations from the median regression."""
    names = programme.model.unknown
    i = names.index(_TUBE)

    def best_scale(u: float) -> Array:
        at = np.where(np.arange(len(start)) == i, u, start)
        if len(names) == 1:
            return at
        return _one(programme.slope, at, 1 - i, names[1 - i])

    first = programme.mode(np.where(np.arange(len(start)) == i, _NARROW, start)).beta[
        programme.kept
    ]
    r = np.abs(programme.y - programme.U @ first)
    unit = float(np.log(programme.w @ r / programme.w.sum()))

    def values(grid: Array) -> list[float]:
        """f on a grid, up to where the tube holds every row and the scale runs to 0."""
        found: list[float] = []
        for u in grid:
            try:
                found.append(programme(best_scale(u))[1].value)
            except NotConverged:
                break
        return found

    grid = unit + _GRID
    found = values(grid)
    k = int(np.argmax(found)) if found else 0
    if 0 < len(found) - 1 == k:
        raise NotConverged(_UNIFORM)
    if k == 0:
        raise NotConverged(_NO_TUBE)
    for _ in range(_ZOOMS):
        grid = np.linspace(grid[k - 1], grid[k + 1], 11)
        k = min(max(int(np.argmax(values(grid))), 1), 9)

    def slope(u: float) -> float:
        return float(programme.slope(best_scale(u))[i])

    low = grid[k - 1]
    high = grid[k + 1]
    return best_scale(
        scipy.optimize.brentq(slope, low, high, xtol=1e-13)
        if slope(low) > 0 > slope(high)
        else grid[k]
    )


_ZOOMS = 7  # of the grid about its best point, since likelihoods of few rows have many maxima side by side
_UNIFORM = (
    "interior_point: scale runs to 0, for the noise is all but uniform within epsilon. Give scale a proper prior with little mass "
    "near 0, such as InverseGamma, or hold epsilon"
)
_NO_TUBE = (
    "interior_point: epsilon runs to 0, where the likelihood is that of AbsoluteLoss. Fit that, hold epsilon, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
_WITHIN = (
    "interior_point: {0} runs to 0, for no residual is outside the tube. Take a smaller epsilon, hold {0}, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
_EXACT = (
    "interior_point: {0} runs to 0, for the columns reproduce the response. Use fewer columns, hold {0}, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
