"""What docs/explanation/corrections.md calls false or true, each by a computation that the page does not make."""

import itertools

import numpy as np
import pytest
from scipy import optimize, special

import probreg as pr
from probreg import bounds
from probreg.online import lms, run

Array = np.ndarray


@pytest.mark.parametrize(
    ("half", "penalty", "factor"),
    [(1.0, 1.0, 1.0), (0.5, 0.5, 1.0), (0.5, 1.0, 2.0), (1 / 30, 1.0, 30.0)],
)
def test_each_ridge_criterion_has_its_own_solution(half, penalty, factor):
    rng = np.random.default_rng(5)
    X, y, lam = rng.normal(size=(30, 3)), rng.normal(size=30), 0.8
    found = optimize.minimize(
        lambda w: half * np.sum((y - X @ w) ** 2) + penalty * lam * w @ w,
        np.zeros(3),
        tol=1e-12,
    )
    np.testing.assert_allclose(
        np.linalg.solve(X.T @ X + factor * lam * np.eye(3), X.T @ y), found.x, atol=1e-6
    )
    if factor != 1:
        assert (
            np.abs(np.linalg.solve(X.T @ X + lam * np.eye(3), X.T @ y) - found.x).max()
            > 1e-3
        )


@pytest.mark.parametrize(
    "likelihood",
    [pr.Bernoulli(), pr.Poisson(), pr.likelihoods.Huber(), pr.StudentT(nu=1.0)],
)
def test_a_log_likelihood_is_concave_where_it_says_so(likelihood):
    """The midpoint inequality, over pairs of linear predictors."""
    a, b = np.random.default_rng(0).uniform(-4, 4, (2, 400, 1))
    aux = {"sigma": 1.0} if likelihood.nuisance else {}
    at = lambda eta: likelihood.log_prob(np.ones(400), eta, **aux)
    gain = at((a + b) / 2) - (at(a) + at(b)) / 2
    assert (gain.min() >= -1e-12) == likelihood.concave
    assert gain.max() > 0.1  # and none is convex


def test_the_gaussian_log_likelihood_is_concave_in_ratios_alone():
    """-log p of two rows over (beta/sigma, 1/sigma) and over (beta, log sigma), by differences."""
    y = np.array([0.3, 1.9])
    of_ratios = lambda t: np.sum(0.5 * (t[1] * y - t[0]) ** 2 - np.log(t[1]))
    of_logs = lambda t: np.sum(0.5 * ((y - t[0]) / np.exp(t[1])) ** 2 + t[1])
    step = 1e-4 * np.eye(2)

    def least(f, t):
        H = [
            [
                (f(t + i + j) - f(t + i - j) - f(t - i + j) + f(t - i - j)) / 4e-8
                for j in step
            ]
            for i in step
        ]
        return np.linalg.eigvalsh(H)[0]

    points = np.array(list(itertools.product([-1.0, 0.5, 2.0], [0.4, 1.3])))
    assert min(least(of_ratios, t) for t in points) > 0
    assert min(least(of_logs, t) for t in points) < -0.1


@pytest.mark.parametrize("step", [0.01, 0.05, 0.3])
def test_the_widrow_hoff_bound_holds_and_the_printed_one_does_not(step):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    X /= np.linalg.norm(X, axis=1).max()
    y = X @ [1.0, -2.0, 0.5] + rng.normal(size=300)
    w, loss = np.zeros(3), 0.0
    for x, z in zip(X, y):
        e = w @ x - z
        w, loss = w - step * e * x, loss + e * e
    of = lambda A: (
        optimize.minimize(
            lambda u: A * np.sum((y - X @ u) ** 2) + u @ u / step, np.zeros(3)
        ).fun
    )
    right, printed = of(1 / (1 - step)), of(step / (1 - step))
    assert printed < loss <= right
    promise = run(lms(step), X, y).guarantee()
    assert promise.cumulative_loss == pytest.approx(loss)
    assert promise.bound == pytest.approx(right, rel=1e-6)


def largest_excess(x: Array, y: Array, p: Array, ball: float, m: int) -> float:
    """E sup (R - R^) over |w| <= ball of one column, exactly: all samples of m points of a law, a quadratic for each."""
    moments = np.stack([x * x, -2 * x * y, y * y])
    mean = 0.0
    for sample in itertools.product(range(len(p)), repeat=m):
        at = list(sample)
        a, b, c = moments @ p - moments[:, at].mean(1)
        ends = [-ball, ball, *([-b / (2 * a)] if a and abs(b / (2 * a)) < ball else [])]
        mean += p[at].prod() * max(a * w * w + b * w + c for w in ends)
    return mean


def complexity(x: Array, p: Array, ball: float, m: int) -> float:
    """E sup (1/m) sum s w x over signs and samples."""
    signs = np.array(list(itertools.product([-1, 1], repeat=m)))
    samples = itertools.product(range(len(p)), repeat=m)
    return sum(
        p[list(s)].prod() * ball * np.abs(signs @ x[list(s)]).mean() / m
        for s in samples
    )


def test_twice_m_times_the_complexity_is_too_little():
    x, y, p = np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([0.1, 0.9])
    gap, of_class = largest_excess(x, y, p, 0.5, 1), complexity(x, p, 0.5, 1)
    assert gap == pytest.approx(0.18)
    assert of_class == pytest.approx(0.05)
    assert 2 * 1.5 * of_class < gap
    # nearer to the factor two: the same with a short ball
    rare = np.array([0.01, 0.99])
    assert largest_excess(x, y, rare, 0.05, 1) > 1.8 * 2 * 1.05 * complexity(
        x, rare, 0.05, 1
    )


@pytest.mark.parametrize("m", [1, 2, 3])
def test_four_m_times_the_complexity_and_the_direct_bound_hold_of_any_law(m):
    rng = np.random.default_rng(m)
    drawn = [
        (rng.uniform(-1, 1, 4), rng.uniform(-1, 1, 4), rng.dirichlet(np.ones(4)))
        for _ in range(60)
    ]
    # where twice the complexity, and the direct bound with M in the place of 2 M, are exceeded
    rare = np.array([1.0, 0.0]), np.array([1.0, 0.0]), np.array([0.01, 0.99])
    coin = np.ones(2), np.array([1.0, -1.0]), np.array([0.5, 0.5])
    for (x, y, p), ball in zip(
        [rare, coin, *drawn], [0.05, 0.05, *rng.exponential(1.0, 60)]
    ):
        M, a = (
            float((np.abs(y) + ball * np.abs(x)).max()),
            ball * float(np.abs(x).max()),
        )
        gap = largest_excess(x, y, p, ball, m)
        assert gap <= 4 * M * complexity(x, p, ball, m) + 1e-12
        assert gap <= 2 * M * a * np.sqrt(2 * np.log(2) / m) + 1e-12
        value = bounds.l1(
            risk=0.0, n=m, norm=ball, width=M, columns=1, largest=a / ball
        )
        assert value.complexity == pytest.approx(4 * M * a * np.sqrt(2 * np.log(2) / m))


def test_the_last_step_of_the_direct_bound():
    """2 b + sqrt(2) a^2 <= 2 M a with b = max over t <= a of (M - t) t; d (d + 1) <= (2 d)^2."""
    for a in np.linspace(0.001, 1.0, 200):
        t = np.linspace(0, a, 1001)
        assert 2 * ((1 - t) * t).max() + np.sqrt(2) * a * a <= 2 * a
    assert all(d * (d + 1) <= (2 * d) ** 2 for d in range(1, 100))


def test_one_tail_of_two_is_not_enough():
    """Two rows or one, a fair coin: the printed interval misses with more than its probability, the right one does not."""
    for m, delta in ((1, 0.65), (2, 0.65), (1, 0.9)):
        k = np.arange(m + 1)
        weights = special.comb(m, k) / 2.0**m
        misses = lambda t, k=k, w=weights, m=m: w[np.abs(k / m - 0.5) > t].sum()
        right = bounds.finite(
            risk=0.0, n=m, classes=1, delta=delta, two_sided=True
        ).value
        assert misses(right) <= delta
        if m == 1:
            assert misses(np.sqrt(np.log(1 / delta) / (2 * m))) > delta


def test_a_vote_errs_at_most_twice_as_often_as_a_draw():
    worst = 0.0
    for wrong in itertools.product([0, 1], repeat=7):
        draw, vote = np.mean(wrong), float(np.mean(wrong) > 0.5)
        worst = max(worst, vote / draw if draw else 0.0)
        assert vote <= 2 * draw
    # above 1: the bound of a draw is none of the vote
    assert worst == pytest.approx(7 / 4)


@pytest.mark.parametrize("b", [-0.5, 0.0, 0.5])
def test_no_shift_makes_tanh_a_covariance_function(b):
    Z = np.random.default_rng(1).normal(size=(40, 3)) * 2
    assert np.linalg.eigvalsh(np.tanh(Z @ Z.T + b))[0] < -0.1
