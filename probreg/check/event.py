"""Which event or reference class is modelled, how often each level occurs, and whether that is enough."""

from typing import ClassVar

import numpy as np

from probreg.check.base import CHECKS, Check, Finding, Verdict
from probreg.likelihoods import Bernoulli, Categorical
from probreg.model import Model

FEW = 10.0  # events per coefficient


@CHECKS.register
class EventCheck(Check):
    """Says what is modelled, with weighted counts, and warns below ten events of the rarest level per
    coefficient.

    Ten events per variable is a rule of thumb from simulations (Peduzzi et al. 1996, J. Clin. Epidemiol.
    49:1373). It is no law: five to nine are often enough (Vittinghoff & McCulloch 2007), and the size of
    effects and separation matter more (van Smeden et al. 2016, BMC Med. Res. Methodol. 16:163). Only columns
    with a flat prior count.

    >>> y = ["no", "yes", "no", "yes"]
    >>> model = Model.from_arrays(np.arange(4.0), y, likelihood="bernoulli", event="yes")
    >>> for f in EventCheck().run(model): print(f.verdict.name, f.sentence)
    OK models P(y = yes) on the logit scale; the other level is no; counts: no: 2, yes: 2
    WARNING 2 observations of y = yes for 1 coefficient: 2 per coefficient, fewer than the rule of thumb of 10
    """

    name: ClassVar[str] = "event"
    question: ClassVar[str] = "Which event is modelled, and does it occur often enough?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        likelihood, design = model.likelihood, model.design
        said = f"models {likelihood.describe(design.response)}"
        if not isinstance(likelihood, Bernoulli | Categorical):
            return self.fine(said)
        counts = np.bincount(design.observed.astype(int), design.weights, len(likelihood.levels))
        told = ", ".join(f"{level}: {count:g}" for level, count in zip(likelihood.levels, counts, strict=True))
        out = self.fine(f"{said}; counts: {told}")
        for level, count in zip(likelihood.levels, counts, strict=True):
            if count == 0:
                sentence = f"no observation of {design.response} = {level} has a positive weight"
                out.append(self.say(Verdict.PROBLEM, sentence, "leave the level out, or check the weights"))
        return out + self._few(model, counts)

    def _few(self, model: Model, counts: np.ndarray) -> list[Finding]:
        design, likelihood = model.design, model.likelihood
        assert isinstance(likelihood, Bernoulli | Categorical)  # `run` asks first
        counted = [c for j, c in enumerate(design.columns) if j != design.intercept and not model.joint.informative[j]]
        rarest = int(np.argmax(counts == counts.min())) if len(set(counts)) > 1 else len(counts) - 1
        if not counted or (per := counts[rarest] / len(counted)) >= FEW:
            return []
        plural = "s" * (len(counted) > 1)
        sentence = (
            f"{counts[rarest]:g} observations of {design.response} = {likelihood.levels[rarest]} "
            f"for {len(counted)} coefficient{plural}: {per:.2g} per coefficient, "
            f"fewer than the rule of thumb of {FEW:g}"
        )
        remedy = (
            "use fewer columns or a prior; the rule (Peduzzi et al. 1996) is rough, "
            "and estimates lean away from zero below it"
        )
        return [self.say(Verdict.WARNING, sentence, remedy, counted)]
