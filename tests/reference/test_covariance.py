"""Covariances of an estimate against statsmodels, kind by kind, and against their formulas where statsmodels has none."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from tests.conftest import reference_path

TIGHT = {
    "rtol": 1e-8,
    "atol": 1e-12,
}  # both sides solve the same normal equations, conditioned like 10


def rows(n: int = 240) -> tuple[Any, Any, Any]:
    """X (n, 2), the linear predictor, two ways of grouping on which it depends."""
    rng = np.random.default_rng(11)
    X = rng.normal(size=(n, 2)) * [1.0, 3.0] + [0.5, -2.0]
    groups = np.c_[rng.integers(0, 20, n), rng.integers(0, 15, n)]
    eta = (
        0.2
        + X @ [0.7, -0.2]
        + 0.6 * rng.normal(size=20)[groups[:, 0]]
        + 0.6 * rng.normal(size=15)[groups[:, 1]]
    )
    return X, eta, groups


def response(kind: str, eta: Any) -> Any:
    rng = np.random.default_rng(12)
    if kind == "gaussian":
        return eta + rng.normal(size=len(eta)) * np.exp(0.3 * eta)
    return (
        rng.poisson(np.exp(eta))
        if kind == "poisson"
        else (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int)
    )


def both(kind: str) -> tuple[pr.Fit, Any, Any, Any]:
    """Our fit, statsmodels' model, its options for a tight optimum, and the groups."""
    sm = pytest.importorskip("statsmodels.api")
    X, eta, groups = rows()
    y = response(kind, eta)
    ours = pr.fit(pr.Model.from_arrays(X, y, likelihood=kind))
    if kind == "gaussian":
        return ours, sm.OLS(y, sm.add_constant(X)), {}, groups
    family = {"poisson": sm.families.Poisson(), "bernoulli": sm.families.Binomial()}[
        kind
    ]
    return (
        ours,
        sm.GLM(y, sm.add_constant(X), family=family),
        {"tol": 1e-14, "maxiter": 100},
        groups,
    )


@pytest.mark.parametrize(
    ("likelihood", "kind"),
    [("gaussian", f"HC{i}") for i in range(4)]
    + [(k, f"HC{i}") for k in ("poisson", "bernoulli") for i in range(2)],
)
def test_heteroscedasticity_consistent(likelihood, kind):
    ours, theirs, options, _ = both(likelihood)
    # statsmodels' HC1 of a GLM has no factor
    left_out = 240 / 237 if kind == "HC1" and likelihood != "gaussian" else 1.0
    their = left_out * theirs.fit(cov_type=kind, **options).cov_params()
    np.testing.assert_allclose(ours.covariance(kind), their, **TIGHT)


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
@pytest.mark.parametrize("likelihood", ["poisson", "bernoulli"])
def test_leverages_of_a_glm_are_those_of_its_working_least_squares(likelihood, kind):
    ours, theirs, options, _ = both(likelihood)
    mu, X = theirs.fit(**options).fittedvalues, theirs.exog
    w = mu if likelihood == "poisson" else mu * (1 - mu)
    V = np.linalg.inv((X.T * w) @ X)
    h = w * np.einsum("ni,ij,nj->n", X, V, X)
    r = (theirs.endog - mu) / (1 - h) ** (0.5 if kind == "HC2" else 1.0)
    np.testing.assert_allclose(ours.covariance(kind), V @ (X.T * r**2) @ X @ V, **TIGHT)


def test_hc3_of_a_softmax_is_made_of_one_step_leave_one_out_scores():
    """V (1 - G W)^-1 Z'g is the Newton step of leaving a row out (Pregibon 1981), here with matrices from scratch."""
    X, eta, _ = rows()
    y = np.digitize(eta + np.random.default_rng(4).logistic(size=len(eta)), [-0.5, 1.0])
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"))
    beta, X = fit.solution.beta, fit.model.design.X
    P = np.exp(X @ beta)
    P = P / (1 + P.sum(1, keepdims=True))
    V, total = fit.covariance("expected").values, np.zeros((6, 6))
    H = np.linalg.inv(V)
    for x, p, k in zip(X, P, y):
        Z = np.kron(x, np.eye(2))  # (2, 6): eta = Z vec(beta)
        W = np.diag(p) - np.outer(p, p)
        step = np.linalg.solve(H - Z.T @ W @ Z, Z.T @ ((np.arange(1, 3) == k) - p))
        total += np.outer(step, step)
    np.testing.assert_allclose(fit.covariance("HC3"), total, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("ways", [1, 2])
@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli"])
def test_clusters(likelihood, ways, corrected):
    ours, theirs, options, groups = both(likelihood)
    given = groups[:, 0] if ways == 1 else groups
    settings = {"groups": given, "use_correction": corrected, "df_correction": False}
    their = theirs.fit(cov_type="cluster", cov_kwds=settings, **options).cov_params()
    mine = ours.covariance(
        "cluster", groups=given, small_sample="full" if corrected else "none"
    )
    np.testing.assert_allclose(mine, their, **TIGHT)


def test_statas_factor_is_the_linear_one_for_least_squares_only():
    for likelihood in ("gaussian", "poisson"):
        ours, _, _, groups = both(likelihood)
        named, plain = (
            ours.covariance("cluster", groups=groups[:, 0], small_sample=s)
            for s in ("stata", "none")
        )
        factor = 20 / 19 * (239 / 237 if likelihood == "gaussian" else 1.0)
        np.testing.assert_allclose(named, factor * plain, rtol=1e-12)
        assert named.attrs["factor"] == pytest.approx(factor)
        assert named.attrs["small_sample"].startswith("stata: G/(G - 1)")
        assert named.attrs["df"] == 19


def test_two_ways_of_clusters_are_those_of_stata():
    """`ivreg2 invest mvalue kstock, cluster(company time) small` on Grunfeld's ten firms, as statsmodels ships it: one factor
    of the whole, from the smaller number of groups."""
    sm = pytest.importorskip("statsmodels.api")
    # Stata's copy lacks the last firm
    table = sm.datasets.grunfeld.load_pandas().data[:200]
    ours = pr.fit(pr.Model.from_formula("invest ~ value + capital", table))
    groups = (table["firm"], table["year"])
    stata, each, plain = (
        ours.covariance("cluster", groups=groups, small_sample=s)
        for s in ("stata", "each", "none")
    )
    published = np.array(
        [
            [380.46872042467, 0.19641438763743, -0.99627581152391],
            [0.19641438763743, 0.00026737985466, -0.00070163493529],
            [-0.99627581152391, -0.00070163493529, 0.0061581549818],
        ]
    )
    # Stata stores its columns in float: 3e-8 apart
    np.testing.assert_allclose(stata, published, rtol=1e-7)
    np.testing.assert_allclose(stata, 10 / 9 * 199 / 197 * plain, rtol=1e-12)
    assert stata.attrs["factor"] == pytest.approx(10 / 9 * 199 / 197)
    assert each.sel(param="capital", param_="Intercept").item() == pytest.approx(
        -1.031432, abs=5e-7
    )
    np.testing.assert_allclose(
        each, ours.covariance("cluster", groups=groups, small_sample="full"), rtol=1e-12
    )


@pytest.mark.parametrize("lags", [0, 3, None])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson", "bernoulli"])
def test_newey_west(likelihood, lags):
    ours, theirs, options, _ = both(likelihood)
    used = 4 if lags is None else lags  # 4 (240/100)^(2/9) = 4.86
    for small, corrected in (("none", False), ("full", True)):
        mine = ours.covariance("HAC", lags=lags, small_sample=small)
        kwds = {"maxlags": used, "use_correction": corrected}
        np.testing.assert_allclose(
            mine,
            theirs.fit(cov_type="HAC", cov_kwds=kwds, **options).cov_params(),
            **TIGHT,
        )
    assert mine.attrs["lags"] == used
    assert ("1994" in mine.attrs["lags_rule"]) == (lags is None)


def test_multinomial_sandwich():
    sm = pytest.importorskip("statsmodels.api")
    X, eta, groups = rows()
    y = np.digitize(eta + np.random.default_rng(4).logistic(size=len(eta)), [-0.5, 1.0])
    ours = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # statsmodels warns of its own code
        model = sm.MNLogit(y, sm.add_constant(X))
        options = {"disp": 0, "method": "newton", "tol": 1e-14, "maxiter": 100}
        hc0 = np.asarray(model.fit(cov_type="HC0", **options).cov_params())
        grouped = model.fit(
            cov_type="cluster",
            cov_kwds={"groups": groups[:, 0], "use_correction": False},
            **options,
        )
    # theirs runs outcome by outcome, ours column by column
    order = np.arange(6).reshape(2, 3).T.ravel()
    np.testing.assert_allclose(
        ours.covariance("HC0"), hc0[np.ix_(order, order)], **TIGHT
    )
    mine = ours.covariance("cluster", groups=groups[:, 0], small_sample="none")
    np.testing.assert_allclose(
        mine, np.asarray(grouped.cov_params())[np.ix_(order, order)], **TIGHT
    )


def test_a_symmetric_softmax_shows_the_covariance_of_its_shown_outcomes():
    X, eta, groups = rows()
    y = np.digitize(eta + np.random.default_rng(4).logistic(size=len(eta)), [-0.5, 1.0])
    plain = pr.fit(pr.Model.from_arrays(X, y, likelihood=pr.Categorical()))
    shown = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=pr.Categorical(symmetric=True))
    )
    # log odds against class 0, less their mean over the classes
    centre = np.kron(np.eye(3), np.eye(3)[:, 1:] - 1 / 3)
    for kind, more in (
        ("HC0", {}),
        ("HC3", {}),
        ("expected", {}),
        ("cluster", {"groups": groups[:, 0]}),
    ):
        V = plain.covariance(kind, **more).values
        np.testing.assert_allclose(
            shown.covariance(kind, **more), centre @ V @ centre.T, rtol=1e-7, atol=1e-10
        )


def test_intervals_and_tables_from_a_covariance_are_statsmodels():
    ours, theirs, _, groups = both("gaussian")
    robust = theirs.fit(cov_type="HC3", use_t=True)
    np.testing.assert_allclose(
        ours.interval(0.9, covariance="HC3").to_array().T,
        robust.conf_int(0.1),
        rtol=1e-8,
    )
    table = ours.summary(0.9, covariance="HC3")
    np.testing.assert_allclose(table["std_error"][:3], robust.bse, rtol=1e-8)
    np.testing.assert_allclose(
        table[["lower", "upper"]][:3], robust.conf_int(0.1), rtol=1e-8
    )
    assert (table.attrs["kind"], table.attrs["covariance"]) == ("t", "HC3")
    # with groups, a t interval has one degree of freedom less than there are groups
    grouped = theirs.fit(
        cov_type="cluster", cov_kwds={"groups": groups[:, 0]}, use_t=True
    )
    given = ours.covariance("cluster", groups=groups[:, 0])
    np.testing.assert_allclose(
        ours.interval(0.9, covariance=given).to_array().T,
        grouped.conf_int(0.1),
        rtol=1e-8,
    )


def test_classical_names_its_variance():
    ours, theirs, _, _ = both("gaussian")
    found = theirs.fit()
    np.testing.assert_allclose(
        ours.covariance("classical"), found.cov_params(), **TIGHT
    )
    np.testing.assert_allclose(
        ours.covariance("ml"), found.cov_params() * 237 / 240, **TIGHT
    )
    assert ours.covariance("classical").attrs["sigma2_is"] == "RSS/(n - rank)"
    assert ours.covariance("ml").attrs["sigma2_is"] == "RSS/n"
    assert ours.covariance("ml").attrs["sigma2"] == pytest.approx(found.ssr / 240)
    assert ours.covariance().attrs["kind"] == "classical"
    np.testing.assert_array_equal(ours.covariance(), ours.covariance("classical"))


def test_the_dispersion_covariance_of_counts_is_that_of_quasipoisson(certified):
    result = certified("families/quasipoisson_ships")
    table = pd.read_csv(reference_path("families/data/ships.csv"), dtype={"year": str})
    table["period"] = table["period"].astype(str)
    model = pr.Model.from_formula(
        result["formula"], table[table["service"] > 0], likelihood="poisson"
    )
    summary = pr.fit(model).summary(covariance="dispersion")
    errors = [c["se"] for c in result["coefficients"].values()]
    np.testing.assert_allclose(summary["std_error"], errors, rtol=1e-8)
    assert summary.attrs["statistic"] == "t"
    assert summary.attrs["df"] == result["df_residual"]


def test_the_dispersion_covariance_has_weights_and_the_precision_of_the_prior():
    rng = np.random.default_rng(4)
    x = rng.normal(size=60)
    y = rng.poisson(np.exp(0.5 + 0.3 * x) * rng.gamma(1.0, 1.0, 60))
    w = np.arange(60) % 3 + 1
    model = pr.Model.from_arrays(
        x, y, weights=w, likelihood="poisson", prior=pr.Normal(0.2)
    )
    fit = pr.fit(model, "newton")
    X = np.c_[np.ones(60), x]
    mean = np.exp(X @ fit.coef.values)
    information = X.T @ (X * (w * mean)[:, None])
    P = np.diag([0.0, 1.0 / 0.2**2])
    df = w.sum() - np.trace(np.linalg.solve(information + P, information))
    phi = (w * (y - mean) ** 2 / mean).sum() / df
    V = fit.covariance("dispersion")
    assert V.attrs["dispersion"] == pytest.approx(phi, rel=1e-8)
    np.testing.assert_allclose(V, np.linalg.inv(information / phi + P), rtol=1e-8)


@pytest.mark.parametrize(
    ("response", "likelihood", "errors"),
    [
        ("y", "gaussian", [0.720837432666, 0.143702346433]),
        ("b", "bernoulli", [1.52366452424, 0.35254219355]),
    ],
)
def test_sampling_weights_have_the_errors_of_survey(response, likelihood, errors):
    """svyglm of R's package survey 4.1 with svydesign(~1, weights=~w)."""
    table = {
        "x": np.arange(8.0), "y": [1.0, 3.0, 2.0, 5.0, 4.0, 7.0, 5.0, 9.0],
        "b": [0, 0, 1, 0, 1, 0, 1, 1], "w": [1.0, 2.0, 4.0, 1.5, 3.0, 2.5, 1.0, 5.0],
    }  # fmt: skip
    model = pr.Model.from_formula(
        f"{response} ~ x",
        table,
        likelihood=likelihood,
        weights=pr.weights.sampling("w"),
    )
    fit = pr.fit(model)
    robust = np.sqrt(np.diag(fit.covariance("HC0")))
    for own in (fit.std_error.values, robust):
        np.testing.assert_allclose(own, errors, rtol=1e-9)


# VGAM 1.1-7: vglm with propodds, zipoisson, pospoisson and betaff, which report the expected information of all parameters
SMALL = {
    "x": np.arange(1, 17) / 8.0 - 1.0,
    "level": [0, 1, 0, 0, 2, 1, 0, 1, 2, 1, 2, 0, 2, 1, 2, 2],
    "count": [0, 1, 0, 2, 0, 0, 3, 1, 0, 2, 4, 0, 1, 5, 3, 4],
    "positive": [1, 1, 2, 1, 1, 3, 1, 2, 1, 4, 2, 1, 3, 5, 2, 4],
    "share": np.array([12, 31, 8, 44, 25, 60, 15, 38, 71, 22, 55, 83, 47, 64, 90, 78])
    / 100.0,
}


@pytest.mark.parametrize(
    ("formula", "likelihood", "errors"),
    [
        ("level ~ x", "ordinal", [0.614955966587, 0.997670397847]),
        ("count ~ x", "zero_inflated", [0.290572579284, 0.412057604255]),
        ("trunc(positive, lower=1) ~ x", "poisson", [0.298382793920, 0.441288657934]),
        ("share ~ x", "beta", [0.185184579712, 0.338480791909]),
    ],
)
def test_expected_information_of_all_parameters(
    formula: str, likelihood: str, errors: list[float]
) -> None:
    fit = pr.fit(pr.Model.from_formula(formula, SMALL, likelihood=likelihood))
    for kind in ("expected", "sampling"):
        found = np.sqrt(np.diagonal(fit.covariance(kind)))
        np.testing.assert_allclose(found, errors, rtol=1e-7)


def test_clusters_have_the_factor_of_r() -> None:
    """R 4.2.2: vcovCL(lm(), type = "HC0") of sandwich, and svyglm of survey with weights 1 and 2.5."""
    data = {**SMALL, "g": np.repeat(range(5), [3, 3, 3, 3, 4])}
    weights = pr.weights.sampling(np.tile([1.0, 2.5], 8))
    cases = [
        (None, [0.0990542516755, 0.3037239215265]),
        (weights, [0.241642749105, 0.565002505634]),
    ]
    for given, errors in cases:
        fit = pr.ols("count ~ x", data, weights=given)
        V = fit.covariance("cluster", groups=data["g"], small_sample="groups")
        np.testing.assert_allclose(np.sqrt(np.diagonal(V)), errors, rtol=1e-9)


def test_the_dispersion_is_for_nuisance_parameters_at_their_estimates() -> None:
    likelihood = pr.NegativeBinomial(variance="nb1")
    data = {"x": SMALL["x"], "y": np.square(SMALL["count"])}
    model = pr.Model.from_formula("y ~ x", data, likelihood=likelihood)
    fit = pr.fit(model)
    fixed = pr.fit(model.with_aux(alpha=fit.aux["alpha"]))
    V, expected = fit.covariance("dispersion"), fixed.covariance("dispersion")
    np.testing.assert_allclose(V, expected, rtol=1e-6)
    assert V.attrs["df"] == expected.attrs["df"] == 14
