"""Modes along a grid of prior scales, each started from the one before: the engine of regularisation paths.

    mode_path(model, scales) -> PathSolution

`scales` (S,) multiply every informative prior of the model (`prior.times(s)`, on the columns' own units after binding): a
small scale is a strong prior, so a lasso's lambda is proportional to 1 / s. They may come in any order and are answered in
it; the work goes from the strongest prior to the weakest. Every likelihood and prior with a mode is served: Gaussian with
normal priors by one eigendecomposition, Gaussian with Laplace, elastic-net and group priors by coordinate descent with screening,
others by Newton's or the proximal Newton method from the mode before. `default_scales(model, n)` is a grid: for kinked
priors from the scale at which the first coefficient leaves its kink, a thousandfold up; for others over the eigenvalues
of the information.

PathSolution holds plain arrays over the S scales: beta (S, p, m) on the raw columns, aux (name -> (S,)), kkt (distance of zero from the
subdifferential in conditional standard errors; zero for a closed form, for Newton's method its decrement), gap (duality gap in
nats given aux, nan where there is none), df (degrees of freedom of the fit given aux), log_lik, and `status`; `model(i)` is the model with the i-th prior, of which beta[i] is the mode.

Along a lasso path a coefficient stays out of the next mode when its correlation with the residuals is below twice the new
weight less the old one (the sequential strong rule, Tibshirani et al. 2012), and a group by its length; those left out by mistake are found by the
certificate, which is computed over all columns at every scale.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.inference.base import Array, Solution, Status
from probreg.inference.modes.closed_form import ClosedForm, open_directions
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.partialled_out import PartialledOut
from probreg.inference.modes.wide import Rotated, rotated
from probreg.inference.penalized.coordinate_descent import (
    CoordinateDescent,
    Joint,
    Lasso,
    solve_joint,
)
from probreg.inference.penalized.degrees import (
    degrees_of_freedom,
    diagonal_of_shrinkage,
    information_of,
    smooth_prior_curvature,
)
from probreg.inference.penalized.newton_path import NextMode, next_mode
from probreg.inference.penalized.nonsmooth import NonsmoothTerms
from probreg.inference.penalized.nonsmooth_search import (
    SearchCoordinates,
    minimise_nonsmooth,
    rounder,
    start_of,
)
from probreg.inference.penalized.proximal_newton import ProximalNewton, kinked_solution
from probreg.inference.penalized.ridge_modes import JointRidgeModes, RidgeModes
from probreg.inference.penalized.standard_rows import PriorAt, StandardRows
from probreg.likelihoods import SmoothLikelihood
from probreg.model.likelihood_sums import value_grad_hessian
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread
from probreg.priors import HierarchicalPrior, Prior
from probreg.priors.joint import mapping_of
from probreg.system.progress import progress_bar


class Step(NamedTuple):
    """The mode at one scale."""

    beta: Array  # (p, m)
    aux: dict[str, float]
    log_lik: float
    kkt: float
    gap: float
    df: float
    status: Status


def ridge_steps(ridge: RidgeModes, scales: Array) -> list[Step]:
    """Modes under normal priors, from one decomposition."""
    model = ridge.model
    noise = ridge.sigma(scales)
    beta = ridge.beta(scales)
    rss = ridge.rss(scales)
    df = ridge.df(scales)
    return [
        Step(
            beta[i][:, None],
            {model.noise_scale: float(noise[i])} if model.unknown else {},
            _log_lik(model, float(rss[i]), float(noise[i])),
            0.0,
            np.nan,
            float(df[i]),
            Status.EXACT if ridge.linear else Status.CONVERGED,
        )
        for i in range(len(scales))
    ]


def lasso_steps(model: Model, scales: Iterable[float], tol: float) -> list[Step]:
    """Modes under Laplace, elastic-net, group and normal priors, from the strongest prior to the weakest."""
    base = Lasso.of(model)
    out = []
    start = base.start()
    sigma = None
    # correlations with the residuals, and the penalty
    before: tuple[Array, Any] | None = None
    for s in scales:
        w = base.weights
        lasso = replace(base, weights=w._replace(l1=w.l1 / s, l2=w.l2 / s**2))
        if sigma is not None:
            about = sigma
        else:
            about = model.noise(default=float(np.sqrt(base.yy / base.parts.weight)))
        penalty = lasso.weights.at(about, base.parts.norm)
        hint = penalty.may_enter(*((base.c, penalty) if before is None else before))
        with one_blas_thread():
            found = solve_joint(lasso, model, start, sigma=sigma, tol=tol, hint=hint)
        start = found.given
        sigma = found.sigma if model.unknown else None
        before = found.given.gradient, lasso.weights.at(found.sigma, base.parts.norm)
        if sigma is None:
            aux = {}
        else:
            aux = {model.noise_scale: sigma}
        if found.kkt <= max(tol, 1e-12 * float(np.sqrt(lasso.yy)) / found.sigma):
            status = Status.CONVERGED
        else:
            status = Status.STEP_LIMIT
        log_lik = _log_lik(model, found.given.rss, found.sigma)
        df = _degrees(lasso, found)
        out.append(
            Step(
                lasso.beta(start.r),
                aux,
                log_lik,
                found.kkt,
                found.given.gap,
                df,
                status,
            )
        )
    return out


def _log_lik(model: Model, rss: float, sigma: float) -> float:
    # log p(y | beta) = sum_i w_i log(precision_i) / 2 - (n / 2) log(2 pi sigma^2) - RSS / (2 sigma^2)
    design = model.design
    return float(
        0.5 * design.log_precision
        - 0.5 * design.total * np.log(2 * np.pi * sigma**2)
        - 0.5 * rss / sigma**2
    )


def _degrees(lasso: Lasso, found: Joint) -> float:
    """trace(G (G + P)^-1) over the coefficients off their kinks, P the curvature of the penalty there, and the flat columns."""
    parts: PartialledOut = lasso.parts
    penalty = lasso.weights.at(found.sigma, parts.norm)
    r = found.given.r
    free = np.flatnonzero(~penalty.at_kink(r))
    P = penalty.curvature_among(r, free)
    if P is None:
        spent = float(len(free))
    else:
        spent = float(diagonal_of_shrinkage(parts.gram.among(free), P).sum())
    return spent + len(parts.flat)


_DECADES = 3.0  # a path of a kinked prior ends at a thousand times the scale at which it starts


@dataclass(frozen=True, eq=False)
class PathSolution:
    """The modes of one model under its prior at S scales; see the module for the fields."""

    base: Model
    scales: Array
    beta: Array
    aux: Mapping[str, Array]
    kkt: Array
    gap: Array
    df: Array
    log_lik: Array
    status: tuple[Status, ...]
    # the one decomposition of all scales, for a Gaussian model with normal priors
    ridge: RidgeModes | None = None
    # all scales are from one decomposition, with sigma held or found beside
    closed: bool = False
    seen: "PathSolution | None" = None  # the same in coordinates that the rows see, where these are fewer than the columns

    def model(self, i: int) -> Model:
        """The model whose mode is beta[i]."""
        return rescaled(self.base, float(self.scales[i]))


def rescaled(model: Model, factor: float) -> Model:
    """The model with every scale of its informative priors multiplied by `factor`, bound to these rows: leaving rows out does not
    move it. DataError for a prior without scale."""
    joint = model.joint
    blocks = [b for b in joint.blocks if joint.informative[list(b.columns)].any()]
    if isinstance(model.prior, Prior):
        return model.with_prior(blocks[0].prior.times(factor))
    scaled = [replace(b, prior=b.prior.times(factor)) for b in blocks]
    return model.with_prior(mapping_of(scaled, model.design.columns))


def restated(model: Model, factor: float) -> Model:
    """The same density at these rows, its priors as they were stated: one on standardised columns stays so. As `rescaled`
    where that cannot be said."""
    if isinstance(model.prior, Prior):
        if (
            not model.prior.whole
            and (one := model.prior.rescale_stated(factor)) is not None
        ):
            return model.with_prior(one)
        return rescaled(model, factor)
    each = {key: prior.rescale_stated(factor) for key, prior in model.prior.items()}
    known = {key: prior for key, prior in each.items() if prior is not None}
    if len(known) == len(each):
        return model.with_prior(known)
    return rescaled(model, factor)


def mode_path(model: Model, scales: Any, *, tol: float = 1e-8) -> PathSolution:
    """The mode at each scale, warm-started; see the module. `tol` bounds the kkt of kinked priors.

    Incompatible where the prior is flat, has no stated scale or no mode method; DataError for scales that are not positive.

    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1.0), aux={"sigma": 1.0})
    >>> found = mode_path(model, [1 / 3, 1 / 1.5, 1 / 0.3])  # lambda = 1, 0.5, 0.1 of the lasso over 2 n
    >>> found.beta[:, 1, 0].round(9), found.df
    (array([0.  , 0.25, 0.85]), array([1., 2., 2.]))
    """
    grid = _checked(model, scales)
    wide = _rotation(model)
    if wide is not None:
        found = mode_path(wide.model, grid, tol=tol)
        return replace(found, base=model, beta=wide.beta(found.beta), seen=found)
    order = np.argsort(grid)
    if _is_ridge(model):
        ridge = RidgeModes.of(model, grid)
    else:
        ridge = None
    modes = ridge or JointRidgeModes.found(model, grid)
    if modes is None:
        with progress_bar("modes", len(grid)) as bar:
            steps = _walk(model)(model, bar.over(grid[order]), tol)
    else:
        steps = ridge_steps(modes, grid[order])
    each = [steps[i] for i in np.argsort(order)]
    beta = np.stack([s.beta for s in each])
    open_ = open_directions(model)
    status = tuple(s.status for s in each)
    if open_ is not None:
        N = open_.directions
        beta = beta - np.einsum("pk,kq,sqm->spm", N, np.linalg.pinv(N), beta)
        status = tuple(Status.NOT_IDENTIFIED if v.good else v for v in status)
    aux = {a: np.array([s.aux[a] for s in each]) for a in model.unknown}
    return PathSolution(
        base=model,
        scales=grid,
        beta=beta,
        aux=aux,
        kkt=np.array([s.kkt for s in each]),
        gap=np.array([s.gap for s in each]),
        df=np.array([s.df for s in each]),
        log_lik=np.array([s.log_lik for s in each]),
        status=status,
        ridge=ridge,
        closed=modes is not None,
    )


def _checked(model: Model, scales: Any) -> Array:
    grid = np.atleast_1d(np.asarray(scales, dtype=float))
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid) & (grid > 0)).all():
        raise DataError(
            f"the scales of a path are positive finite numbers, got {scales!r}"
        )
    if not model.joint.informative.any():
        raise Incompatible(
            "a path goes over the scale of a prior, and every prior of this model is flat"
        )
    if not isinstance(model.likelihood, SmoothLikelihood):
        raise Incompatible(
            f"a path follows modes of smooth likelihoods, and the {model.likelihood.name} likelihood has kinks: fit each scale by itself"
        )
    for b in model.joint.blocks:
        if isinstance(b.prior, HierarchicalPrior):
            raise Incompatible(
                f"the {b.prior.name} prior has an unknown scale of its own; a path needs one that is stated"
            )
    return grid


Walk = Callable[[Model, Iterable[float], float], list[Step]]


def _walk(model: Model) -> Walk:
    """The way from the strongest prior to the weakest."""
    if CoordinateDescent().obstacle(model) is None:
        return lasso_steps
    if ProximalNewton().obstacle(model) is None:
        return _proximal_steps
    why = Newton().obstacle(model)
    if why is None:
        return _newton_steps
    raise Incompatible(why)


def _rotation(model: Model) -> Rotated | None:
    """The coordinates that the rows see, where these are fewer than the columns and Newton's method finds the modes.

    What nobody sees is at the centre of its prior at every scale; not so where sigma, unknown, is the unit of that prior.
    """
    if model.design.n >= model.shape[0] or not model.joint.gaussian or _is_ridge(model):
        return None
    wide = rotated(model)
    return None if wide is None or wide.relative else wide


def _is_ridge(model: Model) -> bool:
    return model.joint.gaussian and ClosedForm().obstacle(model) is None


def _newton_steps(model: Model, scales: Iterable[float], tol: float) -> list[Step]:
    out: list[Step] = []
    rows = StandardRows.of(model)
    near = None
    for s in scales:
        at = rescaled(model, float(s))
        if rows is None or near is None:
            near = None
        else:
            near = next_mode(rows, at, near.point, near.likelihood)
        if rows is not None and near is not None:
            out.append(_step_near(rows, near))
            continue
        if out:
            start = tuple(map(tuple, out[-1].beta))
        else:
            start = None
        found = Newton(start=start).solve(at, np.random.default_rng(0))
        out.append(_step(at, found, found.stats["decrement"]))
        if rows is not None and found.status is Status.CONVERGED:
            point = rows.point(found.beta, found.aux)
            near = NextMode(
                point, rows.local(point), PriorAt(rows, at).local(point), 0.0
            )
    return out


def _step_near(rows: StandardRows, near: NextMode) -> Step:
    k = rows.model.shape[0] * rows.model.shape[1]
    # tr (H + P)^-1 H, H the information: the same on standardised columns
    df = float(
        diagonal_of_shrinkage(
            rows.information(near.point), near.prior.curvature[:k, :k]
        ).sum()
    )
    log_lik = near.likelihood.value
    aux = {name: float(v) for name, v in rows.aux(near.point).items()}
    return Step(
        rows.beta(near.point),
        aux,
        log_lik,
        near.decrement,
        np.nan,
        df,
        Status.CONVERGED,
    )


def _proximal_steps(model: Model, scales: Iterable[float], tol: float) -> list[Step]:
    """From the mode before; where a mode is one of several, from the ridge solution at each scale, as a fit alone is."""
    out: list[Step] = []
    for s in scales:
        search = SearchCoordinates(rescaled(model, float(s)))
        if out and search.nonsmooth.convex:
            x = search.x(out[-1].beta, np.log([out[-1].aux[a] for a in model.unknown]))
        else:
            x = start_of(search, None)
        found = minimise_nonsmooth(search, x, tol=tol, max_steps=100)
        stats = {"kkt": found.kkt, "steps": float(found.steps)}
        beta = search.beta(found.at.x)
        aux = search.aux(found.at.x)
        made = kinked_solution(
            search.model, beta, aux, found.status, stats=stats, notes=()
        )
        out.append(_step(search.model, made, found.kkt))
    return out


def _step(model: Model, found: Solution, kkt: float) -> Step:
    aux = dict(found.aux)
    df = degrees_of_freedom(model, found.beta, **aux)
    log_lik = float(model.log_lik(found.beta, **aux))
    return Step(
        found.beta,
        aux,
        log_lik,
        float(kkt),
        float(found.stats.get("gap", np.nan)),
        df,
        found.status,
    )


def default_scales(model: Model, n: int = 100) -> Array:
    """(n,), increasing: for kinked priors from the largest scale at which every kinked coefficient is at its kink, a
    thousandfold up; for other priors from where they decide every direction (df near 0) to where they decide none.

    >>> from probreg.priors import Laplace
    >>> model = Model.from_arrays([-1.0, 0.0, 1.0], [-1.0, 0.0, 1.0], prior=Laplace(1.0), aux={"sigma": 1.0})
    >>> default_scales(model, 3).round(6)
    array([  0.5     ,  15.811388, 500.      ])
    """
    _checked(model, 1.0)
    nonsmooth = NonsmoothTerms.of(model)
    if nonsmooth.norms is not None and nonsmooth.norms.groups:
        low = _leaving(model)
        return (
            low * (1.0 - 1e-9) * np.logspace(0.0, _DECADES, n)
        )  # on the zero side of rounding
    return np.geomspace(*_spectrum(model), n)


def _leaving(model: Model) -> float:
    """The largest scale at which all groups, single coefficients among them, are at their kinks: there the largest slope of the
    smooth part equals its weight. Smooth blocks move with the scale, hence the rounds."""
    scale = 1e-9
    walk = _walk(model)
    nonsmooth = NonsmoothTerms.of(model)
    norms = nonsmooth.norms
    assert norms is not None
    for _ in range(20):
        step = walk(model, np.array([scale]), 1e-8)[0]
        slope = _slopes(model, step).reshape(model.shape)
        if model.joint.contrast is not None:
            slope = slope @ model.joint.contrast.T
        if nonsmooth.moving.any():
            slope = (
                slope
                * np.where(nonsmooth.moving, step.aux[model.noise_scale], 1.0)[:, None]
            )
        # beta_g leaves its kink where |D_g^-1 d log p / d beta_g| = 1 / s, D_g its metric at scale 1.
        lengths = [
            np.linalg.norm(slope[g] / norms.metric[g, None], axis=0).max()
            for g in norms.groups
        ]
        new = 1.0 / max(*lengths, float(np.finfo(float).tiny))
        if abs(new - scale) <= 1e-10 * new:
            break
        scale = new
    return scale


def _slopes(model: Model, step: Step) -> Array:
    """d log p(y | beta) / d vec beta, (p m,)."""
    known = {**model.fixed, **step.aux}
    if model.likelihood.least_squares and not model.design.n:
        G, c, _ = model.design.moments.gram
        return (c - G @ step.beta[:, 0]) / known[model.noise_scale] ** 2
    assert isinstance(model.likelihood, SmoothLikelihood)
    fn = partial(
        value_grad_hessian,
        likelihood=model.likelihood,
        unknown=(),
        gamma=step.beta,
        frame=None,
        known=known,
        curved=False,
    )
    return np.asarray(model.design.fold(fn)[1]).ravel()


def _spectrum(model: Model) -> tuple[float, float]:
    """Scales at which a normal prior of this precision leaves 1 % of the best determined direction to the data, and 1 %
    of the least determined one to the prior; at most eight decades apart."""
    beta = np.zeros(model.shape)
    if model.design.n < model.shape[0] and (wide := rotated(model)) is not None:
        # the other directions are those of eigenvalues 0
        model = wide.model
        beta = np.array(wide.start(beta))
    base = rounder(model)
    aux = {a: _spread(model) for a in model.unknown}
    H = information_of(base, beta, None, **{a: _spread(model) for a in model.unknown})
    P = smooth_prior_curvature(base, beta, **aux)
    use = np.repeat(model.joint.informative, model.shape[1])
    d = np.sqrt(np.maximum(np.diagonal(P)[use], 1e-300))
    eigen = np.linalg.eigvalsh(H[np.ix_(use, use)] / np.outer(d, d))
    top = float(eigen[-1])
    least = float(eigen[eigen > 1e-12 * eigen[-1]][0])
    # At scale s the data have the share e s^2 / (1 + e s^2) of a direction, e an eigenvalue of P^(-1/2) H P^(-1/2):
    # 1 % at e s^2 = 0.01, 99 % at e s^2 = 100.
    low = 0.1 / np.sqrt(top)
    return low, min(10.0 / np.sqrt(least), 1e8 * low)


def _spread(model: Model) -> float:
    design = model.design
    if model.likelihood.least_squares and not design.n:
        return max(float(design.moments.y_scale), 1e-300)
    return max(float(np.std(design.sample.observed)), 1e-300)
