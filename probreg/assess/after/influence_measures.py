"""Influence measures of every row: leverage, studentised residuals, Cook's distance, DFFITS, DFBETAS."""

from collections.abc import Sequence
from math import nan
from typing import Any, ClassVar

import numpy as np

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import Dataset
from probreg.assess.after.base import Diagnostic, noiseless, reachable
from probreg.assess.after.local import Local, local, local_obstacle
from probreg.assess.after.replicates import (
    LEAST,
    Statistic,
    drawable,
    simulated_p_value,
)
from probreg.assess.after.residuals import deviance
from probreg.assess.before.design_leverage import list_first
from probreg.assess.findings import Finding, Verdict
from probreg.data.weights import refuse_sampling
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import coefficient_dims, model_coordinates, row_labels
from probreg.system.terminal import percent

# shares of samples of the model with as large a measure, for a note and for a warning
UNCOMMON, RARE = 0.1, 0.01


class DeletionDiagnostic(Diagnostic):
    """A measure of the change without a row: a note from `noted` on if fewer than one in ten samples of the model have as large a
    measure, a warning from `warned` on if fewer than one in a hundred do. Among few rows one always has a large measure."""

    when = "flat or normal priors"
    picture = "plot.leverage"
    noted: ClassVar[float]
    warned: ClassVar[float]

    def applies(self, fit: Fit) -> str | None:
        reason = local_obstacle(fit)
        if reason is None and fit.model.design.total <= fit.model.shape[0] + 1:
            return "too few observations"
        return reason

    def report_singular_rows(self, fit: Fit, pieces: Local) -> list[Finding]:
        """Return the finding of rows without which some coefficient has no estimate, so that the measure is nan."""
        rows = np.flatnonzero(np.isnan(pieces.cook) & (pieces.w > 0))
        if not len(rows):
            return []
        names = fit.model.design.row_names[rows]
        sentence = f"a coefficient has no estimate without row {names[0]}"
        if len(rows) > 1:
            sentence += f" ({len(rows) - 1} more: {list_first(names[1:])})"
        remedy = "check the row; drop its column, or give it a prior"
        return self.report(Verdict.NOTE, sentence, remedy, rows=names.tolist())

    def simulated_share(self, fit: Fit, largest: Statistic) -> float:
        """Return the share of samples of the model with as large a measure; nan if they cannot be drawn."""
        if drawable(fit):
            return simulated_p_value(fit, largest)
        return nan

    def report_influence(
        self,
        sentence: str,
        size: float,
        share: float,
        rows: Sequence[object],
        columns: Sequence[str] = (),
    ) -> list[Finding]:
        """Return the finding of rows with the largest measure `size`, which this share of samples of the model reach."""
        if share == share:
            bound = "at most " * (share <= LEAST)
            sentence += f"; {bound}{percent(share, 2)} of samples of the model have as large a change"
        if share >= UNCOMMON:
            return self.report_ok(sentence, statistic=size, p_value=share)
        verdict = Verdict.WARNING
        if size < self.warned or share >= RARE:
            verdict = Verdict.NOTE
        several = len(rows) > 1
        remedy = f"check the row{'s' * several}, and report the fit without {'them' if several else 'it'} too"
        return self.report(
            verdict,
            sentence,
            remedy,
            columns,
            rows=rows,
            statistic=size,
            p_value=share,
        )


Array = np.ndarray


@check_arguments
def influence_measures(fit: Fit) -> Dataset:
    """Return the change of the estimate without one observation of each row, and related measures.

    They are exact for least squares, otherwise one Newton step from the estimate. A posterior is evaluated at its mean.
    Values are nan for rows with leverage 1, and for rows of weight 0, which have leverage 0. For a softmax internal, studentised
    and dffits are lengths, without a sign.

    Parameters
    ----------
    fit : Fit
        A fit.

    Returns
    -------
    Dataset (obs)
        leverage: h_i, the diagonal of the hat matrix (its trace over the predictors of a softmax); internal: the
        residual over its estimated standard deviation sqrt(1 - h_i); studentised: the same with sigma estimated without
        the observation, for other likelihoods the deletion residual of Williams (1987); cook: Cook's distance; dffits:
        change of the linear predictor in its standard errors; dfbetas (obs, coef): change beta - beta_(i) in standard
        errors.

    Raises
    ------
    DataError
        Without rows.
    NotConverged
        Without an estimate.
    Incompatible
        With a prior that is not quadratic.

    References
    ----------
    Belsley, Kuh & Welsch 1980; Pregibon 1981; Williams 1987.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([1.0, 2.0, 3.0, 9.0], [1.0, 2.0, 2.0, 7.0]))
    >>> influence_measures(fit)["leverage"].round(3).values.tolist()
    [0.445, 0.329, 0.265, 0.961]
    """
    import xarray as xr

    reachable(fit)
    refuse_sampling(fit.model.design.weight_kind, "influence measures")
    why = local_obstacle(fit)
    if why is not None:
        raise Incompatible(f"influence measures: {why}")
    why = noiseless(fit)
    if why is not None:
        raise Incompatible(f"influence measures: {why}")
    found = local(fit)
    betas = dfbetas(fit, found)
    design = fit.model.design
    variables: dict[str, Any] = {
        "leverage": design.by_row(found.leverage, 0.0),
        "internal": found.internally_studentised,
        "studentised": externally_studentised(fit, found),
        "cook": found.cook,
        "dffits": dffits(found),
    }
    dims = ("obs", *coefficient_dims(fit.model))
    table: dict[str, Any] = {
        k: ("obs", v if k == "leverage" else design.by_row(v))
        for k, v in variables.items()
    }
    table |= {"dfbetas": (dims, design.by_row(betas))}
    attrs = {"coefficients": found.size, "method": fit.method.name}
    return xr.Dataset(
        table,
        {"obs": row_labels(None, design.whole), **model_coordinates(fit.model)},
        attrs,
    )


def externally_studentised(fit: Fit, found: Local) -> Array:
    """Externally studentised residuals (n,): t-distributed with n - p - 1 degrees of freedom for least squares."""
    if found.df is not None:
        with np.errstate(all="ignore"):  # 0 / 0 where no degree of freedom is left
            return np.asarray(found.internally_studentised / found.without)
    extra = (found.u * found.deletion_scores).sum(1) - (found.u**2).sum(
        1
    )  # h u^2 / (1 - h)
    dev = deviance(fit, found.eta)
    length = np.sqrt(dev**2 + extra)
    if found.u.shape[1] > 1:
        return length
    return np.sign(found.u[:, 0]) * length


def dffits(found: Local) -> Array:
    """Change of the fitted linear predictor in its standard errors without the observation, (n,)."""
    k = found.Q.shape[2]
    with np.errstate(all="ignore"):
        length = np.sqrt(k * found.cook) / found.without
    if found.u.shape[1] > 1:
        return length
    return np.sign(found.u[:, 0]) * length


def dfbetas(fit: Fit, found: Local) -> Array:
    """Changes of the reported coefficients in their standard errors without the observation, (n, p) or (n, p, D)."""
    display = fit.model.likelihood.contrast_matrix
    change = np.einsum("npm,dm->npd", found.change, display)
    spread = np.einsum("pmk,dm->pdk", found.back, display)
    error = np.sqrt(found.dispersion * (spread**2).sum(-1))
    with np.errstate(all="ignore"):  # a column that was dropped has no error
        out = change / (error * found.without[:, None, None])
    if fit.solution.not_estimable is not None:
        out = np.where(fit.solution.not_estimable, np.nan, out)
    out = out[:, fit.model.design.head]
    if fit.model.likelihood.outcomes:
        return out
    return out[..., 0]
