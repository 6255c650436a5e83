"""The section of a report on groups: its numbers are those of the fits, its sentences are true where a variance vanishes or has no interval."""

import pytest

import probreg as pr
from probreg.show.report import report
from tests.equivalence.test_group_pictures import data, fit_of
from tests.examples.test_report import read


def section(fits, tmp_path) -> tuple[str, str]:
    page = report(fits, tmp_path / "page.html", sections="groups").read_text(
        encoding="utf-8"
    )
    return " ".join(read(page).text.split()), page


def test_sentences_and_table_hold_the_numbers_of_the_fit(tmp_path):
    fit = fit_of(12, "(x | g)")
    text, page = section(fit, tmp_path)
    assert "The fit has 12 groups of g." in text
    one = pr.compare({"a": fit}).data.sel(fit="a")
    numbers = text.partition("Standard deviations and correlations")[2]
    for name in ("sd(Intercept | g)", "sd(x | g)", "cor(Intercept, x | g)"):
        row = one.sel(param=name)
        assert row["estimate"].item() == pytest.approx(fit.hyper[name])
        for quantity in ("estimate", "lower", "upper"):
            assert f"{row[quantity].item():.3f}" in numbers
    assert "Intraclass correlation" in text
    assert "(x | g) uses 16.3 of 24; 0 is complete pooling" in text
    assert page.count("<img") == 1


def test_a_variance_that_vanishes_and_a_softmax(tmp_path):
    text, page = section(fit_of(12, "(1 | g) + (1 | h)"), tmp_path)
    assert page.count("<img") == 2
    text, page = section(fit_of(12, "(1 | g)", "kind"), tmp_path)
    assert "No intraclass correlation: R² of groups is of one linear predictor" in text
    assert page.count("<img") == 1


@pytest.mark.slow
def test_fits_stand_side_by_side_and_one_without_groups_has_no_section(tmp_path):
    rows = data(12)
    plain = pr.fit(pr.Model.from_formula("y ~ x", rows))
    both = {"plain": plain, "REML": fit_of(12, "(x | g)")}
    text, _ = section(both, tmp_path)
    assert "By REML" in text
    assert "not in it" in text
    assert (
        'id="groups"'
        in report(both, tmp_path / "all.html", sections=["model", "groups"]).read_text()
    )
    with pytest.raises(pr.DataError, match="no fit has effects that vary by a group"):
        report(plain, tmp_path / "page.html", sections="groups")
    held = pr.Model.from_formula(
        "y ~ x + (1 | g)", rows, prior={"1 | g": pr.Covariance(sd=1.0)}
    )
    text, _ = section(pr.fit(held.with_aux(sigma=0.5)), tmp_path)
    assert "held" in text
