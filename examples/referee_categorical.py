"""A referee's questions on a softmax: voters of the American election of 1996 in three camps, by age, schooling and income.

How does the probability of each camp change with schooling and with income? Instead of log odds against a reference the referee
wants effects on probabilities, joint tests of a variable over all outcomes, robust standard errors, and a comparison with
another prior.
"""

import numpy as np

import probreg as pr
from probreg.comparison import compare_models
from probreg.diagnostics.after import diagnose

poll = pr.load_dataset("anes96")
camp = np.array(
    [
        "Democrat",
        "Democrat",
        "independent",
        "independent",
        "independent",
        "Republican",
        "Republican",
    ]
)
poll = poll.assign(camp=camp[poll["party_id"].to_numpy(int)])
softmax = pr.Categorical(reference="independent")
model = pr.Model.from_formula(
    "camp ~ age + education + income", poll, likelihood=softmax
)

print("1. Before the fit\n")
print(pr.check(model))

ml = pr.fit(model)
print("\n2. Maximum likelihood, in log odds against the independents\n")
print(ml)

print("\n3. One variable over all outcomes, and one across outcomes\n")
tests = {
    text: pr.hypothesis(ml, text) for text in ("age = 0", "education = 0", "income = 0")
}
for text, test in tests.items():
    wald, lr = test["Wald"], test["LR"]
    print(
        f"  {text + ' for both outcomes:':<32} Wald {wald.statistic:6.2f}, LR {lr.statistic:6.2f} on {lr.df[0]}, p = {lr.p:.2g}"
    )
apart = pr.hypothesis(ml, "Democrat: income = Republican: income")
print("\n", apart, sep="")

print("\n4. What is wrong with it, and do the errors need the model?\n")
found = diagnose(ml)
print(found)
own, robust = ml.covariance(), ml.covariance("HC1")
ratio = np.sqrt(np.diagonal(robust) / np.diagonal(own))
print(
    f"\nThe sandwich's standard errors are {ratio.min():.2f} to {ratio.max():.2f} times the model's."
)
print(
    pr.hypothesis(ml, "Democrat: income = Republican: income", covariance=robust)["z"]
)

print(
    "\n5. Effects on probabilities: they sum to zero over the camps, and need no reference\n"
)
steps = pr.comparisons(ml, {"income": "iqr", "education": (3.0, 5.0)})
print(steps)
print(pr.slopes(ml, "income"))
print(pr.predictions(ml, at={"income": [5.0, 20.0]}))

print("\n6. Would a prior have changed anything?\n")
weak = model.with_prior(pr.Normal(1.0))
# 944 rows for 8 coefficients: the posterior is nearly normal
posterior = pr.fit(weak, "laplace", seed=1)
answers = pr.compare({"ML": ml, "posterior": posterior})
print(answers)
belief = pr.hypothesis(posterior, "Republican: income > 0, Democrat: income < 0")
print("\n", belief, sep="")

print("\n7. What is each variable worth for a voter not yet asked?\n")
candidates = {
    "all": ml,
    "without age": pr.fit(
        pr.Model.from_formula("camp ~ education + income", poll, likelihood=softmax)
    ),
    "nothing": pr.fit(pr.Model.from_formula("camp ~ 1", poll, likelihood=softmax)),
    "all, posterior": posterior,
}
ranking = compare_models(candidates)
print(ranking)

# Checks of the statements above.
assert tests["income = 0"]["LR"].df == (2,)
restricted = pr.fit(
    pr.Model.from_formula("camp ~ age + education", poll, likelihood=softmax)
)
np.testing.assert_allclose(
    tests["income = 0"]["LR"].statistic,
    2 * (ml.log_likelihood - restricted.log_likelihood),
    rtol=1e-7,
)
assert tests["income = 0"]["LR"].p < 0.01
table = steps.table
np.testing.assert_allclose(
    table.groupby(["variable", "contrast"])["estimate"].sum(), 0.0, atol=1e-12
)
np.testing.assert_allclose(pr.predictions(ml).table["estimate"], [(poll["camp"] == v).mean() for v in ("Democrat", "Republican", "independent")], rtol=1e-8)  # fmt: skip
symmetric = pr.fit(
    pr.Model.from_formula(
        "camp ~ age + education + income",
        poll,
        likelihood=pr.Categorical(symmetric=True),
    )
)
again = pr.comparisons(symmetric, {"income": "iqr", "education": (3.0, 5.0)}).table
np.testing.assert_allclose(
    again[["estimate", "std_error"]], table[["estimate", "std_error"]], rtol=1e-6
)
assert 0.9 < ratio.min() < ratio.max() < 1.1  # the sandwich has nothing to add
# 944 voters outweigh Normal(1)
assert not answers.causes["cause"].str.startswith("prior").any()
assert (
    ranking.table["elpd_loo"]["all"]
    > ranking.table["elpd_loo"]["nothing"] + 2 * ranking.table["se_diff"]["nothing"]
)
assert abs(ranking.difference("all", "all, posterior")[0]) < 0.5
