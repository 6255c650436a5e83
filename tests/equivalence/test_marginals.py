"""Ends of intervals where the marginal posterior is known: two routes to one number, and not those of draws."""

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.inference.uncertainty.intervals.marginals import (
    NormalMixture,
    OnNodes,
    RootInverseGamma,
)

RNG = np.random.default_rng(21)
X = RNG.normal([50.0, 0.3, -2.0], [3.0, 0.5, 1.0], (14, 3))
Y = X @ [0.2, -1.5, 0.7] + RNG.normal(0, 1.3, 14)


@pytest.mark.parametrize(
    ("prior", "sigma"),
    [
        (pr.Flat(), pr.priors.InverseGamma(2.5, 0.6)),
        (pr.Normal(0.8, location=0.1, sigma_units=True), pr.priors.Reference()),
    ],
    ids=["flat", "normal"],
)
def test_ends_by_quadrature_are_those_of_the_conjugate_family(prior, sigma):
    """Mixtures over nodes against Student's t and the root of an inverse gamma; 1e-9 is what 160 nodes leave."""
    model = pr.Model.from_arrays(X, Y, prior=prior, aux={"sigma": sigma})
    exact, nodes = (
        pr.fit(model, "conjugate", seed=1),
        pr.fit(model, "quadrature", seed=2),
    )
    for kind, prob in (("eti", 0.5), ("eti", 0.99), ("hdi", 0.9)):
        a, b = exact.interval(prob, kind), nodes.interval(prob, kind)
        width = (a["upper"] - a["lower"]).values
        # where the density is flat the shortest interval is known to the root of rounding only
        tol = 1e-9 if kind == "eti" else 1e-7
        assert np.abs((a - b).to_array().values / width).max() < tol
        assert exact.aux_interval("sigma", prob, kind) == pytest.approx(
            nodes.aux_interval("sigma", prob, kind), rel=1e-8
        )
    s = exact.solution
    sigma2 = stats.invgamma(s.df / 2, scale=s.stats["sigma2_scale"] * s.df / 2)
    assert np.square(exact.aux_interval("sigma", 0.9)) == pytest.approx(
        sigma2.ppf([0.05, 0.95]), rel=1e-10
    )


@pytest.mark.slow
def test_ends_do_not_move_with_the_draws(tmp_path):
    model = pr.Model.from_arrays(
        X, Y, prior=pr.Normal(1.0), aux={"sigma": pr.priors.HalfCauchy(1.0)}
    )
    one, two = (
        pr.fit(model, pr.Quadrature(draws=1, chains=1), seed=1),
        pr.fit(model, "quadrature", seed=2),
    )
    np.testing.assert_array_equal(
        one.interval(0.9).to_array(), two.interval(0.9).to_array()
    )
    read = pr.load_fit(two.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(
        read.interval(0.9).to_array(), two.interval(0.9).to_array()
    )
    assert read.aux_interval("sigma", 0.9, "hdi") == two.aux_interval(
        "sigma", 0.9, "hdi"
    )
    # and they are those of the draws
    draws = pr.fit(model, pr.Quadrature(draws=20_000), seed=3).solution.draws
    low, high = np.quantile(draws["beta"].reshape(-1, 4), [0.05, 0.95], axis=0)
    np.testing.assert_allclose(
        low, two.interval(0.9)["lower"], atol=0.04 * two.std_error.max()
    )
    np.testing.assert_allclose(
        high, two.interval(0.9)["upper"], atol=0.04 * two.std_error.max()
    )


def test_a_posterior_under_a_raw_prior_is_that_of_a_grid():
    """One column, a normal prior that pulls, a bounded sigma: the grid over (beta, sigma) summed by hand."""
    x, y, tau = np.array([-1.0, 0.2, 0.9, 2.0]), np.array([-0.8, 0.9, 0.4, 2.9]), 0.3
    model = pr.Model.from_arrays(
        x,
        y,
        intercept=False,
        prior=pr.Normal(tau),
        aux={"sigma": pr.priors.Uniform(0.2, 1.5)},
    )
    fit = pr.fit(model, pr.Quadrature(draws=1))
    b, s = np.linspace(-2, 3, 4001), np.linspace(0.2, 1.5, 3001)
    rss = ((y - b[:, None] * x) ** 2).sum(1)[:, None]
    p = np.exp(-rss / (2 * s**2) - 4 * np.log(s) - (b[:, None] / tau) ** 2 / 2)
    # the trapezium rule in sigma, which ends at its bounds
    ends = np.r_[0.5, np.ones(2999), 0.5]
    for density, at, interval in (
        (p @ ends, b, fit.interval(0.8).to_array().values.ravel()),
        (p.sum(0), s, np.array(fit.aux_interval("sigma", 0.8))),
    ):
        mass = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        np.testing.assert_allclose(
            np.interp(interval, at, mass / mass[-1]), [0.1, 0.9], atol=1e-4
        )


@pytest.mark.parametrize(
    "marginal",
    [
        NormalMixture(np.array([0.7, 0.3]), np.array([0.0, 1.0]), np.array([1.0, 3.0])),
        RootInverseGamma(1.5, 0.3),
        RootInverseGamma(40.0, 90.0),
    ],
    ids=["mixture", "few", "many"],
)
def test_the_highest_density_is_the_shortest_interval(marginal):
    for prob in (0.3, 0.95):
        low, high = marginal.highest_density(prob)
        assert marginal.cdf(high) - marginal.cdf(low) == pytest.approx(prob, abs=1e-10)
        assert marginal.density(low) == pytest.approx(marginal.density(high), rel=1e-6)
        below = marginal.cdf(low)
        for other in (0.7 * below, min(1.3 * below, 0.999 * (1 - prob))):
            assert (
                marginal.quantile(other + prob) - marginal.quantile(other) > high - low
            )


def test_a_density_that_only_falls_has_its_shortest_interval_at_its_edge():
    x, w = np.polynomial.legendre.leggauss(40)
    log = np.log(1.0) + (np.log(3.0) - np.log(1.0)) * (x + 1) / 2
    # of the log: an exponential between 1 and 3
    density = np.exp(log) * np.exp(-np.exp(log))
    found = OnNodes(w * density / (w @ density), log)
    low, high = found.highest_density(0.6)
    total = np.exp(-1) - np.exp(-3)
    assert low == pytest.approx(1.0, rel=1e-9)
    assert high == pytest.approx(-np.log(np.exp(-1) - 0.6 * total), rel=1e-9)
    assert found.equal_tail(0.6) == pytest.approx(
        -np.log(np.exp(-1) - np.array([0.2, 0.8]) * total), rel=1e-10
    )


def test_a_mixture_has_the_tails_of_its_parts():
    """Far ends of one normal part are those of the normal distribution, and lie within the support."""
    found = NormalMixture(np.array([1.0]), np.array([3.0]), np.array([2.0]))
    share = np.array([1e-12, 1e-6, 0.01, 0.99, 1 - 1e-6])
    np.testing.assert_allclose(
        found.quantile(share), stats.norm(3.0, 2.0).ppf(share), rtol=1e-9
    )
    low, high = found.support
    assert found.cdf(np.array([low, high])) == pytest.approx([0.0, 1.0], abs=1e-15)


def test_a_print_takes_the_summary_once(monkeypatch):
    rng = np.random.default_rng(4)
    x = rng.normal(size=30)
    fit = pr.fit(
        pr.Model.from_arrays(x, x + rng.normal(size=30), prior=pr.Normal(1.0)),
        "quadrature",
    )
    asked, summary = [], pr.Fit.summary

    def counted(*given, **settings):
        asked.append(1)
        return summary(*given, **settings)

    monkeypatch.setattr(pr.Fit, "summary", counted)
    assert "95 % equal-tailed intervals" in str(fit)
    assert len(asked) == 1


def test_no_probability_of_a_mixture_is_over_one():
    rng = np.random.default_rng(0)
    for _ in range(6):
        y = 3.0 * np.arange(25) + 0.1 * rng.normal(size=25)
        fit = pr.fit(
            pr.Model.from_arrays(
                np.arange(25.0), y, prior=pr.Normal(10.0), columns=["x"]
            ),
            "quadrature",
        )
        told = fit.summary()["p_positive"].dropna()
        assert told["x"] == 1.0
        assert 0.0 < told["Intercept"] < 1.0
        assert pr.hypothesis(fit, "x < 0").beliefs[0].value < 1e-15
        assert pr.hypothesis(fit, "x > 0").beliefs[0].value == 1.0


HEAVY = {
    "half-Cauchy": pr.priors.HalfCauchy(2.0),
    "half-t": pr.priors.HalfStudentT(1.0, nu=1.5),
    "inverse gamma": pr.priors.InverseGamma(0.4, 1.0),
}


@pytest.mark.parametrize("name", HEAVY)
def test_ends_of_heavy_tails_are_those_of_the_integral_over_sigma(name):
    """Two rows and two columns: the posterior of sigma is its prior, and beta given sigma is normal with variance sigma^2 V."""
    prior = HEAVY[name]
    model = pr.Model.from_formula(
        "y ~ x", {"x": [0.0, 1.0], "y": [1.0, 3.0]}, aux={"sigma": prior}
    )
    fit = pr.fit(model, "quadrature")
    found = fit.interval(0.9)
    u = np.linspace(-120.0, 120.0, 400_001)  # log sigma, by the trapezoidal rule
    weight = np.exp(prior.log_prob(np.exp(u)) + u)
    for centre, unit, column in ((1.0, 1.0, "Intercept"), (2.0, np.sqrt(2.0), "x")):
        for side in ("lower", "upper"):
            z = (float(found[side].sel(coef=column)) - centre) / unit
            below = weight @ stats.norm.cdf(z * np.exp(-u)) / weight.sum()
            assert below == pytest.approx(0.05 if side == "lower" else 0.95, abs=1e-10)
    if name == "half-Cauchy":
        np.testing.assert_allclose(
            found.sel(coef="Intercept").to_array(), [-8.906, 10.906], atol=5e-4
        )


def test_moments_that_do_not_exist_are_infinite():
    def fit(n, **aux):
        rows = {"x": [0.0, 1.0, 2.0, 3.0, 4.0][:n], "y": [1.0, 3.0, 4.0, 4.5, 7.0][:n]}
        return pr.fit(pr.Model.from_formula("y ~ x", rows, **aux), "quadrature")

    cauchy = {"sigma": pr.priors.HalfCauchy(2.0)}
    for n, mean, variance in (
        (2, False, False),
        (3, True, False),
        (4, True, True),
    ):  # a tail of n - 2 + 1 powers
        found = fit(n, aux=cauchy)
        assert np.isfinite(found.aux["sigma"]) == mean
        assert (
            np.isfinite(found.std_error.values).all()
            == np.isfinite(found.solution.aux_sd["sigma"])
            == variance
        )
        assert np.isfinite(found.coef.values).all()
        assert np.isfinite(found.predict({"x": [0.5]})["mean_sd"].item()) == variance
        assert any("posterior mean" in note for note in found.essential_notes) != mean
    # a normal prior in raw units bounds the variance of its coefficient alone
    half = fit(2, aux=cauchy, prior={"x": pr.Normal(1.0)})
    assert np.isinf(half.std_error.values).tolist() == [True, False]


def test_quantiles_of_mixtures_are_exact_in_any_units():
    for far in (0.0, 1e11):
        for wide in (1.0, 1e6, 1e20):
            mixture = NormalMixture(
                np.array([0.7, 0.3 - 1e-12, 1e-12]),
                np.array([far, far + 1.0, far]),
                np.array([1.0, 2.0, wide]),
            )
            at = mixture.quantile([0.05, 0.5, 0.95])
            np.testing.assert_allclose(
                mixture.cdf(at), [0.05, 0.5, 0.95], atol=1e-12 if far == 0.0 else 5e-5
            )  # 1e11 has a spacing of 1.5e-5
