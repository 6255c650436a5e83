"""A Gaussian log-likelihood in the columns with an informative prior; flat coefficients
are optimal given these.

Flat columns are projected out of the others and of y, which leaves least squares in
fewer columns of unit norm: RSS(delta) = yy - 2 c'delta + delta'G delta, and the flat
coefficients follow from delta. G comes from the triangular factor of the moments, or
for many columns and fewer rows column by column on first use from the rows.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import solve_triangular

from probreg.data import Design
from probreg.data.rows import full_weights
from probreg.errors import DataError
from probreg.inference.base import Array
from probreg.linalg import rank_of, triangular
from probreg.model.model import Model

FEW = 300  # columns up to which the factor of the moments is fast also for fewer rows


class WholeGram:
    """G as a full matrix."""

    def __init__(self, G: Array) -> None:
        self.G = G

    def times(self, delta: Array) -> Array:
        """G delta, by the columns where delta is not zero."""
        nonzero = np.flatnonzero(delta)
        if 4 * len(nonzero) > len(delta):
            return self.G @ delta
        return delta[nonzero] @ self.G[nonzero]

    def among(self, J: Array) -> Array:
        """G[J, J], contiguous."""
        if len(J) == len(self.G):
            return self.G
        return self.G.take(J, 0).take(J, 1)


class LazyGram:
    """G = U'U / (norms); columns are computed on first use and cached."""

    def __init__(self, U: Array, norm: Array) -> None:
        self.U, self.norm = U, norm
        self.place = np.full(U.shape[1], -1)
        self.known, self.part = np.zeros(0, int), np.zeros((0, 0))

    def times(self, delta: Array) -> Array:
        nonzero = np.flatnonzero(delta)
        # G delta = N^-1 U'U N^-1 delta, N = diag(norm).
        fitted = self.U[:, nonzero] @ (delta[nonzero] / self.norm[nonzero])
        return (self.U.T @ fitted) / self.norm

    def among(self, J: Array) -> Array:
        fresh = J[self.place[J] < 0]
        if len(fresh):
            self._compute_columns(fresh)
        places = self.place[J]
        return self.part[np.ix_(places, places)]

    def _compute_columns(self, fresh: Array) -> None:
        new = self.U[:, fresh] / self.norm[fresh]
        old = len(self.known)
        size = old + len(fresh)
        if size > len(self.part):
            grown = np.zeros((2 * size, 2 * size))
            grown[:old, :old] = self.part[:old, :old]
            self.part = grown
        cross = (self.U[:, self.known] / self.norm[self.known]).T @ new
        self.part[:old, old:size], self.part[old:size, :old] = cross, cross.T
        self.part[old:size, old:size] = new.T @ new
        self.place[fresh] = np.arange(old, size)
        self.known = np.r_[self.known, fresh]


@dataclass(frozen=True, eq=False)
class ReducedSquares:
    """Least squares in delta (k,), the coefficients of `columns` times `norm`."""

    columns: Array  # (k,) numbers of the columns with an informative prior
    flat: Array  # (f,) numbers of the flat columns that do not depend on earlier flat ones
    norm: Array  # (k,), norms of the columns after projecting out the flat ones
    c: Array  # (k,)
    yy: float  # y'y after projecting out the flat columns
    weight: float
    gram: WholeGram | LazyGram
    # coefficients b of `columns` -> R^-1 (z - share b) of the flat columns (f,)
    R: Array
    share: Array
    z: Array
    n_dependent: int  # flat columns that depend on earlier ones
    # (p,) the shift subtracted from the columns, and the position of the intercept that absorbs it
    shift: tuple[Array, int] | None = None

    def beta(self, coefficients: Array) -> Array:
        """Return all p coefficients from those of `columns`; zero for dependent flat columns."""
        beta = np.zeros(len(self.columns) + len(self.flat) + self.n_dependent)
        beta[self.columns] = coefficients
        beta[self.flat] = solve_triangular(self.R, self.z - self.share @ coefficients)
        if self.shift is not None:
            shift, intercept = self.shift
            beta[intercept] -= shift @ beta
        return beta


def partial_out(model: Model) -> ReducedSquares:
    """The least-squares part of a Gaussian model; see the module."""
    design = model.design
    informative = model.joint.informative
    columns = np.flatnonzero(informative)
    flat = np.flatnonzero(~informative)
    away = _far_from_zero(design, informative)
    if away is not None:
        assert design.intercept is not None
        near = replace(design, X=design.X - away, kept=None)
        parts = _parts_of(near, columns, flat)
        return replace(parts, shift=(away, design.intercept))
    return _parts_of(design, columns, flat)


def _far_from_zero(design: Design, informative: Array) -> Array | None:
    """(p,) the means of the columns that lie further than 1e5 standard deviations from 0, 0 for the others; None where no column
    does, or no flat intercept takes up the shift. Sums of squares of these columns would lose ten digits or more."""
    i = design.intercept
    if i is None or informative[i] or not design.n or design.is_lazy:
        return None
    basis = design.basis
    away = np.where(np.abs(basis.shift) > 1e5 * basis.scale, basis.shift, 0.0)
    return away if away.any() else None


def _require_near_rows(design: Design, lost: Array) -> None:
    """Raise DataError for columns of rows that are not in memory which lie so far from 0 that their moments lost them."""
    basis = design.basis
    far = lost[np.abs(basis.shift[lost]) > 1e9 * basis.scale[lost]]
    if len(far):
        j = int(far[0])
        raise DataError(
            f"column {design.columns[j]!r} varies by a standard deviation of {basis.scale[j]:.3g} about {basis.shift[j]:.6g}, of "
            f"which sums over rows keep no digits: subtract {basis.shift[j]:.6g} before it is stored"
        )


def _parts_of(design: Design, columns: Array, flat: Array) -> ReducedSquares:
    """From an orthonormal basis Q of the flat columns: U = A - Q Q'A for the other
    columns A, of the factor of the moments or of the rows times root weights."""
    is_wide = FEW < len(columns) > design.n > 0
    if is_wide:
        root = np.sqrt(full_weights(design.square_weights, design.n))[:, None]
        y = root[:, 0] * design.response_less_offset
        B = design.X[:, flat] * root
        A = design.X[:, columns] * root
    else:
        rows = np.asarray(design.moments.factor, dtype=float)
        B = rows[:, flat]
        A = rows[:, columns]
        y = rows[:, -1]
    kept = list(rank_of(triangular(B)).kept) if len(flat) else []
    Q, R = np.linalg.qr(B[:, kept])
    # M = I - QQ': v = My, U = MA, and b_f = R^-1 (Q'y - Q'A b).
    z = Q.T @ y
    v = y - Q @ z
    share = Q.T @ A
    U = np.empty(A.shape, order="F")
    np.subtract(A, Q @ share, out=U)
    # Projected twice: once leaves rounding of the size of A.
    U -= Q @ (Q.T @ U)
    norm = np.sqrt(np.einsum("ij,ij->j", U, U))
    # columns equal to combinations of the flat ones up to rounding
    absent = norm <= 1e-12 * np.sqrt(norm**2 + (share**2).sum(0))
    if not design.n:
        _require_near_rows(design, columns[absent])
    U[:, absent] = 0.0
    norm[absent] = 1.0
    return ReducedSquares(
        columns=columns,
        flat=flat[kept],
        norm=norm,
        c=(v @ U) / norm,
        yy=float(v @ v),
        weight=design.total,
        gram=LazyGram(U, norm) if is_wide else WholeGram((U / norm).T @ (U / norm)),
        R=R,
        share=share,
        z=z,
        n_dependent=len(flat) - len(kept),
    )
