"""Every example runs as a user would run it, and its own assertions hold."""

import ast
import pathlib
import runpy

import matplotlib
import pytest

EXAMPLES = sorted((pathlib.Path(__file__).parents[2] / "examples").glob("*.py"))


LONG = {
    "bounds",
    "dask_cluster",
    "interval_coverage",
    "kernel_ridge",
    "larger_than_memory",
    "lms",
    "online_kernel",
    "pymc_by_hand",
    "referee_categorical",
    "seasons",
    "shrinkage",
    "softmax",
    "sparse_experts",
}
CASES = [
    pytest.param(p, id=p.stem, marks=[pytest.mark.slow] if p.stem in LONG else [])
    for p in EXAMPLES
]


@pytest.mark.parametrize("path", CASES)
def test_the_example_runs_and_its_assertions_hold(
    path: pathlib.Path, monkeypatch, tmp_path, capsys
):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    statements = ast.walk(ast.parse(path.read_text()))
    assert any(isinstance(node, ast.Assert) for node in statements)
    runpy.run_path(str(path), run_name="__main__")
    assert len(capsys.readouterr().out) > 200
