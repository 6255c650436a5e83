"""Properties of columns of True and False: they are categories of two levels, whatever holds them."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from tests.properties.containers import EVERY, TABLES, model, table, with_missing

N = 60
RNG = np.random.default_rng(4)
DATA = pd.DataFrame({"x": RNG.normal(size=N), "flag": RNG.uniform(size=N) > 0.4})
DATA["y"] = DATA.x * np.where(DATA.flag, 2.0, -1.0) + RNG.normal(size=N)
WORDS = DATA.assign(flag=np.where(DATA.flag, "yes", "no"))
FORMULA = "y ~ flag + x:flag"


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_container_gives_a_slope_for_each_level(kind, tmp_path):
    fit, words = (
        pr.fit(model(FORMULA, DATA, kind, tmp_path)),
        pr.fit(pr.Model.from_formula(FORMULA, WORDS)),
    )
    assert fit.model.design.columns == (
        "Intercept",
        "flag[T.True]",
        "x:flag[False]",
        "x:flag[True]",
    )
    np.testing.assert_allclose(fit.coef, words.coef, rtol=1e-9)


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_missing_truth_values_are_dropped(kind, tmp_path):
    gone = [0, 5, 40]
    frame = with_missing(DATA, "flag", gone)
    frame = frame.assign(flag=frame.flag.astype(object)) if kind == "xarray" else frame
    found = pr.fit(model(FORMULA, frame, kind, tmp_path, missing="drop"))
    np.testing.assert_allclose(
        found.coef,
        pr.fit(pr.Model.from_formula(FORMULA, DATA.drop(gone))).coef,
        rtol=1e-9,
    )


@pytest.mark.parametrize("kind", TABLES)
def test_new_rows_of_every_container(kind):
    fit = pr.fit(pr.Model.from_formula(FORMULA, DATA))
    new = table(DATA[:7], kind)
    np.testing.assert_allclose(
        fit.predict(new)["mean"], fit.predict()["mean"][:7], rtol=1e-12
    )


def test_main_effects_keep_their_numbers_and_zeros_and_ones_are_read_as_levels():
    fit = pr.fit(pr.Model.from_formula("y ~ x + flag", DATA))
    numbers = pr.fit(
        pr.Model.from_formula("y ~ x + flag", DATA.assign(flag=DATA.flag * 1))
    )
    np.testing.assert_allclose(fit.coef, numbers.coef, rtol=1e-12)
    np.testing.assert_allclose(
        fit.predict(DATA.assign(flag=DATA.flag * 1))["mean"],
        fit.predict()["mean"],
        rtol=1e-12,
    )


@pytest.mark.parametrize(
    "term", ["I(z > 20)", "C(z > 20)", "{z > 20}", "I(word == 'b')"]
)
@pytest.mark.parametrize("kind", ["pandas", "csv", "parquet", "dask"])
def test_comparisons_are_categories_of_two_levels(term, kind, tmp_path):
    data = DATA.assign(
        z=np.where(DATA.flag, 30.0, 10.0), word=np.where(DATA.flag, "b", "a")
    )
    fit = pr.fit(model(f"y ~ {term} + x:{term}", data, kind, tmp_path))
    np.testing.assert_allclose(
        fit.coef, pr.fit(pr.Model.from_formula(FORMULA, DATA)).coef, rtol=1e-9
    )
    assert fit.model.design.columns[1].endswith("[T.True]")


def test_each_level_has_a_slope_in_a_published_data_set():
    # R: summary(lm(log(speed) ~ hoppers + log(weight):hoppers, quantreg::Mammals))$r.squared; statsmodels has it too
    mammals = pd.read_csv(
        Path(__file__).parent.parent / "reference" / "data" / "csv" / "mammals.csv"
    )
    fit = pr.fit(
        pr.Model.from_formula("log(speed) ~ hoppers + log(weight):hoppers", mammals)
    )
    assert round(fit.r_squared, 4) == 0.4796
    slopes = [
        np.polyfit(np.log(d.weight), np.log(d.speed), 1)[0]
        for _, d in mammals.groupby("hoppers")
    ]
    np.testing.assert_allclose(fit.coef.values[2:], slopes, rtol=1e-10)


def test_effects_of_a_truth_value_are_true_minus_false():
    fit = pr.fit(pr.Model.from_formula(FORMULA, DATA))
    table = pr.comparisons(fit, "flag").table
    means = pr.predictions(fit, at={"flag": [False, True]}).table["estimate"]
    assert table["contrast"].tolist() == ["True against False"]
    assert table["estimate"][0] == pytest.approx(means[1] - means[0], rel=1e-12)
    assert pr.predictions(fit, by="flag").table["flag"].tolist() == [False, True]
    assert pr.predictions(fit, grid="balanced").table["estimate"][0] == pytest.approx(
        pr.predictions(fit, at={"flag": [False, True], "x": DATA.x.mean()})
        .table["estimate"]
        .mean()
    )
    assert pr.slopes(fit).table["variable"].tolist() == ["x"]
    with pytest.raises(pr.DataError, match="category"):
        pr.slopes(fit, "flag")


def test_a_compared_number_is_still_a_number():
    fit = pr.fit(pr.Model.from_formula("y ~ x + I(x > 0)", DATA))
    assert pr.comparisons(fit, "x").table["contrast"].tolist() == ["+1"]
    assert pr.slopes(fit, "x").table["estimate"][0] == pytest.approx(
        fit.coef.values[1], rel=1e-9
    )


def test_smooths_and_groups_have_the_levels_of_truth_values():
    fit = pr.fit(pr.Model.from_formula("y ~ flag + s(x, by=flag, k=5)", DATA))
    words = pr.fit(pr.Model.from_formula("y ~ flag + s(x, by=flag, k=5)", WORDS))
    np.testing.assert_allclose(
        fit.predict()["mean"], words.predict()["mean"], rtol=1e-8
    )
    np.testing.assert_allclose(
        fit.predict(DATA)["mean"], fit.predict()["mean"], rtol=1e-12
    )
    bar = pr.Model.from_formula("y ~ x + (flag | g)", DATA.assign(g=np.arange(N) % 5))
    assert bar.design.recipe.grouped["(flag | g)"].effects == (
        "Intercept",
        "flag[T.True]",
    )


@pytest.mark.parametrize("rows", [False, True])
def test_levels_are_saved(rows, tmp_path):
    fit = pr.fit(pr.Model.from_formula("y ~ flag + x:flag + I(x > 0)", DATA))
    fit.save(tmp_path / "fit.nc", rows=rows)
    again = pr.load_fit(tmp_path / "fit.nc")
    np.testing.assert_array_equal(
        again.predict(DATA)["mean"], fit.predict(DATA)["mean"]
    )
    if rows:
        assert pr.comparisons(again, "flag").table[
            "estimate"
        ].tolist() == pytest.approx(
            pr.comparisons(fit, "flag").table["estimate"].tolist(), rel=1e-12
        )


def test_a_response_of_truth_values_is_modelled_as_before():
    fit = pr.fit(pr.Model.from_formula("flag ~ x", DATA, likelihood="bernoulli"))
    numbers = pr.fit(
        pr.Model.from_formula(
            "flag ~ x", DATA.assign(flag=DATA.flag * 1), likelihood="bernoulli"
        )
    )
    np.testing.assert_array_equal(fit.coef, numbers.coef)
    compared = pr.fit(
        pr.Model.from_formula("{y > 0} ~ x", DATA, likelihood="bernoulli")
    )
    counted = pr.fit(
        pr.Model.from_formula(
            "k ~ x", DATA.assign(k=(DATA.y > 0) * 1), likelihood="bernoulli"
        )
    )
    np.testing.assert_array_equal(compared.coef, counted.coef)


def test_truth_values_of_one_kind_alone_are_refused():
    with pytest.raises(pr.DataError, match="single level"):
        pr.Model.from_formula("y ~ x + flag", DATA[DATA.flag])


def test_the_model_of_pymc_has_the_levels():
    made = pr.Model.from_formula("y ~ x + flag", DATA).to_pymc()
    assert "flag" in [v.name for v in made.free_RVs]
