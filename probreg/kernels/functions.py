"""Covariance functions: stationary ones (functions of x - z), linear and polynomial ones, and a user's own functions.

If a process has a spectral density, S(omega) = int k(r) exp(-i omega'r) dr and k(r) = int S(omega) exp(i omega'r) d omega / (2 pi)^d
(Bochner). Radial functions are k = g(s) with s = sum_j (x_j - z_j)^2 / l_j^2, and one length for all columns or one per column.
"""

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar

import numpy as np

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import (
    Flag,
    Number,
    Positive,
    PositivePerColumn as Length,
    shown_value,
    whole_number,
)
from probreg.errors import DataError, Incompatible
from probreg.kernels.base import (
    KERNELS,
    Array,
    CovarianceFunction,
    RowPairs,
    refuse_indefinite,
)
from probreg.linalg import evenly_spaced, row_slices
from probreg.special import gammaln


class Radial(CovarianceFunction):
    """k = g(s) of the squared distance s in units of the lengths, g(0) = 1; a subclass defines g and its density."""

    length: Length
    scaled: bool
    bound = 1.0
    stationary = True
    hyperparameters: ClassVar[tuple[str, ...]] = ("length",)

    @abstractmethod
    def profile(self, s: Array) -> Array:
        """g(s)."""

    @abstractmethod
    def profile_slopes(self, s: Array) -> tuple[Array, dict[str, Array]]:
        """Return s dg/ds, and dg / d log h of the hyperparameters other than the length."""

    def unit_density(self, w2: Array, d: int) -> Array | None:
        """S at squared frequencies w2, for lengths of 1 in d columns; None if it is not known."""
        return None

    def lengths(self, d: int) -> Array:
        """One length per column (d,), in raw units. DataError for another number of lengths."""
        if self.scaled:
            raise DataError(
                f"{self} has its length on standardised columns: write .resolve(X) with the rows first"
            )
        if isinstance(self.length, tuple) and len(self.length) != d:
            raise DataError(
                f"{self.name} has {len(self.length)} lengths, and the rows have {d} columns: give one for each"
            )
        return np.broadcast_to(np.asarray(self.length, dtype=float), d)

    def at_rows(self, X: Array, names: tuple[str, ...]) -> CovarianceFunction:
        if not self.scaled:
            return self
        sd = X.std(0, ddof=1) if len(X) > 1 else np.zeros(X.shape[1])
        if not (sd > 0).all():
            constant_column = int(np.argmin(sd > 0))
            column_name = names[constant_column] if names else constant_column
            raise DataError(
                f"column {column_name} does not vary, so no length can be stated in its standard deviations"
            )
        lengths = tuple((np.asarray(self.length) * sd).tolist())
        return replace(self, scaled=False, length=lengths)  # type: ignore[type-var]

    def matrix(self, pairs: RowPairs) -> Array:
        return self.profile(pairs.squared_distances(self.lengths(pairs.width)))

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        lengths = self.lengths(pairs.width)
        s = pairs.squared_distances(lengths)
        steep, other_slopes = self.profile_slopes(s)
        # s_j = (x_j - z_j)^2 / l_j^2 has d s_j / d log l_j = -2 s_j: dk / d log l_j = -2 (s_j / s) (s dg/ds)
        if not isinstance(self.length, tuple):
            return {"length": -2.0 * steep} | other_slopes
        ratio = np.divide(-2.0 * steep, s, out=np.zeros_like(s), where=s > 0)
        slopes = {}
        for j, length in enumerate(lengths):
            x_column, right = pairs.column(j)
            slopes[f"length[{j}]"] = ratio * np.square((x_column - right) / length)
        return slopes | other_slopes

    def symbolic_density(self, omega: Array, **length: Any) -> Any:
        """S at frequencies omega (q, d), with `length`, or `length[j]` of each column, as a symbol; None if it is not known."""
        # k(r) = g(r / l): S(omega) = prod_j l_j S_1(l omega)
        lengths = [
            length.get(f"length[{j}]", length.get("length", v))
            for j, v in enumerate(self.lengths(omega.shape[1]))
        ]
        w2 = sum(np.square(omega[:, j]) * v**2 for j, v in enumerate(lengths))
        unit = self.unit_density(w2, len(lengths))
        return None if unit is None else math.prod(lengths) * unit

    def density(self, omega: Array) -> Array | None:
        return self.symbolic_density(omega)


@KERNELS.register
@dataclass(frozen=True)
class RBF(Radial):
    """The Gaussian covariance function exp(-|x - z|^2 / (2 length^2)) for infinitely smooth processes.

    Parameters
    ----------
    length : float or tuple of float
        Positive: one for all columns, or one per column. scikit-learn's gamma is 1 / (2 length^2).
    scaled : bool
        Whether the length is stated on standardised columns; `resolve(X)` converts it to raw columns.

    Examples
    --------
    >>> RBF(2.0)([0.0, 2.0]).round(6)
    array([[1.      , 0.606531],
           [0.606531, 1.      ]])
    """

    length: Length = 1.0
    scaled: Flag = False

    name = "rbf"

    def profile(self, s: Array) -> Array:
        k = -0.5 * s
        return np.exp(k, out=k)  # in place: a new array takes as long as the arithmetic

    def profile_slopes(self, s: Array) -> tuple[Array, dict[str, Array]]:
        return -0.5 * s * np.exp(-0.5 * s), {}

    def unit_density(self, w2: Array, d: int) -> Array:
        # S(w) = (2 pi)^(d/2) exp(-w^2 / 2)
        return (2.0 * math.pi) ** (d / 2) * np.exp(-0.5 * w2)


@KERNELS.register
@dataclass(frozen=True)
class Matern(Radial):
    """The Matern covariance function with smoothness nu: exp(-r), (1 + r) exp(-r), (1 + r + r^2/3) exp(-r) at r = sqrt(2 nu s).

    The process has nu - 1/2 derivatives; s is the squared distance in units of the length.

    Parameters
    ----------
    length : float or tuple of float
        Positive: one for all columns, or one per column.
    nu : float
        0.5, 1.5 or 2.5.
    scaled : bool
        Whether the length is stated on standardised columns; `resolve(X)` converts it to raw columns.

    References
    ----------
    Rasmussen & Williams 2006, section 4.2.

    Examples
    --------
    >>> Matern(2.0, nu=0.5)([0.0], [2.0]).item().__round__(6)
    0.367879
    """

    length: Length = 1.0
    nu: Positive = 1.5
    scaled: Flag = False

    name = "matern"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu not in (0.5, 1.5, 2.5):
            raise DataError(
                f"Matern nu is 0.5, 1.5 or 2.5, got {self.nu:g}; as nu grows it becomes RBF"
            )

    def profile(self, s: Array) -> Array:
        r = np.sqrt(2.0 * self.nu * s)
        polynomial = {0.5: 1.0, 1.5: 1.0 + r, 2.5: 1.0 + r + r * r / 3.0}[self.nu]
        return polynomial * np.exp(-r)

    def profile_slopes(self, s: Array) -> tuple[Array, dict[str, Array]]:
        # s dg/ds = (r/2) dg/dr: -r/2 e^-r, -r^2/2 e^-r, -r^2 (1 + r)/6 e^-r
        r = np.sqrt(2.0 * self.nu * s)
        polynomial = {0.5: r / 2.0, 1.5: r * r / 2.0, 2.5: r * r * (1.0 + r) / 6.0}[
            self.nu
        ]
        return -polynomial * np.exp(-r), {}

    def unit_density(self, w2: Array, d: int) -> Array:
        # S(w) = 2^d pi^(d/2) Gamma(nu + d/2) (2 nu)^nu / Gamma(nu) (2 nu + w^2)^-(nu + d/2)
        nu = self.nu
        half = d / 2
        constant = (
            d * math.log(2.0)
            + half * math.log(math.pi)
            + gammaln(nu + half)
            - gammaln(nu)
            + nu * math.log(2 * nu)
        )
        return np.exp(constant - (nu + half) * np.log(2.0 * nu + w2))


@KERNELS.register
@dataclass(frozen=True)
class RationalQuadratic(Radial):
    """The rational quadratic (1 + |x - z|^2 / (2 alpha length^2))^-alpha: a mixture of Gaussian functions of many lengths.

    Parameters
    ----------
    length : float or tuple of float
        Positive: one for all columns, or one per column.
    alpha : float
        Positive; for a large alpha the function is close to RBF(length).
    scaled : bool
        Whether the length is stated on standardised columns; `resolve(X)` converts it to raw columns.

    Examples
    --------
    >>> RationalQuadratic(1.0, alpha=0.5)([0.0], [1.0]).item().__round__(6)
    0.707107
    """

    length: Length = 1.0
    alpha: Positive = 1.0
    scaled: Flag = False

    name = "rational_quadratic"
    hyperparameters = ("length", "alpha")

    def profile(self, s: Array) -> Array:
        return np.exp(-self.alpha * np.log1p(s / (2.0 * self.alpha)))

    def profile_slopes(self, s: Array) -> tuple[Array, dict[str, Array]]:
        # with u = s / (2 alpha): s dg/ds = -(s/2) g / (1 + u), dg / d log alpha = alpha g (u / (1 + u) - log(1 + u))
        u = s / (2.0 * self.alpha)
        g = self.profile(s)
        return -0.5 * s * g / (1.0 + u), {
            "alpha": self.alpha * g * (u / (1.0 + u) - np.log1p(u))
        }


@KERNELS.register
@dataclass(frozen=True)
class Periodic(CovarianceFunction):
    """The periodic covariance function exp(-2 sum_j sin^2(pi (x_j - z_j) / period) / length^2).

    Its spectrum has lines at the multiples of 2 pi / period, so that it has no spectral density.

    Parameters
    ----------
    period : float
        Positive, in the units of the columns.
    length : float
        Positive, without units: the smoothness within one period.

    Examples
    --------
    >>> Periodic(7.0)([0.0], [14.0]).item()  # two weeks later
    1.0
    """

    period: Positive = 1.0
    length: Positive = 1.0

    name = "periodic"
    hyperparameters = ("period", "length")
    bound = 1.0
    stationary = True

    def _phases(self, pairs: RowPairs) -> list[Array]:
        return [
            np.pi * (x_column - right) / self.period
            for x_column, right in map(pairs.column, range(pairs.width))
        ]

    def matrix(self, pairs: RowPairs) -> Array:
        squares = sum(np.square(np.sin(phase)) for phase in self._phases(pairs))
        return np.exp(-2.0 * squares / self.length**2)

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        # u = pi (x - z) / p has du / d log p = -u, and d sin^2 u = sin 2u du
        phases = self._phases(pairs)
        k = self.matrix(pairs)
        squares = sum(np.square(np.sin(u)) for u in phases)
        turned = sum(u * np.sin(2.0 * u) for u in phases)
        return {
            "period": 2.0 * k * turned / self.length**2,
            "length": 4.0 * k * squares / self.length**2,
        }


@KERNELS.register
@dataclass(frozen=True)
class Constant(CovarianceFunction):
    """The constant covariance function k(x, z) = variance: an offset with the prior N(0, variance).

    Parameters
    ----------
    variance : float
        Positive.

    Examples
    --------
    >>> Constant(9.0)([0.0, 1.0])
    array([[9., 9.],
           [9., 9.]])
    """

    variance: Positive = 1.0

    name = "constant"
    hyperparameters = ("variance",)
    stationary = True

    @property
    def bound(self) -> float:
        return self.variance

    def matrix(self, pairs: RowPairs) -> Array:
        return np.full(pairs.shape, float(self.variance))

    def slopes(self, pairs: RowPairs) -> dict[str, Array]:
        return {"variance": self.matrix(pairs)}


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
    """The linear covariance function x'z: straight lines through the origin, as with a normal prior on coefficients.

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
            # with more rows the least eigenvalue takes over two seconds
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
