"""The Gaussian model given sigma: everything about beta from the moments of the rows, never from the rows.

A normal prior is a set of further rows: with P = L L' its precision in units of 1/sigma^2 and b its mean,
||y - X beta||^2 + (beta - b)' P (beta - b) is the sum of squares of [X; L'] beta against [y; L'b]. One more
triangular reduction therefore turns moments into the posterior, without forming X'X.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from probreg.design import Moments
from probreg.linalg import Rank, inverse_upper, merge, rank_of, solve_upper
from probreg.model import Model
from probreg.priors import FisherPrior, GaussianPrior, JointPrior

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Conditional:
    """beta | sigma, y ~ N(mean, sigma^2 (R'R)^-1), with R'R = X'WX + P, and the least penalised sum of squares `rss`."""

    factor: Array  # (p + 1, p + 1), the triangular reduction of rows and prior together

    @property
    def R(self) -> Array:
        return self.factor[:-1, :-1]

    @cached_property
    def rank(self) -> Rank:
        return rank_of(self.R)

    @cached_property
    def mean(self) -> Array:
        """(p,); full rank only."""
        return np.asarray(solve_upper(self.R, self.factor[:-1, -1]), dtype=float)

    @cached_property
    def rss(self) -> float:
        return float(self.factor[-1, -1] ** 2)

    @cached_property
    def root(self) -> Array:
        """R^-1, whose product with its transpose is the covariance at sigma = 1."""
        return inverse_upper(self.R)

    @cached_property
    def unscaled(self) -> Array:
        """(R'R)^-1."""
        return np.asarray(self.root @ self.root.T, dtype=float)

    @cached_property
    def log_det_R(self) -> float:
        return float(np.log(np.abs(np.diagonal(self.R))).sum())


@dataclass(frozen=True, eq=False)
class PriorRows:
    """The normal prior as rows [L' | L'b]: those in units of sigma as they stand, the others to be multiplied by sigma."""

    relative: Array  # (k1, p + 1)
    absolute: Array  # (k2, p + 1)

    @classmethod
    def of(cls, prior: JointPrior) -> "PriorRows":
        parts: dict[bool, list[Array]] = {True: [np.zeros((0, prior.p + 1))], False: [np.zeros((0, prior.p + 1))]}
        for b in prior.blocks:
            q = len(b.columns)
            if not prior.informative[list(b.columns)].any() or not isinstance(b.prior, GaussianPrior):
                continue
            root = np.linalg.cholesky(b.prior.precision(q)).T
            rows = np.zeros((q, prior.p + 1))
            rows[:, list(b.columns)] = root
            rows[:, -1] = root @ b.prior.center(q)
            parts[b.prior.sigma_units].append(rows)
        return cls(np.vstack(parts[True]), np.vstack(parts[False]))

    def at(self, sigma: float) -> Array:
        return np.vstack([self.relative, sigma * self.absolute])

    @property
    def size(self) -> int:
        """Number of informative directions."""
        return len(self.relative) + len(self.absolute)

    def log_det(self, sigma: float) -> float:
        """log |P|^(1/2) over the informative directions, in units of 1/sigma^2."""
        if not self.size:
            return 0.0
        rows = self.at(sigma)[:, :-1]
        return float(0.5 * np.linalg.slogdet(rows @ rows.T)[1])


def condition(moments: Moments, prior: PriorRows, sigma: float) -> Conditional:
    """The posterior of beta given sigma."""
    rows = prior.at(sigma)
    return Conditional(merge(moments.factor, rows) if len(rows) else moments.factor)


def log_marginal(given: Conditional, moments: Moments, prior: PriorRows, sigma: float) -> float:
    """log p(y | sigma) with beta integrated out; flat columns count with density 1.

    (2 pi sigma^2)^(-(N + q - p)/2) |P|^(1/2) / |R| exp(-rss / (2 sigma^2)), N the total weight, q the informative columns.
    """
    power = moments.weight + prior.size - moments.p
    return (
        -0.5 * power * np.log(2.0 * np.pi * sigma**2)
        + prior.log_det(sigma)
        - given.log_det_R
        - given.rss / (2.0 * sigma**2)
    )


def combinations(rank: Rank, columns: tuple[str, ...]) -> str:
    """Which columns are combinations of which, in words."""
    said = []
    for i, j in enumerate(rank.dropped):
        terms = [(c, columns[k]) for c, k in zip(rank.combos[i], rank.kept) if abs(c) > 1e-8]
        right = " ".join(
            f"{'-' if c < 0 else '+'} {'' if abs(abs(c) - 1) < 1e-8 else f'{abs(c):.4g} '}{name}" for c, name in terms
        )
        said.append(f"{columns[j]} = {right.removeprefix('+ ') or '0'}")
    return "; ".join(said)


def unidentified(rank: Rank, p: int) -> Array:
    """Directions of beta that leave X beta unchanged, as columns (p, k)."""
    N = np.zeros((p, len(rank.dropped)))
    for i, j in enumerate(rank.dropped):
        N[j, i] = 1.0
        N[list(rank.kept), i] = -rank.combos[i]
    return N


def touched(N: Array) -> Array:
    """(p,) bool: coefficients that move along one of the directions N (p, k), so that they have no estimate."""
    return np.abs(N).max(1, initial=0.0) > 1e-8


def undetermined(model: Model, name: str) -> str | None:
    """Why Jeffreys' prior does not exist: the information is singular where columns are combinations of others."""
    if not any(isinstance(b.prior, FisherPrior) for b in model.joint.blocks):
        return None
    rank = model.design.moments.rank
    if not rank.dropped:
        return None
    said = combinations(rank, model.design.columns)
    return f"{name}: Jeffreys' prior needs columns that are identified, and {said}: drop one"
