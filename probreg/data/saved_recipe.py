"""Restore a recipe of columns of any kind from its saved plain data."""

from collections.abc import Mapping
from typing import Any

from probreg.data.array_columns import PlainColumns
from probreg.data.checked_arrays import INTERCEPT
from probreg.data.design import ColumnRecipe
from probreg.errors import DataError


def recipe_from_json(saved: Mapping[str, Any]) -> ColumnRecipe:
    """Return the recipe that `to_json` wrote. DataError for invalid content; nothing in it is executed."""
    if saved.get("kind") == "plain":
        columns = saved.get("columns")
        intercept = saved.get("intercept")
        texts = isinstance(columns, list) and all(isinstance(c, str) for c in columns)
        if (
            not isinstance(columns, list)
            or not texts
            or len(set(columns)) < len(columns)
        ):
            raise DataError("its columns are not a list of different names")
        if intercept is not (columns[:1] == [INTERCEPT]):
            raise DataError(
                f"its first column {columns[:1]} and its mark of an intercept, {intercept!r:.20}, differ"
            )
        return PlainColumns(tuple(columns), intercept)
    if saved.get("kind") == "kernel":
        from probreg.data.kernel_columns import KernelColumns

        return KernelColumns.from_json(saved)
    from probreg.data.formula.recipe import Recipe

    return Recipe.from_json(saved)
