"""Why two fits with effects that vary by a group differ, step by step: each step is a fit that changes one thing.

    ML  --degrees of freedom of the mean-->  REML  --prior of the standard deviations-->  mode of the standard deviations under
    their prior  --uncertainty of the standard deviations-->  posterior

The order is that in which the three answers are built on one another; a step that changes nothing is left out. Where coefficients have
other priors too, the second step is of all priors.
"""

from itertools import pairwise

import numpy as np

from probreg.comparison.differences import (
    AVERAGED,
    DEGREES,
    PRIOR_OF_SD,
    find_differences,
)
from probreg.comparison.method_steps import Estimates, Step
from probreg.comparison.prior_terms import stated_model
from probreg.errors import ProbregError
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import Evidence
from probreg.inference.base import has_effects

_ORDER = (DEGREES, PRIOR_OF_SD, AVERAGED)
_ALIKE = frozenset(
    {"likelihood", "prior of sigma", "sigma held"}
)  # in what they may not differ


def scale_steps(a: Fit, b: Fit, aux: tuple[str, ...]) -> dict[str, Step] | None:
    """By cause, the step of the estimates and of log SE from a to b; None where they differ in more, or a step has no maximum."""
    apart = find_differences(a, b)
    if a.target == b.target == "mode" and "covariance" in apart:
        return None
    if (
        not has_effects(a.model)
        or not has_effects(b.model)
        or apart & _ALIKE
        or not apart & {*_ORDER, "prior"}
    ):
        return None
    if _built_on(a, b):
        return _steps(a, b, apart, aux)
    if _built_on(b, a):
        back = _steps(b, a, apart, aux)
    else:
        back = None
    if back is None:
        return None
    return {name: (-shift, -log_se) for name, (shift, log_se) in reversed(back.items())}


def _built_on(a: Fit, b: Fit) -> bool:
    """Whether b stands behind a in ML, REML, posterior."""

    def rank(fit: Fit) -> int:
        if fit.solution.found is None:
            return 2
        return int(fit.solution.found.criterion == "REML")

    return rank(a) < rank(b) or (rank(a) == rank(b) == 1)


def _steps(
    a: Fit, b: Fit, apart: set[str], aux: tuple[str, ...]
) -> dict[str, Step] | None:
    if "prior" in apart:
        apart = apart | {PRIOR_OF_SD}
    causes = [name for name in _ORDER if name in apart]
    at = [Estimates.of(a, aux)]
    try:
        for cause in causes[:-1]:
            if cause == DEGREES:
                model = stated_model(a)
            else:
                model = stated_model(b)
            at.append(Estimates.of(fit_model(model, Evidence()), aux))
    except ProbregError:
        return None
    at.append(Estimates.of(b, aux))
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = [
            (there.value - here.value, np.log(there.error / here.error))
            for here, there in pairwise(at)
        ]
    called = (
        {PRIOR_OF_SD: "prior"} if "prior" in apart else {}
    )  # of coefficients and scales at once
    return {
        called.get(name, name): step for name, step in zip(causes, steps, strict=True)
    }
