"""Read moments from a file, with or without columns by group."""

import json
from dataclasses import replace
from pathlib import Path

from probreg.data.arrow_moments import ArrowMoments, arrow_moments_of
from probreg.data.moments import Moments
from probreg.data.moments_origin import Origin, read_verified_json
from probreg.data.terms.grouped import grouped_of


def load_moments(path: str | Path) -> Moments | ArrowMoments:
    """Return the moments that `save` wrote. DataError for a file without moments."""
    content = read_verified_json(path)
    origin = content["origin"]
    if origin is not None:
        recipe = json.dumps(origin["recipe"], sort_keys=True)
        origin = Origin(**{**origin, "recipe": recipe})
    head = Moments.from_arrays(content)
    if "terms" not in content:
        return replace(head, origin=origin)
    terms = tuple(grouped_of(term, term["key"]) for term in content["terms"])
    return replace(arrow_moments_of(content, head, terms), origin=origin)
