"""Questions that a fit or a model cannot answer raise an error that names the argument, the column or the reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg import comparisons, plot, predictions, slopes
from probreg.diagnostics.before import vif
from probreg.likelihoods import Quantile
from probreg.show.report.answer import answer


def rows(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x, z, v = rng.normal(size=(3, n))
    trials = rng.integers(1, 9, n)
    start = rng.exponential(1.0, n)
    return pd.DataFrame({
        "y": x + rng.normal(size=n), "x": x, "z": z, "v": v, "w": rng.random(n) + 0.5, "twice": 2.0 * x,
        "g": np.repeat(list("abcdef"), 10), "h": np.tile(list("ab"), n // 2), "many": np.tile(list("abcdefghij"), 6),
        "b": rng.random(n) > 0.5, "k": rng.poisson(np.exp(0.3 * x)), "e": (rng.random(n) < 1 / (1 + np.exp(-x))).astype(int),
        "c": rng.choice(list("uvw"), n), "n": trials, "s": rng.binomial(trials, 0.4), "low": start, "high": start + 1.0,
    })  # fmt: skip


ROWS = rows()
SEPARATED = pd.DataFrame(
    {"x": np.arange(6.0), "z": [1, 0, 0, 1, 0, 1], "y": [0, 0, 0, 1, 1, 1]}
)
EXACT = {"y": [1.0, 2.0, 3.0], "x": [1.0, 2.0, 3.0]}
SIGMA = {"sigma": 1.0}
GP = "gp(x, kernel='rbf', length=1.0)"
TWO = {"Intercept": pr.Normal(1.0), "x": pr.Normal(1.0)}
HEAVY = np.full(60, 30_000)
KINKED = {"prior": {"s(x, k=5)": pr.Normal(1.0), "z": pr.Laplace(1.0)}, "aux": SIGMA}


def model(formula: Any, data: Any = ROWS, **options: Any) -> pr.Model:
    return pr.Model.from_formula(formula, data, **options)


def fitted(formula: Any, method: Any = "auto", data: Any = ROWS, **options) -> pr.Fit:
    return pr.fit(model(formula, data, **options), method)


def sampled(formula: str, data: Any = ROWS, **options: Any) -> pr.Fit:
    return fitted(formula, data=data, weights=pr.weights.sampling("w"), **options)


def mixed_kinds() -> pr.Fit:
    """An offset of a column with texts and numbers, which a file does not keep."""
    values = np.array([1, "a"], dtype=object)[ROWS.b.astype(int)]
    data = ROWS.assign(mixed=values)
    offset = "log(where(mixed == 'a', 2, w))"
    return fitted("k ~ x + w", data=data, likelihood="poisson", offset=offset)


def without_rows(fit: pr.Fit, folder: Path, *, keep: bool = False) -> pr.Fit:
    return pr.load_fit(fit.save(folder / "fit.nc", rows=keep))


QUESTIONS = {
    # effects
    "another variable": (lambda: slopes(fitted("y ~ x"), "v", by="v", data=ROWS), "'v' is no variable of this model; there are: x"),
    "at another variable": (lambda: predictions(fitted("y ~ x"), at={"v": [1]}, by="v", data=ROWS), "at: 'v' is no variable of this model"),
    "a missing value": (lambda: slopes(fitted("y ~ x"), data=ROWS.assign(x=ROWS.x.where(ROWS.index != 3))), "'x' is missing a value in row 3"),
    "data without a column": (lambda: predictions(fitted("y ~ x + z"), data=ROWS[["x"]]), "no column 'z'"),
    "many cells": (lambda: predictions(fitted("y ~ 0 + a1 + a2 + a3 + a4 + a5 + a6", data=ROWS.assign(**{
        f"a{i}": np.roll(ROWS.many, i * i) for i in range(1, 7)}), prior=pr.Normal(1.0), aux=SIGMA), grid="balanced"),
        "1,000,000 cells; at most 100,000"),
    "groups of two columns": (lambda: comparisons(fitted("y ~ x + (1 | g:h)"), "g", groups="known"), "'g' names groups together with other columns"),
    "no number": (lambda: slopes(fitted("y ~ g")), "no variable of this model is a number: g; use comparisons"),
    "tukey of two": (lambda: comparisons(fitted("y ~ g + h"), ["g", "h"], adjust="tukey"), "needs all pairs of levels of one variable"),
    "adjusted draws": (lambda: predictions(fitted("k ~ g", "laplace", likelihood="poisson", prior=pr.Normal(1.0)), by="g").hypothesis(
        "pairwise", adjust="holm"), "a posterior has none"),
    # hypotheses
    "adjusted linearity": (lambda: pr.hypothesis(fitted("y ~ s(x)"), "s(x) is linear", adjust="holm"), "adjust= and covariance= are for coefficients"),
    "adjusted inequality": (lambda: pr.hypothesis(fitted("y ~ x"), "x > 0", adjust="holm"), "adjust= is for equalities"),
    "separated sample": (lambda: pr.hypothesis(sampled("y ~ x", data=SEPARATED.assign(w=1.5), likelihood="bernoulli"), "x = 0"), "pseudo-likelihood"),
    "a sum of zero": (lambda: pr.hypothesis(fitted("c ~ x", likelihood=pr.Categorical(symmetric=True), prior=pr.Normal(1.0)),
        "u: x + v: x + w: x = 0"), "restriction 1 tests nothing: .* sum to 0"),
    "two clusters": (lambda: pr.hypothesis(fitted("y ~ x + z + v"), "x = 0, z = 0, v = 0", covariance="cluster", groups=ROWS.index // 30),
        "singular covariance"),
    "kinks and linearity": (lambda: pr.hypothesis(fitted("y ~ s(x, k=5) + z", **KINKED), "s(x, k=5) is linear"), "linearity needs normal priors"),
    "no identified line": (lambda: pr.hypothesis(fitted("y ~ s(x, k=5) + z + twice", data=ROWS.assign(twice=2 * ROWS.z),
        prior={"s(x, k=5)": pr.Normal(1.0)}, aux=SIGMA), "s(x, k=5) is linear"), "not all identified"),
    # intervals, tuning, priors
    "an improper posterior": (lambda: pr.coverage(model("y ~ s(x, k=4)"), pr.Truth(np.zeros(5), SIGMA), kinds=["eti"], reps=2), "eti: .* improper prior"),
    "two ways to group": (lambda: pr.tune(model("y ~ x", prior=pr.Normal(1.0)), groups=ROWS[["g", "h"]].to_numpy()), "one label per row"),
    "dependent flat columns": (lambda: pr.tune(model("y ~ x + twice + z", prior={"z": pr.Normal(1.0, sigma_units=True)}), "evidence"), "no scale: not identified"),
    "as many columns as rows": (lambda: pr.tune(model("y ~ x + z + v", ROWS[:3], prior={"v": pr.Normal(1.0, sigma_units=True)}), "evidence"), "no scale: exact"),
    "fewer rows than flat columns": (lambda: pr.tune(model("y ~ x + z + v + w", ROWS[:2], prior={"v": pr.Normal(1.0, sigma_units=True)}), "evidence"),
        "no scale: not identified"),
    "a mode at no scale": (lambda: pr.tune(model("y ~ x + z", SEPARATED, likelihood="bernoulli", prior={"z": pr.Normal(1.0)}), "loo"), "no maximum likelihood estimate"),
    "prior weight of a smooth": (lambda: pr.prior_weight(fitted("y ~ 0 + s(x, k=5)")), "every coefficient belongs to a smooth function"),
    "sensitivity of groups": (lambda: pr.prior_sensitivity(fitted("y ~ x + (1 | g)")), "effects of groups"),
    "sensitivity of many": (lambda: pr.prior_sensitivity(pr.fit(pr.Model.from_arrays(np.random.default_rng(0).normal(size=(210, 205)),
        np.arange(210.0), prior=pr.Normal(1.0)))), "210 rows of 206 columns are too many"),
    # simulations and guarantees
    "bias and variance of a truncated response": (lambda:
        pr.bias_variance(model("trunc(low, lower=0) ~ x"), pr.Truth([0.0, 1.0], SIGMA), reps=2), "needs the variance of the response, and a truncated gaussian"),
    "bias and variance of many rows": (lambda: pr.bias_variance(model("k ~ x", likelihood="poisson", weights=HEAVY), [0.0, 1.0], reps=2), "more than a million rows"),
    "bias and variance of a classifier": (lambda: pr.bias_variance(model("e ~ x", likelihood="bernoulli"), [0.0, 1.0], method="perceptron", reps=2),
        "perceptron is a classifier"),
    "simulation of many rows": (lambda: pr.simulate(model("y ~ x", prior=TWO, aux=SIGMA, weights=HEAVY), np.random.default_rng(0)), "more than a million rows"),
    "truth of numbers": (lambda: pr.Truth([0.0, 1.0], 3.0), "aux=3.0: expected nuisance parameters by name"),
    "truth of other rows": (lambda: pr.bias_variance(model("y ~ x", aux=SIGMA), fitted("y ~ x + z", data=ROWS[:50], aux=SIGMA), reps=2), "fitted to 50 rows .* 60"),
    "power scaling of a smooth": (lambda: pr.power_scaling(fitted("y ~ 0 + s(x, k=4)", pr.NUTS(draws=20, tune=20),
        prior={"s(x, k=4)": pr.Normal(pr.HalfNormal(1.0))}, aux=SIGMA)), "every coefficient belongs to a smooth function"),
    "collinear inflation": (lambda: vif(model("y ~ x + twice")), "exact collinearity: twice is a combination"),
    "a tube wider than the range": (lambda: pr.guarantee(pr.svr("y ~ x", ROWS, C=1.0, epsilon=20.0), (-6.0, 6.0)), "epsilon=20: expected less than the width 12"),
    # fits
    "effects without errors": (lambda: fitted("y ~ x + (1 | g)", prior={"1 | g": pr.Laplace(1.0)}, aux=SIGMA).effects("g"), "gives no standard errors"),
    "residuals of an exact fit": (lambda: pr.residuals(pr.ols("y ~ x", EXACT), "pearson"), "pearson residuals: the fit meets every response exactly"),
    "partial residuals of a mean": (lambda: pr.residuals(fitted("y ~ 1"), "partial"), "none beside the intercept"),
    "a band under kinks": (lambda: fitted("y ~ s(x, k=5) + z", **KINKED).smooth("s(x, k=5)"), "needs standard errors, and this fit has none"),
    "a band under another prior": (lambda: fitted(f"y ~ z + {GP}", prior={GP: pr.Laplace(1.0)}, aux=SIGMA).smooth(GP), "needs a normal prior of one scale"),
    "noise of classes": (lambda: fitted("e ~ x", likelihood="bernoulli").residual_sd, "has no noise scale"),
    "support of no kinks": (lambda: fitted("y ~ x").support, "support vectors are those of a loss with kinks"),
    "degrees of kinks": (lambda: pr.gam("y ~ s(x)", ROWS, likelihood=Quantile(0.5), df=3), "df= needs a smooth likelihood"),
    "degrees and kinks": (lambda: pr.gam("y ~ s(x) + z", ROWS, df=3, prior={"z": pr.Laplace(1.0)}), "df= needs normal priors of the other columns"),
    "degrees and sigma": (lambda: pr.gam("y ~ s(x) + z", ROWS, df=3, prior={"z": pr.Normal(1.0)}), "need sigma fixed"),
    "degrees of separated rows": (lambda: pr.gam("y ~ s(x, k=4)", pd.DataFrame({"x": np.arange(20.0), "y": np.arange(20) > 9}), likelihood="bernoulli", df=2.5),
        "no scales spend df = 2.5 for s"),
    # pictures
    "a curve of no variable": (lambda: plot.fitted(fitted("y ~ x"), "q"), "'q' is not a numeric variable of this model; those are: x"),
    "survival of intervals": (lambda: plot.survival(fitted("cens(lower=low, upper=high) ~ x", likelihood="weibull")), "left or interval censored"),
    "survival of many": (lambda: plot.survival(fitted("cens(low, b) ~ many", likelihood="weibull"), by="many"), "has 10 values; at most 6"),
    "two forecasts of one": (lambda: plot.reliability(ROWS.e, {"A": np.full((60, 2), 0.5)}), r"got shape \(60, 2\)"),
    "effects of moments": (lambda: answer(pr.fit(pr.Model.from_moments(model("y ~ x").design.moments)), ["x"], data=None, prob=0.9), "needs the rows in memory"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_without_an_answer_is_refused(name):
    ask, words = QUESTIONS[name]
    with pytest.raises(pr.ProbregError, match=words):
        ask()


WITHOUT_ROWS = {
    "likelihood ratio of a term": (lambda: fitted("e ~ x", likelihood="bernoulli"), lambda fit: pr.anova(fit, "lr"), "no likelihood ratio: .* saved without its rows"),
    "prior sensitivity": (lambda: fitted("k ~ x", likelihood="poisson", prior=pr.Normal(1.0)), pr.prior_sensitivity, "refits: .* saved without its rows"),
    "trials": (lambda: fitted("p(s, n) ~ x", likelihood="binomial"), comparisons, "saved without its rows"),
    "linearity": (lambda: fitted("k ~ s(x, k=5)", likelihood="poisson"), lambda fit: pr.hypothesis(fit, "s(x, k=5) is linear"), "needs the rows"),
    "prior draws": (lambda: fitted("y ~ x", "conjugate"), lambda fit: fit.inference_data(prior=True), "draws from the priors needs the rows"),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHOUT_ROWS)
def test_a_fit_without_its_rows_says_so(name, tmp_path):
    make, ask, words = WITHOUT_ROWS[name]
    with pytest.raises(pr.ProbregError, match=words):
        ask(without_rows(make(), tmp_path))


def test_a_variable_of_the_offset_that_a_file_does_not_keep_is_asked_for(tmp_path):
    fit = without_rows(mixed_kinds(), tmp_path, keep=True)
    with pytest.raises(pr.DataError, match="'w' is in the offset too; pass data="):
        comparisons(fit, "w")
    with pytest.raises(pr.DataError, match=r"'mixed' is no variable .* Pass data="):
        comparisons(fit, "mixed")
    (remark,) = answer(fit, None, data=None, prob=0.95).remarks
    assert remark.startswith("No effect of w: ")
