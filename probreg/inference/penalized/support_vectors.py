"""Support vector regression as a mode: C and epsilon give the coefficients, and the
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

from probreg.arguments.scalars import Positive
from probreg.data import Frame
from probreg.errors import DataError, NotConverged
from probreg.inference.base import Array, Resolved, Solution, Status
from probreg.inference.covariance import DenseCovariance, NoCovariance
from probreg.inference.modes.newton import Mode
from probreg.inference.modes.wide import independent_normals
from probreg.inference.notes import Topic, important_note
from probreg.inference.penalized.piecewise_linear import (
    InteriorPoint,
    Programme,
    certified_solution,
    kinked_mode,
    loss_of_rows,
    with_certificate,
)  # fmt: skip
from probreg.kernels.pairs import RowPairs
from probreg.likelihoods import PiecewiseLinearLikelihood
from probreg.linalg import root_of_curvature
from probreg.linalg.lazy_array import LazyArray
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.priors import Normal, Prior
from probreg.priors.joint import Key


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
            # the sizes of these columns are those of k(x, x), for any units of the inputs
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
    return np.asarray(term.basis.kernel.matrix(RowPairs(x, x)))


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
    tube = float(likelihood.slopes(**values).tube)
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
    """Return tau^2 of a model whose informative columns share one normal prior; 1 for
    others, whose weights are the multipliers."""
    normals = independent_normals(model)
    if normals is None or not len(scale := normals[1]):
        return 1.0
    if np.allclose(scale, scale[0], rtol=1e-12):
        return float(scale[0] ** 2)
    return 1.0
