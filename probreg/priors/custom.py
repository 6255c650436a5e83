"""A density that PyMC lacks, in the shape of one of its distribution classes. PyMC is imported on use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Custom:
    """`Custom(logp)` is used as `pm.Normal` is: called with a name for a variable, or `.dist` for the distribution alone.

    `logp(value, *parameters)` is symbolic, elementwise; `draw(*parameters, rng, size)` gives draws, for prior predictives.
    """

    logp: Callable[..., Any]
    draw: Callable[..., Any]

    def __call__(self, name: str, *, dims: Any = None, **parameters: Any) -> Any:
        import pymc as pm

        return pm.CustomDist(name, *parameters.values(), logp=self.logp, random=self.draw, dims=dims)

    def dist(self, **parameters: Any) -> Any:
        import pymc as pm

        return pm.CustomDist.dist(*parameters.values(), logp=self.logp, random=self.draw)
