"""A process that has imported what most pages import, and runs each page in a fork of its own: `run_page`.

A page in a new interpreter spends two seconds of processor time on imports alone. A fork has the modules, and nothing of what
other pages did.
"""

import json
import os
import re
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How the run of a page ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


class Forks:
    """The process that forks; warnings are errors there."""

    def __init__(self) -> None:
        command = [sys.executable, "-W", "error", __file__]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def run_page(self, script: Path) -> Ended:
        """The page in its folder, where `stdout` and `stderr` are left beside it."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(str(script)) + "\n")
        code = int(self.process.stdout.readline())
        return Ended(
            code, *((script.parent / name).read_text() for name in ("stdout", "stderr"))
        )

    def close(self) -> None:
        self.process.communicate()


def _in_a_fork(script: Path) -> int:
    """Its exit code."""
    sys.stdout.flush()
    if pid := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        os.chdir(script.parent)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        sys.argv = [str(script)]
        runpy.run_path(str(script), run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def warm_up() -> None:
    """Import, and compile or read from numba's cache, what a fit, a posterior, a picture and the checks of a fit use first."""
    import arviz  # noqa: F401
    import matplotlib
    import pytest  # noqa: F401
    import statsmodels.api  # noqa: F401

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    import probreg as pr

    orings = pr.load_dataset("challenger")
    model = pr.Model.from_formula(
        "damage ~ temperature", orings, likelihood="bernoulli", prior=pr.Normal(3.0)
    )
    fits = {"mode": pr.fit(model), "posterior": pr.fit(model, "nuts", seed=1)}
    for result in (*fits.values(), pr.compare(fits), pr.diagnose(fits["posterior"])):
        str(result)
    pr.plot.fitted(fits["mode"]).savefig(os.devnull, format="png")
    plt.close("all")


def prepare(code: str) -> None:
    """Compile a small model as nutpie does, before the first page that samples by PyMC: half of that code is the same for all."""
    if not re.search(r"\bpymc\b|PyMC", code) or "nutpie" in sys.modules:
        return
    import warnings

    import pymc as pm

    with warnings.catch_warnings(action="ignore"), pm.Model() as model:
        import nutpie

        center = pm.Normal("center", 0.0, 1.0, shape=2)
        pm.Normal("y", center.sum(), pm.HalfNormal("sigma", 1.0), observed=[0.0, 1.0])
        nutpie.compile_pymc_model(model)


if __name__ == "__main__":
    warm_up()
    for line in sys.stdin:
        page = Path(json.loads(line))
        prepare(page.read_text())
        sys.stdout.write(f"{_in_a_fork(page)}\n")
        sys.stdout.flush()
