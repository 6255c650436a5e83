"""A Gaussian process as scikit-learn spells it: what is written finds the same predictions, and is read back as the same kernel."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg import kernels
from probreg.kernels import CovarianceFunction

RNG = np.random.default_rng(11)
ONE, TWO = RNG.uniform(0, 5, (30, 1)), RNG.normal(size=(30, 2))
WORDS = [
    (TWO, kernels.RBF(1.3), "kernel='rbf', gamma="),
    (ONE, kernels.Matern(1.5, 0.5), "kernel='laplacian', gamma="),
    (
        TWO,
        kernels.Matern(1.5, 0.5).on(0) * kernels.Matern(1.5, 0.5).on(1),
        "kernel='laplacian', gamma=",
    ),
    (
        TWO,
        kernels.Polynomial(3, 0.5),
        "kernel='polynomial', gamma=1, coef0=0.5, degree=3",
    ),
    (TWO, kernels.Linear(), "kernel='linear'"),
]


def fitted(call: str, X: np.ndarray, y: np.ndarray, **more: Any) -> Any:
    """What scikit-learn makes of a call as it stands."""
    pytest.importorskip("sklearn")
    from sklearn.kernel_ridge import KernelRidge

    known = {"KernelRidge": KernelRidge}
    return eval(call, {"__builtins__": {}}, known).fit(X, y, **more)


@pytest.mark.parametrize(
    ("X", "kernel", "said"),
    WORDS,
    ids=lambda v: str(v)[:30] if isinstance(v, str) else "",
)
def test_scikit_learn_predicts_the_same_by_the_call_that_is_written(X, kernel, said):
    y = np.sin(X.sum(1)) + 0.3 * RNG.normal(size=30)
    new = X[:5] + 0.1
    fit = pr.kernel_ridge(
        X, y, kernel=kernel, lam=0.2, intercept=False, aux={"sigma": 0.3}
    )
    ridge = next(row for row in fit.model.penalty().rows if row.package == "sklearn")
    assert ridge.call == fit.model.penalty()["sklearn"].call
    assert said in ridge.call
    mean = fit.predict(new)["mean"]
    np.testing.assert_allclose(
        fitted(ridge.call, X, y).predict(new), mean, rtol=1e-8, atol=1e-10
    )


def test_weights_are_sample_weights_of_kernel_ridge():
    y, w = np.sin(ONE[:, 0]), RNG.integers(1, 4, 30)
    fit = pr.kernel_ridge(
        ONE, y, kernel=kernels.RBF(1.0), lam=0.3, intercept=False, weights=w
    )
    found = fit.model.penalty()
    assert [
        row.call.split("(")[0] for row in found.rows if row.package == "sklearn"
    ] == ["KernelRidge", "Ridge"]
    peer = fitted(found["sklearn"].call, ONE, y, sample_weight=w)
    np.testing.assert_allclose(peer.predict(ONE), fit.predict()["mean"], rtol=1e-8)


@pytest.mark.parametrize("given", [
    {"kernel": "rbf", "gamma": 0.3}, {"kernel": "rbf"}, {"kernel": "laplacian", "gamma": 0.3}, {"kernel": "cosine"}, {"kernel": "linear"},
    {"kernel": "poly", "gamma": 0.3, "coef0": 2.0, "degree": 2},
], ids=lambda v: v["kernel"])  # fmt: skip
def test_a_word_of_scikit_learn_is_the_kernel_that_is_read(given):
    pairwise = pytest.importorskip("sklearn.metrics.pairwise")
    read = CovarianceFunction.from_sklearn(**given, columns=2)
    numbers = {k: v for k, v in given.items() if k != "kernel"}
    np.testing.assert_allclose(
        read(TWO),
        pairwise.pairwise_kernels(TWO, metric=given["kernel"], **numbers),
        rtol=1e-12,
        atol=1e-15,
    )


def test_what_scikit_learn_has_not_is_said():
    with_offset = pr.kernel_ridge(
        ONE, ONE[:, 0], kernel=kernels.RBF(1.0), lam=0.3
    ).model.penalty()
    assert with_offset["sklearn"].call.startswith("Ridge(alpha=0.3")
    assert "an offset neither" in repr(with_offset)
    assert "gp(x1)[1]" not in repr(with_offset)
    lone = pr.kernel_ridge(
        ONE, ONE[:, 0], kernel=kernels.RationalQuadratic(), lam=0.3, intercept=False
    ).model.penalty()
    assert lone["sklearn"].call == "Ridge(alpha=0.3, fit_intercept=False)"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kernel": "sigmoid"}, "expected one of linear, rbf, laplacian"),
        ({"kernel": 3.0}, "kernel=3.0"),
        ({"kernel": "rbf", "gamma": -1.0}, "gamma is a positive finite number"),
        ({"kernel": "poly", "coef0": -1.0}, "offset"),
    ],
)
def test_what_has_no_counterpart_is_refused(given, said):
    with pytest.raises(pr.ProbregError) as met:
        CovarianceFunction.from_sklearn(**given)
    assert said in str(met.value)
