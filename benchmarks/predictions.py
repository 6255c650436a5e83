"""Predictions of many rows from the draws of a posterior, beside NumPy by the block: `python benchmarks/predictions.py [likelihood ...]`.

200,000 new rows of ten columns and 4,000 draws: `predict` with its exact intervals of the mean, and of a new observation where there is
one (gaussian, poisson), which NumPy's way leaves out; and mean and sd without intervals. That way takes the product of a block of rows and the draws, the mean of each,
and `numpy.quantile` over the draws; a tenth of the rows is run, and counted ten times. Seconds of the wall and of the processor, and
by how much the peak memory of the process grew.
"""

import resource
import sys
from functools import partial
from time import perf_counter, process_time

import numpy as np
from side_by_side import machine

import probreg as pr

ROWS, P, TENTH = 200_000, 10, 10
GOAL = 6.0  # seconds on two idle cores
ALONE = 2.0  # likewise, without intervals
RUNS = 3


def fitted(likelihood: str) -> pr.Fit:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, P))
    eta = X @ (0.3 * rng.standard_normal(P))
    y = {
        "bernoulli": lambda: (rng.random(len(X)) < 1 / (1 + np.exp(-eta))).astype(int),
        "categorical": lambda: (
            eta[:, None] * [0.0, 1.0, -1.0] + rng.gumbel(size=(len(X), 3))
        ).argmax(1),
        "gaussian": lambda: eta + rng.standard_normal(len(X)),
        "poisson": lambda: rng.poisson(np.exp(eta)),
    }[likelihood]()
    aux = (
        {"aux": {"sigma": pr.priors.HalfCauchy(2.5)}}
        if likelihood == "gaussian"
        else {}
    )
    model = pr.Model.from_arrays(
        X, y, likelihood=likelihood, prior=pr.Normal(1.0), **aux
    )
    return pr.fit(model, "nuts" if aux else "importance", seed=1)


def by_numpy(fit: pr.Fit, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and 95 % interval of the mean, by blocks of 125 rows."""
    beta = fit.solution.posterior.flat["beta"]
    X, likelihood, found = (
        np.column_stack([np.ones(len(X)), X]),
        fit.model.likelihood,
        [],
    )
    for i in range(0, len(X), 125):
        means = likelihood.mean(
            np.einsum("np,spm->snm", X[i : i + 125], beta, optimize=True)
        )
        found.append((means.mean(0), *np.quantile(means, [0.025, 0.975], axis=0)))
    mean, lower, upper = map(np.concatenate, zip(*found))
    return mean, lower, upper


def clocked(call) -> tuple[object, float, float]:
    wall, cpu = perf_counter(), process_time()
    out = call()
    return out, perf_counter() - wall, process_time() - cpu


def case(likelihood: str) -> None:
    fit, X = fitted(likelihood), np.random.default_rng(1).standard_normal((ROWS, P))
    fit.predict(X[:200])  # compiled code is read
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (said, *first), *more = [clocked(partial(fit.predict, X)) for _ in range(RUNS)]
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    wall, cpu = np.min([first, *(times for _, *times in more)], axis=0)
    _, alone, alone_cpu = clocked(partial(fit.predict, X, None))
    few = X[: ROWS // TENTH]
    (_, lower, upper), *peer = clocked(partial(by_numpy, fit, few))
    their_wall, their_cpu = TENTH * np.array(peer)
    apart = max(
        np.abs(said[k].values[: len(few)] - v).max()
        for k, v in (("mean_lower", lower), ("mean_upper", upper))
    )
    print(
        f"  {likelihood:<12}{wall:>7.2f} s ({cpu:.2f} of processors; goal {GOAL:g}), NumPy {their_wall:.1f} ({their_cpu:.1f}): "
        f"{wall / their_wall:.3f} ({cpu / their_cpu:.3f}); ends within {apart:.0e}; peak memory + {grown:.0f} MB; "
        f"mean and sd alone {alone:.2f} s ({alone_cpu:.2f}; goal {ALONE:g})",
        flush=True,
    )


def main() -> None:
    print(f"Predictions of {ROWS:,} rows x {P} from 4,000 draws. {machine('numba')}")
    for likelihood in sys.argv[1:] or (
        "bernoulli",
        "categorical",
        "gaussian",
        "poisson",
    ):
        case(likelihood)


if __name__ == "__main__":
    main()
