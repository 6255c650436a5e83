"""Rows that are read by the block: files that are not there or not whole, values that cannot be used, passes that are cut short.

Whatever is wrong is said in words with file, column, row and value, and whatever was open is closed.
"""

import os
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.linalg import threads

pa = pytest.importorskip("pyarrow")
csv, feather, parquet = (
    pytest.importorskip(f"pyarrow.{name}") for name in ("csv", "feather", "parquet")
)
Array = np.ndarray


def stored(path: Path, **columns: Any) -> Path:
    pd.DataFrame(columns).to_parquet(path, row_group_size=10_000)
    return path


def numbers(n: int = 60, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    return {"y": rng.normal(size=n), "x": rng.normal(size=n)}


def refused(message: str, formula: str, path: Any, **options: Any) -> None:
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_files(formula, path, **options)


# ---- files -------------------------------------------------------------------------------------------------------------


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    refused(
        r"there is no file or folder .*gone\.parquet",
        "y ~ x",
        tmp_path / "gone.parquet",
    )


def test_no_files_and_unknown_kinds(tmp_path: Path) -> None:
    refused("no file was given", "y ~ x", [])
    refused(
        "files are given as a path, a folder or a list of these, got int", "y ~ x", 5
    )
    refused(
        "files are given as a path, a folder or a list of these, got DataFrame",
        "y ~ x",
        pd.DataFrame(numbers()),
    )
    refused(r"the folder .* holds no file that ends in \.parquet", "y ~ x", tmp_path)
    (tmp_path / "notes.txt").write_text("y,x\n1,2\n")
    refused(r"notes\.txt ends in none of \.parquet", "y ~ x", tmp_path / "notes.txt")
    a = stored(tmp_path / "a.parquet", **numbers())
    pd.DataFrame(numbers()).to_csv(tmp_path / "b.csv", index=False)
    refused("several formats", "y ~ x", [a, tmp_path / "b.csv"])


@pytest.mark.parametrize("name", ["a.parquet", "a.feather", "a.csv"])
def test_a_file_that_is_no_table(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"\x00\x01 no table at all")
    with pytest.raises(pr.DataError, match=name.replace(".", r"\.")):
        pr.Model.from_files("y ~ x", tmp_path / name)
    (tmp_path / name).write_bytes(b"")
    refused(rf"{name} cannot be read".replace(".", r"\."), "y ~ x", tmp_path / name)


def test_a_file_without_rows(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.parquet", y=np.zeros(0), x=np.zeros(0))
    refused(r"a\.parquet holds no rows", "y ~ x", path)
    both = [path, stored(tmp_path / "b.parquet", **numbers())]
    assert pr.Model.from_files("y ~ x", both).design.count == 60


def test_a_truncated_file(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.parquet", **numbers(50_000))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    refused(r"a\.parquet cannot be read", "y ~ x", path)


def test_a_column_that_is_missing_in_the_second_file(tmp_path: Path) -> None:
    stored(tmp_path / "a.parquet", **numbers())
    stored(tmp_path / "b.parquet", y=np.zeros(3), xx=np.zeros(3))
    refused(r"b\.parquet has no column 'x'; it has: y, xx", "y ~ x", tmp_path)
    refused("the data have no column 'z'", "y ~ z", tmp_path / "a.parquet")


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_a_column_that_the_second_file_has_twice(tmp_path: Path, kind: str) -> None:
    once = pa.table({"y": [1.0, 2.0, 4.0], "x": [0.0, 1.0, 3.0]})
    twice = pa.Table.from_arrays(
        [once["y"], once["x"], once["x"]], names=["y", "x", "x"]
    )
    for name, some in (("a", once), ("b", twice)):
        path = tmp_path / f"{name}.{kind}"
        {
            "parquet": parquet.write_table,
            "feather": feather.write_feather,
            "csv": csv.write_csv,
        }[kind](some, path)
    refused(
        rf"b\.{kind} has more than one column called 'x'; rename them",
        "y ~ x",
        tmp_path,
    )


def test_a_format_that_is_none_and_text_that_is_not_utf8(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.parquet", **numbers())
    refused(
        "format='json' is not known; take parquet, arrow, csv, tsv",
        "y ~ x",
        path,
        format="json",
    )
    (tmp_path / "a.csv").write_bytes("y,g\n1,caf\u00e9\n2,tea\n".encode("latin1"))
    refused(
        "column 'g' of a.csv holds text that is not UTF-8", "y ~ g", tmp_path / "a.csv"
    )


def test_a_constant_response_is_counted_once(tmp_path: Path) -> None:
    refused(
        "every one of 3 rows holds 1",
        "y ~ x",
        stored(tmp_path / "a.parquet", y=[1.0] * 3, x=[1.0, 2.0, 4.0]),
    )


# ---- values ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (np.nan, "missing in 1 of"),
        (np.inf, "is inf in row 70001"),
        (-np.inf, "is -inf"),
    ],
)
@pytest.mark.parametrize("column", ["x", "y"])
def test_one_bad_value_in_row_70001_of_the_second_file(
    tmp_path: Path, value: float, said: str, column: str
) -> None:
    stored(tmp_path / "a.parquet", **numbers())
    bad = numbers(80_000)
    bad[column][70_001] = value
    stored(tmp_path / "b.parquet", **bad)
    refused(rf"of b\.parquet: .*{said}.*", "y ~ x", tmp_path)
    refused(rf"'{column}'", "y ~ x", tmp_path)
    refused("row 70001|row 70,001|rows? 70001", "y ~ x", tmp_path)


def test_text_where_there_were_numbers(tmp_path: Path) -> None:
    stored(tmp_path / "a.parquet", **numbers())
    stored(tmp_path / "b.parquet", y=np.zeros(2), x=["high", "low"])
    refused(
        r"column 'x' holds text or categories from row 0 on \('high'\), and numbers before",
        "y ~ x",
        tmp_path,
    )


def test_text_in_arithmetic_and_times(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "a.parquet",
        y=[1.0, 2.0],
        g=["a", "b"],
        at=pd.to_datetime(["2020-01-01", "2021-01-01"]),
    )
    refused("'g' is computed with and holds text", "y ~ log(g)", path)
    refused("column 'at' holds times", "y ~ at", path)
    refused("the response 'at' holds time", "at ~ g", path)


def test_a_number_in_a_csv_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(
        "y,x\n" + "".join(f"{i},{i % 7}\n" for i in range(200_000)) + "1,many\n"
    )
    refused(r"a\.csv holds 'many' in row 200000", "y ~ x", path)


@pytest.mark.slow
def test_whole_numbers_that_turn_out_not_to_be(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.normal(size=200_000), "x": np.arange(200_000) % 7})
    data["x"] = data.x.astype(object)
    data.loc[199_999, "x"] = 0.5
    data.to_csv(tmp_path / "a.csv", index=False)
    a = pr.fit(pr.Model.from_files("y ~ x", tmp_path / "a.csv")).coef.values
    b = pr.fit(pr.Model.from_formula("y ~ x", data.astype({"x": float}))).coef.values
    np.testing.assert_allclose(a, b, rtol=1e-9)  # other blocks of rows


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([1.0, 1.0, 1.0, 1.0], "occurs in none of 4 rows"),
        ([0.0, 1.0, 2.0, 1.0], "two levels"),
        ([0.2, 0.4, 0.1, 0.9], "trials|two levels"),
    ],
)
def test_a_response_that_is_none(
    tmp_path: Path, column: list[float], message: str
) -> None:
    path = stored(tmp_path / "a.parquet", y=column, x=[1.0, 2.0, 3.0, 4.0])
    refused(message, "y ~ x", path, likelihood="bernoulli")


def test_a_count_that_is_none_in_the_last_block(tmp_path: Path) -> None:
    y = np.arange(90_000.0) % 5
    y[89_999] = -1.0
    path = stored(tmp_path / "a.parquet", y=y, x=np.arange(90_000.0) % 3)
    refused(
        r"of a\.parquet: a Poisson response .*holds -1",
        "y ~ x",
        path,
        likelihood="poisson",
    )


def test_weights_and_offsets(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "a.parquet",
        **numbers(),
        w=np.r_[-1.0, np.ones(59)],
        g=["a"] * 60,
        o=np.zeros(60),
    )
    refused("the weight 'w' of row 0 is -1", "y ~ x", path, weights="w")
    refused("'g' is computed with and holds text", "y ~ x", path, weights="g")
    refused("no rows that count: .*a weight above 0", "y ~ x", path, weights="o")
    refused("weights= is a column's name", "y ~ x", path, weights=np.ones(60))
    refused(
        "offset= is a column's name or an expression", "y ~ x", path, offset=np.ones(60)
    )
    refused(r"'log\(o\)' is -inf", "y ~ x", path, offset="log(o)")


def test_more_levels_than_columns_can_be(tmp_path: Path) -> None:
    path = stored(
        tmp_path / "a.parquet",
        y=np.arange(11_000.0),
        g=[f"person {i}" for i in range(11_000)],
    )
    refused("'g' has more than 10000 levels", "y ~ g", path)


def test_what_learns_from_the_response(tmp_path: Path) -> None:
    refused(
        "learns from the rows",
        "center(y) ~ x",
        stored(tmp_path / "a.parquet", **numbers()),
    )


def test_missing_everywhere(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.parquet", y=[1.0, 2.0], x=[np.nan, np.nan])
    refused(
        "a.parquet holds no rows that count: none is complete",
        "y ~ x",
        path,
        missing="drop",
    )
    refused("missing='ignore' is not known", "y ~ x", path, missing="ignore")


def test_rows_that_change_between_passes(tmp_path: Path) -> None:
    path = stored(tmp_path / "a.parquet", y=np.arange(60) % 2, x=np.arange(60.0) % 7)
    model = pr.Model.from_files("y ~ x", path, likelihood="bernoulli")
    stored(path, y=np.arange(61) % 2, x=np.arange(61.0) % 7)
    with pytest.raises(
        pr.DataError,
        match=r"a\.parquet was changed or replaced since the model was made",
    ):
        pr.fit(model)


# ---- blocks ------------------------------------------------------------------------------------------------------------


def test_blocks_that_do_not_fit() -> None:
    X, y = np.ones((4, 2)), np.array([1.0, 2.0, 3.0, 5.0])
    bad = np.ones((4, 2))
    bad[2, 1] = np.nan
    for blocks, message in [
        ([], "no block of rows"),
        (
            [(X, y), (X, y[:3])],
            "block 1, whose rows start at row 4: X has 4 rows and y has shape",
        ),
        ([(X, y), (X[:, :1], y)], "block 1.*expected 2 columns"),
        ([(X, y), (bad, y)], "block 1.*column 'x2' holds nan in row 2"),
        ([(X, y, -y)], "the weight of row 0 is -1"),
        ([X], r"a block is \(X, y\)"),
    ]:
        with pytest.raises(pr.DataError, match=message):
            pr.Model.from_blocks(blocks)
    nothing: Any = lambda: None
    with pytest.raises(
        pr.DataError, match=r"blocks\(\) yields blocks \(X, y\), got NoneType"
    ):
        pr.Model.from_blocks(nothing)
    with pytest.raises(pr.DataError, match=r"block 1.*the data have no column 'x'"):
        pr.Model.from_blocks([({"x": [1.0, 2.0]}, y[:2]), ({"a": [1.0, 2.0]}, y[:2])])
    with pytest.raises(pr.DataError, match="pass lambda"):
        pr.Model.from_blocks(iter([(X, y)]))
    with pytest.raises(pr.DataError, match="column names repeat"):
        pr.Model.from_blocks([(X, y)], columns=["a", "a"])
    with pytest.raises(pr.Incompatible, match="likelihood=None: name the likelihood"):
        pr.Model.from_blocks([(X, y)], likelihood=None)


# ---- what needs rows in memory says so -----------------------------------------------------------------------------------


def test_what_needs_rows_in_memory_refuses(tmp_path: Path) -> None:
    data = numbers()
    fit = pr.fit(pr.Model.from_files("y ~ x", stored(tmp_path / "a.parquet", **data)))
    for what in (
        lambda: fit.predict(),
        lambda: fit.covariance("HAC"),
        lambda: fit.interval(kind="profile"),
        lambda: pr.residuals(fit),
        lambda: pr.check(fit.model),
        lambda: pr.fit(fit.model, "bootstrap"),
        lambda: fit.model.to_pymc(),
        lambda: fit.model.eta(fit.solution.beta),
        lambda: fit.save(tmp_path / "fit.nc", rows=True),
    ):
        with pytest.raises(pr.DataError, match="rows"):
            what()
    with pytest.raises(
        pr.DataError, match=r"reads its rows by the block \(a\.parquet\)"
    ):
        fit.model.eta(fit.solution.beta)
    assert "rows 60 of a.parquet" in repr(fit.model)


# ---- passes that are cut short -------------------------------------------------------------------------------------------


def open_files(folder: Path) -> list[str]:
    """Files in a folder that this process holds open."""
    out = []
    for number in Path("/proc/self/fd").iterdir():
        try:
            target = os.readlink(number)
        except OSError:
            continue
        out += [target] if str(folder) in target else []
    return out


@pytest.mark.skipif(
    not Path("/proc/self/fd").exists(), reason="open files are read from /proc"
)
@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (KeyboardInterrupt, "parquet"),
        pytest.param(KeyboardInterrupt, "csv", marks=pytest.mark.slow),
        (KeyboardInterrupt, "feather"),
        (MemoryError, "parquet"),
    ],
)
def test_an_interrupt_leaves_nothing_behind(
    tmp_path: Path, kind: str, error: type[BaseException]
) -> None:
    data = pd.DataFrame(numbers(400_000) | {"hit": np.arange(400_000) % 2})
    path = tmp_path / f"a.{kind}"
    table = pa.Table.from_pandas(data)
    write = {
        "parquet": pa.parquet.write_table,
        "csv": pa.csv.write_csv,
        "feather": pa.feather.write_feather,
    }
    write[kind](table, path)
    model = pr.Model.from_files("hit ~ x", path, likelihood="bernoulli")
    seen = []

    def fn(block: Any) -> tuple[Array]:
        seen.append(block.start)
        if len(seen) == 2:
            raise error
        time.sleep(0.01)
        return (block.X.sum(0),)

    before, running = set(tmp_path.iterdir()), threading.active_count()
    with pytest.raises(error):
        model.design.sum_over_rows(fn)
    assert len(seen) <= 2 + threads()  # those that were worked on beside it
    assert open_files(tmp_path) == []
    assert threading.active_count() == running
    assert set(tmp_path.iterdir()) == before
    assert (
        model.design.sum_over_rows(lambda block: (np.array(block.rows),))[0] == 400_000
    )  # and the next pass is whole


@pytest.mark.slow
def test_a_signal_in_the_middle_of_a_pass() -> None:
    program = """
import os, signal, threading, time
import numpy as np, probreg as pr
signal.signal(signal.SIGINT, signal.default_int_handler)
X, y = np.random.default_rng(0).normal(size=(1000, 3)), np.arange(1000) % 2
def blocks():
    for i in range(10_000):
        if armed and i == 20:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.001 * bool(armed))
        yield X, y
        if not armed and i == 5:
            return
armed = []
model = pr.Model.from_blocks(blocks, columns=["a", "b", "c"], likelihood="bernoulli")
armed.append(1)
try:
    pr.fit(model)
except KeyboardInterrupt:
    print("stopped", threading.active_count())
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "stopped 1\n"


def test_an_error_of_a_block_comes_through() -> None:
    X, y = np.random.default_rng(0).normal(size=(10, 2)), np.arange(10) % 2

    def blocks() -> Iterator[tuple[Array, Array]]:
        yield X, y
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError, match="the disk is gone"):
        pr.Model.from_blocks(blocks, columns=["a", "b"], likelihood="bernoulli")


# ---- progress and memory ---------------------------------------------------------------------------------------------------


def test_progress_is_a_line_on_stderr_and_silence_otherwise(
    tmp_path: Path, capsys: Any
) -> None:
    path = stored(tmp_path / "a.parquet", **numbers(70_000))
    for progress, wanted in [(True, True), (False, False), (None, False)]:
        pr.Model.from_files("y ~ x", path, progress=progress)
        out, err = capsys.readouterr()
        assert out == ""
        assert ("a.parquet, rows" in err and "70,000, " in err) == wanted
        assert bool(err) == wanted


def peak(n: int, likelihood: str, path: Path) -> int:
    """Bytes that a model of n rows and its fit hold at most."""
    with pa.parquet.ParquetWriter(
        path, pa.schema([("y", pa.float64()), ("x", pa.float64()), ("z", pa.float64())])
    ) as out:
        rng = np.random.default_rng(0)
        for _ in range(n // 50_000):
            y = rng.integers(0, 2, 50_000).astype(float)
            out.write_table(
                pa.table(
                    {"y": y, "x": rng.normal(size=50_000), "z": rng.normal(size=50_000)}
                )
            )
    # imports and caches
    pr.fit(pr.Model.from_parquet("y ~ x + z", path, likelihood=likelihood))
    tracemalloc.start()
    most = 0
    model = pr.Model.from_parquet("y ~ x + z", path, likelihood=likelihood)
    pr.fit(model)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_memory_does_not_grow_with_the_rows(tmp_path: Path, likelihood: str) -> None:
    import pyarrow.parquet  # noqa: F401  the writer

    small, large = (
        peak(n, likelihood, tmp_path / f"{n}.parquet") for n in (300_000, 900_000)
    )
    # of three times the rows: a block more or less may be in the threads' hands
    assert large < 1.6 * small
    assert large < 900_000 * 3 * 8  # the columns alone, in memory


def test_methods_that_are_offered_instead_can_fit_rows_by_the_block() -> None:
    X, y = np.arange(8.0)[:, None], np.array([0, 1, 0, 1, 1, 0, 1, 1])
    model = pr.Model.from_blocks(
        [(X[:4], y[:4]), (X[4:], y[4:])], likelihood="bernoulli"
    )
    with pytest.raises(pr.Incompatible) as refused:
        pr.fit(model, "nuts")
    offered = (
        str(refused.value)
        .partition("These can fit this model: ")[2]
        .rstrip(".")
        .split(", ")
    )
    assert "newton" in offered
    for method in offered:
        pr.fit(model, method)
