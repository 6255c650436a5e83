"""The density of a PyMC model as a function of one flat vector."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray


class GraphDensity(NamedTuple):
    """log p on PyMC's unconstrained scale, the Jacobian included, and the named variables there."""

    size: int
    log_prob: Callable[[Array], float]
    expand: Callable[[Array], Mapping[str, Array]]


def density_of(model: Any) -> GraphDensity:
    """Return the density of a PyMC model with its free variables and deterministics."""
    from pymc.blocking import DictToArrayBijection
    from pymc.pytensorf import compile as compile_graph

    start = DictToArrayBijection.map(model.initial_point())
    shown = [*model.free_RVs, *model.deterministics]
    values = model.replace_rvs_by_values(shown)
    log_p = model.compile_logp(mode="FAST_COMPILE")
    expand = compile_graph(
        model.value_vars, values, mode="FAST_COMPILE", on_unused_input="ignore"
    )

    def point(x: Array) -> dict[str, Array]:
        return DictToArrayBijection.rmap(start._replace(data=np.asarray(x)))

    def named(x: Array) -> dict[str, Array]:
        at = point(x)
        found = expand(*(at[v.name] for v in model.value_vars))
        return {v.name: np.asarray(a, float) for v, a in zip(shown, found)}

    return GraphDensity(len(start.data), lambda x: log_p(point(x)), named)
