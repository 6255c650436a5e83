"""A design with factors that stay codes, as an arrow: the levels of the largest factor lead, all other columns are the border.

For treatment coding Z'WZ of the leading indicators is diagonal, so that a fit costs n r^2 + G r^2 with r columns in the border, and
nothing of the size of G squared is made. Border columns that are written out are standardised: u_j = (x_j - shift_j) / scale_j, and with
c their coefficients on u, the raw ones are S c, where the intercept takes up the shifts.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data import Design
from probreg.data.grouped_columns import ArrowColumns, ArrowGram
from probreg.data.level_moments import leading
from probreg.data.unwritten import UnwrittenColumns
from probreg.inference.base import Array
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.modes.normal_columns import NormalColumns, normal_columns
from probreg.model.model import Model
from probreg.numerics.linalg import Arrow


@dataclass(frozen=True, eq=False)
class LevelRows:
    """The columns of a design as an arrow, and where they stand."""

    columns: ArrowColumns
    lead: Array  # (G,) the places of the leading levels among the columns of the design
    border: Array  # (r,) those of the other columns: of other factors, then those that are written out
    S: Array  # (r, r): raw coefficients of the border are S c
    prior: NormalColumns

    @cached_property
    def S_inverse(self) -> Array:
        return np.linalg.inv(self.S)

    def beta(self, a: Array, c: Array) -> Array:
        """The raw coefficients (p, s) of a (G, s) and c (r, s)."""
        out = np.empty((len(self.lead) + len(self.border), a.shape[1]))
        out[self.lead], out[self.border] = a, self.S @ c
        return out

    def parts(self, beta: Array) -> tuple[Array, Array]:
        """a (G, s) and c (r, s) of raw coefficients (p, s)."""
        return beta[self.lead], self.S_inverse @ beta[self.border]

    def covariance(self, H: "ScaledArrow", gone: Array | None = None) -> tuple[ArrowCovariance, Array]:
        """That of the raw coefficients, and the rows of T'^-1 of what stands in the border behind the columns; `H` is over
        (a, c, ...), or where `gone` (p,) marks coefficients that are held over the raw ones that are not."""
        G, K, r = H.factor.shape
        # [[L', C], [0, T']]^-1: its first columns are 1 / L_g, its last ones of rank r
        a, c = H.factor.transposed(np.zeros((G, K, r)), np.eye(r))
        a, c, own = H.s[:, None] * a[:, 0], H.t[:, None] * c, H.s[:, None, None] / H.factor.L
        if gone is None:
            return ArrowCovariance(self.lead[:, None], own, self.beta(a, c[: len(self.border)])), c[len(self.border) :]
        here, there = ~gone[self.lead], ~gone[self.border]
        # one column at least, which is nan for what is held also where nothing is left in the border
        low, blocks = np.full((len(gone), max(r, 1)), np.nan), np.full((len(self.lead), 1, 1), np.nan)
        low[~gone] = 0.0
        low[self.lead[here], :r], low[self.border[there], :r] = a, c[: there.sum()]
        blocks[here] = own
        return ArrowCovariance(self.lead[:, None], blocks, low), c[there.sum() :]


class ScaledArrow(NamedTuple):
    """The factor of diag(s, t) H diag(s, t), whose diagonal is 1."""

    factor: Arrow
    s: Array  # (G,)
    t: Array  # (r,)

    @classmethod
    def of(cls, gram: ArrowGram, damping: float = 0.0) -> "ScaledArrow":
        """That of H, with `damping` added to the diagonal. LinAlgError where that is not positive definite."""
        tiny = np.finfo(float).tiny
        s = 1.0 / np.sqrt(np.maximum(np.abs(gram.lead[:, 0, 0]), tiny))
        t = 1.0 / np.sqrt(np.maximum(np.abs(np.diagonal(gram.rest)), tiny))
        D, E = gram.lead * np.square(s)[:, None, None], s[:, None, None] * gram.cross * t
        F = t[:, None] * gram.rest * t
        return cls(Arrow(D + damping, E, F + damping * np.eye(len(t))), s, t)

    def solve(self, g: Array) -> Array:
        """H^-1 g."""
        G = len(self.s)
        a, c = self.factor.solve((self.s * g[:G])[:, None, None], (self.t * g[G:])[:, None])
        return np.concatenate([self.s * a[:, 0, 0], self.t * c[:, 0]])


def level_rows(model: Model) -> LevelRows | None:
    """The arrow of a model whose design holds factors as codes; None for other designs, for several linear predictors, no more rows than
    columns, and for priors that are no independent normal ones."""
    design = model.design
    if (
        not design.coded
        or design.n <= len(design.columns)
        or model.shape[1] != 1
        or (prior := normal_columns(model)) is None
    ):
        return None
    X = design.X
    assert isinstance(X, UnwrittenColumns)
    first, lead, border = leading(X)
    others = [k for k in range(len(X.tail)) if k != first]
    head, S = _standardised(design, X)
    q = sum(X.tail[k].groups for k in others)
    whole = np.eye(q + len(S))
    whole[q:, q:] = S
    return LevelRows(
        ArrowColumns(X.tail[first], tuple(X.tail[k] for k in others), head),
        lead,
        border,
        whole,
        prior,
    )


def _standardised(design: Design, X: UnwrittenColumns) -> tuple[Array, Array]:
    """The written columns on the standard scale (n, h), and S (h, h) of them."""
    basis, at = design.frame, X.head_places
    shift, scale = basis.shift[at], basis.scale[at]
    # beta_j = c_j / scale_j, and that of the intercept c_0 - sum_j shift_j c_j / scale_j
    S = np.diag(1.0 / scale)
    if design.intercept is not None:
        i = int(np.searchsorted(at, design.intercept))
        S[i] -= shift / scale  # that of the intercept itself is 0
    return (X.head - shift) / scale, S
