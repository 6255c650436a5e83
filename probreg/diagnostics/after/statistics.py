"""Test statistics T(y, theta) of posterior predictive checks, for each likelihood.

A statistic is chosen because the model does not fit it by construction: the skewness of Gaussian residuals, not their
mean. Each takes arrays over draws, y (S, n) and eta (S, n, m).
"""

from collections.abc import Callable, Mapping
from functools import singledispatch
from typing import Any, NamedTuple

import numpy as np

from probreg.likelihoods import (
    Bernoulli,
    Binomial,
    Categorical,
    CountLikelihood,
    Gaussian,
    Likelihood,
    Multinomial,
    StudentT,
    UnivariateLikelihood,
)

Array = np.ndarray
Aux = Mapping[str, Any]
_GROUPS = 10
_NONLINEAR = "add nonlinear effects or an interaction"
_DISPERSION = "dispersion (mean squared Pearson residual)"
_RATES = "use a weaker prior, or an intercept"


class Statistic(NamedTuple):
    """A test statistic: its name, its value, and the remedy if it differs between data and replicates, "" for another variance.

    `value` maps the response, (S, n) or (S, n, K) of replicates and (1, n) or (1, n, K) of data, eta (S, n, m) and the nuisance
    parameters (S, 1), with the trials (n,) of rows that count them, to (S,), or to (1,) if it depends on y alone.
    """

    name: str
    value: Callable[[Array, Array, Aux], Array]
    remedy: str = ""


@singledispatch
def statistics(likelihood: Likelihood, fitted: Array) -> tuple[Statistic, ...]:
    """Return the statistics of a likelihood; `fitted` (n, m) are the linear predictors at the posterior mean, which group the rows.

    By default an ordered response has mean, standard deviation, smallest and largest value.
    """
    if not isinstance(likelihood, UnivariateLikelihood):
        return ()
    remedy = "use another likelihood, or add terms to the mean"
    return (
        Statistic("mean", lambda y, eta, aux: y.mean(-1), remedy),
        Statistic("standard deviation", lambda y, eta, aux: y.std(-1), remedy),
        Statistic("smallest value", lambda y, eta, aux: y.min(-1), remedy),
        Statistic("largest value", lambda y, eta, aux: y.max(-1), remedy),
    )


def _of_residuals(
    likelihood: Gaussian | StudentT, function: Callable[[Array], Array]
) -> Callable[[Array, Array, Aux], Array]:
    """Return a statistic of the residuals (y - mean) / scale."""
    return lambda y, eta, aux: function((y - eta[..., 0]) / likelihood.noise(aux))


@statistics.register
def _(likelihood: Gaussian, fitted: Array) -> tuple[Statistic, ...]:
    tails = "use likelihood=StudentT() for heavy tails, or check these rows"
    skewed = "transform the response, such as log(y)"
    return tuple(
        Statistic(name, _of_residuals(likelihood, function), remedy)
        for name, function, remedy in (
            ("smallest residual", lambda r: r.min(-1), tails),
            ("largest residual", lambda r: r.max(-1), tails),
            ("skewness of residuals", _skewness, skewed),
            ("standard deviation of residuals", lambda r: r.std(-1), "estimate sigma"),
        )
    )


@statistics.register
def _(likelihood: StudentT, fitted: Array) -> tuple[Statistic, ...]:
    def interquartile_range(r: Array) -> Array:
        return np.subtract(*np.quantile(r, [0.75, 0.25], axis=-1))

    tails = "use other degrees of freedom nu"
    return tuple(
        Statistic(name, _of_residuals(likelihood, function), remedy)
        for name, function, remedy in (
            ("smallest residual", lambda r: r.min(-1), tails),
            ("largest residual", lambda r: r.max(-1), tails),
            ("interquartile range of residuals", interquartile_range, "estimate sigma"),
        )
    )


@statistics.register
def _(likelihood: Bernoulli, fitted: Array) -> tuple[Statistic, ...]:
    misfit = _misfit(likelihood.mean(fitted), likelihood.mean, lambda y: y)
    return (Statistic("misfit of rates by fitted decile", misfit, _NONLINEAR),)


@statistics.register
def _(likelihood: Categorical, fitted: Array) -> tuple[Statistic, ...]:
    p = likelihood.mean(fitted)
    mean = _cache_last(likelihood.mean)
    rates = []
    misfits = []
    for k, c in enumerate(likelihood.levels):

        def is_class(y: Array, k: int = k) -> Array:
            return (y == k).astype(float)

        def probability(eta: Array, k: int = k) -> Array:
            return np.asarray(mean(eta)[..., k])

        def rate(y: Array, eta: Array, aux: Aux, k: int = k) -> Array:
            return np.asarray((y == k).mean(-1))

        rates.append(Statistic(f"rate of class {c}", rate, _RATES))
        name = f"misfit of the rate of class {c} by fitted decile"
        value = _misfit(p[:, k], probability, is_class)
        misfits.append(Statistic(name, value, _NONLINEAR))
    return (*rates, *misfits)


@statistics.register
def _(likelihood: Binomial, fitted: Array) -> tuple[Statistic, ...]:
    def dispersion(y: Array, eta: Array, aux: Aux) -> Array:
        # mean of (k - n p)^2 / (n p (1 - p)): 1 in expectation for a binomial.
        p = likelihood.mean(eta)
        n = aux["trials"]
        return ((y - n * p) ** 2 / (n * p * (1.0 - p))).mean(-1)

    def share(y: Array, eta: Array, aux: Aux) -> Array:
        return y / aux["trials"]

    return (
        Statistic(_DISPERSION, dispersion),
        Statistic("smallest share of successes", lambda *a: share(*a).min(-1)),
        Statistic("largest share of successes", lambda *a: share(*a).max(-1)),
    )


@statistics.register
def _(likelihood: Multinomial, fitted: Array) -> tuple[Statistic, ...]:
    def dispersion(y: Array, eta: Array, aux: Aux) -> Array:
        # sum_k (y_k - n p_k)^2 / (n p_k) per row and degree of freedom
        mean = aux["trials"][:, None] * likelihood.mean(eta)
        return ((y - mean) ** 2 / mean).sum(-1).mean(-1) / (y.shape[-1] - 1.0)

    rates = []
    for k, c in enumerate(likelihood.levels):

        def rate(y: Array, eta: Array, aux: Aux, k: int = k) -> Array:
            return y[..., k].sum(-1) / y.sum((-1, -2))

        rates.append(Statistic(f"rate of class {c}", rate, _RATES))
    return (*rates, Statistic(_DISPERSION, dispersion))


@statistics.register
def _(likelihood: CountLikelihood, fitted: Array) -> tuple[Statistic, ...]:
    def dispersion(y: Array, eta: Array, aux: Aux) -> Array:
        # mean of (y - mu)^2 / V(mu): 1 in expectation if the likelihood has the right variance.
        mu = likelihood.mean(eta)
        return ((y - mu) ** 2 / likelihood.variance(mu, **aux)).mean(-1)

    return (
        Statistic("share of zeros", lambda y, eta, aux: (y == 0).mean(-1)),
        Statistic(_DISPERSION, dispersion),
        Statistic("largest count", lambda y, eta, aux: y.max(-1)),
    )


def _skewness(r: Array) -> Array:
    """Return the third central moment over the standard deviation cubed."""
    c = r - r.mean(-1, keepdims=True)
    return (c**3).mean(-1) / (c**2).mean(-1) ** 1.5


def _misfit(
    fitted: Array,
    probability: Callable[[Array], Array],
    is_hit: Callable[[Array], Array],
) -> Callable[[Array, Array, Aux], Array]:
    """Return the statistic of Hosmer & Lemeshow at given parameters, sum of (rate - mean p)^2 / variance over tenths of `fitted` (n,)."""
    # (n, groups) with 1 / size if a row belongs to a group; rows with equal fitted values stay together
    groups = min(_GROUPS, max(2, len(fitted) // 5))
    p = fitted.round(12)
    number = np.searchsorted(np.sort(p), p) * groups // len(p)
    member = (number[:, None] == np.unique(number)).astype(float)
    share = member / member.sum(0)

    def moments(eta: Array) -> tuple[Array, Array]:
        # expected rate of each group and its variance, sum_i p_i (1 - p_i) / size^2, (S, groups)
        mean = probability(eta)
        return mean @ share, (mean * (1.0 - mean)) @ np.square(share)

    cached = _cache_last(moments)

    def value(y: Array, eta: Array, aux: Aux) -> Array:
        mean, variance = cached(eta)
        rate = is_hit(y) @ share
        return ((rate - mean) ** 2 / np.maximum(variance, 1e-300)).sum(-1)

    return value


def _cache_last(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Cache function(eta) for the last eta, which data, replicates and the statistics of several classes share."""
    last: list[Any] = []

    def evaluate(eta: Array) -> Any:
        if not last or last[0] is not eta:
            last[:] = [eta, function(eta)]
        return last[1]

    return evaluate
