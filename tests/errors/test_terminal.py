"""Names come from data: what a terminal would obey in them is written out wherever text is rendered."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import probreg as pr
from probreg.system.terminal import cut_middle, visible, wrap_line
from probreg.tables.render import cut_names
from tests.commands import run

COLUMN, LEVEL = (
    "dose\x1b[2J\nFORGED: all is well\r\x9b",
    "bad\x1b[31m\nFORGED level\u202e",
)


@pytest.fixture(scope="module")
def fit() -> pr.Fit:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(60, 2))
    y = np.where(rng.random(60) < 1 / (1 + np.exp(-x[:, 0])), LEVEL, "a")
    prior = {COLUMN: pr.Normal(1.0)}
    model = pr.Model.from_arrays(
        x,
        y,
        columns=[COLUMN, "z"],
        likelihood="bernoulli",
        prior=prior,
        response=COLUMN,
    )
    return pr.fit(model)


def _sorted_by_response() -> pr.Fit:
    """A fit of which the test of autocorrelation names the response."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=60), np.sort(rng.normal(size=60))
    return pr.fit(pr.Model.from_arrays(x, y, response=COLUMN))


SHOWN: dict[str, Callable[[pr.Fit], Any]] = {
    "fit": lambda fit: fit,
    "model": lambda fit: fit.model,
    "compare": lambda fit: pr.compare(
        {"ML": pr.fit(fit.model.with_prior(pr.Flat())), COLUMN: fit}
    ),
    "check": lambda fit: pr.check(fit.model, verbose=True),
    "diagnose": lambda fit: pr.diagnose(_sorted_by_response(), verbose=True),
    "influence": lambda fit: pr.prior_weight(fit),
    "compare_models": lambda fit: pr.compare_models(
        {COLUMN: fit, "other": pr.fit(fit.model.with_prior(pr.Normal(2.0)))}
    ),
    "comparisons": lambda fit: pr.comparisons(fit, COLUMN),
    "penalty": lambda fit: fit.model.with_prior(pr.Normal(1.0)).penalty(),
    "prior_predictive": lambda fit: fit.model.prior_predictive(20),
    "path": lambda fit: pr.path(
        fit.model.with_prior(pr.Normal(1.0)), scales=[0.5, 1.0]
    ),
}


@pytest.mark.parametrize("name", SHOWN)
def test_no_name_reaches_the_terminal_as_an_order(name, fit):
    text = repr(SHOWN[name](fit))
    assert "FORGED" in text or "…" in text  # a long label is cut
    lines = text.split("\n")
    assert all(line.isprintable() for line in lines)
    assert not any(line.strip().startswith("FORGED") for line in lines)


def test_an_error_of_the_command_line_is_one_harmless_line(tmp_path):
    (tmp_path / "a.csv").write_text('"x\x1b[31m",y\n1,2\n2,1\n3,5\n')
    out = run("fit", str(tmp_path / "a.csv"), "y ~ z\x1b[2J")
    assert out.exit_code == 1
    assert out.output.count("\n") == 1
    assert out.output.rstrip("\n").isprintable()


def test_letters_and_signs_of_all_tongues_stay():
    text = "Größe °F ✓ → 日本語 می‌خواهم 👩‍🔬"
    assert visible(text) == text


def test_columns_line_up_under_wide_names_and_marks():
    """What is printed of wide and of marked names is what is printed of plain names of as many cells."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = X[:, 0] + rng.normal(size=40)
    plain, wide = ("abcd", "ege", "MLML"), ("年齢", "e\u0301ge", "最尤")

    def prints(first: str, second: str, fit: str) -> list[str]:
        model = pr.Model.from_arrays(X, y, columns=[first, second, "x"])
        fits = {fit: pr.fit(model), "ridge": pr.fit(model.with_prior("weak"))}
        return [
            repr(v)
            for v in (
                fits[fit].summary(),
                pr.compare(fits),
                pr.explain(fits),
                pr.table(fits),
            )
        ]

    for expected, printed in zip(prints(*plain), prints(*wide)):
        for name, other in zip(plain, wide):
            expected = expected.replace(name, other)
        assert printed == expected
        assert wide[0] in printed


def test_wide_text_is_cut_and_wrapped_by_cells():
    assert cut_middle("年" * 10, 11) == "年年…年年年"
    assert wrap_line("年年 " * 4, 11)[0] == "年年 年年"
    both = ["年齢" * 8 + str(i) + "年齢" * 8 for i in (1, 2)]
    short = cut_names(both, 20)
    assert len(set(short)) == 2
    assert (
        max(
            2 * sum(c in "年齢" for c in s) + sum(c not in "年齢" for c in s)
            for s in short
        )
        <= 20
    )
