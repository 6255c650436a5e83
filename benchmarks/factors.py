"""Factors of many levels: fits from a formula with the coefficients and standard errors of all levels, beside sparse peers.

Run as `python benchmarks/factors.py`, or with `--quick` for a tenth of the rows and levels. Seconds are processor time, the best of three, in
one process. The floor of least squares is scipy.sparse: normal equations of the columns in compressed rows and a sparse LU, with no
standard error; what it takes to make these columns from codes is counted, as ours counts the reading of the formula. scikit-learn's
logistic regression has the same sparse columns and no standard errors.
"""

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import probreg as pr
from probreg.diagnostics.before import separation


def rows(n: int, levels: int, seed: int = 0) -> dict[str, Any]:
    """Two columns and a factor, with a Gaussian, a binary and a count response."""
    rng = np.random.default_rng(seed)
    g, (a, b) = rng.integers(0, levels, n), rng.normal(size=(2, n))
    eta = 0.3 * a - 0.2 * b + 0.5 * rng.normal(size=levels)[g]
    y, k = eta + rng.normal(size=n), rng.random(n) < 1.0 / (1.0 + np.exp(-eta))
    return {
        "y": y,
        "k": k.astype(int),
        "c": rng.poisson(np.exp(eta)),
        "a": a,
        "b": b,
        "g": g,
    }


def timed(run: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    best, out = np.inf, None
    for _ in range(times):
        start = time.process_time()
        out = run()
        best = min(best, time.process_time() - start)
    return best, out


def columns(data: dict[str, Any]) -> Any:
    """The same design as a sparse matrix."""
    n, g = len(data["g"]), data["g"]
    levels, codes = np.unique(g, return_inverse=True)
    there = codes > 0
    D = sparse.csr_array(
        (np.ones(there.sum()), (np.flatnonzero(there), codes[there] - 1)),
        shape=(n, len(levels) - 1),
    )
    return sparse.hstack(
        [np.column_stack([np.ones(n), data["a"], data["b"]]), D], format="csr"
    )


def normal_equations(data: dict[str, Any]) -> np.ndarray:
    X = columns(data)
    return np.asarray(splu((X.T @ X).tocsc()).solve(X.T @ data["y"]))


def sklearn_logistic(data: dict[str, Any]) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=np.inf, solver="lbfgs", max_iter=1000, tol=1e-6).fit(
        columns(data)[:, 1:], data["k"]
    )


def memory() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def ours(data: dict[str, Any], response: str, likelihood: str) -> Any:
    fit = pr.fit(
        pr.Model.from_formula(f"{response} ~ a + b + C(g)", data, likelihood=likelihood)
    )
    assert np.isfinite(fit.std_error).all()
    return fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the rows and levels"
    )
    given = parser.parse_args()
    n, levels = (100_000, 1_000) if given.quick else (1_000_000, 10_000)
    data = rows(n, levels)
    ours(rows(100_000, 100), "y", "gaussian")
    before = memory()
    t, fit = timed(lambda: ours(data, "y", "gaussian"))
    print(
        f"least squares ({n:,} rows, {levels:,} levels): {t:.2f} s, {memory() - before:.0f} MB beside the data"
    )
    floor, beta = timed(lambda: normal_equations(data))
    apart = np.abs(beta - fit.coef.values) / fit.std_error.values
    print(
        f"  scipy.sparse normal equations, no SE: {floor:.2f} s, ratio {t / floor:.2f}, {apart.max():.0e} SE apart"
    )
    for response, likelihood in (("k", "bernoulli"), ("c", "poisson")):
        t, fit = timed(partial(ours, data, response, likelihood))
        print(f"{likelihood} ({n:,} rows, {levels:,} levels): {t:.2f} s")
        if likelihood == "bernoulli":
            theirs, _ = timed(lambda: sklearn_logistic(data), 1)
            print(
                f"  scikit-learn LogisticRegression of sparse columns, no SE: {theirs:.2f} s, ratio {t / theirs:.3f}"
            )
    some = pr.Model.from_formula(
        "k ~ a + b + C(g)", rows(20_000, 500), likelihood="bernoulli"
    )
    t, found = timed(lambda: separation(some))
    print(f"separation (20,000 rows, 500 levels): {t:.3f} s, {found.kind}")


if __name__ == "__main__":
    main()
