"""The known truth of a simulation: its linear predictors at any rows, and the variance of new responses."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from probreg.arguments.arrays import as_array, floats
from probreg.arguments.scalars import shown_value
from probreg.arguments.types import ArrayLike, TableLike
from probreg.data import Design
from probreg.data.checked_arrays import is_array
from probreg.data.formula.variables import variables
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.inference.base import coefficients_of_reported
from probreg.likelihoods import Likelihood, SoftmaxLikelihood
from probreg.model.model import Model

Array = np.ndarray


Mean = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True, eq=False)
class Truth:
    """The truth of a simulation: the likelihood of the model with this mean and these nuisance parameters.

    Parameters
    ----------
    mean : array (p,) or (p, m), callable or Fit
        Coefficients, a Fit, or a function of the variables by name that returns E[y] (n,) or class probabilities (n, K).
    aux : mapping from str to float
        Nuisance parameters, such as sigma.
    data : table, optional
        The training rows, needed if the function uses a variable that cannot be read back from the columns (for example
        of a spline).

    Examples
    --------
    >>> Truth([0.0, 3.0], {"sigma": 1.0}).aux["sigma"]
    1.0
    """

    mean: ArrayLike | Mean | Fit
    aux: Mapping[str, float] = field(default_factory=dict)
    data: TableLike | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.aux, Mapping):
            raise DataError(
                f"aux={self.aux!r}: expected nuisance parameters by name, such as aux={{'sigma': 1.0}}"
            )


def with_known_aux(truth: Any, model: Model) -> Truth:
    """Return the truth with every nuisance parameter as a number."""
    if not isinstance(truth, Truth):
        truth = Truth(truth)
    has_values = isinstance(truth.mean, Fit) or callable(truth.mean)
    if not has_values and as_array(truth.mean, "the truth").dtype.kind not in "fiu":
        raise DataError(
            f"the truth is coefficients, a Fit, a function of the variables or a Truth, got {shown_value(truth.mean)}"
        )
    aux = {**model.fixed}
    if isinstance(truth.mean, Fit):
        require_predictive(truth.mean)
        aux |= truth.mean.aux
    aux |= truth.aux
    for name in model.likelihood.nuisance:
        if name not in aux:
            raise DataError(
                f"the truth lacks {name}: Truth(..., aux={{{name!r}: ...}}), a model with fixed {name}, or a Fit has it"
            )
        if not (np.isfinite(aux[name]) and aux[name] > 0):
            raise DataError(
                f"the true {name} is {aux[name]!r}; it must be a positive finite number"
            )
    known = {k: float(aux[k]) for k in model.likelihood.nuisance}
    return replace(truth, aux=known)


def linear_predictors(
    truth: Truth, model: Model, target: Design, x: Any
) -> tuple[Array, Array]:
    """Return the true eta (n, m) at the training rows and at `x`."""
    design = model.design
    likelihood = model.likelihood
    if isinstance(truth.mean, Fit):
        return _predictors_of_fit(truth.mean, model, x)
    if callable(truth.mean):
        values = variables(design, truth.data)
        at_rows = _predictors_of_mean(truth.mean, values, likelihood, design.n)
        if x is None:
            return at_rows, at_rows
        values = variables(target, None if is_array(x) else x)
        return at_rows, _predictors_of_mean(truth.mean, values, likelihood, target.n)
    beta = as_coefficients(truth.mean, model)
    return design.eta(beta), target.eta(beta)


def _predictors_of_fit(fit: Fit, model: Model, x: Any) -> tuple[Array, Array]:
    """Return eta of a fit at the training rows and at `x`, with the reference class of the model."""
    design = fit.model.design
    other = fit.model.likelihood
    likelihood = model.likelihood
    if type(other) is not type(likelihood) or other.levels != likelihood.levels:
        raise Incompatible(
            f"the truth is a fit of {other.named} likelihood with levels {other.levels}, the model has {likelihood.name} with {likelihood.levels}"
        )
    if design.n != model.design.n:
        raise DataError(
            f"the truth was fitted to {design.n} rows and the model has {model.design.n}: they must be the same rows"
        )
    target = design
    if x is not None:
        target.need_columns_elsewhere("a truth at other rows")
        target = target.at(x)
    beta = fit.solution.beta
    at_rows = fit.model.eta(beta)
    at_target = target.eta(beta)
    if likelihood == other or not likelihood.outcomes:
        return at_rows, at_target
    # another reference class
    return (
        _inverse_mean(likelihood, other.mean(at_rows)),
        _inverse_mean(likelihood, other.mean(at_target)),
    )


def as_coefficients(values: Any, model: Model) -> Array:
    """Return beta (p, m) from (p,), (p, m) or, as reported, (p, outcomes)."""
    beta = as_array(values, "the truth")
    beta = (beta[:, None] if beta.ndim == 1 else beta).astype(float)
    p, m = model.shape
    outcomes = len(model.likelihood.outcomes) or 1
    if beta.shape not in ((p, m), (p, outcomes)) or not np.isfinite(beta).all():
        raise DataError(
            f"the true coefficients have shape {np.shape(values)}; expected {outcomes} finite per column: {', '.join(model.design.columns)}"
        )
    # Reported coefficients are beta D': beta = reported (D')^+.
    if beta.shape[1] == m:
        return beta
    return coefficients_of_reported(model, beta)


def _predictors_of_mean(
    function: Mean, values: Mapping[str, Any], likelihood: Likelihood, n: int
) -> Array:
    """Return eta where E[y] is the function of the variables."""
    mean = floats(function(values), "the function of the true mean")
    expected: tuple[int, ...] = (n, len(likelihood.levels))
    if likelihood.has_scalar_mean:
        expected = (n,)
        if mean.ndim == 0:
            mean = np.full(n, mean)
    if mean.shape != expected:
        raise DataError(
            f"the function of the true mean returned shape {mean.shape}, expected {expected}"
        )
    return _inverse_mean(likelihood, mean)


def _inverse_mean(likelihood: Likelihood, mean: Array) -> Array:
    """Return eta (n, m) with this mean. DataError names the row with a mean out of range."""
    with np.errstate(all="ignore"):
        if isinstance(likelihood, SoftmaxLikelihood):
            # log p_k = (C eta)_k + c with an unknown constant c: K linear equations in (eta, c).
            logs = np.log(mean / mean.sum(1, keepdims=True))
            # scores are known up to a shift
            basis = np.c_[likelihood.contrast, np.ones(len(likelihood.levels))]
            eta = np.linalg.solve(basis, logs.T).T[:, :-1]
        else:
            eta = np.asarray(likelihood.link.forward(mean))[:, None]
    bad = np.flatnonzero(~np.isfinite(eta).all(1))
    if len(bad):
        raise DataError(
            f"the true mean of row {bad[0]} is {mean[bad[0]]}, which no {likelihood.name} response has"
        )
    return eta


def noise_variance(
    likelihood: Likelihood,
    eta: Array,
    aux: Mapping[str, Any],
    row_data: Mapping[str, Array],
) -> Array:
    """Return the variance of a new response on the scale of its mean, per row, or per row and class.

    `aux` has one number or one per row (n,). A class has p (1 - p), a share of n trials p (1 - p) / n. Incompatible for a truncated
    response, because its `mean` is the mean before truncation.
    """
    variance = likelihood.response_variance(eta, **aux, **row_data)
    if variance is None:
        raise Incompatible(
            f"bias_variance needs the variance of the response, and {likelihood.named} likelihood has no formula for it"
        )
    return variance
