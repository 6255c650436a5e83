"""Processes and smooth functions whose scales are unknown, beside their peers: `python benchmarks/processes.py [case ...]`.

- exact: `pr.gp` of n = 1,000, amplitude, length and noise found, beside scikit-learn's GaussianProcessRegressor; both at one evidence.
- smooth: `s(times)` by restricted likelihood on the motorcycle data (`--mcycle` is a file of its columns; 133 drawn rows without it).
- gaussian, bernoulli: a process of 1e5 rows through sines, its amplitude and length integrated, beside PyMC's HSGP by NUTS, which is
  stopped after `--limit` seconds; its time for 1,000 steps of tuning and 1,000 draws is scaled up from the steps until then.
- scales: three smooth functions under HalfNormal scales, integrated, beside NUTS of the same model by PyMC; three crossed factors,
  whose scales are unknown, beside Bambi.

The kernel ridge path with leave-one-out is in `path.py`. Cases without a name: all. Peers run once, except scikit-learn.
"""

import argparse
import csv
import logging
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from side_by_side import OURS, Timed, in_turn, installed, machine, spread

import probreg as pr
from probreg.priors import GaussianProcess, HalfNormal, LogNormal, Normal

TUNE, DRAWS = 1000, 1000  # of a chain that a reader would take
SHORT = 100  # of tuning, and of draws, of the one that is run
SINES, FACTOR = 75, 1.5  # of PyMC's HSGP: as many as ours takes
GOALS = {
    "exact": 1.0,
    "smooth": 0.02,
    "gaussian": 2.0,
    "bernoulli": 20.0,
    "scales": 0.01,
}

Table = dict[str, np.ndarray]


def report(title: str, timed: dict[str, Timed], goal: str) -> None:
    ours = timed[OURS]
    least = min(ours.seconds)
    print(f"\n{title}; goal {goal}")
    for name, t in timed.items():
        ratio = (
            ""
            if name == OURS
            else f"  ratio {ours.median / t.median:.4f}, of the least {least / min(t.seconds):.4f}"
        )
        print(
            f"  {name:<40}{t.median:>9.3f} s  least {min(t.seconds):.3f}  {spread(t)}{ratio}",
            flush=True,
        )


# ---- an exact process -----------------------------------------------------------------------------------------------


def curve(n: int) -> Table:
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(0.0, 10.0, n))
    f = np.sin(x) + 0.5 * np.cos(3.0 * x)
    return {
        "x": x,
        "y": f + 0.5 * rng.standard_normal(n),
        "b": (rng.random(n) < 1.0 / (1.0 + np.exp(-f))).astype(int),
    }


def exact(asked: argparse.Namespace) -> None:
    rows = curve(1_000)

    def ours() -> float:
        return pr.gp(rows["x"], rows["y"], intercept=False).solution.stats[
            "log_evidence"
        ]

    def peer() -> float:
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

        kernel = ConstantKernel() * RBF() + WhiteKernel()
        return float(
            GaussianProcessRegressor(kernel)
            .fit(rows["x"][:, None], rows["y"])
            .log_marginal_likelihood_value_
        )

    pr.gp(rows["x"][::20], rows["y"][::20], intercept=False)  # imports
    calls: dict[str, Callable[[], Any]] = {OURS: ours} | (
        {"scikit-learn": peer} if installed("sklearn") else {}
    )
    timed = in_turn(calls, asked.rounds)
    report(
        "exact process, n = 1,000, three hyperparameters",
        timed,
        f"ratio {GOALS['exact']}",
    )
    if "scikit-learn" in timed:
        apart = abs(timed[OURS].result - timed["scikit-learn"].result)
        assert apart < 1e-6, f"the evidences are {apart:.1e} apart"
        print(f"  log evidence {timed[OURS].result:.6f}, {apart:.0e} apart")


# ---- a smooth function by restricted likelihood ---------------------------------------------------------------------


def motorcycle(path: Path | None) -> Table:
    if path is None:
        rng = np.random.default_rng(4)
        t = np.sort(rng.uniform(2.0, 58.0, 133))
        return {
            "times": t,
            "accel": -100.0 * np.exp(-(((t - 21.0) / 6.0) ** 2))
            + 22.0 * rng.standard_normal(133),
        }
    with path.open() as file:
        rows = list(csv.DictReader(file))
    return {
        name: np.array([float(r[name]) for r in rows]) for name in ("times", "accel")
    }


def smooth(asked: argparse.Namespace) -> None:
    rows = motorcycle(asked.mcycle)
    model = pr.Model.from_formula("accel ~ s(times)", rows)
    whole = partial(_formula_and_fit, "accel ~ s(times)", rows)
    whole()  # imports
    timed = in_turn(
        {OURS: whole, "the fit alone": partial(pr.fit, model)}, 20 * asked.rounds
    )
    report("s(times) by restricted likelihood, n = 133", timed, f"{GOALS['smooth']} s")


def _formula_and_fit(formula: str, rows: Table) -> pr.Fit:
    return pr.fit(pr.Model.from_formula(formula, rows))


# ---- a process of many rows -----------------------------------------------------------------------------------------


def many(likelihood: str, asked: argparse.Namespace) -> None:
    rows = curve(100_000)
    response = "y" if likelihood == "gaussian" else "b"
    prior = {"gp(x)": GaussianProcess(amplitude=HalfNormal(2.0), length=LogNormal(0.5))}

    def ours(rows: Table) -> pr.Fit:
        model = pr.Model.from_formula(
            f"{response} ~ gp(x, basis='hsgp')",
            rows,
            prior=prior,
            likelihood=likelihood,
        )
        return pr.fit(model, "integrate", seed=1)

    with warnings.catch_warnings():
        # that Laplace's approximation of 76 coefficients is not weighed
        warnings.simplefilter("ignore")
        ours({k: v[::200] for k, v in rows.items()})  # imports
        timed = in_turn(
            {OURS: partial(ours, rows)}, asked.rounds if likelihood == "gaussian" else 1
        )
    report(
        f"{likelihood}, process of 1e5 rows, length integrated",
        timed,
        f"{GOALS[likelihood]} s",
    )
    _show({OURS: Timed(_scales(timed[OURS].result), ())})
    if asked.alone or not installed("pymc"):
        return
    took = hsgp(rows, response, asked.limit)
    step = took["seconds"] / took["steps"]
    print(
        f"  PyMC's HSGP by NUTS: {took['steps']:.0f} steps of {SHORT} + {SHORT} in {took['seconds']:.0f} s with compilation "
        f"of {took['compilation']:.0f} s left out; {TUNE} + {DRAWS} steps of one chain at this pace: {step * (TUNE + DRAWS):,.0f} s"
    )


def hsgp(rows: Table, response: str, limit: float) -> dict[str, float]:
    """Seconds and steps of one short chain of PyMC's, stopped at the limit, and the seconds of compiling before it."""
    import pymc as pm

    with pm.Model() as model:
        k = pm.HalfNormal("amplitude", 2.0) ** 2 * pm.gp.cov.ExpQuad(
            1, ls=pm.LogNormal("length", 0.0, 0.5)
        )
        f = pm.gp.HSGP(m=[SINES], c=FACTOR, cov_func=k).prior(
            "f", X=rows["x"][:, None]
        ) + pm.Flat("Intercept")
        if response == "y":
            pm.Normal("y", f, pm.HalfNormal("sigma", 2.0), observed=rows["y"])
        else:
            pm.Bernoulli("b", logit_p=f, observed=rows["b"])
    begin, stamps = time.perf_counter(), list[float]()

    def each(**_: Any) -> None:
        stamps.append(time.perf_counter())
        if len(stamps) > 1 and stamps[-1] - stamps[0] > limit:
            raise KeyboardInterrupt  # which PyMC takes as the end of its chain

    quiet = {
        "progressbar": False,
        "compute_convergence_checks": False,
        "random_seed": 1,
    }
    with suppress(KeyboardInterrupt, ValueError):  # stopped before its first draw
        pm.sample(
            draws=SHORT,
            tune=SHORT,
            chains=1,
            cores=1,
            callback=each,
            model=model,
            **quiet,
        )
    return {
        "compilation": stamps[0] - begin,
        "seconds": stamps[-1] - stamps[0],
        "steps": float(len(stamps) - 1),
    }


# ---- three unknown scales -------------------------------------------------------------------------------------------


def scales(asked: argparse.Namespace) -> None:
    rng = np.random.default_rng(2)
    rows: Table = {name: rng.uniform(-2.0, 2.0, 200) for name in "abc"}
    rows["y"] = (
        np.sin(2.0 * rows["a"])
        + 0.5 * rows["b"] ** 2
        + 0.3 * rows["c"]
        + 0.4 * rng.standard_normal(200)
    )
    half = Normal(HalfNormal(2.0))
    prior = {f"s({name})": half for name in "abc"}
    smooths = partial(
        pr.Model.from_formula,
        "y ~ s(a) + s(b) + s(c)",
        rows,
        prior=prior,
        aux={"sigma": HalfNormal(2.0)},
    )
    calls: dict[str, Callable[[], Any]] = {
        OURS: lambda: _scales(pr.fit(smooths(), "integrate", seed=1))
    }
    if not asked.alone and installed("pymc"):
        calls["the same model, pm.sample"] = lambda: _by_pymc(smooths())
    calls[OURS]()  # imports
    once = dict.fromkeys([name for name in calls if name != OURS], 1)
    timed = in_turn(calls, 3 * asked.rounds, fewer=once)
    report(
        "three smooth functions, n = 200, HalfNormal scales",
        timed,
        f"ratio {GOALS['scales']}",
    )
    _show(timed)
    # Bambi has no smooth terms with a scale: three crossed factors of ten levels, their scales unknown
    levels = {name: rng.integers(0, 10, 200) for name in "abc"}
    effects = {
        name: scale * rng.standard_normal(10)
        for name, scale in zip("abc", (1.0, 0.5, 0.2))
    }
    y = sum(effects[name][levels[name]] for name in "abc") + 0.4 * rng.standard_normal(
        200
    )
    calls = {OURS: lambda: _scales(pr.fit(_crossed(levels, y), "integrate", seed=1))}
    if not asked.alone and installed("bambi"):
        calls["Bambi, pymc"] = lambda: _by_bambi(levels, y)
    timed = in_turn(calls, 3 * asked.rounds, fewer={"Bambi, pymc": 1})
    report(
        "three crossed factors of 10 levels, n = 200, HalfNormal scales",
        timed,
        f"ratio {GOALS['scales']}",
    )
    _show(timed)


def _show(timed: dict[str, Timed]) -> None:
    for name, t in timed.items():
        print(
            f"  {name:<40}"
            + ", ".join(f"{mean:.3f} ({sd:.3f})" for mean, sd in t.result)
        )


def _scales(fit: pr.Fit) -> list[tuple[float, float]]:
    """Means and standard deviations of the three scales."""
    draws = fit.solution.draws
    return [(float(draws[k].mean()), float(draws[k].std())) for k in draws.hyper]


def _crossed(levels: Table, y: np.ndarray) -> pr.Model:
    names = [(name, j) for name in levels for j in range(10)]
    X = np.stack([(levels[name] == j).astype(float) for name, j in names], 1)
    columns = [f"{name}{j}" for name, j in names]
    prior = {
        tuple(f"{name}{j}" for j in range(10)): Normal(HalfNormal(2.0))
        for name in levels
    }
    return pr.Model.from_arrays(
        X, y, columns=columns, prior=prior, aux={"sigma": HalfNormal(2.0)}
    )


def _by_pymc(model: pr.Model) -> list[tuple[float, float]]:
    import pymc as pm

    with model.to_pymc():
        found = pm.sample(1000, tune=1000, chains=4, random_seed=1, progressbar=False)[
            "posterior"
        ]
    return [
        (float(found[k].mean()), float(found[k].std()))
        for k in found
        if str(k).startswith("tau")
    ]


def _by_bambi(levels: Table, y: np.ndarray) -> list[tuple[float, float]]:
    import bambi as bmb
    import pandas as pd

    table = pd.DataFrame({name: v.astype(str) for name, v in levels.items()}).assign(
        y=y
    )
    each = bmb.Prior("Normal", mu=0, sigma=bmb.Prior("HalfNormal", sigma=2.0))
    priors = {f"1|{name}": each for name in levels} | {
        "sigma": bmb.Prior("HalfNormal", sigma=2.0)
    }
    found = bmb.Model("y ~ 1 + (1|a) + (1|b) + (1|c)", table, priors=priors).fit(
        draws=1000, tune=1000, chains=4, random_seed=1, progressbar=False
    )["posterior"]
    return [
        (float(found[f"1|{name}_sigma"].mean()), float(found[f"1|{name}_sigma"].std()))
        for name in levels
    ]


CASES: dict[str, Callable[[argparse.Namespace], None]] = {
    "exact": exact,
    "smooth": smooth,
    "gaussian": partial(many, "gaussian"),
    "bernoulli": partial(many, "bernoulli"),
    "scales": scales,
}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("cases", nargs="*", help=", ".join(CASES))
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument(
        "--limit", type=float, default=240.0, help="seconds of PyMC's HSGP"
    )
    arguments.add_argument(
        "--mcycle", type=Path, help="a file with the columns times and accel"
    )
    arguments.add_argument(
        "--alone", action="store_true", help="without the peers that take minutes"
    )
    asked = arguments.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    print(f"Processes and smooth functions. {machine('scikit-learn', 'pymc', 'bambi')}")
    for name in asked.cases or CASES:
        CASES[name](asked)


if __name__ == "__main__":
    main()
