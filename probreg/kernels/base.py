"""The base class of covariance functions, with matrices, names and specifications, and pairs of rows.

A function k(x, z) is a covariance function (a positive semidefinite kernel) if every matrix K = k(x_i, x_j) has eigenvalues
>= 0. A subclass computes k at pairs of rows and its derivatives over the logs of its parameters. The base class adds matrices,
diagonals, names, sums, products and files.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from probreg.arguments.arrays import brief, floats
from probreg.arguments.scalars import (
    ArrayLike,
    check_fields,
    normalised_name,
    refuse_unknown,
    shown_value,
)
from probreg.errors import DataError, Incompatible
from probreg.registry import Registry

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RowPairs:
    """Rows x (n, d) and z (m, d), and their pairs: all n m, or the n pairs of rows at the same place (`aligned`).

    A covariance function defines k once for both: its matrix (n, m) is k at all pairs, its diagonal (n,) k at aligned ones.

    >>> x = np.array([[0.0], [2.0]])
    >>> RowPairs(x, x).squared_distances()
    array([[0., 4.],
           [4., 0.]])
    >>> RowPairs(x, x, aligned=True).squared_distances()
    array([0., 0.])
    """

    x: Array
    z: Array
    aligned: bool = False

    @property
    def width(self) -> int:
        return self.x.shape[1]

    @property
    def shape(self) -> tuple[int, ...]:
        if self.aligned:
            return (len(self.x),)
        return (len(self.x), len(self.z))

    @property
    def square(self) -> bool:
        """Whether these are all pairs of one set of rows, so that the matrix is symmetric."""
        return self.x is self.z and not self.aligned

    def on(self, columns: Sequence[int]) -> "RowPairs":
        """The same pairs with some of the columns."""
        x = self.x[:, columns]
        return RowPairs(x, x if self.x is self.z else self.z[:, columns], self.aligned)

    def column(self, j: int) -> tuple[Array, Array]:
        """Return column j of the left and of the right rows, in shapes that broadcast to the pairs."""
        x = self.x[:, j]
        z = self.z[:, j]
        if self.aligned:
            return (x, z)
        return (x[:, None], z[None, :])

    def products(self) -> Array:
        """x'z."""
        if self.aligned:
            return np.einsum("ij,ij->i", self.x, self.z)
        return self.x @ self.z.T

    def squared_distances(self, lengths: Array | float = 1.0) -> Array:
        """sum_j (x_j - z_j)^2 / l_j^2, from differences: equal rows have the distance 0 exactly."""
        far = 1e200  # larger squared distances change nothing; its powers are finite
        x = self.x / lengths
        z = x if self.x is self.z else self.z / lengths
        if self.aligned:
            return np.minimum(np.square(x - z).sum(1), far)
        from scipy.spatial.distance import cdist

        s = cdist(x, z, "sqeuclidean")
        return np.minimum(s, far, out=s)


def read_rows(values: Any, name: str = "x", width: int | None = None) -> Array:
    """Rows (n, d) of finite numbers; an array of one axis is one column.

    DataError for a value that is missing, infinite or no number, with row and column, and for rows of another `width`.

    >>> read_rows([0.0, 1.5])
    array([[0. ],
           [1.5]])
    >>> read_rows([[0.0, 1.0], [2.0, float("nan")]])
    Traceback (most recent call last):
    probreg.errors.DataError: x holds nan in row 1, column 1, where a finite number belongs
    """
    advice = "; levels need a column of 0 and 1 each"
    rows = floats(values, name, advice, copy=False)
    if rows.ndim not in (1, 2):
        raise DataError(
            f"{name} is an array of rows and columns, or of one column, got shape {rows.shape}"
        )
    if rows.ndim == 1:
        rows = rows[:, None]
    if not rows.size:
        raise DataError(
            f"{name} has {rows.shape[0]} rows and {rows.shape[1]} columns, and there must be one of each"
        )
    if width is not None and rows.shape[1] != width:
        raise DataError(f"{name} has {rows.shape[1]} columns where {width} belong")
    refuse_far(rows, name)
    return rows


def refuse_far(rows: Array, name: str) -> None:
    """Raise DataError for the first entry that is nan, infinite, or too large to be squared."""
    largest = 1e140  # its square is finite
    with np.errstate(invalid="ignore"):
        good = np.abs(rows) <= largest
    if not good.all():
        i, j = np.argwhere(~good)[0]
        raise DataError(
            f"{name} holds {brief(rows[i, j].item())} in row {i}, column {j}, where a finite number belongs"
            + (f", of at most {largest:g}" if np.isfinite(rows[i, j]) else "")
        )


def refuse_asymmetric(K: Array) -> None:
    """Raise DataError for a square matrix that is not symmetric."""
    difference = np.abs(K - K.T)
    # share of max |k|: a larger difference of k(x, z) and k(z, x) is no rounding
    if (difference > 1e-10 * np.abs(K).max()).any():
        i, j = np.unravel_index(int(np.argmax(difference)), K.shape)
        raise DataError(
            f"k(x, z) is {K[i, j]:.6g} and k(z, x) {K[j, i]:.6g} of rows {i} and {j}: a covariance is symmetric"
        )


def refuse_negative(smallest: float, K: Array, subject: str = "this function") -> None:
    """Raise DataError if the least eigenvalue, of K or of its projection, is negative beyond rounding."""
    # share of n max |k|: a least eigenvalue below minus this is no rounding
    if smallest < -1e-10 * len(K) * np.abs(K).max():
        raise DataError(
            f"the least eigenvalue of the {len(K)} x {len(K)} matrix of {subject} is {smallest:.3g}: it is no covariance function"
        )


def refuse_indefinite(K: Array) -> None:
    """Raise DataError for a square matrix that is not symmetric, or has an eigenvalue that is negative beyond rounding."""
    refuse_asymmetric(K)
    refuse_negative(float(np.linalg.eigvalsh(K)[0]), K)


def pivoted_root(
    d: Array,
    row: Callable[[int], Array],
    *,
    max_rank: int,
    floor: float,
    tol: float = 0.0,
    check: Callable[[Array, list[int]], None] | None = None,
) -> tuple[list[int], Array, Array]:
    """Return pivots, G (r, n) with C ~ G'G, upper triangular in the columns of the pivots, and the diagonal of C - G'G.

    `d` is the diagonal of C, and `row` returns a row of it. It stops where each entry of the remaining diagonal is at most
    `floor`, or their sum at most `tol` of the trace. `check` gets the remaining diagonal before negative rounding errors are set to 0.

    >>> C = np.array([[4.0, 2.0], [2.0, 5.0]])
    >>> pivots, G, d = pivoted_root(np.diag(C), lambda i: C[i], max_rank=2, floor=0.0)
    >>> pivots, bool(np.allclose(G.T @ G, C))
    ([1, 0], True)
    """
    pivots: list[int] = []
    G = np.empty((min(16, max_rank), len(d)))
    total = d.sum()
    while len(pivots) < max_rank:
        r = len(pivots)
        i = int(np.argmax(d))
        if d[i] <= floor or d.sum() <= tol * total:
            break
        if r == len(G):
            G = np.vstack([G, np.empty((min(r, max_rank - r), len(d)))])
        # g = (C_i - G_i'G) / sqrt(d_i), d <- d - g^2
        g = row(i) - G[:r, i] @ G[:r]
        g[pivots] = 0.0
        G[r] = g / np.sqrt(d[i])
        d = d - np.square(G[r])
        d[i] = 0.0
        pivots.append(i)
        if check is not None:
            check(d, pivots)
        d = np.maximum(d, 0.0)
    return pivots, G[: len(pivots)], d


KERNELS: Registry["CovarianceFunction"] = Registry(
    "covariance function", example="rbf(0.3)"
)
KERNELS.parts = (KERNELS,)  # covariance functions can be parts of others


class CovarianceFunction(ABC):
    """A positive semidefinite function k(x, z) of two rows; subclasses are frozen dataclasses.

    Notes
    -----
    A subclass defines `matrix` at pairs of rows, `bound` and `stationary`, `slopes` if it has hyperparameters, and `density` if it is known. Fields named in
    `hyperparameters` are positive numbers, or tuples with one number per column.
    """

    name: ClassVar[str]
    hyperparameters: ClassVar[tuple[str, ...]] = ()
    parts: "tuple[CovarianceFunction, ...]" = ()  # the functions that this function combines

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    @abstractmethod
    def bound(self) -> float:
        """sup k(x, x) over all rows; inf without a bound."""

    @property
    @abstractmethod
    def stationary(self) -> bool:
        """Whether k(x, z) is a function of x - z."""

    @abstractmethod
    def matrix(self, pairs: RowPairs) -> Array:
        """k at these pairs, an array of their shape."""

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        """dk / d log h at these pairs, for every hyperparameter h by its name in `hyper`."""
        return {}

    def density(self, omega: Array) -> Array | None:
        """S(omega) at frequencies (n, d), int S(w) exp(i w'r) dw / (2 pi)^d = k(r); None if it does not exist or is not known."""
        return None

    def __call__(self, x: ArrayLike, z: ArrayLike | None = None) -> Array:
        """Return the matrix k(x_i, z_j) (n, m) for rows x (n, d) and z (m, d), or for x with itself."""
        rows = read_rows(x)
        other_rows = rows if z is None else read_rows(z, "z", rows.shape[1])
        return self.finite(RowPairs(rows, other_rows))

    def finite(self, pairs: RowPairs) -> Array:
        """Return k at these pairs; raise DataError for a value that overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            K = self.matrix(pairs)
        if not np.isfinite(K).all():
            place = np.argwhere(~np.isfinite(K))[0]
            i = int(place[0])
            j = int(place[-1])
            largest = max(np.abs(pairs.x[i]).max(), np.abs(pairs.z[j]).max())
            raise DataError(
                f"{self} is beyond 1.8e308 of rows {i} and {j}, which hold {largest:.3g}: scale the columns"
            )
        return K

    def diagonal(self, x: ArrayLike) -> Array:
        """k(x_i, x_i) (n,), without the matrix."""
        rows = read_rows(x)
        return self.finite(RowPairs(rows, rows, aligned=True))

    def spectral_density(self, omega: ArrayLike) -> Array:
        """S(omega) = int k(r) exp(-i omega'r) dr (n,) at frequencies omega (n, d) in d columns.

        Incompatible for a function that is not stationary, or has no density.
        """
        density = self.density(read_rows(omega, "omega"))
        if density is None:
            if self.stationary:
                reason = "no spectral density is known for it"
            else:
                reason = "it is no function of x - z"
            raise Incompatible(
                f"{self} has no spectral density: {reason}; take 'rbf' or 'matern32', or another basis"
            )
        return density

    # ---- hyperparameters -------------------------------------------------------------------------------------------

    @property
    def hyper(self) -> dict[str, float]:
        """The hyperparameters by name: `length`, or `length[0]` for one of several columns, `rbf.length` in a sum."""
        values: dict[str, float] = {}
        for name in self.hyperparameters:
            value = getattr(self, name)
            if isinstance(value, tuple):
                values |= {f"{name}[{j}]": v for j, v in enumerate(value)}
            else:
                values[name] = value
        for i, part in enumerate(self.parts):
            values |= self.rename_hyperparameters(i, part.hyper)
        return values

    def at(self, **hyper: Any) -> "CovarianceFunction":
        """Return the same function with other hyperparameters, by their names in `hyper`; `length` sets all lengths.

        Names with dots or brackets are given as `k.at(**{"rbf.length": 2.0})`. DataError for an unknown name.
        """
        unknown = [name for name in hyper if name not in self._settable]
        if unknown:
            names = ", ".join(self.hyper) or "none"
            raise DataError(
                f"{self} has no hyperparameter {unknown[0]!r}; it has {names}"
            )
        fields = {
            name: self._own_hyperparameter(name, hyper) for name in self.hyperparameters
        }
        if self.parts:
            fields["parts"] = tuple(
                part.at(
                    **{
                        name: hyper[prefix + name]
                        for name in part._settable
                        if prefix + name in hyper
                    }
                )
                for prefix, part in zip(self._prefixes, self.parts)
            )
        return replace(self, **fields)  # type: ignore[type-var]  # subclasses are dataclasses

    @property
    def _settable(self) -> list[str]:
        """The names that `at` takes: the names in `hyper`, and fields with one number per column."""
        deeper = [
            p + name
            for p, part in zip(self._prefixes, self.parts)
            for name in part._settable
        ]
        return [*dict.fromkeys([*self.hyper, *self.hyperparameters, *deeper])]

    def _own_hyperparameter(self, name: str, hyper: Mapping[str, Any]) -> Any:
        value = hyper.get(name, getattr(self, name))
        if not isinstance(value, tuple):
            return value
        return tuple(hyper.get(f"{name}[{j}]", v) for j, v in enumerate(value))

    @property
    def _prefixes(self) -> list[str]:
        """Return the prefix of the names of each part: empty for a single part, else its name, with a number if two are equal."""
        names = [part.name for part in self.parts]
        if len(names) == 1 and not set(self.hyperparameters) & set(self.parts[0].hyper):
            return [""]
        return [
            f"{n}{names[:i].count(n) + 1 if names.count(n) > 1 else ''}."
            for i, n in enumerate(names)
        ]

    def rename_hyperparameters[V](
        self, i: int, of_part: Mapping[str, V]
    ) -> dict[str, V]:
        """Return the values that part i gives to its hyperparameters, under their names in the whole."""
        return {self._prefixes[i] + name: value for name, value in of_part.items()}

    def along(self, j: int) -> "CovarianceFunction":
        """k between rows that differ only in column j, as a stationary function of one column."""
        fields: dict[str, Any] = {
            n: v[j]
            for n in self.hyperparameters
            if isinstance(v := getattr(self, n), tuple)
        }
        if self.parts:
            fields["parts"] = tuple(part.along(j) for part in self.parts)
        return replace(self, **fields)  # type: ignore[type-var]

    def resolve(
        self, X: ArrayLike, names: Sequence[str] | None = None
    ) -> "CovarianceFunction":
        """Return the same function in raw units and with column numbers, given the rows X (n, d).

        A length that was stated on standardised columns (`scaled=True`) is multiplied by the standard deviation of each column, with
        divisor n - 1. Columns that were given by name are looked up in `names`.
        """
        rows = read_rows(X, "X")
        if names is not None and len(names) != rows.shape[1]:
            raise DataError(
                f"names holds {len(names)} names, and X has {rows.shape[1]} columns"
            )
        return self.at_rows(rows, tuple(names or ()))

    def at_rows(self, X: Array, names: tuple[str, ...]) -> "CovarianceFunction":
        """Return the result of `resolved` for rows and names that are already checked."""
        if not self.parts:
            return self
        parts = tuple(part.at_rows(X, names) for part in self.parts)
        return replace(self, parts=parts)  # type: ignore[type-var]

    # ---- closure ---------------------------------------------------------------------------------------------------

    def __add__(self, other: "CovarianceFunction | float") -> "CovarianceFunction":
        if isinstance(other, Real):
            return self + KERNELS["constant"](other)
        if isinstance(other, CovarianceFunction):
            return self._combine("sum", (self, other))
        return NotImplemented

    def __radd__(self, other: float) -> "CovarianceFunction":
        if isinstance(other, Real):
            return KERNELS["constant"](other) + self
        return NotImplemented

    def __mul__(self, other: "CovarianceFunction | float") -> "CovarianceFunction":
        if isinstance(other, Real):
            return KERNELS["scaled"]((self,), other)
        if isinstance(other, CovarianceFunction):
            return self._combine("product", (self, other))
        return NotImplemented

    def __rmul__(self, other: float) -> "CovarianceFunction":
        return self * other

    def on(self, *columns: int | str) -> "CovarianceFunction":
        """The same function of some columns only, by number or by name."""
        return KERNELS["on"]((self,), columns)  # type: ignore[call-arg]

    def _combine(
        self, name: str, operands: "tuple[CovarianceFunction, ...]"
    ) -> "CovarianceFunction":
        """Their sum or product; a sum of sums is one sum."""
        flat = [
            part for k in operands for part in (k.parts if k.name == name else (k,))
        ]
        return KERNELS[name](tuple(flat))  # type: ignore[call-arg]

    # ---- texts and files -------------------------------------------------------------------------------------------

    def spec(self) -> dict[str, Any]:
        """Return names and numbers for `kernel_from_spec`, which makes the same function. Incompatible for a user's own function."""
        bad = next(
            (k for k in self._walk() if KERNELS.get(k.name) is not type(k)), None
        )
        if bad is not None:
            raise Incompatible(
                f"{bad} is code, and files hold names and numbers only: register its class in KERNELS"
            )
        return KERNELS.to_spec(self)

    def _walk(self) -> "list[CovarianceFunction]":
        return [self, *(k for part in self.parts for k in part._walk())]


def kernel_from_spec(spec: Mapping[str, Any]) -> CovarianceFunction:
    """The covariance function that `spec` wrote.

    Parameters
    ----------
    spec : mapping
        The name of a registered function and its fields, with the same for its parts.

    Returns
    -------
    CovarianceFunction
        The function with this specification.
    """
    try:
        return KERNELS.from_spec(spec)
    except RecursionError:
        raise DataError(
            "this specification of a covariance function is nested without end"
        ) from None


def read_kernel(kernel: Any, **settings: Any) -> CovarianceFunction:
    """Return a covariance function from its name and settings; a function is returned unchanged.

    Parameters
    ----------
    kernel : str or CovarianceFunction
        A name of `KERNELS`, or matern12, matern32, matern52.
    **settings
        The fields of a function given by name, such as `length`.

    Returns
    -------
    CovarianceFunction
        The function.

    Examples
    --------
    >>> read_kernel("matern32", length=2.0)
    Matern(length=2.0, nu=1.5, scaled=False)
    """
    if isinstance(kernel, str):
        name = normalised_name(kernel)
        if name in ("matern12", "matern32", "matern52"):
            nu = int(name[-2]) / 2
            if "nu" in settings:
                raise DataError(f"{name} has nu = {nu:g}; write 'matern' to give nu")
            name, settings = "matern", settings | {"nu": nu}
        kind: Any = KERNELS[name]
        known = [f.name for f in fields(kind)]
        if "parts" in known:
            raise Incompatible(
                f"kernel={kernel!r} combines other functions: write them, such as pr.kernels.RBF(1.0) + pr.kernels.Linear()"
            )
        refuse_unknown(name, settings, known)
        return kind(**settings)
    if not isinstance(kernel, CovarianceFunction) or settings:
        raise Incompatible(
            f"kernel is a name or a covariance function such as pr.kernels.RBF(1.0), got {shown_value(kernel)}"
            + (f" with {', '.join(settings)}" if settings else "")
        )
    return kernel
