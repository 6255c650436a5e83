"""What a prior must say about a block of coefficients, and the extra things it may say.

A block is an array of shape (..., q, m): q columns, m linear predictors, any leading axes for draws. A scale is stated
for coefficients on the raw columns, one for all or one per column; the m predictors of a column are independent copies.
`unit` multiplies every scale: it is sigma for a prior that is stated in units of the noise (`sigma_units=True`).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from probreg.errors import DataError
from probreg.registry import Registry

PRIORS: Registry["Prior"] = Registry("prior")

Array = np.ndarray
PerColumn = float | tuple[float, ...]


@dataclass(frozen=True)
class Penalty:
    """A prior read as a penalty: -log p(w) = weight * R(w) + constant, per coefficient.

    >>> Penalty("ridge", "w^2", np.array([0.125])).in_rss(sigma=2.0)
    array([1.])
    """

    name: str
    form: str  # R(w), in words of w
    weight: Array  # (q,)

    def in_rss(self, sigma: float) -> Array:
        """lam in RSS + lam R(w), where RSS / (2 sigma^2) is the negative log-likelihood: lam = 2 sigma^2 weight."""
        return 2.0 * sigma**2 * self.weight


class Prior(ABC):
    """p(beta): independent of the likelihood, normalised unless it is flat."""

    name: ClassVar[str]
    sigma_units: bool = False

    @property
    @abstractmethod
    def size(self) -> int | None:
        """The number of columns it is stated for; None when one scale serves any number."""

    @abstractmethod
    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        """log p of a block (..., q, m), summed over the block; `unit` broadcasts against the leading axes."""

    @abstractmethod
    def sample(self, rng: np.random.Generator, shape: tuple[int, ...], unit: float = 1.0) -> Array:
        """Draws of shape (..., q, m). DataError for an improper prior."""

    @abstractmethod
    def pymc(self, unit: Any = 1.0) -> tuple[Any, dict[str, Any]]:
        """PyMC's distribution class and parameters, for a variable whose last axis runs over the q columns."""

    @abstractmethod
    def penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        """The penalty of q columns that its mode minimises, at this unit of its scales; None when it is flat."""


class GaussianPrior(Prior):
    """log p is quadratic: Newton steps, closed forms and conjugacy apply."""

    @abstractmethod
    def precision(self, q: int) -> Array:
        """(q, q) at unit 1."""

    @abstractmethod
    def center(self, q: int) -> Array:
        """(q,), the mean."""


def per_column(value: Any, what: str, *, positive: bool) -> PerColumn:
    """A float or a tuple of floats from whatever sequence was given. DataError names the entry that is not allowed."""
    array = np.asarray(value)
    if array.dtype.kind not in "fiu":
        raise DataError(f"{what} is a number or one number per column, got {value!r}")
    array = array.astype(float)
    if array.ndim > 1:
        raise DataError(f"{what} is one number or one per column, got an array of shape {array.shape}")
    for i, v in enumerate(array.ravel()):
        if not np.isfinite(v) or (positive and v <= 0):
            where = f"{what}[{i}]" if array.ndim else what
            raise DataError(f"{where} = {v} is not a {'positive ' if positive else ''}finite number")
    return float(array) if array.ndim == 0 else tuple(float(v) for v in array)


def common_size(*parts: PerColumn) -> int | None:
    """The number of columns that per-column settings agree on."""
    sizes = {len(p) for p in parts if isinstance(p, tuple)}
    if len(sizes) > 1:
        raise DataError(f"a prior is stated for different numbers of columns: {sorted(sizes)}")
    return sizes.pop() if sizes else None


def standard(beta: Array, center: PerColumn, scale: PerColumn, unit: Array | float) -> tuple[Array, Array]:
    """((beta - center) / (scale unit), log(scale unit)), both with the columns on the last axis: (..., m, q)."""
    s = np.asarray(scale) * np.asarray(unit)[..., None, None]
    return (np.swapaxes(beta, -1, -2) - np.asarray(center)) / s, np.log(s)
