"""Profile intervals of standard deviations, correlations and nuisance parameters end where the likelihood ratio is its quantile."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference.uncertainty.found_scales import ratio_at

Z2 = 3.841458820694124  # the 95 % quantile of chi-squared with one degree of freedom


def table_for(seed: int, likelihood: str) -> pd.DataFrame:
    """Ten groups of six rows, whose intercepts and slopes are nearly collinear for some seeds and independent for others."""
    rng = np.random.default_rng(seed)
    g, x = (
        np.repeat(np.arange(10), 6),
        np.tile(
            np.linspace(8.0, 14.0, 6) if seed % 2 else np.linspace(-1.0, 1.0, 6), 10
        ),
    )
    correlation = (-0.95, 0.0, 0.6)[seed % 3]
    L = np.linalg.cholesky([[1.0, correlation], [correlation, 1.0]])
    b = rng.normal(size=(10, 2)) @ L.T * [1.0, 0.3 if seed % 2 else 0.8]
    eta = 0.5 + 0.2 * (x - x.mean()) + b[g, 0] + b[g, 1] * (x - x.mean())
    y = {
        "gaussian": lambda: eta + rng.normal(size=60),
        "poisson": lambda: rng.poisson(np.exp(np.minimum(eta, 4.0))),
        "negative_binomial": lambda: rng.poisson(
            np.exp(np.minimum(eta, 4.0)) * rng.gamma(2.0, 0.5, 60)
        ),
    }[likelihood]()
    return pd.DataFrame({"y": y, "x": x, "g": g.astype(str)})


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
@pytest.mark.parametrize(
    ("seed", "likelihood", "criterion", "effects"),
    [
        (3, "gaussian", "ML", "x | g"),
        (0, "gaussian", "REML", "x | g"),
        (2, "poisson", "REML", "x | g"),
        (1, "negative_binomial", "ML", "x || g"),
        # sd(x | g) is 0 in the fit, and not given another scale
        (0, "gaussian", "REML", "x || g"),
        (1, "gaussian", "ML", "x || g"),
    ],
)
def test_profile_ends_have_the_ratio_of_their_quantile(
    seed: int, likelihood: str, criterion: str, effects: str
) -> None:
    data = table_for(seed, likelihood)
    method = pr.Evidence(criterion=criterion)

    def fitted(**more: object) -> pr.Fit:
        return pr.fit(
            pr.Model.from_formula(
                f"y ~ x + ({effects})", data, likelihood=likelihood, **more
            ),
            method,
        )

    fit = fitted()
    found = fit.solution.scales
    assert found is not None
    for name in found.values:
        if np.isnan(found.values[name]):
            continue
        for end in fit.aux_interval(name):
            if name.startswith("cor("):
                if abs(end) < 1.0 - 1e-9:
                    assert ratio_at(found, name, end) == pytest.approx(Z2, abs=1e-3)
                continue
            if not np.isfinite(end):
                continue
            is_zero = end < 1e-9
            end = max(end, 1e-6)
            if name.startswith("sd("):
                effect = name.removeprefix("sd(").split(" |")[0]
                held = fitted(prior={f"({effects})": pr.Covariance(sd={effect: end})})
            else:
                held = fitted(aux={name: end})
            ratio = 2.0 * (found.value - held.solution.scales.value)
            if is_zero:
                assert ratio < Z2, name
            else:
                assert ratio == pytest.approx(Z2, abs=2e-3), (name, end)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::probreg.errors.ProbregWarning")
def test_a_profile_of_a_coefficient_leaves_a_correlation_of_one() -> None:
    """At the end of the interval the correlation is less than 1, which it is in the fit."""
    rng = np.random.default_rng(20)
    g, x = np.repeat(np.arange(8), 5), rng.normal(size=40)
    u = rng.normal(size=8)[g]
    data = {"x": x, "y": u + (0.4 * u + 0.3) * x + rng.normal(size=40)}
    data["g"] = g.astype(str)
    method = pr.Evidence(criterion="ML")
    fit = pr.fit(pr.Model.from_formula("y ~ x + (x | g)", data), method)
    assert fit.hyper["cor(Intercept, x | g)"] > 1.0 - 1e-8
    end = float(fit.interval(0.95, "profile").sel(coef="x")["lower"])
    data["y"] = data["y"] - end * x
    held = pr.fit(pr.Model.from_formula("y ~ 1 + (x | g)", data), method)
    assert held.hyper["cor(Intercept, x | g)"] < 0.95
    ratio = 2.0 * (fit.log_likelihood - held.log_likelihood)
    assert ratio == pytest.approx(Z2, rel=1e-5)
