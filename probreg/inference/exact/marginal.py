"""The log evidence log p(y | scales) as a function of the logs of unknown prior scales and of sigma, with two derivatives.

The prior of group k is N(mu, tau_k^2 V_k), so that its precision is alpha_k P_k, log alpha_k = -2 log tau_k (less 2 log sigma
where the scale is in units of sigma). With L L' = P, in coordinates gamma = L'(beta - mu) every prior term is alpha_k times
a unit matrix, and with H the precision of gamma given y, S = H^-1 and m its mean

    d f / d log alpha_k                 = (n_k - alpha_k tr_k S - alpha_k |m_k|^2) / 2
    d^2 f / d log alpha_k d log alpha_l = (alpha_k alpha_l sum S_kl^2 + 2 alpha_k alpha_l m_k' S_kl m_l) / 2, and on the
                                          diagonal less (alpha_k tr_k S + alpha_k |m_k|^2) / 2

(MacKay 1992). A Gaussian likelihood gives f exactly from the moments of the rows, after the flat columns are eliminated; in
one group with nothing else S is diagonal in the singular vectors of the columns, and a value costs p operations. Another
smooth likelihood gives its Laplace approximation, whose gradient counts how the curvature follows the mode.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from probreg.data import Block
from probreg.data.rows import times_weights
from probreg.errors import Incompatible
from probreg.inference.base import Array, Status
from probreg.inference.modes.newton import find_mode
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import LocalModel, Model
from probreg.numerics.frame import map_of_columns, vec_entries, with_aux
from probreg.numerics.linalg import inverse_upper
from probreg.priors import AuxPrior, BlockPrior, Flat, GaussianPrior, Prior, SmoothPrior, WholePrior

_LOG_2PI = float(np.log(2.0 * np.pi))
_NEAR = 1e-4  # of a difference of the curvature of a row, in eta and log aux
MEMORY = 64 * 2**20  # bytes of the factors that are held at once


@dataclass(frozen=True)
class ScaleGroup:
    """Columns that share a scale: their normal prior at scale 1, and the prior of the scale; None where it is known."""

    columns: tuple[int, ...]
    base: GaussianPrior
    tau: AuxPrior | None
    block: int

    @cached_property
    def root(self) -> Array:
        """L with L L' = P, (q, q)."""
        return np.linalg.cholesky(self.base.precision(len(self.columns)))


class EvidencePoint(NamedTuple):
    """The evidence, times the priors of the scales over their logs, at one point theta of the logs."""

    value: float
    gradient: Array
    hessian: Array
    evidence: float  # without the priors of the scales
    effective: Array  # (K,) parameters of each group that the data settle, of n_k


Surface = Callable[[Array], EvidencePoint]


class Pieces(NamedTuple):
    """What the derivatives over log alpha (K,) are made of."""

    trace: Array  # (K,) alpha_k tr_k S
    size: Array  # (K,) alpha_k |m_k|^2
    square: Array  # (K, K) alpha_k alpha_l sum S_kl^2
    cross: Array  # (K, K) alpha_k alpha_l m_k' S_kl m_l


def pieces(S: Array, m: Array, alpha: Array, of: Array) -> Pieces:
    """From S (r, r), or its diagonal (r,), the mean m (r,) and the group of each coordinate."""
    # Z_ik = alpha_k where coordinate i is of group k, and 0 elsewhere.
    Z = np.equal.outer(of, np.arange(len(alpha))) * alpha
    if S.ndim == 1:
        return Pieces(S @ Z, (m * m) @ Z, (Z.T * S**2) @ Z, (Z.T * (m * m * S)) @ Z)
    # trace_k = alpha_k sum_(i in k) S_ii, size_k = alpha_k |m_k|^2, and the double sums over i in k, j in l.
    V = Z * m[:, None]
    return Pieces(np.diagonal(S) @ Z, (m * m) @ Z, Z.T @ (S * S) @ Z, V.T @ S @ V)


def over_alpha(found: Pieces, n: Array) -> tuple[Array, Array]:
    """Gradient and Hessian over log alpha, the curvature of the likelihood held."""
    # d f / d log alpha_k = (n_k - alpha_k tr_k S - alpha_k |m_k|^2) / 2 (MacKay 1992), see the head of this file.
    g = 0.5 * (n - found.trace - found.size)
    return g, 0.5 * found.square + found.cross - 0.5 * np.diag(found.trace + found.size)


class ConditionalNormal(NamedTuple):
    """A normal distribution of (vec beta, log aux) given theta: mean + root z, z standard normal."""

    mean: Array  # (k,)
    root: Array  # (k, r)
    evidence: float  # log p(y | theta)


# ---- Gaussian likelihood -----------------------------------------------------------------------------------------------


class _Reduced(NamedTuple):
    """|y - X b|^2 = |R b_f + across b_i - z_f|^2 + |W gamma - z|^2 + rest, the flat coefficients b_f first."""

    W: Array  # (q, q)
    z: Array  # (q,)
    rest: float
    n: float  # weight of the rows less the flat columns
    log_det: float  # log |R|
    R: Array  # (k, k)
    across: Array  # (k, q)
    z_flat: Array  # (k,)


class GaussianNodes(NamedTuple):
    """gamma | theta_s, y ~ N(mean_s, T_s T_s') at nodes s, T (S, q, q), or its diagonal (S, q)."""

    logs: Array  # (S, K + 1): log alpha, log 1 / sigma^2
    mean: Array  # (S, q)
    T: Array
    log_det: Array  # (S,) of the precision
    rss: Array  # (S,) |z - W mean|^2


@dataclass(frozen=True, eq=False)
class GaussianSurface:
    """f(log tau_1, ..., log tau_K, log sigma), the last where sigma is unknown."""

    model: Model
    groups: tuple[ScaleGroup, ...]  # the unknown ones first

    @property
    def unknown(self) -> int:
        return sum(g.tau is not None for g in self.groups)

    @cached_property
    def _flat(self) -> list[int]:
        inside = {j for g in self.groups for j in g.columns}
        return [j for j in range(self.model.design.moments.p) if j not in inside]

    @cached_property
    def _reduced(self) -> _Reduced:
        moments = self.model.design.moments
        F, p = np.asarray(moments.factor, dtype=float), moments.p
        inside, flat = [j for g in self.groups for j in g.columns], self._flat
        # |y - X b|^2 = |R_ff b_f + R_fi b_i - z_f|^2 + |W b_i - z|^2 + rest: with flat columns first, integrating over
        # b_f takes one factor sigma sqrt(2 pi) for each, hence n - k, and 1 / |R_ff|.
        R, k = np.linalg.qr(F[:, [*flat, *inside, p]], mode="r"), len(flat)
        log_det = float(np.log(np.abs(np.diagonal(R)[:k])).sum())
        W, z = R[k:p, k:p], R[k:p, p]
        # b_i = mu + L'^-1 gamma: z <- z - W mu, and W <- W L'^-1 group by group.
        mu = np.concatenate([g.base.center(len(g.columns)) for g in self.groups])
        z = z - W @ mu
        ends = np.cumsum([len(g.columns) for g in self.groups])
        parts = [
            solve_triangular(g.root, W[:, e - len(g.columns) : e].T, lower=True).T for g, e in zip(self.groups, ends)
        ]
        rest = float(R[p, p] ** 2)
        return _Reduced(np.hstack(parts), z, rest, moments.weight - k, log_det, R[:k, :k], R[:k, k:p], R[:k, p])

    @cached_property
    def _coordinates(self) -> tuple[Array, Array, Array]:
        """W, z and V with gamma = V times the coordinates; W as its singular values where one group is all there is."""
        W, z = self._reduced.W, self._reduced.z
        if len(self.groups) > 1:
            return W, z, np.eye(len(z))
        # |z - W gamma|^2 = |U'z - diag(d) V'gamma|^2, and |gamma| = |V'gamma|: everything is diagonal.
        U, d, Vt = np.linalg.svd(W)
        return d, U.T @ z, Vt.T

    @cached_property
    def _of(self) -> Array:
        return np.repeat(np.arange(len(self.groups)), [len(g.columns) for g in self.groups])

    @cached_property
    def _map(self) -> Array:
        """d (log alpha, log 1/sigma^2) / d theta, (K + 1, len(theta))."""
        K, fixed = self.unknown, not self.model.unknown
        # log alpha_k = -2 log tau_k - 2 log sigma (the last in units of sigma), log 1/sigma^2 = -2 log sigma.
        E = np.zeros((len(self.groups) + 1, K + 1))
        E[:K, :K] = -2.0 * np.eye(K)
        E[:-1, K] = [-2.0 * g.base.sigma_units for g in self.groups]
        E[-1, K] = -2.0
        return E[:, :-1] if fixed else E

    def logs(self, theta: Array) -> Array:
        """(log alpha, log 1/sigma^2) at theta."""
        if self.model.unknown:
            return self._map @ theta
        sigma = np.log(self.model.fixed[self.model.noise_scale])
        held = [-2.0 * sigma * g.base.sigma_units for g in self.groups]
        return self._map @ theta + np.array([*held, -2.0 * sigma])

    def __call__(self, theta: Array) -> EvidencePoint:
        logs = self.logs(theta)
        alpha, noise = np.exp(logs[:-1]), float(np.exp(logs[-1]))
        one = self.solved(logs[None])
        T, m = one.T[0], one.mean[0]
        found = pieces(T @ T.T if T.ndim == 2 else T**2, m, alpha, self._of)
        size = np.bincount(self._of, minlength=len(alpha)).astype(float)
        evidence, rss = float(self._evidence(one)[0]), noise * float(one.rss[0] + self._reduced.rest)
        g, H = over_alpha(found, size)
        # the data term: S times its precision is 1 - S alpha, and its pull balances the priors'
        # d f / d log noise = (n - noise tr S W'W - noise RSS) / 2, where noise tr S W'W = r - sum_k alpha_k tr_k S.
        trace = len(m) - found.trace.sum()
        square = found.trace - found.square.sum(1)
        g = np.append(g, 0.5 * (self._reduced.n - trace - rss))
        # d^2 f / d log alpha_k d log noise = alpha_k noise tr_k(S W'W S) / 2 + alpha_k noise m_k'(S W'(W m - z))_k,
        # where noise W'(z - W m) = diag(alpha) m: what the data pull is what the priors hold.
        both = np.append(0.5 * square - found.cross.sum(1), 0.0)
        both[-1] = 0.5 * (trace - square.sum()) + found.cross.sum() - 0.5 * (trace + rss)
        full = np.zeros((len(g), len(g)))
        full[:-1, :-1], full[-1], full[:, -1] = H, both, both
        E, K = self._map, self.unknown
        at = EvidencePoint(evidence, E.T @ g, E.T @ full @ E, evidence, (size - found.trace)[:K])
        return with_priors(at, theta, self.priors)

    def solved(self, logs: Array) -> GaussianNodes:
        """Mean and spread of gamma at each of logs (S, K + 1), by orthogonal reduction of the rows and the prior."""
        W, z, _ = self._coordinates
        noise, a = np.exp(logs[:, -1:]), np.exp(logs[:, :-1])[:, self._of]
        if W.ndim == 1:
            # H = noise d^2 + alpha, m = noise d z / H, z - d m = alpha z / H, coordinate by coordinate.
            h = noise * W**2 + a
            mean, T, log_det = noise * W * z / h, 1.0 / np.sqrt(h), np.log(h).sum(1)
            return GaussianNodes(logs, mean, T, log_det, np.square(a * z / h).sum(1))
        q = len(z)
        rows = np.zeros((len(logs), 2 * q, q + 1))
        # [noise^(1/2) W; diag(alpha)^(1/2)] = Q R: R'R = H, T = R^-1, m = T Q'[noise^(1/2) z; 0], log |H| = 2 log |R|.
        rows[:, :q] = np.sqrt(noise)[:, :, None] * np.c_[W, z]
        rows[:, q + np.arange(q), np.arange(q)] = np.sqrt(a)
        R = np.linalg.qr(rows, mode="r")
        T = np.stack([inverse_upper(each) for each in R[:, :q, :q]])
        mean = (T @ R[:, :q, q:])[..., 0]
        log_det = 2.0 * np.log(np.abs(np.diagonal(R[:, :q, :q], axis1=1, axis2=2))).sum(1)
        return GaussianNodes(logs, mean, T, log_det, np.square(z - mean @ W.T).sum(1))

    def at_nodes(self, theta: Array) -> GaussianNodes:
        """Mean and spread of gamma at each of theta (S, d)."""
        return self.solved(np.array([self.logs(t) for t in theta]))

    def _evidence(self, at: GaussianNodes) -> Array:
        """log p(y | tau, sigma) at each node, (S,)."""
        # [n (log noise - log 2 pi) + sum_k n_k log alpha_k - log |H| - sum_k alpha_k |m_k|^2 - noise RSS] / 2 - log |R_ff| +
        # sum_i log(w_i) / 2, with noise = 1 / sigma^2.
        of, r = np.equal.outer(self._of, np.arange(len(self.groups))), self._reduced
        log_alpha, log_noise = at.logs[:, :-1], at.logs[:, -1]
        held = (np.exp(log_alpha) * (np.square(at.mean) @ of)).sum(1)
        fit = r.n * (log_noise - _LOG_2PI) + log_alpha @ of.sum(0) - at.log_det - held
        constant = 0.5 * self.model.design.moments.log_precision - r.log_det
        return 0.5 * (fit - np.exp(log_noise) * (at.rss + r.rest)) + constant

    @property
    def priors(self) -> list[AuxPrior]:
        """Those of the scales and of sigma, in the order of theta."""
        return [g.tau for g in self.groups if g.tau] + [self.model.aux_prior(a) for a in self.model.unknown]

    def blocks_of(self, count: int) -> list[Array]:
        """The numbers of so many nodes in blocks whose factors fit in memory together."""
        q = len(self._of)
        bytes_of_one = 24 * (q if len(self.groups) == 1 else q * q)
        return np.array_split(np.arange(count), min(count, 1 + count * bytes_of_one // MEMORY))

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        parts = [self._evidence(self.at_nodes(theta[part])) for part in self.blocks_of(len(theta))]
        return np.concatenate(parts) + log_prior_of_logs(theta, self.priors)

    @cached_property
    def coefficients(self) -> tuple[Array, Array, Array]:
        """c (p,), G (p, q) and F (p, k) with beta = c + G gamma + sigma F z, z standard normal."""
        r, p = self._reduced, self.model.design.moments.p
        inside, flat = [j for g in self.groups for j in g.columns], self._flat
        c, G, F = np.zeros(p), np.zeros((p, len(inside))), np.zeros((p, len(flat)))
        at = 0
        for g in self.groups:  # b_i = mu + L'^-1 gamma
            q, columns = len(g.columns), list(g.columns)
            c[columns] = g.base.center(q)
            G[columns, at : at + q] = solve_triangular(g.root, np.eye(q), lower=True).T
            at += q
        G = G @ self._coordinates[2]
        # b_f = R^-1 (z_f - across b_i) + sigma R^-1 z
        c[flat] = solve_triangular(r.R, r.z_flat - r.across @ c[inside]) if flat else 0.0
        if flat:
            G[flat] = -solve_triangular(r.R, r.across @ G[inside])
            F[flat] = solve_triangular(r.R, np.eye(len(flat)))
        return c, G, F

    def starts(self) -> list[Array]:
        """The best of a grid of common ratios of noise to prior, sigma at its maximum given each; with several scales also
        one where noise is a third of the response, since many columns may explain it all."""
        W, rest, n = self._reduced.W, self._reduced.rest, self._reduced.n
        # The mean of W'W's diagonal: the ratio sigma^2 / tau^2 at which data and prior weigh the same.
        typical = np.square(W).sum() / W.shape[1] or 1.0
        points = [self._at_ratio(typical * r, rest, n) for r in np.logspace(-10, 8, 19)]
        best = max(points, key=lambda theta: self(theta).value)
        if self.unknown == 1 or not self.model.unknown:
            return [best]
        third = np.log(0.3 * (self.model.design.moments.y_scale or 1.0))
        return [best, min(points, key=lambda theta: abs(theta[-1] - third))]

    def _at_ratio(self, ratio: float, rest: float, n: float) -> Array:
        at = self.solved(np.array([[*np.full(len(self.groups), np.log(ratio)), 0.0]]))
        m, rss = at.mean[0], float(at.rss[0])
        # Given the ratio r = sigma^2 / tau^2 in all groups: sigma^2 = (RSS + r |m|^2) / n, and tau = sigma r^(-1/2).
        least = 1e-20 * self.model.design.moments.y_scale**2
        sigma = self.model.noise_held or np.sqrt(max(rss + rest + ratio * m @ m, least, 1e-300) / max(n, 1.0))
        tau = [-0.5 * np.log(ratio) + (0.0 if g.base.sigma_units else np.log(sigma)) for g in self.groups if g.tau]
        return np.array([*tau, np.log(sigma)] if self.model.unknown else tau)


def log_prior_of_logs(theta: Array, priors: Sequence[AuxPrior]) -> Array:
    """The log densities of the scales, as of their logs, summed: (S,) from theta (S, d), whose first columns they are."""
    # p(log v) = p(v) v
    return sum(p.log_prob(np.exp(theta[:, i])) + theta[:, i] for i, p in enumerate(priors)) + np.zeros(len(theta))


def with_priors(at: EvidencePoint, theta: Array, priors: Sequence[AuxPrior]) -> EvidencePoint:
    """Times the density of each scale, as one of its log."""
    # As a density of the log: log p(v) + log v, whose two derivatives are the slopes.
    slopes = np.array([p.slopes(float(np.exp(t))) for p, t in zip(priors, theta)])
    log_p = sum(float(p.log_prob(np.exp(t))) + t for p, t in zip(priors, theta))
    return at._replace(
        value=at.value + log_p, gradient=at.gradient + slopes[:, 0], hessian=at.hessian + np.diag(slopes[:, 1])
    )


# ---- other smooth likelihoods ------------------------------------------------------------------------------------------


class _LaplaceMode(NamedTuple):
    """A mode over (beta, log aux) at given scales, on standardised columns and raw ones."""

    model: Model
    gamma: Array
    beta: Array
    aux: Mapping[str, float]
    local: LocalModel
    evidence: float


class LaplaceSurface:
    """f(log tau_1, ..., log tau_K) by a normal at the mode over (beta, log aux); the curvature of the mode is held in the
    Hessian, which steers only, and counted in the gradient by differences along the K ways in which the mode moves."""

    def __init__(self, model: Model, groups: tuple[ScaleGroup, ...], prior_at: Callable[[Array], Any]) -> None:
        self.model, self.groups, self._prior_at = model, groups, prior_at
        (_, m), at = model.shape, 0
        self._roots = np.zeros((model.shape[0] * m, sum(len(g.columns) for g in groups) * m))
        for g in groups:
            index = vec_entries(g.columns, m)
            self._roots[index, at : at + len(index)] = map_of_columns(g.root, m)
            at += len(index)
        self._of = np.repeat(np.arange(len(groups)), [len(g.columns) * m for g in groups])
        self._centre = np.zeros(model.shape)
        for g in groups:
            self._centre[list(g.columns)] = g.base.center(len(g.columns))[:, None]
        self._last: tuple[tuple[float, ...], ...] | None = None

    def __call__(self, theta: Array) -> EvidencePoint:
        at = self._mode(theta)
        model, S, k = at.model, np.linalg.inv(at.local.curvature), at.gamma.size
        T = map_of_columns(model.design.basis.T, model.shape[1])
        C = np.zeros((len(S), self._roots.shape[1]))  # gamma = C'(vec of the coordinates), aux not among them
        C[:k] = T.T @ self._roots
        alpha = np.exp(-2.0 * theta)
        m = self._roots.T @ (at.beta - self._centre).ravel()
        found = pieces(C.T @ S @ C, m, alpha, self._of)
        size = np.bincount(self._of).astype(float)
        g, H = over_alpha(found, size)
        # The mode solves grad = 0, so that d mode / d log alpha_k = -S C_k m_k alpha_k (implicit function theorem).
        moves = [-S @ (C[:, self._of == i] @ m[self._of == i]) * a for i, a in enumerate(alpha)]
        g = g - np.array([_log_det_slope(model, at.gamma, at.aux, at.local.curvature, d) for d in moves])
        # log alpha = -2 log tau: d/d log tau = -2 d/d log alpha, and 4 times the second derivatives.
        point = EvidencePoint(at.evidence, -2.0 * g, 4.0 * H, at.evidence, size - found.trace)
        return with_priors(point, theta, self.priors)

    @property
    def priors(self) -> list[AuxPrior]:
        """Those of the scales, in the order of theta."""
        return [g.tau for g in self.groups if g.tau]

    def _mode(self, theta: Array) -> "_LaplaceMode":
        model = self.model.with_prior(self._prior_at(np.exp(theta)))
        mode = find_mode(model, tol=1e-10, start=self._last)
        if mode.status is not Status.CONVERGED:
            raise Incompatible(
                f"the evidence has no mode to be approximated about at scales {np.exp(theta)}: {mode.status.value}"
            )
        basis = model.design.basis
        beta = basis.T @ mode.gamma
        self._last = tuple(map(tuple, beta))
        aux = dict(zip(model.unknown, np.exp(mode.log_aux)))
        local = model.value_grad_hessian_standardised(mode.gamma, **aux)
        # Laplace: log p(y | tau) = log p(y, mode) + (d/2) log 2 pi - log |H| / 2, with beta = T gamma: |T|^m more.
        shift = model.shape[1] * np.linalg.slogdet(basis.T)[1]
        log_det = np.linalg.slogdet(local.curvature)[1]
        evidence = local.value + shift + 0.5 * (len(local.curvature) * _LOG_2PI - log_det)
        return _LaplaceMode(model, mode.gamma, beta, aux, local, evidence)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        return np.array([self._mode(t).evidence for t in theta]) + log_prior_of_logs(theta, self.priors)

    def conditional(self, theta: Array) -> ConditionalNormal:
        """N(mode - H^-1 grad log |H|^(1/2), H^-1) of (vec beta, log aux): the mean to first order (Tierney & Kadane 1986)."""
        at = self._mode(theta)
        model, m = at.model, at.model.shape[1]
        root = solve_triangular(np.linalg.cholesky(at.local.curvature), np.eye(len(at.local.curvature)), lower=True).T
        to_raw = with_aux(map_of_columns(model.design.basis.T, m), len(at.aux))
        root = to_raw @ root
        centre = np.concatenate([at.beta.ravel(), np.log(list(at.aux.values()))])
        return ConditionalNormal(
            centre - root @ (root.T @ _log_det_gradient(model, at.beta, at.aux, root)), root, at.evidence
        )

    def starts(self) -> list[Array]:
        """The best of a few common scales about that where prior and data weigh the same."""
        model, (p, m) = self.model, self.model.shape
        J = replace(model, prior=Flat()).information(np.zeros((p, m)), **dict.fromkeys(model.unknown, 1.0))
        # Where alpha is the mean of the diagonal of L^-1 J L'^-1, J the information of the rows at beta = 0.
        L = np.linalg.inv(self._roots[(self._roots != 0).any(1)])
        index = (self._roots != 0).any(1)
        typical = float(np.trace(L @ J[np.ix_(index, index)] @ L.T)) / len(L) or 1.0
        points = [np.full(len(self.groups), -0.5 * np.log(typical * r)) for r in (10.0, 1.0, 0.1, 0.01, 0.001)]
        return [max(points, key=lambda theta: self(theta).value)]


def _log_det_slope(model: Model, gamma: Array, aux: Mapping[str, float], H: Array, move: Array) -> float:
    """d log |H|^(1/2) / dt along the mode's move, by a central difference of a thousandth of a standard error."""
    length = float(np.sqrt(move @ H @ move))
    if length == 0.0:
        return 0.0
    h, k = 1e-3 / length, gamma.size
    ends = []
    for t in (h, -h):
        there = {a: v * float(np.exp(t * d)) for (a, v), d in zip(aux.items(), move[k:])}
        curvature = model.value_grad_hessian_standardised(gamma + t * move[:k].reshape(gamma.shape), **there).curvature
        ends.append(0.5 * np.linalg.slogdet(curvature)[1])
    return float(ends[0] - ends[1]) / (2.0 * h)


def _log_det_gradient(model: Model, beta: Array, aux: Mapping[str, float], root: Array) -> Array:
    """grad log |H|^(1/2) over (vec beta, log aux) where root root' = H^-1.

    With z_i = (eta_i, log aux), W_i the curvature of row i over z_i and V_i = J_i H^-1 J_i' the covariance of z_i, it is
    sum_i J_i' t_i, t_ik = tr(V_i d W_i / d z_ik) / 2, of the rows. Independent entries of the priors, with curvature c_j, add
    (H^-1)_jj d c_j / 2; a normal prior has a constant one.
    """
    parts = model.design.fold(partial(_log_det_sums, model=model, beta=beta, aux=aux, root=root))
    out, S, k = np.concatenate([np.ravel(part) for part in parts]), np.square(root).sum(1), beta.size
    for i, (name, value) in enumerate(aux.items()):
        prior = model.aux_prior(name)
        near = [-prior.slopes(value * float(np.exp(h)))[1] for h in (_NEAR, -_NEAR)]
        out[k + i] += S[k + i] * (near[0] - near[1]) / (4 * _NEAR)
    for b in model.joint.blocks:
        if isinstance(b.prior, SmoothPrior) and not isinstance(b.prior, GaussianPrior | Flat | WholePrior):
            inside, at = beta[list(b.columns)], vec_entries(b.columns, beta.shape[1])
            h = _NEAR * np.sqrt(S[at]).reshape(inside.shape)
            slope = b.prior.slopes(inside - h)[1] - b.prior.slopes(inside + h)[1]
            out[at] += S[at] * (slope / (4 * h)).ravel()
    return out


def _log_det_sums(
    block: Block, *, model: Model, beta: Array, aux: Mapping[str, float], root: Array
) -> tuple[Array, ...]:
    (p, m), likelihood = beta.shape, model.likelihood
    assert isinstance(likelihood, SmoothLikelihood)
    pick = [*range(m), *(m + likelihood.aux.index(name) for name in aux)]

    def curvature(y: Array, eta: Array, precision: Array | None, z: Array) -> Array:
        """W (n, m + a, m + a) where (eta, log aux) is moved by z (m + a,)."""
        there = {name: v * float(np.exp(h)) for (name, v), h in zip(aux.items(), z[m:])}
        known = likelihood.at_rows({**model.fixed, **there}, precision)
        return likelihood.value_grad_hessian(y, eta + z[:m], **known).curvature[:, pick][:, :, pick]

    def part(some: Block) -> tuple[Array, Array]:
        eta = some.eta(beta)
        # J_i root, J_i = d z_i / d (vec beta, log aux): (n, m + a, r).
        of_eta = np.einsum("nj,jkr->nkr", some.X, root[: p * m].reshape(p, m, -1))
        J = np.concatenate([of_eta, np.broadcast_to(root[p * m :], (len(eta), len(aux), root.shape[1]))], 1)
        V, t = J @ J.transpose(0, 2, 1), np.empty((len(eta), m + len(aux)))
        for k, e in enumerate(_NEAR * np.eye(m + len(aux))):
            # d W_i / d z_ik by a central difference
            slope = curvature(some.y, eta, some.precision, e) - curvature(some.y, eta, some.precision, -e)
            t[:, k] = np.einsum("njl,njl->n", V, slope) / (4 * _NEAR)
        t = times_weights(t, some.weights)
        return some.X.T @ t[:, :m], t[:, m:].sum(0)

    return block.sweep(part, width=root.shape[1] * (m + len(aux)))


# ---- groups -----------------------------------------------------------------------------------------------------------


def as_groups(
    blocks: Sequence[BlockPrior], unknown: Mapping[int, AuxPrior], per_column: bool
) -> tuple[ScaleGroup, ...]:
    """The informative blocks, those of unknown scale first and column by column where each has its own."""
    first: list[ScaleGroup] = []
    known: list[ScaleGroup] = []
    for i, b in enumerate(blocks):
        if isinstance(b.prior, Flat):
            continue
        if i not in unknown:
            assert isinstance(b.prior, GaussianPrior)
            known.append(ScaleGroup(b.columns, b.prior, None, i))
            continue
        base: Prior = b.prior.base  # type: ignore[attr-defined]  # a ScaleMixture
        parts = [((j,), one(base, a)) for a, j in enumerate(b.columns)] if per_column else [(b.columns, base)]
        first += [ScaleGroup(columns, part, unknown[i], i) for columns, part in parts]  # type: ignore[arg-type]
    return (*first, *known)


def one(base: Prior, a: int) -> Prior:
    """The prior of column a alone, of a prior of independent columns."""
    fields: dict = {k: v[a] for k, v in vars(base).items() if isinstance(v, tuple)}
    return replace(base, **fields)  # type: ignore[type-var]
