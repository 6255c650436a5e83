"""Losses of one round as functions of (prediction f, y): what is suffered, and the slope an update multiplies x by.

Each is a plain function of numbers, (f, y, c) -> (value, slope), which the compiled loops take as it stands: a loss
is written once. The squared loss is (f - y)^2 with slope f - y: our steps have no factor 2.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from probreg.arguments.scalars import (
    NonNegative,
    Real,
    Whole,
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
    # l = (-y (f - c))_+, with the slope -y of a mistake at f = c too
    margin = y * (f - c)
    return (0.0, 0.0) if margin > 0 else (0.0 - margin, -y)


def _logistic(f: float, y: float, c: float) -> tuple[float, float]:
    # l = log(1 + exp f) - y f = max(f, 0) + log(1 + exp(-|f|)) - y f, dl/df = expit(f) - y
    small = math.exp(-abs(f))
    if f >= 0:
        mean = 1.0 / (1.0 + small)
    else:
        mean = small / (1.0 + small)
    return max(f, 0.0) + math.log1p(small) - y * f, mean - y


def _poisson(f: float, y: float, c: float) -> tuple[float, float]:
    # l = exp f - y f, dl/df = exp f - y
    mean = math.exp(f) if f < 700.0 else math.inf
    return mean - y * f, mean - y


def _binomial_loss(f: float, y: float, c: float) -> tuple[float, float]:
    # l = n log(1 + exp f) - k f with n in c and k in y, dl/df = n expit(f) - k
    small = math.exp(-abs(f))
    if f >= 0:
        mean = 1.0 / (1.0 + small)
    else:
        mean = small / (1.0 + small)
    return c * (max(f, 0.0) + math.log1p(small)) - y * f, c * mean - y


def _successes(y: Array) -> NDArray[np.bool_]:
    """Rows (k, n) of whole numbers with 0 <= k <= n; nowhere where y is one number per row."""
    if y.ndim != 2:
        return np.zeros(len(y), dtype=bool)
    whole = (y == np.floor(y)).all(1) & np.isfinite(y).all(1)
    return whole & (y[:, 0] >= 0) & (y[:, 0] <= y[:, 1])


@dataclass(frozen=True)
class Labels:
    """The values of y a loss is defined for, and how to say so."""

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
COUNT = Labels(
    "count",
    lambda y: (y >= 0) & (y == np.floor(y)) & np.isfinite(y),
    "counts 0, 1, 2 ...",
)
TRIALS = Labels(
    "trials",
    _successes,
    "rows (k, n), 0 <= k <= n: y is the successes k, and trials= the trials n",
)
CODE = Labels(
    "code",
    COUNT.valid,
    "class codes 0, 1, 2 ...; see numpy.unique(y, return_inverse=True)",
)


@dataclass(frozen=True)
class Loss:
    """A loss l(f, y) >= 0 or a negative log-likelihood up to a constant, convex in the prediction f = w'x.

    A loss of your own runs by pure steps: leave `code` at -1.

    Parameters
    ----------
    name : str
        In words and tables.
    function : callable
        (f, y, c) -> (value, slope) on numbers.
    labels : Labels
        The values of y it is defined for.
    c : float
        The loss's one parameter.
    derivative : float
        What the slope is multiplied by to give dl/df.
    code : int
        Of the compiled function; -1 for none.

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
    code: Annotated[int, Whole(-1, 100)] = field(default=-1, repr=False)

    def __post_init__(self) -> None:
        check_fields(self)

    def at(self, f: Any, y: Any) -> tuple[float, float]:
        """Value and slope at one prediction; of n trials y is (k, n), and c is n."""
        if self.labels is TRIALS:
            return self.function(f, float(y[0]), float(y[1]))
        return self.function(f, y, self.c)

    def split(self, y: Array) -> tuple[Array, Array]:
        """y (n,) for the compiled loss, and its parameter c row by row where it is that of the row, else empty."""
        if self.labels is not TRIALS:
            return y, np.empty(0)
        return np.ascontiguousarray(y[:, 0]), np.ascontiguousarray(y[:, 1])

    def values(self, f: Array, y: Array) -> Array:
        """The values (n,) at predictions (n,)."""
        if self.code:
            return np.array([self.at(a, b)[0] for a, b in zip(f.tolist(), y.tolist())])
        return (f - y) ** 2

    def mistakes(self, f: Array, y: Array) -> int:
        """The number of rounds whose predicted class is wrong; a prediction of exactly the threshold is. 0 for a real response."""
        if self.labels is SIGN:
            return int(
                np.count_nonzero(
                    y * (f - (self.c if self.name == "perceptron" else 0.0)) <= 0
                )
            )
        if self.labels is BINARY:
            return int(np.count_nonzero(np.where(y > 0, f <= 0, f > 0)))
        return 0

    def mean(self, f: Array) -> Array:
        """What a prediction says of y: a probability for logistic and binomial, a rate for Poisson, else the prediction itself."""
        inverse = {"logistic": expit, "binomial": expit, "poisson": np.exp}.get(
            self.name
        )
        return np.asarray(f) if inverse is None else inverse(f)


SQUARED = Loss("squared", _squared_loss, derivative=2.0, code=0)
ABSOLUTE = Loss("absolute", _absolute, code=1)
INSENSITIVE = Loss("insensitive", _insensitive, c=0.1, code=2)
HINGE = Loss("hinge", _hinge, SIGN, c=1.0, code=3)
PERCEPTRON = Loss("perceptron", _perceptron, SIGN, code=4)
LOGISTIC = Loss("logistic", _logistic, BINARY, code=5)
POISSON = Loss("poisson", _poisson, COUNT, code=6)
BINOMIAL = Loss(
    "binomial", _binomial_loss, TRIALS, code=8
)  # -log p of k successes in n trials, less the coefficient
ON_SIGNS = replace(SQUARED, labels=SIGN)  # Adaline: squared loss of labels -1, +1
LOSSES = {
    loss.name: loss
    for loss in (
        SQUARED,
        ABSOLUTE,
        INSENSITIVE,
        HINGE,
        PERCEPTRON,
        LOGISTIC,
        POISSON,
        BINOMIAL,
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


@check_arguments
def perceptron_loss(threshold: Real = 0.0) -> Loss:
    """The perceptron's loss max(0, -y (f - threshold)), with the slope of a mistake at exactly the threshold.

    Parameters
    ----------
    threshold : float
        Above it the prediction is +1.

    Returns
    -------
    Loss
        For `descent`.

    Examples
    --------
    >>> perceptron_loss().at(0.0, 1.0)
    (0.0, -1.0)
    """
    return replace(PERCEPTRON, c=float(threshold))
