"""Covariance functions of where rows are, not only of how far apart: linear, polynomial, and a user's own."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import Number, shown_value, whole_number
from probreg.errors import DataError, Incompatible
from probreg.kernels.base import KERNELS, CovarianceFunction
from probreg.kernels.pairs import Array, RowPairs, refuse_indefinite
from probreg.linalg import evenly_spaced, row_slices

Degree = Annotated[int, whole_number(1, 50)]
Offset = Annotated[
    float,
    Number(
        0.0,
        ends=(0.0,),
        words="a non-negative finite number",
        advice=": with a negative one it is no covariance function",
    ),
]


@KERNELS.register
@dataclass(frozen=True)
class Linear(CovarianceFunction):
    """The linear covariance function x'z: straight lines through the origin, as by a normal prior on coefficients.

    Examples
    --------
    >>> Linear()([[1.0, 2.0]], [[3.0, 4.0]]).item()
    11.0
    """

    name = "linear"
    bound = math.inf
    stationary = False

    def matrix(self, pairs: RowPairs) -> Array:
        return pairs.products()


@KERNELS.register
@dataclass(frozen=True)
class Polynomial(CovarianceFunction):
    """The polynomial covariance function (x'z + offset)^degree: all products of up to `degree` columns.

    Parameters
    ----------
    degree : int
        At least 1.
    offset : float
        Not negative; 0 leaves products of exactly `degree` columns. scikit-learn's coef0 at gamma = 1.

    Examples
    --------
    >>> Polynomial(2, offset=1.0)([[1.0]], [[3.0]]).item()
    16.0
    """

    degree: Degree = 2
    offset: Offset = 1.0

    name = "polynomial"
    hyperparameters = ("offset",)
    bound = math.inf
    stationary = False

    def matrix(self, pairs: RowPairs) -> Array:
        return (pairs.products() + self.offset) ** self.degree

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        # dk / d log c = c d (x'z + c)^(d - 1)
        return {
            "offset": self.offset
            * self.degree
            * (pairs.products() + self.offset) ** (self.degree - 1)
        }


@dataclass(frozen=True)
class CustomFunction(CovarianceFunction):
    """A custom covariance function; each of its matrices is checked for negative eigenvalues.

    It has no hyperparameters and is not saved; a subclass of `CovarianceFunction` has and is: docs/developer/kernel.md.

    Parameters
    ----------
    function : callable
        (x (n, d), z (m, d)) -> k (n, m).

    Examples
    --------
    >>> k = CustomFunction(lambda x, z: np.exp(-np.abs(x - z.T)))
    >>> k([0.0, 1.0]).round(3)
    array([[1.   , 0.368],
           [0.368, 1.   ]])
    >>> CustomFunction(lambda x, z: np.tanh(x @ z.T - 1.0))([0.5, 2.0])
    Traceback (most recent call last):
    probreg.errors.DataError: the least eigenvalue of the 2 x 2 matrix of this function is -0.635: it is no covariance function
    """

    function: Callable[[Array, Array], Array]

    name = "custom"
    bound = math.inf
    stationary = False

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise Incompatible(
                f"a CustomFunction is of a function (x, z) -> k (n, m), got {shown_value(self.function)}"
            )

    def matrix(self, pairs: RowPairs) -> Array:
        if pairs.aligned:
            places = row_slices(len(pairs.x), 64)
            return np.concatenate(
                [
                    np.diagonal(self._call_function(pairs.x[p], pairs.z[p]))
                    for p in places
                ]
            )
        K = self._call_function(pairs.x, pairs.z)
        if pairs.square:
            # the least eigenvalue of more rows takes over two seconds
            rows = evenly_spaced(len(K), 2000)
            refuse_indefinite(K[np.ix_(rows, rows)])
        return K

    def _call_function(self, x: Array, z: Array) -> Array:
        K: Any = floats(self.function(x, z), "k(x, z)")
        if K.shape != (len(x), len(z)):
            raise DataError(
                f"k(x, z) has shape {K.shape}, and {len(x)} rows by {len(z)} rows give {(len(x), len(z))}"
            )
        if not np.isfinite(K).all():
            i, j = np.argwhere(~np.isfinite(K))[0]
            raise DataError(f"k(x, z) is {K[i, j]} for row {i} of x and row {j} of z")
        return K
