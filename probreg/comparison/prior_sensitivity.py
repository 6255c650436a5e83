"""Sensitivity of coefficients to the scale of their priors: the scale at which the conclusion changes.

One factor c multiplies the scales of all stated priors, and the mode is found for each c: c -> 0 fixes the coefficients at
the prior's centre, c -> infinity is maximum likelihood. The result is the factor nearest to 1 at which a coefficient changes sign, or
its interval starts or stops to include zero.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import cache
from typing import Any

import numpy as np
import scipy

from probreg.arguments.scalars import check_arguments
from probreg.arguments.types import DataFrame
from probreg.diagnostics.before.columns import prior_scale
from probreg.errors import Incompatible, ProbregError, ProbregWarning
from probreg.fits.fit import Fit, fit as fit_model
from probreg.inference import Auto, Method
from probreg.inference.base import has_effects
from probreg.model.model import Model
from probreg.priors import Flat, HierarchicalPrior
from probreg.priors.joint import BlockPrior, mapping_of

Array = np.ndarray


class Change(StrEnum):
    """The change of a coefficient at a scale of its prior."""

    SIGN = "the mode changes sign"
    INCLUDES_ZERO = "the interval includes zero"
    EXCLUDES_ZERO = "the interval excludes zero"
    BECOMES_ZERO = "the mode becomes zero"
    BECOMES_NONZERO = "the mode is no longer zero"


@check_arguments
def prior_sensitivity(fit: Fit) -> DataFrame:
    """Return the scale of its prior at which the conclusion on each coefficient changes.

    The scales of all priors are multiplied by one factor between 1/1024 and 1024. For a posterior too, the conclusion is based on the
    mode and its 95 % interval.

    Parameters
    ----------
    fit : Fit
        A fit with priors of stated scale.

    Returns
    -------
    DataFrame
        One row per coefficient: `scale`, the prior scale in raw units at which the conclusion changes, `factor`, that scale over the
        stated one, and `change`; nan and "" if nothing changes, or for a flat prior.

    Raises
    ------
    Incompatible
        For a prior with an unknown scale, a model without a mode, and for too many columns or rows.

    Examples
    --------
    >>> import probreg as pr
    >>> model = pr.Model.from_arrays([1.0, 2.0], [1.0, 2.0], intercept=False, prior=pr.Normal(2.0), aux={"sigma": 0.5})
    >>> v, z = 0.5**2 / 5.0, 1.959963984540054  # the variance of maximum likelihood, which is 1
    >>> bool(np.isclose(prior_sensitivity(pr.fit(model))["scale"].iloc[0], z * v / np.sqrt(1.0 - z**2 * v)))
    True
    """
    import pandas as pd

    model = fit.model
    k = fit.coef.size
    if not model.joint.informative.any() or has_effects(model):
        raise Incompatible("prior_sensitivity needs priors of coefficients")
    if any(isinstance(b.prior, HierarchicalPrior) for b in model.joint.blocks):
        raise Incompatible("prior_sensitivity needs priors of known scale")
    if not model.design.has_rows and not model.likelihood.least_squares:
        raise Incompatible(f"prior_sensitivity refits: {model.design.rows_needed}")
    method, _ = Auto().choose(model)
    if method.target != "mode":
        raise Incompatible("prior_sensitivity: no method finds the mode of this model")
    n, p = model.design.count, model.shape[0]
    most_work = 5e6  # rows times columns squared, from which some dozens of fits are more than a moment
    most_columns = 200  # columns, likewise
    if p > most_columns or (
        not model.likelihood.least_squares and n * p**2 > most_work
    ):
        raise Incompatible(
            f"prior_sensitivity fits the model for each scale: {n:,} rows of {p:,} columns are too many"
        )

    @cache
    def at(log_c: float) -> Array:
        return _mode_and_ends(model, method, float(np.exp(log_c)), fit.seed)

    scales = _stated_scales(model, k)
    log_c = np.full(k, np.nan)
    change = [""] * k
    doublings = 10  # of the scale, and halvings, that are searched
    for j in map(int, np.flatnonzero(np.isfinite(scales))):
        for step in range(1, doublings + 1):
            hits = [hit for sign in (-1, 1) for hit in _crossings(at, j, sign, step)]
            if hits:
                log_c[j], change[j] = min(hits, key=lambda hit: abs(hit[0]))
                break
    columns = {
        "scale": scales * np.exp(log_c),
        "factor": np.exp(log_c),
        "change": list(map(str, change)),
    }
    return pd.DataFrame(columns, index=pd.Index(fit.parameter_names, name="coef"))


def _stated_scales(model: Model, k: int) -> Array:
    """(k,) scales of the priors of reported coefficients, nan for flat priors and for smooth functions."""
    scale = np.full((model.shape[0], k // model.shape[0]), np.nan)
    for b in model.joint.blocks:
        own = _stated_scale(model, b)
        if own is not None:
            b.put(scale, np.broadcast_to(own, len(b.columns))[:, None])
    return scale.ravel()


def _stated_scale(model: Model, block: BlockPrior) -> Any:
    """Return the scale of the prior of a block; None for a flat prior and for smooth functions."""
    of_terms = model.design.of_terms[list(block.columns)].any()
    if isinstance(block.prior, Flat) or of_terms:
        return None
    return prior_scale(block)


def _mode_and_ends(model: Model, method: Method, c: float, seed: int) -> Array:
    """The mode and the ends of its interval (3, k) where every stated scale is c times as large; nan where there is none."""
    blocks = list(model.joint.blocks)
    for i, b in enumerate(blocks):
        if _stated_scale(model, b) is not None:
            blocks[i] = replace(b, prior=b.prior.times(c))
    prior = mapping_of(blocks, model.design.columns)
    size = model.shape[0] * (len(model.likelihood.outcomes) or 1)
    values = np.full((3, size), np.nan)
    # a search that runs away has no mode, and a kink no standard errors
    prob = 0.95  # of the interval that includes zero or not
    with (
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
        contextlib.suppress(ProbregError, np.linalg.LinAlgError, ArithmeticError),
    ):
        warnings.simplefilter("ignore", ProbregWarning)
        mode = fit_model(model.with_prior(prior), method, seed=seed)
        values[0] = mode.coef.values.ravel()
        ends = mode.interval(prob)
        values[1:] = ends["lower"].values.ravel(), ends["upper"].values.ravel()
    return values


def _crossings(
    at: Callable[[float], Array], j: int, sign: int, step: int
) -> Iterator[tuple[float, Change]]:
    """Yield the changes of coefficient j between two neighbouring factors 2^(sign (step - 1)) and 2^(sign step), by log c."""
    inner = sign * (step - 1) * np.log(2.0)
    outer = sign * step * np.log(2.0)
    beta, lower, upper = at(0.0)[:, j]
    changes = [(0, Change.SIGN)]
    if lower <= 0.0 <= upper:
        changes += [(1, Change.EXCLUDES_ZERO), (2, Change.EXCLUDES_ZERO)]
    else:
        changes.append((1 if beta > 0 else 2, Change.INCLUDES_ZERO))
    for row, change in changes:
        a, b = at(inner)[row, j], at(outer)[row, j]
        if not (np.isfinite(a) and np.isfinite(b)) or np.sign(a) == np.sign(b):
            continue
        edge = a == 0.0 or b == 0.0  # a kink fixes it at exactly zero
        if edge:
            change = Change.BECOMES_NONZERO if a == 0.0 else Change.BECOMES_ZERO

        def value(log_c: float, row: int = row, edge: bool = edge) -> float:
            number = float(at(float(log_c))[row, j])
            return float(number == 0.0) - 0.5 if edge else number

        yield float(scipy.optimize.brentq(value, inner, outer, xtol=1e-7)), change
