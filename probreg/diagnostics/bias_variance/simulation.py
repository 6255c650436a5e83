"""Bias and variance of fits to responses drawn from a truth.

They have a closed form if the fit is linear in y, and are moments over simulated fits otherwise.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from probreg.data import Design
from probreg.data.rows import full_weights
from probreg.diagnostics.bias_variance.truth import linear_predictor
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.inference_data import observation_rows
from probreg.fits.prediction import predictive
from probreg.inference import Auto, Method, Solution
from probreg.inference.modes.closed_form import (
    PriorRows,
    combinations,
    posterior_given_sigma,
)
from probreg.likelihoods.links import IDENTITY
from probreg.model.model import Model
from probreg.system.progress import each_of

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class DecompositionParts:
    """Arrays over rows (n,) or (n, K) by name, and further numbers for their averages."""

    rows: Mapping[str, Array]
    numbers: Mapping[str, float]


def linear(model: Model) -> bool:
    """Return whether the fitted mean is S y + c: Gaussian, normal priors that do not depend on y or on an unknown sigma."""
    if not model.likelihood.least_squares or not model.joint.gaussian:
        return False
    if model.unknown and (model.joint.informative & ~model.joint.sigma_units).any():
        return False
    y = model.design.observed
    transformed = replace(
        model, design=replace(model.design, y=1.0 - 3.0 * y)
    ).joint  # a prior in units of sd(y) moves
    return np.array_equal(
        transformed.precision(), model.joint.precision()
    ) and np.array_equal(transformed.center, model.joint.center)


def decompose_linear(
    model: Model, eta: Array, target: Design, f: Array, sigma: float
) -> DecompositionParts:
    """Return bias and variance in closed form.

    E g is the fit to the noise-free response; Cov(beta) = sigma^2 A^-1 X'WX A^-1 with A = X'WX + P, W frequencies or
    precisions, because X'W Cov(y) WX = sigma^2 X'WX for both.
    """
    design = replace(model.design, y=eta[:, 0])
    posterior = posterior_given_sigma(
        design.moments, PriorRows.of(model.joint), model.noise()
    )
    if posterior.rank.dropped:
        raise Incompatible(
            f"these columns are not identified: {combinations(posterior.rank, design.columns)}. Drop one, or give a proper prior"
        )
    # A^-1 = root root' and X'WX = R'R: Var g_i = sigma^2 |x_i'A^-1 R'|^2, and df = tr X A^-1 X'W = |R root|^2.
    R = np.asarray(design.moments.R, dtype=float)
    fitted = linear_predictor(target, posterior.mean[:, None])[:, 0]
    root = np.asarray(posterior.root, dtype=float)
    variance = sigma**2 * ((target.X @ root @ (R @ root).T) ** 2).sum(1)
    bias = fitted - f
    rows = {
        "fitted": fitted,
        "bias": bias,
        "bias2": bias**2,
        "variance": variance,
        "error": variance + bias**2,
    }
    rows |= dict.fromkeys(("bias_se", "variance_se", "error_se"), np.zeros_like(bias))
    numbers = dict.fromkeys(("bias2_se", "variance_se", "error_se", "failed"), 0.0)
    return DecompositionParts(rows, numbers | {"df": float(((R @ root) ** 2).sum())})


def moments(draws: Array, f: Array, share: Array) -> DecompositionParts:
    """Return moments over the fits with an estimate, with their number as divisor, and standard errors over the draws."""
    g = draws[np.isfinite(draws).reshape(len(draws), -1).all(1)]
    fitted = g.mean(0)
    # mean (g - f)^2 = mean (g - mean g)^2 + (mean g - f)^2 exactly, where all three have the same divisor.
    deviation = g - fitted
    bias = fitted - f
    square = deviation**2
    error = (g - f) ** 2

    def se(values: Array) -> Array:
        return values.std(0, ddof=1) / np.sqrt(len(g))

    def average_se(values: Array) -> float:
        by_row = values.reshape(*values.shape[:2], -1).sum(-1)
        return float(se((by_row * share).sum(-1)))

    rows = {
        "fitted": fitted,
        "bias": bias,
        "bias2": bias**2,
        "variance": square.mean(0),
        "error": error.mean(0),
        "bias_se": se(g),
        "variance_se": se(square),
        "error_se": se(error),
    }
    numbers = {
        # of (mean g - f)^2 by its influence 2 (mean g - f)(g - mean g) (delta method)
        "bias2_se": average_se(2.0 * bias * deviation),
        "variance_se": average_se(square),
        "error_se": average_se(error),
        "failed": float(len(draws) - len(g)),
    }
    return DecompositionParts(rows, numbers)


def shares(target: Design) -> Array:
    """Return the share of each row in an average, by frequency."""
    w = full_weights(target.weights, target.n)
    return w / w.sum()


def simulate_predictions(
    models: list[Model],
    eta: Array,
    aux: Mapping[str, float],
    target: Design,
    method: Method,
    reps: int,
    seed: int,
    progress: bool | None = None,
) -> list[Array]:
    """Return the predicted means of each model for each simulated response, (reps, n) or (reps, n, K); nan for a fit without an
    estimate."""
    likelihood = models[0].likelihood
    rows, weight = observation_rows(models[0])
    if weight is not None:
        raise DataError("responses can be simulated for whole-number weights only")
    design = replace(models[0].design.take(rows), weights=None)
    methods = [_check_method(method, m) for m in models]
    noise = likelihood.at_rows(aux, design.precision)

    def once(r: int) -> list[Array | None]:
        y = likelihood.sample(
            np.random.default_rng([seed, r]),
            eta[rows],
            **noise,
            **models[0].given(design),
        )
        simulated = replace(design, y=np.asarray(y, dtype=float))
        estimates: list[Array | None] = []
        for m, chosen in zip(models, methods):
            this = replace(m, design=simulated)
            solution = chosen.solve(this, np.random.default_rng([seed, r, 1]))
            estimates.append(
                _predict_mean(this, solution, target, seed)
                if solution.status.good
                else None
            )
        return estimates

    results = each_of(once, range(reps), "bias_variance, data sets", show=progress)
    return [
        _stack_estimates(list(estimates), chosen)
        for estimates, chosen in zip(zip(*results), methods)
    ]


def _check_method(method: Method, model: Model) -> Method:
    reason = method.obstacle(model)
    if reason is not None:
        raise Incompatible(reason)
    if isinstance(method, Auto):
        method = method.choose(model)[0]
    if not method.probabilities:
        raise Incompatible(f"{method.name} is a classifier and predicts no mean")
    return method


def _predict_mean(model: Model, solution: Solution, target: Design, seed: int) -> Array:
    """E[y] at the target rows; for an identity link the mean over draws is at the mean of the draws, with no error."""
    if model.likelihood.link is IDENTITY:
        return linear_predictor(target, solution.beta)[:, 0]
    return predictive(model, solution, target, spread=False, seed=seed).mean()


def _stack_estimates(estimates: list[Array | None], method: Method) -> Array:
    good = [g for g in estimates if g is not None]
    if len(good) < 2:
        raise NotConverged(
            f"{method.name}: {len(good)} of {len(estimates)} simulated responses had an estimate, expected at least two: use a prior such as "
            "Normal(2.5), or more reps"
        )
    return np.stack(
        [np.full_like(good[0], np.nan) if g is None else g for g in estimates]
    )
