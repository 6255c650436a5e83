"""Reading forecasts and outcomes; every error names the row and the value."""

from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.arrays import as_array, floats, same_rows
from probreg.errors import DataError

Array = np.ndarray


class Scored(NamedTuple):
    """The observed `outcome` (...,) and the forecast probabilities `p` (..., K).

    `pair` is True if the forecast was one number per row, the probability of outcome 1.
    """

    outcome: Array
    p: Array
    pair: bool


def read_scored(y: Any, p: Any) -> Scored:
    """Read outcomes 0/1 with one probability each, or classes 0 .. K-1 with a row of K. DataError names row and value."""
    same_rows(**{"y": y, "the forecast": p})
    forecast = finite_numbers(p, "the forecast")
    first = next(iter(as_array(y, "y").flat), None)
    if isinstance(first, str):
        raise DataError(
            f"y has levels such as '{first}': give whether the event happened, y == '{first}', or the number of the class, 0 to K - 1"
        )
    happened = finite_numbers(y, "y")
    pair = forecast.shape == happened.shape
    if not pair and forecast.shape[:-1] != happened.shape:
        raise DataError(
            f"y has shape {happened.shape} and the forecast {forecast.shape}: one probability of the event for each outcome, "
            "or one row of class probabilities"
        )
    full = _to_pairs(forecast) if pair else distributions(forecast)
    last = 1 if pair else full.shape[-1] - 1
    bad = (happened < 0) | (happened > last) | (happened % 1 != 0)
    kind = "0 or 1" if pair else f"a class 0 to {last}"
    hint = "; y comes first and the forecast second" * pair
    refuse_values(bad, f"an outcome is {kind}", "y", happened, hint)
    return Scored(happened.astype(int), full, pair)


def columns_by_name(values: Any) -> Any:
    """Return a table as a mapping from names to columns, and other values unchanged.

    >>> import pandas as pd
    >>> {name: list(column) for name, column in columns_by_name(pd.DataFrame({"a": [1.0, 2.0]})).items()}
    {'a': [1.0, 2.0]}
    """
    import narwhals as nw

    table = nw.from_native(values, eager_only=True, pass_through=True)
    return table.to_dict() if isinstance(table, nw.DataFrame) else values


def distributions(p: Array) -> Array:
    """Rows of K probabilities (..., K) that sum to one. DataError names the first other row and its sum."""
    tolerance = 1e-6  # the sum of the probabilities of a row may differ from 1 by this, also in single precision
    if p.shape[-1] < 2:
        raise DataError(
            f"class probabilities have two or more columns, got an array of shape {p.shape}"
        )
    inside = in_range(p)
    total = p.sum(-1)
    statement = "the class probabilities of a row sum to 1"
    hint = "; divide each row by its sum"
    refuse_values(np.abs(total - 1.0) > tolerance, statement, "their sum", total, hint)
    return inside


def both(truth: Any, forecast: Any) -> tuple[Array, Array, bool]:
    """Two forecasts of the same shape as distributions (..., K), and whether they were one number per row.

    More than one axis means rows of class probabilities, fewer the probability of the event.
    """
    same_rows(**{"the truth": truth, "the forecast": forecast})
    p = finite_numbers(truth, "the truth")
    h = finite_numbers(forecast, "the forecast")
    if p.shape != h.shape:
        raise DataError(
            f"the truth has shape {p.shape} and the forecast {h.shape}: expected equal shapes"
        )
    if p.ndim > 1:
        return (distributions(p), distributions(h), False)
    return (_to_pairs(p), _to_pairs(h), True)


def in_range(p: Array) -> Array:
    """Return probabilities, clipped for rounding errors. DataError names the row and value outside [0, 1]."""
    rounding = 1e-12  # sums of probabilities may leave [0, 1] by this
    bad = (p < -rounding) | (p > 1.0 + rounding)
    statement = "a probability lies between 0 and 1"
    refuse_values(bad, statement, "the forecast", p, "; 70 % is written 0.7")
    return np.clip(p, 0.0, 1.0)


def _to_pairs(p: Array) -> Array:
    inside = in_range(p)
    return np.stack([1.0 - inside, inside], -1)


def finite_numbers(values: Any, what: str) -> Array:
    """Finite floats of any shape. DataError names the first row with another value."""
    numbers = floats(values, what)
    hint = "; drop the row or complete it"
    refuse_values(~np.isfinite(numbers), f"{what} is finite", what, numbers, hint)
    return numbers


def positive_numbers(values: Any, what: str, *, above: float = 0.0) -> Array:
    """Finite floats greater than `above`."""
    numbers = finite_numbers(values, what)
    statement = f"{what} is greater than {above:g}"
    refuse_values(numbers <= above, statement, what, numbers)
    return numbers


def level(prob: Any) -> Array:
    """Probabilities strictly between 0 and 1."""
    value = finite_numbers(prob, "prob")
    bad = (value <= 0) | (value >= 1)
    statement = "prob lies strictly between 0 and 1"
    refuse_values(bad, statement, "prob", value, "; for 95 % write prob=0.95")
    return value


def alike(**arrays: Array) -> None:
    """Raise DataError unless these arrays broadcast against one another."""
    try:
        np.broadcast_shapes(*(a.shape for a in arrays.values()))
    except ValueError:
        shapes = ", ".join(f"{k} {a.shape}" for k, a in arrays.items())
        raise DataError(f"these do not belong to the same rows: {shapes}") from None


def frequencies(weights: Any, shape: tuple[int, ...]) -> Array:
    """Return frequency weights (n,), by default ones; they must be nonnegative and not all zero."""
    if weights is None:
        return np.ones(shape)
    w = finite_numbers(weights, "weights")
    if w.shape != shape:
        raise DataError(
            f"weights are one frequency per row: expected shape {shape}, got {w.shape}"
        )
    refuse_values(w < 0, "a frequency is not negative", "weights", w)
    if not w.sum() > 0:
        raise DataError("the weights sum to zero: no observation is left")
    return w


def refuse_values(
    bad: Array, statement: str, name: str, values: Array, hint: str = ""
) -> None:
    """Raise DataError for bad values, with a statement on valid values, the first bad value and a hint."""
    if bad.any():
        raise DataError(f"{statement}, and {first_bad(name, values, bad)}{hint}")


def first_bad(name: str, values: Array, bad: Array) -> str:
    """Describe the first bad value: `y is 2 in row 3`."""
    if values.ndim == 0:
        return f"{name} is {float(values):g}"
    place = np.argwhere(bad)[0]
    column = f", column {place[1]}" if len(place) > 1 else ""
    return f"{name} is {values[tuple(place)]:g} in row {place[0]}{column} ({int(bad.sum())} such)"
