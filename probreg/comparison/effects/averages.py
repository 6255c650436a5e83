"""Averages of means and of their slopes over rows, with exact gradients in the coefficients. Arrays only.

The averaged quantity is h_k(x_i, beta, aux): the mean of the response (class k), or its derivative along one variable. Its gradient
in beta is a sum of outer products L_i (K, m) x_i (p), so that no array over rows and coefficients is ever made; its gradient over
the nuisance parameters is over their logs. `EffectSums` adds the sums of Gaussian processes to the linear
predictors.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from probreg.data.checked_arrays import plus_offset
from probreg.fits.effects_table import off_span_of
from probreg.fits.fit import Fit
from probreg.fits.prediction import noise_of_scale
from probreg.kernels.sums import RowSums
from probreg.likelihoods.links import Link
from probreg.likelihoods.quantities import Quantity
from probreg.linalg import on_all_cores, row_slices
from probreg.model.group_effects import GroupEffects
from probreg.model.off_span import JointDraws, OffSpan
from probreg.special import differentiate

Array = np.ndarray
Aux = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class RowGroup:
    """Rows and their shares (they sum to one) in one average, with the values that name the group."""

    rows: Array
    share: Array
    labels: Mapping[str, Any] = field(default_factory=dict)

    def select(self, values: Array, axis: int = 0) -> Array:
        """Return the rows of this group from values, without a copy if these are all rows, which are in order."""
        if len(self.rows) == values.shape[axis]:
            return values
        return values[(slice(None),) * axis + (self.rows,)]


class EffectSlopes(NamedTuple):
    """The slopes of h: pairs L (n, K, m) and x (n, p) with d h_ik / d beta_jl the sum over pairs of L_ikl x_ij, and over log aux (n, K, a)."""

    pairs: list[tuple[Array, Array]]
    over_aux: Array


class Target(ABC):
    """h (..., n, K) at coefficients beta (..., p, m), and its gradient as outer products."""

    quantity: Quantity  # h is the mean of this quantity, or a slope of the mean

    @abstractmethod
    def values(self, beta: Array, aux: Aux, residual: Sequence[Array] = ()) -> Array:
        """Return h; `residual` (..., n, m) each are the additions to the linear predictors of `sums`, if there are any."""

    @abstractmethod
    def slopes(self, beta: Array, aux: Aux) -> EffectSlopes:
        """Return the slopes of h over the coefficients and the logs of the nuisance parameters."""

    def values_of_draws(
        self, beta: Array, aux: Aux, jacobians: dict[int, Array]
    ) -> Array:
        """Return h at draws; slopes in several variables share the Jacobian of their mean, by the identity of the mean."""
        return self.values(beta, aux)

    @abstractmethod
    def sums(self) -> list[Mapping[str, RowSums]]:
        """Return for each pair, in the same order, a mapping from each process to the row sums of x in its columns."""


@dataclass(frozen=True, eq=False)
class AverageMean(Target):
    """E[y | x], or another quantity, at the rows X (n, p), with offset (n, 1) or (n, m)."""

    quantity: Quantity
    X: Array
    offset: Array | None
    inputs: Mapping[str, Array] = field(default_factory=dict)  # (n, d) of each process

    def values(self, beta: Array, aux: Aux, residual: Sequence[Array] = ()) -> Array:
        eta = self.eta(beta)
        if residual:
            eta = eta + residual[0]
        mean = self.quantity.mean(eta, **aux)
        if self.quantity.has_scalar_mean:
            return mean[..., None]
        return mean

    def sums(self) -> list[Mapping[str, RowSums]]:
        return [{key: RowSums.values(x) for key, x in self.inputs.items()}]

    def slopes(self, beta: Array, aux: Aux) -> EffectSlopes:
        J, over_aux = mean_slopes(self.quantity, self.eta(beta), aux)
        return EffectSlopes([(J, self.X)], over_aux)

    def eta(self, beta: Array) -> Array:
        """Return the linear predictors."""
        return plus_offset(self.X @ beta, self.offset)


@dataclass(frozen=True, eq=False)
class AverageSlope(Target):
    """d h / d v along one variable v of the quantity h of `at`: J(eta) (D beta + o), where the columns have the slopes D (n, p)
    in v and the offset has the slopes o."""

    at: AverageMean
    D: Array
    # by process; D contains the slopes of its columns
    differences: Mapping[str, RowSums] = field(default_factory=dict)
    offset_slope: Array | None = None  # (n, 1) or (n, m), of the offset in v

    @property
    def quantity(self) -> Quantity:  # type: ignore[override]
        return self.at.quantity

    def values(self, beta: Array, aux: Aux, residual: Sequence[Array] = ()) -> Array:
        # d mu(x beta) / dv = J(eta) (dx/dv) beta
        eta = self.at.eta(beta)
        v = self.eta_slope(beta)
        if residual:
            eta = eta + residual[1]
            v = v + residual[0]
        J = mean_slopes(self.quantity, eta, aux)[0]
        return np.einsum("...nkm,...nm->...nk", J, v)

    def values_of_draws(
        self, beta: Array, aux: Aux, jacobians: dict[int, Array]
    ) -> Array:
        if id(self.at) not in jacobians:
            eta = self.at.eta(beta)
            jacobians[id(self.at)] = mean_slopes(self.quantity, eta, aux)[0]
        return np.einsum("snkm,snm->snk", jacobians[id(self.at)], self.eta_slope(beta))

    def eta_slope(self, beta: Array) -> Array:
        """Return the slopes of the linear predictors in v."""
        return plus_offset(self.D @ beta, self.offset_slope)

    def sums(self) -> list[Mapping[str, RowSums]]:
        return [self.differences, *self.at.sums()]

    def slopes(self, beta: Array, aux: Aux) -> EffectSlopes:
        eta = self.at.eta(beta)
        v = self.eta_slope(beta)
        J = mean_slopes(self.quantity, eta, aux)[0]
        # d/d beta of J(eta) v = J D + (dJ/d eta along v) X, with v = D beta + o, and d/d log aux of it is the slope of
        # d mean / d log aux along v
        along, over_aux = _slopes_along(self.quantity, eta, v, aux)
        return EffectSlopes([(J, self.D), (along, self.at.X)], over_aux)


@dataclass(frozen=True, eq=False)
class AveragedEffect:
    """One set of effects over groups of rows, with its `labels`; with two targets, the second minus the first."""

    labels: Mapping[str, Any]
    targets: tuple[Target, ...]

    @property
    def terms(self) -> list[tuple[float, Target]]:
        """The targets with their signs."""
        return list(zip((-1.0, 1.0)[-len(self.targets) :], self.targets))


def mean_slopes(quantity: Quantity, eta: Array, aux: Aux) -> tuple[Array, Array]:
    """d mean / d eta, (..., n, K, m), and d mean / d log aux, (..., n, K, a), from the `line` of `link_mean_and_slope` and the link."""
    line, J, A = quantity.link_mean_and_slope(eta, **aux)
    # mu = g^-1(line(eta)): d mu / d eta = (g^-1)'(line) d line / d eta.
    slope = quantity.link.slope(line)[..., None]
    with np.errstate(invalid="ignore"):  # inf at the end of the domain of a link
        return slope * J, slope * A


def _slopes_along(
    quantity: Quantity, eta: Array, v: Array, aux: Aux
) -> tuple[Array, Array]:
    """d/dt `mean_slopes` at eta + t v, t = 0, (n, K, m) and (n, K, a): second derivatives of the mean, by five-point differences."""
    size = np.abs(v).max(1, initial=0.0)[:, None]
    unit = v / np.where(size > 0, size, 1.0)

    def joined_slopes(t: float) -> Array:
        return np.concatenate(mean_slopes(quantity, eta + t * unit, aux), -1)

    # the error, step^4 / 30, and rounding are both near 1e-13
    slope = differentiate(joined_slopes, 2e-3) * size[..., None]
    m = eta.shape[1]
    return slope[..., :m], slope[..., m:]


def average(
    target: Target, groups: list[RowGroup], beta: Array, aux: Aux
) -> tuple[Array, Array, Array]:
    """Averages (G, K), their gradients (G, K, p m + a) over vec(beta), column first, then predictor, and the logs of the nuisance
    parameters, and the averaged quantity, (n, K)."""
    h = target.values(beta, aux)
    slopes = target.slopes(beta, aux)
    # sum_i s_i h_i, with gradient sum_i s_i L_i kron x_i.
    value = np.stack([g.share @ g.select(h) for g in groups])
    gradient = np.zeros((*value.shape, *beta.shape))
    for g, total in zip(groups, gradient):
        for L, X in slopes.pairs:
            weighted = g.share[:, None, None] * g.select(L)
            by_predictor = weighted.mT.reshape(len(weighted), -1)
            sums = (g.select(X).T @ by_predictor).reshape(*beta.shape, -1)
            total += np.moveaxis(sums, -1, 0)
    over_aux = [np.tensordot(g.share, g.select(slopes.over_aux), 1) for g in groups]
    over_beta = gradient.reshape(*value.shape, -1)
    return value, np.concatenate([over_beta, np.stack(over_aux)], -1), h


def moves_of_rows(
    h: Array, value: Array, groups: Sequence[RowGroup], units: Array
) -> Array:
    """Return the influence (n, G, K) of one unit of each row on the averages of h (n, K): share_i (h_i - average) / units_i."""
    scores = np.zeros((len(h), *value.shape))
    for number, g in enumerate(groups):
        counted = g.rows[units[g.rows] > 0]  # a row of weight zero has no units
        share = g.share[units[g.rows] > 0] / units[counted]
        scores[counted, number] = share[:, None] * (h[counted] - value[number])
    return scores


def averages_of_draws(
    targets: Sequence[Target],
    groups: Sequence[RowGroup],
    draws: Mapping[str, Array],
    residual: Callable[[Target, slice], Sequence[Array]] | None = None,
) -> list[Array]:
    """(S, G, K) of each target: its averages at every draw of beta (S, p, m) and aux (S, 1), with the additions to the predictors for
    some atoms."""
    block_size = 65_536  # draws times rows times classes that stay in cache
    n = max([g.rows.max(initial=0) + 1 for g in groups])
    width = draws["beta"].shape[-1]
    quantity = targets[0].quantity
    classes = 1 if quantity.has_scalar_mean else len(quantity.levels)
    size = max(1, block_size // (n * classes * width))

    def part(atoms: slice) -> list[Array]:
        aux = {k: v[atoms] for k, v in draws.items()}
        beta = aux.pop("beta")
        jacobians: dict[int, Array] = {}
        averages = []
        for target in targets:
            if residual is None:
                h = target.values_of_draws(beta, aux, jacobians)
            else:
                h = target.values(beta, aux, residual(target, atoms))
            # einsum of one row of numbers and a stack does not use a matrix product; tensordot does
            means = [
                np.tensordot(g.select(h, 1), g.share, ((1,), (0,))) for g in groups
            ]
            averages.append(np.stack(means, 1))
        return averages

    blocks = on_all_cores(part, row_slices(len(draws["beta"]), size))
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


@dataclass(frozen=True, eq=False)
class EffectSums:
    """The sums of each process in the linear predictors of effects: all of them in one order, with the positions of each target's sums."""

    off: OffSpan
    sums: dict[str, RowSums]
    # by the identity of the target, in the order of its slopes
    places: dict[int, list[slice]]

    @property
    def n(self) -> int:
        return next(iter(self.sums.values())).n

    @property
    def words(self) -> str:
        """A description of the included uncertainty, as the end of a sentence."""
        return f"; the variance of {', '.join(self.sums)} at new inputs and groups is included"

    def weights(
        self,
        fit: Fit,
        effects: Sequence[AveragedEffect],
        groups: Sequence[RowGroup],
        link: Link,
    ) -> list[object]:
        """For each linear predictor the slopes of the effects in the sums, (E, n) sparse: sign share_i L_i / link'(z)."""
        from scipy.sparse import csc_array

        beta = fit.solution.beta
        aux = fit.aux
        rows, columns, values = [], [], []
        first = 0
        for effect in effects:
            for sign, target in effect.terms:
                h = target.values(beta, aux)
                pairs = target.slopes(beta, aux).pairs
                places = self.places[id(target)]
                for number, g in enumerate(groups):
                    slope = link.slope(link.forward(g.share @ h[g.rows]))
                    row = first + number * h.shape[1] + np.arange(h.shape[1])
                    share = sign * g.share[:, None, None] / slope[:, None]
                    for (L, _), place in zip(pairs, places, strict=True):
                        column = place.start + g.rows[:, None]
                        rows.append(np.broadcast_to(row, (len(column), len(row))))
                        columns.append(np.broadcast_to(column, rows[-1].shape))
                        values.append((share * L[g.rows]).reshape(-1, beta.shape[-1]))
            first += len(groups) * h.shape[1]
        entry = [
            np.concatenate([x.ravel() for x in parts]) for parts in (rows, columns)
        ]
        return [
            csc_array((value, entry), shape=(first, self.n))
            for value in np.concatenate(values).T
        ]

    @cached_property
    def _mean_of_sums(self) -> Array | None:
        return self.off.mean_of_sums(self.sums)

    def means(self, target: Target) -> Sequence[Array]:
        """Return the mean, over the draws, of the term that is added to the predictors of a target; () if it is 0."""
        if self._mean_of_sums is None:
            return ()
        return [self._mean_of_sums[place] for place in self.places[id(target)]]

    def joint(self, fit: Fit, size: int, rng: np.random.Generator) -> JointDraws:
        """Draws of all sums, for effects that are not linear in them."""
        width = fit.model.likelihood.width
        return self.off.joint(self.sums, size, width, rng)

    def residual(
        self, joint: JointDraws, target: Target, atoms: slice
    ) -> Sequence[Array]:
        """Return the additions to the predictors of a target in some draws of all sums."""
        return [np.asarray(joint.at(place, atoms)) for place in self.places[id(target)]]


def effect_sums(
    fit: Fit, targets: Sequence[Target], *, closed: bool
) -> EffectSums | None:
    """The sums of all targets; None for a model without processes. `closed`: the sums are for a covariance in the units of the solution's
    scale, not for draws."""
    model = fit.model
    aux = None
    if closed:
        noise = noise_of_scale(model, fit.solution)
        if noise is not None:
            aux = {model.noise_scale: noise}
    off = off_span_of(model, fit.solution, aux)
    if off is None:
        return None
    parts = []
    places: dict[int, list[slice]] = {}
    first = 0
    for target in {id(target): target for target in targets}.values():
        places[id(target)] = []
        for term in target.sums():
            n = next(iter(term.values())).n
            places[id(target)].append(slice(first, first + n))
            parts.append(term)
            first += n
    sums = {
        p.key: RowSums.concatenate([part[p.key] for part in parts])
        for p in off.processes
    }
    correlated = [
        p
        for p in off.processes
        if not isinstance(p, GroupEffects) or p.new_in(sums[p.key])
    ]
    if correlated:
        return EffectSums(
            replace(off, processes=tuple(correlated)),
            {p.key: sums[p.key] for p in correlated},
            places,
        )
    return None
