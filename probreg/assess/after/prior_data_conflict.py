"""Do prior and data contradict one another? The estimate of the data alone, judged by what the prior foretold."""

from dataclasses import replace

import numpy as np
from scipy.special import chdtrc, fdtrc

from probreg.assess.after.base import DIAGNOSTICS, SIGNIFICANT, Diagnostic
from probreg.assess.before.base import Finding
from probreg.errors import ProbregError
from probreg.fits.fit import Fit
from probreg.inference import Auto, Solution
from probreg.model.model import Model
from probreg.numerics.frame import vec_entries
from probreg.priors import Flat
from probreg.system.terminal import format_p

Array = np.ndarray


def conflict(shift: Array, prior: Array, data: Array) -> float:
    """D^2 = d'(P + V)^-1 d for d = maximum likelihood estimate - prior mean, P the covariance of the prior and V that of
    the estimate: chi-square on len(d) degrees of freedom where both are normal and the prior is right.

    >>> round(conflict(np.array([2.0]), np.array([[3.0]]), np.array([[1.0]])), 12)
    1.0
    """
    return float(shift @ np.linalg.solve(prior + data, shift))


@DIAGNOSTICS.register
class ConflictDiagnostic(Diagnostic):
    """Null: the columns with a proper prior have their coefficients from it. D^2 of `conflict` is then chi-square, or q F
    on the degrees of freedom of least squares: a prior predictive test of the estimate (Evans & Moshonov 2006), exact for
    Gaussian noise with sigma given or with priors in its units, otherwise for many rows."""

    name = "prior_data_conflict"
    question = "Do prior and data contradict one another?"
    target = "posterior"
    picture = "plot.coefficients"

    def applies(self, fit: Fit) -> str | None:
        if not fit.model.joint.informative.any():
            return "every prior of a coefficient is flat"
        if fit.model.joint.gaussian:
            return None
        return "the test is for normal priors; power_scaling serves any"

    def run(self, fit: Fit) -> list[Finding]:
        model = fit.model
        alone = _data_alone(fit.model)
        if alone is None:
            return self.fine(
                "the data alone have no estimate of all coefficients, so that they cannot contradict the prior"
            )
        if "exact_fit" in alone.stats and model.joint.sigma_units.any():
            return self.fine(
                "the columns reproduce the response, so that the prior in units of sigma has no width to compare with"
            )
        where = np.flatnonzero(model.joint.informative)
        m = model.shape[1]
        slots = vec_entries(where, m)
        sigma = model.noise(
            default=alone.stats.get("sigma_unbiased", model.noise(alone.aux))
        )
        prior = np.linalg.inv(
            model.joint.precision_of_entries(m, sigma)[np.ix_(slots, slots)]
        )
        shift = (alone.beta - model.joint.center[:, None]).ravel()[slots]
        d2 = conflict(shift, prior, alone.scale.block(slots))
        q = len(slots)
        p = float(chdtrc(q, d2) if alone.df is None else fdtrc(q, alone.df, d2 / q))
        far = np.abs(shift) / np.sqrt(np.diagonal(prior))
        name = model.design.columns[where[int(far.argmax()) // m]]
        if p >= SIGNIFICANT:
            lies = "what the prior foretells"
        else:
            lies = "where the prior puts little"
        sentence = (
            f"the estimate of the data alone is {lies} (D2 = {d2:.3g} on {q}, {format_p(p)}). "
            f"That of {name} is {far.max():.2g} prior standard deviations from the prior's centre"
        )
        remedy = "look for wrong units, coding or rows first; then state a prior that allows what the data say"
        return self.report_p_value(sentence, remedy, statistic=d2, p_value=p)


def _data_alone(model: Model) -> Solution | None:
    """Maximum likelihood, None where it does not exist."""
    flat = replace(model, prior=Flat(), aux=model.fixed)
    try:
        found = Auto().choose(flat)[0].solve(flat, np.random.default_rng(0))
    except ProbregError:
        return None
    usable = found.status.good and not (
        found.not_estimable is not None and found.not_estimable.any()
    )
    if usable and np.isfinite(found.scale.diagonal()).all():
        return found
    return None
