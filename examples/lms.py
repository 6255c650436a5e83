"""Least mean squares, closed form and posterior: penguins arrive one at a time.

Least mean squares is the oldest method to learn a regression from a stream: predict, observe, move a little (Widrow & Hoff
1960). A theorem bounds its loss in one pass. Averaged over more passes it reaches least squares; the difference is measured
in standard errors. The average is a point estimate, and the posterior is a distribution.
"""

import numpy as np

import probreg as pr
from probreg.inference import LMS
from probreg.online import lms, run

penguins = pr.load_dataset("penguins")
model = pr.Model.from_formula(
    "body_mass_g ~ flipper_length_mm + bill_depth_mm + species",
    penguins,
    missing="drop",
)
print(model)

# A stream: standardised columns, one penguin after the other, predicted before it is weighed.
design = model.design
rows, kilograms = design.basis.rows(design.X), (design.y - design.y.mean()) / 1000
path = run(lms(0.5 / (rows**2).sum(1).max()), rows, kilograms, shuffle=1)
guarantee = path.guarantee()
print(guarantee)
print(f"root mean square error on the way {np.sqrt(path.loss / design.n):.3f} kg")

# The same rule as a method of the model, in raw units, with as many passes as it takes to come near.
fits = {
    "closed form": pr.fit(model),
    "LMS": pr.fit(model, "lms", seed=1),
    "LMS, nearer": pr.fit(model, LMS(tol=0.04, epochs=5000), seed=1),
    "posterior": pr.fit(model, "conjugate", seed=1),
}
print(pr.compare(fits))

distance = fits["LMS, nearer"].solution.trace["distance"]
for k in np.flatnonzero(np.isfinite(distance)):
    print(
        f"after {k + 1:5d} passes {distance[k]:.3f} standard errors from least squares"
    )

# A prior is shared out over the rows, and the mode moves as it should.
slopes = {
    c: pr.Normal(1.0 / design.X[:, j].std(), sigma_units=True)
    for j, c in enumerate(design.columns)
    if j
}
shrunk = model.with_prior(slopes)
ridge, ridge_lms = pr.fit(shrunk), pr.fit(shrunk, "lms", seed=1)
print(pr.compare({"ridge, closed form": ridge, "ridge, LMS": ridge_lms}))

# Checks of the statements above.
assert guarantee.applies
assert guarantee.holds  # the loss of the stream is within the theorem's bound
closed, posterior = fits["closed form"], fits["posterior"]
for name, promised in (("LMS", 0.1), ("LMS, nearer", 0.04)):
    found = fits[name]
    assert found.solution.status.good
    assert found.solution.stats["distance"] < promised
    # no coefficient is farther, in its own standard errors (of maximum likelihood, a little below those of least squares)
    assert (np.abs(found.coef - closed.coef) / closed.std_error).max() < promised
stages = distance[np.isfinite(distance)]
assert stages[-1] < 0.05 * stages[0]  # passes bring it nearer
assert (np.abs(ridge_lms.coef - ridge.coef) / ridge.std_error).max() < 0.1
# the prior did something
assert (np.abs(ridge.coef - closed.coef) / closed.std_error).max() > 0.3
# LMS has the classical errors of least squares; the sandwich does not assume even noise, and differs by less than a fifth.
np.testing.assert_allclose(fits["LMS"].std_error, closed.std_error, rtol=0.01)
ratio = np.sqrt(np.diagonal(fits["LMS"].covariance("HC0"))) / closed.std_error
assert ((ratio > 0.8) & (ratio < 1.2)).all()
assert not np.allclose(ratio, 1.0, atol=0.01)
# flat priors: the mean is least squares
np.testing.assert_allclose(posterior.coef, closed.coef, rtol=1e-9)
