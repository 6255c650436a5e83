"""How a method ended, remedies for a bad end, and notes on the solution as data."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any


class Status(Enum):
    """How a method ended."""

    EXACT = "exact"
    CONVERGED = "converged"
    SAMPLED = "sampled"
    RESAMPLED = "resampled"
    UNMIXED = "chains disagree"
    TOO_SHORT = "too few effective draws"
    DIVERGED = "divergent steps"
    UNSETTLED = "unreliable importance weights"
    UNWEIGHED = "approximation without importance weights"
    ONE_OF_SEVERAL = "one of several modes"
    SEPARATED = "classes separated"
    UNSEPARATED = "classes not separated"
    SHORT = "short of the maximum"
    STEP_LIMIT = "step limit"
    STALLED = "duality gap or constraint violation above tolerance"
    SADDLE = "saddle point"
    NOT_IDENTIFIED = "not identified"
    NO_MAXIMUM = "no maximum likelihood estimate exists"
    SCALE_AT_INFINITY = "no estimate of a prior scale exists"
    AT_ZERO = "no estimate of a nuisance parameter exists"
    AT_INFINITY = "no finite estimate of a nuisance parameter exists"

    @property
    def good(self) -> bool:
        return self not in ADVICE

    @property
    def is_at_limit(self) -> bool:
        """Whether the estimate is a limiting model, of a nuisance parameter at 0 or infinity."""
        return self in (Status.AT_ZERO, Status.AT_INFINITY)

    @property
    def is_mode(self) -> bool:
        """Whether the estimate is a mode, of the model or of its limiting model."""
        return self.good or self.is_at_limit

    @property
    def is_unfinished(self) -> bool:
        """Whether an optimiser stopped at a point that is no mode."""
        return self in (Status.STEP_LIMIT, Status.STALLED, Status.SADDLE)

    def describe(self, detail: str = "") -> str:
        """Return the status with its detail and, if the method did not end well, the advice.

        >>> Status.TOO_SHORT.describe("54 draws of x"), Status.EXACT.describe()
        ('too few effective draws (54 draws of x): draw more', 'exact')
        """
        text = self.with_detail(detail)
        return text if self.good else f"{text}: {ADVICE[self]}"

    def with_detail(self, detail: str) -> str:
        """Return the status with its detail in brackets."""
        if detail:
            return f"{self.value} ({detail})"
        return self.value


ADVICE = {
    Status.UNMIXED: "draw more, raise target_accept, or use a more informative prior",
    Status.TOO_SHORT: "draw more",
    Status.DIVERGED: "raise target_accept, or use a more informative prior",
    Status.UNSETTLED: "sample with nuts, or use a more informative prior",
    Status.UNWEIGHED: "sample with nuts, or use a more informative prior",
    Status.ONE_OF_SEVERAL: "use posterior, which covers the modes that it finds, or nuts",
    Status.UNSEPARATED: "use more epochs; the classes may not be linearly separable",
    Status.SHORT: "use more epochs, or newton",
    Status.STEP_LIMIT: "raise max_steps, or see check(model)",
    Status.STALLED: "rescale columns and response to similar units, or raise max_steps",
    Status.SADDLE: "start elsewhere, or use a more informative prior",
    Status.NOT_IDENTIFIED: "drop columns that are combinations of others, or give a prior",
    Status.NO_MAXIMUM: "give a proper prior such as a normal of scale 2.5, or drop columns",
    Status.SCALE_AT_INFINITY: "fix the scale, or give it a proper prior such as a half-normal of scale 2",
    Status.AT_ZERO: "fit the limiting model, or give the parameter a proper prior",
    Status.AT_INFINITY: "fit the limiting model, or give the parameter a proper prior",
}


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
        The subject of the note.
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
