"""AIC, BIC and GCV along a path; a parameter under a prior counts by its effective degrees of freedom."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    PredictionLoss,
    Request,
    has_mode,
)
from probreg.inference import METHODS, PathSolution
from probreg.model.model import Model


class Criteria(NamedTuple):
    """-2 log p(y | mode) + k penalty, with k = df + the number of unknown auxiliary parameters."""

    aic: Array
    bic: Array


def criteria(path: PathSolution) -> Criteria:
    """AIC and BIC (S,); nan where no mode was found."""
    good = np.array([has_mode(path, i) for i in range(len(path.scales))])
    # AIC = 2 k - 2 log p(y | mode), BIC = log(n) k - 2 log p(y | mode).
    k = np.where(good, path.df + len(path.aux), np.nan)
    return Criteria(
        2.0 * k - 2.0 * path.log_lik,
        np.log(path.base.design.total) * k - 2.0 * path.log_lik,
    )


class _Counted(Criterion):
    """A criterion that counts parameters."""

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        return None

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        price = "2" if self.name == "aic" else f"log({path.base.design.total:g})"
        description = f"{self.name.upper()} = -2 log p(y | mode) + {price} k, k the effective degrees of freedom of the coefficients"
        if path.aux:
            description += f", plus {len(path.aux)} for {', '.join(path.aux)}"
        score = getattr(criteria(path), self.name)
        no_error = np.full(len(score), np.nan)
        columns = {"log_likelihood": path.log_lik}
        return Assessment(score, description, no_error, columns)


@CRITERIA.register
@dataclass(frozen=True)
class AIC(_Counted):
    """-2 log p(y | mode) + 2 k, k = df + unknown auxiliary parameters (Akaike 1973; Hastie & Tibshirani 1990, ch. 3)."""

    name = "aic"


@CRITERIA.register
@dataclass(frozen=True)
class BIC(_Counted):
    """-2 log p(y | mode) + log(n) k, n the observations, k as for AIC (Schwarz 1978; Zou, Hastie & Tibshirani 2007)."""

    name = "bic"


@CRITERIA.register
@dataclass(frozen=True)
class GCV(Criterion):
    """Generalised cross-validation: n RSS / (n - df)^2, for Gaussian models with normal priors.

    It is the mean squared leave-one-out error if every row has the same leverage (Golub, Heath & Wahba 1979).
    """

    name = "gcv"

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        reason = METHODS["closed_form"]().obstacle(model)
        if reason is None:
            return None
        return f"gcv is of Gaussian models with normal priors, sigma fixed or in their units ({reason}): use loo or cv"

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        assert (
            path.ridge is not None
        )  # where the closed form serves, a path is of one decomposition
        n = path.base.design.total
        rss = path.ridge.rss(path.scales)
        good = np.array([has_mode(path, i) for i in range(len(path.scales))])
        # GCV = n RSS / (n - tr H)^2
        score = np.where(good & (path.df < n), n * rss / np.square(n - path.df), np.nan)
        description = (
            "the generalised cross-validation score n RSS / (n - df)^2 of the mode"
        )
        return Assessment(score, description, np.full(len(score), np.nan), {"rss": rss})
