"""The command line: what it prints, what it writes, and one line with an exit code for whatever is wrong."""

import json
import os
import subprocess
import sys
import typing

import numpy as np
import pandas as pd
import pytest

import probreg as pr
from probreg.likelihoods import LikelihoodName
from probreg.priors.text import parse_aux, parse_prior
from probreg.show.cli.files import formulas_by_parameter, read_file
from tests.commands import run

COMMANDS = (
    "demo",
    "fit",
    "predict",
    "compare",
    "check",
    "diagnose",
    "report",
    "datasets",
)
ORINGS = ["challenger", "damage ~ temperature", "--likelihood", "bernoulli"]


@pytest.fixture
def table(tmp_path):
    rng = np.random.default_rng(3)
    x = rng.normal(size=50)
    frame = pd.DataFrame(
        {
            "y": 1.0 + 2.0 * x + rng.normal(size=50),
            "x": x,
            "g": np.where(x > 0, "None", "low"),
        }
    )
    path = tmp_path / "rows.csv"
    frame.to_csv(path, index=False)
    return path


def test_the_version_is_printed():
    assert run("--version").output == f"probreg {pr.__version__}\n"


@pytest.mark.slow
def test_the_module_runs_as_a_program_and_a_terminal_without_signs_gets_an_answer():
    command = [sys.executable, "-m", "probreg", "check", *ORINGS]
    out = subprocess.run(
        command,
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert b"6 checks passed" in out.stdout


def test_data_sets_are_listed_and_described():
    assert "stackloss" in run("datasets").output
    assert "°F" in run("datasets", "challenger").output


def test_without_a_command_there_is_help():
    result = run()
    assert result.exit_code == 0
    for command in COMMANDS:
        assert command in result.output


@pytest.mark.parametrize("command", COMMANDS)
def test_each_help_has_an_example_of_its_command(command):
    shown = " ".join(run(command, "--help").output.split())
    assert f"Example: probreg {command}" in shown


def test_the_help_of_fit_names_every_likelihood():
    shown = "".join(run("fit", "--help").output.split())
    assert [
        name
        for name in typing.get_args(typing.get_args(LikelihoodName)[0])
        if name not in shown
    ] == []


def test_a_likelihood_takes_its_settings():
    result = run("fit", "motorcycle", "accel ~ times", "--likelihood", "quantile(0.9)")
    assert result.exit_code == 0, result.output
    assert "0.9 quantile of accel" in result.output
    wrong = run("fit", "motorcycle", "accel ~ times", "--likelihood", "quantile(nine)")
    assert wrong.exit_code == 2
    assert "'nine'" in wrong.output


def test_check_prints_findings_and_its_code_tells_a_problem(tmp_path):
    few, all_of = run("check", *ORINGS), run("check", *ORINGS, "--verbose")
    assert few.exit_code == 0
    assert "checks passed" in few.output
    assert "✓ Events" not in few.output
    events = next(x for x in all_of.output.splitlines() if x.startswith("✓ Events"))
    assert "P(damage = 1)" in events
    path = tmp_path / "apart.csv"
    pd.DataFrame({"y": [0, 0, 0, 1, 1, 1], "x": [1.0, 2, 3, 4, 5, 6]}).to_csv(
        path, index=False
    )
    result = run("check", str(path), "y ~ x", "--likelihood", "bernoulli")
    assert result.exit_code == 1
    assert "complete separation" in result.output


@pytest.mark.parametrize("more", [(), ("--prior", "normal(0.3)", "--aux", "sigma=1")])
def test_verbose_prints_every_row(more, tmp_path):
    rng, path = np.random.default_rng(0), tmp_path / "wide.csv"
    table = pd.DataFrame(
        rng.normal(size=(80, 40)), columns=[f"x{i}" for i in range(40)]
    )
    table.assign(y=table.sum(axis=1) + rng.normal(size=80)).to_csv(path, index=False)
    formula = "y ~ " + " + ".join(table.columns)
    few = run("fit", str(path), formula, *more)
    assert "--verbose" in few.output
    result = run("fit", str(path), formula, *more, "--verbose")
    rows = result.output.partition("Every row")[2]
    assert all(f"x{i} " in rows for i in range(40))


def test_fit_prints_the_numbers_of_the_library(table):
    result = run("fit", str(table), "y ~ x")
    assert result.exit_code == 0, result.output
    fit = pr.fit(pr.Model.from_formula("y ~ x", pd.read_csv(table)))
    assert f"{fit.coef.sel(coef='x').item():.3f}" in result.output


def test_fit_with_a_prior_stands_beside_maximum_likelihood_and_is_saved(
    table, tmp_path
):
    saved, page = tmp_path / "fit.nc", tmp_path / "page.html"
    result = run(
        "fit", str(table), "y ~ x + g", "--prior", "x=normal(0.5), g=normal(2)", "--aux", "sigma=1.5", "--method", "laplace",
        "--seed", "3", "--prob", "0.8", "--save", str(saved),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert "80 % intervals" in result.output
    for name in ("ML", "mode", "laplace"):
        assert name in result.output
    loaded = pr.load_fit(saved)
    assert loaded.seed == 3
    assert loaded.model.fixed == {"sigma": 1.5}
    assert loaded.model.joint.blocks[-1].prior == pr.Normal(2.0)
    result = run("report", str(saved), "--output", str(page))
    assert str(page) in result.output.replace("\n", "")
    assert "Normal(0.5) on x" in page.read_text(encoding="utf-8")


def test_semicolons_separate_the_formulas_of_parameters(table, tmp_path):
    saved, text = tmp_path / "fit.nc", "y ~ x; log sigma ~ x"
    result = run("fit", str(table), text, "--csv", "--save", str(saved))
    formulas = {"y": "y ~ x", "log sigma": "~ x"}
    fit = pr.fit(pr.Model.from_formula(formulas, pd.read_csv(table)))
    assert result.output.count("ML,log sigma: x,") == 1
    assert repr(fit.coef[-1].item())[:12] in result.output
    forecast = run("predict", str(saved), str(table), "--csv").output
    assert repr(fit.predict()["mean"][0].item())[:12] in forecast
    wrong = run("fit", str(table), "y ~ x; log sigma")
    assert wrong.exit_code == 1
    assert "'y ~ x; log sigma': expected each parameter" in wrong.output
    assert formulas_by_parameter("`a;b` ~ x") == "`a;b` ~ x"
    assert formulas_by_parameter("`a~b` ~ x; log sigma ~ z") == {
        "`a~b`": "`a~b` ~ x",
        "log sigma": "~ z",
    }


def test_event_and_reference_are_levels_of_the_column():
    result = run("fit", *ORINGS, "--event", "0")
    assert "P(damage = 0)" in result.output
    result = run("fit", "penguins", "species ~ bill_length_mm + bill_depth_mm", "--likelihood", "categorical", "--prior", "normal(1)",
                 "--reference", "Gentoo", "--missing", "drop")  # fmt: skip
    assert "against the reference class Gentoo" in result.output


def test_an_event_is_written_as_in_the_file_and_a_name_with_spaces_is_found(tmp_path):
    file = tmp_path / "rows.csv"
    lines = [f"{i % 7},{'TRUE' if i % 3 else 'FALSE'}" for i in range(20)]
    file.write_text("\n".join(["x, late", *lines]))
    result = run("fit", str(file), "late ~ x", "--likelihood", "bernoulli")
    assert "did you mean ' late'?" in result.output
    result = run("fit", str(file), "` late` ~ x", "--likelihood", "bernoulli", "--event", "FALSE", "--json")  # fmt: skip
    assert json.loads(result.output)["fits"][0]["status"] == "converged"


def test_parquet_reads_like_csv(table, tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "rows.parquet"
    read_file(str(table)).to_parquet(path)
    assert (
        run("fit", str(path), "y ~ x + g").output
        == run("fit", str(table), "y ~ x + g").output
    )


def test_a_level_called_none_is_a_level(table):
    assert set(read_file(str(table))["g"]) == {"None", "low"}


def test_a_dot_leaves_out_row_names_without_a_heading(tmp_path):
    path = tmp_path / "from_r.csv"
    path.write_text('"","x","y"\n"1",1,2\n"2",3,4\n"3",4,9\n')
    assert list(read_file(str(path)).columns) == ["", "x", "y"]
    for model in (
        pr.Model.from_formula("y ~ .", read_file(str(path))),
        pr.Model.from_files("y ~ .", path),
    ):
        assert model.design.columns == ("Intercept", "x")
        assert "the column without a name" in model.design.notes[0]


def test_lines_may_end_with_a_carriage_return_alone(tmp_path):
    path = tmp_path / "mac.csv"
    path.write_bytes(b"x,y\r1,2\r3,4\r")
    assert read_file(str(path)).to_numpy().tolist() == [[1, 2], [3, 4]]


STACKLOSS = ["fit", "stackloss", "stack_loss ~ air_flow"]
USAGE = [
    (["fit", "challenger"], "FORMULA"),
    (["fit", *ORINGS, "--prio", "flat"], "--prio"),
    (["fit", *ORINGS, "--seed", "one"], "--seed"),
    (["fit", *ORINGS, "--prob", "95"], "0.95"),
    (["fit", *ORINGS, "--method", "nut"], "did you mean 'nuts'"),
    (["fit", *ORINGS, "--prior", "norml(1)"], "did you mean 'normal'"),
    (["fit", *ORINGS, "--missing", "ignore"], "choose from"),
    (
        ["fit", *ORINGS, "--likelihood", "logit"],
        "bernoulli",
    ),
    (
        ["fit", *ORINGS, "--method", "nuts(drws=5)"],
        "did you mean draws=",
    ),
    (
        ["fit", *ORINGS, "--method", "nuts(draws=many)"],
        "'many'",
    ),
    (["fit", *ORINGS, "--method", "nuts(draws=-1)"], "at least 1, got -1"),
    (
        ["fit", *ORINGS, "--method", "nuts(progress=stan)"],
        "'stan'",
    ),
    (["fit", *ORINGS, "--method", "nuts(draws)"], "'draws' in 'nuts(draws)'"),
    (["fit", *ORINGS, "--method", "nuts(draws=5, draws=6)"], "draws twice"),
    (["fit", *ORINGS, "--method", "nuts(draws=5"], "such as nuts(draws=2000)"),
    (["fit", *ORINGS, "--rows"], "--rows needs --save"),
    (["fit", *ORINGS, "--json", "--csv"], "--json"),
    ([*STACKLOSS, "--covariance", "HC9"], "did you mean 'HC3'"),
    ([*STACKLOSS, "--covariance", "HAC:few"], "such as HAC:4"),
    ([*STACKLOSS, "--covariance", "HC3:air_flow"], "takes nothing after a colon"),
    ([*STACKLOSS, "--covariance", "cluster"], "cluster:COLUMN"),
    ([*STACKLOSS, "--decimal", "x"], "--decimal"),
    ([*STACKLOSS, "--separator", ";;"], "one character"),
    (["predict", "fit.nc", "-", "--groups", "old"], "'old' is not one of"),
    (["diagnose", "stackloss"], "has a FORMULA after it"),
    (["diagnose", "fit.nc", "y ~ x"], "takes no FORMULA"),
    (
        ["report", "fit.nc", "--prior", "weak", "--missing", "drop"],
        "takes no --prior and no --missing",
    ),
    (["compare", *ORINGS, "--prior", "weak", "--prior", "weak"], "given twice"),
    (
        ["compare", *ORINGS, "--method", "newton(draws=5)"],
        "newton takes no draws=",
    ),
    (["diagnose", "fit.nc", "--seed", "0"], "takes no --seed"),
    (["diagnose", "fit.nc", "--separator", ";"], "takes no --separator"),
    (["fit", *ORINGS, "--json", "--verbose"], "--json"),
    (["check", *ORINGS, "--json", "--verbose"], "--json"),
    (["compare", *ORINGS, "--prob", "0.9"], "no intervals"),
    (["compare", *ORINGS[:2], "damage ~ 1", "--prob", "0.9"], "no intervals"),
    (["datasets", "--csv"], "--csv needs NAME"),
    (["datasets", "chalenger"], "did you mean 'challenger'"),
    (["fits"], "'fits'"),
]
REFUSED = [
    (["fit", "absent.csv", "y ~ x"], "there is no file 'absent.csv'"),
    (["fit", "challenger", "damage ~ temprature"], "did you mean 'temperature'"),
    (["fit", "challenger", "damage ~ import(os)"], ""),
    (["fit", *ORINGS, "--method", "closed_form"], "can fit this model"),
    (["fit", *ORINGS, "--prior", "age=normal(1)"], "not a column"),
    (["fit", *ORINGS, "--event", "2"], "'2' is not a level"),
    (
        ["fit", "penguins", "body_mass_g ~ sex"],
        "drop",
    ),
    (["fit", *ORINGS, "--save", "absent/fit.nc"], "make it first"),
    (["fit", *ORINGS, "--method", "laplace", "--covariance", "HC3"], "such as"),
    (
        ["fit", "sleepstudy", "reaction ~ days", "--covariance", "cluster:subjct"],
        "no such column",
    ),
    (["check", "challenger", "damage"], ""),
    ([*STACKLOSS, "--separator", ";"], "--separator is for text files"),
    ([*STACKLOSS, "--decimal", ","], "--decimal is for text files"),
    (["predict", "absent.nc", "challenger"], "there is no file absent.nc"),
    (["report", *ORINGS, "--output", "absent/page.html"], "make it first"),
    (
        [
            "compare",
            "penguins",
            "sex ~ year",
            "body_mass_g ~ year",
            "--missing",
            "drop",
        ],
        "",
    ),
    (["demo", "--output", "absent/page.html"], "make it first"),
]


@pytest.mark.parametrize(
    ("arguments", "said", "code"),
    [(*case, 2) for case in USAGE] + [(*case, 1) for case in REFUSED],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else None,
)
def test_what_is_wrong_is_one_line_and_a_code_tells_usage_from_refusal(
    arguments, said, code
):
    result = run(*arguments)
    assert result.exit_code == code
    assert result.stdout == ""
    assert result.stderr.startswith("probreg: ")
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "no heading"),
        (b"y,x\n", "no rows"),
        (b"y;x\n1;2\n", "--separator ';'"),
        (b"x,x\n1,2\n", "more than one column called 'x'"),
        (b"y,x\n1,2\n1,2,3\n", "line 3"),
        (b"y,x\n1,2,3\n1,2,3\n", "cannot be read"),
        (b"y,x\n1,\xff\n", "UTF-8"),
    ],
)
def test_files_that_are_no_tables(tmp_path, content, said):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(pr.DataError, match=said):
        read_file(str(path))


def test_other_files(tmp_path):
    for name, content in {"rows.xlsx": b"x", "rows.parquet": b"no parquet"}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(pr.DataError, match="rows"):
            read_file(str(tmp_path / name))
    with pytest.raises(pr.DataError, match="folder"):
        read_file(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "prior"),
    [
        ("flat", pr.Flat()),
        ("normal(2.5)", pr.Normal(2.5)),
        (" normal( scale = 2 , location=-1 ) ", pr.Normal(2.0, location=-1.0)),
        ("normal(1e-1, sigma_units=true)", pr.Normal(0.1, sigma_units=True)),
        ("student(2.5, nu=3)", pr.priors.StudentT(2.5, nu=3.0)),
        ("x=laplace(1)", {"x": pr.Laplace(1.0)}),
        (
            "bs(x, df=4)[1]=normal(1), Intercept=normal(10)",
            {"bs(x, df=4)[1]": pr.Normal(1.0), "Intercept": pr.Normal(10.0)},
        ),
    ],
)
def test_priors_as_text(text, prior):
    assert parse_prior(text) == prior


@pytest.mark.parametrize(
    "text",
    ["", "normal(", "normal)1(", "normal(x)", "normal(1, 2, 3, 4, 5)", "normal(1, scale=2)", "normal(scale=1, 2)", "normal(location=1, 2)", "normal(size=1)",
     "normal(inf)", "normal(nan)", "normal(1)(2)", "normal(1), laplace(1)", "x=normal(1), x=normal(2)", "__import__('os')", "normal(1) + 1"],
)  # fmt: skip
def test_texts_that_are_no_priors(text):
    with pytest.raises(pr.ProbregError):
        parse_prior(text)


def test_nuisance_parameters_as_text():
    assert parse_aux("sigma = half_cauchy(5)") == {"sigma": pr.priors.HalfCauchy(5.0)}
    assert parse_aux("sigma=2") == {"sigma": 2.0}
    assert parse_aux("") == {}
    for text in ("sigma", "half_normal(1)", "sigma=normal(1)", "sigma=-", "sigma=inf"):
        with pytest.raises(pr.ProbregError):
            parse_aux(text)


@pytest.mark.slow
def test_the_demo_goes_from_data_to_report(tmp_path):
    out = tmp_path / "demo.html"
    result = run("demo", "--quick", "--output", str(out))
    assert result.exit_code == 0, result.output
    for word in ("separation", "posterior", "P(damage) at 31 °F", "report written"):
        assert word in result.output
    assert "<h1>" in out.read_text(encoding="utf-8")


# ---- files and streams that are not what they seem -----------------------------------------------------------------


@pytest.mark.parametrize("place", [".", "/dev/full", "nowhere/out"])
def test_a_place_that_takes_no_file_is_said_before_the_fit(place, table):
    out = run("fit", str(table), "y ~ x", "--save", place)
    assert out.exit_code == 1
    assert out.output.startswith(f"probreg: cannot write to {place}: ")
    assert out.output.count("\n") == 1


@pytest.mark.slow
def test_a_full_output_is_one_line():
    with open("/dev/full", "w") as full:
        out = subprocess.run(
            [sys.executable, "-m", "probreg", "datasets"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert out.returncode == 1
    assert (
        out.stderr
        == "probreg: the output cannot be written or read: No space left on device\n"
    )


@pytest.mark.parametrize(
    "make",
    [lambda p: p.symlink_to("/dev/zero"), os.mkfifo, os.mkdir],
    ids=["zero", "pipe", "folder"],
)
def test_data_are_read_from_plain_files_only(make, tmp_path):
    make(tmp_path / "rows.csv")
    out = run("fit", str(tmp_path / "rows.csv"), "y ~ x")
    assert out.exit_code == 1
    assert "it is a" in out.output


def test_a_separator_is_used_whatever_the_ending_of_the_file(tmp_path):
    path = tmp_path / "commas.tsv"
    path.write_text("y,x\n1,2\n3,4\n")
    assert read_file(str(path), ",").to_numpy().tolist() == [[1, 2], [3, 4]]
    with pytest.raises(pr.DataError, match="--separator ','"):
        read_file(str(path))


def test_decimal_commas_are_told_and_read(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("y;x;place\n1,5;1;a,1\n2,5;2;b,2\n3,25;4;c,3\n4;5;d,4\n")
    out = run("fit", str(path), "y ~ x", "--separator", ";")
    assert out.exit_code == 1
    assert "column 'y' holds '1,5', which reads as text: pass --decimal ," in out.output
    rows = read_file(str(path), ";", ",", "y ~ x")
    assert rows["y"].tolist() == [1.5, 2.5, 3.25, 4.0]
    assert rows["place"].tolist() == ["a,1", "b,2", "c,3", "d,4"]
    assert (
        run("fit", str(path), "y ~ x", "--separator", ";", "--decimal", ",").exit_code
        == 0
    )
    assert read_file(str(path), ";", ".", "y ~ x")["y"].tolist() == [
        "1,5",
        "2,5",
        "3,25",
        "4",
    ]
    assert read_file(str(path), ";", None, "x ~ place")["y"].tolist() == [
        "1,5",
        "2,5",
        "3,25",
        "4",
    ]
    assert run("fit", str(path), "y ~ x", "--decimal", "x").exit_code == 2
