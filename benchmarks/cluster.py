"""Rows on a dask cluster of two worker processes against one process on the same Parquet files: `python benchmarks/cluster.py`.

Least squares on 1e7 x 20 and logistic regression on 2e6 x 20, both read from disk in each pass, with the cost of dask itself:
a pass over the same partitions that sums nothing. Both cores are busy either way, so on one machine a cluster can only lose.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from side_by_side import in_turn, machine

import probreg as pr

P, FILE = 20, 500_000  # columns; rows of a file, which is a partition
NAMES = [f"x{j + 1}" for j in range(P)]
FORMULAS = {
    "gaussian": "y ~ " + " + ".join(NAMES),
    "bernoulli": "event ~ " + " + ".join(NAMES),
}


def write(folder: Path, n: int) -> None:
    """Files of FILE rows each, written a quarter at a time."""
    beta = np.random.default_rng(0).uniform(-0.3, 0.3, P)
    schema = pa.schema([(name, pa.float64()) for name in ["y", "event", *NAMES]])
    for k in range(n // FILE):
        rng = np.random.default_rng([1, k])
        with pq.ParquetWriter(folder / f"part{k:03d}.parquet", schema) as file:
            for _ in range(4):
                X = rng.standard_normal((P, FILE // 4))
                eta = 1.0 + beta @ X
                y, event = (
                    eta + rng.standard_normal(eta.shape),
                    rng.random(eta.shape) < 1 / (1 + np.exp(-eta)),
                )
                file.write_table(pa.table([y, event.astype(float), *X], schema=schema))


def on_one(folder: Path, likelihood: str) -> Callable[[], pr.Fit]:
    return lambda: pr.fit(
        pr.Model.from_parquet(
            FORMULAS[likelihood], folder, likelihood=likelihood, progress=False
        )
    )


def on_two(folder: Path, likelihood: str, client: object) -> Callable[[], pr.Fit]:
    from dask import dataframe

    frame = dataframe.read_parquet(str(folder))
    return lambda: pr.fit(
        pr.Model.from_dask(
            FORMULAS[likelihood], frame, likelihood=likelihood, client=client
        )
    )


def persisted(folder: Path, likelihood: str, client: object) -> Callable[[], pr.Fit]:
    """The rows in the memory of the workers, where the cluster is for."""
    from dask import dataframe
    from distributed import wait

    frame = client.persist(dataframe.read_parquet(str(folder)))
    wait(frame)
    return lambda: pr.fit(
        pr.Model.from_dask(
            FORMULAS[likelihood], frame, likelihood=likelihood, client=client
        )
    )


def nothing(block: object) -> tuple[np.ndarray, ...]:
    return (np.zeros(1),)


def overhead(client: object) -> float:
    """Seconds of a pass over 20 persisted partitions of a few rows: what dask takes for a sum."""
    import pandas as pd
    from dask import dataframe

    rng = np.random.default_rng(2)
    rows = pd.DataFrame({"y": rng.standard_normal(400), "x": rng.standard_normal(400)})
    frame = client.persist(dataframe.from_pandas(rows, npartitions=20))
    model = pr.Model.from_dask("y ~ x", frame, likelihood="student", client=client)
    beta = np.zeros((2, 1))
    times = []
    for _ in range(10):
        start = perf_counter()
        model.log_lik(beta, sigma=1.0)
        times.append(perf_counter() - start)
    return float(np.median(times))


def peak() -> float:
    """GB that this process has held at most."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def report(likelihood: str, n: int, rounds: int, client: object) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, n)
        calls = {
            "one process": on_one(folder, likelihood),
            "two workers, from disk": on_two(folder, likelihood, client),
        }
        if n <= 2_000_000:
            calls["two workers, persisted"] = persisted(folder, likelihood, client)
        timed = in_turn(calls, rounds)
    first = timed["one process"]
    coef, sd = first.result.coef.values, first.result.std_error.values
    print(
        f"\n{likelihood}, {n:.0e} x {P}, {n // FILE} partitions, {rounds} rounds, median seconds"
    )
    for way, found in timed.items():
        apart = np.abs((found.result.coef.values - coef) / sd).max()
        print(
            f"  {way:24s} {found.median:7.2f}   {found.median / first.median:5.2f} of one process   apart {apart:.1e} sd"
        )


def main(sizes: dict[str, int]) -> None:
    from distributed import Client, LocalCluster

    print(machine())
    with (
        LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        print(
            f"a pass of 20 partitions that sums next to nothing: {1000 * overhead(client):.0f} ms"
        )
        for likelihood, n in sizes.items():
            report(likelihood, n, 3, client)
            print(
                f"  largest memory of a worker so far: {max(client.run(peak).values()):.2f} GB"
            )


if __name__ == "__main__":  # workers are new processes that read this file
    small = "--small" in sys.argv
    main(
        {
            "gaussian": 1_000_000 if small else 10_000_000,
            "bernoulli": 1_000_000 if small else 2_000_000,
        }
    )
