"""The normal prior of effects by group with a known covariance: b_g ~ N(0, Lambda Lambda'), independent over groups."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from probreg.arguments.scalars import Count, Matrix
from probreg.errors import DataError
from probreg.priors.base import (
    PRIORS,
    Array,
    GaussianPrior,
    Generator,
    Prior,
    PymcVariable,
    Shape,
)
from probreg.special import LOG_2PI


@PRIORS.register
@dataclass(frozen=True)
class GroupNormal(GaussianPrior):
    """The prior b_g ~ N(0, S) of the K effects of each of G groups, S = Lambda Lambda' known; coefficients are group by group.

    A singular S has no density. Directions without variance are held at a hundred-thousandth of the standard deviation of their
    effects, and an effect without variance at 1e-8 of the largest.

    Parameters
    ----------
    root : array (K, K)
        Lambda, lower triangular, in units of the coefficients.
    groups : int
        G.

    Examples
    --------
    >>> prior = GroupNormal(((2.0, 0.0), (0.3, 0.4)), groups=2)
    >>> prior.covariance.round(9).tolist()
    [[4.0, 0.6], [0.6, 0.25]]
    >>> prior.precision(4).shape, prior.singular
    ((4, 4), False)
    """

    root: Matrix = ((1.0,),)
    groups: Count = 1

    name = "group_normal"
    derived = True

    def __post_init__(self) -> None:
        super().__post_init__()
        L = np.array(self.root, dtype=float)
        if L.ndim != 2 or L.shape[0] != L.shape[1] or np.triu(L, 1).any():
            raise DataError(
                f"the root of a covariance is a square lower triangular matrix, got {self.root}"
            )
        if not np.isfinite(L).all() or not L.any():
            raise DataError(
                f"the root of a covariance is finite and not all zero, got {self.root}"
            )

    @property
    def effects(self) -> int:
        """K."""
        return len(self.root)

    @property
    def size(self) -> int | None:
        return self.groups * self.effects

    @property
    def covariance(self) -> Array:
        """S (K, K) as it was stated."""
        L = np.array(self.root)
        return L @ L.T

    @cached_property
    def _regular_root(self) -> tuple[Array, bool]:
        """The root with directions without variance held, and whether there are any."""
        least_singular = 1e-5  # of the root of the correlations, of unit length, that is told from zero
        smallest_sd = 1e-8  # of the largest: that of an effect without one
        L = np.array(self.root, dtype=float)
        sd = np.linalg.norm(L, axis=1)
        is_zero = sd == 0.0
        # S = D R D, R = T T' the correlations, T = U s V': a singular value below the floor is raised to it
        T = np.where(
            is_zero[:, None], np.eye(len(L)), L / np.where(is_zero, 1.0, sd)[:, None]
        )
        U, s, _ = np.linalg.svd(T)
        D = np.where(is_zero, smallest_sd * sd.max(), sd)[:, None]
        if s[-1] >= least_singular:
            return D * T, bool(is_zero.any())
        lower = np.linalg.qr((U * np.maximum(s, least_singular)).T, mode="r").T
        return D * (lower * np.where(np.diagonal(lower) < 0, -1.0, 1.0)), True

    @property
    def singular(self) -> bool:
        """S has directions without variance."""
        return self._regular_root[1]

    @property
    def held_root(self) -> Array:
        """Lambda (K, K) with a positive diagonal: directions without variance are held."""
        return self._regular_root[0]

    def root_of_groups(self, values: Any) -> Array:
        return self.held_root

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        L, (q, m) = self.held_root, beta.shape[-2:]
        u = np.asarray(unit, dtype=float)
        # log p = - G m log |Lambda| - q m log(u sqrt(2 pi)) - |Lambda^-1 b_g|^2 / (2 u^2), summed over groups and predictors
        b = np.moveaxis(
            beta.reshape(*beta.shape[:-2], self.groups, self.effects, m), -2, 0
        )
        r = solve_triangular(L, b.reshape(len(L), -1), lower=True).reshape(b.shape)
        square = np.square(r).sum((0, -2, -1))
        log_det = self.groups * m * float(np.log(np.abs(np.diagonal(L))).sum())
        return -0.5 * square / u**2 - q * m * (np.log(u) + 0.5 * LOG_2PI) - log_det

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        u = rng.standard_normal((*shape[:-2], self.groups, self.effects, shape[-1]))
        return unit * np.einsum("kl,...glm->...gkm", self.held_root, u).reshape(shape)

    def times(self, factor: float) -> Prior:
        L = np.array(self.root) * factor
        return GroupNormal(tuple(map(tuple, L.tolist())), self.groups)

    def precision(self, q: int) -> Array:
        # kron(I, S^-1), S^-1 = Lambda'^-1 Lambda^-1
        inverse = solve_triangular(self.held_root, np.eye(self.effects), lower=True)
        return np.kron(np.eye(self.groups), inverse.T @ inverse)

    def independent(self, q: int) -> Array | None:
        L = self.held_root
        if not np.tril(L, -1).any():
            return np.tile(np.diagonal(L), self.groups)
        return None

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        """One variable of all coefficients; the graph of a model has one of groups and effects, by `root_of_groups`."""
        import pymc as pm

        return pm.MvNormal, {
            "mu": np.zeros(self.size),
            "chol": np.kron(np.eye(self.groups), self.held_root) * unit,
        }
