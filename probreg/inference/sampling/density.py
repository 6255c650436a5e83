"""The log posterior as the sampler evaluates it, in coordinates that make it nearly round.

theta = (vec beta, log aux) = centre + A z. Blocks of coefficients with hyperparameters, such as unknown scales, have the logs
of these as further coordinates. A non-centred block has beta = location + D (theta - location), D a factor or a matrix of
the hyperparameters, and theta under the prior at typical values; a centred one is sampled directly.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from probreg.inference.base import Array
from probreg.inference.sampling.reparameterisation import (
    Reparameterisation,
    StretchedBlock,
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
from probreg.model.model import Model
from probreg.model.pymc_graph import hyper_names
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

_ABOUT = 0.2  # a log: distance of chain starts from typical values of hyperparameters
_HALF_LOG_2PI = 0.5 * float(np.log(2.0 * np.pi))
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
            return f"the {prior.name} prior of {model.design.called(b.columns)} has no slopes"
        if isinstance(prior, WholePrior):
            return f"the {prior.name} prior needs the information of all rows"
    return f"the prior of {bounded[0]} has an edge" if bounded else None


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
class Factor:
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
            - _HALF_LOG_2PI * b.size
        )
        by_group = pull.reshape(K, len(groups), -1)
        slope = -np.moveaxis(by_group, 0, 1).reshape(b.shape)
        return value, slope, np.einsum("dkl,kl->d", self.slopes, log_slopes)


@dataclass(frozen=True, eq=False)
class ScaledBlock:
    """A block with hyperparameters, and the places of their logs."""

    prior: HierarchicalPrior
    hyper: Mapping[str, AuxPrior]  # priors of its hyperparameters
    labels: Mapping[str, str]  # reported names of these
    shapes: Mapping[str, tuple[int, ...]]
    first: int  # place of its first log
    part: PriorPart  # of theta, or of centred coefficients
    loose: StretchedBlock | None

    @cached_property
    def places(self) -> dict[str, slice]:
        """The places of the logs of each hyperparameter."""
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        ends = self.first + np.cumsum(sizes)
        return {
            name: slice(int(end - size), int(end))
            for name, size, end in zip(self.shapes, sizes, ends)
        }

    def logs_of(self, logs: Array) -> dict[str, Array]:
        """The logs of each hyperparameter in its shape."""
        return {
            name: logs[place].reshape(self.shapes[name])
            for name, place in self.places.items()
        }

    @cached_property
    def _typical(self) -> tuple[Array, Array]:
        """Location and log of the typical spread of a loose block, (q, 1); zeros without one."""
        q = self.part.shape[0]
        if self.loose is None:
            return np.zeros((q, 1)), np.zeros((q, 1))
        location = self.loose.location.reshape(self.part.shape)[:, :1]
        return location, np.log(np.broadcast_to(self.loose.spread, q))[:, None]

    def scale(self, logs: Array) -> Factor | Root:
        """The map from theta, or from the prior at scale 1, to the coefficients."""
        values = self.logs_of(logs)
        prior = self.prior
        q = self.part.shape[0]
        location, below = self._typical
        if isinstance(prior, LatentPrior):
            flat = logs[self.first : self.first + len(values)]
            root = prior.root(flat)
            if root is not None:
                return Root(*root)
            scales = prior.log_scales(flat, q)
            return Factor(
                scales.value[:, None] - below,
                tuple(s[:, None] for s in scales.slopes.T),
                location,
            )
        slopes = []
        for name in values:
            moved: Any = {
                k: np.exp(v + (1j * _TINY if k == name else 0.0))
                for k, v in values.items()
            }
            spread = np.asarray(prior.spread(**moved))
            slopes.append(spread.imag / spread.real / _TINY)
        columns = [_columns_first(s, q) for s in (np.log(spread.real), *slopes)]
        return Factor(columns[0] - below, tuple(columns[1:]), location)


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
        loose = {b.block: b for b in self.at.loose}
        blocks = list[ScaledBlock]()
        first = 0
        for i, names in hyper_names(model.joint, model.design).items():
            b = model.joint.blocks[i]
            prior: Any = b.prior
            block = loose.get(i)
            base = prior.base
            if block is not None:
                base = base.times(block.spread)
            part = PriorPart.of(b, base, model.shape[1])
            each = part.shape[:1] if part.shape[1] == 1 else part.shape[::-1]
            shapes = {k: each if h.each else () for k, h in prior.hyper.items()}
            hyper = {k: h.prior for k, h in prior.hyper.items()}
            blocks.append(ScaledBlock(prior, hyper, names, shapes, first, part, block))
            first += sum(int(np.prod(shape)) for shape in shapes.values())
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
        if self.at.loose:
            from scipy.sparse import csr_array

            A = csr_array(A)
        return A, A.T.copy()

    @cached_property
    def _loose(self) -> tuple[Array, Array]:
        """Entries of theta in loose blocks in order, and the others."""
        none = [np.zeros(0, dtype=int)]
        n = np.concatenate([*none, *(b.entries for b in self.at.loose)])
        return n, np.setdiff1d(np.arange(len(self.at.centre)), n)

    @cached_property
    def _fixed(self) -> dict[str, float]:
        return self.model.fixed

    @cached_property
    def _noise(self) -> int | None:
        """The place of the log noise scale in theta, if it is unknown."""
        model = self.model
        if not model.noise_unknown:
            return None
        return model.shape[0] * model.shape[1] + model.unknown.index(model.noise_scale)

    @cached_property
    def middle(self) -> Array:
        """Logs of typical hyperparameters."""
        logs = [np.zeros(0)]
        for b, typical in zip(self.blocks, self.at.typical):
            logs += [
                np.full(b.shapes[name], np.log(typical[name])).ravel()
                for name in b.shapes
            ]
        return np.concatenate(logs)

    @property
    def size(self) -> int:
        """The length of x."""
        return self.at.A.shape[1] + len(self.middle)

    def start(self, rng: np.random.Generator) -> Array:
        """A random start, near typical values of hyperparameters."""
        k = self.at.A.shape[1]
        if self.at.whitened:
            z = rng.standard_normal(k)
        else:
            z = rng.uniform(-1, 1, k)
        return np.r_[z, self.middle + _ABOUT * rng.standard_normal(len(self.middle))]

    def _point(self, theta: Array, scales: list[Factor | Root]) -> Array:
        """(vec beta, log aux): loose blocks are scaled, and the others follow by their regression on these."""
        if not self.at.loose:
            return theta
        point = theta.copy()
        for b, scale in zip(self.blocks, scales):
            if b.loose is not None:
                e = b.part.entries
                point[e] = scale.apply(theta[e].reshape(b.part.shape)).ravel()
        n, f = self._loose
        point[f] += self.at.follow.dot(point[n] - self.at.centre[n])
        return point

    def _aux(self, point: Array) -> dict[str, Any]:
        model = self.model
        k = model.shape[0] * model.shape[1]
        return {**self._fixed, **dict(zip(model.unknown, np.exp(point[k:])))}

    def log_prob(self, x: Array) -> tuple[float, Array]:
        """The log density and its gradient."""
        A, A_transposed = self._map
        k = self.at.A.shape[1]
        logs = x[k:]
        theta = self.at.centre + A.dot(x[:k])
        scales = [b.scale(logs) for b in self.blocks]
        point = self._point(theta, scales)
        aux = self._aux(point)
        slopes = np.zeros(len(point))  # over (vec beta, log aux)
        over_theta = np.zeros(len(point))  # of the priors of loose blocks
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
            for name, log in b.logs_of(logs).items():
                prior = b.hyper[name]
                v: Any = np.exp(log)
                value += float((prior.log_prob(v) + log).sum())
                over_logs[b.places[name]] += np.ravel(prior.slopes(v)[0])
            if b.loose is not None:
                add(b.part, theta, 1.0, over_theta)
            elif isinstance(scale, Root):
                e = b.part.entries
                log_p, slope, over = scale.centred(point[e].reshape(b.part.shape))
                value += log_p
                slopes[e] += slope.ravel()
                over_logs[b.first : b.first + len(over)] += over
            else:
                tau = float(np.exp(scale.log[0, 0]))
                over_logs[b.first] += add(b.part, point, tau, slopes)
        n, f = self._loose
        if len(n):
            # beta_f = theta_f + follow (beta_n - centre_n): indirect slopes of the loose entries
            slopes[n] += slopes[f].dot(self.at.follow)
        over_theta[f] += slopes[f]
        for b, scale in zip(self.blocks, scales):
            if b.loose is not None:
                e = b.part.entries
                inside, outside = (v[e].reshape(b.part.shape) for v in (theta, slopes))
                pulled, over_hyper = scale.pull_back(inside, outside)
                over_theta[e] += pulled.ravel()
                for (name, place), v in zip(b.places.items(), over_hyper):
                    over_logs[place] += v.T.ravel() if b.shapes[name] else v.sum()
        return float(value), np.concatenate([A_transposed.dot(over_theta), over_logs])

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
        """`beta` (..., p, m), every unknown aux, and the reported hyperparameters of x (..., size)."""
        model = self.model
        k = self.at.A.shape[1]
        theta = self.at.centre + x[..., :k] @ self.at.A.T
        values: dict[str, Any] = {}
        if self.blocks:
            logs = x[..., k:].reshape(-1, x.shape[-1] - k)
            points = [
                self._point(t, [b.scale(u) for b in self.blocks])
                for t, u in zip(theta.reshape(len(logs), -1), logs)
            ]
            theta = np.array(points).reshape(theta.shape)
        q = model.shape[0] * model.shape[1]
        values["beta"] = np.ascontiguousarray(
            theta[..., :q].reshape((*x.shape[:-1], *model.shape))
        )
        values |= {
            a: np.asarray(np.exp(theta[..., q + i]))
            for i, a in enumerate(model.unknown)
        }
        for b in self.blocks:
            hyper = {
                name: np.exp(x[..., k + place.start : k + place.stop]).reshape(
                    (*x.shape[:-1], *b.shapes[name])
                )
                for name, place in b.places.items()
            }
            natural = b.prior.natural(hyper)
            values |= {b.labels[name]: np.asarray(v) for name, v in natural.items()}
        return values
