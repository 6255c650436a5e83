"""What was modelled, on which rows, under which prior, and how: one line per fact, one text per fit."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.assess.before import Finding
from probreg.data import ArrayColumns
from probreg.fits.fit import Fit
from probreg.likelihoods import OfTrials
from probreg.model import likelihood_sums as sums
from probreg.model.model import Model
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Flat, Prior, Reference, ScaleMixture
from probreg.priors.gaussian_process import ProcessPrior


class Fact(NamedTuple):
    """A line of the table: one text for all fits when they agree."""

    name: str
    texts: tuple[str, ...]

    @property
    def shared(self) -> bool:
        return len(set(self.texts)) == 1


def model_facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """What was modelled, in which rows, under which prior."""
    return _lines([_of_model(fit.model) for fit in fits.values()])


def method_facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """How each fit was made, and how that ended."""
    return _lines([_of_method(fit) for fit in fits.values()])


def _lines(each: list[dict[str, str]]) -> list[Fact]:
    """Every line in which some fit has something to say."""
    lines = (Fact(name, tuple(one.get(name, "") for one in each)) for name in dict.fromkeys(k for e in each for k in e))
    return [line for line in lines if any(line.texts)]


def _of_model(model: Model) -> dict[str, str]:
    d, recipe = model.design, model.design.recipe
    formula, offset = ("", None) if isinstance(recipe, ArrayColumns) else (str(recipe.formula), recipe.offset)  # type: ignore[attr-defined]
    return {
        "modelled": sentence(model.likelihood.describe(d.response)),
        "classes": _levels(model),
        "formula": formula,
        "rows": _rows(model),
        "offset": "" if d.offset is None else offset or "given as an array",
        "prior": prior_words(model),
        **{name: aux_words(model, name) for name in model.likelihood.aux},
        "data": " ".join(sentence(n) for n in d.notes),
    }


def _of_method(fit: Fit) -> dict[str, str]:
    described = fit.described
    return {
        "method": described["method"],
        "estimate": "posterior mean and standard deviation" if fit.target == "posterior" else _mode(fit.model),
        "status": described["status"],
        "log likelihood": _log_likelihood(fit),
        "seed": str(fit.seed) if fit.target == "posterior" else "",
        "remarks": " ".join(sentence(n) for n in (*fit.notes, *fit.solution.notes)),
    }


def _levels(model: Model) -> str:
    likelihood = model.likelihood
    if not likelihood.outcomes:
        return ""
    base = [str(v) for v in likelihood.levels if str(v) not in likelihood.outcomes]
    how = f"reference {base[0]}" if base else "no reference: coefficients sum to zero"
    return f"{', '.join(map(str, likelihood.levels))}; {how}"


def _rows(model: Model) -> str:
    d = model.design
    if not d.reachable:
        return "not kept with the saved fit"
    weight = "" if d.weights is None else f", frequency weights with sum {d.total:g}"
    weight = weight if d.weight_kind == "frequency" else f", {d.weight_kind} weights"
    if isinstance(model.likelihood, OfTrials):
        trials = float(d.fold(partial(sums.trials, likelihood=model.likelihood))[0])
        weight = f", {trials:g} trials{weight}"
    where = "" if d.source is None else f" of {d.source.name}, read by the block"
    k = len(d.columns)
    named = f": {', '.join(d.shown_columns)}" if len(d.shown_columns) <= _NAMED else ""
    return f"{d.count}{where}{weight}; {k} column{'s' * (k > 1)}{named}"


def _mode(model: Model) -> str:
    return "maximum likelihood estimate" if model.flat else "posterior mode (penalised maximum likelihood)"


def _log_likelihood(fit: Fit) -> str:
    if fit.model.design.weight_kind == "sampling":
        return ""  # a pseudo-likelihood
    return (
        f"{fit.log_likelihood:.3f} at the estimate"
        if fit.solution.status.good and (fit.model.design.reachable or fit.likelihood_at_estimate is not None)
        else ""
    )


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def prior_words(model: Model) -> str:
    """The prior of the coefficients as it was stated, block by block.

    >>> import probreg as pr
    >>> X, y = [[1.0, 2.0], [2.0, 5.0], [4.0, 3.0]], [1.0, 3.0, 2.0]
    >>> prior_words(pr.Model.from_arrays(X, y, columns=["a", "b"], prior=pr.Normal(2.5)))
    'Normal(2.5) on a, b; flat on Intercept'
    >>> prior_words(pr.Model.from_arrays(X, y, columns=["a", "b"], prior={"a": pr.Normal(1.0, scaled=True)}))
    'Normal(1) in units of sd(y) on standardised a; flat on Intercept, b'
    """
    blocks = sorted(model.joint.blocks, key=lambda b: isinstance(b.prior, Flat))
    if not model.joint.informative.any():
        return "flat on every column"
    return "; ".join(_of_block(model, b) for b in blocks)


_NAMED, _FEW = 12, 3  # columns that are named one by one; under one prior for all


def _of_block(model: Model, block: Any) -> str:
    d = model.design
    given, q = _as_stated(model, block), len(block.columns)
    many = q > _NAMED or (q > _FEW and isinstance(model.prior, Prior))
    many = many and not d.of_terms[list(block.columns)].any()
    scaled = "standardised " if getattr(given, "scaled", False) and not isinstance(block.prior, Flat) else ""
    where = f"{q} {scaled}columns" if many else scaled + d.called(block.columns)
    if isinstance(block.prior, Flat):
        return f"flat on {where}"
    units = " in units of sigma" if getattr(given, "sigma_units", False) else ""
    if scaled and not units and model.likelihood.noise_scale is not None:  # standardised columns, and response
        units = f" in units of sd({d.response})"
    return f"{_of_prior(block.prior) if given is None else _call(given)}{units} on {where}"


def _as_stated(model: Model, block: Any) -> Prior | None:
    """The prior that was given for these columns, where one was: those of smooth functions may have their own by default."""
    if model.design.of_terms[list(block.columns)].any():
        return None
    if isinstance(model.prior, Prior):
        return model.prior
    names = tuple(model.design.columns[j] for j in block.columns)
    keys = {(key,) if isinstance(key, str) else tuple(key): prior for key, prior in model.prior.items()}
    return keys.get(names)


_BESIDE = ("scaled", "sigma_units", "precision_matrix")  # said in words


def _call(prior: Any) -> str:
    """A prior as one writes it: its settings that are not the usual ones.

    >>> from probreg.priors import HalfNormal, Normal, StudentT
    >>> _call(Normal(HalfNormal(1.0))), _call(StudentT(2.5, nu=7.0))
    ('Normal(HalfNormal(1))', 'StudentT(2.5, nu=7)')
    """
    said = []
    for number, f in enumerate(fields(prior)):
        value = getattr(prior, f.name)
        if f.name in _BESIDE or (number and value == f.default) or value is None:
            continue
        if f.name == "groups":
            said.append(_setting(f.name, value))
            continue
        words = (
            _call(value)
            if is_dataclass(value)
            else f"{value:g}"
            if isinstance(value, float | int)
            else "one per column"
        )
        said.append(words if not number else f"{f.name}={words}")
    words = f"{type(prior).__name__}({', '.join(said)})"
    return words + (" with a precision matrix" if getattr(prior, "precision_matrix", None) is not None else "")


def _of_prior(prior: Prior) -> str:
    """A prior that was not stated column by column: that of a smooth function, or one made of the rows."""
    if isinstance(prior, ScaleMixture):
        return f"{_of_prior(prior.base)} times tau, tau {_words(AUX_PRIORS.to_spec(prior.tau))}"
    if isinstance(prior, ProcessPrior):
        unknown = "; ".join(f"{name} {_words(AUX_PRIORS.to_spec(h.prior))}" for name, h in prior.hyper.items())
        return f"gaussian-process of unknown {unknown}"
    return _words(PRIORS.to_spec(prior))


def aux_words(model: Model, name: str) -> str:
    """How a nuisance parameter is treated."""
    if name in model.fixed:
        return f"held at {model.fixed[name]:g}"
    prior: AuxPrior = model.aux_prior(name)
    if isinstance(prior, Reference):
        return f"unknown, p({name}) ∝ 1/{name}"
    return f"unknown, {_words(AUX_PRIORS.to_spec(prior))}"


def _words(spec: dict[str, Any]) -> str:
    units = " in units of sigma" if spec.pop("sigma_units", False) else ""
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
    if key == "groups":
        sizes = sorted((len(group) for group in value), reverse=True)
        return f"{len(sizes)} group{'s' * (len(sizes) > 1)} of {', '.join(map(str, sizes))} columns"
    array = np.array(value, dtype=float)
    if array.size > 1 and array.ndim > 1:
        return f"{said} of {' x '.join(map(str, array.shape))}"
    return f"{said} {', '.join(f'{v:g}' for v in array.ravel())}"


class Folded(NamedTuple):
    """What needs attention, worst first, each with the fits it is about when it is not about all; and what passed."""

    attention: list[tuple[str, Finding]]
    passed: list[tuple[str, Finding]]


def findings(found: Mapping[str, Sequence[Finding]]) -> Folded:
    """Findings of several fits, each said once."""
    said: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for name, items in found.items():
        for finding in items:
            said.setdefault((finding.check, finding.sentence), (finding, []))[1].append(name)
    ordered = sorted(said.values(), key=lambda pair: -pair[0].verdict)
    each = [("" if len(names) == len(found) else ", ".join(names), finding) for finding, names in ordered]
    return Folded([pair for pair in each if pair[1].verdict], [pair for pair in each if not pair[1].verdict])
