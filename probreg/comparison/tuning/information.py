"""AIC, BIC and GCV along a path; a parameter under a prior counts by its effective degrees of freedom."""

from dataclasses import dataclass

import numpy as np

from probreg.comparison.tuning.criteria import (
    CRITERIA,
    Array,
    Assessment,
    Criterion,
    Request,
    found_modes,
)
from probreg.inference import METHODS, PathSolution
from probreg.model.model import Model


def criteria(path: PathSolution) -> dict[str, Array]:
    """AIC and BIC (S,): -2 log p(y | mode) + k penalty, with k = df + the number of unknown auxiliary parameters; nan where no
    mode was found."""
    k = np.where(found_modes(path), path.df + len(path.aux), np.nan)
    prices = {"aic": 2.0, "bic": np.log(path.base.design.total)}
    return {name: price * k - 2.0 * path.log_lik for name, price in prices.items()}


class _Counted(Criterion):
    """A criterion that counts parameters."""

    def assess(self, path: PathSolution, ask: Request) -> Assessment:
        price = "2" if self.name == "aic" else f"log({path.base.design.total:g})"
        description = f"{self.name.upper()} = -2 log p(y | mode) + {price} k, k the effective degrees of freedom of the coefficients"
        if path.aux:
            description += f", plus {len(path.aux)} for {', '.join(path.aux)}"
        score = criteria(path)[self.name]
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

    def obstacle(self, model: Model) -> str | None:
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
        # GCV = n RSS / (n - tr H)^2
        score = n * rss / np.square(n - path.df)
        score[~found_modes(path) | (path.df >= n)] = np.nan
        description = (
            "the generalised cross-validation score n RSS / (n - df)^2 of the mode"
        )
        return Assessment(score, description, np.full(len(score), np.nan), {"rss": rss})
