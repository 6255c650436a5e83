"""Draws of the coefficients of varying effects at nodes of the hyperparameters, by the arrow: exact for a Gaussian likelihood.

Given theta they are x = mean + J^-1 z in the coordinates of the roots, H = J'J and z standard normal; for others mean = mode - q, q =
H^-1 grad log |H|^(1/2), to first order.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface, ArrowMode
from probreg.inference.exact.arrow_roots import Parts
from probreg.inference.exact.arrow_surface import ArrowNodes, ArrowSurface
from probreg.numerics.linalg import Arrow

_LOG_2PI = float(np.log(2.0 * np.pi))
_RANK = 1e-14  # of the largest: what an axis of the spread between nodes has to add
_DRAWS = 32 * 2**20  # bytes of factors that are gathered for draws at once


class ArrowPosterior(NamedTuple):
    """A mixture over nodes: draws of the coefficients, and its moments without their error."""

    beta: Array  # (draws, p)
    mean: Array  # (p,)
    covariance: ArrowCovariance
    node_mean: Array  # (S, p)
    node_sd: Array  # (S, p)


def posterior_by_arrow(
    surface: ArrowSurface,
    theta: Array,
    weight: Array,
    chosen: Array,
    rng: np.random.Generator,
) -> ArrowPosterior:
    """Of a Gaussian likelihood at nodes theta (S, d) with their weights, drawn at the nodes `chosen`."""
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
        at = surface.at_nodes(theta[part])
        w = weight[part]
        mean[part] = surface.coefficients(at, *at.mean)[..., 0].T
        in_frame, blocks = _axes(surface, at)
        axes = frame.to_raw(in_frame.reshape(p, -1)).reshape(in_frame.shape)
        sd[part] = np.square(axes).sum(1).T
        sd[part[:, None], layout.places.ravel()] += (
            np.square(blocks).sum(-1).reshape(len(part), -1)
        )
        # E[cov(beta | theta)] = sum_s w_s (blocks_s blocks_s' + axes_s axes_s')
        spread += np.einsum("s,sgkl,sgjl->gkj", w, blocks, blocks, optimize=True)
        low = _compressed(np.hstack([low, (in_frame * np.sqrt(w)).reshape(p, -1)]))
        place = np.full(S, -1)
        place[part] = np.arange(len(part))
        mine = np.flatnonzero(place[chosen] >= 0)  # draws of these nodes
        for some in np.array_split(
            mine, 1 + len(mine) * 8 * at.factor.numbers // _DRAWS
        ):
            of = place[chosen[some]]
            beta[some] = mean[part][of] + _deviations(surface, at, of, rng)
    centre = weight @ mean
    low = _compressed(
        np.hstack([low, frame.from_raw((np.sqrt(weight)[:, None] * (mean - centre)).T)])
    )
    covariance = ArrowCovariance(
        frame, 1, places=layout.places, blocks=_roots_of(spread), low=low
    )
    return ArrowPosterior(beta, centre, covariance, mean, np.sqrt(sd))


def _axes(surface: ArrowSurface, at: ArrowNodes) -> tuple[Array, Array]:
    """(p, r, S) in the frame and (S, G, K, K): the covariance of beta at a node is axes axes' plus blocks blocks' by group."""
    G, K, r = at.factor.shape
    eye = np.eye(r)
    axes = at.factor.solve_transposed(np.zeros((G, K, r)), eye)
    blocks = at.factor.solve_transposed(
        np.broadcast_to(np.eye(K), (G, K, K)), np.zeros((r, K))
    )[0]
    S = len(at.log_noise)
    moved = at.roots.forth(*axes)
    flat = (
        np.moveaxis(part, 0, -1).reshape(*part.shape[1:-1], r * S) for part in moved
    )
    size = surface.layout.model.shape[0] * surface.layout.model.shape[1]
    return surface.layout.coordinates(*flat).reshape(size, r, S), at.roots.lead[
        :, None
    ] @ blocks


def _deviations(
    surface: ArrowSurface, at: ArrowNodes, of: Array, rng: np.random.Generator
) -> Array:
    """Draws (n, p) from N(0, H^-1) at the nodes `of`, as coefficients."""
    G, K, r = at.factor.shape
    z = rng.standard_normal((len(of), G * K + r, 1))
    x = at.factor.at(of).solve_transposed(
        z[:, : G * K].reshape(-1, G, K, 1), z[:, G * K :]
    )
    moved = at.roots.at(of).forth(*x)
    return np.asarray(
        surface.layout.coefficients(
            *(np.moveaxis(part[..., 0], 0, -1) for part in moved)
        ).T
    )


def _compressed(W: Array) -> Array:
    """Fewer columns with the same W W', to rounding."""
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
class ArrowLaw:
    """The normal distribution of the coefficients and log aux of a smooth likelihood at a node, about their mean to first order."""

    surface: ArrowLaplaceSurface
    at: ArrowMode
    follow: Parts  # q

    @classmethod
    def of(cls, surface: ArrowLaplaceSurface, theta: Array) -> "ArrowLaw":
        """At the node theta."""
        at = surface.mode(theta)
        return cls(surface, at, surface.follow(at))

    @property
    def width(self) -> int:
        """The number of coordinates."""
        G, K, r = self.at.H.shape
        return G * K + r

    @property
    def log_det(self) -> float:
        """log |J^-1|."""
        return -0.5 * float(self.at.H.log_det())

    def points(self, z: Array) -> tuple[Array, Array, Array]:
        """From standard points z their log prior (S,), with aux as densities of their logs, beta (S, p, m) and log aux."""
        surface, (G, K, r) = self.surface, self.at.H.shape
        (p, m), a, q = (
            surface.model.shape,
            len(surface.model.unknown),
            surface.layout.shape[2],
        )
        H: Arrow = self.at.H
        x = H.solve_transposed(z[:, : G * K].T.reshape(G, K, -1), z[:, G * K :].T)
        x = x[0] + self.at.x[0] - self.follow[0], x[1] + self.at.x[1] - self.follow[1]
        moved = self.at.roots.forth(x[0][None], x[1][None])
        beta = (
            surface.layout.coefficients(moved[0][0], moved[1][0]).reshape(p, m, -1)
            + surface.layout.centre[:, None, None]
        )
        # N(u; 0, I), the priors of others, and the density 1 of raw flat coefficients
        log_prior = -0.5 * (
            np.square(x[0]).sum((0, 1))
            + np.square(x[1][:q]).sum(0)
            + (G * K + q) * _LOG_2PI
        )
        log_prior += [surface.log_prior(column[:, None]) for column in x[1].T]
        if surface.layout.flat:
            log_prior += m * np.linalg.slogdet(surface.layout.T)[1]
        return log_prior, np.moveaxis(beta, -1, 0), x[1][r - a :].T
