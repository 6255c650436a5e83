"""Scales of a normal prior chosen by folds beside scikit-learn at an equal grid and equal folds: `python benchmarks/tuning.py`.

- statsmodels' `fair` (logistic, 6,366 rows, 11 columns), 50 scales by 10 folds and by leave-one-out, beside LogisticRegressionCV
  with its solvers newton-cholesky and lbfgs, C = scale^2. The columns are standardised before for both, as its solvers need it.
- Gaussian rows, the prior in units of sigma and in raw units, 50 scales by 10 folds, beside RidgeCV of the same folds and alphas.

Processor time of one thread: `OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1` says so, and the ratio is of one run. The distance is that
of log scale chosen; ours scores the negative log density, and RidgeCV the squared error, as `score="squared"` asks of ours too.
"""

import time
import warnings
from collections.abc import Callable
from statistics import median

import numpy as np
from side_by_side import installed, machine

import probreg as pr

ROUNDS, FOLDS, SCALES = 5, 10, 50


def timed(calls: dict[str, Callable[[], float]], title: str) -> None:
    """Processor time of each in turn, and the scale that it chose."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.process_time()
            found[name] = call()
            spent[name].append(time.process_time() - start)
    first, *_ = calls
    ours = median(spent[first])
    print(f"\n{title}")
    for name in calls:
        t = median(spent[name])
        away = abs(np.log(found[name] / found[first]))
        print(
            f"  {name:<46}{t:>9.4f} s  ours/this {ours / t:>7.3f}  scale {found[name]:.4g} ({away:.1e} away in log)"
        )


def fair() -> None:
    data = pr.load_dataset("fair")
    data = data.assign(affair=(data.affairs > 0).astype(int))
    formula = "affair ~ rate_marriage + age + years_married + children + religious + C(occupation)"
    model = pr.Model.from_formula(
        formula, data, likelihood="bernoulli", prior=pr.Normal(1.0, scaled=True)
    )
    scales = np.geomspace(0.01, 10.0, SCALES)
    fold = np.arange(len(data)) % FOLDS
    calls = {
        f"tune by {FOLDS} folds": lambda: (
            pr.tune(model, "cv", folds=fold, scales=scales).scale
        )
    }
    if installed("sklearn"):
        from sklearn.linear_model import LogisticRegressionCV
        from sklearn.model_selection import PredefinedSplit

        X = model.design.X[:, 1:]
        Z, y = (X - X.mean(0)) / X.std(0), model.design.observed

        def peer(solver: str) -> Callable[[], float]:
            def call() -> float:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # of names that are to change
                    fit = LogisticRegressionCV(
                        Cs=scales**2,
                        cv=PredefinedSplit(fold),
                        scoring="neg_log_loss",
                        solver=solver,
                        tol=1e-6,
                    )
                    return float(np.sqrt(np.ravel(fit.fit(Z, y).C_)[0]))

            return call

        calls |= {
            f"LogisticRegressionCV, {solver}": peer(solver)
            for solver in ("newton-cholesky", "lbfgs")
        }
    timed(calls, "fair, logistic, 6,366 x 11")
    by = {"tune by leave-one-out": lambda: pr.tune(model, "loo", scales=scales).scale}
    timed(by, "the same by leave-one-out")


def gaussian(n: int, p: int) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = X @ rng.normal(size=p) + 3.0 * rng.normal(size=n)
    lam = np.geomspace(1e4, 1e-2, SCALES)
    fold = np.arange(n) % FOLDS

    def ours(prior: pr.Normal) -> Callable[[], float]:
        model = pr.Model.from_arrays(X, y, prior=prior)
        return lambda: (
            pr.tune(model, "cv", folds=fold, scales=lam**-0.5, score="squared").scale
            ** -2
        )

    calls = {"tune, prior in units of sigma": ours(pr.Normal(1.0, sigma_units=True))}
    calls["tune, raw prior of sd 3 beside sigma near 3"] = ours(pr.Normal(3.0))
    if installed("sklearn"):
        from sklearn.linear_model import RidgeCV
        from sklearn.model_selection import PredefinedSplit

        made = PredefinedSplit(fold)
        calls["RidgeCV"] = lambda: float(
            RidgeCV(alphas=lam, cv=made, scoring="neg_mean_squared_error")
            .fit(X, y)
            .alpha_
        )
    timed(calls, f"Gaussian, {n:,} x {p}, {FOLDS} folds")


def main() -> None:
    print(f"{SCALES} scales by {FOLDS} folds. {machine('scikit-learn')}")
    fair()
    for n, p in ((442, 10), (20_000, 20)):
        gaussian(n, p)


if __name__ == "__main__":
    main()
