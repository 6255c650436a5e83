"""Gaussian priors on more columns than rows: the same posterior in as many coordinates
as rows.

Columns G with independent normal priors N(b_j, (s_j unit)^2), q of them, and n < q rows. With V = diag(s),

    X_G V = R'Q',  Q (q, n) with Q'Q = I  (QR of its transpose),      beta_G = b + V (Q u + Q_perp w),

the rows depend on X_F beta_F + X_G b + R'u, the prior of u and w is N(0, unit^2 I), and
the data do not depend on w: its posterior is its prior. So any method solves for
(beta_F, u), and w adds unit^2 (V V - V Q Q' V) to the covariance (Hastie & Tibshirani
2004; Golub & Van Loan, section 5.3). Columns F, with flat priors, are unchanged.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from probreg.data.rows import plus_offset
from probreg.errors import DataError
from probreg.inference.base import Array, Solution
from probreg.inference.covariance import FactoredCovariance, ParameterCovariance
from probreg.linalg import one_blas_thread
from probreg.linalg.vec import map_of_columns
from probreg.model.model import Model
from probreg.priors import AuxPrior, Normal, Prior
from probreg.priors.joint import Key

SOON = 2_000  # coefficients up to which several p x p matrices take seconds
FEW = 200  # columns up to which p x p matrices are equally fast


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
        """Return the covariance of all coefficients from the one of (beta_F, u): Q
        contains the unit axes of F, then those of u."""
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
        for c in range(
            chains
        ):  # a chain and a predictor at a time: draws of w are as large as the result
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
    return 0 < model.design.n < model.shape[0] and model.shape[0] > FEW


@one_blas_thread()  # a QR of few columns is slower with threads
def rotate_to_rows(model: Model) -> Rotated | None:
    """Return the model in the coordinates spanned by its rows.

    None if there are not fewer than columns, if linear predictors have columns of their own, or priors are not independent
    normal ones or only partly in units of sigma.
    """
    design = model.design
    if design.owner is not None:
        return None
    informative = model.joint.informative
    G = np.flatnonzero(informative)
    F = np.flatnonzero(~informative)
    if not (design.n and len(G) > max(FEW, design.n) and len(F) < design.n):
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
