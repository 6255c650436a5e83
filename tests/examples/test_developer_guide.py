"""What a page of docs/developer registers goes under the laws that the page names, as if its code were a file of the package."""

import os
import pathlib
import re
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

ROOT = pathlib.Path(__file__).parents[2]
# The page, what it registers, and words of the laws that run over a whole registry in each of their cases.
ADDITIONS = [
    ("likelihood", "logistic_noise", "every_registered"),
    ("count-likelihood", "geometric", "every_registered"),
    ("prior", "logistic", "every_registered"),
    ("method", "fisher_scoring", "every_registered"),
    ("sampler", "random_walk", "every_registered"),
    ("check", "few_rows", "every_check or checks_count"),
    (
        "diagnostic",
        "skewness",
        "every_diagnostic or all_nine or the_catalogue or diagnostics_count",
    ),
    ("criterion", "aicc", "every_number"),
    ("score", "pseudospherical", "registered_rules"),
    ("learner", "huber", "every_recipe"),
    ("kernel", "Cosine", "every_registered"),
]


def laws_of(page: str) -> list[str]:
    """The files that a page names under "Tests"."""
    return list(
        dict.fromkeys(
            re.findall(r"`(tests/[\w/]+\.py)`", page.partition("**Tests.**")[2])
        )
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "registered", "whole"), ADDITIONS, ids=[name for name, *_ in ADDITIONS]
)
def test_what_a_page_adds_goes_under_the_laws(
    name: str, registered: str, whole: str, tmp_path: pathlib.Path
) -> None:
    """The quick cases of the laws with the new name in them, and the laws of its registry as a whole; none is skipped."""
    page = (ROOT / "docs" / "developer" / f"{name}.md").read_text()
    (tmp_path / "page.py").write_text(
        "\n".join(re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL))
    )
    # -p page imports the page before any test is collected, so that the cases of the laws are made with what it registers
    options = [
        "-p",
        "page",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        f"--junitxml={tmp_path / 'found.xml'}",
    ]
    options += ["-k", f"{registered} or {whole}"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *laws_of(page)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"},
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    cases = {
        case.get("name", ""): case
        for case in ET.parse(tmp_path / "found.xml").iter("testcase")
    }
    skipped = {
        name: said.get("message")
        for name, case in cases.items()
        for said in case.iter("skipped")
    }
    assert skipped == {}
    assert any(registered in name or "_count_observations" in name for name in cases)


def test_every_page_that_adds_is_here_or_registers_nothing() -> None:
    adds = {
        p.stem
        for p in (ROOT / "docs" / "developer").glob("*.md")
        if "**Tests.**" in p.read_text()
    }
    assert adds == {name for name, *_ in ADDITIONS} | {"picture", "data-set"}
