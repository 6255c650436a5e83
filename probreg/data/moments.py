"""What a Gaussian model needs of its rows, and nothing else: it merges, subtracts, saves and forgets them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from probreg.errors import DataError
from probreg.numerics.linalg import (
    ColumnRank,
    downdate,
    merge,
    rank_of,
    reduce_rows,
    solve_upper,
    triangular,
)

Array = NDArray[Any]
MOST = 10_000  # columns: a matrix of as many rows and columns takes 0.8 GB, and some ten are needed


@dataclass(frozen=True, eq=False)
class Moments:
    """The sufficient statistics of y ~ N(X beta, sigma^2 / w): the triangular factor F of sqrt(w) [X y].

    F'F = [X y]' diag(w) [X y], and F = [[R, z], [0, sqrt(RSS)]] with R (p, p) and z = Q'y (p,), so that
    RSS(beta) = RSS + ||z - R beta||^2 (Bjorck, Numerical Methods for Least Squares Problems, ch. 2). `n` counts rows and
    `weight` adds up their weights (n when there are none): a weight is a number of copies of its row. `mean`, `scale`
    (p,) and `y_mean`, `y_scale` are weighted means and standard deviations, sums of squares divided by `weight`.
    Precisions (noise variance sigma^2 / precision) are in F only, each row counts once, and their logs are in
    `log_precision` = sum_i w_i log(precision_i), twice what they add to log p.

    >>> m = Moments.of([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]], [5.0, 7.0, 9.0], columns=["const", "x"])
    >>> m.least_squares()[0].round(12), round(m.rss, 12)
    (array([1., 2.]), 0.0)
    """

    factor: Array
    n: int
    weight: float
    columns: tuple[str, ...]
    mean: Array
    scale: Array
    y_mean: float
    y_scale: float
    log_precision: float = 0.0

    @classmethod
    def of(
        cls, X: ArrayLike, y: ArrayLike, *, weights: ArrayLike | None = None, precision: ArrayLike | None = None,
        columns: Sequence[str],
    ) -> Self:  # fmt: skip
        """The moments of the rows of X (n, p) and y (n,) with weights (n,) >= 0, or with precisions (n,) > 0.

        Raises DataError when shapes do not fit, and when a value is not finite or a weight is negative.

        >>> Moments.of([[1.0], [1.0]], [0.0, 2.0], columns=["const"]).y_mean
        1.0
        """
        X, y, columns = np.asarray(X), np.asarray(y), tuple(columns)
        refuse_too_wide(len(columns))
        _check_shapes(X, y, weights, columns)
        if precision is not None:
            return cls._precise(X, y, weights, np.asarray(precision, dtype=float), columns)
        r = reduce_rows(X, y, weights=weights)
        if not np.all(np.isfinite(r.factor)):
            A = np.column_stack([X, y] if weights is None else [X, y, np.asarray(weights)])
            rows, cols = np.nonzero(~np.isfinite(A.astype(float)))
            if not rows.size:
                said = "X, y or weights are too large: their squares overflow; rescale the columns."
            else:
                name = [*columns, "the response", "the weights"][cols[0]]
                count = len(set(rows.tolist()))
                said = f"{name} is {A[rows[0], cols[0]]} in row {rows[0]} ({count} such rows); drop or complete them."
            raise DataError(said)
        mean, scale = r.mean, r.scale
        return cls(r.factor, len(X), r.weight, columns, mean[:-1], scale[:-1], float(mean[-1]), float(scale[-1]))

    @classmethod
    def _precise(
        cls, X: Array, y: Array, weights: ArrayLike | None, precision: Array, columns: tuple[str, ...]
    ) -> Self:
        """F is that of the rows times the roots of their precisions; means and standard deviations count each row once."""
        copies = np.ones(len(X)) if weights is None else np.asarray(weights, dtype=float)
        found = cls.of(X, y, weights=copies * precision, columns=columns)
        plain = cls.of(X, y, weights=weights, columns=columns)
        log_precision = float(copies @ np.log(precision))
        return replace(plain, factor=found.factor, log_precision=log_precision)

    @classmethod
    def from_blocks(cls, blocks: Iterable[tuple[ArrayLike, ...]], *, columns: Sequence[str]) -> Self:
        """The moments of rows that come in blocks (X, y) or (X, y, weights), none of which is kept.

        >>> Moments.from_blocks([([[1.0]], [1.0]), ([[1.0]], [3.0])], columns=["const"]).y_mean
        2.0
        """
        total: Self | None = None
        for X, y, *rest in blocks:
            part = cls.of(X, y, weights=rest[0] if rest else None, columns=columns)
            total = part if total is None else total + part
        if total is None:
            raise DataError("no block of rows was given; give at least one (X, y).")
        return total

    def times(self, unit: float) -> Self:
        """The moments with every weight multiplied by `unit`."""
        # F'F are sums of weights times squares.
        return replace(self, factor=self.factor * np.sqrt(unit), weight=self.weight * unit)

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
        # RSS = F_(p+1, p+1)^2, and what of z the kept columns do not reach.
        return float(self.factor[-1, -1] ** 2 + dropped @ dropped)

    @property
    def gram(self) -> tuple[Array, Array, float]:
        """X'WX (p, p), X'Wy (p,) and y'Wy."""
        G = np.asarray(self.factor.T @ self.factor, dtype=float)
        return G[:-1, :-1], G[:-1, -1], float(G[-1, -1])

    @cached_property
    def rank(self) -> ColumnRank:
        """Which columns of X are combinations of the ones before them; see `probreg.numerics.linalg.rank_of`."""
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
        beta[list(self.rank.kept)] = solve_upper(R, z[: len(R)]) if len(R) else 0
        return beta, self.rank

    def __add__(self, other: "Moments") -> Self:
        """The moments of both sets of rows."""
        self._same_columns(other)
        return self._pooled(other, 1, merge(self.factor, other.factor))

    def __sub__(self, other: "Moments") -> Self:
        """The moments of these rows without the other's; DataError when those cannot have been among them."""
        self._same_columns(other)
        if self.n < other.n or self.weight * (1 + 1e-9) < other.weight:
            raise DataError(
                f"cannot subtract {other.n} rows of weight {other.weight:g} from {self.n} rows of weight "
                f"{self.weight:g}; subtract only rows that were added before."
            )
        try:
            factor = downdate(self.factor, other.factor)
        except ValueError as error:
            raise DataError(f"the rows to subtract were not among these rows: {error}.") from error
        return self._pooled(other, -1, factor)

    def _pooled(self, other: "Moments", sign: int, factor: Array) -> Self:
        """Means and standard deviations with the other's rows added (sign 1) or taken away (-1).

        Chan, Golub and LeVeque (1983).
        """
        a, b = self.weight, sign * other.weight
        total = max(a + b, 0.0)
        m1, m2 = (np.r_[m.mean, m.y_mean] for m in (self, other))
        s1, s2 = (np.r_[m.scale, m.y_scale] for m in (self, other))
        with np.errstate(divide="ignore", invalid="ignore"):  # no weight is left: neither mean nor scale exists
            mean = np.divide(a * m1 + b * m2, total)
            # S = S_1 + S_2 + a b / (a + b) (m_2 - m_1)^2 of the sums of squares about the means.
            square = a * s1**2 + b * s2**2 + np.divide(a * b, total) * (m2 - m1) ** 2
            scale = np.sqrt(np.maximum(np.divide(square, total), 0))
        return replace(
            self,
            factor=factor,
            n=self.n + sign * other.n,
            log_precision=self.log_precision + sign * other.log_precision,
            weight=total,
            mean=mean[:-1],
            scale=scale[:-1],
            y_mean=float(mean[-1]),
            y_scale=float(scale[-1]),
        )

    def _same_columns(self, other: "Moments") -> None:
        if self.columns == other.columns:
            return
        missing = [c for c in self.columns if c not in other.columns]
        extra = [c for c in other.columns if c not in self.columns]
        said = f"missing {missing}, unknown {extra}" if missing or extra else "the same names in another order"
        raise DataError(
            f"moments of different columns cannot be combined: {said}; expected {list(self.columns)}. "
            "Build both from the same formula and levels."
        )

    def to_arrays(self) -> dict[str, Array]:
        """Plain arrays for saving; `from_arrays` gives back the same moments to the last bit.

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
            "y": np.array([self.y_mean, self.y_scale]),
            "log_precision": np.array(self.log_precision),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, ArrayLike]) -> Self:
        """The moments that `to_arrays` took apart."""
        a = {name: np.asarray(value) for name, value in arrays.items()}
        low = a["factor_low"]
        factor = a["factor"] + low.astype(np.longdouble) if np.any(low) else a["factor"]
        columns = tuple(str(c) for c in a["columns"])
        y_mean, y_scale = map(float, a["y"])
        log_precision = float(a.get("log_precision", 0.0))  # not in files of fits before there were precisions
        return cls(
            factor, int(a["n"]), float(a["weight"]), columns, a["mean"], a["scale"], y_mean, y_scale, log_precision
        )


def refuse_too_wide(p: int) -> None:
    """DataError for so many columns that matrices of columns by columns, of which some ten are needed, are out of reach."""
    if p > MOST:
        raise DataError(
            f"{p:,} columns take matrices of {p:,} x {p:,} ({8e-9 * p**2:.1f} GB each) here, and {MOST:,} columns is the "
            "limit; take fewer, or independent normal priors on more columns than rows, which need n x n only"
        )


def _check_shapes(X: Array, y: Array, weights: ArrayLike | None, columns: tuple[str, ...]) -> None:
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise DataError(f"X has shape {X.shape} and y {y.shape}; expected (n, p) and (n,).")
    if len(columns) != X.shape[1]:
        names = list(columns)
        raise DataError(f"X has {X.shape[1]} columns and there are {len(names)} names, {names}; give one each.")
    if weights is None:
        return
    w = np.asarray(weights)
    if w.shape != y.shape:
        raise DataError(f"weights have shape {w.shape}; expected {y.shape}, one for each row.")
    bad = np.flatnonzero(~(w >= 0))
    if bad.size:
        raise DataError(f"weight {w[bad[0]]} in row {bad[0]} ({bad.size} such rows); weights must be zero or positive.")
