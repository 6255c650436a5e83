"""Why two fits with effects that vary by a group differ, step by step: each step is a fit that changes one thing.

    ML  --degrees of freedom of the mean-->  REML  --prior of the standard deviations-->  mode of the standard deviations under
    their prior  --uncertainty of the standard deviations-->  posterior

The order is fixed because each answer builds on the one before; a step that changes nothing is left out. If coefficients have
other priors too, the second step changes all priors.
"""

from itertools import pairwise

from probreg.comparison.causes import Cause, SpecificCause
from probreg.comparison.differences import FitPair
from probreg.comparison.numbers import Estimates, Step
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import Evidence
from probreg.inference.base import has_effects

_ORDER = (Cause.MEAN_DF, Cause.SCALE_PRIOR, Cause.SCALE_UNCERTAINTY)
_OTHER = {Cause.LIKELIHOOD, Cause.PARAMETER_PRIOR, Cause.FIXED_PARAMETER}


def scale_steps(
    pair: FitPair, aux: tuple[str, ...]
) -> dict[SpecificCause, Step] | None:
    """Return the steps of the estimates and of log SE by cause; None if the fits differ in more, or a step has no maximum."""
    a, b = pair.fits
    causes = set(pair.differences)
    if a.target == b.target == "mode" and Cause.COVARIANCE in causes:
        return None
    if not (has_effects(a.model) and has_effects(b.model)):
        return None
    if causes & _OTHER or not causes & {*_ORDER, Cause.PRIOR}:
        return None
    ranks = _rank(a), _rank(b)
    if ranks[0] == ranks[1] != 1:
        return None
    if ranks[0] <= ranks[1]:
        return _steps(a, b, causes, aux)
    reverse = _steps(b, a, causes, aux)
    if reverse is None:
        return None
    return {cause: -step for cause, step in reversed(reverse.items())}


def _rank(fit: Fit) -> int:
    """Return the place of a fit in the order ML, REML, posterior."""
    if fit.solution.effect_scales is None:
        return 2
    return int(fit.solution.effect_scales.criterion == "REML")


def _steps(
    a: Fit, b: Fit, differ: set[Cause], aux: tuple[str, ...]
) -> dict[SpecificCause, Step] | None:
    """Return the steps from a to b, which is later in the order: each is to a fit that changes one thing."""
    both_priors = Cause.PRIOR in differ  # of coefficients and scales in one step
    changing = differ | ({Cause.SCALE_PRIOR} if both_priors else set())
    causes = [cause for cause in _ORDER if cause in changing]
    estimates = [Estimates.of(a, aux)]
    try:
        for cause in causes[:-1]:
            model = (a if cause is Cause.MEAN_DF else b).stated_model
            estimates.append(Estimates.of(fit_model(model, Evidence()), aux))
    except ProbregError:
        return None
    estimates.append(Estimates.of(b, aux))
    steps = {}
    for cause, (start, end) in zip(causes, pairwise(estimates), strict=True):
        of_all = both_priors and cause is Cause.SCALE_PRIOR
        steps[SpecificCause(Cause.PRIOR if of_all else cause)] = start.step_to(end)
    return steps
