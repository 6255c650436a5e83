"""Covariances of the parameters: each structure against its matrix, and fits against shifted, rescaled and polynomial columns."""

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import probreg as pr
from probreg.data import Frame
from probreg.data.implicit_columns import PredictorColumns
from probreg.inference.base import log_names
from probreg.inference.covariance import (
    ArrowCovariance,
    DenseCovariance,
    FactoredCovariance,
    NoCovariance,
    ParameterCovariance,
)
from probreg.inference.uncertainty.asymptotic import asymptotic
from probreg.likelihoods import MayDiverge, SmoothLikelihood
from probreg.linalg import root_of_square

from .cases import (
    LIKELIHOOD_CASES,
    Array,
    covering,
    likelihood_kind,
    named,
    recipe_of,
    rows_for,
)

RNG = np.random.default_rng(5)
P, M = 6, 2
MIX = np.triu(RNG.normal(size=(3, 3))) + 2.0 * np.eye(3)
FRAME = Frame(
    np.array([0.0, 50.0, -3.0, 0.0, 0.0, 0.0]),
    np.array([1.0, 2.0, 0.5, 1.0, 1.0, 1.0]),
    0,
    MIX,
    np.arange(3),
)
Q = np.linalg.qr(RNG.normal(size=(P * M, 4)))[0]


def structures() -> dict[str, ParameterCovariance]:
    k, further = P * M, ("log sigma",)
    S = RNG.normal(size=(5, 5))
    places = np.array([[6, 7], [8, 9], [10, 11]])
    return {
        "dense": DenseCovariance(
            FRAME, M, further, root=RNG.normal(size=(k + 1, k + 1))
        ),
        "factored": FactoredCovariance.of(RNG.uniform(1, 2, k), Q, S @ S.T, M, further),
        "arrow": ArrowCovariance(
            FRAME,
            M,
            further,
            places=places,
            blocks=RNG.normal(size=(3, 2, 2)),
            root=RNG.normal(size=(k + 1, 8)),
        ),
    }


STRUCTURES = structures()


@pytest.mark.parametrize("name", STRUCTURES)
def test_what_a_structure_computes_follows_from_its_matrix(name: str) -> None:
    V = STRUCTURES[name]
    whole = V.half(np.eye(V.size))
    whole = whole @ whole.T
    dense = whole[: P * M, : P * M]
    np.testing.assert_allclose(
        V.matrix(), dense, rtol=1e-10, atol=1e-10 * np.abs(dense).max()
    )
    np.testing.assert_allclose(V.errors(), np.sqrt(np.diagonal(whole)), rtol=1e-10)
    G = RNG.normal(size=(3, V.size))
    near = {"rtol": 1e-8, "atol": 1e-9 * np.abs(G @ whole @ G.T).max()}
    np.testing.assert_allclose(V.half(G) @ V.half(G).T, G @ whole @ G.T, **near)
    np.testing.assert_allclose(
        V.block(np.array([1, 7, 10])), whole[np.ix_([1, 7, 10], [1, 7, 10])], **near
    )
    X = RNG.normal(size=(4, P))
    X[0] = 0.0  # a contrast of two rows has no intercept
    rows = np.stack(
        [np.kron(x, np.eye(M)) @ dense @ np.kron(x, np.eye(M)).T for x in X]
    )
    np.testing.assert_allclose(V.of_rows(X), rows, **near)
    J, A = RNG.normal(size=(4, 3, M)), RNG.normal(size=(4, 3, 1))
    over = np.concatenate(
        [np.einsum("ndm,np->ndpm", J, X).reshape(4, 3, P * M), A], axis=2
    )
    np.testing.assert_allclose(
        V.variances_of_rows(X, J, A),
        np.einsum("ndk,kl,ndl->nd", over, whole, over),
        **near,
    )
    other = np.stack([G[:, -1], RNG.normal(size=3)], axis=1)
    named = np.hstack([G[:, : P * M], other[:, ::-1]])
    np.testing.assert_array_equal(V.arrange(named, ("log nu", "log sigma")), G)
    L, gap = G[:2, : P * M], np.array([0.3, -1.2])
    weights = np.linalg.solve(L @ dense @ L.T, gap)
    assert V.wald(L, gap) == pytest.approx(gap @ weights, rel=1e-7)
    np.testing.assert_allclose(
        V.change(L, gap), dense @ L.T @ weights, rtol=1e-6, atol=1e-8
    )
    np.testing.assert_allclose(V.times(L.T), dense @ L.T, **near)
    assert V.log_det() == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-6)
    np.testing.assert_allclose(V.precision() @ dense, np.eye(P * M), atol=1e-6)
    D = np.array([[1.0, -1.0], [0.5, 0.5]])
    over = np.kron(np.eye(P), D)
    np.testing.assert_allclose(
        V.errors_of(D).ravel(), np.sqrt(np.diagonal(over @ dense @ over.T)), rtol=1e-8
    )
    drawn = V.draws(np.random.default_rng(0), 100_000)
    size = np.sqrt(np.diagonal(whole))
    np.testing.assert_allclose(
        np.cov(drawn.T) / np.outer(size, size), whole / np.outer(size, size), atol=0.02
    )
    spread = RNG.normal(size=(P * M, 2))
    np.testing.assert_allclose(
        V.with_spread(spread).matrix(), dense + spread @ spread.T, **near
    )
    np.testing.assert_allclose(
        V.scale_by(4.0).errors()[: P * M], 2.0 * V.errors()[: P * M], rtol=1e-12
    )


@pytest.mark.parametrize("name", STRUCTURES)
def test_arrays_bring_back_the_same_covariance(name: str) -> None:
    V = STRUCTURES[name]
    again = ParameterCovariance.from_arrays(V.arrays(), M, V.frame.intercept, V.further)
    G = RNG.normal(size=(3, V.size))
    np.testing.assert_array_equal(again.half(G), V.half(G))


def test_combinations_of_missing_parameters_alone_are_nan() -> None:
    missing = np.zeros(13, dtype=bool)
    missing[[2, 12]] = True
    V = DenseCovariance(
        FRAME, M, ("log sigma",), missing, root=RNG.normal(size=(13, 13))
    )
    G = np.eye(13)
    assert np.isnan(V.half(G)).any(1).tolist() == missing.tolist()
    assert np.isnan(V.errors()).tolist() == missing.tolist()
    X = np.eye(P)
    assert np.isnan(V.of_rows(X)).any((1, 2)).tolist() == [
        False,
        True,
        False,
        False,
        False,
        False,
    ]
    none = NoCovariance.of(P, M)
    assert not none.has_errors
    assert np.isnan(none.half(np.eye(12))).all()


def test_rows_and_quantities_of_several_missing_parameters_are_nan() -> None:
    missing = np.zeros(14, dtype=bool)
    missing[[2, 9, 12, 13]] = True
    further = ("log sigma", "log nu")
    V = DenseCovariance(FRAME, M, further, missing, root=RNG.normal(size=(14, 14)))
    X = np.eye(P)
    assert np.isnan(V.of_rows(X)).any((1, 2)).nonzero()[0].tolist() == [1, 4]
    J, A = np.zeros((3, 1, M)), np.array([[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 0.0]]])
    variances = V.variances_of_rows(X[[0, 2, 3]], J, A)
    assert np.isnan(variances)[:, 0].tolist() == [True, True, False]
    V = replace(V, missing=np.arange(14) > 11)
    assert np.isfinite(V.of_rows(X)).all()


@pytest.mark.parametrize("name", ["dense", "arrow"])
def test_given_coefficients_leave_the_schur_complement(name: str) -> None:
    V = STRUCTURES[name]
    whole = V.half(np.eye(V.size))
    whole = whole @ whole.T
    for given in ([0], [1, 4]):  # of the intercept, and of shifted columns
        cross = whole[:, given]
        rest = whole - cross @ np.linalg.solve(whole[np.ix_(given, given)], cross.T)
        B = V.condition_on(np.array(given)).half(np.eye(V.size))
        np.testing.assert_allclose(B @ B.T, rest, atol=1e-9 * np.abs(whole).max())


@pytest.mark.parametrize("name", ["dense", "factored", "arrow"])
def test_further_parameters_come_last_and_vary_by_their_spread(name: str) -> None:
    V = STRUCTURES[name]
    spread = np.zeros((V.size + 1, 1))
    more = V.with_spread(spread, ("log nu",))
    assert more.further == ("log sigma", "log nu")
    G = RNG.normal(size=(3, V.size + 1))
    found, known = more.half(G), V.half(G[:, :-1])
    np.testing.assert_allclose(found @ found.T, known @ known.T, rtol=1e-12)
    spread[-1] = 0.3
    errors = more.with_spread(spread).errors()
    np.testing.assert_allclose(errors, [*V.errors(), 0.3], rtol=1e-12)
    V = replace(V, missing=np.arange(V.size) == 0)
    errors = V.with_spread(spread, ("log nu",)).errors()
    assert np.isnan(errors).nonzero()[0].tolist() == [0]


@pytest.mark.parametrize("name", ["dense", "factored", "arrow"])
def test_columns_of_one_predictor_each_have_the_variances_of_written_rows(
    name: str,
) -> None:
    further, frame, places = ("log sigma",), Frame.of_raw(P), np.array([[1, 4], [2, 5]])
    root, S = RNG.normal(size=(P + 1, P + 1)), RNG.normal(size=(4, 4))
    axes = np.linalg.qr(RNG.normal(size=(P, 3)))[0]
    V = {
        "dense": DenseCovariance(frame, 1, further, root=root),
        "factored": FactoredCovariance.of(np.ones(P), axes, S @ S.T, 1, further),
        "arrow": ArrowCovariance(frame, 1, further, places=places, blocks=RNG.normal(size=(2, 2, 2)), root=root),
    }[name]  # fmt: skip
    whole = V.half(np.eye(V.size))
    whole = whole @ whole.T
    X, owner = RNG.normal(size=(4, P)), np.array([0, 0, 0, 1, 1, 1])
    rows = X[:, None] * (owner == np.arange(2)[:, None])
    of_rows = rows @ whole[:P, :P] @ rows.swapaxes(1, 2)
    columns = PredictorColumns(X, owner, 2)
    np.testing.assert_allclose(V.of_rows(columns), of_rows, rtol=1e-9, atol=1e-9)
    J, A = RNG.normal(size=(4, 3, 2)), RNG.normal(size=(4, 3, 1))
    over = np.concatenate([J @ rows, A], axis=2)
    variances = np.einsum("ndk,kl,ndl->nd", over, whole, over)
    np.testing.assert_allclose(V.variances_of_rows(columns, J, A), variances, rtol=1e-9)


def test_a_root_of_a_matrix_has_its_square() -> None:
    A = RNG.normal(size=(5, 3)) * np.array([1e-8, 1.0, 1e6, 1.0, 1e3])[:, None]
    np.testing.assert_allclose(
        root_of_square(A @ A.T) @ root_of_square(A @ A.T).T, A @ A.T, rtol=1e-9, atol=0
    )


# ---- fits ------------------------------------------------------------------------------------------------------------

SMOOTH = [v for v in LIKELIHOOD_CASES if isinstance(v, SmoothLikelihood)]


def rows_of(likelihood: Any) -> tuple[Array, Array, dict[str, Any]]:
    X, y = rows_for(likelihood, 80, 2)
    return X, y, recipe_of(likelihood)


def outputs(fit: Any, X: Array) -> dict[str, Array]:
    """Predictions with their errors, and statistics of tests of the slopes."""
    table = fit.predict(X, prob=None)
    error = next(name for name in table if name.startswith("mean_") and name != "mean")
    return {"mean": np.asarray(table["mean"]), "error": np.asarray(table[error])}


@pytest.mark.parametrize(
    ("likelihood", "shift"),
    covering(
        itertools.product(SMOOTH, [1e9, 1e3, 1e6]),
        lambda v, _: likelihood_kind(v),
        lambda _, shift: shift,
        one_in=24,
    ),
)
def test_shifts_and_units_of_columns_change_no_prediction(
    likelihood: Any, shift: float
) -> None:
    X, y, options = rows_of(likelihood)
    # multiples of 2^-20 below 2^10 are exact after the shift, so that only arithmetic can lose digits
    X = np.round(X * 2.0**20) / 2.0**20
    away, unit = (
        np.round(shift * X.std(0) * 2.0**10) / 2.0**10,
        np.array([2.0**7, 2.0**-9]),
    )
    far = (X + away) * unit
    near_rows = far / unit - away
    plain, moved = (
        pr.Model.from_arrays(near_rows, y, **options),
        pr.Model.from_arrays(far, y, **options),
    )
    if (
        isinstance(likelihood, MayDiverge)
        and pr.fit(plain, "newton").solution.status.name != "CONVERGED"
    ):
        pytest.skip("the maximum does not exist")
    a, b = (
        outputs(pr.fit(m, "newton"), rows[:9])
        for m, rows in ((plain, near_rows), (moved, far))
    )
    for name in a:
        np.testing.assert_allclose(
            b[name], a[name], rtol=1e-5 if shift > 1e7 else 1e-8, atol=1e-9
        )


@pytest.mark.parametrize(
    "likelihood",
    # a formula takes multinomial counts as several columns
    covering(
        [v for v in SMOOTH if v.name != "multinomial"], likelihood_kind, one_in=200
    ),
)
def test_raw_centred_and_orthogonal_powers_have_equal_predictions(
    likelihood: Any,
) -> None:
    X, y, options = rows_of(likelihood)
    t = 2000.0 + np.round(10 * X[:, 0])
    data = {"y": y, "t": t, "c": t - 2000.0}
    found = []
    for terms in ("t + I(t**2) + I(t**3)", "c + I(c**2) + I(c**3)", "poly(t, 3)"):
        model = pr.Model.from_formula(f"y ~ {terms}", data, **options)
        fit = pr.fit(model, "newton")
        found.append(
            outputs(fit, {"t": t[:9], "c": t[:9] - 2000.0})
            if fit.solution.status.good
            else None
        )
    if found[1] is None:
        pytest.skip("the maximum does not exist")
    for other in (found[0], found[2]):
        assert other is not None
        for name in other:
            np.testing.assert_allclose(
                other[name], found[1][name], rtol=2e-5, atol=1e-8
            )


@pytest.mark.parametrize("likelihood", [v for v in SMOOTH if v.nuisance], ids=named)
def test_asymptotic_draws_have_the_joint_correlation(likelihood: Any) -> None:
    X, y, options = rows_of(likelihood)
    fit = pr.fit(pr.Model.from_arrays(X, y, **options), "newton")
    s = fit.solution
    if not s.status.good:
        pytest.skip("the maximum does not exist")
    assert s.scale.further == log_names(fit.model)
    beta, aux = asymptotic(s, np.random.default_rng(0))
    drawn = np.hstack(
        [beta.reshape(len(beta), -1), *(np.log(aux[a]) for a in fit.model.unknown)]
    )
    whole = s.scale.half(np.eye(s.scale.size))
    whole = whole @ whole.T
    size = np.sqrt(np.diagonal(whole))
    # 2,000 draws: four standard errors of a correlation
    np.testing.assert_allclose(
        np.corrcoef(drawn.T), whole / np.outer(size, size), atol=4 / np.sqrt(len(drawn))
    )
    # the joint curvature, by differences of the gradient over (vec beta, log aux)
    theta = np.concatenate(
        [s.beta.ravel(), np.log([s.aux[a] for a in fit.model.unknown])]
    )

    def gradient(at: Array) -> Array:
        k = s.beta.size
        known = dict(zip(fit.model.unknown, np.exp(at[k:])))
        return fit.model.value_grad_hessian(
            at[:k].reshape(s.beta.shape), **known
        ).gradient

    H = np.empty((len(theta), len(theta)))
    for j in range(len(theta)):
        h = 1e-4 * size[j] * np.eye(len(theta))[j]
        H[j] = -(gradient(theta + h) - gradient(theta - h)) / (2 * h[j])
    np.testing.assert_allclose(
        np.linalg.inv(H) / np.outer(size, size), whole / np.outer(size, size), atol=1e-5
    )


def test_a_matrix_whose_digits_cancel_is_refused_by_column() -> None:
    i = np.arange(40.0)
    data = {
        "y": (i - 20) ** 2 / 100 + np.sin(1.7 * i),
        "t": 1980 + i,
        "c": i - 20,
        "g": np.repeat(np.arange(8), 5),
    }
    raw = pr.fit(pr.Model.from_formula("y ~ t + I(t**2) + I(t**3) + I(t**4)", data))
    with pytest.raises(pr.DataError, match=r"I\(t \*\* \d\)|'t'"):
        pr.predictions(raw, covariance=raw.covariance("HC3"))
    centred = pr.fit(pr.Model.from_formula("y ~ c + I(c**2) + I(c**3) + I(c**4)", data))
    given = pr.predictions(
        centred, at={"c": [-17.0, -10.0]}, covariance=centred.covariance("HC3")
    ).table["std_error"]
    by_name = pr.predictions(raw, at={"t": [1983.0, 1990.0]}, covariance="HC3").table[
        "std_error"
    ]
    np.testing.assert_allclose(by_name, given, rtol=1e-6)


@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_a_fit_with_a_plain_matrix_as_covariance_is_saved(
    likelihood: str, tmp_path: Path
) -> None:
    """As a user's own method may give it; one coefficient has no standard error."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 3
    fit = pr.fit(pr.Model.from_arrays(X, y, likelihood=likelihood))
    V = fit.solution.scale.matrix()
    V[1], V[:, 1] = np.nan, np.nan
    fit = replace(fit, solution=replace(fit.solution, scale=V))
    again = pr.load_fit(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(
        again.solution.scale.matrix(), fit.solution.scale.matrix()
    )
    np.testing.assert_array_equal(again.std_error, fit.std_error)


def test_least_squares_with_a_fixed_sigma_has_its_variance():
    """By both names, as RSS is not used: sigma^2 (X'X)^-1."""
    x = np.array([0.0, 1.0, 2.0, 5.0])
    fit = pr.fit(pr.Model.from_arrays(x[:, None], x**2, aux={"sigma": 2.0}))
    X = np.column_stack([np.ones(4), x])
    for kind in ("classical", "ml"):
        covariance = fit.covariance(kind)
        np.testing.assert_allclose(covariance, 4.0 * np.linalg.inv(X.T @ X), rtol=1e-12)


def test_a_posterior_of_two_degrees_of_freedom_has_no_variance():
    """Its marginals are Student-t, whose quantiles remain."""
    x = np.array([0.0, 1.0, 2.0, 4.0])
    fit = pr.fit(pr.Model.from_arrays(x[:, None], [1.0, 2.0, 2.5, 6.0]), "conjugate")
    assert fit.solution.df == 2.0
    assert np.isinf(fit.std_error).all()
    covariance = fit.covariance().to_numpy()
    assert np.isinf(np.diagonal(covariance)).all()
    assert np.isnan(covariance[0, 1])
    scale = np.sqrt(fit.solution.scale.diagonal())
    upper = fit.coef + stats.t(2).ppf(0.975) * scale
    np.testing.assert_allclose(fit.interval().upper, upper, rtol=1e-12)
