"""Leverage of the rows in the design, without their response."""

from typing import Any

import numpy as np

from probreg.data.rows import full_weights
from probreg.diagnostics.before.base import CHECKS, Check, refuse_coded_levels
from probreg.diagnostics.before.rank import surplus
from probreg.diagnostics.findings import Finder, Finding, NotApplicable, Verdict
from probreg.model.model import Model
from probreg.system.terminal import few_names

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
        return report_far_rows(self, design_leverage(model), w, model)


def design_leverage(model: Model) -> Array:
    """Return h_i = x_i'(X'WX)^-1 x_i, (n,), of one observation of each row; weighted by the frequencies they sum to rank X.

    Effects that vary by a group are left out. Precisions and sampling weights w multiply the leverage: w_i x_i'(X'WX)^-1 x_i.

    >>> design_leverage(Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0])).round(3)
    array([0.833, 0.333, 0.833])
    """
    design = model.design
    design.need_rows("a leverage for each row")
    head = set(
        design.ungrouped.tolist()
    )  # without effects of groups, which have a prior
    kept_columns = [j for j in design.moments.rank.kept if j in head]
    U = design.X
    if design.frame.intercept in kept_columns:
        U = design.frame.rows(U)
    U = U[:, kept_columns]
    w = design.square_weights
    weighted = U if w is None else U * np.sqrt(w)[:, None]
    if design.weight_kind != "frequency":
        U = weighted
    return ((U @ np.linalg.inv(np.linalg.qr(weighted, mode="r"))) ** 2).sum(1)


def report_far_rows(
    check: Finder[Any],
    h: Array,
    w: Array,
    model: Model,
    *,
    minimum: float = HIGH,
    mean: float | None = None,
) -> list[Finding]:
    """Return the finding of rows of positive weight with a leverage h (n,) of at least `minimum` and four times the mean."""
    mean = float(w @ h / w.sum()) if mean is None else mean
    if mean >= ALONE:
        sentence = "every row has leverage 1: as many coefficients as observations"
        return check.report(sentence)
    is_far = (h >= max(minimum, TIMES * mean)) | (h >= ALONE)
    order = [i for i in np.argsort(-h) if w[i] > 0 and is_far[i]]
    if not order:
        largest = h[w > 0].max(initial=0)
        return check.report(f"largest leverage {largest:.3g} (mean {mean:.2g})")
    names = model.design.row_names[order].tolist()
    top = h[order[0]]
    sentence = f"row {names[0]} has leverage {top:.3g} (mean {mean:.2g})"
    if len(order) > 1:
        sentence += f"; {len(order) - 1} more: {few_names(names[1:])}"
    remedy = "check the row, and report the fit without it too"
    verdict = Verdict.WARNING if top >= HALF else Verdict.NOTE
    return check.report(sentence, verdict, remedy, rows=names)
