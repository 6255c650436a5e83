"""Arguments that nothing would use, and arguments that contradict each other, raise errors that name them."""

import re

import numpy as np
import pytest

import probreg as pr

RNG = np.random.default_rng(0)
X = RNG.normal(size=40)
ROWS = {"y": X + RNG.normal(size=40), "x": X, "g": np.repeat(list("abcdefgh"), 5), "c": np.tile(["no", "yes"], 20)}  # fmt: skip
NEW = {"y": RNG.normal(size=20), "x": RNG.normal(size=20)}


@pytest.fixture(scope="module")
def fit():
    return pr.fit(pr.Model.from_formula("y ~ x", ROWS))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("HC0", {"data": ROWS}),
        ("HAC", {"data": ROWS}),
        ("HC0", {"small_sample": "none"}),
        (None, {"small_sample": "none"}),
    ],
)
def test_settings_of_a_covariance(fit, kind, settings):
    (name,) = settings
    with pytest.raises(pr.DataError, match=f"{name}="):
        fit.covariance(kind, **settings)


def test_data_of_a_test(fit):
    with pytest.raises(pr.DataError, match="data= is a setting of"):
        pr.hypothesis(fit, "x = 0", covariance="HC0", data=ROWS)
    with pytest.raises(pr.DataError, match="data="):
        fit.spread(data=ROWS)


@pytest.mark.parametrize("covariance", ["HC0", "HAC"])
def test_data_of_effects_go_with_any_covariance(fit, covariance):
    for average_over in ("sample", "population"):
        effects = pr.predictions(
            fit, data=ROWS, covariance=covariance, average_over=average_over
        )
        assert covariance in str(effects)


@pytest.mark.parametrize(
    ("likelihood", "choice"),
    [
        (pr.Bernoulli(levels=("yes", "no")), {"event": "yes"}),
        (pr.Categorical(reference="no"), {"reference": "yes"}),
    ],
)
def test_a_level_stated_twice(likelihood, choice):
    (name,) = choice
    with pytest.raises(pr.DataError, match=f"{name}='yes' contradicts"):
        pr.Model.from_formula("c ~ x", ROWS, likelihood=likelihood, **choice)
    same = pr.Model.from_formula("c ~ x", ROWS, likelihood=likelihood, **{name: "no"})
    assert same.likelihood == pr.Model.from_formula("c ~ x", ROWS, likelihood=likelihood).likelihood  # fmt: skip


@pytest.mark.parametrize("kind", [pr.Split(share=0.7), pr.Split(seed=1)])
def test_a_split_of_unused_rows(fit, kind):
    with pytest.raises(pr.DataError, match="share= and seed="):
        pr.conformal(fit, NEW, prob=0.8, kind=kind)


def test_rows_of_a_hold_out_bound(fit):
    with pytest.raises(pr.DataError, match="holdout="):
        pr.guarantee(fit, (-9.0, 9.0), data=NEW, holdout=0.3)
    with pytest.raises(pr.DataError, match="y= needs data="):
        pr.guarantee(fit, (-9.0, 9.0), y=NEW["y"])


def test_draws_of_no_prior(fit):
    with pytest.raises(pr.DataError, match="prior_draws="):
        fit.inference_data(prior_draws=10)
    proper = pr.fit(fit.model.with_prior(pr.Normal(1.0)).with_aux(sigma=1.0))
    with pytest.raises(pr.DataError, match=r"draws is a whole number .*, got 0"):
        proper.inference_data(prior=True, prior_draws=0)


@pytest.mark.parametrize("option", [{"predict": NEW}, {"effects": "x"}, {"data": ROWS}])
def test_sections_left_out_of_a_report(fit, tmp_path, option):
    (name,) = option
    with pytest.raises(pr.DataError, match=f"{name}= is for the section"):
        pr.report(fit, tmp_path / "page.html", sections="method", **option)


@pytest.mark.parametrize("name", ["y", "c"])
def test_medians_of_a_table(name):
    with pytest.raises(pr.DataError, match=f"median='{name}'"):
        pr.table_one(ROWS, ["x", "c"], median=["x", name])


def test_trials_of_a_linear_probability():
    with pytest.raises(pr.Incompatible, match="trials="):
        pr.linear_probability(X[:, None], np.full(40, 2), trials=np.full(40, 5))


def test_a_level_stated_twice_as_text_and_number():
    rows = {"y": [1, 2, 1, 2, 2], "x": [0.0, 1.0, 2.0, 3.0, 4.0]}
    numbers = pr.Bernoulli(levels=(2, 1))
    model = pr.Model.from_formula("y ~ x", rows, likelihood=numbers, event="1")
    assert model.likelihood.levels == (2, 1)


# ---- pictures ------------------------------------------------------------------------------------------------------

OTHER = ROWS | {"x": X + 3.0}


@pytest.mark.parametrize(
    "draw",
    [
        lambda fit, data: pr.plot.fitted(fit, data=data),
        lambda fit, data: pr.plot.effects(fit, condition="x", data=data),
        lambda fit, data: pr.plot.survival(fit, data=data),
        lambda fit, data: pr.plot.survival(fit, "g", data=data),
    ],
)
@pytest.mark.parametrize("arrays", [False, True])
def test_a_picture_refuses_a_table_that_is_not_that_of_the_fit(fit, draw, arrays):
    if arrays:
        model = pr.Model.from_arrays(X[:, None], ROWS["y"], columns=["x"])
        fit = pr.fit(model)
    few = {name: values[:3] for name, values in ROWS.items()}
    with pytest.raises(pr.DataError, match="data= is not the table of the fit"):
        draw(fit, OTHER)
    with pytest.raises(pr.DataError, match="not the rows that the model was fitted to"):
        draw(fit, few)


def test_fits_of_different_responses_have_no_common_picture(fit):
    second = pr.fit(pr.Model.from_formula("z ~ x", ROWS | {"z": X**2}))
    with pytest.raises(pr.DataError, match="different responses, y, z"):
        pr.plot.fitted({"a": fit, "b": second})


def test_each_fit_is_drawn_over_its_own_rows(fit):
    few = {name: values[:4:-1] for name, values in ROWS.items()}
    second = pr.fit(pr.Model.from_formula("y ~ x", few))
    picture = pr.plot.fitted({"a": fit, "b": second})
    for ax, data in zip(picture.axes, (ROWS, few)):
        (points,) = (c for c in ax.collections if len(c.get_offsets()) > 1)
        np.testing.assert_array_equal(
            points.get_offsets(), np.column_stack([data["x"], data["y"]])
        )


def test_the_event_of_a_reliability_diagram():
    event = (X > 0).astype(int)
    p = 1 / (1 + np.exp(-X))
    fit = pr.logistic(X[:, None], event, prior="normal(1)")
    with pytest.raises(pr.DataError, match="event"):
        pr.plot.reliability(fit, event="rain")
    with pytest.raises(pr.DataError, match="event= names"):
        pr.plot.reliability(event, np.column_stack([1 - p, p]), event="rain")


@pytest.mark.parametrize("chosen", [1e-9, 1e9, -1.0, "one"])
def test_a_chosen_scale_is_on_the_path(chosen):
    model = pr.Model.from_formula("y ~ x", ROWS, prior="normal(1)")
    with pytest.raises(pr.DataError, match="chosen"):
        pr.plot.path(pr.path(model, n=5), chosen)


def test_a_kaplan_meier_estimate_of_very_many_rows():
    rows = ROWS | {"w": np.full(40, 30_000)}
    fit = pr.fit(pr.Model.from_formula("y ~ x", rows, weights="w"))
    with pytest.raises(pr.Incompatible, match="1,200,000 observations"):
        pr.plot.survival(fit)


# ---- kernels, blocks and likelihoods -------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", ["hsgp", "nonsense"])
def test_the_basis_of_a_linear_machine(basis):
    for x, data in (("y ~ x", ROWS), (X[:, None], ROWS["y"])):
        with pytest.raises(pr.Incompatible, match="basis="):
            pr.svr(x, data, kernel="linear", C=1.0, epsilon=0.1, basis=basis)


@pytest.mark.parametrize("option", [{"response": "q"}, {"columns": ["a"]}])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_names_of_a_machine_by_a_formula(kernel, option):
    (name,) = option
    with pytest.raises(pr.Incompatible, match=f"svr takes no {name}="):
        pr.svr("y ~ x", ROWS, kernel=kernel, C=1.0, epsilon=0.1, **option)


@pytest.mark.parametrize("kind", [pr.weights.precision, pr.weights.sampling])
def test_weights_that_blocks_do_not_have(kind):
    with pytest.raises(pr.DataError, match="weights= declares"):
        pr.Model.from_blocks([(X[:, None], ROWS["y"])], weights=kind)


def test_settings_of_other_types():
    with pytest.raises(pr.DataError, match="others= is a mapping"):
        pr.priors.GaussianProcess(others=3)
    with pytest.raises(pr.DataError, match="link is 'identity'"):
        pr.Gaussian(link=np.ones(3))


def test_the_bound_of_a_censored_fit_without_rows(tmp_path):
    rows = ROWS | {"t": np.exp(ROWS["y"]), "e": X < 1.0}
    model = pr.Model.from_formula("cens(t, e) ~ x", rows, likelihood="weibull")
    loaded = pr.load_fit(pr.fit(model).save(tmp_path / "fit.nc"))
    with pytest.raises(pr.DataError, match="saved without its rows"):
        pr.guarantee(loaded, (0.0, 99.0))


@pytest.mark.parametrize("name", ["Censored", "Truncated"])
def test_a_base_that_an_error_proposes_is_one(name):
    make = getattr(pr.likelihoods, name)
    with pytest.raises(pr.Incompatible) as error:
        make(pr.Bernoulli())
    proposed = re.findall(r"(\w+)\(\)", str(error.value).partition("such as")[2])
    assert proposed
    for base in proposed:
        make(getattr(pr.likelihoods, base)())
