"""What was modelled, on which rows, under which prior, and how: one line per fact, one text per fit.

Numbers are texts that stand under one another on their decimal point: the only place where a report rounds.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from probreg.assess.before import Finding, Findings
from probreg.comparison import Comparison, decimals, rounded
from probreg.data import ArrayColumns
from probreg.fits.fit import Fit
from probreg.likelihoods import Bernoulli, OfTrials, SoftmaxLikelihood
from probreg.model import likelihood_sums as sums
from probreg.model.model import Model
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Flat, Prior, Reference, ScaleMixture
from probreg.priors.gaussian_process import ProcessPrior
from probreg.system.terminal import percent

_FIGURE, _POINT = "\u2007", "\u2008"  # spaces as wide as a digit and as a full stop
_KIND = {
    "t": "t",
    "wald": "Wald",
    "eti": "equal\u2011tailed",
    "hdi": "highest\u00a0density",
    "chi-square": "chi\u2011square",
    "log-wald": "Wald, log scale",
}


class TextTable(NamedTuple):
    """Heads and rows of texts; `numeric` says which columns hold numbers."""

    heads: list[str]
    numeric: list[bool]
    rows: list[list[str]]


def aligned(cells: Sequence[str]) -> list[str]:
    """Right-aligned cells padded behind, so that their decimal points meet.

    >>> [c.replace(chr(0x2007), "_").replace(chr(0x2008), ".") for c in aligned(["-1.25", "3", ""])]
    ['-1.25', '3.__', '']
    """
    tails = [len(c.partition(".")[2]) for c in cells]
    longest = max(tails, default=0)

    def padded(cell: str, tail: int) -> str:
        return cell + ("" if "." in cell or not longest else _POINT) + _FIGURE * (longest - tail)

    return [padded(c, t) if c[-1:].isdigit() else c for c, t in zip(cells, tails)]


def comparison_table(of: Comparison) -> list[tuple[str, TextTable]]:
    """One small table per parameter: a row per fit, digits by the smallest standard error of the parameter."""
    return [(str(param), _parameter(of, str(param))) for param in of.data["param"].values]


def _parameter(of: Comparison, param: str) -> TextTable:
    here = of.data.sel(param=param)
    places = decimals(here["error"].values)
    each = {name: {str(k): v.item() for k, v in here.sel(fit=name).data_vars.items()} for name in of.fits}
    rows = [[name, *_cells(one, places, base=name == of.baseline)] for name, one in each.items()]
    heads = [
        "fit",
        "estimate",
        "SE or SD",
        "lower",
        "upper",
        "interval",
        "diff / SE",
        "SE ratio",
        "prior",
        "prior weight, %",
    ]
    numeric = [False, True, True, True, True, False, True, True, False, True]
    return TextTable(heads, numeric, _align(rows, numeric))


def _align(rows: list[list[str]], numeric: Sequence[bool]) -> list[list[str]]:
    columns = [aligned(c) if number else list(c) for c, number in zip(zip(*rows), numeric)]
    return [list(row) for row in zip(*columns)]


def _cells(one: dict[str, Any], places: int, *, base: bool) -> list[str]:
    if one["kind"] == "":
        return ["not in it", *[""] * 8]
    if one["kind"] == "held":
        return [f"{one['estimate']:g}", "", "", "", "held", *[""] * 4]
    if np.isnan(one["estimate"]):
        return ["none exists", *[""] * 6, one["prior"], ""]
    weight = one["prior_weight"]
    beside = ["", ""] if base else [minus(_known(f"{one['difference']:+.2f}")), _known(f"{one['se_ratio']:.3f}")]
    return [
        minus(rounded(one["estimate"], places)), rounded(one["error"], places),
        minus(rounded(one["lower"], places)), minus(rounded(one["upper"], places)), _KIND.get(one["kind"], one["kind"]),
        *beside,
        one["prior"], percent(weight).removesuffix(" %") if np.isfinite(weight) else "",
    ]  # fmt: skip


def _known(text: str) -> str:
    return "" if text.endswith(("nan", "inf")) else text


def minus(text: str) -> str:
    """A number with a true minus sign.

    >>> minus("-0.5")
    '−0.5'
    """
    return text.replace("-", "−") if text.startswith("-") else text


def plain_table(heads: list[str], rows: list[list[str]]) -> TextTable:
    """A table whose first column is text and whose others are numbers."""
    numeric = [False] + [True] * (len(heads) - 1)
    return TextTable(heads, numeric, _align(rows, numeric) if rows else [])


class Fact(NamedTuple):
    """A line of the table: one text for all fits when they agree."""

    name: str
    texts: tuple[str, ...]

    @property
    def shared(self) -> bool:
        return len(set(self.texts)) == 1


def facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """Every line in which some fit has something to say."""
    each = [_facts(fit) for fit in fits.values()]
    lines = (Fact(name, tuple(one[name] for one in each)) for name in each[0])
    return [line for line in lines if any(line.texts)]


def _facts(fit: Fit) -> dict[str, str]:
    model, d = fit.model, fit.model.design
    described = fit.described
    recipe: Any = d.recipe
    formula, offset = ("", None) if isinstance(recipe, ArrayColumns) else (recipe.formula, recipe.offset)
    return {
        "modelled": described["models"],
        "levels": _levels(model),
        "formula": formula,
        "rows": _rows(model),
        "offset": "" if d.offset is None else offset or "given as an array",
        "prior": prior_words(model),
        **{name: aux_words(model, name) for name in model.likelihood.aux},
        "method": described["method"],
        "result": "posterior, by its mean and SD" if fit.target == "posterior" else _mode(model),
        "status": described["status"],
        "log likelihood": _log_likelihood(fit),
        "notes on data": " ".join(sentence(n) for n in d.notes),
        "notes on method": " ".join(sentence(n) for n in (*fit.notes, *fit.solution.notes)),
        "seed": str(fit.seed) if fit.target == "posterior" else "",
    }


def _levels(model: Model) -> str:
    likelihood = model.likelihood
    if isinstance(likelihood, Bernoulli):
        return f"event {likelihood.levels[1]}, other level {likelihood.levels[0]}"
    if isinstance(likelihood, SoftmaxLikelihood):
        base = [str(v) for v in likelihood.levels if str(v) not in likelihood.outcomes]
        return f"classes {', '.join(map(str, likelihood.levels))}; " + (
            f"reference {base[0]}" if base else "no reference: coefficients sum to zero"
        )
    return ""


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
    return f"{d.count}{where}{weight}; {len(d.columns)} columns: {', '.join(d.columns)}"


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
    """The prior of the coefficients, block by block.

    >>> import probreg as pr
    >>> prior_words(pr.Model.from_arrays([[1.0], [2.0]], [1.0, 3.0], columns=["x"], prior=pr.Normal(2.5)))
    'normal with scale 2.5 on x; flat on Intercept'
    """
    blocks = sorted(model.joint.blocks, key=lambda b: isinstance(b.prior, Flat))
    if not model.joint.informative.any():
        return "flat on every column"
    said = [f"{_of_prior(b.prior)} on {model.design.called(b.columns)}" for b in blocks]
    return "; ".join(said)


def _of_prior(prior: Prior) -> str:
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


def findings(found: Mapping[str, Findings]) -> list[tuple[str, Finding]]:
    """Findings worst first, each said once, with the fits it is about when it is not about all."""
    said: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for name, items in found.items():
        for finding in items:
            said.setdefault((finding.check, finding.sentence), (finding, []))[1].append(name)
    ordered = sorted(said.values(), key=lambda pair: -pair[0].verdict)
    return [("" if len(names) == len(found) else ", ".join(names), finding) for finding, names in ordered]
