"""A fit on disk: netCDF groups of numbers and one JSON text. Reading one looks names up in registries and runs nothing.

Without its rows a saved fit holds the model's specification, the estimate or the draws and, where the likelihood is
Gaussian or a prior is stated relative to the rows, the moments: enough to summarise, compare and predict at new data.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from probreg.design import Design, Moments, PlainColumns
from probreg.errors import DataError, ProbregError
from probreg.inference import METHODS, Method, Solution, Status
from probreg.likelihoods import LIKELIHOODS, Gaussian
from probreg.model import Model
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Prior
from probreg.priors.joint import Key

_FORMAT = 1
_ROOT = "probreg"
_REPLICATE = "replicate_"


def write(path: Path, tree: Any, *, model: Model, method: Method, solution: Solution, seed: int, rows: bool) -> None:
    """Writes the tree with what is needed to read it back, the training rows only if asked. DataError for a missing
    folder."""
    import xarray as xr

    if not path.parent.is_dir():
        raise DataError(f"cannot save to {path}: there is no folder {path.parent}; make it first")
    groups = {name: _plain_labels(node.to_dataset().load()) for name, node in tree.children.items()}
    groups["solution"] = _solution_group(solution)
    if isinstance(model.likelihood, Gaussian) or _relative(model):
        kept = {f"moments_{k}": v for k, v in model.design.moments.to_arrays().items()}
        groups["moments"] = xr.Dataset({k: _bare(k, v) for k, v in kept.items()})
    if rows:
        d = model.design
        parts = {"X": d.X, "y": d.observed, "offset": d.offset, "weights": d.weights}
        groups["rows"] = xr.Dataset({k: _bare(k, v) for k, v in parts.items() if v is not None})
    out = xr.DataTree.from_dict(groups)
    out.attrs.update({k: v for k, v in tree.attrs.items() if isinstance(v, str | int | float)})
    out.attrs[_ROOT] = json.dumps(_spec(model, method, solution, seed))
    out.to_netcdf(path, engine="h5netcdf")


def read(path: Path) -> tuple[Model, Method, Solution, int]:
    """What `write` wrote. DataError when the file is missing or is not a saved fit."""
    import xarray as xr

    if not path.exists():
        raise DataError(f"there is no file {path}")
    try:
        tree = xr.open_datatree(path, engine="h5netcdf").load()
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as netCDF: {error}") from None
    tree.close()
    try:
        spec = json.loads(tree.attrs[_ROOT])
        if spec["format"] > _FORMAT:
            raise DataError(f"{path} was written by a newer version ({spec['version']}); update probreg to read it")
        model = _model(spec, tree)
        return model, METHODS.from_spec(spec["method"]), _solution(spec, tree, model), int(spec["seed"])
    except ProbregError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DataError(f"{path} is not a saved fit, or is damaged: {type(error).__name__} {error}") from None


def _relative(model: Model) -> bool:
    """A prior asks for spreads or X'WX when it is bound; the Fisher information of Jeffreys' needs the rows themselves."""
    stated = [model.prior] if isinstance(model.prior, Prior) else model.prior.values()
    return any(prior.relative and not prior.whole for prior in stated)


def _plain_labels(group: Any) -> Any:
    """Row labels that are not numbers or text (intervals, periods, pairs, dates with a zone), as text."""
    if "obs" not in group.coords:
        return group
    labels = np.asarray(group["obs"].to_index().to_numpy())
    plain = labels.dtype.kind in "iufUT" or all(isinstance(v, str) for v in labels)
    return group.drop_vars(set(group.coords) - set(group.dims)).assign_coords(
        obs=labels if plain else [str(v) for v in labels]
    )


def _bare(name: str, values: Any) -> tuple[tuple[str, ...], Any]:
    array = np.asarray(values)
    return tuple(f"{name}_{i}" for i in range(array.ndim)), array


def _solution_group(s: Solution) -> Any:
    import xarray as xr

    known = not np.isnan(np.diagonal(s.scale)).all()  # else one nan stands for all: columns may be thousands
    parts = {"beta": s.beta, "scale": s.scale if known else np.nan} | (
        {} if s.vague is None else {"vague": s.vague.astype(np.int8)}
    )
    parts |= {} if s.null is None else {"null": s.null}
    parts |= {} if s.replicates is None else {f"{_REPLICATE}{k}": v for k, v in s.replicates.items()}
    return xr.Dataset({k: _bare(k, v) for k, v in parts.items()})


def _spec(model: Model, method: Method, solution: Solution, seed: int) -> dict[str, Any]:
    from probreg import __version__

    d = model.design
    prior: Any = (
        PRIORS.to_spec(model.prior)
        if isinstance(model.prior, Prior)
        else {"columns": [[k if isinstance(k, str) else list(k), PRIORS.to_spec(v)] for k, v in model.prior.items()]}
    )
    return {
        "format": _FORMAT,
        "version": __version__,
        "likelihood": LIKELIHOODS.to_spec(model.likelihood),
        "prior": prior,
        "aux": {k: AUX_PRIORS.to_spec(v) if isinstance(v, AuxPrior) else float(v) for k, v in model.aux.items()},
        "method": METHODS.to_spec(method),
        "design": {
            "recipe": d.recipe.to_json(),
            "response": d.response,
            "free": d.free.tolist(),
            "offset": d.offset is not None,
            "notes": list(d.notes),
        },
        "solution": {
            "aux": dict(solution.aux),
            "aux_sd": dict(solution.aux_sd),
            "hyper": dict(solution.hyper),
            "hyper_sd": dict(solution.hyper_sd),
            "df": solution.df,
            "known_marginals": solution.known_marginals,
            "status": solution.status.name,
            "detail": solution.detail,
            "engine": solution.engine,
            "stats": dict(solution.stats),
            "notes": list(solution.notes),
            "sampled": solution.draws is not None,
        },
        "seed": seed,
    }


def _model(spec: Mapping[str, Any], tree: Any) -> Model:
    d = spec["design"]
    recipe = _recipe(d["recipe"])
    p = len(recipe.columns)
    rows = {k: v.values for k, v in tree["rows"].data_vars.items()} if "rows" in tree.children else {}
    moments = None
    if "moments" in tree.children and not rows:
        moments = Moments.from_arrays(
            {k.removeprefix("moments_"): v.values for k, v in tree["moments"].data_vars.items()}
        )
    if len(d["free"]) != p:
        raise ValueError(f"{len(d['free'])} marks of free columns for {p} columns")
    no_offset = np.zeros((0, 1)) if d["offset"] else None
    design = Design(
        X=rows.get("X", np.zeros((0, p))),
        y=rows.get("y", np.zeros(0)),
        columns=tuple(recipe.columns),
        free=np.array(d["free"], dtype=bool),
        recipe=recipe,
        response=str(d["response"]),
        offset=rows.get("offset", no_offset),
        weights=rows.get("weights"),
        notes=tuple(d["notes"]),
        kept=moments,
    )
    aux = {k: AUX_PRIORS.from_spec(v) if isinstance(v, dict) else float(v) for k, v in spec["aux"].items()}
    return Model(design, LIKELIHOODS.from_spec(spec["likelihood"]), _prior(spec["prior"]), aux)


def _prior(spec: Mapping[str, Any]) -> Prior | dict[Key, Prior]:
    if "columns" not in spec:
        return PRIORS.from_spec(spec)
    return {k if isinstance(k, str) else tuple(k): PRIORS.from_spec(v) for k, v in spec["columns"]}


def _recipe(saved: Mapping[str, Any]) -> Any:
    if saved["kind"] == "plain":
        return PlainColumns(tuple(str(c) for c in saved["columns"]), bool(saved["intercept"]))
    from probreg.design.formula import Recipe

    return Recipe.from_json(saved)


def _solution(spec: Mapping[str, Any], tree: Any, model: Model) -> Solution:
    from probreg.tree import hidden

    s, numbers = spec["solution"], tree["solution"]
    k = model.shape[0] * model.shape[1]
    if numbers["beta"].shape != model.shape or numbers["scale"].shape not in ((), (k, k)):
        raise ValueError(f"coefficients of shape {numbers['beta'].shape} in a model of shape {model.shape}")
    draws = stats = None
    if s["sampled"]:
        posterior = tree["posterior"]
        draws = {"beta": hidden(model, posterior["beta"].values)} | {
            str(k): v.values for k, v in posterior.data_vars.items() if k != "beta"
        }
        stats = {k: v.values for k, v in tree["sample_stats"].data_vars.items()}
    return Solution(
        beta=numbers["beta"].values,
        scale=np.broadcast_to(numbers["scale"].values, (k, k)),
        aux=s["aux"],
        aux_sd=s["aux_sd"],
        hyper=s.get("hyper", {}),
        hyper_sd=s.get("hyper_sd", {}),
        df=s["df"],
        known_marginals=s["known_marginals"],
        draws=draws,
        sample_stats=stats or {},
        replicates=_replicates(numbers),
        status=Status[s["status"]],
        detail=s["detail"],
        engine=s.get("engine", ""),
        vague=numbers["vague"].values.astype(bool) if "vague" in numbers.data_vars else None,
        null=numbers["null"].values if "null" in numbers.data_vars else None,
        stats=s["stats"],
        notes=tuple(s["notes"]),
    )


def _replicates(numbers: Any) -> dict[str, np.ndarray] | None:
    found = {str(k): v.values for k, v in numbers.data_vars.items() if str(k).startswith(_REPLICATE)}
    return {k.removeprefix(_REPLICATE): v for k, v in found.items()} or None
