"""Intervals of an estimate or a posterior: the arithmetic, and which of them a solution has.

A file imports only from those before it: arithmetic, marginals and replicates (strangers), kinds.
"""

from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail as equal_tail,
    highest_density as highest_density,
    positive_interval as positive_interval,
    quantile as quantile,
    sigma_from_rss as sigma_from_rss,
)
from probreg.inference.uncertainty.intervals.kinds import (
    KINDS as KINDS,
    GivenCovariance as GivenCovariance,
    Intervals as Intervals,
)
from probreg.inference.uncertainty.intervals.replicates import (
    REPLICATED as REPLICATED,
    bca as bca,
    of_positive_replicates as of_positive_replicates,
    of_replicates as of_replicates,
    order_quantile as order_quantile,
    percentile as percentile,
    studentised_interval as studentised_interval,
)
