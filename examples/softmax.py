"""Species of penguins: maximum likelihood does not exist, and a prior helps.

Bill depth and body mass separate the Gentoo from the others without an error, so the likelihood keeps rising as
their coefficients grow. Other programs print large numbers; a linear programme detects the separation and names the
coefficients, and with a weakly informative prior the estimates and intervals exist.
"""

import warnings

import numpy as np

import probreg as pr

penguins = pr.load_dataset("penguins")
model = pr.Model.from_formula(
    "species ~ scale(bill_depth_mm) + scale(body_mass_g)",
    penguins,
    likelihood=pr.Categorical(),
    reference="Adelie",
    missing="drop",
)
print(pr.check(model))

with warnings.catch_warnings():
    warnings.simplefilter("ignore", pr.ProbregWarning)  # we look at what it says below
    ml = pr.fit(model)
print(ml.described["status"])

weak = model.with_prior(pr.Normal(2.5))
mode = pr.fit(weak)
posterior = pr.fit(weak, "nuts", seed=1)
print(pr.compare({"ML": ml, "mode": mode, "posterior": posterior}))

birds = {"bill_depth_mm": [18.5, 15.0], "body_mass_g": [3700.0, 5000.0]}
print(posterior.predict(birds, prob=0.9).to_dataframe())

# No class need be the reference: K columns that sum to zero say the same probabilities.
symmetric = pr.Model.from_formula(
    "species ~ scale(bill_depth_mm) + scale(body_mass_g)",
    penguins,
    likelihood=pr.Categorical(symmetric=True),
    prior=pr.Normal(2.5),
    missing="drop",
)
even = pr.fit(symmetric)
print(even)

# Checks of the statements above.
# no number where there is no estimate
assert ml.coef.sel(outcome="Gentoo").isnull().all()
assert ml.coef.sel(outcome="Chinstrap").notnull().all()
assert np.isfinite(mode.std_error).all()
assert posterior.solution.status.good
shift = np.abs(mode.coef - posterior.coef) / posterior.std_error
# skewed by the separation: mode and mean differ, by less than a standard deviation
assert 0.3 < shift.max() < 1.0
probabilities = posterior.predict(birds)["mean"]
np.testing.assert_allclose(probabilities.sum("level"), 1.0)
assert probabilities.sel(level="Gentoo")[1] > 0.95
np.testing.assert_allclose(even.coef.sum("outcome"), 0.0, atol=1e-9)
