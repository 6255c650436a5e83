"""Regressions by their usual names: each is a likelihood, a prior and `fit`, nothing more.

`x` is a formula with a table as `data`, or a matrix X with the response y as `data`; options are those of
`Model.from_formula` and `Model.from_arrays` (weights, offset, columns, ...). No penalty unless asked.
"""

from collections.abc import Callable
from typing import Any

from probreg.fit import Fit, fit
from probreg.model import Model
from probreg.priors import Normal
from probreg.priors.base import PerColumn


def ols(x: Any, data: Any, **options: Any) -> Fit:
    """Least squares: Gaussian noise and a flat prior, argmin ||y - X beta||^2; t intervals with n - rank degrees of freedom.

    >>> ols([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"]).coef.sel(coef="x").round(6).item()
    2.5
    """
    return fit(_reader(x)(x, data, likelihood="gaussian", **options))


def ridge(x: Any, data: Any, *, scale: PerColumn, sigma_units: bool = False, **options: Any) -> Fit:
    """Posterior mode under Gaussian noise and the prior N(0, scale^2) on every coefficient but the intercept.

    In raw units (the default) argmin RSS + (sigma/scale)^2 |beta|^2, where sigma is given as `aux={"sigma": ...}` (one
    linear solve), or else is at its joint mode with beta over log sigma (Newton's method). With `sigma_units` the scale
    is scale * sigma, so that sigma cancels: argmin RSS + |beta|^2 / scale^2, one linear solve. `scale` is one number
    or one per penalised column; Hoerl & Kennard 1970.

    >>> ridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, sigma_units=True, columns=["x"]).coef.sel(coef="x").item()
    1.666666666666...
    """
    return fit(_reader(x)(x, data, likelihood="gaussian", prior=Normal(scale, sigma_units=sigma_units), **options))


def logistic(x: Any, data: Any, **options: Any) -> Fit:
    """Logistic regression by maximum likelihood: P(y = event) = 1 / (1 + exp(-X beta)); `event=` names the level.

    >>> logistic([[0.0], [0.0], [1.0], [1.0]] * 3, [0, 1, 1, 1] * 2 + [0, 0, 1, 0]).coef.round(6).values.tolist()
    [-0.693147, 2.302585]
    """
    return fit(_reader(x)(x, data, likelihood="bernoulli", **options))


def softmax(x: Any, data: Any, **options: Any) -> Fit:
    """Multinomial logistic regression by maximum likelihood; `reference=` names the class of the log odds' base.

    >>> softmax([[0.0], [1.0]] * 4, ["a", "a", "b", "b", "c", "c", "a", "b"]).coef.sizes["outcome"]
    2
    """
    return fit(_reader(x)(x, data, likelihood="categorical", **options))


def poisson(x: Any, data: Any, **options: Any) -> Fit:
    """Poisson regression by maximum likelihood: log E[y] = X beta + offset.

    >>> poisson([[0.0], [0.0], [1.0], [1.0]], [1, 3, 5, 3]).coef.round(6).values.tolist()
    [0.693147, 0.693147]
    """
    return fit(_reader(x)(x, data, likelihood="poisson", **options))


def _reader(x: Any) -> Callable[..., Model]:
    return Model.from_formula if isinstance(x, str) else Model.from_arrays
