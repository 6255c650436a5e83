"""ArviZ reads the tree of every posterior fit as it is, with no further argument."""

import warnings

import numpy as np
import pytest

import probreg as pr
from tests.conftest import covering

METHODS = {
    "gaussian": ("conjugate", "quadrature", "laplace", "nuts"),
    "bernoulli": ("laplace", "nuts"),
}
METHODS |= {
    "poisson": ("laplace",),
    "student": ("laplace",),
    "categorical": ("laplace", "nuts"),
}
CASES = [
    (likelihood, method)
    for likelihood, methods in METHODS.items()
    for method in methods
]
SHORT = {"nuts": pr.NUTS(draws=250, chains=2, tune=200)}


def model(likelihood: str, rng: np.random.Generator) -> pr.Model:
    x = rng.normal(size=40)
    eta = 0.3 + 0.5 * x
    y = {
        "gaussian": eta + rng.normal(size=40),
        "student": eta + rng.standard_t(4, size=40),
        "bernoulli": (rng.random(40) < 0.5 + 0.1 * np.sign(x)).astype(int),
        "poisson": rng.poisson(np.exp(eta)),
        "categorical": rng.integers(3, size=40),
    }[likelihood]
    return pr.Model.from_arrays(
        x, y, columns=["x"], likelihood=likelihood, prior=pr.Normal(1.5)
    )


@pytest.mark.parametrize(
    ("likelihood", "method"), covering(CASES, lambda _, method: method)
)
def test_arviz_runs_on_the_tree(likelihood: str, method: str, rng: np.random.Generator):
    if method == "conjugate":
        built = model(likelihood, rng).with_prior(pr.Normal(1.5, sigma_units=True))
    else:
        built = model(likelihood, rng)
    with warnings.catch_warnings():
        # what ArviZ and its own libraries warn of is theirs
        warnings.simplefilter("ignore")
        import arviz as az
        import matplotlib

        matplotlib.use("Agg")
        tree = pr.fit(built, SHORT.get(method, method), seed=3).tree
        summary = az.summary(tree, ci_kind="eti", ci_prob=0.95, round_to="none")
        loo = az.loo(tree)
        sensitivity = az.psense_summary(tree)
        az.plot_ppc_dist(tree)
        matplotlib.pyplot.close("all")
        ranking = az.compare({"one": tree, "same": tree})
    parameters = 2 * max(1, len(built.likelihood.outcomes)) + len(built.unknown)
    assert len(summary) == len(sensitivity) == parameters
    first = tree["posterior"]["Intercept"].isel(outcome=0, missing_dims="ignore")
    assert summary["mean"].iloc[0] == pytest.approx(first.mean().item(), rel=1e-9)
    assert loo.n_data_points == 40
    assert loo.elpd == pytest.approx(
        tree["log_likelihood"]["y"].values.reshape(-1, 40).mean(0).sum(), rel=0.1
    )
    assert (ranking["elpd_diff"] == 0).all()


def test_a_point_estimate_has_no_posterior(rng: np.random.Generator):
    tree = pr.fit(model("gaussian", rng), "newton").tree
    assert set(tree.children) == {
        "estimate",
        "sampling",
        "observed_data",
        "constant_data",
    }
