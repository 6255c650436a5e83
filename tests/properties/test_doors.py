"""Whatever is given at a door of the package, it is taken or refused in the package's own words, and a refusal is short."""

import datetime
import pathlib
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr
from scipy import sparse

import probreg as pr
from probreg import online
from probreg.errors import DataError, Incompatible, ProbregError

N = 12
RNG = np.random.default_rng(0)
X = RNG.normal(size=(N, 2))
Y = X @ [1.0, 2.0] + RNG.normal(size=N)
K = np.array([0, 1] * (N // 2))
TABLE = {"y": Y, "x": X[:, 0], "g": ["a", "b", "c"] * (N // 3)}
FIT = pr.fit(pr.Model.from_arrays(X, Y))
OF_FORMULA = pr.fit(pr.Model.from_formula("y ~ x + g", TABLE))
OF_TWO = pr.fit(
    pr.Model.from_arrays(X, K, likelihood="bernoulli", prior=pr.Normal(1.0)), "laplace"
)
POSTERIOR = pr.fit(
    pr.Model.from_arrays(X, Y, prior=pr.Normal(1.0, sigma_units=True)), "conjugate"
)
LEARNER = online.lms(0.01)

ODD = {
    "none": None,
    "a whole number": 3,
    "a fraction": 2.5,
    "nan": float("nan"),
    "text": "abc",
    "bytes": b"abc",
    "a path": pathlib.Path("nowhere.parquet"),
    "a function": len,
    "a class": int,
    "an empty list": [],
    "an empty array": np.zeros(0),
    "no rows": np.zeros((0, 2)),
    "no columns": np.zeros((N, 0)),
    "one row": np.ones((1, 2)),
    "one number": np.array(3.0),
    "a row too few": np.arange(N - 1.0),
    "a column": np.arange(N * 1.0)[:, None],
    "a matrix": RNG.normal(size=(N, 3)),
    "three axes": np.ones((N, 2, 2)),
    "infinite": np.where(np.arange(N) == 3, np.inf, 1.0),
    "missing": np.where(np.arange(N) == 3, np.nan, 1.0),
    "the greatest": np.full(N, 1e308),
    "beyond floats": [10**400] * N,
    "numbers as objects": np.arange(N).astype(object),
    "objects": np.array([object()] * N),
    "a mixture": np.array([1, "a", None] * (N // 3), dtype=object),
    "lists of different lengths": [[1, 2], [3]] * (N // 2),
    "dates": np.array(["2020-01-01"] * N, dtype="datetime64[D]"),
    "days": [datetime.date(2020, 1, 1)] * N,
    "durations": np.ones(N, dtype="timedelta64[D]"),
    "numbers as text": np.array(["1.5", "2.5"] * (N // 2)),
    "truth values": np.array([True, False] * (N // 2)),
    "complex": np.ones(N) * 1j,
    "half floats": np.arange(N).astype(np.float16),
    "long floats": np.arange(N).astype(np.longdouble),
    "decimals": [Decimal("1.5")] * N,
    "records": np.zeros(N, dtype=[("a", float)]),
    "a mapping": {"a": np.ones(N)},
    "an empty mapping": {},
    "a range": range(N),
    "a set": set(range(N)),
    "a generator": None,  # anew for each door
    "a frame": pd.DataFrame(X, columns=["a", "b"]),
    "a frame of one name": pd.DataFrame(X, columns=["a", "a"]),
    "no frame": pd.DataFrame(),
    "a series": pd.Series(np.arange(N) * 1.0),
    "whole numbers with gaps": pd.array([1, None] * (N // 2), dtype="Int64"),
    "truth values with gaps": pd.array([True, None] * (N // 2), dtype="boolean"),
    "categories": pd.Categorical(["a", "b"] * (N // 2)),
    "months": pd.period_range("2020", periods=N, freq="M"),
    "polars": pl.Series(np.arange(N) * 1.0),
    "a frame of polars": pl.DataFrame({"a": np.ones(N)}),
    "xarray": xr.DataArray(np.arange(N) * 1.0, dims="obs"),
    "a sparse matrix": sparse.csr_matrix(np.ones((N, 2))),
}

DOORS = {
    "from_arrays X": lambda v: pr.Model.from_arrays(v, Y),
    "from_arrays y": lambda v: pr.Model.from_arrays(X, v),
    "from_arrays y of two": lambda v: pr.Model.from_arrays(
        X, v, likelihood="bernoulli"
    ),
    "from_arrays y of counts": lambda v: pr.Model.from_arrays(
        X, v, likelihood="multinomial"
    ),
    "from_arrays y of successes": lambda v: pr.Model.from_arrays(
        X, v, likelihood="binomial"
    ),
    "from_arrays y of classes": lambda v: pr.Model.from_arrays(
        X, v, likelihood="categorical"
    ),
    "from_arrays weights": lambda v: pr.Model.from_arrays(X, Y, weights=v),
    "from_arrays offset": lambda v: pr.Model.from_arrays(X, Y, offset=v),
    "from_arrays trials": lambda v: pr.Model.from_arrays(
        X, K, trials=v, likelihood="bernoulli"
    ),
    "from_arrays columns": lambda v: pr.Model.from_arrays(X, Y, columns=v),
    "from_arrays intercept": lambda v: pr.Model.from_arrays(X, Y, intercept=v),
    "from_arrays response": lambda v: pr.Model.from_arrays(X, Y, response=v),
    "from_arrays event": lambda v: pr.Model.from_arrays(
        X, K, likelihood="bernoulli", event=v
    ),
    "from_arrays reference": lambda v: pr.Model.from_arrays(
        X, K, likelihood="categorical", reference=v
    ),
    "from_arrays prior": lambda v: pr.Model.from_arrays(X, Y, prior=v),
    "from_arrays aux": lambda v: pr.Model.from_arrays(X, Y, aux=v),
    "from_arrays likelihood": lambda v: pr.Model.from_arrays(X, Y, likelihood=v),
    "from_formula formula": lambda v: pr.Model.from_formula(v, TABLE),
    "from_formula data": lambda v: pr.Model.from_formula("y ~ x", v),
    "from_formula x": lambda v: pr.Model.from_formula("y ~ x", TABLE | {"x": v}),
    "from_formula y": lambda v: pr.Model.from_formula("y ~ x", TABLE | {"y": v}),
    "from_formula g": lambda v: pr.Model.from_formula("y ~ C(g)", TABLE | {"g": v}),
    "from_formula weights": lambda v: pr.Model.from_formula("y ~ x", TABLE, weights=v),
    "from_formula offset": lambda v: pr.Model.from_formula("y ~ x", TABLE, offset=v),
    "from_formula missing": lambda v: pr.Model.from_formula("y ~ x", TABLE, missing=v),
    "from_files path": lambda v: pr.Model.from_files("y ~ x", v),
    "from_files format": lambda v: pr.Model.from_files("y ~ x", "nowhere", format=v),
    "from_dask data": lambda v: pr.Model.from_dask("y ~ x", v),
    "from_moments": lambda v: pr.Model.from_moments(v),
    "forget data": lambda v: FIT.forget(v, Y),
    "forget y": lambda v: FIT.forget(X, v),
    "from_blocks blocks": lambda v: pr.Model.from_blocks(v),
    "from_blocks block": lambda v: pr.Model.from_blocks([v]),
    "from_blocks pass": lambda v: pr.Model.from_blocks(lambda: v),
    "from_blocks X": lambda v: pr.Model.from_blocks([(v, Y)]),
    "from_blocks y": lambda v: pr.Model.from_blocks([(X, v)]),
    "from_blocks y of two": lambda v: pr.Model.from_blocks(
        [(X, v)], likelihood="bernoulli"
    ),
    "from_blocks weights": lambda v: pr.Model.from_blocks([(X, Y, v)]),
    "from_blocks offset": lambda v: pr.Model.from_blocks([(X, Y, None, v)]),
    "from_blocks columns": lambda v: pr.Model.from_blocks([(X, Y)], columns=v),
    "at X": lambda v: FIT.model.at(v, Y),
    "at y": lambda v: FIT.model.at(X, v),
    "at weights": lambda v: FIT.model.at(X, Y, weights=v),
    "at offset": lambda v: FIT.model.at(X, Y, offset=v),
    "at y of two": lambda v: OF_TWO.model.at(X, v),
    "at data": lambda v: OF_FORMULA.model.at(v),
    "at x": lambda v: OF_FORMULA.model.at(TABLE | {"x": v}),
    "update X": lambda v: POSTERIOR.update(v, Y),
    "update y": lambda v: POSTERIOR.update(X, v),
    "update weights": lambda v: POSTERIOR.update(X, Y, weights=v),
    "predict X": lambda v: FIT.predict(v),
    "predict offset": lambda v: FIT.predict(X, offset=v),
    "predict data": lambda v: OF_FORMULA.predict(v),
    "predict g": lambda v: OF_FORMULA.predict({"x": X[:, 0], "g": v}),
    "predictive": lambda v: FIT.predictive(v),
    "fit": lambda v: pr.fit(v),
    "run X": lambda v: online.run(LEARNER, v, Y),
    "run y": lambda v: online.run(LEARNER, X, v),
    "run stream": lambda v: online.run(LEARNER, v),
    "run passes": lambda v: online.run(LEARNER, X, Y, passes=v),
    "run shuffle": lambda v: online.run(LEARNER, X, Y, shuffle=v),
    "run learner": lambda v: online.run(v, X, Y),
    "run state": lambda v: online.run(LEARNER, X, Y, state=v),
    "run record": lambda v: online.run(LEARNER, X, Y, record=v),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_door_takes_it_or_says_why_not(door):
    for name, value in ODD.items():
        given = (i for i in range(N)) if name == "a generator" else value
        try:
            DOORS[door](given)
        except ProbregError as refusal:
            said = str(refusal)
        except Exception as error:  # a bare error of Python, or of a library below
            pytest.fail(f"{name}: {type(error).__name__}: {error}")
        else:
            continue
        assert len(said) < 700, (name, said)
        assert "\n" not in said.strip(), (name, said)


# what a door may not take in silence, and what its refusal says
NEVER = {
    "from_arrays y": {
        "dates": "numeric",
        "numbers as text": "'1.5'",
        "infinite": "row 3",
        "a matrix": r"shape \(12, 3\)",
    },
    "from_arrays y of two": {
        "truth values with gaps": "row 1",
        "missing": "row 3",
        "infinite": "inf",
    },
    "from_arrays y of classes": {
        "infinite": "row 3 holds inf",
        "a matrix": "holds counts 0, 1, 2",
        "missing": "row 3",
    },
    "from_arrays X": {
        "none": "NoneType",
        "beyond floats": "row 0, column 0|row 0",
        "dates": "numeric",
        "three axes": "shape",
    },
    "from_arrays intercept": {
        "text": "True or False",
        "a whole number": "True or False",
    },
    "from_arrays response": {"a frame": "name of the response"},
    "from_arrays columns": {"a function": "sequence of names"},
    "from_arrays aux": {"none": "a mapping", "an empty list": "a mapping"},
    "from_arrays event": {"categories": "one level"},
    "from_arrays offset": {
        "dates": "numeric",
        "numbers as text": "numeric",
        "no columns": "one value per row",
    },
    "from_formula x": {"a frame": "a table of 2 columns; give one", "dates": "times"},
    "from_formula g": {"lists of different lengths": "are texts|a column is 1-D"},
    "from_blocks block": {"none": "a block is", "a mapping": "a block is"},
    "from_blocks y of two": {"infinite": "inf"},
    "predict X": {"numbers as text": "numeric", "one number": "shape"},
    "run X": {"no columns": "with p >= 1", "dates": "numeric"},
    "run stream": {"a matrix": "Did you forget y="},
    "run learner": {"none": "learner is a Learner"},
    "run passes": {"truth values": "whole number", "a fraction": "whole number"},
}


@pytest.mark.parametrize(
    ("door", "name", "said"),
    [(d, n, s) for d, each in NEVER.items() for n, s in each.items()],
)
def test_what_is_never_taken(door, name, said):
    with pytest.raises((DataError, Incompatible), match=said):
        DOORS[door](ODD[name])


def test_rows_in_another_order_are_not_put_together():
    frame = pd.DataFrame(X, columns=["a", "b"])
    turned = pd.Series(Y)[::-1]
    with pytest.raises(
        DataError,
        match="row 0 is labelled 0 in X and 11 in y, and rows are put together in their order",
    ):
        pr.Model.from_arrays(frame, turned)
    for argument in ("weights", "offset"):
        with pytest.raises(DataError, match=f"labelled 0 in X and 11 in {argument}"):
            pr.Model.from_arrays(frame, Y, **{argument: pd.Series(np.ones(N))[::-1]})
        with pytest.raises(
            DataError, match=f"labelled 0 in the data and 11 in {argument}"
        ):
            pr.Model.from_formula(
                "a ~ b", frame, **{argument: pd.Series(np.ones(N))[::-1]}
            )
    with pytest.raises(DataError, match="labelled 0 in the data and 11 in y"):
        FIT.model.at(frame.set_axis(["x1", "x2"], axis=1), turned)
    kept = pr.Model.from_arrays(frame, pd.Series(Y))
    np.testing.assert_array_equal(
        kept.design.y, pr.Model.from_arrays(frame, turned.to_numpy()[::-1]).design.y
    )


def _misaligned_calls():
    rows = pd.DataFrame(
        {"x": np.arange(8.0), "y": [0.0, 2, 1, 3, 5, 4, 7, 6], "w": 1.0}
    )
    p = pd.Series(np.linspace(0.1, 0.8, 8))
    X, y, w, b = rows[["x"]], rows["y"], rows["w"], pd.Series([0, 1] * 4)
    with_offset = pr.fit(pr.Model.from_arrays(X, y, offset=w))
    precise = pr.fit(pr.Model.from_arrays(X, y, weights=pr.weights.precision(w)))
    weights, scores, run = pr.weights, pr.scores, pr.online.run
    return {
        "weights": lambda r: pr.Model.from_arrays(X, y, weights=weights.sampling(r(w))),
        "formula": lambda r: pr.ols("y ~ x", rows, weights=weights.precision(r(w))),
        "offset": lambda r: with_offset.predict(X, offset=r(w)),
        "predictive": lambda r: with_offset.predictive(X, offset=r(w)),
        "precision": lambda r: precise.predict(X, weights=weights.precision(r(w))),
        "censored": lambda r: pr.censored(y, r(b)),
        "online": lambda r: run(pr.online.lms(0.01), X, r(y)),
        "brier": lambda r: scores.brier(b, r(p)),
        "expected": lambda r: scores.expected("brier", p, forecast=r(p)),
        "crps": lambda r: scores.crps_normal(y, r(p), sd=1.0),
        "student": lambda r: scores.crps_student(y, p, scale=r(w), df=3.0),
        "pinball": lambda r: scores.pinball(y, r(p), prob=0.5),
        "interval": lambda r: scores.interval_score(y, (y - 1.0, r(y) + 9.0)),
        "skill": lambda r: scores.skill(p, r(p)),
        "compare": lambda r: scores.compare_scores({"a": p, "b": r(p) + 0.1}),
    }


@pytest.mark.parametrize("call", _misaligned_calls())
def test_values_with_other_row_labels_are_not_put_together(call):
    take = _misaligned_calls()[call]
    take(lambda values: values)
    take(lambda values: values.to_numpy()[::-1])
    with pytest.raises(DataError, match="rows are put together in their order"):
        take(lambda values: values.iloc[::-1])
