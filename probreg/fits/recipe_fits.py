"""Fits of several quantiles of one response, and of the linear probability model."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit, fit
from probreg.inference.base import Solution
from probreg.inference.notes import Note, Topic, important_note
from probreg.inference.uncertainty.covariance import covariance_of_kind
from probreg.likelihoods import Gaussian, Quantile
from probreg.model.model import Model


def fit_quantiles(model: Model, taus: Sequence[float]) -> dict[float, Fit]:
    """Fit each quantile, in increasing order; a note on each fit reports rows where neighbouring quantiles cross.

    >>> model = Model.from_arrays([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], [1.0, 2.0, 3.0, 2.0, 4.0, 6.0], likelihood=Quantile())
    >>> fits = fit_quantiles(model, [0.4, 0.6])
    >>> [f.coef.values.round(6).tolist() for f in fits.values()]
    [[2.0, 2.0], [2.0, 2.0]]
    """
    if (
        isinstance(taus, str)
        or any(map(np.ndim, taus))
        or len(set(taus)) < len(taus)
        or not len(taus)
    ):
        raise DataError(
            f"tau lists different probabilities, got {taus if isinstance(taus, str) else list(taus)!r}"
        )
    fits = {}
    for likelihood in sorted(
        map(Quantile, taus), key=lambda likelihood: likelihood.tau
    ):
        # not "auto", which would sample under a prior without a mode; here this prior raises an error
        fits[float(likelihood.tau)] = fit(
            replace(model, likelihood=likelihood), "interior_point"
        )
    notes = _notes_on_crossings(fits)
    return {tau: replace(f, notes=(*f.notes, *notes[tau])) for tau, f in fits.items()}


def _notes_on_crossings(fits: dict[float, Fit]) -> dict[float, list[Note]]:
    """Return notes on rows where a quantile lies above a higher one, for both of them."""
    notes: dict[float, list[Note]] = {tau: [] for tau in fits}
    taus = list(fits)
    for low, high in itertools.pairwise(taus):
        below, above = (
            fits[t].model.eta(fits[t].solution.beta)[:, 0] for t in (low, high)
        )
        size = 1e-9 * float(np.ptp(fits[low].model.design.observed))
        rows = np.flatnonzero(below > above + size)
        if len(rows):
            note = important_note(
                Topic.ROWS,
                "the {low:g} and {high:g} quantiles cross: at {n} of {total} rows the lower one is above, first in row {first}",
                low=low,
                high=high,
                n=len(rows),
                total=len(below),
                first=fits[low].model.design.row_name(rows[0]),
            )
            notes[low].append(note)
            notes[high].append(note)
    return notes


# ---- linear probability model: least squares of an event's indicator, with standard errors for unequal variances ----


def fit_linear_probability(model: Model, event: str) -> Fit:
    """Fit a 0/1 response by least squares with HC1 errors, and note fitted values outside [0, 1].

    >>> model = Model.from_arrays([0.0, 1.0, 2.0, 3.0, 4.0], [0, 0, 0, 1, 1], likelihood="bernoulli")
    >>> str(fit_linear_probability(model, "y = 1").notes[-1])
    '1 of 5 fitted values lie outside [0, 1], first in row 0, -0.2; predictions are not clipped'
    """
    result = fit(replace(model, likelihood=Gaussian()))
    mean = important_note(
        Topic.LIKELIHOOD,
        "the mean is P({event}), linear in the columns; y is 0 or 1, so Gaussian noise and its sigma are an approximation",
        event=event,
    )
    solution = _with_hc1(result.model, result.solution)
    return replace(
        result, solution=solution, notes=(*result.notes, mean, _range_note(result))
    )


def _with_hc1(model: Model, solution: Solution) -> Solution:
    """Return the solution with the covariance HC1, since Var(y | x) = p (1 - p) is not constant; a note if HC1 fails."""
    if model.design.weight_kind == "sampling":
        return solution  # sampling weights already give sandwich standard errors
    try:
        spread = covariance_of_kind(model, solution, "HC1")
    except (Incompatible, NotConverged, DataError) as error:
        note = important_note(Topic.STANDARD_ERRORS, f"no sandwich: {error}")
        return replace(solution, notes=(*solution.notes, note))
    note = important_note(
        Topic.STANDARD_ERRORS,
        "standard errors are the sandwich HC1, since the variance p (1 - p) differs by row",
    )
    return replace(
        solution, scale=spread.matrix, sandwich="HC1", notes=(*solution.notes, note)
    )


def _range_note(result: Fit) -> Note:
    """Return the note on how many fitted values are outside [0, 1]."""
    rounding = (
        1e-9  # tolerance at 0 and 1: fitted values of saturated designs may equal them
    )
    design = result.model.design
    fitted = result.model.eta(result.solution.beta)[:, 0]
    rows = np.flatnonzero((fitted < -rounding) | (fitted > 1.0 + rounding))
    if not len(rows):
        return important_note(
            Topic.ROWS,
            "all {total} fitted values are in [0, 1]; predictions at other rows may be outside, and are not clipped",
            total=len(fitted),
        )
    return important_note(
        Topic.ROWS,
        "{n} of {total} fitted values lie outside [0, 1], first in row {row}, {value:.3g}; predictions are not clipped",
        n=len(rows),
        total=len(fitted),
        row=design.row_name(rows[0]),
        value=fitted[rows[0]],
    )
