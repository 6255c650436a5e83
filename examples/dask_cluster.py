"""Trips of a city's bicycles on a dask cluster: the fit is saved as a report.

Twelve months of trips are in Parquet files. Each of two workers reads its part of the files and returns the sums of a Newton step,
a few hundred numbers, so that your process has only a small sample of the trips. The estimates equal those from one table in
memory. For another cluster, change the line of the LocalCluster.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from dask import dataframe
from distributed import Client, LocalCluster

import probreg as pr

MONTHS, TRIPS = 12, 8_000
FORMULA = "late ~ rain + minutes + station"


def month(k: int) -> pd.DataFrame:
    """The trips of one month: was the bicycle brought back late?"""
    rng = np.random.default_rng([11, k])
    data = pd.DataFrame(
        {
            "rain": rng.exponential(1.0 + (k % 6) / 3, TRIPS),
            "minutes": rng.gamma(4.0, 6.0, TRIPS),
            "station": np.array(["harbour", "hill", "market"])[
                rng.integers(3, size=TRIPS)
            ],
        }
    )
    eta = (
        -3.0
        + 0.25 * data["rain"]
        + 0.05 * data["minutes"]
        + 0.6 * (data["station"] == "hill")
    )
    return data.assign(
        late=np.where(rng.random(TRIPS) < 1 / (1 + np.exp(-eta)), "late", "in time")
    )


def main(folder: Path) -> None:
    months = [month(k) for k in range(MONTHS)]
    for k, data in enumerate(months):
        data.to_parquet(folder / f"month{k + 1:02d}.parquet")

    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        Client(cluster) as client,
    ):
        # the rows now lie with the workers
        trips = client.persist(dataframe.read_parquet(str(folder)))
        far = pr.Model.from_dask(
            FORMULA, trips, likelihood="bernoulli", event="late", client=client
        )
        print(far)
        fit = pr.fit(far)
        print(f"\n{fit.summary().round(3)}")
        travelled = (1 + len(far.design.columns)) * len(far.design.columns) + 1
        print(
            f"\nEach Newton step brought back {travelled} numbers instead of {far.design.count * 4:,}."
        )
        posterior = pr.fit(far.with_prior(pr.Normal(1.0)), "laplace", seed=1)

    new = pd.DataFrame(
        {"rain": [0.0, 6.0], "minutes": [20.0, 40.0], "station": ["market", "hill"]}
    )
    dry, wet = fit.predict(new)["mean"].values
    print(
        f"A short dry trip to the market is late with probability {dry:.2f}, a long wet one to the hill with {wet:.2f}."
    )

    near = pr.fit(
        pr.Model.from_formula(
            FORMULA, pd.concat(months), likelihood="bernoulli", event="late"
        )
    )
    apart = np.abs(fit.coef.values - near.coef.values).max()
    print(f"The same rows in one table give coefficients that differ by {apart:.0e}.")

    # Checks of the statements above.
    assert apart < 1e-10
    # Newton takes its curvature a step before the mode, at a point that depends on where it started: 1e-8 of its size
    assert np.abs(fit.std_error.values / near.std_error.values - 1).max() < 1e-7
    assert far.design.X.shape == (0, 5)  # no rows here, and a sample of
    assert far.design.sample.n <= 20_000
    assert far.design.count == MONTHS * TRIPS
    assert dry < 0.2 < 0.4 < wet
    assert (
        np.abs(posterior.coef.values - fit.coef.values) < 0.1 * fit.std_error.values
    ).all()  # a wide prior


# worker processes import this file: without the line each would start workers of its own
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        main(Path(name))
