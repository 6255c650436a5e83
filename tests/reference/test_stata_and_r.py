"""Results of Stata, R and SAS as statsmodels ships them inside its package, read in place: robust and clustered errors,
Newey-West, influence, marginal effects, offsets, exposures, categories.

Each number is the other program's own print-out; nothing of statsmodels is computed. Conventions that differ are stated
where they are met; the maximisers of those programs stop earlier than ours, so that 7 or 8 digits are what they print. A statsmodels installed without its test data skips the test.
"""

import csv
import importlib
import json
import pathlib
from functools import cache

import numpy as np
import pytest

import probreg as pr

statsmodels = pytest.importorskip(
    "statsmodels", reason="the printed results stand in statsmodels' package"
)
ROOT = pathlib.Path(statsmodels.__file__).parent
EXACT = 1e-8


def printed(module):
    """A module of printed results, shipped with statsmodels."""
    return pytest.importorskip(
        f"statsmodels.{module}",
        reason="this statsmodels came without its printed results",
    )


def shipped(path):
    if not (ROOT / path).exists():
        pytest.skip(f"this statsmodels came without {path}")
    return ROOT / path


@cache
def table(path):
    """A CSV file as columns of floats, rows with an empty cell left out."""
    with open(shipped(path)) as lines:
        rows = [row for row in csv.DictReader(lines) if "" not in row.values()]
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def as_stata(values):
    """Values as Stata stores them unless told otherwise: in single precision."""
    return np.asarray(values, np.float32).astype(float)


def data(name):
    return importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data


def agrees(fit, result, order, kind=None, rtol=EXACT, factor=1.0, **more):
    """Coefficients and covariance, ours in the order of our columns, theirs put into it by `order`."""
    np.testing.assert_allclose(
        fit.coef.values.ravel(), np.asarray(result.params)[order], rtol=rtol
    )
    V = np.asarray(fit.covariance(kind, **more)) * factor
    scale = np.sqrt(np.outer(np.diagonal(V), np.diagonal(V)))
    np.testing.assert_allclose(
        V / scale,
        np.asarray(result.cov)[np.ix_(order, order)] / scale,
        rtol=0,
        atol=10 * rtol,
    )
    np.testing.assert_allclose(
        np.sqrt(np.diagonal(V)), np.asarray(result.bse)[order], rtol=10 * rtol
    )


# ---- least squares: Stata's regress, newey and ivreg2 -----------------------------------------------------------------


@pytest.fixture(scope="module")
def investment():
    """Growth of investment on growth of output and the lagged real interest rate, 202 quarters."""
    quarters = data("macrodata")
    growth = {
        name: 400 * np.diff(np.log(quarters[name].to_numpy(float)))
        for name in ("realgdp", "realinv")
    }
    rows = {
        "inv": growth["realinv"],
        "gdp": growth["realgdp"],
        "lint": quarters["realint"].to_numpy(float)[:-1],
    }
    return pr.fit(pr.Model.from_formula("inv ~ gdp + lint", rows))


@pytest.mark.parametrize(
    ("name", "kind", "more"),
    [
        ("results_hc0", "HC1", {}),  # regress, vce(robust): n/(n - k)
        ("results_ivhc0_small", "HC1", {}),
        ("results_ivhc0_large", "HC0", {}),
        ("results_newey4", "HAC", {"lags": 4, "small_sample": "stata"}),
        ("results_ivhac4_small", "HAC", {"lags": 4, "small_sample": "stata"}),
        ("results_ivhac4_large", "HAC", {"lags": 4, "small_sample": "none"}),
    ],
)
def test_robust_and_newey_west_errors_of_stata(investment, name, kind, more):
    result = getattr(printed("regression.tests.results.results_macro_ols_robust"), name)
    agrees(investment, result, [2, 0, 1], kind, rtol=1e-10, **more)


def test_t_intervals_and_p_values_of_robust_errors_are_statas(investment):
    result = printed("regression.tests.results.results_macro_ols_robust").results_hc0
    ends = investment.interval(0.95, covariance="HC1")
    lower, upper = (result.params_table[[2, 0, 1], i] for i in (4, 5))
    np.testing.assert_allclose(ends["lower"], lower, rtol=1e-9)
    np.testing.assert_allclose(ends["upper"], upper, rtol=1e-9)
    test = pr.hypothesis(investment, "gdp = 0, lint = 0", covariance="HC1")
    assert test["F"].statistic == pytest.approx(result.F, rel=1e-9)


def test_influence_measures_of_r(investment):
    """R's influence.measures and ls.diag of the same regression."""
    found = pr.influence_measures(investment)
    with open(shipped("stats/tests/results/influence_measures_R.csv")) as lines:
        rows = list(csv.DictReader(lines))
    theirs = {
        name: np.array([float(row[name]) for row in rows]) for name in rows[0] if name
    }
    np.testing.assert_allclose(found["leverage"], theirs["hat"], rtol=1e-11)
    np.testing.assert_allclose(found["cook"], theirs["cook.d"], rtol=1e-9)
    np.testing.assert_allclose(found["dffits"], theirs["dffit"], rtol=1e-9)
    dfbetas = np.stack([theirs[name] for name in ("dfb.1_", "dfb.ggdp", "dfb.lint")], 1)
    np.testing.assert_allclose(
        np.asarray(found["dfbetas"]), dfbetas, rtol=1e-7, atol=1e-12
    )
    diag = json.loads(
        shipped("stats/tests/results/influence_lsdiag_R.json").read_text()
    )
    np.testing.assert_allclose(found["internal"], diag["std.res"], rtol=1e-10)
    np.testing.assert_allclose(found["studentised"], diag["stud.res"], rtol=1e-10)
    np.testing.assert_allclose(
        investment.covariance("classical"),
        np.reshape(diag["cov.scaled"], (3, 3)),
        rtol=1e-10,
    )


@pytest.fixture(scope="module")
def grunfeld():
    """Investment of ten companies over twenty years: the panel without its eleventh company, American Steel."""
    rows = data("grunfeld")
    rows = rows[rows["firm"] != "American Steel"].copy()
    for name in ("invest", "value", "capital"):
        rows[name] = as_stata(rows[name])
    return (
        pr.fit(pr.Model.from_formula("invest ~ value + capital", rows)),
        rows["firm"],
        rows["year"],
    )


@pytest.mark.parametrize(
    ("name", "small"),
    [("results_cluster", "stata"), ("results_cluster_large", "none")],
    ids=["regress", "ivreg2"],
)
def test_clustered_errors_of_stata(grunfeld, name, small):
    fit, firm, _ = grunfeld
    result = getattr(
        printed("regression.tests.results.results_grunfeld_ols_robust_cluster"), name
    )
    agrees(
        fit,
        result,
        [2, 0, 1],
        "cluster",
        rtol=1e-10,
        groups=firm.to_numpy(),
        small_sample=small,
    )


def test_two_way_clusters_without_a_factor_are_ivreg2s(grunfeld):
    fit, firm, year = grunfeld
    result = printed(
        "regression.tests.results.results_grunfeld_ols_robust_cluster"
    ).results_cluster_2groups_large
    groups = np.stack([firm.to_numpy().astype(str), year.to_numpy().astype(str)], 1)
    agrees(
        fit,
        result,
        [2, 0, 1],
        "cluster",
        rtol=1e-10,
        groups=groups,
        small_sample="none",
    )


def test_errors_clustered_by_firm_are_those_of_the_panel_programs(grunfeld):
    """The same matrix, printed by another of Stata's commands (xtscc and its kin)."""
    fit, firm, _ = grunfeld
    result = printed("stats.tests.results.results_panelrobust").results.cov_clu_stata
    V = np.asarray(fit.covariance("cluster", groups=firm.to_numpy()))
    np.testing.assert_allclose(V[np.ix_([1, 2, 0], [1, 2, 0])], result, rtol=1e-9)


# ---- counts: Stata's poisson, with exposures, clusters, robust errors ----------------------------------------------------


def ships(exposure):
    rows = table("discrete/tests/results/ships.csv")
    offset = "log(service)" if exposure else None
    model = pr.Model.from_formula(
        "accident ~ yr_con + op_75_79", rows, likelihood="poisson", offset=offset
    )
    return pr.fit(model), rows


@pytest.mark.parametrize("exposure", [False, True], ids=["plain", "exposure"])
def test_poisson_errors_of_stata(exposure):
    """Stata's robust errors of a maximum likelihood estimator are HC0 times n/(n - 1); its clustered ones G/(G - 1)."""
    fit, rows = ships(exposure)
    module, stem = (
        printed("discrete.tests.results.results_count_robust_cluster"),
        "results_poisson",
    )
    stem += "_exposure" if exposure else ""
    n, order = len(rows["ship"]), [2, 0, 1]
    agrees(
        fit, getattr(module, f"{stem}_hc1"), order, "HC0", rtol=1e-7, factor=n / (n - 1)
    )
    agrees(
        fit,
        getattr(module, f"{stem}_clu"),
        order,
        "cluster",
        rtol=1e-7,
        groups=rows["ship"],
    )
    if exposure:
        agrees(fit, getattr(module, f"{stem}_nonrobust"), order, rtol=1e-7)
    assert fit.log_likelihood == pytest.approx(
        getattr(module, f"{stem}_hc1").ll, abs=1e-8
    )


def test_a_factor_and_an_exposure_as_stata_has_them():
    """Deaths of British doctors: smoking and age, person-years as exposure (poisson deaths smokes i.agecat, exposure)."""
    result = printed(
        "discrete.tests.results.results_poisson_constrained"
    ).results_exposure_noconstraint
    rows = {
        "deaths": [32, 104, 206, 186, 102, 2, 12, 28, 28, 31],
        "pyears": [52407, 43248, 28612, 12663, 5317, 18790, 10673, 5710, 2585, 1462],
        "smokes": [1] * 5 + [0] * 5,
        "agecat": ["1", "2", "3", "4", "5"] * 2,
    }
    model = pr.Model.from_formula(
        "deaths ~ smokes + agecat", rows, likelihood="poisson", offset="log(pyears)"
    )
    fit = pr.fit(model)
    agrees(fit, result, [6, 0, 2, 3, 4, 5], rtol=1e-6)
    assert fit.log_likelihood == pytest.approx(result.ll, abs=1e-7)


@pytest.fixture(scope="module")
def executions():
    """cpunish, with the weights of the printed results."""
    rows = data("cpunish").rename(columns=str.lower)
    rows = rows.apply(as_stata)
    rows["vc"] = as_stata(np.log(rows["vc100k96"]))
    rows["weight"] = [1, 1, 1, 2, 2, 2, 3, 3, 3, 1, 1, 1, 2, 2, 2, 3, 3]
    rows["id"] = np.arange(1, 18) // 2
    return rows


COUNTS = "executions ~ income + perpoverty + perblack + vc + south + degree"


@pytest.mark.parametrize(
    ("name", "weighted", "kind"),
    [
        ("results_poisson_none_nonrobust", False, None),
        ("results_poisson_fweight_nonrobust", True, None),
        ("results_poisson_none_hc1", False, "HC0"),
        ("results_poisson_fweight_hc1", True, "HC0"),
        ("results_poisson_none_clu1", False, "cluster"),
        ("results_poisson_fweight_clu1", True, "cluster"),
    ],
)
def test_frequency_weights_of_stata(executions, name, weighted, kind):
    """glm, family(poisson) [fweight]: errors, robust errors (times N/(N - 1), N the sum of the weights), clusters."""
    result = getattr(printed("genmod.tests.results.results_glm_poisson_weights"), name)
    weights = "weight" if weighted else None
    fit = pr.fit(
        pr.Model.from_formula(COUNTS, executions, likelihood="poisson", weights=weights)
    )
    N = executions["weight"].sum() if weighted else 17
    more = {"groups": executions["id"].to_numpy()} if kind == "cluster" else {}
    agrees(
        fit,
        result,
        [6, 0, 1, 2, 3, 4, 5],
        kind,
        rtol=1e-5,
        factor=N / (N - 1) if kind == "HC0" else 1.0,
        **more,
    )
    assert fit.log_likelihood == pytest.approx(result.ll, abs=1e-7)


@pytest.fixture(scope="module")
def scaled_executions():
    """The same rows, each column over its rounded maximum and one execution less, as the marginal effects were printed."""
    rows = data("cpunish")
    columns = rows[
        ["INCOME", "PERPOVERTY", "PERBLACK", "VC100k96", "SOUTH", "DEGREE"]
    ].to_numpy(float)
    columns[:, 3] = np.log(columns[:, 3])
    columns /= np.round(columns.max(0), 3)
    names = ["income", "perpoverty", "perblack", "vc", "south", "degree"]
    made = dict(zip(names, columns.T)) | {
        "executions": rows["EXECUTIONS"].to_numpy(float) - 1
    }
    return pr.fit(pr.Model.from_formula(COUNTS, made, likelihood="poisson"))


def test_marginal_effects_of_stata(scaled_executions):
    """margins, dydx(*): average slopes; with i.south its discrete change. Stata's columns were scaled in single
    precision before they were used: five digits."""
    module = printed("discrete.tests.results.results_count_margins")
    names = ["income", "perpoverty", "perblack", "vc", "south", "degree"]
    found, result = (
        pr.slopes(scaled_executions, names, average_over="sample"),
        module.results_poisson_margins_cont,
    )
    found = found.table
    np.testing.assert_allclose(found["estimate"], result.margins_table[:, 0], rtol=1e-5)
    np.testing.assert_allclose(
        found["std_error"], result.margins_table[:, 1], rtol=1e-5
    )
    np.testing.assert_allclose(
        found[["lower", "upper"]], result.margins_table[:, 4:6], rtol=1e-5
    )
    step = pr.comparisons(
        scaled_executions, {"south": (0, 1)}, average_over="sample"
    ).table
    result = module.results_poisson_margins_dummy
    south = [i for i, row in enumerate(result.margins_table[:, 0]) if row != 0][4]
    np.testing.assert_allclose(
        step["estimate"], result.margins_table[south, 0], rtol=1e-5
    )
    np.testing.assert_allclose(
        step["std_error"], result.margins_table[south, 1], rtol=1e-5
    )


# ---- binary and categorical responses --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grades():
    """Spector and Mazzeo's students: Stata's logit and margins."""
    module = printed("discrete.tests.results.results_discrete")
    rows = data("spector").rename(columns=str.lower).apply(as_stata)
    return pr.fit(
        pr.Model.from_formula("grade ~ gpa + tuce + psi", rows, likelihood="bernoulli")
    ), module.Spector.logit


def test_logit_of_stata(grades):
    fit, result = grades
    np.testing.assert_allclose(
        fit.coef, np.asarray(result.params)[[3, 0, 1, 2]], rtol=1e-9
    )
    order = np.ix_([3, 0, 1, 2], [3, 0, 1, 2])
    np.testing.assert_allclose(
        fit.covariance(), np.asarray(result.cov_params)[order], rtol=1e-8
    )
    assert fit.log_likelihood == pytest.approx(result.llf, abs=1e-11)
    np.testing.assert_allclose(
        pr.residuals(fit, "pearson"), result.resid_pearson, rtol=1e-5
    )
    np.testing.assert_allclose(
        pr.residuals(fit, "deviance"), result.resid_dev, rtol=1e-5
    )
    ends, theirs = fit.interval(0.95), np.asarray(result.conf_int)[[3, 0, 1, 2]]
    np.testing.assert_allclose(
        np.stack([ends["lower"], ends["upper"]], 1), theirs, rtol=1e-5
    )


def test_average_slopes_of_a_logit_are_statas(grades):
    fit, result = grades
    found = pr.slopes(fit, ["gpa", "tuce", "psi"], average_over="sample").table
    np.testing.assert_allclose(
        found["estimate"], result.margeff_nodummy_dydx, rtol=1e-7
    )
    np.testing.assert_allclose(
        found["std_error"], result.margeff_nodummy_dydx_se, atol=6e-8
    )
    step = pr.comparisons(fit, {"psi": (0, 1)}, average_over="sample").table
    np.testing.assert_allclose(
        step["estimate"], result.margeff_dummy_dydx[2], rtol=1e-7
    )
    np.testing.assert_allclose(
        step["std_error"], result.margeff_dummy_dydx_se[2], atol=6e-8
    )


def test_average_slopes_are_taken_at_given_values_as_statas(grades):
    fit, result = grades
    means = {
        name: float(np.mean(fit.model.design.X[:, j]))
        for j, name in enumerate(("1", "gpa", "tuce", "psi"))
        if j
    }
    found = pr.slopes(fit, ["gpa", "tuce", "psi"], at=means).table
    np.testing.assert_allclose(
        found["estimate"], result.margeff_nodummy_dydxmean, rtol=1e-7
    )
    np.testing.assert_allclose(
        found["std_error"], result.margeff_nodummy_dydxmean_se, atol=6e-8
    )


def test_influence_of_a_logit_is_sass():
    """PROC LOGISTIC's diagnostics of Finney's vasoconstriction data, printed to three or four digits."""
    result = table_of_text("stats/tests/results/results_influence_logit.csv")
    rows = table_of_text("stats/tests/results/binary_constrict.csv")
    given = {
        name: np.array(rows[name], float)
        for name in ("constrict", "log_rate", "log_volumne")
    }
    fit = pr.fit(
        pr.Model.from_formula(
            "constrict ~ log_rate + log_volumne", given, likelihood="bernoulli"
        )
    )
    found = pr.influence_measures(fit)
    np.testing.assert_allclose(
        found["leverage"], np.array(result["hat_matrix_diagonal"], float), atol=6e-5
    )
    np.testing.assert_allclose(
        pr.residuals(fit, "pearson"),
        np.array(result["resid_pearson"], float),
        atol=6e-5,
    )
    np.testing.assert_allclose(
        pr.residuals(fit, "deviance"),
        np.array(result["resid_deviance"], float),
        atol=6e-5,
    )
    # SAS' C is the one-step change in units of the covariance; Cook's distance divides it by the number of coefficients.
    np.testing.assert_allclose(
        found["cook"] * 3, np.array(result["Cooks C"], float), rtol=6e-3, atol=5e-5
    )
    names = ("dfb_intercept", "dfb_lograte", "dfb_logvolumne")
    theirs = np.stack([np.array(result[name], float) for name in names], 1)
    np.testing.assert_allclose(np.asarray(found["dfbetas"]), theirs, atol=6e-5)


def table_of_text(path):
    with open(shipped(path)) as lines:
        rows = list(csv.DictReader(lines))
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_multinomial_logit_of_stata_and_r():
    """anes96: seven parties against the first (mlogit, checked by its authors against R's nnet)."""
    result = printed("discrete.tests.results.results_discrete").Anes.mnlogit_basezero
    rows = pr.load_dataset("anes96")
    rows["density"] = np.log(rows["population"] + 0.1)
    model = pr.Model.from_formula(
        "party ~ density + self_lr + age + education + income",
        rows,
        likelihood="categorical",
    )
    fit = pr.fit(model)
    order = [5, 0, 1, 2, 3, 4]
    np.testing.assert_allclose(fit.coef.values, result.params[order], atol=6e-8)
    np.testing.assert_allclose(fit.std_error.values, result.bse[order], rtol=1e-7)
    assert fit.log_likelihood == pytest.approx(result.llf, abs=1e-7)
    np.testing.assert_allclose(fit.predict()["mean"], result.phat, atol=1e-7)
    found, names = (
        pr.slopes(fit, average_over="sample").table,
        ["density", "self_lr", "age", "education", "income"],
    )
    for word, theirs in (
        ("estimate", result.margeff_dydx_overall),
        ("std_error", result.margeff_dydx_overall_se),
    ):
        ours = np.stack(
            [found.loc[found["variable"] == name, word].to_numpy() for name in names]
        )
        # Stata differentiates numerically: its slopes of the last class miss a sum of zero over the classes by 2.6e-8.
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-9)
