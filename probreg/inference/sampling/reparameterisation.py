"""Coordinates in which a posterior is nearly round, so that a sampler takes long steps
after a short warm-up."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import gammaln

from probreg.inference.base import Array, Status
from probreg.inference.covariance import root_of_curvature
from probreg.inference.modes.closed_form import (
    Conditional,
    PriorRows,
    posterior_given_sigma,
)
from probreg.inference.penalized.piecewise_linear import any_mode
from probreg.likelihoods import ProximalLikelihood
from probreg.linalg import factor_of, merge
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model.model import Model
from probreg.priors import (
    ExponentialPower,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    Normal,
    Prior,
    WholePrior,
)
from probreg.priors.joint import mapping_of

_STEPS = 14  # Newton steps, after which the mode is too far away for its curvature to describe the posterior


@dataclass(frozen=True, eq=False)
class Reparameterisation:
    """(vec beta, log aux) = centre + A z."""

    centre: Array  # (p m + a,)
    A: Array  # (p m + a, k)
    whitened: bool  # z is nearly standard normal
    note: str


def whiten(model: Model) -> Reparameterisation:
    """Return coordinates whitened by the curvature at the mode if there is one, else the
    standardised columns."""
    if model.likelihood.least_squares:
        whitened = _by_moments(model)
    else:
        whitened = _by_mode(model)
    if whitened is not None:
        return whitened
    T = map_of_columns(model.design.frame.T, model.shape[1])
    a = len(model.unknown)
    # No curvature for whitening: beta = T gamma, one z for each entry of gamma and each
    # log aux.
    start: Mapping[str, float] = {}
    if a and model.design.n:
        start = model.likelihood.initial_eta(model.design.observed)[1]
    log_aux = [np.log(start.get(name, 1.0)) for name in model.unknown]
    note = f"sampled on standardised columns: no mode found for whitening in {_STEPS} steps"
    return Reparameterisation(
        np.r_[np.zeros(len(T)), log_aux], with_aux(T, a), False, note
    )


def _by_mode(model: Model) -> Reparameterisation | None:
    """Return the normal at the mode over (vec beta, log aux); None if no mode is
    near."""
    kinked = isinstance(
        model.likelihood, ProximalLikelihood
    )  # its steps would be those of an interior point
    if kinked:
        smooth = model.joint.gaussian
    else:
        smooth = model.joint.smooth
    mode = any_mode(
        model if smooth else replace(model, prior=proxy_prior(model)), tol=1e-4
    )
    root = root_of_curvature(mode.local.curvature)
    if (
        mode.status is not Status.CONVERGED
        or (mode.steps > _STEPS and not kinked)
        or root is None
    ):
        return None
    T = with_aux(
        map_of_columns(model.design.frame.T, model.shape[1]), len(mode.log_aux)
    )
    # (beta, log aux) = T (gamma, log aux), H^-1 = K K' = L L' at the mode: A = T L, so that A A' = cov(beta, log aux).
    centre = T @ np.r_[mode.gamma.ravel(), mode.log_aux]
    note = "sampled in coordinates whitened by the curvature at the mode"
    A = T @ np.asarray(factor_of(root.T)).T
    return Reparameterisation(centre, A, True, note)


def _by_moments(model: Model) -> Reparameterisation | None:
    """Return the normal of beta at a sigma near the posterior's, and an independent log
    sigma with sd 1 / sqrt(2 n)."""
    normal_model = replace(model, prior=proxy_prior(model))
    sigma = rough_sigma(model)
    moments = model.design.moments
    posterior = posterior_given_sigma(
        moments, PriorRows.of(normal_model.joint), float(sigma)
    )
    if posterior.rank.dropped:
        return None
    root = sigma * np.asarray(posterior.root, dtype=float)
    a = len(model.unknown)
    A = np.zeros((len(root) + a, root.shape[1] + a))
    # beta | sigma ~ N(mean, sigma^2 root root'); log sigma has the standard deviation (2 n)^(-1/2) of its Fisher information.
    A[: len(root), : root.shape[1]] = root
    A[len(root) :, root.shape[1] :] = np.eye(a) / np.sqrt(
        2.0 * max(moments.weight, 1.0)
    )
    note = "sampled on the sufficient statistics of the rows, in whitened coordinates"
    centre = np.r_[posterior.mean, np.full(a, np.log(sigma))]
    return Reparameterisation(centre, A, True, note)


def rough_sigma(model: Model) -> float:
    """Return a sigma near the posterior's: the residual standard deviation, or a value
    from the prior if there are no residuals."""
    if model.noise_held is not None:
        return model.noise_held
    m = model.design.moments
    spare = max(m.weight - m.rank.rank, 1)
    rounding = np.finfo(float).eps * np.sqrt(np.square(m.factor[:, -1]).sum())
    if m.rss > max(1e-12 * m.y_scale**2, rounding**2):
        return float(np.sqrt(m.rss / spare))
    relative = PriorRows.of(replace(model, prior=proxy_prior(model)).joint).relative
    if len(relative):  # the distance from a prior in units of sigma is a residual too
        rss = Conditional(merge(m.factor, relative)).rss
        return float(np.sqrt(max(rss, 1e-12 * m.y_scale**2) / spare)) or 1.0
    # The columns reproduce the response, so the density of log sigma is p(sigma)
    # sigma^-(n - rank): its maximum, among
    # values from 1e-12 to 1e12 in steps of 12 %.
    grid = np.geomspace(1e-12, 1e12, 500)
    with np.errstate(divide="ignore", over="ignore"):
        log_p = model.noise_prior.log_prob(grid) + (1.0 - spare) * np.log(grid)
    return float(grid[np.argmax(log_p)])


# ---- normal priors in place of others ----------------------------------------------------------------------------------


def proxy_prior(model: Model) -> Any:
    """Return normal priors of the same centre and scale in place of others, with
    hyperparameters of one."""
    normal = [replace(b, prior=_normal(b.prior)) for b in model.joint.blocks]
    return mapping_of(normal, model.design.columns)


def _normal(prior: Prior) -> Prior:
    if isinstance(prior, Flat | GaussianPrior | WholePrior):
        return prior
    if isinstance(prior, HierarchicalPrior):
        ones = dict.fromkeys(prior.hyper, 1.0)
        return _normal(prior.base.times(prior.spread(**ones)))
    this: Any = prior
    factor = 1.0
    # Var(r) = Gamma(3/q) / Gamma(1/q) for p(r) proportional to exp(-|r|^q).
    if isinstance(
        prior, ExponentialPower
    ):  # its standard deviation, far from its scale for small q
        factor = float(np.exp(0.5 * (gammaln(3.0 / prior.q) - gammaln(1.0 / prior.q))))
    scale: Any = np.asarray(this.scale) * factor
    return Normal(scale, location=this.location, sigma_units=this.sigma_units)
