"""Chains of the compiled sampler in threads, each with its own adaptation.

The first part of the warm-up adapts only the step. Windows follow, each twice as long
as the one before; at their ends the mass matrix is set. The last part adapts the step
to the final mass matrix. Then both are fixed.
"""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import NamedTuple

import numpy as np

from probreg.inference.base import Array
from probreg.inference.sampling import trajectory
from probreg.inference.sampling.affine_density import CompiledTarget
from probreg.numerics.compiled import Work, compile_stored

_FIRST, _LAST = 0.15, 0.5  # shares of the warm-up before and after the windows
_WINDOW = 25  # draws in the first window
_KNOWN = {
    True: 50.0,
    False: 5.0,
}  # prior weight of a variance of 1 in draws, for whitened and for other coordinates
_TRIES = 100
_LOOK = 0.1  # seconds between two checks for an interrupt
_STEP = 0.8  # the first step; an acceptance of 0 divides it by four


class Chain(NamedTuple):
    """Draws (S, d) with their statistics (S, 7), the columns as `trajectory` numbers them."""

    draws: Array
    stats: Array


class Progress(NamedTuple):
    """State that a chain and its waiting thread share."""

    halt: Array  # (1,), above zero to end all chains
    done: Array  # (1,), the number of draws of this chain


def windows(tune: int) -> Iterator[tuple[int, bool]]:
    """Yield the lengths of the parts of the warm-up, and whether the mass matrix is set
    at the end of each.

    >>> list(windows(300))
    [(45, False), (25, True), (80, True), (150, False)]
    """
    first = int(_FIRST * tune)
    last = int(_LAST * tune)
    middle = tune - first - last
    window = _WINDOW
    if middle < window:
        yield tune, False
        return
    yield first, False
    while middle:
        length = (
            window if middle >= 3 * window else middle
        )  # the next would be cut short, so this one takes the remainder
        yield length, True
        middle = middle - length
        window = 2 * window
    yield last, False


def run_chains(
    target: CompiledTarget, start: Callable[[np.random.Generator], Array], tune: int, draws: int, aim: float, *, seed: int,
    chains: int, whitened: bool, workers: int, look: Callable[[int], None],
) -> list[Chain] | None:  # fmt: skip
    """Return the chains, each from the first of several starts with a finite density,
    or None if there is none.

    `look` is called every tenth of a second with the number of finished draws, and ends
    all chains if it raises.
    """
    rngs = [
        np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(chains)
    ]
    halt = np.zeros(1)
    done = np.zeros((chains, 1))
    walkers = [
        _Walker(target, r, _KNOWN[whitened], aim, Progress(halt, d))
        for r, d in zip(rngs, done)
    ]
    if not all(w.begin(start) for w in walkers):
        return None
    with ThreadPoolExecutor(max(1, min(workers, chains))) as pool:
        try:
            # an interrupt while a thread starts leaves a thread unknown to the pool,
            # which ends by `halt`
            running = [pool.submit(w.chain, tune, draws) for w in walkers]
            while wait(running, timeout=_LOOK).not_done:
                look(int(done.sum()))
        finally:
            halt[:] = 1.0
        return [r.result() for r in running]


class _Walker:
    """One chain: its position, mass matrix and step."""

    def __init__(
        self,
        target: CompiledTarget,
        rng: np.random.Generator,
        prior_draws: float,
        aim: float,
        progress: Progress,
    ) -> None:
        from probreg.numerics.compiled.addresses import source_of, table_of

        t = trajectory
        once = (t.kinetic, t.leapfrog, t.extend, t.transition, t.adapt)
        self._run = compile_stored(
            t.run_chain,
            (t.has_turned, t.has_turned_jointly, t.copy, t.log_sum, *once),
            once,
        )
        self.target, self.rng, self.known, self.aim, self.progress = (
            target,
            rng,
            prior_draws,
            aim,
            progress,
        )
        self.w = np.empty((t.ROWS, target.data.A.shape[1]))
        self.w[t.MASS] = 1.0
        self.arrays = (
            *target.data,
            *Work.of(target.data),
        )  # at the addresses in the table
        self.table, self.source = table_of(self.arrays), source_of(rng)
        self.state = _restart_state(_STEP)

    def begin(self, start: Callable[[np.random.Generator], Array]) -> bool:
        """Whether one of several starts has a finite density."""
        for _ in range(_TRIES):
            self.w[trajectory.Places().point] = start(self.rng)
            if np.isfinite(self.draw(0, self.aim)[0]):
                return True
        return False

    def draw(self, count: int, aim: float) -> tuple[float, Chain]:
        """Return log p at the end of the chain, and `count` draws."""
        chain = Chain(
            self.rng.standard_normal((count, self.w.shape[1])), np.empty((count, 7))
        )
        log_p = self._run(
            self.target.function.address, self.table.ctypes.data, self.w, trajectory.Places(), self.state, aim, self.source,
            *self.progress, *chain,
        )  # fmt: skip
        return log_p, chain

    def chain(self, tune: int, draws: int) -> Chain:
        """Return the draws after the warm-up, or those before an interrupt."""
        for length, ends in windows(tune):
            draws_of_window = self.draw(length, self.aim)[1].draws
            if self.progress.halt[0]:
                break
            if ends:
                # M^-1 = (n s^2 + k 1) / (n + k): the variances of the window, shrunk to
                # the 1 of whitened coordinates.
                self.w[trajectory.MASS] = (
                    length * draws_of_window.var(0) + self.known
                ) / (length + self.known)
                self.state = _restart_state(math.exp(self.state[trajectory.LOG_MEAN]))
        return self.draw(draws, -1.0)[1]


def _restart_state(step: float) -> Array:
    """Return the state of dual averaging about a step; it first tries twice the step,
    because failed long steps are cheap."""
    state = np.zeros(5)
    state[trajectory.MIDDLE] = math.log(2.0 * step)
    state[trajectory.LOG_STEP] = state[trajectory.LOG_MEAN] = math.log(step)
    return state
