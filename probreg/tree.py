"""The only writer of labels: model, method and solution become one xarray.DataTree that ArviZ reads as it is.

Groups: `estimate` always; `posterior` only when the method's target is a posterior, `sampling` (asymptotic draws) when it is
a point estimate; `log_likelihood`, `log_prior`,
`posterior_predictive`, `sample_stats` beside it; `observed_data` and `constant_data`. What costs a pass over rows and
draws is computed when it is first read.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from probreg.inference import Method, Solution
from probreg.inference.asymptotic import asymptotic
from probreg.model import Model

Array = np.ndarray
_MOST = 1e6  # observations that are still written out one by one


def shown(model: Model, beta: Array) -> Array:
    """Reported coefficients: (..., p) for one predictor, (..., p, outcomes) for several."""
    if not model.likelihood.outcomes:
        return beta[..., 0]
    return beta @ model.likelihood.display.T if _mixes(model) else beta


def shown_scale(model: Model, scale: Array) -> Array:
    """The scale matrix of the reported coefficients, column first, then outcome."""
    if not _mixes(model):
        return scale
    D, (p, m) = model.likelihood.display, model.shape
    # Column by column, so that the nan of one column stays there.
    blocks = np.einsum("ka,iajb,lb->ikjl", D, scale.reshape(p, m, p, m), D)
    return blocks.reshape(p * len(D), p * len(D))


def reported_scale(model: Model, solution: Solution) -> Array:
    """`shown_scale` of a solution, nan where a coefficient has no estimate: there its least-norm spread means nothing."""
    out = shown_scale(model, solution.scale)
    if solution.vague is None:
        return out
    gone = solution.vague.ravel()
    return np.where(gone[:, None] | gone, np.nan, out)


def _mixes(model: Model) -> bool:
    """Reported coefficients are combinations of the model's own, so that one without an estimate spoils the others."""
    return len(model.likelihood.display) != model.shape[1]


def hidden(model: Model, beta: Array) -> Array:
    """Back from reported coefficients to (..., p, m)."""
    return beta @ np.linalg.pinv(model.likelihood.display).T if model.likelihood.outcomes else beta[..., None]


def coefficient_dims(model: Model) -> tuple[str, ...]:
    return ("coef", "outcome") if model.likelihood.outcomes else ("coef",)


def coordinates(model: Model) -> dict[str, list[str]]:
    out = {"coef": list(model.design.columns)}
    return out | ({"outcome": list(model.likelihood.outcomes)} if model.likelihood.outcomes else {})


def labelled(model: Model, beta: Array) -> Any:
    """Coefficients (p,) or (p, outcomes) as a DataArray."""
    import xarray as xr

    return xr.DataArray(beta, coordinates(model), coefficient_dims(model), name="beta")


def observation_rows(model: Model, *, repeat: bool = True) -> tuple[Array, Array | None]:
    """Which row each observation is, and its weight: rows of a whole-number weight are repeated, so that leaving one
    out leaves out one observation; other weights, and those of more than a million observations, multiply the log
    density of their row."""
    w = model.design.weights
    if w is None:
        return np.arange(model.design.n), None
    if repeat and (w % 1 == 0).all() and w.sum() <= _MOST:
        return np.repeat(np.arange(model.design.n), w.astype(int)), None
    return np.arange(model.design.n), w


def _weighting(weight: Array | None) -> dict[str, str]:
    """What a group says of itself where a row stands for several observations."""
    return {} if weight is None else {"weights": "each row counts by its weight, which multiplies its log density"}


def estimate_group(model: Model, solution: Solution) -> Any:
    """beta, its standard error (nan where there is none) and the auxiliary parameters."""
    import xarray as xr

    dims = coefficient_dims(model)
    beta = shown(model, solution.beta)
    se = np.sqrt(np.diagonal(reported_scale(model, solution))).reshape(beta.shape)
    if solution.vague is not None:
        beta = np.where(solution.vague.reshape(beta.shape), np.nan, beta)
    variables: dict[str, Any] = {"beta": (dims, beta), "std_error": (dims, se)}
    for name, value in solution.aux.items():
        variables[name] = ((), value)
        variables[f"{name}_std_error"] = ((), solution.aux_sd.get(name, np.nan))
    return xr.Dataset(variables, coordinates(model))


def to_save(model: Model, solution: Solution, *, seed: int, attrs: Mapping[str, Any], rows: bool) -> Any:
    """What a file holds: nothing that takes a pass over rows and draws unless `rows`, and then row by weighted row."""
    import xarray as xr

    groups: dict[str, Any] = {"estimate": estimate_group(model, solution)}
    if solution.draws is not None:
        groups["posterior"] = draws_group(model, solution.draws)
        groups["log_prior"] = _log_prior_group(model, solution.draws)
        groups["sample_stats"] = _stats_group(model, solution, density=rows)
        if rows:
            groups |= _row_groups(model, solution, seed, repeat=False)
    if rows:
        groups |= data_groups(model, repeat=False)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(attrs)
    return tree


def build(model: Model, method: Method, solution: Solution, seed: int, attrs: Mapping[str, Any]) -> Any:
    """The whole tree; `attrs` are written at its root."""
    import xarray as xr

    groups: dict[str, Any] = {"estimate": estimate_group(model, solution)}
    if solution.draws is not None:
        groups["posterior"] = draws_group(model, solution.draws)
        if model.design.n:
            groups |= _row_groups(model, solution, seed)
        groups["log_prior"] = _log_prior_group(model, solution.draws)
        groups["sample_stats"] = _stats_group(model, solution, density=bool(model.design.n))
    elif solution.vague is None and method.probabilities:
        groups["sampling"] = _sampling_group(model, solution, seed)
    if model.design.n:
        groups |= data_groups(model)
    tree = xr.DataTree.from_dict(groups)
    tree.attrs.update(attrs)
    return tree


def _sampling_group(model: Model, solution: Solution, seed: int) -> Any:
    """Draws from the asymptotic distribution of a point estimate: what the estimator does, not what the data say."""
    beta, aux = asymptotic(solution, np.random.default_rng([seed, 2]))
    return draws_group(model, {"beta": beta[None]} | {a: v[None, :, 0] for a, v in aux.items()})


def draws_group(model: Model, draws: Mapping[str, Array]) -> Any:
    import xarray as xr

    beta = shown(model, draws["beta"])
    variables: dict[str, Any] = {"beta": (("chain", "draw", *coefficient_dims(model)), beta)}
    variables |= {k: (("chain", "draw"), v) for k, v in draws.items() if k != "beta"}
    return xr.Dataset(variables, coordinates(model) | _draw_coordinates(draws))


def data_groups(model: Model, *, repeat: bool = True) -> dict[str, Any]:
    """What was observed, observation by observation."""
    import xarray as xr

    d = model.design
    rows, weight = observation_rows(model, repeat=repeat)
    obs = _labels(model, rows)
    constant: dict[str, Any] = {"X": (("obs", "coef"), d.X[rows])}
    if weight is not None:
        constant["weights"] = ("obs", weight)
    if d.offset is not None:
        constant["offset"] = ("obs", d.offset[rows, 0])
    return {
        "observed_data": xr.Dataset({"y": ("obs", d.observed[rows])}, obs, _weighting(weight)),
        "constant_data": xr.Dataset(constant, obs | {"coef": list(d.columns)}, _weighting(weight)),
    }


def _row_groups(model: Model, solution: Solution, seed: int, *, repeat: bool = True) -> dict[str, Any]:
    import xarray as xr

    assert solution.draws is not None
    draws, d = solution.draws, model.design
    rows, weight = observation_rows(model, repeat=repeat)
    shape = (*draws["beta"].shape[:2], len(rows))
    coords = _labels(model, rows) | _draw_coordinates(draws)
    dims = ("chain", "draw", "obs")

    def eta(chain: int) -> tuple[Array, dict[str, Array]]:
        eta = d.X[rows] @ draws["beta"][chain] + (0.0 if d.offset is None else d.offset[rows])
        return eta, {**model.fixed, **{a: draws[a][chain][:, None] for a in model.unknown}}

    def log_likelihood() -> Array:
        out = np.empty(shape)
        for c in range(shape[0]):
            e, aux = eta(c)
            out[c] = model.likelihood.log_prob(d.observed[rows], e, **aux) * (1.0 if weight is None else weight)
        return out

    def replicate() -> Array:
        out, rng = np.empty(shape), np.random.default_rng([seed, 1])
        for c in range(shape[0]):
            e, aux = eta(c)
            out[c] = model.likelihood.sample(rng, e, **aux)
        return out

    return {
        "log_likelihood": xr.Dataset({"y": lazy(dims, shape, log_likelihood)}, coords, _weighting(weight)),
        "posterior_predictive": xr.Dataset({"y": lazy(dims, shape, replicate)}, coords, _weighting(weight)),
    }


def _log_prior_group(model: Model, draws: Mapping[str, Array]) -> Any:
    """One log prior density per variable; an improper one counts as its class states it."""
    import xarray as xr

    sigma = draws.get("sigma", model.fixed.get("sigma", 1.0))
    variables: dict[str, Any] = {"beta": (("chain", "draw"), model.joint.log_prob(draws["beta"], sigma))}
    variables |= {a: (("chain", "draw"), model.aux_prior(a).log_prob(draws[a])) for a in model.unknown}
    return xr.Dataset(variables, _draw_coordinates(draws))


def _stats_group(model: Model, solution: Solution, *, density: bool) -> Any:
    """What the method says of each draw, and with `density` lp, the log posterior there as a density of (beta, aux)."""
    import xarray as xr

    draws = solution.draws or {}
    dims, shape = ("chain", "draw"), draws["beta"].shape[:2]
    variables: dict[str, Any] = {k: (dims, v) for k, v in solution.sample_stats.items()}
    if "lp" not in variables and density:
        aux = {a: draws[a] for a in model.unknown}
        variables["lp"] = lazy(dims, shape, lambda: model.log_posterior(draws["beta"], **aux))
    return xr.Dataset(variables, _draw_coordinates(draws))


def _draw_coordinates(draws: Mapping[str, Array]) -> dict[str, Array]:
    chains, n = draws["beta"].shape[:2]
    return {"chain": np.arange(chains), "draw": np.arange(n)}


def _labels(model: Model, rows: Array) -> dict[str, Any]:
    """Row labels as the data had them; plain numbers where observations repeat."""
    labels = model.design.labels
    named = labels is not None and len(rows) == model.design.n and model.design.weights is None
    return {"obs": labels[rows] if named and labels is not None else np.arange(len(rows))}


def lazy(dims: tuple[str, ...], shape: tuple[int, ...], compute: Callable[[], Array]) -> Any:
    """A variable whose numbers are computed when first read, and kept."""
    import xarray as xr
    from xarray.backends import BackendArray
    from xarray.core import indexing

    class Computed(BackendArray):
        def __init__(self) -> None:
            self.shape, self.dtype = shape, np.dtype(float)

        @cached_property
        def values(self) -> Array:
            return compute()

        def __getitem__(self, key: Any) -> Array:
            support = indexing.IndexingSupport.BASIC
            return indexing.explicit_indexing_adapter(key, shape, support, lambda k: self.values[k])

    return xr.Variable(dims, indexing.LazilyIndexedArray(Computed()))
