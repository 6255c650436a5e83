"""Posteriors of response distributions by NUTS on their compiled densities and by importance sampling on their NumPy code."""

from typing import Any

import numpy as np
import pytest

import probreg as pr

N = 40
FAR = 5.0  # Monte Carlo standard errors, for some 30 comparisons


def tables() -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    """A formula, a likelihood and responses of each distribution."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=N)
    eta = 0.5 + 0.4 * x
    mean = np.exp(eta)
    time = mean * rng.weibull(1.5, N)
    noise = rng.normal(size=N)
    formulas = {"y": "y ~ x", "log sigma": "~ x"}
    responses: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "ordinal": (
            "y ~ x",
            pr.Ordinal(levels=(0, 1, 2)),
            {"y": np.digitize(eta + rng.logistic(size=N), [0.0, 1.2])},
        ),
        "zero_inflated": (
            "y ~ x",
            pr.ZeroInflated(pr.Poisson()),
            {"y": rng.poisson(2.0 * mean) * (rng.random(N) > 0.3)},
        ),
        "censored_weibull": (
            "cens(t, event) ~ x",
            pr.Weibull(),
            {"t": np.minimum(time, 2.0), "event": (time < 2.0).astype(int)},
        ),
        "distributional": (
            formulas,
            pr.Gaussian(),
            {"y": eta + np.exp(0.3 * x) * noise},
        ),
    }
    return {k: (f, v, {**d, "x": x}) for k, (f, v, d) in responses.items()}


TABLES = tables()


def parameters(fit: pr.Fit) -> dict[str, np.ndarray]:
    """The draws (chain, draw) of each coefficient and of the log of each nuisance parameter."""
    draws = fit.solution.draws
    beta = draws["beta"]
    beta = beta.reshape(*beta.shape[:2], -1)
    logs = {f"log {a}": np.log(draws[a]) for a in fit.model.unknown}
    return {f"beta {j}": beta[..., j] for j in range(beta.shape[2])} | logs


def variance_rates(fit: pr.Fit, draws: np.ndarray) -> np.ndarray:
    """Return 1 / ess of the mean and of the mean square of the draws."""
    from arviz_stats.base import array_stats

    if fit.method.name == "importance":
        return np.full(2, 1.0 / fit.solution.stats["ess"])
    squares = (draws - draws.mean()) ** 2
    return np.array(
        [1.0 / float(array_stats.ess(v, method="mean")) for v in (draws, squares)]
    )


# One of each kind: several cut points, a mixture, censored rows and formulas of two parameters. `benchmarks/calibration.md`
# has the other families.
@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
def test_nuts_and_importance_sampling_have_the_same_means_and_sds(name: str) -> None:
    formula, likelihood, data = TABLES[name]
    # positive parameters of about 0.5 to 10
    aux = dict.fromkeys(
        () if name == "distributional" else likelihood.nuisance, pr.HalfNormal(5.0)
    )
    model = pr.Model.from_formula(
        formula, data, likelihood=likelihood, prior=pr.Normal(1.5), aux=aux
    )
    by_nuts = pr.fit(model, pr.NUTS(draws=500, tune=200, chains=2), seed=1)
    other = pr.fit(model, "importance", seed=2)
    expected = parameters(other)
    for parameter, draws in parameters(by_nuts).items():
        exact = expected[parameter]
        sd = exact.std()
        rates = variance_rates(by_nuts, draws) + variance_rates(other, exact)
        assert abs(draws.mean() - exact.mean()) < FAR * sd * np.sqrt(rates[0])
        # Var(s^2) = (kurtosis - 1) sd^4 / ess, and d s = d s^2 / (2 sd)
        kurtosis = np.mean(((exact - exact.mean()) / sd) ** 4)
        error = sd * np.sqrt((kurtosis - 1.0) * rates[1]) / 2.0
        assert abs(draws.std() - sd) < FAR * error
