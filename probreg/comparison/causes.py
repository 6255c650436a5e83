"""The causes of a difference between two fits."""

from enum import Enum
from typing import NamedTuple


class Cause(Enum):
    """A cause of a difference between the estimates or standard errors of two fits."""

    COLUMNS = "columns"
    GROUP_EFFECTS = "effects by group"
    SMOOTHS = "smooth functions"
    WEIGHTS = "weights"
    SEPARATION = "separation"
    IDENTIFICATION = "identification"
    MEAN_DF = "degrees of freedom of the mean"
    SCALE_UNCERTAINTY = "uncertainty of the standard deviations"
    SCALE_PRIOR = "prior of the standard deviations"
    LIKELIHOOD = "likelihood"
    PRIOR = "prior"
    FIXED_PARAMETER = "fixed"
    PARAMETER_PRIOR = "prior of a nuisance parameter"
    SUMMARY = "mode or mean"
    SKEWNESS = "skewness"
    APPROXIMATION = "approximation"
    SMALL_SAMPLE = "small sample"
    COVARIANCE = "covariance"
    MONTE_CARLO = "Monte Carlo error"
    CONVERGENCE = "convergence"
    SAMPLER = "sampler"
    INTERVAL = "kind of interval"
    SEVERAL = "several causes"


MODEL = (
    Cause.MEAN_DF, Cause.SCALE_UNCERTAINTY, Cause.SCALE_PRIOR, Cause.LIKELIHOOD, Cause.PRIOR, Cause.FIXED_PARAMETER,
    Cause.PARAMETER_PRIOR,
)  # fmt: skip


class SpecificCause(NamedTuple):
    """A cause, and the column or parameter that it concerns.

    >>> SpecificCause(Cause.PRIOR, "x").label, SpecificCause(Cause.FIXED_PARAMETER, "sigma").label
    ('prior of x', 'sigma fixed')
    """

    cause: Cause
    subject: str = ""

    @property
    def label(self) -> str:
        if self.cause is Cause.SEVERAL:
            return self.subject
        if self.cause is Cause.FIXED_PARAMETER:
            return f"{self.subject} fixed"
        if self.subject and self.cause in (Cause.PRIOR, Cause.PARAMETER_PRIOR):
            return f"prior of {self.subject}"
        return self.cause.value
