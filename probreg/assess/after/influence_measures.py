"""Influence measures of every row: leverage, studentised residuals, Cook's distance, DFFITS, DFBETAS."""

from typing import Any

import numpy as np

from probreg.arguments.scalars import checked
from probreg.arguments.types import Dataset
from probreg.assess.after.base import noiseless, reachable
from probreg.assess.after.local import Local, local, local_obstacle
from probreg.assess.after.residuals import deviance
from probreg.data.weights import refuse_sampling
from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import coefficient_dims, model_coordinates, row_labels

Array = np.ndarray


@checked
def influence_measures(fit: Fit) -> Dataset:
    """What leaving out one observation of a row would do to the estimate.

    It is exact for least squares, otherwise one Newton step from the estimate.

    A posterior is judged at its mean. nan stands where a row alone decides its own fit (h_i = 1), and at rows of weight
    0, whose leverage is 0. For a softmax internal, studentised and dffits are lengths, without a sign.

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
    if (why := local_obstacle(fit)) is not None:
        raise Incompatible(f"influence measures: {why}; use a flat or a normal prior")
    if (why := noiseless(fit)) is not None:
        raise Incompatible(f"influence measures: {why}")
    found = local(fit)
    betas = dfbetas(fit, found)
    design = fit.model.design
    variables: dict[str, Any] = {
        "leverage": design.by_row(found.leverage, 0.0),
        "internal": found.standardised,
        "studentised": externally_studentised(fit, found),
        "cook": found.cook,
        "dffits": dffits(found),
    }
    dims = ("obs", *coefficient_dims(fit.model))
    table: dict[str, Any] = {k: ("obs", v if k == "leverage" else design.by_row(v)) for k, v in variables.items()}
    table |= {"dfbetas": (dims, design.by_row(betas))}
    attrs = {"coefficients": found.size, "method": fit.method.name}
    return xr.Dataset(table, {"obs": row_labels(None, design.whole), **model_coordinates(fit.model)}, attrs)


def externally_studentised(fit: Fit, found: Local) -> Array:
    """Externally studentised residuals (n,): t-distributed with n - p - 1 degrees of freedom for least squares."""
    if found.df is not None:
        with np.errstate(all="ignore"):  # 0 / 0 where no degree of freedom is left
            return np.asarray(found.standardised / found.without)
    extra = (found.u * found.deleted).sum(1) - (found.u**2).sum(1)  # h u^2 / (1 - h)
    dev = deviance(fit, found.eta)
    length = np.sqrt(dev**2 + extra)
    return length if found.u.shape[1] > 1 else np.sign(found.u[:, 0]) * length


def dffits(found: Local) -> Array:
    """Change of the fitted linear predictor in its standard errors without the observation, (n,)."""
    k = found.Q.shape[2]
    with np.errstate(all="ignore"):
        length = np.sqrt(k * found.cook) / found.without
    return length if found.u.shape[1] > 1 else np.sign(found.u[:, 0]) * length


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
    return out if fit.model.likelihood.outcomes else out[..., 0]
