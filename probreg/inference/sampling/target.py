"""The density that the sampler follows, as one compiled function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from probreg.compiled import AffineData, CompiledDensity, Work, log_density_of
from probreg.inference.base import Array
from probreg.inference.sampling.prior_parts import (
    PriorPart,
    density_of_entries,
    entries_with_scales,
    parts_of,
)
from probreg.inference.sampling.reparameterisation import Reparameterisation
from probreg.inference.sampling.row_sums import RowArrays
from probreg.inference.sampling.scaled_blocks import LinearScales, ScaledBlock
from probreg.model.model import Model
from probreg.priors import (
    AuxPrior,
    BlockPrior,
    Flat,
    GaussianPrior,
    HierarchicalPrior,
    Normal,
)
from probreg.priors.positive import LogTerms
from probreg.special import LOG_2PI


@dataclass(frozen=True, eq=False)
class CompiledTarget:
    """A log density over x (d,) for compiled code: its component densities and its arrays."""

    parts: tuple[
        CompiledDensity, bool, CompiledDensity | None, bool, bool
    ]  # see `log_density_of`
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
    unit = float(model.likelihood.noise(aux))
    # the regression on non-centred coefficients is not linear in z, so the priors of the others are those of entries
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
    """Return the coefficients of these blocks, and behind them those of normal priors of `fixed` scale.

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
        if scales is None or not _is_independent_normal(block):
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


def _is_independent_normal(block: BlockPrior) -> bool:
    return (
        isinstance(block.prior, Normal) and density_of_entries(block.prior) is not None
    )


def _constant_of(prior: AuxPrior) -> float:
    """Return log p(v) + log v less its terms."""
    assert prior.log_terms is not None  # checked by callers
    return float(prior.log_prob(np.asarray(1.0))) - prior.log_terms.at_one
