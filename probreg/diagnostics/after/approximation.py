"""Quality of an approximate posterior: the Pareto shape of its importance weights."""

import numpy as np

from probreg.diagnostics.after.base import DIAGNOSTICS, Diagnostic
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.fits.fit import Fit
from probreg.fits.leave_one_out import FEWEST
from probreg.inference.sampling.importance import smooth_weights
from probreg.system.terminal import percent

# Vehtari et al. 2024: finite variance; the largest shape for which weighted means converge
GOOD, BAD = 0.5, 0.7
# effective share of the draws: a shape estimates the tails, the share covers the middle
MOST, FEW = 0.5, 0.25


@DIAGNOSTICS.register
class ApproximationDiagnostic(Diagnostic):
    """Pareto shape k of the weights p / q of draws from an approximation q: below 0.5 means under q are near means under p, above
    0.7 q misses part of p (Yao, Vehtari, Simpson & Gelman 2018). The effective share of the draws, 1 / (S sum w^2), is 1
    if q is p."""

    name = "approximation"
    title = "Approximation"
    target = "posterior"
    picture = "plot.coefficients"

    def find(self, fit: Fit) -> list[Finding]:
        draws = fit.solution.posterior
        if "log_q" not in draws.stats:
            raise NotApplicable(f"{fit.method.name} draws from the posterior itself")
        if draws.count < FEWEST:
            raise NotApplicable(
                f"the Pareto shape needs at least {FEWEST} draws, got {draws.count}"
            )
        log_p = np.asarray(fit.tree["sample_stats"]["lp"]).ravel()
        log_w = log_p - draws.stats["log_q"].ravel()
        log_w = log_w - log_w.max()
        w = np.exp(log_w) / np.exp(log_w).sum()
        k = smooth_weights(log_w).k
        share = float(1.0 / (len(w) * (w**2).sum()))
        sentence = f"importance weights have Pareto k = {k:.2f} (good below {GOOD}), effective share of draws {percent(share, 2)}"
        if k < GOOD and share >= MOST:
            return self.report(sentence, statistic=k)
        verdict = Verdict.WARNING if k > BAD or share < FEW else Verdict.NOTE
        remedy = "sample the posterior: fit(model, 'nuts')"
        return self.report(sentence, verdict, remedy, statistic=k)
