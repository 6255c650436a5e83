"""Ridge and logistic ridge of 100 x 5,000, more columns than rows, beside scikit-learn: `python benchmarks/wide.py`.

The same objective: alpha = (sigma / sd)^2 for Ridge, C = sd^2 for LogisticRegression (lbfgs, tol=1e-8), a free intercept. Ours
includes `Model.from_arrays` and the standard errors, which scikit-learn has not. Memory is the peak of what one more call
allocates, as tracemalloc counts it, X apart.
"""

import argparse
import tracemalloc
from collections.abc import Callable
from functools import partial

import numpy as np
from side_by_side import OURS, Estimate, compare, in_turn, installed, machine

import probreg as pr

N, P, SD = 100, 5_000, 0.1
SKLEARN = "scikit-learn"
TARGETS = {"gaussian": (1.0, 300.0), "bernoulli": (3.0, 300.0)}  # seconds, MB


def data(n: int, p: int, likelihood: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    y = X @ rng.standard_normal(p) / np.sqrt(p) + rng.standard_normal(n)
    return X, y if likelihood == "gaussian" else (y > 0).astype(float)


def ours(X: np.ndarray, y: np.ndarray, likelihood: str) -> Estimate:
    aux = {"sigma": 1.0} if likelihood == "gaussian" else {}
    fit = pr.fit(
        pr.Model.from_arrays(X, y, likelihood=likelihood, prior=pr.Normal(SD), aux=aux)
    )
    return Estimate(fit.coef.values, fit.std_error.values)


def scikit_learn(X: np.ndarray, y: np.ndarray, likelihood: str) -> Estimate:
    from sklearn.linear_model import LogisticRegression, Ridge

    way = (
        Ridge(alpha=SD**-2)
        if likelihood == "gaussian"
        else LogisticRegression(C=SD**2, tol=1e-8, max_iter=10_000)
    )
    found = way.fit(X, y)
    return Estimate(np.r_[np.ravel(found.intercept_), np.ravel(found.coef_)])


def peak(call: Callable[[], object]) -> float:
    """MB that a call holds at once."""
    tracemalloc.start()
    call()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 1e6


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=7)
    rounds = arguments.parse_args().rounds
    print(f"Ridge of more columns than rows. {machine('scikit-learn')}")
    ways = {OURS: ours} | ({SKLEARN: scikit_learn} if installed("sklearn") else {})
    for likelihood, (seconds, memory) in TARGETS.items():
        for way in ways.values():
            way(*data(30, 3, likelihood), likelihood)  # imports
        calls = {
            name: partial(way, *data(N, P, likelihood), likelihood)
            for name, way in ways.items()
        }
        print(
            f"\n{likelihood}, n = {N:,}, p = {P:,}; targets of ours {seconds:g} s and {memory:g} MB"
        )
        compare(in_turn(calls, rounds))
        print(
            "  peak memory: "
            + ", ".join(f"{name} {peak(call):.0f} MB" for name, call in calls.items())
        )


if __name__ == "__main__":
    main()
