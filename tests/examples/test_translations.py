"""The calls of docs/coming-from and the numbers of the other packages agree: one script for each page."""

import pathlib
import shutil

import pytest

from .fork_pages import Forks

SCRIPTS = sorted((pathlib.Path(__file__).parent / "translations").glob("*.py"))
PAGES = pathlib.Path(__file__).parents[2] / "docs" / "coming-from"


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_calls_of_another_package_have_the_same_numbers(script, tmp_path, forks: Forks):
    done = forks.run_page(pathlib.Path(shutil.copy(script, tmp_path)))
    assert done.returncode == 0, done.stderr[-2000:]


def test_every_page_of_calls_has_a_script():
    pages = {page.stem.replace("-", "_") for page in PAGES.glob("*.md")} - {"index"}
    assert pages == {script.stem.removeprefix("from_") for script in SCRIPTS}
