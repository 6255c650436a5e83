"""The rows of a Gaussian model as sums of squares, in the coordinates of the coefficients that the evidence integrates over.

With M the roots of the priors, noise = 1 / sigma^2 and X the columns of a layout, u | theta, y ~ N(mean, H^-1) with

    H = noise M'X'X M + blkdiag(I, 0),  mean = H^-1 noise M'X'y

`DenseGaussianSums` eliminates flat columns first, |y - X b|^2 = |R b_f + across gamma - z_f|^2 + |W gamma - z|^2 + rest, and factors H by orthogonal
reduction of W, never from squares. If one scale multiplies all columns, H is diagonal in the singular vectors of W (`DiagonalSums`), and a
value costs q operations. `ArrowSums` has effects by group: H is an arrow with flat columns at the end of its border.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from probreg.data.checked_arrays import full_weights
from probreg.data.frame import Frame
from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance, DenseCovariance
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots, first_node, inner_products
from probreg.inference.modes.level_newton import Parts
from probreg.linalg import Arrow, inverse_upper, solve_upper, triangular_log_det


@dataclass(frozen=True, eq=False)
class GaussianNodes:
    """u | theta, y ~ N(mean, H^-1) at S nodes."""

    roots: ArrowRoots
    factor: Arrow  # of H
    value_factor: (
        Arrow  # as it enters the value: before or without flat columns under ML
    )
    log_noise: Array  # (S,)
    log_det: Array  # (S,) log |H| - f log noise, of H as it enters the value
    penalised: Array  # (S,) noise |y - X M u|^2 + |u|^2
    half: Parts  # (S, G, K, 1) and (S, r, 1), H^(-1/2) noise M'X'y

    @cached_property
    def mean(self) -> Parts:
        return self.factor.solve_transposed(*self.half)


class DenseGaussianSums:
    """All columns are dense, and come from a triangular factor of the moments.

    Attributes
    ----------
    flat_root : array (p, k)
        F with sigma F z, in the frame, the part of the coefficients that is independent
        of u.
    flat_log_det : float
        The change of the evidence by the scale of flat columns.
    log_precision : float
        sum_i w_i log(precision_i).
    response_scale : float
        The standard deviation of the response.
    centre : array (p,)
        The coefficients at M u = 0.
    max_bytes : int
        Memory of the factors of one block of nodes.
    node_bytes : int
        Memory of the factor of one node.
    is_slow : bool
        Whether one value takes more than a millisecond.
    """

    is_slow = False
    has_sparse_border = False
    max_bytes = 16 * 2**20

    def __init__(self, layout: ArrowLayout) -> None:
        self.layout = layout
        design = layout.model.design
        F = np.asarray(design.moments.factor, dtype=float)
        p = F.shape[1] - 1
        in_layout = F[:, :p] @ layout.map_to_frame
        y = F[:, p] - F[:, :p] @ layout.centre
        k = len(layout.flat)
        q = in_layout.shape[1] - k
        self._inside = in_layout[:, :q]
        # With flat columns first, the integral over b_f gives a factor sigma sqrt(2 pi) for each of the k columns, so that n becomes
        # n - k, and 1 / |R|.
        R = np.linalg.qr(np.column_stack([in_layout[:, q:], self._inside, y]), mode="r")
        self.W: Array = R[k:-1, k:-1]  # (q, q), or its singular values
        self.z: Array = R[k:-1, -1]
        self._rest = float(R[-1, -1] ** 2)
        self.flat_log_det = -float(triangular_log_det(R[:k, :k]))
        self.log_precision = design.moments.log_precision
        self.response_scale = design.moments.y_scale or 1.0
        self.node_bytes = 24 * q * q
        # b_f = R^-1 (z_f - across gamma) + sigma R^-1 z
        self.centre = layout.centre.copy()
        G = layout.map_to_frame[:, :q].toarray()
        root = np.zeros((p, k))
        flat = list(layout.flat)
        right = np.column_stack([R[:k, -1], -R[:k, k:-1], np.eye(k)])
        solved = solve_upper(R[:k, :k], right)
        self.centre[flat] = solved[:, 0]
        G[flat] = solved[:, 1 : q + 1]
        root[flat] = solved[:, q + 1 :]
        self.raw: Array = G  # (p, q) from gamma to the coefficients
        self.flat_root = self.frame.from_raw(root)

    @property
    def frame(self) -> Frame:
        """The frame of the covariance of the coefficients."""
        return self.layout.model.design.frame

    @cached_property
    def in_frame(self) -> Array:
        """`raw` in the frame."""
        return self.frame.from_raw(self.raw)

    @cached_property
    def before(self) -> Array:
        """W of the columns before flat ones are eliminated."""
        return np.linalg.qr(self._inside, mode="r")

    def roots(self, theta: Array, sigma: Array) -> ArrowRoots:
        """Return the roots at nodes theta (S, d) and sigma (S,)."""
        return self.layout.roots(theta, sigma)

    def factor(self, roots: ArrowRoots, noise: Array) -> tuple[Arrow, Parts, Array]:
        """Return H, H^(-1/2) noise M'X'y and noise |y - X M u|^2 + |u|^2 at each node."""
        root_noise = np.sqrt(noise)[:, None]
        H, half, penalised = self.reduce(
            self.W, root_noise * roots.diagonal(), root_noise * self.z
        )
        return H, half, penalised + noise * self._rest

    def latent_factor(self, H: Arrow, roots: ArrowRoots, noise: Array) -> Arrow:
        """Return H of only the columns with a prior, for the profiled likelihood (ML)."""
        scale = np.sqrt(noise)[:, None] * roots.diagonal()
        return self.reduce(self.before, scale, np.zeros_like(scale))[0]

    def reduce(self, W: Array, scale: Array, y: Array) -> tuple[Arrow, Parts, Array]:
        """Return H = A'A + I, A = W diag(scale), H^(-1/2) A'y and the minimum of
        |y - A u|^2 + |u|^2 at S nodes of scale and y (S, q), by orthogonal reduction."""
        # of noise^(1/2) D |W_j|: less changes the response by rounding
        smallest = 1e-11
        # without information u is N(0, I) as before
        moves = scale * np.linalg.norm(W, axis=0) > smallest
        informative = np.flatnonzero(moves.any(0))
        S, all_q = y.shape
        q = len(informative)
        # [A, y; I, 0] = Q [R, R m; 0, size of the residuals]
        rows = np.zeros((S, all_q + q, q + 1))
        rows[:, :all_q, :q] = W[:, informative] * scale[:, None, informative]
        rows[:, :all_q, q] = y
        rows[:, all_q + np.arange(q), np.arange(q)] = 1.0
        reduced = np.linalg.qr(rows, mode="r")
        T = np.broadcast_to(np.eye(all_q), (S, all_q, all_q)).copy()
        T[:, informative[:, None], informative] = reduced[:, :q, :q].mT
        half = np.zeros((S, all_q, 1))
        half[:, informative, 0] = reduced[:, :q, q]
        H = Arrow.of_factors(np.zeros((S, 1, 0, 0)), np.zeros((S, 0, all_q)), T)
        residual = np.square(reduced[:, q:, q]).sum(1)
        return H, (np.zeros((S, 1, 0, 1)), half), residual

    def inverse(self, H: Arrow) -> Array:
        """H^-1 at the first node, or its diagonal."""
        T = inverse_upper(H.T[0].T)
        return T @ T.T

    def derivatives(
        self, nodes: GaussianNodes, theta: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradient of f + n log sigma at the first node, the Hessian of f,
        and the parameters that each scale adds."""
        groups = self.layout.groups
        J, curvature = self.layout.log_scale_derivatives(theta)
        m = np.concatenate([part[0].ravel() for part in nodes.mean])
        S = before = self.inverse(nodes.factor)
        if nodes.value_factor is not nodes.factor:
            before = self.inverse(nodes.value_factor)
        diagonal = before if before.ndim == 1 else np.diagonal(before)
        # d f / d log D = (H^-1)_jj + m^2 - 1
        slopes = diagonal + m * m - 1.0
        gradient = J.T @ slopes
        trace = np.bincount(groups.of, 1.0 - diagonal)
        rss = float(nodes.penalised[0] - m @ m)
        relative = None
        if self.layout.model.unknown:
            units = [float(g.base.sigma_units) for g in groups.groups]
            relative = np.array(units)[groups.of]
            gradient = np.append(gradient, rss + trace.sum() + relative @ slopes)
        hessian = log_scale_hessian(S, m, before, J, curvature, relative, rss)
        return gradient, hessian, trace[groups.group_of]

    def balance(self, roots: ArrowRoots) -> float:
        """Return the ratio sigma^2 / tau^2 that gives data and prior the same weight, from roots at scales of 1."""
        # the mean of the diagonal of D W'W D
        return float(np.square(self.W * roots.diagonal()[0]).sum()) / len(self.z) or 1.0

    def coefficients(self, a: Array, c: Array, *, in_frame: bool = False) -> Array:
        """Return the coefficients (p, s) of columns a (G, K, s) and c (r, s) without
        their centre, raw or in the frame."""
        root = self.in_frame if in_frame else self.raw
        G, K, s = a.shape
        return root @ np.vstack([a.reshape(G * K, s), c])

    def block_variances(self, blocks: Array) -> Array:
        """Return the variances (S, p) from roots (S, G, K, K) of covariances by group."""
        sizes = np.square(blocks).reshape(len(blocks), -1)
        return sizes @ np.square(self.raw[:, : sizes.shape[1]]).T

    def covariance(self, blocks: Array, low: Array, sigma: float) -> DenseCovariance:
        """Return the covariance blocks blocks' by group (G, K, K) plus low low', low
        (p, r) in the frame, plus sigma^2 F F'."""
        sizes = blocks.ravel()
        lead = self.in_frame[:, : len(sizes)] * sizes
        root = np.hstack([lead, low, sigma * self.flat_root])
        return DenseCovariance(self.frame, 1, root=root)


class DiagonalSums(DenseGaussianSums):
    """One scale multiplies all columns: in the singular vectors of W they are blocks of one coordinate."""

    def __init__(self, layout: ArrowLayout) -> None:
        super().__init__(layout)
        # |z - W gamma|^2 = |U'z - diag(d) V'gamma|^2, and |gamma| = |V'gamma|
        U, self.W, Vt = np.linalg.svd(self.W)
        self.z = U.T @ self.z
        self.raw = self.raw @ Vt.T
        self.node_bytes = 24 * len(self.z)

    @cached_property
    def before(self) -> Array:
        return np.linalg.svd(self._inside, compute_uv=False)

    def roots(self, theta: Array, sigma: Array) -> ArrowRoots:
        (root,) = super().roots(theta, sigma).roots
        block = root.block._replace(place=slice(0, 1), repeated=True, leads=True)
        root = root._replace(
            block=block, value=root.value[:, :1], slopes=root.slopes[:, :1]
        )
        return ArrowRoots(
            [root], (len(self.z), 1, 0), len(self.layout.groups.priors), len(theta)
        )

    def reduce(self, W: Array, scale: Array, y: Array) -> tuple[Arrow, Parts, Array]:
        A = W * scale
        h = np.square(A) + 1.0
        root = np.sqrt(h)
        S, q = y.shape
        H = Arrow.of_factors(
            root[:, :, None, None], np.zeros((S, q, 0)), np.zeros((S, 0, 0))
        )
        half = (A * y / root)[:, :, None, None], np.zeros((S, 0, 1))
        return H, half, (np.square(y) / h).sum(1)

    def inverse(self, H: Arrow) -> Array:
        return H.L[0].ravel() ** -2


class ArrowSums:
    """Effects vary by group: [Z X y]'W[Z X y] of the columns and of y minus its fit by
    flat columns. It has the attributes and methods of `DenseGaussianSums`.

    These are sums, not factors: they lose twice the digits of an ill-conditioned
    design, so that flat columns are standardised.
    """

    max_bytes = 64 * 2**20
    has_sparse_border = False

    def __init__(self, layout: ArrowLayout) -> None:
        self.layout = layout
        sums = sums_of_rows if layout.model.design.n else sums_of_moments
        (lead, cross, rest), fitted, self.log_precision = sums(layout)
        self.zy, self.xy = cross[..., -1:], rest[:-1, -1:]
        self.yy = float(rest[-1, -1])
        weight = layout.model.design.total
        # of the response minus its fit by flat columns
        self.response_scale = float(np.sqrt(self.yy / max(weight, 1.0))) or 1.0
        cross = cross[..., :-1]
        G, K, r = cross.shape
        self.node_bytes = 8 * (4 * G * K * (K + r) + 6 * r * r)
        if (
            cross.size >= MIN_SPARSE_SIZE
            and np.count_nonzero(cross) <= MAX_SPARSE_SHARE * cross.size
        ):
            # most of the border is zero, as for crossed factors
            cross = scipy.sparse.csr_array(cross.reshape(-1, r))
            self.has_sparse_border = True
            self.node_bytes = self.max_bytes  # one factor at a time
        self.gram = ArrowGram(lead, cross, rest[:-1, :-1])
        slow = 2_000_000  # multiplications in one value, about a millisecond
        self.is_slow = G * K * (K + r) ** 2 + r**3 > slow
        self.flat_root = np.zeros((layout.model.shape[0], 0))
        # with the density 1 of raw flat coefficients, which are T times the standardised ones
        self.flat_log_det = float(np.linalg.slogdet(layout.frame.T)[1])
        self.centre = layout.centre.copy()
        self.centre[list(layout.flat)] += layout.frame.T @ fitted

    @property
    def frame(self) -> Frame:
        return self.layout.frame_of_all

    def roots(self, theta: Array, sigma: Array) -> ArrowRoots:
        return self.layout.roots(theta, sigma)

    def factor(self, roots: ArrowRoots, noise: Array) -> tuple[Arrow, Parts, Array]:
        H = roots.arrow(self.gram, noise)
        a, c = roots.back(self.zy, self.xy)
        scale = noise[:, None, None]
        half = H.half(scale[..., None] * a, scale * c)
        # min over (u, b) of noise |y - X M (u, b)|^2 + |u|^2 = noise y'y - |H^(-1/2) noise M'X'y|^2
        penalised = (
            noise * self.yy
            - np.square(half[0]).sum((1, 2, 3))
            - np.square(half[1]).sum((1, 2))
        )
        return H, half, penalised

    def latent_factor(self, H: Arrow, roots: ArrowRoots, noise: Array) -> Arrow:
        return H.leading_part(self.layout.shape[2])

    def derivatives(
        self, nodes: GaussianNodes, theta: Array
    ) -> tuple[Array, Array, Array]:
        roots = nodes.roots
        noise = float(np.exp(nodes.log_noise[0]))
        u = first_node(nodes.mean)
        b = roots.map(u)
        a, c = self.gram.times(*b)
        # noise X'(y - X b)
        score = noise * (self.zy - a), noise * (self.xy - c)
        lead, corner = nodes.value_factor.at(0).inverse_blocks()
        gradient, relative, of_log_det = roots.slopes([(score, u)], lead, corner)
        if self.layout.model.unknown:
            q = roots.latent
            size = np.square(u[0]).sum() + np.square(u[1][:q]).sum()
            trace = np.trace(lead) + np.trace(corner[:q, :q])
            counted = len(self.layout.groups.of) - trace + relative
            gradient = np.append(gradient, nodes.penalised[0] - size + counted)
        information = self._average_information(nodes, score, b)
        effective = roots.effective_parameters(self.gram, of_log_det, noise)
        return gradient, -information, effective

    def _average_information(
        self, nodes: GaussianNodes, score: Parts, b: Parts
    ) -> Array:
        """z_i'P z_j / 2 with z_i = (d V / d theta_i) P y and P = W - W X M H^-1 M'X'W, V the covariance of y."""
        d = nodes.roots.d + bool(self.layout.model.unknown)
        noise = float(np.exp(nodes.log_noise[0]))
        roots = nodes.roots
        a, c = roots.fit_changes(first_node(nodes.mean), score, d)[2]
        y = np.zeros((1, d))
        if d > roots.d:
            # d V / d log sigma = 2 sigma^2 / w; its product with P y is 2 (y - X b)
            a[..., -1] -= 2.0 * b[0][..., 0]
            c[:, -1] -= 2.0 * b[1][:, 0]
            y[0, -1] = 2.0
        # z = X (a, c) + y: X'W z and z'W z
        lead_products, border_products = self.gram.times(a, c)
        of_y = (np.tensordot(self.zy[..., 0], a, 2) + self.xy[:, 0] @ c)[None]
        square = (
            inner_products((a, c), (lead_products, border_products))
            + of_y.T @ y
            + y.T @ of_y
            + self.yy * y.T @ y
        )
        cross = roots.map_back(
            noise * (lead_products + self.zy * y),
            noise * (border_products + self.xy * y),
        )
        half = nodes.factor.at(0).half(*cross)
        return 0.5 * (noise * square - inner_products(half, half))

    def balance(self, roots: ArrowRoots) -> Array:
        return roots.weights_of(self.gram)

    def coefficients(self, a: Array, c: Array, *, in_frame: bool = False) -> Array:
        return self.layout.coefficients(a, c, in_frame=in_frame)

    def block_variances(self, blocks: Array) -> Array:
        variances = np.zeros((len(blocks), len(self.centre)))
        of_groups = np.square(blocks).sum(-1).reshape(len(blocks), -1)
        variances[:, self.layout.places.ravel()] = of_groups
        return variances

    def covariance(
        self, blocks: Array, low: Array, sigma: float
    ) -> ArrowCovariance | DenseCovariance:
        return self.layout.covariance(blocks, low)


GaussianSums = DenseGaussianSums | ArrowSums

MIN_SPARSE_SIZE = 200_000  # a border may be sparse from this number of entries
MAX_SPARSE_SHARE = 0.1  # of nonzeros in a sparse border


def sums_of_rows(layout: ArrowLayout) -> tuple[ArrowGram, Array, float]:
    """Return [Z X y]'W[Z X y] of the columns of a layout and y minus its fit by flat
    columns, from the rows; the coefficients of the fit; and sum_i w_i log(precision_i)."""
    design = layout.model.design
    y = design.response_less_offset
    if layout.centre.any():
        y = y - design.X @ layout.centre
    dense = layout.columns.dense
    F = dense[:, dense.shape[1] - len(layout.flat) :]
    w = full_weights(design.square_weights, design.n)
    b = np.linalg.lstsq(np.sqrt(w)[:, None] * F, np.sqrt(w) * y)[0]
    with_y = layout.columns._replace(dense=np.column_stack([dense, y - F @ b]))
    return with_y.gram(w), b, design.log_precision


def sums_of_moments(layout: ArrowLayout) -> tuple[ArrowGram, Array, float]:
    """The same from moments by group: columns and y are combinations A of [X Z y], with sums A'[X Z y]'W[X Z y] A."""
    from scipy.sparse import csr_array, hstack

    moments = layout.model.design.moments_by_group
    assert moments is not None  # rows outside memory have moments by group
    h, (G, K, _) = moments.head.p, layout.shape
    A = layout.map_of_rest
    F = np.asarray(moments.head.factor, dtype=float)
    # least squares of y on flat columns of the head, |F (A b - y)| over all b
    flat = F[:, :h] @ A[:h, A.shape[1] - len(layout.flat) :].toarray()
    b = np.linalg.lstsq(flat, F @ np.append(-layout.centre[:h], 1.0))[0]
    all_flat = A[:, A.shape[1] - len(b) :] @ b
    last = -(layout.centre + all_flat)
    behind = csr_array(hstack([A[h:], csr_array(last[h:, None])]))
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
    return sums, b, moments.log_precision


def log_scale_hessian(
    S: Array,
    m: Array,
    before: Array,
    J: Array,
    curvature: Array,
    relative: Array | None = None,
    rss: float = 0.0,
) -> Array:
    """Return the Hessian of f over theta with log D = s(theta) + relative log sigma, s of slopes J (q, d) and curvature (q, d, d).

    With H = noise A'A + I, S = H^-1 and m the mean of u, f has over s and log noise the derivatives below (MacKay 1992, in scales). `before`
    is the inverse that enters log |H|, S itself under REML; both are matrices, or their
    diagonals. Without `relative` the noise is no coordinate.
    """
    d = J.shape[1]
    if relative is not None:
        J = np.column_stack([J, relative])
    diagonal = before if before.ndim == 1 else np.diagonal(before)
    G, m_column = np.square(before), m[:, None]
    hessian = J.T @ (
        2.0 * _times(G, J)
        + 4.0 * m_column * _times(S, m_column * J)
        - 2.0 * (diagonal + m * m)[:, None] * J
    )
    hessian[:d, :d] += np.einsum("i,ijk->jk", diagonal - 1.0 + m * m, curvature)
    if relative is not None:
        # over s_i and log noise = -2 log sigma it is sum_j G_ij - S_ii + 2 m_i (S m)_i with G the squared entries
        excess = _times(G, np.ones_like(m_column))[:, 0] - diagonal
        mSm = m * _times(S, m_column)[:, 0]
        mixed = -2.0 * J.T @ (excess + 2.0 * mSm)
        hessian[-1] += mixed
        hessian[:, -1] += mixed
        hessian[-1, -1] += 2.0 * (excess.sum() + 2.0 * mSm.sum() - rss)
    return hessian


def _times(M: Array, V: Array) -> Array:
    """M V of a matrix M, or of its diagonal."""
    return M @ V if M.ndim == 2 else M[:, None] * V
