"""Moments of rows: merged, subtracted and weighted they are the moments of the rows, and NIST's digits come out of them."""

import functools
import json
import operator
from itertools import pairwise

import numpy as np
import pytest

from probreg.data.moments import Moments
from probreg.errors import DataError
from probreg.linalg import inverse_upper
from tests.conftest import reference_path


def unscaled_covariance(m: Moments) -> np.ndarray:
    """(X'WX)^-1 of columns of full rank: R^-1 R^-T."""
    root = inverse_upper(m.R)
    return root @ root.T


NAMES = ("const", "a", "b", "c")


def rows(seed=0, n=90):
    rng = np.random.default_rng(seed)
    X = np.column_stack(
        [np.ones(n), rng.normal(50, 3, n), rng.exponential(2, n), rng.integers(0, 2, n)]
    )
    return X, X @ [3, -0.2, 1.5, 2] + rng.normal(size=n), rng.integers(1, 4, n)


def same(a, b, rtol=1e-12):
    """Equal to rounding: factors relative to their largest element, which is what an orthogonal transformation keeps."""
    assert (a.n, a.columns) == (b.n, b.columns)
    np.testing.assert_allclose(
        a.factor, b.factor, atol=rtol * float(np.abs(b.factor).max())
    )
    for name in ("weight", "mean", "scale", "y_mean", "y_scale", "rss"):
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=10 * rtol, atol=rtol, err_msg=name
        )
    np.testing.assert_allclose(
        a.least_squares()[0], b.least_squares()[0], rtol=1e3 * rtol
    )  # condition of X about 30


def test_least_squares_against_numpy():
    X, y, w = rows()
    m = Moments.of(X, y, weights=w, columns=NAMES)
    root = np.sqrt(w)
    beta, rss, *_ = np.linalg.lstsq(X * root[:, None], y * root)
    # numpy's error: EPS times condition 30, times 1/0.2
    np.testing.assert_allclose(m.least_squares()[0], beta, rtol=1e-11)
    np.testing.assert_allclose(m.rss, rss[0], rtol=1e-12)
    gram = (X.T * w) @ X
    # numpy's: EPS times condition^2
    np.testing.assert_allclose(unscaled_covariance(m), np.linalg.inv(gram), rtol=1e-9)
    for mine, theirs in zip(m.gram, (gram, X.T @ (w * y), y @ (w * y))):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)


@pytest.mark.parametrize("n", [90, 60_000])
def test_blocks_in_any_cut_are_the_whole(n):
    X, y, w = rows(n=n)
    whole = Moments.of(X, y, weights=w, columns=NAMES)
    cuts = [0, 1, 3, n // 3, n // 3, n - 2, n]
    blocks = [(X[i:j], y[i:j], w[i:j]) for i, j in pairwise(cuts) if j > i]
    parts = [Moments.of(a, b, weights=c, columns=NAMES) for a, b, c in blocks]
    same(functools.reduce(operator.add, parts), whole)


@pytest.mark.parametrize("n", [90, 60_000])
def test_subtracting_undoes_adding(n):
    X, y, _ = rows(n=n)
    a, b = (
        Moments.of(X[s], y[s], columns=NAMES)
        for s in (slice(0, n // 2), slice(n // 2, n))
    )
    # the difference of two squares of like size loses a digit
    same(a + b - b, a, rtol=1e-11)
    same(a + b, b + a)


def test_weights_are_numbers_of_copies():
    X, y, w = rows()
    weighted = Moments.of(X, y, weights=w, columns=NAMES)
    copied = Moments.of(np.repeat(X, w, axis=0), np.repeat(y, w), columns=NAMES)
    assert (weighted.n, copied.n) == (len(X), w.sum())
    assert weighted.weight == copied.weight == w.sum()
    np.testing.assert_allclose(
        weighted.factor, copied.factor, atol=1e-14 * float(np.abs(copied.factor).max())
    )
    np.testing.assert_allclose(weighted.scale, copied.scale, rtol=1e-13)


def test_weight_zero_is_no_row():
    X, y, w = rows()
    w[::3] = 0
    some = Moments.of(X, y, weights=w, columns=NAMES)
    kept = Moments.of(X[w > 0], y[w > 0], weights=w[w > 0], columns=NAMES)
    np.testing.assert_allclose(
        some.factor, kept.factor, atol=1e-14 * float(np.abs(kept.factor).max())
    )
    assert (some.n, kept.n) == (90, 60)


def test_shift_and_scale_of_columns():
    X, y, _ = rows()
    # a new origin and unit for each column
    T = np.array([[1, 4, -70, 5], [0, 10, 0, 0], [0, 0, 1e-3, 0], [0, 0, 0, 2.0]])
    m, t = Moments.of(X, y, columns=NAMES), Moments.of(X @ T, y, columns=NAMES)
    # the shift by 70 standard deviations costs EPS 1e3 to 1e4
    assert t.rss == pytest.approx(m.rss, rel=1e-10)
    np.testing.assert_allclose(
        T @ t.least_squares()[0], m.least_squares()[0], rtol=1e-8
    )  # and again, cancelling
    np.testing.assert_allclose(t.scale, np.abs(np.diag(T)) * m.scale, rtol=1e-11)


def test_collinear_columns_get_zero_and_are_known():
    X, y, _ = rows()
    X = np.column_stack([X, X[:, 1] - 2 * X[:, 2], 1 - X[:, 3]])
    names = (*NAMES, "a-2b", "not c")
    m = Moments.of(X, y, columns=names)
    beta, rank = m.least_squares()
    assert rank.dropped == (4, 5)
    np.testing.assert_allclose(rank.combos, [[0, 1, -2, 0], [1, 0, 0, -1]], atol=1e-12)
    plain = Moments.of(X[:, :4], y, columns=NAMES)
    np.testing.assert_allclose(beta[:4], plain.least_squares()[0], rtol=1e-11)
    np.testing.assert_array_equal(beta[4:], 0)
    assert m.rss == pytest.approx(plain.rss, rel=1e-12)


def test_fewer_rows_than_columns_interpolate():
    X, y, _ = rows(n=3)
    m = Moments.of(X, y, columns=NAMES)
    beta, rank = m.least_squares()
    assert rank.rank == 3
    np.testing.assert_allclose(X @ beta, y, rtol=1e-10)
    assert m.rss == pytest.approx(0, abs=1e-20)


@pytest.mark.parametrize("n", [90, 60_000])
def test_arrays_keep_every_bit(n):
    X, y, w = rows(n=n)
    m = Moments.of(X, y, weights=w, columns=NAMES)
    arrays = m.to_arrays()
    assert all(a.dtype == float for name, a in arrays.items() if name != "columns")
    back = Moments.from_arrays(arrays)
    np.testing.assert_array_equal(back.factor, m.factor)
    assert back.factor.dtype == m.factor.dtype
    same(back, m, rtol=0)


def test_what_does_not_fit_is_said():
    X, y, _ = rows()
    m = Moments.of(X, y, columns=NAMES)
    with pytest.raises(DataError, match=r"missing \['c'\], unknown \['d'\]"):
        m + Moments.of(X, y, columns=("const", "a", "b", "d"))
    with pytest.raises(DataError, match="another order"):
        m + Moments.of(X, y, columns=("const", "b", "a", "c"))
    with pytest.raises(DataError, match="were not among these"):
        m - Moments.of(X[:5] + 9, y[:5] + 1000, columns=NAMES)
    with pytest.raises(DataError, match="cannot subtract 90 rows"):
        Moments.of(X[:5], y[:5], columns=NAMES) - m


def certified(name):
    return json.loads(reference_path(f"nist/{name}.json").read_text())


def digits(value, truth):
    """Correct significant digits: minus the log10 of the relative error, at most 16; absolute where the truth is zero."""
    error = np.max(np.abs(value - truth) / np.where(truth == 0, 1, np.abs(truth)))
    return 16.0 if error == 0 else -np.log10(error)


# NIST certifies 15 digits; the data as float64 have 16, of which the design's condition number takes its share
@pytest.mark.parametrize(
    ("name", "coefficients", "errors"),
    [
        ("Norris", 13, 13),
        ("Pontius", 12, 12),
        ("NoInt1", 14, 14),
        ("Longley", 13, 13),
        ("Wampler1", 12, 12),
        ("Wampler2", 12, 12),
    ],
)
def test_digits_of_nist(name, coefficients, errors):
    data = certified(name)
    model, x, y = data["model"], np.array(data["x"], dtype=float), np.array(data["y"])
    if model["kind"] == "poly":
        X = x.reshape(-1, 1) ** np.arange(
            0 if model["intercept"] else 1, model["degree_or_p"] + 1
        )
    else:
        X = np.column_stack([np.ones(len(y)), x])
    m = Moments.of(X, y, columns=model["columns"])
    truth = {
        key: np.array([float(s) for s in data["certified"][f"{key}_str"]])
        for key in ("coef", "sd")
    }
    assert m.rank.rank == len(model["columns"])
    assert digits(m.least_squares()[0], truth["coef"]) >= coefficients
    sd = np.sqrt(m.rss / (m.n - m.p) * np.diag(unscaled_covariance(m)))
    assert digits(sd, truth["sd"]) >= errors


def test_filip_has_full_rank():
    """Powers 0 to 10 of one column, condition 5e9 after scaling: full rank, and the digits that survive rounding the powers."""
    data = json.loads(reference_path("tables/nist/Filip.json").read_text())
    x, y = (np.array([np.longdouble(s) for s in data[f"{k}_str"]]) for k in "xy")
    X = x[:, None] ** np.arange(11)
    rounded = Moments.of(X.astype(float), y.astype(float), columns=range(11))
    exact = Moments.of(X, y, columns=range(11))
    assert rounded.rank.rank == exact.rank.rank == 11
    # rounding the powers to float64 leaves 5e9 EPS = 1e-6 at the worst
    beta = exact.least_squares()[0]
    assert digits(rounded.least_squares()[0], beta) >= 6
    residual = (y - X @ beta.astype(np.longdouble)).astype(float)
    assert np.linalg.norm(X.T.astype(float) @ residual) < 1e-6 * np.linalg.norm(
        X.astype(float)
    ) * np.linalg.norm(residual)


# certified coefficients are all 1; the noise, hence the number of digits in y that say nothing, grows by 100 each time
@pytest.mark.parametrize(
    ("name", "coefficients"), [("Wampler3", 12), ("Wampler4", 10), ("Wampler5", 8)]
)
def test_digits_under_growing_noise(name, coefficients):
    data = json.loads(reference_path(f"tables/nist/{name}.json").read_text())
    m = Moments.of(
        np.array(data["x"])[:, None] ** np.arange(6), data["y"], columns=range(6)
    )
    assert digits(m.least_squares()[0], np.ones(6)) >= coefficients
