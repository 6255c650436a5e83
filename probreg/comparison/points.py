"""A log posterior about an estimate: gradient and curvature of its terms, the step to its mode, the errors there.

At x = (vec beta, log aux) with gradient g and negative Hessian H the mode is near x + H^-1 g, and sqrt diag H^-1 are the
errors of a normal approximation. A reader of two fits asks this of either model at either estimate; nothing is fitted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.comparison.numbers import by_outcome
from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients, reported_scale_matrix
from probreg.inference import Status
from probreg.likelihoods import SmoothLikelihood
from probreg.model import likelihood_sums as sums
from probreg.model.model import Model
from probreg.priors import Flat

Array = np.ndarray
_FAR = 3.0  # a step of log aux is cut here: a factor of 20


class TermDerivatives(NamedTuple):
    """Gradient and negative Hessian over (vec beta, log aux) of one term of a log posterior."""

    g: Array  # (k,)
    H: Array  # (k, k)


@dataclass(frozen=True, eq=False)
class PosteriorPoint:
    """A place (beta, aux) with the terms of one model's log posterior there; None for a term without derivatives."""

    model: Model
    beta: Array  # (p, m)
    aux: Mapping[str, float]
    likelihood: TermDerivatives
    prior: TermDerivatives | None  # of the coefficients
    aux_prior: TermDerivatives

    @property
    def gradient(self) -> Array | None:
        return None if self.prior is None else self.likelihood.g + self.prior.g + self.aux_prior.g

    @property
    def curvature(self) -> Array | None:
        return None if self.prior is None else self.likelihood.H + self.prior.H + self.aux_prior.H

    @cached_property
    def mode_step(self) -> Array | None:
        """H^-1 g, the step from here to the mode; None unless H is positive definite."""
        return None if self.gradient is None else solved(self.curvature, self.gradient)


def point_of(fit: Fit) -> PosteriorPoint | None:
    """The estimate of a fit with its own model; None without derivatives or without an estimate."""
    gone = fit.solution.status is Status.NO_MAXIMUM or (
        fit.solution.not_estimable is not None and fit.solution.not_estimable.any()
    )
    return None if gone else terms_at(fit.model, fit.solution.beta, fit.solution.aux)


def terms_at(
    model: Model, beta: Array, aux: Mapping[str, float], like: PosteriorPoint | None = None
) -> PosteriorPoint | None:
    """The terms of a model at (beta, aux); `like` has the likelihood's there, where it is the same likelihood."""
    known = {**model.fixed, **{a: aux[a] for a in model.unknown if a in aux}}
    if len(known) < len(model.likelihood.aux) or not (np.isfinite(beta).all() and all(v > 0 for v in known.values())):
        return None
    same = like is not None and like.model.likelihood == model.likelihood and like.model.unknown == model.unknown
    same = same and like is not None and {**like.model.fixed, **like.aux} == known
    terms = like.likelihood if same and like is not None else _likelihood(model, beta, known)
    if terms is None or not (np.isfinite(terms.g).all() and np.isfinite(terms.H).all()):
        return None
    return PosteriorPoint(
        model, beta, {a: known[a] for a in model.unknown}, terms, _prior(model, beta, known), _aux(model, known)
    )


def _likelihood(model: Model, beta: Array, known: Mapping[str, float]) -> TermDerivatives | None:
    k, a = beta.size, len(model.unknown)
    if model.likelihood.least_squares:
        # H over (vec beta, u), u = log aux: J_beta,beta and J_beta,u above J_u,beta and J_u,u.
        found = sums.of_moments(model.design.moments, beta, np.eye(len(beta)), known[model.noise_scale], bool(a))
        _, g, slope, J, cross, J_aux = found
        H = np.zeros((k + a, k + a))
        H[:k, :k], H[k:, k:] = J, J_aux
        H[:k, k:] = cross.reshape(k, -1)
        H[k:, :k] = H[:k, k:].T
        return TermDerivatives(np.concatenate([g.ravel(), slope]), H)
    if not (model.design.reachable and isinstance(model.likelihood, SmoothLikelihood)):
        return None
    flat = replace(model, prior=Flat(), aux=model.fixed)  # p(aux) ∝ 1/aux is flat over log aux
    local = flat.value_grad_hessian(beta, **{name: known[name] for name in model.unknown})
    return TermDerivatives(local.gradient, local.curvature)


def _prior(model: Model, beta: Array, known: Mapping[str, float]) -> TermDerivatives | None:
    """Of p(beta | sigma), over log sigma too where sigma is unknown."""
    k, a = beta.size, len(model.unknown)
    if not model.joint.informative.any():
        return TermDerivatives(np.zeros(k + a), np.zeros((k + a, k + a)))
    if not model.joint.smooth:
        return None
    _, g, H = model.joint.value_grad_hessian(beta, model.likelihood.noise(known))
    size = k + int(model.noise_unknown)
    out = TermDerivatives(np.zeros(k + a), np.zeros((k + a, k + a)))
    # log p(beta | sigma) moves with vec beta and log sigma; no other log aux has a part in it.
    here = [*range(k), *(k + i for i, name in enumerate(model.unknown) if name == model.likelihood.noise_scale)]
    out.g[here] = g[:size]
    out.H[np.ix_(here, here)] = H[:size, :size]
    return out


def _aux(model: Model, known: Mapping[str, float]) -> TermDerivatives:
    k = model.shape[0] * model.shape[1]
    size = k + len(model.unknown)
    g, H = np.zeros(size), np.zeros((size, size))
    for i, name in enumerate(model.unknown):
        # p(aux) as a density of u = log aux: log p(aux) + u, its slope over u and minus its second derivative.
        g[k + i], hessian = model.aux_prior(name).slopes(known[name])
        H[k + i, k + i] = -hessian
    return TermDerivatives(g, H)


def solved(H: Array | None, g: Array) -> Array | None:
    """H^-1 g, by way of unit diagonal; None unless H is positive definite."""
    inverse = _inverse(H)
    return None if inverse is None else inverse @ g


def _inverse(H: Array | None) -> Array | None:
    if H is None or not np.isfinite(H).all() or not (np.diagonal(H) > 0).all():
        return None
    d = np.sqrt(np.diagonal(H))
    scaled = H / np.outer(d, d)
    if np.linalg.eigvalsh(scaled)[0] < 1e-12:
        return None
    # H^-1 = D^-1 (D^-1 H D^-1)^-1 D^-1, D = diag(H)^(1/2).
    return np.linalg.inv(scaled) / np.outer(d, d)


def errors(point: PosteriorPoint | None, params: tuple[str, ...]) -> Array:
    """sqrt diag H^-1 for every parameter of the table, sigma on its own scale; nan where there is none."""
    inverse = None if point is None else _inverse(point.curvature)
    if point is None or inverse is None:
        return np.full(len(params), np.nan)
    k = point.beta.size
    # cov(vec beta) = the leading block of H^-1; sd(aux) = aux sd(log aux).
    coef = by_outcome(point.model, np.sqrt(np.diagonal(reported_scale_matrix(point.model, inverse[:k, :k]))))
    more = {a: v * np.sqrt(inverse[k + i, k + i]) for i, (a, v) in enumerate(point.aux.items())}
    return _in_table(coef, more, params)


def moved(point: PosteriorPoint, step: Array | None, params: tuple[str, ...]) -> Array:
    """A step over (vec beta, log aux) in the units of the table."""
    if step is None:
        return np.full(len(params), np.nan)
    k = point.beta.size
    coef = by_outcome(point.model, reported_coefficients(point.model, step[:k].reshape(point.beta.shape)).ravel())
    cut = np.clip(step[k:], -_FAR, _FAR)
    # aux exp(step) - aux, for a step of log aux.
    more = {a: v * float(np.expm1(cut[i])) for i, (a, v) in enumerate(point.aux.items())}
    return _in_table(coef, more, params)


def _in_table(coef: Array, more: Mapping[str, float], params: tuple[str, ...]) -> Array:
    out = np.full(len(params), np.nan)
    out[: len(coef)] = coef
    for name, value in more.items():
        out[params.index(name)] = value
    return out
