"""Text for the causes of a difference: how each fit differs in a cause, and the size of a share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.comparison.causes import Cause, SpecificCause
from probreg.comparison.differences import summary
from probreg.comparison.prior_terms import (
    aux_prior_words,
    scale_prior_words,
    scale_priors,
)
from probreg.comparison.same_question import method_name
from probreg.fits.fit import Fit
from probreg.inference import Status
from probreg.inference.uncertainty.covariance import reported_words
from probreg.inference.uncertainty.intervals.kinds import KIND_WORDS
from probreg.model.descriptions import prior_line
from probreg.priors import AuxPrior
from probreg.system.terminal import cut_text

# SE, or of the log SE ratio, from which a share is not printed as 0: it has three decimals
SMALLEST_SHARE = 5e-4
_SUMMARIES = {
    "mode": "mode",
    "normal at the mode": "normal approximation at the mode",
    "posterior": "posterior mean",
}


def share_text(
    label: str, shift: float, log_se: float, difference: float, log_ratio: float
) -> str:
    """Describe the share of a cause in a difference of estimates (in SE) and in the log of an SE ratio, without a share of zero.

    >>> share_text("skewness", 0.2, 0.0001, 0.25, -0.1), share_text("covariance", 0.0, 0.1, 0.25, 0.1)
    ('skewness: shift +0.2 of +0.25 SE', 'covariance: SE ratio 1.11')
    """
    shifts = dict.fromkeys([f"{v:+.2g}" for v in (shift, difference)])
    logs = [v for v in (log_se, log_ratio) if np.isfinite(v)]
    ratios = dict.fromkeys([f"{np.exp(v):.3g}" for v in logs])
    parts = []
    if abs(log_se) >= SMALLEST_SHARE:
        parts.append(f"SE ratio {' of '.join(ratios)}")
    if abs(shift) >= SMALLEST_SHARE or not parts:
        parts.insert(0, f"shift {' of '.join(shifts)} SE")
    return f"{label}: {', '.join(parts)}"


def missing_estimate(fit: Fit) -> tuple[Cause, str]:
    """Return the cause of a missing estimate and its description."""
    status = fit.solution.status
    separated = status is Status.NO_MAXIMUM
    text = cut_text(fit.solution.detail or status.value, 80)
    return (Cause.SEPARATION if separated else Cause.IDENTIFICATION), text


def setting_text(cause: SpecificCause, fit: Fit, row: Mapping[str, Any]) -> str:
    """Return the setting of a fit that a cause concerns; `row` has its numbers of one parameter."""
    s = fit.solution
    match cause.cause:
        case Cause.PRIOR:
            return cut_text(prior_line(fit.stated_model), 80)
        case Cause.PARAMETER_PRIOR | Cause.FIXED_PARAMETER:
            return aux_prior_words(fit.stated_model, cause.subject)
        case Cause.SCALE_PRIOR:
            return _scale_prior_text(scale_priors(fit).get(cause.subject), cause)
        case Cause.LIKELIHOOD:
            return repr(fit.model.likelihood)
        case Cause.MEAN_DF | Cause.SCALE_UNCERTAINTY:
            return method_name(fit)
        case Cause.SKEWNESS | Cause.APPROXIMATION:
            return _SUMMARIES[summary(fit)]
        case Cause.SMALL_SAMPLE:
            return _degrees_of_freedom_text(fit)
        case Cause.COVARIANCE:
            return f"{reported_words(fit.model, fit.method, s)['kind']} covariance"
        case Cause.MONTE_CARLO:
            return _monte_carlo_text(fit, row)
        case Cause.CONVERGENCE if s.stats.get("distance", 0.0) > 0:
            return f"{s.stats['distance']:.2g} SE from the mode"
        case Cause.INTERVAL:
            return KIND_WORDS.get(str(row["kind"]), str(row["kind"]))
        case _:
            return cut_text(s.status.value + (f" ({s.detail})" if s.detail else ""), 80)


def _scale_prior_text(prior: AuxPrior | None, cause: SpecificCause) -> str:
    """Describe the prior of a scale; without one it is fixed, or not in the model."""
    if prior is None:
        return f"{cause.subject} not estimated"
    return f"{scale_prior_words(prior)} for {cause.subject}"


def _degrees_of_freedom_text(fit: Fit) -> str:
    """Describe the degrees of freedom of a fit."""
    if fit.target == "posterior" and fit.model.noise_unknown:
        return "sigma integrated out"
    df = fit.solution.df
    return f"{df:g} degrees of freedom" if df else "no degrees of freedom"


def _monte_carlo_text(fit: Fit, row: Mapping[str, Any]) -> str:
    """Describe the number of replicates, or the Monte Carlo error of an estimate."""
    replicates = fit.solution.replicates
    if replicates is not None:
        return f"{len(replicates['coef'])} replicates"
    return f"Monte Carlo error {np.nan_to_num(row['mcse']):.2g}"
