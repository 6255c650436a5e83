"""Draws of one Markov chain Monte Carlo run, parameter by parameter. Numbers only."""

from typing import Any, NamedTuple

import numpy as np

from probreg.errors import Incompatible
from probreg.fits.fit import Fit
from probreg.inference.base import markov
from probreg.show.plot.parameters import Rename, intercepts, names_to_show, order_names

Array = np.ndarray
MOST = 12  # parameters in one picture


class Chains(NamedTuple):
    """Draws (chain, draw) by parameter, divergent steps (chain, draw) with how many in words, and what was left out."""

    draws: dict[str, Array]
    diverging: Array
    steps: str
    note: str


def chains(
    fit: Fit,
    rename: Rename | None = None,
    intercept: bool = True,
    most: int | None = MOST,
) -> Chains:
    """The first `most` parameters, by the names to show. Incompatible for a fit that has no chains."""
    if not markov(fit.method, fit.solution):
        raise Incompatible(
            f"{fit.method.name} runs no Markov chains, so they cannot be looked at; fit with 'nuts'"
        )
    posterior: Any = fit.tree["posterior"]
    beta = posterior["beta"].values
    flat = beta.reshape(*beta.shape[:2], -1)
    names = [str(n) for n in fit.parameter_names]
    every = {name: flat[..., j] for j, name in enumerate(names)}
    every |= {name: posterior[name].values for name in fit.solution.aux}
    shown = names_to_show(list(every), rename)
    kept_names = order_names(
        list(every),
        set() if intercept else intercepts([fit]),
        sort=None,
        estimate={},
        shown=shown,
    )
    every = {shown[name]: every[name] for name in kept_names}
    if most is not None and len(every) > most:
        note = f"the first {most} of {len(every)} parameters"
    else:
        note = ""
    kept = dict(list(every.items())[:most])
    stats = fit.solution.posterior.stats
    diverging = np.asarray(stats.get("diverging", np.zeros(beta.shape[:2])), dtype=bool)
    counted = "diverging" in stats
    return Chains(
        kept,
        diverging,
        f"; {int(diverging.sum())} divergent steps" if counted else "",
        note,
    )


def density(x: Array, at: Array) -> Array:
    """Kernel estimate with Silverman's bandwidth, at the points `at`; at most 1,000 draws enter.

    >>> density(np.array([0.0, 0.0, 1.0, 1.0]), np.array([0.5])).round(2)
    array([0.4])
    """
    x = x[:: max(1, len(x) // 1000)]
    width = (
        0.9
        * min(x.std(), np.subtract(*np.quantile(x, [0.75, 0.25])) / 1.34)
        * len(x) ** -0.2
    )
    width = width if width > 0 else max(float(x.std()), 1e-12)
    z = (at[:, None] - x) / width
    return np.exp(-0.5 * z * z).mean(1) / (width * np.sqrt(2 * np.pi))


def ranks(draws: Array) -> Array:
    """Ranks 0 .. N-1 over all chains together, (chain, draw)."""
    return np.argsort(
        np.argsort(draws, axis=None, kind="stable"), kind="stable"
    ).reshape(draws.shape)
