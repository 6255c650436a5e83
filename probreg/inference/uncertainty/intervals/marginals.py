"""Ends of intervals from known marginal distributions: quantiles by root finding, without draws."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.polynomial import Legendre
from numpy.polynomial.legendre import leggauss, legvander
from numpy.typing import ArrayLike
from scipy.special import gammaincc, gammainccinv, gammaincinv, gammaln, ndtr

from probreg.inference.uncertainty.intervals.arithmetic import check_prob

Array = np.ndarray
_GRID = 33  # points that bracket a quantile


class Marginal(ABC):
    """The distribution of one number; functions return arrays of the shape of their argument."""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """Ends that contain all but about 1e-16 of the probability."""

    @abstractmethod
    def cdf(self, x: Array) -> Array: ...

    @abstractmethod
    def density(self, x: Array) -> Array: ...

    @property
    def _points(self) -> Array:
        """Points over the support that bracket quantiles."""
        return np.linspace(*self.support, _GRID)

    @property
    def _unit(self) -> float:
        """The largest absolute value of the support, as the unit of tolerances."""
        return float(np.abs(self.support).max())

    @cached_property
    def _grid(self) -> tuple[Array, Array]:
        x = self._points
        return x, np.maximum.accumulate(self.cdf(x))

    def quantile(self, share: ArrayLike) -> Array:
        """Return x with cdf(x) = share, to a few units of the last digit, by Newton's method with bisection."""
        share = np.asarray(share, dtype=float)
        (x, F), unit = self._grid, self._unit
        i = np.clip(np.searchsorted(F, share), 1, len(x) - 1)
        low = x[i - 1]
        high = x[i]
        x_now = (low + high) / 2
        for _ in range(100):  # about 10 steps are needed
            excess = self.cdf(x_now) - share
            low = np.where(excess < 0, x_now, low)
            high = np.where(excess < 0, high, x_now)
            with np.errstate(all="ignore"):
                step = x_now - excess / self.density(x_now)
            new = np.where((step > low) & (step < high), step, (low + high) / 2)
            done = (
                np.abs(new - x_now) <= 1e-15 * np.maximum(np.abs(x_now), unit)
            ).all()
            x_now = new
            if done:
                break
        return x_now

    def ends(self, prob: float, kind: str) -> tuple[float, float]:
        """The ends of an interval of a kind, "hdi" or "eti"."""
        if kind == "hdi":
            return self.highest_density(prob)
        return self.equal_tail(prob)

    def equal_tail(self, prob: float) -> tuple[float, float]:
        """The (1 - prob)/2 and (1 + prob)/2 quantiles."""
        tail = (1 - check_prob(prob)) / 2
        lower, upper = self.quantile([tail, 1 - tail])
        return float(lower), float(upper)

    def highest_density(self, prob: float) -> tuple[float, float]:
        """Return the shortest interval of probability prob: its ends have equal
        density, except at an end of the support."""
        # grid over the probability below an interval, to find the shortest one
        n_cuts = 40
        check_prob(prob)

        def ends(below: ArrayLike) -> Array:
            return self.quantile(np.add.outer([0.0, prob], below))

        def rise(
            below: float,
        ) -> (
            float
        ):  # the sign of the derivative of the width over `below`, 1/f(high) - 1/f(low)
            low, high = self.density(ends(below))
            return float(low - high)

        cuts = np.linspace(0, 1 - prob, n_cuts + 2)
        cuts[[0, -1]] += 1e-12, -1e-12
        low, high = ends(cuts)
        k = int(np.clip(np.argmin(high - low), 1, n_cuts))
        lowest = cuts[k - 1]
        highest = cuts[k + 1]
        if rise(lowest) >= 0:
            below = lowest
        elif rise(highest) <= 0:
            below = highest
        else:
            below = scipy.optimize.brentq(rise, lowest, highest, xtol=1e-15)
        lower, upper = ends(below)
        return float(lower), float(upper)


@dataclass(frozen=True, eq=False)
class NormalMixture(Marginal):
    """sum_k weight_k N(mean_k, sd_k^2).

    >>> round(NormalMixture(np.ones(1), np.zeros(1), np.ones(1)).equal_tail(0.95)[1], 6)
    1.959964
    """

    weight: Array  # (K,), sum 1
    mean: Array
    sd: Array

    @property
    def support(self) -> tuple[float, float]:
        held = self.weight > 1e-18
        mean = self.mean[held]
        reach = 9.0 * self.sd[held]
        return float((mean - reach).min()), float((mean + reach).max())

    @property
    def _points(self) -> Array:
        # Tails can be far longer than the centre: x = c + s sinh(t) at equidistant t.
        low, high = ((end - self._middle) / self._unit for end in self.support)
        return self._middle + self._unit * np.sinh(
            np.linspace(np.arcsinh(low), np.arcsinh(high), _GRID)
        )

    @property
    def _middle(self) -> float:
        return self._median(self.mean)

    @cached_property
    def _unit(self) -> float:
        return self._median(self.sd)

    def _median(self, values: Array) -> float:
        """Median of values by node, with the weights of the nodes."""
        order = np.argsort(values)
        return float(
            values[order][
                np.searchsorted(np.cumsum(self.weight[order]), 0.5 * self.weight.sum())
            ]
        )

    def cdf(self, x: Array) -> Array:
        return np.asarray(ndtr(self._standard(x)) @ self.weight)

    def density(self, x: Array) -> Array:
        return np.asarray(
            np.exp(-0.5 * self._standard(x) ** 2)
            @ (self.weight / (self.sd * np.sqrt(2 * np.pi)))
        )

    def _standard(self, x: Array) -> Array:
        return (np.asarray(x)[..., None] - self.mean) / self.sd


def above_zero(weight: Array, z: Array) -> Array:
    """Return P(x > 0) of normal mixtures with z_k = mean_k / sd_k (K, ...).

    It is sum_k w_k Phi(z_k), or 1 - sum_k w_k Phi(-z_k) above one half, so that
    rounding of the weights never exceeds 1.

    >>> above_zero(np.full(3, 1.0 / 3.0 + 1e-15), np.array([9.0, 9.0, 9.0])), above_zero(np.ones(1), np.array([-1.0])).round(4)
    (array(1.), np.float64(0.1587))
    """
    above, below = (weight @ ndtr(v) for v in (z, -z))
    return np.where(above < below, above, 1.0 - below)


@dataclass(frozen=True, eq=False)
class OnNodes(Marginal):
    """A positive number. The density of its log is the polynomial through `weight` at the Gauss-Legendre nodes `log`."""

    weight: Array  # (K,), sum 1, including the weights of the rule
    log: Array  # (K,), rising

    @cached_property
    def _series(self) -> Legendre:
        """The density of the log over its domain."""
        K = len(self.log)
        x, _ = leggauss(K)  # the nodes of the rule are inside (-1, 1)
        half = (self.log[-1] - self.log[0]) / (x[-1] - x[0])
        middle = (self.log[-1] + self.log[0]) / 2
        # Legendre coefficients c_n = (n + 1/2) sum_k weight_k P_n(x_k)
        c = (np.arange(K) + 0.5) * (self.weight @ legvander(x, K - 1)) / half
        return Legendre(c, (middle - half, middle + half))

    @cached_property
    def _integral(self) -> Legendre:
        return self._series.integ(lbnd=self._series.domain[0])

    @property
    def support(self) -> tuple[float, float]:
        low, high = np.exp(self._series.domain)
        return float(low), float(high)

    @property
    def _points(self) -> Array:
        low, high = self._series.domain
        return np.exp(np.linspace(float(low), float(high), _GRID))

    def cdf(self, x: Array) -> Array:
        return self._integral(self._clipped_log(x))

    def density(self, x: Array) -> Array:
        return self._series(self._clipped_log(x)) / x

    def _clipped_log(self, x: Array) -> Array:
        return np.clip(np.log(x), *self._series.domain)


@dataclass(frozen=True, eq=False)
class RootInverseGamma(Marginal):
    """v with v^2 ~ InverseGamma(a, b): the sigma of a conjugate posterior.

    >>> round(RootInverseGamma(5.0, 5.0).equal_tail(0.95)[0], 4)  # sqrt(10 / chi2), as classical
    0.6987
    """

    a: float
    b: float

    @property
    def support(self) -> tuple[float, float]:
        return float(self.quantile(1e-16)), float(self.quantile(1 - 1e-15))

    def quantile(self, share: ArrayLike) -> Array:
        return np.sqrt(self.b / gammainccinv(self.a, share))

    def equal_tail(self, prob: float) -> tuple[float, float]:
        tail = (1 - check_prob(prob)) / 2  # 1 - tail rounds to 1 near prob = 1
        return float(self.quantile(tail)), float(
            np.sqrt(self.b / gammaincinv(self.a, tail))
        )

    def cdf(self, x: Array) -> Array:
        return np.asarray(gammaincc(self.a, self.b / np.square(x)))

    def density(self, x: Array) -> Array:
        t = self.b / np.square(x)  # 2 / v t^a e^-t / Gamma(a)
        return 2 / x * np.exp(self.a * np.log(t) - t - gammaln(self.a))


def of_coefficients(
    marginals: Mapping[str, Array], prob: float, kind: str
) -> tuple[Array, Array]:
    """Return lower and upper ends (p,) from mixtures over nodes: weight (K,), mean and sd (K, p)."""
    ends = [
        NormalMixture(marginals["weight"], m, s).ends(prob, kind)
        for m, s in zip(marginals["mean"].T, marginals["sd"].T)
    ]
    lower, upper = np.array(ends).reshape(-1, 2).T
    return lower, upper
