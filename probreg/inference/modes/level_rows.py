"""A design with factors that stay codes, as an arrow: the levels of the largest factor lead, all other columns are the border.

For treatment coding Z'WZ of the leading indicators is diagonal, so that a fit costs n r^2 + G r^2 with r columns in the border, and
nothing of the size of G squared is made. Border columns that are written out are standardised: u_j = (x_j - shift_j) / scale_j, and with
c their coefficients on u, the raw ones are S c, where the intercept takes up the shifts.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data import Frame
from probreg.data.grouped_columns import ArrowColumns, ArrowGram
from probreg.data.level_moments import select_leading_part
from probreg.data.unwritten import LazyColumns
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
    frame: Frame  # of all columns: written ones are standardised, those of factors are as they are
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

    def coordinates(self, a: Array, c: Array) -> Array:
        """(p, s): a (G, s) and c (r, s) in the places of their columns, in the frame."""
        out = np.empty((len(self.lead) + len(self.border), a.shape[1]))
        out[self.lead], out[self.border] = a, c
        return out

    def covariance(
        self, H: "ScaledArrow", further: tuple[str, ...] = ()
    ) -> ArrowCovariance:
        """That of the coefficients and of further parameters behind the columns of the border, H over (a, c, further)."""
        a, c, own = self._roots(H)
        r = len(self.border)
        low = np.vstack([self.coordinates(a, c[:r]), c[r:]])
        return ArrowCovariance(
            self.frame, 1, further, places=self.lead[:, None], blocks=own, low=low
        )

    def _roots(self, H: "ScaledArrow") -> tuple[Array, Array, Array]:
        G, K, r = H.factor.shape
        # [[L', C], [0, T']]^-1: its first columns are 1 / L_g, its last ones of rank r
        a, c = H.factor.solve_transposed(np.zeros((G, K, r)), np.eye(r))
        return H.s[:, None] * a[:, 0], H.t[:, None] * c, H.s[:, None, None] / H.factor.L

    def covariance_without(
        self,
        H: "ScaledArrow",
        gone: Array,
        further: tuple[str, ...],
        gone_further: Array,
    ) -> ArrowCovariance:
        """The same where some raw coefficients (p,) and further parameters are held, H over the raw ones that are not."""
        a, c, own = self._roots(H)
        here = ~gone[self.lead]
        there = ~gone[self.border]
        kept = np.flatnonzero(~gone_further)
        p = len(gone)
        r = max(c.shape[1], 1)  # files take no array without columns
        low = np.zeros((p + len(further), r))
        blocks = np.zeros((len(self.lead), 1, 1))
        if c.shape[1]:
            low[self.lead[here]], low[self.border[there]] = a, c[: there.sum()]
            low[p + kept] = c[there.sum() :]
        blocks[here] = own
        missing = np.concatenate([gone, gone_further])
        return ArrowCovariance(
            Frame.of_raw(p),
            1,
            further,
            missing if missing.any() else None,
            places=self.lead[:, None],
            blocks=blocks,
            low=low,
        )


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
        D = gram.lead * np.square(s)[:, None, None]
        E = s[:, None, None] * gram.cross * t
        F = t[:, None] * gram.rest * t
        return cls(Arrow(D + damping, E, F + damping * np.eye(len(t))), s, t)

    def solve(self, g: Array) -> Array:
        """H^-1 g."""
        G = len(self.s)
        a, c = self.factor.solve(
            (self.s * g[:G])[:, None, None], (self.t * g[G:])[:, None]
        )
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
    assert isinstance(X, LazyColumns)
    first, lead, border = select_leading_part(X)
    at = X.head_places
    own = Frame.of(
        *_means_and_sds(X.head),
        None
        if design.intercept is None
        else int(np.searchsorted(at, design.intercept)),
    )
    own = own.with_mix(X.head)
    frame = Frame.of_raw(len(design.columns))
    frame.shift[at], frame.scale[at] = own.shift, own.scale
    frame = replace(
        frame,
        intercept=design.intercept,
        mix=own.mix,
        mixed=None if own.mixed is None else at[own.mixed],
    )
    others = [k for k in range(len(X.tail)) if k != first]
    q = sum(X.tail[k].groups for k in others)
    whole = np.eye(q + len(at))
    whole[q:, q:] = own.T
    return LevelRows(
        ArrowColumns(X.tail[first], tuple(X.tail[k] for k in others), own.rows(X.head)),
        lead,
        border,
        whole,
        frame,
        prior,
    )


def _means_and_sds(X: Array) -> tuple[Array, Array]:
    some = X[:: max(1, len(X) // 10_000)]
    return some.mean(0), some.std(0)
