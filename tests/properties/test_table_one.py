"""The table of a sample: its numbers are those of pandas, for every type of column."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import probreg as pr


@pytest.fixture(scope="module")
def birds() -> pd.DataFrame:
    table = pr.load_dataset("penguins")
    code = np.arange(len(table)) % 3
    names = ["low", "mid", "high"]
    table["rank"] = pd.Categorical.from_codes(code, names, ordered=True)
    table["heavy"] = table["body_mass_g"] > 4000
    return table


def test_means_and_counts_are_those_of_pandas(birds):
    found = pr.table_one(birds, by="species", median="bill_length_mm").to_pandas()
    groups = {"all": birds}
    groups |= {f"species = {k}": part for k, part in birds.groupby("species")}
    assert list(found.columns) == list(groups)
    for name, part in groups.items():
        cells = found[name]
        mass = part["body_mass_g"]
        mean = f"{mass.mean():.0f} ({mass.std():.0f})"
        assert cells["body_mass_g", "mean (sd)"] == mean
        low, middle, high = np.nanquantile(part["bill_length_mm"], [0.25, 0.5, 0.75])
        quartiles = f"{middle:.1f} [{low:.1f}, {high:.1f}]"
        assert cells["bill_length_mm", "median [quartiles]"] == quartiles
        assert cells["sex", "missing"] == str(part["sex"].isna().sum())
        for column in ("sex", "rank", "heavy"):
            for level, count in part[column].value_counts().items():
                share = 100 * count / part[column].count()
                assert cells[column, str(level)] == f"{count} ({share:.0f} %)"
    assert [level for name, level in found.index if name == "rank"] == [
        "low",
        "mid",
        "high",
    ]
    assert "species" not in {name for name, _ in found.index}


def test_every_table_gives_the_same_table_of_the_sample(birds):
    columns = ["body_mass_g", "sex", "heavy"]
    expected = pr.table_one(birds, columns, by="island").to_csv()
    for data in (pl.from_pandas(birds), birds.to_dict("list")):
        assert pr.table_one(data, columns, by="island").to_csv() == expected


def test_a_table_of_the_sample_has_the_columns_in_the_order_of_the_call(birds):
    found = pr.table_one(birds, ["sex", "body_mass_g"], title="birds")
    assert list(dict.fromkeys(found.columns[0].values)) == ["n", "sex", "body_mass_g"]
    assert found.columns[0].name == "birds"
    for wrong in ({"columns": "mass"}, {"by": "mass"}, {"median": "mass"}):
        with pytest.raises(pr.DataError, match="'mass'"):
            pr.table_one(birds, **wrong)


def test_groups_without_spread_have_no_parentheses() -> None:
    data = {"x": [1.0, 2.0, 3.0, None], "g": ["a", "a", "b", "c"]}
    for median, of_one in (((), "3.0"), ("x", "3.0 [3.0, 3.0]")):
        cells = pr.table_one(data, ["x"], by="g", median=median).to_pandas()
        assert cells["g = b"].tolist() == ["1", of_one, "0"]
        assert cells["g = c"].tolist() == ["1", "", "1"]
