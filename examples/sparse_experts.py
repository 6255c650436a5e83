"""Few of many features matter: exponentiated gradient and gradient descent.

Three of p features determine the response. The loss of gradient descent grows like p; the loss of exponentiated gradient
grows like log p (Kivinen & Warmuth 1997). Both learners use the step of their theorem, which needs the noise, and the size
of the weights within a factor of two.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import probreg.online as online

relevant = np.array([1.0, -1.0, 1.0])
n, noise, repeats = 1000, 0.2, 8
widths = [2**k for k in range(2, 10)]  # 4 .. 512
lowest = noise**2 * n  # the loss of the true weights, in expectation
names = ["gradient descent", "exponentiated gradient"]


def data(p: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features -1, +1, the first three of them relevant: ||x||^2 = p, no value larger than 1."""
    rng = np.random.default_rng([p, seed])
    X = rng.choice([-1.0, 1.0], (n, p))
    return X, X[:, :3] @ relevant + noise * rng.standard_normal(n)


def learners(p: int, slack: float) -> tuple[online.Gradient, online.Gradient]:
    """Both learners, with the step that makes the bound smallest for weights `slack` times as large as the true ones."""
    norm = slack * np.abs(relevant).sum()
    additive = online.additive_step(
        np.sqrt(p), slack * float(np.linalg.norm(relevant)), lowest
    )
    multiplicative = online.multiplicative_step(2 * norm, np.log(2 * p), lowest)
    return online.lms(additive), online.eg_pm(multiplicative, norm=norm)


def runs(p: int, slack: float = 2.0) -> np.ndarray:
    """Excess loss over the true weights, and the bound of the theorem: (repeat, learner, 2)."""
    u, found = np.r_[relevant, np.zeros(p - 3)], np.empty((repeats, 2, 2))
    for seed in range(repeats):
        X, y = data(p, seed)
        for k, learner in enumerate(learners(p, slack)):
            promised = online.run(learner, X, y).guarantee(u)
            assert promised.applies
            found[seed, k] = (
                np.array([promised.cumulative_loss, promised.bound])
                - promised.comparator_loss
            )
    return found


def crossing(gap: np.ndarray) -> float:
    """Where log(loss of descent / loss of exponentiated gradient) passes 0, between two widths (nan: nowhere)."""
    j = int(np.argmax(gap > 0))
    return (
        float(2 ** np.interp(0.0, gap[j - 1 : j + 1], np.log2(widths[j - 1 : j + 1])))
        if j
        else np.nan
    )


found = np.array([runs(p) for p in widths])  # (width, repeat, learner, loss and bound)
mean, bound = found.mean(axis=1).transpose(2, 1, 0)
print(f"loss beyond that of the true weights in {n} rounds, mean of {repeats} runs")
print(f"{'p':>5}  " + "  ".join(f"{name:>24}" for name in names))
for i, p in enumerate(widths):
    print(
        f"{p:5d}  "
        + "  ".join(f"{mean[k, i]:11.1f} (<= {bound[k, i]:7.1f})" for k in range(2))
    )
met, promised = (
    crossing(np.log(mean[0] / mean[1])),
    crossing(np.log(bound[0] / bound[1])),
)
print(
    f"exponentiated gradient is ahead from about p = {met:.0f} on, its bound from about p = {promised:.0f} on"
)
few = {
    slack: np.array([runs(p, slack)[..., 0].mean(axis=0) for p in widths[:4]]).T
    for slack in (1.1, 2.0, 4.0)
}
for slack, (descent, multiplied) in few.items():
    ahead = ", ".join(
        f"{a:+.1f} at {p}"
        for a, p in zip(descent - multiplied, widths[:4], strict=True)
    )
    print(f"size known within a factor of {slack:g}: its lead in loss is {ahead}")

figure, axes = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
for k, (grey, dash, marker) in enumerate([("0.5", "--", "s"), ("0.0", "-", "o")]):
    axes.plot(
        widths, mean[k], color=grey, linestyle=dash, marker=marker, label=names[k]
    )
    axes.plot(
        widths, bound[k], color=grey, linestyle=":", linewidth=1.2, label="its bound"
    )
axes.axvline(met, color="0.8", linewidth=1, zorder=0)
axes.annotate(
    f"p = {met:.0f}", (met, mean.min()), (4, 0), textcoords="offset points", color="0.4"
)
axes.set_xscale("log", base=2)
axes.set_yscale("log")
axes.set_xticks(widths, [str(p) for p in widths])
axes.set(
    xlabel="features p, 3 of them relevant",
    ylabel="cumulative loss beyond that of the true weights",
)
axes.legend(frameon=False)
figure.savefig("sparse_experts.png", dpi=120)
plt.close(figure)

# Checks of the statements above.
assert np.all(found[..., 0] <= found[..., 1])  # every run is within its theorem's bound
lead = found[:, :, 0, 0] - found[:, :, 1, 0]  # (width, repeat)
error = lead.std(axis=1, ddof=1) / np.sqrt(repeats)
# four features: adding is ahead, by more than chance
assert lead.mean(axis=1)[0] < -4 * error[0]
assert np.all(lead.mean(axis=1)[2:] > 4 * error[2:])  # from sixteen on: multiplying is
# theory sees the crossing later: bounds are worst cases
assert 4 < met < 16 < promised < 32
# 1 for loss like p, 0 for a constant
growth = np.log(mean[:, -1] / mean[:, 2]) / np.log(widths[-1] / widths[2])
assert growth[0] > 0.7
assert growth[1] < 0.4
# with less known, adding is ahead at eight features too
assert few[4.0][0, 1] < few[4.0][1, 1]
