"""Calls of docs/coming-from/statsmodels.md, with the numbers of the other package."""

import warnings

import numpy as np
import statsmodels.api as sm
import statsmodels.formula.api as smf
from statsmodels.discrete.truncated_model import TruncatedLFPoisson
from statsmodels.othermod.betareg import BetaModel

import probreg as pr

plant = pr.load_dataset("stackloss")
orings = pr.load_dataset("challenger")
birds = pr.load_dataset("penguins").dropna()

columns = ["air_flow", "water_temperature", "acid_concentration"]
X = sm.add_constant(plant[columns])
theirs = sm.OLS(plant["stack_loss"], X).fit()
ours = pr.fit(pr.Model.from_arrays(plant[columns], plant["stack_loss"]))
groups = np.arange(21) // 3

assert np.allclose(ours.coef, theirs.params)
assert np.allclose(ours.std_error, theirs.bse)
assert np.allclose(ours.interval(0.95)["lower"], theirs.conf_int()[0])
assert np.isclose(ours.log_likelihood, theirs.llf)
assert np.isclose(ours.aic, theirs.aic + 2)  # sigma is counted
assert np.isclose(ours.bic, theirs.bic + np.log(21))


def errors(**settings: object) -> np.ndarray:
    return np.sqrt(np.diag(ours.covariance(**settings)))


assert np.allclose(errors(kind="HC3"), theirs.get_robustcov_results("HC3").bse)
assert np.allclose(
    errors(kind="cluster", groups=groups),
    theirs.get_robustcov_results("cluster", groups=groups).bse,
)
hac = theirs.get_robustcov_results("HAC", maxlags=2)
assert np.allclose(errors(kind="HAC", lags=2, small_sample="none"), hac.bse)

test = pr.hypothesis(ours, "air_flow = 0, acid_concentration = 0")["F"]
assert np.isclose(
    test.statistic, theirs.f_test("air_flow = 0, acid_concentration = 0").fvalue
)
frame = theirs.get_prediction(X.head(2)).summary_frame()
predicted = ours.predict(plant[columns].head(2))
assert np.allclose(predicted["new_lower"], frame["obs_ci_lower"])
measures, influence = pr.influence_measures(ours), theirs.get_influence()
assert np.allclose(measures["cook"], influence.cooks_distance[0])
assert np.allclose(measures["studentised"], influence.resid_studentized_external)

pearson = ours.residuals("pearson") * np.sqrt(17 / 21)  # of n and of n - k
assert np.allclose(pearson, theirs.resid_pearson)
f = "body_mass_g ~ species * sex + flipper_length_mm"
type2 = sm.stats.anova_lm(smf.ols(f, birds).fit(), typ=2)
terms = pr.anova(pr.ols(f, birds))
rows = ["species", "sex", "flipper_length_mm", "species:sex"]
assert np.allclose(terms.loc[rows, "statistic"], type2.loc[rows, "F"])

w = np.arange(1, 22) / 10
weighted = smf.wls("stack_loss ~ air_flow", plant, weights=w).fit()
precise = pr.ols("stack_loss ~ air_flow", plant, weights=pr.weights.precision(w))
assert np.allclose(precise.std_error, weighted.bse)

logit = smf.logit("damage ~ temperature", orings).fit(disp=0)
model = pr.Model.from_formula("damage ~ temperature", orings, likelihood="bernoulli")
fit = pr.fit(model)
assert np.allclose(fit.coef, logit.params)
assert np.allclose(fit.std_error, logit.bse)
assert np.isclose(fit.aic, logit.aic)
assert np.isclose(fit.r_squared, logit.prsquared)
effect, margins = pr.slopes(fit, average_over="sample").table, logit.get_margeff()
assert np.allclose(
    effect[["estimate", "std_error"]], [[margins.margeff[0], margins.margeff_se[0]]]
)

rng = np.random.default_rng(0)
x = rng.normal(size=400)
Z = sm.add_constant(x)
mean = np.exp(0.5 + 0.4 * x)
counts = rng.poisson(mean)
others = {
    "trunc": (TruncatedLFPoisson(counts[counts > 0], Z[counts > 0]), "poisson"),
    "log link": (
        sm.GLM(
            mean + rng.normal(size=400),
            Z,
            sm.families.Gaussian(sm.families.links.Log()),
        ),
        pr.Gaussian(link="log"),
    ),
    "gamma": (
        sm.GLM(
            rng.gamma(2.0, mean / 2.0), Z, sm.families.Gamma(sm.families.links.Log())
        ),
        "gamma",
    ),
    "beta": (BetaModel(rng.beta(2.0, mean), Z), "beta"),
    "zeros": (
        sm.ZeroInflatedPoisson(counts * (rng.random(400) < 0.7), Z),
        "zero_inflated(poisson)",
    ),
}
for name, (peer, likelihood) in others.items():
    table = {"y": peer.endog, "x": peer.exog[:, 1]}
    left = "trunc(y, lower=1)" if name == "trunc" else "y"
    here = pr.fit(pr.Model.from_formula(f"{left} ~ x", table, likelihood=likelihood))
    settings = {} if isinstance(peer, sm.GLM) else {"disp": 0, "maxiter": 200}
    there = dict(zip(peer.exog_names, peer.fit(**settings).params, strict=False))
    assert np.allclose(here.coef, [there["const"], there["x1"]], atol=1e-3), name

codes = birds["species"].astype("category").cat.codes
mnlogit = sm.MNLogit(codes, sm.add_constant(birds[["body_mass_g"]])).fit(disp=0)
softmax = pr.fit(
    pr.Model.from_formula("species ~ body_mass_g", birds, likelihood="categorical")
)
assert np.allclose(softmax.coef, mnlogit.params, rtol=1e-5)

words = orings.assign(ring=np.where(orings["damage"] == 1, "damaged", "intact"))
first = smf.glm("ring ~ temperature", words, family=sm.families.Binomial()).fit()
last = pr.fit(
    pr.Model.from_formula("ring ~ temperature", words, likelihood="bernoulli")
)
print(last)
assert np.allclose(first.params, fit.coef, rtol=1e-5)  # P(ring = damaged)
# P(ring = intact), as the head of the summary says
assert np.allclose(last.coef, -fit.coef)
asked = pr.fit(
    pr.Model.from_formula(
        "ring ~ temperature", words, likelihood="bernoulli", event="damaged"
    )
)
assert np.allclose(asked.coef, fit.coef)

plant["both"] = plant["air_flow"] + plant["water_temperature"]
formula = "stack_loss ~ air_flow + water_temperature + both"
six = {"y": [0, 0, 0, 1, 1, 1], "x": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]}
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pinv = smf.ols(formula, plant).fit()
    singular = pr.ols(formula, plant)
    stopped = sm.Logit(six["y"], sm.add_constant(six["x"])).fit(disp=0)
    apart = pr.fit(pr.Model.from_formula("y ~ x", six, likelihood="bernoulli"))
print(singular, apart, sep="\n\n")
assert np.isfinite(pinv.bse).all()
assert np.isnan(singular.coef[1:]).all()
assert np.allclose(singular.minimum_norm, pinv.params)
assert stopped.bse[1] > 1000  # of a slope that does not exist
assert np.isnan(apart.coef).all()
