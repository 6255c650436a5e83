"""Least squares with standard errors against statsmodels and scikit-learn: `python benchmarks/ols.py`."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from side_by_side import OURS, Estimate, Timed, compare, in_turn, installed, machine

import probreg as pr

SIZES = {
    (1_000_000, 20): (5, 0.02),
    (100_000, 200): (5, 0.05),
}  # (n, p): rounds, target of ours / statsmodels
STATSMODELS = "statsmodels OLS + bse"


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unequal scale and location, correlated 0.3 with their neighbour."""
    rng = np.random.default_rng(1)
    Z = rng.standard_normal((n, p))
    Z[:, 1:] += 0.3 * Z[:, :-1]
    X = Z * np.exp(rng.uniform(-1, 1, p)) + rng.uniform(-2, 2, p)
    return X, 1.0 + X @ rng.uniform(-1, 1, p) + 2.0 * rng.standard_normal(n)


def ours(X: np.ndarray, y: np.ndarray) -> Estimate:
    found = pr.fit(pr.Model.from_arrays(X, y))
    return Estimate(found.coef.values, found.std_error.values)


def normal_equations(X: np.ndarray, y: np.ndarray) -> Estimate:
    """The least that can be done: X'X by one BLAS call, no check of the input or of conditioning, eight digits at risk."""
    A = np.hstack([np.ones((len(X), 1)), X])
    factor = cho_factor(A.T @ A)
    coef = cho_solve(factor, A.T @ y)
    variance = np.sum((y - A @ coef) ** 2) / (len(y) - A.shape[1])
    return Estimate(
        coef, np.sqrt(variance * np.diag(cho_solve(factor, np.eye(len(coef)))))
    )


def statsmodels(X: np.ndarray, y: np.ndarray) -> Estimate:
    import statsmodels.api as sm

    found = sm.OLS(y, sm.add_constant(X)).fit()
    return Estimate(found.params, found.bse)


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Estimate:
    from sklearn.linear_model import LinearRegression

    found = LinearRegression().fit(X, y)
    return Estimate(np.r_[found.intercept_, found.coef_])


def ways() -> dict[str, Callable[[np.ndarray, np.ndarray], Estimate]]:
    found: dict[str, Callable[[np.ndarray, np.ndarray], Estimate]] = {OURS: ours}
    if installed("statsmodels"):
        found[STATSMODELS] = statsmodels
    if installed("sklearn"):
        found["scikit-learn LinearRegression"] = scikit_learn
    return found | {"NumPy normal equations (a floor)": normal_equations}


def parts(X: np.ndarray, y: np.ndarray) -> dict[str, Timed]:
    """Where our time goes: making the model (copy, checks), then the fit."""
    made = in_turn({"Model.from_arrays": lambda: pr.Model.from_arrays(X, y)}, 3)
    # moments are kept by a model, so each run needs its own
    models = [pr.Model.from_arrays(X, y) for _ in range(3)]
    return made | in_turn(
        {"fit + std_error": lambda: pr.fit(models.pop()).std_error.values}, 3
    )


def main() -> None:
    print(
        f"Least squares with standard errors. {machine('statsmodels', 'scikit-learn')}"
    )
    small = data(1000, 5)
    for way in ways().values():
        way(*small)  # imports
    for (n, p), (rounds, target) in SIZES.items():
        X, y = data(n, p)
        print(f"\nn = {n:,}, p = {p}")
        compare(
            in_turn({k: partial(w, X, y) for k, w in ways().items()}, rounds),
            targets={STATSMODELS: target},
        )
        print(
            "  of which "
            + ", ".join(f"{k} {v.median:.3f} s" for k, v in parts(X, y).items())
        )


if __name__ == "__main__":
    main()
