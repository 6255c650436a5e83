"""Regression as likelihood models: one model fitted by maximum likelihood, by its posterior mode, exactly and by MCMC."""

from probreg import likelihoods as likelihoods, online as online, plot as plot, priors as priors
from probreg.check import check as check
from probreg.compare import Comparison as Comparison, compare as compare
from probreg.datasets import (
    describe_dataset as describe_dataset,
    list_datasets as list_datasets,
    load_dataset as load_dataset,
)
from probreg.errors import (
    DataError as DataError,
    Incompatible as Incompatible,
    NotConverged as NotConverged,
    ProbregError as ProbregError,
    ProbregWarning as ProbregWarning,
)
from probreg.fit import Fit as Fit, fit as fit, load_fit as load_fit
from probreg.inference import (
    LMS as LMS,
    METHODS as METHODS,
    NUTS as NUTS,
    SGD as SGD,
    Auto as Auto,
    ClosedForm as ClosedForm,
    Conjugate as Conjugate,
    LaplaceApproximation as LaplaceApproximation,
    Method as Method,
    Newton as Newton,
    Perceptron as Perceptron,
    Quadrature as Quadrature,
)
from probreg.likelihoods import (
    LIKELIHOODS as LIKELIHOODS,
    Bernoulli as Bernoulli,
    Categorical as Categorical,
    Gaussian as Gaussian,
    Poisson as Poisson,
    StudentT as StudentT,
)
from probreg.model import Model as Model
from probreg.priors import (
    PRIORS as PRIORS,
    Cauchy as Cauchy,
    ElasticNet as ElasticNet,
    Exponential as Exponential,
    ExponentialPower as ExponentialPower,
    Flat as Flat,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    HalfStudentT as HalfStudentT,
    InverseGamma as InverseGamma,
    Jeffreys as Jeffreys,
    Laplace as Laplace,
    Normal as Normal,
    Reference as Reference,
    Uniform as Uniform,
)
from probreg.recipes import (
    logistic as logistic,
    ols as ols,
    poisson as poisson,
    ridge as ridge,
    softmax as softmax,
)
from probreg.report import report as report

__version__ = "0.1.0"
