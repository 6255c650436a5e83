"""Separable penalties R(x) = sum_j R_j(x_j) with kinks: value, subdifferential, curvature off the kinks, coordinate descent.

Absolute values and powers use compiled loops, any other prior its own proximal map.
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

# passes over all rows of G, which cost about as much as the systems of as many
# coordinates
_ENOUGH = 64
_PASSES = 10  # minimal number of descent passes between two systems
_PER_SYSTEM = 30  # coordinates per additional pass: a system costs cubes in BLAS, a pass squares in a plain loop


class KinkedPenalty(Protocol):
    """A convex R(x) over a vector x (k,), or one with cusps: the interface for the
    search of a mode."""

    @property
    def center(self) -> Array: ...

    @property
    def has_kink(
        self,
    ) -> Array: ...  # bool: coordinates that have a kink at their centre

    @property
    def corners(
        self,
    ) -> Array: ...  # bool: those with a kink of their own, which a line may cross

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
    has_kink: Any

    @abstractmethod
    def ends(self, x: Array) -> tuple[Array, Array]:
        """Lower and upper end of the subdifferential (k,)."""

    @abstractmethod
    def hessian(self, x: Array) -> Array:
        """(k,) off the kinks."""

    @property
    def corners(self) -> Array:
        return np.asarray(self.has_kink)

    def at_kink(self, x: Array) -> Array:
        return np.asarray(self.has_kink & (x == self.center))

    def distance(self, gradient: Array, x: Array) -> Array:
        """The distance of zero from the gradient plus the subdifferential in each
        coordinate."""
        return distance_to_subgradient(gradient, *self.ends(x))

    def curvature_among(self, x: Array, free: Array) -> Array | None:
        """The Hessian over some coordinates off their kinks; None if it is zero."""
        hessian = self.hessian(x)[free]
        return np.diag(hessian) if hessian.any() else None


def separable_fenchel(weight: Array, ridge: Array, r: Array, g: Array) -> Array:
    """Return R_j(r_j) + R_j*(g_j) - g_j r_j >= 0 of R_j = weight_j |r_j| + ridge_j
    r_j^2 / 2, for finite R_j*(g_j)."""
    # The conjugate of w |r| + l r^2 / 2 is (|g| - w)_+^2 / (2 l); without a ridge it is 0 up to |g| = w.
    beyond = np.where(ridge > 0, np.maximum(np.abs(g) - weight, 0.0), 0.0)
    gap = (
        weight * np.abs(r)
        + 0.5 * ridge * r * r
        - g * r
        + 0.5 * beyond**2 / np.where(ridge > 0, ridge, 1.0)
    )
    return np.maximum(gap, 0.0)


@dataclass(frozen=True, eq=False)
class WeightedAbsolute(Separable):
    """R(x) = sum_j weight_j |x_j - center_j| + ridge_j (x_j - center_j)^2 / 2."""

    weight: Array
    ridge: Array
    center: Array

    @property
    def has_kink(self) -> Array:
        return self.weight > 0

    def among(self, J: Array) -> "WeightedAbsolute":
        """Restrict to some coordinates."""
        return WeightedAbsolute(self.weight[J], self.ridge[J], self.center[J])

    def whole(self, marked: Array) -> Array:
        """Return the marked coordinates (k,) bool; no others share a kink with them."""
        return marked

    def may_enter(self, g: Array, before: "WeightedAbsolute") -> Array:
        """(k,) bool: coordinates kept by the sequential strong rule; g are the
        correlations with the residuals under the penalty before."""
        # |g_j| >= 2 w_new - w_old   (Tibshirani et al. 2012).
        return np.asarray(np.abs(g) >= 2 * self.weight - before.weight)

    def feasible(self, g: Array) -> float:
        """The largest t <= 1 with finite R*(t g), about a centre of 0."""
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
        """Coordinate descent over J about a centre of 0, in place, q = c - G x of all
        coordinates; returns whether it converged."""
        from probreg.inference.penalized.lasso_loops import descend_among

        return bool(descend_among(G, q, x, self.weight, self.ridge, J, _ENOUGH, tol))

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Coordinate descent by compiled loops."""
        from probreg.inference.penalized.lasso_loops import descend_lasso

        H = np.ascontiguousarray(G)
        if self.ridge.any():
            # q = c - (G + ridge)(x - center) - G center: minus the gradient of the
            # smooth part, updated by the descent.
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
    def has_kink(self) -> Array:
        return self.weight > 0

    def value(self, x: Array) -> float:
        r = np.abs(x - self.center)
        return float(self.weight @ r**self.exponent + 0.5 * self.ridge @ (r * r))

    def ends(self, x: Array) -> tuple[Array, Array]:
        """Widened by rounding of x: close to its centre the slope of a power changes
        within a rounding error."""
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
        expanded = np.zeros(self.size)
        expanded[: values.size] = (values / self.scale[:, None] ** power).ravel()
        return expanded

    @property
    def center(self) -> Array:
        return self._out(
            np.repeat(self.nonsmooth.center[:, None], self.nonsmooth.shape[1], 1), -1
        )

    @property
    def has_kink(self) -> Array:
        has_kink = self.nonsmooth.at(
            np.repeat(self.nonsmooth.center[:, None], self.nonsmooth.shape[1], 1)
        )
        return self._out(has_kink.astype(float), 0) > 0

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
        """Coordinate descent by column with the prior's proximal map; coordinates
        without a kink are one block."""
        x = x.copy()
        groups = self._groups(G)
        smooth = np.setdiff1d(
            np.arange(self.size),
            np.concatenate([coordinates for coordinates, *_ in groups]),
        )
        if len(smooth):
            inverse = np.linalg.pinv(G[np.ix_(smooth, smooth)], hermitian=True)
        else:
            inverse = None
        root = np.sqrt(np.maximum(np.diagonal(G), np.finfo(float).tiny))
        for _ in range(_PASSES):
            before = x.copy()
            if inverse is not None:
                x[smooth] += inverse @ (c[smooth] - G[smooth] @ x)
            for coordinates, prior, unit, scale, step in groups:
                target = x[coordinates] + step * (c[coordinates] - G[coordinates] @ x)
                block = (target / scale).reshape(-1, self.nonsmooth.shape[1])
                solution = (
                    scale
                    * np.asarray(prior.prox(block, step / scale[:1] ** 2, unit)).ravel()
                )
                x[coordinates] = solution
            if (np.abs(x - before) * root).max(initial=0.0) <= tol:
                break
        return x

    def _groups(self, G: Array) -> list[tuple[Array, Any, float, Array, float]]:
        """(coordinates, prior, unit, scale, step), by column if the prior is
        independent over columns."""
        m = self.nonsmooth.shape[1]
        groups = []
        for part in self.nonsmooth.parts:
            for where, prior in _columns(part):
                coordinates = vec_entries(where, m)
                scales = np.repeat(self.scale[where], m)
                if np.ptp(scales) > 0:  # a group has one step: its largest
                    raise AssertionError(
                        "a prior of several columns needs columns of equal scale"
                    )
                top = float(np.linalg.eigvalsh(G[np.ix_(coordinates, coordinates)])[-1])
                groups.append(
                    (
                        coordinates,
                        prior,
                        part.unit,
                        scales,
                        1.0 / max(top, np.finfo(float).tiny),
                    )
                )
        return groups


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
