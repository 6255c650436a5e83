"""What is wrong with rows on a cluster is said with partition, column, row and value; a cluster that is lost is said so."""

import os
import signal
import sys
import threading
import time

import numpy as np
import pandas as pd
import pytest

import probreg as pr

dd = pytest.importorskip("dask.dataframe", reason="dask with pandas is not installed")
da = pytest.importorskip("dask.array", reason="dask is not installed")
distributed = pytest.importorskip("distributed", reason="distributed is not installed")


def clean(n: int = 40) -> pd.DataFrame:
    x = np.arange(float(n))
    return pd.DataFrame(
        {
            "y": np.sin(x),
            "x": x,
            "g": np.where(x % 3 == 0, "a", "b"),
            "b": (x % 2 == 0),
            "w": 1.0,
        }
    )


def far(data, formula="y ~ x", **settings):
    """A model on dask's threads, four partitions of ten rows."""
    return pr.Model.from_dask(formula, dd.from_pandas(data, npartitions=4), **settings)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_value_that_cannot_be_used_is_named_with_its_partition(value):
    data = clean()
    data.loc[25, "x"] = value
    said = "'x'.*row 5" if np.isnan(value) else f"'x' is {value} in row 5"
    with pytest.raises(pr.DataError, match=f"partition 2.*{said}"):
        far(data)


def test_an_infinite_value_behind_the_first_rows_is_named_by_the_worker():
    n = 4000
    data = clean(n)
    data.loc[1900, "x"] = np.inf
    with pytest.raises(pr.DataError, match=r"partition 1.*'x' is inf in row 900"):
        far(data)


def test_text_among_categories_weights_and_counts_is_checked_where_it_is():
    data = clean()
    data.loc[31, "w"] = -2.0
    with pytest.raises(pr.DataError, match=r"partition 3.*'w' of row 1 is -2"):
        far(data, weights="w")
    data["k"] = 1
    data.loc[12, "k"] = -1
    with pytest.raises(pr.DataError, match=r"partition 1.*row 2 holds -1"):
        far(data, "k ~ x", likelihood="poisson")


@pytest.mark.parametrize(
    ("formula", "settings", "said"),
    [
        ("y ~ dose", {}, "no column 'dose'"),
        ("y ~ center(z)", {}, "no column 'z'"),
        ("y ~ x", {"weights": np.ones(40)}, "weights= is a column's name"),
        ("center(y) ~ x", {}, "learns from the rows"),
        (
            "g ~ x",
            {"likelihood": "bernoulli", "event": "c"},
            "event='c' is not a level",
        ),
        ("y ~ x", {"likelihood": "bernoulli"}, "two levels"),
        ("y ~ x", {"weights": "zero"}, "sum to zero|no rows that count"),
    ],
)
def test_a_formula_that_does_not_fit_the_columns_is_refused(formula, settings, said):
    with pytest.raises(pr.DataError, match=said):
        far(clean().assign(zero=0.0), formula, **settings)


@pytest.mark.parametrize(
    "data", [clean(), {"x": [1.0]}, 3, []], ids=["pandas", "dict", "number", "nothing"]
)
def test_what_is_no_dask_collection_is_refused_by_its_type(data):
    with pytest.raises(pr.DataError, match=type(data).__name__):
        pr.Model.from_dask("y ~ x", data)


def test_a_path_is_no_dask_collection(tmp_path):
    with pytest.raises(pr.DataError, match="read_parquet"):
        pr.Model.from_dask("y ~ x", tmp_path)


def test_a_client_is_a_client():
    with pytest.raises(pr.Incompatible, match="'a cluster'"):
        far(clean(), client="a cluster")


def test_without_dask_the_error_says_how_to_get_it(monkeypatch):
    frame = dd.from_pandas(clean(), npartitions=2)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(pr.Incompatible, match=r"pip install 'dask\[dataframe\]'"):
        pr.Model.from_dask("y ~ x", frame)


@pytest.fixture
def cluster(tmp_path):
    """One worker process, since these tests end it."""
    own = {
        "dashboard_address": ":0",
        "local_directory": str(tmp_path),
        "silence_logs": 60,
    }
    with distributed.LocalCluster(n_workers=1, threads_per_worker=1, **own) as cluster:
        yield cluster


@pytest.mark.slow
def test_a_worker_that_dies_and_a_client_that_is_closed_are_said(cluster):
    client = distributed.Client(cluster, set_as_default=False)
    model = pr.Model.from_dask(
        "b ~ x + g",
        dd.from_pandas(clean(), npartitions=4),
        client=client,
        likelihood="bernoulli",
    )
    before = pr.fit(model).solution.beta

    def starts(block):
        return [(os.getpid(), block.start, block.rows)]

    met = model.design.sum_over_rows(starts, lambda a, b: a + b)
    (worker,) = cluster.workers.values()
    assert {process for process, _, _ in met} == {worker.process.pid}  # not this one
    assert [rows for _, _, rows in met] == [10] * 4
    # the order of the partitions
    assert [start for _, start, _ in met] == sorted({start for _, start, _ in met})

    def broken(block):
        raise OSError("the disk is gone")

    with pytest.raises(
        pr.ProbregError, match=r"failed on the workers.*OSError: the disk is gone"
    ) as caught:
        model.design.sum_over_rows(broken)
    assert isinstance(caught.value.__cause__, OSError)

    def interrupt():
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGINT)

    def slow(block):
        time.sleep(1.0)
        return (block.X.sum(0),)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        model.design.sum_over_rows(slow)
    thread.join()
    assert not client.futures  # nothing is waited for any more
    (worker,) = cluster.workers.values()
    # the nanny starts another one, which reads the rows anew
    os.kill(worker.pid, signal.SIGKILL)
    np.testing.assert_array_equal(pr.fit(model).solution.beta, before)
    client.close()
    with pytest.raises(pr.ProbregError, match="start a new client"):
        pr.fit(model.with_prior(pr.Normal(1.0)))
