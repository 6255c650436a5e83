"""Laws of online learners: kernels repeat the pure steps, losses have the slopes they say, theorems are kept on any stream."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import probreg.online as online
from probreg.kernels import RBF
from probreg.online.result import Run
from tests.conftest import covering
from tests.properties.cases import own

P, N = 3, 60
HELD = online.Euclid(radius=0.7)
K = RBF(1.3)
CASES: dict[str, tuple[online.Learner, str]] = {
    "lms": (online.lms(0.07), "real"),
    "lms falling": (online.lms(online.Rate(0.3, power=1.0)), "real"),
    "implicit_lms": (online.implicit_lms(0.7), "real"),
    "nlms": (online.nlms(0.6, eps=0.2), "real"),
    "rls": (online.rls(precision=0.3), "real"),
    "rls forgetting": (online.rls(0.93, precision=0.3), "real"),
    "rls flat": (online.rls(), "real"),
    "eg": (online.eg(0.3), "real"),
    "eg_pm": (online.eg_pm(0.08, norm=1.7), "real"),
    "perceptron": (online.perceptron(0.6), "sign"),
    "logistic": (online.logistic(0.4), "binary"),
    "descent": (
        online.descent(online.ABSOLUTE, online.inverse_sqrt(0.4), HELD),
        "real",
    ),
    "descent hinge": (online.descent(online.hinge(0.7), 0.2), "sign"),
    "kernel lms": (online.kernel(online.lms(0.4), K), "real"),
    "kernel perceptron": (online.kernel(online.perceptron(0.6), K), "sign"),
    "kernel rls": (online.kernel(online.rls(precision=0.3), K), "real"),
}
# recipes beside the package's own: with their defaults, on real responses
CASES |= {
    name: (online.LEARNERS[name](), "real")
    for name in online.LEARNERS
    if name not in own(online.LEARNERS)
}
every = pytest.mark.parametrize("name", CASES)


def rows(
    rng: np.random.Generator, kind: str, n: int = N, p: int = P
) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((n, p)) + 0.3
    f = X @ np.linspace(-1, 1.5, p) + 0.3 * rng.standard_normal(n)
    kinds = {
        "real": f,
        "sign": np.where(f > 0, 1.0, -1.0),
        "binary": (f > 0) * 1.0,
    }
    return X, kinds[kind]


def has_loop(learner: online.Learner) -> bool:
    """Whether its steps are compiled: those of a custom loss are not."""
    return learner.grows or learner.loss.code >= 0


def test_every_recipe_has_a_case():
    named = {name.split()[0] for name in CASES}
    assert set(online.LEARNERS) <= named


@pytest.mark.filterwarnings("ignore:.*mistakes in the last of 2 passes")
@every
def test_kernels_repeat_the_pure_steps(name: str, rng: np.random.Generator):
    learner, kind = CASES[name]
    X, y = rows(rng, kind)
    fast, slow = (
        online.run(
            learner,
            X,
            y,
            passes=2,
            shuffle=3,
            record=online.Record(every=7, compiled=c),
        )
        for c in (has_loop(learner), False)
    )
    # the same additions in another order: a few ulps of numbers of order 1, hardly amplified by stable updates
    for a, b in (
        (fast.predictions, slow.predictions),
        (fast.losses, slow.losses),
        (fast.sums, slow.sums),
    ):
        np.testing.assert_allclose(
            a, b, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(b).max(initial=0.0))
        )
    np.testing.assert_allclose(
        fast.weights,
        slow.weights,
        rtol=1e-12,
        atol=1e-12 * np.abs(slow.weights).max(initial=0.0),
    )
    for key, value in slow.state.memory.items():
        np.testing.assert_allclose(
            fast.state.memory[key], value, rtol=1e-11, atol=1e-12
        )
    assert fast.totals.mistakes == slow.totals.mistakes


@every
def test_a_step_changes_nothing_it_was_given(name: str, rng: np.random.Generator):
    learner, kind = CASES[name]
    X, y = rows(rng, kind)
    state = online.run(learner, X, y).state
    arrays = list(state.memory.values())
    before = [state.w.copy(), *(a.copy() for a in arrays)]
    learner.step(state, X[0], y[0])
    quick = online.Record(compiled=has_loop(learner))
    online.run(learner, X, y, state=state, record=quick)
    for a, b in zip(before, [state.w, *arrays], strict=True):
        np.testing.assert_array_equal(a, b)


@every
def test_the_prediction_is_made_before_the_update(name: str, rng: np.random.Generator):
    learner, kind = CASES[name]
    X, y = rows(rng, kind)
    other = y.copy()
    other[-1] = {
        "real": 9.0,
        "sign": -y[-1],
        "binary": 1 - y[-1],
    }[kind]
    quick = online.Record(compiled=has_loop(learner))
    a, b = (online.run(learner, X, v, record=quick) for v in (y, other))
    np.testing.assert_array_equal(a.predictions, b.predictions)
    assert a.losses[-1] != b.losses[-1]


@every
def test_a_stream_in_pieces_is_the_whole(name: str, rng: np.random.Generator):
    learner, kind = CASES[name]
    X, y = rows(rng, kind)
    keep = online.Record(rows=True, compiled=has_loop(learner))
    whole = online.run(learner, X, y, record=keep)
    first = online.run(learner, X[:23], y[:23], record=keep)
    second = online.run(learner, X[23:], y[23:], state=first.state, record=keep)
    by_rows = online.run(learner, zip(X, y), record=keep)
    by_blocks = online.run(
        learner, ((X[i : i + 11], y[i : i + 11]) for i in range(0, N, 11)), record=keep
    )
    # the same additions in the same order; of functions with zeros among them, which stand elsewhere in a block
    near = {"rtol": 1e-12, "atol": 1e-13} if learner.grows else {"rtol": 0, "atol": 0}
    for path in (second, by_rows, by_blocks):
        np.testing.assert_allclose(path.state.w, whole.state.w, **near)
    np.testing.assert_allclose(
        np.r_[first.predictions, second.predictions], whole.predictions, **near
    )
    assert by_blocks.loss == pytest.approx(whole.loss, rel=1e-13)
    if len(whole.sums):
        np.testing.assert_allclose(
            by_blocks.average(), whole.average(), rtol=1e-12, atol=near["atol"]
        )


@every
def test_weights_are_kept_when_they_were_held(name: str, rng: np.random.Generator):
    learner, kind = CASES[name]
    X, y = rows(rng, kind)
    path = online.run(learner, X, y, record=online.Record(every=1, compiled=False))
    each = [
        learner.predict(replace(path.state, w=w), x)
        for w, x in zip(path.weights[:-1], X, strict=True)
    ]
    np.testing.assert_allclose(path.predictions, each, atol=1e-12)
    np.testing.assert_allclose(
        path.average(), path.weights[:-1].mean(axis=0), atol=1e-13
    )
    np.testing.assert_allclose(
        path.average(last=0.25), path.weights[45:-1].mean(axis=0), atol=1e-13
    )
    assert path.loss == pytest.approx(path.losses.sum())


SLOPES = [
    *online.LOSSES.values(),
    online.insensitive(0.3),
    online.hinge(0.4),
]


@pytest.mark.parametrize("loss", SLOPES, ids=repr)
def test_slopes_are_derivatives(loss: online.Loss):
    h = 1e-6
    for y in {
        "sign": (-1.0, 1.0),
        "binary": (0.0, 1.0),
    }.get(loss.labels.kind, (0.0, 2.0)):
        for f in (-2.3, -0.21, 0.13, 1.93, 3.1):  # no kinks within h of these
            numeric = (loss.at(f + h, y)[0] - loss.at(f - h, y)[0]) / (2 * h)
            assert loss.at(f, y)[1] * loss.derivative == pytest.approx(
                numeric, abs=1e-8
            )  # h^2 and eps/h


@pytest.mark.parametrize("loss", SLOPES, ids=repr)
def test_losses_are_convex_and_bounded_below(loss: online.Loss):
    f = np.linspace(-4, 4, 81)
    for y in {"sign": (1.0, -1.0)}.get(loss.labels.kind, (1.0, 0.0)):
        v = loss.values(f, np.full(81, y))
        assert np.all(v[2:] - 2 * v[1:-1] + v[:-2] >= -1e-12)
        assert v.min() >= -1e-12


# ------------------------------------------------------------------------------------------------- theorems
def streams(rng: np.random.Generator, count: int) -> Any:
    """Random streams: heavy tails, unequal scales, noise or none, and orders an adversary might choose."""
    for i in range(count):
        n, p = int(rng.integers(1, 60)), int(rng.integers(1, 6))
        X = rng.standard_normal((n, p)) * np.exp(rng.normal(0, 1, p))
        if i % 3 == 0:
            X = X / np.sqrt((X**2).sum(axis=1, keepdims=True))
        y = X @ rng.standard_normal(p) * np.exp(rng.normal()) + rng.standard_t(
            2, n
        ) * rng.choice([0.0, 0.1, 3.0])
        order = [
            np.arange(n),
            np.argsort(y),
            np.argsort(-np.abs(y)),
            np.argsort(X[:, 0]),
        ][i % 4]
        if i % 5 == 0:  # the response turns against what was learnt so far
            X, y = (
                np.repeat(X[:1], n, axis=0),
                np.where(np.arange(n) % 2, 1.0, -1.0) * abs(y[0] + 1),
            )
        yield X[order], y[order]


def kept(path: Run, u: np.ndarray | None = None) -> online.Guarantee:
    promise = path.guarantee(u)
    assert promise.applies, str(promise)
    assert promise.holds, str(promise)
    return promise


def tight(path: Run, rng: np.random.Generator) -> None:
    """The bound for the u chosen is below that for others."""
    least = kept(path)
    for _ in range(2):
        u = least.comparator + 0.1 * rng.standard_normal(len(least.comparator))
        assert least.bound <= kept(path, u).bound * (1 + 1e-9)


@pytest.mark.parametrize(
    "family",
    covering(["rls", "lms", "implicit", "nlms"], lambda family: family == "rls"),
)
def test_squared_loss_never_exceeds_its_bound(family: str, rng: np.random.Generator):
    quick = online.Record(compiled=False, every=10**6)
    for X, y in streams(rng, 150):
        r2 = (X**2).sum(axis=1).max()
        share = float(rng.uniform(0.01, 0.99))
        learner = {
            "lms": online.lms(share / r2),
            "implicit": online.implicit_lms(5 * share / r2),
            "nlms": online.nlms(share, eps=0.1),
            "rls": online.rls(precision=share),
        }[family]
        tight(online.run(learner, X, y, record=quick), rng)


@pytest.mark.slow
def test_the_potential_falls_in_every_round(rng: np.random.Generator):
    for X, y in streams(rng, 120):
        r2 = (X**2).sum(axis=1).max()
        step, u = float(rng.uniform(0.05, 0.95)) / r2, rng.standard_normal(X.shape[1])
        path = online.run(
            online.lms(step), X, y, record=online.Record(every=1, compiled=False)
        )
        change = np.diff(((path.weights - u) ** 2).sum(axis=1))
        allowed = -step * path.losses + step / (1 - step * r2) * (X @ u - y) ** 2
        size = ((path.weights - u) ** 2).sum(axis=1).max() + step * path.losses.max()
        assert np.all(change <= allowed + 1e-12 * size)


def test_the_lms_bound_is_nearly_attained():
    """One row, sign of y alternating, and the same row fitted: constants a tenth smaller would be broken."""
    y = np.full(400, 1.0)
    path = online.run(online.lms(1e-3), np.ones((400, 1)), y)
    assert path.guarantee().bound < 2.01 * path.loss


@pytest.mark.parametrize("signed", [False, True])
def test_exponentiated_gradient_keeps_its_bound_and_its_set(
    signed: bool, rng: np.random.Generator
):
    for X, y in streams(rng, 50):
        norm = 1.5 if signed else 1.0
        R = 2 * norm * np.abs(X).max() if signed else np.ptp(X, axis=1).max()
        step = float(rng.uniform(0.05, 0.95)) * 4 / max(R, 1e-3) ** 2
        learner = online.eg_pm(step, norm=norm) if signed else online.eg(step)
        path = online.run(learner, X, y, record=online.Record(every=1, compiled=False))
        kept(path)
        v = rng.dirichlet(np.ones(X.shape[1]))
        kept(path, v * np.where(rng.random(len(v)) < 0.5, -norm, norm) if signed else v)
        if signed:
            assert np.all(np.abs(path.weights).sum(axis=1) <= norm * (1 + 1e-12))
        else:
            assert np.all(path.weights >= 0)
            np.testing.assert_allclose(path.weights.sum(axis=1), 1, atol=1e-14)


def separable(
    rng: np.random.Generator, n: int, p: int, positive: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    u = np.abs(rng.standard_normal(p)) if positive else rng.standard_normal(p)
    X = rng.standard_normal((n, p)) * np.exp(rng.normal(0, 0.5, p))
    f = X @ u
    X, f = X[np.abs(f) > 0.05], f[np.abs(f) > 0.05]
    order = np.argsort(f) if rng.random() < 0.5 else np.argsort(np.abs(f))
    return X[order], np.sign(f[order])


@pytest.mark.slow
def test_perceptron_mistakes_never_exceed_the_bound(rng: np.random.Generator):
    for _ in range(400):
        X, y = separable(rng, int(rng.integers(8, 40)), int(rng.integers(1, 5)))
        if len(y):
            path = online.run(
                online.perceptron(),
                X,
                y,
                passes=20_000,
                record=online.Record(rows=False, compiled=True),
            )
            assert path.status is online.RunStatus.SEPARATED
            promise = kept(path)
            assert promise.bound <= kept(
                path, promise.comparator + 0.05 * path.state.w
            ).bound * (1 + 1e-6)


@pytest.mark.slow
def test_perceptron_mistakes_on_classes_that_overlap(rng: np.random.Generator):
    for _ in range(80):
        X, y = rows(rng, "sign", 50)
        y = y * np.where(rng.random(50) < 0.2, -1, 1)
        path = online.run(online.perceptron(), X, y)
        kept(path, rng.standard_normal(P))


@pytest.mark.parametrize("loss", ["logistic", "absolute", "hinge", "insensitive"])
@pytest.mark.parametrize("falling", [False, True])
def test_descent_keeps_its_regret_bound(
    loss: str, falling: bool, rng: np.random.Generator
):
    kind = {"logistic": "binary", "hinge": "sign"}.get(loss, "real")
    for _ in range(15):
        X, y = rows(rng, kind)
        X, y = X[np.argsort(y)], np.sort(y)
        rate = (
            online.inverse_sqrt(0.5)
            if falling
            else online.constant(float(rng.uniform(0.01, 1)))
        )
        learner = online.descent(
            online.LOSSES[loss], rate, online.Euclid(1.0 if falling else np.inf)
        )
        path = online.run(learner, X, y)
        u = (
            online.Euclid(1.0).nearest(rng.standard_normal(P))
            if falling
            else rng.standard_normal(P)
        )
        kept(path, u)


@pytest.mark.slow
def test_averaged_weights_keep_the_online_to_batch_bound(rng: np.random.Generator):
    """E[R_v] <= R_u/(1 - step) + ||u||^2/(step m) on samples with ||x|| <= 1, R known exactly: x is one of 5 rows."""
    atoms = rng.standard_normal((5, P))
    atoms /= np.sqrt((atoms**2).sum(axis=1, keepdims=True))
    truth, m, step = np.array([1.0, -1.0, 0.5]), 40, 0.3

    def risk(w: np.ndarray) -> float:
        # noise of variance 1/4
        return float(np.mean((atoms @ (w - truth)) ** 2)) + 0.25

    risks = []
    for _ in range(225):
        X = atoms[rng.integers(0, 5, m)]
        y = X @ truth + rng.choice([-0.5, 0.5], m)
        risks.append(
            risk(
                online.run(
                    online.lms(step), X, y, record=online.Record(compiled=False)
                ).average()
            )
        )
    for u in (truth, 0.5 * truth, np.zeros(P)):
        bound = risk(u) / (1 - step) + float(u @ u) / (step * m)
        # 4 standard errors of the mean of 225
        assert np.mean(risks) + 4 * np.std(risks) / 15 <= bound


def test_theory_picks_the_step_of_the_least_bound(rng: np.random.Generator):
    r, size, K = 1.7, 2.2, 3.1
    best = online.additive_step(r, size, K)
    bound = lambda s: K / (1 - s * r**2) + size**2 / s
    assert bound(best) == pytest.approx((np.sqrt(K) + size * r) ** 2)
    assert all(bound(best) <= bound(best * c) for c in (0.9, 0.99, 1.01, 1.1))
    best = online.multiplicative_step(r, np.log(7), K)
    bound = lambda s: K / (1 - s * r**2 / 4) + 2 * np.log(7) / s
    assert all(bound(best) <= bound(best * c) for c in (0.9, 0.99, 1.01, 1.1))
