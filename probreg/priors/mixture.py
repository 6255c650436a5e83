"""Priors with unknown parameters: p(beta) is the integral of p(beta | h) p(h) over the hyperparameters h.

The density of the coefficients alone is computed by quadrature, so that such a prior is a prior like any other; samplers
draw the hyperparameters with the coefficients, and `given` is the plain prior at some values of them.
"""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp

from probreg.errors import DataError
from probreg.priors.base import Array, Penalty, Prior
from probreg.priors.positive import AuxPrior

_MOST = 2e6  # numbers held at once by the quadrature


class Hyper(NamedTuple):
    """The prior of a hyperparameter: one value for the block, or one of each column and predictor."""

    prior: AuxPrior
    each: bool = False


class HierarchicalPrior(Prior):
    """p(beta) = integral of p(beta | h) p(h) dh, with p(beta | h) a plain prior."""

    @property
    @abstractmethod
    def hyper(self) -> Mapping[str, Hyper]:
        """Hyperparameters by name."""

    @abstractmethod
    def given(self, **values: Any) -> Prior:
        """The prior of the coefficients at these hyperparameters, a number or (q, m) each."""

    def pymc(self, unit: Any = 1.0) -> tuple[Any, dict[str, Any]]:
        raise DataError(
            f"the {self.name} prior has hyperparameters: PyMC takes it through `given`, variable by variable"
        )

    def as_penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        return None


@dataclass(frozen=True)
class Mixture(HierarchicalPrior):
    """beta ~ base with every scale multiplied by tau, tau ~ hyper: a prior whose scale is unknown.

    >>> from probreg.priors import Normal, InverseGamma
    >>> t = Mixture(Normal(1.0), InverseGamma(2.0, 2.0))  # a Student-t with 4 degrees of freedom
    >>> float(t.log_prob(np.array([[0.0]])).round(9)) == round(float(np.log(0.375)), 9)
    True
    """

    base: Prior
    tau: AuxPrior

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.base.name

    @property
    def sigma_units(self) -> bool:  # type: ignore[override]
        return self.base.sigma_units

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return self.tau.proper

    @property
    def size(self) -> int | None:
        return self.base.size

    @property
    def hyper(self) -> Mapping[str, Hyper]:
        return {"scale": Hyper(self.tau)}

    def given(self, **values: Any) -> Prior:
        return self.base.times(float(values["scale"]))

    def times(self, factor: float) -> Prior:
        return Mixture(self.base.times(factor), self.tau)

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        """By the trapezoidal rule over log tau, whose error for these analytic integrands is below rounding."""
        q, m = beta.shape[-2:]
        step = min(0.1, 0.35 / np.sqrt(q * m))
        u = np.arange(-46.0, 46.0, step)
        v = np.exp(u)
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            weight = self.tau.log_prob(v) + u + np.log(step)
            live = weight > -800.0
            v, weight = v[live], weight[live]
            unit = np.asarray(unit, dtype=float)
            lead = np.broadcast_shapes(beta.shape[:-2], unit.shape)
            total = np.full(lead, -np.inf)
            k = max(1, int(_MOST / max(1, beta.size)))
            for i in range(0, len(v), k):
                part = self.base.log_prob(beta[None], v[i : i + k].reshape(-1, *[1] * len(lead)) * unit)
                part = np.where(np.isnan(part), -np.inf, part) + weight[i : i + k].reshape(-1, *[1] * len(lead))
                total = np.logaddexp(total, logsumexp(part, axis=0))
        return total

    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], unit: float = 1.0) -> Array:
        if not self.proper:
            raise DataError(
                f"the scale of this {self.name} prior has an improper prior, so there are no draws; give a proper one"
            )
        return self.base.sample(rng, shape, unit * float(self.tau.sample(rng, 1)[0]))
