"""Least squares and ridge in one triangular solve, from the moments of the rows only.

A normal prior is a set of further rows: with P = L L' its precision in units of
1/sigma^2 and b its mean, ||y - X beta||^2 + (beta - b)' P (beta - b) is the sum of
squares of [X; L'] beta against [y; L'b]. One more triangular reduction gives the
posterior from the moments, without forming X'X.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from probreg.data import Design, Frame, Moments
from probreg.errors import Incompatible
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    log_names,
    sigma_note,
)
from probreg.inference.covariance import (
    DenseCovariance,
    root_of_factor,
)
from probreg.inference.modes.level_rows import (
    FreeDirections,
    LeastSquares,
    least_squares_of_levels,
)
from probreg.inference.modes.wide import rotate_to_rows
from probreg.inference.obstacles import bounded_aux, improper_aux, unsupported_kinds
from probreg.inference.status import Note, Topic, important_note
from probreg.likelihoods import Gaussian
from probreg.linalg import (
    ColumnRank,
    condition_of,
    inverse_upper,
    merge,
    rank_of,
    refine,
    residual_sums,
    solve_upper,
    triangular,
    triangular_log_det,
)
from probreg.linalg.doubled import ResidualProducts as Sums
from probreg.model.model import Model
from probreg.priors import FisherPrior, GaussianPrior, JointPrior


@dataclass(frozen=True, eq=False)
class Conditional:
    """beta | sigma, y ~ N(mean, sigma^2 (R'R)^-1), with R'R = X'WX + P, and the least penalised sum of squares `rss`."""

    factor: Array  # (p + 1, p + 1), the triangular reduction of rows and prior together
    # refined mean and rss, if the factor has fewer digits
    exact: tuple[Array, float] | None = None
    inverse: Array | None = None  # refined (R'R)^-1
    known: ColumnRank | None = None  # the rank, if it was computed before

    @property
    def R(self) -> Array:
        return self.factor[:-1, :-1]

    @cached_property
    def rank(self) -> ColumnRank:
        if self.known is None:
            return rank_of(self.R)
        return self.known

    @cached_property
    def mean(self) -> Array:
        """(p,); full rank only."""
        if self.exact is not None:
            return self.exact[0]
        return np.asarray(solve_upper(self.R, self.factor[:-1, -1]), dtype=float)

    @cached_property
    def rss(self) -> float:
        if self.exact is not None:
            return self.exact[1]
        return float(self.factor[-1, -1] ** 2)

    @cached_property
    def root(self) -> Array:
        """R^-1; R^-1 R'^-1 is the covariance at sigma = 1."""
        return inverse_upper(self.R)

    @cached_property
    def log_det_R(self) -> float:
        return float(triangular_log_det(self.R))


@dataclass(frozen=True, eq=False)
class PriorRows:
    """The normal prior as rows [L' | L'b]; rows not in units of sigma are later multiplied by sigma."""

    relative: Array  # (k1, p + 1)
    absolute: Array  # (k2, p + 1)

    @classmethod
    def of(cls, prior: JointPrior) -> "PriorRows":
        parts: dict[bool, list[Array]] = {
            True: [np.zeros((0, prior.p + 1))],
            False: [np.zeros((0, prior.p + 1))],
        }
        for b in prior.blocks:
            q = len(b.columns)
            if not prior.informative[list(b.columns)].any() or not isinstance(
                b.prior, GaussianPrior
            ):
                continue
            sd = b.prior.independent(q)
            if sd is None:
                root = np.linalg.cholesky(b.prior.precision(q)).T
            else:
                root = np.diag(1.0 / sd)
            rows = np.zeros((q, prior.p + 1))
            rows[:, list(b.columns)] = root
            rows[:, -1] = root @ b.prior.center(q)
            parts[b.prior.sigma_units].append(rows)
        return cls(np.vstack(parts[True]), np.vstack(parts[False]))

    def at(self, sigma: float) -> Array:
        return np.vstack([self.relative, sigma * self.absolute])

    @property
    def size(self) -> int:
        """Number of informative directions."""
        return len(self.relative) + len(self.absolute)

    def log_det(self, sigma: float) -> float:
        """log |P|^(1/2) over the informative directions, in units of 1/sigma^2."""
        if not self.size:
            return 0.0
        rows = self.at(sigma)[:, :-1]
        return float(0.5 * np.linalg.slogdet(rows @ rows.T)[1])


def posterior_given_sigma(
    moments: Moments, prior: PriorRows, sigma: float
) -> Conditional:
    """The posterior of beta given sigma."""
    rows = prior.at(sigma)
    if len(rows):
        return Conditional(merge(moments.factor, rows))
    return Conditional(moments.factor, known=moments.rank)


def refine_posterior(model: Model, prior: PriorRows, sigma: float) -> Conditional:
    """Return `posterior_given_sigma` with iteratively refined mean and rss, if collinear columns cost digits and rows are in memory."""
    design = model.design
    given = posterior_given_sigma(design.moments, prior, sigma)
    # condition number of the columns, scaled to unit length, above which coefficients are refined
    max_condition = 1e3
    # relative error of standard errors, cond(R) eps, above which they are refined too, up
    # to a number of rows times squared columns that takes about 0.2 seconds
    max_error = 1e-12
    max_products = 10**6
    if (
        not design.n
        or given.rank.dropped
        or (ill := condition_of(given.R)) < max_condition
    ):
        return given
    y = design.response_less_offset
    # columns and y are scaled by powers of two, which avoids rounding and overflow
    parts = (
        (design.X, y, design.square_weights),
        (prior.at(sigma)[:, :-1], prior.at(sigma)[:, -1], None),
    )
    unit = np.max([_power(A) for A, _, _ in parts if len(A)], axis=0)
    top = np.max([_power(v[:, None])[0] for _, v, _ in parts if len(v)])
    rows = [(np.ldexp(A, -unit), np.ldexp(v, -top), w) for A, v, w in parts if len(A)]
    R = given.R / np.ldexp(1.0, unit)
    start = np.ldexp(given.mean, unit - top)
    refinement = refine(partial(_sums, rows), R, start)
    if refinement is None:
        return given
    exact = np.ldexp(refinement[0], top - unit), refinement[1] * 4.0**top
    inverse = None
    is_inexact = ill * np.finfo(given.R.dtype).eps > max_error
    if is_inexact and design.n * len(unit) ** 2 <= max_products:
        unscaled = np.asarray(given.root @ given.root.T, dtype=float)
        exponents = unit[:, None] + unit
        inverse = _inverse(rows, R, np.ldexp(unscaled, exponents))
        if inverse is not None:
            inverse = np.ldexp(inverse, -exponents)
    return replace(given, exact=exact, inverse=inverse)


def _sums(
    rows: list[tuple[Array, Array, Array | None]], b: tuple[Array, Array]
) -> Sums:
    sums = [residual_sums(*part, b) for part in rows]
    return Sums(np.sum([f.slope for f in sums], axis=0), sum(f.square for f in sums))


def _inverse(
    rows: list[tuple[Array, Array, Array | None]], R: Array, start: Array
) -> Array | None:
    """(X'WX)^-1 column by column: X'WX b = c for each column c of the identity, that is y = 0."""
    # Column j of (X'WX)^-1 solves X'WX b = e_j, that is X'W(0 - X b) + e_j = 0: least squares with y = 0 and c = e_j.
    zero_response = [(A, np.zeros_like(v), w) for A, v, w in rows]
    columns = [
        refine(partial(_sums, zero_response), R, b, c)
        for b, c in zip(start.T, np.eye(len(R)))
    ]
    if any(f is None for f in columns):
        return None
    C = np.column_stack([f[0] for f in columns if f is not None])
    return (C + C.T) / 2


def _power(A: Array) -> Array:
    """(p,) the exponents of the powers of two next above the largest value of each column."""
    return np.frexp(np.abs(A).max(axis=0))[1]


def combinations(rank: ColumnRank, columns: tuple[str, ...]) -> str:
    """Return the linear dependencies of the columns in words."""
    equations = []
    for i, j in enumerate(rank.dropped):
        right = ""
        for c, k in zip(rank.combos[i], rank.kept):
            if abs(c) <= 1e-8:
                continue
            sign = "-" if c < 0 else "+"
            factor = f"{abs(c):.4g} "
            if abs(abs(c) - 1) < 1e-8:
                factor = ""
            right += f" {sign} {factor}{columns[k]}"
        right = right.removeprefix(" +").strip()
        equations.append(f"{columns[j]} = {right or '0'}")
    return "; ".join(equations)


def null_space(rank: ColumnRank, p: int) -> Array:
    """Directions of beta that leave X beta unchanged, as columns (p, k)."""
    N = np.zeros((p, len(rank.dropped)))
    for i, j in enumerate(rank.dropped):
        # Column j is the sum of combos[k] times column k, so that X (e_j - sum_k combos[k] e_k) = 0.
        N[j, i] = 1.0
        N[list(rank.kept), i] = -rank.combos[i]
    return N


def not_identified(N: Array) -> Array:
    """(p,) bool: coefficients that are not identified, because a direction N (p, k) changes them."""
    return np.abs(N).max(1, initial=0.0) > 1e-8


def least_norm(beta: Array, N: Array | None) -> Array:
    """Return the member of least norm of beta + N c, for coefficients (..., p, m)."""
    return beta if N is None else beta - N @ (np.linalg.pinv(N) @ beta)


def open_directions(model: Model) -> FreeDirections | None:
    """Return the directions of flat columns that do not change X beta; None if all columns are identified."""
    flat = np.flatnonzero(~model.joint.informative)
    if not len(flat):
        return None
    design = model.design
    # columns of different linear predictors are orthogonal in the moments
    if design.n and design.owner is None:
        F = triangular(design.X[:, flat], weights=design.weights)
    else:
        F = triangular(design.moments.R[:, flat])
    rank = rank_of(F)
    if not rank.dropped:
        return None
    N = np.zeros((model.shape[0], len(rank.dropped)))
    N[flat] = null_space(rank, len(flat))
    return FreeDirections(
        N,
        combinations(rank, tuple(design.columns[i] for i in flat)),
    )


def jeffreys_obstacle(model: Model, name: str) -> str | None:
    """Return why Jeffreys' prior does not exist: dependent columns make the information singular."""
    if not any(isinstance(b.prior, FisherPrior) for b in model.joint.blocks):
        return None
    rank = model.design.moments.rank
    if not rank.dropped:
        return None
    equations = combinations(rank, model.design.columns)
    return f"{name}: Jeffreys' prior needs columns that are identified, and {equations}: drop one"


def search_obstacle(method: Method, model: Model) -> str | None:
    """Return why a method that searches for a mode does not fit this model, or None."""
    reason = unsupported_kinds(method, model) or bounded_aux(method, model)
    if reason is None and method.target == "posterior":
        reason = improper_aux(method, model)
    return reason or jeffreys_obstacle(model, method.name)


NO_DEGREES_OF_FREEDOM = important_note(
    Topic.LIKELIHOOD,
    "no degrees of freedom are left: the columns reproduce every response, so that sigma, standard errors, log-likelihood and AIC "
    "have no estimate. Use fewer columns, or hold sigma",
)
EXACT_FIT = important_note(
    Topic.LIKELIHOOD,
    "the fit is exact: residuals are rounding, so that sigma, standard errors, tests, log-likelihood and AIC mean nothing. Is the "
    "response computed from the columns?",
)
SIGMA_FREE = "closed_form with a normal prior needs sigma, because its mode depends on sigma. Fix it (aux={'sigma': ...}), give the prior in units of sigma (Normal(..., sigma_units=True)), or use newton, which finds the joint mode of beta and log sigma"


@METHODS.register
@dataclass(frozen=True)
class ClosedForm(Method):
    """The mode argmin ||y - X beta||^2 + (beta - b)'P(beta - b) by QR: Gaussian likelihood, flat or normal priors.

    With flat priors this is least squares. sigma is then estimated by maximum likelihood, sqrt(RSS/n), and standard
    errors use the unbiased sqrt(RSS/(n - rank)) with n - rank degrees of freedom; both are reported. With a normal
    prior, sigma must be fixed or scale the prior: its joint mode over log sigma is sqrt((RSS + penalty)/(n + q)).
    Columns that are combinations of others have the coefficients of least norm, and these coefficients are marked
    as not identified.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> model = Model.from_arrays([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"])
    >>> found = ClosedForm().solve(model, np.random.default_rng(0))
    >>> found.beta[:, 0].round(6), round(found.stats["rss"], 6)
    (array([0.833333, 2.5     ]), 0.166667)
    """

    name = "closed_form"
    pseudo = True
    likelihood = Gaussian
    prior = GaussianPrior

    def obstacle(self, model: Model) -> str | None:
        reason = unsupported_kinds(self, model)
        if reason:
            return reason
        if not model.mode_free_of_sigma:
            return SIGMA_FREE
        if model.unknown and model.noise_prior.name != "reference":
            return f"closed_form estimates sigma under p(sigma) ∝ 1/sigma only, and this model has {model.noise_prior.name}; use newton"
        return None

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        squares = least_squares_of_levels(model)
        wide = None
        if squares is None:
            wide = rotate_to_rows(model)
            unseen = 0
            if wide is not None:
                model = wide.model
                unseen = wide.unseen
            squares = _least_squares(model, unseen)
        noise = noise_of(model, squares)
        free = squares.free
        solution = Solution(
            beta=squares.beta[:, None],
            scale=partial(_with_log_sigma, model, squares.unscaled, noise),  # type: ignore[arg-type]
            aux=noise.aux,
            df=noise.df,
            status=Status.EXACT,
            stats=noise.stats,
            notes=sigma_note(model, noise.note),
        )
        if free is not None:
            solution = replace(
                solution,
                status=Status.NOT_IDENTIFIED,
                detail=free.words,
                not_estimable=not_identified(free.directions)[:, None],
                null_space=free.directions,
            )
        if wide is None:
            return solution
        return wide.back(solution, wide.unit(noise.error))


def _least_squares(model: Model, unseen: int) -> LeastSquares:
    """Return the penalised least squares fit from the moments; `unseen` coefficients
    outside the span of the rows equal their prior mean."""
    moments = model.design.moments
    prior = PriorRows.of(model.joint)
    sigma = model.noise()
    given = refine_posterior(model, prior, sigma)
    unscaled: Callable[[], DenseCovariance]
    free = None
    if given.rank.dropped:
        beta, unscaled, free = _least_norm_coefficients(given, model.design)
    else:
        beta = given.mean
        unscaled = partial(unscaled_covariance, given, model.design)
    # Without prior rows, the RSS of the moments also includes the part that deficient
    # columns do not explain.
    has_rss = prior.size or given.exact is not None
    return LeastSquares(
        beta,
        unscaled,
        given.rss if has_rss else moments.rss,
        moments.rss,
        # y'Wy = z'z + RSS
        float(np.square(moments.z).sum() + moments.rss) / moments.weight,
        given.rank.rank,
        prior.size,
        unseen,
        free,
    )


class NoiseFound(NamedTuple):
    """The noise scale of a least-squares fit: `error` scales the standard errors, `aux`
    is reported, and `log_error` is the standard error of its log."""

    error: float
    aux: dict[str, float]
    log_error: float
    df: float | None
    stats: dict[str, float]
    note: Note


def noise_of(model: Model, squares: LeastSquares) -> NoiseFound:
    """Return the noise scale of a least-squares fit."""
    # a variance relative to the mean square of the response; below it residuals are
    # rounding (as in R)
    rounding = 1e-30
    n = model.design.total
    size = squares.size + squares.unseen
    informed = squares.size > 0
    df = None
    rss = squares.rss
    least = squares.least
    if not informed:
        df = n - squares.rank
        if df <= 0:
            rss = 0.0  # in exact arithmetic; a computed value is rounding
        least = rss
    # d/d log sigma of -(n + q) log sigma - (RSS + penalty) / (2 sigma^2) vanishes at sigma^2 = (RSS + penalty) / (n + q).
    ml = float(np.sqrt(rss / (n + size)))
    if df and df > 0:
        unbiased = float(np.sqrt(rss / df))
    else:
        unbiased = np.nan
    if not model.unknown:
        error = model.noise()
    elif informed:
        error = ml
    else:
        error = unbiased
    stats = {
        "n": n,
        "rank": float(squares.rank + squares.unseen),
        "rss": least,
        "sigma_unbiased": unbiased,
    }
    if informed:
        note = important_note(
            Topic.SIGMA,
            "sigma is the joint mode sqrt((RSS + penalty)/(n + {size})) = {sigma:.6g}",
            size=size,
            sigma=ml,
        )
    elif df is not None and df <= 0:
        note = NO_DEGREES_OF_FREEDOM
    elif df and model.unknown and rss <= rounding * df * squares.mean_square:
        note = EXACT_FIT
        stats["exact_fit"] = 1.0
    else:
        note = important_note(
            Topic.SIGMA,
            "sigma is the maximum likelihood estimate sqrt(RSS/n) = {sigma:.6g}; the unbiased sqrt(RSS/(n - {rank})) is "
            "{unbiased:.6g}",
            sigma=ml,
            rank=squares.rank,
            unbiased=unbiased,
        )
    return NoiseFound(
        error=error,
        aux=dict.fromkeys(model.unknown, ml),
        # -d^2 / d (log sigma)^2 = 2 (n + q) there
        log_error=(2.0 * (n + size)) ** -0.5,
        df=df if model.unknown else None,
        stats={k: v for k, v in stats.items() if not np.isnan(v)},
        note=note,
    )


def _with_log_sigma(
    model: Model, unscaled: Callable[[], DenseCovariance], noise: NoiseFound
) -> DenseCovariance:
    """Return the covariance over (beta, log sigma), which are independent; `unscaled` computes the covariance of beta at sigma = 1."""
    scaled = unscaled().scale_by(noise.error**2)
    log_errors = np.full((len(noise.aux),) * 2, noise.log_error)
    joint = block_diag(scaled.root, log_errors)
    return replace(scaled, root=joint, further=log_names(model))


def unscaled_covariance(given: Conditional, design: Design) -> DenseCovariance:
    """(R'R)^-1 as a root in the frame of the design; full rank only."""
    frame = Frame.of(design.moments.mean, design.moments.scale, design.intercept)
    exact = None if given.inverse is None else np.diagonal(given.inverse)
    root = root_of_factor(given.R, frame)
    return DenseCovariance(frame, 1, variances=exact, root=root)


def _least_norm_coefficients(
    given: Conditional, design: Design
) -> tuple[Array, Callable[[], DenseCovariance], FreeDirections]:
    """Return the least-norm coefficients, a function that computes their covariance at
    sigma = 1, and the unidentified directions."""
    rank = given.rank
    p = design.moments.p
    kept_columns = list(rank.kept)
    # The kept columns of the triangular factor, reduced once more, are the model without the dropped columns.
    F = np.linalg.qr(
        np.asarray(given.factor, dtype=float)[:, [*kept_columns, p]], mode="r"
    )
    part = Conditional(F[: len(kept_columns) + 1, : len(kept_columns) + 1])
    beta = np.zeros(p)
    root = np.zeros((p, len(kept_columns)))
    beta[kept_columns], root[kept_columns] = part.mean, part.root
    N = null_space(rank, p)
    frame = Frame.of(design.moments.mean, design.moments.scale, design.intercept)
    return (
        least_norm(beta, N),
        partial(_least_norm_covariance, frame, root, N),
        FreeDirections(N, combinations(rank, design.columns)),
    )


def _least_norm_covariance(frame: Frame, root: Array, N: Array) -> DenseCovariance:
    return DenseCovariance.of_raw_root(frame, 1, root).of_least_norm(N)


def require_full_rank(given: Conditional, model: Model, method: str) -> None:
    """Raise Incompatible if unidentified columns make the posterior improper."""
    if given.rank.dropped:
        raise Incompatible(
            f"{method}: the posterior is improper, because columns are not identified: "
            f"{combinations(given.rank, model.design.columns)}. Drop one, or give these columns a proper prior."
        )
