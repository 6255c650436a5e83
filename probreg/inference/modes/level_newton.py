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
from probreg.data.rows import full_weights, minus_offset, times_weights
from probreg.inference.base import Array, Status
from probreg.inference.modes.level_rows import LevelRows, ScaledArrow, level_rows
from probreg.likelihoods import DifferentiableLikelihood, SmoothLikelihood
from probreg.model.model import Model
from probreg.numerics.halving import halvings

_ROWS = 50_000  # rows in one block
_ROUNDING = 1e-5  # of a decrement, in standard errors: below it, the remainder after a Newton step is rounding
_FLAT = 1e-4  # of g'H^-1 g: below it the gradient, not the value, decides whether a step is accepted
_DAMPED = 1e-8  # relative to the diagonal: the first damping of a curvature that is not positive definite
_Accepted = tuple[Array, "ArrowLocal"]


class ArrowLocal(NamedTuple):
    """The log posterior with gradient and curvature over (a, c, log aux)."""

    value: float
    gradient: Array  # (G + r + u,)
    gram: ArrowGram


class LevelMode(NamedTuple):
    """The end of the search."""

    point: Array  # (G + r + u,)
    local: ArrowLocal
    decrement: float
    steps: int
    status: Status


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
    def _pick(self) -> list[int]:
        return [
            0,
            *(1 + self.model.likelihood.aux.index(name) for name in self.model.unknown),
        ]

    def local(self, point: Array) -> ArrowLocal:
        """The log posterior with its derivatives, by one pass over the rows."""
        with np.errstate(
            all="ignore"
        ):  # too long a step gives inf or nan, and is halved
            sums = self._zero_sums
            for rows in self._slices:
                sums = sums.plus(self._of_rows(point, rows))
            return self._with_prior(sums, point)

    @property
    def _slices(self) -> list[slice]:
        n = self.model.design.n
        return [slice(start, min(start + _ROWS, n)) for start in range(0, n, _ROWS)]

    @property
    def _zero_sums(self) -> "_Sums":
        (G, r), u = self.sizes, len(self.model.unknown)
        k = r + u
        return _Sums(
            0.0,
            np.zeros(G),
            np.zeros(k),
            np.zeros((G, 1, 1)),
            np.zeros((G, 1, k)),
            np.zeros((k, k)),
        )

    def _of_rows(self, point: Array, rows: slice) -> "_Sums":
        likelihood = self.model.likelihood
        block = self.model.design.block.part(rows)
        assert isinstance(likelihood, DifferentiableLikelihood)
        a, c, aux = self.parts(point)
        columns = self.rows.columns.part(rows)
        r = len(c)
        eta = columns.times(a[:, None, None], c[:, None])
        if block.offset is not None:
            eta = eta + block.offset
        log_p, g, h = likelihood.value_grad_hessian(
            block.y, eta, **likelihood.at_rows(aux, block.precision)
        )
        g = g[:, self._pick]
        h = h[:, self._pick][:, :, self._pick]
        log_p, g, h = (times_weights(v, block.weights) for v in (log_p, g, h))
        lead_gradient, border_gradient = columns.cross(g[:, :1])
        gram = columns.gram(h[:, 0, 0])
        # over log aux: sum_i w_i h_i^(eta aux) times the columns, and sum_i w_i
        # h_i^(aux aux)
        u = g.shape[1] - 1
        E = np.zeros((len(a), 1, r + u))
        F = np.zeros((r + u, r + u))
        E[..., :r], F[:r, :r] = gram.cross, gram.rest
        if u:
            E[..., r:], F[:r, r:] = columns.cross(h[:, 0, 1:])
            F[r:, :r], F[r:, r:] = F[:r, r:].T, h[:, 1:, 1:].sum(0)
        slopes = np.concatenate([border_gradient[:, 0], g[:, 1:].sum(0)])
        return _Sums(
            float(log_p.sum()), lead_gradient[:, 0, 0], slopes, gram.lead, E, F
        )

    def _with_prior(self, sums: "_Sums", point: Array) -> ArrowLocal:
        """Add log p(beta | aux) + log p(log aux) and their derivatives, for independent
        normal priors."""
        model, rows, (G, r) = self.model, self.rows, self.sizes
        value = sums.value
        g = np.concatenate([sums.lead, sums.border])
        D = sums.D.copy()
        E = sums.E.copy()
        F = sums.F.copy()
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
        likelihood = model.likelihood
        design = model.design
        assert isinstance(likelihood, SmoothLikelihood)
        eta, aux = likelihood.initial_eta(design.observed)
        point = np.zeros(G + r + len(model.unknown))
        point[G + r :] = np.log([aux[name] for name in model.unknown])
        if not eta.any() and design.offset is None:
            return point
        target = minus_offset(eta, design.offset)
        values = likelihood.at_rows(
            {**aux, **model.fixed}, design.precision
        ) | model.given(design)
        weight = np.einsum(
            "nkk->n", likelihood.information(eta, **values)
        ) * full_weights(design.weights, design.n)
        lead_moments, border_moments = self.rows.columns.cross(weight[:, None] * target)
        gradient = np.concatenate([lead_moments.ravel(), border_moments.ravel()])
        step, _ = arrow_step(gradient, self.rows.columns.gram(weight))
        point[: G + r] = step
        return point


class _Sums(NamedTuple):
    """Sums over rows of the log-likelihood, its gradient over (a; c, log aux) and its
    curvature."""

    value: float
    lead: Array
    border: Array
    D: Array
    E: Array
    F: Array

    def plus(self, other: "_Sums") -> "_Sums":
        """Return the sums over both sets of rows."""
        return _Sums(
            self.value + other.value,
            self.lead + other.lead,
            self.border + other.border,
            self.D + other.D,
            self.E + other.E,
            self.F + other.F,
        )


def arrow_step(gradient: Array, gram: ArrowGram) -> tuple[Array, bool]:
    """Return H^-1 g, and whether H is positive definite; if not, the diagonal is
    increased until it is."""
    damping = 0.0
    while True:
        try:
            return ScaledArrow.of(gram, damping).solve(gradient), damping == 0.0
        except np.linalg.LinAlgError:
            damping = max(10.0 * damping, _DAMPED)


def find_level_mode(
    problem: LevelProblem, *, tol: float, max_steps: int, start: Array | None = None
) -> LevelMode:
    """The mode of the log posterior over (a, c, log aux)."""
    tol *= max(1.0, np.sqrt(problem.model.design.total))
    point = problem.start() if start is None else start
    local = problem.local(point)
    status = Status.STEP_LIMIT
    decrement = np.inf
    number = 0
    for number in range(1, max_steps + 1):  # noqa: B007  reported after the loop
        step, convex = arrow_step(local.gradient, local.gram)
        # lambda = (g' H^-1 g)^(1/2), the Newton decrement (Boyd & Vandenberghe 2004, section 9.5)
        before = decrement
        decrement = float(np.sqrt(max(local.gradient @ step, 0.0)))
        if decrement < tol and convex:
            point = point + step  # from here each step squares the error
            local = problem.local(point)
            status = Status.CONVERGED
            break
        if convex and before <= decrement < _ROUNDING:
            status = Status.CONVERGED
            break
        accepted = _halve_step(problem, point, step, local)
        if accepted is None:
            if decrement < _ROUNDING and convex:
                status = Status.CONVERGED
            else:
                status = Status.SADDLE
            break
        point, local = accepted
    return LevelMode(point, local, decrement, number, status)


def _halve_step(
    problem: LevelProblem, point: Array, step: Array, local: ArrowLocal
) -> _Accepted | None:
    """Halve the step until log p increases by Armijo's rule, up to rounding; None if it
    never does."""
    slope = float(local.gradient @ step)
    noise = 1e-13 * abs(local.value)
    for t in halvings(point, step):
        new = point + t * step
        trial = problem.local(new)
        if not (
            np.isfinite(trial.value)
            and np.isfinite(trial.gradient).all()
            and np.isfinite(trial.gram.rest).all()
        ):
            continue
        if trial.value >= local.value + 1e-4 * t * slope - noise:
            return new, trial
        # The value is a sum with cancellation, so near the mode the gradient decides
        # whether a step is accepted.
        if (
            slope < _FLAT
            and t == 1.0
            and 0.0
            <= trial.gradient @ arrow_step(trial.gradient, local.gram)[0]
            < 0.25 * slope
        ):
            return new, trial
    return None


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
