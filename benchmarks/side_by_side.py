"""Timing of several ways to one result, taken in turn so that a busy machine slows them alike, and the table of ratios."""

import gc
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np

OURS = "probreg"


@dataclass(frozen=True)
class Timed:
    """What a call returned, and the seconds of each of its runs."""

    result: Any
    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.seconds)


@dataclass(frozen=True)
class Estimate:
    """Coefficients and standard errors, intercept first; no errors where the peer has none."""

    coef: np.ndarray
    std_error: np.ndarray | None = None


def installed(module: str) -> bool:
    """Whether a peer can be imported; it is left out of the table otherwise."""
    return importlib.util.find_spec(module) is not None


def in_turn(
    calls: Mapping[str, Callable[[], Any]],
    rounds: int,
    *,
    fewer: Mapping[str, int] | None = None,
) -> dict[str, Timed]:
    """Each call once per round, in the order A B C, A B C, ...; `fewer` bounds the rounds of slow ones."""
    results: dict[str, Any] = {}
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name, call in calls.items():
            if turn >= (fewer or {}).get(name, rounds):
                continue
            gc.collect()
            start = perf_counter()
            results[name] = call()
            seconds[name].append(perf_counter() - start)
    return {name: Timed(results[name], tuple(seconds[name])) for name in calls}


def agreement(ours: Estimate, peer: Estimate) -> str:
    """Largest difference of coefficients in standard errors, and the digits to which the standard errors agree."""
    assert ours.std_error is not None
    apart = np.max(np.abs(ours.coef - peer.coef) / ours.std_error)
    if peer.std_error is None:
        return f"coef within {apart:.0e} SE; peer has no SE"
    relative = np.max(np.abs(peer.std_error / ours.std_error - 1.0))
    return f"coef within {apart:.0e} SE; SE to {-np.log10(max(relative, 1e-16)):.0f} digits"


def compare(
    timed: Mapping[str, Timed], *, targets: Mapping[str, float] | None = None
) -> None:
    """One row per way: seconds, ours divided by theirs, the target of that ratio, the agreement of the estimates."""
    ours = timed[OURS]
    print(f"  {'':<38}{'seconds':>9}{'ours/peer':>11}{'target':>8}  agreement")
    print(f"  {OURS:<38}{ours.median:>9.3f}{'':>11}{'':>8}  {spread(ours)}")
    for name, peer in timed.items():
        if name == OURS:
            continue
        target = (targets or {}).get(name)
        print(
            f"  {name:<38}{peer.median:>9.3f}{ours.median / peer.median:>11.3f}"
            f"{'' if target is None else format(target, '.2f'):>8}  {agreement(ours.result, peer.result)}"
        )


def spread(timed: Timed) -> str:
    return f"{len(timed.seconds)} runs, {min(timed.seconds):.3f} to {max(timed.seconds):.3f} s"


def machine(*packages: str) -> str:
    """The machine and the versions in one line."""
    versions = [
        f"{p} {importlib.metadata.version(p)}"
        for p in ("probreg", "numpy", "scipy", *packages)
        if _known(p)
    ]
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}; {', '.join(versions)}"


def _known(package: str) -> bool:
    try:
        importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
