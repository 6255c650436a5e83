"""Scoring rules for events and classes: the score of a forecast p when outcome k happens.

A rule is its vector of losses, one per outcome. The score of an outcome, the expectation under a truth, the entropy
and the divergence all follow from it. `RULES` contains the rules by name; a new rule is one class here.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.registry import Registry
from probreg.scores.reading import both, read_scored

RULES: Registry["Rule"] = Registry("scoring rule")

Array = np.ndarray


class Rule(ABC):
    """S(p, k), the loss of the distribution p over K outcomes when outcome k happens."""

    name: ClassVar[str]
    title: ClassVar[str]
    proper: ClassVar[Literal["strictly", "weakly", "no"]]
    # for the two-class score, if only the probability of the event is given
    pair: ClassVar[float] = 1.0

    @abstractmethod
    def losses(self, p: Array) -> Array:
        """S(p, k) for every k, shape (..., K) like p."""

    def __call__(self, y: Any, p: Any) -> Array:
        """The score of each row: see the function of the same name."""
        s = read_scored(y, p)
        return self.at(s.outcome, s.p) * self.unit(s.pair)

    def unit(self, pair: bool) -> float:
        """Return the factor of the score: `pair` for forecasts of one event, else 1."""
        if pair:
            return self.pair
        return 1.0

    def at(self, index: Array, p: Array) -> Array:
        """S(p, index), shape (...,), for distributions p (..., K)."""
        return np.take_along_axis(self.losses(p), index[..., None], -1)[..., 0]

    def mean(self, truth: Array, p: Array) -> Array:
        """sum_k truth_k S(p, k); an outcome without probability costs nothing, infinite loss or not."""
        # 0 times infinity is 0, and nan in floating point.
        loss = self.losses(p)
        return (truth * np.where(truth > 0, loss, 0.0)).sum(-1)


@RULES.register
@dataclass(frozen=True)
class LogRule(Rule):
    """-log p_k."""

    name, title, proper = "log", "log score", "strictly"

    def losses(self, p: Array) -> Array:
        # the loss of an event with p = 0 is infinite
        with np.errstate(divide="ignore"):
            # S(p, k) = -log p_k   (Good 1952)
            return -np.log(p)


@RULES.register
@dataclass(frozen=True)
class BrierRule(Rule):
    """sum_j (p_j - 1[j = k])^2, half of it for an event."""

    name, title, proper = "brier", "Brier score", "strictly"
    pair = 0.5

    def losses(self, p: Array) -> Array:
        # sum_j (p_j - 1[j = k])^2 = sum_j p_j^2 - p_k^2 + (1 - p_k)^2
        # (1-p)^2 - p^2 without cancellation near 1
        return (p**2).sum(-1, keepdims=True) - p**2 + (1.0 - p) ** 2


@RULES.register
@dataclass(frozen=True)
class SphericalRule(Rule):
    """1 - p_k / |p|."""

    name, title, proper = "spherical", "spherical score", "strictly"

    def losses(self, p: Array) -> Array:
        # S(p, k) = 1 - p_k / |p|
        return 1.0 - p / np.sqrt((p**2).sum(-1, keepdims=True))


@RULES.register
@dataclass(frozen=True)
class ZeroOneRule(Rule):
    """1 unless k is the most probable outcome; of t outcomes that share the first place each costs 1 - 1/t."""

    name, title, proper = "zero_one", "zero-one loss", "weakly"

    def losses(self, p: Array) -> Array:
        # S(p, k) = 1 - 1[k in argmax p] / |argmax p|
        first = p == p.max(-1, keepdims=True)
        return 1.0 - first / first.sum(-1, keepdims=True)


@RULES.register
@dataclass(frozen=True)
class AbsoluteRule(Rule):
    """sum_j |p_j - 1[j = k]| = 2 (1 - p_k), half of it for an event."""

    name, title, proper = "absolute", "absolute loss (improper)", "no"
    pair = 0.5

    def losses(self, p: Array) -> Array:
        # sum_j |p_j - 1[j = k]| = (1 - p_k) + sum_(j not k) p_j
        return 2.0 * (1.0 - p)


def log_score(y: Any, p: Any) -> Array:
    """The log score -log p(y): the negative log-likelihood of each outcome, in nats.

    Strictly proper. An outcome with probability 0 scores infinity; nothing is clipped. For a density the log
    score is `-log_prob`.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    p : array (n,) or (n, K)
        The probability of 1, or the probabilities of the classes.

    Returns
    -------
    array (n,)
        The score of each row; smaller is better.

    Raises
    ------
    DataError
        Naming the row and value that is no outcome or no probability.

    References
    ----------
    Good 1952.

    Examples
    --------
    >>> log_score([1, 0], [0.8, 0.8]).round(4)
    array([0.2231, 1.6094])
    """
    return LogRule()(y, p)


def brier(y: Any, p: Any) -> Array:
    """The Brier score: (p - y)^2 of an event, sum_j (p_j - 1[y = j])^2 of K classes.

    Strictly proper, between 0 and 1 (0 and 2 for classes). For K = 2 classes it is twice the score of the event.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    p : array (n,) or (n, K)
        The probability of 1, or the probabilities of the classes.

    Returns
    -------
    array (n,)
        The score of each row; smaller is better.

    Raises
    ------
    DataError
        Naming the row and value that is no outcome or no probability.

    References
    ----------
    Brier 1950.

    Examples
    --------
    >>> brier([1, 0], [0.8, 0.8]).round(4), brier([2], [[0.2, 0.2, 0.6]]).round(4)
    (array([0.04, 0.64]), array([0.24]))
    """
    return BrierRule()(y, p)


def spherical(y: Any, p: Any) -> Array:
    """The spherical score 1 - p_y / |p|, with |p| the Euclidean length of the class probabilities.

    Strictly proper, between 0 and 1, shifted so that 0 is best.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    p : array (n,) or (n, K)
        The probability of 1, or the probabilities of the classes.

    Returns
    -------
    array (n,)
        The score of each row; smaller is better.

    Raises
    ------
    DataError
        Naming the row and value that is no outcome or no probability.

    References
    ----------
    Roby 1965.

    Examples
    --------
    >>> spherical([1], [0.8]).round(4)
    array([0.0299])
    """
    return SphericalRule()(y, p)


def zero_one(y: Any, p: Any) -> Array:
    """The zero-one loss: 1 if the most probable outcome did not happen, 0 if it did.

    It is 1 - 1/t when t share the first place. Proper, not strictly: 0.51 and 0.99 are worth the same.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    p : array (n,) or (n, K)
        The probability of 1, or the probabilities of the classes.

    Returns
    -------
    array (n,)
        The score of each row; smaller is better.

    Raises
    ------
    DataError
        Naming the row and value that is no outcome or no probability.

    Examples
    --------
    >>> zero_one([1, 1, 1], [0.51, 0.49, 0.5])
    array([0. , 1. , 0.5])
    """
    return ZeroOneRule()(y, p)


def absolute(y: Any, p: Any) -> Array:
    """The absolute loss |p - y| of an event, sum_j |p_j - 1[y = j]| of K classes.

    Improper: with the belief 0.7 the best forecast is 1.

    Parameters
    ----------
    y : array (n,)
        Outcomes: 0 or 1, or class codes 0 .. K-1.
    p : array (n,) or (n, K)
        The probability of 1, or the probabilities of the classes.

    Returns
    -------
    array (n,)
        The score of each row; smaller is better.

    Raises
    ------
    DataError
        Naming the row and value that is no outcome or no probability.

    Examples
    --------
    >>> float(expected("absolute", 0.7, forecast=0.7).round(2)), float(expected("absolute", 0.7, forecast=1.0).round(2))
    (0.42, 0.3)
    """
    return AbsoluteRule()(y, p)


@check_arguments
def expected(rule: str | Rule, truth: Any, *, forecast: Any) -> Array:
    """The expected score S(h; p) = sum_k p_k S(h, k): the mean score of the forecast h when outcomes follow the truth p.

    Parameters
    ----------
    rule : str or Rule
        A name in `RULES`, or a rule.
    truth : array (n,) or (n, K)
        Probabilities of an event, or rows of class probabilities.
    forecast : array (n,) or (n, K)
        The same of the forecast.

    Returns
    -------
    array (n,)
        One number per row.

    Raises
    ------
    DataError
        Naming the row that is no probability.

    Examples
    --------
    >>> expected("brier", [0.7, 0.7], forecast=[0.7, 0.8]).round(4)
    array([0.21, 0.22])
    """
    r = RULES.resolve(rule)
    p, h, pair = both(truth, forecast)
    return r.mean(p, h) * r.unit(pair)


@check_arguments
def entropy(rule: str | Rule, truth: Any) -> Array:
    """The entropy S(p; p) of a rule: the expected score of the truth.

    Shannon's entropy for the log score, p(1 - p) for the Brier score of an event.

    Parameters
    ----------
    rule : str or Rule
        A name in `RULES`, or a rule.
    truth : array (n,) or (n, K)
        Probabilities of an event, or rows of class probabilities.

    Returns
    -------
    array (n,)
        One number per row.

    Examples
    --------
    >>> float(entropy("brier", 0.7).round(4))
    0.21
    """
    # H(p) = S(p; p), concave in p for a proper rule   (Gneiting & Raftery 2007).
    return expected(rule, truth, forecast=truth)


@check_arguments
def divergence(rule: str | Rule, truth: Any, *, forecast: Any) -> Array:
    """The divergence S(h; p) - S(p; p) of a rule: the excess score of the forecast h over the truth p.

    It is never negative for a proper rule: (h - p)^2 for the Brier score of an event, the Kullback-Leibler divergence
    for the log score.

    Parameters
    ----------
    rule : str or Rule
        A name in `RULES`, or a rule.
    truth : array (n,) or (n, K)
        Probabilities of an event, or rows of class probabilities.
    forecast : array (n,) or (n, K)
        The same of the forecast.

    Returns
    -------
    array (n,)
        One number per row.

    Examples
    --------
    >>> float(divergence("brier", 0.7, forecast=0.8).round(4))
    0.01
    """
    r = RULES.resolve(rule)
    p, h, pair = both(truth, forecast)
    # S(h; p) - S(p; p) is the Bregman divergence of -H   (Gneiting & Raftery 2007).
    return (r.mean(p, h) - r.mean(p, p)) * r.unit(pair)
