"""Which generalisation bounds apply to a fit? Body mass of penguins from bills and flippers.

Before any measurement, a zoologist knows that these penguins weigh between 2 and 7 kg. With this range and independent rows, a
hold-out set bounds the mean squared error on new birds. Bounds for whole classes of functions are wider.
"""

import matplotlib.pyplot as plt
import numpy as np

import probreg as pr

birds = pr.load_dataset("penguins").dropna()
X = birds[["bill_length_mm", "bill_depth_mm", "flipper_length_mm"]].to_numpy(float)
# units and origins that a field guide gives, not this sample: 10 mm steps from 44, 17 and 200 mm
X = (X - [44.0, 17.0, 200.0]) / 10.0
mass = birds["body_mass_g"].to_numpy(float) / 1000.0
RANGE, MIDDLE = (2.0, 7.0), 4.5

settings = {
    "intercept": False,
    "offset": np.full(len(mass), MIDDLE),
    "columns": ["bill", "depth", "flipper"],
}
model = pr.Model.from_arrays(
    X, mass, prior=pr.Normal(0.5), aux={"sigma": 0.4}, response="mass", **settings
)
fits = {
    "least squares": pr.fit(model.with_prior(pr.Flat())),
    "ridge": pr.fit(model),
    "kernel ridge": pr.kernel_ridge(
        X,
        mass,
        kernel=pr.kernels.RBF(2.0),
        lam=30.0,
        intercept=False,
        offset=settings["offset"],
        response="mass",
    ),
}
found = {
    name: pr.guarantee(fit, RANGE, row_norm=4.0 if name == "ridge" else None)
    for name, fit in fits.items()
}
for name, one in found.items():
    print(f"{name}\n{one}\n")

# the two linear fits share rows and columns, and so one table
print(pr.compare({name: fits[name] for name in ("least squares", "ridge")}))

figure, panel = plt.subplots(figsize=(8.0, 4.6), layout="constrained")
colors = {"least squares": "#d9691e", "ridge": "#0f6b57", "kernel ridge": "#173f6e"}
labels: list[str] = []
for name, one in found.items():
    for line in one.lines:
        if line.bound is None or "Hoeffding" in line.bound.source:
            continue
        labels.append(f"{line.bound.theorem} ({name})")
        place = -len(labels)
        panel.plot(
            [line.bound.empirical, line.bound.value],
            [place, place],
            color=colors[name],
            lw=1.2,
        )
        panel.plot(
            line.bound.value,
            place,
            "o" if not line.bound.vacuous else "x",
            color=colors[name],
        )
judged = found["ridge"].losses[0]
for value, words, style in (
    (judged.middle, "middle of the range", ":"),
    (judged.most, "largest loss", "-"),
):
    panel.axvline(value, color="#888888", lw=0.8, ls=style, label=words)
panel.legend(frameon=False, loc="lower right", fontsize=8)
panel.set_yticks(range(-1, -len(labels) - 1, -1), labels, fontsize=8)
panel.set(
    xscale="log",
    xlabel="mean squared error (kg²): on the rows, and at most on new ones",
)
panel.spines[["top", "right"]].set_visible(False)
figure.savefig("bounds.png", dpi=150)
plt.close(figure)

# Checks of the statements above.
for one in found.values():
    held, limits = (
        one.held_out.bound,
        [line.bound.value for line in one.lines[1:] if line.bound is not None],
    )
    assert held is not None
    # it says more than that the middle of the range is never far
    assert held.value < one.losses[0].middle
    assert held.value <= min(limits)  # and more than any theorem for a whole class
# a flat prior has no PAC-Bayes bound
assert found["least squares"].lines[-1].bound is None
assert any(
    line.bound is not None and line.bound.vacuous for line in found["ridge"].lines
)  # some say nothing, in so many words
