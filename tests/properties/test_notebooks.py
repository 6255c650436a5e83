"""What a notebook shows: every object that prints has HTML, it is well-formed, and names from data are text."""

import ast
import pathlib

import numpy as np
import pytest

import probreg as pr
from tests.examples.test_report import read

pytestmark = pytest.mark.filterwarnings("ignore:.*:probreg.errors.ProbregWarning")
ROOT = pathlib.Path(pr.__file__).parent
PLAIN = {"arguments", "kernels"}  # rooms whose objects print as one expression
NASTY = "<u>&amp;x</u>"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X @ [1.0, -1.0] + RNG.normal(size=40)
MODEL = pr.Model.from_arrays(
    X, Y, columns=[NASTY, "z"], response="<i>y</i>", prior=pr.Normal(1.0)
)
FIT = pr.fit(MODEL)

SHOWN = {
    "model": lambda: MODEL,
    "path": lambda: pr.path(MODEL, [0.5, 1.0]),
    "tune": lambda: pr.tune(MODEL, "loo", scales=[0.5, 1.0]),
    "hypothesis": lambda: pr.hypothesis(
        pr.ols(X, Y, columns=[NASTY, "z"]), f"`{NASTY}` = 0"
    ),
    "predictions": lambda: pr.predictions(FIT, by=NASTY),
    "slopes": lambda: pr.slopes(FIT),
    "compare_models": lambda: pr.compare_models({NASTY: FIT, "again": FIT}),
    "interval_panel": lambda: pr.interval_panel(FIT, "z"),
    "conformal": lambda: pr.conformal(FIT, prob=0.8),
    "guarantee": lambda: pr.guarantee(FIT, y_range=(-9.0, 9.0)),
    "prior_predictive": lambda: MODEL.prior_predictive(50),
    "fit": lambda: FIT,
    "compare": lambda: pr.compare({NASTY: FIT}),
    "check": lambda: pr.check(MODEL),
    "prior_weight": lambda: pr.prior_weight(FIT),
    "penalty": lambda: MODEL.penalty(sigma=1.0),
    "list_datasets": pr.list_datasets,
}


def test_what_prints_itself_has_html():
    lacking = []
    for file in ROOT.rglob("*.py"):
        if (
            file.relative_to(ROOT).parts[0] in PLAIN
            or "def __repr__" not in file.read_text()
        ):
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ClassDef):
                own = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
                # a likelihood prints one word
                is_word = node.name == "GaussianByLink"
                if "__repr__" in own and "_repr_html_" not in own and not is_word:
                    lacking.append(f"{file.name}: {node.name}")
    assert not lacking


@pytest.mark.parametrize("name", SHOWN)
def test_html_is_well_formed_and_names_are_text(name):
    shown = SHOWN[name]()
    found = read(shown._repr_html_())
    assert not {"u", "i", "script"} & set(found.tags)
    if NASTY in repr(shown):
        assert NASTY in found.text


def test_cells_are_whole():
    shown = MODEL.penalty(sigma=1.0)
    text = read(shown._repr_html_()).text
    assert all(row.call in text for row in shown.rows)


def test_long_tables_fold():
    table = {"x": np.arange(80.0), "y": np.arange(80.0) % 7}
    effects = pr.predictions(pr.ols("y ~ x", table), at={"x": list(range(50))})
    assert len(repr(effects).splitlines()) <= 40
    assert "20 more rows" in effects._repr_html_()
    front, _, folded = effects._repr_html_().partition("<details>")
    assert (front.count("<tr"), folded.count("<tr")) == (31, 21)
    longer = pr.predictions(
        pr.ols("y ~ x", table), at={"x": list(np.linspace(0.0, 79.0, 502))}
    )._repr_html_()
    assert (longer.count("<tr"), longer.count("2 more rows in ")) == (502, 1)


WIDE = pr.Model.from_arrays(RNG.normal(size=(80, 40)), RNG.normal(size=80))


@pytest.mark.parametrize("make", [
    lambda: pr.fit(WIDE),
    lambda: pr.compare({"ML": pr.fit(WIDE), "mode": pr.fit(WIDE.with_prior(pr.Normal(0.1)))}),
], ids=["fit", "comparison"])  # fmt: skip
def test_long_pages_fold_and_lose_nothing(make):
    said = make()._repr_html_()
    front, _, folded = said.partition("<details>")
    assert folded
    assert front.count("<tr") <= 40
    assert all(f"x{j}" in said for j in range(1, 41))


def test_pages_are_made_in_one_place():
    """One module writes tables of HTML."""
    own = [p.name for p in ROOT.rglob("*.py") if "<table" in p.read_text("utf-8")]
    assert own == ["table.py"]
