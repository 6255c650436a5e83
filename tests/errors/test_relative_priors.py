"""Priors that are stated relative to the rows, where the rows are gone or new; keys and penalties that make no sense."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.priors import GPrior, Horseshoe, Jeffreys, Laplace, Normal
from tests.conftest import covering

RNG = np.random.default_rng(17)
X = RNG.normal(size=(40, 2)) * [1.0, 3.0]
ETA = 0.3 + X @ [0.5, -0.2]
RESPONSES: dict[str, Any] = {
    "gaussian": ETA + RNG.normal(size=40),
    "bernoulli": (RNG.random(40) < 1 / (1 + np.exp(-ETA))).astype(int),
    "student": ETA + RNG.normal(size=40),
    "categorical": np.r_[0, 1, 2, RNG.integers(0, 3, 37)],
}
RELATIVE = [
    Normal(0.7, scaled=True),
    Laplace(0.7, scaled=True),
    GPrior(),
    {"x1": Normal(0.7, scaled=True), "x2": Normal(0.5)},
]


def model(likelihood: str, prior: Any, **more: Any) -> pr.Model:
    return pr.Model.from_arrays(
        X, RESPONSES[likelihood], likelihood=likelihood, prior=prior, **more
    )


def fitted(likelihood: str, prior: Any, **more: Any) -> pr.Fit:
    return pr.fit(model(likelihood, prior, **more))


@pytest.mark.parametrize(
    ("likelihood", "prior", "rows"),
    covering(
        itertools.product(
            ["gaussian", "bernoulli", "student", "categorical"], RELATIVE, [False, True]
        ),
        lambda likelihood, prior, rows: likelihood,
        lambda likelihood, prior, rows: str(prior),
        lambda likelihood, prior, rows: rows,
        name=str,
    ),
)
def test_a_relative_prior_is_the_same_after_loading(likelihood, prior, rows, tmp_path):
    weights = RNG.integers(1, 4, 40)
    fit = fitted(likelihood, prior, weights=weights)
    again = pr.load_fit(fit.save(tmp_path / "fit.nc", rows=rows))
    # moments are kept to the last bit; from rows they are computed anew, in the same order
    assert again.model.joint == fit.model.joint
    assert repr(again.model) == repr(fit.model)
    assert again.predict(X[:3])["mean"].equals(fit.predict(X[:3])["mean"])
    restated = again.model.with_prior(Normal(1.0, scaled=True)).joint
    assert restated == fit.model.with_prior(Normal(1.0, scaled=True)).joint
    pr.load_fit(again.save(tmp_path / "twice.nc"))


def test_moments_are_kept_only_where_a_prior_asks(tmp_path):
    again = pr.load_fit(fitted("bernoulli", Normal(1.0)).save(tmp_path / "fit.nc"))
    assert again.model.design.kept is None
    with pytest.raises(
        pr.DataError, match=r"a sum over the rows needs them.*save\(rows=True\)"
    ):
        repr(again.model.with_prior(Normal(1.0, scaled=True)))


@pytest.mark.parametrize(
    "prior", [Normal(1.0), Normal(1.0, scaled=True)], ids=["raw", "scaled"]
)
@pytest.mark.parametrize("likelihood", ["bernoulli", "student"])
def test_without_rows_there_is_no_likelihood_whatever_is_kept(
    likelihood, prior, tmp_path
):
    again = pr.load_fit(fitted(likelihood, prior).save(tmp_path / "fit.nc"))
    beta, aux = again.solution.beta, again.solution.aux
    for f in (
        again.model.log_lik,
        again.model.log_posterior,
        again.model.value_grad_hessian,
        again.model.information,
    ):
        with pytest.raises(pr.DataError, match="holds no rows"):
            f(beta, **aux)
    with pytest.raises(pr.DataError, match="saved without its rows"):
        pr.fit(again.model, "newton")
    assert np.isfinite(again.model.log_prior(beta, **aux))


def test_jeffreys_prior_needs_the_rows_and_says_so(tmp_path):
    fit = fitted("bernoulli", Jeffreys())
    bare = pr.load_fit(fit.save(tmp_path / "bare.nc"))
    assert bare.coef.equals(fit.coef)
    assert bare.summary().equals(fit.summary())
    assert "Jeffreys" in repr(pr.compare({"a": bare}))
    with pytest.raises(
        pr.DataError, match=r"a sum over the rows needs them.*rows=True"
    ):
        bare.model.log_prior(bare.solution.beta)
    full = pr.load_fit(fit.save(tmp_path / "full.nc", rows=True))
    assert full.model.log_prior(full.solution.beta) == fit.model.log_prior(
        fit.solution.beta
    )


def test_draws_of_a_relative_prior_are_read_without_rows(tmp_path):
    fit = pr.fit(
        model("bernoulli", Normal(1.0, scaled=True)), pr.LaplaceApproximation(draws=200)
    )
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.summary().equals(fit.summary())
    assert not any("crash" in str(f) for f in pr.diagnose(again))
    assert "power_scaling" not in {f.check for f in pr.diagnose(again)}


# ---- new rows ------------------------------------------------------------------------------------------------------------

TABLE = pd.DataFrame(
    {"x": X[:, 0], "y": RESPONSES["gaussian"], "s": RNG.integers(0, 6, 40), "t": 6}
)


def test_a_formula_reads_new_rows_and_their_response():
    here = pr.Model.from_formula("y ~ x", TABLE)
    np.testing.assert_array_equal(here.at(TABLE[:5]).design.observed, TABLE["y"][:5])
    np.testing.assert_array_equal(
        here.at(TABLE[:5], np.arange(5.0)).design.observed, np.arange(5.0)
    )
    trials = pr.Model.from_formula("p(s, t) ~ x", TABLE, likelihood="bernoulli").at(
        TABLE[:5]
    )
    assert trials.design.total == 5
    np.testing.assert_array_equal(trials.design.observed, TABLE[["s", "t"]][:5])
    with pytest.raises(pr.DataError, match="no column 'y'"):
        here.at(TABLE[["x"]])


def test_what_new_rows_lack_or_cannot_have_is_said():
    trials = pr.Model.from_formula("p(s, t) ~ x", TABLE, likelihood="bernoulli")
    plain = model("gaussian", Normal(1.0))
    with pytest.raises(pr.DataError, match="reads both from its table"):
        trials.at(TABLE, trials=np.ones(40))
    with pytest.raises(
        pr.Incompatible,
        match="successes out of trials are Binomial observations, not gaussian",
    ):
        plain.at(X[:3], [1, 1, 1], trials=[1, 2, 3])
    with pytest.raises(pr.DataError, match=r"one value per new row, got 1\.0"):
        plain.at(X[:1], 1.0)
    with pytest.raises(pr.DataError, match="pass y="):
        plain.at(X[:3])


# ---- keys and penalties --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [0, (), ("x1", 1)], ids=str)
def test_keys_that_are_no_names_are_refused(key):
    with pytest.raises(pr.DataError, match="by name, got"):
        model("gaussian", {key: Normal(1.0)})


def test_penalties_that_no_package_has_are_not_spelt():
    with pytest.raises(
        pr.Incompatible, match=r"coefficients of all classes.*symmetric=True"
    ):
        model("categorical", Normal(1.0)).penalty()
    with pytest.raises(pr.Incompatible, match="of all classes"):
        Normal.from_ridge(C=1.0, model=model("categorical", pr.Flat()))
    held = model("student", Normal(1.0), aux={"sigma": 1.0}).penalty()
    assert "no other package has it" in repr(held)
    with pytest.raises(pr.DataError, match="there are: none, for this likelihood"):
        held["sklearn"]
    with pytest.raises(
        pr.DataError, match=r"sigma is a positive finite number.*got -1"
    ):
        model("gaussian", Normal(1.0)).penalty(sigma=-1.0)
    shifted = model(
        "gaussian", Normal(1.0), offset=np.ones(40), aux={"sigma": 1.0}
    ).penalty()
    assert any("offset" in n for n in shifted.notes)


def test_numbers_that_are_no_penalty_are_refused():
    with pytest.raises(pr.DataError, match=r"C is positive.*got 0"):
        Normal.from_ridge(C=0.0, likelihood="bernoulli")
    with pytest.raises(pr.DataError, match="given by alpha; got alhpa"):
        Normal.from_ridge(alhpa=1.0)
    with pytest.raises(pr.DataError, match="needs n > 1, got n=1"):
        Normal.from_ridge(of="glmnet", lam=1.0, n=1, y_sd=1.0, standardize=True)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:nuts. (chains|too few|divergent):probreg.errors.ProbregWarning"
)  # thirty draws are enough to save
def test_a_horseshoe_on_standardised_columns_is_bound_after_loading(tmp_path):
    few = pr.NUTS(draws=30, tune=60, chains=1)
    fit = pr.fit(model("bernoulli", Horseshoe(scaled=True)), few, seed=1)
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    assert again.model.joint == fit.model.joint


@pytest.mark.slow
def test_blocks_of_rows_do_not_state_the_prior_again():
    """A column that is constant within a block of rows has a standard deviation over all of them."""
    x = np.repeat([0.0, 1.0], 200_000)
    y = x + np.tile([0.1, -0.1], 200_000)
    for prior in (pr.Normal(1.0, scaled=True), pr.priors.GPrior(10.0)):
        model = pr.Model.from_arrays(
            x, y, columns=["x"], prior=prior, aux={"sigma": 1.0}
        )
        assert np.isfinite(pr.fit(model).log_likelihood)
    sorted_by_x = pr.Model.from_arrays(
        x,
        (y > 0.5).astype(int),
        columns=["x"],
        likelihood="bernoulli",
        prior=pr.Normal(1.0, scaled=True),
    )
    again = pr.fit(sorted_by_x.with_prior_frozen, "newton")
    np.testing.assert_allclose(
        pr.fit(sorted_by_x, "newton").coef, again.coef, rtol=1e-7
    )
