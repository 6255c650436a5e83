"""Formulas for several parameters of a response: with an intercept alone they are the plain likelihood, and R's dispersion models."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.linalg import block_diag
from scipy.stats import truncnorm

import probreg as pr
from probreg.data.formula.functions import term_functions
from probreg.diagnostics.after.functional_form import linearity_test
from probreg.errors import DataError, Incompatible
from probreg.fits.leave_out.groups import leave_group_out
from probreg.fits.leave_out.rows import refit_rows
from probreg.inference.exact.evidence import Evidence
from probreg.inference.varying import held_scales
from probreg.likelihoods import Truncated
from probreg.likelihoods.distributional import with_predictors
from tests.pymc_density import density_of

CASES = {
    "gaussian": ("y", "log sigma", "gaussian"),
    "student": ("y", "log sigma", pr.StudentT(nu=5.0)),
    "negative_binomial": ("k", "log alpha", "negative_binomial"),
    "beta": ("share", "log phi", "beta"),
    "gamma": ("t", "log phi", "gamma"),
    "beta_binomial": ("p(k, trials)", "log phi", "beta_binomial"),
    "right_censored": ("cens(t, event)", "log scale", "weibull"),
    "interval_censored": ("cens(lower, upper)", "log sigma", "log_normal"),
    "tobit": ("cens(y, lower=0)", "log sigma", "gaussian"),
    "truncated": ("trunc(y, lower=-9)", "log sigma", "gaussian"),
    "zeros": ("k", "logit zero", "hurdle(poisson)"),
}


def columns() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    n = 60
    x, z = rng.normal(size=(2, n))
    group = rng.integers(0, 10, n)
    shift = rng.normal(size=10) * 0.5
    y = 1 + 2 * x + shift[group] + np.exp(0.3 + 0.5 * z) * rng.normal(size=n)
    k = rng.poisson(np.exp(0.5 + 0.4 * x) * rng.gamma(1.0, 1.0, n)).astype(float)
    t, end = rng.exponential(np.exp(0.5 * x)), rng.exponential(3.0, n)
    times = {"t": np.minimum(t, end), "event": (t < end) * 1}
    times |= {"lower": np.floor(t), "upper": np.ceil(t)}
    counts = {"k": k, "trials": k.max() + rng.integers(0, 9, n)}
    share = rng.beta(2.0, 3.0, n)
    common = {"y": y, "x": x, "z": z, "g": group.astype(str), "share": share}
    return common | times | counts


DATA = columns()
FIRST_ROWS = {name: values[:8] for name, values in DATA.items()}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return DATA


@cache
def pair(name: str) -> tuple[Any, Any]:
    """A plain fit, and one with an intercept for the logarithm of its nuisance parameter."""
    response, parameter, likelihood = CASES[name]
    formulas = (
        f"{response} ~ x + z",
        {"y": f"{response} ~ x + z", parameter: "~ 1"},
    )
    plain, several = (
        pr.fit(pr.Model.from_formula(f, DATA, likelihood=likelihood), "newton")
        for f in formulas
    )
    return plain, several


def numbers(table: Any) -> np.ndarray:
    return pd.DataFrame(table).select_dtypes("number").to_numpy(float)


OUTPUTS = {
    "estimates": lambda f, q: np.asarray(f.coef).ravel()[:q],
    "errors": lambda f, q: np.asarray(f.std_error).ravel()[:q],
    "robust": lambda f, q: numbers(f.summary(covariance="HC0"))[:q, 1],
    "information criteria": lambda f, q: [f.log_likelihood, f.aic, f.bic],
    "predictions": lambda f, q: [
        f.predict(FIRST_ROWS)[v]
        for v in ("mean", "mean_std_error", "mean_lower", "new_lower", "new_upper")
    ],
    "response residuals": lambda f, q: f.residuals("response"),
    "pearson residuals": lambda f, q: f.residuals("pearson"),
    "deviance residuals": lambda f, q: f.residuals("deviance"),
    "quantile residuals": lambda f, q: f.residuals("quantile"),
    "comparisons": lambda f, q: numbers(pr.comparisons(f).table),
    "slopes": lambda f, q: numbers(pr.slopes(f).table),
    "leave-one-out": lambda f, q: numbers(pr.compare_models({"a": f}).table),
}
# one of each kind of density: of numbers, of counts, censored, truncated, a mixture
LEFT_OUT = ("gaussian", "negative_binomial", "right_censored", "truncated", "zeros")


@pytest.mark.parametrize(
    ("name", "output"),
    [
        (name, output)
        for name in CASES
        for output in OUTPUTS
        if output != "leave-one-out" or name in LEFT_OUT
        # truncated responses have no formula for their variance
        if (name, output) != ("truncated", "pearson residuals")
    ],
)
def test_an_intercept_alone_is_the_plain_likelihood(name: str, output: str) -> None:
    plain, several = pair(name)
    q = len(plain.coef)
    expected, value = (
        np.asarray(OUTPUTS[output](f, q), dtype=float) for f in (plain, several)
    )
    np.testing.assert_allclose(value, expected, rtol=3e-5, atol=1e-6)


def test_derivatives_are_those_of_the_log_posterior(data: dict[str, Any]) -> None:
    formulas = {"y": "y ~ x + g", "log sigma": "~ z + x"}
    model = pr.Model.from_formula(formulas, data, prior=pr.Normal(1.0))
    beta = np.random.default_rng(0).normal(size=model.shape) * 0.3
    local = model.value_grad_hessian(beta)
    step = 1e-5
    for j in range(len(beta)):
        e = step * (np.arange(len(beta)) == j)[:, None]
        up, down = model.log_posterior(beta + e), model.log_posterior(beta - e)
        assert local.gradient[j] == pytest.approx((up - down) / (2 * step), abs=1e-4)


def test_pymc_has_the_same_density(data: dict[str, Any]) -> None:
    formulas = {"y": "y ~ x", "log sigma": "~ z"}
    model = pr.Model.from_formula(formulas, data, prior=pr.Normal(1.0))
    graph = density_of(model.to_pymc())
    rng = np.random.default_rng(0)
    gaps = []
    for _ in range(3):
        point = rng.normal(size=graph.size) * 0.3
        beta = graph.expand(point)["beta"][:, None]
        gaps.append(graph.log_prob(point) - model.log_posterior(beta))
    np.testing.assert_allclose(gaps, gaps[0], atol=1e-8)


def test_salaries_by_rank_as_glmmtmb(certified: Any) -> None:
    case = certified("families/gaussian_dispersion_salaries")
    table = pd.read_csv(certified_table("families/data/salaries.csv"))
    table["rank"] = pd.Categorical(table["rank"], ["AsstProf", "AssocProf", "Prof"])
    fit = pr.fit(
        pr.Model.from_formula(
            {
                "pay": "pay ~ rank + discipline + yrs_since_phd",
                "log sigma": "~ rank + yrs_service",
            },
            table,
        )
    )
    # glmmTMB has the logarithm of the variance
    unit = np.array([0.5 if k[:4] == "disp" else 1.0 for k in case["coefficients"]])
    estimate, error = (
        unit * [v[name] for v in case["coefficients"].values()]
        for name in ("estimate", "se")
    )
    assert (np.abs(np.asarray(fit.coef).ravel() - estimate) < 1e-6 * error).all()
    np.testing.assert_allclose(np.asarray(fit.std_error).ravel(), error, rtol=1e-5)
    assert fit.log_likelihood == pytest.approx(case["logLik"], abs=1e-8)
    # the file has the first rows, from a search of R that ended before the coefficients beside them were polished
    rows = fit.predict(table[: len(case["fitted"])])
    gap = np.abs(rows["mean"] - np.array(case["fitted"]))
    assert (gap < 1e-4 * rows["mean_std_error"]).all()


def certified_table(name: str) -> Path:
    from tests.conftest import reference_path

    return reference_path(name)


@pytest.mark.parametrize(
    "formulas",
    [
        {"y": "y ~ x + (1 | g)", "log sigma": "~ z + (1 | g)"},
        {"y": "y ~ s(x)", "log sigma": "~ s(z)"},
    ],
    ids=["groups", "smooths"],
)
def test_groups_and_smooths_in_each_formula(
    formulas: dict[str, str], data: dict[str, Any], tmp_path: Path
) -> None:
    fit = pr.fit(pr.Model.from_formula(formulas, data))
    fit.save(tmp_path / "fit.h5", rows=True)
    loaded = pr.load_fit(tmp_path / "fit.h5")
    np.testing.assert_array_equal(loaded.coef, fit.coef)
    for name in ("mean", "mean_std_error"):
        np.testing.assert_allclose(loaded.predict()[name], fit.predict()[name])


def test_rows_of_one_value_left_out_have_the_density_at_their_own_sigma() -> None:
    x = np.repeat(np.arange(8.0), 2)
    table = {"x": x, "y": x + np.cos(np.arange(16.0))}
    prior = dict.fromkeys(("Intercept", "x"), pr.Normal(2.0))
    prior |= {"log sigma: Intercept": pr.Normal(0.5)}
    formulas = {"y": "y ~ x", "log sigma": "~ 1"}
    fit = pr.fit(
        pr.Model.from_formula(formulas, table, prior=prior), "importance", seed=1
    )
    found = leave_group_out(fit, "x", x).elpd.sum()
    log_p = fit.tree["log_likelihood"]["y"].values.reshape(-1, 8, 2).sum(2)
    # p(y_g | other rows) = 1 / E[1 / p(y_g | draw)]
    expected = -np.log(np.exp(-log_p).mean(0)).sum()
    assert abs(found - expected) < 0.5  # Monte Carlo error from 400 draws


def test_leave_one_out_beside_groups_is_that_of_the_plain_model() -> None:
    g = np.repeat(list("abcde"), 4)
    y = np.exp(np.repeat([0.0, 1.0, -0.5, 0.4, 1.5], 4) + np.sin(np.arange(20.0)))
    formulas = ("y ~ 1 + (1 | g)", {"y": "y ~ 1 + (1 | g)", "log phi": "~ 1"})
    ml = Evidence(criterion="ML")
    data = {"y": y, "g": g}
    models = [pr.Model.from_formula(f, data, likelihood="gamma") for f in formulas]
    elpd = [refit_rows(pr.fit(model, ml)).elpd for model in models]
    np.testing.assert_allclose(elpd[1], elpd[0], rtol=1e-3)


def test_leave_one_out_beside_groups_has_no_units() -> None:
    data = {"y": DATA["y"], "g": DATA["g"], "z": DATA["z"]}
    formulas = {"y": "y ~ 1 + (1 | g)", "log sigma": "~ z"}
    ml = Evidence(criterion="ML")
    elpd = [
        refit_rows(pr.fit(pr.Model.from_formula(formulas, data | {"z": z}), ml)).elpd
        for z in (DATA["z"], 1e6 * DATA["z"])
    ]
    np.testing.assert_allclose(elpd[1], elpd[0], rtol=1e-6)


def test_standard_deviations_of_one_group_are_named_by_their_formula(
    data: dict[str, Any],
) -> None:
    formulas = {"y": "y ~ x + (1 | g)", "log sigma": "~ z + (1 | g)"}
    prior = {"1 | g": pr.Covariance(sd=2.0), "log sigma: 1 | g": pr.Covariance(sd=0.5)}
    held = pr.Model.from_formula(formulas, data, prior=prior)
    assert held_scales(held) == {
        "sd(Intercept | g)": 2.0,
        "sd(log sigma: Intercept | g)": 0.5,
    }
    fit = pr.fit(pr.Model.from_formula(formulas, data))
    assert list(fit.hyper) == list(held_scales(held))


def test_a_group_of_constant_noise_has_the_likelihood_of_the_plain_model(
    data: dict[str, Any],
) -> None:
    fits = [
        pr.fit(pr.Model.from_formula(formula, data), Evidence(criterion="ML"))
        for formula in ("y ~ x + (1 | g)", {"y": "y ~ x + (1 | g)", "log sigma": "~ 1"})
    ]
    # Laplace's approximation is exact for normal noise at the maximum over log sigma
    np.testing.assert_allclose(fits[1].coef[:2], fits[0].coef, rtol=1e-5)


@pytest.mark.parametrize(
    "term", ["s(x)", pytest.param("gp(x, basis='hsgp')", marks=pytest.mark.slow)]
)
def test_a_function_beside_constant_noise_is_that_of_the_plain_model(
    data: dict[str, Any], term: str
) -> None:
    fits = [
        pr.fit(pr.Model.from_formula(formula, data), Evidence(criterion="ML"))
        for formula in (f"y ~ {term}", {"y": f"y ~ {term}", "log sigma": "~ 1"})
    ]
    for name in ("mean", "mean_std_error"):
        plain, several = (fit.predict()[name] for fit in fits)
        np.testing.assert_allclose(several, plain, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("response", ["cens(y, lower=0)", "trunc(y, lower=-1)"])
def test_degrees_of_freedom_beside_constant_noise_are_those_of_the_plain_model(
    response: str,
) -> None:
    rng = np.random.default_rng(0)
    x = rng.uniform(size=120)
    y = np.sin(5 * x) + 0.4 * rng.normal(size=120)
    wavy = {"x": x, "y": np.maximum(y, -0.99)}
    plain, several = (
        pr.fit(pr.Model.from_formula(f, wavy))
        for f in (f"{response} ~ s(x)", {"y": f"{response} ~ s(x)", "log sigma": "~ 1"})
    )
    degrees = [fit.smooths["edf"].item() for fit in (plain, several)]
    assert degrees[1] == pytest.approx(degrees[0], abs=0.1)


def test_the_lasso_has_the_mode_of_the_plain_model(data: dict[str, Any]) -> None:
    fits = [
        pr.fit(pr.Model.from_formula(formula, data, prior=prior), "proximal_newton")
        for formula, prior in (
            ("y ~ x + z", pr.Laplace(0.3)),
            ({"y": "y ~ x + z", "log sigma": "~ 1"}, {("x", "z"): pr.Laplace(0.3)}),
        )
    ]
    np.testing.assert_allclose(fits[1].coef[:3], fits[0].coef, atol=1e-6)


def test_columns_are_identified_in_each_predictor(data: dict[str, Any]) -> None:
    formulas = {"y": "y ~ x", "log sigma": "~ z + I(2 * z)"}
    with pytest.warns(pr.ProbregWarning, match="not identified"):
        fit = pr.fit(pr.Model.from_formula(formulas, data))
    assert fit.solution.null_space is not None
    assert (np.abs(fit.solution.null_space).max(1) > 0).tolist() == [
        *[False] * 3,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("formulas", "likelihood", "message"),
    [
        ({"y": "y ~ x", "log nu": "~ z"}, "gaussian", "'log nu'.*'log sigma'"),
        ({"k": "k ~ x", "log sigma": "~ z"}, "poisson", "these parameters.*none"),
        (
            {"y": "y ~ x", "log sigma": "y ~ z"},
            "gaussian",
            "one formula has the response",
        ),
        ({"y": "y ~ x", "log sigma": 3}, "gaussian", "formulas are texts"),
        ({"y": "y ~ x", "": "~ z"}, "gaussian", "formulas are texts"),
    ],
)
def test_wrong_formulas_are_named(
    data: dict[str, Any], formulas: Any, likelihood: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        pr.Model.from_formula(formulas, data, likelihood=likelihood)


def test_expected_covariances_of_a_gaussian_have_two_blocks(
    data: dict[str, Any],
) -> None:
    """(X' X / sigma^2)^-1 of the mean and (2 Z' Z)^-1 of log sigma."""
    fit = pr.fit(pr.Model.from_formula({"y": "y ~ x", "log sigma": "~ z"}, data))
    X = np.column_stack([np.ones(len(data["x"])), data["x"]])
    Z = np.column_stack([np.ones(len(data["z"])), data["z"]])
    W = np.exp(-2.0 * Z @ fit.solution.beta[2:])
    expected = block_diag(np.linalg.inv(X.T @ (W * X)), np.linalg.inv(2.0 * Z.T @ Z))
    for kind in ("expected", "sampling"):
        V = np.asarray(fit.covariance(kind))
        np.testing.assert_allclose(V, expected, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("likelihood", "names", "known"),
    [
        (pr.StudentT(nu=4.0), ["log sigma"], {}),
        (pr.StudentT(nu=None), ["log nu"], {"sigma": 1.3}),
        (pr.Weibull(), ["log scale"], {}),
        (pr.LogLogistic(), ["log scale"], {}),
        (pr.Gamma(), ["log phi"], {}),
        (pr.InverseGaussian(), ["log phi"], {}),
        (pr.Beta(link="cloglog"), ["log phi"], {}),
        (pr.BetaBinomial(), ["log phi"], {"trials": 7.0}),
        (pr.NegativeBinomial(), ["log alpha"], {}),
        (pr.NegativeBinomial(variance="nb1"), ["log alpha"], {}),
        (pr.ZeroInflated(pr.NegativeBinomial()), ["logit zero"], {"alpha": 0.7}),
        (pr.Hurdle(pr.Poisson()), ["logit zero"], {}),
        (Truncated(pr.Poisson(), lower=1.0), [], {}),
        (Truncated(pr.NegativeBinomial(), upper=6.0), ["log alpha"], {}),
        (Truncated(pr.Gaussian(), lower=0.5), ["log sigma"], {}),
        (Truncated(pr.Gaussian()), [], {"sigma": 1.3}),
        (Truncated(pr.Weibull(), upper=2.0), [], {"scale": 0.6}),
        (Truncated(pr.StudentT(nu=2.0), -1.0, 1.5), [], {"sigma": 1.3}),
        (
            pr.Ordinal(levels=(0, 1, 2, 3), link="probit"),
            [],
            {"gap_2": 0.8, "gap_3": 0.7},
        ),
    ],
    ids=lambda value: str(value),
)
def test_the_fisher_information_is_the_mean_of_the_products_of_scores(
    likelihood: Any, names: list[str], known: dict[str, float]
) -> None:
    n = 40_000
    wide = with_predictors(likelihood, names) if names else likelihood
    eta = np.tile([0.4, 0.6][: wide.width], (n, 1))
    values = {name: np.full(n, value) for name, value in known.items()}
    aux = {name: values[name] for name in wide.nuisance}
    drawn = wide.sample(np.random.default_rng(0), eta, **values)
    given = {name: v for name, v in values.items() if name not in aux}
    y = wide.join(drawn, **given) if drawn.ndim == 1 else drawn
    scores = wide.value_grad_hessian(y, eta, **aux).gradient
    products = scores[:, :, None] * scores[:, None]
    error = products.std(0) / np.sqrt(n)
    one = {name: value[:1] for name, value in values.items()}
    information = wide.joint_information(eta[:1], **one)
    # standard errors; four happen in one of 16,000 comparisons
    assert (np.abs(products.mean(0) - information[0]) < 4.0 * error + 1e-12).all()


def test_the_information_of_a_truncated_normal_is_that_of_an_exponential_family():
    """Over the mean it is Var(y) / sigma^4, over log sigma the variance of (y - mu)^2 / sigma^2."""
    eta, sigma = np.array([[0.3], [-1.0], [4.0]]), 0.8
    likelihood = Truncated(pr.Gaussian(), lower=0.0, upper=2.0)
    ends = [(end - eta[:, 0]) / sigma for end in (0.0, 2.0)]
    z = truncnorm(*ends)
    m1, m2, m3, m4 = (np.array(z.moment(k)) for k in (1, 2, 3, 4))
    information = likelihood.joint_information(eta, sigma=sigma)
    variance = [
        (information[:, 0, 0] * sigma**2, m2 - m1**2),
        (information[:, 0, 1] * sigma, m3 - m1 * m2),
        (information[:, 1, 1], m4 - m2**2),
    ]
    for found, exact in variance:
        np.testing.assert_allclose(found, exact, rtol=1e-8)


def test_quantities_without_a_formula_are_refused(data: dict[str, Any]) -> None:
    fit = pr.fit(pr.Model.from_formula({"y": "y ~ x", "log sigma": "~ z"}, data))
    for quantity in (
        lambda: fit.residuals("working"),
        lambda: fit.r_squared,
        lambda: fit.model.information(np.zeros((4, 1))),
        lambda: pr.fit(fit.model, "sgd", seed=1),
        lambda: fit.model.with_prior(pr.priors.Jeffreys()),
    ):
        with pytest.raises(Incompatible):
            quantity()


def test_a_smooth_function_of_sigma_has_its_own_test_of_linearity():
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 1.0, 200)
    noise = rng.normal(size=200)
    p = {}
    for name, log_sigma in {"straight": x, "curved": np.sin(6.0 * x)}.items():
        data = {"x": x, "y": 2.0 * x + np.exp(log_sigma) * noise}
        fit = pr.fit(
            pr.Model.from_formula({"y": "y ~ s(x)", "log sigma": "~ s(x)"}, data)
        )
        p[name] = [
            linearity_test(fit, [function]).p_value
            for function in term_functions(fit.model.design)
        ]
    assert min(p["straight"]) > 0.01
    assert p["curved"][0] > 0.01
    assert p["curved"][1] < 1e-3


def test_moments_of_the_response_are_those_of_its_own_formula() -> None:
    formulas = {"y": "y ~ x", "log sigma": "~ z"}
    several = pr.Model.from_formula(formulas, DATA).design.moments
    for text, places in (("y ~ x", [0, 1]), ("y ~ z", [2, 3])):
        plain = pr.Model.from_formula(text, DATA).design.moments
        np.testing.assert_allclose(
            several.gram[0][np.ix_(places, places)], plain.gram[0]
        )
        np.testing.assert_allclose(several.mean[places], plain.mean)
        np.testing.assert_allclose(several.scale[places], plain.scale)
        if places[0] == 0:
            np.testing.assert_allclose(several.z[places], plain.z.astype(float))
    assert several.y_scale == pytest.approx(np.std(DATA["y"]))


def test_each_column_has_the_intercept_of_its_predictor() -> None:
    formulas = {"y": "y ~ x", "log sigma": "~ 0 + z"}
    design = pr.Model.from_formula(formulas, DATA).design
    np.testing.assert_array_equal(design.intercepts, [0, 0, -1])
    formulas["log sigma"] = "~ z"
    design = pr.Model.from_formula(formulas, DATA).design
    np.testing.assert_array_equal(design.intercepts, [0, 0, 2, 2])


def test_trials_are_those_of_the_likelihood_without_formulas() -> None:
    likelihood = with_predictors(pr.BetaBinomial(trials=10), ["log phi"])
    assert likelihood.size() == likelihood.trials == 10
    assert likelihood.size(trials=3) == 3


@pytest.mark.parametrize(
    ("formulas", "settings"),
    [
        ({"y": "y ~ x + g", "log sigma": "~ center(z) + C(h) + offset(0.1 * x)"}, {}),
        ({"k": "k ~ x", "logit zero": "~ z"}, {"likelihood": "hurdle(poisson)", "weights": "trials", "offset": "log(trials)"}),
        ({"rank": "rank ~ x", "log scale": "~ 0 + z"}, {"likelihood": "ordinal"}),
        pytest.param({"y": "y ~ x + (1 | g)", "log sigma": "~ z + (1 | h)"}, {}, marks=pytest.mark.slow),
    ],
    ids=["gaussian", "zeros", "ordinal", "groups"],
)  # fmt: skip
def test_rows_elsewhere_give_the_fit_of_rows_in_memory(
    tmp_path: Path, formulas: dict[str, str], settings: dict[str, Any]
) -> None:
    from dask import dataframe

    table = pd.DataFrame(DATA | {"h": np.resize(["a", "b", "c"], 60)})
    table["rank"] = pd.cut(table["y"], [-np.inf, 0.0, 1.0, np.inf], labels=[*"abc"])
    table.loc[5, "z"] = np.nan
    table.to_parquet(tmp_path / "rows.parquet", row_group_size=16)
    settings = settings | {"missing": "drop"}
    models = (
        pr.Model.from_formula(formulas, table, **settings),
        pr.Model.from_files(formulas, tmp_path / "rows.parquet", **settings),
        pr.Model.from_dask(formulas, dataframe.from_pandas(table, npartitions=3), **settings),
    )  # fmt: skip
    whole, *parts = (pr.fit(model) for model in models)
    new = table[:3].assign(trials=7.0)
    # the search for scales of groups ends within 1e-5 of the maximum
    rtol = 1e-5 if whole.model.design.recipe.grouped else 1e-9
    for part in parts:
        assert part.model.design.columns == whole.model.design.columns
        np.testing.assert_allclose(part.coef, whole.coef, rtol=rtol, atol=1e-12)
        np.testing.assert_allclose(part.std_error, whole.std_error, rtol=rtol)
        if not whole.model.design.recipe.grouped:
            assert part.log_likelihood == pytest.approx(whole.log_likelihood, rel=1e-9)
        for what in ("mean", "sigma") if "y" in formulas else ():
            predicted = [f.predict(new, what=what)[what] for f in (part, whole)]
            np.testing.assert_allclose(*predicted, rtol=rtol)


def test_ordered_classes_in_files_refuse_a_constant_log_scale(tmp_path: Path) -> None:
    table = pd.DataFrame(DATA)
    table["rank"] = (table["y"] > 1).astype(int) + (table["y"] > 2)
    table.to_parquet(tmp_path / "rows.parquet")
    formulas = {"rank": "rank ~ x", "log scale": "~ z"}
    with pytest.raises(DataError, match="'log scale' of ordered classes has no inter"):
        pr.Model.from_files(formulas, tmp_path / "rows.parquet", likelihood=pr.Ordinal(levels=(0, 1, 2)))  # fmt: skip


def test_correlated_effects_of_rows_in_files_name_independent_ones(
    tmp_path: Path,
) -> None:
    pd.DataFrame(DATA).to_parquet(tmp_path / "rows.parquet")
    formulas = {"y": "y ~ (x | g)", "log sigma": "~ z"}
    model = pr.Model.from_files(formulas, tmp_path / "rows.parquet")
    with pytest.raises(pr.Incompatible, match=r"\(x \|\| g\)"):
        pr.fit(model)


def test_offsets_of_parameters_move_slopes_and_survive_saving(tmp_path: Path) -> None:
    table = pd.DataFrame(DATA)
    formulas = {"y": "y ~ x", "log sigma": "~ 1 + offset(z)"}
    fit = pr.fit(pr.Model.from_formula(formulas, table))
    sigma = fit.predict(table, what="sigma")["sigma"]
    # d sigma / dz = sigma
    slope = pr.slopes(fit, what="sigma", variables="z").table["estimate"]
    np.testing.assert_allclose(slope, sigma.mean(), rtol=1e-8)
    step = pr.comparisons(fit, what="sigma", variables="z").table["estimate"]
    np.testing.assert_allclose(step, sigma.mean() * np.expm1(1.0), rtol=1e-8)
    saved = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_allclose(saved.predict(table, what="sigma")["sigma"], sigma)
    with pytest.raises(DataError, match="make the array a column"):
        pr.Model.from_formula(formulas, table, offset=np.ones(len(table)))


def test_an_offset_array_of_new_rows_is_of_the_first_formula() -> None:
    table = pd.DataFrame(DATA)
    formulas = {"y": "y ~ x", "log sigma": "~ z"}
    of_array = pr.fit(pr.Model.from_formula(formulas, table, offset=DATA["z"]))
    of_column = pr.fit(pr.Model.from_formula(formulas, table, offset="z"))
    for what in ("mean", "sigma"):
        predicted = of_array.predict(table, offset=DATA["z"], what=what)[what]
        np.testing.assert_allclose(predicted, of_column.predict(table, what=what)[what])


def test_notes_are_of_the_columns_of_every_formula(tmp_path: Path) -> None:
    table = pd.DataFrame(DATA | {"w": np.resize(["1", "2", "3"], 60)})
    table.to_parquet(tmp_path / "rows.parquet")
    formulas = {"y": "y ~ x", "log sigma": "~ w"}
    for model in (
        pr.Model.from_formula(formulas, table),
        pr.Model.from_files(formulas, tmp_path / "rows.parquet"),
    ):
        assert any("'w' is text" in note for note in model.design.notes)


@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")
def test_redundant_columns_of_a_formula_leave_predictions_as_they_are():
    data = columns()
    formula = {"y": "y ~ x + I(2 * x) + I(3 * x)", "log sigma": "~ x"}
    plain, redundant = (
        pr.fit(pr.Model.from_formula(f, data))
        for f in ({**formula, "y": "y ~ x"}, formula)
    )
    for name in ("mean", "mean_std_error", "mean_lower"):
        np.testing.assert_allclose(
            redundant.predict(data)[name], plain.predict(data)[name], rtol=1e-6
        )
