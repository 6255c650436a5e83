"""The notebooks of docs run from the first cell to the last, each in one fresh process, and what they end a cell with is shown."""

import pathlib
import re

import pytest

from .fork_pages import Forks

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted(
    p
    for p in (ROOT / "docs").glob("*/*.md")
    if p.read_text().startswith("---\nfile_format: mystnb")
)
CELL = re.compile(
    r"^```\{code-cell\} ipython3\n(?::[^\n]*\n)*(.*?)^```$",  # options, then code
    flags=re.DOTALL | re.MULTILINE,
)

# As Jupyter does: the value of the last expression of a cell is displayed, as HTML where it has some.
RUN = """
import ast, sys
import matplotlib

matplotlib.use("Agg")


def display(value):
    if value is not None:
        html = value._repr_html_() if hasattr(value, "_repr_html_") else None
        print("SHOWN", len(html or repr(value)))


sys.displayhook = display
names = {"__name__": "__main__"}
for number, cell in enumerate(CELLS):
    *body, last = ast.parse(cell).body
    exec(compile(ast.Module(body, []), f"cell {number}", "exec"), names)
    exec(compile(ast.Interactive([last]), f"cell {number}", "single"), names)
"""


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_runs(page: pathlib.Path, tmp_path: pathlib.Path, forks: Forks):
    script = tmp_path / "run.py"
    script.write_text(f"CELLS = {CELL.findall(page.read_text())!r}\n{RUN}")
    done = forks.run_page(script)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.count("SHOWN") > 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_notebook_is_text_with_cells_of_python_and_stands_in_the_list(
    page: pathlib.Path,
):
    text = page.read_text()
    assert text.startswith("---\nfile_format: mystnb\nkernelspec:\n  name: python3\n")
    assert text.count("```{code-cell}") == len(CELL.findall(text)) > 5
    for cell in CELL.findall(text):
        compile(cell, page.name, "exec")
    assert f"({page.name})" in (page.parent / "README.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_picture_has_a_caption_and_a_text_alternative(page: pathlib.Path):
    cells = re.findall(
        r"^```\{code-cell\}.*?^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE
    )
    draws = re.compile(r"^(pr\.plot\.|.*plt\.subplots\()", flags=re.MULTILINE)
    for cell in cells:
        if draws.search(cell):
            assert "caption: " in cell, cell
            assert "alt: " in cell, cell
