"""Simulation of parameters and data from a model."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.errors import DataError, Incompatible, ProbregError
from probreg.fits.inference_data import observation_rows
from probreg.inference import METHODS, Auto, Method
from probreg.model.hyperparameters import hyper_names
from probreg.model.model import Model
from probreg.model.prior_predictive import improper_coefficients, proper_examples

Array = np.ndarray


class Simulation(NamedTuple):
    """Parameters from the prior, and the model with a response simulated at them."""

    beta: Array  # (p, m)
    aux: dict[str, float]  # the unknown nuisance parameters
    model: Model
    hyper: dict[
        str, float
    ]  # standard deviations and correlations of effects that vary by a group


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
    """Return the method of fits of this model to simulated data, for "auto" the one that it chooses."""
    chosen = METHODS.resolve(method)
    return chosen.choose(model)[0] if isinstance(chosen, Auto) else chosen


def require_method(model: Model, method: Method) -> None:
    """Raise Incompatible if the method cannot fit the model."""
    reason = method.obstacle(model)
    if reason is not None:
        raise Incompatible(reason)
