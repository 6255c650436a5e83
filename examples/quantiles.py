"""Quantile curves of a crash, and the curve of support vector regression.

Head acceleration after a simulated motorcycle crash (Silverman 1985; the table is public domain): its spread changes tenfold within 50 ms. Three quantile curves
show it without a model of the noise; support vector regression draws one curve from the rows outside its tube.
"""

import matplotlib.pyplot as plt
import numpy as np

import probreg as pr

table = pr.load_dataset("motorcycle")
time, y = table["times"].to_numpy(float), table["accel"].to_numpy(float)
grid = np.linspace(time.min(), time.max(), 200)

fits = pr.quantile_regression("accel ~ bs(times, df=9)", table, tau=[0.1, 0.5, 0.9])
for tau, fit in fits.items():
    below = np.mean(y < fit.predict(table)["mean"].values)
    print(
        f"quantile {tau:g}: {below:.1%} of the rows lie below; gap {fit.solution.stats['gap']:.1e}"
    )
for note in fits[0.5].notes:
    print("note:", note)

svr = pr.svr(time, y, kernel=pr.kernels.RBF(5.0), C=500.0, epsilon=20.0)
print(svr.notes[0])
print(svr.notes[1])

# Checks of the statements above.
for tau, fit in fits.items():
    below = np.mean(y < fit.predict(table)["mean"].values)
    assert abs(below - tau) < 0.06
assert svr.solution.stats["gap"] < 1e-9
assert (np.abs(svr.support["residual"]) >= 20.0 - 1e-6).all()

fig, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4), sharey=True, layout="constrained"
)
for axes in (left, right):
    axes.plot(time, y, ".", color="0.6", markersize=4)
    axes.set_xlabel("time after impact, ms")
left.set_ylabel("acceleration, g")
for tau, fit in fits.items():
    left.plot(grid, fit.predict({"times": grid})["mean"], label=f"{tau:g} quantile")
left.set_title("three quantiles")
left.legend()
curve = svr.predict(grid)["mean"].values
right.plot(grid, curve, label="support vector regression")
right.fill_between(grid, curve - 20, curve + 20, alpha=0.2, label="tube")
held = svr.support.index.to_numpy(int)
right.plot(
    time[held],
    y[held],
    "o",
    markerfacecolor="none",
    color="C3",
    label=f"{len(held)} support vectors",
)
right.set_title("C = 500, epsilon = 20")
right.legend()
fig.savefig("quantiles.png", dpi=150)
