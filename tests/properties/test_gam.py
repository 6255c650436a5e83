"""Generalised additive models of stated smoothness: degrees of freedom, penalties in other packages' units, and back."""

import numpy as np
import pytest

import probreg as pr
from probreg.data.formula.functions import term_functions
from probreg.data.terms.smooths import ThinPlate
from probreg.errors import DataError, Incompatible

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


@pytest.mark.parametrize("likelihood", Y)
def test_each_function_spends_what_was_asked(likelihood: str) -> None:
    df = {"s(x)": 5.0, "s(z)": 2.5}
    times = 2.0 if likelihood == "categorical" else 1.0  # predictors
    found = gam(
        "s(x) + s(z, k=6)", likelihood, df={k: v * times for k, v in df.items()}
    )
    np.testing.assert_allclose(
        found.smooths["edf"], np.array([5.0, 2.5]) * times, rtol=1e-7
    )
    assert str(found.notes[0]).startswith("smooth functions at df = ")


def test_one_number_is_for_all_and_blocks_of_a_function_share_a_scale() -> None:
    found = gam("g + s(x, k=6, by=g) + t2(w, z, k=4)", df=4.5)
    np.testing.assert_allclose(found.smooths["edf"], 4.5, rtol=1e-8)
    assert len(set(found.smooths.loc["t2(w, z, k=4)", "tau"])) == 1


def test_at_its_own_degrees_of_freedom_it_is_the_fit_of_the_evidence() -> None:
    reml = gam("s(x)")
    found = gam("s(x)", df=float(reml.smooths.loc["s(x)", "edf"]))
    np.testing.assert_allclose(found.coef, reml.coef, rtol=1e-6)
    np.testing.assert_allclose(
        found.covariance(), reml.covariance("conditional"), rtol=1e-5
    )
    assert found.aux["sigma"] == pytest.approx(reml.aux["sigma"], rel=1e-8)


def test_coefficients_with_flat_priors_are_tested_as_in_anova() -> None:
    found = gam("z + s(x)")
    summary = found.summary()
    assert summary["p_value"]["z"] == pytest.approx(pr.anova(found)["p_value"]["z"])
    assert summary["p_value"].filter(regex=r"s\(x\)\[\d").isna().all()
    assert (
        pr.bayesian_ridge("y ~ z", {**TABLE, "y": Y["gaussian"]})
        .summary()
        .get("p_value")
        is None
    )


def test_sigma_that_is_held_stays() -> None:
    found = gam("s(x)", df=4.0, aux={"sigma": 0.5})
    assert found.aux["sigma"] == 0.5
    assert found.smooths.loc["s(x)", "edf"] == pytest.approx(4.0, rel=1e-8)


# ---- penalties -----------------------------------------------------------------------------------------------------------


def test_the_penalty_is_that_of_a_smoothing_spline() -> None:
    """minimise RSS + lam int f''^2 over all functions: a knot at every point (scipy's own, by another basis)."""
    from scipy.interpolate import make_smoothing_spline

    x = np.sort(TABLE["x"])[:40]
    y = np.sin(x) + 0.3 * np.random.default_rng(1).normal(size=40)
    for sp in (0.01, 1.0):
        found = pr.gam("y ~ s(x, k=40)", {"x": x, "y": y}, sp=sp)
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
    for bs in ("ps", "cp"):
        (f,) = term_functions(gam(f"s(x, bs='{bs}')").model.design)
        basis = f.term.basis
        u = np.random.default_rng(0).normal(size=basis.blocks[0])
        b = basis.transform[:, basis.flat :] @ u
        b = np.append(b, b[:2]) if bs == "cp" else b
        assert np.square(np.diff(b, 2)).sum() == pytest.approx(
            basis.penalty.unit * u @ u
        )


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli", "poisson"])
def test_penalties_are_read_back(likelihood: str) -> None:
    found = gam("s(x) + s(z, k=6)", likelihood, df=3.0)
    spelled = found.model.penalty()
    again = gam(
        "s(x) + s(z, k=6)",
        likelihood,
        sp={k: spelled[k].settings["sp"] for k in ("s(x)", "s(z, k=6)")},
    )
    np.testing.assert_allclose(again.coef, found.coef, rtol=1e-6, atol=1e-9)
    assert spelled["s(x)"].criterion.startswith(
        "RSS + " if likelihood == "gaussian" else "-2 log L + "
    )


@pytest.mark.parametrize(
    ("terms", "more", "error", "said"),
    [
        ("x", {}, DataError, "has no smooth function: write y ~ s\\(x\\)"),
        (
            "s(x)",
            {"df": 9.0},
            DataError,
            "df of s\\(x\\) is above 1 .* and below 9 .*, got 9",
        ),
        ("s(x)", {"df": 1.0}, DataError, "df of s\\(x\\) is above 1"),
        (
            "s(x)",
            {"df": 3.0, "sp": 1.0},
            Incompatible,
            "df= and sp= both state the smoothness",
        ),
        (
            "s(x)",
            {"sp": {"s(x)": -1.0}},
            DataError,
            "sp of s\\(x\\) is a positive finite number, got -1",
        ),
        (
            "s(x)",
            {"sp": -1.0},
            DataError,
            "sp is a positive finite number or a mapping, got -1",
        ),
        (
            "s(x)",
            {"df": {"s(x)": "many"}},
            DataError,
            "df of s\\(x\\) is a positive finite number, got 'many'",
        ),
        ("s(x) + s(z)", {"df": {"s(x)": 3.0}}, DataError, "s\\(z\\) is missing"),
        ("s(x)", {"df": {"s(w)": 3.0}}, DataError, "'s\\(w\\)' is no smooth function"),
        (
            "t2(x, z, k=4)",
            {"sp": 1.0},
            Incompatible,
            "has no penalty of one weight: give df=",
        ),
        (
            "s(x)",
            {"df": 3.0, "prior": {"s(x)": pr.Normal(1.0)}},
            DataError,
            "s\\(x\\) has a prior of its own",
        ),
        (
            "x + s(x)",
            {"df": 3.0},
            Incompatible,
            "is a combination of others: see pr.check",
        ),
        (
            "s(x)",
            {"df": 3.0, "aux": {"sigma": pr.HalfNormal(1.0)}},
            Incompatible,
            "need sigma fixed or without a prior",
        ),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(
    terms: str, more: dict, error: type, said: str
) -> None:
    with pytest.raises(error, match=said):
        gam(terms, **more)
