"""The evidence over hyperparameters in the columns of a basis, without a formula: the
basis is rebuilt.

At given lengths the columns are known, and `inner` is the evidence over the other
hyperparameters. Derivatives over the logs of the lengths are five-point differences,
with an error near 1e-9 of the value's own. If a basis selects anchors or frequencies,
one selection is used for all lengths of a search, because the surface would have steps;
the search is repeated from its end.
"""

from collections.abc import Callable

import numpy as np

from probreg.inference.base import Array
from probreg.inference.exact.latent_groups import (
    DIFFERENCE,
    FIVE_POINTS,
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    five_point_slope,
    log_prior_of_logs,
)
from probreg.model.model import Model
from probreg.priors import AuxPrior
from probreg.priors.gaussian_process import UnknownLength


class RebasedSurface(EvidenceSurface):
    """f(logs of all hyperparameters and of the nuisance parameters `outer`).

    `inner` returns the surface at given values of those in the columns, with anchors
    selected at other values of them.
    """

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        inner: Callable[[Array, Array], EvidenceSurface],
        outer: tuple[str, ...],
    ) -> None:
        super().__init__(model, groups, outer=outer)
        self._inner = inner
        if model.likelihood.least_squares:
            self.tol = 1e-5
        else:
            self.tol = 1e-4
        inside = [
            isinstance(g.prior, UnknownLength) and name != "amplitude"
            for g in groups.groups
            for name in g.hyper
        ]
        self.inside = np.array([*inside, *[False] * len(outer)])
        self._made: dict[tuple[float, ...], EvidenceSurface] = {}
        # logs of the values at which anchors are selected
        self._chosen: Array | None = None

    def choose_at(self, theta: Array) -> bool:
        """Select anchors at the lengths of theta from now on."""
        self._chosen = theta[self.inside]
        self._made.clear()
        return True

    @property
    def response_scale(self) -> float:
        return self.model.design.moments.y_scale or 1.0

    def _at(self, logs: Array) -> EvidenceSurface:
        key = tuple(logs.tolist())
        if key not in self._made:
            if len(self._made) > 8:
                self._made.clear()
            self._made[key] = self._inner(
                np.exp(logs), np.exp(logs if self._chosen is None else self._chosen)
            )
        return self._made[key]

    def _point(self, theta: Array) -> EvidencePoint:
        """The point of the inner surface, with gradient and Hessian over the other
        coordinates."""
        return self._at(theta[self.inside])(theta[~self.inside])

    def inner_at(self, theta: Array) -> tuple[EvidenceSurface, Array]:
        return self._at(theta[self.inside]), theta[~self.inside]

    def __call__(self, theta: Array) -> EvidencePoint:
        step = 0.01  # of a log
        point = self._point(theta)
        d = len(theta)
        other_entries = np.flatnonzero(~self.inside)
        gradient = np.zeros(d)
        hessian = np.zeros((d, d))
        effective = np.zeros(len(self.groups.priors))
        gradient[other_entries], hessian[np.ix_(other_entries, other_entries)] = (
            point.gradient,
            point.hessian,
        )
        effective[other_entries[: len(point.effective)]] = point.effective
        for j, prior in zip(np.flatnonzero(self.inside), self._priors_inside):
            e = step * (np.arange(d) == j)
            points = [self._point(theta + k * e) for k in FIVE_POINTS]
            f = np.array([each.value for each in points])
            slopes = five_point_slope(
                np.array([each.gradient for each in points]), step
            )
            slope, second = prior.slopes(float(np.exp(theta[j])))
            gradient[j] = five_point_slope(f, step) + slope
            # f'' = [16 (f1 + f-1) - (f2 + f-2) - 30 f0] / 12 h^2
            bend = 16.0 * (f[0] + f[2]) - (f[1] + f[3]) - 30.0 * point.value
            hessian[j, j] = bend / (12.0 * step**2) + second
            hessian[j, other_entries] = hessian[other_entries, j] = slopes
        value = point.value + float(self._log_prior_inside(theta[None])[0])
        return EvidencePoint(value, gradient, hessian, point.evidence, effective)

    @property
    def _priors_inside(self) -> list[AuxPrior]:
        return [p for p, inside in zip(self.priors, self.inside) if inside]

    def _log_prior_inside(self, theta: Array) -> Array:
        return log_prior_of_logs(theta[:, self.inside], self._priors_inside)

    def hessian(self, theta: Array, hessian_near: Array) -> Array:
        """Differences of `__call__`, with the Hessian of the inner surface and mixed
        derivatives over the lengths."""
        H = self(theta).hessian
        other_entries = np.ix_(~self.inside, ~self.inside)
        moving = np.flatnonzero(self.inside)
        H[other_entries] = self._at(theta[self.inside]).hessian(
            theta[~self.inside], hessian_near[other_entries]
        )
        for i, j in enumerate(moving[1:], 1):
            step = DIFFERENCE * (np.arange(len(theta)) == j)
            slopes = (self(theta + step).gradient - self(theta - step).gradient)[
                moving[:i]
            ] / (2.0 * DIFFERENCE)
            H[j, moving[:i]] = H[moving[:i], j] = slopes
        return H

    def values(self, theta: Array) -> Array:
        """The value (S,) at each of theta (S, d), as of `__call__`."""
        values = np.array([self._point(t).value for t in theta])
        return values + self._log_prior_inside(theta)

    def starts(self) -> list[Array]:
        """The best start of the inner surfaces at the starts of the lengths."""
        points = []
        for logs in self.groups.starts():
            lengths = logs[self.inside[: len(logs)]]
            for inner in self._at(lengths).starts():
                theta = np.empty(len(self.inside))
                theta[self.inside], theta[~self.inside] = lengths, inner
                points.append(theta)
        values = self.values(np.array(points))
        best = points[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))]
        self.choose_at(best)
        return [best]
