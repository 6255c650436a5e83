"""Sums over the rows of a smooth likelihood at coefficients in the order of an
`ArrowLayout`: by group from rows in memory, or over dense columns of rows anywhere.

Coefficients are a (G, K m, 1) and c (r m + a, 1), with the logs of nuisance parameters
last.
"""

from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from probreg.data import Block
from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array
from probreg.inference.exact.arrow_layout import ArrowLayout
from probreg.inference.exact.arrow_roots import ArrowRoots
from probreg.inference.modes.level_newton import ArrowRows, Inverse, Parts, RowSlopes
from probreg.inference.modes.newton import evaluate
from probreg.linalg import Arrow
from probreg.linalg.vec import map_of_columns, with_aux
from probreg.model.model import LocalModel, Model
from probreg.priors import Flat, Reference


@dataclass(frozen=True, eq=False)
class GroupedSums:
    """The sums over rows in memory, with columns of effects by group."""

    rows: ArrowRows
    z: Array  # (n, m + a), the predictors of the rows

    @cached_property
    def local(self) -> RowSlopes:
        return self.rows.values(self.z)

    @property
    def value(self) -> float:
        """log p(y | coefficients)."""
        return self.local.value

    @cached_property
    def score(self) -> Parts:
        """The gradient X's."""
        return self.rows.pull(self.local.score)

    def gram(self) -> ArrowGram:
        """The curvature X'WX."""
        return self.rows.gram(self.local.W)

    def concave_gram(self) -> ArrowGram:
        """X'WX with absolute values in place of negative curvature."""
        value, vector = np.linalg.eigh(self.local.W)
        size = 1e-3 * np.abs(value).max(-1, keepdims=True)
        scaled = vector * np.maximum(value, size)[:, None]
        return self.rows.gram(scaled @ vector.mT)

    def log_det_slopes(self, roots: ArrowRoots, H: Arrow, inverse: Inverse) -> Parts:
        """X't, the gradient of log |H|^(1/2) over the coefficients, with `inverse` the
        parts of H^-1 in the coordinates of the roots."""
        # M S M', with zeros for coordinates that are given
        L = roots.lead[0]
        size = self.rows.size
        G, K, k = inverse.border.shape
        border = np.zeros((G * K, size))
        corner = np.zeros((size, size))
        border[:, :k] = (L @ inverse.border).reshape(G * K, k)
        corner[:k, :k] = inverse.corner
        corner = roots.times_border(roots.times_border(corner)[0].T)[0]
        border = roots.times_border(border.T)[0].T.reshape(G, K, size)
        spread = self.rows.spread(Inverse(L @ inverse.own @ L.T, border, corner))
        return self.rows.pull(self.rows.log_det_slopes(self.z, spread))


class DenseRows:
    """The rows of a model with dense columns, in memory or elsewhere.

    Attributes
    ----------
    size : int
        The number of coordinates.
    to_raw : array (p m + a, size)
        Their map to vec beta and log aux.
    """

    def __init__(self, layout: ArrowLayout) -> None:
        model = layout.model
        m = model.shape[1]
        a = len(model.unknown)
        # log p(y | beta, aux) over (vec beta, log aux), without priors
        self.model = replace(
            model,
            prior=Flat(),
            aux={**model.fixed, **dict.fromkeys(model.unknown, Reference())},
        )
        width = layout.border
        self.size = width + a
        self.to_raw = with_aux(
            layout.coefficients(np.zeros((1, 0, width)), np.eye(width)), a
        )
        T_inverse = with_aux(map_of_columns(model.design.frame.T_inverse, m), a)
        self.to_frame = T_inverse @ self.to_raw
        centre = np.append(np.repeat(layout.centre, m), np.zeros(a))
        self._centre = T_inverse @ centre

    def at(self, c: Array, *, curved: bool = True) -> "DenseSums":
        point = self._centre + self.to_frame @ c[:, 0]
        return DenseSums(self, point, evaluate(self.model, point, curved=curved))


@dataclass(frozen=True, eq=False)
class DenseSums:
    """The sums over rows with dense columns; all coefficients belong to the border."""

    rows: DenseRows
    point: Array  # (vec gamma, log aux) on standardised columns
    local: LocalModel

    @property
    def value(self) -> float:
        return self.local.value

    @property
    def score(self) -> Parts:
        return _as_border(self.rows.to_frame.T @ self.local.gradient)

    def gram(self) -> ArrowGram:
        return self._map(self.local.curvature)

    def concave_gram(self) -> ArrowGram:
        value, vector = np.linalg.eigh(self.local.curvature)
        return self._map((vector * np.abs(value)) @ vector.T)

    def _map(self, curvature: Array) -> ArrowGram:
        corner = self.rows.to_frame.T @ curvature @ self.rows.to_frame
        r = len(corner)
        return ArrowGram(np.zeros((1, 0, 0)), np.zeros((1, 0, r)), corner)

    def log_det_slopes(self, roots: ArrowRoots, H: Arrow, inverse: Inverse) -> Parts:
        model = self.rows.model
        n_beta = model.n_coefficients
        gamma = self.point[:n_beta].reshape(model.shape)
        size = len(inverse.corner)
        fn = partial(
            _log_det_sums,
            model=model,
            beta=model.design.frame.to_raw(gamma),
            log_aux=self.point[n_beta:],
            root=self.rows.to_raw[:, :size] @ root_of_arrow_inverse(roots, H),
        )
        sums = np.concatenate([part.ravel() for part in model.design.sum_over_rows(fn)])
        return _as_border(self.rows.to_raw.T @ sums)


def _as_border(c: Array) -> Parts:
    return np.zeros((1, 0, 1)), c[:, None]


def root_of_arrow_inverse(roots: ArrowRoots, H: Arrow) -> Array:
    """M J^-1 (r, r) of dense columns, H = J'J."""
    r = len(H.T)
    a, c = H.solve_transposed(np.zeros((1, 0, r)), np.eye(r))
    return roots.map((a, c))[1]


def _log_det_sums(
    block: Block, *, model: Model, beta: Array, log_aux: Array, root: Array
) -> tuple[Array, ...]:
    """Return the gradient (p, m) and (a,) of log |H|^(1/2) over (vec beta, log aux)
    from a block of rows, with root root' = H^-1."""
    a = len(log_aux)
    m = model.likelihood.width
    k = beta.size

    def part(block_part: Block) -> tuple[Array, Array]:
        eta = block_part.eta(beta)
        n = len(eta)
        # J_i root, J_i = d z_i / d (vec beta, log aux)
        of_eta = (block_part.X @ root[:k].reshape(len(beta), -1)).reshape(n, m, -1)
        of_aux = np.broadcast_to(root[k:], (n, a, root.shape[1]))
        J = np.concatenate([of_eta, of_aux], 1)
        z = np.hstack([eta, np.broadcast_to(log_aux, (n, a))])
        rows = ArrowRows(model, None, np.zeros(len(beta)), block_part)  # type: ignore[arg-type]
        t = rows.log_det_slopes(z, J @ J.mT)
        return block_part.X.T @ t[:, :m], t[:, m:].sum(0)

    return block.sweep(part, width=root.shape[1] * (m + a))
