"""Rows that are read by the block have the groups of all rows: the model is that of the table in memory."""

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.blocks import batches, files
from probreg.data.formula.columns import DataTable

N = 600
FORMULA = "y ~ center(x) + (center(x) | g) + (1 | h / k) + (0 + f || number)"


def table(rng) -> pd.DataFrame:
    """Groups arrive in turn, so that no block has all of them."""
    g = np.sort(rng.integers(0, 12, N))
    return pd.DataFrame(
        {
            "y": rng.normal(size=N) + g,
            "x": rng.normal(size=N),
            "g": [f"level {i}" for i in g],
            "h": pd.Categorical(rng.choice(["u", "v"], N), categories=["v", "u"]),
            "k": rng.integers(0, 3, N),
            "number": rng.choice([10, 9, 100], N),
            "f": np.where(np.arange(N) < 300, "p", "q"),
        }
    )


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(files, "_SMALLEST", 64)
    monkeypatch.setattr(files, "_NUMBERS_OF_BATCH", 64)
    monkeypatch.setattr(batches, "_NUMBERS_OF_BLOCK", 2_000)


def same(a: pr.Model, b: pr.Model) -> None:
    assert a.design.columns == b.design.columns
    assert a.design.recipe.grouped == b.design.recipe.grouped
    gram = [m.design.sum_over_rows(lambda block: block.X.T @ block.X) for m in (a, b)]
    np.testing.assert_allclose(gram[0], gram[1], rtol=1e-9, atol=1e-9)
    held = [
        pr.fit(m.with_prior(HELD).with_aux(sigma=1.0), "closed_form").coef.values
        for m in (a, b)
    ]
    np.testing.assert_allclose(held[0], held[1], rtol=1e-7, atol=1e-8)


HELD = {
    key: pr.priors.Normal(0.7)
    for key in ("center(x) | g", "1 | h", "1 | h:k", "0 + f || number")
}


@pytest.mark.parametrize("format", ["parquet", "feather", "csv"])
def test_files_hold_the_groups_of_the_table(format, rng, tmp_path):
    pytest.importorskip("pyarrow")
    data = table(rng)
    paths = [tmp_path / f"{i}.{format}" for i in range(2)]
    for path, part in zip(paths, (data[:350], data[350:])):
        part = part.reset_index(drop=True)
        part.to_csv(path, index=False) if format == "csv" else getattr(
            part, f"to_{format}"
        )(path)
    model = pr.Model.from_files(FORMULA, paths)
    # the order of levels is that of the type, which a CSV does not have
    plain = pr.Model.from_formula(
        FORMULA, data.astype({"h": str}) if format == "csv" else data
    )
    same(model, plain)
    assert any(
        "levels were collected over all 600 rows: f (2), g (12), h (2), h:k (6)" in n
        for n in model.design.notes
    )
    new = {name: data[name][:1] for name in ("x", "h", "k", "number", "f")} | {
        "g": ["new"]
    }
    assert model.design.at(new).inputs["(center(x) | g)"][0, 0] == 12


def test_partitions_of_dask_hold_the_groups_of_the_table(rng):
    dd = pytest.importorskip("dask.dataframe")
    data = table(rng)
    model = pr.Model.from_dask(FORMULA, dd.from_pandas(data, npartitions=5))
    same(model, pr.Model.from_formula(FORMULA, data))


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ (1 | x)", "column 'x' holds a different number in each of its 600 rows"),
        ("y ~ (1 | one)", r"\(1 \| one\) has the single group 'z'"),
        ("y ~ (1 | missing)", "no column 'missing'"),
        ("y ~ (gap | g)", "missing in 1 of"),
        ("y ~ (1 | when)", r"\(1 \| when\) has the single group '2020-01-01'"),
    ],
)
def test_groups_of_files_are_refused_as_those_of_tables(
    formula, message, rng, tmp_path
):
    pytest.importorskip("pyarrow")
    data = table(rng).assign(one="z", gap=1.0, when=pd.Timestamp("2020-01-01"))
    data.loc[5, "gap"] = np.nan
    data.to_parquet(tmp_path / "rows.parquet")
    with pytest.raises(pr.DataError, match=message):
        pr.Model.from_files(formula, tmp_path / "rows.parquet")


def test_parts_of_a_batch_keep_the_numbers_of_their_rows():
    table = DataTable({"x": np.arange(9.0)}, np.arange(100, 109))
    part = files.Batch(table, "a.csv", start=40, number=2).part(slice(3, 5))
    assert (part.start, part.number, part.rows) == (43, 2, 2)
    assert part.place == "rows 103 to 104 of a.csv"
