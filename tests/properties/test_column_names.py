"""Names of columns that look like words of the library give the results of any other name."""

import functools

import numpy as np
import pytest

import probreg as pr

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 2))
ETA = X @ [0.5, -0.3]
Y = ETA + rng.normal(size=40)
NAMES = [
    "shares held",
    "sigma fixed",
    "prior of z",
    "likelihood",
    "a: b",
    "sd(x | g)",
    "estimate",
    "coef",
    "separation",
    "fixed",
]


@functools.cache
def outputs(name):
    model = pr.Model.from_arrays(X, Y, columns=[name, "z"])
    fits = {
        "ML": pr.fit(model),
        "ridge": pr.fit(model.with_prior({name: pr.Normal(0.2)})),
    }
    compared = pr.compare(fits)
    shares = pr.explain(fits["ML"], fits["ridge"]).shares
    text = " ".join(
        map(str, (compared, compared.reasons, fits["ML"], fits["ridge"], model))
    )
    return shares, fits, text


@pytest.mark.parametrize("name", NAMES)
def test_a_comparison_does_not_depend_on_the_name_of_a_column(name):
    shares, fits, text = outputs(name)
    plain, of_plain, _ = outputs("zz")
    assert f"prior of {name}" in shares["cause"].values
    np.testing.assert_allclose(shares["shift"], plain["shift"], atol=1e-12)
    np.testing.assert_allclose(fits["ridge"].std_error, of_plain["ridge"].std_error)
    assert name in text
    np.testing.assert_array_equal(
        pr.hypothesis(fits["ML"], f"`{name}` = 0").tests["t"].statistic,
        pr.hypothesis(of_plain["ML"], "zz = 0").tests["t"].statistic,
    )
