"""Profile likelihood intervals of flat coefficients with scales estimated by evidence
(ML), profiled over theta, the logs of scales and sigma.

Given theta a Gaussian likelihood is quadratic in the flat coefficients, with estimate b
and covariance C. Maximised over the other coefficients,

    l(b_j = psi, theta) = f(theta) - (b_j(theta) - psi)^2 / (2 C_jj(theta)),   f the ML criterion.

The interval {psi: 2 (f(top) - max over theta of l) <= z^2} therefore ends at the
minimum and maximum over theta of b_j(theta) -+ sqrt(C_jj (z^2 - 2 (f(top) -
f(theta)))): one search for each end.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from probreg.data.rows import Array
from probreg.errors import Incompatible
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.latent_groups import EvidenceSurface
from probreg.inference.uncertainty.found_scales import head_estimate
from probreg.inference.varying import FoundScales
from probreg.numerics.linalg import one_blas_thread

_STEP = 1e-4  # of theta, for central differences of an estimate, with an error of about 1e-8
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
        or scales.stated.joint.informative[scales.stated.design.head].any()
    ):
        return "the maximum includes a prior, so the ratio is not a likelihood ratio; use kind='wald'"
    if not (scales.stated.design.reachable or scales.stated.design.kept is not None):
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
    h = len(scales.stated.design.head)
    ends = [
        [_End(scales, problem, problem.surface, j, side, z).value for j in range(h)]
        for side in (-1, 1)
    ]
    return np.array(ends[0]), np.array(ends[1])


@dataclass(frozen=True, eq=False)
class _End:
    """One end of the interval of one coefficient."""

    found: FoundScales
    problem: EvidenceProblem
    surface: EvidenceSurface
    j: int
    side: int
    z: float

    @cached_property
    def value(self) -> float:
        """The farther end among searches from the estimate and from vanished scales."""
        starts = [self.found.theta]
        if self.found.vanished.any():
            if self.problem.noise:
                log_sigma = self.found.theta[-1]
            else:
                log_sigma = np.log(self.surface.response_scale)
            starts.append(
                np.where(self.found.vanished, log_sigma + _BACK, self.found.theta)
            )
        return self.side * max(self._search(start) for start in starts)

    @cached_property
    def top(self) -> float:
        return self.surface(self.found.theta).value

    @cached_property
    def _root(self) -> Array:
        """R with theta = start + R w: steps of one standard error, or of 1 without
        one."""
        A = self.found.covariance
        d = len(self.found.theta)
        R = np.eye(d)
        free = np.flatnonzero(np.isfinite(np.diagonal(A)))
        R[np.ix_(free, free)] = np.linalg.cholesky(A[np.ix_(free, free)])
        return R

    def _search(self, start: Array) -> float:
        R = self._root

        def lost(w: Array) -> tuple[float, Array]:
            value, slope = self._reach(start + R @ w)
            return -value, -R.T @ slope

        begin = lost(np.zeros(len(start)))[0]
        if not np.isfinite(begin):
            return -np.inf
        return float(
            -min(
                begin,
                scipy.optimize.minimize(
                    lost,
                    np.zeros(len(start)),
                    jac=True,
                    method="BFGS",
                    options={"gtol": 1e-7 * (1.0 + abs(begin))},
                ).fun,
            )
        )

    def _reach(self, theta: Array) -> tuple[float, Array]:
        """side b_j + sqrt(C_jj r), r = z^2 - 2 (f(top) - f(theta)), and its slopes;
        -inf if r is negative."""
        local = self.surface(theta)
        r = self.z**2 - 2.0 * (self.top - local.value)
        if not np.isfinite(r) or r <= 0.0:
            return -np.inf, np.zeros(len(theta))
        b, v = self._estimate(theta)
        up, down = (
            np.array(
                [self._estimate(theta + s * e) for e in np.eye(len(theta)) * _STEP]
            )
            for s in (1.0, -1.0)
        )
        db, dv = ((up - down) / (2.0 * _STEP)).T
        reach = float(np.sqrt(v * r))
        return self.side * b + reach, self.side * db + (
            r * dv + v * 2.0 * local.gradient
        ) / (2.0 * reach)

    def _estimate(self, theta: Array) -> tuple[float, float]:
        beta, C = head_estimate(self.problem, theta)
        return float(beta[self.j]), float(C[self.j, self.j])
