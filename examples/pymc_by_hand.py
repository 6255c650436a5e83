"""Extend a model in PyMC: noise of two sizes, and a comparison of samplers.

The accelerations of a motorcycle in a simulated crash vary little before the impact and much after it, so one sigma
is not enough. The curve comes from the formula; the likelihood is written by hand for its linear predictor.
"""

import numpy as np
import pymc as pm

import probreg as pr

crash = pr.load_dataset("motorcycle")
after = (crash["times"].to_numpy() > 14.0).astype(float)  # the impact
wide = {"Intercept": pr.Normal(100.0), "bs(times, df=7)": pr.Normal(150.0)}
model = pr.Model.from_formula(
    "accel ~ bs(times, df=7)", crash, prior=wide, aux={"sigma": pr.HalfNormal(50.0)}
)

# ---- one model, four ways to fit it ------------------------------------------------------------------------------------

sampler = {"draws": 1000, "tune": 400, "chains": 4}
fits = {
    "ML": pr.fit(model.with_prior(pr.Flat())),
    "exact": pr.fit(model, "quadrature", seed=1),
    "NUTS, compiled": pr.fit(model, pr.NUTS(**sampler), seed=1),
    "NUTS, PyMC": pr.fit(model, pr.PyMC(**sampler), seed=1),
}
side_by_side = pr.compare(fits)
print(side_by_side)

# ---- the graph, and a likelihood of one's own --------------------------------------------------------------------------

graph = model.to_pymc()
print(
    "\nfree:",
    [v.name for v in graph.free_RVs],
    " dims:",
    graph.named_vars_to_dims["bs(times, df=7)"],
)

# ends at eta, the linear predictor of each row
with model.to_pymc(response=False) as by_hand:
    growth = pm.Normal("growth", 0.0, 2.0)
    # sigma is now that before the impact
    sigma = by_hand["sigma"] * pm.math.exp(growth * after)
    pm.Normal(
        "accel",
        mu=by_hand["eta"],
        sigma=sigma,
        observed=crash["accel"].to_numpy(),
        dims="obs",
    )
    drawn = pm.sample(
        300,
        tune=500,
        chains=2,
        cores=1,
        random_seed=1,
        progressbar=False,
        nuts_sampler="nutpie",
    )

posterior = drawn["posterior"]
growth_mean, growth_sd = (
    float(posterior["growth"].mean()),
    float(posterior["growth"].std()),
)
print(
    f"\nthe noise grows by a factor {np.exp(growth_mean):.1f} at the impact (growth {growth_mean:.2f}, sd {growth_sd:.2f})"
)

# ---- what it changes ---------------------------------------------------------------------------------------------------

X = model.design.X
curve = np.einsum("nj,cdj->cdn", X, posterior["beta"].values).reshape(-1, len(X))
ours = fits["exact"].predict()["mean_sd"].values
early = after == 0.0
print(
    f"sd of the curve before the impact: {ours[early].mean():.1f} with one sigma, {curve.std(0)[early].mean():.1f} with two"
)

# Checks of the statements above.
coef = {name: fit.coef.values for name, fit in fits.items()}
se = fits["exact"].std_error.values
for name in ("NUTS, compiled", "NUTS, PyMC"):
    assert np.abs((coef[name] - coef["exact"]) / se).max() < 0.25, name
assert "pymc" in str(side_by_side)
assert growth_mean > 3.0 * growth_sd
assert curve.std(0)[early].mean() < 0.7 * ours[early].mean()
