"""Least squares of the indicator of an event: a linear estimate of P(event | x), with errors that let its variance differ by row."""

from dataclasses import replace

import numpy as np

from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.fit import Fit, fit
from probreg.inference.base import Solution
from probreg.inference.uncertainty.covariance import covariance_of_kind
from probreg.likelihoods import Gaussian
from probreg.model.model import Model

_ROUNDING = 1e-9  # of a fitted value that is 0 or 1: saturated designs meet the ends


def fit_linear_probability(model: Model, event: str) -> Fit:
    """Least squares of a response of 0 and 1 with the sandwich HC1, and notes on what its mean is and where it is no probability.

    >>> model = Model.from_arrays([0.0, 1.0, 2.0, 3.0, 4.0], [0, 0, 0, 1, 1], likelihood="bernoulli")
    >>> fit_linear_probability(model, "y = 1").notes[-1]
    '1 of 5 fitted values lie outside [0, 1], first in row 0, -0.2; predictions are not clipped'
    """
    found = fit(replace(model, likelihood=Gaussian()))
    said = f"the mean is P({event}), linear in the columns; Gaussian noise is a device, as is its sigma: y is 0 or 1"
    solution = _with_hc1(found.model, found.solution)
    return replace(
        found, solution=solution, notes=(*found.notes, said, _describe_outside(found))
    )


def _with_hc1(model: Model, solution: Solution) -> Solution:
    """The solution with HC1 for its covariance, for Var(y | x) = p (1 - p) is no constant; a note where there is none."""
    if model.design.weight_kind == "sampling":
        return solution  # has the sandwich of its weights
    try:
        spread = covariance_of_kind(model, solution, "HC1")
    except (Incompatible, NotConverged, DataError) as error:
        return replace(solution, notes=(*solution.notes, f"no sandwich: {error}"))
    kept = tuple(note.partition("; standard errors use")[0] for note in solution.notes)
    said = "standard errors are the sandwich HC1, since the variance p (1 - p) differs by row"
    return replace(solution, scale=spread.matrix, sandwich="HC1", notes=(*kept, said))


def _describe_outside(found: Fit) -> str:
    """Describe how many fitted values are outside [0, 1]."""
    design = found.model.design
    fitted = found.model.eta(found.solution.beta)[:, 0]
    rows = np.flatnonzero((fitted < -_ROUNDING) | (fitted > 1.0 + _ROUNDING))
    if not len(rows):
        return f"every one of {len(fitted)} fitted values lies in [0, 1]; elsewhere predictions may not, and are not clipped"
    if design.labels is None:
        first = rows[0]
    else:
        first = design.labels[rows[0]]
    return (
        f"{len(rows)} of {len(fitted)} fitted values lie outside [0, 1], first in row {first}, {fitted[rows[0]]:.3g}; "
        "predictions are not clipped"
    )
