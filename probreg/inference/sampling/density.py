"""The log posterior as the sampler evaluates it, in coordinates z that make it nearly round:
theta = (vec beta, log aux) = centre + A z."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.compiled import AffineData, CompiledDensity, entries_of, log_density_of
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
    ProximalPrior,
    Reference,
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
        columns = model.design.describe_columns(b.columns)
        if isinstance(b.prior, HierarchicalPrior):
            return f"the scale of {columns} is unknown"
        cusp = isinstance(b.prior, ProximalPrior) and not b.prior.convex
        compiled = isinstance(b.prior, GaussianPrior) or _density_of(b)
        if cusp or not compiled:
            return f"the {b.prior.name} prior of {columns} has no compiled density"
    for a in model.unknown:
        if model.aux_prior(a).has_bounded_support:
            return f"the prior of {a} has bounded support"
    return None


# ---- priors --------------------------------------------------------------------------------------------------------------


class PriorPart(NamedTuple):
    """The prior of some coefficients. `add` takes theta, the unit of the scales and
    slopes to add to, and returns log p and its slope over the log of the unit."""

    relative: bool  # whether its scales are in units of the noise scale
    add: Callable[[Array, float, Array], tuple[float, float]]


def parts_of(blocks: list[BlockPrior], m: int) -> list[PriorPart]:
    """Return the parts of blocks with priors, those with one compiled density together."""
    parts = list[PriorPart]()
    independent: dict[Any, list[BlockPrior]] = {}
    for b in blocks:
        density = _density_of(b)
        if density is None:
            parts.append(PriorPart(b.prior.sigma_units, _quadratic(b, m)))
        else:
            independent.setdefault((density, b.prior.sigma_units), []).append(b)
    for (density, relative), together in independent.items():
        parts.append(PriorPart(relative, _sum_of_entries(density, together, m)))
    return parts


def _density_of(
    block: BlockPrior,
) -> tuple[CompiledDensity, tuple[float, ...]] | None:
    """Return the compiled density of independent coefficients with its settings, or None."""
    prior: Any = block.prior
    if not isinstance(prior, LocationScale) or prior.compiled_density is None:
        return None
    if getattr(prior, "precision_matrix", None) is not None:
        return None
    return prior.compiled_density, tuple(prior.settings)


def _sum_of_entries(
    density: tuple[CompiledDensity, tuple[float, ...]],
    blocks: list[BlockPrior],
    m: int,
) -> Callable[[Array, float, Array], tuple[float, float]]:
    add = entries_of(density[0])
    at, location, scale = entries_with_scales(blocks, m, 1.0)
    t = np.array(density[1], dtype=float)
    return lambda theta, unit, slopes: add(theta, at, location, unit * scale, t, slopes)


def entries_with_scales(
    blocks: list[BlockPrior], m: int, unit: float
) -> tuple[Array, Array, Array]:
    """Return entries of vec(beta), with their locations and scales at a unit of
    relative scales."""
    entries: list[Array] = [np.zeros(0, dtype=np.int64)]
    scales = [np.zeros((0, 2))]
    for b in blocks:
        prior: Any = b.prior
        values = prior.location, prior.scales * prior.unit(unit)
        columns = [np.broadcast_to(v, len(b.columns)) for v in values]
        entries.append(b.entries(m))
        scales.append(np.repeat(np.column_stack(columns), b.width(m), axis=0))
    location, scale = np.concatenate(scales).T.copy()
    return np.concatenate(entries).astype(np.int64), location, scale


def _quadratic(
    block: BlockPrior, m: int
) -> Callable[[Array, float, Array], tuple[float, float]]:
    prior = block.prior
    assert isinstance(prior, GaussianPrior)  # checked in `compiled_obstacle`
    q = len(block.columns)
    entries = block.entries(m)
    P = prior.precision(q)
    center = prior.center(q)[:, None]
    top = float(prior.log_prob(np.broadcast_to(center, (q, block.width(m)))))

    def add(theta: Array, unit: float, slopes: Array) -> tuple[float, float]:
        # log p = top - d'P d / (2 u^2) - q m log u
        d = theta[entries].reshape(q, -1) - center
        g = P.dot(d) / -(unit**2)
        slopes[entries] += g.ravel()
        square = -float((d * g).sum())
        return top - 0.5 * square - d.size * float(np.log(unit)), square - d.size

    return add


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
        return parts_of(self._blocks, self.model.shape[1])

    @property
    def _blocks(self) -> list[BlockPrior]:
        """Blocks with a prior."""
        return [b for b in self.model.joint.blocks if not isinstance(b.prior, Flat)]

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
        others = [b for b in self._blocks if not isinstance(b.prior, GaussianPrior)]
        densities = {_density_of(b) for b in others}
        if rows is None or self.model.unknown or len(densities) > 1:
            return None
        assert isinstance(likelihood, DifferentiableLikelihood)  # it has compiled rows
        A = self.at.A
        m = self.model.shape[1]
        unit = float(likelihood.noise(self.model.fixed))
        normal = parts_of([b for b in self._blocks if b not in others], m)

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
        density, settings = next(iter(densities), None) or (None, ())
        arrays = (
            rows.tiles, rows.y, rows.w, rows.offset, np.array(likelihood.settings(**self.model.fixed), dtype=float),
            self.at.centre, A, -slope, Q, *entries_with_scales(others, m, unit), np.array(settings, dtype=float),
            np.array([top + rows.constant]),
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
