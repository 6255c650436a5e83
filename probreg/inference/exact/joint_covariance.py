"""The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

With V the covariance of the coefficients b given the free coordinates theta of the maximum, S that of theta, and J = d mode / d theta, the
joint covariance of b is V + J S J'. The logs of nuisance parameters are among theta. Under ML flat
coefficients f are coordinates of theta: V is the covariance given f, and J = V_bf V_ff^-1 of the covariance of all coefficients.
"""

import numpy as np

from probreg.errors import warn_caller
from probreg.inference.base import Array
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.exact.evidence_problem import EvidenceProblem, problem_of
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.varying import FoundScales
from probreg.linalg import one_blas_thread
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model


@one_blas_thread()
def joint_covariance(
    scales: FoundScales, conditional: ParameterCovariance, model: Model
) -> ParameterCovariance:
    """Return the covariance of the coefficients of the final model and of the logs of its nuisance parameters, from
    the covariance of the coefficients given its scales."""
    free = np.flatnonzero(np.isfinite(np.diagonal(scales.covariance)))
    if not len(free):
        if not scales.not_free.all():
            warn_caller(
                "standard errors treat the scales as known, because the criterion is not concave at its maximum over the scales"
            )
        return conditional
    problem = problem_of(scales)
    problem.surface.choose_at(scales.theta)
    size = model.shape[0] * model.shape[1]
    changes = np.zeros((size, len(scales.theta)))
    if len(scales.theta) > scales.count:
        flat, moves = _flat_derivatives(problem)
        cross = conditional.times(np.eye(size)[:, flat])
        conditional = conditional.condition_on(flat)
        changes[:, scales.count :] = cross @ np.linalg.solve(cross[flat], moves)
    for k in free[free < scales.count]:
        slope = problem.surface.slope_of_mode(scales.theta, k, model.design)
        changes[:, k] = slope.ravel()
    if conditional.missing is not None:
        changes[conditional.missing[:size]] = 0.0
    # the logs of nuisance parameters are coordinates of theta, behind the scales
    places = len(problem.groups.priors) + np.arange(len(problem.outer))
    known = [k for k, place in enumerate(places) if place in free]
    changes = np.vstack([changes, np.eye(changes.shape[1])[places[known]]])
    joint = conditional.with_further([f"log {problem.outer[k]}" for k in known])
    return joint.with_spread(
        changes[:, free] @ np.linalg.cholesky(scales.covariance[np.ix_(free, free)])
    )


def _flat_derivatives(problem: EvidenceProblem) -> tuple[Array, Array]:
    """Return the entries of flat coefficients in vec beta, and their derivatives over
    their coordinates in theta."""
    m = problem.model.shape[1]
    flat = vec_entries(
        tuple(np.flatnonzero(~problem.model.joint.informative).tolist()), m
    )
    surface = problem.surface
    assert isinstance(surface, LaplaceSurface)  # a Gaussian criterion has no such theta
    return flat, surface.moves_of_flat[flat]
