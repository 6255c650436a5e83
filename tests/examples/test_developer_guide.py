"""What a page of docs/developer registers goes under the laws that the page names, as if its code were a file of the package."""

import pathlib
import re
import xml.etree.ElementTree as ET

import pytest

from .fork_pages import Forks

ROOT = pathlib.Path(__file__).parents[2]
# The page, what it registers, and words of the laws that run over a whole registry in each of their cases.
ADDITIONS = {
    "likelihood": ("logistic_noise", "every_registered"),
    "count-likelihood": ("geometric", "every_registered"),
    "prior": ("logistic", "every_registered"),
    "method": ("fisher_scoring", "every_registered"),
    "sampler": ("random_walk", "every_registered"),
    "check": ("few_rows", "every_check or checks_count"),
    "diagnostic": (
        "skewness",
        "every_diagnostic or all_nine or the_catalogue or diagnostics_count",
    ),
    "criterion": ("aicc", "every_number"),
    "score": ("pseudospherical", "registered_rules"),
    "learner": ("huber", "every_recipe"),
    "kernel": ("Cosine", "every_registered"),
}
# Pages with a file of laws in common that takes seconds to collect go together.
RUNS = [("prior", "method", "sampler")]
RUNS += [(page,) for page in ADDITIONS if page not in RUNS[0]]


def code_of(page: str) -> str:
    text = (ROOT / "docs" / "developer" / f"{page}.md").read_text()
    return "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))


def laws_of(page: str) -> list[str]:
    """The files that a page names under "Tests"."""
    text = (ROOT / "docs" / "developer" / f"{page}.md").read_text()
    return re.findall(r"`(tests/[\w/]+\.py)`", text.partition("**Tests.**")[2])


# -p imports a page before any test is collected, so that the cases of the laws are made with what it registers
RUN = """
import os, sys
import pytest

os.chdir({root!r})
sys.path.insert(0, {folder!r})
options = ["-n", "0", "-p", "no:cacheprovider", "--junitxml", {results!r}]
assert pytest.main([*options, *{pages!r}, "-k", {cases!r}, *{files!r}]) == 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("pages", RUNS, ids=", ".join)
def test_what_a_page_adds_goes_under_the_laws(
    pages: tuple[str, ...], tmp_path: pathlib.Path, forks: Forks
) -> None:
    """The page runs, and the quick cases of the laws with the new name in them, and the laws of its registry as a whole; none is
    skipped."""
    modules = {page: f"page_{page.replace('-', '_')}" for page in pages}
    for page, module in modules.items():
        (tmp_path / f"{module}.py").write_text(code_of(page))
    words = [word for page in pages for word in ADDITIONS[page]]
    files = [file for page in pages for file in laws_of(page)]
    script = tmp_path / "run.py"
    script.write_text(
        RUN.format(
            root=str(ROOT),
            folder=str(tmp_path),
            results=str(tmp_path / "results.xml"),
            pages=[f"-p{module}" for module in modules.values()],
            cases=" or ".join(dict.fromkeys(words)),
            files=list(dict.fromkeys(files)),
        )
    )
    done = forks.run_page(script)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    cases = {
        case.get("name", ""): case
        for case in ET.parse(tmp_path / "results.xml").iter("testcase")
    }
    skipped = {
        name: said.get("message")
        for name, case in cases.items()
        for said in case.iter("skipped")
    }
    assert skipped == {}
    for page in pages:
        registered, _ = ADDITIONS[page]
        assert any(
            registered in name or "_count_observations" in name for name in cases
        )


def test_every_page_that_adds_is_here_or_registers_nothing() -> None:
    adds = {
        p.stem
        for p in (ROOT / "docs" / "developer").glob("*.md")
        if "**Tests.**" in p.read_text()
    }
    assert adds == set(ADDITIONS) | {"picture", "data-set"}
