"""Regressions of numbers, and logistic and softmax regression, as scikit-learn estimators."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal, Self, get_type_hints

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from probreg.arguments.arrays import floats
from probreg.arguments.scalars import ArrayLike, read_argument, refuse_unknown
from probreg.data import Design
from probreg.data.checked_arrays import own_name
from probreg.data.weights import RowWeights, WeightKind
from probreg.errors import DataError, Incompatible, warn_caller
from probreg.fits.fit import Fit, fit
from probreg.fits.fitted import require_predictive
from probreg.fits.prediction import (
    atom_count,
    closed_error,
    few_rows,
    noise_of_scale,
    predict,
    predictive,
    require_estimable,
    rows_without_estimate,
)
from probreg.inference import Method, MethodName, Status
from probreg.likelihoods import (
    LIKELIHOODS,
    Bernoulli,
    Categorical,
    Likelihood,
    LikelihoodName,
    OfClasses,
    OfTrials,
)
from probreg.linalg import row_slices
from probreg.model.model import Model
from probreg.model.predictive import Predictive
from probreg.priors.text import AuxLike, PriorLike

Array = np.ndarray
_DRAWS_TIMES_ROWS = 2_000_000  # draws times rows in memory at once


class ModelEstimator(BaseEstimator):
    """The common part of both estimators: parameters, the model of some rows, and its predictive distribution at others."""

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

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name, as a grid search does. Incompatible for an unknown one, with the argument that does the same."""
        refuse_unknown(type(self).__name__, params, self._get_param_names())
        return super().set_params(**params)

    @abstractmethod
    def likelihood_for(self, response: Array) -> Likelihood:
        """The likelihood of this response. Incompatible if it does not fit this kind of estimator."""

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
        """Return one number per row. DataError for an unknown kind, or for numbers that are not of the kind `weights`."""
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
        for rows in row_slices(design.n, max(1, _DRAWS_TIMES_ROWS // numbers_of_row)):
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


class Classifier(ClassifierMixin, ModelEstimator):
    """A classification by logistic regression or, for more than two classes, by softmax regression.

    The default prior is "weak", N(0, 2.5/sd(x)) on each coefficient except the intercept, unlike everything else in this
    package. The reason is that maximum likelihood has no finite estimate if the classes can be separated: with `prior="flat"`
    `fit` then warns and `predict` raises an error. The default gives a mode for any rows with two classes, and with many rows
    it depends little on the prior.

    Parameters
    ----------
    likelihood : str or Likelihood
        "auto": Bernoulli for two classes, Categorical(symmetric=True) for more. There every class has coefficients, and they
        sum to zero over the classes (under Laplace and elastic-net priors they have the shift of glmnet). "categorical" has the
        first class as reference; priors other than flat, normal, Laplace and elastic net need it.
    prior : str or Prior or mapping
        "weak", "flat" (maximum likelihood), a prior as text ("normal(2.5)"), an object, or a mapping from the names
        of features to priors. The intercept is free unless a mapping names it.
    method : str or Method
        As in `fit`: "auto" finds the mode, "posterior" or "nuts" the posterior.
    fit_intercept : bool
        Whether a column of ones is put in front.
    weights : {"frequency", "sampling"}
        The meaning of `sample_weight`: whole numbers of equal rows, or numbers of units of a population that a row represents.
    seed : int
       Seed of all random numbers, from 0.

    Attributes
    ----------
    fit_ : Fit
        The fit, to summarise, compare and diagnose.
    classes_ : array (K,)
        The sorted classes that occur in rows of positive weight.
    coef_ : array (1, n_features) or (outcomes, n_features)
        Log odds per unit of a feature. With two classes they are for the event: the second class, unless the likelihood has other
        `levels`. With more they are for each class that has coefficients (`fit_.coef`).
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
            Numbers; the names of a table become the names of the coefficients.
        y : array (n,)
            The classes: numbers or texts.
        sample_weight : array (n,), optional
            Whole numbers of equal rows, or of the kind that the parameter `weights` names.

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
        self.intercept_ = coef[:, 0] if self.fit_intercept else np.zeros(len(coef))
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
           If there is no maximum to predict from, as for separated classes under a flat prior.
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
           If there is no maximum to predict from, as for separated classes under a flat prior.
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
           If there is no maximum to predict from, as for separated classes under a flat prior.
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

        The score of a class is log P(class) minus its mean over the classes. For a symmetric softmax it is X beta.

        Parameters
        ----------
        X : array or table (n, n_features)
            New rows.

        Returns
        -------
        array (n,) or (n, K)
            For two classes one number per row, else one per class in the order of `classes_`; `predict` returns the class with
            the largest number.

        Raises
        ------
        NotConverged
           If there is no maximum to predict from, as for separated classes under a flat prior.
        """
        log_p = self.predict_log_proba(X)
        if log_p.shape[1] == 2:
            return log_p[:, 1] - log_p[:, 0]
        return log_p - log_p.mean(1, keepdims=True)

    def _class_codes(self) -> Array:
        """Return the place of each of `classes_` in the levels of the likelihood, which may have a declared order."""
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


class Regressor(RegressorMixin, ModelEstimator):
    """A regression of numbers: the mean of y is a function of X beta, and the likelihood defines the noise.

    The default is least squares: Gaussian noise and no penalty. The parameters have the same meaning as in `Model.from_arrays`
    and `fit`; there are no offsets and trials. `score` is scikit-learn's R^2 for every likelihood.

    Parameters
    ----------
    likelihood : str or Likelihood
        "gaussian", "student", "poisson", "negative_binomial", another name in `LIKELIHOODS` with a number as response,
        a name with its settings, "quantile(0.9)", or an object.
    prior : str or Prior or mapping
        "flat" (maximum likelihood), "weak" (N(0, 2.5 sd(y)/sd(x))), a prior as text ("normal(2.5)"), an object, or a
        mapping from the names of features to priors. The intercept is free unless a mapping names it.
    method : str or Method
        As in `fit`: "auto" finds the mode, "posterior" or "nuts" the posterior.
    aux : mapping, optional
        From a nuisance parameter to a number (known) or to a prior: {"sigma": 1.0}.
    fit_intercept : bool
        Whether a column of ones is put in front.
    weights : {"frequency", "precision", "sampling"}
        The meaning of `sample_weight`: whole numbers of equal rows; precisions, with a noise variance of sigma^2/w; or numbers
        of units of a population that a row represents.
    seed : int
       Seed of all random numbers, from 0.

    Attributes
    ----------
    fit_ : Fit
        The fit, to summarise, compare and diagnose.
    coef_ : array (n_features,)
        Coefficients on the raw features: the mode, or the mean of the posterior. For collinear features it is the estimate of
        least norm, including the intercept; `fit` warns, and `fit_.coef` has nan there.
    intercept_ : float
        The intercept, 0.0 without one.
    n_features_in_ : int
        Features seen in `fit`.
    feature_names_in_ : array (n_features,)
        Their names, where X was a table with names.

    Examples
    --------
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1.0, 3.0, 6.0, 7.0]
    >>> found = Regressor().fit(X, y)
    >>> found.coef_.round(3).tolist(), found.predict([[4.0]]).round(3).tolist()
    ([2.1], [9.5])
    >>> mean, sd = Regressor("poisson", prior="normal(1)").fit(X, y).predict([[4.0]], return_std=True)
    >>> mean.round(2).tolist(), sd.round(2).tolist()
    ([12.84], [7.44])
    """

    def __init__(
        self,
        likelihood: Likelihood | LikelihoodName | str = "gaussian",
        *,
        prior: PriorLike = "flat",
        method: Method | MethodName = "auto",
        aux: AuxLike | None = None,
        fit_intercept: bool = True,
        weights: Literal["frequency", "precision", "sampling"] = "frequency",
        seed: int = 0,
    ) -> None:
        self.likelihood = likelihood
        self.prior = prior
        self.method = method
        self.aux = aux
        self.fit_intercept = fit_intercept
        self.weights = weights
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        likelihood = self.likelihood
        if isinstance(likelihood, str):
            kind = LIKELIHOODS.get(likelihood.partition("(")[0])
        else:
            kind = type(likelihood)
        tags.target_tags.positive_only = getattr(kind, "is_count", False)
        return tags

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fits the model to rows.

        Parameters
        ----------
        X : array or table (n, n_features)
            Numbers; the names of a table become the names of the coefficients.
        y : array (n,)
            The response.
        sample_weight : array (n,), optional
            Whole numbers of equal rows, or of the kind that the parameter `weights` names.

        Returns
        -------
        Regressor
            Itself.

        Raises
        ------
        DataError
            For data that cannot be read, naming column and row.
        Incompatible
            Where the method cannot fit the model, and for a likelihood of classes.
        """
        response = own_name(y)
        X, y = validate_data(
            self, X, y, dtype="float64", y_numeric=True, ensure_min_samples=2
        )
        self.fit_ = self._fit_rows(
            X, y, self._read_weights(sample_weight, len(X)), response
        )
        coef = self._coefficients_by_outcome()
        self.intercept_ = float(coef[0]) if self.fit_intercept else 0.0
        self.coef_ = coef[int(self.fit_intercept) :]
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The mean of y at new rows, and optionally the standard deviation of a new observation there.

        For "quantile" and "absolute" it is the quantile and the median, for "student" the centre.

        The standard deviation is for y itself and includes noise, as in scikit-learn's `BayesianRidge`. For a posterior
        it is sqrt(E[Var(y | draw)] + Var(E[y | draw])) over the draws. For a point estimate it is sqrt(Var(y | estimate) +
        g' S g), with the covariance S of the coefficients and the slope g of the mean over them; for least squares this is
        s sqrt(1 + x'(X'X)^-1 x) with the unbiased s. Precision weights have no effect: a new row has weight 1.

        Parameters
        ----------
        X : array or table (n, n_features)
            New rows.
        return_std : bool
            Whether the standard deviation is returned too.

        Returns
        -------
        array (n,) or pair of arrays (n,)
            The mean, or the mean and the standard deviation, in units of y.

        Raises
        ------
        Incompatible
            With `return_std`, if the rows have no unique prediction, or the estimate has no standard error.
        NotConverged
            If there is no maximum to predict from.
        """
        new = self._read_new(X)
        if return_std:
            sd = np.sqrt(self._variance(new))
            return self._predict_mean(new), sd
        return self._predict_mean(new)

    def _predict_mean(self, X: Array) -> Array:
        if (
            self.fit_.solution.draws is not None
            and self.fit_.model.likelihood.link.name == "identity"
        ):
            # E[x'beta] = x'E[beta], without Monte Carlo error
            return (self._design_of_new_rows(X).X @ self.fit_.solution.beta)[:, 0]
        return np.concatenate([p.mean() for p in self._predictives(X)])

    def _variance(self, X: Array) -> Array:
        """Var(y) of a new observation at each row. Incompatible where an estimate has no standard error."""
        model = self.fit_.model
        solution = self.fit_.solution
        model.design.refuse_sampling("the standard deviation of a new observation")
        design = model.design.at(X)
        require_estimable(solution, design)
        noise = noise_of_scale(model, solution)
        is_point = solution.draws is None
        if is_point and not solution.scale.has_errors:
            raise Incompatible(
                f"return_std: an estimate by {self.fit_.method.name} under this prior has no standard error; "
                "method='nuts' has a posterior standard deviation"
            )
        if noise is not None:  # s^2 + x'Sx
            scale = np.sqrt(noise**2 + solution.scale.of_rows(design.X)[:, 0, 0])
            return closed_error(scale, solution.df, posterior=not is_point) ** 2
        # Var(y) = E[Var(y | atom)] + Var(E[y | atom]); the atom of an estimate has the standard error of its mean
        parts = (
            _noise_variance(p).mean(0) + p.means().var(0) for p in self._predictives(X)
        )
        variance = np.concatenate([*parts])
        if is_point:
            arrays, _ = predict(self.fit_, design, prob=None)
            variance += arrays["error"] ** 2
        return variance

    def likelihood_for(self, response: Array) -> Likelihood:
        likelihood = read_likelihood(self.likelihood)
        if isinstance(likelihood, OfClasses):
            raise Incompatible(
                f"Regressor: {likelihood.name} is a likelihood of classes, for which there is Classifier"
            )
        return likelihood


def _noise_variance(p: Predictive) -> Array:
    """Return Var(y | draw), (S, n)."""
    variance = p.likelihood.response_variance(p.eta, **p.aux)
    if variance is None:
        raise Incompatible(
            f"return_std: {p.likelihood.named} likelihood has no formula for its variance"
        )
    return variance
