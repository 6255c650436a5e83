"""Calls of docs/coming-from/scikit-learn.md, with the numbers of the other package."""

import numpy as np
from sklearn.linear_model import (
    ElasticNet,
    Lasso,
    LinearRegression,
    LogisticRegression,
    PoissonRegressor,
    Ridge,
)
from sklearn.metrics import brier_score_loss, log_loss
from sklearn.model_selection import KFold, cross_val_score

import probreg as pr

plant = pr.load_dataset("stackloss")
orings = pr.load_dataset("challenger")
X, y = (
    plant[["air_flow", "water_temperature", "acid_concentration"]],
    plant["stack_loss"],
)
Z, damage = orings[["temperature"]], orings["damage"]

ols = pr.fit(pr.Model.from_arrays(X, y))
linear = LinearRegression().fit(X, y)
assert np.allclose(ols.coef[1:], linear.coef_)
assert np.allclose(ols.predict(X)["mean"], linear.predict(X))
assert np.isclose(ols.r_squared, linear.score(X, y))

bernoulli = pr.Model.from_arrays(Z, damage, likelihood="bernoulli")
ml = pr.fit(bernoulli)
unpenalised = LogisticRegression(C=np.inf, tol=1e-10).fit(Z, damage)
assert np.allclose(ml.coef[1:], unpenalised.coef_, rtol=1e-4)
assert np.allclose(ml.predict(Z)["mean"], unpenalised.predict_proba(Z)[:, 1], atol=1e-4)

thousands = Z / 1000
default = LogisticRegression().fit(thousands, damage)
ours = pr.fit(pr.Model.from_arrays(thousands, damage, likelihood="bernoulli"))
assert np.isclose(ours.coef[1], 1000 * ml.coef[1])  # -232 per thousand degrees
assert abs(default.coef_.item()) < 0.05  # -0.04: the penalty has decided
print(ours.summary())

# the scale of alpha, where sigma does not cancel
model = pr.Model.from_arrays(X, y, aux={"sigma": 1.0})
pairs = [
    (Ridge(alpha=4.0), pr.Normal.from_ridge(alpha=4.0)),
    (Lasso(alpha=0.5, tol=1e-10), pr.Laplace.from_lasso(alpha=0.5, model=model)),
    (
        ElasticNet(alpha=0.5, l1_ratio=0.3, tol=1e-10),
        pr.priors.ElasticNet.from_elastic_net(alpha=0.5, l1_ratio=0.3, model=model),
    ),
]
for estimator, prior in pairs:
    fitted = pr.fit(model.with_prior(prior))
    assert np.allclose(fitted.coef[1:], estimator.fit(X, y).coef_, atol=1e-6)

shrunk = pr.fit(
    bernoulli.with_prior(pr.Normal.from_ridge(C=0.01, likelihood="bernoulli"))
)
assert np.allclose(
    shrunk.coef[1:],
    LogisticRegression(C=0.01, tol=1e-10).fit(Z, damage).coef_,
    rtol=1e-4,
)
print(shrunk.model.penalty(), pr.prior_weight(shrunk), sep="\n")
counts = pr.Model.from_arrays(
    Z, orings["damaged"], likelihood="poisson", prior=pr.Normal(0.1)
)
poisson = PoissonRegressor(alpha=1 / (23 * 0.1**2), tol=1e-10, max_iter=1000).fit(
    Z, orings["damaged"]
)
assert np.allclose(pr.fit(counts).coef[1:], poisson.coef_, rtol=1e-3)

p = ml.predict(Z)["mean"].to_numpy()
assert np.isclose(pr.scores.log_score(damage, p).mean(), log_loss(damage, p))
assert np.isclose(pr.scores.brier(damage, p).mean(), brier_score_loss(damage, p))

folds = KFold(21)  # every row alone
theirs = -cross_val_score(
    LinearRegression(), X, y, cv=folds, scoring="neg_mean_squared_error"
).mean()
measures = pr.influence_measures(ols)
# the residual of a row that was left out, in closed form
left_out = ols.residuals() / (1 - measures["leverage"])
assert np.isclose((left_out**2).mean(), theirs)
