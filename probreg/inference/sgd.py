"""Stochastic gradients on the log posterior, a few rows at a time: SGD of every smooth likelihood, LMS of the Gaussian.

The passes come in stages, each as long as all before it together: 1, 1, 2, 4, 8 ... A stage holds its step and ends at
its average, where the next one starts. Whether that is the maximum is not assumed: the Newton decrement sqrt(g' H^-1 g),
the distance to the maximum in standard errors, is worked out at every average and stands in the status.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np

from probreg import online
from probreg.errors import DataError, NotConverged
from probreg.inference.base import METHODS, Array, Method, Solution, Status, at_least_one, edges, kinds, sigma_note
from probreg.inference.newton import Mode, newton_step, solution_at
from probreg.inference.passes import Pass, Rows, aux_at, estimated, gradient_pass, known_at
from probreg.likelihoods import Gaussian, SmoothLikelihood
from probreg.linalg import one_blas_thread, weighted_gram
from probreg.model import Model
from probreg.priors import GaussianPrior

_STEPS = 64  # steps of a pass unless a batch is asked for: more rows in a step make less bias, fewer more progress
_FALL = 7.0  # log density per observation below the start at which steps grow without end: e^7 times its sigma
_POWER = 0.5  # steps fall with passes^-power from stage to stage; Polyak & Juditsky ask for a power in (1/2, 1)


class Descent(NamedTuple):
    """Where the passes ended, and what was met on the way, pass by pass."""

    mode: Mode
    trace: dict[str, Array]


class Stochastic(Method):
    """A method that goes through the rows in passes: how it goes through them once is for its class to say."""

    in_memory = True
    accuracy: ClassVar[float] = 0.1
    rate: float
    epochs: int
    average: bool
    tol: float

    @abstractmethod
    def rows_per_step(self, n: int) -> int: ...

    @abstractmethod
    def once(self, rows: Rows, gamma: Array, aux: Mapping[str, float], step: float) -> Pass:
        """One pass over the rows in their order."""

    def obstacle(self, model: Model) -> str | None:
        return kinds(self, model) or edges(self, model)

    def solve(self, model: Model, rng: np.random.Generator) -> Solution:
        return _solution(self, model, descend(self, model, rng))


@METHODS.register
@dataclass(frozen=True)
class SGD(Stochastic):
    """The averaged iterate of gamma += (step / batch) sum of d log p_i / d gamma over a batch of rows, for a smooth
    likelihood with flat or normal priors, on standardised columns and in an order of the rows new in each pass.

    step = rate / L / sqrt(passes before this stage), L the bound of the curvature (see `Rows.curvature`), so that
    `rate` has no units: from 2 on a step may overshoot. `batch` rows share a step (by default so many that a pass has 64
    steps), `epochs` is the budget of passes, and it stops at a distance of `tol` standard errors from the maximum. With
    `average=False` the answer is the last iterate. A row of weight w counts as w rows, a prior is shared out over the
    rows, and sigma is maximised at the coefficients after each pass (for a Gaussian with flat priors, sqrt(RSS/n)).

    Standard errors are the plug-in sandwich H^-1 S H^-1, H the curvature of the log posterior and S the sum of the squared
    gradients of the rows, over (beta, log sigma): the asymptotic covariance of the average of one pass.
    NotConverged when the steps grow without end. Sources: Robbins & Monro 1951; Ruppert 1988; Polyak & Juditsky 1992.

    >>> model = Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"])
    >>> found = SGD().solve(model, np.random.default_rng(0))
    >>> found.status.name, found.stats["distance"] < 0.1
    ('CONVERGED', True)
    """

    rate: float = 1.0
    epochs: int = 1024
    average: bool = True
    batch: int | None = None
    tol: float = 0.1

    name = "sgd"
    likelihood = SmoothLikelihood
    prior = GaussianPrior

    def __post_init__(self) -> None:
        _check(self)
        if self.batch is not None:
            at_least_one(batch=self.batch)

    def rows_per_step(self, n: int) -> int:
        return min(self.batch or -(-n // _STEPS), n)

    def once(self, rows: Rows, gamma: Array, aux: Mapping[str, float], step: float) -> Pass:
        return gradient_pass(rows, gamma, aux, step, self.rows_per_step(len(rows.y)))


@METHODS.register
@dataclass(frozen=True)
class LMS(Stochastic):
    """The averaged iterate of gamma += step (y - u'gamma) u, one row at a time: least mean squares on standardised columns.

    step = rate / max ||u||^2 / sqrt(passes before this stage), and below rate 2 no step overshoots its row. With flat
    priors a pass is `probreg.online.run` of `probreg.online.lms` on the rows times the roots of their weights; a normal
    prior is shared out over the rows. Everything else as for `SGD`, whose single-row Gaussian case this is.
    Sources: Widrow & Hoff 1960; the average: Polyak & Juditsky 1992.

    >>> model = Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"])
    >>> LMS().solve(model, np.random.default_rng(0)).status.name
    'CONVERGED'
    """

    rate: float = 1.0
    epochs: int = 1024
    average: bool = True
    tol: float = 0.1

    name = "lms"
    likelihood = Gaussian
    prior = GaussianPrior

    def __post_init__(self) -> None:
        _check(self)
        if self.rate >= 2:
            raise DataError(
                f"lms with rate={self.rate:g} overshoots: from 2 on a step moves past its row; take 1 or less"
            )

    def rows_per_step(self, n: int) -> int:
        return 1

    def once(self, rows: Rows, gamma: Array, aux: Mapping[str, float], step: float) -> Pass:
        if rows.prior(aux) is not None:
            return gradient_pass(rows, gamma, aux, step, 1)
        sigma = {**rows.model.fixed, **aux}["sigma"]
        root = np.sqrt(np.ones(len(rows.y)) if rows.weights is None else rows.weights)
        target = rows.y if rows.offset is None else rows.y - rows.offset[:, 0]
        start = online.State(np.ascontiguousarray(gamma[:, 0]))
        record = online.Record(every=len(root))
        path = online.run(
            online.lms(step / sigma**2), root[:, None] * rows.U, root * target, state=start, record=record
        )
        return Pass(path.state.w[:, None], path.average()[:, None])


def _check(method: Stochastic) -> None:
    at_least_one(epochs=method.epochs)
    for name, value in (("rate", method.rate), ("tol", method.tol)):
        if not (isinstance(value, int | float | np.number) and np.isfinite(value) and value > 0):
            raise DataError(f"{name} is a positive number, got {value!r}")


@one_blas_thread()
def descend(method: Stochastic, model: Model, rng: np.random.Generator) -> Descent:
    """Passes in stages until the average is within `tol` standard errors of the maximum, or the budget is spent."""
    rows = Rows.of(model)
    gamma, log_aux = _start(rows)
    floor = _value(model, gamma, log_aux) - _FALL * model.design.total
    trace: list[tuple[float, float, float, float]] = []
    while True:
        before, mean = len(trace), np.zeros_like(gamma)
        length = min(max(before, 1), method.epochs - before)
        for _ in range(length):
            gamma, average, log_aux, row = _one_pass(method, rows, gamma, log_aux, max(before, 1), rng)
            _check_growth(method, row[0], floor)
            mean += average / length
            trace.append(row)
        gamma = mean if method.average else gamma
        log_aux = aux_at(model, gamma, log_aux)
        mode = _mode(model, gamma, log_aux, len(trace), method.tol)
        trace[-1] = (*trace[-1][:3], mode.decrement)
        if mode.status is Status.CONVERGED or len(trace) >= method.epochs:
            names = ("log_posterior", "norm", "step", "distance")
            return Descent(mode, dict(zip(names, np.array(trace).T)))


def _one_pass(
    method: Stochastic, rows: Rows, gamma: Array, log_aux: Array, stage: int, rng: np.random.Generator
) -> tuple[Array, Array, Array, tuple[float, float, float, float]]:
    """gamma after the pass, its mean, log aux at the former, and what the trace keeps."""
    model, aux = rows.model, known_at(rows.model, log_aux)
    step = method.rate / rows.curvature(gamma, aux, method.rows_per_step(len(rows.y))) * stage**-_POWER
    order = rng.permutation(len(rows.y))
    with np.errstate(all="ignore"):  # steps that are too long give inf or nan
        try:
            last, mean = method.once(rows.take(order), gamma, aux, step)
        except online.Diverged:
            last = mean = np.full_like(gamma, np.inf)
        log_aux = aux_at(model, last, log_aux) if np.isfinite(mean).all() else log_aux
        value = _value(model, last, log_aux)
        size = float(np.linalg.norm(last))
    return last, mean, log_aux, (value, size, step, np.nan)


def _value(model: Model, gamma: Array, log_aux: Array) -> float:
    return float(model.log_posterior(model.design.basis.T @ gamma, **estimated(model, log_aux)))


def _check_growth(method: Stochastic, value: float, floor: float) -> None:
    """NotConverged when the log posterior has fallen below `floor`."""
    if value > floor:
        return
    advice = "rate=0.5 would do" if method.rate > 1 else f"rate={method.rate / 8:g} may do"
    raise NotConverged(
        f"{method.name} with rate={method.rate:g} diverged: its steps grew without end. {advice}, or newton, which needs none"
    )


def _start(rows: Rows) -> tuple[Array, Array]:
    """Zero but for the intercept, which starts at the mean of the likelihood's rough eta; log aux at its maximum there."""
    model, gamma = rows.model, np.zeros(rows.model.shape)
    eta, aux = rows.likelihood.guess(rows.y)
    intercept = model.design.basis.intercept
    if intercept is not None:
        rest = eta if rows.offset is None else eta - rows.offset
        gamma[intercept] = np.average(rest, axis=0, weights=rows.weights)
    return gamma, aux_at(model, gamma, np.log([aux[a] for a in model.unknown]))


def _mode(model: Model, gamma: Array, log_aux: Array, passes: int, tol: float) -> Mode:
    """The point with its distance to the maximum in standard errors."""
    with np.errstate(all="ignore"):
        local = model.expansion_in_basis(gamma, **estimated(model, log_aux))
    step, convex = newton_step(local)
    if not convex:  # far off, where beta and log sigma pull together: each by itself
        local = local._replace(curvature=_apart(local.curvature, gamma.size))
        step, convex = newton_step(local)[0], False
    distance = float(np.sqrt(max(local.gradient @ step, 0.0)))
    status = Status.CONVERGED if distance < tol and convex else Status.SHORT
    return Mode(gamma, log_aux, local, distance, passes, status)


def _apart(curvature: Array, k: int) -> Array:
    out = curvature.copy()
    out[:k, k:] = out[k:, :k] = 0.0
    return out


def _solution(method: Stochastic, model: Model, found: Descent) -> Solution:
    """The solution at the point, its covariance replaced by the sandwich, its status by what was reached."""
    mode, total = found.mode, len(found.trace["step"])
    try:
        base = solution_at(model, mode)
    except NotConverged as why:
        raise NotConverged(
            f"{method.name} ended where the log posterior is not concave: more epochs, or newton"
        ) from why
    words = f"after {total} passes at a distance of {mode.decrement:.2g} standard errors from the maximum"
    scale, aux_sd = sandwich(model, mode)
    gone = np.isnan(base.scale) | (base.status is Status.NO_MAXIMUM)
    what = "average of the last stage" if method.average else "last iterate"
    return replace(
        base,
        scale=np.where(gone, np.nan, scale),
        aux_sd={a: float(base.aux[a] * s) for a, s in zip(model.unknown, aux_sd)},
        detail=base.detail or words,
        stats={"n": model.design.total, "passes": float(total), "distance": mode.decrement},
        notes=(
            *sigma_note(
                model,
                "sigma maximises the log posterior at these coefficients (sqrt(RSS/n) for a Gaussian likelihood with flat priors); standard errors are the sandwich of the averaged iterate, not the inverse curvature",
            ),
            f"the {what}, {words} (Newton decrement sqrt(g' H^-1 g))",
            "standard errors are the plug-in sandwich H^-1 S H^-1, H the curvature of the log posterior and S the sum of "
            "squared row gradients: the asymptotic covariance of the average of one pass (Ruppert 1988; Polyak & Juditsky "
            "1992), not the inverse curvature that newton reports",
        ),
        trace=found.trace,
    )


def sandwich(model: Model, mode: Mode) -> tuple[Array, Array]:
    """(p m, p m) of vec beta and (a,) standard deviations of log aux, from H^-1 S H^-1 over both.

    S = sum_i w_i s_i s_i', s_i the gradient of row i; a prior adds to H and not to S. Combinations that the data leave
    open do not spread.
    """
    m, unknown, d = mode.gamma.shape[1], model.unknown, model.design
    likelihood, k = model.likelihood, mode.gamma.size
    assert isinstance(likelihood, SmoothLikelihood)
    local = likelihood.expansion(d.observed, model.eta(d.basis.T @ mode.gamma), **known_at(model, mode.log_aux))
    U, g = d.basis.rows(d.X), local.gradient
    own = [m + likelihood.aux.index(a) for a in unknown]
    s = np.hstack([(U[:, :, None] * g[:, None, :m]).reshape(-1, k), g[:, own]])
    S = weighted_gram(s, np.ones(len(s)) if d.weights is None else d.weights)
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(mode.local.curvature)), np.finfo(float).tiny))
    inverse = np.linalg.pinv(mode.local.curvature / np.outer(scale, scale), rcond=1e-11, hermitian=True) / np.outer(
        scale, scale
    )
    both = inverse @ S @ inverse
    T = np.kron(d.basis.T, np.eye(m))
    return T @ both[:k, :k] @ T.T, np.sqrt(np.diagonal(both)[k:])
