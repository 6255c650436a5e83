"""The rows of a model in the order in which compiled loops read them."""

from dataclasses import dataclass

import numpy as np

from probreg.inference.base import Array
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.numerics.compiled import CompiledDensity, tiles_of


@dataclass(frozen=True, eq=False)
class RowArrays:
    """The rows as compiled loops take them, and what log p owes to the responses alone."""

    density: CompiledDensity
    tiles: Array
    y: Array
    w: Array
    offset: Array
    constant: float

    @classmethod
    def of(cls, model: Model) -> "RowArrays":
        """Rows with a precision are multiplied by its root."""
        likelihood, design = model.likelihood, model.design
        assert isinstance(likelihood, DifferentiableLikelihood)
        assert likelihood.compiled_density is not None  # see `compiled_obstacle`
        y = np.ascontiguousarray(design.observed, dtype=float)
        X, offset, carried = design.X, _offset(model), likelihood.base_measure(y)
        if (
            design.precision is not None
        ):  # p(y | eta, s) = f((y - eta) / s) / s: rows times root w have one noise scale
            root = np.sqrt(design.precision)
            X, y, offset, carried = (
                X * root[:, None],
                y * root,
                offset * root,
                carried + np.log(root),
            )
        w = (
            np.zeros(0)
            if design.weights is None
            else np.ascontiguousarray(design.weights, dtype=float)
        )
        constant = float(
            carried.sum() if design.weights is None else design.weights @ carried
        )
        return cls(likelihood.compiled_density, tiles_of(X), y, w, offset, constant)


def _offset(model: Model) -> Array:
    """(m, n), or (0, n) for none."""
    d, m = model.design, model.shape[1]
    return (
        np.zeros((0, d.n))
        if d.offset is None
        else np.ascontiguousarray(np.broadcast_to(d.offset, (d.n, m)).T)
    )
