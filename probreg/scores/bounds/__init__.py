"""Upper limits of the risk of a predictor from its losses on observed rows: see `probreg.bounds`."""

from probreg.scores.assumptions import Assumption as Assumption
from probreg.scores.bounds.balls import (
    group as group,
    kernel as kernel,
    l1 as l1,
)
from probreg.scores.bounds.classes import (
    finite as finite,
    kernel_complexity as kernel_complexity,
    l1_complexity as l1_complexity,
    pseudo_dimension as pseudo_dimension,
    rademacher as rademacher,
)
from probreg.scores.bounds.result import Bound as Bound
from probreg.scores.bounds.single import (
    best_of as best_of,
    hold_out as hold_out,
    pac_bayes as pac_bayes,
    stability as stability,
)
