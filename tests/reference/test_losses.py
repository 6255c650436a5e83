"""Losses with kinks against others' answers: quantiles of Engel's households, support vectors of libsvm, statsmodels' quantiles."""

import numpy as np
import pytest
import statsmodels.api as sm
from sklearn.datasets import load_diabetes
from sklearn.svm import SVR

import probreg as pr
from probreg.kernels import RBF

# HiGHS, 8 decimals: intercept and slope on income
ENGEL = {
    0.1: (110.14157421, 0.40176576),
    0.5: (81.48224742, 0.56018055),
    0.9: (67.35087208, 0.68629948),
}


def test_quantiles_of_what_households_spend_on_food() -> None:
    data = sm.datasets.engel.load_pandas().data
    fits = pr.quantile_regression("foodexp ~ income", data, tau=list(ENGEL))
    for tau, fit in fits.items():
        np.testing.assert_allclose(fit.coef, ENGEL[tau], atol=1e-8)
        peer = sm.QuantReg(data["foodexp"], sm.add_constant(data["income"])).fit(tau)
        np.testing.assert_allclose(fit.coef, peer.params, rtol=1e-4)


@pytest.mark.slow
def test_support_vectors_of_the_diabetes_data() -> None:
    table = load_diabetes(scaled=False)
    X, y = (
        (table.data - table.data.mean(0)) / table.data.std(0),
        table.target.astype(float),
    )
    fit = pr.svr(X, y, kernel=RBF(5.0), C=100.0, epsilon=20.0)  # exp(-0.02 |x - z|^2)
    assert len(fit.support) == 312
    assert (fit.support["at"] == "bound").sum() == 287
    assert fit.coef.values[0] == pytest.approx(185.4294, abs=5e-4)
    by = 100.0 * fit.model.fixed["scale"]
    assert fit.solution.stats["primal"] * by == pytest.approx(1104948.45, rel=1e-7)
    peer = SVR(kernel="rbf", gamma=0.02, C=100.0, epsilon=20.0).fit(X, y)
    # libsvm stops at 1e-3 of the dual
    np.testing.assert_allclose(fit.predict(X)["mean"], peer.predict(X), atol=0.05)
    K = np.exp(-0.02 * np.square(X[:, None] - X[None]).sum(-1))
    theirs = np.zeros(len(y))
    theirs[peer.support_] = peer.dual_coef_[0]
    ours = fit.support["weight"].reindex(range(len(y)), fill_value=0.0).to_numpy()

    def gap(beta: np.ndarray, b: float) -> float:
        f = K @ beta
        primal = f @ beta / 2 + 100.0 * np.maximum(np.abs(y - f - b) - 20.0, 0.0).sum()
        return (
            float(primal - (y @ beta - 20.0 * np.abs(beta).sum() - f @ beta / 2))
            / primal
        )

    assert gap(ours, fit.coef.values[0]) < 1e-3 * gap(theirs, peer.intercept_[0])
    again = SVR(kernel="rbf", gamma=0.02, C=100.0, epsilon=20.0, tol=1e-6).fit(X, y)
    np.testing.assert_allclose(fit.predict(X)["mean"], again.predict(X), atol=1e-4)
