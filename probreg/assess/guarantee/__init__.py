"""What can be promised of a fit on new rows, and by which theorem: generalisation bounds with their assumptions."""

from probreg.assess.guarantee.guarantee import (
    RiskBounds as RiskBounds,
    guarantee as guarantee,
)
from probreg.assess.guarantee.judged import BoundLine as BoundLine
from probreg.assess.guarantee.losses import BoundedLoss as BoundedLoss
