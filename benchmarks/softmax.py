"""Softmax regression by maximum likelihood against scikit-learn: `python benchmarks/softmax.py`.

Both are asked for the same: the gradient of the mean log-likelihood, on the columns as they are, below TOL for scikit-learn; what
was reached by each is printed, from the gradient at its answer.
"""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import softmax
from side_by_side import OURS, Estimate, compare, in_turn, installed, machine

import probreg as pr

SIZES = {(100_000, 20): 5, (200_000, 20): 5}  # (n, p): rounds
K, TOL, TARGET = 5, 1e-6, 0.35
SOLVERS = ("lbfgs", "newton-cholesky", "newton-cg")


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unequal scale and location; K classes of unequal size."""
    rng = np.random.default_rng(3)
    Z = rng.standard_normal((n, p))
    Z[:, 1:] += 0.3 * Z[:, :-1]
    eta = 0.4 * Z @ rng.standard_normal((p, K)) + np.linspace(0.0, 1.5, K)
    y = (softmax(eta, axis=1).cumsum(1) > rng.random((n, 1))).argmax(1)
    return Z * np.exp(rng.uniform(-1, 1, p)) + rng.uniform(-2, 2, p), y


def ours(X: np.ndarray, y: np.ndarray) -> Estimate:
    found = pr.fit(pr.Model.from_arrays(X, y, likelihood="categorical"))
    return Estimate(found.coef.values, found.std_error.values)


def scikit_learn(solver: str, X: np.ndarray, y: np.ndarray) -> Estimate:
    """Its coefficients against the first class."""
    from sklearn.linear_model import LogisticRegression

    found = LogisticRegression(solver=solver, C=np.inf, tol=TOL, max_iter=2000).fit(
        X, y
    )
    all_of = np.column_stack([found.intercept_, found.coef_]).T
    return Estimate(all_of[:, 1:] - all_of[:, :1])


def reached(found: Estimate, X: np.ndarray, y: np.ndarray) -> float:
    """The largest slope of the mean log-likelihood at an answer."""
    A = np.column_stack([np.ones(len(X)), X])
    p = softmax(np.column_stack([np.zeros(len(X)), A @ found.coef]), axis=1)
    return float(np.abs(A.T @ (np.eye(K)[y] - p)).max()) / len(X)


def main() -> None:
    print(f"Softmax regression, maximum likelihood, K = {K}. {machine('scikit-learn')}")
    ways: dict[str, Callable[[np.ndarray, np.ndarray], Estimate]] = {OURS: ours}
    if installed("sklearn"):
        ways |= {f"scikit-learn {s}": partial(scikit_learn, s) for s in SOLVERS}
    for way in ways.values():
        way(*data(100_000, 2))  # imports
    for (n, p), rounds in SIZES.items():
        X, y = data(n, p)
        print(f"\nn = {n:,}, p = {p}")
        slow = dict.fromkeys(
            (f"scikit-learn {s}" for s in SOLVERS if s != "newton-cholesky"), 1
        )
        timed = in_turn(
            {k: partial(w, X, y) for k, w in ways.items()}, rounds, fewer=slow
        )
        compare(timed, targets=dict.fromkeys(list(ways)[1:], TARGET))
        print(
            "  slope of the mean log-likelihood left: "
            + ", ".join(f"{k} {reached(v.result, X, y):.0e}" for k, v in timed.items())
        )


if __name__ == "__main__":
    main()
