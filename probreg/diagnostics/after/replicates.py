"""Null distribution of a statistic of a fit: data drawn from the fitted model, the fit repeated in one step.

With coordinates phi of the coefficients in which the curvature of the log posterior is I at the estimate, eta = eta_0 + Z phi,
a replicate and its estimate are

    y* ~ p(y | eta_0, aux),    phi* = sum_i Z_i' s_i(y*, eta_0) + grad log prior,    eta* = eta_0 + Z phi*,

one step of Fisher scoring from the fit, which is as good as the estimate itself to first order (Lehmann & Casella 1998,
section 6.4); for a Gaussian it is the estimate. Nuisance parameters are fixed. A p-value is the share of replicates with
a statistic at least as large as in the data (Davison & Hinkley 1997, section 4.2).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.diagnostics.after.local import Local, local, local_obstacle
from probreg.diagnostics.after.observed import (
    canonical_order,
    countable_obstacle,
    rows_of_observations,
)
from probreg.fits.fit import Fit
from probreg.likelihoods import SmoothLikelihood

Array = np.ndarray
FEW = 500  # observations up to which null distributions are drawn; with more the asymptotic ones apply
SIMULATED = ", simulated"
_LOOKS = (
    (200, 20),
    (2000, 20),
    (5000, 0),
)  # after so many data sets (the data among them), enough exceed the statistic
LEAST = 1.0 / _LOOKS[-1][0]  # the smallest share that draws can resolve
_AT_ONCE = 2_000_000  # numbers of one block of replicates


@dataclass(frozen=True, eq=False)
class Replicates:
    """S data sets on the same n observations: y (S, n, ...), eta (S, n, m); Z (n, m, k), the prior's share P (k, k) of the
    curvature, `df` the degrees of freedom of an estimated Gaussian sigma or None."""

    likelihood: SmoothLikelihood
    aux: dict[str, Any]  # numbers, or one per observation (n,)
    y: Array
    eta: Array
    Z: Array
    P: Array
    df: float | None
    rows: Array  # (n,), the row of the design behind each observation

    @cached_property
    def score(self) -> Array:
        """s = d log p / d eta, (S, n, m)."""
        return self.likelihood.score(self.y, self.eta, **self.aux)

    @cached_property
    def W(self) -> Array:
        """The Fisher information of each observation, (S, n, m, m)."""
        m = self.eta.shape[-1]
        return np.broadcast_to(
            self.likelihood.information(self.eta, **self.aux), (*self.eta.shape, m)
        )

    @cached_property
    def WZ(self) -> Array:
        return np.einsum("snab,nbk->snak", self.W, self.Z, optimize=True)

    @cached_property
    def data_curvature(self) -> Array:
        """Z'WZ, (S, k, k)."""
        return np.einsum("nak,snal->skl", self.Z, self.WZ, optimize=True)

    @cached_property
    def covariance(self) -> Array:
        """A^-1 with A = Z'WZ + P, (S, k, k)."""
        return np.linalg.pinv(self.data_curvature + self.P, hermitian=True)

    @cached_property
    def pearson(self) -> Array:
        """s / sqrt(W) of one linear predictor, (S, n)."""
        return self.score[..., 0] / np.sqrt(
            np.maximum(self.W[..., 0, 0], np.finfo(float).tiny)
        )

    @cached_property
    def leverage(self) -> Array:
        """G_i W_i, (S, n, m, m), with G_i = Z_i A^-1 Z_i' the covariance of eta_i."""
        half = np.einsum("nak,skl->snal", self.Z, self.covariance, optimize=True)
        return np.einsum("snal,snbl->snab", half, self.WZ, optimize=True)

    @cached_property
    def deletion_scores(self) -> Array:
        """s~_i = (I - W_i G_i)^-1 s_i, (S, n, m): beta - beta_(i) = A^-1 Z_i' s~_i; 0 where an observation cannot be left out."""
        m = self.eta.shape[-1]
        gap = np.eye(m) - np.swapaxes(self.leverage, -1, -2)
        is_singular = np.abs(np.linalg.det(gap)) < 1e-10
        gap = np.where(is_singular[..., None, None], np.eye(m), gap)
        return np.where(
            is_singular[..., None],
            0.0,
            np.linalg.solve(gap, self.score[..., None])[..., 0],
        )

    @cached_property
    def change(self) -> Array:
        """A^-1 Z_i' s~_i, (S, n, k)."""
        shift = np.einsum("nak,sna->snk", self.Z, self.deletion_scores, optimize=True)
        return np.einsum("snk,skl->snl", shift, self.covariance, optimize=True)

    @cached_property
    def dispersion(self) -> Array:
        """RSS / df in units of the fit's sigma^2, (S,); 1 where sigma is not estimated."""
        if self.df is None:
            return np.ones(len(self.y))
        return np.asarray((self.pearson**2).sum(1) / self.df)

    @cached_property
    def without(self) -> Array:
        """sigma without each observation, in units of the one with it, (S, n)."""
        if self.df is None:
            return np.ones(self.eta.shape[:2])
        # r_i^2 = u_i u~_i / dispersion, the internally studentised residual
        square = (
            self.pearson
            * self.deletion_scores[..., 0]
            / np.sqrt(self.W[..., 0, 0])
            / self.dispersion[:, None]
        )
        with np.errstate(all="ignore"):  # no degree of freedom is left: nan
            return np.sqrt((self.df - square) / (self.df - 1.0))


Statistic = Callable[[Replicates], Array]


def found_by(p: float) -> str:
    """Return the source of a p-value of `simulated`: it is asymptotic if below one in the number of data sets.

    >>> found_by(0.02), found_by(1e-7)
    (', simulated', ', asymptotic')
    """
    return SIMULATED if p >= LEAST else ", asymptotic"


def drawable(fit: Fit) -> bool:
    """Return whether null distributions can and should be drawn: for few observations that can be counted one by one."""
    design = fit.model.design
    single = local_obstacle(fit) is None and countable_obstacle(fit, minimum=1) is None
    return (
        single
        and design.weight_kind != "sampling"
        and design.total * fit.model.shape[1] <= FEW
    )


def simulated_p_value(
    fit: Fit, statistic: Statistic, beyond: float = 1.0, *, ordered: bool = False
) -> float:
    """P(T* >= T) for the statistic T of the data and T* of data drawn from the fitted model, by the seed of the fit.

    Drawing stops early if the probability is clearly not small. If no data set reaches T, the result is the
    smaller of one in their number and `beyond`, the asymptotic p-value. `ordered`: the statistic depends on the order of
    rows; otherwise the result does not depend on it.
    """
    rows = rows_of_observations(fit)
    if not ordered:
        rows = rows[canonical_order(fit.model.design.take(rows))]
    observed = _observed_replicate(fit, rows)
    rng = np.random.default_rng([fit.seed, 5])
    observed_statistic = statistic(observed)[0]
    over = 1
    done = 1
    for target, enough in _LOOKS:
        for replicates in _draw_replicates(fit, observed, rng, target - done):
            simulated = statistic(replicates)
            over += int((~(simulated < observed_statistic * (1 - 1e-9))).sum())
        done = target
        if over >= enough:
            break
    if over == 1:
        return min(1.0 / done, beyond)
    return over / done


def _observed_replicate(fit: Fit, rows: Array) -> Replicates:
    """Return the observed data as one data set."""
    pieces = local(fit)
    model = fit.model
    assert isinstance(model.likelihood, SmoothLikelihood)
    Z = np.linalg.solve(np.swapaxes(pieces.root, 1, 2), pieces.Q)  # L_i' Z_i = Q_i
    P = np.eye(Z.shape[2]) - np.einsum("n,nak,nal->kl", pieces.w, pieces.Q, pieces.Q)
    aux = {
        k: np.asarray(v)[rows] if np.ndim(v) else float(v)
        for k, v in fit.aux_of_rows.items()
    }
    return Replicates(
        model.likelihood,
        aux,
        model.design.observed[rows][None],
        pieces.eta[rows][None],
        Z[rows],
        P,
        pieces.df,
        rows,
    )


def _draw_replicates(
    fit: Fit, observed: Replicates, rng: np.random.Generator, count: int
) -> Iterator[Replicates]:
    """Yield blocks of data sets drawn from the model at its estimates."""
    n, m, k = observed.Z.shape
    pull = _log_prior_gradient(fit, local(fit))
    step = max(1, _AT_ONCE // (n * m * max(k, 4)))
    while count > 0:
        size = min(step, count)
        count -= size
        eta = np.broadcast_to(observed.eta, (size, n, m))
        y = observed.likelihood.sample(rng, eta, **observed.aux)
        phi = (
            np.einsum(
                "nak,sna->sk",
                observed.Z,
                observed.likelihood.score(y, eta, **observed.aux),
                optimize=True,
            )
            + pull
        )
        yield replace(
            observed,
            y=y,
            eta=eta + np.einsum("nak,sk->sna", observed.Z, phi, optimize=True),
        )


def _log_prior_gradient(fit: Fit, pieces: Local) -> Array:
    """Return the gradient of the log prior over phi at the estimate, (k,)."""
    joint = fit.model.joint
    P = joint.precision_of_entries(fit.model.shape[1], fit.model.noise(fit.aux))
    slope = -P @ (fit.solution.beta - joint.center[:, None]).ravel()
    return np.einsum("pmk,pm->k", pieces.back, slope.reshape(fit.solution.beta.shape))
