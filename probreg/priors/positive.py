"""Priors on positive nuisance parameters such as the noise scale sigma.

Each prior defines its density over the parameter v. Methods that maximise or approximate use u = log v, where the
default prior p(v) ∝ 1/v is flat; `slopes` are derivatives of log p(v) + u over u, which includes the change of variable.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import (
    Limit,
    NamedSettings,
    NonNegative,
    Positive,
    Real,
)
from probreg.compiled.density import StandardNormal, StandardStudent
from probreg.errors import DataError
from probreg.registry import Registry
from probreg.special import LOG_2PI, betaln, expit, gammaln

AUX_PRIORS: Registry["AuxPrior"] = Registry("prior of a scale")

Array = np.ndarray


class LogTerms(NamedTuple):
    """log p(v) + log v = constant + rise u - bend u^2 / 2 - weight v^power - tail log(1 + v^2 / square), u = log v; compiled code uses it too."""

    rise: float = 0.0
    bend: float = 0.0
    weight: float = 0.0
    power: float = 1.0
    tail: float = 0.0
    square: float = 1.0

    @property
    def at_one(self) -> float:
        """The terms at v = 1, without the constant."""
        return -self.weight - self.tail * float(np.log1p(1.0 / self.square))

    def slopes(self, v: Any) -> tuple[Any, Any]:
        """The first and second derivative over u."""
        with np.errstate(divide="ignore"):  # v = 0 at a limit
            u = np.log(v)
        bend = self.bend * u if self.bend else 0.0
        term = self.power * self.weight * v**self.power
        log_odds = 2.0 * u - np.log(self.square)
        tail = 2.0 * self.tail * expit(log_odds)
        return (
            self.rise - bend - term - tail,
            -self.bend - self.power * term - 2.0 * tail * expit(-log_odds),
        )


class AuxPrior(NamedSettings, ABC):
    """p(v) for v > 0."""

    name: ClassVar[str]
    proper: ClassVar[bool] = True
    # printed with scale=, because other packages have another first argument
    names_scale: ClassVar[bool] = False

    @classmethod
    def from_text(cls, text: str) -> "AuxPrior":
        """Return the prior that a text such as "half_normal(2)" describes."""
        return AUX_PRIORS.parse(text)

    @property
    def support(self) -> tuple[float, float]:
        """The ends of the interval where the density is positive."""
        return 0.0, np.inf

    @property
    def has_bounded_support(self) -> bool:
        """Return whether the support ends inside (0, inf), where a mode may be at an end."""
        low, high = self.support
        return low > 0 or high < np.inf

    @property
    def powers(self) -> tuple[float, float]:
        """Return a and b such that v p(v) falls as v^a towards 0 and as v^-b towards infinity; inf if it falls faster than any power.

        >>> HalfCauchy(2.0).powers, HalfNormal(2.0).powers, Reference().powers
        ((1.0, 1.0), (1.0, inf), (0.0, 0.0))
        """
        low, high = self.support
        a = b = np.inf
        extreme = 1e30  # a value far above every scale in use, and below its inverse
        if low == 0:
            a = _power_at(self, 1.0 / extreme, 1.0)
        if high == np.inf:
            b = _power_at(self, extreme, -1.0)
        return a, b

    @abstractmethod
    def log_prob(self, v: Array) -> Array:
        """log p(v), elementwise; -inf outside the support."""

    @property
    def log_terms(self) -> LogTerms | None:
        """The terms of the density; None if it has others, with its own `slopes`, and Python evaluates it for every draw."""
        return None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if vars(cls).keys() & {"log_prob", "slopes"} and "log_terms" not in vars(cls):
            # the base class's terms are for another density
            cls.log_terms = None  # type: ignore[assignment]

    def slopes(self, v: Any) -> tuple[Any, Any]:
        """First and second derivative of log p(v) + log v over log v."""
        if self.log_terms is None:
            raise NotImplementedError(
                f"{type(self).__name__} needs slopes or log_terms"
            )
        return self.log_terms.slopes(v)

    @abstractmethod
    def sample(self, rng: Generator, size: int) -> Array:
        """Draws (size,). DataError for an improper prior."""

    # the name of PyMC's distribution, and the settings by its parameters, if PyMC has one
    in_pymc: ClassVar[tuple[str, Mapping[str, str]]]

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        """Add the named variable to the open PyMC model, with one entry for each entry of its dims."""
        import pymc as pm

        kind, parameters = self.in_pymc
        values = {k: getattr(self, v) for k, v in parameters.items()}
        return getattr(pm, kind)(name, dims=dims, **values)


def _power_at(prior: AuxPrior, v: float, sign: float) -> float:
    """The slope of log p(v) + log v over log v far out, times `sign`; inf if it still increases between v and v^2."""
    with np.errstate(all="ignore"):
        inner, outer = (
            sign * float(prior.slopes(np.float64(w))[0]) for w in (v, v * v)
        )
    if outer > inner + 0.01 * (1.0 + abs(inner)):
        return np.inf
    return round(outer, 12) + 0.0


def _improper() -> DataError:
    return DataError(
        "this prior of sigma is improper and has no draws; give a proper one, e.g. aux={'sigma': HalfNormal(1.0)}"
    )


@AUX_PRIORS.register
@dataclass(frozen=True)
class Reference(AuxPrior):
    """The reference prior p(v) ∝ 1/v, flat in log v and improper: the default of a noise scale.

    With flat priors of the coefficients, a Gaussian posterior is then the classical t.

    Examples
    --------
    >>> float(Reference().log_prob(np.exp(2.0)))
    -2.0
    """

    name = "reference"
    proper = False

    def log_prob(self, v: Array) -> Array:
        return -np.log(v)

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms()

    def sample(self, rng: Generator, size: int) -> Array:
        raise _improper()

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        import pymc as pm

        v = pm.HalfFlat(name, dims=dims)
        pm.Potential(f"{name}_prior", -pm.math.log(v))
        return v


class HalfPrior(AuxPrior):
    """v = scale |r|, where r has a standard density f that is symmetric about 0."""

    scale: float
    standard_log_prob: Any
    standard_sample: Any

    def log_prob(self, v: Array) -> Array:
        # twice f on v > 0
        log_density = self.standard_log_prob(v / self.scale)
        return np.log(2.0) - np.log(self.scale) + log_density

    def sample(self, rng: Generator, size: int) -> Array:
        return self.scale * np.abs(self.standard_sample(rng, (size,)))


@AUX_PRIORS.register
@dataclass(frozen=True)
class HalfNormal(StandardNormal, HalfPrior):
    """The distribution of |N(0, scale^2)|: p(v) ∝ exp(-v^2 / (2 scale^2)), v > 0.

    Parameters
    ----------
    scale : float
        In units of the parameter.

    Examples
    --------
    >>> float(HalfNormal(2.0).log_prob(np.array(1.0)).round(6))
    -1.043939
    """

    scale: Positive = 1.0
    name = "half_normal"
    in_pymc = "HalfNormal", MappingProxyType({"sigma": "scale"})

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=1.0, weight=0.5 / self.scale**2, power=2.0)


class HalfT(StandardStudent, HalfPrior):
    """v = scale |t|, where t is Student-t on nu degrees of freedom."""

    nu: float

    @property
    def log_terms(self) -> LogTerms:
        square = self.nu * self.scale**2
        return LogTerms(rise=1.0, tail=0.5 * (self.nu + 1.0), square=square)


@AUX_PRIORS.register
@dataclass(frozen=True)
class HalfStudentT(HalfT):
    """The half-t prior v = scale |t| with t Student-t on nu degrees of freedom.

    Parameters
    ----------
    scale : float
        Positive, in units of the parameter.
    nu : float
        Degrees of freedom, positive.

    References
    ----------
    Gelman 2006.

    Examples
    --------
    >>> float(HalfStudentT(2.0, nu=1.0).log_prob(np.array(0.0)).round(6))
    -1.14473
    """

    scale: Positive = 1.0
    _: KW_ONLY
    nu: Positive = 3.0
    name = "half_student"
    in_pymc = "HalfStudentT", MappingProxyType({"nu": "nu", "sigma": "scale"})


@AUX_PRIORS.register
@dataclass(frozen=True)
class HalfCauchy(HalfT):
    """The half-Cauchy prior v = scale |Cauchy|, the half-t with one degree of freedom.

    Parameters
    ----------
    scale : float
        Positive, in units of the parameter.

    Examples
    --------
    >>> float(HalfCauchy(2.0).log_prob(np.array(0.0)).round(6))
    -1.14473
    """

    scale: Positive = 1.0
    name = "half_cauchy"
    nu = 1.0
    in_pymc = "HalfCauchy", MappingProxyType({"beta": "scale"})


@AUX_PRIORS.register
@dataclass(frozen=True)
class Exponential(AuxPrior):
    """The exponential prior p(v) = exp(-v / scale) / scale; its mean is `scale`.

    Stan and PyMC take the rate, 1 / scale.

    Parameters
    ----------
    scale : float
        Positive, in units of the parameter.

    Examples
    --------
    >>> float(Exponential(2.0).log_prob(np.array(2.0)).round(6))
    -1.693147
    """

    scale: Positive = 1.0
    name = "exponential"
    in_pymc = "Exponential", MappingProxyType({"scale": "scale"})
    names_scale = True

    def log_prob(self, v: Array) -> Array:
        # log p(v) = -v/s - log s
        return -np.asarray(v) / self.scale - np.log(self.scale)

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=1.0, weight=1.0 / self.scale)

    def sample(self, rng: Generator, size: int) -> Array:
        return rng.exponential(self.scale, size)


@AUX_PRIORS.register
@dataclass(frozen=True)
class Gamma(AuxPrior):
    """The gamma prior p(v) = rate^shape v^(shape - 1) exp(-rate v) / Gamma(shape); its mean is shape / rate.

    Parameters
    ----------
    shape : float
        Positive.
    rate : float
        Positive, in inverse units of the parameter, as in Stan and PyMC.

    Examples
    --------
    >>> float(Gamma(2.0, 0.1).log_prob(np.array(10.0)).round(6))
    -3.302585
    """

    shape: Positive = 2.0
    rate: Positive = 1.0
    name = "gamma"
    in_pymc = "Gamma", MappingProxyType({"alpha": "shape", "beta": "rate"})

    def log_prob(self, v: Array) -> Array:
        a, b = self.shape, self.rate
        v = np.asarray(v)
        return a * np.log(b) - gammaln(a) + (a - 1.0) * np.log(v) - b * v

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=self.shape, weight=self.rate)

    def sample(self, rng: Generator, size: int) -> Array:
        return rng.gamma(self.shape, 1.0 / self.rate, size)


@AUX_PRIORS.register
@dataclass(frozen=True)
class Uniform(AuxPrior):
    """The uniform prior, p(v) constant on (low, high); `Uniform()` is p(v) ∝ 1 on (0, inf), improper.

    Parameters
    ----------
    low : float
        Not negative.
    high : float
        Above `low`; inf for none.

    Examples
    --------
    >>> float(Uniform(0.0, 4.0).log_prob(np.array(1.0)).round(6))
    -1.386294
    """

    low: NonNegative = 0.0
    high: Limit = np.inf
    name = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:
            raise DataError(
                f"a uniform prior of a scale needs 0 <= low < high, got ({self.low}, {self.high})"
            )

    @property
    def proper(self) -> bool:  # type: ignore[override]
        return bool(np.isfinite(self.high))

    @property
    def support(self) -> tuple[float, float]:
        return self.low, self.high

    def log_prob(self, v: Array) -> Array:
        height = 0.0
        if self.proper:
            height = -np.log(self.high - self.low)
        return np.where(
            (np.asarray(v) >= self.low) & (np.asarray(v) <= self.high), height, -np.inf
        )

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=1.0)

    def sample(self, rng: Generator, size: int) -> Array:
        if not self.proper:
            raise _improper()
        return rng.uniform(self.low, self.high, size)

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        import pymc as pm

        if self.proper:
            return pm.Uniform(name, self.low, self.high, dims=dims)
        if self.low == 0.0:
            return pm.HalfFlat(name, dims=dims)
        raise DataError(
            f"PyMC has no uniform prior on ({self.low}, inf); give a finite upper bound"
        )


class BetaPrimeDensity(AuxPrior):
    """v^2 = scale^2 R / (1 - R) with R ~ Beta(a, b)."""

    a: float
    b: float
    scale: float

    def log_prob(self, v: Array) -> Array:
        # w = (v/s)^2 ~ BetaPrime(a, b): p(v) = p(w) dw/dv, dw/dv = 2 w / v.
        log_w = 2.0 * np.log(np.asarray(v, dtype=float) / self.scale)
        tail = (self.a + self.b) * np.logaddexp(0.0, log_w)
        return np.log(2.0) - np.log(v) + self.a * log_w - tail - betaln(self.a, self.b)

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=2.0 * self.a, tail=self.a + self.b, square=self.scale**2)


@AUX_PRIORS.register
@dataclass(frozen=True)
class InverseGamma(AuxPrior):
    """The prior v^2 ~ InverseGamma(shape a, scale b), conjugate for a variance and stated for v = sigma.

    log p(v) = log 2 + a log b - log Gamma(a) - (2 a + 1) log v - b / v^2.

    Parameters
    ----------
    shape : float
        a, positive.
    scale : float
        b, positive, in squared units of v.

    Examples
    --------
    >>> float(InverseGamma(1.0, 1.0).log_prob(np.array(1.0)).round(6))
    -0.306853
    """

    shape: Positive = 1.0
    scale: Positive = 1.0
    name = "inverse_gamma"

    def log_prob(self, v: Array) -> Array:
        a = self.shape
        b = self.scale
        # p(v) = p(v^2) 2 v: the Jacobian of the variance.
        return (
            np.log(2.0)
            + a * np.log(b)
            - gammaln(a)
            - (2 * a + 1) * np.log(v)
            - b / np.square(v)
        )

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=-2.0 * self.shape, weight=self.scale, power=-2.0)

    def sample(self, rng: Generator, size: int) -> Array:
        # v^2 = b / G with G ~ Gamma(a, 1).
        return np.sqrt(self.scale / rng.gamma(self.shape, 1.0, size))

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        import pymc as pm

        variance = pm.InverseGamma(
            f"{name}_squared", alpha=self.shape, beta=self.scale, dims=dims
        )
        return pm.Deterministic(name, pm.math.sqrt(variance), dims=dims)


@AUX_PRIORS.register
@dataclass(frozen=True)
class LogNormal(AuxPrior):
    """The log-normal prior log v ~ N(location, scale^2); its median is exp(location).

    Parameters
    ----------
    scale : float
        Standard deviation of log v, positive.
    location : float
        Mean of log v.

    Examples
    --------
    >>> float(LogNormal(1.0).log_prob(np.array(1.0)).round(6))
    -0.918939
    """

    scale: Positive = 1.0
    _: KW_ONLY
    location: Real = 0.0
    name = "log_normal"
    in_pymc = "LogNormal", MappingProxyType({"mu": "location", "sigma": "scale"})
    names_scale = True

    def log_prob(self, v: Array) -> Array:
        u = np.log(v)
        # log p(v) = log N(u; location, scale^2) - u, the Jacobian of u = log v.
        return (
            -0.5 * np.square((u - self.location) / self.scale)
            - u
            - np.log(self.scale)
            - 0.5 * LOG_2PI
        )

    @property
    def log_terms(self) -> LogTerms:
        return LogTerms(rise=self.location / self.scale**2, bend=self.scale**-2)

    def sample(self, rng: Generator, size: int) -> Array:
        return rng.lognormal(self.location, self.scale, size)
