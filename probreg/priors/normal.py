"""The normal prior: ridge regression, in every likelihood."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Matrix
from probreg.compiled.density import CompiledDensity, Row, StandardNormal
from probreg.errors import DataError
from probreg.priors.base import (
    PRIORS,
    Array,
    GaussianPrior,
    Generator,
    PerColumn,
    Prior,
    PymcVariable,
    Scale,
    Shape,
)
from probreg.priors.location_scale import LocationScale, common_size
from probreg.priors.penalties import read_penalty
from probreg.special import LOG_2PI


def _evaluate_row(y: float, r: float, t: Array) -> Row:
    # log p(r) = -r^2/2 - log(2 pi)/2 and its slope -r.
    return -0.5 * (r * r + LOG_2PI), -r, 0.0


@PRIORS.register
@dataclass(frozen=True)
class Normal(StandardNormal, LocationScale, GaussianPrior):
    """The normal prior beta_j ~ N(location_j, scale_j^2), or beta ~ N(location, precision_matrix^-1).

    Its mode is ridge regression: -log p = sum_j (beta_j - location_j)^2 / (2 scale_j^2) + constant, on the raw columns.
    With `sigma_units=True` it is the conjugate prior beta | sigma ~ N(location, sigma^2 V0).

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    location : float or tuple of float
        The centre, one number or one per column.
    precision_matrix : array (q, q), optional
        Replaces `scale`.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    Examples
    --------
    >>> Normal(2.0).precision(2)
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    >>> float(Normal(2.0).log_prob(np.array([[1.0]])).round(6))
    -1.737086
    """

    scale: Scale = 1.0
    _: KW_ONLY
    location: PerColumn = 0.0
    precision_matrix: Matrix | None = None
    sigma_units: Flag = False
    scaled: Flag = False

    name = "normal"
    in_pymc = "Normal", "mu", "sigma"
    compiled_density = CompiledDensity(_evaluate_row)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.precision_matrix is not None:
            object.__setattr__(
                self, "precision_matrix", positive_definite(self.precision_matrix)
            )
            if self.scale != 1.0 or self.scaled:
                raise DataError(
                    "a Normal prior takes a scale or a precision_matrix, not both"
                )

    @classmethod
    def from_ridge(cls, *, of: str = "sklearn", **settings: Any) -> "Normal":
        """Return the prior with the mode of another package's ridge: `alpha=` (sklearn Ridge, PoissonRegressor, glum, statsmodels),
        `C=` (sklearn LogisticRegression), `lam=` (glmnet, or of="rss": RSS + lam |w|^2).

        `likelihood=` (gaussian), `n=`, `sigma=`, `y_sd=` (sd of y with divisor N), or `model=` to read them from a model; glmnet's
        `standardize=True`. For Gaussian noise the scale is in units of sigma, because sigma cancels.

        >>> Normal.from_ridge(alpha=4.0, of="sklearn")
        Normal(scale=0.5, location=0.0, precision_matrix=None, sigma_units=True, scaled=False)
        >>> Normal.from_ridge(C=4.0, of="sklearn", likelihood="bernoulli").scale
        2.0
        """
        read = read_penalty(of=of, ridge=True, **settings)
        if read.l1:
            raise DataError(
                f"this penalty has a part in |w| of weight {read.l1:g}: see ElasticNet.from_elastic_net"
            )
        scale = read.stretch * read.l2**-0.5
        return cls(scale, sigma_units=read.relative, scaled=read.standardized)

    @property
    def size(self) -> int | None:
        if self.precision_matrix is None:
            return common_size(self.scale, self.location)
        q = len(self.precision_matrix)
        if common_size(self.location) not in (None, q):
            raise DataError(
                f"a Normal prior has {common_size(self.location)} locations and a precision matrix of size {q}"
            )
        return q

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        if self.precision_matrix is None:
            return super().log_prob(beta, unit)
        P = np.array(self.precision_matrix)
        r, log_unit = self.standardise(beta, unit)
        # log p = log |P|^(1/2) - (q/2) log(2 pi) - q log u - d'P d / (2 u^2), d = beta - location, one for each
        # predictor.
        constant = log_density_at_mean(P)
        per_predictor = (
            -0.5 * ((r @ P) * r).sum(-1) - len(P) * log_unit[..., 0] + constant
        )
        return per_predictor.sum(-1)

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        if self.precision_matrix is None:
            return super().sample(rng, shape, unit)
        z = rng.standard_normal(shape)
        # P = L L': beta = location + u L'^-1 z has covariance u^2 P^-1.
        L = np.linalg.cholesky(self.precision(shape[-2]))
        return self.center(shape[-2])[:, None] + unit * np.linalg.solve(L.T, z)

    def times(self, factor: float) -> Prior:
        if self.precision_matrix is None:
            return super().times(factor)
        return replace(
            self,
            precision_matrix=positive_definite(
                np.array(self.precision_matrix) / factor**2
            ),
        )

    def precision(self, q: int) -> Array:
        if self.precision_matrix is not None:
            return np.array(self.precision_matrix)
        return np.diag(np.broadcast_to(self.scales**-2.0, q))

    def part(self, places: Sequence[int]) -> Prior | None:
        if self.precision_matrix is not None:
            return None
        return super().part(places)

    def independent(self, q: int) -> Array | None:
        if self.precision_matrix is not None:
            return None
        return np.broadcast_to(self.scales, q)

    def center(self, q: int) -> Array:
        return np.broadcast_to(self.location, q).astype(float)

    def pymc(self, unit: Any = 1.0) -> PymcVariable:
        import pymc as pm

        if self.precision_matrix is None:
            return super().pymc(unit)
        q = len(self.precision_matrix)
        return pm.MvNormal, {
            "mu": self.center(q),
            "tau": np.array(self.precision_matrix) / unit**2,
        }

    def penalty_weight(self, q: int, unit: float = 1.0) -> Array | None:
        # -log p = (w - b)^2 / (2 u^2 s^2) + constant, or (w - b)' P (w - b) / (2 u^2).
        square = 1.0 if self.precision_matrix is not None else self.scales**2.0
        return np.broadcast_to(0.5 / (unit**2 * square), q)


def log_density_at_mean(P: Array) -> float:
    """log |P|^(1/2) - (q/2) log(2 pi) of the normal distribution with the precision P (q, q)."""
    return float(0.5 * np.linalg.slogdet(P)[1] - 0.5 * len(P) * LOG_2PI)


def positive_definite(matrix: Any) -> tuple[tuple[float, ...], ...]:
    P = np.asarray(matrix, dtype=float)
    if P.ndim != 2 or P.shape[0] != P.shape[1]:
        raise DataError(f"a precision matrix is square, got shape {P.shape}")
    if not np.allclose(P, P.T, rtol=1e-10, atol=0.0):
        raise DataError("a precision matrix is symmetric, and this one is not")
    if not np.isfinite(P).all():
        raise DataError("a precision matrix is positive definite: not finite")
    smallest = np.linalg.eigvalsh(P)[0]
    if smallest <= 0:
        raise DataError(
            f"a precision matrix is positive definite: its smallest eigenvalue is {smallest:.3g}"
        )
    return tuple(tuple(float(v) for v in row) for row in P)
