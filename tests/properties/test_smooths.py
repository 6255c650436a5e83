"""Bases of smooth functions: what is flat, what the penalty is, and what happens at new points."""

import csv

import numpy as np
import pytest

import probreg as pr
from probreg.data.terms.smooths import (
    PenalisedSpline,
    SmoothBasis,
    TensorProduct,
    ThinPlate,
)
from probreg.errors import DataError
from tests.conftest import reference_path

rng = np.random.default_rng(0)
x1, x2 = np.sort(rng.uniform(0, 10, 60))[:, None], rng.uniform(-1, 3, (80, 2))
x3 = rng.normal(size=(70, 3))
BASES = {
    "thin plate": (ThinPlate.of(x1, 10), x1),
    "thin plate of two columns": (ThinPlate.of(x2, 20), x2),
    "thin plate of three columns": (ThinPlate.of(x3, 25), x3),
    "B-splines": (PenalisedSpline.of(x1, 12), x1),
    "cubic": (PenalisedSpline.of(x1, 12, bs="cr"), x1),
    "cyclic B-splines": (PenalisedSpline.of(x1, 12, bs="cp"), x1),
    "cyclic cubic": (PenalisedSpline.of(x1, 12, bs="cc"), x1),
    "tensor product": (TensorProduct.of(x2, (5, 6)), x2),
}


@pytest.mark.parametrize("name", BASES)
def test_columns_have_mean_zero_and_full_rank(name: str) -> None:
    basis, x = BASES[name]
    columns = basis.columns_at(x)
    assert columns.shape == (len(x), basis.width)
    assert basis.width == basis.flat + sum(basis.blocks)
    np.testing.assert_allclose(columns.mean(0), 0.0, atol=1e-12 * np.abs(columns).max())
    full = np.column_stack([np.ones(len(x)), columns / np.linalg.norm(columns, axis=0)])
    assert np.linalg.matrix_rank(full, tol=1e-9) == basis.width + 1


@pytest.mark.parametrize("name", [n for n in BASES if "cyclic" not in n])
def test_the_flat_columns_and_the_constant_span_straight_lines(name: str) -> None:
    basis, x = BASES[name]
    null = np.column_stack([np.ones(len(x)), basis.columns_at(x)[:, : basis.flat]])
    for column in x.T:
        rest = column - null @ np.linalg.lstsq(null, column)[0]
        assert np.abs(rest).max() < 1e-10 * np.abs(column).max()


@pytest.mark.parametrize("name", BASES)
def test_new_points_have_the_columns_of_the_same_functions(name: str) -> None:
    basis, x = BASES[name]
    np.testing.assert_allclose(
        basis.columns_at(x[7:9]), basis.columns_at(x)[7:9], rtol=0, atol=1e-12
    )


def test_the_penalty_of_a_full_thin_plate_spline_is_its_integrated_squared_second_derivative() -> (
    None
):
    x = np.array([0.0, 1.0, 2.5, 3.0, 4.7, 6.0])[:, None]
    basis = ThinPlate.of(x, len(x))
    grid = np.linspace(0.0, 6.0, 60_001)[:, None]
    h, columns = float(grid[1, 0]), basis.columns_at(grid)[:, basis.flat :]
    u = rng.normal(size=(columns.shape[1], 5))
    bend = np.square(np.diff(columns @ u, 2, axis=0) / h**2).sum(0) * h
    ratio = bend / np.square(u).sum(0)  # one number: the unit of tau
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-3)


def test_the_penalty_of_b_splines_is_the_sum_of_squared_second_differences() -> None:
    basis = BASES["B-splines"][0]
    assert isinstance(basis, PenalisedSpline)
    u = rng.normal(size=(basis.blocks[0], 5))
    ratio = np.square(np.diff(basis.transform[:, basis.flat :] @ u, 2, axis=0)).sum(
        0
    ) / np.square(u).sum(0)
    np.testing.assert_allclose(ratio, ratio[0])


@pytest.mark.parametrize("name", BASES)
def test_a_scale_of_one_is_a_standard_deviation_of_one(name: str) -> None:
    basis, x = BASES[name]
    columns, at = basis.columns_at(x), basis.flat
    for width in basis.blocks:
        assert np.square(columns[:, at : at + width]).sum(1).mean() == pytest.approx(
            1.0
        )
        at += width


@pytest.mark.parametrize("name", ["cyclic B-splines", "cyclic cubic"])
def test_a_cyclic_spline_joins_its_ends_with_two_derivatives(name: str) -> None:
    basis = BASES[name][0]
    assert isinstance(basis, PenalisedSpline)
    h = 1e-3
    around = basis.ends + h * np.arange(-2, 3)
    f = np.array([basis.columns_at(row[:, None]) for row in around])
    np.testing.assert_allclose(f[0], f[1], atol=1e-10)
    assert basis.flat == 0


def test_a_cubic_regression_spline_has_its_integrated_squared_second_derivative():
    basis = BASES["cubic"][0]
    assert basis.penalty is not None
    knots = basis.knots[:, 0]
    x = np.linspace(knots[0], knots[-1], 200_001)[:, None]
    f = basis.columns_at(x)[:, 3]
    bend = np.gradient(np.gradient(f, x[:, 0]), x[:, 0])
    assert np.trapezoid(bend**2, x[:, 0]) == pytest.approx(basis.penalty.unit, rel=1e-3)


@pytest.mark.parametrize("name", ["B-splines", "cubic"])
def test_splines_go_on_along_their_tangent(name: str) -> None:
    basis = BASES[name][0]
    far = basis.columns_at(np.array([12.0, 13.0, 14.0])[:, None])
    np.testing.assert_allclose(np.diff(far, 2, axis=0), 0.0, atol=1e-9)


def test_a_tensor_product_has_a_block_for_each_product_with_a_range() -> None:
    basis = BASES["tensor product"][0]
    # of margins with null space {1, x} and 3 and 4 range columns
    assert basis.flat == 3
    assert basis.blocks == (8, 6, 12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: ThinPlate.of(x1[:8], 10),
            "k is at most 8, the number of distinct points, got 10",
        ),
        (lambda: ThinPlate.of(x1, 2), "k is at least 3, got 2"),
        (
            lambda: ThinPlate.of(np.repeat(x1[:2], 5, 0), 2),
            "2 distinct points are too few, 3 are needed",
        ),
        (lambda: PenalisedSpline.of(x1, 4), "k is at least 5, got 4"),
        (lambda: PenalisedSpline.of(x2, 8), "bs='ps' is of one column, got 2"),
        (
            lambda: PenalisedSpline.of(np.ones((9, 1)), 8),
            "the column has 1 distinct values, 3 are needed",
        ),
    ],
)
def test_what_cannot_be_a_basis_is_refused(make, said: str) -> None:
    with pytest.raises(DataError, match=said.replace("(", r"\(").replace(")", r"\)")):
        make()


def fitted(basis: SmoothBasis, x: np.ndarray, y: np.ndarray) -> pr.Fit:
    names = [f"s[{i}]" for i in range(basis.width)]
    prior, at = {}, basis.flat
    for width in basis.blocks:
        prior[tuple(names[at : at + width])] = pr.Normal(pr.priors.Reference())
        at += width
    return pr.fit(
        pr.Model.from_arrays(basis.columns_at(x), y, columns=names, prior=prior),
        "evidence",
    )


def test_the_motorcycle_by_a_thin_plate_spline_of_ten_columns() -> None:
    """mgcv's gam(accel ~ s(times), method = "REML"), as printed: edf 8.625, scale 506.35, intercept -25.546 (1.951)."""
    with reference_path("csv/mcycle.csv").open() as file:
        rows = list(csv.DictReader(file))
    x, y = np.array([[float(r["times"]), float(r["accel"])] for r in rows]).T
    found = fitted(ThinPlate.of(x[:, None], 10), x[:, None], y)
    sigma, X = found.aux["sigma"], found.model.design.X
    A = X.T @ X / sigma**2
    edf = np.trace(np.linalg.solve(A + found.model.joint.precision(sigma), A)) - 1.0
    assert edf == pytest.approx(8.625, abs=5e-4)
    assert sigma**2 == pytest.approx(506.35, abs=5e-3)
    assert found.coef.sel(coef="Intercept").item() == pytest.approx(-25.546, abs=5e-4)
    assert found.std_error.sel(coef="Intercept").item() == pytest.approx(
        1.951, abs=5e-4
    )
