"""Next year's sunspots: linear and kernel learners, one year at a time.

Each year from 1709 to 2008 is forecast from the nine years before it, and then observed (sunspot numbers as in statsmodels).
Every learner has a theorem that bounds its loss on these years for any sequence.
"""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm

from probreg import kernels, online

table = sm.datasets.sunspots.load_pandas().data
lagged = online.lags(table["SUNACTIVITY"].to_numpy() / 100.0, 9)
X, y, years = (
    np.column_stack([lagged.X, np.ones(len(lagged.y))]),
    lagged.y,
    table["YEAR"].to_numpy(int)[9:],
)

# Kernel least squares is the mean of a process: a line, and a smooth function that may bend the line.
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

paths = {name: online.run(learner, X, y) for name, learner in learners.items()}
guarantees = {name: path.guarantee() for name, path in paths.items()}
print(
    f"{'':<28}{'loss':>8}{'its bound':>11}   of {len(y)} years, in squares of 100 spots"
)
for name, guarantee in guarantees.items():
    print(f"{name:<28}{guarantee.cumulative_loss:>8.2f}{guarantee.bound:>11.2f}")

figure, (top, bottom) = plt.subplots(
    2, 1, figsize=(9.0, 5.5), sharex=True, layout="constrained"
)
top.plot(years, 100 * y, color="#888888", lw=1.0, label="sunspots")
top.plot(
    years,
    100 * paths["Gaussian process, length 1"].predictions,
    color="#173f6e",
    lw=1.2,
    label="forecast of the year before",
)
top.set_ylabel("sunspots")
top.legend(frameon=False, fontsize=9)
for name, path in paths.items():
    bottom.plot(
        years,
        np.cumsum(path.losses),
        lw=1.3,
        label=name,
        linestyle="-" if "process" in name else "--",
    )
bottom.set(xlabel="year", ylabel="loss so far")
bottom.legend(frameon=False, fontsize=7, ncols=3, loc="upper left")
for panel in (top, bottom):
    panel.spines[["top", "right"]].set_visible(False)
figure.savefig("online_kernel.png", dpi=120)
plt.close(figure)

# Checks of the statements above.
assert all(guarantee.applies and guarantee.holds for guarantee in guarantees.values())
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
