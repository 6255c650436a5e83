"""Does every number enter as a straight line?"""

from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from probreg.assess.after.added import Added, added_test, with_simulated_p_value
from probreg.assess.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.assess.after.local import local, local_obstacle
from probreg.assess.after.observed import zero_weight_obstacle
from probreg.assess.after.replicates import Replicates
from probreg.assess.before.base import Finding
from probreg.assess.before.vif import terms
from probreg.fits.fit import Fit
from probreg.formula.text import column_written
from probreg.system.terminal import format_p


@DIAGNOSTICS.register
class CurvatureDiagnostic(Diagnostic):
    """The square of each numeric column as an added column, the smallest p-value times their number (Bonferroni); the
    test of `reset`, column by column.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 3.0, 40)
    >>> fit = pr.fit(pr.Model.from_arrays(x, (x - 1) ** 2 + np.sin(40 * x), columns=["dose"]))
    >>> CurvatureDiagnostic().run(fit)[0].columns
    ('dose',)
    """

    name: ClassVar[str] = "curvature"
    question: ClassVar[str] = "Does every number enter as a straight line?"
    when: ClassVar[str] = "flat or normal priors, numeric columns"
    picture: ClassVar[str] = "plot.partial"

    def applies(self, fit: Fit) -> str | None:
        why = local_obstacle(fit) or zero_weight_obstacle(fit)
        if why is not None:
            return why
        if _numeric_columns(fit):
            return None
        return "no term is a number"

    def run(self, fit: Fit) -> list[Finding]:
        tests = curvature(fit)
        if not tests:
            return self.fine("the squares of all numbers are in the model")
        p = {name: min(1.0, len(tests) * test.p_value) for name, test in tests.items()}
        bent = sorted(
            (name for name in p if p[name] < SIGNIFICANT), key=lambda name: p[name]
        )
        worst = min(p, key=lambda name: p[name])
        if worst in fit.model.design.read:
            typed = column_written(worst)
        else:
            typed = worst
        remedy = f"write bs({typed}, df=4) or add I({typed}**2)"
        if bent:
            said = f"{', '.join(bent)} bend{'s' * (len(bent) == 1)}"
        else:
            said = "no column bends"
        sentence = f"{said}: least {format_p(p[worst])} for the square of {worst} (times {len(tests)} column{'s' * (len(tests) != 1)})"
        (found,) = self.report_p_value(
            sentence, remedy, statistic=tests[worst].statistic, p_value=p[worst]
        )
        if fit.model.likelihood.width == 1:
            picture = self.picture
        else:
            picture = "plot.reliability"
        return [replace(found, columns=tuple(bent), picture=picture)]


def curvature(fit: Fit) -> dict[str, Added]:
    """The test of the square of each column that is a term of its own and a number, where it is not in the model."""
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
    """Terms that are one column with four values or more."""
    X = fit.model.design.X[:10_000]
    one = {
        t: at[0]
        for t, at in terms(fit.model.design).items()
        if len(at) == 1 and t != "Intercept"
    }
    return {t: j for t, j in one.items() if len(np.unique(X[:, j])) >= 4}
