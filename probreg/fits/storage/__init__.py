"""A fit on disk: netCDF groups of numbers, one JSON text, a digest. Reading one looks names up in registries and runs nothing.

Draws that are a function of parameters and the seed are not in the file: they are made again, and held to their digest.
Without its rows a saved fit holds the model's specification, the estimate or the draws and, where the likelihood is
Gaussian or a prior is stated relative to the rows, the moments (not those of more than 200 columns and fewer rows, which
would be larger than the rows): enough to summarise, compare and predict at new data. The format, and what is promised of
it, is docs/explanation/storage.md.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from probreg.data import AnyMoments, ColumnRecipe, Design, Frame, Moments, Unused
from probreg.data.arrow_moments import arrow_moments_of
from probreg.data.formula.variables import read_of
from probreg.data.saved_recipe import recipe_from_json
from probreg.errors import DataError, ProbregError, warn_caller
from probreg.fits.storage import checks
from probreg.fits.storage.checks import (
    COUNTS,
    DRAWS,
    MOMENTS,
    REPLICATES,
    ROWS,
    SAMPLE_STATS,
    SOLUTION,
    Stored,
    check_specification,
    read_arrays,
    stored_lines,
)
from probreg.fits.storage.columns import read_columns_back, written_columns
from probreg.fits.storage.container import Container, image_of, read_verified, seal
from probreg.inference import METHODS, Draws, Method, Solution, Status
from probreg.inference.base import Routine, coefficients_of_reported, has_effects
from probreg.inference.covariance import (
    DenseCovariance,
    NoCovariance,
    ParameterCovariance,
)
from probreg.inference.modes.wide import SOON, is_wide
from probreg.inference.penalized.nonsmooth import has_nonsmooth_terms
from probreg.inference.varying import FoundScales, effects_of_groups, number_of_scales
from probreg.likelihoods import LIKELIHOODS, OfTrials
from probreg.model.data_dependent_priors import moments_by_trials
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.numerics.linalg import one_blas_thread
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Prior
from probreg.priors.joint import Key, PerPredictor
from probreg.system.disk import read_plain, write_whole
from probreg.system.interrupts import Interrupts

_FORMAT = 3  # 1 was of the time before the first release, and had no digest; 2 always held the draws
_OLDEST = 2
_ROOT = "probreg"
_MOMENTS = "moments_"
_BY_GROUP = "by_group"
_FACTOR = "scale_"
_JOINT = "joint_"  # of the covariance that counts the errors of scales, where `scale` is the one given these
_REPLICATE = "replicate_"
_MARGINAL = "marginal_"
_MADE_OF = "made_of_"
_MOST = 2**27  # numbers of draws that are made again, a gigabyte
_UNUSED = "unused_"
_BASES = "bases"
_INPUTS = "inputs_"


def write_fit(
    path: Any, tree: Any, *, model: Model, method: Method, solution: Solution, seed: int, rows: bool, remade: bool,
    interrupts: Interrupts,
) -> None:  # fmt: skip
    """Writes the tree with what is needed to read it back: the training rows only if asked, in place of draws that are
    `remade` what they are made of. DataError where no file can be written; what was there before is then as it was."""
    import xarray as xr

    spec, arrays = _without_arrays(_spec(model, method, solution, seed))
    groups = {
        name: _plain_labels(node.to_dataset().load())
        for name, node in tree.children.items()
    }
    large = is_wide(model) or (model.design.coded and model.shape[0] > SOON)
    if large and _relative(model) and not rows:
        raise DataError(
            f"the prior of this model is stated relative to its rows, and the moments of {model.shape[0]:,} columns are "
            "larger than the rows: save(rows=True) keeps them"
        )
    if not large and (model.likelihood.least_squares or _relative(model)):
        if model.likelihood.least_squares:
            by_group = model.design.moments_by_group
        else:
            by_group = None
        sums = {"moments": model.design.moments if by_group is None else by_group.head}
        if by_group is not None:
            groups[_BY_GROUP] = _group(by_group.to_arrays())
        if isinstance(model.likelihood, OfTrials):
            sums["moments_by_trials"] = moments_by_trials(
                model.design, model.likelihood
            )
        groups |= {name: _moments_group(m) for name, m in sums.items()}
        spec["sums"] = {
            k: {a: v.item() for a, v in m.to_arrays().items() if not v.ndim}
            for k, m in sums.items()
        }
    moments = groups.get("moments") if not rows else None
    groups["solution"] = _solution_group(
        solution, remade, moments, model.design.intercept
    )
    if rows:
        d = model.design
        parts = {
            "X": d.X,
            "y": d.observed,
            "offset": d.offset,
            "weights": d.weights,
            "precision": d.precision,
        }
        if (left := d.unused) is not None:  # without labels, as the other rows
            parts |= {
                f"{_UNUSED}{k}": getattr(left, k)
                for k in ("places", "X", "offset", "y")
            }
        parts |= _inputs_of(d)
        written, spec["design"]["read"] = written_columns(read_of(d))
        parts |= written
        groups["rows"] = _group({k: v for k, v in parts.items() if v is not None})
    if remade:
        spec["solution"]["draws_digest"] = digest_of_draws(solution.posterior)
    if arrays:
        groups[_BASES] = _group(arrays)
    out = xr.DataTree.from_dict(groups)
    out.attrs.update(
        {k: v for k, v in tree.attrs.items() if isinstance(v, str | int | float)}
    )
    out.attrs[_ROOT] = json.dumps(spec, default=_item)
    image = image_of(out)
    interrupts.check()
    write_whole(path, (image, seal(image)))


def can_be_made_again(
    model: Model, method: Method, solution: Solution, seed: int
) -> bool:
    """Whether the draws come again from the seed, to the bit: it is tried."""
    draws = solution.draws
    if draws is None or draws.made_of is None or draws["beta"].size > _MOST:
        return False
    again = _redraw(model, method, solution.beta, draws.made_of, seed)
    return digest_of_draws(again) == digest_of_draws(draws)


def _redraw(
    model: Model,
    method: Method,
    estimate: np.ndarray,
    made_of: Mapping[str, np.ndarray],
    seed: int,
) -> Draws:
    with one_blas_thread():
        return method.draws_again(model, estimate, made_of, np.random.default_rng(seed))


def digest_of_draws(draws: Draws) -> str:
    """The SHA-256 of the values and the statistics of draws, by name."""
    digest = hashlib.sha256()
    for name, values in sorted({**draws.values, **draws.stats}.items()):
        digest.update(
            name.encode() + np.ascontiguousarray(values, dtype="<f8").tobytes()
        )
    return digest.hexdigest()


def read_saved(path: Any) -> tuple[Model, Method, Solution, int]:
    """What `write` wrote. DataError when the file is missing, is not a saved fit, or is damaged."""
    data = read_plain(path)
    image = read_verified(data, str(path))
    try:
        with Container(image) as file:
            spec = json.loads(file.text(_ROOT))
            _check_format(spec)
            check_specification(spec)
            spec["design"]["recipe"] = _with_arrays(spec["design"]["recipe"], file)
            model = _model(spec, file)
            method = METHODS.from_spec(spec["method"])
            solution = _read_solution(spec, file, model, method)
            seed = spec["seed"]
            asked = spec["solution"].get("draws_digest")
            if asked is not None and digest_of_draws(solution.posterior) != asked:
                warn_caller(
                    f"{path}: the draws, made again from the seed, differ from those that were saved, by another NumPy or "
                    "processor; the posterior is the same"
                )
            return model, method, solution, seed
    except ProbregError as error:
        raise DataError(
            f"{path} is not a fit that this version reads: {error}"
        ) from None
    except Exception as error:  # the digest is right, so that a hand has made these bytes, and nothing of them is certain
        raise DataError(
            f"{path} is not a fit that this version reads: {type(error).__name__} {error}"
        ) from error


def _check_format(spec: Any) -> None:
    """DataError unless the specification is of a format that this version reads."""
    found: Any = spec.get("format") if isinstance(spec, dict) else None
    if not checks.WHOLE.holds(found):
        raise DataError("its specification has no number of a format")
    if found > _FORMAT:
        raise DataError(
            f"it is of format {found}, written by a newer version ({spec.get('version')!r:.20}); update probreg"
        )
    if found < _OLDEST:
        raise DataError(
            f"it is of format {found}, of the time before the first release; fit and save again"
        )


def _without_arrays(
    spec: dict[str, Any],
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The specification with the arrays of bases, which are large, by the names that they have in a group of their own."""
    arrays: dict[str, np.ndarray] = {}

    def replace_arrays(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            arrays[name := f"basis_{len(arrays)}"] = value
            return {_BASES: name}
        if isinstance(value, dict):
            return {k: replace_arrays(v) for k, v in value.items()}
        if isinstance(value, list):
            return [replace_arrays(v) for v in value]
        return value

    design = {**spec["design"], "recipe": replace_arrays(spec["design"]["recipe"])}
    solution = spec["solution"]
    if "recipe" in (scales := solution.get("scales", {})):
        solution = {
            **solution,
            "scales": {**scales, "recipe": replace_arrays(scales["recipe"])},
        }
    return {**spec, "design": design, "solution": solution}, arrays


def _with_arrays(value: Any, file: Container) -> Any:
    """A recipe with the arrays of bases in their places. DataError for one that is not there, or is not of finite numbers."""
    if isinstance(value, dict) and set(value) == {_BASES}:
        found = file.array(_BASES, str(value[_BASES]))
        if not checks.FINITE.holds(found):
            raise DataError(
                f"{_BASES}/{value[_BASES]} holds other values than {checks.FINITE.words}"
            )
        return found
    if isinstance(value, dict):
        return {k: _with_arrays(v, file) for k, v in value.items()}
    if isinstance(value, list):
        return [_with_arrays(v, file) for v in value]
    return value


def _inputs_of(design: Design) -> dict[str, np.ndarray]:
    """What enters each process, smooth function and varying effect, by its number, and the same of rows of weight 0."""
    number = {key: i for i, key in enumerate(_term_keys(design.recipe))}
    kept = {f"{_INPUTS}{number[key]}": x for key, x in design.inputs.items()}
    if design.unused is None:
        return kept
    return kept | {
        f"{_UNUSED}{_INPUTS}{number[key]}": x for key, x in design.unused.inputs.items()
    }


def _term_keys(recipe: ColumnRecipe) -> tuple[str, ...]:
    """The processes, then the smooth functions, then the varying effects, by the term."""
    return (*recipe.processes, *recipe.smooths, *recipe.grouped)


def _input_width(recipe: ColumnRecipe, key: str) -> int:
    """Return how many numbers of a row enter a term: for varying effects the number of the group and z (K,)."""
    if key in recipe.grouped:
        return 1 + recipe.grouped[key].shape[1]
    return len(recipe.entering[key])


def _inputs_from(
    recipe: ColumnRecipe, rows: Mapping[str, np.ndarray], prefix: str = ""
) -> dict[str, np.ndarray]:
    names = {key: f"{prefix}{_INPUTS}{i}" for i, key in enumerate(_term_keys(recipe))}
    found = {key: rows[name] for key, name in names.items() if name in rows}
    for key in recipe.grouped.keys() & found.keys():
        codes = found[key][:, 0]
        bad = np.flatnonzero((codes < 0) | (codes != np.floor(codes)))
        if len(bad):
            raise DataError(
                f"the group of row {bad[0]} in {key} is {codes[bad[0]]:g}, and groups are numbered from 0"
            )
    return found


def _item(value: Any) -> Any:
    """A number of NumPy as Python's."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be saved")


def _relative(model: Model) -> bool:
    """A prior asks for spreads or X'WX when it is bound; the Fisher information of Jeffreys' needs the rows themselves."""
    stated = [model.prior] if isinstance(model.prior, Prior) else model.prior.values()
    return any(prior.data_dependent and not prior.whole for prior in stated)


def _plain_labels(group: Any) -> Any:
    """Row labels that are not numbers or text (intervals, periods, pairs, dates with a zone), as text."""
    if "obs" not in group.coords:
        return group
    labels = np.asarray(group["obs"].to_index().to_numpy())
    plain = labels.dtype.kind in "iufUT" or all(isinstance(v, str) for v in labels)
    return group.drop_vars(set(group.coords) - set(group.dims)).assign_coords(
        obs=labels if plain else [str(v) for v in labels]
    )


def _moments_group(moments: Moments) -> Any:
    arrays = {
        k: v for k, v in moments.to_arrays().items() if v.ndim and k != "columns"
    }  # which the recipe names
    return _group({f"{_MOMENTS}{k}": v for k, v in arrays.items()})


def _group(parts: Mapping[str, Any]) -> Any:
    """Arrays without labels: an axis is named by its length, since a name of its own takes more bytes than a small array."""
    import xarray as xr

    arrays = {name: np.asarray(values) for name, values in parts.items()}
    return xr.Dataset({name: (_axis_names(a.shape), a) for name, a in arrays.items()})


def _axis_names(shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of axes, a second one of the same length with its number."""
    return tuple(
        f"n{size}" + "_" * shape[:i].count(size) for i, size in enumerate(shape)
    )


def _frame_of(moments: Mapping[str, Any], intercept: int | None) -> Frame:
    """The frame of least squares, which files with moments do not repeat."""
    mean, scale = (np.asarray(moments[f"{_MOMENTS}{k}"]) for k in ("mean", "scale"))
    return Frame.of(mean, scale, intercept)


def _solution_group(
    s: Solution, remade: bool, moments: Any, intercept: int | None
) -> Any:
    # one nan where no parameter has a standard error: columns may be thousands
    scale = s.scale if s.conditional is None else s.conditional
    if isinstance(scale, NoCovariance):
        arrays = {"": np.array(np.nan)}
    else:
        arrays = scale.arrays()
    if moments is not None and scale.frame.equals(_frame_of(moments, intercept)):
        arrays.pop("frame", None)
    scale_parts: dict[str, Any] = {
        f"{_FACTOR}{k}" if k else "scale": v for k, v in arrays.items()
    }
    parts = {"beta": s.beta} | scale_parts
    parts |= (
        {}
        if s.conditional is None
        else {f"{_JOINT}{k}": v for k, v in s.scale.arrays().items()}
    )
    parts |= (
        {}
        if s.not_estimable is None
        else {"not_estimable": s.not_estimable.astype(np.int8)}
    )
    parts |= {} if s.null_space is None else {"null_space": s.null_space}
    parts |= (
        {}
        if s.replicates is None
        else {f"{_REPLICATE}{k}": v for k, v in s.replicates.items()}
    )
    if s.draws is not None and s.draws.marginals is not None:
        parts |= {f"{_MARGINAL}{k}": v for k, v in s.draws.marginals.items()}
    if remade:
        parts |= {f"{_MADE_OF}{k}": v for k, v in (s.posterior.made_of or {}).items()}
    return _group(parts)


def _read_covariance(
    numbers: Mapping[str, np.ndarray], model: Model, further: Any
) -> ParameterCovariance:
    """The covariance of the parameters. DataError where parts are missing, or are of other parameters."""
    parts = {
        name.removeprefix(_FACTOR): v
        for name, v in numbers.items()
        if name.startswith(_FACTOR)
    }
    if not isinstance(further, list) or not all(
        isinstance(name, str) for name in further
    ):
        raise DataError(
            f"its names of further parameters are {further!r:.60}, and a list of texts belongs there"
        )
    if ("scale" in numbers) == bool(parts):
        raise DataError("it does not hold one covariance of its parameters")
    if not parts and not numbers["scale"].ndim:
        return NoCovariance.of(*model.shape, tuple(further))
    raw = Frame.of_raw(model.shape[0])
    if not parts:  # of files of an earlier version
        return DenseCovariance.of_matrix(raw, model.shape[1], numbers["scale"])
    kept = model.design.kept
    intercept = model.design.intercept
    if "frame" not in parts:
        of_moments = "root" in parts and isinstance(kept, Moments)
        frame = raw
        if of_moments:
            frame = Frame.of(kept.mean, kept.scale, intercept)  # type: ignore[union-attr]
        parts["frame"] = np.stack([frame.shift, frame.scale])
    return ParameterCovariance.from_arrays(
        parts, model.shape[1], intercept, tuple(further)
    )


def _read_joint_covariance(
    numbers: Mapping[str, np.ndarray], model: Model, further: Any
) -> ParameterCovariance | None:
    """The covariance that counts the errors of scales; None where the file has none."""
    parts = {
        name.removeprefix(_JOINT): v
        for name, v in numbers.items()
        if name.startswith(_JOINT)
    }
    if not parts:
        return None
    return ParameterCovariance.from_arrays(
        parts, model.shape[1], model.design.intercept, tuple(further)
    )


def _spec(
    model: Model, method: Method, solution: Solution, seed: int
) -> dict[str, Any]:
    from probreg import __version__

    d = model.design
    draws = solution.draws
    if draws is None:
        hyper = {}
    else:
        hyper = {
            k: (float(draws[k].mean()), float(draws[k].std())) for k in draws.hyper
        }
    return {
        "format": _FORMAT,
        "version": __version__,
        "likelihood": LIKELIHOODS.to_spec(model.likelihood),
        "prior": _prior_spec(model),
        "aux": {k: _aux_spec(v) for k, v in model.aux.items()},
        "method": METHODS.to_spec(method),
        "design": {
            "recipe": d.recipe.to_json(),
            "response": d.response,
            "free": d.free.tolist(),
            "offset": d.offset is not None,
            "weights": d.weight_kind,
            "notes": list(d.notes),
            "of_moments": d.of_moments,
        },
        "solution": {
            "aux": dict(solution.aux),
            "aux_sd": dict(solution.aux_sd),
            "hyper": {k: mean for k, (mean, _) in hyper.items()},
            "hyper_sd": {k: sd for k, (_, sd) in hyper.items()},
            "df": solution.df,
            "known_marginals": not has_nonsmooth_terms(model)
            if draws is None
            else draws.elliptical,
            "status": solution.status.name,
            "detail": solution.detail,
            "engine": "" if draws is None else draws.engine,
            "sandwich": solution.sandwich,
            "further": list(solution.scale.further),
            "stats": dict(solution.stats),
            "notes": list(solution.notes),
            "routine": [isinstance(note, Routine) for note in solution.notes],
            "draws": None
            if draws is None
            else [k for k in draws.values if k != "beta"],
            "sample_stats": [] if draws is None else list(draws.stats),
            "replicates": None
            if solution.replicates is None
            else list(solution.replicates),
            **(
                {}
                if solution.scales is None
                else {"scales": _found_spec(solution.scales, model)}
            ),
        },
        "seed": int(seed),
    } | (
        {"scales_compared": int(model.scales_compared)} if model.scales_compared else {}
    )


def _prior_spec(model: Model) -> Any:
    if isinstance(model.prior, Prior):
        return PRIORS.to_spec(model.prior)
    return {
        "columns": [
            [k if isinstance(k, str) else list(k), _spec_of(v)]
            for k, v in model.prior.items()
        ]
    }


def _spec_of(prior: Prior) -> Any:
    """One prior, or a list of those of linear predictors."""
    if isinstance(prior, PerPredictor):
        return list(map(PRIORS.to_spec, prior.priors))
    return PRIORS.to_spec(prior)


def _found_spec(found: FoundScales, model: Model) -> dict[str, Any]:
    """Scales at the top of the evidence, and the stated model: its priors, and its recipe where hyperparameters move columns."""
    recipe = found.stated.design.recipe
    moved = any(
        model.design.recipe.processes[k].basis is not t.basis
        for k, t in recipe.processes.items()
    )
    return {
        **({"recipe": recipe.to_json()} if moved else {}),
        "prior": _prior_spec(found.stated),
        "aux": {k: _aux_spec(v) for k, v in found.stated.aux.items()},
        "criterion": found.criterion,
        "theta": found.theta.tolist(),
        "hessian": found.hessian.ravel().tolist(),
        "value": found.value,
        "vanished": found.vanished.tolist(),
        "plain": found.plain,
        "points": found.points,
    }


def _read_found_scales(
    spec: Mapping[str, Any], model: Model, file: Container
) -> FoundScales:
    """DataError for one whose parts do not belong together."""
    for path, kind in checks.FOUND.items():
        checks.field_of(spec, path, kind)
    d = len(spec["theta"])
    if "recipe" in spec:
        design = _stated_design(
            recipe_from_json(_with_arrays(spec["recipe"], file)), model
        )
    else:
        design = model.design
    aux = {k: _aux_of(v) for k, v in spec["aux"].items()}
    stated = replace(model, design=design, prior=_read_prior(spec["prior"]), aux=aux)
    known = number_of_scales(stated)
    if known > d or len(spec["hessian"]) != d * d or len(spec["vanished"]) != d:
        raise DataError(
            f"its scales found by evidence are {d} numbers, and the stated model has {known} unknown"
        )
    theta = np.array(spec["theta"], dtype=float)
    hessian = np.array(spec["hessian"], dtype=float).reshape(d, d)
    vanished = np.array(spec["vanished"], dtype=bool)
    points = spec.get("points", 1)
    hessian_of = partial(np.array, hessian)
    return FoundScales(
        stated,
        spec["criterion"],
        theta,
        hessian_of,
        spec["value"],
        vanished,
        spec["plain"],
        points,
    )


def _stated_design(recipe: ColumnRecipe, model: Model) -> Design:
    """The design of the fit with the columns of the stated model, where the bases of its processes were others."""
    design = model.design
    if design.n:
        for key, term in recipe.processes.items():
            design = design.with_basis(key, term.basis)
        return design
    place = {c: bool(f) for c, f in zip(design.columns, design.free)}
    free = np.array([place.get(c, False) for c in recipe.columns], dtype=bool)
    X = np.zeros((0, len(recipe.columns)))
    return replace(
        design,
        X=X,
        columns=tuple(recipe.columns),
        free=free,
        recipe=recipe,
        kept=None,
        kept_by_trials=None,
    )


def _model(spec: Mapping[str, Any], file: Container) -> Model:
    d = spec["design"]
    likelihood = LIKELIHOODS.from_spec(spec["likelihood"])
    recipe = recipe_from_json(d["recipe"])
    p = len(recipe.columns)
    if len(d["free"]) != p:
        raise DataError(
            f"it has {len(d['free'])} marks of free columns for {p} columns"
        )
    sizes = {"p": p, "m": likelihood.width, "q": p + 1}
    if "rows" in file:
        rows = read_arrays(file, "rows", row_lines(recipe), sizes)
    else:
        rows = {}
    if rows:
        # DataError unless y are codes of the levels, or numbers or counts that the likelihood takes.
        y = rows["y"]
        if not likelihood.levels or isinstance(likelihood, OfTrials):
            likelihood.encode(y)
        elif y.ndim > 1 or not np.isin(y, range(len(likelihood.levels))).all():
            raise DataError(
                f"rows/y holds other values than the codes 0 to {len(likelihood.levels) - 1} of its levels"
            )
    by_group = not rows and _BY_GROUP in file
    if by_group:
        head = p - sum(len(term.columns) for term in recipe.grouped.values())
    else:
        head = p
    sizes_of_head = {**sizes, "p": head, "q": head + 1}
    plain, by_trials = (
        None
        if rows or name not in file
        else _read_moments(spec, file, name, recipe.columns[:head], sizes_of_head)
        for name in ("moments", "moments_by_trials")
    )
    moments: AnyMoments | None = plain
    if by_group and plain is not None and (terms := tuple(recipe.grouped.values())):
        arrays = read_arrays(
            file, _BY_GROUP, checks.BY_GROUP, {"v": p - head, "h": head + 1}
        )
        moments = arrow_moments_of(arrays, plain, terms)
    no_offset = np.zeros((0, 1)) if d["offset"] else None
    design = Design(
        X=rows.get("X", np.zeros((0, p))),
        y=rows.get("y", np.zeros(0)),
        columns=tuple(recipe.columns),
        free=np.array(d["free"], dtype=bool),
        recipe=recipe,
        response=d["response"],
        offset=rows.get("offset", no_offset),
        weights=rows.get("weights"),
        precision=rows.get("precision"),
        weight_kind=d["weights"],
        unused=_read_unused_rows(rows, recipe),
        inputs=_inputs_from(recipe, rows),
        read=read_columns_back(file, d.get("read", []), sizes) if rows else {},
        notes=tuple(d["notes"]),
        of_moments=d.get("of_moments") is True,
        kept=moments,
        kept_by_trials=by_trials,
    )
    aux = {k: _aux_of(v) for k, v in spec["aux"].items()}
    compared = spec.get("scales_compared", 0)
    if type(compared) is not int or compared < 0:
        raise DataError(f"its number of scales compared is {compared!r}")
    return Model(design, likelihood, _read_prior(spec["prior"]), aux, compared)


def _aux_spec(value: float | AuxPrior) -> Any:
    if isinstance(value, AuxPrior):
        return AUX_PRIORS.to_spec(value)
    if isinstance(value, FoundValue):
        return {"found": float(value)}
    return float(value)


def _aux_of(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    if set(spec) == {"found"}:
        return FoundValue(spec["found"])
    return AUX_PRIORS.from_spec(spec)


def _read_moments(
    spec: Mapping[str, Any],
    file: Container,
    group: str,
    columns: tuple[str, ...],
    sizes: dict[str, int],
) -> Moments:
    """Moments with their counts, which are numbers of the specification; arrays in files of format 2."""
    found = {
        k.removeprefix(_MOMENTS): v
        for k, v in read_arrays(file, group, MOMENTS, sizes).items()
    }
    if spec["format"] > 2:
        found |= {
            k: np.array(checks.field_of(spec, f"sums.{group}.{k}", kind), dtype=float)
            for k, kind in COUNTS.items()
        }
    lost = [k for k in COUNTS if k not in found]
    if lost:
        raise DataError(f"{group} hold no {lost[0]}")
    return Moments.from_arrays(found | {"columns": np.array(columns)})


def row_lines(recipe: ColumnRecipe) -> tuple[Stored, ...]:
    """The arrays of rows, with the inputs of each process and smooth function: d columns of its own.

    The basis of a process may be made of its inputs, so that these are there; smooth functions do without.
    """
    each = [
        (i, _input_width(recipe, key), key in recipe.smooths)
        for i, key in enumerate(_term_keys(recipe))
    ]
    own = [
        Stored(f"{_INPUTS}{i}", (f"n {d}",), checks.FINITE, optional=smooth)
        for i, d, smooth in each
    ]
    left = [
        Stored(f"{_UNUSED}{_INPUTS}{i}", (f"u {d}",), checks.FINITE, optional=True)
        for i, d, _ in each
    ]
    return (*ROWS, *own, *left)


def _read_unused_rows(
    rows: Mapping[str, np.ndarray], recipe: ColumnRecipe
) -> Unused | None:
    """The rows of weight 0, where some were saved. DataError for a place that is not among the rows of the data."""
    every = {
        k.removeprefix(_UNUSED): v for k, v in rows.items() if k.startswith(_UNUSED)
    }
    parts: dict[str, Any] = {
        k: v for k, v in every.items() if not k.startswith(_INPUTS)
    }
    if not parts:
        return None
    if "X" not in parts or "places" not in parts:
        raise DataError("its rows of weight 0 lack their places, or their columns")
    places = parts["places"].astype(int)
    whole = len(rows["X"]) + len(parts["X"])
    if (
        len(set(places.tolist())) < len(places)
        or (places >= whole).any()
        or (np.diff(places) < 0).any()
    ):
        raise DataError(
            f"its rows of weight 0 are not at different places, in order, of {whole} rows"
        )
    return Unused(
        **parts | {"places": places, "inputs": _inputs_from(recipe, rows, _UNUSED)}
    )


def _read_prior(spec: Mapping[str, Any]) -> Prior | dict[Key, Prior]:
    if "columns" not in spec:
        return PRIORS.from_spec(spec)
    return {
        k if isinstance(k, str) else tuple(k): PerPredictor(
            tuple(map(PRIORS.from_spec, v))
        )
        if isinstance(v, list)
        else PRIORS.from_spec(v)
        for k, v in spec["columns"]
    }


def _read_solution(
    spec: Mapping[str, Any], file: Container, model: Model, method: Method
) -> Solution:
    s, (p, m) = spec["solution"], model.shape
    sizes = {"p": p, "m": m, "k": p * m, "o": len(model.likelihood.outcomes) or 1}
    numbers = read_arrays(file, "solution", SOLUTION, sizes)
    marks = s.get("routine", [])  # files of an earlier version have none
    scale = _read_covariance(numbers, model, s.get("further", []))
    replicates = None
    if s["replicates"] is not None:
        replicates = read_arrays(
            file,
            "solution",
            stored_lines(s["replicates"], REPLICATES),
            sizes,
            prefix=_REPLICATE,
        )
    out = Solution(
        beta=numbers["beta"],
        scale=scale
        if (joint := _read_joint_covariance(numbers, model, s.get("further", [])))
        is None
        else joint,
        conditional=None if joint is None else scale,
        df=s["df"],
        aux=s["aux"],
        aux_sd=s["aux_sd"],
        not_estimable=numbers["not_estimable"].astype(bool)
        if "not_estimable" in numbers
        else None,
        null_space=numbers.get("null_space"),
        sandwich=s["sandwich"],
        draws=None
        if s["draws"] is None
        else _read_draws(spec, file, model, method, sizes, numbers),
        replicates=replicates,
        scales=_read_found_scales(s["scales"], model, file)
        if s.get("scales") is not None
        else None,
        status=_status(s["status"]),
        detail=s["detail"],
        stats=s["stats"],
        notes=tuple(
            Routine(note) if of else note
            for note, of in zip(s["notes"], [*marks, *[False] * len(s["notes"])])
        ),
    )
    _check_solution(out, model, method)
    return out


def _read_draws(
    spec: Mapping[str, Any], file: Container, model: Model, method: Method, sizes: dict[str, int],
    numbers: Mapping[str, np.ndarray],
) -> Draws:  # fmt: skip
    """Return the draws in the file, or rebuild them from its description and from the exact marginals of the
    solution."""
    s = spec["solution"]
    made_of = {
        k.removeprefix(_MADE_OF): v
        for k, v in numbers.items()
        if k.startswith(_MADE_OF)
    }
    if made_of:
        return _checked_remade(spec, model, method, numbers["beta"], made_of)
    reported = sizes | {"p": len(model.design.head)}
    values = read_arrays(
        file, "posterior", stored_lines(["beta", *s["draws"]], DRAWS), reported
    )
    values["beta"] = _with_effects(
        file, model, coefficients_of_reported(model, values["beta"]), reported
    )
    sizes |= {letter: reported[letter] for letter in "cd"}
    lines = stored_lines(s["sample_stats"], SAMPLE_STATS)
    if lines:
        found = read_arrays(file, "sample_stats", lines, sizes)
    else:
        found = {}
    stats = {
        k: v.astype(bool) if line.values is checks.TRUTHS else v
        for line, (k, v) in zip(lines, found.items())
    }
    marginals = {
        k.removeprefix(_MARGINAL): v
        for k, v in numbers.items()
        if k.startswith(_MARGINAL)
    }
    return Draws(
        values,
        stats,
        tuple(s["hyper"]),
        s["known_marginals"],
        marginals or None,
        s["engine"],
    )


def _with_effects(
    file: Container, model: Model, head: np.ndarray, sizes: Mapping[str, int]
) -> np.ndarray:
    """Draws (c, d, p, m) of all coefficients, of those in the head and of the effects of groups, which stand under their own names."""
    if not has_effects(model):
        return head
    beta = np.zeros((*head.shape[:2], *model.shape))
    beta[:, :, model.design.head] = head
    for name, of in effects_of_groups(model).items():
        here = dict(sizes) | dict(zip("GK", of.columns.shape))
        line = Stored(f"effects[{name}]", ("c d G K", "c d G K o"), checks.FINITE)
        drawn = read_arrays(file, "posterior", (line,), here)[line.name]
        flat = drawn.reshape(*drawn.shape[:2], of.columns.size, *drawn.shape[4:])
        beta[:, :, of.columns.ravel()] = coefficients_of_reported(model, flat)
    return beta


def _checked_remade(
    spec: Mapping[str, Any],
    model: Model,
    method: Method,
    estimate: np.ndarray,
    made_of: Mapping[str, np.ndarray],
) -> Draws:
    """Draws made again. DataError where they would be more than a gigabyte, or parts of what they are made of are missing."""
    asked = spec["method"]
    size = (
        float(asked.get("draws", 1))
        * float(asked.get("chains", 1))
        * max(estimate.size, 1)
    )
    if size > _MOST:
        raise DataError(
            f"its draws would be {size:.3g} numbers, and at most {_MOST:,} are made again"
        )
    try:
        made = _redraw(model, method, estimate, made_of, spec["seed"])
        return replace(made, hyper=tuple(spec["solution"]["hyper"]))
    except (KeyError, ValueError) as error:
        raise DataError(
            f"the draws of {method.name} cannot be made of {', '.join(made_of)}: {error}"
        ) from None


def _status(name: str) -> Status:
    if name not in Status.__members__:
        raise DataError(
            f"its status is {name!r:.40}, and one of {', '.join(Status.__members__)} belongs there"
        )
    return Status[name]


def _check_solution(s: Solution, model: Model, method: Method) -> None:
    """DataError where parts of a solution, each of its kind, do not belong together."""
    if method.target == "posterior" and s.draws is None:
        raise DataError(f"it holds no draws, and {method.name} draws from a posterior")
    if method.target != "posterior" and s.draws is not None:
        raise DataError(f"it holds draws, and {method.name} gives a point estimate")
    for name in model.unknown:
        if (
            method.probabilities
            and s.status is not Status.NO_MAXIMUM
            and name not in s.aux
        ):
            raise DataError(f"it holds no estimate of {name}, which is unknown")
        if s.draws is not None and name not in s.draws.values:
            raise DataError(f"it holds no draws of {name}, which is unknown")
    if s.draws is not None:
        _check_draws(s.draws)
    odd = (set(s.aux) | set(s.aux_sd)) - set(model.unknown)
    if odd:
        raise DataError(
            f"it holds an estimate of {odd.pop()!r}, which is no unknown parameter of its model"
        )
    if s.not_estimable is None and not np.isfinite(s.beta).all():
        raise DataError(
            "its coefficients are not finite, and none is marked as one without an estimate"
        )
    if s.replicates is not None and (
        lost := {"coef", *model.unknown} - set(s.replicates)
    ):
        raise DataError(f"its replicates hold no {lost.pop()}")
    needed = {
        "failed": s.replicates is not None,
        "rss": s.df is not None and s.draws is None,
    }
    needed["sigma2_scale"] = s.df is not None and s.draws is not None
    for name, asked in needed.items():
        if asked and not checks.SCALE.holds(s.stats.get(name)):
            raise DataError(
                f"its solution.stats hold {s.stats.get(name)!r} as {name!r}, and {checks.SCALE.words} belongs there"
            )


def _check_draws(draws: Draws) -> None:
    """DataError where exact marginals lack a part, or a scale of a prior has no draws."""
    if draws.marginals is not None and not {"weight", "mean", "sd"} <= set(
        draws.marginals
    ):
        raise DataError(f"of its marginals it holds {', '.join(draws.marginals)} only")
    lost = set(draws.hyper) - set(draws.values)
    if lost:
        raise DataError(f"it holds no draws of {lost.pop()}, the scale of a prior")
