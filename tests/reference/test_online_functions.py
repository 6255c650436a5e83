"""Learners of functions on the four rows T and on 442 patients: numbers computed from the formulas beside them."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import probreg.online as online
from probreg.kernels import RBF

X, Y = np.array([[0.0], [1.0], [2.0], [4.0]]), np.array([0.0, 1.0, 0.0, 2.0])
NEW = np.array([[1.5], [3.0], [10.0]])
BOTH = pytest.mark.parametrize("compiled", [False, True])


@BOTH
def test_kernel_lms_on_four_rows(compiled: bool):
    path = online.run(
        online.kernel(online.lms(0.5), RBF(1.0)),
        X,
        Y,
        record=online.Record(compiled=compiled),
    )
    assert path.loss == pytest.approx(5.152060869487, abs=1e-12)
    np.testing.assert_allclose(
        path.state.w, [0.5, -0.151632664928, 1.007483384500], atol=1e-8
    )
    promise = path.guarantee()
    assert promise.bound == pytest.approx(5.294406844723, abs=1e-12)
    # min_f [A L_f + |f|^2 / step] = A lam y'(K + lam I)^-1 y, A = 1 / (1 - step r^2), lam = 1 / (A step), at b = (K + lam I)^-1 y
    K = RBF(1.0)(X)
    np.testing.assert_allclose(
        promise.comparator, np.linalg.solve(K + np.eye(4), Y), atol=1e-12
    )


@BOTH
def test_kernel_lms_on_patients(compiled: bool):
    table = load_diabetes(scaled=False)
    Z, z = ((a - a.mean(axis=0)) / a.std(axis=0) for a in (table.data, table.target))
    learner = online.kernel(online.lms(0.2), RBF(np.sqrt(10.0)))  # exp(-0.05 |x - z|^2)
    path = online.run(learner, Z, z, record=online.Record(compiled=compiled))
    promise = path.guarantee()
    assert (path.loss, promise.bound) == pytest.approx((259.489, 289.145), abs=5e-4)
    nothing = path.guarantee(np.zeros(442))
    assert nothing.comparator_loss == pytest.approx(442.0)


@BOTH
def test_kernel_least_squares_on_four_rows(compiled: bool):
    for lam, alpha, f, sd in (
        (
            0.1,
            [-1.049735515478, 2.198114845794, -1.323913544159, 1.959186828456],
            [0.516761377392, 0.671133711257, 2.98e-8],
            [0.285635203039, 0.601736742776, 1.0],
        ),
        (
            1.0,
            [-0.171861224314, 0.620856767241, -0.245213938203, 1.013173327560],
            [0.320224191830, 0.547905535758, 1.54e-8],
            [0.632006560882, 0.808967009162, 1.0],
        ),
    ):
        learner = online.kernel(online.rls(precision=lam), RBF(1.0))
        state = online.run(learner, X, Y, record=online.Record(compiled=compiled)).state
        np.testing.assert_allclose(state.w, alpha, atol=2e-12)
        np.testing.assert_allclose(learner.predict(state, NEW), f, atol=1e-10)
        np.testing.assert_allclose(
            np.sqrt(lam * np.diag(learner.covariance(state, NEW))), sd, atol=1e-12
        )
        same = online.run(
            online.kernel(online.rls(precision=lam), RBF(1.0)), X, Y
        ).state
        np.testing.assert_allclose(same.w, alpha, atol=2e-12)


@pytest.mark.slow
def test_the_bound_that_is_often_printed_is_false(rng: np.random.Generator):
    """With step / (1 - step r^2) in the place of 1 / (1 - step r^2) noise alone breaks it."""
    x, noise, step = rng.uniform(0, 1, (2000, 1)), rng.standard_normal(2000), 0.05
    path = online.run(online.kernel(online.lms(step), RBF(0.2)), x, noise)
    promise = path.guarantee()
    u, theirs = promise.comparator, promise.comparator_loss
    size = float(u @ RBF(0.2)(x) @ u)
    assert promise.bound == pytest.approx(theirs / (1 - step) + size / step, rel=1e-6)
    assert promise.cumulative_loss <= promise.bound < 1.1 * promise.cumulative_loss
    assert step / (1 - step) * theirs + size / step < 0.2 * promise.cumulative_loss
