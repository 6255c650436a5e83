"""Tests of the functional form by score tests of added variables: RESET, and the square of each column."""

import numpy as np
from scipy.special import fdtrc

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    orthonormal_basis,
    require_counts,
)
from probreg.diagnostics.after.local import Local, local
from probreg.diagnostics.after.replicates import with_simulated_p
from probreg.diagnostics.findings import Finding, HypothesisTest, chi2_test
from probreg.fits.fit import Fit
from probreg.system.terminal import format_number

Array = np.ndarray
_SPANNED = 1e-7  # share of a column's length that remains after projection on the others; a column below it adds nothing


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

    def find(self, fit: Fit) -> list[Finding]:
        require_counts(fit)
        test = reset(fit)
        if test is None:
            return self.report(
                "powers of the linear predictor are combinations of the columns"
            )
        accepted = "no sign of a wrong functional form"
        rejected = "the functional form may be wrong"
        remedy = "add squares, splines (bs) or interactions, transform a column, or change the link"
        return self.report_test(test, accepted, rejected, remedy)


def reset(fit: Fit, power: int = 3) -> HypothesisTest | None:
    """Test eta^2, ..., eta^power as added columns, for a softmax the powers of each predictor in that predictor.

    None if they are linear combinations of the columns."""
    # H0: c = 0 in eta = X beta + sum_q c_q eta_hat^q, q = 2 ... power   (Ramsey 1969).
    centred = fit.model.design.intercept is not None

    pieces = fit.once(local)
    test = added_test(pieces, powers(pieces.eta[0], pieces.w, power, centred))
    if test is None or pieces.df is not None:
        return test

    def statistic(data_sets: Local) -> Array:
        columns = powers(data_sets.eta, data_sets.w, power, centred)
        return score_statistic(data_sets, columns)

    return with_simulated_p(fit, test, statistic)


def added_test(pieces: Local, G: Array) -> HypothesisTest | None:
    """Score test of coefficients 0 for added columns (n, m, q); None if they add nothing.

    With A = sqrt(W) times the added columns after projection on the fit's columns, and z = A'u, the statistic z'(A'A)^-1 z is
    chi-square on q degrees of freedom (Rao 1948; Neyman's C(alpha) at an estimate that is not a maximum); for least squares
    the exact F test.
    """
    n, m, k = pieces.Z.shape
    weight = np.sqrt(np.repeat(pieces.w, m))
    columns = np.einsum(
        "nba,nbq->naq", pieces.scores.root[0], np.concatenate([pieces.Z, G], -1)
    )
    columns = columns.reshape(n * m, -1) * weight[:, None]
    # columns with a prior may be combinations of others
    span = orthonormal_basis(columns[:, :k])
    A = columns[:, k:]
    length = np.linalg.norm(A, axis=0)
    for _ in range(2):  # the second time removes what rounding left
        A = A - span @ (span.T @ A)
    A = A[:, np.linalg.norm(A, axis=0) > _SPANNED * length]
    if not A.size:
        return None
    basis = orthonormal_basis(A)
    q = basis.shape[1]
    u = pieces.scores.u.ravel() * weight
    gain = float(np.sum((basis.T @ u) ** 2))
    if pieces.df is None:
        return chi2_test(gain, q)
    df = pieces.df - q
    if df <= 0:
        return None
    f = (gain / q) / ((float(u @ u) - gain) / df)
    p = float(fdtrc(q, df, f))
    return HypothesisTest(f"F({q}, {format_number(df, 4)})", f, p)


def score_statistic(data_sets: Local, G: Array) -> Array:
    """b'M^-1 b, (S,), for added columns G with b = G's - G'WZ (Z'WZ)^-1 Z's and M = G'WG - G'WZ (Z'WZ)^-1 Z'WG."""
    WG = np.einsum("snab,snbq->snaq", data_sets.W, G, optimize=True)
    C = np.einsum("nak,snaq->skq", data_sets.Z, WG, optimize=True)
    WZ = np.einsum("snab,nbk->snak", data_sets.W, data_sets.Z, optimize=True)
    curvature = np.einsum("nak,snal->skl", data_sets.Z, WZ, optimize=True)
    inside = np.linalg.pinv(curvature, hermitian=True)
    Zs = np.einsum("nak,sna->sk", data_sets.Z, data_sets.score, optimize=True)
    gram = np.einsum("snaq,snar->sqr", G, WG, optimize=True)
    M = gram - np.einsum("skq,skl,slr->sqr", C, inside, C, optimize=True)
    b = np.einsum("snaq,sna->sq", G, data_sets.score, optimize=True) - np.einsum(
        "skq,skl,sl->sq", C, inside, Zs, optimize=True
    )
    size = np.sqrt(np.maximum(np.einsum("sqq->sq", gram), np.finfo(float).tiny))
    value, vector = np.linalg.eigh(M / size[:, :, None] / size[:, None, :])
    projection = np.einsum("sqr,sq->sr", vector, b / size)
    with np.errstate(all="ignore"):  # directions that the columns span already
        return np.where(value > _SPANNED**2, projection**2 / value, 0.0).sum(1)


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
