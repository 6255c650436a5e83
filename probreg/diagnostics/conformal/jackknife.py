"""The jackknife+ of least squares and ridge, from one fit by the formula for leaving a row out."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from probreg.data import Design
from probreg.data.rows import plus_offset
from probreg.diagnostics.conformal.base import (
    KINDS,
    Array,
    Calibrated,
    ConformalMethod,
    ConformalRank,
    exchangeable,
    noise_unit,
    rows_by_frequency,
)
from probreg.errors import Incompatible, such_rows
from probreg.fits.fit import Fit
from probreg.inference.modes.closed_form import (
    PriorRows,
    combinations,
    posterior_given_sigma,
)
from probreg.model.model import Model

# 1 - leverage of a row without which there is no estimate, rounding included
_ALONE = 1e-10


@KINDS.register
@dataclass(frozen=True)
class JackknifePlus(ConformalMethod):
    """From the k-th largest of x'b_(i) - r_(i) to the k-th smallest of x'b_(i) + r_(i), k = ceil((n + 1) prob).

    b_(i) is the estimate without row i and r_(i) = |y_i - x_i'b_(i)|. It uses all rows for the fit. It is for
    least squares, and for ridge with fixed sigma or a prior in units of sigma: b_(i) = b - V x_i e_i / (1 - h_i) with
    V = (X'X + P)^-1 and h_i = x_i'V x_i, without refits. Rows of precision w enter as sqrt(w) (x, y), and r_(i) is in
    units of 1 / sqrt(w).

    References
    ----------
    Barber, Candès, Ramdas & Tibshirani 2021.

    Examples
    --------
    >>> import numpy as np
    >>> import probreg as pr
    >>> x = np.arange(12.0)
    >>> found = pr.conformal(pr.ols(x, x + np.cos(x)), prob=0.8, kind=JackknifePlus())
    >>> found.predict([[5.5]]).sizes["obs"]
    1
    """

    name = "jackknife+"

    def calibrate(self, fit: Fit, unseen: Design | None, prob: float) -> Calibrated:
        if unseen is not None:
            raise Incompatible(
                "the jackknife+ uses the rows of the fit; use kind='split' with data="
            )
        _require_linear_estimate(fit.model)
        design, notes = rows_by_frequency(fit.model.design)
        rank = ConformalRank(prob, design.n)
        model = fit.model
        posterior = posterior_given_sigma(
            model.design.moments, PriorRows.of(model.joint), model.noise()
        )
        if posterior.rank.dropped:
            raise Incompatible(
                f"the jackknife+ needs columns that are not combinations of others: {combinations(posterior.rank, design.columns)}. "
                "Drop one, give a prior, or use kind='split'"
            )
        # sqrt(w_i) e_i, and 1 - h_i with h_i = w_i x_i'V x_i
        unit = np.broadcast_to(noise_unit(design), design.n)
        beta = posterior.mean
        residual = (design.observed - _predict_mean(design, beta)) / unit
        root = np.asarray(posterior.root, dtype=float)
        rows = (design.X / unit[:, None]) @ root
        one_minus_leverage = 1.0 - (rows**2).sum(1)
        bad = np.flatnonzero(one_minus_leverage < _ALONE)
        if len(bad):
            raise Incompatible(
                f"without row {design.row_name(bad[0])} there is no estimate (leverage 1, {such_rows(len(bad))}): it alone identifies a coefficient. "
                "Give a prior, or use kind='split'"
            )
        without = residual / one_minus_leverage

        def region(new: Design) -> Mapping[str, Array]:
            # lower: k-th largest of x'b_(i) - r_(i); upper: k-th smallest of x'b_(i) + r_(i).
            mean = _predict_mean(new, beta)
            # x'b_(i) = x'b - x'V x_i e_i / (1 - h_i), where rows of precision w_i enter as w_i^(1/2) (x_i, y_i).
            deleted = mean[:, None] - (new.X @ root) @ rows.T * without
            # |r_(i)| = |e_i| / (1 - h_i) in units of w_i^(-1/2), then in units of the new row.
            miss = np.abs(without) * np.broadcast_to(noise_unit(new), new.n)[:, None]
            return {
                "mean": mean,
                "lower": rank.lower(deleted - miss),
                "upper": rank.upper(deleted + miss),
            }

        precise = design.weight_kind == "precision"
        guarantee = (
            f"contains the response of a new row with probability at least {max(0.0, 2 * prob - 1):.4g} = 1 - 2 alpha, alpha = {1 - prob:.4g}, "
            f"for any model, if {exchangeable(fit, f'the {design.n} rows')}. The probability is near {prob:g} "
            "if the estimate is stable when a row is left out. It is an average over data sets and rows"
        )
        return Calibrated(
            fit,
            design.n,
            f"{'sqrt(w) ' * precise}|y - mean| with the row left out",
            guarantee,
            notes,
            region,
            3 * design.n,
        )


def _require_linear_estimate(model: Model) -> None:
    """Raise Incompatible unless the estimate of beta is linear in y for any sigma."""
    if not model.likelihood.least_squares:
        raise Incompatible(
            f"the jackknife+ has a closed form for a gaussian likelihood, not {model.likelihood.name}: use kind='split'"
        )
    relative = (
        not model.unknown
        or not (model.joint.informative & ~model.joint.sigma_units).any()
    )
    if not (model.joint.gaussian and relative):
        raise Incompatible(
            "the jackknife+ has a closed form for flat priors, and for normal ones with fixed sigma or in units of sigma: use "
            "kind='split'"
        )


def _predict_mean(design: Design, beta: Array) -> Array:
    return plus_offset((design.X @ beta)[:, None], design.offset)[:, 0]
