"""The exponential-power prior: bridge regression, from the lasso to ridge and beyond both."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from probreg.errors import DataError
from probreg.priors.base import PRIORS, Array, Penalty, PerColumn, ProximalLocationScale, Scale
from probreg.priors.custom import Custom


@PRIORS.register
@dataclass(frozen=True)
class ExponentialPower(ProximalLocationScale):
    """p(beta_j) = exp(-|(beta_j - location_j) / scale_j|^q) / (2 scale_j Gamma(1 + 1/q)), 0 < q <= 2: bridge regression.

    q = 1 is Laplace(scale), q = 2 is Normal(scale / sqrt(2)); below 1 the density has a cusp, the penalty is not convex
    and a mode is one of several. Source: Frank & Friedman 1993.

    >>> float(ExponentialPower(0.5, q=1.0).log_prob(np.array([[1.0]])))
    -2.0
    """

    scale: Scale = 1.0
    q: float = 1.0
    location: PerColumn = 0.0
    sigma_units: bool = False
    scaled: bool = False

    name = "exponential_power"

    def __post_init__(self) -> None:
        if not 0 < self.q <= 2:
            raise DataError(f"an ExponentialPower prior needs 0 < q <= 2, got q={self.q}")
        self._check()

    @property
    def convex(self) -> bool:
        return self.q >= 1

    def standard_log_prob(self, r: Array) -> Array:
        return -(np.abs(r) ** self.q) - np.log(2.0) - gammaln(1.0 + 1.0 / self.q)

    def standard_sample(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
        return rng.choice([-1.0, 1.0], shape) * rng.gamma(1.0 / self.q, size=shape) ** (1.0 / self.q)

    def standard_prox(self, r: Array, step: Array) -> Array:
        """Zero, or the largest root u of u + step q u^(q-1) = |r|, whichever is lower."""
        size, step = np.broadcast_arrays(np.abs(r).astype(float), np.asarray(step, dtype=float))
        u = _root(size, step, self.q)
        better = 0.5 * (u - size) ** 2 / step + u**self.q < 0.5 * size**2 / step
        return np.sign(r) * np.where((u > 0) & better, u, 0.0)

    def standard_subgradient(self, r: Array) -> tuple[Array, Array]:
        with np.errstate(divide="ignore", invalid="ignore"):
            slope = np.sign(r) * self.q * np.abs(r) ** (self.q - 1.0)
        at_zero = 0.0 if self.q > 1 else 1.0 if self.q == 1 else np.inf
        return np.where(r == 0, -at_zero, slope), np.where(r == 0, at_zero, slope)

    def pymc(self, unit: Any = 1.0) -> tuple[Any, dict[str, Any]]:
        constant = float(np.log(2.0) + gammaln(1.0 + 1.0 / self.q))

        def logp(value: Any, location: Any, scale: Any) -> Any:
            import pymc as pm

            return -(pm.math.abs((value - location) / scale) ** self.q) - constant - pm.math.log(scale)

        def draw(location: Any, scale: Any, rng: np.random.Generator, size: Any) -> Array:
            return location + scale * self.standard_sample(rng, tuple(size))

        return Custom(logp, draw), {"location": np.asarray(self.location), "scale": self.scales * unit}

    def as_penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        near = "|w|" if self.location == 0.0 else "|w - location|"
        return Penalty("bridge", f"{near}^{self.q:g}", np.broadcast_to((unit * self.scales) ** -self.q, q))


def _root(size: Array, step: Array, q: float) -> Array:
    """The largest u >= 0 with u + step q u^(q-1) = size, 0 where there is none: Newton's method from the right, where
    the left side rises (and, for q < 1, is convex), so that no step passes the root; for 1 < q < 2 it is concave, and a
    step is held inside the bracket that the signs seen so far give."""
    if q == 2.0:
        return size / (1.0 + 2.0 * step)
    if q == 1.0:
        return np.maximum(size - step, 0.0)
    # where the left side is least (q < 1) there is the last chance of a root
    turn = (step * q * (1.0 - q)) ** (1.0 / (2.0 - q)) if q < 1 else np.zeros_like(size)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        lowest = turn + step * q * turn ** (q - 1.0) if q < 1 else turn
        exists = size > lowest
        low, high, u = turn.copy(), size.copy(), size.copy()
        for _ in range(200):
            f = u + step * q * u ** (q - 1.0) - size
            low, high = np.where(f < 0, u, low), np.where(f >= 0, u, high)
            new = u - f / (1.0 + step * q * (q - 1.0) * u ** (q - 2.0))
            new = np.where((new > low) & (new < high), new, 0.5 * (low + high))
            done = np.abs(new - u) <= 4e-16 * size
            u = new
            if (done | ~exists).all():
                break
    return np.where(exists, u, 0.0)
