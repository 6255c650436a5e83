"""Rows on the workers of a dask cluster: functions are sent to the partitions, and only their sums are sent back.

Dask manages the partitions: it uses partitions in the memory of its workers directly, and rereads partitions from files in
each pass. A tree of dask tasks adds the sums in the order of the partitions, so that they do not
depend on the order in which workers finish. Without a cluster the same tasks run on dask's own threads.
"""

import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from probreg.errors import Incompatible, ProbregError
from probreg.formula.text import first_line
from probreg.linalg import limit_threads, one_blas_thread


@dataclass(frozen=True, eq=False)
class Partitions:
    """Partitions of rows in their order, as dask's delayed values; `client` is the cluster's, None for dask's default."""

    parts: tuple[Any, ...]
    name: str
    client: Any = None
    progress = False

    def reduce(
        self, fn: Callable[[int, Any], Any], add: Callable[[Any, Any], Any]
    ) -> Any:
        """Return add(... add(fn(0, first), fn(1, second)) ..., fn(k, last)), computed where the partitions are.

        Results that are None are left out; None if all are. A ProbregError from fn is
        raised unchanged; lost or failed workers raise ProbregError. An interrupt
        cancels the tasks.
        """
        fan_in = 8  # results that one task of the tree combines
        delayed = dask().delayed
        # pickled once, as bytes: if a worker cannot load a function, then its task fails, not the transport
        task, joint = (
            delayed(_pickle_function(f), pure=False, traverse=False)
            for f in (fn, partial(_put_together, add))
        )
        call = delayed(_call_pickled, pure=False)
        level = [call(task, number, part) for number, part in enumerate(self.parts)]
        while len(level) > 1:
            level = [
                call(joint, *level[i : i + fan_in])
                for i in range(0, len(level), fan_in)
            ]
        return self.result(level[0]) if level else None

    def result(self, value: Any) -> Any:
        """Compute a delayed value. Errors as in `reduce`."""
        with (
            translate_worker_errors(self.name),
            one_blas_thread(),
        ):  # kept here too, for workers that are threads of this process
            if self.client is None:
                return value.compute()
            future = self.client.compute(value)
            try:
                return future.result()
            except BaseException:
                future.cancel()
                raise


def dask() -> Any:
    """Import dask; raise Incompatible if it is not installed."""
    try:
        import dask
    except ImportError:
        raise Incompatible(
            "rows on a cluster need dask, which is not installed: pip install 'dask[dataframe]' distributed (files on this machine are "
            "read without it by Model.from_parquet)"
        ) from None
    return dask


@contextmanager
def translate_worker_errors(name: str) -> Iterator[None]:
    """Raise errors of dask or its workers as a ProbregError with an explanation; the cause stays attached."""
    try:
        yield
    except ProbregError:
        raise
    except Exception as error:
        raise ProbregError(
            f"{name}: a task failed on the workers, which need memory and the same probreg, files and packages as this process; if the "
            f"cluster was lost, start a new client and build the model again ({type(error).__name__}: {first_line(error)})"
        ) from error


# ---- on the worker ---------------------------------------------------------------------------------------------------


def _pickle_function(fn: Any) -> bytes:
    import cloudpickle

    return bytes(cloudpickle.dumps(fn))


def _call_pickled(packed: bytes, *values: Any) -> Any:
    """Call a function in one thread, because dask runs one partition per thread of a worker."""
    with limit_threads(1), one_blas_thread():
        return pickle.loads(packed)(*values)


def _put_together(add: Callable[[Any, Any], Any], *results: Any) -> Any:
    """Combine the results that are not None, in their order; None if there are none."""
    values = [value for value in results if value is not None]
    return reduce(add, values) if values else None
