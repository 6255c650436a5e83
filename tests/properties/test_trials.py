"""A row that counts trials is one observation, and the same model as its trials written out."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy import stats
from scipy.special import gammaln

import probreg as pr
from probreg.comparison.models.model_comparison import held_out_log_density
from probreg.diagnostics.after import residuals
from probreg.diagnostics.after.influence import influence_measures
from probreg.diagnostics.conformal import SCORES, Split, conformal

N = 40
RNG = np.random.default_rng(12)
X = RNG.normal(size=(N, 2))
TRIALS = RNG.integers(1, 12, N)
K = RNG.binomial(TRIALS, 1 / (1 + np.exp(-0.3 - X @ [0.8, -0.5])))
P = np.exp(np.c_[np.zeros(N), 0.4 + X @ [0.5, 0.0], X @ [-0.2, 0.6]])
COUNTS = RNG.multinomial(TRIALS, P / P.sum(1, keepdims=True))
TABLE = pd.DataFrame(
    {"x": X[:, 0], "z": X[:, 1], "k": K, "n": TRIALS} | dict(zip("abc", COUNTS.T))
)
FORMULAS = {"binomial": "p(k, n) ~ x + z", "multinomial": "counts(a, b, c) ~ x + z"}
COEFFICIENT = {
    "binomial": (gammaln(TRIALS + 1) - gammaln(K + 1) - gammaln(TRIALS - K + 1)).sum(),
    "multinomial": (gammaln(TRIALS + 1) - gammaln(COUNTS + 1).sum(1)).sum(),
}
both = pytest.mark.parametrize("name", list(FORMULAS))


def counted(name: str, **more: Any) -> pr.Model:
    return pr.Model.from_formula(FORMULAS[name], TABLE, likelihood=name, **more)


def apart(name: str, **more: Any) -> pr.Model:
    """The same trials, a row each."""
    tally = np.c_[TRIALS - K, K] if name == "binomial" else COUNTS
    row = np.repeat(np.arange(N), TRIALS)
    y = np.concatenate([np.repeat(np.arange(tally.shape[1]), t) for t in tally])
    single = "bernoulli" if name == "binomial" else "categorical"
    return pr.Model.from_arrays(
        X[row], y, columns=["x", "z"], likelihood=single, **more
    )


PRIORS = [
    pr.Flat(),
    pr.Normal(0.7),
    pr.Laplace(0.3),
    pr.priors.Jeffreys(),
    pr.priors.GPrior(5.0),
]


@pytest.mark.parametrize("prior", PRIORS, ids=lambda p: p.name)
@both
def test_the_mode_and_its_errors_are_those_of_the_rows_written_out(name, prior):
    together, rows = (
        pr.fit(counted(name, prior=prior)),
        pr.fit(apart(name, prior=prior)),
    )
    np.testing.assert_allclose(
        together.solution.beta, rows.solution.beta, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(
        together.std_error.values, rows.std_error.values, rtol=1e-6
    )
    assert together.log_likelihood == pytest.approx(
        rows.log_likelihood + COEFFICIENT[name], rel=1e-10
    )


@both
def test_the_log_posterior_and_its_slopes_are_those_of_the_rows_written_out(name):
    a, b = counted(name, prior=pr.Normal(0.7)), apart(name, prior=pr.Normal(0.7))
    beta = np.random.default_rng(3).normal(size=(5, *a.shape))
    np.testing.assert_allclose(
        a.log_posterior(beta), b.log_posterior(beta) + COEFFICIENT[name], rtol=1e-11
    )
    for x, y in zip(
        a.value_grad_hessian(beta[0])[1:], b.value_grad_hessian(beta[0])[1:]
    ):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        a.information(beta[0]), b.information(beta[0]), rtol=1e-10, atol=1e-11
    )


@both
def test_a_row_is_one_observation(name):
    fit = pr.fit(counted(name))
    assert (fit.model.design.n, fit.model.design.total) == (N, N)
    assert (
        residuals(fit).sizes["obs"]
        == influence_measures(fit).sizes["obs"]
        == fit.predict().sizes["obs"]
        == N
    )
    found = pr.compare_models({"a": fit})
    assert found.pointwise.sizes["obs"] == N
    row, k = found.table.loc["a"], fit.solution.beta.size
    assert row["BIC"] == pytest.approx(
        k * np.log(N) - 2 * fit.log_likelihood, rel=1e-12
    )
    assert row["AICc"] == pytest.approx(
        row["AIC"] + 2 * k * (k + 1) / (N - k - 1), rel=1e-12
    )


@both
def test_leave_one_out_leaves_out_the_whole_row(name):
    fit = pr.fit(counted(name, prior=pr.Normal(1.0)))
    found = pr.compare_models({"a": fit}).pointwise.values[:, 0]
    for i in (0, 17):
        rest = pr.Model.from_formula(
            FORMULAS[name], TABLE.drop(index=i), likelihood=name, prior=pr.Normal(1.0)
        )
        assert found[i] == pytest.approx(
            held_out_log_density(pr.fit(rest), TABLE.iloc[[i]])[0], rel=1e-6
        )


@both
def test_a_row_of_weight_two_is_two_rows_of_trials(name):
    w = np.arange(N) % 3
    kept = np.repeat(np.arange(N), w)
    a, b = (
        pr.fit(counted(name, weights=w)),
        pr.fit(
            pr.Model.from_formula(FORMULAS[name], TABLE.iloc[kept], likelihood=name)
        ),
    )
    np.testing.assert_allclose(a.solution.beta, b.solution.beta, rtol=1e-7, atol=1e-9)
    assert a.log_likelihood == pytest.approx(b.log_likelihood, rel=1e-11)
    np.testing.assert_allclose(
        a.covariance("HC0"), b.covariance("HC0"), rtol=1e-7, atol=1e-12
    )


def test_residuals_of_trials_are_of_the_row():
    fit = pr.fit(counted("binomial"))
    p, n = fit.predict()["mean"].values, TRIALS
    np.testing.assert_allclose(residuals(fit), K / n - p, rtol=1e-12)
    np.testing.assert_allclose(
        residuals(fit, "pearson"), (K - n * p) / np.sqrt(n * p * (1 - p)), rtol=1e-9
    )
    with np.errstate(all="ignore"):
        part = np.nan_to_num(K * np.log(K / (n * p))) + np.nan_to_num(
            (n - K) * np.log((n - K) / (n * (1 - p)))
        )
    np.testing.assert_allclose(
        residuals(fit, "deviance"),
        np.sign(K - n * p) * np.sqrt(2 * part),
        rtol=1e-7,
        atol=1e-9,
    )
    W, D = n * p * (1 - p), fit.model.design.X
    h = W * np.einsum("np,pq,nq->n", D, np.linalg.inv(D.T @ (W[:, None] * D)), D)
    np.testing.assert_allclose(influence_measures(fit)["leverage"], h, rtol=1e-8)
    r = (K - n * p) / np.sqrt(W)
    np.testing.assert_allclose(
        influence_measures(fit)["cook"], r**2 * h / (1 - h) ** 2 / 3, rtol=1e-7
    )
    np.testing.assert_allclose(
        residuals(pr.fit(counted("multinomial"))).sum("level"), 0.0, atol=1e-12
    )


def test_robust_errors_of_trials_are_of_rows():
    fit = pr.fit(counted("binomial"))
    p, D = fit.predict()["mean"].values, fit.model.design.X
    bread = np.linalg.inv(D.T @ ((TRIALS * p * (1 - p))[:, None] * D))
    S = D * (K - TRIALS * p)[:, None]
    np.testing.assert_allclose(
        fit.covariance("HC0"), bread @ S.T @ S @ bread, rtol=1e-7
    )
    g = np.arange(N) // 4
    T = np.array([S[g == c].sum(0) for c in np.unique(g)])
    meat = bread @ T.T @ T @ bread
    np.testing.assert_allclose(
        fit.covariance("cluster", groups=g, small_sample="none"), meat, rtol=1e-7
    )


def test_a_new_observation_is_successes_out_of_its_trials():
    fit = pr.fit(counted("binomial"))
    here = fit.predict(TABLE, 0.9)
    assert (here["new_upper"] <= TABLE["n"].to_numpy()).all()
    np.testing.assert_array_equal(
        fit.predict(TABLE[["x", "z"]], 0.9, trials=TRIALS)["new_lower"],
        here["new_lower"],
    )
    blind = fit.predict(TABLE[["x", "z"]], 0.9)
    np.testing.assert_allclose(blind["mean"], here["mean"], rtol=1e-13)
    assert "new_lower" not in blind
    assert "trials of these rows are not known: pass trials=" in blind.attrs["kind"]
    with pytest.raises(pr.DataError, match="pass trials=, one per row"):
        fit.predictive(TABLE[["x", "z"]]).sample(np.random.default_rng(0))
    one = fit.predictive(TABLE[:1], trials=[10])
    p = float(one.mean()[0])
    np.testing.assert_array_equal(one.quantile(0.8), stats.binom.ppf(0.8, 10, p))
    np.testing.assert_allclose(
        one.cdf(np.array([4.0])), stats.binom.cdf(4, 10, p), rtol=1e-12
    )
    np.testing.assert_allclose(
        one.log_prob(np.array([4.0])), stats.binom.logpmf(4, 10, p), rtol=1e-12
    )
    gaussian = pr.fit(pr.Model.from_formula("k ~ x", TABLE))
    with pytest.raises(
        pr.DataError,
        match="trials= goes with rows that count them; this model is gaussian",
    ):
        gaussian.predict(TABLE, trials=TRIALS)


SPELLINGS = {
    "formula": lambda like, **_: pr.Model.from_formula(
        "p(k, n) ~ x + z", TABLE, likelihood=like
    ),
    "arrays": lambda like, **_: pr.Model.from_arrays(
        X, K, trials=TRIALS, columns=["x", "z"], likelihood=like
    ),
    "blocks": lambda like, **_: pr.Model.from_blocks(
        [
            (X[i : i + 9], K[i : i + 9], None, None, TRIALS[i : i + 9])
            for i in range(0, N, 9)
        ],
        columns=["x", "z"],
        likelihood=like,
    ),
    "parquet": lambda like, path: pr.Model.from_parquet(
        "p(k, n) ~ x + z", path, likelihood=like
    ),
}
CLASSES = {
    "formula": lambda like, **_: pr.Model.from_formula(
        "counts(a, b, c) ~ x + z", TABLE, likelihood=like, reference="b"
    ),
    "arrays": lambda like, **_: pr.Model.from_arrays(
        X, TABLE[["a", "b", "c"]], columns=["x", "z"], likelihood=like, reference="b"
    ),
    "blocks": lambda like, **_: pr.Model.from_blocks(
        [(X[i : i + 9], TABLE[["a", "b", "c"]][i : i + 9]) for i in range(0, N, 9)],
        columns=["x", "z"],
        likelihood=like,
        reference="b",
    ),
    "parquet": lambda like, path: pr.Model.from_parquet(
        "counts(a, b, c) ~ x + z", path, likelihood=like, reference="b"
    ),
}


@pytest.mark.parametrize(
    "likelihood", ["binomial", "bernoulli", "multinomial", "categorical"]
)
@pytest.mark.parametrize("way", list(SPELLINGS))
def test_every_spelling_is_one_model(way, likelihood, tmp_path):
    TABLE.to_parquet(tmp_path / "rows.parquet")
    makers, name = (
        (SPELLINGS, "binomial")
        if likelihood in ("binomial", "bernoulli")
        else (CLASSES, "multinomial")
    )
    model = makers[way](likelihood, path=tmp_path / "rows.parquet")
    assert model.likelihood.name == name
    said = [note for note in model.design.notes if "the likelihood is" in note]
    assert bool(said) is (likelihood != name)
    base = pr.fit(makers["formula"](name))
    fit = pr.fit(model)
    np.testing.assert_allclose(
        fit.solution.beta, base.solution.beta, rtol=1e-8, atol=1e-10
    )
    assert fit.log_likelihood == pytest.approx(base.log_likelihood, rel=1e-12)
    assert fit.parameter_names == base.parameter_names
    np.testing.assert_allclose(fit.covariance("HC1"), base.covariance("HC1"), rtol=1e-8)


def test_a_one_hot_response_is_that_of_its_classes():
    y = np.random.default_rng(1).integers(0, 3, N)
    hot = pr.fit(pr.Model.from_arrays(X, np.eye(3)[y], likelihood="categorical"))
    codes = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"))
    np.testing.assert_allclose(hot.solution.beta, codes.solution.beta, rtol=1e-8)
    assert hot.log_likelihood == pytest.approx(codes.log_likelihood, rel=1e-12)


def test_binomial_of_zeros_and_ones_is_bernoulli():
    y = (K > 2).astype(int)
    one, two = (
        pr.fit(pr.Model.from_arrays(X, y, likelihood=k))
        for k in ("binomial", "bernoulli")
    )
    assert one.model.likelihood == pr.Binomial(trials=1)
    np.testing.assert_allclose(one.solution.beta, two.solution.beta, rtol=1e-8)
    assert one.log_likelihood == pytest.approx(two.log_likelihood, rel=1e-12)
    np.testing.assert_allclose(
        one.predict(X[:3])["mean_upper"], two.predict(X[:3])["mean_upper"]
    )


def test_rows_without_a_trial_are_no_observations():
    some = TABLE.assign(
        n=np.where(np.arange(N) < 3, 0, TRIALS), k=np.where(np.arange(N) < 3, 0, K)
    )
    fit = pr.fit(pr.Model.from_formula("p(k, n) ~ x + z", some, likelihood="binomial"))
    rest = pr.fit(
        pr.Model.from_formula("p(k, n) ~ x + z", some.iloc[3:], likelihood="binomial")
    )
    assert fit.model.design.total == N - 3
    np.testing.assert_allclose(fit.solution.beta, rest.solution.beta, rtol=1e-9)


@both
def test_more_rows_and_saved_fits_keep_their_trials(name, tmp_path):
    prior = {c: pr.Normal(1.0) for c in ("Intercept", "x", "z")}
    whole = pr.fit(counted(name, prior=prior))
    part = pr.Model.from_formula(
        FORMULAS[name], TABLE[:30], likelihood=name, prior=prior
    )
    more = part.at(TABLE[30:])
    beta = whole.solution.beta
    assert float(part.log_lik(beta) + more.log_lik(beta)) == pytest.approx(
        whole.log_likelihood, rel=1e-12
    )
    carried = pr.fit(part, "laplace", seed=1).update(TABLE[30:])
    assert (
        np.abs(
            (carried.solution.beta - beta) / whole.std_error.values.reshape(beta.shape)
        ).max()
        < 1.0
    )
    again = pr.load_fit(whole.save(tmp_path / "fit.nc", rows=True))
    np.testing.assert_array_equal(
        again.model.design.observed, whole.model.design.observed
    )
    assert again.log_likelihood == whole.log_likelihood
    relative = pr.fit(counted(name, prior=pr.priors.GPrior(5.0)))
    without = pr.load_fit(relative.save(tmp_path / "bare.nc"))
    np.testing.assert_allclose(
        without.model.joint.precision(), relative.model.joint.precision(), rtol=1e-12
    )
    plain = pr.Model.from_arrays(X, (K > 2).astype(int), likelihood="bernoulli")
    with pytest.raises(pr.Incompatible, match="this model is of one trial per row"):
        plain.at(X[:3], [1, 1, 0], trials=[2, 2, 2])


@both
def test_draws_of_the_response_are_of_the_rows_trials(name):
    prior = {c: pr.Normal(0.5) for c in ("Intercept", "x", "z")}
    model = counted(name, prior=prior)
    drawn = model.prior_predictive(draws=200).y
    total = drawn if name == "binomial" else drawn.sum(-1)
    assert (total <= TRIALS).all() if name == "binomial" else (total == TRIALS).all()
    tree = pr.fit(model, pr.LaplaceApproximation(draws=50)).tree
    (response,) = tree["observed_data"]
    replicate = tree["posterior_predictive"][response]
    assert replicate.dims == ("chain", "draw", "obs") + ("level",) * (
        name == "multinomial"
    )
    assert tree["log_likelihood"][response].sizes["obs"] == N


@pytest.mark.slow
def test_dispersion_of_trials_is_pearsons_by_row():
    fit = pr.fit(counted("binomial"))
    p = fit.predict()["mean"].values
    finding = next(f for f in pr.diagnose(fit) if f.check == "dispersion")
    assert ", asymptotic" in str(finding)
    x2 = ((K - TRIALS * p) ** 2 / (TRIALS * p * (1 - p))).sum()
    assert finding.statistic == pytest.approx(x2, rel=1e-9)
    over = pr.fit(
        pr.Model.from_formula(
            "p(k, n) ~ x + z",
            TABLE.assign(n=20, k=np.where(np.arange(N) % 2, 18, 3)),
            likelihood="binomial",
        )
    )
    finding = next(f for f in pr.diagnose(over) if f.check == "dispersion")
    assert finding.verdict.name == "WARNING"
    assert "covariance('HC1')" in finding.remedy


def test_what_p_counts_is_said():
    said = counted("binomial").likelihood.describe("k of n")
    assert said == "the probability of a success (k of n) on the logit scale"
    assert "k of n" in repr(counted("binomial"))


def test_a_response_that_counts_needs_no_likelihood_by_name():
    rows = {
        "k": [1, 2, 3, 4],
        "n": [5, 5, 6, 6],
        "a": [3, 1, 2, 2],
        "b": [1, 2, 4, 5],
        "x": [0.0, 1.0, 2.0, 4.0],
    }
    assert pr.Model.from_formula("p(k, n) ~ x", rows).likelihood == pr.Binomial()
    assert pr.Model.from_formula("counts(a, b) ~ x", rows).likelihood == pr.Multinomial(
        levels=("a", "b")
    )
    assert pr.Model.from_formula("a ~ x", rows).likelihood == pr.Gaussian()
    assert (
        pr.Model.from_arrays(rows["x"], rows["k"], trials=rows["n"]).likelihood
        == pr.Binomial()
    )
    with pytest.raises(
        pr.Incompatible, match="are Binomial observations, not gaussian"
    ):
        pr.Model.from_formula("p(k, n) ~ x", rows, likelihood="gaussian")


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("trials", [True, False])
def test_partial_residuals_of_a_softmax_are_predictor_by_predictor(trials, symmetric):
    """r_k = y_k / (n p_k) - y_0 / (n p_0) against a reference, those of all classes less their mean where none is singled out."""
    one = np.eye(3)[COUNTS.argmax(1)]
    y, n = (COUNTS, TRIALS[:, None]) if trials else (one, 1)
    likelihood = (
        pr.Multinomial(symmetric=symmetric)
        if trials
        else pr.Categorical(symmetric=symmetric)
    )
    response = y if trials else y.argmax(1)
    fit = pr.fit(
        pr.Model.from_arrays(X, response, columns=["x", "z"], likelihood=likelihood)
    )
    found = residuals(fit, "partial")
    assert found.dims == ("obs", "term", "outcome")
    each = y / (n * fit.predict()["mean"].values)
    working = (
        each - each.mean(1, keepdims=True) if symmetric else each[:, 1:] - each[:, :1]
    )
    b = fit.coef.values[1:]
    expected = working[:, None] + (X - X.mean(0))[:, :, None] * b
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


def test_conformal_sets_of_one_trial_are_those_of_classes():
    codes = COUNTS.argmax(1)
    fits = [
        pr.fit(
            pr.Model.from_arrays(
                X, np.eye(3, dtype=int)[codes], likelihood="multinomial"
            )
        ),
        pr.fit(pr.Model.from_arrays(X, codes, likelihood="categorical")),
    ]
    counts, classes = (
        conformal(f, prob=0.8, kind=Split(score="probability")) for f in fits
    )
    assert counts.most == pytest.approx(classes.most, rel=1e-6)
    np.testing.assert_array_equal(
        counts.predict(X[:9])["set"], classes.predict(X[:9])["set"]
    )


@pytest.mark.slow
def test_conformal_intervals_of_successes_hold_their_share():
    """Rows of unequal trials, of which the mean has a wrong link: 25 of 31 and more, for counts are few (five errors of the
    mean of 40 data sets); and the interval is the counts whose score is no larger."""
    rng, held = np.random.default_rng(4), []
    for _ in range(40):
        x, n = rng.normal(size=100), rng.integers(1, 30, 100)
        k = rng.binomial(n, np.clip(0.5 + 0.4 * np.sin(2 * x), 0, 1))
        fit = pr.fit(
            pr.Model.from_arrays(x[:60], k[:60], trials=n[:60], likelihood="binomial")
        )
        found = conformal(fit, prob=0.8)
        said = found.predict(x[60:], trials=n[60:])
        held.append(((said["lower"] <= k[60:]) & (k[60:] <= said["upper"])).mean())
        assert (said["upper"] <= n[60:]).all()
    assert np.mean(held) > 25 / 31 - 5 * np.std(held) / np.sqrt(40)
    assert np.mean(held) < 0.9  # not the whole line
    p = found.fit.predictive(x[60:61], trials=[12])
    every = np.arange(13.0)
    inside = [k for k in every if SCORES["pit"]().of(p, np.array([k]))[0] <= found.most]
    one = found.predict(x[60:61], trials=[12])
    assert (one["lower"], one["upper"]) == (min(inside), max(inside))
    with pytest.raises(pr.DataError, match="pass trials="):
        found.predict(x[60:])


def test_rows_without_trials_take_no_part_however_the_trials_are_written(tmp_path):
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {
            "k": rng.integers(0, 4, 30),
            "n": rng.integers(4, 7, 30),
            "x": rng.normal(size=30),
            "g": np.repeat(list("abcde"), 6),
        }
    )
    data["half"] = data["n"] / 2
    data.loc[3, ["k", "n", "half", "x"]] = [0, 0, 0, 100]
    data.loc[3, "g"] = "only here"
    path = tmp_path / "rows.csv"
    data.to_csv(path, index=False)
    expected = pr.fit(
        pr.Model.from_formula(
            "p(k, n) ~ center(x) + g", data.drop(3), likelihood="binomial"
        )
    )
    for text in ("p(k, n) ~ center(x) + g", "p(k, half + half) ~ center(x) + g"):
        for make, rows in ((pr.Model.from_formula, data), (pr.Model.from_files, path)):
            fit = pr.fit(make(text, rows, likelihood="binomial"))
            xr.testing.assert_allclose(fit.coef, expected.coef, rtol=1e-9)
    # the last fit is of a file
    assert any(note.startswith("1 of 30 rows") for note in fit.model.design.notes)
