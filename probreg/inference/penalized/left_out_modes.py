"""Modes of a smooth model without parts of its rows, from the mode of all rows: folds,
or single observations.

Let the mode of all rows have the negative Hessian H, and row i the gradient g_i and
negative Hessian h_i of w_i log p_i over its coordinates J_i point. Without the rows of
part k the gradient is -sum_k J_i'g_i and the negative Hessian H_k = H - sum_k J_i'h_i
J_i, from one pass over the rows for all parts. The first step is H_k^-1 times this
gradient; further steps keep H_k and compute only gradients, for many parts at once.
Each step is shorter by about the share of removed rows times the distance of the modes,
so two or three are enough. Parts with any doubt get no result.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from probreg.data.rows import full_weights
from probreg.inference.base import Array
from probreg.inference.modes.existence import FAR
from probreg.inference.penalized.standard_rows import PriorAt, StandardRows, inverses
from probreg.model.model import LocalModel, Model

_NEAR = 1e-9  # of sqrt(n) standard errors: distance from the mode at the end
_STEPS = 12  # steps with one curvature
_AT_ONCE = 4_000_000  # numbers of linear predictors in a batch: 32 MB


class FromOtherRows(NamedTuple):
    """Predictors of each row of the parts from the other rows (r, m), nuisance
    parameters (K,) of each part by name, and whether each part (K,) has a certain
    mode."""

    eta: Array
    aux: dict[str, Array]
    good: Array


@dataclass(frozen=True, eq=False)
class LeftOutParts:
    """Rows sorted by their parts: part k is `slices[k]`, and `rest` (r,) is the weight
    that remains when it is left out."""

    rows: StandardRows
    order: Array
    slices: tuple[slice, ...]
    rest: Array
    weights: Array

    @classmethod
    def of(
        cls, model: Model, part: Array, kept_weights: Array | None = None
    ) -> "LeftOutParts | None":
        """`part` (n,) is the number of each row's part, -1 for none; None if
        `StandardRows` does not apply."""
        inside = np.flatnonzero(part >= 0)
        outside = np.flatnonzero(part < 0)
        inside = inside[np.argsort(part[inside], kind="stable")]
        order = np.concatenate([inside, outside])
        rows = StandardRows.of(
            replace(model.with_prior_frozen, design=model.design.take(order))
        )
        if rows is None:
            return None
        edges = np.r_[0, np.cumsum(np.bincount(part[inside]))].tolist()
        weights = full_weights(rows.model.design.weights, len(order))
        if kept_weights is None:
            kept_of_parts = np.zeros(len(inside))
        else:
            kept_of_parts = kept_weights[inside]
        return cls(
            rows,
            inside,
            tuple(slice(a, b) for a, b in pairwise(edges)),
            kept_of_parts,
            weights,
        )

    def without(
        self, model: Model, point: Array, guess: Array | None = None
    ) -> tuple[FromOtherRows, Array]:
        """Return results from the mode of `model`, the prior at one scale, and the
        correction after the first step.

        `guess` (K, k + a) is this correction at a nearby scale.
        """
        rows = self.rows
        prior = PriorAt(self.rows, model)
        about = prior.local(point)
        _, g, h = rows.derivatives(rows.eta(point), rows.aux(point))
        w = self.weights
        removed = self.weights[: len(self.rest)] - self.rest
        # H_k = H - sum_k J_i'h_i J_i, and the gradient without part k
        H = np.stack(
            [
                rows.curvature(h[part] * removed[part, None, None], part)
                for part in self.slices
            ]
        )
        slopes = np.stack(
            [rows.gradient(g[part] * removed[part, None], part) for part in self.slices]
        )
        all_removed = len(removed) == len(w) and not self.rest.any()
        if all_removed:
            all_rows = H.sum(0)
        else:
            all_rows = rows.curvature(h * w[:, None, None])
        if all_removed:
            slope = slopes.sum(0)
        else:
            slope = rows.gradient(g * w[:, None])
        inverse, good = inverses(all_rows + about.curvature - H)
        gradient = slope + about.gradient - slopes
        first = point + np.einsum("kij,kj->ki", inverse, gradient)
        points = first if guess is None else first + guess
        with np.errstate(
            all="ignore"
        ):  # too long a step gives inf or nan, which marks doubt
            for batch in self._batches():
                points[batch], good[batch] = self._settle(
                    prior,
                    about,
                    point,
                    batch,
                    points[batch],
                    inverse[batch],
                    good[batch],
                )
        good &= np.isfinite(points).all(1)
        return self._predictions(points, good), np.where(
            good[:, None], points - first, 0.0
        )

    def _batches(self) -> Iterator[slice]:
        size = max(
            _AT_ONCE // max(self.rows.model.design.n * self.rows.model.shape[1], 1), 1
        )
        return (slice(a, a + size) for a in range(0, len(self.slices), size))

    def _settle(
        self,
        prior: PriorAt,
        about: LocalModel,
        mode: Array,
        batch: slice,
        points: Array,
        inverse: Array,
        good: Array,
    ) -> tuple[Array, Array]:
        """Make steps with a fixed curvature until all parts are at their modes.

        Parts that do not converge, or that need a proof of a maximum, are marked as not
        good.
        """
        tol = _NEAR * max(1.0, np.sqrt(self.rows.model.design.total))
        before = np.full(len(points), np.inf)
        is_done = ~good
        for _ in range(_STEPS):
            active = np.flatnonzero(~is_done)
            if not len(active):
                break
            g, reach = self._slopes(
                points[active], range(batch.start, batch.start + len(points)), active
            )
            g += prior.slopes(mode, about, points[active])
            step = np.einsum("kij,kj->ki", inverse[active], g)
            size = np.sqrt(np.maximum((g * step).sum(1), 0.0))
            failed = ~(size < 0.7 * before[active]) | ~np.isfinite(step).all(1)
            if self.rows.may_diverge:
                failed |= ~(reach < FAR)
            points[active[~failed]] += step[~failed]
            # the next step is shorter by about the same ratio
            rate = np.minimum(
                np.where(np.isfinite(before[active]), size / before[active], 0.5), 0.5
            )
            good[active[failed]] = False
            is_done[active] = failed | (size * rate < tol)
            before[active] = size
        good[~is_done] = False
        return points, good

    def _slopes(
        self, points: Array, numbers: range, active: Array
    ) -> tuple[Array, Array]:
        """Return the gradient of the log-likelihood without each part at its point (K,
        k + a), and the largest |eta|."""
        rows, ((p, m), design) = (
            self.rows,
            (self.rows.model.shape, self.rows.model.design),
        )
        K = len(points)
        n = design.n
        gamma = points[:, : p * m].reshape(K, p, m).swapaxes(1, 2).reshape(K * m, p)
        eta = (gamma @ rows.U.T).reshape(K, m, n)
        if design.offset is not None:
            eta += design.offset.T
        g = np.empty_like(eta)
        aux_slopes = np.zeros((K, points.shape[1] - p * m))
        for j, k in enumerate(active):
            part = self.slices[numbers[k]]
            scores = rows.scores(eta[j].T, rows.aux(points[j])) * self.weights[:, None]
            scores[part] *= (self.rest[part] / self.weights[part])[:, None]
            g[j], aux_slopes[j] = scores[:, :m].T, scores[:, m:].sum(0)
        slope = (
            (g.reshape(K * m, n) @ rows.U)
            .reshape(K, m, p)
            .swapaxes(1, 2)
            .reshape(K, p * m)
        )
        if rows.may_diverge:
            reach = np.abs(eta).max((1, 2))
        else:
            reach = np.zeros(K)
        return np.concatenate([slope, aux_slopes], 1), reach

    def _predictions(self, points: Array, good: Array) -> FromOtherRows:
        m = self.rows.model.shape[1]
        k = points.shape[1] - len(self.rows.model.unknown)
        points = np.where(good[:, None], points, np.nan)
        eta = np.full((len(self.rest), m), np.nan)
        for j in np.flatnonzero(good):
            eta[self.slices[j]] = self.rows.eta(points[j], self.slices[j])
        return FromOtherRows(
            eta,
            {
                a: np.exp(points[:, k + i])
                for i, a in enumerate(self.rows.model.unknown)
            },
            good,
        )
