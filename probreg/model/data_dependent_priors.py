"""The properties of the rows for priors relative to them: standard deviations, X'WX and the Fisher information.

They are computed when a prior uses them, so never for a prior in raw units.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from probreg.data import Block, Design, Moments
from probreg.data.checked_arrays import times_weights
from probreg.data.design import moments_of
from probreg.data.formula.functions import columns_by_term
from probreg.likelihoods import DifferentiableLikelihood, Likelihood, OfTrials
from probreg.model import likelihood_sums as sums
from probreg.priors import PriorData

Array = np.ndarray
_STILL = 2e-13  # sd over size: the limit of `imprecise_columns` in units of the range, about 5 sds; with a smaller ratio a column is constant


def rows_for(
    design: Design,
    likelihood: Likelihood,
    held: Mapping[str, float],
    where: tuple[int, ...],
) -> PriorData:
    """Return the properties of these columns for a prior, given the fixed nuisance parameters `held`; standard deviations have the divisor N - 1."""
    index = list(where)
    # the mean has the unit of the noise, also if the noise scale has a formula
    of_mean = design.owner is None or not design.owner[index].any()
    noisy = of_mean and likelihood.without_formulas.noise_scale is not None
    stretch = np.sqrt(design.total / max(design.total - 1.0, 1.0))
    fisher = None
    if not noisy and isinstance(likelihood, DifferentiableLikelihood):
        fisher = partial(_fisher_information, design, likelihood, held)
    return PriorData(
        columns=tuple(design.columns[i] for i in where),
        n=design.total,
        spread=lambda: column_spreads(design)[index] * stretch,
        response_sd=lambda: float(design.y_scale * stretch) if noisy else None,
        gram=lambda: centred_gram(design, moments_by_trials(design, likelihood))[
            np.ix_(index, index)
        ],
        unit_information=_unit_information(likelihood, held),
        fisher=fisher,
        process=getattr(design.process_of(where), "basis", None),
        grouped=design.grouped_of(where),
        terms=lambda: tuple(np.array(terms_of_columns(design))[index].tolist()),
    )


def terms_of_columns(design: Design) -> tuple[str, ...]:
    """Return the term of the formula for each column; the column itself if there is no formula.

    >>> from probreg.model.model import Model
    >>> data = {"y": [0.0, 1.0, 2.0, 5.0], "g": ["a", "b", "c", "c"], "x": [1.0, 2.0, 4.0, 3.0]}
    >>> terms_of_columns(Model.from_formula("y ~ g + x", data).design)
    ('Intercept', 'g', 'g', 'x')
    """
    names = {
        j: name for name, places in columns_by_term(design).items() for j in places
    }
    return tuple(names[j] for j in range(len(design.columns)))


def column_spreads(design: Design) -> Array:
    """Return standard deviations (p,) of the columns with divisor N, 0 for a constant column."""
    m = design.kept or design.moments
    return np.where(m.scale > _STILL * np.abs(m.mean), m.scale, 0.0)


def moments_by_trials(design: Design, likelihood: Likelihood) -> Moments:
    """Return the moments of the columns. A row of n trials counts n times, because information is per trial."""
    if not isinstance(likelihood, OfTrials):
        return design.moments
    if design.kept_by_trials is not None:
        return design.kept_by_trials
    columns = design.columns

    def moments(block: Block) -> Moments:
        n = likelihood.given(block.y)["trials"]
        weighted = block._replace(weights=times_weights(n, block.weights))
        return moments_of(weighted, columns=columns)

    return design.sum_over_rows(moments, Moments.__add__)


def centred_gram(design: Design, moments: Moments) -> Array:
    """Return X'WX (p, p). With an intercept the columns are centred, and the intercept's own row and column are 0."""
    R = np.asarray(moments.R, dtype=float)
    if design.intercept is None:
        return R.T @ R
    # In the triangular factor with the intercept first, the other columns below its row are centred.
    order = [
        design.intercept,
        *(j for j in range(len(design.columns)) if j != design.intercept),
    ]
    T = np.linalg.qr(R[:, order], mode="r")
    size = np.linalg.norm(T, axis=0)
    T[:, 0] = T[0] = 0.0
    T[:, np.linalg.norm(T, axis=0) <= _STILL * size] = 0.0
    inverse_order = np.argsort(order)
    return (T.T @ T)[np.ix_(inverse_order, inverse_order)]


def _unit_information(
    likelihood: Likelihood, held: Mapping[str, float]
) -> float | None:
    """Fisher information of one observation (one trial) about its own linear predictor, at eta = 0 and a noise scale of 1."""
    if not isinstance(likelihood, DifferentiableLikelihood):
        return None
    aux_values = {
        name: 1.0 if name == likelihood.noise_scale else held.get(name, 1.0)
        for name in likelihood.nuisance
    }
    if isinstance(likelihood, OfTrials):
        aux_values["trials"] = 1.0
    return float(
        likelihood.information(np.zeros((1, likelihood.width)), **aux_values)[0, 0, 0]
    )


def _fisher_information(
    design: Design,
    likelihood: DifferentiableLikelihood,
    held: Mapping[str, float],
    beta: Array,
) -> tuple[Array, Array]:
    """The expected information I = X'WX (p m, p m) at beta (p, m), and the gradient (p m,) of log |I|^(1/2).

    The gradient is sum_i x_i tr(h_i dW_i / d eta_i) / 2, with h_i the block of X I^-1 X' that belongs to row i.
    """
    point: dict[str, Any] = {"likelihood": likelihood, "beta": beta, "aux_values": held}
    information = design.sum_over_rows(partial(sums.expected_information, **point))[0]
    size = np.sqrt(np.abs(np.diagonal(information)))
    size = np.where(size > 0, size, 1.0)
    unit = np.outer(size, size)
    try:
        inverse = np.linalg.inv(information / unit) / unit
    except np.linalg.LinAlgError:
        return information, np.full(beta.size, np.nan)
    inverse = inverse.reshape(*beta.shape, *beta.shape)
    fn = partial(sums.information_slope, inverse=inverse, **point)
    return information, design.sum_over_rows(fn)[0].ravel()
