"""The prior of a fit: its description, the equivalent penalty, the scikit-learn estimator and the prior's weight.

With P and H the curvatures of the log prior and of the log posterior over the coefficients at the estimate, the prior
weight of a coefficient is (P H^-1)_jj, with the other coefficients re-estimated: for independent priors the posterior variance in
units of the prior's, which sums to the number of coefficients determined by the prior (MacKay 1992).
"""

from dataclasses import fields, replace
from functools import singledispatch
from typing import Any

import numpy as np

from probreg.comparison.same_question import number_of_observations
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_matrix
from probreg.inference.varying import hyper_of_blocks, natural_names
from probreg.likelihoods import (
    Bernoulli,
    Gaussian,
    OfTrials,
    Poisson,
    SmoothLikelihood,
    SoftmaxLikelihood,
)
from probreg.model.model import Model
from probreg.model.prior_words import written_prior
from probreg.priors import (
    AffinePrior,
    AuxPrior,
    Flat,
    GroupLaplace,
    HierarchicalPrior,
    Horseshoe,
    JointPrior,
    LocationScale,
    Normal,
    Prior,
    ProximalPrior,
    Reference,
    ScaleMixture,
    SmoothPrior,
)

Array = np.ndarray


# ---- words and penalties -----------------------------------------------------------------------------------------------


def priors(fit: Fit) -> dict[str, list[Any]]:
    """Return prior, penalty, weight, lam and prior weight of every estimated parameter, in the order of the summary."""
    model = fit.model
    sigma = fit.model.noise(fit.aux)
    p = model.shape[0]
    copies = len(model.likelihood.outcomes) or 1
    text = np.full((p, copies), "flat", dtype=object)
    penalty = np.full((p, copies), "", dtype=object)
    weight = np.zeros((p, copies))
    lam = np.full((p, copies), 0.0 if model.likelihood.least_squares else np.nan)
    for b in model.joint.blocks:
        q = len(b.columns)
        texts = _describe_column_priors(b.prior, q, sigma)
        read = in_raw_units(b.prior, sigma).as_penalty(q)
        for i, j in enumerate(b.columns):
            entries = j, slice(None) if b.predictor is None else b.predictor
            text[entries] = texts[i]
            if read is not None:
                penalty[entries], weight[entries] = (
                    f"{read.name}: {read.weight[i]:.4g} {read.form}",
                    read.weight[i],
                )
                lam[entries] += read.in_rss(sigma)[i]  # nan without an RSS
    settled, aux_weight = prior_weights(fit)
    unknown = list(fit.solution.aux)
    head = model.design.head
    return {
        "prior": text[head].T.ravel().tolist()
        + [_aux_words(model, a) for a in unknown],
        "penalty": penalty[head].T.ravel().tolist() + [""] * len(unknown),
        "weight": [*weight[head].T.ravel(), *[np.nan] * len(unknown)],
        "lam": [*lam[head].T.ravel(), *[np.nan] * len(unknown)],
        "prior_weight": [*settled.T.ravel(), *aux_weight],
    }


def in_raw_units(prior: Prior, sigma: float) -> Prior:
    """Return the same prior at this sigma, with its scale in units of the coefficient."""
    if not prior.sigma_units:
        return prior
    scaled: Any = prior.times(sigma)
    if isinstance(scaled, ScaleMixture):
        base: Any = scaled.base
        return replace(scaled, base=replace(base, sigma_units=False))
    return replace(scaled, sigma_units=False)


def _describe_column_priors(prior: Prior, q: int, sigma: float) -> list[str]:
    """Describe the prior of each of q columns as specified, and in raw units if it is in units of sigma.

    >>> _describe_column_priors(Normal(0.05, sigma_units=True), 1, 2.0), _describe_column_priors(Normal(0.05), 1, 2.0)
    (['Normal(0.05 sigma) = Normal(0.1)'], ['Normal(0.05)'])
    """
    if isinstance(prior, HierarchicalPrior) and prior.sigma_units:
        return words(
            prior, q, " sigma"
        )  # long enough without its raw scale, which is unknown anyway
    raw = words(in_raw_units(prior, sigma), q)
    if not prior.sigma_units:
        return raw
    descriptions = words(prior, q, " sigma")
    return [
        f"{prior.name} in units of sigma" if a == b else f"{a} = {b}"
        for a, b in zip(descriptions, raw)
    ]


@singledispatch
def words(prior: Prior, q: int, unit: str = "") -> list[str]:
    """Describe the prior of each of its q columns, with the unit after the scale."""
    return [prior.name] * q


@words.register
def _(prior: Flat, q: int, unit: str = "") -> list[str]:
    return ["flat"] * q


@words.register
def _(prior: Normal, q: int, unit: str = "") -> list[str]:
    if prior.precision_matrix is None:
        return _describe_affine_prior("Normal", prior, q, unit)
    sd = np.sqrt(np.diagonal(np.linalg.inv(np.array(prior.precision_matrix))))
    return _describe_affine_prior(
        "correlated Normal",
        replace(prior, precision_matrix=None, scale=tuple(sd)),
        q,
        unit,
    )


@words.register
def _(prior: LocationScale, q: int, unit: str = "") -> list[str]:
    shape_fields = [
        f
        for f in fields(prior)  # type: ignore[arg-type]
        if f.name not in ("scale", "location", "sigma_units", "scaled")
    ]
    shape = "".join(f", {f.name}={getattr(prior, f.name):g}" for f in shape_fields)
    return _describe_affine_prior(type(prior).__name__, prior, q, unit, shape)


@words.register
def _(prior: GroupLaplace, q: int, unit: str = "") -> list[str]:
    size = {int(j): len(g) for g in prior.members(q) for j in g}
    return [
        f"{w} in a group of {size[j]}" if size[j] > 1 else w
        for j, w in enumerate(_describe_affine_prior("GroupLaplace", prior, q, unit))
    ]


@words.register
def _(prior: ScaleMixture, q: int, unit: str = "") -> list[str]:
    return [
        f"{w} times tau, tau ~ {written_prior(prior.tau)}"
        for w in words(prior.base, q, unit)
    ]


@words.register
def _(prior: Horseshoe, q: int, unit: str = "") -> list[str]:
    scale = np.broadcast_to(np.asarray(prior.scale), q).tolist()
    return [
        f"Horseshoe({s:.4g}{unit}, tau={prior.tau:.4g}, slab={prior.slab:.4g})"
        for s in scale
    ]


def _describe_affine_prior(
    name: str, prior: AffinePrior, q: int, unit: str, shape: str = ""
) -> list[str]:
    centre, scale = (
        np.broadcast_to(np.asarray(v), q).tolist()
        for v in (prior.location, prior.scales)
    )
    return [
        f"{name}({s:.4g}{unit}{shape}{f', location={a:.4g}' if a else ''})"
        for a, s in zip(centre, scale)
    ]


def _aux_words(model: Model, name: str) -> str:
    prior_text = aux_prior_words(model, name)
    if name == model.likelihood.noise_scale and model.joint.sigma_units.any():
        return f"{prior_text} times p(beta | sigma)"
    return prior_text


def aux_prior_words(model: Model, name: str) -> str:
    """The prior of an unknown auxiliary parameter.

    >>> from probreg.priors import HalfNormal
    >>> aux_prior_words(Model.from_arrays([1.0, 2.0], [0.0, 1.0], aux={"sigma": HalfNormal(2.0)}), "sigma")
    'HalfNormal(2)'
    """
    if name in model.fixed:
        return f"held at {model.fixed[name]:.4g}"
    prior: Any = model.aux_prior(name)
    if isinstance(prior, Reference):
        return f"p({name}) ∝ 1/{name}"
    return written_prior(prior)


def stated_hyper(fit: Fit) -> dict[str, str]:
    """The prior of each standard deviation and correlation of effects, and of a noise scale next to them, in words."""
    model = stated_model(fit)
    has_scales = fit.solution.effect_scales is not None or bool(
        model.design.recipe.grouped
    )
    if has_scales:
        texts = {name: aux_prior_words(model, name) for name in model.unknown}
    else:
        texts = {}
    for i, prior, _ in hyper_of_blocks(model):
        for name, reported in (natural_names(model, i, prior) or {}).items():
            texts[reported] = hyper_words(prior.hyper[name].prior)
    return texts


def flat_hyper(fit: Fit) -> set[str]:
    """Return the standard deviations, correlations and nuisance parameters with the reference prior."""
    model = stated_model(fit)
    free = [name for name in model.unknown if name not in model.fixed]
    flat = {name for name in free if isinstance(model.aux_prior(name), Reference)}
    for i, prior, _ in hyper_of_blocks(model):
        for name, reported in (natural_names(model, i, prior) or {}).items():
            if isinstance(prior.hyper[name].prior, Reference):
                flat.add(reported)
    return flat


def stated_model(fit: Fit) -> Model:
    """Return the model as stated, also for a fit that fixes scales at their evidence estimates."""
    if fit.solution.effect_scales is None:
        return fit.model
    return fit.solution.effect_scales.stated


def hyper_words(prior: AuxPrior) -> str:
    """Describe the prior of a hyperparameter; a reference prior is flat on the scale of the search."""
    if isinstance(prior, Reference):
        return "flat"
    return written_prior(prior)


# ---- the weight of the prior --------------------------------------------------------------------------------------------


def prior_weights(fit: Fit) -> tuple[Array, list[float]]:
    """(P H^-1)_jj of every reported coefficient, (p, outcomes or 1), and P / H of every unknown auxiliary parameter on its
    log scale, at fixed coefficients. H = P + J, J the observed information of the likelihood, all at the estimate; a
    reported softmax coefficient is a direction, its row of the display. 0 for a flat prior; nan where it is not defined:
    at a kink, where the log prior is not concave, and for rows that are not kept."""
    model = fit.model
    s = fit.solution
    P_aux = [curvature_over_log(fit, a) for a in s.aux]
    informative = model.joint.informative
    if not informative.any() and not any(P_aux):
        return np.zeros(
            (len(model.design.head), len(model.likelihood.outcomes) or 1)
        ), [0.0] * len(P_aux)
    P, (J, J_aux) = prior_curvature_of_fit(fit), information_of_fit(fit)
    touched = np.repeat(informative, model.shape[1])
    weights = _curvature_by_outcome(
        fit, np.where(touched[:, None], P @ inverse_or_nan(P + J), 0.0)
    )
    # (p m,) bool: the log prior of the block that a coefficient belongs to curves downward, in a block of independent
    # entries the log prior of the coefficient itself.
    m = fit.solution.beta.shape[1]
    concave = np.diagonal(P) >= 0
    for b in fit.model.joint.blocks:
        entries = b.entries(m)
        part = P[np.ix_(entries, entries)]
        if np.isfinite(part).all() and (part - np.diag(np.diagonal(part))).any():
            concave[entries] = np.linalg.eigvalsh(part)[0] >= -1e-9 * np.abs(part).max()
    defined = _curvature_by_outcome(fit, np.diag(np.where(concave, 0.0, 1.0))) == 0.0
    aux_weights = [
        0.0 if a == 0 else a / (a + b) if a > 0 and a + b > 0 else np.nan
        for a, b in zip(P_aux, J_aux)
    ]
    # Weights that lie in [0, 1] but for rounding; nan for others, which a prior that correlates coefficients can give.
    inside = (weights > -1e-9) & (weights < 1.0 + 1e-9)
    proportion = np.where(inside, np.clip(weights, 0.0, 1.0), np.nan)
    informed = informative[model.design.head]
    return np.where(
        informed[:, None], np.where(defined, proportion, np.nan), 0.0
    ), aux_weights


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


def prior_curvature_of_fit(fit: Fit) -> Array:
    """P, the negative Hessian of log p(beta) at the estimate, (p m, p m) over vec(beta): nan where it does not exist, at a
    kink, and for a fit without its rows."""
    beta = fit.solution.beta
    sigma = fit.model.noise(fit.aux)
    P = np.zeros((beta.size, beta.size))
    if rowless(fit):
        return np.full(P.shape, np.nan)
    for b in fit.model.joint.blocks:
        entries = b.entries(beta.shape[1])
        unit = sigma if b.prior.sigma_units else 1.0
        P[np.ix_(entries, entries)] = _prior_curvature(b.prior, b.take(beta), unit)
    return P


def _prior_curvature(prior: Prior, beta: Array, unit: float) -> Array:
    """Return the negative Hessian of log p of a block (q, m), negative in the tails of a Student-t, which are convex."""
    if isinstance(prior, SmoothPrior):
        return prior.derivatives(beta, unit)[1]
    return np.diag(np.full(beta.size, np.nan))


def information_of_fit(fit: Fit) -> tuple[Array, Array]:
    """Observed information of the likelihood at the estimate: J over vec(beta), (p m, p m), and the diagonal over log
    aux. From the moments of a Gaussian model, else from the rows; nan for a fit without them."""
    model = fit.model
    s = fit.solution
    k = s.beta.size
    if model.likelihood.least_squares:
        F = np.asarray(model.design.moments.factor, dtype=float)
        sigma = fit.aux[model.noise_scale]
        return F[:, :k].T @ F[:, :k] / sigma**2, np.full(
            len(s.aux), 2.0 * rss_at(fit) / sigma**2
        )
    if rowless(fit) or not isinstance(model.likelihood, SmoothLikelihood):
        return np.full((k, k), np.nan), np.full(len(s.aux), np.nan)
    H = (
        replace(model, prior=Flat(), aux=model.fixed)
        .value_grad_hessian(s.beta, **s.aux)
        .curvature
    )
    return H[:k, :k], np.diagonal(H)[k:]


def rss_at(fit: Fit) -> float:
    """||y - X beta||^2 at the estimate of a Gaussian model, from its moments."""
    F = np.asarray(fit.model.design.moments.factor, dtype=float)
    return float(np.square(F @ np.append(fit.solution.beta[:, 0], -1.0)).sum())


def kinked_columns(model: Model) -> set[str]:
    """Return the columns with a prior that has a kink, and no curvature there.

    >>> from probreg.priors import Laplace
    >>> kinked_columns(Model.from_arrays([[1.0], [2.0]], [0.0, 1.0], columns=["x"], prior=Laplace(1.0)))
    {'x'}
    """
    blocks = [b for b in model.joint.blocks if isinstance(b.prior, ProximalPrior)]
    return {model.design.columns[j] for b in blocks for j in b.columns}


def rowless(fit: Fit) -> bool:
    """Return whether sums over the rows are impossible and no moments replace them."""
    return not fit.model.design.reachable and not fit.model.likelihood.least_squares


def _curvature_by_outcome(fit: Fit, matrix: Array) -> Array:
    """Return d'M_jj d / d'd for each column j and direction d of a reported coefficient, (p, outcomes or 1)."""
    length = np.square(fit.model.likelihood.contrast_matrix).sum(1)
    return (
        np.diagonal(reported_matrix(fit.model, matrix)).reshape(-1, len(length))
        / length
    )


def inverse_or_nan(H: Array) -> Array:
    """Return H^-1, computed with unit diagonal; nan if H is not positive definite."""
    d = np.sqrt(np.abs(np.diagonal(H)))
    if (d > 0).all():
        scaled = H / np.outer(d, d)
    else:
        scaled = np.full(H.shape, np.nan)
    if not np.isfinite(scaled).all() or np.linalg.eigvalsh(scaled)[0] < 1e-13:
        return np.full(H.shape, np.nan)
    return np.linalg.inv(scaled) / np.outer(d, d)


# ---- the spelling of scikit-learn --------------------------------------------------------------------------------------


def sklearn_estimator(fit: Fit) -> str:
    """Return the scikit-learn estimator with its minimum at the mode of this model, "" if there is none.

    The conditions are one scale for all columns, location 0, the intercept free, and sigma
    determined (given, cancelled by a prior in its units, or at its mode).
    """
    model = fit.model
    relative = bool(model.joint.sigma_units.any())
    settled = (
        not model.unknown or fit.target == "mode" or (model.joint.gaussian and relative)
    )
    symmetric = (
        isinstance(model.likelihood, SoftmaxLikelihood) and model.likelihood.symmetric
    )
    served = isinstance(model.likelihood, Gaussian | Bernoulli | Poisson) or symmetric
    if (
        model.design.offset is not None
        or number_of_observations(fit) is None
        or not (served and settled)
    ):
        return ""
    try:
        penalty = model.penalty(sigma=fit.model.noise(fit.aux, None))
    except (DataError, Incompatible):
        return ""
    calls = [row.call for row in penalty.rows if row.package == "sklearn"]
    if isinstance(model.likelihood, OfTrials):
        for_trials = " of a row for each trial"
    else:
        for_trials = ""
    weighted = model.design.weights is not None or model.design.precision is not None
    if calls:
        return calls[0] + for_trials + " with sample_weight" * weighted
    return ""
