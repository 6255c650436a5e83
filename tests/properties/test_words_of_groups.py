"""What is said of fits with effects by group, on data that would make it false."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.diagnostics.before.collinearity import CollinearityCheck
from probreg.errors import DataError, Incompatible
from probreg.fits.goodness import estimate_name
from probreg.inference import Status
from probreg.show.report.answer import answer

SLEEP = pr.load_dataset("sleepstudy")
FORMULA = "reaction ~ days + (days | subject)"


@pytest.fixture(scope="module")
def fits():
    model = pr.Model.from_formula(FORMULA, SLEEP)
    return {c: pr.fit(model, pr.Evidence(criterion=c)) for c in ("ML", "REML")}


def test_estimates_are_called_by_their_criterion(fits):
    assert [estimate_name(f) for f in fits.values()] == [
        "maximum likelihood",
        "restricted maximum likelihood",
    ]


def test_names_of_groups_have_no_effect_to_answer(fits):
    found = answer(fits["REML"], None, data=None, prob=0.95)
    assert len(found.effects) == 1
    assert not found.remarks


def test_collinearity_is_of_the_columns_without_group_effects(fits):
    model = fits["REML"].stated_model
    assert not CollinearityCheck().run(model)[0].applies
    near = SLEEP.assign(twin=SLEEP["days"] + 0.05 * np.sin(np.arange(len(SLEEP))))
    two = pr.Model.from_formula("reaction ~ days + twin + (days | subject)", near)
    (found,) = CollinearityCheck().run(two)
    assert set(found.columns) == {"days", "twin"}


def test_degrees_of_freedom_and_methods_are_refused_in_true_words(fits):
    with pytest.raises(Incompatible, match="each counts by less than one"):
        _ = fits["ML"].df_resid
    with pytest.raises(
        Incompatible, match="These can fit this model: with its defaults, evidence"
    ):
        pr.fit(fits["ML"].stated_model, pr.Evidence(criterion="ML", points=9))


def test_new_groups_need_no_column(fits):
    fit, rows = fits["REML"], SLEEP.head(4)
    alone = fit.predict(rows[["days"]], groups="new")
    assert alone.attrs["groups"].endswith(
        "without subject each row is of a group of its own"
    )
    named = fit.predict(rows, groups="new")
    np.testing.assert_allclose(alone["new_upper"], named["new_upper"])
    assert "of its own" not in named.attrs["groups"]
    with pytest.raises(DataError, match="subject"):
        fit.predict(rows[["days"]], groups="known")


def test_an_offset_in_a_formula_goes_with_groups():
    inside = pr.fit(
        pr.Model.from_formula("reaction ~ offset(days) + (1 | subject)", SLEEP)
    )
    beside = pr.fit(
        pr.Model.from_formula("reaction ~ 1 + (1 | subject)", SLEEP, offset="days")
    )
    np.testing.assert_array_equal(inside.coef, beside.coef)


@pytest.mark.slow
def test_a_posterior_of_many_effects_is_integrated_and_says_that_no_weights_vouch_for_it(
    monkeypatch,
):
    monkeypatch.setattr("probreg.inference.exact.nodes._JOINT", 200)
    rng = np.random.default_rng(0)
    g = np.repeat(np.arange(210), 4)
    y = rng.poisson(np.exp(0.5 + 0.6 * rng.normal(size=210)[g]))
    data = pd.DataFrame({"y": y, "g": [f"g{i}" for i in g]})
    prior = {"1 | g": pr.Covariance(sd=pr.HalfNormal(1.0))}
    model = pr.Model.from_formula(
        "y ~ 1 + (1 | g)", data, likelihood="poisson", prior=prior
    )
    with pytest.warns(pr.errors.ProbregWarning):
        fit = pr.fit(model, "posterior", seed=1)
    assert fit.method.name == "integrate"
    assert fit.solution.status is Status.UNWEIGHED
    assert any("posterior took integrate" in note for note in map(str, fit.notes))
    # 0.6 was drawn; its posterior sd at 210 groups is some 0.04
    assert abs(fit.summary().loc["sd(Intercept | g)", "mean"] - 0.6) < 0.16


def one_row_a_group(seed):
    rng = np.random.default_rng(seed)
    i = np.array([f"g{k}" for k in range(40)])
    return {
        "y": rng.normal(size=40),
        "x": rng.normal(size=40),
        "g": i,
        "h": np.array([f"h{k // 4}" for k in range(40)]),
    }


@pytest.mark.parametrize("criterion", ["REML", "ML"])
@pytest.mark.parametrize(
    "formula",
    [
        "y ~ 1 + (1 | g)",
        "y ~ x + (1 | g)",
        "y ~ x + (x | g)",
        "y ~ x + (1 | h) + (1 | g)",
        "y ~ s(x) + (1 | g)",
    ],
)
def test_one_row_a_group_leaves_its_scale_and_the_noise_unidentified(
    formula, criterion
):
    data = one_row_a_group(1)
    model = pr.Model.from_formula(formula, data)
    with pytest.raises(Incompatible, match=r"not identified.*flat") as refused:
        pr.fit(model, pr.Evidence(criterion=criterion))
    assert "rises" not in str(refused.value)
    # the premise: the criterion is the same wherever the variance of a row is
    if formula == "y ~ x + (1 | g)":
        held = [
            pr.fit(model.with_aux(sigma=s), pr.Evidence(criterion=criterion))
            for s in (0.1, 0.4)
        ]
        name = "log_evidence" if criterion == "REML" else "log_likelihood_of_scales"
        assert held[0].solution.stats[name] == pytest.approx(
            held[1].solution.stats[name], abs=1e-8
        )


def test_two_slopes_of_different_rows_identify_the_noise():
    rng = np.random.default_rng(3)
    x, g = rng.normal(size=120), np.repeat([f"g{k}" for k in range(60)], 2)
    b = rng.normal(size=(60, 2))[np.repeat(np.arange(60), 2)]
    model = pr.Model.from_formula(
        "y ~ x + (x | g)",
        {"y": b[:, 0] + b[:, 1] * x + 0.3 * rng.normal(size=120), "x": x, "g": g},
    )
    fit = pr.fit(model)
    assert not any("not identified" in note for note in map(str, fit.notes))
    assert 0.1 < fit.aux["sigma"] < 0.6


@pytest.mark.parametrize("kind", ["bernoulli", "binomial", "categorical", "poisson"])
def test_one_trial_a_group_does_not_identify_a_standard_deviation(kind):
    data = one_row_a_group(2)
    y = (data["y"] > 0) * 1
    responses = {
        "bernoulli": y,
        "categorical": np.where(y > 0, "a", np.where(data["x"] > 0, "b", "c")),
        "poisson": y + 1,
    }
    formula = "p(y, t) ~ x + (1 | g)" if kind == "binomial" else "y ~ x + (1 | g)"
    rows = {**data, "y": responses.get(kind, y), "t": np.ones(40, dtype=int)}
    fit = pr.fit(pr.Model.from_formula(formula, rows, likelihood=kind))
    assert any("not identified" in note for note in map(str, fit.notes)) == (
        kind != "poisson"
    )


def test_the_band_of_new_observations_is_of_a_new_group(fits):
    ax = np.ravel(pr.plot.fitted(fits["REML"]).axes)[0]
    labels = ax.get_legend_handles_labels()[1]
    assert "95 % of new observations, new group" in labels
    (band,) = [c for c in ax.collections if c.get_label().startswith("95 % of new")]
    low, high = (f(SLEEP["reaction"][SLEEP["days"] > 7.5]) for f in (np.min, np.max))
    ends = band.get_paths()[0].vertices
    at = ends[ends[:, 0] > 7.5][:, 1]
    # sds of 25 and 5.9 a day beside sigma 26 make it some 260 wide at the last days, and the typical group's some 110
    assert at.max() - at.min() > 200
    assert low < high


def test_sampling_weights_beside_groups_name_no_method_that_refuses_them_too():
    weights = pr.weights.sampling(np.linspace(1.0, 2.0, len(SLEEP)))
    with pytest.raises(
        Incompatible, match="sampling weights make a pseudo-likelihood"
    ) as refused:
        pr.fit(pr.Model.from_formula(FORMULA, SLEEP, weights=weights))
    assert "use evidence" not in str(refused.value)


@pytest.mark.slow
def test_a_standard_deviation_that_a_prior_holds_is_printed_as_fixed():
    rng = np.random.default_rng(3)
    g = np.repeat(np.arange(8), 6)
    table = {
        "y": rng.normal(size=48) + rng.normal(size=8)[g],
        "x": rng.normal(size=48),
        "g": g,
    }
    model = pr.Model.from_formula("y ~ x + (x | g)", table)
    held = pr.fit(model.with_prior({"(x | g)": pr.Normal(1.5)}))
    reml = pr.fit(model)
    both = pr.compare({"REML": reml, "held": held})
    names = ["sd(Intercept | g)", "sd(x | g)", "cor(Intercept, x | g)"]
    assert both.data["estimate"].sel(fit="held", param=names).values.tolist() == [
        1.5,
        1.5,
        0.0,
    ]
    assert "not in it" not in repr(both)
    assert "sd(x | g) 1.5, fixed" in repr(held)
    assert "1.500 (fixed)" in repr(pr.table({"REML": reml, "held": held}))
    part = pr.fit(model.with_prior({"(x | g)": pr.Covariance({"Intercept": 2.0})}))
    assert "sd(Intercept | g) 2, fixed" in repr(part)
    assert "sd(x | g) 1.5" not in repr(part)
