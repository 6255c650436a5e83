"""How time and memory of fits grow with rows, columns, classes and groups: one table, one picture.

Run as `python benchmarks/growth.py`; `--write` stores benchmarks/growth.md and docs/growth.png, `--only TEXT` takes the series with that text in
their name, `--large` adds 10 million rows. Time is processor time, the best of up to three runs from arrays or a table to the fit; memory is the
peak of what is allocated beyond the data. An exponent is the slope between neighbouring sizes on logarithmic axes: 1 is proportional.
"""

import argparse
import gc
import time
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import probreg as pr

HERE = Path(__file__).parent
TITLE = """# How fits grow

`python benchmarks/growth.py --write` makes this table and `docs/growth.png`; [what it says](README.md#growth).

"""
LONG = 2.0  # seconds of a run after which there is no second one
AXES = {
    "rows": "rows n",
    "columns": "columns p",
    "classes": "classes K",
    "groups": "groups G",
}
Data = tuple[Any, ...]


class Point(NamedTuple):
    """What one size took."""

    size: int
    seconds: float  # of processor
    peak: float  # MB beyond the data
    data: float  # MB


@dataclass(frozen=True)
class Series:
    """A fit at growing sizes of one thing; `cost` is what its arithmetic explains."""

    name: str
    axis: str
    sizes: Sequence[int]
    make: Callable[[int], Data]
    fit: Callable[..., Any]
    cost: str

    @property
    def family(self) -> str:
        """The name without the number of classes, which has one colour."""
        return self.name.removesuffix(", 4 classes").removesuffix(", 3 classes")


# ---- data ---------------------------------------------------------------------------------------------------------------------


def rows_of(n: int, p: int = 10) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    return X, X @ rng.normal(size=p) / np.sqrt(p)


def gaussian(n: int, p: int = 10) -> Data:
    X, eta = rows_of(n, p)
    return X, eta + np.random.default_rng(1).normal(size=n)


def binary(n: int, p: int = 10) -> Data:
    X, eta = rows_of(n, p)
    return X, (np.random.default_rng(1).random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(
        int
    )


def classes(n: int, p: int = 10, K: int = 4) -> Data:
    rng = np.random.default_rng(1)
    X, _ = rows_of(n, p)
    return X, (
        X @ rng.normal(size=(p, K)) / np.sqrt(p) + rng.gumbel(size=(n, K))
    ).argmax(1)


def grouped(n: int, G: int = 100) -> Data:
    rng = np.random.default_rng(1)
    g, x = rng.permutation(np.arange(n) % G), rng.normal(size=n)
    eta = 0.5 * x + rng.normal(size=G)[g]
    return (
        {
            "y": eta + rng.normal(size=n),
            "k": (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(int),
            "x": x,
            "g": g,
        },
    )


# ---- fits ---------------------------------------------------------------------------------------------------------------------


def ml(likelihood: str) -> Callable[..., Any]:
    return lambda X, y: pr.fit(pr.Model.from_arrays(X, y, likelihood=likelihood))


def posterior(method: Any) -> Callable[..., Any]:
    def run(X: np.ndarray, y: np.ndarray) -> Any:
        return pr.fit(
            pr.Model.from_arrays(X, y, likelihood="bernoulli", prior=pr.Normal(2.5)),
            method,
            seed=0,
        )

    return run


def multilevel(data: dict[str, np.ndarray]) -> Any:
    return pr.fit(pr.Model.from_formula("y ~ x + (1 | g)", data))


def binary_groups(data: dict[str, np.ndarray]) -> Any:
    return pr.fit(
        pr.Model.from_formula("k ~ x + (1 | g)", data, likelihood="bernoulli"),
        pr.Evidence(criterion="ML"),
    )


N = (1_000, 10_000, 100_000, 1_000_000)
P = (5, 20, 100, 500, 2_000)
NUTS = pr.NUTS(draws=250, tune=250, chains=2, progress=False)
SERIES = (
    Series("Gaussian", "rows", N, gaussian, ml("gaussian"), "n p²"),
    Series("Bernoulli", "rows", N, binary, ml("bernoulli"), "n p² a Newton step, n p a step of the slopes"),
    Series("softmax, 4 classes", "rows", N, classes, ml("categorical"), "n (K p)² a Newton step"),
    Series("posterior, importance", "rows", N[:3], binary, posterior("importance"), "n p a draw"),
    Series("posterior, NUTS", "rows", N[:3], binary, posterior(NUTS), "n p a gradient"),
    Series("multilevel, Gaussian", "rows", N, grouped, multilevel, "n, then G a step of the scales"),
    Series("multilevel, Bernoulli", "rows", N[:3], grouped, binary_groups, "n a Newton step, some for each scale"),
    Series("Gaussian", "columns", P, lambda p: gaussian(10_000, p), ml("gaussian"), "n p² + p³"),
    Series("Bernoulli", "columns", (5, 20, 100, 500, 1_000), lambda p: binary(10_000, p), ml("bernoulli"), "n p² + p³ a Newton step"),
    Series("softmax, 3 classes", "columns", (5, 20, 100, 300), lambda p: classes(10_000, p, 3), ml("categorical"), "n (K p)² + (K p)³ a step"),
    Series("posterior, importance", "columns", P[:3], lambda p: binary(10_000, p), posterior("importance"), "n p a draw"),
    Series("softmax", "classes", (2, 5, 10, 20, 50), lambda K: classes(20_000, 10, K), ml("categorical"), "n (K p)² + (K p)³ a step"),
    Series("multilevel, Gaussian", "groups", (10, 100, 1_000, 10_000, 100_000), lambda G: grouped(300_000, G), multilevel, "n + G"),
    Series("multilevel, Bernoulli", "groups", (10, 100, 1_000, 10_000), lambda G: grouped(30_000, G), binary_groups, "n + G a step"),
)  # fmt: skip


# ---- measuring ----------------------------------------------------------------------------------------------------------------


def size_of(data: Data) -> float:
    """MB."""
    arrays = data[0].values() if isinstance(data[0], dict) else data
    return sum(a.nbytes for a in arrays) / 1e6


def seconds(run: Callable[[], Any]) -> float:
    times: list[float] = []
    while len(times) < 3 and (not times or times[-1] < LONG):
        gc.collect()
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return min(times)


def peak(run: Callable[[], Any]) -> float:
    """MB that `run` allocates at most."""
    gc.collect()
    tracemalloc.start()
    run()
    found = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found / 1e6


def measured(series: Series, *, large: bool) -> list[Point]:
    sizes = (
        [*series.sizes, 10_000_000]
        if large and series.axis == "rows" and series.sizes == N
        else series.sizes
    )
    series.fit(*series.make(min(sizes)))  # imports
    points = []
    for size in sizes:
        data = series.make(size)
        run = partial(series.fit, *data)
        high = peak(run)  # first, since it compiles what many rows ask for
        points.append(Point(size, seconds(run), high, size_of(data)))
        print(
            f"{series.axis:8s} {series.name:24s} {size:>10,} {points[-1].seconds:9.3f} s {points[-1].peak:9.1f} MB",
            flush=True,
        )
    return points


def exponents(values: Sequence[float], sizes: Sequence[int]) -> list[float]:
    """The slopes between neighbours on logarithmic axes."""
    return list(np.diff(np.log(values)) / np.diff(np.log(sizes)))


# ---- table and picture --------------------------------------------------------------------------------------------------------


def table(found: dict[Series, list[Point]]) -> str:
    lines = [
        "| fit | grows | sizes | processor seconds | exponents | MB beyond the data | exponents | last peak / data | arithmetic |",
        "| --- | --- | --- | --- | --- | --- | --- | ---: | --- |",
    ]
    for series, points in found.items():
        sizes = [p.size for p in points]
        slopes = (
            " ".join(f"{e:.1f}" for e in exponents(values, sizes))
            for values in ([p.seconds for p in points], [p.peak for p in points])
        )
        own = (
            " ".join(f"{size:,}" for size in sizes),
            " ".join(f"{p.seconds:.3g}" for p in points),
            next(slopes),
            " ".join(f"{p.peak:.3g}" for p in points),
            next(slopes),
            f"{points[-1].peak / points[-1].data:.2f}",
            series.cost,
        )
        lines.append(f"| {series.name} | {AXES[series.axis]} | {' | '.join(own)} |")
    return "\n".join(lines)


def picture(found: dict[Series, list[Point]], path: Path) -> None:
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    colour = dict(
        zip(dict.fromkeys(s.family for s in found), plt.get_cmap("tab10").colors)
    )
    figure, axes = plt.subplots(
        2, len(AXES), figsize=(12, 6.2), sharey="row", layout="constrained"
    )
    for column, (axis, label) in zip(axes.T, AXES.items()):
        for series, points in ((s, p) for s, p in found.items() if s.axis == axis):
            x, own = [p.size for p in points], colour[series.family]
            column[0].loglog(
                x,
                [p.seconds for p in points],
                "o-",
                ms=4,
                color=own,
                label=series.family,
            )
            column[1].loglog(x, [p.peak for p in points], "o-", ms=4, color=own)
        column[1].set_xlabel(label)
        for ax in column:
            if axis == "classes":  # less than two decades
                sizes = [
                    p.size
                    for s, points in found.items()
                    if s.axis == axis
                    for p in points
                ]
                ax.set_xticks(sizes, map(str, sizes))
                ax.minorticks_off()
            ax.grid(alpha=0.3)
            ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("processor seconds")
    axes[1, 0].set_ylabel("MB beyond the data, peak")
    handles = {line.get_label(): line for ax in axes[0] for line in ax.get_lines()}
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside upper center",
        ncols=4,
        frameon=False,
    )
    figure.savefig(path, dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--write", action="store_true", help="store the table and the picture"
    )
    parser.add_argument(
        "--large", action="store_true", help="10 million rows too: 6 GB of memory"
    )
    parser.add_argument(
        "--only", default="", help="series with this text in their name or axis"
    )
    given = parser.parse_args()
    # few draws do not settle; what they cost is the question
    warnings.simplefilter("ignore", pr.ProbregWarning)
    chosen = [s for s in SERIES if given.only in f"{s.axis} {s.name}"]
    found = {series: measured(series, large=given.large) for series in chosen}
    print(table(found))
    if given.write:
        (HERE / "growth.md").write_text(f"{TITLE}{table(found)}\n")
        picture(found, HERE.parent / "docs" / "growth.png")


if __name__ == "__main__":
    main()
