"""The kinds of interval of a solution, one table entry each, for its coefficients and
its nuisance parameters.

A kind returns its basis, the reason if it does not apply, and its ends, as plain
arrays.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import DataError, Incompatible, NotConverged, Remedy
from probreg.inference.base import (
    Estimated,
    Method,
    Solution,
    reported_coefficients,
    reported_estimate,
    reported_marginals,
)
from probreg.inference.covariance import ParameterCovariance
from probreg.inference.penalized.nonsmooth import has_nonsmooth_terms, no_errors
from probreg.inference.reported import ReportedParameters, unknown_nuisance
from probreg.inference.uncertainty.bootstrap import Bootstrap
from probreg.inference.uncertainty.covariance import reported_words, uses_t
from probreg.inference.uncertainty.found_scales import (
    profile_interval,
    profiled_coefficients,
    satterthwaite,
    wald_on_free_scale,
    why_no_satterthwaite,
)
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    highest_density,
    of_positive_replicates,
    of_replicates,
    percentile,
    positive_interval,
    quantile,
)
from probreg.inference.uncertainty.intervals.marginals import (
    Marginal,
    OnNodes,
    RootInverseGamma,
    of_coefficients,
)
from probreg.inference.uncertainty.profile import (
    STATISTICS,
    invert_test,
    invert_test_of_aux,
    invert_test_of_reported,
)
from probreg.likelihoods.links import IDENTITY, LOG, LOGIT
from probreg.model.model import Model

Array = np.ndarray
# the unbounded scale of a real parameter, a positive parameter and a probability
FREE_SCALES = {"real": IDENTITY, "positive": LOG, "unit": LOGIT}
WALD_KINDS = {"real": "wald", "positive": "log-wald", "unit": "logit-wald"}


class GivenCovariance(NamedTuple):
    """A covariance of the reported coefficients that replaces the fit's own, with its description."""

    scale: Array
    words: Mapping[str, Any]
    # over the coefficients of the model, and the logs of nuisance parameters if its kind includes them; None for an array, if the
    # model has random effects
    matrix: ParameterCovariance | None

    @property
    def kind(self) -> str:
        """Its name in messages."""
        return str(self.words.get("kind", "given"))


@dataclass(frozen=True, eq=False)
class Intervals:
    """The intervals of one solution; `Fit` labels the results."""

    model: Model
    method: Method
    solution: Solution

    @property
    def default(self) -> str:
        """The default kind."""
        if self.method.target == "posterior":
            return "eti"
        if self.solution.replicates is not None:
            return "bootstrap"
        return "t" if self.df is not None else "wald"

    @cached_property
    def df(self) -> Array | float | None:
        """Degrees of freedom of t: from least squares, or Satterthwaite's for each coefficient (h,) of a REML fit, or None."""
        s = self.solution
        if s.df is not None or s.effect_scales is None or why_no_satterthwaite(s):
            return s.df
        df_by_coefficient = satterthwaite(s.effect_scales).df(
            np.eye(len(self.model.design.ungrouped))
        )
        flat = ~self.model.joint.informative[self.model.design.ungrouped]
        # columns of smooth functions have no t distribution: use the normal
        if (df_by_coefficient[flat] > 0).all() and np.isfinite(
            df_by_coefficient[flat]
        ).all():
            return np.where(flat, df_by_coefficient, np.inf)
        return None

    @cached_property
    def reported_estimates(self) -> Estimated:
        """The reported coefficients and their standard errors."""
        return reported_estimate(self.model, self.solution)

    @cached_property
    def reported(self) -> ReportedParameters:
        """The parameters that are reported in place of nuisance parameters."""
        return ReportedParameters(self.model, self.solution)

    def replace_covariance(self, given: GivenCovariance | None) -> "Intervals":
        """Return these intervals with the `given` covariance for nuisance parameters and functions of them, if it covers them."""
        if given is None or given.matrix is None:
            return self
        unknown = unknown_nuisance(self.model, self.solution)
        covered = {f"log {name}" for name in unknown} <= {*given.matrix.further}
        if not covered and not self.reported.names:
            return self
        return replace(self, solution=replace(self.solution, scale=given.matrix))

    def of_kind(
        self, name: str | None, given: GivenCovariance | None = None
    ) -> "IntervalKind":
        """Return the kind of this name. Incompatible if the target, or a given covariance, does not have it."""
        if name is None and given is not None:
            if uses_t(self.solution, given.words):
                name = "t"
            else:
                name = "wald"
        if name is None:
            name = self.default
        names = KINDS[self.method.target]
        kind = INTERVAL_KINDS.get(name)
        if kind is not SymmetricInterval:
            self.model.design.refuse_sampling(f"an interval of kind {name!r}")
        if kind is None or name not in names:
            raise Incompatible(
                f"a {self.method.target} has intervals of kind {', '.join(names)}, not {name!r}"
            )
        if given is not None and kind is not SymmetricInterval:
            raise Incompatible(
                f"covariance= is a setting of intervals of kind t and wald; a {name} interval does not use it"
            )
        return kind(self, name, given)

    def of_aux(self, name: str, prob: float, kind: str | None) -> tuple[float, float]:
        """Return ends for an estimated positive parameter. DataError for another name."""
        s = self.solution
        if (
            kind is None
            and s.draws is None
            and s.replicates is None
            and name in s.hyper
        ):
            kind = "profile"
        interval = self.of_kind(kind)
        if name not in s.scalars and name not in self.reported.names:
            estimated_names = ", ".join(self.reported.scalars)
            raise DataError(
                f"{name!r} was not estimated; estimated auxiliary parameters: {estimated_names or 'none'}"
            )
        return interval.scalar_ends(name, prob)


@dataclass(frozen=True, eq=False)
class IntervalKind(ABC):
    """A kind of interval, under one of its names, for one solution."""

    of: Intervals
    name: str
    given: GivenCovariance | None = None

    @property
    def words(self) -> dict[str, Any]:
        """The basis of the interval."""
        return {}

    def refuse(self) -> None:
        """Raise NotConverged or Incompatible if the interval would be nan."""
        s = self.of.solution
        if s.not_estimable is not None and s.not_estimable.any():
            raise NotConverged(f"no interval: {s.status.value} ({s.detail})")

    @abstractmethod
    def ends(self, prob: float) -> tuple[Array, Array]:
        """Lower and upper ends for the coefficients, each (p,) or (p, outcomes)."""

    def scalar_ends(self, name: str, prob: float) -> tuple[float, float]:
        """Ends for an estimated nuisance parameter, prior scale or parameter that is reported in place of one."""
        if name in self.of.reported.names:
            return self.reported_ends(name, prob)
        return self.aux_ends(name, prob)

    @abstractmethod
    def aux_ends(self, name: str, prob: float) -> tuple[float, float]:
        """Ends for an estimated positive parameter."""

    @abstractmethod
    def reported_ends(self, name: str, prob: float) -> tuple[float, float]:
        """Ends for a parameter that is reported in place of nuisance parameters."""


class SymmetricInterval(IntervalKind):
    """estimate -+ quantile * standard error: Student-t ("t") or normal ("wald"), from
    the fit's covariance or a given one."""

    @property
    def words(self) -> dict[str, Any]:
        if self.given is not None:
            return {"covariance": self.given.kind}
        of = self.of
        return {"covariance": reported_words(of.model, of.method, of.solution)["kind"]}

    def refuse(self) -> None:
        super().refuse()
        intervals = self.of
        s = self.of.solution
        if self.given is not None:
            return
        if has_nonsmooth_terms(intervals.model):
            raise Incompatible(
                f"no interval: {no_errors(intervals.model)}; Bootstrap({intervals.method.name!r}) gives an interval of the estimator"
            )
        words = reported_words(intervals.model, intervals.method, s)
        if words["kind"] == "none":
            raise Incompatible(f"no interval: {words['definition']}")
        if np.isnan(intervals.reported_estimates.error).any():
            raise NotConverged(
                f"no interval: there are no standard errors ({s.reason_without_errors})"
            )

    def ends(self, prob: float) -> tuple[Array, Array]:
        estimate = self.of.reported_estimates
        given = self.given
        if given is None:
            df = self.of.df
        else:
            df = given.words.get("df")
        if self.name == "wald":
            df = None
        elif df is None:
            subject = self.of.method.name
            if given is not None:
                subject = f"the {given.kind} covariance"
            raise Incompatible(
                f"{subject} has no degrees of freedom here, so no t interval",
                remedy=Remedy("kind", "wald"),
            )
        if given is None:
            error = estimate.error
        else:
            error = np.sqrt(np.diagonal(given.scale)).reshape(estimate.beta.shape)
        half = quantile(prob, df) * error
        return estimate.beta - half, estimate.beta + half

    def aux_ends(self, name: str, prob: float) -> tuple[float, float]:
        s = self.of.solution
        if s.scales is not None and name in s.scales.values:
            return wald_on_free_scale(s.scales, name, prob)
        if self.name == "t" and s.df is not None and s.df > 0:
            # RSS / sigma^2 ~ chi^2(df)
            chi = RootInverseGamma(s.df / 2, s.stats["rss"] / 2)
            return chi.equal_tail(prob)
        if s.aux[name] > 0:
            return positive_interval(s.aux[name], s.aux_sd[name], prob)
        return (np.nan, np.nan)

    def reported_ends(self, name: str, prob: float) -> tuple[float, float]:
        reported = self.of.reported
        assert reported.estimate is not None  # it has this name
        value, sd = reported.values[name]
        # Wald on the scale without bounds: sd(g(v)) = sd(v) / (d v / d g)
        link = FREE_SCALES[reported.estimate.supports[reported.names.index(name)]]
        centre = link.forward(np.array(value))
        with np.errstate(invalid="ignore"):  # a parameter at the end of its range
            half = quantile(prob, None) * sd / link.slope(centre)
        return float(link.inverse(centre - half)), float(link.inverse(centre + half))


class InvertedInterval(IntervalKind):
    """The values that a test does not reject: the likelihood ratio test ("profile") or
    Rao's ("score"). They need no estimate."""

    @property
    def words(self) -> dict[str, Any]:
        if self.of.model.flat or self.of.solution.effect_scales is not None:
            return {}
        return {"of": "the log posterior, including priors"}

    def refuse(self) -> None:
        return

    def ends(self, prob: float) -> tuple[Array, Array]:
        shape = self.of.reported_estimates.beta.shape
        scales = self.of.solution.effect_scales
        if scales is not None:
            return profiled_coefficients(scales, self.name, quantile(prob, None))
        lower, upper = invert_test(
            self.of.model, self.of.solution, self.name, quantile(prob, None)
        )
        return lower.reshape(shape), upper.reshape(shape)

    def aux_ends(self, name: str, prob: float) -> tuple[float, float]:
        scales = self.of.solution.scales
        if scales is not None and name in scales.values:
            if self.name != "profile":
                raise Incompatible(
                    f"{name} has intervals of kind profile and wald, not {self.name!r}"
                )
            return profile_interval(scales, name, prob)
        return invert_test_of_aux(
            self.of.model, self.of.solution, self.name, name, quantile(prob, None)
        )

    def reported_ends(self, name: str, prob: float) -> tuple[float, float]:
        return invert_test_of_reported(
            self.of.reported, self.name, name, quantile(prob, None)
        )


class ReplicatedInterval(IntervalKind):
    """Intervals from replicates of the estimate; "bootstrap" is the kind that the method was configured for."""

    @property
    def words(self) -> dict[str, Any]:
        method = self.of.method
        if not isinstance(method, Bootstrap):
            return {}
        words = {
            "bootstrap": method.kind,
            "ends": self._ends_kind,
            "replicates": method.reps,
        }
        return words | {"failed": int(self.of.solution.stats["failed"])}

    def ends(self, prob: float) -> tuple[Array, Array]:
        beta = self.of.reported_estimates.beta
        by_column = beta.reshape(len(beta), math.prod(beta.shape[1:]))
        lower, upper = of_replicates(
            self._replicates(), self._ends_kind, by_column, prob
        )
        return lower.reshape(beta.shape), upper.reshape(beta.shape)

    def aux_ends(self, name: str, prob: float) -> tuple[float, float]:
        scales = self.of.solution.scales
        if scales is not None and name in scales.values:
            replicates = self._replicates().get(name)
            if replicates is None or self.name == "bca":
                return (np.nan, np.nan)
            return percentile(replicates, prob)
        return of_positive_replicates(
            self._replicates(), self._ends_kind, name, self.of.solution.aux[name], prob
        )

    def reported_ends(self, name: str, prob: float) -> tuple[float, float]:
        self._replicates()
        if self._ends_kind == "bca":
            return (np.nan, np.nan)
        return percentile(self.of.reported.draws[name], prob)

    @property
    def _ends_kind(self) -> str:
        """The kind of ends that is used."""
        method = self.of.method
        if self.name == "bootstrap" and isinstance(method, Bootstrap):
            return method.interval
        return self.name

    def _replicates(self) -> Mapping[str, Array]:
        if self.of.solution.replicates is None:
            raise Incompatible(
                "this fit has no replicates, so no bootstrap interval: fit with Bootstrap(method), such as "
                f"pr.fit(model, pr.Bootstrap({self.of.method.name!r}))"
            )
        return self.of.solution.replicates


class PosteriorInterval(IntervalKind):
    """Intervals of a posterior, equal-tailed ("eti") or of highest density ("hdi"):
    exact for known marginals, else from draws."""

    def ends(self, prob: float) -> tuple[Array, Array]:
        s = self.of.solution
        estimate = self.of.reported_estimates
        if s.posterior.elliptical:
            half = quantile(prob, s.df) * estimate.error
            return estimate.beta - half, estimate.beta + half
        marginals = reported_marginals(self.of.model, s.posterior)
        if marginals is not None:
            lower, upper = of_coefficients(marginals, prob, self.name)
        else:
            beta = reported_coefficients(self.of.model, s.posterior["beta"])
            lower, upper = self._of_draws(beta.reshape(-1, *estimate.beta.shape), prob)
        return lower.reshape(estimate.beta.shape), upper.reshape(estimate.beta.shape)

    def aux_ends(self, name: str, prob: float) -> tuple[float, float]:
        exact = self._sigma_marginal(name)
        if exact is None:
            return self.reported_ends(name, prob)
        return exact.ends(prob, self.name)

    def reported_ends(self, name: str, prob: float) -> tuple[float, float]:
        lower, upper = self._of_draws(self.of.reported.draws_of(name).ravel(), prob)
        return float(lower), float(upper)

    def _of_draws(self, draws: Array, prob: float) -> tuple[Array, Array]:
        if self.name == "hdi":
            return highest_density(draws, prob)
        return equal_tail(draws, prob)

    def _sigma_marginal(self, name: str) -> Marginal | None:
        """The posterior of sigma, if it is known: by quadrature, or with sigma^2 inverse gamma (df / 2, df s^2 / 2)."""
        s = self.of.solution
        if name != self.of.model.likelihood.noise_scale:
            return None
        nodes = s.posterior.marginals
        if nodes is not None and "log_sigma" in nodes:
            return OnNodes(nodes["weight"], nodes["log_sigma"])
        if "sigma2_scale" in s.stats and s.df is not None:
            return RootInverseGamma(s.df / 2, s.stats["sigma2_scale"] * s.df / 2)
        return None


INTERVAL_KINDS: Mapping[str, type[IntervalKind]] = {
    **dict.fromkeys(("t", "wald"), SymmetricInterval),
    **dict.fromkeys(STATISTICS, InvertedInterval),
    **dict.fromkeys(("bootstrap", "percentile", "bca"), ReplicatedInterval),
    **dict.fromkeys(("eti", "hdi"), PosteriorInterval),
}
# The kinds of each target.
KINDS: Mapping[str, tuple[str, ...]] = {
    "mode": tuple(
        name for name, kind in INTERVAL_KINDS.items() if kind is not PosteriorInterval
    ),
    "posterior": tuple(
        name for name, kind in INTERVAL_KINDS.items() if kind is PosteriorInterval
    ),
}
# Printed names of the kinds, also of marginals known by formula.
KIND_WORDS = {
    "t": "t", "wald": "Wald", "eti": "equal-tailed", "hdi": "highest-density", "chi-square": "chi-square",
    "log-wald": "Wald on the log scale", "logit-wald": "Wald on the logit scale", "atanh-wald": "Wald on the scale of atanh", "profile": "profile likelihood", "score": "score", "bootstrap": "bootstrap",
    "percentile": "bootstrap percentile", "bca": "bootstrap BCa",
}  # fmt: skip
