"""Labels for results: a model, a method and a solution become one xarray.DataTree, with all coefficients in `beta`.

`probreg.fits.arviz_groups` splits `beta` into the variables of `fit.tree`; a saved file has the groups of this module.

Groups: `estimate` is always present; `posterior` if the method's target is a posterior, `sampling` (asymptotic draws, or bootstrap
replicates) for a point estimate; also `log_likelihood`, `log_prior`, `log_prior_of_effects`, `posterior_predictive`, `sample_stats`,
`observed_data` and `constant_data`. Groups that need a pass over rows and draws are computed when first read.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np

from probreg.data import Block, Design
from probreg.data.checked_arrays import own_labels, some_rows, times_weights
from probreg.errors import DataError
from probreg.fits.effects_table import effect_variables, spread_variables
from probreg.inference import Draws, Solution
from probreg.inference.base import (
    has_effects,
    reported_coefficients as reported_coefficients,
    reported_covariance as reported_covariance,
    reported_estimate,
    reported_matrix as reported_matrix,
)
from probreg.inference.reported import ReportedParameters, draws_at
from probreg.inference.uncertainty.asymptotic import asymptotic
from probreg.likelihoods import OfTrials
from probreg.linalg import on_all_cores, row_slices
from probreg.model.draws import (
    blocks_given_scales,
    log_prior_of_draws,
    log_prob_of_coefficients,
    log_prob_of_hyper,
)
from probreg.model.likelihood_sums import log_densities_at
from probreg.model.model import Model
from probreg.model.pymc_model import response_name
from probreg.model.term_priors import plain_name

Array = np.ndarray


def coefficient_dims(model: Model) -> tuple[str, ...]:
    if model.likelihood.outcomes:
        return ("coef", "outcome")
    return ("coef",)


def model_coordinates(model: Model) -> dict[str, list[str]]:
    coordinates = {"coef": list(model.design.ungrouped_columns)}
    if model.likelihood.outcomes:
        coordinates["outcome"] = list(model.likelihood.outcomes)
    return coordinates


def coefficient_index(model: Model) -> Any:
    """Return the index of a table of coefficients, outcome by outcome."""
    import pandas as pd

    columns = model.design.ungrouped_columns
    outcomes = model.likelihood.outcomes
    if not outcomes:
        return pd.Index(columns, name="coef")
    return pd.MultiIndex.from_tuples(
        [(o, c) for o in outcomes for c in columns], names=["outcome", "coef"]
    )


def coefficient_draws(fit: Any) -> Array:
    """Return the draws (chain, draw, J) of the reported coefficients of a posterior."""
    beta = reported_coefficients(fit.model, fit.solution.posterior["beta"])
    return beta.reshape(*beta.shape[:2], -1)


def index_labels(index: Any) -> list[str]:
    """Return the labels of the rows of a summary, `column` or `column: outcome`."""
    return [": ".join(filter(None, np.atleast_1d(key)[::-1])) for key in index]


def row_labels(data: Any, design: Design) -> Array:
    """Return the row labels of a design made from `data` (None for the training rows), if there are any."""
    return design.data_labels if data is None else own_labels(data, design.n)


def label_rows(
    values: Mapping[str, Array],
    design: Design,
    data: Any = None,
    *,
    axes: Mapping[str, Any] = MappingProxyType({}),
    attrs: Mapping[str, Any] = MappingProxyType({}),
) -> Any:
    """Return values of the rows of a design made from `data` (None for the training rows) as a Dataset over obs and further axes."""
    import xarray as xr

    coords: dict[str, Any] = {"obs": row_labels(data, design), **axes}
    variables = {k: (tuple(coords), design.by_row(v)) for k, v in values.items()}
    return xr.Dataset(variables, coords, attrs)


def label_coefficients(model: Model, beta: Array) -> Any:
    """Return coefficients (p,) or (p, outcomes) as a DataArray."""
    return labelled_numbers(
        {"beta": (coefficient_dims(model), beta)}, model_coordinates(model)
    )["beta"]


def labelled_numbers(
    variables: Mapping[str, Any], labels: Mapping[str, list[str]]
) -> Any:
    """Return xr.Dataset(variables, labels), of pairs of dimensions and NumPy arrays, or of DataArrays.

    xarray checks whether each value is a dask array, and imports dask for the check if it is installed, which takes 0.15 s.
    NumPy arrays with an index that is made in advance avoid this check.
    """
    import pandas as pd
    import xarray as xr

    coords = xr.Coordinates()
    for dim, names in labels.items():
        index = xr.indexes.PandasIndex(
            pd.Index(names), dim, coord_dtype=np.asarray(names).dtype
        )
        coords = coords.assign(xr.Coordinates.from_xindex(index))
    plain = {}
    for name, v in variables.items():
        if not isinstance(v, xr.DataArray):
            v = xr.Variable(v[0], np.asarray(v[1]), fastpath=True)
        plain[name] = v
    return xr.Dataset(plain, coords)


def covariance_array(model: Model, matrix: Array, words: Mapping[str, Any]) -> Any:
    """Return a covariance of the reported coefficients as a DataArray (param, param_), described in its attributes."""
    import xarray as xr

    names = parameter_names(model)
    coords = {"param": names, "param_": names}
    return xr.DataArray(
        np.asarray(matrix),
        coords,
        ("param", "param_"),
        name="covariance",
        attrs=dict(words),
    )


def parameter_names(model: Model) -> list[str]:
    """Return one name per reported coefficient, `column` or `column: outcome`, column first."""
    columns = model.design.ungrouped_columns
    outcomes = model.likelihood.outcomes
    if outcomes:
        return [f"{c}: {o}" for c in columns for o in outcomes]
    return list(columns)


def covariance_values(model: Model, covariance: Any) -> Array:
    """Return the matrix of a DataArray from `covariance_array`. DataError if it is for other coefficients."""
    names = parameter_names(model)
    dims = getattr(covariance, "dims", ())
    if dims != ("param", "param_") or covariance["param"].values.tolist() != names:
        raise DataError(
            f"covariance is the name of a kind, or what fit.covariance(...) of this model returned (over {', '.join(names)}); "
            f"got {type(covariance).__name__}"
            + (f" over {', '.join(map(str, dims))}" if dims else "")
        )
    return covariance.values


MAX_OBSERVATIONS = 1e6  # of frequency weights that are written out one by one


def observation_rows(
    model: Model, *, repeat: bool = True
) -> tuple[Array, Array | None]:
    """Return the row of each observation, and its weight.

    Rows with a whole-number weight are repeated, so that leaving one out leaves out one observation. Sampling weights, and weights of
    more than a million observations, multiply the log density of their row instead.
    """
    design = model.design
    w = design.weights
    if w is None or (
        repeat
        and design.weight_kind == "frequency"
        and (w % 1 == 0).all()
        and w.sum() <= MAX_OBSERVATIONS
    ):
        return design.row_of_observations, None
    return np.arange(design.n), w


def repeat_observations(model: Model) -> Model:
    """Return the model with one row for each observation of `observation_rows`."""
    _, weight = observation_rows(model)
    if weight is not None:
        return model
    return replace(model, design=model.design.repeat_rows())


def distinct_observations(model: Model, *, repeat: bool = True) -> tuple[Block, Array]:
    """Return the distinct rows as a block, and for each observation the index of its distinct row."""
    numbers, weight = observation_rows(model, repeat=repeat)
    d = model.design
    block = Block(d.X, d.observed, weight, d.offset, precision=d.precision)
    if not isinstance(d.X, np.ndarray):  # columns that are not stored as a dense array
        return block, numbers
    columns = (
        d.X,
        block.y,
        *(v for v in (weight, d.offset, d.precision) if v is not None),
    )
    table = np.ascontiguousarray(
        np.column_stack([np.asarray(v, dtype=float) for v in columns])
    )
    # byte by byte: 0.0 and -0.0 give two rows
    _, first, place = np.unique(
        table.view(f"V{table.itemsize * table.shape[1]}"),
        return_index=True,
        return_inverse=True,
    )
    if len(first) == d.n:
        return block, numbers
    weights, offset, precision = (
        some_rows(v, first) for v in (weight, d.offset, d.precision)
    )
    return Block(
        d.X[first], block.y[first], weights, offset, precision=precision
    ), place.ravel()[numbers]


def densities_of_observations(
    model: Model, draws: Mapping[str, Array], *, repeat: bool = True
) -> tuple[Callable[[slice], Array], int, Array]:
    """Return the weighted log densities (b, S) of some of the distinct rows at draws (S, ...), as a function of their range, the number of
    distinct rows, and the distinct row of each observation."""
    block, place = distinct_observations(model, repeat=repeat)
    aux: dict[str, Any] = {a: draws[a][:, None] for a in model.unknown}
    log_densities = log_densities_at(
        block, model.likelihood, draws["beta"], model.fixed | aux
    )

    def weighted(rows: slice) -> Array:
        part = block.part(rows)
        log_p = times_weights(log_densities(part).T, part.weights)
        return np.require(log_p, float, ["C", "W"])

    return weighted, block.rows, place


def _weighting_attributes(weight: Array | None) -> dict[str, str]:
    """Return the attributes of a group if a row represents several observations."""
    if weight is None:
        return {}
    return {
        "weights": "each row counts by its weight, which multiplies its log density"
    }


def estimate_group(model: Model, solution: Solution) -> Any:
    """Return beta, its standard error (nan if there is none) and the auxiliary parameters."""
    dims = coefficient_dims(model)
    estimate = reported_estimate(model, solution)
    variables: dict[str, Any] = {
        "beta": (dims, estimate.beta),
        "std_error": (dims, estimate.error),
    }
    reported = ReportedParameters(model, solution)
    for name, (value, sd) in reported.with_nuisance.items():
        variables[name] = ((), value)
        variables[f"{name}_std_error"] = ((), sd)
    if has_effects(model):
        variables |= spread_variables(model, solution)
    return labelled_numbers(variables, model_coordinates(model))


def labelled_tree(
    model: Model,
    solution: Solution,
    *,
    seed: int,
    attrs: Mapping[str, Any],
    rows: bool,
    density: bool,
    sampling: bool = False,
    repeat: bool = False,
) -> Any:
    """Return the groups of a fit with `attrs` at the root: with `rows` the data, with `density` the groups that take a pass over rows
    and draws, with `sampling` draws of a point estimate; with `repeat` a row of weight k is k observations."""
    import xarray as xr

    groups: dict[str, Any] = {"estimate": estimate_group(model, solution)}
    draws = solution.draws
    if draws is not None:
        groups |= _draws_groups(model, solution, density=density)
        if density and model.design.n:
            row_groups = _row_groups(model, draws, seed, repeat=repeat)
            if not rows:  # row labels are saved with the rows only
                row_groups = {
                    k: v.assign_coords(obs=np.arange(v.sizes["obs"]))
                    for k, v in row_groups.items()
                }
            groups |= row_groups
    elif sampling and solution.replicates is not None:
        groups["sampling"] = _replicates_group(model, solution)
    elif sampling and solution.scale.has_errors:
        groups["sampling"] = _sampling_group(model, solution, seed)
    if rows:
        groups |= data_groups(model, repeat=repeat)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(attrs)
    return tree


def coefficient_groups(fit: Any) -> Any:
    """Return the groups of `fit.tree`, with all coefficients in `beta`."""
    model, solution = fit.model, fit.solution
    return labelled_tree(
        model,
        solution,
        seed=fit.seed,
        attrs={},
        rows=bool(model.design.n),
        density=model.design.has_rows,
        sampling=solution.not_estimable is None and fit.method.probabilities,
        repeat=True,
    )


def _draws_groups(model: Model, solution: Solution, *, density: bool) -> dict[str, Any]:
    """Return the groups of the posterior, its log prior and the statistics of each draw."""
    draws = solution.posterior
    reported = ReportedParameters(model, solution)
    groups = {
        "posterior": draws_group(model, {**draws.values, **reported.draws}),
        "log_prior": _log_prior_group(model, draws.values),
    }
    scaled = blocks_given_scales(model)
    if scaled:  # log p(b | scales), which power-scaling of the prior leaves out
        groups["log_prior_of_effects"] = _log_coefficients_group(
            model, draws.values, scaled
        )
    groups["sample_stats"] = _stats_group(model, draws, density=density)
    return groups


def _sampling_group(model: Model, solution: Solution, seed: int) -> Any:
    """Return draws from the asymptotic distribution of a point estimate, which describe the estimator and are not a posterior."""
    beta, aux = asymptotic(solution, np.random.default_rng([seed, 2]))
    samples = {"beta": beta[None]} | {a: v[None, :, 0] for a, v in aux.items()}
    names = ReportedParameters(model, solution).names
    reported = draws_at(model, samples)
    samples |= {name: reported[name] for name in names}
    # random effects are not estimated parameters
    return draws_group(model, samples, effects=False)


def _replicates_group(model: Model, solution: Solution) -> Any:
    """Return bootstrap replicates of a point estimate, as one chain; nan if a replicate has no estimate."""
    replicates = solution.replicates or {}
    coef = replicates["coef"][None, :, model.design.ungrouped]
    beta = np.where(np.isfinite(coef), coef, np.nan)
    if not model.likelihood.outcomes:
        beta = beta[..., 0]
    # scalars: nuisance parameters and scales of effects
    aux = {name: v[None] for name, v in replicates.items() if v.ndim == 1}
    reported = ReportedParameters(model, solution).draws
    aux |= {name: values[None] for name, values in reported.items()}
    return draws_dataset(model, beta, aux).assign_attrs(replicates="bootstrap")


def draws_group(
    model: Model, draws: Mapping[str, Array], *, effects: bool = True
) -> Any:
    """Return draws of the reported coefficients, the random effects and all other parameters."""
    variables: dict[str, Any] = {k: v for k, v in draws.items() if k != "beta"}
    if effects and has_effects(model):
        by_group = {"effects": draws["beta"]}
        variables = effect_variables(model, by_group, ("chain", "draw")) | variables
    return draws_dataset(model, reported_coefficients(model, draws["beta"]), variables)


def draws_dataset(model: Model, beta: Array, others: Mapping[str, Any]) -> Any:
    """Return reported coefficients (chain, draw, coef[, outcome]) and other variables: scalars (chain, draw) or DataArrays."""
    import xarray as xr

    dims = ("chain", "draw")
    variables: dict[str, Any] = {"beta": ((*dims, *coefficient_dims(model)), beta)}
    variables |= {
        k: (dims, v) if isinstance(v, np.ndarray) else v for k, v in others.items()
    }
    coords = model_coordinates(model) | _draw_coordinates({"beta": beta})
    return xr.Dataset(variables, coords)


def data_groups(model: Model, *, repeat: bool) -> dict[str, Any]:
    """Return the observed data, observation by observation."""
    import xarray as xr

    d = model.design
    rows, weight = observation_rows(model, repeat=repeat)
    obs = observation_labels(model, rows)
    classes = _classes(model)
    y = model.likelihood.drawn(d.observed[rows])
    row_values = model.likelihood.given(d.observed[rows])
    constant: dict[str, Any] = {
        "X": (
            ("obs", "coef"),
            d.X[np.ix_(rows, d.ungrouped)] if has_effects(model) else d.X[rows],
        )
    }
    if weight is not None:
        constant["weights"] = ("obs", weight)
    if d.precision is not None:
        constant["precision"] = ("obs", d.precision[rows])
    constant |= {
        plain_name(t.key): ("obs", t.labels_of(d.inputs[t.key][rows]))
        for t in d.recipe.grouped.values()
    }
    constant |= {k: ("obs", v) for k, v in row_values.items()}
    if d.offset is not None:
        constant["offset"] = ("obs", d.offset[rows, 0])
    return {
        "observed_data": xr.Dataset(
            {"y": (("obs", *classes), integer_response(model, y))},
            obs | classes,
            _weighting_attributes(weight),
        ),
        "constant_data": xr.Dataset(
            constant,
            obs | {"coef": list(d.ungrouped_columns)},
            _weighting_attributes(weight),
        ),
    }


def _row_groups(
    model: Model, draws: Draws, seed: int, *, repeat: bool
) -> dict[str, Any]:
    import xarray as xr

    # numbers of the log-likelihood in a block, which stays in the processor's cache
    block_size = 2**16

    rows, weight = observation_rows(model, repeat=repeat)
    chains, n_draws = draws["beta"].shape[:2]
    shape = (chains, n_draws, len(rows))
    coords = observation_labels(model, rows) | _draw_coordinates(draws.values)
    dims = ("chain", "draw", "obs")
    classes = _classes(model)
    response_shape = (*shape, *map(len, classes.values()))
    likelihood = model.likelihood

    def log_likelihood() -> Array:
        log_densities, n_distinct, place = densities_of_observations(
            model, draws.flat, repeat=repeat
        )
        size = max(1, block_size // draws.count)
        log_p = np.empty((n_distinct, draws.count))

        def fill(block: slice) -> None:
            log_p[block] = log_densities(block)

        on_all_cores(fill, row_slices(n_distinct, size))
        return log_p[place].T.reshape(shape)

    def replicate() -> Array:
        design = model.design.take(rows)
        replicates = np.empty(response_shape)
        rng = np.random.default_rng([seed, 1])
        for c in range(chains):
            eta = design.eta(draws["beta"][c])
            aux = {a: draws[a][c][:, None] for a in model.unknown}
            aux_rows = likelihood.at_rows({**model.fixed, **aux}, design.precision)
            y = likelihood.sample(rng, eta, **aux_rows, **model.given(design))
            replicates[c] = likelihood.drawn(y)
        return integer_response(model, replicates)

    return {
        "log_likelihood": xr.Dataset(
            {"y": lazy(dims, shape, log_likelihood)},
            coords,
            _weighting_attributes(weight),
        ),
        "posterior_predictive": xr.Dataset(
            {
                "y": lazy(
                    (*dims, *classes),
                    response_shape,
                    replicate,
                    np.int64
                    if likelihood.is_discrete
                    else float,  # ArviZ recognises discrete data by the type
                )
            },
            coords | classes,
            _weighting_attributes(weight),
        ),
    }


def integer_response(model: Model, y: Array) -> Array:
    """Return the response y as int64 if it is a class or a count. DataError for other numbers than whole ones below 2^63."""
    limit = 2.0**63  # of int64; a smaller integer-valued float is exact in it
    if not model.likelihood.is_discrete:
        return y
    bad = ~(np.abs(y) < limit) | (np.floor(y) != y)
    if bad.any():
        name = response_name(model.design, model.likelihood)
        raise DataError(
            f"{name} contains {y[bad][0]:g}: expected a whole number below 2^63"
        )
    return y.astype(np.int64)


def _log_prior_group(model: Model, draws: Mapping[str, Array]) -> Any:
    """Return one log prior density per variable, except coefficients with priors given drawn scales.

    An improper prior has the density that its class defines.
    """
    blocks = set(range(len(model.joint.blocks))) - blocks_given_scales(model)
    group = _log_coefficients_group(model, draws, blocks)
    variables = {a: model.aux_prior(a).log_prob(draws[a]) for a in model.unknown}
    variables |= log_prob_of_hyper(model, draws)
    return group.assign({k: (("chain", "draw"), v) for k, v in variables.items()})


def _log_coefficients_group(
    model: Model, draws: Mapping[str, Array], blocks: Collection[int]
) -> Any:
    """Return the log prior density of the coefficients of these blocks; with unknown scales it is an integral at each draw."""
    import xarray as xr

    density = lazy(
        ("chain", "draw"),
        draws["beta"].shape[:2],
        lambda: log_prob_of_coefficients(model, draws, blocks=blocks),
    )
    return xr.Dataset({"beta": density}, _draw_coordinates(draws))


def _stats_group(model: Model, draws: Draws, *, density: bool) -> Any:
    """Return the sampler statistics of each draw, with `density` also lp.

    lp is the log posterior of the draw as a density of (beta, aux), and of the hyperparameters of processes.
    """
    import xarray as xr

    dims = ("chain", "draw")
    shape = draws["beta"].shape[:2]
    variables: dict[str, Any] = {k: (dims, v) for k, v in draws.stats.items()}
    if "lp" not in variables and density:
        aux = {a: draws[a] for a in model.unknown}
        variables["lp"] = lazy(
            dims,
            shape,
            lambda: (
                model.log_lik(draws["beta"], **aux)
                + log_prior_of_draws(model, draws.values)
            ),
        )
    return xr.Dataset(variables, _draw_coordinates(draws.values))


def _draw_coordinates(draws: Mapping[str, Array]) -> dict[str, Array]:
    chains, n = draws["beta"].shape[:2]
    return {"chain": np.arange(chains), "draw": np.arange(n)}


def _classes(model: Model) -> dict[str, list[str]]:
    """Return the class dimension of a response that has counts by class."""
    counts = isinstance(model.likelihood, OfTrials) and bool(model.likelihood.levels)
    if counts:
        return {"level": model.likelihood.level_names}
    return {}


def observation_labels(model: Model, rows: Array) -> dict[str, Any]:
    """Return the row labels of the data; plain numbers if observations repeat."""
    design = model.design
    repeated = len(rows) != design.n or design.weights is not None
    if repeated or design.labels is None:
        return {"obs": np.arange(len(rows))}
    return {"obs": design.labels[rows]}


def lazy(
    dims: tuple[Any, ...],
    shape: tuple[int, ...],
    compute: Callable[[], Array],
    dtype: Any = float,
) -> Any:
    """Return a variable with values that are computed when first read, and cached."""
    import xarray as xr
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Computed(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = shape, np.dtype(dtype)

        @cached_property
        def values(self) -> Array:
            return compute()

        def __getitem__(self, key: Any) -> Array:
            support = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(
                key, shape, support, lambda k: self.values[k]
            )

    return xr.Variable(dims, indexing.LazilyIndexedArray(Computed()))


def left_out(model: Model, solution: Solution) -> dict[str, str]:
    """Return the groups that need one entry per row and cannot be reported, with the reason.

    Empty if the rows are in memory.
    """
    names = ["observed_data", "constant_data"]
    draws = solution.draws
    if draws is not None:
        names += ["log_likelihood", "posterior_predictive"]
        if not ("lp" in draws.stats or model.design.has_rows):
            names += ["lp"]
    obstacle = model.design.rows_obstacle(
        f"a group with one entry per row ({', '.join(names)})"
    )
    return {} if obstacle is None else {"left_out": obstacle}
