"""Sums of norms R(x) = sum_g |D_g (x_g - center_g)| + a ridge: value, distance from the subdifferential, block coordinate descent.

In the units z = D_g (x_g - center_g) of a group its part of the quadratic is z'Hz/2 -
b'z. In the eigenvectors of H the minimiser of this plus |z| is the root of one equation
in |z| (`least_with_norm`). Absolute values are groups of one.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.inference.base import Array
from probreg.inference.penalized.nonsmooth import NonsmoothTerms
from probreg.inference.penalized.separable import separable_fenchel
from probreg.priors.group_laplace import least_with_norm

_PASSES = (
    10  # passes over the groups off their kinks between two passes over all groups
)


@dataclass(frozen=True, eq=False)
class GroupNorms:
    """R(x) = sum_g |metric_g (x_g - center_g)| + ridge_j (x_j - center_j)^2 / 2; the
    metric is 0 for coordinates without a kink."""

    groups: tuple[Array, ...]
    metric: Array  # (k,)
    ridge: Array  # (k,)
    center: Array  # (k,)

    @classmethod
    def of(cls, nonsmooth: NonsmoothTerms, scale: Array, size: int) -> "GroupNorms":
        """From norms, over x = (vec(scale phi), further coordinates without a kink) of
        this length; each predictor has its own groups."""
        norms, (p, m) = nonsmooth.norms, nonsmooth.shape
        assert norms is not None  # callers check this

        def expand(values: Array) -> Array:
            return np.r_[np.repeat(values, m), np.zeros(size - p * m)]

        # gamma_j = scale_j phi_j: weights of |phi_j| are divided by scale_j, of phi_j^2 by scale_j^2.
        groups = tuple(g * m + k for g in norms.groups for k in range(m))
        return cls(
            groups,
            expand(norms.metric / scale),
            expand(norms.ridge / scale**2),
            expand(nonsmooth.center * scale),
        )

    @cached_property
    def has_kink(self) -> Array:
        """Coordinates in a group."""
        return self.metric > 0

    @cached_property
    def corners(self) -> Array:
        """Coordinates that form a group alone; a line does not cross the kink of a
        larger group."""
        corners = np.zeros(len(self.metric), dtype=bool)
        corners[[g[0] for g in self.groups if len(g) == 1]] = True
        return corners

    @cached_property
    def _starts(self) -> tuple[Array, Array]:
        """The coordinates sorted by group, and the start of each group."""
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
        """(k,) the value of each coordinate's group, 1 for coordinates without a
        group."""
        order, _ = self._starts
        values = np.ones(len(self.metric))
        values[order] = np.repeat(lengths, [len(g) for g in self.groups])
        return values

    def among(self, J: Array) -> "GroupNorms":
        """Restrict to some coordinates, with all or none of each group."""
        place = np.full(len(self.metric), -1)
        place[J] = np.arange(len(J))
        groups = tuple(place[g] for g in self.groups if place[g[0]] >= 0)
        return GroupNorms(groups, self.metric[J], self.ridge[J], self.center[J])

    def whole(self, marked: Array) -> Array:
        """Marked coordinates (k,) bool, and all coordinates of their groups."""
        return marked | (
            self.has_kink & (self._by_group(self._lengths(marked.astype(float))) > 0)
        )

    def may_enter(self, g: Array, before: "GroupNorms") -> Array:
        """(k,) bool: coordinates kept by the sequential strong rule; g are the
        correlations with the residuals under the penalty before."""
        safe = np.where(self.has_kink, self.metric, 1.0)
        # |D_new^-1 g| >= 2 - D_old / D_new   (Tibshirani et al. 2012).
        size = self._by_group(self._lengths(np.where(self.has_kink, g / safe, 0.0)))
        return ~self.has_kink | (size >= 2.0 - before.metric / safe)

    def feasible(self, g: Array) -> float:
        """The largest t <= 1 with finite R*(t g), about a centre of 0."""
        lengths = self._lengths(
            np.where(self.has_kink, g / np.where(self.has_kink, self.metric, 1.0), 0.0)
        )
        bare = np.array([not self.ridge[g].any() for g in self.groups], dtype=bool)
        with np.errstate(divide="ignore"):
            # t |D^-1 g| <= 1 for every group without a ridge.
            return min(1.0, float(np.min(1.0 / lengths[bare], initial=np.inf)))

    def fenchel(self, r: Array, g: Array) -> float:
        """R(r) + R*(g) - g'r of a feasible g, about a centre of 0; a group of several
        columns has no ridge."""
        single = self.corners | ~self.has_kink
        total = float(
            separable_fenchel(
                self.metric[single], self.ridge[single], r[single], g[single]
            ).sum()
        )
        larger_groups = [group for group in self.groups if len(group) > 1]
        return total + float(
            sum(
                max(
                    np.linalg.norm(self.metric[group] * r[group]) - g[group] @ r[group],
                    0.0,
                )
                for group in larger_groups
            )
        )

    def value(self, x: Array) -> float:
        r = x - self.center
        return float(self._lengths(self.metric * r).sum() + 0.5 * self.ridge @ (r * r))

    def at_kink(self, x: Array) -> Array:
        """Coordinates of groups that are at their centre."""
        return self.has_kink & (self._by_group(self._lengths(x - self.center)) == 0.0)

    def slope(self, x: Array) -> Array:
        r = x - self.center
        length = self._by_group(self._lengths(self.metric * r))
        # d|D r| = D^2 r / |D r|, and at the kink the subgradient nearest to zero.
        return self.ridge * r + np.where(
            length > 0, self.metric**2 * r / np.where(length > 0, length, 1.0), 0.0
        )

    def distance(self, gradient: Array, x: Array) -> Array:
        """|gradient + R'| by coordinate; for a group at its kink, with the subgradient
        that minimises D^-1 gradient."""
        is_at_kink = self.at_kink(x)
        g = gradient + self.slope(x)
        # At the kink the subdifferential is D times the unit ball: (1 - 1/|b|)_+ b
        # remains of b = D^-1 gradient.
        length = self._by_group(
            self._lengths(
                np.where(is_at_kink, g / np.where(is_at_kink, self.metric, 1.0), 0.0)
            )
        )
        shrinkage = np.maximum(1.0 - 1.0 / np.where(length > 0, length, 1.0), 0.0)
        return np.abs(np.where(is_at_kink, shrinkage * g, g))

    def hessian(self, x: Array) -> Array:
        r = self.metric * (x - self.center)
        length = self._by_group(self._lengths(r))
        off = self.has_kink & (length > 0)
        # The diagonal of D (I - u u') D / |D r|, u = D r / |D r|.
        safe = np.where(off, length, 1.0)
        return self.ridge + np.where(
            off, self.metric**2 * np.maximum(1.0 - (r / safe) ** 2, 0.0) / safe, 0.0
        )

    def curvature_among(self, x: Array, free: Array) -> Array | None:
        """The Hessian of R over some coordinates off their kinks (f, f); None if it is
        zero."""
        hessian = np.diag(self.ridge[free])
        place = np.full(len(x), -1)
        place[free] = np.arange(len(free))
        for g in self.groups:
            places = place[g]
            if len(g) > 1 and (places >= 0).all():
                D = self.metric[g]
                r = D * (x - self.center)[g]
                length = np.linalg.norm(r)
                # D (I - u u') D / |D r|
                hessian[np.ix_(places, places)] += (
                    np.diag(D**2) - np.outer(D * r, D * r) / length**2
                ) / length
        return hessian if hessian.any() else None

    def sweep(self, G: Array, c: Array, x: Array, tol: float) -> Array:
        """Block coordinate descent: minimise over each group in turn.

        A pass over all groups alternates with several over the groups off their kinks.
        Coordinates without a group are one block.
        """
        x = x.copy()
        outside = np.flatnonzero(~self.has_kink)
        H = G[np.ix_(outside, outside)] + np.diag(self.ridge[outside])
        if len(outside):
            inverse = np.linalg.pinv(H, hermitian=True)
        else:
            inverse = None
        blocks = [self._block(G, g) for g in self.groups]
        residual = c - G @ x  # minus the gradient of the quadratic, kept up to date
        for number in range(2 * _PASSES):
            all_groups = number % _PASSES == 0
            largest = 0.0
            if inverse is not None:
                step = inverse @ (
                    residual[outside] - self.ridge[outside] * (x - self.center)[outside]
                )
                largest = float(np.sqrt(abs(step @ (H @ step))))
                x[outside] += step
                residual -= G[:, outside] @ step
            for g, (D, h, V) in zip(self.groups, blocks):
                r = x[g] - self.center[g]
                if not (all_groups or r.any()):
                    continue
                # b = D^-1 (left - ridge r) + H D r, H = D^-1 (G_gg + ridge) D^-1 = V h V'.
                b = V.T @ ((residual[g] - self.ridge[g] * r) / D) + h * (V.T @ (D * r))
                z = least_with_norm(b, h)
                if z.any():
                    new = V @ z / D
                else:
                    new = np.zeros(len(g))
                step = new - r
                if step.any():
                    x[g] = np.where(new == 0.0, self.center[g], self.center[g] + new)
                    residual -= G[:, g] @ step
                    largest = max(
                        largest, float(np.sqrt(abs(step @ (G[np.ix_(g, g)] @ step))))
                    )
            if all_groups and largest <= tol:
                break
        return x

    def _block(self, G: Array, g: Array) -> tuple[Array, Array, Array]:
        """D of a group, and eigenvalues and eigenvectors of its part of the quadratic
        in units of the group."""
        D = self.metric[g]
        h, V = np.linalg.eigh(
            (G[np.ix_(g, g)] + np.diag(self.ridge[g])) / np.outer(D, D)
        )
        return D, np.maximum(h, np.finfo(float).tiny), V
