"""The prior of one coefficient by itself: how probable it is that it is smaller than so much, without draws."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import scipy
from numpy.polynomial.legendre import leggauss
from scipy.special import ndtr

from probreg.priors.base import Array, GaussianPrior, Prior
from probreg.priors.latent import HierarchicalPrior
from probreg.priors.location_scale import LocationScale
from probreg.priors.mixture import log_rule
from probreg.priors.positive import AuxPrior

_MOST = (
    10**6
)  # nodes: of sigma, and of the hyperparameters of a prior, all combinations
_LEAST, _LAST, _WIDTH = (
    -60.0,
    120.0,
    0.25,
)  # of log r, in panels of 16 Gauss-Legendre nodes


class Standard(Protocol):
    """The distribution function of a standard density, symmetric about 0."""

    def __call__(self, r: Array) -> Array: ...


@dataclass(frozen=True, eq=False)
class ByPanels:
    """1/2 + the integral of exp(standard_log_prob) from 0 to r, over log r, where cusps and long tails are smooth."""

    prior: LocationScale

    @cached_property
    def _panel_sums(self) -> tuple[Array, Array]:
        edges = np.arange(_LEAST, _LAST + _WIDTH / 2, _WIDTH)
        return edges, np.append(
            0.0, np.cumsum(self._panel_integrals(edges[:-1], edges[1:]))
        )

    def _panel_integrals(self, a: Array, b: Array) -> Array:
        # The integral of f(r) dr = f(exp t) exp t dt over [a, b] of t = log r, by 16 nodes.
        x, w = leggauss(16)
        half = (b - a)[..., None] / 2
        t = a[..., None] + half * (1 + x)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            value = np.exp(self.prior.standard_log_prob(np.exp(t)) + t)
        return (np.nan_to_num(value, nan=0.0, posinf=0.0) * half) @ w

    @property
    def whole(self) -> bool:
        """Whether the density has mass 1."""
        return abs(2 * self._panel_sums[1][-1] - 1) < 1e-9

    def __call__(self, r: Array) -> Array:
        edges, below = self._panel_sums
        with np.errstate(divide="ignore"):
            t = np.clip(np.log(np.abs(r)), _LEAST, _LAST)
        # F(r) = 1/2 + sign(r) times the integral of f from 0 to |r|.
        i = np.minimum(((t - _LEAST) / _WIDTH).astype(int), len(edges) - 2)
        return 0.5 + np.sign(r) * (below[i] + self._panel_integrals(edges[i], t))


@dataclass(frozen=True, eq=False)
class OfCoefficient:
    """w = location + scale u r, r standard, u one of some nodes with the weights given.

    >>> from probreg.priors import Normal
    >>> round(of_coefficient(Normal(2.0), 0, 1).size_quantile(0.95), 6)  # 1.959964 sd
    3.919928
    """

    standard: Standard
    location: float
    scale: float
    unit: Array  # (U,)
    weight: Array  # (U,), sum 1

    def within(self, x: float) -> float:
        """P(|w| <= x) = sum_u weight_u [F((x - location) / (scale u)) - F((-x - location) / (scale u))]."""
        s = self.scale * self.unit
        with np.errstate(over="ignore"):
            inside = self.standard((x - self.location) / s) - self.standard(
                (-x - self.location) / s
            )
        return float(self.weight @ inside)

    def size_quantile(self, share: float) -> float:
        """The x with P(|w| <= x) = share."""
        low = high = np.log(abs(self.location) + self.scale)
        while self.within(float(np.exp(low))) > share:
            low -= 2.0
        while self.within(float(np.exp(high))) < share:
            high += 2.0
        return float(
            np.exp(
                scipy.optimize.brentq(
                    lambda t: self.within(float(np.exp(t))) - share,
                    low,
                    high,
                    xtol=1e-13,
                    rtol=1e-14,
                )
            )
        )


def of_coefficient(
    prior: Prior, j: int, q: int, sigma: float | AuxPrior = 1.0
) -> OfCoefficient | None:
    """The prior of entry j of a block of q columns and one predictor; None if it needs draws.

    `sigma` multiplies the scales of a prior in units of the noise; one that is unknown is integrated over, as are the
    hyperparameters of a hierarchical prior, on nodes of their logs.
    """
    unit = np.ones(1)
    log_weight = np.zeros(1)
    if prior.sigma_units:
        if not isinstance(sigma, AuxPrior):
            unit = np.array([sigma])
        else:
            unit, log_weight = log_rule(sigma, 1)
    if (
        isinstance(prior, HierarchicalPrior)
        and (column_prior := prior.prior_of_column(j)) is not None
    ):
        prior, j, q = column_prior, 0, 1
    base = prior
    if isinstance(prior, HierarchicalPrior):
        base = prior.base
        rules = {name: log_rule(h.prior, 1) for name, h in prior.hyper.items()}
        if np.prod([len(v) for v, _ in rules.values()], initial=len(unit)) > _MOST:
            return None
        for name, grid in zip(
            rules, np.meshgrid(*(v for v, _ in rules.values()), indexing="ij")
        ):
            rules[name] = grid, rules[name][1]
        spread = np.ravel(prior.spread(**{name: v for name, (v, _) in rules.items()}))
        over = np.zeros(1)
        for _, w in rules.values():
            over = np.add.outer(over, w).ravel()
        # p(w) = sum over nodes (sigma, h) of weight times the density of scale sigma spread(h).
        unit = np.multiply.outer(unit, spread).ravel()
        log_weight = np.add.outer(log_weight, over).ravel()
    weight = np.exp(log_weight - log_weight.max())
    standard_form = _standard_form(base, j, q)
    if standard_form is None:
        return None
    return OfCoefficient(*standard_form, unit, weight / weight.sum())


def _standard_form(
    prior: Prior, j: int, q: int
) -> tuple[Standard, float, float] | None:
    """Standard distribution, location and scale of entry j."""
    if isinstance(prior, GaussianPrior):
        # Entry j of N(b, P^-1): b_j and ((P^-1)_jj)^(1/2).
        return (
            ndtr,
            float(prior.center(q)[j]),
            float(np.sqrt(np.linalg.inv(prior.precision(q))[j, j])),
        )
    if not isinstance(prior, LocationScale):
        return None
    standard = ByPanels(prior)
    location, scale = (
        float(prior.on_columns(v, q)[j, 0]) for v in (prior.location, prior.scales)
    )
    if standard.whole:
        return (standard, location, scale)
    return None
