"""Heavy-tailed noise: a regression that is robust to outliers."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from math import exp
from typing import Any, Self

import numpy as np
from numpy import log, log1p  # of numbers and arrays

from probreg.arguments.scalars import Positive
from probreg.compiled.density import CompiledDensity, StandardStudent
from probreg.likelihoods.base import (
    LIKELIHOODS,
    Array,
    AuxValues,
    PymcVariable,
    Start,
    ValueGradHessian,
)
from probreg.likelihoods.location_scale import (
    LocationScaleLikelihood,
    density_of_noise,
    settings_of_shape,
)
from probreg.likelihoods.log_gamma import rising_squares, rising_sums
from probreg.likelihoods.tails import symmetric_interval
from probreg.special import LOG_2PI, log_student_constant, polygamma


def _standard_student(r: float, t: Array) -> tuple[float, float]:
    # log f = constant - (nu + 1)/2 log(1 + r^2 / nu), g = -d log f / dr = (nu + 1) r / (nu + r^2).
    nu = t[2]
    return (
        -0.5 * (nu + 1.0) * log1p(r * r / nu),
        (nu + 1.0) * r / (nu + r * r),
    )


# replaced by the likelihood's constants
degrees: Any = None
log_peak: Any = None


def _upper_tail(x: float) -> tuple[float, float]:
    """log P(T > x) and f(x) / P(T > x), x >= 0, by the series of the incomplete beta function from 0 or from infinity."""
    square = x * x
    f = exp(log_peak - 0.5 * (degrees + 1.0) * log1p(square / degrees))
    is_far = x > 3.0 or square > 0.5 * degrees
    share = (degrees if is_far else square) / (degrees + square)
    divisor = 0.5 * degrees + 1.0 if is_far else 1.5
    factor = 0.5 * (degrees + 1.0)
    term = 1.0
    total = 1.0
    while term > 1e-17 * total:
        term *= share * factor / divisor
        total += term
        factor += 1.0
        divisor += 1.0
    tail = x * f * total / degrees if is_far else 0.5 - x * f * total
    return log(tail), f / tail


_DENSITY = density_of_noise(_standard_student, settings_of_shape)
_evaluate_row: Any = _DENSITY.row


def _evaluate_row_with_nu(
    y: float, eta: float, t: Array, slopes: Array
) -> tuple[float, float]:
    # with t[3] = x (psi(x + 1/2) - psi(x)), x = nu / 2: d log f / d log nu = t[3] - x log(1 + r^2 / nu) + (r g - 1) / 2
    log_p, slope, over_scale = _evaluate_row(y, eta, t)
    slopes[0] = over_scale
    slopes[1] = t[3] + t[2] / (t[2] + 1.0) * (log_p - t[1]) + 0.5 * over_scale
    return log_p, slope


def _log_peak(nu: Any) -> tuple[Any, Any]:
    """log f(0) and x (psi(x + 1/2) - psi(x)), x = nu / 2; this minus 1/2 is the slope of log f(0) over log nu."""
    # log f(0) = log Gamma(x + 1/2) - log Gamma(x) - (log x + log 2 pi) / 2
    sums, ones = rising_sums(0.5, 0.5 * nu)
    return sums - 0.5 * LOG_2PI, ones


def _settings_with_nu(values: Any, constants: Any) -> tuple[Any, Any, Any, Any]:
    peak, ones = _log_peak(values[1])
    return values[0], peak - log(values[0]), values[1], ones


@LIKELIHOODS.register
@dataclass(frozen=True)
class StudentT(StandardStudent, LocationScaleLikelihood):
    """Heavy-tailed noise, y = eta + sigma t with t Student-t on nu degrees of freedom.

    sigma is a scale; the standard deviation is sigma sqrt(nu / (nu - 2)) for nu > 2. The log-likelihood is not
    concave in eta, so that Newton's method may find a local maximum.

    With `nu=None` the degrees of freedom are a nuisance parameter with a proper prior, by default `priors.Gamma(2, 0.1)` (Juárez & Steel
    2010); `aux={"nu": ...}` states another one. A mode maximises the likelihood times this prior over log nu. It is a local maximum,
    because the density has no bound as sigma goes to 0 at small nu; a search that ends there is an error. A formula for "log nu"
    gives nu a linear predictor.

    Parameters
    ----------
    nu : float or None
        Degrees of freedom, positive; None to estimate them.

    References
    ----------
    Juárez & Steel 2010; Lange, Little & Taylor 1989.

    Examples
    --------
    >>> float(StudentT(nu=1.0).log_prob(np.array(0.0), np.array([0.0]), sigma=1.0).round(6))
    -1.14473
    >>> StudentT(nu=None).nuisance
    ('sigma', 'nu')
    """

    nu: Positive | None = 4.0

    name = "student"
    wider = "take fewer degrees of freedom nu"
    centre = "centre"
    in_pymc = "StudentT", "sigma"
    compiled_density = _DENSITY

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nu is None:
            vars(self).update(
                nuisance=("sigma", "nu"),
                default_aux={"nu": "gamma(2, 0.1)"},
                wider="",
                compiled_density=CompiledDensity(
                    _evaluate_row_with_nu, settings=_settings_with_nu
                ),
            )

    def describe(self, response: str) -> str:
        shape = "nu" if self.nu is None else f"{self.nu:g}"
        return f"the centre of {response}, with Student-t noise ({shape} degrees of freedom) of scale sigma"

    def at_shape(self, aux: AuxValues) -> Self:
        if self.nu is not None:
            return self
        known = copy(self)
        vars(known)["nu"] = np.asarray(aux["nu"])
        return known

    def initial_eta(self, y: Array) -> Start:
        # The quartiles of a normal lie 1.35 standard deviations apart.
        spread = np.subtract(*np.quantile(y, [0.75, 0.25])) / 1.35
        sigma = float(spread) or float(np.std(y)) or 1.0
        return y[:, None], dict(zip(self.nuisance, (sigma, 4.0)))

    @property
    def compiled_interval(self) -> Callable[..., Any]:
        return symmetric_interval(_upper_tail, degrees=self.nu, log_peak=self.log_peak)

    @property
    def standard_variance(self) -> Any:
        nu: Any = self.nu
        with np.errstate(divide="ignore"):
            return np.divide(nu, np.maximum(nu - 2.0, 0.0))

    @property
    def standard_information(self) -> Any:
        # E[h] = (nu + 1) / (nu + 3)   (Lange, Little & Taylor 1989).
        nu: Any = self.nu
        return (nu + 1.0) / (nu + 3.0)

    @property
    def log_peak(self) -> Any:
        # accurate at any nu of an array
        is_array = isinstance(self.nu, np.ndarray)
        return _log_peak(self.nu)[0] if is_array else super().log_peak

    def symbolic_tails(self, y: Any, mu: Any, **aux: Any) -> tuple[Any, Any]:
        import pymc as pm

        noise = pm.StudentT.dist(nu=np.float64(self.nu), mu=0.0, sigma=1.0)
        r = (y - mu) / aux["sigma"]
        return pm.logcdf(noise, r), pm.logcdf(noise, -r)

    def joint_information(self, eta: Array, **aux: Any) -> Array:
        # Lange, Little & Taylor 1989, appendix A, over log nu
        nu: Any = aux.get("nu", self.nu)
        bend = 0.25 * (polygamma(1, 0.5 * nu) - polygamma(1, 0.5 * nu + 0.5))
        bend = bend - (nu + 5.0) / (2.0 * nu * (nu + 1.0) * (nu + 3.0))
        J = np.zeros((*eta.shape[:-1], 3, 3))
        J[..., 0, 0] = self.information(eta, **aux)[..., 0, 0]
        J[..., 1, 1] = 2.0 * nu / (nu + 3.0)
        J[..., 1, 2] = J[..., 2, 1] = -2.0 * nu / ((nu + 1.0) * (nu + 3.0))
        J[..., 2, 2] = nu**2 * bend
        k = 1 + len(self.nuisance)
        return J[..., :k, :k]

    def value_grad_hessian(self, y: Array, eta: Array, **aux: Any) -> ValueGradHessian:
        local = super().value_grad_hessian(y, eta, **aux)
        if self.nu is not None:
            return local
        # over u = log nu, with x = nu / 2: d log f / du = x (psi(x + 1/2) - psi(x)) - x log(1 + r^2 / nu) + (r g - 1) / 2 and
        # dg/du = nu r (r^2 - 1) / (nu + r^2)^2; d log p is g d eta / sigma + (r g - 1) d log sigma
        nu = aux["nu"]
        r = self.residual(y, eta, aux)
        d = nu + r * r
        g_slope = nu * r * (r * r - 1.0) / d**2
        slope = _log_peak(nu)[1] - 0.5 * nu * np.log1p(r * r / nu)
        bend = slope - rising_squares(0.5, 0.5 * nu)  # type: ignore[arg-type]
        bend = bend + 0.5 * r * (nu * r / d + g_slope)
        H = np.pad(local.curvature, ((0, 0), (0, 1), (0, 1)))
        H[:, 2] = -np.stack([g_slope / aux["sigma"], r * g_slope, bend], -1)
        H[:, :, 2] = H[:, 2]
        gradient = [local.gradient, slope + 0.5 * local.gradient[:, 1]]
        return ValueGradHessian(local.log_prob, np.column_stack(gradient), H)

    @property
    def constants(self) -> tuple[float, ...]:  # type: ignore[override]
        if self.nu is None:
            return ()
        return self.nu, log_student_constant(self.nu)

    def pymc(self, eta: Any, **aux: Any) -> PymcVariable:
        kind, parameters = super().pymc(eta, **aux)
        # PyTensor takes a Python number such as 4.0 in single precision
        nu = aux["nu"] if self.nu is None else np.float64(self.nu)
        return kind, {"nu": nu, **parameters}
