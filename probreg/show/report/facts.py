"""Texts and findings of several fits, equal ones together."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from probreg.diagnostics.before import Finding
from probreg.fits.fit import Fit


def model_texts(fits: Mapping[str, Fit]) -> list[tuple[str, str]]:
    """Return each model as it prints itself, with its formula and the names of its fits."""
    texts = {}
    for name, fit in fits.items():
        text = repr(fit.stated_model)
        formula = getattr(fit.model.design.recipe, "formula", None)
        texts[name] = text if formula is None else f"{text}\n  formula {formula}"
    return _join_equal(texts)


def fit_texts(fits: Mapping[str, Fit]) -> list[tuple[str, str]]:
    """Return each fit as it prints itself, with the seed of a posterior."""
    texts = {}
    for name, fit in fits.items():
        seed = f"\nseed {fit.seed}" if fit.target == "posterior" else ""
        texts[name] = repr(fit) + seed
    return _join_equal(texts)


def _join_equal(texts: Mapping[str, str]) -> list[tuple[str, str]]:
    names: dict[str, list[str]] = {}
    for name, text in texts.items():
        names.setdefault(text, []).append(name)
    return [(", ".join(of), text) for text, of in names.items()]


class Folded(NamedTuple):
    """Findings that need attention, the worst first, each with its fits unless it applies to all; and checks that passed."""

    attention: list[tuple[str, Finding]]
    passed: list[tuple[str, Finding]]


def findings(
    fits: Mapping[str, Fit], run: Callable[[Fit], Sequence[Finding]]
) -> Folded:
    """Run the checks of several fits, and put equal findings together."""
    names: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Finding] = {}
    for name, fit in fits.items():
        for finding in run(fit):
            key = finding.check, finding.sentence
            names.setdefault(key, []).append(name)
            first.setdefault(key, finding)
    pairs = [
        ("" if len(names[key]) == len(fits) else ", ".join(names[key]), finding)
        for key, finding in sorted(first.items(), key=lambda item: -item[1].verdict)
    ]
    return Folded(
        [p for p in pairs if p[1].verdict], [p for p in pairs if not p[1].verdict]
    )
