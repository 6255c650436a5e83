"""The log density of the rows of each group given the rows of all others, p(y_g | y_-g).

Under Gaussian noise it is exact at given scales: with V the covariance of the coefficients given all rows, e_g the residuals of the
group and R = I - X_g V X_g' / sigma^2, the response of a group, with its rows left out, has the mean y_g - R^-1 e_g and the covariance
sigma^2 R^-1. Draws of the scales theta are weighted,

    p(y_g | y_-g) = 1 / E[1 / p(y_g | y_-g, theta)],   theta ~ p(theta | y),

by Pareto-smoothed weights. In other models the effects of the group are integrated out at each draw of everything else (Merkle, Furr &
Rabe-Hesketh 2019), by quadrature about their posterior.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import chain

import numpy as np
import scipy
from scipy.special import logsumexp, ndtri

from probreg.data import Frame
from probreg.data.checked_arrays import full_weights, minus_offset
from probreg.data.implicit_columns import PredictorColumns
from probreg.errors import DataError, NotConverged
from probreg.fits.effects_table import off_span_of
from probreg.fits.fit import Fit
from probreg.fits.leave_one_out import PARETO_LIMIT, leave_rows_out
from probreg.fits.leave_out.rows import LeftOut, has_normal_prior, held_scales_note
from probreg.fits.prediction import parameter_draws
from probreg.inference import ClosedForm
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.penalized.degrees import prior_given
from probreg.inference.uncertainty.information import SINGULAR, WhitenedRows
from probreg.linalg import evenly_spaced, root_of_curvature
from probreg.model.group_effects import GroupEffects
from probreg.model.model import Model
from probreg.model.off_span import OffSpan
from probreg.model.term_priors import hyper_at
from probreg.priors import HierarchicalPrior

Array = np.ndarray


def group_labels_of(fits: Mapping[str, Fit], group: str) -> Array:
    """Return the group (n,) of each row, from the first fit that has it. DataError if none has."""
    group_names: list[str] = []
    for fit in fits.values():
        design = fit.model.design
        for key, term in design.recipe.grouped.items():
            if term.group == group and key in design.inputs:
                return term.labels_of(design.inputs[key])
            group_names.append(term.group)
        if group in design.read:
            return np.asarray(design.read[group])
    raise DataError(
        f"leave_out={group!r} names no groups of these fits; they have: {', '.join(dict.fromkeys(group_names)) or 'none'}"
    )


def leave_group_out(fit: Fit, group: str, labels: Array) -> LeftOut:
    """Return log p(y_g | y_-g) of every group, (G,), in the order of the labels; nan, with the reason, if there is none."""
    groups = [np.flatnonzero(labels == g) for g in dict.fromkeys(labels.tolist())]
    obstacle = _obstacle(fit)
    if obstacle is not None:
        return LeftOut(np.full(len(groups), np.nan), "none", (obstacle,))
    if fit.model.likelihood.least_squares and _normal_given_scales(fit):
        return _leave_out_exactly(fit, group, groups)
    return _leave_out_by_quadrature(fit, group, groups)


def _obstacle(fit: Fit) -> str | None:
    if fit.model.design.weights is not None:
        return "rows with frequencies have no leave-one-group-out: give each observation a row of its own"
    if fit.model.design.n == 0:
        return "the rows are not in memory, so that no group can be left out"
    if (
        fit.target == "mode"
        and not fit.model.flat
        and not fit.solution.scale.has_errors
    ):
        return "this mode has no standard errors, so that it cannot be conditioned on the other groups"
    return None


# ---- Gaussian noise: exact given the scales --------------------------------------------------------------------------------


def _normal_given_scales(fit: Fit) -> bool:
    """Return whether coefficients are normal given the scales, and the scales are known or drawn."""
    model = fit.model
    draws = fit.solution.draws
    if draws is None:
        known = model.flat or not model.unknown
        return known and has_normal_prior(model.joint, model.design, ())
    if draws.elliptical and fit.solution.df is not None:
        return False
    return has_normal_prior(model.joint, model.design, draws.values)


def _leave_out_exactly(fit: Fit, group: str, groups: list[Array]) -> LeftOut:
    model = fit.model
    if fit.solution.draws is not None:
        log_p = np.array(
            [_group_log_density(model, *at, groups) for at in _at_draws(fit)]
        )
        return _leave_out_by_importance(
            log_p, group, "closed form given the scales, weighed over their draws"
        )
    notes: tuple[str, ...] = ()
    if model.flat and model.unknown:
        # the plug-in density at least squares without the group
        s = ClosedForm().solve(model, np.random.default_rng(0))
        V = s.scale.scale_by(s.df / s.stats["rss"] if s.df else 1.0)
        beta, rss = s.beta[:, 0], s.stats["rss"]
        elpd = _group_log_density(model, beta, V, 1.0, groups, rss)
    else:
        sigma = model.noise(fit.aux)
        V = fit.solution.given_scales
        elpd = _group_log_density(model, fit.solution.beta[:, 0], V, sigma, groups)
        notes = held_scales_note(fit, group)
    return LeftOut(elpd, "closed form", (*notes, *_missing_notes(elpd, group)))


def _group_log_density(
    model: Model,
    beta: Array,
    V: ParameterCovariance,
    sigma: float,
    groups: list[Array],
    rss: float | None = None,
) -> Array:
    """Return log p(y_g | y_-g, theta), (G,), where beta and V are the mean and the covariance given all rows.

    With the residual sum of squares `rss` it is the plug-in density N(y_g; X_g b_-g, RSS_-g / (n - n_g)).
    """
    n = model.design.n
    whitened = WhitenedRows.of(model, beta, sigma)
    log_density = np.full(len(groups), np.nan)
    for i, rows in enumerate(groups):
        k = len(rows)
        value, vector = np.linalg.eigh(whitened.apart(rows, V))
        if value[0] < SINGULAR or (rss is not None and k == n):
            continue
        # log N(y_g; y_g - R^-1 e, sigma^2 R^-1) = -n/2 log 2 pi - n log sigma + log |R| / 2 - e'R^-1 e / 2
        z = vector.T @ whitened.e[rows]
        square = (z**2 / value).sum()
        log_p = 0.5 * np.log(value).sum() - 0.5 * square
        variance = sigma**2
        if rss is not None:
            # RSS_-g = RSS - e'R^-1 e, and the residuals without the group are R^-1 e
            variance = (rss - square) / (n - k)
            log_p = -0.5 * (z**2 / value**2).sum() / variance
        log_p -= 0.5 * k * np.log(2.0 * np.pi * variance)
        log_density[i] = log_p + np.log(whitened.root[rows]).sum()
    return log_density


def _at_draws(fit: Fit) -> Iterator[tuple[Array, ParameterCovariance, float]]:
    """Mean, covariance and sigma of the coefficients given the scales, at draws of the scales."""
    model = fit.model
    draws = fit.solution.posterior.flat
    d = model.design
    sqrt_weight = np.sqrt(full_weights(d.precision, d.n))
    X = d.X * sqrt_weight[:, None]
    G = X.T @ X
    c = X.T @ (sqrt_weight * minus_offset(d.observed, d.offset))
    hierarchical = [
        i
        for i, b in enumerate(model.joint.blocks)
        if isinstance(b.prior, HierarchicalPrior)
    ]
    scale_draws = 1000  # draws of the scales that are weighted
    for s in evenly_spaced(len(draws["beta"]), scale_draws):
        scalars = {k: float(v[s]) for k, v in draws.items() if k != "beta"}
        sigma = model.noise({a: scalars[a] for a in model.unknown})
        hyper = {
            i: hyper_at(model.joint, model.design, i, scalars) for i in hierarchical
        }
        prior = prior_given(model.joint, hyper, [])
        P = prior.precision(sigma)
        # beta | y ~ N(V (X'Wy / sigma^2 + P b), V), V = (X'WX / sigma^2 + P)^-1
        root = root_of_curvature(G / sigma**2 + P)
        if root is None:
            raise NotConverged(
                "the coefficients given the scales of a draw are not identified: give flat columns a prior"
            )
        mean = root @ (root.T @ (c / sigma**2 + P @ prior.center))
        V = DenseCovariance(Frame.of_raw(len(P)), 1, root=root)
        yield mean, V, sigma


# ---- other likelihoods: effects of the group integrated out at draws of the rest -------------------------------------------


def _leave_out_by_quadrature(fit: Fit, group: str, groups: list[Array]) -> LeftOut:
    model = fit.model
    rng = np.random.default_rng([fit.seed, 11])
    parameters = parameter_draws(fit, rng)
    beta = parameters.pop("beta")
    # number of draws; at each the effects of a group are integrated out
    effect_draws = 400
    draw_numbers = np.arange(min(effect_draws, len(beta)))
    method = "weighted over draws of the normal approximation"
    if fit.solution.draws is not None:
        draw_numbers = evenly_spaced(len(beta), effect_draws)
        method = "weighted over draws"
    off = off_span_of(model, fit.solution, {a: v[:, 0] for a, v in parameters.items()})
    terms = [p for p in (off or OffSpan(())).of_groups if p.term.group == group]
    if terms:
        method = f"effects of the group by quadrature, {method}"
    parameters = {a: v[draw_numbers] for a, v in parameters.items()}
    log_p = np.stack(
        [
            _log_density_without_effects(
                model, beta, draw_numbers, parameters, terms, rows, rng
            )
            for rows in groups
        ],
        1,
    )
    result = _leave_out_by_importance(log_p, group, method)
    return replace(result, warnings=(*held_scales_note(fit, group), *result.warnings))


def _log_density_without_effects(
    model: Model,
    beta: Array,
    draw_numbers: Array,
    aux: Mapping[str, Array],
    terms: list[GroupEffects],
    rows: Array,
    rng: np.random.Generator,
) -> Array:
    """log p(y_g | everything but its effects), (S,)."""
    d = model.design.take(rows)
    columns_of_terms: list[list[int]] = []  # of the effects of this group
    for p in terms:
        K = len(p.term.effects)
        code = int(model.design.inputs[p.key][rows[0], 0])
        columns_of_terms.append(p.columns[code * K : (code + 1) * K])
    columns = list(dict.fromkeys(chain.from_iterable(columns_of_terms)))
    other_effects = beta[draw_numbers].copy()
    other_effects[:, columns] = 0.0
    eta = d.eta(other_effects)
    parameters = model.likelihood.at_rows(aux, d.precision)

    def log_likelihood(added: Array | float) -> Array:
        return model.likelihood.log_prob(d.observed, eta + added, **parameters).sum(-1)

    if not columns:
        return log_likelihood(0.0)
    X: np.ndarray | PredictorColumns = d.X[:, columns]
    if d.owner is not None:
        X = PredictorColumns(X, d.owner[columns], model.likelihood.width)
    S = len(draw_numbers)
    m = model.shape[1]
    # the root of the covariance of b, effect by effect and within an effect predictor by predictor
    blocks = np.zeros((S, len(columns), m, len(columns), m))
    for p, own in zip(terms, columns_of_terms):
        root = np.broadcast_to(p.roots, (len(beta), *p.roots.shape[1:]))[draw_numbers]
        place = slice(columns.index(own[0]), columns.index(own[-1]) + 1)
        shared = p.predictor is None or d.owner is not None  # with formulas m is 1
        for k in range(m) if shared else [p.predictor]:
            blocks[:, place, k, place, k] = root
    b = beta[:, columns].reshape(len(beta), -1)
    size = b.shape[1]
    # half of the points b_j at each draw come from N(mean, C), the normal approximation from the draws of this group's effects,
    # and half from the prior N(0, S), which is much narrower where a standard deviation is near zero (Hesterberg 1995)
    tiny = 1e-10  # added to variances and roots that may be zero
    node_variance = 1.5  # ratio of the covariance of the quadrature points to the covariance of the effects
    C = node_variance * np.atleast_2d(np.cov(b.T)) + tiny * np.eye(size) * max(
        float(np.var(b)), tiny
    )
    factor = np.linalg.cholesky(C)
    L = blocks.reshape(S, size, size) + tiny * np.eye(size)
    sobol = scipy.stats.qmc.Sobol(size, rng=np.random.default_rng(0))
    nodes = 512  # quadrature points at each draw
    z, z_prior = np.split(ndtri(sobol.random(nodes)), 2)
    near = b.mean(0) + z @ factor.T
    points = np.concatenate(
        [np.broadcast_to(near, (S, *near.shape)), z_prior @ L.mT], 1
    )
    log_q = _log_normal_kernel(points - b.mean(0), factor)
    log_prior = _log_normal_kernel(points, L)
    log_mixture = np.logaddexp(log_q, log_prior) - np.log(2.0)
    log_p = np.stack(
        [
            log_likelihood(X @ points[:, j].reshape(S, len(columns), m))
            for j in range(nodes)
        ],
        1,
    )
    # E over the mixture q of p(y | b) N(b; 0, S) / q(b)
    return logsumexp(log_p + log_prior - log_mixture, axis=1) - np.log(nodes)


def _log_normal_kernel(points: Array, root: Array) -> Array:
    """Return log N(points; 0, root root') + size log(2 pi) / 2, (S, J) of points (S, J, size) and roots (size, size) or (S, size, size)."""
    u = np.linalg.solve(root, points.mT)
    log_det = np.log(np.abs(np.linalg.diagonal(root))).sum(-1)
    return -0.5 * (u**2).sum(1) - log_det[..., None]


# ---- common functions ------------------------------------------------------------------------------------------------------


def _leave_out_by_importance(log_p: Array, group: str, method: str) -> LeftOut:
    """Return 1 / E[1 / p_s] over draws, (G,) of (S, G), by Pareto-smoothed importance sampling."""
    finite = np.isfinite(log_p).all(0)
    elpd = np.full(log_p.shape[1], np.nan)
    notes: tuple[str, ...] = ()
    if finite.any():
        psis = leave_rows_out(log_p[:, finite])
        elpd[finite] = psis.elpd
        bad = int((psis.k > PARETO_LIMIT).sum())
        if bad:
            notes = (
                f"Pareto k is above {PARETO_LIMIT} for {bad} of {len(elpd)} groups: their terms are not reliable",
            )
    return LeftOut(elpd, method, (*notes, *_missing_notes(elpd, group)))


def _missing_notes(log_p: Array, group: str) -> tuple[str, ...]:
    missing = int(np.isnan(log_p).sum())
    if not missing:
        return ()
    return (
        f"without {missing} of {len(log_p)} groups ({group}) some coefficient has no estimate",
    )
