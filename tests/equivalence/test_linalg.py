"""The three ways to a triangular factor agree with each other and with numpy; rank, merge, downdate and Gram keep their laws."""

import threading
from unittest.mock import patch

import numpy as np
import pytest
from scipy.linalg import lapack

from probreg.linalg import (
    downdate,
    factors,
    factors as factors_module,
    inverse_upper,
    map_blocks,
    merge,
    rank_of,
    reduce_rows,
    row_blocks,
    solve_upper,
    sum_over_blocks,
    triangular,
    unit_diagonal,
    weighted_gram,
)
from probreg.linalg.lazy_array import LazyArray

EPS = np.finfo(float).eps


def tall(seed=0, n=6000, p=12, shift=0.0, noise=1.0):
    """Rows past the size done in extended precision; an intercept, and a shift that makes the columns nearly parallel."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p)) + shift
    X[:, 0] = 1
    return (
        X,
        X @ rng.normal(size=p) + noise * rng.normal(size=n),
        rng.integers(0, 4, n).astype(float),
    )


def extended_factor(A, w=None):
    """The triangular factor of sqrt(w) A by QR in extended precision, of any size."""
    A = A.astype(np.longdouble)
    if w is not None:
        A *= np.sqrt(w.astype(np.longdouble))[:, None]
    with patch.object(factors, "EXTENDED", np.inf):
        return factors.factor_of(A)


def precise(X, y, w=None):
    """Coefficients, relative standard errors and residual norm by QR in extended precision."""
    return answers(extended_factor(np.column_stack([X, y]), w))


def answers(F):
    R, z = F[:-1, :-1], F[:-1, -1]
    return (
        solve_upper(R, z).astype(float),
        np.sqrt((inverse_upper(R) ** 2).sum(axis=1)).astype(float),
        float(F[-1, -1]),
    )


@pytest.mark.parametrize(("shift", "noise"), [(1e5, 1.0), (0.0, 1e-7)])
def test_hard_columns_of_moderate_size_keep_the_digits_of_extended_precision(
    shift, noise
):
    """Between 40,000 and 200,000 products only mild columns are reduced in double precision, which loses two digits here."""
    X, y, _ = tall(n=900, p=11, shift=shift, noise=noise)
    for computed, expected in zip(answers(triangular(X, y)), precise(X, y)):
        np.testing.assert_allclose(computed, expected, rtol=20 * EPS)
    mild = tall(n=900, p=11)[:2]
    for computed, expected in zip(answers(triangular(*mild)), precise(*mild)):
        np.testing.assert_allclose(computed, expected, rtol=100 * EPS)


# shift -> way taken: one Cholesky, one with refined y, CholeskyQR2, CholeskyQR2, TSQR
@pytest.mark.parametrize("shift", [0.0, 3.0, 1e2, 1e4, 1e8])
@pytest.mark.parametrize("noise", [1.0, 1e-4])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_way_has_the_accuracy_of_qr(shift, noise, weighted):
    X, y, w = tall(shift=shift, noise=noise)
    w = w if weighted else None
    scaled = X / np.linalg.norm(X, axis=0)
    condition = np.linalg.cond(scaled)
    F = triangular(X, y, weights=w)
    assert F.dtype == np.float64
    beta, se, rho = answers(F)
    beta0, se0, rho0 = precise(X, y, w)
    # QR of a perturbed matrix, relative change of a few EPS: coefficients of the unit columns to EPS condition, of the
    # largest of them; the factor 50 is for the dimension
    size = np.linalg.norm(X, axis=0)
    assert np.max(np.abs(beta - beta0) * size) <= 50 * EPS * condition * np.max(
        np.abs(beta0) * size
    )
    # the refined standard errors to the same; a single Cholesky factor is allowed up to condition 30, and 30^2 EPS = 2e-13
    np.testing.assert_allclose(se, se0, rtol=max(50 * EPS * condition, 2e-13))
    # the residual norm to EPS of the norm of y, which is the larger number
    assert abs(rho - rho0) <= max(50 * EPS * np.linalg.norm(y), 1e-12 * rho0)


@pytest.mark.parametrize("n", [300, 30_000])
def test_a_column_that_varies_in_one_row_has_a_standard_deviation(n):
    column = np.full(n, 1e8)
    column[1] += 1.0
    columns = np.c_[np.ones(n), column]
    scale = reduce_rows(columns, columns[:, 1]).scale
    assert scale[0] == 0.0
    assert scale[1:] == pytest.approx(column.std(), rel=1e-6)
    assert (reduce_rows(np.ones((n, 1), bool)).scale == 0.0).all()


def test_the_way_taken_follows_size_and_condition(monkeypatch):
    X, y, _ = tall()
    assert triangular(X[:200], y[:200]).dtype == np.longdouble
    seen = []
    second, last = factors_module._second_pass, factors_module._tsqr
    monkeypatch.setattr(
        factors_module, "_second_pass", lambda *a: seen.append("second") or second(*a)
    )
    monkeypatch.setattr(
        factors_module, "_tsqr", lambda *a: seen.append("tsqr") or last(*a)
    )
    for shift, expected in ((0.0, []), (1e3, ["second"]), (1e8, ["tsqr"])):
        seen.clear()
        triangular(*tall(shift=shift)[:2])
        assert seen == expected


def test_many_columns_as_good_as_independent_take_one_pass(monkeypatch):
    """Their condition grows with p in the 1-norm, which is 39 here, and is 2.6 in the 2-norm."""
    X, y, _ = tall(n=1200, p=240)
    assert (
        1 / lapack.dtrcon(np.linalg.qr(X / np.linalg.norm(X, axis=0), mode="r"))[0]
        > factors_module.WELL
    )
    monkeypatch.setattr(factors_module, "_second_pass", None)
    beta, se, rho = answers(triangular(X, y))
    beta0, se0, rho0 = answers(factors.factor_of(np.column_stack([X, y])))
    # the law of a single Cholesky factor, WELL^2 EPS, of which this condition asks for a hundredth
    np.testing.assert_allclose(se, se0, rtol=1e-14 * 5)
    np.testing.assert_allclose(beta, beta0, atol=1e-13)
    np.testing.assert_allclose(rho, rho0, rtol=1e-13)


@pytest.mark.parametrize(
    ("p", "smallest"), [(2, 0.5), (30, 1e-1), (30, 1e-3), (300, 1.0), (300, 1e-2)]
)
def test_the_condition_in_the_2_norm_is_bounded_from_above(p, smallest):
    rng = np.random.default_rng(p)
    U = np.linalg.qr(rng.normal(size=(p, p)))[0]
    values = np.geomspace(smallest, 1.0, p)
    for d in (
        values,
        np.r_[smallest, np.ones(p - 1)],
        np.r_[np.full(p - 1, smallest), 1.0],
    ):  # spread, one small, one large
        R = np.linalg.qr(d[:, None] * U, mode="r")
        found = factors_module._condition_2(R)
        assert found * (1 + 1e-12) >= 1 / smallest
        assert found <= 1.01 * (np.sqrt(p) / 0.22) ** (1 / 8) / smallest


@pytest.mark.parametrize(
    "shape", [(0, 3), (1, 3), (2, 3), (3, 3), (40, 3), (60, 120), (9000, 10)]
)
def test_factor_is_square_triangular_nonnegative_and_squares_to_the_gram(shape):
    A = np.random.default_rng(1).normal(size=shape)
    F = triangular(A)
    assert F.shape == (shape[1], shape[1])
    assert np.all(np.diag(F) >= 0)
    assert np.all(np.tril(F, -1) == 0)
    # n EPS is the error of the reference product A'A itself
    np.testing.assert_allclose(
        (F.T @ F).astype(float), A.T @ A, atol=EPS * 20 * max(shape)
    )


@pytest.mark.parametrize("n", [500, 6000])
def test_order_of_storage_integers_and_zero_weights_make_no_difference(n):
    X, y, w = tall(n=n)
    F = triangular(X, y, weights=w)
    # the same numbers in another order of summation: a few EPS times sqrt(n)
    np.testing.assert_allclose(
        triangular(np.asfortranarray(X), y, weights=w), F, atol=1e-11
    )
    np.testing.assert_allclose(
        triangular(X[w > 0], y[w > 0], weights=w[w > 0]), F, atol=1e-11
    )
    whole = np.random.default_rng(2).integers(-9, 9, (n, 12))
    np.testing.assert_allclose(
        triangular(whole), triangular(whole.astype(float)), atol=0
    )


@pytest.mark.parametrize("n", [300, 6000])
def test_several_responses_are_factored_like_columns(n):
    X, y, w = tall(n=n)
    Y = np.column_stack([y, X @ np.ones(12) + 1e-5 * np.cos(y), np.sin(y)])
    F, G = (
        triangular(X, Y, weights=w),
        extended_factor(np.hstack([X, Y]), w).astype(float),
    )
    # EPS sqrt(n) times dimension
    np.testing.assert_allclose(F.astype(float), G, atol=1e-11 * np.abs(G).max())


@pytest.mark.parametrize("n", [300, 6000])
@pytest.mark.parametrize("weighted", [False, True])
def test_means_and_standard_deviations(n, weighted):
    X, y, w = tall(n=n)
    X[:, 3] += (
        1e9  # a time stamp: sums of squares hold no digit of its standard deviation
    )
    w = w if weighted else np.ones(n)
    r = reduce_rows(X, y, weights=w if weighted else None)
    A = np.column_stack([X, y])
    mean = np.average(A, axis=0, weights=w)
    assert r.weight == w.sum()
    # EPS, times sqrt(n) for the mean of numbers near 0
    np.testing.assert_allclose(r.mean, mean, rtol=1e-13, atol=1e-14)
    expected = np.sqrt(np.average((A - mean) ** 2, axis=0, weights=w))
    assert r.scale[0] == 0
    # an error of 1e-7 in the mean enters squared
    np.testing.assert_allclose(r.scale[1:], expected[1:], rtol=1e-11)


@pytest.mark.parametrize("dtype", [float, np.longdouble])
def test_triangular_solves(dtype):
    rng = np.random.default_rng(3)
    R = (np.triu(rng.normal(size=(7, 7))) + 5 * np.eye(7)).astype(dtype)
    for b in (rng.normal(size=7).astype(dtype), rng.normal(size=(7, 2)).astype(dtype)):
        np.testing.assert_allclose(
            R @ solve_upper(R, b), b, atol=20 * np.finfo(dtype).eps
        )
        np.testing.assert_allclose(
            R.T @ solve_upper(R, b, transpose=True), b, atol=20 * np.finfo(dtype).eps
        )
    np.testing.assert_allclose(
        R @ inverse_upper(R), np.eye(7), atol=20 * np.finfo(dtype).eps
    )
    assert inverse_upper(R).dtype == dtype


@pytest.mark.parametrize("n", [300, 20_000])
def test_merge_is_the_factor_of_all_rows_and_downdate_undoes_it(n):
    X, y, _ = tall(n=n)
    half = n // 3
    F, F1, F2 = (
        triangular(X, y),
        triangular(X[:half], y[:half]),
        triangular(X[half:], y[half:]),
    )
    size = np.abs(F).max()
    np.testing.assert_allclose(merge(F1, F2), F, atol=1e-13 * size)  # 500 EPS
    # and the loss by subtraction, a third of the rows
    np.testing.assert_allclose(downdate(F, F2), F1, atol=1e-12 * size)
    with pytest.raises(ValueError, match="not among"):
        downdate(F1, F)


def test_downdate_to_nothing_and_of_collinear_columns():
    X, y, _ = tall(n=200)
    F = triangular(X, y)
    # what is left is the root of a difference of squares that agree to the last digit of an extended number
    assert np.abs(downdate(F, F)).max() < 1e-8 * np.abs(F).max()
    X[:, 5] = X[:, 3] - X[:, 4]
    G = downdate(triangular(X, y), triangular(X[:50], y[:50]))
    expected = triangular(X[50:], y[50:])
    np.testing.assert_allclose(
        (G.T @ G).astype(float), (expected.T @ expected).astype(float), atol=1e-10
    )


@pytest.mark.parametrize("n", [200, 50_000])
def test_rank_names_what_is_a_combination_of_earlier_columns(n):
    rng = np.random.default_rng(4)
    level = np.eye(3)[rng.integers(0, 3, n)]
    a, b = 1e6 + rng.normal(size=n), rng.normal(size=n)
    X = np.column_stack(
        [
            np.ones(n),
            a,
            b,
            a + b,
            level,
            np.zeros(n),
            0.1 * a - 0.7 * b + 3,
            np.full(n, 7.0),
        ]
    )
    r = rank_of(triangular(X))
    assert (r.rank, r.kept, r.dropped) == (5, (0, 1, 2, 4, 5), (3, 6, 7, 8, 9))
    expected = [
        [0, 1, 1, 0, 0],
        [1, 0, 0, -1, -1],
        [0, 0, 0, 0, 0],
        [3, 0.1, -0.7, 0, 0],
        [7, 0, 0, 0, 0],
    ]
    # the columns are close to parallel: condition 1e6, and 1e6 again in the constant
    np.testing.assert_allclose(r.combos, expected, atol=1e-4)


def test_rank_is_free_of_units_and_keeps_close_but_distinct_columns():
    X, _, _ = tall(n=400, shift=1e7)
    units = 10.0 ** np.arange(-60, 60, 10)
    assert rank_of(triangular(X)).rank == 12
    assert rank_of(triangular(X * units)).rank == 12
    X[:, 5] = X[:, 3] - X[:, 4]
    assert rank_of(triangular(X * units)).dropped == (5,)
    assert rank_of(triangular(tall(n=400, shift=1e4)[0]), tol=1e-2).rank < 12


def test_rank_of_wide_and_of_no_rows():
    A = np.random.default_rng(5).normal(size=(20, 60))
    r = rank_of(triangular(A))
    assert r.kept == tuple(range(20))
    # EPS times the condition of 20 random columns
    np.testing.assert_allclose(A[:, :20] @ r.combos.T, A[:, 20:], atol=1e-9)
    assert rank_of(triangular(np.zeros((0, 2)))).dropped == (0, 1)


@pytest.mark.parametrize("n", [7, 30_000])
@pytest.mark.parametrize("m", [1, 3])
def test_weighted_gram_is_its_sum_over_rows(n, m):
    rng = np.random.default_rng(6)
    X, W = rng.normal(size=(n, 4)), rng.normal(size=(n, m, m))
    W = W + W.swapaxes(1, 2)
    expected = np.einsum("ia,ikl,ib->akbl", X, W, X).reshape(4 * m, 4 * m)
    # EPS n, and einsum's own
    np.testing.assert_allclose(weighted_gram(X, W), expected, atol=1e-12 * n)
    np.testing.assert_array_equal(weighted_gram(X, W), weighted_gram(X, W).T)
    w = np.abs(W[:, 0, 0])
    np.testing.assert_allclose(weighted_gram(X, w), (X.T * w) @ X, atol=1e-12 * n)


@pytest.mark.parametrize("n", [0, 1, 1024, 16_385, 100_000])
def test_row_blocks_cover_every_row_once(n):
    seen = np.concatenate([np.arange(n)[rows] for rows in row_blocks(n, 20)])
    np.testing.assert_array_equal(seen, np.arange(n))


def test_sums_do_not_depend_on_the_number_of_cores(monkeypatch):
    X = np.random.default_rng(7).normal(size=(50_000, 40))
    threads = set()

    def gram(rows, A):
        threads.add(threading.get_ident())
        return A.T @ A, A.sum(axis=0)

    many = sum_over_blocks(X, gram)
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    threads.clear()
    one = sum_over_blocks(X, gram)
    assert threads == {threading.get_ident()}
    for a, b in zip(many, one):
        # BLAS itself may add in another order with another number of threads: sqrt(n) EPS of the diagonal
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_an_error_in_a_block_is_raised():
    def bad(rows):
        raise ZeroDivisionError(str(rows))

    with pytest.raises(ZeroDivisionError):
        map_blocks(bad, row_blocks(100_000, 20))


def test_a_matrix_in_any_units_is_scaled_to_the_same_unit_diagonal():
    rng = np.random.default_rng(0)
    B = rng.normal(size=(2, 4, 4))
    H = B @ B.swapaxes(1, 2)
    scaled, d = unit_diagonal(H)
    np.testing.assert_allclose(scaled * d[:, :, None] * d[:, None], H, rtol=1e-14)
    units = 2.0 ** np.array([-300, -40, 0, 300])
    again, by_units = unit_diagonal(units[:, None] * H * units)
    np.testing.assert_array_equal(again, scaled)
    np.testing.assert_array_equal(by_units, units * d)


def test_a_lazy_array_becomes_an_array_where_it_is_changed():
    A = LazyArray((2, 2), lambda: np.array([[1.0, 2.0], [0.0, 4.0]]))
    assert (len(A), A.ndim) == (2, 2)
    np.testing.assert_array_equal(A.T, [[1.0, 0.0], [2.0, 4.0]])
    before = np.array(A, copy=True)
    A += 1.0
    np.testing.assert_array_equal(A, before + 1.0)
