"""The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

With A A' the covariance of the free coordinates theta of the maximum, J = d mode / d theta and `root` that of the coefficients given
theta, a root of the joint covariance is [[root, J A], [0, A]]. Under ML flat coefficients are coordinates of theta.
"""

import numpy as np

from probreg.inference.base import Array
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.exact.arrow_estimate import coefficients_at, covariance_given
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.profiled_surface import ProfiledSurface
from probreg.inference.varying import FoundScales
from probreg.numerics.linalg import one_blas_thread

_STEP = 0.01  # of theta in standard errors: differences of the mode, whose rounding is some 1e-7


@one_blas_thread()
def joint_covariance(found: FoundScales, conditional: ParameterCovariance) -> ParameterCovariance:
    """Of the coefficients, from their covariance given the scales that were found."""
    problem = EvidenceProblem(found.stated, False, criterion=found.criterion, points=found.points)  # type: ignore[arg-type]
    surface, theta = problem.surface, found.theta
    assert isinstance(surface, ArrowLaplaceSurface | LaplaceSurface)  # see `with_joint_errors`

    def mode(at: Array) -> Array:
        beta = coefficients_at(surface, at) if isinstance(surface, ArrowLaplaceSurface) else surface.mode(at).beta
        return beta.ravel()

    free = np.flatnonzero(np.isfinite(np.diagonal(found.covariance)))
    if not len(free):
        return conditional
    A = np.linalg.cholesky(found.covariance[np.ix_(free, free)])
    steps = _STEP * np.sqrt(np.diagonal(found.covariance)[free])
    along = [h * (np.arange(len(theta)) == j) for j, h in zip(free, steps)]
    J = [(mode(theta + e) - mode(theta - e)) / (2.0 * h) for e, h in zip(along, steps)]
    if found.criterion == "ML" and isinstance(surface, ArrowLaplaceSurface):
        conditional = covariance_given(surface, theta)
    elif isinstance(surface, ProfiledSurface):
        at = surface.mode(theta)
        frame, m = at.model.design.frame, at.model.shape[1]
        conditional = DenseCovariance.of_raw_root(frame, m, surface.root(at))
    return conditional.with_spread(np.array(J).reshape(len(free), -1).T @ A)
