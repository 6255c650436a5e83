"""Regression as likelihood models: one model fitted by maximum likelihood, by its posterior mode, exactly and by MCMC."""

from probreg import (
    bounds,
    kernels,
    likelihoods,
    online,
    plot,
    priors,
    scores,
)
from probreg.assess.after import (
    diagnose,
    influence_measures,
    power_scaling,
    residuals,
)
from probreg.assess.audit import audit
from probreg.assess.before import check
from probreg.assess.bias_variance import Truth, bias_variance
from probreg.assess.conformal import JackknifePlus, Split, conformal
from probreg.assess.guarantee import guarantee
from probreg.assess.simulation import sbc, simulate
from probreg.comparison import Comparison, compare, compare_models
from probreg.comparison.effects import comparisons, predictions, slopes
from probreg.comparison.explanation import explain
from probreg.comparison.hypotheses import hypothesis
from probreg.comparison.interval_panel import (
    Interval,
    coverage,
    interval_panel,
)
from probreg.comparison.prior_weight import prior_weight
from probreg.comparison.tuning import (
    path,
    tune,
)
from probreg.data import Grouped, weights
from probreg.datasets import (
    describe_dataset,
    list_datasets,
    load_dataset,
)
from probreg.errors import (
    DataError,
    Incompatible,
    NotConverged,
    ProbregError,
    ProbregWarning,
)
from probreg.fits.fit import Fit, fit, load_fit
from probreg.inference import (
    LMS,
    METHODS,
    NUTS,
    SGD,
    Auto,
    Bootstrap,
    ClosedForm,
    Conjugate,
    CoordinateDescent,
    Evidence,
    Importance,
    Integrate,
    LaplaceApproximation,
    Method,
    Newton,
    Perceptron,
    Posterior,
    ProximalNewton,
    Quadrature,
)
from probreg.likelihoods import (
    LIKELIHOODS,
    Bernoulli,
    Binomial,
    Categorical,
    Gaussian,
    Multinomial,
    NegativeBinomial,
    Poisson,
    StudentT,
)
from probreg.model.model import Model
from probreg.priors import (
    LKJ,
    PRIORS,
    Covariance,
    Flat,
    HalfNormal,
    Laplace,
    Normal,
)
from probreg.recipes import (
    ard,
    bayesian_ridge,
    bridge,
    elastic_net,
    firth,
    gam,
    gp,
    kernel_ridge,
    lasso,
    linear_probability,
    logistic,
    ols,
    poisson,
    quantile_regression,
    ridge,
    softmax,
    svr,
)
from probreg.show.publication import table
from probreg.show.report import report

__version__ = "0.1.0"

__all__ = [
    "LIKELIHOODS",
    "LKJ",
    "LMS",
    "METHODS",
    "NUTS",
    "PRIORS",
    "SGD",
    "Auto",
    "Bernoulli",
    "Binomial",
    "Bootstrap",
    "Categorical",
    "ClosedForm",
    "Comparison",
    "Conjugate",
    "CoordinateDescent",
    "Covariance",
    "DataError",
    "Evidence",
    "Fit",
    "Flat",
    "Gaussian",
    "Grouped",
    "HalfNormal",
    "Importance",
    "Incompatible",
    "Integrate",
    "Interval",
    "JackknifePlus",
    "Laplace",
    "LaplaceApproximation",
    "Method",
    "Model",
    "Multinomial",
    "NegativeBinomial",
    "Newton",
    "Normal",
    "NotConverged",
    "Perceptron",
    "Poisson",
    "Posterior",
    "ProbregError",
    "ProbregWarning",
    "ProximalNewton",
    "Quadrature",
    "Split",
    "StudentT",
    "Truth",
    "ard",
    "audit",
    "bayesian_ridge",
    "bias_variance",
    "bounds",
    "bridge",
    "check",
    "compare",
    "compare_models",
    "comparisons",
    "conformal",
    "coverage",
    "describe_dataset",
    "diagnose",
    "elastic_net",
    "explain",
    "firth",
    "fit",
    "gam",
    "gp",
    "guarantee",
    "hypothesis",
    "influence_measures",
    "interval_panel",
    "kernel_ridge",
    "kernels",
    "lasso",
    "likelihoods",
    "linear_probability",
    "list_datasets",
    "load_dataset",
    "load_fit",
    "logistic",
    "ols",
    "online",
    "path",
    "plot",
    "poisson",
    "power_scaling",
    "predictions",
    "prior_weight",
    "priors",
    "quantile_regression",
    "report",
    "residuals",
    "ridge",
    "sbc",
    "scores",
    "simulate",
    "slopes",
    "softmax",
    "svr",
    "table",
    "tune",
    "weights",
]


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
