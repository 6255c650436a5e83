"""Two forecasters compared by a proper score: rain with probability 0.7 or 0.8.

On one rainy day, B with 0.8 has the smaller squared loss than A with 0.7. A fair comparison uses the same days for both, a proper
scoring rule, and an interval for the difference. The weather here is simulated, so that the truth is known.
"""

import numpy as np

from probreg import scores
from probreg.show.plot.reliability import reliability

one_day = scores.compare_forecasts([1], {"A": [0.7], "B": [0.8]})
print(one_day)

rng = np.random.default_rng(3)
truth = np.round(rng.beta(1.5, 2.0, 365), 2)  # the probability of rain, day by day
rain = (rng.random(365) < truth).astype(int)
said = {
    "A": np.round(truth, 1),  # knows the truth, in tenths
    "B": np.round(
        np.clip(0.5 + 1.7 * (truth - 0.5), 0.02, 0.98), 1
    ),  # knows as much, and overstates it
}

print("\nA year of the same days, by two proper rules and an improper one:")
year = {
    rule: scores.compare_forecasts(rain, said, rule=rule)
    for rule in ("brier", "spherical", "absolute")
}
for found in year.values():
    print(found)
print(
    "A log score would cost B infinity for each wet day that was called impossible, or dry day called certain:"
)
print(
    f"there are {int(np.isinf(scores.log_score(rain, said['B'])).sum())} of them, and {int(np.isinf(scores.log_score(rain, said['A'])).sum())} of A's."
)

print(
    "\nWhy: what B says more often than it happens is calibration; both tell wet days from dry ones about as well."
)
parts = {name: scores.decompose(rain, p) for name, p in said.items()}
for name, found in parts.items():
    print(f"{name}: {found}")
climate = scores.brier(rain, np.full(365, rain.mean()))
for name, p in said.items():
    print(
        f"{name}: skill {scores.skill(scores.brier(rain, p), climate):.3f} against saying {rain.mean():.2f} every day"
    )

print(
    "\nThe distance to the truth, which no one sees but here: the observed score less what the truth itself costs."
)
goals = {name: scores.goal(rain, p, truth=truth) for name, p in said.items()}
for name, found in goals.items():
    print(f"{name}: {found}")

reliability(rain, said, event="rain").savefig("meteorologists.png", dpi=120)

# Checks of the statements above.
assert one_day.difference > 0  # B is ahead, by one day ...
assert np.isclose(one_day.difference, 0.09 - 0.04)
assert one_day.t_interval == (-np.inf, np.inf)  # ... which proves nothing
assert year["brier"].verdict == "A is better, by both intervals"
assert year["spherical"].difference < 0
# the improper rule pays for overstatement
assert year["absolute"].verdict == "B is better, by both intervals"
assert parts["B"].calibration > 3 * parts["A"].calibration
for found in parts.values():
    # exact: forecasts repeat
    assert np.isclose(found.score, found.calibration + found.refinement, atol=1e-12)
for name, found in goals.items():
    assert np.isclose(found.goal, np.mean((said[name] - truth) ** 2), atol=1e-12)
    assert np.isclose(
        found.goal, found.observed - found.intrinsic - found.chance, atol=1e-12
    )
assert goals["A"].goal < goals["B"].goal
# the rain is as hard to foresee for both
assert goals["A"].intrinsic == goals["B"].intrinsic
