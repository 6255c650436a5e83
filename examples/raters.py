"""Raters and wines: how much of a score is the wine, how much the rater, and how much neither?

Twenty-four raters score thirty wines, each rater some of them, so that both factors are crossed and no table is full. The scores are
simulated with known standard deviations: wines 2.0, raters 1.5, noise 2.5. What decides a fair ranking is the share of the wine.
"""

import numpy as np
import pandas as pd

import probreg as pr

rng = np.random.default_rng(7)
truth = {"sd(Intercept | wine)": 2.0, "sd(Intercept | rater)": 1.5, "sigma": 2.5}
wine, rater = rng.normal(0.0, 2.0, size=30), rng.normal(0.0, 1.5, size=24)
pairs = np.array([(w, r) for w in range(30) for r in range(24)])
# severe raters met the better wines more often, so that plain means of wines are not fair
met = rng.random(len(pairs)) < 0.7 / (
    1.0 + np.exp(0.8 * wine[pairs[:, 0]] * np.sign(rater[pairs[:, 1]]))
)
w, r = pairs[met].T
scores = pd.DataFrame(
    {
        "score": 85.0 + wine[w] + rater[r] + rng.normal(0.0, 2.5, size=len(w)),
        "wine": [f"w{k:02d}" for k in w],
        "rater": [f"r{k:02d}" for k in r],
    }
)
print(f"1. The scores: {len(scores)} of {30 * 24} pairs\n")
model = pr.Model.from_formula("score ~ 1 + (1 | wine) + (1 | rater)", scores)
print(pr.check(model))

print("\n2. Components of variance\n")
reml = pr.fit(model)
print(reml)
print("\nstandard deviation, 95 % profile interval, truth")
intervals = {}
for name, value in truth.items():
    intervals[name] = lower, upper = reml.aux_interval(name)
    print(
        f"  {name:<22} {reml.solution.hyper[name][0]:.2f}  {lower:.2f} to {upper:.2f}  {value:.2f}"
    )

print("\n3. Do raters differ at all?\n")
differ = pr.hypothesis(reml, "sd(Intercept | rater) = 0")
print(differ)

print(
    "\n4. The same question as a posterior: the share of the wine in one score, and in the mean of eight\n"
)
prior = {
    f"1 | {group}": pr.Covariance(sd=pr.HalfNormal(5.0)) for group in ("wine", "rater")
}
posterior = pr.fit(model.with_prior(prior), "posterior", seed=1)
draws = {name: posterior.tree["posterior"][name].values.ravel() for name in truth}
part, other = (
    draws["sd(Intercept | wine)"] ** 2,
    draws["sd(Intercept | rater)"] ** 2 + draws["sigma"] ** 2,
)
share = {n: np.quantile(part / (part + other / n), [0.025, 0.5, 0.975]) for n in (1, 8)}
for n, (lower, middle, upper) in share.items():
    print(
        f"mean of {n} score{'s' * (n > 1)}: {middle:.2f} of the variance is the wine ({lower:.2f} to {upper:.2f})"
    )
print(pr.compare({"REML": reml, "posterior": posterior}))

print("\n5. The ranking: plain means, and effects that count who rated\n")
known = [f"w{k:02d}" for k in range(30)]
plain = scores.groupby("wine")["score"].mean().reindex(known).to_numpy()
effects = reml.effects("wine").set_index("group").loc[known]
error = {
    "plain means": plain - plain.mean() - wine,
    "effects": effects["estimate"].to_numpy() - wine + wine.mean(),
}
error = {
    name: float(np.sqrt(np.mean((e - e.mean()) ** 2))) for name, e in error.items()
}
print(
    f"root mean squared error of the wines: {', '.join(f'{name} {e:.2f}' for name, e in error.items())}"
)
best = effects["estimate"].idxmax()
print(
    f"best: {best}, {effects.loc[best, 'estimate']:+.1f} ({effects.loc[best, 'lower']:+.1f} to {effects.loc[best, 'upper']:+.1f})"
)
new = posterior.predict(
    {"wine": ["another"], "rater": ["another"]}, groups="new", output="pandas"
)
print(
    f"another wine by another rater: {new['new_lower'][0]:.0f} to {new['new_upper'][0]:.0f}"
)

# Checks of the statements above.
for name, value in truth.items():
    lower, upper = intervals[name]
    assert lower < value < upper, name
assert differ["RLRT"].p < 1e-4
assert share[1][0] < 4.0 / (4.0 + 1.5**2 + 2.5**2) < share[1][2]
assert share[8][1] > share[1][1] + 0.2
assert error["effects"] < 0.9 * error["plain means"]
inside = (effects["lower"] + wine.mean() < wine) & (
    wine < effects["upper"] + wine.mean()
)
assert inside.mean() > 0.85
assert abs(posterior.coef.item() - reml.coef.item()) < 0.2 * reml.std_error.item()
