"""Is the posterior ruled by single rows? Leave-one-out by importance sampling, with the Pareto shape of every row."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, heavier_tails
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_one_out import FEWEST

# numbers in a pointwise log-likelihood that is still quick to smooth
_MOST = 20_000_000
_SHOWN = 5


def no_loo(fit: Fit) -> str | None:
    """Why observations cannot be left out one by one, or None."""
    if observation_rows(fit.model)[1] is not None:
        return "rows of fractional or very large weights are no single observations that could be left out"
    draws = fit.solution.draws
    if draws is not None and draws.count < FEWEST:
        return f"leaving rows out by weights needs {FEWEST} draws or more, and there are {draws.count}"
    size = 0 if draws is None else draws.count * fit.model.design.total
    if size > _MOST:
        return f"its {size:,.0f} numbers take long; fit.loo() computes it"
    return None


@DIAGNOSTICS.register
class LeaveOneOutDiagnostic(Diagnostic):
    """Pareto shape k of every observation's weights below ArviZ's limit (0.7, less for few draws): then the posterior
    without it is near enough to be reached by weights, and the expected log predictive density (elpd) can be trusted."""

    name = "loo"
    question = "Is the posterior ruled by single rows?"
    target = "posterior"
    picture = "plot.residuals"

    def applies(self, fit: Fit) -> str | None:
        return no_loo(fit)

    def run(self, fit: Fit) -> list[Finding]:
        found = fit.loo()
        k = np.asarray(found.pareto_k, dtype=float)
        good = float(found.good_k)
        size = int(np.prod(fit.model.shape)) + len(fit.model.unknown)
        score = f"elpd {found.elpd:.1f} (SE {found.se:.1f}), {found.p:.1f} effective of {size} parameters"
        bad = np.flatnonzero(~(k <= good))
        if not len(bad):
            return self.fine(
                f"no row rules the posterior, Pareto k at most {k.max():.2f}. {score}",
                statistic=k.max(),
            )
        order = bad[np.argsort(-k[bad])]
        # The label of the row behind every observation.
        rows = observation_rows(fit.model)[0]
        labels = fit.model.design.labels
        names = (rows if labels is None else np.asarray(labels)[rows])[order]
        few = ", ".join(
            f"{n} ({'k = ' if i == order[0] else ''}{k[i]:.2f})"
            for n, i in zip(names[:_SHOWN], order)
        )
        if len(bad) > _SHOWN:
            more = f" and {len(bad) - _SHOWN} more"
        else:
            more = ""
        if len(bad) == 1:
            which = f"row {few}"
        else:
            which = f"any one of rows {few}{more}"
        approximate = "log_q" in fit.solution.posterior.stats
        far = f"too far from {'the draws of ' + fit.method.name if approximate else 'the posterior'} for its leave-one-out to be reliable"
        sentence = f"without {which} the posterior is {far}. {score}"
        if approximate:
            first = "fit with nuts, whose draws need no correction. Then "
        else:
            first = ""
        if found.p > size:
            wrong = ". Effective parameters outnumber the parameters, which is a sign that the model does not fit"
        else:
            wrong = ""
        remedy = f"{first}look at these rows and refit without them. If they are right, {heavier_tails(fit)}{wrong}"
        return [
            self.say(
                Verdict.WARNING,
                sentence,
                remedy,
                rows=list(dict.fromkeys(names.tolist())),
                statistic=k[order[0]],
            )
        ]
