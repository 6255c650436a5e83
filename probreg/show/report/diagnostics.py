"""How far to trust draws (R-hat, effective sample sizes, divergent steps), predictive accuracy, and what ran."""

import platform
import warnings
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from typing import NamedTuple

import numpy as np

from probreg.comparison import decimals, rounded
from probreg.fits.fit import Fit
from probreg.inference.sampling.convergence import R_HAT
from probreg.show.report.tables import TextTable, minus, plain_table

ESS = 400.0  # Vehtari et al. 2021
_MOST = 20_000_000  # numbers in a pointwise log likelihood that is still quick to smooth
_LIBRARIES = ("probreg", "numpy", "scipy", "xarray", "pymc", "nutpie", "arviz", "matplotlib")


class Mixing(NamedTuple):
    """The diagnostics of one Markov chain Monte Carlo run."""

    name: str
    sentence: str
    good: bool
    table: TextTable


def mixing_summary(name: str, fit: Fit) -> Mixing:
    """R-hat and effective sample sizes per parameter, and a sentence that judges them."""
    table = fit.summary()
    numbers = table[["mean", "sd", "ess_bulk", "ess_tail", "r_hat"]].to_numpy(dtype=float)
    labels = [": ".join(str(p) for p in reversed(k) if p) if isinstance(k, tuple) else str(k) for k in table.index]
    rows = [[label, *_row(*map(float, own))] for label, own in zip(labels, numbers)]
    heads = ["parameter", "mean", "SD", "MC error", "ESS bulk", "ESS tail", "R-hat"]
    worst, least = float(np.nanmax(numbers[:, 4])), float(np.nanmin(numbers[:, 2:4]))
    divergent = int(np.sum(fit.solution.sample_stats.get("diverging", 0)))
    good = worst <= R_HAT and least >= ESS and not divergent
    assert fit.solution.draws is not None  # chains are draws
    chains, draws = fit.solution.draws["beta"].shape[:2]
    steps = f"{divergent} divergent steps; " if "diverging" in fit.solution.sample_stats else ""
    sentence = (
        f"{chains} chains of {draws} draws; {steps}largest R-hat {worst:.3f} (good up to {R_HAT}); "
        f"smallest effective sample size {least:.0f} (good from {ESS:.0f})."
    )
    return Mixing(name, sentence, good, plain_table(heads, rows))


def _row(mean: float, sd: float, bulk: float, tail: float, r_hat: float) -> list[str]:
    places = decimals(np.array([sd]))
    error = f"{sd / np.sqrt(bulk):.2g}"
    return [
        minus(rounded(mean, places)),
        rounded(sd, places),
        error,
        f"{bulk:.0f}",
        f"{tail:.0f}",
        f"{r_hat:.3f}",
    ]


class Accuracy(NamedTuple):
    """Expected log predictive density by leave-one-out, and what it could not be computed for."""

    table: TextTable
    remarks: list[str]


def predictive_accuracy(fits: Mapping[str, Fit]) -> Accuracy | None:
    """PSIS-LOO of every posterior (Vehtari, Gelman & Gabry 2017), by ArviZ; None when there is no posterior."""
    rows: list[list[str]] = []
    remarks: list[str] = []
    for name, fit in fits.items():
        if fit.target != "posterior":
            continue
        if (why := _obstacle(fit)) is not None:
            remarks.append(f"{name}: {why}")
            continue
        rows.append([name, *_loo(fit)])
    heads = ["fit", "elpd", "SE", "effective parameters", "observations", "Pareto k above 0.7"]
    return Accuracy(plain_table(heads, rows), remarks) if rows or remarks else None


def _obstacle(fit: Fit) -> str | None:
    if "log_likelihood" not in fit.tree.children:
        return f"leave-one-out cannot be computed, since {fit.model.design.rows_absent}"
    if "weights" in fit.tree["constant_data"].data_vars:
        return "leave-one-out is left out here: weights stand for more observations than are written out"
    size = fit.tree["log_likelihood"]["y"].size
    if size > _MOST:
        return f"leave-one-out is left out here for its size; az.loo(fit.tree) computes it from {size:,} numbers"
    return None


def _loo(fit: Fit) -> list[str]:
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the warning says, the last column shows
        found = az.loo(fit.tree, pointwise=True)
    high = int((np.asarray(found.pareto_k) > 0.7).sum())
    return [
        minus(f"{found.elpd:.2f}"),
        f"{found.se:.2f}",
        f"{found.p:.2f}",
        str(found.n_data_points),
        str(high),
    ]


def versions() -> list[tuple[str, str]]:
    """Library and version."""
    return [("Python", platform.python_version()), *((name, _version(name)) for name in _LIBRARIES)]


def _version(name: str) -> str:
    from probreg import __version__

    if name == "probreg":
        return __version__
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
