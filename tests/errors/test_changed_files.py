"""Rows that stay in their files are those of the model: a file that another one replaced is refused by name."""

import contextlib
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.blocks import files


def write(path: Path, seed: int) -> Path:
    """As many rows as with any other seed, in as many bytes as a format allows."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {"x": rng.integers(10, 99, 400) / 10, "y": rng.integers(0, 2, 400)}
    )
    writers = {".parquet": data.to_parquet, ".feather": data.to_feather}
    writers[path.suffix](path) if path.suffix in writers else data.to_csv(
        path, index=False
    )
    return path


CHANGED = r"rows\.\w+ was changed or replaced since the model was made"


@pytest.mark.parametrize("ending", ["parquet", "feather", "csv"])
def test_a_file_that_was_replaced_is_refused_by_name(ending, tmp_path):
    path, kept = (
        write(tmp_path / f"rows.{ending}", 1),
        write(tmp_path / f"kept.{ending}", 3),
    )
    model = pr.Model.from_files("y ~ x", [kept, path], likelihood="bernoulli")
    first = pr.fit(model).coef
    assert pr.fit(model).coef.equals(first)
    os.replace(write(tmp_path / f"other.{ending}", 2), path)
    with pytest.raises(pr.DataError, match=CHANGED):
        pr.fit(model)
    again = pr.Model.from_files("y ~ x", [kept, path], likelihood="bernoulli")
    assert not pr.fit(again).coef.equals(first)


def test_a_file_that_is_replaced_while_it_is_read_is_refused(tmp_path, monkeypatch):
    path, real = write(tmp_path / "rows.csv", 1), files._open
    model = pr.Model.from_files("y ~ x", path, likelihood="bernoulli")

    @contextlib.contextmanager
    def meanwhile(*given):
        with real(*given) as opened:
            yield opened
        if len(given) > 2:  # the rows, not the header
            os.replace(write(tmp_path / "other.csv", 2), path)

    monkeypatch.setattr(files, "_open", meanwhile)
    with pytest.raises(pr.DataError, match=CHANGED):
        model.log_lik(np.zeros((2, 1)))


def test_a_file_that_is_gone_is_named(tmp_path):
    path = write(tmp_path / "rows.csv", 1)
    model = pr.Model.from_files("y ~ x", path, likelihood="bernoulli")
    path.unlink()
    with pytest.raises(pr.DataError, match=r"rows\.csv cannot be read"):
        pr.fit(model)


def test_what_is_no_plain_file_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    (tmp_path / "zero.csv").symlink_to("/dev/zero")
    for name in ("pipe.csv", "zero.csv"):
        with pytest.raises(pr.DataError, match=rf"{name}: it is a device, a pipe"):
            pr.Model.from_files("y ~ x", tmp_path / name)


def test_few_rows_are_read_once_and_their_files_are_still_watched(
    tmp_path, monkeypatch
):
    """A search of many steps does not read a small file at every step."""
    from probreg.data.blocks.batches import FormulaBlocks

    path, calls, made = write(tmp_path / "rows.parquet", 1), [], FormulaBlocks.__call__
    monkeypatch.setattr(
        FormulaBlocks, "__call__", lambda *given: calls.append(1) or made(*given)
    )
    model = pr.Model.from_files("y ~ x", path, likelihood="bernoulli")
    before = len(calls)
    found, again = pr.fit(model), pr.fit(model)
    assert len(calls) - before == 1
    whole = pr.fit(
        pr.Model.from_formula("y ~ x", pd.read_parquet(path), likelihood="bernoulli")
    )
    np.testing.assert_allclose(found.coef, whole.coef, rtol=1e-10)
    np.testing.assert_array_equal(found.coef, again.coef)
    write(path, 2)
    with pytest.raises(pr.DataError, match=CHANGED):
        pr.fit(model)
