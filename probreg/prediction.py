"""What a fit says of new rows, as arrays: the mean, the interval of the mean, the interval of a new observation.

For a posterior all three come from the draws. For a point estimate the mean is the plug-in; its interval is Wald on the
scale of the link (delta method for class probabilities); a new observation is classical Student-t for least squares, and
otherwise the mixture of the likelihood over draws from the estimator's asymptotic normal distribution.
"""

from dataclasses import dataclass

import numpy as np

from probreg.design import Design
from probreg.errors import Incompatible, NotConverged
from probreg.inference import Method, Solution, Status
from probreg.inference.asymptotic import ASYMPTOTIC_DRAWS, asymptotic
from probreg.intervals import equal_tail, quantile
from probreg.likelihoods import Gaussian, OrderedLikelihood
from probreg.model import Model
from probreg.predictive import Predictive

Array = np.ndarray
_NUMBERS = 20_000_000  # draws times rows that are held at once


@dataclass(frozen=True, eq=False)
class Prediction:
    """Arrays over rows (n,), or rows and classes (n, K); the last pair is (n,) or None for unordered classes."""

    mean: Array
    mean_interval: tuple[Array, Array]
    new_interval: tuple[Array, Array] | None
    likely: Array | None  # (n, K) bool: the smallest set of classes with total probability at least prob
    kind: str  # what the intervals are, in words


def usable(solution: Solution, method: Method) -> None:
    """NotConverged when there is no estimate to predict from."""
    if solution.status is Status.NO_MAXIMUM:
        raise NotConverged(
            f"{method.name}: {solution.status.value} ({solution.detail}); so there is nothing to predict from"
        )


def predictive(model: Model, solution: Solution, design: Design, *, spread: bool, seed: int) -> Predictive:
    """The mixture over draws; for a point estimate one atom, or with `spread` its asymptotic distribution."""
    if solution.draws is not None:
        draws = solution.draws
        beta = draws["beta"].reshape(-1, *model.shape)
        aux = {a: draws[a].reshape(-1, 1) for a in model.unknown}
    elif spread:
        beta, aux = asymptotic(solution, np.random.default_rng([seed, 2]))
    else:
        beta, aux = solution.beta[None], {a: np.full((1, 1), v) for a, v in solution.aux.items()}
    held = {a: np.full((len(beta), 1), v) for a, v in model.fixed.items()}
    return Predictive(model.likelihood, _eta(design, beta), {**held, **aux})


def _eta(design: Design, beta: Array) -> Array:
    eta = design.X @ beta
    return eta if design.offset is None else eta + design.offset


def predict(model: Model, solution: Solution, method: Method, design: Design, *, prob: float, seed: int) -> Prediction:
    """Mean and intervals at the rows of a design; NotConverged when there is no estimate."""
    usable(solution, method)
    size = max(1, _NUMBERS // (_atoms(solution) * model.shape[1]))
    parts = [_predict(model, solution, design.take(slice(i, i + size)), prob, seed) for i in range(0, design.n, size)]
    return parts[0] if len(parts) == 1 else _joined(parts)


def _atoms(solution: Solution) -> int:
    return ASYMPTOTIC_DRAWS if solution.draws is None else solution.draws["beta"][..., 0, 0].size


def _joined(parts: list[Prediction]) -> Prediction:
    def pair(ends: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        return np.concatenate([e[0] for e in ends]), np.concatenate([e[1] for e in ends])

    new = [p.new_interval for p in parts if p.new_interval is not None]
    likely = [p.likely for p in parts if p.likely is not None]
    return Prediction(
        np.concatenate([p.mean for p in parts]),
        pair([p.mean_interval for p in parts]),
        pair(new) if new else None,
        np.concatenate(likely) if likely else None,
        parts[0].kind,
    )


def _predict(model: Model, solution: Solution, design: Design, prob: float, seed: int) -> Prediction:
    if not isinstance(model.likelihood, OrderedLikelihood):
        return _classes(model, solution, design, prob, seed)
    if solution.draws is not None:
        p = predictive(model, solution, design, spread=False, seed=seed)
        interval = equal_tail(p.means(), prob)
        kind = "equal-tailed posterior and posterior predictive intervals"
        return Prediction(p.mean(), interval, _new(p, prob), None, kind)
    lower, upper = _mean_interval(model, solution, design, prob)
    mean = model.likelihood.mean(_eta(design, solution.beta), **{**model.fixed, **solution.aux})
    if isinstance(model.likelihood, Gaussian) and solution.df is not None:
        return Prediction(
            mean, (lower, upper), _classical(solution, design, mean, prob), None, "Student-t intervals of least squares"
        )
    p = predictive(model, solution, design, spread=True, seed=seed)
    kind = "Wald interval of the mean on the link scale; a new observation from the asymptotic distribution of the estimate"
    return Prediction(mean, (lower, upper), _new(p, prob), None, kind)


def _new(p: Predictive, prob: float) -> tuple[Array, Array]:
    tail = (1 - prob) / 2
    return p.quantile(tail), p.quantile(1 - tail)


def _variance(X: Array, scale: Array, J: Array) -> Array:
    """Variance of J eta, (n, D), for the covariance `scale` of vec(beta) and J (n, D, m)."""
    p, m = X.shape[1], J.shape[-1]
    S = np.nan_to_num(scale).reshape(p, m, p, m)
    eta_cov = np.einsum("np,pkql,nq->nkl", X, S, X, optimize=True)
    return np.einsum("ndk,nkl,ndl->nd", J, eta_cov, J, optimize=True)


def _estimable(model: Model, solution: Solution, design: Design) -> None:
    """Incompatible at rows where collinear columns leave the mean without an estimate."""
    if solution.vague is None or not solution.vague.any():
        return
    off = ~solution.vague.any(1)
    moved = np.abs(design.X[:, ~off]) > 0
    if moved.any():
        names = ", ".join(c for c, keep in zip(design.columns, off) if not keep)
        raise Incompatible(
            f"no interval for these rows: the coefficients of {names} are not identified ({solution.detail}). "
            "Drop a column or give a prior; the plug-in mean is predictive(data).mean()."
        )


def _mean_interval(model: Model, solution: Solution, design: Design, prob: float) -> tuple[Array, Array]:
    _estimable(model, solution, design)
    centre, J = model.likelihood.mean_line(_eta(design, solution.beta))
    half = quantile(prob, solution.df) * np.sqrt(_variance(design.X, solution.scale, J))
    inverse = model.likelihood.link.inverse
    lower, upper = inverse(centre - half), inverse(centre + half)
    return (lower[:, 0], upper[:, 0]) if lower.shape[1] == 1 else (lower, upper)


def _classical(solution: Solution, design: Design, mean: Array, prob: float) -> tuple[Array, Array]:
    """mean -+ t s sqrt(1 + h): the least-squares interval of a new observation."""
    s2 = solution.stats.get("sigma_unbiased", np.nan) ** 2  # nan where no degrees of freedom are left
    variance = _variance(design.X, solution.scale, np.ones((design.n, 1, 1)))[:, 0]
    half = quantile(prob, solution.df) * np.sqrt(s2 + variance)
    return mean - half, mean + half


def _classes(model: Model, solution: Solution, design: Design, prob: float, seed: int) -> Prediction:
    p = predictive(model, solution, design, spread=False, seed=seed)
    mean = p.mean()
    if solution.draws is not None:
        interval, kind = equal_tail(p.means(), prob), "equal-tailed posterior intervals of the class probabilities"
    else:
        interval, kind = (
            _mean_interval(model, solution, design, prob),
            "Wald intervals of the class probabilities on the logit scale (delta method)",
        )
    order = np.argsort(-mean, axis=1)
    sorted_mean = np.take_along_axis(mean, order, 1)
    before = np.cumsum(sorted_mean, axis=1) - sorted_mean
    likely = np.zeros_like(mean, dtype=bool)
    np.put_along_axis(likely, order, before < prob, 1)
    return Prediction(mean, interval, None, likely, kind)
