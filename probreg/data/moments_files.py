"""Moments as files: those of plain columns, and those with columns by group."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from probreg.data.arrow_moments import ArrowMoments, arrow_moments_of
from probreg.data.moments import Moments
from probreg.data.moments_origin import BY_GROUP, checked_arrays, origin_of, read_held
from probreg.data.terms.grouped import GroupedTerm, grouped_of
from probreg.errors import DataError


def load_moments(path: str | Path) -> Moments | ArrowMoments:
    """The moments that their `save` wrote, of either kind. DataError for a file that holds none."""
    held = read_held(path)
    if held.get("format") != BY_GROUP:
        return Moments.load(path)
    head = held.get("head")
    terms = held.get("terms")
    if not isinstance(head, Mapping) or not isinstance(terms, list):
        raise DataError(f"{path}: its head columns or its terms are missing")
    plain = Moments.from_arrays(checked_arrays(path, head))
    return replace(
        arrow_moments_of(held, plain, tuple(map(_term, terms))),
        origin=origin_of(path, held.get("origin")),
    )


def _term(state: Any) -> GroupedTerm:
    if not isinstance(state, Mapping) or not isinstance(state.get("key"), str):
        raise DataError("the saved moments are damaged: a term has no name")
    return grouped_of(state, state["key"])
