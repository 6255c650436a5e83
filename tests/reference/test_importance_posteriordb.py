"""posteriordb by importance sampling, and by the ladder: within Monte Carlo error of the certified posterior, and that error
small."""

from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.inference import Importance, Status

from .cases import columns_of
from .test_posteriordb import FLAT, GAUSSIAN, LOGISTIC, model, moments, prior_of

FAR = 4.5  # Monte Carlo standard errors


def posed(name: str, certified: Any) -> tuple[Any, pr.Model, dict[str, Any]]:
    case = certified(name)
    logistic = case["family"] == "bernoulli_logit"
    more = (
        {"likelihood": pr.Bernoulli()}
        if logistic
        else prior_of(case, columns_of(case["X"], case["columns"]))
    )
    return *model(case, **more), case["exact"]


@pytest.mark.parametrize("name", [*GAUSSIAN, *LOGISTIC])
def test_moments_are_certified(name: str, certified: Any) -> None:
    columns, m, exact = posed(name, certified)
    fit = pr.fit(m, "importance", seed=2)
    s = fit.solution
    assert s.status is Status.SAMPLED
    assert s.stats["k_hat"] < 0.5
    mean, sd = moments(fit, columns)
    k, certain = len(columns.order), np.array(exact["sd"])
    shift = np.abs(mean - exact["mean"]) / certain
    assert s.stats["mcse_mean"] < 0.02  # sd
    assert shift[:k].max() < FAR * s.stats["mcse_mean"]
    assert shift.max() < FAR / np.sqrt(s.stats["ess"])  # sigma too
    # a sigma of 20 rows is skew, which doubles the error of its standard deviation
    np.testing.assert_allclose(sd[:k], certain[:k], rtol=FAR * s.stats["mcse_sd"])
    np.testing.assert_allclose(sd, certain, rtol=2 * FAR * s.stats["mcse_sd"])
    evidence = exact.get("log_marginal_likelihood")
    assert ("log_evidence" in s.stats) == (evidence is not None)
    if evidence is not None:
        assert (
            abs(s.stats["log_evidence"] - evidence) < FAR * s.stats["log_evidence_se"]
        )


@pytest.mark.parametrize("name", [*GAUSSIAN, *LOGISTIC])
def test_quantiles_of_the_draws_are_certified(name: str, certified: Any) -> None:
    """The 5, 50 and 95 % quantiles hold that much of the draws, within binomial errors of the effective sample size."""
    columns, m, exact = posed(name, certified)
    fit = pr.fit(m, "importance", seed=3)
    posterior = fit.tree["posterior"]
    names = [*columns.order, *m.unknown]
    draws = np.column_stack([posterior[name].values.ravel() for name in names])
    for level, q in zip((0.05, 0.5, 0.95), np.array(exact["q05_q50_q95"]).T):
        error = np.sqrt(level * (1 - level) / fit.solution.stats["ess"])
        assert np.abs((draws < q).mean(0) - level).max() < FAR * error


@pytest.mark.parametrize("name", [*GAUSSIAN, *LOGISTIC])
def test_the_ladder_does_not_reach_the_sampler(name: str, certified: Any) -> None:
    columns, m, exact = posed(name, certified)
    fit = pr.fit(m, "posterior", seed=1)
    assert fit.method.name in (
        ("importance",) if name in LOGISTIC else ("conjugate", "quadrature")
    )
    mean, _ = moments(fit, columns)
    assert (np.abs(mean - exact["mean"]) / exact["sd"]).max() < 0.05


@pytest.mark.parametrize("name", FLAT)
def test_a_normal_posterior_of_many_columns(name: str, certified: Any) -> None:
    """Flat coefficients and a uniform sigma, of up to a dozen columns: conjugate is exact."""
    _, m = model(
        certified(f"tables/posteriordb/{name}"), aux={"sigma": pr.priors.Uniform()}
    )
    s, exact = (pr.fit(m, k, seed=5) for k in (Importance(), "conjugate"))
    shift = np.abs(s.coef - exact.coef) / exact.std_error
    assert float(shift.max()) < FAR * s.solution.stats["mcse_mean"] < 0.2
