"""Errors and notes of smooth functions and processes say what to do, and name a term as one thing."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import probreg as pr

X = np.linspace(0.0, 5.0, 30)
ROWS = {"x": X, "z": np.cos(3.0 * X), "y": np.sin(X) + 0.1 * np.cos(40.0 * X)}
PROPER = {"s(x)": pr.Normal(pr.HalfNormal(2.0))}


def model_of(right: str, **options: Any) -> pr.Model:
    return pr.Model.from_formula(f"y ~ {right}", ROWS, **options)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: model_of("gp(x) + z", prior={"gp(z)": pr.Normal(1.0)}).joint, r"not a column: Intercept, gp\(x\) \(\d+ columns\), z$"),
        (lambda: model_of("s(x)", prior={1: pr.Normal(1.0)}).joint, r"got 1: Intercept, s\(x\) \(9 columns\)$"),
        (lambda: model_of("te(x, z)"), r"write t2\(x, z\)$"),
        (lambda: model_of("s(x, m=2)"), r"^'s\(x, m=2\)': s takes columns, then k=, bs=, by=, got m=$"),
        (lambda: pr.gam("y ~ s(x)", ROWS, df=1), r"^df of s\(x\) is above 1 \(its flat columns\) and below 9 \(all of its columns\), got 1$"),
        (lambda: pr.hypothesis(pr.fit(model_of("s(x)", prior=PROPER), "posterior", seed=1), "s(x) is linear"), "fit by evidence$"),
        (lambda: pr.fit(model_of("s(x)", prior=PROPER), pr.Integrate(nodes=3), seed=1), r"8 nodes are too few .* use more"),
        (lambda: pr.kernel_ridge(X, X, kernel=lambda x, z: x @ z.T, lam=1.0), r"f\(x, z\) it is pr\.kernels\.CustomFunction\(f\)$"),
        (lambda: pr.kernel_ridge(np.arange(5001.0), np.arange(5001.0), kernel="rbf", lam=1.0), "write 'cholesky' in its place$"),
    ],
)  # fmt: skip
def test_an_error_says_what_to_do(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(pr.errors.ProbregError, match=said):
        ask()


def test_kernel_ridge_takes_the_basis_that_its_error_names() -> None:
    kernel = pr.kernels.RBF(1.0)
    exact, near = (
        pr.kernel_ridge(X, ROWS["y"], kernel=kernel, lam=0.1, basis=b)
        for b in ("exact", "cholesky")
    )
    np.testing.assert_allclose(
        near.predict(X)["mean"], exact.predict(X)["mean"], atol=1e-4
    )
    assert len(near.coef) < len(exact.coef)


def test_the_notes_of_a_process_at_the_maximum() -> None:
    """By the names of its hyperparameters; a length that was found is no length that nobody stated."""
    with pytest.raises(
        pr.Incompatible,
        match="increases as sigma goes to 0, because the columns can reproduce the response",
    ):
        pr.gp(X, ROWS["y"])  # two waves without noise
    fit = pr.gp(X, ROWS["y"] + np.random.default_rng(0).normal(0.0, 0.1, len(X)))
    notes = [
        note for note in map(str, fit.notes) if note.startswith("gp(x1): amplitude ")
    ]
    assert len(notes) == 1
    assert notes[0].endswith(" at the maximum")
    assert ", length " in notes[0]
    assert not any(
        "prior scale" in note or "no length is stated" in note
        for note in map(str, fit.notes)
    )
    assert "no length is stated" not in repr(fit)
    assert any("no length is stated" in note for note in model_of("gp(x)").design.notes)


def test_a_name_of_several_words_is_written_in_backquotes():
    x = np.linspace(0.0, 3.0, 40)
    rows = {
        "target": x**2 + 0.01 * np.cos(np.arange(40.0)),
        "mean radius": x,
        "mean": x,
    }
    with pytest.raises(pr.errors.DataError, match="write `mean radius` in backquotes"):
        pr.Model.from_formula("target ~ mean radius", rows)
    with pytest.raises(pr.errors.DataError) as other:
        pr.Model.from_formula("target ~ mean mean", rows)
    assert "backquotes" not in str(other.value)
    pr.Model.from_formula("target ~ `mean radius` + I(`mean radius`**2)", rows)


def test_two_lassos_without_leave_one_out_print_no_empty_table():
    x = np.random.default_rng(1).normal(size=(30, 3))
    model = pr.Model.from_arrays(x, x[:, 0] + np.cos(np.arange(30.0)))
    fits = {str(s): pr.fit(model.with_prior(pr.Laplace(s))) for s in (0.1, 1.0)}
    found = pr.compare_models(fits)
    assert "Empty" not in str(found)
    assert "heldout=" in str(found)
    with pytest.raises(
        pr.errors.Incompatible, match=r"heldout=\) or pr.tune\(model, by='cv'\)"
    ):
        fits["1.0"].aic  # noqa: B018
    with pytest.raises(pr.errors.Incompatible, match=r"pr.compare_models has elpd"):
        pr.fit(model.with_prior(pr.Normal(1.0))).aic  # noqa: B018
