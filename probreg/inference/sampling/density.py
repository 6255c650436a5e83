"""The log posterior as the sampler evaluates it, in coordinates that make it nearly round.

theta = (vec beta, log aux) = centre + A z. Blocks of coefficients with hyperparameters, such as unknown scales, have the logs
of these as further coordinates. A non-centred block has beta = location + D (theta - location), D a factor or a matrix of
the hyperparameters, and theta under the prior at typical values; a centred one is sampled directly. Where all parts are compiled
or quadratic, `SampledDensity.target` is the same density as one compiled function.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.sampling.prior_parts import PriorPart, parts_of
from probreg.inference.sampling.reparameterisation import (
    Reparameterisation,
    reparameterise,
)
from probreg.inference.sampling.row_sums import (
    RowArrays,
    Sum,
    check_compiled_density,
    sum_of_rows,
)
from probreg.inference.sampling.scaled_blocks import (
    LogHyper,
    Root,
    ScaledBlock,
    ScaleFactor,
)
from probreg.inference.sampling.target import CompiledTarget, compiled_target
from probreg.likelihoods import DifferentiableLikelihood
from probreg.model.hyperparameters import hyper_names
from probreg.model.model import Model
from probreg.priors import (
    Flat,
    HierarchicalPrior,
    ProximalPrior,
    Reference,
    SmoothPrior,
    WholePrior,
)


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
        """Whether evaluations mostly hold the interpreter's lock, as the Python density of few rows does."""
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
        log_aux = values.T[model.n_coefficients :]
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
