"""Does the answer hang on the strength of the prior? Power scaling, parameter by parameter."""

from typing import Any

from probreg.assess.after.base import DIAGNOSTICS, Diagnostic
from probreg.assess.after.power import SENSITIVE, has_prior, power_scaling
from probreg.assess.before.base import Finding, Verdict
from probreg.fits.fit import Fit


@DIAGNOSTICS.register
class PowerScalingDiagnostic(Diagnostic):
    """Sensitivity of every parameter to the power of its prior, good below 0.05. Where it is above, the sensitivity to the
    power of the likelihood tells whether the data have a say as well (Kallioinen et al. 2024). The numbers are those of
    `power_scaling(fit)`; whether prior and data contradict one another is the question of `prior_data_conflict`."""

    name = "power_scaling"
    question = "Does the answer hang on the strength of the prior?"
    target = "posterior"
    rows = False
    picture = "plot.coefficients"

    def applies(self, fit: Fit) -> str | None:
        if not has_prior(fit):
            return "every prior of this model is flat or improper, so there is no prior to scale"
        design = fit.model.design
        known = design.reachable or fit.model.likelihood.least_squares  # whose moments are enough
        return None if known else design.rows_absent

    def run(self, fit: Fit) -> list[Finding]:
        table = power_scaling(fit)
        moved = table[table["reading"] != ""].sort_values("prior", ascending=False)
        worst = float(table["prior"].max())
        if moved.empty:
            sentence = f"no parameter hangs on the strength of its prior (largest sensitivity {worst:.2g}, good below {SENSITIVE})"
            return self.fine(sentence, statistic=worst)
        both = moved[moved["reading"] == "possible conflict"]
        alone = moved[moved["reading"] == "strong prior"]
        found = []
        if len(both):
            sentence = f"prior and data both decide {_listed(both)}: a heavier or lighter prior gives another answer"
            remedy = "say where the prior comes from, and report the answer under a wider one beside it"
            found.append(
                self.say(Verdict.NOTE, sentence, remedy, columns=list(both.index), statistic=both["prior"].max())
            )
        if len(alone):
            sentence = f"the prior alone decides {_listed(alone)}: the data hardly move it"
            remedy = "report it as an assumption, not as a finding, or collect data that tell of it"
            found.append(
                self.say(Verdict.WARNING, sentence, remedy, columns=list(alone.index), statistic=alone["prior"].max())
            )
        return found


def _listed(table: Any) -> str:
    few = [
        f"{name} (sensitivity {row.prior:.2f} to the prior, {row.likelihood:.2f} to the data)"
        for name, row in table.head(5).iterrows()
    ]
    return ", ".join(few) + (f" and {len(table) - 5} more" if len(table) > 5 else "")
