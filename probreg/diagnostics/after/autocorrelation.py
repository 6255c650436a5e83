"""Tests of autocorrelation for rows in the order of time: Durbin-Watson and Ljung-Box."""

import numpy as np
from scipy.special import ndtr

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    require_counts,
    require_variation,
    robust_errors,
)
from probreg.diagnostics.after.replicates import with_simulated_p
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
    chi2_test,
)
from probreg.fits.fit import Fit
from probreg.fits.residuals import predictor, standardised_scores
from probreg.likelihoods import SmoothLikelihood, UnivariateLikelihood

Array = np.ndarray
_EXACT = 400  # rows up to which the eigenvalues behind the exact distribution are found


@DIAGNOSTICS.register
class AutocorrelationDiagnostic(Diagnostic):
    """Durbin-Watson for least squares with an intercept, and Ljung-Box over min(10, n/5) lags of the Pearson residuals, with a
    simulated p-value for few rows. The tests are meaningful only for rows in the order of time, or along a line.

    >>> import probreg as pr
    >>> x = np.arange(40.0)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + np.sin(x / 4)))
    >>> AutocorrelationDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "autocorrelation"
    title = "Autocorrelation test"
    when = "ordered responses, rows without weights, in order of time"

    def find(self, fit: Fit) -> list[Finding]:
        design = fit.model.design
        likelihood = fit.model.likelihood
        if design.weights is not None:
            raise NotApplicable("rows with weights have no order in time")
        if not isinstance(likelihood, UnivariateLikelihood):
            raise NotApplicable("classes have no single residual")
        if not isinstance(likelihood, SmoothLikelihood):
            raise NotApplicable("this likelihood has no Pearson residual")
        require_counts(fit, 12)
        is_sorted = is_monotone(predictor(fit)[:, 0])
        if is_monotone(likelihood.response(design.observed)) and not is_sorted:
            sentence = f"no test, because the rows are sorted by {design.response}, which makes neighbours alike"
            remedy = "sort the rows by time, if they have one, before you test them or use HAC errors"
            return self.report(sentence, Verdict.NOTE, remedy)
        e = standardised_scores(fit).u[:, 0]
        require_variation(fit, e)
        tests = []
        if likelihood.least_squares and fit.model.flat and design.intercept is not None:
            tests.append(durbin_watson_test(fit))
        lags = min(10, design.n // 5)
        box = ljung_box(e, lags)
        tests.append(
            with_simulated_p(
                fit,
                box,
                lambda d: box_statistic(d.scores.u[..., 0], lags),
                ordered=True,
            )
        )
        r = float(autocorrelations(e, 1)[0])
        remedy = f"if the rows are in order of time: add lags, a trend or seasons; {robust_errors(fit, 'HAC standard errors')}"
        if is_sorted:
            remedy += "; the rows are also in order of the fitted values, so check the functional form first (reset)"
        findings: list[Finding] = []
        for test in tests:
            findings += self.report_test(
                test._replace(name=f"r1 = {r:.2g}, {test.name}"),
                "no sign of autocorrelation",
                "the residuals are autocorrelated",
                remedy,
            )
        return findings


def is_monotone(values: Array) -> bool:
    """Return whether the values never fall or never rise and are not all the same."""
    steps = np.diff(values)
    return bool(((steps >= 0).all() or (steps <= 0).all()) and steps.any())


def autocorrelations(e: Array, lags: int) -> Array:
    """r_1 ... r_lags (..., lags) with r_k = sum_t c_t c_{t-k} / sum_t c_t^2 of the centred series c in the rows of e (..., n).

    >>> autocorrelations(np.array([1.0, -1.0, 1.0, -1.0]), 2)
    array([-0.75,  0.5 ])
    """
    c = e - e.mean(-1, keepdims=True)
    # r_k does not depend on the unit; residuals of certain classes may reach 1e154
    c = c / np.maximum(np.abs(c).max(-1, keepdims=True), np.finfo(float).tiny)
    products = [(c[..., k:] * c[..., :-k]).sum(-1) for k in range(1, lags + 1)]
    total = np.maximum((c**2).sum(-1), np.finfo(float).tiny)
    return np.stack(products, -1) / total[..., None]


def box_statistic(e: Array, lags: int) -> Array:
    """n (n + 2) sum_k r_k^2 / (n - k) of the series in the rows of e (..., n)."""
    # Var r_k = (n - k) / (n (n + 2)) for independent values, so that Q = sum_k r_k^2 / Var r_k   (Ljung & Box 1978).
    n = e.shape[-1]
    k = np.arange(1, lags + 1)
    return n * (n + 2.0) * (autocorrelations(e, lags) ** 2 / (n - k)).sum(-1)


def ljung_box(e: Array, lags: int) -> HypothesisTest:
    """n (n + 2) sum_k r_k^2 / (n - k), chi-square on `lags` degrees of freedom (Ljung & Box 1978).

    >>> round(ljung_box(np.array([1.0, 2.0, 1.0, 0.0, -1.0, -2.0]), 1).statistic, 4)
    2.601
    """
    return chi2_test(float(box_statistic(e, lags)), lags, "Ljung-Box ")


def durbin_watson(e: Array) -> float:
    """d = sum_t (e_t - e_{t-1})^2 / sum_t e_t^2, near 2 without autocorrelation, 2 (1 - r_1) about.

    >>> durbin_watson(np.array([1.0, -1.0, 1.0, -1.0]))
    3.0
    """
    return float(np.sum(np.diff(e) ** 2) / np.sum(e**2))


def durbin_watson_test(fit: Fit) -> HypothesisTest:
    """d of least squares with its two-sided p-value under normal noise: exact up to 400 rows, by the inversion of Imhof
    (1961) on the eigenvalues that these columns give; above, the normal distribution with the exact mean and variance."""
    design = fit.model.design
    e = standardised_scores(fit).u[:, 0]
    d = durbin_watson(e)
    kept = list(design.moments.rank.kept)
    U = design.X
    if design.frame.intercept in kept:
        U = design.frame.rows(U)
    U = U[:, kept]
    if design.precision is not None:  # as are the residuals
        U = U * np.sqrt(design.precision)[:, None]
    if len(e) <= _EXACT:
        # e = N N'noise, N the orthonormal complement of the columns, e'Ae the sum of squared differences: d <= d_0
        # where z'(N'AN - d_0) z <= 0, z = N'noise / sigma standard normal.
        N = np.linalg.qr(U, mode="complete")[0][:, len(kept) :]
        below = _below_zero(
            np.linalg.eigvalsh(np.diff(N, axis=0).T @ np.diff(N, axis=0)) - d
        )
        how = ", exact"
    else:
        mean, variance = _mean_and_variance(np.linalg.qr(U)[0])
        below = float(ndtr((d - mean) / np.sqrt(variance)))
        how = ", normal approximation"
    # Two-sided: twice the smaller of P(D <= d) and P(D >= d).
    p = min(1.0, 2.0 * min(below, 1.0 - below))
    return HypothesisTest("Durbin-Watson d", d, p, how)


def _mean_and_variance(Q: Array) -> tuple[float, float]:
    """Mean and variance of d for the orthonormal columns Q (Durbin & Watson 1951)."""
    n, k = Q.shape
    # A Q, with e'Ae the sum of squared differences.
    D = np.diff(Q, axis=0)
    AQ = np.concatenate([-D[:1], D[:-1] - D[1:], D[-1:]])
    # M = 1 - QQ', P = tr MA, S = tr (MA)^2, where tr A = 2 (n - 1) and tr A^2 = 2 (3 n - 4):
    # E d = P / (n - k), Var d = 2 (S - P E d) / ((n - k)(n - k + 2))   (Durbin & Watson 1951).
    B = Q.T @ AQ
    P = 2.0 * (n - 1) - np.trace(B)
    S = 2.0 * (3 * n - 4) - 2.0 * np.sum(AQ**2) + np.sum(B**2)
    mean = P / (n - k)
    return mean, 2.0 * (S - P * mean) / ((n - k) * (n - k + 2.0))


def _below_zero(weights: Array) -> float:
    """P(sum_j weights_j z_j^2 < 0) for independent standard normal z (Imhof 1961)."""
    from scipy.integrate import quad

    a = weights / np.abs(weights).max()

    # P(sum a_j z_j^2 < 0) = 1/2 - 1/pi integral_0^inf sin theta(u) / (u rho(u)) du, with
    # theta = 1/2 sum_j arctan(a_j u) and rho = prod_j (1 + a_j^2 u^2)^(1/4)   (Imhof 1961, equation 3.2).
    def integrand(u: float) -> float:
        theta = 0.5 * np.arctan(a * u).sum()
        return float(np.sin(theta) / u * np.exp(-0.25 * np.log1p((a * u) ** 2).sum()))

    integral = quad(integrand, 0.0, np.inf, limit=400, epsabs=1e-12, epsrel=1e-10)[0]
    return float(np.clip(0.5 - integral / np.pi, 0.0, 1.0))
