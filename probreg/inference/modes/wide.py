"""Gaussian priors on more columns than rows: the same posterior in as many coordinates
as rows.

Columns G with independent normal priors N(b_j, (s_j unit)^2), q of them, and n < q rows. With V = diag(s),

    X_G V = R'Q',  Q (q, n) with Q'Q = I  (QR of its transpose),      beta_G = b + V (Q u + Q_perp w),

the rows depend on X_F beta_F + X_G b + R'u, the prior of u and w is N(0, unit^2 I), and
the data do not depend on w: its posterior is its prior. So any method solves for
(beta_F, u), and w adds unit^2 (V V - V Q Q' V) to the covariance (Hastie & Tibshirani
2004; Golub & Van Loan, section 5.3). Columns F, with flat priors, are unchanged.

A Gaussian log-likelihood in the columns with an informative prior; flat coefficients
are optimal given these.

Flat columns are projected out of the others and of y, which leaves least squares in
fewer columns of unit norm: RSS(delta) = yy - 2 c'delta + delta'G delta, and the flat
coefficients follow from delta. G comes from the triangular factor of the moments, or
for many columns and fewer rows column by column on first use from the rows.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from probreg.data import Design
from probreg.data.checked_arrays import full_weights, plus_offset
from probreg.errors import DataError
from probreg.inference.base import Array, Solution
from probreg.inference.covariance import FactoredCovariance, ParameterCovariance
from probreg.linalg import one_blas_thread, rank_of, triangular
from probreg.linalg.vec import map_of_columns
from probreg.model.model import Model
from probreg.priors import AuxPrior, Normal, Prior
from probreg.priors.joint import Key

SOON = 2_000  # up to this number of coefficients several p x p matrices take seconds
FEW_COLUMNS = 200  # up to this number of columns p x p matrices are equally fast


def refuse_written_out(solution: Solution, purpose: str) -> None:
    """Raise DataError if `purpose` needs dense covariance matrices of more than 2,000 coefficients."""
    k = solution.beta.size
    if k > SOON and solution.given_scales.compact:
        part = ""
        if solution.effect_scales is not None:
            part = "; a fit of some of the groups has it"
        raise DataError(
            f"{purpose} takes several matrices of {k:,} x {k:,}, minutes and gigabytes, and {SOON:,} coefficients is its limit; "
            f"summary, interval, predict and save do not need them{part}"
        )


@dataclass(frozen=True)
class Tilted(AuxPrior):
    """p(v) v^-power: the factor that unseen coefficients add to the joint mode, if their prior is in units of v."""

    base: AuxPrior
    power: float
    name = "tilted"
    proper = False

    @property
    def support(self) -> tuple[float, float]:
        return self.base.support

    def log_prob(self, v: Array) -> Array:
        return self.base.log_prob(v) - self.power * np.log(v)

    def slopes(self, v: float) -> tuple[float, float]:
        first, second = self.base.slopes(v)
        return first - self.power, second

    def sample(self, rng: np.random.Generator, size: int) -> Array:
        raise DataError("a factor of a joint mode has no draws")

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        raise DataError("a factor of a joint mode is not a random variable")


@dataclass(frozen=True, eq=False)
class Rotated:
    """A model in the coordinates (beta_F, u), and the map back; the same for all m predictors."""

    original: Model
    model: Model
    flat: Array  # (f,) numbers of F
    columns: Array  # (q,) numbers of G
    center: Array  # b (q,)
    scale: Array  # s (q,)
    Q: Array  # (q, n)

    @property
    def unseen(self) -> int:
        """The number of coordinates w, outside the span of the rows, over all predictors."""
        return (len(self.columns) - self.Q.shape[1]) * self.original.shape[1]

    @property
    def relative(self) -> bool:
        """Whether the scales are in units of an unknown sigma."""
        return bool(self.model.joint.sigma_units.any())

    def unit(self, sigma: float) -> float:
        """Return the standard deviation of w: sigma, or 1 if the scales are not in units of it."""
        if self.relative:
            return sigma
        return 1.0

    @property
    def tilted_model(self) -> Model:
        """The model for a joint mode with sigma: N(w; 0, sigma^2) at w = 0 is sigma^-unseen."""
        if not (self.relative and self.unseen):
            return self.model
        return self.model.with_aux(
            **{
                self.model.noise_scale: Tilted(
                    self.model.noise_prior, float(self.unseen)
                )
            }
        )

    def start(self, beta: Array) -> Array:
        """(f + n, m) from (p, m)."""
        # beta_G = b + V (Q u + Q_perp w): u = Q' V^-1 (beta_G - b).
        u = self.Q.T @ (
            (beta[self.columns] - self.center[:, None]) / self.scale[:, None]
        )
        return np.vstack([beta[self.flat], u])

    def beta(self, beta: Array) -> Array:
        """(..., p, m) from (..., f + n, m), w = 0."""
        f = len(self.flat)
        full = np.zeros((*beta.shape[:-2], self.original.shape[0], beta.shape[-1]))
        full[..., self.flat, :] = beta[..., :f, :]
        full[..., self.columns, :] = self.center[:, None] + self.scale[
            :, None
        ] * np.einsum("qn,...nm->...qm", self.Q, beta[..., f:, :], optimize=True)
        return full

    def back(self, solution: Solution, unit: float = 1.0) -> Solution:
        """Return the solution over all coefficients, with the standard deviation `unit` of w; without draws."""
        not_estimable = null = None
        scale = self._covariance(solution.scale, unit)
        f = len(self.flat)
        if solution.not_estimable is not None:
            not_estimable = np.zeros(
                (self.original.shape[0], solution.not_estimable.shape[1]), bool
            )
            not_estimable[self.flat] = solution.not_estimable[:f]
        if solution.null_space is not None:
            null = np.zeros((self.original.shape[0], solution.null_space.shape[1]))
            null[self.flat] = solution.null_space[:f]
        return replace(
            solution,
            beta=self.beta(solution.beta),
            scale=scale,
            not_estimable=not_estimable,
            null_space=null,
        )

    def _covariance(
        self, inner: ParameterCovariance, unit: float
    ) -> FactoredCovariance:
        """Return the covariance of all coefficients from the covariance of (beta_F, u): Q
        contains the unit axes of F, then of u."""
        (p, m), f, r = (
            self.original.shape,
            len(self.flat),
            len(self.flat) + self.Q.shape[1],
        )
        axes = np.zeros((p, r))
        spread = np.ones(p)
        axes[self.flat, np.arange(f)] = 1.0
        axes[self.columns, f:], spread[self.columns] = self.Q, self.scale * unit
        units = np.repeat(np.where(np.arange(r) < f, 1.0, unit or 1.0), m)
        units = np.concatenate([units, np.ones(len(inner.further))])
        root = np.nan_to_num(inner.raw_root()) / units[:, None]
        covariance = FactoredCovariance.of(
            np.repeat(spread, m),
            map_of_columns(axes, m),
            root @ root.T,
            m,
            inner.further,
        )
        if inner.missing is None:
            return covariance
        missing = np.zeros((p, m), dtype=bool)
        missing[self.flat] = inner.missing[: f * m].reshape(f, m)
        missing = np.concatenate([missing.ravel(), inner.missing[r * m :]])
        return replace(covariance, missing=missing)

    def draws(
        self, solution: Solution, unit: Array | float, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Return draws of all coefficients (chain, draw, p, m) from draws of (beta_F,
        u), and the log density of w at each.

        The log density (chain, draw) is one of beta; `unit` is a number, or one for
        each draw (chain, draw).
        """
        small = solution.posterior["beta"]
        chains = small.shape[0]
        n_draws = small.shape[1]
        m = small.shape[3]
        q = len(self.columns)
        beta = self.beta(small)
        sum_of_squares = np.zeros((chains, n_draws))
        wide = np.broadcast_to(unit, (chains, n_draws))
        # a chain and a predictor at a time: draws of w are as large as the result
        for c in range(chains):
            for k in range(m):
                z = rng.standard_normal((n_draws, q))
                # Q_perp w = (1 - Q Q') z for standard normal z.
                z -= (z @ self.Q) @ self.Q.T
                sum_of_squares[c] += np.einsum("sq,sq->s", z, z)
                beta[c][:, self.columns, k] += wide[c][:, None] * (z * self.scale)
        # log N(w; 0, unit^2), minus log |V| for each predictor as a density of beta_G.
        log_w = -0.5 * sum_of_squares - self.unseen * (
            0.5 * np.log(2.0 * np.pi) + np.log(wide)
        )
        return beta, log_w - m * float(np.log(self.scale).sum())


def is_wide(model: Model) -> bool:
    """Whether there are more columns than rows in memory, and enough that p x p matrices cost more than the rows."""
    return 0 < model.design.n < model.shape[0] and model.shape[0] > FEW_COLUMNS


@one_blas_thread()  # a QR of few columns is slower with threads
def rotate_to_rows(model: Model) -> Rotated | None:
    """Return the model in the coordinates spanned by its rows.

    None if there are not fewer rows than columns, if linear predictors have different columns, or if priors are not
    independent normal ones or only partly in units of sigma.
    """
    design = model.design
    if design.owner is not None:
        return None
    informative = model.joint.informative
    G = np.flatnonzero(informative)
    F = np.flatnonzero(~informative)
    if not (design.n and len(G) > max(FEW_COLUMNS, design.n) and len(F) < design.n):
        return None
    normals = independent_normals(model)
    if normals is None:
        return None
    center, scale, relative = normals
    # (X_G V)' = Q R: X_G V = R'Q', so that the rows see R' u.
    Q, R = np.linalg.qr((design.X[:, G] * scale).T)
    center_part = design.X[:, G] @ center
    offset = design.offset
    if center.any():
        offset = plus_offset(center_part[:, None], offset)
    names = (*(design.columns[j] for j in F), *(f" {i + 1}" for i in range(len(R))))
    reduced = replace(
        design,
        X=np.column_stack([design.X[:, F], R.T]),
        columns=names,
        offset=offset,
        absent=None,
    )
    prior: dict[Key, Prior] = {names[len(F) :]: Normal(1.0, sigma_units=relative)}
    return Rotated(
        model,
        Model(reduced, model.likelihood, prior, model.aux),
        F,
        G,
        center,
        scale,
        Q,
    )


def independent_normals(model: Model) -> tuple[Array, Array, bool] | None:
    """Return means and standard deviations (q,) of the columns with a normal prior, and
    whether these are in units of sigma.

    None for other priors, and if only some are in units of an unknown sigma.
    """
    prior = model.joint.normal_columns()
    G = model.joint.informative
    if prior is None:
        return None
    relative = prior.relative[G]
    units = set((relative & (model.noise_held is None)).tolist())
    if len(units) != 1:
        return None
    if relative.any():
        sd = prior.sd[G] * np.where(relative, model.noise(), 1.0)
    else:
        sd = prior.sd[G]
    return prior.center[G], sd, units.pop()


# up to this number of columns the factor of the moments is fast also for fewer rows
FEW_COLUMNS_OF_MOMENTS = 300


class WholeGram:
    """G as a full matrix."""

    def __init__(self, G: Array) -> None:
        self.G = G

    def times(self, delta: Array) -> Array:
        """G delta."""
        return self.G @ delta

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
        """Return all p coefficients from the coefficients of `columns`; zero for dependent flat columns."""
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
    """(p,) the means of columns with a mean further than 1e5 standard deviations from 0, and 0 for the others; None if there is no such
    column, or no flat intercept to absorb the shift. Sums of squares of these columns would lose ten digits or more."""
    i = design.intercept
    if i is None or informative[i] or not design.n or design.is_lazy:
        return None
    basis = design.basis
    away = np.where(np.abs(basis.shift) > 1e5 * basis.scale, basis.shift, 0.0)
    return away if away.any() else None


def _require_near_rows(design: Design, lost: Array) -> None:
    """Raise DataError for columns that are so far from 0 that their moments lost all digits, if rows are not in memory."""
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
    is_wide = FEW_COLUMNS_OF_MOMENTS < len(columns) > design.n > 0
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
    # Projected twice, because one projection leaves rounding of the size of A.
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
