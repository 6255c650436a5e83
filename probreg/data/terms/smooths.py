"""Smooth functions as terms of a formula, and their bases: columns with flat priors, and columns with N(0, tau^2 I) priors.

A penalised spline minimises RSS / (2 sigma^2) + b'S b / (2 tau^2). The null space of S (straight lines, constants) has a flat
prior. On the range of S = Q L Q', b = Q L^(-1/2) u turns the penalty into u'u, so that u ~ N(0, tau^2 I), with one scale for each
block. The intercept takes the constants: every column has mean zero over the rows of the basis. The columns of a block are
divided by one number, so that the sum of their squares has the mean one over these rows. So tau is the root mean square of
the standard deviations of the block's contribution at the rows, in units of the linear predictor. Source: Wood 2017, chapter 5.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import chain, combinations_with_replacement, pairwise, product
from math import comb, factorial, pi
from typing import Any, Self

import numpy as np

from probreg.data.formula.columns import kind_of
from probreg.errors import DataError
from probreg.linalg import map_blocks, one_blas_thread, row_slices

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class SmoothBasis(ABC):
    """Columns [flat, range block 1, range block 2, ...] at any points x (n, d), from a basis built at training points.

    Attributes
    ----------
    flat : int
        Number of columns of the null space, without the constant.
    blocks : tuple of int
        Number of columns of each range block, which has one scale.
    """

    @property
    @abstractmethod
    def flat(self) -> int: ...

    @property
    @abstractmethod
    def blocks(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def ends(self) -> Array:
        """The least and the largest value of each column of x, (2, d)."""

    @property
    def penalty(self) -> "Roughness | None":
        """The penalty proportional to the sum of squares of a block, if it is an integral of the function alone; else None."""
        return None

    @abstractmethod
    def columns_at(self, x: Array) -> Array:
        """(n, flat + sum of blocks)."""

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.flat + sum(self.blocks)


@dataclass(frozen=True)
class Roughness:
    """J(f) = unit |u|^2 of the coefficients u of a range block; `words` describe J."""

    unit: float
    words: str


def _root_mean_square(columns: Array, counts: Array | None) -> float:
    """Return the root of the mean sum of squares of columns (n, q) about their weighted means."""
    about = columns - np.average(columns, axis=0, weights=counts)
    return float(np.sqrt(np.average(about**2, axis=0, weights=counts).sum())) or 1.0


# ---- thin plate splines ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ThinPlate(SmoothBasis):
    """The thin plate regression spline of rank k: sum_j delta_j eta(|x - x_j|) + polynomials (Wood 2003).

    With E_ij = eta(|x_i - x_j|) = U D U', the k eigenvectors with the largest |D| span the basis: delta = U_k Z g. T
    contains the polynomials of degree below m, and T'U_k Z = 0. The penalty is g'Z'D_k Z g.
    """

    knots: Array  # (K, d), centred and scaled
    centre: Array  # (d,)
    scale: float
    transform: Array  # (K, q): from eta(|x - knot|) to the range
    degree: int  # m
    means: Array  # (flat + q,)

    @classmethod
    @one_blas_thread()
    def of(
        cls,
        x: Array,
        k: int,
        name: str = "s",
        max_knots: int = 2000,
        *,
        counts: Array | None = None,
    ) -> Self:
        """Return the basis of k columns, including the constant, at points x (n, d) with `counts` copies of each.

        With more than `max_knots` distinct points, the knots are a random sample of them.
        """
        knots = np.unique(x, axis=0)
        d = x.shape[1]
        m = d // 2 + 1 if d > 1 else 2
        while 2 * m <= d + 1:  # continuous if 2 m > d, smooth if 2 m > d + 1
            m += 1
        null = comb(m + d - 1, d)
        if len(knots) <= null:
            raise DataError(
                f"{name}: {len(knots)} distinct points are too few, {null + 1} are needed: leave the term out"
            )
        if k <= null:
            raise DataError(f"{name}: k is at least {null + 1}, got {k}")
        if len(knots) < k:
            raise DataError(
                f"{name}: k is at most {len(knots)}, the number of distinct points, got {k}"
            )
        if len(knots) > max_knots:
            knots = knots[
                np.random.default_rng(0).choice(len(knots), max_knots, replace=False)
            ]
        centre = knots.mean(0)
        scale = float(np.abs(knots - centre).max()) or 1.0
        A = (knots - centre) / scale
        D, U = _leading_eigenpairs(_radial(A, A, m), k)
        # Z spans the null space of T'U_k, so that delta = U_k Z g is orthogonal to the polynomials.
        Q, _ = np.linalg.qr((_polynomials(A, m).T @ U).T, mode="complete")
        Z = Q[:, null:]
        # g = V L^(-1/2) u with Z'D Z = V L V': the penalty is u'u.
        L, V = np.linalg.eigh(Z.T @ (D[:, None] * Z))
        smooth = cls(A, centre, scale, U @ Z @ (V / np.sqrt(np.abs(L))), m, np.zeros(1))
        columns = smooth._uncentred_columns(x)
        size = _root_mean_square(columns[:, null - 1 :], counts)
        columns[:, null - 1 :] /= size
        means = np.average(columns, axis=0, weights=counts)
        return replace(smooth, transform=smooth.transform / size, means=means)

    @property
    def flat(self) -> int:
        return comb(self.degree + self.knots.shape[1] - 1, self.knots.shape[1]) - 1

    @property
    def blocks(self) -> tuple[int, ...]:
        return (self.transform.shape[1],)

    @property
    def ends(self) -> Array:
        return self.centre + self.scale * np.array(
            [self.knots.min(0), self.knots.max(0)]
        )

    @property
    def penalty(self) -> Roughness:
        """The thin plate energy; in one column with m = 2 the integral of f''(x)^2."""
        d = self.knots.shape[1]
        m = self.degree
        t = self.transform[:, 0]
        # f(x) = sum_j delta_j eta(|x - x_j| / s) has J_m = delta'E delta s^(d - 2 m), up to the sign of eta, and delta'E delta
        # is the same for each unit vector u.
        unit = abs(float(t @ _radial(self.knots, self.knots, m) @ t)) * self.scale ** (
            d - 2 * m
        )
        if (d, m) == (1, 2):
            words = "∫ f''(x)² dx"
        else:
            words = f"J_{m}(f), the thin plate energy of order {m} in {d} columns"
        return Roughness(unit, words)

    def columns_at(self, x: Array) -> Array:
        return self._uncentred_columns(x) - self.means

    def _uncentred_columns(self, x: Array) -> Array:
        max_distances = 2**18  # between rows and knots, computed at a time: 2 MB
        standardised = (x - self.centre) / self.scale
        range_ = np.empty((len(x), self.transform.shape[1]))
        step = max(max_distances // len(self.knots), 1)

        def fill(rows: slice) -> tuple[Array, ...]:
            range_[rows] = np.dot(
                _radial(standardised[rows], self.knots, self.degree), self.transform
            )  # blocks do not overlap
            return ()

        map_blocks(fill, row_slices(len(x), step))
        return np.column_stack([_polynomials(standardised, self.degree)[:, 1:], range_])


def _leading_eigenpairs(E: Array, k: int) -> tuple[Array, Array]:
    """Return the k eigenvalues of largest size of a symmetric matrix, in this order, and their vectors."""
    # The whole decomposition takes 20 ms for 500 points, and is more accurate for most of the vectors.
    if len(E) < max(500, 10 * k):
        values, vectors = np.linalg.eigh(E)
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).normal(size=len(E))
        values, vectors = eigsh(E, k, v0=start)
    first = np.argsort(-np.abs(values))[:k]
    return values[first], vectors[:, first]


def _polynomials(x: Array, m: int) -> Array:
    """Monomials of degree below m, the constant first, (n, binomial(m + d - 1, d))."""
    parts = [
        c
        for degree in range(m)
        for c in combinations_with_replacement(range(x.shape[1]), degree)
    ]
    return np.column_stack([np.prod(x[:, list(c)], axis=1) for c in parts])


def _radial(x: Array, z: Array, m: int) -> Array:
    """eta(|x_i - z_j|), the Green's function of the m-th order thin plate penalty in d dimensions."""
    d = x.shape[1]
    r2 = np.square(x[:, None, :] - z[None, :, :]).sum(-1)
    power = 2 * m - d
    if d % 2 == 0:
        # eta = (-1)^(m + 1 + d/2) / (2^(2m - 1) pi^(d/2) (m - 1)! (m - d/2)!) r^(2m - d) log r
        half = d // 2
        c = (-1) ** (m + 1 + half) / (
            2 ** (2 * m - 1) * pi**half * factorial(m - 1) * factorial(m - half)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            value = 0.5 * r2 ** (power // 2) * np.log(r2)
        return c * np.where(r2 > 0, value, 0.0)
    # eta = Gamma(d/2 - m) / (2^(2m) pi^(d/2) (m - 1)!) r^(2m - d)
    from scipy.special import gamma

    return (
        gamma(d / 2 - m)
        / (2 ** (2 * m) * pi ** (d / 2) * factorial(m - 1))
        * r2 ** (power // 2)
        * np.sqrt(r2)
    )


# ---- cubic splines -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PenalisedSpline(SmoothBasis):
    """A cubic spline of one column, by its name in mgcv.

    "ps" has B-splines on equal knots, with a penalty on second differences of neighbouring coefficients (Eilers & Marx 1996). "cr" has the
    values at knots, which are quantiles of the distinct values of the column, with the penalty integral of f''(x)^2. "cp" and "cc" are
    the same with joined ends: the function and two derivatives agree at the first and the last knot.
    """

    bs: str
    knots: Array  # (K, 1)
    transform: (
        Array  # (k, flat + range): from the coefficients of the spline to columns
    )
    means: Array

    @classmethod
    def of(
        cls,
        x: Array,
        k: int,
        *,
        bs: str = "ps",
        name: str = "s",
        counts: Array | None = None,
    ) -> Self:
        """Return the basis of this kind with k coefficients, or k knots of "cc", at points x (n, 1) with `counts` copies of each."""
        if x.shape[1] != 1:
            raise DataError(
                f"{name}: bs={bs!r} is of one column, got {x.shape[1]}; take bs='tp' or t2(...)"
            )
        min_k = {"ps": 5, "cr": 3}.get(bs, 4)
        if k < min_k:
            raise DataError(f"{name}: k is at least {min_k}, got {k}")
        values = np.unique(x)
        needed = 3 if bs in ("ps", "cp") else k
        if len(values) < needed:
            raise DataError(
                f"{name}: the column has {len(values)} distinct values, {needed} are needed"
            )
        low, high = values[[0, -1]]
        if bs == "ps":
            margin = 0.001 * (high - low)  # as in mgcv
            knots = np.linspace(low - margin, high + margin, k - 2)
        elif bs == "cp":
            knots = np.linspace(low, high, k + 1)
        else:
            knots = np.quantile(values, np.linspace(0.0, 1.0, k))
        smooth = cls(bs, knots[:, None], np.eye(k), np.zeros(1))
        L, V = np.linalg.eigh(smooth._penalty)
        null = 1 if smooth.cyclic else 2
        # b = V_null a + V_range L^(-1/2) u; the null space is used without the constant.
        penalised = V[:, null:] / np.sqrt(L[null:])
        B = smooth._splines(x)
        size = _root_mean_square(B @ penalised, counts)
        transform = penalised / size
        if not smooth.cyclic:
            line = knots if bs == "cr" else np.arange(float(k))
            line = line - line.mean()
            transform = np.column_stack([line / np.linalg.norm(line), transform])
        means = np.average(B @ transform, axis=0, weights=counts)
        return replace(smooth, transform=transform, means=means)

    @property
    def cyclic(self) -> bool:
        """Whether the ends are joined."""
        return self.bs in ("cp", "cc")

    @property
    def flat(self) -> int:
        return 0 if self.cyclic else 1

    @property
    def blocks(self) -> tuple[int, ...]:
        return (self.transform.shape[1] - self.flat,)

    @property
    def ends(self) -> Array:
        return self.knots[[0, -1]]

    @property
    def penalty(self) -> Roughness:
        """The integral of f''(x)^2, or the squares of second differences of neighbouring coefficients of B-splines."""
        t = self.transform[:, -1]
        words = "∫ f''(x)² dx"
        if self.bs in ("ps", "cp"):
            words = "sum_j (b_j - 2 b_(j+1) + b_(j+2))², b the coefficients of the B-splines"
        return Roughness(float(t @ self._penalty @ t), words)

    @property
    def _penalty(self) -> Array:
        """S (k, k) with the penalty b'S b of coefficients b."""
        knots = self.knots[:, 0]
        if self.bs in ("cr", "cc"):
            # f'' is linear between knots
            bends = self._spline(knots, 2)
            left, right = bends[:-1], bends[1:]
            h = np.diff(knots)[:, None] / 6.0
            return (2.0 * left + right).T @ (h * left) + (2.0 * right + left).T @ (
                h * right
            )
        k = len(knots) - 1 if self.cyclic else len(knots) + 2
        eye = np.eye(k)
        # Rows of the difference matrix: b_j - 2 b_(j+1) + b_(j+2), around the circle where the ends are joined.
        if self.cyclic:
            D = np.roll(eye, -1, 0) - 2 * eye + np.roll(eye, 1, 0)
        else:
            D = np.diff(eye, 2, axis=0)
        return D.T @ D

    @property
    def _spline(self) -> Any:
        """The splines with one coefficient of 1 each: a function of x and of the order of the derivative."""
        from scipy.interpolate import BSpline, CubicSpline

        knots = self.knots[:, 0]
        if self.bs == "cr":
            return CubicSpline(knots, np.eye(len(knots)), bc_type="natural")
        k = len(knots) - 1
        if self.bs == "cc":
            joined = np.eye(k)[np.arange(k + 1) % k]
            return CubicSpline(knots, joined, bc_type="periodic")
        h = (knots[-1] - knots[0]) / k
        around = knots[0] + h * np.arange(-3, k + 4)
        coefficients = np.eye(k)[np.arange(k + 3) % k] if self.cyclic else np.eye(k + 3)
        return BSpline(around, coefficients, 3)

    def columns_at(self, x: Array) -> Array:
        return self._splines(x) @ self.transform - self.means

    def _splines(self, x: Array) -> Array:
        """Return splines (n, k); beyond the ends, a cyclic spline is periodic and others continue along the tangent."""
        x = x[:, 0]
        low, high = self.ends[:, 0]
        spline = self._spline
        if self.cyclic:
            return spline(low + np.mod(x - low, high - low))
        inside = np.clip(x, low, high)
        # f(x) = f(end) + (x - end) f'(end) outside
        return spline(inside) + (x - inside)[:, None] * spline(inside, 1)


# ---- tensor products ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TensorProduct(SmoothBasis):
    """Products of marginal bases. Each is split into its null space and its range; each product with a range has its own scale.

    Source: Wood, Scheipl & Faraway 2013 (t2).
    """

    margins: tuple[PenalisedSpline | ThinPlate, ...]
    sizes: Array  # (width,), divisors of the columns
    means: Array

    @classmethod
    def of(
        cls,
        x: Array,
        k: tuple[int, ...],
        name: str = "t2",
        *,
        counts: Array | None = None,
    ) -> Self:
        """Return the product of one basis for each column of x (n, d), with `counts` copies of each row."""
        margins = tuple(
            ThinPlate.of(x[:, [j]], k[j], name, counts=counts)
            for j in range(x.shape[1])
        )
        smooth = cls(margins, np.ones(1), np.zeros(1))
        columns = smooth._uncentred_columns(x)
        ends = np.cumsum([smooth.flat, *smooth.blocks])
        sizes = np.ones(smooth.width)
        for a, b in pairwise(ends):
            sizes[a:b] = _root_mean_square(columns[:, a:b], counts)
        return cls(margins, sizes, np.average(columns / sizes, axis=0, weights=counts))

    def _range_margins(self) -> list[tuple[bool, ...]]:
        """Return which margins enter with their range: first no margin (flat columns and the constant), then each combination."""
        return sorted(product((False, True), repeat=len(self.margins)), key=sum)

    @property
    def flat(self) -> int:
        return int(np.prod([m.flat + 1 for m in self.margins])) - 1

    @property
    def blocks(self) -> tuple[int, ...]:
        widths = [
            [(m.flat + 1, m.blocks[0])[use] for m, use in zip(self.margins, part)]
            for part in self._range_margins()[1:]
        ]
        return tuple(int(np.prod(w)) for w in widths)

    @property
    def ends(self) -> Array:
        return np.hstack([margin.ends for margin in self.margins])

    def columns_at(self, x: Array) -> Array:
        return self._uncentred_columns(x) - self.means

    def _uncentred_columns(self, x: Array) -> Array:
        margin_columns = []
        for j, margin in enumerate(self.margins):
            columns = margin.columns_at(x[:, [j]])
            null = np.column_stack([np.ones(len(x)), columns[:, : margin.flat]])
            margin_columns.append((null, columns[:, margin.flat :]))
        blocks = []
        for part in self._range_margins():
            products = np.ones((len(x), 1))
            for pair, use in zip(margin_columns, part):
                # (n, a) and (n, b) -> (n, a b), row by row
                products = (products[:, :, None] * pair[use][:, None, :]).reshape(
                    len(x), -1
                )
            blocks.append(products)
        return np.hstack(blocks)[:, 1:] / self.sizes


_KINDS: dict[str, type[SmoothBasis]] = {
    "tp": ThinPlate,
    "ps": PenalisedSpline,
    "t2": TensorProduct,
}
_COLUMNS = {1: 10, 2: 30}  # k, including the constant, by the number of inputs
_MATRICES = ("knots", "transform")


@dataclass(frozen=True)
class BasisTerm:
    """The columns of one term, or of one of its functions, by name: columns with a flat prior, and blocks that share a scale.

    `short` is the term without its options, which priors may use as its name. `labels` of the blocks are the term, with a
    distinguishing part if there are several. `levels` are the levels of `by=`, each with a separate function.
    """

    name: str
    short: str
    flat: tuple[str, ...]
    blocks: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]
    levels: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All columns of the term."""
        return (*self.flat, *(c for block in self.blocks for c in block))


@dataclass(frozen=True, eq=False)
class SmoothTerm:
    """A basis and its multiplier: none, a number, or the indicators of levels, each with a separate function.

    `key` is the term as written, `short` the term without its options, and `by` is "", "number" or "levels".
    """

    key: str
    short: str
    basis: SmoothBasis
    by: str = ""
    levels: tuple[str, ...] = ()

    def columns_at(self, x: Array, by: Any = None, rows: Any = None) -> Array:
        """Return the columns (n, q), level by level, at points x (n, d) of rows labelled `rows` and the values of `by`."""
        columns = self.function_at(x)
        kind = "" if by is None else kind_of(by)
        if self.by == "number":
            if kind not in ("number", "truth"):
                raise DataError(
                    f"by= held numbers when the model was fitted and holds {kind} now, {by[0]!r} at row {rows[0]}"
                )
            return columns * np.asarray(by, dtype=float)[:, None]
        if self.by == "":
            return columns
        values = np.asarray(by, dtype=object)
        texts = values.astype(str)
        if set(self.levels) == {"False", "True"} and kind == "number":
            # 0 and 1 are codes of the two levels
            texts = np.select([by == 0, by == 1], ["False", "True"], texts)
        bad = np.flatnonzero(~np.isin(texts, self.levels))
        if len(bad):
            raise DataError(
                f"by= has the level {values[bad[0]]!r} at row {rows[bad[0]]}, which the model does not know; it knows "
                f"{', '.join(map(repr, self.levels))}"
            )
        return np.hstack([columns * (texts == level)[:, None] for level in self.levels])

    def function_at(self, x: Array) -> Array:
        """Return the columns of one function at points x (n, d), in the order [flat, blocks], before multiplication by `by=` numbers."""
        columns = self.basis.columns_at(x)
        if self.by == "number":
            return np.column_stack([np.ones(len(x)), columns])
        return columns

    @property
    def ends(self) -> Array:
        """The least and the largest value of each input, (2, d)."""
        return self.basis.ends

    @cached_property
    def functions(self) -> tuple[BasisTerm, ...]:
        """The names of the columns of its function, or of the function of each level of `by=`, named `s(x, by=g)[a]`."""
        return tuple(map(self._name_function, self.levels or ("",)))

    def _name_function(self, level: str) -> BasisTerm:
        def name(*parts: str, term: str = self.key) -> str:
            joined = ", ".join(filter(None, (level, *parts)))
            return f"{term}[{joined}]" if joined else term

        q = self.basis.flat
        flat = ["line"] if q == 1 else [f"line {i + 1}" for i in range(q)]
        if self.by == "number":
            flat = ["level", *flat]
        sizes = self.basis.blocks
        numbers = [f"{b + 1}" for b in range(len(sizes))] if len(sizes) > 1 else [""]
        blocks = [
            tuple(name(f"{b}.{i + 1}".removeprefix(".")) for i in range(size))
            for b, size in zip(numbers, sizes)
        ]
        return BasisTerm(
            name(),
            name(term=self.short),
            tuple(map(name, flat)),
            tuple(blocks),
            tuple(map(name, numbers)),
        )

    @cached_property
    def column_names(self) -> BasisTerm:
        """The names of all of its columns."""
        parts = self.functions
        flat, blocks, labels = (
            tuple(chain.from_iterable(getattr(part, name) for part in parts))
            for name in ("flat", "blocks", "labels")
        )
        return BasisTerm(self.key, self.short, flat, blocks, labels, self.levels)

    def to_state(self) -> dict[str, Any]:
        """Return the term as plain data."""
        return {
            "kind": "smooth",
            "short": self.short,
            "basis": _basis_to_json(self.basis),
            "by": self.by,
            "levels": list(self.levels),
        }


def learned_term(
    name: str,
    x: Array,
    by: Any,
    words: Mapping[str, Any],
    *,
    key: str,
    short: str,
    counts: Array | None = None,
) -> SmoothTerm:
    """Return the term at training points x (n, d) with `counts` copies of each, and the values of its `by` column."""
    margin_size = 5  # k of each margin of a tensor product
    d = x.shape[1]
    if name == "t2":
        basis: SmoothBasis = TensorProduct.of(
            x, (words.get("k", margin_size),) * d, key, counts=counts
        )
    else:
        kind = words.get("bs", "tp")
        k = words.get("k", _COLUMNS.get(d, 10 * d))
        if kind not in ("tp", "ps", "cr", "cp", "cc"):
            raise DataError(
                f"{key}: bs is 'tp' (thin plate), 'ps' (penalised B-splines), 'cr' (cubic regression), or 'cp' or 'cc' (the same, periodic), "
                f"got {kind!r}"
            )
        if kind == "tp":
            if "k" not in words:
                k = min(k, len(np.unique(x, axis=0)))
            basis = ThinPlate.of(x, k, key, counts=counts)
        else:
            basis = PenalisedSpline.of(x, k, bs=kind, name=key, counts=counts)
    if by is None:
        return SmoothTerm(key, short, basis)
    kind_of_by = kind_of(by)
    if kind_of_by == "number":
        return SmoothTerm(key, short, basis, "number")
    if kind_of_by in ("time", "other"):
        raise DataError(
            f"{key}: by= holds values such as {by[0]}, and is a number or a category: make it text for a function of each value, or "
            "a number that multiplies one function"
        )
    present = {str(level) for level in by}
    if kind_of_by == "levels":
        levels = [str(level) for level in by.categories if str(level) in present]
    else:
        levels = sorted(present)
    return SmoothTerm(key, short, basis, "levels", tuple(levels))


def smooth_of(state: Mapping[str, Any], key: str) -> SmoothTerm:
    """Return the term that `to_state` wrote."""
    basis = _basis_from_json(state["basis"])
    return SmoothTerm(key, state["short"], basis, state["by"], tuple(state["levels"]))


def _basis_to_json(basis: SmoothBasis) -> dict[str, Any]:
    kind = next(name for name, cls in _KINDS.items() if isinstance(basis, cls))
    content: dict[str, Any] = {"kind": kind}
    for f in fields(basis):
        value = getattr(basis, f.name)
        if isinstance(value, tuple) and value and isinstance(value[0], SmoothBasis):
            value = [_basis_to_json(part) for part in value]
        elif isinstance(value, np.ndarray | np.generic):
            value = value.tolist()
        content[f.name] = value
    return content


def _basis_from_json(state: Mapping[str, Any]) -> SmoothBasis:
    cls = _KINDS[state["kind"]]
    values: dict[str, Any] = {}
    for f in fields(cls):
        value = state[f.name]
        if f.name == "margins":
            value = tuple(_basis_from_json(part) for part in value)
        elif isinstance(value, list | tuple):
            value = np.asarray(value, dtype=float).reshape(
                len(value), *([-1] if f.name in _MATRICES else [])
            )
        values[f.name] = value
    return cls(**values)
