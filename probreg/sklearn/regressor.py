"""Regressions of numbers as a scikit-learn estimator."""

from typing import Any, Literal, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from probreg.arguments.types import ArrayLike
from probreg.data.checked_arrays import own_name
from probreg.errors import Incompatible
from probreg.fits.prediction import (
    closed_error,
    noise_of_scale,
    predict,
    require_estimable,
)
from probreg.inference import Method, MethodName
from probreg.likelihoods import (
    LIKELIHOODS,
    Likelihood,
    LikelihoodName,
    OfClasses,
)
from probreg.model.predictive import Predictive
from probreg.priors.text import AuxLike, PriorLike
from probreg.sklearn.estimator import Array, ModelEstimator, read_likelihood


class Regressor(RegressorMixin, ModelEstimator):
    """A regression of numbers: the mean of y is a function of X beta, the noise is what the likelihood says.

    By default least squares: Gaussian noise and no penalty. The parameters are those of `Model.from_arrays` and `fit`; offsets
    and trials are not among them. `score` is R^2 for every likelihood, as scikit-learn has it.

    Parameters
    ----------
    likelihood : str or Likelihood
        "gaussian", "student", "poisson", "negative_binomial", another name in `LIKELIHOODS` whose response is a number,
        such a name with its settings, "quantile(0.9)", or an object.
    prior : str or Prior or mapping
        "flat" (maximum likelihood), "weak" (N(0, 2.5 sd(y)/sd(x))), a prior as text such as "normal(2.5)", an object, or a
        mapping from the names of features to priors. The intercept is free unless a mapping names it.
    method : str or Method
        As in `fit`: "auto" finds the mode, "posterior" or "nuts" the posterior.
    aux : mapping, optional
        From a nuisance parameter to a number (held fixed) or to a prior, such as {"sigma": 1.0}.
    fit_intercept : bool
        Whether a column of ones is put in front.
    weights : {"frequency", "precision", "sampling"}
        What `sample_weight` means: whole numbers of equal rows; precisions, a noise variance of sigma^2/w; or units of a
        population that a row stands for.
    seed : int
        Of everything random, from 0.

    Attributes
    ----------
    fit_ : Fit
        The fit, to summarise, compare and diagnose.
    coef_ : array (n_features,)
        Coefficients on the raw features: the mode, or the mean of the posterior. Of collinear features it is the estimate of
        least norm, the intercept counted; `fit` warns, and `fit_.coef` has nan there.
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
            Numbers; the names of a table become those of the coefficients.
        y : array (n,)
            The response.
        sample_weight : array (n,), optional
            Whole numbers of equal rows, or what the parameter `weights` says.

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
        if self.fit_intercept:
            self.intercept_ = float(coef[0])
        else:
            self.intercept_ = 0.0
        self.coef_ = coef[int(self.fit_intercept) :]
        return self

    def predict(self, X: ArrayLike, return_std: bool = False) -> Any:
        """The mean of y at new rows, and if asked the standard deviation of a new observation there.

        Of "quantile" and "absolute" it is the quantile and the median, of "student" the centre.

        The standard deviation is that of y itself, noise included, as of scikit-learn's `BayesianRidge`. For a posterior
        it is sqrt(E[Var(y | draw)] + Var(E[y | draw])) over the draws. For a point estimate it is sqrt(Var(y | estimate) +
        g' S g), S being the covariance of the coefficients and g the slope of the mean over them; of least squares that is
        s sqrt(1 + x'(X'X)^-1 x) with the unbiased s. Weights of precision do not enter: a new row has weight 1.

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
            With `return_std`, where the rows have no unique prediction, or the estimate has no standard error.
        NotConverged
            Where there is no maximum to predict from.
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
        require_estimable(model, solution, design)
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
