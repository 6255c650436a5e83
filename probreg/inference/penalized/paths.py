"""Modes along a grid of prior scales, each started from the one before: regularisation
paths.

    mode_path(model, scales) -> PathSolution

`scales` (S,) multiply every informative prior of the model (`prior.times(s)`, on the
columns' own units after binding): a small scale is a strong prior, so a lasso's lambda
is proportional to 1 / s. They may have any order, which the result keeps; the search
goes from the strongest prior to the weakest. Every likelihood and prior with a mode is
supported: Gaussian with normal priors by one eigendecomposition, Gaussian with Laplace,
elastic-net and group priors by coordinate descent on a working set, others by Newton's or
the proximal Newton method from the mode before. `default_scales(model, n)` is a grid:
for kinked priors from the scale where the first coefficient leaves its kink up to a
thousand times this scale; for others over the eigenvalues of the information.

PathSolution has plain arrays over the S scales: beta (S, p, m) on the raw columns, aux
(name -> (S,)), kkt (distance of zero from the subdifferential in conditional standard
errors; zero for a closed form, the decrement for Newton's method), df (degrees of
freedom of the fit given aux), log_lik, and `status`; `model(i)` is the model with the
i-th prior and the mode beta[i].

"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.inference.base import Array, Method, Status
from probreg.inference.modes.closed_form import ClosedForm, least_norm, open_directions
from probreg.inference.modes.newton import rough_point
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.wide import Rotated, rotate_to_rows
from probreg.inference.penalized.coordinate_descent import (
    CoordinateDescent,
    Lasso,
    solve_joint,
    status_of,
)
from probreg.inference.penalized.degrees import (
    degrees_of_freedom,
    expected_information_of,
    has_cheap_moments,
    smooth_prior_curvature,
)
from probreg.inference.penalized.nonsmooth import (
    NonsmoothTerms,
    SearchCoordinates,
    has_nonsmooth_terms,
    minimise_nonsmooth,
    start_of,
    with_normal_priors,
)
from probreg.inference.penalized.proximal_newton import ProximalNewton
from probreg.inference.penalized.ridge_modes import JointRidgeModes, RidgeModes
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import one_blas_thread
from probreg.model.likelihood_sums import log_lik_of_moments
from probreg.model.model import Model
from probreg.priors import Prior
from probreg.priors.joint import mapping_of
from probreg.system.terminal import progress_bar


class Step(NamedTuple):
    """The mode at one scale."""

    beta: Array  # (p, m)
    aux: dict[str, float]
    kkt: float
    status: Status


def lasso_steps(model: Model, scales: Iterable[float], tol: float) -> Iterator[Step]:
    """Yield modes under Laplace, elastic-net, group and normal priors, from the strongest prior to the weakest."""
    base = Lasso.of(model)
    start = base.start()
    sigma = None
    for s in scales:
        lasso = base.at_scale(s)
        with one_blas_thread():
            joint = solve_joint(lasso, model, start, sigma=sigma, tol=tol)
        start = joint.given
        sigma = joint.sigma
        aux = dict.fromkeys(model.unknown, joint.sigma)
        status = status_of(lasso, joint, tol)
        yield Step(lasso.beta(start.r), aux, joint.kkt, status)


@dataclass(frozen=True, eq=False)
class PathSolution:
    """The modes of one model under its prior at S scales; the module describes the
    fields."""

    base: Model
    scales: Array
    beta: Array
    aux: Mapping[str, Array]
    kkt: Array
    df: Array
    log_lik: Array
    status: tuple[Status, ...]
    # the decomposition common to all scales, for a Gaussian model with normal priors
    ridge: RidgeModes | None = None
    # all scales come from one decomposition, with sigma fixed or estimated
    closed: bool = False
    # the path in the coordinates of the rows, if rows are fewer than columns
    seen: "PathSolution | None" = None

    def model(self, i: int) -> Model:
        """The model with mode beta[i]."""
        return rescale_model(self.base, float(self.scales[i]))


def rescale_model(model: Model, factor: float) -> Model:
    """Return the model with every scale of its informative priors multiplied by
    `factor`, bound to these rows.

    Leaving rows out does not change it. DataError for a prior without a scale.
    """
    joint = model.joint
    blocks = [b for b in joint.blocks if joint.informative[list(b.columns)].any()]
    if isinstance(model.prior, Prior):
        return model.with_prior(blocks[0].prior.times(factor))
    blocks_scaled = [replace(b, prior=b.prior.times(factor)) for b in blocks]
    return model.with_prior(mapping_of(blocks_scaled, model.design.columns))


def rescale_original(model: Model, factor: float) -> Model:
    """Return the same density at these rows, with priors in their original form: one on
    standardised columns stays so.

    Falls back to `rescaled` if this form does not exist.
    """
    if isinstance(model.prior, Prior):
        restated = None if model.prior.whole else model.prior.rescale_stated(factor)
        if restated is None:
            return rescale_model(model, factor)
        return model.with_prior(restated)
    scaled = {key: prior.rescale_stated(factor) for key, prior in model.prior.items()}
    available = {key: prior for key, prior in scaled.items() if prior is not None}
    if len(available) == len(scaled):
        return model.with_prior(available)
    return rescale_model(model, factor)


def mode_path(model: Model, scales: Any, *, tol: float = 1e-8) -> PathSolution:
    """Return the mode at each scale, with warm starts; see the module. `tol` bounds the
    kkt of kinked priors.

    Incompatible if the prior is flat, has no known scale or no mode method; DataError
    for scales that are not positive.

    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1.0), aux={"sigma": 1.0})
    >>> found = mode_path(model, [1 / 3, 1 / 1.5, 1 / 0.3])  # lambda = 1, 0.5, 0.1 of the lasso over 2 n
    >>> found.beta[:, 1, 0].round(9), found.df
    (array([0.  , 0.25, 0.85]), array([1., 2., 2.]))
    """
    grid = _check_scales(model, scales)
    rotated = _rotation(model)
    if rotated is not None:
        path = mode_path(rotated.model, grid, tol=tol)
        return replace(path, base=model, beta=rotated.beta(path.beta), seen=path)
    ridge = RidgeModes.of(model, grid) if _is_ridge(model) else None
    closed = ridge or JointRidgeModes.solve_all(model, grid)
    if closed is not None:
        beta = closed.beta(grid)[:, :, None]
        sigma = closed.sigma(grid)
        aux = dict.fromkeys(model.unknown, sigma)
        kkt = np.zeros(len(grid))
        df = closed.df(grid)
        status = [Status.EXACT if closed.linear else Status.CONVERGED] * len(grid)
    else:
        order = np.argsort(grid)
        with progress_bar("modes", len(grid)) as bar:
            walk = _walk(model)(model, bar.over(grid[order]), tol)
            steps = sorted(zip(order, walk), key=itemgetter(0))
        beta = np.stack([step.beta for _, step in steps])
        aux = {a: np.array([step.aux[a] for _, step in steps]) for a in model.unknown}
        kkt = np.array([step.kkt for _, step in steps])
        df = np.array(
            [
                degrees_of_freedom(rescale_model(model, s), step.beta, **step.aux)
                for s, (_, step) in zip(grid, steps)
            ]
        )
        status = [step.status for _, step in steps]
    if has_cheap_moments(model):
        log_lik = log_lik_of_moments(
            model.design.moments, beta, np.asarray(model.noise(aux))
        )
    else:
        # sigma is 0 if the columns reproduce the response
        with np.errstate(divide="ignore", invalid="ignore"):
            log_lik = model.log_lik(beta, **aux)
    open_ = open_directions(model)
    if open_ is not None:
        beta = least_norm(beta, open_.directions)
        status = [Status.NOT_IDENTIFIED if v.good else v for v in status]
    return PathSolution(
        base=model,
        scales=grid,
        beta=beta,
        aux=aux,
        kkt=kkt,
        df=df,
        log_lik=log_lik,
        status=tuple(status),
        ridge=ridge,
        closed=closed is not None,
    )


def _check_scales(model: Model, scales: Any) -> Array:
    grid = np.atleast_1d(np.asarray(scales, dtype=float))
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise DataError(f"scales={scales!r}: expected positive finite numbers")
    if not model.joint.informative.any():
        raise Incompatible(
            "a path varies the scale of a prior, and all priors of this model are flat"
        )
    if not isinstance(model.likelihood, SmoothLikelihood):
        raise Incompatible(
            f"a path needs a smooth likelihood, and {model.likelihood.named} likelihood has kinks: fit each scale separately"
        )
    if model.joint.hierarchical:
        _, prior = model.joint.hierarchical[0]
        raise Incompatible(
            f"the {prior.name} prior has an unknown scale; a path needs a known one"
        )
    return grid


Walk = Callable[[Model, Iterable[float], float], Iterator[Step]]


def _walk(model: Model) -> Walk:
    """Return the search from the strongest prior to the weakest."""
    if CoordinateDescent().obstacle(model) is None:
        return lasso_steps
    reason = ProximalNewton().obstacle(model) and Newton().obstacle(model)
    if reason is None:
        return newton_steps
    raise Incompatible(reason)


def _rotation(model: Model) -> Rotated | None:
    """Return the coordinates of the rows, if these are fewer than the columns and
    Newton's method finds the modes.

    The coefficients outside them are at the centre of their prior at every scale,
    unless their prior is in units of an unknown sigma.
    """
    if model.design.n >= model.shape[0] or not model.joint.gaussian or _is_ridge(model):
        return None
    wide = rotate_to_rows(model)
    return None if wide is None or wide.relative else wide


def _is_ridge(model: Model) -> bool:
    return model.joint.gaussian and ClosedForm().obstacle(model) is None


def newton_steps(model: Model, scales: Iterable[float], tol: float) -> Iterator[Step]:
    """Yield modes of Newton's method, or of the proximal one for priors with kinks, each started from the mode before.

    If the prior can have several modes, each search starts from the ridge solution, as in a single fit.
    """
    kinked = has_nonsmooth_terms(model)
    has_warm_starts = not kinked or NonsmoothTerms.of(model).convex
    start = None
    for s in scales:
        method: Method = Newton(start=start)
        measure = "decrement"
        if kinked:
            method = ProximalNewton(tol=tol, start=start)
            measure = "kkt"
        solution = method.solve(
            rescale_model(model, float(s)), np.random.default_rng(0)
        )
        if has_warm_starts:
            start = tuple(map(tuple, solution.beta))
        yield Step(
            solution.beta, dict(solution.aux), solution.stats[measure], solution.status
        )


def default_scales(model: Model, n: int = 100) -> Array:
    """Return increasing scales (n,).

    For kinked priors they start at the largest scale with every kinked coefficient at
    its kink and end a thousand times higher. For other priors they start at df near 0
    and end where the priors hardly matter.

    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1.0), aux={"sigma": 1.0})
    >>> default_scales(model, 3).round(5)
    array([  0.5    ,  15.81139, 500.     ])
    """
    _check_scales(model, 1.0)
    penalty = NonsmoothTerms.of(model).penalty
    if penalty.has_kink.any() and (penalty.exponent == 1).all():
        low = _first_scale(model)
        return (
            # a path of a kinked prior ends at a thousand times its first scale
            low * (1.0 - 1e-9) * np.logspace(0.0, 3.0, n)
        )  # rounded so that all stay at zero
    return np.geomspace(*_spectrum(model), n)


def _first_scale(model: Model) -> float:
    """Return the largest scale where all groups, including single coefficients, are
    at their kinks.

    There the largest slope of the smooth part equals its weight. Smooth blocks change
    with the scale, so this takes several rounds.
    """
    scale = 1e-9
    lasso = Lasso.of(model) if _walk(model) is lasso_steps else None
    for _ in range(20):
        if lasso is not None:
            scaled = lasso.at_scale(scale)
            joint = solve_joint(scaled, model, scaled.start(), sigma=None, tol=1e-8)
            gradient = joint.given.gradient
            penalty = scaled.penalty_at(joint.sigma)
        else:
            search = SearchCoordinates(rescale_model(model, scale))
            start = start_of(search, None)
            mode = minimise_nonsmooth(search, start, tol=1e-8, max_steps=100)
            gradient = mode.at.gradient
            penalty = search.penalty
        # A group leaves its kink where |D^-1 gradient| = 1, D proportional to 1 / scale.
        largest = float(penalty.norm(penalty.in_metric(gradient)).max())
        new = scale / max(largest, float(np.finfo(float).tiny))
        if abs(new - scale) <= 1e-10 * new:
            break
        scale = new
    return scale


def _spectrum(model: Model) -> tuple[float, float]:
    """Return two scales of a normal prior: at the first the data determine 1 % of the
    best determined direction, at the second the prior determines 1 % of the least
    determined one. They are at most eight decades apart."""
    beta = np.zeros(model.shape)
    wide = rotate_to_rows(model)
    if wide is not None:
        # the other directions have the eigenvalue 0
        model = wide.model
        beta = wide.start(beta)
    base = with_normal_priors(model)
    aux = {a: _spread(model) for a in model.unknown}
    with np.errstate(all="ignore"):  # eta = 0 may be outside the domain of the link
        H = expected_information_of(base, beta, None, **aux)
    if not np.isfinite(H).all():
        beta = base.design.frame.to_raw(
            rough_point(base)[: beta.size].reshape(beta.shape)
        )
        H = expected_information_of(base, beta, None, **aux)
    P = smooth_prior_curvature(base, beta, **aux)
    use = np.repeat(model.joint.informative, model.shape[1])
    d = np.sqrt(np.maximum(np.diagonal(P)[use], 1e-300))
    eigen = np.linalg.eigvalsh(H[np.ix_(use, use)] / np.outer(d, d))
    top = float(eigen[-1])
    smallest = float(eigen[eigen > 1e-12 * eigen[-1]][0])
    # At scale s the share of the data in a direction is e s^2 / (1 + e s^2), e an
    # eigenvalue of P^(-1/2) H P^(-1/2):
    # 1 % at e s^2 = 0.01, 99 % at e s^2 = 100.
    low = 0.1 / np.sqrt(top)
    return low, min(10.0 / np.sqrt(smallest), 1e8 * low)


def _spread(model: Model) -> float:
    design = model.design
    if model.likelihood.least_squares and not design.n:
        return max(design.moments.y_scale, 1e-300)
    y = model.likelihood.drawn(design.sample.observed)
    return max(float(np.nanstd(y)), 1e-300)
