"""Tests of the functional form by score tests of added variables: RESET, and the square of each column."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc, fdtrc

from probreg.diagnostics.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.diagnostics.after.local import Local, local, local_obstacle
from probreg.diagnostics.after.observed import countable_obstacle
from probreg.diagnostics.after.replicates import (
    Replicates,
    drawable,
    found_by,
    simulated_p_value,
)
from probreg.diagnostics.findings import Finding
from probreg.fits.fit import Fit
from probreg.linalg import rank_of, triangular
from probreg.system.terminal import format_number, format_p

Array = np.ndarray
_SPANNED = 1e-7  # share of a column's length that remains after projection on the others; a column below it adds nothing


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
            distribution = f"chi2({self.q})"
        else:
            distribution = f"F({self.q}, {format_number(self.df, 4)})"
        return f"{distribution} = {format_number(self.statistic, 3)}, {format_p(self.p_value)}{self.how}"


def score_statistic(replicates: Replicates, G: Array) -> Array:
    """b'M^-1 b, (S,), for added columns G with b = G's - G'WZ (Z'WZ)^-1 Z's and M = G'WG - G'WZ (Z'WZ)^-1 Z'WG."""
    G = np.broadcast_to(G, (len(replicates.y), *G.shape[1:]))
    WG = np.einsum("snab,snbq->snaq", replicates.W, G, optimize=True)
    C = np.einsum("nak,snaq->skq", replicates.Z, WG, optimize=True)
    inside = np.linalg.pinv(replicates.data_curvature, hermitian=True)
    Zs = np.einsum("nak,sna->sk", replicates.Z, replicates.score, optimize=True)
    gram = np.einsum("snaq,snar->sqr", G, WG, optimize=True)
    M = gram - np.einsum("skq,skl,slr->sqr", C, inside, C, optimize=True)
    b = np.einsum("snaq,sna->sq", G, replicates.score, optimize=True) - np.einsum(
        "skq,skl,sl->sq", C, inside, Zs, optimize=True
    )
    size = np.sqrt(np.maximum(np.einsum("sqq->sq", gram), np.finfo(float).tiny))
    value, vector = np.linalg.eigh(M / size[:, :, None] / size[:, None, :])
    projection = np.einsum("sqr,sq->sr", vector, b / size)
    with np.errstate(all="ignore"):  # directions that the columns span already
        return np.where(value > _SPANNED**2, projection**2 / value, 0.0).sum(1)


def added_test(pieces: Local, columns: Array) -> Added | None:
    """Score test of coefficients 0 for added columns (n, m, q), or (n, q) for one predictor; None if they add nothing.

    With Z the residual of sqrt(W) times the added columns after projection on the fit's columns, and z = Z'u, the statistic z'(Z'Z)^-1 z is
    chi-square on q degrees of freedom (Rao 1948; Neyman's C(alpha) at an estimate that is not a maximum); for least squares
    the exact F test.
    """
    G = columns[:, None, :] if columns.ndim == 2 else columns
    n, m, _ = pieces.Q.shape
    weight = np.repeat(np.sqrt(pieces.w), m)[:, None]
    Z = np.einsum("nba,nbq->naq", pieces.root, G).reshape(n * m, -1) * weight
    length = np.linalg.norm(Z, axis=0)
    for _ in range(2):  # the second time removes what rounding left
        Z = Z - pieces.span @ (pieces.span.T @ Z)
    Z = Z[:, np.linalg.norm(Z, axis=0) > _SPANNED * length]
    if Z.size:
        Z = Z[:, list(rank_of(triangular(Z)).kept)]
    if not Z.size:
        return None
    u = pieces.u.reshape(-1) * weight[:, 0]
    gain = float(np.sum((np.linalg.qr(Z)[0].T @ u) ** 2))
    q = Z.shape[1]
    if pieces.df is None:
        return Added(gain, q, None, float(chdtrc(q, gain)))
    df = pieces.df - q
    if df <= 0:
        return None
    f = (gain / q) / ((float(u @ u) - gain) / df)
    return Added(f, q, df, float(fdtrc(q, df, f)))


@DIAGNOSTICS.register
class ResetDiagnostic(Diagnostic):
    """RESET: squares and cubes of the fitted linear predictor as added columns (Ramsey 1969; Pregibon 1980 for generalised
    linear models), by the F test for least squares and the efficient score test otherwise. With few rows the p-value of a
    score test is simulated from the fitted model.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 3.0, 40)
    >>> fit = pr.fit(pr.Model.from_arrays(x, np.exp(x) + np.sin(40 * x)))
    >>> ResetDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "reset"
    title = "RESET test"
    when = "flat or normal priors"
    picture = "plot.diagnose"

    def applies(self, fit: Fit) -> str | None:
        return local_obstacle(fit) or countable_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        test = reset(fit)
        if test is None:
            return self.report_ok(
                "powers of the linear predictor are combinations of the columns"
            )
        result = "no sign of a wrong functional form"
        if test.p_value < SIGNIFICANT:
            result = "the functional form may be wrong"
        remedy = "add squares, splines (bs) or interactions, transform a column, or change the link"
        return self.report_p_value(
            f"{result}, {test}",
            remedy,
            statistic=test.statistic,
            p_value=test.p_value,
        )


def reset(fit: Fit, power: int = 3) -> Added | None:
    """Test eta^2, ..., eta^power as added columns, for a softmax the powers of each predictor in that predictor.

    None if they are linear combinations of the columns."""
    # H0: c = 0 in eta = X beta + sum_q c_q eta_hat^q, q = 2 ... power   (Ramsey 1969).
    pieces = local(fit)
    centred = fit.model.design.intercept is not None
    test = added_test(pieces, powers(pieces.eta, pieces.w, power, centred))
    if test is None or test.df is not None or not drawable(fit):
        return test

    def statistic(replicates: Replicates) -> Array:
        ones = np.ones(replicates.eta.shape[1])
        columns = powers(replicates.eta, ones, power, centred)
        return score_statistic(replicates, columns)

    p = simulated_p_value(fit, statistic, test.p_value)
    return test._replace(p_value=p, how=found_by(p))


def powers(eta: Array, w: Array, power: int, centred: bool) -> Array:
    """Return powers 2 ... `power` of the predictors eta (..., n, m), each in its own predictor: (..., n, m, m (power - 1)).

    They are centred and scaled over the observations, with frequencies w (n,), because with an offset eta is not a combination
    of the columns, and its square depends on the centre.
    """
    # eta - sum_i w_i eta_i / sum_i w_i, over its standard deviation
    c = eta - (w @ eta / w.sum())[..., None, :] * centred
    size = np.sqrt(w @ c**2 / w.sum())[..., None, :]
    eta = c / np.where(size > 0, size, 1.0)
    m = eta.shape[-1]
    return np.concatenate(
        [eta[..., None] ** q * np.eye(m) for q in range(2, power + 1)], -1
    )
