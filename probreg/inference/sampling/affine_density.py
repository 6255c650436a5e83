"""The log posterior of a model as one compiled function of z, if all of its parts are
compiled or quadratic.

`SampledDensity` sums the parts in Python; here they are one call without the interpreter's
lock: the rows by the likelihood's compiled density, normal priors as one quadratic form
of z, and other priors of independent coefficients by their compiled density.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.compiled import AffineData, CompiledDensity, log_density_of
from probreg.inference.base import Array
from probreg.inference.sampling.density import PriorPart, SampledDensity
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.priors import BlockPrior, Flat, GaussianPrior
from probreg.priors.location_scale import LocationScale


@dataclass(frozen=True, eq=False)
class CompiledTarget:
    """A log density over z (d,) for compiled code: its component densities and its
    arrays."""

    parts: tuple[CompiledDensity, bool, CompiledDensity | None]  # see `log_density_of`
    data: AffineData

    @property
    def function(self) -> Any:
        """The C function."""
        return log_density_of(*self.parts)


def compiled_whole(model: Model) -> bool:
    """Whether compiled code sums the rows, there is no unknown nuisance parameter, and
    priors are quadratic or share one compiled density."""
    densities = {
        _prior_density(b)
        for b in model.joint.blocks
        if not isinstance(b.prior, GaussianPrior)
    }
    return not (
        model.likelihood.least_squares
        or model.unknown
        or None in densities
        or len(densities) > 1
    )


def affine_density(sampled: SampledDensity) -> CompiledTarget:
    """Return the target of a model for which `compiled_whole` is true."""
    model, A, rows = sampled.model, sampled.at.A, sampled.rows
    likelihood = model.likelihood
    assert isinstance(likelihood, DifferentiableLikelihood)  # it has compiled rows
    assert rows is not None
    m = model.shape[1]
    unit = float(likelihood.noise(model.fixed))
    priors = [b for b in model.joint.blocks if not isinstance(b.prior, Flat)]
    others = [b for b in priors if not isinstance(b.prior, GaussianPrior)]
    normal = [PriorPart.of(b, b.prior, m) for b in priors if b not in others]

    def log_normal(z: Array) -> tuple[float, Array]:
        theta = sampled.at.centre + A @ z
        slopes = np.zeros(len(theta))
        parts = [p.add(theta, unit if p.relative else 1.0, slopes)[0] for p in normal]
        return sum(parts), A.T @ slopes

    # normal priors: log p = top - pull'z - z'Q z / 2
    top, slope = log_normal(np.zeros(A.shape[1]))
    Q = np.array([slope - log_normal(e)[1] for e in np.eye(A.shape[1])])
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
    density, settings = (others and _prior_density(others[0])) or (None, ())
    arrays = (
        rows.tiles, rows.y, rows.w, rows.offset, np.array(likelihood.settings(**model.fixed), dtype=float), sampled.at.centre, A,
        -slope, Q, np.concatenate(entries).astype(np.int64), np.concatenate(location), np.concatenate(scale),
        np.array(settings, dtype=float), np.array([top + rows.constant]),
    )  # fmt: skip
    # The C function needs writable arrays in C order.
    data = AffineData(*(np.require(v, requirements=("C", "W")) for v in arrays))
    return CompiledTarget((rows.density, rows.y.ndim > 1, density), data)


def _prior_density(
    block: BlockPrior,
) -> tuple[CompiledDensity, tuple[float, ...]] | None:
    """Return the compiled density of independent coefficients with its settings, or
    None."""
    prior = block.prior
    if not isinstance(prior, LocationScale) or prior.compiled_density is None:
        return None
    return prior.compiled_density, tuple(prior.settings)
