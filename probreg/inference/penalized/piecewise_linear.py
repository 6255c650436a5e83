"""Posterior modes of likelihoods that are piecewise linear in the residual: quantile,
absolute and tube losses by an interior point.

Given the scale the mode over beta is a convex quadratic programme with a
certificate. The log of the scale maximises the profile f(log scale) = max over beta of the log posterior.
Its slope is the slope of the log posterior at the maximising beta (the envelope theorem).

Support vector regression as a mode: C and epsilon give the coefficients, and the
residuals the scales of a model.

min over f, b of |f|^2 / 2 + C sum_i max(0, |y_i - f(x_i) - b| - epsilon) is the mode
under N(0, tau^2) and a tube likelihood of scale c with tau^2 / c = C. The mode depends
only on this ratio; c is its maximum likelihood estimate given the residuals, and tau =
(C c)^(1/2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import scipy

from probreg.arguments.scalars import Count, Positive
from probreg.data import Frame
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Resolved,
    Solution,
    Status,
    aux_from_log,
    estimated_aux,
    logs_of_aux,
    sigma_note,
)
from probreg.inference.covariance import DenseCovariance, NoCovariance
from probreg.inference.modes.closed_form import search_obstacle
from probreg.inference.modes.newton import Mode, find_mode, solution_at
from probreg.inference.modes.wide import independent_normals
from probreg.inference.penalized.kink_mode import (
    PiecewiseLinear,
    PiecewiseLinearSolution,
    solve_piecewise_linear,
)
from probreg.inference.status import (
    JOINT_SIGMA,
    Note,
    Topic,
    important_note,
    routine_note,
)
from probreg.kernels.base import RowPairs
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.linalg import rank_of, root_of_curvature, triangular
from probreg.linalg.lazy_array import LazyArray
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.priors import GaussianPrior, Normal, Prior
from probreg.priors.joint import Key


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
        """The log of the scale with slope 0, searched outwards from `start`."""
        n = self.model.design.total
        # log of the scale: if it falls below this, the scale runs to 0
        lowest = start - 30.0
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
        return scipy.optimize.brentq(self.slope, low, high, xtol=1e-13, rtol=1e-14)


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
    if len(flat) < 2:  # else the moments of thousands of columns would be computed
        return np.arange(p)
    moments = model.design.moments
    dropped = (
        moments.rank if len(flat) == p else rank_of(triangular(moments.R[:, flat]))
    ).dropped
    if dropped:  # up to rounding a column far from zero is a multiple of the intercept, but its deviations U are not
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


@dataclass(frozen=True)
class SupportVectors(InteriorPoint):
    """The mode of a model with a tube likelihood under Normal(1.0) at the ratio C =
    tau^2 / c, and then both scales."""

    C: Positive = 1.0

    def resolve(self, model: Model, rng: np.random.Generator) -> Resolved:
        model.design.need_rows("support vectors")
        has_kernel = _of_one_kernel(model)
        frame = model.design.frame
        K = None
        if has_kernel:
            # the sizes of these columns are the sizes of k(x, x), for any units of the inputs
            frame = Frame.of_raw(model.shape[0])
            K = _kernel_matrix(model)
        at_ratio = model.with_aux(scale=1.0 / self.C)
        programme = Programme(at_ratio, self.tol, self.max_steps, frame=frame, K=K)
        minimum = programme.mode(np.empty(0))
        gamma = minimum.beta[:, None]
        beta = frame.to_raw(gamma)
        estimated = scale_of_residuals(model, at_ratio.fixed, beta)
        c = estimated or 1.0 / self.C
        tau = float(np.sqrt(self.C * c))
        fitted = replace(
            model,
            aux={**model.aux, "scale": FoundValue(c)},
            prior=scaled_prior(model, tau),
        )
        # loss / c + |b|^2 / (2 tau^2) is the objective at unit scales divided by C c
        minimum = minimum.scaled(1.0 / (self.C * c))
        status = Status.CONVERGED if minimum.converged else Status.STALLED
        if has_kernel:
            k = len(beta)
            root = LazyArray((k, k), partial(_root, fitted, beta))
            scale = DenseCovariance(frame, 1, root=root)
            solution = with_certificate(
                fitted,
                Solution(beta, scale, status=status),
                minimum,
                steps=minimum.steps,
            )
        else:
            local = fitted.value_grad_hessian_standardised(gamma)
            solution = certified_solution(
                fitted,
                Mode(
                    gamma, np.empty(0), local, minimum.violation, minimum.steps, status
                ),
                minimum,
            )
        support = support_of(fitted, solution)
        support_note = important_note(
            Topic.METHOD,
            "support vectors: {support}; C = {C:g}, epsilon = {epsilon:g} in units of {response}",
            support=support.words,
            C=self.C,
            epsilon=support.tube,
            response=model.design.response,
        )
        scale_note = important_note(
            Topic.SCALES,
            "the scale {scale:.6g} is the maximum likelihood estimate given the residuals, and the prior scale is "
            "{tau:.6g} = (C scale)^(1/2)",
            scale=c,
            tau=tau,
        )
        if not estimated:
            solution = replace(solution, scale=NoCovariance.of(*solution.beta.shape))
            scale_note = important_note(
                Topic.STANDARD_ERRORS,
                "no standard errors: every residual is within epsilon, so that the noise has no estimate; its scale is held at "
                "1/C = {scale:.6g}",
                scale=c,
            )
        return Resolved(
            fitted,
            InteriorPoint(self.tol, self.max_steps),
            (support_note, scale_note),
            {"ratios_found": 0.0},
            solution,
        )


def _of_one_kernel(model: Model) -> bool:
    """Whether the columns belong to one kernel, with or without an intercept."""
    processes = list(model.design.recipe.processes.values())
    intercept = model.design.intercept is not None
    return (
        len(processes) == 1 and len(processes[0].columns) + intercept == model.shape[0]
    )


def _kernel_matrix(model: Model) -> Array | None:
    """Return X X' of the columns of an exact kernel without its rounding errors, as k(x_i, x_j)."""
    (term,) = model.design.recipe.processes.values()
    if term.basis.kind != "exact" or term.basis.size != model.design.n:
        return None
    x = model.design.inputs[term.key]
    return term.basis.kernel.matrix(RowPairs(x, x))


def _root(model: Model, beta: Array) -> Array:
    """Return a root of the inverse expected information of the log posterior over the
    coefficients of a kernel."""
    root = root_of_curvature(model.value_grad_hessian(beta).curvature)
    if root is None:
        raise NotConverged(
            "interior_point: the expected information is not positive definite: use a smaller C"
        )
    return root


def scaled_prior(model: Model, tau: float) -> dict[Key, Prior]:
    """Return the prior of a Normal(1.0) model with this scale, by block."""
    columns = model.design.columns
    return {
        tuple(columns[j] for j in b.columns): Normal(tau)
        for b in model.joint.blocks
        if b.stated
    }


def scale_of_residuals(model: Model, values: Mapping[str, float], beta: Array) -> float:
    """Return the maximum likelihood scale c given the residuals, 0 if none lies outside
    the tube."""
    likelihood = model.likelihood
    design = model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)
    tube = likelihood.slopes(**values).tube
    w = design.row_weights
    r = design.response_less_offset - (design.X @ beta)[:, 0]
    S = float(w @ np.maximum(np.abs(r) - tube, 0.0))
    n = float(w.sum())
    if 1e-12 * (float(w @ np.abs(r)) + n * tube) >= S:
        return 0.0
    # d/dc [-n log(eps + c) - S / c] = 0: c = (S + (S^2 + 4 n S eps)^(1/2)) / (2 n)
    return (S + float(np.sqrt(S * S + 4.0 * n * S * tube))) / (2.0 * n)


class Support(NamedTuple):
    """The weights beta of the rows, f = K beta + b, with their bounds."""

    weight: Array  # (n,)
    residual: Array  # (n,)
    bound: Array  # (n,) bool
    tube: float

    @property
    def of(self) -> Array:
        """(n,) bool: the support vectors."""
        return self.weight != 0.0

    @property
    def words(self) -> str:
        count = int(self.of.sum())
        n = len(self.weight)
        return f"{count} of {n} rows ({100.0 * count / n:.0f} %), {int((self.of & self.bound).sum())} of them at the bound"


def support_of(model: Model, solution: Solution) -> Support:
    """Return the support vectors of an interior-point mode, in units of the prior's
    variance: libsvm's dual coefficients."""
    design = model.design
    if not design.n:
        raise DataError(
            "support vectors are rows, and this fit has none: fit again, or save(rows=True)"
        )
    loss = loss_of_rows(model, {**model.fixed, **solution.aux})
    # a fit loaded from a file computes the weights again from its rows
    if solution.multipliers is None:
        dual = kinked_mode(model)[1].dual
    else:
        dual = solution.multipliers
    tau2 = variance_of_prior(model)
    edge = 1e-9  # relative to C: a weight this close to 0 or C is at that bound
    weight = np.where(np.abs(dual) <= edge * np.maximum(loss.up, loss.down), 0.0, dual)
    inside = 1.0 - edge
    bound = (dual >= loss.up * inside) | (dual <= -loss.down * inside)
    r = design.response_less_offset - (design.X @ solution.beta)[:, 0]
    return Support(weight * tau2, r, bound, float(np.max(loss.epsilon)))


def variance_of_prior(model: Model) -> float:
    """Return tau^2 if the informative columns of a model share one normal prior; 1 for
    other models, where the weights are the multipliers."""
    normals = independent_normals(model)
    if normals is None or not len(scale := normals[1]):
        return 1.0
    if np.allclose(scale, scale[0], rtol=1e-12):
        return float(scale[0] ** 2)
    return 1.0
