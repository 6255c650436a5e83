"""Would powers of the fitted predictor help? Ramsey's test of the functional form."""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from probreg.assess.after.added import Added, added_test, with_simulated_p_value
from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.after.local import local, local_obstacle
from probreg.assess.after.observed import zero_weight_obstacle
from probreg.assess.before.base import Finding
from probreg.fits.fit import Fit

Array = np.ndarray


@DIAGNOSTICS.register
class ResetDiagnostic(Diagnostic):
    """RESET: squares and cubes of the fitted linear predictor as added columns (Ramsey 1969; Pregibon 1980 for generalised
    linear models), by the F test for least squares and the efficient score test elsewhere; the p-value of a score test of few
    rows is that of data drawn from the fitted model.

    >>> import probreg as pr
    >>> x = np.linspace(0.0, 3.0, 40)
    >>> fit = pr.fit(pr.Model.from_arrays(x, np.exp(x) + np.sin(40 * x)))
    >>> ResetDiagnostic().run(fit)[0].verdict.name
    'WARNING'
    """

    name: ClassVar[str] = "reset"
    question: ClassVar[str] = (
        "Is the mean linear in the columns, on the scale of the link?"
    )
    when: ClassVar[str] = "flat or normal priors"
    picture: ClassVar[str] = "plot.partial"

    def applies(self, fit: Fit) -> str | None:
        return local_obstacle(fit) or zero_weight_obstacle(fit)

    def run(self, fit: Fit) -> list[Finding]:
        test = reset(fit)
        if test is None:
            return self.fine(
                "powers of the fitted predictor are combinations of the columns"
            )
        if test.p_value < 0.01:
            miss = "do not say all"
        else:
            miss = "are not improved on by powers of the fit"
        remedy = "add squares, splines (bs) or products of columns, transform a column, or see the link"
        (found,) = self.report_p_value(
            f"the columns as they stand {miss}: RESET {test}",
            remedy,
            statistic=test.statistic,
            p_value=test.p_value,
        )
        return [
            found
            if fit.model.likelihood.width == 1
            else replace(found, picture="plot.reliability")
        ]


def reset(fit: Fit, power: int = 3) -> Added | None:
    """Test of eta^2, ..., eta^power added to the columns; for a softmax the powers of each predictor to that predictor.
    None when they are combinations of the columns."""
    # H0: c = 0 in eta = X beta + sum_q c_q eta_hat^q, q = 2 ... power   (Ramsey 1969).
    found = local(fit)
    centred = fit.model.design.intercept is not None
    test = added_test(found, powers(found.eta, found.w, power, centred))
    return with_simulated_p_value(
        fit,
        test,
        lambda drawn: powers(drawn.eta, np.ones(drawn.eta.shape[1]), power, centred),
    )


def powers(eta: Array, w: Array, power: int, centred: bool) -> Array:
    """Powers 2 ... `power` of the predictors eta (..., n, m), each beside its own predictor: (..., n, m, m (power - 1)).

    Centre and unit are those of the observations, rows counted by their frequencies w (n,): with an offset eta is no
    combination of the columns, and its square changes with where it is centred.
    """
    # eta - sum_i w_i eta_i / sum_i w_i, over its standard deviation
    c = eta - (w @ eta / w.sum())[..., None, :] * centred
    size = np.sqrt(w @ c**2 / w.sum())[..., None, :]
    eta = c / np.where(size > 0, size, 1.0)
    m = eta.shape[-1]
    return np.concatenate(
        [eta[..., None] ** q * np.eye(m) for q in range(2, power + 1)], -1
    )
