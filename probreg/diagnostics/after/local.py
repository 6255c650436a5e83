"""The quadratic approximation of a log posterior at its estimate, row by row, for deletion formulas.

With W_i = L_i L_i' the Fisher information of row i over its m linear predictors, s_i the score there, P the prior
precision and A = sum_i w_i (x_i x_i') ⊗ W_i + P, one observation of row i has

    u_i = L_i^-1 s_i                       standardised score, mean 0 and covariance I under the model,
    H_i = L_i' (x_i ⊗ I)' A^-1 (x_i ⊗ I) L_i   (m, m), the leverage when m = 1,
    beta - beta_(i) = A^-1 (x_i ⊗ s~_i),  L_i^-1 s~_i = (I - H_i)^-1 u_i    when it is left out (one Newton step),

exact for least squares (Cook & Weisberg 1982), one step of scoring otherwise (Pregibon 1981; Lesaffre & Albert 1989).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from probreg.data import Frame
from probreg.data.rows import full_weights, plus_offset
from probreg.fits.fit import Fit
from probreg.fits.residuals import (
    counted_residuals,
    noiseless_obstacle,
    roots,
    rounding_error,
)
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg.vec import map_of_columns
from probreg.priors import Flat, GaussianPrior, HierarchicalPrior

Array = np.ndarray
_ALONE = 1e-10  # 1 - leverage below which a row alone decides its own fit, and cannot be left out


@dataclass(frozen=True, eq=False)
class Local:
    """Arrays over the n rows of a fit, for one observation each; k coordinates represent the coefficients.

    `root` (n, m, m) is L, `u` (n, m), `Q` (n, m, k) with H_i = Q_i Q_i', `back` (p, m, k) maps Q' to a change of beta,
    `w` (n,) the frequencies (1 without), `df` the degrees of freedom n - tr H of an estimated Gaussian sigma or None.
    """

    eta: Array
    root: Array
    u: Array
    Q: Array
    back: Array
    w: Array
    df: float | None
    orthonormal: (
        bool  # whether the rows sqrt(w) Q have orthonormal columns, as without a prior
    )

    @cached_property
    def span(self) -> Array:
        """Orthonormal columns (n m, k) that span the weighted columns of the fit, row by row and predictor by predictor."""
        n, m, k = self.Q.shape
        # The stacked sqrt(w_i) Q_i have orthonormal columns if the prior contributes nothing.
        rows = self.Q.reshape(n * m, k) * np.repeat(np.sqrt(self.w), m)[:, None]
        if self.orthonormal:
            return rows
        return np.linalg.qr(rows)[0]

    @cached_property
    def H(self) -> Array:
        return self.Q @ np.swapaxes(self.Q, 1, 2)

    @property
    def leverage(self) -> Array:
        """tr H_i, (n,); weighted by the frequencies they add up to the number of (effective) coefficients."""
        return np.einsum("nmk,nmk->n", self.Q, self.Q)

    @cached_property
    def size(self) -> float:
        """The effective number of coefficients: the sum of the leverages."""
        return float(self.w @ self.leverage)

    @cached_property
    def total(self) -> float:
        return float(self.w.sum())

    @cached_property
    def deletion_scores(self) -> Array:
        """(I - H_i)^-1 u_i, (n, m); nan if the row alone determines its own fit, or represents no observation."""
        m = self.u.shape[1]
        # beta - beta_(i) = A^-1 (x_i kron 1)' L_i (1 - H_i)^-1 u_i, by the Sherman-Morrison-Woodbury formula.
        gap = np.eye(m) - self.H
        is_undefined = (self.w == 0) | (
            self.leverage > m - _ALONE
            if m == 1
            else np.linalg.eigvalsh(gap)[:, 0] < _ALONE
        )
        gap = np.where(is_undefined[:, None, None], np.eye(m), gap)
        return np.where(
            is_undefined[:, None],
            np.nan,
            np.linalg.solve(gap, self.u[..., None])[..., 0],
        )

    @cached_property
    def dispersion(self) -> float:
        """The scale of var(u): RSS / (n - tr H) in units of the fit's sigma^2 where sigma was estimated, otherwise 1."""
        if self.df is None:
            return 1.0
        if self.df > 0:
            return float(self.w @ self.u[:, 0] ** 2) / self.df
        return np.nan

    @cached_property
    def internally_studentised(self) -> Array:
        """Internally studentised: u / sqrt(dispersion (1 - h)); its root mean square over predictors when m > 1."""
        if self.u.shape[1] == 1:
            # u / (1 - h)^(1/2) = sign(u) (u * u/(1 - h))^(1/2)
            return np.asarray(
                np.sign(self.u[:, 0])
                * np.sqrt(self.u[:, 0] * self.deletion_scores[:, 0] / self.dispersion)
            )
        return np.sqrt((self.u * self.deletion_scores).sum(1) / self.u.shape[1])

    @cached_property
    def without(self) -> Array:
        """The estimate of sigma without one observation, in units of the one with it; 1 where sigma is not estimated."""
        if self.df is None:
            return np.ones(len(self.u))
        with np.errstate(all="ignore"):  # no degree of freedom is left: nan
            # sigma_(i)^2 / sigma^2 = (df - r_i^2) / (df - 1), r_i the internally studentised residual (Belsley, Kuh &
            # Welsch 1980).
            return np.sqrt((self.df - self.internally_studentised**2) / (self.df - 1.0))

    @cached_property
    def cook(self) -> Array:
        """Cook's distance (beta - beta_(i))' A (beta - beta_(i)) / (k dispersion), (n,)."""
        shift = np.einsum("nmk,nm->nk", self.Q, self.deletion_scores)
        return (shift**2).sum(1) / (self.Q.shape[2] * self.dispersion)

    @cached_property
    def change(self) -> Array:
        """beta - beta_(i), (n, p, m)."""
        shift = np.einsum("nmk,nm->nk", self.Q, self.deletion_scores)
        return np.einsum("pmk,nk->npm", self.back, shift)


def local(fit: Fit) -> Local:
    """Return the arrays of a fit, computed once and cached; call it only if `local_obstacle` returns None."""
    return fit.once(_local_fit)


def _local_fit(fit: Fit) -> Local:
    model = fit.model
    design = fit.model.design
    aux = fit.aux_of_rows
    design.need_rows("a number for each row")
    likelihood = model.likelihood
    assert isinstance(likelihood, SmoothLikelihood)
    eta = design.X @ fit.solution.beta
    eta = plus_offset(eta, design.offset)
    score = likelihood.score(design.observed, eta, **aux)
    information = likelihood.information(eta, **aux)
    # u = L^-1 score with L L' = W: of variance 1 under the model; (y - mu) / sd for a family with one predictor.
    root, inverse = roots(np.broadcast_to(information, (*eta.shape, eta.shape[1])))
    w = full_weights(design.weights, design.n)
    Q, coefficient_map = _orthonormal(fit, root, w)
    pieces = Local(
        eta,
        root,
        np.einsum("nab,nb->na", inverse, score),
        Q,
        coefficient_map,
        w,
        None,
        not model.joint.informative.any(),
    )
    if _has_free_sigma(fit):
        return replace(pieces, df=pieces.total - pieces.size)
    return pieces


def local_obstacle(fit: Fit) -> str | None:
    """Return why a fit has no such arrays, or None."""
    if not isinstance(fit.model.likelihood, SmoothLikelihood):
        return f"the {fit.model.likelihood.name} likelihood has kinks, where a row left out moves the estimate in steps that no formula says"
    if not fit.model.joint.gaussian:
        families = {
            b.prior
            for b in fit.model.joint.blocks
            if not isinstance(b.prior, (Flat, GaussianPrior))
        }
        names = sorted(
            {
                p.name or "mixture"
                for p in families
                if not isinstance(p, HierarchicalPrior)
            }
        )
        names += ["unknown-scale"] * any(
            isinstance(p, HierarchicalPrior) for p in families
        )
        return f"the {', '.join(names)} prior is not quadratic, so the estimate without a row has no formula; use a flat or a normal prior"
    reason = noiseless_obstacle(fit)
    if reason is not None:
        return reason
    if _has_free_sigma(fit):
        largest = np.abs(counted_residuals(fit, "pearson")).max()
        if largest <= rounding_error(fit):
            return "the fit meets every response exactly, so that no residual is left"
    return None


def _has_free_sigma(fit: Fit) -> bool:
    return fit.model.likelihood.least_squares and fit.model.noise_unknown


def _orthonormal(fit: Fit, root: Array, w: Array) -> tuple[Array, Array]:
    """Q (n, m, k) and the map of coordinates back to beta, by QR of the rows L_i'(x_i ⊗ I), frequencies and prior."""
    model, (n, m) = fit.model, root.shape[:2]
    if fit.solution.null_space is None:
        kept_columns = list(range(model.shape[0]))
    else:
        kept_columns = list(model.design.moments.rank.kept)
    basis = _basis(model.design.frame, kept_columns, model.design.X)
    U = basis.rows(model.design.X)[:, kept_columns]
    T = basis.T[:, kept_columns]
    stacked = np.einsum("nj,nba->najb", U, root).reshape(n * m, -1)
    scale = np.repeat(np.sqrt(w), m)[:, None]
    # R with R'R = P for a positive semidefinite P.
    wide = map_of_columns(T, m)
    value, vector = np.linalg.eigh(
        wide.T @ model.joint.precision_of_entries(m, fit.model.noise(fit.aux)) @ wide
    )
    prior = np.sqrt(np.maximum(value, 0.0))[:, None] * vector.T
    # [w^(1/2) L'(x kron 1) T; P^(1/2)] = Q R with R'R = A, the expected information of the posterior.
    R = np.linalg.qr(np.vstack([stacked * scale, prior]), mode="r")
    R_inverse = np.linalg.inv(R)
    Q = (stacked @ R_inverse).reshape(n, m, -1)
    coefficient_map = np.einsum(
        "pj,jmk->pmk", T, R_inverse.reshape(len(kept_columns), m, -1)
    )
    return Q, coefficient_map


def _basis(basis: Frame, kept_columns: list[int], X: Array) -> Frame:
    """Return the basis of the design, without shifts if there is no intercept to absorb them."""
    if basis.intercept is None or basis.intercept in kept_columns:
        return basis
    size = np.sqrt((X**2).mean(0))
    return Frame(np.zeros_like(size), np.where(size > 0, size, 1.0), None)
