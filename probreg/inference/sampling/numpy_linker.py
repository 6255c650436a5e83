"""PyTensor graphs as straight-line NumPy, without a compiler.

PyTensor's own Python linker calls every node through `Op.perform`, with checks that
cost several microseconds, and loops in Python for scalar functions without a ufunc.
`NumpyLinker` writes one Python function of NumPy calls; operations without a short form
still run through `Op.perform`, so it accepts any graph.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce, singledispatch
from typing import Any

import numpy as np
import scipy.special
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Apply
from pytensor.graph.fg import AbstractFunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.rewriting.db import RewriteDatabaseQuery
from pytensor.link.basic import JITLinker
from pytensor.link.utils import fgraph_to_python
from pytensor.scalar import basic as scalar, math as scalar_math
from pytensor.tensor import TensorType
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import SpecifyShape


def _softplus(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-np.abs(x)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1.0 / (
        1.0 + np.exp(-x)
    )  # exp overflows to inf, and its reciprocal is the correct zero


def _log1mexp(x: np.ndarray) -> np.ndarray:
    return np.where(x < -np.log(2.0), np.log1p(-np.exp(x)), np.log(-np.expm1(x)))


_SHORT: dict[type[scalar.ScalarOp], Callable] = {
    scalar_math.Softplus: _softplus,
    scalar_math.Sigmoid: _sigmoid,  # SIMD exp: a quarter of the time of scipy's expit
    scalar_math.Log1mexp: _log1mexp,
    scalar.Identity: lambda x: x,
    scalar.Second: lambda shape, x: np.broadcast_arrays(shape, x)[1],
    scalar.Clip: lambda x, low, high: np.minimum(np.maximum(x, low), high),
}


def _ufunc(op: scalar.ScalarOp, n_inputs: int) -> Callable | None:
    """Return the NumPy form of a scalar function, or None."""
    if type(op) in _SHORT:
        return _SHORT[type(op)]
    if isinstance(op, scalar.Cast):
        return partial(np.asarray, dtype=op.o_type.dtype)
    if isinstance(op, scalar.Composite):
        return _composite(op)
    spec = getattr(
        op, "nfunc_spec", None
    )  # PyTensor omits the attribute if there is none
    if spec is None or spec[2] != 1:
        return None
    if spec[0].startswith("scipy.special."):
        module = scipy.special
    else:
        module = np
    f = getattr(module, spec[0].rpartition(".")[2])
    if spec[1] == n_inputs:
        return f
    return lambda *xs: reduce(f, xs)


def _composite(op: scalar.Composite) -> Callable | None:
    """Return a fused scalar expression as array operations, if each of its parts has
    one."""
    if len(op.fgraph.outputs) > 1 or any(
        _ufunc(n.op, len(n.inputs)) is None for n in op.fgraph.apply_nodes
    ):
        return None
    return fgraph_to_python(
        op.fgraph,
        lambda part, node, **_: _ufunc(part, len(node.inputs)),
        squeeze_output=True,
    )


@singledispatch
def _call(op: Op, node: Apply) -> Callable:
    """Return a Python function of the node's inputs; by default through
    `Op.perform`."""
    arrays = [
        v.type.dtype if isinstance(v.type, TensorType) else None for v in node.inputs
    ]
    single = len(node.outputs) == 1

    def perform(*inputs: Any) -> Any:
        cells = [[None] for _ in node.outputs]
        converted = [
            x if d is None else np.asarray(x, dtype=d) for x, d in zip(inputs, arrays)
        ]
        op.perform(node, converted, cells)
        return cells[0][0] if single else [c[0] for c in cells]

    return perform


@_call.register
def _(op: Elemwise, node: Apply) -> Callable:
    f = _ufunc(op.scalar_op, len(node.inputs))
    if f is None:
        return _call.dispatch(Op)(op, node)
    dtype = node.outputs[0].type.dtype
    if all(v.type.dtype == dtype for v in node.inputs):
        return f
    return lambda *xs: np.asarray(f(*xs), dtype=dtype)


@_call.register
def _(op: CAReduce, node: Apply) -> Callable:
    return partial(
        op.ufunc.reduce, axis=op.axis, dtype=op.acc_dtype or node.outputs[0].type.dtype
    )


@_call.register
def _(op: DimShuffle, node: Apply) -> Callable:
    order = op._transposition
    new = op.augment
    n_kept = len(op.shuffle)
    if node.inputs[0].type.ndim == n_kept and list(order) == list(range(n_kept)):
        index = tuple(
            None if i in new else slice(None) for i in range(n_kept + len(new))
        )
        return lambda x: np.asarray(x)[index]

    def shuffle(x: np.ndarray) -> np.ndarray:
        x = np.asarray(x).transpose(order)
        return np.expand_dims(x.reshape(x.shape[:n_kept]), tuple(new))

    return shuffle


@_call.register
def _(op: Dot, node: Apply) -> Callable:
    return np.dot


@_call.register
def _(op: Blockwise, node: Apply) -> Callable:
    if isinstance(op.core_op, Dot):
        return np.matmul
    return _call.dispatch(Op)(op, node)


@_call.register
def _(op: OpFromGraph, node: Apply) -> Callable:
    # Its own `perform` runs a compiled function with one set of buffers, which chains
    # cannot share.
    return _python(op.fgraph, squeeze_output=len(node.outputs) == 1)


@_call.register
def _(op: SpecifyShape, node: Apply) -> Callable:
    return lambda x, *shape: x


def _python(graph: AbstractFunctionGraph, **options: Any) -> Callable:
    return fgraph_to_python(graph, lambda op, node, **_: _call(op, node), **options)


class NumpyLinker(JITLinker):
    """Turns a graph into one Python function of NumPy calls."""

    incompatible_rewrites = ("cxx_only", "BlasOpt", "fusion", "inplace")

    def fgraph_convert(
        self,
        fgraph: Any,
        order: Any,
        input_storage: Any,
        output_storage: Any,
        storage_map: Any,
        **_: Any,
    ) -> Callable:
        return _python(fgraph, order=order, storage_map=storage_map)

    def create_thunk_inputs(self, storage_map: Any) -> list:
        return [storage_map[v] for v in self.fgraph.inputs]

    def jit_compile(self, fn: Callable) -> Callable:
        return fn


def numpy_mode() -> Mode:
    """The PyTensor mode that runs graphs as NumPy; pass it wherever PyMC takes `mode=`."""
    return Mode(NumpyLinker(), RewriteDatabaseQuery(include=["fast_run", "py_only"]))
