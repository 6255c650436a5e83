"""Formulas as MathML, written at build by the converter of docutils: no script, no network, a warning for unknown commands."""

import re
import xml.etree.ElementTree as ET

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
SPACE, APPLY = "0.1667em", "\u2061"
ACCENTS = set("ˆ^˜~ˉ¯˙→")
DIGITS = re.compile(r"\\([td]?)frac\s*(\d)\s*(\d)")
OPERATOR = re.compile(r"\\operatorname\*?\{[^{}]*\}")
OPENING, CLOSING = set("([{|‖⟨⌊⌈"), set(")]}|‖⟩⌋⌉")


def mathml(tex: str, block: bool = False) -> str:
    """MathML of a formula; MathError for unknown commands.

    Two things are mended so that they read as TeX has them: a fraction of two digits, and an accent above a letter with an
    index. Spaces around the names of functions are put in, which browsers leave to the author.
    """
    tex = DIGITS.sub(r"\\\1frac{\2}{\3}", tex)
    tex = OPERATOR.sub(lambda m: m[0].replace("*{", "{").replace(r"\,", " "), tex)
    text = tex2mathml(tex, as_block=block).replace("&ApplyFunction;", APPLY)
    root = ET.fromstring(
        text.replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    )
    for node in list(root.iter("munderover")):
        _accent_first(node)
    for parent in list(root.iter()):
        if parent.tag in ("math", "mrow", "mtd", "msqrt", "mstyle"):
            _space(parent)
    for bar in root.iter("mo"):
        if (bar.text or "").strip() in ("|", "‖"):
            bar.attrib |= {"lspace": "0", "rspace": "0"}
    return ET.tostring(root, encoding="unicode", short_empty_elements=False)


def _accent_first(node: ET.Element) -> None:
    """The index of an accented letter stands at its foot, not below it."""
    base, index, above = list(node)
    if above.tag == "mo" and (above.text or "").strip() in ACCENTS:
        accented = ET.Element("mover", accent="true")
        accented[:] = [base, above]
        node.tag, node.attrib = "msub", {}
        node[:] = [accented, index]


def _is_function(node: ET.Element) -> bool:
    """Whether it is log, Cov, max or such, perhaps with an index."""
    if node.tag in ("msub", "msup", "munder", "msubsup"):
        return _is_function(node[0])
    text = (node.text or "").replace(" ", "").strip()
    return node.tag in ("mi", "mo") and len(text) > 1 and text.isalpha()


def _fence(node: ET.Element, among: set[str]) -> bool:
    if node.tag in ("msub", "msup", "msubsup"):
        node = node[0]
    return node.tag == "mo" and (node.text or "").strip() in among


def _space(row: ET.Element) -> None:
    """A thin space between a function and what stands before it, and before its argument unless that is in brackets."""
    out: list[ET.Element] = []
    found = [node for node in row if (node.text or "").strip() != APPLY]
    for i, node in enumerate(found):
        before = found[i - 1] if i else None
        if before is not None and "mspace" not in (node.tag, before.tag):
            argument = (
                _is_function(before) and not _fence(node, OPENING) and node.tag != "mo"
            )
            factor = _is_function(node) and (
                before.tag != "mo" or _fence(before, CLOSING)
            )
            if argument or factor:
                out.append(ET.Element("mspace", width=SPACE))
        out.append(node)
    row[:] = out


def _set(node: nodes.Element, block: bool) -> str:
    try:
        return mathml(node.astext(), block)
    except (MathError, ET.ParseError) as err:
        logger.warning(
            "formula cannot be set: %s: %s", err, node.astext(), location=node
        )
        return ""


def visit_inline(self, node: nodes.math) -> None:
    self.body.append(_set(node, False))
    raise nodes.SkipNode


def visit_block(self, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="formula"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({node["number"]})</span>')
    self.body.append(_set(node, True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
