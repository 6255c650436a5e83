"""Divergent transitions, and trajectories that reached the maximum tree depth."""

import numpy as np

from probreg.assess.after.base import (
    DIAGNOSTICS,
    Diagnostic,
    chains_obstacle,
    parameters,
)
from probreg.assess.findings import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.system.terminal import percent

_MANY = 0.01  # share of divergent draws above which intervals should not be reported


@DIAGNOSTICS.register
class DivergenceDiagnostic(Diagnostic):
    """Reports divergent transitions: the sampler did not explore a region of high curvature, which is missing from the draws
    (Betancourt 2017). It names the parameter for which divergent draws differ most from the others."""

    name = "divergences"
    title = "Divergences"
    target = "posterior"
    rows = False
    picture = "plot.trace"

    def applies(self, fit: Fit) -> str | None:
        reason = chains_obstacle(fit)
        if reason is None and "diverging" not in fit.solution.posterior.stats:
            return f"{fit.method.name} does not count divergent transitions"
        return reason

    def run(self, fit: Fit) -> list[Finding]:
        stats = fit.solution.posterior.stats
        diverging = np.asarray(stats["diverging"], dtype=bool)
        out = self._report_tree_depth(stats.get("reached_max_treedepth"))
        count = int(diverging.sum())
        if not count:
            sentence = f"no divergent transitions among {diverging.size} draws"
            return out + self.report_ok(sentence, statistic=0)
        # the parameter with the largest shift of divergent draws, in standard deviations
        names, draws = parameters(fit)
        sd = draws.reshape(-1, draws.shape[-1]).std(0)
        shift = draws[diverging].mean(0) - draws.mean((0, 1))
        shift = shift / np.where(sd > 0, sd, 1.0)
        j = int(np.abs(shift).argmax())
        side = "high" if shift[j] > 0 else "low"
        share = count / diverging.size
        sentence = f"{count} of {diverging.size} transitions diverged ({percent(share, 2)}), mostly at {side} values of {names[j]}"
        remedy = "raise target_accept (NUTS(target_accept=0.95)), or use a more informative prior"
        verdict = Verdict.PROBLEM if share > _MANY else Verdict.WARNING
        found = self.report(verdict, sentence, remedy, [names[j]], statistic=count)
        return found + out

    def _report_tree_depth(self, reached: np.ndarray | None) -> list[Finding]:
        if reached is None or not np.any(reached):
            return []
        share = percent(float(np.mean(reached)), 2)
        sentence = f"{share} of trajectories reached the maximum tree depth, so sampling is slow and draws are correlated"
        remedy = "check R-hat and effective sample sizes; rescale the columns"
        return self.report(Verdict.NOTE, sentence, remedy)
