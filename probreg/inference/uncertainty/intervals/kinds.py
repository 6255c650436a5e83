"""The intervals that a solution has, by kind: those of its coefficients and of its nuisance parameters, as plain arrays."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.data.weights import refuse_sampling
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.inference import Bootstrap, Method, Solution
from probreg.inference.base import Estimated, reported_coefficients, reported_estimate
from probreg.inference.penalized.nonsmooth import NO_ERRORS, has_nonsmooth_terms
from probreg.inference.uncertainty.covariance import reported
from probreg.inference.uncertainty.intervals.arithmetic import (
    equal_tail,
    highest_density,
    positive_interval,
    quantile,
    sigma_from_rss,
)
from probreg.inference.uncertainty.intervals.marginals import Marginal, OnNodes, RootInverseGamma, of_coefficients
from probreg.inference.uncertainty.intervals.replicates import REPLICATED, of_positive_replicates, of_replicates
from probreg.inference.uncertainty.profile import STATISTICS, inverted, inverted_aux
from probreg.model.model import Model

Array = np.ndarray
WALD = ("t", "wald")
KINDS = {"mode": (*WALD, *STATISTICS, *REPLICATED), "posterior": ("eti", "hdi")}


class GivenCovariance(NamedTuple):
    """A covariance of the reported coefficients that takes the place of the fit's own, and what it is."""

    scale: Array
    words: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Intervals:
    """What may be asked of one solution; `Fit` labels what comes back."""

    model: Model
    method: Method
    solution: Solution

    @property
    def default(self) -> str:
        """The kind that is meant when none is named."""
        if self.method.target == "posterior":
            return "eti"
        if self.solution.replicates is not None:
            return "bootstrap"
        return "t" if self.solution.df is not None else "wald"

    def kind(self, kind: str | None, given: GivenCovariance | None = None) -> str:
        """The kind that is meant. Incompatible for one that this target, or a given covariance, does not have."""
        if kind is None and given is not None:
            return "t" if "df" in given.words and self.solution.df is not None else "wald"
        kind = self.default if kind is None else kind
        if kind not in WALD:
            refuse_sampling(self.model.design.weight_kind, f"an interval of kind {kind!r}")
        known = KINDS[self.method.target]
        if kind not in known:
            raise Incompatible(f"a {self.method.target} has intervals of kind {', '.join(known)}, not {kind!r}")
        if given is not None and kind not in WALD:
            raise Incompatible(f"covariance= goes with intervals of kind t and wald; a {kind} interval reads none")
        return kind

    def refuse(self, kind: str | None, given: GivenCovariance | None = None) -> None:
        """NotConverged or Incompatible for an interval that would say nan; profile and score need no estimate."""
        s, wanted = self.solution, kind or self.default
        if s.not_estimable is not None and s.not_estimable.any() and kind not in STATISTICS:
            raise NotConverged(f"no interval: {s.status.value} ({s.detail})")
        if given is not None or wanted not in WALD or self.method.target == "posterior":
            return
        if has_nonsmooth_terms(self.model):
            raise Incompatible(
                f"no interval: {NO_ERRORS}; an interval with Bootstrap({self.method.name!r}) is that of the estimator"
            )
        words = reported(self.model, self.method, s)
        if words["kind"] == "none":
            raise Incompatible(f"no interval: {words['definition']}")
        if np.isnan(self._estimated.error).any():
            raise NotConverged(f"no interval: there are no standard errors ({'; '.join(s.notes) or s.status.value})")

    @cached_property
    def _estimated(self) -> Estimated:
        return reported_estimate(self.model, self.solution)

    def words(self, kind: str, given: GivenCovariance | None = None) -> dict[str, Any]:
        """What an interval of this kind rests on."""
        if kind in WALD:
            own = reported(self.model, self.method, self.solution)["kind"]
            return {"covariance": own if given is None else given.words.get("kind", "given")}
        if kind in STATISTICS and not self.model.flat:
            return {"of": "the log posterior: priors count"}
        if kind in REPLICATED and isinstance(self.method, Bootstrap):
            of = {"bootstrap": self.method.kind, "ends": self._replicated(kind), "replicates": self.method.reps}
            return of | {"failed": int(self.solution.stats["failed"])}
        return {}

    # ---- coefficients ----------------------------------------------------------------------------------------------

    def ends(self, prob: float, kind: str, given: GivenCovariance | None = None) -> tuple[Array, Array]:
        """Lower and upper ends, each (p,) or (p, outcomes)."""
        s, shape = self.solution, self._estimated.beta.shape
        if kind in STATISTICS:
            lower, upper = inverted(self.model, s, kind, quantile(prob, None))
        elif kind in REPLICATED:
            estimate = self._estimated.beta.reshape(shape[0], -1)
            lower, upper = of_replicates(self._replicates(), self._replicated(kind), estimate, prob)
        elif self.method.target == "mode" or s.known_marginals:
            lower, upper = self._symmetric(prob, kind, given)
        elif s.marginals is not None:
            lower, upper = of_coefficients(s.marginals, prob, kind)
        else:
            assert s.draws is not None
            beta = reported_coefficients(self.model, s.draws["beta"])
            ends = equal_tail if kind == "eti" else highest_density
            lower, upper = ends(beta.reshape(-1, *shape), prob)
        return lower.reshape(shape), upper.reshape(shape)

    def _symmetric(self, prob: float, kind: str, given: GivenCovariance | None) -> tuple[Array, Array]:
        own = self._estimated
        df = self.solution.df if given is None else given.words.get("df")
        if kind == "t" and df is None:
            whose = f"the {given.words.get('kind', 'given')} covariance" if given is not None else self.method.name
            raise Incompatible(f"{whose} has no degrees of freedom here, so no t interval; use kind='wald'")
        error = own.error if given is None else Estimated(own.beta, given.scale).error
        half = quantile(prob, None if kind == "wald" else df) * error
        return own.beta - half, own.beta + half

    def _replicates(self) -> Mapping[str, Array]:
        if self.solution.replicates is None:
            raise Incompatible(
                "this fit has no replicates, so no bootstrap interval: fit with Bootstrap(method), such as "
                f"pr.fit(model, pr.Bootstrap({self.method.name!r}))"
            )
        return self.solution.replicates

    def _replicated(self, kind: str) -> str:
        """Which ends of the replicates are meant."""
        return self.method.interval if kind == "bootstrap" and isinstance(self.method, Bootstrap) else kind

    # ---- nuisance parameters ---------------------------------------------------------------------------------------

    def of_aux(self, name: str, prob: float, kind: str | None) -> tuple[float, float]:
        """Ends for a positive parameter that was estimated. DataError for another name."""
        s, kind = self.solution, self.kind(kind)
        if name not in s.aux and name not in s.hyper:
            known = ", ".join([*s.aux, *s.hyper])
            raise DataError(f"{name!r} was not estimated; auxiliary parameters that were: {known or 'none'}")
        if (exact := self._known(name)) is not None:
            return exact.highest_density(prob) if kind == "hdi" else exact.equal_tail(prob)
        if s.draws is not None:
            ends = highest_density if kind == "hdi" else equal_tail
            lower, upper = ends(s.draws[name].ravel(), prob)
            return float(lower), float(upper)
        if kind in STATISTICS:
            return inverted_aux(self.model, s, kind, name, quantile(prob, None))
        if kind in REPLICATED:
            return of_positive_replicates(self._replicates(), self._replicated(kind), name, s.aux[name], prob)
        if s.df is not None and s.df > 0 and kind != "wald":
            return sigma_from_rss(s.stats["rss"], s.df, prob)
        return positive_interval(s.aux[name], s.aux_sd[name], prob) if s.aux[name] > 0 else (np.nan, np.nan)

    def _known(self, name: str) -> Marginal | None:
        """The posterior of sigma, where it is known: by quadrature, or with sigma^2 inverse gamma (df / 2, df s^2 / 2)."""
        s = self.solution
        if name != self.model.likelihood.noise_scale or s.draws is None:
            return None
        if s.marginals is not None:
            return OnNodes(s.marginals["weight"], s.marginals["log_sigma"])
        if "sigma2_scale" in s.stats and s.df is not None:
            return RootInverseGamma(s.df / 2, s.stats["sigma2_scale"] * s.df / 2)
        return None
