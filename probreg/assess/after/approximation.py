"""Is the approximate posterior near the true one? The Pareto shape of its importance weights."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.leave_one_out import FEWEST
from probreg.inference.sampling.importance import smoothed
from probreg.system.terminal import percent

GOOD, BAD = (
    0.5,
    0.7,
)  # Vehtari et al. 2024: finite variance; the largest shape for which weighted means settle
MOST, FEW = (
    0.5,
    0.25,
)  # effective share of the draws: a shape is an estimate of tails, this sees the middle


@DIAGNOSTICS.register
class ApproximationDiagnostic(Diagnostic):
    """Pareto shape k of the weights p / q of draws from an approximation q: below 0.5 means of q are near those of p, above
    0.7 q misses part of p (Yao, Vehtari, Simpson & Gelman 2018). The effective share of the draws, 1 / (S sum w^2), is 1
    where q is p."""

    name = "approximation"
    question = "Is the approximate posterior near the true one?"
    target = "posterior"
    picture = "plot.coefficients"

    def applies(self, fit: Fit) -> str | None:
        draws = fit.solution.posterior
        if "log_q" not in draws.stats:
            return f"{fit.method.name} draws from the posterior itself"
        if draws.count < FEWEST:
            return f"the Pareto shape needs {FEWEST} draws or more, and this fit has {draws.count}"
        return None

    def run(self, fit: Fit) -> list[Finding]:
        log_w = (
            np.asarray(fit.tree["sample_stats"]["lp"]).ravel()
            - fit.solution.posterior.stats["log_q"].ravel()
        )
        log_w = log_w - log_w.max()
        w = np.exp(log_w) / np.exp(log_w).sum()
        k = smoothed(log_w).k
        share = float(1.0 / (len(w) * (w**2).sum()))
        sentence = f"weights p / q of the draws have Pareto shape {k:.2f} (good below {GOOD}); {percent(share, 2)} of them count"
        if k < GOOD and share >= MOST:
            return self.fine(sentence, statistic=k)
        if k > BAD or share < FEW:
            verdict = Verdict.WARNING
        else:
            verdict = Verdict.NOTE
        return [
            self.say(
                verdict,
                sentence,
                "sample the posterior instead: fit(model, 'nuts')",
                statistic=k,
            )
        ]
