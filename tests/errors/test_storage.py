"""A saved fit: the same answers after loading, none of the training rows, and no trust in the file."""

import json
import pathlib
import subprocess
import sys
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data import moments
from probreg.fits.storage import read, schema
from probreg.inference import Method
from probreg.priors import Normal
from tests.conftest import covering

SENTINEL = 987_654.321012  # a value of one training row


def table(n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(31)
    x, g = rng.normal(size=n), rng.choice(["red", "green", "blue"], n)
    eta = 0.4 + 0.6 * x - 0.5 * (g == "red")
    return pd.DataFrame({
        "x": x, "g": g, "real": eta + rng.normal(size=n), "count": rng.poisson(np.exp(eta)),
        "flag": np.where(rng.random(n) < 1 / (1 + np.exp(-eta)), "yes", "no"), "class": rng.choice(list("abc"), n),
        "size": rng.uniform(1, 3, n),
    })  # fmt: skip


CASES: dict[str, tuple[str, dict[str, Any], str | Method]] = {
    "closed_form": ("real ~ x + g", {}, "closed_form"),
    "newton": (
        "real ~ x + g",
        {"prior": Normal(0.7), "aux": {"sigma": pr.priors.HalfCauchy(0.6)}},
        "newton",
    ),
    "conjugate": (
        "real ~ x + g",
        {"prior": {"x": Normal(0.7, sigma_units=True)}},
        pr.Conjugate(draws=50),
    ),
    "quadrature": (
        "real ~ x + g",
        {"prior": {("x", "g"): Normal((0.7, 0.5, 0.4))}},
        pr.Quadrature(draws=50),
    ),
    "laplace": (
        "count ~ x + g",
        {"likelihood": "poisson", "prior": Normal(0.7)},
        pr.LaplaceApproximation(draws=50),
    ),
    "bernoulli": ("flag ~ x + g", {"likelihood": "bernoulli", "event": "no"}, "newton"),
    "softmax": (
        "class ~ x",
        {"likelihood": "categorical", "reference": "b"},
        pr.LaplaceApproximation(draws=50),
    ),
    "symmetric": (
        "class ~ x",
        {"likelihood": pr.Categorical(symmetric=True), "prior": Normal(0.7)},
        pr.LaplaceApproximation(draws=50),
    ),
    "student": (
        "real ~ x",
        {"likelihood": pr.StudentT(nu=5.5), "aux": {"sigma": 0.8}},
        "newton",
    ),
    "offset": ("count ~ x", {"likelihood": "poisson", "offset": "log(size)"}, "newton"),
    "offset of a parameter": (
        {"real": "real ~ x", "log sigma": "~ x + offset(log(size))"},
        {},
        "newton",
    ),
    "huber": ("real ~ x", {"likelihood": pr.likelihoods.Huber()}, "newton"),
    "quantile": (
        "real ~ x",
        {"likelihood": pr.likelihoods.Quantile(0.3)},
        "interior_point",
    ),
    "negative binomial": (
        "count ~ x",
        {"likelihood": "negative_binomial", "aux": {"alpha": 0.4}},
        "newton",
    ),
    "weighted": ("real ~ x", {"weights": pr.weights.precision("size")}, "closed_form"),
    "count groups": ("count ~ x + (1 | g)", {"likelihood": "poisson"}, "auto"),
    "smooth": ("count ~ s(x, k=6)", {"likelihood": "poisson"}, "auto"),
}
every = pytest.mark.parametrize("name", CASES)


def fitted(name: str) -> pr.Fit:
    formula, options, method = CASES[name]
    return pr.fit(pr.Model.from_formula(formula, table(), **options), method, seed=5)


STATISTICS = (
    "log_likelihood",
    "deviance",
    "null_deviance",
    "r_squared",
    "aic",
    "bic",
    "nobs",
    "df_resid",
)


def known(fit: pr.Fit, name: str) -> float:
    """A statistic, nan where the fit has none."""
    try:
        return float(getattr(fit, name))
    except pr.ProbregError:
        return np.nan


def answers(fit: pr.Fit, new: pd.DataFrame) -> dict[str, Any]:
    """What a reader asks of a fit, as plain numbers."""
    said = fit.predict(new, 0.8)
    out = {
        str(k): np.asarray(v, dtype=float).ravel().tolist()
        for k, v in said.data_vars.items()
    }
    summary = fit.summary(0.8)
    return out | {
        "summary": summary.to_numpy(dtype=float).ravel().tolist(),
        "index": [str(i) for i in summary.index],
        "covariance": fit.covariance().values.ravel().tolist(),
        **{name: known(fit, name) for name in STATISTICS},
        "glance": fit.glance()
        .select_dtypes("number")
        .to_numpy(dtype=float)
        .ravel()
        .tolist(),
        "smooths": fit.smooths["edf"].tolist(),
        "text": str(fit).splitlines(),
        "described": [str(v) for v in fit.described.values()],
    }


def require_same(left: dict[str, Any], right: dict[str, Any]) -> None:
    assert left.keys() == right.keys()
    for key, value in left.items():
        if key in ("index", "described", "text"):
            assert value == right[key]
        else:  # the draws of a symmetric softmax are saved as reported and turned back: rounding
            np.testing.assert_allclose(value, right[key], rtol=1e-11, err_msg=key)


@every
def test_a_loaded_fit_gives_the_same_answers(name, tmp_path):
    fit, new = fitted(name), table().iloc[:7]
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    expected, loaded = answers(fit, new), answers(again, new)
    require_same(loaded, expected)
    assert again.model.likelihood == fit.model.likelihood
    assert again.model.joint == fit.model.joint
    assert again.model.unknown == fit.model.unknown
    assert (again.method, again.seed) == (fit.method, fit.seed)


@pytest.mark.parametrize("name", ["closed_form", "laplace", "smooth"])
def test_a_loaded_fit_is_saved_again(name, tmp_path):
    fit, new = fitted(name), table().iloc[:7]
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    twice = pr.load_fit(again.save(tmp_path / "again.nc"))
    require_same(answers(twice, new), answers(fit, new))


@pytest.mark.parametrize(
    "name", covering(["conjugate", "softmax"])
)  # a process costs seconds
def test_another_process_reads_the_same(name, tmp_path):
    fit, new = fitted(name), table().iloc[:7]
    fit.save(tmp_path / "fit.nc")
    (tmp_path / "new.json").write_text(json.dumps(new.to_dict("list")))
    code = (
        "import sys, json, pandas as pd, probreg as pr\n"
        "folder = sys.argv[1]\n"
        "new = pd.DataFrame(json.load(open(folder + '/new.json')))\n"
        "fit = pr.load_fit(folder + '/fit.nc')\n"
        "said = fit.predict(new, 0.8)\n"
        "out = {str(k): said[k].values.astype(float).ravel().tolist() for k in said.data_vars}\n"
        "out['summary'] = fit.summary(0.8).to_numpy(dtype=float).ravel().tolist()\n"
        "json.dump(out, open(folder + '/out.json', 'w'))\n"
    )
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, str(tmp_path)],
        check=True,
        capture_output=True,
    )
    here = answers(fit, new)
    for key, value in json.loads((tmp_path / "out.json").read_text()).items():
        np.testing.assert_allclose(value, here[key], rtol=1e-12, err_msg=key)


@pytest.mark.parametrize("method", ["closed_form", pr.Conjugate(draws=10)], ids=str)
def test_no_training_row_is_in_the_file(method, tmp_path):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(30, 2)), rng.normal(size=30)
    X[4, 1], y[9] = SENTINEL, SENTINEL
    fit = pr.fit(pr.Model.from_arrays(X, y), method)
    assert fit.tree["observed_data"]["y"].values[9] == SENTINEL
    bare, full = (
        fit.save(tmp_path / "bare.nc"),
        fit.save(tmp_path / "full.nc", rows=True),
    )
    assert np.float64(SENTINEL).tobytes() not in bare.read_bytes()
    again = pr.load_fit(bare)
    assert again.model.design.n == 0
    assert {
        "observed_data",
        "constant_data",
        "log_likelihood",
        "posterior_predictive",
    }.isdisjoint(again.tree.children)
    whole = pr.load_fit(full)
    np.testing.assert_array_equal(whole.model.design.X, fit.model.design.X)
    np.testing.assert_array_equal(whole.model.design.observed, y)
    assert pr.fit(whole.model, method).coef.values.tolist() == fit.coef.values.tolist()


def test_rows_that_are_gone_are_asked_for(tmp_path):
    again = pr.load_fit(fitted("bernoulli").save(tmp_path / "fit.nc"))
    with pytest.raises(pr.DataError, match="saved without its rows: pass data="):
        again.predict()


def test_a_gaussian_fit_is_fitted_again_from_its_moments(tmp_path):
    fit = fitted("closed_form")
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(pr.fit(again.model, "closed_form").coef, fit.coef)
    ridge = Normal(0.5, sigma_units=True)
    here, there = (
        pr.fit(m.with_prior(ridge), "conjugate", seed=2)
        for m in (fit.model, again.model)
    )
    np.testing.assert_array_equal(
        here.solution.draws["beta"], there.solution.draws["beta"]
    )


def test_without_its_rows_another_likelihood_cannot_be_fitted_again(tmp_path):
    again = pr.load_fit(fitted("bernoulli").save(tmp_path / "fit.nc"))
    with pytest.raises(pr.DataError, match="saved without its rows"):
        pr.fit(again.model, "newton")


def test_a_fit_without_an_estimate_is_saved_as_one(tmp_path):
    x = np.r_[-np.arange(1.0, 6), np.arange(1.0, 6)]
    with pytest.warns(pr.ProbregWarning, match="no maximum"):
        fit = pr.fit(pr.Model.from_arrays(x, x > 0, likelihood="bernoulli"))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.described == fit.described
    assert np.isnan(again.coef.sel(coef="x1"))
    with pytest.raises(pr.NotConverged, match="nothing to predict from"):
        again.predict(np.ones((1, 1)))


@pytest.mark.filterwarnings("ignore:newton. no estimate of a nuisance parameter")
def test_a_limit_model_keeps_its_counts(tmp_path):
    """Counts with less variance than a Poisson's, so that alpha is 0."""
    data = {"x": np.arange(12.0), "count": [1, 2] * 6}
    fit = pr.fit(
        pr.Model.from_formula("count ~ x", data, likelihood="negative_binomial")
    )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert (again.df_resid, again.aic) == (fit.df_resid, fit.aic)
    assert str(again) == str(fit)


def test_the_number_of_observations_is_saved_for_every_method(tmp_path):
    """Solutions of chains do not have it."""
    fit = fitted("bernoulli")
    without = replace(fit, solution=replace(fit.solution, stats={}))
    assert pr.load_fit(without.save(tmp_path / "fit.nc")).nobs == fit.nobs


@pytest.mark.parametrize("event", [[1, 1, 0, 1, 0, 1], [1, 1, 1, 1, 1, 1]])
def test_censored_rows_are_saved(event, tmp_path):
    """The upper end of a censored time is infinite."""
    data = {"t": [1.0, 2.5, 3.0, 4.0, 6.0, 0.5], "event": event}
    fit = pr.fit(
        pr.Model.from_formula("cens(t, event) ~ 1", data, likelihood="weibull")
    )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    np.testing.assert_array_equal(again.model.design.y, fit.model.design.y)
    assert str(again) == str(fit)


@pytest.mark.parametrize("method", ["closed_form", pr.Conjugate(draws=20)], ids=str)
def test_a_fit_of_a_loaded_model_is_saved_again(method, tmp_path):
    fit = pr.fit(pr.Model.from_formula("real ~ x + g", table()), method)
    loaded = pr.load_fit(fit.save(tmp_path / "fit.nc")).model
    again = pr.load_fit(pr.fit(loaded, method).save(tmp_path / "again.nc"))
    assert again.log_likelihood == pytest.approx(fit.log_likelihood, rel=1e-12)
    new = table().iloc[:7]
    require_same(answers(again, new), answers(fit, new))
    with pytest.raises(pr.DataError, match=r"holds no rows, .*save it with rows=False"):
        again.save(tmp_path / "rows.nc", rows=True)


def test_saving_without_rows_takes_no_pass_over_rows_and_draws(tmp_path, monkeypatch):
    fit = fitted("laplace")
    monkeypatch.setattr(
        pr.Model, "log_posterior", lambda *_, **__: pytest.fail("lp was computed")
    )
    monkeypatch.setattr(
        type(fit.model.likelihood),
        "sample",
        lambda *_, **__: pytest.fail("y was replicated"),
    )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert set(again.solution.draws.stats) == {"log_q"}


def test_rows_of_many_trials_stay_rows(tmp_path):
    """Thirty million trials in three rows: written one by one they would fill the memory."""
    rows = pd.DataFrame({"s": [3e6, 5e6, 7e6], "t": [1e7] * 3, "x": [0.0, 1.0, 2.0]})
    fit = pr.fit(
        pr.Model.from_formula("p(s, t) ~ x", rows, likelihood="bernoulli"),
        pr.LaplaceApproximation(draws=5),
    )
    assert (
        fit.tree["log_likelihood"].sizes["obs"]
        == fit.tree["posterior_predictive"].sizes["obs"]
        == 3
    )
    np.testing.assert_array_equal(fit.tree["observed_data"]["s of t"], rows["s"])
    np.testing.assert_array_equal(fit.tree["constant_data"]["trials"], rows["t"])
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    np.testing.assert_array_equal(
        again.model.design.observed, fit.model.design.observed
    )
    assert again.log_likelihood == fit.log_likelihood


LABELS = {
    "pairs": (pd.MultiIndex.from_product([["a", "b"], [1, 2, 3]]), "('a', 1)"),
    "mixed": (pd.Index(["a", 1, 2.5, "b", None, 3], dtype=object), "a"),
    "periods": (pd.period_range("2020-01", periods=6, freq="M"), "2020-01"),
    "numbers": (pd.Index([10, 20, 30, 40, 50, 60]), 10),
}


@pytest.mark.parametrize("name", LABELS)
def test_row_labels_of_any_kind_are_saved(name, tmp_path):
    import xarray as xr

    labels, first = LABELS[name]
    rows = pd.DataFrame(
        {"x": np.arange(6.0), "y": [1.0, 3.0, 2.0, 5.0, 4.0, 7.0]}, index=labels
    )
    fit = pr.fit(pr.Model.from_formula("y ~ x", rows), pr.Conjugate(draws=5))
    path = fit.save(tmp_path / "fit.nc", rows=True, log_likelihood=True)
    with xr.open_datatree(path, engine="h5netcdf") as tree:
        assert tree["observed_data"]["obs"].values[0] == first
        assert tree["log_likelihood"].sizes["obs"] == 6
    assert pr.load_fit(path).model.design.n == 6


DATES = ["2020-03-01", "2020-03-02", "2021-01-01", "2021-01-02", "2021-01-03"]


@pytest.mark.parametrize(
    "names",
    [
        range(10, 60, 10),
        list("abcde"),
        pd.to_datetime(DATES).to_numpy("M8[us]"),
        pd.to_timedelta(range(5), unit="D").to_numpy("m8[us]"),
    ],
)
def test_the_rows_of_a_loaded_fit_have_their_labels(names, tmp_path):
    table = pd.DataFrame(
        {
            "x": [0.0, 4.0, 1.0, np.nan, 3.0],
            "y": [1.0, 3.0, 2.0, 5.0, 4.0],
            "w": [1, 2, 0, 1, 2],
            "g": ["u", "v", "u", "v", "u"],
        },
        index=pd.Index(names),
    )
    labels = np.asarray(names)
    model = pr.Model.from_formula("y ~ x", table, weights="w", missing="drop")
    fit = pr.fit(model)
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=True))
    for kept in (again, pr.load_fit(again.save(tmp_path / "again.nc", rows=True))):
        assert kept.predict()["obs"].values.tolist() == labels[[0, 1, 2, 4]].tolist()
        assert kept.model.design.row_names.tolist() == labels[[0, 1, 4]].tolist()
        np.testing.assert_allclose(
            kept.covariance("cluster", groups="g", data=table[::-1]),
            fit.covariance("cluster", groups="g", data=table),
        )


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(pr.DataError, match=r"there is no folder .*nowhere"):
        fitted("closed_form").save(tmp_path / "nowhere" / "fit.nc")


def test_directions_without_an_estimate_are_saved(tmp_path):
    x = np.arange(8.0)
    with pytest.warns(pr.ProbregWarning, match="not identified"):
        fit = pr.fit(
            pr.Model.from_arrays(np.c_[x, 2 * x], x % 3 > 0, likelihood="bernoulli"),
            "newton",
        )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    new = np.array([[1.5, 3.0]])
    assert again.predict(new).equals(fit.predict(new))
    with pytest.raises(pr.Incompatible, match="x2 = 2 x1"):
        again.predict(np.array([[1.5, 3.1]]))


SAVED = pathlib.Path(__file__).parents[1] / "reference" / "data" / "saved"


def test_a_file_of_an_earlier_commit_is_read():
    """The names in a file are the format's own: renaming a field of the code must not change what a file holds."""
    fit = pr.load_fit(SAVED / "format_1.h5")
    rows = pr.load_dataset("challenger")
    model = pr.Model.from_formula("damage ~ temperature", rows, prior=Normal(0.5))
    again = pr.fit(model, pr.LaplaceApproximation(draws=8), seed=7)
    np.testing.assert_allclose(fit.coef, again.coef, rtol=1e-9)
    np.testing.assert_allclose(fit.std_error, again.std_error, rtol=1e-9)
    assert fit.described["status"] == again.described["status"]
    assert repr(fit.model.prior) == repr(model.prior)
    for name in ("beta", "sigma"):
        np.testing.assert_allclose(
            fit.solution.draws[name], again.solution.draws[name], rtol=1e-9
        )
    np.testing.assert_allclose(
        pr.fit(fit.model, "newton").coef, pr.fit(model, "newton").coef, rtol=1e-10
    )


DRAWN = {
    "conjugate": {"likelihood": "gaussian", "prior": Normal(1.0, sigma_units=True)},
    "laplace": {"likelihood": "gaussian", "prior": Normal(1.0)},
    "softmax": {"likelihood": "categorical", "prior": Normal(1.0)},
}


@pytest.mark.parametrize(
    ("name", "rows"), [("conjugate", False), ("laplace", True), ("softmax", False)]
)
def test_draws_come_back_to_the_bit(name, rows, tmp_path):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = rng.integers(0, 3, 60) if name == "softmax" else X.sum(1) + rng.normal(size=60)
    method = "conjugate" if name == "conjugate" else "laplace"
    fit = pr.fit(pr.Model.from_arrays(X, y, **DRAWN[name]), method, seed=4)
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=rows)).solution.draws
    draws = fit.solution.draws
    assert set(again.values) == set(draws.values)
    for key, values in {**draws.values, **draws.stats}.items():
        np.testing.assert_array_equal({**again.values, **again.stats}[key], values)


def test_draws_and_log_likelihood_are_kept_for_arviz(tmp_path):
    with warnings.catch_warnings():
        # what ArviZ and its own libraries warn of is theirs
        warnings.simplefilter("ignore")
        import arviz as az

        rows = pd.DataFrame(
            {"x": np.arange(9.0), "y": np.arange(9.0) % 4}, index=list("abcdefghi")
        )
        fit = pr.fit(pr.Model.from_formula("y ~ x", rows), "conjugate")
        path = fit.save(tmp_path / "fit.nc", log_likelihood=True)
        read = az.from_netcdf(path)
        assert az.loo(read).elpd == pytest.approx(az.loo(fit.tree).elpd, rel=1e-12)
        assert "observed_data" not in read.children
        # labels are of the rows, not asked for
        assert read["log_likelihood"]["obs"].values.tolist() == list(range(9))
        read.close()
    assert pr.load_fit(path).solution.draws["beta"].shape == (4, 1000, 2, 1)
    with pytest.raises(
        pr.DataError,
        match=r"needs the rows in memory, .*save it with log_likelihood=False",
    ):
        pr.load_fit(path).save(path, log_likelihood=True)
    with pytest.raises(pr.DataError, match="closed_form gives a point estimate"):
        pr.fit(fit.model).save(path, log_likelihood=True)


def test_the_page_states_the_formats():
    page = pathlib.Path(pr.__file__).parents[1] / "docs" / "explanation" / "storage.md"
    assert f'"format": {schema.FORMAT}' in page.read_text()
    assert f'"{moments.FORMAT}"' in page.read_text()


def test_labels_of_rows_that_are_neither_dates_nor_text_are_not_read(
    monkeypatch, tmp_path
):
    rows = {"x": [1.0, 2.0, 3.0], "y": [1.0, 3.0, 2.0]}
    table = pd.DataFrame(rows, index=pd.to_datetime(DATES[:3]))
    fit = pr.fit(pr.Model.from_formula("y ~ x", table))
    path = fit.save(tmp_path / "fit.nc", rows=True)
    decode = read.decode_columns
    renamed = lambda *args: {f"complex {k}": v for k, v in decode(*args).items()}
    monkeypatch.setattr(read, "decode_columns", renamed)
    with pytest.raises(pr.DataError, match="expected dates or times"):
        pr.load_fit(path)
