"""Sums of norms R(x) = sum_g |D_g (x_g - center_g)| + a ridge: value, distance from the subdifferential, block coordinate descent.

In the units z = D_g (x_g - center_g) of a group its part of the quadratic is z'Hz/2 - b'z, and in the eigenvectors of H the
least point of that and |z| is the root of one equation in |z| (`least_with_norm`). Absolute values are groups of one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.inference.base import Array
from probreg.inference.penalized.nonsmooth import NonsmoothTerms
from probreg.inference.penalized.separable import separable_fenchel
from probreg.priors.group_laplace import least_with_norm

_PASSES = 10  # over the groups that are off their kinks, between two of all


@dataclass(frozen=True, eq=False)
class GroupNorms:
    """R(x) = sum_g |metric_g (x_g - center_g)| + ridge_j (x_j - center_j)^2 / 2; the metric is 0 where there is no kink."""

    groups: tuple[Array, ...]
    metric: Array  # (k,)
    ridge: Array  # (k,)
    center: Array  # (k,)

    @classmethod
    def of(cls, nonsmooth: NonsmoothTerms, scale: Array, size: int) -> "GroupNorms":
        """Of x = (vec(scale phi), further coordinates without a kink) of this length, each predictor with its own groups."""
        norms, (p, m) = nonsmooth.norms, nonsmooth.shape
        assert norms is not None  # callers ask first

        def out(values: Array) -> Array:
            return np.r_[np.repeat(values, m), np.zeros(size - p * m)]

        # gamma_j = scale_j phi_j: weights of |phi_j| are divided by scale_j, of phi_j^2 by scale_j^2.
        groups = tuple(g * m + k for g in norms.groups for k in range(m))
        return cls(
            groups,
            out(norms.metric / scale),
            out(norms.ridge / scale**2),
            out(nonsmooth.center * scale),
        )

    @cached_property
    def pointed(self) -> Array:
        """Coordinates of some group."""
        return self.metric > 0

    @cached_property
    def corners(self) -> Array:
        """Coordinates that are a group by themselves: a line crosses the kink of a larger one nowhere."""
        out = np.zeros(len(self.metric), dtype=bool)
        out[[g[0] for g in self.groups if len(g) == 1]] = True
        return out

    @cached_property
    def _starts(self) -> tuple[Array, Array]:
        """The groups one after the other, and where each begins."""
        sizes = [len(g) for g in self.groups]
        return np.concatenate([*self.groups, np.zeros(0, dtype=int)]), np.append(
            0, np.cumsum(sizes)
        )[:-1].astype(int)

    def _lengths(self, z: Array) -> Array:
        """|z_g| of each group (G,)."""
        order, starts = self._starts
        if len(order):
            return np.sqrt(np.add.reduceat(z[order] ** 2, starts))
        return np.zeros(0)

    def _by_group(self, lengths: Array) -> Array:
        """(k,) of each coordinate the value of its group, 1 where it is in none."""
        order, _ = self._starts
        out = np.ones(len(self.metric))
        out[order] = np.repeat(lengths, [len(g) for g in self.groups])
        return out

    def among(self, J: Array) -> "GroupNorms":
        """The same of some coordinates alone, of each group all or none."""
        place = np.full(len(self.metric), -1)
        place[J] = np.arange(len(J))
        groups = tuple(place[g] for g in self.groups if place[g[0]] >= 0)
        return GroupNorms(groups, self.metric[J], self.ridge[J], self.center[J])

    def whole(self, some: Array) -> Array:
        """Some coordinates (k,) bool, and those of their groups."""
        return some | (
            self.pointed & (self._by_group(self._lengths(some.astype(float))) > 0)
        )

    def may_enter(self, g: Array, before: "GroupNorms") -> Array:
        """(k,) bool: what the sequential strong rule keeps, g being the correlations with the residuals under the penalty before."""
        safe = np.where(self.pointed, self.metric, 1.0)
        # |D_new^-1 g| >= 2 - D_old / D_new   (Tibshirani et al. 2012).
        size = self._by_group(self._lengths(np.where(self.pointed, g / safe, 0.0)))
        return ~self.pointed | (size >= 2.0 - before.metric / safe)

    def feasible(self, g: Array) -> float:
        """The largest t <= 1 with R*(t g) finite, about a centre of 0."""
        lengths = self._lengths(
            np.where(self.pointed, g / np.where(self.pointed, self.metric, 1.0), 0.0)
        )
        bare = np.array([not self.ridge[g].any() for g in self.groups], dtype=bool)
        with np.errstate(divide="ignore"):
            # t |D^-1 g| <= 1 for every group without a ridge.
            return min(1.0, float(np.min(1.0 / lengths[bare], initial=np.inf)))

    def fenchel(self, r: Array, g: Array) -> float:
        """R(r) + R*(g) - g'r of a feasible g, about a centre of 0; a group of several columns has no ridge."""
        alone = self.corners | ~self.pointed
        total = float(
            separable_fenchel(
                self.metric[alone], self.ridge[alone], r[alone], g[alone]
            ).sum()
        )
        several = [at for at in self.groups if len(at) > 1]
        return total + float(
            sum(
                max(np.linalg.norm(self.metric[at] * r[at]) - g[at] @ r[at], 0.0)
                for at in several
            )
        )

    def value(self, x: Array) -> float:
        r = x - self.center
        return float(self._lengths(self.metric * r).sum() + 0.5 * self.ridge @ (r * r))

    def at_kink(self, x: Array) -> Array:
        """Coordinates of groups that are at their centre, all of them."""
        return self.pointed & (self._by_group(self._lengths(x - self.center)) == 0.0)

    def slope(self, x: Array) -> Array:
        r = x - self.center
        length = self._by_group(self._lengths(self.metric * r))
        # d|D r| = D^2 r / |D r|, and at the kink what is nearest to zero.
        return self.ridge * r + np.where(
            length > 0, self.metric**2 * r / np.where(length > 0, length, 1.0), 0.0
        )

    def distance(self, gradient: Array, x: Array) -> Array:
        """|gradient + R'| by coordinate, with the subgradient of a group at its kink that leaves least of D^-1 gradient."""
        at = self.at_kink(x)
        g = gradient + self.slope(x)
        # At the kink the subdifferential is D times the unit ball: of b = D^-1 gradient (1 - 1/|b|)_+ b is left.
        length = self._by_group(
            self._lengths(np.where(at, g / np.where(at, self.metric, 1.0), 0.0))
        )
        left = np.maximum(1.0 - 1.0 / np.where(length > 0, length, 1.0), 0.0)
        return np.abs(np.where(at, left * g, g))

    def hessian(self, x: Array) -> Array:
        r = self.metric * (x - self.center)
        length = self._by_group(self._lengths(r))
        off = self.pointed & (length > 0)
        # The diagonal of D (I - u u') D / |D r|, u = D r / |D r|.
        safe = np.where(off, length, 1.0)
        return self.ridge + np.where(
            off, self.metric**2 * np.maximum(1.0 - (r / safe) ** 2, 0.0) / safe, 0.0
        )

    def curvature_among(self, x: Array, free: Array) -> Array | None:
        """The Hessian of R over some coordinates (f, f), which are off their kinks; None where it is zero."""
        out = np.diag(self.ridge[free])
        place = np.full(len(x), -1)
        place[free] = np.arange(len(free))
        for g in self.groups:
            at = place[g]
            if len(g) > 1 and (at >= 0).all():
                D = self.metric[g]
                r = D * (x - self.center)[g]
                length = np.linalg.norm(r)
                # D (I - u u') D / |D r|
                out[np.ix_(at, at)] += (
                    np.diag(D**2) - np.outer(D * r, D * r) / length**2
                ) / length
        return out if out.any() else None

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Block coordinate descent, each group to its least point: a pass over all of them takes turns with some over those
        that are off their kinks. Coordinates of no group go together."""
        x = x.copy()
        rest = np.flatnonzero(~self.pointed)
        H = G[np.ix_(rest, rest)] + np.diag(self.ridge[rest])
        if len(rest):
            inverse = np.linalg.pinv(H, hermitian=True)
        else:
            inverse = None
        blocks = [self._block(G, g) for g in self.groups]
        left = c - G @ x  # minus the gradient of the quadratic, kept up to date
        for number in range(2 * _PASSES):
            whole = number % _PASSES == 0
            largest = 0.0
            if inverse is not None:
                step = inverse @ (
                    left[rest] - self.ridge[rest] * (x - self.center)[rest]
                )
                largest = float(np.sqrt(abs(step @ (H @ step))))
                x[rest] += step
                left -= G[:, rest] @ step
            for g, (D, h, V) in zip(self.groups, blocks):
                r = x[g] - self.center[g]
                if not (whole or r.any()):
                    continue
                # b = D^-1 (left - ridge r) + H D r, H = D^-1 (G_gg + ridge) D^-1 = V h V'.
                b = V.T @ ((left[g] - self.ridge[g] * r) / D) + h * (V.T @ (D * r))
                found = least_with_norm(b, h)
                if found.any():
                    new = V @ found / D
                else:
                    new = np.zeros(len(g))
                step = new - r
                if step.any():
                    x[g] = np.where(new == 0.0, self.center[g], self.center[g] + new)
                    left -= G[:, g] @ step
                    largest = max(
                        largest, float(np.sqrt(abs(step @ (G[np.ix_(g, g)] @ step))))
                    )
            if whole and largest <= tol:
                break
        return x

    def _block(self, G: Array, g: Array) -> tuple[Array, Array, Array]:
        """D of a group, and eigenvalues and eigenvectors of its part of the quadratic in units of the group."""
        D = self.metric[g]
        h, V = np.linalg.eigh(
            (G[np.ix_(g, g)] + np.diag(self.ridge[g])) / np.outer(D, D)
        )
        return D, np.maximum(h, np.finfo(float).tiny), V
