"""Logistic and softmax regression as a scikit-learn estimator."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d, validate_data

from probreg.arguments.types import ArrayLike
from probreg.data.checked_arrays import own_name
from probreg.errors import DataError, Incompatible
from probreg.inference import Method, MethodName
from probreg.likelihoods import (
    Bernoulli,
    Categorical,
    Likelihood,
    LikelihoodName,
    OfClasses,
    OfTrials,
)
from probreg.priors.text import PriorLike
from probreg.sklearn.estimator import Array, ModelEstimator, read_likelihood


class Classifier(ClassifierMixin, ModelEstimator):
    """A classification by logistic regression or, for more than two classes, by softmax regression.

    By default under the prior "weak", N(0, 2.5/sd(x)) on each coefficient but the intercept, unlike everything else in this
    package: where the classes can be separated maximum likelihood has no finite estimate, and `prior="flat"` then warns in
    `fit` and refuses to predict. The default is a mode for any rows with two classes, and depends little on the prior where
    rows are many.

    Parameters
    ----------
    likelihood : str or Likelihood
        "auto": Bernoulli for two classes, for more Categorical(symmetric=True), in which every class has coefficients that
        sum to zero over the classes (under Laplace and elastic-net priors they have the shift of glmnet). "categorical" has the first class as reference, which priors other than flat, normal, Laplace and elastic net need.
    prior : str or Prior or mapping
        "weak", "flat" (maximum likelihood), a prior as text such as "normal(2.5)", an object, or a mapping from the names
        of features to priors. The intercept is free unless a mapping names it.
    method : str or Method
        As in `fit`: "auto" finds the mode, "posterior" or "nuts" the posterior.
    fit_intercept : bool
        Whether a column of ones is put in front.
    weights : {"frequency", "sampling"}
        What `sample_weight` means: whole numbers of equal rows, or units of a population that a row stands for.
    seed : int
        Of everything random, from 0.

    Attributes
    ----------
    fit_ : Fit
        The fit, to summarise, compare and diagnose.
    classes_ : array (K,)
        The classes, sorted; those that occur in rows of positive weight.
    coef_ : array (1, n_features) or (outcomes, n_features)
        Log odds per unit of a feature: of the event, which is the second class unless the likelihood has other `levels`, or of
        each class that has coefficients (`fit_.coef`).
    intercept_ : array (1,) or (outcomes,)
        The intercepts, zero without one.
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array (n_features,)
        Their names, where X was a table with names.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "yes"]  # separable
    >>> found = Classifier().fit(X, y)
    >>> found.predict([[0.5], [2.5]]).tolist(), found.predict_proba([[2.5]]).round(2).tolist()
    (['no', 'yes'], [[0.14, 0.86]])
    """

    aux = None
    classes_: Array

    def __init__(
        self,
        likelihood: Likelihood | LikelihoodName | str = "auto",
        *,
        prior: PriorLike = "weak",
        method: Method | MethodName = "auto",
        fit_intercept: bool = True,
        weights: Literal["frequency", "sampling"] = "frequency",
        seed: int = 0,
    ) -> None:
        self.likelihood = likelihood
        self.prior = prior
        self.method = method
        self.fit_intercept = fit_intercept
        self.weights = weights
        self.seed = seed

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the model to rows.

        Parameters
        ----------
        X : array or table (n, n_features)
            Numbers; the names of a table become those of the coefficients.
        y : array (n,)
            The classes: numbers or texts.
        sample_weight : array (n,), optional
            Whole numbers of equal rows, or what the parameter `weights` says.

        Returns
        -------
        Classifier
            Itself.

        Raises
        ------
        DataError
            For data that cannot be read, naming column and row; for a single class.
        Incompatible
            Where the method cannot fit the model, and for a likelihood of numbers.
        """
        response = own_name(y)
        X, y = validate_data(self, X, y, dtype="float64", ensure_min_samples=2)
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        weights = self._read_weights(sample_weight, len(X))
        self.classes_ = np.unique(
            y if weights is None or not weights.any() else y[weights > 0]
        )
        if len(self.classes_) == 1:
            raise DataError(
                f"Classifier needs two or more classes; the rows hold 1 class, {self.classes_.tolist()[0]!r}"
            )
        self.fit_ = self._fit_rows(X, y, weights, response)
        coef = self._coefficients_by_outcome()
        coef = (coef[:, None] if coef.ndim == 1 else coef).T  # (outcomes, coefficients)
        if self.fit_intercept:
            self.intercept_ = coef[:, 0]
        else:
            self.intercept_ = np.zeros(len(coef))
        self.coef_ = coef[:, int(self.fit_intercept) :]
        return self

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class at new rows.

        Parameters
        ----------
        X : array or table (n, n_features)
            New rows.

        Returns
        -------
        array (n,)
            Of `classes_`.

        Raises
        ------
        NotConverged
            Where there is no maximum to predict from, as of separated classes under a flat prior.
        """
        codes = self.predict_proba(X).argmax(1)
        return self.classes_[codes]

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probabilities of the classes at new rows, for a posterior their mean over the draws.

        Parameters
        ----------
        X : array or table (n, n_features)
            New rows.

        Returns
        -------
        array (n, K)
            In the order of `classes_`; each row sums to one.

        Raises
        ------
        NotConverged
            Where there is no maximum to predict from, as of separated classes under a flat prior.
        """
        probabilities = np.concatenate(
            [p.mean() for p in self._predictives(self._read_new(X))]
        )
        if probabilities.ndim == 1:
            probabilities = np.stack([1.0 - probabilities, probabilities], 1)
        return probabilities[:, self._class_codes()]

    def predict_log_proba(self, X: ArrayLike) -> Array:
        """The logarithms of `predict_proba`, computed without rounding small probabilities to zero.

        Parameters
        ----------
        X : array or table (n, n_features)
            New rows.

        Returns
        -------
        array (n, K)
            In the order of `classes_`.

        Raises
        ------
        NotConverged
            Where there is no maximum to predict from, as of separated classes under a flat prior.
        """
        new = self._read_new(X)
        codes = self._class_codes().tolist()
        parts = [
            np.stack([p.log_prob(np.full(p.eta.shape[1], float(k))) for k in codes], 1)
            for p in self._predictives(new)
        ]
        return np.concatenate(parts)

    def decision_function(self, X: ArrayLike) -> Array:
        """The log odds of the second of two classes, or a score for each of several classes.

        The score of a class is log P(class) less its mean over the classes, which is X beta of a symmetric softmax.

        Parameters
        ----------
        X : array or table (n, n_features)
            New rows.

        Returns
        -------
        array (n,) or (n, K)
            Of two classes one number per row, else one per class in the order of `classes_`; `predict` returns the class with
            the largest.

        Raises
        ------
        NotConverged
            Where there is no maximum to predict from, as of separated classes under a flat prior.
        """
        log_p = self.predict_log_proba(X)
        if log_p.shape[1] == 2:
            return log_p[:, 1] - log_p[:, 0]
        return log_p - log_p.mean(1, keepdims=True)

    def _class_codes(self) -> Array:
        """Return the place of each of `classes_` in the levels of the likelihood, whose order may be declared."""
        levels = list(self.fit_.model.likelihood.levels)
        return np.array([levels.index(c) for c in self.classes_.tolist()])

    def likelihood_for(self, response: Array) -> Likelihood:
        if isinstance(self.likelihood, str) and self.likelihood == "auto":
            if len(self.classes_) == 2:
                return Bernoulli()
            return Categorical(symmetric=True)
        likelihood = read_likelihood(self.likelihood)
        if not isinstance(likelihood, OfClasses) or isinstance(likelihood, OfTrials):
            raise Incompatible(
                f"Classifier takes a likelihood of one class per row, such as bernoulli, got {likelihood.name}"
            )
        return likelihood
