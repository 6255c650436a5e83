"""Laws of generalisation bounds: they hold as often as they say on laws with bounded losses, against members chosen to break them."""

import itertools

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from probreg import bounds, kernels
from probreg.errors import DataError
from probreg.scores import compare_scores

SAMPLES, DELTA = 2000, 0.1
RNG_SEED = 4


def held(risk, limit):
    """The share of samples in which the risk is within the limit."""
    return float(np.mean(risk <= limit + 1e-12))


@pytest.fixture
def coins():
    """Losses 0 or 1 of 50 predictors on 40 rows, all of risk 1/2: the one that looks best is the one to distrust."""
    return np.random.default_rng(RNG_SEED).binomial(40, 0.5, (SAMPLES, 50)) / 40


@pytest.fixture
def noise():
    """y = 1/2 or -1/2 whatever x is, on 20 rows of 40 signs: no function predicts, and many fit."""
    rng = np.random.default_rng(RNG_SEED)
    X = 2.0 * rng.integers(0, 2, (SAMPLES, 20, 40)) - 1.0
    return X, rng.integers(0, 2, (SAMPLES, 20)) - 0.5


def test_finite_class(coins):
    best = coins.min(1)
    limit = best + bounds.finite(risk=0.0, n=40, classes=50, delta=DELTA).value
    assert held(0.5, limit) >= 1 - DELTA
    both = bounds.finite(risk=0.0, n=40, classes=50, delta=DELTA, two_sided=True).value
    assert held(np.abs(coins - 0.5).max(1), both) >= 1 - DELTA
    alone = bounds.finite(risk=0.0, n=40, classes=1, delta=DELTA).value
    assert held(0.5, best + alone) < 0.5  # the choice has to be paid for


def test_balls(noise):
    X, y = noise
    n, d = X.shape[1:]
    toward = np.einsum("sij,si->sj", X, y)
    w = toward / np.linalg.norm(toward, axis=1, keepdims=True)
    rows = {"n": n, "norm": 1.0, "delta": DELTA, "width": 0.5 + np.sqrt(d)}

    def both(w):
        """Risk and empirical risk of squared loss; entries of x are independent signs, so E (y - w'x)^2 = 1/4 + |w|^2."""
        return 0.25 + np.square(w).sum(1), np.square(
            y - np.einsum("sij,sj->si", X, w)
        ).mean(1)

    for limit in (
        bounds.kernel(risk=0.0, **rows, row_norm=np.sqrt(d)),
        bounds.kernel(risk=0.0, **rows, trace=float(n * d)),
    ):
        risk, found = both(w)
        assert held(risk, found + limit.value) >= 1 - DELTA
    one = np.zeros_like(w)
    most = np.abs(toward).argmax(1)
    np.put_along_axis(
        one, most[:, None], np.sign(np.take_along_axis(toward, most[:, None], 1)), 1
    )
    risk, found = both(one)
    small = rows | {"width": 1.5, "columns": d}
    for limit in (
        bounds.l1(risk=0.0, **small, largest=1.0),
        bounds.l1(risk=0.0, **small, column_norm=np.sqrt(n)),
    ):
        assert held(risk, found + limit.value) >= 1 - DELTA
    blocks = toward.reshape(SAMPLES, 8, 5)
    longest = np.linalg.norm(blocks, axis=2).argmax(1)
    some = np.zeros_like(blocks)
    some[np.arange(SAMPLES), longest] = blocks[np.arange(SAMPLES), longest]
    some = some.reshape(SAMPLES, d) / np.linalg.norm(
        some.reshape(SAMPLES, d), axis=1, keepdims=True
    )
    risk, found = both(some)
    wide = {"n": n, "norm": 1.0, "delta": DELTA, "width": 0.5 + np.sqrt(5)}
    assert (
        held(
            risk,
            found + bounds.group(risk=0.0, **wide, groups=8, row_norm=np.sqrt(5)).value,
        )
        >= 1 - DELTA
    )
    # the loss beyond 0.2, over new rows and both values of y
    new = 2.0 * np.random.default_rng(9).integers(0, 2, (300, d)) - 1.0
    errors = np.abs(np.stack([w @ new.T - 0.5, w @ new.T + 0.5]))
    risk = np.maximum(0.0, errors - 0.2).mean((0, 2))
    found = np.maximum(0.0, np.abs(y - np.einsum("sij,sj->si", X, w)) - 0.2).mean(1)
    for form in ({"row_norm": np.sqrt(d)}, {"trace": float(n * d)}):
        limit = bounds.kernel(risk=0.0, **rows, epsilon=0.2, **form)
        assert held(risk, found + limit.value) >= 1 - DELTA


def test_stability_of_ridge(noise):
    X, y = noise
    n, d = X.shape[1:]
    for lam in (5.0, 50.0, 500.0):
        # (X'X + n lam) w = X'y, as X'(XX' + n lam)^-1 y
        alpha = np.linalg.solve(
            X @ X.transpose(0, 2, 1) + n * lam * np.eye(n), y[..., None]
        )
        w = (X.transpose(0, 2, 1) @ alpha)[..., 0]
        found = np.square(y - np.einsum("sij,sj->si", X, w)).mean(1)
        limit = bounds.stability(
            risk=0.0, n=n, lam=lam, row_norm=np.sqrt(d), half_width=0.5, delta=DELTA
        )
        assert held(0.25 + np.square(w).sum(1), found + limit.value) >= 1 - DELTA


@pytest.mark.slow
def test_pseudo_dimension_of_least_squares():
    rng = np.random.default_rng(RNG_SEED)
    X, y = rng.normal(size=(SAMPLES, 30, 5)), rng.integers(0, 2, (SAMPLES, 30)) - 0.5
    w = np.linalg.solve(X.transpose(0, 2, 1) @ X, X.transpose(0, 2, 1) @ y[..., None])[
        ..., 0
    ]
    found = np.square(np.clip(np.einsum("sij,sj->si", X, w), -0.5, 0.5) - y).mean(1)
    new = np.clip(w @ rng.normal(size=(5, 2000)), -0.5, 0.5)
    risk = 0.25 + np.square(new).mean(1)  # y is independent of x, with mean zero
    for form in ("tight", "textbook"):
        limit = bounds.pseudo_dimension(
            risk=0.0, n=30, dimension=5, delta=DELTA, form=form
        )
        assert held(risk, found + limit.value) >= 1 - DELTA


def laws_of_losses(rng, h):
    """Losses in [0, 1] (SAMPLES, h) and their means; rare large ones, which a sample may miss, among them."""
    for p in (0.01, 0.03, 0.1, 0.5, 0.97):
        yield p, (rng.random((SAMPLES, h)) < p).astype(float)
    yield 0.5, rng.beta(0.1, 0.1, (SAMPLES, h))
    yield 1 / 3, rng.random((SAMPLES, h)) ** 2


FEW_OR_ALL = pytest.mark.parametrize(
    "samples", [200, pytest.param(600, marks=pytest.mark.slow)]
)


@FEW_OR_ALL
@pytest.mark.parametrize("kind", ["hoeffding", "maurer_pontil"])
def test_hold_out_on_laws_with_rare_losses(kind, samples):
    for mean, losses in laws_of_losses(np.random.default_rng(RNG_SEED), 30):
        limit = [
            bounds.hold_out(row, delta=DELTA, kind=kind).value
            for row in losses[:samples]
        ]
        assert held(mean, np.array(limit)) >= 1 - DELTA


@pytest.mark.parametrize("kind", ["hoeffding", "maurer_pontil"])
def test_the_best_of_several_pays_for_the_choice(kind):
    # 20 equal forecasters: without the union bound the best of 40 rows fails far too often
    mean, K = 0.3, 20
    losses = (np.random.default_rng(RNG_SEED).random((200, K, 40)) < mean).astype(float)
    limits, alone = [], []
    for sample in losses:
        named = dict(zip("abcdefghijklmnopqrst", sample))
        found = bounds.best_of(named, delta=DELTA, kind=kind)
        best = min(named, key=lambda name: named[name].mean())
        paid = bounds.hold_out(named[best], delta=DELTA / K, kind=kind)
        assert (found.value, found.delta) == (paid.value, DELTA)
        assert found.theorem.startswith(f"{best}, best of {K}")
        limits.append(found.value)
        alone.append(bounds.hold_out(named[best], delta=DELTA, kind="hoeffding").value)
    assert held(mean, np.array(limits)) >= 1 - DELTA
    assert held(mean, np.array(alone)) < 1 - DELTA


def test_losses_of_several_forecasters_are_read_from_tables():
    rng = np.random.default_rng(RNG_SEED)
    losses = {"a": rng.random(30), "b": rng.random(30) / 2}
    expected = bounds.best_of(losses)
    for table in (pd.DataFrame(losses), pa.table(losses)):
        assert bounds.best_of(table) == expected
        assert str(compare_scores(table)) == str(compare_scores(losses))


def gibbs(coins, beta):
    """rho in favour of what looks best, and KL(rho || uniform)."""
    rho = np.exp(-beta * (coins - coins.min(1, keepdims=True)))
    rho /= rho.sum(1, keepdims=True)
    return rho, (rho * np.log(np.maximum(rho, 1e-300) * coins.shape[1])).sum(1)


@FEW_OR_ALL
def test_pac_bayes_for_draws_in_favour_of_what_looks_best(coins, samples):
    rng = np.random.default_rng(1)
    for beta in (0.0, 10.0, 200.0):
        rho, away = gibbs(coins, beta)
        each = zip((rho * coins).sum(1)[:samples], np.maximum(away, 0.0))
        limit = [
            bounds.pac_bayes(risk=r, n=40, divergence=k, delta=DELTA).value
            for r, k in each
        ]
        assert held(0.5, np.array(limit)) >= 1 - DELTA
        drawn = [rng.choice(c, 20, p=p).mean() for c, p in zip(coins[:samples], rho)]
        each = zip(drawn, np.maximum(away, 0.0))
        limit = [
            bounds.pac_bayes(risk=r, n=40, divergence=k, delta=DELTA, draws=20).value
            for r, k in each
        ]
        assert held(0.5, np.array(limit)) >= 1 - DELTA


# ---- what all of them share ------------------------------------------------------------------------------------------

BALL = {"risk": 0.1, "width": 1.0}
CASES = {
    "finite": lambda n, delta, size: bounds.finite(
        risk=0.1, n=n, classes=int(10 * size), delta=delta
    ),
    "rademacher": lambda n, delta, size: bounds.rademacher(
        risk=0.1, n=n, complexity=size / np.sqrt(n), delta=delta
    ),
    "kernel": lambda n, delta, size: bounds.kernel(
        **BALL, n=n, norm=size, row_norm=1.0, delta=delta
    ),
    "trace": lambda n, delta, size: bounds.kernel(
        **BALL, n=n, norm=size, trace=2.0 * n, delta=delta
    ),
    "epsilon": lambda n, delta, size: bounds.kernel(
        **BALL, n=n, norm=size, row_norm=1.0, epsilon=0.1, delta=delta
    ),
    "l1": lambda n, delta, size: bounds.l1(
        **BALL, n=n, norm=size, columns=7, largest=1.0, delta=delta
    ),
    "group": lambda n, delta, size: bounds.group(
        **BALL, n=n, norm=size, groups=7, row_norm=1.0, delta=delta
    ),
    "dimension": lambda n, delta, size: bounds.pseudo_dimension(
        risk=0.1, n=n, dimension=int(4 * size), delta=delta
    ),
    "stability": lambda n, delta, size: bounds.stability(
        risk=0.1,
        n=n,
        lam=1 / size,
        row_norm=1.0,
        half_width=0.5,
        width=1.0,
        delta=delta,
    ),
    "pac_bayes": lambda n, delta, size: bounds.pac_bayes(
        risk=0.1, n=n, divergence=size, delta=delta
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_more_rows_a_smaller_class_and_less_certainty_bound_lower(name):
    limit = CASES[name]
    for change, values in (
        ("n", (100, 200, 1000, 10_000)),
        ("delta", (0.01, 0.05, 0.5)),
        ("size", (1.0, 2.0, 5.0)),
    ):
        given = {"n": 400, "delta": 0.05, "size": 1.0}
        found = [limit(**given | {change: v}).value for v in values]
        falling = found if change == "size" else found[::-1]
        assert all(a < b for a, b in itertools.pairwise(falling)), change


def test_a_linear_kernel_is_the_ball_of_weights(rng):
    X = rng.normal(size=(50, 3))
    K = kernels.Linear()(X)
    found = bounds.kernel(risk=0.1, n=50, norm=2.0, width=3.0, trace=float(np.trace(K)))
    closed = 2.0 * np.sqrt(np.square(X).sum()) / 50  # Lam sqrt(sum |x_i|^2) / m
    by_hand = bounds.rademacher(
        risk=0.1, n=50, complexity=closed, most=9.0, lipschitz=6.0
    )
    assert found.value == pytest.approx(by_hand.value, rel=1e-14)


def test_simulated_complexities_are_the_mean_over_all_signs_and_below_the_closed_form(
    rng,
):
    X = rng.normal(size=(10, 3))
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=10)))
    exact = {
        "kernel": 2.0 * np.linalg.norm(signs @ X, axis=1).mean() / 10,
        "l1": 2.0 * np.abs(signs @ X).max(1).mean() / 10,
    }
    draws = {
        "kernel": bounds.kernel_complexity(X @ X.T, norm=2.0),
        "l1": bounds.l1_complexity(X, norm=2.0),
    }
    for name, found in draws.items():
        # four standard errors of 10,000 draws
        assert found.empirical == pytest.approx(exact[name], rel=0.02)
        assert exact[name] <= found.value
        assert found.empirical <= found.most
    assert draws["kernel"].most == pytest.approx(2.0 * np.sqrt(np.square(X).sum()) / 10)


def test_the_limit_of_a_simulation_holds_over_its_draws(rng):
    X = rng.normal(size=(8, 2))
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=8)))
    exact = np.linalg.norm(signs @ X, axis=1).mean() / 8
    few = [
        bounds.kernel_complexity(X @ X.T, draws=5, seed=s, delta=0.2).value
        for s in range(300)
    ]
    assert held(exact, np.array(few)) >= 0.8


def test_a_bound_says_what_it_assumes_and_when_it_says_nothing():
    found = bounds.finite(risk=0.9, n=10, classes=10)
    assert found.vacuous
    assert "says nothing" in str(found)
    assert len(str(found).splitlines()) <= 5
    assert "cannot be checked: rows are independent draws" in str(found)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            lambda: bounds.finite(risk=3.0, n=10, classes=2),
            "losses of at most 1, got 3",
        ),
        (
            lambda: bounds.kernel(risk=0.0, n=10, norm=1.0, width=1.0),
            "give trace=, of the rows, or row_norm=",
        ),
        (
            lambda: bounds.kernel(
                risk=0.0, n=10, norm=1.0, width=1.0, trace=1.0, row_norm=1.0
            ),
            "one of the two",
        ),
        (
            lambda: bounds.l1(risk=0.0, n=10, norm=1.0, width=1.0, columns=2),
            "give column_norm=",
        ),
        (
            lambda: bounds.kernel(
                risk=0.0, n=9, norm=1.0, width=1.0, epsilon=1.0, trace=1.0
            ),
            "epsilon is less than the width 1",
        ),
        (
            lambda: bounds.pseudo_dimension(risk=0.0, n=10, dimension=11),
            "needs as many rows, got n = 10",
        ),
        (lambda: bounds.hold_out([0.5, 2.0, 0.1]), "the loss is 2 in row 1"),
        (lambda: bounds.hold_out([0.5]), "two or more rows"),
        (lambda: bounds.best_of({}), "at least one forecaster"),
        (lambda: bounds.kernel_complexity([[1.0, 2.0]]), "square matrix"),
        (lambda: bounds.l1_complexity([1.0, 2.0]), r"got shape \(2,\)"),
        (
            lambda: bounds.kernel_complexity([[1.0, 0.5], [0.1, 1.0]]),
            "K is symmetric, and it holds 0.5 in row 0",
        ),
        (
            lambda: bounds.kernel_complexity([[1.0, 3.0], [3.0, 1.0]]),
            "no matrix of a kernel",
        ),
    ],
)
def test_refusals_name_the_value(call, said):
    with pytest.raises(DataError, match=said):
        call()
