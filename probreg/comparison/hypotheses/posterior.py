"""What a posterior says of linear restrictions: the probability of an inequality, and how far an equality lies out."""

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtr, fdtr, gammaln, ndtr, stdtr

from probreg.fits.fit import Fit
from probreg.fits.inference_data import reported_coefficients
from probreg.inference.base import reported_marginals
from probreg.priors import InverseGamma

Array = np.ndarray


@dataclass(frozen=True)
class Belief:
    """A posterior probability, or a level of a credible region, and its Monte Carlo standard error (0 where exact)."""

    name: str
    value: float
    mcse: float
    how: str


def has_exact_law(fit: Fit) -> bool:
    """Linear combinations of the coefficients are Student-t or normal by a formula."""
    return fit.model.likelihood.least_squares and fit.solution.posterior.elliptical


def _own(fit: Fit, L: Array) -> Array:
    """Combinations of reported coefficients as those of all columns, of one predictor."""
    out = np.zeros((len(L), fit.model.shape[0]))
    out[:, fit.model.design.head] = L
    return out


def combinations_drawn(fit: Fit, L: Array) -> Array:
    """L beta of the reported coefficients, draw by draw, (chain, draw, q)."""
    beta = reported_coefficients(fit.model, fit.solution.posterior["beta"])
    return beta.reshape(*beta.shape[:2], -1) @ L.T


def of_inequalities(fit: Fit, L: Array, r: Array, sign: Array) -> Belief:
    """P(sign (L beta - r) > 0 for all rows)."""
    if has_exact_law(fit) and len(r) == 1:
        s, row = fit.solution, _own(fit, L)[0]
        t = float(sign[0] * (row @ s.beta.ravel() - r[0]) / np.sqrt(row @ s.scale @ row))
        return Belief("P(hypothesis)", float(ndtr(t) if s.df is None else stdtr(s.df, t)), 0.0, "exact")
    own, m = np.flatnonzero(L[0]), reported_marginals(fit.model, fit.solution.posterior)
    if len(r) == 1 and len(own) == 1 and m is not None:
        # sum_k w_k Phi(sign (c mean_k - r) / (|c| sd_k)) of one coefficient, a mixture of normals
        j, c = own[0], L[0, own[0]]
        gap = sign[0] * (c * m["mean"].reshape(len(m["weight"]), -1)[:, j] - r[0])
        value = m["weight"] @ ndtr(gap / (abs(c) * m["sd"].reshape(len(m["weight"]), -1)[:, j]))
        return Belief("P(hypothesis)", float(value), 0.0, "exact")
    met = ((combinations_drawn(fit, L) - r) * sign > 0).all(-1)
    return Belief("P(hypothesis)", float(met.mean()), error_of_draws(met.astype(float)), f"share of {met.size} draws")


def of_equalities(fit: Fit, L: Array, r: Array) -> Belief:
    """The level of the smallest credible region, of the usual shape, that reaches L beta = r.

    One restriction: the equal-tailed interval that ends there. Several: the ellipse of the posterior covariance through it,
    its level the share of draws inside. With a Student-t posterior by formula both are exact, and 1 - level is then the p
    value of the F test when the prior is flat.
    """
    s, q = fit.solution, len(r)
    name = "credible level that reaches the null"
    if has_exact_law(fit):
        own = _own(fit, L)
        gap = own @ s.beta.ravel() - r
        W = float(gap @ np.linalg.solve(own @ s.scale @ own.T, gap))
        level = float(chdtr(q, W) if s.df is None else fdtr(q, s.df, W / q))
        return Belief(name, level, 0.0, "exact, the region of highest density")
    theta = combinations_drawn(fit, L)
    if q == 1:
        above = (theta[..., 0] > r[0]).astype(float)
        level = abs(1.0 - 2.0 * float(above.mean()))
        return Belief(name, level, 2.0 * error_of_draws(above), f"equal-tailed interval, from {above.size} draws")
    flat = theta.reshape(-1, q)
    centre, V = flat.mean(0), np.cov(flat.T)
    reach = float((centre - r) @ np.linalg.solve(V, centre - r))
    inside = (((theta - centre) @ np.linalg.inv(V)) * (theta - centre)).sum(-1) < reach
    how = f"ellipse of the posterior covariance, from {inside.size} draws"
    return Belief(name, float(inside.mean()), error_of_draws(inside.astype(float)), how)


def error_of_draws(values: Array) -> float:
    """Standard error of a mean of draws (chain, draw), by their effective number; a bound where all agree."""
    from arviz_stats.base import array_stats

    p = float(values.mean())
    if p in (0.0, 1.0):
        return 1.0 / values.size
    return float(np.sqrt(p * (1.0 - p) / array_stats.ess(values, method="mean")))


# ---- the Bayes factor of an equality -----------------------------------------------------------------------------------


def savage_dickey(fit: Fit, L: Array, r: Array) -> float | None:
    """log p(L beta = r | y) - log p(L beta = r): the log Bayes factor of the equality against the model that does not hold
    it, where both densities are known exactly; None elsewhere (Dickey 1971). The restricted model has the prior of the
    other parameters given L beta = r."""
    model, s = fit.model, fit.solution
    if not has_exact_law(fit) or not model.joint.gaussian:
        return None
    involved = np.abs(L).max(0) > 0
    own = np.flatnonzero(model.joint.informative)
    if not set(np.flatnonzero(involved)) <= set(own):
        return None
    V = np.zeros((len(involved), len(involved)))
    unknown = bool(model.unknown)
    V[np.ix_(own, own)] = np.linalg.inv(model.joint.precision(model.noise())[np.ix_(own, own)])
    df: float | None = None
    if unknown:
        prior = model.noise_prior
        if not isinstance(prior, InverseGamma) or not model.joint.sigma_units[own].all():
            return None
        df, V = 2.0 * prior.shape, V * prior.scale / prior.shape
    after = _log_density(r, L @ s.beta.ravel(), L @ s.scale @ L.T, s.df)
    return after - _log_density(r, L @ model.joint.center, L @ V @ L.T, df)


def _log_density(x: Array, centre: Array, scale: Array, df: float | None) -> float:
    """Of a normal, or of a Student-t on df degrees of freedom, in len(x) dimensions."""
    q, d = len(x), x - centre
    W = float(d @ np.linalg.solve(scale, d))
    root = 0.5 * float(np.linalg.slogdet(scale)[1])
    if df is None:
        return -0.5 * (q * np.log(2.0 * np.pi) + W) - root
    top = float(gammaln((df + q) / 2) - gammaln(df / 2)) - 0.5 * q * np.log(df * np.pi)
    return top - root - 0.5 * (df + q) * np.log1p(W / df)
