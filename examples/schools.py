"""Eight schools with known standard errors: how far does what the others show move what one school shows?

Coaching for a test was tried in eight schools (Rubin 1981). Each reported an effect with its standard error. The largest is 28 points: is it
the school, or chance? The noise of each row is known, so that sigma is held at 1 and the rows have precision weights 1 / se².
The posterior equals eight_schools-eight_schools_noncentered of posteriordb.
"""

import numpy as np
import pandas as pd

import probreg as pr

schools = pd.DataFrame(
    {
        "school": list("ABCDEFGH"),
        "effect": [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0],
        "se": [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0],
    }
)
model = pr.Model.from_formula(
    "effect ~ 1 + (1 | school)",
    schools,
    weights=pr.weights.precision(1.0 / schools["se"] ** 2),
    aux={"sigma": 1.0},
    prior={
        "Intercept": pr.Normal(5.0),
        "1 | school": pr.Covariance(sd=pr.priors.HalfCauchy(5.0)),
    },
)
print("1. Before the fit\n")
print(pr.check(model))

print("\n2. At the top of the evidence: no difference between schools is needed\n")
reml = pr.fit(model.with_prior({"Intercept": pr.Flat()}))
print(reml)

print("\n3. The posterior: small differences are likely, large ones are possible\n")
posterior = pr.fit(model, "posterior", seed=1)
print(posterior)
tau = posterior.tree["posterior"]["sd(Intercept | school)"].values
print(f"\nP(standard deviation of schools > 10) = {(tau > 10).mean():.2f}")

print("\n4. Each school: its own number, and what all eight say of it\n")
effects = posterior.effects("school").set_index("group")
mean = posterior.coef.sel(coef="Intercept").item()
found = schools.set_index("school").assign(
    pooled=mean + effects["estimate"], pooling=effects["pooling"]
)
print(found.round(2))
known = posterior.predict(
    {"school": list("ABCDEFGH")}, groups="known", prob=0.9, output="pandas"
)
print(
    f"\nSchool A: reported 28; by all eight {known['mean'][0]:.1f}, 90 % from {known['mean_lower'][0]:.1f} to {known['mean_upper'][0]:.1f}"
)
new = posterior.predict({"school": ["I"]}, groups="new", prob=0.9, output="pandas")
print(
    f"A ninth school: {new['mean'][0]:.1f}, 90 % from {new['mean_lower'][0]:.1f} to {new['mean_upper'][0]:.1f}"
)

print("\n5. How much of it is the prior of the standard deviation?\n")
scales = {}
for scale in (2.5, 5.0, 25.0):
    prior = {
        "Intercept": pr.Normal(5.0),
        "1 | school": pr.Covariance(sd=pr.priors.HalfCauchy(scale)),
    }
    other = pr.fit(model.with_prior(prior), "posterior", seed=1)
    at = (
        other.effects("school").set_index("group").loc["A", "estimate"]
        + other.coef.sel(coef="Intercept").item()
    )
    scales[scale] = other.hyper["sd(Intercept | school)"]
    print(
        f"HalfCauchy({scale:g}): standard deviation {scales[scale]:.1f}, school A {at:.1f}"
    )

# Checks of the statements above.
assert reml.hyper["sd(Intercept | school)"] == 0.0
assert any(note.topic == "singular fit" for note in reml.notes)
# posteriordb's reference draws: mu 4.41 (3.31), tau 3.6 (3.2), to their Monte Carlo error
np.testing.assert_allclose(
    [mean, posterior.std_error.sel(coef="Intercept").item()], [4.41, 3.31], atol=0.05
)
np.testing.assert_allclose([tau.mean(), tau.std()], [3.6, 3.2], atol=0.15)
assert 5.5 < found.loc["A", "pooled"] < 7.0
assert (
    found["pooled"].to_numpy().argsort()[[0, -1]] == [4, 6]
).all()  # E is lowest, G highest: A is too uncertain
assert scales[2.5] < scales[5.0] < scales[25.0]
