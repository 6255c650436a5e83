"""Paths of Gaussian models: ridge by one singular value decomposition, the lasso and its kin by warm-started descent.

Along a lasso path a coefficient stays out of the next mode when its correlation with the residuals is below twice the new
weight less the old one (the sequential strong rule, Tibshirani et al. 2012); those left out by mistake are found by the
certificate, which is computed over all columns at every scale.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular, svd

from probreg.inference.base import Array, Status
from probreg.inference.modes.partialled_out import PartialledOut, partial_out
from probreg.inference.penalized.coordinate_descent import Joint, Lasso, solve_joint
from probreg.inference.penalized.nonsmooth import NonsmoothTerms
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread, triangular


class Step(NamedTuple):
    """The mode at one scale."""

    beta: Array  # (p, m)
    aux: dict[str, float]
    log_lik: float
    kkt: float
    gap: float
    df: float
    status: Status


def ridge_steps(model: Model, scales: Array) -> list[Step]:
    """Modes under normal priors; sigma is held, or every prior is in its units.

    With P = L L' the precision and U L'^-1 = W D V' what is left of the columns: beta = center + L'^-1 V D (D^2 + k)^-1 W'v,
    k = sigma^2 / s^2 (1 / s^2 where the prior is in units of sigma).
    """
    parts, sigma = partial_out(model), model.noise_held
    at, center = parts.columns, model.joint.center[parts.columns]
    L = np.linalg.cholesky(model.joint.precision(1.0 if sigma is None else sigma)[np.ix_(at, at)])
    U, v = parts.rows()
    F = triangular(U, v - U @ center).astype(float)
    W, d, Vt = svd(solve_triangular(L, F[:-1, :-1].T, lower=True).T)
    t = W.T @ F[:-1, -1]
    beyond = float(F[-1, -1] ** 2 + t @ t)
    out = []
    for s in scales:
        k = (1.0 if sigma is None else sigma**2) / s**2
        share = d / (d * d + k)
        b = center + solve_triangular(L, Vt.T @ (share * t), lower=True, trans="T")
        rss = beyond - float(t @ t) + float(((k / (d * d + k) * t) ** 2).sum())
        penalty = k * float(((share * t) ** 2).sum())
        noise = float(np.sqrt((rss + penalty) / (parts.weight + len(at)))) if sigma is None else sigma
        aux = {model.noise_scale: noise} if sigma is None else {}
        log_lik = _log_lik(parts.weight, rss, noise)
        df = float((d * share).sum()) + len(parts.flat)
        out.append(Step(parts.beta(b)[:, None], aux, log_lik, 0.0, np.nan, df, Status.EXACT))
    return out


def lasso_steps(model: Model, scales: Array, tol: float) -> list[Step]:
    """Modes under Laplace, elastic-net and normal priors, from the strongest prior to the weakest."""
    base, out = Lasso.of(model), []
    r, sigma = np.zeros(len(base.c)), None
    before: tuple[Array, Array] | None = None  # correlations with the residuals, and weights
    nonsmooth = NonsmoothTerms.of(model)
    for s in scales:
        w = base.weights
        lasso = replace(base, weights=w._replace(l1=w.l1 / s, l2=w.l2 / s**2))
        about = sigma if sigma is not None else model.noise(default=float(np.sqrt(base.yy / base.parts.weight)))
        weight = lasso.weights.at(about, base.parts.norm).weight
        hint = np.abs(base.c if before is None else before[0]) >= 2 * weight - (weight if before is None else before[1])
        with one_blas_thread():
            found = solve_joint(lasso, model, r, sigma=sigma, tol=tol, hint=hint)
        r, sigma = found.given.r, found.sigma if model.unknown else None
        before = found.given.gradient, lasso.weights.at(found.sigma, base.parts.norm).weight
        aux = {} if sigma is None else {model.noise_scale: sigma}
        status = (
            Status.CONVERGED
            if found.kkt <= max(tol, 1e-12 * float(np.sqrt(lasso.yy)) / found.sigma)
            else Status.STEP_LIMIT
        )
        log_lik = _log_lik(base.parts.weight, found.given.rss, found.sigma)
        df = _degrees(lasso, found, nonsmooth)
        out.append(Step(lasso.beta(r), aux, log_lik, found.kkt, found.given.gap, df, status))
    return out


def _log_lik(weight: float, rss: float, sigma: float) -> float:
    return float(-0.5 * weight * np.log(2 * np.pi * sigma**2) - 0.5 * rss / sigma**2)


def _degrees(lasso: Lasso, found: Joint, nonsmooth: NonsmoothTerms) -> float:
    """trace(G (G + ridge)^-1) over the coefficients off their kinks, and the flat columns."""
    parts: PartialledOut = lasso.parts
    penalty = lasso.weights.at(found.sigma, parts.norm)
    free = np.flatnonzero((found.given.r != 0) | (penalty.weight == 0))
    if not penalty.ridge[free].any():
        return float(len(free) + len(parts.flat))
    G = parts.gram.among(free)
    root = np.linalg.cholesky(G + np.diag(penalty.ridge[free] + 1e-14))
    return float(
        len(free) - penalty.ridge[free] @ np.diagonal(cho_solve((root, True), np.eye(len(G)))) + len(parts.flat)
    )
