"""`tune_svr` against scikit-learn's grid search on the same folds."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.model_selection import GridSearchCV, PredefinedSplit
from sklearn.svm import SVR

import probreg as pr

RNG = np.random.default_rng(0)
X = RNG.uniform(0.0, 6.0, 40)
Y = np.sin(X) + 0.2 * RNG.normal(size=40)
FOLD = np.arange(40) % 4
GRID = {"C": [0.1, 10.0], "epsilon": [0.0, 0.3]}


@pytest.mark.parametrize(
    ("kernel", "peer"),
    [(pr.kernels.RBF(1.0), {"gamma": 0.5}), ("linear", {"kernel": "linear"})],
)
def test_the_pair_is_the_one_of_grid_search(kernel: Any, peer: dict[str, Any]) -> None:
    search = GridSearchCV(
        SVR(tol=1e-8, **peer),
        GRID,
        scoring="neg_mean_absolute_error",
        cv=PredefinedSplit(FOLD),
    ).fit(X[:, None], Y)
    start = pr.svr(X, Y, kernel=kernel, C=1.0, epsilon=0.1)
    best = pr.tune_svr(start, folds=FOLD, **GRID)
    values = dict(best.notes[0].values)
    assert search.best_params_ == {name: values[name] for name in GRID}
    assert_allclose(values["error"], -search.best_score_, rtol=1e-4)
    again = pr.svr(X, Y, kernel=kernel, **search.best_params_)
    assert_allclose(best.fitted, again.fitted)
    assert best.model.scales_compared == 4


def test_other_fits_are_refused() -> None:
    with pytest.raises(pr.Incompatible, match="tune_svr needs a fit"):
        pr.tune_svr(pr.ols(X, Y), **GRID)


def test_an_empty_grid_is_refused() -> None:
    with pytest.raises(pr.DataError, match="C and epsilon"):
        pr.tune_svr(pr.svr(X, Y, C=1.0, epsilon=0.1), C=[], epsilon=[0.1])
