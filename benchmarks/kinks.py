"""Median and support vector regression beside statsmodels and scikit-learn: `python benchmarks/kinks.py [median] [svr] [fit] [basis]`.

`fit` times `pr.svr(X, y)` as a whole, from the inputs to the fit, beside `SVR().fit(X, y)`, in seconds and in processor time.
The others time the solver on arrays, `solve_piecewise_linear`, certified on all rows; its columns for a kernel K are those of its
eigen-decomposition, whose time is not counted, as scikit-learn's evaluations of the kernel are. The gap is that between the
primal and the dual value, over the primal, computed for both. BLAS has one thread.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np
from side_by_side import OURS, in_turn, installed, machine, spread

from probreg.inference.penalized.kink_mode import (
    PiecewiseLinear,
    PiecewiseLinearSolution,
    solve_piecewise_linear,
)

STATSMODELS, SKLEARN = "statsmodels QuantReg", "scikit-learn SVR"
Pair = tuple[np.ndarray, np.ndarray]


def line(n: int, p: int) -> Pair:
    """Ten normal columns, noise of a t distribution with 3 degrees of freedom."""
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(n), rng.standard_normal((n, p - 1))])
    return X, X @ np.arange(float(p)) + rng.standard_t(3, n)


def curve(n: int, d: int) -> Pair:
    """A sine of d uniform columns, noise of standard deviation 0.3."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (n, d))
    return X, np.sin(X @ np.arange(1, d + 1) * 2 / d) + 0.3 * rng.standard_normal(n)


def rbf(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    return np.exp(X @ Z.T - (X * X).sum(1)[:, None] / 2 - (Z * Z).sum(1) / 2)


def median(rounds: int) -> None:
    half, flat = PiecewiseLinear(*np.array([0.5, 0.5, 0.0])), np.zeros((10, 10))
    for n in (100_000, 1_000_000):
        X, y = line(n, 10)
        calls = {
            OURS: lambda X=X, y=y: solve_piecewise_linear(
                X, y, half, flat, np.zeros(10)
            )
        }
        if installed("statsmodels"):
            from statsmodels.api import QuantReg

            calls[STATSMODELS] = lambda X=X, y=y: QuantReg(y, X).fit(0.5)
        timed = in_turn(calls, rounds, fewer={STATSMODELS: 1} if n > 100_000 else None)
        ours = timed[OURS]
        print(
            f"median regression ({n:.0e}, 10): {OURS} {spread(ours)}, gap {ours.result.gap / ours.result.primal:.0e}"
        )
        if STATSMODELS in timed:
            peer = timed[STATSMODELS]
            apart = np.abs(peer.result.params - ours.result.beta).max()
            print(
                f"  {STATSMODELS} {spread(peer)}; ratio {ours.median / peer.median:.3f}, {apart:.0e} apart"
            )


def gap_of_peer(
    K: np.ndarray, y: np.ndarray, C: float, epsilon: float, fit: object
) -> float:
    """The relative gap of a fitted SVR, from its dual weights and its offset alone."""
    a = np.zeros(len(y))
    a[fit.support_] = fit.dual_coef_[0]
    f = K @ a
    primal = (
        C * np.maximum(np.abs(y - f - fit.intercept_[0]) - epsilon, 0).sum() + a @ f / 2
    )
    return (primal - (a @ y - epsilon * np.abs(a).sum() - a @ f / 2)) / primal


def support_vectors(rounds: int) -> None:
    X, y = curve(2000, 5)
    K = rbf(X, X)
    values, vectors = np.linalg.eigh(K)
    some = values > 2000 * np.finfo(float).eps * values[-1]
    B = np.column_stack([np.ones(2000), vectors[:, some] * np.sqrt(values[some])])
    P = np.diag(np.r_[0.0, np.ones(B.shape[1] - 1)])
    for C in (1.0, 10.0, 100.0):
        compare(f"SVR, RBF, n = 2000, C = {C:g}", rounds, X, y, C, B, P, K)


def whole_fits(rounds: int) -> None:
    """All of `pr.svr`: kernel, columns, solution, certificate and scales; length 1, and 2 for eight inputs."""
    import probreg as pr

    for d, length in ((2, 1.0), (5, 1.0), (8, 2.0)):
        X, y = curve(2000, d)
        gamma = 0.5 / length**2
        for C in (1.0, 10.0, 100.0):
            calls = {
                OURS: lambda: pr.svr(
                    X,
                    y,
                    kernel=pr.kernels.RBF(length),
                    C=C,
                    epsilon=0.1,
                )
            }
            calls[OURS]()  # compiles, once on a machine
            if installed("sklearn"):
                from sklearn.svm import SVR

                calls[SKLEARN] = lambda: SVR(C=C, epsilon=0.1, gamma=gamma).fit(X, y)
            work: dict[str, list[float]] = {name: [] for name in calls}
            timed = in_turn(
                {
                    name: processor_time(call, work[name])
                    for name, call in calls.items()
                },
                rounds,
            )
            at = timed[OURS].result.solution.stats
            print(
                f"pr.svr, {d} inputs, C = {C:g}: {OURS} {spread(timed[OURS])}, gap {at['gap'] / at['primal']:.0e}"
            )
            if SKLEARN in timed:
                peer = timed[SKLEARN]
                gap = gap_of_peer(rbf(X / length, X / length), y, C, 0.1, peer.result)
                ratio = timed[OURS].median / peer.median
                least, peers = min(work[OURS]), min(work[SKLEARN])
                print(
                    f"  {SKLEARN} {spread(peer)}, gap {gap:.0e}; ratio {ratio:.2f}; processor {least:.3f} and {peers:.3f} s: {least / peers:.2f}"
                )


def processor_time(call: Callable[[], Any], into: list[float]) -> Callable[[], Any]:
    """The call, which notes its seconds of processor time."""

    def timed() -> Any:
        start = process_time()
        result = call()
        into.append(process_time() - start)
        return result

    return timed


def basis(rounds: int) -> None:
    X, y = curve(20_000, 2)
    anchors = X[:200]
    values, vectors = np.linalg.eigh(rbf(anchors, anchors))
    some = values > 1e-10 * values[-1]
    B = np.column_stack(
        [np.ones(len(y)), rbf(X, anchors) @ (vectors[:, some] / np.sqrt(values[some]))]
    )
    P = np.diag(np.r_[0.0, np.ones(B.shape[1] - 1)])
    for C in (1.0, 10.0):
        compare(
            f"SVR, n = 20000, {B.shape[1]} columns, the exact kernel by its peer, C = {C:g}",
            rounds,
            X,
            y,
            C,
            B,
            P,
        )


def compare(
    name: str,
    rounds: int,
    X: np.ndarray,
    y: np.ndarray,
    C: float,
    B: np.ndarray,
    P: np.ndarray,
    K: np.ndarray | None = None,
) -> None:
    def ours() -> PiecewiseLinearSolution:
        return solve_piecewise_linear(
            B, y, PiecewiseLinear(*np.array([C, C, 0.1])), P, np.zeros(len(P))
        )

    ours()  # compiles, once on a machine
    calls = {OURS: ours}
    if installed("sklearn"):
        from sklearn.svm import SVR

        calls[SKLEARN] = lambda: SVR(C=C, epsilon=0.1, gamma=0.5).fit(X, y)
    timed = in_turn(calls, rounds, fewer={SKLEARN: 1} if K is None else None)
    found = timed[OURS].result
    print(
        f"{name}: {OURS} {spread(timed[OURS])}, gap {found.gap / found.primal:.0e}, {found.free.sum()} free rows"
    )
    if SKLEARN in timed:
        peer = timed[SKLEARN]
        gap = "" if K is None else f", gap {gap_of_peer(K, y, C, 0.1, peer.result):.0e}"
        apart = np.abs(peer.result.predict(X) - B @ found.beta).max()
        print(
            f"  {SKLEARN} {spread(peer)}{gap}; ratio {timed[OURS].median / peer.median:.3f}, {apart:.0e} apart"
        )


if __name__ == "__main__":
    cases = {
        "median": median,
        "svr": support_vectors,
        "fit": whole_fits,
        "basis": basis,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(cases))
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    print(machine("statsmodels", "scikit-learn"), f"load {os.getloadavg()[0]:.1f}")
    for case in asked.cases:
        cases[case](asked.rounds)
