"""Posterior modes of likelihoods that are piecewise linear in the residual: quantile,
absolute and tube losses by an interior point.

Given the scale the mode over beta is a convex quadratic programme with a
certificate. The log of the scale maximises the profile f(log scale) = max over beta of the log posterior.
Its slope is the slope of the log posterior at the maximising beta (the envelope theorem).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import scipy

from probreg.arguments.scalars import Count, Positive
from probreg.data import Frame
from probreg.errors import Incompatible, NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    aux_from_log,
    estimated_aux,
    logs_of_aux,
    sigma_note,
)
from probreg.inference.modes.closed_form import search_obstacle
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
from probreg.linalg import rank_of, triangular
from probreg.model.model import Model
from probreg.priors import GaussianPrior


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

    def obstacle(self, model: Model) -> str | None:
        if model.design.n:
            absent = None
        else:
            absent = (
                f"interior_point takes rows in memory, and {model.design.rows_needed}"
            )
        return search_obstacle(self, model) or absent

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
    """The mode over gamma, the coefficients of the columns in a frame, given the scale; K is the matrix of a kernel."""

    def __init__(
        self,
        model: Model,
        tol: float,
        max_steps: int,
        *,
        frame: Frame,
        K: Array | None = None,
    ) -> None:
        design = model.design
        self.model = model
        self.tol = tol
        self.max_steps = max_steps
        self.frame = frame
        self.K = K
        U = frame.rows(design.X)
        self.kept = _without_combinations(model, U)
        self.U = U[:, self.kept]
        self.y = design.response_less_offset
        self.centre = frame.from_raw(model.joint.center[:, None])[:, 0]
        self.flat = not model.joint.informative.any()
        self.steps = 0
        self._solved: dict[bytes, PiecewiseLinearSolution] = {}

    def mode(self, log_aux: Array) -> PiecewiseLinearSolution:
        """The mode over gamma."""
        model = self.model
        values = aux_from_log(model, log_aux)
        up, down, tube = loss_of_rows(model, values)
        # with flat priors any multiple of the loss has the same minimum: in units of
        # its slopes it is solved once
        unit = 1.0
        key = log_aux.tobytes()
        if self.flat:
            unit = float(np.max(up))
            key = b""
        if key not in self._solved:
            P = model.joint.precision(model.noise(values))
            for _ in range(2):  # T'P, then T'(T'P)' = T'P T
                P = self.frame.gradients(P.T[..., None])[..., 0]
            k = self.kept
            solved = solve_piecewise_linear(
                self.U,
                self.y,
                PiecewiseLinear(up / unit, down / unit, tube),
                P[np.ix_(k, k)],
                self.centre[k],
                K=self.K,
                tol=self.tol,
                max_steps=self.max_steps,
            )
            beta = np.zeros(len(P))
            beta[k] = solved.beta
            self._solved[key] = replace(solved, beta=beta)
            self.steps += solved.steps
        return self._solved[key].scaled(unit)

    def slope(self, log_scale: float) -> float:
        """d f / d log scale of f = max over gamma of the log posterior, at the mode by
        the envelope theorem."""
        log_aux = np.array([log_scale])
        gamma = self.mode(log_aux).beta[:, None]
        aux = estimated_aux(self.model, log_aux)
        local = self.model.in_frame(gamma, self.frame, aux, curved=False)
        return float(local.gradient[-1])

    def best_scale(self, start: float) -> float:
        """The log of the scale at which the slope is 0, searched outwards from `start`."""
        n = self.model.design.total
        lowest = start - 30.0  # a log: a scale below this runs to 0
        step = 1.0  # a log
        # with flat priors and no tube the slope is S / scale - n, of root log(S / n)
        share = 1.0 + self.slope(start) / n
        low = high = start + float(np.log(max(share, np.exp(lowest - start))))
        # at a slope of 1e-13 per row the log of the scale is exact to rounding
        if abs(self.slope(low)) <= 1e-13 * n:
            return low
        while self.slope(high) > 0:
            low = high
            high = high + step
        while self.slope(low) < 0:
            high = low
            low = low - step
            if low < lowest:
                raise NotConverged(_vanishing_scale(self.model))
        if low == high:
            return low
        return float(
            scipy.optimize.brentq(self.slope, low, high, xtol=1e-13, rtol=1e-14)
        )


def _vanishing_scale(model: Model) -> str:
    """Return why the scale runs to 0."""
    name = model.unknown[0]
    if model.likelihood.insensitive:
        cause = "no residual is outside the tube. Use a smaller epsilon"
    else:
        cause = "the columns reproduce the response. Use fewer columns"
    return (
        f"interior_point: {name} runs to 0, because {cause}, fix {name}, or give it a proper prior with little mass near 0, "
        "such as InverseGamma"
    )


def loss_of_rows(model: Model, values: Mapping[str, float]) -> PiecewiseLinear:
    """Return -log p of each row as a function of its residual, times its weight, up to
    a constant."""
    likelihood = model.likelihood
    design = model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)
    w = design.row_weights
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
    if not model.joint.gaussian:
        raise Incompatible(
            f"the mode of {model.likelihood.name} needs flat or normal priors"
        )
    programme = Programme(model, tol, max_steps, frame=model.design.frame)
    assert isinstance(model.likelihood, PiecewiseLinearLikelihood)
    spread = model.likelihood.initial_eta(programme.y)[1]
    log_aux = logs_of_aux(model, spread)
    if model.unknown:
        log_aux = np.array([programme.best_scale(float(log_aux[0]))])
    minimum = programme.mode(log_aux)
    gamma = minimum.beta[:, None]
    local = model.value_grad_hessian_standardised(
        gamma, **estimated_aux(model, log_aux)
    )
    status = Status.CONVERGED if minimum.converged else Status.STALLED
    mode = Mode(gamma, log_aux, local, minimum.violation, programme.steps, status)
    return mode, minimum


def any_mode(model: Model, *, tol: float, max_steps: int = 100) -> Mode:
    """Return the mode over (beta, log aux), by Newton's method, or for kinks by an
    interior point with the expected curvature."""
    if isinstance(model.likelihood, PiecewiseLinearLikelihood):
        return kinked_mode(model)[0]
    return find_mode(model, tol=tol, max_steps=max_steps)
