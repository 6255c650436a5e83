"""Stochastic gradients and the perceptron given what they cannot use: each says what was met and what would do."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference import LMS, SGD, Perceptron, Status

RNG = np.random.default_rng(3)
X = RNG.normal(size=(80, 2))
Y = 1.0 + X @ [0.5, -1.0] + RNG.normal(size=80)
GAUSSIAN = pr.Model.from_arrays(X, Y)
BERNOULLI = pr.Model.from_arrays(X, (Y > 1).astype(int), likelihood="bernoulli")


@pytest.mark.parametrize("method", [SGD, LMS])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rate": 0.0}, r"rate is a positive finite number, got 0\.0"),
        ({"rate": -1.0}, "rate is a positive finite number, got -1"),
        ({"rate": float("nan")}, "rate is a positive finite number, got nan"),
        ({"rate": "fast"}, "rate is a positive finite number, got 'fast'"),
        ({"tol": 0.0}, "tol is a positive finite number"),
        ({"epochs": 0}, "epochs is a whole number of at least 1, got 0"),
        ({"epochs": 2.5}, r"epochs is a whole number of at least 1, got 2\.5"),
    ],
)
def test_settings_that_mean_nothing(method, settings, message):
    with pytest.raises(pr.DataError, match=message):
        method(**settings)


def test_a_batch_is_a_number_of_rows():
    for batch in (0, -3, 1.5):
        with pytest.raises(pr.DataError, match="batch is a whole number of at least 1"):
            SGD(batch=batch)
    whole = pr.fit(GAUSSIAN, SGD(batch=10_000))  # all rows there are: gradient descent
    assert whole.solution.status is Status.CONVERGED


def test_a_step_past_its_row_is_refused_by_lms():
    with pytest.raises(pr.DataError, match=r"rate=2 overshoots.*1 or less"):
        LMS(rate=2.0)


@pytest.mark.parametrize(
    "settings",
    [{"rate": 300.0}, {"rate": 300.0, "batch": 1}, {"rate": 30.0, "batch": 80}],
)
def test_steps_that_grow_without_end_name_the_rate_that_would_do(settings):
    with pytest.raises(
        pr.NotConverged, match=r"sgd with rate=.* diverged.*rate=0\.5 would do"
    ) as caught:
        pr.fit(GAUSSIAN, SGD(**settings))
    rate = float(str(caught.value).split("rate=")[2].split(" ")[0])
    assert (
        pr.fit(GAUSSIAN, SGD(**(settings | {"rate": rate}))).solution.status
        is Status.CONVERGED
    )


def test_a_small_budget_says_how_far_the_maximum_is():
    with pytest.warns(
        pr.ProbregWarning,
        match=r"short of the maximum \(after 2 passes",
    ):
        fit = pr.fit(BERNOULLI, SGD(epochs=2))
    assert fit.solution.status is Status.SHORT
    assert not fit.solution.status.good
    assert (
        f"{fit.solution.stats['distance']:.2g} standard errors"
        in fit.described["status"]
    )
    with pytest.raises(pr.NotConverged, match="short of the maximum"):
        pr.fit(BERNOULLI, SGD(epochs=2), strict=True)


def test_priors_and_likelihoods_without_the_gradient_it_needs():
    with pytest.raises(
        pr.Incompatible,
        match="sgd needs flat or normal priors, and this model has: laplace",
    ):
        pr.fit(BERNOULLI.with_prior(pr.Laplace(1.0)), "sgd")
    with pytest.raises(
        pr.Incompatible,
        match="lms needs a Gaussian likelihood, and bernoulli is not one",
    ):
        pr.fit(BERNOULLI, "lms")
    with pytest.raises(
        pr.Incompatible,
        match=r"sgd .*uniform prior of sigma has bounded support",
    ):
        pr.fit(GAUSSIAN.with_aux(sigma=pr.priors.Uniform(0.1, 3.0)), "sgd")


def test_a_likelihood_that_is_not_smooth_is_refused():
    class Rough(pr.likelihoods.UnivariateLikelihood):
        name = "rough"

    Rough.__abstractmethods__ = frozenset()
    model = pr.Model(GAUSSIAN.design, Rough())
    assert (
        SGD().obstacle(model) == "sgd needs a smooth likelihood, and rough is not one"
    )


def test_a_perceptron_is_a_classifier_of_two_classes_and_has_no_prior():
    with pytest.raises(pr.DataError, match="epochs is a whole number"):
        Perceptron(epochs=0)
    with pytest.raises(
        pr.Incompatible, match="perceptron needs a Bernoulli likelihood"
    ):
        pr.fit(GAUSSIAN, "perceptron")
    with pytest.raises(pr.Incompatible, match="prior"):
        pr.fit(BERNOULLI.with_prior(pr.Normal(1.0)), "perceptron")
    offset = pr.Model.from_arrays(
        X, (Y > 1).astype(int), likelihood="bernoulli", offset=np.ones(80)
    )
    with pytest.raises(pr.Incompatible, match="has an offset"):
        pr.fit(offset, "perceptron")


@pytest.mark.filterwarnings("ignore:perceptron")
def test_a_perceptron_has_no_probabilities():
    fit = pr.fit(BERNOULLI, Perceptron(epochs=5))
    for ask in (fit.predict, fit.predictive, lambda: fit.log_likelihood):
        with pytest.raises(
            pr.Incompatible, match=r"no probabilities: np\.sign\(X @ coef\) classifies"
        ):
            ask()


@pytest.mark.parametrize("method", ["sgd", "lms", "perceptron"])
def test_without_rows_there_is_nothing_to_go_through(method, tmp_path):
    model = BERNOULLI if method == "perceptron" else GAUSSIAN
    saved = pr.load_fit(pr.fit(model, "newton").save(tmp_path / "m.nc"))
    with pytest.raises(
        pr.DataError, match=r"saved without its rows.*save\(rows=True\)"
    ):
        pr.fit(saved.model, method)
