"""Least squares on ten million rows that stay in a Parquet file, against statsmodels with the rows in memory:
`python benchmarks/rows.py [ROWS]`. It writes a file of 1.7 GB to the folder for temporary files and removes it."""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet
from side_by_side import OURS, Estimate, compare, in_turn, installed, machine

import probreg as pr

P, GROUP = 20, 2**20
FORMULA = "y ~ " + " + ".join(f"x{j + 1}" for j in range(P))
NAMES = ["y", *(f"x{j + 1}" for j in range(P))]
STATSMODELS = "statsmodels OLS + bse, in memory"
ALONE = """
import sys, probreg as pr
fit = pr.fit(pr.Model.from_parquet(sys.argv[1], sys.argv[2], likelihood=sys.argv[3], progress=False))
fit.std_error
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def write(path: Path, n: int) -> None:
    """Columns of unequal scale and location, correlated 0.3 with their neighbour, and an outcome `hit` beside y."""
    rng = np.random.default_rng(1)
    scale, centre, beta = (
        np.exp(rng.uniform(-1, 1, P)),
        rng.uniform(-2, 2, P),
        rng.uniform(-1, 1, P),
    )
    with parquet.ParquetWriter(
        path, pa.schema([(c, pa.float64()) for c in [*NAMES, "hit"]])
    ) as file:
        for start in range(0, n, GROUP):
            Z = rng.standard_normal((P, min(GROUP, n - start)))
            Z[1:] += 0.3 * Z[:-1]
            X = Z * scale[:, None] + centre[:, None]
            noise = rng.standard_normal(X.shape[1])
            hit = (rng.random(X.shape[1]) < 1 / (1 + np.exp(-0.2 * (beta @ X)))).astype(
                float
            )
            file.write_table(
                pa.table([1.0 + beta @ X + 2.0 * noise, *X, hit], [*NAMES, "hit"])
            )


def ours(path: Path) -> Estimate:
    found = pr.fit(pr.Model.from_parquet(FORMULA, path, progress=False))
    return Estimate(found.coef.values, found.std_error.values)


def in_memory(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """What statsmodels is given: the columns with ones in front, read before the clock starts."""
    table = parquet.read_table(path, columns=NAMES)
    X = np.ones((table.num_rows, P + 1))
    for j, name in enumerate(NAMES[1:]):
        X[:, j + 1] = table.column(name).to_numpy()
    return X, table.column("y").to_numpy()


def statsmodels(X: np.ndarray, y: np.ndarray) -> Estimate:
    import statsmodels.api as sm

    found = sm.OLS(y, X).fit()
    return Estimate(found.params, found.bse)


def peak(path: Path, formula: str, likelihood: str) -> float:
    """Megabytes of resident memory that a process of its own reaches (Linux)."""
    command = [sys.executable, "-c", ALONE, formula, str(path), likelihood]
    return (
        float(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout
        )
        / 1024
    )


def main() -> None:
    n = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10_000_000
    print(
        f"Least squares with standard errors from Parquet. {machine('pyarrow', 'statsmodels')}"
    )
    with tempfile.TemporaryDirectory() as folder:
        path, tenth = Path(folder) / "all.parquet", Path(folder) / "tenth.parquet"
        write(path, n)
        write(tenth, n // 10)
        print(
            f"\nn = {n:,}, p = {P}, {path.stat().st_size / 1e9:.2f} GB on disk; peak memory of a process of its own"
        )
        for formula, likelihood in (
            (FORMULA, "gaussian"),
            (FORMULA.replace("y ~", "hit ~"), "bernoulli"),
        ):
            few, many = (
                peak(tenth, formula, likelihood),
                peak(path, formula, likelihood),
            )
            print(
                f"  {likelihood:<12} {many:>5.0f} MB, and {few:.0f} MB for a tenth of the rows"
            )
        ours(tenth)  # imports
        ways = {OURS: lambda: ours(path)}
        if installed("statsmodels"):
            X, y = in_memory(path)
            ways[STATSMODELS] = lambda: statsmodels(X, y)
        print()
        compare(in_turn(ways, 5, fewer={STATSMODELS: 2}), targets={STATSMODELS: 0.1})
        logistic = FORMULA.replace("y ~", "hit ~")
        (found,) = in_turn(
            {
                OURS: lambda: pr.fit(
                    pr.Model.from_parquet(logistic, path, likelihood="bernoulli")
                )
            },
            1,
        ).values()
        print(
            f"\n  logistic maximum likelihood of the same rows: {found.seconds[0]:.1f} s, {found.result.solution.notes[-1]}"
        )


if __name__ == "__main__":
    main()
