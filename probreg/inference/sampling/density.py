"""The log posterior for the sampler, in coordinates that make it nearly round.

theta = (vec beta, log aux) = centre + A z. Blocks of coefficients with hyperparameters, such as unknown scales, have the logs
of these as further coordinates. A non-centred block has beta = location + D (theta - location), D a factor or a matrix of
the hyperparameters, and theta has the prior at typical values; a centred block is sampled directly. Where all parts are compiled
or quadratic, `SampledDensity.target` is the same density as one compiled function.

The sampler's density as one compiled function.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.compiled import AffineData, CompiledDensity, Work, log_density_of
from probreg.inference.base import Array
from probreg.inference.sampling.density_terms import (
    LinearScales,
    LogHyper,
    PriorPart,
    Root,
    RowArrays,
    ScaledBlock,
    ScaleFactor,
    Sum,
    check_compiled_density,
    density_of_entries,
    entries_with_scales,
    parts_of,
    sum_of_rows,
)
from probreg.inference.sampling.reparameterisation import (
    Reparameterisation,
    reparameterise,
)
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.model import Model
from probreg.model.term_priors import hyper_names
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    Normal,
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)
from probreg.priors.positive import LogTerms
from probreg.special import LOG_2PI


@dataclass(frozen=True, eq=False)
class CompiledTarget:
    """A log density over x (d,) for compiled code: its component densities and its arrays."""

    # see `log_density_of`
    parts: tuple[CompiledDensity, bool, CompiledDensity | None, bool, bool]
    data: AffineData
    width: int  # the number of linear predictors of the likelihood's density
    nuisance: int  # and of its nuisance parameters

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Return the arrays of the density, followed by new work arrays."""
        return (*self.data, *Work.of(self.data, self.width, self.nuisance))

    @property
    def function(self) -> Any:
        """The C function."""
        return log_density_of(*self.parts)


class ScaledEntries(NamedTuple):
    """Normal coefficients with unknown scales: see `AffineData`."""

    terms: Array  # (h, 6)
    entries: Array  # (s,) of vec(beta), non-centred ones first
    priors: Array  # (s, 3)
    log_slopes: Array  # (s, h)
    groups: Array  # (b, 4)
    constant: float  # of the log priors


def compiled_target(
    model: Model,
    at: Reparameterisation,
    rows: RowArrays,
    blocks: Sequence[ScaledBlock],
    typical_logs: Array,
) -> CompiledTarget | None:
    """Return the density of a model in these coordinates as one compiled function, or None.

    Compiled code must sum the rows and have the log terms of the priors of unknown nuisance parameters and of hyperparameters. Priors of
    coefficients must be normal or share one compiled density; those with unknown scales must be normal, with log scales linear in the logs of
    hyperparameters.
    """
    informative = [b for b in model.joint.blocks if not isinstance(b.prior, Flat)]
    known = [b for b in informative if not isinstance(b.prior, HierarchicalPrior)]
    normal = [b for b in known if isinstance(b.prior, GaussianPrior)]
    others = [b for b in known if not isinstance(b.prior, GaussianPrior)]
    densities = {density_of_entries(b.prior) for b in others}
    if None in densities or len(densities) > 1:
        return None
    terms = {a: model.aux_prior(a).log_terms for a in model.unknown}
    is_relative = any(b.prior.sigma_units for b in informative)
    if terms and (None in terms.values() or is_relative or not rows.takes_aux):
        return None
    aux = model.fixed | dict.fromkeys(terms, 1.0)
    unit = model.likelihood.noise(aux)
    # the regression on non-centred coefficients is not linear in z, so the others have priors by entry
    fixed = normal if at.noncentred else []
    scaled = _scaled_entries(blocks, fixed, typical_logs, model, unit)
    if scaled is None:
        return None
    # with an unknown nuisance parameter theta has the logs of all of them
    nuisance = rows.nuisance if terms else ()
    first = rows.p * rows.width
    priors = np.zeros((len(nuisance), len(LogTerms._fields)))
    for i, a in enumerate(nuisance):
        priors[i] = terms.get(a) or LogTerms()
    places_of_aux = [first + nuisance.index(a) for a in terms]
    places = np.array([*rows.places, *places_of_aux], dtype=np.int64)
    A = np.zeros((first + len(nuisance), at.A.shape[1]))
    centre = np.append(np.zeros(first), np.log([aux[a] for a in nuisance]))
    A[places], centre[places] = at.A, at.centre
    constant = rows.constant + scaled.constant
    constant += sum(_constant_of(model.aux_prior(a)) for a in terms)
    parts = parts_of([] if fixed else normal, model.shape[1])
    top, slope, Q = _quadratic_terms(at, parts, unit)
    entries, *scales = entries_with_scales(others, model.shape[1], unit)
    other, settings_of_entries = next(iter(densities), None) or (None, ())
    regressed = places[:0]
    regression = np.zeros((0, 0))
    if at.noncentred:
        regressed = np.delete(
            places, np.concatenate([b.entries for b in at.noncentred])
        )
        regression = at.regression
    arrays = (
        rows.tiles, rows.columns, rows.y, rows.w, rows.offset, np.array(rows.settings(**aux), dtype=float), np.array(rows.constants, dtype=float), priors,
        centre, A, -slope, Q, places[entries], *scales, np.array(settings_of_entries, dtype=float), np.array([top + constant]), scaled.terms,
        places[scaled.entries], scaled.priors, scaled.log_slopes, scaled.groups, regressed, regression,
    )  # fmt: skip
    # The C function needs writable arrays in C order.
    data = AffineData(*(np.require(v, requirements=("C", "W")) for v in arrays))
    several = rows.y.ndim > 1
    components = rows.density, several, other, bool(terms), bool(blocks)
    return CompiledTarget(components, data, rows.width, len(rows.nuisance))


def _quadratic_terms(
    at: Reparameterisation, parts: list[PriorPart], unit: float
) -> tuple[float, Array, Array]:
    """Return c, b and Q with log p = c + b'z - z'Q z / 2 of normal priors, at this noise scale."""

    def log_normal(z: Array) -> tuple[float, Array]:
        theta = at.centre + at.A @ z
        slopes = np.zeros(len(theta))
        values = [p.add(theta, unit if p.relative else 1.0, slopes)[0] for p in parts]
        return sum(values), at.A.T @ slopes

    size = at.A.shape[1]
    top, slope = log_normal(np.zeros(size))
    Q = np.array([slope - log_normal(e)[1] for e in np.eye(size)])
    return top, slope, Q


def _scaled_entries(
    blocks: Sequence[ScaledBlock],
    fixed: list[BlockPrior],
    typical_logs: Array,
    model: Model,
    unit: float,
) -> ScaledEntries | None:
    """Return the coefficients of these blocks, then the coefficients with normal priors of `fixed` scale.

    None if a prior of coefficients is not normal and independent, a log scale is not linear in the logs, or a prior of a hyperparameter has
    no log terms.
    """
    m = model.shape[1]
    count = len(typical_logs)
    terms = np.zeros((count, len(LogTerms._fields)))
    constant = 0.0
    for b in blocks:
        for h in b.hyper:
            if h.prior.log_terms is None:
                return None
            terms[h.place] = h.prior.log_terms
            constant += (h.place.stop - h.place.start) * _constant_of(h.prior)
    in_order = sorted(blocks, key=lambda b: b.noncentred is None)
    scaled = [(b.base, b.linear_scales(typical_logs)) for b in in_order]
    for prior in fixed:
        size = len(prior.entries(m))
        unscaled = LinearScales(np.zeros(size), np.zeros((size, count)), 1, 0)
        scaled.append((prior, unscaled))
    entries, priors = [np.zeros(0, dtype=np.int64)], [np.zeros((0, 3))]
    log_slopes, groups = [np.zeros((0, count))], [np.zeros((0, 4), dtype=np.int64)]
    start = 0
    for block, scales in scaled:
        is_normal = isinstance(block.prior, Normal)
        if scales is None or not is_normal or density_of_entries(block.prior) is None:
            return None
        place, location, scale = entries_with_scales([block], m, unit)
        entries.append(place)
        priors.append(np.column_stack([location, scale, scales.log]))
        log_slopes.append(scales.slopes)
        number = len(place) // scales.effects
        groups.append(np.array([[start, scales.effects, number, scales.first_pair]]))
        start += len(place)
    joined = np.concatenate(priors)
    constant -= float(np.log(joined[:, 1]).sum()) + 0.5 * LOG_2PI * len(joined)
    return ScaledEntries(
        terms,
        np.concatenate(entries),
        joined,
        np.concatenate(log_slopes),
        np.concatenate(groups),
        constant,
    )


def _constant_of(prior: AuxPrior) -> float:
    """Return log p(v) + log v minus its terms."""
    assert prior.log_terms is not None  # checked by callers
    return float(prior.log_prob(np.asarray(1.0))) - prior.log_terms.at_one


def compiled_obstacle(model: Model) -> str | None:
    """Return why this sampler cannot sample this model, or None."""
    likelihood = model.likelihood
    if not likelihood.least_squares:
        if (
            not isinstance(likelihood, DifferentiableLikelihood)
            or likelihood.compiled_density is None
        ):
            return f"{likelihood.named} likelihood has no compiled density"
        reason = likelihood.compiled_density.unfit
        if reason:
            return f"the density of {likelihood.named} likelihood cannot be compiled: {reason}"
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
    rows: RowArrays

    @classmethod
    def of(cls, model: Model, at: Reparameterisation | None = None) -> "SampledDensity":
        """Create the density, by default in the coordinates of `reparameterise`."""
        if at is None:
            at = reparameterise(model)
        if not model.likelihood.least_squares:
            # near a mode, but not at its kinks
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
            at_one = replace(b, prior=base)
            (part,) = parts_of([at_one], m)
            hyper = []
            for k, h in prior.hyper.items():
                shape = (q,) if h.each else ()
                place = slice(first, first + int(np.prod(shape)))
                hyper.append(LogHyper(k, names[k], h.prior, place, shape))
                first = place.stop
            blocks.append(
                ScaledBlock(
                    prior, tuple(hyper), b.entries(m), (q, width), at_one, part, block
                )
            )
        return tuple(blocks)

    @cached_property
    def _likelihood(self) -> Sum:
        return sum_of_rows(self.model, self.rows)

    @cached_property
    def _parts(self) -> list[PriorPart]:
        known = [
            b
            for b in self.model.joint.blocks
            if not isinstance(b.prior, Flat | HierarchicalPrior)
        ]
        return parts_of(known, self.model.shape[1])

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
        return model.n_coefficients + model.unknown.index(model.noise_scale)

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
    def holds_lock(self) -> bool:
        """Whether evaluations run mostly under the interpreter's lock, as the Python density of few rows does."""
        return self.target is None and self.model.likelihood.least_squares

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

    def _point(self, x: Array) -> Point:
        """The point x (size,), or without blocks the point of each x (S, size).

        Non-centred blocks are scaled, and the others follow from their regression on these.
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
        log_aux = values.T[model.n_coefficients :]
        aux = {**model.fixed, **dict(zip(model.unknown, np.exp(log_aux)))}
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
        return value, np.concatenate([self._map[1].dot(over_theta), over_logs])

    def _aux_priors(self, aux: Mapping[str, Any], slopes: Array) -> float:
        """log p(v) + log v of nuisance parameters v, as a density of log v."""
        model = self.model
        value = 0.0
        for i, name in enumerate(model.unknown, model.n_coefficients):
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
    def target(self) -> CompiledTarget | None:
        """The same density as one compiled function, or None: see `compiled_target`."""
        return compiled_target(
            self.model, self.at, self.rows, self.blocks, self.typical_logs
        )
