"""Effective sample sizes and R-hat are those of ArviZ, at every length, for ties, alternation and chains that stand still."""

import numpy as np
import pytest
from arviz_stats.base import array_stats

from probreg.inference.sampling.rank_measures import (
    ess_bulk,
    ess_mean,
    ess_tail,
    rank_r_hat,
)


def walks(phi: float, chains: int, draws: int) -> np.ndarray:
    """Stationary walks x_t = phi x_(t-1) + e_t."""
    e = np.random.default_rng(draws).normal(size=(chains, draws))
    x = e / np.sqrt(1.0 - phi**2)
    for t in range(1, draws):
        x[:, t] = phi * x[:, t - 1] + e[:, t]
    return x


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of constant chains, in both
@pytest.mark.parametrize("draws", [3, 4, 5, 8, 9, 10, 11, 100, 401])
@pytest.mark.parametrize("chains", [1, 2, 4])
def test_the_measures_of_chains_are_those_of_arviz(chains, draws):
    cases = [walks(phi, chains, draws) for phi in (-0.8, 0.0, 0.9, 0.999)]
    cases += [
        np.round(cases[1]),
        (cases[2] > 0.0).astype(float),
        np.tile(np.arange(draws) % 2.0, (chains, 1)),
    ]
    cases += [
        np.ones((chains, draws)),
        np.arange(chains)[:, None] * np.ones((chains, draws)),
    ]
    cases += [
        np.where(np.arange(draws) == 1, missing, cases[1])
        for missing in (np.nan, np.inf)
    ]
    for x in cases:
        ours = ess_bulk(x), ess_tail(x), rank_r_hat(x)
        tail = array_stats.ess(x, method="tail", prob=(0.05, 0.95))
        theirs = (
            array_stats.ess(x, method="bulk"),
            tail,
            array_stats.rhat(x, method="rank"),
        )
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
        if not np.isinf(x).any():
            np.testing.assert_allclose(
                ess_mean(x), array_stats.ess(x, method="mean"), rtol=1e-12
            )
