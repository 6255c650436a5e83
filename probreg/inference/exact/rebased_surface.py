"""The evidence over hyperparameters that are in the columns of a basis, where no formula follows them: the basis is made anew.

At given lengths the model is one of known columns, whose evidence over the other hyperparameters is that of `inner`. Over the logs of
the lengths it has differences of five points, with an error near 1e-9 of the value's own. Where a basis chooses anchors or
frequencies, those of one place serve all lengths of a search, or the surface would have steps; the search is repeated from its end.
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
from probreg.priors import AuxPrior
from probreg.priors.gaussian_process import UnknownLength

_STEP = 0.01  # of a log


class RebasedSurface(EvidenceSurface):
    """f(logs of all hyperparameters and of the nuisance parameters `outer`); `inner` is the surface at given values of those in the
    columns, where anchors are chosen at other values of them."""

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
        self._aux = [model.aux_prior(a) for a in outer]
        inside = [
            isinstance(g.prior, UnknownLength) and name != "amplitude"
            for g in groups.groups
            for name in g.hyper
        ]
        self.inside = np.array([*inside, *[False] * len(self._aux)])
        self._made: dict[tuple[float, ...], EvidenceSurface] = {}
        # logs of the values at which anchors are chosen
        self._chosen: Array | None = None

    def choose_at(self, theta: Array) -> bool:
        """Anchors are those of the lengths at theta from now on."""
        self._chosen = theta[self.inside]
        self._made.clear()
        return True

    @property
    def response_scale(self) -> float:
        return self.model.design.moments.y_scale or 1.0

    @property
    def priors(self) -> list[AuxPrior]:
        """Those of the hyperparameters and of `outer`, in the order of theta."""
        return [*self.groups.priors, *self._aux]

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
        """Of the inner surface: its gradient and Hessian over the other coordinates."""
        return self._at(theta[self.inside])(theta[~self.inside])

    def inner_at(self, theta: Array) -> tuple[EvidenceSurface, Array]:
        """The surface of the columns at theta, and the other coordinates."""
        return self._at(theta[self.inside]), theta[~self.inside]

    def __call__(self, theta: Array) -> EvidencePoint:
        at = self._point(theta)
        d = len(theta)
        others = np.flatnonzero(~self.inside)
        gradient = np.zeros(d)
        hessian = np.zeros((d, d))
        effective = np.zeros(len(self.groups.priors))
        gradient[others], hessian[np.ix_(others, others)] = at.gradient, at.hessian
        effective[others[: len(at.effective)]] = at.effective
        for j in np.flatnonzero(self.inside):
            e = _STEP * (np.arange(d) == j)
            one, two, back, twice = (self._point(theta + k * e) for k in (1, 2, -1, -2))
            # f' = [8 (f1 - f-1) - (f2 - f-2)] / 12 h, f'' = [16 (f1 + f-1) - (f2 + f-2) - 30 f0] / 12 h^2
            gradient[j] = (
                8.0 * (one.value - back.value) - (two.value - twice.value)
            ) / (12.0 * _STEP)
            near = one.value + back.value
            far = two.value + twice.value
            hessian[j, j] = (16.0 * near - far - 30.0 * at.value) / (12.0 * _STEP**2)
            mixed = 8.0 * (one.gradient - back.gradient) - (
                two.gradient - twice.gradient
            )
            hessian[j, others] = hessian[others, j] = mixed / (12.0 * _STEP)
        own = [p for p, inside in zip(self.priors, self.inside) if inside]
        here = EvidencePoint(
            at.value,
            gradient[self.inside],
            np.zeros((len(own),) * 2),
            at.evidence,
            at.effective,
        )
        more = with_priors(here, theta[self.inside], own)
        gradient[self.inside] = more.gradient
        hessian[np.ix_(self.inside, self.inside)] += more.hessian
        return EvidencePoint(more.value, gradient, hessian, at.evidence, effective)

    def hessian(self, theta: Array, near: Array) -> Array:
        """The differences of `__call__`, with the Hessian of the inner surface and mixed derivatives over the moving coordinates."""
        H = self(theta).hessian
        others = np.ix_(~self.inside, ~self.inside)
        moving = np.flatnonzero(self.inside)
        H[others] = self._at(theta[self.inside]).hessian(
            theta[~self.inside], near[others]
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
        own = [p for p, inside in zip(self.priors, self.inside) if inside]
        return np.array([self._point(t).value for t in theta]) + log_prior_of_logs(
            theta[:, self.inside], own
        )

    def starts(self) -> list[Array]:
        """The best start of the inner surfaces at the starts of the lengths."""
        points = []
        for logs in self.groups.starts():
            moved = logs[self.inside[: len(logs)]]
            for inner in self._at(moved).starts():
                theta = np.empty(len(self.inside))
                theta[self.inside], theta[~self.inside] = moved, inner
                points.append(theta)
        found = self.values(np.array(points))
        best = points[int(np.argmax(np.where(np.isnan(found), -np.inf, found)))]
        self.choose_at(best)
        return [best]
