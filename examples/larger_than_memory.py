"""What does a degree of cold cost, and who trips the fuse? Four files of smart-meter readings, never in memory at once.

A grid company keeps its half-hourly readings in one Parquet file per season. Least squares over all of them takes one pass,
after which any number of models of the same columns are free. The chance of a reading above 2 kW is a logistic regression,
one pass per Newton step. An engineer who reads one season alone answers another question.
"""

import tempfile
import tracemalloc
from pathlib import Path
from time import perf_counter

import numpy as np
import pandas as pd

import probreg as pr

SEASONS = {"winter": 1.0, "spring": 9.0, "summer": 18.0, "autumn": 10.0}
ROWS = 150_000  # readings per season


def readings(season: str, seed: int) -> pd.DataFrame:
    """One season: outdoor temperature, the heating of the home, people in it, and the power in kW."""
    rng = np.random.default_rng(seed)
    outside = SEASONS[season] + 5.0 * rng.normal(size=ROWS)
    heating = rng.choice(["gas", "heat pump", "electric"], ROWS, p=[0.6, 0.3, 0.1])
    people = rng.integers(1, 6, ROWS).astype(float)
    cold = np.maximum(16.0 - outside, 0.0)
    per_degree = np.select(
        [heating == "heat pump", heating == "electric"], [0.05, 0.14], 0.004
    )
    power = 0.15 + 0.11 * people + per_degree * cold + 0.45 * rng.normal(size=ROWS)
    return pd.DataFrame(
        {
            "power": power,
            "cold": cold,
            "heating": heating,
            "people": people,
            "peak": power > 2.0,
        }
    )


with tempfile.TemporaryDirectory() as folder:
    for number, season in enumerate(SEASONS):
        readings(season, number).to_parquet(Path(folder) / f"{number}-{season}.parquet")
    frame = readings("winter", 0).memory_usage(deep=True).sum() * len(SEASONS) / 2**20
    print(
        f"{len(SEASONS)} files, {len(SEASONS) * ROWS:,} readings; as a data frame in memory {frame:.0f} MB\n"
    )
    tracemalloc.start()
    start = perf_counter()
    model = pr.Model.from_parquet("power ~ cold * heating + people", folder)
    least_squares = pr.fit(model)
    peak = tracemalloc.get_traced_memory()[1] / 2**20
    tracemalloc.stop()
    matrix = 8 * len(model.design.columns) * len(SEASONS) * ROWS / 2**20
    print(least_squares, "\n")
    print(
        f"a fit in memory holds the data frame and its design matrix, {frame:.0f} and {matrix:.0f} MB"
    )
    print(
        f"by the block at most {peak:.0f} MB were in use, and {perf_counter() - start:.1f} s went by (memory was being traced)\n"
    )

    print(
        "A prior changes nothing in the files. On the same moments, without another pass:\n"
    )
    start = perf_counter()
    shy = pr.fit(model.with_prior(pr.Normal(0.01, sigma_units=True)), "conjugate")
    again = perf_counter() - start
    print(
        pr.compare(
            {"least squares": least_squares, "posterior, prior of 0.01 sigma": shy}
        )
    )
    print(f"\n{1000 * again:.0f} ms\n")

    print("Who draws more than 2 kW?\n")
    start = perf_counter()
    peaks = pr.fit(
        pr.Model.from_parquet(
            "peak ~ cold + heating + people", folder, likelihood="bernoulli"
        )
    )
    print(peaks, f"\n{perf_counter() - start:.1f} s\n")

    home = {"cold": [20.0], "heating": ["electric"], "people": [4.0]}
    chance = peaks.predict(home)["mean"].item()
    print(
        f"four people who heat with electricity, twenty degrees too cold: {chance:.0%} of readings above 2 kW"
    )

    summer = Path(folder) / "2-summer.parquet"
    alone = pr.fit(pr.Model.from_parquet("power ~ cold * heating + people", summer))
    wide, narrow = (
        float(f.std_error.sel(coef="cold:heating[T.heat pump]"))
        for f in (alone, least_squares)
    )
    print(
        f"\nfrom the summer alone the cost of a degree for a heat pump is {wide / narrow:.1f} times as uncertain"
    )

    whole = pd.concat(
        [pd.read_parquet(path) for path in sorted(Path(folder).glob("*.parquet"))],
        ignore_index=True,
    )
    in_memory = pr.fit(pr.Model.from_formula("power ~ cold * heating + people", whole))
    logistic = pr.fit(
        pr.Model.from_formula(
            "peak ~ cold + heating + people", whole, likelihood="bernoulli"
        )
    )

# Checks of the statements above.
slope = (
    least_squares.coef.sel(coef="cold").item()
    + least_squares.coef.sel(coef="cold:heating[T.heat pump]").item()
)
baseline = "heating[T.gas]" in model.design.columns
assert baseline  # levels sort: electric is the one that others are compared with
assert abs(slope - 0.05) < 5 * narrow
assert np.allclose(least_squares.coef, in_memory.coef, rtol=1e-9)
assert np.allclose(least_squares.std_error, in_memory.std_error, rtol=1e-9)
assert np.allclose(peaks.coef, logistic.coef, rtol=1e-8)
assert peak < 0.4 * (frame + matrix)
assert again < 0.5
assert wide > 3 * narrow
