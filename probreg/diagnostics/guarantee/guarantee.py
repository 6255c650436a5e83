"""Generalisation bounds: the function `guarantee` and its result."""

from dataclasses import dataclass
from functools import partial

from probreg.arguments.scalars import (
    ArrayLike,
    Count,
    Fraction,
    Positive,
    Range,
    RowsLike,
    Seed,
    check_arguments,
)
from probreg.diagnostics.conformal.conformal import unseen_rows
from probreg.diagnostics.guarantee.bound_inputs import (
    BoundedLoss,
    BoundInputs,
    BoundLine,
    LossName,
    independent_rows,
    losses_for,
    read_range,
    refuse_same_rows,
)
from probreg.diagnostics.guarantee.theorems import (
    DRAWS,
    ball_lines,
    dimension_lines,
    draw_lines,
    split_lines,
    unseen_lines,
)
from probreg.errors import DataError
from probreg.fits.fit import Fit
from probreg.fits.fitted import require_predictive
from probreg.scores.assumptions import Assumption
from probreg.tables.render import PrintsLines


@dataclass(frozen=True, eq=False, repr=False)
class RiskBounds(PrintsLines):
    """Upper bounds of the risk of a fit on new rows by several theorems, hold-out first; result of `guarantee`.

    Parameters
    ----------
    fit : Fit
        The fit.
    losses : tuple of BoundedLoss
        The losses, each with its largest value.
    lines : tuple of BoundLine
        Each with its `bound`, or the reason `why` there is none.
    assumptions : tuple of Assumption
        The assumptions of all bounds.
    delta : float
        The largest probability that a single bound fails.
    """

    fit: Fit
    losses: tuple[BoundedLoss, ...]
    lines: tuple[BoundLine, ...]
    assumptions: tuple[Assumption, ...]
    delta: float

    @property
    def held_out(self) -> BoundLine:
        """The first line: the hold-out bound, or the reason why there is none."""
        return self.lines[0]

    @property
    def _summary_lines(self) -> list[str]:
        """Describe the scope, each loss with a line for each theorem, and the assumptions."""
        lines = []
        for loss in self.losses:
            middle = ""
            if loss.middle is not None:
                middle = f"; at the middle of the range at most {loss.middle:.4g}"
            lines.append(f"{loss.words}, at most {loss.most:.4g}{middle}")
            lines += self._lines_of_loss(loss)
        own_assumptions = {
            str(a): None
            for line in self.lines
            if line.bound is not None
            for a in line.bound.assumptions
        }
        shared = dict.fromkeys(map(str, self.assumptions)) | own_assumptions
        head = f"bounds for {self.fit.method.name}, each with probability {1 - self.delta:.4g}"
        return [head, *lines, *shared]

    def _lines_of_loss(self, loss: BoundedLoss) -> list[str]:
        """Return a line for each theorem; a note shared by consecutive lines follows the last of them."""
        lines = [line for line in self.lines if line.loss == loss.name]
        text_lines = []
        for line, later in zip(lines, [*lines[1:], None]):
            text_lines.append(f"  {line.description}")
            if later is None or later.notes != line.notes:
                text_lines += [f"    {note}" for note in line.notes]
        return text_lines


@check_arguments
def guarantee(
    fit: Fit,
    y_range: Range | None = None,
    delta: Fraction = 0.05,
    *,
    data: RowsLike | None = None,
    y: ArrayLike | None = None,
    holdout: Fraction | None = None,
    loss: LossName | None = None,
    chosen_from: Count | None = 1,
    row_norm: Positive | None = None,
    draws: Count = 4000,
    seed: Seed = 0,
) -> RiskBounds:
    """Bound the mean loss of a fit on new rows, by every theorem with valid assumptions; hold-out first.

    Predictions are clipped to y_range, so that the loss is bounded. Each bound is valid with probability 1 - delta over
    independent rows by itself: to use the smallest of k of them, pass delta / k.

    Parameters
    ----------
    fit : Fit
        A fit. Weights of its rows are frequencies.
    y_range : pair of float, optional
        (lo, hi): the possible values of the response, known before the rows; needed for numbers and counts. A range taken from
        the sample raises an error.
    delta : float
        The largest probability that a bound fails.
    data : table or array (n, q), optional
        Rows that the fit has not used: the hold-out bound then needs no refit.
    y : array (n,), optional
        Their response; by default the column of this name in `data`.
    holdout : float, optional
        The random share of rows that the refit leaves out, by default 0.5; not with `data`.
    loss : str, optional
        "squared" (the default of numbers), "absolute", "insensitive" if the likelihood has an epsilon; "zero_one" and
        "brier" for classes, both by default.
    chosen_from : int or None
        The number of scales of the prior that were compared on these rows, from a grid fixed before the rows: 1 for a stated scale,
        None for a freely chosen scale. Scales found by evidence on the rows count as freely chosen. So do scales from `tune`, unless
        this number is at least the number that `tune` compared. The `radius` of `ridge`, `lasso` and `kernel_ridge` counts as fixed
        before the rows.
    row_norm : float, optional
        r, with ||x|| <= r for every possible row. The norm is over the columns, each in units of its prior's scale over the
        root mean square of these scales. For covariance functions with an upper limit of k(x, x) it is not needed. For the lasso it is the largest |x_ij|,
        each in units of its prior's scale over the mean of these scales.
    draws : int
        Number of posterior draws for the PAC-Bayes bound.
    seed : int
        Seed of the split and the draws.

    Returns
    -------
    RiskBounds
        `lines`, each with its bound or the reason why there is none.

    Raises
    ------
    DataError
        For a y outside y_range, with its row, a range that was taken from the sample, and data that are the rows of the fit.
    Incompatible
        For weights that are not frequencies, and a method without probabilities.
    NotConverged
        If a part of the rows has no estimate.

    References
    ----------
    Mohri, Rostamizadeh & Talwalkar 2018; Maurer & Pontil 2009.

    Examples
    --------
    >>> import numpy as np
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 400)
    >>> found = guarantee(pr.ols(x, 0.5 + 0.4 * np.sin(6 * x)), y_range=(0.0, 1.0))
    >>> found.held_out.bound.theorem, round(found.held_out.bound.value, 2)
    ('hold-out of 200 rows', 0.08)
    """
    if data is None and y is not None:
        raise DataError("y= needs data=: pass the rows that the fit has not used")
    require_predictive(fit)
    model = fit.model
    lik = model.likelihood
    ends = read_range(y_range, model.design, lik)
    losses = losses_for(lik, model.design, ends, loss)
    if fit.solution.has_found_scales or (chosen_from or 0) < model.scales_compared:
        chosen_from = None
    inputs = BoundInputs(
        fit,
        independent_rows(fit),
        losses,
        ends,
        delta,
        chosen_from,
        row_norm,
        draws,
        seed,
    )
    if data is None:
        split = partial(split_lines, share=0.5 if holdout is None else holdout)
        lines = inputs.lines_or_reason("hold-out", split)
    else:
        if holdout is not None:
            raise DataError(
                "holdout= is the share of rows that a refit leaves out, and data= has the rows for this bound: leave holdout= out"
            )
        new = unseen_rows(model, data, y)
        refuse_same_rows(model.design, new)
        read_range(y_range, new, lik)  # of the new rows too
        note = "it is for the fit itself, on unused rows"
        lines = unseen_lines(inputs, fit, new, note)
    lines += inputs.lines_or_reason("norm ball and stability", ball_lines)
    lines += inputs.lines_or_reason("pseudo-dimension", dimension_lines)
    lines += inputs.lines_or_reason(DRAWS, draw_lines)
    return RiskBounds(fit, losses, tuple(lines), _common_assumptions(inputs), delta)


def _common_assumptions(inputs: BoundInputs) -> tuple[Assumption, ...]:
    """Return the assumptions that all bounds share."""
    assumptions = []
    if inputs.y_range is not None:
        lo, hi = inputs.y_range
        y = inputs.design.observed
        range_note = ""
        if y.min() == lo and y.max() == hi:
            range_note = ", although these rows have its ends"
        statement = f"{inputs.design.response} lies in [{lo:g}, {hi:g}], known before the rows{range_note}"
        assumptions.append(Assumption(statement, None, None))
    if inputs.chosen_from is not None:
        statement = (
            "the model was chosen before the rows, except for the scales in chosen_from"
        )
        assumptions.append(Assumption(statement, None, None))
    return tuple(assumptions)
