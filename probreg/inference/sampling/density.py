"""The log posterior as the sampler evaluates it, in coordinates that make it nearly round.

theta = (vec beta, log aux) = centre + A z. Blocks of coefficients with hyperparameters, such as unknown scales, have the logs
of these as further coordinates. A non-centred block has beta = location + D (theta - location), D a factor or a matrix of
the hyperparameters, and theta under the prior at typical values; a centred one is sampled directly. Where all parts are compiled
or quadratic, `SampledDensity.target` is the same density as one compiled function.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from probreg.compiled import (
    AffineData,
    CompiledDensity,
    Work,
    entries_of,
    log_density_of,
)
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
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)
from probreg.priors.location_scale import LocationScale
from probreg.priors.positive import LogTerms
from probreg.special import LOG_2PI


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
        columns = model.design.describe_columns(b.columns)
        cusp = isinstance(prior, ProximalPrior) and not prior.convex
        if cusp or not isinstance(prior, SmoothPrior | ProximalPrior | Flat):
            return f"the {prior.name} prior of {columns} has no slopes or subgradients"
        if isinstance(prior, WholePrior):
            return f"the {prior.name} prior needs the information of all rows"
    return f"the prior of {bounded[0]} has bounded support" if bounded else None


# ---- priors --------------------------------------------------------------------------------------------------------------


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
        density = _density_of(b.prior)
        if density is not None:
            independent.setdefault((density, b.prior.sigma_units), []).append(b)
        elif isinstance(b.prior, GaussianPrior):
            parts.append(PriorPart(b.prior.sigma_units, _quadratic(b, m)))
        else:
            parts.append(PriorPart(b.prior.sigma_units, _by_slopes(b, m)))
    for (density, relative), together in independent.items():
        parts.append(PriorPart(relative, _sum_of_entries(density, together, m)))
    return parts


def _density_of(prior: Any) -> EntryDensity | None:
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
    entries, location, scale = _entries_with_scales(blocks, m, 1.0)
    t = np.array(compiled.settings, dtype=float)
    return lambda theta, unit, slopes: add(
        theta, entries, location, unit * scale, t, slopes
    )


def _entries_with_scales(
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
    entries: Array  # of vec(beta)
    shape: tuple[int, int]
    part: PriorPart  # of theta, or of centred coefficients
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
            scales = prior.log_scales(logs[self.span], q)
            slopes = tuple(s[:, None] for s in scales.slopes.T)
            return ScaleFactor(scales.value[:, None] - below, slopes, location)
        parts = []
        tiny = 1e-30  # imaginary step of a derivative, which has no rounding of differences
        values: Any = {h.name: np.exp(h.take(logs)) for h in self.hyper}
        for h in self.hyper:
            moved = {h.name: np.exp(h.take(logs) + 1j * tiny)}
            spread = np.asarray(prior.spread(**values | moved))
            parts.append(_columns_first(spread.imag / spread.real / tiny, q))
        log = _columns_first(np.log(spread.real), q)
        return ScaleFactor(log - below, tuple(parts), location)


def _columns_first(values: Array, q: int) -> Array:
    """(q, 1) or (q, m) of a number, (q,) or (m, q)."""
    if values.ndim < 2:
        return np.broadcast_to(values, q)[:, None]
    return values.T


class Point(NamedTuple):
    """A point x by its parts."""

    logs: Array  # of hyperparameters
    theta: Array
    scales: list[ScaleFactor | Root]
    values: Array  # (vec beta, log aux)
    aux: dict[str, Any]


@dataclass(frozen=True, eq=False)
class SampledDensity:
    """x = (z, logs of hyperparameters) -> log posterior of (beta, aux, hyperparameters) with its gradient, as a density of x."""

    model: Model
    at: Reparameterisation
    rows: RowArrays | None  # None for sums by moments

    @classmethod
    def of(cls, model: Model, at: Reparameterisation | None = None) -> "SampledDensity":
        """Create the density, by default in the coordinates of `reparameterise`."""
        if at is None:
            at = reparameterise(model)
        if model.likelihood.least_squares:
            return cls(model, at, None)
        # near a mode, but off its kinks
        check_compiled_density(model, at.centre + 0.1 * at.A.sum(1))
        return cls(model, at, RowArrays.of(model))

    @cached_property
    def blocks(self) -> tuple[ScaledBlock, ...]:
        """Blocks with hyperparameters."""
        model = self.model
        m = model.shape[1]
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
            q, width = len(b.columns), b.width(m)
            (part,) = parts_of([replace(b, prior=base)], m)
            each = (q,) if width == 1 else (width, q)
            hyper = []
            for k, h in prior.hyper.items():
                shape = each if h.each else ()
                place = slice(first, first + int(np.prod(shape)))
                hyper.append(LogHyper(k, names[k], h.prior, place, shape))
                first = place.stop
            blocks.append(
                ScaledBlock(prior, tuple(hyper), b.entries(m), (q, width), part, block)
            )
        return tuple(blocks)

    @cached_property
    def _likelihood(self) -> Sum:
        if self.rows is None:
            return sum_of_moments(self.model)
        return sum_of_rows(self.model, self.rows)

    @cached_property
    def _parts(self) -> list[PriorPart]:
        known = [
            b
            for b in self._informative_blocks
            if not isinstance(b.prior, HierarchicalPrior)
        ]
        return parts_of(known, self.model.shape[1])

    @property
    def _informative_blocks(self) -> list[BlockPrior]:
        """Blocks with a prior that is not flat."""
        return [b for b in self.model.joint.blocks if not isinstance(b.prior, Flat)]

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

    def _point(self, x: Array) -> Point:
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
                    e = b.entries
                    values[e] = scale.apply(theta[e].reshape(b.shape)).ravel()
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
                e = b.entries
                log_p, slope, over = scale.centred(point[e].reshape(b.shape))
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
                e = b.entries
                inside, outside = (v[e].reshape(b.shape) for v in (theta, slopes))
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

    @cached_property
    def target(self) -> "CompiledTarget | None":
        """The same density as one compiled function, if compiled code sums the rows and
        knows the priors of unknown nuisance parameters, and priors of coefficients are
        quadratic or share one compiled density; else None."""
        rows = self.rows
        likelihood = self.model.likelihood
        normal, others = list[BlockPrior](), list[BlockPrior]()
        for b in self._informative_blocks:
            if isinstance(b.prior, GaussianPrior):
                normal.append(b)
            else:
                others.append(b)
        densities = {_density_of(b.prior) for b in others}
        if rows is None or None in densities or len(densities) > 1:
            return None
        assert isinstance(likelihood, DifferentiableLikelihood)  # it has compiled rows
        model = self.model
        terms = {a: model.aux_prior(a).log_terms for a in model.unknown}
        if terms and (
            None in terms.values()
            or rows.density.settings is None
            or rows.density.by_predictors
            or any(b.prior.sigma_units for b in normal + others)
        ):
            return None
        # with an unknown nuisance parameter theta has the logs of all of them
        nuisance = likelihood.density_nuisance if terms else ()
        aux = model.fixed | dict.fromkeys(terms, 1.0)
        first = rows.tiles.shape[1] * likelihood.density_width
        priors = np.zeros((len(nuisance), len(LogTerms._fields)))
        for i, a in enumerate(nuisance):
            priors[i] = terms.get(a) or LogTerms()
        places = [*rows.places, *(first + nuisance.index(a) for a in terms)]
        A = np.zeros((first + len(nuisance), self.at.A.shape[1]))
        centre = np.append(np.zeros(first), np.log([aux[a] for a in nuisance]))
        A[places], centre[places] = self.at.A, self.at.centre
        unit = float(likelihood.noise(aux))
        # of the priors of nuisance parameters v: log p(v) + log v less its terms, at v = 1
        constant = sum(
            float(model.aux_prior(a).log_prob(np.asarray(1.0))) - t.at_one
            for a, t in terms.items()
            if t is not None
        )
        top, slope, Q = self._quadratic_terms(normal, unit)
        entries, *scales = _entries_with_scales(others, model.shape[1], unit)
        density, settings = next(iter(densities), None) or (None, ())
        arrays = (
            rows.tiles, rows.y, rows.w, rows.offset, np.array(likelihood.settings(**aux), dtype=float),
            np.array(likelihood.constants, dtype=float), priors, centre, A, -slope, Q, rows.places[entries], *scales,
            np.array(settings, dtype=float), np.array([top + rows.constant + constant]),
        )  # fmt: skip
        # The C function needs writable arrays in C order.
        data = AffineData(*(np.require(v, requirements=("C", "W")) for v in arrays))
        parts = rows.density, rows.y.ndim > 1, density, bool(terms)
        return CompiledTarget(parts, data, len(likelihood.density_nuisance))

    def _quadratic_terms(
        self, blocks: list[BlockPrior], unit: float
    ) -> tuple[float, Array, Array]:
        """Return c, b and Q with log p = c + b'z - z'Q z / 2 of normal priors, at this noise scale."""
        parts = parts_of(blocks, self.model.shape[1])

        def log_normal(z: Array) -> tuple[float, Array]:
            theta = self.at.centre + self.at.A @ z
            slopes = np.zeros(len(theta))
            values = [
                p.add(theta, unit if p.relative else 1.0, slopes)[0] for p in parts
            ]
            return sum(values), self.at.A.T @ slopes

        top, slope = log_normal(np.zeros(self.size))
        Q = np.array([slope - log_normal(e)[1] for e in np.eye(self.size)])
        return top, slope, Q


@dataclass(frozen=True, eq=False)
class CompiledTarget:
    """A log density over z (d,) for compiled code: its component densities and its arrays."""

    parts: tuple[
        CompiledDensity, bool, CompiledDensity | None, bool
    ]  # see `log_density_of`
    data: AffineData
    nuisance: int = 0  # the number of nuisance parameters of the likelihood

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of the density, followed by new work arrays."""
        return (*self.data, *Work.of(self.data, self.nuisance))

    @property
    def function(self) -> Any:
        """The C function."""
        return log_density_of(*self.parts)
