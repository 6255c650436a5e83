"""Descriptions of a model and its priors for prints, summaries, comparisons and reports."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.priors import (
    AuxPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    Normal,
    Prior,
    Reference,
    ScaleMixture,
)
from probreg.priors.gaussian_process import ProcessPrior
from probreg.priors.joint import BlockPrior, columns_called, first_of
from probreg.priors.location_scale import LocationScale
from probreg.priors.text import WEAK, WEAK_FACTOR
from probreg.system.terminal import few_names, shorten_names

# up to this number columns are named one by one; the second limit is for one prior of all columns
_NAMED, _FEW = 12, 3


def prior_line(model: Any) -> str:
    """Describe the priors that are not flat: the first few of coefficients, and the priors of nuisance parameters.

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
    aux_lines = [
        f"{a} ~ {describe_prior(v)}"
        for a, v in aux.items()
        if not isinstance(v, Reference)
    ]
    return "; ".join([coefficient_prior_line(model), *aux_lines])


def coefficient_prior_line(model: Any) -> str:
    """Describe the first few priors of coefficients that are not flat; "flat" if there are none."""
    max_blocks = 4  # of columns, in one line
    groups: dict[Any, list[BlockPrior]] = {}
    for i, b in enumerate(_without_copies(model.joint.blocks)):
        if isinstance(b.prior, Flat):
            continue
        key: Any = i
        prior = _as_stated(model, b)
        is_column = len(b.columns) == 1 and model.design.grouped_of(b.columns) is None
        is_known = not isinstance(b.prior, HierarchicalPrior)
        one_number = isinstance(prior, LocationScale) and prior.size is None
        if is_column and is_known and one_number:  # equal priors share one entry
            key = prior
        groups.setdefault(key, []).append(b)
    texts = []
    for blocks in groups.values():
        columns = tuple(j for b in blocks for j in b.columns)
        prior = _as_stated(model, blocks[0])
        texts.append(_describe_block(model, replace(blocks[0], columns=columns), prior))
    if len(texts) > max_blocks:
        texts[max_blocks:] = [f"{len(texts) - max_blocks} more"]
    return "; ".join(texts) or "flat"


def _without_copies(blocks: Sequence[BlockPrior]) -> list[BlockPrior]:
    """Return the blocks. If a term has the same prior in each linear predictor, only its first block, without the predictor."""
    distinct = list[BlockPrior]()
    for b in blocks:
        same = b.predictor is not None and all(
            o.prior == b.prior for o in blocks if o.columns == b.columns
        )
        if not same:
            distinct.append(b)
        elif b.first:
            distinct.append(replace(b, predictor=None, outcome=""))
    return distinct


def _describe_block(model: Any, block: BlockPrior, prior: Prior | None) -> str:
    d = model.design
    q = len(block.columns)
    scaled = "standardised " if getattr(prior, "scaled", False) else ""
    is_long = q > _NAMED or (q > _FEW and isinstance(model.prior, Prior))
    if is_long and not d.of_terms[list(block.columns)].any():
        where = f"{q} {scaled}columns"
    else:
        where = scaled + d.describe_columns(block.columns)
    if block.predictor is not None:
        where += f"[{block.outcome}]"
    hyper = getattr(block.prior, "hyper", {}).values()
    if hyper and all(isinstance(h.prior, Reference) for h in hyper):
        return f"scales of {where} estimated, no prior"
    units = ""
    if getattr(prior, "sigma_units", False):
        units = " in units of sigma"
    elif scaled and model.likelihood.noise_scale is not None:
        units = f" in units of sd({d.response})"
    text = f"{describe_prior(prior or block.prior)}{units} on {where}"
    if d.grouped_of(block.columns) is not None and isinstance(
        block.prior, GaussianPrior
    ):
        text += ", which fixes their sd"
    return text


def _as_stated(model: Any, block: Any) -> Prior | None:
    """Return the prior that the user gave for these columns, or None; smooth functions may have a default prior."""
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
    for key, prior in keys.items():  # the name of a term means its columns
        columns = [
            j for name in key for j in columns_called(name, model.design.columns)
        ]
        if sorted(columns) == sorted(block.columns):
            return prior
    return None


# settings that are described in words
_OTHER_WORDS = ("scaled", "sigma_units", "precision_matrix")


def describe_prior(prior: Any) -> str:
    """Return the call that makes a prior, without settings that have their default value.

    >>> from probreg.priors import HalfNormal, Normal, StudentT
    >>> describe_prior(Normal(HalfNormal(1.0))), describe_prior(StudentT(2.5, nu=7.0))
    ('Normal(HalfNormal(1))', 'StudentT(2.5, nu=7)')
    >>> from probreg.priors import Exponential
    >>> describe_prior(Exponential(0.5))
    'Exponential(scale=0.5)'
    >>> from probreg.priors import Covariance
    >>> describe_prior(Covariance(sd={"Intercept": HalfNormal(5.0), "x": 2.0}))
    'Covariance({Intercept: HalfNormal(5), x: 2})'
    """
    if isinstance(prior, ScaleMixture):
        return (
            f"{describe_prior(prior.base)} times tau, tau ~ {describe_prior(prior.tau)}"
        )
    if isinstance(prior, ProcessPrior):
        scales = (f"{k} ~ {describe_prior(h.prior)}" for k, h in prior.hyper.items())
        return f"Gaussian process, {', '.join(scales)}"
    if not is_dataclass(prior):
        return str(prior.name)
    n_unnamed = 0 if getattr(prior, "names_scale", False) else 1
    settings = []
    for i, f in enumerate(fields(prior)):
        value = getattr(prior, f.name)
        is_default = not isinstance(value, tuple) and value == f.default
        if i == 0 and not isinstance(f.default, AuxPrior):
            is_default = False
        if f.name in _OTHER_WORDS or is_default or value is None:
            continue
        text = _describe_setting(value)
        if f.name == "groups" and not isinstance(value, int):
            sizes = sorted((len(group) for group in value), reverse=True)
            text = f"{len(sizes)} of {', '.join(map(str, sizes))} columns"
        settings.append(text if i < n_unnamed else f"{f.name}={text}")
    text = f"{type(prior).__name__}({', '.join(settings)})"
    if getattr(prior, "precision_matrix", None) is not None:
        text += " with a precision matrix"
    return text


def _describe_setting(value: Any) -> str:
    """Describe a prior, a number, or a mapping from effects to priors or numbers."""
    if isinstance(value, tuple) and all(
        isinstance(pair, tuple) and len(pair) == 2 for pair in value
    ):
        pairs = (f"{name}: {_describe_setting(v)}" for name, v in value)
        return f"{{{', '.join(pairs)}}}"
    if is_dataclass(value):
        return describe_prior(value)
    if isinstance(value, float | int):
        return f"{value:g}"
    return "one per column"


def describe_model(model: Any) -> list[str]:
    """Describe the response, the rows and columns, the prior, and each nuisance parameter."""
    d = model.design
    priors = {a: model.aux_prior(a) for a in model.unknown}
    aux = [
        f"{a} ~ {'reference' if isinstance(v, Reference) else describe_prior(v)}"
        for a, v in priors.items()
    ]
    aux += [f"{a} = {v:g}" for a, v in model.fixed.items()]
    return [
        f"Model: {model.likelihood.describe(d.response)}",
        f"{describe_rows(d)}, columns {few_names(d.shown_columns)}",
        f"prior {coefficient_prior_line(model)}",
        *aux,
    ]


def describe_rows(design: Design) -> str:
    """Describe the number of rows, their weights and their file."""
    n = design.count
    if not n:
        return "rows not kept"
    text = f"rows {n}"
    if design.weight_kind != "frequency":
        text += f" ({design.weight_kind} weights)"
    elif design.total != n:
        text += f" (weight {design.total:g})"
    if design.source is not None:
        text += f" of {design.source.name}"
    return text


def describe_weak_prior(model: Any) -> list[str]:
    """Describe the weak prior of this model, in raw units and in units of the response."""
    d = model.design
    scales = [
        f"{d.columns[j]} {s:.3g}"
        for b in first_of(model.joint.blocks)
        if isinstance(b.prior, Normal) and _as_stated(model, b) == WEAK
        for j, s in zip(b.columns, np.broadcast_to(b.prior.scales, len(b.columns)))
    ]
    if not scales:
        return []
    shown = shorten_names(scales, 5)
    noisy = model.likelihood.noise_scale is not None
    unit = f" sd({d.response})" * noisy
    return [f"weak prior: normal with scale {WEAK_FACTOR:g}{unit}/sd(x): {shown}"]
