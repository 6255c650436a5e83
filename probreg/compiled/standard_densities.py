"""Standard densities that noise and priors have in common: log f, its slopes, distribution function and draws."""

from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.special import LOG_2PI, log_student_constant, stdtr

Array = np.ndarray


class StandardNormal:
    """log f(r) = -r^2 / 2 - log(2 pi) / 2."""

    def standard_log_prob(self, r: Array) -> Array:
        return -0.5 * r * r - 0.5 * LOG_2PI

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """g = -d log f / dr and h = -d2 log f / dr2."""
        return r, np.ones_like(r)

    def standard_sample(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_normal(shape)


class StandardStudent:
    """Student's t on nu degrees of freedom: log f(r) = log f(0) - (nu + 1) / 2 log(1 + r^2 / nu)."""

    nu: Any

    @property
    def log_peak(self) -> Any:
        """log f(0)."""
        return log_student_constant(self.nu)

    def standard_log_prob(self, r: Array) -> Array:
        return self.log_peak - (self.nu + 1) / 2 * np.log1p(r * r / self.nu)

    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """g = (nu + 1) r / (nu + r^2) and h = dg/dr, negative beyond r^2 = nu."""
        nu = self.nu
        d = nu + r * r
        return (nu + 1) * r / d, (nu + 1) / d * (nu - r * r) / d

    def standard_cdf(self, r: Any) -> Any:
        return stdtr(self.nu, r)

    def standard_sample(self, rng: Generator, shape: tuple[int, ...]) -> Array:
        return rng.standard_t(self.nu, shape)
