"""Correlation matrices R = T T' by the partial correlations of their root, and their LKJ density.

T is lower triangular with rows of length one. It follows from partial correlations r = tanh(t), one for each pair (i, j < i) of
effects, row by row (Lewandowski, Kurowicka & Joe 2009):

    T_ij = tanh(t_ij) prod_(k < j) sech(t_ik),   T_ii = prod_(k < i) sech(t_ik)

The positive number v = exp(t) = ((1 + r) / (1 - r))^(1/2) makes a partial correlation a hyperparameter like the others, with the log t.
For two effects the partial correlation is the correlation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator

from probreg.arguments.scalars import NamedSettings, Positive
from probreg.priors.positive import BetaPrimeDensity
from probreg.registry import Registry

Array = np.ndarray
CORRELATION_PRIORS: Registry["LKJ"] = Registry("prior of correlations")


@dataclass(frozen=True)
class PartialCorrelation(BetaPrimeDensity):
    """r on (-1, 1) with (1 + r) / 2 ~ Beta(shape, shape), as the positive number v = ((1 + r) / (1 - r))^(1/2).

    Parameters
    ----------
    shape : float
        1 is uniform on (-1, 1); above 1 correlations near zero are more probable.

    Examples
    --------
    >>> float(PartialCorrelation(1.0).log_prob(np.array(1.0)).round(6))  # log(1/2)
    -0.693147
    """

    shape: Positive = 1.0
    name = "partial_correlation"

    scale = 1.0

    @property
    def a(self) -> float:  # type: ignore[override]
        return self.shape

    b = a

    def sample(self, rng: Generator, size: int) -> Array:
        x = rng.beta(self.shape, self.shape, size)
        return np.sqrt(x / (1.0 - x))

    def pymc(self, name: str, dims: tuple[str, ...] | None = None) -> Any:
        """v as an expression of the named variable (1 + r) / 2."""
        import pymc as pm

        # x = (1 + r) / 2: v^2 = x / (1 - x)
        x = pm.Beta(f"{name}_unit", self.shape, self.shape, dims=dims)
        return (x / (1.0 - x)) ** 0.5


@CORRELATION_PRIORS.register
@dataclass(frozen=True)
class LKJ(NamedSettings):
    """The density of a K x K correlation matrix p(R) ∝ det(R)^(eta - 1).

    Parameters
    ----------
    eta : float
        1 is uniform over correlation matrices; above 1 correlations near zero are more probable.

    References
    ----------
    Lewandowski, Kurowicka & Joe 2009.

    Examples
    --------
    >>> LKJ(2.0).partial(given=0, size=3)
    PartialCorrelation(shape=2.5)
    """

    eta: Positive = 1.0
    name = "lkj"

    @classmethod
    def from_text(cls, text: str) -> "LKJ":
        """The prior that the text "lkj(2)" describes."""
        return CORRELATION_PRIORS.parse(text)

    def partial(self, given: int, size: int) -> PartialCorrelation:
        """Return the prior of a partial correlation of two of `size` effects, given a number of other effects."""
        return PartialCorrelation(self.eta + 0.5 * (size - 2 - given))


def pairs_of(K: int) -> tuple[tuple[int, int], ...]:
    """(i, j < i), row by row."""
    return tuple((i, j) for i in range(K) for j in range(i))


def rows_of_root(r: Any, s: Any, K: int) -> list[list[Any]]:
    """T row by row, up to its diagonal, from tanh(t) and sech(t) of each pair: numbers, arrays or symbols."""
    rows: list[list[Any]] = []
    for i in range(K):
        product: Any = 1.0  # prod_(k < j) sech(t_ik)
        row = []
        for j in range(i):
            n = i * (i - 1) // 2 + j
            row.append(r[n] * product)
            product = product * s[n]
        rows.append([*row, product])
    return rows


def root_of(t: Array, K: int) -> Array:
    """T (S, K, K) at t (K (K - 1) / 2, S)."""
    T = np.zeros((t.shape[1], K, K))
    for i, row in enumerate(rows_of_root(np.tanh(t), 1.0 / np.cosh(t), K)):
        for j, value in enumerate(row):
            T[:, i, j] = value
    return T


def root_slopes(t: Array, K: int) -> tuple[Array, Array]:
    """T (K, K) and dT / dt (K (K - 1) / 2, K, K) at t (K (K - 1) / 2,)."""
    T = root_of(t[:, None], K)[0]
    slopes = np.zeros((len(t), K, K))
    r = np.tanh(t)
    s = 1.0 / np.cosh(t)
    for n, (i, j) in enumerate(pairs_of(K)):
        # T_ij has the factor tanh(t_ij), every later entry of its row sech(t_ij); log sech has the slope -tanh
        slopes[n, i, j] = s[n] ** 2 * np.prod(s[n - j : n])
        slopes[n, i, j + 1 : i + 1] = -r[n] * T[i, j + 1 : i + 1]
    return T, slopes


def partial_of(R: Array) -> Array:
    """t (K (K - 1) / 2, S) of correlation matrices R (S, K, K); a correlation of 1 up to rounding becomes the largest number below 1."""
    largest = 1.0 - 2.0**-53  # below 1, where t = 18.7
    K = R.shape[-1]
    T = np.zeros(R.shape)
    t = np.zeros((K * (K - 1) // 2, len(R)))
    T[:, 0, 0] = 1.0
    for n, (i, j) in enumerate(pairs_of(K)):
        product = np.prod(1.0 / np.cosh(t[n - j : n]), axis=0)
        # R_ij = sum_k T_ik T_jk, and T_ij = tanh(t_ij) left
        covariance = R[:, i, j] - (T[:, i, :j] * T[:, j, :j]).sum(-1)
        with np.errstate(divide="ignore", invalid="ignore"):
            r = np.where(
                product * T[:, j, j] > 0, covariance / (product * T[:, j, j]), 0.0
            )
        t[n] = np.arctanh(np.clip(r, -largest, largest))
        T[:, i, j] = np.tanh(t[n]) * product
        # of the last j of a row this is its diagonal
        T[:, i, i] = product / np.cosh(t[n])
    return t
