"""Smooth functions as terms of a formula: their columns, priors by default and by name, predictions, files, sentences."""

import csv

import numpy as np
import pytest

import probreg as pr
from probreg.errors import DataError
from tests.conftest import reference_path
from tests.properties.texts import unfolded

data = np.random.default_rng(8)
N = 120
TABLE = {
    "x": data.uniform(0, 10, N),
    "z": data.uniform(-1, 1, N),
    "g": np.array(["a", "b", "c"])[data.integers(0, 3, N)],
    "w": data.normal(size=N),
}
TABLE["y"] = np.sin(TABLE["x"]) + 0.5 * TABLE["z"] + 0.3 * data.normal(size=N)
BLOCKS = ("s(x)", "t2(z, w)[1]", "t2(z, w)[2]", "t2(z, w)[3]")
HALF = pr.Normal(pr.HalfNormal(1.0))


def model_of(terms: str, **more) -> pr.Model:
    return pr.Model.from_formula(f"y ~ {terms}", TABLE, **more)


def widths(model: pr.Model) -> list[tuple[int, str]]:
    return [(len(b.columns), b.prior.name) for b in model.joint.blocks]


@pytest.mark.parametrize(
    ("terms", "blocks"),
    [
        ("s(x)", [(2, "flat"), (8, "normal")]),
        ("w + s(x, k=6, bs='ps')", [(3, "flat"), (4, "normal")]),
        ("s(x, k=7, bs='cp')", [(1, "flat"), (6, "normal")]),
        ("s(x, k=7, bs='cc')", [(1, "flat"), (5, "normal")]),
        ("s(x, k=7, bs='cr')", [(2, "flat"), (5, "normal")]),
        ("s(x, z, k=12)", [(3, "flat"), (9, "normal")]),
        ("t2(x, z)", [(4, "flat"), (6, "normal"), (6, "normal"), (9, "normal")]),
        (
            "g + s(x, k=5, by=g)",
            [(6, "flat"), (3, "normal"), (3, "normal"), (3, "normal")],
        ),
        ("s(x, k=5, by=w)", [(3, "flat"), (3, "normal")]),
        ("s(x, k=5) + s(z, k=6)", [(3, "flat"), (3, "normal"), (4, "normal")]),
    ],
)
def test_a_range_has_a_scale_of_its_own_and_the_rest_is_flat(
    terms: str, blocks: list[tuple[int, str]]
) -> None:
    assert widths(model_of(terms)) == blocks
    assert pr.fit(model_of(terms)).notes[0].topic == "method"


def test_a_prior_for_all_columns_leaves_terms_to_their_default() -> None:
    model = model_of("w + s(x)", prior=pr.Normal(0.5))
    assert {str(b.prior) for b in model.joint.blocks if b.columns == (1,)} == {
        str(pr.Normal(0.5))
    }
    assert widths(model) == [(2, "flat"), (1, "normal"), (8, "normal")]


@pytest.mark.parametrize("key", ["s(x, k=7)", "s(x,k = 7)", "s(x)"])
def test_a_prior_names_a_term_with_its_options_or_without(key: str) -> None:
    model = model_of("w + s(x, k=7)", prior={key: HALF})
    assert list(model.prior.values()) == [HALF]
    assert str(model.with_prior({key: HALF}).prior) == str(model.prior)


def test_a_key_that_fits_two_terms_asks_which() -> None:
    with pytest.raises(
        DataError,
        match=r"may be s\(x, k=5\) or s\(x, by=w\): write the term with its options",
    ):
        model_of("s(x, k=5) + s(x, by=w)", prior={"s(x)": HALF})


def test_a_posterior_becomes_the_prior_of_all_columns_together() -> None:
    fixed = model_of("s(x)", prior={"s(x)": pr.Normal(0.5)}, aux={"sigma": 0.3})
    half = {k: v[:80] for k, v in TABLE.items()}
    first = pr.fit(fixed.at(half), "conjugate")
    both = first.update({k: v[80:] for k, v in TABLE.items()})
    np.testing.assert_allclose(
        both.coef, pr.fit(fixed, "conjugate").coef, rtol=1e-6, atol=1e-9
    )


def test_a_flat_prior_makes_it_a_regression_spline() -> None:
    flat = pr.fit(model_of("s(x, k=6)", prior={"s(x)": pr.Flat()}))
    X = model_of("s(x, k=6)").design.X
    np.testing.assert_allclose(flat.coef, np.linalg.lstsq(X, TABLE["y"])[0], rtol=1e-8)


def test_new_rows_get_the_same_functions() -> None:
    for terms in (
        "s(x)",
        "t2(x, z)",
        "g + s(x, by=g)",
        "s(x, by=w)",
        "s(x, bs='cc')",
        "s(x, z)",
    ):
        model = model_of(terms)
        some = {k: v[5:9] for k, v in TABLE.items() if k != "y"}
        np.testing.assert_allclose(
            model.design.at(some).X, model.design.X[5:9], atol=1e-11
        )


def test_a_saved_fit_predicts_what_it_did(tmp_path) -> None:
    for i, terms in enumerate(("s(x)", "t2(x, z)", "g + s(x, by=g)")):
        fit = pr.fit(model_of(terms))
        again = pr.load_fit(fit.save(tmp_path / f"{i}.nc"))
        new = {"x": [0.5, 12.0], "z": [0.0, 2.0], "g": ["a", "c"], "w": [0.0, 1.0]}
        np.testing.assert_array_equal(
            again.predict(new)["mean"], fit.predict(new)["mean"]
        )
        assert again.model.design.recipe.terms == fit.model.design.recipe.terms


def test_a_smooth_function_of_each_level_is_that_of_its_rows_alone() -> None:
    model = model_of("g + s(x, k=5, by=g)")
    other = TABLE["g"] != "b"
    columns = [j for j, name in enumerate(model.design.columns) if "[b, " in name]
    assert len(columns) == 4
    assert (model.design.X[np.ix_(other, columns)] == 0).all()


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_other_likelihoods_take_smooth_functions(likelihood: str) -> None:
    rows = np.random.default_rng(1)
    eta = np.sin(TABLE["x"])
    y = (
        (eta + rows.logistic(size=N) > 0).astype(int)
        if likelihood == "bernoulli"
        else rows.poisson(np.exp(eta))
    )
    fit = pr.fit(
        pr.Model.from_formula("y ~ s(x)", {**TABLE, "y": y}, likelihood=likelihood)
    )
    assert "evidence" in str(fit.notes[0])
    grid = np.linspace(1.0, 9.0, 50)
    mean = fit.predict({"x": grid})["mean"]
    assert np.corrcoef(np.asarray(mean).ravel()[: len(grid)], np.sin(grid))[0, 1] > 0.8


def test_sentences_call_the_columns_of_a_block_by_the_term() -> None:
    fit = pr.fit(model_of("s(x) + t2(z, w)"))
    said = " ".join(
        note
        for note in map(str, fit.notes)
        if note.startswith(("prior scale", "pruned"))
    )
    assert "s(x)[" not in said
    assert all(name in said for name in BLOCKS)
    assert "[3.1]" not in said
    told = unfolded(fit.model.with_prior({}))[1]
    # each block by its name, and no scale that was found as a prior
    for line in (told, unfolded(fit)[2]):
        assert all(f"scales of {name} " in line for name in BLOCKS)
        assert "Normal(" not in line


def test_checks_take_a_term_as_one_thing() -> None:
    found = pr.check(model_of("s(x) + w"))
    said = [f.sentence for f in found if f.verdict.name != "OK"]
    assert not [one for one in said if "s(x)[" in one]


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ("s(x):g", "stands by itself in .* is s\\(x, by=g\\)"),
        ("log(s(x))", "stands by itself, not inside another function"),
        ("s(x, k=500)", "k is at most 120, the number of distinct points, got 500"),
        ("s(x, k=5000)", "asks for k=5000; s has at most 1000 columns"),
        ("s(x, k=2.5)", "k is one whole number"),
        ("s(g)", "column 'g' holds text"),
        ("s(x, bs='xx')", "bs is 'tp' .*, got 'xx'"),
        ("s(x, by=3)", "by= is one column"),
        ("s(x, by=missing)", "missing"),
        ("t2(x)", "t2 takes two columns or more"),
        ("s()", "s takes columns, then k=, bs=, by="),
        ("s(log(x - 5))", "not finite|infinite|missing"),
    ],
)
def test_what_a_smooth_function_cannot_be_is_one_sentence(
    terms: str, said: str
) -> None:
    with pytest.raises(DataError, match=said):
        model_of(terms)


def test_a_level_that_was_not_met_is_named_with_its_row() -> None:
    with pytest.raises(
        DataError,
        match="by= has the level 'd' at row 1, which the model does not know; it knows 'a', 'b', 'c'",
    ):
        model_of("s(x, by=g)").design.at({"x": [1.0, 2.0], "g": ["a", "d"]})


def test_the_motorcycle_in_one_table() -> None:
    """mgcv's gam(accel ~ s(times), method = "REML"): intercept -25.546 (1.951), scale 506.35; brms: sigma 22.78 (1.47)."""
    with reference_path("csv/mcycle.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = {name: [float(row[name]) for row in rows] for name in ("times", "accel")}
    model = pr.Model.from_formula("accel ~ s(times)", table)
    found = pr.fit(model)
    assert found.coef.sel(coef="Intercept").item() == pytest.approx(-25.546, abs=5e-4)
    assert found.std_error.sel(coef="Intercept").item() == pytest.approx(
        1.951, abs=5e-4
    )
    assert found.aux["sigma"] ** 2 == pytest.approx(506.35, abs=5e-3)
    bayes = pr.fit(
        model.with_prior({"s(times)": pr.Normal(pr.HalfNormal(500.0))}),
        "posterior",
        seed=1,
    )
    assert bayes.method.name == "integrate"
    sigma, spread = bayes.solution.scalars["sigma"]
    assert sigma == pytest.approx(22.78, abs=0.2)  # under another prior of the scale
    assert spread == pytest.approx(1.47, abs=0.05)


def test_levels_without_rows_have_no_function() -> None:
    import pandas as pd

    declared = pd.Categorical(TABLE["g"], categories=["c", "b", "a", "never"])
    model = pr.Model.from_formula(
        "y ~ g + s(x, k=5, by=g)", pd.DataFrame({**TABLE, "g": declared})
    )
    assert [label for t in model.design.recipe.terms for label in t.labels] == [
        "s(x, k=5, by=g)[c]", "s(x, k=5, by=g)[b]", "s(x, k=5, by=g)[a]"
    ]  # fmt: skip
    assert pr.fit(model).solution.status.good


def test_a_number_that_is_text_at_new_rows_is_named_with_its_row() -> None:
    with pytest.raises(
        DataError,
        match="by= held numbers when the model was fitted and holds text now, 'much' at row 0",
    ):
        model_of("s(x, by=w)").design.at({"x": [1.0], "w": ["much"]})


def test_hyperparameters_are_called_by_the_term() -> None:
    model = model_of("g + s(x, k=5, by=g) + t2(w, z, k=4)")
    found = pr.fit(
        model.with_prior({"s(x)": HALF, "t2(w, z)": pr.Normal(1.0)}),
        "integrate",
        seed=1,
    )
    assert found.solution.posterior.hyper == (
        "tau[s(x, k=5, by=g)[a]]",
        "tau[s(x, k=5, by=g)[b]]",
        "tau[s(x, k=5, by=g)[c]]",
    )


def test_links_without_an_inverse_at_zero_take_smooth_functions_and_groups() -> None:
    """Effective degrees of freedom of mgcv 1.8-41 (REML), and estimates of glmmTMB 1.1.5 (ML)."""
    i = np.arange(60)
    x, g = i / 60, i % 6
    table = {"x": x, "g": np.array(list("abcdef"))[g]}
    table["k"] = np.maximum(0, np.round((1.5 + np.sin(6 * x)) ** 2 + (7 * i % 5 - 2) * 0.8))  # fmt: skip
    table["y"] = (1 + 0.4 * np.cos(11 * i)) / (1 + 0.6 * np.sin(5 * x) ** 2)
    table["z"] = table["y"] * (1 + 0.12 * (g - 2.5))
    for response, likelihood, edf in (
        ("k", pr.Poisson(link="sqrt"), 4.598862),
        ("y", pr.Gamma(link="inverse"), 3.973499),
    ):
        found = pr.gam(f"{response} ~ s(x)", table, likelihood=likelihood)
        assert found.smooths["edf"].item() == pytest.approx(edf, rel=1e-5)
    model = pr.Model.from_formula(
        "z ~ x + (1 | g)", table, likelihood=pr.Gamma(link="inverse")
    )
    mixed = pr.fit(model, pr.Evidence(criterion="ML"))
    np.testing.assert_allclose(mixed.coef[:2], [1.2243636, 0.1786315], rtol=1e-5)
    assert mixed.hyper["sd(Intercept | g)"] == pytest.approx(0.2115766, rel=1e-5)


@pytest.mark.parametrize(
    ("bs", "edf", "fitted"),
    [
        ("ps", 6.00238318731, [1.21901959907, 4.40172456423, 3.22880807941]),
        ("cp", 4.81893880293, [1.94055707523, 4.31124631404, 1.94055707523]),
        ("cr", 6.87254198857, [1.30442996345, 4.34909967614, 3.2312877024]),
        ("cc", 5.10723244697, [2.00741822607, 4.30765113983, 2.00741822607]),
    ],
)
def test_splines_of_one_column_are_those_of_mgcv(bs, edf, fitted) -> None:
    """mgcv 1.8-41: gam(y ~ s(x, k = 8, bs = ...), method = "REML")."""
    tenths = [0, 1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 14, 16, 17, 18, 20, 21, 23, 25]
    y = [12, 18, 25, 20, 31, 44, 40, 52, 49, 41, 44, 30, 26, 21, 9, 12, 4, 8, 19, 33]
    data = {"x": np.array(tenths) / 10.0, "y": np.array(y) / 10.0}
    fit = pr.gam(f"y ~ s(x, k=8, bs='{bs}')", data)
    assert 1.0 + fit.smooths["edf"].iloc[0] == pytest.approx(edf, abs=1e-6)
    found = fit.predict(data)["mean"].values[[0, 9, 19]]
    np.testing.assert_allclose(found, fitted, rtol=1e-6)


def test_a_process_with_one_stated_scale_lists_the_priors_of_both() -> None:
    prior = {"gp(x)": pr.priors.GaussianProcess(amplitude=pr.HalfNormal(1.0))}
    told = unfolded(model_of("gp(x)", prior=prior))[1]
    assert "amplitude ~ HalfNormal(1), length ~ Reference() on gp(x)" in told
