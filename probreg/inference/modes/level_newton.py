"""Newton's method with the levels of a factor as codes: the curvature is an arrow
matrix, and a step costs as much as its sums over the rows.

Over (a, c, log aux), a the coefficients of the leading levels and c those of the border on standardised columns,

    H = [[diag(d), E], [E', F]],   d_g = sum over the rows of level g of w_i h_i,

with h_i the negative second derivative of log p over eta_i. The nuisance parameters
belong to the border. The stopping rule is the Newton decrement sqrt(g' H^-1 g), the
distance to the maximum in standard errors, as in `newton`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Solution, log_names
from probreg.inference.modes.arrow_rows import ArrowRows
from probreg.inference.modes.existence import (
    Divergence,
    divergence_of,
    find_separation,
)
from probreg.inference.modes.level_rows import (
    LevelRows,
    level_rows,
    require_independent_columns,
)
from probreg.inference.modes.maximise import Maximum, maximise
from probreg.inference.modes.newton import (
    rough_start,
    solution_of,
)
from probreg.inference.modes.separation import Separation
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import Arrow, row_slices
from probreg.model.model import Model


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
        with np.errstate(
            all="ignore"
        ):  # too long a step gives inf or nan, and is halved
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
