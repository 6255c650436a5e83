"""Which interval to report? Twenty-three launches, one slope, every interval of it, and how often each is right.

The odds of O-ring damage fall with temperature. Wald, profile, score and a sandwich disagree about its uncertainty. A
simulation at the fitted parameters shows which of them have their nominal coverage with so few launches.
"""

import numpy as np

import probreg as pr
from probreg.comparison.interval_panel import coverage, interval_panel
from probreg.diagnostics.conformal import Split, conformal

orings = pr.load_dataset("challenger")
model = pr.Model.from_formula("damage ~ temperature", orings, likelihood=pr.Bernoulli())
fits = {
    "ML": pr.fit(model),
    "mode": pr.fit(model.with_prior({"temperature": pr.Normal(0.1)})),
}

slopes = interval_panel(fits, "temperature", kinds=["wald", "HC3", "profile", "score"])
print(slopes, "\n")
few = coverage(model, fits["ML"], kinds=["wald", "HC3"], reps=150, seed=1)
some = coverage(model, fits["ML"], kinds=["profile"], reps=30, seed=1)
many = coverage(model, fits["ML"], kinds=["wald", "HC3"], n=230, reps=75, seed=2)
for found in (few, some, many):
    print(found, "\n")

# No model has to be right for a conformal set: with 23 launches it can promise three in four.
sets = conformal(fits["mode"], prob=0.75, kind=Split(seed=2))
print(sets, "\n")
print(sets.predict({"temperature": [55.0, 66.0, 78.0]})["set"].to_series().unstack())

# Checks of the statements above.
wald, profile = (slopes.table.loc[("ML", kind)] for kind in ("wald", "profile"))
np.testing.assert_allclose(
    [wald["lower"], wald["upper"]], [-0.4443023, -0.0200232], rtol=1e-5
)
# the likelihood is skewed: it falls slowly towards steeper slopes
assert profile["lower"] < wald["lower"]
assert profile["upper"] < wald["upper"]
# some data sets like these have no estimate at all
assert few.failures["wald"]["separated"] > 0
# Wald says less than it could
assert few.table.loc[("temperature", "wald"), "covered"] > 0.95
assert abs(some.off["temperature", "profile"]) < 3
assert (many.off.abs() < 4).all()
