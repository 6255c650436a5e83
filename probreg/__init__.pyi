from . import (
    bounds as bounds,
    kernels as kernels,
    likelihoods as likelihoods,
    online as online,
    plot as plot,
    priors as priors,
    scores as scores,
)
from .comparison import (
    Comparison as Comparison,
    compare as compare,
    compare_models as compare_models,
)
from .comparison.attribution import explain as explain
from .comparison.effects.verbs import (
    comparisons as comparisons,
    predictions as predictions,
    slopes as slopes,
)
from .comparison.hypotheses.dispatch import hypothesis as hypothesis
from .comparison.hypotheses.point_estimate import anova as anova
from .comparison.interval_panel import (
    coverage as coverage,
    interval_panel as interval_panel,
)
from .comparison.prior_weight import (
    prior_sensitivity as prior_sensitivity,
    prior_weight as prior_weight,
)
from .comparison.tuning import path as path
from .comparison.tuning.tune import tune as tune, tune_svr as tune_svr
from .data import (
    weights as weights,
)
from .data.censoring import censored as censored
from .datasets import (
    describe_dataset as describe_dataset,
    list_datasets as list_datasets,
    load_dataset as load_dataset,
)
from .diagnostics.after import diagnose as diagnose
from .diagnostics.after.influence import influence_measures as influence_measures
from .diagnostics.after.prior import power_scaling as power_scaling
from .diagnostics.before import check as check
from .diagnostics.bias_variance import (
    bias_variance as bias_variance,
)
from .diagnostics.conformal import (
    JackknifePlus as JackknifePlus,
    Split as Split,
)
from .diagnostics.conformal.conformal import conformal as conformal
from .diagnostics.guarantee.guarantee import guarantee as guarantee
from .diagnostics.simulation.sbc import sbc as sbc
from .diagnostics.simulation.simulate import Truth as Truth, simulate as simulate
from .errors import (
    DataError as DataError,
    Incompatible as Incompatible,
    NotConverged as NotConverged,
    ProbregError as ProbregError,
    ProbregWarning as ProbregWarning,
)
from .fits.fit import (
    Fit as Fit,
    fit as fit,
    load_fit as load_fit,
)
from .fits.residuals import residuals as residuals
from .inference import (
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
    Integrate as Integrate,
    LaplaceApproximation as LaplaceApproximation,
    Method as Method,
    Newton as Newton,
    Perceptron as Perceptron,
    Posterior as Posterior,
    ProximalNewton as ProximalNewton,
    PyMC as PyMC,
    Quadrature as Quadrature,
)
from .likelihoods import (
    LIKELIHOODS as LIKELIHOODS,
    Bernoulli as Bernoulli,
    Beta as Beta,
    BetaBinomial as BetaBinomial,
    Binomial as Binomial,
    Categorical as Categorical,
    Gamma as Gamma,
    Gaussian as Gaussian,
    Hurdle as Hurdle,
    InverseGaussian as InverseGaussian,
    LogLogistic as LogLogistic,
    LogNormal as LogNormal,
    Multinomial as Multinomial,
    NegativeBinomial as NegativeBinomial,
    Ordinal as Ordinal,
    Poisson as Poisson,
    StudentT as StudentT,
    Weibull as Weibull,
    ZeroInflated as ZeroInflated,
)
from .model.model import Model as Model
from .priors import (
    LKJ as LKJ,
    PRIORS as PRIORS,
    Covariance as Covariance,
    Flat as Flat,
    HalfNormal as HalfNormal,
    Laplace as Laplace,
    Normal as Normal,
)
from .recipes import (
    ard as ard,
    bayesian_ridge as bayesian_ridge,
    bridge as bridge,
    elastic_net as elastic_net,
    firth as firth,
    gam as gam,
    gp as gp,
    kernel_ridge as kernel_ridge,
    lasso as lasso,
    linear_probability as linear_probability,
    logistic as logistic,
    ols as ols,
    poisson as poisson,
    quantile_regression as quantile_regression,
    ridge as ridge,
    softmax as softmax,
    svr as svr,
)
from .show.publication import table as table
from .show.report import report as report
from .show.table_one import table_one as table_one

__version__: str
