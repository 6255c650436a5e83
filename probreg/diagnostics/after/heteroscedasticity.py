"""Tests of constant variance: Breusch-Pagan and White."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    SIGNIFICANT,
    Diagnostic,
    robust_errors,
)
from probreg.diagnostics.after.observed import (
    countable_obstacle,
    rows_of_observations,
)
from probreg.diagnostics.after.residuals import (
    constant_obstacle,
    counted_residuals,
    quantile_residuals,
)
from probreg.diagnostics.before.response import two_values_obstacle
from probreg.diagnostics.findings import Finding
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.linalg import rank_of, triangular
from probreg.system.terminal import format_number, format_p

Array = np.ndarray
# White's test needs many observations for each product of columns
_ROWS_PER_PRODUCT = 5


class LagrangeMultiplier(NamedTuple):
    """A chi-square statistic with its degrees of freedom and p-value."""

    statistic: float
    df: int
    p_value: float


@DIAGNOSTICS.register
class HeteroscedasticityDiagnostic(Diagnostic):
    """Koenker's form of the Breusch-Pagan test on all columns except group effects, and White's test on their squares and products
    if there are enough rows; for the residuals of a Gaussian response, and quantile residuals of other continuous ones.

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

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if not isinstance(likelihood, UnivariateLikelihood) or not isinstance(
            likelihood.support, str
        ):
            return f"the mean of {likelihood.named} response determines its variance; see dispersion"
        if likelihood.working:
            return f"{likelihood.named} density represents a loss, which needs no constant variance; see HC0 errors"
        if len(fit.model.design.head) == int(fit.model.design.intercept is not None):
            return "no column besides the intercept"
        return two_values_obstacle(fit.model) or countable_obstacle(fit, minimum=10)

    def run(self, fit: Fit) -> list[Finding]:
        rows = rows_of_observations(fit)
        X = fit.model.design.X[:, fit.model.design.head][rows]
        if fit.model.likelihood.least_squares:
            e = counted_residuals(fit, "pearson")[rows]
        else:
            e = quantile_residuals(fit, rows)
        reason = constant_obstacle(fit, e**2)
        if reason is not None:
            return self.report_not_applicable(reason)
        koenker = breusch_pagan(e, X)
        findings = self._report_test(fit, "Breusch-Pagan (Koenker)", koenker)
        products = X.shape[1] * (X.shape[1] + 1) // 2
        if products * _ROWS_PER_PRODUCT <= len(X):
            test = white(e, X)
            if test.df > koenker.df:
                findings += self._report_test(fit, "White", test)
        return findings

    def _report_test(
        self, fit: Fit, name: str, test: LagrangeMultiplier
    ) -> list[Finding]:
        result = "no sign of a variance that changes with the columns"
        if test.p_value < SIGNIFICANT:
            result = "the variance changes with the columns"
        robust = robust_errors(fit, "robust standard errors (HC3)")
        return self.report_p_value(
            f"{result}, {name} chi2({test.df}) = {format_number(test.statistic, 3)}, {format_p(test.p_value)}",
            f"transform the response (log){robust}",
            statistic=test.statistic,
            p_value=test.p_value,
        )


def breusch_pagan(
    e: Array, Z: Array, *, studentised: bool = True
) -> LagrangeMultiplier:
    """Regression of e^2 (n,) on columns Z (n, q): n R^2 (Koenker 1981), or half the explained sum of squares of
    e^2 / mean(e^2) when not `studentised` (Breusch & Pagan 1979, for normal noise); chi-square on rank [1 Z] - 1.

    >>> round(breusch_pagan(np.array([1.0, -1.0, 2.0, -3.0]), np.arange(4.0)[:, None]).statistic, 4)
    3.4105
    """
    v = e**2 / np.mean(e**2)
    explained, df = _explained_sum_of_squares(v, Z)
    if studentised:
        statistic = explained / np.mean((v - v.mean()) ** 2)
    else:
        statistic = explained / 2.0
    return LagrangeMultiplier(
        float(statistic), df, float(chdtrc(df, statistic)) if df else np.nan
    )


def white(e: Array, X: Array) -> LagrangeMultiplier:
    """Koenker's statistic on the columns, their squares and products (White 1980)."""
    Z = np.c_[np.ones(len(X)), X]
    i, j = np.triu_indices(Z.shape[1])
    return breusch_pagan(e, Z[:, i] * Z[:, j])


def _explained_sum_of_squares(v: Array, Z: Array) -> tuple[float, int]:
    """Return the sum of squares of v about its mean that the columns explain, and their degrees of freedom."""
    spread = Z.std(0)
    size = np.sqrt((Z**2).mean(0))
    U = (Z - Z.mean(0))[:, spread > 1e-10 * size] / spread[spread > 1e-10 * size]
    if U.size:
        U = U[:, list(rank_of(triangular(U)).kept)]
    if not U.size:
        return 0.0, 0
    return float(((np.linalg.qr(U)[0].T @ (v - v.mean())) ** 2).sum()), U.shape[1]
