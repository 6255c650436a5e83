"""Calls of docs/coming-from/bambi-brms.md, with the numbers of the other package."""

import arviz as az
import numpy as np

import probreg as pr

plant = pr.load_dataset("stackloss")
orings = pr.load_dataset("challenger")

stated = pr.Model.from_formula(
    "stack_loss ~ air_flow + water_temperature",
    plant,
    prior={"air_flow": pr.Normal(1.0), "water_temperature": pr.Normal(2.0)},
    aux={"sigma": pr.priors.HalfStudentT(5.0, nu=3.0)},
)
fit = pr.fit(stated, "posterior", seed=1)
nuts = pr.fit(stated, pr.NUTS(draws=2000, chains=4, target_accept=0.95), seed=1)
print(fit, nuts, sep="\n\n")
# exact: coefficients given sigma are normal, and sigma is one dimension
assert fit.tree.attrs["method"] == "quadrature"
assert (abs(nuts.coef - fit.coef) < 0.1 * fit.std_error).all()
assert np.allclose(nuts.std_error, fit.std_error, rtol=0.1)
print(fit.interval(0.94, "hdi"), az.summary(nuts.tree), az.loo(fit.tree), sep="\n")
print(
    fit.predict(plant.head(2), output="pandas"),
    pr.hypothesis(fit, "air_flow > 0.5"),
    sep="\n",
)
draws = fit.predictive(plant.head(2)).sample(np.random.default_rng(1), 1)

import pymc as pm

x, y = plant[["air_flow", "water_temperature"]], plant["stack_loss"].to_numpy()
s = 2.5 * y.std() / x.std(ddof=0).to_numpy()
s0 = np.sqrt((2.5 * y.std()) ** 2 + (s**2 * x.mean().to_numpy() ** 2).sum())
automatic = stated.with_prior(
    {
        "Intercept": pr.Normal(s0, location=y.mean()),
        "air_flow": pr.Normal(s[0]),
        "water_temperature": pr.Normal(s[1]),
    }
).with_aux(sigma=pr.priors.HalfStudentT(y.std(), nu=4.0))

with pm.Model() as by_hand:
    intercept = pm.Normal("Intercept", y.mean(), s0)
    slopes = pm.Normal("slopes", 0.0, s)
    sigma = pm.HalfStudentT("sigma", nu=4.0, sigma=y.std())
    pm.Normal("y", intercept + x.to_numpy() @ slopes, sigma, observed=y)

density = by_hand.compile_logp(jacobian=False)
for point, scale in (([-50.0, 0.7, 1.3], 3.0), ([0.0, 0.0, 0.0], 10.0)):
    theirs = density(
        {
            "Intercept": point[0],
            "slopes": np.array(point[1:]),
            "sigma_log__": np.log(scale),
        }
    )
    ours = automatic.log_posterior(np.array(point)[:, None], sigma=scale)
    assert np.isclose(theirs, ours)
print(pr.fit(automatic, "posterior", seed=1))

weak = pr.Model.from_formula(
    "stack_loss ~ air_flow + water_temperature", plant, prior="weak"
)
print(weak)
# both standard deviations have the same divisor
assert np.allclose(weak.joint.blocks[1].prior.scale, s)
