"""Picture of an online run: its loss, the loss of fixed weights, and the bound of its theorem."""

import warnings

import numpy as np
from numpy.typing import ArrayLike

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import Figure
from probreg.errors import Incompatible, ProbregWarning
from probreg.online import Guarantee, Run, run
from probreg.show.plot.style import (
    REFERENCE,
    Size,
    footnote,
    label,
    mark,
    panels,
    top_legend,
)


@check_arguments
def regret(
    found: Run, comparator: ArrayLike | None = None, *, figsize: Size | None = None
) -> Figure:
    """Draw the cumulative loss of an online run with its bound and the loss of fixed weights, and the regret, over the rounds.

    Each point has the values that `guarantee(comparator)` of the run would have if the run ended there. The regret is the loss minus
    the loss of the comparator; the theorem bounds it for every sequence of rows that meets its assumptions.

    Parameters
    ----------
    found : Run
        A run of arrays by a learner with a theorem and one weight per column.
    comparator : array (p,), optional
        Fixed weights; without it those with the least loss in hindsight.
    figsize : pair of float, optional
        Width and height in inches.

    Returns
    -------
    Figure
        A matplotlib figure outside pyplot.

    Raises
    ------
    DataError
        For a run of a stream, whose rows are not kept.
    Incompatible
        For a learner of functions or without a theorem, and without a comparator if none is the best.

    Examples
    --------
    >>> from probreg.online import lms
    >>> path = run(lms(0.5), [[1.0], [1.0], [1.0]], [1.0, 1.0, 1.0])
    >>> [ax.get_ylabel() for ax in regret(path).axes]
    ['cumulative squared loss', 'regret']
    """
    if found.learner.grows:
        raise Incompatible(
            "plot.regret draws a learner of weights, and this one learns a function: use guarantee(comparator)"
        )
    u = found.regret(comparator).comparator
    parts = _guarantees(found, u)
    last = parts[-1]
    rounds = [one.rounds for one in parts]
    loss = np.array([one.cumulative_loss for one in parts])
    fixed = np.array([one.comparator_loss for one in parts])
    bound = np.array([one.bound for one in parts])
    fig, (left, right) = panels(2, 2, width=7.2, height=2.9, figsize=figsize)
    for i, (values, words) in enumerate(
        ((loss, found.learner.title), (fixed, "comparator"), (bound, "bound"))
    ):
        look = mark(i) | {"marker": "", "linewidth": 1.3}
        left.plot(rounds, values, label=words, **look)
        if values is not fixed:
            right.plot(rounds, values - fixed, **look)
    right.axhline(0.0, **REFERENCE)
    label(left, x="round", y=last.quantity)
    label(right, x="round", y="regret")
    top_legend(fig, [left])
    note = "" if last.applies else "; an assumption fails, so that there is no bound"
    footnote(fig, f"{last.theorem} ({last.source}){note}")
    return fig


def _guarantees(path: Run, comparator: ArrayLike) -> list[Guarantee]:
    """Return the guarantees of the run as if it had ended at each of at most 20 evenly spaced rounds."""
    points = 20  # each is a run of its own: together they take ten times the run
    X, y = path.rows()
    total = path.totals.rounds
    order = path.order[:total]
    ends = np.unique(np.linspace(0, total, points + 1).round().astype(int))[1:]
    parts = []
    # the run has issued its warnings, on the step or the number of passes
    with warnings.catch_warnings(action="ignore", category=ProbregWarning):
        for end in ends:
            rows = order[:end]
            parts.append(run(path.learner, X[rows], y[rows], state=path.start))
    return [part.guarantee(comparator) for part in parts]
