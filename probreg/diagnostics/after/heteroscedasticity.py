"""Tests of constant variance: Breusch-Pagan and White."""

import numpy as np

from probreg.diagnostics.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    orthonormal_basis,
    require_counts,
    require_variation,
    robust_errors,
)
from probreg.diagnostics.findings import (
    Finding,
    HypothesisTest,
    NotApplicable,
    chi2_test,
)
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.residuals import quantile_residuals, standardised_scores
from probreg.likelihoods import UnivariateLikelihood

Array = np.ndarray
# White's test needs many observations for each product of columns
_ROWS_PER_PRODUCT = 5


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

    def find(self, fit: Fit) -> list[Finding]:
        design = fit.model.design
        likelihood = fit.model.likelihood
        if not isinstance(likelihood, UnivariateLikelihood) or likelihood.is_discrete:
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
        rows = observation_rows(fit.model)[0]
        X = design.X[:, design.ungrouped][rows]
        if likelihood.least_squares:
            e = standardised_scores(fit).u[rows, 0]
        else:
            e = quantile_residuals(fit, rows)
        require_variation(fit, e**2)
        tests = [breusch_pagan(e, X)]
        products = X.shape[1] * (X.shape[1] + 1) // 2
        if products * _ROWS_PER_PRODUCT <= len(X):
            # products of indicators may add nothing
            tests += [test for test in [white(e, X)] if test.df > tests[0].df]
        findings: list[Finding] = []
        robust = robust_errors(fit, "robust standard errors (HC3)")
        for test in tests:
            findings += self.report_test(
                test,
                "no sign of a variance that changes with the columns",
                "the variance changes with the columns",
                f"transform the response (log); {robust}",
            )
        return findings


def breusch_pagan(
    e: Array, Z: Array, name: str = "Breusch-Pagan (Koenker)"
) -> HypothesisTest:
    """n R^2 of the regression of e^2 (n,) on columns Z (n, q), chi-square on rank [1 Z] - 1 (Koenker 1981).

    >>> round(breusch_pagan(np.array([1.0, -1.0, 2.0, -3.0]), np.arange(4.0)[:, None]).statistic, 4)
    3.4105
    """
    v = e**2 / np.mean(e**2)
    v = v - v.mean()
    spread = Z.std(0)
    varies = spread > 1e-10 * np.sqrt((Z**2).mean(0))
    U = (Z - Z.mean(0))[:, varies] / spread[varies]
    basis = orthonormal_basis(U)
    explained = np.sum((basis.T @ v) ** 2)
    return chi2_test(float(explained / np.mean(v**2)), basis.shape[1], f"{name} ")


def white(e: Array, X: Array) -> HypothesisTest:
    """Koenker's statistic on the columns, their squares and products (White 1980)."""
    Z = np.c_[np.ones(len(X)), X]
    i, j = np.triu_indices(Z.shape[1])
    return breusch_pagan(e, Z[:, i] * Z[:, j], "White")
