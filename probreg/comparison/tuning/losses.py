"""What a held-out observation costs under a plug-in prediction. Smaller is better; a loss is one class here."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from probreg.errors import Incompatible
from probreg.likelihoods import Likelihood, OfTrials
from probreg.registry import Registry

LOSSES: Registry["PredictionLoss"] = Registry("loss")

Array = np.ndarray


class PredictionLoss(ABC):
    """L(y, prediction), row by row."""

    name: ClassVar[str]
    title: ClassVar[str]

    def obstacle(self, likelihood: Likelihood) -> str | None:
        """Why it says nothing of this response, or None."""
        return None

    @abstractmethod
    def __call__(self, likelihood: Likelihood, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
        """The loss of each row, (n,), at its linear predictors eta (n, m)."""


@LOSSES.register
@dataclass(frozen=True)
class LogLoss(PredictionLoss):
    """-log p(y | eta, aux), in nats: strictly proper.

    >>> from probreg.likelihoods import Poisson
    >>> LogLoss()(Poisson(), np.array([0.0]), np.array([[0.0]]), {})
    array([1.])
    """

    name, title = "log", "negative log density"

    def __call__(self, likelihood: Likelihood, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
        return -likelihood.log_prob(y, eta, **aux)


@LOSSES.register
@dataclass(frozen=True)
class Squared(PredictionLoss):
    """(y - E[y])^2; over classes sum_k (p_k - 1[y = k])^2, half of it for an event: the Brier score. Of trials that of the
    share, (k / n - p)^2."""

    name, title = "squared", "squared error"

    def __call__(self, likelihood: Likelihood, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
        mean = likelihood.mean(eta, **aux)
        square = np.square(mean - likelihood.response(y))
        return square.sum(-1) if mean.ndim == eta.ndim else square


@LOSSES.register
@dataclass(frozen=True)
class ZeroOneLoss(PredictionLoss):
    """1 where the most probable class is not the one that came, else 0: not a proper score, blind to how sure one was."""

    name, title = "zero_one", "share of wrong classes"

    def obstacle(self, likelihood: Likelihood) -> str | None:
        single = likelihood.levels and not isinstance(likelihood, OfTrials)
        return None if single else f"zero_one counts wrong classes, and a {likelihood.name} response has none"

    def __call__(self, likelihood: Likelihood, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
        mean = likelihood.mean(eta, **aux)
        likely = mean.argmax(-1) if mean.ndim == eta.ndim else mean > 0.5
        return (likely != y).astype(float)


@LOSSES.register
@dataclass(frozen=True)
class PredictiveDensityLoss(PredictionLoss):
    """-log of the posterior predictive density, beta (and sigma) integrated out: by leave-one-out in closed form only."""

    name, title = "predictive", "negative log posterior predictive density"

    def __call__(self, likelihood: Likelihood, y: Array, eta: Array, aux: Mapping[str, Any]) -> Array:
        raise Incompatible(
            "the predictive density integrates over the coefficients: it has no value at a point prediction"
        )
