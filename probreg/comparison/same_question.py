"""Which fits may stand side by side: the same response, columns, levels, link and rows, and a name for each."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.inference.uncertainty.intervals.kinds import KINDS

Array = np.ndarray
_MANY = 8  # names in a sentence
_SAME_WEIGHTS = (
    "Give both models the same weights; fits under different weights are read side by side by the summary() of each"
)


def fits_by_name(fits: Any, verb: str) -> dict[str, Fit]:
    """The fits by name, for the function `verb`. DataError for anything but a mapping or a list of fits, and for none."""
    if isinstance(fits, Fit):
        raise DataError(
            f"{verb} takes several fits: a mapping such as {{'ML': ml, 'posterior': post}}, not a single Fit"
        )
    if not isinstance(fits, Mapping | list | tuple):
        raise DataError(f"{verb} takes a mapping from names to fits, or a list of fits, got {type(fits).__name__}")
    for name, fit in fits.items() if isinstance(fits, Mapping) else enumerate(fits):
        if not isinstance(fit, Fit):
            raise DataError(
                f"{verb} takes fits, and {name!r} is of type {type(fit).__name__}; make one with fit(model)"
            )
        if isinstance(fits, Mapping) and not isinstance(name, str | int | float | np.number):
            raise DataError(f"{verb}: the fits are named by texts or numbers, got the name {name!r}")
    if not fits:
        raise DataError(f"{verb}: there is no fit; give one or more, such as {{'ML': fit(model)}}")
    if not isinstance(fits, Mapping):
        return by_method(fits)
    named = {named_as_text(name): fit for name, fit in fits.items()}
    if len(named) < len(fits):
        raise DataError(f"{verb}: two fits have the same name as texts: {', '.join(map(repr, fits))}")
    return named


def named_as_text(name: Any) -> Any:
    """The name of a fit as a text, where it is a number.

    >>> named_as_text(0.5), named_as_text("ML"), named_as_text(np.float64(0.9))
    ('0.5', 'ML', '0.9')
    """
    return (
        repr(name.item() if isinstance(name, np.number) else name)
        if isinstance(name, int | float | np.number)
        else name
    )


def method_name(fit: Fit) -> str:
    """The method's name, or the criterion at whose maximum standard deviations by group stand: newton, REML."""
    return fit.method.name if fit.solution.found is None else fit.solution.found.criterion


def by_method(fits: Iterable[Fit]) -> dict[str, Fit]:
    """By the name of the method, numbered from the second on: newton, newton 2."""
    out: dict[str, Fit] = {}
    met: Counter[str] = Counter()
    for fit in fits:
        name = method_name(fit)
        met[name] += 1
        out[name if met[name] == 1 else f"{name} {met[name]}"] = fit
    return out


def terms_apart(fits: Iterable[Fit]) -> frozenset[str]:
    """The columns of smooth functions and processes that are not the same in all fits: they stand for a function, which may have
    other columns in each, and their coefficients are not set side by side."""
    designs = [fit.model.design for fit in fits]
    terms = [{t.name: t.columns for t in d.recipe.terms if set(t.columns) <= set(d.columns)} for d in designs]
    first, same = designs[0], set[str]()
    for name, columns in terms[0].items():
        at = [first.columns.index(c) for c in columns]
        if all(there.get(name) == columns and _same_columns(first, d, at) for there, d in zip(terms[1:], designs[1:])):
            same.add(name)
    return frozenset(c for each in terms for name, columns in each.items() if name not in same for c in columns)


def _same_columns(first: Any, other: Any, at: list[int]) -> bool:
    """Whether these columns of one design are those of another, where both have their rows."""
    if first is other or first.columns != other.columns or not (first.n and other.n and first.n == other.n):
        return bool(first.columns == other.columns)
    return bool(np.array_equal(first.X[:, at], other.X[:, at]))


def refuse_unlike(base: str, first: Fit, name: str, other: Fit, apart: frozenset[str] = frozenset()) -> None:
    """DataError with the first thing in which two fits differ so that their coefficients mean different things; columns that
    stand `apart` may differ."""
    there = _facts(other, apart)
    for what, a in _facts(first, apart).items():
        b = there[what]
        if a is not None and b is not None and a != b:
            raise DataError(
                f"{base!r} and {name!r} cannot stand in one table, they differ in their {what}: {_shown(a, b)} against {_shown(b, a)}. "
                f"{_SAME_WEIGHTS if what == 'kinds of weights' else 'Fit both to the same rows and columns.'}"
            )
    d, e = first.model.design, other.model.design
    if d is e or not (d.n and e.n and d.n == e.n):
        return
    left, right = (g.X[:, [c not in apart for c in g.columns]] if apart else g.X for g in (d, e))
    for what, x, y in (
        ("response", d.y, e.y),
        ("columns", left, right),
        ("offset", d.offset, e.offset),
        ("weights", d.weights, e.weights),
        ("precisions", d.precision, e.precision),
    ):
        if x is y or (x is not None and y is not None and np.array_equal(x, y)):
            continue
        where = "one of them has none" if x is None or y is None else f"first in row {d.row_name(_first_row(x, y))}"
        advice = f". {_SAME_WEIGHTS}" if what in ("weights", "precisions") else ""
        raise DataError(
            f"{base!r} and {name!r} cannot stand in one table, their rows differ in the {what} ({where}){advice}"
        )


def _facts(fit: Fit, apart: frozenset[str]) -> dict[str, Any]:
    """What gives coefficients their meaning; None where a saved fit does not know it."""
    design, likelihood = fit.model.design, fit.model.likelihood
    return {
        "response": design.response, "columns": tuple(c for c in design.columns if c not in apart), "levels": (likelihood.levels, likelihood.outcomes),
        "link": likelihood.link, "kinds of weights": design.weight_kind, "number of observations": number_of_observations(fit),
    }  # fmt: skip


def number_of_observations(fit: Fit) -> float | None:
    """The total weight of the rows; None for a fit that was saved without them and did not note it."""
    return fit.model.design.total if fit.model.design.reachable else fit.solution.stats.get("n")


def _shown(value: Any, other: Any) -> str:
    """A value in a sentence; of many names the first that the other does not have."""
    if not isinstance(value, tuple):
        return f"{value:.15g}" if isinstance(value, float) else str(value)
    own = [name for name in value if name not in other] if len(value) > _MANY else []
    few = (own or value)[:_MANY]
    rest = len(value) - len(few)
    return ", ".join(map(str, few)) + f" and {rest} more" * (rest > 0)


def _first_row(x: Array, y: Array) -> int:
    unlike = (x != y).reshape(len(x), -1) if x.shape == y.shape else np.ones((1, 1))
    return int(np.argmax(unlike.any(1)))


def check_kind(fits: Mapping[str, Fit], kind: str | None) -> None:
    """Incompatible for a kind of interval that no fit has."""
    able = {k for f in fits.values() for k in KINDS[f.target]}
    if kind is not None and kind not in able:
        raise Incompatible(f"none of these fits has intervals of kind {kind!r}; they have: {', '.join(sorted(able))}")
