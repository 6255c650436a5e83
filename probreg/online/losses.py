"""Losses of one round as functions of the prediction f and y: the value, and the slope that multiplies x in an update.

Each is a plain function of numbers, (f, y, c) -> (value, slope), which the compiled loops use too. The squared loss is
(f - y)^2 with slope f - y: our steps have no factor 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from probreg.arguments.scalars import (
    NonNegative,
    Real,
    check_arguments,
    check_fields,
)

Array = NDArray[np.float64]
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
    # l = (c - y f)_+, dl/df = -y where it is positive
    lack = c - y * f
    return (0.0, 0.0) if lack <= 0 else (lack, -y)


def _perceptron(f: float, y: float, c: float) -> tuple[float, float]:
    # l = (-y f)_+, with the slope -y of a mistake at f = 0 too
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
    """The values of y for which a loss is defined, and the advice of its error message."""

    kind: str
    valid: Callable[[Array], NDArray[np.bool_]] = field(
        compare=False
    )  # false where y is not finite
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
