"""The log evidence of a Gaussian model from the moments of its rows: f(theta) = log p(y | theta), with two derivatives.

Flat columns are eliminated first, |y - X b|^2 = |R b_f + across b_i - z_f|^2 + |W gamma - z|^2 + rest. With gamma = D u, A = W D,
noise = 1 / sigma^2, H = noise A'A + I, S = H^-1 and m = noise S A'z the mean of u given y,

    f = [n (log noise - log 2 pi) - log |H| - |m|^2 - noise (|z - A m|^2 + rest)] / 2 + constants

and over s_i = log D_ii, G = S o S its squared entries,

    d f / d s_i       = S_ii + m_i^2 - 1
    d^2 f / ds_i ds_j = 2 G_ij + 4 m_i S_ij m_j, on the diagonal less 2 (S_ii + m_i^2)

(MacKay 1992, in scales). For a single group with one scale H is diagonal in the
singular vectors of W, and a value costs q operations. This is the
restricted likelihood (REML), which integrates flat columns with density 1; for the
profiled one (ML) n includes the flat columns too, and |H| is computed before these are
eliminated.
"""

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.covariance import DenseCovariance, root_of_square
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.latent_groups import (
    LOG_2PI,
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    LikelihoodCriterion,
    NodeMixture,
    log_prior_of_logs,
    with_priors,
)
from probreg.kernels.ridge import DIGITS
from probreg.linalg import inverse_upper, solve_upper
from probreg.model.model import Model


class _Reduced(NamedTuple):
    """|y - X b|^2 = |R b_f + across b_i - z_f|^2 + |W gamma - z|^2 + rest, the flat coefficients b_f first."""

    W: Array  # (q, q)
    z: Array  # (q,)
    rest: float
    log_det: float  # log |R|
    R: Array  # (k, k)
    across: Array  # (k, q)
    z_flat: Array  # (k,)


@dataclass(frozen=True, eq=False)
class GaussianNodes:
    """gamma | theta_s, y ~ N(mean_s, T_s T_s') at nodes s, T (S, q, q), or its diagonal (S, q)."""

    log_noise: Array  # (S,)
    log_det: Array  # (S,) log |H| as it enters the value
    penalised: Array  # (S,) noise (|z - W mean|^2 + rest) + |m|^2
    D: Array  # (S, q)
    mean: Array  # (S, q)
    R: Array  # (S, q, q) with H = R'R, or its diagonal (S, q)
    # R of the |H| in the value, before flat columns are eliminated under ML
    value_factor: Array

    @cached_property
    def T(self) -> Array:
        """D R^-1."""
        if self.R.ndim == 2:
            return self.D / self.R
        return self.D[:, :, None] * np.array([inverse_upper(R) for R in self.R])


class NodesSurface(EvidenceSurface):
    """f(log hyperparameters, log sigma) of a Gaussian likelihood, with the last one if
    sigma is unknown, at many nodes together."""

    layout: ArrowLayout

    @property
    def has_sparse_border(self) -> bool:
        """Whether each node takes long, so that a search has few starts."""
        return False

    @abstractmethod
    def blocks_of(self, theta: Array) -> list[Array]:
        """Return the numbers of nodes theta (S, d) in blocks whose factors fit in
        memory."""

    @abstractmethod
    def at_nodes(self, theta: Array) -> Any:
        """The coefficients at each of theta (S, d), with `log_noise`, `log_det` and
        `penalised`."""

    @abstractmethod
    def _balance(self, other_hyper: Array) -> Array | float:
        """The ratio sigma^2 / tau^2 at which data and prior weigh the same."""

    @property
    @abstractmethod
    def _constant(self) -> float:
        """The part of the value that does not depend on theta."""

    @cached_property
    def _residual_weight(self) -> float:
        """n: the weight of the rows minus the number of integrated flat columns."""
        flat = len(self.layout.flat) * (self.criterion == "REML")
        return self.model.design.total - flat

    def _evidence(self, nodes: Any) -> Array:
        """log p(y | theta) at each node, (S,)."""
        # [n (log noise - log 2 pi) - log |H| - |m|^2 - noise RSS] / 2
        fit = self._residual_weight * (nodes.log_noise - LOG_2PI)
        return 0.5 * (fit - nodes.log_det - nodes.penalised) + self._constant

    def _values(self, theta: Array) -> Array:
        """log p(y | theta) of one block."""
        try:
            return self._evidence(self.at_nodes(theta))
        except np.linalg.LinAlgError:  # at one of them
            if len(theta) == 1:
                return np.array([-np.inf])
            return np.concatenate([self._values(each[None]) for each in theta])

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        values = np.empty(len(theta))
        for part in self.blocks_of(theta):
            values[part] = self._values(theta[part])
        return values - self.left_bound(theta) + log_prior_of_logs(theta, self.priors)

    def starts(self) -> list[Array]:
        """The best of a grid of common ratios of noise to prior, with sigma at its
        maximum given each.

        With several scales also a point where noise is a third of the response, because
        many columns may explain all of it.
        """
        same_noise = 0.05  # difference of two logs of noise scales
        # ratios of noise to prior, relative to equal weights of data and prior
        ratios = np.logspace(-10, 6, 17)[:: 2 if self.has_sparse_border else 1]
        points = [
            point
            for other_hyper in self.groups.starts()
            for point in self._at_ratios(
                other_hyper, np.multiply.outer(ratios, self._balance(other_hyper))
            )
        ]
        values = np.nan_to_num(self.values(np.array(points)), nan=-np.inf)
        best = points[int(np.argmax(values))]
        has_one_scale = self.groups.scaling.sum() == 1 and len(self.groups.priors) == 1
        if has_one_scale or not self.model.unknown or self.has_sparse_border:
            return [best]
        # among the points nearest to this noise, take the best
        distance = np.abs(np.array(points)[:, -1] - np.log(0.3 * self.response_scale))
        nearest = np.flatnonzero(distance <= distance.min() + same_noise)
        second = points[nearest[int(np.argmax(values[nearest]))]]
        return [best] if second is best else [best, second]

    def _at_ratios(self, other_hyper: Array, ratios: Array) -> Array:
        """Return theta (S, d) at ratios (S,) or (S, d) of sigma^2 to tau^2, given the
        other hyperparameters."""
        log_tau = -0.5 * np.log(ratios).reshape(len(ratios), -1)
        at_scales = partial(self.groups.at_scales, other_hyper, log_tau)
        if self.model.noise_held is not None:
            return at_scales(np.log(self.model.noise_held))
        # sigma^2 (RSS + |u|^2) / n at sigma = 1, the maximum over sigma^2 at each ratio
        theta = np.pad(at_scales(0.0), ((0, 0), (0, 1)))
        square = np.empty((len(theta), 1))
        for part in self.blocks_of(theta):
            square[part, 0] = self.at_nodes(theta[part]).penalised
        smallest = max(1e-20 * self.response_scale**2, 1e-300)
        variance = np.maximum(square, smallest) / max(self._residual_weight, 1.0)
        log_sigma = 0.5 * np.log(variance)
        return np.hstack([at_scales(log_sigma), log_sigma])


class GaussianSurface(NodesSurface):
    """f from moments of all columns."""

    tol = 1e-9
    secant = False
    dear = False

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
    ) -> None:
        super().__init__(model, groups, criterion)
        self.layout = ArrowLayout(model, groups, by_group=False)
        # (q,) 1 for coordinates with a scale in units of sigma, else 0
        self._relative = np.array([float(g.base.sigma_units) for g in groups.groups])[
            groups.of
        ]

    @property
    def response_scale(self) -> float:
        return self.model.design.moments.y_scale or 1.0

    @cached_property
    def _factors(self) -> tuple[Array, Array, Array]:
        """F A of the columns X A with L'(beta - mu) as coefficients, F of the flat
        columns, and F (y - X mu), with F'F the moments."""
        F = np.asarray(self.model.design.moments.factor, dtype=float)
        p = F.shape[1] - 1
        in_layout = F[:, :p] @ self.layout.map_to_frame
        q = len(self.groups.of)
        return (
            in_layout[:, :q],
            in_layout[:, q:],
            F[:, p] - F[:, :p] @ self.layout.centre,
        )

    @cached_property
    def _reduced_system(self) -> _Reduced:
        inside, flat, y = self._factors
        k = flat.shape[1]
        # With flat columns first, integrating over b_f takes one factor sigma sqrt(2 pi) for each, hence n - k, and 1 / |R|.
        R = np.linalg.qr(np.column_stack([flat, inside, y]), mode="r")
        return _Reduced(
            R[k:-1, k:-1],
            R[k:-1, -1],
            float(R[-1, -1] ** 2),
            float(np.log(np.abs(np.diagonal(R)[:k])).sum()),
            R[:k, :k],
            R[:k, k:-1],
            R[:k, -1],
        )

    @cached_property
    def _coordinates(self) -> tuple[Array, Array, Array]:
        """W, z and V with gamma = V times the coordinates; W as its singular values if
        there is only one scale."""
        W = self._reduced_system.W
        z = self._reduced_system.z
        if not self.groups.scalar:
            return W, z, np.eye(len(z))
        # |z - W gamma|^2 = |U'z - diag(d) V'gamma|^2, and |gamma| = |V'gamma|: everything is diagonal.
        return _diagonal(W, z)

    @cached_property
    def _before(self) -> Array:
        """W of the columns before flat ones are eliminated, or its singular values."""
        W = np.linalg.qr(self._factors[0], mode="r")
        if self.groups.scalar:
            return np.linalg.svd(W, compute_uv=False)
        return W

    def _log_scales(self, theta: Array) -> Array:
        """log D (S, q) at theta (S, d), including units of sigma."""
        return (
            self.groups.values(theta[:, : len(self.groups.priors)])
            - 0.5 * self.log_noise(theta)[:, None] * self._relative
        )

    def __call__(self, theta: Array) -> EvidencePoint:
        nodes = self.at_nodes(theta[None])
        _, J, curvature = self.groups.log_scales(theta[: len(self.groups.priors)])
        D = nodes.D[0]
        m = nodes.mean[0] / D
        S = _inverse(nodes.R[0])
        S_before = S if self.criterion == "REML" else _inverse(nodes.value_factor[0])
        evidence = float(self._evidence(nodes)[0])
        rss = float(nodes.penalised[0] - m @ m)
        derivatives = log_scale_derivatives(S, m, S_before, rss, self._residual_weight)
        gradient, hessian = derivatives.through(
            J, curvature, self._relative if self.model.unknown else None
        )
        trace = np.bincount(self.groups.of, 1.0 - derivatives.diagonal)
        effective = trace[self.groups.group_of]
        point = EvidencePoint(evidence, gradient, hessian, evidence, effective)
        return with_priors(self.with_left_bound(point, theta), theta, self.priors)

    def at_nodes(self, theta: Array) -> GaussianNodes:
        """Return mean and spread of gamma at each of theta (S, d)."""
        W, z, _ = self._coordinates
        log_noise = self.log_noise(theta)
        noise = np.exp(log_noise)
        D = np.exp(self._log_scales(theta))
        root_noise = np.sqrt(noise)[:, None]
        R, m = _factor(W, root_noise * D, root_noise * z)
        mean = D * m
        rss = np.square(z - mean * W if W.ndim == 1 else z - mean @ W.T).sum(1)
        penalised = noise * (rss + self._reduced_system.rest) + np.square(m).sum(1)
        value_factor = R
        if self.criterion == "ML":
            value_factor, _ = _factor(self._before, root_noise * D, root_noise * z)
        # log |R'R|
        diagonal = (
            value_factor if W.ndim == 1 else np.diagonal(value_factor, axis1=1, axis2=2)
        )
        log_det = 2.0 * np.log(np.abs(diagonal)).sum(1)
        return GaussianNodes(log_noise, log_det, penalised, D, mean, R, value_factor)

    @property
    def _constant(self) -> float:
        # sum_i log(w_i) / 2 - log |R|
        flat = self._reduced_system.log_det * (self.criterion == "REML")
        return 0.5 * self.model.design.moments.log_precision - flat

    def blocks_of(self, theta: Array) -> list[Array]:
        """Return the numbers of nodes theta (S, d) in blocks whose factors fit in
        memory, with similar coordinates together."""
        memory = 16 * 2**20  # bytes of factors in memory at once
        count = len(theta)
        q = len(self.groups.of)
        if self.groups.scalar:
            order = np.arange(count)
        else:
            log_scale = self._log_scales(theta) + 0.5 * self.log_noise(theta)[:, None]
            informative = _is_informative(self._coordinates[0], np.exp(log_scale))
            order = np.argsort(informative.sum(1), kind="stable")
        bytes_of_one = 24 * (q if self.groups.scalar else q * q)
        blocks = min(count, 1 + count * bytes_of_one // memory)
        if blocks == 1:
            return [order]
        return np.array_split(order, blocks)

    @cached_property
    def coefficients(self) -> tuple[Array, Array, Array]:
        """c (p,), G (p, q) and F (p, k) with beta = c + G gamma + sigma F z, z standard normal."""
        r = self._reduced_system
        V = self._coordinates[2]
        c = self.layout.centre.copy()
        G = self.layout.map_to_frame[:, : len(V)] @ V
        flat = list(self.layout.flat)
        F = np.zeros((len(c), len(flat)))
        if flat:
            # b_f = R^-1 (z_f - across gamma) + sigma R^-1 z
            right = np.column_stack([r.z_flat, -r.across @ V, np.eye(len(flat))])
            solved = solve_upper(r.R, right)
            c[flat], G[flat], F[flat] = (
                solved[:, 0],
                solved[:, 1 : -len(flat)],
                solved[:, -len(flat) :],
            )
        return c, G, F

    def _balance(self, other_hyper: Array) -> float:
        # the mean of the diagonal of D W'W D
        W = self._reduced_system.W
        base = np.exp(self.groups.log_scales(other_hyper).value)
        return float(np.square(W * base).sum() / W.shape[1]) or 1.0

    def mixture(
        self, theta: Array, weight: Array, chosen: Array, rng: np.random.Generator
    ) -> NodeMixture:
        c, G, F = self.coefficients
        q = G.shape[1]
        spread = np.zeros((q, q))
        gammas = np.empty((len(chosen), q))
        gamma = np.empty((len(theta), q))
        inner = np.empty((len(theta), len(c)))
        for part in self.blocks_of(theta):
            nodes_of_block = self.at_nodes(theta[part])
            w, gamma[part], T = weight[part], nodes_of_block.mean, nodes_of_block.T
            # E[cov(gamma | theta)] = sum_s w_s T_s T_s'
            if T.ndim == 2:
                spread += np.diag(w @ T**2)
                inner[part] = T**2 @ np.square(G).T
            else:
                spread += np.einsum("s,sij,skj->ik", w, T, T, optimize=True)
                inner[part] = np.square(G @ T).sum(-1)
            place = np.full(len(theta), -1)
            place[part] = np.arange(len(part))
            mine = np.flatnonzero(place[chosen] >= 0)  # draws of these nodes
            z = rng.standard_normal((len(mine), q))
            T = T[place[chosen[mine]]]
            gammas[mine] = gamma[chosen[mine]] + (
                T * z if T.ndim == 2 else np.einsum("sij,sj->si", T, z)
            )
        mean = weight @ gamma
        deviation = np.sqrt(weight)[:, None] * (gamma - mean)
        sigma = np.exp(-0.5 * self.log_noise(theta))
        # cov(beta) = G (E[cov] + cov(E)) G' + E[sigma^2] F F'
        root = np.hstack(
            [
                G @ root_of_square(spread + deviation.T @ deviation),
                np.sqrt(weight @ sigma**2) * F,
            ]
        )
        beta = (
            c
            + gammas @ G.T
            + sigma[chosen, None]
            * (rng.standard_normal((len(chosen), F.shape[1])) @ F.T)
        )
        # beta_j | theta ~ N(c_j + G_j m, |G_j T|^2 + sigma^2 |F_j|^2)
        sd = np.sqrt(inner + sigma[:, None] ** 2 * np.square(F).sum(1))
        covariance = DenseCovariance.of_raw_root(self.model.design.frame, 1, root)
        return NodeMixture(beta, c + G @ mean, covariance, weight, c + gamma @ G.T, sd)


def _factor(W: Array, scale: Array, y: Array) -> tuple[Array, Array]:
    """R (S, q, q) with R'R = A'A + I, A = W diag(scale), and (R'R)^-1 A'y at S nodes of
    scale and y (S, q), by orthogonal reduction; diagonals for a diagonal W."""
    if W.ndim == 1:
        A = W * scale
        h = np.square(A) + 1.0
        return np.sqrt(h), A * y / h
    # without information u is N(0, I) as before
    informative = np.flatnonzero(_is_informative(W, scale).any(0))
    S, all_q = y.shape
    q = len(informative)
    # [A, y; I, 0] = Q [R, R m]
    rows = np.zeros((S, all_q + q, q + 1))
    rows[:, :all_q, :q] = W[:, informative] * scale[:, None, informative]
    rows[:, :all_q, q] = y
    rows[:, all_q + np.arange(q), np.arange(q)] = 1.0
    reduced = np.linalg.qr(rows, mode="r")
    R = np.broadcast_to(np.eye(all_q), (S, all_q, all_q)).copy()
    R[:, informative[:, None], informative] = reduced[:, :q, :q]
    m = np.zeros((S, all_q))
    m[:, informative] = [solve_upper(v[:q, :q], v[:q, q]) for v in reduced]
    return R, m


def _is_informative(W: Array, scale: Array) -> Array:
    """(S, q) bool: coordinates that change the response by more than rounding."""
    smallest = 1e-11  # of noise^(1/2) D |W_j|
    return np.asarray(scale * np.linalg.norm(W, axis=0) > smallest)


def _inverse(R: Array) -> Array:
    """(R'R)^-1, or its diagonal."""
    if R.ndim == 1:
        return R**-2
    T = inverse_upper(R)
    return np.asarray(T @ T.T)


def _diagonal(W: Array, z: Array) -> tuple[Array, Array, Array]:
    """d, U'z and V of W = U diag(d) V' (q, q), by the eigenvalues of W'W, a third of
    the work, if these are accurate."""
    if W.shape[0] == W.shape[1] and len(W):
        square, V = np.linalg.eigh(W.T @ W)
        if square[0] > DIGITS * square[-1]:
            d = np.sqrt(square)
            return d, V.T @ (W.T @ z) / d, V
    U, d, Vt = np.linalg.svd(W)
    return d, U.T @ z, Vt.T


class LogScaleDerivatives(NamedTuple):
    """Derivatives of f over s = log D (q,) and log noise; the second ones over s as a
    matrix, or its diagonal."""

    s: Array
    noise: float
    ss: Array
    s_noise: Array
    noise_noise: float
    diagonal: Array  # of H^-1 as it enters log |H|

    def through(
        self, J: Array, curvature: Array, relative: Array | None
    ) -> tuple[Array, Array]:
        """Gradient and Hessian over theta: s = s(h) + relative log sigma with slopes J (q, d), log noise = -2 log sigma."""
        d = J.shape[1]
        jn = np.zeros(J.shape[1])
        if relative is not None:
            J = np.column_stack([J, relative])
            jn = np.append(jn, -2.0)
        ss = J.T @ (self.ss @ J if self.ss.ndim == 2 else self.ss[:, None] * J)
        mixed = np.outer(J.T @ self.s_noise, jn)
        hessian = ss + mixed + mixed.T + self.noise_noise * np.outer(jn, jn)
        hessian[:d, :d] += np.einsum("i,ijk->jk", self.s, curvature)
        return J.T @ self.s + self.noise * jn, hessian


def log_scale_derivatives(
    S: Array, m: Array, before: Array, rss: float, n: float
) -> LogScaleDerivatives:
    """From S, m and noise RSS; `before` is the inverse that enters log |H|, S itself
    under REML."""
    if S.ndim == 1:
        diagonal = before
        square = np.square(before)
        Sm = S * m
        ss = 2.0 * square + 4.0 * m * m * S - 2.0 * (diagonal + m * m)
        squares = square
    else:
        diagonal = np.diagonal(before)
        square = np.square(before)
        Sm = S @ m
        ss = 2.0 * square + 4.0 * m[:, None] * S * m - 2.0 * np.diag(diagonal + m * m)
        squares = square.sum(1)
    # d f / d log noise = (n - tr(I - S) - noise RSS) / 2; over s_i too it is sum_j G_ij - S_ii + 2 m_i (S m)_i.
    noise = 0.5 * (n - float((1.0 - diagonal).sum()) - rss)
    s_noise = squares - diagonal + 2.0 * m * Sm
    noise_noise = 0.5 * float((squares - diagonal).sum()) + float(m @ Sm) - 0.5 * rss
    return LogScaleDerivatives(
        diagonal - 1.0 + m * m, noise, ss, s_noise, noise_noise, diagonal
    )
