"""Commands that a program reads or that begin with a saved fit: their numbers are those of the library, in full."""

import dataclasses
import gzip
import io
import json
import pathlib
import re
import shlex

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.inference import METHODS
from probreg.show.cli.files import read_file
from tests.commands import run
from tests.examples.test_cli import ORINGS

COUNTS = pd.DataFrame(
    {"k": [1, 3, 4, 7, 9, 2], "n": [9, 10, 12, 11, 10, 8], "x": [0.0, 1, 2, 3, 4, 0.5], "g": list("aabbcc"), "w": [1.0, 4, 0.25, 2, 1, 1],
     "t": [1.0, 2, 3, 4, 5, 6], "y": [0.9, 2.1, 3.2, 3.9, 5.3, 1.4]}
)  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    COUNTS.to_csv("rows.csv", index=False)
    return tmp_path


def well(*arguments: str, **options: str) -> str:
    """What a command that succeeds writes on the standard output."""
    result = run(*arguments, **options)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def table_of(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text), keep_default_na=False, na_values=[""])


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ x", ()),
        ("y ~ x + g", ("--weights", "precision:w", "--prior", "normal(2)")),
        ("p(k, n) ~ x", ()),
        ("k ~ x", ("--likelihood", "poisson", "--offset", "log(t)", "--prior", "weak", "--method", "laplace(draws=50)")),
        ("g ~ x", ("--likelihood", "categorical", "--prior", "normal(1)")),
    ],
)  # fmt: skip
def test_predict_writes_what_the_saved_fit_predicts(folder, formula, options):
    well("fit", "rows.csv", formula, "--save", "fit.nc", *options)
    expected = pr.load_fit("fit.nc").predict(COUNTS, 0.8, output="pandas").reset_index()
    found = table_of(well("predict", "fit.nc", "rows.csv", "--prob", "0.8"))
    pd.testing.assert_frame_equal(found, expected, check_exact=True, check_dtype=False)
    assert (
        well("predict", "fit.nc", "rows.csv", "--prob", "0.8", "--output", "out.csv")
        == ""
    )
    pd.testing.assert_frame_equal(table_of((folder / "out.csv").read_text()), found)
    said = json.loads(
        well(
            "predict",
            "fit.nc",
            "-",
            "--json",
            "--prob",
            "0.8",
            input=(folder / "rows.csv").read_text(),
        )
    )
    assert said["prob"] == 0.8
    assert said["kind"]
    assert [row["mean"] for row in said["rows"]] == expected["mean"].tolist()


def test_predict_takes_precisions_of_new_rows(folder):
    well("fit", "rows.csv", "y ~ x", "--weights", "precision:w", "--save", "fit.nc")
    expected = (
        pr.load_fit("fit.nc")
        .predict(COUNTS, weights=pr.weights.precision("w"), output="pandas")
        .reset_index()
    )
    found = table_of(well("predict", "fit.nc", "rows.csv", "--weights", "precision:w"))
    pd.testing.assert_frame_equal(found, expected, check_exact=True, check_dtype=False)
    # the column that the fit names
    assert found.equals(table_of(well("predict", "fit.nc", "rows.csv")))
    COUNTS.drop(columns="w").to_csv("plain.csv", index=False)
    assert not found.equals(table_of(well("predict", "fit.nc", "plain.csv")))


def test_predict_of_new_groups_is_wider_than_of_known_ones(folder):
    well("fit", "sleepstudy", "reaction ~ days + (1 | subject)", "--save", "fit.nc")
    known, new = (
        table_of(well("predict", "fit.nc", "sleepstudy", "--groups", g))
        for g in ("known", "new")
    )
    assert (
        new["mean_upper"] - new["mean_lower"]
        > known["mean_upper"] - known["mean_lower"]
    ).all()


def test_predict_of_a_new_class_of_a_known_group(folder):
    rows = pr.load_dataset("sleepstudy").assign(
        half=lambda d: np.where(d["days"] < 5, "a", "b")
    )
    rows.to_csv("rows.csv", index=False)
    well(
        "fit", "rows.csv", "reaction ~ days + (1 | subject / half)", "--save", "fit.nc"
    )
    rows.iloc[[0]].assign(half="c").to_csv("new.csv", index=False)
    found = table_of(
        well(
            "predict", "fit.nc", "new.csv", "--groups", "subject=known,subject:half=new"
        )
    )
    expected = pr.load_fit("fit.nc").predict(
        rows.iloc[[0]].assign(half="c"),
        groups={"subject": "known", "subject:half": "new"},
        output="pandas",
    )
    np.testing.assert_allclose(
        found["mean_std_error"], expected["mean_std_error"], rtol=1e-9
    )


def test_predict_says_which_row_it_cannot_read_and_a_blank_line_of_one_column_is_a_row(
    folder,
):
    well("fit", *ORINGS, "--save", "fit.nc")
    for content in ("temperature\n31\n\n53\n", "temperature,x\n31,1\n,2\n"):
        result = run("predict", "fit.nc", "-", input=content)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "'temperature' is missing a value in row 1" in result.stderr


def test_fit_writes_the_numbers_of_the_library_in_full(folder):
    fit = pr.fit(pr.Model.from_formula("y ~ x", COUNTS))
    found = table_of(well("fit", "rows.csv", "y ~ x", "--csv", "--prob", "0.9"))
    expected = fit.summary(0.9)
    assert found.columns.tolist() == [
        "fit",
        "coef",
        "estimate",
        "std_error",
        "lower",
        "upper",
        "statistic",
        "p_value",
    ]
    assert found["coef"].tolist() == ["Intercept", "x", "sigma"]
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name])
    (said,) = json.loads(well("fit", "rows.csv", "y ~ x", "--json"))["fits"]
    assert (said["name"], said["good"], said["interval"]) == (
        "ML",
        True,
        {"prob": 0.95, "kind": "t"},
    )
    assert said["statistics"]["AIC"] == fit.aic
    assert said["table"][1]["estimate"] == fit.coef.values[1]
    assert said["table"][2]["p_value"] is None  # sigma has no test


def test_a_fit_beside_others_has_one_row_for_each_of_them_and_the_same_first_columns(
    folder,
):
    arguments = (
        "fit",
        "rows.csv",
        "y ~ x",
        "--prior",
        "normal(1)",
        "--method",
        "laplace(draws=50)",
    )
    found = table_of(well(*arguments, "--csv"))
    assert found["fit"].unique().tolist() == ["ML", "mode", "laplace"]
    assert found.columns[:8].tolist() == [
        "fit",
        "coef",
        "estimate",
        "std_error",
        "lower",
        "upper",
        "statistic",
        "p_value",
    ]
    assert found.loc[found["fit"] != "ML", "p_value"].isna().all()
    assert [fit["name"] for fit in json.loads(well(*arguments, "--json"))["fits"]] == [
        "ML",
        "mode",
        "laplace",
    ]


def test_maximum_likelihood_beside_a_fit_has_no_prior_of_the_noise_either(folder):
    found = table_of(
        well(
            "fit",
            "rows.csv",
            "y ~ x",
            "--prior",
            "normal(1)",
            "--aux",
            "sigma=half_normal(0.01)",
            "--csv",
        )
    )
    alone = pr.fit(pr.Model.from_formula("y ~ x", COUNTS)).summary()
    np.testing.assert_array_equal(
        found.loc[found["fit"] == "ML", "estimate"], alone["estimate"]
    )
    assert found["fit"].unique().tolist() == ["ML", "mode"]


def test_what_does_not_exist_is_null_and_an_estimate_that_runs_away_is_warned_of(
    folder,
):
    pd.DataFrame({"y": [0, 0, 0, 1, 1, 1], "x": [1.0, 2, 3, 4, 5, 6]}).to_csv(
        "apart.csv", index=False
    )
    result = run("fit", "apart.csv", "y ~ x", "--likelihood", "bernoulli", "--json")
    assert result.exit_code == 0
    assert result.stderr.startswith("probreg: warning: ")
    assert result.stderr.count("\n") == 1
    (said,) = json.loads(result.stdout, parse_constant=pytest.fail)["fits"]
    assert not said["good"]
    assert said["table"][1]["std_error"] is None


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("HC3", {"kind": "HC3"}),
        ("cluster:g", {"kind": "cluster", "groups": "g"}),
        ("cluster:g,t", {"kind": "cluster", "groups": ("g", "t")}),
        ("HAC:3", {"kind": "HAC", "lags": 3}),
    ],
)
def test_a_covariance_is_that_of_the_library(folder, text, asked):
    fit = pr.fit(pr.Model.from_formula("y ~ x", COUNTS))
    data = {"data": COUNTS} if "groups" in asked else {}
    expected = fit.summary(covariance=fit.covariance(**asked, **data))
    found = table_of(well("fit", "rows.csv", "y ~ x", "--covariance", text, "--csv"))
    np.testing.assert_array_equal(found["std_error"], expected["std_error"])
    (said,) = json.loads(
        well("fit", "rows.csv", "y ~ x", "--covariance", text, "--json")
    )["fits"]
    assert said["covariance"] == asked["kind"]


def test_every_number_and_word_of_every_method_can_be_set():
    for name, cls in METHODS.items():
        if not dataclasses.is_dataclass(cls):
            continue
        values = {f.name: getattr(cls(), f.name) for f in dataclasses.fields(cls)}
        given = [
            f"{key}={value!r}"
            for key, value in values.items()
            if isinstance(value, int | float | str)
        ]
        assert METHODS.resolve(f"{name}({', '.join(given)})") == cls()
    assert METHODS.resolve("evidence(criterion=ML)") == pr.Evidence(criterion="ML")


def test_settings_reach_the_method_that_has_them(folder):
    arguments = (
        "fit",
        *ORINGS,
        "--prior",
        "weak",
        "--method",
        "laplace(draws=30, chains=2)",
        "--seed",
        "4",
    )
    well(*arguments, "--save", "fit.nc")
    assert pr.load_fit("fit.nc").solution.draws.count == 60
    found = json.loads(
        well(
            "compare",
            *ORINGS,
            "--method",
            "newton",
            "--method",
            "laplace(draws=25)",
            "--json",
        )
    )
    assert [
        fit["seed"]
        for fit in json.loads(well("compare", *ORINGS, "--seed", "5", "--json"))["fits"]
    ] == [5]
    assert [fit["statistics"].get("pss") for fit in found["fits"]] == [None, 100]


def test_compare_sets_formulas_side_by_side(folder):
    formulas = ["y ~ 1", "y ~ x"]
    fits = {f: pr.fit(pr.Model.from_formula(f, COUNTS)) for f in formulas}
    expected = pr.compare_models(fits).table
    found = table_of(well("compare", "rows.csv", *formulas, "--csv"))
    assert found["fit"].tolist() == expected.index.tolist() == ["y ~ x", "y ~ 1"]
    np.testing.assert_array_equal(found["elpd_loo"], expected["elpd_loo"])
    shown = well("compare", "rows.csv", *formulas)
    assert "elpd_diff" in shown
    assert "adjusted R²" in shown
    said = json.loads(well("compare", "rows.csv", *formulas, "--json"))
    assert [model["AIC"] for model in said["models"]] == expected["AIC"].tolist()
    assert [fit["name"] for fit in said["fits"]] == formulas


def test_compare_of_priors_says_why_they_differ(folder):
    shown = well("compare", *ORINGS, "--prior", "flat", "--prior", "normal(0.1)")
    assert "prior of temperature: shift" in shown


def test_compare_fits_the_rows_that_are_complete_for_every_formula():
    result = run(
        "compare",
        "penguins",
        "body_mass_g ~ sex",
        "body_mass_g ~ bill_length_mm",
        "--missing",
        "drop",
        "--json",
    )
    assert "333 rows that are complete for all" in result.stderr
    assert {fit["statistics"]["nobs"] for fit in json.loads(result.stdout)["fits"]} == {
        333
    }


def test_findings_are_those_of_the_library_and_a_problem_has_its_code(folder):
    fit = pr.fit(pr.Model.from_formula("stack_loss ~ .", pr.load_dataset("stackloss")))
    said = json.loads(well("diagnose", "stackloss", "stack_loss ~ .", "--json"))
    assert [f["check"] for f in said["findings"]] == [f.check for f in pr.diagnose(fit)]
    assert said["worst"] == "note"
    found = json.loads(well("check", "stackloss", "stack_loss ~ .", "--json"))
    assert [f["check"] for f in found["findings"]] == [
        f.check for f in pr.check(fit.model)
    ]
    twice = "x,y,z\n1,1,2\n2,3,4\n3,3,6\n4,5,8\n"
    assert run("check", "-", "y ~ x + z", input=twice).exit_code == 1


def test_a_saved_fit_is_diagnosed_and_reported_with_its_rows_or_says_how_to_keep_them(
    folder,
):
    well("fit", "stackloss", "stack_loss ~ air_flow", "--save", "bare.nc")
    well("fit", "stackloss", "stack_loss ~ air_flow", "--save", "whole.nc", "--rows")
    assert "rows" in well("diagnose", "bare.nc")
    assert "Cook's distance" in well("diagnose", "whole.nc", "--verbose")
    assert (
        run(
            "report",
            "bare.nc",
            "--output",
            "page.html",
            "--title",
            "Losses <of> ammonia",
        ).exit_code
        == 0
    )
    assert "Losses &lt;of&gt; ammonia" in (folder / "page.html").read_text()


@pytest.mark.slow
def test_a_report_is_written_from_a_table(folder):
    result = run(
        "report", "rows.csv", "y ~ x", "--prior", "normal(1)", "--output", "page.html"
    )
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "Normal(1) on x" in (folder / "page.html").read_text()


@pytest.mark.parametrize(
    "format",
    ["csv.gz", "tsv", "tsv.gz", "txt", "parquet", "feather", "arrow", "-", "- zipped"],
)
def test_a_table_is_the_same_from_every_file(folder, format):
    text = COUNTS.to_csv(index=False, sep="\t" if "tsv" in format else ",")
    if format.startswith("-"):
        content = gzip.compress(text.encode()) if "zipped" in format else text
        assert run("fit", "-", "y ~ x + g", input=content).stdout == well(
            "fit", "rows.csv", "y ~ x + g"
        )
        return
    path = folder / f"same.{format}"
    if format in ("parquet", "feather", "arrow"):
        pytest.importorskip("pyarrow")
        (COUNTS.to_parquet if format == "parquet" else COUNTS.to_feather)(path)
    else:
        path.write_bytes(
            gzip.compress(text.encode()) if format.endswith("gz") else text.encode()
        )
    pd.testing.assert_frame_equal(
        read_file(str(path)), read_file("rows.csv"), check_dtype=False
    )


def test_streams_that_cannot_be_read_are_refused(folder):
    for content, said in (
        (b"\x1f\x8bnothing", "cannot be unzipped"),
        (b"", "no heading"),
        (b"a,b\n1,2,3\n1,2,3\n", "cannot be read"),
    ):
        result = run("fit", "-", "y ~ x", input=content)
        assert result.exit_code == 1
        assert "the standard input" in result.stderr
        assert said in result.stderr
    (folder / "cut.csv.gz").write_bytes(gzip.compress(b"y,x\n" + b"1,2\n" * 999)[:-9])
    assert "cannot be unzipped" in run("fit", "cut.csv.gz", "y ~ x").stderr


def test_a_normal_likelihood_of_two_classes_is_questioned_on_the_standard_error():
    result = run("fit", "challenger", "damage ~ temperature", "--csv")
    assert result.exit_code == 0
    assert "takes only the values 0 and 1" in result.stderr
    assert "bernoulli" in result.stderr
    assert "damage takes" not in result.stdout
    assert run("fit", *ORINGS, "--csv").stderr == ""


def test_data_sets_are_written_as_they_are_read(folder):
    (folder / "again.csv").write_text(well("datasets", "penguins", "--csv"))
    found, expected = read_file("again.csv"), pr.load_dataset("penguins")
    assert list(found) == list(expected)
    for name in found:
        assert (found[name].isna() == expected[name].isna()).all()
        assert found[name].dropna().tolist() == expected[name].dropna().tolist()
    assert all(d.name in well("datasets") for d in pr.list_datasets())


def test_a_fault_of_the_program_is_one_line(monkeypatch):
    def fails(*_: object) -> None:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr("probreg.show.cli.commands.with_reference_fits", fails)
    monkeypatch.delenv("PROBREG_TRACEBACK", raising=False)
    result = run("fit", *ORINGS)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert "ZeroDivisionError: division by zero" in result.stderr
    monkeypatch.setenv("PROBREG_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        run("fit", *ORINGS)


PAGE = pathlib.Path(__file__).parents[2] / "docs" / "how-to" / "command-line.md"


def typed(line: str, last: int) -> tuple[str, int]:
    """What a line of a shell shows, and its exit code: commands of probreg, `> FILE`, `cat FILE |` and `echo $?`."""
    if line == "echo $?":
        return f"{last}\n", 0
    feed, _, line = line.rpartition(" | ")
    given = pathlib.Path(feed.removeprefix("cat ")).read_text() if feed else None
    words = shlex.split(line)
    assert words[0] == "probreg"
    if ">" not in words:
        result = run(*words[1:], input=given)
        return result.output, result.exit_code
    result = run(*words[1 : words.index(">")], input=given)
    pathlib.Path(words[-1]).write_text(result.stdout)
    return result.stderr, result.exit_code


def test_effects_by_group_stand_beside_their_marginal_maximum_likelihood():
    """lme4 prints 251.405, 10.467 with standard errors 6.632, 1.502 by ML and 6.825, 1.546 by REML."""
    told = table_of(
        well("fit", "sleepstudy", "reaction ~ days + (days | subject)", "--csv")
    ).set_index(["fit", "coef"])
    assert told["std_error"]["ML"]["days"] == pytest.approx(1.502, abs=1e-3)
    assert told["std_error"]["REML"]["days"] == pytest.approx(1.546, abs=1e-3)
    assert told["estimate"].notna().all()
    wide = "1 | subject=covariance(sd=half_normal(5))"
    told = table_of(
        well(
            "fit",
            "sleepstudy",
            "reaction ~ days + (1 | subject)",
            "--prior",
            wide,
            "--csv",
        )
    ).set_index(["fit", "coef"])
    free = pr.fit(
        pr.Model.from_formula(
            "reaction ~ days + (1 | subject)", pr.load_dataset("sleepstudy")
        ),
        pr.Evidence(criterion="ML"),
    )
    assert told["estimate"]["ML"]["sd(Intercept | subject)"] == pytest.approx(
        free.hyper["sd(Intercept | subject)"], rel=1e-6
    )


def test_a_smooth_function_stands_alone():
    """Without its prior it is no maximum likelihood estimate of interest, and sigma would be that of the smooth fit."""
    told = table_of(well("fit", "stackloss", "stack_loss ~ s(air_flow, k=5)", "--csv"))
    assert set(told["fit"]) == {"mode"}


def test_a_smooth_function_keeps_its_penalty_in_the_maximum_likelihood_fit():
    formula = "stack_loss ~ s(air_flow, k=5) + acid_concentration"
    told = table_of(
        well("fit", "stackloss", formula, "--prior", "acid_concentration=normal(0.1)", "--csv")
    ).set_index(["fit", "coef"])  # fmt: skip
    model = pr.Model.from_formula(formula, pr.load_dataset("stackloss"))
    smooth = pr.fit(model, pr.Evidence(criterion="ML"))
    assert told["estimate"]["ML"]["acid_concentration"] == pytest.approx(
        float(smooth.coef.sel(coef="acid_concentration")), rel=1e-6
    )


@pytest.mark.slow
def test_the_commands_of_the_page_print_what_it_shows(folder):
    """In a block of the page "…" stands for the rest of a line, and alone on a line for any lines."""
    blocks = re.findall(
        r"```console\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    steps = re.findall(
        r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks), flags=re.MULTILINE
    )
    assert len(steps) >= 14
    code = 0
    for line, shown in steps:
        output, code = typed(line, code)
        lines = (
            r"(?:.*\n)*" if text == "…" else re.escape(text).replace("…", ".*") + r"\n"
            for text in shown.splitlines()
        )
        assert re.fullmatch("".join(lines), output), f"{line}\n{output}"


def test_labels_beside_missing_values_keep_their_digits(folder):
    rows = pd.DataFrame(
        {
            "user": pd.array(
                [1_700_000_000_000_000_000 + d for d in (0, 60, 300)] * 3 + [None],
                dtype="Int64",
            )
        }
    )
    rows["y"] = range(10)
    rows.to_csv("ids.csv", index=False)
    rows.to_parquet("ids.parquet")
    for path in ("ids.csv", "ids.parquet"):
        found = table_of(
            well("fit", path, "y ~ 0 + C(user)", "--missing", "drop", "--csv")
        )
        assert (
            len(
                [
                    v
                    for v in found.astype(str).to_numpy().ravel()
                    if str(v).startswith("C(user)[")
                ]
            )
            == 3
        )
