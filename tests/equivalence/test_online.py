"""Two routes to one number: sequential and batch least squares, regret by moments and by rows, known answers by hand."""

import numpy as np
import pytest
from scipy.optimize import minimize

import probreg.online as online
from probreg import Incompatible

PURE = online.Record(every=1, compiled=False)


def data(
    rng: np.random.Generator, n: int = 50, p: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, p)) * [1.0, 30.0, 0.01, 2.0][:p] + 0.5
    return X, X @ np.arange(1.0, p + 1) + rng.standard_normal(n)


def test_the_known_answer_of_one_step():
    learner = online.lms(1 / 20)
    state, info = learner.step(online.State(np.array([1.0, 1.0])), [1.0, 2.0], 5.0)
    assert info == (3.0, 4.0)
    np.testing.assert_allclose(state.w, [1.1, 1.2], rtol=1e-15)


def test_the_implicit_step_is_the_exact_minimiser(rng: np.random.Generator):
    for _ in range(20):
        w, x, y, step = (
            rng.standard_normal(3),
            rng.standard_normal(3),
            float(rng.normal()),
            float(rng.uniform(0.1, 9)),
        )
        new = online.implicit_lms(step).step(online.State(w), x, y)[0].w
        gradient = 2 * step * (new @ x - y) * x + 2 * (new - w)
        # rounding of a sum that cancels
        np.testing.assert_allclose(gradient, 0, atol=1e-13 * (1 + step * (x @ x)))


@pytest.mark.parametrize(
    ("forgetting", "precision", "compiled"),
    [
        (1.0, 0.0, False),
        (0.9, 0.4, False),
        pytest.param(0.9, 0.4, True, marks=pytest.mark.slow),
    ],
)
def test_rls_is_a_refit_on_every_prefix(
    compiled: bool, precision: float, forgetting: float, rng: np.random.Generator
):
    X, y = data(rng)
    learner = online.rls(forgetting, precision=precision)
    path = online.run(learner, X, y, record=online.Record(every=1, compiled=compiled))
    for t in range(4, len(y) + 1):
        root = np.sqrt(forgetting ** np.arange(t - 1, -1, -1.0))
        A = np.vstack(
            [X[:t] * root[:, None], np.sqrt(forgetting**t * precision) * np.eye(4)]
        )
        w = np.linalg.lstsq(A, np.r_[y[:t] * root, np.zeros(4)], rcond=None)[0]
        # condition 3000 of the columns as they are, on both sides
        np.testing.assert_allclose(
            path.weights[t], w, rtol=1e-8, atol=1e-8 * np.abs(w).max()
        )


def test_rls_is_the_conjugate_posterior(rng: np.random.Generator):
    X, y = data(rng)
    learner = online.rls(precision=0.4)
    state = online.run(learner, X, y).state
    V = np.linalg.inv(X.T @ X + 0.4 * np.eye(4))
    np.testing.assert_allclose(learner.covariance(state), V, rtol=1e-8)
    np.testing.assert_allclose(state.w, V @ X.T @ y, rtol=1e-8, atol=1e-8)
    least = np.sum((y - X @ state.w) ** 2) + 0.4 * state.w @ state.w
    assert state.memory["factor"][-1, -1] ** 2 == pytest.approx(least)


def test_the_ridge_forecaster_identity(rng: np.random.Generator):
    """sum (f_t - y_t)^2 / (1 + x_t'P x_t) = min_u [L_u + precision ||u||^2]: exact, for the theorem's constant."""
    X, y = data(rng)
    learner, total = online.rls(precision=0.4), 0.0
    state = learner.init(4)
    for x, target in zip(X, y):
        spread = 1 + x @ learner.covariance(state) @ x
        state, info = learner.step(state, x, target)
        total += info.loss / spread
    assert total == pytest.approx(state.memory["factor"][-1, -1] ** 2, rel=1e-9)


@pytest.mark.parametrize("stream", [False, True])
def test_regret_against_least_squares_is_exact(stream: bool, rng: np.random.Generator):
    X, y = data(rng)
    learner = online.nlms(0.5, eps=0.1)
    path = online.run(
        learner,
        ((X[i : i + 9], y[i : i + 9]) for i in range(0, 50, 9)) if stream else X,
        None if stream else y,
        record=online.Record(compiled=False),
    )
    w, rss = np.linalg.lstsq(X, y, rcond=None)[:2]
    found = path.regret()
    assert found.comparator_loss == pytest.approx(float(rss[0]), rel=1e-10)
    np.testing.assert_allclose(found.comparator, w, rtol=1e-8)
    assert found.value == pytest.approx(path.loss - float(rss[0]), rel=1e-12)
    u = rng.standard_normal(4)
    assert path.regret(u).comparator_loss == pytest.approx(
        np.sum((X @ u - y) ** 2), rel=1e-12
    )


@pytest.mark.parametrize("every", [1, 7, 50])
@pytest.mark.parametrize("blocks", [False, True])
def test_a_stream_records_weights_as_often_as_arrays(
    every: int, blocks: bool, rng: np.random.Generator
):
    X, y = data(rng)
    rows = [(X[:30], y[:30]), (X[30:], y[30:])] if blocks else list(zip(X, y))
    record = online.Record(every=every)
    paths = [
        online.run(online.nlms(0.05), *source, passes=3, record=record)
        for source in ((X, y), (rows,))
    ]
    for name in ("times", "weights", "sums"):
        one, other = (getattr(path, name) for path in paths)
        np.testing.assert_allclose(one, other, rtol=1e-12)


def test_a_loss_is_known_by_its_function_and_not_by_its_name(rng: np.random.Generator):
    X, y = data(rng)
    half = online.Loss("squared", lambda f, y, c: ((f - y) ** 2 / 2, f - y))
    u = rng.standard_normal(4)
    path = online.run(online.descent(half, 1e-4), X, y)
    expected = np.sum((X @ u - y) ** 2) / 2
    assert path.regret(u).comparator_loss == pytest.approx(expected, rel=1e-12)
    with pytest.raises(Incompatible, match="pass a comparator"):
        path.regret()
    with pytest.raises(Incompatible, match="compiled=True"):
        online.run(path.learner, X, y, record=online.Record(compiled=True))


HELD = [
    (online.descent(online.SQUARED, 0.01, online.Euclid(0.8)), "real"),
    (online.eg(0.1), "real"),
    (online.eg_pm(0.1, norm=0.8), "real"),
    (online.logistic(0.1), "binary"),
    (online.descent(online.LOGISTIC, 0.1, online.Euclid(0.8)), "binary"),
]


@pytest.mark.parametrize(("learner", "kind"), HELD, ids=range(len(HELD)))
def test_no_fixed_weights_the_learner_can_hold_beat_the_best(
    learner: online.Learner, kind: str, rng: np.random.Generator
):
    X = rng.standard_normal((60, 3))
    f = X @ [1.0, -0.6, 0.4] + 0.8 * rng.standard_normal(60)
    y = {"real": f, "binary": (f > 0) * 1.0, "sign": np.where(f > 0, 1.0, -1.0)}[kind]
    path = online.run(learner, X, y)
    best = path.regret()
    held = getattr(learner, "geometry", online.Euclid())
    np.testing.assert_allclose(
        held.nearest(best.comparator), best.comparator, atol=1e-9
    )
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(50):
            u = held.nearest(best.comparator + scale * rng.standard_normal(3))
            assert path.loss_of(u) >= best.comparator_loss - 1e-7 * best.comparator_loss


@pytest.mark.parametrize("radius", [np.inf, 1e9])
def test_the_best_logistic_weights_do_not_depend_on_units(
    radius: float, rng: np.random.Generator
):
    X = rng.standard_normal((200, 4))
    X[:, 3] = X[:, 0] + X[:, 1]  # the least of all norms among many
    y = (X[:, 0] - X[:, 2] + rng.logistic(size=200) > 0) * 1.0
    unit = np.array([1e3, 1.0, 1e-3, 1.0])
    learner = online.descent(online.LOGISTIC, 1e-9, online.Euclid(radius))
    found = online.run(learner, X * unit, y).regret()
    score = X.T @ (1 / (1 + np.exp(-X @ (unit * found.comparator))) - y)
    np.testing.assert_allclose(score, 0.0, atol=1e-6)


def test_the_mistake_bound_of_zero_weights_is_the_number_of_rounds(
    rng: np.random.Generator,
):
    X = rng.standard_normal((30, 3))
    run = online.run(online.perceptron(), X, np.sign(X[:, 0]))
    assert run.guarantee(np.zeros(3)).bound == pytest.approx(30.0, rel=1e-14)


def test_the_widest_margin_is_the_quadratic_programme(rng: np.random.Generator):
    for _ in range(10):
        X = rng.standard_normal((200, 3))
        X = X[np.abs(X @ [1.0, 2.0, -1.0]) > 0.2]
        y = np.sign(X @ [1.0, 2.0, -1.0])
        u = online.run(online.perceptron(), X, y).guarantee().comparator
        held = {"type": "ineq", "fun": lambda u, X=X, y=y: y * (X @ u) - 1}
        found = minimize(lambda u: u @ u, u + 0.1, constraints=[held], tol=1e-14)
        assert u @ u == pytest.approx(found.fun, rel=1e-6)  # what the solver resolves


def test_a_long_stream_keeps_a_bounded_number_of_weights():
    blocks = ((np.ones((2, 1)), np.ones(2)) for _ in range(1000))
    path = online.run(online.lms(0.1), blocks, record=online.Record(compiled=False))
    assert len(path.times) <= 402
    assert (path.times[0], path.times[-1]) == (0, 2000)
    assert np.all(np.diff(path.times) > 0)
    assert path.average(last=0.5)[0] == pytest.approx(1.0)


def test_the_best_weights_of_a_ball_meet_the_optimality_conditions(rng):
    X = rng.normal(size=(200, 3)) * [1e3, 1.0, 1e-3]
    y = X @ [1e-3, 1.0, 2.0] + rng.normal(size=200)
    for radius in (1e-6, 0.5):
        ball = online.descent(online.SQUARED, 1e-9, online.Euclid(radius))
        u = online.run(ball, X, y).regret().comparator
        assert np.linalg.norm(u) == pytest.approx(radius, rel=1e-12)
        # the gradient of the squared loss is -lam u with lam > 0; rounding of X'X u is relative to its terms
        slope = X.T @ (y - X @ u)
        lam = slope @ u / radius**2
        assert lam > 0
        size = np.abs(X).T @ (np.abs(y) + np.abs(X) @ np.abs(u))
        assert (np.abs(slope - lam * u) < 1e-9 * size).all()
