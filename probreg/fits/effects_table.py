"""Random effects as a table and as labelled arrays: conditional means, standard deviations and pooling; the processes off the span of their bases.

An effect b_gk is not a parameter: it has a distribution given y (under REML and ML at the estimated scales), and its mean and
standard deviation are reported. Its pooling is Var(b_gk | y) / Var(b_gk): 1 - pooling is the share of its prior variance that
the data remove.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.formula.text import column_written
from probreg.inference import Method, Solution
from probreg.inference.base import outcomes_of
from probreg.inference.uncertainty.intervals.arithmetic import equal_tail, quantile
from probreg.inference.varying import EffectsOfGroup, effects_of_groups
from probreg.linalg import root_of_square
from probreg.model.model import Model
from probreg.model.off_span import OffSpan, off_span
from probreg.model.pymc_model import group_dim
from probreg.model.term_priors import plain_name

Array = np.ndarray


def off_span_of(
    model: Model, solution: Solution, aux: Mapping[str, Array | float] | None = None
) -> OffSpan | None:
    """Return the residual processes, with an atom for each draw or one for the estimate.

    None if no term has a residual process. `aux` are the nuisance parameters of the atoms if they differ from the solution's.
    """
    if not model.design.recipe.processes and not model.design.recipe.grouped:
        return None
    draws = None
    values: Mapping[str, Any] = solution.aux
    if solution.draws is not None:
        draws = solution.draws.flat
        values = {a: draws[a] for a in model.unknown}
    if aux is None:
        aux = {**model.fixed, **values}
    return off_span(model, draws, model.noise(aux))


WORDS = "conditional means and standard deviations of effects; pooling = Var(b | y) / Var(b), 0 own data, 1 the common mean"


def effects_called(model: Model, group: str | None) -> EffectsOfGroup:
    """Return the grouping factor of this name, or the only one. DataError lists the available ones."""
    effects = effects_of_groups(model)
    if not effects:
        raise Incompatible(
            "no effect of this model varies by a group: a formula with (1 | g) has such effects"
        )
    if group is None and len(effects) == 1:
        (group,) = effects
    for name in (group, column_written(group or "")):
        if name in effects:
            return effects[name]
    raise DataError(f"group={group!r}: expected one of {', '.join(map(repr, effects))}")


def means_and_spreads(
    model: Model, solution: Solution, effects: EffectsOfGroup
) -> tuple[Array, Array]:
    """Return the mean and the standard deviation of every effect given y, (G, K) or (G, K, outcomes) each."""
    m = model.shape[1]
    D = model.likelihood.contrast_matrix
    mean = outcomes_of(model, solution.beta[effects.columns])
    entries = effects.columns[..., None] * m + np.arange(m)
    if not model.likelihood.outcomes:
        return mean, solution.given_scales.errors()[effects.columns]
    V = solution.given_scales
    covariances = [V.block(block_entries) for block_entries in entries.reshape(-1, m)]
    roots = np.stack([root_of_square(block) for block in covariances])
    return mean, np.linalg.norm(D @ roots, axis=-1).reshape(*entries.shape[:-1], len(D))


def ends_of(
    model: Model, solution: Solution, effects: EffectsOfGroup, prob: float
) -> tuple[Array, Array]:
    """Return lower and upper ends: normal at known scales, Student-t if the posterior is one, else quantiles of draws."""
    mean, sd = means_and_spreads(model, solution, effects)
    draws = solution.draws
    if draws is None or draws.elliptical:
        df = None if draws is None else solution.df
        if df is not None and df > 2:
            sd = sd / np.sqrt(df / (df - 2.0))
        half = quantile(prob, df) * sd
        return mean - half, mean + half
    effect_draws = outcomes_of(model, draws["beta"][:, :, effects.columns.ravel()])
    lower, upper_end = equal_tail(effect_draws.reshape(-1, *mean.shape), prob)
    return lower, upper_end


def prior_variances(model: Model, solution: Solution, effects: EffectsOfGroup) -> Array:
    """Return the prior variance of each effect of a group, (K,), or (K, m) if linear predictors have separate scales.

    The scales are estimates, posterior means or fixed by the model; nan if unknown.
    """
    try:
        covariances = covariances_of_effects(model, solution)
    except Incompatible:
        return np.full(len(effects.effects), np.nan)
    grouped = model.design.recipe.grouped
    variances = []
    for key, name in zip(effects.keys, effects.effects):
        k = list(grouped[key].effects).index(name.removesuffix(f" of {key}"))
        variances.append(covariances[key][..., k, k])
    return np.stack(variances)


def covariances_of_effects(model: Model, solution: Solution) -> dict[str, Array]:
    """Return S (K, K) of each term by its key, or (m, K, K) if linear predictors have separate scales.

    The scales are estimates, the posterior mean of S, or fixed by the model. Raises Incompatible if S is not known.
    """
    off = off_span_of(model, solution)
    assert off is not None  # effects vary by a group
    parts = dict[str, list[Array]]()
    for effects in off.of_groups:
        # S = Lambda Lambda'; a standard deviation that is reported as 0 has a tiny number in Lambda
        term = effects.term
        names = [f"sd({c} | {term.group})" for c in term.coefficients]
        is_zero = [solution.scalars.get(name, (1.0,))[0] == 0.0 for name in names]
        L = np.where(np.array(is_zero)[:, None], 0.0, effects.roots)
        S = (L @ L.mT).mean(0)
        parts.setdefault(effects.key, []).append(S)
    return {key: np.stack(S) if len(S) > 1 else S[0] for key, S in parts.items()}


def effects_table(
    model: Model, method: Method, solution: Solution, group: str | None, prob: float
) -> Any:
    """Return a row for each group and effect, and for each outcome if there are several."""
    import pandas as pd

    outcomes = model.likelihood.outcomes
    if not solution.given_scales.has_errors:
        raise Incompatible(
            f"{method.name} gives no standard errors, so no spread of effects"
        )
    effects = effects_called(model, group)
    mean, sd = means_and_spreads(model, solution, effects)
    lower, upper = ends_of(model, solution, effects, prob)
    before = prior_variances(model, solution, effects)
    if outcomes:
        size = np.square(model.likelihood.contrast_matrix).sum(1)
    else:
        size = np.ones(())
    with np.errstate(divide="ignore", invalid="ignore"):
        # Var(b | y) / Var(b); with draws of the scale it may exceed 1 slightly
        if before.ndim == 2:
            prior_variance = before * size
        else:
            prior_variance = np.multiply.outer(before, size)
        pooling = np.where(
            prior_variance > 0,
            np.minimum(np.square(sd) / prior_variance, 1.0),
            np.where(prior_variance == 0, 1.0, np.nan),
        )
    axes: dict[str, Any] = {
        "group": list(effects.levels),
        "effect": list(effects.effects),
    }
    if outcomes:
        axes |= {"outcome": list(outcomes)}
    index = pd.MultiIndex.from_product(axes.values(), names=list(axes))
    columns = {
        "estimate": mean,
        "sd": sd,
        "lower": lower,
        "upper": upper,
        "pooling": pooling,
    }
    table = pd.DataFrame(
        {name: np.ravel(v) for name, v in columns.items()}, index=index
    ).reset_index()
    table.attrs = {
        "groups": effects.group,
        "prob": prob,
        "method": method.name,
        "kind": WORDS,
    }
    return table


# ---- labelled arrays -----------------------------------------------------------------------------------------------------


def effect_variables(
    model: Model, values: Mapping[str, Array], lead: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return variables `effects[g]`, or with another prefix, of coefficients (..., p, m) by prefix, over (g, effect[, outcome])."""
    import xarray as xr

    groups = effects_of_groups(model)
    variables = {}
    alike = len({effects.effects for effects in groups.values()}) == 1
    for group, effects in groups.items():
        name = plain_name(group)
        effect = "effect" if alike else f"effect of {name}"
        dims = (group_dim(group, model.likelihood), effect)
        coords = {dims[0]: list(effects.levels), dims[1]: list(effects.effects)}
        outcome_dims = ("outcome",) if model.likelihood.outcomes else ()
        for word, beta in values.items():
            by_outcome = outcomes_of(model, beta[..., effects.columns.ravel(), :])
            shape = (
                *beta.shape[:-2],
                *effects.columns.shape,
                *by_outcome.shape[beta.ndim - 1 :],
            )
            variables[f"{word}[{name}]"] = xr.DataArray(
                by_outcome.reshape(shape),
                dims=(*lead, *dims, *outcome_dims),
                coords=coords,
            )
    return variables


def spread_variables(model: Model, solution: Solution) -> dict[str, Any]:
    """Return the variables `effects[g]` and `effects_sd[g]` of an estimate."""
    variables = effect_variables(model, {"effects": solution.beta})
    for group, effects in effects_of_groups(model).items():
        name = plain_name(group)
        _, sd = means_and_spreads(model, solution, effects)
        variables[f"effects_sd[{name}]"] = variables[f"effects[{name}]"].copy(data=sd)
    return variables
