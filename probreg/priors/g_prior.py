"""The g-prior: the prior precision is 1/g times the precision from the data, so that units do not matter."""

from dataclasses import dataclass, replace

import numpy as np

from probreg.arguments.scalars import Positive
from probreg.errors import DataError
from probreg.priors.base import PRIORS, Array, DataDependentPrior, Prior, PriorData
from probreg.priors.mixture import ScaleMixture
from probreg.priors.normal import Normal
from probreg.priors.positive import AuxPrior


@PRIORS.register
@dataclass(frozen=True)
class GPrior(DataDependentPrior):
    """Zellner's g-prior beta ~ N(0, g (sigma^2 / i) (X'WX)^-1), with centred X if there is an intercept.

    i is the Fisher information of one observation at eta = 0 and sigma = 1, so 1 for a Gaussian likelihood and 1/4 for
    a Bernoulli. It is independent over the predictors of a softmax. DataError if columns do not vary or are
    combinations of one another.

    Parameters
    ----------
    g : float or AuxPrior, optional
        A number, a prior of tau = sqrt(g / n), or None for g = n, the information of one observation. InverseGamma(1/2, r^2 / 2)
        is the Jeffreys-Zellner-Siow prior of scale r in the R package BayesFactor.

    References
    ----------
    Zellner 1986; Zellner & Siow 1980; Kass & Wasserman 1995; Bové & Held 2011.

    Examples
    --------
    >>> from probreg.model.model import Model
    >>> model = Model.from_arrays([[0.0], [1.0], [2.0]], [1.0, 3.0, 6.0], columns=["x"], prior=GPrior(g=2.0))
    >>> model.joint.precision(sigma=1.0).round(9).tolist(), model.joint.sigma_units.tolist()  # sum (x - 1)^2 / g
    ([[0.0, 0.0], [0.0, 1.0]], [False, True])
    """

    g: Positive | AuxPrior | None = None

    name = "g_prior"

    def rescale_stated(self, factor: float) -> "GPrior | None":
        if self.g is None or isinstance(self.g, AuxPrior):
            return None
        return replace(self, g=self.g * factor**2)

    def prepare(self, rows: PriorData) -> Prior:
        unit = unit_information_normal(rows, self.name)
        if isinstance(self.g, AuxPrior):
            return ScaleMixture(unit, self.g)
        if self.g is None:
            return unit
        return unit.times(float(np.sqrt(self.g / rows.n)))


def unit_information_normal(rows: PriorData, name: str) -> Normal:
    """N(0, n (sigma^2 / i) (X'WX)^-1), with the information of one observation; in units of sigma if there is a sigma."""
    G = rows.gram()
    _require_independent(G, rows, name)
    if rows.unit_information is None:
        information = 1.0
    else:
        information = rows.unit_information
    # Precision i X'WX / (n sigma^2): the information of one average row.
    P = (G + G.T) / 2.0 * (information / rows.n)
    return Normal(
        precision_matrix=tuple(map(tuple, P)),
        sigma_units=rows.response_sd() is not None,
    )


def _require_independent(G: Array, rows: PriorData, name: str) -> None:
    """Raise DataError with the name of the first column that is a combination of the columns before it."""
    least_share = 1e-12  # share of its own variation: a column with a smaller residual is a combination of the others
    d = np.sqrt(np.diagonal(G))
    if (d == 0).any():
        raise DataError(
            f"column {rows.columns[int(np.argmin(d))]!r} does not vary, so the {name} prior has no scale for it"
        )
    # 1 - c'C_jj^-1 c, the part of column j's variation that earlier columns do not explain.
    C = G / np.outer(d, d)
    for j in range(1, len(C)):
        b = np.linalg.solve(C[:j, :j], C[:j, j])
        if 1.0 - C[:j, j] @ b > least_share * (1.0 + np.abs(b).sum()) ** 2:
            continue
        dependent = [rows.columns[i] for i in range(j) if abs(b[i]) > 1e-6]
        raise DataError(
            f"column {rows.columns[j]!r} is a combination of {', '.join(map(repr, dependent))}, so X'X has no inverse and the {name} "
            "prior no covariance. Drop one, or give these columns another prior such as Normal(scaled=True)"
        )
