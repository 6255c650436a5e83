"""Priors p(beta) and p(sigma), one file each. A new prior needs one file and one line here."""

from probreg.peers import answer_names as _answer_names
from probreg.priors.base import (
    PRIORS as PRIORS,
    DataDependentPrior as DataDependentPrior,
    Flat as Flat,
    GaussianPrior as GaussianPrior,
    HierarchicalPrior as HierarchicalPrior,
    Hyper as Hyper,
    LatentPrior as LatentPrior,
    Prior as Prior,
    PriorData as PriorData,
    ProximalPrior as ProximalPrior,
    SmoothPrior as SmoothPrior,
    WholePrior as WholePrior,
)
from probreg.priors.correlations import (
    LKJ as LKJ,
    PartialCorrelation as PartialCorrelation,
)
from probreg.priors.covariance import (
    Covariance as Covariance,
    GroupNormal as GroupNormal,
    VaryingEffects as VaryingEffects,
)
from probreg.priors.elastic_net import ElasticNet as ElasticNet, Laplace as Laplace
from probreg.priors.exponential_power import ExponentialPower as ExponentialPower
from probreg.priors.g_prior import GPrior as GPrior
from probreg.priors.gaussian_process import GaussianProcess as GaussianProcess
from probreg.priors.group_laplace import GroupLaplace as GroupLaplace
from probreg.priors.horseshoe import Horseshoe as Horseshoe
from probreg.priors.jeffreys import FisherPrior as FisherPrior, Jeffreys as Jeffreys
from probreg.priors.joint import (
    BlockPrior as BlockPrior,
    JointPrior as JointPrior,
    joint as joint,
)
from probreg.priors.location_scale import (
    AffinePrior as AffinePrior,
    LocationScale as LocationScale,
)
from probreg.priors.mixture import ScaleMixture as ScaleMixture
from probreg.priors.multivariate import MultivariateNormal as MultivariateNormal
from probreg.priors.normal import Normal as Normal
from probreg.priors.positive import (
    AUX_PRIORS as AUX_PRIORS,
    AuxPrior as AuxPrior,
    Exponential as Exponential,
    Gamma as Gamma,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    HalfStudentT as HalfStudentT,
    InverseGamma as InverseGamma,
    LogNormal as LogNormal,
    Reference as Reference,
    Uniform as Uniform,
)
from probreg.priors.r2 import R2 as R2, BetaPrime as BetaPrime
from probreg.priors.student import Cauchy as Cauchy, StudentT as StudentT
from probreg.registry import public_names as _public_names


def __dir__() -> list[str]:
    return _public_names(globals())


_answer_names(globals())
