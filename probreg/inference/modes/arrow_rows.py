"""Sums over the rows of a smooth likelihood for an arrow: rows x_i of [Z, X] with m
predictors and a nuisance parameters.

A row has z_i = (eta_i, log aux), and W_i (m + a, m + a) is minus the second derivative
of its log p. It depends on the coefficients as z_i = blkdiag(x_i kron I_m, I_a)
coefficients. Coefficient k of predictor j is number k m + j; log aux come last.
Where every column belongs to one predictor, `owners` names it, and coefficient k is that of column k.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data import Block
from probreg.data.grouped_columns import ArrowColumns, ArrowGram
from probreg.data.rows import plus_offset, times_weights
from probreg.inference.base import Array, aux_from_log
from probreg.likelihoods import SmoothLikelihood
from probreg.likelihoods.base import ValueGradHessian
from probreg.model.model import Model

Parts = tuple[Array, Array]  # (G, K, s) of the leading columns and (r, s) of the border


class Inverse(NamedTuple):
    """Parts of H^-1: diagonal blocks (G, K, K), border (G, K, k), corner (k, k)."""

    own: Array
    border: Array
    corner: Array


class RowSlopes(NamedTuple):
    """sum_i w_i log p_i, and for each row its gradient (n, m + a) and W (n, m + a, m + a), with weights."""

    value: float
    score: Array
    W: Array


@dataclass(frozen=True, eq=False)
class ArrowRows:
    """The rows of a model with their columns."""

    model: Model
    columns: ArrowColumns
    centre: Array  # mu (p,), of every predictor
    block: Block  # responses, weights and offset
    # the predictors of the leading effects (K,) and of the border columns (r,)
    owners: tuple[Array, Array] | None = None

    def part(self, rows: slice) -> "ArrowRows":
        """These rows."""
        return replace(
            self, columns=self.columns.part(rows), block=self.block.part(rows)
        )

    @property
    def m(self) -> int:
        return self.model.likelihood.width

    @property
    def a(self) -> int:
        return len(self.model.unknown)

    @property
    def size(self) -> int:
        """The number of border coefficients and nuisance parameters."""
        if self.owners is not None:
            return self.columns.width + self.a
        return self.columns.width * self.m + self.a

    @property
    def likelihood(self) -> SmoothLikelihood:
        assert isinstance(
            self.model.likelihood, SmoothLikelihood
        )  # checked in `scales_obstacle`
        return self.model.likelihood

    @cached_property
    def _offset(self) -> Array:
        if self.centre.any():
            from_centre = self.block.X @ self.centre[:, None]
        else:
            from_centre = np.zeros((self.block.rows, 1))
        return plus_offset(from_centre, self.block.offset)

    def at(self, a: Array, c: Array) -> Array:
        """z_i (n, m + a) of coefficients a (G, K m, 1) and c (r m + a, 1), including the offset."""
        eta = self.columns.times(*self._split_coefficients(a, c)) + self._offset
        log_aux = np.broadcast_to(c[len(c) - self.a :, 0], (len(eta), self.a))
        return np.hstack([eta, log_aux])

    def _split_coefficients(self, a: Array, c: Array) -> Parts:
        """Split into coefficients (G, K, m) and (r, m) of the columns."""
        G = self.columns.lead.groups
        m = self.m
        if self._entries is not None:
            lead, border = self._entries
            full = np.zeros((G, self.columns.lead.effects * m, 1))
            full[:, lead] = a
            below = np.zeros((self.columns.width * m + self.a, 1))
            below[border] = c
            a, c = full, below
        return a.reshape(G, -1, m), c[: len(c) - self.a].reshape(-1, m)

    @cached_property
    def _entries(self) -> tuple[Array, Array] | None:
        """The places of the coefficients among those of every column in each predictor, (K,) and (r + a,)."""
        if self.owners is None:
            return None
        lead, border = (np.arange(len(o)) * self.m + o for o in self.owners)
        aux = self.columns.width * self.m + np.arange(self.a)
        return lead, np.concatenate([border, aux])

    def values(self, z: Array) -> RowSlopes:
        """The sums and derivatives at z (n, m + a)."""
        log_p, g, h = self.local(z)
        w = self.block.weights
        return RowSlopes(
            float(times_weights(log_p, w).sum()),
            times_weights(g, w),
            times_weights(h, w),
        )

    def local(self, z: Array) -> ValueGradHessian:
        """log p_i, gradient and W_i of each row, without weights."""
        m = self.m
        unknown = self.model.unknown
        values = aux_from_log(self.model, z[0, m:])
        block = self.block
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self.likelihood.derivatives_over(
                unknown, block.y, z[:, :m], values, block.precision
            )

    # ---- sums ---------------------------------------------------------------------------------------------------------

    def pull(self, v: Array) -> Parts:
        """The sums over rows of blkdiag(x_i kron I, I)' v_i, (G, K m, 1) and (r m + a, 1), of v (n, m + a)."""
        above, below = self.columns.cross(v[:, : self.m])
        last = v[:, self.m :].sum(0)
        G = len(above)
        lead, border = (
            above.reshape(G, -1, 1),
            np.concatenate([below.ravel(), last])[:, None],
        )
        if self._entries is None:
            return lead, border
        return lead[:, self._entries[0]], border[self._entries[1]]

    def gram(self, W: Array) -> ArrowGram:
        """The sums of blkdiag(x_i kron I, I)' W_i blkdiag(x_i kron I, I)."""
        m = self.m
        a = self.a
        G = self.columns.lead.groups
        K = self.columns.lead.effects
        r = self.columns.width
        lead = np.empty((G, K, m, K, m))
        border = np.zeros((r * m + a, r * m + a))
        cross = np.zeros((G, K, m, r * m + a))
        corner = np.empty((r, m, r, m))
        for i in range(m):
            for j in range(i + 1):
                sums = self.columns.gram(W[:, i, j])
                for k, s in {(i, j), (j, i)}:
                    lead[:, :, k, :, s], corner[:, k, :, s] = sums.lead, sums.rest
                    cross[:, :, k, s : r * m : m] = sums.cross
        border[: r * m, : r * m] = corner.reshape(r * m, r * m)
        for i in range(a):
            entry = r * m + i
            above, below = self.columns.cross(W[:, :m, m + i])
            cross[..., entry] = above
            border[: r * m, entry] = border[entry, : r * m] = below.ravel()
        border[r * m :, r * m :] = W[:, m:, m:].sum(0)
        gram = ArrowGram(
            lead.reshape(G, K * m, K * m), cross.reshape(G, K * m, -1), border
        )
        if self._entries is None:
            return gram
        rows, columns = self._entries
        return ArrowGram(
            gram.lead[:, rows][..., rows],
            gram.cross[:, rows][..., columns],
            border[np.ix_(columns, columns)],
        )

    def spread(self, S: Inverse) -> Array:
        """V_i (n, m + a, m + a), the covariance of z_i if the covariance of all coefficients has these parts."""
        m = self.m
        a = self.a
        n = len(self.columns.dense)
        G = len(S.own)
        if self._entries is not None:
            S = self._embed(S)
        r = self.columns.width * m
        spread = np.empty((n, m + a, m + a))
        for i in range(m):
            for j in range(i + 1):
                # x_i'S_ij x_i depends only on the symmetric part of S_ij
                diagonal_blocks = S.own[:, i::m, j::m]
                border = (S.border[:, i::m, j:r:m] + S.border[:, j::m, i:r:m]) / 2
                corner = S.corner[i:r:m, j:r:m]
                symmetric = (
                    (diagonal_blocks + diagonal_blocks.swapaxes(1, 2)) / 2,
                    border,
                    (corner + corner.T) / 2,
                )
                spread[:, i, j] = spread[:, j, i] = self.columns.leverage(*symmetric)
        for i in range(a):
            part = (
                S.border[..., r + i].reshape(G, -1, m),
                S.corner[:r, r + i].reshape(-1, m),
            )
            spread[:, :m, m + i] = spread[:, m + i, :m] = self.columns.times(*part)
        spread[:, m:, m:] = S.corner[r:, r:]
        return spread

    def _embed(self, S: Inverse) -> Inverse:
        """The same covariance over the coefficients of every column in each predictor, zero where there is none."""
        assert self._entries is not None
        lead, border = self._entries
        K = self.columns.lead.effects * self.m
        r = self.columns.width * self.m + self.a
        G = len(S.own)
        own, cross, corner = np.zeros((G, K, K)), np.zeros((G, K, r)), np.zeros((r, r))
        own[:, lead[:, None], lead] = S.own
        cross[:, lead[:, None], border] = S.border
        corner[np.ix_(border, border)] = S.corner
        return Inverse(own, cross, corner)

    def log_det_slopes(self, z: Array, V: Array) -> Array:
        """t_ik = tr(V_i dW_i / dz_ik) / 2 (n, m + a), with weights: log |H|^(1/2) changes by sum_i t_i'dz_i."""
        step = 1e-4  # step of differences of a row's curvature, in eta and log aux
        t = np.empty(z.shape)
        for k in range(z.shape[1]):
            e = step * (np.arange(z.shape[1]) == k)
            # d W_i / d z_ik by a central difference
            slope = self.local(z + e).curvature - self.local(z - e).curvature
            t[:, k] = np.einsum("njl,njl->n", V, slope) / (4 * step)
        return times_weights(t, self.block.weights)
