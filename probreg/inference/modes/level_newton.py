"""Newton's method with the levels of a factor as codes: the curvature is an arrow
matrix, and a step costs as much as its sums over the rows.

Over (a, c, log aux), a the coefficients of the leading levels and c those of the border on standardised columns,

    H = [[diag(d), E], [E', F]],   d_g = sum over the rows of level g of w_i h_i,

with h_i the negative second derivative of log p over eta_i. The nuisance parameters
belong to the border. The stopping rule is
the Newton decrement sqrt(g' H^-1 g), the distance to the maximum in standard errors, as
in `newton`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from probreg.data.grouped_columns import ArrowGram
from probreg.inference.base import Array, Solution, Status, log_names
from probreg.inference.modes.arrow_rows import ArrowRows
from probreg.inference.modes.existence import (
    Divergence,
    at_limits,
    aux_limits,
    divergence_along,
    find_separation,
    notes_of_mode,
    verdict_on,
)
from probreg.inference.modes.level_rows import (
    LevelRows,
    ScaledArrow,
    level_rows,
    require_independent_columns,
)
from probreg.inference.modes.maximise import Maximum, maximise
from probreg.inference.modes.newton import rough_log_aux, rough_regression
from probreg.inference.modes.separation import Separation
from probreg.likelihoods import SmoothLikelihood
from probreg.model.model import Model

_ROWS = 50_000  # rows in one block
_SINGULAR = (
    1e-13  # relative to the diagonal: a smaller pivot of the curvature is rounding
)
_DAMPED = 1e-8  # relative to the diagonal: the first damping of a curvature that is not positive definite


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

    def parts(self, point: Array) -> tuple[Array, Array, dict[str, float]]:
        """a (G,), c (r,) and every nuisance parameter."""
        G, r = self.sizes
        aux = dict(zip(self.model.unknown, np.exp(point[G + r :])))
        return point[:G], point[G : G + r], {**self.model.fixed, **aux}

    def point(self, beta: Array) -> Array:
        """Return the coordinates of raw coefficients (p, 1), with rough nuisance
        parameters."""
        a, c = self.rows.parts(beta)
        return np.concatenate([a[:, 0], c[:, 0], self.start()[sum(self.sizes) :]])

    def beta(self, point: Array) -> Array:
        """The raw coefficients (p, 1)."""
        a, c, _ = self.parts(point)
        return self.rows.beta(a[:, None], c[:, None])

    @cached_property
    def _parts(self) -> list[ArrowRows]:
        """The rows with their columns, in blocks."""
        model, n = self.model, self.model.design.n
        rows = ArrowRows(
            model, self.rows.columns, np.zeros(model.shape[0]), model.design.block
        )
        return [
            rows.part(slice(start, min(start + _ROWS, n)))
            for start in range(0, n, _ROWS)
        ]

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
        """Add log p(beta | aux) + log p(log aux) and their derivatives, for independent
        normal priors."""
        model, rows, (G, r) = self.model, self.rows, self.sizes
        value, g, (D, E, F) = local
        aux = self.parts(point)[2]
        sigma = model.likelihood.noise(aux)
        has_prior = rows.prior.precision > 0
        if has_prior.any():
            precision = rows.prior.at(sigma)
            e = np.where(has_prior, self.beta(point)[:, 0] - rows.prior.center, 0.0)
            pull = precision * e
            # log p = sum_j log N(e_j; 0, 1 / precision_j)
            value += float(
                0.5 * np.log(precision[has_prior] / (2.0 * np.pi)).sum()
                - 0.5 * e @ pull
            )
            S = rows.S
            g[:G] -= pull[rows.lead]
            g[G : G + r] -= S.T @ pull[rows.border]
            D[:, 0, 0] += precision[rows.lead]
            F[:r, :r] += S.T @ (precision[rows.border][:, None] * S)
            relative_pull = np.where(rows.prior.relative, pull, 0.0)
            if model.noise_unknown and relative_pull.any():
                # in units of sigma: d/d log sigma = e'P e - q, its negative second
                # derivative 2 e'P e, the mixed one -2 P e
                j = r + model.unknown.index(model.noise_scale)
                square = float(relative_pull @ e)
                g[G + j] += square - (has_prior & rows.prior.relative).sum()
                F[j, j] += 2.0 * square
                E[:, 0, j] -= 2.0 * relative_pull[rows.lead]
                F[:r, j] -= 2.0 * (S.T @ relative_pull[rows.border])
                F[j, :r] = F[:r, j]
        for i, name in enumerate(model.unknown):
            prior = model.aux_prior(name)
            v = aux[name]
            value += float(prior.log_prob(np.asarray(v))) + float(np.log(v))
            slope, second = prior.slopes(v)
            g[G + r + i] += slope
            F[r + i, r + i] -= second
        return ArrowLocal(value, g, ArrowGram(D, E, F))

    def start(self) -> Array:
        """Return the weighted regression of the likelihood's rough eta on the
        columns."""
        model, (G, r) = self.model, self.sizes
        point = np.zeros(G + r + len(model.unknown))
        point[G + r :] = rough_log_aux(model)
        rough = rough_regression(model, model.design)
        if rough is None:
            return point
        target, weight = rough
        lead_moments, border_moments = self.rows.columns.cross(weight[:, None] * target)
        gradient = np.concatenate([lead_moments.ravel(), border_moments.ravel()])
        step, _ = arrow_step(gradient, self.rows.columns.gram(weight))
        point[: G + r] = step
        return point


def arrow_step(gradient: Array, gram: ArrowGram) -> tuple[Array, bool]:
    """Return H^-1 g, and whether H is positive definite; if not, the diagonal is
    increased until it is."""
    damping = 0.0
    while True:
        try:
            return ScaledArrow.of(gram, damping).solve(gradient), damping == 0.0
        except np.linalg.LinAlgError:
            damping = max(10.0 * damping, _DAMPED)


def level_problem(model: Model) -> LevelProblem | None:
    """Return the problem with levels as codes.

    None for designs without coded factors, several predictors, other priors, and
    likelihoods without an exact check that their
    maximum exists.
    """
    if (
        not isinstance(model.likelihood, SmoothLikelihood)
        or not model.design.coded
        or not model.design.n
    ):
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
    point = problem.start() if start is None else problem.point(start)
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
    cause, _ = find_separation(
        model,
        beta,
        is_regular=mode.status is Status.CONVERGED and mode.steps < 15,
    )
    if cause is None:
        cause = _find_divergence(problem, mode)
    verdict = verdict_on(model, mode.status, cause)
    fixed = _fixed_coefficients(model, cause)
    limits = {} if cause is None else cause.limits
    fixed_aux = np.array([name in limits for name in model.unknown], dtype=bool)
    if cause is None:
        H = _factor(mode.point.gram)
    else:
        H = _factor_without_fixed(problem, mode, fixed, fixed_aux)
    if H is None:
        require_independent_columns(problem.rows, model)
        return None
    if cause is None:
        scale = problem.rows.covariance(H, log_names(model))
    else:
        scale = problem.rows.covariance_without(H, fixed, log_names(model), fixed_aux)
    aux = problem.parts(mode.x)[2]
    return Solution(
        beta=beta,
        scale=scale,
        aux=at_limits({name: aux[name] for name in model.unknown}, cause),
        **verdict._asdict(),
        stats={
            "n": model.design.total,
            "decrement": mode.decrement,
            "steps": float(mode.steps),
        },
        notes=notes_of_mode(model, mode.steps, mode.decrement, verdict.status),
    )


def _fixed_coefficients(model: Model, cause: Separation | Divergence | None) -> Array:
    """(p,) bool: coefficients that are fixed at their values."""
    if not isinstance(cause, Separation):
        return np.zeros(model.shape[0], dtype=bool)
    return cause.not_estimable[:, 0] if cause.held is None else cause.held


def _find_divergence(problem: LevelProblem, mode: Maximum) -> Divergence | None:
    """Return nuisance parameters along which the log posterior does not decrease; see
    `find_divergence`."""
    model = problem.model
    curvature = np.diagonal(mode.point.gram.rest)[problem.sizes[1] :]
    limits = aux_limits(
        model,
        lambda x: problem.local(x).value,
        mode.x,
        mode.point.value,
        curvature,
    )
    return divergence_along(model, np.zeros((model.shape[0], 1), dtype=bool), limits)


def _factor(gram: ArrowGram) -> ScaledArrow | None:
    """Factorise the curvature; None if it is singular up to rounding."""
    try:
        H = ScaledArrow.of(gram)
    except np.linalg.LinAlgError:
        return None
    pivots = np.square(np.diagonal(H.factor.T))
    if len(pivots) and pivots.min() < _SINGULAR:
        return None
    return H


def _factor_without_fixed(
    problem: LevelProblem, mode: Maximum, fixed: Array, fixed_aux: Array
) -> ScaledArrow | None:
    """Factorise the curvature over the raw coefficients and logs of nuisance parameters
    that are not fixed."""
    rows = problem.rows
    gram = mode.point.gram
    (_, r), u = problem.sizes, len(problem.model.unknown)
    M = np.eye(r + u)
    M[:r, :r] = rows.S_inverse
    free_border = np.concatenate([~fixed[rows.border], ~fixed_aux])
    free_lead = ~fixed[rows.lead]
    E = gram.cross @ M
    F = M.T @ gram.rest @ M
    return _factor(
        ArrowGram(
            gram.lead[free_lead],
            E[free_lead][..., free_border],
            F[np.ix_(free_border, free_border)],
        )
    )
