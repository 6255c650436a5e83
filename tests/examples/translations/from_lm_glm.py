"""Calls of docs/coming-from/lm-glm.md, with the numbers of the other package."""

import numpy as np

import probreg as pr

plant = pr.load_dataset("stackloss")
orings = pr.load_dataset("challenger")

lm = pr.fit(pr.Model.from_formula("stack_loss ~ .", plant))
print(lm)
tests = pr.hypothesis(lm, "water_temperature = 0, acid_concentration = 0")
print(lm.interval(0.95), lm.predict(plant.head(2), output="pandas"), tests)
measures = pr.influence_measures(lm)
assert np.isclose(
    tests["F"].statistic,
    (pr.ols("stack_loss ~ air_flow", plant).deviance / lm.deviance - 1) * 17 / 2,
)
assert int(measures["cook"].argmax("obs")) == 20  # observation 21 of R

# what R prints for summary(lm(stack.loss ~ ., stackloss))
printed = {
    "Intercept": (-39.9197, 11.8960, -3.356, 0.00375),
    "air_flow": (0.7156, 0.1349, 5.307, 5.8e-05),
    "water_temperature": (1.2953, 0.3680, 3.520, 0.00263),
    "acid_concentration": (-0.1521, 0.1563, -0.973, 0.34405),
}
table = lm.summary().loc[
    list(printed), ["estimate", "std_error", "statistic", "p_value"]
]
assert np.allclose(table, list(printed.values()), rtol=2e-3)
assert round(lm.residual_sd, 3) == 3.243
assert round(lm.r_squared, 4) == 0.9136
assert round(lm.adjusted_r_squared, 4) == 0.8983

trial = {
    "counts": [18, 17, 15, 20, 10, 20, 25, 13, 12],
    "outcome": ["first", "second", "third"] * 3,
    "treatment": ["a"] * 3 + ["b"] * 3 + ["c"] * 3,
}
glm = pr.fit(
    pr.Model.from_formula("counts ~ outcome + treatment", trial, likelihood="poisson")
)
lr = pr.hypothesis(glm, "outcome = 0")["LR"]
assert round(glm.null_deviance, 4) == 10.5814
assert round(glm.deviance, 4) == 5.1291
assert round(lr.statistic, 4) == 5.4523
assert lr.df == (2,)

releveled = pr.fit(
    pr.Model.from_formula(
        'counts ~ C(outcome, contr.treatment("second"))', trial, likelihood="poisson"
    )
)
assert np.isclose(releveled.coef[1], -glm.coef[1])

logit = pr.fit(
    pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli")
)
# glm, as printed in many texts
assert np.allclose(logit.coef, [15.0429, -0.2322], atol=5e-5)
assert np.allclose(logit.std_error, [7.3786, 0.1082], atol=5e-5)
print(
    logit.summary(exp=True),
    logit.interval(0.95, "profile"),
    glm.residuals("deviance"),
    sep="\n",
)

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", pr.ProbregWarning)
    plant["both"] = plant["air_flow"] + plant["water_temperature"]
    aliased = pr.ols("stack_loss ~ air_flow + water_temperature + both", plant)
    six = {"y": [0, 0, 0, 1, 1, 1], "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
    apart = pr.fit(pr.Model.from_formula("y ~ x", six, likelihood="bernoulli"))
assert np.isfinite(aliased.coef.sel(coef="Intercept"))
assert np.isnan(aliased.coef.sel(coef="air_flow"))
assert np.isnan(apart.coef).all()
firth = pr.fit(apart.model.with_prior(pr.priors.Jeffreys()))
print(aliased, apart, firth, sep="\n\n")

import pandas as pd

dose = pd.Categorical(
    ["low", "mid", "high"] * 8, categories=["low", "mid", "high"], ordered=True
)
cells = pd.DataFrame(
    {
        "dose": dose,
        "x": np.linspace(-1, 1, 24),
        "y": np.sin(np.arange(24.0)) + np.arange(24) % 3,
    }
)
ordered = pr.ols("y ~ dose", cells)
poly = pr.ols("y ~ C(dose, contr.poly)", cells)
assert list(ordered.coef["coef"].values) == ["Intercept", "dose[T.mid]", "dose[T.high]"]
linear = (ordered.coef[2] / np.sqrt(2)).item()  # .L is (high - low)/sqrt(2)
assert np.isclose(poly.coef[1], linear)

penalised = pr.firth("damage ~ temperature", orings)
information = penalised.model.with_prior(pr.Flat()).information(penalised.coef)
brglm2 = np.sqrt(np.diagonal(np.linalg.inv(information)))
assert (penalised.std_error < brglm2).all()

# the mean count: the average on the scale of the response
rate = pr.predictions(glm).table["estimate"].item()
# emmeans averages here, over its grid
on_link = np.exp(glm.model.eta(glm.solution.beta).mean())
assert np.isclose(rate, np.mean(trial["counts"]))
assert on_link < rate

median = pr.quantile_regression("y ~ x", cells, tau=0.5)
# quantreg: 2 * 2
assert np.isclose(median.aic, -2 * median.log_likelihood + 2 * (2 + 1))

line = pr.ols("y ~ x", cells)
assert np.allclose(
    line.residuals("pearson") * line.aux["sigma"], line.residuals("response")
)
