"""Effects over rows of known, new and typical groups, each by two routes."""

# ruff: noqa: F401, F811  fixtures of another file

import numpy as np
import pytest

import probreg as pr
from probreg.comparison.effects.result import Effects
from probreg.errors import DataError
from tests.equivalence.test_group_prediction import (
    DATA,
    NEW,
    chance,
    mode,
    posterior,
    sds,
)

F = {"mode", "posterior", "chance"}


@pytest.fixture(params=sorted(F))
def fit(request: pytest.FixtureRequest) -> pr.Fit:
    return request.getfixturevalue(request.param)


def row(effects: Effects) -> tuple[float, float]:
    table = effects.table
    return float(table["estimate"].iloc[0]), float(
        table.get("std_error", table.get("sd")).iloc[0]
    )


def test_the_typical_group_is_the_default_and_that_of_flat_coefficients(mode):
    b, V = mode.coef.values, mode.covariance().values
    np.testing.assert_allclose(row(pr.slopes(mode)), (b[1], V[1, 1] ** 0.5), rtol=1e-8)
    np.testing.assert_allclose(
        row(pr.comparisons(mode, "x")), (b[1], V[1, 1] ** 0.5), rtol=1e-8
    )
    assert "the typical group" in pr.slopes(mode).what


def test_known_groups_have_their_own_effects(mode):
    b, V, X = (
        mode.solution.beta[:, 0],
        mode.solution.scale.matrix(),
        mode.model.design.X,
    )
    a = X.mean(0)
    np.testing.assert_allclose(
        row(pr.predictions(mode, groups="known", average_over="sample")),
        (a @ b, (a @ V @ a) ** 0.5),
        rtol=1e-8,
    )
    by = pr.predictions(mode, groups="known", by="g").table.set_index("g")["estimate"]
    np.testing.assert_allclose(by["g03"], mode.fitted[18:24].mean(), rtol=1e-8)
    pair = pr.comparisons(mode, {"g": ("g00", "g03")}, groups="known").table[
        "estimate"
    ][0]
    np.testing.assert_allclose(pair, by["g03"] - by["g00"], rtol=1e-8)


def test_new_groups_add_their_covariance_to_an_average(mode):
    # z'b_g over H groups with z of each: the average has the variance sum_g (mean z)'S(mean z) / H^2 beside
    z = DATA.groupby("g", sort=False)["x"].mean().to_numpy()
    S = np.diag(sds(mode) ** 2)
    extra = (
        sum(np.array([1.0, each]) @ S @ np.array([1.0, each]) for each in z)
        / len(z) ** 2
    )
    typical, new = (
        row(pr.predictions(mode, groups=g, average_over="sample"))
        for g in ("typical", "new")
    )
    np.testing.assert_allclose(
        new, (typical[0], (typical[1] ** 2 + extra) ** 0.5), rtol=1e-8
    )
    slope = row(pr.slopes(mode, groups="new", average_over="sample"))
    np.testing.assert_allclose(
        slope[1] ** 2, row(pr.slopes(mode))[1] ** 2 + S[1, 1] / len(z), rtol=1e-6
    )


def test_rows_of_a_new_group_move_together(mode):
    data = NEW.iloc[[0, 2]]  # two groups that the fit has not met
    one = row(pr.predictions(mode, data=data.assign(g="u"), groups="new"))[1]
    two = row(pr.predictions(mode, data=data, groups="new"))[1]
    assert one > two
    with pytest.raises(DataError, match="'u', which the fit has not met"):
        pr.predictions(mode, data=data, groups="known")


def test_a_posterior_and_a_chance_agree_with_predict(posterior, chance):
    data = NEW.head(1)
    for fit, tolerance in ((posterior, 0.05), (chance, 0.02)):
        for groups in ("typical", "new"):
            found = row(pr.predictions(fit, data=data, groups=groups))
            said = fit.predict(data, groups=groups)
            np.testing.assert_allclose(found[0], said["mean"][0], atol=tolerance)
    wide, narrow = (row(pr.slopes(posterior, groups=g))[1] for g in ("new", "typical"))
    assert wide > narrow


def test_the_groups_are_no_variable_of_a_typical_group(fit):
    for ask in (
        lambda: pr.comparisons(fit, "g"),
        lambda: pr.predictions(fit, at={"g": "g00"}),
        lambda: pr.predictions(fit, by="g"),
        lambda: pr.slopes(fit, "g"),
    ):
        with pytest.raises(DataError, match="'g'"):
            ask()
    assert set(pr.comparisons(fit).table["variable"]) == {"x"}
    assert len(pr.predictions(fit, grid="balanced", data=DATA[["x"]]).table) == 1
    with pytest.raises(DataError, match="balanced grid has no groups"):
        pr.predictions(fit, grid="balanced", groups="known")


def test_groups_of_a_plain_model_are_refused():
    plain = pr.fit(pr.Model.from_formula("y ~ x", DATA))
    with pytest.raises(DataError, match="this model has none"):
        pr.slopes(plain, groups="new")
    with pytest.raises(DataError, match="groups is 'known', 'new' or 'typical'"):
        pr.slopes(plain, groups="all")


def test_a_fitted_curve_is_that_of_the_typical_group(fit):
    figure = pr.plot.fitted(fit)
    assert "effects of g at zero" in "".join(t.get_text() for t in figure.texts)
    line = max(figure.axes[0].lines, key=lambda each: len(each.get_xdata()))
    mean = fit.predict({"x": line.get_xdata()}, groups="typical")["mean"]
    np.testing.assert_allclose(line.get_ydata(), mean, rtol=1e-9)


def test_conformal_intervals_are_of_groups_that_calibrated(posterior):
    found = pr.conformal(posterior)
    assert np.isfinite(found.predict(DATA.head(2))["upper"]).all()
    with pytest.raises(DataError, match=r"row 0 .*calibration"):
        found.predict(NEW)
