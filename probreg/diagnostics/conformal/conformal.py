"""Conformal intervals: the function `conformal`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from probreg.arguments.scalars import Flag, Probability, check_arguments
from probreg.arguments.types import ArrayLike, RowsLike
from probreg.data import ArrayColumns, Design
from probreg.diagnostics.conformal.methods import (
    KINDS,
    Conformal,
    ConformalMethod,
)
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.model.compatibility import has_array_weights
from probreg.model.model import Model
from probreg.system.progress import progress_bar


@check_arguments
def conformal(
    fit: Fit,
    data: RowsLike | None = None,
    *,
    y: ArrayLike | None = None,
    offset: ArrayLike | None = None,
    trials: ArrayLike | None = None,
    prob: Probability = 0.9,
    kind: str | ConformalMethod = "split",
    progress: Flag | None = None,
) -> Conformal:
    """Return intervals that contain a new response with probability `prob` for any model, if rows are exchangeable.

    A row of frequency weight w counts as w rows. Precision and sampling weights raise an error.

    Parameters
    ----------
    fit : Fit
        A fit.
    data : table or array (n, q), optional
        Rows that the fit has not used: a split then needs no refit.
    y : array (n,), optional
        Their response (successes of `trials`); by default the column of that name in `data`.
    offset : array (n,), optional
        Offset of each row of `data`.
    trials : array (n,), optional
        Number of trials in each row of `data`.
    prob : float
        Probability, between 0 and 1.
    kind : str or ConformalMethod
        "split" (any fit: `Split(share, score, seed)` refits a part of the rows and calibrates on the others) or
        "jackknife+" (least squares and ridge on all rows, with the guarantee 2 prob - 1).
    progress : bool, optional
        Show a progress bar; by default after a second, in a terminal or a notebook.

    Returns
    -------
    Conformal
        `predict` returns the intervals at new rows.

    Raises
    ------
    DataError
        For too few rows.
    Incompatible
        If the kind does not apply.
    NotConverged
        If the part of the rows has no estimate.

    Examples
    --------
    >>> import probreg as pr
    >>> x = np.linspace(0.0, 1.0, 40)
    >>> found = conformal(pr.ols(x, 2 * x + np.sin(40 * x)), prob=0.8)
    >>> found.count, found.predict([[0.5]])["upper"].round(3).item()
    (20, 1.858)
    """
    chosen = KINDS.resolve(kind)
    weight_kind = fit.model.design.weight_kind
    if weight_kind != "frequency":
        raise Incompatible(
            f"conformal intervals: rows with {weight_kind} weights are not exchangeable with a new row; predict has intervals"
        )
    for name, value in {"y": y, "offset": offset, "trials": trials}.items():
        if data is None and value is not None:
            raise DataError(
                f"{name}= needs data=: pass the rows that the fit has not used"
            )
    is_tuned = fit.model.scales_compared > 1
    has_chosen_scale = is_tuned or fit.solution.has_found_scales
    if data is None and fit.target == "mode" and has_chosen_scale:
        raise Incompatible(
            "the prior's scale was chosen on all rows, including the calibration rows, so there is no guarantee. "
            "Fit a part of the rows and pass the others, conformal(fit, data), or fix the scale"
        )
    unseen = None
    if data is not None:
        unseen = unseen_rows(fit.model, data, y, offset, trials)
    rows = fit.model.design if unseen is None else unseen
    if rows.n:
        fit.model.likelihood.require_exact(
            rows.observed, "conformal prediction", "predict has intervals"
        )
    with progress_bar("conformal", show=progress):
        return chosen.calibrate(fit, unseen, prob)


def unseen_rows(
    model: Model, data: Any, y: Any, offset: Any = None, trials: Any = None
) -> Design:
    """Return rows with their response, coded as in the model."""
    if y is None and isinstance(model.design.recipe, ArrayColumns):
        y = _response_column(model, data)
    weights = None
    if has_array_weights(model.design):
        # every row calibrates once
        weights = np.ones(model.design.at(data, offset=offset).n)
    return model.at(data, y, offset=offset, trials=trials, weights=weights).design


def _response_column(model: Model, data: Any) -> Any:
    name = model.design.response
    if name not in getattr(data, "columns", data if isinstance(data, Mapping) else ()):
        raise DataError(f"the data have no column {name!r}: pass the response as y=")
    return data[name]
