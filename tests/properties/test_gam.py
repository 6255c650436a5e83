"""Generalised additive models: the fit at the top of the evidence, and penalties in the units of integrals and differences."""

import numpy as np
import pytest

import probreg as pr
from probreg.data.formula.functions import term_functions
from probreg.data.terms.smooths import ThinPlate
from probreg.errors import DataError

from .cases import smooth_rows

N = 90
TABLE, Y = smooth_rows(N, "ab")


def gam(terms: str, likelihood: str = "gaussian", **more) -> pr.Fit:
    return pr.gam(
        f"y ~ {terms}", {**TABLE, "y": Y[likelihood]}, likelihood=likelihood, **more
    )


def test_without_more_it_is_the_fit_at_the_top_of_the_evidence() -> None:
    model = pr.Model.from_formula("y ~ g + s(x)", {**TABLE, "y": Y["gaussian"]})
    np.testing.assert_array_equal(gam("g + s(x)").coef, pr.fit(model).coef)


# ---- penalties -----------------------------------------------------------------------------------------------------------


def test_the_penalty_is_that_of_a_smoothing_spline() -> None:
    """minimise RSS + lam int f''^2 over all functions: a knot at every point (scipy's own, by another basis)."""
    from scipy.interpolate import make_smoothing_spline

    x = np.sort(TABLE["x"])[:40]
    y = np.sin(x) + 0.3 * np.random.default_rng(1).normal(size=40)
    for sp in (0.01, 1.0):
        model = pr.Model.from_formula("y ~ s(x, k=40)", {"x": x, "y": y})
        (f,) = term_functions(model.design)
        tau = (sp * f.term.basis.penalty.unit) ** -0.5
        prior = {"s(x, k=40)": pr.Normal(tau, sigma_units=True)}
        found = pr.fit(model.with_prior(prior))
        settings = found.model.penalty()["s(x, k=40)"].settings
        assert settings["sp"] == pytest.approx(sp)
        np.testing.assert_allclose(
            found.predict()["mean"], make_smoothing_spline(x, y, lam=sp)(x), atol=1e-7
        )


def test_the_penalty_of_two_columns_is_the_integral_of_squared_second_derivatives() -> (
    None
):
    """int int f_xx^2 + 2 f_xz^2 + f_zz^2 over the plane, by differences at two steps, extrapolated."""
    rng = np.random.default_rng(0)
    basis = ThinPlate.of(rng.uniform(0.0, 2.0, (40, 2)), 9)
    u, J = rng.normal(size=basis.blocks[0]), {}
    for step in (0.1, 0.05):
        axis = 1.0 + np.arange(-9.0, 9.0, step)
        grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
        f = (basis.columns_at(grid.reshape(-1, 2))[:, basis.flat :] @ u).reshape(
            grid.shape[:2]
        )
        xx, zz = (
            np.diff(f, 2, axis=0)[:, 1:-1] / step**2,
            np.diff(f, 2, axis=1)[1:-1] / step**2,
        )
        xz = (f[2:, 2:] - f[2:, :-2] - f[:-2, 2:] + f[:-2, :-2]) / (4 * step**2)
        J[step] = (xx**2 + 2 * xz**2 + zz**2).sum() * step**2
    # what lies beyond the square is some 0.2 %, the logarithms at the knots leave as much
    assert (4 * J[0.05] - J[0.1]) / 3 == pytest.approx(
        basis.penalty.unit * u @ u, rel=0.01
    )


def test_the_penalty_of_b_splines_is_a_sum_of_squared_differences() -> None:
    for bs in ("ps", "cc"):
        (f,) = term_functions(gam(f"s(x, bs='{bs}')").model.design)
        basis = f.term.basis
        u = np.random.default_rng(0).normal(size=basis.blocks[0])
        b = basis.transform[:, basis.flat :] @ u
        b = np.append(b, b[:2]) if bs == "cc" else b
        assert np.square(np.diff(b, 2)).sum() == pytest.approx(
            basis.penalty.unit * u @ u
        )


def test_a_formula_without_smooth_functions_is_an_error() -> None:
    with pytest.raises(DataError, match="has no smooth function"):
        gam("x")
