"""Priors of the coefficients of Gaussian processes."""

from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.model.model import Model
from probreg.model.term_priors import flat_processes, interpolation

_REMEDY = "leave the prior out to estimate its scale, or use one such as Normal(1.0)"


@CHECKS.register
class ProcessCheck(Check):
    """Reports Gaussian processes with a flat prior: they are regressions on their columns and can interpolate the rows.

    >>> from probreg.priors import Flat
    >>> data = {"y": [0.0, 1.0, 0.0, 2.0], "x": [0.0, 1.0, 2.0, 4.0]}
    >>> model = Model.from_formula("y ~ 0 + gp(x, length=1.0)", data, prior={"gp(x)": Flat()})
    >>> print(ProcessCheck().run(model)[0].sentence)
    gp(x, length=1.0): under a flat prior its 4 columns interpolate the 4 rows
    """

    name = "processes"
    title = "Gaussian process priors"

    def find(self, model: Model) -> list[Finding]:
        sentence = interpolation(model.design, model.joint)
        if sentence is not None:
            return self.report(sentence, Verdict.PROBLEM, _REMEDY)
        flat = flat_processes(model.design, model.joint)
        if flat:
            keys = " and ".join(term.key for term in flat)
            q = sum(len(term.columns) for term in flat)
            sentence = f"{keys}: under a flat prior this is a regression on {q} columns, not a process"
            return self.report(sentence, Verdict.WARNING, _REMEDY)
        if not model.design.recipe.processes:
            raise NotApplicable("no term is a Gaussian process")
        return self.report("every Gaussian process has a prior")
