"""The log evidence of a Gaussian model with varying effects, from moments in arrow form: f(theta) = log p(y | theta).

`LayoutSums` are the moments, computed from the rows or from moments by group; `ArrowSurface` is f with its derivatives.

With M the roots of the priors, noise = 1 / sigma^2, H = noise M'X'X M + blkdiag(I, 0) (flat columns last, without the I) and (u, b) the
mode of coefficients in these coordinates,

    f = [W (log noise - log 2 pi) - log |H| - noise |y - X M u|^2 - |u|^2] / 2 + (p / 2) log 2 pi

with W the weight of the rows and p flat columns; -2 f is the REML criterion of Bates et
al. 2015. For the likelihood (ML) |H| excludes the flat columns, and the last term is
absent. With s = noise X'(y - X M u) the slope over a root L is

    d f = < dL, s u' - noise X'X M H^-1 >

on the diagonal blocks of L: it uses roots, never precisions, so a standard deviation of
0 is allowed. The Hessian is the average information of Gilmour et al. 1995, and only
guides the search.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy

from probreg.data.grouped_columns import ArrowGram
from probreg.data.rows import full_weights, minus_offset
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots, inner_products
from probreg.inference.exact.gaussian_surface import NodesSurface
from probreg.inference.exact.latent_groups import (
    CoefficientEstimate,
    EvidencePoint,
    LatentGroups,
    LikelihoodCriterion,
    NodeMixture,
    impossible_point,
    with_priors,
)
from probreg.inference.modes.arrow_rows import Parts
from probreg.linalg import Arrow
from probreg.model.model import Model


class LayoutSums(NamedTuple):
    """[Z X y]'W[Z X y] of the columns of a layout and y minus its fit by flat columns.

    These are sums, not factors: they lose twice the digits of an ill-conditioned
    design, so that flat columns are standardised.
    """

    gram: ArrowGram
    zy: Array  # (G, K, 1)
    xy: Array  # (r, 1)
    yy: float
    weight: float  # the sum of frequencies
    log_precision: float  # sum_i w_i log(precision_i)
    fitted: Array  # (f,) coefficients of the fit, on standardised columns

    @classmethod
    def of(
        cls, sums: ArrowGram, weight: float, log_precision: float, fitted: Array
    ) -> "LayoutSums":
        """From sums with y as the last column of the border."""
        lead, cross, rest = sums
        return cls(
            ArrowGram(lead, cross[..., :-1], rest[:-1, :-1]),
            cross[..., -1:],
            rest[:-1, -1:],
            float(rest[-1, -1]),
            weight,
            log_precision,
            fitted,
        )


def sums_of_rows(layout: ArrowLayout) -> LayoutSums:
    """Return the sums from the rows."""
    design = layout.model.design
    y = minus_offset(design.observed, design.offset)
    if layout.centre.any():
        y = y - design.X @ layout.centre
    dense = layout.columns.dense
    F = dense[:, dense.shape[1] - len(layout.flat) :]
    frequency = full_weights(design.weights, design.n)
    precision = full_weights(design.precision, design.n)
    w = frequency * precision
    b = np.linalg.lstsq(np.sqrt(w)[:, None] * F, np.sqrt(w) * y)[0]
    with_y = layout.columns._replace(dense=np.column_stack([dense, y - F @ b]))
    log_precision = float(frequency @ np.log(precision))
    return LayoutSums.of(with_y.gram(w), float(frequency.sum()), log_precision, b)


def sums_of_moments(layout: ArrowLayout) -> LayoutSums:
    """The same from moments by group: columns and y are combinations A of [X Z y], with
    sums A'[X Z y]'W[X Z y] A."""
    moments = layout.model.design.moments_by_group
    assert moments is not None  # rows outside memory have moments by group
    h, (G, K, _) = moments.head.p, layout.shape
    A = layout.map_of_rest
    F = np.asarray(moments.head.factor, dtype=float)
    # least squares of y on flat columns of the head, |F (A b - y)| over all b
    flat = F[:, :h] @ A[:h, A.shape[1] - len(layout.flat) :].toarray()
    b = np.zeros(len(layout.flat))
    y = np.append(-layout.centre[:h], 1.0)
    if len(b):
        b = np.linalg.lstsq(flat, F @ y)[0]
    all_flat = A[:, A.shape[1] - len(b) :] @ b
    last = -(layout.centre + all_flat)
    behind = _with_column(A[h:], last[h:])
    lead = layout.places.ravel() - h
    head = np.vstack(
        [
            np.column_stack([A[:h].toarray(), last[:h]]),
            np.append(np.zeros(A.shape[1]), 1.0),
        ]
    )
    inside = moments.inside
    border = moments.border
    cross = (inside[lead] @ behind).toarray() + border[lead] @ head
    cross_head = behind.T @ (border @ head)
    FA = F @ head
    corner = (
        (behind.T @ (inside @ behind)).toarray() + cross_head + cross_head.T + FA.T @ FA
    )
    places = lead.reshape(G, K)
    blocks = np.empty((G, K, K))
    for k in range(K):
        for j in range(K):
            blocks[:, k, j] = inside[places[:, k], places[:, j]]
    sums = ArrowGram(blocks, cross.reshape(G, K, -1), corner)
    return LayoutSums.of(sums, moments.weight, moments.log_precision, b)


def _with_column(A: Any, last: Array) -> Any:
    from scipy.sparse import csr_array, hstack

    return csr_array(hstack([A, csr_array(last[:, None])]))


MIN_SPARSE_SIZE = 200_000  # entries of a border from which it may be sparse
MAX_SPARSE_SHARE = 0.1  # of nonzeros in a sparse border


@dataclass(frozen=True, eq=False)
class ArrowNodes:
    """Results at S nodes: u | theta, y ~ N(mean, H^-1) in the coordinates of the roots,
    including flat coefficients."""

    roots: ArrowRoots
    factor: Arrow
    value_factor: Arrow  # as it enters the value: without flat columns under ML
    log_noise: Array  # (S,)
    log_det: Array  # (S,) log |H| - f log noise, of H as it enters the value
    penalised: Array  # (S,) noise |y - X M u|^2 + |u|^2
    half: Parts  # (S, G, K, 1) and (S, r, 1), H^(-1/2) noise M'X'y

    @cached_property
    def mean(self) -> Parts:
        return self.factor.solve_transposed(*self.half)


class ArrowSurface(NodesSurface):
    """f from moments by group, where effects vary by a group."""

    # the Hessian is the average information, so steps do not square the error
    tol = 1e-7

    # ---- the rows ---------------------------------------------------------------------------------------------------

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        criterion: LikelihoodCriterion = "REML",
    ) -> None:
        super().__init__(model, groups, criterion)
        self.layout = ArrowLayout(model, groups)

    @cached_property
    def moments(self) -> LayoutSums:
        """The sums of the columns in layout order, and of y minus its fit by flat
        columns."""
        sums = (sums_of_rows if self.model.design.n else sums_of_moments)(self.layout)
        cross = sums.gram.cross
        if (
            cross.size < MIN_SPARSE_SIZE
            or np.count_nonzero(cross) > MAX_SPARSE_SHARE * cross.size
        ):
            return sums
        # most of the border is zero, as for crossed factors
        sparse = scipy.sparse.csr_array(cross.reshape(-1, cross.shape[-1]))
        return sums._replace(gram=sums.gram._replace(cross=sparse))

    @property
    def response_scale(self) -> float:
        """The standard deviation of the response minus its fit by flat columns."""
        return float(np.sqrt(self.moments.yy / max(self.moments.weight, 1.0))) or 1.0

    @property
    def dear(self) -> bool:
        """Whether one value takes more than a millisecond."""
        slow = 2_000_000  # multiplications in one value, about a millisecond
        (G, K, _), r = self.layout.shape, self.layout.border
        return G * K * (K + r) ** 2 + r**3 > slow

    # ---- the value ----------------------------------------------------------------------------------------------------

    def at_nodes(self, theta: Array) -> ArrowNodes:
        log_noise = self.log_noise(theta)
        noise = np.exp(log_noise)
        roots = self.layout.roots(theta, np.exp(-0.5 * log_noise))
        H = roots.arrow(self.moments.gram, noise)
        a, c = roots.back(self.moments.zy, self.moments.xy)
        scale = noise[:, None, None]
        half = H.half(scale[..., None] * a, scale * c)
        # min over (u, b) of noise |y - X M (u, b)|^2 + |u|^2 = noise y'y - |H^(-1/2) noise M'X'y|^2
        penalised = (
            noise * self.moments.yy
            - np.square(half[0]).sum((1, 2, 3))
            - np.square(half[1]).sum((1, 2))
        )
        value_factor = H
        flat = len(self.layout.flat)
        if self.criterion == "ML":
            value_factor = H.leading_part(self.layout.shape[2])
            flat = 0
        log_det = value_factor.log_det() - flat * log_noise
        return ArrowNodes(roots, H, value_factor, log_noise, log_det, penalised, half)

    @property
    def _constant(self) -> float:
        # with the density 1 of raw flat coefficients, which are T times the standardised ones
        flat = np.linalg.slogdet(self.layout.frame.T)[1] * (self.criterion == "REML")
        return float(0.5 * self.moments.log_precision + flat)

    def blocks_of(self, theta: Array) -> list[Array]:
        max_bytes = 64 * 2**20  # bytes of factors in memory at once
        (G, K, _), r = self.layout.shape, self.layout.border
        if self.has_sparse_border:  # one factor at a time
            return [np.array([i]) for i in range(len(theta))]
        bytes_of_one = 8 * (4 * G * K * (K + r) + 6 * r * r)
        return np.array_split(
            np.arange(len(theta)),
            min(len(theta), 1 + len(theta) * bytes_of_one // max_bytes),
        )

    def coefficients(self, nodes: ArrowNodes, a: Array, c: Array) -> Array:
        """beta (p, S, 1) of coordinates (S, G, K, 1) and (S, r, 1)."""
        in_columns = nodes.roots.forth(a, c)
        layout = self.layout
        beta = (
            layout.coefficients(
                *(np.moveaxis(part[..., 0], 0, -1) for part in in_columns)
            )
            + layout.centre[:, None]
        )
        beta[list(layout.flat)] += (layout.frame.T @ self.moments.fitted)[:, None]
        return beta[..., None]

    # ---- the slopes ---------------------------------------------------------------------------------------------------

    def __call__(self, theta: Array) -> EvidencePoint:
        gram = self.moments.gram
        try:
            nodes = self.at_nodes(theta[None])
        except np.linalg.LinAlgError:
            return impossible_point(len(theta), len(self.groups.priors))
        noise = float(np.exp(nodes.log_noise[0]))
        H = nodes.factor.at(0)
        u = (nodes.mean[0][0], nodes.mean[1][0])
        b_nodes = nodes.roots.forth(*nodes.mean)
        b = b_nodes[0][0], b_nodes[1][0]
        # X's with s = noise (y - X b)
        of_fit = gram.times(*b)
        s = (
            noise * (self.moments.zy - of_fit[0]),
            noise * (self.moments.xy - of_fit[1]),
        )
        lead, corner = nodes.value_factor.at(0).inverse_blocks()
        gradient, relative, of_log_det = nodes.roots.slopes([(s, u)], lead, corner)
        # the parameters that each scale adds: < dL, X'WX M H^-1 >
        settled = nodes.roots.effective_parameters(
            gram._replace(lead=noise * gram.lead, rest=noise * gram.rest), of_log_det
        )
        value = float(self._evidence(nodes)[0])
        q = self.layout.shape[2]
        if self.model.unknown:
            # d f / d log sigma = -W + noise RSS + (columns counted) - tr (H^-1)_uu
            size = np.square(u[0]).sum() + np.square(u[1][:q]).sum()
            trace = np.trace(lead) + np.trace(corner[:q, :q])
            columns = self.layout.places.size + len(corner)
            of_noise = (
                -self.moments.weight
                + nodes.penalised[0]
                - size
                + columns
                - trace
                + relative
            )
            gradient = np.append(gradient, of_noise)
        hessian = -self._average_information(nodes.roots, H, noise, u, s, b)
        point = EvidencePoint(value, gradient, hessian, value, settled)
        return with_priors(self.with_left_bound(point, theta), theta, self.priors)

    def _average_information(
        self,
        roots: ArrowRoots,
        H: Arrow,
        noise: float,
        u: Parts,
        s: Parts,
        b: Parts,
    ) -> Array:
        """z_i'P z_j / 2 with z_i = (d V / d theta_i) P y and P = W - W X M H^-1 M'X'W, V the covariance of y."""
        unknown = bool(self.model.unknown)
        d = len(self.groups.priors) + unknown
        a, c = roots.fit_changes(u, s, d)[2]
        y = np.zeros((1, a.shape[-1]))
        if (
            unknown
        ):  # d V / d log sigma = 2 sigma^2 / w; its product with P y is 2 (y - X b)
            a[..., -1] -= 2.0 * b[0][..., 0]
            c[:, -1] -= 2.0 * b[1][:, 0]
            y[0, -1] = 2.0
        # z = X (a, c) + y: X'W z and z'W z
        zy, xy, yy = self.moments.zy, self.moments.xy, self.moments.yy
        lead_products, border_products = self.moments.gram.times(a, c)
        of_y = (np.tensordot(zy[..., 0], a, 2) + xy[:, 0] @ c)[None]
        square = (
            inner_products((a, c), (lead_products, border_products))
            + of_y.T @ y
            + y.T @ of_y
            + yy * y.T @ y
        )
        cross = roots.back(
            noise * (lead_products + zy * y), noise * (border_products + xy * y)
        )
        half = H.half(cross[0][0], cross[1][0])
        return 0.5 * (noise * square - inner_products(half, half))

    # ---- starts of a search ------------------------------------------------------------------------------------------

    @property
    def has_sparse_border(self) -> bool:
        return scipy.sparse.issparse(self.moments.gram.cross)

    def _balance(self, other_hyper: Array) -> Array:
        return self.layout.roots(other_hyper[None]).weights_of(self.moments.gram)

    # ---- coefficients ---------------------------------------------------------------------------------------------

    def estimate(self, theta: Array) -> CoefficientEstimate:
        nodes = self.at_nodes(theta[None])
        beta = self.coefficients(nodes, *nodes.mean)[:, 0]
        return self.layout.estimate(beta, nodes.roots, nodes.factor.at(0))

    def mixture(
        self, theta: Array, weight: Array, chosen: Array, rng: np.random.Generator
    ) -> NodeMixture:
        max_bytes = 32 * 2**20  # bytes of factors in memory at once for draws
        p = self.model.shape[0]
        S = len(theta)
        layout = self.layout
        beta = np.empty((len(chosen), p))
        mean = np.empty((S, p))
        sd = np.empty((S, p))
        frame = layout.frame_of_all
        low = np.zeros((p, 0))
        spread = np.zeros((*layout.places.shape, layout.places.shape[1]))
        for part in self.blocks_of(theta):
            nodes = self.at_nodes(theta[part])
            w = weight[part]
            mean[part] = self.coefficients(nodes, *nodes.mean)[..., 0].T
            in_frame, blocks = layout.axes(nodes.roots, nodes.factor)
            axes = frame.to_raw(in_frame.reshape(p, -1)).reshape(in_frame.shape)
            sd[part] = np.square(axes).sum(1).T
            sd[part[:, None], layout.places.ravel()] += (
                np.square(blocks).sum(-1).reshape(len(part), -1)
            )
            # E[cov(beta | theta)] = sum_s w_s (blocks_s blocks_s' + axes_s axes_s')
            spread += np.einsum("s,sgkl,sgjl->gkj", w, blocks, blocks, optimize=True)
            low = _compress_columns(
                np.hstack([low, (in_frame * np.sqrt(w)).reshape(p, -1)])
            )
            place = np.full(S, -1)
            place[part] = np.arange(len(part))
            mine = np.flatnonzero(place[chosen] >= 0)  # draws of these nodes
            for batch in np.array_split(
                mine, 1 + len(mine) * 8 * nodes.factor.numbers // max_bytes
            ):
                node_of_draw = place[chosen[batch]]
                beta[batch] = mean[part][node_of_draw] + self._deviations(
                    nodes, node_of_draw, rng
                )
        centre = weight @ mean
        low = _compress_columns(
            np.hstack(
                [low, frame.from_raw((np.sqrt(weight)[:, None] * (mean - centre)).T)]
            )
        )
        covariance = ArrowCovariance(
            frame, 1, places=layout.places, blocks=_roots_of(spread), low=low
        )
        return NodeMixture(beta, centre, covariance, weight, mean, np.sqrt(sd))

    def _deviations(
        self, nodes: ArrowNodes, node_of_draw: Array, rng: np.random.Generator
    ) -> Array:
        """Draws (n, p) from N(0, H^-1) at the nodes `node_of_draw`, as coefficients."""
        G, K, r = nodes.factor.shape
        z = rng.standard_normal((len(node_of_draw), G * K + r, 1))
        x = nodes.factor.at(node_of_draw).solve_transposed(
            z[:, : G * K].reshape(-1, G, K, 1), z[:, G * K :]
        )
        in_columns = nodes.roots.at(node_of_draw).forth(*x)
        return np.asarray(
            self.layout.coefficients(
                *(np.moveaxis(part[..., 0], 0, -1) for part in in_columns)
            ).T
        )


def _compress_columns(W: Array) -> Array:
    """Return fewer columns with the same W W', up to rounding."""
    # relative to the largest: smallest variance of an axis that is kept
    smallest = 1e-14
    if W.shape[1] <= 64:
        return W
    if W.shape[1] >= len(W):
        value, vector = np.linalg.eigh(W @ W.T)
        return np.asarray(vector * np.sqrt(np.maximum(value, 0.0)))
    value, vector = np.linalg.eigh(W.T @ W)
    return np.asarray(W @ vector[:, value > smallest * value[-1]])


def _roots_of(spread: Array) -> Array:
    """A root of each of G covariances (K, K), which may be singular."""
    value, vector = np.linalg.eigh(spread)
    return np.asarray(vector * np.sqrt(np.maximum(value, 0.0))[:, None])
