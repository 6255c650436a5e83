"""Rows that lie far from the others in the columns, whatever their response."""

from collections.abc import Iterable
from typing import ClassVar, NamedTuple

import numpy as np

from probreg.assess.before.base import CHECKS, Check, Finding, Verdict
from probreg.assess.before.rank import surplus
from probreg.data.rows import full_weights
from probreg.model.model import Model

Array = np.ndarray
# Huber (1981) calls leverages from 0.2 on risky; with few rows all are, hence also a multiple of their mean.
HALF, HIGH, TIMES = 0.5, 0.2, 4.0
ALONE = 1.0 - 1e-10  # the row meets its own response, whatever it is


@CHECKS.register
class DesignLeverageCheck(Check):
    """Reports rows with a leverage h = x'(X'X)^-1 x of at least 0.2 and four times the mean; from 0.5 on the row's own
    response counts for more of its fit than all others together.

    >>> model = Model.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 9.0], range(10))
    >>> DesignLeverageCheck().run(model)[0].sentence
    'row 9 alone decides most of its own fit (leverage 0.992; the mean is 0.2)'
    """

    name: ClassVar[str] = "design_leverage"
    question: ClassVar[str] = "Do single rows lie far from all others?"
    cheap: ClassVar[bool] = True

    def run(self, model: Model) -> list[Finding]:
        of_levels = self.unasked_of_levels(model)
        if of_levels is not None:
            return of_levels
        design = model.design
        if surplus(model) is not None:
            return self.report_not_applicable(
                "with more columns than rows no row is told by the others"
            )
        w = full_weights(design.weights, design.n)
        found = far_rows(design_leverage(model), w, row_names(model))
        if not found.rows:
            return self.fine(found.sentence)
        return [self.say(found.verdict, found.sentence, found.remedy, rows=found.rows)]


def design_leverage(model: Model) -> Array:
    """h_i = x_i'(X'WX)^-1 x_i, (n,), of one observation of each row; weighted by the frequencies they add up to rank X.
    Effects that vary by a group are left out. Precisions and sampling weights w are in the row's own part: w_i x_i'(X'WX)^-1 x_i.

    >>> design_leverage(Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])).round(3)
    array([0.833, 0.333, 0.833])
    """
    design = model.design
    design.need_rows("a leverage for each row")
    head = set(
        design.head.tolist()
    )  # a group of one row is no far row: its effect has a prior
    kept = [j for j in design.moments.rank.kept if j in head]
    U = (design.frame.rows(design.X) if design.frame.intercept in kept else design.X)[
        :, kept
    ]
    w = design.square_weights
    counted = design.weight_kind == "frequency"
    weighted = U if w is None else U * np.sqrt(w)[:, None]
    own = U if counted else weighted
    return ((own @ np.linalg.inv(np.linalg.qr(weighted, mode="r"))) ** 2).sum(1)


class FarRows(NamedTuple):
    """What is to be said of leverages; no rows when nothing is."""

    verdict: Verdict
    sentence: str
    remedy: str = ""
    rows: tuple[object, ...] = ()


def far_rows(
    h: Array, w: Array, names: Array, *, least: float = HIGH, mean: float | None = None
) -> FarRows:
    """The rows of positive weight with a leverage h (n,) of at least `least` and four times the mean, highest first."""
    mean = float(w @ h / w.sum()) if mean is None else mean
    far = h >= max(least, TIMES * mean)
    if mean < ALONE:  # else every row fits itself, which is no matter of single rows
        far |= h >= ALONE
    order = [i for i in np.argsort(-h) if w[i] > 0 and far[i]]
    if not order and mean >= ALONE:
        return FarRows(
            Verdict.OK,
            "every row decides its own fit: there are as many coefficients as observations",
        )
    if not order:
        most = h[w > 0].max(initial=0)
        if most >= HALF:
            said = f"no leverage is four times the mean of {mean:.2g}"
        else:
            said = "no row lies far from the others"
        return FarRows(Verdict.OK, f"{said}: the largest leverage is {most:.3g}")
    top = h[order[0]]
    alone = h[order[0]] >= HALF
    if alone:
        what = "alone decides most of its own fit"
    else:
        what = "lies far from the others"
    if top >= ALONE:
        what = "alone decides its own fit"
    if len(order) > 1:
        several = f"; {len(order) - 1} more: {list_first(names[order[1:]])}"
    else:
        several = ""
    sentence = f"row {names[order[0]]} {what} (leverage {top:.3g}; the mean is {mean:.2g}){several}"
    remedy = "check that the row is right, and report the fit without it as well"
    return FarRows(
        Verdict.WARNING if alone else Verdict.NOTE,
        sentence,
        remedy,
        tuple(names[order].tolist()),
    )


def row_names(model: Model) -> Array:
    """Labels of the rows that count, or their numbers."""
    if model.design.labels is None:
        return np.arange(model.design.n)
    return np.asarray(model.design.labels)


def list_first(names: Iterable[object], most: int = 3) -> str:
    """The first names of several.

    >>> list_first("abcd")
    'a, b, c, ...'
    """
    every = [str(n) for n in names]
    return ", ".join(every[:most]) + ", ..." * (len(every) > most)
