"""The log-likelihood with its slopes over (vec beta, log aux), as the sampler sums it.

A likelihood is summed by its compiled density, a Gaussian one from the moments of its rows at a cost independent of
their number.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.compiled import CompiledDensity, loops_of, tiles_of, work_of
from probreg.data.implicit_columns import PredictorColumns
from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.likelihood_sums import (
    base_measure_of_rows,
    density_places,
    plain_rows,
)
from probreg.model.model import Model
from probreg.special import LOG_2PI

# (theta, aux, slopes to add to) -> value, theta = (vec beta, log aux)
Sum = Callable[[Array, Mapping[str, float], Array], float]


@dataclass(frozen=True, eq=False)
class RowArrays:
    """The rows as arrays for compiled loops, and the part of log p that depends on the
    responses only."""

    density: CompiledDensity | None  # None for normal rows by their moments
    tiles: Array
    y: Array
    w: Array
    offset: Array
    constant: float
    places: Array  # of the entries of vec(beta), see `density_places`

    @classmethod
    def of(cls, model: Model) -> "RowArrays":
        """From a model; rows with a precision are multiplied by its root."""
        likelihood = model.likelihood
        block = model.design.block
        assert isinstance(likelihood, DifferentiableLikelihood)
        assert likelihood.compiled_density is not None  # checked in `compiled_obstacle`
        X, y, w, offset = plain_rows(block, block.X, likelihood)
        base = base_measure_of_rows(block, likelihood)
        constant = float(base @ w if len(w) else base.sum())
        places = density_places(block.X, likelihood)
        return cls(
            likelihood.compiled_density, tiles_of(X), y, w, offset, constant, places
        )

    @classmethod
    def of_moments(cls, model: Model) -> "RowArrays":
        """The moments of the rows in the form of `loops.gradient_of_moments`."""
        moments = model.design.moments
        R = np.asarray(moments.R, dtype=float)
        rss = float(moments.factor[-1, -1]) ** 2
        constant = 0.5 * (moments.log_precision - moments.weight * LOG_2PI)
        return cls(
            None,
            R[None],
            np.asarray(moments.z, dtype=float),
            np.array([moments.weight, rss]),
            np.zeros((0, 0)),
            float(constant),
            np.arange(R.shape[1]),
        )


def sum_of_moments(model: Model) -> Sum:
    """-W/2 log(2 pi sigma^2) + sum_i log(w_i) / 2 - (RSS + |z - R beta|^2) / (2 sigma^2) of precisions w, and slopes."""
    moments = model.design.moments
    R = np.asarray(moments.R, dtype=float)
    z = np.asarray(moments.z, dtype=float)
    scale = model.noise_scale
    rss = float(moments.factor[-1, -1]) ** 2
    W = moments.weight
    k = model.shape[0]

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        sigma = aux[scale]
        # S = RSS + |z - R beta|^2: d/d beta = R'(z - R beta) / sigma^2, d/d log sigma = S / sigma^2 - W.
        r = z - R.dot(theta[:k])
        square = (rss + r.dot(r)) / sigma**2
        slopes[:k] += r.dot(R) / sigma**2
        slopes[k:] += square - W
        log_scale = W * float(np.log(2.0 * np.pi * sigma**2))
        return 0.5 * (moments.log_precision - log_scale - float(square))

    return value_of


def sum_of_rows(model: Model, rows: RowArrays) -> Sum:
    """Return the sum by compiled code."""
    likelihood = model.likelihood
    assert isinstance(likelihood, DifferentiableLikelihood)
    assert rows.density is not None
    gradient = loops_of(rows.density).gradient
    p = model.shape[0]
    m = likelihood.density_width
    k = len(rows.places)
    nuisance = likelihood.density_nuisance
    unknown = [p * m + nuisance.index(a) for a in model.unknown]
    places = np.array([*rows.places, *unknown])

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        slopes_of_rows = np.empty(p * m + (len(nuisance) if unknown else 0))
        t = np.array(likelihood.settings(**aux), dtype=float)
        beta = np.zeros(p * m)
        beta[rows.places] = theta[:k]
        value = gradient(
            rows.tiles, rows.y, rows.w, rows.offset, beta.reshape(p, m), t, slopes_of_rows,
            *work_of(rows.tiles, m, len(nuisance)),
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
    p, m = model.shape
    d = model.design.take(slice(None, None, max(1, model.design.n // most_rows)))
    d = replace(d, weights=None, precision=None)
    beta = theta[: p * m].reshape(p, m)
    aux = model.fixed | dict(zip(model.unknown, np.exp(theta[p * m :]).tolist()))
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
            f"the compiled density of the {likelihood.name} likelihood differs from its log_prob and value_grad_hessian: over "
            f"{d.n} rows they have {difference}. Correct compiled_density, settings and base_measure, or set compiled_density = None"
        )
