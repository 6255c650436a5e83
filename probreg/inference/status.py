"""How a method ended, and what to do if it did not end well."""

from enum import Enum


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
