"""RESET: Ramsey's test of the functional form with powers of the linear predictor."""

import numpy as np

from probreg.assess.after.added import Added, added_test, with_simulated_p_value
from probreg.assess.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.assess.after.local import local, local_obstacle
from probreg.assess.after.observed import zero_weight_obstacle
from probreg.assess.findings import Finding
from probreg.fits.fit import Fit

Array = np.ndarray


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
    picture = "plot.partial"

    def applies(self, fit: Fit) -> str | None:
        return local_obstacle(fit) or zero_weight_obstacle(fit)

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
        picture = self.picture
        if fit.model.likelihood.width > 1:
            picture = "plot.reliability"
        return self.report_p_value(
            f"{result}, {test}",
            remedy,
            statistic=test.statistic,
            p_value=test.p_value,
            picture=picture,
        )


def reset(fit: Fit, power: int = 3) -> Added | None:
    """Test eta^2, ..., eta^power as added columns, for a softmax the powers of each predictor in that predictor.

    None if they are combinations of the columns."""
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
    """Return powers 2 ... `power` of the predictors eta (..., n, m), each in its own predictor: (..., n, m, m (power - 1)).

    They are centred and scaled over the observations, with frequencies w (n,), because with an offset eta is no combination
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
