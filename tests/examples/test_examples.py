"""Every example runs as a user would run it, and its own assertions hold."""

import ast
import pathlib
import shutil

import pytest

from .fork_pages import Forks

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_its_assertions_hold(
    path: pathlib.Path, tmp_path: pathlib.Path, forks: Forks
):
    statements = ast.walk(ast.parse(path.read_text()))
    assert any(isinstance(node, ast.Assert) for node in statements)
    done = forks.run_page(pathlib.Path(shutil.copy(path, tmp_path)))
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout) > 200
