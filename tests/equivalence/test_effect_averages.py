"""Averages over rows at draws, with what a process adds to the predictors of each draw."""

import numpy as np
import pytest
from scipy.special import expit

import probreg as pr
from probreg.comparison.effects.averages import (
    AverageMean,
    AverageSlope,
    RowGroup,
    averages_of_draws,
)
from probreg.comparison.effects.scenarios import _repeat_value, population
from probreg.data.formula.functions import categories
from probreg.kernels.sums import RowSums

N, S = 20_000, 8  # more numbers than are taken at once


@pytest.fixture(scope="module")
def case():
    """A logit of two columns at N rows, S draws of beta and what is added to eta and to its slope."""
    rng = np.random.default_rng(0)
    model = pr.Model.from_arrays(
        rng.standard_normal((20, 2)),
        np.arange(20) % 2,
        likelihood="bernoulli",
        intercept=False,
    )
    X, D = rng.standard_normal((N, 2)), rng.standard_normal((N, 2))
    return (
        AverageMean(model.likelihood, X, None),
        D,
        rng.standard_normal((S, 2, 1)),
        rng.standard_normal((2, S, N, 1)),
    )


def test_draws_meet_what_is_added_to_them_a_part_at_a_time(case):
    at, D, beta, (of_slope, of_eta) = case
    mean, slope = at, AverageSlope(at, D)
    added = {id(mean): [of_eta], id(slope): [of_slope, of_eta]}
    groups = [
        RowGroup(np.arange(5), np.full(5, 0.2)),
        RowGroup(np.arange(N), np.full(N, 1.0 / N)),
    ]
    met = []

    def residual(target, atoms):
        met.append((id(target), range(S)[atoms]))
        return [each[atoms] for each in added[id(target)]]

    found = averages_of_draws([mean, slope], groups, {"beta": beta}, residual)
    # d expit(eta + r) / dv = p (1 - p) (D beta + s), r and s what is added to eta and to its slope
    p = expit((at.X @ beta + of_eta)[..., 0])
    by_hand = p, p * (1.0 - p) * (D @ beta + of_slope)[..., 0]
    for averages, h in zip(found, by_hand, strict=True):
        np.testing.assert_allclose(
            averages[..., 0],
            np.stack([h[:, :5].mean(1), h.mean(1)], 1),
            rtol=1e-10,
            atol=1e-13,
        )
    for target in added:
        parts = sorted(
            (some for t, some in met if t == target), key=lambda some: some[0]
        )
        assert [s for some in parts for s in some] == list(range(S))
        assert max(map(len, parts)) * N <= 65_536


def test_what_is_added_to_a_slope_stands_in_the_order_of_its_sums(case):
    at, D, _, _ = case
    x, steps = np.arange(3.0)[:, None], RowSums(np.ones((3, 2)), np.zeros((3, 2, 1)))
    slope = AverageSlope(
        AverageMean(at.quantity, at.X[:3], None, {"gp(x)": x}), D[:3], {"gp(x)": steps}
    )
    of_slope, of_eta = slope.sums()
    assert of_slope["gp(x)"] is steps
    np.testing.assert_array_equal(of_eta["gp(x)"].rows[:, 0], x)


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ g + x",
        "y ~ 0 + C(k) + x",
        "y ~ C(g, Sum) + C(k, Treatment(3)) + center(x)",
        "y ~ g * x + k",
        "y ~ x + g:C(k)",
    ],
)
def test_a_category_at_one_level_has_the_columns_of_its_table(formula):
    rng = np.random.default_rng(1)
    table = {"y": rng.standard_normal(30), "x": rng.standard_normal(30)}
    table |= {
        "g": np.array(["a", "b[T.b]", "c:d"])[np.arange(30) % 3],
        "k": np.arange(30) % 4 + 1,
    }
    model = pr.Model.from_formula(formula, table)
    design = model.design
    of = population(model.likelihood, design, None, ())
    for name, levels in categories(design).items():
        for level in levels:
            made = design.recipe.matrix(table | {name: np.repeat(level, 30)})
            np.testing.assert_allclose(
                of.mean(name, _repeat_value(level, 30)).X, made, atol=1e-15
            )
    # at= moves another variable first
    moved = of.set_to(x=0.5)
    made = design.recipe.matrix(
        table | {"x": np.full(30, 0.5), "g": np.repeat("a", 30)}
    )
    np.testing.assert_allclose(
        moved.here.X, design.recipe.matrix(table | {"x": np.full(30, 0.5)}), atol=1e-15
    )
    if "g" in formula:
        np.testing.assert_allclose(
            moved.mean("g", _repeat_value("a", 30)).X, made, atol=1e-15
        )
