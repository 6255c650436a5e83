"""The posterior of a fit as the prior of the next one."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible
from probreg.inference.base import Array, Method, Solution
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.exact.conjugate import Conjugate
from probreg.model.model import Model
from probreg.priors import (
    AuxPrior,
    HierarchicalPrior,
    InverseGamma,
    LogNormal,
    MultivariateNormal,
    Normal,
    Prior,
)
from probreg.priors.joint import Key


class PosteriorAsPrior(NamedTuple):
    """A posterior written as priors, with a note on the conversion."""

    prior: Prior | dict[Key, Prior]
    aux: dict[str, float | AuxPrior]
    note: str

    def updated_model(self, before: Model, larger: Model) -> Model:
        """Return a model of new rows with these priors. DataError if its columns or its
        likelihood differ."""
        if (larger.design.columns, larger.likelihood) != (
            before.design.columns,
            before.likelihood,
        ):
            raise DataError(
                "an update needs a model of the same columns and the same likelihood, levels included"
            )
        kind_before = before.design.weight_kind
        kind_now = larger.design.weight_kind
        if kind_before != kind_now:
            raise DataError(
                f"an update needs weights of one kind: {kind_before} before and {kind_now} now (rows without weights are frequencies). "
                "Give both sets of rows the same kind"
            )
        return replace(larger, prior=self.prior, aux=self.aux)


def posterior_as_prior(
    model: Model, method: Method, solution: Solution
) -> PosteriorAsPrior:
    """Return the posterior of a fit as a prior.

    Exact for `conjugate` (a normal in units of sigma, an inverse gamma of sigma^2); for
    draws a normal with their mean and covariance, and an independent lognormal sigma.
    Incompatible for a mode.
    """
    if method.target != "posterior":
        raise Incompatible(
            f"{method.name} gives a point estimate, which is not a posterior: fit with conjugate, laplace or nuts and update that fit"
        )
    model.design.need_columns_elsewhere("an update by other rows")
    if solution.draws is not None and (unknown := _unknown_groups(model)):
        raise Incompatible(
            f"an update would lose the standard deviations of {', '.join(unknown)}, which a normal prior of the coefficients cannot represent: "
            "fit all rows together"
        )
    aux: dict[str, float | AuxPrior] = dict(model.fixed)
    if isinstance(method, Conjugate):
        if model.noise_held is not None:
            prior = _normal(model, solution.beta, solution.scale.precision())
            return PosteriorAsPrior(
                prior,
                aux,
                "the posterior before is the prior here, exactly: normal with fixed sigma",
            )
        assert (
            solution.df is not None
        )  # conjugate with unknown sigma has Student-t marginals
        # sigma^2 | y ~ InvGamma(a, b) with 2 a = df and b = a (b/a); beta | sigma, y ~ N(m, sigma^2 V), V = scale /
        # (b/a).
        a = solution.df / 2.0
        square = solution.stats["sigma2_scale"]
        prior = _normal(
            model,
            solution.beta,
            solution.scale.scale_by(1.0 / square).precision(),
            sigma_units=True,
        )
        aux[model.noise_scale] = InverseGamma(a, a * square)
        return PosteriorAsPrior(
            prior,
            aux,
            "the posterior before is the prior here, exactly: normal times inverse gamma",
        )
    P = _covariance(solution).precision()
    for name in model.unknown:
        log_v = np.log(solution.posterior[name])
        aux[name] = LogNormal(float(log_v.std()), location=float(log_v.mean()))
    if not model.unknown:
        lost_text = ""
    else:
        lost_text = f", {', '.join(model.unknown)} lognormal and independent of it"
    hyper = solution.posterior.hyper
    lost_text += (
        ""
        if not hyper
        else f"; {', '.join(hyper)} is in its covariance and not carried on"
    )
    return PosteriorAsPrior(
        _normal(model, solution.beta, P),
        aux,
        f"the posterior before ({method.name}) is the prior here approximately: normal with its mean and covariance{lost_text}",
    )


def _unknown_groups(model: Model) -> list[str]:
    """Return the terms of effects that vary by a group with unknown hyperparameters."""
    hierarchical = [
        b.columns for b in model.joint.blocks if isinstance(b.prior, HierarchicalPrior)
    ]
    return [
        term.key
        for columns in hierarchical
        if (term := model.design.grouped_of(columns)) is not None
    ]


def _covariance(solution: Solution) -> ParameterCovariance:
    df = solution.df
    if df is not None and df <= 2:
        raise DataError(
            f"this posterior has {df:g} degrees of freedom and no covariance, so it cannot become a prior"
        )
    return solution.covariance


def _normal(
    model: Model, mean: Array, P: Array, *, sigma_units: bool = False
) -> Prior | dict[Key, Prior]:
    """One normal prior of every column, the intercept too."""
    if model.shape[1] > 1 or model.likelihood.outcomes:
        return MultivariateNormal(
            tuple(map(tuple, mean.tolist())), precision=tuple(map(tuple, P.tolist()))
        )
    location = tuple(mean[:, 0].tolist())
    prior = Normal(
        location=location,
        precision_matrix=tuple(map(tuple, P.tolist())),
        sigma_units=sigma_units,
    )
    return {tuple(model.design.columns): prior}
