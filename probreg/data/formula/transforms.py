"""Transforms that learn from the training rows: polynomials, splines, centring and scaling.

Each takes x (n,), its state and counts (n,), and then the options of the formula. An empty state is filled from these rows, where
row i represents counts_i equal rows; a filled state is only read.
"""

from collections.abc import Callable, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from probreg.errors import DataError

Array = np.ndarray
State = MutableMapping[str, Any]


@dataclass(frozen=True, eq=False)
class FactorColumns:
    """Columns of a factor: `values` (n, q), or (L, q) by level with the level of each row in `codes`.

    `names` are written in brackets after the factor, except None for a single column. A smooth function or a process has `inputs` (n, d).
    """

    names: tuple[str | None, ...]
    values: Array
    codes: Array | None = None
    inputs: Array | None = None

    @classmethod
    def number_columns(cls, values: Array) -> "FactorColumns":
        """Return the columns called 1, 2, ..."""
        return cls(tuple(str(1 + j) for j in range(values.shape[1])), values)

    def column(self, j: int) -> Array:
        """Column j at every row (n,)."""
        if self.codes is None:
            return self.values[:, j]
        return self.values[self.codes, j]

    def name(self, factor: str, j: int) -> str:
        """The name of column j of a factor ("g[T.b]")."""
        return factor if self.names[j] is None else f"{factor}[{self.names[j]}]"


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
        ordered[np.searchsorted(ends, position, side="right")]
        for position in (np.floor(place), np.ceil(place))
    )
    return below + (place - np.floor(place)) * (above - below)


def scale(x: Array, state: State, counts: Array) -> Array:
    """Return (x - mean) / standard deviation, both of the training rows."""
    if not state:
        mean = np.average(x, weights=counts)
        squares = counts @ (x - mean) ** 2
        sd = np.sqrt(squares / (counts.sum() - 1.0))
        state.update(center=float(mean), scale=float(sd or 1.0))
    return (x - state["center"]) / state["scale"]


def center(x: Array, state: State, counts: Array) -> Array:
    """Return x minus its mean over the training rows."""
    if not state:
        state.update(center=float(np.average(x, weights=counts)))
    return x - state["center"]


def poly(
    x: Array, state: State, counts: Array, degree: int = 1, raw: bool = False
) -> FactorColumns:
    """Return polynomials that are orthonormal over the training rows, or the powers of x.

    P_(k+1) = (x - alpha_k) P_k - norm_k / norm_(k-1) P_(k-1), each divided by the root of its norm |P_k|^2.
    """
    if raw:
        return FactorColumns.number_columns(
            np.stack([x**k for k in range(1, degree + 1)], 1)
        )
    training = not state
    if training:
        _require_different(x[counts > 0.0], degree + 1)
        state.update(alpha=[], norms=[float(counts.sum())])
    alpha = state["alpha"]
    norms = state["norms"]
    P = [np.ones(len(x))]
    for k in range(degree):
        if training:
            alpha.append(float(counts @ (x * P[k] ** 2)) / norms[k])
        P.append((x - alpha[k]) * P[k])
        if k:
            P[-1] -= norms[k] / norms[k - 1] * P[k - 1]
        if training:
            norms.append(float(counts @ P[-1] ** 2))
    return FactorColumns.number_columns(np.stack(P[1:], 1) / np.sqrt(norms[1:]))


def _require_different(x: Array, least: int) -> None:
    """Raise DataError for fewer than `least` different values."""
    values = np.unique(x)
    if len(values) < least:
        shown = ", ".join(f"{value:g}" for value in values)
        raise DataError(f"expected {least} different values or more, got {shown}")


def bs(
    x: Array, state: State, counts: Array, df: int | None = None, knots: Sequence[float] | None = None, degree: int = 3,
    include_intercept: bool = False, lower_bound: float | None = None, upper_bound: float | None = None,
    extrapolation: str = "raise",
) -> FactorColumns:  # fmt: skip
    """Return B-splines without the first, since their sum is 1."""
    from scipy.interpolate import BSpline

    if include_intercept is not False:
        raise DataError(
            "include_intercept must be False: a formula with an intercept and df smaller by 1 has the same curves"
        )
    if not state:
        n_inner = None if df is None else df - degree
        bounds = (lower_bound, upper_bound)
        state["knots"] = _choose_knots(x, counts, n_inner, knots, bounds)
    padded = np.pad(state["knots"], degree, mode="edge")
    spline = BSpline(padded, np.eye(len(padded) - degree - 1), degree)
    B = _evaluate_spline(spline, x, state, extrapolation)
    return FactorColumns.number_columns(B[:, 1:])


def _choose_knots(
    x: Array, counts: Array, n_inner: int | None, knots: Sequence[float] | None,
    bounds: tuple[float | None, float | None],
) -> list[float]:  # fmt: skip
    """Return the bounds, by default the ends of the rows, with the inner knots between them: as given, or quantiles of the rows within."""
    if bounds == (None, None):
        _require_different(x, 2)
    low = float(x.min() if bounds[0] is None else bounds[0])
    high = float(x.max() if bounds[1] is None else bounds[1])
    if n_inner is not None and knots is not None:
        raise DataError("expected df or knots, not both")
    if n_inner is not None and n_inner < 0:
        raise DataError(f"df is too small: expected {-n_inner} more")
    inner = np.sort(np.asarray(knots or [], dtype=float))
    inside = (x >= low) & (x <= high)
    if n_inner and inside.any():
        shares = np.linspace(0.0, 1.0, n_inner + 2)[1:-1]
        inner = weighted_quantiles(x[inside], counts[inside], shares)
    all_knots = [low, *inner.tolist(), high]
    if all_knots != sorted(all_knots) or low == high:
        raise DataError(f"expected knots between the bounds {low:g} and {high:g}")
    return all_knots


def _evaluate_spline(
    spline: Callable[[Array], Array], x: Array, state: State, extrapolation: str
) -> Array:
    """Return the columns of a spline at x; `extrapolation` gives the rule beyond the outer knots."""
    if extrapolation not in ("raise", "clip", "extend", "zero"):
        raise DataError("extrapolation is 'raise', 'clip', 'extend' or 'zero'")
    nearest = np.clip(x, state["knots"][0], state["knots"][-1])
    if extrapolation == "clip":
        x = nearest
    B = spline(x)
    if extrapolation == "zero":
        B[x != nearest] = 0.0
    return B


def cubic(
    x: Array, state: State, counts: Array, df: int | None = None, knots: Sequence[float] | None = None,
    lower_bound: float | None = None, upper_bound: float | None = None, extrapolation: str = "raise",
    constraints: str = "", *, cyclic: bool, centred: bool,
) -> FactorColumns:  # fmt: skip
    """Return cubic splines that are 1 at one knot and 0 at the others.

    If they are `centred`, they sum to zero over the training rows: C beta = 0 of their coefficients, C the means. Source: Wood
    2017, section 5.3.1.
    """
    if df is None and knots is None:
        raise DataError("a cubic spline takes df or knots")
    if constraints != "" and not (centred and constraints == "center"):
        raise DataError(
            "constraints must be 'center', in a formula with an intercept; without an intercept the columns are not centred"
        )
    if not state:
        n_inner = None if df is None else df - 2 + int(centred) + int(cyclic)
        distinct = np.unique(x)
        state["knots"] = _choose_knots(
            distinct, np.ones(len(distinct)), n_inner, knots, (lower_bound, upper_bound)
        )
    spline = _cardinal_spline(np.asarray(state["knots"]), cyclic=cyclic)
    B = _evaluate_spline(spline, x, state, extrapolation)
    if not centred:
        return FactorColumns.number_columns(B)
    if "means" not in state:
        state["means"] = np.average(B, axis=0, weights=counts).tolist()
    # beta = Z gamma, Z an orthonormal basis of the null space of C
    C = np.array([state["means"]])
    Z = np.linalg.qr(C.T, mode="complete")[0][:, 1:]
    return FactorColumns.number_columns(B @ Z)


def _cardinal_spline(knots: Array, *, cyclic: bool) -> Callable[[Array], Array]:
    """Return the interpolating splines of the unit vectors; natural ones are straight lines beyond the outer knots."""
    from scipy.interpolate import CubicSpline

    if cyclic:
        unit = np.eye(len(knots) - 1)
        return CubicSpline(knots, np.vstack([unit, unit[:1]]), bc_type="periodic")
    natural = CubicSpline(knots, np.eye(len(knots)), bc_type="natural")

    def extend_linearly(x: Array) -> Array:
        edge = np.clip(x, knots[0], knots[-1])
        return natural(edge) + (x - edge)[:, None] * natural(edge, 1)

    return extend_linearly


TRANSFORMS: dict[str, Callable[..., Array | FactorColumns]] = {
    "poly": poly, "bs": bs, "cr": partial(cubic, cyclic=False), "cc": partial(cubic, cyclic=True), "scale": scale,
    "center": center,
}  # fmt: skip
