"""The mathematics that pages set between dollars is LaTeX that becomes MathML."""

import pathlib
import re

import pytest
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml

ROOT = pathlib.Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
EXPLAINED = sorted((ROOT / "docs" / "explanation").glob("*.md"))
OURS = [*EXPLAINED, ROOT / "docs" / "notation.md"]
DISPLAY, INLINE = re.compile(r"\$\$(.+?)\$\$", re.DOTALL), re.compile(r"\$([^$\n]+?)\$")


def of_page(page: pathlib.Path) -> str:
    return page.relative_to(ROOT).with_suffix("").as_posix()


def without_code(text: str) -> str:
    return re.sub(
        r"(`+)(?:(?!`).)+?\1",
        "code",
        re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE),
    )


def formulas(text: str) -> list[str]:
    text = without_code(text)
    return DISPLAY.findall(text) + INLINE.findall(DISPLAY.sub("", text))


def fault(formula: str) -> str | None:
    """Why a formula is not set as it was meant, or None."""
    try:
        tex2mathml(formula)
    except (MathError, AttributeError, IndexError) as why:
        return f"{formula!r}: {why}"
    if re.search(r"\\[dt]?(?:frac|binom)\s*\d|\\sqrt\s*\d\d", formula):
        return f"{formula!r}: bare digits are read as one number, so that braces are needed"
    return (
        f"{formula!r}: write \\mid, \\lvert or \\lVert, for a bar ends the cell of a table"
        if "|" in formula
        else None
    )


@pytest.mark.parametrize("page", PAGES, ids=of_page)
def test_every_formula_becomes_mathml(page: pathlib.Path):
    text = page.read_text()
    assert [said for f in formulas(text) if (said := fault(f))] == []
    left = INLINE.sub("", DISPLAY.sub("", without_code(text)))
    assert "$" not in left, "a dollar without its partner"
    assert page not in OURS or not re.search(
        r"^ {4,}\S.*[=≥≤]", without_code(text), re.MULTILINE
    ), "a formula that is indented, not set"


def test_the_check_of_formulas_can_fail():
    assert formulas("a $x$, `$no$`\n\n```python\ncost = '$'\n```\n\n$$\ny\n$$") == [
        "\ny\n",
        "x",
    ]
    assert "Unknown LaTeX command" in str(fault(r"\operatornam{tr} H"))
    assert "braces" in str(fault(r"\frac12 x"))
    assert "a bar" in str(fault("|x|"))
    assert fault(r"\operatorname{tr} H + \frac{1}{2}") is None
