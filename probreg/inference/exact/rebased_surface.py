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
    EvidencePoint,
    EvidenceSurface,
    LatentGroups,
    log_prior_of_logs,
    with_priors,
)
from probreg.model.model import Model
from probreg.priors.gaussian_process import UnknownLength

_STEP = 0.01  # of a log


class RebasedSurface(EvidenceSurface):
    """f(logs of all hyperparameters and of the nuisance parameters `outer`).

    `inner` returns the surface at given values of those in the columns, with anchors
    selected at other values of them.
    """

    dear = True

    def __init__(
        self,
        model: Model,
        groups: LatentGroups,
        inner: Callable[[Array, Array], EvidenceSurface],
        outer: tuple[str, ...],
    ) -> None:
        self.model, self.groups, self._inner = model, groups, inner
        if model.likelihood.least_squares:
            self.tol = 1e-5
        else:
            self.tol = 1e-4
        self._outer = outer
        inside = [
            isinstance(g.prior, UnknownLength) and name != "amplitude"
            for g in groups.groups
            for name in g.hyper
        ]
        self.inside = np.array([*inside, *[False] * len(outer)])
        self._made: dict[tuple[float, ...], EvidenceSurface] = {}
        # logs of the values at which anchors are selected
        self._chosen: Array | None = None

    @property
    def outer(self) -> tuple[str, ...]:
        return self._outer

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
        for j in np.flatnonzero(self.inside):
            e = _STEP * (np.arange(d) == j)
            plus, plus_two, minus, minus_two = (
                self._point(theta + k * e) for k in (1, 2, -1, -2)
            )
            # f' = [8 (f1 - f-1) - (f2 - f-2)] / 12 h, f'' = [16 (f1 + f-1) - (f2 + f-2) - 30 f0] / 12 h^2
            gradient[j] = (
                8.0 * (plus.value - minus.value) - (plus_two.value - minus_two.value)
            ) / (12.0 * _STEP)
            first_sum = plus.value + minus.value
            second_sum = plus_two.value + minus_two.value
            hessian[j, j] = (16.0 * first_sum - second_sum - 30.0 * point.value) / (
                12.0 * _STEP**2
            )
            mixed = 8.0 * (plus.gradient - minus.gradient) - (
                plus_two.gradient - minus_two.gradient
            )
            hessian[j, other_entries] = hessian[other_entries, j] = mixed / (
                12.0 * _STEP
            )
        priors_inside = [p for p, inside in zip(self.priors, self.inside) if inside]
        point_inside = EvidencePoint(
            point.value,
            gradient[self.inside],
            np.zeros((len(priors_inside),) * 2),
            point.evidence,
            point.effective,
        )
        with_density = with_priors(point_inside, theta[self.inside], priors_inside)
        gradient[self.inside] = with_density.gradient
        hessian[np.ix_(self.inside, self.inside)] += with_density.hessian
        return EvidencePoint(
            with_density.value, gradient, hessian, point.evidence, effective
        )

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
        priors_inside = [p for p, inside in zip(self.priors, self.inside) if inside]
        return np.array([self._point(t).value for t in theta]) + log_prior_of_logs(
            theta[:, self.inside], priors_inside
        )

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
