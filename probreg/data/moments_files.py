"""Read moments from a file, with or without columns by group."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from probreg.data.arrow_moments import ArrowMoments, arrow_moments_of
from probreg.data.moments import Moments
from probreg.data.moments_origin import (
    checked_arrays,
    read_origin,
    read_verified_json,
)
from probreg.data.terms.grouped import GroupedTerm, grouped_of
from probreg.errors import DataError


def load_moments(path: str | Path) -> Moments | ArrowMoments:
    """Return the moments that `save` wrote. DataError for a file without moments."""
    content = read_verified_json(path)
    origin = read_origin(path, content.get("origin"))
    head = Moments.from_arrays(checked_arrays(path, content))
    if "terms" not in content:
        return replace(head, origin=origin)
    terms = content["terms"]
    if not isinstance(terms, list):
        raise DataError(f"{path}: terms: expected a list")
    moments = arrow_moments_of(content, head, tuple(map(_read_term, terms)))
    return replace(moments, origin=origin)


def _read_term(state: Any) -> GroupedTerm:
    if not isinstance(state, Mapping) or not isinstance(state.get("key"), str):
        raise DataError("the saved moments are damaged: a term has no name")
    return grouped_of(state, state["key"])
