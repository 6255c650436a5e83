"""Simulation-based calibration of models with effects by group: standard deviations and correlations are among what is ranked."""

import numpy as np
import pytest

import probreg as pr
from probreg.diagnostics.simulation.simulate import simulate

FLAT = {"Intercept": pr.Normal(2.0), "x": pr.Normal(1.0)}


def model_of(bars: str, effects: pr.Covariance, groups: int = 8) -> pr.Model:
    rng = np.random.default_rng(0)
    n = 6 * groups
    data = {
        "y": rng.normal(size=n),
        "x": rng.normal(size=n),
        "g": np.repeat([f"g{i}" for i in range(groups)], 6),
    }
    return pr.Model.from_formula(
        f"y ~ x + ({bars})",
        data,
        prior=FLAT | {bars: effects},
        aux={"sigma": pr.HalfNormal(1.0)},
    )


APART = model_of("x || g", pr.Covariance(sd=pr.HalfNormal(1.0)))
# cor=None is LKJ(1) here
TOGETHER = model_of("x | g", pr.Covariance(sd=pr.HalfNormal(1.0)))
HELD = model_of(
    "x | g", pr.Covariance(sd={"Intercept": pr.HalfNormal(1.0), "x": 0.5}, cor=0.3)
)
NAMES = [
    "Intercept",
    "x",
    "sd(Intercept | g)",
    "sd(x | g)",
    "cor(Intercept, x | g)",
    "sigma",
    "log_likelihood",
]


@pytest.mark.parametrize(
    ("model", "left_out"),
    [
        (APART, ("cor(Intercept, x | g)",)),
        (TOGETHER, ()),
        (HELD, ("sd(x | g)", "cor(Intercept, x | g)")),
    ],
)
def test_quantities_are_flat_coefficients_and_what_is_unknown_of_the_covariance(
    model, left_out
):
    found = pr.sbc(model, "integrate", 2, seed=1)
    assert list(found.ranks["quantity"].values) == [
        name for name in NAMES if name not in left_out
    ]
    assert not found.failures


def test_hyperparameters_of_a_simulation_are_those_its_effects_were_drawn_at():
    model = model_of(
        "x | g",
        pr.Covariance(sd={"Intercept": pr.HalfNormal(1.0), "x": 2.0}, cor=0.9),
        groups=400,
    )
    drawn = simulate(model, np.random.default_rng(3))
    b = drawn.beta[2:, 0].reshape(400, 2)
    assert list(drawn.hyper) == ["sd(Intercept | g)"]
    # standard errors of a standard deviation and of a correlation of 400 pairs: sd / sqrt(800), (1 - 0.81) / 20
    assert b[:, 0].std() == pytest.approx(
        drawn.hyper["sd(Intercept | g)"], rel=4 / np.sqrt(800)
    )
    assert b[:, 1].std() == pytest.approx(2.0, rel=4 / np.sqrt(800))
    assert np.corrcoef(b.T)[0, 1] == pytest.approx(0.9, abs=4 * 0.19 / 20)


def test_an_improper_standard_deviation_is_named_by_its_term():
    with pytest.raises(pr.Incompatible, match=r"this model has one on \(x \|\| g\)\."):
        simulate(model_of("x || g", pr.Covariance()), np.random.default_rng(0))


@pytest.mark.slow
@pytest.mark.parametrize("model", [TOGETHER], ids=["together"])
def test_integrate_is_calibrated(model):
    found = pr.sbc(model, "integrate", 20, seed=2)
    assert found.uniform, found
    assert sum(found.failures.values()) == 0
