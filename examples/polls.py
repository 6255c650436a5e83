"""A poll of fifty states: the opinion in each state from 1,500 answers that are no random sample.

Some states have a handful of answers, others seventy, and old people answer three times as often as young ones. Three estimates of the share of yes
in each state are compared: the raw answers, one number for all states, and a multilevel model with cells weighted by the census (multilevel
regression with post-stratification: Gelman & Little 1997; Park, Gelman & Bafumi 2004). The states are simulated, so that the truth is known.
"""

import numpy as np
import pandas as pd

import probreg as pr

rng = np.random.default_rng(17)
states = np.array([f"s{i:02d}" for i in range(50)])
ages = np.array(["18-29", "30-44", "45-64", "65+"])

print("1. The truth, which a poll does not know\n")
income = rng.normal(size=50)  # of a state, standardised
# shares of ages in each state: the census
people = rng.dirichlet([5.0, 7.0, 9.0, 5.0], size=50)
eta = (0.5 * income + rng.normal(0.0, 0.35, size=50))[:, None] + np.array(
    [0.8, 0.4, -0.2, -0.8]
)
probability = 1.0 / (1.0 + np.exp(-eta))
truth = (people * probability).sum(1)
print(
    f"shares of yes from {truth.min():.2f} to {truth.max():.2f}, {truth.mean():.2f} on average"
)

print("\n2. The poll\n")
answers = (
    (0.004 + rng.dirichlet(np.full(50, 1.5)))[:, None]
    * people
    * np.array([0.5, 0.8, 1.1, 1.6])
)
asked = rng.multinomial(1500, (answers / answers.sum()).ravel()).reshape(50, 4)
yes = rng.binomial(asked, probability)
cells = pd.DataFrame(
    {
        "state": np.repeat(states, 4),
        "age": np.tile(ages, 50),
        "income": np.repeat(income, 4),
        "yes": yes.ravel(),
        "asked": asked.ravel(),
    }
)
poll = cells[cells["asked"] > 0]
print(
    f"{asked.sum()} answers; from {asked.sum(1).min()} to {asked.sum(1).max()} in a state"
)

print("\n3. The model: cells of state and age, states about a line in income\n")
model = pr.Model.from_formula(
    "p(yes, asked) ~ age + income + (1 | state)",
    poll,
    likelihood="binomial",
    prior={"1 | state": pr.Covariance(sd=pr.HalfNormal(1.0))},
)
print(pr.check(model))
fit = pr.fit(model, "posterior", seed=1)
print(fit)

print("\n4. Every cell is predicted, and weighted by the census\n")
everyone = cells.assign(yes=0, asked=1)  # cells without an answer too
draws = fit.predictive(everyone, groups="known", trials=np.ones(len(everyone))).means()
share = (draws.reshape(len(draws), 50, 4) * people).sum(2)  # (draws, states)
lower, upper = np.quantile(share, [0.05, 0.95], axis=0)

overall = yes.sum() / asked.sum()
estimates = {
    "answers as they are": yes.sum(1) / asked.sum(1),
    "one number for all": np.full(len(truth), overall),
    "multilevel, post-stratified": share.mean(0),
}
error = {name: np.abs(found - truth).mean() for name, found in estimates.items()}
few = asked.sum(1) <= 15
for name, found in estimates.items():
    print(
        f"{name:<28} mean absolute error {error[name]:.3f}; in the {few.sum()} states with 15 answers or fewer "
        f"{np.abs(found - truth)[few].mean():.3f}; mean error {np.mean(found - truth):+.3f}"
    )
held = ((lower < truth) & (truth < upper)).mean()
print(f"\n90 % intervals hold the truth in {held:.0%} of the states")
smallest = int(np.argmin(asked.sum(1)))
print(
    f"The state with {asked[smallest].sum()} answers: {estimates['answers as they are'][smallest]:.2f} raw, "
    f"{share.mean(0)[smallest]:.2f} ({lower[smallest]:.2f} to {upper[smallest]:.2f}) by the model, {truth[smallest]:.2f} in truth."
)

# Checks of the statements above.
assert min(error, key=lambda name: error[name]) == "multilevel, post-stratified"
assert error["multilevel, post-stratified"] < 0.6 * error["answers as they are"]
assert error["multilevel, post-stratified"] < 0.6 * error["one number for all"]
bias = {name: abs(np.mean(found - truth)) for name, found in estimates.items()}
# the old answer more often
assert bias["multilevel, post-stratified"] < 0.5 * bias["answers as they are"]
assert 0.8 <= held <= 1.0  # of 50 states: 0.9 within two standard errors of a share
