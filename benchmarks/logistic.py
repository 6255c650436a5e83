"""Logistic regression by maximum likelihood against scikit-learn, glum and statsmodels: `python benchmarks/logistic.py`."""

from collections.abc import Callable
from functools import partial

import numpy as np
from scipy.special import expit
from side_by_side import OURS, Estimate, Timed, compare, in_turn, installed, machine

import probreg as pr

SIZES = {
    (1_000_000, 20): 0.2,
    (100_000, 200): 0.8,
}  # (n, p): target of ours / scikit-learn
ROUNDS = 5
SKLEARN, GLUM, STATSMODELS = (
    "scikit-learn newton-cholesky",
    "glum + std_errors",
    "statsmodels Logit + bse",
)


def data(n: int, p: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns of unequal scale and location; eta has a standard deviation of about 1.5 around -1."""
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((n, p))
    Z[:, 1:] += 0.3 * Z[:, :-1]
    slope = rng.standard_normal(p)
    eta = Z @ slope
    X = Z * np.exp(rng.uniform(-1, 1, p)) + rng.uniform(-2, 2, p)
    return X, (rng.random(n) < expit(1.5 * eta / eta.std() - 1.0)).astype(float)


def ours(X: np.ndarray, y: np.ndarray) -> Estimate:
    found = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli"))
    return Estimate(found.coef.values, found.std_error.values)


def scikit_learn(X: np.ndarray, y: np.ndarray) -> Estimate:
    from sklearn.linear_model import LogisticRegression

    found = LogisticRegression(solver="newton-cholesky", C=np.inf).fit(X, y)
    return Estimate(np.r_[found.intercept_, found.coef_[0]])


def glum(X: np.ndarray, y: np.ndarray) -> Estimate:
    from glum import GeneralizedLinearRegressor

    found = GeneralizedLinearRegressor(family="binomial", alpha=0).fit(X, y)
    # robust=False asks for the inverse information, as everybody else here computes it.
    return Estimate(
        np.r_[found.intercept_, found.coef_],
        np.asarray(found.std_errors(X, y, robust=False)),
    )


def statsmodels(X: np.ndarray, y: np.ndarray) -> Estimate:
    import statsmodels.api as sm

    found = sm.Logit(y, sm.add_constant(X)).fit(disp=0)
    return Estimate(found.params, found.bse)


def ways() -> dict[str, Callable[[np.ndarray, np.ndarray], Estimate]]:
    found: dict[str, Callable[[np.ndarray, np.ndarray], Estimate]] = {OURS: ours}
    peers = {
        "sklearn": (SKLEARN, scikit_learn),
        "glum": (GLUM, glum),
        "statsmodels": (STATSMODELS, statsmodels),
    }
    return found | {
        name: way for module, (name, way) in peers.items() if installed(module)
    }


def parts(X: np.ndarray, y: np.ndarray) -> dict[str, Timed]:
    """Where our time goes: making the model, the fit, and for scale one pass over the rows (value, gradient, Hessian)."""
    build = lambda: pr.Model.from_arrays(X, y, likelihood="bernoulli")
    model = build()
    at = np.zeros(model.shape)
    calls = {
        "Model.from_arrays": build,
        "fit + std_error": lambda: pr.fit(build_free(model)).std_error.values,
        "one pass": lambda: model.value_grad_hessian_standardised(at),
    }
    return in_turn(calls, 3)


def build_free(model: pr.Model) -> pr.Model:
    """The same model with nothing remembered from an earlier fit."""
    return pr.Model(model.design.take(slice(None)), model.likelihood)


def main() -> None:
    print(
        f"Logistic regression, maximum likelihood. {machine('scikit-learn', 'glum', 'statsmodels')}"
    )
    small = data(500_000, 1)
    for way in ways().values():
        way(*small)  # imports, and loads what is compiled
    for (n, p), target in SIZES.items():
        X, y = data(n, p)
        print(f"\nn = {n:,}, p = {p}")
        calls = {k: partial(w, X, y) for k, w in ways().items()}
        compare(
            in_turn(calls, ROUNDS, fewer={STATSMODELS: 1}), targets={SKLEARN: target}
        )
        print(
            "  of which "
            + ", ".join(f"{k} {v.median:.3f} s" for k, v in parts(X, y).items())
        )


if __name__ == "__main__":
    main()
