"""SciPy's special functions by name, for modules that every fit imports: `scipy.special` takes 0.04 s to import, and is imported when
the first of them is called. Least squares and logistic regression call none.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy

LOG_2PI = math.log(2.0 * math.pi)
ROOT_2PI = math.sqrt(2.0 * math.pi)


def _on_use(name: str) -> Callable[..., Any]:
    def function(*args: Any, **named: Any) -> Any:
        return getattr(scipy.special, name)(*args, **named)

    function.__name__ = function.__qualname__ = name
    return function


betainc = _on_use("betainc")
betaln = _on_use("betaln")
digamma = _on_use("digamma")
erfcx = _on_use("erfcx")
expit = _on_use("expit")
fdtrc = _on_use("fdtrc")
gammainc = _on_use("gammainc")
gammaincc = _on_use("gammaincc")
gammaln = _on_use("gammaln")
log_ndtr = _on_use("log_ndtr")
log_softmax = _on_use("log_softmax")
logit = _on_use("logit")
logsumexp = _on_use("logsumexp")
ndtr = _on_use("ndtr")
ndtri = _on_use("ndtri")
ndtri_exp = _on_use("ndtri_exp")
pdtr = _on_use("pdtr")
polygamma = _on_use("polygamma")
softmax = _on_use("softmax")
stdtr = _on_use("stdtr")
stdtrit = _on_use("stdtrit")


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


def log_student_constant(nu: Any, dim: int = 1) -> Any:
    """log p(0) of Student's t in d dimensions, log Gamma((nu + d)/2) - log Gamma(nu/2) - d/2 log(nu pi)."""
    return gammaln((nu + dim) / 2) - gammaln(nu / 2) - 0.5 * dim * np.log(nu * math.pi)


def student_log_density(square: Any, dim: int, df: Any) -> Any:
    """log p of Student's t with unit scale, of a normal at df = inf, at points in d dimensions with these squared lengths."""
    if np.ndim(df) == 0 and np.isinf(df):
        return -0.5 * (square + dim * LOG_2PI)
    # log p = log p(0) - (df + d)/2 log(1 + |t|^2 / df)
    return log_student_constant(df, dim) - 0.5 * (df + dim) * np.log1p(square / df)
