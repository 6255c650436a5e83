"""Profile likelihood intervals of flat coefficients at scales found by evidence (ML): over theta too, the logs of scales and sigma.

Given theta a Gaussian likelihood is quadratic in the flat coefficients, b their estimate and C their covariance there: at its maximum
over the others

    l(b_j = psi, theta) = f(theta) - (b_j(theta) - psi)^2 / (2 C_jj(theta)),   f the ML criterion.

The values psi with 2 (f(top) - max over theta of l) <= z^2 end therefore where b_j(theta) -+ sqrt(C_jj (z^2 - 2 (f(top) - f(theta))))
is least and largest over theta: one search for each end.
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

_STEP = 1e-4  # of theta, for central differences of an estimate: an error of some 1e-8 of it
_BACK = np.log(
    0.3
)  # from the noise to a scale that had vanished, where a search begins too


def why_no_profile(found: FoundScales, kind: str) -> str:
    """Why coefficients have no interval that inverts a test here, in words; "" where they have."""
    if kind != "profile":
        return f"a {kind} interval of coefficients takes no account of scales that were found; use kind='profile' or 'wald'"
    if found.criterion != "ML":
        return "REML has no likelihood of coefficients: a profile needs Evidence(criterion='ML'); use kind='t'"
    if not found.stated.likelihood.least_squares:
        return (
            "a profile over scales needs Gaussian noise; use kind='wald', or Bootstrap"
        )
    if (
        not found.plain
        or found.stated.joint.informative[found.stated.design.head].any()
    ):
        return "a prior took part in the maximum, so that the ratio is none of likelihoods; use kind='wald'"
    if not (found.stated.design.reachable or found.stated.design.kept is not None):
        return f"a profile needs the rows: {found.stated.design.rows_absent}"
    return ""


@one_blas_thread()
def profiled_coefficients(
    found: FoundScales, kind: str, z: float
) -> tuple[Array, Array]:
    """Ends (h,) of the interval of each coefficient in the head at standard normal quantile z. Incompatible where there is none."""
    why = why_no_profile(found, kind)
    if why:
        raise Incompatible(why)
    problem = EvidenceProblem(found.stated, False, criterion="ML")
    h = len(found.stated.design.head)
    each = [
        [_End(found, problem, problem.surface, j, side, z).value for j in range(h)]
        for side in (-1, 1)
    ]
    return np.array(each[0]), np.array(each[1])


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
        """The farther of what searches from the top, and from scales that had vanished, come to."""
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
        """R with theta = start + R w: steps of one standard error, of one where there is none."""
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
        """side b_j + sqrt(C_jj r), r = z^2 - 2 (f(top) - f(theta)), and its slopes; without a root where r is negative."""
        at = self.surface(theta)
        r = self.z**2 - 2.0 * (self.top - at.value)
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
            r * dv + v * 2.0 * at.gradient
        ) / (2.0 * reach)

    def _estimate(self, theta: Array) -> tuple[float, float]:
        beta, C = head_estimate(self.problem, theta)
        return float(beta[self.j]), float(C[self.j, self.j])
