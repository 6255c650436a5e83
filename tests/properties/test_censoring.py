"""Censored and truncated responses: derivatives, PyMC's density, forms of a formula, and consumers of exact responses."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.comparison.interval_panel import coverage
from probreg.diagnostics.bias_variance import bias_variance
from probreg.inference.penalized.degrees import information_of
from probreg.likelihoods import Censored, Exponential, Truncated

from .cases import SIGMA, slope

CONTINUOUS = [pr.Gaussian(), pr.StudentT(), pr.Weibull(), Exponential(), pr.LogLogistic()]  # fmt: skip
CASES = [
    *map(Censored, CONTINUOUS),
    Truncated(pr.Poisson(), lower=1.0),
    Truncated(pr.NegativeBinomial(), lower=2.0, upper=9.0),
    Truncated(pr.Gaussian(), lower=0.0),
    Truncated(pr.Weibull(), lower=0.2, upper=5.0),
]
every = pytest.mark.parametrize("likelihood", CASES, ids=lambda v: f"{v.name}-{v.base.name}")  # fmt: skip


def ends(n: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Exact, right censored, left censored and interval censored rows."""
    low = np.random.default_rng(2).gamma(2.0, 1.0, n)
    high = low.copy()
    high[3:6], low[6:9] = np.inf, -np.inf
    high[9:] += 1.0
    return low, high


def rows(likelihood, n=12):
    rng = np.random.default_rng(1)
    eta = rng.normal(0.4, 1.0, (n, 1))
    aux = dict.fromkeys(likelihood.nuisance, SIGMA)
    if isinstance(likelihood, Censored):
        return np.stack(ends(n), 1), eta, aux
    return likelihood.sample(rng, eta, **aux), eta, aux


@every
def test_gradient_and_curvature_are_slopes(likelihood):
    y, eta, aux = rows(likelihood)

    def shifted(over, t):
        scaled = {a: v * np.exp(t * (over == 1)) for a, v in aux.items()}
        return likelihood.value_grad_hessian(y, eta + t * (over == 0), **scaled)

    exact = shifted(0, 0.0)
    np.testing.assert_allclose(
        likelihood.log_prob(y, eta, **aux), exact.log_prob, rtol=1e-13
    )
    np.testing.assert_allclose(
        likelihood.score(y, eta, **aux), exact.gradient[:, :1], rtol=1e-12
    )
    for k in range(1 + len(aux)):
        numeric = slope(lambda t, k=k: shifted(k, t).log_prob)
        np.testing.assert_allclose(exact.gradient[:, k], numeric, rtol=1e-7, atol=1e-8)
        numeric = -slope(lambda t, k=k: shifted(k, t).gradient)
        np.testing.assert_allclose(exact.curvature[:, k], numeric, rtol=1e-6, atol=1e-7)


@every
def test_mean_and_its_link_are_those_of_the_base(likelihood):
    _, eta, aux = rows(likelihood)
    mean = likelihood.mean(eta, **aux)
    np.testing.assert_array_equal(mean, likelihood.base.mean(eta, **aux))
    line, *slopes = likelihood.link_mean_and_slope(eta, **aux)
    np.testing.assert_allclose(likelihood.link.inverse(line[..., 0]), mean, rtol=1e-14)
    for actual, expected in zip(
        slopes, likelihood.base.link_mean_and_slope(eta, **aux)[1:]
    ):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("base", CONTINUOUS, ids=lambda v: v.name)
def test_no_predictor_has_a_larger_density_than_the_saturated_one(base):
    likelihood = Censored(base)
    y, _, aux = rows(likelihood)
    largest = likelihood.saturated_log_prob(y, np.zeros((len(y), 1)), **aux)
    for eta in np.linspace(-4.0, 8.0, 400):
        at_eta = likelihood.log_prob(y, np.full((len(y), 1), eta), **aux)
        assert (at_eta <= largest + 1e-9).all()


@pytest.mark.parametrize("base", CONTINUOUS, ids=lambda v: v.name)
def test_the_density_increases_in_the_direction_of_recession(base):
    likelihood = Censored(base)
    y, eta, aux = rows(likelihood)
    recession = likelihood.recession(y)
    free = recession.rows[~recession.equal]
    one_sided = np.isinf(y).any(1)
    np.testing.assert_array_equal(free, np.flatnonzero(one_sided))
    further = eta + 0.5 * recession.directions
    increase = likelihood.log_prob(y, further, **aux) - likelihood.log_prob(
        y, eta, **aux
    )
    assert (increase[free] > 0).all()


@every
def test_leading_axes_are_draws(likelihood):
    y, eta, aux = rows(likelihood)
    draws = np.random.default_rng(0).normal(size=(2, 3, 1, 1)) + eta
    for f in (likelihood.log_prob, likelihood.score):
        together = f(y, draws, **{a: np.full((2, 3, 1), v) for a, v in aux.items()})
        np.testing.assert_allclose(together[1, 2], f(y, draws[1, 2], **aux), rtol=1e-13)


@pytest.mark.parametrize("base", CONTINUOUS, ids=lambda v: v.name)
def test_tails_keep_their_digits(base):
    """A right censored row far above its prediction, and an interval far above it."""
    y = np.array([[np.exp(3.0), np.inf], [np.exp(3.0), np.exp(3.0) + 1e-3]])
    eta = np.full((2, 1), -2.0)
    likelihood, aux = Censored(base), dict.fromkeys(base.nuisance, 1.3)
    found = likelihood.value_grad_hessian(y, eta, **aux)
    assert all(np.isfinite(v).all() for v in found)
    density = base.log_prob(y[1:, 0] + 5e-4, eta[1:], **aux)
    assert found.log_prob[1] == pytest.approx(
        float(density[0]) + np.log(1e-3), rel=1e-5
    )


TRUNCATED_COUNTS = [
    Truncated(pr.Poisson(), lower=2.0),
    Truncated(pr.Poisson(link="sqrt"), upper=4.0),
    Truncated(pr.NegativeBinomial(), lower=3.0),
    Truncated(pr.NegativeBinomial(variance="nb1"), lower=2.0, upper=9.0),
    Truncated(pr.NegativeBinomial(), lower=0.0),
]


@pytest.mark.parametrize("base", [pr.Gaussian(), pr.Weibull(), pr.LogLogistic()], ids=lambda v: v.name)  # fmt: skip
def test_slopes_are_finite_where_a_censored_row_has_hardly_any_probability(base):
    """P(Y > y) is less than exp(-1000), and smaller than any number."""
    likelihood = Censored(base)
    scale = 1e-3
    eta = np.array([[-2.0]])
    y = np.array([[0.5, np.inf]])
    if base.name == "weibull":
        eta = np.log(y[:, :1]) - 8.0 * scale
    aux = dict.fromkeys(base.nuisance, scale)
    local = likelihood.value_grad_hessian(y, eta, **aux)
    density = likelihood.compiled_density
    t = density.settings(np.array([scale]), likelihood.constants)
    log_p, *slopes = density.row(y[0], eta[0, 0], np.array(t))
    assert log_p == pytest.approx(local.log_prob[0], rel=1e-12)
    np.testing.assert_allclose(slopes, local.gradient[0], rtol=1e-9)
    assert np.isfinite(local.curvature).all()


NOISE = [
    *(pr.StudentT(nu=nu) for nu in (1.0, 2.5, 4.0, 100.0)),
    *map(pr.likelihoods.Huber, (0.5, 1.345, 3.0)),
    *map(pr.likelihoods.PowerNoise, (1.1, 1.5, 2.5)),
    pr.Gaussian(),
    pr.LogNormal(),
]


@pytest.mark.parametrize("base", NOISE, ids=str)
@pytest.mark.parametrize("eta", [-0.7, 0.4, 2.0])
def test_compiled_rows_of_continuous_responses_are_their_densities(base, eta):
    ends = [
        (0.6, 0.6),
        *((0.6, np.inf), (-np.inf, 0.6), (0.6, 0.9), (0.6, 6.0)),
        *((9.0, np.inf), (6.0, np.inf), (2.0, 9.0), (4.6, 9.0)),
    ]
    cases = [
        (Censored(base), ends),
        (Truncated(base, lower=0.5), [1.0, 7.0]),
        (Truncated(base, lower=0.5, upper=8.0), [1.0, 7.0]),
    ]
    for likelihood, responses in cases:
        y, predictor = np.array(responses), np.full((len(responses), 1), eta)
        expected = likelihood.value_grad_hessian(y, predictor, sigma=SIGMA)
        t = np.array(likelihood.settings(sigma=SIGMA))
        log_p = expected.log_prob - likelihood.base_measure(y)
        for i, response in enumerate(y):
            row = likelihood.compiled_density.row(response, eta, t)
            exact = log_p[i], *expected.gradient[i]
            np.testing.assert_allclose(row, exact, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("likelihood", TRUNCATED_COUNTS, ids=str)
@pytest.mark.parametrize("eta", [0.01, 0.6, 2.0])
def test_the_compiled_row_of_a_truncated_count_is_its_density(likelihood, eta):
    y = np.array([3.0])
    aux = dict.fromkeys(likelihood.nuisance, SIGMA)
    settings = likelihood.compiled_density.settings
    t = settings(np.array([*aux.values()]), ()) if settings else ()
    log_p, *slopes = likelihood.compiled_density.row(3.0, eta, np.array(t))
    expected = likelihood.value_grad_hessian(y, np.array([[eta]]), **aux)
    log_p += likelihood.base_measure(y)[0]
    assert log_p == pytest.approx(expected.log_prob[0], rel=1e-12)
    np.testing.assert_allclose(
        slopes[: 1 + len(aux)], expected.gradient[0], rtol=1e-11, atol=1e-12
    )


@pytest.mark.parametrize(
    ("lower", "mu"), [(2, 5e-5), (10, 1e-11), (10, 0.05), (400, 290.0)]
)
def test_counts_keep_their_digits_where_hardly_any_lies_in_the_interval(lower, mu):
    """1 - P(Y < lower) is rounding error, or has lost half of its digits."""
    likelihood = Truncated(pr.Poisson(), lower=float(lower))
    k = lower + 2.0
    y, eta = np.array([k]), np.log(mu)
    local = likelihood.value_grad_hessian(y, np.array([[eta]]))
    # d P(Y >= a) / d mu = p(a - 1), and P(Y >= a) is the sum of p(k)
    log_mass = np.log(stats.poisson.pmf(np.arange(lower, 3 * lower + 50), mu).sum())
    log_p = stats.poisson.logpmf([lower - 1, k], mu)
    ratio = mu * np.exp(log_p[0] - log_mass)
    bend = mu + ratio * (lower - mu - ratio)
    assert local.log_prob[0] == pytest.approx(log_p[1] - log_mass, rel=1e-12)
    assert local.gradient[0, 0] == pytest.approx(k - mu - ratio, rel=1e-10)
    assert local.curvature[0, 0, 0] == pytest.approx(bend, rel=1e-6, abs=1e-11)
    row = likelihood.compiled_density.row(k, eta, np.array([]))
    assert row[0] + likelihood.base_measure(y)[0] == pytest.approx(
        local.log_prob[0], rel=1e-12
    )
    assert row[1] == pytest.approx(local.gradient[0, 0], rel=1e-10)


@pytest.mark.parametrize(
    "likelihood",
    [
        *map(Censored, (pr.Gaussian(), pr.LogLogistic(), pr.StudentT())),
        Truncated(pr.Gaussian(), lower=0.1),
        Truncated(pr.LogNormal(), lower=0.0, upper=9.0),
        Truncated(pr.StudentT(), lower=0.1, upper=9.0),
        Truncated(pr.Poisson(), lower=2.0),
        Truncated(pr.NegativeBinomial(), lower=2.0, upper=9.0),
    ],
    ids=lambda v: f"{v.name}-{v.base.name}",
)
def test_pymc_has_the_same_density(likelihood):
    from pymc.model.transform.conditioning import remove_value_transforms

    rng = np.random.default_rng(3)
    base = likelihood.base
    y = rows(likelihood)[0]
    model = pr.Model.from_arrays(
        rng.normal(size=(12, 1)),
        y,
        likelihood=likelihood,
        prior={"x1": pr.Normal(0.8), "Intercept": pr.Normal(2.3)},
        aux={a: pr.HalfNormal(1.7) for a in base.nuisance},
    )
    log_p = remove_value_transforms(model.to_pymc()).compile_logp(
        jacobian=False, mode="FAST_COMPILE"
    )
    beta, aux = rng.normal(size=(2, 1)), dict.fromkeys(base.nuisance, 0.9)
    point = {**aux, "Intercept": beta[0, 0], "x1": beta[1, 0]}
    np.testing.assert_allclose(
        log_p(point), model.log_posterior(beta, **aux), rtol=1e-11
    )


TIMES = {
    "t": [1.0, 2.0, 3.0, 4.0],
    "event": [True, False, True, False],
    "status": [2, 1, 2, 1],
    "x": [0.0, 1.0, 1.0, 0.0],
}


@pytest.mark.parametrize(
    "response",
    [
        "cens(t, event)",
        "cens(t, status == 2)",
        "cens(t, event=event)",
        "cens(lower=t, upper=up)",
        "cens(t, up)",
    ],
)
def test_forms_of_right_censored_times(response):
    data = {**TIMES, "up": [1.0, np.nan, 3.0, np.inf]}
    model = pr.Model.from_formula(f"{response} ~ x", data, likelihood="weibull")
    expected = [[1.0, 1.0], [2.0, np.inf], [3.0, 3.0], [4.0, np.inf]]
    np.testing.assert_array_equal(model.design.y, expected)
    np.testing.assert_array_equal(model.at(data).design.y, expected)
    times = pr.censored(TIMES["t"], TIMES["event"])
    np.testing.assert_array_equal(times.ends, expected)


@pytest.mark.parametrize(
    ("response", "message"),
    [
        ("cens(t, status)", "status == 2"),
        ("cens(t)", "cens\\(time, event\\)"),
        ("cens(t, event, x)", "cens\\(time, event\\)"),
        ("trunc(t)", "trunc\\(y, lower=1\\)"),
        ("trunc(t, lower=x)", "numbers"),
        ("trunc(t, lower=2)", "row 0"),
        ("cens(ones, ones)", "indicator or an upper end"),
        ("cens(lower=up, upper=t)", "row 0"),
    ],
)
def test_errors_name_the_form_to_write(response, message):
    data = {**TIMES, "ones": np.ones(4), "up": [5.0, 6.0, 7.0, 8.0]}
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_formula(f"{response} ~ x", data)


def test_limits_censor_the_values_at_and_beyond_them():
    model = pr.Model.from_formula("cens(t, lower=2, upper=4) ~ x", TIMES)
    expected = [[-np.inf, 2.0], [-np.inf, 2.0], [3.0, 3.0], [4.0, np.inf]]
    np.testing.assert_array_equal(model.design.y, expected)


def test_a_positive_response_with_lower_end_zero_is_left_censored():
    censored = Censored(pr.Weibull())
    y = censored.encode(np.array([[0.0, 2.0], [1.0, 3.0]]))
    np.testing.assert_array_equal(y, [[-np.inf, 2.0], [1.0, 3.0]])
    y = Censored(pr.Gaussian()).encode(np.array([[0.0, 2.0]]))
    np.testing.assert_array_equal(y, [[0.0, 2.0]])


def test_counts_are_truncated_and_not_censored():
    with pytest.raises(pr.Incompatible, match="trunc"):
        pr.Model.from_formula("cens(t, event) ~ x", TIMES, likelihood="poisson")


@pytest.fixture(scope="module")
def fit() -> pr.Fit:
    rng = np.random.default_rng(5)
    x = rng.normal(size=300)
    time = np.exp(1.0 + 0.5 * x + 0.4 * np.log(rng.exponential(size=300)))
    limit = rng.exponential(5.0, 300)
    data = {"t": np.minimum(time, limit), "event": time <= limit, "x": x}
    return pr.fit(
        pr.Model.from_formula("cens(t, event) ~ x", data, likelihood="weibull")
    )


def test_quantile_residuals_of_censored_rows_are_standard_normal(fit):
    r = np.asarray(fit.residuals("quantile"))
    assert np.abs(r).max() < 6
    assert abs(r.mean()) < 4 / np.sqrt(300)
    assert abs(r.std() - 1.0) < 4 / np.sqrt(600)
    assert np.isnan(np.asarray(fit.residuals("response"))).sum() == int(
        fit.model.likelihood.is_censored(fit.model.design.y).sum()
    )


@pytest.mark.slow
def test_a_censored_row_is_not_compared_as_if_exact(fit):
    posterior = pr.fit(fit.model, method="laplace", seed=1)
    for call in (
        lambda: pr.plot.ppc(posterior),
        lambda: pr.conformal(fit),
    ):
        with pytest.raises(pr.Incompatible, match="rows are censored"):
            call()
    with pytest.raises(pr.Incompatible, match="expected information has no formula"):
        fit.covariance("expected")
    assert "nan" not in str(pr.diagnose(posterior))


def test_a_right_censored_row_has_a_positive_deviance_residual():
    """The response is larger than the limit, so that a larger mean always has a larger likelihood."""
    data = {"t": [1.0, 2.5, 3.0, 4.0, 6.0, 0.5], "event": [1, 1, 0, 1, 0, 0]}
    model = pr.Model.from_formula("cens(t, event) ~ 1", data, likelihood="weibull")
    r = np.asarray(pr.fit(model).residuals("deviance"))
    assert (r[np.array(data["event"]) == 0] > 0.0).all()


@pytest.mark.parametrize("name", ["weibull", "log_normal"])
def test_deviance_residuals_rise_with_the_time(name):
    """They are zero at exp(eta), where the likelihood is largest, and not at the mean; survreg has the same signs."""
    data = {"t": [1.0, 2.5, 3.0, 4.0, 6.0, 0.5]}
    fit = pr.fit(pr.Model.from_formula("t ~ 1", data, likelihood=name))
    residuals = fit.residuals("deviance").values
    assert (np.diff(residuals[np.argsort(data["t"])]) > 0.0).all()


def test_pearson_residuals_of_a_censored_exponential_are_over_its_mean():
    data = {"t": [1.0, 2.5, 3.0, 4.0], "event": [1, 0, 1, 1]}
    model = pr.Model.from_formula("cens(t, event) ~ 1", data, likelihood="exponential")
    residuals = pr.fit(model).residuals("pearson")
    mean = 10.5 / 3  # the total time over the number of events
    expected = np.array([1.0, np.nan, 3.0, 4.0]) / mean - 1.0
    np.testing.assert_allclose(residuals, expected, rtol=1e-6)


def test_pictures_count_the_censored_rows(fit):
    count = int(fit.model.likelihood.is_censored(fit.model.design.y).sum())
    for draw in (pr.plot.fitted, pr.plot.diagnose):
        notes = " ".join(text.get_text() for text in draw(fit).texts)
        assert f"{count} censored rows" in " ".join(notes.split())


def test_groups_and_smooths_work_with_censored_times(fit):
    rng = np.random.default_rng(6)
    g = np.repeat(np.arange(30), 10)
    u = 0.6 * rng.normal(size=30)
    time = np.exp(1.0 + u[g] + 0.4 * np.log(rng.exponential(size=300)))
    limit = rng.exponential(8.0, 300)
    data = {"t": np.minimum(time, limit), "e": time <= limit, "g": g.astype(str), "x": rng.normal(size=300)}  # fmt: skip
    mixed = pr.Model.from_formula(
        "cens(t, e) ~ x + (1 | g)", data, likelihood="weibull"
    )
    assert pr.fit(mixed, method="evidence").solution.status.name == "CONVERGED"
    assert np.isfinite(pr.gam("cens(t, e) ~ s(x)", data, likelihood="weibull").log_likelihood)  # fmt: skip


def test_a_saved_fit_reads_back(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    again = pr.load_fit(tmp_path / "fit.nc")
    assert again.model.likelihood == fit.model.likelihood
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, rel=1e-14)


@pytest.mark.parametrize("lower", [0.0, -np.inf])
def test_counts_truncated_below_zero_are_not_truncated(lower):
    y, eta = np.array([0.0, 3.0]), np.array([[0.4], [-0.7]])
    cut = pr.likelihoods.Truncated(pr.Poisson(), lower=lower)
    np.testing.assert_array_equal(cut.log_prob(y, eta), pr.Poisson().log_prob(y, eta))
    for a, b in zip(
        cut.value_grad_hessian(y, eta), pr.Poisson().value_grad_hessian(y, eta)
    ):
        np.testing.assert_array_equal(a, b)


def test_counts_have_the_same_density_at_any_lower_limit_between_two_counts():
    y, eta = np.array([1.0, 3.0]), np.array([[0.4], [-0.7]])
    half, one = (Truncated(pr.Poisson(), lower=v) for v in (0.5, 1.0))
    np.testing.assert_array_equal(half.log_prob(y, eta), one.log_prob(y, eta))


@pytest.mark.parametrize("base", CONTINUOUS, ids=lambda v: v.name)
def test_simulated_rows_are_censored_in_the_interval_of_their_row(base):
    """The share of censored draws is the probability of the interval, and the other draws have the rest of the distribution."""
    likelihood = Censored(base)
    n = 20_000
    y = np.repeat(np.stack(ends(), 1), n, 0)
    eta = np.full((len(y), 1), 0.4)
    aux = dict.fromkeys(likelihood.nuisance, SIGMA)
    drawn = likelihood.sample_like(y, np.random.default_rng(3), eta, **aux)
    low = drawn[:, 0]
    is_censored = likelihood.is_censored(drawn)
    np.testing.assert_array_equal(drawn[is_censored], y[is_censored])
    inside = (y[:, 0] < low) & (low <= y[:, 1])
    assert not inside[~is_censored].any()
    one_each = y[::n]
    mass = np.where(
        likelihood.is_censored(one_each),
        np.exp(likelihood.log_prob(one_each, eta[::n], **aux)),
        0.0,
    )
    error = np.sqrt(mass * (1.0 - mass) / n)
    share = is_censored.reshape(-1, n).mean(1)
    # of 12 shares
    assert (np.abs(share - mass) <= 4.5 * error).all()


def test_coverage_of_censored_responses_has_robust_intervals():
    x = np.linspace(-1.0, 1.0, 30)
    data = {"x": x, "t": np.exp(x), "event": np.arange(30) % 3 > 0}
    model = pr.Model.from_formula("cens(t, event) ~ x", data, likelihood="exponential")
    found = coverage(model, [0.0, 1.0], reps=3)
    kinds = found.table.index.get_level_values("kind")
    assert set(kinds) == {"wald", "HC3", "profile", "score"}


def test_simulated_data_sets_keep_the_limits_of_their_rows():
    """Nearly all times are beyond limits of 1e-9, so that the slope of the replicates does not exist."""
    x = np.linspace(-1.0, 1.0, 20)
    data = {"x": x, "t": np.full(20, 1e-9), "event": np.arange(20) == 0}
    prior = {"Intercept": pr.Normal(0.1), "x": pr.Normal(0.1)}
    model = pr.Model.from_formula(
        "cens(t, event) ~ x", data, likelihood="exponential", prior=prior
    )
    drawn = pr.simulate(model, np.random.default_rng(0)).model.design.observed
    assert model.likelihood.is_censored(drawn).tolist() == (x > -1.0).tolist()
    flat = model.with_prior(pr.Flat())
    found = coverage(flat, [0.0, 1.0], kinds=["wald"], reps=3)
    assert found.failures["wald"] == {"separated": 3}
    with pytest.raises(pr.NotConverged, match="0 of 3"):
        bias_variance(flat, pr.Truth([0.0, 1.0]), reps=3, method="newton")


def test_intervals_without_an_end_are_not_dropped_from_files(tmp_path):
    rng = np.random.default_rng(0)
    x, e = rng.normal(size=(2, 40))
    low, high = x + e - 0.2, x + e + 0.2
    low[:8], high[8:20], x[20] = np.nan, np.inf, np.nan
    data = pd.DataFrame({"x": x, "low": low, "high": high})
    data.to_csv(tmp_path / "a.csv", index=False)
    formula = "cens(low, high) ~ x"
    here = pr.Model.from_formula(formula, data, missing="drop")
    there = pr.Model.from_files(formula, tmp_path / "a.csv", missing="drop")
    assert here.design.count == there.design.count == 39
    np.testing.assert_allclose(pr.fit(there).coef, pr.fit(here).coef, rtol=1e-7)


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ([-np.inf, 0.0], "is positive; row 1 ends at -inf and 0"),
        ([-1.0, 2.0], "is positive; row 1 ends at -1 and 2"),
        ([2.0, 1.0], "lower <= upper; row 1 has lower = 2 and upper = 1"),
        ([-np.inf, np.inf], "row 1 of the response has no finite end"),
    ],
)
def test_impossible_ends_of_a_positive_response_name_their_row(ends, reason):
    with pytest.raises(pr.DataError, match=reason):
        pr.likelihoods.Censored(pr.likelihoods.Weibull()).encode(
            np.array([[1.0, 1.0], ends])
        )


def test_degrees_of_freedom_count_the_information_of_censored_rows() -> None:
    x = np.linspace(0.0, 1.0, 40)
    time = np.exp(np.sin(5.0 * x) + 0.5 * np.cos(37.0 * x))
    rows = {"x": x, "time": np.minimum(time, 1.5), "event": (time < 1.5).astype(int)}
    line = pr.Model.from_formula(
        "cens(time, event) ~ x", rows, likelihood="weibull", aux={"scale": 0.5}
    )
    fit = pr.fit(line)
    J = information_of(line, fit.solution.beta)
    np.testing.assert_allclose(np.linalg.inv(fit.covariance()), J, rtol=1e-6)


def test_bounds_and_conformal_sets_need_every_response():
    x = np.linspace(-1.0, 1.0, 40)
    table = {
        "x": x,
        "y": x + np.sin(9.0 * np.arange(40.0)),
        "event": np.tile([1, 1, 0, 1], 10),
    }
    censored = pr.fit(pr.Model.from_formula("cens(y, event) ~ x", table))
    for verb in (pr.conformal, lambda fit: pr.guarantee(fit, (-9.0, 9.0))):
        with pytest.raises(pr.Incompatible, match="10 of 40 rows are censored"):
            verb(censored)
    # limits that no row reaches
    limited, plain = (
        pr.fit(pr.Model.from_formula(f, table), "newton")
        for f in ("cens(y, lower=-99) ~ x", "y ~ x")
    )
    sets = [pr.conformal(fit).predict({"x": [0.3]}) for fit in (limited, plain)]
    np.testing.assert_allclose(sets[0]["upper"], sets[1]["upper"], rtol=1e-5)
    bounds = [
        pr.guarantee(f, (-9.0, 9.0)).held_out.bound.value for f in (limited, plain)
    ]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-5)
    # held-out rows need their responses too
    unused = {"x": x + 0.01, "y": np.where(table["event"] > 0, table["y"], -99.0)}
    with pytest.raises(pr.Incompatible, match="10 of 40 rows are censored"):
        pr.guarantee(limited, (-99.0, 9.0), data=unused)


@pytest.mark.parametrize("kind", ["parametric", "residual"])
def test_a_bootstrap_of_responses_does_not_guess_their_censoring(fit, kind):
    with pytest.raises(pr.Incompatible, match=r"limits .* are not known; use pairs"):
        pr.fit(fit.model, pr.Bootstrap(kind=kind, reps=5))


def test_times_of_survival_are_numbers(fit):
    with pytest.raises(pr.DataError, match="times must be numeric; row 1 holds 'b'"):
        fit.survival([1.0, "b"])


@pytest.mark.parametrize(
    ("likelihood", "eta", "aux"),
    [
        (Truncated(pr.Gaussian(), lower=0.0), -30.0, {"sigma": 1.0}),
        (Truncated(pr.Gaussian(), upper=0.0), 8.0, {"sigma": 0.5}),
        (Truncated(pr.Gaussian(), lower=1.0, upper=1.2), 0.0, {"sigma": 0.01}),
        (Truncated(pr.Weibull(), lower=20.0), 0.0, {"scale": 0.5}),
        # far from the end
        (Truncated(pr.Gaussian(), lower=0.0), -30.0, {"sigma": 200.0}),
        (Truncated(pr.Gaussian(), upper=0.0), 30.0, {"sigma": 200.0}),
    ],
    ids=lambda v: "" if isinstance(v, dict) else str(v),
)
def test_draws_of_an_interval_with_little_mass_have_its_distribution(
    likelihood, eta, aux
):
    eta = np.full((400, 1), eta)
    y = likelihood.sample(np.random.default_rng(3), eta, **aux)
    share = likelihood.cdf(y, eta, **aux)
    assert stats.kstest(share, "uniform").pvalue > 0.01
    # p is the slope of the distribution function
    h = 1e-4 * (y - y.min() + 1e-3 * np.ptp(y))[:, None] * [-1.0, 1.0]
    ends = np.stack([likelihood.cdf(y + h[:, k], eta, **aux) for k in (0, 1)], 1)
    slope = np.diff(ends, axis=1)[:, 0] / np.diff(h, axis=1)[:, 0]
    density = np.exp(likelihood.log_prob(y, eta, **aux))
    np.testing.assert_allclose(slope, density, rtol=1e-3)


@pytest.mark.parametrize(
    ("base", "lower", "upper", "aux"),
    [
        (pr.Poisson(), 5.0, np.inf, {}),
        (pr.Poisson(), -np.inf, 1.0, {}),
        (pr.NegativeBinomial(), 1.0, np.inf, {"alpha": 50.0}),
    ],
    ids=str,
)
def test_draws_of_rare_counts_have_their_probabilities(base, lower, upper, aux):
    likelihood = Truncated(base, lower=lower, upper=upper)
    eta = np.full((2000, 1), -3.0 if np.isinf(upper) else 4.0)
    y = likelihood.sample(np.random.default_rng(3), eta, **aux)
    for count in np.unique(y)[:4]:
        p = np.exp(likelihood.log_prob(np.array([count]), eta[:1], **aux))[0]
        assert abs((y == count).mean() - p) < 4.0 * np.sqrt(p * (1.0 - p) / 2000) + 1e-6


def test_censored_arrays_are_those_of_a_formula():
    rng = np.random.default_rng(1)
    x, time, event = rng.normal(size=30), rng.weibull(1.5, 30), rng.integers(0, 2, 30)
    y = pr.censored(time, event)
    model = pr.Model.from_arrays(x, y, columns=["x"], likelihood="weibull")
    data = {"x": x, "time": time, "event": event}
    expected = pr.fit(
        pr.Model.from_formula("cens(time, event) ~ x", data, likelihood="weibull")
    )
    np.testing.assert_array_equal(pr.fit(model).coef, expected.coef)
    rows = model.at(x[:4], pr.censored(time[:4], event[:4]))
    np.testing.assert_array_equal(rows.design.observed, y.ends[:4])
    with pytest.raises(pr.DataError, match="4 new rows and 3 responses"):
        model.at(x[:4], pr.censored(time[:3], event[:3]))
    with pytest.raises(pr.DataError, match="30 rows and y has 3"):
        pr.Model.from_arrays(x, pr.censored(time[:3], event[:3]))
