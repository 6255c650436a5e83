"""Diagnostics against statsmodels, to 1e-8 unless a test says why not: the same formulas by another route."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.diagnostics.after import (
    DIAGNOSTICS,
    influence_measures,
    residuals,
)
from probreg.diagnostics.after.dispersion import count_dispersion, hosmer_lemeshow
from probreg.diagnostics.after.functional_form import reset
from probreg.diagnostics.after.residual_tests import (
    _mean_and_variance,
    breusch_pagan,
    durbin_watson_test,
    ljung_box,
    normality_test,
    white,
)
from probreg.diagnostics.before import condition_indices, vif
from probreg.diagnostics.findings import chi2_test

sm = pytest.importorskip("statsmodels.api")
RTOL = 1e-8


def close(ours, theirs, rtol=RTOL):
    np.testing.assert_allclose(
        np.asarray(ours), np.asarray(theirs), rtol=rtol, atol=rtol
    )


@pytest.fixture(scope="module", params=["stackloss", "longley", "penguins"])
def pair(request):
    """One least squares fit, by us and by statsmodels; Longley's columns are nearly collinear."""
    table = pr.load_dataset(request.param).dropna()
    formula = {
        "stackloss": "stack_loss ~ air_flow + water_temperature + acid_concentration",
        "longley": "employed ~ gnp_deflator + gnp + unemployed + armed_forces + population + year",
        "penguins": "body_mass_g ~ flipper_length_mm + bill_depth_mm + species * sex",
    }[request.param]
    model = pr.Model.from_formula(formula, table)
    ours = pr.fit(model)
    theirs = sm.OLS(model.design.observed, model.design.X).fit()
    return ours, theirs


def test_influence_of_least_squares(pair):
    ours, theirs = pair
    found, known = influence_measures(ours), theirs.get_influence()
    close(found["leverage"], known.hat_matrix_diag)
    close(found["internal"], known.resid_studentized_internal)
    close(found["studentised"], known.resid_studentized_external)
    close(found["cook"], known.cooks_distance[0])
    close(found["dffits"], known.dffits[0])
    # DFBETAS of statsmodels invert X'X, whose condition number is 5e9 squared for Longley: 1e-6 is what they are good for
    close(
        found["dfbetas"],
        known.dfbetas,
        RTOL if np.linalg.cond(theirs.model.exog) < 1e7 else 1e-6,
    )


def test_tests_of_least_squares(pair):
    from statsmodels.stats import diagnostic
    from statsmodels.stats.stattools import durbin_watson as dw, jarque_bera as jb

    ours, theirs = pair
    e, X = theirs.resid, theirs.model.exog
    known = diagnostic.het_breuschpagan(e, X)
    found = breusch_pagan(e, X)
    close([found.statistic, found.p_value], known[:2])
    close(durbin_watson_test(ours).statistic, dw(e))
    found = normality_test(e, 0)
    close([found.statistic, found.p_value], jb(e)[:2])
    for lag in (1, 4):
        known = diagnostic.acorr_ljungbox(e, lags=[lag])
        found = chi2_test(float(ljung_box(e, lag)), lag)
        close(found[1:3], known.iloc[0, :2])


def test_reset_of_least_squares(pair):
    from statsmodels.stats.diagnostic import linear_reset

    ours, theirs = pair
    found = reset(ours)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the powers of unscaled fitted values
        # statsmodels adds raw powers of values in the tens of thousands, and loses the digits that ours keep: so scale it
        scale = np.abs(theirs.fittedvalues).max()
        X = np.linalg.qr(theirs.model.exog)[0]
        known = linear_reset(
            sm.OLS(theirs.model.endog / scale, X).fit(), power=3, use_f=True
        )
    close([found.statistic, found.p_value], [known.fvalue, known.pvalue], 1e-6)


@pytest.mark.parametrize("name", ["stackloss", "gauss"])
def test_white(name, rng):
    from statsmodels.stats.diagnostic import het_white

    X = (
        rng.normal(size=(70, 3))
        if name == "gauss"
        else pr.load_dataset("stackloss").iloc[:, 1:3].to_numpy(float)
    )
    e = rng.normal(size=len(X)) * (1 + np.abs(X[:, 0]))
    known = het_white(e, sm.add_constant(X))
    found = white(e, X)
    close([found.statistic, found.p_value], known[:2])


def test_variance_inflation(pair):
    from statsmodels.stats.outliers_influence import variance_inflation_factor

    ours, theirs = pair
    found = vif(ours.model)
    columns = ours.model.design.columns
    single = [t for t in found["term"].values if t in columns]
    assert single
    for term in single:
        known = variance_inflation_factor(theirs.model.exog, columns.index(term))
        close(found["gvif"].sel(term=term), known, RTOL if known < 1e3 else 1e-6)


def test_generalised_inflation_is_the_determinant_ratio_of_fox_and_monette():
    model = pr.Model.from_formula(
        "body_mass_g ~ flipper_length_mm + species + sex",
        pr.load_dataset("penguins").dropna(),
    )
    R = np.corrcoef(model.design.X[:, 1:].T)
    det = np.linalg.det
    names = [c for c in model.design.columns if c != "Intercept"]
    at = [i for i, c in enumerate(names) if c.startswith("species")]
    rest = [i for i in range(len(names)) if i not in at]
    known = det(R[np.ix_(at, at)]) * det(R[np.ix_(rest, rest)]) / det(R)
    close(vif(model)["gvif"].sel(term="species"), known)
    assert vif(model)["df"].sel(term="species") == 2


def test_condition_indices_of_longley():
    """Scaled condition indices of Longley's data with the intercept, uncentred, as R's collinearity packages print them:
    largest 43275 (Belsley, Kuh & Welsch 1980 treat the same data)."""
    model = pr.Model.from_formula("employed ~ .", pr.load_dataset("longley"))
    found = condition_indices(model)
    X = model.design.X / np.linalg.norm(model.design.X, axis=0)
    d = np.linalg.svd(X, compute_uv=False)
    # eps times the condition number, 43,000, squared in neither route
    close(found["index"], d[0] / d, 1e-6)
    assert float(found["index"][-1]) == pytest.approx(43275, rel=1e-4)
    close(found["proportion"].sum("component"), np.ones(len(model.design.columns)))


FAMILIES = {"poisson": sm.families.Poisson, "bernoulli": sm.families.Binomial}


@pytest.fixture(scope="module", params=FAMILIES)
def glm(request):
    rng = np.random.default_rng(11)
    X = rng.normal(size=(80, 2))
    eta = 0.3 + X @ [0.7, -0.4]
    y = (
        rng.poisson(np.exp(eta))
        if request.param == "poisson"
        else (rng.random(80) < 1 / (1 + np.exp(-eta))).astype(int)
    )
    ours = pr.fit(pr.Model.from_arrays(X, y, likelihood=request.param))
    theirs = sm.GLM(y, sm.add_constant(X), family=FAMILIES[request.param]()).fit(
        tol=1e-13
    )
    return ours, theirs


def test_influence_of_generalised_linear_models(glm):
    ours, theirs = glm
    found, known = influence_measures(ours), theirs.get_influence(observed=False)
    close(found["leverage"], known.hat_matrix_diag)
    close(found["internal"], known.resid_studentized)
    close(found["cook"], known.cooks_distance[0])
    close(found["dfbetas"], known.dfbetas)


def test_residuals_of_generalised_linear_models(glm):
    ours, theirs = glm
    close(residuals(ours), theirs.resid_response)
    close(residuals(ours, "pearson"), theirs.resid_pearson)
    close(residuals(ours, "deviance"), theirs.resid_deviance)
    close(residuals(ours, "working"), theirs.resid_working)
    close(np.sum(residuals(ours, "deviance").values ** 2), theirs.deviance)


def test_one_newton_step_without_a_row_is_near_the_refit(glm):
    ours, _ = glm
    X, y = ours.model.design.X, ours.model.design.observed
    i = int(influence_measures(ours)["cook"].values.argmax())
    rest = np.arange(len(y)) != i
    again = pr.fit(
        pr.Model.from_arrays(
            X[rest][:, 1:], y[rest].astype(int), likelihood=ours.model.likelihood.name
        )
    )
    moved = (ours.coef.values - again.coef.values) / ours.std_error.values
    # one step from a row with Cook's distance d leaves an error of order d relative to the move; here d is 0.15 at most
    np.testing.assert_allclose(
        influence_measures(ours)["dfbetas"][i], moved, atol=0.25 * np.abs(moved).max()
    )


def test_score_test_of_dispersion():
    """T of Dean & Lawless without its leverage correction is that of statsmodels (`dean`'s first form)."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=200)
    y = rng.negative_binomial(3, 3 / (3 + np.exp(1 + 0.5 * x)))
    ours = pr.fit(pr.Model.from_arrays(x, y, likelihood="poisson"))
    mu = ours.predictive().mean()
    uncorrected = np.sum((y - mu) ** 2 - y) / np.sqrt(2 * np.sum(mu**2))
    found = count_dispersion(ours)
    h = influence_measures(ours)["leverage"].values
    z, x2 = (test.statistic for test in found.tests)
    close(z, uncorrected + np.sum(y - mu + h * mu) / np.sqrt(2 * np.sum(mu**2)))
    theirs = sm.GLM(y, sm.add_constant(x), family=sm.families.Poisson()).fit()
    close(x2, theirs.pearson_chi2)
    close(found.ratio, theirs.pearson_chi2 / theirs.df_resid)


def test_tests_of_dispersion_that_disagree_are_both_told():
    """Executions by state, 17 rows: chi-square says p = 0.006 of Pearson's statistic, the normal distribution 0.63 of the
    score, and data drawn from the model 0.04 of either."""
    table = sm.datasets.cpunish.load_pandas().data
    table["LN_VC100k96"] = np.log(table["VC100k96"])
    formula = (
        "EXECUTIONS ~ INCOME + PERPOVERTY + PERBLACK + LN_VC100k96 + SOUTH + DEGREE"
    )
    fit = pr.fit(pr.Model.from_formula(formula, table, likelihood="poisson"))
    (_, z, p_z, *_), (_, x2, p_x2, *_) = count_dispersion(fit).tests
    assert 2 * stats.norm.sf(z) == pytest.approx(0.63, abs=0.005)
    assert stats.chi2.sf(x2, 10) == pytest.approx(0.0058, abs=5e-5)
    # 2,000 draws: standard error 0.004, and the data sets of another seed
    assert p_z == pytest.approx(0.04, abs=0.02)
    assert p_x2 == pytest.approx(0.04, abs=0.02)
    (said,) = DIAGNOSTICS["dispersion"]().run(fit)
    assert str(said).count(", simulated") + str(said).count(", asymptotic") == 2
    assert said.sentence.startswith("weak sign of overdispersion, variance ratio 2.48")


def test_hosmer_lemeshow_by_hand():
    """Groups of equal size, expected and observed counts as in Hosmer & Lemeshow's table."""
    rng = np.random.default_rng(7)
    p = np.sort(rng.uniform(0.05, 0.95, 100))
    y = (rng.random(100) < p).astype(int)
    parts = [slice(10 * g, 10 * g + 10) for g in range(10)]
    known = sum(
        (y[s].sum() - p[s].sum()) ** 2 / (10 * p[s].mean() * (1 - p[s].mean()))
        for s in parts
    )
    found = hosmer_lemeshow(np.c_[1 - p, p], np.c_[1 - y, y])
    close(found.statistic, known)
    assert found.df == 8


def test_durbin_watson_has_the_tail_of_a_simulation(rng):
    fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    found = durbin_watson_test(fit)
    Q = np.linalg.qr(fit.model.design.X)[0]
    e = rng.normal(size=(40_000, 21))
    e -= e @ Q @ Q.T
    simulated = np.mean(
        (np.diff(e, axis=1) ** 2).sum(1) / (e**2).sum(1) < found.statistic
    )
    # d is below its centre, so that this is the smaller tail; four standard errors of a share near 0.05 among 40,000
    assert abs(simulated - found.p_value / 2) < 4 * np.sqrt(0.05 * 0.95 / 40_000)


def test_durbin_watson_of_many_rows_is_near_its_exact_tail(rng):
    x = rng.normal(size=150)
    fit = pr.fit(pr.Model.from_arrays(x, x + rng.normal(size=150)))
    exact = durbin_watson_test(fit)
    # the normal approximation with exact mean and variance leaves a skewness of order 1/n
    assert durbin_watson_test(fit, 10).p_value == pytest.approx(exact.p_value, abs=0.01)


def test_moments_of_durbin_watson_are_those_of_its_eigenvalues(rng):
    Q = np.linalg.qr(np.c_[np.ones(30), rng.normal(size=(30, 3))])[0]
    N = np.linalg.qr(Q, mode="complete")[0][:, 4:]
    v = np.linalg.eigvalsh(np.diff(N, axis=0).T @ np.diff(N, axis=0))
    k = len(v)
    # of a ratio of quadratic forms in normals
    variance = 2 * (k * np.sum(v**2) - v.sum() ** 2) / (k**2 * (k + 2))
    close(_mean_and_variance(Q), [v.mean(), variance])


def test_partial_residuals_are_the_definition_of_r():
    """residuals(fit, "partial") of R: working residual plus the centred term."""
    table = pr.load_dataset("penguins").dropna()
    fit = pr.fit(
        pr.Model.from_formula("body_mass_g ~ flipper_length_mm + species", table)
    )
    found = residuals(fit, "partial")
    X, b = fit.model.design.X, fit.coef.values
    species = [
        j for j, c in enumerate(fit.model.design.columns) if c.startswith("species")
    ]
    term = X[:, species] @ b[species]
    e = residuals(fit).values
    close(found.sel(term="species"), e + term - term.mean())
    assert isinstance(found.to_series().index, pd.MultiIndex)
