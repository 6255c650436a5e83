"""Every question that may be asked of a model or a fit, as one table."""

from typing import NamedTuple

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.before import CHECKS


class Entry(NamedTuple):
    """One check or diagnostic: its name, its question, when it is asked, and the picture that shows its answer."""

    name: str
    question: str
    when: str
    picture: str


def catalogue() -> tuple[Entry, ...]:
    """The checks before a fit and the diagnostics after it, in alphabetical order within each.

    >>> catalogue()[0].when
    'before the fit'
    """
    before = [Entry(name, cls.question, "before the fit", "") for name, cls in sorted(CHECKS.items())]
    after = [Entry(name, cls.question, _when(cls), cls.picture) for name, cls in sorted(DIAGNOSTICS.items())]
    return (*before, *after)


def catalogue_markdown() -> str:
    """The catalogue as a Markdown table.

    >>> print(catalogue_markdown().splitlines()[0])
    | name | question | when | picture |
    """
    rows = [("name", "question", "when", "picture"), ("---",) * 4]
    rows += [(f"`{e.name}`", e.question, e.when, f"`{e.picture}`" if e.picture else "") for e in catalogue()]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _when(cls: type[Diagnostic]) -> str:
    what = {"any": "any fit", "mode": "a point estimate", "posterior": "a posterior"}[cls.target]
    return f"{what}: {cls.when}" if cls.when else what
