"""Intervals of an estimate against what defines them: roots of the likelihood ratio, closed forms, other routes."""

from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats

import probreg as pr
from probreg.inference import Bootstrap, Newton
from probreg.priors import Normal
from tests.conftest import covering

Array = np.ndarray
Z = stats.norm.ppf(0.975)
CHI2 = stats.chi2.ppf(0.95, 1)


def data(n: int = 40, seed: int = 5) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) * [1.0, 2.0] + [0.3, -1.0]
    return X, 0.2 + X @ [0.8, -0.4]


def model(kind: str, **more: Any) -> pr.Model:
    X, eta = data()
    rng = np.random.default_rng(8)
    y: dict[str, Any] = {
        "gaussian": eta + rng.normal(size=len(eta)),
        "student": eta + rng.standard_t(4, len(eta)),
        "poisson": rng.poisson(np.exp(eta)),
        "bernoulli": (rng.random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int),
        "categorical": np.digitize(eta + rng.logistic(size=len(eta)), [-0.5, 1.0]),
    }
    return pr.Model.from_arrays(X, y[kind], **{"likelihood": kind} | more)


def ratio_end(fit: pr.Fit, j: int, side: int) -> float:
    """The end of the profile of vec(beta)[j], with the other parameters found by BFGS and the root by Brent: nothing of the
    package but the density."""
    m, k = fit.model, fit.solution.beta.size
    top = np.r_[
        fit.solution.beta.ravel(), np.log([fit.solution.aux[a] for a in m.unknown])
    ]

    def minus(theta: Array) -> float:
        aux = {a: float(np.exp(u)) for a, u in zip(m.unknown, theta[k:])}
        return (
            -float(m.log_posterior(theta[:k].reshape(m.shape), **aux)) - theta[k:].sum()
        )

    def excess(value: float) -> float:
        def others(rest: Array) -> float:
            return minus(np.insert(rest, j, value))

        start = np.delete(top, j)
        for _ in range(3):  # again from where it stopped, with a fresh curvature
            start = optimize.minimize(
                others, start, method="BFGS", options={"gtol": 1e-7}
            ).x
        return 2 * (others(start) - minus(top)) - CHI2

    se = np.sqrt(np.diagonal(fit.solution.scale.matrix()))[j]
    return float(
        optimize.brentq(
            excess, top[j] + side * 0.2 * se, top[j] + side * 6 * se, xtol=1e-9
        )
    )


@pytest.mark.parametrize(
    ("kind", "prior"),
    covering(
        [
            ("bernoulli", None),
            ("poisson", None),
            ("student", None),
            ("bernoulli", Normal(0.5, location=0.2)),
            ("categorical", None),
            ("gaussian", Normal(0.5)),
        ],
        lambda kind, prior: prior is None,
        lambda kind, prior: kind == "student",
    ),
)
def test_a_profile_end_is_where_the_likelihood_ratio_is_its_quantile(kind, prior):
    fit = pr.fit(model(kind, prior=prior or pr.Flat()), "newton")
    found = fit.interval(0.95, "profile")
    for j in (0, 1):
        lower, upper = (
            float(found[end].values.ravel()[j]) for end in ("lower", "upper")
        )
        # BFGS stops at a gradient of 1e-7 by differences, which moves the ratio by less than 1e-8
        assert lower == pytest.approx(ratio_end(fit, j, -1), abs=1e-6)
        assert upper == pytest.approx(ratio_end(fit, j, 1), abs=1e-6)
    # then it is the log posterior that is profiled
    assert ("of" in found.attrs) == (prior is not None)


def test_the_profile_of_least_squares_has_a_closed_form():
    fit = pr.fit(model("gaussian"))
    n, df, se = 40, 37, fit.std_error
    half = np.sqrt(df * np.expm1(CHI2 / n)) * se
    found = fit.interval(0.95, "profile")
    np.testing.assert_allclose(found["upper"], fit.coef + half, rtol=1e-9)
    np.testing.assert_allclose(found["lower"], fit.coef - half, rtol=1e-9)
    # sigma: RSS / s^2 - n + n log(s^2 n / RSS) = chi2
    rss = fit.solution.stats["rss"]
    for s in fit.aux_interval("sigma", 0.95, "profile"):
        assert rss / s**2 - n + n * np.log(s**2 * n / rss) == pytest.approx(
            CHI2, rel=1e-8
        )


def test_the_score_interval_of_least_squares_has_a_closed_form():
    """With sigma at its maximum given psi the statistic is n t^2 / (df + t^2)."""
    fit = pr.fit(model("gaussian"))
    half = np.sqrt(CHI2 * 37 / (40 - CHI2)) * fit.std_error
    found = fit.interval(0.95, "score")
    np.testing.assert_allclose(found["upper"], fit.coef + half, rtol=1e-9)
    np.testing.assert_allclose(found["lower"], fit.coef - half, rtol=1e-9)
    # of three observations the statistic is never 3.84
    three = pr.fit(pr.Model.from_arrays([1.0, 2.0, 4.0], [1.0, 3.0, 2.0]))
    assert np.isinf(three.interval(0.95, "score").to_array()).all()
    assert np.isfinite(three.interval(0.95, "profile").to_array()).all()


@pytest.mark.parametrize("kind", ["profile", "score"])
def test_a_quadratic_log_posterior_gives_the_wald_interval(kind):
    held = pr.fit(model("gaussian", aux={"sigma": 1.3}, prior=Normal(0.7)))
    wald = held.interval(0.9, "wald")
    np.testing.assert_allclose(
        held.interval(0.9, kind).to_array(), wald.to_array(), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize(
    ("successes", "trials"), [(3, 20), (1, 50), (19, 20), (500, 1000)]
)
def test_the_score_interval_of_a_share_is_wilsons(successes, trials):
    y = np.r_[np.ones(successes), np.zeros(trials - successes)].astype(int)
    fit = pr.fit(pr.Model.from_arrays(np.zeros((trials, 0)), y, likelihood="bernoulli"))
    ends = 1 / (1 + np.exp(-fit.interval(0.95, "score").to_array().values.ravel()))
    wilson = stats.binomtest(successes, trials).proportion_ci(method="wilson")
    np.testing.assert_allclose(ends, [wilson.low, wilson.high], rtol=1e-9)


def test_the_score_interval_of_a_rate_has_a_closed_form():
    """(y - n mu)^2 / (n mu) = z^2 (Garwood's rival)."""
    y = [3, 0, 2, 4, 1]
    fit = pr.fit(pr.Model.from_arrays(np.zeros((5, 0)), y, likelihood="poisson"))
    centre, half = 10 + CHI2 / 2, np.sqrt(CHI2 * (10 + CHI2 / 4))
    ends = np.exp(fit.interval(0.95, "score").to_array().values.ravel()) * 5
    np.testing.assert_allclose(ends, [centre - half, centre + half], rtol=1e-9)


@pytest.mark.parametrize("kind", ["profile", "score"])
def test_two_classes_are_a_bernoulli_however_they_are_written(kind):
    X, eta = data()
    y = (np.random.default_rng(1).random(len(eta)) < 1 / (1 + np.exp(-eta))).astype(int)
    ends = [
        pr.fit(pr.Model.from_arrays(X, y, likelihood=k))
        .interval(0.95, kind)
        .to_array()
        .values
        for k in (pr.Bernoulli(), pr.Categorical(), pr.Categorical(symmetric=True))
    ]
    np.testing.assert_allclose(ends[1][..., 0], ends[0], rtol=1e-8)
    # half the log odds each, with opposite signs
    np.testing.assert_allclose(2 * ends[2][..., 1], ends[0], rtol=1e-8)
    np.testing.assert_allclose(-2 * ends[2][::-1, :, 0], ends[0], rtol=1e-8)


@pytest.mark.parametrize("kind", ["profile", "score"])
def test_units_do_not_matter(kind):
    X, _ = data()
    y = model("bernoulli").design.observed.astype(int)
    near = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli")).interval(
        0.95, kind
    )
    far = pr.fit(
        pr.Model.from_arrays(X * [1e6, 1.0] + [0.0, 1e5], y, likelihood="bernoulli")
    ).interval(0.95, kind)
    np.testing.assert_allclose(far["upper"][1] * 1e6, near["upper"][1], rtol=1e-6)
    np.testing.assert_allclose(far["lower"][2], near["lower"][2], rtol=1e-6)


# ---- where there is no maximum --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "supremum", "u"),
    [
        (
            "complete",
            0.0,
            [0, 1, 1, 0, 1, 0, 1, 0],
        ),  # u tells the two rows at x = 3 apart
        (
            "quasi",
            -2 * np.log(2),
            [0, 1, 1, 1, 1, 0, 1, 0],
        ),  # they are alike, and nothing else counts in the limit
    ],
)
def test_a_coefficient_that_runs_away_has_a_profile_to_one_side(kind, supremum, u):
    x, y = np.array([1.0, 2, 3, 3, 4, 5, 2, 4]), [0, 0, 0, 1, 1, 1, 0, 1]
    with pytest.warns(pr.ProbregWarning, match=f"no maximum.*{kind} separation"):
        fit = pr.fit(
            pr.Model.from_arrays(
                np.c_[x, u], y, columns=["x", "u"], likelihood="bernoulli"
            )
        )
    found = fit.interval(0.95, "profile")
    assert found["upper"].sel(coef="x") == np.inf
    assert found["lower"].sel(coef="Intercept") == -np.inf
    lower = float(found["lower"].sel(coef="x"))
    # with the coefficient of x held by an offset there is an ordinary maximum over the others
    held = pr.fit(
        pr.Model.from_arrays(
            np.array(u, float), y, likelihood="bernoulli", offset=lower * x
        ),
        "newton",
    )
    assert 2 * (supremum - held.log_likelihood) == pytest.approx(CHI2, abs=1e-6)
    table = fit.summary(kind="profile")
    assert np.isnan(table.loc["x", "estimate"])
    assert table.loc["x", "upper"] == np.inf
    assert fit.interval(0.95, "score")["upper"].sel(coef="x") == np.inf
    assert np.isfinite(fit.interval(0.95, "score")["lower"].sel(coef="x"))
    with pytest.raises(pr.NotConverged, match="no interval: no maximum likelihood"):
        fit.interval(0.95, "wald")


@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
@pytest.mark.filterwarnings("ignore:newton. no maximum")
def test_small_data_separated_or_not_keep_the_definition(kind):
    """Few rows on a grid, many of them separated: each finite end is a root, found again with the column as an offset."""
    rng, ends = np.random.default_rng(1), []
    for _ in range(8):
        X = np.round(rng.normal(size=(9, 2)) * 2)
        y = (rng.random(9) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(int)
        y = (
            y
            if kind == "bernoulli"
            else rng.poisson(np.exp(np.clip(X[:, 0], -4, 2) - 1))
        )
        if len(set(y.tolist())) == 1:
            continue
        fit = pr.fit(pr.Model.from_arrays(X, y, likelihood=kind), "newton")
        supremum = float(fit.model.log_lik(fit.solution.beta))
        found = fit.interval(0.95, "profile").to_array().values[:, 1:]
        for side, j in np.argwhere(np.isfinite(found)):
            offset = found[side, j] * X[:, j]
            held = pr.fit(
                pr.Model.from_arrays(
                    np.delete(X, j, 1), y, likelihood=kind, offset=offset
                ),
                "newton",
            )
            below = float(held.model.log_lik(held.solution.beta))
            # a runaway fit is short of its limit by 1e-7
            assert 2 * (supremum - below) == pytest.approx(CHI2, abs=1e-5)
        ends.append(np.isinf(found).sum())
    assert 0 in ends
    assert max(ends) > 0


def test_counts_that_vanish_in_a_group_bound_its_rate_from_above():
    """All counts of a group are 0: its rate mu has the profile 2 n mu = chi2, whatever the rest."""
    y, g = [3, 1, 4, 2, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1]
    with pytest.warns(pr.ProbregWarning, match="no maximum"):
        fit = pr.fit(
            pr.Model.from_arrays(np.eye(2)[g], y, intercept=False, likelihood="poisson")
        )
    found = fit.interval(0.95, "profile")
    assert found["lower"][1] == -np.inf
    assert np.exp(found["upper"][1]) == pytest.approx(CHI2 / 6, rel=1e-8)
    assert np.isfinite(found["lower"][0])


def test_a_collinear_coefficient_has_the_whole_line():
    X, _ = data()
    y = model("bernoulli").design.observed.astype(int)
    three = np.c_[X, X @ [1.0, -2.0]]
    with pytest.warns(pr.ProbregWarning, match="not identified"):
        fit = pr.fit(
            pr.Model.from_arrays(
                np.c_[three, y * 0 + np.arange(40) % 3], y, likelihood="bernoulli"
            )
        )
    found = fit.interval(0.95, "profile")
    assert (found["lower"].sel(coef=["x1", "x2", "x3"]) == -np.inf).all()
    assert (found["upper"].sel(coef=["x1", "x2", "x3"]) == np.inf).all()
    smaller = pr.fit(
        pr.Model.from_arrays(np.c_[X, np.arange(40) % 3], y, likelihood="bernoulli")
    )
    for ours, theirs in (("Intercept", "Intercept"), ("x4", "x3")):
        a, b = found.sel(coef=ours), smaller.interval(0.95, "profile").sel(coef=theirs)
        np.testing.assert_allclose(
            [a["lower"], a["upper"]], [b["lower"], b["upper"]], rtol=1e-6
        )


# ---- weights are copies ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", covering(["gaussian", "student", "poisson", "bernoulli", "categorical"])
)
def test_a_weight_is_a_number_of_copies(kind):
    plain = model(kind)
    w = np.arange(40) % 3 + 1
    X, y = plain.design.X[:, 1:], plain.design.observed
    y = y if kind in ("gaussian", "student") else y.astype(int)
    rows, groups = np.repeat(np.arange(40), w), np.arange(40) // 4
    a = pr.fit(pr.Model.from_arrays(X, y, likelihood=kind, weights=w))
    b = pr.fit(pr.Model.from_arrays(X[rows], y[rows], likelihood=kind))
    for covariance in ("observed", "expected", "HC0", "HC1", "HC2", "HC3"):
        np.testing.assert_allclose(
            a.covariance(covariance), b.covariance(covariance), rtol=1e-6, atol=1e-12
        )
    grouped = (
        a.covariance("cluster", groups=groups),
        b.covariance("cluster", groups=groups[rows]),
    )
    np.testing.assert_allclose(*grouped, rtol=1e-6, atol=1e-12)
    for interval in ("profile", "score"):
        np.testing.assert_allclose(
            a.interval(0.9, interval).to_array(),
            b.interval(0.9, interval).to_array(),
            rtol=1e-6,
            atol=1e-9,
        )
    c, d = (pr.fit(f.model, Bootstrap(reps=20, interval="bca"), seed=3) for f in (a, b))
    for name in ("bootstrap", "bca"):  # the same observations are drawn
        np.testing.assert_allclose(
            c.interval(0.8, name).to_array(),
            d.interval(0.8, name).to_array(),
            rtol=1e-5,
            atol=1e-7,
        )


# ---- with a prior ---------------------------------------------------------------------------------------------------


def test_the_sampling_covariance_of_ridge_is_its_own():
    """Var of (X'X + lam I)^-1 X'y in repeated samples, and beside it the posterior covariance, which counts the prior."""
    fit = pr.fit(model("gaussian", prior=Normal(0.5), aux={"sigma": 1.2}))
    X, lam = fit.model.design.X, np.diag([0.0, 1.0, 1.0]) * (1.2 / 0.5) ** 2
    A = np.linalg.inv(X.T @ X + lam)
    np.testing.assert_allclose(
        fit.covariance("sampling"), 1.44 * A @ X.T @ X @ A, rtol=1e-9
    )
    np.testing.assert_allclose(fit.covariance("expected"), 1.44 * A, rtol=1e-9)
    np.testing.assert_allclose(fit.covariance(), 1.44 * A, rtol=1e-9)
    e = fit.model.design.observed - X @ fit.coef.values
    np.testing.assert_allclose(
        fit.covariance("HC0"), A @ (X.T * e**2) @ X @ A, rtol=1e-9
    )


def test_a_sandwich_of_a_penalised_mode_calls_itself_that():
    flat, groups = pr.fit(model("gaussian")), np.arange(40) // 4
    for prior in (Normal(0.5), pr.priors.StudentT(0.5)):
        fit = pr.fit(model("gaussian", prior=prior))
        for kind, more in [
            ("HC0", {}),
            ("HC3", {}),
            ("cluster", {"groups": groups}),
            ("HAC", {}),
        ]:
            words = fit.covariance(kind, **more).attrs
            assert words["kind"] == f"{kind} of a penalised mode"
            assert "not evidence of misspecification" in words["definition"]
            assert flat.covariance(kind, **more).attrs["kind"] == kind
        assert (
            fit.summary(covariance="HC0").attrs["covariance"]
            == "HC0 of a penalised mode"
        )
        assert (
            fit.interval(0.9, "wald", covariance="HC0").attrs["covariance"]
            == "HC0 of a penalised mode"
        )
        for kind in (
            "observed",
            "sampling",
        ):  # which are no sandwich of the rows' own scores
            assert fit.covariance(kind).attrs["kind"] == kind


# ---- the bootstrap --------------------------------------------------------------------------------------------------


def noisy(n: int = 400) -> pr.Model:
    rng = np.random.default_rng(2)
    x = rng.normal(size=n)
    return pr.Model.from_arrays(x, 1.0 + 0.5 * x + rng.normal(size=n) * np.exp(0.6 * x))


@pytest.mark.parametrize(
    ("kind", "covariance"),
    covering(
        [
            ("pairs", "HC0"),
            ("residual", "classical"),
            ("parametric", "ml"),
        ]
    ),
)
def test_a_bootstrap_finds_the_covariance_that_it_resamples(kind, covariance):
    m = noisy()
    fit = pr.fit(m, Bootstrap(kind=kind, reps=1000), seed=1)
    expected = np.sqrt(np.diagonal(pr.fit(m).covariance(covariance)))
    # a standard error of 1000 replicates is known to 1/sqrt(2000) = 2.2 %; the variances here differ by a factor of four
    np.testing.assert_allclose(fit.std_error, expected, rtol=0.12)
    assert fit.covariance().attrs["kind"] == "bootstrap"
    np.testing.assert_allclose(fit.coef, pr.fit(m).coef, rtol=1e-12)


@pytest.mark.slow
def test_a_parametric_bootstrap_of_counts_finds_the_information():
    X, eta = data(200)
    y = np.random.default_rng(8).poisson(np.exp(eta))
    m = pr.Model.from_arrays(X, y, likelihood="poisson")
    fit = pr.fit(m, Bootstrap(kind="parametric", reps=300), seed=1)
    # 4.1 % of Monte Carlo, and O(1/n)
    np.testing.assert_allclose(fit.std_error, pr.fit(m).std_error, rtol=0.17)


@pytest.mark.parametrize(
    "method", ["closed_form", "newton", pr.SGD(epochs=4, tol=100.0)]
)
def test_replicate_k_is_the_same_whatever_the_workers_and_the_number_of_replicates(
    method,
):
    m = noisy(60)
    runs = [
        pr.fit(
            m, Bootstrap(method, reps=reps, workers=workers), seed=3
        ).solution.replicates["coef"]
        for reps, workers in ((12, 1), (12, 3), (30, 2))
    ]
    np.testing.assert_array_equal(runs[0], runs[1])
    np.testing.assert_array_equal(runs[0], runs[2][:12])
    assert not np.array_equal(
        runs[0],
        pr.fit(m, Bootstrap(method, reps=12), seed=4).solution.replicates["coef"],
    )


@pytest.mark.parametrize("symmetric", [False, True])
def test_the_acceleration_of_a_softmax_is_that_of_its_influences(symmetric):
    X, eta = data(300)
    rng = np.random.default_rng(4)
    y = np.digitize(eta + rng.logistic(size=len(eta)), [-0.5, 0.8])
    w = rng.integers(1, 4, len(y)).astype(float)
    prior = {"prior": pr.Normal(3.0)} if symmetric else {}
    m = pr.Model.from_arrays(
        X, y, likelihood=pr.Categorical(symmetric=symmetric), weights=w, **prior
    )
    plain, found = (
        pr.fit(m, "newton").solution,
        pr.fit(m, Bootstrap("newton", reps=3), seed=1).solution,
    )
    D, A = m.likelihood.contrast_matrix, m.design.X
    s = m.likelihood.score(m.design.observed, A @ plain.beta)
    # l_i = V (x_i kron s_i), s_i the score of row i over its linear predictors
    change = (A[:, :, None] * s[:, None, :]).reshape(len(y), -1) @ plain.scale.matrix()
    change = change.reshape(len(y), *plain.beta.shape) @ D.T
    a = np.einsum("n,npk->pk", w, change**3) / (
        6 * np.einsum("n,npk->pk", w, change**2) ** 1.5
    )
    np.testing.assert_allclose(found.replicates["acceleration"], a, rtol=1e-5)


@pytest.mark.slow
def test_bca_of_a_mean_has_the_acceleration_of_its_skewness():
    y = np.random.default_rng(3).exponential(size=50) ** 1.5
    fit = pr.fit(
        pr.Model.from_arrays(np.zeros((50, 0)), y),
        Bootstrap(interval="bca", reps=999),
        seed=1,
    )
    found = fit.solution.replicates
    a = float(found["acceleration"][0, 0])
    assert a == pytest.approx(stats.skew(y) / (6 * np.sqrt(50)), rel=1e-9)  # Efron 1987
    draws = found["coef"][:, 0, 0]
    z0 = stats.norm.ppf(np.mean(draws < y.mean()))
    shares = [stats.norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z))) for z in (-Z, Z)]
    expected = np.quantile(draws, shares, method="weibull")
    np.testing.assert_allclose(
        fit.interval().to_array().values.ravel(), expected, rtol=1e-9
    )
    # a right-skew mean is more often far below than far above: both ends move up
    plain = fit.interval(0.95, "percentile")
    assert (fit.interval()["lower"] > plain["lower"]).all()
    assert (fit.interval()["upper"] > plain["upper"]).all()
    assert fit.interval().attrs["ends"] == "bca"


@pytest.mark.slow
def test_replicates_without_an_estimate_are_counted_and_count():
    """A rare event that some resamples miss: there the coefficient is at minus infinity."""
    x = np.r_[np.zeros(20), np.ones(10)]
    y = np.r_[np.arange(20) % 2, [1], np.zeros(9)].astype(int)
    m = pr.Model.from_arrays(x, y, likelihood="bernoulli")
    fit = pr.fit(m, Bootstrap(reps=99), seed=2)
    lost = int(fit.solution.stats["failed"])
    # (29/30)^30 = 0.36 of the resamples, of which 99 have 36 and a standard error of 5
    assert 17 < lost < 55
    assert f"{lost} of 99" in fit.described["status"]
    assert any(f"{99 - lost} " in n for n in fit.described["notes"])
    found = fit.interval(0.95)
    assert found["lower"].sel(coef="x1") == -np.inf
    assert np.isfinite(found["upper"].sel(coef="x1"))
    assert found.attrs["failed"] == lost
    assert np.isfinite(fit.std_error).all()
    assert int(np.isnan(fit.tree["sampling"]["x1"]).sum()) == lost


def test_draws_of_an_estimator_are_no_posterior(tmp_path):
    # so that every replicate has an estimate
    m = model("categorical", prior=Normal(1.5))
    method = Bootstrap(Newton(tol=1e-9), kind="parametric", reps=25, interval="bca")
    fit = pr.fit(m, method, seed=1)
    assert fit.target == "mode"
    assert "posterior" not in fit.tree.children
    sampling, spread = fit.tree["sampling"], fit.std_error
    for name in spread["coef"].values:
        assert sampling[name].dims == ("chain", "draw", "outcome")
        np.testing.assert_allclose(
            sampling[name].values.reshape(25, -1).std(0, ddof=1), spread.sel(coef=name)
        )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.method == method
    for kind in ("bootstrap", "percentile"):
        np.testing.assert_array_equal(
            again.interval(0.9, kind).to_array(), fit.interval(0.9, kind).to_array()
        )
    np.testing.assert_allclose(again.summary(), fit.summary(), rtol=1e-12)


@pytest.mark.slow
def test_sigma_has_intervals_of_every_kind():
    m = model("student")
    plain = pr.fit(m)
    fit = pr.fit(m, Bootstrap(reps=99), seed=2)
    for kind in ("bootstrap", "percentile", "bca", "profile", "score"):
        lower, upper = fit.aux_interval("sigma", 0.9, kind)
        assert 0 < lower < plain.aux["sigma"] < upper < 3 * plain.aux["sigma"]


def test_intervals_of_draws_are_their_quantiles_and_the_shortest_that_hold_as_many():
    """Of coefficients and of a noise scale whose marginals are known by draws alone."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=12)
    model = pr.Model.from_arrays(
        x,
        1 + x + rng.standard_t(4, size=12),
        likelihood="student",
        prior=pr.Normal(3.0),
    )
    fit = pr.fit(model, "importance", seed=1)
    draws = {
        "x1": fit.solution.draws["beta"][..., 1, 0].ravel(),
        "sigma": fit.solution.draws["sigma"].ravel(),
    }
    inside = int(np.ceil(0.8 * draws["sigma"].size))
    for name, values in draws.items():
        ends = {}
        for kind in ("eti", "hdi"):
            if name == "sigma":
                ends[kind] = fit.aux_interval("sigma", 0.8, kind)
            else:
                found = fit.interval(0.8, kind)
                assert found.attrs["kind"] == kind
                ends[kind] = (
                    found.lower.sel(coef=name).item(),
                    found.upper.sel(coef=name).item(),
                )
        np.testing.assert_allclose(
            ends["eti"], np.quantile(values, [0.1, 0.9]), rtol=1e-12
        )
        s = np.sort(values)
        widths = s[inside - 1 :] - s[: len(s) - inside + 1]
        np.testing.assert_allclose(
            ends["hdi"][1] - ends["hdi"][0], widths.min(), rtol=1e-12
        )
        assert ends["hdi"][1] - ends["hdi"][0] < ends["eti"][1] - ends["eti"][0]


def test_two_ways_of_clusters_pass_over_a_coefficient_without_an_estimate():
    rng = np.random.default_rng(2)
    g, ways = np.arange(60) % 4, (np.arange(60) % 7, np.arange(60) % 6)
    X, y, w = (
        np.c_[rng.normal(size=60), np.eye(4)[g][:, 1:]],
        rng.normal(size=60),
        np.where(g == 2, 0, 1),
    )
    with pytest.warns(pr.ProbregWarning):
        found = (
            pr.fit(pr.Model.from_arrays(X, y, weights=w))
            .covariance("cluster", groups=ways)
            .values
        )
    kept = [0, 1, 2, 4]
    with pytest.warns(pr.ProbregWarning, match=r"2 of \d were negative"):
        fewer = (
            pr.fit(pr.Model.from_arrays(X[:, [0, 1, 3]], y, weights=w))
            .covariance("cluster", groups=ways)
            .values
        )
    np.testing.assert_allclose(found[np.ix_(kept, kept)], fewer, rtol=1e-8)
    assert np.isnan(found[3]).all()


@pytest.mark.filterwarnings("ignore:covariance of clusters of two ways")
def test_two_ways_of_few_groups_do_not_depend_on_the_basis_of_the_columns():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(80, 7)), rng.poisson(2.0, 80)
    ways = (np.arange(80) % 4, np.arange(80) % 3)

    def covariance_of(columns):
        model = pr.Model.from_arrays(columns, y, likelihood="poisson")
        return pr.fit(model).covariance("cluster", groups=ways)

    T = rng.normal(size=(7, 7))
    found = covariance_of(X @ T)
    slopes = T @ found.values[1:, 1:] @ T.T  # X T gamma = X beta: beta = T gamma
    wanted = covariance_of(X)
    np.testing.assert_allclose(slopes, wanted.values[1:, 1:], rtol=1e-6, atol=1e-9)
    # scores sum to 0 over all groups of a way: of 4 and 3 groups, 3 and 2 directions vary
    for covariance in (found, wanted):
        assert " of 5 were negative" in covariance.attrs["eigenvalues"]


def test_as_many_coefficients_as_rows_leave_no_covariance_of_least_squares(tmp_path):
    fit = pr.fit(pr.Model.from_arrays([0.0, 1.0], [1.0, 3.0]))
    for kind in ("classical", "ml"):
        with pytest.raises(pr.NotConverged, match="no residual degrees of freedom"):
            fit.covariance(kind)
    read = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert read.solution.df == 0
    np.testing.assert_array_equal(read.std_error, fit.std_error)


@pytest.mark.parametrize("scale", [1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("kind", ["profile", "score"])
def test_a_coefficient_held_at_zero_by_its_prior_leaves_the_other_intervals(
    kind: str, scale: float
) -> None:
    x = np.linspace(-1.0, 1.0, 40)
    rows = {"k": [3, 4, 5, 4] * 10, "x": x, "z": np.cos(5.0 * x)}
    held = pr.fit(
        pr.Model.from_formula(
            "k ~ x + z", rows, likelihood="poisson", prior={"z": pr.Normal(scale)}
        )
    )
    absent = pr.fit(pr.Model.from_formula("k ~ x", rows, likelihood="poisson"))
    for side in ("lower", "upper"):
        ends = held.interval(kind=kind)[side].sel(coef=["Intercept", "x"])
        np.testing.assert_allclose(ends, absent.interval(kind=kind)[side], atol=1e-5)


def test_a_dispersion_estimated_as_zero_has_a_profile_interval_from_zero():
    """Without columns the mean is that of the responses at every alpha."""
    y = np.repeat([2.0, 3.0, 4.0, 5.0], 10)
    with pytest.warns(pr.ProbregWarning, match="alpha runs to 0"):
        fit = pr.fit(
            pr.Model.from_formula("y ~ 1", {"y": y}, likelihood="negative_binomial")
        )
    lower, upper = fit.aux_interval("alpha", kind="profile")
    r = 1.0 / upper
    at_limit = stats.poisson.logpmf(y, 3.5).sum()
    at_end = stats.nbinom.logpmf(y, r, r / (r + 3.5)).sum()
    assert lower == 0.0
    assert 2.0 * (at_limit - at_end) == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-6)


def test_a_dispersion_that_may_be_zero_has_a_profile_interval_from_zero():
    y = [0, 1, 1, 2, 2, 3, 3, 4, 5, 7] * 3
    fit = pr.fit(
        pr.Model.from_formula("y ~ 1", {"y": y}, likelihood="negative_binomial")
    )
    assert fit.aux["alpha"] > 0.1
    assert fit.aux_interval("alpha", kind="profile")[0] == 0.0


def test_a_share_of_extra_zeros_estimated_as_zero_has_a_profile_interval_from_zero():
    y = np.repeat([1.0, 2.0, 3.0, 4.0], 10)
    model = pr.Model.from_formula(
        "y ~ 1", {"y": y}, likelihood="zero_inflated(poisson)"
    )
    with pytest.warns(pr.ProbregWarning, match="zero_odds runs to 0"):
        fit = pr.fit(model)
    lower, upper = fit.aux_interval("p_extra_zero", kind="profile")
    # no response is zero: log p = log(1 - p_extra_zero) + log Poisson
    assert lower == 0.0
    limit = -0.5 * stats.chi2.ppf(0.95, 1) / len(y)
    assert upper == pytest.approx(-np.expm1(limit), rel=1e-6)


def test_a_precision_without_an_upper_limit_has_an_infinite_profile_end():
    k = np.array([3.0, 4.0, 5.0, 6.0, 7.0] * 6)
    data = {"k": k, "n": np.full(30, 10.0)}
    model = pr.Model.from_formula("p(k, n) ~ 1", data, likelihood="beta_binomial")
    with pytest.warns(pr.ProbregWarning, match="phi runs to infinity"):
        fit = pr.fit(model)
    lower, upper = fit.aux_interval("phi", kind="profile")
    binomial = pr.fit(pr.Model.from_formula("p(k, n) ~ 1", data, likelihood="binomial"))
    held = pr.fit(model.with_aux(phi=lower))
    fall = 2.0 * (binomial.log_likelihood - held.log_likelihood)
    assert upper == np.inf
    assert fall == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-6)


def test_a_precision_at_infinity_has_its_lower_end_beside_separated_rows_too():
    k = np.array([3.0, 4.0, 5.0, 6.0, 7.0] * 6)
    data = {"k": np.append(k, np.zeros(6)), "n": np.full(36, 10.0)}
    data["x"] = np.arange(36) >= 30
    rest = {"k": k, "n": np.full(30, 10.0)}
    ends = []
    for formula, rows, status in (
        ("p(k, n) ~ x", data, "quasi separation"),
        ("p(k, n) ~ 1", rest, "phi runs to infinity"),
    ):
        model = pr.Model.from_formula(formula, rows, likelihood="beta_binomial")
        with pytest.warns(pr.ProbregWarning, match=status):
            fit = pr.fit(model)
        ends.append(fit.aux_interval("phi", kind="profile"))
    assert ends[0][1] == ends[1][1] == np.inf
    assert ends[0][0] == pytest.approx(ends[1][0], rel=1e-3)


def test_a_precision_at_infinity_has_its_lower_end_beside_random_effects_too():
    # less dispersed within groups than successes of a binomial
    g = np.repeat(np.arange(5), 4)
    k = 3.0 + g + np.tile([-1.0, 0.0, 0.0, 1.0], 5)
    data = {"k": k, "n": np.full(20, 10.0), "g": g}
    model = pr.Model.from_formula(
        "p(k, n) ~ 1 + (1 | g)", data, likelihood="beta_binomial"
    )
    with pytest.warns(
        pr.ProbregWarning,
        match=r"no finite estimate .* exists .phi runs to infinity: the Binomial",
    ):
        fit = pr.fit(model)
    assert fit.aux["phi"] > 1e8
    assert not np.isnan(fit.std_error).any()
    lower, upper = fit.aux_interval("phi", kind="profile")
    held = pr.fit(model.with_aux(phi=lower))
    fall = 2.0 * (
        fit.solution.stats["log_evidence"] - held.solution.stats["log_evidence"]
    )
    assert upper == np.inf
    assert fall == pytest.approx(stats.chi2.ppf(0.95, 1), rel=1e-3)
    # a prior with its mode far out has a curvature there
    far = {"phi": pr.priors.LogNormal(1.0, location=18.0)}
    held_by_prior = pr.Model.from_formula(
        "p(k, n) ~ 1 + (1 | g)", data, likelihood="beta_binomial", aux=far
    )
    assert pr.fit(held_by_prior).solution.status.good
