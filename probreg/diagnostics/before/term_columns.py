"""Columns by term, because checks report terms of the formula."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from probreg.data import Design
from probreg.data.formula.variables import terms as terms
from probreg.model.model import Model
from probreg.priors import Flat


def terms_of(design: Design, columns: Iterable[str]) -> dict[str, list[str]]:
    """Return these columns by term, in order.

    >>> from probreg.model.model import Model
    >>> terms_of(Model.from_formula("y ~ g", {"y": [1.0, 2.0, 4.0], "g": ["a", "b", "c"]}).design, ["g[T.c]", "g[T.b]"])
    {'g': ['g[T.c]', 'g[T.b]']}
    """
    positions = terms(design).items()
    term = {design.columns[j]: name for name, places in positions for j in places}
    names_by_term = dict[str, list[str]]()
    for column in columns:
        names_by_term.setdefault(term[column], []).append(column)
    return names_by_term


def without_effects_by_group(model: Model) -> Model:
    """Return the model without the columns of group effects; the model itself without such effects or rows in memory."""
    design = model.design
    if not design.recipe.grouped or not design.n:
        return model
    X = np.asarray(design.X[:, list(design.ungrouped)])
    head = replace(design, X=X, columns=design.ungrouped_columns, kept=None)
    return replace(model, design=head, prior=Flat())
