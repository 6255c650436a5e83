"""Flat coefficients beside smooth functions and effects by group, and intercepts that lie far from the rows."""

import numpy as np
import pytest

import probreg as pr
from probreg.comparison.hypotheses.point_estimate import PENALISED
from probreg.errors import Incompatible


@pytest.fixture(scope="module")
def data():
    table, rng = pr.load_dataset("sleepstudy"), np.random.default_rng(0)
    return table.assign(
        w=rng.normal(size=180), bent=table["reaction"] + 30.0 * np.sin(table["days"])
    )


def test_flat_coefficients_keep_their_tests_beside_a_smooth(data):
    fit = pr.fit(pr.Model.from_formula("bent ~ w + s(days) + (1 | subject)", data))
    table = fit.summary()
    assert np.isfinite(table.loc[["Intercept", "w"], "p_value"]).all()
    inside = [
        name
        for name in table.index
        if str(name).startswith("s(days)[") and "line" not in name
    ]
    assert table.loc[inside, "p_value"].isna().all()
    assert "a prior draws this mode" not in str(fit)
    # by hand, of 180 rows less 18 groups and a few columns: w varies within groups
    assert 150 < table.loc["w", "df"] < 170
    found = pr.hypothesis(fit, "w = 0")
    assert found["t"].p == pytest.approx(table.loc["w", "p_value"], rel=1e-6)
    assert PENALISED not in found.notes


def test_a_prior_of_a_coefficient_still_takes_its_test(data):
    fit = pr.fit(
        pr.Model.from_formula(
            "bent ~ w + (1 | subject)", data, prior={"w": pr.Normal(1.0)}
        )
    )
    assert "p_value" not in fit.summary()


@pytest.mark.parametrize("method", ["evidence", "integrate"])
def test_an_intercept_far_from_the_rows_is_refused_with_the_remedy(data, method):
    far = data.assign(day=data["days"] + 1e5)
    prior = {"day | subject": pr.Covariance(sd=pr.HalfNormal(50.0))}
    with pytest.raises(Incompatible, match=r"subtract 10000[45] from it first"):
        pr.fit(
            pr.Model.from_formula("reaction ~ day + (day | subject)", far, prior=prior),
            method,
        )


def test_digits_hold_where_it_is_not_refused(data):
    # the same model with the origin moved: the standard deviation of a slope stays
    near = pr.fit(pr.Model.from_formula("reaction ~ days + (days | subject)", data))
    moved = pr.fit(
        pr.Model.from_formula(
            "reaction ~ day + (day | subject)", data.assign(day=data["days"] + 1e4)
        )
    )
    sds = [
        f.solution.effect_scales.values[f"sd({name} | subject)"]
        for f, name in ((near, "days"), (moved, "day"))
    ]
    assert sds[1] == pytest.approx(sds[0], rel=1e-5)
    assert moved.std_error.values[1] == pytest.approx(
        near.std_error.values[1], rel=1e-5
    )
