"""Generalisation bounds of a fit on new rows, with their theorems and assumptions."""

from probreg.diagnostics.guarantee.guarantee import (
    RiskBounds as RiskBounds,
    guarantee as guarantee,
)
from probreg.diagnostics.guarantee.judged import (
    BoundedLoss as BoundedLoss,
    BoundLine as BoundLine,
)
