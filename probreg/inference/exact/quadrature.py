"""The Gaussian posterior under any prior of sigma and any normal prior: exact in beta, one integral over log sigma."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from probreg.arguments.scalars import Count
from probreg.data import Frame, Moments
from probreg.errors import Incompatible
from probreg.inference.base import (
    METHODS,
    Array,
    Draws,
    Method,
    Solution,
    chains_of,
    sigma_note,
)
from probreg.inference.covariance import DenseCovariance
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
    require_full_rank,
)
from probreg.inference.obstacles import unsupported_kinds
from probreg.inference.sampling.importance import weighted_moments
from probreg.inference.status import Topic, important_note, routine_note
from probreg.likelihoods import Gaussian
from probreg.linalg import merge, solve_upper, triangular_log_det
from probreg.model.model import Model
from probreg.priors import AuxPrior, GaussianPrior
from probreg.system.terminal import few_names

LogDensity = Callable[[Array], Array]


@METHODS.register
@dataclass(frozen=True)
class Quadrature(Method):
    """The posterior p(beta | y) = integral of N(beta; m(sigma), sigma^2 V(sigma)) p(sigma | y) d sigma.

    The integral uses Gauss-Legendre nodes over log sigma. Given sigma the posterior of
    beta is normal, for any normal prior; p(sigma | y) has up to a constant the closed
    form p(y | sigma) p(sigma). Mean, covariance and log evidence have only the error of
    the quadrature, which decreases exponentially in the number of nodes. So do the ends
    of intervals of beta and of sigma, which are quantiles of the mixture over these
    nodes. Draws are independent, for functions of several coefficients.

    Parameters
    ----------
    draws : int
        Draws of each chain.
    chains : int
        Number of chains, here groups of independent draws.
    nodes : int
        Number of nodes. More are used if the density of log sigma decreases slowly, so
        that their spacing is at most 0.2.

    Notes
    -----
    If the posterior has no variance, its standard deviation is infinite. If it has no
    mean either, the estimate of a coefficient is its posterior median, and sigma's is
    infinite. A note lists them.

    Examples
    --------
    With p(sigma) ∝ 1/sigma, n rows and p columns E[sigma^2] = RSS / (n - p - 2):

    >>> from probreg.model.model import Model
    >>> model = Model.from_arrays(np.arange(6.0), [1.0, 2.0, 2.0, 4.0, 3.0, 6.0])
    >>> found = Quadrature(draws=1).solve(model, np.random.default_rng(0))
    >>> mean_square = found.aux["sigma"] ** 2 + found.aux_sd["sigma"] ** 2
    >>> round(mean_square, 4), round(found.stats["rss"] / (6 - 2 - 2), 4)
    (1.5714, 1.5714)
    """

    draws: Count = 1000
    chains: Count = 4
    nodes: Count = 160

    name = "quadrature"
    likelihood = Gaussian
    prior = GaussianPrior
    target = "posterior"

    def obstacle(self, model: Model) -> str | None:
        reason = unsupported_kinds(self, model)
        if reason:
            return reason
        if model.unknown:
            return None
        return (
            "quadrature integrates over sigma, and it is held fixed here; use conjugate"
        )

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        prior = PriorRows.of(model.joint)
        moments = model.design.moments
        require_full_rank(
            posterior_given_sigma(moments, prior, _typical(moments)), model, self.name
        )
        density = _Density(model)
        centre = float(np.log(_typical(moments)))
        ends = _range(density, density.sigma, centre)
        if ends is None or density.moments_below <= 0.0:
            raise Incompatible(
                "quadrature: the density of sigma does not decrease, so the posterior is improper. Fix sigma, or give it a prior that vanishes "
                "at 0 and has a finite mass, such as InverseGamma(1.0, 1.0)"
            )
        u, log_weight = _nodes_between(density, ends, self.nodes)
        log_evidence = float(np.logaddexp.reduce(log_weight))
        weight = np.exp(log_weight - log_evidence)
        weight /= weight.sum()  # the logarithms have lost the last digits
        sigma = np.exp(u)
        w, gamma = density.conditional(sigma)
        # The law of total variance over the nodes: cov = E[sigma^2 diag(1/w)] + cov(E[gamma | sigma]), then from gamma
        # to beta.
        mean = weight @ gamma
        spread = np.sqrt(weight)[:, None] * (gamma - mean)
        inner = np.diag((weight * sigma**2) @ (1.0 / w)) + spread.T @ spread
        # rows r with sum of r r' the covariance
        root = density.to_beta(np.linalg.cholesky(inner).T)
        m_sigma, sd_sigma = weighted_moments(sigma, weight)
        stats = {"n": moments.weight, "rss": moments.rss}
        if model.joint.informative.all() and model.noise_prior.proper:
            stats["log_evidence"] = log_evidence
        unit = density.to_beta(np.eye(moments.p))
        marginals = {
            "weight": weight,
            "log_sigma": u,
            "mean": density.to_beta(gamma),
            # var(beta_j | sigma) = sigma^2 sum_i B_ij^2 / w_i, B the rows of beta for unit gamma_i
            "sd": sigma[:, None] * np.sqrt((1.0 / w) @ unit**2),
        }
        solution = Solution(
            beta=density.to_beta(mean)[:, None],
            scale=DenseCovariance.of_raw_root(
                Frame.of(moments.mean, moments.scale, model.design.intercept), 1, root.T
            ),
            aux={model.noise_scale: m_sigma},
            draws=Draws(
                self._draw(density, rng, u, model.noise_scale),
                aux_sd={model.noise_scale: sd_sigma},
                marginals=marginals,
            ),
            stats=stats,
            notes=sigma_note(
                model,
                routine_note(
                    Topic.SIGMA,
                    "sigma is integrated over {n} nodes of log sigma from {low:.4g} to {high:.4g}",
                    n=len(u),
                    low=sigma[0],
                    high=sigma[-1],
                ),
            ),
        )
        return _with_infinite_moments(
            model, solution, density.moments_below, density.unbounded(unit)
        )

    def _draw(
        self, density: "_Density", rng: np.random.Generator, u: Array, scale: str
    ) -> dict[str, Array]:
        """Draw sigma by inverting its distribution function on a fine grid, and beta from its normal given sigma."""
        from scipy.interpolate import CubicSpline

        value = density(u)
        grid = np.linspace(u[0], u[-1], 8001)
        # sigma = F^-1(U), F by the trapezoidal rule of the density of log sigma on the grid.
        height = np.exp(CubicSpline(u, value - value.max())(grid))
        cdf = np.concatenate([[0.0], np.cumsum((height[1:] + height[:-1]) / 2)])
        sigma = np.exp(
            np.interp(rng.random(self.chains * self.draws) * cdf[-1], cdf, grid)
        )
        z = rng.standard_normal((len(sigma), density.moments.p))
        w, gamma = density.conditional(sigma)
        beta = density.to_beta(gamma + sigma[:, None] * z / np.sqrt(w))
        return {
            "beta": chains_of(beta[..., None], self.chains),
            scale: chains_of(sigma, self.chains),
        }


class NormalsGivenSigma(NamedTuple):
    """X beta = gamma C' is normal given each sigma (K,); the entries of gamma are independent, with variances v."""

    C: Array  # (n, p)
    gamma: Array  # (K, p)
    v: Array  # (K, p)

    @property
    def mean(self) -> Array:
        """(K, n)."""
        return self.gamma @ self.C.T

    @property
    def sd(self) -> Array:
        """(K, n)."""
        return np.sqrt(self.v @ np.square(self.C).T)

    @property
    def half(self) -> Array:
        """(K, n, p), a root of the covariance."""
        return self.C * np.sqrt(self.v)[:, None, :]


def predictors_given_sigma(
    model: Model, X: Array, sigma: Array
) -> NormalsGivenSigma | None:
    """Return x'beta at rows X (n, p) given each sigma (K,); None for a model that `Quadrature` does not fit."""
    if Quadrature().obstacle(model) is not None:
        return None
    density = _Density(model)
    w, gamma = density.conditional(sigma)
    return NormalsGivenSigma(
        X @ density.to_beta(np.eye(X.shape[1])).T, gamma, np.square(sigma)[:, None] / w
    )


class _Density:
    """u -> log p(y | sigma) + log p(sigma) + u at sigma = exp(u): the density of log sigma up to the evidence.

    The same reduction serves every sigma. With F'F the moments and the prior in units
    of sigma, A the raw prior's rows and s0 a typical sigma, [F; s0 A] = Q R; the halves
    of Q share right singular vectors, Q1 = U1 C V' and Q2 = U2 S V' (the CS
    decomposition), so in gamma = V'R beta the penalised sum of squares is diagonal at
    every sigma: |C gamma - c|^2 + t |S gamma - d|^2 + least, with t = (sigma / s0)^2.
    Source: Golub & Van Loan 2013, section 6.1.6.
    """

    def __init__(self, model: Model) -> None:
        moments = model.design.moments
        # Extended precision is for least squares; an integral to 1e-12 needs only
        # double precision, which is much faster.
        F = np.asarray(moments.factor, dtype=float)
        self.moments = replace(moments, factor=F)
        self.prior = PriorRows.of(model.joint)
        self.sigma = model.noise_prior
        self.s0 = _noise(self.moments)
        p = moments.p
        if len(self.prior.relative):
            F = np.asarray(merge(F, self.prior.relative), dtype=float)
        A = self.s0 * self.prior.absolute
        # [F; s0 A] = Q R with Q1 = U1 C V', Q2 = U2 S V', so that F beta = U1 C gamma and s0 A beta = U2 S gamma, gamma
        # = V'R beta.
        Q, self.R = np.linalg.qr(np.vstack([F[:p, :p], A[:, :p]]))
        U1, self.C, self.V, self.S, U2 = _cosine_sine(Q[:p], Q[p:])
        self.c = U1.T @ F[:p, p]
        self.d = U2.T @ A[:, p]
        self.least = float(F[p, p] ** 2)
        self.log_det_R = float(triangular_log_det(self.R))

    def __call__(self, u: Array) -> Array:
        """At u (K,), shape (K,)."""
        s = np.exp(u)
        moments = self.moments
        raw = len(self.prior.absolute)
        power = moments.weight + self.prior.size - moments.p
        w, _ = self.conditional(s)
        # min over gamma of |C gamma - c|^2 + t |S gamma - d|^2 is sum_j t (C_j d_j - S_j c_j)^2 / w_j, w = C^2 + t S^2,
        # and |X'X + P(sigma)| = |R|^2 prod_j w_j.
        t = np.square(s[:, None] / self.s0)
        gap = np.square(self.C * self.d - self.S * self.c)
        rss = self.least + (t * gap / w).sum(1)
        log_det_R = self.log_det_R + 0.5 * np.log(w).sum(1)
        # log p(y | sigma) = -(n + q - p)/2 log(2 pi sigma^2) + log |P|^(1/2) - log |X'X + P|^(1/2) - RSS_P / (2
        # sigma^2); priors in raw units gain log sigma for each of their rows, because P
        # is in units of 1/sigma^2.
        fit = (
            0.5 * moments.log_precision
            - 0.5 * power * np.log(2.0 * np.pi * s**2)
            - log_det_R
            - rss / (2.0 * s**2)
        )
        return fit + self.prior.log_det(1.0) + raw * u + self.sigma.log_prob(s) + u

    @property
    def moments_below(self) -> float:
        """k such that E[sigma^r | y] is finite for r < k: the density of log sigma
        decreases as sigma^-k. The posterior is improper for k <= 0."""
        # sigma^-(n + q - p) of p(y | sigma), q the columns with a proper prior, times sigma p(sigma).
        return (
            self.moments.weight
            + self.prior.size
            - self.moments.p
            + self.sigma.powers[1]
        )

    def unbounded(self, unit: Array) -> Array:
        """(p,) bool: coefficients with a conditional variance that increases as
        sigma^2; the prior bounds the others. `unit` has a row of beta for each unit
        gamma_i."""
        return (np.abs(unit[self.S == 0.0]) > 1e-12 * np.abs(unit).max(0)).any(0)

    def conditional(self, sigma: Array) -> tuple[Array, Array]:
        """Precision w (K, p) in units of 1/sigma^2 and mean (K, p) of gamma, with independent components."""
        t = np.square(sigma[:, None] / self.s0)
        # (C^2 + t S^2) gamma_mean = C c + t S d, the normal equations, one coordinate at a time.
        w = self.C**2 + t * self.S**2
        return w, (self.C * self.c + t * self.S * self.d) / w

    def to_beta(self, gamma: Array) -> Array:
        """(..., p), R beta = V gamma."""
        return solve_upper(self.R, (gamma @ self.V.T).T).T


def _cosine_sine(Q1: Array, Q2: Array) -> tuple[Array, Array, Array, Array, Array]:
    """U1, C, V, S, U2 with Q1 = U1 diag(C) V' and Q2 = U2 diag(S) V', for orthonormal columns of [Q1; Q2], Q1 square.

    A small singular value is accurate, so V comes from Q2, and from Q1 if S exceeds 0.7
    (Van Loan 1985). Columns of U2 beyond the rows of Q2 are zero.
    """
    (k, p), S = Q2.shape, np.zeros(Q2.shape[1])
    U_left, S[:k], Vt = np.linalg.svd(Q2)
    U2 = np.hstack([U_left, np.zeros((k, p - k))])
    V = Vt.T
    b = int((S > 0.7).sum())  # S decreases, so the first b are large
    T = Q1 @ V[:, b:]
    C = np.r_[np.zeros(b), np.linalg.norm(T, axis=0)]
    basis, _ = np.linalg.qr(T, mode="complete")
    outside = basis[:, p - b :]
    rotation, C[:b], turn = np.linalg.svd(outside.T @ Q1 @ V[:, :b])
    V[:, :b] = V[:, :b] @ turn.T
    large = Q2 @ V[:, :b]
    S[:b] = np.linalg.norm(large, axis=0)
    U2[:, :b] = large / S[:b]
    return np.hstack([outside @ rotation, T / C[b:]]), C, V, S, U2


def _noise(moments: Moments) -> float:
    """Return a sigma near the posterior's for the reduction: the residual standard deviation, if there is one."""
    residual = float(np.abs(moments.factor[-1, -1])) / np.sqrt(moments.weight)
    typical = _typical(moments)
    return float(residual if residual > 1e-8 * typical else typical)


def _typical(moments: Moments) -> float:
    return moments.y_scale or 1.0


def _with_infinite_moments(
    model: Model, solution: Solution, below: float, unbounded: Array
) -> Solution:
    """Return the solution with inf and nan for moments that do not exist: of sigma from
    order `below` on, and of `unbounded` coefficients."""
    from probreg.inference.uncertainty.intervals.marginals import NormalMixture

    if below > 2.0:
        return solution
    scale = solution.scale.unbounded_at(unbounded)
    name = model.noise_scale
    beta = solution.beta.copy()
    columns = [c for c, hit in zip(model.design.columns, unbounded) if hit]
    text = f"the posterior variance of {few_names([*columns, name])} is infinite"
    aux = dict(solution.aux)
    if below <= 1.0:
        marginals = solution.posterior.marginals
        assert marginals is not None  # this method computes them
        for j in np.flatnonzero(unbounded):
            beta[j, 0] = NormalMixture(
                marginals["weight"], marginals["mean"][:, j], marginals["sd"][:, j]
            ).quantile(0.5)
        aux[name] = np.inf
        text = f"{few_names([*columns, name])} have no posterior mean: estimates of coefficients are posterior medians"
    return replace(
        solution,
        beta=beta,
        scale=scale,
        aux=aux,
        draws=replace(solution.posterior, aux_sd={name: np.inf}),
        notes=(
            *solution.notes,
            important_note(Topic.SAMPLING, f"{text}; use the intervals"),
        ),
    )


def _nodes_between(
    log_density: LogDensity, ends: Array, min_count: int
) -> tuple[Array, Array]:
    """Return at least `min_count` nodes u between two ends, and log(weight * density) at each."""
    low, high = ends
    spacing = 0.2  # largest spacing of nodes in log sigma: exact to rounding for densities that decrease as powers of sigma
    # Gauss-Legendre on (low, high): u_k = (high - low)/2 x_k + (high + low)/2, weights (high - low)/2 w_k.
    # Their largest spacing is pi/2 times the mean one.
    count = max(min_count, int(np.ceil(np.pi / 2 * (high - low) / spacing)))
    x, w = np.polynomial.legendre.leggauss(count)
    u = (high - low) / 2 * x + (high + low) / 2
    return u, log_density(u) + np.log(w * (high - low) / 2)


def _range(
    log_density: LogDensity, prior: AuxPrior, centre: float = 0.0
) -> Array | None:
    """Return the range where a density of log sigma exceeds exp(-60) of its peak; None
    if it does not decrease within a wide range about `centre`."""
    with np.errstate(divide="ignore"):
        support = np.log(prior.support)
    # A proper prior of sigma bounds a slow decrease; under an improper one rounding
    # would look like a decrease.
    reaches: tuple[float, ...] = (16.0, 32.0)
    if np.isfinite(support).all():
        reaches = (np.inf,)
    elif prior.proper:
        reaches = (16.0, 32.0, 128.0)
    for reach in reaches:
        ends = np.clip([centre - reach, centre + reach], *support)
        inside = _narrow_range(log_density, ends)
        if ((inside != ends) | (ends == support)).all():
            return inside
    return None


def _narrow_range(log_density: LogDensity, ends: Array) -> Array:
    """Return the part of an interval where the density exceeds exp(-60) of its peak."""
    depth = 60.0  # the range of the integrand, down to exp(-60) of its peak
    grid = np.linspace(ends[0], ends[1], 400)
    value = log_density(grid)
    above = np.flatnonzero(value > value.max() - depth)
    first, last = max(above[0] - 1, 0), min(above[-1] + 1, len(grid) - 1)
    inside = grid[[first, last]]
    if last - first > len(grid) // 4:  # the grid resolves the peak
        return inside
    return _narrow_range(log_density, inside)
