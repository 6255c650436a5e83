"""The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

With A A' the covariance of the free coordinates theta of the maximum, J = d mode / d theta and `root` that of the coefficients given
theta, a root of the joint covariance is [[root, J A], [0, A]]. Under ML flat coefficients are coordinates of theta.
"""

from collections.abc import Callable

import numpy as np

from probreg.errors import warn_caller
from probreg.inference.base import Array
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.exact.arrow_estimate import coefficients_at, covariance_given
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.gaussian_surface import GaussianSurface
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.profiled_surface import ProfiledSurface
from probreg.inference.modes.closed_form import PriorRows, posterior_given_sigma
from probreg.inference.modes.newton import find_mode
from probreg.inference.varying import FoundScales
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread
from probreg.priors.gaussian_process import ProcessPrior

_RANK = 1e-5  # of the largest singular value of the columns of a process: below, rounding of f decides the coefficients
_TOL = 1e-10  # of a mode, in standard errors over the square root of the rows
_STEP = 0.01  # of theta in standard errors, and of a log at most: differences of the mode, whose rounding is some 1e-7


@one_blas_thread()
def joint_covariance(found: FoundScales, conditional: ParameterCovariance, model: Model) -> ParameterCovariance:
    """Of the coefficients of the model that was found, from their covariance given its scales."""
    free = np.flatnonzero(np.isfinite(np.diagonal(found.covariance)))
    if not len(free):
        if found.has_free_scales:
            warn_caller(
                "standard errors take the scales as known, because the criterion is not concave at its maximum over the scales"
            )
        return conditional
    problem = EvidenceProblem(found.stated, False, criterion=found.criterion, points=found.points)  # type: ignore[arg-type]
    theta = found.theta
    mode = _mode_with_columns(problem, theta, model) if problem.moving else _mode(problem, theta)
    A = np.linalg.cholesky(found.covariance[np.ix_(free, free)])
    steps = _STEP * np.sqrt(np.diagonal(found.covariance)[free])
    steps = np.where(free < found.count, np.minimum(steps, _STEP), steps)
    along = [h * (np.arange(len(theta)) == j) for j, h in zip(free, steps)]
    J = [(mode(theta + e) - mode(theta - e)) / (2.0 * h) for e, h in zip(along, steps)]
    if not problem.moving and found.criterion == "ML" and isinstance(surface := problem.surface, ArrowLaplaceSurface):
        conditional = covariance_given(surface, theta)
    elif not problem.moving and isinstance(surface := problem.surface, ProfiledSurface):
        at = surface.mode(theta)
        frame, m = at.model.design.frame, at.model.shape[1]
        conditional = DenseCovariance.of_raw_root(frame, m, surface.root(at))
    return conditional.with_spread(np.array(J).reshape(len(free), -1).T @ A)


def _mode(problem: EvidenceProblem, at: Array) -> Callable[[Array], Array]:
    """The function from theta to the coefficients (p m,), of the columns that the model has at theta = `at`."""
    surface, unit = problem.surface, _units(problem, at)

    def mode(theta: Array) -> Array:
        if isinstance(surface, GaussianSurface):
            beta = surface.mean(theta)[:, None]
        elif isinstance(surface, ArrowSurface | ArrowLaplaceSurface):
            beta = coefficients_at(surface, theta)
        else:
            assert isinstance(surface, LaplaceSurface)
            beta = surface.mode(theta).beta
        return np.asarray(unit[:, None] * beta).ravel()

    return mode


def _mode_with_columns(problem: EvidenceProblem, at: Array, model: Model) -> Callable[[Array], Array]:
    """The same where theta moves the columns of processes: the coefficients of the columns of `model`, theta = `at`, that have the
    values of the functions at the rows."""

    def mode(theta: Array) -> Array:
        moved, beta = problem.model_at(theta, at), np.zeros(model.shape)
        found, (here, there) = _coefficients(moved), (_places(of) for of in (model, moved))
        for key, columns in here.items():
            f = moved.design.X[:, there[key]] @ found[there[key]]
            beta[columns] = np.linalg.lstsq(model.design.X[:, columns], f, rcond=_RANK)[0] if key else found[there[key]]
        return beta.ravel()

    return mode


def _places(model: Model) -> dict[str, list[int]]:
    """The columns of each process by its key, and the others under ""."""
    term = {c: key for key, t in model.design.recipe.processes.items() for c in t.columns}
    out: dict[str, list[int]] = {}
    for j, c in enumerate(model.design.columns):
        out.setdefault(term.get(c, ""), []).append(j)
    return out


def _coefficients(model: Model) -> Array:
    """The mode (p, m) of a model whose scales and nuisance parameters are known."""
    if model.likelihood.least_squares:
        return posterior_given_sigma(model.design.moments, PriorRows.of(model.joint), model.noise({})).mean[:, None]
    return model.design.frame.to_raw(find_mode(model, tol=_TOL).gamma)


def _units(problem: EvidenceProblem, theta: Array) -> Array:
    """(p,) a coefficient of the model at theta over that of the stated one: columns of a process become those of its kernel there."""
    out, hyper = np.ones(problem.model.shape[0]), np.exp(theta[: len(problem.groups.priors)])
    for k, g in enumerate(problem.unknown):
        if isinstance(g.prior, ProcessPrior) and g.predictor is None:
            values = dict(zip(g.hyper, hyper[problem.groups.group_of == k].tolist()))
            sd = np.broadcast_to(g.prior.spread(**values), len(g.columns))
            out[list(g.columns)] = np.divide(g.prior.size_at(values), sd, out=np.zeros(len(sd)), where=sd > 0.0)
    return out
