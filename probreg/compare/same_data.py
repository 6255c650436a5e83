"""Whether fits describe the same observations, so that their log densities are of one quantity."""

from typing import Any

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.fit import Fit

Array = np.ndarray


def refuse_other_data(base: str, first: Fit, name: str, other: Fit) -> None:
    """DataError with the first thing in which the observations of two fits differ; Incompatible for a density beside
    probabilities. Columns, priors, offsets and methods may differ: those are what is compared."""
    for which, fit in ((base, first), (name, other)):
        if not fit.model.design.n:
            raise DataError(f"{which!r} was saved without its rows: save it with rows=True to compare models")
    d, e = first.model.design, other.model.design
    pair = f"{base!r} and {name!r} cannot be compared"
    if d.response != e.response:
        raise DataError(
            f"{pair}: they model {d.response} and {e.response}. Log densities of different quantities are not comparable: "
            "give both models the same response"
        )
    if (d.n, d.total) != (e.n, e.total):
        raise DataError(
            f"{pair}: their rows are not the same data, {_size(first)} against {_size(other)}. Fit both to the same rows; "
            "missing='drop' leaves out other rows where other columns are used"
        )
    for what, x, y in (("response", _outcome(first), _outcome(other)), ("weights", _weights(first), _weights(other))):
        if not np.array_equal(x, y):
            where = int(np.argmax(x != y))
            raise DataError(
                f"{pair}: their rows are not the same data, the {what} of row {where} is {x[where]} against {y[where]}"
            )
    if isinstance(first.model.likelihood.support, str) != isinstance(other.model.likelihood.support, str):
        raise Incompatible(
            f"{pair}: a {first.model.likelihood.name} and a {other.model.likelihood.name} likelihood. One gives densities, "
            "the other probabilities of single values, and their logarithms differ by the unit of the response"
        )


def _outcome(fit: Fit) -> Array:
    """The response in its own levels, whichever of them is the event or the reference."""
    y, levels = fit.model.design.observed, fit.model.likelihood.levels
    if not levels:
        return y
    named: Any = np.empty(len(levels), dtype=object)
    named[:] = [str(v) for v in levels]
    return named[y.astype(int)]


def _weights(fit: Fit) -> Array:
    d = fit.model.design
    return np.ones(d.n) if d.weights is None else d.weights


def _size(fit: Fit) -> str:
    d = fit.model.design
    return f"{d.n} rows" + ("" if d.weights is None else f" (weight {d.total:g})")
