"""A response that a likelihood refuses is said of its row as the caller knows it: by the label of the table, by the place in the
file, whatever rows before it were left out."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.errors import row_error, rows_named, such_rows

N, BAD = 400, 300
REFUSED: dict[str, tuple[Any, float, str]] = {
    "gaussian": ("gaussian", 1e200, "row {} of the response holds 1e\\+200"),
    "student": ("student", 1e200, "row {} of the response holds 1e\\+200"),
    "poisson": ("poisson", -3.0, "row {} holds -3 \\(1 such row\\)"),
    "negative binomial": (
        "negative_binomial",
        1.5,
        "row {} holds 1.5 \\(1 such row\\)",
    ),
    "too large": ("poisson", 2.0**54, "row {} holds 1.80144e\\+16: larger ones"),
    "bernoulli": ("bernoulli", 0.5, "row {} holds 0.5. For shares"),
    "categorical": ("categorical", 0.5, "row {} holds 0.5. For real"),
    "binomial": (
        pr.Binomial(5),
        9.0,
        "row {} has 9 successes in 5 trials",
    ),
}
CASES = pytest.mark.parametrize("case", REFUSED)


def table(case: str, n: int = N, bad: int = BAD) -> pd.DataFrame:
    """Rows of which some are missing, some of weight 0, and one is refused."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, n).astype(float)
    y[bad] = REFUSED[case][1]
    rows = pd.DataFrame({"y": y, "x": rng.normal(size=n), "w": np.ones(n)})
    rows.loc[[0, 3], "x"], rows.loc[7, "w"] = np.nan, 0.0
    return rows


@CASES
def test_rows_of_a_table_are_named_by_their_labels(case: str) -> None:
    likelihood, _, said = REFUSED[case]
    rows = table(case).set_axis([f"r{i}" for i in range(N)])
    with pytest.raises(pr.DataError, match=said.format(f"r{BAD}")):
        pr.Model.from_formula(
            "y ~ x", rows, likelihood=likelihood, weights="w", missing="drop"
        )


@CASES
def test_rows_of_arrays_are_named_by_their_places(case: str) -> None:
    likelihood, _, said = REFUSED[case]
    rows = table(case).fillna(0.0)
    with pytest.raises(pr.DataError, match=said.format(BAD)):
        pr.Model.from_arrays(
            rows.x.to_numpy(),
            rows.y.to_numpy(),
            likelihood=likelihood,
            weights=rows.w.to_numpy(),
        )


@CASES
def test_rows_of_files_are_named_by_their_places_in_the_file(
    case: str, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow.parquet")
    likelihood, _, said = REFUSED[case]
    path = tmp_path / "rows.parquet"
    table(case).to_parquet(path, row_group_size=50)
    with pytest.raises(
        pr.DataError, match=f"rows 300 to 349 of rows.parquet: .*{said.format(BAD)}"
    ):
        pr.Model.from_parquet(
            "y ~ x", path, likelihood=likelihood, weights="w", missing="drop"
        )


@CASES
def test_rows_of_blocks_are_named_by_their_places_in_the_block(case: str) -> None:
    likelihood, _, said = REFUSED[case]
    rows = table(case, bad=18).fillna(0.0)
    blocks = [
        (part.x.to_numpy()[:, None], part.y.to_numpy(), part.w.to_numpy())
        for part in (rows[i : i + 10] for i in range(0, N, 10))
    ]
    with pytest.raises(
        pr.DataError, match=f"block 1, whose rows start at row 10: .*{said.format(8)}"
    ):
        pr.Model.from_blocks(blocks, likelihood=likelihood)


def test_a_refused_row_that_the_sample_of_a_file_lacks_is_looked_for(
    tmp_path: Path,
) -> None:
    pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "rows.parquet"
    table("bernoulli", 50_000, 33_333).to_parquet(path, row_group_size=3000)
    with pytest.raises(
        pr.DataError,
        match=r"rows 33000 to 35999 of rows.parquet: .* row 33333 holds 0.5",
    ):
        pr.Model.from_parquet("y ~ x", path, likelihood="bernoulli", missing="drop")


def test_counts_that_a_file_stores_as_categories_are_named_and_counted_by_rows(
    tmp_path: Path,
) -> None:
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    coded = pa.array([3, 1, -4, 2] * 10).dictionary_encode()
    parquet.write_table(
        pa.table({"x": np.arange(40.0), "y": coded}), tmp_path / "rows.parquet"
    )
    with pytest.raises(pr.DataError, match=r"row 2 holds -4 \(10 such rows\)"):
        pr.Model.from_parquet("y ~ x", tmp_path / "rows.parquet", likelihood="poisson")


def test_a_missing_level_in_blocks_is_named() -> None:
    X, y = np.arange(30.0)[:, None], np.tile([0.0, 1.0], 15)
    y[17] = np.nan
    blocks = [(X[i : i + 10], y[i : i + 10]) for i in (0, 10, 20)]
    with pytest.raises(
        pr.DataError,
        match="block 1, whose rows start at row 10: row 7 of the response holds nan",
    ):
        pr.Model.from_blocks(blocks, likelihood="bernoulli")


def test_new_rows_are_named_by_their_labels() -> None:
    known = table("poisson").fillna(0.0)
    known["y"] = known.y.clip(lower=0.0)
    model = pr.Model.from_formula("y ~ x", known, likelihood="poisson")
    new = table("poisson").dropna().set_axis([f"n{i}" for i in range(N - 2)])
    message = f"row n{BAD - 2} holds -3"
    with pytest.raises(pr.DataError, match=message):
        model.at(new)
    with pytest.raises(pr.DataError, match=message):
        model.at(new, weights=new.w.to_numpy())
    fits = {
        "x": pr.fit(model),
        "1": pr.fit(pr.Model.from_formula("y ~ 1", known, likelihood="poisson")),
    }
    with pytest.raises(pr.DataError, match=message):
        pr.compare_models(fits, heldout=new)


def test_an_error_of_a_row_is_pickled_with_its_row() -> None:
    again = pickle.loads(pickle.dumps(row_error("here ", 1, " is wrong")))
    with (
        pytest.raises(pr.DataError, match=r"^here row c is wrong$"),
        rows_named(["a", "c"]),
    ):
        raise again
    assert [such_rows(n) for n in (1, 2)] == ["1 such row", "2 such rows"]


def test_rows_of_a_fit_are_named_by_their_labels() -> None:
    """Where rows were left out, neither the jackknife nor a comparison counts those that are left."""
    rng = np.random.default_rng(0)
    rows = pd.DataFrame(
        {
            "x": rng.normal(size=40),
            "g": ["a"] * 40,
            "y": rng.normal(size=40),
            "w": np.repeat([1, 2], 20),
        }
    )
    rows.loc[20, "g"], rows.loc[3, "x"] = "b", np.nan
    alone = pr.fit(pr.Model.from_formula("y ~ x + g", rows, missing="drop"))
    with pytest.raises(
        pr.Incompatible,
        match=r"without row 20 there is no estimate \(leverage 1, 1 such row\)",
    ):
        pr.conformal(alone, kind="jackknife+")
    rows.loc[15, "g"], rows.loc[20, "g"] = "b", "a"
    weighted = pr.fit(
        pr.Model.from_formula("y ~ x + g", rows, weights="w", missing="drop")
    )
    with pytest.raises(pr.Incompatible, match=r"without row 15 there"):
        pr.conformal(weighted, kind="jackknife+")
    own, other = (
        pr.fit(pr.Model.from_formula("y ~ x", table, missing="drop"))
        for table in (rows, rows.assign(y=rows.y.where(rows.index != 30, 9.0)))
    )
    with pytest.raises(pr.DataError, match="values of the response: row 30 has"):
        pr.compare_models({"a": own, "b": other})
    with pytest.raises(pr.DataError, match=r"values of the response: row 30 has"):
        pr.compare({"a": own, "b": other})
