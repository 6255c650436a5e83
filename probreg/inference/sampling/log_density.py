"""The log posterior for the compiled sampler: compiled sums over rows, in coordinates
that make it nearly round.

(vec beta, log aux) = centre + A z, with the mode as centre and A A' the inverse
curvature there, so z is nearly standard normal. The likelihood is summed by its
compiled density, by NumPy for few rows, and a Gaussian one from its moments, at a cost
independent of the number of rows. Priors are compiled too, or quadratic forms.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.data.rows import full_weights, plus_offset
from probreg.errors import Incompatible
from probreg.inference.base import Array
from probreg.inference.sampling.reparameterisation import AffineMap, affine_map
from probreg.inference.sampling.row_arrays import RowArrays
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.numerics.compiled import entries_of, loops_of, tiles_of, work_of
from probreg.priors import (
    BlockPrior,
    Flat,
    GaussianPrior,
    GroupedPrior,
    HierarchicalPrior,
    Reference,
)
from probreg.priors.location_scale import LocationScale

FEW = 200  # rows up to which NumPy calls cost less than loading compiled code

Density = Callable[[Array], tuple[float, Array]]
Sum = Callable[
    [Array, Mapping[str, float], Array], float
]  # (theta, aux, slopes to add to) -> value


def compiled_obstacle(model: Model) -> str | None:
    """Return why there is no compiled density of this model, or None."""
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
        if isinstance(b.prior, HierarchicalPrior) and b.prior.hyper_labels:
            bounded = [
                name
                for k, name in b.prior.hyper_labels.items()
                if b.prior.hyper[k].prior.has_bounded_support
            ]
            if bounded:
                return f"the prior of {bounded[0]} has an edge"
            continue
        if not (
            isinstance(b.prior, GaussianPrior | GroupedPrior)
            or _density_of(b) is not None
        ):
            columns = model.design.called(b.columns)
            if isinstance(b.prior, HierarchicalPrior):
                unknown = " with its unknown scale"
            else:
                unknown = ""
            return f"the {b.prior.name} prior of {columns}{unknown} has no compiled density"
    for a in model.unknown:
        if model.aux_prior(a).has_bounded_support:
            return f"the {model.aux_prior(a).name} prior of {a} has an edge"
    return None


def _density_of(block: BlockPrior) -> Any:
    if isinstance(block.prior, LocationScale):
        return block.prior.compiled_density
    return None


# ---- the density -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ReparameterisedDensity:
    """z (d,) -> log posterior of (beta, log aux) with its gradient; `unfold` maps z to
    beta (p, m) and aux.

    `rows` are set if compiled code sums them, without the interpreter's lock.
    """

    model: Model
    at: AffineMap
    rows: RowArrays | None
    log_prob: Density

    @classmethod
    def of(
        cls,
        model: Model,
        affine: AffineMap | None = None,
        *,
        compiled: bool | None = None,
    ) -> "ReparameterisedDensity":
        """`compiled` selects compiled code for the rows; by default for more than `FEW`
        rows."""
        affine = affine_map(model) if affine is None else affine
        # near a mode, but off its kinks
        parts, rows = rows_and_priors(
            model, affine.centre + 0.1 * affine.A.sum(1), compiled=compiled
        )
        return cls(model, affine, rows, _density(model, affine, parts))

    @property
    def compiled(self) -> bool:
        """Whether compiled code sums the rows."""
        return self.rows is not None

    def unfold(self, z: Array) -> dict[str, Array]:
        """Return `beta` (..., p, m) and every unknown aux (...) of z (..., d)."""
        point = self.at.centre + z @ self.at.A.T
        k = self.model.shape[0] * self.model.shape[1]
        aux = {
            a: np.asarray(np.exp(point[..., k + i]))
            for i, a in enumerate(self.model.unknown)
        }
        return {
            "beta": np.ascontiguousarray(
                point[..., :k].reshape(*z.shape[:-1], *self.model.shape)
            )
        } | aux


def rows_and_priors(
    model: Model, point: Array, *, compiled: bool | None = None
) -> tuple[list[Sum], RowArrays | None]:
    """Return the likelihood and the priors without hyperparameters, and the rows if
    compiled code sums them.

    The compiled density is then compared with NumPy's at (vec beta, log aux) = `point`.
    """
    if model.likelihood.least_squares:
        return [_of_moments(model), *_priors(model)], None
    if not (model.design.n > FEW if compiled is None else compiled):
        return [_of_numpy(model), *_priors(model)], None
    check_compiled_density(model, point)
    rows = RowArrays.of(model)
    return [_of_rows(model, rows), *_priors(model)], rows


def _density(model: Model, affine: AffineMap, parts: list[Sum]) -> Density:
    k = model.shape[0] * model.shape[1]
    unknown = model.unknown
    fixed = model.fixed
    centre = affine.centre
    A = np.ascontiguousarray(affine.A)
    A_transposed = np.ascontiguousarray(A.T)

    def log_prob(z: Array) -> tuple[float, Array]:
        point = centre + A.dot(z)
        slopes = np.zeros(len(centre))
        aux = {**fixed, **{a: np.exp(point[k + i]) for i, a in enumerate(unknown)}}
        # The chain rule for point = centre + A z: d log p / dz = A' d log p / d point.
        # The constant |A| is omitted.
        value = sum(part(point[:k], aux, slopes) for part in parts)
        return value, A_transposed.dot(slopes)

    return log_prob


def _of_moments(model: Model) -> Sum:
    """-W/2 log(2 pi sigma^2) + sum_i log(w_i) / 2 - (RSS + |z - R beta|^2) / (2 sigma^2) of precisions w, and slopes."""
    moments = model.design.moments
    R = np.asarray(moments.R, dtype=float)
    z = np.asarray(moments.z, dtype=float)
    scale = model.noise_scale
    rss = float(moments.factor[-1, -1]) ** 2
    W = moments.weight
    top = 0.5 * moments.log_precision

    def rows(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        sigma = aux[scale]
        # S = RSS + |z - R beta|^2: d/d beta = R'(z - R beta) / sigma^2, d/d log sigma = S / sigma^2 - W.
        r = z - R.dot(theta)
        square = (rss + r.dot(r)) / sigma**2
        slopes[: len(theta)] += r.dot(R) / sigma**2
        slopes[len(theta) :] += square - W
        return top - 0.5 * (W * float(np.log(2.0 * np.pi * sigma**2)) + float(square))

    return rows


def _of_rows(model: Model, rows: RowArrays) -> Sum:
    likelihood = model.likelihood
    shape = model.shape
    assert isinstance(likelihood, DifferentiableLikelihood)
    gradient = loops_of(rows.density).gradient
    size = shape[0] * shape[1] + len(model.unknown)

    def sum_of_rows(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        slopes_of_rows = np.empty(size)
        t = np.array(likelihood.settings(**aux), dtype=float)
        work = work_of(rows.tiles, shape[1])
        value = gradient(
            rows.tiles,
            rows.y,
            rows.w,
            rows.offset,
            theta.reshape(shape),
            t,
            slopes_of_rows,
            *work,
        )
        slopes += slopes_of_rows
        return value + rows.constant

    return sum_of_rows


def _of_numpy(model: Model) -> Sum:
    d = model.design
    likelihood = model.likelihood
    m = model.shape[1]
    assert isinstance(likelihood, DifferentiableLikelihood)
    extra = [m + likelihood.aux.index(a) for a in model.unknown]
    w = full_weights(d.weights, d.n)

    def rows(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        # d/d beta = X' diag(w) d log p / d eta, d/d log aux = sum_i w_i d log p_i / d log aux.
        eta = d.X.dot(theta.reshape(model.shape))
        eta = plus_offset(eta, d.offset)
        log_p, g, _ = likelihood.value_grad_hessian(
            d.observed, eta, **likelihood.at_rows(aux, d.precision)
        )
        slopes[: len(theta)] += d.X.T.dot(w[:, None] * g[:, :m]).ravel()
        slopes[len(theta) :] += w.dot(g[:, extra])
        return float(w.dot(log_p))

    return rows


# ---- priors --------------------------------------------------------------------------------------------------------------


def _priors(model: Model) -> list[Sum]:
    blocks = [
        _block(model, b)
        for b in model.joint.blocks
        if not isinstance(b.prior, Flat | HierarchicalPrior)
    ]
    return blocks + [_aux(model, i, a) for i, a in enumerate(model.unknown)]


def _block(model: Model, block: BlockPrior) -> Sum:
    if isinstance(block.prior, GroupedPrior):
        return _norms(model, block)
    if block.prior.root_of_groups({}) is not None:
        return _by_groups(model, block)
    if _density_of(block):
        return _compiled_block(model, block)
    return _quadratic(model, block)


def _by_groups(model: Model, block: BlockPrior) -> Sum:
    """log N(b_g; 0, Lambda Lambda') of all groups and predictors."""
    q = len(block.columns)
    m = block.width(model.shape[1])
    entries = _entries(model, block)
    root = block.prior.root_of_groups({})
    inverse = np.linalg.inv(root)
    top = float(block.prior.log_prob(np.zeros((q, m))))
    precision = inverse.T @ inverse

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        # d/d b_g = - (Lambda Lambda')^-1 b_g
        b = theta[entries].reshape(-1, len(root), m)
        pull = np.einsum("kl,glm->gkm", precision, b)
        slopes[entries] -= pull.ravel()
        return top - 0.5 * float((b * pull).sum())

    return value_of


def _entries(model: Model, block: BlockPrior) -> Array:
    return block.entries(model.shape[1])


def _unit(model: Model, block: BlockPrior) -> tuple[bool, int | None]:
    """Return whether the scales are in units of sigma, and the position of log sigma if
    it is unknown."""
    first = model.shape[0] * model.shape[1]
    if model.noise_unknown:
        place = first + model.unknown.index(model.noise_scale)
    else:
        place = None
    return block.prior.sigma_units, place if block.prior.sigma_units else None


def _compiled_block(model: Model, block: BlockPrior) -> Sum:
    prior: Any = block.prior
    if getattr(prior, "precision_matrix", None) is not None:
        return _quadratic(model, block)
    entries = _entries(model, block)
    m = block.width(model.shape[1])
    location, scale = (
        np.repeat(np.broadcast_to(v, len(block.columns)), m).astype(float)
        for v in (prior.location, prior.scales)
    )
    density = entries_of(prior.compiled_density)
    t = np.array(prior.settings, dtype=float)
    relative, place = _unit(model, block)

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        value, unit = density(
            theta,
            entries,
            location,
            scale * model.likelihood.noise(aux) if relative else scale,
            t,
            slopes,
        )
        if place is not None:
            slopes[place] += unit
        return value

    return value_of


def _quadratic(model: Model, block: BlockPrior) -> Sum:
    prior = block.prior
    q = len(block.columns)
    m = block.width(model.shape[1])
    assert isinstance(prior, GaussianPrior)  # checked in `compiled_obstacle`
    entries = _entries(model, block)
    P = prior.precision(q)
    center = prior.center(q)[:, None]
    top = float(prior.log_prob(np.broadcast_to(center, (q, m))))
    relative, place = _unit(model, block)

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        unit = model.likelihood.noise(aux) if relative else 1.0
        # log p = top - d'P d / (2 u^2) - q m log u, u = sigma for scales in its units
        # and 1 otherwise:
        # d/d beta = -P d / u^2, d/d log sigma = d'P d / u^2 - q m.
        d = theta[entries].reshape(q, m) - center
        pull = P.dot(d) / unit**2
        square = float((d * pull).sum())
        slopes[entries] -= pull.ravel()
        if place is not None:
            slopes[place] += square - q * m
        return top - 0.5 * square - q * m * float(np.log(unit))

    return value_of


def _norms(model: Model, block: BlockPrior) -> Sum:
    prior = block.prior
    q = len(block.columns)
    m = block.width(model.shape[1])
    assert isinstance(prior, GroupedPrior)
    groups = prior.members(q)
    entries = _entries(model, block).reshape(q, m)[np.concatenate(prior.members(q))]
    order = np.concatenate(groups)
    sizes = [len(g) for g in groups]
    starts = np.append(0, np.cumsum(sizes))[:-1]
    center, scale = (
        np.broadcast_to(np.asarray(v, dtype=float), q)[order][:, None]
        for v in (prior.location, prior.scales)
    )
    top = float(prior.log_prob(np.broadcast_to(center, (q, m))[np.argsort(order)]))
    relative, place = _unit(model, block)

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        unit = model.likelihood.noise(aux) if relative else 1.0
        # log p = top - sum_g |r_g| - q m log u, r = (beta - location) / (s u): d/d beta = -r / |r_g| / (s u), and
        # d/d log sigma = sum_g |r_g| - q m; the direction at the kink is 0.
        r = (theta[entries] - center) / (scale * unit)
        length = np.sqrt(np.add.reduceat(r * r, starts, axis=0))
        slopes[entries] -= (
            r
            / np.repeat(np.where(length > 0, length, 1.0), sizes, axis=0)
            / (scale * unit)
        )
        total = float(length.sum())
        if place is not None:
            slopes[place] += total - q * m
        return top - total - q * m * float(np.log(unit))

    return value_of


def _aux(model: Model, i: int, name: str) -> Sum:
    """log p(v) + log v over log v."""
    prior = model.aux_prior(name)
    place = model.shape[0] * model.shape[1] + i
    if isinstance(prior, Reference):
        return lambda theta, aux, slopes: 0.0

    def value_of(theta: Array, aux: Mapping[str, float], slopes: Array) -> float:
        # As a density of log v: log p(v) + log v.
        v = aux[name]
        slopes[place] += prior.slopes(v)[0]
        return float(prior.log_prob(np.asarray(v)) + np.log(v))

    return value_of


_ROWS = 200
_CLOSE = 1e-6  # relative to the sums of absolute values; rounding is 1e-13, a wrong term is larger


def check_compiled_density(model: Model, point: Array) -> None:
    """Raise Incompatible if density and `value_grad_hessian` differ at (vec beta, log
    aux) = point, over some of the rows."""
    likelihood, d, (p, m) = model.likelihood, model.design, model.shape
    assert isinstance(likelihood, DifferentiableLikelihood)
    assert likelihood.compiled_density is not None
    sample = slice(None, None, max(1, d.n // _ROWS))
    X = d.X[sample]
    y = np.ascontiguousarray(d.observed[sample], dtype=float)
    beta = point[: p * m].reshape(p, m)
    if d.offset is None:
        shift = np.zeros((len(y), m))
    else:
        shift = np.broadcast_to(d.offset, (d.n, m))[sample]
    aux = {
        **model.fixed,
        **dict(zip(model.unknown, np.exp(point[p * m :]).tolist(), strict=True)),
    }
    with np.errstate(all="ignore"):
        log_p, g, _ = likelihood.value_grad_hessian(y, X @ beta + shift, **aux)
        g = g[:, [*range(m), *(m + likelihood.aux.index(a) for a in model.unknown)]]
        log_p_kernel = log_p - likelihood.base_measure(y)
    exact = np.r_[log_p_kernel.sum(), (X.T @ g[:, :m]).ravel(), g[:, m:].sum(0)]
    size = np.r_[
        np.abs(log_p_kernel).sum(),
        (np.abs(X).T @ np.abs(g[:, :m])).ravel(),
        np.abs(g[:, m:]).sum(0),
    ]
    slopes = np.empty(len(exact) - 1)
    t = np.array(likelihood.settings(**aux), dtype=float)
    tiles = tiles_of(X)
    shift = np.ascontiguousarray(shift.T)
    beta = np.ascontiguousarray(beta)
    gradient = loops_of(likelihood.compiled_density).gradient
    value = gradient(tiles, y, np.zeros(0), shift, beta, t, slopes, *work_of(tiles, m))
    differs = np.abs(np.r_[value, slopes] - exact) > _CLOSE * (size + 1e-3 * len(y))
    if np.isfinite(exact).all() and (
        differs.any() or not np.isfinite(np.r_[value, slopes]).all()
    ):
        if differs[0]:
            difference = f"log p {value:g} and {exact[0]:g}"
        else:
            difference = "slopes that differ"
        raise Incompatible(
            f"the compiled density of the {likelihood.name} likelihood differs from its log_prob and value_grad_hessian: over "
            f"{len(y)} rows they have {difference}. Correct compiled_density, settings and base_measure, or set compiled_density = None"
        )
