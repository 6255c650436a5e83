"""Run a learner over arrays or over a stream of rows; the memory for a stream does not grow with its length."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.arrays import floats, same_rows
from probreg.arguments.scalars import Count, Flag, Seed, check_arguments, check_fields
from probreg.errors import DataError, Incompatible, warn_caller
from probreg.linalg import merge, row_blocks, triangular
from probreg.online.learner import (
    Diverged,
    Gradient,
    Learner,
    StreamError,
    fixed_step,
    largest_entry,
)
from probreg.online.result import Run
from probreg.online.rounds import RunStatus, Totals, pass_order
from probreg.online.updates import (
    PLAIN,
    Array,
    RoundArrays,
    Simplex,
    State,
)

Block = tuple[Array, Array]


@dataclass(frozen=True, eq=False)
class Arrays:
    """X (n, p) and y (n,) as blocks that stay in cache."""

    X: Array
    y: Array
    passes: int
    shuffle: int | None
    every: int
    columns: tuple[str, ...] = ()

    @property
    def rounds(self) -> int:
        return len(self.y) * self.passes

    def blocks(self, k: int) -> Iterator[Block]:
        n, p = self.X.shape
        order = None if self.shuffle is None else pass_order(n, self.shuffle, k)
        for rows in row_blocks(n, p) if n else ():
            index = rows if order is None else order[rows]
            yield self.X[index], self.y[index]


@dataclass(frozen=True, eq=False)
class RowStream:
    """An iterable of rows (x, y) or of blocks (X, y), read once for each pass and never all in memory.

    Weights are recorded after `every` rounds, None for after each block.
    """

    items: Iterable[Any]
    every: int | None = None
    columns: ClassVar[tuple[str, ...]] = ()

    def blocks(self, k: int) -> Iterator[Block]:
        items = iter(self.items)
        first = next(items, None)
        while first is not None:
            if np.ndim(_require_pair(first)[0]) == 2:
                yield _checked_block(*first)
            else:
                # single rows of a stream that form a block
                pairs = [first, *map(_require_pair, islice(items, 4096 - 1))]
                yield _checked_block(
                    _stack([x for x, _ in pairs]), [y for _, y in pairs]
                )
            first = next(items, None)


def _require_pair(item: Any) -> Any:
    """Return a row (x, y) or a block (X, y) of a stream."""
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise DataError(
            f"the stream yields {type(item).__name__}: expected rows (x, y) or blocks (X, y). Did you forget y=?"
        )
    return item


def _stack(rows: list[Any]) -> Array:
    for i, row in enumerate(rows):
        if np.size(row) != np.size(rows[0]):
            raise DataError(
                f"row {i} of the stream has {np.size(row)} values, the rows before it {np.size(rows[0])}"
            )
    return floats(rows, "X", copy=False)


def _checked_block(X: ArrayLike, y: ArrayLike) -> Block:
    same_rows(X=X, y=y)
    A = floats(X, "X", copy=False)
    b = floats(y, "y", copy=False)
    if A.ndim != 2 or b.shape != (len(A),) or not A.shape[1]:
        raise DataError(
            f"X has shape {A.shape} and y {b.shape}: expected (n, p) with p >= 1, and (n,)"
        )
    return A, b


def as_source(
    X: Any, y: Any, passes: int, shuffle: int | None, interval: int | None
) -> Arrays | RowStream:
    """Return Arrays if y is given, else the stream X."""
    if y is not None:
        A, b = _checked_block(X, y)
        total = max(len(b) * passes, 1)
        names = tuple(str(c) for c in getattr(X, "columns", ()))
        return Arrays(A, b, passes, shuffle, interval or -(-total // 100), names)
    if (
        not isinstance(X, Iterable)
        or isinstance(X, str | bytes)
        or (isinstance(X, np.ndarray) and not X.ndim)
    ):
        raise DataError(
            f"X is {type(X).__name__}: expected arrays X and y, or a stream of rows (x, y) or blocks (X, y)"
        )
    if shuffle is not None or (passes > 1 and iter(X) is X):
        raise DataError(
            "an iterator cannot be shuffled or read twice: pass arrays, or an iterable that can be read again"
        )
    return RowStream(X, interval)


ROWS_OF_COMPILED_RUN = 500  # with fewer rows of an array run, loading the compiler takes longer than it saves


@dataclass(frozen=True)
class Record:
    """Options for the records of a run.

    Parameters
    ----------
    every : int, optional
        Rounds between recorded weights; by default a hundredth of an array run, and a block of a stream. A stream keeps at
        most 400 of them.
    rows : bool, optional
        Whether to record the prediction and the loss of each round; by default for arrays, not for streams.
    compiled : bool, optional
        False runs the steps without compilation.

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
    passes: Count = 1,
    shuffle: Seed | None = None,
    state: State | None = None,
    record: Record = Record(),
) -> Run:
    """Run a learner over rows: predict, see y, compute the loss, update.

    It warns if the step is too large for the rows. A perceptron stops after a pass without a mistake.

    Parameters
    ----------
    learner : Learner
        The learner.
    X : array (n, p) or iterable
        Rows, or a stream of rows (x, y) or of blocks (X, y).
    y : array (n,), optional
        The responses of arrays.
    passes : int
        Number of passes over the rows.
    shuffle : int, optional
        A seed for a new order in each pass.
    state : State, optional
        The last state of an earlier run, to continue it.
    record : Record
        The records to keep.

    Returns
    -------
    Run
        Predictions, losses, weights, regret and guarantees.

    Raises
    ------
    StreamError
        A DataError, for a row with a wrong width, a missing value, or a y where the loss is not defined. Its
        `state` is the state before this row.
    Diverged
        If a loss is not finite; it has the last `state` too.

    Examples
    --------
    >>> from probreg.online import lms
    >>> path = run(lms(0.5), [[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> path.predictions, path.state.w
    (array([0.  , 0.5 , 0.75]), array([0.875]))
    """
    source = as_source(X, y, passes, shuffle, record.every)
    recorder: Recorder | None = None
    mistakes = 0
    for k in range(passes):
        if recorder is not None:
            recorder.passes += 1
            mistakes = recorder.totals.mistakes
        for A, b in source.blocks(k):
            if recorder is None:
                first = learner.init(A.shape[1])
                start = first if state is None else state
                _require_memory(learner, start, first)
                recorder = Recorder(learner, start, source, record)
            recorder.take(A, b)
        if recorder is None:
            raise DataError("the stream has no rows")
        if learner.conservative and recorder.totals.mistakes == mistakes:
            return recorder.result(RunStatus.SEPARATED)
    assert recorder is not None
    if learner.conservative and passes > 1:
        warn_caller(
            f"{recorder.totals.mistakes - mistakes} mistakes in the last of {passes} passes: no weights that separate the "
            "classes were found. Take more passes, or see path.guarantee(), which checks whether such weights exist."
        )
        return recorder.result(RunStatus.BUDGET)
    return recorder.result(RunStatus.FINISHED)


def _require_memory(learner: Learner, state: State, first: State) -> None:
    """Raise DataError for a state of another learner, recognised by the names and shapes of its memory."""
    names = list(state.memory)
    same = set(names) == set(first.memory)
    if same and not learner.grows:
        expected = learner.init(len(state.w)).memory
        same = all(np.shape(state.memory[k]) == v.shape for k, v in expected.items())
    if not same:
        raise DataError(
            f"state= is of another learner, with the memory {names}: expected a state of {learner.title}, with {list(first.memory)}"
        )


class Recorder:
    """The totals and records of a run so far, changed in place; a Run is its frozen copy."""

    def __init__(
        self, learner: Learner, start: State, source: Arrays | RowStream, record: Record
    ) -> None:
        self.learner = learner
        self.start = start
        self.state = start
        self.source = source
        self.every = source.every
        self.rows = record.rows
        small = isinstance(source, Arrays) and source.rounds < ROWS_OF_COMPILED_RUN
        if self.rows is None:
            self.rows = isinstance(source, Arrays)
        compiled = record.compiled
        if compiled is None:
            compiled = not small
        has_loop = learner.grows or learner.loss.code >= 0
        if record.compiled and not has_loop:
            raise Incompatible(
                f"compiled=True: the custom loss {learner.loss.name!r} has no compiled steps"
            )
        self.compiled = compiled and has_loop
        self.predictions: list[Array] = []
        self.losses: list[Array] = []
        self.sum = np.zeros_like(start.w)
        self.times = [0]
        self.weights = [start.w]
        self.sums = [self.sum.copy()]
        self.totals = Totals()
        self.factor: Array | None = None
        self.passes = 1
        self.warned = False

    def take(self, A: Array, b: Array) -> None:
        """Step through a block, in parts that end where weights are recorded."""
        start = 0
        while start < len(b):
            stop = len(b)
            if self.every is not None:
                remaining = self.every - (self.totals.rounds - self.times[-1])
                stop = min(start + remaining, stop)
            self._take_part(A[start:stop], b[start:stop])
            start = stop

    @np.errstate(over="ignore", invalid="ignore")  # Diverged reports an overflow
    def _take_part(self, A: Array, b: Array) -> None:
        """Step through rows; rows before an invalid row are learnt before the error is raised."""
        width = self.learner.width(self.start)
        if A.shape[1] != width:
            raise StreamError(
                f"row {self.totals.rounds}: X has {A.shape[1]} columns, the learner's state {width}",
                self.state,
            )
        valid = self.learner.loss.labels.valid(b)
        stop = len(b) if valid.all() else int(np.argmin(valid))
        n_steps = self._learn(A[:stop], b[:stop]) if stop else 0
        if n_steps < len(b):
            self._raise_error(A[n_steps], float(b[n_steps]))

    def _raise_error(self, x: Array, y: float) -> None:
        """Raise the error that explains why the learner cannot use this row."""
        row = f"row {self.totals.rounds}"
        if not np.isfinite(x @ x):
            j = largest_entry(x)
            raise StreamError(
                f"{row}: column {self._column_name(j)} is {x[j]:g}; drop or repair that row, then continue from the "
                "error's `state`, the state before it",
                self.state,
            )
        try:
            self.learner.step(self.state, x, y)
        except Diverged:
            pass
        except DataError as error:
            raise StreamError(f"{row}: {error}", self.state) from None
        step = fixed_step(self.learner)
        q = self.learner.squares(x[None])[0]
        advice = ""
        if step and step * q >= 2:
            advice = f" {self._step_advice(step, q, largest_entry(x))}."
        largest = np.abs(self.state.w).max(initial=0.0)
        raise Diverged(
            f"{row}: the loss is not a finite number, the weights have grown to {largest:.3g}.{advice} "
            "The error's `state` is the last with finite weights.",
            self.state,
        )

    def _learn(self, A: Array, b: Array) -> int:
        """Step through rows with valid y; return the number of steps before a row or a loss that is not finite."""
        # contiguous and writable: loops would be compiled again for other arrays
        A, b = (np.require(v, requirements=["C", "W"]) for v in (A, b))
        before = self.state
        n = len(b)
        if self.learner.grows:  # by at most one weight in each round
            self.sum = np.concatenate([self.sum, np.zeros(n)])
        arrays = RoundArrays.of(n, self.sum)
        if self.compiled:
            self.state, n_steps = self.learner.block(before, A, b, arrays)
        else:
            self.state, n_steps = Learner.block(self.learner, before, A, b, arrays)
        self.sum = self.sum[: len(self.state.w)]
        if n_steps:
            self._record_totals(
                A[:n_steps], b[:n_steps], arrays.select(slice(n_steps)), before
            )
        return n_steps

    def _record_totals(
        self, A: Array, b: Array, arrays: RoundArrays, before: State
    ) -> None:
        squares = arrays.square
        largest = float(squares.max())
        column = 0
        if largest > self.totals.largest:
            column = int(np.argmax(np.abs(A[np.argmax(squares)])))
        self.totals += Totals(
            rounds=len(b),
            loss=float(arrays.loss.sum()),
            mistakes=self.learner.loss.mistakes(arrays.prediction, b),
            largest=largest,
            column=column,
            spread=self._spread(A) if "theta" in before.memory else 0.0,
            gradient_cost=self._gradient_cost(squares, arrays.slope, before.t),
            worst=float(arrays.loss.max()),
        )
        if self.rows:
            self.predictions.append(arrays.prediction)
            self.losses.append(arrays.loss)
        is_squared = self.learner.loss.name == "squared" and not self.learner.grows
        if isinstance(self.source, RowStream) and is_squared:
            F = triangular(A, b).astype(float)
            self.factor = F if self.factor is None else merge(self.factor, F)
        self._record_weights()
        self._warn_large_step()

    def _spread(self, A: Array) -> float:
        assert isinstance(self.learner, Gradient)
        if isinstance(self.learner.geometry, Simplex):
            return float(np.ptp(A, axis=1).max())
        return float(np.abs(A).max())

    def _gradient_cost(self, squares: Array, slope: Array, t: int) -> float:
        rule = self.learner.rule
        if rule is None or rule.rate.kind != PLAIN:
            return 0.0
        steps = rule.rate.steps(np.arange(t + 1.0, t + 1.0 + len(slope)))
        return float((steps * slope * slope) @ squares)

    def _record_weights(self) -> None:
        if self.totals.rounds - self.times[-1] < (self.every or 1):
            return
        self._append_weights()
        # a stream keeps 200 to 400 of its recorded weights
        if isinstance(self.source, RowStream) and len(self.times) > 400:
            for records in (self.times, self.weights, self.sums):
                del records[1:-1:2]

    def _append_weights(self) -> None:
        self.times.append(self.totals.rounds)
        self.weights.append(self.state.w)
        self.sums.append(self.sum.copy())

    def _warn_large_step(self) -> None:
        step = fixed_step(self.learner)
        largest = self.totals.largest
        squared = self.learner.loss.name == "squared"
        if self.warned or step is None or not squared or "theta" in self.state.memory:
            return
        if step * largest >= 2:
            self.warned = True
            warn_caller(self._step_advice(step, largest, self.totals.column))

    def _column_name(self, j: int) -> str:
        return self.source.columns[j] if self.source.columns else str(j)

    def _step_advice(self, step: float, largest: float, j: int) -> str:
        if self.learner.grows:
            square = "k(x, x)"
            advice = f"Take a step of {1 / largest:.3g} or less"
        else:
            square = "||x||^2"
            advice = f"Column {self._column_name(j)} is the largest there: scale it, or take a step of {1 / largest:.3g} or less"
        return (
            f"step {step:g} times the largest {square}, {largest:g}, is {step * largest:.3g}: from 2 on a step overshoots "
            f"and weights can grow without bound. {advice}"
        )

    def result(self, status: RunStatus) -> Run:
        """Return the records as a Run."""
        if self.times[-1] != self.totals.rounds:
            self._append_weights()
        data = None
        shuffle = None
        if isinstance(self.source, Arrays):
            data = (self.source.X, self.source.y)
            shuffle = self.source.shuffle
        return Run(
            learner=self.learner,
            start=self.start,
            state=self.state,
            predictions=np.concatenate([np.empty(0), *self.predictions]),
            losses=np.concatenate([np.empty(0), *self.losses]),
            times=np.array(self.times),
            weights=_stack_padded(self.weights),
            sums=_stack_padded(self.sums),
            totals=self.totals,
            status=status,
            data=data,
            factor=self.factor,
            passes=self.passes,
            shuffle=shuffle,
        )


def _stack_padded(weights: list[Array]) -> Array:
    """Stack recorded weights (K, p), with zeros for weights that later rounds added."""
    width = len(weights[-1])
    return np.array([np.pad(w, (0, width - len(w))) for w in weights])
