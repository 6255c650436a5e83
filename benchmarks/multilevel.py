"""Multilevel models: fits by evidence and integration, beside statsmodels' MixedLM where it has the model.

Run as `python benchmarks/multilevel.py`, or with `--quick` for a tenth of the rows. Times are in seconds, the best of the runs of this
house and one run of the peer, in one process. Data are simulated but for sleepstudy.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import probreg as pr
from probreg.priors import LKJ, Covariance


def grouped(n: int, groups: int, seed: int = 0) -> dict[str, Any]:
    """Rows of groups with an intercept and a slope each, and a binary response of the intercept alone."""
    rng = np.random.default_rng(seed)
    g, x = rng.integers(0, groups, n), rng.normal(size=n)
    b = rng.normal(size=(groups, 2)) @ np.array([[1.0, 0.3], [0.0, 0.5]])
    eta = 1.0 + 0.5 * x + b[g, 0]
    y = eta + b[g, 1] * x + rng.normal(size=n)
    return {
        "y": y,
        "x": x,
        "g": g.astype(str),
        "k": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
    }


def crossed(n: int, sizes: tuple[int, int, int], seed: int = 1) -> dict[str, Any]:
    """Three crossed factors."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, n) for size in sizes]
    y = sum(
        0.5 * rng.normal(size=size)[c] for size, c in zip(sizes, codes)
    ) + rng.normal(size=n)
    return {"y": y, **{name: c.astype(str) for name, c in zip("abc", codes)}}


def timed(run: Callable[[], Any], times: int = 2) -> float:
    best = np.inf
    for _ in range(times):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def peer(data: dict[str, Any]) -> float:
    import pandas as pd
    import statsmodels.formula.api as smf

    table = pd.DataFrame(data)
    return timed(
        lambda: smf.mixedlm("y ~ x", table, groups="g", re_formula="~x").fit(reml=True),
        1,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--no-peer", action="store_true", help="without statsmodels")
    given = parser.parse_args()
    n, G = (10_000, 100) if given.quick else (100_000, 1_000)
    data = grouped(n, G)
    model = pr.Model.from_formula("y ~ x + (x | g)", data)
    own = timed(
        lambda: pr.fit(pr.Model(model.design, model.likelihood, model.prior, model.aux))
    )
    print(f"(x | g) REML, {n:,} rows, {G:,} groups: {own:.3f}")
    if not given.no_peer:
        other = peer(data)
        print(f"  statsmodels {other:.2f}, ratio {own / other:.4f}")
    prior = {"x | g": Covariance(sd=pr.HalfNormal(3.0), cor=LKJ(2.0))}
    proper = model.with_prior(prior)
    print(
        f"(x | g) posterior, 256 nodes: {timed(lambda: pr.fit(proper, pr.Integrate(nodes=256, draws=250)), 1):.3f}"
    )
    binary = pr.Model.from_formula("k ~ x + (1 | g)", data, likelihood="bernoulli")
    ml = pr.Evidence(criterion="ML")
    print(
        f"Bernoulli (1 | g) ML by Laplace, {n:,} rows, {G:,} groups: {timed(lambda: pr.fit(binary, ml), 1):.3f}"
    )
    sleep = pr.Model.from_formula(
        "reaction ~ days + (days | subject)",
        pr.load_dataset("sleepstudy"),
        prior={"days | subject": Covariance(sd=pr.HalfNormal(50.0), cor=LKJ(2.0))},
    )
    print(
        f"sleepstudy posterior, 1024 nodes: {timed(lambda: pr.fit(sleep, 'integrate')):.3f}"
    )
    sizes = (300, 100, 14) if given.quick else (2_972, 1_128, 14)
    rows = 7_300 if given.quick else 73_000
    three = pr.Model.from_formula(
        "y ~ (1 | a) + (1 | b) + (1 | c)", crossed(rows, sizes)
    )
    print(
        f"three crossed factors, {rows:,} rows, {sum(sizes):,} effects: {timed(lambda: pr.fit(three), 1):.2f}"
    )


if __name__ == "__main__":
    main()
