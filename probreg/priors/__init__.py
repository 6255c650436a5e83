"""The second half of a model: p(beta) and p(sigma), one file each. Adding one is one file and one line here."""

from probreg.priors.base import (
    PRIORS as PRIORS,
    GaussianPrior as GaussianPrior,
    Penalty as Penalty,
    Prior as Prior,
)
from probreg.priors.flat import Flat as Flat
from probreg.priors.joint import Block as Block, JointPrior as JointPrior, joint as joint
from probreg.priors.laplace import Laplace as Laplace
from probreg.priors.normal import Normal as Normal
from probreg.priors.positive import (
    AUX_PRIORS as AUX_PRIORS,
    AuxPrior as AuxPrior,
    Exponential as Exponential,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    HalfStudentT as HalfStudentT,
    InverseGamma as InverseGamma,
    Reference as Reference,
    Uniform as Uniform,
)
from probreg.priors.student import StudentT as StudentT
