"""The Python that README and docs show runs as it stands, each page in a process of its own.

Blocks of ```text are what the page prints, folded or not; a line of "…" stands for lines that are left out.
"""

import pathlib
import re
import tomllib

import pytest

import probreg as pr

from .fork_pages import Forks
from .test_developer_guide import ADDITIONS

ROOT = pathlib.Path(__file__).parents[2]
EVERY = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
PAGES = [  # those of the developer guide that register something run in test_developer_guide
    p
    for p in EVERY[1:]
    if "```python" in p.read_text()
    and not (p.parent.name == "developer" and p.stem in ADDITIONS)
]
SOURCES = [
    p
    for room in ("probreg", "tests", "examples", "benchmarks")
    for p in (ROOT / room).rglob("*.py")
]


def of_page(page: pathlib.Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_the_code_of_a_page_runs(
    page: pathlib.Path, tmp_path: pathlib.Path, forks: Forks
):
    code = "\n".join(
        re.findall(r"```python\n(.*?)```", page.read_text(), flags=re.DOTALL)
    )
    script = tmp_path / "page.py"
    script.write_text(code)
    done = forks.run_page(script)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = " ".join(done.stdout.split())
    shown = re.findall(r"```text\n(.*?)```", page.read_text(), flags=re.DOTALL)
    pieces = [
        " ".join(piece.split()) for block in shown for piece in block.split("…\n")
    ]
    assert [piece for piece in pieces if piece not in printed] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", page.read_text())
    assert [
        name for name in pictures if not (tmp_path / name).exists()
    ] == []  # each is made by the page that shows it


@pytest.mark.parametrize("page", EVERY, ids=of_page)
def test_the_links_of_a_page_lead_somewhere(page: pathlib.Path):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_pages_that_code_and_messages_name_exist():
    named = {
        m
        for p in [*SOURCES, *EVERY]
        for m in re.findall(r"docs/[\w/-]+\.md", p.read_text())
    }
    assert sorted(name for name in named if not (ROOT / name).exists()) == []


def test_the_citation_names_this_version_and_the_licence():
    said = dict(
        re.findall(
            r"^([\w-]+): (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE
        )
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title"} <= set(said)
    assert (said["version"], said["license"]) == (
        project["version"],
        project["license"],
    )
    assert project["version"] == pr.__version__


@pytest.mark.slow
def test_the_readme_prints_the_tables_that_it_shows(
    tmp_path: pathlib.Path, forks: Forks
):
    text = (ROOT / "README.md").read_text()
    script = tmp_path / "page.py"
    script.write_text(
        "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    )
    done = forks.run_page(script)
    assert done.returncode == 0, done.stderr[-2000:]
    printed = [line.split() for line in done.stdout.splitlines()]
    lines = [
        line.split()
        for block in re.findall(r"```text\n(.*?)```", text, flags=re.DOTALL)
        for line in block.splitlines()
    ]
    assert len(lines) > 12
    for line in lines:
        exact = line in printed
        assert exact or any(
            _equal_up_to_monte_carlo_error(line, other) for other in printed
        ), line


def _equal_up_to_monte_carlo_error(line: list[str], other: list[str]) -> bool:
    """Draws of PyMC depend on the processor: equal words, and numbers within 6 % or 0.2 (of differences in units of SE)."""
    if len(line) != len(other):
        return False
    for a, b in zip(line, other):
        try:
            x, y = float(a), float(b)
        except ValueError:
            if a != b:
                return False
            continue
        if abs(x - y) > max(0.06 * abs(x), 0.2):
            return False
    return True
