"""Responses far out of the usual: either the answer is that of the same numbers in another unit, or one sentence."""

from contextlib import suppress

import numpy as np
import pytest

import probreg as pr
from probreg.inference import METHODS

RNG = np.random.default_rng(0)
X = RNG.normal(size=30)
LINE = 1.0 + 2.0 * X + 0.5 * RNG.normal(size=30)
COUNTS = RNG.poisson(np.exp(0.5 * X)).astype(float)
QUICK = [
    "closed_form",
    "newton",
    "proximal_newton",
    "conjugate",
    "quadrature",
    "laplace",
    "importance",
]
MEASURED = [
    (likelihood, method)
    for likelihood in ("gaussian", "student")
    for method in QUICK
    if METHODS[method]().obstacle(pr.Model.from_arrays(X, LINE, likelihood=likelihood))
    is None
]


def fitted(y, likelihood, method):
    return pr.fit(pr.Model.from_arrays(X, y, likelihood=likelihood), method)


@pytest.mark.parametrize(("likelihood", "method"), MEASURED)
@pytest.mark.parametrize("unit", [1e-100, 1e100, 1e130])
def test_another_unit_is_the_same_fit(likelihood, method, unit):
    one, other = (fitted(y, likelihood, method) for y in (LINE, LINE * unit))
    error = one.std_error.values
    np.testing.assert_allclose(
        other.coef.values / unit, one.coef.values, atol=1e-5 * error.max()
    )
    np.testing.assert_allclose(other.std_error.values / unit, error, rtol=1e-5)
    assert other.solution.status is one.solution.status


@pytest.mark.parametrize(
    ("likelihood", "method"), [m for m in MEASURED if m[1] != "importance"]
)
@pytest.mark.parametrize("far", [1e8, -1e10, 4e12])
def test_another_zero_is_the_same_fit(likelihood, method, far):
    y = LINE + far
    one, other = (fitted(v, likelihood, method) for v in (y - far, y))
    error = one.std_error.values
    # the triangular factor holds some 19 digits of 4e12, of which the differences keep six
    np.testing.assert_allclose(
        other.coef.values[1], one.coef.values[1], atol=1e-5 * error[1]
    )
    np.testing.assert_allclose(other.std_error.values[1], error[1], rtol=1e-5)
    assert other.solution.status is one.solution.status


def test_a_warm_start_is_a_start_wherever_zero_is():
    y = LINE + 1e9
    cold = pr.fit(pr.Model.from_arrays(X, y), "newton")
    warm = pr.fit(cold.model, pr.Newton(start=cold.coef.values))
    np.testing.assert_allclose(warm.coef.values, cold.coef.values, rtol=1e-15)
    assert warm.solution.stats["steps"] <= cold.solution.stats["steps"]


@pytest.mark.parametrize("likelihood", ["gaussian", "student"])
@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            LINE * 1e300,
            r"row 0 of the response holds 7\.4\d*e\+299, whose square is beyond double precision \(30 such",
        ),
        (
            np.r_[LINE[:-1], 1e300],
            r"row 29 of the response holds 1e\+300, .*another unit",
        ),
        (np.r_[LINE[:-1], -1.7e308], r"row 29 of the response holds -1\.7e\+308"),
        (
            LINE * 1e-300,
            r"the response varies by 6\.\d*e-300, whose square is below double precision",
        ),
        (
            LINE + 1e15,
            r"varies by 6\.\d+ about 1e\+15, of which double precision keeps fewer than four digits: subtract",
        ),
        (1.0 + 1e-14 * LINE, r"varies by .*e-14 about 1, of which double precision"),
        (np.full(30, 1e15), "the response is constant"),
    ],
)
def test_what_double_precision_cannot_hold_is_said(likelihood, y, message):
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_arrays(X, y, likelihood=likelihood)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (np.r_[COUNTS[:-1], 1e300], r"row 29 of the response holds 1e\+300"),
        (
            np.r_[COUNTS[:-1], 1e16],
            r"Poisson response holds counts below 2\^53 = 9007199254740992; row 29 holds 1e\+16",
        ),
    ],
)
def test_counts_that_are_not_exact_are_said(y, message):
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_arrays(X, y, likelihood="poisson")


def test_large_counts_that_are_exact_are_fitted():
    fit = pr.fit(pr.Model.from_arrays(X, COUNTS + 1e15, likelihood="poisson"))
    mean = np.exp(fit.model.eta(fit.solution.beta))[:, 0]
    np.testing.assert_allclose(
        fit.model.design.X.T @ (fit.model.design.y / mean - 1.0), 0.0, atol=1e-9
    )


@pytest.mark.parametrize("value", [1e200, -1e300])
def test_a_column_whose_square_is_no_number_is_named(value):
    wide = np.c_[X, X]
    wide[3, 1] = value
    with pytest.raises(
        pr.DataError,
        match=r"column 'b' holds .* in row 3, whose square is beyond double precision",
    ):
        pr.Model.from_arrays(wide, LINE, columns=["a", "b"])
    with pytest.raises(
        pr.DataError,
        match=r"the term 'b' is .* in row 3, whose square is beyond double precision",
    ):
        pr.Model.from_formula("y ~ a + b", {"y": LINE, "a": X, "b": wide[:, 1]})


@pytest.mark.parametrize("value", [1e-308, 1e-300, 1e300, 1e308])
def test_a_scale_whose_square_is_no_number_is_named(value):
    for make in (
        pr.Normal,
        pr.Laplace,
        pr.HalfNormal,
        pr.priors.GPrior,
        lambda v: pr.Normal((1.0, v)),
    ):
        with pytest.raises(
            pr.DataError,
            match=r"between 1e-140 and 1e\+140, whose square is a number too.*e[+-]30",
        ):
            make(value)
    for make in (pr.priors.R2, lambda v: pr.priors.R2(1.0, v), pr.priors.BetaPrime):
        with pytest.raises(
            pr.DataError, match=r" is a number from 0\.01 to 10000, got 1e"
        ):
            make(value)


@pytest.mark.parametrize(
    "shapes",
    [(0.01, 1.0), (1.0, 0.01), (1e4, 1.0), (1.0, 1e4), (0.01, 0.01), (1e4, 1e4)],
)
def test_every_shape_of_r2_that_passes_has_a_density_and_draws(shapes):
    model = pr.Model.from_arrays(np.c_[X, X**2], LINE, prior=pr.priors.R2(*shapes))
    prior = model.joint.blocks[-1].prior
    assert np.isfinite(model.log_posterior(np.ones((3, 1)), sigma=1.0))
    assert not np.isnan(prior.sample(np.random.default_rng(0), (100, 2, 1))).any()
    assert np.isfinite(pr.fit(model, "evidence").coef).all()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("nu", [0.1, 1e6])
def test_a_student_search_at_extreme_scales_ends_in_an_answer_or_a_sentence(nu):
    rng = np.random.default_rng(0)
    x, t = rng.normal(size=40), rng.standard_t(3, size=40)
    line, far = 1.0 + x, np.arange(40) == 0
    plain = pr.fit(pr.Model.from_arrays(x, line + t, likelihood=pr.StudentT(nu)))
    for c, s in ((1.0, 1e139), (1.0, 1e-138), (1e139, 1e139), (1e-138, 1.0)):
        fit = pr.fit(
            pr.Model.from_arrays(c * x, s * (line + t), likelihood=pr.StudentT(nu))
        )
        np.testing.assert_allclose(
            fit.coef.values / s * [1.0, c], plain.coef.values, rtol=1e-6
        )
    lost = {  # slopes, or residuals in units of sigma, whose squares are no numbers; a density without a maximum
        "slope": (1e120 * x, 1e-120 * (line + t)),
        "outlier": (x, np.where(far, 1e100, 1e-100 * (line + t))),
        "exact": (x, np.where(np.arange(40) < 35, line, line + t)),
        "exact, large": (x, 1e139 * np.where(np.arange(40) < 35, line, line + t)),
    }
    for X, y in lost.values():
        with suppress(pr.DataError, pr.NotConverged):
            fit = pr.fit(pr.Model.from_arrays(X, y, likelihood=pr.StudentT(nu)))
            assert np.isfinite(fit.coef).all() or not fit.solution.status.good
    for X, y in ((x, 1e300 * (line + t)), (x, 1e-300 * (line + t))):
        with pytest.raises(pr.DataError, match="unit"):
            pr.fit(pr.Model.from_arrays(X, y, likelihood=pr.StudentT(nu)))
    with pytest.raises(
        pr.DataError, match="double precision at the start of the search"
    ):
        pr.fit(pr.Model.from_arrays(*lost["outlier"], likelihood=pr.StudentT(nu)))


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("unit", [1e-300, 1e-320])
@pytest.mark.parametrize("right", ["x + z", "x * z", "z + (1 | g) + x"])
def test_a_column_below_double_precision_is_named(right, unit, likelihood):
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 30))
    data = {"y": (z > 0) * 1, "x": unit * x, "z": z, "g": np.repeat(list("abcde"), 6)}
    with pytest.raises(pr.DataError, match="'x'"):
        pr.check(pr.Model.from_formula(f"y ~ {right}", data, likelihood=likelihood))


BROKEN = np.array(["a", "\ud800", "b"] * 10, dtype=object)


@pytest.mark.parametrize("right", ["g", "(1 | g)", "x + g:x"])
def test_half_of_a_surrogate_pair_is_no_level(right):
    x = np.arange(30.0)
    column = "" if "|" in right else "of 'g' "
    with pytest.raises(pr.DataError, match=f"{column}holds half of a surrogate"):
        pr.Model.from_formula(f"y ~ {right}", {"y": x % 7, "x": x, "g": BROKEN})


def test_half_of_a_surrogate_pair_is_no_response_and_no_name():
    x = np.arange(30.0)
    with pytest.raises(pr.DataError, match="surrogate"):
        pr.Model.from_arrays(x, BROKEN, likelihood="categorical")
    with pytest.raises(pr.DataError, match="surrogate"):
        pr.Model.from_arrays(x, x % 7, columns=["\ud800"])


@pytest.mark.parametrize("likelihood", ["gamma", "log_normal"])
def test_positive_responses_on_a_curve_are_printed_and_saved(likelihood, tmp_path):
    """The density increases without bound, and the coefficients are those of the curve."""
    x = np.arange(6.0)
    model = pr.Model.from_arrays(x, 2.0**x, likelihood=likelihood)
    with pytest.warns(pr.ProbregWarning, match="runs to 0"):
        fit = pr.fit(model)
    assert fit.log_likelihood == np.inf
    np.testing.assert_allclose(fit.coef, [0.0, np.log(2.0)], atol=1e-12)
    assert "runs to 0" in str(fit.summary())
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.coef, fit.coef)
