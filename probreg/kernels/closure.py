"""Covariance functions made from others: sums, products, multiples, functions of some columns, normalised functions.

Each is positive semidefinite because its parts are: sums and entrywise products (Schur) of positive semidefinite matrices are
positive semidefinite.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add, mul
from typing import Annotated, Any, ClassVar

import numpy as np

from probreg.arguments.arrays import brief
from probreg.arguments.scalars import Number, check_fields, shown_value
from probreg.errors import DataError, Incompatible
from probreg.kernels.base import KERNELS, Array, CovarianceFunction, RowPairs

Parts = tuple[CovarianceFunction, ...]
Multiple = Annotated[
    float,
    Number(
        0.0,
        words="a positive finite number",
        advice=": a negative multiple is no covariance function",
    ),
]


class Composite(CovarianceFunction):
    """A covariance function made from others, its `parts`. It is stationary if all parts are."""

    least: int = 1

    def __post_init__(self) -> None:
        if not isinstance(self.parts, tuple) or len(self.parts) < self.least:
            raise DataError(
                f"a {self.name} of covariance functions takes a tuple of {self.least} or more of them"
            )
        bad = next(
            (p for p in self.parts if not isinstance(p, CovarianceFunction)), None
        )
        if bad is not None:
            raise Incompatible(
                f"a {self.name} is of covariance functions, got {shown_value(bad)}"
            )
        check_fields(self)

    @property
    def stationary(self) -> bool:
        return all(part.stationary for part in self.parts)


class Combination(Composite):
    """Two or more covariance functions, combined by an operation on their values."""

    least = 2
    operation: ClassVar[Any]
    symbol: ClassVar[str]

    @property
    def bound(self) -> float:
        return reduce(self.operation, [part.bound for part in self.parts])

    def matrix(self, pairs: RowPairs) -> Array:
        values = (part.matrix(pairs) for part in self.parts)
        return reduce(self.operation, values)

    def __repr__(self) -> str:
        return self.symbol.join(map(_format_part, self.parts))


@KERNELS.register
@dataclass(frozen=True, repr=False)
class Sum(Combination):
    """The sum of covariance functions, k1(x, z) + k2(x, z) + ...: independent processes added up; written `k1 + k2`.

    Parameters
    ----------
    parts : tuple of CovarianceFunction
        Two or more.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> RBF(1.0).on(0) + RBF(2.0).on(1)  # an additive process of two columns
    RBF(length=1.0, scaled=False).on(0) + RBF(length=2.0, scaled=False).on(1)
    """

    parts: Parts = field()

    name = "sum"
    operation = staticmethod(add)
    symbol = " + "

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        part_slopes = [
            self.rename_hyperparameters(i, part.slopes(pairs))
            for i, part in enumerate(self.parts)
        ]
        return {name: slope for found in part_slopes for name, slope in found.items()}

    def density(self, omega: Array) -> Array | None:
        densities = [part.density(omega) for part in self.parts]
        if any(f is None for f in densities):
            return None
        return reduce(add, [f for f in densities if f is not None])


@KERNELS.register
@dataclass(frozen=True, repr=False)
class Product(Combination):
    """The product of covariance functions, k1(x, z) k2(x, z) ...; written `k1 * k2`.

    Parameters
    ----------
    parts : tuple of CovarianceFunction
        Two or more.

    Examples
    --------
    >>> from probreg.kernels import RBF, Periodic
    >>> (RBF(20.0) * Periodic(1.0)).hyper  # a season that changes slowly
    {'rbf.length': 20.0, 'periodic.period': 1.0, 'periodic.length': 1.0}
    """

    parts: Parts = field()

    name = "product"
    operation = staticmethod(mul)
    symbol = " * "

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        # d (k1 k2 ...) = sum_i dk_i prod_(j != i) k_j
        values = [part.matrix(pairs) for part in self.parts]
        found: dict[str, Array] = {}
        for i, part in enumerate(self.parts):
            product_of_others = reduce(mul, values[:i] + values[i + 1 :])
            found |= self.rename_hyperparameters(
                i,
                {
                    name: slope * product_of_others
                    for name, slope in part.slopes(pairs).items()
                },
            )
        return found


@KERNELS.register
@dataclass(frozen=True)
class Scaled(Composite):
    """A positive multiple of a covariance function, variance k(x, z); written `2.0 * k`.

    Parameters
    ----------
    parts : tuple of CovarianceFunction
        The one function.
    variance : float
        Positive; the square of an amplitude.

    Examples
    --------
    >>> from probreg.kernels import RBF
    >>> (4.0 * RBF(1.5)).hyper
    {'variance': 4.0, 'length': 1.5}
    """

    parts: Parts = field()
    variance: Multiple = 1.0

    name = "scaled"
    hyperparameters = ("variance",)

    def __post_init__(self) -> None:
        super().__post_init__()
        # a multiple of a multiple is a single multiple
        if self.parts[0].name == self.name:
            inner = self.parts[0]
            object.__setattr__(
                self, "variance", self.variance * inner.hyper["variance"]
            )
            object.__setattr__(self, "parts", inner.parts)

    @property
    def bound(self) -> float:
        return self.variance * self.parts[0].bound

    def matrix(self, pairs: RowPairs) -> Array:
        return self.variance * self.parts[0].matrix(pairs)

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        inner = {
            name: self.variance * slope
            for name, slope in self.parts[0].slopes(pairs).items()
        }
        return {"variance": self.matrix(pairs)} | self.rename_hyperparameters(0, inner)

    def density(self, omega: Array) -> Array | None:
        densities = self.parts[0].density(omega)
        return None if densities is None else self.variance * densities

    def __repr__(self) -> str:
        return f"{self.variance:g} * {_format_part(self.parts[0])}"


@KERNELS.register
@dataclass(frozen=True)
class OnColumns(Composite):
    """A covariance function of some columns, k(x_c, z_c); written `k.on(0, 2)` or `k.on("age")`.

    Parameters
    ----------
    parts : tuple of CovarianceFunction
        The one function.
    columns : tuple of int or str
        The columns, by number or by name; `resolved` looks up names.

    Examples
    --------
    >>> from probreg.kernels import Linear
    >>> Linear().on(1)([[3.0, 2.0]]).item()
    4.0
    """

    parts: Parts = field()
    columns: tuple[int | str, ...] = field()

    name = "on"

    def __post_init__(self) -> None:
        super().__post_init__()
        columns = tuple(
            int(c) if isinstance(c, np.integer) else c for c in self.columns
        )
        object.__setattr__(self, "columns", columns)
        wrong = [
            c
            for c in columns
            if not isinstance(c, str)
            and (not isinstance(c, int) or isinstance(c, bool) or c < 0)
        ]
        if wrong or not self.columns or len(set(self.columns)) < len(self.columns):
            shown = brief(wrong[0] if wrong else self.columns)
            raise DataError(
                f"on takes columns by number from 0, or by name, each once, got {shown}"
            )

    @property
    def bound(self) -> float:
        return self.parts[0].bound

    def at_rows(self, X: Array, names: tuple[str, ...]) -> CovarianceFunction:
        chosen = self._column_numbers(X.shape[1], names)
        inner_names = tuple(names[j] for j in chosen) if names else ()
        part = self.parts[0].at_rows(X[:, chosen], inner_names)
        return replace(self, parts=(part,), columns=tuple(chosen))

    def _column_numbers(self, width: int, names: tuple[str, ...] = ()) -> list[int]:
        """Return the numbers of the columns that the function uses. DataError for a column that does not exist."""
        for c in self.columns:
            known: Collection[Any] = range(width)
            if isinstance(c, str):
                known = names
            if isinstance(c, str) and not names:
                raise DataError(
                    f"{self} names a column {c!r}, and an array has no names: write .resolve(X, names) first"
                )
            if c not in known:
                available = ", ".join(names) or f"0 to {width - 1}"
                raise DataError(
                    f"{self} asks for column {c!r}, and there are {available}"
                )
        return [names.index(c) if isinstance(c, str) else c for c in self.columns]

    def _selected_pairs(self, pairs: RowPairs) -> RowPairs:
        return pairs.on(self._column_numbers(pairs.width))

    def matrix(self, pairs: RowPairs) -> Array:
        return self.parts[0].matrix(self._selected_pairs(pairs))

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        return self.parts[0].slopes(self._selected_pairs(pairs))

    def __repr__(self) -> str:
        if not isinstance(self.parts[0], Sum | Product | Scaled):
            inner = repr(self.parts[0])
        else:
            inner = f"({self.parts[0]})"
        return f"{inner}.on({', '.join(map(repr, self.columns))})"


def _format_part(part: CovarianceFunction) -> str:
    """Return a part of a product or sum as text, a sum in brackets."""
    return f"({part})" if isinstance(part, Sum) else repr(part)
