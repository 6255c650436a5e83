"""The sufficient statistics of the rows of a Gaussian model, which can be merged, subtracted and saved, and how their columns and response are made.

If the first column is all ones, sums of squares are about the means: the factor of the columns less their means is
equal to the factor of the columns, except for its first row.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probreg.data.weights import WeightKind
from probreg.errors import DataError, warn_caller
from probreg.linalg import (
    EXTENDED,
    ColumnRank,
    condition_of,
    downdate,
    factor_of,
    merge,
    rank_of,
    reduce_rows,
    row_blocks,
    solve_upper,
    triangular,
)
from probreg.system.disk import read_plain, write_whole
from probreg.system.terminal import few_names
from probreg.tables.render import PrintsLines

FORMAT = "probreg moments 1"
_SEAL = b',\n "sha256": "%s"\n}'  # the last member of the JSON: the digest of all bytes before it
_ARRAY = "array"  # key of a JSON table that represents an array


@dataclass(frozen=True)
class Origin:
    """The recipe of the columns and the response of moments; moments can be added if their origins are equal.

    `recipe` is the recipe of the columns as JSON text: levels, means, knots, no rows. `offset` is True if y is less an offset.
    """

    recipe: str
    response: str
    offset: bool
    weights: WeightKind

    @classmethod
    def of(
        cls, recipe: Any, response: str, *, offset: bool, weights: WeightKind
    ) -> Self:
        """Return the origin of the columns of a recipe."""
        return cls(
            json.dumps(recipe.to_json(), default=_encode_array, sort_keys=True),
            response,
            offset,
            weights,
        )

    def saved_recipe(self) -> Any:
        """Return the recipe as `to_json` gave it."""
        return json.loads(self.recipe, object_hook=_restore_array)

    def with_groups(self, states: Mapping[str, Any], columns: Sequence[str]) -> Self:
        """Return the origin with other states of terms with varying effects, by term, and the names of all columns."""
        recipe = self.saved_recipe()
        recipe["state"]["transforms"] |= states
        recipe["columns"] = list(columns)
        return replace(
            self, recipe=json.dumps(recipe, default=_encode_array, sort_keys=True)
        )

    def require_same(self, other: "Origin") -> None:
        """Raise DataError if the origins differ in anything but the levels of groups."""
        if _comparable(self.recipe) != _comparable(other.recipe):
            raise DataError(
                "these moments have columns with different levels, means or knots, so that they cannot be combined. "
                "Build the second by Model.from_moments(first).at(rows)"
            )
        for name in ("response", "offset", "weights"):
            if getattr(self, name) != getattr(other, name):
                raise DataError(
                    f"moments with {name} {getattr(self, name)!r} and {getattr(other, name)!r} cannot be combined; give both the same"
                )


def _comparable(recipe: str) -> dict[str, Any]:
    """Return the recipe without groups and weights, and without spaces outside quotes or backticks in its formulas."""
    content: dict[str, Any] = json.loads(recipe)
    # a column that only new rows need; the kind of the weights is compared separately
    content.pop("weights", None)
    states = _grouped_states(content)
    for state in states:
        del state["levels"]
    if states:
        # these name the groups; the columns of the head are compared with the moments
        content.pop("columns", None)
    for name in ("formula", "offset"):
        if isinstance(content.get(name), str):
            content[name] = re.sub(
                r"""("[^"]*"|'[^']*'|`[^`]*`)|\s+""", r"\1", content[name]
            )
    return content


def _grouped_states(recipe: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the states of the terms of a formula with varying effects."""
    if recipe.get("kind") != "formula":
        return []
    states = recipe["state"]["transforms"].values()
    return [state for state in states if state.get("kind") == "grouped"]


# ---- the file ------------------------------------------------------------------------------------------------------


def write_moments(
    path: str | Path, arrays: Mapping[str, Any], origin: Origin | None
) -> Path:
    """Write arrays and origin of moments as JSON, which keeps every bit of a float."""
    from probreg import __version__

    content: dict[str, Any] = {"format": FORMAT, "version": __version__, **arrays}
    for name, values in arrays.items():
        if isinstance(values, np.ndarray):
            content[name] = values.tolist()
    if origin is None:
        content["origin"] = None
    else:
        content["origin"] = asdict(origin) | {"recipe": json.loads(origin.recipe)}
    return write_whole(path, seal_json(content))


def seal_json(content: Mapping[str, Any]) -> bytes:
    """Return plain data as JSON; the last member is the SHA-256 of the bytes before it.

    >>> seal_json({"n": 1}).decode().splitlines()[1]
    ' "n": 1,'
    """
    body = json.dumps(content, indent=1).encode().removesuffix(b"\n}")
    return body + _SEAL % hashlib.sha256(body).hexdigest().encode()


def read_verified_json(path: str | Path) -> dict[str, Any]:
    """Return the content of a file of moments. DataError for another format, and if the digest does not match the bytes."""
    data = read_plain(path)
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} holds no moments: {error}") from None
    body = data[: -len(_SEAL % (b"0" * 64))]
    sealed = body + _SEAL % hashlib.sha256(body).hexdigest().encode()
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path} holds no moments: expected the format {FORMAT!r}")
    if data != sealed:
        raise DataError(
            f"{path} was changed since it was saved: its digest is missing or differs. Save the moments again"
        )
    return content


def _encode_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return {_ARRAY: value.tolist()}
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written")


def _restore_array(table: dict[str, Any]) -> Any:
    if set(table) != {_ARRAY}:
        return table
    return np.asarray(table[_ARRAY], dtype=float)


Array = NDArray[Any]
MAX_COLUMNS = 10_000  # columns: a matrix of this many rows and columns takes 0.8 GB, and about ten are needed
MOMENT_ARRAYS = (
    "factor", "factor_low", "n", "weight", "columns", "mean", "scale", "y", "log_precision",
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class Moments(PrintsLines):
    """The sufficient statistics of y ~ N(X beta, sigma^2 / w): the triangular factor F of sqrt(w) [X y].

    F'F = [X y]' diag(w) [X y], and F = [[R, z], [0, sqrt(RSS)]] with R (p, p) and z = Q'y (p,), so that
    RSS(beta) = RSS + ||z - R beta||^2 (Bjorck, Numerical Methods for Least Squares Problems, ch. 2). `n` counts rows and
    `weight` adds up their weights (n when there are none): a weight is a number of copies of its row. `means`, `scales`
    (p + 1,) of [X y] are weighted means and standard deviations, sums of squares divided by `weight`.
    Precisions (noise variance sigma^2 / precision) are in F only, each row counts once, and their logs are in
    `log_precision` = sum_i w_i log(precision_i), twice their term of log p. `origin` describes how the columns are made,
    for moments of a model; moments of two models can be added if their origins are equal.

    >>> m = Moments.of([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]], [5.0, 7.0, 9.0], columns=["const", "x"])
    >>> m.least_squares()[0].round(12), round(m.rss, 12)
    (array([1., 2.]), 0.0)
    """

    factor: Array
    n: int
    weight: float
    columns: tuple[str, ...]
    means: Array
    scales: Array
    log_precision: float = 0.0
    origin: Origin | None = None

    @property
    def _summary_lines(self) -> list[str]:
        """Return the lines of its print: rows, weight, columns, mean and standard deviation of the response."""
        if self.weight == self.n:
            weight = ""
        else:
            weight = f" of weight {self.weight:.6g}"
        return [
            f"Moments: the sufficient statistics of {self.n} rows{weight} and {self.p} columns",
            f"columns: {few_names(self.columns)}",
            f"response: mean {self.y_mean:.5g}, standard deviation {self.y_scale:.5g}",
        ]

    @classmethod
    def of(
        cls, X: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None, precision: ArrayLike | None = None,
        columns: Sequence[str],
    ) -> Self:  # fmt: skip
        """Compute the moments of the rows of X (n, p) and y (n,) with weights (n,) >= 0, or with precisions (n,) > 0.

        Raises DataError if a square is not finite.

        >>> Moments.of([[1.0], [1.0]], [0.0, 2.0], columns=["const"]).y_mean
        1.0
        """
        X = np.asarray(X)
        y = np.asarray(y)
        columns = tuple(columns)
        refuse_too_wide(len(columns))
        r = reduce_rows(X, y, weights=weights)
        if not np.all(np.isfinite(r.factor)):
            raise DataError(
                "the squares of X, y or the weights are not finite: state the columns in another unit"
            )
        factor = r.factor
        if factor.dtype != np.longdouble and _of_ones(r.mean, r.scale):
            factor = _by_centred_rows(X, y, weights, factor, r.mean)
        moments = cls(factor, len(X), r.weight, columns, r.mean, r.scale)
        if precision is None:
            return moments
        # means and standard deviations count each row once
        copies = np.ones(len(X)) if weights is None else np.asarray(weights, float)
        precisions = np.asarray(precision, dtype=float)
        weighted = cls.of(X, y, weights=copies * precisions, columns=columns)
        log_precision = float(copies @ np.log(precisions))
        return replace(moments, factor=weighted.factor, log_precision=log_precision)

    def times(self, unit: float) -> Self:
        """The moments with every weight multiplied by `unit`."""
        # F'F are sums of weights times squares.
        return replace(
            self, factor=self.factor * np.sqrt(unit), weight=self.weight * unit
        )

    @property
    def mean(self) -> Array:
        """The means of the columns of X, (p,)."""
        return self.means[:-1]

    @property
    def scale(self) -> Array:
        """The standard deviations of the columns of X, (p,)."""
        return self.scales[:-1]

    @property
    def y_mean(self) -> float:
        """The mean of y."""
        return float(self.means[-1])

    @property
    def y_scale(self) -> float:
        """The standard deviation of y."""
        return float(self.scales[-1])

    @property
    def p(self) -> int:
        """Number of columns of X."""
        return len(self.factor) - 1

    @property
    def R(self) -> Array:
        """The triangular factor of sqrt(w) X, (p, p)."""
        return self.factor[:-1, :-1]

    @property
    def z(self) -> Array:
        """Q'y, the coordinates of y in the span of X, (p,)."""
        return self.factor[:-1, -1]

    @cached_property
    def rss(self) -> float:
        """The least residual sum of squares, weighted."""
        dropped = self._kept_system[1][len(self.rank.kept) :]
        # RSS = F_(p+1, p+1)^2 plus the squares of z outside the span of the kept columns.
        return float(self.factor[-1, -1] ** 2 + dropped @ dropped)

    def rss_at(self, beta: Array) -> Array:
        """|y - X beta|^2 (...), weighted, of beta (..., p)."""
        r = beta @ np.asarray(self.R, dtype=float).T - np.asarray(self.z, dtype=float)
        return np.asarray(float(self.factor[-1, -1]) ** 2 + (r**2).sum(-1))

    @property
    def gram(self) -> tuple[Array, Array, float]:
        """X'WX (p, p), X'Wy (p,) and y'Wy."""
        G = np.asarray(self.factor.T @ self.factor, dtype=float)
        return G[:-1, :-1], G[:-1, -1], float(G[-1, -1])

    @cached_property
    def rank(self) -> ColumnRank:
        """The columns of X that are combinations of earlier ones; see `probreg.linalg.rank_of`."""
        return rank_of(self.R)

    @cached_property
    def _kept_system(self) -> tuple[Array, Array]:
        """R of the kept columns, and z on their axes followed by the part of z that they do not reach."""
        if not self.rank.dropped:
            return self.R, self.z
        k = self.rank.rank
        F = triangular(self.factor[:-1][:, [*self.rank.kept, self.p]])
        return F[:k, :k], F[:, k]

    def least_squares(self) -> tuple[Array, ColumnRank]:
        """The least-squares coefficients (p,), zero for the columns that `ColumnRank.dropped` names, and the rank.

        >>> Moments.of([[1.0, 1.0], [1.0, 1.0]], [2.0, 4.0], columns=["a", "b"]).least_squares()[0].tolist()
        [3.0, 0.0]
        """
        R, z = self._kept_system
        beta = np.zeros(self.p)
        # R beta = z, the normal equations R'R beta = R'z after Q.
        if len(R):
            beta[list(self.rank.kept)] = solve_upper(R, z[: len(R)])
        return beta, self.rank

    def __add__(self, other: "Moments") -> Self:
        """The moments of both sets of rows."""
        self._same_columns(other)
        centre = self._pool(other, 1, self.factor)._centre
        F1 = _shift_factor(self.factor, -centre)
        F2 = _shift_factor(other.factor, -centre)
        return self._pool(other, 1, _shift_factor(merge(F1, F2), centre))

    def __sub__(self, other: "Moments") -> Self:
        """Return the moments without the other's rows; DataError if the other's rows cannot be a part of these rows.

        Warns if the difference of sums of squares has fewer than eight digits left.
        """
        self._same_columns(other)
        if self.n < other.n or self.weight * (1 + 1e-9) < other.weight:
            raise DataError(
                f"cannot subtract {other.n} rows of weight {other.weight:g} from {self.n} rows of weight "
                f"{self.weight:g}; subtract only rows that were added before."
            )
        centre = self._centre
        F1 = _shift_factor(self.factor, -centre)
        F2 = _shift_factor(other.factor, -centre)
        try:
            factor = downdate(F1, F2)
        except ValueError as error:
            raise DataError(
                f"the rows to subtract were not among these rows: {error}."
            ) from error
        if self.n == other.n:
            return self._pool(other, -1, np.zeros_like(factor))
        return self._pool(
            other, -1, _shift_factor(self._warn_of_lost_digits(F1, factor), centre)
        )

    def _warn_of_lost_digits(self, before: Array, after: Array) -> Array:
        """Return the factor G after a subtraction without rounding noise. Warn if the difference of squares G_jj^2 = F_jj^2 - ...
        lost digits, and name the column that lost the most."""
        # relative error of a difference of squares: eight digits are left
        max_error = 1e-8
        old, new = (np.abs(np.diagonal(F)).astype(float) for F in (before, after))
        # others were combinations before
        had = old > 1e-10 * np.linalg.norm(before.astype(float), axis=0)
        ratio = np.divide(new, old, where=had, out=np.ones_like(old))
        relative_error = np.finfo(float).eps / np.maximum(ratio, 1e-9) ** 2
        if relative_error[j := int(np.argmax(relative_error))] > max_error:
            digits = max(int(-np.log10(relative_error[j])), 0)
            name = [*self.columns, "the response"][j]
            warn_caller(
                f"moments: subtracting left {digits} of 16 digits in {name}; take the moments of the rows that stay"
            )
        rounding = relative_error >= 1.0
        return np.where(
            rounding[:, None] | (rounding & (np.abs(after) <= 1e-7 * old)), 0, after
        )

    @property
    def _centre(self) -> Array:
        """The means (p + 1,) of y and all columns except the first, if the first is all ones; else zeros."""
        if _of_ones(self.means, self.scales):
            return np.r_[0.0, self.means[1:]]
        return np.zeros_like(self.means)

    def _pool(self, other: "Moments", sign: int, factor: Array) -> Self:
        """Return means and standard deviations with the other's rows added (sign 1) or subtracted (-1).

        Chan, Golub and LeVeque (1983).
        """
        a = self.weight
        b = sign * other.weight
        total = max(a + b, 0.0)
        if total == 0.0:  # no row is left: mean and scale do not exist
            means = scales = np.zeros_like(self.means)
        else:
            means = (a * self.means + b * other.means) / total
            # S = S_1 + S_2 + a b / (a + b) (m_2 - m_1)^2 of the sums of squares about the means.
            square = a * self.scales**2 + b * other.scales**2
            square += a * b / total * (other.means - self.means) ** 2
            scales = np.sqrt(np.maximum(square / total, 0))
        return replace(
            self,
            factor=factor,
            n=self.n + sign * other.n,
            log_precision=self.log_precision + sign * other.log_precision,
            weight=total,
            means=means,
            scales=scales,
        )

    def _same_columns(self, other: "Moments") -> None:
        if not isinstance(other, Moments):
            raise DataError(
                f"Moments and {type(other).__name__} cannot be combined: give both the same formula, with the same terms by group"
            )
        if self.columns == other.columns:
            if self.origin is not None and other.origin is not None:
                self.origin.require_same(other.origin)
            return
        missing = [c for c in self.columns if c not in other.columns]
        extra = [c for c in other.columns if c not in self.columns]
        if missing or extra:
            difference = f"missing {missing}, unknown {extra}"
        else:
            difference = "the same names in another order"
        raise DataError(
            f"moments of different columns cannot be combined: {difference}; expected {list(self.columns)}. "
            "Build both from the same formula and levels, or the second by Model.from_moments(first).at(rows)."
        )

    def to_arrays(self) -> dict[str, Array]:
        """Return plain arrays for saving; `from_arrays` restores the same moments to the last bit.

        A factor in extended precision is kept as the sum of two float64 arrays.

        >>> m = Moments.of([[1.0], [1.0]], [0.0, 2.0], columns=["const"])
        >>> bool(np.all(Moments.from_arrays(m.to_arrays()).factor == m.factor))
        True
        """
        high = self.factor.astype(float)
        return {
            "factor": high,
            "factor_low": (self.factor - high).astype(float),
            "n": np.array(self.n, dtype=float),
            "weight": np.array(self.weight),
            "columns": np.array(self.columns, dtype=str),
            "mean": self.mean,
            "scale": self.scale,
            "y": np.array([self.means[-1], self.scales[-1]]),
            "log_precision": np.array(self.log_precision),
        }

    def save(self, path: str | Path) -> Path:
        """Write the moments as readable JSON: names, counts, means and the factor, no rows.

        The moments of no more rows than columns reveal the rows.

        Parameters
        ----------
        path : str or Path
            Where to write.

        Returns
        -------
        Path
            The path, which `Model.from_moments` takes.

        Raises
        ------
        DataError
            If the file cannot be written.
        """
        return write_moments(path, self.to_arrays(), self.origin)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Self:
        """Restore the moments from the arrays of `to_arrays`."""
        a = {name: np.asarray(arrays[name]) for name in MOMENT_ARRAYS}
        low = a["factor_low"]
        if np.any(low):
            factor = a["factor"] + low.astype(np.longdouble)
        else:
            factor = a["factor"]
        y_mean, y_scale = a["y"]
        return cls(
            factor,
            int(a["n"]),
            float(a["weight"]),
            tuple(map(str, a["columns"])),
            np.append(a["mean"], y_mean),
            np.append(a["scale"], y_scale),
            float(a["log_precision"]),
        )


def _of_ones(mean: Array, scale: Array) -> bool:
    """Whether the first of the columns is all ones."""
    rounding = 1e-14  # of a weighted mean of ones
    return len(mean) > 1 and abs(mean[0] - 1.0) <= rounding and scale[0] <= rounding


def _shift_factor(F: Array, by: Array) -> Array:
    """Return the factor of the columns after adding the first, all ones, `by` (q,) times."""
    if not by.any():
        return F
    # A = [1 B] with factor [[f, r'], [0, G]] has f = |1|; [1 B + 1 c'] has r + f c in place of r, and the same G.
    shifted = F.astype(np.longdouble if 2 * len(F) ** 3 <= EXTENDED else float)
    shifted[0] += shifted[0, 0] * by
    return shifted


def _by_centred_rows(
    X: Array, y: Array, weights: ArrayLike | None, F: Array, mean: Array
) -> Array:
    """Recompute the factor F from centred columns, if they are ill conditioned."""
    max_condition = 1000.0  # of columns of unit length; worse ones are centred before they are reduced
    if not len(F[:-1]) or condition_of(F[:-1, :-1]) < max_condition:
        return F
    centre = np.r_[0.0, mean[1:]]
    factor = np.zeros((0, len(mean)))
    for rows in row_blocks(*X.shape):
        A = np.column_stack([X[rows], y[rows]]) - centre
        if weights is not None:
            A = A * np.sqrt(np.asarray(weights, dtype=float)[rows])[:, None]
        factor = factor_of(np.vstack([factor, A]))
    return _shift_factor(factor, centre)


def refuse_too_wide(p: int) -> None:
    """Raise DataError for more than `MAX_COLUMNS` columns, because about ten matrices of columns by columns are needed."""
    if p > MAX_COLUMNS:
        raise DataError(
            f"{p:,} columns take matrices of {p:,} x {p:,} ({8e-9 * p**2:.1f} GB each) here, and {MAX_COLUMNS:,} columns is the "
            "limit. Take fewer, or independent normal priors on more columns than rows, which need n x n only"
        )
