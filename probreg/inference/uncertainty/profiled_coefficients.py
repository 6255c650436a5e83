"""Profile likelihood intervals of flat coefficients with scales estimated by evidence
(ML), profiled over theta, the logs of scales and sigma.

Given theta a Gaussian likelihood is quadratic in the flat coefficients, with estimate b
and covariance C. Maximised over the other coefficients,

    l(b_j = psi, theta) = f(theta) - (b_j(theta) - psi)^2 / (2 C_jj(theta)),   f the ML criterion.

The interval {psi: 2 (f(top) - max over theta of l) <= z^2} therefore ends at the
minimum and maximum over theta of b_j(theta) -+ sqrt(C_jj (z^2 - 2 (f(top) -
f(theta)))): one search for each end.
"""

import numpy as np
import scipy

from probreg.data.rows import Array
from probreg.errors import Incompatible
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.uncertainty.found_scales import DIFFERENCE, estimate_given
from probreg.inference.varying import FoundScales
from probreg.linalg import one_blas_thread

_BACK = np.log(0.3)  # start for a vanished scale relative to the noise


def why_no_profile(scales: FoundScales, kind: str) -> str:
    """Return why coefficients have no interval that inverts a test here; "" if they
    have."""
    if kind != "profile":
        return f"a {kind} interval of coefficients ignores the uncertainty of estimated scales; use kind='profile' or 'wald'"
    if scales.criterion != "ML":
        return "REML has no likelihood of coefficients: a profile needs Evidence(criterion='ML'); use kind='t'"
    if not scales.stated.likelihood.least_squares:
        return (
            "a profile over scales needs Gaussian noise; use kind='wald', or Bootstrap"
        )
    if (
        not scales.plain
        or scales.stated.joint.informative[scales.stated.design.ungrouped].any()
    ):
        return "the maximum includes a prior, so the ratio is not a likelihood ratio; use kind='wald'"
    if not (scales.stated.design.has_rows or scales.stated.design.kept is not None):
        return f"a profile needs the rows: {scales.stated.design.rows_absent}"
    return ""


@one_blas_thread()
def profiled_coefficients(
    scales: FoundScales, kind: str, z: float
) -> tuple[Array, Array]:
    """Return ends (h,) of the interval of each coefficient in the head at standard
    normal quantile z, or raise Incompatible."""
    reason = why_no_profile(scales, kind)
    if reason:
        raise Incompatible(reason)
    problem = EvidenceProblem(scales.stated, False, criterion="ML")
    ends = [
        [
            _end(scales, problem, j, side, z)
            for j in range(len(scales.stated.design.ungrouped))
        ]
        for side in (-1, 1)
    ]
    return np.array(ends[0]), np.array(ends[1])


def _end(
    scales: FoundScales, problem: EvidenceProblem, j: int, side: int, z: float
) -> float:
    """Return one end of the interval of one coefficient: the farther one among searches from the estimate and from
    vanished scales."""
    surface = problem.surface
    top = surface(scales.theta).value
    steps = DIFFERENCE * np.eye(len(scales.theta))
    place = problem.model.design.ungrouped[j]

    def estimate(theta: Array) -> Array:
        beta, covariance = estimate_given(problem, theta)
        return np.array([beta[place], covariance.errors()[place] ** 2])

    def reach(theta: Array) -> tuple[float, Array]:
        """side b_j + sqrt(C_jj r), r = z^2 - 2 (f(top) - f(theta)), and its slopes;
        -inf if r is negative."""
        local = surface(theta)
        r = z**2 - 2.0 * (top - local.value)
        if not np.isfinite(r) or r <= 0.0:
            return -np.inf, np.zeros(len(theta))
        b, v = estimate(theta)
        moves = [estimate(theta + e) - estimate(theta - e) for e in steps]
        db, dv = np.transpose(moves) / (2.0 * DIFFERENCE)
        root = float(np.sqrt(v * r))
        slopes = side * db + (r * dv + v * 2.0 * local.gradient) / (2.0 * root)
        return side * b + root, slopes

    # theta = start + R w: steps of one standard error, or of 1 without one
    R = np.eye(len(scales.theta))
    free = np.flatnonzero(np.isfinite(np.diagonal(scales.covariance)))
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

    farthest = search(scales.theta)
    if scales.vanished.any():
        if problem.noise:
            log_sigma = scales.theta[-1]
        else:
            log_sigma = np.log(surface.response_scale)
        start = np.where(scales.vanished, log_sigma + _BACK, scales.theta)
        farthest = max(farthest, search(start))
    return side * farthest
