"""Names of columns that look like words of the library give the results of any other name."""

import functools

import numpy as np
import pytest

import probreg as pr

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
ETA = X @ [0.5, -0.3]
Y = ETA + rng.normal(size=40)
NAMES = [
    "shares held",
    "sigma fixed",
    "prior of z",
    "likelihood",
    "a: b",
    "sd(x | g)",
    "estimate",
    "coef",
    "separation",
    "fixed",
]


@functools.cache
def outputs(name):
    model = pr.Model.from_arrays(X, Y, columns=[name, "z"])
    fits = {
        "ML": pr.fit(model),
        "ridge": pr.fit(model.with_prior({name: pr.Normal(0.2)})),
    }
    compared = pr.compare(fits)
    shares = pr.explain(fits["ML"], fits["ridge"]).shares
    text = " ".join(
        map(str, (compared, compared.reasons, fits["ML"], fits["ridge"], model))
    )
    return shares, fits, text


@pytest.mark.parametrize("name", NAMES)
def test_a_comparison_does_not_depend_on_the_name_of_a_column(name):
    shares, fits, text = outputs(name)
    plain, of_plain, _ = outputs("zz")
    assert f"prior of {name}" in shares["cause"].values
    np.testing.assert_allclose(shares["shift"], plain["shift"], atol=1e-12)
    np.testing.assert_allclose(fits["ridge"].std_error, of_plain["ridge"].std_error)
    assert name in text
    np.testing.assert_array_equal(
        pr.hypothesis(fits["ML"], f"`{name}` = 0").tests["t"].statistic,
        pr.hypothesis(of_plain["ML"], "zz = 0").tests["t"].statistic,
    )


G = np.repeat(list("abcdefgh"), 5)


@functools.cache
def fit_of_groups(name, classes):
    y = np.where(Y > 0.5, "high", np.where(Y > -0.5, "mid", "low")) if classes else Y
    model = pr.Model.from_formula(
        f"y ~ z + (1 | `{name}`)",
        {"y": y, "z": X[:, 0], name: G},
        likelihood="categorical" if classes else "gaussian",
    )
    return pr.fit(model)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize(
    "name", ["effect", "beta", "std_error", "coef", "outcome", "sigma", "draw"]
)
def test_group_effects_do_not_depend_on_the_name_of_the_grouping_factor(
    name, classes, tmp_path
):
    fit, plain = fit_of_groups(name, classes), fit_of_groups("gg", classes)
    np.testing.assert_array_equal(fit.summary(), plain.summary())
    np.testing.assert_array_equal(
        fit.effects()["estimate"], plain.effects()["estimate"]
    )
    effects, of_plain = (
        f.estimate[f"effects[{n}]"] for f, n in ((fit, name), (plain, "gg"))
    )
    np.testing.assert_array_equal(effects, of_plain)
    assert effects.sizes[effects.dims[0]] == 8
    fit.save(tmp_path / "fit.nc")
    loaded = pr.load_fit(tmp_path / "fit.nc").estimate[f"effects[{name}]"]
    np.testing.assert_array_equal(loaded, effects)


@pytest.mark.parametrize("name", ["None", "True", "_g", "class", "or"])
def test_a_factor_with_a_name_of_python_is_compared(name):
    fit, plain = (
        pr.ols(f"y ~ z + `{n}`", {"y": Y, "z": X[:, 0], n: G}) for n in (name, "gg")
    )
    compared, of_plain = (
        pr.comparisons(f, n).table for f, n in ((fit, name), (plain, "gg"))
    )
    np.testing.assert_array_equal(compared["estimate"], of_plain["estimate"])


def test_a_slash_in_the_name_of_a_grouping_factor(tmp_path):
    model = pr.Model.from_formula(
        "y ~ z + (1 | `m/s`)",
        {"y": Y, "z": X[:, 0], "m/s": G},
        prior={"1 | `m/s`": pr.Covariance(sd=pr.HalfNormal(1.0))},
    )
    for fit in (fit_of_groups("m/s", False), pr.fit(model, "integrate", seed=1)):
        fit.save(tmp_path / "fit.nc", rows=True)
        loaded = pr.load_fit(tmp_path / "fit.nc")
        np.testing.assert_allclose(
            loaded.effects()["estimate"], fit.effects()["estimate"], rtol=1e-12
        )
        assert "(1 | `m|s`)" in fit.tree["constant_data"]
    assert "effects[`m|s`]" in fit.tree["posterior"]
    pytest.importorskip("pymc")
    assert "effects[`m|s`]" in model.to_pymc().named_vars


def test_effects_of_a_grouping_factor_by_the_name_of_its_column():
    fit = fit_of_groups("m/s", False)
    np.testing.assert_array_equal(fit.effects("m/s"), fit.effects("`m/s`"))
    with pytest.raises(pr.DataError, match="group='m s': expected one of '`m/s`'"):
        fit.effects("m s")
