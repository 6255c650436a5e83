"""Varying effects from arrays, without a formula: the group of each row and the columns of its effects."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from probreg.arguments.arrays import same_rows
from probreg.arguments.scalars import Flag, Word, check_fields
from probreg.arguments.types import ArrayLike
from probreg.data.array_columns import ArrayColumns, PlainColumns, from_arrays
from probreg.data.checked_arrays import INTERCEPT
from probreg.data.design import ColumnRecipe, Design
from probreg.data.formula.bars import group_labels, levels_of_groups, refuse_single
from probreg.data.formula.columns import DataTable, read_table
from probreg.data.rows import complete, refuse_infinite, refuse_missing, require
from probreg.data.terms.grouped import GroupedTerm, grouped_of
from probreg.data.terms.process import ProcessTerm
from probreg.data.terms.term import BasisTerm
from probreg.data.unwritten import beside_groups, contiguous
from probreg.errors import DataError
from probreg.formula.terms import Bar, read_bar_term, refuse_twice
from probreg.formula.text import column_written
from probreg.kernels import KernelBasis

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Grouped:
    """Effects that vary by a group, for rows given as arrays: eta_i gains z_i' b_g(i) with b_g ~ N(0, S), as `(z | g)` of a formula.

    Parameters
    ----------
    labels : array (n,)
        The group of each row: texts, whole numbers or categories.
    Z : array (n, K) or table, optional
        The columns of the effects, without a column of ones; by default only the intercept varies.
    name : str
        The name of the grouping factor; new rows have their groups in a column of this name.
    effects : sequence of str, optional
        Names of the columns of Z, also in new rows; z1, z2, ... for an array, its own for a table.
    intercept : bool
        Whether an intercept varies too.
    correlated : bool
        Whether the effects of a group have correlations, as in `(z | g)`; False is `(z || g)`.

    Raises
    ------
    DataError
        For invalid labels and columns, when a model is built from them.

    Examples
    --------
    >>> import probreg as pr
    >>> days, reaction = [0.0, 1.0, 2.0, 0.0, 1.0, 2.0], [250.0, 259.0, 251.0, 223.0, 205.0, 203.0]
    >>> subject = pr.Grouped([308, 308, 308, 309, 309, 309], {"days": days}, name="subject")
    >>> model = pr.Model.from_arrays(days, reaction, columns=["days"], groups=[subject])
    >>> model.design.shown_columns
    ('Intercept', 'days', '(days | subject) (2 groups of 2 effects)')
    >>> model.design.at({"days": [3.0], "subject": [310]}).inputs["(days | subject)"]
    array([[2., 1., 3.]])
    """

    labels: ArrayLike
    Z: ArrayLike | None = None
    name: Word = field(default="g", kw_only=True)
    effects: Sequence[str] | None = field(default=None, kw_only=True)
    intercept: Flag = field(default=True, kw_only=True)
    correlated: Flag = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.name:
            raise DataError(
                "Grouped name is empty; it is that of the column in which new rows have their groups"
            )
        if self.Z is None and not self.intercept:
            raise DataError(
                f"Grouped {self.name!r} has no effects: intercept=False and no Z"
            )

    def read(self, n: int) -> tuple[GroupedTerm, Array]:
        """Return the term and its inputs (n, 1 + K); raise DataError for a wrong number of rows or invalid values."""
        table = complete(read_table({self.name: self.labels}), "raise")[0]
        refuse_infinite(table)
        if len(table.rows) != n:
            raise DataError(
                f"X has {n} rows and the groups {self.name!r} have {len(table.rows)}: they must match"
            )
        Z, names = self._effect_matrix(n)
        key = _key(
            names, self.name, intercept=self.intercept, correlated=self.correlated
        )
        levels = levels_of_groups((self.name,), table)
        refuse_single(key, levels)
        if self.intercept:
            effects = (INTERCEPT, *names)
        else:
            effects = names
        term = GroupedTerm(
            key,
            column_written(self.name),
            effects,
            levels,
            self.correlated,
            (self.name,),
        )
        return term, term.inputs_of(
            group_labels((self.name,), table),
            np.hstack([np.ones((n, 1)), Z][not self.intercept :]),
        )

    def _effect_matrix(self, n: int) -> tuple[Array, tuple[str, ...]]:
        """Return Z (n, K) and the names of its columns."""
        if self.Z is None:
            if self.effects is not None and len(self.effects):
                raise DataError(
                    f"Grouped {self.name!r} names the effects {', '.join(self.effects)} and has no Z"
                )
            return np.zeros((n, 0)), ()
        plain = from_arrays(self.Z, columns=self.effects, intercept=False, response="y")
        if plain.n != n:
            raise DataError(
                f"X has {n} rows and Z of the groups {self.name!r} has {plain.n}: they must match"
            )
        has_names = getattr(self.Z, "columns", None) is not None or isinstance(
            self.Z, Mapping
        )
        is_named = (
            self.effects is not None or has_names or bool(getattr(self.Z, "name", None))
        )
        if is_named:
            names = plain.columns
        else:
            names = tuple(f"z{j + 1}" for j in range(plain.X.shape[1]))
        if INTERCEPT in names:
            raise DataError(
                f"Z of the groups {self.name!r} has a column called 'Intercept'; intercept=True makes one"
            )
        return plain.X, names


@dataclass(frozen=True, eq=False)
class ColumnsWithGroups(ArrayColumns):
    """Plain columns, followed by the columns of varying effects; new rows have both by name."""

    plain: PlainColumns
    varying: tuple[GroupedTerm, ...]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        return (
            *self.plain.columns,
            *(c for term in self.varying for c in term.columns),
        )

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                [
                    *self.plain.given,
                    *(
                        name
                        for t in self.varying
                        for name in (*_effect_columns(t), *t.factors)
                    ),
                ]
            )
        )

    @property
    def terms(self) -> tuple[BasisTerm, ...]:
        return tuple(term.described for term in self.varying)

    @property
    def processes(self) -> Mapping[str, ProcessTerm]:
        return {}

    @property
    def grouped(self) -> Mapping[str, GroupedTerm]:
        """The terms with effects that vary by a group, by their text in a formula."""
        return {term.key: term for term in self.varying}

    @property
    def learned(self) -> tuple[str, ...]:
        return ()

    def matrix(self, data: Any) -> Array:
        """The columns at a table or a mapping that names the given columns and the groups."""
        table = self._read_new_rows(data, self.given)
        inputs = self.inputs_at(data)
        if self.plain.given:
            X = self.plain.matrix(table.columns)
        else:
            X = np.ones((len(table.rows), 1))
        return beside_groups(X, [(term, inputs[term.key]) for term in self.varying])

    def inputs_at(self, data: Any) -> dict[str, Array]:
        inputs_by_key = dict[str, Array]()
        for term in self.varying:
            table = self._read_new_rows(data, (*_effect_columns(term), *term.factors))
            Z = np.ones((len(table.rows), len(term.effects)))
            start = len(term.effects) - len(_effect_columns(term))
            for j, name in enumerate(_effect_columns(term)):
                Z[:, start + j] = PlainColumns((name,), False).matrix(table.columns)[
                    :, 0
                ]
            inputs_by_key[term.key] = term.inputs_of(
                group_labels(term.factors, table), Z
            )
        return inputs_by_key

    def with_basis(
        self, key: str, basis: KernelBasis, *, length_found: bool = False
    ) -> ColumnRecipe:
        raise DataError(
            f"{key!r} is no Gaussian process of these columns, which are taken as they are"
        )

    def read_back(self, design: Design) -> dict[str, Array]:
        columns = {
            name: design.X[:, design.columns.index(name)] for name in self.plain.given
        }
        for term in self.varying:
            inputs = design.inputs[term.key]
            start = 1 + len(term.effects) - len(_effect_columns(term))
            columns |= {
                name: inputs[:, start + j]
                for j, name in enumerate(_effect_columns(term))
                if name not in columns
            }
            columns |= {name: term.labels_of(inputs) for name in term.factors}
        return columns

    def to_json(self) -> dict[str, Any]:
        varying = [{"key": term.key, **term.to_state()} for term in self.varying]
        return {"kind": "grouped", "plain": self.plain.to_json(), "varying": varying}

    @classmethod
    def from_json(cls, saved: Mapping[str, Any], plain: PlainColumns) -> Self:
        """Return the recipe that `to_json` wrote, with its plain columns; raise DataError for invalid content."""
        varying = saved.get("varying")
        if not isinstance(varying, list) or not all(
            isinstance(s, Mapping) and isinstance(s.get("key"), str) for s in varying
        ):
            raise DataError("its varying effects are not a list of terms")
        return cls(plain, tuple(grouped_of(state, state["key"]) for state in varying))

    def _read_new_rows(self, data: Any, names: Sequence[str]) -> DataTable:
        """Return the named columns of new rows; raise DataError for an array without column names."""
        if isinstance(data, list) or (
            isinstance(data, np.ndarray) and not data.dtype.names
        ):
            raise DataError(
                f"new rows of a model with groups are a table or a mapping with the columns {', '.join(self.given)}, and an array "
                "has no names"
            )
        table = read_table(data)
        require(table, names)
        table = DataTable({name: table.columns[name] for name in names}, table.rows)
        refuse_missing(table)
        refuse_infinite(table)
        return table


def with_groups(design: Design, groups: Any) -> Design:
    """Return the design with the columns of varying effects appended, and with their inputs.

    DataError for a different number of rows, and for an effect that varies by the same groups twice.
    """
    group_list = [groups] if isinstance(groups, Grouped) else groups
    if (
        not isinstance(group_list, Sequence)
        or isinstance(group_list, str)
        or not all(isinstance(g, Grouped) for g in group_list)
    ):
        raise DataError(
            f"groups is a list of pr.Grouped, got {type(groups).__name__}; write groups=[pr.Grouped(labels)]"
        )
    plain = design.recipe
    if not group_list or not isinstance(plain, PlainColumns):
        return design
    clashes = [g.name for g in group_list if g.name in plain.columns]
    if clashes:
        raise DataError(
            f"X has a column called {clashes[0]!r} too, in which new rows hold their groups; give the groups another name"
        )
    same_rows(**{f"the groups {g.name!r}": g.labels for g in group_list})
    read = [g.read(design.n) for g in group_list]
    bars = [bar for term, _ in read if isinstance(bar := read_bar_term(term.key), Bar)]
    refuse_twice(bars, "groups=")
    _refuse_different(design, plain, read)
    recipe = ColumnsWithGroups(plain, tuple(term for term, _ in read))
    inputs = {term.key: x for term, x in read}
    X = beside_groups(design.X, read)
    if len(set(recipe.columns)) < len(recipe.columns):
        raise DataError(
            "columns of the groups have the names of others: rename effects or levels"
        )
    free = np.array([c == INTERCEPT for c in recipe.columns])
    return replace(
        design,
        X=contiguous(X),
        columns=recipe.columns,
        free=free,
        recipe=recipe,
        inputs=inputs,
    )


def _refuse_different(
    design: Design, plain: PlainColumns, read: Sequence[tuple[GroupedTerm, Array]]
) -> None:
    """Raise DataError if two different arrays have the same name, because new rows have one column of each name."""
    columns_by_name = {
        name: design.X[:, design.columns.index(name)] for name in plain.given
    }
    groups = dict[str, Array]()
    for term, x in read:
        labels = term.labels_of(x)
        for name in term.factors:
            bad = np.flatnonzero(groups.setdefault(name, labels) != labels)
            if len(bad):
                i = bad[0]
                raise DataError(
                    f"the groups {name!r} are {groups[name][i]!r} in row {i} and in {term.key} {labels[i]!r}; name= gives them another name"
                )
        for name, values in zip(
            _effect_columns(term), x[:, x.shape[1] - len(_effect_columns(term)) :].T
        ):
            bad = np.flatnonzero(columns_by_name.setdefault(name, values) != values)
            if len(bad):
                i = bad[0]
                raise DataError(
                    f"column {name!r} is {values[i]:g} in row {i} of {term.key} and {columns_by_name[name][i]:g} elsewhere; effects= gives "
                    "it another name"
                )


def _effect_columns(term: GroupedTerm) -> tuple[str, ...]:
    """Return the columns that the effects of a term multiply, without the intercept."""
    return tuple(name for name in term.effects if name != INTERCEPT)


def _key(names: Sequence[str], group: str, *, intercept: bool, correlated: bool) -> str:
    """Return the term as written in a formula."""
    written = [column_written(name) for name in names]
    effects = " + ".join(written if intercept else ["0", *written]) or "1"
    return f"({effects} {'|' if correlated else '||'} {column_written(group)})"
