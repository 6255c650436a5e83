"""Write a fit to a file: netCDF groups of arrays, a JSON specification and a digest (docs/explanation/storage.md).

A file without rows has the model's specification, the estimate or the draws, and the moments of the rows if the likelihood is
Gaussian or a prior is relative to the rows. This is enough to summarise, compare, and predict at new data.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.data import Design, Moments
from probreg.errors import DataError
from probreg.fits.storage.schema import FORMAT, encode_columns, netcdf_image, seal
from probreg.inference import METHODS, Draws, Method, Solution
from probreg.inference.covariance import NoCovariance, ParameterCovariance
from probreg.inference.modes.wide import SOON, is_wide
from probreg.inference.varying import FoundScales
from probreg.likelihoods import LIKELIHOODS, OfTrials
from probreg.model.data_dependent_priors import moments_by_trials
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Prior
from probreg.priors.joint import PerPredictor
from probreg.system.disk import write_whole
from probreg.system.memory import Interrupts

SPECIFICATION = "probreg"  # the root attribute with the JSON
ARRAY = "$array"  # key of a JSON table that refers to an array of the group "arrays"
INPUTS = "inputs_"
SCALE = "scale_"
JOINT = "joint_"
REPLICATE = "replicate_"
MARGINAL = "marginal_"


def write_fit(
    path: Any,
    tree: Any,
    *,
    model: Model,
    method: Method,
    solution: Solution,
    seed: int,
    rows: bool,
    interrupts: Interrupts,
) -> None:
    """Write the tree of a fit with everything that `read_fit` needs; after a DataError a previous file is unchanged."""
    import xarray as xr

    spec = _specification(model, method, solution, seed)
    groups = {
        name: _with_plain_labels(node.to_dataset().load())
        for name, node in tree.children.items()
    }
    groups |= _moment_groups(model, rows=rows)
    groups["solution"] = _group(_solution_arrays(solution))
    if rows:
        spec["design"]["read"] = encode_columns(model.design.read)
        spec["design"]["labels"] = _encode_labels(model.design)
        groups["rows"] = _group(_row_arrays(model.design))
    arrays: dict[str, Any] = {}

    def encode(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            name = f"array_{len(arrays)}"
            arrays[name] = value
            return {ARRAY: name}
        raise TypeError(f"{type(value).__name__} cannot be saved")

    text = json.dumps(spec, default=encode)
    if arrays:
        groups["arrays"] = _group(arrays)
    data_tree = xr.DataTree.from_dict(groups)
    attributes = {
        k: v for k, v in tree.attrs.items() if isinstance(v, str | int | float)
    }
    data_tree.attrs.update(attributes | {SPECIFICATION: text})
    image = netcdf_image(data_tree)
    interrupts.check()
    write_whole(path, (image, seal(image)))


# ---- the specification ---------------------------------------------------------------------------------------------


def _specification(
    model: Model, method: Method, solution: Solution, seed: int
) -> dict[str, Any]:
    from probreg import __version__

    d = model.design
    return {
        "format": FORMAT,
        "version": __version__,
        "seed": int(seed),
        "scales_compared": int(model.scales_compared),
        "likelihood": LIKELIHOODS.to_spec(model.likelihood.without_formulas),
        "prior": _prior_spec(model),
        "aux": {k: _aux_spec(v) for k, v in model.aux.items()},
        "method": METHODS.to_spec(method),
        "design": {
            "recipe": d.recipe.to_json(),
            "response": d.response,
            "offset": 0 if d.offset is None else d.offset.shape[1],
            "weights": d.weight_kind,
            "notes": list(d.notes),
            "of_moments": d.of_moments,
            "read": [],
            "labels": [],
        },
        "solution": {
            "aux": dict(solution.aux),
            "aux_sd": dict(solution.draws.aux_sd) if solution.draws else {},
            "df": solution.df,
            "status": solution.status.name,
            "detail": solution.detail,
            "sandwich": solution.sandwich,
            "further": list(solution.scale.further),
            "stats": dict(solution.stats),
            "notes": list(map(str, solution.notes)),
            "note_topics": [note.topic.name for note in solution.notes],
            "note_severities": [note.severity.name for note in solution.notes],
            "replicates": solution.replicates and list(solution.replicates),
            "draws": solution.draws and _draws_spec(solution.draws),
            "scales": solution.scales and _scales_spec(solution.scales, model),
        },
    }


def _prior_spec(model: Model) -> Any:
    if isinstance(model.prior, Prior):
        return PRIORS.to_spec(model.prior)
    columns = []
    for key, prior in model.prior.items():
        if isinstance(prior, PerPredictor):
            spec: Any = list(map(PRIORS.to_spec, prior.priors))
        else:
            spec = PRIORS.to_spec(prior)
        columns.append([key if isinstance(key, str) else list(key), spec])
    return {"columns": columns}


def _aux_spec(value: float | AuxPrior) -> Any:
    if isinstance(value, AuxPrior):
        return AUX_PRIORS.to_spec(value)
    if isinstance(value, FoundValue):
        return {"found": float(value)}
    return float(value)


def _draws_spec(draws: Draws) -> dict[str, Any]:
    return {
        "values": [name for name in draws.values if name != "beta"],
        "stats": list(draws.stats),
        "hyper": list(draws.hyper),
        "elliptical": draws.elliptical,
    }


def _scales_spec(scales: FoundScales, model: Model) -> dict[str, Any]:
    """Return the scales that maximise the evidence, and the stated model's priors, with its recipe if the scales change columns."""
    recipe = scales.stated.design.recipe
    rebuilt = any(
        model.design.recipe.processes[k].basis is not t.basis
        for k, t in recipe.processes.items()
    )
    return {
        "recipe": recipe.to_json() if rebuilt else None,
        "prior": _prior_spec(scales.stated),
        "aux": {k: _aux_spec(v) for k, v in scales.stated.aux.items()},
        "criterion": scales.criterion,
        "theta": scales.theta.tolist(),
        "hessian": scales.hessian.tolist(),
        "value": scales.value,
        "vanished": scales.vanished.tolist(),
        "plain": scales.plain,
        "points": scales.points,
    }


# ---- groups of arrays ----------------------------------------------------------------------------------------------


def _moment_groups(model: Model, *, rows: bool) -> dict[str, Any]:
    """Return the moments of a Gaussian likelihood and of a prior relative to the rows; none if they are larger than the rows."""
    # Jeffreys' prior needs the rows themselves
    relative = any(p.data_dependent and not p.whole for p in model.stated_priors)
    if is_wide(model) or (model.design.has_codes and model.shape[0] > SOON):
        if relative and not rows:
            raise DataError(
                f"the prior is relative to the rows, and the moments of {model.shape[0]:,} columns are larger than the rows: use "
                "save(rows=True)"
            )
        return {}
    if not (model.likelihood.least_squares or relative):
        return {}
    groups = {}
    by_group = None
    if model.likelihood.least_squares:
        by_group = model.design.moments_by_group
    if by_group is None:
        groups["moments"] = _moments_group(model.design.moments)
    else:
        groups["moments"] = _moments_group(by_group.head)
        groups["moments_by_group"] = _group(by_group.to_arrays())
    if isinstance(model.likelihood, OfTrials):
        by_trials = moments_by_trials(model.design, model.likelihood)
        groups["moments_by_trials"] = _moments_group(by_trials)
    return groups


def _moments_group(moments: Moments) -> Any:
    arrays = moments.to_arrays()
    del arrays["columns"]  # the recipe names them
    return _group(arrays)


def _solution_arrays(solution: Solution) -> dict[str, Any]:
    draws = solution.draws
    arrays: dict[str, Any] = {
        "beta": solution.beta,
        "not_estimable": solution.not_estimable,
        "null_space": solution.null_space,
    }
    if arrays["not_estimable"] is not None:
        arrays["not_estimable"] = arrays["not_estimable"].astype(np.int8)
    if solution.conditional is None:
        arrays |= _covariance_arrays(SCALE, solution.scale)
    else:
        arrays |= _covariance_arrays(SCALE, solution.conditional)
        arrays |= _covariance_arrays(JOINT, solution.scale)
    arrays |= {f"{REPLICATE}{k}": v for k, v in (solution.replicates or {}).items()}
    if draws is not None and draws.marginals is not None:
        arrays |= {f"{MARGINAL}{k}": v for k, v in draws.marginals.items()}
    return arrays


def _covariance_arrays(prefix: str, covariance: ParameterCovariance) -> dict[str, Any]:
    if isinstance(covariance, NoCovariance):
        return {}
    return {f"{prefix}{k}": v for k, v in covariance.arrays().items()}


def _encode_labels(design: Design) -> list[dict[str, Any]]:
    """Return the table of the labels of all rows; empty if they count the rows, or are no whole numbers, times or text.

    Times are whole numbers under the name of their dtype.
    """
    labels = design.data_labels
    if labels.dtype.kind in "mM":
        return encode_columns({str(labels.dtype): labels.view(np.int64)})
    plain = labels.dtype.kind in "iu" or all(isinstance(v, str) for v in labels)
    if not plain or np.array_equal(design.row_names, np.arange(design.n)):
        return []
    return encode_columns({"labels": labels})


def _row_arrays(design: Design) -> dict[str, Any]:
    """Return X, y, offset, weights, the inputs of each term by its number, and the places of rows of weight 0."""
    arrays = {
        "X": design.X,
        "y": design.observed,
        "offset": design.offset,
        "weights": design.weights,
        "precision": design.precision,
    }
    number = {key: i for i, key in enumerate(term_keys(design.recipe))}
    arrays |= {f"{INPUTS}{number[key]}": x for key, x in design.inputs.items()}
    if design.absent is not None:
        arrays["absent"] = design.absent.places
    return arrays


def term_keys(recipe: Any) -> tuple[str, ...]:
    """Return the terms with inputs: processes, then smooth functions, then random effects."""
    return (*recipe.processes, *recipe.smooths, *recipe.grouped)


def _group(parts: Mapping[str, Any]) -> Any:
    """Return the arrays that are not None as a Dataset; each axis is named by its length, because netCDF requires names."""
    import xarray as xr

    variables = {}
    for name, values in parts.items():
        if values is None:
            continue
        array = np.asarray(values)
        axes = [
            f"n{size}" + "_" * array.shape[:i].count(size)
            for i, size in enumerate(array.shape)
        ]
        variables[name] = (axes, array)
    return xr.Dataset(variables)


def _with_plain_labels(group: Any) -> Any:
    """Convert row labels other than numbers, dates and text (intervals, periods, pairs, dates with a zone) to text."""
    if "obs" not in group.coords:
        return group
    labels = group["obs"].to_index().to_numpy()
    plain = labels.dtype.kind in "iufUT" or all(isinstance(v, str) for v in labels)
    group = group.drop_vars(set(group.coords) - set(group.dims))
    return group.assign_coords(obs=labels if plain else [str(v) for v in labels])
