"""Draws from a PyMC model by nutpie's NUTS, with the density run as NumPy: nothing is compiled before the first draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pymc as pm
    from pytensor.tensor import TensorVariable
    from xarray import DataTree

# What nutpie calls a quantity, and what ArviZ calls it.
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


# Short NumPy calls hold the interpreter's lock; below this, chains in threads take turns and gain nothing.
_ROWS_WORTH_A_THREAD = 100_000


@dataclass(frozen=True)
class _Density:
    """log p and the map to the named variables, as functions of the unconstrained vector x of length `size`."""

    size: int
    log_prob: Callable[[np.ndarray], tuple[float, np.ndarray]]
    expand: Callable[[np.ndarray], tuple[np.ndarray, ...]]
    start: np.ndarray
    names: list[str]
    shapes: list[tuple[int, ...]]
    rows: int


def sample(
    model: pm.Model,
    *,
    draws: int = 1000,
    tune: int = 400,
    chains: int = 4,
    seed: int,
    target_accept: float = 0.8,
    progress: bool = False,
) -> DataTree:
    """Draws of the free variables and deterministics of a PyMC model, in groups `posterior` and `sample_stats`.

    Positive and other constrained variables are sampled on PyMC's unconstrained scale, the Jacobian included, and
    returned on their own. The same `seed` gives the same draws, whatever the number of cores. Raises ValueError
    where a free variable is discrete: NUTS needs a gradient.
    """
    import nutpie
    from threadpoolctl import threadpool_limits
    from xarray import DataTree

    density = _density(model)
    named = {name: model.named_vars_to_dims.get(name, ()) for name in density.names}
    compiled = nutpie.compiled_pyfunc.from_pyfunc(
        density.size,
        lambda: _quiet(density.log_prob),
        lambda *_: _expander(density),
        [np.dtype("float64")] * len(density.names),
        density.shapes,
        density.names,
        dims={k: tuple(d) for k, d in named.items() if d and None not in d},
        coords={d: list(model.coords[d]) for dims in named.values() for d in dims if d is not None},
        make_initial_point_fn=lambda s: density.start + np.random.default_rng(s).uniform(-1, 1, density.size),
    )
    with threadpool_limits(1, user_api="blas"):  # a matrix times one vector: more threads only wait for each other
        threads = None if density.rows >= _ROWS_WORTH_A_THREAD else 1
        run = partial(nutpie.sample, compiled, save_warmup=False, progress_bar=progress, cores=threads)
        tree = run(draws=draws, tune=tune, chains=chains, seed=seed, target_accept=target_accept)
    stats = tree["sample_stats"].to_dataset()[list(_STATS)].rename(_STATS)
    return DataTree.from_dict({"posterior": tree["posterior"].to_dataset(), "sample_stats": stats})


def _density(model: pm.Model) -> _Density:
    """log p with its gradient, and the variables to report, each as one function of a flat vector."""
    import pytensor
    import pytensor.tensor as pt
    from pymc.model.transform.optimization import freeze_dims_and_data
    from pymc.pytensorf import compile as compile_graph
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.rewriting.utils import rewrite_graph

    from probreg.inference.numpy_linker import numpy_mode

    if model.discrete_value_vars:
        raise ValueError(f"NUTS needs continuous unknowns, found discrete {model.discrete_value_vars}")
    frozen = freeze_dims_and_data(model)
    # Without a C compiler in reach PyTensor neither builds its own helpers nor searches for a BLAS.
    # `model` in context says whether its bounds are checked; freezing forgets it.
    with pytensor.config.change_flags(cxx=""), model:
        point = frozen.initial_point()
        unknowns = [frozen[v.name] for v in model.free_RVs]  # freezing also loses their order
        value_vars = [frozen.rvs_to_values[v] for v in unknowns]
        start = [np.asarray(point[v.name], dtype=float) for v in value_vars]
        x: Any = pt.tensor("x", shape=(sum(a.size for a in start),), dtype="float64")
        parts: Any = _cut(x, value_vars, [a.shape for a in start])
        # Stabilised before the gradient is taken, so that log softmax is differentiated as such.
        log_p: Any = rewrite_graph(frozen.logp(), include=("canonicalize", "stabilize"))
        gradient = pt.concatenate([g.ravel() for g in pt.grad(log_p, value_vars)])
        shown = unknowns + [frozen[v.name] for v in model.deterministics]
        values = frozen.replace_rvs_by_values(shown)
        log_prob = compile_graph([x], clone_replace([log_p, gradient], parts), mode=numpy_mode())
        expand = compile_graph([x], clone_replace(values, parts), mode=numpy_mode())
    rows = max((frozen.rvs_to_values[v].data.size for v in frozen.observed_RVs), default=0)
    flat = np.concatenate([a.ravel() for a in start])
    expanded = [np.shape(v) for v in expand.vm.jit_fn(flat)]
    return _Density(flat.size, log_prob.vm.jit_fn, expand.vm.jit_fn, flat, [v.name for v in shown], expanded, rows)


def _cut(
    x: TensorVariable, variables: list[TensorVariable], shapes: list[tuple[int, ...]]
) -> dict[TensorVariable, TensorVariable]:
    """The value variables as consecutive pieces of x."""
    ends = np.cumsum([prod(s) for s in shapes])
    return {
        v: x[end - prod(s) : end].reshape(s).astype(v.dtype) for v, s, end in zip(variables, shapes, ends, strict=True)
    }


def _quiet(log_prob: Callable) -> Callable:
    """Overflow far from the mode is an infinite energy, which the sampler counts as a divergence: no warning."""

    def quiet(x: np.ndarray) -> tuple[float, np.ndarray]:
        with np.errstate(all="ignore"):
            value, gradient = log_prob(x)
        return float(value), gradient

    return quiet


def _expander(density: _Density) -> Callable[[np.ndarray], dict[str, np.ndarray]]:
    def expand(x: np.ndarray) -> dict[str, np.ndarray]:
        values = zip(density.names, density.expand(x), strict=True)
        return {name: np.asarray(v, dtype=float, order="C") for name, v in values}

    return expand
