"""Invertible links g with eta = g(mu): the scale of the linear predictor of a mean. Leaf module."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from probreg.special import LOG_2PI, logit, ndtr, ndtri

Elementwise = Callable[[np.ndarray], np.ndarray]


class Link(str):
    """A link: its name, with its functions forward mu -> eta, inverse eta -> mu, slope d mu / d eta, hessian d2 mu / d eta2.

    `ratio` is the name of exp(coefficient), empty if it has none. Links are compared, printed and stored by their names.

    >>> float(LOGIT.inverse(LOGIT.forward(np.array(0.3)))), LOGIT
    (0.3, 'logit')
    """

    forward: Elementwise
    inverse: Elementwise
    slope: Elementwise
    hessian: Elementwise
    ratio: str

    def __new__(
        cls,
        name: str,
        forward: Elementwise,
        inverse: Elementwise,
        slope: Elementwise,
        hessian: Elementwise,
        ratio: str = "",
    ) -> Self:
        self = super().__new__(cls, name)
        self.forward, self.inverse = forward, inverse
        self.slope, self.hessian = slope, hessian
        self.ratio = ratio
        return self

    @property
    def name(self) -> str:
        """Its name, such as "logit"."""
        return str(self)

    def interval(
        self, centre: np.ndarray, half: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ends of the means at centre ± half; an end beyond the domain of eta becomes the end of the domain.

        >>> INVERSE.interval(np.array([0.5, 0.5]), np.array([0.25, 1.0]))[1]
        array([ 4., inf])
        """
        low, high = centre - half, centre + half
        if self is INVERSE:  # a mean has one sign on each side of 0
            low = np.where(centre > 0.0, np.maximum(low, 0.0), low)
            high = np.where(centre < 0.0, np.minimum(high, -0.0), high)
        ends = self.inverse(low), self.inverse(high)
        return (ends[1], ends[0]) if self in (INVERSE, INVERSE_SQUARED) else ends

    def symbolic_inverse(self, eta: Any) -> Any:
        """`inverse` of a symbol of PyMC; -1 beyond the domain of a square root, which is no positive mean."""
        import pytensor.tensor as pt

        if self is INVERSE:
            return 1.0 / eta
        if self is SQRT:
            return pt.switch(eta > 0.0, eta * eta, -1.0)
        if self is INVERSE_SQUARED:
            return pt.switch(eta > 0.0, pt.abs(eta) ** -0.5, -1.0)
        if self is CAUCHIT:
            return 0.5 + pt.arctan(eta) / np.pi
        if self is PROBIT:
            return 0.5 * pt.erfc(-eta / np.sqrt(2.0))
        if self is CLOGLOG:
            return -pt.expm1(-pt.exp(eta))
        return {LOG: pt.exp, LOGIT: pt.sigmoid}.get(self, pt.as_tensor)(eta)

    def __reduce__(self) -> tuple[Any, ...]:
        return _link_called, (str(self),)


def _exp(eta: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp of more than 709 is inf
        return np.exp(eta)


def _expit(eta: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-eta), in one new array: the pages of each array of a megabyte cost more time than the exp."""
    u = np.array(eta, float)
    # if e^-eta overflows the result is 0, as it should be
    with np.errstate(over="ignore"):
        np.exp(np.negative(u, out=u), out=u)
    return np.reciprocal(np.add(u, 1.0, out=u), out=u)[()]


def _logistic(eta: np.ndarray) -> np.ndarray:
    """mu (1 - mu), without the difference that loses the digits of a mean near 1."""
    # mu (1 - mu) = u / (1 + u)^2 with u = e^-|eta|
    u = np.exp(-np.abs(eta))
    return u / (1.0 + u) ** 2


IDENTITY = Link("identity", lambda m: m, lambda e: e, np.ones_like, np.zeros_like)
LOG = Link("log", np.log, _exp, _exp, _exp, "ratio of means")
# expit'' = expit' (1 - 2 expit) = -expit' tanh(eta / 2).
LOGIT = Link(
    "logit",
    logit,
    _expit,
    _logistic,
    lambda e: -_logistic(e) * np.tanh(e / 2),
    "odds ratio",
)


def _normal_density(eta: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * np.square(eta) - 0.5 * LOG_2PI)


# mu = 1 - exp(-exp(eta)), mu' = exp(eta - exp(eta)), mu'' = mu' (1 - exp(eta)).
def _cloglog_slope(eta: np.ndarray) -> np.ndarray:
    e = np.minimum(eta, 700.0)  # exp(700) is finite, and mu' is 0 there
    return np.exp(e - np.exp(e))


def _cloglog_hessian(eta: np.ndarray) -> np.ndarray:
    e = np.minimum(eta, 700.0)
    return _cloglog_slope(e) * (1.0 - np.exp(e))


PROBIT = Link("probit", ndtri, ndtr, _normal_density, lambda e: -e * _normal_density(e))
CLOGLOG = Link(
    "cloglog",
    lambda m: np.log(-np.log1p(-m)),
    lambda e: -np.expm1(-_exp(e)),
    _cloglog_slope,
    _cloglog_hessian,
)


def _cauchit_slope(eta: np.ndarray) -> np.ndarray:
    return 1.0 / (np.pi * (1.0 + np.square(eta)))


def _power(exponent: float) -> Elementwise:
    """eta^exponent, and 0 or inf for eta < 0, as at 0."""

    def power(eta: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", over="ignore"):
            return np.maximum(eta, 0.0) ** exponent

    return power


def _reciprocal(eta: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", over="ignore"):
        return 1.0 / np.asarray(eta, float)


CAUCHIT = Link(
    "cauchit",
    lambda m: np.tan(np.pi * (np.asarray(m) - 0.5)),
    lambda e: np.arctan2(1.0, -np.asarray(e)) / np.pi,
    _cauchit_slope,
    lambda e: -2.0 * np.pi * e * np.square(_cauchit_slope(e)),
)
INVERSE = Link(
    "inverse",
    _reciprocal,
    _reciprocal,
    lambda e: -np.square(_reciprocal(e)),
    lambda e: 2.0 * _reciprocal(e) ** 3,
)
INVERSE_SQUARED = Link(
    "inverse_squared",
    lambda m: np.square(_reciprocal(m)),
    _power(-0.5),
    lambda e: -0.5 * _power(-1.5)(e),
    lambda e: 0.75 * _power(-2.5)(e),
)
SQRT = Link(
    "sqrt",
    _power(0.5),
    _power(2.0),
    lambda e: 2.0 * np.maximum(e, 0.0),
    lambda e: np.full_like(e, 2.0),
)
LINKS = {
    link.name: link
    for link in (
        *(IDENTITY, LOG, LOGIT, PROBIT, CLOGLOG, CAUCHIT),
        *(INVERSE, INVERSE_SQUARED, SQRT),
    )
}


def _link_called(name: str) -> Link:
    return LINKS[name]
