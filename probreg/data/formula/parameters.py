"""Formulas for several linear predictors: the recipe of the first one, of the mean, with the recipes of the others.

Columns and terms of another predictor carry its name: `log sigma: z`, `log sigma: s(z)`.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from probreg.data.formula.columns import DataTable
from probreg.data.formula.evaluate import Term
from probreg.data.formula.recipe import Recipe
from probreg.data.implicit_columns import PredictorColumns, join_predictors
from probreg.data.terms.process import ProcessTerm
from probreg.errors import DataError
from probreg.formula.terms import left_of

Array = np.ndarray


def split_formulas(
    formula: str | Mapping[str, str],
) -> tuple[str, dict[str, str]]:
    """Return the formula of the response, and the formulas of further linear predictors by name, with the response on their left.

    >>> split_formulas({"y": "y ~ x", "log sigma": "~ z"})
    ('y ~ x', {'log sigma': 'y ~ z'})
    """
    if not isinstance(formula, Mapping):
        return formula, {}
    texts = (*formula, *formula.values())
    if not all(isinstance(text, str) and text for text in texts):
        raise DataError(
            "formulas are texts by the name of a linear predictor, such as {'y': 'y ~ x', 'log sigma': '~ z'}, got "
            f"{dict(formula)!r}"
        )
    whole = [name for name, text in formula.items() if left_of(text).strip()]
    if len(whole) != 1:
        raise DataError(
            f"one formula has the response on its left side and the others begin with '~', got {dict(formula)!r}"
        )
    text = formula[whole[0]]
    response = left_of(text).rstrip()
    others = {
        name: f"{response} {right.strip()}"
        for name, right in formula.items()
        if name != whole[0]
    }
    return text, others


def stack_offsets(offsets: Iterable[Array | None]) -> Array | None:
    """Return the offsets (n, m) of all linear predictors, (n,) each or None for 0; None if there is none."""
    columns = list(offsets)
    n = next((len(c) for c in columns if c is not None), None)
    if n is None:
        return None
    return np.column_stack([np.zeros(n) if c is None else c for c in columns])


@dataclass(frozen=True)
class ParameterRecipe(Recipe):
    """The map from a table to the columns of several linear predictors.

    The fields of `Recipe` describe the first formula, except for `columns`, which has the columns of all formulas.

    Attributes
    ----------
    recipes : mapping of str to Recipe
        The recipes of all linear predictors by the prefix of their columns, which is empty for the first.
    """

    recipes: Mapping[str, Recipe] = field(default_factory=dict)

    @classmethod
    def of(cls, recipes: Mapping[str, Recipe]) -> "ParameterRecipe":
        """Return the recipe of several linear predictors, by the prefix of their columns."""
        columns = (f"{prefix}{c}" for prefix, r in recipes.items() for c in r.columns)
        first = recipes[""]
        return cls(
            first.formula,
            tuple(columns),
            first.offset,
            first.memory,
            first.weights,
            recipes,
        )

    @property
    def by_prefix(self) -> Mapping[str, Recipe]:
        return self.recipes

    @property
    def parameters(self) -> dict[str, Recipe]:
        """The recipes of the other linear predictors, by name."""
        named = {p.removesuffix(": "): recipe for p, recipe in self.recipes.items()}
        del named[""]
        return named

    def assign_predictors(self, X: Any) -> PredictorColumns:
        widths = [len(recipe.columns) for recipe in self.by_prefix.values()]
        return PredictorColumns(
            X, np.repeat(np.arange(len(widths)), widths), len(widths)
        )

    def _union(self, names: Callable[[Recipe], Iterable[str]]) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                name for recipe in self.by_prefix.values() for name in names(recipe)
            )
        )

    def _with_prefix[T](
        self, values: Callable[[Recipe], Mapping[str, T]]
    ) -> dict[str, T]:
        return {
            prefix + key: value
            for prefix, recipe in self.by_prefix.items()
            for key, value in values(recipe).items()
        }

    @property
    def variables(self) -> tuple[str, ...]:
        return self._union(lambda recipe: recipe.variables)

    @property
    def offset_variables(self) -> tuple[str, ...]:
        return self._union(lambda recipe: recipe.offset_variables)

    def read(self, data: Any) -> tuple[Any, dict[str, Array]]:
        """Return the columns at new rows, each with its linear predictor, and the inputs of functions and bars."""
        parts = {prefix: recipe.read(data) for prefix, recipe in self.by_prefix.items()}
        inputs = {
            prefix + key: values
            for prefix, (_, by_term) in parts.items()
            for key, values in by_term.items()
        }
        return join_predictors([X for X, _ in parts.values()]), inputs

    def columns_of_rows(self, table: DataTable, *, lazy: bool = False) -> Any:
        recipes = self.by_prefix.values()
        return join_predictors([r.columns_of_rows(table, lazy=lazy) for r in recipes])

    def groups_at(self, data: Any) -> dict[str, Array]:
        return self._with_prefix(lambda recipe: recipe.groups_at(data))

    @property
    def learned_terms(self) -> tuple[str, ...]:
        return tuple(
            self._with_prefix(lambda recipe: dict.fromkeys(recipe.learned_terms))
        )

    @cached_property
    def input_names(self) -> Mapping[str, tuple[str, ...]]:
        return self._with_prefix(lambda recipe: recipe.input_names)

    def own_column(self, name: str) -> int | None:
        others = self.parameters.values()
        if any(name in recipe.all_variables for recipe in others):
            return None
        return self.by_prefix[""].own_column(name)

    @cached_property
    def basis_terms(self) -> Mapping[str, Term]:
        terms = dict[str, Term]()
        for prefix, recipe in self.by_prefix.items():
            for key, term in recipe.basis_terms.items():
                names = {"key": f"{prefix}{key}"}
                if hasattr(term, "short"):
                    names["short"] = f"{prefix}{term.short}"
                terms[prefix + key] = replace(term, **names)  # type: ignore[arg-type]
        return terms

    def with_process(self, term: ProcessTerm) -> Self:
        prefix = max((p for p in self.by_prefix if term.key.startswith(p)), key=len)
        own_names = {k: getattr(term, k).removeprefix(prefix) for k in ("key", "short")}
        recipe = self.by_prefix[prefix].with_process(replace(term, **own_names))
        return self.of({**self.by_prefix, prefix: recipe})  # type: ignore[return-value]

    def offset_of_rows(self, table: DataTable) -> Array | None:
        """Return the offsets (n, m) at checked rows; None for a model without an offset expression."""
        return stack_offsets(r.offset_of_rows(table) for r in self.by_prefix.values())

    def to_json(self) -> dict[str, Any]:
        return {
            **self.by_prefix[""].to_json(),
            "parameters": {
                name: recipe.to_json() for name, recipe in self.parameters.items()
            },
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> Self:
        others = {
            f"{name}: ": Recipe.from_json(part)
            for name, part in saved["parameters"].items()
        }
        return cls.of({"": Recipe.from_json(saved), **others})  # type: ignore[return-value]
