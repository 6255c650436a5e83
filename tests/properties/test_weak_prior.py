"""The prior by name: what it is for every likelihood, where it is taken, and what is printed of it."""

import numpy as np
import pytest

import probreg as pr
from probreg.errors import DataError, ProbregError
from probreg.priors.text import parse_prior
from tests.properties.cases import LIKELIHOOD_CASES, recipe_of, rows_for
from tests.properties.texts import unfolded

UNITS = np.array([1.0, 12.0, 0.03])


@pytest.mark.parametrize("likelihood", LIKELIHOOD_CASES, ids=repr)
def test_the_scale_is_two_and_a_half_standard_deviations_of_y_per_standard_deviation_of_x(
    likelihood,
):
    X, y = rows_for(likelihood)
    X = X * UNITS + [0.0, 5.0, -2.0]
    model = pr.Model.from_arrays(X, y, prior="weak", **recipe_of(likelihood))
    # divisors N - 1; the scale of y counts where there is noise in units of y
    sd_y = (
        float(np.std(np.asarray(y, dtype=float), ddof=1))
        if likelihood.noise_scale is not None
        else 1.0
    )
    flat, weak = model.joint.blocks
    assert flat.columns == (0,)  # the intercept keeps its flat prior
    np.testing.assert_allclose(
        weak.prior.scale, 2.5 * sd_y / X.std(axis=0, ddof=1), rtol=1e-10
    )
    assert model.unknown == likelihood.nuisance  # as do the nuisance parameters
    *_, raw = unfolded(model)
    assert f"x2 {weak.prior.scale[1]:.3g}" in raw
    assert ("sd(y)" in raw) == (likelihood.noise_scale is not None)


def test_it_is_taken_wherever_a_prior_is():
    X, y = rows_for(pr.Gaussian())
    table = {"y": y, "a": X[:, 0], "b": X[:, 1]}
    stated = pr.Normal(2.5, scaled=True)
    flat = pr.Model.from_formula("y ~ a + b", table)
    for model in (
        pr.Model.from_formula("y ~ a + b", table, prior="weak"),
        pr.Model.from_arrays(X[:, :2], y, columns=["a", "b"], prior="weak"),
        flat.with_prior("weak"),
        flat.with_prior({"a": "weak", "b": "weak"}),
        flat.with_prior(parse_prior("weak")),
        flat.with_prior(parse_prior("a=weak, b=weak")),
    ):
        np.testing.assert_array_equal(
            pr.fit(model).coef, pr.fit(flat.with_prior(stated)).coef
        )
    one = flat.with_prior({"b": "weak"})
    assert [b.columns for b in one.joint.blocks] == [(0, 1), (2,)]
    smooth = pr.Model.from_formula("y ~ a + s(b)", table, prior="weak")
    assert smooth.prior["a",] == stated  # a smooth function keeps its own
    assert "weak prior" not in repr(flat)
    with pytest.raises(ProbregError, match="'week'"):
        flat.with_prior("week")


def test_of_many_columns_five_scales_are_printed():
    X = np.random.default_rng(0).normal(size=(60, 40))
    assert "x5 " in (text := repr(pr.Model.from_arrays(X, X[:, 0], prior="weak")))
    assert "and 35 more" in text
    assert "weak prior: normal with scale 2.5 sd(y)/sd(x): x1 " in text


def test_a_column_that_does_not_vary_is_refused_with_what_to_do():
    X = np.c_[np.arange(20.0), np.ones(20)]
    with pytest.raises(
        DataError,
        match=r"column 'x2' does not vary, .*; leave it out, or give a prior without scaled",
    ):
        pr.Model.from_arrays(X, X[:, 0], prior="weak")
