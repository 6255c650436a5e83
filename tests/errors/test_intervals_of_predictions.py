"""What cannot be predicted or calibrated, said in words."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import gennorm, laplace, norm, poisson, t as student

import probreg as pr
from probreg.comparison.interval_panel import coverage, interval_panel
from probreg.diagnostics.conformal import Split, conformal
from probreg.likelihoods import Quantile
from probreg.model.predictive import Predictive
from probreg.priors import Normal


def line(n: int = 30) -> pr.Fit:
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    return pr.ols(x[:, None], x + rng.normal(size=n))


def yes_no(n: int = 40) -> pr.Fit:
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    return pr.logistic(x[:, None], (x + rng.logistic(size=n) > 0).astype(int))


def test_too_few_rows_for_the_probability():
    with pytest.raises(
        pr.DataError, match=r"15 calibration rows: .*probability 0.95 needs 19"
    ):
        conformal(line(), prob=0.95)
    with pytest.raises(pr.DataError, match=r"5 calibration rows: .*needs 9"):
        conformal(line(5), prob=0.9, kind="jackknife+")
    assert conformal(line(9), prob=0.9, kind="jackknife+").count == 9


@pytest.mark.parametrize("prob", [0.0, 1.0, 95])
def test_prob_is_a_probability(prob):
    with pytest.raises(pr.DataError, match="between 0 and 1"):
        conformal(line(), prob=prob)


@pytest.mark.parametrize("tail", [2.0**-54, 1e-12])
@pytest.mark.parametrize(
    "likelihood",
    ["gaussian", "student", "huber", "power", "absolute", "quantile", "poisson"],
)
def test_intervals_of_a_probability_next_to_one_have_finite_exact_ends(
    likelihood, tail
):
    given = {"poisson": 3.0}.get(likelihood, 0.7)
    likelihood = (
        Quantile(0.3) if likelihood == "quantile" else pr.LIKELIHOODS[likelihood]()
    )
    aux = {likelihood.noise_scale: np.full((1, 1), 0.5)} if likelihood.nuisance else {}
    one = Predictive(likelihood, np.full((1, 1, 1), given), aux)
    lower, upper = one.interval(1.0 - 2.0 * tail)
    assert np.isfinite([lower, upper]).all()
    law = {
        "gaussian": norm(given, 0.5),
        "student": student(4.0, given, 0.5),
        "power": gennorm(1.5, given, 0.5),
        "absolute": laplace(given, 0.5),
        "poisson": poisson(np.exp(given)),
    }.get(likelihood.name)
    # a distribution function next to 1 has no more digits
    if likelihood.name == "poisson" and tail < 1e-15:
        assert law.sf(upper[0]) <= 2.0**-52 < law.sf(upper[0] - 3.0)
    elif law is not None:
        np.testing.assert_allclose(
            [lower[0], upper[0]], [law.ppf(tail), law.isf(tail)], rtol=1e-4
        )
    else:
        mirrored = Predictive(likelihood.mirror, -one.eta, aux).interval(
            1.0 - 2.0 * tail
        )
        np.testing.assert_allclose(
            [lower[0], upper[0]], [-mirrored[1][0], -mirrored[0][0]], rtol=1e-9
        )


def test_every_interval_of_a_fit_is_finite_at_a_probability_next_to_one():
    prob = 1.0 - 1e-16
    fit = line()
    t = student.isf((1.0 - prob) / 2.0, 28)
    found = fit.predict([[0.3]], prob)
    half = (found["mean_upper"] - found["mean"]) / found["mean_std_error"]
    assert float(half[0]) == pytest.approx(t, rel=1e-12)
    assert np.isfinite([found["new_lower"], found["new_upper"]]).all()
    ends = fit.tidy(prob=prob)[["conf.low", "conf.high"]].to_numpy(dtype=float)
    assert np.isfinite(ends).all()
    posterior = pr.fit(fit.model, "conjugate")
    assert np.isfinite(
        posterior.tidy(prob=prob)[["conf.low", "conf.high"]].to_numpy(dtype=float)
    ).all()


@pytest.mark.parametrize("prob", [0.0, 1.0, 1.5, np.nan, "a"])
def test_a_quantile_is_at_a_probability(prob):
    with pytest.raises(pr.DataError, match="prob"):
        line().predictive([[0.3]]).quantile(prob)


def test_a_kind_that_there_is_not():
    with pytest.raises(
        pr.ProbregError,
        match=r"no conformal interval is called 'jacknife\+'; did you mean 'jackknife\+'",
    ):
        conformal(line(), kind="jacknife+")
    with pytest.raises(
        pr.Incompatible, match="kind is a name or a ConformalMethod, got 3"
    ):
        conformal(line(), kind=3)
    with pytest.raises(pr.Incompatible, match="conformal: fit is a Fit, got a Model"):
        conformal(line().model)


def test_shares_of_the_rows():
    with pytest.raises(pr.DataError, match="share is a number between 0 and 1"):
        Split(share=1.0)


def test_a_score_that_the_response_has_not():
    with pytest.raises(
        pr.Incompatible,
        match="a bernoulli response has no pit score; it has: probability",
    ):
        conformal(yes_no(), kind=Split(score="pit"))
    with pytest.raises(
        pr.Incompatible,
        match="a gaussian response has no probability score; it has: absolute, pit",
    ):
        conformal(line(), kind=Split(score="probability"))


def test_the_jackknife_is_of_linear_estimates():
    with pytest.raises(pr.Incompatible, match="gaussian likelihood, not bernoulli"):
        conformal(yes_no(), kind="jackknife+")
    ridge = pr.fit(line().model.with_prior(Normal(1.0)))
    with pytest.raises(pr.Incompatible, match="fixed sigma or in units of sigma"):
        conformal(ridge, kind="jackknife+")


def test_a_row_that_alone_tells_a_coefficient():
    X = np.c_[np.linspace(0, 1, 20), np.arange(20) == 7]
    with pytest.raises(pr.Incompatible, match="without row 7 there is no estimate"):
        conformal(pr.ols(X, np.sin(np.arange(20.0))), kind="jackknife+")


def test_columns_that_are_combinations():
    x = np.linspace(0, 1, 20)
    with pytest.warns(pr.ProbregWarning):
        fit = pr.ols(np.c_[x, 2 * x], np.sin(20 * x))
    with pytest.raises(pr.Incompatible, match="x2 = 2 x1"):
        conformal(fit, kind="jackknife+")


def test_weights_that_are_no_counts():
    x = np.arange(20.0)
    fit = pr.fit(
        pr.Model.from_arrays(
            x, np.sin(x), weights=pr.weights.sampling(np.linspace(1, 2, 20))
        )
    )
    with pytest.raises(
        pr.Incompatible,
        match="with sampling weights are not exchangeable",
    ):
        conformal(fit)


def test_a_conformal_set_is_of_one_trial():
    counts = np.eye(3)[np.arange(40) % 3]
    x = np.cos(np.arange(40.0))
    several = pr.fit(pr.Model.from_arrays(x, 2 * counts, likelihood="multinomial"))
    with pytest.raises(
        pr.Incompatible, match="the class of one trial, and row 0 counts 2 trials"
    ):
        conformal(several)
    one = pr.fit(pr.Model.from_arrays(x, counts, likelihood="multinomial"))
    with pytest.raises(pr.Incompatible, match="row 1 counts 4 trials"):
        conformal(
            one,
            x[:20, None],
            y=counts[:20] * np.where(np.arange(20) == 1, 4, 1)[:, None],
        )
    with pytest.raises(pr.Incompatible, match="row 0 counts 3 trials"):
        conformal(one).predict([[0.5]], trials=[3])


def test_a_part_without_an_estimate():
    """The event is in few rows, all of which may fall on one side: the part that is fitted is separated."""
    x = np.arange(40.0)
    fit = pr.logistic(x[:, None], np.isin(x, (5, 33)).astype(int))
    with pytest.raises(pr.NotConverged, match="refit on 6 rows has no estimate"):
        conformal(fit, prob=0.8, kind=Split(share=0.15))


def test_a_classifier_has_no_scores():
    x = np.r_[np.arange(10.0), np.arange(20.0, 30.0)]
    fit = pr.fit(
        pr.Model.from_arrays(x, (x > 15).astype(int), likelihood="bernoulli"),
        "perceptron",
    )
    with pytest.raises(pr.Incompatible, match="has no probabilities"):
        conformal(fit)


def test_rows_kept_apart_need_their_response():
    table = pd.DataFrame({"x": np.arange(20.0), "y": np.sin(np.arange(20.0))})
    fit = pr.fit(pr.Model.from_formula("y ~ x", table))
    with pytest.raises(
        pr.DataError,
        match=r"no column 'y'.*The response is read from the rows too, or given as y=",
    ):
        conformal(fit, table[["x"]], prob=0.8)
    with pytest.raises(pr.DataError, match="there are 20 new rows and 3 responses"):
        conformal(fit, table, y=[1.0, 2.0, 3.0], prob=0.8)
    with pytest.raises(
        pr.DataError, match="needs data=: pass the rows that the fit has not used"
    ):
        conformal(fit, y=[1.0])
    with pytest.raises(pr.Incompatible, match="use kind='split' with data="):
        conformal(fit, table, kind="jackknife+")


def test_a_fit_without_its_rows(tmp_path):
    fit = pr.load_fit(line().save(tmp_path / "fit.nc"))
    for kind in ("split", "jackknife+"):
        with pytest.raises(
            pr.DataError, match="saved without its rows: pass unused rows"
        ):
            conformal(fit, kind=kind)
    new = np.linspace(-1, 1, 20)
    found = conformal(fit, new[:, None], y=new, prob=0.8)
    with pytest.raises(pr.DataError, match="pass data="):
        found.predict()


def test_a_separated_fit_predicts_nothing():
    x = np.arange(20.0)
    with pytest.warns(pr.ProbregWarning):
        fit = pr.logistic(x[:, None], (x > 9.5).astype(int))
    with pytest.raises(pr.NotConverged, match="nothing to predict from"):
        fit.predict(x[:, None])
    with pytest.raises(pr.NotConverged):
        conformal(fit)


# ---- panels and coverage -------------------------------------------------------------------------------------------


def test_a_panel_is_of_one_quantity():
    fit = line()
    with pytest.raises(
        pr.DataError, match="no coefficient is called 'x9'; there are: Intercept, x1"
    ):
        interval_panel(fit, "x9")
    with pytest.raises(pr.DataError, match="there is no fit"):
        interval_panel({}, "x1")
    with pytest.raises(pr.DataError, match="'a' is of type Model"):
        interval_panel({"a": fit.model}, "x1")


def test_kinds_that_there_are_not():
    with pytest.raises(
        pr.DataError, match="no interval is called 'wold'; there are: t, wald"
    ):
        interval_panel(line(), "x1", kinds=["wold"])
    with pytest.raises(pr.DataError, match=r"such as \['t'\]"):
        interval_panel(line(), "x1", kinds="t")
    with pytest.raises(pr.DataError, match="kinds is empty"):
        interval_panel(line(), "x1", kinds=[])
    with pytest.raises(pr.DataError, match="no interval is called 'a'"):
        interval_panel(line(), "x1", kinds={"a": "t"})


def test_a_coefficient_of_classes_names_its_class():
    x = np.linspace(-1, 1, 30)
    fit = pr.fit(pr.Model.from_arrays(x, np.arange(30) % 3, likelihood="categorical"))
    with pytest.raises(
        pr.DataError, match="there are: Intercept: 1, Intercept: 2, x1: 1"
    ):
        interval_panel(fit, "x1")


@pytest.mark.parametrize(
    ("name", "value"), [("reps", 0), ("n", 2.5), ("workers", -1), ("reps", True)]
)
def test_counts_of_a_simulation(name, value):
    fit = line()
    with pytest.raises(pr.DataError, match=f"{name} is a whole number of at least 1"):
        coverage(fit.model, fit, **{name: value})


def test_a_truth_has_every_parameter():
    fit = line()
    with pytest.raises(pr.DataError, match="the truth lacks sigma"):
        coverage(fit.model, [0.0, 1.0])
    by_name = {"Intercept": 0.0, "x1": 1.0, "sigma": 1.0}
    for truth in (by_name, pr.Truth({"x1": 1.0}, {"sigma": 1.0}), "x1", None):
        with pytest.raises(pr.DataError, match="the truth is coefficients, a Fit"):
            coverage(fit.model, truth)
    with pytest.raises(pr.DataError, match="got a function"):
        coverage(fit.model, lambda row: row["x1"])
    x = np.arange(9.0)
    classes = pr.Model.from_arrays(x, np.arange(9) % 3, likelihood="categorical")
    two = pr.Model.from_arrays(x, np.arange(9) % 2, likelihood="bernoulli")
    for model, other in ((classes, two), (two, classes)):
        with pytest.raises(pr.DataError, match="other columns than the model"):
            coverage(model, pr.fit(other))
    with pytest.raises(pr.DataError, match="expected 1 finite per column"):
        coverage(fit.model, pr.Truth([1.0], {"sigma": 1.0}))
    with pytest.raises(pr.DataError, match="other columns than the model"):
        coverage(
            fit.model,
            pr.ols(np.arange(12.0).reshape(6, 2) ** 2, np.sin(np.arange(6.0))),
        )


def test_intervals_that_no_data_set_can_have():
    fit = yes_no()
    with pytest.raises(pr.Incompatible, match="no degrees of freedom here"):
        coverage(fit.model, fit, kinds=["t"], reps=2)


def test_a_simulation_needs_rows_that_can_be_drawn(tmp_path):
    fit = pr.load_fit(line().save(tmp_path / "fit.nc"))
    with pytest.raises(
        pr.DataError,
        match=r"simulation of responses needs the rows in memory, .*saved without",
    ):
        coverage(fit.model, fit)
    x = np.arange(20.0)
    shares = pr.fit(
        pr.Model.from_arrays(
            x, np.sin(x), weights=pr.weights.sampling(np.linspace(1, 2, 20))
        )
    )
    with pytest.raises(
        pr.Incompatible, match="coverage: sampling weights make a pseudo-likelihood"
    ):
        coverage(shares.model, shares)
