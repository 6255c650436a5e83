"""The sufficient statistics of a Gaussian model with varying effects: moments of its head columns, and products with the columns of groups.

With Z the columns of effects that vary by a group, X the others, W the weights: the moments of [X y] as a triangular factor, Z'WZ
as a sparse matrix and Z'W[X y]. They merge, subtract and save without rows, like `Moments`; rows of new groups have new columns, and
add groups.

Moments of rows with coded factors, from residuals of the other columns within the levels of one factor.

With D the leading indicators, d_g = sum over the rows of level g of w_i, l_g >= 0 a precision about b_g, and u_i the other columns and y,

    m_g = (sum_i w_i u_i + l_g (0, b_g)) / (d_g + l_g),    F'F = sum_i w_i (u_i - m_g(i))(u_i - m_g(i))',

and the triangular factor of sqrt(w) [D U y] is the factor of [diag(sqrt d), sqrt(d) m; 0, F]: the levels cost G rows for any n.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from operator import add, sub
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from probreg.data.checked_arrays import full_weights, times_weights
from probreg.data.grouped_columns import GroupColumns
from probreg.data.implicit_columns import LazyColumns
from probreg.data.moments import (
    Moments,
    Origin,
    read_verified_json,
    refuse_too_wide,
    write_moments,
)
from probreg.data.terms.grouped import GroupedTerm, grouped_of, joined_terms
from probreg.errors import DataError
from probreg.linalg import rank_of, triangular
from probreg.system.terminal import few_names
from probreg.tables.render import PrintsLines

Array = np.ndarray
SUMS_BY_GROUP = ("row", "column", "value", "border", "totals")  # of `to_arrays`


@dataclass(frozen=True, eq=False, repr=False)
class ArrowMoments(PrintsLines):
    """The moments of y ~ N(X beta + Z b, sigma^2 / w), Z of q = sum of G K columns by group.

    `head` are the moments of [X y], `inside` is Z'WZ (q, q), sparse, and `border` Z'W[X y] (q, h + 1). `totals` (q, 2) are sums of
    Z and of its squares over the observations, so that a row counts by its frequency. `origin` describes how the columns are made, for moments of a model.

    >>> from probreg.data.grouped_columns import GroupColumns
    >>> term = GroupedTerm("(1 | g)", "g", ("Intercept",), ("a", "b"), True, ("g",))
    >>> X = LazyColumns(np.ones((3, 1)), (GroupColumns(np.array([0, 1, 1]), np.ones((3, 1)), 2),))
    >>> m = ArrowMoments.of(X, np.array([1.0, 2.0, 3.0]), columns=("const",), terms=(term,))
    >>> m.inside.toarray().tolist(), m.border.tolist()
    ([[1.0, 0.0], [0.0, 2.0]], [[1.0, 1.0], [2.0, 5.0]])
    """

    head: Moments
    terms: tuple[GroupedTerm, ...]
    inside: Any
    border: Array
    totals: Array
    origin: Origin | None = None

    @classmethod
    def of(
        cls, X: LazyColumns, y: Array, *, columns: Sequence[str], terms: Sequence[GroupedTerm],
        weights: Array | None = None, precision: Array | None = None,
    ) -> "ArrowMoments":  # fmt: skip
        """Return the moments of rows with these names of head columns, with frequencies and precisions."""
        from scipy.sparse import csr_array

        head = Moments.of(
            X.head, y, weights=weights, precision=precision, columns=columns
        )
        copies = full_weights(weights, len(y))
        w = times_weights(copies, precision)
        Z = LazyColumns(np.zeros((len(y), 0)), X.tail).sparse()
        cross_products = Z.T @ np.column_stack([w[:, None] * X.head, w * y])
        inside = csr_array(Z.T @ (Z * w[:, None]))
        return cls(
            head,
            tuple(terms),
            inside,
            cross_products,
            np.column_stack([Z.T @ copies, (Z**2).T @ copies]),
        )

    # ---- description --------------------------------------------------------------------------------------------------

    @property
    def _summary_lines(self) -> list[str]:
        by = [f"by group: {term.key}, {term.size_words}" for term in self.terms]
        first, *lines = self.head._summary_lines
        return [first, *by, *lines]

    @property
    def n(self) -> int:
        """The number of rows."""
        return self.head.n

    @property
    def weight(self) -> float:
        """The sum of frequencies."""
        return self.head.weight

    @property
    def log_precision(self) -> float:
        """sum_i w_i log(precision_i)."""
        return self.head.log_precision

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of [X Z], (p,)."""
        return (*self.head.columns, *(c for term in self.terms for c in term.columns))

    @property
    def p(self) -> int:
        """Number of columns."""
        return self.head.p + len(self.border)

    @property
    def mean(self) -> Array:
        """(p,) weighted means of the columns."""
        return np.concatenate(
            [self.head.mean, self.totals[:, 0] / max(self.weight, 1e-300)]
        )

    @property
    def scale(self) -> Array:
        """(p,) weighted standard deviations of the columns."""
        mean, square = (self.totals / max(self.weight, 1e-300)).T
        return np.concatenate(
            [self.head.scale, np.sqrt(np.maximum(square - mean**2, 0.0))]
        )

    @property
    def y_mean(self) -> float:
        """The mean of the response."""
        return self.head.y_mean

    @property
    def y_scale(self) -> float:
        """The standard deviation of the response."""
        return self.head.y_scale

    def rss_at(self, beta: Array) -> Array:
        """|y - X b - Z u|^2 (...), weighted, of beta = (b, u) (..., p)."""
        h = self.head.p
        b = beta[..., :h]
        u = beta[..., h:]
        # |F (-b, 1)|^2 - 2 u'Z'(y - X b) + u'Z'Z u
        with_y = np.concatenate([-b, np.ones((*b.shape[:-1], 1))], -1)
        cross_products = np.square(
            with_y @ np.asarray(self.head.factor, dtype=float).T
        ).sum(-1)
        inner = (self.inside @ u.reshape(-1, u.shape[-1]).T).T.reshape(u.shape)
        return np.asarray(
            cross_products
            - 2.0 * (u * (with_y @ self.border.T)).sum(-1)
            + (u * inner).sum(-1)
        )

    @cached_property
    def dense(self) -> Moments:
        """The moments of all columns as one triangular factor; raises DataError for too many columns."""
        refuse_too_wide(self.p)
        F = np.asarray(self.head.factor, dtype=float)
        h = self.head.p
        q = len(self.border)
        # F_all = [[R, A, z], [0, B, c], [0, 0, s]]: R'A = X'WZ, and the residual products of [Z y] have the factor [[B, c], [0, s]]
        A = np.linalg.lstsq(F[:-1, :-1].T, self.border[:, :-1].T)[0]
        remaining = np.zeros((q + 1, q + 1))
        remaining[:q, :q] = self.inside.toarray() - A.T @ A
        remaining[:q, q] = remaining[q, :q] = self.border[:, -1] - A.T @ F[:-1, -1]
        remaining[q, q] = F[-1, -1] ** 2
        size = np.sqrt(np.append(self.inside.diagonal(), remaining[q, q]))
        size = np.where(size > 0, size, 1.0)
        value, vector = np.linalg.eigh(remaining / size[:, None] / size)
        root = triangular(np.sqrt(np.maximum(value, 0.0))[:, None] * vector.T * size)
        top = np.hstack([F[:-1, :-1], A, F[:-1, -1:]])
        factor = np.vstack(
            [top, np.hstack([np.zeros((q + 1, h)), np.asarray(root, dtype=float)])]
        )
        return replace(
            self.head,
            factor=factor,
            columns=self.columns,
            means=np.append(self.mean, self.y_mean),
            scales=np.append(self.scale, self.y_scale),
        )

    # ---- sums and differences -----------------------------------------------------------------------------------------

    def __add__(self, other: "ArrowMoments") -> "ArrowMoments":
        """Return the moments of both sets of rows, with the groups of both."""
        terms = joined_terms(self.terms, self._like(other).terms)
        return self.with_terms(terms)._combine(add, other.with_terms(terms))

    def _combine(
        self, function: Callable[[Any, Any], Any], other: "ArrowMoments"
    ) -> "ArrowMoments":
        """Return the sum or the difference of moments with the same groups."""
        return replace(
            self,
            head=function(self.head, other.head),
            inside=function(self.inside, other.inside),
            border=function(self.border, other.border),
            totals=function(self.totals, other.totals),
        )

    def __sub__(self, other: "ArrowMoments") -> "ArrowMoments":
        """Return the moments without the other's rows; groups stay, even with no rows left."""
        rounding = 1e-9  # relative to a sum of squares: rounding error when all of it is subtracted
        for mine, theirs in zip(self.terms, self._like(other).terms):
            known = set(mine.levels)
            unknown = [level for level in theirs.levels if level not in known]
            if unknown:
                raise DataError(
                    f"the rows to subtract were not among these rows: {mine.key} has no group {few_names(list(map(repr, unknown)))} of {mine.group} here"
                )
        b = other.with_terms(self.terms)
        before = self.totals[:, 1]
        after = self.totals[:, 1] - b.totals[:, 1]
        short = after < -rounding * before
        if short.any():
            name = self.columns[self.head.p + int(short.argmax())]
            raise DataError(
                f"the rows to subtract were not among these rows: those of {name} have a larger sum of squares"
            )
        return self._combine(sub, b)

    def _like(self, other: "ArrowMoments") -> "ArrowMoments":
        """Return `other`; raise DataError unless its terms and origin are the same except for groups."""
        if not isinstance(other, ArrowMoments):
            raise DataError(
                f"ArrowMoments and {type(other).__name__} cannot be combined: give both the same formula, with the same terms by group"
            )
        first, two = (
            [(t.key, t.effects, t.factors) for t in m.terms] for m in (self, other)
        )
        if first != two:
            raise DataError(
                f"moments of {', '.join(t.key for t in self.terms)} and of {', '.join(t.key for t in other.terms)} cannot be "
                "combined: give both the same terms, with the same effects"
            )
        if self.origin is not None and other.origin is not None:
            self.origin.require_same(other.origin)
        return other

    def with_terms(self, terms: Sequence[GroupedTerm]) -> "ArrowMoments":
        """Return the moments with the groups of these terms, which include all of its own."""
        from scipy.sparse import csr_array

        if tuple(terms) == self.terms:
            return self
        place = list[int]()
        start = 0
        for old, new in zip(self.terms, terms):
            places = {level: i for i, level in enumerate(new.levels)}
            K = len(new.effects)
            place += [
                start + places[level] * K + k for level in old.levels for k in range(K)
            ]
            start += len(new.levels) * K
        # P b has the entries of b at their new places
        entries = np.ones(len(place)), (place, np.arange(len(place)))
        P = csr_array(entries, shape=(start, len(place)))
        new_moments = replace(
            self,
            terms=tuple(terms),
            inside=csr_array(P @ self.inside @ P.T),
            border=P @ self.border,
            totals=P @ self.totals,
        )
        if self.origin is None:
            return new_moments
        return replace(
            new_moments,
            origin=self.origin.with_groups(
                {t.key: t.to_state() for t in terms}, new_moments.columns
            ),
        )

    def times(self, unit: float) -> "ArrowMoments":
        """The moments with every weight multiplied by `unit`."""
        return replace(
            self,
            head=self.head.times(unit),
            inside=self.inside * unit,
            border=self.border * unit,
            totals=self.totals * unit,
        )

    # ---- as plain data ------------------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Array]:
        """The sums of columns by group as plain arrays; of `inside` the row, column and value of each entry."""
        sparse = self.inside.tocoo()
        row, column = (np.asarray(v, dtype=np.int64) for v in (sparse.row, sparse.col))
        sums = row, column, sparse.data, self.border, self.totals
        return dict(zip(SUMS_BY_GROUP, sums))

    def save(self, path: str | Path) -> Path:
        """Write the moments as readable JSON: names, groups, counts and sums, no rows.

        The moments of a group with a single row reveal that row.

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
        terms = [{"key": term.key, **term.to_state()} for term in self.terms]
        arrays = {**self.head.to_arrays(), **self.to_arrays(), "terms": terms}
        return write_moments(path, arrays, self.origin)


AnyMoments = Moments | ArrowMoments


def arrow_moments_of(
    state: Mapping[str, Any], head: Moments, terms: tuple[GroupedTerm, ...]
) -> ArrowMoments:
    """Return the moments with the sums of `to_arrays`, a head and terms."""
    from scipy.sparse import coo_array

    q = sum(len(term.levels) * len(term.effects) for term in terms)
    row, column, value, border, totals = (
        np.asarray(state[name]) for name in SUMS_BY_GROUP
    )
    inside = coo_array((value, (row, column)), shape=(q, q)).tocsr()
    return ArrowMoments(
        head, terms, inside, border.reshape(q, head.p + 1), totals.reshape(q, 2)
    )


def load_moments(path: str | Path) -> AnyMoments:
    """Return the moments that `save` wrote. DataError for a file without moments."""
    content = read_verified_json(path)
    origin = content["origin"]
    if origin is not None:
        recipe = json.dumps(origin["recipe"], sort_keys=True)
        origin = Origin(**{**origin, "recipe": recipe})
    head = Moments.from_arrays(content)
    if "terms" not in content:
        return replace(head, origin=origin)
    terms = tuple(grouped_of(term, term["key"]) for term in content["terms"])
    return replace(arrow_moments_of(content, head, terms), origin=origin)


class Within(NamedTuple):
    """The residuals of the other columns and y within the levels of a factor."""

    factor: Array  # (r + 1, r + 1)
    means: Array  # (G, r + 1), m_g
    weight: Array  # (G,), d_g + l_g


def select_leading_part(X: LazyColumns) -> tuple[int, Array, Array]:
    """Return the index of the tail part with the most levels, the places (G,) of its columns and the places (r,) of all others, written ones last."""
    first = int(np.argmax([part.groups for part in X.tail]))
    places = [
        np.arange(start, start + part.groups) for start, part in zip(X.starts, X.tail)
    ]
    other_parts = [part_places for k, part_places in enumerate(places) if k != first]
    return (
        first,
        places[first],
        np.concatenate([*other_parts, X.head_places]).astype(np.intp),
    )


def indicators(part: GroupColumns) -> Array:
    """Return the columns of a factor as an array."""
    return np.asarray(LazyColumns(np.zeros((len(part.codes), 0)), (part,)))


def within_levels(
    lead: GroupColumns,
    V: Array,
    weights: Array | None,
    precision: Array | float = 0.0,
    center: Array | None = None,
) -> Within:
    """Subtract the means by level from the columns V (n, r + 1), y last; a level without rows and precision has means of zero.

    `precision` l (G,) about `center` b (G,) is prior information on the levels. `V` is overwritten.
    """
    w = full_weights(weights, len(V))
    weight = lead.gram(w)[:, 0, 0] + precision
    sums = lead.cross(w[:, None] * V)[:, 0]
    if center is not None:
        sums[:, -1] += precision * center
    means = sums / np.where(weight > 0, weight, 1.0)[:, None]
    V -= lead.times(means[:, None])
    names = tuple(map(str, range(V.shape[1] - 1)))
    return Within(
        Moments.of(V[:, :-1], V[:, -1], weights=weights, columns=names).factor,
        means,
        weight,
    )


def moments_of_levels(
    X: LazyColumns,
    y: Array,
    *,
    weights: Array | None,
    precision: Array | None,
    columns: tuple[str, ...],
) -> Moments:
    """Return the moments of all columns; only the columns of smaller factors become arrays."""
    refuse_too_wide(len(columns))
    copies = full_weights(weights, len(y))
    total = float(copies.sum())
    squares = weights if precision is None else copies * precision
    mean, scale = spreads_of_columns(X, copies)
    lead, border, within = _within_largest(X, y, squares)
    order = np.append(border, len(columns))
    y_mean = copies @ y / total
    y_scale = np.sqrt(copies @ np.square(y - y_mean) / total)
    # [diag(sqrt d), sqrt(d) m; 0, F] with its columns in their places
    root = np.sqrt(within.weight)
    q = len(lead)
    stack = np.zeros((q + len(within.factor), len(columns) + 1))
    stack[np.arange(q), lead] = root
    stack[:q, order] = root[:, None] * within.means
    stack[q:, order] = np.asarray(within.factor, dtype=float)
    factor = triangular(stack)
    log_precision = 0.0 if precision is None else float(copies @ np.log(precision))
    means = np.append(mean, y_mean)
    scales = np.append(scale, y_scale)
    return Moments(factor, len(y), total, columns, means, scales, log_precision)


def spreads_of_columns(X: LazyColumns, weights: Array) -> tuple[Array, Array]:
    """Return the weighted means and standard deviations (p,) of columns with indicators of groups."""
    total = float(weights.sum())
    mean = (X.T @ weights[:, None])[:, 0] / total
    scale = np.sqrt(np.maximum(mean * (1.0 - mean), 0.0))
    scale[X.head_places] = np.sqrt(
        weights @ np.square(X.head - mean[X.head_places]) / total
    )
    return mean, scale


def dropped_beside_levels(X: LazyColumns, y: Array, weights: Array | None) -> Array:
    """Return the places of other columns that are combinations of the levels of the largest factor and of earlier columns."""
    _, border, within = _within_largest(X, y, weights)
    return border[list(rank_of(within.factor[:-1, :-1]).dropped)]


def _within_largest(
    X: LazyColumns, y: Array, weights: Array | None
) -> tuple[Array, Array, Within]:
    """Return the places of the largest factor and of the other columns, and the residuals of these and y within its levels."""
    k, lead, border = select_leading_part(X)
    other_parts = [indicators(part) for j, part in enumerate(X.tail) if j != k]
    V = np.column_stack([*other_parts, X.head, y])
    return lead, border, within_levels(X.tail[k], V, weights)
