"""Intervals and degrees of freedom of a fit at scales found by evidence: profiles of the criterion, and Satterthwaite's approximation.

The profile interval of sd or sigma holds the values psi with 2 (f(top) - max f given psi) <= z^2, f the log of the criterion (REML or
ML) over theta. A standard deviation may be 0 and a correlation -1 or 1: where f does not fall far enough that is the end.
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
from probreg.inference.exact.arrow_estimate import arrow_estimate
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.modes.closed_form import (
    Conditional,
    PriorRows,
    posterior_given_sigma,
    unscaled_covariance,
)
from probreg.inference.uncertainty.intervals.arithmetic import quantile
from probreg.inference.varying import FoundScales
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread
from probreg.priors.gaussian_process import ProcessPrior

_FAR = 25.0  # of a log: a scale so far below its estimate is zero
_EDGE = 12.0  # atanh of a correlation of 1 up to 1e-10
_SAME = 1e-4  # of z: two branches of a profile that meet
_HIGHER = 1e-7  # of the criterion: beyond the rounding of a search
_MOST = 2.0  # of a coordinate in one step
# of theta: central differences of a covariance, an error of some 1e-8 of it
_DIFFERENCE = 1e-4


# ---- intervals of standard deviations and correlations ---------------------------------------------------------------------


def wald_on_free_scale(
    found: FoundScales, name: str, prob: float
) -> tuple[float, float]:
    """estimate -+ z standard errors on the log of a standard deviation, and on atanh of a correlation; nan without an error."""
    value = found.values[name]
    error = found.errors[name]
    z = quantile(prob, None)
    if not np.isfinite(value) or not np.isfinite(error) or value == 0.0:
        return np.nan, np.nan
    if name.startswith("cor("):
        # d atanh r = d r / (1 - r^2)
        t = np.arctanh(value)
        reach = z * error / (1.0 - value**2)
        return float(np.tanh(t - reach)), float(np.tanh(t + reach))
    reach = z * error / value
    with np.errstate(over="ignore"):  # an error without bounds has an end at infinity
        return float(value * np.exp(-reach)), float(value * np.exp(reach))


@one_blas_thread()
def profile_interval(found: FoundScales, name: str, prob: float) -> tuple[float, float]:
    """Ends of the profile interval of a standard deviation or a correlation. Incompatible where none is known by one coordinate."""
    if name not in found.values:
        raise DataError(
            f"{name!r} was not found by evidence; what was: {', '.join(found.values)}"
        )
    k = found.coordinate_of(name)
    if k is None:
        raise Incompatible(
            f"a profile interval of {name} is available for correlations with the first effect; use kind='wald', on the scale of atanh"
        )
    path = ScaleProfile(_problem_of(found, name), found, k)
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
def ratio_at(found: FoundScales, name: str, value: float) -> float:
    """2 (f(top) - max f given the value) of a standard deviation, a correlation or the noise scale. Incompatible where there is none."""
    correlation = name.startswith("cor(")
    if not (-1.0 < value < 1.0 if correlation else value > 0.0):
        if correlation:
            edge = "a correlation lies between -1 and 1"
        else:
            edge = "a standard deviation is positive"
        raise Incompatible(
            f"there is no likelihood ratio of {name} = {value:g}: {edge}, and at its edge the law is another"
        )
    if not found.plain:
        raise Incompatible(
            f"there is no likelihood ratio of {name} = {value:g}: a prior of the scales took part in the maximum"
        )
    if np.isnan(found.values[name]):
        raise Incompatible(
            f"{name} is not defined in this fit: a standard deviation is 0"
        )
    k = found.coordinate_of(name)
    if k is None:
        raise Incompatible(
            f"a likelihood ratio of {name} is available for correlations with the first effect only"
        )
    path = ScaleProfile(_problem_of(found, name), found, k)
    at = float(np.arctanh(value) if correlation else np.log(value))
    return 2.0 * path.fall(
        path.maximum(at, [found.theta, *path.problem.groups.branches(found.theta)])[1]
    )


def _problem_of(found: FoundScales, name: str) -> EvidenceProblem:
    """The search for the maximum of the criterion."""
    if not (found.stated.design.reachable or found.stated.design.kept is not None):
        raise Incompatible(
            f"a profile of {name} needs the rows: {found.stated.design.rows_absent}"
        )
    return EvidenceProblem(
        found.stated,
        False,
        criterion=found.criterion,  # type: ignore[arg-type]
        points=found.points,
    )


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

    def maximum(self, at: float, starts: Sequence[Array]) -> tuple[Array, float]:
        """theta with coordinate k there and the others at their maximum, and f."""
        return self.problem.maximise_given(self.k, at, starts)

    def fall(self, value: float) -> float:
        """top - f, which rounding may make slightly negative. NotConverged where f is above the top."""
        if value > self.top + _HIGHER * (1.0 + abs(self.top)):
            raise NotConverged(
                f"the profile has a value of the criterion, {value:.8g}, above that of the fit, {self.top:.8g}: the fit is at a local "
                "maximum. State starting values by holding a scale, or give the scales priors"
            )
        return max(self.top - value, 0.0)

    def end(self, z: float, side: int, far: float) -> float:
        """The coordinate where sqrt(2 (top - f)) = z on one side; infinite where f does not fall so far."""
        theta = self.found.theta
        k = self.k
        # a correlation of one stands far out, where nothing changes
        if far == _EDGE:
            start = float(np.clip(theta[k], -far / 2.0, far / 2.0))
        else:
            start = float(theta[k])
        sd = float(np.sqrt(self.found.covariance[k, k]))
        step = min(z * sd, _MOST) if np.isfinite(sd) else 1.0
        path = [(start, theta)]

        def gap(at: float, every_branch: bool) -> float:
            near = self._foretell(path, at)
            branches = self.problem.groups.branches
            if every_branch:
                starts = [theta, *branches(theta), *branches(near)]
            else:
                starts = []
            there, value = self.maximum(at, [near, *starts])
            path.append((at, there))
            return float(np.sqrt(2.0 * self.fall(value))) - z

        inner = start
        outer = start + side * step
        # the path follows one branch of the correlations; where another is higher at the end, the search goes on over all of them
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

    def _foretell(self, path: Sequence[tuple[float, Array]], at: float) -> Array:
        """theta where coordinate k is `at`, linear through the two nearest points of the path; from one point along the profile of a
        quadratic."""
        (a, first), *others = sorted(path, key=lambda point: abs(point[0] - at))
        second = next((point for point in others if point[0] != a), None)
        if second is not None:
            return np.asarray(first + (second[1] - first) * (at - a) / (second[0] - a))
        along = self.found.covariance[:, self.k] / self.found.covariance[self.k, self.k]
        return np.asarray(first + np.nan_to_num(along) * (at - a))


# ---- degrees of freedom of flat coefficients -------------------------------------------------------------------------------


class Satterthwaite(NamedTuple):
    """The covariance C(theta) of the model's coefficients in the head at REML, and how it moves with theta.

    Each C is R R' over the coefficients of `frame`, so that variances of combinations do not cancel on columns far from zero.

    Attributes
    ----------
    frame : Frame
        Of the columns that `places` belong to.
    places : array (h,)
        The columns of the head among those of the frame.
    root : array (q, r)
        R at the top.
    moved : array (d, 2, q, r)
        R at theta plus and minus `_DIFFERENCE` along each coordinate; equal where a coordinate is not free.
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
        g = ((up - down) / (2.0 * _DIFFERENCE)).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(2.0 * v**2 / np.einsum("qk,kl,ql->q", g, self.theta, g))

    def joint_df(self, L: Array) -> float:
        """The denominator of an F test of q combinations: with t_m^2 the statistics along the eigenvectors of L C L', of nu_m degrees
        of freedom each, and E = sum nu_m / (nu_m - 2) over nu_m > 2, it is 2 E / (E - q) (Fai & Cornelius 1996)."""
        if len(L) == 1:
            return float(self.df(L)[0])
        P = np.linalg.svd(self._gradients(L) @ self.root, full_matrices=False)[0]
        nu = self.df(P.T @ L)
        if np.ptp(nu) < 1e-8 * nu.max():
            return float(nu.mean())
        E = float((nu[nu > 2.0] / (nu[nu > 2.0] - 2.0)).sum())
        return 2.0 * E / (E - len(L)) if len(L) < E else 2.0

    def _gradients(self, L: Array) -> Array:
        """(n, q), combinations L (n, h) of the head as gradients over the coefficients of the frame."""
        G = np.zeros((len(L), len(self.frame.scale)))
        G[:, self.places] = L
        return self.frame.gradients(G[..., None])[..., 0]


def why_no_satterthwaite(solution: Solution) -> str:
    """Why degrees of freedom are not approximated, in words; "" where they are."""
    found = solution.found
    if found is None or solution.draws is not None:
        return "scales of effects were not found by evidence"
    if found.criterion != "REML" or not found.stated.likelihood.least_squares:
        return "Satterthwaite's degrees of freedom are of REML with Gaussian noise"
    if not found.plain:
        return "the density of a scale took part in the maximum, which is not REML's"
    if not found.stated.unknown:
        return f"{found.stated.noise_scale} was held"
    moving = [
        b.columns
        for b in found.stated.joint.blocks
        if isinstance(b.prior, ProcessPrior)
    ]
    design = found.stated.design
    if moving:
        return f"the columns of {design.called(moving[0])} depend on hyperparameters that were estimated"
    if found.stated.joint.informative[design.head[~design.of_terms[design.head]]].any():
        return "a coefficient beside the effects has a prior"
    return ""


@one_blas_thread()
def satterthwaite(found: FoundScales) -> Satterthwaite:
    """C(theta) with its slopes, by central differences."""
    d = len(found.theta)
    free = np.flatnonzero(np.isfinite(np.diagonal(found.covariance)))
    problem = EvidenceProblem(found.stated, False, criterion="REML")
    frame, root = _root_given(problem, found.theta)
    head = found.stated.design.head
    columns = np.unique(
        np.concatenate(
            [
                head,
                *([] if frame.mixed is None else [frame.mixed]),
                _place(frame.intercept),
            ]
        )
    )
    moved = np.broadcast_to(root[columns], (d, 2, len(columns), root.shape[1])).copy()
    for k in free:
        for side, s in enumerate((1.0, -1.0)):
            moved[k, side] = _root_given(
                problem, found.theta + s * _DIFFERENCE * np.eye(d)[k]
            )[1][columns]
    A = np.where(np.isfinite(found.covariance), found.covariance, 0.0)
    return Satterthwaite(
        frame.of_columns(columns),
        np.searchsorted(columns, head),
        root[columns],
        moved,
        A,
    )


def _place(intercept: int | None) -> Array:
    return np.array([] if intercept is None else [intercept], dtype=np.intp)


def _root_given(problem: EvidenceProblem, theta: Array) -> tuple[Frame, Array]:
    """A root (p, r) of the covariance of the coefficients of a frame given theta; of effects by group without their own part."""
    surface = problem.surface
    if isinstance(surface, ArrowSurface):
        scale = arrow_estimate(surface, theta).scale
        return scale.frame, scale.low
    given, sigma = _given(problem, theta)
    dense = unscaled_covariance(given, problem.model.design)
    return dense.frame, sigma * dense.root


def head_estimate(problem: EvidenceProblem, theta: Array) -> tuple[Array, Array]:
    """The flat coefficients (h,) of Gaussian noise given theta, and their covariance (h, h), the effects integrated over."""
    head = problem.model.design.head
    surface = problem.surface
    if isinstance(surface, ArrowSurface):
        at = arrow_estimate(surface, theta)
        return at.beta[head, 0], at.scale.block(head)
    given, sigma = _given(problem, theta)
    return given.mean[head], np.asarray(sigma**2 * given.unscaled[np.ix_(head, head)])


def _given(problem: EvidenceProblem, theta: Array) -> tuple[Conditional, float]:
    """The posterior of the coefficients given theta, and sigma there."""
    model: Model = replace(
        problem.model,
        prior=problem.prior_at(np.exp(theta[: len(problem.groups.priors)])),
    )
    if problem.noise:
        sigma = float(np.exp(theta[-1]))
    else:
        sigma = float(model.fixed[model.noise_scale])
    return posterior_given_sigma(
        model.design.moments, PriorRows.of(model.joint), sigma
    ), sigma
