"""A whole analysis, step by step, with the time of each: `python benchmarks/analysis.py`.

Logistic regression of 6,366 rows (`fair`, which the package bundles), from the import to the report. Three columns of seconds: the first
call in the process, which pays for imports and for compiled code read from its cache, the least of the later ones, and that one's
processor time. A goal is in seconds, or as a ratio to the step of a peer in the row above it. A step alone: `analysis.py loo report`.
"""

import argparse
import logging
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

from side_by_side import installed, machine

import probreg as pr

FORMULA = "affair ~ rate_marriage + age + years_married + children + religious + C(occupation)"
SMALLER = "affair ~ rate_marriage + age"
ROUNDS = 5

# What a process of its own imports: ours beside what it cannot do without.
IMPORTS = {
    "import numpy, scipy.linalg": "import numpy, scipy.linalg",
    "import probreg": "import probreg",
}
COLD = """
import numpy as np
rng = np.random.default_rng(8)
X = rng.standard_normal((1000, 5))
y = (rng.random(1000) < 1 / (1 + np.exp(-X @ np.ones(5)))).astype(int)
import probreg as pr, xarray
from time import perf_counter
start = perf_counter()
found = pr.fit(pr.Model.from_arrays(X, y, likelihood="bernoulli"))
found.coef, found.std_error
print(perf_counter() - start)
"""


def row(
    name: str,
    first: float,
    later: float | None = None,
    processor: float | None = None,
    goal: str = "",
) -> None:
    rest = "".join(
        f"{'' if seconds is None else format(seconds, '.3f'):>11}"
        for seconds in (later, processor)
    )
    print(f"  {name:<50}{first:>8.3f}{rest}  {goal}", flush=True)


def step(
    name: str, run: Callable[[], Any], goal: str = "", *, rounds: int = ROUNDS
) -> Any:
    """The seconds of the first call, the least of the later ones with its processor time, and the last result."""
    seconds, processor, result = [], [], None
    for _ in range(rounds + 1):
        wall, work = perf_counter(), process_time()
        result = run()
        seconds.append(perf_counter() - wall)
        processor.append(process_time() - work)
    least = min(range(1, rounds + 1), key=seconds.__getitem__) if rounds else 0
    row(name, seconds[0], seconds[least], processor[least], goal)
    return result


def process(script: str, rounds: int = ROUNDS) -> float:
    """The median of seconds from the start of a process to its end; what a script prints, where it prints seconds itself."""
    found = []
    for _ in range(rounds + 1):
        start = perf_counter()
        run = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        )
        found.append(float(run.stdout) if run.stdout else perf_counter() - start)
    return median(found[1:])  # the first run reads the files off the disk


class Analysis:
    """The data, and fits that several steps read; each is made once."""

    def __init__(self) -> None:
        table = pr.load_dataset("fair")
        table["affair"] = (table["affairs"] > 0).astype(int)
        self.table = table
        self.ml = pr.fit(self.model())
        self.posterior = pr.fit(self.model(prior="weak"), "posterior", seed=1)
        self.smaller = pr.fit(self.model(SMALLER, prior="weak"), "posterior", seed=1)

    def model(self, formula: str = FORMULA, **more: Any) -> pr.Model:
        return pr.Model.from_formula(
            formula, self.table, likelihood=pr.Bernoulli(), **more
        )

    def fresh(self) -> pr.Fit:
        """The same posterior without what earlier steps have kept in it."""
        return pr.Fit(
            self.posterior.model,
            self.posterior.method,
            self.posterior.solution,
            self.posterior.seed,
        )

    # Each method that starts with `time_` is a step; its name is what the command line takes.
    def time_import(self) -> None:
        for name, script in IMPORTS.items():
            seconds = process(script)
            row(
                f"{name}, a process",
                seconds,
                goal="0.1 s beyond the row above" if "probreg" in name else "",
            )
        row(
            "ML of arrays (1000, 5), a process, after imports",
            process(COLD),
            goal="0.3 s",
        )

    def time_fit(self) -> None:
        step("model and ML", lambda: pr.fit(self.model()))

    def time_effects(self) -> None:
        if installed("statsmodels"):
            import statsmodels.formula.api as smf

            peer = smf.logit(FORMULA, self.table).fit(disp=0)
            step("statsmodels: get_margeff", lambda: peer.get_margeff().summary_frame())
        step("slopes of ML", lambda: pr.slopes(self.ml), "2 of the row above")
        step("comparisons of ML", lambda: pr.comparisons(self.ml), "2 of that row")
        step("predictions of ML", lambda: pr.predictions(self.ml), "2 of that row")
        step("slopes of a posterior", lambda: pr.slopes(self.posterior), "0.3 s")
        step(
            "comparisons of one column, posterior",
            lambda: pr.comparisons(self.posterior, "age"),
            "0.3 s",
        )

    def time_predict(self) -> None:
        step("predict, a posterior of 4,000 draws", self.posterior.predict)

    def time_loo(self) -> None:
        if installed("arviz"):
            import arviz as az

            step("ArviZ: loo", lambda: az.loo(self.posterior.tree), rounds=1)
        step("loo", lambda: self.fresh().loo(), "0.5 s")

    def time_compare_models(self) -> None:
        step(
            "compare_models of two posteriors",
            lambda: pr.compare_models({"all": self.fresh(), "two": self.smaller}),
            "0.5 s",
        )

    def time_diagnose(self) -> None:
        step("diagnose of ML", lambda: pr.diagnose(pr.fit(self.ml.model)))
        step("diagnose of a posterior", lambda: pr.diagnose(self.fresh()), "0.5 s")

    def time_tune(self) -> None:
        model = self.model(prior=pr.Normal(1.0, scaled=True))
        step("tune by ten folds", lambda: pr.tune(model, "cv", progress=False), "0.3 s")
        step(
            "tune by leave-one-out",
            lambda: pr.tune(model, "loo", progress=False),
            "0.3 s",
        )

    def time_print(self) -> None:
        step(
            "compare, printed",
            lambda: repr(pr.compare({"ML": self.ml, "posterior": self.fresh()})),
            "0.1 s",
        )
        step("summary of a posterior, printed", lambda: repr(self.fresh().summary()))

    def time_report(self) -> None:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / "report.html"
            step(
                "report of two fits",
                lambda: pr.report({"ML": self.ml, "posterior": self.fresh()}, file),
                "1.5 s",
                rounds=2,
            )


def main() -> None:
    steps = [
        name.removeprefix("time_")
        for name in vars(Analysis)
        if name.startswith("time_")
    ]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "steps", nargs="*", help=f"which: {', '.join(steps)}; all unless some are named"
    )
    asked = parser.parse_args().steps or steps
    if unknown := set(asked) - set(steps):
        parser.error(f"{', '.join(sorted(unknown))}: steps are {', '.join(steps)}")
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print(f"Logistic regression of 6,366 rows. {machine('statsmodels', 'arviz')}")
    analysis = Analysis()
    print(f"  {'':<50}{'first':>8}{'least':>11}{'processor':>11}  goal")
    for name in asked:
        getattr(analysis, f"time_{name}")()


if __name__ == "__main__":
    main()
