"""Formulas as MathML, written at build by the converter of docutils: no script, no network, a warning for what it cannot read."""

import re

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
# `log p` needs a space that browsers do not add; `log(p)` needs none.
APPLIED = re.compile(r"(<mo>&ApplyFunction;</mo>)(?!\s*<mo[^>]*>[(\[{|‖])")


def mathml(tex: str, node: nodes.Node, block: bool) -> str:
    text = tex.replace(r"\operatorname*", r"\operatorname").replace(r"\,", " ") if "operatorname" in tex else tex
    try:
        found = tex2mathml(text, as_block=block)
    except (MathError, AttributeError, IndexError) as err:
        logger.warning("formula cannot be set: %s: %s", err, tex, location=node)
        return f"<code>{nodes.Text(tex)}</code>"
    return APPLIED.sub(r'\1<mspace width="0.1667em"></mspace>', found)


def visit_inline(self, node: nodes.math) -> None:
    self.body.append(mathml(node.astext(), node, False))
    raise nodes.SkipNode


def visit_block(self, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        self.body.append(f'<span class="eqno">({node["number"]})</span>')
    self.body.append(mathml(node.astext(), node, True) + "</div>\n")
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
