"""The conventions of covariances in words, and what may be asked of which fit."""

from collections.abc import Mapping
from typing import Any, Literal

from probreg.errors import DataError, Incompatible
from probreg.inference.base import Method

SmallSample = Literal["stata", "each", "full", "none"]
Words = Mapping[str, str | float]
_HC = "sandwich V M V, M the sum over observations of u u'"

DEFINITIONS = {
    "classical": "sigma^2 (X'X)^-1 with sigma^2 = RSS/(n - rank)",
    "ml": "sigma^2 (X'X)^-1 with the maximum likelihood estimate sigma^2 = RSS/n",
    "observed": "the inverse of minus the second derivatives of the log posterior over (beta, log aux)",
    "expected": "the inverse of X'WX + prior precision, W the expected information of a row; aux held at its estimate",
    "sampling": "V I V, I = X'WX the expected information of the rows and V the inverse of I + prior precision: what the "
    "penalised estimate does in repeated samples, its bias left out",
    "HC0": f"{_HC}, u the score of an observation",
    "HC1": f"{_HC}, u the score of an observation, times n/(n - k)",
    "HC2": f"{_HC}, u the score of an observation over sqrt(1 - leverage)",
    "HC3": f"{_HC}, u the score of an observation over (1 - leverage)",
    "cluster": "sandwich V M V, M the sum over groups of s s', s the sum of the scores of a group",
    "HAC": "sandwich V M V, M with the products of scores up to `lags` rows apart, Bartlett weights 1 - l/(lags + 1)",
    "bootstrap": "the covariance of the replicates that have an estimate",
    "sampling-weighted": "sandwich V M V over (beta, log aux), M the sum over rows of w^2 u u', u the score of a row, times "
    "n/(n - 1): rows are the units that were sampled",
}
PENALISED = (
    "the prior is in V, the inverse of the penalised curvature, and not in M: that this differs from the model's own errors "
    "is no evidence of misspecification; compare it with 'sampling'"
)
_STATA = "G/(G - 1) (n - 1)/(n - k) for a Gaussian, G/(G - 1) for other likelihoods"
ROBUST = ("HC0", "HC1", "cluster")  # kinds that need no likelihood, and so hold under sampling weights
FACTORS = {
    "stata": f"{_STATA}, G of two ways the smaller number",
    "each": f"{_STATA}, each part of two ways with its own G",
    "full": "G/(G - 1) (n - 1)/(n - k), each part of two ways with its own G",
    "none": "no factor",
}
LAG_FACTORS = {
    "stata": "n/(n - k) for a Gaussian, none for other likelihoods",
    "full": "n/(n - k)",
    "none": "no factor",
}


def check_estimator(method: Method, kind: str) -> None:
    """Incompatible unless the method gives a point estimate with a likelihood, which alone has covariances of this kind."""
    if method.target == "posterior":
        raise Incompatible(
            f"a posterior has one covariance, that of its draws, which covariance() gives; {kind!r} is how an estimate varies "
            "over samples: ask a point estimate of this model for it, such as pr.fit(model, 'newton')"
        )
    if not method.probabilities:
        raise Incompatible(f"{method.name} has no likelihood at its answer, so no covariance of kind {kind!r}")


def check_settings(groups: Any, lags: int | None, small_sample: str, kind: str) -> None:
    """DataError for a setting that this kind does not read, or an unknown small-sample factor."""
    if small_sample not in FACTORS:
        raise DataError(f"small_sample={small_sample!r} is not known; there are: {', '.join(FACTORS)}")
    if kind == "HAC" and small_sample not in LAG_FACTORS:
        raise DataError(
            f"small_sample={small_sample!r} is about groups; a HAC covariance has: {', '.join(LAG_FACTORS)}"
        )
    if groups is not None and kind != "cluster":
        raise DataError(f"groups= goes with covariance('cluster'), not with {kind!r}")
    if lags is not None and kind != "HAC":
        raise DataError(f"lags= goes with covariance('HAC'), not with {kind!r}")
