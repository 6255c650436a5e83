"""Jeffreys' prior: the square root of the determinant of the Fisher information. Its mode is Firth's estimate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from probreg.compiled.density import opaque_function
from probreg.errors import DataError
from probreg.priors.base import (
    PRIORS,
    Array,
    DataDependentPrior,
    Flat,
    Generator,
    Prior,
    PriorData,
    Shape,
    WholePrior,
)


@PRIORS.register
@dataclass(frozen=True)
class Jeffreys(DataDependentPrior):
    """Jeffreys' prior p(beta) ∝ |I(beta)|^(1/2), with the Fisher information I of all coefficients together; unnormalised.

    It includes the intercept. Its mode removes the first-order bias of maximum likelihood and is finite under
    separation. If the noise has a scale (Gaussian, StudentT) the information does not vary with beta: the prior is then
    flat, and the mode is maximum likelihood. The prior is invariant under linear maps of the columns. It is one prior of all
    columns, so it cannot be combined with others.

    References
    ----------
    Firth 1993; Heinze & Schemper 2002; for a softmax Kosmidis & Firth 2011.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([0.0, 0.0, 1.0, 1.0], [0, 0, 1, 1], likelihood="bernoulli", prior=Jeffreys())
    >>> pr.fit(model).coef.values.round(6)  # half a success and half a failure more in each cell
    array([-1.609438,  3.218876])
    """

    name = "jeffreys"
    whole = True
    proper = False

    def prepare(self, rows: PriorData) -> Prior:
        if rows.fisher is None:
            return Flat()
        return FisherPrior(rows.fisher)


@dataclass(frozen=True, eq=False)
class FisherPrior(WholePrior):
    """Jeffreys' prior at some rows. `fisher` maps beta (p, m) to I (p m, p m) and the gradient (p m,) of log |I|^(1/2)."""

    fisher: Callable[[Array], tuple[Array, Array]]

    name = "jeffreys"
    proper = False

    def log_prob(self, beta: Array, unit: Array | float = 1.0) -> Array:
        lead = beta.shape[:-2]
        log_dets = [
            half_log_det(self.fisher(b)[0]) for b in beta.reshape(-1, *beta.shape[-2:])
        ]
        return np.array(log_dets).reshape(lead)

    def derivatives(self, beta: Array, unit: float = 1.0) -> tuple[Array, Array]:
        """The gradient is exact. The curvature is its central difference, with steps in units of each coefficient's standard error."""
        step = 1e-4  # of the standard error of a coefficient: differences of an exact gradient have an error of about 1e-8
        information, g = self.fisher(beta)
        size = 1.0 / np.sqrt(np.maximum(np.diagonal(information), np.finfo(float).tiny))
        H = np.empty_like(information)
        for j, h in enumerate(step * np.minimum(size, 1e6)):
            move = np.zeros(beta.size)
            move[j] = h
            ahead, behind = (
                self.fisher(beta + s * move.reshape(beta.shape))[1] for s in (1.0, -1.0)
            )
            # -d^2 log p / d beta_j d beta by (g(beta + h e_j) - g(beta - h e_j)) / (2 h).
            H[j] = -(ahead - behind) / (2.0 * h)
        return g, 0.5 * (H + H.T)

    def sample(
        self,
        rng: Generator,
        shape: Shape,
        unit: Array | float = 1.0,
    ) -> Array:
        raise DataError(
            "Jeffreys' prior is known up to a constant only and has no draws; name a proper prior, such as Normal(2.5)"
        )

    def potential(self, beta: Any) -> Any:
        """log p as a symbolic scalar of symbolic coefficients (p, m), evaluated by NumPy."""
        gradient = lambda b: self.fisher(b)[1].reshape(b.shape)
        return opaque_function(self.log_prob, gradient)(beta)


def half_log_det(information: Array) -> float:
    """log |I|^(1/2), -inf if I is not positive definite."""
    d = np.sqrt(np.abs(np.diagonal(information)))
    if not (np.isfinite(d).all() and (d > 0).all()):
        return -np.inf
    # log |I|^(1/2) = log |D^-1 I D^-1| / 2 + log |D|, D = diag(I)^(1/2).
    sign, value = np.linalg.slogdet(information / np.outer(d, d))
    if sign > 0:
        return float(0.5 * value + np.log(d).sum())
    return -np.inf
