"""Mixed models against the numbers that glmmTMB, lme4 and nlme return."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference.base import Status
from tests.conftest import reference_path

CSV = Path(__file__).parent / "data" / "csv"
SALAMANDERS = "count ~ spp + mined + (1 | site)"


def read(name: str) -> pd.DataFrame:
    return pd.read_csv(CSV / f"{name}.csv")


# ---- nuisance parameters -----------------------------------------------------------------------------------------------


def test_alpha_of_a_restricted_likelihood_is_at_its_maximum():
    """glmmTMB(count ~ spp + mined + (1 | site), family = nbinom2, REML = TRUE): theta = 0.91325, restricted likelihood -831.725."""
    data = read("salamanders")
    fit = pr.fit(
        pr.Model.from_formula(SALAMANDERS, data, likelihood="negative_binomial")
    )
    assert fit.aux["alpha"] == pytest.approx(1.095, abs=5e-4)
    assert fit.solution.stats["log_evidence"] == pytest.approx(-831.725, abs=5e-4)

    def criterion(alpha: float) -> float:
        held = pr.Model.from_formula(
            SALAMANDERS, data, likelihood="negative_binomial", aux={"alpha": alpha}
        )
        return pr.fit(held).solution.stats["log_evidence"]

    top = fit.solution.stats["log_evidence"]
    assert criterion(fit.aux["alpha"]) == pytest.approx(top, abs=1e-6)
    assert max(criterion(f * fit.aux["alpha"]) for f in (0.9, 0.98, 1.02, 1.1)) < top


def test_sigma_of_student_noise_is_at_the_maximum_of_the_restricted_likelihood():
    data, formula = read("orthodont"), "distance ~ age * Sex + (1 | Subject)"

    def fitted(**aux: float) -> pr.Fit:
        return pr.fit(
            pr.Model.from_formula(
                formula, data, likelihood=pr.StudentT(nu=4.0), aux=aux
            )
        )

    fit = fitted()
    moved = [
        fitted(sigma=f * fit.aux["sigma"]).solution.stats["log_evidence"]
        for f in (0.8, 0.97, 1.03, 1.2)
    ]
    assert max(moved) < fit.solution.stats["log_evidence"]


def test_a_nuisance_parameter_without_overdispersion_ends_at_its_limit():
    """Counts that vary less than a Poisson's: the fit is the Poisson fit, and the bend of the smooth function is 0."""
    z, k = np.linspace(0, 10, 80), [3, 4, 5, 4] * 20
    with pytest.warns(pr.errors.ProbregWarning):
        fit = pr.fit(
            pr.Model.from_formula(
                "k ~ s(z)", {"k": k, "z": z}, likelihood="negative_binomial"
            )
        )
    poisson = pr.fit(
        pr.Model.from_formula("k ~ s(z)", {"k": k, "z": z}, likelihood="poisson")
    )
    assert fit.solution.status is Status.AT_ZERO
    assert fit.solution.hyper["alpha"][0] == 0.0
    np.testing.assert_allclose(fit.coef, poisson.coef, atol=1e-7)
    np.testing.assert_allclose(fit.std_error, poisson.std_error, rtol=1e-6, atol=1e-7)


# ---- standard errors ---------------------------------------------------------------------------------------------------


def test_standard_errors_of_a_binomial_mixed_model_are_those_of_glmmtmb():
    """glmmTMB(cbind(incidence, size - incidence) ~ period + (1 | herd), cbpp, family = binomial)."""
    data = pd.read_csv(
        reference_path("multilevel/cbpp.csv"), dtype={"herd": str, "period": str}
    )
    model = pr.Model.from_formula(
        "p(incidence, size) ~ period + (1 | herd)", data, likelihood="binomial"
    )
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    np.testing.assert_allclose(
        fit.std_error, [0.232472, 0.3066425, 0.3266379, 0.4274366], rtol=0, atol=6e-7
    )
    conditional = np.sqrt(np.diagonal(fit.covariance("conditional")))
    np.testing.assert_allclose(
        conditional, [0.2279, 0.3054, 0.3260, 0.4288], rtol=0, atol=5e-5
    )


def test_standard_errors_of_a_logistic_mixed_model_are_those_of_glmer():
    """glmer(y ~ trt + I(week > 2) + (1 | ID), MASS::bacteria, binomial, control = glmerControl(tolPwrss = 1e-12)), lme4 1.1-31.

    Conditional ones are sqrt(diag(vcov(m, use.hessian = FALSE))).
    """
    design = json.loads(
        reference_path("tables/logistic/bacteria_main.json").read_text()
    )["design"]
    _, second, third, week = np.array(
        design["X"]
    ).T  # contrasts of successive treatments
    # rows are in the order of the children, and of the weeks of each
    child = np.cumsum(np.diff(week, prepend=np.inf) <= 0)
    assert child[-1] == 50
    table = {
        "y": design["y"],
        "drug": (second > 0) & (third < 0),
        "encourage": third > 0,
        "late": week > 2,
    }
    table |= {"child": child}
    model = pr.Model.from_formula(
        "y ~ drug + encourage + late + (1 | child)", table, likelihood="bernoulli"
    )
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    np.testing.assert_allclose(
        fit.std_error, [0.696180, 0.677144, 0.683264, 0.476013], rtol=2e-4
    )
    assert fit.log_likelihood == pytest.approx(-96.130687, abs=1e-5)
    conditional = np.sqrt(np.diagonal(fit.covariance("conditional")))
    np.testing.assert_allclose(
        conditional, [0.590472, 0.656571, 0.668645, 0.461219], rtol=1e-5
    )


@pytest.mark.slow
def test_intervals_of_a_slope_cover_it_in_small_binary_groups():
    """75 groups of 3 rows. Quadrature, because Laplace's approximation has a bias of the estimates in such groups."""
    runs, G, covered = 8, 75, 0
    group, method = np.repeat(np.arange(G), 3), pr.Evidence(criterion="ML", points=5)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        x = (rng.normal(size=G)[group] + rng.normal(size=3 * G)) / np.sqrt(2.0)
        eta = x - 0.5 + 1.2 * rng.normal(size=G)[group]
        table = {
            "y": (rng.uniform(size=3 * G) < 1.0 / (1.0 + np.exp(-eta))) * 1,
            "x": x,
            "g": group,
        }
        fit = pr.fit(
            pr.Model.from_formula("y ~ x + (1 | g)", table, likelihood="bernoulli"),
            method,
        )
        error = float(fit.std_error.sel(coef="x"))
        covered += abs(float(fit.coef.sel(coef="x")) - 1.0) <= 1.959964 * error
        known = fit.covariance("conditional").sel(param="x", param_="x")
        assert np.sqrt(float(known)) < error
    # two Monte Carlo errors of the share of 8 runs
    assert covered / runs == pytest.approx(0.95, abs=2.0 * np.sqrt(0.95 * 0.05 / runs))


def test_errors_of_a_smooth_lie_between_those_of_mgcv():
    """gam(y ~ s(x), method = "REML"), mgcv 1.8-41: sqrt(diag(X Vp X')) at known scales and sqrt(diag(X Vc X')), whose part of second
    order joint errors leave out, at rows 1, 20, 40 and 60."""
    rng = np.random.default_rng(0)
    x, level = rng.uniform(0, 10, 80), rng.normal(0, 1, 10)
    y = np.sin(x) + np.repeat(level, 8) + 0.4 * rng.normal(size=80)
    fit = pr.fit(pr.Model.from_formula("y ~ s(x)", {"x": x, "y": y}))
    at = fit.model.design.X[[0, 19, 39, 59]]
    known, joint = (
        np.sqrt(fit.spread(kind).matrix.of_rows(at)[:, 0, 0])
        for kind in ("conditional", "joint")
    )
    np.testing.assert_allclose(
        known, [0.22551115, 0.24051524, 0.23614173, 0.28795990], rtol=1e-6
    )
    with_second_order = np.array([0.22915769, 0.25351720, 0.26029629, 0.29153945])
    assert ((known < joint) & (joint < with_second_order)).all()
    np.testing.assert_allclose(joint, with_second_order, rtol=0.02)


def test_joint_errors_are_saved_with_the_fit(tmp_path):
    fit = pr.fit(
        pr.Model.from_formula(
            SALAMANDERS, read("salamanders"), likelihood="negative_binomial"
        )
    )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.std_error, fit.std_error)
    np.testing.assert_array_equal(
        again.covariance("conditional"), fit.covariance("conditional")
    )
    assert (fit.std_error > np.sqrt(np.diagonal(fit.covariance("conditional")))).all()


# ---- profiles and held scales ------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_profile_of_a_standard_deviation_follows_both_signs_of_the_correlation():
    """confint of lme4::lmer(distance ~ age * Sex + (age | Subject), Orthodont, REML = FALSE): 0.001 to 4.148."""
    data, method = read("orthodont"), pr.Evidence(criterion="ML")
    fit = pr.fit(
        pr.Model.from_formula("distance ~ age * Sex + (age | Subject)", data), method
    )
    lower, upper = fit.aux_interval("sd(Intercept | Subject)")
    assert (lower, upper) == pytest.approx((0.001, 4.148), abs=6e-4)
    for end in (lower, upper):
        prior = {"(age | Subject)": pr.Covariance(sd={"Intercept": end})}
        held = pr.fit(
            pr.Model.from_formula(
                "distance ~ age * Sex + (age | Subject)", data, prior=prior
            ),
            method,
        )
        assert 2.0 * (fit.log_likelihood - held.log_likelihood) == pytest.approx(
            3.841459, abs=1e-3
        )


def test_a_standard_deviation_beside_one_that_is_held_is_at_its_maximum():
    """At sd(Intercept) = 11.174 the log-likelihood is -835.136, by lme4's deviance function."""
    prior = {"(temperature | replicate)": pr.Covariance(sd={"temperature": 0.07314})}
    model = pr.Model.from_formula(
        "angle ~ temperature + (temperature | replicate)", read("cake"), prior=prior
    )
    fit = pr.fit(model, pr.Evidence(criterion="ML"))
    assert fit.log_likelihood == pytest.approx(-835.136, abs=1e-3)
    assert fit.hyper["sd(Intercept | replicate)"] == pytest.approx(11.174, abs=2e-3)


def test_three_effects_along_one_line_have_the_covariance_of_lmer():
    """lmer(y ~ a + b + (a + b | g)), lme4 1.1-31: the covariance has rank 2, and at that of rank 1 the evidence is flat over partial
    correlations."""
    rng = np.random.default_rng(34)
    g = np.arange(20 * rng.integers(6, 14)) % 20
    X = np.c_[np.ones(len(g)), rng.normal(size=(len(g), 2))]
    line = rng.normal(size=(3, rng.integers(1, 4))) * 0.7
    effects = rng.normal(size=(20, line.shape[1])) @ line.T
    y = X @ rng.normal(size=3) + (X * effects[g]).sum(1) + rng.normal(size=len(g))
    table = {"y": y, "a": X[:, 1], "b": X[:, 2], "g": g.astype(str)}
    fit = pr.fit(pr.Model.from_formula("y ~ a + b + (a + b | g)", table))
    assert fit.solution.stats["log_evidence"] == pytest.approx(-197.402424, abs=2e-6)
    scales = [0.613586, 0.900639, 1.704647]
    assert list(fit.hyper.values())[:3] == pytest.approx(scales, rel=1e-5)


@pytest.mark.parametrize("points", [1, 5])
@pytest.mark.parametrize("likelihood", ["poisson", "negative_binomial"])
def test_profiles_of_coefficients_end_where_the_likelihood_has_fallen(
    likelihood, points
):
    """At an end of the interval of 95 % the criterion with the coefficient fixed there, by an offset, is lower by 1.96^2 / 2."""
    rng = np.random.default_rng(2)
    g = np.repeat(np.arange(12), 5)
    x = rng.normal(size=60)
    mean = np.exp(0.5 + 0.6 * x + 0.7 * rng.normal(size=12)[g])
    data = {"x": x, "g": g.astype(str), "y": rng.poisson(mean)}
    method = pr.Evidence(criterion="ML", points=points)

    def fitted(formula, **offset):
        model = pr.Model.from_formula(formula, data, likelihood=likelihood, **offset)
        return pr.fit(model, method)

    fit = fitted("y ~ x + (1 | g)")
    interval = fit.interval(kind="profile").sel(coef="x")
    for end in (float(interval["lower"]), float(interval["upper"])):
        fixed = fitted("y ~ 1 + (1 | g)", offset=end * x)
        fall = 2.0 * (fit.solution.scales.value - fixed.solution.scales.value)
        assert fall == pytest.approx(1.959963984540**2, rel=1e-6)


def test_profiles_of_coefficients_are_those_of_lme4():
    """lme4 1.1-31: confint(glmer(cbind(k, n - k) ~ x + (1 | g), binomial), method = "profile")."""
    k = [0, 1, 3, 2, 1, 4, 5, 5, 0, 0, 1, 2, 2, 3, 2, 5, 1, 1, 4, 3, 0, 2, 2, 4]
    data = {"k": k, "n": [6] * 24, "x": [0, 1, 2, 3] * 6, "g": np.repeat(range(6), 4)}
    data["g"] = data["g"].astype(str)
    formula = "p(k, n) ~ x + (1 | g)"
    model = pr.Model.from_formula(formula, data, likelihood="binomial")
    interval = pr.fit(model, pr.Evidence(criterion="ML")).interval(kind="profile")
    found = np.column_stack([interval["lower"], interval["upper"]])
    ends = [[-3.0818997077, -0.9815390023], [0.4688625073, 1.2306447608]]
    np.testing.assert_allclose(found, ends, atol=2e-4)
