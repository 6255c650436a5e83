"""Read censored responses: times with an indicator, intervals, and values with a limit, as lower and upper ends of each row."""

from dataclasses import dataclass

import numpy as np

from probreg.arguments.arrays import floats, same_rows
from probreg.arguments.scalars import ArrayLike
from probreg.errors import DataError, require_rows, row_error

Array = np.ndarray
_FORMS = "write cens(time, event=...) for an indicator of 0 and 1, or cens(lower=..., upper=...) for the ends of an interval"


@dataclass(frozen=True, eq=False)
class CensoredResponse:
    """A censored response as lower and upper ends (n, 2); `censored` makes it."""

    ends: Array

    def __len__(self) -> int:
        return len(self.ends)


def censored(
    y: ArrayLike | None = None,
    event: ArrayLike | None = None,
    *,
    lower: ArrayLike | None = None,
    upper: ArrayLike | None = None,
) -> CensoredResponse:
    """A censored response for `Model.from_arrays`: times with an indicator, intervals, or values with a limit.

    Parameters
    ----------
    y : array (n,), optional
        Responses, such as times.
    event : array (n,), optional
        True or 1 if y is exact, False or 0 if it is right censored at y.
    lower : float or array (n,), optional
        With y: a limit at and below which y is censored. Without y: the lower end of an interval in each row, equal to `upper` if the
        response is exact, and -inf or nan for none.
    upper : float or array (n,), optional
        The same on the other side.

    Returns
    -------
    CensoredResponse
        The response.

    Raises
    ------
    DataError
        For an indicator with other values, or ends that are no interval.

    Examples
    --------
    >>> censored([2.0, 3.0], [True, False]).ends
    array([[ 2.,  2.],
           [ 3., inf]])
    """
    given = {"y": y, "event": event, "lower": lower, "upper": upper}
    same_rows(**given)
    parts = {
        k: v if isinstance(v, np.ndarray) and v.dtype == bool else floats(v, f"{k}=")
        for k, v in given.items()
        if v is not None
    }
    lengths = {f"{k}=": len(v) for k, v in parts.items() if v.shape not in ((), (1,))}
    n = max(lengths.values(), default=max((v.size for v in parts.values()), default=0))
    if len(set(lengths.values())) > 1 or any(v.ndim > 1 for v in parts.values()):
        shapes = ", ".join(f"{k}= {v.shape}" for k, v in parts.items())
        raise DataError(
            f"a censored response has one number per row in each part, got shapes {shapes}"
        )
    return CensoredResponse(
        response_ends({k: np.broadcast_to(v, (n,)) for k, v in parts.items()})
    )


def response_ends(parts: dict[str, Array]) -> Array:
    """Return ends (n, 2) from the arrays (n,) `y` and `event`, `y` with `lower` or `upper` limits, `lower` and `upper`, or `y` and
    `second`, which is an indicator if it is Boolean or 0 and 1, else an upper end."""
    if "second" in parts:
        parts = _resolve_second(parts["y"], parts["second"])
    if set(parts) == {"y", "event"}:
        return _right_censored(parts["y"], parts["event"])
    if "y" in parts and not parts.keys() - {"y", "lower", "upper"} and len(parts) > 1:
        return _censor_at_limits(parts["y"], parts.get("lower"), parts.get("upper"))
    if set(parts) == {"lower", "upper"}:
        low, high = parts["lower"].astype(float), parts["upper"].astype(float)
        low = np.where(np.isnan(low), -np.inf, low)
        high = np.where(np.isnan(high), np.inf, high)
        _require(low <= high, "has lower = {:g} above upper = {:g}", low, high)
        unknown = np.isinf(low) & np.isinf(high)
        _require(
            ~unknown, "has no finite end ({:g}, {:g}): leave the row out", low, high
        )
        return np.stack([low, high], 1)
    raise DataError(
        f"a censored response has {', '.join(parts) or 'no parts'}; expected y and event, y with lower= or upper=, or lower and upper"
    )


def _resolve_second(first: Array, second: Array) -> dict[str, Array]:
    values = second.astype(float)
    if second.dtype == bool:
        return {"y": first, "event": second}
    indicator = bool(np.isin(values[~np.isnan(values)], (0.0, 1.0)).all())
    low = np.where(np.isnan(first), -np.inf, first)
    high = np.where(np.isnan(values), np.inf, values)
    interval = bool((low <= high).all())
    if indicator and interval:
        raise DataError(
            f"cens(a, b): b holds only 0 and 1, and is nowhere below a, so that it may be an indicator or an upper end; {_FORMS}"
        )
    if indicator:
        return {"y": first, "event": second}
    if interval:
        return {"lower": first, "upper": second}
    bad = int(np.flatnonzero(low > high)[0])
    raise row_error(
        "cens(a, b): b is an indicator of 0 and 1, or an upper end that is not below a; ",
        bad,
        f" has a = {low[bad]:g} and b = {high[bad]:g}. For a status of other codes write cens(time, status == 2), with the code of an event",
    )


def _right_censored(time: Array, event: Array) -> Array:
    values = event.astype(float)
    valid = np.isin(values, (0.0, 1.0))
    _require(
        valid,
        "has event = {:g}: an indicator is True or False, 1 for an event and 0 for a censored row; for other codes write event=(status == 2)",
        values,
    )
    _require(np.isfinite(time), "has time = {:g}: expected a finite number", time)
    return np.stack([time, np.where(values == 1.0, time, np.inf)], 1)


def _censor_at_limits(y: Array, lower: Array | None, upper: Array | None) -> Array:
    _require(np.isfinite(y), "has y = {:g}: expected a finite number", y)
    if lower is not None and upper is not None:
        _require(lower < upper, "has limits {:g} and {:g}", lower, upper)
    low = np.full(len(y), -np.inf) if lower is None else lower
    high = np.full(len(y), np.inf) if upper is None else upper
    below = y <= low
    above = y >= high
    lower_ends = np.select([above, below], [high, -np.inf], y)
    upper_ends = np.select([above, below], [np.inf, low], y)
    return np.stack([lower_ends, upper_ends], 1).astype(float)


def _require(valid: Array, message: str, *values: Array) -> None:
    after = f" of the censored response {message} ({{rows}})"
    require_rows(valid, "", after, *values)
