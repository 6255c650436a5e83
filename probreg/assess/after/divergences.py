"""Did the sampler follow the posterior everywhere? Divergent steps, and trajectories that were cut short."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, no_chains, parameters
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.system.terminal import percent

_MANY = 0.01  # share of divergent draws from which intervals are not to be reported


@DIAGNOSTICS.register
class DivergenceDiagnostic(Diagnostic):
    """A divergent step leaves the level set it should follow: a region of high curvature was not explored, and what lies
    there is missing from the draws (Betancourt 2017). The parameter is named in which divergent draws differ most."""

    name = "divergences"
    question = "Did the sampler follow the posterior everywhere?"
    target = "posterior"
    rows = False
    picture = "plot.trace"

    def applies(self, fit: Fit) -> str | None:
        kept = "diverging" in fit.solution.posterior.stats
        return no_chains(fit) or (
            None if kept else f"{fit.method.name} keeps no count of divergent steps"
        )

    def run(self, fit: Fit) -> list[Finding]:
        diverging = np.asarray(fit.solution.posterior.stats["diverging"], dtype=bool)
        found = _check_tree_depth(self, fit)
        if not diverging.any():
            return found + self.fine(
                f"none of {diverging.size} steps diverged", statistic=0
            )
        count = int(diverging.sum())
        share = float(diverging.mean())
        # the parameter in which divergent draws lie farthest from the others, in standard deviations, and to which side
        names, draws = parameters(fit)
        sd = draws.reshape(-1, draws.shape[-1]).std(0)
        shift = (draws[diverging].mean(0) - draws.mean((0, 1))) / np.where(
            sd > 0, sd, 1.0
        )
        j = int(np.abs(shift).argmax())
        name = names[j]
        where = "high" if shift[j] > 0 else "low"
        sentence = f"{count} of {diverging.size} steps diverged ({percent(share, 2)}), mostly at {where} values of {name}"
        remedy = "raise target_accept (NUTS(target_accept=0.95)); if steps still diverge, use a more informative prior"
        if share > _MANY:
            verdict = Verdict.PROBLEM
        else:
            verdict = Verdict.WARNING
        return [
            self.say(verdict, sentence, remedy, columns=[name], statistic=count),
            *found,
        ]


def _check_tree_depth(check: DivergenceDiagnostic, fit: Fit) -> list[Finding]:
    cut = fit.solution.posterior.stats.get("reached_max_treedepth")
    if cut is None or not np.any(cut):
        return []
    share = float(np.mean(cut))
    sentence = f"{percent(share, 2)} of trajectories were cut at the largest tree depth, so that draws are dear and correlated"
    return [
        check.say(
            Verdict.NOTE,
            sentence,
            "look at R-hat and effective sample sizes; rescale the columns",
        )
    ]
