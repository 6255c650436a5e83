"""The log posterior of a model as one compiled function of z, if all of its parts are
compiled or quadratic.

`SampledDensity` sums the parts in Python; here they are one call without the interpreter's
lock: the rows by the likelihood's compiled density, normal priors as one quadratic form
of z, and other priors of independent coefficients by their compiled density.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.inference.base import Array
from probreg.inference.sampling.reparameterisation import Reparameterisation
from probreg.inference.sampling.row_sums import RowArrays
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.numerics.compiled import AffineData, CompiledDensity, log_density_of
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


def affine_density(
    model: Model, affine: Reparameterisation, rows: RowArrays
) -> CompiledTarget:
    """Return the target of a model for which `compiled_whole` is true."""
    priors = [b for b in model.joint.blocks if not isinstance(b.prior, Flat)]
    quadratic = [b for b in priors if isinstance(b.prior, GaussianPrior)]
    other_blocks = [b for b in priors if not isinstance(b.prior, GaussianPrior)]
    likelihood = model.likelihood
    assert isinstance(likelihood, DifferentiableLikelihood)  # it has compiled rows
    unit = float(likelihood.noise(model.fixed))
    t = np.array(likelihood.settings(**model.fixed), dtype=float)
    density = _prior_density(other_blocks[0]) if other_blocks else None
    settings: tuple[float, ...] = density[1] if density else ()
    top, pull, Q = _quadratic(model, affine, quadratic, unit)
    arrays = (
        rows.tiles, rows.y, rows.w, rows.offset, t, affine.centre, affine.A, pull, Q, *_entries(model, other_blocks, unit),
        np.array(settings, dtype=float), np.array([top + rows.constant]),
    )  # fmt: skip
    # The C function needs writable arrays in C order.
    data = AffineData(*(np.require(v, requirements=("C", "W")) for v in arrays))
    return CompiledTarget(
        (rows.density, rows.y.ndim > 1, density[0] if density else None), data
    )


def _prior_density(
    block: BlockPrior,
) -> tuple[CompiledDensity, tuple[float, ...]] | None:
    """Return the compiled density of independent coefficients with its settings, or
    None."""
    prior = block.prior
    if not isinstance(prior, LocationScale) or prior.compiled_density is None:
        return None
    return prior.compiled_density, tuple(prior.settings)


def _quadratic(
    model: Model, affine: Reparameterisation, blocks: Sequence[BlockPrior], unit: float
) -> tuple[float, Array, Array]:
    """Return constant, pull and Q of the normal priors' log density: constant - pull'z
    - z'Qz / 2."""
    d = affine.A.shape[1]
    top = 0.0
    pull = np.zeros(d)
    Q = np.zeros((d, d))
    for b in blocks:
        # log p = top - (theta - c)'P(theta - c) / (2 u^2), theta = centre + A z: with r = centre - c,
        # pull = A'P r / u^2, Q = A'P A / u^2, constant = top - r'P r / (2 u^2).
        prior: Any = b.prior
        q = len(b.columns)
        u = unit if prior.sigma_units else 1.0
        entries = b.entries(model.shape[1])
        P = prior.precision(q) / u**2
        c = prior.center(q)[:, None]
        m = b.width(model.shape[1])
        A = affine.A[entries].reshape(q, m * d)
        r = affine.centre[entries].reshape(q, m) - c
        PA = (P @ A).reshape(q * m, d)
        pull += r.ravel() @ PA
        Q += A.reshape(q * m, d).T @ PA
        top += float(prior.log_prob(np.broadcast_to(c, (q, m)), u)) - 0.5 * float(
            (r * (P @ r)).sum()
        )
    return top, pull, Q


def _entries(
    model: Model, blocks: Sequence[BlockPrior], unit: float
) -> tuple[Array, Array, Array]:
    """Return the positions in theta of the other priors' coefficients, with their
    locations and scales."""
    m = model.shape[1]
    entries = [np.zeros(0, dtype=np.int64)]
    location = [np.zeros(0)]
    scale = [np.zeros(0)]
    for b in blocks:
        prior: Any = b.prior
        entries.append(b.entries(m).astype(np.int64))
        for parts, v in (
            (location, prior.location),
            (scale, prior.scales * (unit if prior.sigma_units else 1.0)),
        ):
            parts.append(
                np.repeat(
                    np.broadcast_to(np.asarray(v, dtype=float), len(b.columns)),
                    b.width(m),
                )
            )
    return np.concatenate(entries), np.concatenate(location), np.concatenate(scale)
