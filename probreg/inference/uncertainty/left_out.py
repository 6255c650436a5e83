"""Leave-out results of a Gaussian fit at a fixed noise scale, without a refit.

With V the covariance of the coefficients given all rows and X_g, e_g the rows and residuals of a group in units of the noise,
R = I - X_g V X_g': the residuals about a fit without the group are R^-1 e_g, and the estimate moves by V X_g' R^-1 e_g (Cook & Weisberg
1982, section 3.5).
"""

from typing import NamedTuple

import numpy as np

from probreg.data.rows import full_weights
from probreg.inference.base import Array
from probreg.inference.covariance import ParameterCovariance
from probreg.model.model import Model

# an eigenvalue of R, below which the coefficients are not identified without these rows
SINGULAR = 1e-10


class WhitenedRows(NamedTuple):
    """Residuals (n,), rows (n, p) and square roots of precisions (n,), in units of the noise."""

    e: Array
    X: Array
    root: Array

    @classmethod
    def of(cls, model: Model, beta: Array, sigma: float) -> "WhitenedRows":
        """Create them at coefficients (p,) and a noise scale."""
        d = model.design
        root = np.sqrt(full_weights(d.precision, d.n))
        e = root * (d.observed - model.eta(beta[:, None])[:, 0]) / sigma
        return cls(e, d.X * (root / sigma)[:, None], root)

    def apart(self, rows: Array, V: ParameterCovariance) -> Array:
        """R (n_g, n_g) of some rows."""
        B = V.half(self.X[rows])
        return np.asarray(np.eye(len(rows)) - B @ B.T)
