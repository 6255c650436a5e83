"""Effects and hypotheses over the registries of likelihoods and methods: the same laws for whatever is registered."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.comparison import compare_models
from probreg.comparison.effects.verbs import comparisons, predictions, slopes
from probreg.comparison.hypotheses.dispatch import hypothesis
from probreg.comparison.hypotheses.restricted import independent, restricted_mode
from probreg.inference.base import split_parameters
from probreg.likelihoods import SmoothLikelihood
from tests.properties.cases import (
    ESTIMATORS,
    LIKELIHOOD_CASES,
    covering,
    likelihood_kind,
    model_for,
)


@pytest.fixture(scope="module", params=covering(LIKELIHOOD_CASES, type))
def fit(request) -> pr.Fit:
    return pr.fit(model_for(request.param, pr.Normal(2.0)))


FIXED = {"average_over": "sample"}


def moved(fit: pr.Fit, step: np.ndarray) -> pr.Fit:
    """The fit with its coefficients and the logs of its nuisance parameters moved by `step`."""
    s, k = fit.solution, fit.solution.beta.size
    beta = s.beta + step[:k].reshape(s.beta.shape)
    aux = {a: s.aux[a] * np.exp(v) for a, v in zip(fit.model.unknown, step[k:])}
    return replace(fit, solution=replace(s, beta=beta, aux={**s.aux, **aux}))


def asked(fit: pr.Fit, **how) -> list:
    return [
        predictions(fit, at={"x1": [0.0, 1.0]}),
        comparisons(fit, {"x2": 0.5, "x1": "sd"}, **how),
        slopes(fit, **how),
    ]


def test_the_delta_method_has_the_numerical_gradient(fit):
    scale = fit.solution.scale
    root = scale.half(np.eye(scale.size))
    S = root @ root.T  # of the coefficients and the logs of nuisance parameters
    link = fit.model.likelihood.link
    h = 1e-4 * scale.errors()
    columns = []
    for j in range(scale.size):
        step = h[j] * np.eye(scale.size)[j]
        up, down = asked(moved(fit, step), **FIXED), asked(moved(fit, -step), **FIXED)
        columns.append(
            [
                (a.table["estimate"] - b.table["estimate"]) / (2 * h[j])
                for a, b in zip(up, down)
            ]
        )
    for k, effects in enumerate(asked(fit, **FIXED)):
        G = np.stack([c[k] for c in columns], 1)
        # The central difference over 1e-4 standard errors is right to about 1e-8 of the effect.
        expected = np.sqrt(np.diagonal(G @ S @ G.T))
        np.testing.assert_allclose(
            effects.table["std_error"], expected, rtol=1e-5, atol=1e-7 * expected.max()
        )
    assert asked(fit)[0].scale == link.name


def test_slopes_are_the_limit_of_comparisons(fit):
    h = 1e-5
    small = comparisons(fit, {"x1": h}).table["estimate"].to_numpy() / h
    at_once = slopes(fit, "x1").table["estimate"].to_numpy()
    np.testing.assert_allclose(
        small, at_once, rtol=1e-3, atol=1e-4 * np.abs(at_once).max()
    )


def test_predictions_stay_in_the_support_and_are_those_of_predict(fit):
    table = predictions(fit, unit="row").table
    mean = fit.predict()["mean"].values
    np.testing.assert_allclose(
        table["estimate"], np.atleast_1d(mean.mean(0)), rtol=1e-10
    )
    inside = fit.model.likelihood.link.forward(table[["lower", "upper"]].to_numpy())
    assert np.isfinite(inside).all()
    assert (table["lower"] < table["estimate"]).all()
    assert (table["estimate"] < table["upper"]).all()


def test_effects_of_the_classes_sum_to_zero(fit):
    if not fit.model.likelihood.outcomes:
        return
    for effects in asked(fit)[1:]:
        keys = [c for c in ("variable", "contrast") if c in effects.table]
        np.testing.assert_allclose(
            effects.table.groupby(keys)["estimate"].sum(), 0.0, atol=1e-10
        )


@pytest.mark.parametrize("method", ESTIMATORS, ids=lambda m: m.name)
def test_every_method_has_effects_and_answers_a_hypothesis(method):
    model = next((m for prior in (None, pr.Normal(1.0), pr.Laplace(1.0)) for m in [model_for(pr.Gaussian(), prior)] if method.obstacle(m) is None), None)  # fmt: skip
    if model is None:
        pytest.skip(f"{method.name} fits none of these Gaussian models")
    found = pr.fit(model, method, seed=1)
    if not np.isfinite(
        found.std_error
    ).all():  # a kink has no curvature: an effect there is, an error there is not
        assert np.isfinite(slopes(found).table["estimate"]).all()
        assert (
            slopes(found).table[["std_error", "lower", "upper"]].isna().all(axis=None)
        )
        with pytest.raises(pr.Incompatible, match="no standard error here"):
            hypothesis(found, "x1 = 0")
        return
    for effects in asked(found):
        assert np.isfinite(effects.table.select_dtypes(float)).all(axis=None)
    shift = (
        np.abs(slopes(found).table["estimate"] - found.coef.values[1:])
        / found.std_error.values[1:]
    )
    assert (
        shift < 0.1
    ).all()  # a sampled posterior's mean is its coefficient, but for rounding
    answer = hypothesis(found, "x1 = 0")
    assert len(answer.table)
    assert answer.null == "x1 = 0"
    if found.target == "mode" and model.flat:
        assert answer["LR"].statistic == pytest.approx(
            hypothesis(pr.fit(model), "x1 = 0")["LR"].statistic, rel=1e-9
        )
    row = compare_models({"this": found}).table.iloc[0]
    assert np.isfinite(row["elpd_loo"]) or "no leave-one-out" in repr(
        compare_models({"this": found})
    )
    if model.flat:  # a plug-in and a posterior predictive density differ by a few hundredths of a row each
        assert row["elpd_loo"] == pytest.approx(
            compare_models({"ML": pr.fit(model)}).table["elpd_loo"].item(), abs=2.0
        )


@pytest.mark.parametrize(
    "likelihood",
    covering(
        [v for v in LIKELIHOOD_CASES if isinstance(v, SmoothLikelihood)],
        likelihood_kind,
    ),
)
def test_three_tests_of_one_null_agree_where_it_is_true(likelihood):
    """With 2,000 rows the three are the same statistic up to terms that vanish with n (Engle 1984)."""
    model = model_for(likelihood, n=2000)
    rng = np.random.default_rng(5)
    design = replace(model.design, X=np.column_stack([model.design.X, rng.normal(size=2000)]), columns=(*model.design.columns, "noise"), recipe=replace(model.design.recipe, given=(*model.design.recipe.given, "noise")))  # fmt: skip
    fit = pr.fit(replace(model, design=design), "newton")
    found = hypothesis(fit, "noise = 0, x1 = x1 + noise")
    wald, lr, score = (found[name].statistic for name in ("Wald", "LR", "score"))
    assert found["LR"].df == (fit.model.shape[1],)
    np.testing.assert_allclose([wald, score], lr, rtol=0.1, atol=0.05)
    L = np.kron(np.eye(len(fit.coef)), np.eye(fit.model.shape[1]))[
        -fit.model.shape[1] :
    ]
    theta, _ = restricted_mode(fit, independent(L, np.zeros(len(L))))
    beta = fit.model.design.frame.to_raw(split_parameters(fit.model, theta)[0])
    np.testing.assert_allclose(beta[-1], 0.0, atol=1e-10)
    smaller = pr.fit(model, "newton")
    np.testing.assert_allclose(beta[:-1], smaller.solution.beta, rtol=1e-5, atol=1e-6)


def test_a_fit_saved_without_its_rows_has_effects_at_other_rows(tmp_path):
    model = model_for(pr.Bernoulli())
    fit = pr.fit(model)
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    rows = {
        name: model.design.X[:20, j]
        for j, name in enumerate(model.design.columns)
        if name != "Intercept"
    }
    for ask in (predictions, comparisons, slopes):
        a, b = ask(again, data=rows).table, ask(fit, data=rows).table
        np.testing.assert_allclose(
            a.select_dtypes(float), b.select_dtypes(float), rtol=1e-10
        )
        with pytest.raises(pr.DataError, match="saved without its rows"):
            ask(again)
    wald = hypothesis(again, "x1 = 0")
    assert set(wald.tests) == {"Wald", "z"}  # no rows, no likelihood to maximise again


@pytest.mark.parametrize("likelihood", ["log_logistic", "absolute", "weibull"])
def test_the_average_is_named_as_the_prediction(likelihood: str) -> None:
    rows = {"x": np.arange(9.0), "y": np.arange(1.0, 10.0) ** 1.5}
    found = pr.fit(pr.Model.from_formula("y ~ x", rows, likelihood=likelihood))
    centre = found.model.likelihood.centre
    assert f"the {centre} of y" in predictions(found).what
    assert f"of the {centre}" in found.predict({"x": [1.0]}).attrs["kind"]
