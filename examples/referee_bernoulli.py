"""A referee's questions on a logistic regression: O-rings of the space shuttle, twenty-three launches.

How likely is damage at 31 degrees Fahrenheit, when no launch was colder than 53? The referee checks the
interval on the logit with so few rows, the influence of the prior, and how far the prediction extrapolates.
"""

import numpy as np

import probreg as pr
from probreg.comparison import compare_models
from probreg.diagnostics.after import diagnose

launches = pr.load_dataset("challenger")
model = pr.Model.from_formula(
    "damage ~ temperature", launches, likelihood=pr.Bernoulli()
)

print("1. Before the fit\n")
print(pr.check(model))

ml = pr.fit(model)
print("\n2. Maximum likelihood\n")
print(ml)

print("\n3. On 23 rows a likelihood is not a parabola: Wald beside profile\n")
wald, profile = (
    ml.interval(0.95, kind).sel(coef="temperature") for kind in ("wald", "profile")
)
for name, ends in (("Wald", wald), ("profile", profile)):
    print(
        f"  temperature, {name:<8} {ends['lower'].item():.3f} {ends['upper'].item():.3f}"
    )

print("\n4. Does temperature matter? Three tests of one null\n")
test = pr.hypothesis(ml, "temperature = 0")
print(test)
print(f"\nOne-sided: {pr.hypothesis(ml, 'temperature < 0')}")

print("\n5. What is wrong with it?\n")
found = diagnose(ml)
print(found)

print("\n6. A prior, its mode and its posterior: why the answers differ\n")
weak = model.with_prior({"temperature": pr.Normal(0.25)})
mode, posterior = pr.fit(weak), pr.fit(weak, "nuts", seed=1)
fits = {"ML": ml, "mode": mode, "posterior": posterior}
answers = pr.compare(fits)
print(answers)
belief = pr.hypothesis(posterior, "temperature < 0")
print("\n", belief, sep="")

print("\n7. In probabilities: per degree, for ten degrees, and on that morning\n")
print(pr.slopes(ml))
print(pr.comparisons(ml, {"temperature": (75.0, 65.0)}))
cold = {
    name: pr.predictions(fit, at={"temperature": [31.0, 53.0, 66.0]})
    for name, fit in fits.items()
}
for name, said in cold.items():
    print(f"{name}: {said}\n")

print("8. Would a constant risk have said as much?\n")
constant = pr.fit(
    pr.Model.from_formula("damage ~ 1", launches, likelihood=pr.Bernoulli())
)
curved = pr.fit(
    pr.Model.from_formula(
        "damage ~ temperature + I(temperature**2)", launches, likelihood=pr.Bernoulli()
    )
)
ranking = compare_models(
    {"constant": constant, "line": ml, "curve": curved, "line, posterior": posterior}
)
print(ranking)

coldest = float(launches["temperature"].min())
morning = cold["ML"].table.iloc[0]
print(
    f"\nAt 31 degrees, {coldest - 31:g} below the coldest launch, maximum likelihood says {morning['estimate']:.3f} "
    f"({morning['lower']:.2f} to {morning['upper']:.3f}): near certain damage is the estimate, and the interval says how "
    "little twenty-three launches know of it."
)

# Checks of the statements above.
# as R's glm prints them
np.testing.assert_allclose(ml.coef, [15.0429, -0.2322], atol=5e-5)
assert test["Wald"].p > test["LR"].p  # the parabola understates the evidence
np.testing.assert_allclose(
    test["LR"].statistic, 2 * (ml.log_likelihood - constant.log_likelihood), rtol=1e-8
)
assert profile["lower"].item() < wald["lower"].item()  # and hides the long arm
assert "skewness" in set(
    answers.causes.query("param == 'temperature' and fit == 'posterior'")["cause"]
)
assert "prior of temperature" in set(
    answers.causes.query("param == 'temperature' and fit == 'mode'")["cause"]
)
assert belief.beliefs[0].value > 0.99
assert morning["estimate"] > 0.99
assert morning["lower"] < 0.6
weights = ranking.table["weight"]
assert weights["constant"] < 0.2
assert ranking.table["elpd_loo"]["line"] > ranking.table["elpd_loo"]["constant"]
np.testing.assert_allclose(
    pr.predictions(ml).table["estimate"], launches["damage"].mean()
)
