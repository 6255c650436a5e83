"""Predictions of known, new and typical groups, each by two routes."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.errors import DataError, Incompatible

RNG = np.random.default_rng(3)
G, EACH = 12, 6


def table() -> pd.DataFrame:
    x = np.tile(np.linspace(-1.0, 1.5, EACH), G)
    g = np.repeat([f"g{i:02d}" for i in range(G)], EACH)
    b = np.repeat(RNG.normal(size=(G, 2)) * [1.5, 0.7], EACH, axis=0)
    eta = 2.0 + b[:, 0] + (1.0 + b[:, 1]) * x
    y = eta + RNG.normal(size=len(x)) * 0.8
    happened = (RNG.random(len(x)) < 1 / (1 + np.exp(-eta + 2))).astype(int)
    kind = np.array(list("abc"))[
        np.clip(np.round(eta - 1 + RNG.normal(size=len(x))), 0, 2).astype(int)
    ]
    return pd.DataFrame({"x": x, "g": g, "y": y, "happened": happened, "kind": kind})


DATA = table()
NEW = pd.DataFrame({"x": [0.0, 1.0, 1.0], "g": ["u", "u", "v"]})
SPREAD = {"x || g": pr.priors.Covariance(sd=pr.HalfNormal(2.0))}
Z = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 1.0]])


@pytest.fixture(scope="module")
def mode() -> pr.Fit:
    return pr.fit(pr.Model.from_formula("y ~ x + (x || g)", DATA))


@pytest.fixture(scope="module")
def posterior() -> pr.Fit:
    return pr.fit(
        pr.Model.from_formula("y ~ x + (x || g)", DATA, prior=SPREAD), "integrate"
    )


@pytest.fixture(scope="module")
def chance() -> pr.Fit:
    return pr.fit(
        pr.Model.from_formula("happened ~ x + (1 | g)", DATA, likelihood="bernoulli"),
        "evidence",
    )


def sds(fit: pr.Fit) -> np.ndarray:
    return np.asarray(fit.model.joint.blocks[-1].prior.scales)[
        : 2 if "||" in fit.model.design.recipe.formula else 1
    ]


def test_a_group_that_the_fit_has_not_met_is_named_and_asked_for(mode):
    for asked in ({}, {"groups": "known"}):
        with pytest.raises(
            DataError,
            match=r"row 0 is of g 'u', which the fit has not met.*groups='new'.*groups='typical'",
        ):
            mode.predict(NEW, **asked)
        with pytest.raises(DataError, match="'u'"):
            mode.predictive(NEW, **asked)
    with pytest.raises(DataError, match="groups"):
        mode.predict(NEW, groups="mean")


def test_groups_of_a_model_without_any_are_refused():
    plain = pr.fit(pr.Model.from_formula("y ~ x", DATA))
    with pytest.raises(DataError, match="this model has none"):
        plain.predict(NEW, groups="new")
    assert "groups" not in plain.predict(NEW).attrs


def test_known_groups_are_the_rows_of_the_fit(mode, posterior):
    for fit in (mode, posterior):
        again, own = fit.predict(DATA.head(9)), fit.predict()
        for name in again:
            np.testing.assert_allclose(again[name], own[name][:9], rtol=1e-6)
        assert again.equals(fit.predict(DATA.head(9), groups="known"))


def test_a_typical_group_has_the_flat_coefficients_alone(mode, chance):
    found = mode.predict(NEW[["x"]], groups="typical")
    b, V = mode.coef.values[:2], mode.covariance().values[:2, :2]
    np.testing.assert_allclose(found["mean"], Z @ b, rtol=1e-12)
    error = np.sqrt(np.einsum("ni,ij,nj->n", Z, V, Z))
    np.testing.assert_allclose(found["mean_std_error"], error, rtol=1e-9)
    # Satterthwaite's t, as in the summary and in predictions
    summary = mode.summary().loc["Intercept"]
    assert float(found["mean_lower"][0]) == pytest.approx(summary["lower"], rel=1e-9)
    averaged = pr.predictions(mode, at={"x": [0.0, 1.0]}, groups="typical").table
    for end in ("lower", "upper"):
        np.testing.assert_allclose(found[f"mean_{end}"][:2], averaged[end], rtol=1e-9)
    # the mean's degrees of freedom times (1 + sigma^2 / x'Vx)^2
    df = summary["df"] * (1.0 + float(mode.aux["sigma"] / error[0]) ** 2) ** 2
    wide = stats.t.ppf(0.975, df) * np.hypot(error[0], float(mode.aux["sigma"]))
    assert float(found["new_upper"][0] - found["mean"][0]) == pytest.approx(wide)
    assert found.equals(mode.predict(NEW, groups="typical"))
    assert "median" in chance.predict(NEW, groups="typical").attrs["groups"]
    assert "median" not in found.attrs["groups"]


def test_a_new_group_of_a_mode_adds_the_variance_of_its_effects(mode):
    # Var(x'beta + z'b) = x'Vx + z'S z, and that of a new observation has sigma^2 beside
    found, V, s2 = (
        mode.predict(NEW, groups="new"),
        mode.covariance().values[:2, :2],
        mode.aux["sigma"] ** 2,
    )
    variance = np.einsum("ni,ij,nj->n", Z, V, Z) + Z**2 @ sds(mode) ** 2
    half = (found["mean_upper"] - found["mean_lower"]) / 2
    np.testing.assert_allclose(half, 1.959964 * np.sqrt(variance), rtol=1e-6)
    wide = (found["new_upper"] - found["new_lower"]) / 2
    np.testing.assert_allclose(
        wide, 1.959964 * np.sqrt(variance + float(s2)), rtol=1e-6
    )
    np.testing.assert_allclose(
        found["mean"], mode.predict(NEW, groups="typical")["mean"]
    )


def test_rows_of_a_new_group_share_its_effects(mode):
    eta = mode.predictive(NEW, groups="new").eta[..., 0]
    S = np.diag(sds(mode) ** 2)
    expected = Z @ S @ Z.T * np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_allclose(np.cov(eta.T), expected, atol=0.12 * expected.max())
    # a row of each group: its own distribution, without draws
    one = mode.predictive(NEW[1:], groups="new")
    assert len(one.eta) == 1
    np.testing.assert_allclose(
        one.aux["sigma"] ** 2 - mode.aux["sigma"] ** 2,
        np.diag(Z @ S @ Z.T)[None, 1:],
        rtol=1e-9,
    )


def test_a_new_group_of_a_posterior_has_the_effects_of_every_draw(posterior):
    draws = posterior.solution.draws.flat
    sd = np.stack([draws[f"sd({k} | g)"] for k in ("Intercept", "x")], 1)
    eta = draws["beta"][:, :2, 0] @ Z.T
    found = posterior.predict(NEW, groups="new")
    spread = np.sqrt(eta.var(0) + (sd**2 @ (Z**2).T).mean(0))
    np.testing.assert_allclose(
        posterior.predictive(NEW, groups="new").eta[..., 0].std(0), spread, rtol=0.03
    )
    wide = (found["mean_upper"] - found["mean_lower"]) / (2 * 1.96)
    assert (wide > spread * 0.95).all()
    assert (wide < spread * 1.15).all()
    typical = posterior.predict(NEW, groups="typical")
    assert (
        typical["mean_upper"] - typical["mean_lower"]
        < found["mean_upper"] - found["mean_lower"]
    ).all()


def test_the_mean_of_a_chance_is_over_the_effects_of_a_new_group(chance):
    typical, new = (
        chance.predict(NEW, groups=g)["mean"].values for g in ("typical", "new")
    )
    eta, sd = np.log(typical / (1 - typical)), sds(chance)[0]
    z, w = np.polynomial.hermite_e.hermegauss(60)
    expected = (1 / (1 + np.exp(-(eta[:, None] + sd * z)))) @ w / w.sum()
    np.testing.assert_allclose(new, expected, rtol=1e-8)
    assert (np.abs(new - 0.5) < np.abs(typical - 0.5)).all()


def test_classes_of_a_new_group_are_nearer_to_one_another():
    fit = pr.fit(
        pr.Model.from_formula("kind ~ x + (1 | g)", DATA, likelihood="categorical"),
        "evidence",
    )
    typical, new = (
        fit.predict(NEW, groups=g)["mean"].values for g in ("typical", "new")
    )
    np.testing.assert_allclose(new.sum(1), 1.0, rtol=1e-9)
    assert (new.max(1) < typical.max(1)).all()
    with pytest.raises(DataError, match="'u'"):
        fit.predict(NEW)


def test_known_and_new_effects_are_asked_for_of_every_term():
    data = DATA.assign(h=np.tile(list("pqr"), len(DATA) // 3))
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | g) + (1 | h)", data), "evidence")
    with pytest.raises(DataError, match="of h 'new'"):
        fit.predict(data.head(2).assign(h="new"))
    assert fit.predict(data.head(2)[["x"]], groups="typical")["mean"].shape == (2,)


def test_rows_of_a_new_group_are_no_rows_of_the_model(posterior):
    with pytest.raises(DataError, match=r"row 0 is of g 'u'.*fit all rows together"):
        posterior.model.at(NEW.assign(y=0.0))


def test_an_update_does_not_lose_the_standard_deviations(posterior, mode):
    twice = pd.concat([DATA, DATA.head(4)], ignore_index=True)
    more = pr.fit(
        pr.Model.from_formula("y ~ x + (x || g)", twice, prior=SPREAD), "integrate"
    )
    np.testing.assert_allclose(
        posterior.update(DATA.head(4)).coef, more.coef, rtol=1e-6
    )
    rest = pr.fit(pr.Model.from_formula("y ~ x + (x || g)", DATA.tail(-4)))
    np.testing.assert_allclose(mode.forget(DATA.head(4)).coef, rest.coef, rtol=1e-6)


def test_rows_are_forgotten_by_a_posterior(posterior):
    rest = pr.fit(
        pr.Model.from_formula("y ~ x + (x || g)", DATA.tail(-4), prior=SPREAD),
        "integrate",
    )
    np.testing.assert_allclose(
        posterior.forget(DATA.head(4)).coef[:2], rest.coef[:2], rtol=1e-9
    )


def test_after_an_update_with_known_standard_deviations_a_new_group_is_refused():
    prior = {
        "x || g": pr.Normal(1.0, sigma_units=True),
        "Intercept": pr.Normal(9.0, sigma_units=True),
        "x": pr.Normal(9.0, sigma_units=True),
    }
    fit = pr.fit(
        pr.Model.from_formula("y ~ x + (x || g)", DATA, prior=prior), "conjugate"
    )
    assert np.isfinite(fit.predict(NEW, groups="new")["mean"]).all()
    after = fit.update(DATA.head(4))
    assert np.isfinite(after.predict(DATA.head(2))["mean"]).all()
    with pytest.raises(Incompatible, match="typical"):
        after.predict(NEW, groups="new")


def test_sigma_of_a_new_group_is_that_of_every_group():
    g = np.repeat(list("abcd"), 3)
    y = np.repeat([0.0, 2.0, 1.0, 4.0], 3) + np.tile([0.0, 1.0, 0.3], 4)
    fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | g)", {"y": y, "g": g}))
    found = fit.predict({"g": ["z"]}, groups="new", what="sigma")
    assert found["sigma"].item() == pytest.approx(fit.aux["sigma"], rel=1e-12)
    # sigma has no standard error beside estimated scales: nan as for a typical group, not 0
    errors = [
        pr.predictions(fit, what="sigma", groups=kind).table["std_error"].item()
        for kind in ("new", "typical")
    ]
    np.testing.assert_array_equal(errors[0], errors[1])


def test_a_row_of_zeros_leaves_the_others_their_degrees_of_freedom():
    slope = pr.fit(pr.Model.from_formula("y ~ 0 + x + (1 | g)", DATA))
    alone = slope.predict({"x": [2.0]}, groups="typical")
    both = slope.predict({"x": [0.0, 2.0]}, groups="typical")
    assert float(both["mean_std_error"][0]) == 0.0
    for end in ("mean_lower", "new_upper"):
        assert float(both[end][1]) == pytest.approx(float(alone[end][0]), rel=1e-12)
    assert "Student-t" in both.attrs["kind"]
