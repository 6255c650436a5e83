"""A density that PyMC lacks, in the shape of one of its distribution classes. PyMC is imported on use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Custom:
    """`Custom(logp)` is used as `pm.Normal` is: called with a name for a variable, or `.dist` for the distribution alone.

    `logp(value, *parameters)` is symbolic, elementwise, or over the last axis if `signature` makes a draw a vector;
    `draw(*parameters, rng, size)` gives draws, for prior predictives.
    """

    logp: Callable[..., Any]
    draw: Callable[..., Any]
    signature: str | None = None

    def __call__(self, name: str, *, dims: Any = None, **parameters: Any) -> Any:
        import pymc as pm

        return pm.CustomDist(
            name,
            *parameters.values(),
            logp=self.logp,
            random=self.draw,
            signature=self.signature,
            dims=dims,
        )

    def dist(self, **parameters: Any) -> Any:
        import pymc as pm

        return pm.CustomDist.dist(
            *parameters.values(),
            logp=self.logp,
            random=self.draw,
            signature=self.signature,
        )


class Opaque:
    """A function of one array and its gradient, both NumPy, as a node of a PyTensor graph."""

    @staticmethod
    def of(
        value: Callable[[Any], float], gradient: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """A symbolic scalar function of a symbolic matrix."""
        import numpy as np
        import pytensor.tensor as pt
        from pytensor.graph.basic import Apply
        from pytensor.graph.op import Op

        class Slope(Op):
            def make_node(self, x: Any) -> Apply:
                return Apply(self, [pt.as_tensor_variable(x)], [pt.matrix()])

            def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
                outputs[0][0] = np.asarray(gradient(inputs[0]), dtype=float)

        class Value(Op):
            def make_node(self, x: Any) -> Apply:
                return Apply(self, [pt.as_tensor_variable(x)], [pt.scalar()])

            def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
                outputs[0][0] = np.asarray(value(inputs[0]), dtype=float)

            def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
                return [cotangents[0] * Slope()(inputs[0])]

            def L_op(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
                return self.pullback(inputs, outputs, cotangents)

        return Value()
