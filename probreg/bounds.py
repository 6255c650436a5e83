"""Generalisation bounds on numbers and arrays: upper limits of the risk of a predictor, given its losses on m rows.

Each function returns a `Bound`. It is valid with probability 1 - delta over independent rows, and it lists its assumptions. Bounds
for a whole class are valid for a member that was chosen on the same rows; `hold_out` is for one fit and rows that it has not seen.
docs/explanation/bounds.md derives them, and `pr.guarantee` applies them to a fit.
"""

from probreg.scores.bounds import (
    Assumption,
    Bound,
    best_of,
    finite,
    group,
    hold_out,
    kernel,
    kernel_complexity,
    l1,
    l1_complexity,
    pac_bayes,
    pseudo_dimension,
    rademacher,
    stability,
)

__all__ = [
    "Assumption",
    "Bound",
    "best_of",
    "finite",
    "group",
    "hold_out",
    "kernel",
    "kernel_complexity",
    "l1",
    "l1_complexity",
    "pac_bayes",
    "pseudo_dimension",
    "rademacher",
    "stability",
]
