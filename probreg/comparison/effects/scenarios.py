"""The rows that effects are averaged over, with their variables as observed or set to other values."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import shown_value
from probreg.comparison.effects.averages import AverageMean, AverageSlope, RowGroup
from probreg.data import ArrayColumns, Design
from probreg.data.formula.columns import kind_of
from probreg.data.formula.functions import categories, variables
from probreg.data.formula.layout import plain_level
from probreg.data.formula.transforms import weighted_quantiles
from probreg.data.implicit_columns import combine_columns
from probreg.errors import DataError
from probreg.kernels.sums import RowSums
from probreg.likelihoods import OfTrials
from probreg.likelihoods.quantities import Quantity
from probreg.model.group_effects import (
    GroupsLike,
    describe_group_choice,
    group_levels,
    groups_by_term,
    is_known,
    rows_of_groups,
    with_group_columns,
)
from probreg.model.model import Model

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Population:
    """The quantity and the rows to average it over: variables, weights (n,), offset, and a description.

    `offset` is None if the table has the variables of the model's offset.
    """

    quantity: Quantity
    design: Design
    table: Mapping[str, Any]
    weights: Array
    offset: Array | None
    what: str
    # the table before variables were set: columns certainly exist in its range
    origin: Mapping[str, Any]
    # the group that a row takes effects from, in a model with groups
    groups: GroupsLike = "typical"
    # of new groups: their numbers (n,), by the term
    codes: Mapping[str, Array] = field(default_factory=dict)
    # means at changed rows; contrasts share them
    met: dict[tuple[str, bytes], AverageMean] = field(default_factory=dict)
    # these are the unchanged rows of the design, with its matrix
    as_fitted: bool = False
    # (n,) for rows of the model: the number of independent units (copies or trials) in each row
    units: Array | None = None
    trials: bool = False  # weights count trials

    @property
    def n(self) -> int:
        return len(self.weights)

    @cached_property
    def here(self) -> AverageMean:
        """The mean at these rows."""
        if not self.table:  # a model of an intercept only reads no variables
            return AverageMean(self.quantity, np.ones((self.n, 1)), self.offset)
        if self.as_fitted:
            return self._mean_of(self.design)
        return self._rebuild_rows({})

    def mean(self, name: str, to: Any) -> AverageMean:
        """The mean at these rows with one variable at other values (n,)."""
        to = np.asarray(to)
        key = name, to.tobytes()  # the key of equal numbers, or of the same objects
        if key not in self.met:
            column = self._own_column(name)
            if (
                column is None
                or to.dtype.kind not in "iuf"
                or not np.isfinite(to).all()
            ):
                self.met[key] = self._rebuild_rows({name: to})
            elif np.array_equal(to, self.here.X[:, column]):
                self.met[key] = self.here
            else:
                X = self.here.X.copy()
                X[:, column] = to
                self.met[key] = replace(self.here, X=X)
        return self.met[key]

    def _own_column(self, name: str) -> int | None:
        if isinstance(self.here.X, np.ndarray):
            return self.design.recipe.own_column(name)
        return None

    def _rebuild_rows(self, columns: Mapping[str, Any]) -> AverageMean:
        design = self._design_at({**self.table, **columns}, self.offset)
        for key, codes in self.codes.items():
            design.inputs[key][:, 0] = codes
        return self._mean_of(design)

    def _mean_of(self, design: Design) -> AverageMean:
        return AverageMean(self.quantity, design.X, design.offset, design.inputs)

    def _design_at(self, table: Mapping[str, Any], offset: Array | None) -> Design:
        design = self.design.at(table, offset=offset)
        recipe = self.design.recipe
        if recipe.grouped:
            return rows_of_groups(design, self.groups, recipe.groups_at(table))
        return design

    def with_groups(self, groups: GroupsLike) -> "Population":
        """Return the same rows with effects of known, new or typical groups. DataError for unknown groups."""
        if not self.design.recipe.grouped:
            return self
        on_groups = replace(
            self,
            groups=groups,
            met={},
            what=f"{self.what}; {describe_group_choice(groups, identity=True)}",
        )
        chosen = groups_by_term(self.design.recipe, groups)
        if "new" not in chosen.values():
            return on_groups
        # numbers of new groups follow the order of all rows; differences take subsets of the rows
        inputs = on_groups._design_at(self.table, self.offset).inputs
        codes = {k: x[:, 0].copy() for k, x in inputs.items() if chosen.get(k) == "new"}
        return replace(on_groups, codes=codes)

    def set_to(self, **values: Any) -> "Population":
        """The same rows with variables set to one value each."""
        return replace(
            self,
            table={
                **self.table,
                **{k: _repeat_value(v, self.n) for k, v in values.items()},
            },
            met={},
            as_fitted=False,
        )

    def slope(self, name: str) -> AverageSlope:
        """The columns' derivatives along a variable, by five-point differences within the observed range."""
        x = floats(self.table[name], f"column {name!r}")
        column = self._own_column(name)
        inputs = self.here.inputs
        still = np.zeros((self.n, 5))
        changes = {
            key: RowSums(still, np.zeros((*still.shape, x.shape[1])))
            for key, x in inputs.items()
        }
        if column is not None:
            D = np.zeros(self.here.X.shape)
            D[:, column] = 1.0
            return AverageSlope(self.here, D, changes)
        seen = np.asarray(self.origin[name], dtype=float)
        seen = seen[~np.isnan(seen)]
        spread = float(seen.std()) or float(np.abs(seen).max()) or 1.0
        # 2^-10 standard deviations, rounded to a power of two, which keeps x + step exact
        h = float(2.0 ** (np.round(np.log2(spread)) - 10.0))
        # steps k and weights c of each row: its derivative is sum_j c_ij X(x_i + k_ij h) / (12 h)
        central = np.array([(-2.0, -1.0, 0.0, 1.0, 2.0), (1.0, -8.0, 0.0, 8.0, -1.0)])
        forward = np.array(
            [(0.0, 1.0, 2.0, 3.0, 4.0), (-25.0, 48.0, -36.0, 16.0, -3.0)]
        )
        below = (x - 2 * h < seen.min())[:, None, None]
        above = (x + 2 * h > seen.max())[:, None, None]
        inwards = np.where(below, forward, np.where(above, -forward, central))
        steps, weights = inwards[:, 0], inwards[:, 1]
        weights = weights / (12.0 * h)
        designs = [self.mean(name, x + k * h) for k in steps.T]
        for key in inputs:
            rows = np.stack([design.inputs[key] for design in designs], 1)
            # a process of other variables has no slope in this one, not even by rounding
            if (rows != rows[:, :1]).any():
                changes[key] = RowSums(weights, rows)
        D = combine_columns([design.X for design in designs], weights)
        offsets = [at.offset for at in designs if at.offset is not None]
        offset_slope = None
        if offsets:
            offset_slope = np.einsum("jnm,nj->nm", np.stack(offsets), weights)
        return AverageSlope(self.here, D, changes, offset_slope)


def _repeat_value(value: Any, n: int) -> Array:
    """Return an array of n copies of a value; text stays text."""
    return np.array([value] * n, dtype=object if isinstance(value, str) else None)


def population(
    quantity: Quantity,
    design: Design,
    data: Any,
    also: Sequence[str],
    *,
    fill: bool = False,
    trials: Array | None = None,
) -> Population:
    """The training rows with their frequency weights, or the rows of another table, each counted once.

    A table with the same design matrix counts as the training rows; it is needed if the variables cannot be recovered from the
    columns. With `fill` it need not have columns of groups. `trials` (n,) weight the training rows; the trials of another table
    weight its rows if it has their column.
    """
    if data is None:
        design.need_rows(
            "an average over the rows of the model",
            "pass data=, the rows to average over",
        )
    table = _variables_of_model_rows(design, data, also)
    if table is not None:
        held = design.offset is None or (
            all(v in table for v in design.recipe.all_variables)
            and not _array_offset(design)
        )
        weights = design.row_weights
        counted = "" if design.weights is None else f" (weight {design.total:g})"
        description = f"the {design.n} rows of the model{counted}"
        if trials is not None:
            description = f"the {float(weights @ trials):.12g} trials of {description}"
            weights = weights * trials
        units = np.ones(design.n) if design.weight_kind == "sampling" else weights
        # a user's table may have other offsets; a kept table belongs to this matrix
        as_fitted = data is None and not design.recipe.grouped
        own_offset = None if held else design.offset
        return Population(
            quantity, design, table, weights, own_offset, description, table,
            as_fitted=as_fitted, units=units, trials=trials is not None,
        )  # fmt: skip
    from probreg.data.formula.columns import read_table

    new_rows = read_table(with_group_columns(design.recipe, data) if fill else data)
    names = list(dict.fromkeys([*design.recipe.all_variables, *also]))
    absent = [v for v in names if v not in new_rows.columns]
    if absent:
        raise DataError(
            f"the data have no column {absent[0]!r}, which is asked for; they have: {', '.join(new_rows.columns)}"
        )
    n = len(new_rows.rows)
    columns = dict(new_rows.only(tuple(names)).columns)
    description = f"{n} given rows, each once"
    weights = np.ones(n)
    row_trials = None
    if trials is not None and not isinstance(design.recipe, ArrayColumns):
        row_trials = design.recipe.trials_at(data)
    if row_trials is not None:
        description = f"the {row_trials.sum():.12g} trials of {n} given rows"
        weights = np.asarray(row_trials, dtype=float)
    return Population(
        quantity, design, columns, weights, None, description, columns, trials=row_trials is not None,
    )  # fmt: skip


def trials_of(model: Model) -> Array | None:
    """Return the trials (n,) of the rows of a binomial model; an empty array if rows are not in memory, and None for other models,
    and for dependent trials, where a row is one unit."""
    likelihood = model.likelihood
    if not isinstance(likelihood, OfTrials) or likelihood.dependent_trials:
        return None
    if model.design.n:
        return model.likelihood.given(model.design.observed)["trials"]
    return np.ones(0)


def balance_levels(rows: Population) -> Population:
    """Return every combination of the levels of the categories once, with numbers and the offset at their weighted means.

    Means over it are the marginal means of a design with equal numbers of rows in all cells (Searle, Speed & Milliken 1980).
    """
    levels = categories(rows.design)
    groups = rows.design.recipe.of_groups_alone
    lists = {}
    values: dict[str, str | float] = {}
    for name, column in rows.table.items():
        x = np.asarray(column)
        if name in groups:
            values[name] = "any"
        elif name in levels:
            lists[name] = levels[name]
        elif x.dtype.kind == "b":
            lists[name] = [False, True]
        elif x.dtype.kind in "iuf":
            values[name] = float(np.average(x, weights=rows.weights))
    n = math.prod(map(len, lists.values()))
    most_cells = 100_000
    if n > most_cells:
        raise DataError(
            f"a balanced grid of {', '.join(lists)} has {n:,} cells; at most {most_cells:,} are averaged"
        )
    table = {k: _repeat_value(v, n) for k, v in values.items()}
    for name, cells in zip(lists, zip(*itertools.product(*lists.values()))):
        text = isinstance(cells[0], str)
        table[name] = np.array(cells, dtype=object if text else None)
    offset = rows.offset
    if offset is not None:
        offset = np.tile(np.average(offset, axis=0, weights=rows.weights), (n, 1))
    description = f"a balanced grid of {n} cells ({', '.join(lists) or 'no category'}; numbers at their means)"
    return replace(
        rows,
        table=table,
        weights=np.ones(n),
        offset=offset,
        what=description,
        met={},
        as_fitted=False,
        units=None,
        trials=False,
    )


def _array_offset(design: Design) -> bool:
    recipe = design.recipe
    return design.offset is not None and (
        isinstance(recipe, ArrayColumns)
        or not any(part.offset for part in recipe.by_prefix.values())
    )


def _variables_of_model_rows(
    design: Design, data: Any, also: Sequence[str]
) -> dict[str, Any] | None:
    """Return the variables at the rows of the design; None if `data` has other rows."""
    if data is None:
        return variables(design, None, also)
    try:
        return variables(design, data, also) if design.n else None
    except DataError:
        return None


# ---- groups and values -------------------------------------------------------------------------------------------------


def row_groups(population_rows: Population, by: Sequence[str]) -> list[RowGroup]:
    """The groups of rows that share the values of the variables `by`, in the order of levels or numbers; one group without `by`."""
    for name in by:
        if name not in population_rows.table:
            raise DataError(
                f"by={name!r} is no variable of these rows; there are: {', '.join(population_rows.table)}"
            )
    weights = population_rows.weights
    if not by:
        return [RowGroup(np.arange(len(weights)), weights / weights.sum())]
    lists = []
    for name in by:
        x = np.asarray(population_rows.table[name])
        is_time = kind_of(x) == "time"
        lists.append(list(map(plain_level, x)) if is_time else x.tolist())
    rows: dict[Any, list[int]] = {}
    for i, key in enumerate(zip(*lists)):
        rows.setdefault(key, []).append(i)
    most_groups = 200
    if len(rows) > most_groups:
        raise DataError(
            f"by={', '.join(by)} makes {len(rows)} groups; at most {most_groups} are averaged one by one"
        )
    places = [_places_of_levels(population_rows, name) for name in by]

    def place(key: tuple[Any, ...]) -> list[tuple[int, bool, Any]]:
        return [
            (at.get(v, len(at)), isinstance(v, str), v) for v, at in zip(key, places)
        ]

    groups = []
    for key in sorted(rows, key=place):
        part = weights[rows[key]]
        labels = dict(zip(by, key))
        groups.append(RowGroup(np.array(rows[key]), part / part.sum(), labels))
    return groups


def _places_of_levels(rows: Population, name: str) -> dict[Any, int]:
    """The place of each level of a category in its declared order; empty for a number."""
    declared = getattr(rows.table[name], "categories", ())
    levels = categories(rows.design).get(name) or declared
    return {level: place for place, level in enumerate(levels)}


def settings(
    rows: Population, at: Mapping[str, Any] | None
) -> Iterator[tuple[dict[str, Any], Population]]:
    """Yield labels for every combination of the values in `at`, with the rows set to it."""
    lists = {}
    for name, values in (at or {}).items():
        _require_variable(rows, name, "at")
        is_list = isinstance(values, list | tuple) or np.ndim(values) > 0
        lists[name] = values if is_list else [values]
        if not len(lists[name]):
            raise DataError(f"at: {name!r} has no values")
        for value in lists[name]:
            if not isinstance(value, str) and isinstance(value, Iterable):
                raise DataError(
                    f"at: each value of {name!r} is one number or text, got {shown_value(value)}"
                )
    for combination in itertools.product(*lists.values()):
        chosen = dict(zip(lists, combination))
        labels = {f"{name} =": value for name, value in chosen.items()}
        yield labels, rows.set_to(**chosen) if chosen else rows


def _require_variable(rows: Population, name: str, where: str) -> None:
    """Raise DataError unless `name` is a variable of the columns."""
    if name in rows.design.recipe.of_groups_alone and not is_known(
        rows.design.recipe, rows.groups, name
    ):
        raise DataError(
            f"{where}: {name!r} names groups, and it moves nothing where {describe_group_choice(rows.groups, identity=True)}; "
            "ask with groups='known'"
        )
    names = rows.design.recipe.all_variables
    known = [variable for variable in names if variable in rows.table]
    if name not in known:
        remedy = ""
        if name in names:
            remedy = ". Pass data=, the table it was fitted to"
        raise DataError(
            f"{where}: {name!r} is no variable of this model; there are: {', '.join(known) or 'none'}{remedy}"
        )
    recipe: Any = rows.design.recipe
    if (
        rows.offset is not None
        and not _array_offset(rows.design)
        and name in recipe.offset_variables
    ):
        raise DataError(
            f"{where}: {name!r} is in the offset too; pass data=, the table the model was fitted to"
        )


# ---- from one value to another -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Contrast:
    """A change of a variable from `low` to `high` (values (n,)), with a description."""

    contrast: str
    low: Array
    high: Array


def _move_by_sd(x: Array, w: Array) -> tuple[Any, Any, str]:
    mean = np.average(x, weights=w)
    sd = float(np.sqrt((w * (x - mean) ** 2).sum() / (w.sum() - 1.0)))
    return x, x + sd, f"+{sd:.4g} (one sd)"


def _move_between_quantiles(
    *tails: float,
) -> Callable[[Array, Array], tuple[Any, Any, str]]:
    def ends(x: Array, w: Array) -> tuple[Any, Any, str]:
        low, high = weighted_quantiles(x, w, np.array(tails))
        return low, high, f"{low:g} to {high:g}"

    return ends


NUMERIC: dict[str, Callable[[Array, Array], tuple[Any, Any, str]]] = {
    "sd": _move_by_sd, "iqr": _move_between_quantiles(0.25, 0.75), "minmax": _move_between_quantiles(0.0, 1.0)
}  # fmt: skip
LEVELS: dict[str, Callable[[list[Any]], list[tuple[Any, Any]]]] = {
    "reference": lambda levels: [(levels[0], v) for v in levels[1:]],
    "pairwise": lambda levels: list(itertools.combinations(levels, 2)),
    "sequential": lambda levels: list(itertools.pairwise(levels)),
}


def moves(rows: Population, name: str, how: Any) -> list[Contrast]:
    """The moves of one variable: levels against the first (or by `how`), 0 to 1, or x to x + `how`."""
    _require_variable(rows, name, "variables")
    levels = level_values(rows, name)
    if levels is None and name in rows.design.recipe.of_groups_alone:
        raise DataError(
            f"{name!r} names groups together with other columns; at= sets them one by one"
        )
    if levels is not None:
        contrasts = []
        for pair in _level_pairs(name, levels, how):
            ends = [_repeat_value(level, rows.n) for level in pair]
            contrasts.append(Contrast(f"{pair[1]} against {pair[0]}", *ends))
        return contrasts
    x = floats(rows.table[name], f"column {name!r}")
    counts = rows.weights if rows.units is None else rows.units
    low, high, label = _numeric(name, x, counts, how)
    ends = [np.broadcast_to(end, x.shape) for end in (low, high)]
    return [Contrast(label, *ends)]


def level_values(rows: Population, name: str) -> list[Any] | None:
    """The levels of a category or of a column of True and False; None for a number."""
    levels = (
        categories(rows.design).get(name)
        or list(group_levels(rows.design.recipe, name))
        or None
    )
    if levels is None and np.asarray(rows.table[name]).dtype.kind == "b":
        return [False, True]
    return levels


def _level_pairs(name: str, levels: list[Any], how: Any) -> list[tuple[Any, Any]]:
    if how is None or (isinstance(how, str) and how in LEVELS):
        return LEVELS[how or "reference"](levels)
    if isinstance(how, tuple) and len(how) == 2 and all(v in levels for v in how):
        return [how]
    raise DataError(
        f"{name!r} is a category: it is compared by {', '.join(map(repr, LEVELS))} or from one level to another, a pair of "
        f"{', '.join(map(repr, levels[:8]))}; got {how!r}"
    )


def _numeric(name: str, x: Array, w: Array, how: Any) -> tuple[Any, Any, str]:
    if how is None:
        two = np.unique(x)
        if np.array_equal(two, [0.0, 1.0]):
            return (0.0, 1.0, "1 against 0")
        return (x, x + 1.0, "+1")
    if isinstance(how, str) and how in NUMERIC:
        return NUMERIC[how](x, w)
    pair = how if isinstance(how, tuple) else (how,)
    if len(pair) <= 2 and all(
        isinstance(v, int | float | np.number) and np.isfinite(v) for v in pair
    ):
        if len(pair) == 2:
            return (*pair, f"{pair[0]:g} to {pair[1]:g}")
        return (x, x + pair[0], f"{pair[0]:+g}")
    raise DataError(
        f"{name!r} is a number: it moves by a number, from one to another (a pair), or by {', '.join(map(repr, NUMERIC))}; got {how!r}"
    )
