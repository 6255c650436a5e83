"""A nuisance parameter at its limit: every result is that of the limit model."""

import numpy as np
import pytest

import probreg as pr
from probreg.likelihoods import LIKELIHOODS

K = np.array([3, 4, 5, 4] * 10)
DATA = {"k": K, "x": np.linspace(-1.0, 1.0, 40), "q": np.tile(["a", "b"], 20)}
NEW = {"x": [0.0, 0.7], "q": ["a", "b"]}
pytestmark = pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
MODELS = ["k ~ x", "k ~ C(q) - 1"]


def test_every_limit_at_zero_is_covered():
    """A likelihood with another limit needs its own case below."""
    assert {
        name: tuple(kind().at_zero)
        for name, kind in LIKELIHOODS.items()
        if kind().at_zero
    } == {
        "negative_binomial": ("alpha",),
        "zero_inflated": ("zero_odds",),
        "hurdle": ("zero_odds",),
    }


@pytest.fixture(
    params=[
        *((formula, "negative_binomial") for formula in MODELS),
        ("k ~ x", pr.NegativeBinomial(variance="nb1")),
        ("k ~ x", "zero_inflated"),
    ],
    scope="module",
)
def pair(request):
    formula, limited = request.param

    def fit(likelihood):
        return pr.fit(pr.Model.from_formula(formula, DATA, likelihood=likelihood))

    return fit(limited), fit("poisson")


def test_a_hurdle_without_zeros_is_the_truncated_model():
    hurdle = pr.fit(pr.Model.from_formula("k ~ x", DATA, likelihood="hurdle"))
    assert hurdle.solution.status.name == "AT_ZERO"
    counts = pr.Model.from_formula("trunc(k, lower=1) ~ x", DATA, likelihood="poisson")
    truncated = pr.fit(counts)
    for name in ("coef", "std_error", "log_likelihood"):
        np.testing.assert_allclose(
            getattr(hurdle, name), getattr(truncated, name), rtol=1e-6, err_msg=name
        )


def test_a_new_count_under_no_overdispersion():
    model = pr.Model.from_formula("k ~ x", DATA, likelihood="negative_binomial")
    new = pr.fit(model).predict({"x": [0.0]})
    assert (new["new_lower"].item(), new["new_upper"].item()) == (1.0, 8.0)
    assert pr.fit(model).predict({"x": [0.0]}, what="log alpha")["log alpha"] == -np.inf


RESULTS = {
    "predict": lambda f: f.predict(NEW).to_dataframe().filter(like="mean"),
    "quantile": lambda f: f.predictive(NEW).quantile(0.9),
    "log-likelihood": lambda f: f.log_likelihood,
    "deviance": lambda f: (f.deviance, f.null_deviance),
    "deviance residuals": lambda f: f.residuals("deviance"),
    "Pearson residuals": lambda f: f.residuals("pearson"),
    "quantile residuals": lambda f: f.residuals("quantile"),
    "Wald interval": lambda f: f.interval(0.9)["upper"],
    "profile interval": lambda f: f.interval(0.9, "profile")["lower"],
    "HC1": lambda f: f.covariance("HC1"),
    "HC3": lambda f: f.covariance("HC3"),
    "leave-one-out": lambda f: pr.compare_models({"a": f}).table[
        ["elpd_loo", "se_loo"]
    ],
    "tests": lambda f: [
        t.statistic
        for t in pr.hypothesis(
            f, f"`{f.coef.coords['coef'].values[-1]}` = 0.1"
        ).tests.values()
    ],
    "slopes": lambda f: pr.predictions(f).table.select_dtypes("number"),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_those_of_the_limit(pair, name):
    of_limit, other = (RESULTS[name](f) for f in pair)
    np.testing.assert_allclose(
        np.asarray(of_limit, float), np.asarray(other, float), rtol=1e-6, atol=1e-7
    )


def test_intervals_of_new_counts_are_those_of_the_limit(pair):
    of_limit, other = (f.predict(NEW).to_dataframe().filter(like="new") for f in pair)
    # quantiles of 2,000 draws, each of its own
    assert np.abs(of_limit - other).to_numpy().max() <= 1


def test_the_parameter_is_reported_at_its_limit(pair, tmp_path):
    fit = pair[0]
    (name,) = fit.aux
    assert fit.aux[name] == 0.0
    assert fit.solution.status.name == "AT_ZERO"
    assert "poisson" in fit.solution.detail.lower()
    fit.save(tmp_path / "fit.nc")
    assert pr.load_fit(tmp_path / "fit.nc").aux[name] == 0.0
    resampled = pr.fit(fit.model, pr.Bootstrap(reps=3), seed=1)
    assert np.isfinite(resampled.std_error).all()


@pytest.mark.slow
def test_a_report_of_a_limit_is_written(tmp_path):
    model = pr.Model.from_formula("k ~ x", DATA, likelihood="zero_inflated")
    path = tmp_path / "report.html"
    pr.report(pr.fit(model), path)
    assert "zero_odds runs to 0" in path.read_text()


TERMS = {"s(z)": "k ~ s(z)", "(1 | g)": "k ~ z + (1 | g)"}


@pytest.mark.parametrize(
    ("name", "limited"),
    [
        ("s(z)", "negative_binomial"),
        ("(1 | g)", "negative_binomial"),
        ("(1 | g)", "zero_inflated"),
    ],
)
def test_smooths_and_groups_are_those_of_the_limit(name, limited):
    z = np.linspace(0.0, 10.0, 80)
    data = {"k": [3, 4, 5, 4] * 20, "z": z, "g": np.repeat(list("abcdefghij"), 8)}
    of_limit, other = (
        pr.fit(pr.Model.from_formula(TERMS[name], data, likelihood=likelihood))
        for likelihood in (limited, "poisson")
    )
    assert of_limit.solution.status.name == "AT_ZERO"
    np.testing.assert_allclose(of_limit.coef, other.coef, atol=1e-6)
    new = {"z": [0.0, 5.0], "g": ["a", "c"]}
    one, two = (f.predict(new).to_dataframe() for f in (of_limit, other))
    np.testing.assert_allclose(
        one.filter(like="mean"), two.filter(like="mean"), rtol=1e-5
    )
    assert np.abs(one.filter(like="new") - two.filter(like="new")).to_numpy().max() <= 1
    if name == "s(z)":
        assert of_limit.smooths["edf"].item() == pytest.approx(1.0, abs=5e-5)
    else:
        assert of_limit.hyper["sd(Intercept | g)"] == pytest.approx(0.0, abs=1e-6)
    reported = of_limit.summary().iloc[len(of_limit.coef) :]["estimate"]
    assert (
        reported[["alpha" if limited != "zero_inflated" else "p_extra_zero"]].item()
        == 0.0
    )


@pytest.mark.slow
def test_a_limit_is_kept_where_the_search_for_a_length_is_repeated():
    data = {"k": [3, 4, 5, 4, 2] * 3, "z": np.linspace(0.0, 3.0, 15)}
    prior = {"gp(z)": pr.priors.GaussianProcess(amplitude=1.0)}
    of_limit, other = (
        pr.fit(
            pr.Model.from_formula("k ~ gp(z)", data, likelihood=likelihood, prior=prior)
        )
        for likelihood in ("zero_inflated", "poisson")
    )
    assert of_limit.solution.status.name == "AT_ZERO"
    errors = [f.predict({"z": [1.1]})["mean_std_error"] for f in (of_limit, other)]
    np.testing.assert_allclose(*errors, rtol=1e-4)


def test_errors_at_the_limit_include_the_uncertainty_of_the_scales():
    k = np.random.default_rng(0).binomial(8, 0.5, 40)
    data = {
        "k": k,
        "x": np.linspace(-1.0, 1.0, 40),
        "g": np.repeat(list("abcdefgh"), 5),
    }
    of_limit, other = (
        pr.fit(pr.Model.from_formula("k ~ x + (1 | g)", data, likelihood=likelihood))
        for likelihood in ("negative_binomial", "poisson")
    )
    assert of_limit.solution.status.name == "AT_ZERO"
    assert (
        of_limit.covariance().attrs["kind"]
        == other.covariance().attrs["kind"]
        == "joint"
    )
    new = {"x": [0.0, 0.5], "g": ["a", "c"]}
    one, two = (f.predict(new)["mean_std_error"] for f in (of_limit, other))
    # sd(1 | g) is found to 1e-4 of its size
    np.testing.assert_allclose(one, two, rtol=1e-3)


def test_two_scales_and_their_correlation_vanish_together():
    data = {"k": K, "x": DATA["x"], "g": np.repeat(list("abcdefgh"), 5)}
    fit = pr.fit(pr.Model.from_formula("k ~ (x | g)", data, likelihood="poisson"))
    assert [fit.hyper[f"sd({c} | g)"] for c in ("Intercept", "x")] == [0.0, 0.0]
    assert fit.coef.values == pytest.approx(np.log(4.0))
