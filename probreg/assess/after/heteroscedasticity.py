"""Does the spread of the residuals change with the columns?"""

from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import chdtrc

from probreg.assess.after.base import (
    DIAGNOSTICS,
    SIGNIFICANT,
    Diagnostic,
    robust_errors,
)
from probreg.assess.after.observed import rows_of_observations, zero_weight_obstacle
from probreg.assess.after.residuals import counted_residuals, quantile_residuals
from probreg.assess.before.base import Finding
from probreg.assess.before.response import of_classes
from probreg.fits.fit import Fit
from probreg.likelihoods import UnivariateLikelihood
from probreg.numerics.linalg import rank_of, triangular
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
    """Koenker's form of the Breusch-Pagan test on all columns but effects by group, and White's test on their squares and products where there
    are rows enough; on the residuals of a Gaussian response, on quantile residuals of another continuous one.

    >>> import probreg as pr
    >>> x = np.linspace(1.0, 9.0, 60)
    >>> fit = pr.fit(pr.Model.from_arrays(x, x + 0.1 * x**2 * np.sin(7 * x)))
    >>> HeteroscedasticityDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name: ClassVar[str] = "heteroscedasticity"
    question: ClassVar[str] = "Is the noise equally large everywhere?"
    when: ClassVar[str] = "continuous responses"
    picture: ClassVar[str] = "plot.scale_location"

    def applies(self, fit: Fit) -> str | None:
        likelihood = fit.model.likelihood
        if not isinstance(likelihood, UnivariateLikelihood) or not isinstance(
            likelihood.support, str
        ):
            return f"the spread of {likelihood.named} response follows from its mean; see dispersion"
        if likelihood.working:
            return f"{likelihood.named} density stands for a loss, which asks for no equal spread; see errors of HC0"
        if len(fit.model.design.head) == int(fit.model.design.intercept is not None):
            return "there is no column that the spread could change with"
        return of_classes(fit.model) or zero_weight_obstacle(fit, least=10)

    def run(self, fit: Fit) -> list[Finding]:
        rows = rows_of_observations(fit)
        # effects that vary by a group are no columns that the spread is asked to follow: group_residuals looks at groups
        head = fit.model.design.head
        X = fit.model.design.X[:, head][rows]
        e = _scaled_residuals(fit, rows)
        remedy = f"model another scale (log of the response){robust_errors(fit, 'robust standard errors (HC3)')}"
        koenker = breusch_pagan(e, X)
        out = self._report_test("Breusch-Pagan (Koenker)", koenker, remedy)
        if (
            X.shape[1] * (X.shape[1] + 1) // 2 * _ROWS_PER_PRODUCT <= len(X)
            and (test := white(e, X)).df > koenker.df
        ):
            out += self._report_test("White", test, remedy)
        return out

    def _report_test(
        self, name: str, test: LagrangeMultiplier, remedy: str
    ) -> list[Finding]:
        if test.p_value < SIGNIFICANT:
            changes = "changes with the columns"
        else:
            changes = f"shows no change at level {SIGNIFICANT:g}"
        sentence = f"the spread {changes}: {name} chi2({test.df}) = {format_number(test.statistic, 3)}, {format_p(test.p_value)}"
        return self.report_p_value(
            sentence, remedy, statistic=test.statistic, p_value=test.p_value
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


def _scaled_residuals(fit: Fit, rows: Array) -> Array:
    if fit.model.likelihood.least_squares:
        return counted_residuals(fit, "pearson")[rows]
    return quantile_residuals(fit, rows)
