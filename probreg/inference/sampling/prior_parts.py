"""The log priors of coefficients with their slopes, as the sampler adds them."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from probreg.compiled import CompiledDensity, entries_of
from probreg.inference.base import Array
from probreg.priors import BlockPrior, GaussianPrior, ProximalPrior, SmoothPrior
from probreg.priors.location_scale import LocationScale

# (theta, the unit of the scales, slopes to add to) -> log p and its slope over the log of the unit
AddPrior = Callable[[Array, float, Array], tuple[float, float]]


class PriorPart(NamedTuple):
    """The log prior of some coefficients."""

    relative: bool  # whether its scales are in units of the noise scale
    add: AddPrior


class EntryDensity(NamedTuple):
    """The compiled density of independent coefficients, and its settings."""

    density: CompiledDensity
    settings: tuple[float, ...]


def parts_of(blocks: list[BlockPrior], m: int) -> list[PriorPart]:
    """Return the log priors of these blocks; blocks with the same compiled density are one part."""
    parts = list[PriorPart]()
    independent: dict[tuple[EntryDensity, bool], list[BlockPrior]] = {}
    for b in blocks:
        density = density_of_entries(b.prior)
        if density is not None:
            independent.setdefault((density, b.prior.sigma_units), []).append(b)
        elif isinstance(b.prior, GaussianPrior):
            parts.append(PriorPart(b.prior.sigma_units, _quadratic(b, m)))
        else:
            parts.append(PriorPart(b.prior.sigma_units, _by_slopes(b, m)))
    for (density, relative), together in independent.items():
        parts.append(PriorPart(relative, _sum_of_entries(density, together, m)))
    return parts


def density_of_entries(prior: Any) -> EntryDensity | None:
    """Return the compiled density of a prior of independent coefficients, or None."""
    if not isinstance(prior, LocationScale) or prior.compiled_density is None:
        return None
    if getattr(prior, "precision_matrix", None) is not None:
        return None
    return EntryDensity(prior.compiled_density, tuple(prior.settings))


def _sum_of_entries(
    compiled: EntryDensity, blocks: list[BlockPrior], m: int
) -> AddPrior:
    """Return the sum of one compiled density over the coefficients of these blocks."""
    add = entries_of(compiled.density)
    entries, location, scale = entries_with_scales(blocks, m, 1.0)
    t = np.array(compiled.settings, dtype=float)
    return lambda theta, unit, slopes: add(
        theta, entries, location, unit * scale, t, slopes
    )


def entries_with_scales(
    blocks: list[BlockPrior], m: int, unit: float
) -> tuple[Array, Array, Array]:
    """Return the entries of vec(beta) in these blocks, their locations and their scales; `unit` multiplies relative scales."""
    entries: list[Array] = [np.zeros(0, dtype=np.int64)]
    locations_and_scales = [np.zeros((0, 2))]
    for b in blocks:
        prior: Any = b.prior
        values = prior.location, prior.scales * prior.unit(unit)
        by_column = [np.broadcast_to(v, len(b.columns)) for v in values]
        entries.append(b.entries(m))
        # vec(beta) runs column by column, with the linear predictors of a column together
        of_block = np.repeat(np.column_stack(by_column), b.width(m), axis=0)
        locations_and_scales.append(of_block)
    location, scale = np.concatenate(locations_and_scales).T.copy()
    return np.concatenate(entries).astype(np.int64), location, scale


def _quadratic(block: BlockPrior, m: int) -> AddPrior:
    """Return the log density of a normal prior with a precision matrix."""
    prior = block.prior
    assert isinstance(prior, GaussianPrior)  # callers check this
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


def _by_slopes(block: BlockPrior, m: int) -> AddPrior:
    """Return the log density of a prior by its NumPy methods; its slope at a kink is the middle of the subgradients."""
    prior = block.prior
    entries = block.entries(m)
    location: Any = getattr(prior, "location", 0.0)
    center = np.broadcast_to(location, len(block.columns))[:, None]

    def add(theta: Array, unit: float, slopes: Array) -> tuple[float, float]:
        beta = theta[entries].reshape(len(center), -1)
        if isinstance(prior, SmoothPrior):
            g = prior.slopes(beta, unit)[0]
        else:
            assert isinstance(prior, ProximalPrior)  # checked in `compiled_obstacle`
            low, high = prior.subgradient(beta, unit)
            g = -0.5 * (low + high)
        slopes[entries] += g.ravel()
        # p is a function of r / u times u^(-q m): d/d log u = -r'g - q m
        over_unit = -float(((beta - center) * g).sum()) - beta.size
        return float(prior.log_prob(beta, unit)), over_unit

    return add
