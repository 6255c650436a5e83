"""Comparisons of fits that have the same rows but other columns, weights or effects by group."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr

rng = np.random.default_rng(0)
N = 60
DATA = pd.DataFrame(
    {
        "x": rng.normal(size=N),
        "x2": rng.normal(size=N),
        "g": np.repeat(list("abcdef"), 10),
        "w": rng.integers(1, 4, N),
    }
)
MEAN = 0.2 + 0.5 * DATA["x"] + 0.5 * DATA["x2"]
DATA["y"] = MEAN + np.repeat(rng.normal(size=6), 10) + rng.normal(size=N)
DATA["count"] = rng.poisson(np.exp(MEAN))
DATA["spread"] = rng.poisson(np.exp(MEAN) * rng.gamma(1.0, size=N))
DATA["binary"] = np.where(rng.random(N) < 1 / (1 + np.exp(-MEAN)), "yes", "no")
DATA["kind"] = np.array(["low", "mid", "top"])[
    np.digitize(MEAN + rng.logistic(size=N), [-0.4, 0.8])
]
RESPONSES = {
    "gaussian": "y", "student": "y", "poisson": "count", "negative_binomial": "spread", "bernoulli": "binary",
    "categorical": "kind",
}  # fmt: skip


def fit_formula(
    terms: str, likelihood: str = "gaussian", method: str = "auto", **options
) -> pr.Fit:
    prior = options.pop("prior", None)
    model = pr.Model.from_formula(
        f"{RESPONSES[likelihood]} ~ {terms}", DATA, likelihood=likelihood, **options
    )
    return pr.fit(model if prior is None else model.with_prior(prior), method)


def check_table(table: pr.Comparison) -> None:
    """The table has the coefficients of each fit and empty cells for coefficients that a fit lacks."""
    coefficients = table.data.sel(param=table.data["role"] == "coefficient")
    for name, fit in table.fits.items():
        rows = coefficients.sel(fit=name)
        own = dict(zip(fit.parameter_names, fit.coef.values.ravel(), strict=True))
        assert own.keys() <= set(map(str, rows["param"].values))
        for param in map(str, rows["param"].values):
            if param in own:
                assert rows["estimate"].sel(param=param).item() == own[param]
            else:
                assert np.isnan(rows["estimate"].sel(param=param))
                assert rows["kind"].sel(param=param).item() == ""
        for i, param in enumerate(map(str, rows["param"].values)):
            assert str(rows["coef"].values[i]) in param
            assert str(rows["outcome"].values[i]) in param
    roles = table.data["role"].values.tolist()
    assert roles == sorted(roles, reverse=True)  # coefficients first


@pytest.mark.parametrize("baseline", ["all", "less"])
@pytest.mark.parametrize("prior", [None, pr.Normal(1.0)], ids=["flat", "normal"])
@pytest.mark.parametrize("likelihood", RESPONSES)
def test_an_omitted_variable_is_a_cause(likelihood, prior, baseline):
    fits = {
        "less": fit_formula("x", likelihood, prior=prior),
        "all": fit_formula("x + x2", likelihood, prior=prior),
    }
    table = pr.compare(fits, baseline=baseline)
    check_table(table)
    causes = table.causes
    assert len(causes)
    assert set(causes["cause"]) == {"columns"}
    assert causes[["shift", "log_se"]].isna().all().all()
    assert causes["evidence"].str.contains("x2 only in all", regex=False).all()
    assert not causes["param"].str.contains("x2").any()
    found = pr.explain(
        fits[baseline],
        fits["all" if baseline == "less" else "less"],
    )
    assert found.shares["cause"].values.tolist() == ["columns"]
    assert not any("x2" in str(p) for p in found.shares["param"].values)
    assert "x2 only in" in found.without_path
    one = found.shares["shift"].sel(cause="columns")
    np.testing.assert_array_equal(one, found.shares["difference"])
    params = [
        str(p)
        for p in found.shares["param"].values
        if str(p) in set(table.data["param"].values)
    ]
    other = next(name for name in fits if name != baseline)
    np.testing.assert_allclose(
        found.shares["difference"].sel(param=params),
        table.data["difference"].sel(fit=other, param=params),
        rtol=1e-10,
    )


def test_columns_of_each_fit_and_a_changed_prior_are_both_listed():
    fits = {"A": fit_formula("x"), "B": fit_formula("x2", prior=pr.Normal(1.0))}
    table = pr.compare(fits)
    check_table(table)
    evidence = set(table.causes["evidence"][table.causes["cause"] == "columns"])
    assert evidence == {"x only in A; x2 only in B"}
    with_prior = pr.compare(
        {"A": fit_formula("x"), "B": fit_formula("x + x2", prior={"x": pr.Normal(0.1)})}
    )
    assert set(with_prior.causes["cause"]) >= {"columns", "prior"}


WEIGHTS = {
    "frequency": lambda: DATA["w"].to_numpy(),
    "precision": lambda: pr.weights.precision(DATA["w"].to_numpy(float)),
    "sampling": lambda: pr.weights.sampling(DATA["w"].to_numpy(float)),
}


@pytest.mark.parametrize("kind", WEIGHTS)
def test_other_weights_are_a_cause(kind):
    plain, weighted = fit_formula("x"), fit_formula("x", weights=WEIGHTS[kind]())
    for fits in ({"A": plain, "B": weighted}, {"B": weighted, "A": plain}):
        table = pr.compare(fits)
        check_table(table)
        causes = table.causes
        assert len(causes)
        assert "weights" in set(causes["cause"])
        said = causes["evidence"][causes["cause"] == "weights"]
        assert said.str.contains("no weights in A").all()
        assert said.str.contains(f"{kind} weights in B").all()
        found = pr.explain(fits)
        assert found.shares["cause"].values[-1].startswith("weights")
        assert "no weights in A" in found.without_path


def test_weights_of_one_kind_with_other_values_are_a_cause():
    w = DATA["w"].to_numpy(float)
    heavier = w + 3.0 * (np.arange(N) < 5)
    for kind in (np.asarray, pr.weights.precision):
        table = pr.compare(
            {
                "A": fit_formula("x", weights=kind(w)),
                "B": fit_formula("x", weights=kind(heavier)),
            }
        )
        assert set(table.causes["cause"]) == {"weights"}
        assert table.causes["evidence"].str.contains("in 5 of 60 rows").all()
    ones = pr.compare(
        {"A": fit_formula("x"), "B": fit_formula("x", weights=np.ones(N))}
    )
    assert not len(ones.causes)  # weights of 1 are no weights


@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_pooled_against_grouped_is_a_cause(likelihood):
    fits = {
        "A": fit_formula("x", likelihood),
        "B": fit_formula("x + (1 | g)", likelihood),
    }
    for names in (("A", "B"), ("B", "A")):
        both = {name: fits[name] for name in names}
        table = pr.compare(both)
        check_table(table)
        causes = table.causes
        assert "effects by group" in set(causes["cause"])
        said = causes["evidence"][causes["cause"] == "effects by group"]
        assert set(said) == {"(1 | g) only in B"}
        found = pr.explain(both)
        assert found.shares["cause"].values[0].startswith("effects by group")
        assert {"Intercept", "x"} <= set(map(str, found.shares["param"].values))
        np.testing.assert_allclose(
            found.shares["shift"].sum("cause"), found.shares["difference"], atol=1e-12
        )


def test_a_posterior_with_other_columns_and_weights():
    fits = {
        "A": fit_formula("x + x2", method="posterior"),
        "B": fit_formula("x", weights=DATA["w"].to_numpy()),
    }
    table = pr.compare(fits)
    check_table(table)
    assert {"columns", "weights"} <= set(table.causes["cause"])
    found = pr.explain(fits)
    assert found.without_path.startswith("x2 only in A; no weights in A")


def test_the_order_of_columns_is_no_cause():
    table = pr.compare({"A": fit_formula("x + x2"), "B": fit_formula("x2 + x")})
    check_table(table)
    assert not len(table.causes)
    found = pr.explain(*table.fits.values())
    np.testing.assert_allclose(found.shares["difference"], 0.0, atol=1e-10)


def test_effects_with_other_columns_beside_them():
    table = pr.compare(
        {"A": fit_formula("x + (1 | g)"), "B": fit_formula("x + x2 + (1 | g)")}
    )
    check_table(table)
    assert set(table.causes["cause"]) == {"columns"}
    assert set(table.causes["evidence"]) == {"x2 only in B"}


def test_a_shared_name_with_other_values_is_an_error():
    moved = DATA.assign(x=DATA["x"] + (np.arange(N) == 3))
    other = pr.fit(pr.Model.from_formula("y ~ x + x2", moved))
    with pytest.raises(pr.DataError, match="row 3"):
        pr.compare({"A": fit_formula("x"), "B": other})
    with pytest.raises(pr.DataError, match="response"):
        pr.explain(
            fit_formula("x"),
            pr.fit(pr.Model.from_formula("y ~ x + x2", DATA.assign(y=-DATA["y"]))),
        )
