"""`fit.tree`: the groups of a fit with the names of the PyMC model, a variable for each term and the response under its name.

`probreg.fits.inference_data` makes the groups, with all coefficients in `beta`; the groups `prior` and `prior_predictive` are drawn here.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from probreg.errors import DataError
from probreg.fits.effects_table import effect_variables
from probreg.fits.inference_data import (
    Array,
    draws_dataset,
    integer_response,
    lazy,
    observation_labels,
    observation_rows,
    repeat_observations,
)
from probreg.inference import Solution
from probreg.inference.base import has_effects, reported_coefficients
from probreg.model.draws import blocks_given_scales, needed_hyper
from probreg.model.model import Model
from probreg.model.pymc_model import (
    TermVariable,
    names_taken,
    response_name,
    term_variables,
)
from probreg.model.term_priors import hyper_at, plain_name
from probreg.priors import BlockPrior, JointPrior
from probreg.system.terminal import few_names


def tree_by_term(tree: Any, model: Model, solution: Solution) -> Any:
    """Return a tree of all coefficients with one variable for each term, and with the response under its name."""
    import xarray as xr

    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    terms = named_terms(model)
    scaled_blocks = blocks_given_scales(model)
    blocks = {
        "log_prior": set(range(len(model.joint.blocks))) - scaled_blocks,
        "log_prior_of_effects": scaled_blocks,
    }
    for name, group in groups.items():
        if name in ("posterior", "sampling"):
            groups[name] = _by_term(group, terms)
        elif name in blocks:
            draws = solution.posterior.values
            groups[name] = _log_prior_by_term(model, draws, terms, group, blocks[name])
        elif "y" in group:
            groups[name] = _with_response(group, model)
        elif name == "constant_data":
            groups[name] = _with_variables(group, model)
    return xr.DataTree.from_dict(groups)


def named_terms(model: Model) -> tuple[TermVariable, ...]:
    """Return the terms with coefficients that are reported one by one, as in ArviZ."""
    taken = names_taken(model.design, model.likelihood, model.joint)
    return term_variables(model.design, taken)


def _by_term(group: Any, terms: tuple[TermVariable, ...]) -> Any:
    """Split `beta` into one variable per term, over the term's columns if it has several; outcomes come first as in `to_pymc`."""
    import xarray as xr

    beta = group["beta"]
    beta = beta.transpose("chain", "draw", "outcome", ..., missing_dims="ignore")
    *dims, _ = beta.dims
    values = beta.to_numpy()
    missing = np.isnan(values).all(tuple(range(len(dims))))
    place = {
        int(j): k for k, j in enumerate(sorted(j for t in terms for j in t.columns))
    }  # positions among the reported coefficients
    parts: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    for t in terms:
        columns = [place[j] for j in t.columns]
        if missing[columns].all():  # no draws exist under a flat prior
            continue
        # Variables of NumPy arrays: `isel` takes a millisecond for each term
        if t.dims:
            parts[t.name] = xr.Variable((*dims, *t.dims), values[..., columns])
            labels |= t.coords
        else:
            parts[t.name] = xr.Variable(dims, values[..., columns[0]])
    remaining = group.drop_vars("beta").drop_dims("coef", errors="ignore")
    dataset = xr.Dataset(
        {**parts, **remaining.data_vars}, {**remaining.coords, **labels}, group.attrs
    )
    return dataset.transpose("chain", "draw", "outcome", ..., missing_dims="ignore")


# ---- the response ------------------------------------------------------------------------------------------------------


def _with_response(group: Any, model: Model) -> Any:
    """Rename `y` to the response; the attributes of classes have their names."""
    name = response_name(model.design, model.likelihood)
    renamed = group.rename(y=name) if name != "y" else group.copy()
    levels = model.likelihood.levels
    if levels and renamed[name].dtype.kind == "i" and "level" not in renamed.dims:
        names = (f"{k}: {v}" for k, v in enumerate(levels))
        renamed[name].attrs["levels"] = ", ".join(names)
    return renamed


def _with_variables(group: Any, model: Model) -> Any:
    """Add the numeric variables of the formula to the group of X, as x axes of plots."""
    rows, _ = observation_rows(model)
    variables: dict[str, Any] = {}
    for name, values in model.design.read.items():
        values = np.asarray(values)
        label = plain_name(name)
        if (
            len(values) == model.design.n
            and values.dtype.kind in "iuf"
            and label not in {*group.variables, *group.dims}
        ):
            variables[label] = ("obs", values[rows])
    return group.assign(variables)


# ---- the prior ---------------------------------------------------------------------------------------------------------


def add_prior(tree: Any, model: Model, draws: int, seed: int) -> None:
    """Add the groups `prior` and `prior_predictive`; an attribute lists the variables without draws, which have an improper prior."""
    import xarray as xr

    if not model.design.n:
        model.design.need_rows("a group of draws from the priors")
    prior_draws = repeat_observations(model).prior_predictive(draws=draws, seed=seed)
    beta = prior_draws.beta[None]
    flat = [c for c, v in zip(model.design.columns, beta[0, 0, :, 0]) if np.isnan(v)]
    if len(flat) == len(model.design.columns):
        raise DataError(
            f"prior=True draws from proper priors, and no coefficient has one: {few_names(flat)}"
        )
    variables: dict[str, Any] = {}
    if has_effects(model):
        effects = effect_variables(model, {"effects": beta}, ("chain", "draw"))
        variables = {k: v for k, v in effects.items() if not v.isnull().any()}
    variables |= {
        k: np.asarray(v)[None]
        for k, v in {**prior_draws.aux, **prior_draws.hyper}.items()
        if k not in model.fixed
    }
    reported = reported_coefficients(model, beta)
    prior = draws_dataset(model, reported, variables)
    tree["prior"] = xr.DataTree(_by_term(prior, named_terms(model)))
    if prior_draws.y is not None:
        y = integer_response(model, prior_draws.y)[None]
        rows, _ = observation_rows(model)
        coords: dict[str, Any] = {"chain": [0], "draw": np.arange(draws)}
        coords |= observation_labels(model, rows)
        if y.ndim == 4:
            coords["level"] = model.likelihood.level_names
        predictive = xr.Dataset({"y": (tuple(coords), y)}, coords)
        tree["prior_predictive"] = xr.DataTree(_with_response(predictive, model))
    if prior_draws.notes:
        tree.attrs["left_out_of_prior"] = "; ".join(prior_draws.notes)


# ---- the log prior -----------------------------------------------------------------------------------------------------


def _log_prior_by_term(
    model: Model,
    draws: Mapping[str, Array],
    terms: tuple[TermVariable, ...],
    log_prior: Any,
    blocks: Collection[int],
) -> Any:
    """Return one log density (chain, draw) per term, or one per block if its prior does not factor over columns.

    Their sum is the log prior density of all coefficients.
    """
    import xarray as xr

    shape = draws["beta"].shape[:2]
    by_column = {j: t.name for t in terms for j in t.columns}
    noise = np.asarray(model.noise(draws))
    parts: dict[str, list[tuple[int, BlockPrior]]] = {}
    for i in sorted(blocks):
        for name, part in _parts_of_block(model, model.joint.blocks[i], by_column):
            parts.setdefault(name, []).append((i, part))

    def density(name: str) -> Array:
        numbers, priors = zip(*parts[name])
        hyper = {
            k: hyper_at(model.joint, model.design, i, draws)
            for k, i in enumerate(numbers)
            if i in needed_hyper(model)
        }
        joint = JointPrior(priors)
        total = joint.log_prob_given(draws["beta"], hyper, noise)
        return np.broadcast_to(total, shape)

    variables = {
        name: lazy(("chain", "draw"), shape, partial(density, name)) for name in parts
    }
    return xr.Dataset(
        {**variables, **log_prior.drop_vars("beta").data_vars}, log_prior.coords
    )


def _parts_of_block(
    model: Model, block: BlockPrior, by_column: Mapping[int, str]
) -> list[tuple[str, BlockPrior]]:
    """Split a block into the marginal priors of the variables that it has; it stays whole if its density does not factor."""
    prior = block.prior
    term = model.design.grouped_of(block.columns)
    if term is not None:
        return [(f"effects[{plain_name(term.group)}]", block)]
    names = [by_column[j] for j in block.columns]
    if not prior.known or len(set(names)) == 1:
        return [(names[0], block)]
    if prior.part((0,)) is None:
        columns = [model.design.columns[j] for j in block.columns]
        return [(plain_name(f"beta[{columns[0]}..{columns[-1]}]"), block)]
    parts = []
    for name in dict.fromkeys(names):
        places = [k for k, variable in enumerate(names) if variable == name]
        columns_of = tuple(block.columns[k] for k in places)
        marginal: Any = prior.part(places)
        part = replace(block, prior=marginal, columns=columns_of)
        parts.append((name, part))
    return parts
