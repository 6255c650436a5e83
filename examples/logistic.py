"""Twenty-three launches: the odds of O-ring damage by temperature, by maximum likelihood and by posterior.

The flight of 28 January 1986 was launched at 31 degrees Fahrenheit, 22 below the coldest launch before it. A prediction for
such a day is an extrapolation, so its interval is part of the result.
"""

import numpy as np

import probreg as pr

orings = pr.load_dataset("challenger")
model = pr.Model.from_formula("damage ~ temperature", orings, likelihood=pr.Bernoulli())
print(pr.check(model))

ml = pr.fit(model)
# ten degrees change the odds by some factor within e^5
weak = model.with_prior({"temperature": pr.Normal(0.25)})
fits = {"ML": ml, "mode": pr.fit(weak), "posterior": pr.fit(weak, "nuts", seed=1)}
print(pr.compare(fits))

cold = {"temperature": [31.0, 53.0, 66.0, 81.0]}
for name, fitted in fits.items():
    p = fitted.predict(cold, prob=0.9)
    print(
        f"{name}: P(damage) at 31 F is {p['mean'][0]:.3f}, 90 % interval {p.mean_lower[0]:.3f} to {p.mean_upper[0]:.3f}"
    )

# The same flights as damaged rings out of six: a flight stays one observation.
rings = pr.Model.from_formula(
    "p(damaged, rings) ~ temperature", orings, likelihood=pr.Binomial()
)
print(pr.fit(rings))

# Checks of the statements above.
# R's glm on these flights
np.testing.assert_allclose(ml.coef, [15.042901648, -0.232162744], rtol=1e-8)
np.testing.assert_allclose(ml.std_error, [7.378636385, 0.108236522], rtol=1e-8)
posterior = fits["posterior"]
assert posterior.solution.status.good
assert posterior.predict(cold)["mean"][0] > 0.9
# wide: nobody had launched in such cold
assert ml.predict(cold, prob=0.9).mean_lower[0] < 0.8
assert rings.design.total == 23
assert abs(fits["mode"].coef[1]) < abs(ml.coef[1])  # the prior pulls towards zero
