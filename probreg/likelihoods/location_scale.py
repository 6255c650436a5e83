"""A number, or its logarithm, with noise of one scale: y = eta + sigma e or log y = eta + sigma e, where e has a standard density."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy import log  # of numbers and arrays
from numpy.random import Generator

from probreg.compiled.density import CompiledDensity, Row, with_functions
from probreg.errors import Incompatible
from probreg.likelihoods.base import (
    Array,
    AuxValues,
    IntervalLikelihood,
    LineAndSlopes,
    MeanByLink,
    PymcVariable,
    Shape,
    Start,
    ValueGradHessian,
    symmetric_pairs,
)
from probreg.likelihoods.links import IDENTITY, LOG, Link
from probreg.likelihoods.response import (
    check_variation,
    finite_response,
    positive_response,
)
from probreg.likelihoods.tails import (
    TAILS,
    log_change,
    symbolic_log_p,
    symbolic_log_q,
)

# replaced by functions of a family: `density_of_noise`
standard: Any = None
transform: Any = None


def same_number(y: float) -> float:
    """v(y) = y, for a response without a transformation."""
    return y


def _evaluate_row(y: float, eta: float, t: Array) -> Row:
    r = (transform(y) - eta) / t[0]
    log_f, g = standard(r, t)
    return log_f + t[1], g / t[0], r * g - 1.0


def settings_of_scale(values: Any, constants: Any) -> tuple[Any, Any]:
    """t = (s, -log s) of a compiled density."""
    return values[0], -log(values[0])


def settings_of_shape(values: Any, constants: Any) -> tuple[Any, Any, Any]:
    """t = (s, log f(0) - log s, shape), of the constants (shape, log f(0))."""
    return values[0], constants[1] - log(values[0]), constants[0]


def density_of_noise(
    standard: Callable[..., Any],
    settings: Callable[..., Any] | None = settings_of_scale,
    transform: Callable[..., Any] = same_number,
) -> CompiledDensity:
    """Return the compiled density of `StandardDensity`, from standard(r, t) -> (log f, g), g = -d log f / dr.

    t is (s, -log s), or with a shape (s, log f(0) - log s, shape) and log f(r) - log f(0) in place of log f.
    """
    parts = {"standard": standard, "transform": transform}
    return CompiledDensity(with_functions(_evaluate_row, parts), settings=settings)


class AdditiveNoise(MeanByLink):
    """A number y = eta + noise. The density goes to 0 on both sides, so that no maximum over the coefficients is at infinity."""

    may_diverge = False
    support = "real"
    link = IDENTITY
    # PyMC's distribution and its name of the scale, if PyMC has one
    in_pymc: ClassVar[tuple[str, str] | None] = None

    def check_response(self, values: Array) -> None:
        check_variation(finite_response(values, type(self).__name__, copy=False))

    def encode(self, values: Array) -> Array:
        return finite_response(values, type(self).__name__)

    def initial_eta(self, y: Array) -> Start:
        return y[:, None], dict.fromkeys(
            self.nuisance, float(np.abs(y - np.median(y)).mean()) or 1.0
        )

    @property
    def mirror(self) -> "AdditiveNoise":
        """Return the likelihood of -y with the linear predictor -eta, the same likelihood if the noise is symmetric."""
        return self

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        """Return PyMC's own distribution or a variable with the density `symbolic_log_prob` and the draws of `sample`."""
        if self.in_pymc is not None:
            import pymc as pm

            kind, scale = self.in_pymc
            return getattr(pm, kind), {"mu": eta[:, 0], scale: aux[self.nuisance[0]]}

        return self.custom_density(eta, aux)


class StandardDensity(IntervalLikelihood):
    """log p(y) = log f(r) - log s + log v'(y) with r = (v(y) - eta) / s, a standard density f, and v(y) = y or log y.

    A family defines log f with its slopes, its distribution function and draws. s is the nuisance parameter, or 1 without one.
    """

    # the link with the distribution function of f as its inverse, if there is one; other families define `standard_cdf`
    link_of_noise: ClassVar[Link | None] = None

    @abstractmethod
    def standard_log_prob(self, r: Array) -> Array:
        """log f(r)."""

    @abstractmethod
    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """g = -d log f / d r and h = -d2 log f / d r2."""

    def standard_cdf(self, r: Array) -> Array:
        """The integral of f up to r."""
        assert self.link_of_noise is not None
        return self.link_of_noise.inverse(r)

    @abstractmethod
    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        """Draws of f."""

    def standard_log_cdf(self, r: Array) -> Array:
        """The log of the integral of f up to r."""
        if self.link_of_noise is not None:
            return TAILS[self.link_of_noise].log_p(r)
        with np.errstate(divide="ignore"):
            return np.log(self.standard_cdf(r))

    def standard_log_survival(self, r: Array) -> Array:
        """The log of the integral of f beyond r."""
        if self.link_of_noise is not None:
            return TAILS[self.link_of_noise].log_q(r)
        return self.standard_log_cdf(-r)  # a symmetric f

    def symbolic_tails(self, y: Any, mu: Any, **aux: Any) -> tuple[Any, Any]:
        """log P(Y <= y) and log P(Y > y) as symbols, y with finite v(y)."""
        import pytensor.tensor as pt

        link = self.link_of_noise
        if link is None:
            raise Incompatible(
                f"PyMC has no distribution function of the {self.name} noise: use 'nuts', 'laplace' or a mode"
            )
        v = pt.log(y) if self.support == "positive" else y
        r = (v - mu) / self.scale(aux)
        return symbolic_log_p(link, r), symbolic_log_q(link, r)

    @property
    def compiled_interval(self) -> Callable[..., Any] | None:
        """log(F(b) - F(a)) and its slopes in compiled code, F the distribution function of f."""
        link = self.link_of_noise
        return None if link is None else TAILS[link].compiled_interval

    @property
    @abstractmethod
    def standard_information(self) -> float:
        """E[g^2], the Fisher information about the location at a scale of 1."""

    def at_shape(self, aux: AuxValues) -> Self:
        """Return the family with the shape of f among the nuisance parameters; itself if f has no unknown shape."""
        return self

    def transform(self, y: Array) -> Array:
        """v(y)."""
        return y

    def log_transform_slope(self, y: Array) -> Array | float:
        """log v'(y)."""
        return 0.0

    def scale(self, aux: AuxValues) -> Any:
        """s from the nuisance parameters; 1 for a family without one."""
        return aux[self.nuisance[0]] if self.nuisance else 1.0

    def residual(self, y: Array, eta: Array, aux: AuxValues) -> Array:
        """r = (v(y) - eta) / s."""
        return (self.transform(y) - eta[..., 0]) / self.scale(aux)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        f = self.at_shape(aux)
        log_density = f.standard_log_prob(self.residual(y, eta, aux))
        return log_density - np.log(self.scale(aux)) + self.log_transform_slope(y)

    def sample(self, rng: Generator, eta: Array, **aux: Any) -> Array:
        shape = np.broadcast_shapes(eta.shape[:-1], *map(np.shape, aux.values()))
        noise = self.at_shape(aux).standard_sample(rng, shape)
        return self.link.inverse(eta[..., 0] + self.scale(aux) * noise)

    def cdf(self, y: Array, eta: Array, **aux: Any) -> Array:
        return self.at_shape(aux).standard_cdf(self.residual(y, eta, aux))

    def score(self, y: Array, eta: Array, **aux: Any) -> Array:
        g = self.at_shape(aux).standard_slopes(self.residual(y, eta, aux))[0]
        return (g / self.scale(aux))[..., None]

    def information(self, eta: Array, **aux: Any) -> Array:
        value = self.at_shape(aux).standard_information / np.square(self.scale(aux))
        return (np.zeros(eta.shape[:-1]) + value)[..., None, None]

    def joint_information(self, eta: Array, **aux: Any) -> Array:
        from scipy.integrate import quad

        def integrand(r: Array, power: int) -> Array:
            with np.errstate(all="ignore"):  # far in a tail
                g, _ = self.standard_slopes(r)
                value = np.exp(self.standard_log_prob(r)) * g**2 * r**power
            return np.nan_to_num(value)

        # the scores are g / s and r g - 1, with E[g] = 0 and E[r g] = 1
        cross, square = (quad(integrand, -np.inf, np.inf, (k,))[0] for k in (1, 2))
        W = self.information(eta, **aux)[..., 0, 0]
        return symmetric_pairs(
            W, 0.0 * W + cross / self.scale(aux), 0.0 * W + square - 1.0
        )

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        # d/d eta = g / s, d/d log s = r g - 1; minus the second derivatives are h / s^2 over eta,
        # (g + r h) / s over eta and log s, r g + r^2 h over log s
        r = self.residual(y, eta, aux)
        s = self.scale(aux)
        g, h = self.at_shape(aux).standard_slopes(r)
        curvature = symmetric_pairs(h / s**2, (g + r * h) / s, r * g + r * r * h)
        k = 1 + len(self.nuisance)
        return ValueGradHessian(
            self.log_prob(y, eta, **aux),
            np.stack([g / s, r * g - 1.0], -1)[:, :k],
            curvature[:, :k, :k],
        )

    def log_interval(self, lower: Array, upper: Array, eta: Array, **aux: Any) -> Array:
        f = self.at_shape(aux)
        a = self.residual(lower, eta, aux)
        b = self.residual(upper, eta, aux)
        return log_change(f.standard_log_cdf, f.standard_log_survival, b, a)

    def expand_interval(
        self, lower: Array, upper: Array, eta: Array, **aux: Any
    ) -> ValueGradHessian:
        log_p = self.log_interval(lower, upper, eta, **aux)
        s = self.scale(aux)
        k = 1 + len(self.nuisance)
        # of both ends, (2, n)
        r = np.stack([self.residual(end, eta, aux) for end in (lower, upper)])
        finite = np.isfinite(r)
        r = np.where(finite, r, 0.0)
        # of F(b) - F(a) over P: d F(r) = f dr and d2 F(r) = f (d2 r - g dr dr'), dr = (-1/s, -r) over (eta, log s)
        with np.errstate(under="ignore", over="ignore"):
            density = np.where(finite, np.exp(self.standard_log_prob(r) - log_p), 0.0)
        density[0] *= -1.0
        g = self.standard_slopes(r)[0]
        dr = np.stack(np.broadcast_arrays(-1.0 / s, -r), -1)
        gradient = (density[..., None] * dr).sum(0)
        bend = symmetric_pairs(np.zeros_like(r), 1.0 / s + 0.0 * r, r)
        bend -= g[..., None, None] * dr[..., :, None] * dr[..., None, :]
        second = (density[..., None, None] * bend).sum(0)
        curvature = gradient[:, :, None] * gradient[:, None, :] - second
        return ValueGradHessian(log_p, gradient[:, :k], curvature[:, :k, :k])


class LocationScaleLikelihood(AdditiveNoise, StandardDensity):
    """p(y | eta, sigma) = f((y - eta) / sigma) / sigma with a standard density f that is symmetric about 0.

    A family also defines the variance of f.
    """

    nuisance = ("sigma",)
    noise_scale = "sigma"
    is_orthogonal = True  # f is symmetric
    # 2 sigma^2 (log f(0) - log f(r / sigma)) = r^2 for normal noise: squared units of y
    dispersion_power: float = 2.0

    @property
    @abstractmethod
    def standard_variance(self) -> float:
        """The variance of f, inf if there is none."""

    def symbolic_log_prob(self, y: Any, mu: Any, *aux: Any) -> Any:
        import pytensor.tensor as pt

        return self.standard_log_prob((y - mu) / aux[0]) - pt.log(aux[0])

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        return np.broadcast_to(
            self.at_shape(aux).standard_variance * np.square(aux["sigma"]),
            eta.shape[:-1],
        )


class LogLocationScaleLikelihood(StandardDensity):
    """log y = eta + s e with y > 0, where e has a standard density f: a model of accelerated failure times.

    exp(coefficient) multiplies every quantile of y. A family also defines `log_moment`, for its mean, and its PyMC
    distribution. f need not be symmetric, but must have its maximum at 0, E[h] = E[g^2] and E[g] = 0.

    References
    ----------
    Kalbfleisch & Prentice 2002, section 2.2.
    """

    may_diverge = False
    support = "positive"
    link = LOG

    def check_response(self, values: Array) -> None:
        check_variation(np.log(self.encode(values)))

    def encode(self, values: Array) -> Array:
        return positive_response(
            values,
            type(self).__name__,
            "correct these rows or leave them out; log y has no value there",
        )

    def transform(self, y: Array) -> Array:
        with np.errstate(divide="ignore", invalid="ignore"):  # of y <= 0
            return np.log(np.maximum(y, 0.0))

    def log_transform_slope(self, y: Array) -> Array:
        return -self.transform(y)

    def log_prob(self, y: Array, eta: Array, **aux: Any) -> Array:
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            log_density = super().log_prob(y, eta, **aux)
        return np.where(np.asarray(y) > 0.0, log_density, -np.inf)

    def initial_eta(self, y: Array) -> Start:
        logs = np.log(y)
        return logs[:, None], dict.fromkeys(self.nuisance, float(np.std(logs)) or 1.0)

    def saturated_predictor(self, y: Array, **aux: Any) -> Array:
        return self.transform(y)[..., None]

    def log_moment(self, s: Any) -> tuple[Any, Any]:
        """log E exp(s e) and its slope over log s; 0 and 0 for a family with predictions of its median."""
        return np.zeros_like(s), np.zeros_like(s)

    def mean(self, eta: Array, **aux: Any) -> Array:
        return self.link.inverse(eta[..., 0] + self.log_moment(self.scale(aux))[0])

    def link_mean_and_slope(self, eta: Array, **aux: Any) -> LineAndSlopes:
        s = np.asarray(self.scale(aux))[..., None]
        log_moment, slope = self.log_moment(s)
        line = eta + log_moment
        over_aux = np.zeros((*line.shape, len(self.nuisance)))
        over_aux[...] = slope[..., None]
        return line, np.ones((*line.shape, 1)), over_aux

    def response_variance(self, eta: Array, **aux: Any) -> Array:
        # E exp(2 s e) / E(exp(s e))^2 - 1 = expm1 of the difference of logs, times mean^2
        s = self.scale(aux)
        spread = np.expm1(self.log_moment(2.0 * s)[0] - 2.0 * self.log_moment(s)[0])
        return np.square(self.mean(eta, **aux)) * spread

    def base_measure(self, y: Array) -> Array:
        return self.log_transform_slope(y)
