"""Properties of labels: they are values, and no container, formula or file turns them into floats that merge."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.data.formula import formula as formulas
from tests.properties.containers import EVERY, TABLES, model, table, with_missing


def read_formula(formula, data, **options):
    """The design of a formula, without its response."""
    return formulas.read_formula(formula, data, **options).design


pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
IDS = 1_700_000_000_000_000_000 + np.array([0, 60, 300, 700])
DATA = pd.DataFrame(
    {
        "user": np.repeat(IDS, 5),
        "y": np.repeat([0.0, 4.0, 8.0, 12.0], 5) + np.cos(np.arange(20.0)),
    }
)
DATA["x"] = np.sin(np.arange(20.0))
MEANS = DATA.groupby("user").y.mean().to_numpy()
NAMES = tuple(f"C(user)[{level}]" for level in IDS)
UNSIGNED = DATA.assign(user=DATA.user.to_numpy(np.uint64) + np.uint64(2**63))


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        *((DATA, kind) for kind in EVERY),
        *((UNSIGNED, kind) for kind in ("pandas", "arrow", "polars", "csv", "parquet")),
    ],
)
def test_whole_numbers_beyond_floats_are_levels_of_their_own(kind, data, tmp_path):
    fit = pr.fit(model("y ~ 0 + C(user)", data, kind, tmp_path))
    assert fit.model.design.columns == tuple(
        f"C(user)[{level}]" for level in data.user.unique()
    )
    np.testing.assert_allclose(fit.coef, MEANS, rtol=1e-12)


@pytest.mark.parametrize("kind", EVERY)
def test_they_are_groups_of_their_own(kind, tmp_path):
    made = model("y ~ x + (1 | user)", DATA, kind, tmp_path)
    assert made.design.recipe.grouped["(1 | user)"].levels == tuple(map(str, IDS))


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize("formula", ["y ~ 0 + C(user)", "y ~ x + (1 | user)"])
def test_missing_labels_are_dropped_and_the_others_keep_their_digits(
    kind, formula, tmp_path
):
    frame = with_missing(DATA, "user", [1, 7, 19])
    frame = (
        frame.astype({"user": object}).where(frame.notna(), None)
        if kind == "xarray"
        else frame
    )
    made = model(formula, frame, kind, tmp_path, missing="drop")
    if formula.endswith("C(user)"):
        assert made.design.columns == NAMES
        np.testing.assert_allclose(
            pr.fit(made).coef,
            DATA.drop([1, 7, 19]).groupby("user").y.mean(),
            rtol=1e-12,
        )
    else:
        assert made.design.recipe.grouped["(1 | user)"].levels == tuple(map(str, IDS))


@pytest.mark.parametrize("kind", TABLES)
def test_new_rows_find_their_level(kind):
    fit = pr.fit(pr.Model.from_formula("y ~ 0 + C(user)", DATA))
    np.testing.assert_allclose(
        fit.predict(table(DATA[3:8], kind))["mean"], MEANS[[0, 0, 1, 1, 1]], rtol=1e-12
    )
    with pytest.raises(pr.DataError, match="1700000000000000061"):
        fit.predict(table(DATA[:1].assign(user=IDS[1] + 1), kind))


@pytest.mark.parametrize("kind", ["csv", "tsv"])
@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        [1, 2, 3, 4],
        ["10000000000000000060", "10000000000000000061", "7", "2.5"],
        [0.5, 1.5, 2.0, 3.0],
    ],
)
def test_a_csv_reads_labels_as_memory_does(kind, ids, tmp_path):
    frame = DATA.assign(user=np.repeat(np.array(ids, dtype=object), 5))
    if "2.5" in ids:
        with pytest.raises(pr.DataError, match="make all of them text"):
            model("y ~ 0 + C(user)", frame, kind, tmp_path)
        return
    made = model("y ~ 0 + C(user)", frame, kind, tmp_path)
    wanted = pr.Model.from_formula(
        "y ~ 0 + C(user)", {"user": frame.user.tolist(), "y": frame.y}
    )
    assert made.design.columns == wanted.design.columns


def test_a_csv_of_many_blocks_has_the_labels_of_all_of_them(tmp_path, monkeypatch):
    monkeypatch.setattr("probreg.data.blocks.files._CSV_BLOCK", 2**8)
    frame = pd.concat([DATA.assign(user=DATA.user % 1000), DATA], ignore_index=True)
    made = model("y ~ 0 + C(user)", frame, "csv", tmp_path)
    assert made.design.columns == tuple(
        f"C(user)[{v}]" for v in sorted(set(frame.user.tolist()))
    )


def test_decimals_are_labels_to_their_last_digit():
    table = {"user": [Decimal(int(v)) for v in DATA.user], "y": DATA.y}
    assert pr.Model.from_formula("y ~ 0 + C(user)", table).design.columns == NAMES
    small = {"user": [Decimal("0.10"), Decimal("0.2")] * 10, "y": DATA.y}
    assert pr.Model.from_formula("y ~ 0 + C(user)", small).design.columns == (
        "C(user)[0.1]",
        "C(user)[0.2]",
    )
    long = {
        "user": [Decimal("0.12345678901234567890"), Decimal("0.12345678901234567891")]
        * 10,
        "y": DATA.y,
    }
    with pytest.raises(pr.DataError, match="Decimal"):
        pr.Model.from_formula("y ~ 0 + C(user)", long)
    numbers = read_formula(
        "y ~ user", {"user": [Decimal(f"{v}.5") for v in range(20)], "y": DATA.y}
    )
    np.testing.assert_array_equal(numbers.X[:, 1], np.arange(20) + 0.5)


def test_whole_numbers_beyond_every_type_are_labels_and_numbers():
    table = {
        "user": np.repeat(np.array([10**25, 10**25 + 1], dtype=object), 10),
        "y": DATA.y,
        "x": DATA.x,
    }
    made = pr.Model.from_formula("y ~ 0 + C(user)", table)
    assert made.design.columns == (f"C(user)[{10**25}]", f"C(user)[{10**25 + 1}]")
    assert read_formula("y ~ user", table).X[0, 1] == 1e25


def test_categories_of_whole_numbers_keep_their_order():
    column = pd.Categorical(DATA.user, categories=IDS[::-1])
    made = pr.Model.from_formula("y ~ 0 + C(user)", DATA.assign(user=column))
    assert made.design.columns == NAMES[::-1]


def test_effects_and_hypotheses_have_the_labels():
    fit = pr.fit(pr.Model.from_formula("y ~ C(user)", DATA))
    found = pr.comparisons(fit, "user").table
    np.testing.assert_allclose(found["estimate"], MEANS[1:] - MEANS[0], rtol=1e-12)
    assert found["contrast"].tolist() == [f"{b} against {IDS[0]}" for b in IDS[1:]]
    at = pr.predictions(fit, at={"user": IDS.tolist()}).table
    np.testing.assert_allclose(at["estimate"], MEANS, rtol=1e-12)
    by = pr.predictions(fit, by="user").table
    assert by["user"].tolist() == IDS.tolist()
    np.testing.assert_allclose(by["estimate"], MEANS, rtol=1e-12)
    np.testing.assert_allclose(
        pr.predictions(fit, grid="balanced").table["estimate"], MEANS.mean(), rtol=1e-12
    )
    pair = pr.comparisons(fit, {"user": (int(IDS[1]), int(IDS[2]))}).table
    np.testing.assert_allclose(pair["estimate"], MEANS[2] - MEANS[1], rtol=1e-12)
    tested = pr.hypothesis(fit, f"C(user)[T.{IDS[2]}] - C(user)[T.{IDS[1]}] = 0")
    assert tested["t"].statistic == pytest.approx(
        (pair["estimate"] / pair["std_error"]).item(), rel=1e-9
    )


@pytest.mark.parametrize("rows", [False, True])
def test_labels_are_saved(rows, tmp_path):
    fit = pr.fit(pr.Model.from_formula("y ~ C(user)", DATA))
    fit.save(tmp_path / "fit.nc", rows=rows)
    again = pr.load_fit(tmp_path / "fit.nc")
    np.testing.assert_array_equal(
        again.predict(DATA)["mean"], fit.predict(DATA)["mean"]
    )
    if rows:
        np.testing.assert_allclose(
            pr.comparisons(again, "user").table["estimate"],
            MEANS[1:] - MEANS[0],
            rtol=1e-12,
        )


def test_effects_of_groups_are_by_their_labels():
    fit = pr.fit(pr.Model.from_formula("y ~ 1 + (1 | user)", DATA))
    np.testing.assert_allclose(
        fit.predict(DATA)["mean"], fit.predict()["mean"], rtol=1e-12
    )
    assert len(np.unique(fit.predict()["mean"].values.round(6))) == 4


# ---- dates -------------------------------------------------------------------------------------------------------------

DAYS = pd.to_datetime(["2024-01-01", "2024-01-02", "2024-02-29", "2025-01-01"])
TIMES = pd.to_datetime("2024-01-01") + pd.to_timedelta([0, 60, 300, 700], unit="ns")


@pytest.mark.parametrize(
    ("met", "kind"),
    [
        *((DAYS, kind) for kind in EVERY if kind != "arrow types"),
        *((TIMES, kind) for kind in ("pandas", "arrow", "polars", "csv", "parquet")),
    ],
)
def test_dates_are_labels_of_their_own(kind, met, tmp_path):
    data = DATA.assign(when=np.repeat(met.to_numpy(), 5)).drop(columns="user")
    fit = pr.fit(model("y ~ 0 + C(when)", data, kind, tmp_path))
    assert len(fit.coef) == 4
    np.testing.assert_allclose(fit.coef, MEANS, rtol=1e-12)
    if met is DAYS:
        assert fit.model.design.columns == tuple(f"C(when)[{d:%Y-%m-%d}]" for d in DAYS)
    assert (
        len(
            model("y ~ x + (1 | when)", data, kind, tmp_path)
            .design.recipe.grouped["(1 | when)"]
            .levels
        )
        == 4
    )


def test_effects_of_dates(tmp_path):
    fit = pr.fit(
        pr.Model.from_formula(
            "y ~ C(when)", DATA.assign(when=np.repeat(DAYS.to_numpy(), 5))
        )
    )
    np.testing.assert_allclose(
        pr.comparisons(fit, "when").table["estimate"], MEANS[1:] - MEANS[0], rtol=1e-12
    )
    np.testing.assert_allclose(
        pr.predictions(fit, at={"when": list(DAYS)}).table["estimate"],
        MEANS,
        rtol=1e-12,
    )
    assert pr.predictions(fit, by="when").table["when"].tolist() == [
        f"{d:%Y-%m-%d}" for d in DAYS
    ]
    fit.save(tmp_path / "fit.nc", rows=True)
    again = pr.load_fit(tmp_path / "fit.nc")
    np.testing.assert_allclose(
        pr.predictions(again, by="when").table["estimate"], MEANS, rtol=1e-12
    )


@pytest.mark.parametrize("kind", ["pandas", "arrow", "parquet", "feather"])
def test_an_hour_that_comes_twice_is_two_labels(kind, tmp_path):
    hours = pd.date_range("2024-11-03 05:00", periods=4, freq="h", tz="UTC").tz_convert(
        "America/New_York"
    )
    data = DATA.assign(when=np.repeat(hours.to_numpy(dtype=object), 5)).astype(
        {"when": "datetime64[ns, America/New_York]"}
    )
    fit = pr.fit(model("y ~ 0 + C(when)", data, kind, tmp_path))
    np.testing.assert_allclose(np.sort(fit.coef), MEANS, rtol=1e-12)
    np.testing.assert_allclose(
        fit.predict(data)["mean"], np.repeat(MEANS, 5), rtol=1e-12
    )


def test_a_date_alone_is_no_predictor_and_no_multiplier():
    data = DATA.assign(when=np.repeat(DAYS.to_numpy(), 5))
    with pytest.raises(pr.DataError, match=r"C\(when\)"):
        pr.Model.from_formula("y ~ when", data)
    with pytest.raises(pr.DataError, match="by="):
        pr.Model.from_formula("y ~ s(x, by=when, k=4)", data)


# ---- numbers that a file holds as text -----------------------------------------------------------------------------------


SPOILT = [
    "\0",
    "7\0",
    "7%",
    "1,234",
    "$7",
    "1_000",
    "0x10",
    "1d3",
    "?",
    ".",
    "true",
    "\u22121.5",
    "\uff11.5",
    "(7)",
    "1/2",
    "7\n",
    "seven",
]


@pytest.mark.parametrize(
    ("cell", "kind", "every"),
    [
        *((cell, kind, False) for cell in SPOILT for kind in ("csv", "parquet")),
        *(("7%", kind, False) for kind in ("tsv", "feather", "pandas")),
        *(
            (cell, kind, True)
            for cell in ("7%", "1,234")
            for kind in ("csv", "parquet", "pandas")
        ),
    ],
)
def test_cells_that_spoil_a_column_of_numbers_are_named(cell, kind, every, tmp_path):
    numbers = [f"{v + 0.25}" for v in range(20)]
    cells = [*numbers[:7], cell, *numbers[8:]]
    if every:
        cells = (
            [f"{v}%" for v in range(20)]
            if cell.endswith("%")
            else [f"1,{v:03d}" for v in range(20)]
        )
    frame = pd.DataFrame({"y": np.arange(20.0), "x": cells})
    with pytest.raises(pr.DataError) as error:
        model("y ~ x", frame, kind, tmp_path)
    said = str(error.value)
    wanted = cells[0] if every else cell
    assert "'x'" in said
    assert repr(wanted) in said
    assert f"row {0 if every else 7}" in said
    assert kind == "pandas" or f"rows.{kind}" in said


@pytest.mark.parametrize(
    ("cell", "kind"), [("\0", "csv"), ("7%", "parquet"), ("7%", "pandas")]
)
@pytest.mark.parametrize(
    ("name", "formula", "options"),
    [
        ("y", "y ~ x", {}),
        ("y", "log(y) ~ x", {}),
        ("x", "y ~ log(x + 1)", {}),
        ("x", "y ~ s(x)", {}),
        ("x", "y ~ I(x > 3)", {}),
        ("x", "y ~ (x | g)", {}),
        ("x", "y ~ x:z", {}),
        ("z", "y ~ x", {"weights": "z"}),
        ("z", "y ~ x", {"offset": "z"}),
        ("z", "y ~ x + offset(z)", {}),
    ],
)
def test_they_are_named_wherever_the_column_stands(
    name, formula, options, kind, cell, tmp_path
):
    frame = pd.DataFrame(
        {"y": range(1, 21), "x": [7 * v % 20 for v in range(20)], "z": [1] * 20}
    ).astype(str)
    frame[name] = [*frame[name][:7], cell, *frame[name][8:]]
    frame["g"] = list("abcd") * 5
    for other in {"y", "x", "z"} - {name}:
        frame[other] = frame[other].astype(int)
    with pytest.raises(pr.DataError) as error:
        model(formula, frame, kind, tmp_path, **options)
    said = str(error.value)
    assert repr(cell) in said
    assert "row 7" in said or "row 7:" in said
    assert kind == "pandas" or f"rows.{kind}" in said


def test_text_that_is_declared_a_category_may_hold_numbers(tmp_path):
    frame = pd.DataFrame(
        {"y": np.arange(20.0), "x": ["5%", "10%"] * 10, "z": ["1", "2", "3", "A"] * 5}
    )
    for kind in ("pandas", "csv", "parquet"):
        assert len(model("y ~ x + z", frame, kind, tmp_path).design.columns) == 5
    many = frame.assign(x=[f"{v}%" for v in range(20)])
    assert len(model("y ~ 0 + C(x)", many, "csv", tmp_path).design.columns) == 20


@pytest.mark.slow
def test_a_cell_that_comes_late_in_a_csv_is_named(tmp_path, monkeypatch):
    cells = [*map(str, range(100_000)), "3%"]
    path = tmp_path / "late.csv"
    path.write_text("y,x\n" + "\n".join(f"{i},{c}" for i, c in enumerate(cells)))
    with pytest.raises(pr.DataError, match=r"'x' of late.csv holds '3%' in row 100000"):
        pr.Model.from_files("y ~ x", path)
    with pytest.raises(pr.DataError, match=r"'x' of late.csv holds '3%' in row 100000"):
        pr.Model.from_files("y ~ C(x)", path)


def test_a_heading_that_is_not_utf_8_is_an_error(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes(b"y,x\xe9\n1,2\n3,4\n")
    with pytest.raises(pr.DataError, match=r"latin.csv.*UTF-8"):
        pr.Model.from_files("y ~ 1", path)


@pytest.mark.parametrize("kind", ["pandas", "lists", "csv", "parquet", "dask"])
def test_comparisons_and_base_levels_in_a_formula_are_of_whole_numbers(kind, tmp_path):
    fit = pr.fit(model(f"y ~ I(user == {IDS[1]})", DATA, kind, tmp_path))
    wanted = DATA.y[DATA.user == IDS[1]].mean() - DATA.y[DATA.user != IDS[1]].mean()
    np.testing.assert_allclose(fit.coef.values[1], wanted, rtol=1e-12)
    based = model(f"y ~ C(user, contr.treatment({IDS[2]}))", DATA, kind, tmp_path)
    assert [c for c in based.design.columns if str(IDS[2]) in c.partition("[")[2]] == []


@pytest.mark.parametrize("likelihood", ["categorical", "bernoulli"])
@pytest.mark.parametrize(
    "kind", ["pandas", "lists", "objects", "csv", "parquet", "polars"]
)
def test_classes_of_a_response_are_labels(likelihood, kind, tmp_path):
    data = DATA if likelihood == "categorical" else DATA[:10]
    made = model("user ~ x", data, kind, tmp_path, likelihood=likelihood)
    assert made.likelihood.levels == tuple(data.user.unique().tolist())
