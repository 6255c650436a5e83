"""The prior of a fit: its description and its weight.

With P and H the curvatures of the log prior and of the log posterior over the coefficients at the estimate, the prior
weight of a coefficient is (P H^-1)_jj, with the other coefficients re-estimated: for independent priors the posterior variance in
units of the prior's, which sums to the number of coefficients determined by the prior (MacKay 1992).
"""

from dataclasses import replace
from typing import Any

import numpy as np

from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_matrix
from probreg.inference.varying import hyper_of_blocks
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import root_of_curvature
from probreg.model.descriptions import describe_prior
from probreg.model.model import Model
from probreg.priors import (
    AffinePrior,
    AuxPrior,
    Flat,
    JointPrior,
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)

Array = np.ndarray


# ---- words --------------------------------------------------------------------------------------------------------------


def _coefficient_priors(fit: Fit) -> Array:
    """Describe the prior of each reported coefficient, (p, outcomes or 1) of text."""
    model = fit.model
    texts = np.full(
        (model.shape[0], len(model.likelihood.outcomes) or 1), "flat", object
    )
    for b in model.joint.blocks:
        prior: Any = b.prior
        if isinstance(prior, Flat):
            continue
        q = len(b.columns)
        priors = [prior] * q
        has_matrix = getattr(prior, "precision_matrix", None) is not None
        of_columns = isinstance(prior, AffinePrior) and prior.size and not has_matrix
        if of_columns:
            settings = np.broadcast_arrays(prior.scales, prior.location, np.ones(q))
            priors = [
                replace(prior, scale=scale, location=location)
                for scale, location, _ in np.transpose(settings).tolist()
            ]
        units = " in units of sigma" * prior.sigma_units
        words = [describe_prior(of_column) + units for of_column in priors]
        b.put(texts, np.array(words, object)[:, None])
    return texts[model.design.ungrouped]


def aux_prior_words(model: Model, name: str) -> str:
    """The prior of an auxiliary parameter.

    >>> from probreg.priors import HalfNormal
    >>> aux_prior_words(Model.from_arrays([1.0, 2.0], [0.0, 1.0], aux={"sigma": HalfNormal(2.0)}), "sigma")
    'HalfNormal(2)'
    """
    if name in model.fixed:
        return f"fixed at {model.fixed[name]:.4g}"
    prior = model.aux_prior(name)
    if isinstance(prior, Reference):
        return f"p({name}) ∝ 1/{name}"
    return describe_prior(prior)


def scale_priors(fit: Fit) -> dict[str, AuxPrior]:
    """The prior of each standard deviation and correlation of effects, and of a noise scale next to them."""
    model = fit.stated_model
    priors = {}
    if fit.solution.effect_scales is not None or model.design.recipe.grouped:
        priors = {name: model.aux_prior(name) for name in model.unknown}
    for _, block_prior, names in hyper_of_blocks(model):
        if block_prior.hyper_labels:  # of the covariance of effects
            priors |= {names[name]: block_prior.hyper[name].prior for name in names}
    return priors


def scale_prior_words(prior: AuxPrior) -> str:
    """Describe the prior of a scale; a reference prior is flat on the scale of the search."""
    return "flat" if isinstance(prior, Reference) else describe_prior(prior)


def describe_priors(fit: Fit, scalars: list[str]) -> tuple[list[str], list[float]]:
    """Return the prior in words and its weight, for the coefficients outcome by outcome and some other parameters."""
    aux = fit.solution.aux
    weights, aux_weights = prior_weights(fit)
    weight_of = dict(zip(aux, aux_weights))
    of_scales = {}
    if [name for name in scalars if name not in aux]:
        of_scales = scale_priors(fit)
    texts = _coefficient_priors(fit).T.ravel().tolist()
    numbers = weights.T.ravel().tolist()
    for name in scalars:
        prior = of_scales.get(name)
        no_weight = 0.0 if isinstance(prior, Reference) else np.nan
        numbers.append(weight_of.get(name, no_weight))
        if name in aux:
            texts.append(aux_prior_words(fit.model, name))
        else:
            texts.append("" if prior is None else scale_prior_words(prior))
    return texts, numbers


# ---- the weight of the prior --------------------------------------------------------------------------------------------


def prior_weights(fit: Fit) -> tuple[Array, list[float]]:
    """(P H^-1)_jj of every reported coefficient, (p, outcomes or 1), and P / H of every unknown auxiliary parameter on its
    log scale, at fixed coefficients. H = P + J, J the observed information of the likelihood, all at the estimate; a
    reported softmax coefficient is a direction, its row of the display. 0 for a flat prior; nan where it is not defined:
    at a kink, where the log prior is not concave, and for rows that are not kept."""
    model = fit.model
    s = fit.solution
    P_aux = np.array([curvature_over_log(fit, a) for a in s.aux])
    informative = model.joint.informative
    if not informative.any() and not P_aux.any():
        shape = len(model.design.ungrouped), len(model.likelihood.outcomes) or 1
        return np.zeros(shape), [0.0] * len(P_aux)
    _, P = prior_derivatives_of_fit(fit)
    J, J_aux = information_of_fit(fit)
    has_prior = np.repeat(informative, model.shape[1])
    weights = _curvature_by_outcome(
        fit, np.where(has_prior[:, None], P @ inverse_or_nan(P + J), 0.0)
    )
    # (p m,) bool: the log prior of the block that a coefficient belongs to curves downward, in a block of independent
    # entries the log prior of the coefficient itself.
    m = model.shape[1]
    concave = np.diagonal(P) >= 0
    for b in model.joint.blocks:
        entries = b.entries(m)
        part = P[np.ix_(entries, entries)]
        if np.isfinite(part).all() and (part - np.diag(np.diagonal(part))).any():
            concave[entries] = np.linalg.eigvalsh(part)[0] >= -1e-9 * np.abs(part).max()
    defined = _curvature_by_outcome(fit, np.diag(np.where(concave, 0.0, 1.0))) == 0.0
    aux_weights = np.where(P_aux == 0, 0.0, np.nan)
    proper = (P_aux > 0) & (P_aux + J_aux > 0)
    aux_weights[proper] = P_aux[proper] / (P_aux + J_aux)[proper]
    # Weights that lie in [0, 1] but for rounding; nan for others, which a prior that correlates coefficients can give.
    inside = (weights > -1e-9) & (weights < 1.0 + 1e-9)
    proportion = np.where(inside & defined, np.clip(weights, 0.0, 1.0), np.nan)
    proportion[~informative[model.design.ungrouped]] = 0.0
    return proportion, aux_weights.tolist()


def curvature_over_log(fit: Fit, name: str) -> float:
    """The negative second derivative of log p(aux) over log aux, for sigma including log p(beta | sigma): a normal
    prior in units of sigma has -log p = q m log sigma + r'P r / (2 sigma^2), of curvature 2 r'P r / sigma^2."""
    model = fit.model
    s = fit.solution
    curvature = float(-model.aux_prior(name).slopes(s.aux[name])[1])
    if name != model.likelihood.noise_scale or not model.joint.sigma_units.any():
        return curvature
    if model.joint.gaussian:
        return curvature + float(
            model.joint.value_grad_hessian(s.beta, s.aux[name])[2][-1, -1]
        )
    h = 1e-3  # a second difference: other priors are smooth in sigma too, to about 1e-6 of their curvature
    # what is not known without hyperparameters is not in units of sigma
    proper = JointPrior(tuple(b for b in model.joint.blocks if b.prior.known))
    log_p = [
        float(proper.log_prob(s.beta, s.aux[name] * np.exp(k * h))) for k in (-1, 0, 1)
    ]
    return curvature - (log_p[0] - 2.0 * log_p[1] + log_p[2]) / h**2


def prior_derivatives_of_fit(fit: Fit) -> tuple[Array, Array]:
    """The slope of log p(beta) at the estimate, (p m,) over vec(beta), and its negative Hessian P, (p m, p m): nan where they do not
    exist, at a kink, and P for a fit without its rows."""
    beta = fit.solution.beta
    sigma = fit.model.likelihood.noise(fit.aux)
    g = np.full(beta.size, np.nan)
    P = np.zeros((beta.size, beta.size))
    for b in fit.model.joint.blocks:
        entries = b.entries(beta.shape[1])
        unit = b.prior.unit(sigma)
        if isinstance(b.prior, Flat):
            g[entries] = 0.0
            continue
        if isinstance(b.prior, WholePrior) and rowless(fit):
            continue  # its log density is a sum over the rows
        if isinstance(b.prior, SmoothPrior):
            # the curvature is negative in the tails of a Student-t, which are convex
            g[entries], P[np.ix_(entries, entries)] = b.prior.derivatives(
                b.take(beta), unit
            )
            continue
        P[entries, entries] = np.nan
        if isinstance(b.prior, ProximalPrior):
            low, high = b.prior.subgradient(b.take(beta), unit)
            g[entries] = np.where(low == high, -low, np.nan).ravel()
    return g, np.full(P.shape, np.nan) if rowless(fit) else P


def information_of_fit(fit: Fit) -> tuple[Array, Array]:
    """Observed information of the likelihood at the estimate: J over vec(beta), (p m, p m), and the diagonal over log
    aux; nan for a fit without rows and moments."""
    model = fit.model
    s = fit.solution
    k = s.beta.size
    if rowless(fit) or not isinstance(model.likelihood, SmoothLikelihood):
        return np.full((k, k), np.nan), np.full(len(s.aux), np.nan)
    H = (
        replace(model, prior=Flat(), aux=model.fixed)
        .value_grad_hessian(s.beta, **s.aux)
        .curvature
    )
    return H[:k, :k], np.diagonal(H)[k:]


def rowless(fit: Fit) -> bool:
    """Return whether sums over the rows are impossible and no moments replace them."""
    return not fit.model.design.has_rows and not fit.model.likelihood.least_squares


def _curvature_by_outcome(fit: Fit, matrix: Array) -> Array:
    """Return d'M_jj d / d'd for each column j and direction d of a reported coefficient, (p, outcomes or 1)."""
    length = np.square(fit.model.likelihood.contrast_matrix).sum(1)
    return (
        np.diagonal(reported_matrix(fit.model, matrix)).reshape(-1, len(length))
        / length
    )


def inverse_or_nan(H: Array) -> Array:
    """Return H^-1; nan if H is not positive definite, or singular to rounding."""
    root = root_of_curvature(H)
    if root is None:
        return np.full(H.shape, np.nan)
    inverse = root @ root.T
    # the diagonal of the inverse of H scaled to unit diagonal
    is_singular = (np.diagonal(inverse) * np.diagonal(H) > 1e13).any()
    return np.full(H.shape, np.nan) if is_singular else inverse
