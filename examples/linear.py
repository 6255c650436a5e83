"""Longley's economy, three ways: least squares, the exact posterior, and NUTS.

Sixteen years and six predictors that all grow together: the classic test of a least-squares program, and of nerves. The
coefficients are certified to fifteen digits (NIST StRD Longley), the flat posterior is the classical t interval, and a
sampler that conditions on the sufficient statistics of the rows agrees with both.
"""

import numpy as np

import probreg as pr

longley = pr.load_dataset("longley")
columns = ["gnp_deflator", "gnp", "unemployed", "armed_forces", "population", "year"]
model = pr.Model.from_formula("employed ~ " + " + ".join(columns), longley)

print(pr.check(model))  # near collinearity, before anything is fitted

ols = pr.fit(model)
exact = pr.fit(model, "conjugate", seed=1)
nuts = pr.fit(model, "nuts", seed=1)
print(pr.compare({"least squares": ols, "exact posterior": exact, "NUTS": nuts}))

# A prior in units of the noise has a closed form too: ridge regression, as a mode and as a posterior. One standard
# deviation of a column is taken to move employment by some four noise standard deviations.
slopes = {c: pr.Normal(4 / float(longley[c].std()), sigma_units=True) for c in columns}
shrunk = model.with_prior(slopes)
ridge, ridge_posterior = pr.fit(shrunk), pr.fit(shrunk, "conjugate", seed=1)
print(
    pr.compare(
        {"least squares": ols, "ridge": ridge, "ridge posterior": ridge_posterior}
    )
)

# Checks of the statements above.
certified = [
    -3482258.63459582,
    15.0618722713733,
    -0.358191792925910e-01,
    -2.02022980381683,
]
# ten digits, as the certificate asks of this set
np.testing.assert_allclose(ols.coef[:4], certified, rtol=1e-10)
for end in ("lower", "upper"):  # the same t interval, by algebra
    np.testing.assert_allclose(
        ols.interval(0.95)[end], exact.interval(0.95)[end], rtol=1e-9
    )
shift = np.abs(nuts.coef - exact.coef) / exact.std_error
# some 4000 effective draws place a mean to 0.016 standard deviations, and this is six times that
assert (shift < 0.1).all()
assert (ridge.std_error[1:] < ols.std_error[1:]).all()  # the prior adds information
# mode and mean of a symmetric posterior
np.testing.assert_allclose(ridge.coef, ridge_posterior.coef, rtol=1e-9)
