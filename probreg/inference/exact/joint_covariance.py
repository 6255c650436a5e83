"""The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

With V the covariance of the coefficients b given the free coordinates theta of the maximum, S that of theta, and J = d mode / d theta, the
joint covariance of b is V + J S J'. The logs of nuisance parameters are among theta. The gradient over b of the log density vanishes at
the mode, so J = V d gradient / d theta. Under ML flat coefficients f are coordinates of
theta: V is the covariance given f, and J = V_bf V_ff^-1 of the covariance of all
coefficients.

A process with f = K s at the rows, s the score of the rows, may have theta in K: with u = (d K / d theta) s, J = u - V X'W u.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np

from probreg.data import Block
from probreg.data.rows import times_weights
from probreg.errors import warn_caller
from probreg.inference.base import Array
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.exact.evidence_problem import EvidenceProblem, problem_of
from probreg.inference.exact.laplace_surface import LaplaceSurface
from probreg.inference.exact.latent_groups import DIFFERENCE, LatentGroup
from probreg.inference.varying import FoundScales
from probreg.kernels.pairs import RowPairs
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.priors.gaussian_process import ProcessPrior, UnknownLength


@one_blas_thread()
def joint_covariance(
    scales: FoundScales, conditional: ParameterCovariance, beta: Array, model: Model
) -> ParameterCovariance:
    """Return the covariance of the coefficients beta (p, m) of the final model and of the logs of its nuisance parameters, from
    the covariance of the coefficients given its scales."""
    rank = 1e-5  # relative to the largest singular value of the columns of a process: below it rounding of f dominates
    free = np.flatnonzero(np.isfinite(np.diagonal(scales.covariance)))
    if not len(free):
        if not scales.not_free.all():
            warn_caller(
                "standard errors treat the scales as known, because the criterion is not concave at its maximum over the scales"
            )
        return conditional
    problem = problem_of(scales)
    slopes = _gradient_slopes(problem, scales.theta, beta, model)
    conditional_of_flat = conditional
    of_flat = np.zeros((beta.size, 0))
    if len(scales.theta) > scales.count:
        flat, moves = _flat_derivatives(problem)
        cross = conditional.times(np.eye(beta.size)[:, flat])
        conditional_of_flat = conditional.condition_on(flat)
        of_flat = cross @ np.linalg.solve(cross[flat], moves)
    direct = np.zeros_like(slopes)
    for k, columns_of_process, u in _process_derivatives(
        problem, scales.theta, beta, model
    ):
        if model.design.owner is not None:  # a process is in one linear predictor
            predictor = int(model.design.owner[columns_of_process[0]])
            u = u * (np.arange(u.shape[1]) == predictor)
            of_columns = u[:, [predictor]]
        else:
            of_columns = u
        columns = np.linalg.lstsq(
            model.design.X[:, columns_of_process], of_columns, rcond=rank
        )[0]
        direct[vec_entries(tuple(columns_of_process), model.shape[1]), k] = (
            columns.ravel()
        )
        slopes[:, k] -= _curvature_of_changes(model, beta, u).ravel()
    changes = np.hstack([conditional_of_flat.times(slopes) + direct, of_flat])
    if conditional_of_flat.missing is not None:
        changes[conditional_of_flat.missing[: beta.size]] = 0.0
    # the logs of nuisance parameters are coordinates of theta, behind the scales
    places = len(problem.groups.priors) + np.arange(len(problem.outer))
    known = [k for k, place in enumerate(places) if place in free]
    changes = np.vstack([changes, np.eye(changes.shape[1])[places[known]]])
    joint = conditional_of_flat.with_further([f"log {problem.outer[k]}" for k in known])
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


def _gradient_slopes(
    problem: EvidenceProblem, theta: Array, beta: Array, model: Model
) -> Array:
    """Return (p m, d) d gradient / d theta at fixed coefficients and columns: of the
    priors, and of the rows over nuisance parameters."""
    m = model.shape[1]
    d = len(problem.groups.priors)
    slopes_of_gradient = np.zeros((beta.size, d + len(problem.outer)))
    sigma = model.noise({}) if problem.exact else 1.0
    for g, hyper in problem.groups.with_hyper:
        entries = vec_entries(tuple(_columns_in_fit(problem.model, model, g)), m)
        if g.predictor is not None:
            entries = entries[g.predictor :: m]
        inside = beta.ravel()[entries].reshape(-1, g.width(m))
        pull, slopes = _prior_pull(g, theta[hyper], inside, g.base.unit(sigma))
        slopes_of_gradient[entries, hyper] = slopes.reshape(len(entries), -1)
        if problem.exact and problem.outer and not g.base.sigma_units:
            # at the mode the gradient of the rows equals the gradient of all priors,
            # and in units of sigma both scale together
            slopes_of_gradient[entries, d] = -2.0 * pull.ravel()
    if problem.outer and not problem.exact:
        of_rows = partial(_score_slopes, model=model, beta=beta, names=problem.outer)
        slopes_of_gradient[:, d:] = model.design.sum_over_rows(of_rows).reshape(
            beta.size, -1
        )
    return slopes_of_gradient


def _prior_pull(
    g: LatentGroup, logs: Array, inside: Array, unit: float
) -> tuple[Array, Array]:
    """Return P (b - mu) of the coefficients b (q, w) of a group, and its negative
    derivatives (q, w, d) over the logs."""
    if (
        isinstance(g.prior, ProcessPrior) and g.predictor is None
    ):  # the columns belong to its kernel
        values = g.values_at(logs)
        pull = inside / g.prior.size_at(values) ** 2
        moving = isinstance(g.prior, UnknownLength)
        if moving:
            amplitude_slopes = np.array([[name == "amplitude" for name in g.hyper]])
        else:
            amplitude_slopes = g.prior.log_scale_slopes(logs, len(g.columns))
        return pull, 2.0 * pull[:, :, None] * amplitude_slopes[:, None]
    from scipy.sparse import csr_array, diags_array

    q = len(g.columns)
    sd = g.base.independent(q)
    if sd is None:
        L = csr_array(np.linalg.cholesky(g.base.precision(q)))
    else:
        L = csr_array(diags_array(1.0 / sd))
    z = L.T @ (inside - g.base.center(q)[:, None])
    value, slopes = g.root_at(logs[None])
    # P = R'^-1 R^-1, and -dP = R'^-1 (A + A') R^-1 with A = R^-1 dR, group by group
    inverse = np.linalg.inv(unit * value[0])
    A = unit * inverse @ slopes
    v = inverse @ z.reshape(-1, inverse.shape[-1], z.shape[1])
    back = inverse.swapaxes(-1, -2)
    changes = back @ (A + A.swapaxes(-1, -2)) @ v
    z, slopes = (back @ v).reshape(z.shape), np.moveaxis(changes, 0, -1)
    slopes = slopes.reshape(*z.shape, len(logs))
    return L @ z, (L @ slopes.reshape(q, -1)).reshape(slopes.shape)


def _columns_in_fit(stated: Model, model: Model, g: LatentGroup) -> list[int]:
    """Return the positions of a group's columns in the final model, where processes
    have other columns."""
    term = stated.design.process_of(g.columns)
    place = {c: j for j, c in enumerate(model.design.columns)}
    if term is None:
        names = [stated.design.columns[j] for j in g.columns]
    else:
        names = [*model.design.recipe.processes[term.key].columns]
    return [place[c] for c in names]


def _process_derivatives(
    problem: EvidenceProblem, theta: Array, beta: Array, model: Model
) -> list[tuple[int, list[int], Array]]:
    """Return for each theta in the columns of a process: its position, these columns,
    and u = (d K / d theta) s (n, m)."""
    derivatives = list[tuple[int, list[int], Array]]()
    if not problem.moving:
        return derivatives
    score = _local_rows(model.design.block, model, beta)[0]
    for g, hyper in problem.groups.with_hyper:
        if not isinstance(g.prior, UnknownLength):
            continue
        values = g.values_at(theta[hyper])
        columns = _columns_in_fit(problem.model, model, g)
        moves = _derivatives_of_process(g.prior, model, columns, values, score)
        derivatives += [
            (i, columns, moves[name])
            for i, name in enumerate(g.hyper, hyper.start)
            if name in moves
        ]
    return derivatives


def _derivatives_of_process(
    prior: UnknownLength,
    model: Model,
    columns_of_process: list[int],
    values: Mapping[str, float],
    score: Array,
) -> dict[str, Array]:
    """Return u of each hyperparameter in the columns of one process."""
    term = model.design.process_of(columns_of_process)
    assert term is not None  # its columns are those of a process
    x = model.design.inputs[term.key]
    size = prior.size_at(values) ** 2
    if term.basis.kind == "exact":
        slopes = prior.kernel_at(**values).slopes(RowPairs(x, x))
        return {name: size * (slopes[name] @ score) for name in prior.in_columns}

    def values_at(name: str, step: float) -> Array:
        kernel = prior.kernel_at(**{**values, name: values[name] * float(np.exp(step))})
        columns = term.basis.with_kernel(kernel).columns_at(x)
        return np.asarray(columns @ (columns.T @ score))

    return {
        name: size
        * (values_at(name, DIFFERENCE) - values_at(name, -DIFFERENCE))
        / (2.0 * DIFFERENCE)
        for name in prior.in_columns
    }


def _local_rows(
    block: Block, model: Model, beta: Array, names: tuple[str, ...] = ()
) -> tuple[Array, Array]:
    """Return the gradient (n, m + a) of the log density of rows over eta and the logs of
    the nuisance parameters `names`, and the curvature (n, m + a, m + a)."""
    likelihood = model.likelihood
    assert isinstance(likelihood, SmoothLikelihood)
    local = likelihood.derivatives_over(
        names, block.y, block.eta(beta), model.fixed, block.precision
    )
    return times_weights(local.gradient, block.weights), times_weights(
        local.curvature, block.weights
    )


def _score_slopes(
    block: Block, *, model: Model, beta: Array, names: tuple[str, ...]
) -> Array:
    """Return (p, m a) the derivatives of the gradient of the rows over the logs of
    nuisance parameters."""
    m = model.likelihood.width

    def part(block_part: Block) -> tuple[Array]:
        across = -_local_rows(block_part, model, beta, names)[1][:, :m, m:]
        return (block_part.X.T @ across.reshape(len(across), -1),)

    return np.asarray(block.sweep(part, width=m * len(names))[0])


def _curvature_of_changes(model: Model, beta: Array, u: Array) -> Array:
    """Return X'W u (p, m) of changes u (n, m) of the linear predictors."""
    block = model.design.block
    curvature = _local_rows(block, model, beta)[1]
    return np.asarray(block.X.T @ np.einsum("nkl,nl->nk", curvature, u))
