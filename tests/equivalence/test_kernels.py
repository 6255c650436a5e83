"""Kernel ridge is a model of columns with a normal prior: the numbers of `ridge_path` are those of fits, and of another solver."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import probreg as pr
from probreg import kernels

RNG = np.random.default_rng(1)
X = RNG.normal(size=(25, 2))
Y = np.sin(X[:, 0]) + RNG.normal(size=25) + 3.0
NEW = RNG.normal(size=(4, 2))
K = kernels.RBF(1.0)
FOUND = kernels.basis(K, X)
PHI = FOUND.columns_at(X)
SIGMA, TAU = 0.6, 1.7
LAM = SIGMA**2 / TAU**2


def model(offset, scale=TAU):
    return pr.Model.from_arrays(
        PHI, Y, intercept=offset, prior=pr.Normal(scale), aux={"sigma": SIGMA}
    )


@pytest.mark.parametrize("offset", [True, False])
def test_a_fit_of_the_columns_is_the_path_of_the_matrix(offset):
    fit = pr.fit(model(offset), "conjugate")
    for path in (
        kernels.ridge_path(K(X), Y, offset=offset),
        kernels.ridge_path_of_columns(PHI, Y, offset=offset),
    ):
        w = path.alpha(LAM) @ PHI
        assert_allclose(fit.coef.values[int(offset) :], w[0], rtol=1e-8, atol=1e-10)
        assert_allclose(
            fit.predict(FOUND.columns_at(NEW))["mean"],
            path.predict(K(NEW, X), LAM)[0],
            rtol=1e-9,
        )
        if offset:
            assert fit.coef.values[0] == pytest.approx(
                path.intercept(LAM)[0], rel=1e-10
            )
        else:
            assert fit.solution.stats["log_evidence"] == pytest.approx(
                path.log_evidence(LAM, SIGMA**2)[0], rel=1e-10
            )


@pytest.mark.parametrize("offset", [True, False])
def test_the_degrees_of_freedom_are_those_of_a_path_of_fits(offset):
    scales = np.array([0.2, 1.7, 9.0])
    found = pr.path(model(offset, 1.0), scales).data
    path = kernels.ridge_path(K(X), Y, offset=offset)
    assert_allclose(
        found["df"], path.df(SIGMA**2 / found["scale"].values ** 2), rtol=1e-8
    )


@pytest.mark.parametrize("offset", [True, False])
def test_the_variance_of_a_prediction_is_that_of_the_fit_and_what_the_columns_lack(
    offset,
):
    """The columns' own variance, by the posterior of the coefficients, falls short of the process' off the rows."""
    path = kernels.ridge_path(K(X), Y, offset=offset)
    whole = TAU**2 * path.variance(K(NEW, X), K.diagonal(NEW), LAM)[0]
    design = np.column_stack([np.ones(25), PHI]) if offset else PHI
    prior = np.diag([0.0] * offset + [TAU**-2.0] * FOUND.size)
    new = (
        np.column_stack([np.ones(4), FOUND.columns_at(NEW)])
        if offset
        else FOUND.columns_at(NEW)
    )
    V = np.linalg.inv(design.T @ design / SIGMA**2 + prior)
    columns = np.einsum("ij,jk,ik->i", new, V, new)
    assert_allclose(columns + TAU**2 * FOUND.residual_variance(NEW), whole, rtol=1e-8)
    assert (columns < whole).all()


@pytest.mark.parametrize("offset", [True, False])
def test_one_penalty_by_the_bordered_equations(offset):
    """[[K + lam I, 1], [1', 0]] (alpha, b) = (y, 0)."""
    path = kernels.ridge_path(K(X), Y, offset=offset)
    for lam in (1e-4, 0.3, 40.0):
        A = K(X) + lam * np.eye(25)
        if offset:
            A = np.block([[A, np.ones((25, 1))], [np.ones((1, 25)), np.zeros((1, 1))]])
        solved = np.linalg.solve(A, np.append(Y, 0.0) if offset else Y)
        assert_allclose(path.alpha(lam)[0], solved[:25], rtol=1e-8, atol=1e-9)
        assert_allclose(
            path.residuals(lam)[0],
            Y - K(X) @ solved[:25] - (solved[25] if offset else 0.0),
            rtol=1e-8,
            atol=1e-9,
        )
        assert path.norm2(lam)[0] == pytest.approx(
            solved[:25] @ K(X) @ solved[:25], rel=1e-8
        )


def test_scikit_learn_has_the_same_functions_and_answers():
    theirs = pytest.importorskip("sklearn.gaussian_process.kernels")
    ridge = pytest.importorskip("sklearn.kernel_ridge")
    pairs = [
        (kernels.RBF((0.8, 2.0)), theirs.RBF([0.8, 2.0])),
        *((kernels.Matern(0.8, nu), theirs.Matern(0.8, nu=nu)) for nu in (0.5, 1.5, 2.5)),
        (kernels.RationalQuadratic(0.8, 1.7), theirs.RationalQuadratic(0.8, 1.7)),
        (kernels.Polynomial(2, 4.0), theirs.DotProduct(2.0) ** 2),
        (3.0 * kernels.RBF(1.1) + kernels.Constant(0.5), theirs.ConstantKernel(3.0) * theirs.RBF(1.1) + theirs.ConstantKernel(0.5)),
    ]  # fmt: skip
    for mine, other in pairs:
        assert_allclose(mine(X, NEW), other(X, NEW), rtol=1e-12, err_msg=str(mine))
    assert_allclose(
        kernels.Periodic(1.3, 0.9)(X[:, 0]),
        theirs.ExpSineSquared(0.9, 1.3)(X[:, [0]]),
        rtol=1e-10,
    )
    gamma = 1.0 / (2.0 * 1.4**2)
    known = ridge.KernelRidge(alpha=0.3, kernel="rbf", gamma=gamma).fit(X, Y)
    path = kernels.ridge_path(kernels.RBF(1.4)(X), Y, offset=False)
    assert_allclose(path.alpha(0.3)[0], known.dual_coef_, rtol=1e-9)
    assert_allclose(
        path.predict(kernels.RBF(1.4)(NEW, X), 0.3)[0], known.predict(NEW), rtol=1e-10
    )
