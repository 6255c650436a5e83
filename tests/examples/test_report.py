"""The report is one page that stands alone: valid, without addresses, with the numbers of the comparison, and safe."""

import base64
import re
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

import probreg as pr
from probreg.comparison import compare
from probreg.show.report import SECTIONS, report
from probreg.show.report.sections import figure_address

VOID = {"meta", "img", "br", "link", "hr"}


class Strict(HTMLParser):
    """Collects tags, attributes and text; fails on a tag that is closed wrongly."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> closes <{self.open[-1]}>"
        self.open.pop()

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def read(page: str) -> Strict:
    parser = Strict()
    parser.feed(page)
    parser.close()
    assert not parser.open
    return parser


@pytest.fixture(scope="module")
def orings() -> dict[str, pr.Fit]:
    data = pr.load_dataset("challenger")
    model = pr.Model.from_formula("damage ~ temperature", data, likelihood="bernoulli")
    regular = model.with_prior(pr.Normal(0.1))
    return {
        "ML": pr.fit(model),
        "mode": pr.fit(regular),
        "posterior": pr.fit(regular, pr.NUTS(draws=250, tune=250, chains=2), seed=4),
    }


@pytest.fixture(scope="module")
def page(orings, tmp_path_factory) -> str:
    where = report(
        orings,
        tmp_path_factory.mktemp("report") / "orings.html",
        prob=0.9,
        title="O-rings",
    )
    return where.read_text(encoding="utf-8")


def test_the_page_is_valid_and_complete(page):
    found = read(page)
    assert page.startswith("<!DOCTYPE html>")
    assert found.tags.count("h1") == 1
    assert re.findall(r'<section id="(\w+)">', page) == [
        s for s in SECTIONS if s != "predictions"
    ]  # no rows were named
    for heading in (
        "Answer",
        "Model",
        "Checks of the model",
        "Comparison of the fits",
        "Diagnostics of the fits",
    ):
        assert heading in found.text
    for fact in (
        "O-rings",
        "the other level is 0",
        "damage ~ temperature",
        "Normal(0.1) on temperature",
    ):
        assert fact in found.text


def test_the_page_reaches_for_nothing_outside(page):
    assert not re.search(r"https?://|//cdn|@import|url\(", page)
    assert not {"script", "link", "iframe", "object"} & set(read(page).tags)
    for source in re.findall(r'src="([^"]*)"', page):
        head, _, body = source.partition(",")
        assert head == "data:image/svg+xml;base64"
        svg = base64.b64decode(body).decode()
        assert not re.search(r'(href|src)="(?!#|data:)', svg)
        assert "<script" not in svg


def test_the_page_holds_the_numbers_of_the_comparison(page, orings):
    found = read(page)
    data = compare(orings, 0.9).data
    for name in orings:
        one = data.sel(fit=name, param="temperature")
        for quantity in ("estimate", "lower", "upper"):
            # the SE 0.06 asks for four places
            assert f"{one[quantity].item():.4f}" in found.text
    assert (
        f"{data['difference'].sel(fit='mode', param='temperature').item():+.2f}"
        in found.text
    )


def test_pictures_have_texts_and_tables_have_scopes(page):
    found = read(page)
    alts = [value for key, value in found.attributes if key == "alt"]
    assert len(alts) == found.tags.count("img") == 6
    assert all(alts)
    scopes = [value for key, value in found.attributes if key == "scope"]
    assert len(scopes) == found.tags.count("th")


@pytest.mark.slow
def test_nasty_names_are_text(tmp_path):
    nasty = "<script>alert('x')</script>"
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    model = pr.Model.from_arrays(
        X,
        X[:, 0] + rng.normal(size=40),
        columns=[nasty, "b&amp;<i>"],
        response="<b>y</b>",
    )
    fits = {
        "<img src=x onerror=alert(1)>": pr.fit(model),
        "]]> --> posterior": pr.fit(
            model.with_prior(pr.Normal(1.0, sigma_units=True)), "conjugate"
        ),
    }
    found = read(
        report(fits, tmp_path / "nasty.html", title="</title><script>").read_text(
            encoding="utf-8"
        )
    )
    assert "script" not in found.tags
    assert not [k for k, _ in found.attributes if k.startswith("on")]
    assert found.tags.count("img") == 4
    assert nasty in found.text
    assert "b&amp;<i>" in found.text


@pytest.mark.slow
def test_a_fit_that_does_not_exist_is_reported_as_such(tmp_path):
    x = np.arange(10.0)
    model = pr.Model.from_arrays(
        x, (x > 4.5).astype(int), columns=["dose"], likelihood="bernoulli"
    )
    with pytest.warns(pr.ProbregWarning):
        lost = pr.fit(model)
    found = read(
        report(
            {"ML": lost, "mode": pr.fit(model.with_prior(pr.Normal(1.0)))},
            tmp_path / "lost.html",
        ).read_text()
    )
    assert "does not exist" in found.text
    assert "no maximum likelihood estimate exists" in found.text
    assert "✗ problem" in found.text


@pytest.mark.slow
def test_several_outcomes_make_a_page(tmp_path):
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=60), rng.integers(0, 3, 60)
    model = pr.Model.from_arrays(
        x, y, columns=["x"], likelihood="categorical", prior=pr.Normal(1.0)
    )
    fits = {
        "mode": pr.fit(model, "newton"),
        "posterior": pr.fit(model, pr.LaplaceApproximation(draws=400)),
    }
    found = read(report(fits, tmp_path / "page.html").read_text(encoding="utf-8"))
    assert found.tags.count("img") == 4
    assert "No picture" not in found.text


@pytest.mark.parametrize(
    ("method", "draws"), [(pr.LaplaceApproximation, 1), (pr.Importance, 5)]
)
def test_a_posterior_of_few_draws_has_a_report(method, draws, tmp_path):
    x = np.arange(30.0)
    model = pr.Model.from_arrays(x, x % 3 > 1, columns=["x"], likelihood="bernoulli")
    fit = pr.fit(model, method(draws=draws), seed=1)
    assert fit.solution.posterior.count < 25
    found = read(
        report(
            fit, tmp_path / "page.html", sections=["comparison", "diagnostics"]
        ).read_text(encoding="utf-8")
    )
    assert "Diagnostics of the fits" in found.text


def test_pictures_are_never_wider_than_the_page():
    css = (Path(pr.__file__).parent / "show/report/page.html").read_text("utf-8")
    rules = re.findall(r"([^{}]*img[^{}]*)\{([^}]*)\}", css)
    assert any(
        "max-width: 100%" in rule for at, rule in rules if at.strip() == "figure img"
    )
    assert not [rule for _, rule in rules if "max-width: none" in rule]
    assert not re.search(r"\.picture \{[^}]*overflow", css)


@pytest.mark.slow
def test_a_picture_of_a_transformed_variable_needs_no_table(tmp_path):
    penguins = pr.load_dataset("penguins")
    model = pr.Model.from_formula(
        "body_mass_g ~ bs(flipper_length_mm, df=4)", penguins, missing="drop"
    )
    found = read(
        report({"least squares": pr.fit(model)}, tmp_path / "a.html").read_text(
            encoding="utf-8"
        )
    )
    assert "pass data=" not in found.text
    assert "2 of 344 rows were dropped" in found.text
    assert found.tags.count("img") == 3


def test_a_saved_fit_makes_a_page_without_its_rows(tmp_path):
    model = pr.Model.from_arrays(
        np.arange(8.0), [1.0, 2.0, 2.5, 4.0, 5.5, 6.0, 6.5, 9.0], columns=["dose"]
    )
    saved = pr.load_fit(pr.fit(model).save(tmp_path / "fit.nc"))
    found = read(
        report({"saved": saved}, tmp_path / "page.html").read_text(encoding="utf-8")
    )
    assert "saved without its rows" in found.text
    assert found.tags.count("img") == 1


def test_the_same_figure_is_the_same_text(orings):
    import matplotlib

    from probreg.show import plot

    found = figure_address(plot.coefficients(orings))
    assert found == figure_address(plot.coefficients(orings))
    # what savefig draws at its second time, byte for byte
    out = BytesIO()
    bare = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "probreg"}):
        plot.coefficients(orings).savefig(out, format="svg", dpi=120, metadata=bare)
    assert base64.b64decode(found.partition(",")[2]) == out.getvalue()


def test_a_folder_that_is_not_there(orings, tmp_path):
    with pytest.raises(pr.DataError, match="make it first"):
        report(orings, tmp_path / "absent" / "page.html")


@pytest.mark.slow
def test_a_report_of_a_saturated_fit_has_no_residuals_to_draw(tmp_path):
    fit = pr.fit(
        pr.Model.from_formula(
            "k ~ c", {"k": [1, 2, 3, 4], "c": list("abcd")}, likelihood="poisson"
        )
    )
    assert pr.report(fit, tmp_path / "report.html").exists()
