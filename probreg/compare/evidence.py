"""Evidence for a cause that the table does not hold: the sandwich beside the model's own errors, arms of a profile, chains.

Each is read from one fit, by parameter; nothing where it does not apply.
"""

from collections.abc import Mapping

import numpy as np

from probreg.errors import ProbregError
from probreg.fit import Fit
from probreg.likelihoods import SmoothLikelihood

Array = np.ndarray
_FEW = 12  # coefficients whose profile is traced for one sentence


def sandwich_ratios(fit: Fit) -> dict[str, float]:
    """SE by the sandwich HC3 over the SE of the model, by coefficient; both estimate one spread where the model is right
    (White 1982). Empty for a posterior, for fits without rows and where there is no sandwich."""
    if fit.target != "mode" or not fit.model.design.n or not isinstance(fit.model.likelihood, SmoothLikelihood):
        return {}
    try:
        robust, own = fit.covariance("HC3"), fit.covariance()
    except ProbregError:
        return {}
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(np.diagonal(robust.values) / np.diagonal(own.values))
    return dict(zip(fit.parameter_names, ratio.tolist()))


def telling(ratio: float, n: float) -> bool:
    """The ratio is off by a quarter and by three of its own standard errors, 1 / sqrt(2 n) each for normal residuals."""
    return bool(abs(np.log(ratio)) > max(np.log(1.25), 3.0 / np.sqrt(2.0 * n))) if ratio > 0 and n > 0 else False


def profile_arms(fit: Fit, prob: float) -> dict[str, float]:
    """Upper over lower arm of the profile interval, by coefficient: 1 where the log posterior is quadratic."""
    smooth = isinstance(fit.model.likelihood, SmoothLikelihood) and bool(fit.model.design.n)
    if fit.target != "mode" or not smooth or fit.coef.size > _FEW:
        return {}
    try:
        ends = fit.interval(prob, "profile")
    except ProbregError:
        return {}
    at = fit.coef.values
    with np.errstate(invalid="ignore", divide="ignore"):
        arms = (ends["upper"].values - at) / (at - ends["lower"].values)
    return dict(zip(fit.parameter_names, arms.ravel().tolist()))


def mixing(fit: Fit) -> Mapping[str, float]:
    """R-hat of every parameter of a sampled posterior; empty for what was not sampled by a chain."""
    if "diverging" not in fit.solution.sample_stats:
        return {}
    table = fit.summary()
    names = [" ".join(map(str, i)) if isinstance(i, tuple) else str(i) for i in table.index]
    return dict(zip(names, table["r_hat"].tolist()))


def divergences(fit: Fit) -> int:
    """Steps of the sampler that left the level of their energy."""
    return int(np.sum(fit.solution.sample_stats.get("diverging", 0)))
