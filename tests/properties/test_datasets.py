"""Laws over every bundled data set: the card tells the truth about the rows, and rows may be passed on."""

import csv
import importlib
import importlib.resources
import io
import json
import pathlib
import re
import sys

import numpy as np
import pandas as pd
import pytest

from probreg.datasets import describe_dataset, list_datasets, load_dataset
from probreg.errors import DataError
from tests.conftest import reference_path

CARDS = list_datasets()
SHIPPED = [card for card in CARDS if not card.provider]
BORROWED = [card for card in CARDS if card.provider]
FOLDER = importlib.resources.files("probreg.datasets")
OPEN_LICENCES = {"public domain", "CC0-1.0"}
REGISTRY_HOSTS = ["py" + "pi.", "pythonhosted", "cran.", "conda", "npm"]


def by_name(card):
    return card.name


def rows_of(card):
    if card.provider:
        pytest.importorskip(
            card.provider.partition(".")[0],
            reason="carries the rows probreg may not ship",
        )
    return load_dataset(card.name)


def raw(card):
    text = FOLDER.joinpath(f"{card.name}.csv").read_text(encoding="utf-8")
    return list(csv.reader(io.StringIO(text)))


def binomial_logit(x, successes, trials):
    """Newton's iteration for an intercept and one slope; shares no code with probreg."""
    X = np.column_stack([np.ones_like(x), x])
    beta = np.zeros(2)
    for _ in range(30):
        p = 1 / (1 + np.exp(-X @ beta))
        information = (X.T * (trials * p * (1 - p))) @ X
        beta = beta + np.linalg.solve(information, X.T @ (successes - trials * p))
    return beta


# ---------------------------------------------------------------- laws: every data set


@pytest.mark.parametrize("card", CARDS, ids=by_name)
def test_the_card_names_the_columns_and_counts_the_rows(card):
    frame = rows_of(card)
    assert list(frame.columns) == list(card.columns)
    assert len(frame) == card.rows
    assert list(frame.index) == list(range(card.rows))
    assert card.response in card.columns


@pytest.mark.parametrize("card", CARDS, ids=by_name)
def test_every_column_has_the_dtype_its_card_states(card):
    frame = rows_of(card)
    for name, column in card.columns.items():
        dtype = frame[name].dtype
        if column.levels:
            assert column.dtype == "category", name
            assert list(dtype.categories) == list(column.levels), name
            assert dtype.ordered, name
            assert set(frame[name]) == set(column.levels), (
                f"{name}: a level that no row has"
            )
        elif column.dtype == "str":
            assert pd.api.types.is_string_dtype(frame[name].dropna()), name
        else:
            assert column.dtype in {"int64", "float64"}, name
            assert dtype == np.dtype(column.dtype), name


@pytest.mark.parametrize("card", CARDS, ids=by_name)
def test_every_card_states_source_licence_question_and_units(card):
    for text in (
        card.title,
        card.source,
        card.licence,
        card.licence_note,
        card.question,
        card.changes,
    ):
        assert text.strip()
    assert card.question.endswith("?")
    assert re.search(r"\b(1[89]|20)\d\d\b", card.source), "a source has a year"
    for name, column in card.columns.items():
        assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
        assert column.about.strip(), name
        assert column.unit.strip(), name
        explained = re.search(r"\d|coded as", column.about)
        assert explained or "code" not in column.unit, f"{name}: codes unexplained"


@pytest.mark.parametrize("card", CARDS, ids=by_name)
def test_rows_are_in_the_folder_exactly_when_the_licence_lets_everyone_pass_them_on(
    card,
):
    shipped = FOLDER.joinpath(f"{card.name}.csv").is_file()
    assert shipped == (card.licence in OPEN_LICENCES)
    assert shipped == (card.provider == "")


@pytest.mark.parametrize("card", CARDS, ids=by_name)
def test_no_card_points_at_a_machine_or_a_package_registry(card):
    text = FOLDER.joinpath(f"{card.name}.toml").read_text(encoding="utf-8")
    assert not re.search(r"(^|[\s\"'(])(/[A-Za-z]|[A-Za-z]:\\|~/|file:)", text)
    assert [host for host in REGISTRY_HOSTS if host in text.lower()] == []


@pytest.mark.parametrize("card", CARDS, ids=by_name)
def test_a_card_prints_within_the_line_and_shows_every_fact(card):
    printed = str(card)
    assert max(len(line) for line in printed.splitlines()) <= 110
    flat = " ".join(printed.split())
    for text in (card.title, card.question, card.source, card.licence, card.changes):
        assert " ".join(text.split()) in flat
    for name, column in card.columns.items():
        assert f"{name} {column}" in flat


# ---------------------------------------------------------------- laws: the files


@pytest.mark.parametrize("card", SHIPPED, ids=by_name)
def test_missing_values_are_exactly_the_cells_written_na(card):
    """A label outside its levels, or a cell lost in reading, would show up as one more missing value."""
    cells = np.array(raw(card)[1:])
    np.testing.assert_array_equal(
        load_dataset(card.name).isna().to_numpy(), cells == "NA"
    )
    assert not (cells == "").any()


@pytest.mark.parametrize("card", SHIPPED, ids=by_name)
def test_numbers_are_read_to_the_last_bit(card):
    header, *cells = raw(card)
    frame = load_dataset(card.name)
    for j, name in enumerate(header):
        if card.columns[name].dtype in {"int64", "float64"}:
            written = [
                float("nan") if row[j] == "NA" else float(row[j]) for row in cells
            ]
            np.testing.assert_array_equal(frame[name].to_numpy(float), written)


def test_every_csv_has_a_card_and_the_folder_stays_small():
    sizes = {
        f.name: len(f.read_bytes())
        for f in FOLDER.iterdir()
        if f.name.endswith((".csv", ".toml"))
    }
    assert {n[:-4] for n in sizes if n.endswith(".csv")} == {
        card.name for card in SHIPPED
    }
    assert max(sizes.values()) < 300_000
    assert sum(sizes.values()) < 600_000


def test_loading_twice_gives_two_frames():
    first = load_dataset("stackloss")
    first.loc[0, "stack_loss"] = -1.0
    assert load_dataset("stackloss").loc[0, "stack_loss"] == 42.0


# ---------------------------------------------------------------- the list and the errors


def test_the_list_prints_one_line_for_each():
    lines = repr(CARDS).splitlines()
    assert len(lines) == len(CARDS) == 10
    for line, card in zip(lines, CARDS, strict=True):
        assert line.startswith(card.name)
        assert line.endswith(card.question)
        assert len(line) <= 110


@pytest.mark.parametrize("reader", [load_dataset, describe_dataset])
def test_an_unknown_name_says_what_there_is(reader):
    with pytest.raises(
        DataError, match=r"'chalenger'; did you mean 'challenger'\? There are: anes96, "
    ):
        reader("chalenger")
    with pytest.raises(
        DataError, match=r"no data set is called '\.\./errors'\. There are: "
    ):
        reader("../errors")
    with pytest.raises(DataError, match="name is text, got 3"):
        reader(3)


@pytest.mark.parametrize("card", BORROWED, ids=by_name)
def test_rows_of_an_absent_provider_are_an_error_that_names_it(card, monkeypatch):
    monkeypatch.setitem(sys.modules, card.provider, None)
    with pytest.raises(
        DataError, match=r"not shipped with probreg.*Install statsmodels"
    ):
        load_dataset(card.name)


def test_a_provider_that_renamed_its_columns_is_an_error_that_names_them(monkeypatch):
    module = pytest.importorskip("statsmodels.datasets.spector")
    data = module.load_pandas()
    data.data = data.data.rename(columns={"PSI": "psi_new"})
    monkeypatch.setattr(module, "load_pandas", lambda: data)
    with pytest.raises(DataError, match=r"no longer has the columns \['PSI'\]"):
        load_dataset("spector")


# ---------------------------------------------------------------- numbers known from elsewhere


def test_challenger_agrees_with_the_published_logistic_fits():
    orings = load_dataset("challenger")
    x = orings["temperature"].to_numpy()
    any_ring = binomial_logit(x, orings["damage"].to_numpy(), np.ones(len(x)))
    # printed to four decimals
    np.testing.assert_allclose(any_ring, [15.0429, -0.2322], atol=5e-5)
    of_six = binomial_logit(x, orings["damaged"].to_numpy(), orings["rings"].to_numpy())
    # Dalal et al. print three decimals of the intercept and four of the slope
    np.testing.assert_array_less(np.abs(of_six - [5.085, -0.1156]), [5e-4, 5e-5])
    np.testing.assert_array_equal(orings["damage"], orings["damaged"] > 0)
    assert orings["flight"].is_unique
    assert set(orings["rings"]) == {6}


def test_challenger_has_the_reference_rows():
    reference = json.loads(
        reference_path("logistic/challenger_binary.json").read_text()
    )
    temperatures = [row[1] for row in reference["design"]["X"]]
    expected = sorted(zip(temperatures, reference["design"]["y"], strict=True))
    orings = load_dataset("challenger")
    assert sorted(zip(orings["temperature"], orings["damage"], strict=True)) == expected


def test_longley_starts_with_1947():
    first = load_dataset("longley").iloc[0]
    assert first.tolist() == [60323, 83.0, 234289, 2356, 1590, 107608, 1947]


def test_stackloss_is_brownlees_21_days():
    frame = load_dataset("stackloss")
    assert len(frame) == 21
    assert frame.iloc[0].tolist() == [42, 80, 27, 89]
    assert frame.iloc[-1].tolist() == [15, 70, 20, 91]


def test_motorcycle_rows_are_those_of_the_tests_of_statsmodels():
    results = (
        importlib.resources.files(pytest.importorskip("statsmodels.gam.tests"))
        / "results"
        / "motorcycle.csv"
    )
    theirs = np.genfromtxt(
        io.StringIO(results.read_text(encoding="utf-8")), delimiter=",", skip_header=1
    )
    np.testing.assert_array_equal(load_dataset("motorcycle"), theirs)
    assert load_dataset("motorcycle")["times"].nunique() == 94  # as its card says


def test_penguins_counts():
    frame = load_dataset("penguins")
    assert frame["species"].value_counts().to_dict() == {
        "Adelie": 152,
        "Gentoo": 124,
        "Chinstrap": 68,
    }
    assert frame.isna().to_numpy().sum() == 19
    assert len(frame.dropna()) == 333


def test_smokers_have_the_published_survival_in_ten_years():
    """Hernán and Robins (2020), chapter 17: 82.0 % of those who went on smoking, 76.2 % of those who quit."""
    frame = load_dataset("smokers")
    assert frame["death"].sum() == 318
    alive = 1 - frame.groupby("quit")["death"].mean()
    np.testing.assert_allclose(alive[["no", "yes"]], [0.820, 0.762], atol=5e-4)
    assert (frame.loc[frame["death"] == 0, "months"] == 120).all()


def test_spector_grades():
    pytest.importorskip("statsmodels")
    frame = load_dataset("spector")
    assert len(frame) == 32
    assert frame["grade"].sum() == 11
    assert frame["psi"].sum() == 14


def test_anes96_names_follow_the_codes():
    frame = load_dataset("anes96")
    np.testing.assert_array_equal(frame["party"].cat.codes, frame["party_id"])
    assert set(frame["vote"]) == {"Clinton", "Dole"}


# original name -> ours, for every set whose rows statsmodels also has
RENAMED = {
    "longley": {
        "TOTEMP": "employed",
        "GNPDEFL": "gnp_deflator",
        "GNP": "gnp",
        "UNEMP": "unemployed",
        "ARMED": "armed_forces",
        "POP": "population",
        "YEAR": "year",
    },
    "stackloss": {
        "STACKLOSS": "stack_loss",
        "AIRFLOW": "air_flow",
        "WATERTEMP": "water_temperature",
        "ACIDCONC": "acid_concentration",
    },
    "anes96": {
        "popul": "population",
        "TVnews": "tv_news",
        "selfLR": "self_lr",
        "ClinLR": "clinton_lr",
        "DoleLR": "dole_lr",
        "PID": "party_id",
        "age": "age",
        "educ": "education",
        "income": "income",
    },
    "spector": {"GPA": "gpa", "TUCE": "tuce", "PSI": "psi", "GRADE": "grade"},
    "fair": {
        "rate_marriage": "rate_marriage",
        "age": "age",
        "yrs_married": "years_married",
        "children": "children",
        "religious": "religious",
        "educ": "education",
        "occupation": "occupation",
        "occupation_husb": "husband_occupation",
        "affairs": "affairs",
    },
}


@pytest.mark.parametrize("name", RENAMED)
def test_rows_are_those_of_statsmodels_value_for_value(name):
    """An integer dtype that cut off a fraction would show up here."""
    pytest.importorskip("statsmodels")
    theirs = importlib.import_module(f"statsmodels.datasets.{name}").load_pandas().data
    ours = load_dataset(name)
    for original, renamed in RENAMED[name].items():
        np.testing.assert_array_equal(
            ours[renamed].to_numpy(float), theirs[original].to_numpy(float), renamed
        )


def test_anes96_votes_are_those_of_statsmodels():
    module = pytest.importorskip("statsmodels.datasets.anes96")
    theirs = module.load_pandas().data["vote"]
    np.testing.assert_array_equal(load_dataset("anes96")["vote"] == "Dole", theirs == 1)


def test_penguins_are_those_of_palmerpenguins():
    theirs = pytest.importorskip("palmerpenguins").load_penguins()
    pd.testing.assert_frame_equal(load_dataset("penguins"), theirs, check_dtype=False)


def test_every_data_file_of_the_tests_has_a_row_with_its_licence():
    data = pathlib.Path(__file__).parents[1] / "reference" / "data"
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")]
        for line in (data / "README.md").read_text().splitlines()
        if line.startswith("| ") and "`" in line
    ]
    assert all(len(row) == 4 and row[3] for row in rows)
    named = {name for row in rows for name in re.findall(r"`([^`]+)`", row[0])}
    named -= {"tables"}
    without = [
        path
        for path in (p.relative_to(data) for p in data.rglob("*.*"))
        if path.name != "README.md"
        and path.as_posix() not in named
        and path.with_suffix("").as_posix() not in named
        and path.parent.as_posix() not in named
    ]
    assert without == []
