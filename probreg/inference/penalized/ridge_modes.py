"""Gaussian models with normal priors at every scale from one decomposition.

Columns G have the prior N(b, s^2 V), V = (L L')^-1, in units of sigma if sigma is
unknown; columns F are flat. With W the weights of the rows,

    A = W^(1/2) X_G L'^-1,    B = W^(1/2) X_F,    v = W^(1/2) (y - offset - X_G b),    beta_G = b + L'^-1 w,

the mode at scale s minimises |v - B beta_F - A w|^2 + lam |w|^2 at lam = sigma^2 / s^2
(1 / s^2 in units of sigma): the ridge path of columns A with flat B, computed in
`kernels.ridge`. It needs one decomposition: of A A' if rows are at most twice the
columns, of the triangular factor of [B A v] if they are more, and of A itself to leave
rows out.
"""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from probreg.data.checked_arrays import full_weights
from probreg.inference.base import Array
from probreg.inference.modes.wide import independent_normals
from probreg.kernels.ridge import RidgePath, path_beside
from probreg.linalg import rank_of, triangular, triangular_log_det
from probreg.model.model import Model
from probreg.model.off_span import total_variance_left
from probreg.priors import Reference


class RowsLeftOut(NamedTuple):
    """Residuals of each row (L, n) from the fit without one observation of this row."""

    residual: Array  # y minus the prediction
    rss: Array  # the penalised sum of squares without it


@dataclass(frozen=True, eq=False)
class RidgeModes:
    """A Gaussian model with normal priors, with fixed sigma or all priors in its units;
    methods take scales (L,).

    `least` is the smallest lam in use.
    """

    model: Model
    least: float = 0.0
    linear: ClassVar[bool] = True  # the coefficients are linear in the response

    @classmethod
    def of(cls, model: Model, scales: Array) -> "RidgeModes":
        return cls(model, float(cls(model).lam(scales).min()))

    def lam(self, scales: Array) -> Array:
        """(L,)."""
        return self._sigma**2 / np.square(np.asarray(scales, dtype=float))

    @property
    def _sigma(self) -> float:
        """The noise scale; 1 if it is unknown, because the scales are in units of it."""
        if self.model.noise_held is None:
            return 1.0
        return self.model.noise_held

    # ---- the columns -------------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> Array:
        """Numbers of G."""
        return np.flatnonzero(self.model.joint.informative)

    @cached_property
    def center(self) -> Array:
        """b (q,)."""
        return self.model.joint.center[self.columns]

    @cached_property
    def _root(self) -> Array:
        """L'^-1: its diagonal (q,) if it is diagonal, else L (q, q)."""
        normals = independent_normals(self.model)
        if normals is not None:
            return normals[1]
        P = self.model.joint.precision(self._sigma)
        return np.linalg.cholesky(P[np.ix_(self.columns, self.columns)])

    def _unit(self, X: Array) -> Array:
        """X L'^-1 (n, q)."""
        L = self._root
        if L.ndim == 1:
            return X * L
        return solve_triangular(L, X.T, lower=True).T

    def _raw(self, w: Array) -> Array:
        """b + L'^-1 w (L, q)."""
        L = self._root
        return self.center + (
            w * L if L.ndim == 1 else solve_triangular(L, w.T, lower=True, trans="T").T
        )

    @cached_property
    def flat(self) -> Array:
        """Numbers of the columns F that do not depend on earlier ones."""
        flat = np.flatnonzero(~self.model.joint.informative)
        if not len(flat):
            return flat
        return flat[list(rank_of(triangular(self._reduced_columns(flat))).kept)]

    @property
    def deficient(self) -> bool:
        """Whether some flat columns depend on others."""
        return len(self.flat) + len(self.columns) < self.model.shape[0]

    # ---- the rows ----------------------------------------------------------------------------------------------------

    @property
    def _tall(self) -> bool:
        """Whether a triangular factor of the rows is smaller than the rows."""
        return not 0 < self.model.design.n <= 2 * len(self.columns)

    @cached_property
    def _roots(self) -> Array:
        """The diagonal of W^(1/2) (n,)."""
        d = self.model.design
        return np.sqrt(full_weights(d.square_weights, d.n))

    def _weighted_columns(self, columns: Array) -> Array:
        """W^(1/2) X_J."""
        A = np.asarray(self.model.design.X[:, columns], dtype=float)
        return A * self._roots[:, None]

    @cached_property
    def _response(self) -> Array:
        """W^(1/2) (y - offset) (n,)."""
        return self.model.design.response_less_offset * self._roots

    @cached_property
    def of_rows(self) -> RidgePath:
        """The path over the rows."""
        A = self._weighted_columns(self.columns)
        return self._path(A, self._response, self._weighted_columns(self.flat))

    def _path(self, A: Array, v: Array, B: Array) -> RidgePath:
        """The path of rows A of the columns G, v of the response and B of the flat columns."""
        if self.center.any():
            v = v - A @ self.center
        return path_beside(self._unit(A), v, B, self.least)

    @cached_property
    def reduced_path(self) -> RidgePath:
        """The path over the triangular factor of the rows, if it is smaller."""
        if not self._tall:
            return self.of_rows
        v = np.asarray(self.model.design.moments.factor[:, -1], dtype=float)
        A = self._reduced_columns(self.columns)
        return self._path(A, v, self._reduced_columns(self.flat))

    def _reduced_columns(self, columns: Array) -> Array:
        """W^(1/2) X_J, or its rows in the triangular factor if these are fewer."""
        if not self._tall:
            return self._weighted_columns(columns)
        return np.asarray(self.model.design.moments.factor[:, columns], dtype=float)

    # ---- along the scales --------------------------------------------------------------------------------------------

    def beta(self, scales: Array) -> Array:
        """(L, p); zero for dependent flat columns."""
        beta = np.zeros((len(scales), self.model.shape[0]))
        w = self.reduced_path.coefficients(self.lam(scales))
        beta[:, self.columns] = self._raw(w)
        if len(self.flat):
            # beta_F = R_F^-1 Q'(v - A w), B = Q R_F
            Q, R = np.linalg.qr(self._reduced_columns(self.flat))
            path = self.reduced_path
            residual = path.y[:, None] - path.Phi @ w.T
            beta[:, self.flat] = solve_triangular(R, Q.T @ residual).T
        return beta

    def df(self, scales: Array) -> Array:
        """sum d / (d + lam), and one for each flat column (L,)."""
        return self.reduced_path.df(self.lam(scales))

    def rss(self, scales: Array) -> Array:
        """|y - X beta|^2 at the mode, weighted (L,)."""
        return self.reduced_path.rss(self.lam(scales))

    def penalised_rss(self, scales: Array) -> Array:
        """|y - X beta|^2 + lam |w|^2 at the mode, weighted (L,)."""
        return self.reduced_path.penalised_rss(self.lam(scales))

    def sigma(self, scales: Array) -> Array:
        """Sigma (L,): fixed, or at the joint mode of log sigma with the
        coefficients."""
        held = self.model.noise_held
        if held is not None:
            return np.full(len(scales), held)
        # sigma^2 = (RSS + penalty) / (N + q)
        return np.sqrt(
            self.penalised_rss(scales) / (self.model.design.total + len(self.columns))
        )

    def log_integral(self, scales: Array) -> Array:
        """log |V|^(-1/2) s^-q - log |R| (L,), R'R = X'WX + P: the factor from
        integrating over beta, in units of sigma."""
        # |R'R| = |B'B| |A'MA + lam I| for P = lam L L', so it is -log |R_F| - log |I +
        # A'MA / lam| / 2
        flat = 0.0
        if len(self.flat):
            R = np.linalg.qr(self._reduced_columns(self.flat), mode="r")
            flat = float(triangular_log_det(R))
        return -flat - 0.5 * self.reduced_path.log_det(self.lam(scales))

    def bound(self, scales: Array) -> Array:
        """tau^2 trace(K - Q) / (2 sigma^2) of bases with few anchors (L,), subtracted
        in a lower bound of the evidence (Titsias 2009)."""
        variance_left = total_variance_left(self.model, self._sigma)
        return 0.5 * variance_left * np.square(np.asarray(scales, dtype=float))

    def left_out(self, scales: Array) -> RowsLeftOut:
        """Leave-one-out results of rows in memory; nan for a row that alone determines
        a coefficient."""
        d = self.model.design
        lam = self.lam(scales)
        path = self.of_rows
        if self.deficient:
            return RowsLeftOut(*[np.full((len(lam), d.n), np.nan)] * 2)
        counts = d.row_weights
        # A row of weight w loses one of its w observations. Each has the leverage H_ii / w: 1 - H_ii / w = (w - 1 + (1 - H_ii)) / w.
        complement = (counts - 1.0 + path.one_minus_leverage(lam)) / counts
        complement = np.where(complement < 1e-10, np.nan, complement)
        # y_i - e_i / (1 - h_i) is the prediction without it, and RSS_P - w_i e_i^2 / (1
        # - h_i) remains
        # (Cook & Weisberg 1982, section 2.2).
        e = path.residuals(lam) / self._roots
        w = full_weights(d.precision, d.n)
        return RowsLeftOut(
            e / complement,
            path.penalised_rss(lam)[:, None] - w * np.square(e) / complement,
        )


@dataclass(frozen=True, eq=False)
class JointRidgeModes(RidgeModes):
    """The joint modes of coefficients with priors in raw units and an unknown sigma
    under p(sigma) = 1/sigma, at `scales` (S,).

    The mode given sigma has lam = sigma^2 / s^2, and d log p / d log sigma = RSS(lam) /
    sigma^2 - N vanishes at the joint one:

        F(u) = log RSS(e^u / s^2) - log N - u = 0,    u = log sigma^2,    F' = 2 sum r_j^2 d_j / (d_j + lam) / RSS - 1

    with r_j = lam z_j / (d_j + lam) the residual on axis j. All scales are solved for at once from one decomposition.
    """

    linear = False
    scales: Array = field(default_factory=lambda: np.ones(1))
    noise: Array = field(default_factory=lambda: np.ones(1))  # (S,)

    @classmethod
    def solve_all(cls, model: Model, scales: Array) -> "JointRidgeModes | None":
        """Return None for other models, if sigma has no mode at some scale, or several
        at the strongest prior."""
        from scipy.optimize.elementwise import find_root

        if not _raw_under_unknown_noise(model):
            return None
        modes = cls(model, scales=np.sort(scales))
        path = modes.reduced_path
        total = model.design.total
        rss_min = float(path.rss(np.full(1, 1e-300))[0])
        rss_max = float(path.rss(np.full(1, 1e300))[0])
        # sigma runs to 0 if the flattest fit leaves no more than 1e-8 of the sum of squares
        if modes.deficient or not rss_min > 1e-8 * rss_max:
            return None
        s2 = np.square(modes.scales)
        edges = np.linspace(
            # grid of log sigma^2 for sign changes of its equation
            np.log(rss_min / total) - 1e-6,
            np.log(rss_max / total) + 1e-6,
            60,
        )
        F = np.stack([np.log(path.rss(np.exp(u) / s2) / total) - u for u in edges], 1)
        # log p is maximal where F decreases through 0. If there are several roots, take
        # the root nearest to the root at the previous, stronger prior.
        falls = (F[:, :-1] > 0) & (F[:, 1:] <= 0)
        if falls[0].sum() != 1 or not falls.any(1).all():
            return None
        index = falls.argmax(1)
        for i in np.flatnonzero(falls.sum(1) > 1):
            crossings = np.flatnonzero(falls[i])
            index[i] = crossings[np.abs(crossings - index[i - 1]).argmin()]
        root = find_root(
            lambda u, s2: np.log(path.rss(np.exp(u) / s2) / total) - u,
            (edges[index], edges[index + 1]),
            args=(s2,),
            tolerances={"xatol": 1e-14, "xrtol": 1e-14},  # of log sigma^2
        )
        return replace(modes, noise=np.exp(root.x / 2.0))

    def lam(self, scales: Array) -> Array:
        return np.square(self.sigma(scales) / np.asarray(scales, dtype=float))

    def sigma(self, scales: Array) -> Array:
        return self.noise[np.searchsorted(self.scales, scales)]


def _raw_under_unknown_noise(model: Model) -> bool:
    """Whether the model is least squares with normal priors in raw units and an unknown
    noise scale."""
    joint = model.joint
    return (
        model.likelihood.least_squares
        and bool(model.unknown)
        and isinstance(model.noise_prior, Reference)
        and joint.gaussian
        and bool(joint.informative.any())
        and not joint.sigma_units.any()
    )
