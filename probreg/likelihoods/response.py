"""Reading a response: numbers where numbers are wanted, levels where levels are; each refusal names row and value."""

from collections.abc import Sequence

import numpy as np

from probreg.errors import DataError
from probreg.likelihoods.base import Level


def numbers(values: np.ndarray, kind: str) -> np.ndarray:
    """The response as finite floats; `kind` names the likelihood in the error."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"a {kind} response is one column, got an array of shape {values.shape}")
    if values.dtype.kind not in "fiub":
        example = values[0] if len(values) else ""
        raise DataError(
            f"a {kind} response is numeric; row 0 holds {example!r}. "
            "For categories use Bernoulli (two levels) or Categorical (more); for numbers stored as text convert them first."
        )
    y = values.astype(float)
    if len(bad := np.flatnonzero(~np.isfinite(y))):
        raise DataError(f"a {kind} response is finite; row {bad[0]} holds {y[bad[0]]} ({len(bad)} such rows)")
    return y


def varied(y: np.ndarray, kind: str) -> None:
    """DataError when every row holds the same value: there is nothing to explain and the noise scale is zero."""
    if len(y) and (y == y[0]).all():
        raise DataError(
            f"the response is constant (every one of {len(y)} rows holds {y[0]:g}): a {kind} model has nothing to explain"
        )


def levels_of(values: np.ndarray, known: Sequence[Level] | None) -> tuple[Level, ...]:
    """The levels that occur, in their declared order, or sorted when none was declared; DataError for a missing one."""
    _complete(values)
    present = set(_distinct(values))
    if known is not None:
        return tuple(v for v in known if v in present)
    try:
        return tuple(sorted(present))
    except TypeError:
        raise DataError(
            f"the response mixes kinds of values ({', '.join(sorted({type(v).__name__ for v in present}))}): make them all text or all numbers"
        ) from None


def _complete(values: np.ndarray) -> None:
    """DataError where a level is None or nan: a missing value is no class."""
    met = np.asarray(values)
    if met.dtype.kind in "O" and len(bad := [i for i, v in enumerate(met.tolist()) if v is None or v != v]):
        raise DataError(
            f"row {bad[0]} of the response holds {met[bad[0]]!r} ({len(bad)} such rows): drop or complete them"
        )


def codes(values: np.ndarray, levels: Sequence[Level]) -> np.ndarray:
    """Positions in `levels` as floats, shape (n,). DataError names the first row with a value that is not among them."""
    values = np.asarray(values)
    if values.dtype.kind in "fiub":
        out = np.full(len(values), -1.0)
        for i, level in enumerate(levels):
            out += (values == level) * (i + 1.0)  # a third of the time of an assignment to the rows met
    else:
        place = {v: float(i) for i, v in enumerate(levels)}
        out = np.array([place.get(_level(v), -1.0) for v in values.tolist()])
    if len(bad := np.flatnonzero(out < 0)):
        met = np.asarray(values).tolist()[bad[0]]
        raise DataError(
            f"row {bad[0]} of the response holds {met!r}, which is not a level of the model: {', '.join(map(str, levels))}"
        )
    return out


def one_of(levels: Sequence[Level], wanted: Level, role: str) -> Level:
    """The level that is meant: by value, or by its text."""
    for level in levels:
        if level == wanted or str(level) == str(wanted):
            return level
    raise DataError(f"{role}={wanted!r} is not a level of the response: {', '.join(map(repr, levels))}")


def refuse(kind: str, *, event: Level | None, reference: Level | None = None) -> None:
    """DataError for an argument that has no meaning for this likelihood."""
    for word, value, owner in (("event", event, "Bernoulli"), ("reference", reference, "Categorical")):
        if value is not None:
            raise DataError(f"{word}={value!r} was given, but a {kind} response has no {word}; that is for {owner}")


def _distinct(values: np.ndarray) -> list[Level]:
    """The values that occur, as Python's own."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        return list({_level(v) for v in values.tolist()})
    # Few levels are the rule: sorting what is left after the first rows' levels are taken out is cheap.
    head = np.unique(values[:1000])
    rest = values[~np.isin(values, head)] if len(head) < 20 else values
    met = np.union1d(head, rest).tolist()
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in met]  # 1.0 reads as 1


def _level(value: object) -> Level:
    """Python's own value; 1.0 and True compare equal to 1, as they should."""
    return value if isinstance(value, str | int | float | bool) else str(value)
