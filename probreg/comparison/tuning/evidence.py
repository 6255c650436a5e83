"""log p(y | scale): the coefficients, and sigma where it is unknown, integrated out.

Columns with a flat prior count with density 1, and p(sigma) = 1/sigma without a constant. These constants are the same at every
scale, so the evidence of such a model is comparable along its path only.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    Request,
    estimated_aux_at,
    found_modes,
)
from probreg.inference import PathSolution
from probreg.inference.penalized.ridge_modes import RidgeModes
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model
from probreg.model.off_span import variance_left_at_rows
from probreg.priors import InverseGamma, Reference


def has_closed_evidence(model: Model) -> bool:
    """Return whether the evidence has a closed form: Gaussian, normal priors, and sigma fixed or unknown with all priors in its units."""
    if not model.likelihood.least_squares or not model.joint.gaussian:
        return False
    if not model.unknown:
        return True
    in_sigma_units = not (model.joint.informative & ~model.joint.sigma_units).any()
    return in_sigma_units and isinstance(model.noise_prior, Reference | InverseGamma)


def log_evidence(model: Model) -> float:
    """log p(y) in closed form, flat columns with density 1; nan where flat columns are not identified.

    For a process with a basis of few anchors it is Titsias' lower bound.

    >>> from probreg.priors import Normal
    >>> model = Model.from_arrays([0.0, 1.0], [0.0, 3.0], intercept=False, prior=Normal(2.0), aux={"sigma": 1.0})
    >>> round(log_evidence(model), 6)  # N(0; 0, 1) N(3; 0, 1 + 4)
    -3.542596
    """
    return float(log_evidence_at(RidgeModes.of(model, np.ones(1)), np.ones(1))[0])


def log_evidence_at(ridge: RidgeModes, scales: Array) -> Array:
    """The same (L,) with every scale of the prior multiplied by each of `scales`."""
    if ridge.deficient:
        return np.full(len(scales), np.nan)
    model = ridge.model
    rss = ridge.penalised_rss(scales)
    # beta integrated out: p(y | sigma) = prod w_i^(1/2) (2 pi sigma^2)^(-(n - f)/2) |P|^(1/2) / |R| exp(-RSS_P / (2 sigma^2)),
    # f the flat columns, n the observations, w the precisions of the rows.
    power = model.design.total - len(ridge.flat)
    value = (
        0.5 * model.design.log_precision
        + ridge.log_integral(scales)
        - 0.5 * power * np.log(2.0 * np.pi)
        - ridge.bound(scales)
    )
    if not model.unknown:
        sigma = model.fixed[model.noise_scale]
        return value - power * np.log(sigma) - rss / (2.0 * sigma**2)
    a0, b0, constant = 0.0, 0.0, -np.log(2.0)
    prior = model.noise_prior
    if isinstance(prior, InverseGamma):
        a0, b0 = prior.shape, prior.scale
        constant = a0 * np.log(b0) - gammaln(a0)
    # sigma^2 ~ InvGamma(a0, b0): with a = a0 + (n - f)/2 and b = b0 + RSS_P/2 the rest is exp(constant) Gamma(a) b^-a
    # (O'Hagan & Forster 2004, chapter 11).
    a = a0 + power / 2.0
    b = b0 + rss / 2.0
    if a <= 0:
        return np.full(len(scales), np.nan)
    return value + constant + gammaln(a) - a * np.log(np.where(b > 0, b, np.nan))


def laplace_evidence(model: Model, beta: Array, aux: dict[str, float]) -> float:
    """log p at the mode over (beta, log aux) + (d/2) log 2 pi - log |H| / 2 (Tierney & Kadane 1986)."""
    expansion = model.value_grad_hessian_standardised(
        model.design.frame.from_raw(beta), **aux
    )
    # log p(y) ~ log p(y, mode) + d/2 log 2 pi - 1/2 log |H| over (gamma, log aux), and d beta = |T|^m d gamma.
    sign, log_det = np.linalg.slogdet(expansion.curvature)
    log_scale = model.shape[1] * float(np.linalg.slogdet(model.design.frame.T)[1])
    # of a Gaussian model through a basis of few anchors: less tau^2 trace(K - Q) / (2 sigma^2), sigma at the mode
    sigma = model.noise(aux)
    blocks = model.joint.blocks
    if model.likelihood.least_squares:
        variances = variance_left_at_rows(model)
    else:
        variances = {}
    bound = 0.5 * sum(
        v if blocks[i].prior.sigma_units else v / sigma**2 for i, v in variances.items()
    )
    value = (
        expansion.value
        + 0.5 * (len(expansion.gradient) * np.log(2.0 * np.pi) - log_det)
        + log_scale
        - bound
    )
    return float(value) if sign > 0 else float("nan")


@CRITERIA.register
@dataclass(frozen=True)
class EvidenceCriterion(Criterion):
    """-log p(y | scale), in nats: type-II maximum likelihood over the scale (MacKay 1992).

    It uses the closed form if there is one, otherwise the Laplace approximation, with a note.
    """

    name = "evidence"

    def obstacle(self, model: Model) -> str | None:
        if has_closed_evidence(model) or (
            isinstance(model.likelihood, SmoothLikelihood) and model.joint.smooth
        ):
            return None
        return "evidence is closed form or a Laplace approximation, and a prior with a kink has neither: use cv or loo"

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        model = path.base
        if has_closed_evidence(model):
            value = evidence_along(path)
            how = "in closed form"
        else:
            value = np.full(len(path.scales), np.nan)
            for i in np.flatnonzero(found_modes(path)).tolist():
                aux = estimated_aux_at(path, i)
                value[i] = laplace_evidence(path.model(i), path.beta[i], aux)
            how = "by the Laplace approximation about each mode"
        over = " and sigma" if model.unknown else ""
        notes: tuple[str, ...] = ()
        if not model.joint.informative.all():
            notes = (
                "columns with a flat prior count with density 1: the evidence compares scales, not models",
            )
        bound = ""
        if model.likelihood.least_squares and variance_left_at_rows(model):
            bound = " (its lower bound for a basis of few anchors)"
        description = f"the negative log evidence -log p(y | scale){bound}, coefficients{over} integrated out {how}"
        columns = {"log_evidence": value}
        return Assessment(-value, description, columns=columns, notes=notes)


def evidence_along(path: PathSolution) -> Array:
    """log p(y | scale) (S,) in closed form, from the decomposition that all scales of a path share; nan if there is no mode."""
    ridge = path.ridge or RidgeModes.of(path.base, path.scales)
    return np.where(found_modes(path), log_evidence_at(ridge, path.scales), np.nan)
