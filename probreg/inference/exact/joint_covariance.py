"""The covariance of the coefficients with the uncertainty of the scales and nuisance parameters at a maximum of the evidence.

With V the covariance of the coefficients b given the free coordinates theta of the maximum, S that of theta, and J = d mode / d theta, the
joint covariance of b is V + J S J'. The gradient over b of the log density vanishes at the mode, so that J = V d gradient / d theta. Under
ML flat coefficients f are coordinates of theta: V is the covariance given f, and J = V_bf V_ff^-1 of the covariance of all coefficients.

A process with f = K s at the rows, s the score of the rows, may have theta in K: with u = (d K / d theta) s, J = u - V X'W u.
"""

from collections.abc import Mapping
from functools import partial

import numpy as np
from scipy.linalg import solve_triangular

from probreg.data import Block
from probreg.data.rows import times_weights
from probreg.errors import warn_caller
from probreg.inference.base import Array
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.evidence_problem import EvidenceProblem
from probreg.inference.exact.latent_groups import LatentGroup
from probreg.inference.varying import FoundScales
from probreg.kernels.pairs import RowPairs
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.frame import vec_entries
from probreg.numerics.linalg import one_blas_thread
from probreg.priors.gaussian_process import ProcessPrior, UnknownLength

_RANK = 1e-5  # of the largest singular value of the columns of a process: below, rounding of f decides the coefficients
# of a log, for differences of the columns of a process: an error of some 1e-6
_STEP = 1e-3


@one_blas_thread()
def joint_covariance(
    found: FoundScales, conditional: ParameterCovariance, beta: Array, model: Model
) -> ParameterCovariance:
    """Of the coefficients beta (p, m) of the model that was found, from their covariance given its scales."""
    free = np.flatnonzero(np.isfinite(np.diagonal(found.covariance)))
    if not len(free):
        if found.has_free_scales:
            warn_caller(
                "standard errors take the scales as known, because the criterion is not concave at its maximum over the scales"
            )
        return conditional
    problem = EvidenceProblem(
        found.stated,
        False,
        criterion=found.criterion,  # type: ignore[arg-type]
        points=found.points,
    )
    slopes = _gradient_slopes(problem, found.theta, beta, model)
    given = conditional
    of_flat = np.zeros((beta.size, 0))
    if len(found.theta) > found.count:
        flat, moves = _flat_derivatives(problem)
        across = conditional.times(np.eye(beta.size)[:, flat])
        given = conditional.given(flat)
        of_flat = across @ np.linalg.solve(across[flat], moves)
    direct = np.zeros_like(slopes)
    for k, own, u in _process_derivatives(problem, found.theta, beta, model):
        columns = np.linalg.lstsq(model.design.X[:, own], u, rcond=_RANK)[0]
        direct[vec_entries(tuple(own), model.shape[1]), k] = columns.ravel()
        slopes[:, k] -= _curvature_of_changes(model, beta, u).ravel()
    moved = np.hstack([given.times(slopes) + direct, of_flat])
    if given.missing is not None:
        moved[given.missing[: beta.size]] = 0.0
    return given.with_spread(
        moved[:, free] @ np.linalg.cholesky(found.covariance[np.ix_(free, free)])
    )


def _flat_derivatives(problem: EvidenceProblem) -> tuple[Array, Array]:
    """The entries of flat coefficients in vec beta, and their derivatives over the coordinates of theta that stand for them."""
    m = problem.model.shape[1]
    flat = vec_entries(
        tuple(np.flatnonzero(~problem.model.joint.informative).tolist()), m
    )
    surface = problem.surface
    if isinstance(surface, ArrowLaplaceSurface):
        return flat, surface.moves_of_flat[flat]
    return flat, np.eye(len(flat))


def _gradient_slopes(
    problem: EvidenceProblem, theta: Array, beta: Array, model: Model
) -> Array:
    """(p m, d) d gradient / d theta at fixed coefficients and columns: of the priors, and of the rows over nuisance parameters."""
    m = model.shape[1]
    at = 0
    d = len(problem.groups.priors)
    out = np.zeros((beta.size, d + len(problem.outer)))
    sigma = model.noise({}) if problem.exact else 1.0
    for g in problem.groups.groups:
        own = slice(at, at + len(g.hyper))
        entries = vec_entries(tuple(_columns_in_fit(problem.model, model, g)), m)
        if g.predictor is not None:
            entries = entries[g.predictor :: m]
        inside = beta.ravel()[entries].reshape(-1, g.width(m))
        relative = bool(g.base.sigma_units)
        pull, slopes = _prior_pull(g, theta[own], inside, sigma if relative else 1.0)
        out[entries, own] = slopes.reshape(len(entries), -1)
        if problem.exact and problem.outer and not relative:
            # at the mode the gradient of the rows is that of all priors, and in units of sigma these move as the rows do
            out[entries, d] = -2.0 * pull.ravel()
        at = own.stop
    if problem.outer and not problem.exact:
        of_rows = partial(_score_slopes, model=model, beta=beta, names=problem.outer)
        out[:, d:] = model.design.fold(of_rows).reshape(beta.size, -1)
    return out


def _prior_pull(
    g: LatentGroup, logs: Array, inside: Array, unit: float
) -> tuple[Array, Array]:
    """P (b - mu) of the coefficients b (q, w) of a group, and its negative derivatives (q, w, d) over the logs."""
    if (
        isinstance(g.prior, ProcessPrior) and g.predictor is None
    ):  # the columns are those of its kernel
        values = dict(zip(g.hyper, np.exp(logs).tolist()))
        pull = inside / g.prior.size_at(values) ** 2
        moving = isinstance(g.prior, UnknownLength)
        if moving:
            each = np.array([[name == "amplitude" for name in g.hyper]])
        else:
            each = g.log_scales(logs).slopes
        return pull, 2.0 * pull[:, :, None] * each[:, None]
    q = len(g.columns)
    sd = g.base.independent(len(g.columns))
    z = inside - g.base.center(q)[:, None]
    z = z / sd[:, None] if sd is not None else g.root.T @ z
    if g.prior is not None and (root := g.prior.root(logs)) is not None:
        # P = L'^-1 L^-1, and -dP = L'^-1 (A + A') L^-1 with A = L^-1 dL, group by group
        L = root[0]
        K = len(root[0])
        back = solve_triangular(L, np.eye(K), lower=True)
        A = back @ root[1]
        v = np.einsum("kl,glw->gkw", back, z.reshape(-1, K, z.shape[1]))
        z, over = (
            np.einsum("lk,glw...->gkw...", back, x)
            for x in (v, np.einsum("dkl,glw->gkwd", A + A.swapaxes(1, 2), v))
        )
        z, over = z.reshape(q, -1), over.reshape(q, z.shape[2], -1)
    else:
        s, J, _ = g.log_scales(logs)
        z = z / np.square(unit * np.exp(s))[:, None]
        over = 2.0 * z[:, :, None] * J[:, None]
    if sd is not None:
        return z / sd[:, None], over / sd[:, None, None]
    return g.root @ z, np.tensordot(g.root, over, 1)


def _columns_in_fit(stated: Model, model: Model, g: LatentGroup) -> list[int]:
    """Where the columns of a group of the stated model are in the one found, whose processes have other columns."""
    term = stated.design.process_of(g.columns)
    place = {c: j for j, c in enumerate(model.design.columns)}
    names = [stated.design.columns[j] for j in g.columns]
    return [
        place[c]
        for c in (
            names if term is None else model.design.recipe.processes[term.key].columns
        )
    ]


def _process_derivatives(
    problem: EvidenceProblem, theta: Array, beta: Array, model: Model
) -> list[tuple[int, list[int], Array]]:
    """Of each theta in the columns of a process: its place, these columns, and u = (d K / d theta) s (n, m)."""
    out = list[tuple[int, list[int], Array]]()
    if not problem.moving:
        return out
    score = _local_rows(model.design.block, model, beta)[0]
    for k, g in enumerate(problem.unknown):
        if not isinstance(g.prior, UnknownLength):
            continue
        places = np.flatnonzero(problem.groups.group_of == k)
        values = dict(zip(g.hyper, np.exp(theta[places]).tolist()))
        own = _columns_in_fit(problem.model, model, g)
        moves = _derivatives_of_process(g.prior, model, own, values, score)
        out += [
            (int(places[i]), own, moves[name])
            for i, name in enumerate(g.hyper)
            if name in moves
        ]
    return out


def _derivatives_of_process(
    prior: UnknownLength,
    model: Model,
    own: list[int],
    values: Mapping[str, float],
    score: Array,
) -> dict[str, Array]:
    """u of each hyperparameter in the columns of one process."""
    term = model.design.process_of(own)
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
        name: size * (values_at(name, _STEP) - values_at(name, -_STEP)) / (2.0 * _STEP)
        for name in prior.in_columns
    }


def _local_rows(some: Block, model: Model, beta: Array) -> tuple[Array, Array]:
    """The gradient (n, m) of the log density of rows over eta, and the curvature (n, m + a, m + a) over eta and log aux."""
    likelihood = model.likelihood
    assert isinstance(likelihood, SmoothLikelihood)
    local = likelihood.value_grad_hessian(
        some.y, some.eta(beta), **likelihood.at_rows(model.fixed, some.precision)
    )
    m = beta.shape[1]
    return times_weights(local.gradient[:, :m], some.weights), times_weights(
        local.curvature, some.weights
    )


def _score_slopes(
    block: Block, *, model: Model, beta: Array, names: tuple[str, ...]
) -> Array:
    """(p, m a) the derivatives of the gradient of the rows over the logs of nuisance parameters."""
    m = beta.shape[1]
    pick = [m + model.likelihood.aux.index(name) for name in names]

    def part(some: Block) -> tuple[Array]:
        across = -_local_rows(some, model, beta)[1][:, :m][:, :, pick]
        return (some.X.T @ across.reshape(len(across), -1),)

    return np.asarray(block.sweep(part, width=m * len(names))[0])


def _curvature_of_changes(model: Model, beta: Array, u: Array) -> Array:
    """X'W u (p, m) of changes u (n, m) of the linear predictors."""
    some = model.design.block
    m = beta.shape[1]
    curvature = _local_rows(some, model, beta)[1][:, :m, :m]
    return np.asarray(some.X.T @ np.einsum("nkl,nl->nk", curvature, u))
