"""Two questions about penguins: one whose posterior needs no Markov chain, and one where the short cut refuses.

Is a Gentoo penguin male, by its body mass and bill? And which of three species is a bird, by four measurements of three dozen?
The first is a logistic regression with a posterior that is all but normal: weighing four thousand points about its mode
gives what NUTS gives, in a hundredth of the time. In the second the measurements all but separate the species, a wide prior is
what keeps the coefficients finite, and the posterior has a ridge that few such points reach; their weights show it.
"""

import numpy as np

import probreg as pr

table = pr.load_dataset("penguins").dropna()
gentoo = table[table["species"] == "Gentoo"].assign(mass_kg=lambda t: t["body_mass_g"] / 1000.0)
sex = pr.Model.from_formula(
    "sex ~ mass_kg + bill_depth_mm", gentoo, likelihood="bernoulli",
    prior={"Intercept": pr.Normal(100.0), "mass_kg": pr.Normal(2.5, scaled=True), "bill_depth_mm": pr.Normal(2.5, scaled=True)},
)  # fmt: skip

print("Which sex, among Gentoo penguins?\n")
first = pr.audit(sex, seed=1)
print(first)

print("\nSo the ladder stops before the sampler, and says why:\n")
fit = pr.fit(sex, "posterior", seed=1)
print(fit)
bird = {"mass_kg": [5.0], "bill_depth_mm": [15.0]}
p = fit.predict(bird)
print(
    f"\nA bird of 5 kg with a bill 15 mm deep: P = {p['mean'].item():.2f} ({p['mean_lower'].item():.2f}, {p['mean_upper'].item():.2f})"
)

dozens = table.groupby("species").head(12)
measured = ("bill_length_mm", "bill_depth_mm", "body_mass_g", "flipper_length_mm")
wide = {"Intercept": pr.Normal(500.0)} | dict.fromkeys(measured, pr.Normal(10.0, scaled=True))
species = pr.Model.from_formula(f"species ~ {' + '.join(measured)}", dozens, likelihood="categorical", prior=wide)
print("\nWhich species, by four measurements that all but separate them, under a wide prior?\n")
second = pr.audit(species, seed=1)
print(second)
row = second.table.loc["importance"]
print(
    f"\nIts four thousand points are worth {row['ess']:.0f} draws. Trusting them would have moved {row['param']} by {row['difference']:.2f}"
    f"\nstandard deviations, and made a standard deviation {row['sd_low']:.2f} times what it is."
)

bill = measured[:2]
plausible = {"Intercept": pr.Normal(500.0)} | dict.fromkeys(bill, pr.Normal(2.5, scaled=True))
print("\nThe same birds by their bills alone, under a prior that says what is plausible:\n")
third = pr.fit(
    pr.Model.from_formula(f"species ~ {' + '.join(bill)}", dozens, likelihood="categorical", prior=plausible),
    "posterior",
    seed=1,
)
print(third.notes[0])

# What the story rests on.
assert first.needed is False
assert first.verdict.startswith("NUTS was not needed: importance agrees to")
assert first.table.loc["importance", "k_hat"] < 0.5
assert first.table.loc["importance", "ess_per_second"] > first.table.loc["nuts", "ess_per_second"]
assert fit.method.name == "importance"
assert np.isfinite(fit.solution.stats["log_evidence"])
assert second.needed is not False
assert second.table.loc["importance", "k_hat"] > 0.7
assert second.table.loc["importance", "agreement"] == "refused"
assert second.table.loc["importance", "difference"] > 0.2
assert third.method.name in ("importance", "nuts")
