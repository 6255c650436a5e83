"""The log posterior as the sampler evaluates it, in coordinates that make it nearly round.

theta = (vec beta, log aux) = centre + A z. Blocks of coefficients with hyperparameters, such as unknown scales, have the logs
of these as further coordinates. A non-centred block has beta = location + D (theta - location), D a factor or a matrix of
the hyperparameters, and theta under the prior at typical values; a centred one is sampled directly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from probreg.inference.base import Array
from probreg.inference.sampling.reparameterisation import (
    NonCentredBlock,
    Reparameterisation,
    reparameterise,
)
from probreg.inference.sampling.row_sums import (
    RowArrays,
    Sum,
    check_compiled_density,
    sum_of_moments,
    sum_of_rows,
)
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.hyperparameters import hyper_names
from probreg.model.model import Model
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    LatentPrior,
    Prior,
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)
from probreg.special import LOG_2PI

_TINY = 1e-30  # imaginary step of a derivative, which has no rounding of differences


def compiled_obstacle(model: Model) -> str | None:
    """Return why this sampler cannot sample this model, or None."""
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
    bounded = [a for a in model.unknown if model.aux_prior(a).has_bounded_support]
    for b in model.joint.blocks:
        prior = b.prior
        if isinstance(prior, HierarchicalPrior):
            bounded += [
                prior.hyper_labels.get(k, k)
                for k, h in prior.hyper.items()
                if h.prior.has_bounded_support
            ]
            prior = prior.base
        cusp = isinstance(prior, ProximalPrior) and not prior.convex
        if cusp or not isinstance(prior, SmoothPrior | ProximalPrior | Flat):
            return f"the {prior.name} prior of {model.design.describe_columns(b.columns)} has no slopes or subgradients"
        if isinstance(prior, WholePrior):
            return f"the {prior.name} prior needs the information of all rows"
    return f"the prior of {bounded[0]} has bounded support" if bounded else None


# ---- priors --------------------------------------------------------------------------------------------------------------

# (block (q, m), unit of its scales) -> log p, slopes (q, m), slope over the log of the unit
BlockDensity = Callable[[Array, float], tuple[float, Array, float]]


def density_of_block(prior: Prior, q: int, m: int) -> BlockDensity:
    """Return log p of a block with its slopes; at a kink the middle of the subgradients."""
    if isinstance(prior, GaussianPrior):
        P = prior.precision(q)
        center = prior.center(q)[:, None]
        top = float(prior.log_prob(np.broadcast_to(center, (q, m))))

        def quadratic(block: Array, unit: float) -> tuple[float, Array, float]:
            # log p = top - d'P d / (2 u^2) - q m log u
            d = block - center
            slopes = P.dot(d) / -(unit**2)
            square = -float((d * slopes).sum())
            log_p = top - 0.5 * square - q * m * float(np.log(unit))
            return log_p, slopes, square - q * m

        return quadratic
    location: Any = getattr(prior, "location", 0.0)
    center = np.broadcast_to(np.asarray(location, dtype=float), q)[:, None]

    def value_of(block: Array, unit: float) -> tuple[float, Array, float]:
        if isinstance(prior, SmoothPrior):
            slopes = prior.slopes(block, unit)[0]
        else:
            assert isinstance(prior, ProximalPrior)  # checked in `compiled_obstacle`
            low, high = prior.subgradient(block, unit)
            slopes = -0.5 * (low + high)
        # p is a function of r / u times u^(-q m): d/d log u = -r'g - q m, r = beta - location
        over_unit = -float(((block - center) * slopes).sum()) - q * m
        return float(prior.log_prob(block, unit)), slopes, over_unit

    return value_of


@dataclass(frozen=True, eq=False)
class PriorPart:
    """The prior of a block given its hyperparameters, with the places of its coefficients."""

    entries: Array  # of vec(beta)
    shape: tuple[int, int]
    relative: bool  # whether its scales are in units of the noise scale
    density: BlockDensity

    @classmethod
    def of(cls, block: BlockPrior, prior: Prior, m: int) -> "PriorPart":
        """Of this prior in place of the block's."""
        q = len(block.columns)
        width = block.width(m)
        return cls(
            block.entries(m),
            (q, width),
            prior.sigma_units,
            density_of_block(prior, q, width),
        )

    def add(self, theta: Array, unit: float, slopes: Array) -> tuple[float, float]:
        """Add the slopes over theta; return log p and its slope over the log of the unit."""
        block = theta[self.entries].reshape(self.shape)
        value, g, over_unit = self.density(block, unit)
        slopes[self.entries] += g.ravel()
        return value, over_unit


# ---- blocks with hyperparameters -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ScaleFactor:
    """beta = location + exp(log) (theta - location), elementwise over (q, m)."""

    log: Array
    slopes: tuple[Array, ...]  # of log over the log of each hyperparameter
    location: Array  # (q, 1)

    def apply(self, theta: Array) -> Array:
        """beta (q, m) of theta (q, m)."""
        return np.asarray(self.location + np.exp(self.log) * (theta - self.location))

    def pull_back(self, theta: Array, slopes: Array) -> tuple[Array, list[Array]]:
        """Slopes over theta, and over the log of each hyperparameter, elementwise, from those over beta."""
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
        """Slopes over theta, and over the log of each hyperparameter, from those over b."""
        s = self._by_groups(slopes)
        u = self._by_groups(theta)
        # b = Lambda u: d/du = Lambda's, d/dLambda = sum_g s_g u_g'
        over_root = np.einsum("gkm,glm->kl", s, u)
        over_theta = np.einsum("kl,gkm->glm", self.root, s).reshape(theta.shape)
        return over_theta, [np.sum(d * over_root) for d in self.slopes]

    def centred(self, b: Array) -> tuple[float, Array, Array]:
        """log p of effects (q, m), its slopes over them, and over the logs (d,)."""
        K = len(self.root)
        groups = self._by_groups(b)
        flat = np.moveaxis(groups, 1, 0).reshape(K, -1)
        count = flat.shape[1]
        w = solve_triangular(self.root, flat, lower=True)
        pull = solve_triangular(self.root, w, lower=True, trans="T")
        # log p = - |w|^2 / 2 - G m log |Lambda|, w = Lambda^-1 b: d/db = - Lambda'^-1 w, d/dLambda = Lambda'^-1 (w w' - G m I)
        log_slopes = solve_triangular(
            self.root, w @ w.T - count * np.eye(K), lower=True, trans="T"
        )
        value = (
            -0.5 * float((w * w).sum())
            - count * float(np.log(np.diagonal(self.root)).sum())
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


@dataclass(frozen=True, eq=False)
class ScaledBlock:
    """A block with hyperparameters."""

    prior: HierarchicalPrior
    hyper: tuple[LogHyper, ...]
    part: PriorPart  # of theta, or of centred coefficients
    noncentred: NonCentredBlock | None

    @cached_property
    def span(self) -> slice:
        """The places of its logs."""
        return slice(self.hyper[0].place.start, self.hyper[-1].place.stop)

    @cached_property
    def _typical(self) -> tuple[Array, Array]:
        """Location and log of the typical spread of a non-centred block, (q, 1); zeros without one."""
        q = self.part.shape[0]
        if self.noncentred is None:
            return np.zeros((q, 1)), np.zeros((q, 1))
        location = self.noncentred.location.reshape(self.part.shape)[:, :1]
        return location, np.log(np.broadcast_to(self.noncentred.spread, q))[:, None]

    def scale(self, logs: Array) -> ScaleFactor | Root:
        """The map from theta, or from the prior at scale 1, to the coefficients."""
        prior = self.prior
        q = self.part.shape[0]
        location, below = self._typical
        if isinstance(prior, LatentPrior):
            root = prior.root(logs[self.span])
            if root is not None:
                return Root(*root)
            scales = prior.log_scales(logs[self.span], q)
            slopes = tuple(s[:, None] for s in scales.slopes.T)
            return ScaleFactor(scales.value[:, None] - below, slopes, location)
        parts = []
        for h in self.hyper:
            moved: Any = {
                k.name: np.exp(k.take(logs) + (1j * _TINY if k is h else 0.0))
                for k in self.hyper
            }
            spread = np.asarray(prior.spread(**moved))
            parts.append(_columns_first(spread.imag / spread.real / _TINY, q))
        log = _columns_first(np.log(spread.real), q)
        return ScaleFactor(log - below, tuple(parts), location)


def _columns_first(values: Array, q: int) -> Array:
    """(q, 1) or (q, m) of a number, (q,) or (m, q)."""
    if values.ndim < 2:
        return np.broadcast_to(values, q)[:, None]
    return values.T


@dataclass(frozen=True, eq=False)
class SampledDensity:
    """x = (z, logs of hyperparameters) -> log posterior of (beta, aux, hyperparameters) with its gradient, as a density of x."""

    model: Model
    at: Reparameterisation
    rows: RowArrays | None  # None for sums by moments

    @classmethod
    def of(cls, model: Model, at: Reparameterisation | None = None) -> "SampledDensity":
        """Create the density, by default in the coordinates of `reparameterise`."""
        at = reparameterise(model) if at is None else at
        if model.likelihood.least_squares:
            return cls(model, at, None)
        # near a mode, but off its kinks
        check_compiled_density(model, at.centre + 0.1 * at.A.sum(1))
        return cls(model, at, RowArrays.of(model))

    @cached_property
    def blocks(self) -> tuple[ScaledBlock, ...]:
        """Blocks with hyperparameters."""
        model = self.model
        noncentred = {b.block: b for b in self.at.noncentred}
        blocks = list[ScaledBlock]()
        first = 0
        for i, names in hyper_names(model.joint, model.design).items():
            b = model.joint.blocks[i]
            prior: Any = b.prior
            block = noncentred.get(i)
            base = prior.base
            if block is not None:
                base = base.times(block.spread)
            part = PriorPart.of(b, base, model.shape[1])
            hyper = []
            for k, h in prior.hyper.items():
                shape = part.shape[::-1][part.shape[1] == 1 :] if h.each else ()
                place = slice(first, first + int(np.prod(shape)))
                hyper.append(LogHyper(k, names[k], h.prior, place, shape))
                first = place.stop
            blocks.append(ScaledBlock(prior, tuple(hyper), part, block))
        return tuple(blocks)

    @cached_property
    def _likelihood(self) -> Sum:
        if self.rows is None:
            return sum_of_moments(self.model)
        return sum_of_rows(self.model, self.rows)

    @cached_property
    def _parts(self) -> list[PriorPart]:
        return [
            PriorPart.of(b, b.prior, self.model.shape[1])
            for b in self.model.joint.blocks
            if not isinstance(b.prior, Flat | HierarchicalPrior)
        ]

    @cached_property
    def _map(self) -> tuple[Any, Any]:
        """A and A', sparse where non-centred blocks make most entries zero."""
        A: Any = np.ascontiguousarray(self.at.A)
        if self.at.noncentred:
            from scipy.sparse import csr_array

            A = csr_array(A)
        return A, A.T.copy()

    @cached_property
    def _noncentred_entries(self) -> tuple[Array, Array]:
        """Entries of theta in non-centred blocks in order, and the others."""
        none = [np.zeros(0, dtype=int)]
        n = np.concatenate([*none, *(b.entries for b in self.at.noncentred)])
        return n, np.setdiff1d(np.arange(len(self.at.centre)), n)

    @cached_property
    def _noise(self) -> int | None:
        """The place of the log noise scale in theta, if it is unknown."""
        model = self.model
        if not model.noise_unknown:
            return None
        return model.shape[0] * model.shape[1] + model.unknown.index(model.noise_scale)

    @cached_property
    def typical_logs(self) -> Array:
        """Logs of typical hyperparameters."""
        logs = [
            np.full(h.place.stop - h.place.start, np.log(typical[h.name]))
            for b, typical in zip(self.blocks, self.at.typical)
            for h in b.hyper
        ]
        return np.concatenate([np.zeros(0), *logs])

    @property
    def size(self) -> int:
        """The length of x."""
        return self.at.A.shape[1] + len(self.typical_logs)

    def start(self, rng: np.random.Generator) -> Array:
        """A random start, near typical values of hyperparameters."""
        k = self.at.A.shape[1]
        if self.at.whitened:
            z = rng.standard_normal(k)
        else:
            z = rng.uniform(-1, 1, k)
        return np.r_[
            # a log: distance of chain starts from typical values of hyperparameters
            z, self.typical_logs + 0.2 * rng.standard_normal(len(self.typical_logs))
        ]

    @cached_property
    def _fixed_aux(self) -> dict[str, float]:
        return self.model.fixed

    def _point(self, x: Array) -> "Point":
        """The point x (size,), or without blocks that of each x (S, size).

        Non-centred blocks are scaled, and the others follow by their regression on these.
        """
        model = self.model
        k = self.at.A.shape[1]
        theta = self.at.centre + self._map[0].dot(x[..., :k].T).T
        scales = [b.scale(x[k:]) for b in self.blocks]
        values = theta
        if self.at.noncentred:
            values = theta.copy()
            for b, scale in zip(self.blocks, scales):
                if b.noncentred is not None:
                    e = b.part.entries
                    values[e] = scale.apply(theta[e].reshape(b.part.shape)).ravel()
            n, f = self._noncentred_entries
            values[f] += self.at.regression.dot(values[n] - self.at.centre[n])
        log_aux = values.T[model.shape[0] * model.shape[1] :]
        aux = {**self._fixed_aux, **dict(zip(model.unknown, np.exp(log_aux)))}
        return Point(x[k:], theta, scales, values, aux)

    def log_prob(self, x: Array) -> tuple[float, Array]:
        """The log density and its gradient."""
        logs, theta, scales, point, aux = self._point(x)
        slopes = np.zeros(len(point))  # over (vec beta, log aux)
        over_theta = np.zeros(len(point))  # of the priors of non-centred blocks
        over_logs = np.zeros(len(logs))
        value = self._likelihood(point, aux, slopes) + self._aux_priors(aux, slopes)
        noise = self.model.likelihood.noise(aux)

        def add(part: PriorPart, at: Array, unit: float, into: Array) -> float:
            nonlocal value
            if part.relative:
                unit = unit * noise
            log_p, over_unit = part.add(at, unit, into)
            if part.relative and self._noise is not None:
                slopes[self._noise] += over_unit
            value += log_p
            return over_unit

        for part in self._parts:
            add(part, point, 1.0, slopes)
        for b, scale in zip(self.blocks, scales):
            for h in b.hyper:
                log = h.take(logs)
                v: Any = np.exp(log)
                value += float((h.prior.log_prob(v) + log).sum())
                over_logs[h.place] += np.ravel(h.prior.slopes(v)[0])
            if b.noncentred is not None:
                add(b.part, theta, 1.0, over_theta)
            elif isinstance(scale, Root):
                e = b.part.entries
                log_p, slope, over = scale.centred(point[e].reshape(b.part.shape))
                value += log_p
                slopes[e] += slope.ravel()
                over_logs[b.span] += over
            else:
                tau = float(np.exp(scale.log[0, 0]))
                over_logs[b.span] += add(b.part, point, tau, slopes)
        n, f = self._noncentred_entries
        if len(n):
            # beta_f = theta_f + regression (beta_n - centre_n): indirect slopes of the non-centred entries
            slopes[n] += slopes[f].dot(self.at.regression)
        over_theta[f] += slopes[f]
        for b, scale in zip(self.blocks, scales):
            if b.noncentred is not None:
                e = b.part.entries
                inside, outside = (v[e].reshape(b.part.shape) for v in (theta, slopes))
                pulled, over_hyper = scale.pull_back(inside, outside)
                over_theta[e] += pulled.ravel()
                for h, over in zip(b.hyper, over_hyper):
                    over_logs[h.place] += over.T.ravel() if h.shape else over.sum()
        return float(value), np.concatenate([self._map[1].dot(over_theta), over_logs])

    def _aux_priors(self, aux: Mapping[str, Any], slopes: Array) -> float:
        """log p(v) + log v of nuisance parameters v, as a density of log v."""
        model = self.model
        value = 0.0
        for i, name in enumerate(model.unknown, model.shape[0] * model.shape[1]):
            prior = model.aux_prior(name)
            if not isinstance(prior, Reference):
                v = aux[name]
                slopes[i] += prior.slopes(v)[0]
                value += float(prior.log_prob(np.asarray(v)) + np.log(v))
        return value

    def unfold(self, x: Array) -> dict[str, Array]:
        """`beta` (..., p, m), every unknown aux, and the reported hyperparameters of x (size,) or (S, size)."""
        if x.ndim > 1 and self.blocks:
            parts = [self.unfold(v) for v in x]
            return {name: np.stack([p[name] for p in parts]) for name in parts[0]}
        model = self.model
        point = self._point(x)
        p, m = model.shape
        beta = point.values[..., : p * m].reshape(*x.shape[:-1], p, m)
        values = {"beta": beta} | {a: np.asarray(point.aux[a]) for a in model.unknown}
        for b in self.blocks:
            hyper = {h.name: np.exp(h.take(point.logs)) for h in b.hyper}
            natural = b.prior.natural(hyper)
            values |= {h.label: np.asarray(natural[h.name], float) for h in b.hyper}
        return values


class Point(NamedTuple):
    """A point x by its parts."""

    logs: Array  # of hyperparameters
    theta: Array
    scales: list[ScaleFactor | Root]
    values: Array  # (vec beta, log aux)
    aux: dict[str, Any]
