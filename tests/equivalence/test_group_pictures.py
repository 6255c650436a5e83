"""The picture of the effects of groups draws the numbers of `fit.effects`, and its footnote says what they are and what is left out."""

from functools import cache

import matplotlib
import numpy as np
import pytest

import probreg as pr
from probreg.show import plot
from tests.properties.drawn import faults

matplotlib.use("Agg")


def data(groups: int, rows: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(groups)
    number = np.repeat(np.arange(groups), rows)
    x = rng.normal(size=len(number))
    b = rng.normal(size=(groups, 2))
    y = (
        b[number, 0]
        + (1.0 + 0.7 * b[number, 1]) * x
        + 0.5 * rng.normal(size=len(number))
    )
    kind = np.array(["a", "b", "c"])[np.clip(np.round(y) + 1, 0, 2).astype(int)]
    h = np.array([*"pqrs"])[rng.integers(0, 4, len(number))]
    return {
        "y": y,
        "x": x,
        "kind": kind,
        "g": np.array([f"g{i:03d}" for i in number]),
        "h": h,
    }


@cache
def fit_of(groups: int, bars: str = "(x || g)", response: str = "y") -> pr.Fit:
    likelihood = "gaussian" if response == "y" else "categorical"
    return pr.fit(
        pr.Model.from_formula(
            f"{response} ~ x + {bars}", data(groups), likelihood=likelihood
        ),
        "evidence",
    )


def drawn(fig):
    """By title the names, the marks (G,) and the ends of the lines (G, 2), from the top down."""
    out = {}
    for ax in fig.axes:
        if not ax.get_visible():
            continue
        names = [t.get_text() for t in ax.get_yticklabels()]
        marks = next(line for line in ax.lines if line.get_marker() == "o").get_xdata()
        ends = np.array([part[:, 0] for part in ax.collections[0].get_segments()])
        out[ax.get_title(loc="left")] = names, np.asarray(marks), ends
    return out


def test_marks_and_lines_are_the_numbers_of_the_table():
    fit = fit_of(12)
    panels = drawn(plot.effects(fit, "g", 0.8))
    assert list(panels) == ["Intercept", "x"]
    names = panels["Intercept"][0]
    table = fit.effects("g", 0.8).set_index(["group", "effect"])
    for effect, (_, marks, ends) in panels.items():
        own = table.xs(effect, level="effect").loc[names]
        np.testing.assert_allclose(marks, own["estimate"])
        np.testing.assert_allclose(ends, own[["lower", "upper"]])
    assert (np.diff(panels["Intercept"][1]) <= 0).all()
    assert not (np.diff(panels["x"][1]) <= 0).all()


@pytest.mark.slow
def test_of_many_groups_the_extreme_ones_are_drawn_and_counted():
    fit = fit_of(90)
    fig = plot.effects(fit)
    names, marks, _ = drawn(fig)["Intercept"]
    every = np.sort(fit.effects().query("effect == 'Intercept'")["estimate"].to_numpy())
    np.testing.assert_allclose(np.sort(marks), np.r_[every[:30], every[-30:]])
    assert "60 of 90 groups, those with the smallest and the largest Intercept" in said(
        fig
    )
    assert faults(fig) == []
    assert len(names) == 60


def said(fig) -> str:
    return fig.get_supxlabel().replace("\n", " ")


def test_the_footnote_says_whether_scales_are_known():
    assert (
        "REML: conditional means at the estimated standard deviations and 95 % intervals"
        in said(plot.effects(fit_of(12)))
    )
    model = pr.Model.from_formula(
        "y ~ x + (1 | g)",
        data(12),
        prior={"1 | g": pr.Covariance(sd=pr.HalfNormal(2.0))},
    )
    words = said(plot.effects(pr.fit(model, "integrate"), prob=0.5))
    assert "posterior means and 50 % intervals of effects" in words
    assert "conditional" not in words


def test_outcomes_of_a_softmax_have_panels_and_crossed_groups_are_named():
    fig = plot.effects(fit_of(12, "(1 | g)", "kind"))
    assert list(drawn(fig)) == ["Intercept, b", "Intercept, c"]
    crossed = fit_of(12, "(1 | g) + (1 | h)")
    labels = plot.effects(crossed, "h").axes[0].get_yticklabels()
    assert sorted(t.get_text() for t in labels) == [*"pqrs"]
    with pytest.raises(pr.DataError, match="expected one of 'g', 'h'"):
        plot.effects(crossed)
    with pytest.raises(
        pr.Incompatible, match="no effect of this model varies by a group"
    ):
        plot.effects(pr.ols(np.arange(5.0), np.arange(5.0) ** 2))


def test_one_fit_of_groups_is_called_by_its_criterion():
    """Every picture and the table name REML, not the least squares that is solved at the scales that it found."""
    x, group = np.linspace(-1.0, 1.0, 60), np.arange(60) % 6
    y = x + 0.5 * group + np.cos(7.0 * np.arange(60.0))
    fit = pr.fit(
        pr.Model.from_formula(
            "y ~ x + (1 | g)", {"y": y, "x": x, "g": [f"g{k}" for k in group]}
        )
    )
    assert str(pr.table(fit)).split("\n")[0].split() == ["y", "REML"]
    for draw in (
        plot.diagnose,
        plot.coefficients,
    ):
        drawn = draw(fit)
        figure = getattr(drawn, "figure", drawn)
        texts = [t.get_text() for t in figure.findobj(matplotlib.text.Text)]
        assert any("REML" in t for t in texts), draw
        assert not any("closed_form" in t for t in texts), draw
