"""The rows of a model in the memory order of compiled loops."""

from dataclasses import dataclass

import numpy as np

from probreg.inference.base import Array
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.numerics.compiled import CompiledDensity, tiles_of


@dataclass(frozen=True, eq=False)
class RowArrays:
    """The rows as arrays for compiled loops, and the part of log p that depends on the
    responses only."""

    density: CompiledDensity
    tiles: Array
    y: Array
    w: Array
    offset: Array
    constant: float

    @classmethod
    def of(cls, model: Model) -> "RowArrays":
        """From a model; rows with a precision are multiplied by its root."""
        likelihood = model.likelihood
        design = model.design
        assert isinstance(likelihood, DifferentiableLikelihood)
        assert likelihood.compiled_density is not None  # checked in `compiled_obstacle`
        y = np.ascontiguousarray(design.observed, dtype=float)
        X = design.X
        offset = _offset(model)
        carried = likelihood.base_measure(y)
        if (
            design.precision is not None
        ):  # p(y | eta, s) = f((y - eta) / s) / s: rows times root w have one noise scale
            root = np.sqrt(design.precision)
            X = X * root[:, None]
            y = y * root
            offset = offset * root
            carried = carried + np.log(root)
        if design.weights is None:
            w = np.zeros(0)
        else:
            w = np.ascontiguousarray(design.weights, dtype=float)
        constant = float(
            carried.sum() if design.weights is None else design.weights @ carried
        )
        return cls(likelihood.compiled_density, tiles_of(X), y, w, offset, constant)


def _offset(model: Model) -> Array:
    """(m, n), or (0, n) for none."""
    d = model.design
    m = model.shape[1]
    if d.offset is None:
        return np.zeros((0, d.n))
    return np.ascontiguousarray(np.broadcast_to(d.offset, (d.n, m)).T)
