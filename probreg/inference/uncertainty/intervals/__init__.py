"""Intervals of an estimate or a posterior: the arithmetic, and which of them a solution has.

A file imports only from those before it: arithmetic, marginals, kinds.
"""

from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail as equal_tail,
    highest_density as highest_density,
    quantile as quantile,
)
from probreg.inference.uncertainty.intervals.kinds import (
    KIND_WORDS as KIND_WORDS,
    KINDS as KINDS,
    GivenCovariance as GivenCovariance,
    IntervalKind as IntervalKind,
    Intervals as Intervals,
)
