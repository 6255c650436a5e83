"""Two species of penguins that never overlap: how to fit a model without a maximum likelihood estimate.

Length and depth of the bill separate Adelie and Gentoo penguins perfectly. The likelihood then keeps rising
along a direction; a program that iterates stops somewhere and prints a number with a meaningless standard error.
With a prior, which has to be stated, the estimate exists.
"""

import warnings

import numpy as np

import probreg as pr

table = pr.load_dataset("penguins").dropna()
two = table[table["species"].isin(["Adelie", "Gentoo"])]
model = pr.Model.from_formula(
    "species ~ bill_length_mm + bill_depth_mm",
    two,
    likelihood="bernoulli",
    event="Gentoo",
)

print("Before any fit\n")
print(pr.check(model)["separation"])

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    ml = pr.fit(model)
print("\nMaximum likelihood answers in words, not in numbers:\n ", said[0].message)

fits = {
    "Firth": pr.fit(model.with_prior(pr.priors.Jeffreys())),
    "Normal": pr.fit(model.with_prior(pr.Normal(2.5, scaled=True))),
    "Cauchy": pr.fit(model.with_prior(pr.priors.Cauchy(2.5, scaled=True))),
}
print("\nThree priors, three finite answers (coefficients per mm):\n")
for name, fit in fits.items():
    wald, profile = (
        fit.interval(0.95, kind).sel(coef="bill_length_mm")
        for kind in ("wald", "profile")
    )
    estimate = fit.coef.sel(coef="bill_length_mm").item()
    print(
        f"  {name:<7} length {estimate:6.2f}   Wald ({wald['lower'].item():5.2f}, {wald['upper'].item():5.2f})"
        f"   profile ({profile['lower'].item():5.2f}, {profile['upper'].item():5.2f})"
    )
print(
    "\nThe likelihood still rises towards infinity, so the profile interval is long on that side; a symmetric one hides it."
)

print("\nWhat the normal prior did:\n")
print(pr.prior_weight(fits["Normal"]))

bird = {"bill_length_mm": [43.0], "bill_depth_mm": [16.5]}
print("\nA bird between both, P(Gentoo) with its 95 % interval:")
for name, fit in fits.items():
    p = fit.predict(bird)
    print(
        f"  {name:<7} {p['mean'].item():.2f}  ({p['mean_lower'].item():.2f}, {p['mean_upper'].item():.2f})"
    )

# Checks of the statements above.
assert "no maximum likelihood estimate exists" in str(said[0].message)
assert np.isnan(ml.std_error).all()
for fit in fits.values():
    assert fit.solution.status.good
    ends = fit.interval(0.95, "profile")
    assert np.isfinite(ends["lower"]).all()
    assert np.isfinite(ends["upper"]).all()
    upper, lower = (
        ends[side].sel(coef="bill_length_mm").item() for side in ("upper", "lower")
    )
    middle = fit.coef.sel(coef="bill_length_mm").item()
    assert upper - middle > middle - lower > 0
    assert fit.coef.sel(coef="bill_depth_mm").item() < 0 < middle
