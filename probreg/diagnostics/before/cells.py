"""Empty cells and levels with a single observation, in columns of 0 and 1."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from probreg.data import Design
from probreg.data.rows import full_weights
from probreg.data.unwritten import LazyColumns
from probreg.diagnostics.before.base import CHECKS, Check
from probreg.diagnostics.before.term_columns import terms_of
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.likelihoods import OfClasses
from probreg.model.model import Model
from probreg.system.terminal import few_names

Array = np.ndarray


@CHECKS.register
class CellsCheck(Check):
    """Cross-tabulates every 0/1 column with the levels of the response. An empty cell often has an infinite estimate
    (`separation` checks that), and the coefficient of a level with one observation depends on it alone.

    >>> X = np.array([0, 0, 0, 1, 1, 0])[:, None]
    >>> model = Model.from_arrays(X, [0, 1, 0, 1, 1, 1], columns=["treated"], likelihood="bernoulli")
    >>> CellsCheck().run(model)[0].sentence
    'no row has treated = 1 and y = 0'
    """

    name = "cells"
    title = "Empty cells"

    def find(self, model: Model) -> list[Finding]:
        design = model.design
        weights = full_weights(design.weights, design.n)
        places = _two_valued(design, weights > 0)
        if not len(places):
            raise NotApplicable("no column takes the values 0 and 1")
        findings: list[Finding] = []
        for description, remedy, sentences in _describe_cells(model, places, weights):
            for term, columns in terms_of(design, sentences).items():
                sentence = sentences[columns[0]]
                if len(columns) > 1:
                    sentence = f"{term} has {len(columns)} levels {description}: {few_names(columns)}"
                findings += self.report(sentence, Verdict.WARNING, remedy, columns)
        if findings:
            return findings
        if isinstance(model.likelihood, OfClasses):
            text = "every level occurs with every class of the response"
        else:
            text = "every level has at least two observations"
        return self.report(f"{text} ({len(places)} columns)")


def _describe_cells(
    model: Model, places: Array, weights: Array
) -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield a description of small cells and of empty ones, each with its remedy and a sentence for each column."""
    design = model.design
    likelihood = model.likelihood
    counts = _sums_by_value(design, places, weights[:, None])[..., 0]
    sentences = {}
    for k, v in np.argwhere(counts == 1):
        column = design.columns[places[k]]
        sentences[column] = f"only one observation has {column} = {v}"
    remedy = "merge the level with another one, or give the column a prior"
    yield "with only one observation", remedy, sentences
    if not isinstance(likelihood, OfClasses):
        return
    tally = (weights > 0)[:, None] * likelihood.tally(design.observed)
    counts = _sums_by_value(design, places, tally)
    sentences = {}
    for k, v in np.argwhere((counts == 0).any(-1)):
        column = design.columns[places[k]]
        classes = [likelihood.classes[c] for c in np.flatnonzero(counts[k, v] == 0)]
        sentences[column] = (
            f"no row has {column} = {v} and {design.response} = {' or '.join(classes)}"
        )
    remedy = "merge levels, or give the column a prior; see separation"
    yield f"without observations of some {design.response}", remedy, sentences


def _two_valued(design: Design, used: Array) -> Array:
    """Return the columns, except columns of smooth terms, that are 0 in some rows and 1 in the others."""
    X = design.X
    plain = ~design.of_terms
    if isinstance(X, LazyColumns) and design.coded:
        sums = (X.T @ used[:, None].astype(float))[:, 0]
        two = (sums > 0) & (sums < used.sum())  # of indicators
        two[X.head_places] = [_is_two_valued(x) for x in X.head[used].T]
    else:
        two = np.array(
            [bool(ok) and _is_two_valued(X[used, j]) for j, ok in enumerate(plain)]
        )
    return np.flatnonzero(two & plain)


def _is_two_valued(x: Array) -> bool:
    return bool(np.all((x == 0) | (x == 1)) and np.ptp(x) == 1)


def _sums_by_value(design: Design, places: Array, V: Array) -> Array:
    """Return the sums (k, 2, c) of V (n, c) over the rows with 0 in each column, and over those with 1."""
    X: Any = design.X
    if design.coded:
        ones = (X.T @ V)[places]
    else:
        ones = np.stack([V[X[:, j] == 1].sum(0) for j in places])
    return np.stack([V.sum(0) - ones, ones], 1)
