"""Seconds from the start of a process to a result, with nothing compiled before: `python benchmarks/cold.py`.

Each run is a process of its own with empty cache directories for PyTensor and numba. The files of the packages have been
read once before, so that nobody pays for the disk. The clock starts before the process does.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import time

from side_by_side import OURS, installed, machine

ROUNDS = 3  # of ours; a peer takes a minute and runs once, between two of ours
P = 10

DATA = f"""
import numpy as np
rng = np.random.default_rng(7)
X = rng.standard_normal((10_000, {P}))
y = (rng.random(len(X)) < 1 / (1 + np.exp(0.5 - X @ rng.uniform(-1, 1, {P})))).astype(int)
"""

PROBREG = """
import probreg as pr
model = pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=pr.Normal(2.5))
draws = pr.fit(model, "nuts", seed=1).solution.draws["beta"]
assert draws.shape[:2] == (4, 1000)
"""

# PyMC takes half of the logical cores when not told; on a machine without hyperthreads that is half of the machine.
BAMBI = """
import os, bambi as bmb, pandas as pd
names = [f"x{j}" for j in range(X.shape[1])]
priors = {c: bmb.Prior("Normal", mu=0, sigma=2.5) for c in names}
model = bmb.Model("y ~ " + " + ".join(names), pd.DataFrame(X, columns=names).assign(y=y), family="bernoulli", priors=priors)
found = model.fit(draws=1000, chains=4, cores=os.cpu_count(), random_seed=1, progressbar=False, inference_method="METHOD")
assert found["posterior"][names[0]].shape == (4, 1000)
"""

PYMC = """
import os, pymc as pm
with pm.Model():
    intercept, slope = pm.Normal("intercept", 0, 2.5), pm.Normal("slope", 0, 2.5, shape=X.shape[1])
    pm.Bernoulli("y", logit_p=intercept + X @ slope, observed=y)
    found = pm.sample(1000, chains=4, cores=os.cpu_count(), random_seed=1, progressbar=False, nuts_sampler="METHOD")
assert found["posterior"]["slope"].shape[:2] == (4, 1000)
"""

IMPORT = "import probreg"

MAXIMUM = """
import numpy as np, probreg as pr
rng = np.random.default_rng(8)
X = rng.standard_normal((1000, 5))
y = (rng.random(1000) < 1 / (1 + np.exp(-X @ np.ones(5)))).astype(int)
found = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli"))
assert found.std_error.shape == (6,)
"""


def seconds(script: str) -> float:
    """From before the process starts to the last line of the script."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        fresh = {
            "PYTENSOR_FLAGS": f"base_compiledir={Path(caches) / 'pytensor'}",
            "NUMBA_CACHE_DIR": str(Path(caches) / "numba"),
        }
        # Samplers in processes start by importing this script again: only the first one runs it.
        file = Path(caches) / "run.py"
        file.write_text(
            "if __name__ == '__main__':\n"
            + "".join(f"    {line}\n" for line in (script + "\nimport time; print('at', time.time())").splitlines())
        )
        start = time()
        run = subprocess.run([sys.executable, str(file)], env=os.environ | fresh, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    return float(run.stdout.split()[-1]) - start


def compare(
    scripts: dict[str, str], rounds: int, *, once: tuple[str, ...] = (), target: dict[str, float] | None = None
) -> None:
    """The scripts in turn, those in `once` in the first round only; ratios of the first to each of the others."""
    target = target or {}
    for script in scripts.values():
        seconds("\n".join(line for line in script.splitlines() if line.startswith(("import", "from"))))  # off the disk
    runs: dict[str, list[float]] = {name: [] for name in scripts}
    for turn in range(rounds):
        for name, script in scripts.items():
            if name not in once or turn == 0:
                runs[name].append(seconds(script))
                print(f"  ({name}: {runs[name][-1]:.2f} s)", flush=True)
    ours = median(next(iter(runs.values())))
    print(f"  {'':<34}{'seconds':>9}{'ours/peer':>11}{'target':>8}  fastest to slowest")
    for i, (name, each) in enumerate(runs.items()):
        ratio = f"{ours / median(each):.3f}" if i else ""
        print(
            f"  {name:<34}{median(each):>9.2f}{ratio:>11}{target.get(name, ''):>8}  {min(each):.2f} to {max(each):.2f}"
        )


def main() -> None:
    print(f"From process start, empty caches. {machine('pymc', 'pytensor', 'nutpie', 'bambi', 'numba')}")
    print("\nOurs without sampling")
    for name, script in {"import probreg": IMPORT, "logistic ML with SE, arrays (1000, 5)": MAXIMUM}.items():
        each = [seconds(script) for _ in range(6)][1:]  # the first run reads the files off the disk
        print(f"  {name:<38}{median(each):>7.2f}   {min(each):.2f} to {max(each):.2f}")
    scripts = {OURS: DATA + PROBREG}
    if installed("bambi"):
        scripts |= {f"Bambi, {m}": DATA + BAMBI.replace("METHOD", m) for m in ("pymc", "nutpie")}
    scripts |= {f"pm.sample, {m}": DATA + PYMC.replace("METHOD", m) for m in ("pymc", "nutpie")}
    print(f"\nLogistic posterior, n = 10,000, p = {P}, 4 chains of 1000")
    compare(scripts, ROUNDS, once=tuple(scripts)[1:], target={"Bambi, pymc": 0.4})


if __name__ == "__main__":
    main()
