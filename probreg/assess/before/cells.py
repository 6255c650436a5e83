"""Empty cells and levels with a single row, read off the 0/1 columns, whatever made them."""

from typing import Any, ClassVar

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.term_columns import few_of, terms_of
from probreg.data import Design
from probreg.data.rows import full_weights
from probreg.data.unwritten import LazyColumns
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
        places = _two_valued(model.design, weights > 0)
        if not len(places):
            return self.report_not_applicable(
                "no column is 0 in some rows and 1 in the others"
            )
        out: list[Finding] = []
        columns = [model.design.columns[j] for j in places]
        single = self._single(model, places, weights)
        empty = self._empty(model, places, weights)
        for term, own in terms_of(model.design, columns).items():
            out += self._of_term(
                term,
                [f for c in own for f in single.get(c, [])],
                "levels with one observation each, whose coefficients rest on that alone",
            )
            out += self._of_term(
                term,
                [f for c in own for f in empty.get(c, [])],
                f"levels that do not meet every level of {model.design.response}",
            )
        if len(places) > 1:
            these = f"the {len(places)} columns of 0 and 1"
        else:
            these = "the column of 0 and 1"
        if not isinstance(model.likelihood, OfClasses):
            return out or self.fine(
                f"every level of {these} has two observations or more"
            )
        return out or self.fine(
            f"every level of {these} is met with every level of the response"
        )

    def _of_term(self, term: str, found: list[Finding], what: str) -> list[Finding]:
        """The findings of the columns of one term: a single one as it is, several in one sentence."""
        columns = list(dict.fromkeys(c for f in found for c in f.columns))
        if len(columns) < 2:
            return found
        return [
            self.say(
                Verdict.WARNING,
                f"{term} has {len(columns)} {what}: {few_of(columns)}",
                found[0].remedy,
                columns,
            )
        ]

    def _single(
        self, model: Model, places: Array, weights: Array
    ) -> dict[str, list[Finding]]:
        """By column, where it is 0 or 1 in one observation alone."""
        out = dict[str, list[Finding]]()
        counts = _by_value(model.design, places, weights[:, None])[..., 0]
        remedy = "merge it with another level, or give the column a prior"
        for k, v in np.argwhere(counts == 1):
            column = model.design.columns[places[k]]
            said = f"only one observation has {column} = {v}: its coefficient rests on that alone"
            out.setdefault(column, []).append(
                self.say(Verdict.WARNING, said, remedy, (column,))
            )
        return out

    def _empty(
        self, model: Model, places: Array, weights: Array
    ) -> dict[str, list[Finding]]:
        """By column, where it is 0 or 1 in no row of some class."""
        likelihood = model.likelihood
        design = model.design
        out = dict[str, list[Finding]]()
        if not isinstance(likelihood, OfClasses):
            return out
        counts = _by_value(
            design, places, (weights > 0)[:, None] * likelihood.tally(design.observed)
        )
        for k, v in np.argwhere((counts == 0).any(-1)):
            column = design.columns[places[k]]
            lacking = [likelihood.classes[c] for c in np.flatnonzero(counts[k, v] == 0)]
            sentence = f"no row has {column} = {v} and {design.response} = {' or '.join(lacking)}"
            remedy = "merge levels, or give the column a prior; see separation"
            out.setdefault(column, []).append(
                self.say(Verdict.WARNING, sentence, remedy, (column,))
            )
        return out


def _two_valued(design: Design, used: Array) -> Array:
    """The places of the columns, but those of terms, that are 0 in some rows and 1 in the others."""
    X = design.X
    own = ~design.of_terms
    if isinstance(X, LazyColumns) and design.coded:
        found = np.zeros(len(own), dtype=bool)
        met = (X.T @ used[:, None].astype(float))[:, 0]
        found[(met > 0) & (met < used.sum())] = True  # of indicators
        found[X.head_places] = [_is_two_valued(x) for x in X.head[used].T]
    else:
        found = np.array(
            [bool(mine) and _is_two_valued(X[used, j]) for j, mine in enumerate(own)]
        )
    return np.flatnonzero(found & own)


def _is_two_valued(x: Array) -> bool:
    return bool(np.all((x == 0) | (x == 1)) and np.ptp(x) == 1)


def _by_value(design: Design, places: Array, V: Array) -> Array:
    """The sums (k, 2, c) of V (n, c) over the rows in which each of the columns is 0, and in which it is 1."""
    X: Any = design.X
    if design.coded:
        ones = (X.T @ V)[places]
    else:
        ones = np.stack([V[X[:, j] == 1].sum(0) for j in places])
    zeros = V.sum(0) - ones
    return np.stack([zeros, ones], 1)
