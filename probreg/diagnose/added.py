"""Would more columns help? The efficient score test of added variables, without another fit."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc

from probreg.diagnose.local import Local
from probreg.linalg import rank_of, triangular

Array = np.ndarray
_SPANNED = 1e-7  # share of a column's length that is left beside the others, below which it adds nothing


class Added(NamedTuple):
    """F on (q, df) degrees of freedom where sigma was estimated, otherwise chi-square on q (df is None)."""

    statistic: float
    q: int
    df: float | None
    p_value: float

    def __str__(self) -> str:
        of = f"chi2({self.q})" if self.df is None else f"F({self.q}, {self.df:.4g})"
        return f"{of} = {self.statistic:.3g}, p = {self.p_value:.2g}"


def added_test(found: Local, columns: Array) -> Added | None:
    """Score test of coefficients 0 for added columns (n, m, q), or (n, q) for one predictor; None if they add nothing.

    With Z what is left of sqrt(W) times the columns beside those of the fit, z = Z'u, the statistic z'(Z'Z)^-1 z is
    chi-square on q degrees of freedom (Rao 1948; Neyman's C(alpha) at an estimate that is no maximum); for least squares
    the exact F test.
    """
    G = columns[:, None, :] if columns.ndim == 2 else columns
    n, m, _ = found.Q.shape
    weight = np.repeat(np.sqrt(found.w), m)[:, None]
    Z = np.einsum("nba,nbq->naq", found.root, G).reshape(n * m, -1) * weight
    length = np.linalg.norm(Z, axis=0)
    for _ in range(2):  # the second time removes what rounding left
        Z = Z - found.span @ (found.span.T @ Z)
    Z = Z[:, np.linalg.norm(Z, axis=0) > _SPANNED * length]
    Z = Z[:, list(rank_of(triangular(Z)).kept)] if Z.size else Z
    if not Z.size:
        return None
    u = found.u.reshape(-1) * weight[:, 0]
    gain, q = float(np.sum((np.linalg.qr(Z)[0].T @ u) ** 2)), Z.shape[1]
    if found.df is None:
        return Added(gain, q, None, float(chdtrc(q, gain)))
    if (df := found.df - q) <= 0:
        return None
    f = (gain / q) / ((float(u @ u) - gain) / df)
    return Added(f, q, df, float(fdtrc(q, df, f)))
