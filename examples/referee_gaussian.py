"""A referee's questions on a regression: Brownlee's plant, twenty-one days of stack loss.

Does a faster air flow cost ammonia, by how much, and does the acid's concentration matter? The
referee checks the standard errors, the influence of single days, a model with heavier tails, and whether the third
variable is needed.
"""

import numpy as np

import probreg as pr
from probreg.comparison import compare_models
from probreg.diagnostics.after import diagnose

plant = pr.load_dataset("stackloss")
model = pr.Model.from_formula(
    "stack_loss ~ air_flow + water_temperature + acid_concentration", plant
)

print("1. Before the fit: is the question one that these rows can answer?\n")
print(pr.check(model))

least = pr.fit(model)
print("\n2. The estimate\n")
print(least)

print("\n3. The same coefficient under every interval that a referee may ask for\n")
asked = {
    "t, classical": least.interval(0.95, "t"),
    "profile likelihood": least.interval(0.95, "profile"),
    "t, HC3 errors": least.interval(0.95, covariance="HC3"),
}
for name, ends in asked.items():
    lower, upper = (float(ends[w].sel(coef="air_flow")) for w in ("lower", "upper"))
    print(f"  air_flow, {name:<19} {lower:6.3f} {upper:6.3f}")

print("\n4. What is wrong with it?\n")
found = diagnose(least)
print(found)

print("\n5. Does the acid matter?\n")
acid = pr.hypothesis(least, "acid_concentration = 0")
print(acid)
both = pr.hypothesis(least, "air_flow = 0, water_temperature = 0")
print("\n", both, sep="")

print("\n6. Without the day that the diagnostics name, and with tails that bear it\n")
without = pr.fit(pr.Model.from_formula("stack_loss ~ .", plant.drop(index=20)))
heavy = pr.fit(
    pr.Model.from_formula("stack_loss ~ .", plant, likelihood=pr.StudentT(nu=4.0))
)
side_by_side = pr.compare({"least squares": least, "Student-t": heavy})
print(side_by_side)
print(f"\nair_flow without row 20: {without.coef.sel(coef='air_flow').item():.3f}")

print("\n7. Which model says most of a day that it has not seen?\n")
smaller = pr.fit(
    pr.Model.from_formula("stack_loss ~ air_flow + water_temperature", plant)
)
exact = pr.fit(smaller.model, "conjugate", seed=1)
ranking = compare_models(
    {
        "all three": least,
        "no acid": smaller,
        "no acid, posterior": exact,
        "Student-t": heavy,
    }
)
print(ranking)

print("\n8. The answer, in the units of the plant\n")
slower = pr.comparisons(least, {"air_flow": -10.0})
print(slower)
print(pr.predictions(least, at={"air_flow": [60.0, 70.0]}))
new = least.predict(
    {"air_flow": [60.0], "water_temperature": [20.0], "acid_concentration": [86.0]}
)
print(
    f"\nA day at 60, 20, 86 loses {new['mean'].item():.1f} on average ({new['mean_lower'].item():.1f} to "
    f"{new['mean_upper'].item():.1f}), and one such day between {new['new_lower'].item():.1f} and {new['new_upper'].item():.1f}."
)
claim = pr.hypothesis(exact, "air_flow > 0.5").beliefs[0]
print(f"Under a flat prior P(air_flow > 0.5) = {claim.value:.3f}.")

# Checks of the statements above.
# Brownlee 1965, R's lm
np.testing.assert_allclose(least.coef, [-39.9197, 0.7156, 1.2953, -0.1521], atol=5e-5)
assert acid["t"].p > 0.3
assert both["F"].p < 1e-6
lower, upper = (
    asked["t, HC3 errors"][w].sel(coef="air_flow").item() for w in ("lower", "upper")
)
# wider, and still above zero
assert 0 < lower < asked["t, classical"]["lower"].sel(coef="air_flow").item()
assert any(f.check == "cook" and "row 20" in str(f) for f in found)
# The likelihoods differ, so there is no path and the differences are listed.
assert set(side_by_side.causes.query("param == 'water_temperature'")["cause"]) == {
    "likelihood"
}
assert ranking.table["elpd_loo"]["no acid"] > ranking.table["elpd_loo"]["all three"]
assert (
    abs(ranking.difference("no acid", "all three")[0])
    < 2 * ranking.difference("no acid", "all three")[1]
)
np.testing.assert_allclose(
    slower.table["estimate"], -10 * least.coef.sel(coef="air_flow")
)
assert claim.value > 0.85
