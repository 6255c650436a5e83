"""Standard errors of combinations of coefficients do not depend on where the columns lie or how they are written.

The reference values are those of exact rational arithmetic, and of the same models of centred columns.
"""

from typing import Any

import numpy as np
import pytest

import probreg as pr

INDEX = np.arange(40.0)
YEAR = 1980 + INDEX
BY_YEAR = {
    "y": (YEAR - 2000) ** 2 / 100 + np.sin(1.7 * INDEX), "t": YEAR, "c": YEAR - 2000,
    "g": np.repeat([f"r{q}" for q in range(8)], 5),
    "k": np.round(4 + 3 * np.sin(INDEX / 6) + (INDEX % 3)), "over": np.round(9 * np.abs(np.sin(2.3 * INDEX)) ** 3), "b": (np.sin(INDEX / 3) + np.cos(1.9 * INDEX) > 0) * 1,
    "s": np.array(list("uvw"))[(INDEX % 3 + (INDEX > 20)).astype(int) % 3],
}  # fmt: skip
RAW, CENTRED = "t + I(t**2) + I(t**3) + I(t**4)", "c + I(c**2) + I(c**3) + I(c**4)"
AT = {"t": [1983.0, 1990.0], "c": [-17.0, -10.0], "g": ["r0", "r2"]}


def fit(formula: str, data: dict[str, Any], method: Any = None, **settings: Any) -> Any:
    model = pr.Model.from_formula(formula, data, **settings)
    return pr.fit(model, seed=1) if method is None else pr.fit(model, method, seed=1)


def errors(found: Any, at: dict[str, Any]) -> Any:
    table = found.predict(at)
    return table["mean_std_error" if "mean_std_error" in table else "mean_sd"].values


QUARTICS = {
    "least squares": ({}, None, "", [0.258321, 0.228692]),
    "conjugate": ({}, "conjugate", "", [0.266034, 0.235520]),
    "newton": ({}, "newton", "", [0.241638, 0.213922]),
    "groups": ({}, None, " + (1 | g)", [0.258321, 0.228692]),
    "Huber": ({"likelihood": "huber"}, None, "", [0.259146, 0.241950]),
    "Student": ({"likelihood": pr.StudentT(nu=4.0)}, None, "", None),
    "Poisson": ({"likelihood": "poisson"}, None, "", None),
    "negative binomial": ({"likelihood": "negative_binomial"}, None, "", None),
    "logistic": ({"likelihood": "bernoulli"}, None, "", None),
    "softmax": ({"likelihood": "categorical"}, None, "", None),
}
RESPONSE = {
    "Poisson": "k",
    "negative binomial": "over",
    "logistic": "b",
    "softmax": "s",
}


@pytest.mark.parametrize("name", QUARTICS)
@pytest.mark.parametrize("terms", [RAW, CENTRED, "poly(t, 4)"])
def test_errors_of_a_quartic_do_not_depend_on_its_columns(
    name: str, terms: str
) -> None:
    settings, method, rest, right = QUARTICS[name]
    response = RESPONSE.get(name, "y")
    found = fit(f"{response} ~ {terms}{rest}", BY_YEAR, method, **settings)
    if right is None:
        right = errors(
            fit(f"{response} ~ {CENTRED}{rest}", BY_YEAR, method, **settings), AT
        )
    # six printed digits
    np.testing.assert_allclose(errors(found, AT), right, rtol=3e-6)


def test_intervals_of_new_observations_of_a_raw_quartic() -> None:
    table = fit(f"y ~ {RAW}", BY_YEAR).predict(AT)
    found = np.stack([table["new_lower"], table["new_upper"]], 1)
    np.testing.assert_allclose(found, [[1.3488, 4.5527], [-0.6119, 2.5547]], atol=5e-5)


def test_f_test_of_a_raw_quartic() -> None:
    found = fit(f"y ~ {RAW}", BY_YEAR)
    tests = pr.hypothesis(
        found,
        ", ".join(f"`{name}` = 0" for name in found.coef.coords["coef"].values[1:]),
    )
    found = [tests[t].statistic for t in ("F", "LR", "score")]
    np.testing.assert_allclose(found, [27.3069, 56.6418, 30.2931], atol=6e-5)


SLOT = np.arange(200.0)
STAMP = 1.7e12 + 50 * SLOT
BY_STAMP = {
    "y": 3 + 1e-4 * (STAMP - STAMP[0]) + 0.4 * np.sin(SLOT / 9) + 0.3 * np.cos(2.3 * SLOT), "t": STAMP,
    "g": np.repeat([f"r{q}" for q in range(20)], 10),
}  # fmt: skip
HOUR = np.arange(60.0)
BY_HOUR = {
    "y": 1 + 0.05 * HOUR - 0.0004 * HOUR**2 + 0.3 * np.cos(2.3 * HOUR),
    "t": 1.7092512e18 + 3.6e12 * HOUR,
}


@pytest.mark.parametrize(
    ("formula", "data", "method", "rows", "right"),
    [
        ("y ~ t + (1 | g)", BY_STAMP, None, [10, 150], [0.074391, 0.073493]),
        ("y ~ t", BY_STAMP, "conjugate", [10, 150], [0.046199, 0.033272]),
        ("y ~ t + I(t**2)", BY_HOUR, None, [3, 50], [0.066527, 0.045382]),
    ],
)  # fmt: skip
def test_errors_of_times_since_1970(
    formula: str, data: Any, method: Any, rows: list[int], right: list[float]
) -> None:
    at = {name: values[rows] for name, values in data.items() if name != "y"}
    np.testing.assert_allclose(errors(fit(formula, data, method), at), right, atol=6e-7)


Z = np.linspace(-1.7, 1.7, 24)
FAR = 1e11 + np.round(Z * 1e3) / 1e3
COUNTS = np.random.default_rng(0).negative_binomial(2, 2 / (2 + np.exp(1 + Z)))


@pytest.mark.parametrize(
    ("likelihood", "response", "right"),
    [
        (pr.StudentT(nu=4.0), 2 * Z + np.cos(9 * Z), 1.99995),
        ("negative_binomial", COUNTS, 0.834368),
        ("poisson", COUNTS, None),
        ("bernoulli", (COUNTS > 1) * 1, None),
        ("categorical", np.array(list("abc"))[np.minimum(COUNTS, 2)], None),
        ("huber", 2 * Z + np.cos(9 * Z), None),
        ("gaussian", 2 * Z + np.cos(9 * Z), None),
    ],
)  # fmt: skip
def test_a_column_far_from_zero_has_the_slope_of_its_deviations(
    likelihood: Any, response: Any, right: Any
) -> None:
    far = fit("y ~ t", {"y": response, "t": FAR}, likelihood=likelihood)
    near = fit("y ~ t", {"y": response, "t": FAR - 1e11}, likelihood=likelihood)
    slope = far.coef.values[1]
    if right is not None:
        np.testing.assert_allclose(slope, right, rtol=3e-6)
    np.testing.assert_allclose(slope, near.coef.values[1], rtol=1e-7)
    np.testing.assert_allclose(
        far.std_error.values[1], near.std_error.values[1], rtol=1e-6
    )
    assert far.solution.status is near.solution.status


@pytest.mark.parametrize(
    "name", ["least squares", "Poisson", "negative binomial", "Huber"]
)
@pytest.mark.parametrize("kind", ["observed", "expected", "HC0", "HC3"])
def test_errors_of_raw_powers_by_level_are_those_of_centred_powers(
    name: str, kind: str
) -> None:
    data = {**BY_YEAR, "f": np.array(list("abcab"))[(7 * INDEX % 5).astype(int)]}
    settings, response = QUARTICS[name][0], RESPONSE.get(name, "y")
    raw, centred = (
        fit(f"{response} ~ ({terms}) * f", data, **settings) for terms in (RAW, CENTRED)
    )
    found, right = (
        pr.predictions(f, at={v: value}, covariance=kind, average_over="sample").table[
            ["estimate", "std_error"]
        ]
        for f, v, value in ((raw, "t", 1993.0), (centred, "c", -7.0))
    )
    # |X beta| loses 1e10 eps of raw quartics by level
    np.testing.assert_allclose(found, right, rtol=1e-5)


def test_degrees_of_freedom_do_not_depend_on_where_the_columns_lie() -> None:
    raw, centred = (
        fit(f"y ~ {terms} + (1 | g)", BY_YEAR, "evidence") for terms in (RAW, CENTRED)
    )
    found, right = (
        pr.predictions(f, at={v: value}, average_over="sample").table[
            ["lower", "upper"]
        ]
        for f, v, value in ((raw, "t", 1993.0), (centred, "c", -7.0))
    )
    np.testing.assert_allclose(found, right, rtol=1e-5)
    powers = (
        ", ".join(f"{c} = 0" for c in terms.split(" + ")) for terms in (RAW, CENTRED)
    )
    found, right = (
        pr.hypothesis(f, text)["F"] for f, text in zip((raw, centred), powers)
    )
    np.testing.assert_allclose(
        [*found.df, found.statistic], [*right.df, right.statistic], rtol=1e-5
    )


@pytest.mark.parametrize("offset", [1e11, 1e13])
def test_a_quantile_of_a_column_far_from_zero_has_the_slope_of_its_deviations(
    offset: float,
) -> None:
    t = offset + np.round(Z * 500) / 500
    data = {"y": 2 * Z + np.cos(9 * Z), "t": t, "c": t - offset}
    far, near = (
        fit(f"y ~ {v}", data, likelihood=pr.likelihoods.Quantile(0.5)) for v in "tc"
    )
    # sums near 1e13 keep three digits
    np.testing.assert_allclose(far.coef.values[1], near.coef.values[1], rtol=1e-3)
    np.testing.assert_allclose(
        far.std_error.values[1], near.std_error.values[1], rtol=1e-3
    )
