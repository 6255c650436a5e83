"""A density that PyMC lacks, in the shape of one of its distribution classes. PyMC is imported on use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CustomDensity:
    """`CustomDensity(log_prob, draw)` is used as `pm.Normal` is: called with a name for a variable, or `.dist` for the distribution alone.

    `log_prob(value, *parameters)` is symbolic, elementwise, or over the last axis if `signature` makes a draw a vector;
    `draw(*parameters, rng, size)` gives draws, for prior predictives.
    """

    log_prob: Callable[..., Any]
    draw: Callable[..., Any]
    signature: str | None = None

    @property
    def _options(self) -> dict[str, Any]:
        return {
            "logp": self.log_prob,
            "random": self.draw,
            "signature": self.signature,
        }

    def __call__(
        self, name: str, *, dims: Any = None, observed: Any = None, **parameters: Any
    ) -> Any:
        import pymc as pm

        values = parameters.values()
        return pm.CustomDist(
            name, *values, dims=dims, observed=observed, **self._options
        )

    def dist(self, **parameters: Any) -> Any:
        import pymc as pm

        return pm.CustomDist.dist(*parameters.values(), **self._options)


def opaque_function(
    value: Callable[[Any], Any], gradient: Callable[[Any], Any]
) -> Callable[[Any], Any]:
    """Return a symbolic scalar function of a symbolic matrix from NumPy functions of its value and gradient."""
    import numpy as np
    import pytensor.tensor as pt
    from pytensor.compile.ops import wrap_py
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    slope = wrap_py(itypes=[pt.dmatrix], otypes=[pt.dmatrix])(gradient)

    class Value(Op):
        def make_node(self, x: Any) -> Apply:
            return Apply(self, [pt.as_tensor_variable(x)], [pt.scalar()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            outputs[0][0] = np.asarray(value(inputs[0]), dtype=float)

        def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
            return [cotangents[0] * slope(inputs[0])]

    return Value()
