"""The double-exponential prior: the lasso."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag
from probreg.errors import DataError
from probreg.priors.base import PRIORS, Penalty, PerColumn, Scale
from probreg.priors.elastic_net import AbsoluteAndSquare
from probreg.priors.penalties.spelling import read_penalty


@PRIORS.register
@dataclass(frozen=True)
class Laplace(AbsoluteAndSquare):
    """The double exponential p(beta_j) = exp(-|beta_j - location_j| / scale_j) / (2 scale_j); its mode is the lasso.

    The posterior mode has exact zeros; a posterior mean never has.

    Parameters
    ----------
    scale : float or tuple of float or AuxPrior
        Positive, one number or one per column; a prior for an unknown scale.
    location : float or tuple of float
        The centre, one number or one per column.
    sigma_units : bool
        Whether the prior scale is `scale` times sigma.
    scaled : bool
        Whether the scale is stated on standardised columns.

    References
    ----------
    Tibshirani 1996.

    Examples
    --------
    >>> float(Laplace(0.5).log_prob(np.array([[1.0]])))
    -2.0
    >>> float(Laplace(0.5).log_prob(np.array([[3.0], [-1.0]])).round(9))  # -|3| / 0.5 - |-1| / 0.5
    -8.0
    """

    scale: Scale = 1.0
    _: KW_ONLY
    location: PerColumn = 0.0
    sigma_units: Flag = False
    scaled: Flag = False

    name = "laplace"
    ratio = 1.0
    in_pymc = "Laplace", "mu", "b"

    @classmethod
    def from_lasso(cls, *, of: str = "sklearn", **settings: Any) -> "Laplace":
        """Return the prior with the mode of another package's lasso: `alpha=` (sklearn Lasso, glum, statsmodels), `C=` (sklearn
        LogisticRegression with l1_ratio=1), `lam=` (glmnet, or of="rss": RSS + lam |w|_1).

        The values that depend on the data (`n=`, and `sigma=` for Gaussian noise, if it does not cancel) are arguments, or are read off
        `model=`; `likelihood=` and glmnet's `standardize=True` as in Normal.from_ridge.

        >>> Laplace.from_lasso(alpha=0.25, of="sklearn", n=8, sigma=2.0).scale
        2.0
        """
        read = read_penalty(of=of, ridge=False, **settings)
        if read.l2:
            raise DataError(
                f"this penalty has a part in w^2 of weight {read.l2:g}: see ElasticNet.from_elastic_net"
            )
        scale = read.stretch / read.l1 * (read.sigma() ** 2 if read.relative else 1.0)
        if not (read.standardized and read.relative):
            return cls(scale, scaled=read.standardized)
        return cls(scale / read.sigma(), sigma_units=True, scaled=True)

    def as_penalty(self, q: int, unit: float = 1.0) -> Penalty | None:
        weight = np.broadcast_to(1.0 / (unit * self.scales), q)
        return Penalty("lasso", f"|{self.deviation_formula.strip('()')}|", weight)
