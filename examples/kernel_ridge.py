"""Kernel ridge, ridge and nearest neighbours: proper scores on 442 patients.

Ten measurements predict the progression of diabetes a year later (Efron, Hastie, Johnstone & Tibshirani 2004; the table comes with
scikit-learn). Each forecast is a distribution. It is scored on held-out rows by the log score and the CRPS, which are best for
honest forecasts, and by the coverage of its 90 % interval.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import norm
from sklearn.datasets import load_diabetes
from sklearn.neighbors import NearestNeighbors

import probreg as pr
from probreg import kernels, scores

table = load_diabetes(as_frame=True, scaled=False)
raw, y = table.data.to_numpy(float), table.target.to_numpy(float)
FOLDS = np.random.default_rng(1).permutation(len(y)) % 5
K = 25  # neighbours


def of_fit(model: pr.Model, Z: np.ndarray, truth: np.ndarray) -> dict[str, np.ndarray]:
    """The scale of the prior by leave-one-out on the training rows; then the exact posterior, sigma integrated out."""
    tuned = pr.tune(model, "loo", score="squared").model
    fit = pr.fit(tuned, "posterior", seed=1)
    ends = fit.predict(Z, prob=0.9)
    draws = fit.predictive(Z)
    return {
        "mean": ends["mean"].values,
        "log": -draws.log_prob(truth),
        "CRPS": scores.crps_sample(truth, draws.sample(np.random.default_rng(0), 2000)),
        "held": (ends["new_lower"].values < truth) & (truth < ends["new_upper"].values),
    }


def of_neighbours(
    X: np.ndarray, target: np.ndarray, Z: np.ndarray, truth: np.ndarray
) -> dict[str, np.ndarray]:
    """The normal distribution with the mean of the nearest rows, and the spread with which these err on the training rows."""
    near = NearestNeighbors(n_neighbors=K).fit(X)
    # a row is no neighbour of itself
    errors = target - target[near.kneighbors(return_distance=False)].mean(1)
    mean, sd = target[near.kneighbors(Z, return_distance=False)].mean(1), errors.std()
    lower, upper = norm.interval(0.9, mean, sd)
    log, crps = -norm.logpdf(truth, mean, sd), scores.crps_normal(truth, mean, sd=sd)
    return {
        "mean": mean,
        "log": log,
        "CRPS": crps,
        "held": (lower < truth) & (truth < upper),
    }


names = ("kernel ridge", "ridge", "neighbours")
what = ("mean", "log", "CRPS", "held")
found = {name: {key: np.zeros(len(y)) for key in what} for name in names}
for fold in range(5):
    test = fold == FOLDS
    center, spread = raw[~test].mean(0), raw[~test].std(0)  # of the training rows alone
    X, Z = (raw[~test] - center) / spread, (raw[test] - center) / spread
    kernel = pr.kernel_ridge(X, y[~test], kernel=kernels.RBF(5.0), lam=1.0).model
    linear = pr.Model.from_arrays(X, y[~test], prior=pr.Normal(1.0, sigma_units=True))
    each = (
        of_fit(kernel, Z, y[test]),
        of_fit(linear, Z, y[test]),
        of_neighbours(X, y[~test], Z, y[test]),
    )
    for name, said in zip(names, each, strict=True):
        for key in what:
            found[name][key][test] = said[key]

print(f"{'':<14}{'log score':>10}{'CRPS':>8}{'RMSE':>8}{'90 % held':>11}")
for name, said in found.items():
    error = np.sqrt(np.mean((said["mean"] - y) ** 2))
    print(
        f"{name:<14}{said['log'].mean():>10.4f}{said['CRPS'].mean():>8.2f}{error:>8.2f}{said['held'].mean():>11.1%}"
    )

# A difference of scores row by row has a standard error of its own, much smaller than that of either score.
base = found["ridge"]["CRPS"]
gaps = {name: found[name]["CRPS"] - base for name in ("kernel ridge", "neighbours")}
for name, gap in gaps.items():
    print(
        f"{name} less ridge: {gap.mean():+.2f} CRPS, standard error {gap.std() / len(y) ** 0.5:.2f}"
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(10.0, 3.8), layout="constrained")
colors = {"kernel ridge": "#173f6e", "ridge": "#0f6b57", "neighbours": "#d9691e"}
for place, (name, said) in enumerate(found.items()):
    values = said["CRPS"]
    left.errorbar(
        values.mean(),
        place,
        xerr=values.std() / len(y) ** 0.5,
        fmt="o",
        color=colors[name],
        capsize=4,
        ms=7,
    )
left.set_yticks(range(3), names)
left.set(
    xlabel="mean CRPS and its standard error (points; less is better)", ylim=(2.5, -0.5)
)
right.axhline(0.0, color="#888888", lw=0.8)
order = np.argsort(found["ridge"]["mean"])
for name, gap in gaps.items():
    right.plot(
        np.arange(1, len(y) + 1),
        np.cumsum(gap[order]),
        color=colors[name],
        lw=1.5,
        label=f"{name} less ridge",
    )
right.set(
    xlabel="patients, in order of what ridge predicts",
    ylabel="sum of differences in CRPS",
)
right.legend(frameon=False, fontsize=9)
for panel in (left, right):
    panel.spines[["top", "right"]].set_visible(False)
figure.savefig("kernel_ridge.png", dpi=150)
plt.close(figure)

# Checks of the statements above.
for name in ("kernel ridge", "ridge"):
    # intervals of the posterior are honest
    assert 0.86 < found[name]["held"].mean() < 0.94
gap = gaps["kernel ridge"]
# ten measurements act nearly in a line: the kernel gains little
assert abs(gap.mean()) < 3 * gap.std() / len(y) ** 0.5
assert gaps["neighbours"].mean() > 0
assert found["neighbours"]["log"].mean() > found["ridge"]["log"].mean()
