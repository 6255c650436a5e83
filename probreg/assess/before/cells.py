"""Empty cells and levels with a single row, read off the 0/1 columns, whatever made them."""

from typing import ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.term_columns import few_of, terms_of
from probreg.data.rows import full_weights
from probreg.likelihoods import OfClasses
from probreg.model.model import Model

Array = np.ndarray


@CHECKS.register
class CellsCheck(Check):
    """Every 0/1 column is crossed with the levels of the response: a combination that no row holds often has
    an estimate at infinity (`separation` decides), and a level with one row has a coefficient that this row
    alone decides.

    >>> X = np.array([0, 0, 0, 1, 1, 0])[:, None]
    >>> model = Model.from_arrays(X, [0, 1, 0, 1, 1, 1], columns=["treated"], likelihood="bernoulli")
    >>> CellsCheck().run(model)[0].sentence
    'no row has treated = 1 and y = 0'
    """

    name: ClassVar[str] = "cells"
    question: ClassVar[str] = "Is there data in every combination of levels?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        weights = full_weights(model.design.weights, model.design.n)
        X, used = model.design.X, weights > 0
        places = [j for j, own in enumerate(model.design.of_terms) if not own and _two_valued(X[used, j])]
        if not places:
            return self.unasked("no column is 0 in some rows and 1 in the others")
        out: list[Finding] = []
        for term, columns in terms_of(model.design, [model.design.columns[j] for j in places]).items():
            at = [model.design.columns.index(c) for c in columns]
            single = [f for j in at for f in self._single(model.design.columns[j], weights, X[:, j])]
            empty = [f for j in at for f in self._empty(model, j, weights)]
            out += self._of_term(
                term, single, "levels with one observation each, whose coefficients rest on that alone"
            )
            out += self._of_term(term, empty, f"levels that do not meet every level of {model.design.response}")
        these = f"the {len(places)} columns of 0 and 1" if len(places) > 1 else "the column of 0 and 1"
        if not isinstance(model.likelihood, OfClasses):
            return out or self.fine(f"every level of {these} has two observations or more")
        return out or self.fine(f"every level of {these} is met with every level of the response")

    def _of_term(self, term: str, found: list[Finding], what: str) -> list[Finding]:
        """The findings of the columns of one term: a single one as it is, several in one sentence."""
        columns = list(dict.fromkeys(c for f in found for c in f.columns))
        if len(columns) < 2:
            return found
        return [
            self.say(Verdict.WARNING, f"{term} has {len(columns)} {what}: {few_of(columns)}", found[0].remedy, columns)
        ]

    def _single(self, column: str, weights: Array, x: Array) -> list[Finding]:
        counts = np.array([weights[x == v].sum() for v in (0, 1)])
        remedy = "merge it with another level, or give the column a prior"
        return [
            self.say(
                Verdict.WARNING,
                f"only one observation has {column} = {v}: its coefficient rests on that alone",
                remedy,
                (column,),
            )
            for v in (0, 1)
            if counts[v] == 1
        ]

    def _empty(self, model: Model, j: int, weights: Array) -> list[Finding]:
        likelihood, design = model.likelihood, model.design
        if not isinstance(likelihood, OfClasses):
            return []
        tally, column, out = likelihood.tally(design.observed), design.columns[j], []
        for v in (0, 1):
            counts = (weights * (design.X[:, j] == v)) @ tally
            if lacking := [likelihood.classes[k] for k in np.flatnonzero(counts == 0)]:
                sentence = f"no row has {column} = {v} and {design.response} = {' or '.join(lacking)}"
                out.append(
                    self.say(
                        Verdict.WARNING,
                        sentence,
                        "merge levels, or give the column a prior; see separation",
                        (column,),
                    )
                )
        return out


def _two_valued(x: Array) -> bool:
    return bool(np.all((x == 0) | (x == 1)) and np.ptp(x) == 1)
