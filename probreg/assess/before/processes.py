"""Gaussian processes of the model: whether their columns have a prior, without which the covariance function says nothing."""

from typing import ClassVar

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.model.model import Model
from probreg.model.term_priors import flat_processes, interpolation


@CHECKS.register
class ProcessCheck(Check):
    """Coefficients of a process are N(0, tau^2); under a flat prior its columns are a regression on as many as there are, which
    goes through every row where they are as many as the rows.

    >>> from probreg.priors import Flat
    >>> data = {"y": [0.0, 1.0, 0.0, 2.0], "x": [0.0, 1.0, 2.0, 4.0]}
    >>> model = Model.from_formula("y ~ 0 + gp(x, length=1.0)", data, prior={"gp(x)": Flat()})
    >>> print(ProcessCheck().run(model)[0].sentence)
    gp(x, length=1.0): under a flat prior its 4 columns interpolate the 4 rows
    """

    name: ClassVar[str] = "processes"
    question: ClassVar[str] = "Do the columns of Gaussian processes have a prior?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        remedy = "leave its prior out, and its scale is estimated, or state one such as Normal(1.0)"
        flat = flat_processes(model.design, model.joint)
        q = sum(len(term.columns) for term in flat)
        said = interpolation(model.design, model.joint)
        if said is not None:
            return [self.say(Verdict.PROBLEM, said, remedy)]
        if flat:
            keys = " and ".join(term.key for term in flat)
            sentence = f"{keys}: under a flat prior this is a regression on {q} columns, not a process"
            return [self.say(Verdict.WARNING, sentence, remedy)]
        if not model.design.recipe.processes:
            return self.report_not_applicable("no term is a Gaussian process")
        return self.fine("the columns of every Gaussian process have a prior")
