"""Chains of the compiled sampler in threads, each with an adaptation of its own.

Of the tuning, a first part adapts the step alone; windows follow, each twice as long as the one before, at whose ends the mass matrix is
set; a last part adapts the step to the last of them. Then both are held.
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

_FIRST, _LAST = 0.15, 0.5  # of the tuning: before the windows, and after them
_WINDOW = 25  # draws in the first window
_KNOWN = {
    True: 50.0,
    False: 5.0,
}  # draws that a variance of 1 is worth beforehand, in whitened coordinates and in others
_TRIES = 100
_LOOK = 0.1  # seconds between two looks for an interrupt
_STEP = 0.8  # the first step; an acceptance of 0 divides it by four


class Chain(NamedTuple):
    """Draws (S, d) with their statistics (S, 7), the columns as `trajectory` numbers them."""

    draws: Array
    stats: Array


class Progress(NamedTuple):
    """What a chain and the thread that waits for it share."""

    halt: Array  # (1,), above zero to end all chains
    done: Array  # (1,), the draws of this one


def windows(tune: int) -> Iterator[tuple[int, bool]]:
    """The lengths of the parts of the tuning, and whether the mass matrix is set at the end of each.

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
        )  # the next would be cut short: this one takes what is left
        yield length, True
        middle = middle - length
        window = 2 * window
    yield last, False


def walk_all(
    target: CompiledTarget, start: Callable[[np.random.Generator], Array], tune: int, draws: int, aim: float, *, seed: int,
    chains: int, whitened: bool, workers: int, look: Callable[[int], None],
) -> list[Chain] | None:  # fmt: skip
    """The chains, from the first of some draws of a start at which the density is finite, or None where there is none; `look` is
    called every tenth of a second with the number of draws that are done, and ends all of them when it raises."""
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
            # an interrupt while a thread starts leaves one that the pool does not know, and that ends by `halt`
            running = [pool.submit(w.chain, tune, draws) for w in walkers]
            while wait(running, timeout=_LOOK).not_done:
                look(int(done.sum()))
        finally:
            halt[:] = 1.0
        return [r.result() for r in running]


class _Walker:
    """One chain: where it is, its mass matrix and its step."""

    def __init__(
        self,
        target: CompiledTarget,
        rng: np.random.Generator,
        known: float,
        aim: float,
        progress: Progress,
    ) -> None:
        from probreg.numerics.compiled.addresses import source_of, table_of

        t = trajectory
        once = (t.kinetic, t.leapfrog, t.extend, t.transition, t.adapt)
        self._run = compile_stored(
            t.walk, (t.turned, t.turned_joint, t.copy, t.log_sum, *once), once
        )
        self.target, self.rng, self.known, self.aim, self.progress = (
            target,
            rng,
            known,
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
        self.state = _restarted(_STEP)

    def begin(self, start: Callable[[np.random.Generator], Array]) -> bool:
        """Whether some of the starts has a finite density."""
        for _ in range(_TRIES):
            self.w[trajectory.Places().point] = start(self.rng)
            if np.isfinite(self.walked(0, self.aim)[0]):
                return True
        return False

    def walked(self, count: int, aim: float) -> tuple[float, Chain]:
        """log p where the chain is at last, and so many draws."""
        out = Chain(
            self.rng.standard_normal((count, self.w.shape[1])), np.empty((count, 7))
        )
        log_p = self._run(
            self.target.function.address, self.table.ctypes.data, self.w, trajectory.Places(), self.state, aim, self.source,
            *self.progress, *out,
        )  # fmt: skip
        return log_p, out

    def chain(self, tune: int, draws: int) -> Chain:
        """The draws after the tuning, or what there is of them when it is ended."""
        for length, ends in windows(tune):
            met = self.walked(length, self.aim)[1].draws
            if self.progress.halt[0]:
                break
            if ends:
                # M^-1 = (n s^2 + k 1) / (n + k): the variances of the window, drawn to the 1 of whitened coordinates.
                self.w[trajectory.MASS] = (length * met.var(0) + self.known) / (
                    length + self.known
                )
                self.state = _restarted(math.exp(self.state[trajectory.LOG_MEAN]))
        return self.walked(draws, -1.0)[1]


def _restarted(step: float) -> Array:
    """The state of dual averaging about a step: it first tries twice as long ones, which cost less where they fail."""
    state = np.zeros(5)
    state[trajectory.MIDDLE] = math.log(2.0 * step)
    state[trajectory.LOG_STEP] = state[trajectory.LOG_MEAN] = math.log(step)
    return state
