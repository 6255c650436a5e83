"""The base classes of priors with a location and a scale of each entry.

A subclass is a frozen dataclass with the fields of `AffinePrior`, and defines its standard density. The base class adds scales per
column, in units of sigma, on standardised columns, and unknown scales. Entries are independent in a `LocationScale`.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from probreg.arguments.scalars import declared_fields, read_argument
from probreg.compiled.density import CompiledDensity, CustomDensity, forget_inherited
from probreg.errors import DataError
from probreg.priors.base import (
    Array,
    Generator,
    Kinks,
    PerColumn,
    Prior,
    PriorData,
    ProximalPrior,
    PymcVariable,
    Scale,
    Shape,
    SmoothPrior,
    unbound_error,
)
from probreg.priors.positive import AuxPrior


def common_size(*parts: Any) -> int | None:
    """The common number of columns of settings per column."""
    sizes = {len(p) for p in parts if isinstance(p, tuple)}
    if len(sizes) > 1:
        raise DataError(
            f"a prior is stated for different numbers of columns: {sorted(sizes)}"
        )
    return sizes.pop() if sizes else None


# relative, of scores that are sums over the linear predictors
_ROUNDING_OF_SCORES = 64 * np.finfo(float).eps
_DENSITY = frozenset({"standard_log_prob", "standard_slopes", "log_prob", "slopes"})


class AffinePrior(Prior):
    """beta_j = location_j + scale_j r_j, where r has one standard density that is symmetric about 0.

    A subclass is a frozen dataclass with the four fields below. `scaled=True` states the scale for standardised columns
    (and the standardised response, if the likelihood has a noise scale and the prior is not in its units): raw scale =
    scale sd(y) / sd(x_j). If the scale is a prior, the result is a mixture.
    """

    scale: Scale
    location: PerColumn
    sigma_units: bool
    scaled: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        kind = type(self).__name__
        for name, annotation in (("scale", Scale), ("location", PerColumn)):
            # if the subclass does not declare this field
            if name not in declared_fields(type(self)):
                object.__setattr__(
                    self,
                    name,
                    read_argument(f"{kind} {name}", getattr(self, name), annotation),
                )

    @abstractmethod
    def standard_sample(self, rng: Generator, shape: Shape) -> Array:
        """Draws of the standard density, (..., q, m)."""

    @property
    def size(self) -> int | None:
        return common_size(self.scale, self.location)

    @property
    def data_dependent(self) -> bool:
        return self.scaled or isinstance(self.scale, AuxPrior)

    @property
    def scales(self) -> Array:
        """The scale as numbers. DataError if it is relative to rows or unknown."""
        if self.data_dependent:
            raise unbound_error(self)
        return np.asarray(self.scale, dtype=float)

    def prepare(self, rows: PriorData) -> Prior:
        if not self.data_dependent:
            return self
        from probreg.priors.mixture import ScaleMixture

        this: Any = self
        unit: Any = 1.0
        if self.scaled:
            unit = rows.scale_unit(sigma_units=self.sigma_units)
        if isinstance(self.scale, AuxPrior):
            return ScaleMixture(replace(this, scale=unit, scaled=False), self.scale)
        return replace(this, scale=np.asarray(self.scale) * unit, scaled=False)

    def times(self, factor: float) -> Prior:
        this: Any = self
        return replace(this, scale=self.scales * factor)

    def rescale_stated(self, factor: float) -> Prior | None:
        this: Any = self
        if not self.data_dependent:
            return self.times(factor)
        if isinstance(self.scale, AuxPrior):
            return None
        return replace(this, scale=np.asarray(self.scale) * factor)

    def standardise(
        self, beta: Array, unit: Array | float = 1.0
    ) -> tuple[Array, Array]:
        """((beta - location) / (scale unit), log(scale unit)), both with the columns on the last axis: (..., m, q)."""
        s = self.scales * np.asarray(unit)[..., None, None]
        return (np.swapaxes(beta, -1, -2) - np.asarray(self.location)) / s, np.log(s)

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        center, scale = (
            self.on_columns(v, shape[-2]) for v in (self.location, self.scales)
        )
        return center + scale * unit * self.standard_sample(rng, shape)

    @staticmethod
    def on_columns(value: Any, q: int) -> Array:
        """(q, 1) of a number or one number per column."""
        return np.broadcast_to(np.asarray(value, dtype=float), q)[:, None]

    def penalty_weight(self, q: int, unit: float = 1.0) -> Array | None:
        return np.broadcast_to(1.0 / (unit * self.scales), q)


def remove_least_shift(
    scores: Array, l1: Array | float, l2: Array | float = 0.0
) -> Array:
    """Return scores - c with c = argmin_c sum_k l1 |s_k - c| + l2 (s_k - c)^2 / 2, for each column of scores (..., q, K).

    l1 and l2 are numbers or of shape (q,). If c is not unique (l2 = 0 and K even) it is the middle of its interval, as in
    glmnet. Scores that equal c up to rounding become exactly 0.

    >>> remove_least_shift(np.array([[1.0, 2.0, 4.0], [1.0, 1.0, 4.0]]), 1.0, np.array([0.0, 1.0]))
    array([[-1.        ,  0.        ,  2.        ],
           [-0.66666667, -0.66666667,  2.33333333]])
    """
    K = scores.shape[-1]
    l1, l2 = (np.broadcast_to(v, scores.shape[-2])[:, None] for v in (l1, l2))
    # With i scores below c the slope l1 (2 i - K) + l2 K (c - mean) is zero at c_i, and the least point is the median of
    # s_1, ..., s_K, c_0, ..., c_K   (Li & Osher 2009).
    roots = scores.mean(-1, keepdims=True) + l1 * (K - 2 * np.arange(K + 1)) / (
        K * np.where(l2 > 0, l2, 1.0)
    )
    c = np.where(
        l2 > 0,
        np.median(np.concatenate([scores, roots], -1), -1, keepdims=True),
        np.median(scores, -1, keepdims=True),
    )
    shifted = scores - c
    return np.where(
        np.abs(shifted) <= _ROUNDING_OF_SCORES * np.abs(scores).max(-1, keepdims=True),
        0.0,
        shifted,
    )


class LocationScale(AffinePrior):
    """beta_j = location_j + scale_j r_j with r_j independent draws of one standard density, symmetric about 0."""

    # The standard density for a compiler, where it is smooth; a test compares it with standard_log_prob.
    compiled_density: ClassVar[CompiledDensity | None] = None

    # PyMC's distribution with its names of location and scale, if PyMC has one
    in_pymc: ClassVar[tuple[str, str, str] | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        forget_inherited(cls, _DENSITY)

    @property
    def settings(self) -> tuple[float, ...]:
        """The array t of the density."""
        return ()

    def part(self, places: Sequence[int]) -> Prior | None:
        this: Any = self
        scale, location = (
            tuple(v[j] for j in places) if isinstance(v, tuple) else v
            for v in (self.scale, self.location)
        )
        return replace(this, scale=scale, location=location)

    @abstractmethod
    def standard_log_prob(self, r: Array) -> Array:
        """log density of the standardised entry, elementwise."""

    def standard_tail(self, r: float) -> float | None:
        """P(R > r) of the standardised entry at r >= 0; None if there is no formula."""
        return None

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        # log p(beta) = sum_j [log f(r_j) - log s_j], r_j = (beta_j - location_j) / s_j.
        r, log_s = self.standardise(beta, unit)
        return (self.standard_log_prob(r) - log_s).sum((-1, -2))

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        """Return PyMC's own distribution, or a variable with the density `standard_log_prob`, which must then accept PyMC's symbols."""
        import pymc as pm

        if self.in_pymc is not None:
            kind, location, scale = self.in_pymc
            return getattr(pm, kind), {
                location: np.asarray(self.location),
                scale: self.scales * unit,
            }

        def log_prob(value: Any, location: Any, scale: Any) -> Any:
            r = (value - location) / scale
            return self.standard_log_prob(r) - pm.math.log(scale)

        def draw(location: Any, scale: Any, rng: Generator, size: Any) -> Array:
            return location + scale * self.standard_sample(rng, tuple(size))

        return CustomDensity(log_prob, draw), {
            "location": np.asarray(self.location),
            "scale": self.scales * unit,
        }


class SmoothLocationScale(LocationScale, SmoothPrior):
    """A prior with derivatives of the standard density."""

    @abstractmethod
    def standard_slopes(self, r: Array) -> tuple[Array, Array]:
        """First and second derivative of the standard log density, elementwise."""

    def slopes(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        s = self.on_columns(self.scales, len(beta)) * unit
        # d/d beta = f'/f (r) / s, and 1/s^2 for the second derivative.
        first, second = self.standard_slopes(
            (beta - self.on_columns(self.location, len(beta))) / s
        )
        return first / s, second / s**2


class ProximalLocationScale(LocationScale, ProximalPrior):
    """A prior with a standard density that has a kink at 0; modes may be exactly at the location."""

    @property
    @abstractmethod
    def standard_kinks(self) -> tuple[float, float, float]:
        """a, b and e of -log p(r) = a |r|^e + b r^2 / 2 + constant."""

    def kinks(self, q: int) -> Kinks:
        absolute, square, exponent = self.standard_kinks
        # a |r|^e = |a^(1/e) (beta - location) / s|^e
        s = np.broadcast_to(self.scales, q)
        return Kinks(absolute ** (1.0 / exponent) / s, square / s**2, exponent)
