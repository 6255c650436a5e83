"""One pass of least mean squares against scikit-learn and river, and rates of the other learners, and of those
of functions: `python benchmarks/online.py`.

river is timed on its first rows only and scaled up; put it on PYTHONPATH to include it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from side_by_side import OURS, in_turn, installed, machine, spread

import probreg.online as online
from probreg import kernels

N, P, STEP = 1_000_000, 20, 1e-3
FEW = 5_000  # rows river is timed on
MET = 4_000  # rows of learners of functions, whose pass takes the square of them
ROUNDS = 9
SKLEARN, AVERAGED, RIVER = (
    "scikit-learn SGDRegressor",
    "scikit-learn, average=True",
    "river LinearRegression",
)
TARGETS = {SKLEARN: 0.5, AVERAGED: 0.5, RIVER: 0.005}


def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.standard_normal((N, P))
    return X, X @ rng.standard_normal(P) + rng.standard_normal(N)


def ours(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    path = online.run(online.lms(STEP), X, y)
    return path.state.w, path.average(), path.loss


def scikit_learn(X: np.ndarray, y: np.ndarray, average: bool) -> np.ndarray:
    from sklearn.linear_model import SGDRegressor

    same = {
        "penalty": None,
        "learning_rate": "constant",
        "eta0": STEP,
        "max_iter": 1,
        "tol": None,
    }
    return (
        SGDRegressor(**same, shuffle=False, fit_intercept=False, average=average)
        .fit(X, y)
        .coef_
    )


def river(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    from river import linear_model, optim

    model = linear_model.LinearRegression(
        optimizer=optim.SGD(STEP / 2), intercept_lr=0.0, l2=0.0
    )
    rows = [dict(enumerate(x)) for x in X[:FEW].tolist()]
    loss = 0.0
    for row, target in zip(rows, y[:FEW].tolist(), strict=True):
        loss += (model.predict_one(row) - target) ** 2
        model.learn_one(row, target)
    return np.array([model.weights[j] for j in range(P)])


def side_by_side(X: np.ndarray, y: np.ndarray) -> None:
    calls: dict[str, Callable[[], Any]] = {OURS: lambda: ours(X, y)}
    if installed("sklearn"):
        calls |= {
            SKLEARN: lambda: scikit_learn(X, y, False),
            AVERAGED: lambda: scikit_learn(X, y, True),
        }
    if installed("river"):
        calls[RIVER] = lambda: river(X, y)
    timed = in_turn(calls, ROUNDS, fewer={RIVER: 3})
    last, average, _ = timed[OURS].result
    few = online.run(online.lms(STEP), X[:FEW], y[:FEW]).state.w
    print(f"  {OURS:<38}{timed[OURS].median:>9.3f} s  {spread(timed[OURS])}")
    for name, want in ((SKLEARN, last), (AVERAGED, average), (RIVER, few)):
        if name not in timed:
            continue
        seconds = timed[name].median * (N / FEW if name == RIVER else 1)
        apart = np.abs(timed[name].result - want).max()
        ratio = timed[OURS].median / seconds
        print(
            f"  {name:<38}{seconds:>9.3f} s  ours/peer {ratio:.4f}, target {TARGETS[name]}; weights apart {apart:.0e}"
        )


def rates(X: np.ndarray, y: np.ndarray) -> None:
    """Rows a second of every learner, compiled beforehand."""
    side, code = np.where(y > 0, 1.0, -1.0), (y > 0) * 1.0
    step = online.inverse_sqrt(0.01)
    ball = online.descent(online.ABSOLUTE, step, online.Euclid(3.0))
    learners: dict[str, tuple[online.Learner, np.ndarray]] = {
        "lms": (online.lms(STEP), y),
        "nlms": (online.nlms(0.1), y),
        "eg": (online.eg(0.01), y),
        "eg_pm": (online.eg_pm(0.01, norm=20.0), y),
        "perceptron": (online.perceptron(), side),
        "logistic": (online.logistic(0.01), code),
        "absolute loss in a ball": (ball, y),
        "rls": (online.rls(precision=1.0), y),
    }
    n = 50_000
    calls = {
        name: lambda a=a, b=b: online.run(a, X[:n], b[:n]).loss
        for name, (a, b) in learners.items()
    }
    in_turn(calls, 1)
    for name, timed in in_turn(calls, 3).items():
        print(f"  {name:<38}{n / timed.median / 1e6:>9.2f} million rows a second")


def numpy_loop(X: np.ndarray, y: np.ndarray) -> float:
    """Kernel LMS as one writes it: k of the row and all rows before it, one product, one step."""
    alpha, loss = np.zeros(len(y)), 0.0
    for t in range(len(y)):
        e = np.exp(-0.05 * ((X[:t] - X[t]) ** 2).sum(axis=1)) @ alpha[:t] - y[t]
        loss += e * e
        alpha[t] = -0.2 * e
    return float(loss)


def functions(X: np.ndarray, y: np.ndarray) -> None:
    """Learners of functions: kernel LMS beside a loop of NumPy, and what the others take."""
    k = kernels.RBF(np.sqrt(10.0))
    learners = {
        OURS: online.kernel(online.lms(0.2), k),
        "kernel_rls": online.kernel(online.rls(precision=1.0), k),
    }
    fast = online.Record(compiled=True)
    calls: dict[str, Callable[[], Any]] = {
        name: lambda a=a: online.run(a, X, y, record=fast).loss
        for name, a in learners.items()
    }
    in_turn(calls, 1)
    timed = in_turn(calls | {"NumPy loop": lambda: numpy_loop(X, y)}, 5)
    peer = timed["NumPy loop"]
    for name, one in timed.items():
        print(f"  {name:<38}{one.median:>9.3f} s  {spread(one)}")
    apart = abs(timed[OURS].result / peer.result - 1)
    print(
        f"  kernel LMS, ours / NumPy loop {timed[OURS].median / peer.median:.3f}; losses apart {apart:.0e} of them"
    )


def main() -> None:
    X, y = data()
    print(f"Online learning. {machine('scikit-learn', 'river', 'numba')}")
    small = X[:1000], y[:1000]
    ours(*small)  # compiles, or reads what was compiled
    print(
        f"\nOne pass of LMS over n = {N:,}, p = {P}: losses, their sum, last and averaged weights"
    )
    side_by_side(X, y)
    path = online.run(online.lms(STEP), X, y)
    extra = in_turn(
        {
            "regret": lambda: path.regret().value,
            "guarantee": lambda: path.guarantee().bound,
        },
        1,
    )
    print("  and then " + ", ".join(f"{k} {v.median:.3f} s" for k, v in extra.items()))
    print(f"\nRates, p = {P}")
    rates(X, y)
    print(f"\nLearners of functions, one pass over n = {MET:,}, p = 10, RBF")
    functions(X[:MET, :10].copy(), y[:MET] / y[:MET].std())


if __name__ == "__main__":
    main()
