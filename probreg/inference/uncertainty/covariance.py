"""Covariances of a point estimate: from a model and its mode to a matrix, and words for every convention in it.

All are V M V or V alone: V the inverse curvature at the estimate (the bread; with a prior its penalised curvature), M the
sum of squares of the rows' scores (the meat).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probreg.data.weights import refuse_sampling
from probreg.errors import DataError, Incompatible, NotConverged, ProbregError
from probreg.inference.base import Array, Method, Solution, Status, log_names
from probreg.inference.covariance import (
    NoCovariance,
    ParameterCovariance,
    root_of_square,
)
from probreg.inference.exact.joint_covariance import joint_covariance
from probreg.inference.modes.closed_form import ClosedForm
from probreg.inference.modes.sgd import Stochastic
from probreg.inference.notes import Topic, important_note, without_topic
from probreg.inference.penalized.coordinate_descent import CoordinateDescent
from probreg.inference.penalized.nonsmooth import has_nonsmooth_terms, no_errors
from probreg.inference.penalized.piecewise_linear import InteriorPoint
from probreg.inference.penalized.proximal_newton import ProximalNewton
from probreg.inference.uncertainty.clusters import (
    SmallSample,
    bartlett_square,
    cluster_square,
    crossed,
    default_lags,
)
from probreg.inference.uncertainty.information import Estimate, estimate_of
from probreg.inference.varying import FoundScales
from probreg.likelihoods import ProximalLikelihood
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread
from probreg.priors import Flat
from probreg.system.terminal import few_names

Words = Mapping[str, str | float]
_HC = "sandwich V M V, M the sum over observations of u u'"

DEFINITIONS = {
    "classical": "sigma^2 (X'X)^-1 with sigma^2 = RSS/(n - rank)",
    "ml": "sigma^2 (X'X)^-1 with the maximum likelihood estimate sigma^2 = RSS/n",
    "observed": "the inverse of minus the second derivatives of the log posterior over (beta, log aux)",
    "expected": "the inverse of X'WX + prior precision, W the expected information of a row; aux held at its estimate",
    "sampling": "V I V, I = X'WX the expected information of the rows and V the inverse of I + prior precision. It is what "
    "the penalised estimate does in repeated samples, its bias left out",
    "HC0": f"{_HC}, u the score of an observation",
    "HC1": f"{_HC}, u the score of an observation, times n/(n - k)",
    "HC2": f"{_HC}, u the score of an observation over sqrt(1 - leverage)",
    "HC3": f"{_HC}, u the score of an observation over (1 - leverage)",
    "cluster": "sandwich V M V, M the sum over groups of s s', s the sum of the scores of a group",
    "HAC": "sandwich V M V, M with the products of scores up to `lags` rows apart, Bartlett weights 1 - l/(lags + 1)",
    "bootstrap": "the covariance of the replicates that have an estimate",
    "joint": "the inverse of minus the second derivatives of the criterion over scales and nuisance parameters, carried to the "
    "coefficients, plus their covariance given these",
    "conditional": "the covariance of the coefficients given the scales and nuisance parameters that were found",
    "sampling-weighted": "sandwich V M V over (beta, log aux), M the sum over rows of w^2 u u', u the score of a row, times "
    "n/(n - 1). Rows are the units that were sampled",
}
PENALISED = (
    "the prior is in V, the inverse of the penalised curvature, and not in M. That this differs from the model's own errors "
    "is no evidence of misspecification; compare it with 'sampling'"
)
# of the standard error of independent rows: a smaller one is rounding
_OF_ROUNDING = 1e-6
_STATA = "G/(G - 1) (n - 1)/(n - k) for a Gaussian, G/(G - 1) for other likelihoods"
ROBUST = (
    "HC0",
    "HC1",
    "cluster",
)  # kinds that need no likelihood, and so hold under sampling weights
_SANDWICHES = {*ROBUST, "HC2", "HC3", "HAC", "sampling-weighted"}
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
            "over samples. Ask a point estimate of this model for it, such as pr.fit(model, 'newton')"
        )
    if not method.probabilities:
        raise Incompatible(
            f"{method.name} has no likelihood at its answer, so no covariance of kind {kind!r}"
        )


def check_settings(groups: Any, lags: int | None, small_sample: str, kind: str) -> None:
    """DataError for a setting that this kind does not read, or an unknown small-sample factor."""
    if small_sample not in FACTORS:
        raise DataError(
            f"small_sample={small_sample!r} is not known; there are: {', '.join(FACTORS)}"
        )
    if kind == "HAC" and small_sample not in LAG_FACTORS:
        raise DataError(
            f"small_sample={small_sample!r} is about groups; a HAC covariance has: {', '.join(LAG_FACTORS)}"
        )
    if groups is not None and kind != "cluster":
        raise DataError(f"groups= goes with covariance('cluster'), not with {kind!r}")
    if lags is not None and kind != "HAC":
        raise DataError(f"lags= goes with covariance('HAC'), not with {kind!r}")


class Spread(NamedTuple):
    """A covariance of vec(beta), the degrees of freedom of a t interval from it, and what it is."""

    matrix: ParameterCovariance
    df: float | None
    words: Words


@dataclass(frozen=True)
class Settings:
    """What some kinds ask for: groups as codes (one or two ways), lags, and the small-sample factor."""

    groups: list[Array] = field(default_factory=list)
    lags: int | None = None
    small_sample: SmallSample = "stata"


def reported(model: Model, method: Method, solution: Solution) -> Words:
    """Words for the covariance that a solution of the model carries already."""
    if solution.draws is not None:
        return {"kind": "posterior", "definition": "the covariance of the posterior"}
    return {**_penalised(model, _of_mode(model, method, solution)), **_df(solution.df)}


def _of_mode(model: Model, method: Method, solution: Solution) -> Words:
    if solution.sandwich:
        return {"kind": solution.sandwich, "definition": DEFINITIONS[solution.sandwich]}
    if solution.replicates is not None:
        return {
            "kind": "bootstrap",
            "definition": "the covariance of the replicates that have an estimate",
        }
    if not method.probabilities:
        return {"kind": "none", "definition": f"{method.name} has no standard errors"}
    if not np.isfinite(solution.scale.diagonal()).any() and isinstance(
        method, ProximalNewton | CoordinateDescent
    ):
        return {"kind": "none", "definition": no_errors(model)}
    if (
        isinstance(method, InteriorPoint)
        and not np.isfinite(solution.scale.diagonal()).any()
    ):
        return {
            "kind": "none",
            "definition": "no covariance: the sandwich cannot be computed",
        }
    if isinstance(method, InteriorPoint):
        return {"kind": "expected", "definition": DEFINITIONS["expected"]}
    if solution.scales is not None:
        if solution.conditional is None:
            kind = "conditional"
        else:
            kind = "joint"
        return {"kind": kind, "definition": DEFINITIONS[kind]}
    if isinstance(method, ClosedForm) or (
        isinstance(method, Stochastic) and solution.df is not None
    ):
        if solution.df is None:
            kind = "expected"
        else:
            kind = "classical"
        return {"kind": kind, "definition": DEFINITIONS[kind]}
    return {"kind": "observed", "definition": DEFINITIONS["observed"]}


@one_blas_thread()
def covariance_of_kind(
    model: Model, solution: Solution, kind: str, settings: Settings = Settings()
) -> Spread:
    """The covariance of this kind at a mode.

    DataError for an unknown kind or settings that do not fit; Incompatible where the kind means nothing for this model;
    NotConverged without an estimate. Sources: Huber 1967; White 1980; MacKinnon & White 1985; Liang & Zeger 1986;
    Cameron, Gelbach & Miller 2011; Newey & West 1987.
    """
    if kind not in _KINDS:
        raise DataError(
            f"no covariance is called {kind!r}; there are: {', '.join(_KINDS)}"
        )
    if kind not in ROBUST:
        refuse_sampling(model.design.weight_kind, f"a covariance of kind {kind!r}")
    spread = _KINDS[kind](model, solution, settings)
    words = {"kind": kind, "definition": DEFINITIONS[kind]}
    if isinstance(model.likelihood, ProximalLikelihood) and kind in _SANDWICHES:
        words["definition"] += f"; {_KINKS}"
    return Spread(
        spread.matrix,
        spread.df,
        {**_penalised(model, words), **spread.words, **_df(spread.df)},
    )


def _penalised(model: Model, words: Words) -> Words:
    """A sandwich whose bread holds a prior is named as that: it is smaller than the model's own errors by the prior's hold."""
    if model.flat or words["kind"] not in _SANDWICHES:
        return words
    return {
        "kind": f"{words['kind']} of a penalised mode",
        "definition": f"{words['definition']}; {PENALISED}",
    }


def _df(df: float | None) -> Words:
    return {} if df is None else {"df": df}


# ---- from the model -------------------------------------------------------------------------------------------------


def _least_squares(model: Model, solution: Solution, settings: Settings) -> Spread:
    if not model.likelihood.least_squares or model.joint.informative.any():
        raise Incompatible(
            "sigma^2 (X'X)^-1 is the covariance of least squares, a Gaussian likelihood with flat priors; for this model ask "
            "for 'observed', 'expected' or 'sampling'"
        )
    # V = s^2 (X'X)^-1, s^2 = RSS/(n - rank), or sigma^2 where it is given.
    found = ClosedForm().solve(
        replace(model, prior=Flat(), aux=model.fixed), np.random.default_rng(0)
    )
    if found.df is None:
        return Spread(
            found.scale,
            None,
            {"sigma2": model.fixed[model.noise_scale] ** 2, "sigma2_is": "given"},
        )
    if not found.df:
        raise NotConverged(
            "there is no covariance of least squares: sigma^2 has no residual degrees of freedom, as there are no more observations "
            "than coefficients"
        )
    return Spread(
        found.scale,
        found.df,
        {"sigma2": found.stats["rss"] / found.df, "sigma2_is": "RSS/(n - rank)"},
    )


def _maximum_likelihood(model: Model, solution: Solution, settings: Settings) -> Spread:
    found = _least_squares(model, solution, settings)
    if found.df is None:
        return found
    n = model.design.total
    # RSS/n = s^2 (n - rank)/n: no correction for the coefficients.
    words: Words = {
        "sigma2": float(found.words["sigma2"]) * found.df / n,
        "sigma2_is": "RSS/n",
    }
    return Spread(found.matrix.scaled(found.df / n), None, words)


def _observed(model: Model, solution: Solution, settings: Settings) -> Spread:
    if isinstance(model.likelihood, ProximalLikelihood):
        raise Incompatible(
            f"the {model.likelihood.name} likelihood has no second derivatives at its mode, which lies on kinks. Ask for 'expected', "
            "or for 'HC0', which counts the density of the residuals there"
        )
    at = estimate_of(model, solution, "observed information")
    # V = (-d^2 log posterior)^-1 at the mode.
    return Spread(at.of_root(at.bread), None, {})


def _expected(model: Model, solution: Solution, settings: Settings) -> Spread:
    at = estimate_of(model, solution, "expected information")
    # V = (I + P)^-1, I the expected information of the rows and P the prior's curvature.
    return Spread(at.of_root(np.linalg.cholesky(at.expected)), None, {})


def _sampling(model: Model, solution: Solution, settings: Settings) -> Spread:
    at = estimate_of(model, solution, "sampling covariance")
    # cov of the estimator over new responses: V I V, which is V where the prior is flat.
    A = np.linalg.cholesky(at.expected)
    return Spread(
        at.of_root(A @ root_of_square(A.T @ at.data_information @ A)), None, {}
    )


# ---- from the rows --------------------------------------------------------------------------------------------------


def _heteroscedastic(
    power: float | None, *, corrected: bool = False
) -> Callable[[Model, Solution, Settings], Spread]:
    def make(model: Model, solution: Solution, settings: Settings) -> Spread:
        at = estimate_of(model, solution, "a sandwich covariance")
        # V M V with M = sum_i w_i u_i u_i' (White 1980); HC1 has n/(n - k), HC2 divides scores by (1 - h_i)^(1/2) and
        # HC3 by 1 - h_i (MacKinnon & White 1985).
        if corrected:
            factor = _full(at, at.model.design.total)
        else:
            factor = 1.0
        return Spread(
            at.sandwich(at.meat(power), factor), solution.df, {"factor": factor}
        )

    return make


_KINKS = "V holds the density of the residuals at the kinks of the loss, by Epanechnikov's kernel with the bandwidth of Hall & Sheather 1988"


def _refuse_within_groups(
    model: Model, clustered: ParameterCovariance, single: ParameterCovariance
) -> None:
    """Incompatible for coefficients with a variance of 0 to rounding, beside the variance `single` of independent rows: their scores
    sum to 0 in every group, because columns fit the mean of each group exactly."""
    k = clustered.coefficients
    alone = single.errors()[:k]
    small = (clustered.errors()[:k] <= _OF_ROUNDING * alone) & (
        alone > 0.0
    )  # 0 alone: a coefficient without an estimate
    if small.any():
        columns = [
            model.design.columns[j]
            for j in np.flatnonzero(small.reshape(model.shape[0], -1).any(1))
        ]
        raise Incompatible(
            f"groups: the columns fit the mean of each group exactly, so scores sum to 0 in every group and a cluster covariance of "
            f"{few_names(columns)} is 0. Leave the columns of the groups out, or cluster by larger groups"
        )


def _clustered(model: Model, solution: Solution, settings: Settings) -> Spread:
    at = estimate_of(model, solution, "a cluster covariance", each=True)
    # M = sum_g s_g s_g', s_g the sum of w_i u_i over group g (Liang & Zeger 1986).
    rows = at.score_rows(at.scores) * at.weights[:, None]
    ways = settings.groups
    sets = [*ways, crossed(*ways)] if len(ways) == 2 else ways
    counts = [int(c.max()) + 1 for c in sets]
    whole = (
        settings.small_sample == "stata"
    )  # one factor of V1 + V2 - V12, not one of each part
    factors = [
        cluster_factor(at, min(counts) if whole else g, settings.small_sample)
        for g in counts
    ]
    squares = [cluster_square(rows, c) for c in sets]
    meats = [f * M for f, M in zip(factors, squares)]
    _refuse_within_groups(
        model,
        at.sandwich(sum(squares[1 : len(ways)], squares[0])),
        at.sandwich(rows.T @ rows),
    )
    words: dict[str, str | float] = {
        "groups": " x ".join(map(str, counts[: len(ways)])),
        "small_sample": f"{settings.small_sample}: {FACTORS[settings.small_sample]}",
        "factor": factors[0]
        if len(ways) == 1 or whole
        else ", ".join(f"{f:.6g}" for f in factors),
    }
    meat = meats[0]
    if len(ways) == 2:
        words["ways"] = _WAYS + (
            "of the whole, as Stata's ivreg2" if whole else "of each part"
        )
        meat, negative = _positive_part(at, *meats)
        words |= {"eigenvalues": negative} if negative else {}
    return Spread(at.sandwich(meat), min(counts[: len(ways)]) - 1.0, words)


_WAYS = "two: V1 + V2 - V12 (Cameron, Gelbach & Miller 2011), with a factor "


def _positive_part(
    at: Estimate, first: Array, second: Array, both: Array
) -> tuple[Array, str]:
    """The meat M1 + M2 - M12, the third by the groups that both ways make. V M V need not be a covariance: negative eigenvalues,
    in units of the standard errors without M12, are set to 0, and the words report it."""
    # in whitened coordinates z = W'u, W W' = (M1 + M2)^+ (Cameron, Gelbach & Miller 2011)
    A = at.bread
    whole = A.T @ (first + second) @ A
    less = A.T @ both @ A
    root = root_of_square(whole)
    inverse = np.linalg.pinv(root)
    value, vector = np.linalg.eigh(np.eye(root.shape[1]) - inverse @ less @ inverse.T)
    if not (value < -1e-12).any():
        return first + second - both, ""
    # M = A'^-1 root Q diag(max(v, 0)) Q' root' A^-1
    half = np.linalg.solve(
        A.T, root @ vector[:, value > 0.0] * np.sqrt(value[value > 0.0])
    )
    return (
        half @ half.T,
        f"{int((value < 0).sum())} of {len(value)} were negative and are set to 0: too few groups for two ways",
    )


def cluster_factor(at: Estimate, groups: int, small_sample: SmallSample) -> float:
    # G/(G - 1), and for least squares also (n - 1)/(n - k).
    few = groups / (groups - 1.0)
    n = at.model.design.total
    k = at.identified
    linear = few * (n - 1.0) / (n - k)
    if at.model.likelihood.least_squares:
        stata = linear
    else:
        stata = few
    return {"stata": stata, "each": stata, "full": linear, "none": 1.0}[small_sample]


def _newey_west(model: Model, solution: Solution, settings: Settings) -> Spread:
    at = estimate_of(model, solution, "a HAC covariance", each=True)
    lags, factor = check_lags(at, settings)
    if settings.lags is not None:
        rule = "given"
    else:
        rule = "floor(4 (n/100)^(2/9)), Newey & West 1994"
    words: Words = {
        "lags": float(lags),
        "lags_rule": rule,
        "small_sample": f"{settings.small_sample}: {LAG_FACTORS[settings.small_sample]}",
        "factor": factor,
    }
    # M = S_0 + sum_l (1 - l/(L + 1)) (S_l + S_l'), S_l = sum_t u_t u_(t-l)' (Newey & West 1987).
    meat = factor * bartlett_square(at.score_rows(at.scores), lags)
    return Spread(at.sandwich(meat), solution.df, words)


def check_lags(at: Estimate, settings: Settings) -> tuple[int, float]:
    """The lags and the factor of a HAC covariance. Incompatible under weights, DataError for lags beyond the rows."""
    if (at.weights != 1).any():
        raise Incompatible(
            "a HAC covariance reads the rows as times, one observation each, and this model has weights"
        )
    n = at.model.design.n
    if settings.lags is None:
        lags = default_lags(n)
    else:
        lags = settings.lags
    if (
        isinstance(lags, bool)
        or not isinstance(lags, int | np.integer)
        or not 0 <= lags < n
    ):
        raise DataError(
            f"lags is a whole number from 0 to n - 1 = {n - 1}, got {lags!r}"
        )
    full = settings.small_sample == "full" or (
        settings.small_sample == "stata" and at.model.likelihood.least_squares
    )
    return int(lags), _full(at, at.model.design.total) if full else 1.0


SANDWICHES: Mapping[str, float | None] = {
    "HC0": None,
    "HC1": None,
    "HC2": 0.5,
    "HC3": 1.0,
}  # power of 1 - leverage


def row_factor(at: Estimate, kind: str, units: float | None = None) -> float:
    """n / (n - k) of HC1; n / (n - 1) of sampling weights; 1 of other sandwiches. n is `units`, by default the observations."""
    n = at.model.design.total if units is None else units
    if kind == "HC1":
        return _full(at, n)
    if at.model.design.weight_kind == "sampling" and kind == "HC0" and n > 1:
        return n / (n - 1.0)
    return 1.0


def _full(at: Estimate, n: float) -> float:
    """n / (n - k). DataError when no degrees of freedom are left."""
    k = at.identified
    if n <= k:
        raise DataError(
            f"{n:g} observations and {k} coefficients leave no degrees of freedom for the factor n/(n - k)"
        )
    return n / (n - k)


def replicated(model: Model, solution: Solution, settings: Settings) -> Spread:
    """The covariance of bootstrap replicates, which the solution carries."""
    if solution.replicates is None:
        raise Incompatible(
            "this fit has no replicates: fit with Bootstrap(method), such as pr.fit(model, 'bootstrap')"
        )
    return Spread(solution.scale, solution.df, {})


def _conditional(model: Model, solution: Solution, settings: Settings) -> Spread:
    """The covariance given the scales that were found."""
    _require_scales(solution, "conditional")
    return Spread(solution.given_scales, solution.df, {})


def _joint(model: Model, solution: Solution, settings: Settings) -> Spread:
    """The covariance that includes the uncertainty of the scales that were found."""
    found = _require_scales(solution, "joint")
    if solution.conditional is not None:
        return Spread(solution.scale, solution.df, {})
    if not (found.stated.design.reachable or found.stated.design.kept is not None):
        raise Incompatible(
            f"covariance='joint' needs the rows: {found.stated.design.rows_absent}"
        )
    return Spread(
        joint_covariance(found, solution.scale, solution.beta, model), solution.df, {}
    )


def _require_scales(solution: Solution, kind: str) -> FoundScales:
    """The scales of the fit. Incompatible where none were found, or where its covariance is another one."""
    if solution.scales is None or solution.sandwich or solution.replicates is not None:
        raise Incompatible(
            f"covariance={kind!r} is for a fit that estimated scales of effects, smooths or processes and has no other covariance of "
            f"its own; this fit has {'the scales of its model' if solution.scales is None else 'a sandwich or replicates'}"
        )
    return solution.scales


_KINDS: dict[str, Callable[[Model, Solution, Settings], Spread]] = {
    "classical": _least_squares,
    "ml": _maximum_likelihood,
    "observed": _observed,
    "expected": _expected,
    "sampling": _sampling,
    "HC0": _heteroscedastic(None),
    "HC1": _heteroscedastic(None, corrected=True),
    "HC2": _heteroscedastic(0.5),
    "HC3": _heteroscedastic(1.0),
    "cluster": _clustered,
    "HAC": _newey_west,
    "bootstrap": replicated,
    "conditional": _conditional,
    "joint": _joint,
}


def with_sandwich(model: Model, solution: Solution) -> Solution:
    """A quantile fit with the sandwich HC0 for its covariance, or with nan and the reason where it cannot be computed. The expected
    information is that of a working density, and says nothing of a quantile."""
    try:
        spread = covariance_of_kind(model, solution, "HC0")
    except ProbregError as error:
        nothing = NoCovariance.of(*model.shape, log_names(model))
        return replace(
            solution,
            scale=nothing,
            notes=(
                *solution.notes,
                important_note(Topic.STANDARD_ERRORS, f"no standard errors: {error}"),
            ),
        )
    note = important_note(
        Topic.STANDARD_ERRORS,
        "standard errors are the sandwich HC0, with a kernel estimate of the density of the residuals at the quantile",
    )
    return replace(
        solution, scale=spread.matrix, sandwich="HC0", notes=(*solution.notes, note)
    )


@one_blas_thread()
def with_errors(model: Model, solution: Solution) -> Solution:
    """The solution with the covariance n/(n - 1) V M V over (beta, log aux) in place of its own, M = sum_i w_i^2 u_i u_i'
    of the rows' scores u_i (Binder 1983; rows are the units that were sampled), for a model under sampling weights."""
    if solution.status is Status.NO_MAXIMUM or has_nonsmooth_terms(model):
        return solution
    n = model.design.total
    try:
        at = estimate_of(model, solution, "a sandwich covariance")
        none: ParameterCovariance = NoCovariance.of(*model.shape, log_names(model))
        V = at.sandwich(at.meat(None), n / (n - 1.0)) if n > 1 else none
    except NotConverged as error:
        return replace(
            solution,
            scale=NoCovariance.of(*model.shape),
            df=None,
            notes=(
                *solution.notes,
                important_note(Topic.STANDARD_ERRORS, str(error)),
            ),
        )
    # of log aux, by the delta method that of aux over aux
    aux_sd = {
        a: solution.aux[a] * float(s)
        for a, s in zip(model.unknown, V.errors()[V.coefficients :])
    }
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
        aux_sd=aux_sd,
        df=None,
        sandwich="sampling-weighted",
        stats=stats,
        notes=notes,
    )
