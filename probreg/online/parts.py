"""What a gradient learner is made of beside its loss: a rate (how far), a geometry (in which coordinates), a ball."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from probreg.arguments import scalars

Array = NDArray[np.float64]

PLAIN, NORMALISED, IMPLICIT, PASSIVE, ADAGRAD = range(5)


@dataclass(frozen=True, eq=False)
class State:
    """All a learner knows after t rounds: its weights w (p,), t, and what else its update needs, by name."""

    w: Array
    t: int = 0
    memory: Mapping[str, Array] = field(default_factory=dict)


class Info(NamedTuple):
    """One round: the prediction made before y was seen, and the loss suffered for it."""

    prediction: Any  # a number; K of them for a softmax
    loss: float


@dataclass(frozen=True)
class Rate:
    """The multiplier a of w += -a slope x in round t = 1, 2 ..., with q = ||x||^2 and s = step t^-power.

    kind PLAIN: s. NORMALISED: s / (eps + q). IMPLICIT: s / (1 + s q). PASSIVE: min(step, loss / (eps + q)). ADAGRAD: s
    / (eps + sqrt(sum of squared gradients so far)) for each weight by itself.

    Parameters
    ----------
    step : float
        Positive; inf for no bound of a passive one.
    power : float
        Not negative; 0 is a constant step.
    kind : int
        One of the five above.
    eps : float
        Not negative.

    References
    ----------
    Duchi, Hazan & Singer 2011 (AdaGrad).

    Examples
    --------
    >>> Rate(0.5, power=0.5).at(4, 1.0, 0.0)
    0.25
    """

    step: scalars.Limit
    power: scalars.NonNegative = 0.0
    kind: Annotated[int, scalars.Whole(PLAIN, ADAGRAD)] = PLAIN
    eps: scalars.NonNegative = 0.0

    def __post_init__(self) -> None:
        scalars.check_fields(self)

    def at(self, t: int, q: float, loss: float) -> float:
        """The multiplier of round t (AdaGrad: before it is divided coordinate by coordinate)."""
        if self.power:
            s = self.step * t**-self.power
        else:
            s = self.step
        # Under the squared loss a step takes the error e = w'x - y of the row to (1 - a q) e: 1 - a q is
        # 1 - s q / (eps + q) if normalised, 1 / (1 + s q) if implicit, the argmin of s (w'x - y)^2 + |w - w_t|^2.
        if self.kind == NORMALISED:
            if self.eps + q > 0:
                return s / (self.eps + q)
            return 0.0
        if self.kind == IMPLICIT:
            return s / (1.0 + s * q)
        # argmin |w - w_t|^2 / 2 with loss 0 at the row: a = l / q, at most C (PA-I), or l / (q + eps) with
        # eps = 1 / (2 C) (PA-II; Crammer et al. 2006).
        if self.kind == PASSIVE:
            if self.eps + q > 0:
                return min(self.step, loss / (self.eps + q))
            return 0.0
        return s

    def steps(self, t: Array) -> Array:
        """The steps s of rounds t."""
        if self.power:
            return self.step * t**-self.power
        return np.full(len(t), self.step)


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
    >>> constant(0.1).at(7, 1.0, 0.0)
    0.1
    """
    return Rate(step)


@scalars.check_arguments
def inverse_time(step: scalars.Positive) -> Rate:
    """The rate step / t: for strongly convex losses, and to average noise away.

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
    >>> inverse_time(1.0).at(4, 1.0, 0.0)
    0.25
    """
    return Rate(step, power=1.0)


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
    >>> inverse_sqrt(1.0).at(4, 1.0, 0.0)
    0.5
    """
    return Rate(step, power=0.5)


@scalars.check_arguments
def adagrad(step: scalars.Positive, eps: scalars.NonNegative = 1e-12) -> Rate:
    """A step for each weight, divided by the root of its squared gradients so far.

    Parameters
    ----------
    step : float
        Positive.
    eps : float
        Not negative; added to the root.

    Returns
    -------
    Rate
        For a learner's `step`.

    References
    ----------
    Duchi, Hazan & Singer 2011.

    Examples
    --------
    >>> adagrad(0.5).power
    0.0
    """
    return Rate(step, kind=ADAGRAD, eps=eps)


# A gradient learner in numbers: loss, kind of rate, batch, l1 ball?, forecast from other rows?; c, step, power, eps, ridge,
# radius or norm. Plain tuples, as numba's cache on disk names the classes it was given and fails once one has moved.
Setup = tuple[
    tuple[int, int, int, int, int], tuple[float, float, float, float, float, float]
]


class Out(NamedTuple):
    """What a run keeps of its rounds: (n,) each, and the running sum of w."""

    prediction: Array
    loss: Array
    slope: Array
    square: Array  # ||x||^2
    total: Array


def as_tuple(out: Out) -> tuple[Array, Array, Array, Array, Array]:
    """The same without its class; see Setup."""
    return out.prediction, out.loss, out.slope, out.square, out.total


class Geometry(ABC):
    """Coordinates theta in which a step is additive, and the weights w(theta) that predict (mirror descent)."""

    code: ClassVar[int]

    @property
    @abstractmethod
    def size(self) -> float:
        """The radius of the set the weights are held in; 1 for no more than a shape."""

    @abstractmethod
    def start(self, p: int) -> Array:
        """theta before the first round."""

    @abstractmethod
    def weights(self, theta: Array) -> Array:
        """w (p,) from theta."""

    def move(self, theta: Array, direction: Array) -> Array:
        """theta after a step against `direction` (p,)."""
        return theta - direction


@dataclass(frozen=True)
class Euclid(Geometry):
    """The geometry theta = w: gradient descent, projected on a ball where there is a radius.

    Parameters
    ----------
    radius : float
        Of the ball; inf for none.
    ball : {"l1", "l2"}
        Its norm.

    Examples
    --------
    >>> Euclid(radius=1.0).move(np.zeros(2), np.array([-3.0, -4.0]))
    array([0.6, 0.8])
    """

    code: ClassVar[int] = 0
    radius: scalars.Limit = np.inf
    ball: Literal["l1", "l2"] = "l2"

    def __post_init__(self) -> None:
        scalars.check_fields(self)

    @property
    def size(self) -> float:
        return self.radius

    def start(self, p: int) -> Array:
        return np.zeros(p)

    def weights(self, theta: Array) -> Array:
        return theta

    def move(self, theta: Array, direction: Array) -> Array:
        return project(theta - direction, self.radius, self.ball)


@dataclass(frozen=True)
class Simplex(Geometry):
    """The geometry w = softmax(theta): exponentiated gradient, w >= 0, sum(w) = 1.

    Examples
    --------
    >>> Simplex().weights(Simplex().start(2))
    array([0.5, 0.5])
    """

    code: ClassVar[int] = 1
    size: ClassVar[float] = 1.0

    def start(self, p: int) -> Array:
        return np.zeros(p)

    def weights(self, theta: Array) -> Array:
        # w_j = exp(theta_j) / sum_k exp(theta_k): the mirror map of the relative entropy is theta = log w + constant.
        return np.asarray(softmax(theta))


@dataclass(frozen=True)
class Positive(Geometry):
    """The geometry w = exp(theta): exponentiated gradient without normalisation, w > 0.

    Parameters
    ----------
    value : float, optional
        Where every weight starts; 1/p without it.

    Examples
    --------
    >>> Positive().weights(Positive().start(4))
    array([0.25, 0.25, 0.25, 0.25])
    """

    code: ClassVar[int] = 2
    size: ClassVar[float] = 1.0
    value: scalars.Positive | None = None

    def __post_init__(self) -> None:
        scalars.check_fields(self)

    def start(self, p: int) -> Array:
        return np.full(p, np.log(1.0 / p if self.value is None else self.value))

    def weights(self, theta: Array) -> Array:
        return np.exp(theta)


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

    code: ClassVar[int] = 3
    norm: scalars.Positive = 1.0

    def __post_init__(self) -> None:
        scalars.check_fields(self)

    @property
    def size(self) -> float:
        return self.norm

    def start(self, p: int) -> Array:
        return np.zeros(2 * p)

    def weights(self, theta: Array) -> Array:
        # EG+-: exponentiated gradient on the rows norm (x, -x)   (Kivinen & Warmuth 1997).
        plus, minus = np.split(softmax(theta), 2)
        return np.asarray(self.norm * (plus - minus))

    def move(self, theta: Array, direction: Array) -> Array:
        return theta - self.norm * np.concatenate([direction, -direction])


@scalars.check_arguments
def project(w: Array, radius: scalars.Limit, ball: Literal["l1", "l2"] = "l2") -> Array:
    """The point nearest to w in the l2 or l1 ball of this radius.

    Parameters
    ----------
    w : array (p,)
        A point.
    radius : float
        Of the ball.
    ball : {"l1", "l2"}
        Its norm.

    Returns
    -------
    array (p,)
        w itself where it is inside.

    References
    ----------
    Duchi, Shalev-Shwartz, Singer & Chandra 2008 (l1).

    Examples
    --------
    >>> project(np.array([3.0, -1.0]), 2.0, "l1")
    array([ 2., -0.])
    """
    size = float(np.sqrt(w @ w) if ball == "l2" else np.abs(w).sum())
    if size <= radius:
        return w
    if ball == "l2":
        return w * (radius / size)
    u = np.sort(np.abs(w))[::-1]
    # sign(w) (|w| - c)_+ with the c at which sum_i (|w_i| - c)_+ = radius, u the sizes in falling order.
    excess = (np.cumsum(u) - radius) / np.arange(1, len(u) + 1)
    return np.sign(w) * np.maximum(np.abs(w) - excess[u > excess][-1], 0.0)
