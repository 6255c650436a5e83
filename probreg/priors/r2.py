"""A prior of R², the share of the variance that the columns explain, in place of priors of single coefficients."""

from dataclasses import KW_ONLY, dataclass
from typing import Annotated, Any

import numpy as np

from probreg.arguments.scalars import Number, Positive
from probreg.priors.base import (
    PRIORS,
    Array,
    DataDependentPrior,
    Generator,
    Prior,
    PriorData,
)
from probreg.priors.g_prior import unit_information_normal
from probreg.priors.mixture import ScaleMixture
from probreg.priors.positive import AUX_PRIORS, BetaPrimeDensity

# Beyond these limits the scale of a signal ranges over more powers of ten than floats do, and samplers do not converge.
Shape = Annotated[float, Number(0.01, 1e4, (0.01, 1e4), "a number from 0.01 to 10000")]


@AUX_PRIORS.register
@dataclass(frozen=True)
class BetaPrime(BetaPrimeDensity):
    """The scale v of a signal that explains the share R of a variance: v^2 = scale^2 R / (1 - R) with R ~ Beta(a, b).

    With w = (v / scale)^2, log p(v) = log 2 - log v + a log w - (a + b) log(1 + w) - log B(a, b).

    Parameters
    ----------
    a : float
        A parameter of the Beta distribution, positive.
    b : float
        A parameter of the Beta distribution, positive.
    scale : float
        Positive, in units of the parameter.

    Examples
    --------
    >>> float(BetaPrime(1.0, 1.0).log_prob(np.array(1.0)).round(6))  # 2 v / (1 + v^2)^2
    -0.693147
    """

    a: Shape = 1.0
    b: Shape = 1.0
    _: KW_ONLY
    scale: Positive = 1.0
    name = "beta_prime"

    def sample(self, rng: Generator, size: int) -> Array:
        return self.scale * np.sqrt(
            rng.gamma(self.a, size=size) / rng.gamma(self.b, size=size)
        )

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        import pymc as pm

        share = pm.Beta(f"{name}_share", self.a, self.b, dims=dims)
        return pm.Deterministic(
            name, self.scale * pm.math.sqrt(share / (1.0 - share)), dims=dims
        )


@PRIORS.register
@dataclass(frozen=True)
class R2(DataDependentPrior):
    """The prior R² ~ Beta(a, b) of the expected share of the variance that q centred columns explain.

    beta has the directions of a g-prior: beta | R² ~ N(0, g (sigma^2 / i) (X'WX)^-1) with g / n = R² / (1 - R²) / q.
    The variance of X beta over the rows is then sigma^2 R² / (1 - R²) in expectation. Without a noise scale sigma^2 / i
    is the variance of the linear predictor's pseudo-observation, 1 / i of one observation at eta = 0 (4 for a
    Bernoulli). a = b = 1 is uniform in R².

    Parameters
    ----------
    a : float
        A parameter of the Beta distribution, positive.
    b : float
        A parameter of the Beta distribution, positive.

    References
    ----------
    Gelman, Hill & Vehtari 2020, section 12.7; Zhang et al. 2022 (R2-D2).

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> model = Model.from_arrays([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"], prior=R2(2.0, 3.0))
    >>> model.joint.blocks[-1].prior.tau
    BetaPrime(a=2.0, b=3.0, scale=1.0)
    """

    a: Shape = 1.0
    b: Shape = 1.0

    name = "r2"

    def prepare(self, rows: PriorData) -> Prior:
        # tau^2 = g/n = R^2/(1 - R^2)/q, and R^2/(1 - R^2) ~ BetaPrime(a, b): a scale of q^(-1/2).
        hyper = BetaPrime(self.a, self.b, scale=len(rows.columns) ** -0.5)
        return ScaleMixture(unit_information_normal(rows, self.name), hyper)
