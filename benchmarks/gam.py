"""`pr.gam` of 20,000 rows by REML beside mgcv: `python benchmarks/gam.py`. Without R and mgcv only our time is printed.

Each time is the processor time of the quickest of three fits, from the columns to the fit; both read the same rows.
"""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shutil
import subprocess
import tempfile
from pathlib import Path
from time import process_time

import numpy as np

import probreg as pr

N = 20_000
MODELS = {
    "y ~ s(x)": ("gaussian", "gaussian"),
    "y ~ s(x) + s(z)": ("gaussian", "gaussian"),
    "b ~ s(x)": ("bernoulli", "binomial"),
    "b ~ s(x) + s(z)": ("bernoulli", "binomial"),
}
SCRIPT = """
suppressMessages(library(mgcv))
rows <- read.csv(commandArgs(TRUE)[1])
for (line in commandArgs(TRUE)[-1]) {
  part <- strsplit(line, ";")[[1]]
  seconds <- sapply(1:3, function(i) {
    t <- system.time(gam(as.formula(part[1]), family = part[2], data = rows, method = "REML"))
    t[1] + t[2]
  })
  cat(min(seconds), "\\n")
}
"""


def simulate() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.uniform(0.0, 10.0, N)
    z = rng.uniform(0.0, 1.0, N)
    curve = np.sin(x) + z
    return {
        "x": x,
        "z": z,
        "y": curve + 0.4 * rng.normal(size=N),
        "b": (rng.random(N) < 1.0 / (1.0 + np.exp(-curve))).astype(int),
    }


def time_ours(rows: dict[str, np.ndarray], formula: str, likelihood: str) -> float:
    seconds = []
    for _ in range(3):
        start = process_time()
        pr.gam(formula, rows, likelihood=likelihood)
        seconds.append(process_time() - start)
    return min(seconds)


def time_mgcv(rows: dict[str, np.ndarray]) -> list[float]:
    if shutil.which("Rscript") is None:
        return []
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "rows.csv"
        header = ",".join(rows)
        np.savetxt(
            table,
            np.column_stack(list(rows.values())),
            "%.17g",
            ",",
            header=header,
            comments="",
        )
        lines = [f"{formula};{family}" for formula, (_, family) in MODELS.items()]
        done = subprocess.run(
            ["Rscript", "-e", SCRIPT, str(table), *lines],
            capture_output=True,
            text=True,
        )
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    rows = simulate()
    theirs = time_mgcv(rows) or [np.nan] * len(MODELS)
    for (formula, (likelihood, _)), peer in zip(MODELS.items(), theirs, strict=True):
        ours = time_ours(rows, formula, likelihood)
        print(
            f"{formula:<18} ours {ours:.2f} s, mgcv {peer:.2f} s, ratio {ours / peer:.2f}"
        )


if __name__ == "__main__":
    main()
