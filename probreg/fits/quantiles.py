"""Several quantiles of one response, with standard errors that do not depend on the working density."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from probreg.errors import DataError
from probreg.fits.fit import Fit, fit
from probreg.inference.notes import Note, Topic, important_note
from probreg.likelihoods import Quantile
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
    notes = _crossings(fits)
    return {tau: replace(f, notes=(*f.notes, *notes[tau])) for tau, f in fits.items()}


def _crossings(fits: dict[float, Fit]) -> dict[float, list[Note]]:
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
