"""Priors and likelihoods as text: `normal(2.5)`, `student(2.5, nu=4)`, `x=normal(1), Intercept=normal(10)`, `quantile(0.9)`.

Nothing is evaluated. The grammar is a name from a registry and numbers in parentheses, by position or by the name of a field; a prior of a
scale may stand where a scale does.
"""

import math
import re
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from probreg.errors import DataError
from probreg.likelihoods import LIKELIHOODS, Likelihood
from probreg.priors import AUX_PRIORS, PRIORS, AuxPrior, Prior
from probreg.priors.weak import WEAK
from probreg.registry import Registry

_CALL = re.compile(r"\s*(?P<name>[A-Za-z_]\w*)\s*(?:\((?P<arguments>.*)\))?\s*", re.DOTALL)
_TRUTH = {"true": True, "false": False}


def parse_prior(text: str) -> Prior | dict[str | tuple[str, ...], Prior]:
    """A prior for every column but the intercept, or one by column. DataError says what is not understood.

    >>> parse_prior("student(2.5, nu=4)")
    StudentT(scale=2.5, nu=4.0, location=0.0, sigma_units=False, scaled=False)
    >>> parse_prior("laplace(half_normal(0.5), scaled=true)").scale
    HalfNormal(scale=0.5)
    >>> parse_prior("x=weak")["x"]
    Normal(scale=2.5, location=0.0, precision_matrix=None, sigma_units=False, scaled=True)
    >>> sorted(parse_prior("x=normal(1), species[T.Gentoo]=laplace(0.5)"))
    ['species[T.Gentoo]', 'x']
    """
    parts = list(_split(text))
    found = [(_key_of(part)[0], WEAK) if _key_of(part)[1].strip() == "weak" else _call(part, PRIORS) for part in parts]
    if len(found) == 1 and found[0][0] is None:
        return found[0][1]
    named: dict[str | tuple[str, ...], Prior] = {}
    for (key, prior), part in zip(found, parts):
        if key is None:
            raise DataError(
                f"one prior, or priors by column: {part.strip()!r} among others has no column; write x={part.strip()}"
            )
        if key in named:
            raise DataError(f"the column {key!r} has two priors in {text!r}")
        named[key] = prior
    return named


def parse_aux(text: str) -> dict[str, float | AuxPrior]:
    """Nuisance parameters: a number holds one fixed, a prior makes it unknown.

    >>> parse_aux("sigma=half_normal(2)")
    {'sigma': HalfNormal(scale=2.0)}
    >>> parse_aux("sigma=1.5")
    {'sigma': 1.5}
    """
    out: dict[str, float | AuxPrior] = {}
    for part in _split(text) if text.strip() else ():
        name, equals, value = (p.strip() for p in part.partition("="))
        if not equals or not name.isidentifier():
            raise DataError(f"{part.strip()!r} is not understood; write sigma=2 or sigma=half_normal(2)")
        out[name] = _call(value, AUX_PRIORS)[1] if value[:1].isalpha() else _number(value, part)
    return out


def parse_likelihood(text: str) -> Likelihood:
    """A likelihood by its name, or as a call with its settings.

    >>> parse_likelihood("quantile(0.9)")
    Quantile(tau=0.9)
    """
    return _call(text, LIKELIHOODS)[1] if "(" in text else LIKELIHOODS.resolve(text)


def _split(text: str) -> Iterator[str]:
    """Parts between the commas that stand in no bracket."""
    depth, start = 0, 0
    for i, letter in enumerate(text):
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            raise DataError(f"a bracket closes that was not opened in {text!r}")
        if letter == "," and depth == 0:
            yield text[start:i]
            start = i + 1
    if depth:
        raise DataError(f"a bracket is not closed in {text!r}")
    yield text[start:]


def _call[T](part: str, registry: Registry[T]) -> tuple[str | None, T]:
    """`key=name(arguments)` as the key, if there is one, and the thing that is named."""
    key, text = _key_of(part)
    match = _CALL.fullmatch(text)
    if match is None:
        raise DataError(
            f"{part.strip()!r} is not understood as a {registry.kind}; write a name and numbers, such as normal(2.5)"
        )
    if registry is PRIORS and match["name"] == "weak":
        raise DataError(f"weak takes no settings, and {text.strip()!r} gives it some: write weak")
    if registry is PRIORS and match["name"] not in registry:
        known_names: Registry[Any] = Registry("prior", words=PRIORS.words)
        known_names.update({**PRIORS, "weak": type(WEAK)})  # among the names that there are
        registry = known_names
    by_class = {known.__name__: known for known in registry.values()}  # Normal(2.5), as the library prints it
    cls = by_class.get(match["name"]) or registry[match["name"]]
    known = {f.name: f for f in fields(cls)}  # type: ignore[arg-type]  # registered classes are dataclasses
    given: dict[str, Any] = {}
    written = [a for a in _split(match["arguments"] or "") if a.strip()]
    for position, argument in enumerate(written):
        word, value = _key_of(argument)
        name, value = word or "", value.strip()
        if word is None and position < len(known) and not any(_key_of(before)[0] for before in written[:position]):
            name = list(known)[position]
        if name not in known or name in given:
            raise DataError(
                f"{match['name']} does not understand {argument.strip()!r}; it takes: {', '.join(known) or 'nothing'}"
            )
        given[name] = _value(value, part)
    return key, cls(**given)


def _key_of(part: str) -> tuple[str | None, str]:
    """What stands before and after the last equals sign outside brackets; no key where there is none."""
    depth, at = 0, -1
    for i, letter in enumerate(part):
        depth += (letter in "([") - (letter in ")]")
        at = i if letter == "=" and depth == 0 else at
    return (None, part) if at < 0 else (part[:at].strip() or None, part[at + 1 :])


def _value(text: str, part: str) -> float | bool | AuxPrior:
    """A number, a truth, or a prior of a scale, which makes the scale unknown."""
    if text[:1].isalpha() and text.partition("(")[0].strip() in AUX_PRIORS:
        return _call(text, AUX_PRIORS)[1]
    return _TRUTH[text.lower()] if text.lower() in _TRUTH else _number(text, part)


def _number(text: str, part: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise DataError(f"{text!r} in {part.strip()!r} is not a finite number")
    return value
