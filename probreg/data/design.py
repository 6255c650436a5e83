"""A design: the response and the matrix of one data set, and the recipe that makes the same columns at new data.

All later code works on arrays. A design is made once, checked once (finite, matching lengths, named columns) and
never changed.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.linalg import block_diag

from probreg.data.blocks.block import Block, add
from probreg.data.checked_arrays import (
    INTERCEPT,
    as_offset,
    as_trials,
    full_weights,
    is_intercept,
    minus_offset,
    plus_offset,
    some_rows,
    times_weights,
)
from probreg.data.frame import Frame
from probreg.data.grouped_columns import GroupColumns
from probreg.data.grouped_moments import AnyMoments, ArrowMoments, moments_of_levels
from probreg.data.implicit_columns import (
    LazyColumns,
    PredictorColumns,
    columns_of,
    contiguous,
)
from probreg.data.moments import Moments
from probreg.data.terms.grouped import GroupedTerm
from probreg.data.terms.process import ProcessTerm
from probreg.data.terms.smooths import BasisTerm, SmoothTerm
from probreg.data.weights import WeightKind
from probreg.errors import DataError, Incompatible
from probreg.kernels import KernelBasis
from probreg.system.terminal import few_names
from probreg.tables.render import PrintsLines

if TYPE_CHECKING:
    from probreg.data.blocks.parts import RowsInParts

Array = np.ndarray


class ColumnRecipe(ABC):
    """The recipe that makes columns from data: a formula, or columns given as arrays.

    The base class has plain columns without terms, and no response, offset or weights at new rows.
    """

    @cached_property
    def terms(self) -> tuple[BasisTerm, ...]:
        """The smooth functions, processes and varying effects, by the names of their columns."""
        terms = (self.smooths, self.processes, self.grouped)
        return tuple(t.column_names for by_key in terms for t in by_key.values())

    @property
    def basis_terms(self) -> Mapping[str, SmoothTerm | ProcessTerm | GroupedTerm]:
        """The smooth functions, processes and varying effects, by term."""
        return {}

    @cached_property
    def processes(self) -> Mapping[str, ProcessTerm]:
        """The Gaussian processes, by term."""
        return self._terms_of(ProcessTerm)

    @cached_property
    def smooths(self) -> Mapping[str, SmoothTerm]:
        """The smooth functions, by term."""
        return self._terms_of(SmoothTerm)

    @cached_property
    def grouped(self) -> Mapping[str, GroupedTerm]:
        """The terms with effects that vary by a group, by term."""
        return self._terms_of(GroupedTerm)

    def _terms_of[T](self, kind: type[T]) -> dict[str, T]:
        return {
            k: term for k, term in self.basis_terms.items() if isinstance(term, kind)
        }

    @property
    def input_names(self) -> Mapping[str, tuple[str, ...]]:
        """The inputs of each smooth function and process, by term."""
        return {}

    @property
    def of_groups_alone(self) -> tuple[str, ...]:
        """The variables that only define the group of a row."""
        return ()

    @property
    def learned_terms(self) -> tuple[str, ...]:
        """The terms with columns that depend on the training rows."""
        processes = (term.short for term in self.processes.values() if term.is_learned)
        return (*self.smooths, *processes)

    if TYPE_CHECKING:

        @property
        def columns(self) -> tuple[str, ...]: ...

    @property
    @abstractmethod
    def all_variables(self) -> tuple[str, ...]:
        """The variables that the columns and the offset use."""

    @property
    def by_prefix(self) -> Mapping[str, Any]:
        """The recipes of formulas by the prefix of their columns; none for columns given as arrays."""
        return {}

    @abstractmethod
    def read(self, data: Any) -> tuple[Array, dict[str, Array]]:
        """Return the columns (n, p) at new rows, and the inputs of each smooth function, process and bar, by term."""

    def assign_predictors(self, X: Array) -> Any:
        """Return columns (n, p), with the linear predictor of each column if columns belong to different ones."""
        return X

    def matrix(self, data: Any) -> Array:
        """Return the columns (n, p) at new rows."""
        return self.read(data)[0]

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data."""

    def groups_at(self, data: Any) -> dict[str, Array]:
        """Return the group (n,) of each row as text, by term."""
        return {}

    def own_column(self, name: str) -> int | None:
        """Return the number of the only column that uses the variable, if the column is the variable itself; else None."""
        return None

    @abstractmethod
    def with_process(self, term: ProcessTerm) -> "ColumnRecipe":
        """Return the recipe with another process of the same key."""

    def offset_at(self, data: Any) -> Array | None:
        """Return the offset (n,) at new rows; None without an offset expression."""
        return None

    def outcome_at(self, data: Any) -> Any:
        """Return the response at new rows."""
        raise DataError("a model of arrays needs the response of the new rows: pass y=")

    def trials_at(self, data: Any) -> Array | None:
        """Return the trials (n,) at new rows; None if they are unknown."""
        return None

    def weights_at(self, data: Any) -> Any:
        """Return the weights (n,) of new rows from their column; None without one."""
        return None


@dataclass(frozen=True, eq=False, repr=False)
class Design(PrintsLines):
    """X (n, p), y (n,) or (n, c) as numbers, and the other values of the rows that a likelihood needs.

    `offset` (n, 1) or (n, m) is added to eta; `labels` (n,) name the rows. The kind of the weights is `weight_kind` (see `probreg.data.weights`):
    `weights` (n,) multiply log p(y_i), as frequencies (a row of weight 2 is two rows) or as sampling weights with sum n;
    `precision` (n,) divides the variance of the noise. Rows of weight 0 are `absent`. `trials` (n,)
    are the trials of rows without a response, if the model has trials and they are known.
    """

    X: Array
    y: Array | None
    columns: tuple[str, ...]
    recipe: ColumnRecipe
    response: str = "y"
    offset: Array | None = None
    weights: Array | None = None
    labels: Array | None = None
    notes: tuple[str, ...] = ()
    # moments that outlive their rows, in a fit that was saved without them
    kept: "AnyMoments | None" = None
    # the same with each row counted once per trial
    kept_by_trials: Moments | None = None
    trials: Array | None = None
    # the source of rows that are read in blocks: X and y are then empty
    source: "RowsInParts | None" = None
    precision: Array | None = None
    weight_kind: WeightKind = "frequency"
    absent: "AbsentRows | None" = None
    # (n, d) of each smooth function and process, by the term
    inputs: Mapping[str, Array] = field(default_factory=dict)
    of_moments: bool = False  # made from moments, without rows
    # (n,) each: the variables that a formula read, by reference
    read: Mapping[str, Any] = field(default_factory=dict)

    @property
    def _summary_lines(self) -> list[str]:
        """Return the lines of its print: rows, columns, offset, trials, weights and notes."""
        rows = f"{self.n} rows" if self.n else self._place_and_remedy[0]
        has = [k for k in ("offset", "trials") if getattr(self, k) is not None]
        if self.has_weights:
            has += [f"{self.weight_kind} weights"]
        lines = [
            f"Design: response {self.response}, {rows}, {len(self.columns)} columns",
            f"columns: {few_names(self.shown_columns)}",
        ]
        if has:
            lines.append(f"with {' and '.join(has)}")
        return lines + [f"note: {n}" for n in self.notes]

    @property
    def n(self) -> int:
        """The number of rows in memory: 0 if they are read in blocks, or were not saved."""
        return len(self.X)

    @property
    def of_terms(self) -> Array:
        """(p,) bool: columns of smooth functions, which have no meaning one by one."""
        names = {c for t in self.recipe.terms for c in t.columns}
        return np.array([c in names for c in self.columns], dtype=bool)

    @property
    def is_intercept(self) -> Array:
        """(p,) bool: the intercept, which a prior affects only if it names it."""
        return np.array([is_intercept(c) for c in self.columns], dtype=bool)

    @cached_property
    def ungrouped(self) -> Array:
        """(h,) the places of columns with coefficients that are reported one by one: all except effects that vary by a group."""
        names = {c for t in self.recipe.grouped.values() for c in t.columns}
        return np.flatnonzero([c not in names for c in self.columns])

    @property
    def ungrouped_columns(self) -> tuple[str, ...]:
        """The names of the columns with coefficients that are reported one by one."""
        return tuple(self.columns[j] for j in self.ungrouped)

    @cached_property
    def shown_columns(self) -> tuple[str, ...]:
        """The columns for display: a smooth function, a process or a varying effect as one term, with its number of columns."""
        size = {
            t.name: f"{len(t.columns)} column{'s' * (len(t.columns) > 1)}"
            for t in self.recipe.terms
        }
        size |= {key: t.size_words for key, t in self.recipe.grouped.items()}
        term_of = {
            c: f"{t.name} ({size[t.name]})"
            for t in self.recipe.terms
            for c in t.columns
        }
        return tuple(dict.fromkeys(term_of.get(c, c) for c in self.columns))

    def describe_columns(self, columns: Sequence[int]) -> str:
        """Describe columns in a message: by name, or the term for a block of a smooth function."""
        return ", ".join(self.label_columns(columns))

    def label_columns(self, columns: Sequence[int]) -> tuple[str, ...]:
        """Return the names of columns, or the name of their term if they are one of its blocks."""
        names = tuple(self.columns[j] for j in columns)
        for term in self.recipe.terms:
            for label, block in zip(term.labels, term.blocks):
                if block == names:
                    return (label,)
        return names

    @cached_property
    def place(self) -> dict[str, int]:
        """The place of each column, by name."""
        return {name: j for j, name in enumerate(self.columns)}

    def process_of(self, columns: Sequence[int]) -> ProcessTerm | None:
        """Return the Gaussian process with exactly these columns, or None."""
        return self._term_of(columns, self.recipe.processes)

    def grouped_of(self, columns: Sequence[int]) -> GroupedTerm | None:
        """Return the term of varying effects with exactly these columns, or None."""
        return self._term_of(columns, self.recipe.grouped)

    def _term_of(self, columns: Sequence[int], terms: Mapping[str, Any]) -> Any:
        names = tuple(self.columns[j] for j in columns)
        return next((term for term in terms.values() if term.columns == names), None)

    def need_columns_elsewhere(self, quantity: str) -> None:
        """Raise Incompatible if the process has columns only at the rows of the fit, and `quantity` needs them at other rows."""
        for term in self.recipe.processes.values():
            if not term.basis.elsewhere:
                raise Incompatible(
                    f"{quantity} needs the columns of {term.short} at other rows, and it has columns only at the rows of the fit: "
                    "state its length, or write basis='hsgp'"
                )

    @property
    def count(self) -> int:
        """The number of rows of the design, in memory or elsewhere; 0 if unknown."""
        elsewhere = self.source or self.kept
        return self.n if elsewhere is None else elsewhere.n

    @property
    def total(self) -> float:
        """The number of observations: the sum of frequency weights, the number of rows under other weights."""
        elsewhere = self.source or self.kept
        if elsewhere is not None:
            return elsewhere.weight
        return float(self.n if self.weights is None else self.weights.sum())

    @property
    def row_of_observations(self) -> Array:
        """The row of each observation (total,), w times a row of frequency weight w."""
        counts = 1 if self.weights is None else self.weights.astype(int)
        return np.repeat(np.arange(self.n), counts)

    def repeat_rows(self) -> Self:
        """Return the design without frequency weights, with one row for each observation."""
        if self.weights is None:
            return self
        return replace(self.take(self.row_of_observations), weights=None)

    @property
    def has_rows(self) -> bool:
        """Whether sums over the rows can be computed, because they are in memory or read in blocks."""
        return bool(self.n) or self.source is not None

    @property
    def rows_absent(self) -> str:
        """The reason that no rows are in memory."""
        return f"this model {self._place_and_remedy[0]}"

    @property
    def _place_and_remedy(self) -> tuple[str, str]:
        """The place of rows that are not in memory, and the advice of errors about them."""
        if self.source is not None:
            place = f"reads its rows by the block ({self.source.name})"
            return place, "build it from a part that fits in memory"
        if self.of_moments:
            return "is of moments and holds no rows", "build it where the rows are"
        place = "holds no rows, since it was saved without its rows"
        return place, "save(rows=True) keeps them"

    @property
    def rows_needed(self) -> str:
        """The end of an error message: the reason that no rows are in memory, and the remedy."""
        return f"{self.rows_absent}: {self.remedy}"

    @property
    def remedy(self) -> str:
        """The advice of errors about rows that are not in memory."""
        return self._place_and_remedy[1]

    def rows_obstacle(self, quantity: str, instead: str = "") -> str | None:
        """Explain why `quantity` is not available and how to obtain it; None if the rows are in memory.

        `instead` replaces the general remedy of `rows_needed` by a more specific one.
        """
        if self.n:
            return None
        return f"{quantity} needs the rows in memory, and {self.rows_absent}: {instead or self.remedy}"

    def need_rows(self, quantity: str, instead: str = "") -> None:
        """Raise DataError unless the rows are in memory; `quantity` names the quantity that needs them."""
        obstacle = self.rows_obstacle(quantity, instead)
        if obstacle is not None:
            raise DataError(obstacle)

    @property
    def row_weights(self) -> Array:
        """The weight of each row, (n,); ones for a design without weights."""
        return full_weights(self.weights, self.n)

    def refuse_sampling(self, quantity: str) -> None:
        """Raise Incompatible for sampling weights; `quantity` names the quantity that needs a likelihood."""
        obstacle = self.without_likelihood(quantity)
        if obstacle is not None:
            raise Incompatible(obstacle)

    def without_likelihood(self, quantity: str) -> str | None:
        """Return why the quantity does not exist under sampling weights; None for other weights."""
        if self.weight_kind != "sampling":
            return None
        return (
            f"{quantity}: sampling weights make a pseudo-likelihood, which is no probability of the data. There are estimates, "
            "sandwich errors, Wald intervals and predicted means"
        )

    def sum_over_rows(
        self, fn: Callable[[Block], Any], add: Callable[[Any, Any], Any] = add
    ) -> Any:
        """Return fn of the rows, one block at a time, combined by `add`, by default sums of arrays.

        Rows in memory are one block, which fn may split (`Block.sweep`); other rows come in the blocks of their source.
        """
        if self.source is not None:
            return self.source.sum_over_rows(fn, add)
        if not self.n:
            raise DataError(f"a sum over the rows needs them, and {self.rows_needed}")
        return fn(self.block)

    @property
    def block(self) -> Block:
        """The rows in memory."""
        return Block(
            self.X, self.observed, self.weights, self.offset, precision=self.precision
        )

    def eta(self, beta: Array) -> Array:
        """Return X beta + offset, (..., n, m) for beta (..., p, m)."""
        return plus_offset(self.X @ beta, self.offset)

    @property
    def has_weights(self) -> bool:
        """Whether the rows have weights of any kind."""
        return self.weights is not None or self.precision is not None

    @property
    def square_weights(self) -> Array | None:
        """(n,) w in the sum of squares sum_i w_i (y_i - eta_i)^2: frequencies times precisions; None if all are 1."""
        if self.precision is None:
            return self.weights
        return times_weights(self.precision, self.weights)

    @property
    def log_precision(self) -> float:
        """sum_i w_i log(precision_i), twice the term of log p from the precisions."""
        if not self.n:
            return (self.kept or self.moments).log_precision
        if self.precision is None:
            return 0.0
        return float(full_weights(self.weights, self.n) @ np.log(self.precision))

    @property
    def rows(self) -> int:
        """The number of rows of the data, including rows of weight 0: the length of arrays with one entry per row."""
        return self.n + (0 if self.absent is None else len(self.absent.places))

    @property
    def places(self) -> Array:
        """(n,) the places of the rows with positive weight among the rows of the data."""
        all_rows = np.arange(self.rows)
        return (
            all_rows if self.absent is None else np.delete(all_rows, self.absent.places)
        )

    @property
    def row_names(self) -> Array:
        """(n,) the labels of the rows, or their numbers."""
        return np.arange(self.n) if self.labels is None else self.labels

    def row_name(self, i: int) -> Any:
        """Return the label of row i, or its number."""
        return i if self.labels is None else self.labels[i]

    def by_row(self, values: Array, absent: float = np.nan) -> Array:
        """Return values (n, ...) of the rows with positive weight at their places in the data, with `absent` at rows of weight 0.

        >>> from probreg.data import ArrayColumns
        >>> few = Design(np.ones((2, 1)), None, ("a",), ArrayColumns(("a",), False))
        >>> replace(few, absent=AbsentRows(np.array([1]))).by_row(np.array([3.0, 4.0]))
        array([ 3., nan,  4.])
        """
        if self.absent is None:
            return values
        fill = False if values.dtype == bool else absent
        values_by_row = np.full(
            (self.rows, *values.shape[1:]), fill, np.result_type(values, fill)
        )
        values_by_row[self.places] = values
        return values_by_row

    @property
    def data_labels(self) -> Array:
        """The labels of all rows of the data, or their numbers."""
        if self.labels is None or len(self.labels) != self.n:
            return np.arange(self.rows)
        labels = np.empty(self.rows, dtype=self.labels.dtype)
        labels[self.places] = self.labels
        if self.absent is not None:
            labels[self.absent.places] = self.absent.labels
        return labels

    @property
    def sample(self) -> "Design":
        """Rows in memory that represent all rows.

        The design itself, or the evenly spaced sample of its source with weights that also count the rows between them.
        """
        if self.source is None:  # a cached reference to itself would keep it alive
            return self
        return self._of_source

    @cached_property
    def _of_source(self) -> "Design":
        assert self.source is not None  # see `sample`
        sample = self.source.sample
        weights = full_weights(sample.weights, sample.rows)
        weights = weights * (self.total / weights.sum())
        X = self.recipe.assign_predictors(np.ascontiguousarray(sample.X))
        return replace(
            self,
            X=X,
            y=sample.y,
            offset=sample.offset,
            weights=weights,
            precision=sample.precision,
            kept=None,
            source=None,
        )

    @property
    def observed(self) -> Array:
        """The response y; a design at new data may have none."""
        if self.y is None:
            raise DataError(f"these data hold no response {self.response!r}")
        return self.y

    @property
    def response_less_offset(self) -> Array:
        """(n,) y minus the offset, the target of the columns."""
        return minus_offset(self.observed, self.offset)

    @property
    def is_lazy(self) -> bool:
        """Whether columns of varying effects are implicit."""
        return isinstance(self.X, LazyColumns)

    @property
    def has_codes(self) -> bool:
        """Whether factors of many levels are stored as codes instead of columns."""
        return self.is_lazy and not self.recipe.grouped

    @property
    def intercept(self) -> int | None:
        """The number of the intercept column, if there is one."""
        if INTERCEPT in self.columns:
            return self.columns.index(INTERCEPT)
        return None

    @property
    def owner(self) -> Array | None:
        """(p,) the number of the linear predictor of each column; None if every column is in each of them."""
        return self.X.owner if isinstance(self.X, PredictorColumns) else None

    def coefficients_per_column(self, width: int) -> int:
        """Return m: each column has a coefficient in m of the `width` linear predictors."""
        return width if self.owner is None else 1

    @property
    def intercepts(self) -> int | Array | None:
        """The place of the intercept. If columns have an `owner`, the place of the intercept of each column's linear predictor, -1 for none."""
        if self.owner is None:
            return self.intercept
        places = np.flatnonzero(self.is_intercept)
        place_of = np.full(self.owner.max(initial=0) + 1, -1)
        place_of[self.owner[places]] = places
        return place_of[self.owner]

    def at(self, data: Any, *, offset: Any = None, trials: Any = None) -> "Design":
        """Return the columns at new rows (no response) with the training knots, means and levels.

        `trials` defaults to the trials of the table. DataError as in the recipe.
        """
        X, inputs = self.recipe.read(data)
        if offset is None:
            offset = self.recipe.offset_at(data)
        elif self.offset is None:
            raise DataError(
                "offset= was given, and this model was fitted without an offset"
            )
        offsets = as_offset(offset, len(X))
        further = list(self.recipe.by_prefix.values())[1:]
        has_further = any(recipe.offset for recipe in further)
        if offsets is not None and offsets.shape[1] == 1 and not has_further:
            # one number per row is the offset of the first formula
            offsets = np.pad(offsets, ((0, 0), (0, len(further))))
        if offsets is None and self.offset is not None:
            raise DataError(
                "this model has an offset given as an array: pass offset= with one value per new row"
            )
        if (
            offsets is not None
            and self.offset is not None
            and offsets.shape[1] != self.offset.shape[1]
        ):
            raise DataError(
                f"the offset has {offsets.shape[1]} columns, and {self.offset.shape[1]} when the model was fitted"
            )
        if trials is None:
            trials = self.recipe.trials_at(data)
        return Design(
            X,
            None,
            self.columns,
            self.recipe,
            self.response,
            offsets,
            trials=as_trials(trials, len(X)),
            inputs=inputs,
        )

    def with_basis(
        self, key: str, basis: KernelBasis, *, length_found: bool = False
    ) -> "Design":
        """Return the design with another basis for the process `key`, which may have more or fewer columns.

        If a search found the length (`length_found`), then the design has no note about an unstated length.

        DataError if the rows are not in memory, or if `key` is not a process of the design.
        """
        if key not in self.recipe.processes:
            process_names = ", ".join(self.recipe.processes) or "none"
            raise DataError(
                f"{key!r} is no Gaussian process of this design; it has {process_names}"
            )
        self.need_rows("another basis of a process")
        old = self.recipe.processes[key]
        new = old.with_basis(basis, length_found=length_found)
        recipe = self.recipe.with_process(new)
        start = self.columns.index(old.columns[0])
        stop = start + len(old.columns)
        X = np.asarray(self.X)
        phi = new.columns_at(self.inputs[key], self.labels)
        columns = np.hstack([X[:, :start], phi, X[:, stop:]])
        return replace(
            self,
            X=recipe.assign_predictors(np.ascontiguousarray(columns)),
            columns=recipe.columns,
            recipe=recipe,
            kept=None,
            kept_by_trials=None,
            notes=(
                *(note for note in self.notes if note not in old.notes),
                *new.notes,
            ),
        )

    def take(self, rows: Array | slice) -> Self:
        """Return the design of these rows only."""
        names = ("y", "offset", "weights", "precision", "labels", "trials")
        parts: dict[str, Any] = {
            name: some_rows(getattr(self, name), rows) for name in names
        }
        return replace(
            self,
            **parts,
            X=contiguous(self.X[rows]),
            kept=None,
            kept_by_trials=None,
            source=None,
            absent=None,
            of_moments=False,
            read={name: values[rows] for name, values in self.read.items()},
            inputs={
                key: np.ascontiguousarray(x[rows]) for key, x in self.inputs.items()
            },
        )

    @cached_property
    def moments(self) -> Moments:
        """The sufficient statistics of a Gaussian model for y - offset on X."""
        if self.kept is not None:
            if isinstance(self.kept, ArrowMoments):
                return self.kept.dense
            return self.kept
        return self.sum_over_rows(
            partial(moments_of, columns=self.columns), Moments.__add__
        )

    @cached_property
    def moments_by_group(self) -> ArrowMoments | None:
        """The moments with varying effects by group.

        None if there are none, or if a file contains only the moments of all columns.
        """
        if isinstance(self.kept, ArrowMoments):
            return self.kept
        terms = tuple(self.recipe.grouped.values())
        if not terms or not self.n:
            return None
        tail = tuple(GroupColumns.of(term, self.inputs[term.key]) for term in terms)
        head: Any = LazyColumns(np.ascontiguousarray(self.X[:, self.ungrouped]), tail)
        return arrow_moments_of_rows(
            self.block._replace(X=head), columns=self.ungrouped_columns, terms=terms
        )

    @property
    def y_scale(self) -> float:
        """The standard deviation of y - offset, from the moments of the columns."""
        if isinstance(self.kept, ArrowMoments):
            return self.kept.y_scale
        if not self.n or not (self.recipe.grouped or self.is_lazy):
            return self.moments.y_scale
        y = self.response_less_offset
        about = y - np.average(y, weights=self.weights)
        return float(np.sqrt(np.average(about**2, weights=self.weights)))

    @cached_property
    def frame(self) -> Frame:
        """The coordinates of Newton steps, curvature and covariances: `basis` with the `mix` of ill-conditioned columns."""
        sample = self._sample_rows
        plain = np.flatnonzero(~self.of_terms)
        return self.basis.with_mix(sample, plain) if len(sample) else self.basis

    @cached_property
    def basis(self) -> Frame:
        """Shift and scale of the columns from at most 10,000 evenly spaced rows, or from the moments of absent rows.

        Each coordinate belongs to one column, as needed for kinked penalties and steps by coordinate.
        """
        sample = self._sample_rows
        if len(sample) or self.kept is None:
            return Frame.of(sample.mean(0), sample.std(0), self.intercepts)
        return Frame.of(self.kept.mean, self.kept.scale, self.intercepts)

    @cached_property
    def imprecise_columns(self) -> tuple[int, ...]:
        """The non-constant columns that vary by less than 1e-12 of their size.

        Double precision keeps fewer than four digits of their differences.
        """
        sample = columns_of(self._sample_rows)
        if not len(sample):
            return ()
        where = np.arange(sample.shape[1])
        if isinstance(sample, LazyColumns):  # the columns of groups have zeros
            where, sample = sample.head_places, sample.head
        if not len(where):
            return ()
        low = sample.min(0)
        high = sample.max(0)
        size = np.maximum(np.abs(low), np.abs(high))
        is_imprecise = (high > low) & (high - low < 1e-12 * size)
        return tuple(where[is_imprecise].tolist())

    @property
    def _sample_rows(self) -> Array:
        if self.source is None:
            rows = self.X
        else:
            rows = self.source.sample.X
        return contiguous(rows[:: max(1, len(rows) // 10_000)])


def moments_of(block: Block, *, columns: tuple[str, ...]) -> Moments:
    """The moments of y - offset on X at the rows of a block."""
    # counts are never Gaussian: only the moments of the columns are used
    y = block.y if block.y.ndim == 1 else np.zeros(block.rows)
    if isinstance(block.X, PredictorColumns):
        return _moments_by_predictor(block, y, columns)
    y = minus_offset(y, block.offset)
    options: dict[str, Any] = {
        "weights": block.weights,
        "precision": block.precision,
        "columns": columns,
    }
    if isinstance(block.X, LazyColumns) and block.X.of_indicators:
        return moments_of_levels(block.X, y, **options)
    return Moments.of(block.X, y, **options)


def _moments_by_predictor(block: Block, y: Array, columns: tuple[str, ...]) -> Moments:
    """The moments of y on the columns of the first linear predictor, with columns of the other predictors as orthogonal to all these."""
    X: Any = block.X
    parts = []
    for k in range(X.width):
        # the columns of a predictor are adjacent
        places = np.flatnonzero(X.owner == k)
        names = tuple(columns[j] for j in places)
        offset = None if block.offset is None else block.offset[:, [k]]
        part = block._replace(X=np.asarray(X[:, places]), y=y, offset=offset)
        parts.append(moments_of(part, columns=names))
    first = parts[0]
    factor = block_diag(*(m.R for m in parts), first.factor[-1:, -1:]).astype(float)
    factor[: first.p, -1] = first.z
    return replace(
        first,
        factor=factor,
        columns=columns,
        means=np.concatenate([*(m.mean for m in parts), first.means[-1:]]),
        scales=np.concatenate([*(m.scale for m in parts), first.scales[-1:]]),
    )


def arrow_moments_of_rows(
    block: Block, *, columns: tuple[str, ...], terms: tuple[GroupedTerm, ...]
) -> ArrowMoments:
    """Return the moments by group of y - offset at the rows of a block, without an array of the columns of groups."""
    X: Any = block.X
    y = minus_offset(block.y, block.offset)
    options = {"weights": block.weights, "precision": block.precision}
    return ArrowMoments.of(X, y, columns=columns, terms=terms, **options)


@dataclass(frozen=True, eq=False)
class AbsentRows:
    """Rows of weight 0: their places (k,) among the rows of the data, and their labels."""

    places: Array
    labels: Array | None = None

    def note(self, n: int) -> str:
        """Return the note on these rows and n others."""
        k = len(self.places)
        return f"{k} of {n + k} rows have weight 0 and were left out"
