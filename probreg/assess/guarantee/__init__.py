"""Generalisation bounds of a fit on new rows, with their theorems and assumptions."""

from probreg.assess.guarantee.guarantee import (
    RiskBounds as RiskBounds,
    guarantee as guarantee,
)
from probreg.assess.guarantee.judged import BoundLine as BoundLine
from probreg.assess.guarantee.losses import BoundedLoss as BoundedLoss
