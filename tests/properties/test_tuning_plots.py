"""Pictures of a path and of a choice: curves are those of the data, names do not cover one another, every mark is there."""

import numpy as np
import pytest

import probreg as pr
from probreg.comparison.tuning import path as scale_path, tune
from probreg.show.plot.tuning import ALL, FEW_NAMES, path, tune as picture_of


def model_of(columns: int, likelihood: str = "gaussian", n: int = 90) -> pr.Model:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, columns)) * 3.0
    eta = X[:, 0] / 3.0 - X[:, -1] / 4.0
    y = eta + rng.normal(size=n)
    if likelihood == "categorical":
        y = np.array(["ash", "beech", "cedar"])[
            np.clip(np.round(y) + 1, 0, 2).astype(int)
        ]
    names = [f"column {j}" for j in range(columns)]
    return pr.Model.from_arrays(
        X, y, columns=names, likelihood=likelihood, prior=pr.Normal(1.0, scaled=True)
    )


@pytest.mark.parametrize("columns", [1, 3, 8, 30])
def test_a_path_shows_every_column_in_units_of_its_spread(columns):
    found = scale_path(model_of(columns), n=15)
    fig = path(found, 0.1)
    fig.draw_without_rendering()
    (ax,) = fig.axes
    curves = [line for line in ax.lines if len(line.get_xdata()) == 15]
    assert len(curves) == columns
    sd = found.model.design.X[:, 1:].std(0)
    values = np.sort(found.coef.values[-1, 1:] * sd)
    np.testing.assert_allclose(
        np.sort([line.get_ydata()[-1] for line in curves]), values, rtol=1e-9
    )
    names = fig.legends[0].get_texts()
    assert len(names) == (columns if columns <= ALL else FEW_NAMES)
    ends = [line for line in ax.lines if line.get_marker() != "None"]
    assert len(ends) == len(names)  # maximum likelihood exists
    ml = pr.fit(found.model.with_prior(pr.Flat())).coef.values[1:] * sd
    assert all(np.isclose(ml, line.get_ydata()[0], rtol=1e-9).any() for line in ends)


@pytest.mark.slow
def test_a_softmax_has_a_panel_for_each_outcome():
    found = scale_path(model_of(3, "categorical"), n=8)
    fig = path(found)
    fig.draw_without_rendering()
    assert [ax.get_title(loc="left") for ax in fig.axes] == ["beech", "cedar"]
    last = [
        line.get_ydata()[-1] for line in fig.axes[0].lines if len(line.get_xdata()) == 8
    ]
    sd = found.model.design.X[:, 1:].std(0)
    np.testing.assert_allclose(
        np.sort(last), np.sort(found.coef.values[-1, 1:, 0] * sd), rtol=1e-9
    )


def test_without_maximum_likelihood_the_picture_says_so():
    found = scale_path(model_of(30, n=20).with_aux(sigma=1.0), n=8)
    assert "no maximum likelihood estimate exists" in path(found).get_supxlabel()


@pytest.mark.parametrize(
    ("by", "rule"), [("cv", "1se"), ("loo", "min"), ("evidence", "min")]
)
def test_a_choice_shows_scores_band_and_chosen_scale(by, rule):
    made = tune(
        model_of(3).with_aux(sigma=1.0),
        by,
        scales=np.geomspace(0.01, 10, 12),
        rule=rule,
    )
    fig = picture_of(made)
    fig.draw_without_rendering()
    (ax,) = fig.axes
    score = next(line for line in ax.lines if line.get_label() == "score")
    np.testing.assert_allclose(score.get_ydata(), made.table["score"])
    chosen = next(line for line in ax.lines if line.get_label().startswith("chosen"))
    assert chosen.get_xdata()[0] == made.scale
    assert bool(ax.collections) == (by != "evidence")
    assert any(line.get_label().startswith("least:") for line in ax.lines) == (
        made.best != made.scale
    )
    assert ax.get_ylabel()
