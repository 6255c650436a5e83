"""Objects that compiled code takes by address: a C function, a source of random numbers, a set of arrays. numba is imported here.

An array is seven machine words or more to compiled code, and a tuple of twenty arrays 150, which every function on the way passes on. These
words, and numba's own types for functions and generators, took 0.7 to 1.2 s of the 3.2 to 3.7 s to compile the sampler. An address is
one word.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

Array = NDArray[np.float64]
_WORD = ir.IntType(64)
_NUMBER = ir.DoubleType()
_POINTER = _NUMBER.as_pointer()


def table_of(arrays: Sequence[Array]) -> NDArray[np.int64]:
    """Return the words of each array in numba's layout; the arrays must outlive it.

    The words are: no owner, number of items, item size, address, shape and strides.
    """
    words = (
        (0, 0, a.size, a.itemsize, a.ctypes.data, *a.shape, *a.strides) for a in arrays
    )
    return np.array([*chain.from_iterable(words)], dtype=np.int64)


def source_of(rng: np.random.Generator) -> tuple[int, int]:
    """Return the C function behind `rng.random()` and the address of its state; `rng` must outlive them."""
    import ctypes

    functions = rng.bit_generator.ctypes
    address = ctypes.cast(functions.next_double, ctypes.c_void_p).value
    assert address is not None
    return address, functions.state_address


def arrays_at(kind: Any) -> Any:
    """Return the compiled function that converts the address of a table to its arrays, as a tuple of this type."""

    def read(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
            return builder.load(
                builder.inttoptr(args[0], context.get_value_type(kind).as_pointer())
            )

        return kind(types.int64), generate

    return intrinsic(read)


def _uniform(context: Any, source: Any) -> Any:
    """next_double(state) -> a number in [0, 1)."""

    def generate(_: Any, builder: Any, __: Any, args: Any) -> Any:
        function, state = (builder.extract_value(args[0], i) for i in range(2))
        signature = ir.FunctionType(_NUMBER, [_WORD])
        return builder.call(builder.inttoptr(function, signature.as_pointer()), [state])

    return types.float64(types.UniTuple(types.int64, 2)), generate


def _density_at(
    context: Any, density: Any, w: Any, z: Any, slope: Any, data: Any
) -> Any:
    """density(row z of w, row slope of w, data) -> log p, a C function at an address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        rows = context.make_array(sig.args[1])(context, builder, args[1])
        d = builder.extract_value(rows.shape, 1)
        points = [builder.gep(rows.data, [builder.mul(row, d)]) for row in args[2:4]]
        signature = ir.FunctionType(_NUMBER, [_POINTER, _POINTER, _WORD])
        return builder.call(
            builder.inttoptr(args[0], signature.as_pointer()), [*points, args[4]]
        )

    word = types.int64
    return types.float64(word, w, word, word, word), generate


uniform: Any = intrinsic(_uniform)
density_at: Any = intrinsic(_density_at)
