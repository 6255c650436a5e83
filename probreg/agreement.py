"""Whether a design, a likelihood and priors go together: refusals in words, before any work."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from probreg.design import Design
from probreg.errors import DataError, Incompatible
from probreg.likelihoods import Bernoulli, Categorical, Likelihood
from probreg.priors import AuxPrior, GaussianPrior, JointPrior, Prior, WholePrior

Array = np.ndarray


def check_trials(likelihood: Likelihood) -> None:
    """Incompatible where successes out of trials are given to another likelihood than Bernoulli."""
    if not isinstance(likelihood, Bernoulli):
        raise Incompatible(f"successes out of trials are Bernoulli observations, not {likelihood.name}")


def check_aux(likelihood: Likelihood, aux: Mapping[str, float | AuxPrior]) -> None:
    """DataError for a nuisance parameter that the likelihood lacks, or that is no positive number and no prior of one."""
    for name, value in aux.items():
        if name not in likelihood.aux:
            raise DataError(
                f"a {likelihood.name} likelihood has no parameter {name!r}; it has: {', '.join(likelihood.aux) or 'none'}"
            )
        if isinstance(value, Prior):
            raise DataError(
                f"{name} is positive: its prior is one of priors.HalfNormal, HalfCauchy, HalfStudentT, Exponential, Uniform, InverseGamma, LogNormal, Reference, not {type(value).__name__}"
            )
        number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not isinstance(value, AuxPrior) and not (number and np.isfinite(value) and value > 0):
            raise DataError(f"{name} is held at {value!r}; it must be a positive finite number, or a prior")


def counted(design: Design, values: Array) -> tuple[Design, Array]:
    """Without the rows of weight zero, which are no observations and must not shape levels or scales."""
    if design.weights is None or (design.weights > 0).all():
        return design, values
    keep = design.weights > 0
    note = f"{int((~keep).sum())} of {design.n} rows have weight 0 and were left out"
    part = design.take(keep)
    return replace(part, notes=(*part.notes, note)), values[keep]


def check_names(design: Design, likelihood: Likelihood) -> None:
    """DataError for a column that has the name of a nuisance parameter."""
    if both := set(design.columns) & set(likelihood.aux):
        name = both.pop()
        raise DataError(
            f"a column is called {name!r}, which is the {likelihood.name} likelihood's own parameter: rename the column"
        )


def check_offset(design: Design, likelihood: Likelihood) -> None:
    """DataError or Incompatible for an offset that the linear predictors cannot take."""
    if design.offset is not None and design.offset.shape[1] not in (1, likelihood.width):
        raise DataError(
            f"the offset has {design.offset.shape[1]} columns; this likelihood has {likelihood.width} linear predictors"
        )
    if isinstance(likelihood, Categorical) and likelihood.symmetric and design.offset is not None:
        raise Incompatible(
            "a symmetric softmax takes no offset: its predictors have no names of their own; use a reference class"
        )


def check_joint(prior: JointPrior, likelihood: Likelihood) -> None:
    """Incompatible for priors that mean nothing under this likelihood."""
    if prior.sigma_units.any() and "sigma" not in likelihood.aux:
        raise Incompatible(
            f"a prior in units of sigma needs a likelihood with a noise scale; {likelihood.name} has none"
        )
    if isinstance(likelihood, Categorical) and likelihood.symmetric:
        if not prior.of_kind(GaussianPrior, WholePrior):
            raise Incompatible(
                "a symmetric softmax goes with flat, normal or Jeffreys priors, which do not depend on its basis; use a reference class"
            )
        if prior.gaussian and prior.center.any():
            raise Incompatible(
                "the coefficients of a symmetric softmax sum to zero over the classes: their prior has location 0"
            )
