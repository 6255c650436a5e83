"""Doubled precision against rational arithmetic: error-free transformations, and least squares to the last digit."""

from fractions import Fraction

import numpy as np
import pytest

import probreg as pr
from probreg.inference.modes.closed_form import (
    PriorRows,
    posterior_given_sigma,
    refine_posterior,
)
from probreg.linalg import condition_of
from probreg.linalg.doubled import (
    add_up,
    refine,
    residual_sums,
    two_product,
    two_sum,
)
from tests.reference.cases import digits, exact_least_squares

Exact = Fraction.from_float


def wide(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n) * 2.0 ** rng.integers(-40, 40, n)


def test_transformations_are_free_of_error(rng):
    a, b = wide(rng, 500), wide(rng, 500)
    for (high, low), exact in (
        (two_sum(a, b), Fraction.__add__),
        (two_product(a, b), Fraction.__mul__),
    ):
        np.testing.assert_array_equal(high, exact_floats(a, b, exact))
        for h, e, x, y in zip(high, low, a, b):
            assert Exact(float(h)) + Exact(float(e)) == exact(
                Exact(float(x)), Exact(float(y))
            )


def exact_floats(a, b, of):
    return [float(of(Exact(float(x)), Exact(float(y)))) for x, y in zip(a, b)]


@pytest.mark.parametrize("n", [1, 2, 3, 64, 1001])
def test_sums_that_cancel_keep_their_digits(n, rng):
    v = wide(rng, n)
    v = np.concatenate([v, -v[::-1] * (1 + 2.0**-50), [2.0**-60]])
    high, low = add_up(v, np.zeros_like(v))
    exact = sum(map(Exact, v.tolist()))
    # 106 bits of the sum of absolute values, and one rounding for each of log2(n) levels
    assert abs(Exact(float(high)) + Exact(float(low)) - exact) <= Exact(
        float(np.abs(v).sum())
    ) * Fraction(1, 2**98)


def near_collinear(rng, n=400):
    """Columns of condition 6e8, a response of which they explain little, whole weights."""
    x = np.linspace(1.0, 1.15, n)
    X = np.column_stack([x**k for k in range(6)])
    return (
        X,
        X @ np.arange(1.0, 7.0) + 50 * rng.normal(size=n),
        rng.integers(0, 4, n).astype(float),
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_residual_sums_are_those_of_rational_arithmetic(weighted, rng):
    X, y, w = near_collinear(rng, 50)
    w = w if weighted else None
    b = np.arange(1.0, 7.0), np.full(6, 2.0**-60)
    beta = [Exact(float(h)) + Exact(float(t)) for h, t in zip(*b)]
    r = [
        Exact(float(v)) - sum(Exact(float(x)) * c for x, c in zip(row, beta))
        for row, v in zip(X, y)
    ]
    weights = [Fraction(1)] * 50 if w is None else [Exact(float(v)) for v in w]
    found = residual_sums(X, y, w, b)
    slope = [
        sum(v * e * Exact(float(x)) for v, e, x in zip(weights, r, column))
        for column in X.T
    ]
    assert digits(found.slope, [float(g) for g in slope]).min() >= 14
    assert digits(found.square, float(sum(v * e * e for v, e in zip(weights, r)))) >= 14


@pytest.mark.parametrize("kind", ["copies", "precision"])
@pytest.mark.parametrize(
    "prior", [pr.Flat(), pr.Normal(1e6, location=3.0)], ids=["flat", "normal"]
)
@pytest.mark.parametrize("factor", ["extended", "double"])
def test_least_squares_has_every_digit(factor, prior, kind, monkeypatch, rng):
    """Weights, offset and prior rows included; with a factor in double precision the digits are the same."""
    if factor == "double":
        monkeypatch.setattr("probreg.linalg.factors.EXTENDED", 0)
        monkeypatch.setattr("probreg.linalg.factors.EXTENDED", 0)
    X, y, w = near_collinear(rng)
    offset = np.ldexp(rng.integers(-99, 99, len(y)), -5)  # y - offset is rounded, once
    aux = {"sigma": 2.0} if prior.name == "normal" else {}
    w = w if kind == "copies" else w + 1
    weights = w if kind == "copies" else pr.weights.precision(w)
    model = pr.Model.from_arrays(
        X, y, intercept=False, weights=weights, offset=offset, prior=prior, aux=aux
    )
    rows, target = (
        [list(map(Exact, r)) for r in X.tolist()],
        list(map(Exact, (y - offset).tolist())),
    )
    rows = [r for r, k in zip(rows, w.astype(int)) for _ in range(k)]
    target = [v for v, k in zip(target, w.astype(int)) for _ in range(k)]
    added = PriorRows.of(model.joint).at(2.0)
    exact = exact_least_squares(
        rows + fractions_of(added[:, :-1]),
        target + list(map(Exact, added[:, -1].tolist())),
    )
    assert condition_of(model.design.moments.R) > 1e8
    for method in ("closed_form", "conjugate"):
        solution = pr.fit(model, method, seed=1).solution
        assert digits(solution.beta[:, 0], exact.coef).min() >= 14
        # a precision makes no rows
        df = len(y) - 6 if kind == "precision" else exact.df
        unscaled = np.diagonal(solution.scale.matrix()) / (
            4.0 if prior.name == "normal" else exact.rss / df
        )
        assert digits(unscaled, exact.unscaled).min() >= 13
    if prior.name == "flat":
        assert digits(solution.stats["rss"], exact.rss) >= 14


@pytest.mark.parametrize("near", [1e-3, 1e-4, 1e-5])
def test_no_digit_is_lost_on_the_way_to_collinear(near, monkeypatch, rng):
    """Condition 2 / near: with a factor in double precision, unrefined, as many digits of 16 would be lost."""
    monkeypatch.setattr("probreg.linalg.factors.EXTENDED", 0)
    monkeypatch.setattr("probreg.linalg.factors.EXTENDED", 0)
    X = rng.normal(size=(60, 3))
    X = np.c_[X, X[:, 0] + near * rng.normal(size=60)]
    y = X.sum(1) + rng.normal(size=60)
    model = pr.Model.from_arrays(X, y, intercept=False)
    assert 1.0 < near * condition_of(model.design.moments.R) < 5.0
    exact = exact_least_squares(fractions_of(X), list(map(Exact, y.tolist())))
    assert (
        digits(pr.fit(model, "closed_form").solution.beta[:, 0], exact.coef).min() >= 14
    )


def fractions_of(A):
    return [list(map(Exact, row)) for row in A.tolist()]


def test_columns_of_any_size_are_refined_alike(rng):
    X, y, _ = near_collinear(rng)
    plain = pr.fit(pr.Model.from_arrays(X, y, intercept=False)).solution
    size = 2.0 ** np.array([0, 100, -100, 0, 40, -40])
    scaled = pr.fit(
        pr.Model.from_arrays(X * size, y * 2.0**60, intercept=False)
    ).solution
    np.testing.assert_array_equal(scaled.beta[:, 0] * size / 2.0**60, plain.beta[:, 0])


def test_nothing_is_refined_where_conditioning_is_good(monkeypatch, rng):
    X = rng.normal(size=(60, 3))
    model = pr.Model.from_arrays(X, X.sum(1) + rng.normal(size=60))
    none = PriorRows.of(model.joint)
    given = posterior_given_sigma(model.design.moments, none, 1.0)
    # no look at the rows
    monkeypatch.setattr("probreg.inference.modes.closed_form.residual_sums", None)
    found = refine_posterior(model, none, 1.0)
    assert (found.mean == given.mean).all()


def test_corrections_that_do_not_shrink_are_refused(rng):
    X, y, _ = near_collinear(rng, 40)
    # a factor of other columns: corrections are nine times too long
    R = np.linalg.qr(X)[1] / 3
    assert refine(lambda b: residual_sums(X, y, None, b), R, np.zeros(6)) is None
