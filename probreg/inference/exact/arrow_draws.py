"""Draws of the coefficients of varying effects at nodes of the hyperparameters, in
arrow form: exact for a Gaussian likelihood.

Given theta they are x = mean + J^-1 z in the coordinates of the roots, H = J'J and z
standard normal; for other likelihoods mean = mode - q, q = H^-1 grad log |H|^(1/2), to
first order.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy

from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance, DenseCovariance
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots
from probreg.inference.exact.arrow_surface import ArrowNodes, ArrowSurface
from probreg.inference.exact.laplace_rows import root_of_inverse
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.exact.latent_groups import NodeMixture
from probreg.inference.modes.arrow_rows import Parts
from probreg.linalg import Arrow, SparseArrow

_LOG_2PI = float(np.log(2.0 * np.pi))
_RANK = 1e-14  # relative to the largest: smallest variance of an axis that is kept
_DRAWS = 32 * 2**20  # bytes of factors in memory at once for draws


def posterior_by_arrow(
    surface: ArrowSurface,
    theta: Array,
    weight: Array,
    chosen: Array,
    rng: np.random.Generator,
) -> NodeMixture:
    """Return the posterior for a Gaussian likelihood at nodes theta (S, d) with
    weights, with draws at the nodes `chosen`."""
    p = surface.model.shape[0]
    S = len(theta)
    layout = surface.layout
    beta = np.empty((len(chosen), p))
    mean = np.empty((S, p))
    sd = np.empty((S, p))
    frame = layout.frame_of_all
    low = np.zeros((p, 0))
    spread = np.zeros((*layout.places.shape, layout.places.shape[1]))
    for part in surface.blocks_of(theta):
        nodes = surface.at_nodes(theta[part])
        w = weight[part]
        mean[part] = surface.coefficients(nodes, *nodes.mean)[..., 0].T
        in_frame, blocks = _axes(layout, nodes.roots, nodes.factor)
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
            mine, 1 + len(mine) * 8 * nodes.factor.numbers // _DRAWS
        ):
            node_of_draw = place[chosen[batch]]
            beta[batch] = mean[part][node_of_draw] + _deviations(
                surface, nodes, node_of_draw, rng
            )
    centre = weight @ mean
    low = _compress_columns(
        np.hstack([low, frame.from_raw((np.sqrt(weight)[:, None] * (mean - centre)).T)])
    )
    covariance = ArrowCovariance(
        frame, 1, places=layout.places, blocks=_roots_of(spread), low=low
    )
    return NodeMixture(beta, centre, covariance, weight, mean, np.sqrt(sd))


def _axes(
    layout: ArrowLayout, roots: ArrowRoots, H: Arrow | SparseArrow
) -> tuple[Array, Array]:
    """(p m, r, S) in the frame and (S, G, K, K): the covariance of vec beta at a node is axes axes' plus blocks blocks' by group."""
    G, K, r = H.shape
    S = len(roots.lead)
    # [[L', C], [0, T']]^-1: its first columns are the blocks L_g'^-1, its last ones of rank r
    in_columns = roots.forth(
        *H.solve_transposed(np.broadcast_to(0.0, (G, K, r)), np.eye(r))
    )
    blocks = H.solve_transposed(
        np.broadcast_to(np.eye(K), (G, K, K)), np.zeros((r, K))
    )[0]
    flat = (
        np.moveaxis(part, 0, -1).reshape(*part.shape[1:-1], r * S)
        for part in in_columns
    )
    p, m = layout.model.shape
    return layout.coordinates(*flat).reshape(p * m, r, S), roots.lead[:, None] @ blocks


class ArrowEstimate(NamedTuple):
    """The mean of the coefficients given the hyperparameters, and their covariance."""

    beta: Array  # (p, m)
    scale: ArrowCovariance | DenseCovariance


def arrow_estimate(
    surface: ArrowSurface | LaplaceSurface, theta: Array
) -> ArrowEstimate:
    """Return the estimate at the hyperparameters theta."""
    layout = surface.layout
    if isinstance(surface, ArrowSurface):
        nodes = surface.at_nodes(theta[None])
        beta = surface.coefficients(nodes, *nodes.mean)[:, 0]
        roots, H = nodes.roots, nodes.factor.at(0)
    else:
        mode = surface.mode(theta)
        beta = layout.beta_of(mode.roots, mode.x)[..., 0]
        roots, H = mode.roots, surface.factor(mode)
    axes, blocks = _axes(layout, roots, H)
    frame, m = layout.frame_of_all, layout.model.shape[1]
    low = axes[..., 0]
    if not layout.by_group:
        return ArrowEstimate(beta, DenseCovariance(frame, m, root=low))
    scale = ArrowCovariance(frame, m, places=layout.places, blocks=blocks[0], low=low)
    return ArrowEstimate(beta, scale)


def _deviations(
    surface: ArrowSurface,
    nodes: ArrowNodes,
    node_of_draw: Array,
    rng: np.random.Generator,
) -> Array:
    """Draws (n, p) from N(0, H^-1) at the nodes `node_of_draw`, as coefficients."""
    G, K, r = nodes.factor.shape
    z = rng.standard_normal((len(node_of_draw), G * K + r, 1))
    x = nodes.factor.at(node_of_draw).solve_transposed(
        z[:, : G * K].reshape(-1, G, K, 1), z[:, G * K :]
    )
    in_columns = nodes.roots.at(node_of_draw).forth(*x)
    return np.asarray(
        surface.layout.coefficients(
            *(np.moveaxis(part[..., 0], 0, -1) for part in in_columns)
        ).T
    )


def _compress_columns(W: Array) -> Array:
    """Return fewer columns with the same W W', up to rounding."""
    if W.shape[1] <= 64:
        return W
    if W.shape[1] >= len(W):
        value, vector = np.linalg.eigh(W @ W.T)
        return np.asarray(vector * np.sqrt(np.maximum(value, 0.0)))
    value, vector = np.linalg.eigh(W.T @ W)
    return np.asarray(W @ vector[:, value > _RANK * value[-1]])


def _roots_of(spread: Array) -> Array:
    """A root of each of G covariances (K, K), which may be singular."""
    value, vector = np.linalg.eigh(spread)
    return np.asarray(vector * np.sqrt(np.maximum(value, 0.0))[:, None])


# ---- other likelihoods ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class NodeNormal:
    """The normal distribution of the coefficients and log aux of a smooth likelihood at
    a node, with the mean to first order."""

    surface: LaplaceSurface
    mode: LaplaceMode
    shift: Parts  # the difference of mode and mean in standard deviations
    # (p, q): beta = columns @ the coefficients of the surface; None if they are the same
    columns: Array | None = None

    @property
    def width(self) -> int:
        """The number of coordinates."""
        G, K, r = self.mode.H.shape
        return G * K + r

    @property
    def log_det(self) -> float:
        """log |J^-1|."""
        return -0.5 * float(self.mode.H.log_det())

    @cached_property
    def _rotation(self) -> Array:
        """A rotation of standard normal points after which draws of dense columns do not
        depend on the order of the coordinates."""
        rows = self.surface.dense_rows
        root = rows.to_frame @ root_of_inverse(self.mode.roots, self.mode.H)
        upper, rotation = scipy.linalg.rq(root)
        return np.sign(np.diagonal(upper)) * rotation.T

    def points(self, z: Array) -> tuple[Array, Array, Array]:
        """Return the log prior (S,) of standard points z, with aux as densities of
        their logs, beta (S, p, m) and log aux."""
        surface, (G, K, r) = self.surface, self.mode.H.shape
        a, q = len(surface.model.unknown), surface.layout.shape[2]
        H: Arrow = self.mode.H
        if not surface.layout.by_group:
            z = z @ self._rotation.T
        x = H.solve_transposed(
            z[:, : G * K].T.reshape(G, K, len(z)) - self.shift[0],
            z[:, G * K :].T - self.shift[1],
        )
        x = x[0] + self.mode.x[0], x[1] + self.mode.x[1]
        beta = np.moveaxis(surface.layout.beta_of(self.mode.roots, x), -1, 0)
        # N(u; 0, I), the other priors, and the density 1 of raw flat coefficients
        log_prior = -0.5 * (
            np.square(x[0]).sum((0, 1))
            + np.square(x[1][:q]).sum(0)
            + (G * K + q) * _LOG_2PI
        )
        log_prior += [surface.log_prior(column[:, None]) for column in x[1].T]
        if surface.layout.flat:
            log_prior += surface.model.shape[1] * np.linalg.slogdet(surface.layout.T)[1]
        if self.columns is not None:
            beta = self.columns @ beta
        return log_prior, beta, x[1][r - a :].T
