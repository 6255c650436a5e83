"""Laws of the diagnostics: each flags data made to break it and leaves clean data alone, at stated rates; what they count
does not depend on units, labels of classes, or on how observations are written down."""

import itertools
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.diagnostics.after import (
    DIAGNOSTICS,
    catalogue_markdown,
    diagnose,
    fit_arrays,
    influence_measures,
    residuals,
)
from probreg.diagnostics.after.dispersion import count_dispersion
from probreg.diagnostics.after.fit_arrays import arrays_of_fit
from probreg.diagnostics.after.functional_form import reset
from probreg.diagnostics.after.residual_tests import (
    HeteroscedasticityDiagnostic,
    durbin_watson_test,
    normality_test,
)
from probreg.diagnostics.before import CHECKS, Verdict
from probreg.likelihoods import ProximalLikelihood

from .cases import LIKELIHOOD_CASES, covering, model_for, named, own, proper_aux

OF_POSTERIORS = {name for name, cls in DIAGNOSTICS.items() if cls.target == "posterior"}
MINE = [n for n in DIAGNOSTICS if n not in OF_POSTERIORS | {"existence", "rows"}]
# what diagnostics of groups say of fits without any
APART = "no effect varies by a group"
LIKELIHOODS = ["gaussian", "student", "bernoulli", "poisson", "categorical"]
N, SEEDS = 120, 25
ALPHA = 0.01  # the rate at which each single test notes clean data
FAR = 0.05  # the same for what is no test: the far rows of counts with a large mean are no accident
RATES = {
    "cook": FAR,
    "dfbetas": FAR,
    "dispersion": 2 * ALPHA,
}  # of two tests


def columns(rng, n=N):
    return np.c_[rng.normal(size=n), rng.uniform(-1.0, 1.0, n)]


def drawn(likelihood, rng, X, eta=None):
    """A response from the model itself."""
    eta = 0.5 + X @ [0.6, -0.5] if eta is None else eta
    n = len(X)
    match likelihood:
        case "gaussian":
            return eta + rng.normal(size=n)
        case "student":
            return eta + rng.standard_t(4, n)
        case "bernoulli":
            return (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
        case "poisson":
            return rng.poisson(np.exp(eta))
    p = np.exp(np.c_[np.zeros(n), eta, X @ [-0.4, 0.3]])
    return (rng.random((n, 1)) > np.cumsum(p / p.sum(1, keepdims=True), 1)).sum(1)


def fit_of(X, y, likelihood="gaussian", **more):
    return pr.fit(pr.Model.from_arrays(X, y, likelihood=likelihood, **more))


class Clean(dict):
    """Fits of data from the model, by likelihood, made when they are asked for."""

    def __missing__(self, likelihood):
        rngs = [np.random.default_rng([seed, 5]) for seed in range(SEEDS)]
        rows = [(rng, columns(rng)) for rng in rngs]
        self[likelihood] = [
            fit_of(X, drawn(likelihood, rng, X), likelihood) for rng, X in rows
        ]
        return self[likelihood]


@pytest.fixture(scope="module")
def clean():
    return Clean()


def pulled(rng):
    X = columns(rng)
    X[7] = [8.0, 0.0]
    y = drawn("gaussian", rng, X)
    y[7] -= 15.0
    return fit_of(X, y)


def far_response(rng):
    X = columns(rng)
    y = drawn("gaussian", rng, X)
    y[7] += 7.0
    return fit_of(X, y)


def fanned(rng):
    X = columns(rng)
    return fit_of(X, X[:, 0] + np.exp(X[:, 0]) * rng.normal(size=N))


def skewed(rng):
    X = columns(rng)
    return fit_of(X, X[:, 0] + rng.exponential(size=N))


def chained(rng):
    X, e = columns(rng), np.zeros(N)
    for t in range(1, N):
        e[t] = 0.6 * e[t - 1] + rng.normal()
    return fit_of(X, X[:, 0] + e)


def bent(rng, likelihood="gaussian", n=4 * N):
    X = columns(rng, n)
    return fit_of(
        X, drawn(likelihood, rng, X, X[:, 0] + 0.6 * X[:, 0] ** 2 - 0.5), likelihood
    )


def overdispersed(rng):
    X = columns(rng)
    mu = np.exp(0.5 + 0.6 * X[:, 0])
    return fit_of(X, rng.negative_binomial(1.5, 1.5 / (1.5 + mu)), "poisson")


def clustered(rng):
    """Successes of 20 trials whose probability varies from group to group."""
    X = columns(rng, 40)
    s = rng.binomial(20, 1 / (1 + np.exp(-X[:, 0] - rng.normal(size=40))))
    return fit_of(X, s, "bernoulli", trials=np.full(40, 20))


def zeros(rng):
    X = columns(rng)
    return fit_of(X, rng.poisson(6.0, N) * (rng.random(N) < 0.7), "poisson")


def bump(rng):
    X = columns(rng, 4 * N)
    return fit_of(
        X[:, :1],
        (rng.random(4 * N) < np.where(np.abs(X[:, 0] - 0.3) < 0.7, 0.85, 0.15)).astype(
            int
        ),
        "bernoulli",
    )


def bump_of_three(rng):
    X = columns(rng, 4 * N)
    eta = np.where(np.abs(X[:, 0] - 0.3) < 0.7, 2.5, -2.0)
    return fit_of(
        X[:, :1],
        drawn("categorical", rng, np.c_[X[:, 0] + 0.5, X[:, 1]], eta),
        "categorical",
    )


def used_up(rng):
    """A function with more bends than its basis can have."""
    x = rng.uniform(0.0, 1.0, N)
    return pr.fit(
        pr.Model.from_formula(
            "y ~ s(x, k=5)", {"x": x, "y": np.sin(9.0 * x) + 0.1 * rng.normal(size=N)}
        )
    )


def one_of_a_kind(rng):
    g = np.repeat(np.arange(30), 8)
    y = (
        0.5 * rng.normal(size=30)[g]
        + rng.normal(size=240)
        + np.where(g == 0, 12.0, 0.0)
    )
    return pr.fit(
        pr.Model.from_formula("y ~ 1 + (1 | g)", {"y": y, "g": [f"g{k}" for k in g]})
    )


BROKEN = [
    ("group_effects", one_of_a_kind),
    ("cook", pulled),
    ("dfbetas", pulled),
    ("outliers", far_response),
    ("heteroscedasticity", fanned),
    ("normality", skewed),
    ("autocorrelation", chained),
    ("reset", bent),
    # p-values of 120 rows are simulated, of 600 asymptotic
    pytest.param("reset", lambda rng: bent(rng, "poisson", N), marks=pytest.mark.slow),
    ("reset", lambda rng: bent(rng, "bernoulli", 5 * N)),
    ("dispersion", overdispersed),
    ("dispersion", clustered),
    ("distribution", zeros),
    ("zeros", zeros),
    ("calibration", bump),
    ("calibration", bump_of_three),
    ("linearity", used_up),
]


@cache
def ten_of(build):
    return [build(np.random.default_rng([seed, 9])) for seed in range(10)]


HOME = {
    (name, "poisson" if name in ("dispersion", "distribution", "zeros") else "gaussian")
    for name in MINE
} | {("calibration", "bernoulli")}


@pytest.fixture
def few_draws(monkeypatch):
    """Null distributions of 1,000 data sets, not 5,000, which tell a p-value of 0.01 as well."""
    monkeypatch.setattr(fit_arrays, "_LOOKS", ((200, 20), (1000, 0)))


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(("name", "build"), BROKEN)
def test_a_broken_assumption_is_flagged_nine_times_in_ten(name, build):
    verdicts = []
    for fit in ten_of(build):
        found = DIAGNOSTICS[name]().run(fit)
        assert found[0].applies
        verdicts.append(max(f.verdict for f in found))
    assert sum(v >= Verdict.NOTE for v in verdicts) >= 9, verdicts


def test_every_diagnostic_has_data_that_break_it():
    broken = {name for name, _ in (getattr(case, "values", case) for case in BROKEN)}
    assert broken == set(own(DIAGNOSTICS)) & set(MINE)


@pytest.mark.parametrize(
    ("name", "likelihood"),
    covering(
        sorted(
            itertools.product(MINE, LIKELIHOODS), key=lambda case: case not in HOME
        ),  # where it applies, first
        lambda name, _: name,
        lambda _, likelihood: likelihood,
    ),
)
def test_clean_data_are_noted_no_more_often_than_stated(name, likelihood, clean):
    fits, diagnostic = clean[likelihood], DIAGNOSTICS[name]()
    (first, *_) = diagnostic.run(fits[0])
    if not first.applies:
        assert len(first.sentence) > 25
        return
    found = [diagnostic.run(fit) for fit in fits]
    assert all(found)
    tests = sum(len(f) for f in found)
    noted = sum(f.verdict > Verdict.OK for each in found for f in each)
    warned = sum(f.verdict > Verdict.NOTE for each in found for f in each)
    # the number that a test of this level exceeds once in ten thousand
    assert noted <= stats.binom.ppf(1 - 1e-4, tests, RATES.get(name, ALPHA)), [
        f for e in found for f in e if f.verdict
    ]
    # of tests, whose warnings have level 0.0001, one is rare already
    assert warned <= (2 if name in RATES else 1)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_every_diagnostic_applies_somewhere_and_says_why_not_elsewhere(
    likelihood, clean
):
    fit = clean[likelihood][0]
    with_reasons = diagnose(fit, skipped=True)
    names = {f.check for f in with_reasons}
    assert set(MINE) <= names
    for f in with_reasons:
        assert f.sentence
        assert f.remedy or f.verdict <= Verdict.NOTE
        assert f.lines[0].startswith("–") != f.applies
    skipped = {
        f.check for f in with_reasons if not f.applies and f.check in DIAGNOSTICS
    }
    assert not skipped & {f.check for f in diagnose(fit)}
    assert len(skipped & set(MINE)) < len(MINE)


def test_names_are_unique_and_pictures_exist():
    assert set(CHECKS) & set(DIAGNOSTICS) == {"rows"}
    for name in MINE:
        picture = DIAGNOSTICS[name].picture
        assert not picture or picture.removeprefix("plot.") in pr.plot.__all__
        assert DIAGNOSTICS[name].title


@pytest.mark.slow
@pytest.mark.usefixtures("few_draws")
def test_findings_come_worst_first_with_remedy_and_picture():
    found = diagnose(pulled(np.random.default_rng(1)))
    verdicts = [f.verdict for f in found]
    assert verdicts == sorted(verdicts, reverse=True)
    assert found["cook"].worst == Verdict.WARNING
    assert found["cook"].items[0].rows == (7,)
    text = repr(found["cook"])
    assert "without it too" in text
    assert "see plot.diagnose" in text
    assert {f.check for f in found} <= set(DIAGNOSTICS)
    with pytest.raises(
        pr.ProbregError,
        match="no diagnostic is called 'cok'; did you mean 'cook'",
    ):
        found["cok"]


# ---- p-values ------------------------------------------------------------------------------------------------------


REPS = 60


@pytest.mark.usefixtures("few_draws")
@pytest.mark.parametrize(
    ("tests", "n", "likelihood"),
    [
        (lambda f: [reset(f)], 15, "gaussian"),
        (lambda f: [durbin_watson_test(f)], 15, "gaussian"),
        (DIAGNOSTICS["normality"]().run, 60, "gaussian"),
        pytest.param(
            DIAGNOSTICS["distribution"]().run, 100, "poisson", marks=pytest.mark.slow
        ),
        pytest.param(
            lambda f: count_dispersion(f).tests,
            60,
            "poisson",
            marks=pytest.mark.slow,
        ),
        pytest.param(lambda f: [reset(f)], 100, "bernoulli", marks=pytest.mark.slow),
    ],
    ids=[
        "reset-exact",
        "durbin-watson-exact",
        "normality",
        "distribution",
        "dispersion",
        "reset-score",
    ],
)
def test_p_values_are_uniform_under_the_model(tests, n, likelihood):
    p = []
    for seed in range(REPS):
        rng = np.random.default_rng([seed, 77])
        X = columns(rng, n)
        fit = fit_of(X, drawn(likelihood, rng, X), likelihood)
        p.append([test.p_value for test in tests(fit)])
    # the largest distance that uniform values exceed once in a thousand; tests that are only asymptotic get the size of
    # their bias at this n, 0.03, on top
    limit = stats.kstwo.isf(1e-3, REPS) + 0.03
    for values in np.transpose(p):
        assert stats.kstest(values, "uniform").statistic < limit


def negative_binomial_counts(rng, n):
    x = rng.normal(size=n)
    y = rng.negative_binomial(2.0, 2.0 / (2.0 + np.exp(0.3 + 0.5 * x)))
    fit = pr.fit(pr.Model.from_arrays(x, y, likelihood="negative_binomial"))
    return count_dispersion(fit).tests


def few_poisson_counts(rng, n):
    return count_dispersion(
        fit_of(columns(rng, n), rng.poisson(0.1, n), "poisson")
    ).tests


def modelled_variance(rng, n):
    x, z, noise = rng.normal(size=(3, n))
    table = {"x": x, "z": z, "y": x + np.exp(0.4 * x) * noise}
    formulas = {"y": "y ~ x + z", "log sigma": "~ x"}
    fit = pr.fit(pr.Model.from_formula(formulas, table))
    return HeteroscedasticityDiagnostic().run(fit)


@pytest.mark.parametrize(
    "tests", [negative_binomial_counts, few_poisson_counts, modelled_variance]
)
def test_p_values_account_for_estimated_parameters(tests):
    p = []
    for seed in range(REPS):
        found = tests(np.random.default_rng([seed, 78]), 600)
        p.append([test.p_value for test in found])
    # as above
    limit = stats.kstwo.isf(1e-3, REPS) + 0.03
    for values in np.transpose(p):
        assert stats.kstest(values, "uniform").statistic < limit


def test_a_formula_of_all_columns_leaves_no_test_of_equal_variances():
    rng = np.random.default_rng(0)
    table = {"g": rng.integers(0, 2, 60), "y": rng.normal(size=60)}
    formulas = {"y": "y ~ g", "log sigma": "~ g"}
    fit = pr.fit(pr.Model.from_formula(formulas, table))
    (finding,) = HeteroscedasticityDiagnostic().run(fit)
    assert not finding.applies


# ---- what does not matter -------------------------------------------------------------------------------------------

UNORDERED = [name for name in MINE if name != "autocorrelation"]


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_weights_are_repeated_observations(likelihood):
    rng = np.random.default_rng(3)
    X = columns(rng, 80)
    y, w = drawn(likelihood, rng, X), rng.integers(0, 3, 80)
    weighted, repeated = (
        fit_of(X, y, likelihood, weights=w),
        fit_of(np.repeat(X, w, 0), np.repeat(y, w), likelihood),
    )
    for name in UNORDERED:
        diagnostic = DIAGNOSTICS[name]()
        for a, b in zip(
            diagnostic.run(weighted), diagnostic.run(repeated), strict=True
        ):
            assert a.applies == b.applies
            # both fits stop when their gradient is below 1e-8 standard errors or so
            np.testing.assert_allclose(
                [a.statistic, a.p_value], [b.statistic, b.p_value], rtol=1e-5
            )
    found, known = influence_measures(weighted), influence_measures(repeated)
    first = np.concatenate([[0], np.cumsum(w[w > 0])[:-1]])
    for variable in found:  # rows of weight 0 keep their place
        ours, theirs = found[variable].values[w > 0], known[variable].values[first]
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_units_and_shifts_of_columns_do_not_matter(likelihood):
    rng = np.random.default_rng(4)
    X = columns(rng)
    y = drawn(likelihood, rng, X)
    one, two = (
        influence_measures(fit_of(Z, y, likelihood))
        for Z in (X, X * [1e-3, 50.0] + [700.0, -3.0])
    )
    for variable in ("leverage", "internal", "studentised", "cook", "dffits"):
        # as both fits stop
        np.testing.assert_allclose(one[variable], two[variable], rtol=1e-5, atol=1e-8)
    slopes = {"coef": ["x1", "x2"]}
    np.testing.assert_allclose(
        one["dfbetas"].sel(slopes), two["dfbetas"].sel(slopes), rtol=1e-4, atol=1e-7
    )


def test_leverages_add_up_to_the_coefficients_and_a_prior_takes_its_share(clean):
    for likelihood in LIKELIHOODS:
        fit = clean[likelihood][0]
        assert arrays_of_fit(fit).size == pytest.approx(
            np.prod(fit.model.shape), abs=1e-9
        )  # rounding
    tight = pr.fit(clean["bernoulli"][0].model.with_prior(pr.Normal(0.1)))
    assert 1.0 < arrays_of_fit(tight).size < 2.0


def test_leaving_a_row_out_is_exact_for_least_squares():
    rng = np.random.default_rng(6)
    X = columns(rng, 20)
    y = drawn("gaussian", rng, X)
    fit = fit_of(X, y)
    found, k = influence_measures(fit), 5
    rest = np.arange(20) != k
    again = fit_of(X[rest], y[rest])
    s = again.solution.stats["sigma_unbiased"]
    unscaled = fit.std_error.values / fit.solution.stats["sigma_unbiased"]
    moved = (fit.coef.values - again.coef.values) / (s * unscaled)
    # rounding, through two solves
    np.testing.assert_allclose(found["dfbetas"][k], moved, rtol=1e-9)
    error = y[k] - again.predict(X[[k]])["mean"].item()
    known = error * np.sqrt(1 - found["leverage"].values[k]) / s
    np.testing.assert_allclose(found["studentised"][k], known, rtol=1e-9)


def test_the_form_of_a_softmax_does_not_matter():
    rng = np.random.default_rng(8)
    X = columns(rng)
    y = drawn("categorical", rng, X)
    forms = [
        fit_of(X, y, form)
        for form in (
            pr.Categorical(),
            pr.Categorical(reference=2),
            pr.Categorical(symmetric=True),
        )
    ]
    first, *others = (influence_measures(f) for f in forms)
    for other in others:
        for variable in ("leverage", "internal", "studentised", "cook", "dffits"):
            np.testing.assert_allclose(
                first[variable], other[variable], rtol=1e-5, atol=1e-8
            )  # as the fits stop
    assert influence_measures(forms[2])["dfbetas"].sizes == {
        "obs": N,
        "coef": 3,
        "outcome": 3,
    }


def test_two_classes_of_a_softmax_are_a_logistic_regression():
    rng = np.random.default_rng(9)
    X = columns(rng)
    y = drawn("bernoulli", rng, X)
    one, two = fit_of(X, y, "bernoulli"), fit_of(X, y, "categorical")
    a, b = influence_measures(one), influence_measures(two)
    # as the fits stop
    np.testing.assert_allclose(a["leverage"], b["leverage"], rtol=1e-5)
    np.testing.assert_allclose(a["cook"], b["cook"], rtol=1e-5)
    np.testing.assert_allclose(reset(one).statistic, reset(two).statistic, rtol=1e-5)
    said = [DIAGNOSTICS["calibration"]().run(f)[0].statistic for f in (one, two)]
    assert said[0] == pytest.approx(said[1], rel=1e-5)


# ---- residuals and calibration ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("likelihood", ["gaussian", "student", "bernoulli", "poisson"])
def test_quantile_residuals_of_the_true_model_are_standard_normal(likelihood):
    rng = np.random.default_rng(10)
    X = columns(rng, 3000)
    z = residuals(fit_of(X, drawn(likelihood, rng, X), likelihood), "quantile").values
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert normality_test(z).p_value > 1e-3


def test_quantile_residuals_are_those_of_the_seed():
    rng = np.random.default_rng(11)
    X = columns(rng)
    model = pr.Model.from_arrays(X, drawn("poisson", rng, X), likelihood="poisson")
    one, same, other = (
        residuals(pr.fit(model, seed=s), "quantile").values for s in (1, 1, 2)
    )
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 0.1


@pytest.mark.parametrize("likelihood", LIKELIHOODS)
def test_standardised_residuals_have_variance_one(likelihood, clean):
    r = np.concatenate(
        [influence_measures(f)["internal"].values for f in clean[likelihood]]
    )
    # 3,000 of them; the fourth moment of a Poisson residual is at most 6 or so: standard error sqrt(5 / 3000) = 0.04
    assert np.mean(r**2) == pytest.approx(1.0, abs=0.16)


def test_residuals_add_up_as_they_should(clean):
    fit = clean["categorical"][0]
    assert np.abs(residuals(fit).sum("level")).max() < 1e-12  # rounding
    assert residuals(fit, "working").dims == ("obs", "outcome")
    gauss = clean["gaussian"][0]
    assert float(np.sum(residuals(gauss).values ** 2)) == pytest.approx(
        gauss.solution.stats["rss"], rel=1e-10
    )


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_answered_is_said(tmp_path, clean):
    gauss, softmax = clean["gaussian"][0], clean["categorical"][0]
    with pytest.raises(pr.DataError, match="rawest"):
        residuals(gauss, "rawest")
    with pytest.raises(
        pr.Incompatible,
        match=r"categorical have no order\. Response, pearson and partial residuals are class by",
    ):
        residuals(softmax, "quantile")
    with pytest.raises(pr.Incompatible, match="diagnose: fit is a Fit, got a Model"):
        diagnose(gauss.model)
    lost = pr.load_fit(gauss.save(tmp_path / "fit.nc"))
    with pytest.raises(pr.DataError, match="rows=True"):
        influence_measures(lost)
    said = [f.sentence for f in diagnose(lost, skipped=True) if f.check in MINE]
    assert said
    assert all(
        "without its rows" in s or APART in s or "more than rounding" in s for s in said
    )


def test_a_fit_without_an_estimate_is_not_diagnosed():
    x = np.arange(40.0)
    model = pr.Model.from_arrays(x, (x > 19.5).astype(int), likelihood="bernoulli")
    with pytest.warns(pr.ProbregWarning):
        lost = pr.fit(model)
    found = diagnose(lost, skipped=True)
    assert found["existence"].worst == Verdict.PROBLEM
    assert found["rows"].passed == ()
    assert all("no estimate" in f.sentence for f in found if f.check in MINE)
    with pytest.raises(pr.NotConverged, match="nothing to predict from"):
        influence_measures(lost)
    named = pr.fit(model, "perceptron")
    assert all(
        "no probabilities" in f.sentence
        for f in diagnose(named, skipped=True)
        if f.check in MINE
    )


def test_collinear_columns_are_left_out_and_a_row_that_stands_alone_is_nan():
    rng = np.random.default_rng(13)
    X = columns(rng, 30)
    alone = (np.arange(30) == 4).astype(float)
    y = drawn("gaussian", rng, X)
    with pytest.warns(pr.ProbregWarning):
        doubled = fit_of(np.c_[X, 2 * X[:, 0], alone], y)
    found, known = (
        influence_measures(doubled),
        influence_measures(fit_of(np.c_[X, alone], y)),
    )
    for variable in ("leverage", "internal", "cook"):
        np.testing.assert_allclose(
            found[variable], known[variable], rtol=1e-7, atol=1e-9
        )
    assert np.isnan(found["cook"][4])
    assert found["leverage"][4].item() == pytest.approx(1.0)
    assert np.isnan(found["dfbetas"].sel(coef=["x1", "x3"])).all()


def test_a_posterior_is_diagnosed_at_its_mean():
    rng = np.random.default_rng(14)
    X = columns(rng)
    model = pr.Model.from_arrays(X, drawn("gaussian", rng, X))
    mode, posterior = pr.fit(model), pr.fit(model, "conjugate")
    np.testing.assert_allclose(
        influence_measures(mode)["cook"],
        influence_measures(posterior)["cook"],
        rtol=0.05,
    )  # draws' mean of 1,000s


# ---- pictures and the page -------------------------------------------------------------------------------------------


def test_the_leverage_picture_shows_the_measures_and_names_the_worst_row():
    fit = pulled(np.random.default_rng(1))
    axes = pr.plot.diagnose(fit).axes
    ax = next(ax for ax in axes if ax.get_title(loc="left") == "Leverage")
    found = influence_measures(fit)
    np.testing.assert_array_equal(
        ax.collections[0].get_offsets(), np.c_[found["leverage"], found["internal"]]
    )
    assert ax.texts[0].get_text() == "7"
    # but the line at zero, every point of a contour has its distance
    for line in ax.lines[1:]:
        h, r = line.get_data()
        D = r**2 * h / (1 - h) / 3
        np.testing.assert_allclose(np.nanmax(D) - np.nanmin(D), 0.0, atol=1e-12)


def test_the_page_shows_the_catalogue():
    page = (
        Path(pr.__file__).parents[1] / "docs" / "explanation" / "diagnostics.md"
    ).read_text()
    beside = {
        f"`{name}`"
        for room in (CHECKS, DIAGNOSTICS)
        for name in set(room) - set(own(room))
    }
    for line in catalogue_markdown().splitlines():
        if line.split()[1] not in beside:
            assert line in page, (
                "docs/explanation/diagnostics.md: write the table anew with catalogue_markdown()"
            )


# ---- edges -------------------------------------------------------------------------------------------------------------


def edge(name):
    rng = np.random.default_rng(15)
    X = columns(rng, 30)
    g = drawn("gaussian", rng, X)
    match name:
        case "no residual":
            return X, 1 + 2 * X[:, 0], {}
        case "one degree of freedom":
            return X[:4], g[:4], {}
        case "a degree too few":
            return X[:3], g[:3], {}
        case "more columns than rows":
            return (
                rng.normal(size=(30, 40)),
                drawn("bernoulli", rng, X),
                {"likelihood": "bernoulli", "prior": pr.Normal(0.5)},
            )
        case "no intercept":
            return (
                X,
                drawn("poisson", rng, X),
                {"likelihood": "poisson", "intercept": False},
            )
        case "weights that are no counts":
            return X, g, {"weights": pr.weights.precision(rng.uniform(0.5, 2.0, 30))}
        case "large counts":
            return X, rng.poisson(3000 * np.exp(X[:, 0])), {"likelihood": "poisson"}
        case "far from zero":
            return 1e-3 * X + 1e6, 1e9 * g + 1e12, {}
        case "trials":
            return (
                X,
                rng.binomial(9, 0.4, 30),
                {"likelihood": "bernoulli", "trials": np.full(30, 9)},
            )
    return X, g, {"aux": {"sigma": 1.0}}


EDGES = [
    "no residual", "one degree of freedom", "a degree too few", "more columns than rows", "no intercept",
    "weights that are no counts", "large counts", "far from zero", "trials", "sigma given",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("name", EDGES)
def test_edges_get_an_answer_in_numbers(name):
    X, y, options = edge(name)
    fit = fit_of(X, y, **options)
    found = diagnose(fit, skipped=True)
    assert set(MINE) <= {f.check for f in found}
    assert not [f for f in found if f.check in MINE and "nan" in f.sentence]
    if name in ("no residual", "a degree too few"):
        told = ("no residual is left", "it is for", "residuals are rounding", APART)
        assert all(
            any(words in f.sentence for words in told) for f in found if f.check in MINE
        )
        with pytest.raises(pr.Incompatible, match="no residual is left"):
            influence_measures(fit)


# Each has its mode diagnosed in the quick part; posteriors are diagnosed at their means alike, so one of each nature there.
@pytest.mark.parametrize(
    ("likelihood", "method"),
    covering(
        [(v, method) for method in ("auto", "laplace") for v in LIKELIHOOD_CASES],
        lambda v, method: (
            named(v)
            if method == "auto"
            else (v.width > 1, bool(v.nuisance), isinstance(v, ProximalLikelihood))
        ),
    ),
)
def test_every_likelihood_and_either_target_get_an_answer(likelihood, method):
    kinked = isinstance(likelihood, ProximalLikelihood)
    fit = pr.fit(
        model_for(likelihood, aux=proper_aux(likelihood)),
        "nuts" if kinked and method == "laplace" else method,
    )
    for name in MINE:
        for f in DIAGNOSTICS[name]().run(fit):
            assert f.sentence
            assert "nan" not in f.sentence
    if kinked:
        with pytest.raises(pr.Incompatible, match="kinks"):
            influence_measures(fit)
        return
    leverage = float(influence_measures(fit)["leverage"].sum())
    size, unknown = np.prod(fit.model.shape), fit.model.unknown
    if fit.model.likelihood.has_orthogonal_information(unknown):
        assert leverage == pytest.approx(size)
    else:  # nuisance parameters have leverage too, less the share of their priors
        assert size < leverage < size + len(unknown) + 1e-6


@pytest.mark.parametrize("likelihood", ["bernoulli", "poisson"])
def test_deletion_residuals_of_a_generalised_model_are_williams(likelihood):
    """sign sqrt(d^2 + h / (1 - h) r^2) with the deviance residual d and the Pearson residual r, as R's rstudent has them."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=40)
    mean = 1 / (1 + np.exp(-x)) if likelihood == "bernoulli" else np.exp(0.5 * x)
    y = (
        (rng.random(40) < mean).astype(float)
        if likelihood == "bernoulli"
        else rng.poisson(mean).astype(float)
    )
    fit = pr.fit(pr.Model.from_arrays(x, y, likelihood=likelihood))
    Z = np.c_[np.ones(40), x]
    eta = Z @ fit.coef.values
    mu, log = (
        (1 / (1 + np.exp(-eta)), np.log)
        if likelihood == "bernoulli"
        else (np.exp(eta), np.log)
    )
    v = mu * (1 - mu) if likelihood == "bernoulli" else mu
    h = v * np.einsum("np,pq,nq->n", Z, np.linalg.inv(Z.T @ (v[:, None] * Z)), Z)
    pearson2 = (y - mu) ** 2 / v
    if likelihood == "bernoulli":
        deviance2 = -2 * np.where(y == 1, log(mu), log(1 - mu))
    else:
        deviance2 = 2 * (
            np.where(y > 0, y * log(np.where(y > 0, y, 1) / mu), 0.0) - (y - mu)
        )
    expected = np.sign(y - mu) * np.sqrt(deviance2 + h / (1 - h) * pearson2)
    np.testing.assert_allclose(
        influence_measures(fit)["studentised"], expected, rtol=1e-6
    )


def test_a_density_that_stands_for_a_loss_is_not_asked_whether_the_response_has_it():
    rng = np.random.default_rng(4)
    x = rng.normal(size=150)
    model = pr.Model.from_arrays(
        x, x + rng.normal(size=150) * np.exp(x), likelihood=pr.likelihoods.Quantile(0.7)
    )
    fit = pr.fit(model)
    for name in ("distribution", "heteroscedasticity"):
        assert "represents a loss" in DIAGNOSTICS[name]().run(fit)[0].sentence


def test_a_spread_that_is_not_found_names_the_level_of_its_test():
    rng = np.random.default_rng(4)
    x = rng.normal(size=60)
    found = pr.diagnose(pr.fit(pr.Model.from_arrays(x, x + rng.normal(size=60))))
    said = [f.sentence for f in found if f.check == "heteroscedasticity"]
    assert said
    assert all(s.startswith("no sign of a variance") for s in said)


def test_a_p_value_below_what_draws_can_tell_is_not_called_simulated():
    x = np.linspace(-1.0, 2.5, 60)
    fit = pr.fit(
        pr.Model.from_arrays(
            x, np.round(np.exp(x**2)).astype(int), likelihood="poisson"
        )
    )
    (found,) = DIAGNOSTICS["reset"]().run(fit)
    assert found.p_value < 1e-4
    assert ", asymptotic" in found.sentence
    assert "simulated" not in found.sentence


# neighbours alike, and a spread that grows with x
WAVES = np.cumsum(np.random.default_rng(4).normal(size=120))
RISING = np.linspace(0.0, 3.0, 120)


@pytest.mark.parametrize(
    ("prior", "method", "robust"),
    [
        (pr.Flat(), "auto", True),
        (pr.Normal(1.0), "auto", True),
        (pr.Laplace(1.0), "auto", False),
        ({"Intercept": pr.Normal(9.0), "x1": pr.Normal(9.0)}, "posterior", False),
        ({"Intercept": pr.Laplace(9.0), "x1": pr.Laplace(9.0)}, "nuts", False),
    ],
)
def test_robust_errors_are_a_remedy_only_of_a_fit_that_has_them(prior, method, robust):
    model = pr.Model.from_arrays(RISING, WAVES * np.exp(RISING), prior=prior)
    fit = pr.fit(model, method, seed=1) if method != "auto" else pr.fit(model)
    found = pr.diagnose(fit)
    for name, kind in (("autocorrelation", "HAC"), ("heteroscedasticity", "HC3")):
        remedies = {f.remedy for f in found[name] if f.remedy}
        assert remedies
        assert all(kind in r and ("or use" in r) == robust for r in remedies), remedies
        if robust:
            fit.covariance(kind)
        else:
            with pytest.raises(pr.Incompatible):
                fit.covariance(kind)


ALTERNATING = np.tile([-1.0, 1.0], 12)
STEPS = np.tile([1.0, 1.0, -1.0, -1.0], 6)
CONSTANT = {
    "zero": ("y ~ x", np.full(24, 3.0)),
    "equal": ("y ~ 0 + x", np.full(24, 3.0)),
    "of equal size": ("y ~ x", 3.0 + 2.0 * ALTERNATING + STEPS),
    "zero of groups": ("y ~ x + (1 | g)", np.full(24, 3.0)),
}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("residuals_are", CONSTANT)
@pytest.mark.parametrize("sigma", [1.0, pr.priors.InverseGamma(2.0, 1.0)], ids=str)
def test_tests_of_constant_residuals_do_not_apply(sigma, residuals_are):
    formula, y = CONSTANT[residuals_are]
    table = {"x": ALTERNATING, "y": y, "g": np.arange(24) % 4}
    for likelihood in ("gaussian", "student", "huber"):
        if likelihood != "gaussian" and residuals_are == "equal":
            continue  # two modes
        model = pr.Model.from_formula(
            formula, table, likelihood=likelihood, aux={"sigma": sigma}
        )
        fit = pr.fit(model)
        found = diagnose(fit, skipped=True)
        assert "nan" not in str(found)
        if likelihood == "huber":
            continue  # a loss, with no test of variance
        applies = {f.check for f in found if f.applies}
        assert "heteroscedasticity" not in applies
        if residuals_are != "of equal size":
            assert not applies & {"normality", "distribution", "autocorrelation"}


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("likelihood", ["poisson", "binomial", "negative_binomial"])
def test_counts_with_constant_residuals_have_no_autocorrelation(likelihood):
    table = {"x": ALTERNATING, "y": np.full(24, 1), "n": np.full(24, 2)}
    left = "p(y, n)" if likelihood == "binomial" else "y"
    aux = {"alpha": 0.5} if likelihood == "negative_binomial" else {}
    model = pr.Model.from_formula(f"{left} ~ x", table, likelihood=likelihood, aux=aux)
    found = diagnose(pr.fit(model), skipped=True)["autocorrelation"]
    assert not any(f.applies for f in found)


@pytest.mark.usefixtures("few_draws")
def test_remedies_name_a_formula_of_the_scale_and_another_family():
    rng = np.random.default_rng(1)
    z = rng.normal(size=N)
    data = {"z": z, "y": z + np.exp(z) * rng.normal(size=N)}
    data["positive"] = np.exp(data["y"])
    varies = pr.fit(pr.Model.from_formula("y ~ exp(z)", data))
    (finding, *_) = diagnose(varies)["heteroscedasticity"]
    assert "{'log sigma': '~ z'}" in finding.remedy
    skewed = pr.fit(pr.Model.from_formula("positive ~ z", data))
    assert "Gamma" in next(iter(diagnose(skewed)["normality"])).remedy
    modelled = {"y": "y ~ z", "log sigma": "~ z"}
    fit = pr.fit(pr.Model.from_formula(modelled, data))
    assert not diagnose(fit)["heteroscedasticity"].worst


def test_a_positive_response_is_not_to_be_transformed_for_its_spread():
    rng = np.random.default_rng(0)
    x = rng.uniform(1.0, 3.0, 300)
    data = {"x": x, "y": np.exp(x + 0.4 * x * rng.normal(size=300))}
    for likelihood, parameter in {
        "log_normal": "log sigma",
        "gamma": "log phi",
    }.items():
        model = pr.Model.from_formula("y ~ x", data, likelihood=likelihood)
        (finding, *_) = diagnose(pr.fit(model))["heteroscedasticity"]
        assert parameter in finding.remedy
        assert "transform" not in finding.remedy


def test_zeros_of_poisson_rows_with_an_intercept_have_the_closed_score_test():
    y = np.random.default_rng(2).poisson(1.3, 60).astype(float)
    fit = pr.fit(pr.Model.from_formula("y ~ 1", {"y": y}, likelihood="poisson"))
    (finding,) = pr.diagnose(fit)["zeros"]
    # van den Broek (1995), for a constant mean
    n, mu = len(y), y.mean()
    p0 = np.exp(-mu)
    z = ((y == 0).sum() - n * p0) / np.sqrt(n * p0 * (1.0 - p0 - mu * p0))
    assert finding.statistic == pytest.approx(z, rel=1e-8)


def test_an_outlier_of_counts_by_class_has_the_binomial_probability_of_its_class():
    rng = np.random.default_rng(1)
    n, trials = 30, 10
    Y = rng.multinomial(trials, [0.3, 0.3, 0.4], n).astype(float)
    Y[4] = [0.0, 9.0, 1.0]
    model = pr.Model.from_arrays(rng.normal(size=(n, 1)), Y, likelihood="multinomial")
    fit = pr.fit(model)
    (finding,) = pr.diagnose(fit)["outliers"]
    law = stats.binom(trials, fit.fitted.values)
    tail = np.minimum(law.cdf(Y), law.sf(Y - 1.0)).min()
    # of 2 tails, 3 classes and n rows
    assert finding.p_value == pytest.approx(2.0 * 3.0 * n * tail, rel=1e-10)
