"""Running a learner over a stream: blocks of rows in, a Run out, in memory that does not grow with a stream."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Count, Flag, Seed, check_arguments, check_fields
from probreg.errors import DataError, warn_caller
from probreg.numerics.linalg import merge, triangular
from probreg.online.learner import (
    Diverged,
    Gradient,
    Learner,
    StreamError,
    fixed_step,
    shown_response,
)
from probreg.online.parts import NORMALISED, PLAIN, Array, Out, Rate, Simplex, State
from probreg.online.result import Run
from probreg.online.rounds import RunStatus, Totals, normalised_rows
from probreg.online.sources import Arrays, RowStream, feed

SMALL = 500  # rows of an array run below which loading the compiler costs more than it saves
SNAPSHOTS = 200  # recorded weights of a stream; every other one is dropped when there are twice as many


@dataclass(frozen=True)
class Record:
    """What a run keeps of its rounds.

    Parameters
    ----------
    every : int, optional
        Rounds between recorded weights; a hundredth of an array run, blocks of a stream.
    rows : bool, optional
        Whether each round's prediction and loss are kept; yes for arrays, no for streams.
    compiled : bool, optional
        False runs the pure steps.

    Examples
    --------
    >>> Record(every=10).every
    10
    """

    every: Count | None = None
    rows: Flag | None = None
    compiled: Flag | None = None

    def __post_init__(self) -> None:
        check_fields(self)


@check_arguments
def run(
    learner: Learner,
    X: Any,
    y: Any = None,
    *,
    trials: Any = None,
    passes: Count = 1,
    shuffle: Seed | None = None,
    state: State | None = None,
    record: Record = Record(),
) -> Run:
    """The run of a learner over rows: predict, see y, suffer, update.

    It warns when the step is too large for the rows. A perceptron stops before its last pass, after one without a
    mistake.

    Parameters
    ----------
    learner : Learner
        What learns.
    X : array (n, p) or iterable
        Rows, or a stream of rows (x, y) or of blocks (X, y); `Parquet` and `CSV` read files.
    y : array (n,), optional
        The responses of arrays.
    trials : array (n,) or int, optional
        The number of trials of each row, whose successes y counts: for a learner of such rows, `binomial`. The rows of
        a stream are (x, (k, n)) then.
    passes : int
        How often the rows are gone through.
    shuffle : int, optional
        A seed for a new order in each pass.
    state : State, optional
        Where an earlier run ended, to go on from there.
    record : Record
        What is kept.

    Returns
    -------
    Run
        Predictions, losses, weights, regret and guarantees.

    Raises
    ------
    StreamError
        A DataError, for a row of another width, with a value missing, or with a y the loss is not defined for. It
        carries `state`, the state before that row.
    Diverged
        When a loss is not finite; it carries `state` too.

    Examples
    --------
    >>> from probreg.online import lms
    >>> path = run(lms(0.5), [[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> path.predictions, path.state.w
    (array([0.  , 0.5 , 0.75]), array([0.875]))
    """
    wanted = {
        "learner": (learner, Learner),
        "state": (state, State | None),
        "record": (record, Record),
    }
    wrong = [
        name for name, (value, kind) in wanted.items() if not isinstance(value, kind)
    ]
    if wrong:
        value, _ = wanted[wrong[0]]
        raise DataError(
            f"{wrong[0]} is a {wrong[0].title()} of probreg.online, got {type(value).__name__}"
        )
    source = feed(X, y, trials, passes, shuffle, record.every)
    tape: Tape | None = None
    for k in range(passes):
        if tape:
            tape.passes += 1
        mistakes = tape.totals.mistakes if tape else 0
        for A, b in source.blocks(k):
            tape = tape or Tape(
                learner, state or learner.init(A.shape[1]), source, record
            )
            tape.take(A, b)
        if tape is None:
            raise DataError("the stream has no rows")
        if learner.conservative and tape.totals.mistakes == mistakes:
            return tape.run(RunStatus.SEPARATED)
    assert tape is not None
    left = tape.totals.mistakes - mistakes
    if learner.conservative and passes > 1:
        warn_caller(
            f"{left} mistakes in the last of {passes} passes: no weights that separate the classes were found. "
            "Either none exist or it takes more passes; path.guarantee() decides which."
        )
        return tape.run(RunStatus.BUDGET)
    return tape.run(RunStatus.FINISHED)


class Tape:
    """What a run has seen so far. The one thing here that changes in place; a Run is its frozen copy."""

    def __init__(
        self, learner: Learner, start: State, source: Arrays | RowStream, record: Record
    ) -> None:
        arrays = isinstance(source, Arrays)
        self.learner, self.start, self.state, self.source = (
            learner,
            start,
            start,
            source,
        )
        if record.rows is None:
            self.rows = arrays
        else:
            self.rows = record.rows
        small = isinstance(source, Arrays) and source.rounds < SMALL
        self.compiled = learner.compiles() and (
            not small if record.compiled is None else record.compiled
        )
        if isinstance(source, Arrays):
            self.every = source.every
        else:
            self.every = record.every or 1
        self.predictions: list[Array] = []
        self.losses: list[Array] = []
        self.sum = np.zeros_like(start.w)
        self.times, self.weights, self.sums = [0], [start.w], [self.sum.copy()]
        self.totals = Totals()
        self.factor: Array | None = None
        self.normalised_factor: Array | None = None
        self.passes = 1
        self.warned = False

    @np.errstate(
        over="ignore", invalid="ignore"
    )  # of weights that run away; Diverged says it
    def take(self, A: Array, b: Array) -> None:
        """Steps through a block; the rows before a bad one are learnt from before the error is raised."""
        width = self.learner.width(self.start)
        if A.shape[1] != width:
            raise StreamError(
                f"row {self.totals.rounds}: X has {A.shape[1]} columns, the learner's state {width}",
                self.state,
            )
        if b.ndim == 2 and self.learner.loss.labels.kind != "trials":
            raise StreamError(
                f"row {self.totals.rounds}: y counts successes of trials, and the {self.learner.loss.name} loss reads one number of a "
                "row: use binomial(step), or a row for each trial",
                self.state,
            )
        good = self.learner.admits(b)
        stop = len(b) if good.all() else int(np.argmin(good))
        done = self._learn(A[:stop], b[:stop]) if stop else 0
        if done < len(b):
            self._stop(A[done], b[done])

    def _stop(self, x: Array, y: Any) -> None:
        """The error that says why the learner cannot go on with this row."""
        where = f"row {self.totals.rounds}"
        columns = self.source.columns
        known = bool(np.isfinite(y).all())
        if not (known and np.isfinite(x).all()):
            j = int(np.argmin(np.isfinite(x)))
            if known:
                name = f"column {columns[j] if columns else j}"
                value = x[j]
            else:
                name, value = ("y", y)
            advice = "drop or repair that row, then go on from the error's `state`, which is from before it"
            raise StreamError(
                f"{where}: {name} is {shown_response(value)}; {advice}", self.state
            )
        if not self.learner.admits(np.array([y]))[0]:
            needs = self.learner.loss.labels.advice
            raise StreamError(
                f"{where}: y is {shown_response(y)}, but this learner needs {needs}",
                self.state,
            )
        why = self.learner.objection(self.state, x)
        if why:
            raise StreamError(f"{where}: {why}", self.state)
        step = fixed_step(self.learner)
        q = float(self.learner.squares(x[None])[0])
        if step and step * q >= 2:
            why = f" {self._advice(step, q, int(np.argmax(np.abs(x))))}."
        else:
            why = ""
        raise Diverged(
            f"row {self.totals.rounds}: the loss is not a finite number, the weights have grown to "
            f"{np.abs(self.state.w).max(initial=0.0):.3g}.{why} The error's `state` is the last with finite weights.",
            self.state,
        )

    def _learn(self, A: Array, b: Array) -> int:
        """Steps through rows whose y is fine; how many there were before one with a row or loss that is not finite."""
        A = _contiguous_copy(A)
        b = _contiguous_copy(b)
        before = self.state
        n = len(b)
        prediction, loss = self._space(n)
        if self.learner.grows:  # by one weight a round at most
            self.sum = np.concatenate([self.sum, np.zeros(n)])
        kept = Out(prediction, loss, np.empty(n), np.empty(n), self.sum)
        step = self.learner.block if self.compiled else self._pure
        self.state, done = step(before, A, A, b, kept)
        self.sum = self.sum[: len(self.state.w)]
        if done:
            self._record_totals(
                A[:done],
                b[:done],
                Out(
                    prediction[:done],
                    loss[:done],
                    kept.slope[:done],
                    kept.square[:done],
                    self.sum,
                ),
                before,
            )
        return done

    def _space(self, n: int) -> tuple[Array, Array]:
        """Where a block's predictions and losses go: straight to their place in the path where its length is known."""
        shape = (n, *self.start.w.shape[1:])
        if not (self.rows and isinstance(self.source, Arrays)):
            return np.empty(shape), np.empty(n)
        if not self.predictions:
            T = self.source.rounds
            self.predictions, self.losses = [np.empty((T, *shape[1:]))], [np.empty(T)]
        here = slice(self.totals.rounds, self.totals.rounds + n)
        return self.predictions[0][here], self.losses[0][here]

    def _pure(
        self, state: State, A: Array, P: Array, b: Array, kept: Out
    ) -> tuple[State, int]:
        for i in range(len(b)):
            if not np.isfinite(A[i] @ A[i]):
                return state, i
            kept.square[i] = self.learner.squares(A[i : i + 1])[0]
            try:
                after, info = self.learner.step(state, A[i], b[i])
            except (Diverged, StreamError):
                return state, i
            kept.prediction[i], kept.loss[i] = info
            kept.slope[i] = self.learner.loss.at(info.prediction, b[i])[1]
            kept.total[: len(state.w)] += state.w
            state = after
        return state, len(b)

    def _record_totals(self, A: Array, b: Array, kept: Out, before: State) -> None:
        squares = kept.square
        largest = float(squares.max())
        mirrored = isinstance(self.learner, Gradient) and "theta" in before.memory
        seen = Totals(
            rounds=len(b),
            loss=float(kept.loss.sum()),
            loss_square=float(kept.loss @ kept.loss),
            mistakes=self.learner.loss.mistakes(kept.prediction, b)
            if kept.prediction.ndim == 1
            else 0,
            largest=largest,
            smallest=float(squares.min()),
            column=int(np.argmax(np.abs(A[np.argmax(squares)])))
            if largest > self.totals.largest
            else 0,
            spread=self._row_scale(A) if mirrored else 0.0,
            gradient_cost=self._gradient_cost(squares, kept.slope, before.t),
            worst=float(kept.loss.max()),
            normalised=self._normalised_loss(squares, kept.loss),
        )
        self.totals = self.totals + seen
        if self.rows and isinstance(self.source, RowStream):
            self.predictions.append(kept.prediction)
            self.losses.append(kept.loss)
        if (
            isinstance(self.source, RowStream)
            and self.learner.loss.name == "squared"
            and self.learner.linear
        ):
            self.factor = _joined_factor(self.factor, A, b)
            rate = _normalised_rate(self.learner)
            if rate is not None:
                self.normalised_factor = _joined_factor(
                    self.normalised_factor, *normalised_rows(A, b, rate.eps)
                )
        self._snapshot()
        self._guard()

    def _row_scale(self, A: Array) -> float:
        simplex = isinstance(self.learner, Gradient) and isinstance(
            self.learner.geometry, Simplex
        )
        if simplex:
            return float(np.ptp(A, axis=1).max())
        return float(np.abs(A).max())

    def _gradient_cost(self, squares: Array, slope: Array, t: int) -> float:
        rule = self.learner.rule
        if rule is None or rule.rate.kind != PLAIN:
            return 0.0
        if rule.rate.power == 0:
            return rule.rate.step * float((slope * slope) @ squares)
        steps = rule.rate.steps(np.arange(t + 1.0, t + 1.0 + len(slope)))
        return float((steps * slope * slope) @ squares)

    def _normalised_loss(self, squares: Array, loss: Array) -> float:
        rate = _normalised_rate(self.learner)
        if rate is None:
            return 0.0
        size = rate.eps + squares
        return float(
            np.divide(loss, size, out=np.zeros_like(loss), where=size > 0).sum()
        )

    def _snapshot(self) -> None:
        rounds = self.totals.rounds
        if (
            isinstance(self.source, Arrays)
            and rounds % self.every
            and rounds < self.source.rounds
        ):
            return
        if rounds - self.times[-1] < self.every and isinstance(self.source, RowStream):
            return
        self.times.append(rounds)
        self.weights.append(self.state.w)
        self.sums.append(self.sum.copy())
        if isinstance(self.source, RowStream) and len(self.times) > 2 * SNAPSHOTS:
            for kept in (self.times, self.weights, self.sums):
                del kept[1:-1:2]

    def _guard(self) -> None:
        step = fixed_step(self.learner)
        squared = self.learner.loss.name == "squared" and not isinstance(
            self.state.memory.get("theta"), np.ndarray
        )
        if self.warned or step is None or not squared or step * self.totals.largest < 2:
            return
        self.warned = True
        warn_caller(self._advice(step, self.totals.largest, self.totals.column))

    def _advice(self, step: float, largest: float, j: int) -> str:
        name = self.source.columns[j] if self.source.columns else j
        if self.learner.grows:
            return (
                f"step {step:g} times the largest k(x, x), {largest:g}, is {step * largest:.3g}: from 2 on a step overshoots "
                f"and weights can grow without end. Take a step of {1 / largest:.3g} or less"
            )
        return (
            f"step {step:g} times the largest ||x||^2, {largest:g}, is {step * largest:.3g}: from 2 on a step overshoots "
            f"and weights can grow without end. Column {name} is the largest there: scale it, or take a step of "
            f"{1 / largest:.3g} or less"
        )

    def run(self, status: RunStatus) -> Run:
        """What was seen, frozen."""
        if self.times[-1] != self.totals.rounds:
            self.times.append(self.totals.rounds)
            self.weights.append(self.state.w)
            self.sums.append(self.sum.copy())
        shape = (0, *self.start.w.shape[1:])
        if isinstance(self.source, Arrays):
            data = (self.source.X, self.source.y)
        else:
            data = None
        return Run(
            learner=self.learner,
            start=self.start,
            state=self.state,
            predictions=_concatenate(self.predictions, shape)[: self.totals.rounds],
            losses=_concatenate(self.losses, (0,))[: self.totals.rounds],
            times=np.array(self.times),
            weights=self._stack_snapshots(self.weights),
            sums=self._stack_snapshots(self.sums),
            totals=self.totals,
            status=status,
            data=data,
            factor=self.factor,
            normalised_factor=self.normalised_factor,
            passes=self.passes,
            shuffle=self.source.shuffle if isinstance(self.source, Arrays) else None,
        )

    def _stack_snapshots(self, snapshots: list[Array]) -> Array:
        """Stack snapshots (K, ...) of weights, with zeros for weights that were added later."""
        if not self.learner.grows:
            return np.array(snapshots)
        if (
            "dropped" in self.start.memory
            and self.state.memory["dropped"] > self.start.memory["dropped"]
        ):
            return np.empty(
                (0, len(self.state.w))
            )  # they belong to anchors that are not known any more
        return np.array(
            [
                np.concatenate([w, np.zeros(len(self.state.w) - len(w))])
                for w in snapshots
            ]
        )


def _concatenate(parts: list[Array], empty: tuple[int, ...]) -> Array:
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty(empty)


def _joined_factor(before: Array | None, A: Array, b: Array) -> Array:
    F = triangular(A, b).astype(float)
    return F if before is None else merge(before, F)


def _normalised_rate(learner: Learner) -> Rate | None:
    """Return the rate of a learner of normalised steps, else None."""
    rule = learner.rule
    if rule is not None and rule.rate.kind == NORMALISED:
        return rule.rate
    return None


def _contiguous_copy(A: Array) -> Array:
    """Return a contiguous and writable array: other arrays would need another compilation."""
    if A.flags.c_contiguous and A.flags.writeable:
        return A
    return np.array(A, order="C")
