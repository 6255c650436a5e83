"""The log-likelihood with its slopes over (vec beta, log aux), as the sampler sums it.

A likelihood is summed by its compiled density, a Gaussian one over few rows with the moments of all, at a cost independent
of their number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.compiled import (
    CompiledDensity,
    loops_of,
    order_by_zeros,
    tiles_of,
    work_of,
)
from probreg.data.implicit_columns import PredictorColumns
from probreg.errors import Incompatible
from probreg.inference.base import Array, split_parameters
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.likelihood_sums import (
    base_measure_of_rows,
    density_places,
    plain_rows,
)
from probreg.model.model import Model

# (theta, aux, slopes to add to) -> value, theta = (vec beta, log aux)
Sum = Callable[[Array, Mapping[str, float], Array], float]


@dataclass(frozen=True, eq=False)
class RowArrays:
    """The rows as arrays for compiled loops, and the part of log p that depends on the
    responses only."""

    density: CompiledDensity
    tiles: Array
    columns: Array  # of the tiles
    y: Array
    w: Array
    offset: Array
    constant: float
    places: Array  # of the entries of vec(beta), see `density_places`
    p: int  # the number of columns
    width: int  # the number of linear predictors of the density
    nuisance: tuple[str, ...]  # nuisance parameters, in the order of their slopes
    settings: Callable[..., tuple[float, ...]]  # of the density, from these
    constants: tuple[float, ...]  # of the settings

    @property
    def takes_aux(self) -> bool:
        """Whether compiled code computes the settings from nuisance parameters that are common to all rows."""
        return self.density.settings is not None and not self.density.by_predictors

    @classmethod
    def of(cls, model: Model) -> "RowArrays":
        """From a model; rows with a precision are multiplied by its root. Normal rows are replaced by as many as there are columns in
        [X y], with the same moments."""
        likelihood = model.likelihood
        assert isinstance(likelihood, DifferentiableLikelihood)
        assert likelihood.compiled_density is not None  # checked in `compiled_obstacle`
        if likelihood.least_squares:
            moments = model.design.moments
            F = np.asarray(moments.factor, dtype=float)
            w = np.full(len(F), moments.weight / len(F))
            # sum_i w_i x_i x_i' = F'F
            F = F / np.sqrt(w)[:, None]
            X = F[:, :-1]
            y = F[:, -1]
            offset = np.zeros((0, len(F)))
            constant = 0.5 * moments.log_precision
            places = np.arange(moments.p)
        else:
            block = model.design.block
            X, y, w, offset = plain_rows(block, block.X, likelihood)
            base = base_measure_of_rows(block, likelihood)
            constant = float(base @ w if len(w) else base.sum())
            places = density_places(block.X, likelihood)
        order = order_by_zeros(X)
        return cls(
            likelihood.compiled_density,
            *tiles_of(X[order]),
            y[order],
            w[order] if len(w) else w,
            offset[:, order] if len(offset) else offset,
            constant,
            places,
            p=X.shape[1],
            width=likelihood.density_width,
            nuisance=likelihood.density_nuisance,
            settings=likelihood.settings,
            constants=likelihood.constants,
        )


def sum_of_rows(model: Model, rows: RowArrays) -> Sum:
    """Return the sum by compiled code."""
    gradient = loops_of(rows.density).gradient
    p = rows.p
    m = rows.width
    k = len(rows.places)
    count = len(rows.nuisance)
    unknown = [p * m + rows.nuisance.index(a) for a in model.unknown]
    places = np.array([*rows.places, *unknown])

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        slopes_of_rows = np.empty(p * m + (count if unknown else 0))
        t = np.array(rows.settings(**aux), dtype=float)
        beta = np.zeros(p * m)
        beta[rows.places] = theta[:k]
        value = gradient(
            rows.tiles, rows.columns, rows.y, rows.w, rows.offset, beta.reshape(p, m), t, slopes_of_rows,
            *work_of(rows.tiles.shape[2], m, count),
        )  # fmt: skip
        slopes += slopes_of_rows.take(places)
        return float(value + rows.constant)

    return value_of


def check_compiled_density(model: Model, theta: Array) -> None:
    """Raise Incompatible if the compiled density and `value_grad_hessian` differ at
    theta, over some of the rows."""
    likelihood = model.likelihood
    # rows at which the two are compared, and their difference relative to the sums of
    # absolute values: rounding is 1e-13, a wrong term is larger
    most_rows, tolerance = 200, 1e-6
    assert isinstance(likelihood, DifferentiableLikelihood)
    d = model.design.take(slice(None, None, max(1, model.design.n // most_rows)))
    d = replace(d, weights=None, precision=None)
    beta, aux = split_parameters(model, theta)
    aux = model.fixed | aux
    width = likelihood.width
    with np.errstate(all="ignore"):
        eta = d.eta(beta)
        log_p, g, _ = likelihood.derivatives_over(
            model.unknown, d.observed, eta, aux, None
        )
    exact = np.r_[log_p.sum(), (d.X.T @ g[:, :width]).ravel(), g[:, width:].sum(0)]
    g = np.abs(g)
    sizes = np.abs(np.asarray(d.X)).T @ g[:, :width]
    if isinstance(d.X, PredictorColumns):
        sizes = d.X.pick(sizes)
    size = np.r_[np.abs(log_p).sum(), sizes.ravel(), g[:, width:].sum(0)]
    part = replace(model, design=d)
    slopes = np.zeros(len(theta))
    value = sum_of_rows(part, RowArrays.of(part))(theta, aux, slopes)
    compiled = np.r_[value, slopes]
    with np.errstate(invalid="ignore"):
        close = np.abs(compiled - exact) <= tolerance * (size + 1e-3 * d.n)
    if np.isfinite(exact).all() and not close.all():
        if close[0]:
            difference = "slopes that differ"
        else:
            difference = f"log p {value:g} and {exact[0]:g}"
        raise Incompatible(
            f"the compiled density of {likelihood.named} likelihood differs from its log_prob and value_grad_hessian: over "
            f"{d.n} rows they have {difference}. Correct compiled_density, settings and base_measure, or set compiled_density = None"
        )
