"""Nonlinearity test: the square of each numeric column as an added variable."""

from functools import partial

import numpy as np

from probreg.assess.after.added import Added, added_test, with_simulated_p_value
from probreg.assess.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.assess.after.local import local, local_obstacle
from probreg.assess.after.observed import zero_weight_obstacle
from probreg.assess.after.replicates import Replicates
from probreg.assess.before import terms
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit
from probreg.formula.text import column_written
from probreg.system.terminal import format_p


@DIAGNOSTICS.register
class CurvatureDiagnostic(Diagnostic):
    """The square of each numeric column as an added column; the smallest p-value times their number (Bonferroni). It is the
    test of `reset`, column by column.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 3.0, 40)
    >>> fit = pr.fit(pr.Model.from_arrays(x, (x - 1) ** 2 + np.sin(40 * x), columns=["dose"]))
    >>> CurvatureDiagnostic().run(fit)[0].columns
    ('dose',)
    """

    name = "curvature"
    title = "Nonlinearity test"
    when = "flat or normal priors, numeric columns"
    picture = "plot.partial"

    def applies(self, fit: Fit) -> str | None:
        reason = local_obstacle(fit) or zero_weight_obstacle(fit)
        if reason is None and not _numeric_columns(fit):
            return "no numeric column"
        return reason

    def run(self, fit: Fit) -> list[Finding]:
        tests = curvature(fit)
        if not tests:
            return self.report_ok("the squares of all numeric columns are in the model")
        p = {name: min(1.0, len(tests) * test.p_value) for name, test in tests.items()}
        order = sorted(p, key=lambda name: p[name])
        nonlinear = tuple(name for name in order if p[name] < SIGNIFICANT)
        worst = order[0]
        result = "no sign of a nonlinear effect"
        if nonlinear:
            result = f"the effect of {', '.join(nonlinear)} may be nonlinear"
        variable = column_written(worst) if worst in fit.model.design.read else worst
        picture = self.picture
        if fit.model.likelihood.width > 1:
            picture = "plot.reliability"
        return self.report_p_value(
            f"{result}, {format_p(p[worst])} for the square of {worst} (Bonferroni over {len(tests)})",
            f"use bs({variable}, df=4) or add I({variable}**2)",
            statistic=tests[worst].statistic,
            p_value=p[worst],
            columns=nonlinear,
            picture=picture,
        )


def curvature(fit: Fit) -> dict[str, Added]:
    """Test the square of each numeric column that is a term, unless the model contains it."""
    found = local(fit)
    design = fit.model.design
    m = fit.model.shape[1]
    out: dict[str, Added] = {}
    for name, j in _numeric_columns(fit).items():
        x = design.X[:, j]
        if design.intercept is not None:
            square = ((x - x.mean()) / x.std()) ** 2
        else:
            square = (x / np.abs(x).max()) ** 2
        columns = square[:, None, None] * np.eye(m)
        test = with_simulated_p_value(
            fit, added_test(found, columns), partial(_of_rows, columns)
        )
        if test is not None:
            out[name] = test
    return out


def _of_rows(columns: np.ndarray, drawn: Replicates) -> np.ndarray:
    """Columns (n, m, q) of the design, at the rows of the data sets."""
    return columns[drawn.rows][None]


def _numeric_columns(fit: Fit) -> dict[str, int]:
    """Return the terms with one column of at least four values."""
    X = fit.model.design.X[:10_000]
    one = {
        t: at[0]
        for t, at in terms(fit.model.design).items()
        if len(at) == 1 and t != "Intercept"
    }
    return {t: j for t, j in one.items() if len(np.unique(X[:, j])) >= 4}
