"""Invertible links g with eta = g(mu): the scale of the linear predictor of a mean. Leaf module."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from probreg.special import logit

Elementwise = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, slots=True)
class Link:
    """A link by its functions: forward mu -> eta, inverse eta -> mu, slope d mu / d eta, hessian d2 mu / d eta2.

    `ratio` is the name of exp(coefficient), empty if it has none.

    >>> float(LOGIT.inverse(LOGIT.forward(np.array(0.3))))
    0.3
    """

    name: str
    forward: Elementwise
    inverse: Elementwise
    slope: Elementwise
    hessian: Elementwise
    ratio: str = ""


def _exp(eta: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # exp of more than 709 is inf
        return np.exp(eta)


def _expit(eta: np.ndarray) -> np.ndarray:
    """1 / (1 + e^-eta), in one new array: the pages of each array of a megabyte cost more time than the exp."""
    u = np.array(eta, float)
    with np.errstate(
        over="ignore"
    ):  # e^-eta beyond the largest number: 0, as it is there
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
