"""The efficient score test of added variables, without another fit."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc

from probreg.assess.after.local import Local
from probreg.assess.after.replicates import (
    Replicates,
    drawable,
    found_by,
    simulated_p_value,
)
from probreg.fits.fit import Fit
from probreg.numerics.linalg import rank_of, triangular
from probreg.system.terminal import format_number, format_p

Array = np.ndarray
_SPANNED = 1e-7  # share of a column's length that is left beside the others, below which it adds nothing


class Added(NamedTuple):
    """F on (q, df) degrees of freedom if sigma is estimated, otherwise chi-square on q (df is None); `how` describes a simulated
    p-value."""

    statistic: float
    q: int
    df: float | None
    p_value: float
    how: str = ""

    def __str__(self) -> str:
        if self.df is None:
            of = f"chi2({self.q})"
        else:
            of = f"F({self.q}, {format_number(self.df, 4)})"
        return f"{of} = {format_number(self.statistic, 3)}, {format_p(self.p_value)}{self.how}"


def with_simulated_p_value(
    fit: Fit, test: Added | None, columns: Callable[[Replicates], Array]
) -> Added | None:
    """Return the score test with its p-value from data simulated from the model instead of from the chi-square limit."""
    if test is None or test.df is not None or not drawable(fit):
        return test
    p = simulated_p_value(
        fit, lambda drawn: score_statistic(drawn, columns(drawn)), test.p_value
    )
    return test._replace(p_value=p, how=found_by(p))


def score_statistic(drawn: Replicates, G: Array) -> Array:
    """b'M^-1 b, (S,), for added columns G with b = G's - G'WZ (Z'WZ)^-1 Z's and M = G'WG - G'WZ (Z'WZ)^-1 Z'WG."""
    G = np.broadcast_to(G, (len(drawn.y), *G.shape[1:]))
    WG = np.einsum("snab,snbq->snaq", drawn.W, G, optimize=True)
    C = np.einsum("nak,snaq->skq", drawn.Z, WG, optimize=True)
    inside = np.linalg.pinv(drawn.data_curvature, hermitian=True)
    Zs = np.einsum("nak,sna->sk", drawn.Z, drawn.score, optimize=True)
    whole = np.einsum("snaq,snar->sqr", G, WG, optimize=True)
    M = whole - np.einsum("skq,skl,slr->sqr", C, inside, C, optimize=True)
    b = np.einsum("snaq,sna->sq", G, drawn.score, optimize=True) - np.einsum(
        "skq,skl,sl->sq", C, inside, Zs, optimize=True
    )
    size = np.sqrt(np.maximum(np.einsum("sqq->sq", whole), np.finfo(float).tiny))
    value, vector = np.linalg.eigh(M / size[:, :, None] / size[:, None, :])
    along = np.einsum("sqr,sq->sr", vector, b / size)
    with np.errstate(all="ignore"):  # directions that the columns span already
        return np.where(value > _SPANNED**2, along**2 / value, 0.0).sum(1)


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
    if Z.size:
        Z = Z[:, list(rank_of(triangular(Z)).kept)]
    if not Z.size:
        return None
    u = found.u.reshape(-1) * weight[:, 0]
    gain = float(np.sum((np.linalg.qr(Z)[0].T @ u) ** 2))
    q = Z.shape[1]
    if found.df is None:
        return Added(gain, q, None, float(chdtrc(q, gain)))
    df = found.df - q
    if df <= 0:
        return None
    f = (gain / q) / ((float(u @ u) - gain) / df)
    return Added(f, q, df, float(fdtrc(q, df, f)))
