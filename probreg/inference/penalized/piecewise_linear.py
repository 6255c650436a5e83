"""Posterior modes of likelihoods that are piecewise linear in the residual: quantile,
absolute and tube losses by an interior point.

Given the nuisance parameters the mode over beta is a convex quadratic programme with a
certificate. The nuisance parameters, on
their log scale, maximise the profile f(log aux) = max over beta of the log posterior.
Its slope is the slope of the
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
    bounded_aux,
    sigma_note,
    unsupported_kinds,
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
from probreg.priors import GaussianPrior

_TUBE = "epsilon"  # the nuisance parameter for the half-width of a tube
_NARROW = -60.0  # log of the width of a negligible tube
_GRID = np.linspace(np.log(1e-3), np.log(10.0), 37)
# a log: a nuisance parameter this far below its start runs to 0
_RUN_OUT = 30.0
_STEP = 1.0  # a log, while the maximum is being bracketed


@METHODS.register
@dataclass(frozen=True)
class InteriorPoint(Method):
    """The mode argmax log p(y | X beta, aux) + log p(beta, aux) where -log p is piecewise linear in the residual: an interior point.

    Quantile regression, least absolute deviations and support vector regression under flat or normal priors. Given the
    nuisance parameters it is a convex quadratic programme, solved to the relative gap `tol` and then exactly on the active
    set. Its statistics are the certificate: `primal`, `dual`, their `gap`, and `kkt`, the largest violation of the optimality
    conditions. Nuisance parameters are at their joint mode over their logs. A mode on kinks has no second derivatives, so
    standard errors come from the expected information under the likelihood.

    Parameters
    ----------
    tol : float
        The relative gap between primal and dual.
    max_steps : int
        Maximum number of steps of the interior point.

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
        return unsupported_kinds(self, model) or bounded_aux(self, model) or absent

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        return certified_solution(
            model, *kinked_mode(model, tol=self.tol, max_steps=self.max_steps)
        )


def certified_solution(
    model: Model, mode: Mode, minimum: PiecewiseLinearSolution
) -> Solution:
    """Return the solution at a mode over standardised columns, with the certificate
    over beta and its notes."""
    i = model.design.intercept
    beta = model.design.frame.to_raw(mode.gamma)
    if i is None:
        shift = 0.0
    else:
        shift = float(beta[i, 0] - mode.gamma[i, 0])
    return with_certificate(
        model, solution_at(model, mode), minimum, steps=mode.steps, shift=shift
    )


def with_certificate(
    model: Model,
    solution: Solution,
    minimum: PiecewiseLinearSolution,
    *,
    steps: int,
    shift: float = 0.0,
) -> Solution:
    """Return the solution with its certificate in numbers and notes; `shift` moves an
    interval of the intercept to the raw columns."""
    assert isinstance(model.likelihood, PiecewiseLinearLikelihood)
    stats = {
        "n": model.design.total,
        "primal": minimum.primal,
        "dual": minimum.dual_value,
        "gap": minimum.gap,
        "kkt": minimum.violation,
        "steps": float(steps),
    }
    notes = (
        *sigma_note(model, JOINT_SIGMA),
        routine_note(
            Topic.CONVERGENCE,
            "minimum {minimum:.8g} of loss over scale plus penalty, gap {gap:.1e}, largest violation of its conditions {violation:.1e}",
            minimum=minimum.primal,
            gap=minimum.gap,
            violation=minimum.violation,
        ),
        *_not_unique(model, minimum, shift),
    )
    return replace(solution, stats=stats, notes=notes, multipliers=minimum.dual)


def _not_unique(
    model: Model, minimum: PiecewiseLinearSolution, shift: float
) -> tuple[Note, ...]:
    """Return a note if other coefficients have the same loss, with the interval of the intercept on the raw columns."""
    if minimum.unique:
        return ()
    if minimum.offset_interval is None or model.design.intercept is None:
        return (
            important_note(
                Topic.MODES,
                "the minimum is not unique: other coefficients have the same loss",
            ),
        )
    low, high = (v + shift for v in minimum.offset_interval)
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
        assert isinstance(
            likelihood, PiecewiseLinearLikelihood
        )  # checked in `obstacle`
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
        """The mode, and the log posterior at it over (gamma, log aux)."""
        minimum = self.mode(log_aux)
        aux = dict(zip(self.model.unknown, np.exp(log_aux).tolist()))
        return minimum, self.model.value_grad_hessian_standardised(
            minimum.beta[:, None], **aux
        )

    def mode(self, log_aux: Array) -> PiecewiseLinearSolution:
        """The mode over gamma."""
        model = self.model
        values = {
            **self.model.fixed,
            **dict(zip(self.model.unknown, np.exp(log_aux).tolist())),
        }
        up, down, tube = loss_of_rows(model, values)
        # with flat priors any multiple of the loss has the same minimum: in units of
        # its slopes it is solved once for each tube
        unit = float(np.max(up)) if self.flat else 1.0
        if self.flat:
            key = tube.tobytes()
        else:
            key = log_aux.tobytes()
        if key not in self._solved:
            T = model.design.frame.T
            P = T.T @ model.joint.precision(model.noise(values)) @ T
            k = self.kept
            loss = PiecewiseLinear(up / unit, down / unit, tube)
            solved = solve_piecewise_linear(
                self.U,
                self.y,
                loss,
                P[np.ix_(k, k)],
                self.centre[k],
                tol=self.tol,
                max_steps=self.max_steps,
            )
            beta = np.zeros(len(P))
            beta[k] = solved.beta
            self._solved[key], self.steps = (
                replace(solved, beta=beta),
                self.steps + solved.steps,
            )
        return self._solved[key].scaled(unit)

    def slope(self, log_aux: Array) -> Array:
        """d f / d log aux of f = max over gamma of the log posterior, at the mode by
        the envelope theorem."""
        minimum = self.mode(log_aux)
        names = self.model.unknown
        aux = dict(zip(names, np.exp(log_aux).tolist()))
        slope = (
            self.model.gradient_standardised(minimum.beta[:, None], **aux)
            .gradient[len(minimum.beta) :]
            .copy()
        )
        if _TUBE in names:
            # rows on an edge of the tube contribute by their multipliers, not by a
            # slope: sum |a_i| instead of sum w_i |score_i|
            values = {**self.model.fixed, **aux}
            score = self.likelihood.score(
                self.y, (self.U @ minimum.beta[self.kept])[:, None], **values
            )[:, 0]
            slope[names.index(_TUBE)] += aux[_TUBE] * (
                np.abs(minimum.dual).sum() - self.w @ np.abs(score)
            )
        return slope


def loss_of_rows(model: Model, values: Mapping[str, float]) -> PiecewiseLinear:
    """Return -log p of each row as a function of its residual, times its weight, up to
    a constant."""
    likelihood = model.likelihood
    design = model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)
    w = full_weights(design.weights, design.n)
    up, down, tube = likelihood.slopes(
        **likelihood.at_rows(dict(values), design.precision)
    )
    return PiecewiseLinear(w * up, w * down, np.zeros(design.n) + tube)


def _without_combinations(model: Model, U: Array) -> Array:
    """Return the columns without flat ones that depend on flat ones before them; these
    get the coefficient 0."""
    flat = np.flatnonzero(~model.joint.informative)
    p = model.shape[0]
    if len(flat) < 2:  # avoids the moments of thousands of columns
        return np.arange(p)
    moments = model.design.moments
    dropped = (
        moments.rank if len(flat) == p else rank_of(triangular(moments.R[:, flat]))
    ).dropped
    if dropped:  # a column far from zero is a combination of the intercept up to rounding, but its deviations U are not
        dropped = rank_of(triangular(U[:, flat])).dropped
    return np.setdiff1d(np.arange(p), flat[list(dropped)])


def kinked_mode(
    model: Model, *, tol: float = 1e-10, max_steps: int = 100
) -> tuple[Mode, PiecewiseLinearSolution]:
    """Return the joint mode over (beta, log aux) with the expected curvature there, and
    the certificate over beta."""
    model.design.need_rows("the mode of a likelihood with kinks")
    programme = Programme(model, tol, max_steps)
    assert isinstance(model.likelihood, PiecewiseLinearLikelihood)
    spread = model.likelihood.initial_eta(programme.y)[1]
    log_aux = np.log([spread[a] for a in model.unknown])
    if _TUBE in model.unknown:
        log_aux = _maximise_over_tube(programme, log_aux)
    elif model.unknown:
        within = bool(model.likelihood.insensitive)
        log_aux = _maximise_over(
            programme.slope, log_aux, 0, model.unknown[0], within=within
        )
    minimum, local = programme(log_aux)
    if minimum.converged:
        status = Status.CONVERGED
    else:
        status = Status.STALLED
    return Mode(
        minimum.beta[:, None],
        log_aux,
        local,
        minimum.violation,
        programme.steps,
        status,
    ), minimum


def any_mode(model: Model, *, tol: float, max_steps: int = 100) -> Mode:
    """Return the mode over (beta, log aux), by Newton's method, or for kinks by an
    interior point with the expected curvature."""
    if isinstance(model.likelihood, PiecewiseLinearLikelihood):
        return kinked_mode(model)[0]
    return find_mode(model, tol=tol, max_steps=max_steps)


def _maximise_over(
    slope: Callable[[Array], Array],
    start: Array,
    i: int,
    name: str,
    *,
    within: bool = False,
) -> Array:
    """Return the point at which the slope over entry i is 0, searched outwards from
    `start`; the other entries are fixed.

    `within`: a fixed tube, in which a scale may run to 0 because no residual is outside
    it.
    """

    def along(u: float) -> Array:
        return np.where(np.arange(len(start)) == i, u, start)

    def slope_at(u: float) -> float:
        return float(slope(along(u))[i])

    low = high = float(start[i])
    while slope_at(high) > 0:
        low = high
        high = high + _STEP
    while slope_at(low) < 0:
        low, high = low - _STEP, low
        if start[i] - low > _RUN_OUT:
            raise NotConverged((_WITHIN if within else _EXACT).format(name))
    return along(
        scipy.optimize.brentq(slope_at, low, high, xtol=1e-13, rtol=1e-14)
        if low < high
        else low
    )


def _maximise_over_tube(programme: Programme, start: Array) -> Array:
    """Return log aux with the best half-width of the tube, by a grid of its log with
    the best scale at each, then a root search.

    f has several maxima. The grid is in units of the absolute deviations from the
    median regression.
    """
    names = programme.model.unknown
    i = names.index(_TUBE)

    def best_scale(u: float) -> Array:
        point = np.where(np.arange(len(start)) == i, u, start)
        if len(names) == 1:
            return point
        return _maximise_over(programme.slope, point, 1 - i, names[1 - i])

    first = programme.mode(np.where(np.arange(len(start)) == i, _NARROW, start)).beta[
        programme.kept
    ]
    r = np.abs(programme.y - programme.U @ first)
    unit = float(np.log(programme.w @ r / programme.w.sum()))

    def values(grid: Array) -> list[float]:
        """f on a grid, up to the point where all rows are in the tube and the scale
        runs to 0."""
        values_of_f: list[float] = []
        for u in grid:
            try:
                values_of_f.append(programme(best_scale(u))[1].value)
            except NotConverged:
                break
        return values_of_f

    grid = unit + _GRID
    values_of_f = values(grid)
    k = int(np.argmax(values_of_f)) if values_of_f else 0
    if 0 < len(values_of_f) - 1 == k:
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


_ZOOMS = 7  # refinements of the grid about its best point, because likelihoods of few rows have many close maxima
_UNIFORM = (
    "interior_point: scale runs to 0, because the noise is nearly uniform within epsilon. Give scale a proper prior with little mass "
    "near 0, such as InverseGamma, or fix epsilon"
)
_NO_TUBE = (
    "interior_point: epsilon runs to 0, where the likelihood equals AbsoluteLoss. Fit AbsoluteLoss, fix epsilon, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
_WITHIN = (
    "interior_point: {0} runs to 0, because no residual is outside the tube. Use a smaller epsilon, fix {0}, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
_EXACT = (
    "interior_point: {0} runs to 0, because the columns reproduce the response. Use fewer columns, fix {0}, or give it a proper "
    "prior with little mass near 0, such as InverseGamma"
)
