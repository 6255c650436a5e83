"""The exponential-power prior: bridge regression, which includes the lasso and ridge regression."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np

from probreg.arguments.scalars import Flag, Number
from probreg.compiled.density import CompiledDensity, Row
from probreg.priors.base import (
    PRIORS,
    Array,
    Generator,
    PerColumn,
    Scale,
    Shape,
)
from probreg.priors.location_scale import ProximalLocationScale
from probreg.special import gammaincc, gammaln

Power = Annotated[float, Number(0.0, 2.0, (2.0,), "a number above 0 and at most 2")]


def _evaluate_row(y: float, r: float, t: Array) -> Row:
    # log p(r) = -|r|^q - constant, of slope -q |r|^q / r, t = (q, constant)
    power = abs(r) ** t[0]
    slope = 0.0
    if r != 0.0:
        slope = -t[0] * power / r
    return -power - t[1], slope, 0.0


@PRIORS.register
@dataclass(frozen=True)
class ExponentialPower(ProximalLocationScale):
    """The bridge prior p(beta_j) = exp(-|(beta_j - location_j) / scale_j|^q) / (2 scale_j Gamma(1 + 1/q)), 0 < q <= 2.

    q = 1 is Laplace(scale), q = 2 is Normal(scale / sqrt(2)). Below 1 the density has a cusp, the penalty is not convex,
    and there can be several modes.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    q : float
        The power, above 0 and at most 2.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    References
    ----------
    Frank & Friedman 1993.

    Examples
    --------
    >>> float(ExponentialPower(0.5, q=1.0).log_prob(np.array([[1.0]])))
    -2.0
    """

    scale: Scale = 1.0
    q: Power = 1.0
    _: KW_ONLY
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "exponential_power"
    compiled_density = CompiledDensity(_evaluate_row)

    @property
    def settings(self) -> tuple[float, ...]:
        return self.q, np.log(2.0) + gammaln(1.0 + 1.0 / self.q)

    @property
    def convex(self) -> bool:
        return self.q >= 1

    def standard_log_prob(self, r: Array) -> Array:
        # log p(r) = -|r|^q - log 2 - log Gamma(1 + 1/q)
        return -(abs(r) ** self.q) - np.log(2.0) - gammaln(1.0 + 1.0 / self.q)

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        # |r|^q ~ Gamma(1/q, 1).
        return rng.choice([-1.0, 1.0], shape) * rng.gamma(1.0 / self.q, size=shape) ** (
            1.0 / self.q
        )

    @property
    def standard_kinks(self) -> tuple[float, float, float]:
        if self.q == 2.0:
            return 0.0, 2.0, 1.0
        return 1.0, 0.0, self.q

    def standard_tail(self, r: float) -> float:
        # |r|^q ~ Gamma(1/q, 1).
        return 0.5 * gammaincc(1.0 / self.q, r**self.q)

    def uniforms(self, name: str, dims: tuple[str, ...]) -> Any:
        """r = v^(1/q) u in the open PyMC model, with u ~ Uniform(-1, 1) and v ~ Gamma(1 + 1/q): a scale mixture of uniforms. It is
        smooth in (log v, logit u), also at the cusp of the density (Walker & Gutiérrez-Peña 1999)."""
        import pymc as pm

        v = pm.Gamma(f"{name}_v", alpha=1.0 + 1.0 / self.q, beta=1.0, dims=dims)
        u = pm.Uniform(f"{name}_u", -1.0, 1.0, dims=dims)
        return v ** (1.0 / self.q) * u

    def penalty_weight(self, q: int, unit: float = 1.0) -> Array | None:
        return np.broadcast_to((unit * self.scales) ** -self.q, q)
