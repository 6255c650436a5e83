"""Priors with unknown parameters: p(beta) is the integral of p(beta | h) p(h) over the hyperparameters h.

Samplers draw the hyperparameters with the coefficients, and `given` is the plain prior at some values of them. Among them are
latent normal priors, beta ~ N(b, C D(h)^2 C') with D diagonal and C C' known; their evidence p(y | h) is known or approximated.
Their hyperparameters are positive numbers, and a search moves their logs. With u = D^-1 C^-1 (beta - b) ~ N(0, I) a scale of zero
is a number and no infinite precision: a column that adds nothing.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from probreg.errors import DataError
from probreg.priors.base import (
    Array,
    GaussianPrior,
    Generator,
    Prior,
    PymcVariable,
)
from probreg.priors.positive import AuxPrior


class Hyper(NamedTuple):
    """The prior of a hyperparameter: one value for the block, or one of each column and predictor."""

    prior: AuxPrior
    each: bool = False


class HierarchicalPrior(Prior):
    """p(beta) = integral of p(beta | h) p(h) dh, with p(beta | h) a plain prior: `base`, its scales times `spread(h)`."""

    base: Prior
    # several linear predictors have the same values of the hyperparameters
    shared: bool = False

    @property
    def in_columns(self) -> tuple[str, ...]:
        """Hyperparameters that move the columns themselves, by name; none where the prior alone has them."""
        return ()

    @property
    @abstractmethod
    def hyper(self) -> Mapping[str, Hyper]:
        """Hyperparameters by name."""

    @property
    def hyper_labels(self) -> Mapping[str, str]:
        """The labels of hyperparameters with full names; others get a label from their columns."""
        return {}

    def natural(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the reported values (numbers, arrays or symbols) at these hyperparameters, by the same names."""
        return dict(values)

    def internal(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return hyperparameters (numbers or arrays) from reported values: the inverse of `natural`."""
        return dict(values)

    def log_prob_of_hyper(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return log densities of the reported values, elementwise, by the names of the hyperparameters."""
        return {
            name: h.prior.log_prob(np.asarray(values[name]))
            for name, h in self.hyper.items()
        }

    @abstractmethod
    def spread(self, **values: Any) -> Any:
        """Return the factor of the scales of `base` at these hyperparameters, numbers or symbols: one factor for all, or one of
        each column, which is then the last axis."""

    @abstractmethod
    def given(self, **values: Any) -> Prior:
        """The prior of the coefficients of one predictor at these hyperparameters, a number or (q,) each."""

    def root_given(self, **values: Any) -> Array | None:
        """A (q, q) with beta = A u, u of the prior `base`, at these hyperparameters; None where `given` is a prior of beta itself."""
        return None

    def log_prob_given(
        self, beta: Array, values: Mapping[str, Array], unit: Array | float = 1.0
    ) -> Array:
        """log p(beta | h) of blocks (..., q, m) at hyperparameters (...,); of priors that are not `known` without them."""
        raise DataError(
            f"the {self.name} prior has a density without its hyperparameters: `log_prob`"
        )

    def draw_hyper(self, rng: Generator, size: int) -> dict[str, Array]:
        """Return draws (size,) of the hyperparameters from their priors. DataError where one is improper."""
        if not self.proper:
            raise DataError(
                f"the hyperparameters of this {self.name} prior have an improper prior, so there are no draws; give proper ones"
            )
        return {name: h.prior.sample(rng, size) for name, h in self.hyper.items()}

    def size_at(self, values: Mapping[str, float]) -> float | None:
        """Return the standard deviation of the function of these columns if hyperparameters give it, else None."""
        return None

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        raise DataError(
            f"the {self.name} prior has hyperparameters: PyMC takes it through `given`, variable by variable"
        )


class LatentPrior(HierarchicalPrior):
    """beta ~ N(b, C D(h)^2 C') with positive hyperparameters h, by name in `hyper`."""

    scalar: bool = False  # D is its one hyperparameter times the unit matrix

    @property
    def normal(self) -> bool:
        """Its base is normal, so that the evidence of h is known."""
        return isinstance(self.base, GaussianPrior)

    @property
    @abstractmethod
    def scales(self) -> tuple[bool, ...]:
        """Of each hyperparameter: whether it multiplies D, so that the prior is a point mass at b where it is 0."""

    @property
    def may_vanish(self) -> tuple[bool, ...]:
        """Return for each hyperparameter whether a part of the prior vanishes at 0, so that a search may end there."""
        return self.scales

    @abstractmethod
    def log_scales(self, logs: Array, q: int) -> Array:
        """log D (S, q) at logs (S, d) of the hyperparameters, in the order of `hyper`."""

    @abstractmethod
    def log_scale_slopes(self, logs: Array, q: int) -> Array:
        """The derivatives (q, d) of log D over the logs (d,)."""

    def log_scale_curvature(self, logs: Array, q: int) -> Array:
        """The second derivatives (q, d, d) of log D over the logs (d,)."""
        return np.zeros((q, len(logs), len(logs)))

    def root(self, logs: Array) -> tuple[Array, Array] | None:
        """Lambda (K, K) with its slopes (d, K, K) where beta ~ N(0, I kron Lambda Lambda') repeats; None if D is enough."""
        return None

    def starts(self) -> tuple[tuple[float, ...], ...]:
        """Values of those hyperparameters that are no scales, at which a search begins; one empty tuple where there are none."""
        return ((),)


class ConditionalPrior(LatentPrior):
    """Standard normal coefficients of a root or of scales: their density is known given the hyperparameters alone."""

    known = False

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return all(h.prior.proper for h in self.hyper.values())

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        raise DataError(
            f"the {self.name} prior has no density without its hyperparameters: fit it, or hold them"
        )
