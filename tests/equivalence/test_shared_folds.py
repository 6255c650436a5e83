"""Folds and left-out rows that share work have the losses of modes found alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.comparison.tuning import held_out, tune
from probreg.comparison.tuning.held_out import folds_of
from probreg.inference.penalized.paths import rescale_model
from probreg.inference.penalized.ridge_modes import JointRidgeModes

N, SCALES = 60, [0.2, 2.0]
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3)) * [1.0, 5.0, 0.3] + [0.0, 40.0, 0.0]
ETA = (X - [0.0, 40.0, 0.0]) @ [0.6, -0.1, 1.0]
NOISE = RNG.normal(size=N)
COUNTS = RNG.integers(1, 4, N)
Y: dict[str, Any] = {
    "bernoulli": (ETA + NOISE > 0).astype(int),
    "binomial": RNG.binomial(5, 1 / (1 + np.exp(-ETA))),
    "categorical": np.array(["ash", "beech", "cedar"])[
        np.clip(np.round(ETA + NOISE) + 1, 0, 2).astype(int)
    ],
    "gaussian": ETA + NOISE,
    "negative_binomial": RNG.negative_binomial(2, 2 / (2 + np.exp(0.5 * ETA + 1.0))),
    "poisson": RNG.poisson(np.exp(0.5 * ETA)),
    "student": ETA + NOISE,
}
GIVEN: dict[str, dict[str, Any]] = {
    "plain": {},
    "weights": {"weights": COUNTS},
    "offset": {"offset": 0.3 * np.cos(np.arange(N))},
    "precision": {"weights": pr.weights.precision(0.5 + RNG.random(N))},
}


def model_of(likelihood: str, **given: Any) -> pr.Model:
    trials = {"trials": np.full(N, 5)} if likelihood == "binomial" else {}
    prior = given.pop("prior", pr.Normal(0.8, scaled=True))
    return pr.Model.from_arrays(
        X, Y[likelihood], likelihood=likelihood, prior=prior, **trials, **given
    )


def loss_alone(
    model: pr.Model,
    scale: float,
    keep: np.ndarray,
    out: np.ndarray,
    weights: Any = None,
) -> np.ndarray:
    """-log p of some rows by the fit of others, found from scratch."""
    at = rescale_model(model, scale)
    design = model.design.take(keep)
    fit = pr.fit(
        replace(
            at, design=design if weights is None else replace(design, weights=weights)
        )
    )
    held = replace(at, design=replace(model.design.take(out), weights=None))
    return -np.asarray(held.pointwise(fit.solution.beta, **fit.solution.aux))


CASES = [(name, "plain") for name in Y] + [
    ("bernoulli", "weights"),
    ("categorical", "weights"),
    ("categorical", "offset"),
    ("poisson", "offset"),
    ("gaussian", "weights"),
    ("gaussian", "offset"),
    ("gaussian", "precision"),
]


@pytest.mark.parametrize(("likelihood", "given"), CASES)
def test_folds_have_the_losses_of_fits_of_their_own(likelihood, given):
    model = model_of(likelihood, **GIVEN[given])
    groups = np.arange(N) // 3
    made = tune(model, "cv", folds=4, groups=groups, scales=SCALES)
    fold = folds_of(model, 4, groups=groups)
    weights = np.ones(N) if model.design.weights is None else model.design.weights
    for scale in SCALES:
        for k in range(4):
            out = np.flatnonzero(fold == k)
            losses = loss_alone(model, scale, np.flatnonzero(fold != k), out)
            mean = np.average(losses, weights=weights[out])
            # a fit alone ends within 1e-7 sqrt(n) standard errors before its last step
            assert float(made.parts.sel(scale=scale, fold=k)) == pytest.approx(
                mean, rel=1e-8
            )


@pytest.mark.parametrize("likelihood", ["bernoulli", "categorical", "poisson"])
def test_folds_are_not_left_to_the_slow_way(likelihood, monkeypatch):
    monkeypatch.setattr(held_out, "modes", None)
    assert np.isfinite(
        tune(model_of(likelihood), "cv", folds=4, scales=[0.1, 0.4]).table["score"]
    ).all()


def test_a_fold_whose_mode_is_in_doubt_is_fitted_alone():
    """Without fold 0 the flat column separates the classes: no mode, and no score there."""
    x = np.r_[np.arange(8.0), 3.2, 3.8]
    y, fold = (
        np.r_[np.zeros(4), np.ones(4), 1.0, 0.0].astype(int),
        np.r_[np.ones(8), 0.0, 0.0].astype(int),
    )
    fold[[1, 6]] = 2
    z = np.cos(np.arange(10.0))
    model = pr.Model.from_arrays(
        np.c_[x, z],
        y,
        columns=["x", "z"],
        likelihood="bernoulli",
        prior={"z": pr.Normal(1.0)},
    )
    with pytest.raises(pr.NotConverged, match="cv has a score at no scale"):
        tune(model, "cv", folds=fold, scales=[1.0])


@pytest.mark.parametrize(
    ("likelihood", "given"),
    [
        ("bernoulli", "weights"),
        ("categorical", "plain"),
        ("gaussian", "plain"),
        ("poisson", "plain"),
    ],
)
def test_leave_one_out_is_that_of_refits_to_a_hundredth_of_its_error(likelihood, given):
    model = model_of(likelihood, **GIVEN[given])
    made = tune(model, "loo", scales=[2.0])
    weights = (
        np.ones(N) if model.design.weights is None else np.asarray(model.design.weights)
    )
    exact = np.empty(N)
    for i in range(N):
        fewer = weights - (np.arange(N) == i)
        keep = np.flatnonzero(fewer > 0)
        exact[i] = loss_alone(
            model, 2.0, keep, np.array([i]), None if given == "plain" else fewer[keep]
        )[0]
    score, se = made.table.loc[2.0, ["score", "se"]]
    assert abs(score - np.average(exact, weights=weights)) < 0.012 * se
    assert any("losses are of refits" in note for note in made.notes)
    # those that were found anew are exact
    assert np.sort(np.abs(made.parts[0].values - exact))[:2].max() < 1e-8


def test_joint_modes_of_sigma_from_one_decomposition_have_no_slope():
    model = model_of("gaussian", prior=pr.Normal(0.3, location=(0.5, 0.1, -1.0)))
    scales = np.geomspace(0.01, 30.0, 7)
    found = JointRidgeModes.solve_all(model, scales)
    assert found is not None
    for s, beta, sigma in zip(scales, found.beta(scales), found.sigma(scales)):
        local = rescale_model(model, s).value_grad_hessian(
            beta[:, None], sigma=float(sigma)
        )
        # the Newton decrement, in standard errors
        assert local.gradient @ np.linalg.solve(local.curvature, local.gradient) < 1e-16


def test_a_response_in_small_units_is_tuned_without_an_overflow():
    plain, small = (
        tune(
            pr.Model.from_arrays(X, f * Y["gaussian"], prior=pr.Normal(f)),
            "cv",
            folds=4,
            scales=SCALES,
        )
        for f in (1.0, 1e9)
    )
    # log p(y / f) = log p(y) + log f
    np.testing.assert_allclose(
        small.table["score"], plain.table["score"] + 9 * np.log(10), rtol=1e-7
    )
