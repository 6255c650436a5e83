"""The log evidence of a Gaussian model, f(theta) = log p(y | theta).

With M the roots of the priors, noise = 1 / sigma^2, H = noise M'X'X M + blkdiag(I, 0) (the I for columns with a prior) and (u, b) the
mode of coefficients in these coordinates,

    f = [n (log noise - log 2 pi) - log |H| - noise |y - X M u|^2 - |u|^2] / 2 + constants

with n the weight of the rows minus the number of flat columns; -2 f is the REML criterion of
Bates et al. 2015. For the likelihood (ML) n is the weight of the rows, and |H| excludes
the flat columns. With s = noise X'(y - X M u) the slope over a root L is

    d f = < dL, s u' - L'^-1 (I - H^-1) >

on the diagonal blocks of L. `GaussianSums` computes H and the derivatives of f. The Hessian is exact for dense columns; for
effects by group it is the average information of Gilmour et al. 1995, which only guides the search.

The likelihood of one standard deviation by adaptive Gauss-Hermite quadrature in each
group, with one effect per group.

Given flat coefficients b and nuisance parameters, groups are independent. With u_g the mode of l_g(u) = sum_(i in g) log p(y_i | u) - u^2 / 2
and s_g^2 = 1 / (-l_g''(u_g)), the nodes are u_gj = u_g + 2^(1/2) s_g x_j and

    f = sum_g log [ pi^(-1/2) s_g sum_j w_j exp(x_j^2 + l_g(u_gj)) ]

(Pinheiro & Bates 1995). One point is Laplace's method.
"""

from collections.abc import Iterator
from functools import cached_property, partial

import numpy as np

from probreg.data.checked_arrays import times_weights
from probreg.inference.base import Array
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.gaussian_sums import (
    ArrowSums,
    DenseGaussianSums,
    DiagonalSums,
    GaussianNodes,
    GaussianSums,
)
from probreg.inference.exact.laplace_rows import GroupedSums
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.exact.latent_groups import (
    CoefficientEstimate,
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    LikelihoodCriterion,
    NodeMixture,
    log_prior_of_logs,
    with_priors,
)
from probreg.linalg import symmetric_root
from probreg.model.model import Model
from probreg.special import LOG_2PI, differentiate


class GaussianSurface(EvidenceSurface):
    """f(log hyperparameters, log sigma) of a Gaussian likelihood, at many nodes together; log sigma
    only if sigma is unknown."""

    layout: ArrowLayout

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
        *,
        by_group: bool = False,
    ) -> None:
        super().__init__(model, groups, criterion)
        self.layout = ArrowLayout(model, groups, by_group=by_group)
        # by group the Hessian is the average information, so steps do not square the error
        self.secant = by_group
        self.tol = 1e-9
        if by_group:
            self.tol = 1e-7
        # n: the weight of the rows minus the number of integrated flat columns
        flat = len(self.layout.flat) * (criterion == "REML")
        self._residual_weight = model.design.total - flat

    @cached_property
    def sums(self) -> GaussianSums:
        """The rows, with the curvature of the coefficients."""
        if self.layout.by_group:
            return ArrowSums(self.layout)
        kind = DiagonalSums if self.groups.scalar else DenseGaussianSums
        return kind(self.layout)

    @property
    def response_scale(self) -> float:
        return self.sums.response_scale

    @property
    def dear(self) -> bool:
        return self.sums.is_slow

    def at_nodes(self, theta: Array) -> GaussianNodes:
        """Return the distribution of the coefficients at each of theta (S, d)."""
        log_noise = self.log_noise(theta)
        noise = np.exp(log_noise)
        roots = self.sums.roots(theta, np.exp(-0.5 * log_noise))
        H, half, penalised = self.sums.factor(roots, noise)
        value_factor = H
        if self.criterion == "ML":
            value_factor = self.sums.latent_factor(H, roots, noise)
        G, K, r = value_factor.shape
        flat = G * K + r - len(self.groups.of)
        log_det = value_factor.log_det() - flat * log_noise
        return GaussianNodes(
            roots, H, value_factor, log_noise, log_det, penalised, half
        )

    def _evidence(self, nodes: GaussianNodes) -> Array:
        """log p(y | theta) at each node, (S,)."""
        # [n (log noise - log 2 pi) - log |H| - |m|^2 - noise RSS] / 2
        fit = self._residual_weight * (nodes.log_noise - LOG_2PI)
        constant = 0.5 * self.sums.log_precision
        if self.criterion == "REML":
            constant += self.sums.flat_log_det
        return 0.5 * (fit - nodes.log_det - nodes.penalised) + constant

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        values = np.empty(len(theta))
        parts = self.blocks_of(theta)
        while parts:
            part = parts.pop()
            try:
                values[part] = self._evidence(self.at_nodes(theta[part]))
            except np.linalg.LinAlgError:  # at one of them
                values[part] = -np.inf
                if len(part) > 1:
                    parts += np.split(part, len(part))
        bound = sum(part for part, _ in self._left_bounds(theta))
        return values - bound + log_prior_of_logs(theta, self.priors)

    def _left_bounds(self, theta: Array) -> Iterator[tuple[Array, Array]]:
        """Yield left_g tau_g^2 / (2 sigma^2) (S,) of each group at theta (S, d), with
        the slopes (d,) of its log.

        Bases of few anchors have residual variance at the rows; f minus these terms is a
        lower bound (Titsias 2009).
        """
        for g, hyper in self.groups.with_hyper:
            if g.left:
                log_tau = theta[:, hyper].sum(1)  # 0 if it is known
                power = 1.0 - bool(g.base.sigma_units)
                log_ratio = 2.0 * log_tau + power * self.log_noise(theta)
                slopes = np.zeros(theta.shape[1])
                slopes[hyper] = 2.0
                if self.model.unknown:
                    slopes[-1] = -2.0 * power
                yield 0.5 * g.left * np.exp(log_ratio), slopes

    def starts(self) -> list[Array]:
        """The best of a grid of common ratios of noise to prior, with sigma at its
        maximum given each.

        With several scales also a point where noise is a third of the response, because
        many columns may explain all of it.
        """
        sparse = self.sums.has_sparse_border
        same_noise = 0.05  # difference of two logs of noise scales
        # ratios of noise to prior, relative to equal weights of data and prior
        ratios = np.logspace(-10, 6, 17)
        if sparse:
            ratios = ratios[::2]
        points = [
            point
            for other_hyper in self.groups.starts()
            for point in self._at_ratios(other_hyper, ratios)
        ]
        values = np.nan_to_num(self.values(np.array(points)), nan=-np.inf)
        best = points[int(np.argmax(values))]
        has_one_scale = self.groups.scaling.sum() == 1 and len(self.groups.priors) == 1
        if has_one_scale or not self.model.unknown or sparse:
            return [best]
        # among the points nearest to this noise, take the best
        distance = np.abs(np.array(points)[:, -1] - np.log(0.3 * self.response_scale))
        nearest = np.flatnonzero(distance <= distance.min() + same_noise)
        second = points[nearest[int(np.argmax(values[nearest]))]]
        return [best] if second is best else [best, second]

    def _at_ratios(self, other_hyper: Array, relative: Array) -> Array:
        """Return theta (S, d) at ratios of sigma^2 to tau^2, `relative` (S,) to equal
        weights of data and prior, given the other hyperparameters."""
        roots = self.sums.roots(other_hyper[None], np.ones(1))
        ratios = np.multiply.outer(relative, self.sums.balance(roots))
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

    def blocks_of(self, theta: Array) -> list[Array]:
        """Return the numbers of nodes theta (S, d) in blocks with factors that fit in memory."""
        count = len(theta)
        blocks = 1 + count * self.sums.node_bytes // self.sums.max_bytes
        return np.array_split(np.arange(count), min(count, blocks))

    def __call__(self, theta: Array) -> EvidencePoint:
        try:
            nodes = self.at_nodes(theta[None])
        except np.linalg.LinAlgError:
            return self.impossible(theta)
        gradient, hessian, effective = self.sums.derivatives(nodes, theta)
        gradient[len(self.groups.priors) :] -= self._residual_weight
        value = float(self._evidence(nodes)[0])
        for bound, slopes in self._left_bounds(theta[None]):
            value -= float(bound[0])
            gradient -= bound * slopes
            hessian = hessian - bound * np.outer(slopes, slopes)
        point = EvidencePoint(value, gradient, hessian, value, effective)
        return with_priors(point, theta, self.priors)

    def _means(self, nodes: GaussianNodes) -> Array:
        """The means of the coefficients (S, p)."""
        a, c = (
            np.moveaxis(part[..., 0], 0, -1) for part in nodes.roots.forth(*nodes.mean)
        )
        return (self.sums.coefficients(a, c) + self.sums.centre[:, None]).T

    def coefficients(self, theta: Array) -> Array:
        return self._means(self.at_nodes(theta[None])).T

    def estimate(self, theta: Array) -> CoefficientEstimate:
        sums = self.sums
        nodes = self.at_nodes(theta[None])
        *axes, blocks = nodes.roots.axes(nodes.factor)
        sigma = float(np.exp(-0.5 * nodes.log_noise[0]))
        low = sums.coefficients(*axes, in_frame=True)
        scale = sums.covariance(blocks[0], low, sigma)
        return self._means(nodes).T, scale

    def mixture(
        self, theta: Array, weight: Array, chosen: Array, rng: np.random.Generator
    ) -> NodeMixture:
        max_bytes = 32 * 2**20  # bytes of factors in memory at once for draws
        sums = self.sums
        frame = sums.frame
        p = self.model.shape[0]
        S = len(theta)
        deviation = np.empty((p, len(chosen)))  # of the draws, in the frame
        mean = np.empty((S, p))
        sigma = np.exp(-0.5 * self.log_noise(theta))
        variance = np.outer(sigma**2, np.square(frame.to_raw(sums.flat_root)).sum(1))
        low = np.zeros((p, 0))
        spread: Array | float = 0.0
        for part in self.blocks_of(theta):
            nodes = self.at_nodes(theta[part])
            w = weight[part]
            mean[part] = self._means(nodes)
            *columns, blocks = nodes.roots.axes(nodes.factor)
            G, K, r = nodes.factor.shape
            axes = sums.coefficients(*columns, in_frame=True)
            by_axis = np.square(frame.to_raw(axes)).reshape(p, r, len(part))
            variance[part] += by_axis.sum(1).T + sums.block_variances(blocks)
            # E[cov(beta | theta)] = sum_s w_s (blocks_s blocks_s' + axes_s axes_s')
            spread = spread + np.einsum(
                "s,sgkl,sgjl->gkj", w, blocks, blocks, optimize=True
            )
            low = _compress_columns(np.hstack([low, axes * np.tile(np.sqrt(w), r)]))
            axes = np.moveaxis(axes.reshape(p, r, len(part)), -1, 0).copy()
            place = np.full(S, -1)
            place[part] = np.arange(len(part))
            mine = np.flatnonzero(place[chosen] >= 0)  # draws of these nodes
            bytes_of_draws = len(mine) * 8 * nodes.factor.numbers
            for batch in np.array_split(mine, 1 + bytes_of_draws // max_bytes):
                node_of_draw = place[chosen[batch]]
                z = rng.standard_normal((len(batch), G * K + r, 1))
                a = blocks[node_of_draw] @ z[:, : G * K].reshape(len(batch), G, K, 1)
                deviation[:, batch] = (axes[node_of_draw] @ z[:, G * K :])[..., 0].T
                deviation[:, batch] += sums.coefficients(
                    np.moveaxis(a[..., 0], 0, -1),
                    np.zeros((r, len(batch))),
                    in_frame=True,
                )
        z = rng.standard_normal((len(chosen), sums.flat_root.shape[1]))
        deviation += sums.flat_root @ (sigma[chosen, None] * z).T
        centre = weight @ mean
        between = frame.from_raw((np.sqrt(weight)[:, None] * (mean - centre)).T)
        low = _compress_columns(np.hstack([low, between]))
        covariance = sums.covariance(
            symmetric_root(np.asarray(spread)), low, float(np.sqrt(weight @ sigma**2))
        )
        beta = mean[chosen] + frame.to_raw(deviation).T
        return NodeMixture(beta, centre, covariance, mean, np.sqrt(variance))


def _compress_columns(W: Array) -> Array:
    """Return fewer columns with the same W W', up to rounding."""
    # relative to the largest: smallest variance of an axis that is kept
    smallest = 1e-14
    if W.shape[1] <= 64:
        return W
    if W.shape[1] >= len(W):
        return symmetric_root(W @ W.T)
    value, vector = np.linalg.eigh(W.T @ W)
    return W @ vector[:, value > smallest * value[-1]]


class QuadratureSurface(LaplaceSurface):
    """f(log sd, flat coefficients, log aux) by several points in each group."""

    def __init__(self, model: Model, groups: LatentGroups, points: int) -> None:
        super().__init__(model, groups, "ML")
        self.points = points

    def _evidence(self, mode: LaplaceMode) -> float:
        sums = mode.rows
        assert isinstance(sums, GroupedSums)  # see `points_obstacle`
        x, w = np.polynomial.hermite.hermgauss(self.points)
        lead = self.layout.columns.lead
        scale = 1.0 / mode.H.L[:, 0, 0]
        u = mode.x[0][:, 0, 0]
        effect = mode.roots.lead[0, 0, 0] * lead.Z[:, 0]
        terms = np.empty((self.points, len(u)))
        for j, node in enumerate(np.sqrt(2.0) * x):
            z = sums.z.copy()
            z[:, 0] += effect * (node * scale)[lead.codes]
            log_p = times_weights(sums.rows.local(z)[0], self.model.design.weights)
            terms[j] = np.bincount(lead.codes, log_p, len(u)) - 0.5 * np.square(
                u + node * scale
            )
        total = np.logaddexp.reduce(terms + (np.log(w) + np.square(x))[:, None], axis=0)
        return float(
            (total + np.log(scale) - 0.5 * np.log(np.pi)).sum()
            + self.log_prior(mode.x[1])
        )

    def __call__(self, theta: Array) -> EvidencePoint:
        step = 0.01  # of the logs of scales, and of the other coordinates in standard errors
        moves = np.eye(len(theta))
        gradient = differentiate(lambda t: self.values(theta + t * moves), step)
        return super().__call__(theta)._replace(gradient=gradient)


def points_obstacle(model: Model, criterion: str) -> str | None:
    """Return why more than one point does not apply, or None."""
    subject = "evidence with points above 1"
    if model.likelihood.least_squares:
        return f"{subject} needs another likelihood: for a Gaussian one point is exact"
    if criterion != "ML":
        return f"{subject} needs criterion='ML', because groups are independent only given flat coefficients"
    if model.likelihood.width > 1:
        return f"{subject} needs one linear predictor, and {model.likelihood.named} likelihood has {model.likelihood.width}"
    informative = [
        b for b in model.joint.blocks if model.joint.informative[list(b.columns)].any()
    ]
    terms = [model.design.grouped_of(b.columns) for b in informative]
    if len(terms) == 1 and terms[0] is not None and len(terms[0].effects) == 1:
        return None
    names = ", ".join(model.design.describe_columns(b.columns) for b in informative)
    return f"{subject} needs one effect of one grouping factor, such as (1 | g), and this model has {names}; use points=1"
