"""Guarantees: a violation planted in each assumption of each theorem is found, and what is said of new rows is true."""

from dataclasses import replace

import numpy as np
import pytest

import probreg.online as online
from probreg.errors import DataError, Incompatible
from probreg.kernels import RBF

from .test_online import P, kept, rows


def unit_rows(rng: np.random.Generator, n: int = 40, p: int = P) -> np.ndarray:
    X = rng.standard_normal((n, p))
    return X / np.sqrt((X**2).sum(axis=1, keepdims=True))


def broken(square: bool) -> online.Loss:
    """A loss that is not convex; or one that is, with a slope that is not its derivative."""
    if square:
        return online.Loss(
            "half", lambda f, y, c: ((f - y) ** 2, (f - y) / 2), derivative=1.0
        )
    return online.Loss(
        "capped",
        lambda f, y, c: (min((f - y) ** 2, 1.0), (f - y) * (abs(f - y) < 1)),
        derivative=2.0,
    )


W0 = online.State(np.array([3.0, 0.0, 0.0]))
BALL = online.Euclid(0.5)
FALLING = online.inverse_sqrt(0.5)
ELSEWHERE = online.State(np.ones(P) / P, 0, {"theta": np.array([5.0, 0.0, 0.0])})
FAR, U = np.array([9.0, 0.0, 0.0]), np.array([1.0, -1.0, 0.5])
K = RBF(1.0)
# theorem and violation -> learner, kind of response, the state it starts from, comparator, words of what is not met
PLANTED: dict[
    str, tuple[online.Learner, str, online.State | None, np.ndarray | None, str]
] = {
    "LMS, step": (online.lms(1.1), "real", None, None, "step ||x||^2 < 1"),
    "NLMS, step": (online.nlms(1.1), "real", None, None, "step < 1"),
    "RLS, precision": (online.rls(), "real", None, None, "precision > 0"),
    "RLS, forgetting": (
        online.rls(0.9, precision=1.0),
        "real",
        None,
        None,
        "forgetting = 1",
    ),
    "RLS, weights": (
        online.rls(precision=1.0),
        "real",
        replace(online.rls(precision=1.0).init(P), w=np.ones(P)),
        None,
        "the run starts at round 1, from no weights",
    ),
    "RLS, rows before": (
        online.rls(precision=1.0),
        "real",
        online.run(online.rls(precision=1.0), np.eye(P), np.full(P, 4.0)).state,
        None,
        "the run starts at round 1, from no weights",
    ),
    "EG, step": (online.eg(9.0), "real", None, None, "step R^2 / 4 < 1"),
    "EG, u": (
        online.eg(0.1),
        "real",
        None,
        FAR,
        "u >= 0 with sum 1; eg_pm takes other weights",
    ),
    "EG, start": (
        online.eg(0.1),
        "real",
        ELSEWHERE,
        None,
        "the first weights are those of their exponents",
    ),
    "EG+-, u": (
        online.eg_pm(0.1),
        "real",
        None,
        FAR,
        "||u||_1 <= norm = 1",
    ),
    "perceptron, start": (
        online.perceptron(),
        "sign",
        W0,
        None,
        "the weights start at zero",
    ),
    "perceptron, margin": (
        online.perceptron(),
        "noisy",
        None,
        None,
        "some u separates the classes",
    ),
    "descent, u": (
        online.descent(online.ABSOLUTE, 0.1, BALL),
        "real",
        None,
        FAR,
        "u in the ball",
    ),
    "descent, start": (
        online.descent(online.ABSOLUTE, 0.1, BALL),
        "real",
        W0,
        np.zeros(P),
        "start in the ball",
    ),
    "descent, no ball": (
        online.descent(online.ABSOLUTE, FALLING),
        "real",
        None,
        np.zeros(P),
        "a ball bounds the weights",
    ),
    "descent, not convex": (
        online.descent(broken(False), 0.1),
        "real",
        None,
        5 * U,
        "as for a convex loss",
    ),
    "kernel LMS, step": (
        online.kernel(online.lms(1.1), K),
        "real",
        None,
        None,
        "step k(x, x) < 1",
    ),
    "descent, slope": (
        online.descent(broken(True), 0.1),
        "real",
        None,
        5 * U,
        "as for a convex",
    ),
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_violation_voids_the_bound(case: str, rng: np.random.Generator):
    learner, kind, start, u, words = PLANTED[case]
    X = unit_rows(rng)
    f = X @ U
    y = {
        "real": 5 * f,
        "sign": np.sign(f),
        "noisy": np.sign(f) * np.where(np.arange(40) % 3, 1, -1),
    }[kind]
    promise = online.run(
        learner, X, y, state=start, record=online.Record(compiled=False)
    ).guarantee(u)
    assert not promise.applies
    assert promise.bound == np.inf
    failed = [a.statement for a in promise.assumptions if a.holds is False]
    assert len(failed) == 1
    assert words in failed[0]
    assert f"NOT MET: {failed[0]}" in str(promise)
    for said in (lambda: promise.risk, lambda: promise.random_risk):
        with pytest.raises(Incompatible, match="on a new row"):
            said()


HELD_TO = {  # one learner of each theorem that its assumptions let apply, and whether its loss is convex
    "LMS": (online.lms(0.3), "real", True),
    "implicit": (online.implicit_lms(2.0), "real", True),
    "NLMS": (online.nlms(0.3), "real", True),
    "RLS": (online.rls(precision=0.1), "real", True),
    "EG": (online.eg(0.1), "real", True),
    "EG+-": (online.eg_pm(0.1), "real", True),
    "perceptron": (online.perceptron(), "sign", False),
    "descent": (online.descent(online.SQUARED, 0.1, online.Euclid(2.0)), "real", True),
    "kernel LMS": (online.kernel(online.lms(0.3), K), "real", True),
    "kernel RLS": (online.kernel(online.rls(precision=0.1), K), "real", True),
    "kernel perceptron": (online.kernel(online.perceptron(), K), "sign", False),
}


@pytest.mark.filterwarnings("ignore:.*mistakes in the last of 2 passes")
@pytest.mark.parametrize("name", HELD_TO)
def test_a_new_row_is_spoken_of_after_one_pass_and_by_convex_losses_only(
    name: str, rng: np.random.Generator
):
    learner, kind, convex = HELD_TO[name]
    X = unit_rows(rng)
    f = X @ U
    y = np.sign(f) if kind == "sign" else f
    path = online.run(learner, X, y)
    once = kept(path)
    if not once.of_loss.holds:
        assert name == "NLMS"
        for said in (lambda: once.risk, lambda: once.random_risk):
            with pytest.raises(
                Incompatible, match="the bounded quantity is the learner's loss"
            ):
                said()
        assert "at most" not in str(once)
        return
    assert once.random_risk == pytest.approx(once.bound / 40)
    assert "cannot be checked: rows are independent draws of one distribution" in str(
        once
    )
    assert "cannot be checked: the learner and its constants were fixed" in str(once)
    if convex:
        assert once.risk == pytest.approx(once.bound / 40)
        with pytest.raises(Incompatible, match="vote_risk needs a bound on mistakes"):
            _ = once.vote_risk
    else:
        assert once.vote_risk == pytest.approx(2 * once.bound / 40)
        with pytest.raises(
            Incompatible, match="NOT MET: the loss is convex in the weights"
        ):
            _ = once.risk
    again = kept(online.run(learner, X, y, passes=2, shuffle=1))
    for said in (lambda: again.risk, lambda: again.random_risk):
        with pytest.raises(
            Incompatible,
            match=r"NOT MET: every row is seen once \(passes = 1\) \(so far 2\)",
        ):
            said()
    on = online.run(learner, X, y, state=path.state).guarantee()
    assert "cannot be checked: the rows of the earlier run are not among these" in map(
        str, on.sampling
    )


def test_a_loss_of_your_own_is_convex_as_far_as_the_rounds_tell(
    rng: np.random.Generator,
):
    X, y = rows(rng, "real")
    own = online.Loss(
        "quartic", lambda f, y, c: ((f - y) ** 4, (f - y) ** 3), derivative=4.0
    )
    learner = online.descent(own, 1e-3)
    for path in (
        online.run(learner, X, y),
        online.run(learner, X, y, passes=2, shuffle=4),
    ):
        assert "met: l(u'x) >= l(f)" in str(kept(path, rng.standard_normal(P)))
    promise = online.run(learner, X, y, record=online.Record(rows=False)).guarantee(
        np.zeros(P)
    )
    assert promise.applies
    assert "cannot be checked: l(u'x)" in str(promise)
    assert "cannot be checked: the loss is convex in the weights" in str(promise)


@pytest.mark.slow
def test_bounds_by_the_largest_error_are_within_a_few_times_the_loss(
    rng: np.random.Generator,
):
    """A row without signal costs an RLS max e^2 log det, not r^2 / precision; NLMS counts on its own scale."""
    X, noise = (
        rng.standard_normal((150, 4)) * [1.0, 10.0, 0.1, 1.0],
        rng.standard_normal(150),
    )
    y = X @ [1.0, -0.1, 3.0, 0.0] + 0.3 * noise
    for precision in (1e-6, 1e-2, 1.0):
        path = online.run(online.rls(precision=precision), X, y)
        promise, e2 = kept(path), path.losses.max()
        det = np.linalg.slogdet(np.eye(4) + X.T @ X / precision)[1]
        u = promise.comparator
        assert promise.bound == pytest.approx(
            promise.comparator_loss + precision * u @ u + e2 * det, rel=1e-9
        )
        # (1 + r^2 / precision) L_u would be 1e9 of it
        assert promise.bound < 60 * promise.cumulative_loss
    promise = kept(online.run(online.nlms(0.5), X, y))
    assert promise.bound < 3 * promise.cumulative_loss
    assert "eps + ||x||^2" in promise.quantity


def test_normalised_steps_learn_nothing_from_rows_of_zeros(rng: np.random.Generator):
    X, y = rows(rng, "real")
    X[::5] = 0.0
    with_, without = (
        online.run(online.nlms(0.4, eps=0.0), X[keep], y[keep]).guarantee()
        for keep in (slice(None), (X**2).sum(axis=1) > 0)
    )
    assert with_.cumulative_loss == pytest.approx(without.cumulative_loss, rel=1e-12)
    assert with_.bound == pytest.approx(without.bound, rel=1e-12)


def test_the_bound_of_normalised_steps_weighs_the_rows_of_every_pass(
    rng: np.random.Generator,
):
    X, y = rows(rng, "real")
    path = online.run(online.nlms(0.4), X, y, passes=3, shuffle=1)
    promise = path.guarantee(u := np.ones(X.shape[1]))
    size = 1e-8 + (X**2).sum(axis=1)
    comparator_loss = 3 * np.sum((X @ u - y) ** 2 / size)
    assert promise.comparator_loss == pytest.approx(comparator_loss, rel=1e-9)
    order = np.concatenate(
        [np.random.default_rng([1, k]).permutation(len(y)) for k in range(3)]
    )
    loss = np.sum((path.predictions - y[order]) ** 2 / size[order])
    assert promise.cumulative_loss == pytest.approx(loss, rel=1e-9)


@pytest.mark.slow
def test_the_vote_and_drawn_weights_err_on_new_rows_as_seldom_as_promised(
    rng: np.random.Generator,
):
    """Risks known exactly: x is one of 12 rows. 120 samples of 30 rounds; 4 standard errors of their mean."""
    atoms = np.c_[np.ones(12), unit_rows(rng, 12, 2)]
    side = np.sign(atoms @ [0.2, 1.0, -0.7])
    drawn, voted, bounds, beyond = [], [], [], 0
    for i in range(120):
        which = rng.integers(0, 12, 30)
        path = online.run(
            online.perceptron(),
            atoms[which],
            side[which],
            record=online.Record(every=1, compiled=False),
        )
        risks = np.mean(side * (path.weights[:-1] @ atoms.T) <= 0, axis=1)
        assert np.mean(side * (atoms @ path.draw(seed=i)) <= 0) in risks
        drawn.append(risks.mean())
        voted.append(np.mean(side * path.vote(atoms) <= 0))
        assert voted[-1] <= 2 * drawn[-1] + 1e-12
        promise = path.guarantee()
        bounds.append(promise.cumulative_loss / 30 - drawn[-1])
        beyond += drawn[-1] > promise.random_risk_limit(0.2)
        assert promise.random_risk_limit(0.2) == pytest.approx(
            path.mistakes / 30 + np.sqrt(np.log(5) / 60)
        )
    # E[mistakes] / rounds is the risk of a draw
    assert abs(np.mean(bounds)) < 4 * np.std(bounds) / np.sqrt(120)
    assert beyond <= 0.2 * 120
    with pytest.raises(DataError, match="record=Record"):
        online.run(
            online.perceptron(), np.tile(atoms, (20, 1)), np.tile(side, 20)
        ).vote(atoms)
    with pytest.raises(Incompatible, match="needs the classes -1 and"):
        online.run(online.lms(0.1), atoms, side, record=online.Record(every=1)).vote(
            atoms
        )


@pytest.mark.filterwarnings("ignore:.*mistakes in the last")
@pytest.mark.slow
@pytest.mark.parametrize("name", ["LMS", "RLS", "EG+-", "perceptron", "descent"])
def test_the_mean_risk_bound_is_above_the_mean_loss_on_new_rows(name: str):
    """Rows of unequal lengths and noisy responses, 60 samples of 50 rows; the loss on new rows is that of 2,000 others."""
    learner, kind, _ = HELD_TO[name]
    rng = np.random.default_rng(8)

    def draw(n: int) -> tuple[np.ndarray, np.ndarray]:
        X = unit_rows(rng, n) * rng.uniform(0.3, 1.0, (n, 1))
        f = X @ U + 0.2 * rng.standard_normal(n) * (kind == "real")
        return X, np.where(f >= 0, 1.0, -1.0) if kind == "sign" else f

    new = online.run(learner, *draw(2000))
    promised, risks = [], []
    for _ in range(60):
        path = online.run(learner, *draw(50), record=online.Record(every=1))
        promise = path.guarantee()
        if not promise.of_loss.holds:
            with pytest.raises(Incompatible):
                _ = promise.risk
            return
        if not promise.applies:  # a sample without the margin
            continue
        mistakes = promise.quantity == "mistakes"
        w = path.draw(seed=1) if mistakes else path.average()
        X, y = new.rows()
        loss = np.mean(y * (X @ w) <= 0) if mistakes else new.loss_of(w) / len(y)
        promised.append(promise.random_risk if mistakes else promise.risk)
        risks.append(loss)
    assert len(risks) > 10
    assert np.mean(risks) <= np.mean(promised)
    assert promise.quantity.removeprefix("cumulative ") in str(promise)
