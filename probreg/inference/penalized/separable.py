"""Separable penalties R(x) = sum_j R_j(x_j) with kinks: value, subdifferential, curvature off the kinks, coordinate descent.

Absolute values and powers go by compiled loops, any other prior by its own proximal map.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from probreg.inference.base import Array
from probreg.inference.penalized.nonsmooth import (
    NonsmoothTerms,
    distance_to_subgradient,
)
from probreg.numerics.frame import vec_entries
from probreg.priors import LocationScale

# passes over all rows of G, about what the systems of as many coordinates take
_ENOUGH = 64
_PASSES = 10  # of coordinate descent between two systems, at least
_PER_SYSTEM = 30  # coordinates for which a system costs one pass more: cubes of BLAS against squares of a plain loop


class KinkedPenalty(Protocol):
    """A convex R(x) over a vector x (k,), or one with cusps, as the search for a mode asks of it."""

    @property
    def center(self) -> Array: ...

    @property
    def pointed(
        self,
    ) -> Array: ...  # bool: coordinates that have a kink at their centre

    @property
    def corners(
        self,
    ) -> (
        Array
    ): ...  # bool: those whose kink is theirs alone, so that a line may cross it

    def value(self, x: Array) -> float: ...

    def at_kink(self, x: Array) -> Array: ...

    def distance(self, gradient: Array, x: Array) -> Array: ...

    def slope(self, x: Array) -> Array: ...

    def hessian(self, x: Array) -> Array: ...

    def curvature_among(self, x: Array, free: Array) -> Array | None: ...

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array: ...


class Separable(ABC):
    """R(x) = sum_j R_j(x_j) over a vector x (k,)."""

    center: Any
    pointed: Any

    @abstractmethod
    def ends(self, x: Array) -> tuple[Array, Array]:
        """Lower and upper end of the subdifferential (k,)."""

    @abstractmethod
    def hessian(self, x: Array) -> Array:
        """(k,) off the kinks."""

    @property
    def corners(self) -> Array:
        return np.asarray(self.pointed)

    def at_kink(self, x: Array) -> Array:
        return np.asarray(self.pointed & (x == self.center))

    def distance(self, gradient: Array, x: Array) -> Array:
        """How far zero is from the gradient and the subdifferential, coordinate by coordinate."""
        return distance_to_subgradient(gradient, *self.ends(x))

    def curvature_among(self, x: Array, free: Array) -> Array | None:
        """The Hessian over some coordinates, which are off their kinks; None where it is zero."""
        hessian = self.hessian(x)[free]
        return np.diag(hessian) if hessian.any() else None


def separable_fenchel(weight: Array, ridge: Array, r: Array, g: Array) -> Array:
    """R_j(r_j) + R_j*(g_j) - g_j r_j >= 0 of R_j = weight_j |r_j| + ridge_j r_j^2 / 2, where R_j*(g_j) is finite."""
    # The conjugate of w |r| + l r^2 / 2 is (|g| - w)_+^2 / (2 l); without a ridge it is 0 up to |g| = w.
    beyond = np.where(ridge > 0, np.maximum(np.abs(g) - weight, 0.0), 0.0)
    own = (
        weight * np.abs(r)
        + 0.5 * ridge * r * r
        - g * r
        + 0.5 * beyond**2 / np.where(ridge > 0, ridge, 1.0)
    )
    return np.maximum(own, 0.0)


@dataclass(frozen=True, eq=False)
class WeightedAbsolute(Separable):
    """R(x) = sum_j weight_j |x_j - center_j| + ridge_j (x_j - center_j)^2 / 2."""

    weight: Array
    ridge: Array
    center: Array

    @property
    def pointed(self) -> Array:
        return self.weight > 0

    def among(self, J: Array) -> "WeightedAbsolute":
        """The same of some coordinates alone."""
        return WeightedAbsolute(self.weight[J], self.ridge[J], self.center[J])

    def whole(self, some: Array) -> Array:
        """Some coordinates (k,) bool, and what has a kink with them: nothing."""
        return some

    def may_enter(self, g: Array, before: "WeightedAbsolute") -> Array:
        """(k,) bool: what the sequential strong rule keeps, g being the correlations with the residuals under the penalty before."""
        # |g_j| >= 2 w_new - w_old   (Tibshirani et al. 2012).
        return np.asarray(np.abs(g) >= 2 * self.weight - before.weight)

    def feasible(self, g: Array) -> float:
        """The largest t <= 1 with R*(t g) finite, about a centre of 0."""
        lasso = (self.ridge == 0) & (self.weight > 0)
        with np.errstate(divide="ignore"):
            # t |g_j| <= weight_j for every coordinate without a ridge.
            return min(
                1.0,
                float(np.min(self.weight[lasso] / np.abs(g[lasso]), initial=np.inf)),
            )

    def fenchel(self, r: Array, g: Array) -> float:
        """R(r) + R*(g) - g'r of a feasible g, about a centre of 0."""
        return float(separable_fenchel(self.weight, self.ridge, r, g).sum())

    def value(self, x: Array) -> float:
        r = x - self.center
        return float(self.weight @ np.abs(r) + 0.5 * self.ridge @ (r * r))

    def ends(self, x: Array) -> tuple[Array, Array]:
        r = x - self.center
        # dR_j = ridge_j r + weight_j sign(r), and [-weight_j, weight_j] at r = 0.
        pull = self.ridge * r
        return pull + np.where(r > 0, 1, -1) * self.weight, pull + np.where(
            r < 0, -1, 1
        ) * self.weight

    def slope(self, x: Array) -> Array:
        r = x - self.center
        return self.ridge * r + np.sign(r) * self.weight

    def hessian(self, x: Array) -> Array:
        return self.ridge

    def descend(self, G: Array, q: Array, x: Array, J: Array, tol: float) -> bool:
        """Coordinate descent over J about a centre of 0, in place, q = c - G x of all coordinates; whether it came to rest."""
        from probreg.inference.penalized.lasso_loops import descend_among

        return bool(descend_among(G, q, x, self.weight, self.ridge, J, _ENOUGH, tol))

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Coordinate descent by compiled loops."""
        from probreg.inference.penalized.lasso_loops import descend_lasso

        H = np.ascontiguousarray(G)
        if self.ridge.any():
            # q = c - (G + ridge)(x - center) - G center: minus the gradient of the smooth part, kept up to date by the
            # descent.
            H = H + np.diag(self.ridge)
        r = x - self.center
        if self.center.any():
            q = c - G @ self.center - H @ r
        else:
            q = c - H @ r
        descend_lasso(
            H,
            q,
            r,
            np.ascontiguousarray(self.weight),
            max(_PASSES, len(r) // _PER_SYSTEM),
            tol,
        )
        return np.where(r == 0.0, self.center, self.center + r)


@dataclass(frozen=True, eq=False)
class Powers(Separable):
    """R(x) = sum_j weight_j |x_j - center_j|^exponent_j + ridge_j (x_j - center_j)^2 / 2."""

    weight: Array
    exponent: Array
    ridge: Array
    center: Array

    @property
    def pointed(self) -> Array:
        return self.weight > 0

    def value(self, x: Array) -> float:
        r = np.abs(x - self.center)
        return float(self.weight @ r**self.exponent + 0.5 * self.ridge @ (r * r))

    def ends(self, x: Array) -> tuple[Array, Array]:
        """Widened by what rounding of x can change: close to its centre a power turns within a rounding."""
        slack = 8 * np.finfo(float).eps * (np.abs(x) + np.abs(self.center))
        slopes = [self._slope(x + t * slack) for t in (-1.0, 0.0, 1.0)]
        sharp = (x == self.center) & (self.exponent <= 1)
        reach = np.where(
            self.exponent < 1, np.where(self.weight > 0, np.inf, 0.0), self.weight
        )
        low = np.min(slopes, 0)
        high = np.max(slopes, 0)
        return np.where(sharp, -reach, low), np.where(sharp, reach, high)

    def slope(self, x: Array) -> Array:
        return self._slope(x)

    def _slope(self, x: Array) -> Array:
        r = x - self.center
        size = np.where(r == 0, 1.0, np.abs(r))
        # d/dr of w |r|^e + l r^2 / 2 is w e |r|^(e - 1) sign(r) + l r.
        power = np.where(
            r == 0, 0.0, self.weight * self.exponent * size ** (self.exponent - 1)
        )
        return self.ridge * r + np.sign(r) * power

    def hessian(self, x: Array) -> Array:
        r = np.abs(x - self.center)
        size = np.where(r == 0, 1.0, r)
        e = self.exponent
        # d^2/dr^2 of w |r|^e is w e (e - 1) |r|^(e - 2), negative for e < 1.
        return self.ridge + np.where(
            r == 0, 0.0, self.weight * e * (e - 1) * size ** (e - 2)
        )

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Coordinate descent by compiled loops."""
        from probreg.inference.penalized.lasso_loops import descend_powers

        H = np.ascontiguousarray(G) + np.diag(self.ridge)
        r = x - self.center
        descend_powers(
            H, c - G @ self.center - H @ r, r, self.weight, self.exponent, _PASSES, tol
        )
        return np.where(r == 0.0, self.center, self.center + r)


@dataclass(frozen=True, eq=False)
class Proximal(Separable):
    """R by the proximal maps of any priors with kinks, over x = (vec(scale phi), further coordinates without a kink)."""

    nonsmooth: NonsmoothTerms
    scale: Array  # (p,)
    size: int

    def phi(self, x: Array) -> Array:
        p, m = self.nonsmooth.shape
        return x[: p * m].reshape(p, m) / self.scale[:, None]

    def _out(self, values: Array, power: int) -> Array:
        out = np.zeros(self.size)
        out[: values.size] = (values / self.scale[:, None] ** power).ravel()
        return out

    @property
    def center(self) -> Array:
        return self._out(
            np.repeat(self.nonsmooth.center[:, None], self.nonsmooth.shape[1], 1), -1
        )

    @property
    def pointed(self) -> Array:
        at = self.nonsmooth.at(
            np.repeat(self.nonsmooth.center[:, None], self.nonsmooth.shape[1], 1)
        )
        return self._out(at.astype(float), 0) > 0

    def value(self, x: Array) -> float:
        return -self.nonsmooth.log_prob(self.phi(x))

    def ends(self, x: Array) -> tuple[Array, Array]:
        low, high = self.nonsmooth.ends(self.phi(x))
        return self._out(low, 1), self._out(high, 1)

    def slope(self, x: Array) -> Array:
        return self._out(self.nonsmooth.slope(self.phi(x)), 1)

    def hessian(self, x: Array) -> Array:
        return self._out(self.nonsmooth.hessian(self.phi(x)), 2)

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Coordinate descent column by column, by the prior's own proximal map; coordinates without a kink together."""
        x = x.copy()
        groups = self._groups(G)
        rest = np.setdiff1d(
            np.arange(self.size), np.concatenate([at for at, *_ in groups])
        )
        if len(rest):
            inverse = np.linalg.pinv(G[np.ix_(rest, rest)], hermitian=True)
        else:
            inverse = None
        root = np.sqrt(np.maximum(np.diagonal(G), np.finfo(float).tiny))
        for _ in range(_PASSES):
            before = x.copy()
            if inverse is not None:
                x[rest] += inverse @ (c[rest] - G[rest] @ x)
            for at, prior, unit, scale, step in groups:
                there = x[at] + step * (c[at] - G[at] @ x)
                block = (there / scale).reshape(-1, self.nonsmooth.shape[1])
                found = (
                    scale
                    * np.asarray(prior.prox(block, step / scale[:1] ** 2, unit)).ravel()
                )
                x[at] = found
            if (np.abs(x - before) * root).max(initial=0.0) <= tol:
                break
        return x

    def _groups(self, G: Array) -> list[tuple[Array, Any, float, Array, float]]:
        """(coordinates, prior, unit, scale, step), a column at a time where the prior says its columns one by one."""
        m = self.nonsmooth.shape[1]
        out = []
        for part in self.nonsmooth.parts:
            for where, prior in _columns(part):
                at = vec_entries(where, m)
                own = np.repeat(self.scale[where], m)
                if np.ptp(own) > 0:  # one step serves a group: its largest
                    raise AssertionError(
                        "a prior of several columns at once needs columns of one scale"
                    )
                top = float(np.linalg.eigvalsh(G[np.ix_(at, at)])[-1])
                out.append(
                    (at, prior, part.unit, own, 1.0 / max(top, np.finfo(float).tiny))
                )
        return out


def _columns(part: Any) -> list[tuple[Array, Any]]:
    if not isinstance(part.prior, LocationScale):
        return [(part.columns, part.prior)]
    this: Any = part.prior
    scale = np.broadcast_to(this.scales, len(part.columns))
    return [
        (
            part.columns[i : i + 1],
            replace(this, scale=float(scale[i]), location=float(part.center[i])),
        )
        for i in range(len(part.columns))
    ]
