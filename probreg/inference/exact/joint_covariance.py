"""The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

With V the covariance of the coefficients b given the free coordinates theta of the maximum, S that of theta, and J = d mode / d theta, the
joint covariance of b is V + J S J'. The logs of nuisance parameters are among theta. Under ML flat
coefficients f are coordinates of theta: V is the covariance given f.
"""

import numpy as np

from probreg.errors import warn_caller
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.exact.evidence_problem import problem_of
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
    free = scales.free
    if not len(free):
        if not scales.not_free.all():
            warn_caller(
                "standard errors treat the scales as known, because the criterion is not concave at its maximum over the scales"
            )
        return conditional
    problem = problem_of(scales)
    surface = problem.surface
    surface.choose_at(scales.theta)
    size = model.n_coefficients
    if len(scales.theta) > scales.count:
        flat = np.flatnonzero(~problem.model.joint.informative).tolist()
        conditional = conditional.condition_on(vec_entries(tuple(flat), model.shape[1]))
    slopes = [
        surface.slope_of_mode(scales.theta, k, model.design) for k in free.tolist()
    ]
    changes = np.column_stack([slope.ravel() for slope in slopes])
    if conditional.missing is not None:
        changes[conditional.missing[:size]] = 0.0
    # the logs of nuisance parameters are coordinates of theta, behind the scales
    places = len(problem.groups.priors) + np.arange(len(problem.outer))
    known = np.isin(places, free)
    changes = np.vstack([changes, np.equal.outer(places[known], free)])
    names = [f"log {problem.outer[k]}" for k in np.flatnonzero(known)]
    root = np.linalg.cholesky(scales.covariance[np.ix_(free, free)])
    return conditional.with_spread(changes @ root, names)
