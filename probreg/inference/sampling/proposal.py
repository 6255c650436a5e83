"""Proposals of importance sampling: mixtures of Student-t densities about modes and about weighted moments.

The first points come from the curvature at each mode, which does not describe a long
tail. Their weighted means and covariances locate the later points, which are wide enough to cover
tails with few first points (Cappé et al. 2008, adaptive importance sampling). All
points are weighted by the density of the whole mixture (Veach & Guibas 1995), so the
widest component bounds the weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from probreg.inference.base import Array, times_root
from probreg.special import student_log_density


def student_points(
    rng: np.random.Generator, n: int, dim: int, df: float
) -> tuple[Array, Array]:
    """z (n, dim) of a multivariate Student-t with unit scale, normal at df = inf, and their log densities."""
    z = rng.standard_normal((n, dim))
    if np.isfinite(df):
        # t = z / (chi^2_df / df)^(1/2)
        z = z / np.sqrt(rng.chisquare(df, n) / df)[:, None]
    return z, student_log_density((z**2).sum(1), dim, df)


@dataclass(frozen=True, eq=False)
class Stretch:
    """The map u -> z that stretches the coefficients about their mode by sigma over its mode: theta - mode = root z, and
    (beta - mode) = exp(delta) (root u)_beta with delta = (root u)_(log sigma) = (root z)_(log sigma).
    """

    root: Array  # (d, d)
    noise: int  # the place of log sigma in theta
    k: int  # the number of coefficients, the first of theta

    def delta(self, z: Array) -> Array:
        """The log of sigma over its mode (n,), the same of u and of z; within 50, so that no point overflows."""
        return np.clip(z @ self.root[self.noise], -50.0, 50.0)

    def apply(self, z: Array, sign: float = 1.0) -> Array:
        """z (n, d) of u, or u of z with the sign -1."""
        theta = z @ self.root.T
        theta[:, : self.k] *= np.exp(sign * self.delta(z))[:, None]
        return theta @ self._inverse.T

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.inv(self.root)


@dataclass(frozen=True, eq=False)
class Component:
    """The Student-t density of u = centre + root t, with `count` points in each chain.

    With a `stretch` u is in its coordinates: given the noise scale the spread of the coefficients is proportional to it. A
    Student-t over both does not have this property, which matters if the noise scale is hardly known.
    """

    centre: Array  # (d,)
    root: Array  # (d, d), lower triangular except for a mode
    df: float
    count: int
    stretch: Stretch | None = None

    def draw(self, rng: np.random.Generator, chains: int) -> Array:
        """Points (chains, count, d)."""
        dim = len(self.centre)
        t, _ = student_points(rng, chains * self.count, dim, self.df)
        z = self.centre + times_root(t, self.root)
        if self.stretch is not None:
            z = self.stretch.apply(z)
        return z.reshape(chains, self.count, dim)

    def log_density(self, z: Array) -> Array:
        """log of count times density (n,) at z (n, d)."""
        log_size = self._log_det
        if self.stretch is not None:
            # log |dz / du| = k delta
            log_size = log_size + self.stretch.k * self.stretch.delta(z)
            z = self.stretch.apply(z, -1.0)
        t = self._inverse @ (z - self.centre).T
        square = np.einsum("dn,dn->n", t, t)
        log_q = student_log_density(square, len(self.centre), self.df)
        return np.log(self.count) + log_q - log_size

    @cached_property
    def _inverse(self) -> Array:
        """The inverse of the root, because a product is faster than a triangular solve."""
        return np.linalg.inv(self.root)

    @cached_property
    def _log_det(self) -> Any:
        return np.linalg.slogdet(self.root)[1]


def mixture_log_density(components: Sequence[Component], z: Array) -> Array:
    """log of the sum over components of count times density (n,)."""
    return np.logaddexp.reduce([c.log_density(z) for c in components], axis=0)


def mean_of(components: Sequence[Component]) -> Array | None:
    """Return the mean (d,) of the mixture; None if a component has no variance, so that
    averages of points are unstable."""
    if any(c.stretch is not None or c.df <= 2.0 for c in components):
        return None
    counts = np.array([c.count for c in components], dtype=float)
    return counts @ [c.centre for c in components] / counts.sum()


def split(count: int, shares: Sequence[float]) -> list[int]:
    """Return whole numbers with the sum `count`, each at least 1 and near its share.

    >>> split(10, [0.5, 0.5, 0.01])
    [4, 5, 1]
    """
    ends = np.round(np.cumsum(shares) / np.sum(shares) * (count - len(shares))).astype(
        int
    )
    return [int(n) + 1 for n in np.diff(ends, prepend=0)]


def about_moments(
    modes: Sequence[Component], z: Array, weight: Array, count: int, tail: float
) -> list[Component]:
    """Components of `count` points in each chain about the weighted mean and covariance of the points near each mode.

    A point z (n, d) of weight (n,) counts for each mode by its share of their mixture
    there. `tail` is the degrees of freedom of the heaviest tail of the posterior.
    """
    inflation = 1.3  # factor for a covariance estimated from draws with a lighter tail
    # degrees of freedom of the second points, unless the posterior has a heavier tail
    usual_df = 5.0
    dim = z.shape[1]
    parts = weight[None]
    if len(modes) > 1:
        log_densities = np.stack([c.log_density(z) for c in modes])
        parts = (
            np.exp(log_densities - np.logaddexp.reduce(log_densities, axis=0)) * weight
        )
    mass = parts.sum(1)
    # The radius of a Student-t in d dimensions has a normal's spread only from df = d:
    # two tails share the points.
    dfs = sorted({min(usual_df, tail), max(usual_df, float(dim))})
    # shares of the points: the second tail is a safeguard
    if tail < usual_df:
        heavy = 0.5
    else:
        heavy = 0.2
    shares = [1.0] if len(dfs) == 1 else [heavy, 1.0 - heavy]
    counts = iter(
        # minimal share of the second points about a mode
        split(count, [m * s for m in np.maximum(mass, 0.05) for s in shares])
    )
    components = list[Component]()
    for part, total, c in zip(parts, mass, modes):
        curvature = c.root @ c.root.T
        centre = c.centre
        moment = curvature
        effective = 0.0
        if total > 0:
            w = part / total
            effective = total**2 / (part @ part)
            centre = w @ z
            moment = (w[:, None] * (z - centre)).T @ (z - centre)
        # Few effective points hardly determine a covariance of d dimensions: the
        # curvature at the mode counts as d of them.
        covariance = (effective * moment + dim * curvature) / (effective + dim)
        try:
            root = np.linalg.cholesky(inflation * covariance)
        except np.linalg.LinAlgError:
            # points of very unequal size: use the curvature; k-hat checks the weights
            root = np.linalg.cholesky(inflation * curvature)
        components += [Component(centre, root, df, next(counts)) for df in dfs]
    return components
