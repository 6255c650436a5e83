"""Evidence for a cause that the table does not hold: the sandwich beside the model's own errors, and chains.

Each is read from one fit, by parameter; nothing where it does not apply.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.comparison.same_question import number_of_observations
from probreg.errors import Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.inference.base import Status, markov
from probreg.likelihoods import SmoothLikelihood

Array = np.ndarray
MANY_DIVERGENCES = 0.01  # of the draws
_TROUBLED = (Status.UNMIXED, Status.UNSETTLED)


def sandwich_ratios(fit: Fit) -> dict[str, float]:
    """SE by the sandwich HC2 over the SE of the model, by coefficient; both estimate one spread where the model is right
    (White 1982), and for least squares both without bias: HC3 and RSS/n would differ in few rows of a right model too. Empty
    for a posterior, for a mode with a prior, whose sandwich holds the prior too, for fits without rows and where there is no
    sandwich."""
    if fit.target != "mode" or not fit.model.flat or not fit.model.design.n:
        return {}
    if not isinstance(fit.model.likelihood, SmoothLikelihood):
        return {}
    try:
        robust = fit.covariance("HC2")
        own = _model_covariance(fit)
    except ProbregError:
        return {}
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.sqrt(np.diagonal(robust.values) / np.diagonal(own.values))
    return dict(zip(fit.parameter_names, ratio.tolist()))


def _model_covariance(fit: Fit) -> Any:
    try:
        return fit.covariance("classical")
    except Incompatible:
        return fit.covariance("observed")


def freedom(fit: Fit) -> float:
    """Observations beyond the coefficients; 0 where a fit does not know its rows."""
    return max((number_of_observations(fit) or 0.0) - len(fit.parameter_names), 0.0)


def ratio_differs(ratio: float, df: float) -> bool:
    """Return whether the ratio differs from 1 by a quarter and by three of its standard errors, 1 / sqrt(2 df) for normal
    residuals with df degrees of freedom."""
    if ratio > 0 and df > 0:
        return bool(abs(np.log(ratio)) > max(np.log(1.25), 3.0 / np.sqrt(2.0 * df)))
    return False


def r_hats(fit: Fit) -> Mapping[str, float]:
    """R-hat of every parameter of a sampled posterior; empty for what was not sampled by a chain."""
    if not markov(fit.method, fit.solution):
        return {}
    table = fit.summary()
    names = [
        " ".join(map(str, i)) if isinstance(i, tuple) else str(i) for i in table.index
    ]
    return dict(zip(names, table["r_hat"].tolist()))


def is_troubled(fit: Fit) -> bool:
    """Return whether the draws as a whole can be wrong: by the status, or by many divergences.

    A few divergences in chains that agree do not move an estimate: the status reports them, and they explain no difference.
    """
    draws = fit.solution.draws
    if fit.solution.status in _TROUBLED:
        return True
    return draws is not None and divergences(fit) > MANY_DIVERGENCES * draws.count


def divergences(fit: Fit) -> int:
    """Steps of the sampler that left the level of their energy."""
    draws = fit.solution.draws
    if draws is None:
        return 0
    return int(np.sum(draws.stats.get("diverging", 0)))
