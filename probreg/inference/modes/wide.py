"""Gaussian priors on more columns than rows: the same posterior in as many coordinates as there are rows.

Columns G with independent normal priors N(b_j, (s_j unit)^2), q of them, and n < q rows. With V = diag(s),

    X_G V = R'Q',  Q (q, n) with Q'Q = I  (QR of its transpose),      beta_G = b + V (Q u + Q_perp w),

the rows see X_F beta_F + X_G b + R'u, the prior of u and w is N(0, unit^2 I), and w is seen by nobody: its posterior is its
prior. So any method solves for (beta_F, u), and w adds unit^2 (V V - V Q Q' V) to the covariance (Hastie & Tibshirani 2004;
Golub & Van Loan, section 5.3). Columns F, with flat priors, stay as they are.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.errors import DataError
from probreg.inference.base import Array, Solution
from probreg.inference.covariance import FactoredCovariance, ParameterCovariance
from probreg.inference.modes.normal_columns import independent_normals
from probreg.model.model import Model
from probreg.numerics.frame import map_of_columns
from probreg.numerics.linalg import one_blas_thread
from probreg.priors import AuxPrior, Normal, Prior
from probreg.priors.joint import Key

SOON = 2_000  # coefficients up to which work with several p x p matrices takes seconds
FEW = 200  # columns up to which their own p x p work is as quick


def refuse_written_out(solution: Solution, what: str) -> None:
    """DataError where `what` would write out a covariance, and more such matrices, of more than 2,000 coefficients."""
    k = solution.beta.size
    if solution.given_scales.compact and k > SOON:
        if solution.found is not None:
            part = "; a fit of some of the groups has it"
        else:
            part = ""
        raise DataError(
            f"{what} takes several matrices of {k:,} x {k:,}, minutes and gigabytes, and {SOON:,} coefficients is its limit; "
            f"summary, interval, predict and save work without them{part}"
        )


@dataclass(frozen=True)
class Tilted(AuxPrior):
    """p(v) v^-power: what coefficients that no row sees do to the joint mode, where their prior is in units of v."""

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
        raise DataError("a factor of a joint mode is no variable")


@dataclass(frozen=True, eq=False)
class Rotated:
    """A model in the coordinates (beta_F, u), and the way back; m predictors alike."""

    original: Model
    model: Model
    flat: Array  # (f,) numbers of F
    columns: Array  # (q,) numbers of G
    center: Array  # b (q,)
    scale: Array  # s (q,)
    Q: Array  # (q, n)

    @property
    def unseen(self) -> int:
        """Coordinates w, which the rows do not reach, over all predictors."""
        return (len(self.columns) - self.Q.shape[1]) * self.original.shape[1]

    @property
    def relative(self) -> bool:
        """The scales are in units of a sigma that is unknown."""
        return bool(self.model.joint.sigma_units.any())

    @property
    def tilted(self) -> Model:
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

    def start(self, beta: Array) -> tuple[tuple[float, ...], ...]:
        """(f + n, m) from (p, m)."""
        # beta_G = b + V (Q u + Q_perp w): u = Q' V^-1 (beta_G - b).
        u = self.Q.T @ (
            (beta[self.columns] - self.center[:, None]) / self.scale[:, None]
        )
        return tuple(map(tuple, np.vstack([beta[self.flat], u]).tolist()))

    def beta(self, found: Array) -> Array:
        """(..., p, m) from (..., f + n, m), w = 0."""
        f = len(self.flat)
        out = np.zeros((*found.shape[:-2], self.original.shape[0], found.shape[-1]))
        out[..., self.flat, :] = found[..., :f, :]
        out[..., self.columns, :] = self.center[:, None] + self.scale[
            :, None
        ] * np.einsum("qn,...nm->...qm", self.Q, found[..., f:, :], optimize=True)
        return out

    def back(self, found: Solution, unit: float = 1.0) -> Solution:
        """The solution over all coefficients, where w has the standard deviation `unit`; without draws."""
        not_estimable = null = None
        scale = self._covariance(found.scale, unit)
        f = len(self.flat)
        if found.not_estimable is not None:
            not_estimable = np.zeros(
                (self.original.shape[0], found.not_estimable.shape[1]), bool
            )
            not_estimable[self.flat] = found.not_estimable[:f]
        if found.null_space is not None:
            null = np.zeros((self.original.shape[0], found.null_space.shape[1]))
            null[self.flat] = found.null_space[:f]
        return replace(
            found,
            beta=self.beta(found.beta),
            scale=scale,
            not_estimable=not_estimable,
            null_space=null,
        )

    def _covariance(
        self, inner: ParameterCovariance, unit: float
    ) -> FactoredCovariance:
        """Over all coefficients, from that over (beta_F, u): Q holds the axes of F, of length 1, before those of u."""
        (p, m), f, r = (
            self.original.shape,
            len(self.flat),
            len(self.flat) + self.Q.shape[1],
        )
        axes = np.zeros((p, r))
        spread = np.ones(p)
        axes[self.flat, np.arange(f)] = 1.0
        axes[self.columns, f:], spread[self.columns] = self.Q, self.scale * unit
        each = np.repeat(np.where(np.arange(r) < f, 1.0, unit or 1.0), m)
        each = np.concatenate([each, np.ones(len(inner.further))])
        root = inner.raw_root() / each[:, None]
        return FactoredCovariance.of(
            np.repeat(spread, m),
            map_of_columns(axes, m),
            root @ root.T,
            m,
            inner.further,
        )

    def draws(
        self, found: Solution, unit: Array | float, rng: np.random.Generator
    ) -> tuple[Array, Array]:
        """Draws of all coefficients (chain, draw, p, m) from those of (beta_F, u), and the log density of w at each,
        (chain, draw), as one of beta; `unit` is one number, or one of each draw (chain, draw)."""
        small = found.posterior["beta"]
        chains = small.shape[0]
        per = small.shape[1]
        m = small.shape[3]
        q = len(self.columns)
        out = self.beta(small)
        sum_of_squares = np.zeros((chains, per))
        wide = np.broadcast_to(unit, (chains, per))
        for c in range(
            chains
        ):  # a chain at a time, and a predictor: draws of w are as large as what is reported
            for k in range(m):
                z = rng.standard_normal((per, q))
                # Q_perp w = (1 - Q Q') z for standard normal z.
                z -= (z @ self.Q) @ self.Q.T
                sum_of_squares[c] += np.einsum("sq,sq->s", z, z)
                out[c][:, self.columns, k] += wide[c][:, None] * (z * self.scale)
        # log N(w; 0, unit^2), less log |V| for each predictor as a density of beta_G.
        log_w = -0.5 * sum_of_squares - self.unseen * (
            0.5 * np.log(2.0 * np.pi) + np.log(wide)
        )
        return out, log_w - m * float(np.log(self.scale).sum())


def is_wide(model: Model) -> bool:
    """More columns than rows in memory, and so many that matrices of columns by columns cost more than the rows do."""
    return 0 < model.design.n < model.shape[0] and model.shape[0] > FEW


@one_blas_thread()  # a QR of few columns: threads would wait for one another
def rotated(model: Model) -> Rotated | None:
    """The model in the coordinates that its rows see; None where there are no fewer than it has columns, where priors are
    not independent normal ones, or stated partly in units of an unknown sigma."""
    design = model.design
    informative = model.joint.informative
    G = np.flatnonzero(informative)
    F = np.flatnonzero(~informative)
    if not (design.n and len(G) > max(FEW, design.n) and len(F) < design.n):
        return None
    stated = independent_normals(model)
    if stated is None:
        return None
    center, scale, relative = stated
    # (X_G V)' = Q R: X_G V = R'Q', so that the rows see R' u.
    Q, R = np.linalg.qr((design.X[:, G] * scale).T)
    moved = design.X[:, G] @ center
    offset = design.offset
    if center.any():
        offset = np.repeat(
            moved[:, None], 1 if offset is None else offset.shape[1], 1
        ) + (0.0 if offset is None else offset)
    names = (*(design.columns[j] for j in F), *(f" {i + 1}" for i in range(len(R))))
    reduced = replace(
        design,
        X=np.column_stack([design.X[:, F], R.T]),
        columns=names,
        free=np.r_[design.free[F], np.zeros(len(R), bool)],
        offset=offset,
        unused=None,
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
