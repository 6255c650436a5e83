"""The log posterior as the sampler evaluates it, in coordinates z that make it nearly round:
theta = (vec beta, log aux) = centre + A z."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.compiled import AffineData, CompiledDensity, log_density_of
from probreg.inference.base import Array
from probreg.inference.sampling.reparameterisation import Reparameterisation, whiten
from probreg.inference.sampling.row_sums import (
    RowArrays,
    Sum,
    check_compiled_density,
    sum_of_moments,
    sum_of_rows,
)
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.priors import (
    BlockPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    Prior,
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)
from probreg.priors.location_scale import LocationScale


def compiled_obstacle(model: Model) -> str | None:
    """Return why this sampler cannot sample this model, or None."""
    likelihood = model.likelihood
    if not likelihood.least_squares:
        if (
            not isinstance(likelihood, DifferentiableLikelihood)
            or likelihood.compiled_density is None
        ):
            return f"the {likelihood.name} likelihood has no compiled density"
        reason = likelihood.compiled_density.unfit
        if reason:
            return f"the density of the {likelihood.name} likelihood cannot be compiled: {reason}"
        if not model.design.n:
            return model.design.rows_absent
    for b in model.joint.blocks:
        prior = b.prior
        columns = model.design.describe_columns(b.columns)
        if isinstance(prior, HierarchicalPrior):
            return f"the scale of {columns} is unknown"
        cusp = isinstance(prior, ProximalPrior) and not prior.convex
        if cusp or not isinstance(prior, SmoothPrior | ProximalPrior | Flat):
            return f"the {prior.name} prior of {columns} has no slopes or subgradients"
        if isinstance(prior, WholePrior):
            return f"the {prior.name} prior needs the information of all rows"
    for a in model.unknown:
        if model.aux_prior(a).has_bounded_support:
            return f"the prior of {a} has bounded support"
    return None


# ---- priors --------------------------------------------------------------------------------------------------------------

# (block (q, m), unit of its scales) -> log p, slopes (q, m), slope over the log of the unit
BlockDensity = Callable[[Array, float], tuple[float, Array, float]]


def density_of_block(prior: Prior, q: int, m: int) -> BlockDensity:
    """Return log p of a block with its slopes; at a kink the middle of the subgradients."""
    if isinstance(prior, GaussianPrior):
        P = prior.precision(q)
        center = prior.center(q)[:, None]
        top = float(prior.log_prob(np.broadcast_to(center, (q, m))))

        def quadratic(block: Array, unit: float) -> tuple[float, Array, float]:
            # log p = top - d'P d / (2 u^2) - q m log u
            d = block - center
            slopes = P.dot(d) / -(unit**2)
            square = -float((d * slopes).sum())
            log_p = top - 0.5 * square - q * m * float(np.log(unit))
            return log_p, slopes, square - q * m

        return quadratic
    location: Any = getattr(prior, "location", 0.0)
    center = np.broadcast_to(np.asarray(location, dtype=float), q)[:, None]

    def value_of(block: Array, unit: float) -> tuple[float, Array, float]:
        if isinstance(prior, SmoothPrior):
            slopes = prior.slopes(block, unit)[0]
        else:
            assert isinstance(prior, ProximalPrior)  # checked in `compiled_obstacle`
            low, high = prior.subgradient(block, unit)
            slopes = -0.5 * (low + high)
        # p is a function of r / u times u^(-q m): d/d log u = -r'g - q m, r = beta - location
        over_unit = -float(((block - center) * slopes).sum()) - q * m
        return float(prior.log_prob(block, unit)), slopes, over_unit

    return value_of


@dataclass(frozen=True, eq=False)
class PriorPart:
    """The prior of a block, with the places of its coefficients."""

    entries: Array  # of vec(beta)
    shape: tuple[int, int]
    relative: bool  # whether its scales are in units of the noise scale
    density: BlockDensity

    @classmethod
    def of(cls, block: BlockPrior, m: int) -> "PriorPart":
        prior = block.prior
        q = len(block.columns)
        width = block.width(m)
        return cls(
            block.entries(m),
            (q, width),
            prior.sigma_units,
            density_of_block(prior, q, width),
        )

    def add(self, theta: Array, unit: float, slopes: Array) -> tuple[float, float]:
        """Add the slopes over theta; return log p and its slope over the log of the unit."""
        block = theta[self.entries].reshape(self.shape)
        value, g, over_unit = self.density(block, unit)
        slopes[self.entries] += g.ravel()
        return value, over_unit


@dataclass(frozen=True, eq=False)
class SampledDensity:
    """z -> log posterior of (beta, aux) with its gradient, as a density of z."""

    model: Model
    at: Reparameterisation
    rows: RowArrays | None  # None for sums by moments

    @classmethod
    def of(cls, model: Model, at: Reparameterisation | None = None) -> "SampledDensity":
        """Create the density, by default in the coordinates of `whiten`."""
        at = at or whiten(model)
        if model.likelihood.least_squares:
            return cls(model, at, None)
        # near a mode, but off its kinks
        check_compiled_density(model, at.centre + 0.1 * at.A.sum(1))
        return cls(model, at, RowArrays.of(model))

    @property
    def size(self) -> int:
        """The length of z."""
        return self.at.A.shape[1]

    @cached_property
    def _likelihood(self) -> Sum:
        if self.rows is None:
            return sum_of_moments(self.model)
        return sum_of_rows(self.model, self.rows)

    @cached_property
    def _parts(self) -> list[PriorPart]:
        return [
            PriorPart.of(b, self.model.shape[1])
            for b in self.model.joint.blocks
            if not isinstance(b.prior, Flat)
        ]

    @cached_property
    def _fixed_aux(self) -> dict[str, float]:
        return self.model.fixed

    def start(self, rng: np.random.Generator) -> Array:
        """Draw a point where a chain may start."""
        if self.at.whitened:
            return rng.standard_normal(self.size)
        return rng.uniform(-1, 1, self.size)

    def log_prob(self, z: Array) -> tuple[float, Array]:
        """The log density and its gradient."""
        model = self.model
        k = model.shape[0] * model.shape[1]
        theta = self.at.centre + self.at.A.dot(z)
        aux = {**self._fixed_aux, **dict(zip(model.unknown, np.exp(theta[k:])))}
        slopes = np.zeros(len(theta))
        value = self._likelihood(theta, aux, slopes)
        # p(v) v of nuisance parameters v, as a density of log v
        for i, name in enumerate(model.unknown, k):
            prior = model.aux_prior(name)
            if not isinstance(prior, Reference):
                v = aux[name]
                slopes[i] += prior.slopes(v)[0]
                value += float(prior.log_prob(np.asarray(v)) + np.log(v))
        noise = model.likelihood.noise(aux)
        for part in self._parts:
            log_p, over_unit = part.add(theta, noise if part.relative else 1.0, slopes)
            value += log_p
            if part.relative and model.noise_unknown:
                slopes[k + model.unknown.index(model.noise_scale)] += over_unit
        return float(value), self.at.A.T.dot(slopes)

    def unfold(self, z: Array) -> dict[str, Array]:
        """`beta` (..., p, m) and every unknown aux of z (..., size)."""
        model = self.model
        p, m = model.shape
        theta = self.at.centre + z @ self.at.A.T
        beta = theta[..., : p * m].reshape(*z.shape[:-1], p, m)
        return {"beta": beta, **dict(zip(model.unknown, np.exp(theta.T[p * m :])))}

    @cached_property
    def target(self) -> "CompiledTarget | None":
        """The same density as one compiled function, if compiled code sums the rows, no
        nuisance parameter is unknown, and priors are quadratic or share one compiled
        density; else None."""
        rows = self.rows
        likelihood = self.model.likelihood
        priors = [b for b in self.model.joint.blocks if not isinstance(b.prior, Flat)]
        others = [b for b in priors if not isinstance(b.prior, GaussianPrior)]
        densities = {_compiled_prior(b) for b in others}
        if (
            rows is None
            or self.model.unknown
            or None in densities
            or len(densities) > 1
        ):
            return None
        assert isinstance(likelihood, DifferentiableLikelihood)  # it has compiled rows
        A = self.at.A
        m = self.model.shape[1]
        unit = float(likelihood.noise(self.model.fixed))
        normal = [PriorPart.of(b, m) for b in priors if b not in others]

        def log_normal(z: Array) -> tuple[float, Array]:
            theta = self.at.centre + A @ z
            slopes = np.zeros(len(theta))
            parts = [
                p.add(theta, unit if p.relative else 1.0, slopes)[0] for p in normal
            ]
            return sum(parts), A.T @ slopes

        # normal priors: log p = top - pull'z - z'Q z / 2
        top, slope = log_normal(np.zeros(self.size))
        Q = np.array([slope - log_normal(e)[1] for e in np.eye(self.size)])
        entries = [np.zeros(0, dtype=np.int64), *(b.entries(m) for b in others)]
        location, scale = [np.zeros(0)], [np.zeros(0)]
        for b in others:
            prior: Any = b.prior
            for parts, v in (
                (location, prior.location),
                (scale, prior.scales * (unit if prior.sigma_units else 1.0)),
            ):
                by_column = np.broadcast_to(np.asarray(v, dtype=float), len(b.columns))
                parts.append(np.repeat(by_column, b.width(m)))
        density, settings = next(iter(densities), None) or (None, ())
        arrays = (
            rows.tiles, rows.y, rows.w, rows.offset, np.array(likelihood.settings(**self.model.fixed), dtype=float),
            self.at.centre, A, -slope, Q, np.concatenate(entries).astype(np.int64), np.concatenate(location),
            np.concatenate(scale), np.array(settings, dtype=float), np.array([top + rows.constant]),
        )  # fmt: skip
        # The C function needs writable arrays in C order.
        data = AffineData(*(np.require(v, requirements=("C", "W")) for v in arrays))
        return CompiledTarget((rows.density, rows.y.ndim > 1, density), data)


@dataclass(frozen=True, eq=False)
class CompiledTarget:
    """A log density over z (d,) for compiled code: its component densities and its arrays."""

    parts: tuple[CompiledDensity, bool, CompiledDensity | None]  # see `log_density_of`
    data: AffineData

    @property
    def function(self) -> Any:
        """The C function."""
        return log_density_of(*self.parts)


def _compiled_prior(
    block: BlockPrior,
) -> tuple[CompiledDensity, tuple[float, ...]] | None:
    """Return the compiled density of independent coefficients with its settings, or None."""
    prior = block.prior
    if not isinstance(prior, LocationScale) or prior.compiled_density is None:
        return None
    return prior.compiled_density, tuple(prior.settings)
