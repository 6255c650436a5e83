"""The log evidence of a Gaussian model from the moments of its rows: f(theta) = log p(y | theta), with two derivatives.

Flat columns are eliminated first, |y - X b|^2 = |R b_f + across b_i - z_f|^2 + |W gamma - z|^2 + rest. With gamma = D u, A = W D,
noise = 1 / sigma^2, H = noise A'A + I, S = H^-1 and m = noise S A'z the mean of u given y,

    f = [n (log noise - log 2 pi) - log |H| - |m|^2 - noise (|z - A m|^2 + rest)] / 2 + constants

and over s_i = log D_ii, G = S o S its squared entries,

    d f / d s_i       = S_ii + m_i^2 - 1
    d^2 f / ds_i ds_j = 2 G_ij + 4 m_i S_ij m_j, on the diagonal less 2 (S_ii + m_i^2)

(MacKay 1992, in scales). In one group with one scale H is diagonal in the singular vectors of W, and a value costs q operations
(`one_scale`).
This is the restricted likelihood (REML), where flat columns are integrated with density 1; for the profiled one (ML) n counts the flat
columns too, and |H| is that of the columns before these are eliminated.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import (
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    log_prior_of_logs,
    with_priors,
)
from probreg.inference.exact.one_scale import LOG_2PI, OneScale
from probreg.kernels.ridge import DIGITS
from probreg.model.model import Model
from probreg.numerics.linalg import inverse_upper, solve_upper
from probreg.priors import AuxPrior

LikelihoodCriterion = Literal["REML", "ML"]
MEMORY = 16 * 2**20  # bytes of the factors that are held at once
_RATIOS = np.logspace(
    -10, 8, 19
)  # of noise to prior, in units of that at which data and prior weigh the same
_NOTHING = -25.3  # log 1e-11


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

    log_noise: Array  # (S,)
    D: Array  # (S, q)
    mean: Array  # (S, q)
    T: Array
    log_det: Array  # (S,) of H
    rss: Array  # (S,) |z - W mean|^2
    size: Array  # (S,) |m|^2


@dataclass(frozen=True, eq=False)
class GaussianSurface(EvidenceSurface):
    """f(log hyperparameters, log sigma), the last where sigma is unknown."""

    model: Model
    groups: LatentGroups
    criterion: LikelihoodCriterion = "REML"

    tol = 1e-9
    secant = False
    dear = False

    @property
    def response_scale(self) -> float:
        return self.model.design.moments.y_scale or 1.0

    @cached_property
    def inside(self) -> list[int]:
        """The columns of the groups."""
        return [j for g in self.groups.groups for j in g.columns]

    @cached_property
    def flat(self) -> list[int]:
        """The columns with a flat prior."""
        there = set(self.inside)
        return [j for j in range(self.model.design.moments.p) if j not in there]

    @cached_property
    def _reduced(self) -> _Reduced:
        moments = self.model.design.moments
        F = np.asarray(moments.factor, dtype=float)
        p = moments.p
        k = len(self.flat)
        # With flat columns first, integrating over b_f takes one factor sigma sqrt(2 pi) for each, hence n - k, and 1 / |R|.
        order = [*self.flat, *self.inside, p]
        if order == list(range(p + 1)):
            R = F
        else:
            R = np.linalg.qr(F[:, order], mode="r")
        log_det = float(np.log(np.abs(np.diagonal(R)[:k])).sum())
        W = R[k:p, k:p]
        z = R[k:p, p]
        # b_i = mu + L'^-1 gamma: z <- z - W mu, and W <- W L'^-1 group by group.
        mu = np.concatenate([g.base.center(len(g.columns)) for g in self.groups.groups])
        rest = float(R[p, p] ** 2)
        n = moments.weight - k
        return _Reduced(
            self._scaled(W),
            z - W @ mu,
            rest,
            n,
            log_det,
            R[:k, :k],
            R[:k, k:p],
            R[:k, p],
        )

    def _scaled(self, W: Array) -> Array:
        """W L'^-1, group by group."""
        ends = np.cumsum([len(g.columns) for g in self.groups.groups])
        parts = [W[:, e - len(g.columns) : e] for g, e in zip(self.groups.groups, ends)]
        sd = [g.base.independent(len(g.columns)) for g in self.groups.groups]
        each = zip(self.groups.groups, parts, sd)
        return np.hstack(
            [
                w * s if s is not None else solve_triangular(g.root, w.T, lower=True).T
                for g, w, s in each
            ]
        )

    @cached_property
    def _coordinates(self) -> tuple[Array, Array, Array]:
        """W, z and V with gamma = V times the coordinates; W as its singular values where one scale is all there is."""
        W = self._reduced.W
        z = self._reduced.z
        if not self.groups.scalar:
            return W, z, np.eye(len(z))
        # |z - W gamma|^2 = |U'z - diag(d) V'gamma|^2, and |gamma| = |V'gamma|: everything is diagonal.
        return _diagonal(W, z)

    @cached_property
    def _before(self) -> Array:
        """W of the columns before flat ones are eliminated, or its singular values."""
        moments = self.model.design.moments
        W = self._scaled(
            np.linalg.qr(
                np.asarray(moments.factor, dtype=float)[:, self.inside], mode="r"
            )
        )
        if self.groups.scalar:
            return np.linalg.svd(W, compute_uv=False)
        return W

    @property
    def hypers(self) -> int:
        """The number of hyperparameters, without sigma."""
        return len(self.groups.priors)

    def log_noise(self, theta: Array) -> Array:
        """log 1 / sigma^2 (S,) at theta (S, d)."""
        if self.model.unknown:
            return -2.0 * theta[:, -1]
        return np.full(
            len(theta), -2.0 * np.log(self.model.fixed[self.model.noise_scale])
        )

    @cached_property
    def _relative(self) -> Array:
        """(q,) 1 for coordinates whose scale is in units of sigma, else 0."""
        return np.array([float(g.base.sigma_units) for g in self.groups.groups])[
            self.groups.of
        ]

    def _log_scales(self, theta: Array) -> Array:
        """log D (S, q) at theta (S, d), units of sigma counted."""
        return (
            self.groups.values(theta[:, : self.hypers])
            - 0.5 * self.log_noise(theta)[:, None] * self._relative
        )

    def __call__(self, theta: Array) -> EvidencePoint:
        if self.groups.scalar:
            return self._at_one_scale(theta)
        one = self.at_nodes(theta[None])
        log_noise = float(self.log_noise(theta[None])[0])
        _, J, curvature = self.groups.log_scales(theta[: self.hypers])
        D = one.D[0]
        T = one.T[0] / (D[:, None] if one.T.ndim == 3 else D)
        m = one.mean[0] / D
        S = T @ T.T if T.ndim == 2 else T**2
        if self.criterion == "REML":
            before = S
        else:
            before = self._inverse_before(D, np.exp(log_noise))
        evidence = float(self._evidence(one)[0])
        rss = float(np.exp(log_noise) * (one.rss[0] + self._reduced.rest))
        over = log_scale_derivatives(S, m, before, rss, self._n)
        gradient, hessian = over.through(
            J, curvature, self._relative if self.model.unknown else None
        )
        for first, left in self._left:
            # less left tau^2 / (2 sigma^2), whose log has the slopes 2 d log tau - 2 d log sigma
            own = 0.5 * left * D[first] ** 2 * float(np.exp(log_noise))
            slope = np.append(2.0 * J[first], 2.0 * self._relative[first] - 2.0)[
                : len(theta)
            ]
            gradient = gradient - own * slope
            hessian = hessian - own * np.outer(slope, slope)
        trace = np.bincount(self.groups.of, 1.0 - over.diagonal)
        effective = trace[self.groups.group_of]
        return with_priors(
            EvidencePoint(evidence, gradient, hessian, evidence, effective),
            theta,
            self.priors,
        )

    @cached_property
    def _one_scale(self) -> OneScale:
        """The evidence over the one scale there is, and the noise."""
        d, z, _ = self._coordinates
        square = np.square(d)
        if self.criterion == "ML":
            before = np.square(self._before)
        else:
            before = square
        left = sum(left for _, left in self._left)
        return OneScale(
            square,
            np.square(z),
            before,
            self._reduced.rest,
            self._n,
            self._constant,
            left,
        )

    def _ratio_and_noise(self, theta: Array) -> tuple[Array, Array]:
        """b = log noise, and a = log(noise D^2) before it, where one scale is all there is: (S,) each at theta (S, d)."""
        b = self.log_noise(theta)
        # D = tau, times sigma where it is in its units
        return 2.0 * theta[:, : self.hypers].sum(1) + (
            1.0 - float(self._relative[0])
        ) * b, b

    def _at_one_scale(self, theta: Array) -> EvidencePoint:
        hypers = self.hypers
        relative = float(self._relative[0])
        (a,), (b,) = self._ratio_and_noise(theta[None])
        at = self._one_scale.derivatives(a, b)
        slopes = np.zeros((2, len(theta)))
        slopes[0, :hypers] = 2.0
        slopes[:, hypers:] = [[2.0 * relative - 2.0], [-2.0]]
        gradient = at.gradient @ slopes
        hessian = slopes.T @ at.hessian @ slopes
        point = EvidencePoint(
            at.value, gradient, hessian, at.value, np.full(hypers, at.effective)
        )
        return with_priors(point, theta, self.priors)

    @property
    def _n(self) -> float:
        return self._reduced.n + len(self.flat) * (self.criterion == "ML")

    def _inverse_before(self, D: Array, noise: float) -> Array:
        """(noise D W'W D + I)^-1 of the columns before flat ones are eliminated, or its diagonal."""
        W = self._before
        if W.ndim == 1:
            return 1.0 / (noise * np.square(W * D) + 1.0)
        A = np.vstack([np.sqrt(noise) * W * D, np.eye(len(D))])
        T = inverse_upper(np.linalg.qr(A, mode="r"))
        return np.asarray(T @ T.T)

    def at_nodes(self, theta: Array, *, spread: bool = True) -> GaussianNodes:
        """Mean and spread of gamma at each of theta (S, d), by orthogonal reduction of the rows and the prior; T is empty without
        `spread`."""
        W, z, _ = self._coordinates
        log_noise = self.log_noise(theta)
        log_D = self._log_scales(theta)
        noise = np.exp(log_noise)[:, None]
        D = np.exp(log_D)
        if W.ndim == 1:
            # h = noise d^2 D^2 + 1, m = noise d D z / h, z - d D m = z / h, coordinate by coordinate.
            h = noise * np.square(W * D) + 1.0
            m = noise * W * D * z / h
            size = np.square(m).sum(1)
            rss = np.square(z / h).sum(1)
            return GaussianNodes(
                log_noise, D, D * m, D / np.sqrt(h), np.log(h).sum(1), rss, size
            )
        kept = np.flatnonzero(self._tells(theta).any(0))
        q = len(kept)
        all_q = len(z)
        rows = np.zeros((len(theta), all_q + q, q + 1))
        # [noise^(1/2) W D; I] = Q R: R'R = H, T = R^-1, m = T Q'[noise^(1/2) z; 0], log |H| = 2 log |R|.
        rows[:, :all_q, :q] = np.sqrt(noise)[:, :, None] * W[:, kept] * D[:, None, kept]
        rows[:, :all_q, q] = np.sqrt(noise) * z
        rows[:, all_q + np.arange(q), np.arange(q)] = 1.0
        R = np.linalg.qr(rows, mode="r")
        m = np.zeros((len(theta), all_q))
        m[:, kept] = [solve_triangular(each[:q, :q], each[:q, q]) for each in R]
        log_det = 2.0 * np.log(np.abs(np.diagonal(R[:, :q, :q], axis1=1, axis2=2))).sum(
            1
        )
        mean = D * m
        size = np.square(m).sum(1)
        T = np.empty((0, all_q, all_q))
        if spread:  # of what tells nothing u is N(0, I) as before
            T = np.zeros((len(theta), all_q, all_q))
            T[:, np.arange(all_q), np.arange(all_q)] = 1.0
            T[:, kept[:, None], kept] = [inverse_upper(each) for each in R[:, :q, :q]]
            T *= D[:, :, None]
        return GaussianNodes(
            log_noise, D, mean, T, log_det, np.square(z - mean @ W.T).sum(1), size
        )

    def _tells(self, theta: Array) -> Array:
        """(S, q) bool: coordinates that change the response by more than rounding, noise D^2 |W_j|^2 > 1e-22."""
        W = self._coordinates[0]
        if W.ndim == 1:
            size = np.abs(W)
        else:
            size = np.linalg.norm(W, axis=0)
        with np.errstate(divide="ignore"):
            return np.asarray(
                self._log_scales(theta)
                + 0.5 * self.log_noise(theta)[:, None]
                + np.log(size)
                > _NOTHING
            )

    def _evidence(self, at: GaussianNodes) -> Array:
        """log p(y | theta) at each node, (S,)."""
        # [n (log noise - log 2 pi) - log |H| - |m|^2 - noise RSS] / 2 - log |R| + sum_i log(w_i) / 2
        fit = self._n * (at.log_noise - LOG_2PI) - self._log_det(at) - at.size
        noise = np.exp(at.log_noise)
        # a basis of few anchors: less sum_g left_g tau_g^2 / (2 sigma^2), a lower bound (Titsias 2009)
        bound = sum(
            (left * np.square(at.D[:, first]) for first, left in self._left),
            np.zeros(len(noise)),
        )
        return (
            0.5 * (fit - noise * (at.rss + self._reduced.rest + bound)) + self._constant
        )

    @property
    def _constant(self) -> float:
        if self.criterion == "REML":
            flat = self._reduced.log_det
        else:
            flat = 0.0
        return 0.5 * self.model.design.moments.log_precision - flat

    @cached_property
    def _left(self) -> list[tuple[int, float]]:
        """The first coordinate of each group whose basis leaves something of the rows, and how much."""
        ends = np.cumsum([0, *(len(g.columns) for g in self.groups.groups)])
        return [(int(a), g.left) for a, g in zip(ends, self.groups.groups) if g.left]

    def _log_det(self, at: GaussianNodes) -> Array:
        """log |H| (S,), of the columns before flat ones are eliminated under ML."""
        if self.criterion == "REML":
            return at.log_det
        W = self._before
        q = len(self.groups.of)
        noise = np.exp(0.5 * at.log_noise)[:, None]
        if W.ndim == 1:
            return np.log1p(np.square(noise * W * at.D)).sum(1)
        rows = np.concatenate(
            [
                noise[:, :, None] * W * at.D[:, None, :],
                np.broadcast_to(np.eye(q), (len(at.D), q, q)),
            ],
            1,
        )
        R = np.linalg.qr(rows, mode="r")
        return np.asarray(2.0 * np.log(np.abs(np.diagonal(R, axis1=1, axis2=2))).sum(1))

    @cached_property
    def priors(self) -> list[AuxPrior]:
        """Those of the hyperparameters and of sigma, in the order of theta."""
        return self.groups.priors + [
            self.model.aux_prior(a) for a in self.model.unknown
        ]

    def blocks_of(self, theta: Array) -> list[Array]:
        """The numbers of nodes theta (S, d) in blocks whose factors fit in memory together, those of like coordinates side by side."""
        count = len(theta)
        q = len(self.groups.of)
        if self.groups.scalar:
            order = np.arange(count)
        else:
            order = np.argsort(self._tells(theta).sum(1), kind="stable")
        bytes_of_one = 24 * (q if self.groups.scalar else q * q)
        blocks = min(count, 1 + count * bytes_of_one // MEMORY)
        if blocks == 1:
            return [order]
        return np.array_split(order, blocks)

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        out = np.empty(len(theta))
        for part in self.blocks_of(theta):
            if self.groups.scalar:
                out[part] = self._one_scale.values(*self._ratio_and_noise(theta[part]))
            else:
                out[part] = self._evidence(self.at_nodes(theta[part], spread=False))
        return out + log_prior_of_logs(theta, self.priors)

    @cached_property
    def coefficients(self) -> tuple[Array, Array, Array]:
        """c (p,), G (p, q) and F (p, k) with beta = c + G gamma + sigma F z, z standard normal."""
        r = self._reduced
        p = self.model.design.moments.p
        flat = self.flat
        V = self._coordinates[2]
        c = np.zeros(p)
        G = np.zeros((p, len(self.inside)))
        F = np.zeros((p, len(flat)))
        at = 0
        for g in (
            self.groups.groups
        ):  # b_i = mu + L'^-1 gamma, gamma = V times the coordinates
            q = len(g.columns)
            columns = list(g.columns)
            sd = g.base.independent(len(g.columns))
            rows = V[at : at + q]
            c[columns] = g.base.center(q)
            if sd is not None:
                G[columns] = sd[:, None] * rows
            else:
                G[columns] = solve_triangular(g.root, rows, lower=True, trans="T")
            at += q
        if flat:
            # b_f = R^-1 (z_f - across b_i) + sigma R^-1 z
            right = np.column_stack(
                [
                    r.z_flat - r.across @ c[self.inside],
                    -r.across @ G[self.inside],
                    np.eye(len(flat)),
                ]
            )
            left = solve_upper(r.R, right)
            c[flat], G[flat], F[flat] = (
                left[:, 0],
                left[:, 1 : -len(flat)],
                left[:, -len(flat) :],
            )
        return c, G, F

    def mean(self, theta: Array) -> Array:
        """The posterior mean (p,) of beta given theta."""
        c, G, _ = self.coefficients
        return c + G @ self.at_nodes(theta[None], spread=False).mean[0]

    def posterior(self, theta: Array) -> tuple[Array, Array, float]:
        """Mean (p,) and covariance (p, p) of beta given theta, the latter in units of sigma^2, and the least penalised sum of squares:
        what a reduction of the rows and the prior together gives, from the one decomposition of all scales."""
        at, noise, (c, G, F) = (
            self.at_nodes(theta[None]),
            float(np.exp(self.log_noise(theta[None])[0])),
            self.coefficients,
        )
        T = at.T[0]
        # beta = c + G (mean + T u) + sigma F v with u and v standard normal
        A = np.hstack([np.sqrt(noise) * (G * T if T.ndim == 1 else G @ T), F])
        # RSS + |m|^2 / noise, m being in prior standard deviations
        return (
            c + G @ at.mean[0],
            A @ A.T,
            float(at.rss[0] + self._reduced.rest + at.size[0] / noise),
        )

    def starts(self) -> list[Array]:
        """The best of a grid of common ratios of noise to prior, sigma at its maximum given each; with several scales also
        one where noise is a third of the response, since many columns may explain it all."""
        W = self._reduced.W
        points = []
        for others in self.groups.starts():
            base = np.exp(self.groups.log_scales(others).value)
            # The mean of the diagonal of D W'W D: the ratio sigma^2 / tau^2 at which data and prior weigh the same.
            typical = np.square(W * base).sum() / W.shape[1] or 1.0
            points += list(self._at_ratios(others, typical * _RATIOS))
        found = self.values(np.array(points))
        best = points[int(np.argmax(np.where(np.isnan(found), -np.inf, found)))]
        if (self.groups.scales == 1 and self.hypers == 1) or not self.model.unknown:
            return [best]
        third = np.log(0.3 * self.response_scale)
        return [best, min(points, key=lambda theta: abs(theta[-1] - third))]

    def _at_ratios(self, others: Array, ratios: Array) -> Array:
        """The scales at ratios (S,) of sigma^2 / tau^2 common to all groups, the other hyperparameters given, and sigma at its
        maximum: theta (S, d)."""
        W, z, _ = self._coordinates
        D = np.exp(self.groups.log_scales(others).value)
        # min |z - W D u|^2 + ratio |u|^2
        if W.ndim == 1:
            A = W * D
            least = (
                ratios[:, None] / (np.square(A) + ratios[:, None]) * np.square(z)
            ).sum(1)
        else:
            q = len(z)
            stacked = (
                np.vstack([np.c_[W * D, z], np.sqrt(r) * np.eye(q, q + 1)])
                for r in ratios
            )
            least = np.array(
                [np.linalg.qr(rows, mode="r")[q, q] ** 2 for rows in stacked]
            )
        # sigma^2 = (RSS + r |u|^2) / n, and tau = sigma r^(-1/2).
        square = np.maximum(
            least + self._reduced.rest,
            max(1e-20 * self.model.design.moments.y_scale**2, 1e-300),
        )
        held = self.model.noise_held
        if held is None:
            sigma = 0.5 * np.log(square / max(self._n, 1.0))
        else:
            sigma = np.full(len(ratios), np.log(held))
        thetas = self.groups.at_scales(
            others, -0.5 * np.log(ratios)[:, None], sigma[:, None]
        )
        if self.model.unknown:
            return np.column_stack([thetas, sigma])
        return thetas


def _diagonal(W: Array, z: Array) -> tuple[Array, Array, Array]:
    """d, U'z and V of W = U diag(d) V' (q, q): by the eigenvalues of W'W, a third of the work, where these have the digits."""
    if W.shape[0] == W.shape[1] and len(W):
        square, V = np.linalg.eigh(W.T @ W)
        if square[0] > DIGITS * square[-1]:
            d = np.sqrt(square)
            return d, V.T @ (W.T @ z) / d, V
    U, d, Vt = np.linalg.svd(W)
    return d, U.T @ z, Vt.T


class LogScaleDerivatives(NamedTuple):
    """Of f over s = log D (q,) and log noise; those over s twice as a matrix, or its diagonal."""

    s: Array
    noise: float
    ss: Array
    s_noise: Array
    noise_noise: float
    diagonal: Array  # of H^-1 as it stands in log |H|

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
        both = np.outer(J.T @ self.s_noise, jn)
        hessian = ss + both + both.T + self.noise_noise * np.outer(jn, jn)
        hessian[:d, :d] += np.einsum("i,ijk->jk", self.s, curvature)
        return J.T @ self.s + self.noise * jn, hessian


def log_scale_derivatives(
    S: Array, m: Array, before: Array, rss: float, n: float
) -> LogScaleDerivatives:
    """From S, m and noise RSS; `before` is the inverse that belongs to log |H|, S itself under REML."""
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
