"""Varying effects from arrays: the table and the formula that a matrix, labels of groups and columns of effects make."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probreg.arguments.arrays import same_rows
from probreg.arguments.scalars import Flag, Word, check_fields
from probreg.arguments.types import ArrayLike
from probreg.data.array_columns import PlainColumns, from_arrays
from probreg.data.checked_arrays import INTERCEPT
from probreg.data.design import Design
from probreg.data.formula.columns import read_columns
from probreg.data.formula.formula import read_formula
from probreg.data.unwritten import contiguous
from probreg.errors import DataError
from probreg.formula.text import column_written

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

    @property
    def effect_columns(self) -> dict[str, Array]:
        """The columns of Z by name."""
        if self.Z is None:
            if self.effects is not None and len(self.effects):
                raise DataError(
                    f"Grouped {self.name!r} names the effects {', '.join(self.effects)} and has no Z"
                )
            return {}
        names = self.effects
        plain = from_arrays(self.Z, columns=names, intercept=False, response="y")
        has_names = getattr(self.Z, "columns", getattr(self.Z, "name", None))
        if names is None and has_names is None and not isinstance(self.Z, Mapping):
            names = [f"z{j + 1}" for j in range(plain.X.shape[1])]
        names = plain.columns if names is None else names
        if INTERCEPT in names:
            raise DataError(
                f"Z of the groups {self.name!r} has a column called 'Intercept'; intercept=True makes one"
            )
        return dict(zip(names, plain.X.T))

    def write_term(self, effects: Iterable[str]) -> str:
        """Return the term of a formula with these columns of effects."""
        written = [column_written(name) for name in effects]
        left = " + ".join(written if self.intercept else ["0", *written]) or "1"
        return (
            f"({left} {'|' if self.correlated else '||'} {column_written(self.name)})"
        )


def with_groups(design: Design, groups: Any) -> Design:
    """Return the design of the formula with the columns of a matrix and these varying effects.

    DataError for a different number of rows, and for two columns with one name.
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
    same_rows(**{f"the groups {g.name!r}": g.labels for g in group_list})
    table: dict[str, Any] = {
        name: design.X[:, plain.columns.index(name)] for name in plain.given
    }
    terms = ["1" if plain.intercept else "0", *map(column_written, plain.given)]
    for g in group_list:
        labels = read_columns({g.name: g.labels})[g.name]
        for name, values in [*g.effect_columns.items(), (g.name, labels)]:
            if len(values) != design.n:
                raise DataError(
                    f"X has {design.n} rows and column {name!r} of the groups {g.name!r} has {len(values)}: they must match"
                )
            earlier = np.asarray(table.setdefault(name, values), dtype=object)
            differs = np.flatnonzero(earlier != np.asarray(values, dtype=object))
            if len(differs) and table[name] is not values:
                i = differs[0]
                raise DataError(
                    f"groups: two columns are called {name!r}, with {earlier[i]!s} and {values[i]!s} in row {i}; give one another name "
                    "by name= or effects="
                )
        terms.append(g.write_term(g.effect_columns))
    response = design.response
    while response in table:  # the formula needs a name that no predictor has
        response += "="
    table[response] = np.zeros(design.n)
    formula = f"{column_written(response)} ~ {' + '.join(terms)}"
    reading = read_formula(formula, table)
    columns = reading.recipe.columns
    return replace(
        design,
        X=contiguous(reading.X),
        columns=columns,
        free=np.array([c == INTERCEPT for c in columns]),
        recipe=reading.recipe,
        inputs=reading.inputs,
        read=reading.read,
    )
