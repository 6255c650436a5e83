"""The summary of a fit and its statistics: for every likelihood, for modes and posteriors, and against other packages."""

import pickle
from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy import stats

import probreg as pr
from probreg.fits.fitted import has_working_errors
from probreg.fits.summary import ratio_name
from probreg.inference.base import reported_estimate
from probreg.inference.reported import reported_parameters
from probreg.likelihoods import OfTrials, SmoothLikelihood
from probreg.likelihoods.distributional import with_predictors
from tests.properties.cases import (
    LIKELIHOOD_CASES,
    covering,
    likelihood_kind,
    model_for,
    named,
    proper_prior,
    recipe_of,
    rows_for,
)

EVERY = pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, type))
STACK = pr.load_dataset("stackloss")
LINE = "stack_loss ~ air_flow + water_temperature"


@cache
def ml(likelihood, **more):
    return pr.fit(model_for(likelihood, **more))


@EVERY
def test_the_statistics_are_those_of_their_definitions(likelihood):
    fit = ml(likelihood)
    k = (
        fit.coef.size
        if not getattr(likelihood, "symmetric", False)
        else fit.model.shape[0] * fit.model.shape[1]
    )
    k += len(fit.model.unknown)
    # thresholds count as coefficients, and dispersions do not
    ordinal = isinstance(likelihood, pr.Ordinal)
    dispersions = 0 if ordinal else len(fit.model.unknown)
    assert (fit.nobs, fit.n_parameters) == (60, k)
    assert fit.df_resid == 60 - k + dispersions
    assert fit.aic == pytest.approx(2 * k - 2 * fit.log_likelihood, rel=1e-14)
    assert fit.bic == pytest.approx(k * np.log(60) - 2 * fit.log_likelihood, rel=1e-14)
    assert 0.0 <= fit.deviance <= fit.null_deviance
    assert 0.0 <= fit.r_squared < 1.0
    y = fit.model.likelihood.response(fit.model.design.y)
    np.testing.assert_allclose(
        fit.fitted.values + fit.residuals().values, y, atol=1e-12
    )
    # 2 phi (l_saturated - l), row by row
    gain = np.square(
        pr.residuals(fit, "deviance").values
    ).sum() * likelihood.dispersion(fit.aux)
    assert fit.deviance == pytest.approx(gain, rel=1e-9)


@EVERY
def test_p_values_are_both_tails_of_the_statistic(likelihood):
    fit = ml(likelihood)
    working = has_working_errors(fit)
    table = fit.summary(covariance="HC0" if working else None).iloc[: fit.coef.size]
    law = stats.norm if table.attrs["statistic"] == "z" else stats.t(table.attrs["df"])
    np.testing.assert_allclose(
        table["statistic"], table["estimate"] / table["std_error"], rtol=1e-12
    )
    np.testing.assert_allclose(
        table["p_value"], 2 * law.sf(table["statistic"].abs()), rtol=1e-9
    )
    reach = law.isf(0.025) * table["std_error"]
    np.testing.assert_allclose(table["upper"], table["estimate"] + reach, rtol=1e-9)
    own = fit.summary()
    assert ("p_value" in own) == (not working)
    # sigma has no test
    assert working or own["p_value"].iloc[fit.coef.size :].isna().all()
    broom = [
        "term",
        "estimate",
        "std.error",
        "statistic",
        "p.value",
        "conf.low",
        "conf.high",
    ]
    assert (
        fit.tidy().columns.tolist() == ["y.level"] * bool(likelihood.outcomes) + broom
    )


@EVERY
def test_a_summary_prints_head_table_and_foot(likelihood):
    fit = ml(likelihood)
    said = repr(fit)
    assert said == repr(fit.summary())
    assert len(said.splitlines()) <= 40
    assert f"N = 60, residual df = {fit.df_resid}" in said
    assert f"AIC {fit.aic:.5g}" in said
    assert fit.model.likelihood.describe("y") in said
    shown = {k: v for k, (v, _) in fit.once(reported_parameters).scalars.items()}
    for name, value in shown.items():
        assert f"\n{name} {fit.residual_sd if fit.solution.df else value:.5g}" in said
        assert f" {value:.5g}" in said
    assert ("no p-values" in said) == has_working_errors(fit)
    assert "R²" in said
    assert "AIC" in fit.summary()._repr_html_()
    assert "AIC" in fit._repr_html_()


@EVERY
def test_ratios_are_exp_of_what_has_a_logarithm(likelihood):
    fit = ml(likelihood)
    if not likelihood.link.ratio:
        with pytest.raises(pr.Incompatible, match="differences, not ratios"):
            fit.summary(exp=True)
        return
    plain, ratio = (fit.summary(exp=e).iloc[: fit.coef.size] for e in (False, True))
    np.testing.assert_allclose(
        ratio[["estimate", "lower", "upper"]],
        np.exp(plain[["estimate", "lower", "upper"]]),
    )
    np.testing.assert_allclose(
        ratio["std_error"], ratio["estimate"] * plain["std_error"]
    )
    assert ratio["p_value"].equals(plain["p_value"])
    assert ratio_name(likelihood) in repr(fit.summary(exp=True))


@pytest.mark.parametrize(
    "likelihood",
    covering(
        [c for c in LIKELIHOOD_CASES if not (c.at_zero or c.at_infinity)],
        likelihood_kind,
    ),
    ids=None,
)
def test_a_penalised_mode_and_a_posterior_have_no_p_and_no_aic(likelihood):
    model = model_for(likelihood, pr.Normal(1.0))
    mode = pr.fit(model)
    said = repr(mode.summary())
    assert "p_value" not in mode.summary()
    assert "no p-values: a prior" in said
    assert "AIC" not in said
    assert mode.tidy()["p.value"].isna().all()
    for name in ("aic", "bic", "n_parameters", "df_resid"):
        with pytest.raises(pr.Incompatible, match="under a prior"):
            getattr(mode, name)
    if isinstance(likelihood, SmoothLikelihood):
        proper = model.with_prior(proper_prior(likelihood, pr.Normal(1.0)))
        draws = pr.fit(proper, pr.LaplaceApproximation(draws=200))
        with pytest.raises(pr.Incompatible, match="this is a posterior"):
            _ = draws.aic
        own = reported_estimate(draws.model, draws.solution)
        want = stats.norm.cdf((own.beta / own.error).T.ravel())
        np.testing.assert_allclose(
            draws.summary()["p_positive"].iloc[: want.size], want, rtol=1e-9
        )
        assert "P(> 0)" in repr(draws)
        assert draws.glance().columns[:2].tolist() == ["algorithm", "pss"]


def test_the_probability_of_a_sign_is_exact_where_the_marginal_is_known():
    model = pr.Model.from_formula(LINE, STACK)
    exact = pr.fit(model, "conjugate").summary()["p_positive"]
    tested = pr.fit(model).summary()
    # flat priors: P(> 0 | y) is one less the one-sided p-value
    one_sided = stats.t(18).sf(tested["statistic"].iloc[:3])
    np.testing.assert_allclose(exact.iloc[:3], 1 - one_sided, rtol=1e-8)
    assert np.isnan(exact["sigma"])
    mixed = pr.fit(model.with_prior(pr.Normal(0.3)), "quadrature")
    share = (mixed.solution.posterior["beta"][..., 0] > 0).mean((0, 1))
    np.testing.assert_allclose(mixed.summary()["p_positive"].iloc[:3], share, atol=0.03)
    assert not np.allclose(mixed.summary()["p_positive"].iloc[:3], share, atol=1e-12)


def test_ratios_of_a_posterior_have_the_median():
    fit = pr.fit(
        model_for(pr.Bernoulli(), pr.Normal(1.0)), pr.LaplaceApproximation(draws=200)
    )
    table = fit.summary(exp=True)
    np.testing.assert_allclose(table["median"], np.exp(fit.coef))
    assert "mean" not in table
    assert "sd" not in table
    with pytest.raises(pr.Incompatible, match="highest-density"):
        fit.summary(kind="hdi", exp=True)


def test_least_squares_has_the_numbers_of_statsmodels():
    fit, frame = pr.fit(pr.Model.from_formula(LINE, STACK)), pd.DataFrame(STACK)
    theirs = sm.OLS(
        frame["stack_loss"], sm.add_constant(frame[["air_flow", "water_temperature"]])
    ).fit()
    row, table = fit.glance().iloc[0], fit.tidy()
    np.testing.assert_allclose(table["statistic"], theirs.tvalues, rtol=1e-9)
    np.testing.assert_allclose(table["p.value"], theirs.pvalues, rtol=1e-9)
    ours = row[
        [
            "r.squared",
            "adj.r.squared",
            "sigma",
            "statistic",
            "p.value",
            "deviance",
            "df.residual",
            "nobs",
        ]
    ]
    want = [
        theirs.rsquared,
        theirs.rsquared_adj,
        theirs.mse_resid**0.5,
        theirs.fvalue,
        theirs.f_pvalue,
        theirs.ssr,
    ]
    np.testing.assert_allclose(ours.to_numpy(float), [*want, 18, 21], rtol=1e-9)
    # it counts sigma as R does, which statsmodels does not
    assert row["AIC"] == pytest.approx(theirs.aic + 2)
    assert row["BIC"] == pytest.approx(theirs.bic + np.log(21))
    assert fit.r_squared == pytest.approx(
        np.corrcoef(fit.fitted, STACK["stack_loss"])[0, 1] ** 2
    )
    robust = fit.summary(covariance="HC3")
    np.testing.assert_allclose(
        robust["p_value"].iloc[:3],
        theirs.get_robustcov_results("HC3", use_t=True).pvalues,
    )


def test_r_squared_without_an_intercept_is_about_zero():
    X, y = rows_for(pr.Gaussian())
    fit, theirs = (
        pr.fit(pr.Model.from_arrays(X, y, intercept=False)),
        sm.OLS(y, X).fit(),
    )
    assert fit.r_squared == pytest.approx(theirs.rsquared)
    assert fit.adjusted_r_squared == pytest.approx(theirs.rsquared_adj)
    assert fit.overall.statistic == pytest.approx(theirs.fvalue)
    assert "R² about zero" in repr(fit)


@pytest.mark.parametrize("weighted", [False, True])
def test_classes_and_counts_have_the_numbers_of_statsmodels(weighted):
    rng = np.random.default_rng(5)
    for likelihood, family in (
        (pr.Bernoulli(), sm.families.Binomial()),
        (pr.Poisson(), sm.families.Poisson()),
    ):
        X, y = rows_for(likelihood, 80)
        w = rng.integers(1, 4, 80) if weighted else np.ones(80, int)
        offset = rng.normal(size=80)
        model = pr.Model.from_arrays(
            X, y, likelihood=likelihood, weights=w if weighted else None, offset=offset
        )
        fit, i = pr.fit(model), np.repeat(np.arange(80), w)
        theirs = sm.GLM(
            y[i], sm.add_constant(X[i]), family=family, offset=offset[i]
        ).fit()
        row = fit.glance().iloc[0]
        want = [
            theirs.null_deviance,
            w.sum() - 1,
            theirs.llf,
            theirs.aic,
            theirs.bic_llf,
            theirs.deviance,
            theirs.df_resid,
        ]
        ours = row[
            [
                "null.deviance",
                "df.null",
                "logLik",
                "AIC",
                "BIC",
                "deviance",
                "df.residual",
            ]
        ]
        np.testing.assert_allclose(ours.to_numpy(float), want, rtol=1e-7)
        assert fit.r_squared == pytest.approx(1 - theirs.llf / theirs.llnull, rel=1e-7)
        np.testing.assert_allclose(fit.tidy()["p.value"], theirs.pvalues, rtol=1e-4)


def test_other_likelihoods_have_the_pseudo_r_squared_of_statsmodels():
    X, y = rows_for(pr.Categorical())
    theirs = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0)
    ours = ml(pr.Categorical())
    assert [ours.r_squared, ours.aic, ours.bic] == pytest.approx(
        [theirs.prsquared, theirs.aic, theirs.bic], rel=1e-6
    )
    X, y = rows_for(pr.NegativeBinomial(), 200)
    theirs, ours = (
        sm.NegativeBinomial(y, sm.add_constant(X)).fit(disp=0),
        ml(pr.NegativeBinomial(), n=200),
    )
    assert [ours.r_squared, ours.aic, ours.bic] == pytest.approx(
        [theirs.prsquared, theirs.aic, theirs.bic], rel=1e-5
    )
    X, y = rows_for(pr.likelihoods.Quantile(0.6))
    theirs = sm.QuantReg(y, sm.add_constant(X)).fit(0.6)
    assert ml(pr.likelihoods.Quantile(0.6)).r_squared == pytest.approx(
        theirs.prsquared, abs=1e-4
    )


@pytest.mark.parametrize("likelihood", covering(LIKELIHOOD_CASES, likelihood_kind))
def test_frequencies_are_rows(likelihood):
    X, y = rows_for(likelihood)
    w = np.random.default_rng(1).integers(1, 4, len(X))
    i, how = np.repeat(np.arange(len(X)), w), recipe_of(likelihood)
    once = pr.fit(pr.Model.from_arrays(X, y, weights=w, **how))
    each = pr.fit(pr.Model.from_arrays(X[i], y[i], **how))
    pd.testing.assert_frame_equal(once.glance(), each.glance(), rtol=1e-5)


def test_precisions_divide_the_variance():
    X, y = rows_for(pr.Gaussian())
    w = np.random.default_rng(2).uniform(0.5, 3.0, len(y))
    fit, theirs = (
        pr.fit(pr.Model.from_arrays(X, y, weights=pr.weights.precision(w))),
        sm.WLS(y, sm.add_constant(X), w).fit(),
    )
    ours = [
        fit.deviance,
        fit.r_squared,
        fit.log_likelihood,
        fit.aic - 2,
        fit.overall.statistic,
    ]
    assert ours == pytest.approx(
        [theirs.ssr, theirs.rsquared, theirs.llf, theirs.aic, theirs.fvalue]
    )


def test_sampling_weights_have_standard_errors_and_no_likelihood():
    X, y = rows_for(pr.Bernoulli())
    fit = pr.fit(
        pr.Model.from_arrays(
            X,
            y,
            likelihood="bernoulli",
            weights=pr.weights.sampling(np.linspace(1, 2, len(y))),
        )
    )
    for name in ("aic", "bic", "deviance", "r_squared"):
        with pytest.raises(pr.Incompatible, match="pseudo-likelihood"):
            getattr(fit, name)
    assert fit.summary()["p_value"].notna().all()
    assert "no R², AIC or BIC" in repr(fit)


def test_both_estimates_of_sigma_are_said_once():
    x = np.arange(8.0)
    model = pr.Model.from_arrays(x, x + np.cos(5.0 * x), columns=["x"])
    fit = pr.fit(model)
    ml = f"{fit.aux['sigma']:.5g}"
    for said in (repr(fit.summary()), fit.summary()._repr_html_()):
        assert said.count(ml) == said.count("RSS") == 1
    # which other prints have
    assert any("sqrt(RSS/n)" in note for note in fit.essential_notes)
    wald = repr(fit.summary(kind="wald"))
    # whose foot does not say it
    assert "the unbiased sqrt(RSS/(n - 2))" in " ".join(wald.split())


def test_a_print_says_where_its_log_likelihood_is_and_has_no_nan():
    x = np.arange(8.0)
    m = pr.Model.from_arrays(np.column_stack([x, 2.0 * x]), np.sin(x))
    with pytest.warns(pr.ProbregWarning):
        ml = pr.fit(m)
    assert "nan" not in repr(ml.summary())
    assert "x2         does not exist\n" in repr(ml.summary())
    weak = m.with_prior(pr.Normal(1.0))
    assert (
        f"log-likelihood {(mode := pr.fit(weak)).log_likelihood:.5g} at the mode\n"
        in repr(mode.summary())
    )
    assert " at the posterior mean" in repr(pr.fit(weak, "quadrature").summary())


@pytest.mark.filterwarnings("ignore")
def test_what_does_not_exist_has_no_p():
    apart = pr.fit(
        pr.Model.from_arrays([0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], likelihood="bernoulli")
    )
    assert apart.summary()[["estimate", "p_value"]].isna().all(axis=None)
    assert "AIC" not in repr(apart)
    exact = pr.fit(pr.Model.from_arrays([0.0, 1.0], [0.0, 2.0]))
    with pytest.raises(pr.Incompatible, match="meets every response exactly"):
        _ = exact.aic
    repr(exact)
    seen = pr.fit(
        pr.Model.from_arrays(
            [0.0, 1.0, 2.0, 3.0], [0, 0, 1, 1], likelihood="bernoulli"
        ),
        "perceptron",
    )
    assert "perceptron" in repr(seen)
    assert "p_value" not in seen.summary()


@pytest.mark.parametrize("likelihood", [pr.Gaussian(), pr.Poisson()], ids=named)
def test_a_saved_fit_says_what_it_still_knows(likelihood, tmp_path):
    fit = ml(likelihood)
    bare = pr.load_fit(fit.save(tmp_path / "bare.nc"))
    whole = pr.load_fit(fit.save(tmp_path / "whole.nc", rows=True))
    pd.testing.assert_frame_equal(whole.glance(), fit.glance())
    assert repr(whole.summary()) == repr(whole)
    known = bare.glance().dropna(axis=1)
    np.testing.assert_allclose(known, fit.glance()[known.columns])
    assert {"AIC", "nobs"} <= set(known)
    assert {"r.squared", "deviance"} <= set(known)
    assert f"AIC {fit.aic:.5g}" in repr(bare)


def test_a_summary_is_a_frame_and_its_parts_are_plain():
    fit = pr.fit(pr.Model.from_formula(LINE, STACK))
    table = fit.summary()
    assert isinstance(table, pd.DataFrame)
    assert type(table[["estimate"]]) is type(table.round(2)) is pd.DataFrame
    assert type(table.copy()) is pd.DataFrame
    assert "AIC" not in repr(table.head(2))
    pd.testing.assert_frame_equal(
        pd.DataFrame(pickle.loads(pickle.dumps(table))), pd.DataFrame(table)
    )


def test_a_long_table_folds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 80))
    fit = pr.fit(pr.Model.from_arrays(X, X[:, 0] + rng.normal(size=200)))
    said = repr(fit.summary())
    assert len(said.splitlines()) == 40
    shown = sum(line.startswith(("x", "Intercept")) for line in said.splitlines())
    assert f"… {81 - shown} more in summary().to_string()" in said
    assert "adjusted" in said


def test_trials_are_one_observation_each():
    fit = ml(pr.Binomial(trials=6))
    assert isinstance(fit.model.likelihood, OfTrials)
    assert fit.nobs == 60


def test_predictions_come_as_pandas_too():
    fit = ml(pr.Poisson())
    table, said = fit.predict(output="pandas"), fit.predict()
    assert table.columns.tolist() == [
        "mean",
        "mean_std_error",
        "mean_lower",
        "mean_upper",
        "new_lower",
        "new_upper",
    ]
    assert (table.index.name, table.attrs) == ("obs", said.attrs)
    np.testing.assert_array_equal(table["new_upper"], said["new_upper"])
    classes = ml(pr.Categorical()).predict(output="pandas")
    assert classes.index.names == ["obs", "level"]
    assert classes.shape == (180, 5)
    with pytest.raises(pr.DataError, match="'xarray' or 'pandas'"):
        fit.predict(output="polars")


@pytest.mark.parametrize(
    "method", ["newton", pr.LaplaceApproximation(draws=100)], ids=["mode", "posterior"]
)
def test_an_event_has_a_probability_and_no_interval_from_0_to_1(method):
    model = model_for(pr.Bernoulli(), pr.Normal(1.0))
    said = pr.fit(model, method).predict()
    assert list(said) == [
        "mean",
        "mean_std_error" if method == "newton" else "mean_sd",
        "mean_lower",
        "mean_upper",
    ]
    assert "a new observation is one of two classes" in said.attrs["kind"]
    X, y = rows_for(pr.Bernoulli())
    trials = pr.Model.from_arrays(
        X, y, likelihood="binomial", trials=np.ones(60), prior=pr.Normal(1.0)
    )
    assert "new_upper" in pr.fit(trials, method).predict()


@pytest.mark.parametrize("likelihood", [pr.Gaussian(), pr.Poisson()], ids=named)
def test_a_print_reads_no_rows_that_are_elsewhere(likelihood):
    X, y = rows_for(likelihood)
    blocks, read = [(X[:30], y[:30]), (X[30:], y[30:])], []
    there = pr.fit(
        pr.Model.from_blocks(lambda: read.append(1) or blocks, likelihood=likelihood)
    )
    here, passes = ml(likelihood), len(read)
    said = repr(there)
    assert len(read) == passes
    assert ("take another pass over the rows" in said) != likelihood.least_squares
    assert (f"R² {here.r_squared:.4g}, adjusted" in said) == likelihood.least_squares
    assert [there.aic, there.deviance] == pytest.approx(
        [here.aic, here.deviance], rel=1e-6
    )


def test_deviances_in_the_units_of_their_noise():
    """By hand: |r|, the check loss, what lies beyond the tube, |r|^p and r^2, each twice but the last."""
    L = pr.likelihoods
    losses = {
        L.AbsoluteLoss(): lambda r: 2 * np.abs(r),
        L.Quantile(0.7): lambda r: 2 * r * (0.7 - (r < 0)),
        L.EpsilonInsensitive(0.3): lambda r: 2 * np.maximum(np.abs(r) - 0.3, 0.0),
        L.PowerNoise(3.0): lambda r: 2 * np.abs(r) ** 3,
        L.Huber(50.0): np.square,
        pr.StudentT(1e9): np.square,
        pr.Gaussian(): np.square,
    }
    for likelihood, loss in losses.items():
        fit = ml(likelihood)
        assert fit.deviance == pytest.approx(
            loss(fit.residuals().values).sum(), rel=1e-6
        ), likelihood


# ---- a fit that is exact -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [0.0, 1e-12])
def test_a_fit_that_meets_every_response_to_rounding_prints_no_numbers_of_rounding(
    noise,
):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(50, 4))
    y = 7.0 + x @ [0.1, -1 / 3, 2.0, 0.7] + noise * rng.normal(size=50)
    fit = pr.fit(pr.Model.from_arrays(x, y))
    said, exact = repr(fit), noise == 0.0
    assert ("the fit is exact" in said) == exact
    for word in ("std_error", "lower", ", AIC -", "95 % t", "maximum likelihood"):
        assert (word in said) != exact, word
    assert "p_value" in fit.summary()
    if exact:
        assert "sigma " not in said.split("prior:")[1].partition("note:")[0]
        assert fit.summary()["p_value"].isna().all()
        assert np.isnan(fit.glance()[["statistic", "AIC", "logLik"]]).all(axis=None)
        with pytest.raises(pr.Incompatible, match="the fit is exact"):
            pr.hypothesis(fit, "x1 = 0")
        assert "std_error" not in fit._repr_html_()
        assert fit.tidy()[["std.error", "conf.low", "conf.high"]].isna().all(axis=None)
        slopes = pr.slopes(fit)
        assert "none: the fit is exact" in repr(slopes)
        assert slopes.table[["std_error", "lower", "upper"]].isna().all(axis=None)
        assert "(" not in repr(pr.table({"ML": fit})).partition("ML: ")[0]
        assert "e-1" not in repr(pr.compare({"ML": fit}))
        other = pr.ols("y ~ x1", {"x1": x[:, 0], "y": y})
        judged = pr.compare_models({"exact": fit, "x1": other})
        assert np.isnan(
            judged.table.loc["exact", ["elpd_loo", "AIC"]].astype(float)
        ).all()
        assert "exact: the fit meets every response exactly" in repr(judged)
    else:
        # digits of 7 end at 9e-16
        np.testing.assert_allclose(fit.residual_sd, 1e-12, rtol=0.3)
        assert pr.hypothesis(fit, "x1 = 0")["t"].p < 1e-15


@pytest.mark.parametrize("unit", [1e-12, 1e-7, 1e9])
def test_what_a_fit_explains_does_not_depend_on_the_unit_of_the_response(unit):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(40, 2))
    y = x[:, 0] + rng.normal(size=40)
    one, other = (pr.fit(pr.Model.from_arrays(x, k * y)) for k in (1.0, unit))
    np.testing.assert_allclose(other.r_squared, one.r_squared, rtol=1e-12)
    np.testing.assert_allclose(
        other.overall.statistic, one.overall.statistic, rtol=1e-11
    )
    np.testing.assert_allclose(
        [other.residual_sd, other.deviance**0.5],
        np.array([one.residual_sd, one.deviance**0.5]) * unit,
    )


def test_a_log_link_has_rate_ratios_for_counts_and_ratios_of_means_otherwise():
    model = pr.Model.from_arrays([0.0, 1.0, 2.0], [1, 2, 4], likelihood="poisson")
    assert "rate ratios, exp of" in repr(pr.fit(model).summary(exp=True))
    assert "exp(Intercept) is not a ratio" in repr(pr.fit(model).summary(exp=True))
    ordinal = pr.fit(model_for(pr.Ordinal()))
    assert "Intercept" not in repr(ordinal.summary(exp=True))
    assert ratio_name(pr.Gamma()) == "ratio of means"
    assert ratio_name(pr.LogLogistic()) == "ratio of medians"
    assert ratio_name(with_predictors(pr.Gamma(), ["log phi"])) == "ratio"


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_precision_at_infinity_is_printed_as_infinite():
    table = {"k": [2, 3, 4, 5, 6, 7, 8, 8], "n": [10] * 8, "x": np.arange(8.0)}
    model = pr.Model.from_formula("p(k, n) ~ x", table, likelihood="beta_binomial")
    fit = pr.fit(model)
    assert np.isinf(fit.summary().loc["phi", "estimate"])
    assert "phi inf" in str(fit)
    assert np.isinf(pr.compare([fit]).data["estimate"].sel(param="phi")).all()
    assert str(pr.table(fit).to_pandas().loc["phi"].iloc[0]) == "inf"
