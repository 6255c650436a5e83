"""An array computed at its first use, because a covariance of thousands of coefficients takes longer than their fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

Array = np.ndarray


class LazyArray(NDArrayOperatorsMixin):
    """An array of known shape that `make` computes at its first use; the result is kept.

    It takes part in arithmetic, can be indexed, and becomes an array if needed.

    >>> A = LazyArray((2, 2), lambda: np.diag([1.0, 4.0]))
    >>> A.is_computed, A.shape, A.diagonal(), A @ np.ones(2), A.is_computed
    (False, (2, 2), array([1., 4.]), array([1., 4.]), True)
    """

    def __init__(self, shape: tuple[int, ...], make: Callable[[], Array]) -> None:
        self.shape, self._make, self._made = shape, make, None

    _make: Callable[[], Array] | None
    _made: Array | None

    @property
    def is_computed(self) -> bool:
        """Whether the array has been computed."""
        return self._made is not None

    def _array(self) -> Array:
        if self._made is None:
            assert self._make is not None
            self._made = np.asarray(self._make())
            assert self._made.shape == self.shape
            self._make = None  # releases the memory that it references
        return self._made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self._array()
        if copy:
            return np.array(array, dtype=dtype)
        return np.asarray(array, dtype=dtype)

    def __array_ufunc__(
        self, ufunc: Any, method: str, *inputs: Any, **options: Any
    ) -> Any:
        if any(isinstance(v, LazyArray) for v in options.get("out", ())):
            del options["out"]  # A += 1 rebinds A to an array
        arrays = [v._array() if isinstance(v, LazyArray) else v for v in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __getitem__(self, at: Any) -> Any:
        return self._array()[at]

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def T(self) -> Array:
        return self._array().T

    def diagonal(self) -> Array:
        """Return the diagonal (k,)."""
        return self._array().diagonal()
