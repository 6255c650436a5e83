"""Residuals of a fit at its own rows, of six kinds."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from probreg.check.design_leverage import row_names
from probreg.check.vif import terms
from probreg.diagnose.base import noiseless, reachable
from probreg.diagnose.local import roots
from probreg.errors import DataError, Incompatible
from probreg.fit import Fit
from probreg.likelihoods import Categorical, OrderedLikelihood, SmoothLikelihood
from probreg.prediction import predictive
from probreg.predictive import Predictive

Array = np.ndarray
_EDGE = 1e-15  # of probability: a quantile residual is at most 7.9 in size
_DRAWS = 500  # atoms of a posterior predictive at most
_FAR = 700.0  # on the link scale, where a mean at the edge of its range has its likelihood


class Kind(NamedTuple):
    """Residual values (n, ...) with the names of their further axes."""

    values: Array
    axes: tuple[str, ...] = ()


def residuals(fit: Fit, kind: str = "response") -> Any:
    """Residuals at the estimate (posterior mean), DataArray over obs, one per row whatever its weight.

    response: y - E[y], in units of y; for a softmax 1[y = k] - p_k over (obs, level).
    pearson: the score over the root of its Fisher information, which is (y - E[y]) / sd(y) for Gaussian, Bernoulli and
    Poisson responses; over (obs, level) for a softmax, (1[y = k] - p_k) / sqrt(p_k (1 - p_k)).
    deviance: sign(y - E[y]) sqrt(2 (l_saturated - l)), whose squares add up to the deviance (over sigma^2 for a Gaussian).
    working: score over Fisher information, on the scale of the linear predictor, (obs) or (obs, outcome).
    partial: working residuals plus the centred contribution of a term, (obs, term); one linear predictor only.
    quantile: Phi^-1(P(Y <= y)) under the predictive distribution, for a discrete response drawn between P(Y < y) and
    P(Y <= y) with the seed of the fit: standard normal when the model is right (Dunn & Smyth 1996). Ordered responses only.

    DataError for an unknown kind and without rows; Incompatible where a kind has no meaning.

    >>> import probreg as pr
    >>> fit = pr.fit(pr.Model.from_arrays([1.0, 2.0, 3.0], [1.0, 2.0, 4.0]))
    >>> residuals(fit).round(3).values.tolist()
    [0.167, -0.333, 0.167]
    """
    import xarray as xr

    if kind not in KINDS:
        raise DataError(
            f"residuals are of kind {', '.join(KINDS)}, and measures(fit) has studentised ones; got {kind!r}"
        )
    reachable(fit)
    if kind != "response" and (why := noiseless(fit)) is not None:
        raise Incompatible(f"{kind} residuals: {why}")
    found, likelihood = KINDS[kind](fit), fit.model.likelihood
    coords: dict[str, Any] = {"obs": row_names(fit.model)}
    names = {"level": likelihood.levels, "outcome": likelihood.outcomes, "term": sloped(fit)}
    coords |= {axis: [str(v) for v in names[axis]] for axis in found.axes}
    return xr.DataArray(
        found.values, coords, ("obs", *found.axes), name=kind, attrs={"kind": kind, "method": fit.method.name}
    )


def predictor(fit: Fit) -> Array:
    """eta at the estimate, (n, m)."""
    design = fit.model.design
    eta = design.X @ fit.solution.beta
    return eta if design.offset is None else eta + design.offset


def _response(fit: Fit) -> Kind:
    model, eta = fit.model, predictor(fit)
    mean, y = model.likelihood.mean(eta, **fit.aux), model.design.observed
    if mean.ndim == 1:
        return Kind(y - mean)
    return Kind((y[:, None] == np.arange(mean.shape[1])) - mean, ("level",))


def _pearson(fit: Fit) -> Kind:
    likelihood, eta = _smooth(fit), predictor(fit)
    if isinstance(likelihood, Categorical):
        p = likelihood.mean(eta)
        with np.errstate(all="ignore"):  # 0 / 0 where a class is certain
            return Kind(_response(fit).values / np.sqrt(p * (1.0 - p)), ("level",))
    return Kind(score(fit, eta)[:, 0])


def score(fit: Fit, eta: Array) -> Array:
    """L^-1 s, (n, m), with the Fisher information L L' of each row."""
    likelihood = _smooth(fit)
    info = np.broadcast_to(likelihood.information(eta, **fit.aux), (*eta.shape, eta.shape[1]))
    s = likelihood.score(fit.model.design.observed, eta, **fit.aux)
    return np.einsum("nab,nb->na", roots(info)[1], s)


def _deviance(fit: Fit) -> Kind:
    return Kind(deviance(fit, predictor(fit)))


def deviance(fit: Fit, eta: Array) -> Array:
    """Signed root of twice the log likelihood ratio to the best that any linear predictor gives y, (n,); without a sign
    for classes."""
    likelihood, y = fit.model.likelihood, fit.model.design.observed
    here = likelihood.log_prob(y, eta, **fit.aux)
    if not isinstance(likelihood, OrderedLikelihood):
        return np.sqrt(-2.0 * here)
    with np.errstate(all="ignore"):  # the link of a mean at the edge of its range is infinite
        best = np.nan_to_num(likelihood.link.forward(y), posinf=_FAR, neginf=-_FAR)[:, None]
    gain = likelihood.log_prob(y, best, **fit.aux) - here
    return np.asarray(np.sign(y - likelihood.mean(eta, **fit.aux)) * np.sqrt(2.0 * np.maximum(gain, 0.0)))


def _working(fit: Fit) -> Kind:
    likelihood, eta = _smooth(fit), predictor(fit)
    info = np.broadcast_to(likelihood.information(eta, **fit.aux), (*eta.shape, eta.shape[1]))
    s = likelihood.score(fit.model.design.observed, eta, **fit.aux)
    inverse = roots(info)[1]
    values = np.einsum("nba,nb->na", inverse, np.einsum("nab,nb->na", inverse, s))
    values = values @ likelihood.display.T
    return Kind(values, ("outcome",)) if likelihood.outcomes else Kind(values[:, 0])


def _partial(fit: Fit) -> Kind:
    design, likelihood = fit.model.design, fit.model.likelihood
    if likelihood.width > 1:
        raise Incompatible("partial residuals are of one linear predictor; a softmax has several")
    if not sloped(fit):
        raise Incompatible("partial residuals are those of a term, and this model has none beside the intercept")
    mean = np.average(design.X, axis=0, weights=design.weights) * (design.intercept is not None)
    parts = (design.X - mean) * fit.solution.beta[:, 0]
    by_term = np.stack([parts[:, list(columns)].sum(1) for columns in sloped(fit).values()], 1)
    return Kind(_working(fit).values[:, None] + by_term, ("term",))


def sloped(fit: Fit) -> dict[str, tuple[int, ...]]:
    """The columns of each term but the intercept."""
    return {name: at for name, at in terms(fit.model.design).items() if name != "Intercept"}


def _quantile(fit: Fit) -> Kind:
    return Kind(quantile_residuals(fit, np.arange(fit.model.design.n)))


def quantile_residuals(fit: Fit, rows: Array) -> Array:
    """Quantile residuals of these rows (repeated rows are drawn anew), with the seed of the fit."""
    likelihood = fit.model.likelihood
    if not isinstance(likelihood, OrderedLikelihood):
        raise Incompatible(f"quantile residuals need an ordered response; the classes of a {likelihood.name} have none")
    used, place = np.unique(rows, return_inverse=True)
    upper, lower = tails(fit, used)
    u = np.random.default_rng([fit.seed, 3]).random(len(rows))
    between = lower[place] + (upper - lower)[place] * u
    return ndtri(np.clip(between, _EDGE, 1.0 - _EDGE))


def tails(fit: Fit, rows: Array) -> tuple[Array, Array]:
    """P(Y <= y) and P(Y < y) of these rows under the predictive distribution."""
    likelihood, y = fit.model.likelihood, fit.model.design.observed[rows]
    assert isinstance(likelihood, OrderedLikelihood)
    told = _thinned(fit, rows)
    upper = told.cdf(y)
    if isinstance(likelihood.support, str):
        return upper, upper
    return upper, told.cdf(y - 1.0)  # discrete responses are whole numbers


def _thinned(fit: Fit, rows: Array) -> Predictive:
    atoms = predictive(fit.model, fit.solution, fit.model.design.take(rows), spread=False, seed=fit.seed)
    return atoms.thinned(_DRAWS)


def _smooth(fit: Fit) -> SmoothLikelihood:
    if not isinstance(fit.model.likelihood, SmoothLikelihood):
        raise Incompatible(f"a {fit.model.likelihood.name} likelihood has no Fisher information for these residuals")
    return fit.model.likelihood


KINDS: Mapping[str, Callable[[Fit], Kind]] = MappingProxyType(
    {
        "response": _response,
        "pearson": _pearson,
        "deviance": _deviance,
        "working": _working,
        "partial": _partial,
        "quantile": _quantile,
    }
)
