"""Fifty scales of a normal prior from one decomposition, beside that decomposition alone: `python benchmarks/path.py`.

- `tune` by leave-one-out and by evidence over 50 scales, the columns those of an exact RBF basis (diabetes, 442 rows; rows drawn at
  random, n = 2,000) beside one `numpy.linalg.eigh` of K, and plain columns (n x p, p < n) beside one SVD of X.
- A kernel ridge path of 50 with leave-one-out, n = 2,000, beside 50 times scikit-learn's KernelRidge and the inverse of K + lam I for
  the left-out residuals; three of the fifty are run, and counted fifty times.

The model is made before, as K is. The least lam is 1e-6 of the largest eigenvalue; `--weak` goes on to 1e-12, where singular
values of the columns take the place of eigenvalues of K.
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from side_by_side import in_turn, installed, machine, spread

import probreg as pr
from probreg import kernels

SCALES, GOAL, GOAL_PATH = 50, 1.3, 0.1
REPEATED = 3


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    if not installed("sklearn"):
        rng = np.random.default_rng(1)
        return rng.standard_normal((442, 10)), 50.0 * rng.standard_normal(442) + 150.0
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True, scaled=False)
    return (X - X.mean(0)) / X.std(0), y


def drawn(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d))
    return X, np.sin(X).sum(1) + 0.5 * rng.standard_normal(n)


def scales_of(largest: float, least: float) -> np.ndarray:
    """lam = 1 / s^2 from the largest eigenvalue down to `least` of it."""
    return np.geomspace(1.0, least**-0.5, SCALES) / np.sqrt(largest)


def show(
    title: str, calls: dict[str, Callable[[], Any]], alone: str, rounds: int
) -> None:
    timed = in_turn(calls, rounds)
    one = timed[alone]
    print(f"\n{title}\n  {alone:<34}{one.median:>9.4f} s  {spread(one)}")
    for name, each in timed.items():
        if name != alone:
            print(
                f"  {name:<34}{each.median:>9.4f} s  {each.median / one.median:>6.2f} (goal {GOAL})  {spread(each)}"
            )


def tunes(model: pr.Model, scales: np.ndarray) -> dict[str, Callable[[], Any]]:
    return {
        f"tune by {by}, {SCALES} scales": partial(pr.tune, model, by, scales=scales)
        for by in ("loo", "evidence")
    }


def of_kernel(
    title: str, X: np.ndarray, y: np.ndarray, length: float, least: float, rounds: int
) -> None:
    k = kernels.RBF(length)
    K, Phi = k(X), kernels.basis(k, X).columns_at(X)
    model = pr.Model.from_arrays(Phi, y, prior=pr.Normal(1.0, sigma_units=True))
    scales = scales_of(float(np.linalg.eigvalsh(K)[-1]), least)
    show(
        title,
        {"eigh of K": partial(np.linalg.eigh, K), **tunes(model, scales)},
        "eigh of K",
        rounds,
    )


def of_columns(
    title: str, X: np.ndarray, y: np.ndarray, least: float, rounds: int
) -> None:
    model = pr.Model.from_arrays(X, y, prior=pr.Normal(1.0, sigma_units=True))
    scales = scales_of(float(np.linalg.norm(X, 2) ** 2), least)
    svd = partial(np.linalg.svd, X, full_matrices=False)
    show(title, {"SVD of X": svd, **tunes(model, scales)}, "SVD of X", rounds)


def path_with_leave_one_out(n: int, rounds: int) -> None:
    from sklearn.kernel_ridge import KernelRidge

    X, y = drawn(n, 5)
    k, gamma = kernels.RBF(2.0), 0.5 / 2.0**2
    lams = np.geomspace(1e-3, 1e2, SCALES)

    def ours() -> np.ndarray:
        path = kernels.ridge_path(k(X), y, offset=False)
        path.alpha(lams)
        return np.square(path.loo_residuals(lams)).mean(1)

    def peer() -> np.ndarray:
        out = []
        for lam in lams[:: SCALES // REPEATED][:REPEATED]:
            fit = KernelRidge(alpha=lam, kernel="rbf", gamma=gamma).fit(X, y)
            inverse = np.linalg.inv(k(X) + lam * np.eye(n))
            out.append(np.square(fit.dual_coef_ / np.diagonal(inverse)).mean())
        return np.array(out)

    timed = in_turn({"probreg": ours, "scikit-learn": peer}, rounds)
    one, three = timed["probreg"], timed["scikit-learn"]
    apart = np.abs(
        one.result[:: SCALES // REPEATED][:REPEATED] / three.result - 1.0
    ).max()
    whole = three.median * SCALES / REPEATED
    print(
        f"\nkernel ridge path of {SCALES} with leave-one-out, n = {n:,}; errors agree to {apart:.0e}"
    )
    print(f"  {'probreg, K included':<34}{one.median:>9.3f} s  {spread(one)}")
    print(
        f"  {'KernelRidge and the inverse, x 50':<34}{whole:>9.3f} s  ratio {one.median / whole:.3f} (goal {GOAL_PATH})"
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--weak", action="store_true")
    asked = arguments.parse_args()
    least, rounds = (1e-12 if asked.weak else 1e-6), asked.rounds
    print(f"One decomposition of all scales. {machine('scikit-learn')}")
    pr.tune(
        pr.Model.from_arrays(
            [0.0, 1.0, 3.0], [1.0, 0.0, 2.0], prior=pr.Normal(1.0), aux={"sigma": 1.0}
        ),
        "loo",
    )  # imports
    of_kernel("diabetes, RBF(5), n = p = 442", *diabetes(), 5.0, least, 4 * rounds)
    of_kernel(
        "RBF(2), n = p = 2,000", *drawn(2_000, 5), 2.0, least, max(rounds // 2, 1)
    )
    of_columns("plain columns, 20,000 x 200", *drawn(20_000, 200), least, rounds)
    of_columns("plain columns, 2,000 x 800", *drawn(2_000, 800), least, rounds)
    of_columns("wide columns, 400 x 5,000", *drawn(400, 5_000), least, rounds)
    if installed("sklearn"):
        path_with_leave_one_out(2_000, max(rounds // 2, 1))


if __name__ == "__main__":
    main()
