"""Errors under sampling weights: the pseudo-likelihood gives the estimate, the spread of the rows' scores its covariance."""

from dataclasses import replace

import numpy as np

from probreg.data.weights import without_likelihood
from probreg.errors import NotConverged
from probreg.inference.base import Method, Solution, Status
from probreg.inference.penalized.nonsmooth import has_nonsmooth_terms
from probreg.inference.uncertainty.information import estimate_of
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread

KIND = "sampling-weighted"


def method_obstacle(method: Method, model: Model) -> str | None:
    """Why a method cannot fit this model: its own reasons, and that its answer is of a likelihood where rows have none."""
    if not method.pseudo and (why := without_likelihood(model.design.weight_kind, method.name)) is not None:
        return why
    return method.obstacle(model)


@one_blas_thread()
def with_errors(model: Model, solution: Solution) -> Solution:
    """The solution with the covariance n/(n - 1) V M V over (beta, log aux) in place of its own, M = sum_i w_i^2 u_i u_i'
    of the rows' scores u_i (Binder 1983; rows are the units that were sampled); as it is under weights of other kinds."""
    if model.design.weight_kind != "sampling" or solution.status is Status.NO_MAXIMUM or has_nonsmooth_terms(model):
        return solution
    n, k = model.design.total, solution.beta.size
    try:
        at = estimate_of(model, solution, "a sandwich covariance")
        over_phi = n / (n - 1.0) * at.observed @ at.meat(None) @ at.observed if n > 1 else np.nan * at.observed
    except NotConverged as error:
        return replace(solution, scale=np.full((k, k), np.nan), df=None, notes=(*solution.notes, str(error)))
    V = at.frame @ over_phi @ at.frame.T
    spread = np.sqrt(np.diagonal(V)[k:])  # of log aux, by the delta method that of aux over aux
    aux_sd = {a: solution.aux[a] * float(s) for a, s in zip(model.unknown, spread)}
    stats = {name: value for name, value in solution.stats.items() if name not in ("log_evidence", "log_likelihood")}
    own = tuple(note.split("; standard errors")[0] for note in solution.notes if not note.startswith("standard errors"))
    notes = (
        *own,
        "standard errors are the sandwich of the sampling weights, times n/(n - 1); weights are normalised to sum to n",
    )
    return replace(solution, scale=V[:k, :k], aux_sd=aux_sd, df=None, sandwich=KIND, stats=stats, notes=notes)
