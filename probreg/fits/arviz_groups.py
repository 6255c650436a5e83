"""`fit.inference_data`: the tree of a fit with the names of ArviZ's examples: a variable per term, a named response, a prior.

The numbers are the same as in `fit.tree`; the groups `prior` and `prior_predictive` are drawn here.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from probreg.errors import DataError
from probreg.fits.effects_table import effect_variables
from probreg.fits.inference_data import (
    Array,
    coefficient_dims,
    integer_response,
    lazy,
    model_coordinates,
    observation_rows,
)
from probreg.inference import Solution
from probreg.inference.base import has_effects, reported_coefficients
from probreg.model.drawn_prior import blocks_given_scales, needed_hyper
from probreg.model.model import Model
from probreg.model.pymc_graph import hyper_at, hyper_names
from probreg.model.term_variables import (
    TermVariable,
    names_taken,
    plain_name,
    response_name,
    term_variables,
)
from probreg.priors import BlockPrior, HierarchicalPrior
from probreg.system.terminal import few_names


def arviz_tree(
    tree: Any, model: Model, solution: Solution, *, prior: int, seed: int
) -> Any:
    """Return the tree of a fit with one variable for each term, and with `prior` draws from the priors."""
    import xarray as xr

    groups = {name: node.to_dataset() for name, node in tree.children.items()}
    attrs = dict(tree.attrs)
    terms = named_terms(model)
    if prior:
        prior_draws, left_out = _prior_groups(model, prior, seed)
        groups |= prior_draws
        attrs |= {"left_out_of_prior": left_out} if left_out else {}
    scaled_blocks = blocks_given_scales(model)
    blocks = {
        "log_prior": set(range(len(model.joint.blocks))) - scaled_blocks,
        "log_prior_of_effects": scaled_blocks,
    }
    for name, group in groups.items():
        if name in ("posterior", "sampling", "prior"):
            groups[name] = _by_term(group, terms)
        elif name in blocks:
            draws = solution.posterior.values
            groups[name] = _log_prior_by_term(model, draws, terms, group, blocks[name])
        elif "y" in group:
            groups[name] = _with_response(group, model)
        elif name == "constant_data":
            groups[name] = _with_variables(group, model)
    data_tree = xr.DataTree.from_dict(groups)
    data_tree.attrs.update(attrs)
    return data_tree


def named_terms(model: Model) -> tuple[TermVariable, ...]:
    """Return the terms with coefficients that are reported one by one, as in ArviZ."""
    hyper = [
        name
        for names in hyper_names(model.joint, model.design).values()
        for name in names.values()
    ]
    taken = names_taken(model.design, model.likelihood, model.joint, hyper)
    return term_variables(model.design, taken)


def _by_term(group: Any, terms: tuple[TermVariable, ...]) -> Any:
    """Split `beta` into one variable per term, over the term's columns if it has several; outcomes come first as in `to_pymc`."""
    import xarray as xr

    beta = group["beta"]
    place = {
        int(j): k for k, j in enumerate(sorted(j for t in terms for j in t.columns))
    }  # positions among the reported coefficients
    parts: dict[str, Any] = {}
    for t in terms:
        values = beta.isel(coef=[place[j] for j in t.columns]).drop_vars("coef")
        if t.dims:
            values = values.rename(coef=t.dims[0]).assign_coords(t.coords)
        else:
            values = values.isel(coef=0)
        if not values.isnull().all():  # no draws exist under a flat prior
            parts[t.name] = values
    remaining = group.drop_vars("beta").drop_dims("coef", errors="ignore")
    dataset = xr.Dataset({**parts, **remaining.data_vars}, attrs=group.attrs)
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


def _prior_groups(model: Model, draws: int, seed: int) -> tuple[dict[str, Any], str]:
    """Return the groups `prior` and `prior_predictive`, and the variables left out because their prior is improper."""
    import xarray as xr

    if not model.design.n:
        model.design.need_rows("a group of draws from the priors")
    prior_draws = model.prior_predictive(draws=draws, seed=seed)
    beta = np.asarray(prior_draws.beta)[None]
    flat = [c for c, v in zip(model.design.columns, beta[0, 0, :, 0]) if np.isnan(v)]
    if len(flat) == len(model.design.columns):
        raise DataError(
            f"prior=True draws from proper priors, and no coefficient has one: {few_names(flat)}"
        )
    variables: dict[str, Any] = {
        "beta": (
            ("chain", "draw", *coefficient_dims(model)),
            reported_coefficients(model, beta),
        )
    }
    if has_effects(model):
        effects = effect_variables(model, {"effects": beta}, ("chain", "draw"))
        variables |= {k: v for k, v in effects.items() if not v.isnull().any()}
    variables |= {
        k: (("chain", "draw"), np.asarray(v)[None])
        for k, v in {**prior_draws.aux, **prior_draws.hyper}.items()
        if k not in model.fixed
    }
    draw_coords: dict[str, Any] = {"chain": [0], "draw": np.arange(draws)}
    groups = {"prior": xr.Dataset(variables, model_coordinates(model) | draw_coords)}
    if prior_draws.y is not None:
        coords = draw_coords | {"obs": np.arange(prior_draws.y.shape[1])}
        if prior_draws.y.ndim == 3:
            coords["level"] = [str(v) for v in model.likelihood.levels]
        groups["prior_predictive"] = xr.Dataset(
            {"y": (tuple(coords), integer_response(model, prior_draws.y)[None])},
            coords,
        )
    return groups, "; ".join(prior_draws.notes)


# ---- the log prior -----------------------------------------------------------------------------------------------------


def _log_prior_by_term(
    model: Model,
    draws: Mapping[str, Array],
    terms: tuple[TermVariable, ...],
    log_prior: Any,
    blocks: Collection[int],
) -> Any:
    """Return one log density (chain, draw) per term, or one per block if its prior does not factor over columns.

    Their sum equals the sum in `fit.tree`.
    """
    import xarray as xr

    dims = ("chain", "draw")
    shape = draws["beta"].shape[:2]
    by_column = {j: t.name for t in terms for j in t.columns}
    parts: dict[str, list[Callable[[], Array]]] = {}
    for i in sorted(blocks):
        for name, density in _densities(
            model, i, model.joint.blocks[i], draws, by_column
        ).items():
            parts.setdefault(name, []).append(density)
    variables: dict[str, Any] = {
        name: lazy(
            dims,
            shape,
            lambda densities=densities: np.sum(  # type: ignore[misc]
                [np.broadcast_to(density(), shape) for density in densities], axis=0
            ),
        )
        for name, densities in parts.items()
    }
    return xr.Dataset(
        {**variables, **log_prior.drop_vars("beta").data_vars}, log_prior.coords
    )


def _densities(
    model: Model,
    i: int,
    block: BlockPrior,
    draws: Mapping[str, Array],
    by_column: Mapping[int, str],
) -> dict[str, Callable[[], Array]]:
    """Return by variable name the log density of the coefficients of a block that the variable contains."""
    unit = np.asarray(model.noise(draws)) if block.prior.sigma_units else 1.0
    prior = block.prior
    beta = draws["beta"]
    term = model.design.grouped_of(block.columns)
    if term is not None or not prior.known:
        if term is None:
            name = by_column[block.columns[0]]
        else:
            name = f"effects[{term.group}]"
        if i in needed_hyper(model) and isinstance(prior, HierarchicalPrior):
            hyper = hyper_at(model.joint, model.design, i, draws)
            return {name: lambda: prior.log_prob_given(block.take(beta), hyper, unit)}
        return {name: lambda: prior.log_prob(block.take(beta), unit)}
    names = [by_column[j] for j in block.columns]
    if len(set(names)) > 1 and prior.part((0,)) is None:
        columns = [model.design.columns[j] for j in block.columns]
        return {
            plain_name(f"beta[{columns[0]}..{columns[-1]}]"): lambda: prior.log_prob(
                block.take(beta), unit
            )
        }
    densities: dict[str, Callable[[], Array]] = {}
    for name in dict.fromkeys(names):
        places = [k for k, variable in enumerate(names) if variable == name]
        marginal = prior if len(places) == len(names) else prior.part(places)
        entries = replace(block, columns=tuple(block.columns[k] for k in places))
        densities[name] = lambda marginal=marginal, entries=entries: marginal.log_prob(
            entries.take(beta), unit
        )  # type: ignore[misc]
    return densities
