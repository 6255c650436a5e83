"""Models side by side: leave-one-out against refits, criteria against statsmodels, stacking against its optimum."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import probreg as pr
from probreg.comparison import compare_models
from probreg.comparison.models.model_comparison import held_out_log_density, stacking
from probreg.fits.inference_data import observation_rows
from probreg.fits.leave_out import modes, rows as row_scores
from probreg.fits.leave_out.rows import leave_one_out


def rows(seed: int = 4, n: int = 40) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.normal(50.0, 5.0, n), rng.normal(size=n)
    eta = 0.2 * (x - 50) + 0.5 * z
    frame = pd.DataFrame(
        {
            "x": x,
            "z": z,
            "line": eta + rng.normal(size=n),
            "count": rng.poisson(np.exp(0.4 * eta)),
        }
    )
    frame["binary"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    u = np.stack([np.zeros(n), 0.5 * eta, -0.5 * eta], 1) + rng.gumbel(size=(n, 3))
    frame["kind"] = np.array(["r", "s", "t"])[u.argmax(1)]
    return frame


def fitted(
    response: str, likelihood="gaussian", right: str = "x + z", method="auto", **more
) -> pr.Fit:
    return pr.fit(
        pr.Model.from_formula(
            f"{response} ~ {right}", rows(), likelihood=likelihood, **more
        ),
        method,
    )


def by_refitting(fit: pr.Fit, some: range) -> np.ndarray:
    """log p(y_i | the rest) of some rows, each left out and the rest fitted by the same method."""
    out = []
    for i in some:
        d = fit.model.design
        rest = replace(fit.model, design=d.take(np.arange(d.n) != i))
        again = pr.fit(rest, fit.method)
        one = replace(again, model=replace(fit.model, design=d.take([i])))
        out.append(float(one.predictive().log_prob(one.model.design.observed)[0]))
    return np.array(out)


@pytest.mark.parametrize("case", [
    {"response": "line"}, {"response": "line", "aux": {"sigma": 0.8}},
    {"response": "line", "prior": pr.Normal(0.4), "method": "newton"}, {"response": "line", "likelihood": pr.StudentT(nu=5.0)},
    {"response": "line", "prior": pr.Normal(0.4, sigma_units=True)}, {"response": "binary", "likelihood": "bernoulli"},
    {"response": "count", "likelihood": "poisson", "offset": np.linspace(-0.5, 0.5, 40)},
    {"response": "kind", "likelihood": "categorical", "prior": pr.Normal(0.7)},
], ids=str)  # fmt: skip
def test_leaving_out_is_refitting_without_the_row(case):
    fit = fitted(**case)
    found = leave_one_out(fit)
    # Newton stops within 1e-7 standard errors in both, so that a log density of one row is right to about as much.
    some = range(0, 40, 4)
    np.testing.assert_allclose(
        found.elpd[some], by_refitting(fit, some), rtol=1e-6, atol=1e-7
    )
    assert not found.warnings


@pytest.mark.parametrize("more", [{}, {"prior": pr.Normal(0.5, sigma_units=True), "aux": {"sigma": pr.priors.InverseGamma(2.0, 1.5)}}, {"prior": pr.Normal(0.5), "aux": {"sigma": 0.9}}])  # fmt: skip
def test_a_conjugate_posterior_is_left_out_exactly(more):
    fit = fitted("line", method="conjugate", **more)
    only_draws = replace(
        fit.solution, draws=replace(fit.solution.draws, elliptical=False)
    )
    found, importance = (
        leave_one_out(fit),
        compare_models({"a": replace(fit, solution=only_draws)}),
    )
    assert found.method == "closed form"
    assert importance.table["loo"].item() == "PSIS"
    # PSIS from 4,000 draws errs by about sqrt(var / 4000) per observation: a few hundredths of their sum.
    assert found.elpd.sum() == pytest.approx(
        importance.table["elpd_loo"].item(), abs=0.1
    )
    np.testing.assert_allclose(found.elpd, importance.pointwise.sel(fit="a"), atol=0.05)
    if not fit.model.unknown:
        return
    quadrature = fitted("line", method="quadrature", **more)
    assert found.elpd.sum() == pytest.approx(
        leave_one_out(quadrature).elpd.sum(), abs=0.1
    )


def test_least_squares_under_a_flat_prior_has_the_externally_studentised_density():
    from scipy import stats

    fit = fitted("line", method="conjugate")
    X, y = fit.model.design.X, fit.model.design.observed
    by_hand = []
    for i in range(len(y)):
        A, b = np.delete(X, i, 0), np.delete(y, i)
        beta, rss = np.linalg.lstsq(A, b)[:2]
        s2 = rss[0] / (len(b) - 3)
        wide = np.sqrt(s2 * (1 + X[i] @ np.linalg.solve(A.T @ A, X[i])))
        by_hand.append(stats.t.logpdf(y[i], len(b) - 3, X[i] @ beta, wide))
    np.testing.assert_allclose(leave_one_out(fit).elpd, by_hand, rtol=1e-8)


@pytest.mark.parametrize("case", [{"response": "line"}, {"response": "line", "method": "conjugate"}, {"response": "count", "likelihood": "poisson"}], ids=str)  # fmt: skip
def test_a_row_of_weight_three_is_three_observations(case):
    data = rows()
    w = np.arange(len(data)) % 3 + 1
    long = data.loc[np.repeat(data.index, w)].reset_index(drop=True)
    case = dict(case)
    response, method = case.pop("response"), case.pop("method", "auto")
    short = pr.fit(
        pr.Model.from_formula(f"{response} ~ x + z", data, weights=w, **case), method
    )
    full = pr.fit(pr.Model.from_formula(f"{response} ~ x + z", long, **case), method)
    np.testing.assert_allclose(
        leave_one_out(short).elpd, leave_one_out(full).elpd, rtol=1e-6
    )
    a, b = compare_models({"w": short}).table, compare_models({"w": full}).table
    same = ["elpd_loo", "se_loo", "p_loo"] + (
        [] if method == "conjugate" else ["k", "AIC", "AICc", "BIC"]
    )
    np.testing.assert_allclose(a[same].astype(float), b[same].astype(float), rtol=1e-6)


SAMPLING = np.random.default_rng(9).uniform(0.2, 4.0, 40)


@pytest.mark.parametrize(
    ("response", "likelihood", "prior"),
    [
        ("line", "gaussian", pr.Flat()),
        ("line", pr.StudentT(nu=4.0), pr.Normal(0.5)),
        ("binary", "bernoulli", pr.Normal(0.5)),
        ("count", "poisson", pr.Flat()),
        ("kind", "categorical", pr.Normal(0.5)),
    ],
)
def test_a_sampling_weight_leaves_with_its_row(response, likelihood, prior):
    """The truth is a refit of the other rows; the score is w_i log p(y_i), w of sum n."""
    frame, n = rows(), 40

    def model_of(kept):
        weights = pr.weights.sampling(SAMPLING[kept])
        table = frame.iloc[kept]
        return pr.Model.from_formula(
            f"{response} ~ x + z",
            table,
            likelihood=likelihood,
            prior=prior,
            weights=weights,
        )

    fit = pr.fit(model_of(np.arange(n)))
    d, expected, some = fit.model.design, [], range(0, n, 4)
    for i in some:
        again = pr.fit(model_of(np.delete(np.arange(n), i)))
        eta, aux = (
            d.X[[i]] @ again.solution.beta,
            {**fit.model.fixed, **again.solution.aux},
        )
        log_p = fit.model.likelihood.log_prob(d.observed[[i]], eta, **aux)
        expected.append(float(log_p[0]) * SAMPLING[i] * n / SAMPLING.sum())
    found = compare_models({"fit": fit})
    scores = found.pointwise.sel(fit="fit").values
    np.testing.assert_allclose(scores[some], expected, rtol=1e-6)
    assert found.table.loc["fit", "elpd_loo"] == pytest.approx(scores.sum(), rel=1e-12)
    assert np.isnan(found.table.loc["fit", "AIC"])


def test_equal_sampling_weights_change_no_score():
    weights = [None, pr.weights.sampling(np.full(40, 3.0))]
    rights = ("x + z", "x")
    one, other = (
        compare_models({r: fitted("count", "poisson", r, weights=w) for r in rights})
        for w in weights
    )
    for column in ("elpd_loo", "se_loo", "elpd_diff", "se_diff", "weight", "p_loo"):
        np.testing.assert_allclose(
            other.table[column], one.table[column], rtol=1e-6, atol=1e-9
        )
    assert other.difference(*rights) == pytest.approx(one.difference(*rights))


def test_stacking_by_shares_is_stacking_of_repeated_rows():
    log_p = np.log(np.random.default_rng(2).uniform(0.05, 1.0, (12, 3)))
    times = np.arange(12) % 3 + 1
    np.testing.assert_allclose(
        stacking(log_p, times / times.sum()),
        stacking(np.repeat(log_p, times, axis=0)),
        atol=1e-6,
    )


def test_a_row_without_sampling_weight_says_nothing():
    weight = SAMPLING * (np.arange(40) != 3)
    fits = {
        r: fitted("count", "poisson", r, weights=pr.weights.sampling(weight))
        for r in ("x + z", "x")
    }
    some = {
        r: pr.fit(
            pr.Model.from_formula(
                f"count ~ {r}",
                rows().drop(3),
                likelihood="poisson",
                weights=pr.weights.sampling(np.delete(weight, 3)),
            )
        )
        for r in ("x + z", "x")
    }
    one, other = compare_models(fits).table, compare_models(some).table
    for column in ("elpd_loo", "elpd_diff", "weight"):
        np.testing.assert_allclose(one[column], other[column], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize(("response", "likelihood", "peer"), [("binary", "bernoulli", "Logit"), ("count", "poisson", "Poisson"), ("kind", "categorical", "MNLogit"), ("line", "gaussian", "OLS")])  # fmt: skip
def test_criteria_are_those_of_statsmodels(response, likelihood, peer):
    sm = pytest.importorskip("statsmodels.api")
    data = rows()
    y = pd.Categorical(data["kind"]).codes if response == "kind" else data[response]
    options = {} if peer == "OLS" else {"disp": 0, "tol": 1e-11, "method": "newton"}
    theirs = getattr(sm, peer)(y, sm.add_constant(data[["x", "z"]])).fit(**options)
    ours = compare_models({"a": fitted(response, likelihood)}).table.iloc[0]
    extra = 1 if peer == "OLS" else 0  # statsmodels does not count sigma
    assert ours["k"] == len(np.ravel(theirs.params)) + extra
    assert ours["log_lik"] == pytest.approx(theirs.llf, rel=1e-9)
    assert ours["AIC"] == pytest.approx(theirs.aic + 2 * extra, rel=1e-9)
    assert ours["BIC"] == pytest.approx(theirs.bic + np.log(40) * extra, rel=1e-9)
    k = ours["k"]
    assert ours["AICc"] == pytest.approx(ours["AIC"] + 2 * k * (k + 1) / (40 - k - 1))


def test_differences_are_paired():
    fits = {
        "full": fitted("line"),
        "x": fitted("line", right="x"),
        "bayes": fitted("line", method="conjugate"),
    }
    found = compare_models(fits)
    a, b = found.pointwise.sel(fit="x").values, found.pointwise.sel(fit="full").values
    gap, se = found.difference("x", "full")
    assert gap == pytest.approx((a - b).sum())
    assert se == pytest.approx(np.sqrt(40) * (a - b).std(ddof=1))
    best = found.table.index[0]
    assert found.table.loc["x", "elpd_diff"] == pytest.approx(
        found.difference("x", best)[0]
    )
    # the rows are the same, so noise cancels
    assert found.table.loc["x", "se_diff"] < found.table.loc["x", "se_loo"]
    assert (found.table["elpd_diff"] <= 0).all()
    assert found.table["weight"].sum() == pytest.approx(1.0)
    assert np.isnan(found.table.loc["bayes", "AIC"])
    assert "bayes: no AIC or BIC" in repr(found)


def by_em(log_p, steps):
    p = np.exp(log_p)
    w = np.full(p.shape[1], 1.0 / p.shape[1])
    for _ in range(steps):
        w = w * (p / (p @ w)[:, None]).mean(0)
    return w


@pytest.mark.parametrize("apart", [1e-3, 0.3])
@pytest.mark.parametrize("models", [2, 5])
def test_longer_steps_of_stacking_end_where_em_would_or_higher(models, apart):
    rng = np.random.default_rng(models)
    log_p = (
        -0.5 * (rng.normal(size=(300, 1)) + apart * rng.normal(size=(300, models))) ** 2
    )
    p, w = np.exp(log_p), stacking(log_p)
    assert w.min() >= 0.0
    assert w.sum() == pytest.approx(1.0, abs=1e-12)
    # the condition of the maximum, and a score that many steps of EM do not pass by more than its gap
    assert (p / (p @ w)[:, None]).mean(0).max() <= 1.0 + 1e-9
    assert np.log(p @ w).mean() >= np.log(p @ by_em(log_p, 3000)).mean() - 1e-9
    if models == 2 and apart == 0.3:
        np.testing.assert_allclose(w, by_em(log_p, 3000), atol=1e-5)
    twice = stacking(log_p[:, [*range(models), 0]])
    # equal models have equal weights
    assert twice[0] == pytest.approx(twice[-1], abs=1e-6)
    assert twice[0] + twice[-1] == pytest.approx(
        w[0], abs=2e-3 if apart < 0.1 else 1e-4
    )


def test_stacking_finds_the_best_mixture_and_the_truth():
    from scipy.optimize import minimize

    rng = np.random.default_rng(8)
    log_p = rng.normal(size=(200, 4))
    w = stacking(log_p)
    assert w.sum() == pytest.approx(1.0)
    assert (w >= 0).all()

    def loss(u):
        e = np.exp(u - u.max())
        return -np.log(np.exp(log_p) @ (e / e.sum())).sum()

    best = minimize(loss, np.zeros(4), tol=1e-12).fun
    assert -np.log(np.exp(log_p) @ w).sum() == pytest.approx(best, abs=1e-5)
    x = rng.normal(size=400)
    y = 1.0 + x + rng.normal(size=400)
    data = {"y": y, "x": x, "noise": rng.normal(size=400)}
    right = {
        t: pr.fit(pr.Model.from_formula(f"y ~ {t}", data)) for t in ("x", "noise", "1")
    }
    assert compare_models(right).table["weight"]["x"] > 0.95
    with pytest.raises(
        pr.DataError, match="observation 1 has log density -inf under model 0"
    ):
        stacking(np.array([[0.0, 0.0], [-np.inf, 0.0]]))


def test_held_out_rows_are_scored_by_the_predictive_density():
    data = rows(n=60)
    train, test = data.iloc[:40], data.iloc[40:]
    for response, likelihood in (
        ("line", "gaussian"),
        ("binary", "bernoulli"),
        ("kind", "categorical"),
    ):
        model = pr.Model.from_formula(
            f"{response} ~ x + z", train, likelihood=likelihood
        )
        fit = pr.fit(model)
        p = fit.predict(test)["mean"].values
        if response == "line":
            by_hand = -0.5 * np.log(2 * np.pi * fit.aux["sigma"] ** 2) - (
                test["line"] - p
            ) ** 2 / (2 * fit.aux["sigma"] ** 2)
        elif response == "binary":
            by_hand = np.log(np.where(test["binary"] == 1, p, 1 - p))
        else:
            by_hand = np.log(p[np.arange(20), pd.Categorical(test["kind"]).codes])
        np.testing.assert_allclose(held_out_log_density(fit, test), by_hand, rtol=1e-10)
        row = compare_models({"a": fit}, heldout=test).table.iloc[0]
        assert row["heldout"] == pytest.approx(np.sum(by_hand))
        assert row["se_heldout"] == pytest.approx(np.sqrt(20) * np.std(by_hand, ddof=1))
    arrays = pr.fit(
        pr.Model.from_arrays(train[["x", "z"]], train["line"], response="line")
    )
    np.testing.assert_allclose(
        held_out_log_density(arrays, test),
        held_out_log_density(fitted_line(train), test),
        rtol=1e-9,
    )
    with pytest.raises(pr.DataError, match="no column 'line', the response"):
        held_out_log_density(arrays, test[["x", "z"]])


def fitted_line(train: pd.DataFrame) -> pr.Fit:
    return pr.fit(pr.Model.from_formula("line ~ x + z", train))


def test_a_row_of_trials_is_scored_as_one_observation():
    table = {"s": [3, 5, 9, 12], "t": [20, 20, 20, 20], "x": [0.0, 1.0, 2.0, 3.0]}
    fit = pr.fit(pr.Model.from_formula("p(s, t) ~ x", table, likelihood="bernoulli"))
    found = compare_models({"a": fit})
    assert found.pointwise.sizes["obs"] == 4
    p = fit.predict({"x": table["x"]})["mean"].values
    s = np.array(table["s"])
    np.testing.assert_allclose(
        held_out_log_density(fit, table), stats.binom.logpmf(s, 20, p), rtol=1e-10
    )
    row, k, n = found.table.loc["a"], 2, 4
    assert row["AICc"] == pytest.approx(
        row["AIC"] + 2 * k * (k + 1) / (n - k - 1), rel=1e-12
    )
    assert row["BIC"] == pytest.approx(k * np.log(n) - 2 * row["log_lik"], rel=1e-12)


def test_other_observations_are_refused_by_name():
    data = rows()
    fit = fitted("line")
    refused = {
        "response: line against count": fitted("count", "poisson"),
        "number of rows: 40 against 39": pr.fit(
            pr.Model.from_formula("line ~ x", data.iloc[1:])
        ),
        "response: row 2 has .* against 9": pr.fit(
            pr.Model.from_formula(
                "line ~ x",
                data.assign(line=np.where(data.index == 2, 9.0, data["line"])),
            )
        ),
        "total weight: 40 against 80": pr.fit(
            pr.Model.from_formula("line ~ x", data, weights=np.full(40, 2))
        ),
    }
    for said, other in refused.items():
        with pytest.raises(pr.DataError, match=said):
            compare_models({"a": fit, "b": other})
    with pytest.raises(pr.Incompatible, match="a gaussian and a poisson likelihood"):
        compare_models({"a": fitted("count"), "b": fitted("count", "poisson")})
    # Which level is the event, and which the reference, is a matter of words.
    a, b = (
        pr.fit(
            pr.Model.from_formula("binary ~ x", data, likelihood="bernoulli", event=e)
        )
        for e in (0, 1)
    )
    assert compare_models({"a": a, "b": b}).difference("a", "b")[0] == pytest.approx(
        0.0, abs=1e-6
    )
    robust = compare_models({"gauss": fit, "student": fitted("line", "student")})
    assert np.isfinite(robust.table["elpd_loo"].astype(float)).all()


def test_what_cannot_be_left_out_is_said():
    data = rows()
    data["only"] = (np.arange(40) == 7).astype(float)
    alone = pr.fit(pr.Model.from_formula("line ~ x + only", data))
    found = compare_models({"a": alone, "b": fitted("line")})
    assert any(
        "without row 7 a coefficient or sigma has no estimate" in n for n in found.notes
    )
    assert np.isnan(found.table.loc["a", "elpd_loo"])
    assert found.table.loc["b", "weight"] == 1.0
    with pytest.warns(pr.ProbregWarning):
        separated = pr.fit(
            pr.Model.from_arrays(
                np.arange(8.0), np.arange(8) > 3, likelihood="bernoulli"
            )
        )
    other = pr.fit(separated.model.with_prior(pr.Normal(1.0)))
    both = compare_models({"ML": separated, "mode": other})
    assert any(
        n.startswith("ML: no maximum likelihood estimate exists") for n in both.notes
    )
    assert both.table.index[0] == "mode"


def test_evidence_under_other_flat_columns_is_said_to_be_no_comparison():
    prior = {"z": pr.Normal(pr.HalfNormal(1.0))}
    one, more = (
        fitted("line", right=r, prior=prior, method="evidence") for r in ("z", "x + z")
    )
    assert any(
        n.startswith("log_evidence: the models differ in flat columns")
        for n in compare_models([one, more]).notes
    )
    again = fitted(
        "line", right="z", prior={"z": pr.Normal(pr.HalfNormal(2.0))}, method="evidence"
    )
    assert not any(
        n.startswith("log_evidence") for n in compare_models([one, again]).notes
    )


def test_numbers_at_estimated_scales_are_noted():
    """They favour their fit: leaving a row out does not estimate the scales again, and their evidence is a maximum."""
    settings = {"prior": pr.Normal(1.0), "aux": {"sigma": pr.HalfNormal(0.3)}}
    fits = {
        "found": fitted("line", method="evidence", **settings),
        "averaged": fitted("line", method="quadrature", right="z", **settings | {"prior": {"Intercept": pr.Normal(2.0), "z": pr.Normal(1.0)}}),
    }  # fmt: skip
    about = [n for n in compare_models(fits).notes if "scales" in n]
    assert [n.split(":")[0] for n in about] == ["found", "log_evidence of found"]
    alone = compare_models({"averaged": fits["averaged"]}).notes
    assert not [n for n in alone if "scales" in n]


def test_groups_have_the_marginal_likelihood_of_ml_and_reml_none_of_it():
    """Balanced one-way groups: y_g ~ N(mu, sigma^2 I + tau^2 11'), whose likelihood is known."""
    rng = np.random.default_rng(4)
    y = rng.normal(size=(8, 1)) + 0.6 * rng.normal(size=(8, 5))
    rows = {"y": y.ravel(), "x": rng.normal(size=40), "g": np.repeat([*"abcdefgh"], 5)}
    means, ml = (
        {"mean": "y ~ 1 + (1 | g)", "line": "y ~ x + (1 | g)"},
        pr.Evidence(criterion="ML"),
    )
    found = pr.compare_models(
        {name: pr.fit(pr.Model.from_formula(f, rows), ml) for name, f in means.items()}
    )
    within = np.square(y - y.mean(1, keepdims=True)).sum() / 32
    between = 5 * np.square(y.mean(1) - y.mean()).sum() / 8
    expected = -0.5 * (
        40 * np.log(2 * np.pi) + 32 * np.log(within) + 8 * np.log(between) + 40
    )
    one = found.table.loc["mean"]
    assert one["log_lik"] == pytest.approx(expected, rel=1e-9)
    assert one["k"] == 3
    assert one["AIC"] == pytest.approx(2 * 3 - 2 * expected, rel=1e-9)
    assert one["BIC"] == pytest.approx(3 * np.log(40) - 2 * expected, rel=1e-9)
    assert found.table["AIC"].notna().all()
    assert not any("AIC" in note for note in found.notes)
    reml = pr.compare_models(
        {name: pr.fit(pr.Model.from_formula(f, rows)) for name, f in means.items()}
    )
    assert reml.table[["AIC", "BIC", "log_evidence"]].isna().all(axis=None)
    assert any(
        "REML compares only models of the same flat columns" in note
        for note in reml.notes
    )


def many_rows(likelihood: str, n: int = 240) -> pr.Model:
    """Rows of which one lies far out and one is a single one of its kind."""
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.normal(size=n), rng.normal(size=n)])
    X[0] = 6.0, -4.0
    eta = 0.3 + X @ [0.5, 0.4]
    noisy = {
        "bernoulli": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int),
        "poisson": rng.poisson(np.exp(eta)),
        "negative_binomial": rng.poisson(np.exp(eta) * rng.gamma(2.0, 0.5, n)),
        "categorical": (
            np.stack([0 * eta, eta, -eta], 1) + rng.gumbel(size=(n, 3))
        ).argmax(1),
        "student": eta + rng.standard_t(4.0, n),
    }
    kind = pr.StudentT(nu=4.0) if likelihood == "student" else likelihood
    more = (
        {"weights": rng.integers(1, 4, n).astype(float)}
        if likelihood == "poisson"
        else {}
    )
    return pr.Model.from_arrays(X, noisy[likelihood], likelihood=kind, **more)


@pytest.mark.parametrize(
    "likelihood",
    ["bernoulli", "poisson", "negative_binomial", "categorical", "student"],
)
def test_one_step_with_refits_in_doubt_is_within_a_hundredth_of_a_nat_of_all_refits(
    likelihood,
):
    fit = pr.fit(many_rows(likelihood))
    found = row_scores.refit_rows(fit, refit_all=100)
    refitted = int(
        re.fullmatch(r"one Newton step, (\d+) of 240 rows refitted", found.method)[1]
    )
    assert 0 < refitted < 240
    exact = row_scores.refit_rows(fit, refit_all=240)
    assert exact.method == "240 refits"
    assert abs((found.elpd - exact.elpd).sum()) < 0.01
    assert np.abs(found.elpd - exact.elpd).max() < 0.01
    # by the slow way, some of them
    observed = observation_rows(fit.model)[0]
    some = np.array([0, 200])
    np.testing.assert_allclose(
        exact.elpd[[np.argmax(observed == i) for i in some]],
        one_by_one(fit, some),
        rtol=1e-6,
    )


def one_by_one(fit: pr.Fit, some: np.ndarray) -> np.ndarray:
    aux = {a: fit.solution.aux[a] for a in fit.model.unknown}
    found = modes.refit_without_rows(
        fit.model, fit.solution.beta, aux, some, shared=False
    )
    return row_scores._log_prob(fit.model, found.eta, found.aux, some)


@pytest.mark.slow
def test_where_one_step_does_not_hold_every_row_is_refitted():
    model = many_rows("bernoulli")
    # the scales are of the rows that are left
    scaled = pr.fit(model.with_prior(pr.Normal(1.0, scaled=True)))
    assert row_scores.refit_rows(scaled, refit_all=100).method == "240 refits"
    found = pr.fit(model)
    near = replace(
        found, solution=replace(found.solution, beta=found.solution.beta + 0.05)
    )  # no mode
    assert row_scores.refit_rows(near, refit_all=100).method == "240 refits"


def test_a_prior_relative_to_the_rows_is_of_the_rows_that_are_left():
    """sigma is known and the prior normal, so that no prior but this one has a closed form."""
    fit = fitted("line", prior=pr.Normal(0.1, scaled=True), aux={"sigma": 0.8})
    d = fit.model.design
    expected = []
    for i in range(d.n):
        rest = pr.fit(replace(fit.model, design=d.take(np.arange(d.n) != i)))
        mean = d.X[i] @ rest.solution.beta[:, 0]
        expected.append(stats.norm.logpdf(d.observed[i], mean, 0.8))
    np.testing.assert_allclose(leave_one_out(fit).elpd, expected, rtol=1e-6)


def test_a_row_without_which_there_is_no_mode_is_named():
    model = many_rows("bernoulli")
    lone = np.zeros((240, 2))
    lone[[7, 9], 0], lone[:, 1] = 1.0, model.design.X[:, 1]
    y = model.design.observed.copy()
    y[7], y[9] = 0.0, 1.0
    fit = pr.fit(pr.Model.from_arrays(lone, y.astype(int), likelihood="bernoulli"))
    found = row_scores.refit_rows(fit, refit_all=100)
    assert np.flatnonzero(np.isnan(found.elpd)).tolist() == [7, 9]
    assert "without rows 7, 9 Newton steps found no mode" in found.warnings[0]


def test_too_many_rows_in_doubt_are_said():
    fit = pr.fit(many_rows("bernoulli"))
    (why,) = row_scores.refit_rows(fit, refit_all=100, most_refits=10).warnings
    assert re.match(
        r"\d+ of 240 rows need a refit, and at most 10 are refitted",
        why,
    )


@pytest.mark.parametrize("prior", [None, pr.Normal(0.1)])
def test_a_row_far_from_the_mode_of_the_others_is_left_out(prior):
    """Newton steps from the mode of all rows do not lead to that of the others, which a fit of them finds."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    y = rng.poisson(np.exp(X @ [1.0, -0.5, 0.2] - 0.5))
    y[0] = 5000
    stated = (
        {} if prior is None else {"prior": dict.fromkeys(["x1", "x2", "x3"], prior)}
    )
    recipe = {"likelihood": "poisson", **stated}
    found = leave_one_out(pr.fit(pr.Model.from_arrays(X, y, **recipe)))
    others = pr.fit(pr.Model.from_arrays(X[1:], y[1:], **recipe))
    eta = others.solution.beta[0, 0] + X[0] @ others.solution.beta[1:, 0]
    np.testing.assert_allclose(
        found.elpd[0], stats.poisson.logpmf(5000, np.exp(eta)), rtol=1e-6
    )
    assert np.isfinite(found.elpd).all()


def test_a_fit_is_compared_with_itself():
    fit = pr.ols("y ~ x", {"y": [1.0, 3.0, 2.0, 5.0, 4.0], "x": range(5)})
    table = compare_models({"a": fit, "b": fit}).table
    assert table["weight"].tolist() == [0.5, 0.5]


def test_counts_of_trials_in_files_are_compared_by_their_sums(tmp_path):
    rng = np.random.default_rng(0)
    n = rng.integers(1, 9, 30)
    data = pd.DataFrame({"s": rng.binomial(n, 0.4), "n": n, "x": rng.normal(size=30)})
    here = pr.fit(pr.Model.from_formula("p(s, n) ~ x", data, likelihood="binomial"))

    def of_file(table: pd.DataFrame) -> pr.Fit:
        table.to_csv(tmp_path / "data.csv", index=False)
        return pr.fit(
            pr.Model.from_files(
                "p(s, n) ~ x", tmp_path / "data.csv", likelihood="binomial"
            )
        )

    aic = compare_models({"here": here, "file": of_file(data)}).table["AIC"]
    assert aic["here"] == pytest.approx(aic["file"], rel=1e-9)
    data.loc[3, "s"] = data.n[3] - data.s[3] + (2 * data.s[3] == data.n[3])
    with pytest.raises(pr.DataError, match="weight of 'failure'"):
        compare_models({"here": here, "file": of_file(data)})


def test_held_out_counts_of_classes_are_read_by_class():
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    counts = rng.multinomial(9, [0.2, 0.3, 0.5], size=30)
    fit = pr.fit(pr.Model.from_arrays(x, counts, likelihood="multinomial"))
    table = pd.DataFrame(counts[:2], columns=list("012")).assign(x1=x[:2])
    p = fit.predictive(table).mean()
    expected = stats.multinomial.logpmf(counts[:2], 9, p)
    np.testing.assert_allclose(held_out_log_density(fit, table), expected, rtol=1e-9)


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")  # not separated
def test_a_classifier_without_probabilities_has_no_score():
    x = np.linspace(-1.0, 1.0, 20)
    model = pr.Model.from_arrays(x, np.arange(20) % 3 > 0, likelihood="bernoulli")
    found = compare_models({"a": pr.fit(model), "b": pr.fit(model, "perceptron")})
    assert "b: perceptron has no probabilities" in found.notes
