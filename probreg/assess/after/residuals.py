"""Residuals of a fit at its own rows, of six kinds."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probreg.arguments.scalars import Word, checked
from probreg.arguments.types import DataArray
from probreg.assess.after.base import noiseless, reachable
from probreg.assess.after.local import roots
from probreg.assess.after.observed import uniforms
from probreg.assess.before.vif import terms
from probreg.data.rows import plus_offset
from probreg.data.weights import refuse_sampling
from probreg.errors import DataError, Incompatible
from probreg.fits.fit import Fit
from probreg.fits.inference_data import row_labels
from probreg.fits.prediction import predictive
from probreg.likelihoods import Likelihood, SmoothLikelihood, SoftmaxLikelihood, UnivariateLikelihood
from probreg.model.predictive import Predictive

Array = np.ndarray
_EDGE = 1e-15  # of probability: a quantile residual is at most 7.9 in size
_DRAWS = 500  # atoms of a posterior predictive at most


class ResidualKind(NamedTuple):
    """Residual values (n, ...) with the names of their further axes."""

    values: Array
    axes: tuple[str, ...] = ()


@checked
def residuals(fit: Fit, kind: Word = "response") -> DataArray:
    """Residuals at the estimate (posterior mean), one per row whatever its weight; y - E[y] by default.

    A row of precision w has noise scale sigma / sqrt(w): Pearson, deviance and quantile residuals are in its units, and
    response residuals in those of y. Rows of weight 0 have response residuals alone, nan otherwise.

    Parameters
    ----------
    fit : Fit
        A fit.
    kind : str
        "response": y - E[y], in units of y; for a softmax 1[y = k] - p_k over (obs, level); of n trials the share less
        its probability, k / n - p, as in R (statsmodels has k - n p).

        "pearson": the score over the root of its Fisher information, which is (y - E[y]) / sd(y) for Gaussian,
        Bernoulli and Poisson responses and (k - n p) / sqrt(n p (1 - p)) of n trials; over (obs, level) for a softmax,
        of n trials (y_k - n p_k) / sqrt(n p_k (1 - p_k)).

        "deviance": sign(y - E[y]) sqrt(2 (l_saturated - l)), whose squares add up to the deviance (over sigma^2 for a
        Gaussian).

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
        Where a kind has no meaning.

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
    import xarray as xr

    if kind not in KINDS:
        raise DataError(
            f"residuals are of kind {', '.join(KINDS)}, and influence_measures(fit) has studentised ones; got {kind!r}"
        )
    reachable(fit)
    if kind == "quantile":
        refuse_sampling(fit.model.design.weight_kind, "a quantile residual")
    if kind != "response" and (why := noiseless(fit)) is not None:
        raise Incompatible(f"{kind} residuals: {why}")
    found, likelihood, design = KINDS[kind](fit), fit.model.likelihood, fit.model.design
    values = design.by_row(found.values, _of_unused(fit) if kind == "response" else np.nan)
    coords: dict[str, Any] = {"obs": row_labels(None, design.whole)}
    names = {"level": likelihood.levels, "outcome": likelihood.outcomes, "term": sloped(fit)}
    coords |= {axis: [str(v) for v in names[axis]] for axis in found.axes}
    return xr.DataArray(
        values, coords, ("obs", *found.axes), name=kind, attrs={"kind": kind, "method": fit.method.name}
    )


def counted_residuals(fit: Fit, kind: str) -> Array:
    """The residuals (n, ...) of the rows that count: what tests and pictures look at."""
    return KINDS[kind](fit).values


def _of_unused(fit: Fit) -> Array | float:
    """y - E[y] at the rows of weight 0, nan where y cannot be read."""
    left, likelihood = fit.model.design.unused, fit.model.likelihood
    if left is None or left.y is None:
        return np.nan
    eta = left.X @ fit.solution.beta
    mean = likelihood.mean(plus_offset(eta, left.offset), **fit.aux)
    return _distance(likelihood, left.y, mean)


def _distance(likelihood: Likelihood, y: Array, mean: Array) -> Array:
    """y - E[y] on the scale of the mean, class by class (n, K) for classes; nan where y is."""
    unknown = np.isnan(y.reshape(len(y), -1)).any(1)
    return np.where(unknown if mean.ndim == 1 else unknown[:, None], np.nan, likelihood.response(y) - mean)


def predictor(fit: Fit) -> Array:
    """eta at the estimate, (n, m)."""
    design = fit.model.design
    eta = design.X @ fit.solution.beta
    return plus_offset(eta, design.offset)


def _response(fit: Fit) -> ResidualKind:
    model, eta = fit.model, predictor(fit)
    mean = model.likelihood.mean(eta, **fit.aux_of_rows)
    return ResidualKind(_distance(model.likelihood, model.design.observed, mean), () if mean.ndim == 1 else ("level",))


def _pearson(fit: Fit) -> ResidualKind:
    likelihood, eta = _smooth(fit), predictor(fit)
    if isinstance(likelihood, SoftmaxLikelihood):
        p, n = likelihood.mean(eta), likelihood.tally(fit.model.design.observed).sum(1, keepdims=True)
        with np.errstate(all="ignore"):  # 0 / 0 where a class is certain
            return ResidualKind(_response(fit).values / np.sqrt(p * (1.0 - p) / n), ("level",))
    return ResidualKind(score(fit, eta)[:, 0])


def score(fit: Fit, eta: Array) -> Array:
    """L^-1 s, (n, m), with the Fisher information L L' of each row."""
    likelihood = _smooth(fit)
    y = fit.model.design.observed
    info = np.broadcast_to(likelihood.information(eta, **fit.aux_of_rows), (*eta.shape, eta.shape[1]))
    s = likelihood.score(y, eta, **fit.aux_of_rows)
    return np.einsum("nab,nb->na", roots(info)[1], s)


def _deviance(fit: Fit) -> ResidualKind:
    return ResidualKind(deviance(fit, predictor(fit)))


def deviance(fit: Fit, eta: Array) -> Array:
    """Signed root of twice the log likelihood ratio to the best that any linear predictor gives y, (n,); without a sign
    for classes."""
    likelihood, y = fit.model.likelihood, fit.model.design.observed
    aux = fit.aux_of_rows
    gain = likelihood.log_prob(y, likelihood.saturated(y), **aux) - likelihood.log_prob(y, eta, **aux)
    length = np.sqrt(2.0 * np.maximum(gain, 0.0))
    if not isinstance(likelihood, UnivariateLikelihood):
        return length
    return np.asarray(np.sign(likelihood.response(y) - likelihood.mean(eta, **aux)) * length)


def _working(fit: Fit) -> ResidualKind:
    likelihood, eta = _smooth(fit), predictor(fit)
    y = fit.model.design.observed
    info = np.broadcast_to(likelihood.information(eta, **fit.aux_of_rows), (*eta.shape, eta.shape[1]))
    s = likelihood.score(y, eta, **fit.aux_of_rows)
    inverse = roots(info)[1]
    values = np.einsum("nba,nb->na", inverse, np.einsum("nab,nb->na", inverse, s))
    values = values @ likelihood.contrast_matrix.T
    return ResidualKind(values, ("outcome",)) if likelihood.outcomes else ResidualKind(values[:, 0])


def _partial(fit: Fit) -> ResidualKind:
    """r_ik + sum_j (x_ij - mean_j) b_jk over the columns j of a term, r the working residuals of the reported predictors k."""
    design, likelihood = fit.model.design, fit.model.likelihood
    if not sloped(fit):
        raise Incompatible("partial residuals are those of a term, and this model has none beside the intercept")
    working = _working(fit)
    mean = np.average(design.X, axis=0, weights=design.weights) * (design.intercept is not None)
    coef = fit.solution.beta @ likelihood.contrast_matrix.T
    parts = [(design.X - mean)[:, list(columns)] @ coef[list(columns)] for columns in sloped(fit).values()]
    by_term = working.values.reshape(len(design.X), 1, -1) + np.stack(parts, 1)
    return (
        ResidualKind(by_term, ("term", "outcome")) if likelihood.outcomes else ResidualKind(by_term[..., 0], ("term",))
    )


def sloped(fit: Fit) -> dict[str, tuple[int, ...]]:
    """The columns of each term but the intercept."""
    return {name: at for name, at in terms(fit.model.design).items() if name != "Intercept"}


def _quantile(fit: Fit) -> ResidualKind:
    return ResidualKind(quantile_residuals(fit, np.arange(fit.model.design.n)))


def quantile_residuals(fit: Fit, rows: Array) -> Array:
    """Quantile residuals of these rows (repeated rows are drawn anew), with the seed of the fit."""
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, UnivariateLikelihood):
        raise Incompatible(
            f"quantile residuals need an ordered response, and the classes of {likelihood.named} have no order; response, pearson and "
            "partial residuals are class by class, deviance residuals one of each row"
        )
    used, place = np.unique(rows, return_inverse=True)
    upper, lower = tails(fit, used)
    between = lower[place]
    if not isinstance(likelihood.support, str):
        between = between + (upper - lower)[place] * uniforms(fit, rows)
    return ndtri(np.clip(between, _EDGE, 1.0 - _EDGE))


def tails(fit: Fit, rows: Array) -> tuple[Array, Array]:
    """P(Y <= y) and P(Y < y) of these rows under the predictive distribution."""
    likelihood, y = fit.model.likelihood, fit.model.design.observed[rows]
    assert isinstance(likelihood, UnivariateLikelihood)
    told = _thinned(fit, rows)
    upper = told.cdf(y)
    if isinstance(likelihood.support, str):
        return upper, upper
    return upper, told.cdf(likelihood.drawn(y) - 1.0)  # discrete responses are whole numbers


def _thinned(fit: Fit, rows: Array) -> Predictive:
    atoms = predictive(fit.model, fit.solution, fit.model.design.take(rows), spread=False, seed=fit.seed)
    return atoms.thinned(_DRAWS)


def _smooth(fit: Fit) -> SmoothLikelihood:
    if not isinstance(fit.model.likelihood, SmoothLikelihood):
        raise Incompatible(
            f"these residuals are those of a smooth likelihood, and the {fit.model.likelihood.name} likelihood has kinks: "
            "take 'response' or 'quantile' ones"
        )
    return fit.model.likelihood


KINDS: Mapping[str, Callable[[Fit], ResidualKind]] = MappingProxyType(
    {
        "response": _response,
        "pearson": _pearson,
        "deviance": _deviance,
        "working": _working,
        "partial": _partial,
        "quantile": _quantile,
    }
)
