"""Sample size: observations against coefficients, and rows that were dropped."""

import numpy as np

from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.findings import Finding, Verdict
from probreg.model.model import Model


@CHECKS.register
class RowsCheck(Check):
    """Compares the number of observations (frequency weights add up) with the number of coefficients with a flat prior.

    >>> model = Model.from_arrays([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0]], [1.0, 2.0, 4.0])
    >>> RowsCheck().run(model)[0].sentence
    '3 observations and 3 coefficients with a flat prior: no residual degrees of freedom'
    """

    name = "rows"
    title = "Sample size"

    def find(self, model: Model) -> list[Finding]:
        design = model.design
        findings = self._compare_sizes(model)
        for note in design.notes:
            findings += self.report(note, Verdict.NOTE)
        weight = "" if design.weights is None else f" of total weight {design.total:g}"
        p = len(design.columns)
        return findings or self.report(f"{design.n} rows{weight} and {p} columns")

    def _compare_sizes(self, model: Model) -> list[Finding]:
        design = model.design
        total = design.total
        p = len(design.columns)
        flat = np.flatnonzero(~model.joint.informative)
        if total <= len(flat):
            remedy = "use fewer columns, more rows, or a prior"
            if design.weight_kind == "frequency" and design.rows > len(flat):
                remedy = "plain weights count rows: did you mean pr.weights.precision or pr.weights.sampling?"
            lack = "more coefficients than observations"
            if total == len(flat):
                lack = "no residual degrees of freedom"
            sentence = f"{total:g} observations and {len(flat)} coefficients with a flat prior: {lack}"
            columns = [design.columns[j] for j in flat]
            return self.report(sentence, Verdict.PROBLEM, remedy, columns)
        if total <= p:
            sentence = f"{total:g} observations and {p} coefficients: the prior determines some of them"
            remedy = "report how the result changes with the scale of the prior"
            return self.report(sentence, Verdict.NOTE, remedy, design.columns)
        return []
