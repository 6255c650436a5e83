"""Covariances and intervals that mean nothing for a fit are refused, and the refusal says what to ask for instead."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference import Bootstrap, Newton

X = np.array(
    [
        [0.1, 1.0],
        [0.9, 2.0],
        [2.2, 0.5],
        [3.1, 1.5],
        [3.9, 2.5],
        [5.2, 0.1],
        [6.0, 1.1],
        [7.1, 0.4],
    ]
)
Y = np.array([0.2, 1.1, 1.9, 3.4, 4.1, 4.6, 6.3, 6.9])
TWO = [0, 1, 0, 0, 1, 1, 0, 1]


def fitted(**more: object) -> pr.Fit:
    return pr.fit(pr.Model.from_arrays(X, Y, columns=["a", "b"], **more))


def logistic(method: object = "auto", **more: object) -> pr.Fit:
    return pr.fit(pr.Model.from_arrays(X, TWO, likelihood="bernoulli", **more), method)


@pytest.mark.parametrize(
    ("ask", "error", "message"),
    [
        (
            {"kind": "HC4"},
            pr.DataError,
            "'HC4'.*classical, ml, .*HC3",
        ),
        ({"kind": "cluster"}, pr.DataError, "needs groups=: a column's name"),
        (
            {"kind": "cluster", "groups": "school"},
            pr.DataError,
            "'school' is not a variable of this model.*data=",
        ),
        ({"kind": "cluster", "groups": [1, 2]}, pr.DataError, "2 labels for 8 rows"),
        (
            {"kind": "cluster", "groups": [1] * 8},
            pr.DataError,
            r"every row is in one group \(1\)",
        ),
        (
            {"kind": "cluster", "groups": ["a", None] * 4},
            pr.DataError,
            r"row 1 has no group \(4 such rows\)",
        ),
        (
            {"kind": "cluster", "groups": np.zeros((8, 3))},
            pr.DataError,
            "got 3 columns",
        ),
        (
            {"kind": "cluster", "groups": "s", "data": {"g": [1] * 8}},
            pr.DataError,
            "'s'.*they have: g",
        ),
        (
            {"kind": "HC1", "groups": [1, 2] * 4},
            pr.DataError,
            "groups= is a setting of covariance.'cluster'.",
        ),
        (
            {"kind": "HC1", "lags": 2},
            pr.DataError,
            "lags= is a setting of covariance.'HAC'.",
        ),
        ({"groups": [1, 2] * 4}, pr.DataError, "groups=: expected only with the name"),
        ({"kind": "HAC", "lags": 8}, pr.DataError, "lags=8: .* 7"),
        ({"kind": "HAC", "lags": 1.5}, pr.DataError, "whole number .* got 1.5"),
        (
            {"kind": "HAC", "small_sample": "some"},
            pr.DataError,
            "small_sample is 'stata', 'each', 'full', 'groups' or 'none', got 'some'",
        ),
        (
            {"kind": "HAC", "small_sample": "each"},
            pr.DataError,
            "'each' .*HAC covariance.* stata",
        ),
        ({"kind": "bootstrap"}, pr.Incompatible, "no replicates: fit with Bootstrap"),
    ],
)
def test_settings_that_do_not_fit(ask, error, message):
    with pytest.raises(error, match=message):
        fitted().covariance(**ask)


def test_groups_of_a_summary_go_with_the_covariance():
    with pytest.raises(pr.Incompatible, match=r"covariance=fit\.covariance\("):
        fitted().summary(covariance="cluster", groups=[1, 2] * 4)


def test_kinds_that_mean_nothing_for_a_model():
    with pytest.raises(
        pr.Incompatible,
        match=r"covariance of least squares.*'observed', 'expected' or 'sampling'",
    ):
        logistic().covariance("classical")
    with pytest.raises(pr.Incompatible, match="covariance of least squares"):
        fitted(prior=pr.priors.Normal(1.0)).covariance("ml")
    with pytest.raises(pr.Incompatible, match=r"time order.*has weights"):
        fitted(weights=[1, 2] * 4).covariance("HAC")
    with pytest.raises(
        pr.Incompatible,
        match=r"a posterior has one covariance.*'HC1'",
    ):
        pr.fit(fitted().model, "conjugate").covariance("HC1")
    with pytest.raises(pr.Incompatible, match="a posterior has one covariance"):
        pr.fit(fitted().model, "conjugate").interval(covariance="HC1")
    with pytest.warns(pr.ProbregWarning):
        sides = logistic("perceptron")
    with pytest.raises(pr.Incompatible, match="perceptron has no likelihood"):
        sides.covariance("HC0")
    lone = pr.fit(pr.Model.from_arrays(np.c_[X[:, 0], np.arange(8) == 2], Y))
    with pytest.raises(
        pr.DataError, match=r"row 2 has a leverage of at least 1 .*use HC0 or HC1"
    ):
        lone.covariance("HC3")
    assert np.isfinite(lone.covariance("HC1")).all()


def test_a_covariance_of_something_else():
    fit = fitted()
    for wrong in (logistic().covariance(), np.eye(3), 3):
        with pytest.raises(
            pr.DataError,
            match=r"what fit.covariance\(...\) of this model returned \(over Intercept, a, b\)",
        ):
            fit.interval(covariance=wrong)
    with pytest.raises(
        pr.Incompatible,
        match=r"covariance= .*t and wald; a profile interval",
    ):
        fit.interval(kind="profile", covariance="HC1")
    with pytest.raises(pr.Incompatible, match="no degrees of freedom here"):
        fit.interval(kind="t", covariance="ml")


def test_rows_that_are_gone(tmp_path):
    kept = pr.load_fit(fitted().save(tmp_path / "fit.nc"))
    # of moments alone
    np.testing.assert_allclose(kept.covariance("classical"), fitted().covariance())
    with pytest.raises(
        pr.DataError, match=r"sandwich covariance is a sum over the rows, .*rows=True"
    ):
        kept.covariance("HC0")
    with pytest.raises(
        pr.DataError,
        match=r"profile interval needs the rows in memory, .*saved without",
    ):
        kept.interval(kind="profile")
    with pytest.raises(
        pr.DataError, match=r"bootstrap needs the rows in memory, .*saved without"
    ):
        pr.fit(kept.model, "bootstrap")


def test_groups_by_name_and_by_label():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(
        {"y": Y, "a": X[:, 0], "g": list("uvwuvwuv"), "h": [1, 2] * 4},
        index=list("ABCDEFGH"),
    )
    table.loc["C", "a"] = np.nan
    fit = pr.fit(pr.Model.from_formula("y ~ a + C(h)", table, missing="drop"))
    kept = np.delete(np.arange(8), 2)
    by_array = fit.covariance("cluster", groups=table["g"].to_numpy()[kept])
    # a name is looked up in the table, and rows that the model dropped are left out by their labels
    np.testing.assert_array_equal(
        fit.covariance("cluster", groups="g", data=table), by_array
    )
    np.testing.assert_array_equal(
        fit.covariance("cluster", groups=table["g"]), by_array
    )
    in_design = fit.covariance("cluster", groups="C(h)")
    np.testing.assert_allclose(in_design, fit.covariance("cluster", groups=table["h"]))
    negative = "1 of 3 were negative and are set to 0"
    with pytest.warns(pr.ProbregWarning, match=negative) as met:
        two = fit.covariance("cluster", groups=["g", "h"], data=table)
    # of the line above, although a decorator of the standard library lies between
    assert met[0].filename == __file__
    assert two.attrs["groups"] == "3 x 2"
    assert "set to 0" in two.attrs["eigenvalues"]  # far too few groups for two ways
    assert np.linalg.eigvalsh(two).min() > -1e-12


def test_collinear_columns_keep_the_covariances_that_exist():
    with pytest.warns(pr.ProbregWarning, match="not identified"):
        fit = pr.fit(
            pr.Model.from_arrays(
                np.c_[X, X[:, 0] * 2],
                TWO,
                columns=["a", "b", "c"],
                likelihood="bernoulli",
            )
        )
    smaller = logistic()
    for kind in ("observed", "HC0", "HC3"):
        found = fit.covariance(kind)
        assert np.isnan(found.sel(param="a")).all()
        expected = smaller.covariance(kind).values[np.ix_([0, 2], [0, 2])]
        np.testing.assert_allclose(
            found.sel(param=["Intercept", "b"], param_=["Intercept", "b"]),
            expected,
            rtol=1e-6,
        )


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (Bootstrap("laplace"), "wraps a method that finds a mode; laplace does not"),
        (
            Bootstrap("perceptron"),
            "wraps a method that finds a mode; perceptron does not",
        ),
        (Bootstrap(Bootstrap()), "wraps a method that finds a mode, not Bootstrap"),
        (Bootstrap("closed_form"), "closed_form needs a Gaussian likelihood"),
        (
            Bootstrap(kind="residual"),
            "real-valued response, .*bernoulli.*use pairs or parametric",
        ),
    ],
)
def test_what_a_bootstrap_does_not_wrap(method, message):
    with pytest.raises(pr.Incompatible, match=message):
        logistic(method)


def test_settings_of_a_bootstrap():
    for settings, message in (
        (
            {"kind": "blocks"},
            "kind is 'pairs', 'residual' or 'parametric', got 'blocks'",
        ),
        (
            {"interval": "basic"},
            "interval is 'percentile' or 'bca', got 'basic'",
        ),
        ({"reps": 1}, "reps is a whole number of at least 2"),
        ({"reps": 0}, "reps is a whole number of at least 2"),
        ({"workers": 0.5}, "workers is a whole number"),
    ):
        with pytest.raises(pr.DataError, match=message):
            Bootstrap(**settings)
    with pytest.raises(
        pr.Incompatible, match=r"bootstrap: sampling weights make a pseudo-likelihood"
    ):
        pr.fit(
            pr.Model.from_arrays(X, Y, weights=pr.weights.sampling([0.5] * 8)),
            "bootstrap",
        )


def test_intervals_that_need_replicates():
    with pytest.raises(
        pr.Incompatible,
        match="no replicates, so no bootstrap interval: fit with Bootstrap",
    ):
        fitted().interval(kind="bca")


def test_where_nothing_can_be_resampled():
    with pytest.warns(pr.ProbregWarning, match="no maximum"):
        fit = pr.fit(
            pr.Model.from_arrays([1.0, 2, 3, 4], [0, 0, 1, 1], likelihood="bernoulli"),
            Bootstrap(reps=20),
        )
    assert fit.solution.replicates is None
    assert "not resampled: there is no estimate to resample" in fit.described["notes"]
    x, y = (
        np.array([1.0, 2, 3, 4]),
        [0, 1, 0, 1],
    )  # almost every resample of four rows is separated
    with pytest.raises(
        pr.Incompatible, match=r"replicates have no estimate .*no maximum.*give a prior"
    ):
        pr.fit(
            pr.Model.from_arrays(np.c_[x, x**2], y, likelihood="bernoulli"),
            Bootstrap(Newton(), reps=10),
            seed=1,
        )


def test_an_exact_fit_has_no_profile():
    exact = pr.fit(
        pr.Model.from_arrays([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], aux={"sigma": 1.0})
    )
    # sigma is given
    assert np.isfinite(exact.interval(kind="profile").to_array()).all()
    free = pr.fit(pr.Model.from_arrays([0.0, 1.0], [1.0, 3.0]))
    with pytest.raises(pr.NotConverged, match="no maximum to start from"):
        free.interval(kind="profile")


@pytest.mark.parametrize("formula", ["y ~ C(g)", "y ~ 0 + C(g)"])
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_a_cluster_covariance_of_groups_that_are_columns_is_refused(
    formula, likelihood
):
    rng = np.random.default_rng(0)
    data = {"y": rng.poisson(3.0, 30), "g": np.repeat(list("abcdef"), 5)}
    fit = pr.fit(pr.Model.from_formula(formula, data, likelihood=likelihood))
    with pytest.raises(pr.Incompatible, match=r"groups: .*C\(g\)"):
        fit.covariance("cluster", groups=data["g"])


def test_a_cluster_covariance_with_variation_inside_groups_is_kept():
    rng = np.random.default_rng(0)
    data = {
        "y": rng.normal(size=30),
        "x": rng.normal(size=30),
        "g": np.repeat(list("abcdef"), 5),
    }
    for formula in ("y ~ x + C(g)", "y ~ x", "y ~ 1"):
        fit = pr.fit(pr.Model.from_formula(formula, data))
        assert (np.diagonal(fit.covariance("cluster", groups=data["g"])) > 1e-8).all()


def test_groups_may_be_a_variable_that_the_model_keeps():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"x": rng.normal(size=60), "g": np.repeat(list("abcdef"), 10)})
    table["y"] = table["x"] + rng.normal(size=60)
    table.loc[7, "x"] = np.nan
    for formula in ("y ~ x + (1 | g)", "y ~ x + I(codes > 2)"):
        table["codes"] = np.repeat(range(6), 10)
        model = pr.Model.from_formula(formula, table, missing="drop")
        fit = pr.fit(model)
        named = "g" if "| g" in formula else "codes"
        np.testing.assert_array_equal(
            fit.covariance("cluster", groups=named),
            fit.covariance("cluster", groups=named, data=table),
        )
