"""A Gaussian process as a term of a formula: equal to the process itself, and to the same columns given as arrays."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.data.kernel_columns import design_of_kernel
from probreg.likelihoods import Gaussian
from probreg.model.model import Model

X = np.array([0.0, 1.0, 2.0, 4.0])
Y = np.array([0.0, 1.0, 0.0, 2.0])
NEW = np.array([1.5, 3.0, 10.0])
TABLE = {"x": X, "y": Y}
# alpha = (K + lam I)^-1 y and f(s) = k(s, x) alpha for k = exp(-(x - z)^2 / 2), lam = 0.1, from these formulas.
ALPHA = np.array([-1.049735515478, 2.198114845794, -1.323913544159, 1.959186828456])
MEAN = np.array([0.516761377392, 0.671133711257, 2.98e-8])


def toy(formula="y ~ 0 + gp(x, length=1.0)", lam=0.1, table=TABLE):
    return pr.Model.from_formula(formula, table, prior={"gp(x)": pr.Normal(1)}, aux={"sigma": lam**0.5})


def test_a_term_of_known_length_is_the_process():
    fit = pr.fit(toy())
    np.testing.assert_allclose(fit.predict({"x": NEW})["mean"], MEAN, rtol=1e-9, atol=1e-9)
    # f = phi beta and f = K alpha: alpha = T beta at the anchors
    term = fit.model.design.recipe.processes["gp(x, length=1.0)"]
    order = np.argsort(term.basis.anchors[:, 0])
    np.testing.assert_allclose((term.basis.T @ fit.solution.beta)[order, 0], ALPHA, rtol=1e-9)


def test_the_same_process_of_an_array():
    design = replace(design_of_kernel(X, pr.kernels.RBF(1.0), intercept=False), y=Y)
    fit = pr.fit(Model(design, Gaussian(), prior=pr.Normal(1), aux={"sigma": 0.1**0.5}))
    np.testing.assert_allclose(fit.predict(NEW[:, None])["mean"], MEAN, rtol=1e-9, atol=1e-9)
    assert design.columns == tuple(f"gp(x1)[{j}]" for j in range(1, 5))


@pytest.mark.parametrize("arrays", [False, True])
def test_another_basis_replaces_the_columns_and_nothing_else(arrays):
    design = replace(design_of_kernel(X, pr.kernels.RBF(1.0)), y=Y) if arrays else toy("y ~ gp(x, length=1.0)").design
    (key,) = design.recipe.processes
    other = pr.kernels.basis(pr.kernels.RBF(3.0), X, "cholesky", size=2)
    found = design.with_basis(key, other)
    assert found.columns == ("Intercept", f"{key}[1]", f"{key}[2]")
    np.testing.assert_array_equal(found.X[:, 1:], other.columns_at(X))
    np.testing.assert_array_equal(found.free, [True, False, False])
    new = NEW[:, None] if arrays else {"x": NEW}
    np.testing.assert_array_equal(found.at(new).X[:, 1:], other.columns_at(NEW))
    np.testing.assert_array_equal(found.at(new).inputs[key], NEW[:, None])
    np.testing.assert_array_equal(found.take(np.array([2, 0])).inputs[key], X[[2, 0], None])


def test_inputs_follow_rows_that_are_dropped_or_have_no_weight():
    table = {"x": [0.0, np.nan, 1.0, 2.0, 4.0], "y": [0.0, 3.0, 1.0, 0.0, 2.0], "w": [1, 1, 0, 2, 1]}
    design = pr.Model.from_formula("y ~ gp(x, length=1.0)", table, weights="w", missing="drop").design
    (key,) = design.inputs
    np.testing.assert_array_equal(design.inputs[key][:, 0], [0.0, 2.0, 4.0])
    np.testing.assert_array_equal(design.whole.inputs[key][:, 0], X)
    other = design.with_basis(key, pr.kernels.basis(pr.kernels.RBF(3.0), X))
    np.testing.assert_allclose(other.whole.X[:, 1:], other.recipe.processes[key].columns_at(X[:, None]), atol=1e-12)


def test_a_saved_term_predicts_the_same(tmp_path):
    fit = pr.fit(toy())
    fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    np.testing.assert_array_equal(again.predict({"x": NEW})["mean"], fit.predict({"x": NEW})["mean"])
