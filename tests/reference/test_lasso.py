"""The lasso and its kin against certified paths and against packages, each in its own spelling of the penalty.

The density behind ||y - X b||^2 / (2 n) + alpha ||b||_1 with sigma held at 1 is Laplace(1 / (n alpha)); on columns that were
standardised with the 1/n standard deviation s_j it is Laplace(1 / (n alpha s_j)) on the raw ones.
"""

import csv
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import probreg as pr
from probreg.inference import mode_path
from tests.conftest import reference_path

from .cases import cases

Array = np.ndarray
ONE = {"sigma": 1.0}


def held(X: Array, y: Array, scale: Any, **more: Any) -> pr.Model:
    return pr.Model.from_arrays(X, y, prior=pr.Laplace(scale), aux=ONE, **more)


def glmnet(case: dict[str, Any]) -> tuple[pr.Model, Array]:
    """The model whose scale 1 / lambda is glmnet's lambda."""
    X, y = np.array(case["X"]), np.array(case["y"])
    return held(X, y, tuple(1.0 / (len(X) * X.std(0)))), 1.0 / np.array(
        case["lambda_path"]
    )


def test_glmnet_path(certified: Any) -> None:
    case = certified("lasso_ridge/glmnet_gaussian_lasso_path")
    model, scales = glmnet(case)
    path = mode_path(model, scales)
    rss = ((np.array(case["y"]) - (model.design.X @ path.beta[:, :, 0].T).T) ** 2).sum(
        1
    )
    ratio = 1 - rss / case["null_deviance"]
    # glmnet stops early, as its coefficients below do
    assert_allclose(ratio, case["dev_ratio"], atol=5e-5)
    for i, exact in case["exact_at_index"].items():
        # the exact ones were computed to 1e-13 of the objective; lambda has 10 decimals
        at = path.beta[int(i) - 1, :, 0]
        assert_allclose(at, [exact["a0"], *exact["beta"]], rtol=1e-6, atol=1e-8)
    for i, printed in case["beta_at_1based_path_index"].items():
        near = case["crosscheck"]["max_abs_err_coef"]
        assert_allclose(path.beta[int(i) - 1, 1:, 0], printed, atol=near)
    count = (path.beta[:, 1:] != 0).sum((1, 2))
    # where one enters between two lambdas glmnet may be late
    assert (count == case["n_active"])[2:].mean() > 0.95
    assert_allclose(path.df, count + 1)


@pytest.mark.parametrize("alpha", ["1e-8", "0.1", "0.5", "1"])
@pytest.mark.parametrize("method", ["coordinate_descent", "proximal_newton"])
def test_scikit_learns_toy(alpha: str, method: str, certified: Any) -> None:
    case = certified("lasso_ridge/lasso_toy")
    fit = pr.fit(
        held(
            np.array(case["X"], float),
            np.array(case["y"], float),
            1 / (3 * float(alpha)),
        ),
        method,
    )
    # the certified 1.0 at alpha = 1e-8 is the limit: the exact value is 1 - 1.5e-8
    assert fit.coef[1] == pytest.approx(case["expected"][alpha], abs=2e-8)


def prostate(certified: Any) -> tuple[dict[str, Any], Array, Array]:
    """The 67 training rows, the predictors standardised over all 97."""
    case = certified("lasso_ridge/esl_prostate")
    with reference_path("csv/prostate.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    train = np.array([r["train"].strip('"').upper().startswith("T") for r in rows])
    X = np.array([[float(r[c]) for c in case["published"]["terms"][1:]] for r in rows])
    y = np.array([float(r["lpsa"]) for r in rows])
    return case, ((X - X.mean(0)) / X.std(0, ddof=1))[train], y[train]


def test_prostate(certified: Any) -> None:
    """Hastie, Tibshirani & Friedman, Table 3.3, recomputed exactly: lasso, ridge at five degrees of freedom."""
    case, X, y = prostate(certified)
    lam = case["lasso_penalty_on_RSS_over_2"]
    # the file calls its penalty one on RSS / 2, and its coefficients are those of RSS / (2 n)
    fit, exact = (
        pr.fit(held(X, y, 1 / (lam * len(X)))),
        case["computed_here"]["Lasso"]["coef"],
    )
    assert_allclose(fit.coef, exact, atol=2e-4)
    assert ((fit.coef == 0) == (np.array(exact) == 0)).all()
    ridge = pr.Model.from_arrays(X, y, prior=pr.Normal(1.0), aux=ONE)
    path = mode_path(ridge, 1 / np.sqrt(case["ridge_lambda_df5"]))
    assert path.df[0] == pytest.approx(6.0, abs=1e-9)  # five, and the intercept
    # the file's computation gives the intercept for columns centred over the 97 rows: so does ours
    assert_allclose(
        path.beta[0, :, 0], case["computed_here"]["Ridge"]["coef"], rtol=1e-9, atol=1e-9
    )


TABLES = [
    n
    for n in cases("tables/lasso_ridge")
    if n.endswith(("_weighted", "_path", "_iris30", "absent"))
]


@pytest.mark.parametrize("name", TABLES)
def test_data_of_glmnet_against_certificates(name: str, certified: Any) -> None:
    """Files that hold data only: every point of our path satisfies glmnet's optimality conditions, written out here."""
    case = certified(name)
    X, y = np.array(case["X"]), np.array(case["y"])
    w = np.array(case.get("weights", np.ones(len(X))))
    mean = w @ X / w.sum()
    sd = np.sqrt(w @ (X - mean) ** 2 / w.sum())
    likelihood = (
        "categorical"
        if "classes" in case
        else "bernoulli"
        if set(y) <= {0.0, 1.0}
        else "gaussian"
    )
    # glmnet's divide the variance of the noise
    weights = pr.weights.precision(w) if likelihood == "gaussian" else w
    model = pr.Model.from_arrays(
        X, y, prior=pr.Laplace(tuple(1 / (w.sum() * sd))), likelihood=likelihood, weights=weights,
        aux=ONE if likelihood == "gaussian" else {},
    )  # fmt: skip
    lam = np.array([0.3, 0.1, 0.03]) * (y.std() if likelihood == "gaussian" else 1.0)
    path = mode_path(model, 1 / lam)
    U = (X - mean) / sd
    for i, alpha in enumerate(lam):
        fit = pr.fit(path.model(i))
        mu = model.likelihood.mean(model.eta(fit.solution.beta), sigma=1.0)
        codes = model.design.observed
        r = (
            (codes[:, None] == np.arange(1, 3)) - mu[:, 1:]
            if mu.ndim == 2
            else (codes - mu)[:, None]
        )
        g, b = U.T @ (w[:, None] * r) / w.sum(), fit.solution.beta[1:]
        assert np.abs(w @ r).max() < 1e-6
        assert_allclose(g[b != 0], alpha * np.sign(b[b != 0]), rtol=1e-6)
        assert (np.abs(g[b == 0]) <= alpha * (1 + 1e-8)).all()


@pytest.mark.parametrize("alpha", ["0.5", "1"])
def test_glmnet_multinomial(alpha: str, certified: Any) -> None:
    """The coefficients of seven classes with glmnet's shift, which puts the median of each column at zero."""
    case = certified("lasso_ridge/glmnet_multinomial_anes96")
    data = pr.load_dataset("anes96")
    X, y = (
        np.column_stack([data[name] for name in case["columns"]]).astype(float),
        np.array(data["party"], str),
    )
    model = pr.Model.from_arrays(X, y, likelihood=pr.Categorical(symmetric=True))
    for lam, exact in zip(case["paths"][alpha]["lambda"], case["paths"][alpha]["coef"]):
        settings: dict[str, Any] = {
            "lam": lam,
            "of": "glmnet",
            "model": model,
            "standardize": True,
        }
        net = pr.priors.ElasticNet.from_elastic_net(alpha=0.5, **settings)
        prior = net if alpha == "0.5" else pr.Laplace.from_lasso(**settings)
        fit = pr.fit(model.with_prior(prior))
        # glmnet was stopped at thresh = 1e-12 or later, its coefficients move in the fifth digit
        assert_allclose(
            fit.coef.values.T, exact, rtol=2e-4, atol=2e-5 * np.abs(exact).max()
        )
        assert ((fit.coef.values.T == 0) == (np.array(exact) == 0)).all()


# ---- packages ------------------------------------------------------------------------------------------------------


def rows(likelihood: str = "gaussian", n: int = 120, p: int = 9) -> tuple[Array, Array]:
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, p)) @ (np.eye(p) + 0.4 * np.eye(p, k=1)) * rng.uniform(
        0.5, 2.0, p
    ) + rng.uniform(-1, 1, p)
    eta = 0.4 + X[:, :3] @ [0.6, -0.5, 0.3]
    if likelihood == "gaussian":
        return X, eta + rng.normal(size=n)
    if likelihood == "bernoulli":
        return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int)
    return X, rng.poisson(np.exp(0.5 * eta))


@pytest.mark.parametrize("alpha", [0.3, 0.05, 0.005])
def test_scikit_learn_lasso_and_elastic_net(alpha: float) -> None:
    """alpha ||b||_1 ratio + alpha (1 - ratio) ||b||^2 / 2: ElasticNet states both at one scale, so each weight is matched by
    a scale and a ratio: ratio_here / s = n alpha ratio, (1 - ratio_here) / s^2 = n alpha (1 - ratio)."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = rows()
    theirs = linear_model.Lasso(alpha=alpha, tol=1e-14, max_iter=1_000_000).fit(X, y)
    ours = pr.fit(held(X, y, 1 / (len(X) * alpha)))
    assert_allclose(
        ours.coef, np.r_[theirs.intercept_, theirs.coef_], rtol=1e-6, atol=1e-8
    )
    assert ((ours.coef[1:] == 0) == (theirs.coef_ == 0)).all()
    l1, l2 = 120 * alpha * 0.7, 120 * alpha * 0.3
    scale = (np.sqrt(l1**2 + 4 * l2) - l1) / (2 * l2)  # of l1 s + l2 s^2 = 1
    net = pr.fit(
        pr.Model.from_arrays(
            X, y, prior=pr.priors.ElasticNet(scale, ratio=l1 * scale), aux=ONE
        )
    )
    theirs = linear_model.ElasticNet(
        alpha=alpha, l1_ratio=0.7, tol=1e-14, max_iter=1_000_000
    ).fit(X, y)
    assert_allclose(
        net.coef, np.r_[theirs.intercept_, theirs.coef_], rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("C", [1.0, 0.3, 0.1])
def test_scikit_learn_logistic(C: float) -> None:
    """C sum of losses + ||b||_1: Laplace(C)."""
    linear_model = pytest.importorskip("sklearn.linear_model")
    X, y = rows("bernoulli")
    X = X - X.mean(0)
    theirs = linear_model.LogisticRegression(
        l1_ratio=1.0, C=C, solver="saga", tol=1e-13, max_iter=200_000
    ).fit(X, y)
    ours = pr.fit(
        pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=pr.Laplace(C))
    )
    assert_allclose(
        ours.coef, np.r_[theirs.intercept_, theirs.coef_[0]], rtol=1e-6, atol=1e-8
    )


@pytest.mark.parametrize("alpha", [0.2, 0.02])
def test_glum_poisson(alpha: float) -> None:
    """Mean deviance / 2 + alpha ||b||_1: Laplace(1 / (n alpha))."""
    glum = pytest.importorskip("glum")
    X, y = rows("poisson")
    theirs = glum.GeneralizedLinearRegressor(
        family="poisson",
        alpha=alpha,
        l1_ratio=1.0,
        gradient_tol=1e-12,
        max_iter=10_000,
        scale_predictors=False,
    ).fit(X, y.astype(float))
    ours = pr.fit(
        pr.Model.from_arrays(
            X, y, likelihood="poisson", prior=pr.Laplace(1 / (len(X) * alpha))
        )
    )
    assert_allclose(
        ours.coef, np.r_[theirs.intercept_, theirs.coef_], rtol=1e-6, atol=1e-7
    )
