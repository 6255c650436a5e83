"""Rows against columns: what is left to estimate noise from, and what happened to rows on the way."""

from typing import ClassVar

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.data import Design
from probreg.model.model import Model


def _remedy(design: Design, flat: int) -> str:
    """What to do; where rows are enough and their weights leave too few, the weights may be of another kind."""
    if design.weight_kind == "frequency" and design.rows > flat:
        return "did you mean another kind of weight? Plain weights count rows; see pr.weights.precision, pr.weights.sampling"
    return "use fewer columns, more rows, or a prior"


@CHECKS.register
class RowsCheck(Check):
    """Counts observations (frequency weights add up) against the coefficients that no prior holds.

    >>> model = Model.from_arrays([[1.0, 2.0], [2.0, 3.0], [5.0, 4.0]], [1.0, 2.0, 4.0])
    >>> RowsCheck().run(model)[0].sentence
    '3 observations and 3 coefficients with a flat prior: no residual degrees of freedom'
    """

    name: ClassVar[str] = "rows"
    question: ClassVar[str] = "Are there more observations than coefficients?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        design = model.design
        out = self._balance(model) + [
            self.say(Verdict.NOTE, note) for note in design.notes
        ]
        if design.weights is None:
            weight = ""
        else:
            weight = f" of total weight {design.total:g}"
        return out or self.fine(
            f"{design.n} rows{weight} for {len(design.columns)} columns"
        )

    def _balance(self, model: Model) -> list[Finding]:
        total = model.design.total
        p = len(model.design.columns)
        columns = [
            c
            for c, held in zip(
                model.design.columns, model.joint.informative, strict=True
            )
            if not held
        ]
        flat = len(columns)
        if total <= flat:
            if total == flat:
                lack = "no residual degrees of freedom"
            else:
                lack = "more unknowns than data"
            sentence = f"{total:g} observations and {flat} coefficients with a flat prior: {lack}"
            return [
                self.say(
                    Verdict.PROBLEM, sentence, _remedy(model.design, flat), columns
                )
            ]
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
