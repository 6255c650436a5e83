"""AIC, BIC and GCV along a path, a parameter under a prior counting by its effective degree of freedom."""

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


def criteria(found: PathSolution) -> Criteria:
    """AIC and BIC (S,); nan where no mode was found."""
    good = np.array([has_mode(found, i) for i in range(len(found.scales))])
    # AIC = 2 k - 2 log p(y | mode), BIC = log(n) k - 2 log p(y | mode).
    k = np.where(good, found.df + len(found.aux), np.nan)
    return Criteria(
        2.0 * k - 2.0 * found.log_lik,
        np.log(found.base.design.total) * k - 2.0 * found.log_lik,
    )


class _Counted(Criterion):
    """A criterion that counts parameters."""

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        return None


@CRITERIA.register
@dataclass(frozen=True)
class AIC(_Counted):
    """-2 log p(y | mode) + 2 k, k = df + unknown auxiliary parameters (Akaike 1973; Hastie & Tibshirani 1990, ch. 3)."""

    name = "aic"

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        return _criterion_assessment(found, "AIC", "2", criteria(found).aic)


@CRITERIA.register
@dataclass(frozen=True)
class BIC(_Counted):
    """-2 log p(y | mode) + log(n) k, n the observations, k as for AIC (Schwarz 1978; Zou, Hastie & Tibshirani 2007)."""

    name = "bic"

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        return _criterion_assessment(
            found, "BIC", f"log({found.base.design.total:g})", criteria(found).bic
        )


@CRITERIA.register
@dataclass(frozen=True)
class GCV(Criterion):
    """n RSS / (n - df)^2: the mean squared leave-one-out error if every row had the same leverage; Gaussian models with normal
    priors only (Golub, Heath & Wahba 1979)."""

    name = "gcv"

    def obstacle(self, model: Model, loss: PredictionLoss) -> str | None:
        why = METHODS["closed_form"]().obstacle(model)
        if why is None:
            return None
        return f"gcv is of Gaussian models with normal priors, sigma held or in their units ({why}): use loo or cv"

    def assess(self, found: PathSolution, ask: Request) -> Assessment:
        assert (
            found.ridge is not None
        )  # where the closed form serves, a path is of one decomposition
        n = found.base.design.total
        rss = found.ridge.rss(found.scales)
        good = np.array([has_mode(found, i) for i in range(len(found.scales))])
        # GCV = n RSS / (n - tr H)^2
        score = np.where(
            good & (found.df < n), n * rss / np.square(n - found.df), np.nan
        )
        description = (
            "the generalised cross-validation score n RSS / (n - df)^2 of the mode"
        )
        return Assessment(score, description, np.full(len(score), np.nan), {"rss": rss})


def _criterion_assessment(
    found: PathSolution, name: str, price: str, score: Array
) -> Assessment:
    if found.aux:
        more = f", plus {len(found.aux)} for {', '.join(found.aux)}"
    else:
        more = ""
    description = f"{name} = -2 log p(y | mode) + {price} k, k the effective degrees of freedom of the coefficients{more}"
    return Assessment(
        score,
        description,
        np.full(len(score), np.nan),
        {"log_likelihood": found.log_lik},
    )
