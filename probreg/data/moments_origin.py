"""The origin of moments (how their columns and response are made), and their JSON file."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np

from probreg.data.weights import WeightKind
from probreg.errors import DataError
from probreg.system.disk import read_plain, write_whole

FORMAT = "probreg moments 1"
_SEAL = b',\n "sha256": "%s"\n}'  # the last member of the JSON: the digest of all bytes before it
_ARRAY = "array"  # key of a JSON table that represents an array


@dataclass(frozen=True)
class Origin:
    """The recipe of the columns and the response of moments; moments can be added if their origins are equal.

    `recipe` is the recipe of the columns as JSON text: levels, means, knots, no rows. `offset` is True if y is less an offset.
    """

    recipe: str
    response: str
    offset: bool
    weights: WeightKind

    @classmethod
    def of(
        cls, recipe: Any, response: str, *, offset: bool, weights: WeightKind
    ) -> Self:
        """Return the origin of the columns of a recipe."""
        return cls(
            json.dumps(recipe.to_json(), default=_encode_array, sort_keys=True),
            response,
            offset,
            weights,
        )

    def saved_recipe(self) -> Any:
        """Return the recipe as `to_json` gave it."""
        return json.loads(self.recipe, object_hook=_restore_array)

    def with_groups(self, states: Mapping[str, Any], columns: Sequence[str]) -> Self:
        """Return the origin with other states of terms with varying effects, by term, and the names of all columns."""
        recipe = self.saved_recipe()
        recipe["state"]["transforms"] |= states
        recipe["columns"] = list(columns)
        return replace(
            self, recipe=json.dumps(recipe, default=_encode_array, sort_keys=True)
        )

    def require_same(self, other: "Origin") -> None:
        """Raise DataError if the origins differ in anything but the levels of groups."""
        if _comparable(self.recipe) != _comparable(other.recipe):
            raise DataError(
                "these moments have columns with different levels, means or knots, so that they cannot be combined. "
                "Build the second by Model.from_moments(first).at(rows)"
            )
        for name in ("response", "offset", "weights"):
            if getattr(self, name) != getattr(other, name):
                raise DataError(
                    f"moments with {name} {getattr(self, name)!r} and {getattr(other, name)!r} cannot be combined; give both the same"
                )


def _comparable(recipe: str) -> dict[str, Any]:
    """Return the recipe without groups and weights, and without spaces outside quotes or backticks in its formulas."""
    content: dict[str, Any] = json.loads(recipe)
    # a column that only new rows need; the kind of the weights is compared separately
    content.pop("weights", None)
    states = _grouped_states(content)
    for state in states:
        del state["levels"]
    if states:
        # these name the groups; the columns of the head are compared with the moments
        content.pop("columns", None)
    for name in ("formula", "offset"):
        if isinstance(content.get(name), str):
            content[name] = re.sub(
                r"""("[^"]*"|'[^']*'|`[^`]*`)|\s+""", r"\1", content[name]
            )
    return content


def _grouped_states(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the states of the terms of a formula with varying effects."""
    if recipe.get("kind") != "formula":
        return []
    states = recipe["state"]["transforms"].values()
    return [state for state in states if state.get("kind") == "grouped"]


# ---- the file ------------------------------------------------------------------------------------------------------


def write_moments(
    path: str | Path, arrays: Mapping[str, Any], origin: Origin | None
) -> Path:
    """Write arrays and origin of moments as JSON, which keeps every bit of a float."""
    from probreg import __version__

    content: dict[str, Any] = {"format": FORMAT, "version": __version__, **arrays}
    for name, values in arrays.items():
        if isinstance(values, np.ndarray):
            content[name] = values.tolist()
    if origin is None:
        content["origin"] = None
    else:
        content["origin"] = asdict(origin) | {"recipe": json.loads(origin.recipe)}
    return write_whole(path, seal_json(content))


def seal_json(content: Mapping[str, Any]) -> bytes:
    """Return plain data as JSON; the last member is the SHA-256 of the bytes before it.

    >>> seal_json({"n": 1}).decode().splitlines()[1]
    ' "n": 1,'
    """
    body = json.dumps(content, indent=1).encode().removesuffix(b"\n}")
    return body + _SEAL % hashlib.sha256(body).hexdigest().encode()


def read_verified_json(path: str | Path) -> dict[str, Any]:
    """Return the content of a file of moments. DataError for another format, and if the digest does not match the bytes."""
    data = read_plain(path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} holds no moments: {error}") from None
    body = data[: -len(_SEAL % (b"0" * 64))]
    sealed = body + _SEAL % hashlib.sha256(body).hexdigest().encode()
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path} holds no moments: expected the format {FORMAT!r}")
    if data != sealed:
        raise DataError(
            f"{path} was changed since it was saved: its digest is missing or differs. Save the moments again"
        )
    return content


def _encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY: value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written")


def _restore_array(table: dict[str, Any]) -> Any:
    if set(table) != {_ARRAY}:
        return table
    return np.asarray(table[_ARRAY], dtype=float)
