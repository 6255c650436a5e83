"""Remarks of a method on its solution, as data that code can filter and print."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any


class Topic(StrEnum):
    """The subject of a note."""

    METHOD = "method"
    SIGMA = "sigma"
    CONVERGENCE = "convergence"
    STANDARD_ERRORS = "standard errors"
    MODES = "modes"
    SCALES = "scales"
    SINGULAR = "singular fit"
    PRIOR = "prior"
    SAMPLING = "sampling"
    LIKELIHOOD = "likelihood"
    ROWS = "rows"


class Severity(Enum):
    """Whether a reader needs the note to read the numbers."""

    ROUTINE = "routine"
    IMPORTANT = "important"


@dataclass(frozen=True)
class Note:
    """A remark on a fit.

    Parameters
    ----------
    topic : Topic
        What it is about.
    template : str
        The text, with a replacement field for each of the `values`.
    values : tuple of (str, value)
        Numbers and names for the template.
    severity : Severity
        The print of a fit leaves out routine notes.
    """

    topic: Topic
    template: str
    values: tuple[tuple[str, Any], ...] = ()
    severity: Severity = Severity.IMPORTANT

    def __str__(self) -> str:
        if self.values:
            return self.template.format(**dict(self.values))
        return self.template


def important_note(topic: Topic, template: str, **values: Any) -> Note:
    """Return a note that a reader needs to read the numbers.

    >>> str(important_note(Topic.ROWS, "{n} rows were added", n=3))
    '3 rows were added'
    """
    return Note(topic, template, tuple(values.items()))


def routine_note(topic: Topic, template: str, **values: Any) -> Note:
    """Return a note on the computation, which the print of a fit leaves out."""
    return Note(topic, template, tuple(values.items()), Severity.ROUTINE)


def important(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Return the notes that a reader needs to read the numbers."""
    return tuple(note for note in notes if note.severity is Severity.IMPORTANT)


def without_topic(notes: Iterable[Note], *topics: Topic) -> tuple[Note, ...]:
    """Return the notes on other topics."""
    return tuple(note for note in notes if note.topic not in topics)


JOINT_SIGMA = important_note(
    Topic.SIGMA,
    "sigma is the joint mode with beta over log sigma (maximum likelihood when the priors are flat)",
)
SCALES_AS_KNOWN = important_note(
    Topic.STANDARD_ERRORS,
    "standard errors treat the standard deviations and correlations of effects as known; covariance('joint'), integrate "
    "and nuts include their uncertainty",
)
