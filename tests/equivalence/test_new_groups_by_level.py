"""`groups=` for each grouping factor: a new class of a known school has the joint normal distribution of the model."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.errors import DataError

NEW_CLASS = {"s": "known", "s:c": "new"}


def schools():
    rn = np.random.default_rng(14)
    s, c = np.repeat(np.arange(12), 6), np.tile(np.repeat([0, 1], 3), 12)
    y = 5 + rn.normal(0, 2, 12)[s] + rn.normal(0, 1, 24)[2 * s + c] + rn.normal(size=72)
    x = rn.normal(size=72)
    return pd.DataFrame(
        {"y": y + 0.5 * x, "x": x, "s": [f"s{v}" for v in s], "c": [f"c{v}" for v in c]}
    )


ROW = pd.DataFrame({"x": [0.0], "s": ["s1"], "c": ["new"]})


@pytest.fixture(scope="module")
def fit():
    return pr.fit(pr.Model.from_formula("y ~ x + (1 | s / c)", schools()))


@pytest.mark.parametrize(
    "groups", [NEW_CLASS, "new", {"(1 | s)": "known", "s : c": "new"}]
)
def test_a_new_class_of_a_known_school(fit, groups):
    found = fit.predict(ROW, groups=groups)
    assert round(float(found["mean"][0]), 4) == 3.3636
    assert round(float(found["mean_std_error"][0]), 4) == 1.2856
    # the joint normal distribution of the school's effect, the intercept and a class like the others
    sd = fit.solution.effect_scales.values["sd(Intercept | s:c)"]
    place = [
        fit.model.design.columns.index(name)
        for name in ("Intercept", "(1 | s)[s1, Intercept]")
    ]
    V = fit.solution.covariance.matrix()[np.ix_(place, place)]
    assert float(found["mean_std_error"][0]) == pytest.approx(
        np.sqrt(V.sum() + sd**2), rel=1e-6
    )


def test_rows_without_a_column_of_classes_are_of_new_classes(fit):
    found = fit.predict(ROW.drop(columns="c"), groups=NEW_CLASS)
    assert float(found["mean"][0]) == pytest.approx(
        float(fit.predict(ROW, groups=NEW_CLASS)["mean"][0])
    )


def test_averages_and_draws_agree_with_the_prediction(fit):
    expected = fit.predict(ROW, groups=NEW_CLASS)
    mean = pr.predictions(fit, data=ROW, groups=NEW_CLASS)
    assert float(mean.table["estimate"][0]) == pytest.approx(float(expected["mean"][0]))
    assert float(mean.table["std_error"][0]) == pytest.approx(
        float(expected["mean_std_error"][0]), rel=1e-6
    )
    slope = pr.slopes(fit, "x", data=ROW, groups=NEW_CLASS)
    assert float(slope.table["estimate"][0]) == pytest.approx(
        float(fit.coef.sel(coef="x"))
    )


def test_new_schools_are_as_before(fit):
    stranger = pd.DataFrame({"x": [0.0], "s": ["other"], "c": ["new"]})
    found = fit.predict(stranger, groups="new")
    assert round(float(found["mean"][0]), 4) == 4.8131
    assert round(float(found["mean_std_error"][0]), 4) == 3.4726
    # of known groups alone: all are new
    known = fit.predict(ROW.assign(c="c0"), groups="new")
    assert float(known["mean"][0]) == pytest.approx(float(found["mean"][0]))


@pytest.mark.parametrize(
    "groups", [{"s": "new"}, {"q": "new"}, {"s": "other"}, {"s:c": "known"}, None]
)
def test_what_is_not_known_is_refused(fit, groups):
    with pytest.raises(DataError):
        fit.predict(ROW, groups=groups)


# the Laplace approximation misplaces the nuisance parameters of so few rows
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize(
    "likelihood",
    ["poisson", "bernoulli", "categorical", "negative_binomial", "student"],
)
def test_the_spread_of_a_new_class_lies_between_known_and_new_schools(likelihood):
    data, rng = schools(), np.random.default_rng(0)
    eta = 0.4 * (data["y"] - 5)
    responses = {
        "poisson": rng.poisson(np.exp(eta)),
        "bernoulli": (eta + rng.logistic(size=72) > 0) * 1,
        "categorical": np.array(list("abc"))[
            (np.c_[0 * eta, eta, -eta] + rng.gumbel(size=(72, 3))).argmax(1)
        ],
        "negative_binomial": rng.poisson(np.exp(eta) * rng.gamma(2, 0.5, size=72)),
        "student": eta + 0.3 * rng.standard_t(4, size=72),
    }
    # scales that are stated, so that every level has a variance
    prior = {"(1 | s)": pr.Normal(0.9), "(1 | s:c)": pr.Normal(0.5)}
    aux = {"alpha": pr.HalfNormal(1.0)} if likelihood == "negative_binomial" else {}
    model = pr.Model.from_formula(
        "y ~ x + (1 | s / c)",
        data.assign(y=responses[likelihood]),
        likelihood=likelihood,
        prior=prior,
        aux=aux,
    )
    fit = pr.fit(model, "laplace", seed=1)
    eta = {
        name: fit.predictive(
            ROW.assign(c="c0" if name == "known" else "new"), groups=groups
        ).eta[:, 0, 0]
        for name, groups in {
            "known": "known",
            "class": NEW_CLASS,
            "school": {"s": "new", "s:c": "new"},
        }.items()
    }
    sd = {name: float(np.std(v)) for name, v in eta.items()}
    assert sd["known"] < sd["school"]
    assert sd["class"] < sd["school"]
    # the effect of the new class is independent of the rest and has the stated sd
    both = fit.predictive(ROW, groups={"s": "known", "s:c": "typical"}).eta[:, 0, 0]
    assert sd["class"] ** 2 - np.var(both) == pytest.approx(0.25, abs=0.06)
