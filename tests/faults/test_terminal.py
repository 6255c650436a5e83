"""Names come from data: what a terminal would obey in them is written out wherever text is rendered."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import probreg as pr
from probreg.show.cli import app
from probreg.system.terminal import visible

COLUMN, LEVEL = "dose\x1b[2J\nFORGED: all is well\r\x9b", "bad\x1b[31m\nFORGED level\u202e"


@pytest.fixture(scope="module")
def fit() -> pr.Fit:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = np.where(rng.random(60) < 1 / (1 + np.exp(-x[:, 0])), LEVEL, "a")
    prior = {COLUMN: pr.Normal(1.0)}
    model = pr.Model.from_arrays(x, y, columns=[COLUMN, "z"], likelihood="bernoulli", prior=prior, response=COLUMN)
    return pr.fit(model)


SHOWN: dict[str, Callable[[pr.Fit], Any]] = {
    "fit": lambda fit: fit,
    "model": lambda fit: fit.model,
    "compare": lambda fit: pr.compare({"ML": pr.fit(fit.model.with_prior(pr.Flat())), COLUMN: fit}),
    "check": lambda fit: pr.check(fit.model, verbose=True),
    "diagnose": lambda fit: pr.diagnose(fit, verbose=True),
    "influence": lambda fit: pr.prior_weight(fit),
    "compare_models": lambda fit: pr.compare_models(
        {COLUMN: fit, "other": pr.fit(fit.model.with_prior(pr.Normal(2.0)))}
    ),
    "comparisons": lambda fit: pr.comparisons(fit, COLUMN),
    "penalty": lambda fit: fit.model.with_prior(pr.Normal(1.0)).penalty(),
    "prior_predictive": lambda fit: fit.model.prior_predictive(20),
    "path": lambda fit: pr.path(fit.model.with_prior(pr.Normal(1.0)), scales=[0.5, 1.0]),
}


@pytest.mark.parametrize("name", SHOWN)
def test_no_name_reaches_the_terminal_as_an_order(name, fit):
    text = repr(SHOWN[name](fit))
    assert "FORGED" in text
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.strip().startswith("FORGED") for line in lines)


def test_an_error_of_the_command_line_is_one_harmless_line(tmp_path):
    (tmp_path / "a.csv").write_text('"x\x1b[31m",y\n1,2\n2,1\n3,5\n')
    out = CliRunner().invoke(app, ["fit", str(tmp_path / "a.csv"), "y ~ z\x1b[2J"])
    assert out.exit_code == 1
    assert out.output.count("\n") == 1
    assert out.output.rstrip("\n").isprintable()


def test_letters_and_signs_of_all_tongues_stay():
    text = "Größe °F ✓ → 日本語 می‌خواهم 👩‍🔬"
    assert visible(text) == text
