"""Draws by NUTS: chains of the compiled sampler in threads, each with its own adaptation.

The first part of the warm-up adapts only the step. Windows follow, each twice as long
as the previous one; at their ends the mass matrix is set. The last part adapts the step
to the final mass matrix. Then both are fixed.
"""

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from probreg.compiled import compile_stored
from probreg.errors import NotConverged
from probreg.inference.base import Array
from probreg.inference.sampling import trajectory
from probreg.inference.sampling.density import SampledDensity
from probreg.linalg import one_blas_thread, threads
from probreg.system.memory import Interrupts
from probreg.system.terminal import progress_bar


@dataclass(frozen=True)
class SamplerSettings:
    """Settings of the sampler; the same `seed` gives the same draws for any number of
    cores."""

    seed: int
    draws: int = 1000
    tune: int = 400
    chains: int = 4
    target_accept: float = 0.8
    progress: bool | None = None


class SamplerOutput(NamedTuple):
    """Draws of the named variables and the sampler's statistics, (chain, draw, ...)."""

    posterior: dict[str, Array]
    stats: dict[str, Array]


@one_blas_thread()  # a matrix times one vector: more threads would only wait
def sample(
    densities: Sequence[SampledDensity], run: SamplerSettings, interrupts: Interrupts
) -> SamplerOutput:
    """Sample a density by NUTS (Hoffman & Gelman 2014) with an adapted diagonal mass
    matrix, each chain from the first of several starts with a finite density.

    Chains use the coordinates of several densities in turn.
    """
    used = [densities[c % len(densities)] for c in range(run.chains)]
    shared = Shared(run.chains)
    seeds = np.random.SeedSequence(run.seed).spawn(run.chains)
    walkers = [_Walker(used[c], run, shared, c, s) for c, s in enumerate(seeds)]
    if not all(w.begin() for w in walkers):
        shared.raise_failure()
        raise NotConverged(
            "nuts: no chain could start: the log posterior is not finite at any of a hundred points about the centre of its "
            "coordinates. See check(model), or give a more informative prior"
        )
    workers = 1 if any(d.holds_lock for d in used) else threads()
    with (
        progress_bar("draws", run.chains * (run.tune + run.draws), show=run.progress) as bar,
        ThreadPoolExecutor(max(1, min(workers, run.chains))) as pool,
    ):  # fmt: skip
        try:
            # an interrupt while a thread starts leaves a thread unknown to the pool,
            # which ends by `halt`
            running = [pool.submit(w.chain) for w in walkers]
            # seconds between two checks for an interrupt
            while wait(running, timeout=0.1).not_done:
                interrupts.check()
                bar.done = int(shared.done.sum())
        finally:
            shared.halt[:] = 1.0
        sampled = [r.result() for r in running]
    shared.raise_failure()
    values = [d.unfold(draws) for d, (draws, _) in zip(used, sampled)]
    posterior = {name: np.stack([v[name] for v in values]) for name in values[0]}
    stats = np.stack([stats for _, stats in sampled])
    return SamplerOutput(posterior, trajectory.named_statistics(stats))


class Shared:
    """State that the chains and the waiting thread share."""

    def __init__(self, chains: int) -> None:
        self.halt = np.zeros(1)  # above zero to end all chains
        self.done = np.zeros((chains, 1))  # the number of draws of each chain
        self.failures: list[BaseException] = []

    def raise_failure(self) -> None:
        """Raise the first exception of a density."""
        if self.failures:
            raise self.failures[0]


def callback(
    log_prob: Callable[[Array], tuple[float, Array]], w: Array, shared: Shared
) -> Any:
    """Return a C function of the addresses of two rows of w (ROWS, d), the point and its slopes, that calls Python.

    Overflow far from the mode is an infinite energy, which the sampler counts as a
    divergence, so it gives no warning. Any other exception ends all chains.
    """
    first = w.ctypes.data
    width = w.strides[0]

    def call(point: int, slopes: int, _: int) -> float:
        if shared.failures:
            return math.nan
        try:
            with np.errstate(all="ignore"):
                value, gradient = log_prob(w[(point - first) // width].copy())
            w[(slopes - first) // width] = gradient
            return float(value)
        except ArithmeticError:
            return math.nan
        except BaseException as error:
            shared.failures.append(error)
            shared.halt[:] = 1.0
            return math.nan

    address = ctypes.c_void_p
    return ctypes.CFUNCTYPE(ctypes.c_double, address, address, ctypes.c_longlong)(call)


def windows(tune: int) -> Iterator[tuple[int, bool]]:
    """Yield the lengths of the parts of the warm-up, and whether the mass matrix is set
    at the end of each.

    >>> list(windows(300))
    [(45, False), (25, True), (80, True), (150, False)]
    """
    # shares of the warm-up before and after the windows
    first = int(0.15 * tune)
    last = int(0.5 * tune)
    middle = tune - first - last
    # draws in the first window
    window = 25
    if middle < window:
        yield tune, False
        return
    yield first, False
    while middle:
        # the next window would be too short, so this window takes the remainder
        length = window if middle >= 3 * window else middle
        yield length, True
        middle = middle - length
        window = 2 * window
    yield last, False


class _Walker:
    """One chain: its position, mass matrix and step."""

    def __init__(
        self,
        density: SampledDensity,
        run: SamplerSettings,
        shared: Shared,
        number: int,
        seed: np.random.SeedSequence,
    ) -> None:
        from probreg.compiled.addresses import source_of, table_of

        t = trajectory
        once = (t.kinetic, t.leapfrog, t.extend, t.transition, t.adapt)
        self._run = compile_stored(
            t.run_chain,
            (t.has_turned, t.has_turned_jointly, t.copy, t.log_sum, *once),
            once,
        )
        self.density, self.settings, self.shared = density, run, shared
        self.done = shared.done[number]
        self.rng = np.random.default_rng(seed)
        self.source = source_of(self.rng)
        self.w = np.empty((t.ROWS, density.size))
        self.w[t.MASS] = 1.0
        self.arrays: tuple[Array, ...] = ()
        if density.target is None:
            self.function = callback(density.log_prob, self.w, shared)
            self.address = ctypes.cast(self.function, ctypes.c_void_p).value
        else:
            self.function = density.target.function
            self.address = self.function.address
            # at the addresses in the table
            self.arrays = density.target.arrays
        self.table = table_of(self.arrays)
        # an acceptance of 0 divides the first step by four
        self.state = _restart_state(0.8)

    def begin(self) -> bool:
        """Whether one of several starts has a finite density."""
        for _ in range(100):
            self.w[trajectory.Places().point] = self.density.start(self.rng)
            if np.isfinite(self.draw(0, -1.0)[0]):
                return True
        return False

    def draw(self, count: int, aim: float) -> tuple[float, Array, Array]:
        """Return log p at the end of the chain, `count` draws and their statistics (count, 7), the columns as `trajectory`
        numbers them. The step is adapted to an acceptance of `aim` if it is positive."""
        draws = self.rng.standard_normal((count, self.w.shape[1]))
        stats = np.empty((count, 7))
        log_p = self._run(
            self.address, self.table.ctypes.data, self.w, trajectory.Places(), self.state, aim, self.source,
            self.shared.halt, self.done, draws, stats,
        )  # fmt: skip
        return log_p, draws, stats

    def chain(self) -> tuple[Array, Array]:
        """Return the draws after the warm-up with their statistics, or the draws before an interrupt."""
        # weight, in draws, of a variance of 1
        weight = 50.0 if self.density.at.whitened else 5.0
        for length, ends in windows(self.settings.tune):
            _, draws, _ = self.draw(length, self.settings.target_accept)
            if self.shared.halt[0]:
                break
            if ends:
                # M^-1 = (n s^2 + k 1) / (n + k): the variances of the window, shrunk to
                # the 1 of whitened coordinates.
                self.w[trajectory.MASS] = (length * draws.var(0) + weight) / (
                    length + weight
                )
                self.state = _restart_state(math.exp(self.state[trajectory.LOG_MEAN]))
        return self.draw(self.settings.draws, -1.0)[1:]


def _restart_state(step: float) -> Array:
    """Return the state of dual averaging about a step; it first tries twice the step,
    because failed long steps are cheap."""
    state = np.zeros(5)
    state[trajectory.MIDDLE] = math.log(2.0 * step)
    state[trajectory.LOG_STEP] = state[trajectory.LOG_MEAN] = math.log(step)
    return state
