"""Newton's method with the levels of a factor as codes: the curvature is an arrow
matrix, and a step costs as much as its sums over the rows.

Over (a, c, log aux), with coefficients a of the leading levels and c of the border on standardised columns,

    H = [[diag(d), E], [E', F]],   d_g = sum over the rows of level g of w_i h_i,

with h_i the negative second derivative of log p over eta_i. The nuisance parameters
belong to the border. The stopping rule is the Newton decrement sqrt(g' H^-1 g), the
distance to the maximum in standard errors, as in `newton`.

Sums over the rows of a smooth likelihood for an arrow: rows x_i of [Z, X] with m
predictors and a nuisance parameters.

A row has z_i = (eta_i, log aux), and W_i (m + a, m + a) is minus the second derivative
of its log p. It depends on the coefficients as z_i = blkdiag(x_i kron I_m, I_a)
coefficients. Coefficient k of predictor j is number k m + j; log aux come last.
If every column belongs to one predictor, `owners` names it, and coefficient k belongs to column k.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from probreg.data import Block
from probreg.data.checked_arrays import plus_offset, times_weights
from probreg.data.grouped_columns import ArrowColumns, ArrowGram
from probreg.inference.base import Array, Solution, aux_from_log, log_names
from probreg.inference.modes.existence import Divergence, divergence_of, find_separation
from probreg.inference.modes.level_rows import (
    LevelRows,
    level_rows,
    require_independent_columns,
)
from probreg.inference.modes.maximise import Maximum, maximise
from probreg.inference.modes.newton import rough_start, solution_of
from probreg.inference.modes.separation import Separation
from probreg.likelihoods import SmoothLikelihood
from probreg.likelihoods.base import ValueGradHessian
from probreg.linalg import Arrow, row_slices
from probreg.model.model import Model

Parts = tuple[Array, Array]  # (G, K, s) of the leading columns and (r, s) of the border


class Inverse(NamedTuple):
    """Parts of H^-1: diagonal blocks (G, K, K), border (G, K, k), corner (k, k)."""

    own: Array
    border: Array
    corner: Array


class RowSlopes(NamedTuple):
    """sum_i w_i log p_i, and for each row its gradient (n, m + a) and W (n, m + a, m + a), with weights."""

    value: float
    score: Array
    W: Array


@dataclass(frozen=True, eq=False)
class ArrowRows:
    """The rows of a model with their columns."""

    model: Model
    columns: ArrowColumns
    centre: Array  # mu (p,), of every predictor
    block: Block  # responses, weights and offset
    # the predictors of the leading effects (K,) and of the border columns (r,)
    owners: tuple[Array, Array] | None = None

    def part(self, rows: slice) -> "ArrowRows":
        """These rows."""
        return replace(
            self, columns=self.columns.part(rows), block=self.block.part(rows)
        )

    @property
    def m(self) -> int:
        return self.model.likelihood.width

    @property
    def a(self) -> int:
        return len(self.model.unknown)

    @property
    def size(self) -> int:
        """The number of border coefficients and nuisance parameters."""
        if self.owners is not None:
            return self.columns.width + self.a
        return self.columns.width * self.m + self.a

    @property
    def likelihood(self) -> SmoothLikelihood:
        # checked in `scales_obstacle`
        assert isinstance(self.model.likelihood, SmoothLikelihood)
        return self.model.likelihood

    @cached_property
    def _offset(self) -> Array:
        if self.centre.any():
            from_centre = self.block.X @ self.centre[:, None]
        else:
            from_centre = np.zeros((self.block.rows, 1))
        return plus_offset(from_centre, self.block.offset)

    def at(self, a: Array, c: Array) -> Array:
        """z_i (n, m + a) of coefficients a (G, K m, 1) and c (r m + a, 1), including the offset."""
        eta = self.columns.times(*self._split_coefficients(a, c)) + self._offset
        log_aux = np.broadcast_to(c[len(c) - self.a :, 0], (len(eta), self.a))
        return np.hstack([eta, log_aux])

    def _split_coefficients(self, a: Array, c: Array) -> Parts:
        """Split into coefficients (G, K, m) and (r, m) of the columns."""
        G = self.columns.lead.groups
        m = self.m
        if self._entries is not None:
            lead, border = self._entries
            full = np.zeros((G, self.columns.lead.effects * m, 1))
            full[:, lead] = a
            below = np.zeros((self.columns.width * m + self.a, 1))
            below[border] = c
            a, c = full, below
        return a.reshape(G, -1, m), c[: len(c) - self.a].reshape(-1, m)

    @cached_property
    def _entries(self) -> tuple[Array, Array] | None:
        """The indices of the coefficients in the list of every column in each predictor, (K,) and (r + a,)."""
        if self.owners is None:
            return None
        lead, border = (np.arange(len(o)) * self.m + o for o in self.owners)
        aux = self.columns.width * self.m + np.arange(self.a)
        return lead, np.concatenate([border, aux])

    def values(self, z: Array) -> RowSlopes:
        """The sums and derivatives at z (n, m + a)."""
        log_p, g, h = self.local(z)
        w = self.block.weights
        return RowSlopes(
            float(times_weights(log_p, w).sum()),
            times_weights(g, w),
            times_weights(h, w),
        )

    def local(self, z: Array) -> ValueGradHessian:
        """log p_i, gradient and W_i of each row, without weights."""
        m = self.m
        unknown = self.model.unknown
        values = aux_from_log(self.model, z[0, m:])
        block = self.block
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            return self.likelihood.derivatives_over(
                unknown, block.y, z[:, :m], values, block.precision
            )

    # ---- sums ---------------------------------------------------------------------------------------------------------

    def pull(self, v: Array) -> Parts:
        """The sums over rows of blkdiag(x_i kron I, I)' v_i, (G, K m, 1) and (r m + a, 1), of v (n, m + a)."""
        above, below = self.columns.cross(v[:, : self.m])
        last = v[:, self.m :].sum(0)
        G = len(above)
        lead, border = (
            above.reshape(G, -1, 1),
            np.concatenate([below.ravel(), last])[:, None],
        )
        if self._entries is None:
            return lead, border
        return lead[:, self._entries[0]], border[self._entries[1]]

    def gram(self, W: Array) -> ArrowGram:
        """The sums of blkdiag(x_i kron I, I)' W_i blkdiag(x_i kron I, I)."""
        m = self.m
        a = self.a
        G = self.columns.lead.groups
        K = self.columns.lead.effects
        r = self.columns.width
        lead = np.empty((G, K, m, K, m))
        border = np.zeros((r * m + a, r * m + a))
        cross = np.zeros((G, K, m, r * m + a))
        corner = np.empty((r, m, r, m))
        for i in range(m):
            for j in range(i + 1):
                sums = self.columns.gram(W[:, i, j])
                for k, s in {(i, j), (j, i)}:
                    lead[:, :, k, :, s], corner[:, k, :, s] = sums.lead, sums.rest
                    cross[:, :, k, s : r * m : m] = sums.cross
        border[: r * m, : r * m] = corner.reshape(r * m, r * m)
        for i in range(a):
            entry = r * m + i
            above, below = self.columns.cross(W[:, :m, m + i])
            cross[..., entry] = above
            border[: r * m, entry] = border[entry, : r * m] = below.ravel()
        border[r * m :, r * m :] = W[:, m:, m:].sum(0)
        gram = ArrowGram(
            lead.reshape(G, K * m, K * m), cross.reshape(G, K * m, -1), border
        )
        if self._entries is None:
            return gram
        rows, columns = self._entries
        return ArrowGram(
            gram.lead[:, rows][..., rows],
            gram.cross[:, rows][..., columns],
            border[np.ix_(columns, columns)],
        )

    def spread(self, S: Inverse) -> Array:
        """V_i (n, m + a, m + a), the covariance of z_i if the covariance of all coefficients has these parts."""
        m = self.m
        a = self.a
        n = len(self.columns.dense)
        G = len(S.own)
        if self._entries is not None:
            S = self._embed(S)
        r = self.columns.width * m
        spread = np.empty((n, m + a, m + a))
        for i in range(m):
            for j in range(i + 1):
                # x_i'S_ij x_i depends only on the symmetric part of S_ij
                diagonal_blocks = S.own[:, i::m, j::m]
                border = (S.border[:, i::m, j:r:m] + S.border[:, j::m, i:r:m]) / 2
                corner = S.corner[i:r:m, j:r:m]
                symmetric = (
                    (diagonal_blocks + diagonal_blocks.mT) / 2,
                    border,
                    (corner + corner.T) / 2,
                )
                spread[:, i, j] = spread[:, j, i] = self.columns.leverage(*symmetric)
        for i in range(a):
            part = (
                S.border[..., r + i].reshape(G, -1, m),
                S.corner[:r, r + i].reshape(-1, m),
            )
            spread[:, :m, m + i] = spread[:, m + i, :m] = self.columns.times(*part)
        spread[:, m:, m:] = S.corner[r:, r:]
        return spread

    def _embed(self, S: Inverse) -> Inverse:
        """The same covariance over the coefficients of every column in each predictor, with zeros for coefficients that do not exist."""
        assert self._entries is not None
        lead, border = self._entries
        K = self.columns.lead.effects * self.m
        r = self.columns.width * self.m + self.a
        G = len(S.own)
        own, cross, corner = np.zeros((G, K, K)), np.zeros((G, K, r)), np.zeros((r, r))
        own[:, lead[:, None], lead] = S.own
        cross[:, lead[:, None], border] = S.border
        corner[np.ix_(border, border)] = S.corner
        return Inverse(own, cross, corner)

    def log_det_slopes(self, z: Array, V: Array) -> Array:
        """t_ik = tr(V_i dW_i / dz_ik) / 2 (n, m + a), with weights: log |H|^(1/2) changes by sum_i t_i'dz_i."""
        step = 1e-4  # step of differences of a row's curvature, in eta and log aux
        t = np.empty(z.shape)
        for k in range(z.shape[1]):
            e = step * (np.arange(z.shape[1]) == k)
            # d W_i / d z_ik by a central difference
            slope = self.local(z + e).curvature - self.local(z - e).curvature
            t[:, k] = np.einsum("njl,njl->n", V, slope) / (4 * step)
        return times_weights(t, self.block.weights)


class ArrowLocal(NamedTuple):
    """The log posterior with gradient and curvature over (a, c, log aux)."""

    value: float
    gradient: Array  # (G + r + u,)
    gram: ArrowGram


@dataclass(frozen=True, eq=False)
class LevelProblem:
    """A model with factors as codes, over the coordinates (a, c, log aux)."""

    model: Model
    rows: LevelRows

    @property
    def sizes(self) -> tuple[int, int]:
        """G and r."""
        return len(self.rows.lead), len(self.rows.border)

    def beta(self, point: Array) -> Array:
        """The raw coefficients (p, 1)."""
        G, r = self.sizes
        return self.rows.beta(point[:G, None], point[G : G + r, None])

    @cached_property
    def _parts(self) -> list[ArrowRows]:
        """The rows with their columns, in blocks."""
        block_size = 50_000  # rows in one block
        model = self.model
        rows = ArrowRows(
            model, self.rows.columns, np.zeros(model.shape[0]), model.design.block
        )
        return [rows.part(part) for part in row_slices(model.design.n, block_size)]

    def local(self, point: Array) -> ArrowLocal:
        """The log posterior with its derivatives, by one pass over the rows."""
        (G, r), u = self.sizes, len(self.model.unknown)
        k = r + u
        value, g = 0.0, np.zeros(G + k)
        gram = ArrowGram(np.zeros((G, 1, 1)), np.zeros((G, 1, k)), np.zeros((k, k)))
        # too long a step gives inf or nan, and is halved
        with np.errstate(all="ignore"):
            for rows in self._parts:
                slopes = rows.values(rows.at(point[:G, None, None], point[G:, None]))
                value += slopes.value
                g += np.concatenate([part.ravel() for part in rows.pull(slopes.score)])
                for total, part in zip(gram, rows.gram(slopes.W)):
                    total += part
            return self._with_prior(ArrowLocal(value, g, gram), point)

    def _with_prior(self, local: ArrowLocal, point: Array) -> ArrowLocal:
        """Add log p(beta | aux) + log p(log aux) and their derivatives, for independent normal priors."""
        model, rows, (G, r) = self.model, self.rows, self.sizes
        value, g, (D, E, F) = local
        aux = dict(zip(model.unknown, np.exp(point[G + r :])))
        precision = rows.prior.at(model.noise(aux))
        beta = self.beta(point)
        value += float(model.log_prior(beta, **aux)) + float(point[G + r :].sum())
        has_prior = precision > 0
        e = np.where(has_prior, beta[:, 0] - rows.prior.center, 0.0)
        pull = precision * e
        # over the raw coefficients of the border and log aux
        slope = np.concatenate([-pull[rows.border], np.zeros(len(aux))])
        H = np.diag(np.concatenate([precision[rows.border], np.zeros(len(aux))]))
        if model.noise_unknown:
            # in units of sigma: d/d log sigma = e'P e - q, its negative second
            # derivative 2 e'P e, the mixed one -2 P e
            j = r + model.unknown.index(model.noise_scale)
            is_relative = has_prior & rows.prior.relative
            mixed = np.where(is_relative, -2.0 * pull, 0.0)
            slope[j] = -0.5 * mixed @ e - is_relative.sum()
            H[j, j] = -mixed @ e
            H[:r, j] = H[j, :r] = mixed[rows.border]
            E[:, 0, j] += mixed[rows.lead]
        for i, (name, v) in enumerate(aux.items(), r):
            first, second = model.aux_prior(name).slopes(v)
            slope[i] += first
            H[i, i] -= second
        M = self.to_raw
        D[:, 0, 0] += precision[rows.lead]
        g -= np.concatenate([pull[rows.lead], -M.T @ slope])
        return ArrowLocal(value, g, ArrowGram(D, E, F + M.T @ H @ M))

    @cached_property
    def to_raw(self) -> Array:
        """The map from the coordinates of the border and log aux to raw ones."""
        return block_diag(self.rows.S, np.eye(len(self.model.unknown)))

    def start(self) -> Array:
        """Return the weighted regression of the likelihood's rough eta on the columns."""
        model, (G, r) = self.model, self.sizes
        target, weight, log_aux = rough_start(model)
        point = np.zeros(G + r)
        if target.any():
            moments = self.rows.columns.cross(weight[:, None] * target)
            gradient = np.concatenate([part.ravel() for part in moments])
            point, _ = arrow_step(gradient, self.rows.columns.gram(weight))
        return np.concatenate([point, log_aux])


def arrow_step(gradient: Array, gram: ArrowGram) -> tuple[Array, bool]:
    """Return H^-1 g, and whether H is positive definite; if not, the diagonal is increased until it is."""
    # relative to the diagonal: the first damping of a curvature that is not positive definite
    first_damping = 1e-8
    tiny = np.finfo(float).tiny
    lead = np.maximum(np.abs(gram.lead), tiny)
    rest = np.diag(np.maximum(np.abs(np.diagonal(gram.rest)), tiny))
    G = len(lead)
    damping = 0.0
    while True:
        try:
            H = Arrow(
                gram.lead + damping * lead, gram.cross, gram.rest + damping * rest
            )
        except np.linalg.LinAlgError:
            damping = max(10.0 * damping, first_damping)
            continue
        step = H.solve(gradient[:G, None, None], gradient[G:, None])
        return np.concatenate([part.ravel() for part in step]), damping == 0.0


def level_problem(model: Model) -> LevelProblem | None:
    """Return the problem with levels as codes.

    None for several predictors, other priors, and likelihoods without an exact check
    that their maximum exists.
    """
    if not isinstance(model.likelihood, SmoothLikelihood) or not model.design.n:
        return None
    if model.likelihood.may_diverge is None and not model.joint.informative.all():
        return None
    rows = level_rows(model)
    return None if rows is None else LevelProblem(model, rows)


def solve_levels(
    model: Model, *, tol: float, max_steps: int, start: Array | None
) -> Solution | None:
    """Return the mode in arrow form; None if the design needs dense columns (see
    `level_problem`) or some are not identified."""
    problem = level_problem(model)
    if problem is None:
        return None
    point = problem.start()
    k = sum(problem.sizes)
    if start is not None:
        point[:k] = np.concatenate(problem.rows.parts(start))[:, 0]
    mode = maximise(
        problem.local,
        lambda local: arrow_step(local.gradient, local.gram),
        point,
        problem.local(point),
        tol=tol * max(1.0, np.sqrt(model.design.total)),
        max_steps=max_steps,
    )
    beta = problem.beta(mode.x)
    cause: Separation | Divergence | None
    cause, _ = find_separation(model, beta, mode.status, mode.steps)
    if cause is None:
        cause = divergence_of(
            model,
            lambda x: problem.local(x).value,
            mode.x,
            np.diagonal(mode.point.gram.rest)[problem.sizes[1] :],
        )
    fixed = None if cause is None else _fixed_parameters(model, cause)
    H = _factor(problem, mode, fixed)
    if H is None:
        require_independent_columns(problem.rows, model)
        return None
    covariance = problem.rows.covariance(H, log_names(model), fixed)
    return solution_of(model, beta, mode.x[k:], mode, cause, None, covariance)


def _fixed_parameters(model: Model, cause: Separation | Divergence) -> Array:
    """(p + number of unknown,) bool: parameters that are fixed at their values."""
    fixed = np.zeros(model.shape[0], dtype=bool)
    if isinstance(cause, Separation):
        fixed = cause.not_estimable[:, 0] if cause.held is None else cause.held
    at_limit = [name in cause.limits for name in model.unknown]
    return np.concatenate([fixed, np.array(at_limit, dtype=bool)])


def _factor(problem: LevelProblem, mode: Maximum, fixed: Array | None) -> Arrow | None:
    """Factorise the curvature, or with `fixed` parameters the one over the other raw
    coefficients and logs of nuisance parameters; None if it is singular up to rounding."""
    gram = mode.point.gram
    if fixed is not None:
        rows = problem.rows
        M = np.linalg.inv(problem.to_raw)
        lead = ~fixed[rows.lead]
        border = ~fixed[rows.places_of_border(len(problem.model.unknown))]
        rest = (M.T @ gram.rest @ M)[np.ix_(border, border)]
        gram = ArrowGram(gram.lead[lead], (gram.cross @ M)[lead][..., border], rest)
    try:
        H = Arrow(*gram)
    except np.linalg.LinAlgError:
        return None
    # relative to the diagonal: a smaller pivot of the curvature is rounding
    if (np.square(np.diagonal(H.T)) < 1e-13 * np.diagonal(gram.rest)).any():
        return None
    return H
