"""Intervals and degrees of freedom of a fit with scales estimated by evidence: profiles
of the criterion, and Satterthwaite's approximation.

The profile interval of sd or sigma contains the values psi with 2 (f(top) - max f given
psi) <= z^2, f the log of the criterion (REML or ML) over theta. A standard deviation
may be 0 and a correlation -1 or 1: these are the ends if f does not decrease enough.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from probreg.data.frame import Frame
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import Array, Solution
from probreg.inference.covariance import ArrowCovariance, DenseCovariance
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
    unscaled_covariance,
)
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.inference.varying import FoundScales
from probreg.linalg import one_blas_thread
from probreg.model.model import Model
from probreg.priors.gaussian_process import ProcessPrior

# of a log sd: the sd is then less than an error from 0, where its log has no normal distribution
_LARGEST_ERROR = 1.0
_FAR = 25.0  # a log: a scale this far below its estimate is zero
_EDGE = 12.0  # atanh of a correlation of 1 up to 1e-10
_SAME = 1e-4  # of z: tolerance for two branches of a profile
_HIGHER = 1e-7  # of the criterion: more than the rounding of a search
_MOST = 2.0  # largest change of a coordinate in one step
# of theta: central differences of an estimate or a covariance, with an error of about 1e-8
DIFFERENCE = 1e-4


# ---- intervals of standard deviations and correlations ---------------------------------------------------------------------


def wald_on_free_scale(
    scales: FoundScales, name: str, prob: float
) -> tuple[float, float]:
    """Return estimate -+ z standard errors on the log of a standard deviation, or on
    atanh of a correlation; nan without an error, or for a standard deviation below its error."""
    value = scales.values[name]
    error = scales.errors[name]
    z = quantile(prob, None)
    if not np.isfinite(value) or not np.isfinite(error) or value == 0.0:
        return np.nan, np.nan
    if name.startswith("cor("):
        # d atanh r = d r / (1 - r^2)
        t = np.arctanh(value)
        reach = z * error / (1.0 - value**2)
        return float(np.tanh(t - reach)), float(np.tanh(t + reach))
    if error > _LARGEST_ERROR * value:
        return np.nan, np.nan
    reach = z * error / value
    return float(value * np.exp(-reach)), float(value * np.exp(reach))


@one_blas_thread()
def profile_interval(
    scales: FoundScales, name: str, prob: float
) -> tuple[float, float]:
    """Return the profile interval of a standard deviation or a correlation.
    Incompatible if it has no coordinate of its own."""
    if name not in scales.values:
        raise DataError(
            f"{name!r} was not estimated by evidence; estimated: {', '.join(scales.values)}"
        )
    path = _profile_of(scales, name)
    z = quantile(prob, None)
    correlation = name.startswith("cor(")
    if correlation:
        return float(np.tanh(path.end(z, -1, _EDGE))), float(
            np.tanh(path.end(z, 1, _EDGE))
        )
    lower = path.end(z, -1, _FAR)
    upper = path.end(z, 1, _FAR)
    return (0.0 if np.isinf(lower) else float(np.exp(lower))), float(np.exp(upper))


@one_blas_thread()
def ratio_at(scales: FoundScales, name: str, value: float) -> float:
    """Return 2 (f(top) - max f given the value) of a standard deviation, a correlation
    or the noise scale, or raise Incompatible."""
    correlation = name.startswith("cor(")
    if not (-1.0 < value < 1.0 if correlation else value > 0.0):
        if correlation:
            domain = "a correlation lies between -1 and 1"
        else:
            domain = "a standard deviation is positive"
        raise Incompatible(
            f"no likelihood ratio of {name} = {value:g}: {domain}, and on the boundary its distribution differs"
        )
    if not scales.plain:
        raise Incompatible(
            f"no likelihood ratio of {name} = {value:g}: the maximum includes a prior of the scales"
        )
    if np.isnan(scales.values[name]):
        raise Incompatible(
            f"{name} is not defined in this fit: a standard deviation is 0"
        )
    path = _profile_of(scales, name)
    coordinate = float(np.arctanh(value) if correlation else np.log(value))
    starts = [scales.theta, *path.problem.groups.branches(scales.theta)]
    return float(2.0 * path.fall(path.maximum(coordinate, starts)[1]))


def _profile_of(scales: FoundScales, name: str) -> "ScaleProfile":
    """Return the profile of the criterion over one scale. Incompatible if it has no
    coordinate of its own, or the rows are absent."""
    k = scales.coordinate_of(name)
    if k is None:
        raise Incompatible(
            f"a profile of {name} is available for correlations with the first effect; use kind='wald', on the scale of atanh"
        )
    if not (scales.stated.design.has_rows or scales.stated.design.kept is not None):
        raise Incompatible(
            f"a profile of {name} needs the rows: {scales.stated.design.rows_absent}"
        )
    problem = EvidenceProblem(
        scales.stated,
        False,
        criterion=scales.criterion,  # type: ignore[arg-type]
        points=scales.points,
    )
    return ScaleProfile(problem, scales, k)


@dataclass(frozen=True, eq=False)
class ScaleProfile:
    """max f given coordinate k of theta."""

    problem: EvidenceProblem
    found: FoundScales
    k: int

    @cached_property
    def top(self) -> float:
        """f at the fit."""
        return self.problem.surface(self.found.theta).value

    def maximum(self, value: float, starts: Sequence[Array]) -> tuple[Array, float]:
        """Return theta with coordinate k fixed at `value` and the others at their
        maximum, and f."""
        return self.problem.maximise_given(self.k, value, starts)

    def fall(self, value: float) -> float:
        """Return top - f, which rounding may make slightly negative. NotConverged if f
        is above the top."""
        if value > self.top + _HIGHER * (1.0 + abs(self.top)):
            raise NotConverged(
                f"the profile has a value of the criterion, {value:.8g}, above the fit's, {self.top:.8g}: the fit is at a local "
                "maximum. Fix a scale, or give the scales priors"
            )
        return max(self.top - value, 0.0)

    def end(self, z: float, side: int, far: float) -> float:
        """Return the coordinate with sqrt(2 (top - f)) = z on one side; infinite if f
        does not decrease enough."""
        theta = self.found.theta
        k = self.k
        # a correlation of one is far out, where the criterion is constant
        if far == _EDGE:
            start = float(np.clip(theta[k], -far / 2.0, far / 2.0))
        else:
            start = float(theta[k])
        sd = float(np.sqrt(self.found.covariance[k, k]))
        step = min(z * sd, _MOST) if np.isfinite(sd) else 1.0
        path = [(start, theta)]

        def gap(psi: float, every_branch: bool) -> float:
            predicted = self._foretell(path, psi)
            branches = self.problem.groups.branches
            if every_branch:
                starts = [theta, *branches(theta), *branches(predicted)]
            else:
                starts = []
            theta_new, value = self.maximum(psi, [predicted, *starts])
            path.append((psi, theta_new))
            return float(np.sqrt(2.0 * self.fall(value))) - z

        inner = start
        outer = start + side * step
        # the path follows one branch of the correlations; if another is higher at the
        # end, the search continues over all of them
        for every_branch in (False, True):
            while gap(outer, every_branch) < 0.0:
                if abs(outer - start) > far and not (
                    self.found.vanished[k] and side > 0 and outer < start + 3.0 * far
                ):
                    return side * np.inf
                inner = outer
                outer = outer + side * min(step := 1.5 * step, _MOST)
            end = float(
                scipy.optimize.brentq(
                    gap,
                    *sorted((inner, outer)),
                    args=(every_branch,),
                    xtol=1e-7,
                    rtol=1e-10,
                )
            )
            if every_branch or gap(end, True) > -_SAME:
                break
            path = [path[-1]]
            inner = end
            outer = end + side * step
        return end

    def _foretell(self, path: Sequence[tuple[float, Array]], psi: float) -> Array:
        """Predict theta with coordinate k at `psi`, linearly from the two nearest
        points of the path, or from one along the profile of a quadratic."""
        (a, first), *others_ = sorted(path, key=lambda point: abs(point[0] - psi))
        second = next((point for point in others_ if point[0] != a), None)
        if second is not None:
            return np.asarray(first + (second[1] - first) * (psi - a) / (second[0] - a))
        slope = self.found.covariance[:, self.k] / self.found.covariance[self.k, self.k]
        return np.asarray(first + np.nan_to_num(slope) * (psi - a))


# ---- degrees of freedom of flat coefficients -------------------------------------------------------------------------------


class Satterthwaite(NamedTuple):
    """The covariance C(theta) of the coefficients in the model's head at REML, and its
    dependence on theta.

    Each C is R R' over the coefficients of `frame`, so variances of combinations do not
    cancel for columns far from zero.

    Attributes
    ----------
    frame : Frame
        The frame of the columns in `places`.
    places : array (h,)
        The columns of the head among those of the frame.
    root : array (q, r)
        R at the estimate.
    moved : array (d, 2, q, r)
        R at theta plus and minus `DIFFERENCE` along each coordinate; equal for a
        coordinate that is not free.
    theta : array (d, d)
        The covariance of theta.
    """

    frame: Frame
    places: Array
    root: Array
    moved: Array
    theta: Array

    def df(self, L: Array) -> Array:
        """Degrees of freedom (q,) of each combination in the rows of L (q, h).

        For v = l'C l it is 2 v^2 / Var(v), Var(v) = g'A g with g the slopes of v and A the covariance of theta (Giesbrecht & Burns
        1985; Fai & Cornelius 1996).
        """
        G = self._gradients(L)
        v = np.square(G @ self.root).sum(1)
        up, down = np.square(G @ self.moved).sum(-1).swapaxes(0, 1)
        g = ((up - down) / (2.0 * DIFFERENCE)).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(2.0 * v**2 / np.einsum("qk,kl,ql->q", g, self.theta, g))

    def joint_df(self, L: Array) -> float:
        """Return the denominator degrees of freedom of an F test of q combinations (Fai
        & Cornelius 1996).

        With nu_m the degrees of freedom of the t statistics along the eigenvectors of L
        C L', and E = sum nu_m / (nu_m - 2) over nu_m > 2, it is 2 E / (E - q).
        """
        if len(L) == 1:
            return float(self.df(L)[0])
        P = np.linalg.svd(self._gradients(L) @ self.root, full_matrices=False)[0]
        nu = self.df(P.T @ L)
        if np.ptp(nu) < 1e-8 * nu.max():
            return float(nu.mean())
        E = float((nu[nu > 2.0] / (nu[nu > 2.0] - 2.0)).sum())
        return 2.0 * E / (E - len(L)) if len(L) < E else 2.0

    def _gradients(self, L: Array) -> Array:
        """Convert combinations L (n, h) of the head to gradients (n, q) over the
        coefficients of the frame."""
        G = np.zeros((len(L), len(self.frame.scale)))
        G[:, self.places] = L
        return self.frame.gradients(G[..., None])[..., 0]


def why_no_satterthwaite(solution: Solution) -> str:
    """Return why degrees of freedom are not approximated; "" if they are."""
    scales = solution.effect_scales
    if scales is None or solution.draws is not None:
        return "scales of effects were not estimated by evidence"
    if scales.criterion != "REML" or not scales.stated.likelihood.least_squares:
        return "Satterthwaite's degrees of freedom need REML with Gaussian noise"
    if not scales.plain:
        return "the maximum includes the density of a scale, so it is not REML"
    if not scales.stated.unknown:
        return f"{scales.stated.noise_scale} was fixed"
    process_columns = [
        b.columns
        for b in scales.stated.joint.blocks
        if isinstance(b.prior, ProcessPrior)
    ]
    design = scales.stated.design
    if process_columns:
        return f"the columns of {design.describe_columns(process_columns[0])} depend on hyperparameters that were estimated"
    if scales.stated.joint.informative[
        design.ungrouped[~design.of_terms[design.ungrouped]]
    ].any():
        return "a coefficient other than the effects has a prior"
    return ""


@one_blas_thread()
def satterthwaite(scales: FoundScales) -> Satterthwaite:
    """Return C(theta) with its slopes, by central differences."""
    d = len(scales.theta)
    free = np.flatnonzero(np.isfinite(np.diagonal(scales.covariance)))
    problem = EvidenceProblem(scales.stated, False, criterion="REML")
    frame, root = _root_given(problem, scales.theta)
    head = scales.stated.design.ungrouped
    entering = set(head)
    if frame.mixed is not None:
        entering |= set(frame.mixed)
    if frame.intercept is not None:
        entering.add(frame.intercept)
    columns = np.array(sorted(entering), dtype=np.intp)
    roots = np.broadcast_to(root[columns], (d, 2, len(columns), root.shape[1])).copy()
    for k in free:
        for side, s in enumerate((1.0, -1.0)):
            roots[k, side] = _root_given(
                problem, scales.theta + s * DIFFERENCE * np.eye(d)[k]
            )[1][columns]
    A = np.where(np.isfinite(scales.covariance), scales.covariance, 0.0)
    return Satterthwaite(
        frame.of_columns(columns),
        np.searchsorted(columns, head),
        root[columns],
        roots,
        A,
    )


def _root_given(problem: EvidenceProblem, theta: Array) -> tuple[Frame, Array]:
    """Return a root (p, r) of the covariance of the coefficients of a frame given
    theta, for groups without their own part."""
    scale = estimate_given(problem, theta)[1]
    root = scale.low if isinstance(scale, ArrowCovariance) else scale.root
    return scale.frame, np.asarray(root)


def estimate_given(
    problem: EvidenceProblem, theta: Array
) -> tuple[Array, ArrowCovariance | DenseCovariance]:
    """Return the coefficients (p,) for Gaussian noise given theta, and their covariance."""
    if problem.by_groups and not problem.moving:
        estimate = problem.surface.estimate(theta)
        return estimate.beta[:, 0], estimate.scale
    prior = problem.prior_at(np.exp(theta[: len(problem.groups.priors)]))
    model: Model = replace(problem.model, prior=prior)
    if problem.noise:
        sigma = float(np.exp(theta[-1]))
    else:
        sigma = float(model.fixed[model.noise_scale])
    design = model.design
    given = posterior_given_sigma(design.moments, PriorRows.of(model.joint), sigma)
    return given.mean, unscaled_covariance(given, design).scale_by(sigma**2)
