"""The recipe `kernel_ridge` against the numbers of other packages: those of the four rows T, of a plane and of diabetes."""

# ruff: noqa: F401, F811  fixtures of another file

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import probreg as pr
from probreg import kernels
from probreg.fits.leave_out.modes import modes_without_rows
from tests.reference.test_kernels import CLOSE, LAMS, K, S, T, X, Y, diabetes

Array = np.ndarray


def alpha_of(fit: pr.Fit) -> Array:
    """f = phi beta = k(., A) T beta, and alpha = T beta at the rows."""
    (term,) = fit.model.design.recipe.processes.values()
    return (term.basis.T @ fit.solution.beta[fit.model.joint.informative])[:, 0]


@pytest.mark.parametrize("lam", LAMS)
def test_four_rows_without_an_offset(lam: float) -> None:
    known = T[lam]
    fit = pr.kernel_ridge(
        X, Y, kernel=K, lam=lam, intercept=False, aux={"sigma": lam**0.5}
    )
    assert fit.method.name == "closed_form"
    assert_allclose(alpha_of(fit), known["alpha"], **CLOSE)
    assert_allclose(fit.predict(S)["mean"][:2], known["f"][:2], **CLOSE)
    # printed to three figures
    assert_allclose(fit.predict(S)["mean"][2], known["f"][2], rtol=2e-3)
    assert np.square(fit.solution.beta).sum() == pytest.approx(known["norm2"], rel=1e-9)
    data = pr.path(fit.model, [1.0]).data  # sigma^2 = lam, so that tau = 1
    assert float(data["df"][0]) == pytest.approx(known["df"], rel=1e-9)
    assert float(data["log_evidence"][0]) == pytest.approx(known["evidence"], rel=1e-9)
    assert_allclose(
        Y - modes_without_rows(fit.model, fit.solution.beta, {}).eta[:, 0],
        known["loo"],
        **CLOSE,
    )


@pytest.mark.parametrize("lam", LAMS)
def test_four_rows_with_a_free_offset(lam: float) -> None:
    fit, known = pr.kernel_ridge(X[:, None], Y, kernel=K, lam=lam), T[lam]
    assert_allclose(alpha_of(fit), known["offset alpha"], **CLOSE)
    assert fit.coef.sel(coef="Intercept").item() == pytest.approx(known["b"], rel=1e-9)
    assert_allclose(fit.predict(S[:, None])["mean"], known["offset f"], **CLOSE)


def test_the_columns_of_a_plane_are_its_dual() -> None:
    plane, y = np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 4.0]]), np.array([5.0, 7.0, 9.0])
    dual = pr.kernel_ridge(plane, y, kernel="linear", lam=1.0, intercept=False)
    primal = pr.ridge(plane, y, scale=1.0, sigma_units=True, intercept=False)
    assert_allclose(primal.coef, [9 / 13, 79 / 39], rtol=1e-9)
    # alpha is (10, 9, 8) / 39 and what the plane does not reach: f is the same
    assert_allclose(plane.T @ alpha_of(dual), [9 / 13, 79 / 39], rtol=1e-9)
    assert_allclose(
        dual.predict(plane)["mean"], primal.predict(plane)["mean"], rtol=1e-9
    )
    assert_allclose(
        y - dual.predict(plane)["mean"], np.array([10, 9, 8]) / 39, rtol=1e-9
    )  # lam alpha


def test_a_polynomial() -> None:
    fit = pr.kernel_ridge(
        X, Y, kernel=kernels.Polynomial(2, 1.0), lam=0.5, intercept=False
    )
    assert_allclose(
        fit.predict(S)["mean"],
        [0.389815150417, 1.122145704966, 11.397607828923],
        **CLOSE,
    )


@pytest.mark.parametrize(
    ("intercept", "mse", "loo", "df"),
    [
        (False, 2715.3688748, 3001.6095106, 21.7413180),
        (True, 2647.1319355, 2928.5462831, 22.0002490),
    ],
)
def test_diabetes_by_the_recipe(
    intercept: bool,
    mse: float,
    loo: float,
    df: float,
    diabetes: Any,
) -> None:
    rows, y = diabetes
    fit = pr.kernel_ridge(
        rows, y, kernel=kernels.RBF(5.0), lam=1.0, intercept=intercept
    )
    assert np.square(y - fit.predict()["mean"].values).mean() == pytest.approx(
        mse, rel=1e-9
    )
    found = pr.tune(fit.model, "loo", scales=[1.0], score="squared").table
    assert found["score"].item() == pytest.approx(loo, rel=1e-9)
    assert found["df"].item() == pytest.approx(df, rel=1e-8)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"lam": 0.0}, "lam is a positive finite number, got 0"),
        (
            {"lam": 1e-20},
            "K + lam I is not positive definite to rounding at lam = 1e-20: the least lam that is, is ",
        ),
        ({"kernel": "sigmoid"}, "no covariance function"),
        ({"data": [1.0]}, "y has one value per row of X"),
        ({"alpha": 1.0}, "kernel_ridge takes no alpha="),
        ({"lenght": 1.0}, "kernel_ridge takes no lenght="),
    ],
)
def test_a_kernel_ridge_that_cannot_be(change: dict[str, Any], said: str) -> None:
    given = {
        "x": np.linspace(0, 1, 30),
        "data": np.arange(30.0),
        "kernel": kernels.RBF(1.0),
        "lam": 0.1,
        **change,
    }
    with pytest.raises(pr.ProbregError) as met:
        pr.kernel_ridge(**given)
    assert said in str(met.value)


def test_the_least_lam_that_is_said_is_enough() -> None:
    given = {
        "x": np.linspace(0, 1, 30),
        "data": np.arange(30.0),
        "kernel": kernels.RBF(1.0),
    }
    with pytest.raises(pr.DataError) as met:
        pr.kernel_ridge(**given, lam=1e-20)
    least = float(str(met.value).split()[-1])
    # said to three digits
    assert np.isfinite(pr.kernel_ridge(**given, lam=1.01 * least).coef).all()
