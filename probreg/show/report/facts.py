"""What was modelled, on which rows, under which prior, and how: one line per fact, one text per fit."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from probreg.assess.before import Finding
from probreg.data import ArrayColumns
from probreg.fits.fit import Fit
from probreg.fits.goodness import tested_at_found_scales
from probreg.inference.base import has_effects
from probreg.likelihoods import OfTrials
from probreg.model import likelihood_sums as sums
from probreg.model.model import Model
from probreg.model.prior_words import prior_line

_NAMED = 12  # columns that are named one by one


class Fact(NamedTuple):
    """A line of the table: one text for all fits when they agree."""

    name: str
    texts: tuple[str, ...]

    @property
    def shared(self) -> bool:
        return len(set(self.texts)) == 1


def model_facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """What was modelled, in which rows, under which prior."""
    return _fact_lines([_of_model(fit.stated_model) for fit in fits.values()])


def method_facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """How each fit was made, and how that ended."""
    return _fact_lines([_of_method(fit) for fit in fits.values()])


def _fact_lines(each: list[dict[str, str]]) -> list[Fact]:
    """Every line in which some fit has something to say."""
    lines = (
        Fact(name, tuple(one.get(name, "") for one in each))
        for name in dict.fromkeys(k for e in each for k in e)
    )
    return [line for line in lines if any(line.texts)]


def _of_model(model: Model) -> dict[str, str]:
    d = model.design
    recipe = model.design.recipe
    formula, offset = (
        ("", None)
        if isinstance(recipe, ArrayColumns)
        else (str(recipe.formula), recipe.offset)  # type: ignore[attr-defined]
    )
    return {
        "modelled": sentence(model.likelihood.describe(d.response)),
        "classes": _describe_levels(model),
        "formula": formula,
        "rows": _describe_rows(model),
        "offset": "" if d.offset is None else offset or "given as an array",
        "prior": prior_line(model),
        **{name: f"held at {value:g}" for name, value in model.fixed.items()},
        "data": " ".join(sentence(n) for n in d.notes),
    }


def _of_method(fit: Fit) -> dict[str, str]:
    described = fit.described
    return {
        "method": described["method"],
        "estimate": "posterior mean and standard deviation"
        if fit.target == "posterior"
        else _describe_mode(fit),
        "status": described["status"],
        "log likelihood": _log_likelihood(fit),
        "seed": str(fit.seed) if fit.target == "posterior" else "",
        "remarks": " ".join(
            sentence(str(n)) for n in (*fit.notes, *fit.solution.notes)
        ),
    }


def _describe_levels(model: Model) -> str:
    likelihood = model.likelihood
    if not likelihood.outcomes:
        return ""
    base = [str(v) for v in likelihood.levels if str(v) not in likelihood.outcomes]
    if model.joint.contrast is None:
        shift = "sum to zero"
    else:
        shift = "have the common shift of the smallest penalty"
    if base:
        how = f"reference {base[0]}"
    else:
        how = f"no reference: coefficients of a column {shift}"
    return f"{', '.join(map(str, likelihood.levels))}; {how}"


def _describe_rows(model: Model) -> str:
    d = model.design
    if not d.reachable:
        return "not kept with the saved fit"
    if d.weights is None:
        weight = ""
    else:
        weight = f", frequency weights with sum {d.total:g}"
    if d.weight_kind != "frequency":
        weight = f", {d.weight_kind} weights"
    if isinstance(model.likelihood, OfTrials):
        trials = float(d.fold(partial(sums.trials, likelihood=model.likelihood))[0])
        weight = f", {trials:g} trials{weight}"
    if d.source is None:
        where = ""
    else:
        where = f" of {d.source.name}, read by the block"
    k = len(d.columns)
    if len(d.shown_columns) <= _NAMED:
        named = f": {', '.join(d.shown_columns)}"
    else:
        named = ""
    return f"{d.count}{where}{weight}; {k} column{'s' * (k > 1)}{named}"


def _describe_mode(fit: Fit) -> str:
    found = fit.solution.found
    if found is not None and tested_at_found_scales(fit):
        # of the standard deviations of effects by group; coefficients are those at these
        if found.criterion == "ML":
            return "maximum likelihood estimate"
        return "restricted maximum likelihood (REML) estimate"
    if fit.model.flat:
        return "maximum likelihood estimate"
    return "posterior mode (penalised maximum likelihood)"


def _log_likelihood(fit: Fit) -> str:
    if fit.model.design.weight_kind == "sampling":
        return ""  # a pseudo-likelihood
    if fit.solution.found is not None and fit.target == "mode":
        value = fit.solution.found.value
        if fit.solution.found.criterion == "ML":
            return f"{value:.3f} at the estimate, effects of groups integrated out"
        return f"none under REML: the criterion is {-2.0 * value:.3f}"
    if has_effects(fit.model):
        given = " given the effects of groups"
    else:
        given = ""
    if fit.solution.status.good and (
        fit.model.design.reachable or fit.likelihood_at_estimate is not None
    ):
        return f"{fit.log_likelihood:.3f} at the estimate{given}"
    return ""


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


class Folded(NamedTuple):
    """What needs attention, worst first, each with the fits it is about when it is not about all; and what passed."""

    attention: list[tuple[str, Finding]]
    passed: list[tuple[str, Finding]]


def findings(found: Mapping[str, Sequence[Finding]]) -> Folded:
    """Findings of several fits, each said once."""
    said: dict[tuple[str, str], tuple[Finding, list[str]]] = {}
    for name, items in found.items():
        for finding in items:
            said.setdefault((finding.check, finding.sentence), (finding, []))[1].append(
                name
            )
    ordered = sorted(said.values(), key=lambda pair: -pair[0].verdict)
    each = [
        ("" if len(names) == len(found) else ", ".join(names), finding)
        for finding, names in ordered
    ]
    return Folded(
        [pair for pair in each if pair[1].verdict],
        [pair for pair in each if not pair[1].verdict],
    )
