"""Losses of one round, learning rates and geometries of gradient learners, and the state of a learner.

Each is a plain function of numbers, (f, y, c) -> (value, slope), which the compiled loops use too. The squared loss is
(f - y)^2 with slope f - y: our steps have no factor 2.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from probreg.arguments import scalars
from probreg.arguments.scalars import NonNegative, Real, check_arguments, check_fields
from probreg.errors import DataError

Array = NDArray[np.float64]

PLAIN, NORMALISED, IMPLICIT = range(3)


@dataclass(frozen=True, eq=False)
class State:
    """The state of a learner after t rounds: its weights w (p,), t, and the other values of its update, by name."""

    w: Array
    t: int = 0
    memory: Mapping[str, Any] = field(default_factory=dict)


class Info(NamedTuple):
    """One round: the prediction made before y was seen, and its loss."""

    prediction: float
    loss: float


@dataclass(frozen=True)
class Rate:
    """The multiplier a of w += -a slope x in round t = 1, 2 ..., with q = ||x||^2 and s = step t^-power.

    kind PLAIN: s. NORMALISED: s / (eps + q). IMPLICIT: s / (1 + s q).

    Parameters
    ----------
    step : float
        Positive.
    power : float
        Not negative; 0 is a constant step.
    kind : int
        One of the three above.
    eps : float
        Not negative; for NORMALISED.

    Examples
    --------
    >>> Rate(0.5, power=0.5).at(4, 1.0)
    0.25
    """

    step: scalars.Positive
    power: scalars.NonNegative = 0.0
    kind: Annotated[int, scalars.whole_number(PLAIN, IMPLICIT)] = PLAIN
    eps: scalars.NonNegative = 0.0

    def __post_init__(self) -> None:
        scalars.check_fields(self)
        if self.eps and self.kind != NORMALISED:
            raise DataError(
                f"eps={self.eps!r} is for the normalised rate: expected kind={NORMALISED}, got {self.kind}"
            )

    def at(self, t: int, q: float) -> float:
        """Return the multiplier of round t, with q = ||x||^2."""
        s = self.steps(t)
        # Under the squared loss a step takes the error e = w'x - y of the row to (1 - a q) e: 1 - a q is
        # 1 - s q / (eps + q) if normalised, 1 / (1 + s q) if implicit, the argmin of s (w'x - y)^2 + |w - w_t|^2.
        if self.kind == NORMALISED:
            if self.eps + q > 0:
                return s / (self.eps + q)
            return 0.0
        if self.kind == IMPLICIT:
            return s / (1.0 + s * q)
        return s

    def steps(self, t: Any) -> Any:
        """Return the steps s of rounds t."""
        return self.step * t**-self.power


@scalars.check_arguments
def constant(step: scalars.Positive) -> Rate:
    """The constant rate: the same step in every round.

    Parameters
    ----------
    step : float
        Positive.

    Returns
    -------
    Rate
        For a learner's `step`.

    Examples
    --------
    >>> constant(0.1).at(7, 1.0)
    0.1
    """
    return Rate(step)


@scalars.check_arguments
def inverse_sqrt(step: scalars.Positive) -> Rate:
    """The rate step / sqrt(t), for any convex loss on a bounded set.

    Parameters
    ----------
    step : float
        Positive.

    Returns
    -------
    Rate
        For a learner's `step`.

    References
    ----------
    Zinkevich 2003.

    Examples
    --------
    >>> inverse_sqrt(1.0).at(4, 1.0)
    0.5
    """
    return Rate(step, power=0.5)


# A gradient learner in numbers: codes of loss and rate; then c, step, power, eps, radius or norm.
# Plain tuples, because numba's cache on disk names the classes of its arguments and fails when one has moved.
Setup = tuple[tuple[int, int], tuple[float, float, float, float, float]]


class RoundArrays(NamedTuple):
    """Arrays (n,) that a run fills round by round, and the running sum of w."""

    prediction: Array
    loss: Array
    slope: Array
    square: Array  # ||x||^2
    total: Array

    @classmethod
    def of(cls, n: int, total: Array) -> "RoundArrays":
        """Return arrays for n rounds that add to this total."""
        return cls._make([*np.empty((4, n)), total])

    def select(self, rows: slice) -> "RoundArrays":
        """Return views of some rounds, with the same total."""
        *of_rounds, total = self
        return RoundArrays._make([*[array[rows] for array in of_rounds], total])


class Geometry(ABC):
    """Coordinates theta with additive steps, and the weights w(theta) that predict (mirror descent)."""

    __post_init__ = scalars.check_fields

    @property
    @abstractmethod
    def size(self) -> float:
        """Return the radius or norm of the set of weights; 1 for the simplex."""

    def start(self, p: int) -> Array:
        """Return theta before the first round."""
        return np.zeros(p)

    @abstractmethod
    def weights(self, theta: Array) -> Array:
        """Return w (p,) for theta."""

    @abstractmethod
    def nearest(self, u: Array) -> Array:
        """Return the weights of the set that are nearest to u (p,)."""

    def move(self, theta: Array, direction: Array) -> Array:
        """Return theta after a step against `direction` (p,)."""
        return theta - direction


@dataclass(frozen=True)
class Euclid(Geometry):
    """The geometry theta = w: gradient descent, projected on a ball if there is a radius.

    Parameters
    ----------
    radius : float
        Radius of the ball; inf for no ball.

    Examples
    --------
    >>> Euclid(radius=1.0).move(np.zeros(2), np.array([-3.0, -4.0]))
    array([0.6, 0.8])
    """

    radius: scalars.Limit = np.inf

    @property
    def size(self) -> float:
        return self.radius

    def weights(self, theta: Array) -> Array:
        return theta

    def nearest(self, u: Array) -> Array:
        norm = math.sqrt(u @ u)
        return u if norm <= self.radius else u * (self.radius / norm)

    def move(self, theta: Array, direction: Array) -> Array:
        return self.nearest(theta - direction)


@dataclass(frozen=True)
class Simplex(Geometry):
    """The geometry w = softmax(theta) of exponentiated gradient: w >= 0, sum(w) = 1.

    Examples
    --------
    >>> Simplex().weights(Simplex().start(2))
    array([0.5, 0.5])
    """

    size: ClassVar[float] = 1.0

    def weights(self, theta: Array) -> Array:
        # w_j = exp(theta_j) / sum_k exp(theta_k): the mirror map of the relative entropy is theta = log w + constant.
        return softmax(theta)

    def nearest(self, u: Array) -> Array:
        return project_simplex(u, 1.0)


@dataclass(frozen=True)
class Signed(Geometry):
    """The geometry w = norm (w+ - w-) with (w+, w-) = softmax(theta): EG+-, all w with ||w||_1 < norm.

    Parameters
    ----------
    norm : float
        Positive.

    References
    ----------
    Kivinen & Warmuth 1997.

    Examples
    --------
    >>> Signed(2.0).weights(Signed(2.0).start(2))
    array([0., 0.])
    """

    norm: scalars.Positive = 1.0

    @property
    def size(self) -> float:
        return self.norm

    def start(self, p: int) -> Array:
        return np.zeros(2 * p)

    def weights(self, theta: Array) -> Array:
        # EG+-: exponentiated gradient on the rows norm (x, -x)   (Kivinen & Warmuth 1997).
        plus, minus = np.split(softmax(theta), 2)
        return self.norm * (plus - minus)

    def nearest(self, u: Array) -> Array:
        if np.abs(u).sum() <= self.norm:
            return u
        return np.sign(u) * project_simplex(np.abs(u), self.norm)

    def move(self, theta: Array, direction: Array) -> Array:
        return theta - self.norm * np.concatenate([direction, -direction])


def project_simplex(u: Array, total: float) -> Array:
    """Return the nearest point with entries >= 0 and the sum `total` (Duchi, Shalev-Shwartz, Singer & Chandra 2008)."""
    # (u - c)_+ with the c such that its entries add up to the total
    v = np.sort(u)[::-1]
    excess = (np.cumsum(v) - total) / np.arange(1, len(v) + 1)
    return np.maximum(u - excess[v > excess][-1], 0.0)


Scalar = Callable[[float, float, float], tuple[float, float]]


def _squared_loss(f: float, y: float, c: float) -> tuple[float, float]:
    # l = e^2, and half of dl/df = 2 e
    e = f - y
    return e * e, e


def _absolute(f: float, y: float, c: float) -> tuple[float, float]:
    # l = |e|, dl/df = sign e
    e = f - y
    if e > 0:
        return e, 1.0
    return (-e, -1.0) if e < 0 else (e, 0.0)  # a NaN stays one


def _insensitive(f: float, y: float, c: float) -> tuple[float, float]:
    # l = (|e| - c)_+, dl/df = sign e beyond c
    e = f - y
    if abs(e) <= c:
        return 0.0, 0.0
    return abs(e) - c, (1.0 if e > 0 else -1.0)


def _hinge(f: float, y: float, c: float) -> tuple[float, float]:
    # l = (c - y f)_+, dl/df = -y if l is positive
    lack = c - y * f
    return (0.0, 0.0) if lack <= 0 else (lack, -y)


def _perceptron(f: float, y: float, c: float) -> tuple[float, float]:
    # l = (-y f)_+, with the slope -y of a mistake also at f = 0
    margin = y * f
    return (0.0, 0.0) if margin > 0 else (0.0 - margin, -y)


def _logistic(f: float, y: float, c: float) -> tuple[float, float]:
    # l = log(1 + exp f) - y f = max(f, 0) + log(1 + exp(-|f|)) - y f, dl/df = expit(f) - y
    small = math.exp(-abs(f))
    if f >= 0:
        mean = 1.0 / (1.0 + small)
    else:
        mean = small / (1.0 + small)
    return max(f, 0.0) + math.log1p(small) - y * f, mean - y


# in the order of their codes in `loops`
_COMPILED = (_squared_loss, _absolute, _insensitive, _hinge, _perceptron, _logistic)


@dataclass(frozen=True)
class Labels:
    """The values of y where a loss is defined, and the advice of its error message."""

    kind: str
    # false where y is not finite
    valid: Callable[[Array], NDArray[np.bool_]] = field(compare=False)
    advice: str


REAL = Labels("real", np.isfinite, "finite numbers; drop or repair that row")
SIGN = Labels(
    "sign",
    lambda y: np.abs(y) == 1,
    "labels -1 and +1; for labels 0 and 1 pass 2 * y - 1",
)
BINARY = Labels(
    "binary",
    lambda y: (y == 0) | (y == 1),
    "labels 0 and 1; for labels -1 and +1 pass (y + 1) / 2",
)


@dataclass(frozen=True)
class Loss:
    """A loss l(f, y), convex in the prediction f = w'x.

    A custom loss runs without compilation.

    Parameters
    ----------
    name : str
        Its name in tables and messages.
    function : callable
        (f, y, c) -> (value, slope) on numbers.
    labels : Labels
        The values of y for which it is defined.
    c : float
        The parameter of the loss.
    derivative : float
        The factor from the slope to dl/df.

    Examples
    --------
    >>> SQUARED.at(3.0, 5.0)
    (4.0, -2.0)
    """

    name: str
    function: Scalar = field(repr=False)
    labels: Labels = field(default=REAL, repr=False)
    c: Real = 0.0
    derivative: Real = 1.0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def code(self) -> int:
        """The number of the function among the compiled ones; -1 for a custom function."""
        if self.function in _COMPILED:
            return _COMPILED.index(self.function)
        return -1

    def at(self, f: float, y: float) -> tuple[float, float]:
        """Return the value and the slope at one prediction."""
        return self.function(f, y, self.c)

    def values(self, f: Array, y: Array) -> Array:
        """Return the values (n,) at predictions (n,)."""
        if self.function is not _squared_loss:
            return np.array([self.at(a, b)[0] for a, b in zip(f.tolist(), y.tolist())])
        return (f - y) ** 2

    def mistakes(self, f: Array, y: Array) -> int:
        """Return the number of rounds with a wrong class; a prediction of 0 is wrong. 0 for a real response."""
        if self.labels is SIGN:
            return int(np.count_nonzero(y * f <= 0))
        if self.labels is BINARY:
            return int(np.count_nonzero(np.where(y > 0, f <= 0, f > 0)))
        return 0


SQUARED = Loss("squared", _squared_loss, derivative=2.0)
ABSOLUTE = Loss("absolute", _absolute)
INSENSITIVE = Loss("insensitive", _insensitive, c=0.1)
HINGE = Loss("hinge", _hinge, SIGN, c=1.0)
PERCEPTRON = Loss("perceptron", _perceptron, SIGN)
LOGISTIC = Loss("logistic", _logistic, BINARY)
LOSSES = {
    loss.name: loss
    for loss in (
        SQUARED,
        ABSOLUTE,
        INSENSITIVE,
        HINGE,
        PERCEPTRON,
        LOGISTIC,
    )
}


@check_arguments
def insensitive(eps: NonNegative = 0.1) -> Loss:
    """The loss max(0, |f - y| - eps) of support vector regression.

    Parameters
    ----------
    eps : float
        Not negative, in units of y.

    Returns
    -------
    Loss
        For `descent`.

    Examples
    --------
    >>> insensitive(0.5).at(2.0, 0.0)
    (1.5, 1.0)
    """
    return replace(INSENSITIVE, c=float(eps))


@check_arguments
def hinge(margin: NonNegative = 1.0) -> Loss:
    """The hinge loss max(0, margin - y f), y = -1 or +1.

    Parameters
    ----------
    margin : float
        Not negative.

    Returns
    -------
    Loss
        For `descent`.

    Examples
    --------
    >>> hinge().at(0.25, 1.0)
    (0.75, -1.0)
    """
    return replace(HINGE, c=float(margin))
