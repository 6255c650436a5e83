"""NUTS of response distributions against Bambi's default sampler, 10,000 x 10, warm: `python benchmarks/families.py [case ...]`.

Cases: gamma, beta, ordinal, zero_inflated; all without a name. As in `posterior.py`, both draw 4 chains of 1000, min ESS is the least bulk
effective sample size of a slope, and both have fitted 1000 of the rows before. Both have Normal(0, 2.5) on the slopes. Priors of the
intercept and of nuisance parameters differ: Bambi has its defaults. `--alone` leaves Bambi out.
"""

import logging
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from posterior import SCALE, Draws, columns, ours, warm
from scipy.special import expit
from side_by_side import installed, machine

import probreg as pr

N, P = 10_000, 10


def predictors(seed: int) -> tuple[np.random.Generator, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = columns(N, P, seed + 1)
    return rng, X, 0.5 + X @ rng.uniform(-0.3, 0.3, P)


def gamma() -> tuple[np.ndarray, np.ndarray]:
    rng, X, eta = predictors(1)
    return X, rng.gamma(2.0, np.exp(eta) / 2.0)


def beta() -> tuple[np.ndarray, np.ndarray]:
    rng, X, eta = predictors(2)
    mu = expit(eta)
    return X, np.clip(rng.beta(8.0 * mu, 8.0 * (1.0 - mu)), 1e-12, 1.0 - 1e-12)


def ordinal() -> tuple[np.ndarray, np.ndarray]:
    rng, X, eta = predictors(3)
    latent = eta + rng.logistic(size=N)
    return X, np.digitize(latent, [-0.5, 0.5, 1.5])


def zero_inflated() -> tuple[np.ndarray, np.ndarray]:
    rng, X, eta = predictors(4)
    return X, rng.poisson(np.exp(eta)) * (rng.random(N) > 0.3)


def bambi(X: np.ndarray, y: np.ndarray, family: str) -> Draws:
    import bambi as bmb
    import pandas as pd

    names = [f"x{j + 1}" for j in range(X.shape[1])]
    response = pd.Categorical(y, ordered=True) if family == "cumulative" else y
    table = pd.DataFrame(X, columns=names).assign(y=response)
    link = {"gamma": "log"}.get(family)
    priors = {c: bmb.Prior("Normal", mu=0, sigma=SCALE) for c in names}
    model = bmb.Model(
        f"y ~ {' + '.join(names)}", table, family=family, link=link, priors=priors
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draws = model.fit(
            draws=1000,
            tune=1000,
            chains=4,
            cores=os.cpu_count(),
            random_seed=1,
            progressbar=False,
        )
    return Draws(np.stack([draws["posterior"][c].values for c in names], 2))


# the data, our likelihood and Bambi's family
CASES: dict[str, tuple[Callable[[], tuple[np.ndarray, np.ndarray]], object, str]] = {
    "gamma": (gamma, pr.likelihoods.Gamma(), "gamma"),
    "beta": (beta, pr.likelihoods.Beta(), "beta"),
    "ordinal": (ordinal, pr.Ordinal(levels=(0, 1, 2, 3)), "cumulative"),
    "zero_inflated": (
        zero_inflated,
        pr.likelihoods.ZeroInflated(),
        "zero_inflated_poisson",
    ),
}
# without a proper prior of the odds the posterior has infinite mass at the Poisson model
AUX = {"zero_inflated": {"zero_odds": pr.priors.HalfNormal(1.0)}}


def main() -> None:
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(
        f"Response distributions, 4 chains of 1000 draws. {machine('pymc', 'bambi', 'numba')}"
    )
    names = [a for a in sys.argv[1:] if not a.startswith("-")]
    for name in names or CASES:
        data, likelihood, family = CASES[name]
        print(f"\n{name}, n = {N:,}, p = {P}")
        options = {"prior": pr.Normal(SCALE), "aux": AUX.get(name, {})}
        nuts = partial(ours, likelihood=likelihood, method="nuts", **options)
        with_bambi = installed("bambi") and "--alone" not in sys.argv
        peers = {"Bambi": partial(bambi, family=family)} if with_bambi else {}
        warm(*data(), {"nuts": nuts}, peers)


if __name__ == "__main__":
    main()
