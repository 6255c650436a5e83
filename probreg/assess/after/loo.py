"""Leave-one-out by importance sampling, with the Pareto shape of every row."""

import numpy as np

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic, heavier_tails
from probreg.assess.findings import Finding, Verdict
from probreg.fits.fit import Fit
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_one_out import FEWEST

_MOST = 20_000_000  # pointwise log-likelihoods that are computed within seconds
_SHOWN = 5  # rows in a sentence


def no_loo(fit: Fit) -> str | None:
    """Return why observations cannot be left out one by one, or None."""
    if observation_rows(fit.model)[1] is not None:
        return "rows with fractional or very large weights are not single observations"
    draws = fit.solution.draws
    if draws is not None and draws.count < FEWEST:
        return (
            f"leave-one-out by weights needs at least {FEWEST} draws, got {draws.count}"
        )
    size = 0 if draws is None else draws.count * fit.model.design.total
    if size > _MOST:
        return f"{size:,.0f} log-likelihoods take long; use fit.loo()"
    return None


@DIAGNOSTICS.register
class LeaveOneOutDiagnostic(Diagnostic):
    """Reports observations with a Pareto shape k above ArviZ's limit (0.7, less for few draws), for which leave-one-out by weights
    and the expected log predictive density (elpd) are unreliable."""

    name = "loo"
    title = "Leave-one-out (Pareto k)"
    target = "posterior"
    picture = "plot.residuals"

    def applies(self, fit: Fit) -> str | None:
        return no_loo(fit)

    def run(self, fit: Fit) -> list[Finding]:
        found = fit.loo()
        k = np.asarray(found.pareto_k, dtype=float)
        size = int(np.prod(fit.model.shape)) + len(fit.model.unknown)
        score = f"elpd {found.elpd:.1f} (SE {found.se:.1f}), {found.p:.1f} effective of {size} parameters"
        bad = np.flatnonzero(~(k <= float(found.good_k)))
        if not len(bad):
            sentence = f"no influential rows, Pareto k at most {k.max():.2f}. {score}"
            return self.report_ok(sentence, statistic=k.max())
        order = bad[np.argsort(-k[bad])]
        # the label of the row behind every observation
        names = fit.model.design.row_names[observation_rows(fit.model)[0]][order]
        first = ", ".join(f"{n} ({k[i]:.2f})" for n, i in zip(names[:_SHOWN], order))
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        sentence = f"unreliable for row{'s' * (len(bad) > 1)} {first}{more}. {score}"
        remedy = "look at these rows and refit without them"
        if "log_q" in fit.solution.posterior.stats:
            remedy = f"fit with nuts first; then {remedy}"
        remedy += f". If they are correct, {heavier_tails(fit)}"
        if found.p > size:
            remedy += (
                ". More effective parameters than parameters: the model may not fit"
            )
        return self.report(
            Verdict.WARNING,
            sentence,
            remedy,
            rows=list(dict.fromkeys(names.tolist())),
            statistic=k[order[0]],
        )
