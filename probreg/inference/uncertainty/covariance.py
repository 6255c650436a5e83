"""Covariances of a point estimate, from a model and its mode, with a description of
their conventions.

All are V M V or V: V the inverse curvature at the estimate (the bread; with a prior its
penalised curvature), M the sum of squares of the rows' scores (the meat).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy

from probreg.data import Design
from probreg.errors import (
    DataError,
    Incompatible,
    NotConverged,
    ProbregError,
    warn_caller,
)
from probreg.inference.base import (
    Array,
    Method,
    Solution,
    Status,
    has_effects,
    log_names,
)
from probreg.inference.covariance import NoCovariance, ParameterCovariance
from probreg.inference.exact.evidence import joint_covariance
from probreg.inference.modes.closed_form import ClosedForm
from probreg.inference.modes.sgd import Stochastic
from probreg.inference.penalized.coordinate_descent import CoordinateDescent
from probreg.inference.penalized.nonsmooth import has_nonsmooth_terms, no_errors
from probreg.inference.penalized.piecewise_linear import InteriorPoint
from probreg.inference.penalized.proximal_newton import ProximalNewton
from probreg.inference.status import Topic, important_note, without_topic
from probreg.inference.uncertainty.clusters import (
    SmallSample,
    bartlett_square,
    cluster_square,
    cross_codes,
    default_lags,
    group_codes,
)
from probreg.inference.uncertainty.information import Estimate, estimate_of
from probreg.inference.varying import FoundScales
from probreg.likelihoods import ExponentialFamily, ProximalLikelihood
from probreg.linalg import one_blas_thread, root_of_square
from probreg.model.model import Model
from probreg.peers import unknown_name
from probreg.priors import Flat
from probreg.system.terminal import few_names

Words = Mapping[str, str | float]
_HC = "sandwich V M V, M the sum over observations of u u'"

DEFINITIONS = {
    "classical": "sigma^2 (X'X)^-1 with sigma^2 = RSS/(n - rank)",
    "ml": "sigma^2 (X'X)^-1 with the maximum likelihood estimate sigma^2 = RSS/n",
    "observed": "the inverse of minus the second derivatives of the log posterior over (beta, log aux)",
    "expected": "the inverse of the expected information over (beta, log aux) + prior precision, X'WX of beta if aux is orthogonal to it",
    "sampling": "V I V, I the expected information of the rows, as in 'expected', and V the inverse of I + prior precision. It is the "
    "covariance of the penalised estimate in repeated samples, without its bias",
    "dispersion": "the inverse of X'WX/phi + prior precision, W the expected information of a row, phi Pearson's X^2/(n - k): "
    "the variance is phi times that of the likelihood, as in quasi-Poisson and quasi-binomial models",
    "HC0": f"{_HC}, u the score of an observation; times n/(n - 1) under sampling weights",
    "HC1": f"{_HC}, u the score of an observation, times n/(n - k)",
    "HC2": f"{_HC}, u the score of an observation over sqrt(1 - leverage)",
    "HC3": f"{_HC}, u the score of an observation over (1 - leverage)",
    "cluster": "sandwich V M V, M the sum over groups of s s', s the sum of the scores of a group",
    "HAC": "sandwich V M V, M with the products of scores up to `lags` rows apart, Bartlett weights 1 - l/(lags + 1)",
    "bootstrap": "the covariance of the replicates that have an estimate",
    "joint": "the inverse of minus the second derivatives of the criterion over scales and nuisance parameters, propagated to the "
    "coefficients, plus their covariance given these",
    "conditional": "the covariance of the coefficients given the estimated scales and nuisance parameters",
    "sampling-weighted": "sandwich V M V over (beta, log aux), M the sum over rows of w^2 u u', u the score of a row, times "
    "n/(n - 1). Rows are the sampling units",
}
PENALISED = (
    "the prior is in V, the inverse of the penalised curvature, and not in M. A difference from the model's own errors "
    "is not evidence of misspecification; compare it with 'sampling'"
)
_STATA = "G/(G - 1) (n - 1)/(n - k) for a Gaussian, G/(G - 1) for other likelihoods"
ROBUST = (
    "HC0",
    "HC1",
    "cluster",
)  # kinds that need no likelihood, so they are valid under sampling weights
_SANDWICHES = {*ROBUST, "HC2", "HC3", "HAC", "sampling-weighted"}
# kinds that need independent rows
_OF_INDEPENDENT_ROWS = _SANDWICHES - {"cluster"} | {"sampling"}
FACTORS = {
    "stata": f"{_STATA}, G of two ways the smaller number",
    "each": f"{_STATA}, each part of two ways with its own G",
    "full": "G/(G - 1) (n - 1)/(n - k), each part of two ways with its own G",
    "groups": "G/(G - 1), each part of two ways with its own G",
    "none": "no factor",
}
LAG_FACTORS = {
    "stata": "n/(n - k) for a Gaussian, none for other likelihoods",
    "full": "n/(n - k)",
    "none": "no factor",
}

# the kinds that use a setting
KINDS_OF_SETTINGS = {
    "groups": ("cluster",),
    "data": ("cluster",),
    "lags": ("HAC",),
    "small_sample": ("cluster", "HAC"),
}


def check_estimator(method: Method, kind: str) -> None:
    """Raise Incompatible unless the method gives a point estimate with a likelihood."""
    if method.target == "posterior":
        raise Incompatible(
            f"a posterior has one covariance, computed from its draws by covariance(); {kind!r} describes the variation of an estimate "
            "over samples. Use a point estimate of this model, such as pr.fit(model, 'newton')"
        )
    if not method.probabilities:
        raise Incompatible(
            f"{method.name} has no likelihood, so no covariance of kind {kind!r}"
        )


class Spread(NamedTuple):
    """A covariance of vec(beta), the degrees of freedom of its t intervals, and its description."""

    matrix: ParameterCovariance
    df: float | None = None
    words: Words = MappingProxyType({})


@dataclass(frozen=True)
class Settings:
    """Settings of some kinds: groups as codes (one or two ways), lags, and the small-sample factor."""

    groups: list[Array] = field(default_factory=list)
    lags: int | None = None
    small_sample: SmallSample = "stata"

    @classmethod
    def of(
        cls,
        method: Method,
        design: Design,
        kind: str,
        *,
        groups: Any = None,
        data: Any = None,
        lags: int | None = None,
        small_sample: SmallSample | None = None,
    ) -> "Settings":
        """Read the settings of a kind for an estimate by this method; DataError for a setting that the kind does not use, or an
        unknown small-sample factor."""
        check_estimator(method, kind)
        refuse_settings(
            kind, groups=groups, data=data, lags=lags, small_sample=small_sample
        )
        factor = "stata" if small_sample is None else small_sample
        if factor not in FACTORS:
            raise DataError(
                f"small_sample={factor!r}: expected one of {', '.join(FACTORS)}"
            )
        if kind == "HAC" and factor not in LAG_FACTORS:
            raise DataError(
                f"small_sample={factor!r} needs groups; a HAC covariance supports {', '.join(LAG_FACTORS)}"
            )
        codes = group_codes(groups, design, data) if kind == "cluster" else []
        return cls(codes, lags, factor)


def refuse_settings(covariance: Any, **settings: Any) -> None:
    """Raise DataError for a setting, such as groups=, unless `covariance` is the name of a kind that uses it."""
    given = [name for name, value in settings.items() if value is not None]
    if given and not isinstance(covariance, str):
        names = " and ".join(f"{name}=" for name in given)
        raise DataError(
            f"{names}: expected only with the name of a covariance, such as 'cluster' or 'HAC'"
        )
    for name in given:
        kinds = KINDS_OF_SETTINGS[name]
        if covariance not in kinds:
            owners = " and ".join(f"covariance({kind!r})" for kind in kinds)
            raise DataError(f"{name}= is a setting of {owners}, not of {covariance!r}")


def reported_words(model: Model, method: Method, solution: Solution) -> Words:
    """Describe the covariance in a solution of the model."""
    if solution.draws is not None:
        return {"kind": "posterior", "definition": "the covariance of the posterior"}
    kind = kind_of_mode(method, solution)
    if kind == "none":
        reason = f"{method.name} has no standard errors"
        if method.probabilities and isinstance(method, InteriorPoint):
            reason = "no covariance: the sandwich cannot be computed"
        elif method.probabilities:
            reason = no_errors(model)
        words: Words = {"kind": kind, "definition": reason}
    else:
        words = _label_penalised(model, {"kind": kind, "definition": DEFINITIONS[kind]})
    return {**words, **_df(solution.df)}


def kind_of_mode(method: Method, solution: Solution) -> str:
    """Return the kind of covariance in the solution of a mode, "none" if it has none."""
    if solution.sandwich:
        return solution.sandwich
    if solution.replicates is not None:
        return "bootstrap"
    if not method.probabilities:
        return "none"
    needs_curvature = isinstance(
        method, ProximalNewton | CoordinateDescent | InteriorPoint
    )
    if needs_curvature and not np.isfinite(solution.scale.diagonal()).any():
        return "none"
    if isinstance(method, InteriorPoint):
        return "expected"
    if solution.scales is not None:
        return "conditional" if solution.conditional is None else "joint"
    if isinstance(method, ClosedForm | Stochastic) and solution.df is not None:
        return "classical"
    return "expected" if isinstance(method, ClosedForm) else "observed"


@one_blas_thread()
def covariance_of_kind(
    model: Model, solution: Solution, kind: str, settings: Settings = Settings()
) -> Spread:
    """Return the covariance of this kind at a mode.

    DataError for an unknown kind or wrong settings; Incompatible if the kind is
    undefined for this model; NotConverged without an estimate. Sources: Huber 1967;
    White 1980; MacKinnon & White 1985; Liang & Zeger 1986; Cameron, Gelbach & Miller
    2011; Newey & West 1987.
    """
    if kind not in _KINDS:
        raise DataError(unknown_name("covariance", str(kind), _KINDS))
    if has_effects(model) and kind in _OF_INDEPENDENT_ROWS:
        raise Incompatible(
            f"a covariance of kind {kind!r} needs independent rows, and rows of a group share an effect: use 'joint', or 'cluster'"
        )
    if kind not in ROBUST:
        model.design.refuse_sampling(f"a covariance of kind {kind!r}")
    spread = _KINDS[kind](model, solution, settings)
    words = {"kind": kind, "definition": DEFINITIONS[kind]}
    if isinstance(model.likelihood, ProximalLikelihood) and kind in _SANDWICHES:
        words["definition"] += f"; {_KINKS}"
    return Spread(
        spread.matrix,
        spread.df,
        {**_label_penalised(model, words), **spread.words, **_df(spread.df)},
    )


def _label_penalised(model: Model, words: Words) -> Words:
    """Label a sandwich with a prior in its bread: the prior makes it smaller than the model's own errors."""
    is_flat = not model.joint.informative[model.design.ungrouped].any()
    if is_flat or words["kind"] not in _SANDWICHES:
        return words
    return {
        "kind": f"{words['kind']} of a penalised mode",
        "definition": f"{words['definition']}; {PENALISED}",
    }


def uses_t(solution: Solution, words: Mapping[str, Any]) -> bool:
    """Whether intervals by a covariance with this description have t quantiles: for least squares and an estimated dispersion."""
    kind = words.get("kind")
    has_scale = solution.df is not None or kind == "dispersion"
    # with random effects there are clusters for Gaussian noise only
    has_scale |= kind == "cluster" and solution.effect_scales is not None
    return has_scale and "df" in words


def _df(df: float | None) -> Words:
    return {} if df is None else {"df": df}


# ---- from the model -------------------------------------------------------------------------------------------------


def _least_squares(model: Model, solution: Solution, settings: Settings) -> Spread:
    if not model.likelihood.least_squares or model.joint.informative.any():
        raise Incompatible(
            "sigma^2 (X'X)^-1 is the covariance of least squares, a Gaussian likelihood with flat priors; for this model use "
            "'observed', 'expected' or 'sampling'"
        )
    # V = s^2 (X'X)^-1, s^2 = RSS/(n - rank), or a fixed sigma^2.
    flat = replace(model, prior=Flat(), aux=model.fixed)
    fit = ClosedForm().solve(flat, np.random.default_rng(0))
    if fit.df is None:
        sigma2 = model.fixed[model.noise_scale] ** 2
        return Spread(fit.scale, None, {"sigma2": sigma2, "sigma2_is": "given"})
    if not fit.df:
        raise NotConverged(
            "least squares has no covariance: sigma^2 has no residual degrees of freedom, because there are no more observations "
            "than coefficients"
        )
    words: Words = {"sigma2": fit.stats["rss"] / fit.df, "sigma2_is": "RSS/(n - rank)"}
    return Spread(fit.scale, fit.df, words)


def _maximum_likelihood(model: Model, solution: Solution, settings: Settings) -> Spread:
    spread = _least_squares(model, solution, settings)
    if spread.df is None:
        return spread
    # RSS/n = s^2 (n - rank)/n: no correction for the coefficients.
    share = spread.df / model.design.total
    words: Words = {
        "sigma2": float(spread.words["sigma2"]) * share,
        "sigma2_is": "RSS/n",
    }
    return Spread(spread.matrix.scale_by(share), None, words)


def _observed_information(
    model: Model, solution: Solution, settings: Settings
) -> Spread:
    if isinstance(model.likelihood, ProximalLikelihood):
        raise Incompatible(
            f"{model.likelihood.named} likelihood has no second derivatives at its mode, which lies on kinks. Use 'expected', "
            "or 'HC0', which includes the density of the residuals there"
        )
    estimate = estimate_of(model, solution, "observed information")
    # V = (-d^2 log posterior)^-1 at the mode.
    return Spread(estimate.of_root(estimate.bread))


def _expected_information(
    model: Model, solution: Solution, settings: Settings
) -> Spread:
    estimate = estimate_of(model, solution, "expected information")
    # V = (I + P)^-1, I the expected information of the rows and P the prior's curvature.
    return Spread(estimate.of_root(estimate.expected_root))


def _sampling_covariance(
    model: Model, solution: Solution, settings: Settings
) -> Spread:
    estimate = estimate_of(model, solution, "sampling covariance")
    # cov of the estimator over new responses: V I V, which equals V for a flat prior.
    A = estimate.expected_root
    inner = root_of_square(A.T @ estimate.data_information @ A)
    return Spread(estimate.of_root(A @ inner))


def _dispersed(model: Model, solution: Solution, settings: Settings) -> Spread:
    if not isinstance(model.likelihood, ExponentialFamily):
        raise Incompatible(
            f"'dispersion' is for exponential families such as poisson and binomial, and not for {model.likelihood.named} likelihood: "
            "use 'HC0' or 'HC1'"
        )
    fixed = replace(model, aux={**model.fixed, **solution.aux})
    estimate = estimate_of(fixed, solution, "a covariance by Pearson's statistic")
    A = estimate.expected_root
    # k = tr (I + P)^-1 I, the number of coefficients under flat priors
    k = round(float(np.vdot(A, estimate.data_information @ A)), 8)
    df = model.design.total - k
    if df <= 0:
        raise DataError(
            f"{model.design.total:g} observations and {k:g} coefficients leave no degrees of freedom for the dispersion"
        )
    phi = estimate.pearson / df
    V = estimate.of_root(estimate.dispersed_root(phi))
    return Spread(V, df, {"dispersion": phi})


# ---- from the rows --------------------------------------------------------------------------------------------------


def _heteroscedastic(
    kind: str, model: Model, solution: Solution, settings: Settings
) -> Spread:
    estimate = estimate_of(model, solution, "a sandwich covariance")
    # V M V with M = sum_i w_i u_i u_i' (White 1980); HC1 has n/(n - k), HC2 divides scores by (1 - h_i)^(1/2) and
    # HC3 by 1 - h_i (MacKinnon & White 1985).
    factor = row_factor(estimate, kind, None)
    V = estimate.sandwich(estimate.meat(SANDWICHES[kind]), factor)
    return Spread(V, solution.df, {"factor": factor})


_KINKS = "V includes the density of the residuals at the kinks of the loss, by Epanechnikov's kernel with the bandwidth of Hall & Sheather 1988"


_ROUNDING_OF_ERRORS = 1e-6  # relative to a standard error of independent rows or of all groups: a smaller one is rounding


def _refuse_within_groups(
    model: Model, clustered: ParameterCovariance, single: ParameterCovariance
) -> None:
    """Raise Incompatible for coefficients with zero variance up to rounding, compared
    with the variance `single` of independent rows.

    Their scores sum to 0 in every group, because columns fit the mean of each group
    exactly.
    """
    k = clustered.coefficients
    alone = single.errors()[:k]
    # exactly 0: a coefficient without an estimate
    small = (clustered.errors()[:k] <= _ROUNDING_OF_ERRORS * alone) & (alone > 0.0)
    if small.any():
        columns = [
            model.design.columns[j]
            for j in np.flatnonzero(small.reshape(model.shape[0], -1).any(1))
        ]
        raise Incompatible(
            f"groups: the columns fit the mean of each group exactly, so scores sum to 0 in every group and a cluster covariance of "
            f"{few_names(columns)} is 0. Drop the columns of the groups, or cluster by larger groups"
        )


def _cluster_of_effects(model: Model, solution: Solution, settings: Settings) -> Spread:
    """Return the sandwich V M V of the marginal model y ~ N(X beta, Z D Z' + sigma^2 I), for clusters of whole groups.

    At the modes of the effects the score of a group over its effects, with their prior, is 0. So M has only the scores over beta.
    """
    estimate = estimate_of(model, solution, "a cluster covariance", in_memory=True)
    if not model.likelihood.least_squares or len(settings.groups) > 1:
        raise Incompatible(
            "a cluster covariance of a model with random effects needs Gaussian noise and one grouping: use 'joint'"
        )
    (codes,) = settings.groups
    design = model.design
    ungrouped = design.ungrouped
    for j in np.setdiff1d(np.arange(len(design.columns)), ungrouped):
        if len(np.unique(codes[design.X[:, j] != 0.0])) > 1:
            raise Incompatible(
                f"groups: rows of the random effect {design.columns[j]} are in several clusters; a cluster contains whole groups"
            )
    T = design.frame.T
    weighted = (estimate.scores[:, 0] * estimate.weights)[:, None]
    rows = np.linalg.solve(T.T, (estimate.rows.U * weighted).T)[ungrouped].T
    groups = int(codes.max()) + 1
    factor = cluster_factor(estimate, groups, settings.small_sample)
    # replace the covariance of beta by V M V; the distribution of the effects given beta stays the same
    A = estimate.bread
    L = (T @ estimate.inside @ A)[ungrouped]
    Q = scipy.linalg.orth(L.T)
    root = L.T @ root_of_square(factor * cluster_square(rows, codes))
    words = _cluster_words(settings, str(groups), factor)
    V = estimate.of_root(A @ np.hstack([np.eye(len(A)) - Q @ Q.T, root]))
    return Spread(V, groups - 1.0, words)


def _cluster(model: Model, solution: Solution, settings: Settings) -> Spread:
    if has_effects(model):
        return _cluster_of_effects(model, solution, settings)
    estimate = estimate_of(model, solution, "a cluster covariance", in_memory=True)
    # M = sum_g s_g s_g', s_g the sum of w_i u_i over group g (Liang & Zeger 1986).
    rows = estimate.score_rows * estimate.weights[:, None]
    ways = settings.groups
    sets = [*ways, cross_codes(*ways)] if len(ways) == 2 else ways
    counts = [int(c.max()) + 1 for c in sets]
    # one factor for V1 + V2 - V12, not one for each part
    one_factor = settings.small_sample == "stata"
    groups = [min(counts)] * len(counts) if one_factor else counts
    factors = [cluster_factor(estimate, g, settings.small_sample) for g in groups]
    squares = [cluster_square(rows, c) for c in sets]
    meats = [f * M for f, M in zip(factors, squares)]
    _refuse_within_groups(
        model,
        estimate.sandwich(sum(squares[1 : len(ways)], squares[0])),
        estimate.sandwich(rows.T @ rows),
    )
    shown = " x ".join(map(str, counts[: len(ways)]))
    words = _cluster_words(settings, shown, factors[0])
    meat = meats[0]
    if len(ways) == 2:
        words["ways"] = f"{_WAYS}of the whole, as Stata's ivreg2"
        if not one_factor:
            words["factor"] = ", ".join(f"{f:.6g}" for f in factors)
            words["ways"] = f"{_WAYS}of each part"
        meat, negative = _positive_part(estimate, *meats)
        if negative:
            words["eigenvalues"] = negative
            warn_caller(f"covariance of clusters of two ways: eigenvalues {negative}")
    return Spread(estimate.sandwich(meat), min(counts[: len(ways)]) - 1.0, words)


def _cluster_words(
    settings: Settings, groups: str, factor: float
) -> dict[str, str | float]:
    rule = f"{settings.small_sample}: {FACTORS[settings.small_sample]}"
    return {"groups": groups, "small_sample": rule, "factor": factor}


_WAYS = "two: V1 + V2 - V12 (Cameron, Gelbach & Miller 2011), with a factor "


def _positive_part(
    estimate: Estimate, first: Array, second: Array, intersection: Array
) -> tuple[Array, str]:
    """Return the meat M1 + M2 - M12, the third over the intersections of both
    groupings, and a message.

    V M V need not be a covariance: negative eigenvalues, in units of the standard
    errors without M12, are set to 0. So are directions without variance in M1 + M2,
    which exist if there are fewer groups than coefficients.
    """
    # in whitened coordinates z = W'u, W W' = (M1 + M2)^+ (Cameron, Gelbach & Miller 2011)
    A = estimate.bread
    total = A.T @ (first + second) @ A
    overlap = A.T @ intersection @ A
    size, axes = np.linalg.eigh(total)
    is_real = size > _ROUNDING_OF_ERRORS**2 * size[-1]
    root = axes[:, is_real] * np.sqrt(size[is_real])
    inverse = root.T / size[is_real, None]
    value, vector = np.linalg.eigh(
        np.eye(root.shape[1]) - inverse @ overlap @ inverse.T
    )
    if not (value < -1e-12).any():
        return first + second - intersection, ""
    # M = A'^-1 root Q diag(max(v, 0)) Q' root' A^-1
    half = np.linalg.solve(
        A.T, root @ vector[:, value > 0.0] * np.sqrt(value[value > 0.0])
    )
    return (
        half @ half.T,
        f"{int((value < 0).sum())} of {len(value)} were negative and are set to 0: too few groups for two ways",
    )


def cluster_factor(estimate: Estimate, groups: int, small_sample: SmallSample) -> float:
    # G/(G - 1), and for least squares also (n - 1)/(n - k).
    factor = groups / (groups - 1.0)
    n = estimate.model.design.total
    k = estimate.n_identified
    if has_effects(estimate.model):
        k = len(estimate.model.design.ungrouped)
    linear = factor * (n - 1.0) / (n - k)
    stata = linear if estimate.model.likelihood.least_squares else factor
    factors = {"stata": stata, "each": stata, "full": linear, "groups": factor}
    return factors.get(small_sample, 1.0)


def _newey_west(model: Model, solution: Solution, settings: Settings) -> Spread:
    estimate = estimate_of(model, solution, "a HAC covariance", in_memory=True)
    lags, factor = check_lags(estimate, settings)
    rule = "floor(4 (n/100)^(2/9)), Newey & West 1994"
    words: Words = {
        "lags": float(lags),
        "lags_rule": rule if settings.lags is None else "given",
        "small_sample": f"{settings.small_sample}: {LAG_FACTORS[settings.small_sample]}",
        "factor": factor,
    }
    # M = S_0 + sum_l (1 - l/(L + 1)) (S_l + S_l'), S_l = sum_t u_t u_(t-l)' (Newey & West 1987).
    meat = factor * bartlett_square(estimate.score_rows, lags)
    return Spread(estimate.sandwich(meat), solution.df, words)


def check_lags(estimate: Estimate, settings: Settings) -> tuple[int, float]:
    """Return the lags and the factor of a HAC covariance. Incompatible with weights, DataError for too many lags."""
    if (estimate.weights != 1).any():
        raise Incompatible(
            "a HAC covariance needs rows in time order, one observation each, and this model has weights"
        )
    n = estimate.model.design.n
    lags = default_lags(n) if settings.lags is None else settings.lags
    is_whole = isinstance(lags, int | np.integer) and not isinstance(lags, bool)
    if not (is_whole and 0 <= lags < n):
        raise DataError(
            f"lags={lags!r}: expected a whole number from 0 to n - 1 = {n - 1}"
        )
    small = settings.small_sample
    if small == "full" or (
        small == "stata" and estimate.model.likelihood.least_squares
    ):
        return int(lags), _full(estimate, estimate.model.design.total)
    return int(lags), 1.0


SANDWICHES: Mapping[str, float | None] = {
    "HC0": None,
    "HC1": None,
    "HC2": 0.5,
    "HC3": 1.0,
}  # power of 1 - leverage


def row_factor(estimate: Estimate, kind: str, units: float | None) -> float:
    """Return n / (n - k) for HC1, n / (n - 1) for sampling weights, else 1. n is
    `units`, by default the observations."""
    n = estimate.model.design.total if units is None else units
    if kind == "HC1":
        return _full(estimate, n)
    if estimate.model.design.weight_kind == "sampling" and kind == "HC0" and n > 1:
        return n / (n - 1.0)
    return 1.0


def _full(estimate: Estimate, n: float) -> float:
    """Return n / (n - k). DataError if no degrees of freedom remain."""
    k = estimate.n_identified
    if n <= k:
        raise DataError(
            f"{n:g} observations and {k} coefficients leave no degrees of freedom for the factor n/(n - k)"
        )
    return n / (n - k)


def replicate_covariance(
    model: Model, solution: Solution, settings: Settings
) -> Spread:
    """Return the covariance of the solution's bootstrap replicates."""
    if solution.replicates is None:
        raise Incompatible(
            "this fit has no replicates: fit with Bootstrap(method), such as pr.fit(model, 'bootstrap')"
        )
    return Spread(solution.scale, solution.df)


def _conditional(model: Model, solution: Solution, settings: Settings) -> Spread:
    """Return the covariance given the estimated scales."""
    _require_scales(solution, "conditional")
    return Spread(solution.given_scales, solution.df)


def _joint(model: Model, solution: Solution, settings: Settings) -> Spread:
    """Return the covariance including the uncertainty of the estimated scales."""
    scales = _require_scales(solution, "joint")
    if solution.conditional is not None:
        return Spread(solution.scale, solution.df)
    if scales.rows_absent:
        raise Incompatible(f"covariance='joint' needs the rows: {scales.rows_absent}")
    joint = joint_covariance(scales, solution.scale, model)
    return Spread(joint, solution.df)


def _require_scales(solution: Solution, kind: str) -> FoundScales:
    """Return the estimated scales of the fit. Incompatible if there are none, or if it has another covariance."""
    if solution.scales is None or solution.sandwich or solution.replicates is not None:
        present = "a sandwich or replicates"
        if solution.scales is None:
            present = "the scales of its model"
        raise Incompatible(
            f"covariance={kind!r} needs a fit that estimated scales of effects, smooths or processes and has no other covariance; "
            f"this fit has {present}"
        )
    return solution.scales


_KINDS: dict[str, Callable[[Model, Solution, Settings], Spread]] = {
    "classical": _least_squares,
    "ml": _maximum_likelihood,
    "observed": _observed_information,
    "expected": _expected_information,
    "sampling": _sampling_covariance,
    "dispersion": _dispersed,
    **{kind: partial(_heteroscedastic, kind) for kind in SANDWICHES},
    "cluster": _cluster,
    "HAC": _newey_west,
    "bootstrap": replicate_covariance,
    "conditional": _conditional,
    "joint": _joint,
}


def with_sandwich(model: Model, solution: Solution) -> Solution:
    """Return a quantile fit with the sandwich HC0 as its covariance, or with nan and
    the reason.

    The expected information belongs to a working density, and does not describe a
    quantile.
    """
    try:
        V = covariance_of_kind(model, solution, "HC0").matrix
    except ProbregError as error:
        return _without_errors(model, solution, f"no standard errors: {error}")
    note = important_note(
        Topic.STANDARD_ERRORS,
        "standard errors are the sandwich HC0, with a kernel estimate of the density of the residuals at the quantile",
    )
    notes = (*solution.notes, note)
    return replace(solution, scale=V, sandwich="HC0", notes=notes)


def _without_errors(model: Model, solution: Solution, reason: str) -> Solution:
    """Return the solution without a covariance, with the reason as a note."""
    nothing = NoCovariance.of(*model.shape, log_names(model))
    notes = (*solution.notes, important_note(Topic.STANDARD_ERRORS, reason))
    return replace(solution, scale=nothing, notes=notes)


@one_blas_thread()
def with_errors(model: Model, solution: Solution) -> Solution:
    """Return the solution with the covariance n/(n - 1) V M V over (beta, log aux), M =
    sum_i w_i^2 u_i u_i', for sampling weights.

    u_i are the rows' scores (Binder 1983); rows are the sampling units.
    """
    if solution.status is Status.NO_MAXIMUM or has_nonsmooth_terms(model):
        return solution
    n = model.design.total
    V: ParameterCovariance = NoCovariance.of(*model.shape, log_names(model))
    try:
        estimate = estimate_of(model, solution, "a sandwich covariance")
        if n > 1:
            V = estimate.sandwich(estimate.meat(None), n / (n - 1.0))
    except ProbregError as error:
        return _without_errors(model, replace(solution, df=None), str(error))
    dropped = ("log_evidence", "log_likelihood_of_scales", "log_likelihood")
    stats = {
        name: value for name, value in solution.stats.items() if name not in dropped
    }
    notes = (
        *without_topic(solution.notes, Topic.STANDARD_ERRORS),
        important_note(
            Topic.STANDARD_ERRORS,
            "standard errors are the sandwich of the sampling weights, times n/(n - 1); weights are normalised to sum to n",
        ),
    )
    return replace(
        solution,
        scale=V,
        df=None,
        sandwich="sampling-weighted",
        stats=stats,
        notes=notes,
    )
