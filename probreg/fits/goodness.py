"""Goodness of fit: variance components, number of parameters, deviance, the null model, R^2, and the overall F test.

These functions compute from a model and its estimate; `FitStatistics` adds labels.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.data import Design
from probreg.data.array_columns import ArrayColumns
from probreg.data.checked_arrays import INTERCEPT
from probreg.errors import Incompatible, ProbregError
from probreg.fits.effects_table import covariances_of_effects
from probreg.fits.fitted import Fitted, has_working_errors, statistic_saved_without_rows
from probreg.inference import METHODS
from probreg.inference.base import Status, positive_limits
from probreg.inference.modes.closed_form import open_directions
from probreg.likelihoods import Ordinal
from probreg.linalg import triangular
from probreg.model import likelihood_sums as sums
from probreg.model.model import Model
from probreg.priors import SmoothPrior
from probreg.special import fdtrc

Array = np.ndarray
_OF_LINK: Mapping[str, float] = {
    "logit": np.pi**2 / 3.0,
    "probit": 1.0,
    "cloglog": np.pi**2 / 6.0,
}


class VarianceShares(NamedTuple):
    """The variance components: fixed effects, random effects, and the rest.

    `fixed` is the variance of the fixed part of eta over the rows, `groups` the mean over the rows of z'S z summed over terms, and `rest`
    the variance of y about eta on the scale of eta: sigma^2 for a Gaussian, under precision weights the mean of sigma^2 / w;
    pi^2 / 3, 1 and pi^2 / 6 for the logit, probit and cloglog link; log(1 + 1 / mean of y) for counts with a log link (Nakagawa &
    Schielzeth 2013; Johnson 2014; Nakagawa, Johnson & Schielzeth 2017).
    """

    fixed: float
    groups: float
    rest: float

    @property
    def marginal(self) -> float:
        """R² of the fixed effects alone: V_fixed / (V_fixed + V_groups + V_rest)."""
        return self.fixed / (self.fixed + self.groups + self.rest)

    @property
    def conditional(self) -> float:
        """R² with the random effects: (V_fixed + V_groups) / (V_fixed + V_groups + V_rest)."""
        return (self.fixed + self.groups) / (self.fixed + self.groups + self.rest)

    @property
    def icc(self) -> float:
        """The intraclass correlation given the columns: V_groups / (V_groups + V_rest)."""
        return self.groups / (self.groups + self.rest)


def variance_shares(fit: Fitted) -> VarianceShares:
    """Return the variance components at the estimate of a model with effects of groups; for a posterior those of effects and noise
    are its means, and the fixed part is at the mean of its coefficients.

    Raises Incompatible if they are not defined or the rows are not in memory.
    """
    model = fit.model
    if model.likelihood.outcomes:
        raise Incompatible(
            f"R² of groups is of one linear predictor; {model.likelihood.name} has several"
        )
    if fit.solution.status is Status.NO_MAXIMUM:
        raise Incompatible(
            f"R² of groups has no limit, because coefficients have none: {fit.solution.detail}"
        )
    likelihood = model.likelihood
    link = model.likelihood.link.name
    if not likelihood.least_squares and (
        likelihood.nuisance
        or not (link in _OF_LINK or (link == "log" and likelihood.is_count))
    ):
        raise Incompatible(
            f"the variance of y about eta has no scale of eta for {likelihood.named} likelihood with {link} link"
        )
    saved = [statistic_saved_without_rows(fit, part) for part in VarianceShares._fields]
    if None not in saved:
        return VarianceShares(*saved)  # type: ignore[arg-type]
    design = model.design
    design.need_rows("R² of a model with effects of groups")
    w = design.row_weights
    eta = design.X[:, design.ungrouped] @ fit.solution.beta[design.ungrouped, 0]
    if np.ptp(eta) == 0:
        fixed = 0.0
    else:
        fixed = float(w @ np.square(eta - w @ eta / w.sum()) / max(w.sum() - 1.0, 1.0))
    return VarianceShares(fixed, _group_variance(fit, w), _residual_variance(fit, w))


def effective_of_terms(fit: Fitted) -> dict[str, tuple[float, int]]:
    """Return by term its effective degrees of freedom q - tr(V_bb S^-1) and its number of effects q.

    V is the covariance of the effects given y, at known scales, and S their prior covariance.

    Empty for a posterior that averages over the scales, and without standard errors.
    """
    # most coefficients for which a dense covariance is computed here
    max_coefficients = 3000
    model = fit.model
    s = fit.solution
    V = s.given_scales
    if (
        (s.effect_scales is None and s.draws is not None)
        or not np.isfinite(V.errors()).all()
        or V.coefficients > max_coefficients
    ):
        return {}
    sigma = model.noise(fit.aux)
    degrees: dict[str, tuple[float, int]] = {}
    for b in model.joint.blocks:
        term = model.design.grouped_of(b.columns)
        if term is not None and isinstance(b.prior, SmoothPrior):
            entries = b.entries(model.shape[1])
            _, P = b.prior.derivatives(b.take(s.beta), b.prior.unit(sigma))
            used, q = degrees.get(term.key, (0.0, 0))
            used += len(entries) - float(np.sum(V.block(entries) * P))
            degrees[term.key] = used, q + len(entries)
    return {key: (max(0.0, round(used, 9)), q) for key, (used, q) in degrees.items()}


def _group_variance(fit: Fitted, w: Array) -> float:
    """Return the sum over terms of the mean over rows of z'S z."""
    design = fit.model.design
    total = 0.0
    for key, S in covariances_of_effects(fit.model, fit.solution).items():
        Z = design.inputs[key][:, 1:]
        total += float(w @ np.einsum("nk,kl,nl->n", Z, S, Z) / w.sum())
    return total


def _residual_variance(fit: Fitted, w: Array) -> float:
    likelihood = fit.model.likelihood
    if likelihood.least_squares:
        precision = fit.model.design.precision
        # the mean over rows of sigma^2 / w
        if precision is None:
            share = 1.0
        else:
            share = float(w @ (1.0 / precision) / w.sum())
        name = fit.model.noise_scale or ""
        draws = fit.solution.draws
        if draws is not None and name in draws.values:
            return float(np.square(draws[name]).mean()) * share
        return fit.aux[name] ** 2 * share
    link = likelihood.link.name
    if link in _OF_LINK:
        return _OF_LINK[link]
    mean = float(w @ np.asarray(fit.model.design.observed, dtype=float) / w.sum())
    return float(np.log1p(1.0 / mean))


def estimated_coefficients(fit: Fitted) -> int:
    """Return the number of coefficients that the rows identify, over all linear predictors."""
    saved = statistic_saved_without_rows(fit, "coefficients")
    if saved is not None:
        return round(saved)
    p = len(fit.model.design.ungrouped)
    m = fit.model.shape[1]
    free = fit.solution.null_space
    status = fit.solution.status
    is_unbounded = status is Status.NO_MAXIMUM or status.is_at_limit
    if (
        free is None
        and is_unbounded
        and (opened := open_directions(fit.model)) is not None
    ):
        free = opened.directions
    return (p - (0 if free is None else free.shape[1])) * m


def is_maximum_likelihood(fit: Fitted) -> bool:
    """Whether the fit is a point estimate by likelihood alone, without any prior information."""
    return fit.target == "mode" and fit.model.flat and fit.method.probabilities


NOT_OF_REML = (
    "AIC and BIC are of maximum likelihood, and REML compares only models of the same flat columns: fit with "
    "Evidence(criterion='ML')"
)


def has_tests_at_found_scales(fit: Fitted) -> bool:
    """Whether the fit is a REML or ML mode with fixed effects that have flat priors, in addition to random effects."""
    scales = fit.solution.effect_scales
    if scales is None or not scales.plain or fit.target != "mode":
        return False
    columns = scales.stated.design.ungrouped
    return not scales.stated.joint.informative[columns].any()


def estimate_name(fit: Fitted) -> str:
    """Return the name of the estimate: a mean, a maximum, or the place where the search ended."""
    if fit.target == "posterior":
        return "posterior mean"
    if not fit.method.probabilities:
        return "weights that separate classes, no maximum of a likelihood,"
    scales = fit.solution.effect_scales
    if scales is not None and has_tests_at_found_scales(fit):
        if scales.criterion == "REML":
            return "restricted maximum likelihood"
        return "maximum likelihood"
    status = fit.solution.status
    if fit.model.flat:
        maximum = "maximum likelihood"
    else:
        maximum = "mode under a prior"
    if status is Status.SHORT or status.is_unfinished:
        return f"stopped short of {'' if fit.model.flat else 'the '}{maximum}"
    if status is Status.NO_MAXIMUM:
        return "no maximum of the likelihood exists, fit"
    return maximum


def has_tests(fit: Fitted) -> bool:
    """Whether linear combinations of coefficients have p-values.

    This is the case for maximum likelihood, and for modes with no priors except on random effects, smooth functions and processes
    with scales found by evidence.
    """
    if fit.target != "mode" or fit.model.flat:
        return fit.target == "mode"
    scales = fit.solution.effect_scales
    if not (fit.solution.stats.get("ratios_found") if scales is None else scales.plain):
        return False
    design = fit.model.design
    return not bool(
        fit.model.joint.informative[
            design.ungrouped[~design.of_terms[design.ungrouped]]
        ].any()
    )


def is_saturated(fit: Fitted) -> bool:
    """Return whether least squares has as many coefficients as rows, which leave no degrees of freedom for an unknown
    sigma."""
    return fit.solution.df is not None and fit.solution.df <= 0


def exact_fit(fit: Fitted) -> bool:
    """Whether the residuals of least squares are only rounding errors although degrees of freedom are left."""
    return "exact_fit" in fit.solution.stats


def why_no_criterion(fit: Fitted) -> str | None:
    """Return the reason why AIC and BIC are not defined; None for maximum likelihood."""
    if is_maximum_likelihood(fit):
        return None
    if has_tests_at_found_scales(fit) and fit.solution.effect_scales is not None:
        if fit.solution.effect_scales.criterion == "ML":
            return None
        return NOT_OF_REML
    if fit.target == "posterior":
        return "AIC and BIC are of maximum likelihood, and this is a posterior: pr.compare_models has its elpd"
    if not fit.method.probabilities:
        return (
            f"AIC and BIC need a likelihood, and {fit.method.name} has no probabilities"
        )
    if fit.model.joint.smooth:
        instead = "pr.compare_models has elpd"
    else:
        instead = "pr.compare_models(..., heldout=) or pr.tune(model, by='cv') judges this mode"
    return f"AIC and BIC are of maximum likelihood; under a prior a parameter counts by less than one: {instead}"


def why_no_test(fit: Fitted, *, own_errors: bool) -> str | None:
    """Return the reason why Wald statistics of flat coefficients have no p-value; None if they have.

    `own_errors`: the fit's own covariance is used, and not another one.
    """
    if not fit.method.probabilities:
        return f"no p-values: {fit.method.name} has no standard errors"
    if has_tests(fit):
        if not (has_working_errors(fit) and own_errors):
            return None
        return "no p-values: these standard errors are those of a working density; summary(covariance='HC0') has a test"
    return "no p-values: a prior draws this mode towards it, so that a test would not keep its error rate"


# ---- deviance ----------------------------------------------------------------------------------------------------------


def deviance_at(model: Model, beta: Array, aux: Mapping[str, float]) -> float:
    """D = 2 phi sum_i w_i (log p(y_i | its own eta) - log p(y_i | eta_i)), phi the dispersion of the likelihood at aux.

    For least squares it is the residual sum of squares, computed from the moments if the rows are not in memory.
    """
    likelihood = model.likelihood
    design = model.design
    design.refuse_sampling("a deviance")
    aux_values = {**model.fixed, **aux}
    if likelihood.least_squares:
        if not design.n:
            # RSS(beta) = F_(p+1, p+1)^2 + ||z - R beta||^2
            residual = design.moments.z - design.moments.R @ beta[:, 0]
            return float(design.moments.factor[-1, -1] ** 2 + residual @ residual)
        return float(design.sum_over_rows(partial(sums.residual_squares, beta=beta))[0])
    gain = design.sum_over_rows(
        partial(
            sums.saturated_gain, likelihood=likelihood, beta=beta, aux_values=aux_values
        )
    )[0]
    return 2.0 * likelihood.dispersion(aux_values) * float(gain)


def null_model(model: Model, held: Mapping[str, float]) -> Fitted:
    """Fit only an intercept, with the same response, offset and weights, by maximum likelihood; `held` are fixed nuisance parameters."""
    d = model.design
    d.need_rows("the model of an intercept alone")
    alone = Design(
        np.ones((d.n, 1)), d.y, (INTERCEPT,), ArrayColumns((), True), d.response, d.offset,
        d.weights, precision=d.precision, weight_kind=d.weight_kind,
    )  # fmt: skip
    null = Model(alone, model.likelihood, aux={**model.fixed, **positive_limits(held)})
    rng = np.random.default_rng(0)
    null, method, _, _, solution, _ = METHODS["auto"]().resolve(null, rng)
    return Fitted(null, method, solution or method.solve(null, rng))


def unknown_gaps(model: Model) -> tuple[str, ...]:
    """Return the unknown gaps between thresholds of ordered classes, which count as coefficients."""
    is_ordinal = isinstance(model.likelihood.without_formulas, Ordinal)
    return model.unknown if is_ordinal else ()


def null_deviance(model: Model, aux: Mapping[str, float]) -> float:
    """Return the deviance of an intercept alone, or of the offset alone without an intercept, at these nuisance parameters.

    Unknown thresholds of ordered classes are estimated again, because an intercept is one of them.
    """
    _refuse_several_predictors(model)
    d = model.design
    d.refuse_sampling("a deviance")
    likelihood = model.likelihood
    if d.intercept is None:
        return deviance_at(model, np.zeros(model.shape), aux)
    if likelihood.least_squares and not d.n:
        # the factor of sqrt(w) [1 y] from the factor of sqrt(w) [X y]: its last entry is the root of the sum of squares about the mean
        return float(
            triangular(d.moments.factor[:, [d.intercept, d.moments.p]])[1, 1] ** 2
        )
    held = {} if likelihood.least_squares or unknown_gaps(model) else aux
    null = null_model(model, held)
    return deviance_at(null.model, null.solution.beta, null.solution.aux)


# ---- shares explained --------------------------------------------------------------------------------------------------


def _refuse_several_predictors(model: Model) -> None:
    """Raise Incompatible for a model with a formula for each of several parameters."""
    if model.design.owner is not None:
        raise Incompatible(
            "a model of columns for several parameters has no null deviance: compare it with another model by AIC or compare_models"
        )


def is_density(model: Model) -> bool:
    """Whether the response is a number with a density, so that its likelihood has a unit; False for probabilities."""
    return not model.likelihood.is_discrete


def share_explained(fit: Any) -> float:
    """Return R^2 = 1 - D / D_0 for numbers, and McFadden's 1 - l / l_0 for classes and counts.

    D_0 is the deviance without columns at the same noise, l_0 the log-likelihood of an intercept alone (McFadden 1974).
    """
    _refuse_several_predictors(fit.model)
    if is_density(fit.model):
        part = fit.conditional_deviance
        null_value = null_deviance(fit.model, fit.solution.aux)
    else:
        part = fit.conditional_log_likelihood
        null_value = null_model(fit.model, {}).conditional_log_likelihood
    # if an intercept fits the response exactly, no deviance is left to explain
    return 1.0 - part / null_value if null_value else np.nan


class OverallTest(NamedTuple):
    """The F test that all coefficients except the intercept are zero."""

    statistic: float
    df: int
    df_resid: int
    p_value: float


def overall_test(
    fit: Fitted, rss: float, rss_null: float, df_resid: int
) -> OverallTest | None:
    """Return F = ((RSS_0 - RSS) / q) / (RSS / df) for least squares; None without slopes, degrees of freedom or residuals."""
    q = estimated_coefficients(fit) - (fit.model.design.intercept is not None)
    if q < 1 or df_resid < 1 or rss <= 0.0:
        return None
    F = (rss_null - rss) / q / (rss / df_resid)
    return OverallTest(F, q, df_resid, float(fdtrc(q, df_resid, F)))


def statistic_or_nan(fit: Fitted, name: str) -> Any:
    """Return an attribute of the fit, or nan if this fit has no such statistic."""
    try:
        return getattr(fit, name)
    except ProbregError:
        return np.nan


def number_of_observations(fit: Fitted) -> float | None:
    """Return the sum of frequency weights, or the number of rows under other weights; None if a saved fit lacks it."""
    design = fit.model.design
    if design.has_rows or design.kept is not None:
        return design.total
    return fit.solution.stats.get("n")
