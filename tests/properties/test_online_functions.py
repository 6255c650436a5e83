"""Laws of learners of functions: the columns of a kernel, budgets, Gaussian processes, bounds on any stream."""

from dataclasses import replace

import numpy as np
import pytest

import probreg as pr
import probreg.online as online
from probreg import kernels
from probreg.errors import DataError, Incompatible
from probreg.kernels import RBF, Linear

from .test_online import P, kept, rows, streams

QUICK = online.Record(compiled=True, every=10**6)
BASES = {
    "lms": (online.lms(0.05), "real"),
    "nlms": (online.nlms(0.6, eps=0.2), "real"),
    "implicit": (online.implicit_lms(0.7), "real"),
    "falling": (online.lms(online.Rate(0.1, power=1.0)), "real"),
    "perceptron": (online.perceptron(0.6), "sign"),
    "hinge": (online.descent(online.hinge(), 0.1), "sign"),
    "logistic": (online.logistic(0.4), "binary"),
    "rls": (online.rls(precision=0.3), "real"),
}


@pytest.mark.parametrize("name", BASES)
def test_with_the_linear_kernel_it_is_the_learner_of_columns(
    name: str, rng: np.random.Generator
):
    base, kind = BASES[name]
    X, y = rows(rng, kind)
    for compiled in (False, True):
        record = online.Record(every=7, compiled=compiled)
        plain = online.run(base, X, y, record=record)
        path = online.run(online.kernel(base, Linear()), X, y, record=record)
        np.testing.assert_allclose(
            path.predictions, plain.predictions, rtol=1e-10, atol=1e-10
        )
        for w, own in (
            (path.state.w, plain.state.w),
            (path.average(), plain.average()),
        ):
            np.testing.assert_allclose(
                path.state.memory["anchors"].T @ w, own, rtol=1e-10, atol=1e-10
            )
    b = rng.standard_normal(len(y))
    one, two = path.guarantee(b), plain.guarantee(X.T @ b)
    assert [a.holds for a in one.assumptions] == [a.holds for a in two.assumptions]
    assert (one.cumulative_loss, one.bound) == pytest.approx(
        (two.cumulative_loss, two.bound), rel=1e-8
    )
    assert path.regret(b).value == pytest.approx(plain.regret(X.T @ b).value, rel=1e-8)


def test_kernel_least_squares_is_the_gaussian_process_of_the_rows_so_far(
    rng: np.random.Generator,
):
    X, y = rows(rng, "real", 40)
    new, k, lam = rng.standard_normal((5, P)), RBF(1.5), 0.2
    learner = online.kernel(online.rls(precision=lam), k)
    for compiled in (False, True):
        path = online.run(
            learner, X, y, record=online.Record(every=1, compiled=compiled)
        )
        for t in range(2, 40):
            found = kernels.ridge_path(k(X[:t]), y[:t], offset=False)
            assert path.predictions[t] == pytest.approx(
                found.predict(k(X[t : t + 1], X[:t]), lam)[0, 0], rel=1e-9
            )
        # the posterior of f in units of the noise variance, the process having the covariance k / lam
        rest = k(new) - k(new, X) @ np.linalg.solve(k(X) + lam * np.eye(40), k(X, new))
        np.testing.assert_allclose(
            learner.covariance(path.state, new), rest / lam, rtol=1e-9, atol=1e-10
        )


def test_kernel_least_squares_is_the_fit_of_a_process(rng: np.random.Generator):
    """The exact posterior at equal hyperparameters: process of variance 1, noise of variance lam."""
    X, y = rows(rng, "real", 40)
    new, k, lam = rng.standard_normal((5, P)), RBF(1.5), 0.2
    learner = online.kernel(online.rls(precision=lam), k)
    state = online.run(learner, X, y).state
    fit = pr.kernel_ridge(X, y, kernel=k, lam=lam, intercept=False)
    np.testing.assert_allclose(
        learner.predict(state, new), fit.predict(new)["mean"], rtol=1e-8
    )
    model = pr.Model.from_arrays(
        kernels.basis(k, X).columns_at(X),
        y,
        intercept=False,
        prior=pr.Normal(1.0),
        aux={"sigma": lam**0.5},
    )
    at = kernels.basis(k, X).columns_at(X[:5])
    posterior = pr.fit(model, "posterior", seed=1).predict(at)
    np.testing.assert_allclose(
        learner.predict(state, X[:5]), posterior["mean"], rtol=1e-7
    )
    sd = np.sqrt(lam * np.diag(learner.covariance(state, X[:5])))
    width = (posterior["mean_upper"] - posterior["mean_lower"]) / (
        2 * 1.959963984540054
    )
    np.testing.assert_allclose(sd, width, rtol=1e-6)


def test_rows_that_come_again_are_told_apart_by_the_noise(rng: np.random.Generator):
    X, y = rows(rng, "real", 30)
    twice, z = np.vstack([X, X[::-1]]), np.r_[y, y[::-1] + 1]
    K = RBF(1.0)(twice)
    alpha = np.linalg.solve(K + 0.1 * np.eye(60), z)
    learner = online.kernel(online.rls(precision=0.1), RBF(1.0))
    path = online.run(learner, twice, z)
    assert len(path.state.w) == 60
    np.testing.assert_allclose(
        learner.predict(path.state, X), K[:30] @ alpha, rtol=1e-7
    )
    assert kept(path).bound > path.loss
    with pytest.raises(
        online.StreamError,
        match=r"row 30: K \+ 1e-20 I is not positive definite with this row",
    ):
        online.run(
            online.kernel(online.rls(precision=1e-20), RBF(1.0)),
            twice,
            z,
            record=online.Record(compiled=True),
        )


def family(name: str, rng: np.random.Generator, r2: float) -> online.Learner:
    k, share = RBF(float(np.exp(rng.normal()))), float(rng.uniform(0.05, 0.95))
    return {
        "lms": lambda: online.kernel(online.lms(share), k),
        "polynomial lms": lambda: online.kernel(
            online.lms(share / (1 + r2) ** 2), kernels.Polynomial(2, 1.0)
        ),
        "nlms": lambda: online.kernel(online.nlms(share), k),
        "rls": lambda: online.kernel(online.rls(precision=share), k),
    }[name]()


FAMILIES = [
    "lms",
    "polynomial lms",
    "nlms",
    "rls",
]


@pytest.mark.parametrize("count", [80, pytest.param(200, marks=pytest.mark.slow)])
def test_no_stream_breaks_a_bound(count: int, rng: np.random.Generator):
    for i, (X, y) in enumerate(streams(rng, count)):
        # of streams, every fifth turns against what was learnt
        name = FAMILIES[i // 5 % len(FAMILIES)]
        learner = family(name, rng, float((X**2).sum(axis=1).max()))
        path = online.run(learner, X, y, record=QUICK)
        least = kept(path)
        kept(path, least.comparator + 0.3 * rng.standard_normal(len(y)))
        kept(path, np.zeros(len(y)))


@pytest.mark.parametrize("count", [15, pytest.param(200, marks=pytest.mark.slow)])
def test_mistakes_of_a_kernel_perceptron_never_exceed_the_bound(
    count: int, rng: np.random.Generator
):
    for X, y in streams(rng, count):
        X, sign = X + 0.1 * rng.standard_normal(X.shape), np.where(y > 0, 1.0, -1.0)
        path = online.run(
            online.kernel(online.perceptron(), RBF(1.0)), X, sign, record=QUICK
        )
        kept(path, rng.standard_normal(len(y)))
        least = path.guarantee()
        assert least.holds


def test_the_first_rows_count_as_often_as_they_come(rng: np.random.Generator):
    """Passes, a state to go on from, and anchors that are met again."""
    X, y = rows(rng, "real", 25)
    learner = online.kernel(online.lms(0.3), RBF(1.0))
    path = online.run(learner, X, y, passes=4, shuffle=2)
    assert len(path.state.w) == 25
    kept(path)
    on = online.run(learner, X[:9], y[:9], state=path.state)
    kept(on)
    kept(on, rng.standard_normal(9))
    new = learner.predict(on.state, X[:3])
    assert learner.predict(on.state, X[0]) == pytest.approx(new[0], rel=1e-14)
    assert new[0] == pytest.approx(float(RBF(1.0)(X[:1], X)[0] @ _by_row(on.state, X)))
    mean = replace(path.state, w=path.average())
    drawn = online.run(learner, X, y, record=online.Record(every=1))
    each = [
        learner.predict(replace(drawn.state, w=w), X[:3]) for w in drawn.weights[:-1]
    ]
    np.testing.assert_allclose(
        learner.predict(replace(drawn.state, w=drawn.average()), X[:3]),
        np.mean(each, axis=0),
    )
    assert learner.predict(mean, X).shape == (25,)


def _by_row(state: online.State, X: np.ndarray) -> np.ndarray:
    w = np.zeros(len(X))
    for a, v in zip(state.memory["anchors"], state.w, strict=True):
        w[np.flatnonzero((a == X).all(1))[0]] = v
    return w


REFUSED = {
    "base has the geometry Simplex": lambda: online.kernel(online.eg(0.1), RBF()),
    "base has the geometry Signed": lambda: online.kernel(
        online.eg_pm(0.1, norm=2.0), RBF()
    ),
    "base has a ball": lambda: online.kernel(
        online.descent(online.ABSOLUTE, 0.1, online.Euclid(1.0)), RBF()
    ),
    "needs precision > 0 and no forgetting": lambda: online.kernel(online.rls(), RBF()),
    "base is KernelRLS": lambda: online.kernel(
        online.kernel(online.rls(precision=1.0), RBF()), RBF()
    ),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_has_no_function_behind_it_is_refused(words: str):
    with pytest.raises((DataError, Incompatible), match=words):
        REFUSED[words]()


@pytest.mark.parametrize("compiled", [False, True])
def test_rows_and_forecasts_that_cannot_be_used_are_named(
    compiled: bool, rng: np.random.Generator
):
    X, y = rows(rng, "real", 20)
    X[13, 1] = np.nan
    record = online.Record(compiled=compiled)
    learner = online.kernel(online.lms(0.3), RBF(1.0))
    with pytest.raises(online.StreamError, match="row 13: column 1 is nan") as met:
        online.run(learner, X, y, record=record)
    assert met.value.state.t == 13
    X[13, 1] = 0.0
    before = online.run(learner, X[:13], y[:13], record=record)
    np.testing.assert_array_equal(met.value.state.w, before.state.w)
    with pytest.raises(DataError, match=r"X has shape \(2,\): expected \(n, 3\)"):
        learner.predict(before.state, [1.0, 2.0])


def test_the_best_of_all_functions_is_no_comparator_and_streams_keep_no_rows(
    rng: np.random.Generator,
):
    X, y = rows(rng, "real", 20)
    learner = online.kernel(online.lms(0.3), RBF(1.0))
    path = online.run(learner, X, y)
    with pytest.raises(Incompatible, match="a function fits every row"):
        path.regret()
    with pytest.raises(
        DataError,
        match=r"comparator has shape \(1,\): expected one coefficient b_i .* \(20,\)",
    ):
        path.guarantee([1.0])
    with pytest.raises(DataError, match="rows of a stream are not kept"):
        online.run(learner, zip(X, y)).guarantee()
    nowhere = online.run(online.kernel(online.lms(0.3), Linear()), np.zeros_like(X), y)
    assert kept(nowhere).bound == pytest.approx(nowhere.loss) == pytest.approx(y @ y)
    with pytest.warns(
        UserWarning, match=r"step 2.5 times the largest k\(x, x\), 1, is 2.5"
    ):
        online.run(online.kernel(online.lms(2.5), RBF(1.0)), X, y)
