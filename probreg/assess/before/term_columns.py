"""What counts as one thing to check: a term of the formula, whatever number of columns it has."""

import re
from collections.abc import Iterable, Sequence

from probreg.data import Design
from probreg.data.formula.formula import Recipe

FEW = 5  # names in a sentence


def terms(design: Design) -> dict[str, tuple[int, ...]]:
    """The columns of each term of the formula, in order; in a design from arrays a process, and each other column, is a term.

    >>> data = {"y": [1.0, 2.0, 4.0, 3.0], "x": [1.0, 2.0, 6.0, 0.0], "g": ["a", "b", "c", "a"]}
    >>> terms(Model.from_formula("y ~ x + g", data).design)
    {'Intercept': (0,), 'x': (1,), 'g': (2, 3)}
    """
    out: dict[str, tuple[int, ...]] = {}
    if not isinstance(design.recipe, Recipe):
        of = {c: t.name for t in design.recipe.terms for c in t.columns}
        for j, column in enumerate(design.columns):
            name = of.get(column, column)
            out[name] = (*out.get(name, ()), j)
        return out
    from probreg.data.formula.algebra import parse_formula

    parts = parse_formula(design.recipe.formula)
    wanted = [[parts.called(text) for text in term] for term in parts.terms]
    for j, column in enumerate(design.columns):
        exact = [term for term in wanted if column == ":".join(term)]
        # A column is named by its factors, each with its level or part in brackets.
        name = next(
            (
                ":".join(term)
                for term in exact or wanted
                if re.fullmatch(":".join(re.escape(f) + r"(\[.*\])?" for f in term), column) is not None
            ),
            column,
        )
        out[name] = (*out.get(name, ()), j)
    return out


def terms_of(design: Design, columns: Iterable[str]) -> dict[str, list[str]]:
    """These columns by term, in order.

    >>> from probreg.model.model import Model
    >>> terms_of(Model.from_formula("y ~ g", {"y": [1.0, 2.0, 4.0], "g": ["a", "b", "c"]}).design, ["g[T.c]", "g[T.b]"])
    {'g': ['g[T.c]', 'g[T.b]']}
    """
    term, out = {design.columns[j]: name for name, at in terms(design).items() for j in at}, dict[str, list[str]]()
    for column in columns:
        out.setdefault(term[column], []).append(column)
    return out


def few_of(names: Sequence[str]) -> str:
    """The first five of some names, and how many more there are.

    >>> few_of(["a", "b"]), few_of("abcdefg")
    ('a, b', 'a, b, c, d, e and 2 more')
    """
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")
