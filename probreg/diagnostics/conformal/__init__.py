"""Conformal intervals: they contain a new response with the given probability for any model, if rows are exchangeable.

A score measures the distance of a response from its prediction. The scores of rows that the fit has not used have a
quantile of order `prob`, and the responses with at most that score are the conformal interval or set (Vovk, Gammerman &
Shafer 2005). The model determines only its length.
"""

from probreg.diagnostics.conformal.conformal import (
    SCORES as SCORES,
    JackknifePlus as JackknifePlus,
    Split as Split,
    conformal as conformal,
)
