"""A smooth function and a Gaussian process: motorcycle impacts with bands.

The head of a rider in the milliseconds after a simulated impact (Silverman 1985). A spline and a process agree
between the rows and disagree outside them, where the result depends on their assumptions.
"""

import matplotlib.pyplot as plt
import numpy as np

import probreg as pr

crash = pr.load_dataset("motorcycle")
fits = {
    "s(times, k=20)": pr.fit(pr.Model.from_formula("accel ~ s(times, k=20)", crash)),
    "gp(times)": pr.fit(pr.Model.from_formula("accel ~ gp(times)", crash)),
}
for name, fit in fits.items():
    print(
        f"{name}: {fit.smooths['edf'].iloc[0]:.1f} effective degrees of freedom, sigma {fit.aux['sigma']:.1f} g"
    )
print(pr.hypothesis(fits["s(times, k=20)"], "s(times) is linear"))
models = pr.compare_models(fits)
print(models)

times = np.linspace(0.0, 75.0, 300)
figure, panels = plt.subplots(
    1, 2, figsize=(10.0, 4.0), sharey=True, layout="constrained"
)
said = {}
for panel, color, (name, fit) in zip(
    panels, ("#173f6e", "#0f6b57"), fits.items(), strict=True
):
    said[name] = there = fit.predict({"times": times}, prob=0.95)
    panel.fill_between(
        times,
        there["new_lower"],
        there["new_upper"],
        color=color,
        alpha=0.10,
        lw=0,
        label="a new row",
    )
    panel.fill_between(
        times,
        there["mean_lower"],
        there["mean_upper"],
        color=color,
        alpha=0.30,
        lw=0,
        label="the mean",
    )
    panel.plot(times, there["mean"], color=color, lw=1.6, label="estimate")
    panel.plot(crash["times"], crash["accel"], ".", color="#444444", ms=3.5)
    panel.axvline(crash["times"].max(), color="#999999", lw=0.8, ls=":")
    panel.annotate(
        "no rows", (crash["times"].max() + 1, -175), color="#777777", fontsize=9
    )
    panel.set(
        title=name,
        xlabel="milliseconds after the impact",
        ylim=(-190, 150),
        xlim=(0, 75),
    )
    panel.spines[["top", "right"]].set_visible(False)
panels[0].set_ylabel("acceleration of the head (g)")
panels[0].legend(frameon=False, loc="upper left", fontsize=9)
figure.savefig("motorcycle.png", dpi=150)
plt.close(figure)

# Where the function falls and rises for certain: the simultaneous band of its derivative leaves out zero.
slope = fits["s(times, k=20)"].smooth("s(times)", derivative=True)
at = slope["x"].values[:, 0]
falls, rises = (
    at[slope["simultaneous_upper"].values < 0],
    at[slope["simultaneous_lower"].values > 0],
)
print(
    f"it falls from {falls.min():.1f} to {falls.max():.1f} ms and rises from {rises.min():.1f} to {rises.max():.1f} ms"
)
pr.plot.smooth(fits["s(times, k=20)"], derivative=True).savefig(
    "motorcycle_slope.png", dpi=150
)

# Checks of the statements above.
curve, process = said.values()
inside = times < crash["times"].max()
# one curve, where there are rows
assert np.abs(curve["mean"] - process["mean"]).values[inside].max() < 15
widths = [float((b["mean_upper"] - b["mean_lower"])[-1]) for b in (curve, process)]
# a spline knows nothing of the range of the response, a process does
assert widths[0] > 1.5 * widths[1]
far = fits["gp(times)"].predict({"times": [75.0, 300.0]})
# that of the prior, and no narrower
np.testing.assert_allclose(far["mean_upper"][0], far["mean_upper"][1], rtol=0.02)
# rows that are left out are predicted equally well
assert abs(models.table["elpd_diff"].iloc[-1]) < 2
assert 12 < falls.min() < falls.max() < rises.min() < rises.max() < 32
