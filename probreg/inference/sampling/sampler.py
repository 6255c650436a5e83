"""Draws by NUTS.

A fully compiled density is sampled by the chains of this package, any other one by
nutpie. The graph of a PyMC model runs as NumPy, so nothing is compiled before the first
draw. Python prints and drops an interrupt in a destructor or a callback of the
collector; `Interrupts` records it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from probreg.errors import NotConverged
from probreg.inference.sampling import chains, trajectory
from probreg.inference.sampling.affine_density import CompiledTarget
from probreg.inference.sampling.nutpie_entry import arrays_of, import_nutpie
from probreg.numerics.linalg import threads
from probreg.system.interrupts import Interrupts
from probreg.system.progress import Task, progress_bar

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor import TensorVariable


# Names of statistics in nutpie, and in ArviZ.
_STATS = {
    "diverging": "diverging",
    "energy": "energy",
    "depth": "tree_depth",
    "maxdepth_reached": "reached_max_treedepth",
    "n_steps": "n_steps",
    "step_size_bar": "step_size",
    "mean_tree_accept": "acceptance_rate",
    "logp": "lp_unconstrained",
}


# Short NumPy calls keep the interpreter's lock; below this, threads of chains run in
# turn without a gain.
_ROWS_WORTH_A_THREAD = 100_000
_TRIES = 100
_LOOK = 0.1  # seconds between two checks for an interrupt
_NOWHERE = (
    "nuts: no chain could start: the log posterior is not finite at any of a hundred points about the centre of its "
    "coordinates. See check(model), or give a more informative prior"
)


@dataclass(frozen=True)
class Density:
    """log p and the map to the named variables, as functions of the unconstrained
    vector x of length `size`.

    `start` draws a first x. `free`: log p runs without the interpreter's lock, so that
    threads of chains are faster. `target` is the same log p for compiled code, if it
    exists; `expand` then takes x of any shape (..., size). `whitened`: x is nearly
    standard normal."""

    size: int
    log_prob: Callable[[np.ndarray], tuple[float, np.ndarray]]
    expand: Callable[[np.ndarray], Mapping[str, np.ndarray]]
    start: Callable[[np.random.Generator], np.ndarray]
    shapes: Mapping[str, tuple[int, ...]]
    free: bool
    target: CompiledTarget | None = None
    whitened: bool = False


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

    posterior: dict[str, np.ndarray]
    stats: dict[str, np.ndarray]


def sample(
    density: Density, run: SamplerSettings, interrupts: Interrupts | None = None
) -> SamplerOutput:
    """Sample a density by NUTS (Hoffman & Gelman 2014) with an adapted diagonal mass
    matrix.

    `interrupts` were opened before, while the density was created; by default the
    function opens its own.
    """
    if interrupts is None:
        with Interrupts() as own_interrupts:
            return sample(density, run, own_interrupts)
    if density.target is not None:
        return _by_chains(density, density.target, run, interrupts)
    return _by_nutpie(density, run, interrupts)


def _by_chains(
    density: Density,
    target: CompiledTarget,
    run: SamplerSettings,
    interrupts: Interrupts,
) -> SamplerOutput:
    with progress_bar(
        "draws", run.chains * (run.tune + run.draws), show=run.progress
    ) as bar:

        def look(done: int) -> None:
            interrupts.check()
            bar.done = done

        sampled = chains.run_chains(
            target, density.start, run.tune, run.draws, run.target_accept, seed=run.seed, chains=run.chains,
            whitened=density.whitened, workers=threads(), look=look,
        )  # fmt: skip
    if sampled is None:
        raise NotConverged(_NOWHERE)
    values = density.expand(np.stack([c.draws for c in sampled]))
    stats = np.stack([c.stats for c in sampled])
    return SamplerOutput(dict(values), trajectory.named_statistics(stats))


def _by_nutpie(
    density: Density, run: SamplerSettings, interrupts: Interrupts
) -> SamplerOutput:
    from threadpoolctl import threadpool_limits

    nutpie = import_nutpie()
    names = list(density.shapes)
    failed: list[Exception] = []
    quiet = _without_warnings(density.log_prob, failed)
    log_p = quiet(_start(density, quiet, run.seed))[
        0
    ]  # an error here leaves nothing running
    if failed:
        raise failed[0]
    if not np.isfinite(log_p):
        raise NotConverged(_NOWHERE)
    compiled = nutpie.compiled_pyfunc.from_pyfunc(
        density.size,
        lambda: quiet,
        lambda *_: density.expand,
        [np.dtype("float64")] * len(names),
        [density.shapes[name] for name in names],
        names,
        make_initial_point_fn=lambda s: _start(density, quiet, s),
    )
    with (
        threadpool_limits(
            1, user_api="blas"
        ),  # a matrix times one vector: more threads would only wait
        progress_bar(
            "draws", run.chains * (run.tune + run.draws), show=run.progress
        ) as bar,
    ):
        running: Any = nutpie.sample(
            compiled, save_warmup=False, progress_bar=False, cores=threads() if density.free else 1, draws=run.draws,
            tune=run.tune, chains=run.chains, seed=run.seed, target_accept=run.target_accept, blocking=False, return_raw_trace=True,
            progress_callback=partial(_count, bar) if bar.shown else None,
        )  # fmt: skip
        trace = _wait_for_draws(running, failed, interrupts)
    return SamplerOutput(*arrays_of(trace, density.shapes, _STATS))


def _count(bar: Task, chains: list[Any]) -> None:
    """Update the bar with the draws of nutpie's chains, including the warm-up."""
    bar.done = sum(chain.finished_draws for chain in chains)


def density_of(model: pm.Model) -> Density:
    """Return the density of a PyMC model with its free variables and deterministics.

    Positive and other constrained variables are sampled on PyMC's unconstrained scale, the Jacobian included, and
    returned on their own. Raises ValueError for discrete free variables: NUTS needs a
    gradient.
    """
    functions, flat, shapes, rows = _compile_model(model)
    names = list(shapes)

    def expand(x: np.ndarray) -> dict[str, np.ndarray]:
        return {
            k: np.asarray(v, dtype=float, order="C")
            for k, v in zip(names, functions.expand(x), strict=True)
        }

    return Density(
        flat.size,
        functions.log_prob,
        expand,
        lambda rng: flat + rng.uniform(-1, 1, flat.size),
        shapes,
        rows >= _ROWS_WORTH_A_THREAD,
    )


class _Functions(NamedTuple):
    log_prob: Callable[[np.ndarray], tuple[float, np.ndarray]]
    expand: Callable[[np.ndarray], tuple[np.ndarray, ...]]


def _compile_model(
    model: pm.Model,
) -> tuple[_Functions, np.ndarray, dict[str, tuple[int, ...]], int]:
    """Return log p with its gradient, and the reported variables, each as one function
    of a flat vector."""
    import pytensor
    import pytensor.tensor as pt
    from pymc.model.transform.optimization import freeze_dims_and_data
    from pymc.pytensorf import compile as compile_graph
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.rewriting.utils import rewrite_graph

    from probreg.inference.sampling.numpy_linker import numpy_mode

    if model.discrete_value_vars:
        raise ValueError(
            f"NUTS needs continuous unknowns, found discrete {model.discrete_value_vars}"
        )
    frozen = freeze_dims_and_data(model)
    # Without a C compiler PyTensor neither builds its own helpers nor searches for a
    # BLAS.
    # `model` in context keeps its setting for checks of bounds, which freezing loses.
    with pytensor.config.change_flags(cxx=""), model:
        point = frozen.initial_point()
        unknowns = [
            frozen[v.name] for v in model.free_RVs
        ]  # freezing also loses their order
        value_vars = [frozen.rvs_to_values[v] for v in unknowns]
        start = [np.asarray(point[v.name], dtype=float) for v in value_vars]
        x: Any = pt.tensor("x", shape=(sum(a.size for a in start),), dtype="float64")
        parts: Any = _cut(x, value_vars, [a.shape for a in start])
        # Stabilised before the gradient is taken, so that log softmax is differentiated
        # as a whole.
        log_p: Any = rewrite_graph(frozen.logp(), include=("canonicalize", "stabilize"))
        gradient = pt.concatenate([g.ravel() for g in pt.grad(log_p, value_vars)])
        shown = unknowns + [frozen[v.name] for v in model.deterministics]
        values = frozen.replace_rvs_by_values(shown)
        log_prob = compile_graph(
            [x], clone_replace([log_p, gradient], parts), mode=numpy_mode()
        )
        expand = compile_graph([x], clone_replace(values, parts), mode=numpy_mode())
    rows = max(
        (frozen.rvs_to_values[v].data.size for v in frozen.observed_RVs), default=0
    )
    flat = np.concatenate([a.ravel() for a in start])
    shapes = {
        v.name: np.shape(value)
        for v, value in zip(shown, expand.vm.jit_fn(flat), strict=True)
    }
    return _Functions(log_prob.vm.jit_fn, expand.vm.jit_fn), flat, shapes, rows


def _cut(
    x: TensorVariable, variables: list[TensorVariable], shapes: list[tuple[int, ...]]
) -> dict[TensorVariable, TensorVariable]:
    """The value variables as consecutive pieces of x."""
    ends = np.cumsum([prod(s) for s in shapes])
    return {
        v: x[end - prod(s) : end].reshape(s).astype(v.dtype)
        for v, s, end in zip(variables, shapes, ends, strict=True)
    }


def _start(density: Density, log_prob: Callable, seed: int) -> np.ndarray:
    """Return the first of several starts with a finite density, or the last."""
    rng = np.random.default_rng(seed)
    for _ in range(_TRIES):
        x = density.start(rng)
        if np.isfinite(log_prob(x)[0]):
            break
    return x


def _wait_for_draws(
    running: Any, failed: list[Exception], interrupts: Interrupts
) -> Any:
    """Wait for all draws.

    An interrupt ends the chains and is raised again; nutpie's own wait would return
    partial draws instead. Between two waits the function also checks for interrupts
    lost in a destructor.
    """
    try:
        trace = None
        while trace is None:
            interrupts.check()
            try:
                trace = running.wait(timeout=_LOOK)
            except TimeoutError:
                continue
        interrupts.check()
    except BaseException:
        running.cancel()
        raise
    if failed:
        raise failed[0]
    return trace


def _without_warnings(log_prob: Callable, failed: list[Exception]) -> Callable:
    """Wrap log_prob for the sampler's threads.

    Overflow far from the mode is an infinite energy, which the sampler counts as a
    divergence, so it gives no warning. Any other exception is stored in `failed`,
    because threads cannot raise it, and the chains continue on a normal density.
    """

    def quiet(x: np.ndarray) -> tuple[float, np.ndarray]:
        if failed:
            return -0.5 * float(x @ x), -x
        try:
            with np.errstate(all="ignore"):
                value, gradient = log_prob(x)
        except ArithmeticError:
            return np.nan, x
        except Exception as error:
            failed.append(error)
            return quiet(x)
        return float(value), gradient

    return quiet
