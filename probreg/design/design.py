"""A design: the response and the matrix of one data set, and the recipe that makes the same columns at new data.

Everything after this room is arrays. A design is made once, checked once (finite, matching lengths, named columns) and
never changed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Protocol, Self

import numpy as np

from probreg.design.block import Block, RowSource, add
from probreg.design.moments import Moments
from probreg.errors import DataError
from probreg.linalg import map_blocks, row_blocks

Array = np.ndarray
INTERCEPT = "Intercept"


class ColumnRecipe(Protocol):
    """How columns are made from data: by a formula, or taken as they are."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    def matrix(self, data: Any) -> Array: ...

    def offset_at(self, data: Any) -> Array | None: ...

    def outcome_at(self, data: Any) -> tuple[Any, Array | None]: ...

    def to_json(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class Basis:
    """Columns centred and scaled for the arithmetic: x_j = shift_j + scale_j u_j, and the map of coefficients back.

    With gamma the coefficients on u, beta = T gamma; the intercept takes up the shifts.
    """

    shift: Array  # (p,); zero where there is no intercept to take it up
    scale: Array  # (p,)
    intercept: int | None

    def rows(self, X: Array) -> Array:
        """The standardised rows u."""
        return (X - self.shift) / self.scale

    @property
    def mild(self) -> bool:
        """Means are so near zero, in standard deviations, that sums over raw rows lose no more than four digits."""
        return bool((np.abs(self.shift) < 100.0 * self.scale).all())

    @cached_property
    def T(self) -> Array:
        """(p, p) with beta = T gamma."""
        out = np.diag(1.0 / self.scale)
        if self.intercept is not None:
            out[self.intercept] -= self.shift / self.scale
            out[self.intercept, self.intercept] = 1.0
        return out

    @cached_property
    def T_inverse(self) -> Array:
        """(p, p) with gamma = T_inverse beta."""
        out = np.diag(self.scale)
        if self.intercept is not None:
            out[self.intercept] += self.shift
            out[self.intercept, self.intercept] = 1.0
        return out


@dataclass(frozen=True, eq=False)
class Design:
    """X (n, p), y (n,) as numbers, and what else a likelihood needs of the rows.

    `free` (p,) marks columns that a prior leaves alone unless it names them (the intercept); `offset` (n, 1) or (n, m)
    is added to eta; `weights` (n,) are frequencies: a row of weight 2 is two rows; `labels` (n,) name the rows.
    """

    X: Array
    y: Array | None
    columns: tuple[str, ...]
    free: Array
    recipe: ColumnRecipe
    response: str = "y"
    offset: Array | None = None
    weights: Array | None = None
    labels: Array | None = None
    notes: tuple[str, ...] = ()
    kept: Moments | None = None  # moments that outlive their rows, in a fit that was saved without them
    source: RowSource | None = None  # where the rows are, when they are read by the block: X and y are then empty

    @property
    def n(self) -> int:
        """The number of rows in memory: 0 where they are read by the block, or were not saved."""
        return len(self.X)

    @property
    def count(self) -> int:
        """The number of rows that the design stands for, wherever they are; 0 where that is not known any more."""
        if self.source is not None:
            return self.source.n
        return self.n if self.kept is None else self.kept.n

    @property
    def total(self) -> float:
        """The number of observations: the sum of the frequency weights."""
        if self.source is not None:
            return self.source.weight
        if self.kept is not None:
            return self.kept.weight
        return float(self.n if self.weights is None else self.weights.sum())

    @property
    def reachable(self) -> bool:
        """Whether sums over the rows can be taken: they are in memory, or read by the block."""
        return bool(self.n) or self.source is not None

    @property
    def elsewhere(self) -> str:
        """Why there are no rows in memory."""
        if self.source is not None:
            return f"this model reads its rows by the block ({self.source.name})"
        return "this model holds no rows, since it was saved without its rows"

    @property
    def gone(self) -> str:
        """Why there are no rows in memory and what to do, as the end of a sentence that says what needs them."""
        return f"{self.elsewhere}: {self.remedy}"

    @property
    def remedy(self) -> str:
        """What to do where rows are asked for that are not in memory."""
        return "save(rows=True) keeps them" if self.source is None else "build it from a part that fits in memory"

    def lacking(self, what: str, instead: str = "") -> str | None:
        """The sentence why `what` cannot be had, and what to do (`instead`, where it says more than `gone`); None where the
        rows are in memory."""
        if self.n:
            return None
        return f"{what} needs the rows in memory, and " + (f"{self.elsewhere}: {instead}" if instead else self.gone)

    def need_rows(self, what: str, instead: str = "") -> None:
        """DataError unless the rows are in memory; `what` needs them there."""
        if (why := self.lacking(what, instead)) is not None:
            raise DataError(why)

    def fold(self, fn: Callable[[Block], Any], add: Callable[[Any, Any], Any] = add) -> Any:
        """What fn says of the rows, a block at a time, put together by `add`: sums of arrays unless told otherwise.

        Rows in memory are one block, which fn cuts where it serves (`Block.sweep`); others come as their source reads them.
        """
        if self.source is not None:
            return self.source.fold(fn, add)
        if not self.n:
            raise DataError(f"a sum over the rows needs them, and {self.gone}")
        return fn(Block(self.X, self.observed, self.weights, self.offset))

    @cached_property
    def sample(self) -> "Design":
        """Rows in memory that stand for all: the design itself, or the evenly spaced sample of its source, whose weights
        count the rows between them too."""
        if self.source is None:
            return self
        some = self.source.sample
        weights = np.ones(some.rows) if some.weights is None else some.weights
        weights = weights * (self.total / weights.sum())
        return replace(
            self, X=np.ascontiguousarray(some.X), y=some.y, offset=some.offset, weights=weights, kept=None, source=None
        )

    @property
    def observed(self) -> Array:
        """y, which a design at new data need not have."""
        if self.y is None:
            raise DataError(f"these data hold no response {self.response!r}")
        return self.y

    @property
    def intercept(self) -> int | None:
        """The number of the intercept column, if there is one."""
        return self.columns.index(INTERCEPT) if INTERCEPT in self.columns else None

    def at(self, data: Any, *, offset: Array | None = None) -> "Design":
        """The same columns at new rows (no response): training knots, means and levels. DataError as in the recipe."""
        X = self.recipe.matrix(data)
        if offset is not None and self.offset is None:
            raise DataError("offset= was given, and this model was fitted without an offset")
        made = as_offset(self.recipe.offset_at(data) if offset is None else offset, len(X))
        if made is None and self.offset is not None:
            raise DataError("this model has an offset given as an array: pass offset= with one value per new row")
        if made is not None and self.offset is not None and made.shape[1] != self.offset.shape[1]:
            raise DataError(
                f"the offset has {made.shape[1]} columns, and {self.offset.shape[1]} when the model was fitted"
            )
        return Design(X, None, self.columns, self.free, self.recipe, self.response, made)

    def take(self, rows: Array | slice) -> Self:
        """These rows only."""

        def part(values: Array | None) -> Array | None:
            return None if values is None else values[rows]

        return replace(
            self,
            X=np.ascontiguousarray(self.X[rows]),
            y=part(self.y),
            offset=part(self.offset),
            weights=part(self.weights),
            labels=part(self.labels),
            kept=None,
            source=None,
        )

    @cached_property
    def moments(self) -> Moments:
        """All that a Gaussian model needs of its rows, of y - offset on X."""
        if self.kept is not None:
            return self.kept
        if not self.reachable:
            raise DataError(f"the moments of the columns are not known: {self.gone}")
        return self.fold(partial(moments_of, columns=self.columns), Moments.__add__)

    @cached_property
    def basis(self) -> Basis:
        """Shift and scale of the columns from at most 10,000 evenly spaced rows: they serve conditioning, not statistics."""
        rows = self.X if self.source is None else self.source.sample.X
        some = np.ascontiguousarray(rows[:: max(1, len(rows) // 10_000)])
        shift, scale = some.mean(0), some.std(0)
        size = np.hypot(shift, scale)
        constant = scale <= 1e-10 * size
        scale = np.where(constant, np.where(size > 0, size, 1.0), scale)
        if self.intercept is None:
            return Basis(np.zeros_like(shift), np.where(size > 0, size, 1.0), None)
        scale[self.intercept] = 1.0
        shift = np.where(constant, 0.0, shift)
        return Basis(shift, scale, self.intercept)


def moments_of(block: Block, *, columns: tuple[str, ...]) -> Moments:
    """The moments of y - offset on X at the rows of a block."""
    y = block.y if block.offset is None else block.y - block.offset[:, 0]
    return Moments.of(block.X, y, weights=block.weights, columns=columns)


@dataclass(frozen=True)
class PlainColumns:
    """Columns taken as they are, with a column of ones in front when `intercept` is set."""

    columns: tuple[str, ...]
    intercept: bool

    @property
    def given(self) -> tuple[str, ...]:
        return self.columns[1:] if self.intercept else self.columns

    def matrix(self, data: Any) -> Array:
        """An array (n, q) of the given columns in their order, or a table or mapping that names them."""
        X = as_array(data, "new data") if _is_array(data) else _named(data, self.given)
        X = X[:, None] if X.ndim == 1 and len(self.given) == 1 else X
        return as_matrix(X, self.given, ones=self.intercept)

    def offset_at(self, data: Any) -> Array | None:
        return None

    def outcome_at(self, data: Any) -> tuple[Any, Array | None]:
        raise DataError("a model of arrays needs the response of the new rows: pass y=")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "plain", "columns": list(self.columns), "intercept": self.intercept}


def from_arrays(
    X: Any,
    *,
    columns: Sequence[str] | None,
    intercept: bool,
    response: str,
    offset: Any = None,
    weights: Any = None,
    labels: Any = None,
) -> Design:
    """A design without its response from a matrix; DataError names column, row and value of what is wrong."""
    if isinstance(columns, str):
        raise DataError(f"columns is a sequence of names, got the text {columns!r}; for one column write [{columns!r}]")
    if (
        not _is_array(X) and getattr(X, "name", None) is not None and not isinstance(X, Mapping)
    ):  # one column that has a name
        X = {str(X.name): X}
    if not _is_array(X):
        own = getattr(X, "columns", None)
        columns = [str(c) for c in (X if own is None else own)] if columns is None else columns
    X = as_array(X, "X") if _is_array(X) else _named(X, columns or ())
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2:
        raise DataError(f"X is a matrix (rows, columns), got an array of shape {X.shape}")
    names = tuple(str(c) for c in (columns if columns is not None else (f"x{j + 1}" for j in range(X.shape[1]))))
    if not names and not intercept:
        raise DataError("there are no columns: X has none and intercept=False leaves out the column of ones")
    if len(set(names)) != len(names):
        raise DataError(f"column names repeat: {sorted({c for c in names if names.count(c) > 1})}")
    if intercept and INTERCEPT in names:
        raise DataError("X already has a column called 'Intercept'; pass intercept=False")
    X = as_matrix(X, names, ones=intercept)
    if not len(X):
        raise DataError(f"there are no rows: X has shape (0, {len(names)})")
    recipe = PlainColumns(((INTERCEPT,) if intercept else ()) + names, intercept)
    _check_intercept(X, names)
    return Design(
        X=X,
        y=None,
        columns=recipe.columns,
        free=np.array([c == INTERCEPT for c in recipe.columns]),
        recipe=recipe,
        response=response,
        offset=as_offset(offset, len(X)),
        weights=as_weights(weights, len(X)),
        labels=None if labels is None else np.asarray(labels),
    )


def from_reading(reading: Any) -> tuple[Design, Array, tuple[Any, ...] | None]:
    """The design of a formula read at data (without its response), the response values, and their declared levels."""
    recipe = reading.recipe
    _check_intercept(reading.X, recipe.columns)
    design = Design(
        X=np.ascontiguousarray(reading.X, dtype=float),
        y=None,
        columns=recipe.columns,
        free=np.array([c == INTERCEPT for c in recipe.columns], dtype=bool),
        recipe=recipe,
        response=recipe.response if reading.trials is None else of_trials(recipe.response),
        offset=as_offset(reading.offset, len(reading.X)),
        weights=reading.weights,
        labels=reading.rows,
        notes=reading.notes,
    )
    if isinstance(reading.response, np.ndarray):
        return design, reading.response, None
    return design, np.asarray(reading.response), tuple(reading.response.categories.tolist())


def _check_intercept(X: Array, names: Sequence[str]) -> None:
    """DataError for a column called Intercept that is not all ones: priors and arithmetic leave that name alone."""
    if INTERCEPT in names and len(bad := np.flatnonzero(X[:, list(names).index(INTERCEPT)] != 1.0)):
        value = X[bad[0], list(names).index(INTERCEPT)]
        raise DataError(
            f"column 'Intercept' holds {value:g} in row {bad[0]}: a column of that name is all ones; rename it"
        )


def as_array(values: Any, what: str) -> Array:
    """numpy's array of lists or arrays. DataError for rows of different lengths."""
    try:
        return np.asarray(values)
    except ValueError as error:
        raise DataError(f"{what} is no array, its rows differ in length: {error}") from None


def as_response(y: Any) -> tuple[Array, tuple[Any, ...] | None]:
    """The response values (n,) and the levels that a categorical type declares, in their order."""
    if _is_array(y) or np.ndim(y) == 0:
        values = as_array(y, "y") if not _has_text(y) else np.asarray(y, dtype=object)
        return (values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values), None
    from probreg.design.columns import read_columns

    column = read_columns({"y": y})["y"]
    if isinstance(column, np.ndarray):
        return column, None
    return np.asarray(column), tuple(column.categories.tolist())


def _has_text(y: Any) -> bool:
    """A list that mixes text with other values, which numpy would turn into text."""
    return isinstance(y, list) and any(isinstance(v, str) for v in y)


def of_trials(response: str) -> str:
    """`p(s, t)` in words: one of the t trials behind s successes."""
    return response.removeprefix("p(").removesuffix(")").replace(", ", " of ", 1)


def as_matrix(X: Array, names: Sequence[str], *, ones: bool = False) -> Array:
    """Finite floats (n, len(names)), behind a column of ones where `ones`: copied and looked through in one pass."""
    if X.dtype.kind == "O" and all(v is None or isinstance(v, int | float | np.number) for v in X.ravel()):
        missing = np.array([v is None for v in X.ravel()]).reshape(X.shape)
        X = np.where(missing, np.nan, X).astype(float)  # to be named below
    if X.dtype.kind not in "fiub":
        raise DataError(f"X holds {X.dtype} values and must be numeric; for categories use a formula")
    if X.ndim != 2 or X.shape[1] != len(names):
        raise DataError(f"expected {len(names)} columns ({', '.join(names)}), got an array of shape {X.shape}")
    out = np.empty((len(X), X.shape[1] + 1)) if ones else np.ascontiguousarray(X, dtype=float)

    def look(rows: slice) -> tuple[Array, ...]:
        if ones:
            out[rows, 0], out[rows, 1:] = 1.0, X[rows]  # blocks do not overlap
        values = out[rows].reshape(-1)
        return (np.dot(values, values),)

    with np.errstate(all="ignore"):
        square = float(map_blocks(look, row_blocks(*out.shape))[0])
    _finite(square, out[:, 1:] if ones else out, names)
    return out


def _finite(total: float, X: Array, names: Sequence[str]) -> None:
    """DataError naming row, column and value where X is not finite; a finite total settles it, one may also overflow."""
    if np.isfinite(total) or not (bad := ~np.isfinite(X)).any():
        return
    row, col = np.argwhere(bad)[0]
    counts = ", ".join(f"{names[j]} ({k})" for j, k in enumerate(bad.sum(0)) if k)
    raise DataError(
        f"column {names[col]!r} holds {X[row, col]} in row {row}; rows with missing or infinite values: {counts}. Drop or impute them first."
    )


def as_offset(offset: Any, n: int) -> Array | None:
    """(n, 1) or (n, m), finite."""
    if offset is None:
        return None
    out = _floats(offset, "an offset")
    out = out[:, None] if out.ndim == 1 else out
    if out.ndim != 2 or len(out) != n:
        raise DataError(f"an offset has one value per row: expected {n} rows, got shape {np.shape(offset)}")
    if len(bad := np.argwhere(~np.isfinite(out))):
        raise DataError(f"the offset of row {bad[0, 0]} is {out[tuple(bad[0])]}; offsets are finite")
    return out


def as_weights(weights: Any, n: int) -> Array | None:
    """(n,), finite, not negative, not all zero."""
    out = as_frequencies(weights, n)
    if out is not None and not out.sum() > 0:
        raise DataError("the weights sum to zero: no observation is left")
    return out


def as_frequencies(weights: Any, n: int) -> Array | None:
    """(n,), finite, not negative."""
    if weights is None:
        return None
    out = _floats(weights, "weights")
    if out.shape != (n,):
        raise DataError(f"weights are one frequency per row: expected shape ({n},), got {out.shape}")
    if len(bad := np.flatnonzero(~np.isfinite(out) | (out < 0))):
        raise DataError(f"the weight of row {bad[0]} is {out[bad[0]]}; frequency weights are finite and not negative")
    return out


def _floats(values: Any, what: str) -> Array:
    """Floats, from numbers only; DataError names what was met."""
    given = np.asarray(values)
    try:
        if given.dtype.kind not in "US":  # text that reads as a number is text all the same
            return given.astype(float)
    except (TypeError, ValueError):
        pass
    raise DataError(f"{what} must be numbers, got {given.dtype} values such as {given.ravel()[:1].tolist()}")


def split_trials(design: Design, successes: Any, trials: Any) -> tuple[Design, Array]:
    """Each row of `successes` out of `trials` becomes a row of successes and a row of failures, weighted by their
    numbers (times the row's own weight); rows of weight zero are left out. Returns the design and the 0/1 response."""
    s, t = _floats(successes, "successes"), _floats(trials, "trials")
    if s.shape != (design.n,) or t.shape != (design.n,):
        raise DataError(
            f"successes and trials have one value per row: expected ({design.n},), got {s.shape} and {t.shape}"
        )
    wrong = ~((s >= 0) & (s <= t) & (np.floor(s) == s) & (np.floor(t) == t) & np.isfinite(t))
    if len(bad := np.flatnonzero(wrong)):
        raise DataError(
            f"row {bad[0]} has {s[bad[0]]:g} successes in {t[bad[0]]:g} trials; they are whole numbers with 0 <= successes <= trials"
        )
    own = np.ones(design.n) if design.weights is None else design.weights
    rows, y = np.repeat(np.arange(design.n), 2), np.tile([1.0, 0.0], design.n)
    weight = np.stack([s, t - s], 1).ravel() * own[rows]
    keep = weight > 0
    split = replace(design.take(rows[keep]), weights=weight[keep], y=None)
    note = f"{design.n} rows of successes and trials stand for {weight.sum():g} Bernoulli trials, written as {keep.sum()} weighted rows"
    return replace(split, notes=(*split.notes, note)), y[keep]


def _is_array(data: Any) -> bool:
    return isinstance(data, np.ndarray | list)


def _named(data: Any, names: Sequence[str]) -> Array:
    from probreg.design.columns import read_columns

    table = read_columns(data)
    if missing := [c for c in names if c not in table]:
        raise DataError(f"column {missing[0]!r} is missing; the data have: {', '.join(map(str, table))}")
    return np.stack([np.asarray(table[c]) for c in names], 1)
