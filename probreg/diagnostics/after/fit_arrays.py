"""The quadratic approximation of a log posterior at its estimate, row by row, for deletion formulas.

The coordinates phi of the coefficients make the curvature of the log posterior I at the estimate of a fit, and eta = eta_0 + Z phi.
W_i is the Fisher information of row i over its m linear predictors, s_i the score there, P the share of the prior in the
curvature, and A = sum_i w_i Z_i' W_i Z_i + P. The Fisher information may have no formula (several formulas, censored and truncated
responses), or scores of nuisance parameters may be correlated with s_i (ordered classes, beta, zero-inflated). In these cases W_i is
the observed information for deletions, and the logs of the estimated nuisance parameters are predictors as well. One observation of
row i has

    u_i = L_i^-1 s_i with L_i L_i' = W_i     standardised score, mean 0 and covariance I under the model,
    G_i W_i with G_i = Z_i A^-1 Z_i'         (m, m), the leverage when m = 1,
    phi - phi_(i) = A^-1 Z_i' s~_i,  s~_i = (I - W_i G_i)^-1 s_i    when it is left out (one Newton step),

exact for least squares (Cook & Weisberg 1982), one step of scoring otherwise (Pregibon 1981; Lesaffre & Albert 1989), and one
Newton step with the observed information.

Replicates give the null distribution of a statistic: data drawn from the fitted model, the fit repeated in one step. A replicate
and its estimate are

    y* ~ p(y | eta_0, aux),    phi* = sum_i Z_i' s_i(y*, eta_0) + grad log prior,    eta* = eta_0 + Z phi*,

one step of Fisher scoring from the fit, which is as good as the estimate itself to first order (Lehmann & Casella 1998,
section 6.4); for a Gaussian it is the estimate. Nuisance parameters that are no predictors are fixed. A p-value is the share of replicates with
a statistic at least as large as in the data (Davison & Hinkley 1997, section 4.2).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.diagnostics.after.base import require_counts
from probreg.diagnostics.findings import HypothesisTest, NotApplicable
from probreg.fits.fit import Fit
from probreg.fits.residuals import (
    StandardisedScores,
    canonical_order,
    noiseless_obstacle,
    predictor,
    rounding_error,
    standardise,
)
from probreg.inference.base import hold_at_limits
from probreg.inference.uncertainty.information import estimate_of
from probreg.likelihoods import ExponentialFamily, SmoothLikelihood
from probreg.likelihoods.base import flatten_rows
from probreg.linalg import root_of_square
from probreg.linalg.vec import map_of_columns
from probreg.priors import Flat, GaussianPrior, HierarchicalPrior

Array = np.ndarray


class Influence(NamedTuple):
    """Measures of the change without one observation of each row; nan if only this row determines its fit."""

    leverage: Array  # (S, n), tr G_i W_i; weighted by frequencies they sum to the effective number of coefficients
    internal: Array  # (S, n), u^2 / (dispersion (1 - h)), their mean over predictors when m > 1; nan by the observed information
    sigma: Array  # (S, n), the estimate of sigma without the row, relative to the estimate with it; 1 if sigma is not estimated
    change: Array  # (S, n, k), phi - phi_(i)
    cook: Array  # (S, n), (phi - phi_(i))' A (phi - phi_(i)) / (k dispersion)
    covariance: Array  # (S, k, k), A^-1 times the dispersion


@dataclass(frozen=True, eq=False)
class FitArrays:
    """Arrays of S data sets on the same n rows, S = 1 for the data of a fit; k coordinates represent the coefficients."""

    likelihood: SmoothLikelihood
    aux: dict[str, Any]  # numbers, or arrays (n,) or (S, n)
    y: Array  # (S, n, ...)
    eta: Array  # (S, n, m)
    score: Array  # (S, n, m), s = d log p / d eta
    W: Array  # (S, n, m, m), the Fisher information of each row, or the observed one
    Z: Array  # (n, m, k), d eta / d phi; phi has the curvature I at the estimate
    P: Array  # (k, k), the part of the prior in that curvature
    back: Array  # (p, m, k), from a change of phi to a change of beta
    w: Array  # (n,), frequencies
    size: float  # tr H, the effective number of coefficients of the fit
    df: float | None  # n - tr H of an estimated Gaussian sigma
    # nuisance parameters with logs as predictors after eta, for the observed information; None for the expected information
    unknown: tuple[str, ...] | None = None

    @cached_property
    def scores(self) -> StandardisedScores:
        """L, L^-1 and the standardised scores u, which are the Pearson residuals of one linear predictor."""
        return standardise(self.score, self.W)

    @cached_property
    def hat(self) -> tuple[Array, Array, Array]:
        """A (S, k, k), A^-1 and G_i W_i (S, n, m, m)."""
        WZ = np.einsum("snab,nbk->snak", self.W, self.Z, optimize=True)
        weighted = self.w[:, None, None] * self.Z
        A = np.einsum("nak,snal->skl", weighted, WZ, optimize=True) + self.P
        covariance = np.linalg.pinv(A, hermitian=True)
        half = np.einsum("nak,skl->snal", self.Z, covariance, optimize=True)
        return A, covariance, np.einsum("snal,snbl->snab", half, WZ, optimize=True)

    @cached_property
    def influence(self) -> Influence:
        alone = 1e-10  # with a smaller 1 - leverage only this row determines its fit, and it cannot be left out
        m, k = self.Z.shape[1:]
        A, covariance, hat = self.hat
        # s~_i by the Sherman-Morrison-Woodbury formula; no row of weight 0 can be left out
        gap = np.eye(m) - hat.mT
        undefined = (self.w == 0) | (np.linalg.det(gap) < alone)
        gap = np.where(undefined[..., None, None], np.eye(m), gap)
        deleted = np.linalg.solve(gap, self.score[..., None])[..., 0]
        deleted = np.where(undefined[..., None], np.nan, deleted)
        shift = np.einsum("nak,sna->snk", self.Z, deleted, optimize=True)
        change = np.einsum("snk,skl->snl", shift, covariance, optimize=True)
        square = np.einsum("snk,skl,snl->sn", change, A, change, optimize=True)
        # the scale of var(u): RSS / (n - tr H) in units of the fit's sigma^2 if sigma was estimated, otherwise 1
        dispersion = np.ones((len(self.y), 1))
        sigma = np.ones(self.eta.shape[:2])
        internal = np.full_like(sigma, np.nan)
        if self.unknown is None:
            u = self.scores.u
            internal = (
                np.einsum("sna,snab,snb->sn", u, self.scores.inverse, deleted)
                / u.shape[-1]
            )
        if self.df is not None:
            with np.errstate(all="ignore"):
                dispersion = ((u[..., 0] ** 2 @ self.w) / self.df)[:, None]
                dispersion = np.where(self.df > 0, dispersion, np.nan)
                internal = internal / dispersion
                # sigma_(i)^2 / sigma^2 = (df - r_i^2) / (df - 1), r_i the internally studentised residual (Belsley, Kuh &
                # Welsch 1980)
                sigma = np.sqrt(np.maximum(self.df - internal, 0.0) / (self.df - 1.0))
                sigma = np.where(self.df < 1.0 + 1e-9, np.nan, sigma)
        return Influence(
            np.einsum("snaa->sn", hat),
            internal,
            sigma,
            change,
            square / (k * dispersion),
            covariance * dispersion[..., None],
        )


def arrays_of_fit(fit: Fit) -> FitArrays:
    """Return the arrays of a fit by the expected information. NotApplicable for a fit that has none; `fit.once(arrays_of_fit)`
    computes them once."""
    require_information(fit)
    return _make_arrays(fit)


def deletion_arrays(fit: Fit) -> FitArrays:
    """Return the arrays of a fit, with the observed information if deletion needs it, otherwise from `arrays_of_fit`."""
    unknown = hold_at_limits(fit.model, fit.solution).unknown
    if fit.model.likelihood.has_orthogonal_information(unknown):
        return fit.once(arrays_of_fit)
    return _make_arrays(fit, unknown)


def _make_arrays(fit: Fit, unknown: tuple[str, ...] | None = None) -> FitArrays:
    """Return the arrays with the expected information, or with the observed one over these nuisance parameters too."""
    model = fit.model
    design = model.design
    design.need_rows("a number for each row")
    likelihood = model.likelihood
    if not isinstance(likelihood, SmoothLikelihood):
        raise NotApplicable(
            f"{likelihood.named} likelihood has kinks, where a row left out moves the estimate in steps without a formula"
        )
    if not model.joint.gaussian:
        names = set()
        for b in model.joint.blocks:
            if isinstance(b.prior, HierarchicalPrior):
                names.add("unknown-scale")
            elif not isinstance(b.prior, (Flat, GaussianPrior)):
                names.add(b.prior.name or "mixture")
        raise NotApplicable(
            f"the {', '.join(sorted(names))} prior is not quadratic, so the estimate without a row has no formula; use a flat or a normal prior"
        )
    reason = noiseless_obstacle(fit)
    if reason is not None:
        raise NotApplicable(reason)
    eta = predictor(fit)
    w = design.row_weights
    is_sigma_free = likelihood.least_squares and model.noise_unknown
    if unknown is None:
        aux = fit.aux_of_rows
        score, W = _derivatives(likelihood, unknown, design.observed, eta, aux)
        root, _, u = standardise(score, W)
        if is_sigma_free and np.abs(u).max() <= rounding_error(fit):
            raise NotApplicable(
                "the fit meets every response exactly, so that no residual is left"
            )
        Z, back = _coordinates(fit, root, w)
    else:
        estimate = estimate_of(model, fit.solution, "the influence of rows")
        aux = likelihood.at_rows(fit.aux, design.precision)
        score, W = _derivatives(likelihood, unknown, design.observed, eta, aux)
        Z = estimate.rows.predictor_rows(estimate.root)
        gamma = estimate.root[: estimate.size].reshape(*model.shape, -1)
        back = np.einsum("pj,jmk->pmk", design.frame.T, gamma, optimize=True)
    curvature = np.einsum("n,nak,nab,nbl->kl", w, Z, W, Z, optimize=True)
    size = float(np.trace(curvature))
    return FitArrays(
        likelihood,
        aux,
        design.observed[None],
        eta[None],
        score[None],
        W[None],
        Z,
        np.eye(len(curvature)) - curvature,
        back,
        w,
        size,
        float(w.sum()) - size if is_sigma_free else None,
        unknown,
    )


def _derivatives(
    likelihood: SmoothLikelihood,
    unknown: tuple[str, ...] | None,
    y: Array,
    eta: Array,
    aux: dict[str, Any],
) -> tuple[Array, Array]:
    """Return the scores (..., n, m) and the information (..., n, m, m) of `FitArrays` at eta."""
    if unknown is None:
        W = likelihood.information(eta, **aux)
        W = np.broadcast_to(W, (*eta.shape, eta.shape[-1]))
        return likelihood.score(y, eta, **aux), W
    shape, rows, values = flatten_rows(eta, aux)
    y = y.reshape(len(rows), *y.shape[len(shape) :])
    local = likelihood.derivatives_over(unknown, y, rows, values, None)
    width = local.gradient.shape[-1]
    return local.gradient.reshape(*shape, width), local.curvature.reshape(
        *shape, width, width
    )


def require_information(fit: Fit) -> None:
    """Raise NotApplicable for a likelihood that has no formula of the expected information."""
    if not fit.model.likelihood.exact_information:
        raise NotApplicable(
            "it needs the expected information, which has no formula for this likelihood"
        )


def _coordinates(fit: Fit, root: Array, w: Array) -> tuple[Array, Array]:
    """Return Z (n, m, k) and the map of phi back to beta, by QR of the rows L_i'(x_i ⊗ I), frequencies and prior."""
    model, (n, m) = fit.model, root.shape[:2]
    kept = list(range(model.shape[0]))
    if fit.solution.null_space is not None:
        kept = list(model.design.moments.rank.kept)
    X = model.design.X
    frame = model.design.frame
    if not frame.intercepts <= set(kept):
        # no shifts without an intercept to absorb them
        size = np.sqrt((X**2).mean(0))
        frame = Frame(np.zeros_like(size), np.where(size > 0, size, 1.0), None)
    U = frame.rows(X)[:, kept]
    T = frame.T[:, kept]
    stacked = np.einsum("nj,nba->najb", U, root).reshape(n * m, -1)
    # R with R'R = P for a positive semidefinite P.
    wide = map_of_columns(T, m)
    P = model.joint.precision_of_entries(m, fit.model.noise(fit.aux))
    prior = root_of_square(wide.T @ P @ wide).T
    # [w^(1/2) L'(x kron 1) T; P^(1/2)] = Q R with R'R = A, the expected information of the posterior.
    weighted = stacked * np.sqrt(np.repeat(w, m))[:, None]
    R = np.linalg.qr(np.vstack([weighted, prior]), mode="r")
    inverse = np.linalg.inv(R).reshape(len(kept), m, -1)
    return (
        np.einsum("nj,jmk->nmk", U, inverse, optimize=True),
        np.einsum("pj,jmk->pmk", T, inverse, optimize=True),
    )


StatisticOfDataSets = Callable[[FitArrays], Array]  # of S data sets, (S,)
FEW_OBSERVATIONS = 500  # up to this number of observations null distributions are drawn; with more the asymptotic ones apply
# (number of data sets, including the data; number of them above the statistic that is enough to stop)
_LOOKS = ((200, 20), (2000, 20), (5000, 0))
LEAST = 1.0 / _LOOKS[-1][0]  # the smallest share that draws can resolve


def with_simulated_p(
    fit: Fit,
    test: HypothesisTest,
    statistic: StatisticOfDataSets,
    *,
    ordered: bool = False,
) -> HypothesisTest:
    """Return the test with a simulated p-value if there are few observations; p-values below 1 in 5,000 stay asymptotic."""
    p = simulated_p_value(fit, statistic, test.p_value, ordered=ordered)
    if p is None:
        return test._replace(how=", asymptotic")
    how = ", simulated" if p >= LEAST else ", asymptotic"
    return test._replace(p_value=p, how=how)


def simulated_p_value(
    fit: Fit,
    statistic: StatisticOfDataSets,
    beyond: float = 1.0,
    *,
    ordered: bool = False,
    arrays: Callable[[Fit], FitArrays] = arrays_of_fit,
) -> float | None:
    """P(T* >= T) for the statistic T of the data and T* of data drawn from the fitted model, by the seed of the fit.

    None if observations times predictors of the arrays are more than 500, and if observations cannot be counted one by one.

    Drawing stops early if the probability is clearly not small. If no data set reaches T, the result is the
    smaller of one in their number and `beyond`, the asymptotic p-value. `ordered`: the statistic depends on the order of
    rows; otherwise the result does not depend on it.
    """
    design = fit.model.design
    if design.weight_kind == "sampling" or design.total > FEW_OBSERVATIONS:
        return None
    try:
        require_counts(fit, 1)
        pieces = fit.once(arrays)
    except NotApplicable:
        return None
    if design.total * pieces.Z.shape[1] > FEW_OBSERVATIONS:
        return None
    rows = design.row_of_observations
    if not ordered:
        rows = rows[canonical_order(design.take(rows))]
    observed = take_observations(pieces, rows)
    rng = np.random.default_rng([fit.seed, 5])
    observed_statistic = statistic(observed)[0]
    over = 1
    done = 1
    for target, enough in _LOOKS:
        for replicates in draw_replicates(fit, observed, rng, target - done):
            simulated = statistic(replicates)
            over += int((~(simulated < observed_statistic * (1 - 1e-9))).sum())
        done = target
        if over >= enough:
            break
    if over == 1:
        return min(1.0 / done, beyond)
    return over / done


def take_observations(pieces: FitArrays, rows: Array) -> FitArrays:
    """Return the observed data as one data set of the observations in these rows."""
    aux = {k: v[rows] if np.ndim(v) else v for k, v in pieces.aux.items()}
    return replace(
        pieces,
        aux=aux,
        y=pieces.y[:, rows],
        eta=pieces.eta[:, rows],
        score=pieces.score[:, rows],
        W=pieces.W[:, rows],
        Z=pieces.Z[rows],
        w=np.ones(len(rows)),
    )


def draw_replicates(
    fit: Fit, observed: FitArrays, rng: np.random.Generator, count: int
) -> Iterator[FitArrays]:
    """Yield blocks of data sets drawn from the model at its estimates."""
    block_size = 2_000_000  # numbers of one block of replicates
    n, m, k = observed.Z.shape
    likelihood, aux, unknown = observed.likelihood, observed.aux, observed.unknown
    family = likelihood.without_formulas
    # the gradient of the log prior over phi at the estimate
    beta = fit.solution.beta
    joint = fit.model.joint
    precision = joint.precision_of_entries(fit.model.shape[1], fit.model.noise(fit.aux))
    slope = -precision @ (beta - joint.center[:, None]).ravel()
    prior = np.einsum("pmk,pm->k", observed.back, slope.reshape(beta.shape))
    step = max(1, block_size // (n * m * max(k, 4)))
    for start in range(0, count, step):
        eta = np.repeat(observed.eta, min(step, count - start), 0)
        if unknown is None:
            y = likelihood.sample(rng, eta, **aux)
        else:
            y = likelihood.sample_like(observed.y[0], rng, eta, **aux)
        score, _ = _derivatives(likelihood, unknown, y, eta, aux)
        phi = np.einsum("nak,sna->sk", observed.Z, score, optimize=True) + prior
        change = np.einsum("nak,sk->sna", observed.Z, phi, optimize=True)
        width = eta.shape[-1]
        if isinstance(family, ExponentialFamily):  # stay in the domain of the link
            for _ in range(50):
                outside = ~family.in_domain(eta + change[..., :width]).all(-1)
                change[outside] *= 0.5
        eta = eta + change[..., :width]
        logs = zip(unknown or (), np.moveaxis(change, -1, 0)[width:])
        there = {**aux, **{name: aux[name] * np.exp(v) for name, v in logs}}
        score, W = _derivatives(likelihood, unknown, y, eta, there)
        yield replace(observed, aux=there, y=y, eta=eta, score=score, W=W)
