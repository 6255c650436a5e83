"""Online learning: predict, see y, compute the loss, update. A learner is a loss, a geometry and a rate; theorems are objects."""

from probreg.online.guarantee import (
    Assumption as Assumption,
    Guarantee as Guarantee,
    additive_step as additive_step,
    multiplicative_step as multiplicative_step,
)
from probreg.online.learner import (
    RLS as RLS,
    Diverged as Diverged,
    Gradient as Gradient,
    Learner as Learner,
    StreamError as StreamError,
)
from probreg.online.recipes import (
    LEARNERS as LEARNERS,
    descent as descent,
    eg as eg,
    eg_pm as eg_pm,
    implicit_lms as implicit_lms,
    kernel as kernel,
    lms as lms,
    logistic as logistic,
    nlms as nlms,
    perceptron as perceptron,
    rls as rls,
)
from probreg.online.result import Regret as Regret, Run as Run
from probreg.online.rounds import RunStatus as RunStatus, Totals as Totals
from probreg.online.signals import (
    Lagged as Lagged,
    echo_return_loss as echo_return_loss,
    lags as lags,
)
from probreg.online.stream import Record as Record, run as run
from probreg.online.theorems import widrow_hoff_pass as widrow_hoff_pass
from probreg.online.updates import (
    ABSOLUTE as ABSOLUTE,
    HINGE as HINGE,
    INSENSITIVE as INSENSITIVE,
    LOGISTIC as LOGISTIC,
    LOSSES as LOSSES,
    PERCEPTRON as PERCEPTRON,
    SQUARED as SQUARED,
    Euclid as Euclid,
    Geometry as Geometry,
    Info as Info,
    Loss as Loss,
    Rate as Rate,
    Signed as Signed,
    Simplex as Simplex,
    State as State,
    constant as constant,
    hinge as hinge,
    insensitive as insensitive,
    inverse_sqrt as inverse_sqrt,
)
from probreg.registry import public_names as _public_names


def __dir__() -> list[str]:
    return _public_names(globals())
