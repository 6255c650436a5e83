"""A monthly series as a sum of three processes: a slow trend, a season with a changing shape, and irregular noise.

Twelve years of a gas in the air, simulated with a fixed seed after the series of Mauna Loa (Rasmussen & Williams 2006, section 5.4.3),
so that the parts are known. A sum of covariance functions is one model; the evidence finds its scales and lengths.
"""

import matplotlib.pyplot as plt
import numpy as np

import probreg as pr
from probreg import kernels

rng = np.random.default_rng(3)
years = np.arange(15 * 12) / 12.0
seen = years < 12.0


def drawn(kernel: pr.kernels.CovarianceFunction) -> np.ndarray:
    """One path of a process at all months."""
    return np.linalg.cholesky(kernel(years) + 1e-9 * np.eye(len(years))) @ rng.normal(
        size=len(years)
    )


season = 9.0 * kernels.Periodic(period=1.0, length=1.2) * kernels.RBF(30.0)
irregular = 0.5 * kernels.Matern(0.6, nu=1.5)
truth = 330.0 - drawn(100.0 * kernels.RBF(8.0)) + drawn(season) + drawn(irregular)
level = truth + 0.2 * rng.normal(size=len(years))

# The search starts at what one would guess: a trend over a decade, a season of a year, an irregular part of some months.
guess = (
    50.0 * kernels.RBF(10.0)
    + 4.0 * kernels.Periodic(period=1.0, length=1.0)
    + kernels.Matern(1.0, nu=1.5)
)
fit = pr.gp(years[seen], level[seen], kernel=guess, columns=["years"], response="level")
print(*fit.notes[:2], sep="\n")
said = fit.predict(years[:, None], prob=0.9)
later = {name: said[name].values[~seen] for name in ("mean", "new_lower", "new_upper")}
inside = np.mean(
    (later["new_lower"] < level[~seen]) & (level[~seen] < later["new_upper"])
)
error = np.sqrt(np.mean((later["mean"] - level[~seen]) ** 2))

# Half the model: a process that knows of no season takes it for noise, or for trend.
plain = pr.gp(
    years[seen],
    level[seen],
    kernel=kernels.RBF(10.0),
    columns=["years"],
    response="level",
)
there = plain.predict(years[:, None], prob=0.9)
worse = np.sqrt(np.mean((there["mean"].values[~seen] - level[~seen]) ** 2))
print(
    f"three years ahead: error {error:.2f} with the season, {worse:.2f} without; 90 % intervals hold {inside:.0%}"
)

figure, panels = plt.subplots(
    2, 1, figsize=(9.0, 6.0), sharex=True, sharey=True, layout="constrained"
)
for panel, name, band, color in zip(
    panels,
    ("trend + season + irregular", "one smooth process"),
    (said, there),
    ("#173f6e", "#0f6b57"),
    strict=True,
):
    panel.fill_between(
        years,
        band["new_lower"],
        band["new_upper"],
        color=color,
        alpha=0.22,
        lw=0,
        label="90 % of new months",
    )
    panel.plot(years, band["mean"], color=color, lw=1.3, label="estimate")
    panel.plot(
        years[seen], level[seen], ".", color="#333333", ms=3, label="months of the fit"
    )
    panel.plot(
        years[~seen], level[~seen], ".", color="#d9691e", ms=4, label="months to come"
    )
    panel.axvline(12.0, color="#999999", lw=0.8, ls=":")
    panel.set_title(name, loc="left", fontsize=11)
    panel.set_ylabel("level (simulated)")
    panel.spines[["top", "right"]].set_visible(False)
panels[0].legend(frameon=False, loc="upper left", fontsize=9, ncols=2)
panels[1].set(xlabel="years", xlim=(0.0, 15.0))
figure.savefig("seasons.png", dpi=150)
plt.close(figure)

# Checks of the statements above.
assert fit.model.design.total == 144
assert error < worse / 1.5
assert 0.7 < inside <= 1.0
half = (said["new_upper"] - said["new_lower"]).values / 2
assert half[-1] > 1.5 * half[60]  # what lies ahead is known less than what was seen
