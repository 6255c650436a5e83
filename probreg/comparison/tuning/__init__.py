"""The scale of a prior: modes along a grid of scales, and the scale that a criterion chooses.

`path(model)` follows the mode from the prior's centre to maximum likelihood as one factor multiplies every scale of the
model's prior; `tune(model, by)` picks the factor by cross-validation, leave-one-out, evidence, AIC or BIC,
and reports the minimised criterion. The prior is bound to all rows once, also if it is stated on standardised
columns, and is the same density in every fold. Criteria are registered: one class each.
"""

from probreg.comparison.tuning.criteria import CRITERIA as CRITERIA
from probreg.comparison.tuning.held_out import folds_of as folds_of
from probreg.comparison.tuning.tune import (
    RegularisationPath as RegularisationPath,
    TuningResult as TuningResult,
    path as path,
    tune as tune,
)
