"""Scores of conformal intervals: the distance of a response from its prediction. To add one, write a class here."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from probreg.errors import Incompatible
from probreg.likelihoods import Likelihood, OfTrials
from probreg.likelihoods.base import class_probabilities
from probreg.model.predictive import Predictive
from probreg.registry import Registry

Array = np.ndarray
SCORES: Registry["Score"] = Registry("score")


class Score(ABC):
    """A number for each (row, response), larger for a less expected response."""

    name: ClassVar[str]
    says: ClassVar[str]

    @abstractmethod
    def suits(self, likelihood: Likelihood) -> bool:
        """Return whether responses of this likelihood have this score."""

    @abstractmethod
    def of(self, p: Predictive, y: Array) -> Array:
        """Return the scores (n,) of y (n,), or of one class of K in each row, (n, K)."""

    def centre(self, p: Predictive) -> Array:
        """Return the mean (n,), or class probabilities (n, K)."""
        return class_probabilities(p.mean()) if p.likelihood.levels else p.mean()

    @abstractmethod
    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        """Return the responses with a score of at most `most`: lower and upper (n,), or `set` (n, K) bool."""


@SCORES.register
class AbsoluteResidual(Score):
    """The score |y - E[y]|: intervals of equal width (Lei et al. 2018)."""

    name, says = "absolute", "|y - mean|"

    def suits(self, likelihood: Likelihood) -> bool:
        return not likelihood.is_discrete

    def of(self, p: Predictive, y: Array) -> Array:
        return np.abs(y - p.mean())

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        # {y: |y - E y| <= c} = E y -+ c.
        return {"lower": p.mean() - most, "upper": p.mean() + most}


@SCORES.register
class Pit(Score):
    """The score |F(y) - 1/2| with F the predictive distribution function.

    For a count F is the mean of F(y - 1) and F(y). The width of the intervals follows the spread of the model
    (Chernozhukov, Wüthrich & Zhu 2021).
    """

    name, says = "pit", "|P(Y < y) + P(Y = y)/2 - 1/2|"

    def suits(self, likelihood: Likelihood) -> bool:
        return not likelihood.levels

    def of(self, p: Predictive, y: Array) -> Array:
        # |(F(y-) + F(y)) / 2 - 1/2|
        return np.abs(p.pit(y, 0.5) - 0.5)

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        if most >= 0.5:  # every response: distribution functions of 0 and 1 included
            n = p.eta.shape[1]
            bottom = 0.0 if p.likelihood.is_discrete else -np.inf
            top = np.full(n, p.given.get("trials", np.inf), dtype=float)
            return {"lower": np.full(n, bottom), "upper": top}
        # {y: |F(y) - 1/2| <= c} = [F^-1(1/2 - c), F^-1(1/2 + c)]; of counts those with (F(y - 1) + F(y)) / 2 in
        # [1/2 - c, 1/2 + c], so that an end outside it moves inward by one.
        lower = p.quantile(0.5 - most)
        upper = p.quantile(0.5 + most)
        if not p.likelihood.is_discrete:
            return {"lower": lower, "upper": upper}
        lower = np.where(p.pit(lower, 0.5) >= 0.5 - most, lower, lower + 1.0)
        upper = np.where(p.pit(upper, 0.5) <= 0.5 + most, upper, upper - 1.0)
        middle = p.quantile(
            0.5
        )  # in place of an empty set, which only adds to what is held
        return {"lower": np.minimum(lower, middle), "upper": np.maximum(upper, middle)}


@SCORES.register
class Probability(Score):
    """The score 1 - P(y): the sets of smallest mean size if the probabilities are right.

    A set can be empty, at a row without a probable class (Sadinle, Lei & Wasserman 2019).
    """

    name, says = "probability", "1 - P(class)"

    def suits(self, likelihood: Likelihood) -> bool:
        return bool(likelihood.levels)

    def of(self, p: Predictive, y: Array) -> Array:
        return _observed_scores(1.0 - class_probabilities(p.mean()), y)

    def region(self, p: Predictive, most: float) -> dict[str, Array]:
        # {k: 1 - p_k <= c} = {k: p_k >= 1 - c}
        return {"set": 1.0 - class_probabilities(p.mean()) <= most}


def _observed_scores(scores: Array, y: Array) -> Array:
    """Return the scores of the observed classes, from codes (n,) or counts (n, K) of one trial."""
    codes = y.argmax(1) if y.ndim == 2 else y.astype(int)
    return np.take_along_axis(scores, codes[:, None], 1)[:, 0]


def need_one_trial(likelihood: Likelihood, trials: Array | None) -> None:
    """Raise Incompatible for rows that count the classes of several trials, or of none."""
    if not (isinstance(likelihood, OfTrials) and likelihood.levels) or trials is None:
        return
    bad = np.flatnonzero(np.ravel(trials) != 1)
    if len(bad):
        raise Incompatible(
            f"a conformal set is for the class of one trial, and row {bad[0]} counts {np.ravel(trials)[bad[0]]:g} trials: use "
            "predict, or Categorical with one row for each trial"
        )


def score_for(likelihood: Likelihood, name: str | None) -> Score:
    able = [score for cls in SCORES.values() if (score := cls()).suits(likelihood)]
    chosen = able if name is None else [s for s in able if s.name == SCORES[name].name]
    if not chosen:
        raise Incompatible(
            f"{likelihood.named} response has no {name} score; it has: {', '.join([s.name for s in able])}"
        )
    return chosen[0]
