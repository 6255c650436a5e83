"""The part of effects off the columns of Gaussian processes: sums of a process over rows, with its covariance between them.

An effect combines rows: an average, a contrast, a slope. Off the rows of the fit the process there is not known from its columns, but
is far from independent between rows near one another, so that the effect takes the covariance R of all its rows (`model.off_span`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.comparison.effects.averages import Array, AveragedEffect, Target
from probreg.fits.fit import Fit
from probreg.fits.prediction import noise_of_scale, off_span_of
from probreg.kernels.sums import RowSums
from probreg.likelihoods.links import Link
from probreg.model.group_effects import GroupEffects
from probreg.model.off_span import JointDraws, OffSpan


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
        """The included uncertainty, as the end of a sentence."""
        return f"; the variance of {', '.join(self.sums)} at new inputs and groups is included"

    def weights(
        self, fit: Fit, effects: Sequence[AveragedEffect], link: Link
    ) -> list[object]:
        """For each linear predictor the slopes of the effects in the sums, (E, n) sparse: sign share_i L_i / link'(z)."""
        from scipy.sparse import csc_array

        model = fit.model
        beta = fit.solution.beta
        aux = {k: np.asarray(v) for k, v in fit.aux.items()}
        rows, columns, values = [], [], []
        first = 0
        for effect in effects:
            for sign, target in effect.terms:
                h = target.values(model, beta, aux)
                slopes = target.slopes(model, beta)
                places = self.places[id(target)]
                for number, g in enumerate(effect.groups):
                    slope = link.slope(link.forward(g.share @ h[g.rows]))
                    row = first + number * h.shape[1] + np.arange(h.shape[1])
                    share = sign * g.share[:, None, None] / slope[:, None]
                    for (L, _), place in zip(slopes, places, strict=True):
                        column = place.start + g.rows[:, None]
                        rows.append(np.broadcast_to(row, (len(column), len(row))))
                        columns.append(np.broadcast_to(column, rows[-1].shape))
                        values.append((share * L[g.rows]).reshape(-1, model.shape[1]))
            first += len(effect.groups) * h.shape[1]
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
        return self.off.joint(self.sums, size, fit.model.shape[1], rng)


def effect_sums(
    fit: Fit, targets: Sequence[Target], *, closed: bool
) -> EffectSums | None:
    """The sums of all targets; None for a model without processes. `closed`: the sums are for a covariance in the units of the solution's
    scale, not for draws."""
    if not fit.model.design.recipe.processes and not fit.model.design.recipe.grouped:
        return None
    aux = None
    if closed:
        noise = noise_of_scale(fit.model, fit.solution)
        if noise is not None:
            aux = {fit.model.noise_scale: noise}
    off = off_span_of(fit.model, fit.solution, aux)
    if off is None:
        return None
    parts: list[Mapping[str, RowSums]] = []
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
            OffSpan(tuple(correlated)), {p.key: sums[p.key] for p in correlated}, places
        )
    return None
