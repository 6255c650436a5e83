"""The prior of a model as independent normal priors of its columns, if it has this
form."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.inference.base import Array
from probreg.model.model import Model
from probreg.priors import Flat, GaussianPrior, Prior


@dataclass(frozen=True, eq=False)
class NormalColumns:
    """Independent normal priors by column; a flat one has an infinite sd."""

    center: Array  # (p,)
    sd: Array  # (p,), at unit 1
    relative: Array  # (p,) bool: the scale is in units of the noise scale

    @cached_property
    def precision(self) -> Array:
        """(p,), at unit 1."""
        return 1.0 / np.square(self.sd)

    def at(self, sigma: float) -> Array:
        """(p,) the precisions of the coefficients at this noise scale."""
        return np.where(self.relative, self.precision / sigma**2, self.precision)

    @property
    def size(self) -> int:
        """Columns with an informative prior."""
        return int((self.precision > 0).sum())


def normal_columns(
    model: Model, flat: tuple[type[Prior], ...] = (Flat,)
) -> NormalColumns | None:
    """Return the prior by column, with priors of the classes `flat` as flat ones; None if the others are not independent
    normal priors."""
    if model.joint.apart:
        return None
    p = model.shape[0]
    center = np.zeros(p)
    sd = np.full(p, np.inf)
    relative = np.zeros(p, dtype=bool)
    for b in model.joint.blocks:
        if isinstance(b.prior, flat):
            continue
        if isinstance(b.prior, GaussianPrior):
            sd_of_block = b.prior.independent(len(b.columns))
        else:
            sd_of_block = None
        if sd_of_block is None or not isinstance(b.prior, GaussianPrior):
            return None
        columns = list(b.columns)
        center[columns], sd[columns], relative[columns] = (
            b.prior.center(len(columns)),
            sd_of_block,
            b.prior.sigma_units,
        )
    return NormalColumns(center, sd, relative)


def independent_normals(model: Model) -> tuple[Array, Array, bool] | None:
    """Return means and standard deviations (q,) of the columns with a normal prior, and
    whether these are in units of sigma.

    None for other priors, and if only some are in units of an unknown sigma.
    """
    prior = normal_columns(model)
    G = model.joint.informative
    if prior is None:
        return None
    relative = prior.relative[G]
    units = set((relative & (model.noise_held is None)).tolist())
    if len(units) != 1:
        return None
    if relative.any():
        sd = prior.sd[G] * np.where(relative, model.noise(), 1.0)
    else:
        sd = prior.sd[G]
    return prior.center[G], sd, units.pop()
