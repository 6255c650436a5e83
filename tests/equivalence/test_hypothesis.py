"""Linear hypotheses against statsmodels, against refitted models, and against one another."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.comparison.hypotheses.dispatch import hypothesis
from probreg.comparison.hypotheses.restricted import independent, restricted_mode
from probreg.formula.hypothesis import parse_hypothesis as parse
from probreg.inference.base import split_parameters

sm = pytest.importorskip("statsmodels.api")
NEAR = {"rtol": 1e-8}  # both programs stop Newton near rounding


def rows(seed: int = 5, n: int = 150) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x1, x2, x3 = (
        rng.normal(1.0, 1.0, n),
        rng.normal(size=n),
        100 + 20 * rng.normal(size=n),
    )
    eta = 0.5 * x1 + 0.3 * x2 - 0.01 * (x3 - 100)
    frame = pd.DataFrame(
        {
            "x1": x1,
            "x2": x2,
            "x3": x3,
            "g": np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
        }
    )
    frame["binary"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    frame["count"] = rng.poisson(np.exp(0.5 * eta))
    frame["line"] = eta + rng.normal(size=n)
    u = np.stack([np.zeros(n), eta, -eta], 1) + rng.gumbel(size=(n, 3))
    frame["kind"] = np.array(["r", "s", "t"])[u.argmax(1)]
    return frame


def fitted(response: str, likelihood, right: str = "x1 + x2 + x3", **more) -> pr.Fit:
    return pr.fit(
        pr.Model.from_formula(
            f"{response} ~ {right}", rows(), likelihood=likelihood, **more
        )
    )


TEXTS = ("x1 = x2", "x1 + 2*x2 = 0.7", "x2 = 0, x3 = 0", "x1 = x2, x3 = -0.005")


@pytest.mark.parametrize("text", TEXTS)
def test_least_squares_gives_the_tests_of_statsmodels(text):
    fit, data = fitted("line", "gaussian"), rows()
    theirs = sm.OLS(data["line"], sm.add_constant(data[["x1", "x2", "x3"]])).fit()
    ours = hypothesis(fit, text)
    F = theirs.f_test(text)
    np.testing.assert_allclose(
        [ours["F"].statistic, ours["F"].p], [F.fvalue, F.pvalue], **NEAR
    )
    W = theirs.wald_test(text, use_f=False, scalar=True)
    np.testing.assert_allclose(
        [ours["Wald"].statistic, ours["Wald"].p], [W.statistic, W.pvalue], **NEAR
    )
    if "," not in text:
        t = theirs.t_test(text)
        np.testing.assert_allclose(
            [ours["t"].statistic, ours["t"].p],
            [t.tvalue.item(), t.pvalue.item()],
            **NEAR,
        )
        np.testing.assert_allclose(
            ours["t"].statistic ** 2, ours["F"].statistic, rtol=1e-12
        )
        np.testing.assert_allclose(
            ours.estimates[["lower", "upper"]], np.asarray(t.conf_int()), **NEAR
        )
    # with the variance RSS / n that the other two use
    by_ml = ours["Wald"].statistic * 150 / 146
    # Berndt & Savin 1977
    assert by_ml > ours["LR"].statistic > ours["score"].statistic > 0


@pytest.mark.parametrize(("response", "peer", "likelihood"), [("binary", "Logit", "bernoulli"), ("count", "Poisson", "poisson")])  # fmt: skip
@pytest.mark.parametrize("text", TEXTS)
def test_wald_of_other_likelihoods_is_that_of_statsmodels(
    response, peer, likelihood, text
):
    fit, data = fitted(response, likelihood), rows()
    theirs = getattr(sm, peer)(data[response], sm.add_constant(data[["x1", "x2", "x3"]])).fit(disp=0, tol=1e-14, method="newton")  # fmt: skip
    W, ours = theirs.wald_test(text, scalar=True), hypothesis(fit, text)
    np.testing.assert_allclose(
        [ours["Wald"].statistic, ours["Wald"].p], [W.statistic, W.pvalue], rtol=1e-7
    )
    assert ours["Wald"].df == (1 + text.count(","),)


def nested(response, likelihood, **more):
    """A fit, a hypothesis, and the fit of the smaller model that it states."""
    data = rows()
    full = fitted(response, likelihood, **more)
    free = pr.fit(
        pr.Model.from_formula(f"{response} ~ x1", data, likelihood=likelihood, **more)
    )
    equal = pr.fit(
        pr.Model.from_formula(
            f"{response} ~ I(x1 + x2) + x3", data, likelihood=likelihood, **more
        )
    )
    return [(full, "x2 = 0, x3 = 0", free), (full, "x1 = x2", equal)]


@pytest.mark.parametrize(("response", "likelihood", "more"), [
    ("line", "gaussian", {}), ("line", "gaussian", {"aux": {"sigma": 0.9}}), ("line", pr.StudentT(nu=5.0), {}),
    ("binary", "bernoulli", {}), ("count", "poisson", {"weights": np.arange(150) % 3 + 1}),
    ("count", "poisson", {"offset": np.linspace(-1, 1, 150)}), ("kind", "categorical", {}),
    ("kind", pr.Categorical(symmetric=True), {}),
])  # fmt: skip
def test_the_likelihood_ratio_is_that_of_two_fits(response, likelihood, more):
    for full, text, small in nested(response, likelihood, **more):
        test = hypothesis(full, text)["LR"]
        # Newton stops at a gradient of about 1e-9 standard errors, whose square is below rounding of the likelihood.
        np.testing.assert_allclose(
            test.statistic,
            2 * (full.log_likelihood - small.log_likelihood),
            rtol=1e-8,
            atol=1e-10,
        )
        df = full.coef.size - small.coef.size
        if likelihood == pr.Categorical(symmetric=True):
            df = df * 2 // 3  # the outcomes of a column sum to zero
        assert test.df == (df,)
        np.testing.assert_allclose(
            test.p, stats.chi2.sf(test.statistic, df), rtol=1e-10
        )


def test_least_squares_by_sums_of_squares_is_newton_on_the_restricted_model():
    for fit in (
        fitted("line", "gaussian"),
        pr.fit(fitted("line", "gaussian").model, "newton"),
    ):
        found = independent(
            np.array([[0.0, 1.0, -1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]),
            np.array([0.1, 0.0]),
        )
        gamma, aux = split_parameters(fit.model, restricted_mode(fit, found)[0])
        beta = fit.model.design.frame.to_raw(gamma)
        lr = 2 * (fit.log_likelihood - float(fit.model.log_lik(beta, **aux)))
        np.testing.assert_allclose(
            hypothesis(fit, "x1 = x2 + 0.1, x3 = 0")["LR"].statistic, lr, rtol=1e-8
        )
        np.testing.assert_allclose(found.L @ beta[:, 0], found.r, atol=1e-12)


@pytest.mark.parametrize(
    ("formula", "likelihood"),
    [
        ("cens(time, event) ~ x2 + x1", "weibull"),
        ("share ~ x2 + x1", "beta"),
        ("time ~ x2 + x1", "weibull"),
        ({"y": "line ~ x2", "log sigma": "~ x1"}, "gaussian"),
    ],
)
def test_the_score_without_a_complete_expected_information_has_the_observed_one(
    formula, likelihood
):
    """Of censored rows, of nuisance parameters whose scores are correlated with those of coefficients, and of their formulas."""
    frame = rows()
    rng = np.random.default_rng(8)
    frame["time"] = np.exp(0.3 * frame.x1) * rng.exponential(size=len(frame))
    frame["event"] = rng.integers(0, 2, len(frame))
    frame["share"] = rng.beta(3.0, 2.0, len(frame))

    def fit_of(formula):
        return pr.fit(pr.Model.from_formula(formula, frame, likelihood=likelihood))

    def without(text):
        return text.replace(" + x1", "").replace("~ x1", "~ 1")

    names = fit_of(formula).parameter_names
    of_formulas = isinstance(formula, dict)
    null = (
        fit_of({k: without(v) for k, v in formula.items()})
        if of_formulas
        else fit_of(without(formula))
    )
    model = fit_of(formula).model
    beta = np.zeros(model.shape)
    kept = [model.design.columns.index(c) for c in null.model.design.columns]
    beta[kept] = null.solution.beta
    local = model.value_grad_hessian(beta, **null.aux)
    score = local.gradient @ np.linalg.solve(local.curvature, local.gradient)
    name = next(n for n in names if n.endswith("x1"))
    found = hypothesis(fit_of(formula), f"`{name}` = 0")["score"].statistic
    np.testing.assert_allclose(found, score, rtol=1e-6)


def test_the_score_of_a_model_without_effects_is_pearsons_chi_square():
    counts = np.array([[12.0, 30.0], [25.0, 14.0]])
    frame = pd.DataFrame(
        {"y": [1, 0, 1, 0], "x": [0.0, 0.0, 1.0, 1.0], "w": counts.ravel()}
    )
    fit = pr.fit(
        pr.Model.from_formula("y ~ x", frame, likelihood="bernoulli", weights="w")
    )
    ours = hypothesis(fit, "x = 0")
    np.testing.assert_allclose(
        ours["score"].statistic,
        stats.chi2_contingency(counts, correction=False).statistic,
        rtol=1e-9,
    )
    g = stats.chi2_contingency(
        counts, correction=False, lambda_="log-likelihood"
    ).statistic
    np.testing.assert_allclose(ours["LR"].statistic, g, rtol=1e-9)


def test_a_softmax_is_asked_by_outcome():
    fit, data = fitted("kind", "categorical"), rows()
    X = sm.add_constant(data[["x1", "x2", "x3"]])
    theirs = sm.MNLogit(pd.Categorical(data["kind"]).codes, X).fit(
        disp=0, tol=1e-14, method="newton"
    )
    L = np.zeros((1, 8))  # statsmodels runs outcome first
    L[0, 1], L[0, 5] = 1.0, -1.0
    one = hypothesis(fit, "s: x1 = t: x1")
    np.testing.assert_allclose(
        one["Wald"].statistic, np.square(theirs.t_test(L).tvalue.item()), rtol=1e-7
    )
    assert one.null == "x1: s - x1: t = 0"
    assert hypothesis(fit, "x1: s = x1: t")["Wald"] == one["Wald"]
    both = hypothesis(fit, "x1 = 0")
    assert both["Wald"].df == (2,)
    assert both.estimates["combination"].tolist() == ["x1: s", "x1: t"]
    assert hypothesis(fit, "s: x1 = 0, t: x1 = 0")["LR"].statistic == pytest.approx(
        both["LR"].statistic, rel=1e-10
    )
    # three, of which two are free
    symmetric = hypothesis(fitted("kind", pr.Categorical(symmetric=True)), "x1 = 0")
    np.testing.assert_allclose(
        symmetric["Wald"].statistic, both["Wald"].statistic, rtol=1e-7
    )
    assert symmetric["Wald"].df == (2,)


def test_names_are_read_as_the_fit_calls_them():
    columns = [
        "Intercept",
        "x1",
        "x12",
        "g[T.b]",
        "bs(x, df=4)[1]",
        "a:b",
        "two words",
        "x-y",
    ]

    def read(text):
        return [(dict(r.weights), r.relation, r.value) for r in parse(text, columns)]

    assert read("x1=x12") == [({1: 1.0, 2: -1.0}, "=", 0.0)]
    assert read("g[T.b] = 2 bs(x, df=4)[1], `two words` = 1") == [
        ({3: 1.0, 4: -2.0}, "=", 0.0),
        ({6: 1.0}, "=", 1.0),
    ]
    assert read("x1 = x12 = a:b") == [
        ({1: 1.0, 2: -1.0}, "=", 0.0),
        ({2: 1.0, 5: -1.0}, "=", 0.0),
    ]
    assert read("-(x1 - 3) / 2 * 4 >= 1e0 + x-y") == [({1: -2.0, 7: -1.0}, ">", -5.0)]
    assert read("2*(x1 + two words) == 1.5") == [({1: 2.0, 6: 2.0}, "=", 1.5)]
    assert read("x1 < x12 + .5") == [({1: 1.0, 2: -1.0}, "<", 0.5)]


@pytest.mark.parametrize(("text", "said"), [
    ("x9 = 0", "no coefficient is called 'x9'; did you mean .*'x1'"), ("`x 1` = 0", "no coefficient is called 'x 1'"),
    ("`x1 = 0", "no coefficient is called '`'"), ("2*x1", "has no relation"), ("x1 + = 0", "cannot be read"),
    ("x1 * x2 = 0", "is not linear"), ("1 / x1 = 0", "is not linear"), ("x1 / 0 = 0", "divides by zero"),
    ("x1 = x1", "no coefficient is left"), ("1 = 1", "no coefficient is left"), ("(x1 = 0", "cannot be read"),
    ("x1 = 0,,", "cannot be read"), ("x1 = x2 3", "cannot be read"), ("", "a hypothesis is a text"),
    ("x1 = 0, 2*x1 = 1", "contradicts the others"), (3, "a hypothesis is a text"), ("x1 ! 2", "no coefficient is called '!'"),
    ("__import__('os') = 0", "no coefficient is called '__import__'"),
    ("f( x1 ) = 0", "no coefficient is called 'f'"), ("I(x1 +) = 0", "no coefficient is called 'I'"),
    ("x1 = (x2 > 1)", "a side of a relation is a sum"), ("x1 = (1, 2)", "a side of a relation is a sum"),
])  # fmt: skip
def test_what_is_no_hypothesis_is_refused_with_its_fault(text, said):
    with pytest.raises(pr.DataError, match=said):
        hypothesis(fitted("line", "gaussian"), text)


def test_a_fit_in_place_of_a_hypothesis_is_not_printed():
    fit = fitted("line", "gaussian")
    with pytest.raises(
        pr.DataError, match="nested fits are tested by compare_models"
    ) as refused:
        hypothesis(fit, fit)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200


def test_what_follows_from_the_rest_is_counted_once():
    fit = fitted("line", "gaussian")
    assert (
        hypothesis(fit, "x1 = 0, x2 = 0, x1 = x2")["F"]
        == hypothesis(fit, "x1 = 0, x2 = 0")["F"]
    )


def test_one_inequality_is_tested_against_its_opposite():
    fit = fitted("line", "gaussian")
    two, up, down = (
        hypothesis(fit, t)["t"] for t in ("x2 = 0.2", "x2 > 0.2", "x2 < 0.2")
    )
    assert up.p + down.p == pytest.approx(1.0)
    assert 2 * min(up.p, down.p) == pytest.approx(two.p)
    assert up.p < 0.5  # the estimate is on that side
    assert hypothesis(fit, "x2 > 0.2").null == "x2 <= 0.2 (against x2 > 0.2)"
    with pytest.raises(pr.Incompatible, match="one at a time"):
        hypothesis(fit, "x1 > 0, x2 > 0")
    with pytest.raises(pr.Incompatible, match="mixes equalities"):
        hypothesis(fit, "x1 > 0, x2 = 0")


def test_a_posterior_has_probabilities_and_levels():
    model = fitted("line", "gaussian").model
    ml, exact = pr.fit(model), pr.fit(model, "conjugate", seed=2)
    claim = hypothesis(exact, "x2 > 0.2").beliefs[0]
    assert claim.value == pytest.approx(
        1.0 - hypothesis(ml, "x2 > 0.2")["t"].p, rel=1e-9
    )  # flat prior: one integral
    level = hypothesis(exact, "x1 = x2, x3 = 0")
    assert level.beliefs[0].value == pytest.approx(
        1.0 - hypothesis(ml, "x1 = x2, x3 = 0")["F"].p, rel=1e-9
    )
    assert level.log_bayes_factor is None  # a flat prior has no density to compare with
    both = hypothesis(exact, "x1 > x2, x2 > 0.2").beliefs[0]
    theta = exact.tree["posterior"]
    by_hand = ((theta["x1"] > theta["x2"]) & (theta["x2"] > 0.2)).mean().item()
    assert both.value == pytest.approx(by_hand)
    assert 0 < both.mcse < 0.02
    post = pr.fit(
        pr.Model.from_formula(
            "kind ~ x1 + x2", rows(), likelihood="categorical", prior=pr.Normal(2.0)
        ),
        "laplace",
        seed=1,
    )
    approximate = pr.fit(post.model)
    # a normal posterior: the level is that of Wald's chi-square, by formula where one equality is asked
    for text, how in (
        ("s: x1 = t: x1", "of the normal posterior"),
        ("x2 = 0", "from 4000 draws"),
    ):
        belief, test = (
            hypothesis(post, text).beliefs[0],
            hypothesis(approximate, text)["Wald"],
        )
        assert belief.value == pytest.approx(1 - test.p, abs=4 * belief.mcse + 0.01)
        assert how in belief.how
    with pytest.raises(pr.Incompatible, match="own spread"):
        hypothesis(post, "x1 = 0", covariance=post.covariance())


def test_the_bayes_factor_is_the_ratio_of_two_evidences():
    data = rows()
    for aux in ({"sigma": 1.1}, {"sigma": pr.priors.InverseGamma(2.0, 1.5)}):
        priors = {
            c: pr.Normal(
                0.8, sigma_units="sigma" in aux and not isinstance(aux["sigma"], float)
            )
            for c in ("x1", "x2")
        }
        full = pr.Model.from_formula("line ~ 0 + x1 + x2", data, prior=priors, aux=aux)
        small = pr.Model.from_formula(
            "line ~ 0 + x1", data, prior={"x1": priors["x1"]}, aux=aux
        )
        one, other = (
            pr.fit(m, "conjugate").solution.stats["log_evidence"] for m in (small, full)
        )
        found = hypothesis(pr.fit(full, "conjugate"), "x2 = 0").log_bayes_factor
        assert found == pytest.approx(one - other, rel=1e-9)


def test_a_given_covariance_leaves_walds_test_alone():
    for likelihood in ("categorical", pr.Categorical(symmetric=True)):
        fit = fitted("kind", likelihood)
        own, given = (
            hypothesis(fit, "x1 = 0"),
            hypothesis(fit, "x1 = 0", covariance=4.0 * fit.covariance()),
        )
        assert own["Wald"].statistic == pytest.approx(
            4.0 * given["Wald"].statistic, rel=1e-8
        )
        assert set(given.tests) == {"Wald"}
        with pytest.raises(KeyError, match="there are: Wald"):
            given["LR"]
    with pytest.raises(pr.DataError, match="covariance is the name of a kind, or what"):
        hypothesis(fit, "x1 = 0", covariance=np.eye(12))
    data, line = rows(), fitted("line", "gaussian")
    theirs = sm.OLS(data["line"], sm.add_constant(data[["x1", "x2", "x3"]])).fit(
        cov_type="HC3", use_t=True
    )
    F = theirs.f_test("x1 = x2, x3 = 0")
    ours = hypothesis(line, "x1 = x2, x3 = 0", covariance="HC3")
    np.testing.assert_allclose(
        [ours["F"].statistic, ours["F"].p], [F.fvalue, F.pvalue], rtol=1e-8
    )
    assert ours.notes == ("covariance: HC3",)


def test_what_has_no_test_says_so():
    ridge = pr.fit(
        pr.Model.from_formula(
            "binary ~ x1 + x2", rows(), likelihood="bernoulli", prior=pr.Normal(0.5)
        )
    )
    found = hypothesis(ridge, "x1 = 0")
    assert "LR" not in found.tests
    assert "the mode under a prior" in found.notes[0]
    data = rows()
    data["twice"] = 2 * data["x1"]
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(pr.Model.from_formula("line ~ x1 + twice + x2", data))
    with pytest.raises(pr.Incompatible, match=r"not identified \(twice = 2 x1\)"):
        hypothesis(fit, "x1 = 0")
    reduced = pr.fit(pr.Model.from_formula("line ~ x1 + x2", data))
    assert hypothesis(fit, "x1 + 2 twice = 0")["F"].statistic == pytest.approx(
        hypothesis(reduced, "x1 = 0")["F"].statistic
    )
    # Ten of ten against five of ten: the null exists, and a null that parts the classes does not.
    y = np.r_[np.ones(9), 0.0, np.ones(5), np.zeros(5)]
    X = np.stack(
        [np.r_[np.ones(10), np.zeros(10)], np.r_[np.zeros(9), 1.0, np.zeros(10)]], 1
    )
    assert (
        hypothesis(
            pr.fit(pr.Model.from_arrays(X[:, :1], y, likelihood="bernoulli")), "x1 = 0"
        )["LR"].p
        < 0.06
    )


def test_names_without_letters_and_with_backquotes_can_be_tested():
    rng = np.random.default_rng(4)
    X, y = rng.normal(size=(30, 3)), rng.normal(size=30)
    plain = pr.fit(pr.Model.from_arrays(X, y, columns=["a", "b", "c"]))
    odd = pr.fit(pr.Model.from_arrays(X, y, columns=["", "1", "`"]))
    for text, same in (
        (r"`` = `1`", "a = b"),
        (r"`\`` = 0", "c = 0"),
        ("`1` = 2", "b = 2"),
        ("`1` - 1 = 1", "b = 2"),
        ("2`1` = `` + 2", "2b = a + 2"),
    ):
        found, known = hypothesis(odd, text), hypothesis(plain, same)
        assert {k: t.p for k, t in found.tests.items()} == {
            k: t.p for k, t in known.tests.items()
        }


def test_the_sd_of_a_conjugate_posterior_is_that_of_students_t():
    """scale sqrt(df / (df - 2)), which seven rows tell from the scale; the draws agree."""
    model = pr.Model.from_arrays(
        [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        [1.0, 0.5, 2.5, 2.0, 4.5, 3.0, 6.0],
        columns=["x"],
    )
    fit = pr.fit(model, pr.Conjugate(draws=20_000), seed=1)
    assert fit.solution.df == 5.0
    (sd,) = hypothesis(fit, "x = 0").estimates["sd"]
    assert sd == pytest.approx(
        np.sqrt(fit.solution.scale.matrix()[1, 1] * 5.0 / 3.0), rel=1e-12
    )
    assert sd == pytest.approx(fit.solution.draws["beta"][..., 1, 0].std(), rel=0.03)


@pytest.mark.parametrize(("response", "likelihood", "method"), [("line", "gaussian", "quadrature"), ("binary", "bernoulli", "laplace")])  # fmt: skip
def test_a_posterior_known_by_formula_has_no_number_from_draws(
    response, likelihood, method
):
    """Its numbers are those of the summary, and do not hang on the seed."""
    fit = pr.fit(
        fitted(response, likelihood, "x1 + x2", prior=pr.Normal(2.0)).model,
        method,
        seed=1,
    )
    found, table = hypothesis(fit, "x1 > 0"), fit.summary().loc["x1"]
    ours = found.estimates[["estimate", "sd", "lower", "upper"]].iloc[0].to_numpy()
    np.testing.assert_allclose(
        ours, table[["mean", "sd", "lower", "upper"]].to_numpy(dtype=float), rtol=1e-9
    )
    assert found.beliefs[0].value == pytest.approx(table["p_positive"], rel=1e-12)
    again = pr.fit(fit.model, method, seed=2)
    for text in ("x1 - x2 > 0.1", "x1 = x2"):
        one, other = hypothesis(fit, text), hypothesis(again, text)
        assert one.beliefs == other.beliefs
        pd.testing.assert_frame_equal(one.estimates, other.estimates)
        theta = fit.tree["posterior"]
        drawn = (theta["x1"] - theta["x2"]).to_numpy()
        row = one.estimates.iloc[0]
        np.testing.assert_allclose(
            [row["estimate"], row["sd"]],
            [drawn.mean(), drawn.std()],
            atol=0.05 * drawn.std(),
        )
        np.testing.assert_allclose(
            [row["lower"], row["upper"]],
            np.quantile(drawn, [0.025, 0.975]),
            atol=0.15 * drawn.std(),
        )


def test_a_probability_is_never_printed_as_certain_and_one_of_a_known_marginal_is_exact():
    x = np.linspace(-2.0, 2.0, 40)
    model = pr.Model.from_arrays(
        x, 3.0 * x + np.cos(np.arange(40.0)), columns=["income"], prior=pr.Normal(2.0)
    )
    grid = pr.fit(model, "quadrature")
    found = pr.hypothesis(grid, "income > 2.7")
    assert found.beliefs[0].how == "exact"
    assert 0.0 < found.beliefs[0].value < 1.0
    assert found.beliefs[0].mcse == 0.0
    above = pr.hypothesis(grid, "income > 0")
    assert above.beliefs[0].value == pytest.approx(
        grid.summary().loc["income", "p_positive"], abs=1e-12
    )
    assert pr.hypothesis(grid, "-2 * income > -5").beliefs[0].value == pytest.approx(
        pr.hypothesis(grid, "income < 2.5").beliefs[0].value, abs=1e-12
    )
    draws = pr.fit(model, "laplace")
    for one in (above, pr.hypothesis(draws, "income > 0")):
        assert "P(hypothesis)  >0.999" in str(one)
        assert ">0.999" in one._repr_html_() or "&gt;0.999" in one._repr_html_()


# ---- a term by its name ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("term", "rest"),
    [
        ("C(g)", "x1"),
        ("C(g):x1", "x1"),
        ("bs(x1, df=4)", "x2"),
        ("poly(x3, 2)", "x1 + x2"),
    ],
)
def test_a_term_by_its_name_is_all_its_columns_and_the_f_test_of_the_model_without_it(
    term, rest
):
    whole, without = (
        fitted("line", "gaussian", right) for right in (f"{rest} + {term}", rest)
    )
    columns = [
        c for c in whole.model.design.columns if c not in without.model.design.columns
    ]
    found = hypothesis(whole, f"{term} = 0")
    named = hypothesis(whole, ", ".join(f"`{c}` = 0" for c in columns))
    assert (found.null, found["F"]) == (named.null, named["F"])
    rss = [fit.aux["sigma"] ** 2 * len(rows()) for fit in (whole, without)]
    q, df = len(columns), whole.df_resid
    np.testing.assert_allclose(
        found["F"].statistic, (rss[1] - rss[0]) / q / (rss[0] / df), rtol=1e-8
    )


def test_an_interaction_by_its_name_is_all_its_columns_and_a_main_effect_its_own():
    data = rows().assign(h=np.tile(["u", "v"], 75))
    whole, without, none = (
        pr.fit(pr.Model.from_formula(f"line ~ {right}", data))
        for right in ("h*g + x1", "h + g + x1", "x1")
    )

    def F(small, q):
        rss = [fit.aux["sigma"] ** 2 * len(data) for fit in (whole, small)]
        return pytest.approx(
            (rss[1] - rss[0]) / q / (rss[0] / whole.df_resid), rel=1e-8
        )

    assert (
        hypothesis(whole, "h:g = 0")["F"].statistic
        == hypothesis(whole, "`h:g` = 0")["F"].statistic
        == F(without, 2)
    )
    assert hypothesis(whole, "h = 0").null == "h[T.v] = 0"
    assert hypothesis(whole, "h = 0, g = 0, h:g = 0")["F"].statistic == F(none, 5)
    # five columns, of which two are of g without h
    alone = pr.fit(pr.Model.from_formula("line ~ h:g + x1", data))
    assert hypothesis(alone, "h:g = 0")["F"].statistic == F(none, 5)
    assert hypothesis(whole, "h : g = 0")["F"].statistic == F(without, 2)
    with pytest.raises(
        pr.DataError, match=r"no coefficient is called '.*'; did you mean 'h:g'\?"
    ):
        hypothesis(whole, "g:h = 0")


NUMBERS = {
    0: [1.0, 2, 3, 4, 5, 6, 7, 8],
    1: [2.0, 1, 4, 3, 6, 5, 8, 8],
    "y": [1.0, 2, 2, 4, 5, 5, 8, 8],
}


def test_a_number_is_a_name_in_backquotes_only():
    found = pr.fit(pr.Model.from_formula("y ~ `0` + `1`", pd.DataFrame(NUMBERS)))
    named = pr.fit(
        pr.Model.from_formula(
            "y ~ a + b", pd.DataFrame(NUMBERS).rename(columns={0: "a", 1: "b"})
        )
    )
    assert hypothesis(found, "`1` = 0")["t"].statistic == pytest.approx(
        0.6191, abs=5e-5
    )
    for text in (
        "a = 0",
        "b = 0",
        "a = 1",
        "b > 1",
        "2 a + 1 b = 1",
        "a - b = 0, a = 1",
        "1 - (b - 0) = 0",
    ):
        one, other = (
            hypothesis(found, text.replace("a", "`0`").replace("b", "`1`")),
            hypothesis(named, text),
        )
        assert {k: t.statistic for k, t in one.tests.items()} == {
            k: t.statistic for k, t in other.tests.items()
        }
        # the null is written as it is read
        again = hypothesis(found, one.null.split(" (")[0].replace("<=", "="))
        np.testing.assert_allclose(
            np.abs(again.estimates["estimate"]),
            np.abs(one.estimates["estimate"]),
            rtol=1e-12,
        )
    for text in ("1 = 0", "0", "1 > 0"):
        with pytest.raises(pr.DataError, match=r"`[01]`|no relation"):
            hypothesis(found, text)


@pytest.mark.parametrize(
    "name",
    [
        "5",
        "-1",
        "1.5",
        "1e3",
        "18-24",
        "2020-01-01",
        "(1)",
        "1,5",
        "-",
        "+ 2",
        "3 2",
        ".5",
    ],
)
def test_a_name_of_numbers_and_signs_does_not_change_a_hypothesis_of_others(name):
    columns = ["x", name]
    for text in (
        "x = 5",
        "x - 1 = 0",
        "-1 + x > 1.5",
        "x = 18-24",
        "2*x = (1) + 2",
        "x = 1e3, x = .5",
        "3 x = 1",
    ):
        with_it, without = parse(text, columns), parse(text, ["x"])
        assert [(dict(r.weights), r.relation, r.value) for r in with_it] == [
            (dict(r.weights), r.relation, r.value) for r in without
        ]
    assert [dict(r.weights) for r in parse(f"x = `{name}`", columns)] == [
        {0: 1.0, 1: -1.0}
    ]


def test_a_name_that_is_also_a_sum_of_names_needs_backquotes():
    assert dict(parse("`a-b` = 0", ["a", "b", "a-b"])[0].weights) == {2: 1.0}
    assert dict(parse("a - b = 0", ["a", "b", "a-b"])[0].weights) == {0: 1.0, 1: -1.0}
    assert dict(parse("a-b = 0", ["a", "a-b"])[0].weights) == {1: 1.0}
    for text, columns in (("a-b = 0", ["a", "b", "a-b"]), ("2x = 0", ["x", "2x"])):
        with pytest.raises(pr.DataError, match="`"):
            parse(text, columns)


@pytest.mark.parametrize("term", [
    "I(x1**2)", "bs(x1,df=4)", "C(g,Treatment('b'))", 'C(g, Treatment("b"))', "np.exp( x1/10 )", "I(x1/1e3)", "poly(x1,2)",
    "I( x1**2 ):x2", "I(`x1`**2)", "I(x1>2.50)", "C( g ):x1", "x1 : x2",
])  # fmt: skip
def test_a_term_is_tested_in_the_spelling_of_the_formula(term):
    fit = fitted("line", "gaussian", f"x3 + {term}")
    own = ", ".join(f"`{c}` = 0" for c in fit.parameter_names[2:])
    for text in (f"{term} = 0", term, f"2 * {term} = 0"):
        np.testing.assert_allclose(
            hypothesis(fit, text)["F"].statistic,
            hypothesis(fit, own)["F"].statistic,
            rtol=1e-9,
        )


@pytest.mark.parametrize("text", [
    "(" * 5000 + "x1" + ")" * 5000 + " = 0", "x1(" * 3000, "f(" * 5000, "z" * 3000, "`" + "z" * 3000, "x1 = " + "1" * 10_000,
    "x1 = 0 = x2 3" * 800, "+".join(["x1"] * 5000), "x1" + "*2" * 5000 + " = 0", "x1 = 1e999", "x1:" * 4000, "x1" + " " * 10_000 + "y",
    "sd(x | g)" * 1200, "x1 = " + "1" * 9000 + "z", "x1[ " * 3000, "= " * 5000,
])  # fmt: skip
def test_a_long_text_that_is_no_hypothesis_has_a_short_message(text):
    with pytest.raises(pr.DataError) as refused:
        hypothesis(fitted("line", "gaussian"), text)
    assert len(str(refused.value)) < 500


def test_a_long_hypothesis_is_read():
    fit = fitted("line", "gaussian")
    one = hypothesis(fit, "x1 = 0")["F"].statistic
    for text in (
        " + ".join(["x1"] * 2500) + " = 0",
        ", ".join(["x1 = 0"] * 1400),
        "-" * 50 + "x1 = 0",
        " " * 10_000 + "x1",
    ):
        assert hypothesis(fit, text)["F"].statistic == pytest.approx(one, rel=1e-9)


def test_a_term_stands_for_every_outcome_and_with_an_outcome_for_its_own():
    fit = fitted("kind", "categorical", "x1 + C(g)")
    assert hypothesis(fit, "C(g) = 0")["LR"].df == (4.0,)
    assert (
        hypothesis(fit, "s: C(g) = 0").null
        == hypothesis(fit, "C(g): s = 0").null
        == "C(g)[T.b]: s = 0, C(g)[T.c]: s = 0"
    )
    exact = pr.fit(
        fitted("line", "gaussian", "x1 + C(g)", prior=pr.Normal(1.0)).model, "posterior"
    )
    both = (
        hypothesis(exact, "C(g) = 0"),
        hypothesis(exact, "`C(g)[T.b]` = 0, `C(g)[T.c]` = 0"),
    )
    assert both[0].beliefs == both[1].beliefs


def test_a_term_is_alone_in_its_relation_and_no_smooth_function():
    with pytest.raises(
        pr.DataError,
        match=r"the term 'C\(g\)' stands for all its columns, alone in its relation",
    ):
        hypothesis(fitted("line", "gaussian", "x1 + C(g)"), "C(g) = x1")
    smooth = pr.gam("line ~ s(x1) + x2", rows())
    with pytest.raises(
        pr.Incompatible,
        match=r"s\(x1\) is a smooth function.*'s\(x1\) is linear' tests its range",
    ):
        hypothesis(smooth, "s(x1) = 0")


def test_a_name_alone_is_that_it_is_zero():
    rng = np.random.default_rng(3)
    table = {
        "y": rng.normal(size=60),
        "x": rng.normal(size=60),
        "g": np.resize(list("abc"), 60),
    }
    fit = pr.ols("y ~ x + C(g)", table)
    for name in ("x", "C(g)", "`C(g)[T.b]`"):
        alone, written = pr.hypothesis(fit, name), pr.hypothesis(fit, f"{name} = 0")
        assert alone.null == written.null
        assert {k: t.p for k, t in alone.tests.items()} == {
            k: t.p for k, t in written.tests.items()
        }
    assert (
        pr.hypothesis(fit, "x, C(g)")["Wald"].df
        == pr.hypothesis(fit, "x = 0, C(g) = 0")["Wald"].df
    )
    for other in ("2*x", "x + 1", "-x", "x + `C(g)[T.b]`"):
        with pytest.raises(pr.DataError, match="no relation"):
            pr.hypothesis(fit, other)


def separated() -> tuple[pr.Fit, pd.DataFrame]:
    cells = pd.DataFrame(
        {
            "c": list("ABAB"),
            "t": [1, 1, 2, 2],
            "k": [28, 23, 30, 24],
            "n": [28, 26, 30, 30],
        }
    )
    with pytest.warns(pr.ProbregWarning):
        return pr.fit(pr.Model.from_formula("p(k, n) ~ c + C(t)", cells)), cells


def test_coefficients_at_infinity_have_the_likelihood_ratio_and_the_score():
    fit, cells = separated()
    found = hypothesis(fit, "c[T.B] = 0")
    assert set(found.tests) == {"LR", "score"}
    assert found["LR"].statistic == pytest.approx(13.5616, abs=5e-5)
    part = cells[cells.c == "B"]  # in the limit the rows of A have probability one
    limit, null = (
        pr.fit(pr.Model.from_formula("p(k, n) ~ C(t)", rows)) for rows in (part, cells)
    )
    np.testing.assert_allclose(
        found["LR"].statistic,
        2 * (limit.log_likelihood - null.log_likelihood),
        rtol=1e-9,
    )
    nested = pr.compare_models({"both": fit, "one": null}, test="lr").tests
    np.testing.assert_allclose(nested["statistic"], found["LR"].statistic, rtol=1e-9)
    # the score test of one column beside others is that of statsmodels
    X = np.column_stack([np.ones(4), cells.c == "B", cells.t == 2]).astype(float)
    glm = sm.GLM(
        np.column_stack([cells.k, cells.n - cells.k]),
        X[:, [0, 2]],
        family=sm.families.Binomial(),
    )
    theirs = glm.score_test(glm.fit(tol=1e-14).params, exog_extra=X[:, [1]])[0].item()
    np.testing.assert_allclose(found["score"].statistic, theirs, rtol=1e-8)
    # coefficients that have an estimate keep Wald's test, and the others are those of the rows that count in the limit
    ours, alone = hypothesis(fit, "C(t) = 0"), hypothesis(limit, "C(t) = 0")
    for name in ("Wald", "z", "LR", "score"):
        np.testing.assert_allclose(
            ours[name].statistic, alone[name].statistic, rtol=1e-7
        )
    assert hypothesis(fit, "c = 0, C(t) = 0")["LR"].df == (2,)
    with pytest.raises(pr.Incompatible, match="infinite"):
        hypothesis(fit, "c[T.B] < 0")
    with pytest.raises(pr.NotConverged):
        hypothesis(fit, "c[T.B] = 0", covariance="HC0")


@pytest.mark.parametrize(("likelihood", "response", "column"), [
    ("bernoulli", "binary", "a"), ("poisson", "count", "a"), ("negative_binomial", "count", "a"), ("categorical", "kind", "b"),
])  # fmt: skip
def test_the_ratio_of_a_separated_level_is_that_of_the_rows_without_it(
    likelihood, response, column
):
    data = rows()
    data.loc[data.g == column, "binary"], data.loc[data.g == column, "count"] = 1, 0
    data.loc[data.g == column, "kind"] = "s"
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(
            pr.Model.from_formula(f"{response} ~ g + x1", data, likelihood=likelihood)
        )

    def top(right, part):
        return pr.fit(
            pr.Model.from_formula(f"{response} ~ {right}", part, likelihood=likelihood)
        ).log_likelihood

    rest = data[data.g != column]
    lr = {
        "g = 0": top("g + x1", rest) - top("x1", data),
        "x1 = 0": top("g + x1", rest) - top("g", rest),
    }
    for text, half in lr.items():
        np.testing.assert_allclose(
            hypothesis(fit, text)["LR"].statistic, 2 * half, rtol=1e-6
        )
        assert hypothesis(fit, text)["score"].statistic > 0


def test_a_null_that_separates_all_rows_has_a_ratio_of_zero_and_no_score_test():
    x = np.linspace(-1, 1, 20)
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(
            pr.Model.from_arrays(
                np.stack([x, np.cos(9 * x)], 1), x > 0, likelihood="bernoulli"
            )
        )
    assert hypothesis(fit, "x1 = 0")["LR"].statistic == pytest.approx(
        40 * np.log(2), rel=0.1
    )
    found = hypothesis(fit, "x2 = 0")
    assert found["LR"].statistic == pytest.approx(0.0, abs=1e-9)
    assert "score" not in found.tests


@pytest.mark.parametrize("scale", [0.3, 2.0])
def test_bayes_factor_of_a_quadrature_posterior_is_a_ratio_of_evidences(scale):
    """The densities of the equality are exact, so both routes agree to rounding."""
    data = rows(n=40).assign(both=lambda d: d["x1"] + d["x2"])

    def fit_terms(terms: str, **sd: float) -> pr.Fit:
        model = pr.Model.from_formula(f"line ~ {terms}", data)
        sd = {"Intercept": 3.0, **sd}
        model = model.with_prior(
            {name: pr.Normal(sd[name]) for name in model.design.columns}
        )
        return pr.fit(model.with_aux(sigma=pr.priors.HalfNormal(scale)), "posterior")

    full = fit_terms("x1 + x2", x1=0.7, x2=0.7)
    assert full.method.name == "quadrature"
    # equal coefficients under Normal(0.7) each have precision 2 / 0.7^2
    restricted_fits = {
        "x2 = 0": fit_terms("x1", x1=0.7),
        "x1 = x2": fit_terms("both", both=0.7 / np.sqrt(2.0)),
    }
    for text, small in restricted_fits.items():
        ratio = (
            small.solution.stats["log_evidence"] - full.solution.stats["log_evidence"]
        )
        assert hypothesis(full, text).log_bayes_factor == pytest.approx(
            ratio, abs=1e-10
        )
    both = fit_terms("x2 - 1", x2=0.7)
    ratio = both.solution.stats["log_evidence"] - full.solution.stats["log_evidence"]
    assert hypothesis(full, "Intercept = 0, x1 = 0").log_bayes_factor == pytest.approx(
        ratio, abs=1e-10
    )
    raw = {"Intercept": pr.Normal(3.0), "x1": pr.Normal(0.7)}
    relative = raw | {"x2": pr.Normal(0.7, sigma_units=True)}
    one, two = (
        pr.fit(m, "quadrature")
        for m in (
            restricted_fits["x2 = 0"].model.with_prior(raw),
            full.model.with_prior(relative),
        )
    )  # fmt: skip
    ratio = one.solution.stats["log_evidence"] - two.solution.stats["log_evidence"]
    assert hypothesis(two, "x2 = 0").log_bayes_factor == pytest.approx(ratio, abs=1e-10)


@pytest.mark.parametrize("text", ["x1 = 0", "x1 = 0, x2 = 0", "x1 = 0, Intercept = 1"])
def test_bayes_factor_under_priors_in_units_of_sigma_is_a_ratio_of_evidences(text):
    """Both models have the same prior of sigma, which is not its prior given the equality."""
    data = rows(n=40)
    sd = {
        "Intercept": pr.Normal(3.0),
        "x1": pr.Normal(0.7, sigma_units=True, location=0.2),
        "x2": pr.Normal(0.7, sigma_units=True),
    }

    def fit_terms(held: dict[str, float]) -> pr.Fit:
        kept = [name for name in sd if name not in held]
        right = " + ".join([name for name in kept if name != "Intercept"] or ["1"])
        model = pr.Model.from_formula(
            f"line ~ {right}" + (" - 1" if "Intercept" in held else ""),
            data,
            offset=np.full(40, held.get("Intercept", 0.0)),
        )
        prior = {name: sd[name] for name in kept}
        return pr.fit(
            model.with_prior(prior).with_aux(sigma=pr.priors.InverseGamma(2.0, 1.5)),
            "quadrature",
        )

    held = {
        part.split(" = ")[0]: float(part.split(" = ")[1]) for part in text.split(", ")
    }
    full, small = fit_terms({}), fit_terms(held)
    ratio = small.solution.stats["log_evidence"] - full.solution.stats["log_evidence"]
    assert hypothesis(full, text).log_bayes_factor == pytest.approx(ratio, abs=1e-9)


@pytest.mark.parametrize("method", ["conjugate", "quadrature"])
def test_the_bayes_factor_of_a_g_prior_is_that_of_liang(method):
    """Liang et al. 2008, equation 6: (1 + g)^((n - 1 - p) / 2) (1 + g (1 - R^2))^(-(n - 1) / 2), under p(sigma) = 1 / sigma."""
    data = rows(n=40)
    n, p, g = 40, 2, 9.0
    model = pr.Model.from_formula("line ~ x1 + x2", data, prior=pr.priors.GPrior(g))
    share = pr.fit(model.with_prior(pr.Flat())).r_squared
    against_null = 0.5 * (n - 1 - p) * np.log1p(g)
    against_null -= 0.5 * (n - 1) * np.log1p(g * (1.0 - share))
    found = hypothesis(pr.fit(model, method), "x1 = 0, x2 = 0").log_bayes_factor
    assert found == pytest.approx(-against_null, abs=1e-9)


def test_a_narrow_prior_of_sigma_is_nearly_a_held_sigma():
    model = pr.Model.from_formula(
        "line ~ x1 + x2", rows(n=40), prior=pr.Normal(1.0, sigma_units=True)
    )
    narrow = pr.fit(model.with_aux(sigma=pr.priors.Uniform(1.0, 1.001)), "quadrature")
    held = pr.fit(model.with_aux(sigma=1.0005), "conjugate")
    np.testing.assert_allclose(narrow.std_error, held.std_error, rtol=1e-5)
    bayes = [hypothesis(fit, "x1 = 0").log_bayes_factor for fit in (narrow, held)]
    assert bayes[0] == pytest.approx(bayes[1], abs=1e-4)


@pytest.mark.parametrize("likelihood", ["quantile", "absolute", "epsilon_insensitive"])
@pytest.mark.parametrize("text", ["x = 0", "x = 0, z = 0"])
def test_a_loss_with_kinks_has_the_wald_test_alone(likelihood, text):
    r = np.random.default_rng(0)
    data = {name: r.normal(size=80) for name in "yxz"}
    fit = pr.fit(pr.Model.from_formula("y ~ x + z", data, likelihood=likelihood))
    tested = pr.hypothesis(fit, text)
    assert not {"LR", "score"} & set(tested.tests)
    assert any("likelihood ratio" in note for note in tested.notes)


def test_the_likelihood_ratio_of_a_gaussian_term_needs_no_rows(tmp_path):
    fit = fitted("line", "gaussian", "x1 + g")
    moments = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    pd.testing.assert_frame_equal(pr.anova(moments, "lr"), pr.anova(fit, "lr"))


def test_far_from_the_data_there_is_a_likelihood_ratio_and_no_score_test():
    rows_of_six = {"x": [1.0, 2.0, 3.0, -1.0, -2.0, 0.5], "y": [1, 1, 1, 0, 1, 0]}
    fit = pr.fit(pr.Model.from_formula("y ~ x", rows_of_six, likelihood="bernoulli"))
    tests = hypothesis(fit, "x = -100").tests
    assert "score" not in tests
    offset = -100.0 * np.array(rows_of_six["x"])
    fixed = pr.Model.from_formula(
        "y ~ 1", rows_of_six, likelihood="bernoulli", offset=offset
    )
    ratio = 2.0 * (fit.log_likelihood - pr.fit(fixed).log_likelihood)
    np.testing.assert_allclose(tests["LR"].statistic, ratio, rtol=1e-6)


@pytest.mark.parametrize(
    "text", ["Intercept = 0", "x = 1000"]
)  # no row's mean is positive
def test_a_restricted_model_without_a_maximum_leaves_walds_test(text):
    x = np.linspace(-1.0, 1.0, 40)
    y = np.random.default_rng(0).poisson(1.0, 40)
    likelihood = pr.Poisson(link="identity")
    model = pr.Model.from_formula("y ~ x", {"y": y, "x": x}, likelihood=likelihood)
    found = hypothesis(pr.fit(model), text)
    assert [*found.tests] == ["Wald", "z"]
    assert "no maximum" in found.notes[0]


def test_the_probability_that_a_scale_is_below_a_number_is_a_share_of_draws():
    fit = pr.fit(
        fitted("line", "gaussian", aux={"sigma": pr.HalfNormal(1.0)}).model,
        pr.Quadrature(draws=200),
    )
    sigma = fit.solution.posterior["sigma"]
    share = hypothesis(fit, "sigma < 0.95").beliefs[0].value
    assert 0.0 < share < 1.0
    assert share == np.mean(sigma < 0.95)


def test_combinations_of_a_posterior_without_nodes_of_sigma_are_of_its_draws():
    prior = pr.Normal(pr.HalfNormal(1.0))
    known = {"sigma": 0.9}
    model = fitted("line", "gaussian", "x1 + x2", prior=prior, aux=known).model
    fit = pr.fit(model, pr.Integrate(nodes=64, draws=200))
    draws = fit.solution.posterior.flat["beta"][:, 1:, 0]
    found = hypothesis(fit, "x1 > x2")
    assert found.beliefs[0].value == np.mean(draws[:, 0] > draws[:, 1])
    np.testing.assert_allclose(
        found.estimates["estimate"], [np.mean(draws[:, 0] - draws[:, 1])]
    )


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")  # few draws
def test_a_bayes_factor_is_printed_if_it_is_exact():
    flat_scale = pr.Normal(1.0, sigma_units=True)
    held = fitted("line", "gaussian", prior=pr.Normal(1.0), aux={"sigma": 0.9}).model
    free = fitted("line", "gaussian", prior=flat_scale).model
    exact = hypothesis(pr.fit(held, "conjugate"), "x2 = 0")
    assert f"(Savage-Dickey): {exact.log_bayes_factor:.4g}" in str(exact)
    # laplace is exact for no unknown sigma
    approximate = hypothesis(pr.fit(free, "laplace"), "x2 = x3")
    assert approximate.log_bayes_factor is None
    assert "exact" not in str(approximate)
    chains = pr.fit(
        held.with_aux(sigma=pr.HalfNormal(1.0)), pr.NUTS(draws=20, tune=50), seed=1
    )
    assert hypothesis(chains, "x2 = x3").log_bayes_factor is None


def test_the_points_of_a_likelihood_ratio_by_quadrature_are_noted():
    rng = np.random.default_rng(3)
    effects = np.repeat(rng.normal(size=12), 5)
    data = {"y": rng.binomial(1, 1 / (1 + np.exp(-effects))), "g": np.repeat(list("abcdefghijkl"), 5)}  # fmt: skip
    model = pr.Model.from_formula("y ~ 1 + (1 | g)", data, likelihood="bernoulli")
    fit = pr.fit(model, pr.Evidence(criterion="ML", points=5))
    assert "5 points" in hypothesis(fit, "sd(Intercept | g) = 1").notes[-1]
