"""Results that few models have, each against a second computation."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.fits.leave_out.rows import refit_rows
from probreg.show.report.answer import answer
from tests.errors.test_refused_questions import GP, ROWS, SIGMA, fitted, model


def test_pearson_residuals_of_classes_are_of_each_class():
    fit = fitted("c ~ x", likelihood="categorical")
    eta = np.c_[np.zeros(60), np.c_[np.ones(60), ROWS.x] @ fit.coef.values]
    p = np.exp(eta) / np.exp(eta).sum(1, keepdims=True)
    y = ROWS.c.to_numpy()[:, None] == np.array(list("uvw"))
    expected = (y - p) / np.sqrt(p * (1 - p))
    np.testing.assert_allclose(pr.residuals(fit, "pearson"), expected, rtol=1e-9)


def test_pearson_residuals_of_trials_of_classes_count_the_trials():
    counts = np.random.default_rng(0).multinomial(9, [0.2, 0.3, 0.5], size=30)
    fit = pr.fit(pr.Model.from_arrays(np.zeros((30, 0)), counts, likelihood="multinomial"))  # fmt: skip
    p = counts.sum(0) / counts.sum()
    expected = (counts - 9 * p) / np.sqrt(9 * p * (1 - p))
    np.testing.assert_allclose(pr.residuals(fit, "pearson"), expected, atol=1e-6)


def test_pearson_residuals_of_an_infinite_variance_are_standardised_scores():
    fit = fitted("y ~ x", likelihood=pr.StudentT(nu=1.5))
    r = (ROWS.y - np.c_[np.ones(60), ROWS.x] @ fit.coef.values) / fit.aux["sigma"]
    score = 2.5 * r / (1.5 + r**2)  # times sigma
    information = 2.5 / 4.5  # (nu + 1) / (nu + 3), over sigma^2
    expected = score / np.sqrt(information)
    np.testing.assert_allclose(pr.residuals(fit, "pearson"), expected, rtol=1e-9)


def test_effects_of_a_posterior_by_formula_have_student_t_intervals():
    units = pr.Normal(1.0, sigma_units=True)
    fit = fitted("y ~ x + (1 | g)", "conjugate", prior={"1 | g": units, "x": units})
    row = fit.effects("g").iloc[0]
    df = fit.solution.df
    half = stats.t.ppf(0.975, df) * row["sd"] * np.sqrt((df - 2) / df)
    np.testing.assert_allclose(row["upper"] - row["estimate"], half, rtol=1e-9)


def test_rows_are_forgotten_by_moments():
    fit = fitted("y ~ x")
    part = pr.Model.from_moments(fit.model.at(ROWS[:9]).moments)
    rest = fit.forget(part)
    assert "by their moments" in str(rest.notes[0])
    np.testing.assert_allclose(rest.coef, fitted("y ~ x", data=ROWS[9:]).coef)


def test_prior_draws_of_counts_by_class_have_the_level():
    counts = np.random.default_rng(0).multinomial(9, [0.2, 0.3, 0.5], size=20)
    prior = {"Intercept": pr.Normal(1.0)}
    multinomial = pr.Model.from_arrays(np.zeros((20, 0)), counts, likelihood="multinomial", prior=prior)  # fmt: skip
    fit = pr.fit(multinomial, pr.LaplaceApproximation(draws=20))
    y = fit.inference_data(prior=True, prior_draws=7)["prior_predictive"]["y"]
    assert y.dims == ("chain", "draw", "obs", "level")
    assert (y.sum("level") == 9).all()


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_groups_are_left_out_under_a_horseshoe_and_under_a_known_prior():
    known = {"1 | g": pr.Covariance(1.0)}
    chains = pr.NUTS(draws=50, tune=50, chains=2)
    fits = {
        "horseshoe": fitted("y ~ x + z + (1 | g)", chains, prior={("x", "z"): pr.priors.Horseshoe(), **known}),
        "normal": fitted("y ~ x + z + (1 | g)", chains, prior={("x", "z"): pr.Normal(pr.HalfNormal(1.0)), **known}),
        "estimate": fitted("y ~ x + z + (1 | g)", "newton", prior=known),
        "kinks": fitted("y ~ x + (1 | g)", prior={"x": pr.Laplace(1.0), **known}, aux=SIGMA),
        "levels": fitted("y ~ x + C(g)"),
    }  # fmt: skip
    found = pr.compare_models(fits, leave_out="g")
    elpd = found.table["elpd_loo"]
    np.testing.assert_allclose(elpd[["horseshoe", "normal"]], elpd["estimate"], atol=2)
    notes = " ".join(found.notes)
    assert "levels: without 6 of 6 groups (g) some coefficient has no estimate" in notes
    assert "kinks: this mode has no standard errors" in notes


def test_groups_of_a_column_are_left_out_of_fits_without_effects():
    fits = {"a": fitted("y ~ x", aux=SIGMA), "b": fitted("y ~ x + h", aux=SIGMA)}
    found = pr.compare_models(fits, leave_out="h").table["elpd_loo"]
    total = 0.0
    for level in "ab":
        rest, out = ROWS[ROWS.h != level], ROWS[ROWS.h == level]
        X = np.c_[np.ones(30), out.x]
        fit = pr.fit(model("y ~ x", rest, aux=SIGMA))
        # N(y_g; X_g b_-g, sigma^2 I + X_g V_-g X_g')
        V = X @ fit.covariance().values @ X.T + np.eye(30)
        mean = X @ fit.coef.values
        total += stats.multivariate_normal.logpdf(out.y, mean, V)
    assert found["a"] == pytest.approx(total, rel=1e-9)
    assert np.isnan(found["b"])


def test_a_row_that_a_prior_needs_has_no_refit():
    data = {"x": [0.0, 0.0, 0.0, 0.0, 1.0], "y": [0, 1, 0, 1, 1]}
    prior = pr.Normal(1.0, scaled=True)
    fit = pr.fit(pr.Model.from_formula("y ~ x", data, likelihood="bernoulli", prior=prior))  # fmt: skip
    assert np.isnan(refit_rows(fit).elpd).tolist() == [False] * 4 + [True]


def test_a_radius_of_symmetric_classes_is_a_norm_of_their_scores():
    likelihood = pr.Categorical(symmetric=True)
    fit = pr.lasso("c ~ x + z", ROWS, radius=0.3, likelihood=likelihood)
    assert np.abs(fit.coef.values[1:]).sum() == pytest.approx(0.3, rel=1e-6)


def test_degrees_of_freedom_are_solved_without_a_flat_column():
    assert pr.gam(f"y ~ 0 + {GP}", ROWS, df=3).smooths["edf"].tolist() == pytest.approx([3])  # fmt: skip


def test_a_band_of_least_squares_is_wider_than_the_normal_one():
    fit = fitted("y ~ s(x, k=5)", data=ROWS[:12], prior={"s(x, k=5)": pr.Flat()})
    band = fit.smooth("s(x, k=5)")
    assert fit.solution.df == 7
    half = (band.upper - band.lower) / 2
    np.testing.assert_allclose(half / band.sd, stats.t.ppf(0.975, 7), rtol=1e-9)
    points = [fit.smooth("s(x, k=5)", 0.5).critical, band.critical]
    # Scheffe's bound of 4 dimensions, and one point alone
    bounds = np.sqrt(4 * stats.f.ppf([0.5, 0.95], 4, 7))
    assert (np.ravel(points) < bounds).all()
    assert (np.ravel(points) > stats.t.ppf([0.75, 0.975], 7)).all()


def test_the_scale_of_a_function_in_units_of_sigma_is_in_units_of_the_response():
    prior = {"s(x, k=5)": pr.Normal(0.7, sigma_units=True)}
    fit = fitted("y ~ s(x, k=5)", prior=prior)
    assert fit.smooths["tau"].iloc[0][0] == pytest.approx(0.7 * fit.aux["sigma"])


def test_a_process_of_log_sigma_has_a_band():
    fit = pr.fit(model({"y": "y ~ z", "log sigma": f"~ {GP}"}))
    band = fit.smooth(f"log sigma: {GP}")  # fmt: skip
    assert float(band.sd.min()) > 0


def test_many_functions_are_counted_in_one_line():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 8)), columns=list("abcdefgh"))  # fmt: skip
    formula = "y ~ " + " + ".join(f"s({v}, k=3)" for v in X)
    fit = pr.gam(formula, X.assign(y=X.a + X.b**2), df=1.5)  # fmt: skip
    assert "and 2 more in .smooths" in " ".join(str(fit).split())


def test_a_summary_is_a_plain_table_once_it_has_left_its_fit():
    summary = fitted("y ~ x").summary()
    again = pickle.loads(pickle.dumps(summary))
    assert repr(again) == repr(pd.DataFrame(summary))
    assert again._repr_html_() == pd.DataFrame(summary)._repr_html_()


def test_ratios_of_a_log_link_of_classes_are_risk_ratios():
    fit = fitted("p(s, n) ~ x", likelihood=pr.Binomial(link="log"))
    assert "risk ratio" in str(fit.summary(exp=True))


def test_scales_of_replicates_have_percentiles_alone():
    rng = np.random.default_rng(3)
    data = {"y": np.repeat(rng.normal(size=12), 4) + rng.normal(size=48), "g": np.repeat(list("abcdefghijkl"), 4)}  # fmt: skip
    fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", data), pr.Bootstrap("evidence", reps=20))  # fmt: skip
    assert "its replicates have percentiles alone" in str(fit.summary(kind="bca"))


def test_a_linear_probability_of_a_sample_keeps_the_errors_of_its_weights():
    weights = pr.weights.sampling("w")
    fit = pr.linear_probability("e ~ x", ROWS, weights=weights)
    same = pr.ols("e ~ x", ROWS, weights=weights)
    np.testing.assert_allclose(fit.std_error, same.std_error, rtol=1e-12)


ANSWERS = {
    "rates": (lambda: fitted("k ~ x", likelihood="poisson"), {"x": 8000.0}, "∞ times"),
    "counts": (lambda: pr.fit(pr.Model.from_formula("k ~ x", {"x": [0.0, 0.0, 1.0, 1.0], "k": [1, 3, 500, 700]}, likelihood="poisson")), ["x"], "300 times"),
    "averages of draws": (lambda: fitted("e ~ x", pr.LaplaceApproximation(draws=200), likelihood=pr.Bernoulli(link="probit"), prior=pr.Normal(1.0)), "x",
        "P(above 0) = 0.9"),
    "a process": (lambda: fitted(f"y ~ {GP}"), None, "averaged over 60 rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", ANSWERS)
def test_sentences_on_effects(name):
    make, effects, words = ANSWERS[name]
    (sentence,) = answer(make(), effects, data=None, prob=0.95).effects
    assert words in sentence.sentence


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_separated_probit_has_no_effect_and_says_so():
    data = pd.DataFrame({"x": np.arange(6.0), "y": [0, 0, 0, 1, 1, 1]})
    fit = pr.fit(model("y ~ x", data, likelihood=pr.Bernoulli(link="probit")))
    (effect,) = answer(fit, None, data=None, prob=0.95).effects
    assert "no estimate exists; the likelihood has no maximum" in effect.sentence


def test_effects_of_many_variables_are_the_first_forty(tmp_path):
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 65))).add_prefix("v")
    fit = pr.fit(model("y ~ .", X.assign(y=np.arange(90.0) % 7)))  # fmt: skip
    found = answer(fit, None, data=None, prob=0.95)
    assert len(found.effects) == 40
    assert "first 40 of 65 variables" in found.remarks[0]
