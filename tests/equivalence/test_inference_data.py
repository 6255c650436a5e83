"""`fit.tree` holds the draws term by term, and `fit.inference_data` adds draws from the prior."""

import warnings

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats

import probreg as pr
from probreg.fits.inference_data import integer_response, labelled_tree

RNG = np.random.default_rng(0)
N = 36
DATA = pd.DataFrame(
    {
        "x": RNG.normal(size=N),
        "g": np.resize(list("abc"), N),
        "s": np.resize(list("uvwxyz"), N),
        "weight": RNG.normal(size=N),
        "count": RNG.poisson(2.0, size=N),
        "kind": np.resize(["p", "q", "r", "q"], N),
    }
)
SHORT = pr.NUTS(draws=30, tune=60, chains=2)
BOTH = pr.Normal(precision_matrix=((2.0, 0.3), (0.3, 1.0)))
PRIORS = {
    "by term": ("weight ~ x + g", {"x": pr.priors.StudentT(0.7, nu=4.0), "g": pr.Normal((1.0, 2.0), location=0.3)}, ["Intercept", "x", "g"]),
    "by column": ("weight ~ x + g", {("x", "g[T.c]"): pr.Normal((0.5, 1.5))}, ["Intercept", "x", "g"]),
    "together": ("weight ~ x + count", {("x", "count"): BOTH}, ["Intercept", "beta[x..count]"]),
    "scale unknown": ("weight ~ x + count", pr.Normal(pr.HalfNormal(1.0)), ["Intercept", "beta[x..count]"]),
    "by group": ("weight ~ x + (1 | s)", {"1 | s": pr.Covariance(pr.HalfNormal(1.0))}, ["Intercept", "x", "effects[s]"]),
}  # fmt: skip


def in_one_variable(fit: pr.Fit):
    """Return the groups of a fit with all coefficients in `beta`, as a file has them."""
    return labelled_tree(
        fit.model, fit.solution, seed=1, attrs={}, rows=True, density=True, repeat=True
    )


def short(model: pr.Model) -> pr.Fit:
    with warnings.catch_warnings():
        # so few draws need not have mixed
        warnings.simplefilter("ignore", pr.ProbregWarning)
        return pr.fit(model, SHORT, seed=1)


@pytest.mark.parametrize("case", PRIORS)
def test_log_priors_by_term_add_up_to_that_of_all(case):
    formula, prior, names = PRIORS[case]
    fit = short(
        pr.Model.from_formula(
            formula, DATA, prior=prior, aux={"sigma": pr.HalfNormal(2.0)}
        )
    )
    together, met = in_one_variable(fit), set()
    for group in {"log_prior", "log_prior_of_effects"} & set(fit.tree.children):
        whole, parts = together[group].to_dataset(), fit.tree[group].to_dataset()
        met |= set(parts) - (set(whole) - {"beta"})
        np.testing.assert_allclose(
            sum(whole.data_vars.values()),
            sum(parts.data_vars.values()),
            rtol=1e-10,
            atol=1e-12,
        )
    assert set(names) == met


@pytest.mark.slow
def test_the_log_prior_is_of_stated_priors_alone():
    """Power-scaling of the prior scales what a user states, and not the density of effects given their scales."""
    prior = {
        "Intercept": pr.Normal(2.0),
        "x": pr.Normal(1.5),
        "(1 | s)": pr.Covariance(pr.HalfNormal(1.0)),
    }
    fit = short(
        pr.Model.from_formula(
            "weight ~ x + (1 | s)", DATA, prior=prior, aux={"sigma": pr.HalfNormal(2.0)}
        )
    )
    tree, draws = fit.tree, fit.solution.posterior
    beta, sd = draws["beta"][..., 0], draws["sd(Intercept | s)"]
    stated = stats.norm(0, 2.0).logpdf(beta[..., 0]) + stats.norm(0, 1.5).logpdf(
        beta[..., 1]
    )
    stated = (
        stated
        + stats.halfnorm(0, 1.0).logpdf(sd)
        + stats.halfnorm(0, 2.0).logpdf(draws["sigma"])
    )
    np.testing.assert_allclose(
        sum(tree["log_prior"].to_dataset().data_vars.values()), stated, rtol=1e-9
    )
    effects = stats.norm(0, sd[..., None]).logpdf(beta[..., 2:]).sum(-1)
    np.testing.assert_allclose(
        tree["log_prior_of_effects"]["effects[s]"], effects, rtol=1e-9
    )
    import arviz as az

    table = az.psense_summary(tree, var_names=["x"])
    assert np.isfinite(table.loc["x", "prior"])


@pytest.mark.slow  # compiles a density
def test_the_log_prior_of_a_term_is_that_of_its_coefficients():
    formula, prior, _ = PRIORS["by term"]
    tree = short(
        pr.Model.from_formula(
            formula, DATA, prior=prior, aux={"sigma": pr.HalfNormal(2.0)}
        )
    ).tree
    posterior, log_prior = tree["posterior"], tree["log_prior"]
    np.testing.assert_allclose(
        log_prior["x"], stats.t(4.0, scale=0.7).logpdf(posterior["x"]), rtol=1e-10
    )
    own = stats.norm(0.3, 1.0).logpdf(posterior["g"].sel(g_dim="b")) + stats.norm(
        0.3, 2.0
    ).logpdf(posterior["g"].sel(g_dim="c"))
    np.testing.assert_allclose(log_prior["g"], own, rtol=1e-10)
    assert (log_prior["Intercept"] == 0).all()  # flat


@pytest.mark.slow
def test_terms_are_columns_of_beta_and_have_the_names_of_the_pymc_model():
    model = pr.Model.from_formula(
        "kind ~ x + g", DATA, likelihood="categorical", prior=pr.Normal(1.0)
    )
    fit = short(model)
    old, new = in_one_variable(fit), fit.tree
    graph = model.to_pymc()
    assert (
        list(new["posterior"])
        == [v.name for v in graph.free_RVs]
        == ["Intercept", "x", "g"]
    )
    for name, values in new["posterior"].data_vars.items():
        assert values.dims[2:] == graph.named_vars_to_dims[name]
    np.testing.assert_array_equal(
        new["posterior"]["g"].sel(g_dim="c", outcome="q"),
        old["posterior"]["beta"].sel(coef="g[T.c]", outcome="q"),
    )
    assert (
        new["observed_data"]["kind"].dtype
        == new["posterior_predictive"]["kind"].dtype
        == np.int64
    )
    assert new["observed_data"]["kind"].attrs["levels"] == "0: p, 1: q, 2: r"
    np.testing.assert_array_equal(
        new["posterior_predictive"]["kind"], old["posterior_predictive"]["y"]
    )
    np.testing.assert_array_equal(new["constant_data"]["x"], DATA["x"])


@pytest.mark.slow  # compiles a density
def test_draws_from_the_prior_are_of_the_prior():
    prior = {
        "Intercept": pr.Normal(2.0),
        "x": pr.Normal(0.5, location=1.0),
        "1 | s": pr.Covariance(pr.HalfNormal(1.0)),
    }
    model = pr.Model.from_formula(
        "weight ~ x + (1 | s)", DATA, prior=prior, aux={"sigma": pr.HalfNormal(2.0)}
    )
    tree = short(model).inference_data(prior=True, prior_draws=4000)
    drawn = tree["prior"]
    assert set(drawn) == set(tree["posterior"])
    assert (
        stats.kstest(drawn["x"].values.ravel(), stats.norm(1.0, 0.5).cdf).pvalue > 1e-3
    )
    # given its standard deviation an effect is normal
    standard = (
        drawn["effects[s]"].sel(s="v", effect="Intercept") / drawn["sd(Intercept | s)"]
    )
    assert stats.kstest(standard.values.ravel(), stats.norm.cdf).pvalue > 1e-3
    assert tree["prior_predictive"]["weight"].shape == (1, 4000, N)
    assert "left_out_of_prior" not in tree.attrs


def test_prior_draws_have_the_observations_of_the_data():
    """By their labels, and one for each observation of a frequency weight."""
    labelled = DATA.set_index(pd.Index([f"row {i}" for i in range(N)]))
    prior = pr.Normal(1.0, scaled=True)
    settings = {
        "prior": {"Intercept": pr.Normal(1.0), "x": prior},
        "aux": {"sigma": 1.0},
    }
    for weights in (None, np.arange(N) % 3 + 1):
        model = pr.Model.from_formula("weight ~ x", labelled, weights=weights, **settings)  # fmt: skip
        tree = pr.fit(model, seed=1).inference_data(prior=True, prior_draws=4000)
        drawn = tree["prior_predictive"]["weight"]
        xr.testing.assert_equal(drawn.obs, tree["observed_data"]["weight"].obs)
        # the standardised scale is that of the weighted rows
        scale = model.joint.blocks[-1].prior.scale[0]
        slopes = tree["prior"]["x"].values.ravel()
        assert stats.kstest(slopes, stats.norm(0.0, scale).cdf).pvalue > 1e-3


def test_flat_coefficients_have_no_prior_draws_and_are_named():
    fit = pr.fit(
        pr.Model.from_formula(
            "count ~ x", DATA, likelihood="poisson", prior={"x": pr.Normal(1.0)}
        ),
        "laplace",
    )
    tree = fit.inference_data(prior=True)
    assert list(tree["prior"]) == ["x"]
    assert "prior_predictive" not in tree
    assert "Intercept" in tree.attrs["left_out_of_prior"]
    flat = pr.fit(fit.model.with_prior(pr.Flat()))
    with pytest.raises(pr.DataError, match="no coefficient has one: Intercept, x"):
        flat.inference_data(prior=True)
    assert list(flat.tree["sampling"]) == ["Intercept", "x"]


def test_names_that_are_taken_are_told_apart():
    data = {
        "obs": [1.0, 3.0, 2.0, 5.0],
        "beta": [0.0, 1.0, 2.0, 3.0],
        "g": list("abab"),
    }
    model = pr.Model.from_formula("obs ~ beta + C(g)", data, prior=pr.Normal(1.0))
    tree = pr.fit(model, "quadrature").tree
    assert list(tree["posterior"]) == ["Intercept", "beta[beta]", "C(g)", "sigma"]
    assert list(tree["observed_data"]) == ["obs (response)"]


@pytest.mark.slow
def test_a_file_with_draws_serves_arviz(tmp_path):
    fit = short(
        pr.Model.from_formula(
            "count ~ x + (1 | s)",
            DATA,
            likelihood="poisson",
            prior={"1 | s": pr.Covariance(pr.HalfNormal(1.0))},
        )
    )
    path = fit.save(tmp_path / "fit.nc", log_likelihood=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import arviz as az

        saved, own = (
            az.loo(az.from_netcdf(path)),
            az.loo(fit.tree, reff=1.0),
        )
        again = az.loo(az.from_netcdf(path), reff=1.0)
    assert saved.n_data_points == N
    assert again.elpd == pytest.approx(own.elpd, rel=1e-12)


def test_variables_stand_at_the_rows_of_the_response_and_displace_nothing():
    data = DATA.assign(X=DATA["x"] ** 2, w=np.resize([1, 2], N))
    fit = pr.fit(
        pr.Model.from_formula("count ~ x + X", data, likelihood="poisson", weights="w"),
        "laplace",
    )
    tree = fit.tree
    np.testing.assert_array_equal(
        tree["constant_data"]["x"], np.repeat(DATA["x"], data["w"])
    )
    np.testing.assert_array_equal(
        tree["observed_data"]["count"], np.repeat(DATA["count"], data["w"])
    )
    assert tree["constant_data"]["X"].dims == (
        "obs",
        "coef",
    )  # the columns, not the variable of that name


def test_counts_that_no_integer_holds_are_refused():
    model = pr.Model.from_formula("count ~ x", DATA, likelihood="poisson")
    for value in (2.0**63, 0.5, np.inf, np.nan):
        with pytest.raises(pr.DataError, match="count"):
            integer_response(model, np.array([1.0, value]))
    assert integer_response(model, np.array([2.0**62])).tolist() == [2**62]


@pytest.mark.parametrize(("formula", "likelihood"), [
    ("count ~ x", "poisson"), ("kind ~ x", "categorical"), ("p(k, n) ~ x", "binomial"),
    pytest.param("count ~ x", "negative_binomial", marks=pytest.mark.slow),
])  # fmt: skip
def test_arviz_draws_a_rootogram_and_the_prior_sensitivity_of_discrete_responses(
    formula, likelihood
):
    import arviz as az
    import matplotlib as mpl

    mpl.use("Agg")
    data = DATA.assign(k=np.resize([1, 4, 2], N), n=5)
    aux = (
        {"alpha": pr.priors.HalfNormal(1.0)}
        if likelihood == "negative_binomial"
        else {}
    )
    prior = {"Intercept": pr.Normal(2.0), "x": pr.Normal(1.0)}
    fit = pr.fit(
        pr.Model.from_formula(
            formula, data, likelihood=likelihood, prior=prior, aux=aux
        ),
        "laplace",
        seed=1,
    )
    response = next(iter(fit.tree["observed_data"]))
    for group in ("observed_data", "posterior_predictive"):
        assert fit.tree[group][response].dtype == np.int64
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        az.plot_ppc_rootogram(fit.tree)
        if not aux:  # ArviZ's own dimension is called alpha too
            az.plot_psense_dist(fit.tree)


def test_priors_in_units_of_a_held_noise_and_of_many_outcomes():
    prior = pr.Normal(0.5, sigma_units=True)
    model = pr.Model.from_formula(
        "weight ~ x",
        DATA,
        prior={"Intercept": pr.Normal(2.0), "x": prior},
        aux={"sigma": 3.0},
    )
    tree = pr.fit(model, "conjugate").inference_data(prior=True)
    np.testing.assert_allclose(
        tree["log_prior"]["x"],
        stats.norm(0.0, 1.5).logpdf(tree["posterior"]["x"]),
        rtol=1e-10,
    )
    assert set(tree["prior"]) == {"Intercept", "x"}  # what is held has no draws
    proper = {"Intercept": pr.Normal(2.0), "x": pr.Normal(1.0), "g": pr.Normal(1.0)}
    model = pr.Model.from_formula(
        "kind ~ x + g", DATA, likelihood="categorical", prior=proper
    )
    drawn = pr.fit(model, "laplace").inference_data(prior=True)["prior"]["x"]
    assert drawn.coords["outcome"].values.tolist() == ["q", "r"]
