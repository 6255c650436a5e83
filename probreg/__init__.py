"""Regression as likelihood models: one model fitted by maximum likelihood, by its posterior mode, exactly and by MCMC."""

from probreg import (
    likelihoods as likelihoods,
    online as online,
    plot as plot,
    priors as priors,
    scores as scores,
)
from probreg.assess.after import (
    diagnose as diagnose,
    measures as measures,
    power_scaling as power_scaling,
    residuals as residuals,
)
from probreg.assess.audit import Audit as Audit, audit as audit
from probreg.assess.before import check as check
from probreg.assess.bias_variance import Truth as Truth, bias_variance as bias_variance
from probreg.assess.conformal import JackknifePlus as JackknifePlus, Split as Split, conformal as conformal
from probreg.assess.simulation import SBC as SBC, sbc as sbc, simulate as simulate
from probreg.comparison import Comparison as Comparison, compare as compare, compare_models as compare_models
from probreg.comparison.effects import comparisons as comparisons, predictions as predictions, slopes as slopes
from probreg.comparison.hypotheses import hypothesis as hypothesis
from probreg.comparison.interval_panel import Interval as Interval, coverage as coverage, panel as panel
from probreg.comparison.prior_weight import influence as influence
from probreg.comparison.tuning import Choice as Choice, Path as Path, choose as choose, path as path
from probreg.data import weights as weights
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
from probreg.fits.fit import Fit as Fit, fit as fit, load_fit as load_fit
from probreg.inference import (
    LMS as LMS,
    METHODS as METHODS,
    NUTS as NUTS,
    SGD as SGD,
    Auto as Auto,
    Bootstrap as Bootstrap,
    ClosedForm as ClosedForm,
    Conjugate as Conjugate,
    CoordinateDescent as CoordinateDescent,
    Evidence as Evidence,
    Importance as Importance,
    LaplaceApproximation as LaplaceApproximation,
    Method as Method,
    Newton as Newton,
    Perceptron as Perceptron,
    Posterior as Posterior,
    ProximalNewton as ProximalNewton,
    Quadrature as Quadrature,
)
from probreg.likelihoods import (
    LIKELIHOODS as LIKELIHOODS,
    Bernoulli as Bernoulli,
    Binomial as Binomial,
    Categorical as Categorical,
    Gaussian as Gaussian,
    Multinomial as Multinomial,
    Poisson as Poisson,
    StudentT as StudentT,
)
from probreg.model.model import Model as Model
from probreg.priors import (
    PRIORS as PRIORS,
    R2 as R2,
    BetaPrime as BetaPrime,
    Cauchy as Cauchy,
    ElasticNet as ElasticNet,
    Exponential as Exponential,
    ExponentialPower as ExponentialPower,
    Flat as Flat,
    GPrior as GPrior,
    HalfCauchy as HalfCauchy,
    HalfNormal as HalfNormal,
    HalfStudentT as HalfStudentT,
    Horseshoe as Horseshoe,
    InverseGamma as InverseGamma,
    Jeffreys as Jeffreys,
    Laplace as Laplace,
    LogNormal as LogNormal,
    MultivariateNormal as MultivariateNormal,
    Normal as Normal,
    Reference as Reference,
    Uniform as Uniform,
)
from probreg.recipes import (
    ard as ard,
    bayesian_ridge as bayesian_ridge,
    bridge as bridge,
    elastic_net as elastic_net,
    firth as firth,
    lasso as lasso,
    logistic as logistic,
    ols as ols,
    poisson as poisson,
    ridge as ridge,
    softmax as softmax,
)
from probreg.show.report import report as report

__version__ = "0.1.0"
