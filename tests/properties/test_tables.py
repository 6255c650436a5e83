"""A table holds its values unrounded and writes the same cells in every format."""

import csv
import io
import json
import re

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.system.terminal import WIDTH
from probreg.tables import Column, Table
from probreg.tables.render import FIVE_DIGITS, format_p_value

VALUES = [0.1 + 0.2, float("nan"), -np.pi]
TABLE = Table(
    (
        Column("coef", ["a", "b|c", "<d> & e_f"]),
        Column("estimate", VALUES, FIVE_DIGITS),
        Column("p", [0.5, 1e-20, None], format_p_value),
        Column("N", [3, 4, 5], str),
    ),
    rules=(2,),
    notes=("a note",),
)


def test_a_spreadsheet_has_the_values_and_no_formula(monkeypatch):
    written = []
    monkeypatch.setattr(
        pd.DataFrame, "to_excel", lambda frame, path, *, index: written.append(frame)
    )
    Table((Column("=coef", ["=1+1", "-x"]), Column("b", [-0.5, 2.0]))).to_excel("a")
    assert written[0].columns.tolist() == ["'=coef", "b"]
    assert written[0].to_numpy().tolist() == [["'=1+1", -0.5], ["'-x", 2.0]]


def test_an_excel_file_has_the_values(tmp_path):
    path = tmp_path / "table.xlsx"
    try:
        import openpyxl  # noqa: F401  pandas uses it
    except ImportError:
        with pytest.raises(pr.Incompatible, match="openpyxl"):
            TABLE.to_excel(path)
        return
    TABLE.to_excel(path)
    # a file has 16 digits
    np.testing.assert_allclose(pd.read_excel(path)["estimate"], VALUES, rtol=1e-15)


def test_values_are_unrounded_for_programs(tmp_path):
    frame = TABLE.to_pandas()
    np.testing.assert_array_equal(frame["estimate"], VALUES)
    # not by the parser of pandas 2, which errs in the last digit
    _, *rows = csv.reader(io.StringIO(TABLE.to_csv()))
    np.testing.assert_array_equal([float(row[1] or "nan") for row in rows], VALUES)
    assert TABLE.to_csv(tmp_path / "table.csv") is None
    assert (tmp_path / "table.csv").read_bytes() == TABLE.to_csv().encode()
    rows = json.loads(TABLE.to_json(), parse_constant=pytest.fail)
    assert [row["N"] for row in rows] == [3, 4, 5]
    assert list(rows[1].values())[1] is None


def test_every_format_has_every_cell():
    cells = [cell for row in TABLE.cells for cell in row if cell.isalnum()]
    texts = (repr(TABLE), TABLE.to_html(), TABLE.to_markdown(), TABLE.to_latex())
    for text in texts:
        assert all(cell in text for cell in [*cells, "a note"])
    assert "<d>" not in TABLE.to_html()
    rows = [line for line in TABLE.to_markdown().splitlines() if line[:1] == "|"]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {5}
    assert TABLE.to_latex().count(r"\midrule") == 2


@pytest.mark.parametrize("n", [1, 12])
def test_wide_tables_continue_below_and_keep_labels_apart(n):
    names = [f"{'a long label ' * 12}{i} {'and its end ' * 9}" for i in range(4)]
    numbers = (Column(f"x{j}", [j + 0.25] * 4, FIVE_DIGITS) for j in range(2 * n))
    wide = Table((Column("", names), *numbers))
    lines = wide.lines()
    assert max(map(len, lines)) <= WIDTH
    text = "\n".join(lines)
    assert all(f"{j + 0.25:g}" in text for j in range(2 * n))
    labels = {line.split("  ")[0] for line in lines if line.startswith("…")}
    assert len(labels) == 4


def test_long_tables_count_their_omitted_rows():
    table = Table((Column("i", [*map(str, range(100))]),), source=".all")
    lines = table.lines(10)
    assert len(lines) == 10
    assert lines[-1] == "… 92 more in .all"
