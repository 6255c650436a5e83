"""Two ways to one lasso: all columns at once, and a set of columns that grows; products of rows and of moments."""

import numpy as np
import pytest

import probreg as pr
from probreg.inference import CoordinateDescent, mode_path
from probreg.inference.modes import wide
from probreg.inference.penalized.coordinate_descent import _fixed_point

Array = np.ndarray


def rows(
    n: int = 150, p: int = 40, near: float = 0.5, shift: float = 0.0
) -> tuple[Array, Array]:
    """Columns correlated `near` with their neighbour, of very different sizes."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(n, p))
    for j in range(1, p):
        X[:, j] = near * X[:, j - 1] + np.sqrt(1.0 - near**2) * X[:, j]
    b = np.where(np.arange(p) % 5 == 0, 1.0, 0.0)
    return (X + shift) * 10.0 ** rng.integers(-3, 4, p), 2.0 + X @ b + rng.normal(
        size=n
    )


def model_of(prior: pr.priors.Prior, aux: dict[str, float], **more: float) -> pr.Model:
    X, y = rows(**more)
    return pr.Model.from_arrays(
        X, y, prior=prior, aux=aux, weights=np.arange(len(y)) % 3 + 1
    )


@pytest.mark.parametrize("near", [0.5, 0.999], ids=["apart", "alike"])
@pytest.mark.parametrize("aux", [{"sigma": 1.0}, {}], ids=["held", "free"])
@pytest.mark.parametrize(
    "prior",
    [pr.Laplace(0.3, scaled=True), pr.priors.ElasticNet(2.0, 0.4, sigma_units=True)],
    ids=["lasso", "elastic"],
)
def test_all_columns_at_once_have_the_mode_of_a_growing_set(
    prior, aux, near, monkeypatch
):
    model, scales = model_of(prior, aux, near=near), np.geomspace(0.02, 3.0, 8)
    found = mode_path(model, scales, tol=1e-9)
    monkeypatch.setattr(
        "probreg.inference.penalized.coordinate_descent.WholeGram", type(None)
    )
    slow = mode_path(model, scales, tol=1e-9)
    assert max(found.kkt.max(), slow.kkt.max()) <= 1e-9
    assert all(s.good for s in found.status)
    np.testing.assert_array_equal(found.beta == 0, slow.beta == 0)
    assert len(set((found.beta != 0).sum((1, 2)).tolist())) > 3
    # conditional errors of 1e-9 are 1 / sqrt(1 - near^2) as much of columns that are alike
    size = (
        model.design.X.std(0)[:, None]
        + (np.arange(len(model.design.columns)) == 0)[:, None]
    )
    np.testing.assert_allclose(
        found.beta * size, slow.beta * size, atol=1e-6 if near > 0.9 else 1e-8
    )


def test_a_column_that_is_nearly_another_has_a_certified_mode():
    X, y = rows()
    X[:, 1] = X[:, 0] * (1.0 + 1e-5 * X[:, 2] / X[:, 2].std())
    model = pr.Model.from_arrays(
        X, y + 3.0 * X[:, 1] / X[:, 1].std(), prior=pr.Normal(1.0), aux={"sigma": 1.0}
    )
    model = model.with_prior({model.design.columns[1:]: pr.Laplace(10.0, scaled=True)})
    fit = pr.fit(model, CoordinateDescent())
    assert fit.solution.stats["kkt"] <= 1e-9


@pytest.mark.parametrize("shift", [0.0, 0.1, 30.0])
def test_products_of_wide_rows_are_those_of_their_moments(shift, monkeypatch):
    model = model_of(pr.Laplace(1.0), {"sigma": 1.0}, n=30, shift=shift)
    moments = wide.partial_out(model)
    monkeypatch.setattr(wide, "FEW_COLUMNS_OF_MOMENTS", 0)
    rows = wide.partial_out(model)
    np.testing.assert_allclose(
        rows.gram.among(np.arange(40)), moments.gram.G, atol=1e-13
    )
    np.testing.assert_allclose(rows.norm, moments.norm, rtol=1e-13)
    np.testing.assert_allclose(rows.c, moments.c, atol=1e-12 * np.sqrt(moments.yy))
    b = np.linspace(-1.0, 1.0, 40) / moments.norm
    np.testing.assert_allclose(rows.beta(b), moments.beta(b), rtol=1e-10)


@pytest.mark.parametrize(
    ("step", "start"),
    [
        (lambda u: np.arctan(1.0 - u), 30.0),
        (lambda u: 3.0 * (1.0 - u) ** 3, 4.0),
        (lambda u: 0.1 + 0.2 * (1.0 - u) - 10.0 * max(u - 0.99, 0.0), 1.1),
    ],
    ids=["secants overshoot", "plain steps diverge", "a kink"],
)
def test_a_fixed_point_is_found_from_far_and_not_beyond_its_other_side(step, start):
    points: list[float] = []

    def at(u: float) -> float:
        below, above = [v for v in points if step(v) > 0], [v for v in points if step(v) < 0]  # fmt: skip
        assert max(below, default=-np.inf) < u < min(above, default=np.inf)
        points.append(u)
        return float(step(u))

    u = _fixed_point(at, start, lambda: bool(abs(step(points[-1])) < 1e-12))
    assert u == pytest.approx(1.0, abs=1e-4)
    # one plain step from the start is the farthest point
    assert min(points) >= min(0.0, start + step(start)) - 2.0
    assert len(points) < 55
