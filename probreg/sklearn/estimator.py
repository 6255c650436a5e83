"""What the estimators share: how their parameters are read, the model of some rows, and what it says of others."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Self, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from probreg.arguments.arrays import floats
from probreg.arguments.keywords import refuse_unknown
from probreg.arguments.scalars import read_argument
from probreg.data import Design
from probreg.data.weights import RowWeights, WeightKind
from probreg.errors import DataError, warn_caller
from probreg.fits.fit import Fit, fit
from probreg.fits.fitted import require_predictive
from probreg.fits.prediction import (
    atom_count,
    few_rows,
    predictive,
    rows_without_estimate,
)
from probreg.inference import Status
from probreg.likelihoods import LIKELIHOODS, Likelihood
from probreg.linalg import row_slices
from probreg.model.model import Model
from probreg.model.predictive import Predictive

Array = np.ndarray
_NUMBERS = 2_000_000  # draws times rows in memory at once


class ModelEstimator(BaseEstimator):
    """What both estimators share: parameters, the model of some rows, and its predictive distribution at others."""

    likelihood: Any
    prior: Any
    method: Any
    aux: Any
    fit_intercept: bool
    weights: WeightKind
    seed: int
    fit_: Fit

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        refuse_unknown(cls.__name__, settings, cls._get_param_names())
        return super().__new__(cls)

    @abstractmethod
    def likelihood_for(self, response: Array) -> Likelihood:
        """The likelihood of this response. Incompatible where it is not one of this kind of estimator."""

    def _fit_rows(self, X: Any, y: Array, weights: Array | None, response: str) -> Fit:
        """Fit the model to validated rows and weights."""
        names = getattr(self, "feature_names_in_", None)
        row_weights: Any = weights
        if weights is not None and self.weights != "frequency":
            row_weights = RowWeights(self.weights, weights)
        model = Model.from_arrays(
            X,
            y,
            columns=None if names is None else list(names),
            intercept=self.fit_intercept,
            likelihood=self.likelihood_for(y),
            prior=self.prior,
            aux={} if self.aux is None else self.aux,
            weights=row_weights,
            response=response,
        )
        return fit(model, self.method, seed=self.seed)

    def _read_weights(self, sample_weight: Any, n: int) -> Array | None:
        """Return one number per row. DataError for an unknown kind, or for other numbers than `weights` says."""
        read_argument(
            "weights", self.weights, get_type_hints(type(self).__init__)["weights"]
        )
        if sample_weight is None:
            return None
        w = floats(sample_weight, "sample_weight")
        if w.shape != (n,):
            raise DataError(
                f"sample_weight is one number per row: expected shape ({n},), got {w.shape}"
            )
        return w

    def _predictives(self, X: Array) -> Iterator[Predictive]:
        """p(y | draw, or estimate) at blocks of the rows."""
        design = self._design_of_new_rows(X)
        numbers_of_row = atom_count(self.fit_) * self.fit_.model.shape[1]
        for rows in row_slices(design.n, max(1, _NUMBERS // numbers_of_row)):
            yield predictive(self.fit_, design.take(rows))

    def _design_of_new_rows(self, X: Array) -> Design:
        """Return the design of new rows. A ProbregWarning names rows that only the minimum-norm estimate predicts."""
        require_predictive(self.fit_)
        design = self.fit_.model.design.at(X)
        bad = rows_without_estimate(self.fit_.solution, design.X)
        if len(bad):
            warn_caller(
                f"{len(bad)} of {design.n} rows have no unique prediction ({few_rows(bad)}): they do not keep the "
                "relations of the training columns. Coefficients of least norm predict them; drop a column or give a prior"
            )
        return design

    def _coefficients_by_outcome(self) -> Array:
        """Return the coefficients, (coefficients,) or (coefficients, outcomes): minimum-norm if collinear, nan without a maximum."""
        fitted = self.fit_
        unique = fitted.target != "mode" or fitted.solution.status is Status.NO_MAXIMUM
        return np.asarray(fitted.coef if unique else fitted.minimum_norm, dtype=float)

    def _read_new(self, X: Any) -> Array:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, dtype="float64")


def read_likelihood(likelihood: Any) -> Likelihood:
    """A likelihood as it is, by its name, or as a call with its settings."""
    if isinstance(likelihood, str):
        return LIKELIHOODS.parse(likelihood)
    read: Likelihood = read_argument("likelihood", likelihood, str | Likelihood)
    return LIKELIHOODS.resolve(read)
