"""Intervals and degrees of freedom of a fit with scales estimated by evidence: profiles
of the criterion, and Satterthwaite's approximation.

The profile interval of sd or sigma contains the values psi with 2 (f(top) - max f given
psi) <= z^2, f the log of the criterion (REML or ML) over theta. A standard deviation
may be 0 and a correlation -1 or 1: these are the ends if f does not decrease enough.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy

from probreg.data.frame import Frame
from probreg.data.implicit_columns import LazyColumns
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import Array, Solution
from probreg.inference.exact.evidence_problem import EvidenceProblem, problem_of
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.scale_search import HELD
from probreg.inference.uncertainty.intervals.arithmetic import (
    positive_interval,
    quantile,
)
from probreg.inference.uncertainty.profile import find_crossing
from probreg.inference.varying import FoundScales
from probreg.linalg import one_blas_thread
from probreg.priors.gaussian_process import ProcessPrior
from probreg.system.terminal import progress_bar

_EDGE = 12.0  # atanh of a correlation of 1 up to 1e-10
# of theta: central differences of an estimate or a covariance, with an error of about 1e-8
SCALE_DIFFERENCE = 1e-4


# ---- intervals of standard deviations and correlations ---------------------------------------------------------------------


def wald_on_free_scale(
    scales: FoundScales, name: str, prob: float
) -> tuple[float, float]:
    """Return estimate -+ z standard errors on the log of a standard deviation, or on
    atanh of a correlation; nan without an error, or for a standard deviation below its error."""
    # of a log sd: the sd is then less than one standard error from 0, where its log has no normal distribution
    largest_error = 1.0
    value = scales.values[name]
    error = scales.errors[name]
    if not np.isfinite(value) or not np.isfinite(error) or value == 0.0:
        return np.nan, np.nan
    if name.startswith("cor("):
        # d atanh r = d r / (1 - r^2)
        t = np.arctanh(value)
        reach = quantile(prob, None) * error / (1.0 - value**2)
        return float(np.tanh(t - reach)), float(np.tanh(t + reach))
    if error > largest_error * value:
        return np.nan, np.nan
    return positive_interval(value, error, prob)


@one_blas_thread()
def profile_interval(
    scales: FoundScales, name: str, prob: float
) -> tuple[float, float]:
    """Return the profile interval of a standard deviation or a correlation.
    Incompatible if it has no separate coordinate."""
    far = 25.0  # a log: an end this far above the estimate is infinite
    if name not in scales.values:
        raise DataError(
            f"{name!r} was not estimated by evidence; estimated: {', '.join(scales.values)}"
        )
    path = _profile_of(scales, name)
    z = quantile(prob, None)
    correlation = name.startswith("cor(")
    with progress_bar(f"profile interval of {name}", 2) as bar:
        if correlation:
            lower, upper = (path.end(z, side, _EDGE) for side in bar.over((-1, 1)))
            return float(np.tanh(lower)), float(np.tanh(upper))
        # a scale below the estimate / HELD counts as zero
        far_by_side = ((-1, float(np.log(HELD))), (1, far))
        lower, upper = (path.end(z, side, end) for side, end in bar.over(far_by_side))
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
    _, highest = path.problem.maximise_given(path.k, coordinate, path.starts)
    return 2.0 * path.fall(highest)


def _profile_of(scales: FoundScales, name: str) -> "ScaleProfile":
    """Return the profile of the criterion over one scale. Incompatible if it has no
    coordinate of its own, or the rows are absent."""
    k = scales.coordinate_of(name)
    if k is None:
        raise Incompatible(
            f"a profile of {name} is available for correlations with the first effect; use kind='wald', on the scale of atanh"
        )
    if scales.rows_absent:
        raise Incompatible(f"a profile of {name} needs the rows: {scales.rows_absent}")
    return ScaleProfile(problem_of(scales), scales, k)


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

    @cached_property
    def starts(self) -> list[Array]:
        """Starts at the fit and on its other branches, and with positive scales in place of zeros, because scales need not be zero
        given coordinate k."""
        theta = self.found.theta
        positive = _positive_starts(self.problem, self.found)
        return [theta, *positive, *self.problem.groups.branches(theta)]

    @property
    def _may_be_infinite(self) -> bool:
        """Whether coordinate k is a nuisance parameter with a limiting model at infinity."""
        place = self.k - len(self.problem.groups.priors)
        infinite = self.problem.model.likelihood.at_infinity
        outer = self.problem.outer
        return place in range(len(outer)) and outer[place] in infinite

    def fall(self, value: float) -> float:
        """Return top - f, which rounding may make slightly negative. NotConverged if f is above the top."""
        tolerance = 1e-7  # of the criterion: more than the rounding of a search
        if value > self.top + tolerance * (1.0 + abs(self.top)):
            raise NotConverged(
                f"the profile has a value of the criterion, {value:.8g}, above the fit's, {self.top:.8g}: the fit is at a local "
                "maximum. Fix a scale, or give the scales priors"
            )
        return max(self.top - value, 0.0)

    def end(self, z: float, side: int, far: float) -> float:
        """Return the coordinate with sqrt(2 (top - f)) = z on one side; infinite if f does not decrease enough."""
        max_step = 2.0  # largest change of a coordinate in one step
        tolerance = 1e-4  # of z: tolerance for two branches of a profile
        theta = self.found.theta
        k = self.k
        start = float(theta[k])
        # a correlation of one is far out, where the criterion is constant
        if far == _EDGE:
            start = float(np.clip(start, -far / 2.0, far / 2.0))
        sd = float(np.sqrt(self.found.covariance[k, k]))
        first = min(z * sd, max_step) if np.isfinite(sd) else 1.0
        path = [(start, theta)]
        # a vanished scale begins far below its upper end, and a parameter that goes to infinity far above its lower end
        is_far_below = self.found.vanished[k] and side > 0
        is_far_above = self._may_be_infinite and side < 0
        last = start + side * (3.0 * far if is_far_below or is_far_above else far)

        def further(point: float) -> Iterator[float]:
            step = first
            while side * (last - point) >= 0.0:
                point += side * step
                yield point
                step = min(1.5 * step, max_step)

        def gap(psi: float, every_branch: bool) -> float:
            predicted = self._foretell(path, psi)
            starts = [predicted]
            if every_branch:
                starts += [*self.starts, *self.problem.groups.branches(predicted)]
            theta_new, value = self.problem.maximise_given(k, psi, starts)
            path.append((psi, theta_new))
            return float(np.sqrt(2.0 * self.fall(value))) - z

        end = start
        # the path follows one branch of the correlations and of scales of zero; if another is
        # higher at the end, the search continues over all of them
        for every_branch in (False, True):
            excess = partial(gap, every_branch=every_branch)
            crossing = find_crossing(excess, end, further(end))
            if crossing is None:
                return side * np.inf
            end = crossing
            if every_branch or gap(end, True) > -tolerance:
                break
            path = [path[-1]]
        return end

    def _foretell(self, path: Sequence[tuple[float, Array]], psi: float) -> Array:
        """Predict theta with coordinate k at `psi` from the nearest point of the path,
        along the profile of a quadratic."""
        nearest, theta = min(path, key=lambda point: abs(point[0] - psi))
        slope = self.found.covariance[:, self.k] / self.found.covariance[self.k, self.k]
        return theta + np.nan_to_num(slope) * (psi - nearest)


def _positive_starts(problem: EvidenceProblem, scales: FoundScales) -> list[Array]:
    """Return theta with starting values of a fit in place of scales of zero; nothing if no scale is zero."""
    if not scales.vanished.any():
        return []
    start = problem.starts[0]
    return [np.where(scales.vanished, start[: len(scales.theta)], scales.theta)]


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
        The indices of the head's columns in the frame.
    root : array (q, r)
        R at the estimate.
    moved : array (d, 2, q, r)
        R at theta plus and minus `SCALE_DIFFERENCE` along each coordinate; equal for a
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
        g = ((up - down) / (2.0 * SCALE_DIFFERENCE)).T
        with np.errstate(divide="ignore", invalid="ignore"):
            return 2.0 * v**2 / np.einsum("qk,kl,ql->q", g, self.theta, g)

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
        """Convert combinations L (n, h) of the head to gradients (n, q) over the coefficients of the frame."""
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
    free = scales.free
    problem = problem_of(scales)
    covariance = problem.surface.estimate(scales.theta)[1]
    frame = covariance.frame
    root = np.asarray(covariance.root)
    head = scales.stated.design.ungrouped
    entering = set(head)
    if frame.mixed is not None:
        entering |= set(frame.mixed)
    entering |= frame.intercepts
    columns = np.array(sorted(entering), dtype=np.intp)
    roots = np.broadcast_to(root[columns], (d, 2, len(columns), root.shape[1])).copy()
    for k in free:
        for side, s in enumerate((1.0, -1.0)):
            moved = scales.theta + s * SCALE_DIFFERENCE * np.eye(d)[k]
            roots[k, side] = problem.surface.estimate(moved)[1].root[columns]
    A = np.where(np.isfinite(scales.covariance), scales.covariance, 0.0)
    return Satterthwaite(
        frame.of_columns(columns),
        np.searchsorted(columns, head),
        root[columns],
        roots,
        A,
    )


def df_without_groups(
    solution: Solution, head: Array, combinations: Array | LazyColumns
) -> Array | None:
    """Return Satterthwaite's degrees of freedom for combinations (q, p) of coefficients of a
    REML fit; None for other fits, and for effects by group, which are not in `head`."""
    scales = solution.effect_scales
    if scales is None or why_no_satterthwaite(solution):
        return None
    if isinstance(combinations, LazyColumns):
        has_groups = any(group.Z.any() for group in combinations.tail)
    else:
        used = combinations.any(axis=0)
        used[head] = False
        has_groups = bool(used.any())
    if has_groups:
        return None
    flat = combinations[:, head]
    df = np.full(len(flat), np.inf)  # of zeros, which have no error
    some = flat.any(1)
    df[some] = satterthwaite(scales).df(flat[some])
    return df if (df[some] > 0).all() and np.isfinite(df[some]).all() else None


def why_no_profile(scales: FoundScales, kind: str) -> str:
    """Return why coefficients have no interval that inverts a test here; "" if they have."""
    if kind != "profile":
        return f"a {kind} interval of coefficients ignores the uncertainty of estimated scales; use kind='profile' or 'wald'"
    if scales.criterion != "ML":
        return "REML has no likelihood of coefficients: a profile needs Evidence(criterion='ML'); use kind='t'"
    stated = scales.stated
    has_process = any(isinstance(b.prior, ProcessPrior) for b in stated.joint.blocks)
    if not stated.likelihood.least_squares and (has_process or stated.shape[1] > 1):
        return (
            "a profile over scales needs Gaussian noise, or one linear predictor without processes; use kind='wald', or "
            "Bootstrap"
        )
    if scales.separated:
        return "columns separate the response, so the criterion is a limit; use kind='wald'"
    if (
        not scales.plain
        or scales.stated.joint.informative[scales.stated.design.ungrouped].any()
    ):
        return "the maximum includes a prior, so the ratio is not a likelihood ratio; use kind='wald'"
    if scales.rows_absent:
        return f"a profile needs the rows: {scales.rows_absent}"
    return ""


@one_blas_thread()
def profiled_coefficients(
    scales: FoundScales, kind: str, z: float
) -> tuple[Array, Array]:
    """Return ends (h,) of the profile interval of each flat coefficient in the head at
    standard normal quantile z, or raise Incompatible.

    With other likelihoods the flat coefficients are coordinates of the criterion, and `ScaleProfile` profiles them like a scale.

    Given theta, the logs of scales and sigma, a Gaussian likelihood is quadratic in the
    flat coefficients, with estimate b and covariance C. Maximised over the other
    coefficients, with f the ML criterion,

        l(b_j = psi, theta) = f(theta) - (b_j(theta) - psi)^2 / (2 C_jj(theta)).

    The interval {psi: 2 (f(top) - max over theta of l) <= z^2} therefore ends at the
    minimum and maximum over theta of b_j(theta) -+ sqrt(C_jj (z^2 - 2 (f(top) -
    f(theta)))): one search for each end.
    """
    reason = why_no_profile(scales, kind)
    if reason:
        raise Incompatible(reason)
    problem = problem_of(scales)
    count = len(scales.stated.design.ungrouped)
    end = _gaussian_end
    if not scales.stated.likelihood.least_squares:
        end = _profile_end
    with progress_bar("profile intervals", 2 * count) as bar:
        ends = [
            end(scales, problem, j, side, z)
            for side, j in bar.over(product((-1, 1), range(count)))
        ]
    return np.array(ends[:count]), np.array(ends[count:])


def _profile_end(
    scales: FoundScales, problem: EvidenceProblem, j: int, side: int, z: float
) -> float:
    """Return one end of the interval of one coefficient. A rotation of the flat coordinates of the criterion makes the coefficient the
    first of them."""
    far = 25.0  # standard errors: an end this far from the estimate is infinite
    surface = problem.surface
    assert isinstance(surface, LaplaceSurface)  # `why_no_profile`
    k = scales.count
    place = problem.model.design.ungrouped[j]
    # a coefficient is linear in the coordinates
    value = surface.coefficients(scales.theta)[place, 0]
    ahead = [
        surface.coefficients(scales.theta + e)[place, 0]
        for e in np.eye(len(scales.theta))[k:]
    ]
    slopes = np.array(ahead) - value
    Q = np.linalg.qr(slopes[:, None], mode="complete")[0]
    B = scipy.linalg.block_diag(np.eye(k), Q)
    surface.rotate_flat(Q)
    rotated = replace(
        scales,
        theta=scales.theta @ B,
        hessian_of=lambda: B.T @ scales.hessian @ B,
    )
    unit = float(slopes @ Q[:, 0])  # of the coefficient, in one unit of the coordinate
    direction = side if unit > 0.0 else -side
    end = ScaleProfile(problem, rotated, k).end(z, direction, far)
    surface.rotate_flat(Q.T)
    return value + unit * (end - float(rotated.theta[k]))


def _gaussian_end(
    scales: FoundScales, problem: EvidenceProblem, j: int, side: int, z: float
) -> float:
    """Return one end of the interval of one coefficient: the farther one among searches from the estimate, from
    vanished scales and from correlations of -1 or 1."""
    surface = problem.surface
    top = surface(scales.theta).value
    steps = SCALE_DIFFERENCE * np.eye(len(scales.theta))
    place = problem.model.design.ungrouped[j]

    def estimate(theta: Array) -> Array:
        beta, covariance = surface.estimate(theta)
        return np.array([beta[place, 0], covariance.diagonal()[place]])

    def reach(theta: Array) -> tuple[float, Array]:
        """side b_j + sqrt(C_jj r), r = z^2 - 2 (f(top) - f(theta)), and its slopes; -inf if r is negative."""
        local = surface(theta)
        r = z**2 - 2.0 * (top - local.value)
        if not np.isfinite(r) or r <= 0.0:
            return -np.inf, np.zeros(len(theta))
        b, v = estimate(theta)
        moves = [estimate(theta + e) - estimate(theta - e) for e in steps]
        db, dv = np.transpose(moves) / (2.0 * SCALE_DIFFERENCE)
        root = float(np.sqrt(v * r))
        slopes = side * db + (r * dv + v * 2.0 * local.gradient) / (2.0 * root)
        return side * b + root, slopes

    # theta = start + R w: steps of one standard error, or of 1 without one
    R = np.eye(len(scales.theta))
    free = scales.free
    R[np.ix_(free, free)] = np.linalg.cholesky(scales.covariance[np.ix_(free, free)])

    def search(start: Array) -> float:
        def lost(w: Array) -> tuple[float, Array]:
            value, slope = reach(start + R @ w)
            return -value, -R.T @ slope

        w = np.zeros(len(start))
        begin = lost(w)[0]
        if not np.isfinite(begin):
            return -np.inf
        options = {"gtol": 1e-7 * (1.0 + abs(begin))}
        minimum = scipy.optimize.minimize(lost, w, jac=True, options=options)  # BFGS
        return float(-min(begin, minimum.fun))

    starts = [scales.theta, *_positive_starts(problem, scales)]
    # a correlation of -1 or 1 has no slope, so a search from it does not move it
    if (scales.not_free & ~scales.vanished).any():
        branches = problem.groups.branches(scales.theta)
        starts.append(max(branches, key=lambda theta: reach(theta)[0]))
    return side * max(map(search, starts))
