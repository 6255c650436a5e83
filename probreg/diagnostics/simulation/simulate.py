"""Simulation of parameters and data from a model, and the known truth of a simulation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.arrays import as_array, floats
from probreg.arguments.scalars import ArrayLike, TableLike, check_arguments, shown_value
from probreg.data import Design
from probreg.data.checked_arrays import is_array
from probreg.data.formula.functions import variables
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.fits.inference_data import observation_rows
from probreg.inference import METHODS, Auto, Method
from probreg.inference.base import coefficients_of_reported
from probreg.likelihoods import Likelihood, SoftmaxLikelihood
from probreg.model.model import Model
from probreg.model.prior_predictive import improper_coefficients, proper_examples
from probreg.model.term_priors import hyper_names

Array = np.ndarray


class Simulation(NamedTuple):
    """Parameters from the prior, and the model with a response simulated at them."""

    beta: Array  # (p, m)
    aux: dict[str, float]  # the unknown nuisance parameters
    model: Model
    # standard deviations and correlations of effects that vary by a group
    hyper: dict[str, float]


@check_arguments
def simulate(model: Model, rng: np.random.Generator) -> Simulation:
    """Simulate from the joint distribution: (beta, aux) ~ prior, y_i ~ p(y | x_i beta + offset_i, aux) at the model's rows.

    A row with whole-number weight w becomes w rows. Precisions divide the noise variance.

    Parameters
    ----------
    model : Model
        A model.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    Simulation
        `beta`, `aux`, the model of the drawn responses, and `hyper`, the standard deviations and correlations of effects that
        vary by a group.

    Raises
    ------
    Incompatible
        For improper priors, with the names of their columns and nuisance parameters, and for sampling weights.

    Examples
    --------
    >>> from probreg.priors import InverseGamma, Normal
    >>> model = Model.from_arrays(np.eye(3), [1.0, 2.0, 4.0], intercept=False, prior=Normal(2.0), aux={"sigma": 0.5})
    >>> simulate(model, np.random.default_rng(0)).beta.ravel().round(3)
    array([ 0.251, -0.264,  1.281])
    """
    return draw(unroll_rows(model), rng)


def unroll_rows(model: Model) -> Model:
    """Return the model with one row per observation. Incompatible as in `simulate`."""
    coefficients = improper_coefficients(model.joint, model.design)
    nuisance = [a for a in model.unknown if not model.aux_prior(a).proper]
    if coefficients or nuisance:
        raise Incompatible(
            f"data cannot be simulated from an improper prior, and this model has one on {', '.join([*coefficients, *nuisance])}. "
            f"Give proper priors, such as {proper_examples(coefficients, nuisance)}"
        )
    model.design.refuse_sampling("a simulation of responses")
    model.design.need_rows("a simulation of responses")
    return replace(repeat_rows(model), prior=model.with_prior_frozen.prior)


def repeat_rows(model: Model) -> Model:
    """Return the model with a row for each observation. Incompatible for more than a million of repeated rows."""
    if observation_rows(model)[1] is not None:
        raise Incompatible(
            "weights of more than a million rows in all are too many to simulate: leave the weights out"
        )
    return replace(model, design=model.design.repeat_rows())


def draw(model: Model, rng: np.random.Generator) -> Simulation:
    """Simulate from a model with one row per observation, without checks."""
    aux = {a: float(model.aux_prior(a).sample(rng, 1)[0]) for a in model.unknown}
    parameters = {**model.fixed, **aux}
    beta, hyper_draws = model.joint.sample_with_hyper(
        rng, model.shape, model.likelihood.noise(parameters)
    )
    names = hyper_names(model.joint, model.design)
    hyper = {
        names[i][k]: float(v)
        for i, draws in hyper_draws.items()
        for k, v in draws.items()
    }
    simulated = simulate_response(model, model.eta(beta), parameters, rng)
    return Simulation(beta, aux, simulated, hyper)


def simulate_response(
    model: Model, eta: Array, aux: Mapping[str, Any], rng: np.random.Generator
) -> Model:
    """Return the model with responses drawn at the linear predictors eta (n, m) and these nuisance parameters."""
    design = model.design
    parameters = model.likelihood.at_rows(aux, design.precision)
    try:
        y = model.likelihood.sample_like(design.observed, rng, eta, **parameters)
    except ValueError as error:
        if isinstance(error, ProbregError):
            raise
        raise DataError(  # numpy draws no count with a mean above 9e18
            f"responses of {model.likelihood.named} likelihood with a mean this large cannot be simulated ({error}): give priors with "
            "smaller scales, or state the columns in larger units"
        ) from None
    return replace(model, design=replace(design, y=y, kept=None))


def chosen_method(model: Model, method: str | Method) -> Method:
    """Return the method for fits of this model to simulated data; "auto" is resolved to the method that it chooses."""
    chosen = METHODS.resolve(method)
    return chosen.choose(model)[0] if isinstance(chosen, Auto) else chosen


def require_method(model: Model, method: Method) -> None:
    """Raise Incompatible if the method cannot fit the model."""
    reason = method.obstacle(model)
    if reason is not None:
        raise Incompatible(reason)


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
    """Return eta for E[y] equal to the function of the variables."""
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
