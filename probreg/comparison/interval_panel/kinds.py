"""The available intervals of a fit, by name."""

from collections.abc import Iterable

import numpy as np

from probreg.arguments.scalars import shown_value
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.inference import Bootstrap, Conjugate, Method
from probreg.model.model import Model

Array = np.ndarray
# kinds of `Fit.interval`, and HC3, the default kind with that covariance
INTERVALS = ("t", "wald", "HC3", "profile", "score", "bootstrap", "eti", "hdi")


def check_kinds(kinds: Iterable[str]) -> list[str]:
    """Return the names as a list. DataError for an unknown name."""
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise DataError(
            f"kinds is a list of names, such as ['t'], got {shown_value(kinds)}"
        )
    names = list(kinds)
    wrong = [name for name in names if name not in INTERVALS]
    if wrong or not names:
        problem = f"no interval is called {wrong[0]!r}" if wrong else "kinds is empty"
        raise DataError(f"{problem}; there are: {', '.join(INTERVALS)}")
    return names


def interval_ends(fit: Fit, kind: str, prob: float) -> Array:
    """Return the lower and the upper ends of all coefficients, (2, k); errors as in `Fit.interval`."""
    if kind == "HC3":
        interval = fit.interval(prob, covariance=kind)
    else:
        interval = fit.interval(prob, kind=kind)
    return np.array([interval[end].values.ravel() for end in ("lower", "upper")])


def method_of(kind: str, model: Model) -> str | Method:
    """Return the method of the fits in a simulation of this interval."""
    if kind == "bootstrap":
        return Bootstrap(reps=199)
    if kind not in ("eti", "hdi"):
        return "auto"
    return "laplace" if Conjugate().obstacle(model) else "conjugate"
