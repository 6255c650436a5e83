"""Properties of new rows: `Model.at`, `update` and `forget` read response, trials, offset and weights as the fit of all rows does."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr

N, HALF = 40, 20
RNG = np.random.default_rng(0)
DATA = pd.DataFrame(
    {"y": RNG.normal(size=N), "x": RNG.normal(size=N), "w": RNG.integers(1, 4, N)}
)
DATA["v"] = RNG.gamma(2.0, 0.5, N)
DATA["z"] = DATA.w * (np.arange(N) % 7 > 0)  # some rows of weight 0
DATA["e"] = 0.1 * np.cos(np.arange(N))
DATA["n"] = RNG.integers(1, 6, N)
DATA["k"] = RNG.binomial(DATA.n, 0.4)
KINDS = {
    "none": None,
    "frequency": "w",
    "some of weight 0": "z",
    "precision": pr.weights.precision("v"),
    "sampling": pr.weights.sampling("v"),
}
EXACT = ["none", "frequency", "some of weight 0", "precision"]
FIRST, REST = DATA[:HALF], DATA[HALF:]


def model(data, kind, formula="y ~ x", **options):
    return pr.Model.from_formula(formula, data, weights=KINDS[kind], **options)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("offset", [None, "e"])
def test_at_reads_new_rows_as_the_formula_does(kind, offset):
    moved, fresh = (
        model(FIRST, kind, offset=offset).at(REST),
        model(REST, kind, offset=offset),
    )
    for part in ("X", "y", "offset", "weights", "precision"):
        np.testing.assert_array_equal(
            getattr(moved.design, part), getattr(fresh.design, part)
        )
    assert moved.design.weight_kind == fresh.design.weight_kind


@pytest.mark.parametrize("kind", EXACT)
def test_moments_of_two_places_are_those_of_the_pooled_rows(kind):
    one = model(FIRST, kind)
    pooled = pr.fit(pr.Model.from_moments(one.moments, one.at(REST).moments))
    np.testing.assert_allclose(pooled.coef, pr.fit(model(DATA, kind)).coef, rtol=1e-10)


def test_frequencies_of_a_column_count_in_moments_of_another_place():
    one = model(FIRST, "frequency")
    coef = pr.fit(pr.Model.from_moments(one.moments, one.at(REST).moments)).coef.values
    assert coef.round(5).tolist() == [-0.04818, -0.15194]


@pytest.mark.parametrize("kind", EXACT)
def test_update_is_the_fit_of_all_rows(kind):
    after, pooled = (
        pr.fit(model(FIRST, kind), "conjugate").update(REST),
        pr.fit(model(DATA, kind), "conjugate"),
    )
    np.testing.assert_allclose(after.coef, pooled.coef, rtol=1e-9)
    np.testing.assert_allclose(after.std_error, pooled.std_error, rtol=1e-9)


@pytest.mark.parametrize("kind", EXACT)
@pytest.mark.parametrize("method", ["closed_form", "conjugate"])
def test_forget_is_the_fit_of_the_other_rows(kind, method):
    before, rest = pr.fit(model(DATA, kind), method), pr.fit(model(FIRST, kind), method)
    np.testing.assert_allclose(before.forget(REST).coef, rest.coef, rtol=1e-9)


def test_rows_with_sampling_weights_are_not_taken_away():
    with pytest.raises(pr.Incompatible, match="sampling"):
        pr.fit(model(DATA, "sampling"), "closed_form").forget(REST)


@pytest.mark.parametrize("kind", ["none", "frequency"])
def test_trials_and_weights_of_counts_are_read_from_the_table(kind):
    moved, fresh = (
        model(FIRST, kind, "p(k, n) ~ x").at(REST),
        model(REST, kind, "p(k, n) ~ x"),
    )
    assert float(pr.fit(moved).log_likelihood) == pytest.approx(
        float(pr.fit(fresh).log_likelihood), rel=1e-12
    )


@pytest.mark.parametrize("kind", EXACT)
def test_models_of_files_read_the_weights_of_new_rows(kind, tmp_path):
    path = tmp_path / "first.parquet"
    FIRST.to_parquet(path)
    one = pr.Model.from_files("y ~ x", path, weights=KINDS[kind])
    pooled = pr.fit(pr.Model.from_moments(one.moments, one.at(REST).moments))
    np.testing.assert_allclose(pooled.coef, pr.fit(model(DATA, kind)).coef, rtol=1e-10)


def test_a_saved_fit_reads_the_weights_of_new_rows(tmp_path):
    pr.fit(model(FIRST, "frequency"), "conjugate").save(tmp_path / "fit.nc")
    after = pr.load_fit(tmp_path / "fit.nc").update(REST)
    np.testing.assert_allclose(
        after.coef, pr.fit(model(DATA, "frequency"), "conjugate").coef, rtol=1e-9
    )


def test_weights_may_be_given_by_name_or_as_an_array_instead():
    one = model(FIRST, "none")
    for weights in ("w", REST.w.to_numpy()):
        np.testing.assert_array_equal(
            one.at(REST, weights=weights).design.weights, REST.w
        )
    stated = model(FIRST, "frequency").at(REST, weights=np.ones(HALF))
    np.testing.assert_array_equal(stated.design.weights, np.ones(HALF))


def test_a_missing_column_of_weights_is_an_error():
    for read in (model(FIRST, "frequency").at, pr.fit(model(DATA, "frequency")).forget):
        with pytest.raises(pr.DataError, match=r"'w'.*weights="):
            read(REST.drop(columns="w"))


def test_predictions_read_a_column_of_precisions():
    fit = pr.fit(model(DATA, "precision"))
    pd.testing.assert_frame_equal(
        fit.predict(DATA, output="pandas"), fit.predict(output="pandas")
    )
    plain = fit.predict(DATA.drop(columns="v"), output="pandas")
    stated = fit.predict(
        DATA, weights=pr.weights.precision(np.ones(N)), output="pandas"
    )
    pd.testing.assert_frame_equal(plain, stated)


@pytest.mark.parametrize(
    "given", [{}, {"offset": 0.5 * np.ones(4)}, {"weights": [1, 2, 1, 2]}]
)
def test_a_column_called_like_an_argument_is_a_column(given):
    plain = {
        "y": [1.0, 2.0, 4.0, 7.0],
        "a": [0.0, 1.0, 2.0, 4.0],
        "b": [5.0, 1.0, 0.0, 2.0],
    }
    renamed = {"y": plain["y"], "offset=": plain["a"], "weights=": plain["b"]}
    fits = [
        pr.fit(pr.Model.from_formula(f, d, **given))
        for f, d in (("y ~ a + b", plain), ("y ~ `offset=` + `weights=`", renamed))
    ]
    np.testing.assert_array_equal(fits[0].coef, fits[1].coef)
