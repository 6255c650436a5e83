"""Prior-data conflict: the maximum likelihood estimate under the prior predictive distribution."""

from dataclasses import replace

import numpy as np
from scipy.special import chdtrc, fdtrc

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import Finding, HypothesisTest, NotApplicable
from probreg.errors import ProbregError
from probreg.fits.fit import Fit
from probreg.inference import Auto, Solution
from probreg.linalg.vec import vec_entries
from probreg.model.model import Model
from probreg.priors import Flat

Array = np.ndarray


def conflict(shift: Array, prior: Array, data: Array) -> float:
    """D^2 = d'(P + V)^-1 d for d = maximum likelihood estimate - prior mean, P the covariance of the prior and V the covariance of
    the estimate: chi-square on len(d) degrees of freedom where both are normal and the prior is right.

    >>> round(conflict(np.array([2.0]), np.array([[3.0]]), np.array([[1.0]])), 12)
    1.0
    """
    return float(shift @ np.linalg.solve(prior + data, shift))


@DIAGNOSTICS.register
class ConflictDiagnostic(Diagnostic):
    """Null: the coefficients with a proper prior are drawn from it. D^2 of `conflict` is then chi-square, or q F
    on the degrees of freedom of least squares: a prior predictive test of the estimate (Evans & Moshonov 2006), exact for
    Gaussian noise with sigma given or with priors in its units, otherwise for many rows."""

    name = "prior_data_conflict"
    title = "Prior-data conflict test"
    target = "posterior"
    picture = "plot.coefficients"

    def find(self, fit: Fit) -> list[Finding]:
        if not fit.model.joint.informative.any():
            raise NotApplicable("every prior of a coefficient is flat")
        if not fit.model.joint.gaussian:
            raise NotApplicable("the test is for normal priors; see power_scaling")
        model = fit.model
        alone = _data_alone(fit.model)
        if alone is None:
            return self.report("no test, because maximum likelihood does not exist")
        where = np.flatnonzero(model.joint.informative)
        m = model.shape[1]
        slots = vec_entries(where, m)
        default = alone.stats.get("sigma_unbiased", model.noise(alone.aux))
        sigma = model.noise(default=default)
        precision = model.joint.precision_of_entries(m, sigma)
        prior = np.linalg.inv(precision[np.ix_(slots, slots)])
        shift = (alone.beta - model.joint.center[:, None]).ravel()[slots]
        d2 = conflict(shift, prior, alone.scale.block(slots))
        q = len(slots)
        p = float(chdtrc(q, d2) if alone.df is None else fdtrc(q, alone.df, d2 / q))
        test = HypothesisTest(f"D2({q})", d2, p)
        standardised = np.abs(shift) / np.sqrt(np.diagonal(prior))
        name = model.design.columns[where[int(standardised.argmax()) // m]]
        details = f"; the estimate from the data of {name} is {standardised.max():.2g} prior standard deviations from the prior's centre"
        remedy = "check units, coding and rows, then use a wider prior"
        accepted = "no sign of a conflict"
        rejected = "prior and data contradict each other"
        return self.report_test(test, accepted, rejected, remedy, details)


def _data_alone(model: Model) -> Solution | None:
    """Return the maximum likelihood estimate, None if it does not exist."""
    flat = replace(model, prior=Flat(), aux=model.fixed)
    try:
        solution = Auto().solve(flat, np.random.default_rng(0))
    except ProbregError:
        return None
    usable = solution.status.good and not (
        solution.not_estimable is not None and solution.not_estimable.any()
    )
    if usable and np.isfinite(solution.scale.diagonal()).all():
        return solution
    return None
