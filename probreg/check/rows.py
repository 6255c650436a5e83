"""Rows against columns: what is left to estimate noise from, and what happened to rows on the way."""

from typing import ClassVar

import numpy as np

from probreg.check.base import CHECKS, Check, Finding, Verdict
from probreg.model import Model


@CHECKS.register
class RowsCheck(Check):
    """Counts observations (frequency weights add up) against the coefficients that no prior holds.

    >>> model = Model.from_arrays(np.array([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0]]), [1.0, 2.0, 4.0])
    >>> RowsCheck().run(model)[0].sentence
    '3 observations and 3 coefficients with a flat prior: no residual degrees of freedom'
    """

    name: ClassVar[str] = "rows"
    question: ClassVar[str] = "Are there more observations than coefficients?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        design = model.design
        out = self._balance(model) + [self.say(Verdict.NOTE, note) for note in design.notes]
        weights = np.ones(design.n) if design.weights is None else design.weights
        if unused := int((weights == 0).sum()):
            out.append(self.say(Verdict.NOTE, f"{unused} of {design.n} rows have weight zero and do not count"))
        weight = "" if design.weights is None else f" of total weight {design.total:g}"
        return out or self.fine(f"{design.n} rows{weight} for {len(design.columns)} columns")

    def _balance(self, model: Model) -> list[Finding]:
        total, p = model.design.total, len(model.design.columns)
        columns = [c for c, held in zip(model.design.columns, model.joint.informative, strict=True) if not held]
        flat = len(columns)
        if total <= flat:
            lack = "no residual degrees of freedom" if total == flat else "more unknowns than data"
            sentence = f"{total:g} observations and {flat} coefficients with a flat prior: {lack}"
            return [self.say(Verdict.PROBLEM, sentence, "use fewer columns, more rows, or a prior", columns)]
        if total <= p:
            sentence = f"{total:g} observations and {p} coefficients: the prior decides a part of them"
            return [
                self.say(
                    Verdict.NOTE,
                    sentence,
                    "report how the answer moves with the prior's scale",
                    model.design.columns,
                )
            ]
        return []
