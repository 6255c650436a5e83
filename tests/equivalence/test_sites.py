"""Moments of places that share no rows: their sum is the pooled fit, their difference the fit of the rows that stay."""

import json
import re
import warnings

import numpy as np
import pytest

import probreg as pr
from probreg.data.moments import seal_json

RNG = np.random.default_rng(5)
N = 120
TABLE = {
    "x": RNG.normal(50.0, 2.0, N),
    "z": RNG.normal(size=N),
    "g": np.array(["a", "b", "c"])[RNG.integers(0, 3, N)],
    "w": RNG.integers(1, 4, N).astype(float),
}
TABLE["y"] = 2.0 * (TABLE["x"] - 50.0) + (TABLE["g"] == "b") + RNG.normal(size=N)
FORMULA = "y ~ x + g + center(z)"
UNITS, RAW, SCALED = (
    pr.Normal(0.5, sigma_units=True),
    pr.Normal(0.5),
    pr.Normal(0.5, scaled=True),
)


def cut(rows, table=TABLE):
    return {name: values[rows] for name, values in table.items()}


def weighted(kind, rows):
    return (
        {}
        if kind is None
        else {
            "weights": TABLE["w"][rows]
            if kind == "n"
            else pr.weights.precision(TABLE["w"][rows])
        }
    )


def same_fit(found, wanted, rtol):
    # none under a prior with a kink
    unit = float(np.nan_to_num(wanted.std_error.values, nan=0.1).min())
    np.testing.assert_allclose(found.coef, wanted.coef, rtol=rtol, atol=rtol * unit)
    np.testing.assert_allclose(found.std_error, wanted.std_error, rtol=rtol)
    assert found.aux == pytest.approx(wanted.aux, rel=rtol)
    assert found.log_likelihood == pytest.approx(wanted.log_likelihood, rel=rtol)


A, B = slice(0, 45), slice(45, None)
FITS = [
    ("closed_form", pr.Flat(), {}),
    ("closed_form", UNITS, {}),
    ("closed_form", RAW, {"sigma": 1.2}),
    ("newton", SCALED, {}),
    ("conjugate", pr.Flat(), {}),
    ("conjugate", UNITS, {"sigma": pr.priors.InverseGamma(2.0, 1.0)}),
    ("quadrature", SCALED, {}),
    ("coordinate_descent", pr.Laplace(0.1), {"sigma": 1.0}),
]


CASES = {
    None: FITS[::3],
    "n": FITS[1::3],
    "precision": FITS[2::3],
}  # each method with one kind of weights


@pytest.mark.parametrize("kind", CASES)
def test_the_sum_of_two_places_is_the_pooled_fit(kind):
    first = pr.Model.from_formula(FORMULA, cut(A))
    models = {
        rows: first.at(cut(r), **weighted(kind, r))
        for rows, r in (("A", A), ("B", B), ("all", slice(None)))
    }
    total = pr.Model.from_moments(models["A"].moments, models["B"].moments)
    for method, prior, aux in CASES[kind]:
        one, pooled = (
            pr.fit(m.with_prior(prior).with_aux(**aux), method)
            for m in (total, models["all"])
        )
        same_fit(one, pooled, 1e-10)
        new = {"x": [51.0], "z": [0.0], "g": ["c"]}
        np.testing.assert_allclose(
            one.predict(new)["mean"], pooled.predict(new)["mean"], rtol=1e-10
        )
    assert total.design.total == pytest.approx(models["all"].design.total)


@pytest.mark.parametrize("n", [400, 40_000])
def test_columns_far_from_zero_lose_nothing_in_the_sum(n):
    """Means of 1e7 standard deviations: sums of squares about zero would keep two digits."""
    rng = np.random.default_rng(0)
    u = rng.normal(size=(n, 2))
    y = u @ [1.0, -2.0] + rng.normal(size=n)
    X = u + 1e7
    near = X - 1e7  # exactly what the rows hold
    models = [
        pr.Model.from_arrays(X[r], y[r])
        for r in (slice(0, n // 3), slice(n // 3, None))
    ]
    total = pr.Model.from_moments(*(m.moments for m in models))
    wanted = pr.fit(pr.Model.from_arrays(near, y))
    for method in ("closed_form", "newton"):
        found = pr.fit(total, method)
        np.testing.assert_allclose(found.coef[1:], wanted.coef[1:], rtol=1e-8)
        np.testing.assert_allclose(
            pr.fit(total).std_error[1:], wanted.std_error[1:], rtol=1e-8
        )
    fewer = pr.fit(pr.Model.from_moments(total.moments - models[0].moments))
    np.testing.assert_allclose(
        fewer.coef[1:],
        pr.fit(pr.Model.from_arrays(near[n // 3 :], y[n // 3 :])).coef[1:],
        rtol=1e-8,
    )


def test_a_file_of_moments_is_read_to_the_last_bit_and_holds_no_rows(tmp_path):
    first = pr.Model.from_formula(FORMULA, cut(A))
    path = first.moments.save(tmp_path / "a.json")
    again = pr.Model.from_moments(path)
    np.testing.assert_array_equal(again.moments.factor, first.moments.factor)
    assert again.moments.origin == first.moments.origin
    held = json.loads(path.read_text())
    assert (held["n"], held["columns"][1]) == (45, "x")
    assert path.stat().st_size < 4000
    second = again.at(cut(B)).moments
    total = pr.fit(pr.Model.from_moments(path, second.save(tmp_path / "b.json")))
    same_fit(total, pr.fit(first.at(TABLE)), 1e-10)
    kept = pr.load_fit(total.save(tmp_path / "fit.nc"))
    same_fit(kept, total, 1e-15)
    assert kept.model.design.rows_absent == "this model is of moments and holds no rows"
    assert kept.model.moments.origin == total.model.moments.origin


def test_another_format_is_refused(tmp_path):
    path = pr.Model.from_arrays(TABLE["x"], TABLE["y"]).moments.save(
        tmp_path / "a.json"
    )
    content = json.loads(path.read_bytes()) | {"format": "probreg moments 9"}
    path.write_bytes(seal_json(content))
    with pytest.raises(pr.DataError, match="expected the format"):
        pr.Model.from_moments(path)


GROUPED = {
    "y": np.sin(np.arange(24.0)),
    "x": np.arange(24.0),
    "g": np.repeat(list("abcdef"), 4),
}


@pytest.mark.parametrize("edits", [50, pytest.param(300, marks=pytest.mark.slow)])
@pytest.mark.parametrize("formula", ["y ~ poly(x, 2) + C(g)", "y ~ x + (1 | g)"])
def test_every_edit_of_a_file_of_moments_is_refused(tmp_path, formula, edits):
    path = pr.Model.from_formula(formula, GROUPED).moments.save(tmp_path / "a.json")
    good, rng = path.read_bytes(), np.random.default_rng(1)
    pr.Model.from_moments(path)
    for _ in range(edits):
        data, at = bytearray(good), int(rng.integers(len(good)))
        kind = rng.integers(4)
        if kind == 0:  # another byte, often a digit
            data[at] = int(rng.choice([*b"0123456789-. ,e", *range(256)]))
        elif kind == 1:
            del data[at : at + int(rng.integers(1, 40))]
        elif kind == 2:
            data[at:at] = data[at : at + int(rng.integers(1, 40))]
        else:  # a number for another
            data = bytearray(re.sub(rb"-?\d+\.\d+", b"1.5", good[:at]) + good[at:])
        if bytes(data) == good:
            continue
        path.write_bytes(bytes(data))
        with pytest.raises(pr.DataError):
            pr.Model.from_moments(path)


def test_spaces_within_levels_and_quoted_names_count():
    """The base level stands in the name of no column, so that only the recipe tells "b c" from "bc"."""
    y, x = np.arange(4.0), np.array([0.0, 2.0, 1.0, 5.0])
    a, b = (
        pr.Model.from_formula("y ~ x + g", {"y": y, "x": x, "g": [g, "zz"] * 2}).moments
        for g in ("b c", "bc")
    )
    assert a.columns == b.columns
    with pytest.raises(pr.DataError, match="levels, means or knots"):
        a + b
    table = {"y": y, "a b": x, "e": x + 1.0}
    quoted = (("y ~ `a b`", "log(e)"), ("y~`a b`", "log( e )"))
    one, two = (
        pr.Model.from_formula(text, table, offset=off).moments for text, off in quoted
    )
    assert (one + two).n == 8


def test_moments_that_are_not_of_the_same_are_not_added():
    a, b = (pr.Model.from_formula(FORMULA, cut(rows)).moments for rows in (A, B))
    with pytest.raises(pr.DataError, match="different levels, means or knots"):
        a + b
    plain, loose = (
        pr.Model.from_formula(text, cut(A)).moments for text in ("y ~ x", "y~x")
    )
    assert (plain + loose).n == 90
    with pytest.raises(pr.DataError, match="weights 'frequency' and 'precision'"):
        (
            plain
            + pr.Model.from_formula(
                "y ~ x", cut(A), weights=pr.weights.precision("w")
            ).moments
        )
    with pytest.raises(pr.DataError, match=r"missing .*'x'.*, unknown .*'z'"):
        plain + pr.Model.from_formula("y ~ z", cut(A)).moments
    first, second = (
        pr.Model.from_arrays(TABLE["z"], TABLE[k], response=k).moments for k in "yx"
    )
    with pytest.raises(pr.DataError, match="response 'y' and 'x'"):
        first + second


def test_what_needs_rows_or_is_not_gaussian_says_so():
    model = pr.Model.from_arrays(TABLE["z"], TABLE["g"] == "a", likelihood="bernoulli")
    with pytest.raises(
        pr.Incompatible,
        match="where the noise is Gaussian only; a bernoulli likelihood needs the rows",
    ):
        _ = model.moments
    with pytest.raises(pr.Incompatible, match="sandwich errors are sums over the rows"):
        _ = pr.Model.from_arrays(
            TABLE["z"], TABLE["y"], weights=pr.weights.sampling(TABLE["w"])
        ).moments
    with pytest.raises(pr.Incompatible, match="its basis is made of the rows"):
        _ = pr.Model.from_formula("y ~ gp(z, length=1.0)", cut(A)).moments
    with pytest.raises(pr.DataError, match="at least one place"):
        pr.Model.from_moments()
    with pytest.raises(pr.DataError, match="or the path of a file of them, got int"):
        pr.Model.from_moments(3)
    total = pr.Model.from_moments(pr.Model.from_arrays(TABLE["z"], TABLE["y"]).moments)
    for ask in (
        lambda f: f.covariance("HC1"),
        pr.residuals,
        lambda f: pr.fit(f.model, pr.Bootstrap()),
    ):
        with pytest.raises(
            pr.DataError,
            match="of moments and holds no rows: build it where the rows are",
        ):
            ask(pr.fit(total))


GONE = np.sort(np.random.default_rng(1).choice(N, 30, replace=False))
STAY = np.setdiff1d(np.arange(N), GONE)


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize("of", ["rows", "moments"])
def test_forgetting_is_the_fit_of_the_rows_that_stay(kind, of):
    first = pr.Model.from_formula(FORMULA, TABLE)
    every, stay, gone = (
        first.at(cut(r), **weighted(kind, r)) for r in (slice(None), STAY, GONE)
    )
    for method, prior, aux in CASES[kind]:
        model = every if of == "rows" else pr.Model.from_moments(every.moments)
        found = pr.fit(model.with_prior(prior).with_aux(**aux), method)
        after = found.forget(cut(GONE), **weighted(kind, GONE))
        same_fit(after, pr.fit(stay.with_prior(prior).with_aux(**aux), method), 1e-8)
        assert (
            after.described["notes"][len(after.notes) - 1]
            == "30 rows were forgotten, 90 stay"
        )
        assert after.model.design.n == (90 if of == "rows" else 0)
        same_fit(found.forget(gone), after, 1e-12)


def test_forgetting_is_the_reverse_of_an_update():
    before = pr.fit(pr.Model.from_formula(FORMULA, TABLE).at(cut(STAY)), "conjugate")
    after = before.update(cut(GONE)).forget(cut(GONE))
    np.testing.assert_allclose(after.coef, before.coef, rtol=1e-9)
    np.testing.assert_allclose(
        after.covariance(), before.covariance(), rtol=1e-8, atol=1e-12
    )
    assert after.aux == pytest.approx(before.aux, rel=1e-9)
    assert (
        "30 rows were forgotten, 0 stay: the posterior is the prior"
        in after.described["notes"]
    )


@pytest.mark.parametrize("method", ["newton", "laplace"])
def test_a_prior_relative_to_the_rows_forgets_and_takes_a_single_row(method, tmp_path):
    model, one = pr.Model.from_formula("y ~ x + z", TABLE, prior="weak"), cut([0])
    rest = pr.fit(
        pr.Model.from_formula("y ~ x + z", cut(range(1, N)), prior="weak"), method
    )
    found = pr.fit(model, method)
    found.save(tmp_path / "fit.nc")
    for of in (
        found,
        pr.load_fit(tmp_path / "fit.nc"),
        pr.fit(pr.Model.from_moments(model.moments, prior="weak"), method),
    ):
        np.testing.assert_allclose(of.forget(one).coef, rest.coef, rtol=1e-6)
    if method == "laplace":
        twice = found.update(found.model.with_prior(pr.Flat()).at(one))
        np.testing.assert_allclose(found.update(one).coef, twice.coef, rtol=1e-12)
    counts = pr.fit(
        pr.Model.from_arrays(
            TABLE["x"], np.arange(N), prior="weak", likelihood="poisson"
        )
    )
    with pytest.raises(pr.Incompatible, match="forget is for Gaussian noise"):
        counts.forget([50.0], [0])


@pytest.mark.parametrize(
    "prior", [pr.Flat(), "weak", pr.Normal(1.0)], ids=["flat", "weak", "normal"]
)
def test_a_fit_from_which_every_row_is_taken_says_so(prior):
    model = pr.Model.from_formula("y ~ x", TABLE, prior=prior)
    for method in ("auto", "newton", "laplace"):
        with pytest.raises(pr.DataError, match="no rows stay"):
            pr.fit(model, method).forget(TABLE)
    with pytest.raises(pr.DataError, match="no rows stay"):
        pr.fit(pr.Model.from_moments(model.moments - model.moments))


def test_copies_of_a_row_are_forgotten_one_by_one():
    X, y = np.array([1.0, 2.0, 2.0, 4.0, 7.0]), np.array([1.0, 2.0, 2.0, 5.0, 6.0])
    found = pr.fit(pr.Model.from_arrays(X, y))
    assert found.forget([2.0], [2.0]).model.design.n == 4
    assert found.forget([2.0, 2.0], [2.0, 2.0]).model.design.n == 3
    counted = pr.fit(pr.Model.from_arrays(X, y, weights=[1, 3, 1, 1, 1])).forget(
        [2.0], [2.0], weights=[3]
    )
    assert counted.model.design.total == 4
    with pytest.raises(
        pr.DataError,
        match=r"row 2 of the rows to forget \(x1 = 2, y = 2\) is not \(so often\) among",
    ):
        found.forget([2.0] * 3, [2.0] * 3)


def test_rows_that_cannot_be_forgotten():
    found = pr.fit(pr.Model.from_formula("y ~ x", TABLE))
    with pytest.raises(pr.DataError, match=r"row 1 of the rows to forget .*y = 99"):
        found.forget({"x": [TABLE["x"][0], 50.0], "y": [TABLE["y"][0], 99.0]})
    with pytest.raises(
        pr.DataError, match="rows with precision weights cannot be taken"
    ):
        found.forget(cut(A), weights=pr.weights.precision(TABLE["w"][A]))
    with pytest.raises(
        pr.Incompatible, match="this model is poisson: fit the rows that stay"
    ):
        pr.fit(
            pr.Model.from_arrays([0.0, 1.0, 2.0], [1, 2, 2], likelihood="poisson")
        ).forget([1.0], [2])
    of_moments = pr.fit(pr.Model.from_moments(found.model.moments))
    with pytest.raises(pr.DataError, match="were not among these rows"):
        of_moments.forget({"x": [900.0], "y": [-900.0]})


def test_rows_with_an_offset_are_not_forgotten_by_rows_without():
    plain, moved = (
        pr.Model.from_formula("y ~ x", cut(A), offset=offset) for offset in (None, "z")
    )
    few = cut(slice(0, 3))
    with pytest.raises(
        pr.DataError, match=r"offset: either the fit or the rows to forget"
    ):
        pr.fit(moved).forget(pr.Model.from_formula("y ~ x", few))
    with pytest.raises(
        pr.DataError, match=r"offset: either the fit or the rows to forget"
    ):
        pr.fit(plain).forget(pr.Model.from_formula("y ~ x", few, offset="z"))
    exact = pr.fit(
        pr.Model.from_formula("y ~ x", cut(A), weights=pr.weights.precision("w"))
    )
    with pytest.raises(pr.DataError, match="weights"):
        exact.forget(pr.Model.from_formula("y ~ x", few))


def test_rows_of_weight_0_keep_their_places_when_others_are_forgotten():
    X, y, w = (
        np.arange(6.0),
        np.array([1.0, 2.0, 2.5, 5.0, 9.0, 7.0]),
        np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0]),
    )
    fit = pr.fit(pr.Model.from_arrays(X, y, weights=w))
    after = fit.forget([1.0, 4.0], [2.0, 9.0], weights=[1.0, 1.0])
    design, wanted = (
        m.design
        for m in (
            after.model,
            pr.Model.from_arrays(
                X[[0, 2, 3, 5]], y[[0, 2, 3, 5]], weights=[1, 0, 1, 0]
            ),
        )
    )
    for found in (design, wanted):
        assert (found.n, found.absent.places.tolist()) == (2, [1, 3])
    assert design.places.tolist() == wanted.places.tolist() == [0, 2]


@pytest.mark.parametrize(("far", "digits"), [(1e6, 5), (1e11, 0)])
def test_a_subtraction_says_how_many_digits_it_left(far, digits):
    table = dict(TABLE, x=TABLE["x"] + far * (np.arange(N) < 5))
    whole = pr.Model.from_moments(pr.Model.from_formula("y ~ x", table).moments)
    with warnings.catch_warnings(record=True) as met:
        warnings.simplefilter("always")
        after = pr.fit(whole).forget({k: v[:5] for k, v in table.items()})
    assert f"subtracting left {digits} of 16 digits in x" in str(met[0].message)
    if not digits:
        # what is left of x is rounding, and gives no estimate
        assert np.isnan(after.coef.values).any()
