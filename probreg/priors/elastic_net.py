"""The priors of the lasso and of the elastic net: a Laplace density, and its product with a normal one."""

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Share
from probreg.compiled.density import CompiledDensity, Row
from probreg.errors import DataError
from probreg.priors.base import (
    PRIORS,
    Array,
    Generator,
    PerColumn,
    Scale,
    Shape,
)
from probreg.priors.location_scale import (
    ProximalLocationScale,
    remove_least_shift,
)
from probreg.priors.penalties import read_penalty
from probreg.special import erfcx, log_ndtr, ndtri_exp

_ROOT_HALF_PI = np.sqrt(np.pi / 2.0)


def _evaluate_row(y: float, r: float, t: Array) -> Row:
    # log p(r) = -ratio |r| - (1 - ratio) r^2 / 2 - log of the mass, t = (ratio, log of the mass)
    square = (1.0 - t[0]) * r
    absolute = math.copysign(t[0], r)
    return -r * (absolute + 0.5 * square) - t[1], -absolute - square, 0.0


class AbsoluteAndSquare(ProximalLocationScale):
    """log p(r) = -ratio |r| - (1 - ratio) r^2 / 2 + constant: the prior of the lasso (ratio 1) and of the elastic net."""

    ratio: float
    convex = True
    compiled_density = CompiledDensity(_evaluate_row)

    @property
    def settings(self) -> tuple[float, ...]:
        return self.ratio, self._log_mass

    @property
    def _log_mass(self) -> float:
        """log of the integral of exp(-ratio |r| - (1 - ratio) r^2 / 2), by the scaled complementary error function."""
        if self.ratio == 1.0:
            return float(np.log(2.0))
        tau = (1.0 - self.ratio) ** -0.5
        return float(
            np.log(2.0 * tau * _ROOT_HALF_PI * erfcx(self.ratio * tau / np.sqrt(2.0)))
        )

    def standard_log_prob(self, r: Array) -> Array:
        # log p(r) = -ratio |r| - (1 - ratio) r^2 / 2 - log of the mass
        return -self.ratio * abs(r) - 0.5 * (1.0 - self.ratio) * r * r - self._log_mass

    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        if self.ratio == 1.0:
            return rng.laplace(size=shape)
        sign = rng.choice([-1.0, 1.0], shape)
        # |r| is a normal variable with mean -ratio tau^2 and sd tau, truncated at zero: inverse distribution function
        tau = (1.0 - self.ratio) ** -0.5
        log_beyond = log_ndtr(-self.ratio * tau) - rng.exponential(size=shape)
        return sign * (-tau * ndtri_exp(log_beyond) - self.ratio * tau**2)

    @property
    def standard_kinks(self) -> tuple[float, float, float]:
        return self.ratio, 1.0 - self.ratio, 1.0

    def standard_tail(self, r: float) -> float:
        if self.ratio == 1.0:
            return 0.5 * np.exp(-r)
        tau = (1.0 - self.ratio) ** -0.5
        shift = self.ratio * tau
        return 0.5 * np.exp(log_ndtr(-r / tau - shift) - log_ndtr(-shift))

    def remove_common_shift(self, scores: Array) -> Array:
        return remove_least_shift(
            scores, self.ratio / self.scales, (1.0 - self.ratio) / self.scales**2
        )


@PRIORS.register
@dataclass(frozen=True)
class ElasticNet(AbsoluteAndSquare):
    """The elastic-net prior log p(beta_j) = -ratio |r_j| - (1 - ratio) r_j^2 / 2 + constant.

    r_j = (beta_j - location_j) / scale_j. `ratio` 1 is Laplace(scale), 0 is Normal(scale). Its mode is the elastic net
    with l1 weight ratio / scale and l2 weight (1 - ratio) / scale^2 on the negative log density.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    ratio : float
        Share of the absolute values, from 0 to 1.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    References
    ----------
    Zou & Hastie 2005.

    Examples
    --------
    >>> float(ElasticNet(2.0, ratio=0.0).log_prob(np.array([[1.0]])).round(6))
    -1.737086
    """

    scale: Scale = 1.0
    ratio: Share = 0.5
    _: KW_ONLY
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "elastic_net"

    @classmethod
    def from_elastic_net(cls, *, of: str = "sklearn", **settings: Any) -> "ElasticNet":
        """Return the prior with the mode of another package's elastic net: `alpha=`, `l1_ratio=` (sklearn, glum), `L1_wt=`
        (statsmodels), `C=`, `l1_ratio=` (sklearn LogisticRegression), `lam=`, `alpha=` (glmnet, which divides the squared
        term by the sd of y), or `lam1=`, `lam2=` of RSS + lam1 |w|_1 + lam2 |w|^2. The rest as in Laplace.from_lasso.

        >>> ElasticNet.from_elastic_net(alpha=1.0, l1_ratio=0.5, of="sklearn", n=1, sigma=1.0)
        ElasticNet(scale=1.0, ratio=0.5, location=0.0, sigma_units=False, scaled=False)
        """
        return cls(**_kinked_settings(of, settings))


@PRIORS.register
@dataclass(frozen=True)
class Laplace(AbsoluteAndSquare):
    """The double exponential p(beta_j) = exp(-|beta_j - location_j| / scale_j) / (2 scale_j); its mode is the lasso.

    The posterior mode has exact zeros; a posterior mean has none.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    References
    ----------
    Tibshirani 1996.

    Examples
    --------
    >>> float(Laplace(0.5).log_prob(np.array([[1.0]])))
    -2.0
    >>> float(Laplace(0.5).log_prob(np.array([[3.0], [-1.0]])).round(9))  # -|3| / 0.5 - |-1| / 0.5
    -8.0
    """

    scale: Scale = 1.0
    _: KW_ONLY
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "laplace"
    ratio = 1.0
    in_pymc = "Laplace", "mu", "b"

    @classmethod
    def from_lasso(cls, *, of: str = "sklearn", **settings: Any) -> "Laplace":
        """Return the prior with the mode of another package's lasso: `alpha=` (sklearn Lasso, glum, statsmodels), `C=` (sklearn
        LogisticRegression with l1_ratio=1), `lam=` (glmnet, or of="rss": RSS + lam |w|_1).

        The values that depend on the data (`n=`, and `sigma=` for Gaussian noise, if it does not cancel) are arguments, or are read from
        `model=`; `likelihood=` and glmnet's `standardize=True` as in Normal.from_ridge.

        >>> Laplace.from_lasso(alpha=0.25, of="sklearn", n=8, sigma=2.0).scale
        2.0
        """
        settings = _kinked_settings(of, settings)
        if settings.pop("ratio") < 1.0:
            raise DataError(
                "this penalty has a part in w^2: see ElasticNet.from_elastic_net"
            )
        return cls(**settings)


def _kinked_settings(of: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the scale, ratio and units of an elastic net with the mode of another package's penalty."""
    read = read_penalty(of=of, ridge=False, **settings)
    sigma = read.sigma() if read.relative else 1.0
    l1 = read.l1 / sigma**2
    l2 = read.l2 / sigma**2
    # ratio / scale = l1 and (1 - ratio) / scale^2 = l2: the positive root of l2 s^2 + l1 s = 1
    scale = 2.0 / (l1 + np.sqrt(l1**2 + 4.0 * l2))
    in_sigma = read.standardized and read.relative
    return {
        "scale": read.stretch * scale / (sigma if in_sigma else 1.0),
        "ratio": float(min(l1 * scale, 1.0)) if read.l2 else 1.0,
        "sigma_units": in_sigma,
        "scaled": read.standardized,
    }
