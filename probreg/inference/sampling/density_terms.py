"""The parts of a log posterior and their slopes for the sampler: rows, priors, and blocks with scales that depend on hyperparameters.

Compiled code sums the density of a likelihood over the rows. For a Gaussian likelihood it sums over few rows with the moments of all
rows, so that the cost does not depend on the number of rows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from probreg.compiled import (
    CompiledDensity,
    entries_of,
    loops_of,
    order_by_zeros,
    tiles_of,
    work_of,
)
from probreg.data.implicit_columns import PredictorColumns
from probreg.errors import Incompatible
from probreg.inference.base import Array, split_parameters
from probreg.inference.sampling.reparameterisation import NonCentredBlock
from probreg.likelihoods import DifferentiableLikelihood
from probreg.linalg import triangular_log_det
from probreg.model.likelihood_sums import (
    base_measure_of_rows,
    density_places,
    plain_rows,
)
from probreg.model.model import Model
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    GaussianPrior,
    HierarchicalPrior,
    LatentPrior,
    ProximalPrior,
    SmoothPrior,
)
from probreg.priors.location_scale import LocationScale
from probreg.special import LOG_2PI

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
        """Return the arrays of a model; rows with a precision are multiplied by its root. Normal rows are replaced by one row for each
        column of [X y], with the same moments."""
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
        return value + rows.constant

    return value_of


def check_compiled_density(model: Model, theta: Array) -> None:
    """Raise Incompatible if the compiled density and `value_grad_hessian` differ at
    theta, over some of the rows."""
    likelihood = model.likelihood
    # number of rows for the comparison, and the largest difference relative to the sums of
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


@dataclass(frozen=True, eq=False)
class ScaleFactor:
    """beta = location + exp(log) (theta - location), elementwise over (q, m)."""

    log: Array
    slopes: tuple[Array, ...]  # of log over the log of each hyperparameter
    location: Array  # (q, 1)

    def apply(self, theta: Array) -> Array:
        """beta (q, m) of theta (q, m)."""
        return self.location + np.exp(self.log) * (theta - self.location)

    def pull_back(self, theta: Array, slopes: Array) -> tuple[Array, list[Array]]:
        """Slopes over theta, and over the log of each hyperparameter, elementwise, from slopes over beta."""
        moved = slopes * (self.apply(theta) - self.location)
        return slopes * np.exp(self.log), [s * moved for s in self.slopes]


@dataclass(frozen=True, eq=False)
class Root:
    """b_g = Lambda theta_g of each group g."""

    root: Array  # Lambda (K, K)
    slopes: Array  # (d, K, K)

    def _by_groups(self, values: Array) -> Array:
        """(G, K, m) of a block (q, m)."""
        return values.reshape(-1, len(self.root), values.shape[1])

    def apply(self, theta: Array) -> Array:
        """b (q, m) of theta (q, m)."""
        b = np.einsum("kl,glm->gkm", self.root, self._by_groups(theta))
        return b.reshape(theta.shape)

    def pull_back(self, theta: Array, slopes: Array) -> tuple[Array, list[Array]]:
        """Slopes over theta, and over the log of each hyperparameter, from slopes over b."""
        s = self._by_groups(slopes)
        u = self._by_groups(theta)
        # b = Lambda u: d/du = Lambda's, d/dLambda = sum_g s_g u_g'
        over_root = np.einsum("gkm,glm->kl", s, u)
        over_theta = np.einsum("kl,gkm->glm", self.root, s).reshape(theta.shape)
        return over_theta, [np.sum(d * over_root) for d in self.slopes]

    def log_deviations(self) -> tuple[Array, Array]:
        """The logs of the standard deviations (K,), which are the lengths of the rows, and their slopes (K, d)."""
        variances = np.square(self.root).sum(1)
        slopes = np.einsum("kl,dkl->kd", self.root, self.slopes) / variances[:, None]
        return 0.5 * np.log(variances), slopes

    def centred(self, b: Array) -> tuple[float, Array, Array]:
        """log p of effects (q, m), its slopes over them, and over the logs (d,)."""
        K = len(self.root)
        groups = self._by_groups(b)
        flat = np.moveaxis(groups, 1, 0).reshape(K, -1)
        count = flat.shape[1]
        inverse = lapack.dtrtri(self.root, lower=1)[0]
        w = inverse @ flat
        pull = inverse.T @ w
        # log p = - |w|^2 / 2 - G m log |Lambda|, w = Lambda^-1 b: d/db = - Lambda'^-1 w, d/dLambda = Lambda'^-1 (w w' - G m I)
        log_slopes = inverse.T @ (w @ w.T - count * np.eye(K))
        value = (
            -0.5 * float((w * w).sum())
            - count * float(triangular_log_det(self.root))
            - 0.5 * LOG_2PI * b.size
        )
        by_group = pull.reshape(K, len(groups), -1)
        slope = -np.moveaxis(by_group, 0, 1).reshape(b.shape)
        return value, slope, np.einsum("dkl,kl->d", self.slopes, log_slopes)


class LogHyper(NamedTuple):
    """The log of a hyperparameter among the coordinates."""

    name: str
    label: str  # as it is reported
    prior: AuxPrior
    place: slice
    shape: tuple[int, ...]

    def take(self, logs: Array) -> Array:
        """Its values, from the logs of all hyperparameters."""
        return logs[self.place].reshape(self.shape)


class LinearScales(NamedTuple):
    """Scales of coefficients, with logs that are linear in the logs of hyperparameters, and K correlated effects of each group."""

    log: Array  # (s,)
    slopes: Array  # (s, h)
    effects: int  # K, 1 without correlations
    first_pair: int  # the place of the first correlation among the logs


@dataclass(frozen=True, eq=False)
class ScaledBlock:
    """A block with hyperparameters."""

    prior: HierarchicalPrior
    hyper: tuple[LogHyper, ...]
    entries: Array  # of vec(beta)
    shape: tuple[int, int]
    base: BlockPrior  # of theta, or of centred coefficients at scale 1
    part: PriorPart  # its density
    noncentred: NonCentredBlock | None

    @cached_property
    def span(self) -> slice:
        """The places of its logs."""
        return slice(self.hyper[0].place.start, self.hyper[-1].place.stop)

    @cached_property
    def _typical(self) -> tuple[Array, Array]:
        """Location and log of the typical spread of a non-centred block, (q, 1); zeros without one."""
        q = self.shape[0]
        if self.noncentred is None:
            return np.zeros((q, 1)), np.zeros((q, 1))
        location = self.noncentred.location.reshape(self.shape)[:, :1]
        return location, np.log(np.broadcast_to(self.noncentred.spread, q))[:, None]

    def scale(self, logs: Array) -> ScaleFactor | Root:
        """The map from theta, or from the prior at scale 1, to the coefficients."""
        prior = self.prior
        q = self.shape[0]
        location, below = self._typical
        if isinstance(prior, LatentPrior):
            root = prior.root(logs[self.span])
            if root is not None:
                return Root(*root)
            (log,) = prior.log_scales(logs[None, self.span], q)
            slopes = prior.log_scale_slopes(logs[self.span], q).T
            columns = tuple(s[:, None] for s in slopes)
            return ScaleFactor(log[:, None] - below, columns, location)
        parts = []
        tiny = 1e-30  # imaginary step of a derivative without rounding errors of differences
        values: Any = {h.name: np.exp(h.take(logs)) for h in self.hyper}
        for h in self.hyper:
            moved = {h.name: np.exp(h.take(logs) + 1j * tiny)}
            spread = np.asarray(prior.spread(**values | moved))
            slope = spread.imag / spread.real / tiny
            parts.append(np.broadcast_to(slope, q)[:, None])
        log = np.broadcast_to(np.log(spread.real), q)[:, None]
        return ScaleFactor(log - below, tuple(parts), location)

    def linear_scales(self, typical: Array) -> LinearScales | None:
        """The scales of the coefficients near the logs `typical`; None if their logs are not linear in the hyperparameters' logs, or some correlations are known."""
        first, second = (self._scales_at(typical + shift) for shift in (0.0, 0.7))
        if first is None or second is None:
            return None
        if not np.allclose(first.slopes, second.slopes):
            return None
        return first._replace(log=first.log - first.slopes @ typical)

    def _scales_at(self, logs: Array) -> LinearScales | None:
        scale = self.scale(logs)
        if isinstance(scale, Root):
            return self._scales_of_effects(scale, len(logs))
        q, m = self.shape
        slopes = np.zeros((q, m, len(logs)))
        for h, slope in zip(self.hyper, scale.slopes):
            if h.shape:  # one for each coefficient, (q,) or (m, q)
                i, j = np.indices((q, m))
                slopes[i, j, h.place.start + j * q + i] = slope
            else:
                slopes[:, :, h.place.start] = slope
        log = np.broadcast_to(scale.log, (q, m)).ravel()
        return LinearScales(log, slopes.reshape(q * m, -1), 1, 0)

    def _scales_of_effects(self, root: Root, count: int) -> LinearScales | None:
        q, m = self.shape
        log, over = root.log_deviations()
        K = len(log)
        prior = self.prior
        assert isinstance(prior, LatentPrior)  # it has a root
        correlations = np.flatnonzero(~np.array(prior.scales))
        first_pair = 0
        effects = 1
        if len(correlations) or np.count_nonzero(root.root) > K:
            if m > 1 or len(correlations) < K * (K - 1) // 2:
                return None
            effects = K
            first_pair = self.span.start + int(correlations[0])
            over[:, correlations] = 0.0
        slopes = np.zeros((q * m, count))
        repeats = q // K
        slopes[:, self.span] = np.repeat(np.tile(over, (repeats, 1)), m, axis=0)
        return LinearScales(
            np.repeat(np.tile(log, repeats), m), slopes, effects, first_pair
        )
