"""The model, rows, prior and method of each fit: one line per fact, one text per fit."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from probreg.data import ArrayColumns
from probreg.diagnostics.before import Finding
from probreg.fits.fit import Fit
from probreg.fits.goodness import estimate_name
from probreg.model.model import Model
from probreg.model.model_words import rows_text
from probreg.model.prior_words import prior_line
from probreg.system.terminal import few_names


class Fact(NamedTuple):
    """A line of the table: one text for all fits when they agree."""

    name: str
    texts: tuple[str, ...]

    @property
    def is_shared(self) -> bool:
        return len(set(self.texts)) == 1


def model_facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """Return the model, rows and prior of each fit."""
    return _fact_lines([_of_model(fit.stated_model) for fit in fits.values()])


def method_facts(fits: Mapping[str, Fit]) -> list[Fact]:
    """Return the method of each fit and its status."""
    return _fact_lines([_of_method(fit) for fit in fits.values()])


def _fact_lines(facts_by_fit: list[dict[str, str]]) -> list[Fact]:
    """Return every line with a text for at least one fit."""
    lines = (
        Fact(name, tuple(facts.get(name, "") for facts in facts_by_fit))
        for name in dict.fromkeys(k for e in facts_by_fit for k in e)
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
        "rows": rows_text(d).removeprefix("rows ")
        if d.reachable
        else "not kept with the saved fit",
        "columns": few_names(d.shown_columns),
        "offset": "" if d.offset is None else offset or "given as an array",
        "prior": prior_line(model),
        **{name: f"held at {value:g}" for name, value in model.fixed.items()},
        "data": " ".join(sentence(n) for n in d.notes),
    }


def _of_method(fit: Fit) -> dict[str, str]:
    from probreg.fits.summary import likelihood_line

    described = fit.described
    return {
        "method": described["method"],
        "estimate": estimate_name(fit),
        "status": described["status"],
        "likelihood": "; ".join(likelihood_line(fit)),
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


def sentence(text: str) -> str:
    """Return the text with a capital and a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


class Folded(NamedTuple):
    """Findings that need attention, the worst first, each with its fits unless it applies to all; and checks that passed."""

    attention: list[tuple[str, Finding]]
    passed: list[tuple[str, Finding]]


def findings(by_fit: Mapping[str, Sequence[Finding]]) -> Folded:
    """Findings of several fits, equal ones together."""
    names: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Finding] = {}
    for name, items in by_fit.items():
        for finding in items:
            key = finding.check, finding.sentence
            names.setdefault(key, []).append(name)
            first.setdefault(key, finding)
    pairs = [
        ("" if len(names[key]) == len(by_fit) else ", ".join(names[key]), finding)
        for key, finding in sorted(first.items(), key=lambda item: -item[1].verdict)
    ]
    return Folded(
        [p for p in pairs if p[1].verdict], [p for p in pairs if not p[1].verdict]
    )
