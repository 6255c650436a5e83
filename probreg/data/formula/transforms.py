"""What the stateful transforms of a formula learn from rows that count several times, each as that many copies.

formulaic computes the transforms and learns from rows that count once. The states below have the form of its own.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from probreg.errors import DataError

Array = np.ndarray
Learning = Callable[[Array, Array, Mapping[str, Any]], dict[str, Any]]


def transform(name: str) -> Callable[..., Any]:
    """The transform of formulaic that a formula calls `name`."""
    from formulaic.transforms import (
        basis_spline,
        center,
        cyclic_cubic_spline,
        natural_cubic_spline,
        poly,
        scale,
    )

    known = {"bs": basis_spline, "cr": natural_cubic_spline, "cc": cyclic_cubic_spline}
    known |= {"poly": poly, "scale": scale, "center": center}
    return known[name]


def named_arguments(
    name: str,
    arguments: Sequence[Any],
    words: Mapping[str, Any],
    *,
    centred: bool = True,
) -> dict[str, Any]:
    """The arguments of a transform after its column, by name; where splines are `centred`, a cubic one is, unless `constraints` says
    otherwise.

    >>> named_arguments("cr", [5], {})
    {'constraints': 'center', 'df': 5}
    """
    try:
        bound = inspect.signature(transform(name)).bind(None, *arguments, **words)
    except TypeError as error:
        raise DataError(f"{name}: {error}") from None
    given = dict(list(bound.arguments.items())[1:])
    # without the constraint the columns sum to 1, as the intercept does
    if name in ("cr", "cc") and centred:
        return {"constraints": "center", **given}
    return given


def learned_state(
    name: str, x: Array, counts: Array, words: Mapping[str, Any]
) -> dict[str, Any]:
    """The state of a transform at x (n,), row i of which stands for counts_i equal rows."""
    return _LEARNING[name](x, counts, words)


def weighted_quantiles(x: Array, counts: Array, shares: Array) -> Array:
    """The quantiles of x (n,) with counts_i copies of x_i, linear between order statistics as `numpy.quantile`.

    >>> weighted_quantiles(np.array([1.0, 2.0]), np.array([3.0, 1.0]), np.array([0.5, 1.0]))
    array([1., 2.])
    """
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    ends = np.cumsum(counts[order])
    place = shares * (ends[-1] - 1.0)
    below, above = (
        ordered[np.searchsorted(ends, at, side="right")]
        for at in (np.floor(place), np.ceil(place))
    )
    return np.asarray(below + (place - np.floor(place)) * (above - below))


def _learn_poly(x: Array, counts: Array, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return monic orthogonal polynomials under the weights: P_k = (x - alpha_(k-1)) P_(k-1) - norm_(k-1)/norm_(k-2) P_(k-2)."""
    if words.get("raw", False):
        return {}
    alpha = dict[int, float]()
    norms = dict[int, float]()
    before = np.zeros(len(x))
    P = np.ones(len(x))
    for k in range(words.get("degree", 1) + 1):
        norms[k] = float(counts @ P**2)
        alpha[k] = float(counts @ (x * P**2)) / norms[k]
        ratio = norms[k] / norms[k - 1] if k else 0.0
        before, P = P, (x - alpha[k]) * P - ratio * before
    del alpha[max(alpha)]
    return {"alpha": alpha, "norms2": norms}


def _learn_scale(x: Array, counts: Array, words: Mapping[str, Any]) -> dict[str, Any]:
    center = words.get("center", True)
    scale = words.get("scale", True)
    ddof = words.get("ddof", 1)
    if center is True:
        mean = float(np.average(x, weights=counts))
    elif center is False:
        mean = None
    else:
        mean = center
    about = x if mean is None else x - mean
    if scale is True:
        scale = float(np.sqrt(counts @ about**2 / (counts.sum() - ddof)))
    return {"ddof": ddof, "center": mean, "scale": None if scale is False else scale}


def _learn_center(x: Array, counts: Array, words: Mapping[str, Any]) -> dict[str, Any]:
    return _learn_scale(x, counts, {"scale": False})


def _learn_bs(x: Array, counts: Array, words: Mapping[str, Any]) -> dict[str, Any]:
    state = dict[str, Any]()
    transform("bs")(
        x, _state=state, **words
    )  # bounds, and knots that rows of any count have
    if words.get("df"):
        low = state["lower_bound"]
        high = state["upper_bound"]
        degree = words.get("degree", 3)
        if words.get("extrapolation", "raise") != "extend":
            inside = (x >= low) & (x <= high)
        else:
            inside = np.ones(len(x), dtype=bool)
        shares = np.linspace(0.0, 1.0, len(state["knots"]) - 2 * degree)[1:-1]
        inner = weighted_quantiles(x[inside], counts[inside], shares)
        state["knots"] = np.pad([low, *inner, high], degree, mode="edge").tolist()
    return state


def _learn_cubic(name: str) -> Learning:
    """Knots are quantiles of the distinct values; a centring constraint is the mean of the columns over rows."""

    def learn(x: Array, counts: Array, words: Mapping[str, Any]) -> dict[str, Any]:
        state = dict[str, Any]()
        of = transform(name)
        of(x, _state=state, **words)
        if words.get("constraints") == "center":
            columns = of(x, _state={**state, "constraints": None}, **words)
            free = np.column_stack(
                list(getattr(columns, "__wrapped__", columns).values())
            )
            state["constraints"] = np.average(free, axis=0, weights=counts)[None]
        return state

    return learn


_LEARNING: dict[str, Learning] = {
    "poly": _learn_poly, "scale": _learn_scale, "center": _learn_center, "bs": _learn_bs, "cr": _learn_cubic("cr"),
    "cc": _learn_cubic("cc"),
}  # fmt: skip
