"""Every picture of every likelihood, for a mode and a posterior: axes named, marks there, numbers those of the fit."""

import itertools
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.formula.functions import variables
from probreg.fits.residuals import quantile_residuals
from probreg.likelihoods import Censored, LogLocationScaleLikelihood, Truncated
from probreg.likelihoods.binomial import BetaBinomial
from probreg.likelihoods.location_scale import AdditiveNoise
from probreg.likelihoods.zeros import ZeroMixture
from probreg.show import plot
from probreg.show.plot.fitted import sweep
from probreg.show.plot.observations import bin_means, observations

from .cases import covering, own
from .drawn import faults

LIKELIHOODS = [
    "gaussian",
    "student",
    "bernoulli",
    "poisson",
    "negative_binomial",
    "gamma",
    "ordinal",
    "inverse_gaussian",
    "beta",
    "categorical",
    "binomial",
    "multinomial",
]
TARGETS = ["mode", "posterior"]


def data_of(likelihood: str, n: int = 90) -> pr.Model:
    rng = np.random.default_rng(5)
    X = np.c_[rng.normal(50.0, 10.0, n), rng.uniform(0.0, 1.0, n)]
    eta = (X[:, 0] - 50.0) / 10.0
    y = {
        "gaussian": eta + rng.normal(0.0, 0.7, n),
        "student": eta + 0.5 * rng.standard_t(4, n),
        "bernoulli": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(0.5 * eta)),
        "negative_binomial": rng.negative_binomial(
            2.0, 2.0 / (2.0 + np.exp(1.0 + 0.5 * eta))
        ),
        "gamma": rng.gamma(2.0, np.exp(0.5 * eta) / 2.0),
        "inverse_gaussian": rng.wald(np.exp(0.5 * eta), 2.0),
        "beta": rng.beta(*(4.0 / (1.0 + np.exp([-eta, eta])))),
        "categorical": np.array(["ash", "beech", "cedar"])[
            np.clip(np.round(eta + rng.normal(0, 1, n)) + 1, 0, 2).astype(int)
        ],
        "ordinal": np.clip(np.round(eta + rng.normal(0, 1, n)) + 1, 0, 2),
        "binomial": rng.binomial(8, 1 / (1 + np.exp(-eta))),
        "multinomial": np.array(
            [rng.multinomial(6, p / p.sum()) for p in np.exp(np.c_[0 * eta, eta, -eta])]
        ),
    }[likelihood]
    if likelihood == "binomial":
        return pr.Model.from_arrays(
            X,
            y,
            trials=np.full(n, 8),
            columns=["dose", "noise"],
            likelihood=likelihood,
            prior=pr.Normal(1.0),
        )
    aux = {"alpha": pr.HalfNormal(1.0)} if likelihood == "negative_binomial" else {}
    return pr.Model.from_arrays(
        X,
        y,
        columns=["dose", "noise"],
        likelihood=likelihood,
        prior=pr.Normal(1.0),
        aux=aux,
    )


METHODS = {"mode": pr.Newton(), "posterior": pr.LaplaceApproximation(draws=200)}


@cache
def fit_of(likelihood: str, target: str) -> pr.Fit:
    return pr.fit(data_of(likelihood), METHODS[target])


def marks(ax: Any) -> int:
    return len(ax.lines) + len(ax.collections) + len(ax.patches)


def shown(fig: Any) -> list[Any]:
    return [ax for ax in fig.axes if ax.get_visible()]


def test_the_tested_likelihoods_are_all_there_are():
    # numbers with noise are drawn as the Gaussian ones are, whatever the noise, times as the gamma ones, counts as the Poisson ones, and
    # trials as the binomial ones; test_censoring.py has
    # the pictures of intervals
    noise = {
        name
        for name in own(pr.LIKELIHOODS)
        if issubclass(
            pr.LIKELIHOODS[name],
            AdditiveNoise
            | LogLocationScaleLikelihood
            | Censored
            | Truncated
            | ZeroMixture
            | BetaBinomial,
        )
    }
    assert set(LIKELIHOODS) | noise == set(own(pr.LIKELIHOODS))


@pytest.mark.parametrize(
    ("likelihood", "target"),
    [
        ("gaussian", "mode"),
        ("bernoulli", "posterior"),
        ("negative_binomial", "posterior"),
        ("categorical", "mode"),
        ("ordinal", "mode"),
    ],
)
def test_coefficients_show_every_parameter_with_its_numbers(likelihood, target):
    fit = fit_of(likelihood, target)
    fig = plot.coefficients({"one": fit, "two": fit}, 0.9)
    fig.draw_without_rendering()
    table = fit.summary(0.9)
    assert len(shown(fig)) == len(table)
    for ax, numbers in zip(
        shown(fig), table[[table.columns[0], "lower", "upper"]].to_numpy()
    ):
        assert ax.get_title(loc="left")
        drawn = [line.get_xdata() for line in ax.lines if len(line.get_xdata()) == 1]
        assert [float(x[0]) for x in drawn] == [numbers[0]] * 2
        ends = [
            list(line.get_xdata())
            for line in ax.lines
            if list(line.get_xdata()) == list(numbers[1:])
        ]
        assert len(ends) == 2


@pytest.mark.parametrize(
    ("likelihood", "target"),
    [
        ("gaussian", "mode"),
        ("gaussian", "posterior"),
        ("bernoulli", "mode"),
        ("poisson", "mode"),
        ("beta", "mode"),
        ("ordinal", "mode"),
        ("categorical", "posterior"),
        ("binomial", "mode"),
        ("multinomial", "mode"),
    ],
)
def test_fitted_draws_the_curve_of_predict_along_the_first_variable(likelihood, target):
    fit = fit_of(likelihood, target)
    fig = plot.fitted(fit)
    fig.draw_without_rendering()
    (ax,) = shown(fig)
    assert ax.get_xlabel() == "dose"
    assert ax.get_ylabel()
    path = sweep(fit, None, None, None)
    mean = fit.predict(path.rows)["mean"].values.reshape(len(path.x), -1)
    curves = [
        line.get_ydata() for line in ax.lines if len(line.get_xdata()) == len(path.x)
    ]
    # the same arithmetic on the same draws
    np.testing.assert_allclose(np.stack(curves, 1), mean, rtol=1e-12)
    bands = {
        "gaussian": 3,
        "student": 3,
        "poisson": 3,
        "negative_binomial": 3,
        "gamma": 3,
        "inverse_gaussian": 3,
        "beta": 3,
        "bernoulli": 2,
        "categorical": 3,
        "ordinal": 3,
        "binomial": 2,
        "multinomial": 3,
    }
    assert len(ax.collections) == bands[likelihood]


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "categorical"])
def test_panels_of_several_fits_share_their_axes_and_one_legend(likelihood):
    fig = plot.fitted({target: fit_of(likelihood, target) for target in TARGETS})
    fig.draw_without_rendering()
    first, second = shown(fig)
    assert first.get_ylim() == second.get_ylim()
    assert [ax.get_title(loc="left") for ax in (first, second)] == ["mode", "posterior"]
    assert len(fig.legends) == 1


def corners(band: Any) -> np.ndarray:
    """Lower and upper end of a filled band at each of its x, (2, g)."""
    x, y = band.get_paths()[0].vertices.T
    return np.array(
        [
            [y[x == at].min() for at in np.unique(x)],
            [y[x == at].max() for at in np.unique(x)],
        ]
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("likelihood", ["gaussian", "poisson"])
def test_bands_are_the_intervals_of_predict(likelihood, target):
    fit = fit_of(likelihood, target)
    path = sweep(fit, "noise", None, (0.0, 0.5))
    found = fit.predict(path.rows, 0.8)
    bands = {
        c.get_label(): corners(c)
        for c in plot.fitted(fit, "noise", prob=0.8, span=(0.0, 0.5))
        .axes[0]
        .collections[1:]
    }
    for label, which in (
        ("80 % of new observations", "new"),
        ("80 % interval of the mean", "mean"),
    ):
        np.testing.assert_array_equal(
            bands[label], [found[f"{which}_lower"], found[f"{which}_upper"]]
        )


def test_the_mean_and_its_band_use_all_draws():
    fit = pr.fit(data_of("gaussian"), pr.LaplaceApproximation(draws=1500))
    path = sweep(fit, None, None, None)
    found = fit.predict(path.rows)
    light, dark = (corners(c) for c in plot.fitted(fit).axes[0].collections[1:])
    # products over other blocks of rows are rounded otherwise
    np.testing.assert_allclose(
        dark, [found["mean_lower"], found["mean_upper"]], rtol=1e-14
    )
    # a 95 % quantile of 1,000 draws with noise 0.7 moves by the draws' error of the mean only: well below 0.05
    np.testing.assert_allclose(
        light, [found["new_lower"], found["new_upper"]], atol=0.05
    )


def test_series_differ_without_colour():
    from probreg.show.plot.style import mark

    looks = [mark(i) for i in range(6)]
    assert len({look["marker"] for look in looks}) == 6
    assert len({str(look["linestyle"]) for look in looks}) == 6
    light = [
        np.dot(
            [int(look["color"][k : k + 2], 16) for k in (1, 3, 5)],
            [0.299, 0.587, 0.114],
        )
        for look in looks
    ]
    # of 255, on a printer without colour
    assert all(abs(a - b) > 20 for a, b in pairwise(light))


def test_quantile_residuals_of_the_true_model_are_standard_normal():
    rng = np.random.default_rng(8)
    x = rng.normal(size=1500)
    fit = pr.fit(
        pr.Model.from_arrays(
            x, rng.poisson(np.exp(1.0 + 0.5 * x)), likelihood="poisson"
        )
    )
    z = quantile_residuals(fit, observations(fit).rows)
    # mean and sd of 1,500 standard normals have standard errors 0.026 and 0.018: four of them
    assert abs(z.mean()) < 0.1
    assert abs(z.std() - 1.0) < 0.075


def test_means_in_bins_are_weighted_averages_of_rows_in_order():
    rng = np.random.default_rng(1)
    x, w = (
        rng.permutation(200.0 * np.arange(200)),
        rng.integers(1, 4, 200).astype(float),
    )
    mean_x, mean_y = bin_means(x, x**2, w, 4)
    part = np.argsort(x)[50:100]
    assert len(mean_x) == 4
    assert mean_x[1] == pytest.approx(np.average(x[part], weights=w[part]))
    assert mean_y[1] == pytest.approx(np.average(x[part] ** 2, weights=w[part]))


def test_variables_are_read_back_from_the_columns_of_a_formula():
    penguins = pr.load_dataset("penguins").dropna()
    model = pr.Model.from_formula(
        "body_mass_g ~ flipper_length_mm * sex + species", penguins
    )
    found = variables(model.design)
    assert found["species"].tolist() == penguins["species"].astype(str).tolist()
    assert found["sex"].tolist() == penguins["sex"].astype(str).tolist()
    np.testing.assert_array_equal(
        found["flipper_length_mm"], penguins["flipper_length_mm"]
    )


def test_a_transformed_variable_is_kept():
    penguins = pr.load_dataset("penguins")
    model = pr.Model.from_formula(
        "body_mass_g ~ bs(flipper_length_mm, df=4) + sex", penguins, missing="drop"
    )
    fit = pr.fit(model)
    ax = plot.fitted(fit).axes[0]
    assert ax.get_xlabel() == "flipper_length_mm"
    # of the sex that the curve is of, and of the other
    points = np.concatenate([c.get_offsets() for c in ax.collections[:2]])
    kept = penguins.loc[model.design.labels, ["flipper_length_mm", "body_mass_g"]]
    of_curve = penguins.loc[model.design.labels, "sex"] == penguins["sex"].mode()[0]
    np.testing.assert_array_equal(
        points, np.concatenate([kept[of_curve], kept[~of_curve]])
    )
    with pytest.raises(pr.DataError, match="not the rows"):
        plot.fitted(fit, data=penguins.iloc[:50])


def test_an_offset_stays_at_its_mean():
    rng = np.random.default_rng(2)
    x, exposure = rng.normal(size=60), rng.uniform(1.0, 5.0, 60)
    table = {"y": rng.poisson(exposure * np.exp(0.3 * x)), "x": x, "exposure": exposure}
    fit = pr.fit(
        pr.Model.from_formula(
            "y ~ x", table, likelihood="poisson", offset="log(exposure)"
        )
    )
    curve = next(
        line for line in plot.fitted(fit).axes[0].lines if line.get_label() == "mean"
    )
    a, b = fit.coef.values
    expected = np.exp(a + b * curve.get_xdata() + np.log(exposure).mean())
    np.testing.assert_allclose(curve.get_ydata(), expected, rtol=1e-12)


def test_a_fit_without_an_estimate_says_so_and_the_others_are_drawn():
    x = np.arange(10.0)
    model = pr.Model.from_arrays(x, (x > 4.5).astype(int), likelihood="bernoulli")
    with pytest.warns(pr.ProbregWarning):
        lost = pr.fit(model)
    fits = {"ML": lost, "mode": pr.fit(model.with_prior(pr.Normal(1.0)))}
    texts = [t.get_text() for ax in plot.coefficients(fits).axes for t in ax.texts]
    assert "no estimate exists" in texts
    panels = plot.fitted(fits).axes
    assert "no estimate to draw" in [t.get_text() for t in panels[0].texts]
    assert len(panels[1].lines) >= 1


def _words(fig) -> tuple[list[str], str]:
    return [t.get_text() for t in fig.legends[0].get_texts()], fig.get_supxlabel()


def test_nested_models_are_drawn_along_the_variable_that_they_share():
    birds = pr.load_dataset("penguins").dropna()
    birds["heavy"] = (birds["body_mass_g"] > 4000).astype(int)
    formulas = ["flipper_length_mm", "flipper_length_mm * sex + species", "species"]
    fits = {f: pr.logistic(f"heavy ~ {f}", birds) for f in formulas}
    fig = pr.plot.fitted(fits)
    for ax, (formula, fit) in zip(fig.axes, fits.items()):
        if formula == "species":
            assert [t.get_text() for t in ax.texts] == [
                "no flipper_length_mm in this model"
            ]
            continue
        (line,) = ax.lines
        table = {"flipper_length_mm": line.get_xdata()}
        n = len(line.get_xdata())
        table |= {"sex": ["male"] * n, "species": ["Adelie"] * n}
        np.testing.assert_allclose(line.get_ydata(), fit.predict(table)["mean"])


def test_words_of_the_fitted_curve_are_true_of_what_is_drawn():
    levels = pr.quantile_regression(
        "y ~ x", {"x": np.arange(40.0), "y": np.sin(np.arange(40.0))}, tau=[0.1, 0.9]
    )
    both = plot.fitted(levels)
    words, foot = _words(both)
    assert "95 % interval of the fitted curve" in words
    assert (both.axes[0].get_ylabel(), foot) == ("y", "")
    assert not any("0.1" in w for w in words)
    assert "0.1 quantile of y" in _words(plot.fitted(levels[0.1]))[0]
    classes = _words(plot.fitted(fit_of("categorical", "mode"), prob=0.8))[1]
    assert classes.startswith(
        "Markers: observed shares in bins of rows. Bands: 80 % intervals of the probabilities."
    )
    assert (
        "share in a row, larger for more trials"
        in _words(plot.fitted(fit_of("binomial", "mode")))[0]
    )
    weighted = pr.fit(
        pr.Model.from_arrays(
            np.arange(6.0), np.arange(6.0) ** 2, weights=[1.0, 2, 1, 1, 3, 1]
        )
    )
    assert "data, larger for more weight" in _words(plot.fitted(weighted))[0]


def test_names_with_dollars_are_no_formulas():
    model = pr.Model.from_arrays(
        np.arange(6.0),
        [1.0, 2.0, 2.5, 4.0, 5.5, 6.0],
        columns=["a$_{$b"],
        response="cost $",
    )
    fit = pr.fit(model)
    for fig in (plot.coefficients(fit), plot.fitted(fit), plot.diagnose(fit)):
        fig.draw_without_rendering()


def test_rows_are_needed_and_the_message_says_how(tmp_path):
    fit = pr.fit(data_of("gaussian"))
    loaded = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    for picture in (plot.fitted, plot.diagnose):
        with pytest.raises(pr.DataError, match="rows=True"):
            picture(loaded)
    assert len(shown(plot.coefficients(loaded))) == 4


def test_many_parameters_are_cut_with_a_word():
    rng = np.random.default_rng(3)
    fit = pr.fit(pr.Model.from_arrays(rng.normal(size=(120, 60)), rng.normal(size=120)))
    fig = plot.coefficients(fit)
    assert len(shown(fig)) == 40
    assert "40 of 62" in fig.get_supxlabel()


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_rows_of_other_levels_than_the_curve_are_faint(likelihood):
    x, g = np.linspace(0.0, 3.0, 60), np.array(["b", "a", "b"] * 20)
    flag = np.tile([0, 1, 1, 1, 1], 12)
    y = {"gaussian": np.sin(x) + flag, "bernoulli": np.tile([0, 1], 30)}[likelihood]
    model = pr.Model.from_formula(
        "y ~ x + g + flag",
        {"x": x, "g": g, "flag": flag, "y": y},
        likelihood=likelihood,
    )
    fig = plot.fitted(pr.fit(model), "x")
    full, faint = fig.axes[0].collections[:2]
    held = (g == "b") & (flag == 1)  # the most frequent of both
    np.testing.assert_array_equal(full.get_offsets()[:, 0], x[held])
    np.testing.assert_array_equal(faint.get_offsets()[:, 0], x[~held])
    assert full.get_alpha() is None
    assert faint.get_alpha() < 0.5
    words = " ".join(" ".join(t.get_text() for t in fig.texts).split())
    assert "g = b" in words
    assert "Faint points: rows of other levels of g, flag" in words
    plain = plot.fitted(
        pr.fit(pr.Model.from_formula("y ~ x", {"x": x, "y": y}, likelihood=likelihood))
    )
    assert "Faint" not in " ".join(t.get_text() for t in plain.texts)


def mixed(n: int = 60) -> dict[str, Any]:
    """A number, and categories of every kind of column: whole numbers, fractions, text, ordered, True and False, dates."""
    rng = np.random.default_rng(8)
    code = rng.permutation(np.repeat([0, 1, 2], [n // 5, 3 * n // 10, n // 2]))
    days = np.array(["2024-03-01", "2024-07-15", "2025-01-02"], dtype="datetime64[ns]")
    x = rng.normal(30.0, 5.0, n)
    return {
        "x": x, "number": np.array([1, 2, 5])[code], "fraction": np.array([0.25, 0.5, 1.75])[code], "two": np.where(code == 2, 4, 1),
        "text": np.array(["low", "mid", "high"])[code], "day": days[code], "truth": code == 2,
        "ordered": pd.Categorical.from_codes(code, ["low", "mid", "high"], ordered=True),
        "y": 0.1 * x + code + rng.normal(size=n), "event": (rng.random(n) < 0.5).astype(int),
    }  # fmt: skip


CATEGORIES = {
    "C(number)": ("number", 5),
    "C(number, Treatment(2))": ("number", 5),
    "C(number, Sum)": ("number", 5),
    "C(number, levels=[5, 2, 1])": ("number", 5),
    "C(fraction)": ("fraction", 1.75),
    "C(two)": ("two", 4),
    "C(text)": ("text", "high"),
    "text": ("text", "high"),
    "ordered": ("ordered", "high"),
    "truth": ("truth", True),
    "C(day)": ("day", "2024-03-01"),
}


def test_numbers_that_are_not_drawn_stay_at_their_weighted_mean():
    rng = np.random.default_rng(1)
    data = {name: rng.normal(1.0, 1.0, size=30) for name in ("x", "z", "y")}
    w = rng.integers(1, 5, 30)
    fit = pr.fit(pr.Model.from_formula("y ~ x + z", data, weights=w))
    rows = sweep(fit, "x", None, None).rows
    mean = np.average(data["z"], weights=w)
    np.testing.assert_allclose(rows["z"], mean, rtol=1e-12)


@pytest.mark.parametrize(
    ("category", "how"),
    covering(
        itertools.product(CATEGORIES, ["{} + x", "{} * x", "s(x, k=5) + {}"]),
        lambda category, _: category,
        lambda _, how: how,
        one_in=9,
    ),
)
def test_categories_beside_a_curve_stay_at_their_most_frequent_level(category, how):
    data, (name, level) = mixed(), CATEGORIES[category]
    fit = pr.fit(pr.Model.from_formula(f"y ~ {how.format(category)}", data))
    for given in (None, data):
        path = sweep(fit, None, given, None)
        assert path.variable == "x"
        values = set(np.asarray(path.rows[name]).tolist())
        assert len(values) == 1
        if name == "day":
            assert str(path.grid.typical[name]).startswith("2025-01-02")
        else:
            assert values == {level}
        assert path.is_on_curve.sum() == 30
        drawn = fit.predict(path.rows)["mean"].values
        lines = plot.fitted(fit, data=given).axes[0].lines
        assert any(
            len(line.get_xdata()) == len(path.x)
            and np.allclose(line.get_ydata(), drawn)
            for line in lines
        )


@pytest.mark.slow
@pytest.mark.parametrize("category", ["C(fraction)", "C(day)"])
def test_a_report_draws_the_curve_beside_every_category(category, tmp_path):
    fit = pr.fit(
        pr.Model.from_formula(
            f"event ~ {category} + x", mixed(), likelihood="bernoulli"
        )
    )
    page = pr.report(fit, tmp_path / "page.html").read_text()
    assert "No picture" not in page
    assert "which the model does not know" not in page


def test_survival_curves_are_means_over_the_rows_of_each_group():
    rng = np.random.default_rng(4)
    x = rng.normal(size=40)
    g = np.repeat(["a", "b"], 20)
    data = {"t": np.exp(x) * rng.exponential(size=40), "x": x, "g": g}
    fit = pr.fit(pr.Model.from_formula("t ~ x + g", data, likelihood="weibull"))
    curves = [
        line
        for line in pr.plot.survival(fit, by="g").axes[0].get_lines()
        if "mean of the model" in str(line.get_label())
    ]
    assert len(curves) == 2
    for curve, group in zip(curves, "ab"):
        survival = fit.survival(curve.get_xdata())["survival"].values[g == group]
        np.testing.assert_allclose(curve.get_ydata(), survival.mean(0), rtol=1e-10)


CONDITIONS = [["x"], ["x", "g"], ["x", "z", "g"], ["g"], ["g", "h"], ["h", "z", "g"]]


def _condition_data(likelihood: str) -> dict[str, Any]:
    rng = np.random.default_rng(2)
    n = 120
    x, z = rng.normal(50.0, 10.0, n), rng.normal(size=n)
    g, h = np.tile(["a", "b", "c"], 40), np.repeat(["u", "v"], 60)
    eta = (x - 50.0) / 10.0 * (g == "a") + 0.3 * z
    y = {
        "gaussian": eta + rng.normal(size=n),
        "bernoulli": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(0.3 * eta)),
        "categorical": np.array(["ash", "beech", "cedar"])[
            np.clip(np.round(eta + rng.normal(size=n)) + 1, 0, 2).astype(int)
        ],
    }[likelihood]
    return {"y": y, "x": x, "z": z, "g": g, "h": h}


@cache
def _condition_fit(likelihood: str) -> pr.Fit:
    model = pr.Model.from_formula(
        "y ~ x * g + z + h",
        _condition_data(likelihood),
        likelihood=likelihood,
        prior=pr.Normal(1.0, scaled=True),
    )
    return pr.fit(model)


def _data_points(fig: Any) -> list[Any]:
    return [c for ax in shown(fig) for c in ax.collections if len(c.get_offsets()) > 1]


@pytest.mark.parametrize(
    ("likelihood", "condition"),
    [
        ("gaussian", ["x"]),
        ("gaussian", ["g", "h"]),
        ("gaussian", ["x", "z", "g"]),
        ("bernoulli", ["x", "g"]),
        ("poisson", ["g"]),
        ("categorical", ["x"]),
        ("categorical", ["g", "h"]),
        pytest.param("categorical", ["h", "z", "g"], marks=pytest.mark.slow),
    ],
)
def test_effects_over_a_condition_are_predictions_at_its_values(likelihood, condition):
    fig = plot.effects(_condition_fit(likelihood), condition=condition)
    assert faults(fig) == []
    data = _condition_data(likelihood)
    values = {"z": [*np.quantile(data["z"], [0.25, 0.5, 0.75])]}
    values |= {"g": [*"abc"], "h": [*"uv"]}
    values["x"] = [*np.linspace(data["x"].min(), data["x"].max(), 61)]
    typical = {"x": data["x"].mean(), "z": data["z"].mean(), "g": "a", "h": "u"}
    at = {name: values[name] for name in condition}
    row = {k: [v] for k, v in typical.items()}
    expected = pr.predictions(_condition_fit(likelihood), data=row, at=at).table
    drawn = [
        line.get_ydata()
        for ax in shown(fig)
        for line in ax.lines
        if line.get_marker() != "x"
    ]
    # the same means by another route
    np.testing.assert_allclose(
        np.sort(np.concatenate(drawn)), np.sort(expected["estimate"]), rtol=1e-10
    )
    series = {text.get_text() for key in fig.legends for text in key.get_texts()}
    titles = " ".join(ax.get_title(loc="left") for ax in shown(fig))
    levels = {"ash", "beech", "cedar"} if likelihood == "categorical" else set()
    if len(condition) == 1:
        assert series == levels
    else:
        assert all(text.startswith(f"{condition[1]} = ") for text in series)
        assert all(level in titles for level in levels)
    fixed = [name for name in typical if name not in condition]
    assert all(f"{name} = " in fig.get_supxlabel() for name in fixed)


def test_rows_are_drawn_at_the_nearest_value_of_a_number_and_at_their_level():
    from probreg.show.plot.observations import ReferenceGrid

    data = {
        "y": np.arange(6.0),
        "x": [0.0, 1.0, 2.0, 8.0, 9.0, 40.0],
        "g": [*"abcabc"],
    }
    grid = ReferenceGrid.of(pr.ols("y ~ x + g", data), None)
    assert grid.nearest("x", [1.0, 10.0]).tolist() == [0, 0, 0, 1, 1, 1]
    assert grid.nearest("g", ["c", "a"]).tolist() == [1, -1, 0, 1, -1, 0]


@pytest.mark.parametrize("condition", CONDITIONS, ids=", ".join)
def test_effects_draw_every_row_once(condition):
    fig = plot.effects(_condition_fit("gaussian"), condition=condition)
    y = np.concatenate([c.get_offsets()[:, 1] for c in _data_points(fig)])
    np.testing.assert_array_equal(np.sort(y), np.sort(_condition_data("gaussian")["y"]))


def test_effects_at_chosen_values_leave_out_rows_of_other_levels():
    condition = {"x": [40.0, 60.0], "g": ["a", "c"]}
    fig = plot.effects(_condition_fit("gaussian"), condition=condition)
    assert [t.get_text() for t in fig.axes[0].get_xticklabels()] == ["40", "60"]
    assert sum(len(c.get_offsets()) for c in _data_points(fig)) == 80


@pytest.mark.parametrize("category", CATEGORIES)
def test_effects_have_a_point_for_each_level_of_every_category(category):
    data, (name, _) = mixed(), CATEGORIES[category]
    fit = pr.fit(pr.Model.from_formula(f"y ~ {category} + x", data))
    (ax,) = shown(fig := plot.effects(fit, condition=name))
    assert len(ax.get_xticks()) == len(pd.unique(data[name]))
    assert sum(len(c.get_offsets()) for c in _data_points(fig)) == 60
    means = pr.predictions(fit, at={name: [*data[name]]}, grid="balanced").table
    np.testing.assert_allclose(  # the same means by another route
        np.sort(ax.lines[0].get_ydata()), np.unique(means["estimate"]), rtol=1e-10
    )


def test_a_variable_of_the_offset_moves_it():
    rng = np.random.default_rng(2)
    x, exposure = rng.normal(size=60), rng.uniform(1.0, 5.0, 60)
    table = {"y": rng.poisson(exposure * np.exp(0.3 * x)), "x": x, "exposure": exposure}
    model = pr.Model.from_formula(
        "y ~ x", table, likelihood="poisson", offset="log(exposure)"
    )
    fit = pr.fit(model)
    fig = plot.effects(fit, condition="exposure")
    curve = fig.axes[0].lines[0]
    a, b = fit.coef.values
    expected = curve.get_xdata() * np.exp(a + b * x.mean())
    np.testing.assert_allclose(curve.get_ydata(), expected, rtol=1e-10)
    assert "offset" not in fig.get_supxlabel()
    note = plot.effects(fit, condition="x").get_supxlabel()
    assert "offset at its mean" in note
    assert "exposure =" not in note


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        (["w"], "'w' is not a variable"),
        ([], "one to three"),
        (["x", "x"], "one to three different"),
        ({"x": None, "z": list(range(8))}, "8 colours"),
        ({"x": None, "g": None, "z": list(range(13))}, "13 panels"),
    ],
)
def test_a_condition_that_cannot_be_drawn_raises(condition, words):
    with pytest.raises(pr.DataError, match=words):
        plot.effects(_condition_fit("gaussian"), condition=condition)


def test_effects_take_a_group_or_a_condition():
    with pytest.raises(pr.DataError, match="leave one"):
        plot.effects(_condition_fit("gaussian"), "g", condition=["x"])


def test_effects_of_another_quantity_are_drawn_without_the_data():
    fig = plot.effects(_condition_fit("gaussian"), condition=["x", "g"], what="median")
    assert fig.axes[0].get_ylabel() == "the median"
    assert _data_points(fig) == []
    assert "Points" not in fig.get_supxlabel()


@pytest.mark.parametrize("passes", [1, 3])
def test_the_picture_of_a_run_ends_at_its_loss_regret_and_bound(passes):
    rng = np.random.default_rng(5)
    X, u = rng.uniform(-1.0, 1.0, (130, 2)), np.array([0.5, -1.0])
    y = X @ u + 0.1 * rng.normal(size=130)
    run = pr.online.run(pr.online.lms(0.3), X, y, passes=passes, shuffle=1)
    found = run.guarantee(u)
    left, right = pr.plot.regret(run, u).axes
    ends = [line.get_ydata()[-1] for line in left.lines]
    np.testing.assert_allclose(
        ends, [run.loss, run.loss_of(u), found.bound], rtol=1e-10
    )
    rounds, bound = left.lines[2].get_data()
    assert len(rounds) == 20
    assert rounds[-1] == 130 * passes
    regret, limit = (line.get_ydata() for line in right.lines[:2])
    assert (regret <= limit).all()
    assert (np.diff(bound) >= 0).all()
    np.testing.assert_allclose(regret[-1], run.regret(u).value)
    if passes == 1:  # a prefix of the rows is a run of its own
        part = pr.online.run(pr.online.lms(0.3), X[run.order[:65]], y[run.order[:65]])
        assert rounds[9] == 65
        np.testing.assert_allclose(regret[9], part.regret(u).value)


def test_a_run_without_rows_or_weights_has_no_picture():
    X, y = np.ones((4, 1)), np.ones(4)
    stream = pr.online.run(pr.online.lms(0.3), zip(X, y))
    with pytest.raises(pr.DataError, match="pass arrays"):
        pr.plot.regret(stream)
    functions = pr.online.run(
        pr.online.kernel(pr.online.lms(0.3), pr.kernels.RBF(1.0)), X, y
    )
    with pytest.raises(pr.Incompatible, match="learns a function"):
        pr.plot.regret(functions)


@pytest.mark.parametrize("school", ["a text", "a number"])
def test_effects_over_a_grouping_factor_are_those_of_its_groups(school):
    rng = np.random.default_rng(0)
    codes = np.repeat(np.arange(5), 20)
    room = codes * 4 + np.tile(np.arange(4), 25)
    data = {"x": rng.normal(size=100), "room": room.astype(str)}
    data["school"] = codes * 7 if school == "a number" else np.array([*"abcde"])[codes]
    effects = rng.normal(size=5)[codes] + rng.normal(size=20)[room]
    data["y"] = data["x"] + effects + rng.normal(size=100)
    fit = pr.fit(pr.Model.from_formula("y ~ x + (1 | school) + (1 | room)", data))
    (ax,) = shown(fig := plot.effects(fit, condition=["school"]))
    levels = np.unique(data["school"])
    rows = {"x": np.full(5, data["x"].mean()), "school": levels}
    groups = {"school": "known", "room": "typical"}
    expected = fit.predict(rows, groups=groups)["mean"]
    np.testing.assert_allclose(ax.lines[0].get_ydata(), expected, rtol=1e-12)
    assert sum(len(c.get_offsets()) for c in _data_points(fig)) == 100
    assert "effects of room at zero" in fig.get_supxlabel()
    assert len(plot.effects(fit, condition=["x", "school"]).axes[0].lines) == 5


def test_a_curve_over_a_number_that_is_a_group_too_has_effects_of_zero():
    rng = np.random.default_rng(0)
    year = np.repeat(np.arange(12.0), 6)
    data = {"year": year, "y": 0.1 * year + rng.normal(size=72)}
    data["y"] += rng.normal(size=12)[year.astype(int)]
    fit = pr.fit(pr.Model.from_formula("y ~ year + (1 | year)", data))
    fig = plot.effects(fit, condition="year")
    assert "effects of year at zero" in fig.get_supxlabel()
