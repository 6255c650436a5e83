"""Bad rows, labels, widths and steps: an error says what it met, and the state from before it can go on."""

from dataclasses import replace

import numpy as np
import pytest

import probreg.online as online
from probreg import DataError, Incompatible, ProbregError, ProbregWarning
from probreg.errors import NotConverged

N = 30
BOTH = pytest.mark.parametrize("compiled", [False, True])


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((N, 2))
    return X, X @ [1.0, -1.0] + 0.1 * rng.standard_normal(N)


LEARNERS = [
    online.lms(0.1),
    online.eg(0.1),
    online.rls(),
    online.descent(online.HINGE, 0.1),
]


@BOTH
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("where", ["column 1", "y"])
@pytest.mark.parametrize(
    "learner", LEARNERS, ids=lambda a: type(a).__name__ + a.loss.name
)
def test_a_value_missing_stops_before_its_row(learner, where, bad, compiled, rng):
    X, y = rng.standard_normal((N, 2)), np.where(rng.random(N) < 0.5, 1.0, 0.0)
    if learner.loss.labels.kind == "sign":
        y = 2 * y - 1
    X2, y2 = X.copy(), y.copy()
    if where == "y":
        y2[17] = bad
    else:
        X2[17, 1] = bad
    keep = online.Record(compiled=compiled)
    with pytest.raises(
        online.StreamError, match=f"row 17: {where} is {bad:g}"
    ) as caught:
        online.run(learner, X2, y2, record=keep)
    before = online.run(learner, X[:17], y[:17], record=keep).state
    np.testing.assert_array_equal(caught.value.state.w, before.w)
    assert caught.value.state.t == 17
    rest = online.run(learner, X[18:], y[18:], state=caught.value.state, record=keep)
    assert np.all(np.isfinite(rest.state.w))


@BOTH
@pytest.mark.parametrize(
    "learner",
    [
        *LEARNERS[:3],
        online.kernel(online.lms(0.1), "rbf"),
        online.kernel(online.rls(precision=0.5), "rbf"),
    ],
    ids=range(5),
)
def test_a_row_with_an_infinite_square_is_named_by_its_largest_value(
    learner, compiled, data
):
    X = data[0].copy()
    X[17, 1] = 1e200
    with pytest.raises(
        online.StreamError, match="row 17: column 1 is 1e\\+200"
    ) as caught:
        online.run(learner, X, data[1], record=online.Record(compiled=compiled))
    assert caught.value.state.t == 17


def test_the_column_is_named_where_columns_have_names(data):
    import pandas as pd

    frame = pd.DataFrame(data[0], columns=["height", "age"])
    frame.loc[4, "age"] = np.nan
    with pytest.raises(DataError, match="row 4: column age is nan"):
        online.run(online.lms(0.1), frame, data[1])


@BOTH
@pytest.mark.parametrize(
    ("learner", "label", "advice"),
    [
        (
            online.perceptron(),
            0.0,
            r"labels -1 and \+1; for labels 0 and 1 pass 2 \* y - 1",
        ),
        (online.logistic(), -1.0, "labels 0 and 1; for labels -1"),
    ],
)
def test_labels_are_checked(learner, label, advice, compiled, data):
    y = np.ones(N)
    y[11] = label
    with pytest.raises(
        online.StreamError,
        match=f"row 11: y is {label:g}, but this learner needs {advice}",
    ) as caught:
        online.run(learner, data[0], y, record=online.Record(compiled=compiled))
    assert caught.value.state.t == 11
    with pytest.raises(DataError, match=advice):
        learner.step(learner.init(2), data[0][0], label)


def test_wrong_widths(data):
    X, y = data
    learner = online.lms(0.1)
    state = online.run(learner, X, y).state
    with pytest.raises(
        online.StreamError, match="row 0: X has 1 columns, the learner's state 2"
    ):
        online.run(learner, X[:, :1], y, state=state)
    with pytest.raises(online.StreamError, match="row 10: X has 1 columns") as caught:
        online.run(learner, [(X[:10], y[:10]), (X[10:, :1], y[10:])])
    assert caught.value.state.t == 10
    with pytest.raises(DataError, match=r"row 2 of the stream has 1 values"):
        online.run(learner, iter([(X[0], y[0]), (X[1], y[1]), (X[2, :1], y[2])]))
    with pytest.raises(
        DataError, match=r"x has shape \(1,\), but the learner's state has 2 columns"
    ):
        learner.step(state, [1.0], 1.0)
    with pytest.raises(DataError, match=r"X has shape \(30, 2\) and y \(29,\)"):
        online.run(learner, X, y[1:])


@BOTH
def test_a_step_that_is_too_large_names_the_column_and_a_step_that_would_do(
    compiled, data
):
    X = data[0] * [1.0, 100.0]
    keep = online.Record(compiled=compiled)
    with (
        pytest.warns(
            ProbregWarning,
            match=r"Column 1 is the largest there: scale it, or take a step of [\d.e-]+",
        ),
        pytest.raises(
            online.Diverged, match=r"weights have grown to .* Column 1"
        ) as caught,
    ):
        online.run(
            online.lms(0.1), np.tile(X, (20, 1)), np.tile(data[1], 20), record=keep
        )
    assert np.all(np.isfinite(caught.value.state.w))
    step = 1 / (X**2).sum(axis=1).max()
    online.run(online.lms(step), X, data[1], record=keep)  # no warning


def test_classes_that_overlap_stop_at_the_budget_and_say_so(rng):
    X, y = rng.standard_normal((40, 2)), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    with pytest.warns(ProbregWarning, match=r"mistakes in the last of 5 passes"):
        path = online.run(online.perceptron(), X, y, passes=5)
    assert path.status is online.RunStatus.BUDGET
    assert path.totals.rounds == 200
    promise = path.guarantee()
    assert not promise.applies
    assert promise.bound == np.inf
    assert "NOT MET: some u separates the classes" in str(promise)


def test_a_theorem_says_which_assumption_fails(data):
    X = data[0] / np.sqrt((data[0] ** 2).sum(axis=1, keepdims=True))
    promise = online.run(online.lms(1.5), X, data[1]).guarantee()
    assert not promise.applies
    assert "NOT MET: step ||x||^2 < 1 (so far 1.5)" in str(promise)
    falling = online.nlms(0.5)
    falling = replace(falling, rate=replace(falling.rate, power=0.5))
    with pytest.raises(ProbregError, match="there is no theorem"):
        online.run(falling, *data).guarantee()


def test_streams_cannot_do_what_needs_their_rows(data):
    with pytest.raises(DataError, match="cannot be shuffled or read twice"):
        online.run(online.lms(0.1), zip(*data), passes=2)
    path = online.run(online.logistic(), zip(data[0], data[1] > 0))
    with pytest.raises(DataError, match="rows of a stream are not kept"):
        path.regret()
    with pytest.raises(Incompatible, match="pass arrays X and y"):
        online.run(online.nlms(0.1), zip(*data)).guarantee()
    with pytest.raises(DataError, match="no rows"):
        online.run(online.lms(0.1), iter([]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: online.lms(0.0),
        lambda: online.rls(1.1),
        lambda: online.Euclid(-1.0),
        lambda: online.Rate(0.1, eps=0.5),
        lambda: online.additive_step(1.0, 2.0),
        lambda: online.multiplicative_step(1.0, u_loss=2.0),
        lambda: online.additive_step(1.0, 0.0, 2.0),  # the bound falls towards step 0
        lambda: online.multiplicative_step(1.0, 0.0, 2.0),
        lambda: replace(online.logistic(0.1), rate=online.implicit_lms(0.1).rate),
    ],
)
def test_settings_without_a_meaning_are_refused(make):
    with pytest.raises(ProbregError):
        make()


STATEFUL = [*LEARNERS[:3], online.eg_pm(0.1)]


@pytest.mark.parametrize("first", STATEFUL, ids=range(4))
@pytest.mark.parametrize("second", STATEFUL, ids=range(4))
def test_a_state_of_another_learner_is_refused(first, second, data):
    state = online.run(first, *data).state
    if first is second:
        online.run(second, *data, state=state)
        return
    with pytest.raises(DataError, match="state= is of another learner"):
        online.run(second, *data, state=state)


def test_rows_to_predict_have_the_columns_of_the_state(data):
    path = online.run(online.lms(0.1), *data)
    with pytest.raises(DataError, match=r"expected \(n, 2\)"):
        path.learner.predict(path.state, np.ones((3, 5)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda run: run.loss_of([1.0]), r"u has shape \(1,\)"),
        (lambda run: run.regret([1.0, np.nan]), r"comparator\[1\] is nan"),
        (lambda run: run.guarantee([np.inf, 1.0]), r"comparator\[0\] is inf"),
        (lambda run: run.vote([1.0, 2.0]), r"got shape \(2,\)"),
        (lambda run: run.regret(), "not available for the perceptron loss"),
        (lambda run: run.guarantee().random_risk_limit(2.0), "delta"),
    ],
)
def test_questions_about_a_run_are_checked(call, message, data):
    run = online.run(online.perceptron(), data[0], np.sign(data[1]))
    with pytest.raises(ProbregError, match=message):
        call(run)


def test_bounds_that_need_more_say_what(data):
    X, y = data
    with pytest.raises(Incompatible, match="bound on mistakes"):
        online.run(online.lms(0.1), X, y).guarantee().random_risk_limit()
    functions = online.run(online.kernel(online.logistic(0.1), "rbf"), X, y > 0)
    with pytest.raises(Incompatible, match="pass a comparator"):
        functions.guarantee()
    undetermined = online.run(online.rls(), X[:1], y[:1])
    with pytest.raises(DataError, match="take precision > 0"):
        undetermined.learner.covariance(undetermined.state)
    few = online.kernel(online.rls(precision=1e-18), "rbf")
    record = online.Record(compiled=True)
    with pytest.raises(online.StreamError, match=r"row 3: .*larger precision"):
        online.run(few, X[[0, 1, 2, 0]], y[:4], record=record)


def test_a_ball_around_columns_of_other_sizes_has_no_silent_comparator(data):
    X = data[0] * [1e3, 1e-3]
    ball = online.descent(online.LOGISTIC, 1e-9, online.Euclid(1.0))
    with pytest.raises(NotConverged, match="differ too much in size"):
        online.run(ball, X, data[1] > 0).regret()
