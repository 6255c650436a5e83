"""What a posterior predictive check looks at: numbers T(y, theta) of a data set and the parameters, by likelihood.

A statistic is chosen because the model does not fit it by construction: the skewness of Gaussian residuals, not their
mean. Each works on arrays of draws, y (S, n) and eta (S, n, m).
"""

from collections.abc import Callable, Mapping
from functools import partial, singledispatch
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
    SoftmaxLikelihood,
    StudentT,
    UnivariateLikelihood,
)

Array = np.ndarray
_GROUPS = 10


class Statistic(NamedTuple):
    """A name that finishes "the ... of the data", the number, and what to do where it is not met.

    `value` maps what is drawn of y, (S, n) or (S, n, K) and of data (1, n) or (1, n, K), eta (S, n, m) and the nuisance parameters (S, 1), with the trials
    (n,) where a row counts them, to (S,), or to (1,) where it
    looks at y alone; `ordered` says that it looks at the
    order of the rows.
    """

    name: str
    value: Callable[[Array, Array, Mapping[str, Any]], Array]
    remedy: str
    ordered: bool = False


@singledispatch
def statistics(likelihood: Likelihood, fitted: Array) -> tuple[Statistic, ...]:
    """The statistics of a likelihood; `fitted` (n, m) are the linear predictors at the posterior mean, by which rows are
    grouped. Without an entry of its own a likelihood with an order has mean, standard deviation, smallest and largest."""
    if not isinstance(likelihood, UnivariateLikelihood):
        return ()
    each: dict[str, Callable[..., Any]] = {
        "mean": np.mean,
        "standard deviation": np.std,
        "smallest value": np.min,
        "largest value": np.max,
    }
    remedy = "another likelihood, or terms that the mean lacks"
    return tuple(
        Statistic(name, partial(_of_response, f), remedy) for name, f in each.items()
    )


@statistics.register
def _(likelihood: Gaussian, fitted: Array) -> tuple[Statistic, ...]:
    tails, shape = (
        "likelihood=StudentT() for tails, or look at these rows",
        "a transformed response, such as log(y)",
    )
    return (
        Statistic(
            "smallest residual", partial(_of_residuals, np.min, likelihood), tails
        ),
        Statistic(
            "largest residual", partial(_of_residuals, np.max, likelihood), tails
        ),
        Statistic(
            "skewness of residuals",
            partial(_of_residuals, _sample_skewness, likelihood),
            shape,
        ),
        Statistic(
            "standard deviation of residuals",
            partial(_of_residuals, np.std, likelihood),
            "let sigma be unknown",
        ),
    )


@statistics.register
def _(likelihood: StudentT, fitted: Array) -> tuple[Statistic, ...]:
    remedy = "another number of degrees of freedom nu"
    return (
        Statistic(
            "smallest residual", partial(_of_residuals, np.min, likelihood), remedy
        ),
        Statistic(
            "largest residual", partial(_of_residuals, np.max, likelihood), remedy
        ),
        Statistic(
            "interquartile range of residuals",
            partial(_of_residuals, _iqr, likelihood),
            "let sigma be unknown",
        ),
    )


@statistics.register
def _(likelihood: Bernoulli, fitted: Array) -> tuple[Statistic, ...]:
    curved, runs = (
        "a curve or an interaction in the formula",
        "rows depend on their neighbours: a term for time or group",
    )
    group = _deciles(likelihood.mean(fitted))
    expected = _expected_shares(group, likelihood.mean)
    return (
        Statistic(
            "misfit of rates by fitted decile",
            partial(_misfit, expected, group, lambda y: y),
            curved,
        ),
        Statistic(
            "longest run of one outcome, in the order of rows",
            _longest_run,
            runs,
            ordered=True,
        ),
        Statistic("number of runs, in the order of rows", _runs, runs, ordered=True),
    )


@statistics.register
def _(likelihood: Categorical, fitted: Array) -> tuple[Statistic, ...]:
    curved = "a curve or an interaction in the formula"
    p = likelihood.mean(fitted)
    rates = [
        Statistic(
            f"rate of class {c}",
            partial(_class_rate, k),
            "a weaker prior, or an intercept",
        )
        for k, c in enumerate(likelihood.levels)
    ]
    mean = _cache_last(likelihood.mean)
    misfits = []
    for k, c in enumerate(likelihood.levels):
        group = _deciles(p[:, k])
        expected = _expected_shares(group, lambda eta, k=k: mean(eta)[..., k])  # type: ignore[misc]
        value = partial(_misfit, expected, group, lambda y, k=k: (y == k).astype(float))  # type: ignore[misc]
        misfits.append(
            Statistic(
                f"misfit of the rate of class {c} by fitted decile", value, curved
            )
        )
    return (*rates, *misfits)


@statistics.register
def _(likelihood: Binomial, fitted: Array) -> tuple[Statistic, ...]:
    spread = (
        "look for a column that the mean lacks; no likelihood here holds trials of a row that depend on one another. A mode has "
        "robust standard errors (HC1, or cluster by group), and a posterior none"
    )
    return (
        Statistic(
            "dispersion (mean squared Pearson residual)",
            partial(_dispersion_of_trials, likelihood),
            spread,
        ),
        Statistic(
            "smallest share of successes", partial(_of_trial_shares, np.min), spread
        ),
        Statistic(
            "largest share of successes", partial(_of_trial_shares, np.max), spread
        ),
    )


@statistics.register
def _(likelihood: Multinomial, fitted: Array) -> tuple[Statistic, ...]:
    spread = (
        "look for a column that the mean lacks; no likelihood here holds trials of a row that depend on one another. A mode has "
        "robust standard errors (HC1, or cluster by group), and a posterior none"
    )
    rates = [
        Statistic(
            f"rate of class {c}",
            partial(_total_rate, k),
            "a weaker prior, or an intercept",
        )
        for k, c in enumerate(likelihood.levels)
    ]
    return (
        *rates,
        Statistic(
            "dispersion (mean squared Pearson residual)",
            partial(_dispersion_of_counts, likelihood),
            spread,
        ),
    )


@statistics.register
def _(likelihood: CountLikelihood, fitted: Array) -> tuple[Statistic, ...]:
    spread = (
        f"look for a column that the mean lacks; {likelihood.wider or 'no likelihood here holds counts that vary more'}; a mode "
        "has robust standard errors, pr.fit(model).covariance('HC1'), and a posterior none"
    )
    return (
        Statistic("share of zeros", lambda y, eta, aux: (y == 0).mean(-1), spread),
        Statistic(
            "dispersion (mean squared Pearson residual)",
            partial(_dispersion, likelihood),
            spread,
        ),
        Statistic("largest count", lambda y, eta, aux: y.max(-1), spread),
    )


# ---- the numbers ------------------------------------------------------------------------------------------------------


def _of_response(
    f: Callable[..., Array], y: Array, eta: Array, aux: Mapping[str, Any]
) -> Array:
    return f(y, axis=-1)


def _of_residuals(
    f: Callable[..., Array],
    likelihood: Likelihood,
    y: Array,
    eta: Array,
    aux: Mapping[str, Any],
) -> Array:
    return f((y - eta[..., 0]) / likelihood.noise(aux), axis=-1)


def _sample_skewness(r: Array, axis: int) -> Array:
    """Third central moment over the standard deviation cubed."""
    c = r - r.mean(axis, keepdims=True)
    return (c**3).mean(axis) / (c**2).mean(axis) ** 1.5


def _iqr(r: Array, axis: int) -> Array:
    return np.subtract(*np.quantile(r, [0.75, 0.25], axis=axis))


def _dispersion(
    likelihood: CountLikelihood, y: Array, eta: Array, aux: Mapping[str, Any]
) -> Array:
    # mean of (y - mu)^2 / V(mu): 1 in expectation where the variance is that of the likelihood.
    mu = likelihood.mean(eta)
    return ((y - mu) ** 2 / likelihood.variance(mu, **aux)).mean(-1)


def _dispersion_of_trials(
    likelihood: Binomial, y: Array, eta: Array, aux: Mapping[str, Any]
) -> Array:
    # mean of (k - n p)^2 / (n p (1 - p)): 1 in expectation for a binomial.
    p = likelihood.mean(eta)
    n = aux["trials"]
    return ((y - n * p) ** 2 / (n * p * (1.0 - p))).mean(-1)


def _dispersion_of_counts(
    likelihood: SoftmaxLikelihood, y: Array, eta: Array, aux: Mapping[str, Any]
) -> Array:
    """sum_k (y_k - n p_k)^2 / (n p_k) per row and degree of freedom."""
    mean = aux["trials"][:, None] * likelihood.mean(eta)
    return ((y - mean) ** 2 / mean).sum(-1).mean(-1) / (y.shape[-1] - 1.0)


def _of_trial_shares(
    f: Callable[..., Array], y: Array, eta: Array, aux: Mapping[str, Any]
) -> Array:
    return f(y / aux["trials"], axis=-1)


def _total_rate(k: int, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
    return y[..., k].sum(-1) / y.sum((-1, -2))


def _deciles(p: Array) -> Array:
    """(n, groups) with 1 / size where a row belongs to a tenth of the fitted values; rows of equal ones stay together."""
    groups = min(_GROUPS, max(2, len(p) // 5))
    p = p.round(12)
    number = np.searchsorted(np.sort(p), p) * groups // len(p)
    hot = (number[:, None] == np.unique(number)).astype(float)
    return hot / hot.sum(0)


def _cache_last(fn: Callable[[Array], Any]) -> Callable[[Array], Any]:
    """Cache fn(eta) for the last eta, because data, replicates and statistics of several classes share their
    parameters."""
    last: list[Any] = []

    def of(eta: Array) -> Any:
        if not last or last[0] is not eta:
            last[:] = [eta, fn(eta)]
        return last[1]

    return of


def _expected_shares(
    group: Array, p: Callable[[Array], Array]
) -> Callable[[Array], tuple[Array, Array]]:
    """Return a function from eta to the expected share of each group and its variance, sum_i p_i (1 - p_i) / size^2,
    (S, groups) each."""

    def of(eta: Array) -> tuple[Array, Array]:
        mean = p(eta)
        return mean @ group, (mean * (1.0 - mean)) @ np.square(group)

    return _cache_last(of)


def _misfit(
    expected: Callable[[Array], tuple[Array, Array]],
    group: Array,
    hit: Callable[[Array], Array],
    y: Array,
    eta: Array,
    aux: Mapping[str, Any],
) -> Array:
    """sum over groups of (rate - mean p)^2 / variance, the statistic of Hosmer & Lemeshow at given parameters."""
    mean, variance = expected(eta)
    return ((hit(y) @ group - mean) ** 2 / np.maximum(variance, 1e-300)).sum(-1)


def _class_rate(k: int, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
    return (y == k).mean(-1)


def _runs(y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
    return 1.0 + (np.diff(y, axis=-1) != 0).sum(-1)


def _longest_run(y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
    """The largest number of neighbours with the same outcome."""
    # a run ends before each change and at the last row, so that runs are as long as these ends are apart, from row to row too
    ends = np.ones(y.shape, dtype=bool)
    ends[:, :-1] = y[:, 1:] != y[:, :-1]
    length = np.diff(np.flatnonzero(ends), prepend=-1)
    count = np.count_nonzero(ends, axis=-1)
    return np.maximum.reduceat(length, np.cumsum(count) - count).astype(float)
