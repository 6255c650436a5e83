"""What follows from a method that makes Markov chains, whoever wrote it: its class says so, and nothing is guessed."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

import probreg as pr
from probreg.assess.before import Verdict
from probreg.inference import METHODS, Draws, Method, Solution, Status
from probreg.inference.base import moments_of_draws

X = np.random.default_rng(0).normal(size=(30, 1))
Y = (X[:, 0] + np.random.default_rng(1).logistic(size=30) > 0).astype(int)
MODEL = pr.Model.from_arrays(X, Y, columns=["x"], likelihood="bernoulli", prior=pr.Normal(1.0))


@dataclass(frozen=True)
class Metropolis(Method):
    """A user's sampler: random-walk Metropolis, which keeps no statistics of its steps and claims nothing of its status."""

    draws: int = 30
    chains: int = 4
    step: float = 0.5

    name = "metropolis"
    target = "posterior"
    makes_chains: ClassVar[bool] = True

    def obstacle(self, model: pr.Model) -> str | None:
        return None

    def solve(self, model: pr.Model, rng: np.random.Generator) -> Solution:
        draws = np.stack([self._chain(model, rng) for _ in range(self.chains)])
        beta, cov = moments_of_draws(draws)
        return Solution(beta, cov, draws=Draws({"beta": draws}))

    def _chain(self, model: pr.Model, rng: np.random.Generator) -> Any:
        at, kept = rng.normal(size=model.shape), []
        for _ in range(self.draws):
            new = at + self.step * rng.normal(size=model.shape)
            at = new if np.log(rng.random()) < model.log_posterior(new) - model.log_posterior(at) else at
            kept.append(at)
        return np.stack(kept)


@pytest.mark.parametrize(("chains", "status"), [(4, Status.UNMIXED), (1, Status.TOO_SHORT)])
def test_thirty_draws_are_no_posterior(chains: int, status: Status) -> None:
    with pytest.warns(pr.ProbregWarning, match="metropolis: sampled, but"):
        fit = pr.fit(MODEL, Metropolis(chains=chains))
    assert fit.solution.status is status
    assert not fit.solution.status.good
    with pytest.raises(pr.NotConverged, match=r"R-hat|effective sample size"):
        pr.fit(MODEL, Metropolis(chains=chains), strict=True)


def test_all_that_reads_chains_reads_these() -> None:
    with pytest.warns(pr.ProbregWarning):
        fit = pr.fit(MODEL, Metropolis())
    assert {"r_hat", "ess_bulk", "ess_tail"} <= set(fit.summary().columns)
    found = pr.diagnose(fit, skipped=True)
    assert found["mixing"].worst >= Verdict.WARNING
    assert "metropolis keeps no count of divergent steps" in found["divergences"].items[0].sentence
    for picture in (pr.plot.trace, pr.plot.rank):
        assert picture(fit) is not None
    assert "divergent" not in " ".join(t.get_text() for t in pr.plot.trace(fit).texts)


def test_enough_draws_are_sampled() -> None:
    fit = pr.fit(MODEL, Metropolis(draws=4000, step=1.0))
    assert fit.solution.status is Status.SAMPLED
    exact = pr.fit(MODEL, "nuts", seed=1)
    np.testing.assert_allclose(fit.coef, exact.coef, atol=0.15 * float(exact.std_error.max()))


@pytest.mark.filterwarnings("ignore::probreg.ProbregWarning")  # so few draws need not have mixed
def test_intervals_are_of_the_draws_unless_their_law_is_known() -> None:
    """A sampler that claims nothing of its posterior has quantiles of draws, not a normal about their mean."""
    fit = pr.fit(MODEL, Metropolis(draws=100))
    ends = fit.interval(0.8)
    found = np.stack([ends["lower"], ends["upper"]])
    beta = fit.solution.draws["beta"]
    np.testing.assert_allclose(found, np.quantile(beta[..., 0].reshape(400, 2), [0.1, 0.9], axis=0), atol=1e-12)
    claimed = replace(fit, solution=replace(fit.solution, draws=replace(fit.solution.draws, elliptical=True)))
    np.testing.assert_allclose(
        claimed.interval(0.8)["upper"] - fit.coef, 1.2815515655446004 * fit.std_error, rtol=1e-12
    )


def test_a_chain_that_stands_still_is_no_posterior() -> None:
    with pytest.warns(pr.ProbregWarning, match="do not agree"):
        fit = pr.fit(MODEL, Metropolis(draws=500, step=1e9))
    assert fit.solution.status is Status.UNMIXED


def test_independent_draws_are_no_chains() -> None:
    """Draws without memory have no R-hat, whatever statistics they keep beside them."""
    fit = pr.fit(MODEL, "laplace")
    draws = replace(fit.solution.posterior, stats={"diverging": np.zeros((4, 1000), bool)})
    claimed = replace(fit, solution=replace(fit.solution, draws=draws))
    assert "r_hat" not in claimed.summary().columns
    with pytest.raises(pr.Incompatible, match="runs no Markov chains"):
        pr.plot.trace(claimed)
    assert {name for name, cls in METHODS.items() if cls.makes_chains} == {"nuts"}
