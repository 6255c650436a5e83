"""Read a fit from a file: every field and array is checked against the schema, and names are looked up in registries."""

import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from probreg.data import AbsentRows, AnyMoments, ColumnRecipe, Design, Moments
from probreg.data.array_columns import recipe_from_json
from probreg.data.formula.parameters import ParameterRecipe
from probreg.data.grouped_moments import SUMS_BY_GROUP, arrow_moments_of
from probreg.data.moments import MOMENT_ARRAYS
from probreg.errors import DataError, ProbregError
from probreg.fits.storage.schema import (
    ANY,
    COVARIANCE,
    FINITE,
    ROWS,
    SCALE as SCALE_KIND,
    SOLUTION,
    ArraySpec,
    Container,
    check_specification,
    decode_columns,
    read_arrays,
    read_verified,
    replicate_arrays,
)
from probreg.fits.storage.write import (
    ARRAY,
    INPUTS,
    JOINT,
    MARGINAL,
    REPLICATE,
    SCALE,
    SPECIFICATION,
    term_keys,
)
from probreg.inference import METHODS, Draws, Method, Solution, Status
from probreg.inference.base import coefficients_of_reported, has_effects, log_names
from probreg.inference.covariance import NoCovariance, ParameterCovariance
from probreg.inference.status import Note, Severity, Topic
from probreg.inference.varying import FoundScales, effects_of_groups, number_of_scales
from probreg.likelihoods import LIKELIHOODS, Likelihood, OfTrials
from probreg.likelihoods.distributional import with_predictors
from probreg.model.found import FoundValue
from probreg.model.model import Model
from probreg.model.term_priors import plain_name
from probreg.priors import AUX_PRIORS, PRIORS, Prior
from probreg.priors.joint import Key, PerPredictor
from probreg.system.disk import read_plain

_BOOLEAN_STATS = ("diverging", "reached_max_treedepth")


def read_fit(path: Any) -> tuple[Model, Method, Solution, int]:
    """Return the model, method, solution and seed of a saved fit.

    DataError if the file is missing, is not a saved fit, or is damaged.
    """
    image = read_verified(read_plain(path), str(path))
    try:
        with closing(Container(image)) as file:
            text = file.text(SPECIFICATION)
            check_specification(json.loads(text))
            spec = json.loads(text, object_hook=partial(_restore_array, file))
            model = _read_model(spec, file)
            method = METHODS.from_spec(spec["method"])
            solution = _read_solution(spec["solution"], file, model)
            _check_solution(solution, model, method)
            return model, method, solution, spec["seed"]
    except ProbregError as error:
        raise DataError(
            f"{path} is not a fit that this version reads: {error}"
        ) from None
    except Exception as error:  # a forged file can fail at any step
        raise DataError(
            f"{path} is not a fit that this version reads: {type(error).__name__} {error}"
        ) from error


def _restore_array(file: Container, table: dict[str, Any]) -> Any:
    """Return the array that a JSON table refers to; return any other table unchanged."""
    if set(table) != {ARRAY}:
        return table
    values = file.array("arrays", str(table[ARRAY]))
    if not FINITE.accepts(values):
        raise DataError(f"arrays/{table[ARRAY]}: expected {FINITE.description}")
    return values


# ---- the model -----------------------------------------------------------------------------------------------------


def _read_model(spec: Mapping[str, Any], file: Container) -> Model:
    d = spec["design"]
    likelihood = LIKELIHOODS.from_spec(spec["likelihood"])
    recipe = recipe_from_json(d["recipe"])
    if isinstance(recipe, ParameterRecipe):
        likelihood = with_predictors(likelihood, tuple(recipe.parameters))
    p = len(recipe.columns)
    sizes = {"p": p, "m": likelihood.width}
    rows: dict[str, Any] = {}
    read: dict[str, Any] = {}
    moments: AnyMoments | None = None
    by_trials: Moments | None = None
    if "rows" in file:
        rows = read_arrays(file, "rows", _row_specs(recipe), sizes)
        read = decode_columns(d["read"], len(rows["X"]))
        _check_response(rows["y"], likelihood)
    else:
        moments = _read_moments(file, recipe)
        by_trials = _read_plain_moments(file, "moments_by_trials", recipe.columns)
    design = Design(
        X=recipe.assign_predictors(rows.get("X", np.zeros((0, p)))),
        y=rows.get("y", np.zeros(0)),
        columns=tuple(recipe.columns),
        recipe=recipe,
        response=d["response"],
        offset=rows.get(
            "offset", np.zeros((0, int(d["offset"]))) if d["offset"] else None
        ),
        weights=rows.get("weights"),
        precision=rows.get("precision"),
        weight_kind=d["weights"],
        inputs=_read_inputs(recipe, rows),
        read=read,
        notes=tuple(d["notes"]),
        of_moments=d["of_moments"],
        kept=moments,
        kept_by_trials=by_trials,
        **_read_labels(d.get("labels", []), rows),
    )
    prior = _read_prior(spec["prior"])
    aux = {k: _read_aux(v) for k, v in spec["aux"].items()}
    return Model(design, likelihood, prior, aux, spec["scales_compared"])


def _check_response(y: np.ndarray, likelihood: Likelihood) -> None:
    """Raise DataError unless y are codes of the levels, or numbers or counts in the likelihood's support."""
    levels = likelihood.levels
    if not levels or isinstance(likelihood, OfTrials):
        likelihood.encode(y)
    elif y.ndim > 1 or not np.isin(y, range(len(levels))).all():
        raise DataError(f"rows/y: expected codes of levels, 0 to {len(levels) - 1}")


def _read_moments(file: Container, recipe: ColumnRecipe) -> AnyMoments | None:
    terms = tuple(recipe.grouped.values())
    if "moments_by_group" not in file or not terms:
        return _read_plain_moments(file, "moments", recipe.columns)
    p = len(recipe.columns) - sum(len(term.columns) for term in terms)
    head = _read_plain_moments(file, "moments", recipe.columns[:p])
    if head is None:
        raise DataError("it has no group 'moments'")
    arrays = {name: file.array("moments_by_group", name) for name in SUMS_BY_GROUP}
    return arrow_moments_of(arrays, head, terms)


def _read_plain_moments(
    file: Container, group: str, columns: tuple[str, ...]
) -> Moments | None:
    if group not in file:
        return None
    arrays: dict[str, Any] = {
        name: file.array(group, name) for name in MOMENT_ARRAYS if name != "columns"
    }
    return Moments.from_arrays(arrays | {"columns": columns})


def _row_specs(recipe: ColumnRecipe) -> list[ArraySpec]:
    """Return the arrays of rows, with the inputs of each term; inputs of a process are required, because its basis may need them."""
    specs = list(ROWS)
    for i, key in enumerate(term_keys(recipe)):
        if key in recipe.grouped:
            width = 1 + recipe.grouped[key].shape[1]  # the group, and z (K,)
        else:
            width = len(recipe.input_names[key])
        optional = key in recipe.smooths
        specs.append(ArraySpec(f"{INPUTS}{i}", (f"n {width}",), FINITE, optional))
    return specs


def _read_inputs(
    recipe: ColumnRecipe, rows: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    inputs = {}
    for i, key in enumerate(term_keys(recipe)):
        values = rows.get(f"{INPUTS}{i}")
        if values is None:
            continue
        inputs[key] = values
        if key in recipe.grouped:
            codes = values[:, 0]
            if not ((codes >= 0) & (codes % 1 == 0)).all():
                raise DataError(f"groups of {key}: expected whole numbers, 0 or more")
    return inputs


def _read_labels(
    tables: list[dict[str, Any]], rows: Mapping[str, np.ndarray]
) -> dict[str, Any]:
    """Return the `labels` of the rows, and the `absent` rows of weight 0 with theirs, where the file has them.

    DataError unless positions of absent rows are distinct, in order, and within the data.
    """
    if "X" not in rows:
        return {}
    places = rows.get("absent", np.zeros(0)).astype(int)
    n = len(rows["X"]) + len(places)
    if (places >= n).any() or (np.diff(places) <= 0).any():
        raise DataError(
            f"places of rows of weight 0: expected increasing numbers below {n}"
        )
    labels = None
    for name, values in decode_columns(tables, n).items():
        labels = values
        if re.fullmatch(r"(datetime|timedelta)64\[([unm]?s|[DhmMWY])\]", name):
            labels = values.astype(np.int64).view(name)
        elif name != "labels":
            raise DataError(f"labels of rows as {name!r:.40}: expected dates or times")
    absent = AbsentRows(places, None if labels is None else labels[places])
    return {
        "labels": None if labels is None else np.delete(labels, places),
        "absent": absent if len(places) else None,
    }


def _read_prior(spec: Mapping[str, Any]) -> Prior | dict[Key, Prior]:
    if "columns" not in spec:
        return PRIORS.from_spec(spec)
    priors: dict[Key, Prior] = {}
    for key, prior in spec["columns"]:
        name = key if isinstance(key, str) else tuple(key)
        if isinstance(prior, list):
            priors[name] = PerPredictor(tuple(map(PRIORS.from_spec, prior)))
        else:
            priors[name] = PRIORS.from_spec(prior)
    return priors


def _read_aux(spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    if set(spec) == {"found"}:
        return FoundValue(spec["found"])
    return AUX_PRIORS.from_spec(spec)


# ---- the solution --------------------------------------------------------------------------------------------------


def _read_solution(s: Mapping[str, Any], file: Container, model: Model) -> Solution:
    p, m = model.shape
    outcomes = len(model.likelihood.outcomes) or 1
    sizes = {"p": p, "m": m, "k": p * m, "o": outcomes}
    arrays = read_arrays(file, "solution", SOLUTION, sizes)
    not_estimable = arrays.get("not_estimable")
    if not_estimable is not None:
        not_estimable = not_estimable.astype(bool)
    replicates = None
    if s["replicates"] is not None:
        specs = replicate_arrays(s["replicates"])
        replicates = read_arrays(file, "solution", specs, sizes, prefix=REPLICATE)
    joint = _read_covariance(JOINT, file, model, s["further"], sizes)
    given = s["further"]
    if joint is not None:  # nuisance parameters that were estimated with scales
        given = [name for name in given if name in log_names(model)]
    scale = _read_covariance(SCALE, file, model, given, sizes)
    if joint is None:
        conditional = None
        covariance = scale or NoCovariance.of(p, m, tuple(s["further"]))
    else:
        conditional = scale
        covariance = joint
    if s["status"] not in Status.__members__:
        raise DataError(f"status {s['status']!r:.40}: expected a name of Status")
    if not len(s["notes"]) == len(s["note_topics"]) == len(s["note_severities"]):
        raise DataError("the notes, their topics and severities differ in length")
    notes = [
        Note(Topic[topic], text, severity=Severity[severity])
        for text, topic, severity in zip(
            s["notes"], s["note_topics"], s["note_severities"]
        )
    ]
    return Solution(
        beta=arrays["beta"],
        scale=covariance,
        conditional=conditional,
        df=s["df"],
        aux=s["aux"],
        not_estimable=not_estimable,
        null_space=arrays.get("null_space"),
        sandwich=s["sandwich"],
        draws=_read_draws(s["draws"], file, model, arrays, s["aux_sd"]),
        replicates=replicates,
        scales=_read_scales(s["scales"], model, Status[s["status"]]),
        status=Status[s["status"]],
        detail=s["detail"],
        stats=s["stats"],
        notes=tuple(notes),
    )


def _read_covariance(
    prefix: str,
    file: Container,
    model: Model,
    further: list[str],
    sizes: Mapping[str, int],
) -> ParameterCovariance | None:
    arrays = read_arrays(file, "solution", COVARIANCE, dict(sizes), prefix=prefix)
    if not arrays:
        return None
    return ParameterCovariance.from_arrays(
        arrays, model.shape[1], model.design.intercepts, tuple(further)
    )


def _read_draws(
    s: Mapping[str, Any] | None,
    file: Container,
    model: Model,
    arrays: Mapping[str, np.ndarray],
    aux_sd: Mapping[str, float],
) -> Draws | None:
    if s is None:
        return None
    outcomes = len(model.likelihood.outcomes) or 1
    sizes = {"p": len(model.design.ungrouped), "o": outcomes}
    specs = [ArraySpec("beta", ("c d p", "c d p o"), FINITE)]
    specs += [ArraySpec(name, ("c d",), FINITE) for name in s["values"]]
    values = read_arrays(file, "posterior", specs, sizes)
    head = coefficients_of_reported(model, values["beta"])
    values["beta"] = _with_effects(file, model, head, sizes)
    stats = {}
    if s["stats"]:
        specs = [ArraySpec(name, ("c d",), ANY) for name in s["stats"]]
        stats = read_arrays(file, "sample_stats", specs, sizes)
    for name in _BOOLEAN_STATS:
        if name in stats:
            stats[name] = stats[name].astype(bool)
    marginals = {
        name.removeprefix(MARGINAL): v
        for name, v in arrays.items()
        if name.startswith(MARGINAL)
    }
    if marginals and not {"weight", "mean", "sd"} <= set(marginals):
        raise DataError(f"its marginals hold only {', '.join(marginals)}")
    missing = set(s["hyper"]) - set(values)
    if missing:
        raise DataError(f"it holds no draws of {missing.pop()}, the scale of a prior")
    return Draws(
        values,
        stats,
        tuple(s["hyper"]),
        s["elliptical"],
        marginals or None,
        aux_sd,
    )


def _with_effects(
    file: Container, model: Model, head: np.ndarray, sizes: Mapping[str, int]
) -> np.ndarray:
    """Return draws (c, d, p, m) of all coefficients: the first columns, and the random effects, which are separate variables."""
    if not has_effects(model):
        return head
    beta = np.zeros((*head.shape[:2], *model.shape))
    beta[:, :, model.design.ungrouped] = head
    for name, effects in effects_of_groups(model).items():
        groups, terms = effects.columns.shape
        spec = ArraySpec(
            f"effects[{plain_name(name)}]", ("c d G K", "c d G K o"), FINITE
        )
        shape = {**sizes, "G": groups, "K": terms}
        draws = read_arrays(file, "posterior", (spec,), shape)[spec.name]
        flat = draws.reshape(*draws.shape[:2], groups * terms, *draws.shape[4:])
        beta[:, :, effects.columns.ravel()] = coefficients_of_reported(model, flat)
    return beta


def _read_scales(
    spec: Mapping[str, Any] | None, model: Model, status: Status
) -> FoundScales | None:
    """Return the scales that maximise the evidence. DataError if their number does not match the stated model."""
    if spec is None:
        return None
    if spec["recipe"] is None:
        design = model.design
    else:
        design = _stated_design(recipe_from_json(spec["recipe"]), model)
    aux = {k: _read_aux(v) for k, v in spec["aux"].items()}
    original = replace(model, design=design, prior=_read_prior(spec["prior"]), aux=aux)
    d = len(spec["theta"])
    unknown = number_of_scales(original)
    hessian = np.array(spec["hessian"], dtype=float).reshape(d, d)
    if unknown > d or len(spec["vanished"]) != d:
        raise DataError(
            f"its scales at the maximum of the evidence are {d} numbers: expected {unknown}"
        )
    return FoundScales(
        original,
        spec["criterion"],
        np.array(spec["theta"], dtype=float),
        partial(np.array, hessian),
        spec["value"],
        np.array(spec["vanished"], dtype=bool),
        spec["plain"],
        spec["points"],
        separated=status is Status.NO_MAXIMUM,
    )


def _stated_design(recipe: ColumnRecipe, model: Model) -> Design:
    """Return the design with the columns of the stated model, where processes have another basis."""
    design = model.design
    if design.n:
        for key, term in recipe.processes.items():
            design = design.with_basis(key, term.basis)
        return design
    return replace(
        design,
        X=np.zeros((0, len(recipe.columns))),
        columns=tuple(recipe.columns),
        recipe=recipe,
        kept=None,
        kept_by_trials=None,
    )


def _check_solution(s: Solution, model: Model, method: Method) -> None:
    """Raise DataError if parts of the solution contradict the method or the model."""
    if (method.target == "posterior") != (s.draws is not None):
        raise DataError(f"draws: {method.name} has the target {method.target}")
    for name in model.unknown:
        no_estimate = s.status is Status.NO_MAXIMUM or not method.probabilities
        if name not in s.aux and not no_estimate:
            raise DataError(f"it holds no estimate of {name}, which is unknown")
        if s.draws is not None and name not in s.draws.values:
            raise DataError(f"it holds no draws of {name}, which is unknown")
    exact = set() if s.draws is None else set(s.draws.aux_sd)
    extra = (set(s.aux) | exact) - set(model.unknown)
    if extra:
        raise DataError(
            f"it holds an estimate of {extra.pop()!r}, which its model does not have"
        )
    if s.not_estimable is None and not np.isfinite(s.beta).all():
        raise DataError("its coefficients are not finite, and not marked as such")
    required = set[str]()
    if s.replicates is not None:
        missing = {"coef", *model.unknown} - set(s.replicates)
        if missing:
            raise DataError(f"its replicates hold no {missing.pop()}")
        required.add("failed")
    if s.df is not None:
        required.add("rss" if s.draws is None else "sigma2_scale")
    for name in required:
        if not SCALE_KIND.accepts(s.stats.get(name)):
            raise DataError(
                f"solution.stats.{name} is {s.stats.get(name)!r}: expected {SCALE_KIND.description}"
            )
