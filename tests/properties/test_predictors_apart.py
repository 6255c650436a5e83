"""Every linear predictor of a softmax with a reference class has hyperparameters of its own, by every method and in every output."""

import functools
from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.errors import Incompatible
from probreg.model.term_priors import hyper_names
from probreg.priors import HalfNormal, Normal, Reference


def rows(n_groups=12, each=20, seed=1):
    r = np.random.default_rng(seed)
    n = n_groups * each
    g, x = np.repeat(np.arange(n_groups), each), r.normal(size=n)
    u, w = (1.5 * r.normal(size=n_groups))[g], (0.8 * r.normal(size=n_groups))[g]
    k = (
        np.c_[np.zeros(n), u + (0.5 + w) * x, np.sin(2 * x)] + r.gumbel(size=(n, 3))
    ).argmax(1)
    return {
        "y": np.array(list("abc"))[k],
        "g": np.array([f"g{i:02d}" for i in g]),
        "x": x,
        "z": r.normal(size=n),
    }


def model(formula="y ~ x + (1 | g)", data=None, **settings):
    return pr.Model.from_formula(
        formula, data or rows(), **{"likelihood": "categorical", **settings}
    )


def test_standard_deviations_of_groups_are_those_of_each_predictor():
    r = np.random.default_rng(1)
    g = np.repeat(np.arange(60), 20)
    u = 2 * r.normal(size=60)[g]
    k = (np.c_[np.zeros(1200), u, np.zeros(1200)] + r.gumbel(size=(1200, 3))).argmax(1)
    data = {"y": np.array(list("abc"))[k], "g": [f"g{i}" for i in g]}
    fit = pr.fit(model("y ~ 1 + (1 | g)", data))
    found = fit.solution.effect_scales.values
    # mgcv 1.9: gam(list(k ~ s(g, bs = "re"), ~ s(g, bs = "re")), family = multinom(K = 2), method = "REML"): 1.691 and 0.008, where
    # gam.vcomp stops before its boundary
    assert round(found["sd(Intercept | g)[b]"], 3) == 1.691
    assert found["sd(Intercept | g)[c]"] < 0.009
    assert "sd(Intercept | g)[b] 1.6915" in repr(fit)


NAMES = {
    "y ~ x + (1 | g)": ["sd(Intercept | g)[b]", "sd(Intercept | g)[c]"],
    "y ~ x + (x | g)": [
        *("sd(Intercept | g)[b]", "sd(x | g)[b]", "cor(Intercept, x | g)[b]"),
        *("sd(Intercept | g)[c]", "sd(x | g)[c]", "cor(Intercept, x | g)[c]"),
    ],
    "y ~ s(x)": ["tau[s(x)][b]", "tau[s(x)][c]"],
}


@pytest.mark.parametrize("formula", NAMES)
def test_names_of_hyperparameters_end_with_the_class(formula):
    made = model(formula)
    assert [
        n for of in hyper_names(made.joint, made.design).values() for n in of.values()
    ] == NAMES[formula]
    one = model("y ~ x + z", prior=Normal(Reference()))
    assert [
        n for of in hyper_names(one.joint, one.design).values() for n in of.values()
    ] == ["tau[b]", "tau[c]"]


@pytest.mark.parametrize(
    ("formula", "criterion"), [("y ~ x + (1 | g)", "REML"), ("y ~ s(x)", "ML")]
)
def test_no_scale_of_a_predictor_can_be_moved_up(formula, criterion):
    """At the maximum the criterion has no slope over the log of any scale that is not at zero."""
    from probreg.inference.exact.evidence_problem import EvidenceProblem

    problem = EvidenceProblem(model(formula), False, criterion=criterion)
    top = problem.maximise(300)
    at = problem.surface(top.theta)
    free = ~top.vanished
    assert np.abs(at.gradient[free]).max() < 1e-3
    for k in np.flatnonzero(free[: len(problem.groups.priors)]):
        for step in (-0.3, 0.3):
            moved = top.theta.copy()
            moved[k] += step
            assert problem.surface(moved).value < at.value


def test_written_columns_and_columns_by_group_have_one_evidence():
    """The arrow and the dense surface, value and gradient."""
    from probreg.inference.exact.evidence_problem import EvidenceProblem
    from probreg.inference.exact.laplace_surface import LaplaceSurface

    problem = EvidenceProblem(model("y ~ x + (1 | g) + s(z)"), False)
    arrow = problem.surface
    assert arrow.layout.by_group
    dense = LaplaceSurface(problem.model, problem.groups, by_group=False)
    for theta in (np.log([0.7, 1.3, 0.4, 0.9]), np.log([1.5, 0.2, 1.0, 0.3])):
        one, other = arrow(theta), dense(theta)
        assert one.value == pytest.approx(other.value, abs=1e-7)
        np.testing.assert_allclose(one.gradient, other.gradient, atol=1e-4)
        steps = 1e-4 * np.eye(4)
        slopes = [
            (arrow(theta + s).value - arrow(theta - s).value) / 2e-4 for s in steps
        ]
        np.testing.assert_allclose(one.gradient, slopes, atol=1e-4)


@pytest.mark.slow
def test_independent_predictors_have_the_scales_of_separate_fits():
    """Rows of two classes each, which share no predictor, are two logistic regressions."""
    rng, n = np.random.default_rng(5), 300
    g = np.repeat(np.arange(15), 20)
    eta = np.c_[1.2 * rng.normal(size=15)[g], 0.4 * rng.normal(size=15)[g]]
    # class b or a in the first half, class c or a in the second: an offset of -60 keeps the other class out
    first = np.arange(n) % 2 == 0
    own = np.where(first, eta[:, 0], eta[:, 1])
    event = rng.logistic(size=n) + own > 0
    y = np.where(event, np.where(first, "b", "c"), "a")
    labels = np.array([f"g{i}" for i in g])
    offset = np.where(np.c_[first, ~first], 0.0, -60.0)
    model = pr.Model.from_formula(
        "y ~ 1 + (1 | g)", {"y": y, "g": labels}, likelihood="categorical"
    )
    both = pr.fit(replace(model, design=replace(model.design, offset=offset)))
    for rows_of, name in ((first, "b"), (~first, "c")):
        data = {"y": event[rows_of] * 1, "g": labels[rows_of]}
        alone = pr.fit(
            pr.Model.from_formula("y ~ 1 + (1 | g)", data, likelihood="bernoulli")
        )
        sd = alone.solution.effect_scales.values["sd(Intercept | g)"]
        assert both.solution.effect_scales.values[
            f"sd(Intercept | g)[{name}]"
        ] == pytest.approx(sd, rel=1e-3, abs=1e-4)


METHODS = {"integrate": "integrate", "nuts": pr.NUTS(draws=100, tune=100, chains=2)}


@functools.cache
def posterior(method):
    prior = {"(1 | g)": pr.Covariance(HalfNormal(2.0))}
    return pr.fit(model(prior=prior), METHODS[method], seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_posterior_draws_the_scale_of_each_predictor(method):
    fit = posterior(method)
    table = fit.summary()
    sd = {c: float(table.loc[("", f"sd(Intercept | g)[{c}]"), "mean"]) for c in "bc"}
    reml = pr.fit(model()).solution.effect_scales.values
    assert sd["b"] > 2.0 * sd["c"]
    assert (
        0.6 * reml["sd(Intercept | g)[b]"]
        < sd["b"]
        < 2.0 * reml["sd(Intercept | g)[b]"]
    )


@pytest.mark.slow
def test_outputs_of_each_predictor(tmp_path):
    fit = pr.fit(model("y ~ x + (x | g)"))
    effects = fit.effects()
    assert set(effects["outcome"]) == {"b", "c"}
    assert fit.tidy()["y.level"].tolist() == ["b"] * 2 + ["c"] * 2
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.solution.effect_scales.values == fit.solution.effect_scales.values
    np.testing.assert_allclose(
        again.predict(rows())["mean"], fit.predict(rows())["mean"]
    )
    for b in ("b", "c"):
        assert f"sd(x | g)[{b}]" in repr(fit)
    assert "sd(x | g)[b]" in repr(pr.compare({"one": fit, "two": again}))


@pytest.mark.slow
def test_effects_of_a_new_group_have_the_covariance_of_each_predictor():
    fit = posterior("integrate")
    row = {"x": [0.0], "g": ["new"]}
    draws = fit.solution.posterior.flat
    new = fit.predictive(row, groups="new").eta[:, 0]
    typical = fit.predictive(row, groups="typical").eta[:, 0]
    for k, c in enumerate("bc"):
        expected = np.square(draws[f"sd(Intercept | g)[{c}]"]).mean()
        assert np.var(new[:, k] - typical[:, k]) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("formula", ["y ~ x + (1 | g)", "y ~ s(x)"])
def test_the_symmetric_form_has_one_scale_whatever_the_order_of_classes(formula):
    data = rows()
    found = []
    for levels in (("a", "b", "c"), ("c", "a", "b")):
        likelihood = pr.likelihoods.Categorical(levels=levels, symmetric=True)
        fit = pr.fit(model(formula, data, likelihood=likelihood))
        found.append(
            (
                fit.solution.stats["log_evidence"],
                fit.predict(data)["mean"].sel(level="b").values,
            )
        )
        made = (
            fit.stated_model
            if "|" in formula
            else model(formula, data, likelihood=likelihood)
        )
        assert [len(of) for of in hyper_names(made.joint, made.design).values()] == [1]
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-4)


@pytest.mark.slow
def test_a_standard_deviation_of_one_class_is_tested_alone():
    data = rows()
    fit = pr.fit(model("y ~ x + (1 | g)", data))
    found = pr.hypothesis(fit, "sd(Intercept | g)[c] = 0")
    # its estimate is zero
    assert found.tests["RLRT"].statistic == pytest.approx(0.0, abs=1e-4)
    other = pr.hypothesis(fit, "sd(Intercept | g)[b] = 0").tests["RLRT"]
    assert other.statistic > 5.0
    with pytest.raises(pr.errors.DataError):
        pr.hypothesis(fit, "sd(Intercept | g) = 0")


@pytest.mark.slow
def test_counts_of_classes_and_single_rows_have_the_same_scales():
    data = rows()
    fit = pr.fit(model("y ~ 1 + (1 | g)", data))
    groups, of = np.unique(data["g"], return_inverse=True)
    counts = {c: np.bincount(of[data["y"] == c], minlength=len(groups)) for c in "abc"}
    both = pr.fit(
        pr.Model.from_formula(
            "counts(a, b, c) ~ 1 + (1 | g)",
            {**counts, "g": groups},
            likelihood="multinomial",
        )
    )
    for name, value in fit.solution.effect_scales.values.items():
        assert both.solution.effect_scales.values[name] == pytest.approx(
            value, abs=1e-4
        )


def test_classes_of_a_symmetric_form_share_a_scale():
    symmetric = pr.likelihoods.Categorical(symmetric=True)
    shared = model(
        "y ~ x + (1 | g)", likelihood=symmetric, prior={"(1 | g)": Normal(0.5)}
    )
    assert not shared.joint.apart
    assert not model("y ~ x", likelihood="categorical", prior=Normal(1.0)).joint.apart


def test_each_predictor_stands_in_the_pymc_graph():
    pytest.importorskip("pymc")
    prior = {"(x | g)": pr.Covariance(HalfNormal(2.0), cor=pr.LKJ(2.0))}
    graph = model("y ~ x + (x | g)", prior=prior).to_pymc()
    names = set(graph.named_vars)
    assert {
        "sd(Intercept | g)[b]",
        "sd(x | g)[c]",
        "effects[g][b]",
        "effects[g][c]",
    } <= names


def test_a_scale_of_each_predictor_wants_as_many_priors():
    from probreg.errors import DataError
    from probreg.priors.joint import PerPredictor

    with pytest.raises((DataError, Incompatible)):
        repr(model("y ~ x", prior={"x": PerPredictor((Normal(1.0),) * 3)}))
