"""The modelled event, the number of observations of each level, and events per coefficient."""

import numpy as np

from probreg.data.rows import full_weights
from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, Verdict
from probreg.likelihoods import OfClasses, OfTrials
from probreg.model.model import Model

FEW, FEWEST = 5.0, 2.0  # events per coefficient, for a note and for a warning


@CHECKS.register
class EventCheck(Check):
    """States the modelled event with weighted counts, notes fewer than five events of the rarest level per coefficient, and
    warns below two.

    It is a count, not a test. Ten events per variable is a rule of thumb (Peduzzi et al. 1996, J. Clin. Epidemiol.
    49:1373) that flags most samples of 50 rows, where five to nine are enough (Vittinghoff & McCulloch 2007); the size of
    effects and separation matter more (van Smeden et al. 2016, BMC Med. Res. Methodol. 16:163), and `separation` has a check of
    its own. Only columns with a flat prior count.

    >>> y = ["no", "yes", "no", "yes"]
    >>> model = Model.from_arrays(np.arange(4.0), y, likelihood="bernoulli", event="yes")
    >>> for f in EventCheck().run(model): print(f.verdict.name, f.sentence)
    OK the model is for P(y = yes) on the logit scale; the other level is no; counts: no: 2, yes: 2
    NOTE 2 observations of y = yes for 1 coefficient: 2 per coefficient, fewer than 5
    """

    name = "event"
    title = "Events"

    def find(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        design = model.design
        sentence = f"the model is for {likelihood.describe(design.response)}"
        if not isinstance(likelihood, OfClasses):
            return self.report(sentence)
        w = full_weights(design.weights, len(design.observed))
        counts = w @ likelihood.tally(design.observed)
        by_level = [f"{v}: {n:g}" for v, n in zip(likelihood.classes, counts)]
        findings = self.report(f"{sentence}; counts: {', '.join(by_level)}")
        for k in np.flatnonzero(counts == 0):
            sentence = f"no observation of {design.response} = {likelihood.classes[k]} has a positive weight"
            remedy = "leave the level out, or check the weights"
            findings += self.report(sentence, Verdict.PROBLEM, remedy)
        return findings + self._report_few_events(model, likelihood, counts)

    def _report_few_events(
        self, model: Model, likelihood: OfClasses, counts: np.ndarray
    ) -> list[Finding]:
        design = model.design
        flat = np.flatnonzero(~model.joint.informative)
        columns = [design.columns[j] for j in flat if j != design.intercept]
        rarest = int(np.argmin(counts))
        if len(set(counts)) == 1:
            rarest = len(counts) - 1
        if not columns or counts[rarest] / len(columns) >= FEW:
            return []
        per = counts[rarest] / len(columns)
        unit = "trials" if isinstance(likelihood, OfTrials) else "observations"
        sentence = (
            f"{counts[rarest]:g} {unit} of {design.response} = {likelihood.classes[rarest]} "
            f"for {len(columns)} coefficient{'s' * (len(columns) > 1)}: {per:.2g} per coefficient, "
            f"fewer than {FEWEST if per < FEWEST else FEW:g}"
        )
        remedy = "use fewer columns or a prior; estimates from few events are biased away from zero"
        verdict = Verdict.WARNING if per < FEWEST else Verdict.NOTE
        return self.report(sentence, verdict, remedy, columns)
