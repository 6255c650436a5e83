"""Restore a recipe of columns of any kind from its saved plain data."""

from collections.abc import Mapping
from typing import Any

from probreg.data.array_columns import ArrayColumns
from probreg.data.design import ColumnRecipe


def recipe_from_json(saved: Mapping[str, Any]) -> ColumnRecipe:
    """Return the recipe that `to_json` wrote; nothing in it is executed."""
    if saved.get("kind") == "arrays":
        return ArrayColumns.from_json(saved)
    from probreg.data.formula.recipe import Recipe

    return Recipe.from_json(saved)
