"""Four hundred and forty-two patients and sixty-four columns: from maximum likelihood to shrinkage to a posterior.

Ten measurements at the start of a study, their squares and their products predict the progression of diabetes a
year later (Efron, Hastie, Johnstone & Tibshirani 2004; the table comes with scikit-learn). Maximum likelihood
overfits. A prior assumes that no single column has a large effect; its scale is estimated from the data.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

import probreg as pr
from probreg.comparison.tuning import path, tune
from probreg.show.plot.tuning import path as draw_path, tune as draw_choice

table = load_diabetes(as_frame=True, scaled=False)
z = (table.data - table.data.mean()) / table.data.std()
products = {
    f"{a}:{b}" if a != b else f"{a}^2": z[a] * z[b]
    for i, a in enumerate(z)
    for b in list(z)[i:]
    if (a, b) != ("sex", "sex")  # two values: its square says nothing new
}
columns = pd.concat([z, pd.DataFrame(products)], axis=1)
flat = pr.Model.from_arrays(columns, table.target, response="progression")
print(pr.check(flat)["collinearity"])

# Maximum likelihood: 64 slopes, some of them hundreds of points per standard deviation, none of those worth believing.
ml = pr.fit(flat)
wild = ml.summary().drop("sigma").sort_values("std_error", ascending=False)
print(wild.head(4))

# A normal prior on standardised columns, in units of sigma: closed form from end to end. One factor moves its scale.
ridge = flat.with_prior(pr.Normal(1.0, scaled=True, sigma_units=True))
along = path(ridge)
print(along)
cv = tune(ridge, "cv", rule="1se", seed=1)
loo = tune(ridge, "loo", score="squared")
evidence = tune(ridge, "evidence")
for made in (cv, loo, evidence):
    print(made)
draw_path(along, evidence).savefig("ridge_path.png", dpi=150)
draw_choice(cv).savefig("ridge_choice.png", dpi=150)

weakest = loo.table["score"].iloc[-1]  # the far end of the path is maximum likelihood
least = loo.table["score"].min()
print(
    f"leave-one-out error: {weakest**0.5:.1f} points by maximum likelihood, {least**0.5:.1f} with the chosen prior"
)

# The same question under a Laplace prior, whose mode has exact zeros: the lasso.
lasso = flat.with_prior(pr.Laplace(1.0, scaled=True, sigma_units=True))
sparse = tune(lasso, "cv", rule="1se", seed=1)
mode = pr.fit(sparse.model)
kept = [str(c) for c in mode.coef["coef"].values[1:] if mode.coef.sel(coef=c) != 0]
print(f"the lasso keeps {len(kept)} of 64 columns: {', '.join(kept)}")
draw_path(path(lasso), sparse).savefig("lasso_path.png", dpi=150)

# A mode is no statement of certainty. The posterior at the scale of greatest evidence, exactly, and all of it in one table.
posterior = pr.fit(evidence.model, "conjugate", seed=1)
fits = {"ML": ml, "ridge": pr.fit(evidence.model), "posterior": posterior}
compared = pr.compare(fits).to_pandas()
said = ["estimate", "error", "lower", "upper"]
for name in ("bmi", "s1", "s1^2"):
    print(
        compared.loc[name]
        .unstack()[said]
        .loc[list(fits)]
        .astype(float)
        .round(2)
        .rename_axis(name)
    )

# A zero of the lasso is where its density is highest, never where the posterior mean is: here on the ten measurements alone.
ten = pr.Model.from_arrays(
    z,
    table.target,
    response="progression",
    prior=pr.Laplace(0.02, scaled=True, sigma_units=True),
)
both = {"mode": pr.fit(ten), "posterior": pr.fit(ten, "nuts", seed=1)}
print(pd.DataFrame({name: fitted.coef.to_series() for name, fitted in both.items()}))

# Checks of the statements above.
assert ml.solution.status.good  # the estimate exists
# and one slope is known to 200 points, where the outcome's sd is 77
assert wild["std_error"].iloc[0] > 200
assert along.data["df"].values[0] < 2
assert along.data["df"].values[-1] > 64
assert least < 0.92 * weakest
assert max(cv.best, loo.scale, evidence.scale) < 3 * min(
    cv.best, loo.scale, evidence.scale
)  # three roads, one answer
assert 5 <= len(kept) <= 20
assert {"bmi", "bp", "s5"} <= set(kept)
# the mode of a normal is its mean
np.testing.assert_allclose(fits["ridge"].coef, posterior.coef, rtol=1e-9)
# the prior moves s1 by 180 points, and the data do not mind
assert float(compared.loc["s1", ("ridge", "difference")]) < 1
assert posterior.std_error.sel(coef="s1") < ml.std_error.sel(coef="s1") / 5
assert (both["mode"].coef == 0).sum() >= 3
assert (both["posterior"].coef != 0).all()
