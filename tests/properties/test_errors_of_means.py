"""Errors of predicted means and of averaged effects: the delta method over all parameters, nuisance parameters included."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.fits.prediction import parameter_draws
from probreg.inference.base import log_names
from probreg.likelihoods import SmoothLikelihood

from .cases import (
    LIKELIHOOD_CASES,
    Array,
    named,
    proper_aux,
    proper_prior,
    recipe_of,
    rows_for,
)
from .unregistered import GaussianOfLog

CASES = [v for v in LIKELIHOOD_CASES if isinstance(v, SmoothLikelihood)]
every = pytest.mark.parametrize("likelihood", [*CASES, GaussianOfLog()], ids=named)
STEP = 1e-3  # of a variable, in central differences


def rows(likelihood: Any) -> tuple[dict[str, Any], Any, dict[str, Any]]:
    X, y = rows_for(likelihood, 40, 2)
    options = recipe_of(likelihood)
    return {"x": X[:, 0], "z": X[:, 1]}, y, options


def fitted(likelihood: Any, method: str, **more: Any) -> Any:
    table, y, options = rows(likelihood)
    X = np.column_stack([table["x"], table["z"]])
    fit = pr.fit(
        pr.Model.from_arrays(X, y, columns=["x", "z"], **options, **more),
        method,
        seed=1,
    )
    if not fit.solution.status.good:
        pytest.skip("the maximum does not exist")
    return fit


def quantities(fit: Any) -> dict[str, Callable[[Array, dict[str, Any]], Array]]:
    """Means at rows, their average, their average slope in x and the difference of averages at x + 1 and x, of beta and aux."""
    likelihood, X = fit.model.likelihood, np.asarray(fit.model.design.X)
    in_x = (np.array(fit.model.design.columns) == "x").astype(float)
    # rows that count trials have as many shares
    trials = fit.model.given(fit.model.design).get("trials", np.ones(len(X)))
    share = trials / trials.sum()

    def mean(beta: Array, aux: dict[str, Any], change: float = 0.0) -> Array:
        mu = likelihood.mean((X + change * in_x) @ beta, **aux)
        return mu.reshape(len(X), -1)

    def average(beta: Array, aux: dict[str, Any], change: float = 0.0) -> Array:
        return share @ mean(beta, aux, change)

    return {
        "rows": lambda beta, aux: mean(beta, aux).ravel(),
        "predictions": average,
        "slopes": lambda beta, aux: (
            (average(beta, aux, STEP) - average(beta, aux, -STEP)) / (2 * STEP)
        ),
        "comparisons": lambda beta, aux: average(beta, aux, 1.0) - average(beta, aux),
    }


def errors(fit: Any) -> dict[str, Array]:
    """The errors that probreg prints of these quantities."""
    fixed = {"average_over": "sample"}
    if fit.solution.draws is None:
        fixed["covariance"] = "observed"
    column = "std_error" if fit.solution.draws is None else "sd"
    table = fit.predict(prob=None)
    (name,) = [v for v in table if v.startswith("mean_")]
    effects = {
        "predictions": pr.predictions(fit, **fixed),
        "slopes": pr.slopes(fit, "x", **fixed),
        "comparisons": pr.comparisons(fit, "x", **fixed),
    }
    return {"rows": np.asarray(table[name]).ravel()} | {
        k: v.table[column].to_numpy() for k, v in effects.items()
    }


@every
def test_errors_of_an_estimate_are_those_of_the_delta_method(likelihood: Any) -> None:
    fit = fitted(likelihood, "newton")
    model, s = fit.model, fit.solution
    assert s.scale.further == log_names(model)
    k = s.beta.size
    theta = np.r_[s.beta.ravel(), np.log([s.aux[a] for a in model.unknown])]
    root = s.scale.half(np.eye(s.scale.size))
    size = np.linalg.norm(root, axis=1)
    known = dict(model.fixed)

    def at(h: Callable[[Array, dict[str, Any]], Array], moved: Array) -> Array:
        aux = dict(zip(model.unknown, np.exp(moved[k:])))
        return h(moved[:k].reshape(s.beta.shape), {**known, **aux})

    met = errors(fit)
    for name, h in quantities(fit).items():
        steps = np.diag(1e-3 * size)
        slopes = [(at(h, theta + d) - at(h, theta - d)) / (2 * d.max()) for d in steps]
        expected = np.linalg.norm(np.stack(slopes, -1) @ root, axis=-1)
        # differences over 1e-3 standard errors and over 1e-3 of x have errors of some 1e-6
        np.testing.assert_allclose(
            met[name], expected, rtol=3e-5, atol=1e-9, err_msg=name
        )


@every
def test_errors_of_a_posterior_are_the_spread_over_its_draws(likelihood: Any) -> None:
    if likelihood.least_squares:
        pytest.skip("its posterior has a closed form, which its draws only sample")
    few = pr.inference.METHODS["laplace"](draws=30)
    fit = fitted(
        likelihood,
        few,
        prior=proper_prior(likelihood, pr.Normal(1.0)),
        aux=proper_aux(likelihood),
    )
    draws = parameter_draws(fit)
    beta = draws.pop("beta")
    met = errors(fit)
    for name, h in quantities(fit).items():
        values = [
            h(b, {a: v[i, 0] for a, v in draws.items()}) for i, b in enumerate(beta)
        ]
        # of the slope in x, differences have errors of some 1e-6
        np.testing.assert_allclose(
            met[name], np.std(values, 0, ddof=1), rtol=3e-5, err_msg=name
        )
