"""The quadratic approximation of a log posterior at its estimate, row by row, for deletion formulas.

With coordinates phi of the coefficients in which the curvature of the log posterior is I at the estimate of a fit,
eta = eta_0 + Z phi. W_i is the Fisher information of row i over its m linear predictors, s_i the score there, P the share of
the prior in the curvature, and A = sum_i w_i Z_i' W_i Z_i + P. One observation of row i has

    u_i = L_i^-1 s_i with L_i L_i' = W_i     standardised score, mean 0 and covariance I under the model,
    G_i W_i with G_i = Z_i A^-1 Z_i'         (m, m), the leverage when m = 1,
    phi - phi_(i) = A^-1 Z_i' s~_i,  s~_i = (I - W_i G_i)^-1 s_i    when it is left out (one Newton step),

exact for least squares (Cook & Weisberg 1982), one step of scoring otherwise (Pregibon 1981; Lesaffre & Albert 1989).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.data import Frame
from probreg.data.rows import full_weights
from probreg.diagnostics.findings import stop_if
from probreg.fits.fit import Fit
from probreg.fits.residuals import (
    noiseless_obstacle,
    predictor,
    roots,
    rounding_error,
    standardised_scores,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.vec import map_of_columns
from probreg.priors import Flat, GaussianPrior, HierarchicalPrior

Array = np.ndarray
_ALONE = 1e-10  # 1 - leverage below which a row alone decides its own fit, and cannot be left out


@dataclass(frozen=True, eq=False)
class Local:
    """Arrays of S data sets on the same n rows, S = 1 for the data of a fit; k coordinates represent the coefficients."""

    likelihood: SmoothLikelihood
    aux: dict[str, Any]  # numbers, or one per row (n,)
    y: Array  # (S, n, ...)
    eta: Array  # (S, n, m)
    Z: Array  # (n, m, k), d eta / d phi; phi has the curvature I at the estimate
    P: Array  # (k, k), the part of the prior in that curvature
    back: Array  # (p, m, k), from a change of phi to a change of beta
    w: Array  # (n,), frequencies
    df: float | None  # n - tr H of an estimated Gaussian sigma

    @cached_property
    def score(self) -> Array:
        """s = d log p / d eta, (S, n, m)."""
        return self.likelihood.score(self.y, self.eta, **self.aux)

    @cached_property
    def W(self) -> Array:
        """The Fisher information of each row, (S, n, m, m)."""
        return np.broadcast_to(
            self.likelihood.information(self.eta, **self.aux),
            (*self.eta.shape, self.eta.shape[-1]),
        )

    @cached_property
    def roots(self) -> tuple[Array, Array]:
        """L and L^-1, (S, n, m, m)."""
        shape = self.W.shape
        root, inverse = roots(self.W.reshape(-1, *shape[2:]))
        return root.reshape(shape), inverse.reshape(shape)

    @cached_property
    def u(self) -> Array:
        """The standardised scores, (S, n, m); Pearson residuals of one linear predictor."""
        return np.einsum("snab,snb->sna", self.roots[1], self.score)

    @cached_property
    def WZ(self) -> Array:
        return np.einsum("snab,nbk->snak", self.W, self.Z, optimize=True)

    @cached_property
    def data_curvature(self) -> Array:
        """sum_i w_i Z_i' W_i Z_i, (S, k, k)."""
        weighted = self.w[:, None, None] * self.Z
        return np.einsum("nak,snal->skl", weighted, self.WZ, optimize=True)

    @cached_property
    def covariance(self) -> Array:
        """A^-1, (S, k, k)."""
        return np.linalg.pinv(self.data_curvature + self.P, hermitian=True)

    @cached_property
    def hat(self) -> Array:
        """G_i W_i, (S, n, m, m)."""
        half = np.einsum("nak,skl->snal", self.Z, self.covariance, optimize=True)
        return np.einsum("snal,snbl->snab", half, self.WZ, optimize=True)

    @cached_property
    def leverage(self) -> Array:
        """tr G_i W_i, (S, n); weighted by the frequencies they add up to the number of (effective) coefficients."""
        return np.einsum("snaa->sn", self.hat)

    @property
    def size(self) -> float:
        """The effective number of coefficients of the fit: the sum of the leverages."""
        return float(self.w @ self.leverage[0])

    @cached_property
    def deletion_scores(self) -> Array:
        """s~_i, (S, n, m); nan if the row alone determines its own fit, or represents no observation."""
        # phi - phi_(i) = A^-1 Z_i' s~_i by the Sherman-Morrison-Woodbury formula.
        m = self.eta.shape[-1]
        gap = np.eye(m) - np.swapaxes(self.hat, -1, -2)
        is_undefined = (self.w == 0) | (np.abs(np.linalg.det(gap)) < _ALONE)
        gap = np.where(is_undefined[..., None, None], np.eye(m), gap)
        scores = np.linalg.solve(gap, self.score[..., None])[..., 0]
        return np.where(is_undefined[..., None], np.nan, scores)

    @cached_property
    def dispersion(self) -> Array:
        """The scale of var(u), (S,): RSS / (n - tr H) in units of the fit's sigma^2 where sigma was estimated, otherwise 1."""
        if self.df is None:
            return np.ones(len(self.y))
        if self.df <= 0:
            return np.full(len(self.y), np.nan)
        return (self.u[..., 0] ** 2 @ self.w) / self.df

    @cached_property
    def internal(self) -> Array:
        """Squares of internally studentised residuals, u^2 / (dispersion (1 - h)), (S, n); their mean over predictors when m > 1."""
        deleted = np.einsum("snab,snb->sna", self.roots[1], self.deletion_scores)
        return (self.u * deleted).mean(-1) / self.dispersion[:, None]

    @cached_property
    def without(self) -> Array:
        """The estimate of sigma without one observation, in units of the one with it, (S, n); 1 where sigma is not estimated."""
        if self.df is None:
            return np.ones(self.eta.shape[:2])
        if self.df < 1.0 + 1e-9:  # no degree of freedom is left
            return np.full(self.eta.shape[:2], np.nan)
        # sigma_(i)^2 / sigma^2 = (df - r_i^2) / (df - 1), r_i the internally studentised residual (Belsley, Kuh &
        # Welsch 1980).
        return np.sqrt(np.maximum(self.df - self.internal, 0.0) / (self.df - 1.0))

    @cached_property
    def change(self) -> Array:
        """phi - phi_(i), (S, n, k)."""
        shift = np.einsum("nak,sna->snk", self.Z, self.deletion_scores, optimize=True)
        return np.einsum("snk,skl->snl", shift, self.covariance, optimize=True)

    @cached_property
    def cook(self) -> Array:
        """Cook's distance (phi - phi_(i))' A (phi - phi_(i)) / (k dispersion), (S, n)."""
        A = self.data_curvature + self.P
        square = np.einsum(
            "snk,skl,snl->sn", self.change, A, self.change, optimize=True
        )
        return square / (self.Z.shape[2] * self.dispersion[:, None])

    def dfbetas(self, C: Array) -> Array:
        """Changes of the coefficients C phi (q, k) without one observation, in their standard errors without it, (S, n, q)."""
        shift = np.einsum("qk,snk->snq", C, self.change, optimize=True)
        variance = np.einsum("qk,skl,ql->sq", C, self.covariance, C, optimize=True)
        error = np.sqrt(self.dispersion[:, None] * variance)
        with np.errstate(all="ignore"):  # a column that was dropped has no error
            return shift / (error[:, None, :] * self.without[..., None])


def local(fit: Fit) -> Local:
    """Return the arrays of a fit, computed once and cached. NotApplicable for a fit that has none."""
    return fit.once(_local_fit)


def _local_fit(fit: Fit) -> Local:
    model = fit.model
    design = model.design
    design.need_rows("a number for each row")
    stop_if(local_obstacle(fit))
    assert isinstance(model.likelihood, SmoothLikelihood)
    w = full_weights(design.weights, design.n)
    root = standardised_scores(fit).root
    Z, back = _coordinates(fit, root, w)
    Q = np.einsum("nba,nbk->nak", root, Z)
    curvature = np.einsum("n,nak,nal->kl", w, Q, Q, optimize=True)
    df = None
    if _has_free_sigma(fit):
        df = float(w.sum() - np.trace(curvature))
    eta = predictor(fit)[None]
    P = np.eye(len(curvature)) - curvature
    y = design.observed[None]
    return Local(model.likelihood, fit.aux_of_rows, y, eta, Z, P, back, w, df)


def local_obstacle(fit: Fit) -> str | None:
    """Return why a fit has no such arrays, or None."""
    if not isinstance(fit.model.likelihood, SmoothLikelihood):
        return f"the {fit.model.likelihood.name} likelihood has kinks, where a row left out moves the estimate in steps without a formula"
    if not fit.model.joint.gaussian:
        names = {
            "unknown-scale"
            if isinstance(b.prior, HierarchicalPrior)
            else b.prior.name or "mixture"
            for b in fit.model.joint.blocks
            if not isinstance(b.prior, (Flat, GaussianPrior))
        }
        return f"the {', '.join(sorted(names))} prior is not quadratic, so the estimate without a row has no formula; use a flat or a normal prior"
    reason = noiseless_obstacle(fit)
    if reason is not None or not _has_free_sigma(fit):
        return reason
    if np.abs(standardised_scores(fit).u).max() <= rounding_error(fit):
        return "the fit meets every response exactly, so that no residual is left"
    return None


def _has_free_sigma(fit: Fit) -> bool:
    return fit.model.likelihood.least_squares and fit.model.noise_unknown


def _coordinates(fit: Fit, root: Array, w: Array) -> tuple[Array, Array]:
    """Return Z (n, m, k) and the map of phi back to beta, by QR of the rows L_i'(x_i ⊗ I), frequencies and prior."""
    model, (n, m) = fit.model, root.shape[:2]
    kept = list(range(model.shape[0]))
    if fit.solution.null_space is not None:
        kept = list(model.design.moments.rank.kept)
    X = model.design.X
    frame = model.design.frame
    if frame.intercept is not None and frame.intercept not in kept:
        # no shifts without an intercept to absorb them
        size = np.sqrt((X**2).mean(0))
        frame = Frame(np.zeros_like(size), np.where(size > 0, size, 1.0), None)
    U = frame.rows(X)[:, kept]
    T = frame.T[:, kept]
    stacked = np.einsum("nj,nba->najb", U, root).reshape(n * m, -1)
    # R with R'R = P for a positive semidefinite P.
    wide = map_of_columns(T, m)
    value, vector = np.linalg.eigh(
        wide.T @ model.joint.precision_of_entries(m, fit.model.noise(fit.aux)) @ wide
    )
    prior = np.sqrt(np.maximum(value, 0.0))[:, None] * vector.T
    # [w^(1/2) L'(x kron 1) T; P^(1/2)] = Q R with R'R = A, the expected information of the posterior.
    weighted = stacked * np.sqrt(np.repeat(w, m))[:, None]
    R = np.linalg.qr(np.vstack([weighted, prior]), mode="r")
    inverse = np.linalg.inv(R).reshape(len(kept), m, -1)
    return (
        np.einsum("nj,jmk->nmk", U, inverse, optimize=True),
        np.einsum("pj,jmk->pmk", T, inverse, optimize=True),
    )
