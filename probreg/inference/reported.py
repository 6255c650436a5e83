"""Parameters that a fit reports in place of the nuisance parameters of its likelihood, such as thresholds between ordered classes.

`Likelihood.report_parameters` defines them as functions of the intercept and of the nuisance parameters; it returns None for most likelihoods,
which report the nuisance parameters themselves. Estimates, draws and replicates are transformed, and standard errors are by the delta
method.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.inference.base import Array, Solution, Status, aux_names
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.varying import OF_EFFECTS
from probreg.likelihoods import Reported
from probreg.model.model import Model


def reported_at(model: Model, beta: Array, aux: Mapping[str, Any]) -> Reported | None:
    """Return the parameters to report at coefficients (..., p, m) and nuisance parameters (...)."""
    j = model.design.intercept
    intercept = beta[..., 0, 0] * 0.0 if j is None else beta[..., j, 0]
    return model.likelihood.report_parameters(intercept, **{**model.fixed, **aux})


def unknown_nuisance(model: Model, solution: Solution) -> tuple[str, ...]:
    """Return the nuisance parameters that were unknown, also if `model` fixes them at their estimates by evidence."""
    return (model if solution.scales is None else solution.scales.stated).unknown


def without_error(
    model: Model,
    solution: Solution,
    V: ParameterCovariance,
    *,
    at_limits: bool = False,
) -> list[bool]:
    """Return for each nuisance parameter whether it was estimated and has no error in a covariance, such as a covariance given
    scales that were found with it. A parameter that goes to 0 counts only with `at_limits`: functions of it are at their limit."""
    unknown = set(unknown_nuisance(model, solution))
    if solution.scales is not None and not at_limits:
        unknown.difference_update(solution.scales.at_limit)
    return [
        name in unknown and f"log {name}" not in V.further
        for name in model.likelihood.nuisance
    ]


def draws_at(model: Model, draws: Mapping[str, Array]) -> dict[str, Array]:
    """Return the draws of these parameters by name, from draws of the coefficients "beta" and of the nuisance parameters."""
    aux = {name: draws[name] for name in model.unknown}
    reported = reported_at(model, draws["beta"], aux)
    if reported is None:
        return {}
    return dict(zip(reported.names, np.moveaxis(reported.values, -1, 0)))


@dataclass(frozen=True, eq=False)
class ReportedParameters:
    """The parameters that a solution reports in place of nuisance parameters, by name."""

    model: Model
    solution: Solution

    @cached_property
    def estimate(self) -> Reported | None:
        """The parameters at the estimate, without functions of fixed nuisance parameters alone; None if there are none."""
        likelihood = self.model.likelihood
        aux = dict(self.solution.aux)
        if self.solution.scales is not None:
            aux |= dict.fromkeys(self.solution.scales.at_limit, 0.0)
        reported = reported_at(self.model, self.solution.beta, aux)
        # slopes at an estimate of 0 are 0
        ones = dict.fromkeys(likelihood.nuisance, 1.0)
        at_ones = likelihood.report_parameters(np.zeros(()), **ones)
        if reported is None or at_ones is None:
            return None
        unknown = unknown_nuisance(self.model, self.solution)
        is_unknown = [True, *(name in unknown for name in likelihood.nuisance)]
        places = np.flatnonzero((at_ones.slopes[:, is_unknown] != 0.0).any(1))
        return reported.part(places.tolist()) if len(places) else None

    @property
    def names(self) -> tuple[str, ...]:
        """Their names; empty if the nuisance parameters themselves are reported."""
        return () if self.estimate is None else self.estimate.names

    @cached_property
    def draws(self) -> dict[str, Array]:
        """Their draws (chain, draw), or replicates (R,), by name; empty for an estimate without draws."""
        s = self.solution
        if s.draws is not None:
            every = draws_at(self.model, s.draws.values)
        elif s.replicates is not None:
            given = {**s.replicates, "beta": s.replicates["coef"]}
            every = draws_at(self.model, given)
        else:
            return {}
        return {name: every[name] for name in self.names}

    @cached_property
    def gradients(self) -> Array:
        """(r, p m + a) over (vec beta, the log of each nuisance parameter)."""
        assert self.estimate is not None  # callers have a name
        slopes = self.estimate.slopes
        k = self.solution.beta.size
        G = np.zeros((len(slopes), k + slopes.shape[1] - 1))
        if self.model.design.intercept is not None:
            G[:, self.model.design.intercept * self.model.shape[1]] = slopes[:, 0]
        G[:, k:] = slopes[:, 1:]
        return G

    @cached_property
    def values(self) -> dict[str, tuple[float, float]]:
        """Estimate and standard error, or nan, by name."""
        if self.estimate is None:
            return {}
        if self.solution.draws is not None:
            return {k: (float(v.mean()), float(v.std())) for k, v in self.draws.items()}
        if self.solution.replicates is not None:
            errors = [float(np.nanstd(v, ddof=1)) for v in self.draws.values()]
        else:
            V = self.solution.scale
            B = V.half(V.arrange(self.gradients, aux_names(self.model.likelihood)))
            lacking = without_error(self.model, self.solution, V, at_limits=True)
            is_partial = (self.estimate.slopes[:, 1:][:, lacking] != 0.0).any(1)
            norms = np.linalg.norm(B, axis=1)
            errors = np.where(is_partial, np.nan, norms).tolist()
        return dict(zip(self.names, zip(self.estimate.values.tolist(), errors)))

    @cached_property
    def scalars(self) -> dict[str, tuple[float, float]]:
        """`solution.scalars` with these parameters in place of the nuisance parameters; those that diverge are infinite."""
        scalars = self.solution.scalars
        if self.solution.status is Status.AT_INFINITY:
            for name in scalars.keys() & self.model.likelihood.at_infinity.keys():
                scalars[name] = (np.inf, scalars[name][1])
        if self.estimate is None:
            return scalars
        nuisance = self.model.likelihood.nuisance
        kept = {k: v for k, v in scalars.items() if k not in nuisance}
        effects = {k: v for k, v in kept.items() if k.startswith(OF_EFFECTS)}
        return {**effects, **self.values, **kept}

    @property
    def with_nuisance(self) -> dict[str, tuple[float, float]]:
        """These scalars, then the nuisance parameters that are not among them."""
        nuisance = self.solution.scalars
        return self.scalars | {
            k: nuisance[k] for k in nuisance if k not in self.scalars
        }

    def draws_of(self, name: str) -> Array:
        """Return the draws (chain, draw) of one of the scalars of a posterior."""
        return self.draws[name] if name in self.names else self.solution.posterior[name]


def reported_parameters(fit: Any) -> ReportedParameters:
    """Return the reported parameters of a fit, for `fit.once`."""
    return ReportedParameters(fit.model, fit.solution)
