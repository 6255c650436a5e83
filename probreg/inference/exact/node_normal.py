"""The normal distribution of the coefficients of a smooth likelihood at a node of the
hyperparameters.

Given theta they are x = mode - q + J^-1 z in the coordinates of the roots, H = J'J, z
standard normal and q = H^-1 grad log |H|^(1/2), to first order.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy

from probreg.inference.base import Array
from probreg.inference.exact.laplace_rows import root_of_arrow_inverse
from probreg.inference.exact.laplace_surface import LaplaceMode, LaplaceSurface
from probreg.inference.exact.latent_groups import LOG_2PI
from probreg.inference.modes.arrow_rows import Parts
from probreg.linalg import Arrow


@dataclass(frozen=True, eq=False)
class NodeNormal:
    """The normal distribution of the coefficients and log aux of a smooth likelihood at
    a node, with the mean to first order."""

    surface: LaplaceSurface
    mode: LaplaceMode
    # (p, q): beta = columns @ the coefficients of the surface; None if they are the same
    columns: Array | None = None

    @cached_property
    def _shift(self) -> Parts:
        """The difference of mode and mean in standard deviations."""
        return self.surface.shift(self.mode)

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
        root = rows.to_frame @ root_of_arrow_inverse(self.mode.roots, self.mode.H)
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
            z[:, : G * K].T.reshape(G, K, len(z)) - self._shift[0],
            z[:, G * K :].T - self._shift[1],
        )
        x = x[0] + self.mode.x[0], x[1] + self.mode.x[1]
        beta = np.moveaxis(surface.layout.beta_of(self.mode.roots, x), -1, 0)
        # N(u; 0, I), the other priors, and the density 1 of raw flat coefficients
        log_prior = -0.5 * (
            np.square(x[0]).sum((0, 1))
            + np.square(x[1][:q]).sum(0)
            + (G * K + q) * LOG_2PI
        )
        log_prior += [surface.log_prior(column[:, None]) for column in x[1].T]
        if surface.layout.flat:
            log_prior += (
                surface.model.shape[1] * np.linalg.slogdet(surface.layout.frame.T)[1]
            )
        if self.columns is not None:
            beta = self.columns @ beta
        return log_prior, beta, x[1][r - a :].T
