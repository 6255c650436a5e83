"""Stochastic gradients on the log posterior, a few rows at a time: SGD of every smooth likelihood, LMS of the Gaussian.

The passes come in stages, each as long as all stages before it: 1, 1, 2, 4, 8 ... A stage keeps its step and ends at
its average, where the next one starts. The Newton decrement sqrt(g' H^-1 g), the distance to the maximum in standard
errors, is computed at every average and determines the status.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg import online
from probreg.arguments.scalars import Count, Flag, Positive
from probreg.data import Block
from probreg.data.checked_arrays import full_weights, minus_offset
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference.base import (
    METHODS,
    Array,
    Method,
    Solution,
    Status,
    aux_from_log,
    estimated_aux,
    logs_of_aux,
    sigma_note,
)
from probreg.inference.covariance import NoCovariance
from probreg.inference.modes.closed_form import (
    ClosedForm,
    least_norm,
    search_obstacle,
)
from probreg.inference.modes.epochs import (
    Pass,
    PassData,
    PassLosses,
    aux_mode_at,
    gradient_pass,
)
from probreg.inference.modes.maximise import newton_step
from probreg.inference.modes.newton import Mode, solution_at
from probreg.inference.status import Topic, important_note, routine_note
from probreg.likelihoods import Gaussian, SmoothLikelihood
from probreg.linalg import one_blas_thread, row_blocks
from probreg.model.model import Model
from probreg.online.stream import ROWS_OF_COMPILED_RUN
from probreg.priors import GaussianPrior


class Descent(NamedTuple):
    """The end of the passes, with a trace by pass."""

    mode: Mode
    trace: dict[str, Array]
    # for least mean squares: the loss of all passes, and its bound
    bounds: dict[str, float]


class Stochastic(Method):
    """A method that makes passes over the rows; the subclass defines one pass."""

    in_memory = True
    accuracy: ClassVar[float] = 0.1
    rate: float
    epochs: int
    average: bool
    tol: float

    @abstractmethod
    def rows_per_step(self, n: int) -> int: ...

    def averages(self, n: int) -> bool:
        """Whether the answer is an average: steps over all rows at once have no noise to average."""
        return self.average and self.rows_per_step(n) < n

    def one_pass(
        self,
        data: PassData,
        order: Array,
        gamma: Array,
        aux: Mapping[str, float],
        step: float,
    ) -> Pass:
        """Make one pass over the rows in this order (n,)."""
        batch = self.rows_per_step(len(order))
        return gradient_pass(data, order, gamma, aux, step, batch)

    def obstacle(self, model: Model) -> str | None:
        if model.design.owner is not None:
            return f"{self.name} needs a model of one formula, and this one has a formula for each of several parameters"
        return search_obstacle(self, model)

    def solve(self, model: Model, rng: Generator) -> Solution:
        return _solution(self, model, _descend_in_stages(self, model, rng))


@METHODS.register
@dataclass(frozen=True)
class SGD(Stochastic):
    """Stochastic gradient: the averaged iterate of gamma += (step / batch) sum of d log p_i / d gamma.

    The sum is over a batch of rows. The method needs a smooth likelihood with flat or normal priors, uses standardised columns,
    and a new order of the rows in each pass. step = rate / L / sqrt(passes before this stage), with L the bound on the
    curvature (see `PassData.curvature`). So `rate` has no units: from 2 on a step may overshoot. A row of weight w counts
    as w rows, and the prior is divided among the rows. sigma is maximised at the coefficients after each pass (for a
    Gaussian with flat priors, sqrt(RSS/n)).

    With all rows in a step this is gradient descent: steps stay at rate / L, and the answer is the last iterate.
    Standard errors are computed at the maximum: for a Gaussian with flat priors the classical s^2 (X'X)^-1 and t, as in
    `closed_form`, otherwise the inverse curvature, as in `newton`. `covariance("HC0")` is the sandwich, the asymptotic
    covariance of the average of one pass.

    Parameters
    ----------
    rate : float
        Factor of the step, without units.
    epochs : int
        The most passes over the rows.
    average : bool
        Whether the answer is the average of the iterates; the last one otherwise.
    batch : int, optional
        Rows in a step; the default gives 64 steps per pass.
    tol : float
        It stops at this distance from the maximum, in standard errors.

    Raises
    ------
    NotConverged
        If the steps diverge.

    References
    ----------
    Robbins & Monro 1951; Ruppert 1988; Polyak & Juditsky 1992.

    Examples
    --------
    >>> model = Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"])
    >>> found = SGD().solve(model, np.random.default_rng(0))
    >>> found.status.name, found.stats["distance"] < 0.1
    ('CONVERGED', True)
    """

    rate: Positive = 1.0
    epochs: Count = 1024
    average: Flag = True
    batch: Count | None = None
    tol: Positive = 0.1

    name = "sgd"
    pseudo = True
    likelihood = SmoothLikelihood
    prior = GaussianPrior

    def rows_per_step(self, n: int) -> int:
        # steps of a pass by default: larger batches reduce bias, smaller ones make faster progress
        n_steps = 64
        return min(self.batch or -(-n // n_steps), n)


@METHODS.register
@dataclass(frozen=True)
class LMS(Stochastic):
    """Least mean squares: the averaged iterate of gamma += step (y - u'gamma) u, row by row, u standardised.

    step = rate / max ||u||^2 / sqrt(passes before this stage), and below rate 2 no step overshoots its row. With flat
    priors a pass is `probreg.online.run` of `probreg.online.lms` on the rows times the roots of their weights; a normal
    prior is divided among the rows. Otherwise it equals `SGD` with one row per step and a Gaussian likelihood.

    Parameters
    ----------
    rate : float
        Factor of the step, without units.
    epochs : int
        The most passes over the rows.
    average : bool
        Whether the answer is the average of the iterates; the last one otherwise.
    tol : float
        It stops at this distance from the maximum, in standard errors.

    References
    ----------
    Widrow & Hoff 1960; the average: Polyak & Juditsky 1992.

    Examples
    --------
    >>> model = Model.from_arrays([[2.0], [3.0], [4.0], [6.0]], [5.0, 7.0, 9.0, 13.5], columns=["x"])
    >>> LMS().solve(model, np.random.default_rng(0)).status.name
    'CONVERGED'
    """

    rate: Positive = 1.0
    epochs: Count = 1024
    average: Flag = True
    tol: Positive = 0.1

    name = "lms"
    pseudo = True
    likelihood = Gaussian
    prior = GaussianPrior

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rate >= 2:
            raise DataError(
                f"lms with rate={self.rate:g} overshoots: from 2 on a step moves past its row. Use 1 or less"
            )

    def rows_per_step(self, n: int) -> int:
        return 1

    def guarantee(self, model: Model, solution: Solution) -> "online.Guarantee":
        """Widrow-Hoff's bound, summed over passes from their starts, with the answer as comparator."""
        s = solution.stats
        if "online_loss" not in s:
            raise Incompatible(
                "lms has no guarantee with a prior, because each row includes a share of it"
            )
        step = s["online_step"]
        return online.Guarantee(
            "Widrow-Hoff, pass by pass",
            "Cesa-Bianchi, Long & Warmuth 1996",
            "cumulative squared loss of all passes",
            s["online_loss"],
            s["online_bound"],
            int(s["passes"]) * model.design.n,
            (online.Assumption("step ||x||^2 < 2 in every pass", step, step < 2),),
            solution.beta[:, 0],
            s["online_comparator_loss"],
        )

    def one_pass(
        self,
        data: PassData,
        order: Array,
        gamma: Array,
        aux: Mapping[str, float],
        step: float,
    ) -> Pass:
        if data.prior(aux) is not None:
            return super().one_pass(data, order, gamma, aux, step)
        n = len(order)
        step = step / data.model.noise(aux) ** 2
        learner = online.lms(step)
        state = online.State(np.ascontiguousarray(gamma[:, 0]))
        total = np.zeros(len(gamma))
        loss = largest = 0.0
        for block in row_blocks(n, len(gamma)):
            # w_i d log p_i / d gamma = w_i (y_i - u_i'gamma) u_i / sigma^2: least mean squares of w_i^(1/2) (u_i, y_i).
            rows = data.rows.part(order[block])
            root = np.sqrt(_square_weights(rows))
            target = root * minus_offset(rows.y, rows.offset)
            record = online.Record(
                rows=False, every=len(target), compiled=n >= ROWS_OF_COMPILED_RUN
            )
            U = root[:, None] * rows.X
            path = online.run(learner, U, target, state=state, record=record)
            state = path.state
            loss = loss + path.loss
            largest = max(largest, path.totals.largest)
            total += len(target) / n * path.average()
        return Pass(state.w[:, None], total[:, None], PassLosses(loss, step, largest))


def _square_weights(rows: Block) -> Array:
    """(n,) the weights of squared residuals: frequencies times precisions."""
    return full_weights(rows.weights, rows.rows) * full_weights(
        rows.precision, rows.rows
    )


@one_blas_thread()
def _descend_in_stages(method: Stochastic, model: Model, rng: Generator) -> Descent:
    """Make passes in stages until the average is within `tol` standard errors of the
    maximum, or `epochs` is reached."""
    # steps diverge at this decrease of log density per observation: e^7 times the
    # sigma of the start
    max_fall = 7.0
    data = PassData.of(model)
    gamma, log_aux = _start(data)
    floor = _value(model, gamma, log_aux) - max_fall * model.design.total
    trace: list[tuple[float, float, float, float]] = []
    passed: list[tuple[Array, PassLosses | None]] = []
    while True:
        before = len(trace)
        mean = np.zeros_like(gamma)
        length = min(max(before, 1), method.epochs - before)
        for _ in range(length):
            start = gamma
            done, log_aux, row = _one_pass(
                method, data, gamma, log_aux, max(before, 1), rng
            )
            _check_growth(method, row[0], floor)
            gamma = done.last
            mean = mean + done.mean / length
            trace.append(row)
            passed.append((start, done.losses))
        if method.averages(data.rows.rows):
            gamma = mean
        log_aux = aux_mode_at(model, gamma, log_aux)
        mode = _mode(model, gamma, log_aux, len(trace), method.tol)
        trace[-1] = (*trace[-1][:3], mode.decrement)
        if mode.status is Status.CONVERGED or len(trace) >= method.epochs:
            names = ("log_posterior", "norm", "step", "distance")
            return Descent(
                mode,
                dict(zip(names, np.array(trace).T)),
                _loss_bounds(data, gamma, passed),
            )


def _loss_bounds(
    data: PassData, gamma: Array, passed: list[tuple[Array, PassLosses | None]]
) -> dict[str, float]:
    """Return loss and bound against the answer as comparator, summed over passes with their own start and step."""
    if any(s is None for _, s in passed):
        return {}
    square = (data.rows.y - data.rows.eta(gamma)[:, 0]) ** 2
    comparator_loss = float(_square_weights(data.rows) @ square)
    passes = [
        (s, float(((start - gamma) ** 2).sum())) for start, s in passed if s is not None
    ]
    # Each pass starts from its own w_1, ||u - w_1||^2 = distance; bounds and losses of passes add up.
    bound = sum(
        online.widrow_hoff_pass(comparator_loss, distance, s.step, s.largest)
        for s, distance in passes
    )
    # weights were divided by their mean
    unit = data.model.design.total / data.rows.rows
    return {
        "online_loss": unit * sum(s.loss for s, _ in passes),
        "online_bound": unit * bound,
        "online_comparator_loss": unit * comparator_loss * len(passed),
        "online_step": max(s.step * s.largest for s, _ in passes),
    }


def _one_pass(
    method: Stochastic,
    data: PassData,
    gamma: Array,
    log_aux: Array,
    stage: int,
    rng: Generator,
) -> tuple[Pass, Array, tuple[float, float, float, float]]:
    """Return the pass, log aux at its end, and the entries of the trace."""
    # steps decrease as passes^-power from stage to stage; Polyak & Juditsky require a
    # power in (1/2, 1)
    power = 0.5
    model = data.model
    aux = aux_from_log(model, log_aux)
    n = data.rows.rows
    batch = method.rows_per_step(n)
    # step = rate / L / sqrt(stage); all rows at once give the gradient itself, which vanishes at the mode: rate / L
    step = method.rate / data.curvature(gamma, aux, batch)
    if batch < n:
        step *= stage**-power
    order = rng.permutation(n)
    with np.errstate(all="ignore"):  # too long steps give inf or nan
        try:
            done = method.one_pass(data, order, gamma, aux, step)
        except online.Diverged:
            done = Pass(np.full_like(gamma, np.inf), np.full_like(gamma, np.inf))
        if np.isfinite(done.mean).all():
            log_aux = aux_mode_at(model, done.last, log_aux)
        value = _value(model, done.last, log_aux)
        size = float(np.linalg.norm(done.last))
    return done, log_aux, (value, size, step, np.nan)


def _value(model: Model, gamma: Array, log_aux: Array) -> float:
    return float(
        model.log_posterior(
            model.design.basis.T @ gamma, **estimated_aux(model, log_aux)
        )
    )


def _check_growth(method: Stochastic, value: float, floor: float) -> None:
    """Raise NotConverged if the log posterior has decreased below `floor`."""
    if value > floor:
        return
    if method.rate > 1:
        advice = "rate=0.5 would do"
    else:
        advice = f"rate={method.rate / 8:g} may do"
    raise NotConverged(
        f"{method.name} with rate={method.rate:g} diverged: its steps grew without bound. {advice}, or use newton, which has no rate"
    )


def _start(data: PassData) -> tuple[Array, Array]:
    """Return zeros, with the intercept at the mean of the likelihood's rough eta, and log aux at its maximum there."""
    model = data.model
    rows = data.rows
    gamma = np.zeros(model.shape)
    eta, aux = data.likelihood.initial_eta(rows.y)
    intercept = model.design.basis.intercept
    if intercept is not None:
        target = minus_offset(eta, rows.offset)
        gamma[intercept] = np.average(target, axis=0, weights=rows.weights)
    return gamma, aux_mode_at(model, gamma, logs_of_aux(model, aux))


def _mode(model: Model, gamma: Array, log_aux: Array, passes: int, tol: float) -> Mode:
    """Return the point with its distance to the maximum in standard errors."""
    with np.errstate(all="ignore"):
        local = model.value_grad_hessian_standardised(
            gamma, **estimated_aux(model, log_aux)
        )
    step, convex = newton_step(local)
    # far from the maximum beta and log sigma interact: treat them separately
    if not convex:
        k = gamma.size
        blocks = local.curvature.copy()
        blocks[:k, k:] = blocks[k:, :k] = 0.0
        local = local._replace(curvature=blocks)
        step = newton_step(local)[0]
    # (g'H^-1 g)^(1/2)
    distance = float(np.sqrt(max(local.gradient @ step, 0.0)))
    status = Status.CONVERGED if convex and distance < tol else Status.SHORT
    return Mode(gamma, log_aux, local, distance, passes, status)


def _solution(method: Stochastic, model: Model, descent: Descent) -> Solution:
    """Return the solution at the point, with the standard errors of the maximum and the status."""
    mode = descent.mode
    total = len(descent.trace["step"])
    try:
        if ClosedForm().obstacle(model) is None:
            base = _least_squares(model, mode)
        else:
            base = solution_at(model, mode)
    except NotConverged as why:
        raise NotConverged(
            f"{method.name} ended at a point where the log posterior is not concave: use more epochs, or newton"
        ) from why
    place = f"at a distance of {mode.decrement:.2g} standard errors from the maximum (Newton decrement sqrt(g' H^-1 g))"
    scale = base.scale
    if base.status is Status.NO_MAXIMUM:
        place = "where the likelihood still increases towards infinity"
        scale = NoCovariance.of(*model.shape, scale.further)
    if "exact_fit" in base.stats:
        place = f"at coefficients that fit every response to {base.aux[str(model.likelihood.noise_scale)]:.2g}"
    words = f"after {total} passes, {place}"
    estimate = "last iterate"
    if method.averages(model.design.n):
        estimate = "average of the last stage"
    errors = "of the curvature of the log posterior"
    if base.df is not None:
        errors = "classical, with s² = RSS/(n - rank)"
    sigma = important_note(
        Topic.SIGMA,
        "sigma maximises the log posterior at these coefficients (sqrt(RSS/n) for a Gaussian likelihood with flat priors)",
    )
    return replace(
        base,
        scale=scale,
        detail=base.detail or words,
        stats={
            **base.stats,
            "passes": float(total),
            "distance": mode.decrement,
            **descent.bounds,
        },
        notes=(
            *sigma_note(model, sigma),
            routine_note(
                Topic.CONVERGENCE,
                f"the {estimate}, {words}",
            ),
            routine_note(
                Topic.STANDARD_ERRORS,
                "standard errors are {errors}; covariance('HC0') is the sandwich, the asymptotic covariance of the average of one "
                "pass (Ruppert 1988; Polyak & Juditsky 1992)",
                errors=errors,
            ),
        ),
        trace=descent.trace,
    )


def _least_squares(model: Model, mode: Mode) -> Solution:
    """Return the solution of a least-squares model at these coefficients, with
    classical errors from their residuals."""
    # the search stops at this sigma, an exact fit, in standard deviations of the response
    exact_fit = 1e-6
    exact = ClosedForm().solve(model, np.random.default_rng(0))
    beta = model.design.basis.T @ mode.gamma
    aux = estimated_aux(model, mode.log_aux)
    beta = least_norm(beta, exact.null_space)
    status = mode.status if exact.status is Status.EXACT else exact.status
    if "exact_fit" in exact.stats:
        reached = aux[str(model.likelihood.noise_scale)] <= exact_fit * float(
            np.std(model.design.observed)
        )
        status = Status.CONVERGED if reached else Status.SHORT
    # s^2 and sigma^2 are proportional to the residual sum of squares, here at least the exact solution's.
    growth = max(
        (v / exact.aux[a] for a, v in aux.items() if exact.aux[a] > 0), default=1.0
    )
    stats = {**exact.stats, "rss": exact.stats["rss"] * growth**2}
    if "sigma_unbiased" in stats:
        stats["sigma_unbiased"] *= growth
    return replace(
        exact,
        beta=beta,
        scale=exact.scale.scale_by(growth**2),
        aux=aux,
        status=status,
        stats=stats,
    )
