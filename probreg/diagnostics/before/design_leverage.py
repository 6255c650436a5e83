"""Leverage of the rows in the design, without their response."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from probreg.data.rows import full_weights
from probreg.diagnostics.before.base import CHECKS, Check, refuse_coded_levels
from probreg.diagnostics.before.rank import surplus
from probreg.diagnostics.findings import Finding, NotApplicable, Verdict
from probreg.model.model import Model

Array = np.ndarray
# Huber (1981) calls leverages from 0.2 on risky; with few rows all are, so a multiple of their mean is required too.
HALF, HIGH, TIMES = 0.5, 0.2, 4.0
ALONE = 1.0 - 1e-10  # the row is fitted exactly, whatever its response


@CHECKS.register
class DesignLeverageCheck(Check):
    """Reports rows with a leverage h = x'(X'X)^-1 x of at least 0.2 and four times the mean; from 0.5 on the row's
    response has more weight in its fitted value than all others together.

    >>> model = Model.from_arrays([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 9.0], range(10))
    >>> DesignLeverageCheck().run(model)[0].sentence
    'row 9 has leverage 0.992 (mean 0.2)'
    """

    name = "design_leverage"
    title = "Leverage in the design"

    def find(self, model: Model) -> list[Finding]:
        refuse_coded_levels(model)
        design = model.design
        if surplus(model) is not None:
            raise NotApplicable("more columns than rows")
        w = full_weights(design.weights, design.n)
        report = far_rows(design_leverage(model), w, model.design.row_names)
        return self.report(
            report.verdict, report.sentence, report.remedy, rows=report.rows
        )


def design_leverage(model: Model) -> Array:
    """Return h_i = x_i'(X'WX)^-1 x_i, (n,), of one observation of each row; weighted by the frequencies they sum to rank X.

    Effects that vary by a group are left out. Precisions and sampling weights w multiply the leverage: w_i x_i'(X'WX)^-1 x_i.

    >>> design_leverage(Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])).round(3)
    array([0.833, 0.333, 0.833])
    """
    design = model.design
    design.need_rows("a leverage for each row")
    head = set(design.head.tolist())  # without effects of groups, which have a prior
    kept_columns = [j for j in design.moments.rank.kept if j in head]
    rows = (
        design.frame.rows(design.X)
        if design.frame.intercept in kept_columns
        else design.X
    )
    U = rows[:, kept_columns]
    w = design.square_weights
    weighted = U if w is None else U * np.sqrt(w)[:, None]
    if design.weight_kind != "frequency":
        U = weighted
    return ((U @ np.linalg.inv(np.linalg.qr(weighted, mode="r"))) ** 2).sum(1)


class FarRows(NamedTuple):
    """The verdict on leverages, and the rows that are far from the others."""

    verdict: Verdict
    sentence: str
    remedy: str = ""
    rows: tuple[object, ...] = ()


def far_rows(
    h: Array,
    w: Array,
    names: Array,
    *,
    minimum: float = HIGH,
    mean: float | None = None,
) -> FarRows:
    """Return the rows of positive weight with a leverage h (n,) of at least `minimum` and four times the mean, highest first."""
    mean = float(w @ h / w.sum()) if mean is None else mean
    if mean >= ALONE:
        text = "every row has leverage 1: as many coefficients as observations"
        return FarRows(Verdict.OK, text)
    is_far = (h >= max(minimum, TIMES * mean)) | (h >= ALONE)
    order = [i for i in np.argsort(-h) if w[i] > 0 and is_far[i]]
    if not order:
        largest = h[w > 0].max(initial=0)
        text = f"largest leverage {largest:.3g} (mean {mean:.2g})"
        return FarRows(Verdict.OK, text)
    top = h[order[0]]
    sentence = f"row {names[order[0]]} has leverage {top:.3g} (mean {mean:.2g})"
    if len(order) > 1:
        sentence += f"; {len(order) - 1} more: {list_first(names[order[1:]])}"
    remedy = "check the row, and report the fit without it too"
    verdict = Verdict.WARNING if top >= HALF else Verdict.NOTE
    return FarRows(verdict, sentence, remedy, tuple(names[order].tolist()))


def list_first(names: Iterable[object], limit: int = 3) -> str:
    """List the first names.

    >>> list_first("abcd")
    'a, b, c, ...'
    """
    texts = [str(name) for name in names]
    return ", ".join(texts[:limit]) + ", ..." * (len(texts) > limit)
