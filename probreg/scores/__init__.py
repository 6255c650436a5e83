"""Evaluation of forecasts: proper scoring rules, their decompositions, and comparison of two forecasters on the same rows.

Functions take and return arrays; y is the first argument, and smaller scores are better. A rule is proper if the
forecast that minimises the expected score is the forecaster's own distribution (Gneiting & Raftery 2007).
"""

from probreg.peers import answer_names as _answer_names
from probreg.registry import public_names as _public_names
from probreg.scores.comparison import (
    PairedComparison as PairedComparison,
    compare_forecasts as compare_forecasts,
    compare_scores as compare_scores,
    skill as skill,
)
from probreg.scores.decomposition import (
    Decomposition as Decomposition,
    Goal as Goal,
    decompose as decompose,
    goal as goal,
)
from probreg.scores.numeric import (
    crps_normal as crps_normal,
    crps_sample as crps_sample,
    crps_student as crps_student,
    interval_score as interval_score,
    pinball as pinball,
)
from probreg.scores.rules import (
    RULES as RULES,
    Rule as Rule,
    absolute as absolute,
    brier as brier,
    divergence as divergence,
    entropy as entropy,
    expected as expected,
    log_score as log_score,
    spherical as spherical,
    zero_one as zero_one,
)


def __dir__() -> list[str]:
    return _public_names(globals())


_answer_names(globals())
