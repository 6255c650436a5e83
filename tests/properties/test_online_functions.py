"""Laws of learners of functions and of aggregation: the columns of a kernel, budgets, Gaussian processes, bounds on any stream."""

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
    "falling": (online.lms(online.inverse_time(0.1)), "real"),
    "decay": (
        online.Gradient(online.insensitive(0.2), online.constant(0.1), ridge=0.3),
        "real",
    ),
    "ball": (
        online.descent(online.ABSOLUTE, online.inverse_sqrt(0.4), online.Euclid(0.7)),
        "real",
    ),
    "perceptron": (online.perceptron(0.6), "sign"),
    "batch": (online.batch_perceptron(7, 0.3), "sign"),
    "passive": (online.passive_aggressive(0.3), "sign"),
    "hinge": (online.descent(online.hinge(), 0.1), "sign"),
    "logistic": (online.logistic(0.4), "binary"),
    "binomial": (online.binomial(0.04), "trials"),
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
        np.testing.assert_allclose(path.norms, plain.norms, rtol=1e-9, atol=1e-9)
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
    assert (one.suffered, one.bound) == pytest.approx(
        (two.suffered, two.bound), rel=1e-8
    )
    assert path.regret(b).value == pytest.approx(plain.regret(X.T @ b).value, rel=1e-8)


@pytest.mark.filterwarnings("ignore:.*mistakes in the last of 2 passes")
@pytest.mark.parametrize("name", [n for n in BASES if n not in ("ball", "rls")])
def test_a_budget_as_large_as_the_rows_changes_nothing(
    name: str, rng: np.random.Generator
):
    base, kind = BASES[name]
    X, y = rows(rng, kind)
    for compiled in (False, True):
        free, held, tight = (
            online.run(
                online.kernel(base, RBF(1.0), b),
                X,
                y,
                passes=2,
                record=online.Record(compiled=compiled),
            )
            for b in (None, len(y), 8)
        )
        np.testing.assert_array_equal(held.losses, free.losses)
        np.testing.assert_array_equal(held.state.w, free.state.w)
        assert held.guarantee().bound == pytest.approx(free.guarantee().bound, rel=1e-9)
        assert len(tight.state.w) == 8
        assert tight.guarantee().bound == np.inf
        assert "NOT MET" in str(tight.guarantee())


def test_kernel_least_squares_is_the_gaussian_process_of_the_rows_so_far(
    rng: np.random.Generator,
):
    X, y = rows(rng, "real", 40)
    new, k, lam = rng.standard_normal((5, P)), RBF(1.5), 0.2
    learner = online.kernel_rls(k, lam)
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
    learner = online.kernel_rls(k, lam)
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
    for learner, size in (
        (online.kernel_rls(RBF(1.0), 0.1), 60),
        (online.kernel_rls(RBF(1.0), 0.1, tolerance=1e-9), 30),
    ):
        path = online.run(learner, twice, z)
        assert len(path.state.w) == size
        np.testing.assert_allclose(
            learner.predict(path.state, X), K[:30] @ alpha, rtol=1e-7
        )
        assert kept(path).bound > path.loss
    with pytest.raises(
        online.StreamError,
        match=r"row 30: K \+ 1e-20 I is not positive definite to rounding",
    ):
        online.run(
            online.kernel_rls(RBF(1.0), 1e-20),
            twice,
            z,
            record=online.Record(compiled=True),
        )


def test_a_dictionary_within_its_tolerance_errs_little(rng: np.random.Generator):
    x = np.sort(rng.uniform(0, 10, 300))
    y = np.sin(x) + 0.1 * rng.standard_normal(300)
    exact, few, full = (
        online.run(online.kernel_rls(RBF(1.0), 0.1, **how), x[:, None], y)
        for how in ({}, {"tolerance": 1e-6}, {"tolerance": 1e-6, "budget": 8})
    )
    assert len(few.state.w) < 30
    assert len(full.state.w) == 8
    np.testing.assert_allclose(few.predictions, exact.predictions, atol=0.05)
    K = RBF(1.0)(x)
    np.testing.assert_allclose(
        exact.learner.predict(exact.state, x[:, None]),
        K @ np.linalg.solve(K + 0.1 * np.eye(300), y),
        atol=1e-9,
    )
    assert "NOT MET: no row was replaced by its projection on the dictionary" in str(
        few.guarantee()
    )
    assert exact.guarantee().applies


@pytest.mark.parametrize("C", [0.3, 2.0])
def test_passes_of_dual_ascent_end_at_the_minimum(C: float, rng: np.random.Generator):
    X, y = rows(rng, "real", 25)
    K, eps = RBF(1.0)(X), 0.1
    path = online.run(online.dual_svr(RBF(1.0), C, eps=eps), X, y, passes=1000)
    beta = np.zeros(25)
    where = [
        int(np.flatnonzero((a == X).all(1))[0]) for a in path.state.memory["anchors"]
    ]
    beta[where] = path.state.w
    r = y - K @ beta
    primal = beta @ K @ beta / 2 + C * np.maximum(np.abs(r) - eps, 0).sum()
    dual = y @ beta - eps * np.abs(beta).sum() - beta @ K @ beta / 2
    assert np.abs(beta).max() <= C
    assert primal - dual < 1e-9 * primal


def family(name: str, rng: np.random.Generator, r2: float) -> online.Learner:
    k, share = RBF(float(np.exp(rng.normal()))), float(rng.uniform(0.05, 0.95))
    return {
        "lms": lambda: online.kernel(online.lms(share), k),
        "polynomial lms": lambda: online.kernel(
            online.lms(share / (1 + r2) ** 2), kernels.Polynomial(2, 1.0)
        ),
        "nlms": lambda: online.kernel(online.nlms(share), k),
        "rls": lambda: online.kernel_rls(k, share),
        "absolute": lambda: online.kernel(
            online.descent(online.ABSOLUTE, 3 * share), k
        ),
        "decay": lambda: online.kernel(
            online.Gradient(
                online.insensitive(0.1),
                online.constant(share),
                ridge=float(rng.uniform(0.01, 1)),
            ),
            k,
        ),
        "squared decay": lambda: online.kernel(
            online.Gradient(
                online.SQUARED,
                online.constant(share),
                ridge=float(rng.uniform(0.01, 1)),
            ),
            k,
        ),
        "dual": lambda: online.dual_svr(
            k, 3 * share, eps=0.1, step=[None, share][int(rng.integers(2))]
        ),
    }[name]()


FAMILIES = [
    "lms",
    "polynomial lms",
    "nlms",
    "rls",
    "absolute",
    "decay",
    "squared decay",
    "dual",
]


@pytest.mark.parametrize("count", [80, pytest.param(1000, marks=pytest.mark.slow)])
def test_no_stream_breaks_a_bound(count: int, rng: np.random.Generator):
    for i, (X, y) in enumerate(streams(rng, count)):
        name = FAMILIES[
            i // 5 % len(FAMILIES)
        ]  # of streams, every fifth turns against what was learnt
        if name == "dual":  # its theorem is of rows that come once
            X = X + 1e-3 * rng.standard_normal(X.shape)
        learner = family(name, rng, float((X**2).sum(axis=1).max()))
        path = online.run(learner, X, y, record=QUICK)
        least = kept(path)
        kept(path, least.comparator + 0.3 * rng.standard_normal(len(y)))
        kept(path, np.zeros(len(y)))


@pytest.mark.parametrize("count", [15, pytest.param(1000, marks=pytest.mark.slow)])
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
        assert least.kept


@pytest.mark.parametrize("rule", ["vovk", "mean"])
@pytest.mark.parametrize("count", [15, pytest.param(1000, marks=pytest.mark.slow)])
def test_an_aggregate_is_nearly_as_good_as_its_best_learner(
    rule: str, count: int, rng: np.random.Generator
):
    for X, y in streams(rng, count):
        low, high = float(y.min()) - 1e-9, float(y.max()) + float(rng.uniform(0.1, 2))
        step = float(rng.uniform(0.1, 1.9)) / (1 + float((X**2).sum(axis=1).max()))
        learners = [
            online.lms(step),
            online.kernel(online.lms(0.4), RBF(1.0)),
            online.rls(precision=1.0),
        ]
        both = online.aggregate(learners, low=low, high=high, rule=rule, clip=True)
        path = online.run(both, X, y, record=QUICK)
        promise = kept(path)
        assert (
            path.regret().value
            <= {"vovk": 0.5, "mean": 2.0}[rule] * (high - low) ** 2 * np.log(3) + 1e-9
        )
        kept(path, rng.dirichlet(np.ones(3)))
        alone = online.run(learners[1], X, y, record=QUICK)
        own = np.sum((np.clip(alone.predictions, low, high) - y) ** 2)
        assert path.loss_of([0, 1, 0]) == pytest.approx(own, rel=1e-9, abs=1e-12)
        assert promise.comparator_loss <= own + 1e-9


def test_the_forecast_is_within_the_mixture_at_both_ends(rng: np.random.Generator):
    """(p - y)^2 <= g(y) for y = low, high, all that the proof needs; at twice the rate no forecast could do it."""
    learner = online.aggregate(
        [online.lms(0.1), online.lms(0.2), online.lms(0.3)], low=-1, high=3
    )
    F, w = rng.uniform(-1, 3, (1000, 3)), rng.dirichlet(np.ones(3), 1000)
    p = learner._mix_forecasts(w, F)
    assert ((p >= -1) & (p <= 3)).all()
    for y in (-1, 3):
        g = (
            -np.log(np.sum(w * np.exp(-learner.rate * (F - y) ** 2), axis=1))
            / learner.rate
        )
        assert ((p - y) ** 2 <= g + 1e-12).all()


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


def test_the_bound_of_many_rows_is_that_of_a_basis(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
):
    from probreg.online import functions

    X, y = rows(rng, "real", 60)
    path = online.run(online.kernel(online.lms(0.3), RBF(2.0)), X, y)
    exact = kept(path)
    monkeypatch.setattr(functions, "EXACT", 50)
    basis = kept(path)
    assert basis.bound == pytest.approx(exact.bound, rel=1e-3)
    assert basis.bound >= exact.bound * (
        1 - 1e-9
    )  # the least over a part of the functions
    on = online.run(path.learner, X, y, state=path.state)
    with pytest.raises(
        DataError,
        match="120 rows and anchors: the bound for a run that went on from others",
    ):
        on.guarantee()


REFUSED = {
    "the steps of Simplex are in each weight by itself": lambda: online.kernel(
        online.eg(0.1), RBF()
    ),
    "the steps of Signed": lambda: online.kernel(online.winnow(0.1, norm=2.0), RBF()),
    "AdaGrad scales each column": lambda: online.kernel(
        online.logistic(online.adagrad(0.1)), RBF()
    ),
    "an l1 ball is of the weights": lambda: online.kernel(
        online.descent(online.ABSOLUTE, 0.1, online.Euclid(1.0, "l1")), RBF()
    ),
    "a ball goes with neither": lambda: online.kernel(
        online.descent(online.ABSOLUTE, 0.1, online.Euclid(1.0)), RBF(), budget=3
    ),
    "it is not built for Softmax": lambda: online.kernel(online.softmax(3), RBF()),
    "it is not built for AffineProjection": lambda: online.kernel(
        online.affine_projection(), RBF()
    ),
    "it is not built for Standardised": lambda: online.kernel(
        online.Standardised(online.lms()), RBF()
    ),
    "a budget of RLS needs a tolerance": lambda: online.kernel(
        online.rls(precision=1.0), RBF(), budget=9
    ),
    "a budget needs a tolerance above 0": lambda: online.kernel_rls(RBF(), budget=9),
    "forgetting is not built": lambda: online.kernel(
        online.rls(0.9, precision=1.0), RBF()
    ),
    "RLS without precision fits every row": lambda: online.kernel(online.rls(), RBF()),
    "a learner of functions already": lambda: online.kernel(
        online.dual_svr(RBF()), RBF()
    ),
    "Standardised is for learners of columns": lambda: online.Standardised(
        online.kernel(online.lms(), RBF())
    ),
    "has the softmax loss": lambda: online.aggregate([online.softmax(3), online.lms()]),
    "low is 2 and high 1": lambda: online.aggregate(
        [online.lms(), online.lms()], low=2, high=1
    ),
    "learners holds 1": lambda: online.aggregate([online.lms()]),
    "is a Learner of probreg.online, got str": lambda: online.aggregate(
        [online.lms(), "lms"]
    ),
    "learners is a list of learners": lambda: online.aggregate(online.lms()),
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
    with pytest.raises(
        DataError, match=r"X has shape \(2,\), and the anchors have 3 columns"
    ):
        learner.predict(before.state, [1.0, 2.0])
    flat, target = np.linspace(0.1, 1, 20)[:, None], np.full(20, 0.9)
    wild = online.aggregate([online.lms(0.1), online.lms(1.9)])
    with pytest.raises(
        online.StreamError,
        match=r"the forecast of learners\[1\] is 1.\d+, outside \[0, 1\]",
    ) as met:
        online.run(wild, np.tile(flat, (3, 1))[::-1], np.tile(target, 3), record=record)
    assert 0 < met.value.state.t < 60
    with pytest.raises(
        online.StreamError,
        match=r"row 2: y is 1\.5, but this learner needs numbers from 0 to 1",
    ):
        online.run(wild, flat[:3], [0.5, 0.5, 1.5], record=record)
    with pytest.raises(Incompatible, match="the learners behind them learn too"):
        _ = (
            online.run(
                online.aggregate([online.lms(0.1), online.lms(0.2)]), flat, target
            )
            .guarantee()
            .risk
        )


def test_the_best_of_all_functions_is_no_comparator_and_streams_keep_no_rows(
    rng: np.random.Generator,
):
    X, y = rows(rng, "real", 20)
    learner = online.kernel(online.lms(0.3), RBF(1.0))
    path = online.run(learner, X, y)
    with pytest.raises(Incompatible, match="the best of all functions fits every row"):
        path.regret()
    with pytest.raises(
        DataError,
        match=r"comparator holds the b of f = sum_i b_i k\(x_i, .\), one per row \(20,\)",
    ):
        path.guarantee([1.0])
    with pytest.raises(DataError, match="the rows of a stream are not kept"):
        online.run(learner, zip(X, y)).guarantee()
    few = online.run(online.kernel(online.lms(0.3), RBF(1.0), 5), X, y).to_dataset()
    assert few.sizes["round"] == 20
    assert "average" not in few
    nowhere = online.run(online.kernel(online.lms(0.3), Linear()), np.zeros_like(X), y)
    assert kept(nowhere).bound == pytest.approx(nowhere.loss) == pytest.approx(y @ y)
    with pytest.warns(
        UserWarning, match=r"step 2.5 times the largest k\(x, x\), 1, is 2.5"
    ):
        online.run(online.kernel(online.lms(2.5), RBF(1.0)), X, y)
