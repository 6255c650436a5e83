"""Estimators of scikit-learn: its own checks, its own estimators as a second way, and its pipelines and searches."""

import importlib
import pickle
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.linear_model import (
    BayesianRidge,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
)
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import probreg as pr
from probreg.likelihoods import Truncated
from probreg.sklearn import Classifier, Regressor, estimator as shared

RNG = np.random.default_rng(17)
X = RNG.normal(size=(60, 3))
ETA = 0.4 + X @ [0.5, -0.8, 0.3]
Y = ETA + 0.5 * RNG.normal(size=60)
COUNTS = RNG.poisson(np.exp(ETA))
TWO = np.where(RNG.random(60) < 1 / (1 + np.exp(-ETA)), "yes", "no")
THREE = np.array(["a", "b", "c"])[RNG.integers(0, 3, 60)]
TIMES = RNG.integers(0, 4, 60)
NEW = RNG.normal(size=(7, 3))

# Their responses of counts are real numbers above 0.
REAL = dict.fromkeys(
    [
        "check_n_features_in_after_fitting",
        "check_regressors_train",
        "check_regressor_data_not_an_array",
        "check_regressors_no_decision_function",
        "check_fit_idempotent",
        "check_fit_check_is_fitted",
        "check_n_features_in",
    ],
    "the check fits numbers that are no counts",
)
NOISE = {"sigma": 1.0}
QUICK = [Regressor(), Classifier()]
FURTHER = [
    Regressor("poisson"),
    Regressor(prior="laplace(1)", aux=NOISE),
    Regressor(prior="normal(1)", aux=NOISE, method="conjugate"),
    Classifier("categorical"),
]


def failing(estimator) -> dict[str, str]:
    """The checks that an estimator may fail, and why."""
    return REAL if estimator.likelihood == "poisson" else {}


@pytest.mark.filterwarnings(
    "ignore::probreg.errors.ProbregWarning"
)  # of 30 columns in 15 rows
@parametrize_with_checks(QUICK, expected_failed_checks=failing)
def test_the_checks_of_scikit_learn_pass(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@parametrize_with_checks(FURTHER, expected_failed_checks=failing)
def test_the_checks_of_scikit_learn_pass_for_further_likelihoods_and_priors(
    estimator, check
):
    check(estimator)


# ---- the same numbers by another way -------------------------------------------------------------------------------


def test_coefficients_are_those_of_scikit_learn_where_the_models_are_the_same():
    pairs = [
        (Regressor(), LinearRegression(), Y, 1e-10),
        (
            Regressor("poisson"),
            PoissonRegressor(alpha=0.0, tol=1e-10, max_iter=1000),
            COUNTS,
            1e-5,
        ),
        (
            Classifier(prior="flat"),
            LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000),
            TWO,
            1e-5,
        ),
        # -log p = |beta|^2 / (2 s^2) and |beta|^2 / (2 C): C = s^2
        (
            Classifier(prior="normal(0.7)"),
            LogisticRegression(C=0.49, tol=1e-10, max_iter=1000),
            TWO,
            1e-5,
        ),
        (
            Classifier(prior="normal(0.7)", fit_intercept=False),
            LogisticRegression(C=0.49, tol=1e-10, fit_intercept=False),
            TWO,
            1e-5,
        ),
        (
            Classifier(prior="flat"),
            LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000),
            THREE,
            1e-4,
        ),
        (
            Classifier(prior="normal(0.7)"),
            LogisticRegression(C=0.49, tol=1e-10, max_iter=1000),
            THREE,
            1e-4,
        ),
    ]
    for ours, theirs, y, tol in pairs:
        a, b = ours.fit(X, y), theirs.fit(X, y)
        assert a.coef_.shape == b.coef_.shape
        np.testing.assert_allclose(a.coef_, b.coef_, rtol=tol, atol=tol)
        # softmax: a constant added to every class is nothing, and solvers differ in it
        gap = a.intercept_ - b.intercept_
        np.testing.assert_allclose(
            gap - np.mean(gap) * (np.size(gap) > 1), 0.0, atol=tol
        )
        np.testing.assert_allclose(
            a.score(X, y), b.score(X, y), atol=1e-6
        ) if ours.likelihood != "poisson" else None
    np.testing.assert_allclose(a.predict_proba(NEW), b.predict_proba(NEW), atol=1e-4)


def test_whole_weights_are_repeated_rows_and_other_weights_say_what_they_are():
    for estimator, y in (
        (Regressor(), Y),
        (Regressor("poisson"), COUNTS),
        (Classifier(), TWO),
        (Classifier(), THREE),
    ):
        weighted = clone(estimator).fit(X, y, sample_weight=TIMES)
        repeated = clone(estimator).fit(np.repeat(X, TIMES, 0), np.repeat(y, TIMES))
        np.testing.assert_allclose(
            weighted.coef_, repeated.coef_, rtol=1e-8, atol=1e-10
        )
    w = TIMES + 0.5
    with pytest.raises(
        pr.DataError,
        match=r"the weight of row 0 is [\d.]+, and plain weights are frequencies.*precision",
    ):
        Regressor().fit(X, Y, sample_weight=w)
    with pytest.raises(
        pr.DataError,
        match="weights is 'frequency', 'precision' or 'sampling', got 'inverse'",
    ):
        Regressor(weights="inverse").fit(X, Y)
    theirs = LinearRegression().fit(X, Y, sample_weight=w).coef_
    for kind in ("precision", "sampling"):
        np.testing.assert_allclose(
            Regressor(weights=kind).fit(X, Y, sample_weight=w).coef_, theirs, rtol=1e-9
        )
    found = Classifier(prior="flat", weights="sampling").fit(X, TWO, sample_weight=w)
    theirs = LogisticRegression(C=np.inf, tol=1e-10).fit(X, TWO, sample_weight=w)
    np.testing.assert_allclose(
        found.predict_proba(NEW), theirs.predict_proba(NEW), atol=1e-5
    )


def test_the_standard_deviation_is_that_of_a_new_observation():
    import statsmodels.api as sm

    ols = (
        sm.OLS(Y, sm.add_constant(X))
        .fit()
        .get_prediction(sm.add_constant(NEW, has_constant="add"))
    )
    mean, sd = Regressor().fit(X, Y).predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, ols.predicted_mean, rtol=1e-10)
    np.testing.assert_allclose(sd, ols.se_obs, rtol=1e-10)
    bayes = BayesianRidge(fit_intercept=False).fit(X, Y)
    known = Regressor(
        prior=pr.Normal(bayes.lambda_**-0.5),
        aux={"sigma": bayes.alpha_**-0.5},
        fit_intercept=False,
        method="conjugate",
    ).fit(X, Y)
    for ours, theirs in zip(
        known.predict(NEW, return_std=True), bayes.predict(NEW, return_std=True)
    ):
        # alpha_ and lambda_ moved once more after the coefficients
        np.testing.assert_allclose(ours, theirs, rtol=1e-3)


def test_the_standard_deviation_of_counts_and_of_posteriors_is_that_of_their_draws():
    found = Regressor("poisson").fit(X, COUNTS)
    mean, sd = found.predict(NEW, return_std=True)
    V = found.fit_.covariance().values
    rows = np.column_stack([np.ones(7), NEW])
    # Var(y) = mu + mu^2 x'Vx
    np.testing.assert_allclose(
        sd**2, mean + mean**2 * np.einsum("ij,jk,ik->i", rows, V, rows), rtol=1e-8
    )
    held = Regressor("negative_binomial", aux={"alpha": 0.5}).fit(X, COUNTS)
    mean, sd = held.predict(NEW, return_std=True)
    V = held.fit_.covariance().values
    # Var(y) = mu + alpha mu^2 + mu^2 x'Vx
    np.testing.assert_allclose(
        sd**2,
        mean + mean**2 * (0.5 + np.einsum("ij,jk,ik->i", rows, V, rows)),
        rtol=1e-8,
    )
    for estimator, y, rtol in (
        (
            Regressor(method="conjugate"),
            Y[:11],
            0.1,
        ),  # Student-t with 7 degrees of freedom
        (Regressor("poisson", method="laplace"), COUNTS, 0.05),
        (Regressor(pr.StudentT(nu=5.0), method="laplace"), Y, 0.1),
    ):
        fitted = estimator.fit(X[: len(y)], y)
        draws = fitted.fit_.predictive(NEW).sample(np.random.default_rng(0), 40_000)
        mean, sd = fitted.predict(NEW, return_std=True)
        np.testing.assert_allclose(sd, draws.std(0), rtol=rtol)
        np.testing.assert_allclose(mean, draws.mean(0), atol=0.05 * sd.max())


def test_rows_that_go_by_blocks_are_all_rows_and_few_degrees_of_freedom_have_no_variance(
    monkeypatch,
):
    found = Regressor("poisson", prior="normal(1)", method="laplace").fit(X, COUNTS)
    whole = found.predict(NEW, return_std=True)
    mu = np.exp(
        np.column_stack([np.ones(7), NEW])
        @ found.fit_.solution.draws.flat["beta"][:, :, 0].T
    )
    # Var(y) = E[mu] + Var(mu) over the draws
    np.testing.assert_allclose(whole[1] ** 2, mu.mean(1) + mu.var(1), rtol=1e-10)
    # three rows at once
    monkeypatch.setattr(
        shared, "_DRAWS_TIMES_ROWS", 3 * found.fit_.solution.draws.count
    )
    for a, b in zip(found.predict(NEW, return_std=True), whole):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    few = Regressor(method="conjugate").fit(X[:6], Y[:6])  # Student-t with 2
    assert np.isposinf(few.predict(NEW, return_std=True)[1]).all()


def test_probabilities_are_of_the_draws_and_keep_their_logarithms():
    mode, posterior = (
        Classifier().fit(X, TWO),
        Classifier(method="laplace", seed=3).fit(X, TWO),
    )
    draws = posterior.fit_.solution.draws.flat["beta"][:, :, 0]
    eta = np.column_stack([np.ones(7), NEW]) @ draws.T
    np.testing.assert_allclose(
        posterior.predict_proba(NEW)[:, 1], (1 / (1 + np.exp(-eta))).mean(1), rtol=1e-10
    )
    again = clone(posterior).fit(X, TWO)
    np.testing.assert_array_equal(
        again.predict_proba(NEW), posterior.predict_proba(NEW)
    )
    far = mode.predict_log_proba(1e4 * X[:3])
    assert np.isfinite(far).all()
    assert far.min() < -1000
    for found in (mode, posterior, Classifier().fit(X, THREE)):
        np.testing.assert_allclose(
            np.exp(found.predict_log_proba(NEW)), found.predict_proba(NEW), rtol=1e-10
        )
        np.testing.assert_array_equal(
            found.predict(NEW), found.classes_[found.predict_proba(NEW).argmax(1)]
        )


def test_decision_functions_are_the_scores_of_logistic_regression():
    for y in (TWO, THREE):
        found = Classifier(prior="normal(0.7)").fit(X, y)
        theirs = LogisticRegression(C=0.49, tol=1e-10, max_iter=1000).fit(X, y)
        scores = found.decision_function(NEW)
        np.testing.assert_allclose(scores, theirs.decision_function(NEW), atol=1e-5)


@pytest.mark.parametrize(
    ("y", "likelihood", "declared"),
    [
        (TWO, pr.Bernoulli(levels=("no", "yes")), pr.Bernoulli(levels=("yes", "no"))),
        (TWO == "yes", "bernoulli", pr.Bernoulli(levels=(True, False))),
        (THREE, "categorical", pr.Categorical(levels=("c", "a", "b"))),
    ],
)
def test_columns_follow_classes_whatever_the_order_of_the_levels(y, likelihood, declared):  # fmt: skip
    one, other = (Classifier(k, prior="flat").fit(X, y) for k in (likelihood, declared))
    np.testing.assert_array_equal(other.classes_, np.unique(y))
    for name in ("predict_proba", "predict_log_proba", "decision_function"):
        np.testing.assert_allclose(
            getattr(other, name)(NEW), getattr(one, name)(NEW), atol=1e-6
        )
    assert other.score(X, y) == one.score(X, y)


def test_columns_of_ordered_classes_follow_classes():
    y = np.array(["low", "mid", "high"])[np.digitize(ETA, [-0.5, 0.8])]
    likelihood = pr.Ordinal(levels=("low", "mid", "high"))
    found = Classifier(likelihood, prior="normal(1)").fit(X, y)
    chance = found.fit_.predict(NEW)["mean"]
    for k, level in enumerate(found.classes_):
        np.testing.assert_allclose(
            found.predict_proba(NEW)[:, k], chance.sel(level=level)
        )


# ---- what is refused -----------------------------------------------------------------------------------------------


def test_separated_classes_have_an_estimate_by_default_and_none_without_a_prior():
    x, y = np.arange(6.0)[:, None], [0, 0, 0, 1, 1, 1]
    assert 0 < Classifier().fit(x, y).coef_[0, 0] < 10
    with pytest.warns(pr.ProbregWarning, match="complete separation"):
        flat = Classifier(prior="flat").fit(x, y)
    assert np.isnan(flat.coef_).all()
    for ask in (flat.predict, flat.predict_proba, flat.predict_log_proba):
        with pytest.raises(
            pr.NotConverged, match="no maximum likelihood estimate exists"
        ):
            ask(x)


def test_what_no_estimate_can_say_is_refused():
    doubled = np.column_stack([X, X[:, 0]])
    with pytest.warns(pr.ProbregWarning, match="combinations of others"):
        found = Regressor().fit(doubled, Y)
    np.testing.assert_allclose(
        found.predict(doubled), Regressor().fit(X, Y).predict(X), rtol=1e-9
    )
    new = np.column_stack([NEW, np.ones(7)])
    with pytest.warns(
        pr.ProbregWarning,
        match=r"7 of 7 rows have no unique prediction \(rows 0, 1, 2, 3, 4 \.\.\., ",
    ):
        mean = found.predict(new)
    # A⁺y, the least squares of least norm
    least = np.linalg.pinv(np.column_stack([np.ones(60), doubled])) @ Y
    np.testing.assert_allclose([found.intercept_, *found.coef_], least, rtol=1e-8)
    np.testing.assert_allclose(
        mean, np.column_stack([np.ones(7), new]) @ least, rtol=1e-8
    )
    with pytest.raises(
        pr.Incompatible, match="7 of 7 rows have no estimate of their mean"
    ):
        found.predict(new, return_std=True)
    with pytest.raises(pr.Incompatible, match=r"no standard error.*'nuts'"):
        Regressor(prior="laplace(1)", aux=NOISE).fit(X, Y).predict(X, return_std=True)
    weighted = Regressor(weights="sampling").fit(X, Y, sample_weight=TIMES + 0.5)
    with pytest.raises(
        pr.Incompatible,
        match="standard deviation of a new observation: sampling weights",
    ):
        weighted.predict(X, return_std=True)
    shortened = Regressor(Truncated(lower=0.0)).fit(X, COUNTS)
    with pytest.raises(pr.Incompatible, match=r"truncated poisson .* no formula"):
        shortened.predict(X, return_std=True)


@pytest.mark.parametrize(
    ("estimator", "y", "error", "words"),
    [
        (
            Regressor("bernoulli"),
            TWO == "yes",
            pr.Incompatible,
            "bernoulli is a likelihood of classes.*Classifier",
        ),
        (
            Classifier("poisson"),
            COUNTS,
            pr.Incompatible,
            "one class per row, such as bernoulli, got poisson",
        ),
        (Classifier("binomial"), TWO, pr.Incompatible, "one class per row"),
        (Classifier("bernoulli"), THREE, pr.DataError, "has 3 levels"),
        (
            Classifier(),
            ["a"] * 60,
            pr.DataError,
            "two or more classes; the rows hold 1 class, 'a'",
        ),
        (Regressor(prior="nromal(1)"), Y, pr.ProbregError, "nromal"),
        (Regressor(prior={"z": "normal(1)"}), Y, pr.DataError, "z"),
        (Regressor(method="newtno"), Y, pr.ProbregError, "newtno"),
        (Regressor(fit_intercept=1), Y, pr.DataError, "intercept is True or False"),
        (Regressor("poisson"), Y, pr.DataError, "row 0 holds"),
        (Regressor(aux=np.ones(3)), Y, pr.DataError, "aux is a mapping"),
        (Regressor(weights=np.ones(3)), Y, pr.DataError, "weights is"),
        (Classifier(weights="precision"), TWO, pr.DataError, "weights is"),
    ],
)
def test_wrong_parameters_are_refused_in_fit(estimator, y, error, words):
    with pytest.raises(error, match=words):
        estimator.fit(X, y)


# ---- pipelines and searches ----------------------------------------------------------------------------------------


def test_tables_pipelines_searches_clones_and_pickles():
    table = pd.DataFrame(X, columns=["age", "dose", "weight"])
    steps = make_pipeline(StandardScaler(), Classifier()).set_output(transform="pandas")
    found = steps.fit(table, pd.Series(TWO, name="cured"))[-1]
    assert found.feature_names_in_.tolist() == ["age", "dose", "weight"]
    assert found.fit_.coef.coords["coef"].values.tolist() == [
        "Intercept",
        "age",
        "dose",
        "weight",
    ]
    assert "P(cured = yes)" in repr(found.fit_.model)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(steps)).predict_proba(table),
        steps.predict_proba(table),
    )
    search = GridSearchCV(
        steps,
        {"classifier__prior": ["flat", "normal(0.1)", "age=normal(1)", pr.Normal(2.0)]},
        cv=3,
    )
    search.fit(table, TWO)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    scores = cross_val_score(Regressor("student(4)"), X, Y, cv=4)
    assert scores.min() > 0.3
    with pytest.raises(ValueError, match="feature names"):
        found.predict(table.rename(columns={"age": "years"}))


@pytest.mark.parametrize("name", ["C", "penalty", "class_weight"])
def test_parameters_of_other_estimators_are_answered(name):
    with pytest.raises(pr.Incompatible, match=f"Classifier takes no {name}=: use "):
        Classifier(**{name: 1.0})
    search = GridSearchCV(make_pipeline(Classifier()), {f"classifier__{name}": [1.0]})
    with pytest.raises(pr.Incompatible, match=f"Classifier takes no {name}=: use "):
        search.fit(X, TWO)


def test_without_scikit_learn_the_error_names_the_extra(monkeypatch):
    for name in [
        name
        for name in sys.modules
        if name.partition(".")[0] == "sklearn" or name.startswith("probreg.sklearn")
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        ImportError,
        match=r"^probreg.sklearn needs scikit-learn: pip install scikit-learn$",
    ):
        importlib.import_module("probreg.sklearn")


@pytest.mark.parametrize("estimator", [Classifier, Regressor])
def test_what_is_no_likelihood(estimator):
    with pytest.raises(pr.Incompatible, match=r"likelihood is .* got None"):
        estimator(likelihood=None).fit([[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1])
