"""Arrays that hide something: a value under a mask is missing, an imaginary part is not dropped, text and dates are no numbers."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import xarray as xr

import probreg as pr
from probreg import online, scores
from probreg.arguments.arrays import as_array, floats
from probreg.comparison.tuning.held_out import _folds_from_labels
from probreg.errors import DataError

N, BAD = 8, 3
X = np.random.default_rng(0).normal(size=(N, 2))
Y = X @ [1.0, 2.0] + np.random.default_rng(1).normal(size=N)
ONE_OF_TWO = np.array([0, 1] * (N // 2))
MODEL = pr.Model.from_arrays(X, Y, offset=np.zeros(N))
FIT = pr.fit(MODEL)
TABLE = {"y": Y, "x": X[:, 0]}


def masked(values):
    """The values with -9999 at row 3 under a mask."""
    values = np.array(values)
    hidden = np.zeros(values.shape, bool)
    values[BAD], hidden[BAD] = ("z" if values.dtype.kind == "U" else -9999), True
    return np.ma.array(values, mask=hidden)


def imaginary(values):
    return np.asarray(values) * (1 + 2j)


# every place at which numbers come in as arrays: what is done with the bad ones, and what the refusal names
DOORS = {
    "from_arrays X": (
        lambda bad: pr.Model.from_arrays(bad(X), Y),
        "'x1' holds nan in row 3",
    ),
    "from_arrays X of rows": (
        lambda bad: pr.Model.from_arrays(list(bad(X)), Y),
        "'x1' holds nan in row 3",
    ),
    "from_arrays X by name": (
        lambda bad: pr.Model.from_arrays({"a": bad(X[:, 0])}, Y),
        "'a' holds nan in row 3|must be numeric",
    ),
    "from_arrays y": (lambda bad: pr.Model.from_arrays(X, bad(Y)), "row 3"),
    "from_arrays y of 0 and 1": (
        lambda bad: pr.Model.from_arrays(X, bad(ONE_OF_TWO), likelihood="bernoulli"),
        "row 3",
    ),
    "from_arrays y of classes": (
        lambda bad: pr.Model.from_arrays(X, bad(ONE_OF_TWO), likelihood="categorical"),
        "row 3 of the",
    ),
    "from_arrays y of counts": (
        lambda bad: pr.Model.from_arrays(X, bad(ONE_OF_TWO), likelihood="poisson"),
        "row 3",
    ),
    "from_arrays weights": (
        lambda bad: pr.Model.from_arrays(X, Y, weights=bad(np.ones(N))),
        "weight of row 3",
    ),
    "from_arrays offset": (
        lambda bad: pr.Model.from_arrays(X, Y, offset=bad(Y)),
        "offset of row 3",
    ),
    "from_arrays trials": (
        lambda bad: pr.Model.from_arrays(
            X, ONE_OF_TWO, trials=bad(ONE_OF_TWO + 1), likelihood="bernoulli"
        ),
        "row 3",
    ),
    "from_blocks X": (
        lambda bad: pr.Model.from_blocks([(bad(X), Y)]),
        "'x1' holds nan in row 3",
    ),
    "from_blocks y": (lambda bad: pr.Model.from_blocks([(X, bad(Y))]), "row 3"),
    "from_blocks weights": (
        lambda bad: pr.Model.from_blocks([(X, Y, bad(np.ones(N)))]),
        "weight of row 3",
    ),
    "from_blocks offset": (
        lambda bad: pr.Model.from_blocks([(X, Y, None, bad(Y))]),
        "offset of row 3",
    ),
    "from_formula x": (
        lambda bad: pr.Model.from_formula("y ~ x", TABLE | {"x": bad(X[:, 0])}),
        "'x' 1 .row 3",
    ),
    "from_formula y": (
        lambda bad: pr.Model.from_formula("y ~ x", TABLE | {"y": bad(Y)}),
        "'y' 1 .row 3",
    ),
    "from_formula weights": (
        lambda bad: pr.Model.from_formula("y ~ x", TABLE, weights=bad(np.ones(N))),
        "'weights=' 1 .row 3",
    ),
    "from_formula offset": (
        lambda bad: pr.Model.from_formula("y ~ x", TABLE, offset=bad(Y)),
        "'offset=' 1 .row 3",
    ),
    "at X": (
        lambda bad: MODEL.at(bad(X), Y, offset=np.zeros(N)),
        "'x1' holds nan in row 3",
    ),
    "at y": (lambda bad: MODEL.at(X, bad(Y), offset=np.zeros(N)), "row 3"),
    "at weights": (
        lambda bad: MODEL.at(X, Y, weights=bad(np.ones(N)), offset=np.zeros(N)),
        "weight of row 3",
    ),
    "at offset": (lambda bad: MODEL.at(X, Y, offset=bad(Y)), "offset of row 3"),
    "predict": (
        lambda bad: FIT.predict(bad(X), offset=np.zeros(N)),
        "'x1' holds nan in row 3",
    ),
    "predict offset": (lambda bad: FIT.predict(X, offset=bad(Y)), "offset of row 3"),
    "online X": (
        lambda bad: online.run(online.lms(0.01), bad(X), Y),
        "row 3: column 0 is nan",
    ),
    "online y": (
        lambda bad: online.run(online.lms(0.01), X, bad(Y)),
        "row 3: y is nan",
    ),
    "online rows": (
        lambda bad: online.run(online.lms(0.01), list(zip(bad(X), Y))),
        "row 3: column 0 is nan",
    ),
    "online step": (
        lambda bad: online.lms(0.01).step(online.lms(0.01).init(N), bad(Y), 1.0),
        "column 3 of x is nan",
    ),
    "lags": (lambda bad: online.lags(bad(Y), 2), r"s\[3\] is nan"),
    "scores": (lambda bad: scores.brier(bad(ONE_OF_TWO), np.full(N, 0.5)), "in row 3"),
    "folds": (
        lambda bad: _folds_from_labels(as_array(bad(ONE_OF_TWO), "folds"), N),
        "fold of row 3",
    ),
    "clusters": (
        lambda bad: FIT.covariance("cluster", groups=bad(ONE_OF_TWO)),
        "row 3 has no group",
    ),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_value_under_a_mask_is_a_missing_value(door):
    take, message = DOORS[door]
    with pytest.raises(DataError, match=message):
        take(masked)


@pytest.mark.parametrize("door", DOORS)
def test_an_imaginary_part_is_not_dropped(door):
    with pytest.raises(DataError, match="complex"):
        DOORS[door][0](imaginary)


def test_a_mask_of_nothing_changes_nothing():
    plain = np.ma.array(X, mask=np.zeros(X.shape, bool))
    np.testing.assert_array_equal(
        pr.Model.from_arrays(plain, np.ma.array(Y)).design.X[:, 1:], X
    )
    np.testing.assert_array_equal(
        online.run(online.lms(0.01), plain, Y).weights,
        online.run(online.lms(0.01), X, Y).weights,
    )


def test_masked_rows_are_dropped_where_that_is_asked():
    kept = [i for i in range(N) if i != BAD]
    want = pr.Model.from_formula("y ~ x", {"y": Y[kept], "x": X[kept, 0]})
    columns = ({"y": Y, "x": masked(X[:, 0])}, {"y": masked(Y), "x": X[:, 0]})
    for table in columns:
        found = pr.Model.from_formula("y ~ x", table, missing="drop")
        np.testing.assert_array_equal(found.design.X, want.design.X)
        np.testing.assert_array_equal(found.design.y, want.design.y)
    for argument in ("weights", "offset"):
        found = pr.Model.from_formula(
            "y ~ x", TABLE, missing="drop", **{argument: masked(np.ones(N))}
        )
        np.testing.assert_array_equal(found.design.X, want.design.X)


def test_a_masked_text_is_missing():
    with pytest.raises(DataError, match="row 3 of the response holds None"):
        pr.Model.from_arrays(X, masked(np.array([*"abababab"])), likelihood="bernoulli")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (["1", "2"], "an offset must be numeric; row 0 holds '1'"),
        ([1.0, "2"], "row 0 holds '1.0'"),  # numpy has made text of both
        (np.array([1.0, "2"], dtype=object), "row 1 holds '2'"),
        (np.array(["2020-01-01"], dtype="datetime64[D]"), "row 0 holds 2020-01-01"),
        ([datetime.date(2020, 1, 1)], "row 0 holds datetime.date"),
        (np.array([1], dtype="timedelta64[D]"), "row 0 holds 1 days"),
        ([[1.0, 2.0], [3.0]], "rows differ in length"),
        ([{}, 1], "row 0 holds {}"),
        (np.array([1, 1j], dtype=object), r"row 1 holds 1j"),
        (object(), "it holds <object"),
    ],
)
def test_what_is_no_number(values, message):
    with pytest.raises(DataError, match=message):
        floats(values, "an offset")


def test_what_is_a_number():
    given = [1, None, True, 2.5, Decimal("0.5"), np.float32(3), pd.NA]
    np.testing.assert_array_equal(
        floats(given, "y"), [1.0, np.nan, 1.0, 2.5, 0.5, 3.0, np.nan]
    )
    np.testing.assert_array_equal(
        floats(pd.array([1, None], dtype="Int64"), "y"), [1.0, np.nan]
    )
    assert floats([], "y").shape == (0,)
    own = np.arange(3.0)
    assert floats(own, "y", copy=False) is own
    assert floats(own, "y") is not own
    assert as_array(own, "y") is own


def test_a_response_that_has_a_name_keeps_it():
    price = pd.Series(Y, name="price")
    frame = pd.DataFrame(X, columns=["income", "age"])
    fits = [
        pr.ols(frame, price),
        pr.kernel_ridge(frame, price, kernel="rbf", lam=1.0),
        pr.svr(frame, price, C=1.0, epsilon=0.1),
    ]
    assert [f.model.design.response for f in fits] == ["price"] * 3
    assert pr.Model.from_arrays(frame, price, response="p").design.response == "p"
    for nameless in (Y, Y.tolist(), pd.Series(Y), pd.DataFrame({"name": Y})):
        assert pr.Model.from_arrays(X, nameless).design.response == "y"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pr.Model.from_arrays(X, Y, columns={"b", "a"}), "columns is a sequence of names, got set"),
        (lambda: pr.Model.from_arrays(X, Y, weights=xr.Dataset()), "weights: expected an array of numbers, got Dataset"),
        (lambda: FIT.model.log_lik([[1.0, 2.0], [3.0]], sigma=1.0), "beta is no array"),
        (lambda: FIT.model.aux_prior("sgma"), "has no parameter 'sgma'; it has: sigma"),
        (lambda: FIT.model.with_aux(sigma=1.0).aux_prior("sigma"), "sigma is not unknown: it is held at 1.0"),
        (lambda: pr.kernel_ridge(X, Y, kernel="rbf", lam=1.0, basis=[]), r"basis is text, got \[\]"),
        (lambda: pr.kernel_ridge(X, Y, kernel="rbf", lam=1.0, basis=""), "kind is one of exact"),
        (lambda: FIT.covariance("cluster", groups=pd.array([1, None] * (N // 2), dtype="Int64")), "row 1 has no group"),
        (lambda: _folds_from_labels(as_array(pd.array([True, None] * (N // 2), dtype="boolean"), "folds"), N), "fold of row 1 is missing"),
        (lambda: pr.gam("y ~ s(x, k=4)", {"y": Y, "x": Y}, df={1: 2.0}), "1 is no smooth function of the model; it has"),
        (lambda: pr.bias_variance(FIT.model, FIT, scales=[[1.0, 2.0], [3.0]]), "scales is no array"),
        (lambda: pr.censored(Y, ONE_OF_TWO[:-1]), r"one number per row in each part, got shapes y= \(8,\), event= \(7,\)"),
        (lambda: pr.censored(Y, [[1], [0, 1]]), "event= is no array"),
        (lambda: scores.interval_score(Y, (Y,)), "ends is a pair of arrays"),
        (lambda: pr.bounds.best_of(Y), "losses=ndarray of shape .8,.: expected a mapping"),
        (lambda: pr.Covariance(sd=(1.0, 2.0)), "sd is a positive finite number"),
        (lambda: pr.ols("y ~ x", [{"x": 1.0, "y": 2.0}]), "expected a pandas.* got list"),
    ],
)  # fmt: skip
def test_other_arguments(call, message):
    with pytest.raises(DataError, match=message):
        call()


@pytest.mark.parametrize("time", [pd.Timestamp("2020-01-01"), pd.Timedelta("1D")])
def test_a_column_of_times_beside_numbers_is_named(time):
    numbers = pd.DataFrame(X, columns=[f"x{j + 1}" for j in range(X.shape[1])])
    times = numbers.assign(x1=time)
    fit = pr.fit(pr.Model.from_arrays(numbers, Y))
    for call in (
        lambda: pr.Model.from_arrays(times, Y),
        lambda: pr.Model.from_arrays(X, times, likelihood="multinomial"),
        lambda: fit.predict(times),
        lambda: fit.predict({name: times[name] for name in times}),
    ):
        with pytest.raises(DataError, match="column 'x1' holds times such as"):
            call()


@pytest.mark.parametrize("make", [xr.DataArray, lambda X: tuple(map(tuple, X))])
def test_a_matrix_of_another_container_is_an_array(make):
    fit = pr.fit(pr.Model.from_arrays(make(X), tuple(Y)))
    plain = pr.fit(pr.Model.from_arrays(X, Y))
    np.testing.assert_array_equal(fit.summary(), plain.summary())
    np.testing.assert_array_equal(
        fit.predict(make(X[:3])).to_array(), plain.predict(X[:3]).to_array()
    )


def test_a_sparse_matrix_is_named():
    fit = pr.fit(pr.Model.from_arrays(X, Y))
    for call in (lambda rows: pr.Model.from_arrays(rows, Y), fit.predict):
        with pytest.raises(DataError, match="is a sparse matrix"):
            call(scipy.sparse.csr_array(X))
