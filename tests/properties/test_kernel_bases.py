"""Laws of bases: the columns and what they lack add up to the covariance function, and a larger basis lacks less."""

import json

import numpy as np
import pytest

import probreg as pr
from probreg import kernels
from probreg.kernels import basis, basis_from_spec

RNG = np.random.default_rng(4)
X = RNG.normal(size=(60, 2))
NEW = RNG.uniform(X.min(0), X.max(0), size=(9, 2))
FAR = np.array([[40.0, -40.0], [0.0, 300.0]])
K = kernels.RBF((0.9, 1.6))
KINDS = {
    "exact": {},
    "cholesky": {"tol": 1e-3},
    "hsgp": {"tol": 1e-3},
}
PROJECTIONS = ("exact", "cholesky")
FUNCTIONS = [
    K,
    2.5 * kernels.Matern(1.1, 1.5),
    kernels.RBF(1.0).on(0) + kernels.Matern(0.8, 0.5).on(1),
    kernels.Polynomial(2, 0.5),
    kernels.RBF(0.8, scaled=True),
]
every_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_kind_has_a_case():
    assert set(KINDS) == set(kernels.BASES)


@every_kind
@pytest.mark.parametrize("k", FUNCTIONS, ids=str)
def test_columns_and_what_they_lack_are_the_function(k, kind):
    spectral = k.resolve(X).density(np.ones((1, 2))) is not None
    if kind not in PROJECTIONS and not spectral:
        with pytest.raises(pr.Incompatible, match="spectral density"):
            basis(k, X, kind)
        return
    found, known = basis(k, X, kind, **KINDS[kind]), k.resolve(X)
    at_x, at_new = found.columns_at(X), found.columns_at(NEW)
    assert at_x.shape == (60, found.size)
    np.testing.assert_allclose(
        at_x @ at_new.T + found.residual_covariance(X, NEW),
        known(X, NEW),
        rtol=0,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        found.residual_covariance(NEW),
        found.residual_covariance(NEW, NEW),
        rtol=0,
        atol=1e-12,
    )
    v = np.maximum(np.diagonal(found.residual_covariance(NEW)), 0.0)
    np.testing.assert_allclose(found.residual_variance(NEW), v, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", PROJECTIONS)
@pytest.mark.parametrize("k", FUNCTIONS, ids=str)
def test_what_a_projection_lacks_is_a_covariance(k, kind):
    found, both = basis(k, X, kind, **KINDS[kind]), np.vstack([X, NEW])
    R = found.residual_covariance(both)
    assert (
        np.linalg.eigvalsh(R)[0]
        >= -1e-10 * len(both) * np.abs(k.resolve(X)(both)).max()
    )


@pytest.mark.parametrize("k", FUNCTIONS, ids=str)
def test_exact_is_the_matrix_on_the_rows(k):
    found = basis(k, X)
    assert (found.kind, found.error) == ("exact", 0.0)
    M = k.resolve(X)(X)
    np.testing.assert_allclose(
        found.columns_at(X) @ found.columns_at(X).T,
        M,
        rtol=0,
        atol=1e-12 * np.abs(M).max(),
    )
    assert found.residual_variance(X).max() < 1e-11 * np.abs(M).max()


@pytest.mark.parametrize("kind", PROJECTIONS)
def test_far_from_the_anchors_all_of_the_variance_is_left(kind):
    found = basis(2.5 * K, X, kind, **KINDS[kind])
    np.testing.assert_allclose(found.residual_variance(FAR), 2.5, rtol=1e-14)
    np.testing.assert_allclose(
        found.residual_covariance(FAR), 2.5 * np.eye(2), rtol=1e-14, atol=1e-14
    )


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [
        ("cholesky", [{"tol": t} for t in (1e-1, 1e-2, 1e-4, 1e-10)]),
        ("hsgp", [{"size": m, "half_width": (6.0, 7.0)} for m in (4, 8, 12, 30)]),
    ],
)
def test_a_larger_basis_is_closer(kind, sizes):
    errors, stated = [], []
    for settings in sizes:
        found = basis(K, X, kind, **settings)
        R = found.residual_covariance(X)
        stated.append(found.error)
        errors.append(np.sqrt(np.square(R).mean()))
        if kind == "cholesky":
            assert found.error == pytest.approx(np.trace(R) / len(X), abs=1e-12)
    assert errors == sorted(errors, reverse=True)
    assert stated == sorted(stated, reverse=True)
    assert errors[-1] < 1e-6


def test_pivoted_cholesky_stops_at_its_tolerance():
    for tol in (1e-1, 1e-3, 1e-6):
        found = basis(K, X, "cholesky", tol=tol)
        assert found.error <= tol  # k(x, x) = 1
        one_less = basis(K, X, "cholesky", tol=tol, size=found.size - 1)
        assert one_less.error > tol
        A = found.anchors
        # k(x, A) k(A, A)^-1 k(A, x)
        explained = K(X, A) @ np.linalg.solve(K(A), K(A, X))
        assert found.error == pytest.approx(
            np.trace(K(X) - explained) / len(X), abs=1e-10
        )
        assert found.holds_rows


def test_a_rank_that_is_reached_ends_the_factorisation():
    """(x z + 1)^2 of one column has rank 3: pivots that are left are rounding."""
    found = basis(kernels.Polynomial(2, 1.0), X[:, 0], "cholesky", tol=1e-100)
    assert found.size == 3


def test_the_default_is_exact_up_to_2000_distinct_rows():
    x = np.linspace(0.0, 40.0, 2001)
    assert basis(kernels.RBF(1.0), x).kind == "cholesky"
    assert basis(kernels.RBF(1.0), np.tile(x[::200], 300)).kind == "exact"


def test_rows_that_occur_twice_count_once():
    twice = np.vstack([X[:8], X[:8]])
    found = basis(K, twice)
    assert found.anchors.tolist() == X[:8].tolist()
    np.testing.assert_allclose(
        found.columns_at(twice) @ found.columns_at(twice).T, K(twice), atol=1e-12
    )
    assert basis(K, twice, "cholesky", tol=1e-12).size <= 8


# ---- sines ---------------------------------------------------------------------------------------------------------

ONE = [
    kernels.RBF(0.5),
    3.0 * kernels.Matern(0.7, 1.5),
    kernels.Matern(0.7, 2.5),
]


def off(found, k, x):
    return np.abs(found.columns_at(x) @ found.columns_at(x).T - k(x)).max()


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("k", [*ONE, ONE[0] + 0.5 * ONE[2]], ids=str)
def test_the_error_of_sines_is_at_most_what_is_stated(k, tol):
    x = np.linspace(-1.0, 1.0, 81)
    found = basis(k, x, "hsgp", tol=tol)
    # two images and the tail
    assert off(found, k, x) <= found.error <= 3.0 * tol * k.bound


def test_the_half_width_and_where_the_variance_falls():
    """l = 0.5, S = 1, tol = 1e-3: L = 1 + 0.5 sqrt(2 log 1000) / 2; beyond S the variance falls to zero."""
    x = np.linspace(-1.0, 1.0, 5)
    found = basis(kernels.RBF(0.5), x, "hsgp", tol=1e-3)
    L = 1.0 + 0.5 * np.sqrt(2.0 * np.log(1000.0)) / 2.0
    np.testing.assert_allclose(found.half_width, L, rtol=1e-9)
    wide = basis(kernels.RBF(0.5), x, "hsgp", half_width=L, size=40, range=(-1.9, 1.9))
    at = np.square(wide.columns_at([1.3, 1.6, 1.8])).sum(1)
    np.testing.assert_allclose(at, [0.958, 0.580, 0.125], atol=6e-4)


@pytest.mark.parametrize("size", [6, 12])
def test_the_published_half_width_is_off_by_more_than_a_twentieth(size):
    """c = max(1.2, 3.2 l / S) of Riutort-Mayol et al. leaves the image k(2 (L - S)), which no number of sines removes."""
    x, k = np.linspace(-1.0, 1.0, 201), kernels.RBF(0.5)
    found = basis(k, x, "hsgp", half_width=1.6, size=size)
    assert 0.055 < off(found, k, x) < 0.059
    assert off(found, k, x) <= found.error
    assert off(basis(k, x, "hsgp", tol=1e-3), k, x) < 2e-3


@pytest.mark.parametrize(
    "k", [kernels.RBF((0.9, 1.6, 0.7)), kernels.Matern(1.2, 2.5)], ids=str
)
def test_the_error_of_sines_in_three_columns(k):
    x = np.vstack(
        [
            RNG.uniform(-1.0, 1.0, (40, 3)),
            np.stack(np.meshgrid(*[[-1.0, 1.0]] * 3), -1).reshape(-1, 3),
        ]
    )
    found = basis(k, x, "hsgp", tol=1e-2)
    assert off(found, k, x) <= found.error <= 3 * 3e-2


def test_sines_in_two_columns():
    found = basis(K, X, "hsgp", tol=1e-3)
    assert off(found, K, X) <= found.error
    assert found.frequencies.shape == (found.size, 2)
    np.testing.assert_allclose(
        found.columns_at(X), found.sines(X) * found.roots(), rtol=1e-14
    )


def test_sines_do_not_change_with_the_length():
    k = 2.0 * kernels.RBF(0.7)
    found = basis(k, X[:, 0], "hsgp", half_width=9.0, size=120)
    for length in (0.5, 0.9):
        phi = found.sines(X[:, 0]) * found.roots(length=length)
        np.testing.assert_allclose(
            phi @ phi.T, k.at(length=length)(X[:, 0]), atol=1e-10
        )


def test_one_basis_serves_all_lengths_between_two():
    x, k, tol = np.linspace(-1.0, 1.0, 41)[:, None] * [1.0, 2.0], kernels.RBF(1.0), 1e-3
    wide = basis(k.at(length=1.5), x, "hsgp", tol=tol)
    fine = basis(k.at(length=0.5), x, "hsgp", tol=tol, half_width=wide.half_width)
    found = basis(k, x, "hsgp", half_width=wide.half_width, size=fine.counts)
    assert found.size == np.prod(fine.counts)
    for length in (0.5, 0.8, 1.5):
        phi = found.sines(x) * found.roots(length=length)
        assert np.abs(phi @ phi.T - k.at(length=length)(x)).max() <= 2 * 3.0 * tol


def test_the_range_is_what_is_served():
    found = basis(kernels.RBF(1.0), [0.0, 1.0], "hsgp", range=(-1.0, 4.0))
    found.columns_at([-1.0, 4.0])
    with pytest.raises(
        pr.DataError,
        match=r"row 1, column 0 holds 4.1, beyond the range -1 to 4 .* range=\(-1, 4.1\)",
    ):
        found.columns_at([0.0, 4.1])


# ---- files ---------------------------------------------------------------------------------------------------------


@every_kind
def test_a_specification_is_arrays_and_numbers_and_comes_back(kind):
    found = basis(2.0 * K, X, kind, **KINDS[kind])
    spec = found.spec()
    assert found.holds_rows == (kind in PROJECTIONS)
    again = basis_from_spec(json.loads(json.dumps(spec, default=lambda a: a.tolist())))
    np.testing.assert_array_equal(again.columns_at(NEW), found.columns_at(NEW))
    np.testing.assert_array_equal(
        again.residual_variance(NEW), found.residual_variance(NEW)
    )
    assert again.error == found.error
    assert again.error_words == found.error_words
