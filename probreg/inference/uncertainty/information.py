"""Curvature, scores and leverages at an estimate, in well-scaled coordinates.

phi runs over the identified directions of (vec gamma, log aux), gamma on standardised columns. Covariances of an estimate
and its one-step changes use them. `curvature_at_kinks` estimates the curvature of a piecewise linear loss from the density of
residuals at its kinks.

Leave-out results of a Gaussian fit at a fixed noise scale, without a refit.

With V the covariance of the coefficients given all rows and X_g, e_g the rows and residuals of a group in units of the noise,
R = I - X_g V X_g': the residuals about a fit without the group are R^-1 e_g, and the estimate moves by V X_g' R^-1 e_g (Cook & Weisberg
1982, section 3.5).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy

from probreg.data import Block, Frame
from probreg.data.checked_arrays import full_weights, times_weights
from probreg.data.implicit_columns import row_gradients
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import (
    Array,
    Solution,
    Status,
    has_zero_noise,
    hold_at_limits,
    log_names,
)
from probreg.inference.covariance import DenseCovariance, ParameterCovariance
from probreg.inference.modes.newton_method import Newton
from probreg.inference.modes.wide import refuse_written_out
from probreg.inference.penalized.piecewise_linear import InteriorPoint
from probreg.likelihoods import DifferentiableLikelihood, PiecewiseLinearLikelihood
from probreg.likelihoods.base import ValueGradHessian
from probreg.linalg import (
    root_of_curvature,
    root_of_square,
    row_blocks,
    symmetric_root,
    weighted_gram,
)
from probreg.linalg.vec import map_of_columns, map_of_predictors, with_aux
from probreg.model.model import Model, prior_derivatives
from probreg.system.terminal import progress_bar


def curvature_at_kinks(model: Model, solution: Solution) -> Array:
    """Return up K_h(r_i - tube) + down K_h(r_i + tube) of each row, (n,), the expected
    second derivative over eta.

    E[d score / d eta] = -(up f(tube) + down f(-tube)) for residuals of density f given the
    row, which a kernel estimates (Powell 1991) with the bandwidth of Hall & Sheather 1988.
    """
    # rounding errors of the terms of a residual, in its sum and in the coefficients
    n_roundings = 4.0
    # observations per column that the smaller side needs, from simulated coverage of 95 % intervals
    min_rows = 5.0
    likelihood = model.likelihood
    design = model.design
    assert isinstance(likelihood, PiecewiseLinearLikelihood)  # callers check this
    eta = model.eta(solution.beta)
    values = likelihood.at_rows({**model.fixed, **solution.aux}, design.precision)
    slopes = likelihood.slopes(**values)
    r = likelihood.residuals(design.observed, eta, **values)
    # rows that the fit interpolates lie on a kink up to the rounding of the terms of x'beta
    terms = np.abs(design.X) @ np.abs(solution.beta[:, 0]) + np.abs(design.observed)
    rounding = n_roundings * np.finfo(float).eps * terms
    for kink in (slopes.tube, -slopes.tube):
        r = np.where(np.abs(r - kink) <= rounding, kink, r)
    w = design.row_weights
    if np.all(np.asarray(slopes.tube) == 0.0):
        # without a tube the share of residuals below 0 follows from the slopes, tau for a quantile
        share = float(np.mean(slopes.up / (slopes.up + slopes.down)))
        # dependent columns, for which a prior decides, do not fit more rows
        thinner_side = float(w.sum()) * min(share, 1.0 - share)
        p = design.moments.rank.rank
        if thinner_side < min_rows * p * (1.0 - 1e-9):  # up to rounding of tau
            raise Incompatible(
                f"a sandwich covariance needs the density of the residuals at the quantile, and one side of it has {thinner_side:.3g} of "
                f"{w.sum():g} expected observations, fewer than {min_rows:g} for each of {p} columns. Use a bootstrap"
            )
        return (slopes.up + slopes.down) * _near(r, 0.0, share, w)
    curvature = np.zeros(len(r))
    for slope, kink in ((slopes.up, slopes.tube), (slopes.down, -slopes.tube)):
        # residuals on a kink count half, for symmetry
        share = float((w @ (r < kink) + 0.5 * (w @ (r == kink))) / w.sum())
        curvature = curvature + slope * _near(r, kink, share, w)
    return curvature


def _near(r: Array, kink: Array | float, share: float, w: Array) -> Array:
    """Return K((r_i - kink) / h) / h, K Epanechnikov's kernel, if this share of the residuals is below the kink."""
    # relative to the largest residual: residuals closer than this are equal
    smallest = 1e-11
    level = 0.975  # level of the interval for which the bandwidth is optimal
    n = float(w.sum())
    # c = n^(-1/3) z^(2/3) [3 phi(q)^2 / (2 (2 q^2 + 1))]^(1/3), q = Phi^-1(share); h = s [Phi^-1(share + c) - Phi^-1(share - c)],
    # s the smaller of the standard deviation and IQR / 1.34
    q = scipy.stats.norm.ppf(share)
    c = (
        n ** (-1 / 3)
        * scipy.stats.norm.ppf(level) ** (2 / 3)
        * (1.5 * scipy.stats.norm.pdf(q) ** 2 / (2.0 * q**2 + 1.0)) ** (1 / 3)
    )
    if not c < min(share, 1.0 - share):
        raise Incompatible(
            f"a sandwich covariance needs the density of the residuals at {float(np.mean(kink)):.4g}, with a share of {share:.3g} "
            f"below it: {n:g} observations are too few. Use a bootstrap"
        )
    order = np.argsort(r)
    # quartiles between the midpoints of the observations, with a row of weight w as w
    # rows, so that -r gives the opposite sign
    cum = np.cumsum(w[order])
    half = np.minimum(0.5, 0.5 * w[order])
    middles = np.column_stack([cum - w[order] + half, cum - half]).ravel()
    places = np.interp([0.25, 0.75], middles / n, np.repeat(r[order], 2))
    spread = min(
        float(np.sqrt(w @ (r - w @ r / n) ** 2 / n)),
        float(places[1] - places[0]) / 1.34,
    )
    h = spread * (scipy.stats.norm.ppf(share + c) - scipy.stats.norm.ppf(share - c))
    if not h > smallest * np.abs(r).max():
        raise Incompatible(
            "a sandwich covariance needs distinct residuals, and half of these are equal"
        )
    # interpolated rows are at the kink for any density, so the other rows replace them
    on = r == kink
    return (
        np.where(on, 0.0, 0.75 * np.maximum(1.0 - ((r - kink) / h) ** 2, 0.0) / h)
        * n
        / (n - float(w @ on))
    )


_AT_ZERO = "the likelihood has no curvature there: use fewer columns or more rows, or fix sigma (aux={'sigma': ...})"


@dataclass(frozen=True, eq=False)
class Estimate:
    """A model at its mode; arrays are per observation, without frequency weights."""

    model: Model
    solution: Solution

    @cached_property
    def aux_values(self) -> dict[str, float]:
        """Every nuisance parameter, fixed or estimated."""
        return {**self.model.fixed, **self.solution.aux}

    @cached_property
    def weights(self) -> Array:
        """(n,), ones without weights."""
        return self.rows.weights

    @cached_property
    def scores(self) -> Array:
        """d log p(y_i) / d (eta_i, log aux), (n, m + a)."""
        return self.rows.scores

    @cached_property
    def rows(self) -> "RowDerivatives":
        """All rows at once; `estimate_of` checks that they are in memory."""
        d = self.model.design
        return RowDerivatives(self.at, d.block)

    @cached_property
    def at(self) -> "BlockEstimate":
        """The parts of the estimate that rows need."""
        # checked in `estimate_of`
        assert isinstance(self.model.likelihood, DifferentiableLikelihood)
        likelihood = self.model.likelihood
        beta = self.solution.beta
        design = self.model.design
        sampled = design.weight_kind == "sampling"
        labels = design.labels if design.n else None
        return BlockEstimate(
            likelihood,
            design.frame,
            beta,
            self.aux_values,
            self.model.unknown,
            sampled,
            labels,
        )

    # ---- coordinates -----------------------------------------------------------------------------------------------

    @cached_property
    def inside(self) -> Array:
        """(p m + a, r): (vec gamma, log aux) = inside phi, gamma on standardised columns."""
        return identified_basis(self.model, self.solution)

    @property
    def size(self) -> int:
        """p m."""
        return self.solution.beta.size

    @cached_property
    def n_identified(self) -> int:
        """The number of identified coefficients: rank times predictors."""
        N = self.solution.null_space
        return (
            self.model.shape[0] - (0 if N is None else N.shape[1])
        ) * self.model.shape[1]

    # ---- curvature -------------------------------------------------------------------------------------------------

    @cached_property
    def bread(self) -> Array:
        """A root (r, r) of the inverse negative Hessian of the log posterior over phi."""
        gamma = self.model.design.frame.from_raw(self.solution.beta)
        # an exact fit has sigma = 0, which is checked below
        with np.errstate(all="ignore"):
            # V = (inside' H inside)^-1 over the identified directions phi
            H = self.model.value_grad_hessian_standardised(
                gamma, **self.solution.aux
            ).curvature
        if isinstance(self.model.likelihood, PiecewiseLinearLikelihood):
            # on kinks the expected curvature under the data's density replaces it,
            # given the nuisance parameters
            rows = self.rows
            k = self.size
            P = self.model.joint.precision(self.model.noise(self.solution.aux))
            T = self.model.design.frame.T
            bent = weighted_gram(
                rows.U, curvature_at_kinks(self.model, self.solution) * rows.weights
            )
            H[:k, :k] = bent + T.T @ P @ T
        return root_of_inverse(self.inside.T @ H @ self.inside)

    @cached_property
    def expected_root(self) -> Array:
        """A root of the inverse expected information over phi, or over its coefficients, prior precision included."""
        return self.dispersed_root(1.0)

    def dispersed_root(self, dispersion: float) -> Array:
        """`expected_root` for row variances that are this multiple of the likelihood's variances."""
        S = self._expected_basis
        P = prior_curvature(self.model, self.solution.beta, self.solution.aux)
        P = P[: len(S), : len(S)]
        return root_of_inverse(self.data_information / dispersion + S.T @ P @ S)

    @cached_property
    def pearson(self) -> float:
        """Pearson's X^2 = sum_i w_i (y_i - mu_i)^2 / Var(y_i) of an exponential family."""
        return float(self._sum(RowDerivatives.pearson))

    @cached_property
    def data_information(self) -> Array:
        """The expected information of the rows over phi; over its coefficients if it is orthogonal to nuisance parameters."""
        # I = sum_i w_i x_i' W_i x_i, W_i = E[-d^2 log p / d eta^2].
        S = self._expected_basis
        with progress_bar("expected information"):
            return S.T @ self._sum(RowDerivatives.information) @ S

    @cached_property
    def _expected_basis(self) -> Array:
        """`inside`, or its coefficients (p m, r - a) if their expected information is orthogonal to nuisance parameters."""
        if not self.at.has_orthogonal_information:
            return self.inside
        return self.inside[
            : self.size, : self.inside.shape[1] - len(self.model.unknown)
        ]

    def of_root(self, root: Array) -> DenseCovariance:
        """Return the covariance with the root `root` over phi, or over its coefficients only."""
        theta_root = self.inside[:, : len(root)] @ root
        joint = len(root) == self.inside.shape[1]
        further = log_names(self.model) if joint else ()
        size = self.size + len(further)
        covariance = DenseCovariance(
            self.model.design.frame,
            self.model.shape[1],
            further,
            root=theta_root[:size],
        )
        # least-norm coefficients for collinear columns: beta - N N^+ beta
        return covariance.of_least_norm(self.solution.null_space)

    def sandwich(self, meat: Array, factor: float = 1.0) -> DenseCovariance:
        """V M V, V = A A' the bread: A (A'M A)^(1/2) is its root."""
        A = self.bread
        return self.of_root(np.sqrt(factor) * A @ root_of_square(A.T @ meat @ A))

    # ---- rows ------------------------------------------------------------------------------------------------------

    def meat(self, power: float | None) -> Array:
        """sum_i w_i u_i u_i' over phi; `power` of 1 - W_i G_i divides the scores, as in `RowDerivatives.less_leverage`."""
        root = None if power is None else self.root
        square = partial(RowDerivatives.meat, root=root, power=power or 0.0)
        return self.inside.T @ self._sum(square) @ self.inside

    def _sum(self, part: Callable[["RowDerivatives"], Array]) -> Array:
        """Return the sum over blocks of rows of an array."""
        return self.model.design.sum_over_rows(
            partial(sum_of_parts, at=self.at, part=part)
        )[0]

    @cached_property
    def score_rows(self) -> Array:
        """The scores of each row over phi, (n, r)."""
        return self._by_blocks(
            lambda rows: rows.score_rows(rows.scores) @ self.inside,
            self.inside.shape[1],
        )

    def influence_sums(self) -> tuple[Array, Array]:
        """Return sum_i w_i l_i^2 and sum_i w_i l_i^3 of the influences l_i on reported
        coefficients and log aux.

        l_i is the first-order change if one more observation like row i joins, the
        infinitesimal jackknife (Efron 1982, chapter 6).
        """
        # d theta / d w_i = V u_i, and the reported coefficients are beta D'.
        D = map_of_predictors(
            self.model.likelihood.contrast_matrix, self.model.shape[0]
        )
        raw = with_aux(D, len(self.model.unknown)) @ self.of_root(self.bread).raw_root()
        V = self.inside @ self.bread @ raw.T

        def part(rows: RowDerivatives) -> Array:
            influence = rows.score_rows(rows.scores) @ V
            square = influence**2
            w = rows.weights
            return np.stack([w @ square, w @ (square * influence)])

        square, cube = self._sum(part)
        return square, cube

    def _by_blocks(
        self, values: Callable[["RowDerivatives"], Array], *shape: int
    ) -> Array:
        """Return an array (n, ...) of values by blocks of rows, without arrays of the size of X."""
        block = self.model.design.block
        values_of_rows = np.empty((block.rows, *shape))
        for rows in row_blocks(block.rows, self.size):
            values_of_rows[rows] = values(RowDerivatives(self.at, block.part(rows)))
        return values_of_rows

    @cached_property
    def root(self) -> Array:
        """A root (p m, r - a) of the covariance of vec gamma by the expected information. If this is not enough, a root (p m + a, r)
        of the covariance of (vec gamma, log aux) by the observed information."""
        if self.at.has_orthogonal_information:
            return self._expected_basis @ self.expected_root
        return self.inside @ self.bread

    @cached_property
    def leverage(self) -> Array:
        """trace(W_i G_i), (n,); its sum is the number of parameters in `root` if the prior is flat."""
        # h_i = tr W_i G_i; for least squares x_i (X'X)^-1 x_i', the diagonal of the hat matrix.
        return self._by_blocks(
            lambda rows: np.einsum("nkl,nlk->n", rows.curves, rows.spread(self.root))
        )


@dataclass(frozen=True, eq=False)
class BlockEstimate:
    """The parts of an estimate that blocks of rows need, also in other processes."""

    likelihood: DifferentiableLikelihood
    basis: Frame
    beta: Array  # (p, m)
    aux_values: dict[str, float]
    unknown: tuple[str, ...]  # the estimated nuisance parameters
    sampled: bool = False  # sampling weights multiply the score of one row; they are not frequencies
    labels: Array | None = None  # names of rows in memory, if any

    @property
    def has_orthogonal_information(self) -> bool:
        """The likelihood's `has_orthogonal_information`."""
        return self.likelihood.has_orthogonal_information(self.unknown)


@dataclass(frozen=True, eq=False)
class RowDerivatives:
    """Scores and curvatures of the rows of a block at an estimate."""

    at: BlockEstimate
    block: Block
    known_eta: Array | None = None  # (n, m), the linear predictors if they are known

    @cached_property
    def U(self) -> Array:
        """(n, p), the standardised columns."""
        return self.at.basis.rows(self.block.X)

    @cached_property
    def weights(self) -> Array:
        """(n,), ones without weights."""
        return full_weights(self.block.weights, self.block.rows)

    @cached_property
    def eta(self) -> Array:
        """(n, m), offset included."""
        if self.known_eta is None:
            return self.block.eta(self.at.beta)
        return self.known_eta

    @cached_property
    def aux_values(self) -> dict[str, Any]:
        """The nuisance parameters of each row, with its precision in the noise scale."""
        return self.at.likelihood.at_rows(self.at.aux_values, self.block.precision)

    @cached_property
    def derivatives(self) -> ValueGradHessian:
        """log p(y_i) with its derivatives over (eta_i, log aux)."""
        block = self.block
        return self.at.likelihood.derivatives_over(
            self.at.unknown, block.y, self.eta, self.at.aux_values, block.precision
        )

    @cached_property
    def scores(self) -> Array:
        """d log p(y_i) / d (eta_i, log aux), (n, m + a)."""
        likelihood, block = self.at.likelihood, self.block
        gradient = self.derivatives.gradient
        if isinstance(likelihood, PiecewiseLinearLikelihood):
            gradient[:, 0] = likelihood.score_at_kinks(
                block.y, self.eta, **self.aux_values
            )
        return gradient

    @cached_property
    def mean_of_squares(self) -> Array | float:
        """(n, 1) factor that turns the squared score of eta into its mean, tau (1 -
        tau) for a quantile (Koenker 2005, section 3.2).

        The squares themselves vary much for tau near 0 or 1. 1 for other likelihoods.
        """
        likelihood = self.at.likelihood
        if not isinstance(likelihood, PiecewiseLinearLikelihood):
            return 1.0
        slopes = likelihood.slopes(**self.aux_values)
        mean = np.broadcast_to(np.sqrt(slopes.up * slopes.down), len(self.eta))
        if np.any(slopes.tube):
            return np.ones((len(mean), 1))
        return (mean / np.abs(self.scores[:, 0]))[:, None]

    @cached_property
    def curves(self) -> Array:
        """W_i = E[-d2 log p / d eta2] of each row, (n, m, m); if this is not enough, -d2 log p / d (eta, log aux)2, (n, m + a, m + a)."""
        if not self.at.has_orthogonal_information:
            return self.derivatives.curvature
        return self.at.likelihood.information(
            self.eta, **self.aux_values, **self.at.likelihood.given(self.block.y)
        )

    def information(self) -> Array:
        """The expected information over (vec gamma, log aux), or over vec gamma (p m, p m) if it is orthogonal to log aux. Incompatible
        without a formula for it."""
        if self.at.has_orthogonal_information:
            return weighted_gram(self.U, times_weights(self.curves, self.weights))
        likelihood, y, m = self.at.likelihood, self.block.y, self.at.likelihood.width
        known = {**self.aux_values, **likelihood.given(y)}
        W = likelihood.joint_information(self.eta, **known)
        if W is None:
            raise Incompatible(
                f"the expected information has no formula for {likelihood.named} likelihood, or too many terms: use 'observed', or a sandwich "
                "such as 'HC1'"
            )
        places = likelihood.places_over(self.at.unknown)
        W = times_weights(W[:, places][:, :, places], self.weights)
        of_gamma = weighted_gram(self.U, W[:, :m, :m])
        k = len(of_gamma)
        of_aux = [self.score_rows(column).sum(0) for column in W[:, m:].swapaxes(0, 1)]
        information = np.zeros((k + len(of_aux), k + len(of_aux)))
        information[:k, :k] = of_gamma
        for i, column in enumerate(of_aux, k):
            information[i] = information[:, i] = column
        return information

    def pearson(self) -> Array:
        """The weighted sum of squared residuals over their variances."""
        likelihood, y = self.at.likelihood, self.block.y
        known = {**self.aux_values, **likelihood.given(y)}
        residual = likelihood.response(y) - likelihood.mean(self.eta, **known)
        variance = likelihood.response_variance(self.eta, **known)
        with np.errstate(invalid="ignore", divide="ignore"):
            squares = np.nan_to_num(residual**2 / variance)  # nan without trials
        return np.asarray(self.weights @ squares)

    def meat(self, root: Array | None, power: float) -> Array:
        """The sum of squares of the scores over (vec gamma, log aux): sum_i w_i u_i u_i' for frequencies w, sum_i w_i^2 u_i u_i' for
        sampling weights."""
        m = self.at.likelihood.width
        scores = self.less_leverage(root, power)
        scores = np.hstack([scores[:, :m] * self.mean_of_squares, scores[:, m:]])
        root_of_w = self.weights if self.at.sampled else np.sqrt(self.weights)
        u = self.score_rows(scores * root_of_w[:, None])
        return u.T @ u

    def spread(self, root: Array) -> Array:
        """G_i = Z_i Z_i' with Z from `predictor_rows`, the covariance of the predictors in `curves`."""
        Z = self.predictor_rows(root)
        return Z @ Z.mT

    def predictor_rows(self, root: Array) -> Array:
        """d eta_i / d phi, (n, m, k), for vec gamma = root phi; d (eta_i, log aux) / d phi if the root has rows of log aux."""
        p, k = self.at.beta.size, root.shape[1]
        products = self.U @ root[:p].reshape(len(self.at.beta), -1)
        Z = products.reshape(len(products), -1, k)
        further = np.broadcast_to(root[p:], (len(Z), len(root) - p, k))
        return np.concatenate([Z, further], 1)

    def score_rows(self, scores: Array) -> Array:
        """(u_i kron s_i, s_i^aux), the scores over (vec gamma, log aux) from the scores over (eta, log aux), (n, p m + a)."""
        m = self.at.likelihood.width
        over_gamma = row_gradients(scores[:, None, :m], self.U)
        return np.hstack([over_gamma.reshape(len(scores), -1), scores[:, m:]])

    def less_leverage(self, root: Array | None, power: float) -> Array:
        """Multiply the scores of the predictors in `curves` by (1 - W_i G_i)^-power, unless the root is None.

        With 1/2 their variance is correct under the model, with 1 they are
        leave-one-out scores. DataError for a row of leverage 1.
        """
        smallest = 1e-10  # 1 - leverage below which a row determines its own fit
        if root is None:
            return self.scores
        scores = self.scores.copy()
        W = self.curves
        # G = L L' and L'W L = Q diag(v) Q': (1 - W G)^-power = 1 + W B diag(((1 - v)^-power - 1) / v) B', B = L Q.
        L = symmetric_root(self.spread(root))
        value, Q = np.linalg.eigh(L.mT @ W @ L)
        B = L @ Q
        bad = np.flatnonzero(1.0 - value[:, -1] < smallest)
        if len(bad):
            row = self.block.start + bad[0]
            if self.at.labels is not None:
                row = self.at.labels[row]
            raise DataError(
                f"row {row} has a leverage of at least 1 (without it a coefficient is not determined), and HC2 and HC3 divide by 1 - leverage: use "
                "HC0 or HC1"
            )
        with np.errstate(invalid="ignore"):
            growth = np.expm1(-power * np.log1p(-value)) / value
        growth = np.where(value == 0.0, power, growth)[..., None]
        of_predictors = scores[:, : W.shape[1]]
        of_predictors += (W @ B @ (growth * (B.mT @ of_predictors[..., None])))[..., 0]
        return scores


def identified_basis(model: Model, solution: Solution) -> Array:
    """Return B (d, r): orthonormal directions of theta that the rows and priors identify."""
    m = model.shape[1]
    a = len(model.unknown)
    Q = np.eye(model.shape[0])
    if solution.null_space is not None:
        # beta = N c does not change X beta; in gamma = T^-1 N c: B is the orthonormal
        # complement of T^-1 N.
        Q = np.linalg.qr(
            model.design.frame.from_raw(solution.null_space), mode="complete"
        )[0][:, solution.null_space.shape[1] :]
    return with_aux(map_of_columns(Q, m), a)


def prior_curvature(model: Model, beta: Array, aux: Mapping[str, float]) -> Array:
    """Return the curvature of the prior over (vec gamma, log aux), beta = T gamma."""
    known = {**model.fixed, **aux}
    return prior_derivatives(model, beta, model.design.frame.T, known).curvature


def sum_of_parts(
    block: Block, *, at: BlockEstimate, part: Callable[[RowDerivatives], Array]
) -> tuple[Array, ...]:
    """Return the sum of an array over parts of the rows of a block."""
    return block.sweep(
        lambda rows: (part(RowDerivatives(at, rows)),), width=at.beta.size
    )


def estimate_of(
    model: Model, solution: Solution, purpose: str, *, in_memory: bool = False
) -> Estimate:
    """Return the estimate with curvature and rows, or raise an error with the reason
    why `purpose` does not exist.

    `in_memory`: the purpose needs each row in memory.
    """
    kinked = isinstance(model.likelihood, PiecewiseLinearLikelihood)
    reason = (InteriorPoint() if kinked else Newton()).obstacle(model)
    if reason:
        raise Incompatible(
            f"{purpose} needs two derivatives of the log posterior: {reason}"
        )
    in_memory = in_memory or kinked
    refuse_written_out(solution, purpose)
    if in_memory:
        model.design.need_rows(purpose)
    if not model.design.has_rows:
        raise DataError(
            f"{purpose} is a sum over the rows, and {model.design.rows_needed}"
        )
    if solution.status is Status.NO_MAXIMUM:
        raise NotConverged(
            f"{purpose} does not exist: {solution.status.value} ({solution.detail})"
        )
    if has_zero_noise(model, solution):
        raise NotConverged(
            f"{purpose} does not exist: the fit meets every response exactly, so {_AT_ZERO}"
        )
    return Estimate(hold_at_limits(model, solution), solution)


def root_of_inverse(H: Array) -> Array:
    """Return a root of the inverse of a matrix. NotConverged if it is not positive definite."""
    root = root_of_curvature(H)
    if root is None:
        raise NotConverged(
            "the curvature at the estimate is not positive definite (an exact fit, or no maximum), so the estimate has no "
            "covariance of this kind. See check(model), or give a prior"
        )
    return root


# with a smaller eigenvalue of R the coefficients are not identified without these rows
SINGULAR = 1e-10


class WhitenedRows(NamedTuple):
    """Residuals (n,), rows (n, p) and square roots of precisions (n,), in units of the noise."""

    e: Array
    X: Array
    root: Array

    @classmethod
    def of(cls, model: Model, beta: Array, sigma: float) -> "WhitenedRows":
        """Return the rows at coefficients (p,) and a noise scale."""
        d = model.design
        root = np.sqrt(full_weights(d.precision, d.n))
        e = root * (d.observed - model.eta(beta[:, None])[:, 0]) / sigma
        return cls(e, d.X * (root / sigma)[:, None], root)

    def apart(self, rows: Array, V: ParameterCovariance) -> Array:
        """R (n_g, n_g) of some rows."""
        B = V.half(self.X[rows])
        return np.eye(len(rows)) - B @ B.T
