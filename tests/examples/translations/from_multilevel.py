"""Calls of docs/coming-from/multilevel.md, with the numbers of the other package."""

import numpy as np

import probreg as pr

sleep = pr.load_dataset("sleepstudy")
sleep["slow"] = (sleep["reaction"] > 300).astype(int)
model = pr.Model.from_formula("reaction ~ days + (days | subject)", sleep)
levels = pr.Model.from_formula("reaction ~ days + (1 | subject)", sleep)
binary = pr.Model.from_formula(
    "slow ~ days + (1 | subject)", sleep, likelihood="bernoulli"
)

reml = pr.fit(model)
ml, ml0 = (pr.fit(m, pr.Evidence(criterion="ML")) for m in (model, levels))
glmer = pr.fit(binary, pr.Evidence(criterion="ML"))
quadrature = pr.fit(binary, pr.Evidence(criterion="ML", points=9))
print(glmer.coef.values, quadrature.coef.values)
halves = pr.Model.from_formula(
    "reaction ~ days + (days | subject)",
    sleep,
    weights=pr.weights.precision(np.full(180, 0.5)),
)
assert np.allclose(pr.fit(halves).coef, reml.coef)

print(reml.coef.to_series(), reml.covariance().to_pandas(), sep="\n")
print(reml.hyper, reml.solution.hyper["sigma"])
effects = reml.effects("subject")
own = (
    effects.pivot(index="group", columns="effect", values="estimate")
    + reml.coef.to_series()
)
print(own.head(3))
print(reml.summary())
days = pr.anova(reml).loc["days"]
# lmerTest
assert np.allclose(days[["df_resid", "statistic"]], [17.0, 45.853], rtol=1e-4)
print(pr.compare_models({"m0": ml0, "m": ml}, test="lr"))
print(pr.hypothesis(reml, "sd(days | subject) = 0"))
print(ml.aux_interval("sd(days | subject)"), ml.interval(0.95))
singular = any(note.topic == "singular fit" for note in reml.notes)

new = {"days": [10], "subject": [308]}
print(reml.predict(new, groups="known", output="pandas"))
print(reml.predict(new, groups="typical", output="pandas"))
print(reml.predict(new, groups="new", output="pandas"))
rng = np.random.default_rng(1)
print(reml.predictive(new, groups="new").sample(rng, 1))
resampled = pr.fit(model, pr.Bootstrap("evidence", kind="parametric", reps=19), seed=1)
print(resampled.interval(0.95))
print(ml.aic, ml.glance()["logLik"].item())

assert not singular
assert np.isclose(ml.aic, 1763.9393, atol=1e-4)
assert np.allclose(own.loc["308"], [253.6637, 19.6663], atol=1e-3)  # lme4's coef

prior = {
    "days | subject": pr.Covariance(sd=pr.HalfNormal(50.0), cor=pr.LKJ(2.0)),
    "days": pr.Normal(10.0),
}
stated = pr.Model.from_formula(
    "reaction ~ days + (days | subject)",
    sleep,
    prior=prior,
    aux={"sigma": pr.priors.HalfStudentT(30.0, nu=3.0)},
)
posterior = pr.fit(stated, "posterior", seed=1)
print(posterior.effects("subject").head(3), posterior.hyper, sep="\n")
draws = posterior.tree["posterior"]["sd(days | subject)"]
print(draws.sizes)
print(pr.hypothesis(posterior, "days > 5"))
print(pr.compare_models({"fit": posterior}))
print(pr.compare_models({"fit": posterior}, leave_out="subject"))
print(posterior.predict(new, groups="typical", output="pandas"))
simulated = posterior.predictive(new, groups="new")
print(pr.predictions(posterior, at={"days": [0, 9]}))

as_bambi = pr.Model.from_formula(
    "reaction ~ days + (days || subject)",
    sleep,
    prior={"days || subject": pr.Covariance(sd=pr.HalfNormal(50.0))},
)
bambi = pr.fit(as_bambi, "posterior", seed=1)
print(bambi.summary())
print(bambi.predict(new, groups="known", output="pandas"))
print(bambi.predict(new, groups="new", output="pandas"))
print(pr.comparisons(bambi, "days"))

crossed = pr.fit(
    pr.Model.from_formula("reaction ~ 1 + (1 | subject) + (1 | days)", sleep)
)
print(
    reml.coef.values,
    reml.std_error.values,
    {k: v**2 for k, v in reml.hyper.items() if k.startswith("sd")},
)
print(crossed)
binary_stated = binary.with_prior({"1 | subject": pr.Covariance(sd=pr.HalfNormal(2.0))})
print(pr.fit(binary_stated, "posterior", seed=1))
