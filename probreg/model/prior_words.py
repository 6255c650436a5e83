"""Priors in words: as they were stated, with the columns they are on, for everything that people read.

Summaries, tables, comparisons and reports all say a prior in these words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol

import numpy as np

from probreg.data import Design
from probreg.likelihoods import Likelihood
from probreg.priors import (
    PRIORS,
    AuxPrior,
    Covariance,
    Flat,
    GaussianPrior,
    Prior,
    Reference,
    ScaleMixture,
)
from probreg.priors.gaussian_process import ProcessPrior
from probreg.priors.joint import BlockPrior, JointPrior, columns_called
from probreg.priors.location_scale import LocationScale

_NAMED, _FEW = 12, 3  # columns that are named one by one; under one prior for all
_BLOCKS = 4  # of columns, in one line


class Stated(Protocol):
    """As much of a model as its priors are told from."""

    @property
    def design(self) -> Design: ...

    @property
    def likelihood(self) -> Likelihood: ...

    @property
    def prior(self) -> Prior | Mapping[str | tuple[str, ...], Prior]: ...

    @property
    def joint(self) -> JointPrior: ...

    @property
    def fixed(self) -> Mapping[str, float]: ...

    @property
    def unknown(self) -> tuple[str, ...]: ...

    @property
    def flat(self) -> bool: ...

    def aux_prior(self, name: str) -> AuxPrior: ...


def prior_words(model: Stated) -> str:
    """The prior of the coefficients as it was stated, block by block.

    >>> import probreg as pr
    >>> X, y = [[1.0, 2.0], [2.0, 5.0], [4.0, 3.0]], [1.0, 3.0, 2.0]
    >>> prior_words(pr.Model.from_arrays(X, y, columns=["a", "b"], prior=pr.Normal(2.5)))
    'Normal(2.5) on a, b; flat on Intercept'
    >>> prior_words(pr.Model.from_arrays(X, y, columns=["a", "b"], prior={"a": pr.Normal(1.0, scaled=True)}))
    'Normal(1) in units of sd(y) on standardised a; flat on Intercept, b'
    >>> rows = {"y": y, "g": ["p", "q", "r"]}  # a term stands for its columns
    >>> prior_words(pr.Model.from_formula("y ~ g", rows, prior={"g": pr.Normal(1.0, scaled=True)}))
    'Normal(1) in units of sd(y) on standardised g[T.q], g[T.r]; flat on Intercept'
    """
    blocks = sorted(model.joint.blocks, key=lambda b: isinstance(b.prior, Flat))
    if not model.joint.informative.any():
        return "flat on every column"
    return "; ".join(_of_blocks(model, blocks))


def prior_line(model: Stated) -> str:
    """Describe the priors that are not flat: of coefficients, the first of many, and of nuisance parameters.

    >>> from probreg import Model
    >>> from probreg.priors import HalfNormal, Normal
    >>> prior_line(Model.from_arrays([[1.0], [2.0]], [1.0, 3.0], prior=Normal(2.5, scaled=True)))
    'Normal(2.5) in units of sd(y) on standardised x1'
    >>> prior_line(Model.from_arrays([[1.0], [2.0]], [1.0, 3.0], aux={"sigma": HalfNormal(1.0)}))
    'flat; sigma ~ HalfNormal(1)'
    >>> prior_line(Model.from_arrays([[1.0], [2.0]], [1.0, 3.0], prior=Normal(2.0), aux={"sigma": HalfNormal(1.0)}))
    'Normal(2) on x1; sigma ~ HalfNormal(1)'
    >>> each = {name: Normal(0.5) for name in ("a", "b", "c")} | {"d": Normal(2.0)}
    >>> prior_line(Model.from_arrays(np.eye(6)[:, :4], np.arange(6.0), columns=["a", "b", "c", "d"], prior=each))
    'Normal(0.5) on a, b, c; Normal(2) on d'
    >>> each = {name: Normal(HalfNormal(1.0)) for name in "ab"}  # two unknown scales
    >>> prior_line(Model.from_arrays(np.eye(4)[:, :2], np.arange(4.0), columns=["a", "b"], prior=each))
    'Normal(HalfNormal(1)) on a; Normal(HalfNormal(1)) on b'
    """
    aux = {a: model.aux_prior(a) for a in model.unknown}
    stated = [
        f"{a} ~ {written_prior(v)}"
        for a, v in aux.items()
        if not isinstance(v, Reference)
    ]
    return "; ".join([coefficient_prior_line(model), *stated])


def coefficient_prior_line(model: Stated) -> str:
    """Describe the priors of coefficients that are not flat, the first of many; "flat" for a model without one."""
    told = [b for b in model.joint.blocks if not isinstance(b.prior, Flat)]
    if not told:
        return "flat"
    said = _of_blocks(model, told)
    if len(said) > _BLOCKS:
        more = [f"{len(said) - _BLOCKS} more"]
    else:
        more = []
    return "; ".join([*said[:_BLOCKS], *more])


def _of_blocks(model: Stated, blocks: Sequence[BlockPrior]) -> list[str]:
    """Each block in words; those of one column under equal priors, entry by entry, are one."""
    alike: dict[Any, list[BlockPrior]] = {}
    for i, b in enumerate(_without_copies(blocks)):
        given = _as_stated(model, b)
        alone = len(b.columns) == 1 and model.design.grouped_of(b.columns) is None
        alike.setdefault(
            (given, type(b.prior)) if alone and _one_number(given) else i, []
        ).append(b)
    return [
        _of_block(
            model,
            replace(each[0], columns=tuple(j for b in each for j in b.columns)),
            _as_stated(model, each[0]),
        )
        for each in alike.values()
    ]


def _without_copies(blocks: Sequence[BlockPrior]) -> list[BlockPrior]:
    """The blocks, of those of several linear predictors with one prior the first, without its predictor."""
    out = list[BlockPrior]()
    for b in blocks:
        same = b.predictor is not None and all(
            o.prior == b.prior for o in blocks if o.columns == b.columns
        )
        if not same or b.first:
            out.append(replace(b, predictor=None, outcome="") if same else b)
    return out


def _one_number(prior: Any) -> bool:
    """A prior of one entry, whose settings are numbers: unknown scales are one for each block."""
    if not isinstance(prior, LocationScale) or not is_dataclass(prior):
        return False
    values = [getattr(prior, f.name) for f in fields(prior)]
    return all(np.ndim(v) == 0 and not is_dataclass(v) for v in values)


def _of_block(model: Stated, block: BlockPrior, given: Prior | None) -> str:
    d = model.design
    q = len(block.columns)
    many = q > _NAMED or (q > _FEW and isinstance(model.prior, Prior))
    many = many and not d.of_terms[list(block.columns)].any()
    if getattr(given, "scaled", False) and not isinstance(block.prior, Flat):
        scaled = "standardised "
    else:
        scaled = ""
    if many:
        where = f"{q} {scaled}columns"
    else:
        where = scaled + d.called(block.columns)
    where += "" if block.predictor is None else f"[{block.outcome}]"
    if isinstance(block.prior, Flat):
        return f"flat on {where}"
    if (
        given is not None
        and d.grouped_of(block.columns) is not None
        and (said := _of_effects(given, where))
    ):
        return said
    if getattr(given, "sigma_units", False):
        units = " in units of sigma"
    else:
        units = ""
    if (
        scaled and not units and model.likelihood.noise_scale is not None
    ):  # standardised columns, and response
        units = f" in units of sd({d.response})"
    return f"{_of_prior(block.prior) if given is None else written_prior(given)}{units} on {where}"


def _of_effects(given: Prior, where: str) -> str:
    """Of effects by group, where their scales have no prior, or are held by one of coefficients; empty elsewhere."""
    if given == Covariance():
        return f"scales of {where} estimated, no prior"
    held = isinstance(given, GaussianPrior)
    if held:
        return f"{written_prior(given)} on {where}, which holds their sd"
    return ""


def _as_stated(model: Stated, block: Any) -> Prior | None:
    """The prior that was given for these columns, where one was: those of smooth functions may have their own by default."""
    if (
        model.design.of_terms[list(block.columns)].any()
        and model.design.grouped_of(block.columns) is None
    ):
        return None
    if isinstance(model.prior, Prior):
        return model.prior
    names = tuple(model.design.columns[j] for j in block.columns)
    keys = {
        (key,) if isinstance(key, str) else tuple(key): prior
        for key, prior in model.prior.items()
    }
    if names in keys:
        return keys[names]
    at = tuple(block.columns)  # a term stands for its columns
    return next(
        (
            p
            for key, p in keys.items()
            if len(key) == 1 and columns_called(key[0], model.design.columns) == at
        ),
        None,
    )


_BESIDE = ("scaled", "sigma_units", "precision_matrix")  # said in words


def written_prior(prior: Any) -> str:
    """The call that makes a prior, without the settings that have their default value.

    >>> from probreg.priors import HalfNormal, Normal, StudentT
    >>> written_prior(Normal(HalfNormal(1.0))), written_prior(StudentT(2.5, nu=7.0))
    ('Normal(HalfNormal(1))', 'StudentT(2.5, nu=7)')
    >>> from probreg.priors import Exponential
    >>> written_prior(Exponential(0.5))
    'Exponential(scale=0.5)'
    >>> from probreg.priors import Covariance
    >>> written_prior(Covariance(sd={"Intercept": HalfNormal(5.0), "x": 2.0}))
    'Covariance({Intercept: HalfNormal(5), x: 2})'
    """
    if not is_dataclass(prior):
        return str(prior.name)
    said = []
    leading = (
        0 if getattr(prior, "names_scale", False) else 1
    )  # settings that are written without their name
    for number, f in enumerate(fields(prior)):
        value = getattr(prior, f.name)
        usual = value == f.default and (number or isinstance(f.default, AuxPrior))
        if f.name in _BESIDE or usual or value is None:
            continue
        if f.name == "groups" and not isinstance(value, int):
            said.append(_setting(f.name, value))
            continue
        words = _words_of_setting(value)
        said.append(words if number < leading else f"{f.name}={words}")
    words = f"{type(prior).__name__}({', '.join(said)})"
    return words + (
        " with a precision matrix"
        if getattr(prior, "precision_matrix", None) is not None
        else ""
    )


def _words_of_setting(value: Any) -> str:
    """A prior, a number, or one of these for each effect by its name."""
    if isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in value
    ):
        return (
            "{"
            + ", ".join(f"{name}: {_words_of_setting(each)}" for name, each in value)
            + "}"
        )
    if is_dataclass(value):
        return written_prior(value)
    if isinstance(value, float | int):
        return f"{value:g}"
    return "one per column"


def _of_prior(prior: Prior) -> str:
    """A prior that was not stated column by column: that of a smooth function, or one made of the rows."""
    if isinstance(prior, ScaleMixture):
        return f"{_of_prior(prior.base)} times tau, tau ~ {written_prior(prior.tau)}"
    if isinstance(prior, ProcessPrior):
        unknown = "; ".join(
            f"{name} ~ {written_prior(h.prior)}" for name, h in prior.hyper.items()
        )
        return f"gaussian-process of unknown {unknown}"
    return _describe_spec(PRIORS.to_spec(prior))


def aux_words(model: Stated, name: str) -> str:
    """How a nuisance parameter is treated."""
    if name in model.fixed:
        return f"held at {model.fixed[name]:g}"
    prior: AuxPrior = model.aux_prior(name)
    if isinstance(prior, Reference):
        return f"unknown, p({name}) ∝ 1/{name}"
    return f"unknown, {name} ~ {written_prior(prior)}"


def _describe_spec(spec: dict[str, Any]) -> str:
    if spec.pop("sigma_units", False):
        units = " in units of sigma"
    else:
        units = ""
    spec.pop("scaled", None)
    name = str(spec.pop("name")).replace("_", "-")
    if spec.get("precision_matrix") is None:
        spec.pop("precision_matrix", None)
    else:
        size = len(spec.pop("precision_matrix"))
        spec.pop("scale", None)
        return f"{name} with a precision matrix of {size} x {size}{units}"
    told = [words for key, v in spec.items() if (words := _setting(key, v))]
    return name + (f" with {', '.join(told)}" if told else "") + units


def _setting(key: str, value: Any) -> str:
    """A setting of a prior with its value; nothing for one that is absent, or says what is so without it."""
    if value is None or value is False or (key == "location" and value == 0.0):
        return ""
    said = key.replace("_", " ")
    if value is True:
        return said
    if key == "groups" and isinstance(value, int):
        return f"{value} groups"
    if key == "groups":
        sizes = sorted((len(group) for group in value), reverse=True)
        return f"{len(sizes)} group{'s' * (len(sizes) > 1)} of {', '.join(map(str, sizes))} columns"
    array = np.array(value, dtype=float)
    if array.size > 1 and array.ndim > 1:
        return f"{said} of {' x '.join(map(str, array.shape))}"
    return f"{said} {', '.join(f'{v:g}' for v in array.ravel())}"
