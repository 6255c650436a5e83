"""Regressions by their usual names: each is a likelihood, a prior and `fit`, nothing more.

`x` is a formula with a table as `data`, or a matrix X with the response y as `data`; options are those of
`Model.from_formula` and `Model.from_arrays` (weights, offset, columns, ...). No penalty unless asked.
"""

from collections.abc import Callable
from typing import Annotated, Any

from probreg.arguments.scalars import Flag, Number, Share, checked
from probreg.fits.fit import Fit, fit
from probreg.inference import Evidence
from probreg.likelihoods import Likelihood
from probreg.model.model import Model
from probreg.priors import ElasticNet, ExponentialPower, Jeffreys, Laplace, Normal, Reference
from probreg.priors.base import PositivePerColumn


@checked
def ols(x: Any, data: Any, **options: Any) -> Fit:
    """Least squares: Gaussian noise and a flat prior, argmin ||y - X beta||^2; t intervals with n - rank degrees of freedom.

    >>> ols([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"]).coef.sel(coef="x").round(6).item()
    2.5
    """
    return fit(_reader(x)(x, data, likelihood="gaussian", **options))


@checked
def ridge(
    x: Any, data: Any, *, scale: PositivePerColumn, sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | str = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Posterior mode under the prior N(0, scale^2) on every coefficient but the intercept; any likelihood.

    For Gaussian noise in raw units (the default) argmin RSS + (sigma/scale)^2 |beta|^2, where sigma is given as
    `aux={"sigma": ...}` (one linear solve), or else is at its joint mode with beta over log sigma (Newton's method). With
    `sigma_units` the scale is scale * sigma, so that sigma cancels: argmin RSS + |beta|^2 / scale^2, one linear solve.
    `scale` is one number or one per penalised column, `scaled=True` states it for standardised columns;
    `Normal.from_ridge` reads the settings of other packages. Hoerl & Kennard 1970.

    >>> ridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, sigma_units=True, columns=["x"]).coef.sel(coef="x").item()
    1.666666666666...
    """
    prior = Normal(scale, sigma_units=sigma_units, scaled=scaled)
    return fit(_reader(x)(x, data, likelihood=likelihood, prior=prior, **options))


@checked
def lasso(
    x: Any, data: Any, *, scale: PositivePerColumn, sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | str = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Posterior mode under the prior Laplace(0, scale) on every coefficient but the intercept; any likelihood.

    -log p = sum_j |beta_j| / scale: coefficients that the data do not support are exactly zero. A mode at a kink has no
    standard errors; the posterior is `fit(model, "nuts")`, whose means are never zero. Other arguments as in `ridge`;
    `Laplace.from_lasso` reads the settings of other packages. Tibshirani 1996.

    >>> X = [[-1.0, 1.0], [0.0, -2.0], [1.0, 1.0]]
    >>> lasso(X, [1.0, 3.0, 6.0], scale=0.8, aux={"sigma": 1.0}).coef.values.round(6).tolist()
    [3.333333, 1.875, 0.0]
    """
    prior = Laplace(scale, sigma_units=sigma_units, scaled=scaled)
    return fit(_reader(x)(x, data, likelihood=likelihood, prior=prior, **options))


@checked
def elastic_net(
    x: Any, data: Any, *, scale: PositivePerColumn, ratio: Share = 0.5, sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | str = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Posterior mode under the prior ElasticNet(scale, ratio) on every coefficient but the intercept; any likelihood.

    -log p = sum_j ratio |r_j| + (1 - ratio) r_j^2 / 2 with r_j = beta_j / scale. Other arguments as in `lasso`;
    `ElasticNet.from_elastic_net` reads the settings of other packages. Zou & Hastie 2005.

    >>> elastic_net([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, ratio=0.5, aux={"sigma": 1.0}).coef.values.round(6).tolist()
    [3.333333, 1.8]
    """
    prior = ElasticNet(scale, ratio, sigma_units=sigma_units, scaled=scaled)
    return fit(_reader(x)(x, data, likelihood=likelihood, prior=prior, **options))


@checked
def bridge(
    x: Any, data: Any, *, scale: PositivePerColumn, q: Annotated[float, Number(0.0, 2.0, closed=(False, True))], sigma_units: Flag = False, scaled: Flag = False,
    likelihood: Likelihood | str = "gaussian", **options: Any,
) -> Fit:  # fmt: skip
    """Posterior mode under the prior ExponentialPower(scale, q), 0 < q <= 2, on every coefficient but the intercept.

    -log p = sum_j |beta_j / scale|^q: q = 1 is the lasso, q = 2 ridge with the scale sqrt(2) times smaller; below 1 the
    mode that is found is one of several, and the fit says so. Other arguments as in `lasso`. Frank & Friedman 1993.

    >>> bridge([[-1.0], [0.0], [1.0]], [1.0, 3.0, 6.0], scale=1.0, q=2.0, aux={"sigma": 1.0}).coef.values.round(6).tolist()
    [3.333333, 1.25]
    """
    prior = ExponentialPower(scale, q, sigma_units=sigma_units, scaled=scaled)
    return fit(_reader(x)(x, data, likelihood=likelihood, prior=prior, **options))


@checked
def bayesian_ridge(x: Any, data: Any, *, scaled: Flag = False, **options: Any) -> Fit:
    """Ridge regression whose scale tau and noise sigma are at the maximum of the evidence, beta integrated out (type-II
    maximum likelihood; MacKay 1992): N(0, tau^2) on every coefficient but the intercept, sigma^2 / tau^2 is the ridge weight.

    The fit is the posterior mode and covariance at those scales, which stand in its notes; `scaled` states tau for
    standardised columns and response. Exact whatever the scale of the data.

    >>> x = [[-1.0, 0.0], [0.0, 1.0], [1.0, 0.5], [2.0, -1.0], [3.0, 0.3]]
    >>> bayesian_ridge(x, [1e7, 2.1e7, 2.9e7, 4.2e7, 4.8e7], columns=["a", "b"]).notes[1]
    'prior scale (times what was stated) of a, b ...e+06'
    """
    prior = Normal(Reference(), scaled=scaled)
    return fit(_reader(x)(x, data, likelihood="gaussian", prior=prior, **options), Evidence())


@checked
def ard(x: Any, data: Any, *, scaled: Flag = False, **options: Any) -> Fit:
    """Automatic relevance determination: N(0, tau_j^2) on each coefficient, every tau_j and sigma at a maximum of the evidence
    (MacKay 1992; Tipping 2001). Columns whose tau_j runs to zero are pruned: their coefficients are held at 0, and the notes
    name them.

    >>> x = [[-1.0, 1.0], [0.0, 0.0], [1.0, 0.0], [2.0, 0.0], [3.0, 1.0]]
    >>> ard(x, [1.0, 2.1, 2.9, 4.1, 5.0], columns=["a", "b"]).notes[2]
    'pruned, since the evidence rises as their scale falls to 0: b; their coefficients are held at 0'
    """
    prior = Normal(Reference(), scaled=scaled)
    return fit(_reader(x)(x, data, likelihood="gaussian", prior=prior, **options), Evidence(per_column=True))


@checked
def firth(x: Any, data: Any, *, likelihood: Likelihood | str = "bernoulli", **options: Any) -> Fit:
    """Firth's estimate: the posterior mode under Jeffreys' prior, |I(beta)|^(1/2); finite under separation.

    Standard errors are those of the posterior's curvature; `fit.covariance("expected")` and profile intervals
    (`fit.interval(kind="profile")`) are there too. Firth 1993; Heinze & Schemper 2002.

    >>> firth([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1]).coef.values.round(6).tolist()
    [-1.609438, 3.218876]
    """
    return fit(_reader(x)(x, data, likelihood=likelihood, prior=Jeffreys(), **options))


@checked
def logistic(x: Any, data: Any, **options: Any) -> Fit:
    """Logistic regression by maximum likelihood: P(y = event) = 1 / (1 + exp(-X beta)); `event=` names the level.

    >>> logistic([[0.0], [0.0], [1.0], [1.0]] * 3, [0, 1, 1, 1] * 2 + [0, 0, 1, 0]).coef.round(6).values.tolist()
    [-0.693147, 2.302585]
    """
    return fit(_reader(x)(x, data, likelihood="bernoulli", **options))


@checked
def softmax(x: Any, data: Any, **options: Any) -> Fit:
    """Multinomial logistic regression by maximum likelihood; `reference=` names the class of the log odds' base.

    >>> softmax([[0.0], [1.0]] * 4, ["a", "a", "b", "b", "c", "c", "a", "b"]).coef.sizes["outcome"]
    2
    """
    return fit(_reader(x)(x, data, likelihood="categorical", **options))


@checked
def poisson(x: Any, data: Any, **options: Any) -> Fit:
    """Poisson regression by maximum likelihood: log E[y] = X beta + offset.

    >>> poisson([[0.0], [0.0], [1.0], [1.0]], [1, 3, 5, 3]).coef.round(6).values.tolist()
    [0.693147, 0.693147]
    """
    return fit(_reader(x)(x, data, likelihood="poisson", **options))


def _reader(x: Any) -> Callable[..., Model]:
    return Model.from_formula if isinstance(x, str) else Model.from_arrays
