"""Next year's sunspots, one year at a time: lines, functions of a kernel, and one forecast from all of them.

Each year, from 1709 to 2008, is forecast from the nine before it, and then told (sunspot numbers as statsmodels has them). Nobody knows
beforehand which memory, which smoothness and which step will do: eight learners run side by side, and the aggregating algorithm
makes one forecast of theirs. Its theorem holds for the sun as for any other source.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from probreg import kernels, online

table = sm.datasets.sunspots.load_pandas().data
LOW, HIGH = (
    0.0,
    2.5,
)  # hundreds of spots: a range that is stated, and not read off these years
lagged = online.lags(table["SUNACTIVITY"].to_numpy() / 100.0, 9)
X, y, years = (
    np.column_stack([lagged.X, np.ones(len(lagged.y))]),
    lagged.y,
    table["YEAR"].to_numpy(int)[9:],
)

# The process that kernel least squares is the mean of: a line, and a smooth function beside it that may bend the line.
line = kernels.Linear()
learners = {
    "LMS": online.lms(0.05),
    "recursive least squares": online.rls(precision=1.0),
}
for length in (1.0, 2.0, 4.0):
    learners[f"kernel LMS, length {length:g}"] = online.kernel(
        online.lms(0.5), kernels.RBF(length)
    )
for length in (0.5, 1.0, 2.0):
    learners[f"Gaussian process, length {length:g}"] = online.kernel(
        online.rls(precision=0.3), line + kernels.RBF(length)
    )
everyone = online.aggregate(list(learners.values()), low=LOW, high=HIGH)

paths = {name: online.run(learner, X, y) for name, learner in learners.items()}
pool = online.run(everyone, X, y, record=online.Record(every=1))
promises = {name: path.guarantee() for name, path in paths.items()}
print(
    f"{'':<28}{'loss':>8}{'its bound':>11}   of {len(y)} years, in squares of 100 spots"
)
for name, promise in promises.items():
    print(f"{name:<28}{promise.cumulative_loss:>8.2f}{promise.bound:>11.2f}")
regret = pool.regret()
print(f"{'all, aggregated':<28}{pool.loss:>8.2f}{pool.guarantee().bound:>11.2f}")
print(
    f"the best of them after the event: {list(learners)[int(np.argmax(regret.comparator))]}; regret {regret.value:.2f}"
)
print(pool.guarantee())

figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(9.0, 5.5), sharex=True, layout="constrained"
)
top.plot(years, 100 * y, color="#888888", lw=1.0, label="sunspots")
top.plot(
    years,
    100 * pool.predictions,
    color="#173f6e",
    lw=1.2,
    label="forecast of the year before",
)
top.set_ylabel("sunspots")
top.legend(frameon=False, fontsize=9)
for name, w in zip(learners, pool.weights[:-1].T, strict=True):
    bottom.plot(
        years, w, lw=1.3, label=name, linestyle="-" if "process" in name else "--"
    )
bottom.set(xlabel="year", ylabel="weight of a learner", ylim=(0, 0.32))
bottom.legend(frameon=False, fontsize=7, ncols=3, loc="upper left")
for panel in (top, bottom):
    panel.spines[["top", "right"]].set_visible(False)
figure.savefig("online_kernel.png", dpi=120)
plt.close(figure)

# What the story rests on.
assert all(promise.applies and promise.holds for promise in promises.values())
assert pool.guarantee().applies
assert regret.value <= (HIGH - LOW) ** 2 * np.log(len(learners)) / 2
assert (
    paths["Gaussian process, length 1"].loss
    < 0.85 * paths["recursive least squares"].loss
)  # the sun is no line
alone = online.kernel(online.rls(precision=0.3), line + kernels.RBF(2.0))
K = (line + kernels.RBF(2.0))(X)
np.testing.assert_allclose(  # the last state is kernel ridge regression of all years
    alone.predict(paths["Gaussian process, length 2"].state, X),
    K @ np.linalg.solve(K + 0.3 * np.eye(len(y)), y),
    atol=1e-8,
)
