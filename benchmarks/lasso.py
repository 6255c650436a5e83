"""A lasso path of 100 penalties against scikit-learn, celer and skglm at one accuracy: `python benchmarks/lasso.py`.

Every way solves ||y - b0 - X b||^2 / (2 n) + alpha sum_j |b_j| for the same 100 values of alpha, a thousandfold down from the
least that leaves all coefficients at zero, to a duality gap of 1e-8 of the objective at zero, which is checked afterwards for
every way and alpha. Peers get X and y centred (that is counted); ours fits its intercept. BLAS has two threads.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "2")

import argparse
from collections.abc import Callable
from functools import partial
from time import perf_counter

import numpy as np
from side_by_side import OURS, Timed, in_turn, installed, machine, spread

import probreg as pr
from probreg.inference import mode_path

SIZES = {(10_000, 1000): 50, (500, 5000): 25}  # (n, p): columns that matter
GAP = 1e-8
TARGET = 1.0
SKLEARN = "scikit-learn lasso_path"
Path = np.ndarray  # (alphas, p)


def data(n: int, p: int, relevant: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns correlated 0.5 with their neighbour, signal three times the noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    for j in range(1, p):
        X[:, j] = 0.5 * X[:, j - 1] + np.sqrt(0.75) * X[:, j]
    b = np.zeros(p)
    b[rng.choice(p, relevant, replace=False)] = rng.standard_normal(relevant)
    signal = X @ b
    return X, 3.0 + signal + rng.standard_normal(n) * signal.std() / 3.0


def alphas(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (
        np.abs((X - X.mean(0)).T @ (y - y.mean())).max()
        / len(X)
        * np.logspace(0, -3, 100)
    )


def ours(X: np.ndarray, y: np.ndarray, grid: np.ndarray) -> Path:
    """The posterior mode under Laplace(1 / (n alpha)) with sigma held at 1, the making of the model included."""
    model = pr.Model.from_arrays(X, y, prior=pr.Laplace(1.0), aux={"sigma": 1.0})
    return mode_path(model, 1.0 / (len(X) * grid), tol=3e-7).beta[:, 1:, 0]


def centred(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.asfortranarray(X - X.mean(0)), y - y.mean()


def scikit_learn(X: np.ndarray, y: np.ndarray, grid: np.ndarray) -> Path:
    from sklearn.linear_model import lasso_path

    U, v = centred(X, y)
    return lasso_path(U, v, alphas=grid, tol=GAP / 2, max_iter=100_000)[1].T


def celer(X: np.ndarray, y: np.ndarray, grid: np.ndarray) -> Path:
    from celer import celer_path

    U, v = centred(X, y)
    return celer_path(
        U, v, "lasso", alphas=grid, tol=GAP / 2, max_iter=1000, max_epochs=100_000
    )[1].T


def skglm(X: np.ndarray, y: np.ndarray, grid: np.ndarray) -> Path:
    """Its tolerance bounds the subgradient, not the gap: set so that the gap comes out as asked."""
    from skglm.datafits import Quadratic
    from skglm.penalties import L1
    from skglm.solvers import AndersonCD

    U, v = centred(X, y)
    solver = AndersonCD(
        tol=SKGLM_TOL * grid[-1],
        max_iter=500,
        max_epochs=100_000,
        fit_intercept=False,
        warm_start=True,
    )
    penalty, datafit = L1(grid[0]), Quadratic()
    datafit.initialize(U, v)
    w, fitted, out = np.zeros(U.shape[1]), np.zeros(len(U)), []
    for alpha in grid:
        penalty.alpha = alpha
        w = solver.solve(U, v, datafit, penalty, w, fitted)[0]
        fitted = U @ w
        out.append(w.copy())
    return np.array(out)


SKGLM_TOL = 1e-4


def gaps(X: np.ndarray, y: np.ndarray, grid: np.ndarray, path: Path) -> float:
    """The largest duality gap along the path, over the objective at zero."""
    U, v = centred(X, y)
    R = v[:, None] - U @ path.T
    G = U.T @ R
    share = np.minimum(1.0, len(X) * grid / np.abs(G).max(0))
    own = len(X) * grid * np.abs(path).sum(1) - share * np.einsum("jk,kj->k", G, path)
    return float(((0.5 * (1 - share) ** 2 * (R**2).sum(0) + own) / (0.5 * v @ v)).max())


def ways() -> dict[str, Callable[..., Path]]:
    found: dict[str, Callable[..., Path]] = {OURS: ours}
    for module, way in (("sklearn", scikit_learn), ("celer", celer), ("skglm", skglm)):
        if installed(module):
            found[SKLEARN if module == "sklearn" else module] = way
    return found


def table(timed: dict[str, Timed], gap: dict[str, float]) -> None:
    mine = timed[OURS].median
    print(
        f"  {'':<28}{'seconds':>9}{'ours/peer':>11}{'target':>8}  largest relative gap"
    )
    for name, t in timed.items():
        ratio = "" if name == OURS else f"{mine / t.median:.3f}"
        print(
            f"  {name:<28}{t.median:>9.3f}{ratio:>11}{'' if name == OURS else f'{TARGET:.1f}':>8}  {gap[name]:.1e}; {spread(t)}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--all",
        action="store_true",
        help="scikit-learn with more columns than rows too: minutes",
    )
    chosen = arguments.parse_args()
    print(f"A lasso path of 100. {machine('scikit-learn', 'celer', 'skglm', 'numba')}")
    small = data(60, 20, 3)
    for name, way in ways().items():
        start = perf_counter()
        way(*small, alphas(*small))
        print(
            f"  first call of {name} on 60 rows, imports and compilation included: {perf_counter() - start:.2f} s"
        )
    for (n, p), relevant in SIZES.items():
        X, y = data(n, p, relevant)
        grid = alphas(X, y)
        print(f"\nn = {n:,}, p = {p}")
        here = {
            k: w
            for k, w in ways().items()
            if chosen.all or p < n or w is not scikit_learn
        }
        calls = {k: partial(w, X, y, grid) for k, w in here.items()}
        timed = in_turn(
            calls,
            chosen.rounds,
            fewer={"skglm": 1, SKLEARN: 1 if p > n else chosen.rounds},
        )
        table(timed, {k: gaps(X, y, grid, t.result) for k, t in timed.items()})


if __name__ == "__main__":
    main()
