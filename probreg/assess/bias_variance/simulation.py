"""Fits of responses that are drawn from a truth, and what they predict."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from probreg.assess.bias_variance.truth import linear_predictor
from probreg.data import Design
from probreg.errors import DataError, Incompatible, NotConverged
from probreg.fits.inference_data import observation_rows
from probreg.fits.prediction import predictive
from probreg.inference import Auto, Method, Solution
from probreg.likelihoods.links import IDENTITY
from probreg.model.model import Model

Array = np.ndarray


def simulate_predictions(
    models: list[Model],
    eta: Array,
    aux: Mapping[str, float],
    target: Design,
    method: Method,
    reps: int,
    seed: int,
) -> list[Array]:
    """The predicted means of each model at each of the simulated responses, (reps, n) or (reps, n, K); nan where a fit
    had no estimate."""
    likelihood = models[0].likelihood
    rows, weight = observation_rows(models[0])
    if weight is not None:
        raise DataError("responses can be drawn for whole-number weights only: a row of weight 3 is three observations")
    design = replace(models[0].design.take(rows), weights=None)
    methods = [_chosen(method, m) for m in models]
    noise = likelihood.at_rows(aux, design.precision)
    found: list[list[Array | None]] = [[] for _ in models]
    for r in range(reps):
        y = likelihood.sample(np.random.default_rng([seed, r]), eta[rows], **noise, **models[0].given(design))
        drawn = replace(design, y=np.asarray(y, dtype=float))
        for m, chosen, out in zip(models, methods, found):
            this = replace(m, design=drawn)
            solution = chosen.solve(this, np.random.default_rng([seed, r, 1]))
            out.append(_predicted(this, solution, target, seed) if solution.status.good else None)
    return [_complete(out, chosen) for out, chosen in zip(found, methods)]


def _chosen(method: Method, model: Model) -> Method:
    if (why := method.obstacle(model)) is not None:
        raise Incompatible(why)
    if isinstance(method, Auto):
        method = method.choose(model)[0]
    if not method.probabilities:
        raise Incompatible(
            f"{method.name} is a classifier: it predicts no mean that could be right or wrong on average"
        )
    return method


def _predicted(model: Model, solution: Solution, target: Design, seed: int) -> Array:
    """E[y] at the target rows; for an identity link the mean over draws is at the mean of the draws, with no error."""
    if model.likelihood.link is IDENTITY:
        return linear_predictor(target, solution.beta)[:, 0]
    return predictive(model, solution, target, spread=False, seed=seed).mean()


def _complete(found: list[Array | None], method: Method) -> Array:
    good = [g for g in found if g is not None]
    if len(good) < 2:
        raise NotConverged(
            f"{method.name}: {len(good)} of {len(found)} simulated responses had an estimate; two or more are needed. "
            "A prior such as Normal(2.5), or more reps, would help"
        )
    return np.stack([np.full_like(good[0], np.nan) if g is None else g for g in found])
