"""Regression as likelihood models: one model fitted by maximum likelihood, by its posterior mode, exactly and by MCMC.

A public name is imported when it is first used: `import probreg` alone loads nothing else, not even NumPy.
"""

from typing import TYPE_CHECKING, Any

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

if (
    TYPE_CHECKING
):  # what editors and type checkers read; a law holds it equal to the table below
    from probreg import bounds, kernels, likelihoods, online, plot, priors, scores
    from probreg.assess.after import diagnose
    from probreg.assess.after.influence_measures import influence_measures
    from probreg.assess.after.power_scaling import power_scaling
    from probreg.assess.after.residuals import residuals
    from probreg.assess.before import check
    from probreg.assess.bias_variance import Truth, bias_variance
    from probreg.assess.conformal import JackknifePlus, Split
    from probreg.assess.conformal.conformal import conformal
    from probreg.assess.guarantee.guarantee import guarantee
    from probreg.assess.simulation.sbc import sbc
    from probreg.assess.simulation.simulate import simulate
    from probreg.comparison import Comparison, compare, compare_models
    from probreg.comparison.effects import comparisons, predictions, slopes
    from probreg.comparison.explanation import explain
    from probreg.comparison.hypotheses import hypothesis
    from probreg.comparison.interval_panel import Interval, interval_panel
    from probreg.comparison.interval_panel.coverage import coverage
    from probreg.comparison.prior_weight import prior_weight
    from probreg.comparison.tuning import path
    from probreg.comparison.tuning.tune import tune
    from probreg.data import Grouped, weights
    from probreg.datasets import describe_dataset, list_datasets, load_dataset
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

# Where each name of __all__ comes from; the others are modules of this package.
_FROM = {
    "probreg.assess.after": "diagnose",
    "probreg.assess.after.influence_measures": "influence_measures",
    "probreg.assess.after.power_scaling": "power_scaling",
    "probreg.assess.after.residuals": "residuals",
    "probreg.assess.before": "check",
    "probreg.assess.bias_variance": "Truth bias_variance",
    "probreg.assess.conformal": "JackknifePlus Split",
    "probreg.assess.conformal.conformal": "conformal",
    "probreg.assess.guarantee.guarantee": "guarantee",
    "probreg.assess.simulation.sbc": "sbc",
    "probreg.assess.simulation.simulate": "simulate",
    "probreg.comparison": "Comparison compare compare_models",
    "probreg.comparison.effects": "comparisons predictions slopes",
    "probreg.comparison.explanation": "explain",
    "probreg.comparison.hypotheses": "hypothesis",
    "probreg.comparison.interval_panel": "Interval interval_panel",
    "probreg.comparison.interval_panel.coverage": "coverage",
    "probreg.comparison.prior_weight": "prior_weight",
    "probreg.comparison.tuning": "path",
    "probreg.comparison.tuning.tune": "tune",
    "probreg.data": "Grouped weights",
    "probreg.datasets": "describe_dataset list_datasets load_dataset",
    "probreg.errors": "DataError Incompatible NotConverged ProbregError ProbregWarning",
    "probreg.fits.fit": "Fit fit load_fit",
    "probreg.inference": "LMS METHODS NUTS SGD Auto Bootstrap ClosedForm Conjugate CoordinateDescent Evidence Importance Integrate LaplaceApproximation Method Newton Perceptron Posterior ProximalNewton Quadrature",
    "probreg.likelihoods": "LIKELIHOODS Bernoulli Binomial Categorical Gaussian Multinomial NegativeBinomial Poisson StudentT",
    "probreg.model.model": "Model",
    "probreg.priors": "LKJ PRIORS Covariance Flat HalfNormal Laplace Normal",
    "probreg.recipes": "ard bayesian_ridge bridge elastic_net firth gam gp kernel_ridge lasso linear_probability logistic ols poisson quantile_regression ridge softmax svr",
    "probreg.show.publication": "table",
    "probreg.show.report": "report",
}


def _imported(name: str) -> Any:
    """The public name, or the room of the package, that is used for the first time."""
    from importlib import import_module

    home = next(
        (module for module, names in _FROM.items() if name in names.split()), None
    )
    if home is not None:
        return getattr(import_module(home), name)
    try:
        return import_module(f"probreg.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"probreg.{name}":
            raise
    raise AttributeError(f"module 'probreg' has no attribute {name!r}")


if not TYPE_CHECKING:  # a checker would take every name for one that is there

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module 'probreg' has no attribute {name!r}")
        globals()[name] = found = _imported(name)
        return found


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
