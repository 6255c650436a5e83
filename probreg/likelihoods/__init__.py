"""Likelihoods p(y | eta, aux), one file for each family or for a few related ones.

A new likelihood needs one class in a file, one line here and its name in `LikelihoodName`, for completion in editors.
"""

from probreg.likelihoods.base import (
    LIKELIHOODS as LIKELIHOODS,
    DifferentiableLikelihood as DifferentiableLikelihood,
    ExponentialFamily as ExponentialFamily,
    IntervalLikelihood as IntervalLikelihood,
    Likelihood as Likelihood,
    LikelihoodName as LikelihoodName,
    MayDiverge as MayDiverge,
    MeanByLink as MeanByLink,
    OfClasses as OfClasses,
    OfTrials as OfTrials,
    ProximalLikelihood as ProximalLikelihood,
    Recession as Recession,
    Reported as Reported,
    SmoothLikelihood as SmoothLikelihood,
    UnivariateLikelihood as UnivariateLikelihood,
    ValueGradHessian as ValueGradHessian,
)
from probreg.likelihoods.beta import Beta as Beta
from probreg.likelihoods.binomial import (
    Bernoulli as Bernoulli,
    BetaBinomial as BetaBinomial,
    Binomial as Binomial,
)
from probreg.likelihoods.censored import Censored as Censored
from probreg.likelihoods.counts import (
    CountLikelihood as CountLikelihood,
    NegativeBinomial as NegativeBinomial,
    Poisson as Poisson,
)
from probreg.likelihoods.gaussian import Gaussian as Gaussian
from probreg.likelihoods.huber import Huber as Huber
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood as LocationScaleLikelihood,
    LogLocationScaleLikelihood as LogLocationScaleLikelihood,
)
from probreg.likelihoods.log_normal import LogNormal as LogNormal
from probreg.likelihoods.ordinal import Ordinal as Ordinal
from probreg.likelihoods.piecewise_linear import (
    AbsoluteLoss as AbsoluteLoss,
    EpsilonInsensitive as EpsilonInsensitive,
    PiecewiseLinearLikelihood as PiecewiseLinearLikelihood,
    Quantile as Quantile,
)
from probreg.likelihoods.positive import (
    Gamma as Gamma,
    InverseGaussian as InverseGaussian,
)
from probreg.likelihoods.power import PowerNoise as PowerNoise
from probreg.likelihoods.softmax import (
    Categorical as Categorical,
    Multinomial as Multinomial,
    SoftmaxLikelihood as SoftmaxLikelihood,
)
from probreg.likelihoods.student import StudentT as StudentT
from probreg.likelihoods.survival import (
    Exponential as Exponential,
    LogLogistic as LogLogistic,
    Weibull as Weibull,
)
from probreg.likelihoods.truncated import Truncated as Truncated
from probreg.likelihoods.zeros import (
    Hurdle as Hurdle,
    ZeroInflated as ZeroInflated,
)
from probreg.peers import answer_names as _answer_names
from probreg.registry import public_names as _public_names


def __dir__() -> list[str]:
    return _public_names(globals())


_answer_names(globals())
