"""Seconds from the start of a process to a result: `python benchmarks/cold.py`; `--alone` leaves Bambi and PyMC out.

Each run is a process of its own, with empty cache directories for PyTensor and numba unless it says warm. The files of the packages
have been read once before, and their bytecode is kept, as an installation has it, so that nobody pays for the disk or for Python's
compiler. The clock starts before the process does.
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

IMPORTS = "import numpy as np, probreg as pr, xarray"

SMALL = f"""
{IMPORTS}
rng = np.random.default_rng(8)
X = rng.standard_normal((1000, 5))
y = (rng.random(1000) < 1 / (1 + np.exp(-X @ np.ones(5)))).astype(int)
"""

MAXIMUM = {  # what each takes beyond IMPORTS
    "logistic ML, arrays (1000, 5)": 'found = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli"))',
    "least squares, arrays": "found = pr.ols(X, y)",
    "logistic ML, formula": 'found = pr.fit(pr.Model.from_formula("y ~ " + " + ".join(f"x{j}" for j in range(5)), '
    '{"y": y, **{f"x{j}": X[:, j] for j in range(5)}}, likelihood="bernoulli"))',
}
LABELS = "\nassert found.coef.shape == found.std_error.shape == (6,)"


def seconds(script: str, kept: Path, *, warm: bool = False) -> tuple[float, float]:
    """From before the process starts to the last line of the script, and processor time until then; `kept` holds bytecode, and machine code of warm runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        compiled = kept if warm else Path(caches)
        fresh = {
            "PYTENSOR_FLAGS": f"base_compiledir={compiled / 'pytensor'}",
            "NUMBA_CACHE_DIR": str(compiled / "numba"),
            "PYTHONPYCACHEPREFIX": str(kept / "bytecode"),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        # Samplers in processes start by importing this script again: only the first one runs it.
        file = Path(caches) / "run.py"
        file.write_text(
            "if __name__ == '__main__':\n"
            + "".join(
                f"    {line}\n"
                for line in (
                    script
                    + "\nimport time; print('at', time.time(), time.process_time())"
                ).splitlines()
            )
        )
        start = time()
        run = subprocess.run(
            [sys.executable, str(file)],
            env=os.environ | fresh,
            capture_output=True,
            text=True,
        )
    if run.returncode:
        raise RuntimeError(run.stderr[-2000:])
    at, processor = map(float, run.stdout.split()[-2:])
    return at - start, processor


def without_sampling(kept: Path) -> None:
    """In turn: the imports alone, and each fit; medians, and what a fit takes beyond the imports."""
    scripts = {"import numpy, probreg, xarray": IMPORTS} | {
        k: SMALL + v + LABELS for k, v in MAXIMUM.items()
    }
    runs: dict[str, list[tuple[float, float]]] = {name: [] for name in scripts}
    for script in scripts.values():
        seconds(script, kept)  # off the disk
    for _ in range(7):
        for name, script in scripts.items():
            runs[name].append(seconds(script, kept))
    found = {
        name: [median(each) for each in zip(*of, strict=True)]
        for name, of in runs.items()
    }
    base = found["import numpy, probreg, xarray"]
    print(
        f"  {'':<34}{'seconds':>9}{'beyond':>9}{'target':>8}{'processor':>11}{'beyond':>9}"
    )
    for i, (name, (wall, processor)) in enumerate(found.items()):
        beyond = (
            (f"{wall - base[0]:.2f}", f"{processor - base[1]:.2f}") if i else ("", "")
        )
        target = 0.3 if i == 1 else ""
        print(
            f"  {name:<34}{wall:>9.2f}{beyond[0]:>9}{target:>8}{processor:>11.2f}{beyond[1]:>9}"
        )


def compare(
    scripts: dict[str, str],
    kept: Path,
    rounds: int,
    *,
    once: tuple[str, ...] = (),
    target: dict[str, float] | None = None,
) -> None:
    """The scripts in turn, those in `once` in the first round only; ratios of the first to each of the others."""
    target = target or {}
    for script in scripts.values():
        seconds(
            "\n".join(
                line
                for line in script.splitlines()
                if line.startswith(("import", "from"))
            ),
            kept,
        )  # off the disk
    runs: dict[str, list[float]] = {name: [] for name in scripts}
    for turn in range(rounds):
        for name, script in scripts.items():
            if name not in once or turn == 0:
                runs[name].append(seconds(script, kept)[0])
                print(f"  ({name}: {runs[name][-1]:.2f} s)", flush=True)
    ours = median(next(iter(runs.values())))
    print(f"  {'':<34}{'seconds':>9}{'ours/peer':>11}{'target':>8}  fastest to slowest")
    for i, (name, each) in enumerate(runs.items()):
        ratio = f"{ours / median(each):.3f}" if i else ""
        print(
            f"  {name:<34}{median(each):>9.2f}{ratio:>11}{target.get(name, ''):>8}  {min(each):.2f} to {max(each):.2f}"
        )


def main() -> None:
    print(
        f"From process start. {machine('pymc', 'pytensor', 'nutpie', 'bambi', 'numba')}"
    )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        kept = Path(folder)
        print("\nEstimates and standard errors by maximum likelihood")
        without_sampling(kept)
        print(
            f"\nLogistic posterior by NUTS, n = 10,000, p = {P}, 4 chains of 1000, what was compiled before at hand (target 4)"
        )
        each = [seconds(DATA + PROBREG, kept, warm=True)[0] for _ in range(ROUNDS + 1)][
            1:
        ]
        print(f"  {OURS:<34}{median(each):>9.2f}  {min(each):.2f} to {max(each):.2f}")
        scripts = {OURS: DATA + PROBREG}
        if "--alone" not in sys.argv:
            bambi = ("pymc", "nutpie") if installed("bambi") else ()
            scripts |= {f"Bambi, {m}": DATA + BAMBI.replace("METHOD", m) for m in bambi}
            scripts |= {
                f"pm.sample, {m}": DATA + PYMC.replace("METHOD", m)
                for m in ("pymc", "nutpie")
            }
        print("\nThe same with empty caches")
        compare(
            scripts,
            kept,
            ROUNDS,
            once=tuple(scripts)[1:],
            target={"Bambi, pymc": 0.1, "Bambi, nutpie": 0.1},
        )


if __name__ == "__main__":
    main()
