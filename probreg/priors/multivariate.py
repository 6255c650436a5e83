"""One normal prior of all coefficients together, for example a posterior that is used as the next prior."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Matrix
from probreg.errors import DataError
from probreg.priors.base import PRIORS, Array, Generator, Shape, WholePrior
from probreg.priors.normal import log_density_at_mean, positive_definite


@PRIORS.register
@dataclass(frozen=True)
class MultivariateNormal(WholePrior):
    """The normal prior vec(beta) ~ N(vec(mean), precision^-1), vec row by row: column first, then linear predictor.

    `Normal(precision_matrix=...)` gives every linear predictor the same prior; this prior may differ between the classes
    of a softmax, like an earlier posterior.

    Parameters
    ----------
    mean : array (p, m)
        The centre.
    precision : array (p m, p m)
        The inverse covariance.

    Examples
    --------
    >>> prior = MultivariateNormal(((0.0, 1.0),), precision=((1.0, 0.0), (0.0, 4.0)))
    >>> float(prior.log_prob(np.array([[0.0, 1.0]])).round(6))
    -1.14473
    """

    mean: Matrix = ((0.0,),)
    _: KW_ONLY
    precision: Matrix = ((1.0,),)

    name = "multivariate_normal"

    def __post_init__(self) -> None:
        super().__post_init__()
        mean = np.array(self.mean)
        P = np.array(self.precision)
        if P.shape != (mean.size, mean.size):
            raise DataError(
                f"a mean (p, m) goes with a precision (p m, p m), got shapes {mean.shape} and {P.shape}"
            )
        positive_definite(P)

    @property
    def size(self) -> int | None:
        return len(self.mean)

    def _away(self, beta: Array) -> Array:
        """beta - mean as vectors (..., p m). DataError for another number of predictors."""
        mean = np.array(self.mean)
        if beta.shape[-2:] != mean.shape:
            raise DataError(
                f"this prior is one of {mean.shape} coefficients, and the model has {beta.shape[-2:]}"
            )
        return (beta - mean).reshape(*beta.shape[:-2], -1)

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        # log p = log |P|^(1/2) - (p m / 2) log(2 pi) - r'P r / 2
        r = self._away(beta)
        P = np.array(self.precision)
        return -0.5 * ((r @ P) * r).sum(-1) + log_density_at_mean(P)

    def derivatives(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        P = np.array(self.precision)
        return -P @ self._away(beta), P

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        mean = np.array(self.mean)
        L = np.linalg.cholesky(np.array(self.precision))
        z = rng.standard_normal((*shape[:-2], mean.size))
        # P = L L': L'^-1 z has covariance P^-1.
        return mean + np.linalg.solve(L.T, z[..., None])[..., 0].reshape(
            *shape[:-2], *mean.shape
        )

    def potential(self, beta: Any) -> Any:
        P = np.array(self.precision)
        mean = np.array(self.mean)
        r = (beta - mean).flatten()
        return -0.5 * (r @ (P @ r)) + log_density_at_mean(P)
