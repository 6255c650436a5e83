"""The coefficients at given hyperparameters, with a covariance in arrow form.

With H = J'J, J = [[L', C], [0, T']], the columns of J^-1 are those of L'^-1, by group,
and the r columns [-L'^-1 C T'^-1; T'^-1]: the covariance has blocks of the groups, and
a part of rank r from the border.
"""

from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.exact.arrow_laplace import ArrowLaplaceSurface
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots
from probreg.inference.exact.arrow_surface import ArrowSurface
from probreg.numerics.linalg import Arrow, SparseArrow


class ArrowEstimate(NamedTuple):
    """The mean of the coefficients given the hyperparameters, and their covariance."""

    beta: Array  # (p, m)
    scale: ArrowCovariance


def arrow_estimate(
    surface: ArrowSurface | ArrowLaplaceSurface, theta: Array
) -> ArrowEstimate:
    """Return the estimate at the hyperparameters theta."""
    layout = surface.layout
    if isinstance(surface, ArrowSurface):
        nodes = surface.at_nodes(theta[None])
        beta = _coefficients(surface, nodes.roots, (nodes.mean[0][0], nodes.mean[1][0]))
        return ArrowEstimate(beta, _covariance(layout, nodes.roots, nodes.factor.at(0)))
    mode = surface.mode(theta)
    return ArrowEstimate(
        _coefficients(surface, mode.roots, mode.x),
        _covariance(layout, mode.roots, surface.factor(mode)),
    )


def _coefficients(
    surface: ArrowSurface | ArrowLaplaceSurface,
    roots: ArrowRoots,
    x: tuple[Array, Array],
) -> Array:
    """(p, m), from coordinates x of groups and of the border."""
    layout = surface.layout
    a, c = roots.forth(x[0][None], x[1][None])
    beta = np.asarray(
        layout.coefficients(a[0], c[0]).reshape(surface.model.shape)
        + layout.centre[:, None]
    )
    if isinstance(surface, ArrowSurface):
        beta[list(layout.flat), 0] += layout.T @ surface.fitted
    return beta


def _covariance(
    layout: ArrowLayout, roots: ArrowRoots, H: Arrow | SparseArrow
) -> ArrowCovariance:
    """Return the covariance of vec beta."""
    G, K, r = H.shape
    # [[L', C], [0, T']]^-1: its first columns are the blocks L_g'^-1, its last ones of rank r
    a, c = H.solve_transposed(np.broadcast_to(0.0, (G, K, r)), np.eye(r))
    a, c = roots.forth(a[None], c[None])
    blocks = (
        roots.lead[0]
        @ H.solve_transposed(np.broadcast_to(np.eye(K), (G, K, K)), np.zeros((r, K)))[0]
    )
    low = layout.coordinates(a[0], c[0])
    m = layout.model.shape[1]
    return ArrowCovariance(
        layout.frame_of_all, m, places=layout.places, blocks=blocks, low=low
    )
