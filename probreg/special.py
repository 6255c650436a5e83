"""SciPy's special functions by name, for modules that every fit imports: `scipy.special` takes 0.04 s to import, and is imported when
the first of them is called. Least squares and logistic regression call none.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy

LOG_2PI = math.log(2.0 * math.pi)


def __getattr__(name: str) -> Any:
    """Return the function of this name of `scipy.special`, which the first call imports."""
    if name.startswith(("_", "pytest_")):  # what interpreters and pytest ask for
        raise AttributeError(name)
    return _on_use(name)


@cache
def _on_use(name: str) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        return getattr(scipy.special, name)(*args, **named)

    function.__name__ = function.__qualname__ = name
    return function


def log1mexp(x: Any) -> Any:
    """log(1 - exp(-x)) of x >= 0, without the difference of near numbers (Maechler 2012)."""
    x = np.asarray(x, dtype=float)
    with np.errstate(divide="ignore"):
        return np.where(x < math.log(2.0), np.log(-np.expm1(-x)), np.log1p(-np.exp(-x)))


def differentiate(f: Callable[[float], Any], step: float) -> Any:
    """Return f'(0) by differences of fourth order, with f at -2, -1, 1 and 2 steps."""
    # f'(0) = [8 (f(h) - f(-h)) - (f(2h) - f(-2h))] / (12 h) + O(h^4)
    inner, outer = (f(k * step) - f(-k * step) for k in (1.0, 2.0))
    return (8.0 * inner - outer) / (12.0 * step)


def log_student_constant(nu: float) -> float:
    """log p(0) of Student's t, log Gamma((nu + 1)/2) - log Gamma(nu/2) - log(nu pi)/2."""
    gammaln = scipy.special.gammaln
    return float(gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * math.log(nu * math.pi))
