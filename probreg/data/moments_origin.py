"""Moments as a file, and what has to be the same at two places whose moments add up."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self, get_args

import numpy as np

from probreg.data.weights import WeightKind
from probreg.errors import DataError
from probreg.system.disk import read_plain, write_whole

Array = np.ndarray
_FORMAT = "probreg moments 2"  # 1 had no digest
BY_GROUP = "probreg moments by group 2"  # with columns by group
_SEAL = b',\n "sha256": "%s"\n}'  # the last member of the JSON: the digest of all bytes before it
_NUMBERS = {"factor": "q q", "factor_low": "q q", "n": "", "weight": "", "mean": "p", "scale": "p", "y": "2", "log_precision": ""}  # fmt: skip
GROUPED = "grouped"  # under which the state of a term of varying effects is filed
_ARRAY = "array"  # marks a list that was an array, of the basis of a process


@dataclass(frozen=True)
class Origin:
    """How the columns and the response of moments were made: moments add up where it is the same.

    `recipe` is that of the columns as JSON text: levels, means, knots, no rows. `offset` says whether y is less an offset.
    """

    recipe: str
    response: str
    offset: bool
    weights: WeightKind

    @classmethod
    def of(
        cls, recipe: Any, response: str, *, offset: bool, weights: WeightKind
    ) -> Self:
        """That of the columns of a recipe."""
        return cls(
            json.dumps(recipe.to_json(), default=_encode_array, sort_keys=True),
            response,
            offset,
            weights,
        )

    def saved_recipe(self) -> Any:
        """What `to_json` of the recipe gave."""
        return _arrays_back(json.loads(self.recipe))

    def with_groups(self, states: Mapping[str, Any], columns: Sequence[str]) -> Self:
        """The same with these states of terms whose effects vary by a group, by the term, and the names of all columns."""
        recipe = self.saved_recipe()
        if "varying" in recipe:
            recipe["varying"] = [
                {"key": each["key"], **states[each["key"]]}
                for each in recipe["varying"]
            ]
        else:
            recipe["state"]["transforms"] |= {
                key: {GROUPED: dict(state)} for key, state in states.items()
            }
            recipe["columns"] = list(columns)
        return replace(
            self, recipe=json.dumps(recipe, default=_encode_array, sort_keys=True)
        )

    def require_same(self, other: "Origin") -> None:
        """DataError that says in what two origins differ; groups may."""
        if _comparable(self.recipe) != _comparable(other.recipe):
            raise DataError(
                "moments of columns that were made differently cannot be combined: levels, means or knots are those of each "
                "one's own rows. Build the second by Model.from_moments(first).at(rows)."
            )
        for what in ("response", "offset", "weights"):
            one = getattr(self, what)
            if one != (two := getattr(other, what)):
                raise DataError(
                    f"moments with {what} {one!r} and {two!r} cannot be combined; give both the same"
                )


def _comparable(recipe: str) -> dict[str, Any]:
    """What a recipe says, where "y~x" is "y ~ x": spaces count in names and levels only, in quotes or backticks."""
    said: dict[str, Any] = json.loads(recipe)
    said.pop(
        "weights", None
    )  # a column that only new rows are read from; the kind of the weights is compared by itself
    texts = {k: said[k] for k in ("formula", "offset") if isinstance(said.get(k), str)}
    states = [*said.get("varying", ()), *_grouped_states(said)]
    for state in states:  # groups need not be the same
        del state["levels"]
    if states:
        said.pop(
            "columns", None
        )  # which name the groups; those of the head are compared by name with their moments
    return said | {
        k: re.sub(r"""("[^"]*"|'[^']*'|`[^`]*`)|\s+""", r"\1", text)
        for k, text in texts.items()
    }


def _grouped_states(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The states of terms of a formula whose effects vary by a group."""
    if recipe.get("kind") == "formula":
        transforms = recipe["state"]["transforms"]
    else:
        transforms = {}
    return [kept[GROUPED] for kept in transforms.values() if GROUPED in kept]


def write_moments(
    path: str | Path, arrays: Mapping[str, Array], origin: Origin | None
) -> Path:
    """Writes the arrays and the origin of moments as JSON, by which floats come back to the last bit."""
    return write_held(
        path,
        _FORMAT,
        {k: v.item() if v.ndim == 0 else v.tolist() for k, v in arrays.items()},
        origin,
    )


def write_held(
    path: str | Path, form: str, held: Mapping[str, Any], origin: Origin | None
) -> Path:
    """Writes plain data with their format and origin as JSON."""
    from probreg import __version__

    if origin is None:
        about = None
    else:
        about = asdict(origin) | {"recipe": json.loads(origin.recipe)}
    said = {"format": form, "version": __version__, **held, "origin": about}
    return write_whole(path, seal_json(said))


def seal_json(held: Mapping[str, Any]) -> bytes:
    """Return plain data as JSON whose last member is the SHA-256 of the bytes before it.

    >>> seal_json({"n": 1}).decode().splitlines()[1]
    ' "n": 1,'
    """
    body = json.dumps(held, indent=1).encode().removesuffix(b"\n}")
    return body + _SEAL % hashlib.sha256(body).hexdigest().encode()


def read_moments(path: str | Path) -> tuple[dict[str, Array], Origin | None]:
    """What `write_moments` wrote. DataError where a part is missing, or is not what belongs there."""
    held = read_held(path)
    said = held.get("format")
    if said != _FORMAT:
        raise DataError(
            f"{path} holds no moments of this version: its format is {said!r:.40}, and {_FORMAT!r} is read"
        )
    return checked_arrays(path, held), origin_of(path, held.get("origin"))


def read_held(path: str | Path) -> dict[str, Any]:
    """Return the plain data of a file. DataError if there are none or if the digest does not match the bytes."""
    data = read_plain(path)
    try:
        held = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} holds no moments: {error}") from None
    held = held if isinstance(held, dict) else {}
    if held.pop("sha256", None) is None and held.get("format") not in (
        None,
        _FORMAT,
        BY_GROUP,
    ):
        return held  # of another format, which the caller names
    body = data[: -len(_SEAL % (b"0" * 64))]
    if data != body + _SEAL % hashlib.sha256(body).hexdigest().encode():
        raise DataError(
            f"{path} was changed since it was saved: its digest is missing or differs. Save the moments again"
        )
    return held


def checked_arrays(path: Any, held: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays of moments from their plain data. DataError where a part is missing, or is not what belongs there."""
    columns = held.get("columns")
    if (
        not isinstance(columns, list)
        or not all(isinstance(c, str) for c in columns)
        or len(set(columns)) < len(columns)
    ):
        raise DataError(f"{path}: its columns are not a list of different names")
    sizes = {"": (), "p": (p := len(columns),), "q q": (p + 1, p + 1), "2": (2,)}
    arrays = {
        name: _read_numbers(path, name, held.get(name), sizes[shape])
        for name, shape in _NUMBERS.items()
    }
    F, n, weight = (arrays[k] for k in ("factor", "n", "weight"))
    if (
        np.tril(F, -1).any()
        or np.tril(arrays["factor_low"], -1).any()
        or (np.diagonal(F) < 0).any()
    ):
        raise DataError(
            f"{path}: its factor is no upper triangle with a diagonal of 0 or more"
        )
    if not (
        n >= 0
        and n % 1 == 0
        and weight >= 0
        and (arrays["scale"] >= 0).all()
        and arrays["y"][1] >= 0
    ):
        raise DataError(
            f"{path}: its n, weight or standard deviations are negative, or n is no whole number"
        )
    return arrays | {"columns": np.array(columns, dtype=str)}


def _read_numbers(path: Any, name: str, value: Any, shape: tuple[int, ...]) -> Array:
    try:
        found = np.array(value, dtype=float)
    except (ValueError, TypeError):
        found = np.array(np.nan)
    if found.shape != shape or not np.isfinite(found).all():
        raise DataError(
            f"{path}: its {name!r} is not of finite numbers in shape {shape}"
        )
    return found


def origin_of(path: Any, held: Any) -> Origin | None:
    """The origin of moments from its plain data. DataError for a damaged one."""
    if held is None:
        return None
    kinds = {"recipe": dict, "response": str, "offset": bool, "weights": str}
    if not isinstance(held, dict) or any(
        not isinstance(held.get(k), kind) for k, kind in kinds.items()
    ):
        raise DataError(f"{path}: its origin lacks one of {', '.join(kinds)}")
    if held["weights"] not in get_args(WeightKind):
        raise DataError(
            f"{path}: its weights are {held['weights']!r:.40}, and one of {get_args(WeightKind)} belongs there"
        )
    return Origin(
        json.dumps(held["recipe"], sort_keys=True),
        held["response"],
        held["offset"],
        held["weights"],
    )


def _encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY: value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written")


def _arrays_back(value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {_ARRAY}:
        return _read_numbers("moments", "basis", value[_ARRAY], np.shape(value[_ARRAY]))
    if isinstance(value, dict):
        return {k: _arrays_back(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_arrays_back(v) for v in value]
    return value
