"""Intervals that hold a new response as often as they say whatever the model, if rows are exchangeable.

A fit gives a score to a row: how far its response is from what was said of it. Rows that the fit has not seen tell which
score a share `prob` of rows stays under, and the responses with no more than that score are the conformal interval or
set (Vovk, Gammerman & Shafer 2005). The model only decides how short it is.
"""

from probreg.assess.conformal.conformal import (
    Conformal as Conformal,
    conformal as conformal,
)
from probreg.assess.conformal.jackknife import JackknifePlus as JackknifePlus
from probreg.assess.conformal.scores import SCORES as SCORES, Score as Score
from probreg.assess.conformal.split import Split as Split
