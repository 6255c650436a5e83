"""Fits hold little beside their data: the peak of what they allocate, as a multiple of the bytes of X."""

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.data.terms.smooths import ThinPlate
from probreg.inference.modes.newton_method import Newton
from probreg.linalg import limit_threads

N, P = 60_000, 20


def peak_of(run: Callable[[], Any]) -> int:
    """Bytes that `run` allocates at most, on one core; what a first run imports and compiles is no part of it."""
    with limit_threads(1):  # each core works on a block of 2 MB
        run()
        gc.collect()
        tracemalloc.start()
        run()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


def model(likelihood: str) -> pr.Model:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, P))
    eta = 0.3 * X[:, 0] + rng.logistic(size=N)
    y = {
        "gaussian": eta,
        "bernoulli": eta > 0,
        "categorical": np.digitize(eta, [-1.0, 0.0, 1.0]),
    }[likelihood]
    return pr.Model.from_arrays(X, y, likelihood=likelihood)


@pytest.mark.parametrize("kind", ["pairs", "residual", "parametric"])
def test_a_bootstrap_holds_one_replicate_at_a_time(kind):
    made = model("gaussian")
    run = pr.Bootstrap("closed_form", kind=kind, reps=4)
    peak, data = peak_of(lambda: pr.fit(made, run, seed=0)), made.design.X.nbytes
    assert peak < 1.5 * data


@pytest.mark.slow
def test_a_bootstrap_by_newton_holds_one_replicate_at_a_time():
    made = model("bernoulli")
    run = pr.Bootstrap("newton", reps=3)
    peak, data = peak_of(lambda: pr.fit(made, run, seed=0)), made.design.X.nbytes
    assert peak < 1.8 * data


def test_rows_are_let_go_with_their_model():
    made, held = model("bernoulli"), []
    Newton().solve(made, np.random.default_rng(0))
    gc.disable()  # a design that kept itself would stay until the next collection
    try:
        tracemalloc.start()
        for _ in range(3):
            Newton().solve(model("bernoulli"), np.random.default_rng(0))
            held.append(tracemalloc.get_traced_memory()[0])
        tracemalloc.stop()
    finally:
        gc.enable()
    data = made.design.X.nbytes
    assert held[-1] < 0.2 * data


def test_a_pass_of_stochastic_gradients_holds_one_copy_of_the_columns():
    made = model("bernoulli")
    run = pr.SGD(epochs=1, tol=100.0)
    peak, data = peak_of(lambda: pr.fit(made, run, seed=0)), made.design.X.nbytes
    assert peak < 2.0 * data


@pytest.mark.slow
def test_a_pass_of_least_mean_squares_holds_one_copy_of_the_columns():
    made = model("gaussian")
    run = pr.LMS(epochs=1, tol=100.0)
    peak, data = peak_of(lambda: pr.fit(made, run, seed=0)), made.design.X.nbytes
    assert peak < 2.0 * data


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [("categorical", "newton"), ("bernoulli", pr.Importance(draws=100))],
)
def test_newton_and_importance_sampling_work_by_blocks_of_rows(likelihood, method):
    made = model(likelihood).with_prior(pr.Normal(2.5))
    peak, data = peak_of(lambda: pr.fit(made, method, seed=0)), made.design.X.nbytes
    assert peak < 1.2 * data


def test_a_sandwich_works_by_blocks_of_rows():
    fit = pr.fit(model("bernoulli"), "newton")
    peak, data = peak_of(lambda: fit.covariance("HC3")), fit.model.design.X.nbytes
    assert peak < 1.0 * data


@pytest.mark.slow
def test_a_formula_holds_its_columns_twice_at_most():
    rng = np.random.default_rng(0)
    data = {name: rng.normal(size=N) for name in ("y", "a", "b")} | {
        "g": rng.integers(0, 12, N).astype(str)
    }
    made = pr.Model.from_formula("y ~ bs(a, df=8) + b * g", data)
    peak, X = (
        peak_of(lambda: pr.Model.from_formula("y ~ bs(a, df=8) + b * g", data)),
        made.design.X.nbytes,
    )
    assert peak < 3.0 * X  # X itself is one


@pytest.mark.slow
def test_thin_plates_take_their_distances_by_blocks_of_rows():
    x = np.random.default_rng(0).normal(size=(N // 2, 1))
    basis = ThinPlate.of(x[::10], 10)
    columns = basis.columns_at(x)
    # distances to all knots are 20
    assert peak_of(lambda: basis.columns_at(x)) < 5.0 * columns.nbytes
    np.testing.assert_allclose(
        columns[7:9], basis.columns_at(x[7:9]), rtol=1e-12, atol=1e-14
    )


@pytest.mark.slow
def test_many_classes_take_their_curvatures_by_smaller_blocks():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 10))
    made = pr.Model.from_arrays(
        X, rng.integers(0, 12, len(X)), likelihood="categorical"
    )
    peak = peak_of(lambda: pr.fit(made, "newton"))
    assert peak < 0.8 * len(X) * 11 * 11 * 8  # of one array (n, m, m)
