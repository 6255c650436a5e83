"""Descriptions of the prior of a fit, and its influence on each coefficient: its weight, its pull, a conflict of prior and data, and the
sensitivity to its scale.

The reference is the same likelihood under flat priors. With P and J the curvatures of the log prior and of the
log likelihood at the estimate and H = P + J, the prior weight is (P H^-1)_jj. For independent normal priors it is the
posterior variance over the prior variance. The sum of 1 - weight is the effective number of parameters. The pull
H^-1 grad log p(beta) is the first-order bias of a mode: the derivative of the estimate over the strength of the prior.

With P and H the curvatures of the log prior and of the log posterior over the coefficients at the estimate, the prior
weight of a coefficient is (P H^-1)_jj, with the other coefficients re-estimated: for independent priors it is the posterior variance
over the prior variance. The weights sum to the number of coefficients that the prior determines (MacKay 1992).
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import scipy

from probreg.arguments.scalars import DataFrame, check_arguments
from probreg.diagnostics.after.prior import has_prior, power_scaling
from probreg.diagnostics.before.columns import prior_scale
from probreg.errors import Incompatible, NotConverged, ProbregError, ProbregWarning
from probreg.fits.fit import Fit, fit as fit_model
from probreg.fits.inference_data import reported_coefficients, reported_matrix
from probreg.inference import Auto, Method
from probreg.inference.base import has_effects, outcomes_of
from probreg.inference.varying import hyper_of_blocks
from probreg.likelihoods import SmoothLikelihood
from probreg.linalg import root_of_curvature
from probreg.model.constructors import design_of_moments
from probreg.model.descriptions import describe_prior
from probreg.model.model import Model
from probreg.priors import (
    AffinePrior,
    AuxPrior,
    Flat,
    HierarchicalPrior,
    JointPrior,
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)
from probreg.priors.joint import BlockPrior, mapping_of
from probreg.tables import PrintsTable, Table

Array = np.ndarray


# ---- words --------------------------------------------------------------------------------------------------------------


def _coefficient_priors(fit: Fit) -> Array:
    """Describe the prior of each reported coefficient, (p, outcomes or 1) of text."""
    model = fit.model
    texts = np.full(
        (model.shape[0], len(model.likelihood.outcomes) or 1), "flat", object
    )
    for b in model.joint.blocks:
        prior: Any = b.prior
        if isinstance(prior, Flat):
            continue
        q = len(b.columns)
        priors = [prior] * q
        has_matrix = getattr(prior, "precision_matrix", None) is not None
        of_columns = isinstance(prior, AffinePrior) and prior.size and not has_matrix
        if of_columns:
            settings = np.broadcast_arrays(prior.scales, prior.location, np.ones(q))
            priors = [
                replace(prior, scale=scale, location=location)
                for scale, location, _ in np.transpose(settings).tolist()
            ]
        units = " in units of sigma" * prior.sigma_units
        words = [describe_prior(of_column) + units for of_column in priors]
        b.put(texts, np.array(words, object)[:, None])
    return texts[model.design.ungrouped]


def aux_prior_words(model: Model, name: str) -> str:
    """The prior of an auxiliary parameter.

    >>> from probreg.priors import HalfNormal
    >>> aux_prior_words(Model.from_arrays([1.0, 2.0], [0.0, 1.0], aux={"sigma": HalfNormal(2.0)}), "sigma")
    'HalfNormal(2)'
    """
    if name in model.fixed:
        return f"fixed at {model.fixed[name]:.4g}"
    prior = model.aux_prior(name)
    if isinstance(prior, Reference):
        return f"p({name}) ∝ 1/{name}"
    return describe_prior(prior)


def scale_priors(fit: Fit) -> dict[str, AuxPrior]:
    """The prior of each standard deviation and correlation of effects, and of a noise scale next to them."""
    model = fit.stated_model
    priors = {}
    if fit.solution.effect_scales is not None or model.design.recipe.grouped:
        priors = {name: model.aux_prior(name) for name in model.unknown}
    for _, block_prior, names in hyper_of_blocks(model):
        if block_prior.hyper_labels:  # of the covariance of effects
            priors |= {names[name]: block_prior.hyper[name].prior for name in names}
    return priors


def scale_prior_words(prior: AuxPrior) -> str:
    """Describe the prior of a scale; a reference prior is flat on the scale of the search."""
    return "flat" if isinstance(prior, Reference) else describe_prior(prior)


def describe_priors(fit: Fit, scalars: list[str]) -> tuple[list[str], list[float]]:
    """Return the prior in words and its weight, for the coefficients outcome by outcome and some other parameters."""
    aux = fit.solution.aux
    weights, aux_weights = prior_weights(fit)
    weight_of = dict(zip(aux, aux_weights))
    of_scales = {}
    if [name for name in scalars if name not in aux]:
        of_scales = scale_priors(fit)
    texts = _coefficient_priors(fit).T.ravel().tolist()
    numbers = weights.T.ravel().tolist()
    for name in scalars:
        prior = of_scales.get(name)
        no_weight = 0.0 if isinstance(prior, Reference) else np.nan
        numbers.append(weight_of.get(name, no_weight))
        if name in aux:
            texts.append(aux_prior_words(fit.model, name))
        else:
            texts.append("" if prior is None else scale_prior_words(prior))
    return texts, numbers


# ---- the weight of the prior --------------------------------------------------------------------------------------------


def prior_weights(fit: Fit) -> tuple[Array, list[float]]:
    """(P H^-1)_jj of every reported coefficient, (p, outcomes or 1), and P / H of every unknown auxiliary parameter on its
    log scale, at fixed coefficients. H = P + J, J the observed information of the likelihood, all at the estimate; a
    reported softmax coefficient is a direction, its row of the display. 0 for a flat prior; nan if it is not defined:
    at a kink, where the log prior is not concave, and for rows that are not kept."""
    model = fit.model
    s = fit.solution
    P_aux = np.array([curvature_over_log(fit, a) for a in s.aux])
    informative = model.joint.informative
    if not informative.any() and not P_aux.any():
        shape = len(model.design.ungrouped), len(model.likelihood.outcomes) or 1
        return np.zeros(shape), [0.0] * len(P_aux)
    _, P = prior_derivatives_of_fit(fit)
    J, J_aux = information_of_fit(fit)
    has_prior = np.repeat(informative, model.shape[1])
    weights = _curvature_by_outcome(
        fit, np.where(has_prior[:, None], P @ inverse_or_nan(P + J), 0.0)
    )
    # (p m,) bool: the log prior of the block that a coefficient belongs to curves downward, in a block of independent
    # entries the log prior of the coefficient itself.
    m = model.shape[1]
    concave = np.diagonal(P) >= 0
    for b in model.joint.blocks:
        entries = b.entries(m)
        part = P[np.ix_(entries, entries)]
        if np.isfinite(part).all() and (part - np.diag(np.diagonal(part))).any():
            concave[entries] = np.linalg.eigvalsh(part)[0] >= -1e-9 * np.abs(part).max()
    defined = _curvature_by_outcome(fit, np.diag(np.where(concave, 0.0, 1.0))) == 0.0
    aux_weights = np.where(P_aux == 0, 0.0, np.nan)
    proper = (P_aux > 0) & (P_aux + J_aux > 0)
    aux_weights[proper] = P_aux[proper] / (P_aux + J_aux)[proper]
    # Weights that are in [0, 1] up to rounding. Other weights, possible with a prior that correlates coefficients, are nan.
    inside = (weights > -1e-9) & (weights < 1.0 + 1e-9)
    proportion = np.where(inside & defined, np.clip(weights, 0.0, 1.0), np.nan)
    proportion[~informative[model.design.ungrouped]] = 0.0
    return proportion, aux_weights.tolist()


def curvature_over_log(fit: Fit, name: str) -> float:
    """The negative second derivative of log p(aux) over log aux, for sigma including log p(beta | sigma): a normal
    prior in units of sigma has -log p = q m log sigma + r'P r / (2 sigma^2), of curvature 2 r'P r / sigma^2."""
    model = fit.model
    s = fit.solution
    curvature = -model.aux_prior(name).slopes(s.aux[name])[1]
    if name != model.likelihood.noise_scale or not model.joint.sigma_units.any():
        return curvature
    if model.joint.gaussian:
        return (
            curvature + model.joint.value_grad_hessian(s.beta, s.aux[name])[2][-1, -1]
        )
    h = 1e-3  # a second difference: other priors are smooth in sigma too, to about 1e-6 of their curvature
    # priors that are not known without hyperparameters are not in units of sigma
    proper = JointPrior(tuple(b for b in model.joint.blocks if b.prior.known))
    log_p = [
        float(proper.log_prob(s.beta, s.aux[name] * np.exp(k * h))) for k in (-1, 0, 1)
    ]
    return curvature - (log_p[0] - 2.0 * log_p[1] + log_p[2]) / h**2


def prior_derivatives_of_fit(fit: Fit) -> tuple[Array, Array]:
    """The slope of log p(beta) at the estimate, (p m,) over vec(beta), and its negative Hessian P, (p m, p m): nan where they do not
    exist, at a kink, and P for a fit without its rows."""
    beta = fit.solution.beta
    sigma = fit.model.likelihood.noise(fit.aux)
    g = np.full(beta.size, np.nan)
    P = np.zeros((beta.size, beta.size))
    for b in fit.model.joint.blocks:
        entries = b.entries(beta.shape[1])
        unit = b.prior.unit(sigma)
        if isinstance(b.prior, Flat):
            g[entries] = 0.0
            continue
        if isinstance(b.prior, WholePrior) and rowless(fit):
            continue  # its log density is a sum over the rows
        if isinstance(b.prior, SmoothPrior):
            # the curvature is negative in the tails of a Student-t, which are convex
            g[entries], P[np.ix_(entries, entries)] = b.prior.derivatives(
                b.take(beta), unit
            )
            continue
        P[entries, entries] = np.nan
        if isinstance(b.prior, ProximalPrior):
            low, high = b.prior.subgradient(b.take(beta), unit)
            g[entries] = np.where(low == high, -low, np.nan).ravel()
    return g, np.full(P.shape, np.nan) if rowless(fit) else P


def information_of_fit(fit: Fit) -> tuple[Array, Array]:
    """Observed information of the likelihood at the estimate: J over vec(beta), (p m, p m), and the diagonal over log
    aux; nan for a fit without rows and moments."""
    model = fit.model
    s = fit.solution
    k = s.beta.size
    if rowless(fit) or not isinstance(model.likelihood, SmoothLikelihood):
        return np.full((k, k), np.nan), np.full(len(s.aux), np.nan)
    model = replace(model, prior=Flat(), aux=model.fixed)
    # also with rows, for the same rounding as in a saved fit
    if model.likelihood.least_squares:
        model = replace(model, design=design_of_moments(model.design.moments))
    H = model.value_grad_hessian(s.beta, **s.aux).curvature
    return H[:k, :k], np.diagonal(H)[k:]


def rowless(fit: Fit) -> bool:
    """Return whether sums over the rows are impossible and no moments replace them."""
    return not fit.model.design.has_rows and not fit.model.likelihood.least_squares


def _curvature_by_outcome(fit: Fit, matrix: Array) -> Array:
    """Return d'M_jj d / d'd for each column j and direction d of a reported coefficient, (p, outcomes or 1)."""
    length = np.square(fit.model.likelihood.contrast_matrix).sum(1)
    return (
        np.diagonal(reported_matrix(fit.model, matrix)).reshape(-1, len(length))
        / length
    )


def inverse_or_nan(H: Array) -> Array:
    """Return H^-1; nan if H is not positive definite, or singular to rounding."""
    root = root_of_curvature(H)
    if root is None:
        return np.full(H.shape, np.nan)
    inverse = root @ root.T
    # the diagonal of the inverse of H scaled to unit diagonal
    is_singular = (np.diagonal(inverse) * np.diagonal(H) > 1e13).any()
    return np.full(H.shape, np.nan) if is_singular else inverse


@dataclass(frozen=True, eq=False, repr=False)
class PriorWeight(PrintsTable):
    """The influence of the prior on each coefficient; the result of `prior_weight`.

    Parameters
    ----------
    table : DataFrame
        One row per coefficient, except for smooth functions and processes: estimate and sd; ml and ml_se, the estimate
        and standard error of maximum likelihood; difference between the estimates in these standard errors; prior_weight
        (P H^-1)_jj; pull in raw units; conflict, the p-value of a prior-data conflict; for draws prior_power and
        likelihood_power, the sensitivities to power scaling.
    effective : float
        Effective number of coefficients.
    free : int
        Number of coefficients that can vary; a symmetric softmax reports one more for each column.
    ml_status : str
        Status of the maximum likelihood fit.
    """

    table: Any
    effective: float
    free: int
    ml_status: str

    @property
    def _display_table(self) -> Table:
        is_defined = np.isfinite(self.effective)
        number = f"{self.effective:.3g} of {self.free}" if is_defined else "not defined"
        notes = (
            f"effective number of coefficients: {number}",
            f"maximum likelihood: {self.ml_status}",
        )
        return Table.from_pandas(self.table, number="{:.3g}".format, notes=notes)


@check_arguments
def prior_weight(fit: Fit) -> PriorWeight:
    """Return the influence of the prior on each coefficient: prior weight, difference from maximum likelihood, pull, conflict.

    The prior weight of coefficient j is (P H^-1)_jj. A number that does not exist is nan: there is no maximum likelihood
    estimate under separation, and no curvature at a kink. `prior_sensitivity` returns the scale that changes the conclusion.

    Parameters
    ----------
    fit : Fit
        A fit.

    Returns
    -------
    PriorWeight
        `table` with one row per coefficient.

    Raises
    ------
    Incompatible
        If all priors are flat, except for the priors of smooth functions.

    References
    ----------
    MacKay 1992 (effective numbers); Box 1980 and Evans & Moshonov 2006 (conflict); Kallioinen et al. 2024 (power
    scaling).

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0, 3.0, 4.0], [1.1, 1.9, 3.2, 3.9], columns=["x"], aux={"sigma": 0.2})
    >>> found = prior_weight(pr.fit(model.with_prior(pr.Normal(0.05, location=0.9))))
    >>> found.table.loc["x", ["prior_weight", "difference"]].round(3).tolist()
    [0.762, -0.596]
    """
    import pandas as pd

    design = fit.model.design
    design.refuse_sampling("the influence of a prior")
    if not fit.model.joint.informative.any():
        raise Incompatible(
            "every prior of coefficients in this model is flat: it has no influence to measure"
        )
    if has_effects(fit.model):
        raise Incompatible(
            "the effects of groups share one prior: fit.effects has the pooling of each. For the priors of other columns use "
            "power_scaling of a posterior"
        )
    if design.of_terms.all():
        raise Incompatible(
            "every coefficient belongs to a smooth function: see `smooths`"
        )
    ml, se, status = maximum_likelihood(fit)
    estimate = fit.coef.values.ravel()
    sd = fit.std_error.values.ravel()
    weights, _ = prior_weights(fit)
    with np.errstate(invalid="ignore", divide="ignore"):
        # In standard errors of maximum likelihood.
        difference = (estimate - ml) / se
    table = pd.DataFrame(
        {
            "estimate": estimate, "sd": sd, "ml": ml, "ml_se": se, "difference": difference,
            "prior_weight": weights.ravel(), "pull": _prior_pull(fit), "conflict": _conflict(fit, ml, se),
        },
        index=pd.Index(fit.parameter_names, name="coef"),
    )  # fmt: skip
    # a symmetric softmax reports K directions of K - 1 predictors, with K / (K - 1) times their trace
    count = fit.solution.beta.size
    # gamma = k - tr P H^-1, the number of parameters that the data determine (MacKay 1992).
    effective = count * (1.0 - float(table["prior_weight"].mean(skipna=False)))
    outcomes = len(table) // len(fit.model.joint.informative)
    alone = np.repeat(~design.of_terms, outcomes)
    table = table[alone]
    if fit.solution.draws is not None and has_prior(fit):
        power = power_scaling(fit)
        table["prior_power"] = power["prior"].reindex(table.index)
        table["likelihood_power"] = power["likelihood"].reindex(table.index)
    return PriorWeight(table, effective, count, status)


def maximum_likelihood(fit: Fit) -> tuple[Array, Array, str]:
    """Estimates and standard errors of the reported coefficients under flat priors, nan if they do not exist, and the
    status of this fit in words."""
    plain = replace(fit.model, prior=Flat(), aux=dict(fit.model.fixed))
    with warnings.catch_warnings(action="ignore", category=ProbregWarning):
        try:
            ml_fit = fit_model(plain, seed=fit.seed)
        except (NotConverged, Incompatible) as error:
            nothing = np.full(fit.coef.size, np.nan)
            return nothing, nothing, str(error)
    s = ml_fit.solution
    return (
        ml_fit.coef.values.ravel(),
        ml_fit.std_error.values.ravel(),
        s.status.with_detail(s.detail),
    )


def _prior_pull(fit: Fit) -> Array:
    """Return H^-1 times the slope of the log prior at the estimate, for the reported coefficients; nan at a kink, and where the rows do
    not identify all coefficients."""
    shape = fit.solution.beta.shape
    slope, P = prior_derivatives_of_fit(fit)
    H = P + information_of_fit(fit)[0]
    pull = np.full(shape, np.nan)
    identified = fit.solution.null_space is None
    if identified and np.isfinite(H).all() and np.isfinite(slope).all():
        # one Newton step: H^-1 d log p(beta) / d beta is the shift of the estimate by the prior
        with contextlib.suppress(np.linalg.LinAlgError):
            pull = np.linalg.solve(H, slope).reshape(shape)
    return reported_coefficients(fit.model, pull).ravel()


def _conflict(fit: Fit, ml: Array, se: Array) -> Array:
    """P(|b - centre| >= |ml - centre|) for b drawn from the prior and then estimated with this standard error, centred at
    the prior's median; nan if the prior is flat or has no draws, or there is no estimate."""
    model = fit.model
    p, m = model.shape
    k = fit.coef.size // p
    p_values = np.full((p, k), np.nan)
    rng = np.random.default_rng([fit.seed, 3])
    sigma = fit.model.noise(fit.aux)
    n_draws = 20_000  # of the prior, for the p-value: its Monte Carlo error at 0.05 is at most 0.0015
    for b in model.joint.blocks:
        where = list(b.columns)
        if isinstance(b.prior, Flat) or model.design.of_terms[where].all():
            continue
        if model.joint.contrast is not None and isinstance(b.prior, ProximalPrior):
            continue  # a penalty of all classes has no draws
        try:
            unit = b.prior.unit(sigma)
            draws = b.prior.sample(rng, (n_draws, len(where), b.width(m)), unit)
        except ProbregError:
            continue  # a prior that is known only up to a constant
        outcomes = list(range(k)) if b.predictor is None else [b.predictor]
        if b.predictor is None:
            draws = outcomes_of(model, draws).reshape(len(draws), len(where), k)
        estimate, error = (
            values.reshape(p, k)[np.ix_(where, outcomes)] for values in (ml, se)
        )
        # the prior predictive of the estimate: beta ~ prior, b | beta ~ N(beta, se^2) (Box 1980; Evans & Moshonov 2006)
        centre = np.median(draws, axis=0)
        expected = draws + error * rng.standard_normal(draws.shape)
        beyond = (np.abs(expected - centre) >= np.abs(estimate - centre)).mean(0)
        beyond[~np.isfinite(estimate + error)] = np.nan
        p_values[np.ix_(where, outcomes)] = beyond
    return p_values.ravel()


# ---- sensitivity of coefficients to the scale of their priors: the scale that changes the conclusion ----------------


class Change(StrEnum):
    """The change of a coefficient at a scale of its prior."""

    SIGN = "the mode changes sign"
    INCLUDES_ZERO = "the interval includes zero"
    EXCLUDES_ZERO = "the interval excludes zero"
    BECOMES_ZERO = "the mode becomes zero"
    BECOMES_NONZERO = "the mode is no longer zero"


@check_arguments
def prior_sensitivity(fit: Fit) -> DataFrame:
    """Return for each coefficient the scale of its prior that changes the conclusion on it.

    The scales of all priors are multiplied by one factor between 1/1024 and 1024; a small factor fixes the coefficients at the centre of
    the prior, a large one gives maximum likelihood. The result is the factor nearest to 1 where a coefficient changes sign or its
    95 % interval starts or stops to include zero. For a posterior too, the conclusion is based on the mode and its interval.

    Parameters
    ----------
    fit : Fit
        A fit with priors of stated scale.

    Returns
    -------
    DataFrame
        One row per coefficient: `scale`, the prior scale in raw units that changes the conclusion, `factor`, that scale over the
        stated one, and `change`; nan and "" if nothing changes, or for a flat prior.

    Raises
    ------
    Incompatible
        For a prior with an unknown scale, a model without a mode, and for too many columns or rows.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0], [1.0, 2.0], intercept=False, prior=pr.Normal(2.0), aux={"sigma": 0.5})
    >>> v, z = 0.5**2 / 5.0, 1.959963984540054  # the variance of maximum likelihood, which is 1
    >>> bool(np.isclose(prior_sensitivity(pr.fit(model))["scale"].iloc[0], z * v / np.sqrt(1.0 - z**2 * v)))
    True
    """
    import pandas as pd

    model = fit.model
    k = fit.coef.size
    if has_effects(model):
        raise Incompatible(
            "prior_sensitivity does not fit models with effects of groups; use power_scaling of a posterior"
        )
    if not model.joint.informative.any():
        raise Incompatible("prior_sensitivity needs priors of coefficients")
    if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
        raise Incompatible("prior_sensitivity needs priors of known scale")
    if not model.design.has_rows and not model.likelihood.least_squares:
        raise Incompatible(f"prior_sensitivity refits: {model.design.rows_needed}")
    method, _ = Auto().choose(model)
    if method.target != "mode":
        raise Incompatible("prior_sensitivity: no method finds the mode of this model")
    n, p = model.design.count, model.shape[0]
    # rows times columns squared: some dozens of fits take too long above it
    most_work = 5e6
    most_columns = 200  # columns, likewise
    if p > most_columns or (
        not model.likelihood.least_squares and n * p**2 > most_work
    ):
        raise Incompatible(
            f"prior_sensitivity fits the model for each scale: {n:,} rows of {p:,} columns are too many"
        )

    @cache
    def at(log_c: float) -> Array:
        return _mode_and_ends(model, method, float(np.exp(log_c)), fit.seed)

    scales = _stated_scales(model, k)
    log_c = np.full(k, np.nan)
    change = [""] * k
    doublings = 10  # of the scale, and halvings, that are searched
    for j in map(int, np.flatnonzero(np.isfinite(scales))):
        for step in range(1, doublings + 1):
            hits = [
                hit for sign in (-1, 1) for hit in _changes_between(at, j, sign, step)
            ]
            if hits:
                log_c[j], change[j] = min(hits, key=lambda hit: abs(hit[0]))
                break
    columns = {
        "scale": scales * np.exp(log_c),
        "factor": np.exp(log_c),
        "change": list(map(str, change)),
    }
    return pd.DataFrame(columns, index=pd.Index(fit.parameter_names, name="coef"))


def _stated_scales(model: Model, k: int) -> Array:
    """Return the scales of the priors of reported coefficients (k,), nan for flat priors and for smooth functions."""
    scale = np.full((model.shape[0], k // model.shape[0]), np.nan)
    for b in model.joint.blocks:
        own = _stated_scale(model, b)
        if own is not None:
            b.put(scale, np.broadcast_to(own, len(b.columns))[:, None])
    return scale.ravel()


def _stated_scale(model: Model, block: BlockPrior) -> Any:
    """Return the scale of the prior of a block; None for a flat prior and for smooth functions."""
    of_terms = model.design.of_terms[list(block.columns)].any()
    if isinstance(block.prior, Flat) or of_terms:
        return None
    return prior_scale(block)


def _mode_and_ends(model: Model, method: Method, c: float, seed: int) -> Array:
    """Return the mode and the ends of its interval (3, k) if every stated scale is multiplied by c; nan if there is none."""
    blocks = list(model.joint.blocks)
    for i, b in enumerate(blocks):
        if _stated_scale(model, b) is not None:
            blocks[i] = replace(b, prior=b.prior.times(c))
    prior = mapping_of(blocks, model.design.columns)
    size = model.shape[0] * (len(model.likelihood.outcomes) or 1)
    values = np.full((3, size), np.nan)
    # a diverging search has no mode, and a mode at a kink has no standard errors
    prob = 0.95  # probability of the interval that includes zero or not
    with (
        warnings.catch_warnings(action="ignore", category=ProbregWarning),
        np.errstate(all="ignore"),
        contextlib.suppress(ProbregError, np.linalg.LinAlgError, ArithmeticError),
    ):
        mode = fit_model(model.with_prior(prior), method, seed=seed)
        values[0] = mode.coef.values.ravel()
        ends = mode.interval(prob)
        values[1:] = ends["lower"].values.ravel(), ends["upper"].values.ravel()
    return values


def _changes_between(
    at: Callable[[float], Array], j: int, sign: int, step: int
) -> Iterator[tuple[float, Change]]:
    """Yield the changes of coefficient j between two neighbouring factors 2^(sign (step - 1)) and 2^(sign step), by log c."""
    inner = sign * (step - 1) * np.log(2.0)
    outer = sign * step * np.log(2.0)
    beta, lower, upper = at(0.0)[:, j]
    changes = [(0, Change.SIGN)]
    if lower <= 0.0 <= upper:
        changes += [(1, Change.EXCLUDES_ZERO), (2, Change.EXCLUDES_ZERO)]
    else:
        changes.append((1 if beta > 0 else 2, Change.INCLUDES_ZERO))
    for row, change in changes:
        a, b = at(inner)[row, j], at(outer)[row, j]
        if not (np.isfinite(a) and np.isfinite(b)) or np.sign(a) == np.sign(b):
            continue
        edge = a == 0.0 or b == 0.0  # a kink fixes it at exactly zero
        if edge:
            change = Change.BECOMES_NONZERO if a == 0.0 else Change.BECOMES_ZERO

        def value(log_c: float, row: int = row, edge: bool = edge) -> float:
            number = at(log_c)[row, j]
            return float(number == 0.0) - 0.5 if edge else number

        yield scipy.optimize.brentq(value, inner, outer, xtol=1e-7), change
