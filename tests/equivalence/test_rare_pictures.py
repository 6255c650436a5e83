"""Words and marks of pictures, tables and reports that few fits have."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg import plot
from probreg.comparison import compare
from probreg.show.plot.fitted import sweep
from probreg.show.report import _parameters
from probreg.show.report.sections import predictions_table
from tests.errors.test_refused_questions import (
    ROWS,
    SIGMA,
    fitted,
    without_rows,
)


def words(figure: Any) -> str:
    """The texts beneath a figure, as one."""
    return " ".join(" ".join(text.get_text() for text in figure.texts).split())


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_an_infinite_end_is_an_arrow_at_the_edge():
    rng = np.random.default_rng(0)
    x = rng.normal(size=14)
    fit = pr.fit(
        pr.Model.from_arrays(x, x + rng.normal(size=14) > 0, likelihood="bernoulli"),
        pr.Bootstrap(reps=60), seed=1,
    )  # fmt: skip
    summary = fit.summary()
    ends = summary[["lower", "upper"]].to_numpy()
    assert np.isinf(ends).any()
    for axis, (low, high) in zip(plot.coefficients(fit).axes, ends):
        marks = [line.get_marker() for line in axis.lines]
        assert ("<" in marks, ">" in marks) == (np.isinf(low), np.isinf(high))


def test_another_quantity_has_its_band_and_no_data():
    fit = fitted({"y": "y ~ x", "log sigma": "~ z"})
    (axis,) = plot.fitted(fit, "z", what="sigma").axes
    path = sweep(fit, "z", None, None)
    expected = fit.predict(path.rows, what="sigma")["sigma"]
    np.testing.assert_allclose(axis.lines[0].get_ydata(), expected)


def test_groups_without_a_normal_prior_have_a_typical_band():
    fit = fitted("y ~ x + (1 | g)", prior={"1 | g": pr.Laplace(1.0)}, aux=SIGMA)
    legend = [text.get_text() for text in plot.fitted(fit).legends[0].get_texts()]
    assert not any("new group" in text for text in legend)


def test_some_of_many_rows_are_shown():
    x = np.linspace(-1.0, 1.0, 2001)
    fit = pr.ols(x, x + np.sin(50 * x))
    assert "2,000 of 2,001 observations are shown" in words(plot.diagnose(fit))


SMOOTHS = {
    "by a number": ("y ~ s(x, by=v)", {}, "coefficient that varies"),
    "by a link": ("k ~ s(x)", {"likelihood": "poisson"}, "s(x) on the log scale"),
}


@pytest.mark.parametrize("name", SMOOTHS)
def test_the_axis_of_a_function_has_its_scale(name):
    formula, options, label = SMOOTHS[name]
    assert plot.smooth(fitted(formula, **options)).axes[0].get_ylabel() == label


def test_functions_that_are_not_drawn_are_counted():
    data = ROWS.assign(**{f"v{i}": np.roll(ROWS.v, i) for i in range(13)})
    of_three = "gp(x, z, v, kernel='rbf', length=1.0)"
    formula = " + ".join(f"s(v{i}, k=3)" for i in range(13))
    functions = {f"s(v{i}, k=3)": pr.Normal(0.1) for i in range(13)}
    prior = functions | {of_three: pr.Normal(0.1)}
    fit = fitted(f"y ~ {of_three} + {formula}", data=data, prior=prior, aux=SIGMA)
    text = words(plot.smooth(fit))
    assert "1 more panels can be named" in text
    assert "1 functions of more columns are not drawn" in text


def test_a_band_of_draws_says_so():
    prior = {"s(x, k=4)": pr.Normal(1.0, sigma_units=True)}
    fit = fitted("y ~ s(x, k=4)", pr.Quadrature(draws=50), prior=prior)
    assert "(posterior draws)" in words(plot.smooth(fit))


def test_a_path_of_many_classes_draws_the_first():
    rng = np.random.default_rng(0)
    y = np.tile(list("abcdefgh"), 10)
    classes = pr.Model.from_arrays(rng.normal(size=80), y, likelihood="categorical", prior=pr.Normal(1.0))  # fmt: skip
    path = pr.path(classes, [0.1, 1.0])
    assert "the first 6 of 7 outcomes" in words(plot.path(path))


def test_a_table_of_a_mode_and_a_posterior_takes_a_kind_of_either():
    fits = {"mode": fitted("y ~ x"), "posterior": fitted("y ~ x", "conjugate")}
    notes = " ".join(pr.table(fits, kind="profile", beneath="interval").notes)
    assert "mode: maximum likelihood by closed_form, profile likelihood" in notes
    assert "posterior: posterior mean by conjugate, equal-tailed" in notes


@pytest.mark.parametrize("beneath", ["p", "interval"])
def test_a_mode_under_kinks_has_nothing_beneath(beneath):
    fit = fitted("y ~ x", prior=pr.Laplace(1.0), aux=SIGMA)
    lines = pr.table(fit, beneath=beneath).cells
    assert [line[0] for line in lines[:2]] == ["Intercept", "x"]


def test_a_noise_scale_under_priors_of_scales_is_no_maximum_alone():
    fit = fitted("y ~ x + (1 | g)", "evidence", aux={"sigma": pr.HalfNormal(1.0)})
    notes = " ".join(pr.table(fit).notes)
    assert "sigma at the maximum, under priors of scales" in notes


def test_parameters_beyond_a_page_are_counted():
    X = np.random.default_rng(0).normal(size=(90, 65))
    table = _parameters(compare({"fit": pr.ols(X, X[:, 0] + X[:, 1] ** 2)}), ["estimate"])  # fmt: skip
    assert "more parameters in compare(fits).to_pandas()" in table.notes[0]


def test_rows_beyond_the_data_are_named_by_their_numbers(tmp_path: Path):
    rows = {"near": {"x": 0.0, "h": "a"}, "far": {"x": 90.0, "h": "b"}}
    fit = fitted("y ~ x + h")
    (remark,) = predictions_table({"fit": fit}, rows, 0.95).remarks
    assert remark.startswith("far: x lies outside the data")
    values = np.array([1, "a"], dtype=object)[ROWS.b.astype(int)]
    mixed = fitted("y ~ x + I(mixed == 'a')", data=ROWS.assign(mixed=values))
    loaded = without_rows(mixed, tmp_path, keep=True)
    table = pd.DataFrame({"x": [90.0], "mixed": ["a"]})
    assert predictions_table({"fit": loaded}, table, 0.95).remarks == []


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_pictures_of_exact_fits_have_residuals_and_the_response():
    data = {"x": [0.0, 1.0, 2.0], "y": [1.0, 2.0, 5.0]}
    for likelihood in ("gaussian", "gamma"):
        model = pr.Model.from_formula("y ~ x + I(x**2)", data, likelihood=likelihood)
        fit = pr.fit(model)
        titles = [axis.get_title(loc="left") for axis in plot.diagnose(fit).axes]
        assert titles == ["Residuals", "Response"]
        with pytest.raises(pr.Incompatible, match="exactly"):
            pr.residuals(fit, "quantile")
