"""A stream from a file, in memory that does not grow: its loss, regret and guarantee equal the run over an array.

A learner sees a row once. What its regret and its theorem need of the past is a triangle of numbers, so a file of any
length is gone through block by block, and the best fixed weights in hindsight are known exactly at the end.
"""

import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import probreg.online as online

names = ["temperature", "wind", "cloud", "hour_sin", "hour_cos", "holiday"]
truth = np.array([-1.0, 0.3, 0.2, 0.8, -0.5, -0.4])
BLOCK = 10_000


def block(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """A day's meter readings, as they would arrive: standardised columns and the load they go with."""
    rng = np.random.default_rng([3, seed])
    X = rng.uniform(-1, 1, (rows, len(names)))
    return X, X @ truth + 0.3 * rng.standard_normal(rows)


def write(path: Path, blocks: int) -> Path:
    """A Parquet file written a block at a time: it is never held either."""
    schema = pa.schema([(name, pa.float64()) for name in [*names, "load"]])
    with pq.ParquetWriter(path, schema) as file:
        for seed in range(blocks):
            X, y = block(seed, BLOCK)
            file.write_table(pa.table([*X.T, y], schema=schema))
    return path


def read_blocks(
    path: Path, arrow_bytes: list[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the blocks of a file, and record the memory of Arrow at each."""
    before = pa.total_allocated_bytes()
    # The defaults would read every group of rows ahead, and memory would grow with the file.
    with pq.ParquetFile(path, pre_buffer=False, buffer_size=65_536) as file:
        for batch in file.iter_batches(BLOCK):
            arrow_bytes.append(pa.total_allocated_bytes() - before)
            table = np.column_stack([column.to_numpy() for column in batch.columns])
            yield table[:, :-1], table[:, -1]


def follow(path: Path) -> tuple[online.Run, float]:
    """The run over a file, and the most memory that arrays and the reader took on the way, in MB."""
    taken = [0]
    tracemalloc.start()
    run = online.run(learner, read_blocks(path, taken))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return run, (peak + max(taken)) / 1e6


# Beforehand: no row is longer than sqrt(6), the weights no larger than 2, the noise has a spread of about 0.3.
blocks = 30
learner = online.lms(
    online.additive_step(np.sqrt(len(names)), 2.0, 0.09 * blocks * BLOCK)
)
# compiles, so that what is measured below is the stream
online.run(learner, *block(0, 1000))

with tempfile.TemporaryDirectory() as folder:
    short, long = (
        write(Path(folder) / "short.parquet", 3),
        write(Path(folder) / "long.parquet", blocks),
    )
    sizes = {path.stem: path.stat().st_size / 1e6 for path in (short, long)}
    _, little = follow(short)
    streamed, much = follow(long)

for name, memory in (("short", little), ("long", much)):
    print(
        f"{name} file: {sizes[name]:.1f} MB, gone through in {memory:.1f} MB of memory"
    )
regret, guarantee = streamed.regret(), streamed.guarantee()
print(
    f"{streamed.totals.rounds} rounds: loss {regret.loss:.1f}, best fixed weights {regret.comparator_loss:.1f}"
)
print(
    f"regret {regret.value:.2f}, or {regret.value / streamed.totals.rounds:.2e} a round"
)
print(guarantee)

# The same rows held as arrays.
parts = [block(seed, BLOCK) for seed in range(blocks)]
X, y = np.vstack([A for A, _ in parts]), np.concatenate([b for _, b in parts])
held = online.run(learner, X, y)
print(
    f"array run: loss {held.loss:.1f}, regret {held.regret().value:.2f}; arrays alone {(X.nbytes + y.nbytes) / 1e6:.1f} MB"
)

# Stopped anywhere, it goes on from the state it left.
half = len(y) // 2
first = online.run(learner, X[:half], y[:half])
rest = online.run(
    learner,
    ((X[i : i + 777], y[i : i + 777]) for i in range(half, len(y), 777)),
    state=first.state,
)
print(
    f"in two parts: loss {first.loss + rest.loss:.1f}, weights {rest.state.w.round(3)}"
)

# Checks of the statements above.
assert much < 1.5 * little  # ten times the rows, no more memory
assert much < 0.5 * (X.nbytes + y.nbytes) / 1e6
assert len(streamed.losses) == 0  # nothing is kept of single rounds
# the same steps, whatever the blocks
np.testing.assert_array_equal(streamed.state.w, held.state.w)
np.testing.assert_array_equal(rest.state.w, held.state.w)
# sums in another order
np.testing.assert_allclose(streamed.loss, held.loss, rtol=1e-12)
# A regret is a difference of losses a hundred times its size, and rounds off as they do.
np.testing.assert_allclose(regret.value, held.regret().value, rtol=1e-9)
np.testing.assert_allclose(
    regret.comparator, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-10
)
np.testing.assert_allclose(guarantee.bound, held.guarantee().bound, rtol=1e-10)
assert guarantee.applies
assert guarantee.holds
assert regret.value > 0
assert regret.value < 0.02 * regret.loss
