"""Modes of a smooth model without parts of its rows, from the mode of all rows: folds, or single observations.

Let the mode of all rows have the negative Hessian H and row i the gradient g_i and negative Hessian h_i of w_i log p_i over what it
sees, J_i of the point. Without the rows of a part k the gradient there is -sum_k J_i'g_i and the negative Hessian
H_k = H - sum_k J_i'h_i J_i, from one pass over the rows for all parts. The first step is H_k^-1 of that gradient, the steps after it
hold H_k and take the gradient alone, of many parts at once. Each shrinks by about the share of the rows that is left out
times the distance of the modes, so that two or three serve. A part in which anything is doubtful is not answered.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from probreg.data.rows import full_weights
from probreg.inference.base import Array
from probreg.inference.penalized.standard_rows import PriorAt, StandardRows, inverses
from probreg.model.model import LocalModel, Model

_NEAR = 1e-9  # of sqrt(n) standard errors: how near its mode a part ends
_STEPS = 12  # that hold a curvature
_AT_ONCE = 4_000_000  # numbers of linear predictors: 32 MB


class FromOtherRows(NamedTuple):
    """What each row of the parts is predicted by from the others (r, m), nuisance parameters (K,) of each part by name, and
    which parts (K,) have a mode beyond doubt."""

    eta: Array
    aux: dict[str, Array]
    good: Array


@dataclass(frozen=True, eq=False)
class RowsInParts:
    """Rows in the order of their parts: part k is `slices[k]`, of whose weights `rest` (r,) stay when it is left out."""

    rows: StandardRows
    order: Array
    slices: tuple[slice, ...]
    rest: Array
    weights: Array

    @classmethod
    def of(
        cls, model: Model, part: Array, rest: Array | None = None
    ) -> "RowsInParts | None":
        """`part` (n,) is the number of each row's part, -1 for none; None where the rows are not for this."""
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
        if rest is None:
            left = np.zeros(len(inside))
        else:
            left = rest[inside]
        return cls(
            rows, inside, tuple(slice(a, b) for a, b in pairwise(edges)), left, weights
        )

    def without(
        self, model: Model, point: Array, guess: Array | None = None
    ) -> tuple[FromOtherRows, Array]:
        """From the mode of `model`, the prior at one scale; `guess` (K, k + a) is what was missing after the first step at a scale
        nearby, and the second result what is missing here."""
        rows = self.rows
        prior = PriorAt(self.rows, model)
        about = prior.local(point)
        _, g, h = rows.each(point)
        w = self.weights
        lost = self.weights[: len(self.rest)] - self.rest
        # H_k = H - sum_k J_i'h_i J_i, and the gradient without part k
        H = np.stack(
            [rows.curvature(h[own] * lost[own, None, None], own) for own in self.slices]
        )
        slopes = np.stack(
            [rows.gradient(g[own] * lost[own, None], own) for own in self.slices]
        )
        every = len(lost) == len(w) and not self.rest.any()
        if every:
            whole = H.sum(0)
        else:
            whole = rows.curvature(h * w[:, None, None])
        if every:
            slope = slopes.sum(0)
        else:
            slope = rows.gradient(g * w[:, None])
        inverse, good = inverses(whole + about.curvature - H)
        gradient = slope + about.gradient - slopes
        first = point + np.einsum("kij,kj->ki", inverse, gradient)
        points = first if guess is None else first + guess
        with np.errstate(
            all="ignore"
        ):  # a step too far gives inf or nan, which is doubt
            for some in self._batches():
                points[some], good[some] = self._settle(
                    prior, about, point, some, points[some], inverse[some], good[some]
                )
        good &= np.isfinite(points).all(1)
        return self._predicted(points, good), np.where(
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
        whole: Array,
        some: slice,
        points: Array,
        inverse: Array,
        good: Array,
    ) -> tuple[Array, Array]:
        """Steps that hold the curvature until all are at their modes; those that do not get there, or lie where a maximum is to be
        proved, are not good."""
        tol = _NEAR * max(1.0, np.sqrt(self.rows.model.design.total))
        before = np.full(len(points), np.inf)
        done = ~good
        for _ in range(_STEPS):
            on = np.flatnonzero(~done)
            if not len(on):
                break
            g, reach = self._slopes(
                points[on], range(some.start, some.start + len(points)), on
            )
            g += prior.slopes(whole, about, points[on])
            step = np.einsum("kij,kj->ki", inverse[on], g)
            size = np.sqrt(np.maximum((g * step).sum(1), 0.0))
            lost = ~(size < 0.7 * before[on]) | ~np.isfinite(step).all(1)
            if self.rows.may_diverge:
                lost |= ~(reach < self.rows.far)
            points[on[~lost]] += step[~lost]
            # the next step is about as much shorter as this one was
            rate = np.minimum(
                np.where(np.isfinite(before[on]), size / before[on], 0.5), 0.5
            )
            good[on[lost]] = False
            done[on] = lost | (size * rate < tol)
            before[on] = size
        good[~done] = False
        return points, good

    def _slopes(self, points: Array, numbers: range, on: Array) -> tuple[Array, Array]:
        """The gradient of the log-likelihood without each part at its point (K, k + a), and the largest |eta|."""
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
        of_aux = np.zeros((K, points.shape[1] - p * m))
        for j, k in enumerate(on):
            own = self.slices[numbers[k]]
            each = rows.scores(eta[j].T, rows.aux(points[j])) * self.weights[:, None]
            each[own] *= (self.rest[own] / self.weights[own])[:, None]
            g[j], of_aux[j] = each[:, :m].T, each[:, m:].sum(0)
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
        return np.concatenate([slope, of_aux], 1), reach

    def _predicted(self, points: Array, good: Array) -> FromOtherRows:
        m = self.rows.model.shape[1]
        k = points.shape[1] - len(self.rows.unknown)
        points = np.where(good[:, None], points, np.nan)
        eta = np.full((len(self.rest), m), np.nan)
        for j in np.flatnonzero(good):
            eta[self.slices[j]] = self.rows.eta(points[j], self.slices[j])
        return FromOtherRows(
            eta,
            {a: np.exp(points[:, k + i]) for i, a in enumerate(self.rows.unknown)},
            good,
        )
