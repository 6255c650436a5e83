"""Predictions, slopes and scores of fits whose columns of groups are not written out, against those of written columns."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data import Frame, implicit_columns
from probreg.fits.leave_out import modes, rows as loo
from probreg.inference.covariance import ArrowCovariance
from probreg.inference.exact import evidence
from probreg.inference.modes import closed_form


def table(n: int = 400, G: int = 25) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    g, h, x = rng.integers(0, G, n), rng.integers(0, 6, n), rng.normal(size=n)
    b = rng.normal(size=(G, 2)) * [0.8, 0.4]
    y = (
        0.3
        + 0.5 * x
        + b[g, 0]
        + b[g, 1] * x
        + 0.5 * rng.normal(size=6)[h]
        + rng.normal(size=n)
    )
    return pd.DataFrame(
        {"y": y, "x": x, "g": [f"g{i}" for i in g], "h": [f"h{i}" for i in h]}
    )


DATA = table()
FORMULA = "y ~ x + (x | g) + (1 | h)"


@pytest.fixture(scope="module")
def written():
    return pr.fit(pr.Model.from_formula(FORMULA, DATA))


@pytest.fixture
def apart(monkeypatch):
    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 0)
    fit = pr.fit(pr.Model.from_formula(FORMULA, DATA))
    assert fit.model.design.is_lazy
    assert isinstance(fit.solution.scale, ArrowCovariance)
    return fit


@pytest.mark.parametrize("groups", ["known", "new", "typical"])
def test_predictions_are_those_of_written_columns(written, apart, groups):
    a, b = (fit.predict(groups=groups) for fit in (written, apart))
    for name in ("mean", "mean_lower", "new_upper"):
        # two searches of the scales
        np.testing.assert_allclose(a[name], b[name], atol=1e-4)


def test_written_columns_of_many_rows_are_fitted_group_by_group(written, monkeypatch):
    """Rows and columns that are many take the same estimates from the moments by group, and no pass in doubled precision."""
    monkeypatch.setattr(evidence, "SIZE_OF_SECOND_PASS", 0)
    monkeypatch.setattr(closed_form, "refine", None)
    model = pr.Model.from_formula(FORMULA, DATA)
    found = pr.fit(model)
    assert not model.design.is_lazy
    assert "moments" not in vars(model.design)  # of all columns, by QR
    np.testing.assert_allclose(found.coef, written.coef, atol=1e-11)
    np.testing.assert_allclose(found.std_error, written.std_error, rtol=1e-10)
    np.testing.assert_allclose(
        found.solution.scale.matrix(), written.solution.scale.matrix(), atol=1e-11
    )
    for name in ("mean", "mean_lower", "new_upper"):
        np.testing.assert_allclose(
            found.predict(groups="new")[name],
            written.predict(groups="new")[name],
            atol=1e-9,
        )
    assert found.model.design.y_scale == pytest.approx(
        written.model.design.moments.y_scale, rel=1e-14
    )
    assert repr(found) == repr(written)


@pytest.mark.parametrize("groups", ["known", "new", "typical"])
def test_slopes_are_those_of_written_columns(written, apart, groups):
    a, b = (pr.slopes(fit, "x", groups=groups).table for fit in (written, apart))
    np.testing.assert_allclose(a["estimate"], b["estimate"], atol=1e-4)
    np.testing.assert_allclose(a["std_error"], b["std_error"], atol=1e-4)


def test_groups_drawn_anew_are_those_of_written_columns(monkeypatch):
    model = pr.Model.from_formula("y ~ x + (x | g)", DATA)
    wanted = pr.fit(model, pr.Bootstrap("evidence", reps=3), seed=1)
    monkeypatch.setattr(implicit_columns, "MIN_IMPLICIT_BYTES", 0)
    model = pr.Model.from_formula("y ~ x + (x | g)", DATA)
    found = pr.fit(model, pr.Bootstrap("evidence", reps=3), seed=1)
    np.testing.assert_allclose(found.std_error, wanted.std_error, atol=1e-3)


@pytest.mark.parametrize("m", [1, 3])
def test_variances_of_predictors_are_those_of_the_written_covariance(m):
    rng = np.random.default_rng(0)
    G, K, q = 5, 2, 3
    X = implicit_columns.LazyColumns(
        rng.normal(size=(40, q)),
        (
            implicit_columns.GroupColumns(
                rng.integers(0, G, 40), rng.normal(size=(40, K)), G
            ),
        ),
    )
    p = X.shape[1]
    entries = np.arange(p * m).reshape(p, m)[q:].reshape(G, K * m)
    blocks, low = rng.normal(size=(G, K * m, K * m)), rng.normal(size=(p * m, 4))
    scale = ArrowCovariance(Frame.of_raw(p), m, places=entries, blocks=blocks, root=low)
    S = scale.matrix().reshape(p, m, p, m)
    wanted = np.einsum("np,pkql,nq->nkl", np.asarray(X), S, np.asarray(X))
    for columns in (X, np.asarray(X)):
        np.testing.assert_allclose(
            scale.of_rows(columns), wanted, rtol=1e-10, atol=1e-12
        )


@pytest.mark.parametrize("criterion", ["REML", "ML"])
def test_a_row_left_out_at_held_scales_is_a_refit_without_it(criterion):
    fit = pr.fit(
        pr.Model.from_formula("y ~ x + (x | g)", DATA.head(80)),
        pr.Evidence(criterion=criterion),
    )
    found = loo.leave_one_out(fit)
    assert found.method == "closed form at fixed scales"
    some = np.arange(12)
    refits = modes.refit_without_rows(
        fit.model, fit.solution.beta, {}, some, shared=False
    )
    exact = loo._log_prob(fit.model, refits.eta, refits.aux, some)
    np.testing.assert_allclose(found.elpd[:12], exact, rtol=1e-6)
