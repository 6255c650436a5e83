"""Whether a maximum exists: the walk along lines against the linear programme, and no
likelihood of which it is unknown is told that its maximum is finite."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
from probreg.inference.base import Status
from probreg.inference.modes.existence import _identified_basis, find_divergence
from probreg.inference.modes.newton import find_mode
from probreg.inference.modes.separation import escapes, separation
from probreg.likelihoods import LIKELIHOODS, MayDiverge

from .unregistered import Geometric


def small(kind: str, seed: int) -> pr.Model:
    """Twelve rows, of which some sets are separated and some are not."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 2)) * np.array([1.0, 8.0])
    eta = rng.uniform(0.0, 4.0) * X[:, 0]
    if kind == "poisson":
        y = rng.poisson(np.exp(np.minimum(eta, 3.0) - 2.0))
        y[0] = 1
    else:
        levels = 2 if kind == "bernoulli" else 3
        y = np.clip(np.round(eta + rng.logistic(size=12)), 0, levels - 1).astype(int)
        y[:levels] = np.arange(levels)
    return pr.Model.from_arrays(X, y, likelihood=kind)


def test_a_search_that_stops_short_is_not_called_separated() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=400)
    y = (rng.random(400) < 1 / (1 + np.exp(-x))).astype(int)
    model = pr.Model.from_arrays(x, y, likelihood="bernoulli")
    with pytest.warns(pr.ProbregWarning, match="short of the maximum"):
        found = pr.fit(model, pr.SGD(epochs=4, tol=1e-9), seed=0).solution
    assert found.status is Status.SHORT


@pytest.mark.parametrize("kind", ["bernoulli", "poisson"])
def test_lines_that_do_not_fall_and_the_linear_programme(kind: str) -> None:
    """Which coefficients run away, told from where the search ended as if the likelihood had declared nothing."""
    undeclared = type("Undeclared", (LIKELIHOODS[kind],), {"may_diverge": None})()
    met: set[bool] = set()
    for seed in range(60):
        model = small(kind, seed)
        expected = separation(model)
        mode = find_mode(model)
        asked = replace(model, likelihood=undeclared)
        found = find_divergence(asked, mode.gamma, mode.log_aux, mode.local)
        met.add(bool(expected))
        assert (found is not None) == bool(expected)
        if found is not None:
            np.testing.assert_array_equal(found.not_estimable, expected.not_estimable)
            assert found.labels == expected.labels
    assert met == {True, False}


def test_the_sides_on_which_a_coefficient_diverges_have_no_units() -> None:
    # z separates the rows, x does not: its coefficient stays finite in any unit
    x, z = np.array([[0.0, 1.0, 2.0, 1.0, 0.0, 2.0], [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]])
    y = [0, 1, 0, 1, 1, 1]
    sides = [
        escapes(pr.Model.from_arrays(np.c_[unit * x, z], y, likelihood="bernoulli"))
        for unit in (1.0, 1e8, 1e-8)
    ]
    assert sides[0].any()
    assert all(np.array_equal(sides[0], side) for side in sides[1:])


def zeros_at_one(seed: int = 0) -> pr.Model:
    """Twenty rows at 0 and twenty at 1, where every count is zero: the likelihood rises as the slope falls for ever."""
    x = np.array([0.0] * 20 + [1.0] * 20)
    y = np.r_[np.random.default_rng(seed).poisson(2.0, 20), np.zeros(20, int)]
    return pr.Model.from_arrays(x, y, columns=["x"], likelihood=Geometric())


@pytest.mark.parametrize("method", ["newton", "auto", "sgd"])
def test_a_fit_that_runs_away_says_so_whatever_the_likelihood_declares(
    method: str,
) -> None:
    with pytest.warns(
        pr.ProbregWarning,
        match="no maximum likelihood estimate exists.* as x runs to infinity",
    ):
        fit = pr.fit(zeros_at_one(), method)
    assert fit.solution.status is Status.NO_MAXIMUM
    assert np.isnan(fit.coef.sel(coef="x"))
    assert np.isnan(fit.std_error.sel(coef="x"))
    if method != "sgd":
        assert fit.coef.sel(coef="Intercept") == pytest.approx(
            np.log(zeros_at_one().design.observed[:20].mean())
        )
        low, high = (
            fit.interval(kind="profile")[end].sel(coef="x")
            for end in ("lower", "upper")
        )
        assert low == -np.inf
        assert np.isfinite(high)


def test_no_sampler_and_no_kinked_mode_hides_it() -> None:
    z = np.random.default_rng(1).normal(size=40)
    x, y = zeros_at_one().design.X[:, 1], zeros_at_one().design.observed
    model = pr.Model.from_arrays(
        np.c_[x, z],
        y,
        columns=["x", "z"],
        likelihood=Geometric(),
        prior={"z": pr.Laplace(1.0)},
    )
    with pytest.warns(pr.ProbregWarning, match="as x runs to infinity"):
        assert pr.fit(model).method.name == "proximal_newton"
    with pytest.raises(
        pr.Incompatible, match=r"posterior is improper.*as x runs to infinity"
    ):
        pr.fit(zeros_at_one(), "nuts")
    with pytest.raises(pr.Incompatible, match="as x runs to infinity"):
        pr.fit(zeros_at_one(), "laplace")
    held = pr.fit(zeros_at_one().with_prior(pr.Normal(2.5)))  # a prior keeps it finite
    assert held.solution.status.good
    assert np.isfinite(held.std_error).all()


def test_what_is_not_declared_reads_unknown() -> None:
    model = zeros_at_one()
    (said,) = pr.check(model)["separation"]
    assert said.verdict.name == "NOTE"
    assert said.sentence.startswith(
        "unknown before the fit: a geometric likelihood does not declare"
    )
    (said,) = pr.check(
        model.with_prior({"Intercept": pr.Normal(9.0), "x": pr.Normal(2.5)})
    )["separation"]
    assert said.verdict.name == "OK"
    assert "always finite" not in said.sentence


def test_what_may_diverge_says_where() -> None:
    for cls in LIKELIHOODS.values():
        assert cls.may_diverge in (True, False, None)
        assert (cls.may_diverge is True) == issubclass(cls, MayDiverge)


def test_a_precision_far_out_runs_to_infinity_and_not_to_zero() -> None:
    """At log phi = 340 the likelihood is flat on both sides, as far as it has values."""
    rows = {"x": np.arange(6.0), "k": [3, 3, 4, 4, 5, 5], "n": [8] * 6}
    model = pr.Model.from_formula("p(k, n) ~ x", rows, likelihood="beta_binomial")
    gamma, log_phi = np.array([[-0.5], [0.2]]), np.array([340.0])
    local = model.value_grad_hessian_standardised(gamma, phi=np.exp(340.0))
    found = find_divergence(model, gamma, log_phi, local)
    assert found is not None
    assert found.limits == {"phi": np.inf}


def test_directions_that_do_not_change_the_predictors_are_not_searched():
    """The rank of the columns without a prior finds them."""
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(2, 30))
    X = np.column_stack([w, 2.0 * w, x, x])
    model = pr.Model.from_arrays(
        X,
        np.exp(w),
        columns=["w", "w2", "x", "x2"],
        likelihood="inverse_gaussian",
        prior={("x", "x2"): pr.Normal(1.0)},
    )
    basis = _identified_basis(model)
    assert basis.shape == (5, 2)  # the intercept, and w + 2 w2
    change = model.design.frame.T_inverse @ [0.0, -2.0, 1.0, 0.0, 0.0]
    np.testing.assert_allclose(basis.T @ change, 0.0, atol=1e-12)
