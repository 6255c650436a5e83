"""Tests of residuals: their distribution, constant variance, and autocorrelation."""

import re

import numpy as np
from scipy.special import ndtr

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    orthonormal_basis,
    other_likelihood,
    require_counts,
    require_variation,
    robust_errors,
)
from probreg.diagnostics.after.fit_arrays import (
    FitArrays,
    require_information,
    with_simulated_p,
)
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    Verdict,
    chi2_test,
)
from probreg.fits.fit import Fit
from probreg.fits.residuals import predictor, quantile_residuals, standardised_scores
from probreg.likelihoods import SmoothLikelihood

Array = np.ndarray


def _standard_scores(fit: Fit) -> Array:
    """Return the standardised scores (n, m). NotApplicable for a likelihood that has no formula of the expected information."""
    require_information(fit)
    return standardised_scores(fit).u


@DIAGNOSTICS.register
class NormalityDiagnostic(Diagnostic):
    """The Shapiro-Wilk test of the residuals (Royston 1995), and from 5,000 observations on the Jarque-Bera test, which is
    asymptotic.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 80)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + np.exp(3 * np.sin(50 * x))))
    >>> NormalityDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "normality"
    title = "Normality test"
    when = "Gaussian"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        if not fit.model.likelihood.least_squares:
            raise NotApplicable(
                f"{fit.model.likelihood.named} response has no normal noise; see distribution"
            )
        require_counts(fit, continuous=True)
        e = _standard_scores(fit)[fit.model.design.row_of_observations, 0]
        require_variation(fit, e)
        y = fit.model.design.observed
        other = "transform the response or fit a StudentT likelihood"
        if y.min() > 0.0 and np.mean((e - e.mean()) ** 3) > 0.0:
            other = "the response is positive and skewed: fit a Gamma likelihood, or model its logarithm"
        return self.report_test(
            normality_test(e),
            "the residuals are compatible with a normal distribution",
            "the residuals are not normal",
            f"{other}; with many rows this matters for intervals of new observations, not for coefficients",
        )


def normality_test(z: Array, most_shapiro: int = 5000) -> HypothesisTest:
    """Shapiro-Wilk for up to `most_shapiro` values, for which its approximation was made (Royston 1995), Jarque-Bera for more.

    Jarque-Bera is n/6 (skewness^2 + excess^2 / 4), chi-square on 2 degrees of freedom for large n (Jarque & Bera 1987).
    `how` describes the skewness and excess kurtosis.
    """
    from scipy.stats import jarque_bera, kurtosis, shapiro, skew

    if len(z) > most_shapiro:
        name = "Jarque-Bera chi2(2)"
        statistic, p = jarque_bera(z)
    else:
        # W = (sum_i a_i z_(i))^2 / sum_i (z_i - mean z)^2, a from the normal order statistics   (Shapiro & Wilk 1965).
        name = "Shapiro-Wilk W"
        statistic, p = shapiro(z)
    shape = f", skewness {skew(z):.2g}, excess kurtosis {kurtosis(z):.2g}"
    return HypothesisTest(name, float(statistic), float(p), shape)


@DIAGNOSTICS.register
class DistributionDiagnostic(Diagnostic):
    """The normality test of quantile residuals, randomised for discrete responses with the seed of the fit (Dunn & Smyth
    1996).

    >>> import probreg as pr
    >>> zeros = [0] * 40 + [9, 11, 10, 8, 12, 9, 10, 11, 10, 9] * 2
    >>> fit = pr.fit(pr.Model.from_formula("y ~ 1", {"y": zeros}, likelihood="poisson"))
    >>> DistributionDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "distribution"
    title = "Distribution test"
    when = "Student-t and count responses"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        likelihood = fit.model.likelihood
        if likelihood.least_squares:
            raise NotApplicable("normality tests a Gaussian response")
        if not likelihood.has_cdf or likelihood.binary:
            raise NotApplicable(
                "classes have no distribution beyond their probabilities; see calibration"
            )
        if likelihood.working:
            raise NotApplicable(
                f"{likelihood.named} density represents a loss, and the response need not have it"
            )
        require_counts(fit, continuous=True)
        e = quantile_residuals(fit, fit.model.design.row_of_observations)
        require_variation(fit, e)
        return self.report_test(
            normality_test(e),
            f"the quantile residuals are compatible with {likelihood.named} distribution",
            f"the quantile residuals do not fit {likelihood.named} distribution",
            f"look for too many zeros or a few large values; {other_likelihood(fit)}",
        )


@DIAGNOSTICS.register
class HeteroscedasticityDiagnostic(Diagnostic):
    """Koenker's form of the Breusch-Pagan test on all columns except group effects, and White's test on their squares and products
    if there are enough rows; for the residuals of a Gaussian response, and quantile residuals of other continuous responses.

    >>> import probreg as pr
    >>> x = np.linspace(1.0, 9.0, 60)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + 0.1 * x**2 * np.sin(7 * x)))
    >>> HeteroscedasticityDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name = "heteroscedasticity"
    title = "Heteroscedasticity test"
    when = "continuous responses"
    picture = "plot.diagnose"

    def find(self, fit: Fit) -> list[Finding]:
        # White's test needs many observations for each product of columns
        rows_per_product = 5
        design = fit.model.design
        likelihood = fit.model.likelihood
        if not likelihood.has_cdf or likelihood.is_discrete:
            raise NotApplicable(
                f"the mean of {likelihood.named} response determines its variance; see dispersion"
            )
        if likelihood.working:
            raise NotApplicable(
                f"{likelihood.named} density represents a loss, which needs no constant variance; see HC0 errors"
            )
        if len(design.ungrouped) == int(design.intercept is not None):
            raise NotApplicable("no column besides the intercept")
        require_counts(fit, 10, continuous=True)
        rows = design.row_of_observations
        X = design.X[:, design.ungrouped][rows]
        if likelihood.least_squares:
            e = _standard_scores(fit)[rows, 0]
        else:
            e = quantile_residuals(fit, rows)
        require_variation(fit, e**2)
        modelled = X[:, :0]
        if design.owner is not None:
            owner = design.owner[design.ungrouped]
            modelled = X[:, owner >= likelihood.without_formulas.width]
        tests = [breusch_pagan(e, X, modelled)]
        products = X.shape[1] * (X.shape[1] + 1) // 2
        if products * rows_per_product <= len(X):
            # products of indicators may be combinations of other columns
            tests += [test for test in [white(e, X, modelled)] if test.df > tests[0].df]
        tests = [test for test in tests if test.df]
        if not tests:
            raise NotApplicable("the formula of the scale has all columns")
        findings = []
        robust = robust_errors(fit, "robust standard errors (HC3)")
        remedies = [_scale_formula(fit, X, e), robust]
        if likelihood.support == "real":
            remedies.insert(0, "transform the response (log)")
        remedy = "; ".join(filter(None, remedies))
        for test in tests:
            findings += self.report_test(
                test,
                "no sign of a variance that changes with the columns",
                "the variance changes with the columns",
                remedy,
            )
        return findings


def _scale_formula(fit: Fit, X: Array, e: Array) -> str:
    """Return the remedy that models a scale parameter by the variable that is most correlated with the squared residuals; "" if
    there is no such parameter."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    names = likelihood.parameters[likelihood.width :]
    if not names or not isinstance(likelihood, SmoothLikelihood):
        return ""
    columns = [design.columns[j] for j in design.ungrouped]
    with np.errstate(invalid="ignore"):  # of the intercept
        r = np.abs(np.corrcoef(e**2, X, rowvar=False)[0, 1:])
    column = columns[int(np.nanargmax(r))]
    words = re.findall(r"\w+", column)
    variable = next((v for v in design.recipe.all_variables if v in words), column)
    return f"add a formula {{'{names[0]}': '~ {variable}'}} to the model"


def breusch_pagan(
    e: Array,
    Z: Array,
    modelled: Array | None = None,
    name: str = "Breusch-Pagan (Koenker)",
) -> HypothesisTest:
    """n R^2 of the regression of e^2 (n,) on columns Z (n, q), chi-square on rank [1 Z] - 1 (Koenker 1981).

    If the scale has a formula, e^2 is uncorrelated with its columns `modelled` by the equations of maximum likelihood. The test
    is then on the residuals of Z from these columns, with fewer degrees of freedom.

    >>> round(breusch_pagan(np.array([1.0, -1.0, 2.0, -3.0]), np.arange(4.0)[:, None]).statistic, 4)
    3.4105
    """
    v = e**2 / np.mean(e**2)
    v = v - v.mean()
    spread = Z.std(0)
    varies = spread > 1e-10 * np.sqrt((Z**2).mean(0))
    U = (Z - Z.mean(0))[:, varies] / spread[varies]
    if modelled is not None:
        known = orthonormal_basis(modelled - modelled.mean(0))
        U = U - known @ (known.T @ U)
        # columns of the formula leave rounding errors
        U = U[:, np.linalg.norm(U, axis=0) > 1e-10 * np.sqrt(len(U))]
    basis = orthonormal_basis(U)
    explained = np.sum((basis.T @ v) ** 2)
    return chi2_test(float(explained / np.mean(v**2)), basis.shape[1], f"{name} ")


def white(e: Array, X: Array, modelled: Array | None = None) -> HypothesisTest:
    """Koenker's statistic on the columns, their squares and products (White 1980)."""
    Z = np.c_[np.ones(len(X)), X]
    i, j = np.triu_indices(Z.shape[1])
    return breusch_pagan(e, Z[:, i] * Z[:, j], modelled, "White")


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
        if likelihood.width > 1:
            raise NotApplicable("classes have no single residual")
        if not isinstance(likelihood, SmoothLikelihood):
            raise NotApplicable("this likelihood has no Pearson residual")
        require_counts(fit, 12)
        is_sorted = is_monotone(predictor(fit)[:, 0])
        y = design.observed
        if likelihood.has_scalar_mean:
            y = likelihood.response(y)
        if is_monotone(y) and not is_sorted:
            sentence = f"no test, because the rows are sorted by {design.response}, which makes neighbours alike"
            remedy = "sort the rows by time, if they have one, before you test them or use HAC errors"
            return self.report(sentence, Verdict.NOTE, remedy)
        e = _standard_scores(fit)[:, 0]
        require_variation(fit, e)
        tests = []
        if likelihood.least_squares and fit.model.flat and design.intercept is not None:
            tests.append(durbin_watson_test(fit))
        lags = min(10, design.n // 5)

        def statistic(data_sets: FitArrays) -> Array:
            return ljung_box(data_sets.scores.u[..., 0], lags)

        box = chi2_test(float(ljung_box(e, lags)), lags, "Ljung-Box ")
        tests.append(with_simulated_p(fit, box, statistic, ordered=True))
        r = autocorrelations(e, 1)[0]
        remedy = f"if the rows are in order of time: add lags, a trend or seasons; {robust_errors(fit, 'HAC standard errors')}"
        if is_sorted:
            remedy += "; the rows are also in order of the fitted values, so check the functional form first (reset)"
        findings = []
        for test in tests:
            findings += self.report_test(
                test._replace(name=f"r1 = {r:.2g}, {test.name}"),
                "no sign of autocorrelation",
                "the residuals are autocorrelated",
                remedy,
            )
        return findings


def is_monotone(values: Array) -> bool:
    """Return whether the values never decrease or never increase, and are not all equal."""
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


def ljung_box(e: Array, lags: int) -> Array:
    """n (n + 2) sum_k r_k^2 / (n - k) of the series in the rows of e (..., n), chi-square on `lags` degrees of freedom.

    >>> round(float(ljung_box(np.array([1.0, 2.0, 1.0, 0.0, -1.0, -2.0]), 1)), 4)
    2.601
    """
    # Var r_k = (n - k) / (n (n + 2)) for independent values, so that Q = sum_k r_k^2 / Var r_k   (Ljung & Box 1978).
    n = e.shape[-1]
    k = np.arange(1, lags + 1)
    return n * (n + 2.0) * (autocorrelations(e, lags) ** 2 / (n - k)).sum(-1)


def durbin_watson_test(fit: Fit, most_exact: int = 400) -> HypothesisTest:
    """d = sum_t (e_t - e_{t-1})^2 / sum_t e_t^2 of least squares, near 2 without autocorrelation, and about 2 (1 - r_1).

    The two-sided p-value is under normal noise: exact up to `most_exact` rows, by the inversion of Imhof
    (1961) on the eigenvalues for these columns; with more rows the normal distribution with the exact mean and variance."""
    design = fit.model.design
    e = _standard_scores(fit)[:, 0]
    d = float(np.sum(np.diff(e) ** 2) / np.sum(e**2))
    kept = list(design.moments.rank.kept)
    U = design.X
    if design.frame.intercept in kept:
        U = design.frame.rows(U)
    U = U[:, kept]
    if design.precision is not None:  # as are the residuals
        U = U * np.sqrt(design.precision)[:, None]
    if len(e) <= most_exact:
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
        return np.sin(theta) / u * np.exp(-0.25 * np.log1p((a * u) ** 2).sum())

    integral = quad(integrand, 0.0, np.inf, limit=400, epsabs=1e-12, epsrel=1e-10)[0]
    return float(np.clip(0.5 - integral / np.pi, 0.0, 1.0))
