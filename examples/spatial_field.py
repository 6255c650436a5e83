"""A spatial field: temperature falls with altitude and varies smoothly with place.

One hundred and fifty stations are simulated with a fixed seed, so that the field is known. The model adds a Gaussian process of longitude and
latitude to an ordinary column; the map of its standard deviation shows where stations are missing.
"""

import matplotlib.pyplot as plt
import numpy as np

import probreg as pr
from probreg import kernels

rng = np.random.default_rng(4)
n = 150
lon, lat, altitude = (
    rng.uniform(0.0, 10.0, n),
    rng.uniform(0.0, 6.0, n),
    rng.gamma(2.0, 0.5, n),
)
empty = (lon > 6.0) & (lat > 3.5)  # a region without stations
lon[empty] -= 5.0
across, up = np.meshgrid(
    np.linspace(0.0, 10.0, 41), np.linspace(0.0, 6.0, 25), indexing="ij"
)
places = np.vstack([np.c_[lon, lat], np.c_[across.ravel(), up.ravel()]])
covariance = 2.0**2 * kernels.Matern(2.0, nu=1.5)(places)
field = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(places))) @ rng.normal(
    size=len(places)
)
temperature = 12.0 - 6.0 * altitude + field[:n] + 0.5 * rng.normal(size=n)
stations = {"lon": lon, "lat": lat, "altitude": altitude, "temperature": temperature}

model = pr.Model.from_formula(
    "temperature ~ altitude + gp(lon, lat, kernel='matern32')", stations
)
fit = pr.fit(model)
plane = pr.fit(pr.Model.from_formula("temperature ~ altitude + lon + lat", stations))
print(*fit.notes[1:4], sep="\n")
for name, found in {"plane": plane, "process": fit}.items():
    slope, error = (
        float(values.sel(coef="altitude")) for values in (found.coef, found.std_error)
    )
    print(
        f"{name}: {slope:.2f} degrees per km ({error:.2f}); sigma {found.aux['sigma']:.2f}"
    )

grid = {"lon": across.ravel(), "lat": up.ravel(), "altitude": np.zeros(across.size)}
said = fit.predict(grid, prob=0.9)
mean = said["mean"].values.reshape(across.shape)
spread = ((said["mean_upper"] - said["mean_lower"]) / (2 * 1.645)).values.reshape(
    across.shape
)
truth = 12.0 + field[n:].reshape(across.shape)
held = np.mean(
    (said["mean_lower"].values < truth.ravel())
    & (truth.ravel() < said["mean_upper"].values)
)
print(
    f"90 % intervals of the mean hold the true field at {held:.0%} of {across.size} places"
)

figure, panels = plt.subplots(
    1, 3, figsize=(13.0, 3.0), sharex=True, sharey=True, layout="constrained"
)
levels = np.linspace(min(truth.min(), mean.min()), max(truth.max(), mean.max()), 15)
for panel, values, title in zip(
    panels,
    (truth, mean, spread),
    ("the field", "estimate", "standard deviation"),
    strict=True,
):
    last = values is spread
    shade = panel.contourf(
        across,
        up,
        values,
        levels=12 if last else levels,
        cmap="Greys" if last else "cividis",
    )
    panel.set(title=title, xlabel="longitude", aspect="equal")
    panel.plot(lon, lat, ".", color="#d9691e", ms=4, mec="white", mew=0.3)
    if values is not truth:
        bar = figure.colorbar(
            shade, ax=panel if last else list(panels[:2]), shrink=0.95, format="%.3g"
        )
        bar.set_label("degrees at sea level", fontsize=9)
panels[0].set_ylabel("latitude")
figure.savefig("spatial_field.png", dpi=150)
plt.close(figure)

# Checks of the statements above.
assert abs(float(fit.coef.sel(coef="altitude")) + 6.0) < 3 * float(
    fit.std_error.sel(coef="altitude")
)
assert float(fit.std_error.sel(coef="altitude")) < 0.6 * float(
    plane.std_error.sel(coef="altitude")
)
assert 0.8 < held < 1.0
assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.6 * truth.std()
corner, middle = spread[30:, 20:].mean(), spread[10:20, 8:16].mean()
assert corner > 1.5 * middle  # the error bars know where no station is
