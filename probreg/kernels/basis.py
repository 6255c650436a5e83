"""A basis turns a covariance function into columns: phi(x)'phi(z) = k(x, z), exactly at some rows or approximately at all rows.

With coefficients beta ~ N(0, tau^2 I) they give a Gaussian process with covariance tau^2 k. The residual variance at a row is
v(x) = k(x, x) - phi(x)'phi(x), and the residual covariance is R(x, z) = k(x, z) - phi(x)'phi(z).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self, get_args, get_type_hints

import numpy as np

from probreg.arguments.arrays import brief, floats
from probreg.arguments.scalars import ArrayLike, shown_value
from probreg.errors import DataError
from probreg.kernels.base import (
    Array,
    CovarianceFunction,
    RowPairs,
    kernel_from_spec,
    read_kernel,
    read_rows,
)
from probreg.linalg import evenly_spaced
from probreg.linalg.lazy_array import LazyArray

# up to this number of distinct rows the default basis is exact: its eigenvectors take a few seconds
DEFAULT_EXACT = 2000
BASES: dict[str, "Callable[..., KernelBasis]"] = {}
_FORMS: "dict[str, type[KernelBasis]]" = {}  # the classes by their names in files


class Beyond(NamedTuple):
    """A value outside the range of a basis: its row and column by number, and the range."""

    row: int
    column: int
    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class KernelBasis(ABC):
    """Columns phi(x) (n, q) with k(x, z) = phi(x)'phi(z) + R(x, z).

    Attributes
    ----------
    kernel : CovarianceFunction
        In raw units.
    kind : str
        "exact", "cholesky" or "hsgp".
    width : int
        The number of columns of its input rows.
    error : float
        The error of the columns; see `error_words` for its kind.
    holds_rows : bool
        Whether it keeps rows that it was made from, also in a file.
    """

    kernel: CovarianceFunction
    kind: str
    width: int
    error: float
    holds_rows: bool

    projection: ClassVar[bool] = False  # whether R = k - phi'phi is a covariance
    # whether its columns also determine the process at other rows
    elsewhere: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        _FORMS[cls.__name__] = cls

    @property
    def projects(self) -> bool:
        """Whether the columns project on few anchors, so that the evidence needs a correction (Titsias 2009)."""
        return self.kind == "cholesky"

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of columns, q."""

    @property
    @abstractmethod
    def error_words(self) -> str:
        """A sentence that describes `error`."""

    @abstractmethod
    def values(self, rows: Array) -> Array:
        """The columns at checked rows."""

    def phi(self, rows: Array) -> Array:
        """Return columns with the products k(x, z), including scales that `values` leaves to the prior."""
        return self.values(rows)

    def first_beyond(self, rows: Array) -> Beyond | None:
        """Return the first value of rows (n, d) outside the range of the basis; None if there is none."""
        return None

    @property
    def ends(self) -> Array | None:
        """The range (d, 2) of each column where the basis is valid; None for all values."""
        return None

    @abstractmethod
    def check_shapes(self) -> bool:
        """Whether the arrays of a file have matching shapes."""

    def columns_at(self, X: ArrayLike) -> Array:
        """phi (n, q) at rows X (n, d). DataError for rows that do not fit the basis."""
        return self.values(read_rows(X, "X", self.width))

    @abstractmethod
    def left_over(self, left: Array, largest: Array) -> Array:
        """Return v >= 0 from the computed k(x, x) - phi(x)'phi(x) (n,); raise DataError for a value that is negative beyond rounding."""

    @abstractmethod
    def with_kernel(self, kernel: CovarianceFunction) -> Self:
        """Return the basis of the same kind, with the same anchors or range, for the same function at other hyperparameters."""

    def residual_variance(self, X: ArrayLike) -> Array:
        """Return v(x) = k(x, x) - phi(x)'phi(x) (n,), not negative: a prediction at X adds tau^2 v.

        For a basis with anchors this is the variance of the process given its values there. The hsgp basis is not a
        projection: v is k(x, x) - phi(x)'phi(x), or 0 if this is negative.
        """
        rows = read_rows(X, "X", self.width)
        return self.variance_left(rows, self.phi(rows))

    def variance_left(self, rows: Array, phi: Array) -> Array:
        """v (n,) at checked rows with the columns phi (n, q)."""
        diagonal = self.kernel.diagonal(rows)
        return self.left_over(diagonal - np.einsum("ij,ij->i", phi, phi), diagonal)

    def residual_covariance(self, X: ArrayLike, Z: ArrayLike | None = None) -> Array:
        """Return R(x, z) = k(x, z) - phi(x)'phi(z) (n, m), for sums over rows.

        It is a covariance for bases with anchors. For hsgp, which is not a projection, it is the error of k.
        """
        rows = read_rows(X, "X", self.width)
        phi = self.phi(rows)
        if Z is None:
            return self.kernel.matrix(RowPairs(rows, rows)) - phi @ phi.T
        other_rows = read_rows(Z, "Z", self.width)
        return (
            self.kernel.matrix(RowPairs(rows, other_rows))
            - phi @ self.phi(other_rows).T
        )

    @abstractmethod
    def rebuilt(
        self, kernel: CovarianceFunction, X: ArrayLike, **settings: Any
    ) -> "KernelBasis":
        """Return the basis of the same kind for another function, in raw units, at the rows X of this basis."""

    def spec(self) -> dict[str, Any]:
        """Return plain arrays, numbers and texts for `basis_from_spec`, which makes the same basis."""
        values = {
            f.name: getattr(self, f.name) for f in fields(self) if f.name != "kernel"
        }
        plain = {
            name: np.asarray(v) if isinstance(v, LazyArray) else v
            for name, v in values.items()
        }
        return {"form": type(self).__name__, "kernel": self.kernel.spec()} | plain


def basis(
    kernel: CovarianceFunction | str,
    X: ArrayLike,
    kind: str | None = None,
    **settings: Any,
) -> KernelBasis:
    """Return a basis of a covariance function: its columns at rows X and at new rows.

    Parameters
    ----------
    kernel : CovarianceFunction or str
        Its length is in units of the columns of X, or of standardised columns (`scaled=True`).
    X : array (n, d)
        Rows; one axis is one column.
    kind : str, optional
        "exact" (the default up to 2,000 distinct rows), "cholesky" (above) or "hsgp".
    **settings
        The settings of this kind: `tol`, `size`, `range`, `half_width`.

    Returns
    -------
    KernelBasis
        With `columns_at`, `residual_variance`, `residual_covariance`, `error`.

    Examples
    --------
    >>> from probreg.kernels import RBF, basis
    >>> found = basis(RBF(1.0), [0.0, 1.0, 2.0, 4.0])
    >>> found.columns_at([3.0]).shape, found.residual_variance([1.0, 10.0]).round(3)
    ((1, 4), array([0., 1.]))
    """
    if kind is None:
        if len(distinct_rows(read_rows(X, "X"))) <= DEFAULT_EXACT:
            kind = "exact"
        else:
            kind = "cholesky"
    if not isinstance(kind, str) or kind not in BASES:
        raise DataError(f"kind is one of {', '.join(BASES)}, got {shown_value(kind)}")
    return BASES[kind](kernel, X, **settings)


def basis_from_spec(spec: Mapping[str, Any]) -> KernelBasis:
    """The basis that `KernelBasis.spec` wrote.

    Parameters
    ----------
    spec : mapping
        Its form, its covariance function, and plain arrays and numbers.

    Returns
    -------
    KernelBasis
        The basis with the same columns.
    """
    form = _FORMS.get(str(spec.get("form")))
    if form is None or set(spec) != {"form", *(f.name for f in fields(form))}:
        raise DataError(
            "this is no specification of a basis: its parts are not those of one"
        )
    arguments: dict[str, Any] = {"kernel": kernel_from_spec(spec["kernel"])}
    hints = get_type_hints(form)
    for name, kind in ((f.name, hints[f.name]) for f in fields(form)):
        if name != "kernel":
            array = Array in (kind, *get_args(kind))
            if array:
                arguments[name] = floats(spec[name], name)
            else:
                arguments[name] = spec[name]
            if not array and type(spec[name]) is not kind:
                raise DataError(
                    f"this is no specification of a basis: {name} is {brief(spec[name])}"
                )
    result = form(**arguments)
    if not result.check_shapes():
        raise DataError(
            "this is no specification of a basis: the shapes of its arrays do not belong together"
        )
    return result


def resolved_at(kernel: Any, X: Any) -> tuple[CovarianceFunction, Array]:
    """Return a covariance function in raw units and the checked rows. DataError for a length that is far from the scale of the rows."""
    rows = read_rows(X, "X")
    resolved = read_kernel(kernel).resolve(rows)
    # finite diagonals make k finite between rows: k(x, z)^2 <= k(x, x) k(z, z)
    resolved.diagonal(rows)
    refuse_far_lengths(resolved, rows)
    return resolved, rows


def refuse_far_lengths(kernel: CovarianceFunction, rows: Array) -> None:
    """Raise DataError if a stationary function with a length is 0, or constant, between all different rows."""
    lengths = [
        f"{name} = {v:g}" for name, v in kernel.hyper.items() if "length" in name
    ]
    if not kernel.stationary or not lengths:
        return
    probes = evenly_spaced(len(rows), 50)
    for targets in (rows[probes], rows):
        R = kernel.matrix(RowPairs(rows[probes], targets)) / kernel.bound
        R = R[(rows[probes][:, None] != targets[None]).any(-1)]
        # one value between 0 and 1 is enough, and the probes usually have one
        if ((np.abs(R) >= 1e-12) & (R <= 1.0 - 1e-12)).any():
            return
    if not len(R):
        return
    span = f"the columns span {', '.join(f'{v:.3g}' for v in np.ptp(rows, axis=0)[:5])}"
    if (np.abs(R) < 1e-12).all():
        raise DataError(
            f"{', '.join(lengths)} is far below the distances of the rows, whose covariances are all 0; {span}"
        )
    if (R > 1.0 - 1e-12).all():
        raise DataError(
            f"{', '.join(lengths)} is far above the distances of the rows, so that k is constant; {span}"
        )


def distinct_rows(rows: Array) -> Array:
    """Return the distinct rows, in the order of their first appearance.

    >>> distinct_rows(np.array([[2.0], [1.0], [2.0]]))
    array([[2.],
           [1.]])
    """
    return rows[np.sort(np.unique(rows, axis=0, return_index=True)[1])]
