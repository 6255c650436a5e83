"""Residuals of a fit by kind, as arrays and with row labels."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from probreg.arguments.scalars import DataArray, Word, check_arguments
from probreg.data import Design
from probreg.data.formula.functions import columns_by_term
from probreg.errors import DataError, Incompatible
from probreg.fits.fitted import Fitted, require_predictive
from probreg.fits.inference_data import label_rows
from probreg.fits.prediction import predictive
from probreg.inference.base import has_zero_noise
from probreg.likelihoods import (
    DifferentiableLikelihood,
    Likelihood,
    SmoothLikelihood,
    SoftmaxLikelihood,
)
from probreg.special import ndtri

Array = np.ndarray
# relative to the largest response: a smaller sigma is rounding error
_ROUNDING_OF_SIGMA = 1e-12


class ResidualKind(NamedTuple):
    """Residual values (n, ...) with the names of their further axes."""

    values: Array
    axes: tuple[str, ...] = ()


@check_arguments
def residuals(fit: Fitted, kind: Word = "response") -> DataArray:
    """Residuals at the estimate (posterior mean), one per row for any weight; y - E[y] by default.

    A row of precision w has noise scale sigma / sqrt(w): Pearson, deviance and quantile residuals are in its units, and
    response residuals in units of y. Rows of weight 0 have nan.

    Parameters
    ----------
    fit : Fit
        A fit.
    kind : str
        "response": y - E[y], in units of y; for a softmax 1[y = k] - p_k over (obs, level); for n trials the share minus
        its probability, k / n - p, as in R (statsmodels has k - n p).

        "pearson": (y - E[y]) / sd(y), and (k - n p) / sqrt(n p (1 - p)) for n trials; over (obs, level) for a softmax,
        for n trials (y_k - n p_k) / sqrt(n p_k (1 - p_k)). For ordered classes and an infinite variance it is the score over the
        root of its Fisher information.

        "deviance": sqrt(2 (l_saturated - l)), positive where a larger mean would fit y better; the squares add up to
        `fit.deviance` over its dispersion (sigma^2 for a Gaussian, 1 for classes and counts).

        "working": score over Fisher information, on the scale of the linear predictor, (obs) or (obs, outcome).

        "partial": working residuals plus the centred contribution of a term, (obs, term); for a softmax predictor by
        predictor, (obs, term, outcome).

        "quantile": Phi^-1(P(Y <= y)) under the predictive distribution, for a discrete response drawn between P(Y < y)
        and P(Y <= y) with the seed of the fit: standard normal when the model is right (Dunn & Smyth 1996). Ordered
        responses only.

    Returns
    -------
    DataArray (obs)
        In the units of the kind.

    Raises
    ------
    DataError
        For an unknown kind and without rows.
    Incompatible
        If a kind has no meaning for this fit.

    References
    ----------
    Dunn & Smyth 1996.

    Examples
    --------
    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]))
    >>> residuals(fit).round(3).values.tolist()
    [0.167, -0.333, 0.167]
    """
    if kind not in KINDS:
        raise DataError(
            f"kind={kind!r}: expected {', '.join(KINDS)}; influence_measures(fit) has internally and externally studentised residuals (standardised and studentised in R)"
        )
    require_rows_and_estimate(fit)
    if kind == "quantile":
        fit.model.design.refuse_sampling("a quantile residual")
    if kind != "response" and (obstacle := noiseless_obstacle(fit)) is not None:
        raise Incompatible(f"{kind} residuals: {obstacle}")
    by_kind = KINDS[kind](fit)
    likelihood = fit.model.likelihood
    design = fit.model.design
    names = {
        "level": likelihood.levels,
        "outcome": likelihood.outcomes,
        "term": _predictor_columns(fit),
    }
    axes = {axis: [str(v) for v in names[axis]] for axis in by_kind.axes}
    labelled = label_rows({kind: by_kind.values}, design, axes=axes)
    return labelled[kind].assign_attrs(kind=kind, method=fit.method.name)


def noiseless_obstacle(fit: Fitted) -> str | None:
    """Return why all residuals are zero up to rounding, or None if they are not."""
    sigma = fit.model.noise(fit.aux, None)
    y = fit.model.design.observed
    if has_zero_noise(fit.model, fit.solution):
        size = ""
    elif sigma is None or sigma > _ROUNDING_OF_SIGMA * np.abs(y).max():
        return None
    else:
        size = f" (sigma = {sigma:.1g})"
    return f"the fit meets every response exactly{size}, so that no residual is left"


def rounding_error(fit: Fitted) -> float:
    """Return the size, in units of sigma, below which differences of Pearson residuals are rounding error."""
    smallest = 1e-9  # in units of sigma: smaller differences are errors of the estimate
    sigma = fit.model.noise(fit.aux, None)
    if sigma is None:
        return smallest
    y = np.abs(fit.model.design.observed).max()
    return max(smallest, _ROUNDING_OF_SIGMA * float(y / sigma))


def require_rows_and_estimate(fit: Fitted) -> None:
    """Raise DataError for a fit without rows, NotConverged without an estimate, Incompatible without probabilities."""
    fit.model.design.need_rows("a number for each row")
    require_predictive(fit)


def canonical_order(design: Design) -> Array:
    """Return the rows sorted by columns, offset and response, so that random numbers do not depend on the order of
    the rows."""
    if design.offset is None:
        offset = np.zeros((design.n, 0))
    else:
        offset = design.offset.reshape(design.n, -1)
    return np.lexsort(np.column_stack([design.observed, offset, design.X]).T)


def uniforms(fit: Fitted, rows: Array) -> Array:
    """Return one number in (0, 1) per row; it depends on the fit's seed and on the rows' values, not on their order."""
    design = fit.model.design.take(rows)
    order = canonical_order(design)
    checksum = crc32(np.ascontiguousarray(design.observed[order]).tobytes())
    u = np.empty(len(rows))
    u[order] = np.random.default_rng([fit.seed, 3, checksum]).random(len(rows))
    return u


def _mean_residuals(likelihood: Likelihood, y: Array, mean: Array) -> Array:
    """Return y - E[y] on the scale of the mean, for classes one column per class (n, K); nan where y is nan."""
    unknown = np.isnan(y.reshape(len(y), -1)).any(1)
    return np.where(
        unknown if mean.ndim == 1 else unknown[:, None],
        np.nan,
        likelihood.response(y) - mean,
    )


def predictor(fit: Fitted) -> Array:
    """Return eta at the estimate, (n, m)."""
    return fit.model.eta(fit.solution.beta)


def _response_residuals(fit: Fitted) -> ResidualKind:
    model = fit.model
    mean = model.likelihood.mean(predictor(fit), **fit.aux_of_rows)
    return ResidualKind(
        _mean_residuals(model.likelihood, model.design.observed, mean),
        () if mean.ndim == 1 else ("level",),
    )


class StandardisedScores(NamedTuple):
    """L (n, m, m) with L L' the Fisher information of each row, L^-1, and u = L^-1 s (n, m) of the scores s."""

    root: Array
    inverse: Array
    u: Array


def standardise(score: Array, W: Array) -> StandardisedScores:
    """Return roots of W (..., n, m, m) and standardised scores; eigenvalues below rounding are raised to a minimum."""
    tiny = np.finfo(float).tiny
    if W.shape[-1] == 1:
        root = np.sqrt(np.maximum(W, tiny))
        inverse = 1.0 / root
    else:
        value, vector = np.linalg.eigh(W)
        size = np.sqrt(np.maximum(value, 1e-15 * value[..., -1:] + tiny))[..., None, :]
        root = vector * size
        inverse = (vector / size).mT
    return StandardisedScores(
        root, inverse, np.einsum("...ab,...b->...a", inverse, score)
    )


def standardised_scores(fit: Fitted) -> StandardisedScores:
    """Return the scores of the rows, which have variance 1 in units of their Fisher information."""
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, SmoothLikelihood):
        raise Incompatible(
            f"these residuals are those of a smooth likelihood, and {likelihood.named} likelihood has kinks: "
            "take 'response' or 'quantile' ones"
        )
    if not likelihood.exact_information:
        raise Incompatible(
            "these residuals are in units of the expected information, which has no formula here "
            f"({likelihood.describe(fit.model.design.response)}): take 'quantile' ones"
        )
    eta = predictor(fit)
    aux = fit.aux_of_rows
    W = np.broadcast_to(likelihood.information(eta, **aux), (*eta.shape, eta.shape[1]))
    return standardise(likelihood.score(fit.model.design.observed, eta, **aux), W)


def _pearson(fit: Fitted) -> ResidualKind:
    likelihood = fit.model.likelihood
    if isinstance(likelihood, SoftmaxLikelihood):
        variance: Any = likelihood.response_variance(predictor(fit), **fit.aux_of_rows)
        with np.errstate(all="ignore"):  # 0 / 0 if a class is certain
            return ResidualKind(
                _response_residuals(fit).values / np.sqrt(variance), ("level",)
            )
    # without a nuisance parameter both are the same, also where the variance is 0
    is_one_parameter = (
        likelihood.exact_information and not likelihood.without_formulas.nuisance
    )
    if likelihood.working or is_one_parameter or not likelihood.has_scalar_mean:
        return ResidualKind(standardised_scores(fit).u[:, 0])
    variance = likelihood.response_variance(predictor(fit), **fit.aux_of_rows)
    if variance is not None and np.isfinite(variance).all():
        return ResidualKind(_response_residuals(fit).values / np.sqrt(variance))
    if not likelihood.exact_information:
        raise Incompatible(
            f"Pearson residuals need the variance of the response, and {likelihood.named} likelihood has no formula for it, or it is "
            "infinite at these estimates: use 'quantile' residuals"
        )
    return ResidualKind(standardised_scores(fit).u[:, 0])


def deviance_residuals(fit: Fitted) -> ResidualKind:
    """Return the signed root of twice the log-likelihood ratio to the saturated model, (n,); without a sign for classes."""
    likelihood = fit.model.likelihood
    y = fit.model.design.observed
    aux = fit.aux_of_rows
    eta = predictor(fit)
    gain = likelihood.saturated_log_prob(y, eta, **aux)
    gain = gain - likelihood.log_prob(y, eta, **aux)
    length = np.sqrt(2.0 * np.maximum(gain, 0.0))
    if likelihood.has_scalar_mean:
        assert isinstance(likelihood, DifferentiableLikelihood)
        # l_saturated - l is zero at the score's root, which may differ from y = E[y]
        sign = np.sign(likelihood.score(y, eta, **aux)[..., 0])
        falls = likelihood.link_function.slope(eta[..., 0]) < 0.0
        length = np.where(falls, -sign, sign) * length
    return ResidualKind(length)


def _working_residuals(fit: Fitted) -> ResidualKind:
    scores = standardised_scores(fit)
    likelihood = fit.model.likelihood
    # W^-1 s = L'^-1 u
    values = np.einsum("nba,nb->na", scores.inverse, scores.u)
    values = values @ likelihood.contrast_matrix.T
    if likelihood.outcomes:
        return ResidualKind(values, ("outcome",))
    return ResidualKind(values[:, 0])


def _partial(fit: Fitted) -> ResidualKind:
    """Return r_ik + sum_j (x_ij - mean_j) b_jk over the columns j of a term, r the working residuals of the predictors k."""
    design = fit.model.design
    likelihood = fit.model.likelihood
    if not _predictor_columns(fit):
        raise Incompatible(
            "partial residuals are those of a term, and this model has none beside the intercept"
        )
    working = _working_residuals(fit)
    mean = np.average(design.X, axis=0, weights=design.weights) * (
        design.intercept is not None
    )
    coef = fit.solution.beta @ likelihood.contrast_matrix.T
    parts = [
        (design.X - mean)[:, list(columns)] @ coef[list(columns)]
        for columns in _predictor_columns(fit).values()
    ]
    by_term = working.values.reshape(len(design.X), 1, -1) + np.stack(parts, 1)
    if likelihood.outcomes:
        return ResidualKind(by_term, ("term", "outcome"))
    return ResidualKind(by_term[..., 0], ("term",))


def _predictor_columns(fit: Fitted) -> dict[str, tuple[int, ...]]:
    """Return the columns of each term except the intercept."""
    return {
        name: columns
        for name, columns in columns_by_term(fit.model.design).items()
        if name != "Intercept"
    }


def _quantile(fit: Fitted) -> ResidualKind:
    return ResidualKind(quantile_residuals(fit, np.arange(fit.model.design.n)))


def quantile_residuals(fit: Fitted, rows: Array) -> Array:
    """Return quantile residuals of these rows, with the seed of the fit; each copy of a repeated row has its own draw."""
    # smallest probability: it limits quantile residuals to 7.9 in size
    smallest_prob = 1e-15
    likelihood = fit.model.likelihood
    if not likelihood.has_cdf:
        raise Incompatible(
            f"quantile residuals need an ordered response, and the classes of a {likelihood.name} have no order. Response, pearson "
            "and partial residuals are class by class, deviance residuals one of each row"
        )
    used, place = np.unique(rows, return_inverse=True)
    upper, lower = tails(fit, used)
    between = lower[place]
    if (upper > lower).any():
        between = between + (upper - lower)[place] * uniforms(fit, rows)
    return ndtri(np.clip(between, smallest_prob, 1.0 - smallest_prob))


def tails(fit: Fitted, rows: Array) -> tuple[Array, Array]:
    """Return P(Y <= y) and P(Y < y) of these rows, in order, under the predictive distribution."""
    max_atoms = 500  # largest number of atoms of a posterior predictive
    likelihood = fit.model.likelihood
    y = fit.model.design.observed[rows]
    design = fit.model.design
    if len(rows) < design.n:
        design = design.take(rows)
    mixture = predictive(fit, design, at_most=max_atoms)
    upper = mixture.cdf(y)
    below = likelihood.lower_end(y)
    return upper, upper if below is y else mixture.cdf(below)


KINDS: Mapping[str, Callable[[Fitted], ResidualKind]] = MappingProxyType(
    {
        "response": _response_residuals,
        "pearson": _pearson,
        "deviance": deviance_residuals,
        "working": _working_residuals,
        "partial": _partial,
        "quantile": _quantile,
    }
)
