"""Which event or reference class is modelled, how often each level occurs, and whether that is enough."""

from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.data.rows import full_weights
from probreg.likelihoods import OfClasses, OfTrials
from probreg.model.model import Model

FEW, FEWEST = 5.0, 2.0  # events per coefficient, for a note and for a warning


@CHECKS.register
class EventCheck(Check):
    """Says what is modelled, with weighted counts, notes fewer than five events of the rarest level per coefficient, and
    warns below two.

    It is a count and no test. Ten events per variable is a rule of thumb (Peduzzi et al. 1996, J. Clin. Epidemiol.
    49:1373) that alarms most samples of 50 rows, where five to nine are enough (Vittinghoff & McCulloch 2007); the size of
    effects and separation matter more (van Smeden et al. 2016, BMC Med. Res. Methodol. 16:163), and separation is decided
    exactly by its own check. Only columns with a flat prior count.

    >>> y = ["no", "yes", "no", "yes"]
    >>> model = Model.from_arrays(np.arange(4.0), y, likelihood="bernoulli", event="yes")
    >>> for f in EventCheck().run(model): print(f.verdict.name, f.sentence)
    OK models P(y = yes) on the logit scale; the other level is no; counts: no: 2, yes: 2
    NOTE 2 observations of y = yes for 1 coefficient: 2 per coefficient, fewer than 5
    """

    name: ClassVar[str] = "event"
    question: ClassVar[str] = "Which event is modelled, and does it occur often enough?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        likelihood = model.likelihood
        design = model.design
        said = f"models {likelihood.describe(design.response)}"
        if not isinstance(likelihood, OfClasses):
            return self.fine(said)
        w = full_weights(design.weights, len(design.observed))
        counts = w @ likelihood.tally(design.observed)
        told = ", ".join(
            f"{level}: {count:g}"
            for level, count in zip(likelihood.classes, counts, strict=True)
        )
        out = self.fine(f"{said}; counts: {told}")
        for level, count in zip(likelihood.classes, counts, strict=True):
            if count == 0:
                sentence = f"no observation of {design.response} = {level} has a positive weight"
                out.append(
                    self.say(
                        Verdict.PROBLEM,
                        sentence,
                        "leave the level out, or check the weights",
                    )
                )
        return out + self._report_few_events(model, counts)

    def _report_few_events(self, model: Model, counts: np.ndarray) -> list[Finding]:
        design = model.design
        likelihood = model.likelihood
        assert isinstance(likelihood, OfClasses)  # `run` asks first
        counted = [
            c
            for j, c in enumerate(design.columns)
            if j != design.intercept and not model.joint.informative[j]
        ]
        if len(set(counts)) > 1:
            rarest = int(np.argmax(counts == counts.min()))
        else:
            rarest = len(counts) - 1
        if not counted or (per := counts[rarest] / len(counted)) >= FEW:
            return []
        plural = "s" * (len(counted) > 1)
        sentence = (
            f"{counts[rarest]:g} {'trials' if isinstance(likelihood, OfTrials) else 'observations'} of {design.response} = "
            f"{likelihood.classes[rarest]} "
            f"for {len(counted)} coefficient{plural}: {per:.2g} per coefficient, "
            f"fewer than {FEWEST if per < FEWEST else FEW:g}"
        )
        if per < FEWEST:
            verdict = Verdict.WARNING
        else:
            verdict = Verdict.NOTE
        return [
            self.say(
                verdict,
                sentence,
                "use fewer columns or a prior; estimates of so few lean away from zero",
                counted,
            )
        ]
