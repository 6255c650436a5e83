"""Scores: how far a response is from what was said of its row. Adding one is one class here."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from probreg.errors import Incompatible
from probreg.likelihoods import Likelihood
from probreg.predictive import Predictive
from probreg.registry import Registry

Array = np.ndarray
SCORES: Registry["Score"] = Registry("score")


class Score(ABC):
    """A number for each (row, response), larger for a response that was less expected."""

    name: ClassVar[str]
    says: ClassVar[str]

    @abstractmethod
    def suits(self, likelihood: Likelihood) -> bool:
        """Whether responses of this likelihood have this score."""

    @abstractmethod
    def of(self, p: Predictive, y: Array) -> Array:
        """The scores (n,) of y (n,)."""

    def centre(self, p: Predictive) -> Array:
        """The mean (n,), or class probabilities (n, K)."""
        return _shares(p) if p.likelihood.levels else p.mean()

    @abstractmethod
    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        """The responses with a score of at most this: lower and upper (n,), or `set` (n, K) bool."""


@SCORES.register
class Absolute(Score):
    """|y - E[y]|: intervals of one width (Lei et al. 2018)."""

    name, says = "absolute", "|y - mean|"

    def suits(self, likelihood: Likelihood) -> bool:
        return isinstance(likelihood.support, str)

    def of(self, p: Predictive, y: Array) -> Array:
        return np.abs(y - p.mean())

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        return {"lower": p.mean() - most, "upper": p.mean() + most}


@SCORES.register
class Pit(Score):
    """|F(y) - 1/2| with F the predictive distribution function, at a count the mean of F(y - 1) and F(y): the width
    follows what the model says of the spread (Chernozhukov, Wüthrich & Zhu 2021)."""

    name, says = "pit", "|P(Y < y) + P(Y = y)/2 - 1/2|"

    def suits(self, likelihood: Likelihood) -> bool:
        return not likelihood.levels

    def of(self, p: Predictive, y: Array) -> Array:
        return np.abs(p.pit(y, 0.5) - 0.5)

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        if most >= 0.5:  # a response so far out that its distribution function is 0 or 1, rounding included
            bottom = -np.inf if isinstance(p.likelihood.support, str) else 0.0
            return {"lower": np.full(p.eta.shape[1], bottom), "upper": np.full(p.eta.shape[1], np.inf)}
        lower, upper = p.quantile(0.5 - most), p.quantile(0.5 + most)
        if isinstance(p.likelihood.support, str):
            return {"lower": lower, "upper": upper}
        lower = np.where(p.pit(lower, 0.5) >= 0.5 - most, lower, lower + 1.0)
        upper = np.where(p.pit(upper, 0.5) <= 0.5 + most, upper, upper - 1.0)
        middle = p.quantile(0.5)  # in place of an empty set, which only adds to what is held
        return {"lower": np.minimum(lower, middle), "upper": np.maximum(upper, middle)}


@SCORES.register
class Probability(Score):
    """1 - P(y): the sets of least mean size where the probabilities are right (Sadinle, Lei & Wasserman 2019). A set
    may be empty, at a row where no class is probable enough."""

    name, says = "probability", "1 - P(class)"

    def suits(self, likelihood: Likelihood) -> bool:
        return bool(likelihood.levels)

    def of(self, p: Predictive, y: Array) -> Array:
        return _at(1.0 - _shares(p), y)

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        return {"set": 1.0 - _shares(p) <= most}


@SCORES.register
class Adaptive(Score):
    """Total probability of the classes that are more probable than y, and half of y's own: sets grow where classes are
    hard to tell apart (Romano, Sesia & Candès 2020, with 1/2 for their uniform draw, so that a set is no lottery). A set
    may be empty, where more than `prob` of the rows belong to their most probable class."""

    name, says = "adaptive", "probability of the more probable classes, and half of its own"

    def suits(self, likelihood: Likelihood) -> bool:
        return bool(likelihood.levels)

    def of(self, p: Predictive, y: Array) -> Array:
        return _at(_upto(_shares(p)), y)

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        return {"set": _upto(_shares(p)) <= most}


def _shares(p: Predictive) -> Array:
    """Class probabilities (n, K), two columns for a Bernoulli response."""
    mean = p.mean()
    return mean if mean.ndim == 2 else np.stack([1.0 - mean, mean], 1)


def _upto(shares: Array) -> Array:
    order = np.argsort(-shares, axis=1, kind="stable")
    out, ordered = np.empty_like(shares), np.take_along_axis(shares, order, 1)
    np.put_along_axis(out, order, np.cumsum(ordered, 1) - 0.5 * ordered, 1)
    return out


def _at(scores: Array, y: Array) -> Array:
    return np.take_along_axis(scores, y.astype(int)[:, None], 1)[:, 0]


def score_for(likelihood: Likelihood, wanted: str | None) -> Score:
    if wanted is None:
        return next(s for s in (Absolute(), Pit(), Probability()) if s.suits(likelihood))
    score = SCORES.resolve(wanted)
    if not score.suits(likelihood):
        able = ", ".join(k for k, cls in SCORES.items() if cls().suits(likelihood))
        raise Incompatible(f"a {likelihood.name} response has no {score.name} score; it has: {able}")
    return score
