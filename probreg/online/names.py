"""Every public name of this room, loaded when the first of them is asked for."""

from probreg.online.guarantee import (
    Assumption as Assumption,
    Guarantee as Guarantee,
    additive_step as additive_step,
    multiplicative_step as multiplicative_step,
    risk_bound as risk_bound,
)
from probreg.online.learner import (
    Diverged as Diverged,
    Gradient as Gradient,
    Learner as Learner,
    StreamError as StreamError,
)
from probreg.online.losses import (
    ABSOLUTE as ABSOLUTE,
    BINOMIAL as BINOMIAL,
    HINGE as HINGE,
    INSENSITIVE as INSENSITIVE,
    LOGISTIC as LOGISTIC,
    LOSSES as LOSSES,
    PERCEPTRON as PERCEPTRON,
    POISSON as POISSON,
    SQUARED as SQUARED,
    Loss as Loss,
    hinge as hinge,
    insensitive as insensitive,
    perceptron_loss as perceptron_loss,
)
from probreg.online.machines import (
    aggregate as aggregate,
    dual_svr as dual_svr,
    kernel as kernel,
    kernel_rls as kernel_rls,
)
from probreg.online.parts import (
    Euclid as Euclid,
    Geometry as Geometry,
    Info as Info,
    Positive as Positive,
    Rate as Rate,
    Signed as Signed,
    Simplex as Simplex,
    State as State,
    adagrad as adagrad,
    constant as constant,
    inverse_sqrt as inverse_sqrt,
    inverse_time as inverse_time,
    project as project,
)
from probreg.online.recipes import (
    LEARNERS as LEARNERS,
    adaline as adaline,
    affine_projection as affine_projection,
    batch_perceptron as batch_perceptron,
    binomial as binomial,
    descent as descent,
    eg as eg,
    eg_pm as eg_pm,
    eg_positive as eg_positive,
    implicit_lms as implicit_lms,
    lms as lms,
    logistic as logistic,
    nlms as nlms,
    passive_aggressive as passive_aggressive,
    passive_aggressive_regression as passive_aggressive_regression,
    perceptron as perceptron,
    rls as rls,
    softmax as softmax,
    winnow as winnow,
)
from probreg.online.result import Regret as Regret, Run as Run
from probreg.online.rounds import RunStatus as RunStatus, Totals as Totals
from probreg.online.second_order import (
    RLS as RLS,
    AffineProjection as AffineProjection,
    Softmax as Softmax,
)
from probreg.online.signals import (
    Lagged as Lagged,
    echo_return_loss as echo_return_loss,
    lags as lags,
)
from probreg.online.sources import CSV as CSV, Parquet as Parquet
from probreg.online.standardise import Standardised as Standardised
from probreg.online.stream import Record as Record, run as run
from probreg.online.theorems import (
    Corrections as Corrections,
    novikoff as novikoff,
    widrow_hoff_pass as widrow_hoff_pass,
)
